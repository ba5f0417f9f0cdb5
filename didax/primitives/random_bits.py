"""What every random generator does with keys: random bits, new keys from a key, a new key from a key and a number.

Three primitives on arrays of keys: `random_bits`, `random_split`, `random_fold_in`. On keys of a dtype each applies the
function of that name of the dtype's generator (`PRNGImpl`). On words (uint32, the last axis of length 2) they are
Threefry's: each draws all the blocks that it needs at once, with counters 0, 1, 2, ...
Read next: `keys.py` (the dtypes), `threefry_cipher.py` (the blocks), `didax/random/` (numbers from the bits).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic
from didax.core.errors import message
from didax.passes.key_reuse import UNKNOWN, Keys
from didax.primitives import padded, split
from didax.primitives.keys import UINT32, KeyPrimitive, PRNGImpl, impl_of, use_up
from didax.primitives.shape import reshape
from didax.primitives.threefry_cipher import blocks, lower_blocks, lower_word, threefry2x32
from didax.transforms.batching import AxisData, move_batch_axis, vmap_flat
from didax.xla.lowering import lower_function
from didax.xla.text import Value
from didax.xla.written_calls import kept_apart

_UINT64 = np.dtype(np.uint64)
_MANY = 1 << 12  # keys


class RandomBits(KeyPrimitive):
    """Unsigned integers of `bit_width` random bits, of a shape, for each key of an array."""

    is_drawn = True
    keys = use_up
    sharding = split.with_last_axes
    padded = padded.drawn

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
        high, low = blocks(keys, np.arange(math.prod(shape), dtype=UINT32))
        if bit_width == 64:
            bits = (high.astype(np.uint64) << np.uint64(32)) | low
        else:
            bits = high ^ low
        return bits.astype(f"uint{bit_width}", copy=False).reshape(keys.shape[:-1] + shape)

    def lower(self, ctx: Any, keys: Any, *, shape: tuple[int, ...], bit_width: int) -> Any:
        out = ctx.out_avals[0]
        high, low = lower_blocks(ctx, keys, math.prod(shape))
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
    sharding = split.with_last_axes
    padded = padded.drawn

    def type(self, keys: ShapedArray, *, shape: tuple[int, ...]) -> ShapedArray:
        batch = _shape_of_keys("random_split", keys)
        return keys.update(shape=(*batch, *shape, *keys.shape[len(batch) :]))

    def physical(self, avals: Sequence[ShapedArray], words: Any, *, shape: tuple[int, ...]) -> Any:
        impl, wanted = _impl(avals[0]), avals[0].update(shape=shape).physical

        def split(key: Any) -> Any:
            return _checked(impl, "split", impl.split(key, shape), wanted)

        return _map_keys(split, avals[0].ndim, words)

    def eager(self, keys: Any, *, shape: tuple[int, ...]) -> Any:
        words = blocks(keys, np.arange(math.prod(shape), dtype=UINT32))
        return np.stack(words, -1).reshape((*keys.shape[:-1], *shape, 2))

    def lower(self, ctx: Any, keys: Any, *, shape: tuple[int, ...]) -> Any:
        batch, n = keys.aval.shape[:-1], math.prod(shape)
        out = ShapedArray((*batch, *shape), UINT32)
        if not _pays(ctx, out.update(shape=(*out.shape, 2))):
            return _lower_keys(ctx, [ctx.op("reshape", [x], out) for x in lower_blocks(ctx, keys, n)])
        first = len(batch) > 0 and n < batch[-1]  # along the longer axis the cipher is vectorised

        def write(inner: Any, keys: Value) -> list[Value]:
            return [_lower_packed_keys(inner, lower_blocks(inner, keys, n, counters_first=first))]

        drawn = kept_apart(ctx, "split", [keys], write)[0]
        if first:
            drawn = ctx.transpose(drawn, [*range(1, len(batch) + 1), 0, len(batch) + 1])
        return ctx.reshape(drawn, (*out.shape, 2))


class RandomFoldIn(KeyPrimitive):
    """A new key from a key and a uint32, for each element of arrays of both.

    Several keys may share a number, whose array then has no axes, or axes of length 1: `unsafe_rbg` draws once for all.
    """

    sharding = split.kept
    padded = padded.elementwise

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
            data = array_ops.move_axis(data, data_dim, 0)
            data = reshape(
                data, (axis.size, *(shape[:data_dim] + shape[data_dim + 1 :] or (1,) * (ndim - 1)))
            )
        elif shape:
            data = reshape(data, (1, *shape))
        return self.bind(keys, data), 0

    def eager(self, keys: Any, data: Any) -> Any:
        words = blocks(keys, np.asarray(data)[..., None])
        return np.stack(words, -1).reshape(keys.shape)

    def lower(self, ctx: Any, keys: Any, data: Any) -> Any:
        def write(inner: Any, keys: Value, data: Value) -> list[Value]:
            k0, k1 = (lower_word(inner, keys, i) for i in range(2))
            if data.aval.shape != k0.aval.shape:
                data = inner.broadcast(data, k0.aval, range(data.aval.ndim))
            return lower_function(inner, threefry2x32, [k0, k1, inner.constant(0, data.aval), data])

        if _pays(ctx, keys.aval):
            apart = lambda inner, *xs: [_lower_packed_keys(inner, write(inner, *xs))]
            return kept_apart(ctx, "fold_in", [keys, data], apart)[0]
        return _lower_keys(ctx, write(ctx, keys, data))


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
    """The result of a generator's function; TypeError unless it has the type that was asked for."""
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


def _lower_keys(ctx: Any, words: Sequence[Value]) -> Value:
    """New keys: the two words of each block as a last axis.

    The keys are behind a barrier: otherwise XLA would make them once more for each element that is drawn with them, in
    kernels of several ciphers, which take 1.8 s to compile instead of 0.2.
    """
    parts = [ctx.reshape(x, (*x.aval.shape, 1)) for x in words]
    return ctx.barrier(ctx.concatenate(parts, parts[0].aval.ndim - 1))


def _pays(ctx: Any, keys: ShapedArray) -> bool:
    """Whether keys are so many that `_lower_packed_keys` makes them, in a program that may keep functions apart."""
    return (
        not is_symbolic(keys.size) and keys.size >= _MANY and ctx.module.on_one_cpu and not ctx.module.alone
    )


def _lower_packed_keys(ctx: Any, words: Sequence[Value]) -> Value:
    """The same keys, in a function that XLA keeps apart on the CPU, whose kernels have one result.

    Two arrays of words are two kernels, each of which runs the whole cipher. A block as an integer of 64 bits is one.
    Processor milliseconds of 100,000 keys, one loaded core: from one key 0.51 -> 0.26, one from each of as many keys
    0.45 -> 0.32.
    """
    low, high = [ctx.convert(x, _UINT64) for x in words]
    block = ctx.op("or", [low, ctx.op("shift_left", [high, ctx.constant(32, high.aval)])])
    return ctx.op("bitcast_convert", [block], block.aval.update(shape=(*block.aval.shape, 2), dtype=UINT32))


random_bits_p = RandomBits("random_bits")
random_split_p = RandomSplit("random_split")
random_fold_in_p = RandomFoldIn("random_fold_in")
