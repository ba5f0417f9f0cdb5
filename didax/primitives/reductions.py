"""Reductions over axes: extrema, products, logic, and the positions of extrema.

    reduce_max(x)[j] = max over i of x[i, j]        argmax(x)[j] = the first i where it is attained

A reduction combines elements with an operation that is associative and has an identity, which is the result
over nothing. NaN is an extremum wherever it occurs. The tangent of an extremum is the mean of the tangents of
the elements that attain it. The product is differentiated by halves: nothing is divided by factors that are
zero. The sum is in `shape.py`, as the transpose of broadcasting. Read next: `cumulative.py`, the same for
every prefix.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic, may_exceed
from didax.core.errors import message
from didax.core.primitive import Primitive
from didax.passes.sparsity import Dependence, along_axes
from didax.primitives import padded, split
from didax.primitives.convert import computed_once, convert_element_type
from didax.primitives.elementwise import div, eq, mul, ne, or_
from didax.primitives.filled import full
from didax.primitives.holes import NOT_DIFFERENTIABLE, NOT_LINEAR
from didax.primitives.numpy_rules import count_nonzero
from didax.primitives.reduced import batched_axes, cut_row, reduced_aval, reduced_from
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, reduce_sum, reshape, transpose
from didax.primitives.slicing import concatenate, slice_axis
from didax.primitives.steps import Steps, has_steps, reduce_by, reduce_in_steps, steps_of
from didax.transforms.batching import AxisData
from didax.transforms.jvp import jvp_flat
from didax.xla.text import function_type, keep_nan, lower_combination, lower_order
from didax.xla.written_calls import kept_apart

_BOOL = np.dtype(bool)


# --- The operations and their identities --------------------------------------------------------------------


def least(dtype: np.dtype[Any]) -> Any:
    """The least value of a dtype: the identity of `max`."""
    if dtype == _BOOL:
        return False
    if dtypes.is_integer(dtype):
        return dtypes.iinfo(dtype).min
    if dtypes.is_complex(dtype):
        return complex(-math.inf, -math.inf)
    return -math.inf if _has_infinity(dtype) else float(dtypes.finfo(dtype).min)


def least_finite(dtype: np.dtype[Any]) -> Any:
    """The least value of a dtype that is not infinite."""
    return float(dtypes.finfo(dtype).min) if dtypes.is_float(dtype) else least(dtype)


def greatest(dtype: np.dtype[Any]) -> Any:
    """The greatest value of a dtype: the identity of `min`."""
    if dtype == _BOOL:
        return True
    if dtypes.is_integer(dtype):
        return dtypes.iinfo(dtype).max
    if dtypes.is_complex(dtype):
        return complex(math.inf, math.inf)
    return math.inf if _has_infinity(dtype) else float(dtypes.finfo(dtype).max)


def _has_infinity(dtype: np.dtype[Any]) -> bool:
    return bool(np.isinf(dtype.type(math.inf)))


def _all_ones(dtype: np.dtype[Any]) -> Any:
    return True if dtype == _BOOL else ~dtype.type(0)


def is_narrow_float(dtype: np.dtype[Any]) -> bool:
    """True for floats of at most 16 bits, which are accumulated in float32."""
    return dtypes.is_float(dtype) and dtype.itemsize <= 2


# --- Reductions ---------------------------------------------------------------------------------------------


@functools.lru_cache(1024)
def _initial(identity: Callable[[np.dtype[Any]], Any], dtype: np.dtype[Any]) -> Any:
    return dtype.type(identity(dtype))


class Reduction(Primitive):
    """Combines the elements along `axes` by a binary operation: `op` in StableHLO, `ufunc` in NumPy."""

    in_supported_dtype = True
    holes = {"transpose": NOT_LINEAR}
    sharding = split.reduced
    padded = padded.reduced(lambda self, dtype: self.identity(dtype))

    def __init__(
        self, name: str, op: str, ufunc: np.ufunc, accepts: str, identity: Callable[[np.dtype[Any]], Any]
    ) -> None:
        super().__init__(name)
        self.op, self.ufunc, self.accepts, self.identity = op, ufunc, accepts, identity

    def type(self, x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
        return reduced_aval(self.name, x, axes, self.accepts)

    def eager(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        x = np.asarray(x)
        return self.ufunc.reduce(x, axis=axes, dtype=x.dtype, initial=_initial(self.identity, x.dtype))

    def eager_text(
        self, source: Any, names: Sequence[str], avals: Sequence[ShapedArray], *, axes: tuple[int, ...]
    ) -> str | None:
        dtype = avals[0].dtype
        if dtype.isbuiltin != 1 or not avals[0].ndim or (dtype.kind == "f" and dtype.itemsize == 2):
            return None
        initial = source.given(_initial(self.identity, dtype))
        reduce, of = source.given(self.ufunc.reduce), source.given(dtype)
        return f"{reduce}({names[0]}, {axes}, {of}, None, False, {initial})"

    def lower(self, ctx: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
        return ctx.reduce(x, axes, self.op, self.identity(x.aval.dtype))

    def sparsity(self, operands: Sequence[Dependence], *, axes: tuple[int, ...]) -> Any:
        return along_axes(operands[0], axes)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, axes: tuple[int, ...]
    ) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        y = self.bind(x, axes=axes)
        return y, Zero(aval_of(y).tangent()) if type(t) is Zero else self.derivative(t, y, x, axes)

    def derivative(self, t: Any, y: Any, x: Any, axes: tuple[int, ...]) -> Any:
        """The result's tangent for a nonzero tangent `t` of `x`."""
        return Zero(aval_of(y).tangent())

    def batch(self, axis: AxisData, args: Any, dims: Any, *, axes: tuple[int, ...]) -> tuple[Any, int]:
        inner, out_dim = batched_axes(axes, dims[0])
        return self.bind(args[0], axes=inner), out_dim


