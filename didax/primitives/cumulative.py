"""Cumulative reductions along an axis: sum, product, maximum, minimum, log of the sum of exponentials.

    cumsum(x)[i] = x[0] + ... + x[i]          with reverse: x[i] + ... + x[n - 1]

The sum is linear; its transpose runs the other way. The derivatives of the others are those of
`associative_scan`, the same reduction written as a tree of elementwise operations: right at zeros, ties and
infinities, and to every order. How they are compiled: Note [Lowering of cumulative reductions].
Read next: `reductions.py`, for the whole axis at once.
"""

from __future__ import annotations

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
from didax.primitives import complex_functions as at_corners
from didax.primitives import padded, split
from didax.primitives.convert import stop_gradient_p
from didax.primitives.elementwise import add, complex_, exp, imag, log, max_, min_, mul, real_part
from didax.primitives.holes import NOT_LINEAR
from didax.primitives.logarithmic import excess
from didax.primitives.reductions import greatest, is_narrow_float, least, sign_zeros
from didax.primitives.shape import LinearUnary, reshape
from didax.primitives.slicing import concatenate, rev, slice_axis
from didax.transforms.batching import AxisData
from didax.transforms.jvp import jvp_flat
from didax.xla.text import FunctionContext, Value, int_array, int_matrix, lower_combination
from didax.xla.written_calls import one_kernel

Combine = Callable[[FunctionContext, Value, Value], Value]
_INT32 = np.dtype(np.int32)
_FLOAT32 = np.dtype(np.float32)


