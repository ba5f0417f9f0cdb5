"""Functions that make, split and check keys; only this module knows what a user may pass as a key.

A key is an element of a dtype such as `key<fry>`, which names its generator; a raw key is an array of its
words, uint32 of shape (2,) for Threefry. Samplers pass the key of the user through `consumed` and give the
result to the primitives. Read next: `primitives/keys.py`, `_samplers.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core import config, dtypes
from didax.core.avals import ShapedArray, aval_of, is_array_like
from didax.core.dims import lengths_of
from didax.core.errors import ArgumentError, TracerIntegerConversionError, api_boundary, message
from didax.core.tracing import Tracer
from didax.primitives.ciphers import philox2x32, philox4x32, threefry4x32
from didax.primitives.convert import convert_element_type, copy_p
from didax.primitives.keys import (
    UINT32,
    KeyDtype,
    PRNGImpl,
    impl_of,
    random_clone_p,
    random_unwrap_p,
    random_wrap_p,
)
from didax.primitives.random_bits import random_fold_in_p, random_split_p
from didax.primitives.rbg import halved_rbg, rbg, unsafe_rbg
from didax.primitives.shape import reshape
from didax.primitives.slicing import slice_axis
from didax.primitives.threefry import halved_threefry, threefry
from didax.random._programs import Draw, draws, exact_program
from didax.runtime.array import as_concrete

IMPLEMENTATIONS = {
    impl.name: impl for impl in (threefry, rbg, unsafe_rbg, threefry4x32, philox2x32, philox4x32)
}


# --- making keys ------------------------------------------------------------------------------------------


@api_boundary
def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Return a key made from an integer, of dtype `key<fry>`, or of another implementation (`impl="rbg"`).

    The low 32 bits of `seed` are used; under enable_x64 all 64 bits are used. Instead of `impl`,
    `dtype` may name the implementation: the dtype of another key.

    >>> from didax import random
    >>> random.key(0)
    Array((), dtype=key<fry>) overlaying:
    [0 0]
    """
    found = _stated_impl("key", impl, dtype)
    return random_wrap_p.bind(found.seed(_seed_value(seed)), dtype=found.dtype)


@api_boundary
def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """Return the words of a key made from an integer: uint32 of shape (2,), or of the shape of another implementation.

    The library reads such a raw key as a key of the implementation that the option `default_prng_impl` names.

    >>> from didax import random
    >>> random.PRNGKey(42)
    Array([ 0, 42], dtype=uint32)
    """
    words = resolve_impl(impl).seed(_seed_value(seed))
    return as_concrete(words) if isinstance(words, np.ndarray) else words


@api_boundary
def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """Return keys of a key dtype from their words; the inverse of `key_data`.

    The generator is named by `impl`, or by the `dtype` of other keys of it.

    >>> from didax import random
    >>> random.wrap_key_data(random.PRNGKey(1)) == random.key(1)
    Array(True, dtype=bool)
    """
    return random_wrap_p.bind(key_bits_array, dtype=_stated_impl("wrap_key_data", impl, dtype).dtype)


def _stated_impl(name: str, impl: Any, dtype: Any) -> PRNGImpl:
    """The implementation, which `impl` or a key dtype names."""
    if dtype is None:
        return resolve_impl(impl)
    facts = f"impl: {impl!r}, dtype: {dtype!r:.100}"
    if impl is not None:
        rule = f"{name} takes the generator once: as impl, or as the dtype of its keys."
        raise ValueError(message(rule, facts, fix="Leave one of them out."))
    extended = dtypes.as_extended(dtype)
    if not isinstance(extended, KeyDtype):
        rule = f"The dtype of {name} is that of keys."
        raise TypeError(message(rule, facts, fix="Pass the dtype of a key (key.dtype), or impl."))
    return extended.impl


def resolve_impl(impl: Any) -> PRNGImpl:
    """Return the implementation that a user names; None means the option `default_prng_impl`."""
    name = config.state().default_prng_impl if impl is None else impl
    found = name if isinstance(name, PRNGImpl) else impl_of(name)
    if found is None and isinstance(name, str):
        found = IMPLEMENTATIONS.get(name)
    if found is None:
        raise (ValueError if isinstance(name, str) else TypeError)(
            message(
                "No random generator is known by this name.",
                f"impl: {impl!r} of type {type(impl).__name__}",
                fix=f"Use one of {', '.join(map(repr, IMPLEMENTATIONS))}, or what "
                "didax.extend.random.define_prng_impl returned.",
            )
        )
    return found


