"""Static and dynamic windows of arrays: slice, pad, split, concatenate, rev, dynamic_slice and dynamic_update_slice.

    slice(x)[i] = x[start + stride * i]          dynamic_slice(x, start)[i] = x[clamp(start) + i]

All of them are linear in the arrays, and they are transposes of each other: what slice takes out, pad puts back
between zeros; what split takes apart, concatenate joins; what dynamic_slice reads, dynamic_update_slice writes. The
dynamic operations move a window that sticks out of the array until it fits. Batched over their start indices, they
become a gather and a scatter.
Read next: `gather.py`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic, max_dim
from didax.core.errors import ArgumentError, message
from didax.core.primitive import Primitive
from didax.passes.checkify import Condition
from didax.primitives import numpy_rules, padded_windows, split
from didax.primitives.filled import full, zeros
from didax.primitives.gather import gather_p, materialized_update, scatter_p
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import LinearUnary, broadcast_in_dim, reduce_sum, reshape
from didax.primitives.window_positions import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    in_range,
    lower_indices,
    starts_inside,
)
from didax.transforms.batching import AxisData, move_batch_axis
from didax.transforms.elements import check_elements
from didax.transforms.transpose import is_undef

Padding = tuple[tuple[int, int, int], ...]


class Slice(LinearUnary):
    """Elements `start, start + stride, ...` below `limit` along each axis; strides None are all 1."""

    moves_elements = True
    sharding = split.resized
    padded = padded_windows.sliced

    def type(
        self,
        x: ShapedArray,
        *,
        start_indices: tuple[int, ...],
        limit_indices: tuple[int, ...],
        strides: tuple[int, ...] | None,
    ) -> ShapedArray:
        strides = strides or (1,) * x.ndim
        fits = len(start_indices) == len(limit_indices) == len(strides) == x.ndim and all(
            0 <= i <= j <= n and k > 0
            for i, j, k, n in zip(start_indices, limit_indices, strides, x.shape, strict=True)
        )
        if not fits:
            raise ArgumentError(
                message(
                    "slice needs 0 <= start <= limit <= length and a positive stride for each axis.",
                    f"operand: {x}",
                    f"start_indices: {start_indices}, limit_indices: {limit_indices}, strides: {strides}",
                    fix="Correct the bounds, or use NumPy's notation (x[i:j:k]), which cuts them off.",
                )
            )
        bounds = zip(start_indices, limit_indices, strides, strict=True)
        return x.update(shape=tuple(-(-(j - i) // k) for i, j, k in bounds))

    def eager(self, x: Any, **bounds: Any) -> Any:
        return np.asarray(x)[_python_slices(**bounds)]

    def eager_text(self, source: Any, names: Any, avals: Any, **bounds: Any) -> str | None:
        return f"{names[0]}[{source.given(_python_slices(**bounds))}]" if avals[0].ndim else None

    def lower(
        self,
        ctx: Any,
        x: Any,
        *,
        start_indices: tuple[int, ...],
        limit_indices: tuple[int, ...],
        strides: tuple[int, ...] | None,
    ) -> Any:
        return ctx.slice(x, start_indices, limit_indices, strides) if x.aval.ndim else x

    def transpose(
        self,
        ct: Any,
        x: Any,
        *,
        start_indices: tuple[int, ...],
        limit_indices: Any,
        strides: tuple[int, ...] | None,
    ) -> list[Any]:
        steps = strides or (1,) * len(start_indices)
        reach = [
            start + max_dim((n - 1) * k + 1, 0)
            for start, n, k in zip(start_indices, aval_of(ct).shape, steps, strict=True)
        ]
        ends = [n - end for n, end in zip(x.aval.shape, reach, strict=True)]
        return [pad(ct, _zero(ct), tuple(zip(start_indices, ends, [k - 1 for k in steps], strict=True)))]

    def batch(
        self,
        axis: AxisData,
        args: Sequence[Any],
        dims: Sequence[int],
        *,
        start_indices: tuple[int, ...],
        limit_indices: tuple[int, ...],
        strides: tuple[int, ...] | None,
    ) -> tuple[Any, int]:
        (x,), (dim,) = args, dims
        strides = None if strides is None else _insert(strides, dim, 1)
        starts, limits = _insert(start_indices, dim, 0), _insert(limit_indices, dim, axis.size)
        return self.bind(x, start_indices=starts, limit_indices=limits, strides=strides), dim


def _python_slices(
    *, start_indices: tuple[int, ...], limit_indices: tuple[int, ...], strides: tuple[int, ...] | None
) -> tuple[Any, ...]:
    return tuple(map(slice, start_indices, limit_indices, strides or itertools.repeat(None)))


def _insert(values: Sequence[Any], position: int, value: Any) -> tuple[Any, ...]:
    return (*values[:position], value, *values[position:])


def _zero(like: Any) -> Any:
    return aval_of(like).dtype.type(0)


class Rev(LinearUnary):
    """The elements in reverse order along some axes."""

    moves_elements = True
    sharding = split.kept
    padded = padded_windows.reversed_

    def type(self, x: ShapedArray, *, dimensions: tuple[int, ...]) -> ShapedArray:
        if len(set(dimensions)) != len(dimensions) or any(not 0 <= i < x.ndim for i in dimensions):
            fix = "Name each axis to reverse once."
            raise TypeError(
                message("rev takes distinct axes.", f"operand: {x}, dimensions: {dimensions}", fix=fix)
            )
        return x

    def eager(self, x: Any, *, dimensions: tuple[int, ...]) -> Any:
        return np.flip(x, dimensions)

    def eager_text(self, source: Any, names: Any, avals: Any, *, dimensions: tuple[int, ...]) -> str | None:
        steps = tuple([slice(None, None, -1 if i in dimensions else None) for i in range(avals[0].ndim)])
        return f"{names[0]}[{source.given(steps)}]" if steps else None

    def lower(self, ctx: Any, x: Any, *, dimensions: tuple[int, ...]) -> Any:
        return (
            ctx.emit(f"stablehlo.reverse {x}, dims = {list(dimensions)} : {x.type}", x.aval)
            if dimensions
            else x
        )

    def transpose(self, ct: Any, x: Any, *, dimensions: tuple[int, ...]) -> list[Any]:
        return [self.bind(ct, dimensions=dimensions)]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, dimensions: tuple[int, ...]) -> tuple[Any, int]:
        return self.bind(args[0], dimensions=tuple(i + (i >= dims[0]) for i in dimensions)), dims[0]


class Concatenate(Primitive):
    """Arrays joined along an axis."""

    linear = True
    moves_elements = True
    sharding = split.concatenated
    padded = padded_windows.concatenated

    def type(self, *xs: ShapedArray, dimension: int) -> ShapedArray:
        others = {_insert(x.shape[:dimension] + x.shape[dimension + 1 :], dimension, 0) for x in xs}
        if not xs or len(others) != 1 or len({x.dtype for x in xs}) != 1 or not 0 <= dimension < xs[0].ndim:
            raise ArgumentError(
                message(
                    "concatenate joins arrays of one dtype whose shapes differ only along the axis it joins.",
                    f"operands: {', '.join(map(str, xs)) or 'none'}, dimension: {dimension}",
                    fix="Cast, reshape or broadcast the operands first.",
                )
            )
        length, first = sum([x.shape[dimension] for x in xs]), xs[0].shape
        shape = (*first[:dimension], length, *first[dimension + 1 :])
        return ShapedArray(shape, xs[0].dtype, all([x.weak_type for x in xs]))

    def eager(self, *xs: Any, dimension: int) -> Any:
        return np.concatenate(xs, dimension)

    def eager_text(self, source: Any, names: Any, avals: Any, *, dimension: int) -> str:
        return f"{source.given(numpy_rules.concatenate)}(({', '.join(names)},), {dimension})"

    def lower(self, ctx: Any, *xs: Any, dimension: int) -> Any:
        if _are_columns(ctx, xs, dimension):
            # XLA's loop asks of each element which column it is of; a transposition of rows goes along them.
            rows = [ctx.reshape(x, (1, *x.aval.shape[:-1])) for x in xs]
            return ctx.transpose(ctx.concatenate(rows, 0), (*range(1, dimension + 1), 0))
        return ctx.concatenate(xs, dimension)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, dimension: int) -> tuple[Any, Any]:
        out = self.bind(*primals, dimension=dimension)
        if all(type(t) is Zero for t in tangents):
            return out, Zero(aval_of(out).tangent())
        return out, self.bind(*map(instantiate, tangents), dimension=dimension)

    def transpose(self, ct: Any, *xs: Any, dimension: int) -> list[Any]:
        sizes = tuple([(x.aval if is_undef(x) else aval_of(x)).shape[dimension] for x in xs])
        parts = split_axis(ct, sizes, dimension)
        return [part if is_undef(x) else None for x, part in zip(xs, parts, strict=True)]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, dimension: int) -> tuple[Any, int]:
        xs = [move_batch_axis(x, d, 0, axis.size) for x, d in zip(args, dims, strict=True)]
        return self.bind(*xs, dimension=dimension + 1), 0


class Split(LinearUnary):
    """Neighbouring parts of the given sizes along an axis.

    A cotangent of several parts is joined once, where those of slices would be padded and added one by one.
    """

    multiple_results = True
    moves_elements = True
    sharding = split.each_resized
    padded = padded_windows.split

    def type(self, x: ShapedArray, *, sizes: tuple[int, ...], axis: int) -> list[ShapedArray]:
        fits = 0 <= axis < x.ndim and all([n >= 0 for n in sizes]) and sum(sizes) == x.shape[axis]
        if not fits:
            facts = f"operand: {x}, axis: {axis}, sizes: {sizes}, which add up to {sum(sizes)}"
            fix = f"Choose sizes of 0 or more that add up to the length, along one of {x.ndim} axes."
            raise ArgumentError(
                message("split needs sizes that add up to the length of the axis.", facts, fix=fix)
            )
        return [x.update(shape=(*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in sizes]

    def eager(self, x: Any, *, sizes: tuple[int, ...], axis: int) -> list[Any]:
        return [x[part] for part in _parts(sizes, axis)]

    def lower(self, ctx: Any, x: Any, *, sizes: tuple[int, ...], axis: int) -> list[Any]:
        return [ctx.slice_axis(x, start, end, axis) for start, end in part_bounds(sizes)]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        parts = self.bind(x, **params)
        if type(t) is Zero:
            return parts, [Zero(aval_of(part).tangent()) for part in parts]
        return parts, self.bind(t, **params)

    def transpose(self, cts: Sequence[Any], x: Any, *, sizes: tuple[int, ...], axis: int) -> list[Any]:
        return [concatenate(list(map(instantiate, cts)), axis)]

    def batch(
        self, batch: AxisData, args: Sequence[Any], dims: Sequence[int], *, sizes: tuple[int, ...], axis: int
    ) -> tuple[list[Any], list[int]]:
        (x,), (dim,) = args, dims
        return self.bind(x, sizes=sizes, axis=axis + (axis >= dim)), [dim] * len(sizes)


def part_bounds(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Where each part of a split starts and ends."""
    return list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))


