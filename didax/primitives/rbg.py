"""Random bits from XLA's own generator, and the keys `rbg` and `unsafe_rbg` that draw with it.

    rng_bit_generator(state) -> the next state, random bits

On accelerators this is faster than Threefry, and on every platform quicker to compile; the bits may differ between
platforms and versions of XLA. Keys have four words. `rbg` splits and folds in with Threefry on each half of the
words, `unsafe_rbg` with the generator itself, whose streams nobody has studied for that. Mapped by vmap both
draw a whole batch from its first key. Read next: `keys.py`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.jaxpr_print import register_param_type
from didax.primitives.elementwise import xor
from didax.primitives.keys import UINT32, KeyPrimitive, PRNGImpl
from didax.primitives.random_bits import random_fold_in_p, random_split_p
from didax.primitives.shape import broadcast_in_dim, move_axis, reshape
from didax.primitives.slicing import concatenate, slice_axis
from didax.primitives.threefry import halved_threefry, seed_words
from didax.transforms.batching import AxisData, move_batch_axis
from didax.xla.text import Value, tensor_type

_UINT64 = np.dtype(np.uint64)
_WIDTHS = (8, 16, 32, 64)


@register_param_type
class RandomAlgorithm(enum.Enum):
    """The generator behind `rng_bit_generator`.

    >>> import numpy as np
    >>> from didax import lax
    >>> state, bits = lax.rng_bit_generator(np.zeros(4, np.uint32), (2,), algorithm=RandomAlgorithm.RNG_PHILOX)
    >>> state.shape, bits.shape
    ((4,), (2,))
    """

    RNG_DEFAULT = 0
    """The platform's own choice."""
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


_NAMES = {
    RandomAlgorithm.RNG_DEFAULT: "DEFAULT",
    RandomAlgorithm.RNG_THREE_FRY: "THREE_FRY",
    RandomAlgorithm.RNG_PHILOX: "PHILOX",
}


class RngBitGenerator(KeyPrimitive):
    """The next state of XLA's generator and random bits of a shape, from a state: four uint32 or two uint64."""

    multiple_results = True

    def type(
        self, state: ShapedArray, *, shape: tuple[int, ...], dtype: np.dtype[Any], algorithm: RandomAlgorithm
    ) -> list[ShapedArray]:
        if (state.shape, state.dtype) not in (((4,), UINT32), ((2,), _UINT64)):
            raise TypeError(
                message(
                    "rng_bit_generator takes a state of four uint32 or two uint64.",
                    f"key: {state}",
                    fix="Map over several states with vmap; cast others (x.astype('uint32')).",
                )
            )
        if dtype.kind != "u" or 8 * dtype.itemsize not in _WIDTHS or dtype.isbuiltin != 1:
            raise TypeError(
                message(
                    "rng_bit_generator draws unsigned integers of 8, 16, 32 or 64 bits.",
                    f"dtype: {dtype.name}",
                    fix="Draw 'uint32', then cast.",
                )
            )
        return [state, ShapedArray(shape, dtype)]

    def lower(self, ctx: Any, state: Value, *, algorithm: RandomAlgorithm, **params: Any) -> list[Value]:
        pairs, wide = ShapedArray((2, 2), UINT32), ShapedArray((2,), _UINT64)
        out = ctx.out_avals[1]
        narrow = state.aval.dtype == UINT32
        if narrow:
            state = ctx.op("bitcast_convert", [ctx.op("reshape", [state], pairs)], wide)
        new, bits = ctx.emit_many(
            f"stablehlo.rng_bit_generator {state}, algorithm = {_NAMES[algorithm]} : "
            f"({state.type}) -> ({tensor_type(wide)}, {tensor_type(out)})",
            [wide, out],
        )
        if narrow:
            new = ctx.op("reshape", [ctx.op("bitcast_convert", [new], pairs)], ctx.out_avals[0])
        return [new, bits]

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, shape: Any, **params: Any
    ) -> tuple[list[Any], list[int]]:
        """All bits come from the first state, and only the first state is advanced, as in JAX."""
        states = move_batch_axis(args[0], dims[0], 0, axis.size)
        words = aval_of(states).shape[1]
        first = reshape(slice_axis(states, 0, 1, 0), (words,))
        new, bits = self.bind(first, shape=(axis.size, *shape), **params)
        others = slice_axis(states, 1, axis.size, 0)
        return [concatenate([reshape(new, (1, words)), others], 0), bits], [0, 0]


rng_bit_generator_p = RngBitGenerator("rng_bit_generator")


def generated(words: Any, bit_width: int, shape: tuple[int, ...]) -> Any:
    """Random bits from the words of a key."""
    dtype = np.dtype(f"uint{bit_width}")
    return rng_bit_generator_p.bind(words, shape=shape, dtype=dtype, algorithm=RandomAlgorithm.RNG_DEFAULT)[1]


def _seed(seed: Any) -> Any:
    half = seed_words(seed)
    return concatenate([half, half], 0)


def _split(words: Any, shape: tuple[int, ...]) -> Any:
    halves = random_split_p.bind(reshape(words, (2, 2)), shape=shape)
    return reshape(move_axis(halves, 0, len(shape)), (*shape, 4))


def _halved_split(words: Any, shape: tuple[int, ...]) -> Any:
    halves = [slice_axis(words, i, i + 2, 0) for i in (0, 2)]
    return concatenate([halved_threefry.split(half, shape) for half in halves], len(shape))


def _fold_in(words: Any, data: Any) -> Any:
    return reshape(random_fold_in_p.bind(reshape(words, (2, 2)), broadcast_in_dim(data, (2,), ())), (4,))


# The unsafe generator uses every tenth state of XLA's generator as if that were a hash function.
_STRIDE = 10


def _unsafe_split(words: Any, shape: tuple[int, ...]) -> Any:
    drawn = generated(words, 32, (_STRIDE * math.prod(shape), 4))
    return reshape(slice_axis(drawn, 0, _STRIDE * math.prod(shape), 0, _STRIDE), (*shape, 4))


def _unsafe_fold_in(words: Any, data: Any) -> Any:
    drawn = generated(_seed(data), 32, (_STRIDE, 4))
    return xor.bind(words, reshape(slice_axis(drawn, _STRIDE - 1, _STRIDE, 0), (4,)))


rbg = PRNGImpl((4,), _seed, _split, generated, _fold_in, name="rbg", tag="rbg")
halved_rbg = PRNGImpl((4,), _seed, _halved_split, generated, _fold_in, name="rbg", tag="rbg_halved")
unsafe_rbg = PRNGImpl((4,), _seed, _unsafe_split, generated, _unsafe_fold_in, name="unsafe_rbg", tag="urbg")