# --- using keys up ----------------------------------------------------------------------------------------


@draws
def split(key: Any, num: int | Sequence[int] = 2) -> Any:
    """Return an array of `num` new keys (an int or a shape), independent of each other; do not use `key` again.

    >>> from didax import random
    >>> first, second = random.split(random.key(0))
    >>> random.split(random.key(0), (3, 4)).shape
    (3, 4)
    """
    found = consumed("split", key)
    shape = canonical_shape("split", num)
    if found is key:
        return Draw(split_key, key, {"shape": shape})
    return _as_given(key, split_key(found, shape=shape))


@api_boundary
def fold_in(key: Any, data: Any) -> Any:
    """Return a new key from a key and an integer, for example for each step of a loop.

    >>> from didax import random
    >>> random.fold_in(random.key(0), 7).shape
    ()
    """
    found = consumed("fold_in", key)
    aval = aval_named("fold_in", "data", data)
    if not dtypes.is_integer(aval.dtype) or aval.shape != ():
        raise ArgumentError(
            message(
                "fold_in takes one integer.",
                f"data: {data if aval.shape == () and not isinstance(data, Tracer) else aval}",
                fix="Use vmap to fold several integers in, and int(x) or x.astype for other dtypes.",
            )
        )
    if type(data) is int and not 0 <= data < 1 << 32:
        raise OverflowError(
            message(
                "fold_in takes an integer of 32 bits.",
                f"data: {data}",
                fix="Fold in its parts one after the other.",
            )
        )
    data = np.uint32(data) if type(data) is int else convert_element_type(data, UINT32)
    folded = random_fold_in_p.bind(found, data)
    return folded if found is key else _as_given(key, folded)


@api_boundary
def clone(key: Any) -> Any:
    """Return the same keys; this states that drawing the same numbers again is intended.

    >>> from didax import random
    >>> key = random.key(0)
    >>> random.uniform(key) == random.uniform(random.clone(key))
    Array(True, dtype=bool)
    """
    _key_type("clone", key)
    return random_clone_p.bind(key)


@exact_program
def split_key(key: Any, *, shape: tuple[int, ...]) -> Any:
    """Return an array of new keys from one key."""
    return random_split_p.bind(key, shape=shape)


def child(key: Any, i: int, count: int = 2) -> Any:
    """Return key number i of the `count` keys that `split` gives."""
    if impl_of(aval_of(key).dtype) in (None, threefry):  # their split folds in 0, 1, ...
        return random_fold_in_p.bind(key, np.uint32(i))
    parent = random_clone_p.bind(key) if i else key  # the children of one split are one use
    return reshape(slice_axis(random_split_p.bind(parent, shape=(max(count, i + 1),)), i, i + 1, 0), ())


def consumed(name: str, key: Any) -> Any:
    """Return the single key that the function `name` uses up; every draw, split and fold_in calls this function.

    Threefry's keys are returned as they are, and raw keys of another implementation get their key dtype. Under the
    option `threefry_partitionable=False` a key gets that of the implementation which draws from it then. TypeError or
    ValueError, in the name of the function, for anything that is not a key.
    """
    state = config.state()
    if (getattr(key, "aval", None), state) in _passed:
        return key
    aval, impl = _key_type(name, key)
    raw = aval.physical is aval
    shape = aval.shape[: aval.ndim - len(impl.key_shape)] if raw else aval.shape
    if shape:
        raise ValueError(
            message(
                f"{name} takes a single key.",
                f"key: {aval}, an array of keys of shape {shape}",
                fix=f"Use vmap to map {name} over an array of keys.",
            )
        )
    if not state.threefry_partitionable and (halved := _HALVED.get(impl)) is not None:
        return random_wrap_p.bind(key if raw else random_unwrap_p.bind(key), dtype=halved.dtype)
    if raw and impl is not threefry:
        return random_wrap_p.bind(key, dtype=impl.dtype)
    _passed.add((aval, state))
    return key


def _as_given(key: Any, new_keys: Any) -> Any:
    """New keys in the form of the key that they were made of: words of a raw key, else keys of its dtype."""
    words = random_unwrap_p.bind(new_keys)
    return words if impl_of(aval_of(key).dtype) is None else random_wrap_p.bind(words, dtype=key.dtype)


# Implementations -> those that draw and split in their place under the option `threefry_partitionable=False`.
_HALVED = {threefry: halved_threefry, rbg: halved_rbg}
_passed: set[Any] = set()  # types of keys (and options) that pass unchanged


