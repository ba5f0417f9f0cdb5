"""Threefry-2x32: the counter-based generator behind `didax.random`.

    threefry2x32(key, counter) -> 64 random bits                (Salmon et al., "Parallel random numbers: as
    easy as 1, 2, 3")

A key is two uint32, so is a counter, and 20 rounds of add, rotate and xor make the result look random. There
is no state: equal keys and counters give equal bits, whether eager, compiled, batched or on many devices.
Three primitives draw all the blocks that an operation on keys needs at once, with counters 0, 1, 2, ...:
`random_bits`, `random_split` and `random_fold_in`, on arrays of keys. On words (uint32, the last axis of
length 2) they are Threefry's; on keys of a dtype they are what its implementation makes of them. `rounds` is
the cipher, for XLA, for NumPy, and for small draws on Python's big integers, whose operations cost a tenth of
a NumPy call. Read next: `keys.py` (the dtypes), `didax/random/`, which makes numbers of the bits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core.avals import ShapedArray, aval_of
from didax.core.basis import basis
from didax.core.errors import message
from didax.core.jaxpr import Jaxpr
from didax.core.tracing import current_trace, eager_trace
from didax.passes.key_reuse import UNKNOWN, Keys
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import add, or_, shift_left, shift_right_logical, xor
from didax.primitives.keys import UINT32, KeyPrimitive, PRNGImpl, impl_of, use_up
from didax.primitives.shape import reshape
from didax.primitives.slicing import concatenate
from didax.transforms.batching import AxisData, move_batch_axis, vmap_flat
from didax.transforms.staging import trace_to_jaxpr
from didax.xla.lowering import call
from didax.xla.text import Value, function_type, names

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_BIG_INTEGER_MAX = 256  # counters; from here on NumPy is faster


def rounds(
    k0: Any, k1: Any, x0: Any, x1: Any, rotate: Callable[[Any, int], Any], number: Callable[[int], Any]
) -> Any:
    """The 20 rounds on anything with `+` and `^` of 32-bit words: NumPy arrays, big integers, `_Words`."""
    keys = (k0, k1, k0 ^ k1 ^ number(_PARITY))
    x0, x1 = x0 + k0, x1 + k1
    for i in range(5):
        for distance in _ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = rotate(x1, distance) ^ x0
        x0 = x0 + keys[(i + 1) % 3]
        x1 = x1 + (keys[(i + 2) % 3] + number(i + 1))
    return x0, x1


# --- NumPy ------------------------------------------------------------------------------------------------


def _rotate_numpy(x: Any, distance: int) -> Any:
    high = x << np.uint32(distance)
    high |= x >> np.uint32(32 - distance)
    return high


def _blocks_numpy(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Blocks of broadcast keys and counters."""
    return rounds(k0, k1, x0, x1, _rotate_numpy, np.uint32)


