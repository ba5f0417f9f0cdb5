"""Keys: making, splitting and checking them. The only module that knows what a key is made of.

A key is a uint32 array of shape (2,); an array of keys has these words along its last axis. Samplers pass
what they are given through `key_words` and hand the result to the primitives. Read next:
`primitives/threefry.py`, `_samplers.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core import config, dtypes
from didax.core.avals import aval_of
from didax.core.errors import TracerIntegerConversionError, api_boundary, message
from didax.core.tracing import Tracer
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import shift_right_logical
from didax.primitives.shape import reshape
from didax.primitives.slicing import concatenate
from didax.primitives.threefry import UINT32, random_fold_in_p, random_split_p
from didax.random._programs import program


@api_boundary
def PRNGKey(seed: Any) -> Any:
    """A key from an integer: uint32 of shape (2,). The low 32 bits of `seed` count, under enable_x64 all 64.

    >>> from didax import random
    >>> random.PRNGKey(42)
    Array([ 0, 42], dtype=uint32)
    """
    high, low = _seed_words(seed)
    return concatenate([reshape(high, (1,)), reshape(low, (1,))], 0)


def key(seed: Any) -> Any:
    """A key from an integer; see `PRNGKey`.

    >>> from didax import random
    >>> random.uniform(random.key(0)).shape
    ()
    """
    return PRNGKey(seed)


@api_boundary
def split(key: Any, num: int | Sequence[int] = 2) -> Any:
    """An array of `num` new keys (an int or a shape), independent of each other; do not use `key` again.

    >>> from didax import random
    >>> first, second = random.split(random.key(0))
    >>> random.split(random.key(0), (3, 4)).shape
    (3, 4, 2)
    """
    return split_words(key_words("split", key), shape=canonical_shape("split", num))


@api_boundary
def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and an integer: for the steps of a loop, say, without splitting ahead.

    >>> from didax import random
    >>> random.fold_in(random.key(0), 7).shape
    (2,)
    """
    words = key_words("fold_in", key)
    aval = aval_of(data)
    if not dtypes.is_integer(aval.dtype) or aval.shape != ():
        raise TypeError(
            message(
                "fold_in takes one integer.",
                f"data: {data if aval.shape == () and not isinstance(data, Tracer) else aval}",
                fix="Use vmap to fold several integers in, and int(x) or x.astype for other dtypes.",
            )
        )
    if type(data) is int:
        if not 0 <= data < 1 << 32:
            raise OverflowError(
                message(
                    "fold_in takes an integer of 32 bits.",
                    f"data: {data}",
                    fix="Fold in its parts one after the other.",
                )
            )
        return random_fold_in_p.bind(words, np.uint32(data))
    return random_fold_in_p.bind(words, convert_element_type(data, UINT32))


@program
def split_words(words: Any, *, shape: tuple[int, ...]) -> Any:
    """New keys from the words of one."""
    return random_split_p.bind(words, shape=shape)


def child(words: Any, i: int) -> Any:
    """Key number i of those that `split` would give."""
    return random_fold_in_p.bind(words, np.uint32(i))


def key_words(name: str, key: Any) -> Any:
    """The two words of a single key; TypeError or ValueError in the name of the function that was called."""
    aval = getattr(key, "aval", None) or (aval_of(key) if isinstance(key, np.ndarray) else None)
    if aval is None or aval.dtype != UINT32 or aval.shape[-1:] != (2,):
        raise TypeError(
            message(
                f"{name} takes a key: a uint32 array of shape (2,).",
                f"key: {key!r} of type {type(key).__name__}" if aval is None else f"key: {aval}",
                fix="Make one with didax.random.key(seed), and more with didax.random.split.",
            )
        )
    if aval.ndim != 1:
        raise ValueError(
            message(
                f"{name} takes a single key.",
                f"key: {aval}, an array of keys of shape {aval.shape[:-1]}",
                fix=f"Use vmap to map {name} over an array of keys.",
            )
        )
    return key


def canonical_shape(name: str, shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of non-negative ints; a bare int is a shape with one axis."""
    try:
        lengths = tuple([operator.index(n) for n in (shape if isinstance(shape, tuple | list) else (shape,))])
    except TracerIntegerConversionError:  # says itself what to do
        raise
    except TypeError:
        raise TypeError(
            message(
                f"{name} takes a shape of integers.",
                f"shape: {shape!r}",
                fix="Pass an int or a tuple of ints.",
            )
        ) from None
    if any(n < 0 for n in lengths):
        raise ValueError(
            message(
                f"{name} takes a shape of non-negative lengths.",
                f"shape: {lengths}",
                fix="Leave out the negative ones.",
            )
        )
    return lengths


def _seed_words(seed: Any) -> tuple[Any, Any]:
    """High and low word of a seed, as JAX counts them: the high word is 0 without enable_x64."""
    aval = aval_of(seed)
    if dtypes.kind_of(aval.dtype) not in "biu" or aval.shape != ():
        raise TypeError(
            message(
                "A seed is one integer.",
                f"seed: {aval}",
                fix="Use vmap to make several keys, and int(x) or x.astype for other dtypes.",
            )
        )
    wide = config.state().enable_x64
    if isinstance(seed, int | np.generic):
        number, bits = int(seed), 8 * aval.dtype.itemsize
        if isinstance(seed, int):
            bits = 64
            _check_int64(number)
        high = number >> 32 if wide and bits == 64 else 0
        return np.uint32(high & 0xFFFFFFFF), np.uint32(number & 0xFFFFFFFF)
    low = convert_element_type(seed, UINT32)
    if aval.dtype.itemsize < 8 or not wide:
        return np.uint32(0), low
    word = aval.dtype.type(32)
    return convert_element_type(shift_right_logical.bind(seed, word), UINT32), low


def _check_int64(seed: int) -> None:
    if not -(1 << 63) <= seed < 1 << 63:
        raise OverflowError(
            message(
                "A seed is an integer of 64 bits.",
                f"seed: {seed}",
                fix="Fold its parts in with didax.random.fold_in.",
            )
        )