class Cumulative(Primitive):
    """Each element combined with all before it (after it, with `reverse`) along `axis`."""

    in_supported_dtype = True
    holes = {"transpose": NOT_LINEAR}
    in_float32 = True  # how narrow floats are accumulated
    # Whether it is lowered as a reduction of windows where XLA's partitioner splits the program. Only the sum is: if
    # two operations reduce equal windows of one array, the partitioner pads for both with the identity of the first.
    in_windows = False
    # See Note [Cumulative reductions in one kernel]: whether combining is cheap, and in any order.
    in_one_kernel = False
    sharding = split.along_whole_axes(lambda x, axis, **_: [axis])
    padded = padded.cumulative

    def __init__(
        self,
        name: str,
        op: str | Combine,
        ufunc: np.ufunc,
        *,
        accepts: str,
        identity: Callable[[np.dtype[Any]], Any],  # None for dtypes that are not to be scanned in blocks
        combine: Callable[[Any, Any], Any] | None = None,  # None for classes whose `scan` does not use it
    ):
        super().__init__(name)
        self.op = op if callable(op) else lambda ctx, x, y: ctx.op(op, [x, y])
        self.ufunc, self.accepts, self.identity, self.combine = ufunc, accepts, identity, combine

    def type(self, x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
        if dtypes.kind_of(x.dtype) not in self.accepts:
            raise TypeError(
                message(f"{self.name} cannot accumulate this dtype.", f"operand: {x}", fix="Cast it first.")
            )
        if not 0 <= axis < x.ndim:
            raise ValueError(
                message(
                    f"{self.name} runs along an axis of its operand.",
                    f"operand: {x}, axis: {axis}",
                    fix=f"Name an axis from 0 to {x.ndim - 1}."
                    if x.ndim
                    else "A scalar has no axes: reshape it to (1,).",
                )
            )
        return x

    def eager(self, x: Any, *, axis: int, reverse: bool) -> Any:
        x = np.flip(x, axis) if reverse else np.asarray(x)
        out = self._accumulate(x, axis)
        return np.flip(out, axis) if reverse else out

    def _accumulate(self, x: Any, axis: int) -> Any:
        wide = x.astype(_FLOAT32) if is_narrow_float(x.dtype) else x
        return self.ufunc.accumulate(wide, axis=axis, dtype=wide.dtype).astype(x.dtype, copy=False)

    def lower(self, ctx: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        dtype = x.aval.dtype
        wide = ctx.convert(x, _FLOAT32) if self.in_float32 and is_narrow_float(dtype) else x
        identity = self.identity(wide.aval.dtype)
        if self._goes_in_windows(ctx, x.aval) and identity is not None:
            out = _scan_windows(ctx, wide, axis, reverse, self.op, identity)
        else:
            if ctx.module.partitioned_here:  # in a loop devices would exchange row after row
                wide = ctx.module.devices.kept_whole(ctx, wide, [axis])
            out = lower_scan(ctx, wide, axis, reverse, self.op, identity, self.in_one_kernel)
        return ctx.convert(out, dtype)

    def _goes_in_windows(self, ctx: Any, x: ShapedArray) -> bool:
        """Whether a loop would start kernels, or exchange values, once for each element of the axis."""
        if is_symbolic(x.size) or not x.size:
            return False
        return self.in_windows if ctx.module.partitioned_here else not ctx.module.on_cpu

    def sparsity(self, operands: Sequence[Dependence], *, axis: int, reverse: bool) -> Any:
        return along_axes(operands[0], (axis,), keepdims=True)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, axis: int, reverse: bool
    ) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        y = self.bind(x, axis=axis, reverse=reverse)
        if type(t) is Zero:
            return y, Zero(aval_of(y).tangent())

        def scan(x: Any) -> list[Any]:
            x = rev(x, (axis,)) if reverse else x
            out = self.scan(x, axis)
            return [rev(out, (axis,)) if reverse else out]

        return y, jvp_flat(scan, [x], [t])[1][0]

    def scan(self, x: Any, axis: int) -> Any:
        """The same results by other operations, whose derivatives are those of this one."""
        combine = self.combine
        assert combine is not None
        return associative_scan(lambda x, y: [combine(x[0], y[0])], [x], axis)[0]

    def batch(
        self, axis_data: AxisData, args: Any, dims: Any, *, axis: int, reverse: bool
    ) -> tuple[Any, int]:
        return self.bind(args[0], axis=axis + (axis >= dims[0]), reverse=reverse), dims[0]


class CumulativeExtremum(Cumulative):
    """The largest or smallest element so far; NaN from the first NaN on."""

    in_float32 = False
    in_one_kernel = True

    def _accumulate(self, x: Any, axis: int) -> Any:
        out = super()._accumulate(x, axis)
        return sign_zeros(out, x, self.ufunc, lambda zeros: np.logical_or.accumulate(zeros, axis=axis))


class Cumsum(LinearUnary, Cumulative):
    """The cumulative sum, which is linear."""

    holes = {}
    in_windows = True
    in_one_kernel = True

    def transpose(self, ct: Any, x: Any, *, axis: int, reverse: bool) -> list[Any]:
        return [self.bind(ct, axis=axis, reverse=not reverse)]


def associative_scan(
    combine: Callable[[list[Any], list[Any]], list[Any]], xs: list[Any], axis: int
) -> list[Any]:
    """Every prefix of `xs` along an axis combined: a tree of some 2 log2(n) combinations of arrays.

    Neighbours are combined and scanned, which gives every second result; the others are one combination away
    (G. Blelloch, Prefix sums and their applications, 1990). Along a symbolic axis the tree is as high as for the
    longest axis: what is above an axis of fewer elements combines empty arrays.
    """
    n = aval_of(xs[0]).shape[axis] if xs else 0
    if not may_exceed(n, 1):
        return xs

    def cut(xs: list[Any], start: int, stop: int, step: int = 1) -> list[Any]:
        return [slice_axis(x, start, stop, axis, step) for x in xs]

    def joined(*parts: list[Any]) -> list[Any]:
        return [concatenate(some, axis) for some in zip(*parts, strict=True)]

    pairs = combine(cut(xs, 0, n - 1, 2), cut(xs, 1, n, 2))
    first, evens = cut(xs, 0, 1), (n + 1) // 2
    if is_symbolic(n):  # a last element without a neighbour stays, so that the length is never 0
        pairs = joined(pairs, cut(xs, 2 * (n - evens), n))
        rest = cut(cut(xs, 0, 2 * evens - 1, 2), 1, evens)
    else:
        rest = cut(xs, 2, n, 2)
    odd = associative_scan(combine, pairs, axis)
    if n == 2:
        return joined(first, odd)
    even = joined(first, combine(cut(odd, 0, evens - 1), rest))
    return [_interleave(x, y, n, axis) for x, y in zip(even, odd, strict=True)]


def _interleave(even: Any, odd: Any, n: Any, axis: int) -> Any:
    """even[0], odd[0], even[1], ..., in all n elements."""
    shape = aval_of(even).shape
    evens, odds = shape[axis], n - shape[axis]
    columns = [
        reshape(slice_axis(x, 0, odds, axis), (*shape[:axis], odds, 1, *shape[axis + 1 :]))
        for x in (even, odd)
    ]
    mixed = reshape(concatenate(columns, axis + 1), (*shape[:axis], 2 * odds, *shape[axis + 1 :]))
    more = may_exceed(evens, odds)
    return concatenate([mixed, slice_axis(even, odds, evens, axis)], axis) if more else mixed


class CumulativeLogSumExp(Cumulative):
    """The logarithm of the sum of the exponentials so far; the principal value for complex numbers."""

    def eager_for(self, avals: tuple[ShapedArray, ...]) -> Any:
        return None if dtypes.is_complex(avals[0].dtype) else super().eager_for(avals)

    def scan(self, x: Any, axis: int) -> Any:
        """Scans maxima and sums of exponentials relative to them: so equal infinities share a derivative evenly."""
        is_complex = dtypes.is_complex(aval_of(x).dtype)
        highest = stop_gradient_p.bind(real_part(x))
        shifted = excess(real_part(x), highest)
        start = exp(complex_(shifted, imag(x)) if is_complex else shifted)
        highest, total = associative_scan(_add_exponentials, [highest, start], axis)
        return add(log(total), complex_(highest, 0) if is_complex else highest)


def _add_exponentials(x: list[Any], y: list[Any]) -> list[Any]:
    """Two sums of exponentials, each relative to its maximum, relative to that of both."""
    highest = max_(x[0], y[0])
    is_complex = dtypes.is_complex(aval_of(x[1]).dtype)
    parts = []
    for maximum, total in (x, y):
        share = exp(excess(maximum, highest))
        parts.append(mul(total, complex_(share, 0) if is_complex else share))
    return [highest, add(*parts)]


# --- Lowering -----------------------------------------------------------------------------------------------

# Note [Lowering of cumulative reductions]
# XLA has no scan: JAX writes a reduce_window, which XLA turns into many passes over the array. Accelerators get the
# same, because each step of a loop would start kernels of its own there. On the CPU a loop over the rows of the axis
# becomes one function that reads and writes each element once. Long axes are cut into blocks of 32: the loop runs over
# the positions in a block, for all blocks at once, then over the blocks' totals. So an array of one axis is vectorised,
# and rounding errors of sums grow with 32 + n / 32 instead of n. Rows are contiguous only if the axis leads, so an
# innermost axis is first transposed.
# Milliseconds, float32, one AMD Zen core, fastest of 15:
#
#     shape, axis             JAX     loop    loop, transposed    blocks of 32
#     (1000,)                 0.034   0.013                       0.028
#     (100000,)               0.75    0.40                        0.18
#     (1000000,)              4.6     4.1                         2.1
#     (1000, 1000), 0         7.5     0.5                         1.3
#     (1000, 1000), 1         6.7     1.8     1.1                 3.3
#     (10000, 10), 0          0.41    0.11                        0.24
#     (100000, 10), 1         1.05    1.23    0.81
_LOOP_MAX = 2048
_BLOCK = 32

# Note [Cumulative reductions in one kernel]
# Sums and extrema of contiguous rows need no second pass: one kernel goes along the array in blocks of up to 64
# elements. In a block every element is combined with those 1, 2, 4, ... places before it, by vector instructions, and
# then with all blocks before, whose sum is kept with its rounding error (D. Knuth, The Art of Computer Programming 2,
# 4.2.2). So rounding errors of sums do not grow with the length. Processor milliseconds, float32, one loaded core of an
# AMD EPYC, as below -> here: (1000,) 0.012 -> 0.009, (4096,) 0.102 -> 0.013, (1000000,) 4.0 -> 1.7, its maxima 8.2 ->
# 1.9, (1000, 1000) along axis 1 3.0 -> 2.3, (100, 2048) 1.1 -> 0.34.
# A row is cut into blocks of one length. Rows of 1000 in blocks of 8, 40 took 2.4, 1.5; 1024 in 8, 16, 32, 64 2.3, 2.4,
# 1.9, 1.5; 1050 in a loop 3.0, in 35, 42, 50 1.9, 1.7, 1.7; 960 in 64, 80 1.3, 2.1. Elements of 8 bytes: (1000, 1024)
# in blocks of 8, 16, 32 2.5, 4.9, 2.9, the maxima of a vector of 1,000,000 3.0, 8.7, 6.0.
_SHORTEST = 256
_ROW_BLOCKS = [*range(64, 23, -8), *(n for n in range(63, 24, -1) if n % 8), 16, 8]
_WIDE_BLOCK = 8  # elements of 8 bytes


def _rows_block(ctx: FunctionContext, x: ShapedArray, axis: int) -> int | None:
    """The length of the blocks in which rows are scanned by one kernel; None if they are scanned in other ways."""
    n = x.shape[axis]
    contiguous = axis == x.ndim - 1 and dtypes.kind_of(x.dtype) in "iuf" and x.dtype.itemsize >= 4
    here = ctx.module.on_one_cpu and not ctx.module.alone
    if not contiguous or n < _SHORTEST or x.size >= 1 << 31 or not here:
        return None
    blocks = _ROW_BLOCKS if x.dtype.itemsize == 4 else [_WIDE_BLOCK]
    if n == x.size:
        return min(blocks[0], _BLOCK)
    return next((block for block in blocks if n % block == 0), None)


def _scan_rows(
    ctx: FunctionContext, x: Value, block: int, reverse: bool, combine: Combine, identity: Any
) -> Value:
    """The scan in blocks, in one kernel. See Note [Cumulative reductions in one kernel]."""
    flat = ctx.reshape(x, (x.aval.size,))
    by_row = x.aval.shape[-1] // block if x.aval.shape[-1] < x.aval.size else None
    out = one_kernel(
        ctx,
        "scan",
        [flat],
        lambda inner, x: _blocks(inner, x, block, by_row, reverse, combine, identity),
    )
    return ctx.reshape(out, x.aval.shape)


def _blocks(
    ctx: FunctionContext,
    x: Value,
    block: int,
    by_row: int | None,
    reverse: bool,
    combine: Combine,
    identity: Any,
) -> Value:
    """Scan a vector, `block` elements at a time; with `by_row` every so many blocks begin anew."""
    index, one = ShapedArray((), _INT32), x.aval.update(shape=(1,))
    n, is_sum = x.aval.size, dtypes.is_float(x.aval.dtype) and identity == 0

    def step(
        body: FunctionContext, before: list[Value], start: Value, size: int
    ) -> tuple[Value, list[Value]]:
        inside = _prefixes(body, body.dynamic_slice(x, [start], [size]), reverse, combine)
        total = body.slice_axis(inside, 0, 1, 0) if reverse else body.slice_axis(inside, size - 1, size, 0)
        over = [body.broadcast(y, inside.aval, [0]) for y in before]
        found = combine(body, over[0], combine(body, over[1], inside) if is_sum else inside)
        return found, _exact_sum(body, before, total) if is_sum else [combine(body, before[0], total)]

    def body(body: FunctionContext, state: list[Value]) -> list[Value]:
        i, out, *before = state
        if by_row is not None:
            begins = body.compare(
                "EQ", body.op("remainder", [i, body.constant(by_row, index)]), body.constant(0, index)
            )
            anew = body.broadcast(begins, one.update(dtype=np.dtype(bool)), [])
            before = [body.select(anew, body.constant(identity, one), y) for y in before]
        start = body.op("multiply", [i, body.constant(block, index)])
        start = body.op("subtract", [body.constant(n - block, index), start]) if reverse else start
        found, after = step(body, before, start, block)
        return [
            body.op("add", [i, body.constant(1, index)]),
            body.dynamic_update_slice(out, found, [start]),
            *after,
        ]

    nothing = [ctx.constant(identity, one)] * (2 if is_sum else 1)
    _, out, *before = ctx.loop(
        [ctx.constant(0, index), ctx.broadcast(ctx.scalar(identity, one.dtype), x.aval, []), *nothing],
        lambda condition, state: condition.compare("LT", state[0], condition.constant(n // block, index)),
        body,
    )
    if left := n % block:
        start = ctx.constant(0 if reverse else n - left, index)
        out = ctx.dynamic_update_slice(out, step(ctx, before, start, left)[0], [start])
    return out


def _prefixes(ctx: FunctionContext, x: Value, reverse: bool, combine: Combine) -> Value:
    """Every prefix of a short vector combined, in as many steps as its length has binary digits."""
    n, distance = x.aval.size, 1
    while distance < n:
        near, far = ctx.slice_axis(x, distance, n, 0), ctx.slice_axis(x, 0, n - distance, 0)
        if reverse:
            x = ctx.concatenate([combine(ctx, near, far), ctx.slice_axis(x, n - distance, n, 0)], 0)
        else:
            x = ctx.concatenate([ctx.slice_axis(x, 0, distance, 0), combine(ctx, far, near)], 0)
        distance *= 2
    return x


def _exact_sum(ctx: FunctionContext, sums: list[Value], x: Value) -> list[Value]:
    """A sum and its rounding error, with another number added to both."""
    high, low = sums
    x = ctx.op("add", [low, x])
    total = ctx.op("add", [high, x])
    of_x = ctx.op("subtract", [total, high])
    of_high = ctx.op("subtract", [total, of_x])
    error = ctx.op("add", [ctx.op("subtract", [high, of_high]), ctx.op("subtract", [x, of_x])])
    is_number = ctx.compare("GT", ctx.op("abs", [error]), ctx.constant(0, error.aval))
    return [total, ctx.select(is_number, error, ctx.constant(-0.0, error.aval))]  # -0.0 and inf have none


def lower_scan(
    ctx: FunctionContext,
    x: Value,
    axis: int,
    reverse: bool,
    combine: Combine,
    identity: Any,
    in_one_kernel: bool = False,
) -> Value:
    """Every prefix combined along `axis`; in blocks only if there is an `identity`, which fills up the last one."""
    if x.aval.size == 0 or x.aval.shape[axis] == 1:
        return x
    n = x.aval.shape[axis]
    if (
        in_one_kernel
        and not is_symbolic(x.aval.size)
        and (block := _rows_block(ctx, x.aval, axis)) is not None
    ):
        return _scan_rows(ctx, x, block, reverse, combine, identity)
    long = identity is not None and not is_symbolic(n) and n > _LOOP_MAX
    if axis == 0 or not (long or axis == x.aval.ndim - 1):
        if long:
            return _scan_blocks(ctx, x, reverse, combine, identity)
        return _scan_loop(ctx, x, axis, reverse, combine)
    order = [axis, *(i for i in range(x.aval.ndim) if i != axis)]
    out = lower_scan(ctx, ctx.transpose(x, order), 0, reverse, combine, identity)
    return ctx.transpose(out, sorted(range(len(order)), key=order.__getitem__))


def _scan_windows(
    ctx: FunctionContext, x: Value, axis: int, reverse: bool, combine: Combine, identity: Any
) -> Value:
    """Scan by a reduction of windows that begin before the array. XLA turns it into several passes over blocks."""
    n, ndim = x.aval.shape[axis], x.aval.ndim
    start = ctx.scalar(identity, x.aval.dtype)
    args, header = ctx.block([start.aval, start.aval])
    body = ctx.region()
    result = combine(body, *args)
    ones = int_array([1] * ndim)
    padding = [([0, n - 1] if reverse else [n - 1, 0]) if i == axis else [0, 0] for i in range(ndim)]
    sizes = int_array([n if i == axis else 1 for i in range(ndim)])
    return ctx.emit(
        f'"stablehlo.reduce_window"({x}, {start}) <{{base_dilations = {ones}, padding = {int_matrix(padding, 2)}, '
        f"window_dilations = {ones}, window_dimensions = {sizes}, window_strides = {ones}}}> "
        f"({body.body([result], header)}) : ({x.type}, {start.type}) -> {x.type}",
        x.aval,
    )


def _scan_loop(ctx: FunctionContext, x: Value, axis: int, reverse: bool, combine: Combine) -> Value:
    """Scan one row after the other. Results are written over a copy of the operand, whose first row is a result."""
    n, shape = x.aval.shape[axis], x.aval.shape
    index = ShapedArray((), _INT32)
    edge = n - 1 if reverse else 0

    def goes_on(condition: FunctionContext, state: list[Value]) -> Value:
        return condition.compare("LT", state[0], condition.constant(n, index))

    def step(body: FunctionContext, state: list[Value]) -> list[Value]:
        i, carry, out = state
        position = body.op("subtract", [body.constant(n - 1, index), i]) if reverse else i
        starts = [position if k == axis else body.constant(0, index) for k in range(len(shape))]
        combined = combine(body, carry, body.dynamic_slice(out, starts, carry.aval.shape))
        written = body.dynamic_update_slice(out, combined, starts)
        return [body.op("add", [i, body.constant(1, index)]), combined, written]

    first = ctx.slice_axis(x, edge, edge + 1, axis)
    return ctx.loop([ctx.constant(1, index), first, x], goes_on, step)[2]


def _scan_blocks(ctx: FunctionContext, x: Value, reverse: bool, combine: Combine, identity: Any) -> Value:
    """Scan along the leading axis: within blocks, then over the blocks' totals."""
    n, *rest = x.aval.shape
    blocks = -(-n // _BLOCK)
    padded = _pad_leading(ctx, x, identity, 0, blocks * _BLOCK - n)
    inside = ctx.transpose(ctx.reshape(padded, (blocks, _BLOCK, *rest)), [1, 0, *range(2, len(rest) + 2)])
    inside = _scan_loop(ctx, inside, 0, reverse, combine)
    edge = 0 if reverse else _BLOCK - 1
    totals = ctx.reshape(ctx.slice_axis(inside, edge, edge + 1, 0), (blocks, *rest))
    totals = lower_scan(ctx, totals, 0, reverse, combine, identity)
    before = _pad_leading(ctx, totals, identity, *((-1, 1) if reverse else (1, -1)))
    out = combine(ctx, ctx.broadcast(before, inside.aval, range(1, len(rest) + 2)), inside)
    out = ctx.reshape(ctx.transpose(out, [1, 0, *range(2, len(rest) + 2)]), (blocks * _BLOCK, *rest))
    return ctx.slice_axis(out, 0, n, 0)


def _pad_leading(ctx: FunctionContext, x: Value, value: Any, low: int, high: int) -> Value:
    config = [(low, high, 0), *[(0, 0, 0)] * (x.aval.ndim - 1)]
    return ctx.pad(x, ctx.scalar(value, x.aval.dtype), config)


def _lower_logaddexp(ctx: FunctionContext, x: Value, y: Value) -> Value:
    if dtypes.is_complex(x.aval.dtype):
        return at_corners.log_add_exp(ctx, x, y)
    difference = ctx.op("subtract", [x, y])
    tail = ctx.op("log_plus_one", [ctx.op("exponential", [ctx.op("negate", [ctx.op("abs", [difference])])])])
    undefined = ctx.compare("NE", difference, difference)  # equal infinities, or NaN
    return ctx.select(undefined, ctx.op("add", [x, y]), ctx.op("add", [ctx.op("maximum", [x, y]), tail]))


def _extremum(op: str) -> Combine:
    return lambda ctx, x, y: lower_combination(ctx, op, x, y)


def _negative_zero(dtype: np.dtype[Any]) -> Any:
    if dtypes.is_complex(dtype):
        return complex(-0.0, -0.0)
    return -0.0 if dtypes.is_float(dtype) else 0  # 0.0 + -0.0 would lose the sign


def _one(dtype: np.dtype[Any]) -> Any:
    return None if dtypes.is_complex(dtype) else 1  # complex 1 * x is not x where x is infinite


def _minus_infinity(dtype: np.dtype[Any]) -> Any:
    return -math.inf


cumsum_p = Cumsum("cumsum", "add", np.add, accepts="iufc", identity=_negative_zero, combine=add)
cumprod_p = Cumulative("cumprod", "multiply", np.multiply, accepts="iufc", identity=_one, combine=mul)
cummax_p = CumulativeExtremum(
    "cummax", _extremum("maximum"), np.maximum, accepts="iufc", identity=least, combine=max_
)
cummin_p = CumulativeExtremum(
    "cummin", _extremum("minimum"), np.minimum, accepts="iufc", identity=greatest, combine=min_
)
cumlogsumexp_p = CumulativeLogSumExp(
    "cumlogsumexp", _lower_logaddexp, np.logaddexp, accepts="fc", identity=_minus_infinity
)