def _blocks_big_integer(k0: int, k1: int, x1: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Blocks of one key and the counters (0, x1), all at once in big integers.

    Each word lies in 64 bits of the integer. Sums are not reduced to 32 bits: a word at most doubles in a
    round, so in 20 rounds it stays below 2**54. `rotate` sees to the bits it moves.
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


def _blocks(keys: np.ndarray[Any, Any], x1: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Blocks of an array of keys and counters (0, x1).

    x1 has the axes of the array of keys and one more, or that one alone.
    """
    if keys.ndim == 1 and 0 < x1.size <= _BIG_INTEGER_MAX:
        return _blocks_big_integer(int(keys[0]), int(keys[1]), x1)
    return _blocks_numpy(keys[..., :1], keys[..., 1:], np.uint32(0), x1)


# --- XLA --------------------------------------------------------------------------------------------------


class _Words:
    """An array of 32-bit words with the operators that `rounds` uses."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __add__(self, other: _Words) -> _Words:
        return _Words(add.bind(self.value, other.value))

    def __xor__(self, other: _Words) -> _Words:
        return _Words(xor.bind(self.value, other.value))


def _rotate_words(x: _Words, distance: int) -> _Words:
    high = shift_left.bind(x.value, np.uint32(distance))
    return _Words(or_.bind(high, shift_right_logical.bind(x.value, np.uint32(32 - distance))))


@functools.cache
def _rounds_jaxpr(key: ShapedArray, counter: ShapedArray) -> Jaxpr:
    """The cipher as a jaxpr; keys may be scalars beside arrays of counters."""

    def threefry2x32(*args: Any) -> list[Any]:
        k0, k1, x0, x1 = map(_Words, args)
        return [y.value for y in rounds(k0, k1, x0, x1, _rotate_words, lambda n: _Words(np.uint32(n)))]

    return trace_to_jaxpr(threefry2x32, [key, key, counter, counter])[0]


def _lower_rounds(ctx: Any, k0: Value, k1: Value, x0: Value, x1: Value) -> list[Value]:
    return call(ctx, _rounds_jaxpr(k0.aval, x0.aval), [k0, k1, x0, x1])


def _lower_blocks(ctx: Any, keys: Value, n: int) -> list[Value]:
    """Blocks with counters 0 to n - 1, for each key of an array: both results are (*batch, n)."""
    batch = keys.aval.shape[:-1]
    x0, x1 = _lower_counters(ctx, n)
    k0, k1 = (_lower_word(ctx, keys, i) for i in range(2))
    if batch:
        wide = ShapedArray((*batch, n), UINT32)
        k0, k1 = (ctx.broadcast(k, wide, range(len(batch))) for k in (k0, k1))
        x0, x1 = (ctx.broadcast(x, wide, [len(batch)]) for x in (x0, x1))
    return _lower_rounds(ctx, k0, k1, x0, x1)


def _lower_counters(ctx: Any, n: int) -> tuple[Value, Value]:
    """High and low words of 0 to n - 1."""
    words = ShapedArray((n,), UINT32)
    if n <= 1 << 32:
        return ctx.constant(0, words), ctx.emit(f"stablehlo.iota dim = 0 : {_type(words)}", words)
    wide = ShapedArray((n,), np.dtype(np.uint64))
    counters = ctx.emit(f"stablehlo.iota dim = 0 : {_type(wide)}", wide)
    high = ctx.op("shift_right_logical", [counters, ctx.constant(32, wide)])
    return ctx.convert(high, UINT32), ctx.convert(counters, UINT32)


def _lower_word(ctx: Any, keys: Value, i: int) -> Value:
    """Word i of each key."""
    shape = keys.aval.shape[:-1]
    part = ShapedArray((*shape, 1), UINT32)
    ranges = ", ".join([*[f"0:{n}" for n in shape], f"{i}:{i + 1}"])
    word = ctx.emit(f"stablehlo.slice {keys} [{ranges}] : {function_type([keys], [part])}", part)
    return ctx.op("reshape", [word], ShapedArray(shape, UINT32))


def _type(aval: ShapedArray) -> str:
    return function_type([], [aval]).removeprefix("() -> ")


def _lower_keys(ctx: Any, words: Sequence[Value]) -> Value:
    """New keys: the two words of each block as a last axis.

    Behind a barrier, since XLA would make the keys once more for each element drawn with them, in kernels of
    several ciphers that take 1.8 s instead of 0.2 to compile.
    """
    out = ctx.out_avals[0]
    part = ShapedArray((*words[0].aval.shape, 1), UINT32)
    parts = [ctx.op("reshape", [x], part) for x in words]
    keys = ctx.emit(
        f"stablehlo.concatenate {names(parts)}, dim = {part.ndim - 1} : {function_type(parts, [out])}", out
    )
    return ctx.emit(f"stablehlo.optimization_barrier {keys} : {keys.type}", out)


# --- the primitives ---------------------------------------------------------------------------------------


class Threefry2x32(KeyPrimitive):
    """The block cipher itself, elementwise: two words of key and two of counter to two words."""

    multiple_results = True

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

    def lower(self, ctx: Any, *operands: Any) -> list[Any]:
        return _lower_rounds(ctx, *operands)


class RandomBits(KeyPrimitive):
    """Unsigned integers of `bit_width` random bits, of a shape, for each key of an array."""

    keys = use_up

    def type(self, keys: ShapedArray, *, shape: tuple[int, ...], bit_width: int) -> ShapedArray:
        batch = _shape_of_keys("random_bits", keys)
        if bit_width not in (8, 16, 32, 64):
            raise ValueError(
                message(
                    "Random bits come 8, 16, 32 or 64 wide.", f"bit_width: {bit_width}", fix="Choose one."
                )
            )
        return ShapedArray(batch + shape, np.dtype(f"uint{bit_width}"))

    def physical(
        self, avals: Sequence[ShapedArray], words: Any, *, shape: tuple[int, ...], bit_width: int
    ) -> Any:
        impl, wanted = _impl(avals[0]), ShapedArray(shape, np.dtype(f"uint{bit_width}"))

        def draw(key: Any) -> Any:
            return _checked(impl, "random_bits", impl.random_bits(key, bit_width, shape), wanted)

        return _map_keys(draw, avals[0].ndim, words)

    def eager(self, keys: Any, *, shape: tuple[int, ...], bit_width: int) -> Any:
        high, low = _blocks(keys, np.arange(math.prod(shape), dtype=UINT32))
        if bit_width == 64:
            bits = (high.astype(np.uint64) << np.uint64(32)) | low
        else:
            bits = high ^ low
        return bits.astype(f"uint{bit_width}", copy=False).reshape(keys.shape[:-1] + shape)

    def lower(self, ctx: Any, keys: Any, *, shape: tuple[int, ...], bit_width: int) -> Any:
        out = ctx.out_avals[0]
        high, low = _lower_blocks(ctx, keys, math.prod(shape))
        if bit_width == 64:
            high, low = ctx.convert(high, out.dtype), ctx.convert(low, out.dtype)
            shifted = ctx.op("shift_left", [high, ctx.constant(32, high.aval)])
            bits = ctx.op("or", [shifted, low])
        else:
            bits = ctx.convert(ctx.op("xor", [high, low]), out.dtype)
        return ctx.op("reshape", [bits], out)


class RandomSplit(KeyPrimitive):
    """New keys, an array of that shape for each key of an array."""

    keys = use_up

    def type(self, keys: ShapedArray, *, shape: tuple[int, ...]) -> ShapedArray:
        batch = _shape_of_keys("random_split", keys)
        return keys.update(shape=(*batch, *shape, *keys.shape[len(batch) :]))

    def physical(self, avals: Sequence[ShapedArray], words: Any, *, shape: tuple[int, ...]) -> Any:
        impl, wanted = _impl(avals[0]), avals[0].update(shape=shape).physical

        def split(key: Any) -> Any:
            return _checked(impl, "split", impl.split(key, shape), wanted)

        return _map_keys(split, avals[0].ndim, words)

    def eager(self, keys: Any, *, shape: tuple[int, ...]) -> Any:
        words = _blocks(keys, np.arange(math.prod(shape), dtype=UINT32))
        return np.stack(words, -1).reshape((*keys.shape[:-1], *shape, 2))

    def lower(self, ctx: Any, keys: Any, *, shape: tuple[int, ...]) -> Any:
        out = ShapedArray((*keys.aval.shape[:-1], *shape), UINT32)
        return _lower_keys(
            ctx, [ctx.op("reshape", [x], out) for x in _lower_blocks(ctx, keys, math.prod(shape))]
        )


class RandomFoldIn(KeyPrimitive):
    """A new key from a key and a uint32, for each element of arrays of both.

    Keys may share numbers, which have no axes then, or axes of length 1: `unsafe_rbg` draws once for them.
    """

    def type(self, keys: ShapedArray, data: ShapedArray) -> ShapedArray:
        shape = _shape_of_keys("random_fold_in", keys)
        fits = data.ndim in (0, len(shape)) and all(
            [n in (1, m) for n, m in zip(data.shape, shape, strict=False)]
        )
        if data.dtype != UINT32 or not fits:
            raise TypeError(
                message(
                    "random_fold_in takes one uint32 for each key.",
                    f"keys: {keys}, data: {data}",
                    fix="Cast or broadcast the data.",
                )
            )
        return keys

    def physical(self, avals: Sequence[ShapedArray], words: Any, data: Any) -> Any:
        impl, wanted = _impl(avals[0]), avals[0].update(shape=()).physical

        def fold_in(key: Any, number: Any) -> Any:
            return _checked(impl, "fold_in", impl.fold_in(key, number), wanted)

        return _map_keys(fold_in, avals[0].ndim, words, data)

    def keys(self, line: Any, operands: Sequence[Any]) -> list[None]:
        keys, data = operands
        if isinstance(keys, Keys):
            keys.use(data if isinstance(data, int) else UNKNOWN, line)
        return [None]

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, int]:
        (keys, data), (keys_dim, data_dim) = args, dims
        keys = move_batch_axis(keys, keys_dim, 0, axis.size)
        ndim = len(_shape_of_keys("random_fold_in", aval_of(keys)))
        shape = aval_of(data).shape
        if data_dim is not None:
            data = basis.move_axis(data, data_dim, 0)
            data = reshape(
                data, (axis.size, *(shape[:data_dim] + shape[data_dim + 1 :] or (1,) * (ndim - 1)))
            )
        elif shape:
            data = reshape(data, (1, *shape))
        return self.bind(keys, data), 0

    def eager(self, keys: Any, data: Any) -> Any:
        words = _blocks(keys, np.asarray(data)[..., None])
        return np.stack(words, -1).reshape(keys.shape)

    def lower(self, ctx: Any, keys: Any, data: Any) -> Any:
        k0, k1 = (_lower_word(ctx, keys, i) for i in range(2))
        if data.aval.shape != k0.aval.shape:
            data = ctx.broadcast(data, k0.aval, range(data.aval.ndim))
        return _lower_keys(ctx, _lower_rounds(ctx, k0, k1, ctx.constant(0, data.aval), data))


def _shape_of_keys(name: str, keys: ShapedArray) -> tuple[int, ...]:
    """The shape of an array of keys, which may be an array of Threefry's words."""
    if impl_of(keys.dtype) is not None:
        return keys.shape
    if keys.dtype != UINT32 or keys.shape[-1:] != (2,):
        raise TypeError(
            message(
                f"{name} takes keys, or uint32 arrays whose last axis has length 2.",
                f"got: {keys}",
                fix="Make keys with didax.random.key or didax.random.split.",
            )
        )
    return keys.shape[:-1]


def _impl(keys: ShapedArray) -> PRNGImpl:
    impl = impl_of(keys.dtype)
    assert impl is not None, "the type rule has seen to it"
    return impl


def _map_keys(f: Callable[..., Any], batch_ndim: int, words: Any, *others: Any) -> Any:
    """`f` on each of the leading `batch_ndim` indices of words, as nested vmaps would apply it.

    The axes of the other arguments are those of the words; an argument without axes, or an axis of length 1, is
    shared by all.
    """
    if not batch_ndim:
        return f(words, *others)
    axis = AxisData(None, aval_of(words).shape[0])
    args: list[Any] = [words]
    dims: list[int | None] = [0]
    for x in others:
        shape = aval_of(x).shape
        shared = shape[:1] != (axis.size,)
        args.append(reshape(x, shape[1:]) if shared and shape else x)
        dims.append(None if shared else 0)
    (out,), (dim,) = vmap_flat(lambda *xs: [_map_keys(f, batch_ndim - 1, *xs)], axis, dims, args)
    return move_batch_axis(out, dim, 0, axis.size)


def _checked(impl: PRNGImpl, function: str, out: Any, wanted: ShapedArray) -> Any:
    """What a function of an implementation returned, if it is of the type that it promises."""
    found = aval_of(out)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        raise TypeError(
            message(
                f"A random generator's {function} returned an array of another type than asked for.",
                f"returned: {found}, asked for: {wanted}, generator: {impl.name}",
                fix="Cast or reshape the result in the generator's definition.",
            )
        )
    return out


threefry2x32_p = Threefry2x32("threefry2x32")
random_bits_p = RandomBits("random_bits")
random_split_p = RandomSplit("random_split")
random_fold_in_p = RandomFoldIn("random_fold_in")


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