class LogicalReduction(Reduction):
    """Bitwise on integers."""

    holes = {"transpose": NOT_DIFFERENTIABLE}

    def lower(self, ctx: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
        def reduce(ctx: Any, xs: Sequence[Any], axes: Sequence[int]) -> list[Any]:
            return [ctx.reduce(xs[0], axes, self.op, self.identity(xs[0].aval.dtype))]

        found = reduce_in_steps(ctx, x, axes, reduce)
        return super().lower(ctx, x, axes=axes) if found is None else found


# Note [NaN in reduced extrema] By Note [NaN in extrema] in xla/text.py the reduction is not handed to the library that
# loses NaN. XLA's own loops, which do the work then, reduce leading axes with vector instructions, but the innermost
# axis one element at a time. So the elements of a row are dealt out to lanes; each lane is reduced, and then the lanes,
# together with the elements that were left over. The values are rounded once more between the two reductions: otherwise
# XLA would merge the two. Milliseconds, float32, two AMD Zen cores, fastest of 240, (a) the library, (b) one reduction,
# (c) lanes: (1024, 1024) 0.09 0.15 0.11, (1000, 1000) 0.08 0.47 0.11, (16384, 64) 0.09 0.25 0.11, (1000, 1009) 0.07
# 0.44 0.20, (65536, 16) 0.12 0.14 0.14. A row that is longer than a cache is cut into blocks of 32 rows of some 32
# lanes, which are reduced block by block: lanes alone would use one core, and few bytes of each line of the cache.
# Processor milliseconds for 10,000,000 float32, one loaded core, (a) 2.9, (c) 6.3, blocks 2.6; on a core with AVX-512,
# whose blocks lie together in 4 kB: (a) 1.7, NumPy 1.3, blocks of 1,000 lanes 2.5, of 32 lanes 2.0, and for 8,388,608
# (a) 1.25, NumPy 1.05, 1,000 lanes 2.4, 32 lanes 1.4. Integers are dealt out in the same way, with a barrier in place
# of the rounding: 1,000,000 of them 0.92 -> 0.34, rows of 1,000 0.91 -> 0.38.
# Other lanes that divide a row beat 16 with a rest, which XLA copies: (10000, 100) 0.43 -> 0.23, (1000, 1050) 0.65 ->
# 0.18, the softmax of (10000, 100) 2.4 -> 1.8. XLA computes an operand within the loop of its extremum only where the
# loop takes at most 32 steps, so more than 32 rows of lanes are blocks, too: (1000, 1000) |x| 0.48 -> 0.20, JAX 0.29,
# exp(x) 0.89 -> 0.62, 0.60; their columns 0.43 -> 0.14, 0.21, and 0.91 -> 0.58, 0.61. For the same reason blocks and
# lanes stay two axes in the second step: as one of more than 32 elements they would be reduced in two more. Integers
# are left in one loop: (1000, 1000) int32 in blocks 1.0, without 0.13, JAX 0.90, NumPy 0.11; uint8 in lanes 1.2, by
# XLA 0.06.

_FLOAT32 = np.dtype(np.float32)
_LANES = (32, 16, 8)  # several vectors, which hide each other's latency
_ODD_LANES = sorted(range(10, 51), key=lambda n: abs(n - 25))
_HEIGHTS = range(32, 7, -1)  # rows of a block
_MANY = 1 << 14  # elements
_LONG = 1 << 18
_INT32 = np.dtype(np.int32)


def lower_extremum(ctx: Any, x: Any, axes: Sequence[int], op: str, init: Any) -> Any:
    """`stablehlo.reduce` by `maximum` or `minimum`; NaN if there is one. See Note [NaN in reduced extrema]."""
    if is_narrow_float(x.aval.dtype):  # an extremum is one of the elements: nothing is lost
        return ctx.convert(lower_extremum(ctx, ctx.convert(x, _FLOAT32), axes, op, init), x.aval.dtype)
    first = reduced_from(x.aval.ndim, axes)
    row = math.prod(x.aval.shape[first:])
    if ctx.module.devices is not None and dtypes.is_float(x.aval.dtype):
        # devices lose NaN when they exchange extrema
        return as_ordered_integers(
            ctx, x, op, lambda keys: _reduce(ctx, keys, axes, op, ordered_integer(init, x.aval.dtype))
        )
    has_lanes = not is_symbolic(row) and row > max(_LANES) and ctx.module.on_one_cpu
    # Bytes are left to XLA's library.
    if dtypes.kind_of(x.aval.dtype) not in "iuf" or x.aval.dtype.itemsize == 1:
        return _reduce(ctx, x, axes, op, init)
    outer = [i for i in axes if i < first]
    if not has_lanes:
        return _reduce_outer(ctx, x, axes, op, init) if outer else _reduce(ctx, x, axes, op, init)
    if outer:
        x, first = _apart(ctx, _reduce_outer(ctx, x, outer, op, init)), first - len(outer)
    found = _reduce_to_lanes(ctx, ctx.reshape(x, (*x.aval.shape[:first], row)), op, init)
    return _reduce(ctx, _apart(ctx, found), range(first, found.aval.ndim), op, init)


def as_ordered_integers(ctx: Any, x: Any, op: str, extremum: Any) -> Any:
    """`extremum` of floats, computed on integers that are ordered as the floats are; of NaN it is NaN."""
    integer = np.dtype(f"i{x.aval.dtype.itemsize}")
    limits = np.iinfo(integer)
    keys = _flipped(ctx, ctx.op("bitcast_convert", [x], x.aval.update(dtype=integer)))
    last = ctx.constant(limits.max if op == "maximum" else limits.min, keys.aval)
    keys = extremum(ctx.select(ctx.compare("NE", x, x), last, keys))
    return ctx.op("bitcast_convert", [_flipped(ctx, keys)], keys.aval.update(dtype=x.aval.dtype))


def _flipped(ctx: Any, bits: Any) -> Any:
    """The bits of floats as integers in the order of the floats, and back: in negative ones all but the sign flip."""
    other = ctx.op("xor", [bits, ctx.constant(np.iinfo(bits.aval.dtype).max, bits.aval)])
    return ctx.select(ctx.compare("LT", bits, ctx.constant(0, bits.aval)), other, bits)


def ordered_integer(value: Any, dtype: np.dtype[Any]) -> int:
    """The integer that stands for a float in `as_ordered_integers`."""
    bits = int(np.asarray(value, dtype).view(f"i{dtype.itemsize}")[()])
    return bits if bits >= 0 else bits ^ np.iinfo(f"i{dtype.itemsize}").max


def _reduce_to_lanes(ctx: Any, x: Any, op: str, init: Any) -> Any:
    """The extrema of each row's lanes, of its blocks' lanes, or of lanes, followed by the elements that no lane has."""
    *shape, row = x.aval.shape
    axis = len(shape)
    if row >= _LONG and (cut := cut_row(row, lanes=32, rows=32)) is not None:
        found = _reduce(ctx, ctx.reshape(x, (*shape, *cut)), [axis + 1], op, init)
        return _reduce(ctx, _apart(ctx, found), [axis], op, init)
    lanes = next((n for n in (*_LANES, *_ODD_LANES) if row % n == 0), 16)
    left, rows = row % lanes, row // lanes
    height = next((n for n in _HEIGHTS if rows % n == 0), 0)
    if not left and lanes in _LANES and 0 < height < rows and dtypes.is_float(x.aval.dtype):
        return _reduce(ctx, ctx.reshape(x, (*shape, rows // height, height, lanes)), [axis + 1], op, init)
    whole = ctx.slice_axis(x, 0, row - left, axis) if left else x
    found = _reduce(ctx, ctx.reshape(whole, (*shape, rows, lanes)), [axis], op, init)
    if not left:
        return found
    rest = ctx.slice_axis(x, row - left, row, axis)
    return ctx.concatenate([found, rest], axis)


def _reduce_outer(ctx: Any, x: Any, axes: Sequence[int], op: str, init: Any) -> Any:
    """Extrema along axes that are not innermost; a long one in so many blocks that XLA does not merge the two steps."""
    shape, axis = x.aval.shape, axes[0]
    sizes = () if is_symbolic(x.aval.size) or len(axes) > 1 or not ctx.module.on_one_cpu else _HEIGHTS
    height = next((n for n in sizes if shape[axis] % n == 0 and shape[axis] // n > _HEIGHTS[0]), 0)
    if height and x.aval.size >= _MANY:
        blocks = ctx.reshape(x, (*shape[:axis], shape[axis] // height, height, *shape[axis + 1 :]))
        x = _apart(ctx, _reduce(ctx, blocks, [axis + 1], op, init))
    return _reduce(ctx, x, axes, op, init)


def _apart(ctx: Any, found: Any) -> Any:
    """The same extrema, which XLA does not merge with the reduction that follows."""
    return keep_nan(ctx, found) if dtypes.is_float(found.aval.dtype) else ctx.barrier(found)


def _reduce(ctx: Any, x: Any, axes: Sequence[int], op: str, init: Any) -> Any:
    out = x.aval.update(shape=tuple(n for i, n in enumerate(x.aval.shape) if i not in axes))
    start = ctx.scalar(init, x.aval.dtype)
    args, _ = ctx.block([start.aval, start.aval])
    body = ctx.region()
    result = keep_nan(body, lower_combination(body, op, *args))
    operands = function_type([x, start], [out])
    return ctx.emit(
        f"stablehlo.reduce({x} init: {start}) across dimensions = {list(axes)} : "
        f"{operands} reducer({', '.join(f'{y}: {y.type}' for y in args)}) {body.body([result])}",
        out,
    )


class Extremum(Reduction):
    """The largest or smallest element. If one is NaN it is NaN, or any value where `keeps_nan` is false."""

    in_supported_dtype = False  # the identity is that of the dtype itself

    def __init__(self, *declaration: Any, keeps_nan: bool = True) -> None:
        super().__init__(*declaration)
        self.keeps_nan = keeps_nan

    def eager(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        x = np.asarray(x)
        return self._with_signs(super().eager(x, axes=axes), x, axes)

    def _with_signs(self, out: Any, x: Any, axes: tuple[int, ...]) -> Any:
        return sign_zeros(out, x, self.ufunc, lambda zeros: zeros.any(axis=axes))

    def eager_text(
        self, source: Any, names: Sequence[str], avals: Sequence[ShapedArray], *, axes: tuple[int, ...]
    ) -> str | None:
        text = super().eager_text(source, names, avals, axes=axes)
        if text is None or avals[0].dtype.kind != "f":
            return text
        return f"{source.given(self._with_signs)}({text}, {names[0]}, {axes})"

    def lower(self, ctx: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
        dtype = x.aval.dtype
        init, x = self.identity(dtype), ctx.convert(x, dtypes.supported_dtype(dtype))
        out = (
            lower_extremum(ctx, x, axes, self.op, init)
            if self.keeps_nan
            else ctx.reduce(x, axes, self.op, init)
        )
        return ctx.convert(out, dtype)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, axes: tuple[int, ...]
    ) -> tuple[Any, Any]:
        known = primals if type(tangents[0]) is Zero else computed_once(*primals)
        return super().jvp(known, tangents, axes=axes)

    def derivative(self, t: Any, y: Any, x: Any, axes: tuple[int, ...]) -> Any:
        shape, dtype = aval_of(x).shape, aval_of(t).dtype
        kept = tuple(i for i in range(len(shape)) if i not in axes)
        attained = eq(x, broadcast_in_dim(y, shape, kept))
        count = reduce_sum(convert_element_type(attained, dtype), axes)
        # No element equals an extremum that is NaN. All elements get a share of its derivative then, so that it is NaN
        # in reverse mode too.
        is_nan = ne(y, y)
        takes_part = or_(attained, broadcast_in_dim(is_nan, shape, kept))
        return div(reduce_sum(where(takes_part, t, scalar_like(0, dtype)), axes), where(is_nan, y, count))


def sign_zeros(out: Any, x: Any, ufunc: np.ufunc, any_of: Callable[[Any], Any]) -> Any:
    """Real extrema with XLA's signs of zero: 0.0 is larger than -0.0. NumPy returns either.

    `any_of` reduces a mask of `x` to the shape of `out`.
    """
    if count_nonzero(out) == out.size or not dtypes.is_float(x.dtype):  # no extremum is a zero
        return out
    wins = 0.0 if ufunc is np.maximum else -0.0
    found = any_of((x == 0) & (np.signbit(x) == np.signbit(wins)))
    return np.where(out == 0, np.where(found, x.dtype.type(wins), x.dtype.type(-wins)), out)


class ReduceProd(Reduction):
    """The product, in the operand's dtype (integers wrap)."""

    def eager(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        x = np.asarray(x)
        if is_narrow_float(x.dtype):
            return super().eager(x.astype(np.float32), axes=axes).astype(x.dtype)
        return super().eager(x, axes=axes)

    def derivative(self, t: Any, y: Any, x: Any, axes: tuple[int, ...]) -> Any:
        return jvp_flat(lambda x: [_product(_gathered(x, axes))], [x], [t])[1][0]


def _gathered(x: Any, axes: tuple[int, ...]) -> Any:
    """`axes` as one leading axis, before the other axes."""
    shape = aval_of(x).shape
    kept = [i for i in range(len(shape)) if i not in axes]
    n = math.prod(shape[i] for i in axes)
    return reshape(transpose(x, (*axes, *kept)), (n, *(shape[i] for i in kept)))


def _product(x: Any) -> Any:
    """Product along the leading axis: its two halves are multiplied until one element is left."""
    n, *rest = aval_of(x).shape
    if n == 0:
        return full(tuple(rest), 1, aval_of(x).dtype)
    while may_exceed(n, 1):
        after = (n + 1) // 2
        half = n - after
        left_over = [slice_axis(x, 2 * half, n, 0)] if may_exceed(after, half) else []
        x = concatenate([mul(slice_axis(x, 0, half, 0), slice_axis(x, half, 2 * half, 0)), *left_over], 0)
        n = after
    return reshape(x, tuple(rest))


# --- Positions of extrema -----------------------------------------------------------------------------------


# Note [Searching in blocks]
# XLA reduces pairs (value, position) one after the other, but single floats with vector instructions. So for a
# long axis the extremum of each block is found first, then the first block that attains the extremum of all,
# then the position in that block. A block's length divides that of the axis: slicing or padding would copy
# the operand. Milliseconds, float32, two AMD Zen cores, fastest of 21, pairs -> blocks: (100000,) 0.13 ->
# 0.056, (10000000,) 9.1 -> 2.4, (1000, 10000) along axis 1 10 -> 2.8, (10000, 1000) along axis 0 39 -> 2.1. Processor
# milliseconds, one loaded core: (1000, 1000) along axis 1 1.25 -> 0.6, along axis 0 2.5 -> 0.8, (5000, 256) 2.2 -> 1.2;
# int32 (1000, 1000) 1.0 -> 0.6, uint8 (1000, 1024) 1.25 -> 0.23. A block is near the square root of the length, where
# the least is searched, and a multiple of 8, which Note [NaN in reduced extrema] asks for.


def _block_length(x: ShapedArray, axis: int) -> int | None:
    n = x.shape[axis]
    if (
        is_symbolic(n)
        or n < 256
        or not x.size
        or not (x.dtype.name in ("float32", "float64") or dtypes.is_integer(x.dtype))
    ):
        return None
    lengths = [length for length in range(16, min(n // 4, 1024) + 1) if n % length == 0]
    return min(lengths, key=lambda length: (length % 8 > 0, length + n // length), default=None)


# Note [Searching in passes]
# Where the whole array stays in a cache, two fast passes beat one slow: the first finds the extremum and whether an
# element is NaN, the second the least position that holds it. Both go in steps (`steps.py`), by comparisons and ors
# alone, and read no pairs. They are in a function of their own: XLA would compute an operand that is not in memory
# once in each of them, rounded otherwise, and then no element may equal the extremum. Processor milliseconds, float32,
# one loaded core of an AMD EPYC, pairs or blocks -> passes: (1000, 1000) along axis 1 0.47 -> 0.36, along
# axis 0 0.80 -> 0.49, (10000, 100) along axis 1 1.75 -> 0.64, (100, 10000) along axis 0 2.2 -> 0.31, (2000, 256)
# 0.56 -> 0.23, (100000,) 0.16 -> 0.07; but (1000000,) 0.24 -> 0.77, (50000, 16) along axis 1 0.56 -> 0.71.


def _has_passes(ctx: Any, x: ShapedArray, axis: int) -> bool:
    if not has_steps(ctx, x) or not (x.dtype.name in ("float32", "float64") or dtypes.is_integer(x.dtype)):
        return False
    return x.shape[axis] >= 32 and (x.shape[axis] < 4096 or x.size <= 1 << 18)


class ArgExtremum(Primitive):
    """Position of the first extremum along one axis (`axes` holds one), NaN counting as one."""

    in_supported_dtype = True
    holes = {"transpose": NOT_DIFFERENTIABLE}
    sharding = split.reduced
    padded = padded.reduced(lambda self, dtype: self.worst(dtype))

    def __init__(
        self,
        name: str,
        *,
        direction: str,
        op: str,
        find: Callable[..., Any],
        worst: Callable[[np.dtype[Any]], Any],
    ):
        super().__init__(name)
        self.direction, self.op, self.find, self.worst = direction, op, find, worst

    def type(self, x: ShapedArray, *, axes: tuple[int, ...], index_dtype: np.dtype[Any]) -> ShapedArray:
        out = reduced_aval(self.name, x, axes, "biufc")
        if len(axes) != 1 or not x.shape[axes[0]]:
            raise ValueError(
                message(
                    f"{self.name} searches one axis that is not empty.",
                    f"operand: {x}, axes: {axes}",
                    fix="Name one axis with at least one element.",
                )
            )
        if not dtypes.is_integer(index_dtype):
            raise TypeError(
                message(
                    f"{self.name} returns integers.",
                    f"index_dtype: {dtypes.dtype_name(index_dtype)}",
                    fix="Choose an integer dtype such as int32.",
                )
            )
        dtypes.check_counts(index_dtype, x.shape[axes[0]])
        return ShapedArray(out.shape, index_dtype)

    def eager(self, x: Any, *, axes: tuple[int, ...], index_dtype: np.dtype[Any]) -> Any:
        x = np.asarray(x)
        x = x.astype(np.float32) if is_narrow_float(x.dtype) else x
        return self.find(x, axis=axes[0]).astype(index_dtype)

    def lower(self, ctx: Any, x: Any, *, axes: tuple[int, ...], index_dtype: np.dtype[Any]) -> Any:
        if _has_passes(ctx, x.aval, axes[0]):
            search = lambda inner, x: [self._search_in_passes(inner, x, axes[0])]
            return ctx.convert(kept_apart(ctx, self.name, [x], search)[0], index_dtype)
        length = _block_length(x.aval, axes[0]) if ctx.module.on_cpu else None
        if length is not None:
            return self._search_blocks(ctx, x, axes[0], length, index_dtype)
        return self._search(ctx, x, axes[0], index_dtype)

    def _search_in_passes(self, ctx: Any, x: Any, axis: int) -> Any:
        """The extremum, and then the first position that holds it. See Note [Searching in passes]."""
        n, rank = x.aval.shape[axis], x.aval.ndim
        steps = steps_of(ctx, x.aval, [axis]) or Steps(x.aval.shape, axis, ())
        x = ctx.reshape(x, steps.shape)
        pieces = range(axis, axis + x.aval.ndim - rank + 1)  # the axes that the searched one was cut into
        best = ctx.broadcast(
            self._extremum(ctx, x, steps), x.aval, [i for i in range(x.aval.ndim) if i not in pieces]
        )
        found = ctx.compare("EQ", x, best)
        if dtypes.is_float(x.aval.dtype):
            found = ctx.op("or", [found, ctx.compare("NE", x, x)])
        places = x.aval.update(dtype=_INT32, weak_type=False)
        place, step = ctx.constant(0, places), n
        for i in pieces:
            step //= places.shape[i]
            place = ctx.op(
                "add", [place, ctx.op("multiply", [ctx.iota(places, i), ctx.constant(step, places)])]
            )
        first = ctx.select(found, place, ctx.constant(n, places))

        def reduce(ctx: Any, xs: Sequence[Any], axes: Sequence[int]) -> list[Any]:
            return [ctx.reduce(xs[0], axes, "minimum", n)]

        return reduce_by(ctx, [first], steps, reduce)[0]

    def _extremum(self, ctx: Any, x: Any, steps: Steps) -> Any:
        """The best value, NaN if there is one; 0.0 and -0.0 are equal here."""
        worst = self.worst(x.aval.dtype)
        if not dtypes.is_float(x.aval.dtype):
            return reduce_by(
                ctx, [x], steps, lambda ctx, xs, axes: [ctx.reduce(xs[0], axes, self.op, worst)]
            )[0]
        best, is_nan = reduce_by(ctx, [x, ctx.compare("NE", x, x)], steps, self._reduce_flagged)
        return ctx.select(is_nan, ctx.constant(math.nan, best.aval), best)

    def _reduce_flagged(self, ctx: Any, xs: Sequence[Any], axes: Sequence[int]) -> list[Any]:
        """The best of the numbers by comparisons alone, and whether one of them is flagged as NaN."""
        starts = [ctx.scalar(self.worst(xs[0].aval.dtype), xs[0].aval.dtype), ctx.scalar(False, _BOOL)]
        (x, y, p, q), _ = ctx.block([starts[0].aval, starts[0].aval, starts[1].aval, starts[1].aval])
        body = ctx.region()
        results = [body.select(body.compare(self.direction, x, y), x, y), body.op("or", [p, q])]
        outs = [
            a.aval.update(shape=tuple(n for i, n in enumerate(a.aval.shape) if i not in axes)) for a in xs
        ]
        return ctx.emit_many(
            f"stablehlo.reduce({xs[0]} init: {starts[0]}), ({xs[1]} init: {starts[1]}) "
            f"across dimensions = {list(axes)} : {function_type([*xs, *starts], outs)} "
            f"reducer({x}: {x.type}, {y}: {y.type}) ({p}: {p.type}, {q}: {q.type}) {body.body(results)}",
            outs,
        )

    def _search(self, ctx: Any, x: Any, axis: int, index_dtype: np.dtype[Any]) -> Any:
        """A reduction of pairs (value, position)."""
        value, index = x.aval, ShapedArray(x.aval.shape, index_dtype)
        starts = [ctx.scalar(self.worst(value.dtype), value.dtype), ctx.scalar(0, index_dtype)]
        ramp = ctx.iota(index, axis)
        outs = [a.update(shape=a.shape[:axis] + a.shape[axis + 1 :]) for a in (value, index)]
        return ctx.emit_many(
            f"stablehlo.reduce({x} init: {starts[0]}), ({ramp} init: {starts[1]}) "
            f"across dimensions = [{axis}] : {function_type([x, ramp, *starts], outs)} "
            f"{self._reducer(ctx, starts[0].aval, starts[1].aval)}",
            outs,
        )[1]

    def _search_blocks(self, ctx: Any, x: Any, axis: int, length: int, index_dtype: np.dtype[Any]) -> Any:
        """See Note [Searching in blocks]."""
        shape = x.aval.shape
        blocks = (*shape[:axis], shape[axis] // length, length, *shape[axis + 1 :])
        x = ctx.reshape(x, blocks)
        best = lower_extremum(ctx, x, [axis + 1], self.op, self.worst(x.aval.dtype))
        block = self._search(ctx, best, axis, index_dtype)
        inside = self._search(ctx, _take_block(ctx, x, block, axis), axis, index_dtype)
        return ctx.op("add", [ctx.op("multiply", [block, ctx.constant(length, block.aval)]), inside])

    def _reducer(self, ctx: Any, value: ShapedArray, index: ShapedArray) -> str:
        """Of two pairs (value, position) the one with the better value; of equal values, or two NaNs, the earlier one.

        Accelerators compare the pairs in any order, and either one may come first. A loop on the CPU goes along the
        axis, so the first one stays unless the second is better, which takes 0.2 to 1.0 of the time.
        """
        (x, y, i, j), _ = ctx.block([value, value, index, index])
        body = ctx.region()
        outs = (self._later_if_better if ctx.module.on_one_cpu else self._better)(body, x, y, i, j)
        return f"reducer({x}: {x.type}, {y}: {y.type}) ({i}: {i.type}, {j}: {j.type}) {body.body(outs)}"

    def _later_if_better(self, body: Any, x: Any, y: Any, i: Any, j: Any) -> list[Any]:
        wins = lower_order(body, self.direction, y, x)
        if dtypes.is_inexact(x.aval.dtype):
            first_nan = body.op("and", [body.compare("NE", y, y), body.compare("EQ", x, x)])
            wins = body.op("or", [wins, first_nan])
        return [body.select(wins, y, x), body.select(wins, j, i)]

    def _better(self, body: Any, x: Any, y: Any, i: Any, j: Any) -> list[Any]:
        better, worse = lower_order(body, self.direction, x, y), lower_order(body, self.direction, y, x)
        if dtypes.is_inexact(x.aval.dtype):
            better, worse = [
                body.op("or", [wins, body.compare("NE", z, z)]) for wins, z in ((better, x), (worse, y))
            ]
        tie, earliest = body.compare("EQ", better, worse), body.op("minimum", [i, j])
        return [body.select(better, x, y), body.select(tie, earliest, body.select(better, i, j))]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        y = self.bind(*primals, **params)
        return y, Zero(aval_of(y).tangent())

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, axes: tuple[int, ...], index_dtype: np.dtype[Any]
    ) -> tuple[Any, int]:
        inner, out_dim = batched_axes(axes, dims[0])
        return self.bind(args[0], axes=inner, index_dtype=index_dtype), out_dim


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _take_block(ctx: Any, x: Any, block: Any, axis: int) -> Any:
    """x[..., block, :, ...], where `block` has an index for the position of each along the other axes."""
    others = [i for i in range(x.aval.ndim) if i not in (axis, axis + 1)]
    index = ctx.reshape(block, (*block.aval.shape, 1))
    out = x.aval.update(shape=_without(x.aval.shape, axis))
    sizes = [n if i == axis + 1 else 1 for i, n in enumerate(x.aval.shape)]
    return ctx.gather(x, index, ((axis,), (axis,), (axis,), others, range(len(others))), sizes, out)


reduce_max_p = Extremum("reduce_max", "maximum", np.maximum, "biufc", least)
reduce_min_p = Extremum("reduce_min", "minimum", np.minimum, "biufc", greatest)
# For a stable softmax: it subtracts the maximum from all elements, so a NaN element makes a NaN whatever this returns.
# The second one starts from the least finite number: subtracted from elements that are all -inf it leaves -inf. A
# comparison with -inf afterwards would keep XLA from computing the products of an attention and its softmax block by
# block, without an array of all weights.
reduce_max_no_nan_p = Extremum("reduce_max_no_nan", "maximum", np.maximum, "biuf", least, keeps_nan=False)
reduce_max_finite_p = Extremum(
    "reduce_max_finite", "maximum", np.maximum, "biuf", least_finite, keeps_nan=False
)
reduce_prod_p = ReduceProd("reduce_prod", "multiply", np.multiply, "iufc", lambda dtype: 1)
reduce_and_p = LogicalReduction("reduce_and", "and", np.bitwise_and, "biu", _all_ones)
reduce_or_p = LogicalReduction("reduce_or", "or", np.bitwise_or, "biu", lambda dtype: dtype.type(0))
reduce_xor_p = LogicalReduction("reduce_xor", "xor", np.bitwise_xor, "biu", lambda dtype: dtype.type(0))
argmax_p = ArgExtremum("argmax", direction="GT", op="maximum", find=np.argmax, worst=least)
argmin_p = ArgExtremum("argmin", direction="LT", op="minimum", find=np.argmin, worst=greatest)
