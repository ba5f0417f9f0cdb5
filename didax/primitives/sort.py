"""Sorting along an axis: `sort` of any number of arrays by the first few of them, and `top_k`.

    sort(keys, values)    both in the order that sorts the keys; equal keys stay in the order they had

Floats are in numeric order, with NaN (of either sign) last and -0.0 equal to 0.0; complex numbers are compared by
their real parts, then by their imaginary parts. `top_k` orders as JAX does, by the total order of IEEE 754 from
above: NaN, inf, ..., 0.0, -0.0. Tangents are gathered from where the values came from. Read next: `gather.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic, longest
from didax.core.errors import message
from didax.core.primitive import Primitive
from didax.passes.sparsity import Dependence, along_axes, selected
from didax.primitives import numpy_rules, padded, split
from didax.primitives.convert import iota
from didax.primitives.filled import zeros
from didax.primitives.gather import gather_p
from didax.primitives.holes import NOT_LINEAR
from didax.primitives.host_sort import lower_host_sort, pays
from didax.primitives.reductions import as_ordered_integers, is_narrow_float
from didax.primitives.shape import reshape
from didax.primitives.window_positions import GatherDimensionNumbers, GatherScatterMode
from didax.transforms.batching import AxisData, move_batch_axis
from didax.transforms.elements import check_elements
from didax.xla.text import FunctionContext, NoOpenForm, Value, function_type, lower_parts, names, tensor_type
from didax.xla.written_calls import one_kernel

_INT32 = np.dtype(np.int32)
_INT64 = np.dtype(np.int64)
_FLOAT32 = np.dtype(np.float32)
_BOOL = np.dtype(bool)


class Sort(Primitive):
    """Operands of one shape, reordered along `dimension` so that the first `num_keys` ascend.

    The order is stable whatever `is_stable` says, so that eager and compiled results agree.
    """

    multiple_results = True
    in_supported_dtype = True
    holes = {"transpose": NOT_LINEAR}
    padded = padded.sorted_
    sharding = split.along_whole_axes(lambda x, dimension, **_: [dimension])

    def type(
        self, *avals: ShapedArray, dimension: int, is_stable: bool, num_keys: int
    ) -> Sequence[ShapedArray]:
        facts = f"operands: {', '.join(map(str, avals))}, dimension: {dimension}, num_keys: {num_keys}"
        if not avals or any(a.shape != avals[0].shape for a in avals):
            fix = "Broadcast them first."
            raise TypeError(message("sort takes arrays of one shape.", facts, fix=fix))
        if not 0 <= dimension < avals[0].ndim or not 1 <= num_keys <= len(avals):
            fix = f"dimension is below {avals[0].ndim}, num_keys from 1 to {len(avals)}."
            raise ValueError(
                message("sort runs along one axis, by at least one of its operands.", facts, fix=fix)
            )
        return avals

    def sparsity(
        self, operands: Sequence[Dependence], *, dimension: int, is_stable: bool, num_keys: int
    ) -> list[Dependence]:
        """Any order along the axis; it is constant where the derivative is defined, so keys give no rows to others."""
        return [Dependence(x.aval, rows=along_axes(x, (dimension,), keepdims=True)) for x in operands]

    def eager(self, *xs: Any, dimension: int, is_stable: bool, num_keys: int) -> list[Any]:
        if len(xs) == 1 and _is_ordered_by_numpy(xs[0]):
            out = xs[0].copy("K")
            out.sort(dimension, "stable")
            return [out]
        keys = [part for x in xs[:num_keys] for part in _numpy_keys(x)]
        order = np.lexsort(keys[::-1], axis=dimension)
        return [numpy_rules.take_along(x, order, dimension) for x in xs]

    def lower(self, ctx: Any, *xs: Any, dimension: int, is_stable: bool, num_keys: int) -> list[Any]:
        key = xs[0].aval
        if key.size == 0:
            return list(xs)
        if len(xs) == 1 and not dtypes.is_complex(key.dtype) and pays(ctx, key):
            return [_lower_on_host(ctx, xs[0], dimension)]
        if num_keys > 1 or not _fits_half_word(key) or _is_short(ctx, key):
            return _lower_by_comparator(ctx, xs, dimension, num_keys)
        if len(xs) == 1:
            return [_lower_single(ctx, xs[0], dimension)]
        if ctx.module.partitioned_here:  # the operands are gathered once, not for each part of the sort
            whole = functools.partial(ctx.module.devices.kept_whole, ctx, axes=[dimension])
            xs = tuple([x if x.name in ctx.ramps else whole(x) for x in xs])
        order = (
            _lower_partition(ctx, xs[0])
            if _is_partitioned(ctx, key)
            else _lower_argsort(ctx, xs[0], dimension)
        )
        return [_lower_take(ctx, x, order, dimension) for x in xs]

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        if all(type(t) is Zero for t in tangents):
            return self.bind(*primals, **params), list(tangents)
        dimension = params["dimension"]
        *outs, order = self.bind(*primals, iota(_INT32, aval_of(primals[0]).shape, dimension), **params)
        return outs, [t if type(t) is Zero else take_along(t, order, dimension) for t in tangents]

    def batch(
        self,
        axis: AxisData,
        args: Sequence[Any],
        dims: Sequence[int | None],
        *,
        dimension: int,
        **params: Any,
    ) -> tuple[list[Any], list[int]]:
        check_elements(self, args, dims, {"dimension": dimension, **params})
        values = [move_batch_axis(x, dim, 0, axis.size) for x, dim in zip(args, dims, strict=True)]
        return self.bind(*values, dimension=dimension + 1, **params), [0] * len(values)


def _numpy_keys(x: Any) -> list[Any]:
    """Arrays by which NumPy orders as `x` is to be ordered: a later array decides where the earlier ones are equal."""
    if x.dtype.kind == "c":
        return [x.real, x.imag]
    if _is_ordered_by_numpy(x):
        return [x]
    return [x.astype(_FLOAT32 if dtypes.is_float(x.dtype) else _INT32)]


def _is_ordered_by_numpy(x: Any) -> bool:
    """Whether NumPy sorts the dtype, with NaN last. It cannot sort float8_e5m2, though its kind is that of floats."""
    return x.dtype.kind in "biuf" and x.dtype.isbuiltin == 1


def take_along(x: Any, indices: Any, axis: int) -> Any:
    """out[i, ..., k, ..., j] = x[i, ..., indices[i, ..., k, ..., j], ..., j], for indices within bounds."""
    shape = aval_of(indices).shape
    if 0 in shape:  # gather's window of one element would not fit into an empty axis
        return zeros(aval_of(x).update(shape=shape))
    others = tuple(i for i in range(len(shape)) if i != axis)
    return gather_p.bind(
        x,
        reshape(indices, (*shape, 1)),
        dimension_numbers=GatherDimensionNumbers((), (axis,), (axis,), others, others),
        slice_sizes=(1,) * len(shape),
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=None,
        indices_are_sorted=False,
        unique_indices=True,
    )


# --- Lowering -----------------------------------------------------------------------------------------------

# Note [Sorting packed keys]
# XLA calls the C++ library's sort where the comparator is a plain `<` of one integer operand, and otherwise
# calls the comparator through a pointer for each pair. So keys of up to 32 bits become the upper half of an
# int64 whose lower half is the position: this is one integer to sort, and equal keys stay in order. Floats become
# integers in the same order, where every NaN is the greatest integer and -0.0 is the same as 0.0. When there are
# no other operands, the lowest bit keeps the sign that a zero had. Milliseconds for float32 on one AMD Zen core,
# the fastest of 9 runs, XLA's comparator -> packed keys:
#
#     shape, axis          sort            sort with a second operand
#     (1000,)              0.126 -> 0.028   0.183 -> 0.048
#     (1000000,)           256   -> 64      314   -> 65
#     (1000, 1000), 1      135   -> 33      164   -> 35
#     (1000, 1000), 0      138   -> 34      180   -> 41
#
# Up to 256 elements take the same time either way, and the program with the comparator compiles in a third of the
# time (30 ms for 100), or in six tenths with a second operand.


def _is_short(ctx: FunctionContext, key: ShapedArray) -> bool:
    return ctx.module.on_cpu and not is_symbolic(key.size) and key.size <= 256


def _fits_half_word(key: ShapedArray) -> bool:
    return (
        not dtypes.is_complex(key.dtype)
        and key.dtype.itemsize <= 4
        and all(longest(n) < 1 << 31 for n in key.shape)
    )


def _lower_single(ctx: FunctionContext, x: Value, dimension: int) -> Value:
    dtype = x.aval.dtype
    if not dtypes.is_float(dtype):
        return _sort_integers(ctx, x, dimension)
    if not ctx.module.on_cpu:
        return _lower_by_one_key(ctx, _ordered_floats(ctx, ctx.convert(x, _FLOAT32)), x, dimension)
    bits = ctx.op("bitcast_convert", [ctx.convert(x, _FLOAT32)], x.aval.update(dtype=_INT32))
    sign = ctx.op("shift_right_logical", [bits, ctx.constant(31, bits.aval)])
    position = ctx.op(
        "shift_left", [ctx.iota(bits.aval.update(dtype=_INT32), dimension), ctx.constant(1, bits.aval)]
    )
    packed = _sort_integers(ctx, _pack(ctx, _ordered(ctx, x), ctx.op("or", [position, sign])), dimension)
    return ctx.convert(_unpack_float(ctx, packed), dtype)


def _lower_on_host(ctx: FunctionContext, x: Value, dimension: int) -> Value:
    dtype = x.aval.dtype
    if not dtypes.is_float(dtype):
        return lower_host_sort(ctx, x, dimension)
    wide = ctx.convert(x, _FLOAT32) if is_narrow_float(dtype) else x
    return ctx.convert(
        as_ordered_integers(
            ctx, wide, "maximum", lambda keys: lower_host_sort(ctx, keys, dimension, zeros=True)
        ),
        dtype,
    )


def _lower_argsort(ctx: FunctionContext, key: Value, dimension: int) -> Value:
    """Positions, as int32, in the order that sorts the keys."""
    if not ctx.module.on_cpu:
        ordered = _ordered_floats(ctx, ctx.convert(key, _FLOAT32)) if dtypes.is_float(key.aval.dtype) else key
        return _lower_by_one_key(ctx, ordered, ctx.iota(key.aval.update(dtype=_INT32), dimension), dimension)
    packed = _pack(ctx, _ordered(ctx, key), ctx.iota(key.aval.update(dtype=_INT32), dimension))
    return ctx.convert(_sort_integers(ctx, packed, dimension), _INT32)  # keeps the lower half


def _is_partitioned(ctx: FunctionContext, key: ShapedArray) -> bool:
    """Whether the key is a vector of booleans, long enough that a loop is faster than a sort."""
    if key.dtype != _BOOL or is_symbolic(key.size) or ctx.module.alone or not ctx.module.on_one_cpu:
        return False
    return key.size == max(key.shape) and 4096 <= key.size < 1 << 30


def _lower_partition(ctx: FunctionContext, marks: Value) -> Value:
    """Positions, as int32, of the False elements and then of the True ones.

    One loop fills in the positions of the False elements from the front, and those of the True ones from the back. Each
    position is written where the next of its kind belongs, and written over if it is not of that kind: without a
    choice there is no branch for the processor to guess. A place between the kinds takes what is written last, and the
    last place the number of False elements.
    Milliseconds of the processor, packed keys -> the loop, fastest of 15, one loaded AMD Zen 4 core: 100,000 booleans
    5.3 -> 0.44, 1,000,000 66 -> 4.7.
    """
    n = marks.aval.size
    index, whole, spacious = [ShapedArray(shape, _INT32) for shape in ((), (n,), (n + 2,))]

    def goes_on(condition: FunctionContext, state: list[Value]) -> Value:
        return condition.compare("LT", state[0], condition.constant(n, index))

    def write(inner: FunctionContext, marks: Value) -> Value:
        def step(body: FunctionContext, state: list[Value]) -> list[Value]:
            def place(
                out: Value, position: Value, free: Value, move: str, step: Value
            ) -> tuple[Value, Value]:
                out = body.dynamic_update_slice(out, body.reshape(position, (1,)), [free])
                return out, body.op(move, [free, step])

            def mark(position: Value) -> Value:
                found = body.reshape(body.dynamic_slice(marks, [position], [1]), ())
                return body.convert(found, _INT32)

            i, first, last, out = state
            one = body.constant(1, index)
            mirrored = body.op("subtract", [body.constant(n - 1, index), i])
            out, first = place(out, i, first, "add", body.op("subtract", [one, mark(i)]))
            out, last = place(out, mirrored, last, "subtract", mark(mirrored))
            return [body.op("add", [i, one]), first, last, out]

        zero, end = inner.constant(0, index), inner.constant(n + 1, index)
        start = [zero, zero, inner.constant(n, index), inner.constant(0, spacious)]
        _, count, _, out = inner.loop(start, goes_on, step)
        return inner.dynamic_update_slice(out, inner.reshape(count, (1,)), [end])

    found = one_kernel(ctx, "partition", [ctx.convert(ctx.reshape(marks, (n,)), np.dtype(np.uint8))], write)
    # What follows is not written inside: XLA cuts it for several threads, which it cannot do within a kernel.
    count = ctx.broadcast(ctx.reshape(ctx.slice(found, [n + 1], [n + 2]), ()), whole, [])
    falses, trues = ctx.slice(found, [0], [n]), ctx.slice(found, [1], [n + 1])
    order = ctx.select(ctx.compare("LT", ctx.iota(whole, 0), count), falses, trues)
    return ctx.reshape(order, marks.aval.shape)


def _ordered(ctx: FunctionContext, x: Value) -> Value:
    """int64 numbers in the order of `x`, which fit into 32 bits."""
    dtype = x.aval.dtype
    if dtypes.is_float(dtype):
        return ctx.convert(_ordered_floats(ctx, ctx.convert(x, _FLOAT32)), _INT64)
    x = ctx.convert(x, _INT64)
    return ctx.op("subtract", [x, ctx.constant(2**31, x.aval)]) if dtype == np.uint32 else x


def _ordered_floats(ctx: FunctionContext, x: Value) -> Value:
    """Signed integers of the same width in the order of floats: the bits, read as a sign and a magnitude.

    Integers are needed because XLA's comparisons of floats take denormal numbers for zeros.
    """
    bits = ctx.op("bitcast_convert", [x], x.aval.update(dtype=np.dtype(f"i{x.aval.dtype.itemsize}")))
    greatest = ctx.constant(np.iinfo(bits.aval.dtype).max, bits.aval)
    magnitude = ctx.op("and", [bits, greatest])
    negative = ctx.compare("LT", bits, ctx.constant(0, bits.aval))
    key = ctx.select(negative, ctx.op("negate", [magnitude]), magnitude)
    return ctx.select(ctx.compare("NE", x, x), greatest, key)


def _pack(ctx: FunctionContext, high: Value, low: Value) -> Value:
    """high * 2**32 + low, for low >= 0 (as unsigned int32)."""
    low = ctx.op("bitcast_convert", [low], low.aval.update(dtype=np.dtype(np.uint32)))
    return ctx.op("or", [ctx.op("shift_left", [high, ctx.constant(32, high.aval)]), ctx.convert(low, _INT64)])


def _unpack_float(ctx: FunctionContext, packed: Value) -> Value:
    """The float32 whose ordered key is the upper half of `packed`, and whose sign is the lowest bit."""
    key = ctx.convert(ctx.op("shift_right_arithmetic", [packed, ctx.constant(32, packed.aval)]), _INT32)
    sign = ctx.op("shift_left", [ctx.convert(packed, _INT32), ctx.constant(31, key.aval)])
    return ctx.op(
        "bitcast_convert", [ctx.op("or", [ctx.op("abs", [key]), sign])], key.aval.update(dtype=_FLOAT32)
    )


def _sort_integers(ctx: FunctionContext, x: Value, dimension: int) -> Value:
    if pays(ctx, x.aval):
        return lower_host_sort(ctx, x, dimension)
    return _emit_sort(ctx, [x], dimension, lambda body, pairs: body.compare("LT", *pairs[0]))[0]


def _lower_by_one_key(ctx: FunctionContext, key: Value, x: Value, dimension: int) -> Value:
    """`x` in the order of integers, which are not packed: a GPU sorts such pairs by the bits of the integers."""
    return _emit_sort(ctx, [key, x], dimension, lambda body, pairs: body.compare("LT", *pairs[0]))[1]


def _lower_by_comparator(
    ctx: FunctionContext, xs: Sequence[Value], dimension: int, num_keys: int
) -> list[Value]:
    # In comparators XLA does not order all floats of one byte and less.
    wide = [ctx.convert(x, _FLOAT32) if _is_byte_float(x.aval.dtype) else x for x in xs]
    outs = _emit_sort(ctx, wide, dimension, lambda body, pairs: _precedes(body, pairs[:num_keys]))
    return [ctx.convert(y, x.aval.dtype) for x, y in zip(xs, outs, strict=True)]


def _is_byte_float(dtype: np.dtype[Any]) -> bool:
    return dtypes.is_float(dtype) and dtype.itemsize == 1


def _emit_sort(ctx: FunctionContext, xs: Sequence[Value], dimension: int, precedes: Any) -> list[Value]:
    scalars = [ShapedArray((), x.aval.dtype) for x in xs for _ in range(2)]
    args, header = ctx.block(scalars)
    body = ctx.region()
    first = precedes(body, list(zip(args[::2], args[1::2], strict=True)))
    outs = [x.aval for x in xs]
    return ctx.emit_many(
        f'"stablehlo.sort"({names(xs)}) <{{dimension = {dimension} : i64, is_stable = true}}> '
        f"({body.body([first], header)}) : {function_type(xs, outs)}",
        outs,
    )


def _precedes(body: FunctionContext, pairs: Sequence[tuple[Value, Value]]) -> Value:
    """Lexicographic `<`."""
    parts = [part for x, y in pairs for part in zip(_comparable(body, x), _comparable(body, y), strict=True)]
    less = body.compare("LT", *parts[-1])
    for x, y in parts[-2::-1]:
        tie = body.op("and", [body.compare("EQ", x, y), less])
        less = body.op("or", [body.compare("LT", x, y), tie])
    return less


def _comparable(body: FunctionContext, x: Value) -> list[Value]:
    """Integers whose lexicographic order is the order of `x`."""
    if dtypes.is_complex(x.aval.dtype):
        return [_ordered_floats(body, part) for part in lower_parts(body, x)]
    return [_ordered_floats(body, x) if dtypes.is_float(x.aval.dtype) else x]


def _lower_take(ctx: FunctionContext, x: Value, order: Value, axis: int) -> Value:
    if ctx.ramps.get(x.name) == axis:
        return ctx.convert(order, x.aval.dtype)  # the positions in that order
    shape = x.aval.shape
    others = [i for i in range(len(shape)) if i != axis]
    index = ctx.reshape(order, (*shape, 1))
    return ctx.gather(x, index, ((), (axis,), (axis,), others, others), [1] * len(shape), x.aval)


# --- The largest few ----------------------------------------------------------------------------------------


class TopK(Primitive):
    """The `k` largest elements along `axis`, from the largest down, and their positions."""

    multiple_results = True
    in_supported_dtype = True
    holes = {"transpose": NOT_LINEAR}
    padded = padded.largest
    sharding = split.along_whole_axes(lambda x, axis, **_: [axis])

    def type(self, x: ShapedArray, *, k: int, axis: int) -> Sequence[ShapedArray]:
        if dtypes.kind_of(x.dtype) not in "biuf":
            raise TypeError(
                message("top_k orders real numbers.", f"operand: {x}", fix="Take abs, real or imag of it.")
            )
        if not 0 <= axis < x.ndim or not 0 <= k <= x.shape[axis]:
            raise ValueError(
                message(
                    "top_k takes at most as many elements as the axis has.",
                    f"operand: {x}, k: {k}, axis: {axis}",
                    fix=f"Choose k from 0 to {x.shape[axis]}."
                    if 0 <= axis < x.ndim
                    else "Name an axis of the operand.",
                )
            )
        if not is_symbolic(x.shape[axis]) and x.shape[axis] > 2**31:
            rule = "top_k returns int32 positions, which count up to 2**31 elements."
            fix = "Cut the axis into shorter ones, or take the first of argsort(-x) under enable_x64."
            raise OverflowError(message(rule, f"operand: {x}, axis: {axis}", fix=fix))
        out = x.update(shape=(*x.shape[:axis], k, *x.shape[axis + 1 :]))
        return [out, ShapedArray(out.shape, _INT32)]

    def sparsity(self, operands: Sequence[Dependence], *, k: int, axis: int) -> list[Dependence]:
        (x,) = operands
        found, places = self.type(x.aval, k=k, axis=axis)
        along = Dependence(x.aval, rows=along_axes(x, (axis,), keepdims=True))
        first = np.arange(x.aval.size).reshape(x.aval.shape)[(*[slice(None)] * axis, slice(k))]
        return [Dependence(found, rows=selected(along, first)), Dependence(places)]

    def eager(self, x: Any, *, k: int, axis: int) -> list[Any]:
        order = np.argsort(_descending(x), axis=axis, kind="stable")
        indices = order[(*[slice(None)] * (axis % x.ndim), slice(k))].astype(_INT32)
        return [numpy_rules.take_along(x, indices, axis), indices]

    def lower(self, ctx: Any, x: Any, *, k: int, axis: int) -> list[Any]:
        if is_symbolic(k):
            raise NoOpenForm("top_k has no form for an open number of elements")
        order = [*(i for i in range(x.aval.ndim) if i != axis), axis]  # chlo.top_k searches the last axis
        back = [order.index(i) for i in range(x.aval.ndim)]
        dtype = x.aval.dtype
        if dtypes.is_sub_byte(dtype):  # XLA cannot compile the search in less than a byte
            x = ctx.convert(x, _FLOAT32 if dtypes.is_float(dtype) else _INT32)
        moved = ctx.transpose(x, order)
        shape = (*moved.aval.shape[:-1], k)
        outs = [moved.aval.update(shape=shape), ShapedArray(shape, _INT32)]
        results = ctx.emit_many(
            f"chlo.top_k({moved}, k = {k}) : {moved.type} -> ({', '.join(map(tensor_type, outs))})", outs
        )
        found, indices = [ctx.transpose(y, back) for y in results]
        return [ctx.convert(found, dtype), indices]

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, k: int, axis: int
    ) -> tuple[list[Any], list[Any]]:
        (x,), (t,) = primals, tangents
        y, indices = self.bind(x, k=k, axis=axis)
        y_dot = Zero(aval_of(y).tangent()) if type(t) is Zero else take_along(t, indices, axis)
        return [y, indices], [y_dot, Zero(aval_of(indices).tangent())]

    def batch(
        self, axis_data: AxisData, args: Any, dims: Any, *, k: int, axis: int
    ) -> tuple[list[Any], list[int]]:
        return self.bind(args[0], k=k, axis=axis + (axis >= dims[0])), [dims[0]] * 2


def _descending(x: Any) -> Any:
    """Integers in the opposite order of `x`; floats are in the total order of IEEE 754."""
    if not dtypes.is_float(x.dtype):
        return ~x
    if dtypes.is_sub_byte(x.dtype):  # the sign of a 4-bit float is not the highest bit of its byte
        x = x.astype(_FLOAT32)
    bits = np.asarray(x).view(f"i{x.dtype.itemsize}")
    return ~(bits ^ ((bits >> (8 * x.dtype.itemsize - 1)) & np.iinfo(bits.dtype).max))


sort_p = Sort("sort")
top_k_p = TopK("top_k")


def argsort(x: Any, axis: int) -> Any:
    """Positions in the order that sorts `x` along an axis; equal elements stay in the order they had."""
    shape = aval_of(x).shape
    return sort_p.bind(
        x, iota(dtypes.position_dtype(shape[axis]), shape, axis), dimension=axis, is_stable=True, num_keys=1
    )[1]