@functools.lru_cache(1024)
def _parts(sizes: tuple[int, ...], axis: int) -> list[tuple[slice, ...]]:
    return [_along(axis, start, end) for start, end in part_bounds(sizes)]


def _along(axis: int, start: int, end: int) -> tuple[slice, ...]:
    return (*[slice(None)] * axis, slice(start, end))


class Pad(Primitive):
    """`low` copies of the padding value before an axis, `high` after it, `interior` between neighbours.

    Negative `low` and `high` remove elements. `padding_config` holds `(low, high, interior)` for each axis.
    """

    linear = True
    moves_elements = True
    sharding = split.resized
    padded = padded_windows.padded

    def type(self, x: ShapedArray, value: ShapedArray, *, padding_config: Padding) -> ShapedArray:
        lengths = [_padded(n, p) for n, p in zip(x.shape, padding_config, strict=False)]
        fits = (
            len(padding_config) == x.ndim
            and all([n >= 0 for n in lengths])
            and all(p[2] >= 0 for p in padding_config)
        )
        if not fits or value.shape != () or value.dtype != x.dtype:
            raise ArgumentError(
                message(
                    "pad takes a scalar of the operand's dtype and (low, high, interior) for each axis, "
                    "with interior >= 0 and no axis of negative length as the result.",
                    f"operand: {x}, padding_value: {value}, padding_config: {padding_config}",
                    fix="Correct the configuration, or cast the padding value.",
                )
            )
        return ShapedArray(tuple(lengths), x.dtype, x.weak_type and value.weak_type)

    def eager(self, x: Any, value: Any, *, padding_config: Padding) -> Any:
        x = np.asarray(x)
        lengths, places, kept = _pad_plan(x.shape, padding_config)
        out = np.full(lengths, value, x.dtype)
        out[places] = x
        return out if kept is None else out[kept]

    def lower(self, ctx: Any, x: Any, value: Any, *, padding_config: Padding) -> Any:
        if not padding_config:
            return x
        return ctx.pad(x, value, padding_config)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, padding_config: Padding
    ) -> tuple[Any, Any]:
        out = self.bind(*primals, padding_config=padding_config)
        x_dot, value_dot = tangents
        if type(x_dot) is Zero and type(value_dot) is Zero:
            return out, Zero(aval_of(out).tangent())
        return out, self.bind(instantiate(x_dot), instantiate(value_dot), padding_config=padding_config)

    def transpose(self, ct: Any, x: Any, value: Any, *, padding_config: Padding) -> list[Any]:
        ct_x = _unpad(ct, padding_config) if is_undef(x) else None
        if not is_undef(value):
            return [ct_x, None]
        shape = (x.aval if is_undef(x) else aval_of(x)).shape
        outside = where(_is_padding(shape, padding_config), ct, _zero(ct))
        return [ct_x, reduce_sum(outside, tuple(range(len(shape))))]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, padding_config: Padding) -> tuple[Any, int]:
        x, value = args
        if dims[1] is None:
            config = _insert(padding_config, dims[0], (0, 0, 0))
            return self.bind(x, value, padding_config=config), dims[0]
        x = move_batch_axis(x, dims[0], 0, axis.size)
        config = ((0, 0, 0), *padding_config)
        padded = pad(x, zeros(aval_of(x).update(shape=())), config)
        shape = aval_of(padded).shape
        return where(_is_padding(aval_of(x).shape, config), broadcast_in_dim(value, shape, (0,)), padded), 0


