"""Threefry-2x32: the block cipher behind `didax.random`, and its primitive.

    threefry2x32(key, counter) -> 64 random bits                (Salmon et al., "Parallel random numbers: as
    easy as 1, 2, 3")

A key is two uint32, so is a counter, and 20 rounds of add, rotate and xor make the result look random. There is no
state: equal keys and counters give equal bits, whether eager, compiled, batched or on many devices. `rounds` is the
cipher, for XLA, for NumPy, and for small draws on Python's big integers, whose operations cost a tenth of a NumPy call.
Read next: `random_bits.py` (the primitives that encrypt counters 0, 1, 2, ...).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from didax.core.avals import ShapedArray
from didax.core.dims import may_exceed
from didax.core.errors import message
from didax.primitives import padded
from didax.primitives.elementwise import add, or_, shift_left, shift_right_logical, xor
from didax.primitives.keys import UINT32, KeyPrimitive
from didax.xla.lowering import lower_as, lower_function
from didax.xla.text import Value

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
_BIG_INTEGER_MAX = 256  # counters; from here on NumPy is faster


def rounds(
    k0: Any, k1: Any, x0: Any, x1: Any, rotate: Callable[[Any, int], Any], number: Callable[[int], Any]
) -> Any:
    """The 20 rounds, on anything whose `+` and `^` act on 32-bit words: NumPy arrays, big integers, `Words`."""
    keys = (k0, k1, k0 ^ k1 ^ number(PARITY))
    x0, x1 = x0 + k0, x1 + k1
    for i in range(5):
        for distance in _ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = rotate(x1, distance) ^ x0
        x0 = x0 + keys[(i + 1) % 3]
        x1 = x1 + (keys[(i + 2) % 3] + number(i + 1))
    return x0, x1


# --- NumPy ------------------------------------------------------------------------------------------------


def rotate_numpy(x: Any, distance: int) -> Any:
    high = x << np.uint32(distance)
    high |= x >> np.uint32(32 - distance)
    return high


def _blocks_numpy(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Blocks of broadcast keys and counters."""
    return rounds(k0, k1, x0, x1, rotate_numpy, np.uint32)


def _blocks_big_integer(k0: int, k1: int, x1: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Blocks of one key and the counters (0, x1), all at once in big integers.

    Each word lies in 64 bits of the integer. Sums are not reduced to 32 bits, because a word at most doubles in a
    round and so stays below 2**54 in 20 rounds. `rotate` reduces the words that it rotates.
    """
    n = x1.size
    ones = int.from_bytes(b"\1\0\0\0\0\0\0\0" * n, "little")
    low = 0xFFFFFFFF * ones

    def rotate(x: int, distance: int) -> int:
        x &= low
        return ((x << distance) | (x >> (32 - distance))) & low

    counters = int.from_bytes(x1.astype("<u8").tobytes(), "little")
    words = rounds(k0 * ones, k1 * ones, 0, counters, rotate, lambda number: number * ones)
    high, low_words = (np.frombuffer(y.to_bytes(8 * n, "little"), "<u4")[::2].astype(UINT32) for y in words)
    return high.reshape(x1.shape), low_words.reshape(x1.shape)


def blocks(keys: np.ndarray[Any, Any], x1: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Blocks of an array of keys and counters (0, x1).

    `x1` has the axes of the array of keys and a last axis of counters, or only this last axis.
    """
    if keys.ndim == 1 and 0 < x1.size <= _BIG_INTEGER_MAX:
        return _blocks_big_integer(int(keys[0]), int(keys[1]), x1)
    return _blocks_numpy(keys[..., :1], keys[..., 1:], np.uint32(0), x1)


# --- XLA --------------------------------------------------------------------------------------------------


class Words:
    """An array of 32-bit words with the operators that `rounds` uses."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __add__(self, other: Words) -> Words:
        return Words(add.bind(self.value, other.value))

    def __xor__(self, other: Words) -> Words:
        return Words(xor.bind(self.value, other.value))


def rotate_words(x: Words, distance: int) -> Words:
    high = shift_left.bind(x.value, np.uint32(distance))
    return Words(or_.bind(high, shift_right_logical.bind(x.value, np.uint32(32 - distance))))


def threefry2x32(*operands: Any) -> list[Any]:
    """The cipher on arrays of Didax; keys may be scalars beside arrays of counters."""
    k0, k1, x0, x1 = map(Words, operands)
    return [y.value for y in rounds(k0, k1, x0, x1, rotate_words, lambda n: Words(np.uint32(n)))]


def lower_blocks(ctx: Any, keys: Value, n: int, counters_first: bool = False) -> list[Value]:
    """Blocks with counters 0 to n - 1, for each key of an array: both results are (*batch, n), or (n, *batch)."""
    batch = keys.aval.shape[:-1]
    x0, x1 = _lower_counters(ctx, n)
    k0, k1 = (lower_word(ctx, keys, i) for i in range(2))
    if batch:
        axes, axis = range(counters_first, len(batch) + counters_first), 0 if counters_first else len(batch)
        wide = ShapedArray((n, *batch) if counters_first else (*batch, n), UINT32)
        k0, k1 = (ctx.broadcast(k, wide, axes) for k in (k0, k1))
        x0, x1 = (ctx.broadcast(x, wide, [axis]) for x in (x0, x1))
    return lower_function(ctx, threefry2x32, [k0, k1, x0, x1])


def _lower_counters(ctx: Any, n: int) -> tuple[Value, Value]:
    """High and low words of 0 to n - 1."""
    words = ShapedArray((n,), UINT32)
    if not may_exceed(n, 1 << 32):
        return ctx.constant(0, words), ctx.iota(words, 0)
    wide = ShapedArray((n,), np.dtype(np.uint64))
    counters = ctx.iota(wide, 0)
    high = ctx.op("shift_right_logical", [counters, ctx.constant(32, wide)])
    return ctx.convert(high, UINT32), ctx.convert(counters, UINT32)


def lower_word(ctx: Any, keys: Value, i: int) -> Value:
    """Word i of each key."""
    shape = keys.aval.shape[:-1]
    return ctx.reshape(ctx.slice_axis(keys, i, i + 1, len(shape)), shape)


# --- the primitive ----------------------------------------------------------------------------------------


class Threefry2x32(KeyPrimitive):
    """The block cipher itself, elementwise: two words of key and two of counter to two words."""

    multiple_results = True
    padded = padded.elementwise

    def type(self, k0: ShapedArray, k1: ShapedArray, x0: ShapedArray, x1: ShapedArray) -> list[ShapedArray]:
        operands = (k0, k1, x0, x1)
        if any(x.dtype != UINT32 or x.shape != k0.shape for x in operands):
            raise TypeError(
                message(
                    "threefry2x32 takes four uint32 arrays of one shape.",
                    f"operands: {', '.join(map(str, operands))}",
                    fix="Cast (x.astype('uint32')) and broadcast them.",
                )
            )
        return [ShapedArray(k0.shape, UINT32)] * 2

    def eager(self, k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
        return _blocks_numpy(np.asarray(k0), np.asarray(k1), np.asarray(x0), np.asarray(x1))

    lower = lower_as(threefry2x32)


threefry2x32_p = Threefry2x32("threefry2x32")
