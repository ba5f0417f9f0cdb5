"""The generator `threefry`, which makes the keys of `didax.random` unless another one is asked for.

A key is the two words of a Threefry key; the cipher encrypts counters under it. `halved_threefry` has the same keys and
draws other numbers, which JAX drew before its option `threefry_partitionable`: a block encrypts a counter of the first
half of the counters and one of the second half. Read next: `random_bits.py` (the primitives), `threefry_cipher.py` (the
cipher), `rbg.py` (other generators).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from didax.core.avals import aval_of
from didax.core.dims import may_exceed
from didax.core.errors import message
from didax.core.primitive import eager_trace
from didax.core.tracing import current_trace
from didax.primitives.convert import convert_element_type, iota
from didax.primitives.elementwise import or_, shift_left, shift_right_logical
from didax.primitives.keys import UINT32, PRNGImpl
from didax.primitives.random_bits import random_bits_p, random_fold_in_p, random_split_p
from didax.primitives.shape import broadcast_in_dim, reshape
from didax.primitives.slicing import concatenate, slice_axis
from didax.primitives.threefry_cipher import threefry2x32_p


def seed_words(seed: Any) -> Any:
    """Two words for an integer: its high half, which is 0 unless it has 64 bits, and its low half."""
    if isinstance(seed, np.integer) and current_trace() is eager_trace:
        return np.array(
            [(int(seed) >> 32) & 0xFFFFFFFF if seed.itemsize == 8 else 0, int(seed) & 0xFFFFFFFF], UINT32
        )
    dtype = aval_of(seed).dtype
    low = convert_element_type(seed, UINT32)
    high: Any = np.uint32(0)
    if dtype.itemsize == 8:
        high = convert_element_type(shift_right_logical.bind(seed, dtype.type(32)), UINT32)
    return concatenate([reshape(high, (1,)), reshape(low, (1,))], 0)


threefry = PRNGImpl(
    key_shape=(2,),
    seed=seed_words,
    split=lambda words, shape: random_split_p.bind(words, shape=shape),
    random_bits=lambda words, bit_width, shape: random_bits_p.bind(words, shape=shape, bit_width=bit_width),
    fold_in=random_fold_in_p.bind,
    name="threefry2x32",
    tag="fry",
)


# --- counters in two halves -------------------------------------------------------------------------------


def halved_blocks(words: Any, counters: Any) -> Any:
    """Blocks of the first half of the counters with the second; of their results the first words, then the second ones.

    An odd number of counters is padded by a 0, whose result is left out.
    """
    (count,) = aval_of(counters).shape
    half = (count + 1) // 2
    zero = broadcast_in_dim(np.uint32(0), (2 * half - count,), ())
    padded = concatenate([counters, zero], 0)
    halves = [slice_axis(padded, i * half, (i + 1) * half, 0) for i in range(2)]
    wide = [broadcast_in_dim(word, (half,), ()) for word in words]
    return slice_axis(concatenate(threefry2x32_p.bind(*wide, *halves), 0), 0, count, 0)


def words_of(key: Any) -> list[Any]:
    """The words of one key, as scalars."""
    return [reshape(slice_axis(key, i, i + 1, 0), ()) for i in range(aval_of(key).shape[0])]


def joined_halves(high: Any, low: Any) -> Any:
    """uint64 from their upper and lower 32 bits."""
    wide = np.dtype(np.uint64)
    high, low = convert_element_type(high, wide), convert_element_type(low, wide)
    return or_.bind(shift_left.bind(high, wide.type(32)), low)


def _halved_words(words: Any, count: int) -> Any:
    if may_exceed(count, 0xFFFFFFFF):
        rule = "With threefry_partitionable=False one key gives fewer than 2**32 words of random bits."
        raise NotImplementedError(message(rule, f"asked for: {count}", fix="Split the key, and draw parts."))
    return halved_blocks(words_of(words), iota(UINT32, (count,), 0))


def _halved_split(words: Any, shape: tuple[int, ...]) -> Any:
    return reshape(_halved_words(words, 2 * math.prod(shape)), (*shape, 2))


def _halved_bits(words: Any, bit_width: int, shape: tuple[int, ...]) -> Any:
    size = math.prod(shape)
    drawn = _halved_words(words, -(-bit_width * size // 32))
    dtype = np.dtype(f"uint{bit_width}")
    if bit_width == 64:
        drawn = joined_halves(*[slice_axis(drawn, i * size, (i + 1) * size, 0) for i in range(2)])
    elif bit_width < 32:
        parts = [shift_right_logical.bind(drawn, np.uint32(i)) for i in range(0, 32, bit_width)]
        drawn = concatenate([reshape(x, (*x.aval.shape, 1)) for x in parts], 1)
        drawn = slice_axis(reshape(convert_element_type(drawn, dtype), (drawn.aval.size,)), 0, size, 0)
    return reshape(drawn, shape)


halved_threefry = PRNGImpl(
    key_shape=(2,),
    seed=seed_words,
    split=_halved_split,
    random_bits=_halved_bits,
    fold_in=random_fold_in_p.bind,
    name="threefry2x32",
    tag="fry_halved",
)