def _dilated(length: int, interior: int) -> int:
    return max_dim(length + (length - 1) * interior, 0)


def _padded(length: int, config: tuple[int, int, int]) -> int:
    low, high, interior = config
    return low + _dilated(length, interior) + high


@functools.lru_cache(1024)
def _pad_plan(shape: tuple[int, ...], config: Padding) -> tuple[list[int], tuple[slice, ...], Any]:
    """What `pad` comes down to: the lengths with all that is added, where the elements go, what is cut out of it."""
    grown = [(max(low, 0), max(high, 0), interior) for low, high, interior in config]
    lengths = [_padded(n, p) for n, p in zip(shape, grown, strict=True)]
    spread = [_dilated(n, p[2]) for n, p in zip(shape, grown, strict=True)]
    places = tuple([slice(p[0], p[0] + n, p[2] + 1) for p, n in zip(grown, spread, strict=True)])
    cut = [(max(-low, 0), max(-high, 0)) for low, high, _ in config]
    kept = tuple([slice(low, n - high) for (low, high), n in zip(cut, lengths, strict=True)])
    return lengths, places, kept if any([low or high for low, high in cut]) else None


def _is_padding(shape: tuple[int, ...], config: Padding) -> Any:
    """A mask of the result of `pad`: True where the element is the padding value."""
    boolean = np.dtype(bool)
    return pad(full(shape, False, boolean), np.True_, config)