# --- what keys are ----------------------------------------------------------------------------------------


@api_boundary
def key_data(keys: Any) -> Any:
    """Return the words of keys, uint32 with one more axis than the keys; raw keys are words already.

    >>> from didax import random
    >>> random.key_data(random.key(42))
    Array([ 0, 42], dtype=uint32)
    """
    aval, _ = _key_type("key_data", keys)
    return random_unwrap_p.bind(keys) if aval.physical is not aval else copy_p.bind(keys)


@api_boundary
def key_impl(keys: Any) -> Any:
    """Return the implementation of keys: its name, or what `define_prng_impl` returned for a user's implementation.

    >>> from didax import random
    >>> random.key_impl(random.key(0, impl="rbg"))
    'rbg'
    """
    _, impl = _key_type("key_impl", keys)
    return impl.name if IMPLEMENTATIONS.get(impl.name) is impl else impl


@api_boundary
def key_dtype(impl_spec: Any = None) -> Any:
    """Return the dtype of keys of an implementation.

    >>> from didax import random
    >>> random.key_dtype()
    key<fry>
    """
    return resolve_impl(impl_spec).dtype


def _key_type(name: str, keys: Any) -> tuple[ShapedArray, PRNGImpl]:
    """Return the type of an array of keys, and their implementation; TypeError for anything that is not keys."""
    aval = getattr(keys, "aval", None) or (aval_of(keys) if isinstance(keys, np.ndarray) else None)
    if aval is not None and (impl := impl_of(aval.dtype)) is not None:
        return aval, impl
    impl = resolve_impl(None)
    axes = len(impl.key_shape)
    if aval is None or aval.dtype != UINT32 or aval.shape[-axes:] != impl.key_shape:
        raise TypeError(
            message(
                f"{name} takes a key, or its words: a uint32 array of shape {impl.key_shape}.",
                f"key: {keys!r:.200} of type {type(keys).__name__}" if aval is None else f"key: {aval}",
                fix="Make one with didax.random.key(seed), and more with didax.random.split.",
            )
        )
    return aval, impl


# --- arguments --------------------------------------------------------------------------------------------


def canonical_shape(name: str, shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple of non-negative ints; a single int is a shape with one axis."""
    if type(shape) is tuple and all([type(n) is int and n >= 0 for n in shape]):
        return shape
    try:
        lengths = lengths_of(shape)
    except TracerIntegerConversionError:  # this error says itself what to do
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
        raise ArgumentError(
            message(
                f"{name} takes a shape of non-negative lengths.",
                f"shape: {lengths}",
                fix="Leave out the negative ones.",
            )
        )
    return lengths


def aval_named(function: str, argument: str, x: Any) -> ShapedArray:
    """The type of an argument; the error for what is no array names the function and the argument."""
    try:
        return aval_of(x)
    except TypeError:
        if is_array_like(x) or hasattr(x, "how_to_read"):  # a masked array, a Ref: the error says what to do
            raise
        fact = f"{argument}: {x!r:.100} of type {type(x).__name__}"
        fix = "Convert it with didax.numpy.asarray, if it is made of numbers."
        raise TypeError(message(f"{function} takes arrays and numbers.", fact, fix=fix)) from None


def _seed_value(seed: Any) -> Any:
    """Return a seed as a scalar: of 32 bits without enable_x64, because JAX uses no more bits."""
    wide = config.state().enable_x64
    if isinstance(seed, int):
        _check_int64(seed)
        return np.int64(seed) if wide else np.uint32(seed & 0xFFFFFFFF)
    aval = aval_of(seed) if is_array_like(seed) else None
    if aval is None or dtypes.kind_of(aval.dtype) not in "biu" or aval.shape != ():
        raise TypeError(
            message(
                "A seed is one integer.",
                f"seed: {seed!r:.100} of type {type(seed).__name__}" if aval is None else f"seed: {aval}",
                fix="Use vmap to make several keys, and int(x) or x.astype for other dtypes.",
            )
        )
    return seed if wide or aval.dtype.itemsize < 8 else convert_element_type(seed, UINT32)


def _check_int64(seed: int) -> None:
    if not -(1 << 63) <= seed < 1 << 63:
        raise OverflowError(
            message(
                "A seed is an integer of 64 bits.",
                f"seed: {seed}",
                fix="Fold its parts in with didax.random.fold_in.",
            )
        )
