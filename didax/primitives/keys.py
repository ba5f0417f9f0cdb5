"""Random keys as a dtype: `key<fry>`, `key<rbg>`, ..., one per implementation of a generator.

    random_wrap(words)   uint32[..., 2] -> key<fry>[...]       and  random_unwrap  back

A `PRNGImpl` says what a generator does with the words of one key: how a seed becomes them, how they split, take
in a number, and give random bits. It is written in Didax operations, so keys of every implementation are
compiled, mapped and differentiated around alike. The dtype carries the implementation, and the operations on
keys (`random_bits.py`) ask the dtype. That keys are moved about like other arrays is written in
`didax/passes/physical.py`. Read next: `random_bits.py`, then `threefry.py` and `rbg.py` (implementations).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.primitive import Primitive
from didax.passes.key_reuse import DRAWN, Keys
from didax.primitives import padded, split
from didax.transforms.batching import AxisData, move_batch_axis

UINT32 = np.dtype(np.uint32)


@dataclasses.dataclass(frozen=True, eq=False)
class PRNGImpl:
    """A generator: what it does with the words of one key, a uint32 array of shape `key_shape`.

    `seed(integer)` makes words; `split(words, shape)` makes words of shape `(*shape, *key_shape)`;
    `fold_in(words, uint32)` makes words; `random_bits(words, bit_width, shape)` makes unsigned integers of 8,
    16, 32 or 64 bits. `tag` is its name in dtypes: `key<tag>`.

    >>> import didax.numpy as dnp
    >>> from didax.extend import random as generators
    >>> impl: generators.PRNGImpl = generators.threefry_prng_impl
    >>> impl.key_shape
    (2,)
    >>> impl.seed(dnp.uint32(7))  # the words of one key
    Array([0, 7], dtype=uint32)
    >>> impl.split(impl.seed(dnp.uint32(7)), (3,)).shape
    (3, 2)
    >>> impl.random_bits(impl.seed(dnp.uint32(7)), 8, (2, 2)).dtype
    dtype('uint8')
    """

    key_shape: tuple[int, ...]
    seed: Callable[[Any], Any] = dataclasses.field(repr=False)
    split: Callable[[Any, tuple[int, ...]], Any] = dataclasses.field(repr=False)
    random_bits: Callable[[Any, int, tuple[int, ...]], Any] = dataclasses.field(repr=False)
    fold_in: Callable[[Any, Any], Any] = dataclasses.field(repr=False)
    name: str = "<unnamed>"
    tag: str = "?"
    dtype: Any = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", dtypes.register_extended(KeyDtype(self)))


class KeyDtype(dtypes.ExtendedDtype):
    """The dtype of keys of one implementation."""

    noun = "random keys"
    advice = (
        "Draw numbers from a key (random.uniform, random.bits), make more keys of it (random.split, "
        "random.fold_in), or take its words (random.key_data)."
    )

    def __init__(self, impl: PRNGImpl):
        super().__init__(f"key<{impl.tag}>", dtypes.prng_key, UINT32, impl.key_shape)
        self.impl = impl


def impl_of(dtype: Any) -> PRNGImpl | None:
    """The generator of keys of this dtype; None where the elements of the dtype are not keys."""
    return dtype.impl if isinstance(dtype, KeyDtype) else None


class KeyPrimitive(Primitive):
    """A primitive on keys, which cannot be differentiated.

    The batch axis of keys stays where it is, since the order of keys matters to what `rbg` draws; the batch axis of
    words is moved to the front.
    """

    holes = {"transpose": "keys and bits have no cotangents"}

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out = self.bind(*primals, **params)
        zeros = [Zero(aval_of(y).tangent()) for y in (out if self.multiple_results else [out])]
        return out, zeros if self.multiple_results else zeros[0]

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any
    ) -> tuple[Any, Any]:
        if len(args) == 1 and impl_of(aval_of(args[0]).dtype) is not None:
            return self.bind(*args, **params), dims[0]
        args = [move_batch_axis(x, dim, 0, axis.size) for x, dim in zip(args, dims, strict=True)]
        out = self.bind(*args, **params)
        return out, [0] * len(out) if self.multiple_results else 0


def use_up(self: Primitive, line: Any, operands: Sequence[Any], **params: Any) -> list[None]:
    """The `keys` rule of a primitive with one result that uses up the keys it draws from."""
    if isinstance(operands[0], Keys):
        operands[0].use(DRAWN, line)
    return [None]


_NOTHING_TO_COMPILE = {"lower": "in a compiled program keys are their words", **KeyPrimitive.holes}


class RandomWrap(KeyPrimitive):
    """Words, in the last axes, as keys of a dtype."""

    holes = _NOTHING_TO_COMPILE
    sharding = split.with_last_axes
    padded = padded.elementwise

    def type(self, words: ShapedArray, *, dtype: Any) -> ShapedArray:
        shape = dtype.element_shape
        if words.dtype != UINT32 or words.shape[words.ndim - len(shape) :] != shape:
            raise TypeError(
                message(
                    f"The words of {dtype} keys are uint32 arrays whose last axes have lengths {shape}.",
                    f"got: {words}",
                    fix="Pass what random.key_data returned, and the implementation it was made with (impl=).",
                )
            )
        return ShapedArray(words.shape[: words.ndim - len(shape)], dtype)

    def physical(self, avals: Sequence[ShapedArray], words: Any, *, dtype: Any) -> Any:
        return words


class RandomUnwrap(KeyPrimitive):
    """The words of keys."""

    holes = _NOTHING_TO_COMPILE
    sharding = split.with_last_axes
    padded = padded.elementwise

    def type(self, keys: ShapedArray) -> ShapedArray:
        return keys.physical

    def physical(self, avals: Sequence[ShapedArray], words: Any) -> Any:
        return words


class RandomClone(KeyPrimitive):
    """The same keys, for programs that mean to draw the same numbers twice."""

    moves_elements = True
    sharding = split.kept
    padded = padded.elementwise

    def type(self, keys: ShapedArray) -> ShapedArray:
        return keys

    def eager(self, keys: Any) -> Any:
        return keys

    def keys(self, line: Any, operands: Sequence[Any]) -> list[None]:
        return [None]

    def lower(self, ctx: Any, keys: Any) -> Any:
        return keys


random_wrap_p = RandomWrap("random_wrap")
random_unwrap_p = RandomUnwrap("random_unwrap")
random_clone_p = RandomClone("random_clone")