def _unpad(ct: Any, config: Padding) -> Any:
    """The transpose of pad: take the elements back out; those that were cut off get zeros."""
    whole = pad(ct, _zero(ct), tuple((-low, -high, 0) for low, high, _ in config))
    return slice_(
        whole, (0,) * len(config), aval_of(whole).shape, tuple(interior + 1 for _, _, interior in config)
    )


class DynamicSlice(Primitive):
    """A window of sizes `slice_sizes` that begins at scalar start indices, one for each axis."""

    linear = True
    moves_elements = True
    sharding = split.resized
    padded = padded_windows.dynamic_slice

    def type(self, x: ShapedArray, *starts: ShapedArray, slice_sizes: tuple[int, ...]) -> ShapedArray:
        _check_window("dynamic_slice", x, slice_sizes, starts, f"slice_sizes: {slice_sizes}")
        return x.update(shape=slice_sizes)

    def eager(self, x: Any, *starts: Any, slice_sizes: tuple[int, ...]) -> Any:
        return np.asarray(x)[_window(np.shape(x), starts, slice_sizes)]

    def lower(self, ctx: Any, x: Any, *starts: Any, slice_sizes: tuple[int, ...]) -> Any:
        if not starts:
            return x
        indices = [lower_indices(ctx, i) for i in starts]
        return ctx.dynamic_slice(x, starts_inside(ctx, indices, x.aval.shape, slice_sizes), slice_sizes)

    def conditions(self, x: Any, *starts: Any, slice_sizes: tuple[int, ...]) -> list[Condition]:
        return _fit(aval_of(x).shape, starts, slice_sizes)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        x, *starts = primals
        out = self.bind(x, *starts, **params)
        if type(tangents[0]) is Zero:
            return out, Zero(aval_of(out).tangent())
        return out, self.bind(tangents[0], *starts, **params)

    def transpose(self, ct: Any, x: Any, *starts: Any, slice_sizes: tuple[int, ...]) -> list[Any]:
        return [
            dynamic_update_slice_p.bind(zeros(x.aval.strip_weak_type()), ct, *starts),
            *[None] * len(starts),
        ]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, slice_sizes: tuple[int, ...]) -> tuple[Any, int]:
        (x, *starts), (dim, *start_dims) = args, dims
        if any(d is not None for d in start_dims):
            check_elements(self, args, dims, {"slice_sizes": slice_sizes})
            return self._batch_starts(axis, x, dim, starts, start_dims, slice_sizes)
        sizes = _insert(slice_sizes, dim, axis.size)
        return self.bind(x, *_insert(starts, dim, _first(starts)), slice_sizes=sizes), dim

    def _batch_starts(
        self,
        axis: AxisData,
        x: Any,
        dim: int | None,
        starts: Any,
        start_dims: Any,
        slice_sizes: tuple[int, ...],
    ) -> tuple[Any, int]:
        all_axes = tuple(range(len(slice_sizes)))
        indices, indices_dim = _stack_starts(axis, starts, start_dims)
        return gather_p.batch(
            axis,
            (x, indices),
            (dim, indices_dim),
            dimension_numbers=GatherDimensionNumbers(all_axes, (), all_axes),
            slice_sizes=slice_sizes,
            indices_are_sorted=True,
            unique_indices=True,
            mode=GatherScatterMode.CLIP,
            fill_value=None,
        )


class DynamicUpdateSlice(Primitive):
    """The operand with one window overwritten; the window begins at scalar start indices, one for each axis."""

    linear = True
    moves_elements = True
    sharding = split.updated
    padded = padded_windows.dynamic_update_slice

    def type(self, x: ShapedArray, update: ShapedArray, *starts: ShapedArray) -> ShapedArray:
        _check_window("dynamic_update_slice", x, update.shape, starts, f"update: {update}")
        if update.dtype != x.dtype:
            rule = "dynamic_update_slice takes an update of the operand's dtype."
            raise TypeError(
                message(rule, f"operand: {x}, update: {update}", fix="Cast the update (update.astype).")
            )
        return x.update(weak_type=x.weak_type and update.weak_type)

    def eager(self, x: Any, update: Any, *starts: Any) -> Any:
        out = np.array(x)
        out[_window(out.shape, starts, np.shape(update))] = update
        return out

    def lower(self, ctx: Any, x: Any, update: Any, *starts: Any) -> Any:
        if not starts:
            return update
        indices = starts_inside(ctx, [lower_indices(ctx, i) for i in starts], x.aval.shape, update.aval.shape)
        # See Note [Updates in place].
        written = enumerate(zip(x.aval.shape, update.aval.shape, strict=True))
        partial = [i for i, (n, m) in written if m != n]
        if ctx.module.partitioned_here and partial and all([i.constant is not None for i in starts]):
            return _lower_as_scatter(ctx, x, update, [indices[i] for i in partial], partial)
        return ctx.dynamic_update_slice(x, materialized_update(ctx, x, update, partial), indices)

    def conditions(self, x: Any, update: Any, *starts: Any) -> list[Condition]:
        return _fit(aval_of(x).shape, starts, aval_of(update).shape)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        x, update, *starts = primals
        out = self.bind(x, update, *starts)
        x_dot, update_dot, *_ = tangents
        if type(x_dot) is Zero and type(update_dot) is Zero:
            return out, Zero(aval_of(out).tangent())
        return out, self.bind(instantiate(x_dot), instantiate(update_dot), *starts)

    def transpose(self, ct: Any, x: Any, update: Any, *starts: Any) -> list[Any]:
        aval = update.aval if is_undef(update) else aval_of(update)
        ct_x = self.bind(ct, zeros(aval), *starts) if is_undef(x) else None
        ct_update = dynamic_slice_p.bind(ct, *starts, slice_sizes=aval.shape) if is_undef(update) else None
        return [ct_x, ct_update, *[None] * len(starts)]

    def batch(self, axis: AxisData, args: Any, dims: Any) -> tuple[Any, int]:
        (x, update, *starts), (x_dim, update_dim, *start_dims) = args, dims
        if any(d is not None for d in start_dims):
            check_elements(self, args, dims, {})
            return self._batch_starts(axis, (x, x_dim), (update, update_dim), starts, start_dims)
        dim = update_dim if x_dim is None else x_dim
        x, update = (
            move_batch_axis(x, x_dim, dim, axis.size),
            move_batch_axis(update, update_dim, dim, axis.size),
        )
        return self.bind(x, update, *_insert(starts, dim, _first(starts))), dim

    def _batch_starts(
        self, axis: AxisData, x: Any, update: Any, starts: Any, start_dims: Any
    ) -> tuple[Any, int]:
        all_axes = tuple(range(len(starts)))
        indices, indices_dim = _stack_starts(axis, starts, start_dims)
        return scatter_p.batch(
            axis,
            (x[0], indices, update[0]),
            (x[1], indices_dim, update[1]),
            dimension_numbers=ScatterDimensionNumbers(all_axes, (), all_axes),
            indices_are_sorted=True,
            unique_indices=True,
            mode=GatherScatterMode.CLIP,
        )


def _lower_as_scatter(ctx: Any, x: Any, update: Any, starts: Sequence[Any], axes: Sequence[int]) -> Any:
    """A window written at a static place along these axes, where devices hold parts of them.

    The partitioner exchanges less for a scatter than for a dynamic_update_slice.
    """
    position = ctx.concatenate([ctx.reshape(i, (1,)) for i in starts], 0)
    dims = ScatterDimensionNumbers(tuple(range(x.aval.ndim)), (), tuple(axes))
    return ctx.scatter(x, position, materialized_update(ctx, x, update, axes), dims, None, True, True)


def _check_window(
    name: str, x: ShapedArray, sizes: Sequence[int], starts: Sequence[ShapedArray], fact: str
) -> None:
    """ArgumentError unless there are a fitting size and an integer scalar start for each axis."""
    facts = (f"operand: {x}, {fact}", f"start indices: {', '.join(map(str, starts)) or 'none'}")
    if len(sizes) != x.ndim or any(not 0 <= s <= n for s, n in zip(sizes, x.shape, strict=True)):
        rule = f"{name} needs a window with the operand's number of axes, none longer than the operand's."
        raise ArgumentError(message(rule, *facts, fix="Choose a window that fits into the operand."))
    if len(starts) != x.ndim or any(i.shape != () or not dtypes.is_integer(i.dtype) for i in starts):
        rule = f"{name} needs an integer scalar for each axis of the operand, where the window begins."
        raise ArgumentError(
            message(rule, *facts, fix="Pass one integer per axis; cast others (i.astype('int32')).")
        )
    if len({i.dtype for i in starts}) > 1:
        rule = f"{name} takes start indices of one dtype."
        raise ArgumentError(message(rule, *facts, fix="Cast them to one integer dtype."))


def _fit(shape: Sequence[int], starts: Sequence[Any], sizes: Sequence[int]) -> list[Condition]:
    """The condition that a window lies inside the array, without the axes along which a constant start shows it."""
    unknown = [
        k
        for k, (start, length, size) in enumerate(zip(starts, shape, sizes, strict=True))
        if not (isinstance(start, (int, np.integer)) and 0 <= int(start) <= length - size)
    ]
    if not unknown:
        return []
    indices = concatenate([reshape(starts[k], (1,)) for k in unknown], 0)
    return in_range(indices, shape, unknown, sizes)


def _window(shape: Sequence[int], starts: Sequence[Any], sizes: Sequence[int]) -> tuple[Any, ...]:
    """Python slices for a window, which is moved inside the array where it would stick out."""
    inside = [min(max(int(i), 0), n - size) for i, n, size in zip(starts, shape, sizes, strict=True)]
    return tuple([slice(i, i + size) for i, size in zip(inside, sizes, strict=True)])


def _first(starts: Sequence[Any]) -> Any:
    """Zero, in the dtype of the other start indices."""
    return scalar_like(0, aval_of(starts[0]).dtype if starts else np.dtype(np.int32))


def _stack_starts(axis: AxisData, starts: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, int]:
    """Batched scalar indices as one array of index vectors, and its batch axis."""
    columns = [
        reshape(move_batch_axis(i, d, 0, axis.size), (axis.size, 1))
        for i, d in zip(starts, dims, strict=True)
    ]
    return concatenate(columns, 1), 0


slice_p = Slice("slice")
rev_p = Rev("rev")
_FEW_COLUMNS = 8  # with 16 there is no gain, and with 64 the transposition takes five times as long
_MANY_ROWS = 1024


def _are_columns(ctx: Any, xs: Sequence[Any], dimension: int) -> bool:
    """Whether a few columns are joined to a long matrix, on one CPU."""
    rows = xs[0].aval.shape[:-1]
    return (
        ctx.module.on_cpu
        and not ctx.module.partitioned_here
        and 2 <= len(xs) <= _FEW_COLUMNS
        and bool(rows)
        and dimension == len(rows)
        and all([x.aval.shape[-1] == 1 for x in xs])
        and not any(map(is_symbolic, rows))
        and math.prod(rows) >= _MANY_ROWS
    )


concatenate_p = Concatenate("concatenate")
split_p = Split("split")
pad_p = Pad("pad")
dynamic_slice_p = DynamicSlice("dynamic_slice")
dynamic_update_slice_p = DynamicUpdateSlice("dynamic_update_slice")


def slice_(
    x: Any, starts: tuple[int, ...], limits: tuple[int, ...], strides: tuple[int, ...] | None = None
) -> Any:
    """Elements `start, start + stride, ...` below `limit` along each axis."""
    if strides is not None and all(k == 1 for k in strides):
        strides = None
    if strides is None and limits == aval_of(x).shape and starts.count(0) == len(starts):
        return x
    return slice_p.bind(x, start_indices=starts, limit_indices=limits, strides=strides)


def slice_axis(x: Any, start: int, limit: int, axis: int, stride: int = 1) -> Any:
    """`slice_` along one axis."""
    shape = aval_of(x).shape
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    limits = tuple(limit if i == axis else n for i, n in enumerate(shape))
    return slice_(x, starts, limits, tuple(stride if i == axis else 1 for i in range(len(shape))))


def pad(x: Any, value: Any, padding_config: Padding) -> Any:
    """Padding of every axis by `(low, high, interior)`."""
    if padding_config.count((0, 0, 0)) == len(padding_config):
        return x
    return pad_p.bind(x, value, padding_config=padding_config)


def concatenate(xs: Sequence[Any], dimension: int) -> Any:
    """Arrays joined along an axis."""
    return xs[0] if len(xs) == 1 else concatenate_p.bind(*xs, dimension=dimension)


def split_axis(x: Any, sizes: tuple[int, ...], axis: int) -> list[Any]:
    """Neighbouring parts along an axis."""
    return split_p.bind(x, sizes=sizes, axis=axis) if len(sizes) > 1 else [x] * len(sizes)


def unstack(x: Any, axis: int) -> list[Any]:
    """The arrays along an axis, without it."""
    shape = aval_of(x).shape
    rest = (*shape[:axis], *shape[axis + 1 :])
    return [reshape(part, rest) for part in split_axis(x, (1,) * shape[axis], axis)]


def stack_last(xs: Sequence[Any]) -> Any:
    """Arrays of one type along a new last axis."""
    ndim = aval_of(xs[0]).ndim
    return concatenate([reshape(x, (*aval_of(x).shape, 1)) for x in xs], ndim)


def unstack_last(x: Any) -> list[Any]:
    """The arrays along the last axis."""
    return unstack(x, aval_of(x).ndim - 1)


def rev(x: Any, dimensions: tuple[int, ...]) -> Any:
    """The elements in reverse order along some axes."""
    return rev_p.bind(x, dimensions=dimensions) if dimensions else x
