"""Where the windows of `gather` and `scatter` lie: dimension numbers, modes, and positions in each form they take.

An index vector positions a window along the axes of the operand that `start_index_map` names. Here the
positions are found in NumPy (`find_windows`), written in StableHLO, and asked about in programs (`in_range`);
`problem_with` says what does not go together.
Read next: `gather.py`, the primitives.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import min_dim
from didax.core.errors import ArgumentError, message
from didax.core.jaxpr_print import register_param_type
from didax.passes.checkify import Condition
from didax.primitives.convert import convert_element_type, iota
from didax.primitives.elementwise import and_, eq, ge, le
from didax.primitives.filled import full
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where

_INT32 = np.dtype(np.int32)
_INT64 = np.dtype(np.int64)


@register_param_type
class GatherScatterMode(enum.Enum):
    """What becomes of a window that does not lie inside the operand.

    >>> import didax.numpy as dnp
    >>> x = dnp.arange(3)
    >>> x.at[7].get(mode=GatherScatterMode.CLIP), x.at[7].get(mode=GatherScatterMode.FILL_OR_DROP, fill_value=-1)
    (Array(2, dtype=int32), Array(-1, dtype=int32))
    >>> GatherScatterMode.from_any("drop")
    <GatherScatterMode.FILL_OR_DROP: 1>
    """

    CLIP = 0
    """The window is moved inside."""
    FILL_OR_DROP = 1
    """gather: it reads the fill value; scatter: it is not written."""
    PROMISE_IN_BOUNDS = 2
    """The caller knows that there is none."""

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode of that name: "clip", "fill" or "drop", "promise_in_bounds"; None is "fill"."""
        if isinstance(mode, GatherScatterMode):
            return mode
        found = _MODES.get(mode)
        if found is None:
            fix = f"Use one of {', '.join(repr(name) for name in _MODES if name)}."
            raise ValueError(message("Unknown mode for indices out of bounds.", f"mode: {mode!r}", fix=fix))
        return found


_MODES = {
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    None: GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
}
CLIP, FILL_OR_DROP = GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP


@register_param_type
class GatherDimensionNumbers(NamedTuple):
    """How the axes of a gather correspond.

    `offset_dims`: axes of the result that run over the window. `collapsed_slice_dims`: axes of the operand of
    window size 1 that the result lacks. `start_index_map`: axis of the operand that each entry of an index
    vector positions. `operand_batching_dims` and `start_indices_batching_dims`: axes of both that are walked
    together.

    >>> import numpy as np
    >>> from didax import lax
    >>> rows = GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> lax.gather(np.int32([[1, 2], [3, 4], [5, 6]]), np.int32([[2], [0]]), rows, slice_sizes=(1, 2))
    Array([[5, 6],
           [1, 2]], dtype=int32)
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


@register_param_type
class ScatterDimensionNumbers(NamedTuple):
    """How the axes of a scatter correspond: as in a gather, with the updates in place of the result.

    >>> import numpy as np
    >>> from didax import lax
    >>> elements = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> lax.scatter_add(np.zeros(3, np.int32), np.int32([[2], [0], [2]]), np.int32([1, 2, 3]), elements)
    Array([2, 0, 4], dtype=int32)
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


def as_scatter(dims: GatherDimensionNumbers) -> ScatterDimensionNumbers:
    """Those of the scatter that writes what a gather reads."""
    return ScatterDimensionNumbers(*dims)


def as_gather(dims: ScatterDimensionNumbers) -> GatherDimensionNumbers:
    """Those of the gather that reads what a scatter writes."""
    return GatherDimensionNumbers(*dims)


def window_sizes(updates: Sequence[int], dims: ScatterDimensionNumbers, ndim: int) -> tuple[int, ...]:
    """Window size along each axis of the operand, for updates of that shape."""
    sizes = iter([updates[i] for i in dims.update_window_dims])
    left_out = {*dims.inserted_window_dims, *dims.operand_batching_dims}
    return tuple(1 if axis in left_out else next(sizes, 0) for axis in range(ndim))


# --- What goes together -------------------------------------------------------------------------------------


def problem_with(
    operand: ShapedArray, indices: ShapedArray, dims: GatherDimensionNumbers, sizes: Sequence[int]
) -> str | None:
    """What is wrong with dimension numbers and window sizes, if anything."""
    if not dtypes.is_integer(indices.dtype):
        return "the indices must be integers"
    if indices.ndim == 0 or indices.shape[-1] != len(dims.start_index_map):
        return "the last axis of the indices must have one entry for each axis that they position"
    if len(sizes) != operand.ndim or any(
        not 0 <= size <= (1 if i in dims.operand_batching_dims else n)  # of a batch, perhaps of nothing
        for i, (size, n) in enumerate(zip(sizes, operand.shape, strict=True))
    ):
        return "the window must have a size for each axis of the operand, at most the axis's own"
    left_out = (*dims.collapsed_slice_dims, *dims.operand_batching_dims)
    if any(not 0 <= axis < operand.ndim for axis in (*left_out, *dims.start_index_map)):
        return "an axis that is named does not exist in the operand"
    if len({*left_out}) != len(left_out) or len({*dims.start_index_map}) != len(dims.start_index_map):
        return "an axis is named twice"
    if any(sizes[axis] > 1 for axis in left_out):
        return "axes left out of the window must have window size 1"
    if {*dims.start_index_map} & {*dims.operand_batching_dims}:
        return "an axis that is walked together with the indices cannot be positioned by them"
    pairs = list(zip(dims.operand_batching_dims, dims.start_indices_batching_dims, strict=False))
    if len(dims.operand_batching_dims) != len(dims.start_indices_batching_dims) or any(
        not 0 <= j < indices.ndim - 1 or operand.shape[i] != indices.shape[j] for i, j in pairs
    ):
        return "batching axes of the operand and the indices must come in pairs of equal length"
    return None


def pairing_error(
    name: str, problem: str, operand: Any, indices: Any, dims: Any, *more: str
) -> ArgumentError:
    """The error of a primitive whose arguments have that problem."""
    return ArgumentError(
        message(
            f"{name} cannot pair the axes of its arguments: {problem}.",
            f"operand: {operand}, indices: {indices}",
            *more,
            f"dimension_numbers: {dims}",
            fix="Correct the dimension numbers, or use NumPy's notation (x[...], x.at[...]) instead.",
        )
    )


# --- Positions in NumPy -------------------------------------------------------------------------------------


class Windows(NamedTuple):
    """Where windows lie: an index array per axis of the operand, and which windows fit (None: all do).

    The arrays broadcast to the batch axes of the indices followed by the axes of the window.
    """

    positions: tuple[Any, ...]
    fits: Any
    shape: tuple[int, ...]


def find_windows(
    shape: Sequence[int],
    indices: Any,
    dims: GatherDimensionNumbers,
    sizes: Sequence[int],
    mode: GatherScatterMode,
) -> Windows:
    """The windows at these indices of an array of that shape."""
    batch = indices.shape[:-1]
    kept = window_axes(dims, len(shape))
    fits: Any = None
    positions: list[Any] = []
    for axis, (length, size) in enumerate(zip(shape, sizes, strict=True)):
        at: Any = 0
        if axis in dims.start_index_map:
            start = signed(indices[..., dims.start_index_map.index(axis)])
            inside = np.minimum(np.maximum(start, 0), max(length - size, 0))  # np.clip takes twice as long
            if mode is FILL_OR_DROP:
                fits = inside == start if fits is None else fits & (inside == start)
            at = inside.reshape(batch + (1,) * len(kept))
        elif axis in dims.operand_batching_dims:
            walked = dims.start_indices_batching_dims[dims.operand_batching_dims.index(axis)]
            at = _ramp(length, walked, len(batch) + len(kept))
        if size != 1 and axis in kept:
            at = at + _ramp(size, len(batch) + kept.index(axis), len(batch) + len(kept))
        positions.append(at)
    return Windows(tuple(positions), fits, batch + tuple(sizes[axis] for axis in kept))


@functools.lru_cache(1024)
def window_axes(dims: GatherDimensionNumbers, ndim: int) -> tuple[int, ...]:
    """The axes of the operand that are axes of its windows, too."""
    left_out = {*dims.collapsed_slice_dims, *dims.operand_batching_dims}
    return tuple([axis for axis in range(ndim) if axis not in left_out])


@functools.lru_cache(64)
def _ramp(n: int, axis: int, ndim: int) -> Any:
    ramp = np.arange(n).reshape([n if i == axis else 1 for i in range(ndim)])
    ramp.flags.writeable = False
    return ramp


def signed(index: Any) -> Any:
    """As int64; what does not fit is out of bounds either way."""
    if index.dtype == np.uint64:
        index = np.minimum(index, np.uint64(np.iinfo(np.int64).max))
    return index.astype(np.int64)


@functools.lru_cache(1024)
def result_order(offset_dims: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """For each axis of a gather's result, its place among batch axes followed by window axes."""
    batch, window = iter(range(ndim - len(offset_dims))), iter(range(ndim - len(offset_dims), ndim))
    return tuple([next(window if i in offset_dims else batch) for i in range(ndim)])


# --- Indices in range ---------------------------------------------------------------------------------------


def in_range(
    indices: Any, shape: Sequence[int], axes: Sequence[int], window: Sequence[int]
) -> list[Condition]:
    """That windows lie inside an array: the last axis of the indices holds a position along each of `axes`."""
    aval = aval_of(indices)
    if 0 in aval.shape or not axes:
        return []
    lengths, sizes = [shape[k] for k in axes], [window[k] for k in axes]
    if aval.dtype.itemsize < 4:  # which may not hold the lengths
        indices, aval = convert_element_type(indices, _INT32), aval.update(dtype=_INT32)
    most = np.iinfo(aval.dtype).max
    last = _along_last([min(n - size, most) for n, size in zip(lengths, sizes, strict=True)], aval)
    inside = and_(ge(indices, scalar_like(0, aval.dtype)), le(indices, last))
    facts = {"axis": axes, "length": lengths, **({"window": sizes} if max(sizes) > 1 else {})}
    values = {name: _along_last(values, aval.update(dtype=_INT32)) for name, values in facts.items()}
    of_window = " of a window of {window}" if "window" in facts else ""
    text = (
        f"out-of-bounds indexing for array of shape {tuple(shape)}: index {{index}}{of_window} is out of bounds "
        f"for axis {{axis}} with size {{length}}."
    )
    return [Condition("index", inside, f"{text}{_FROM_THE_END}", {"index": indices, **values})]


_FROM_THE_END = "\n  (negative indices have been counted from the end)"


def windows_fit(operand: Any, indices: Any, axes: Sequence[int], sizes: Sequence[int]) -> list[Condition]:
    """`in_range`, of the windows of an operand."""
    return in_range(indices, aval_of(operand).shape, axes, sizes)


def _along_last(values: Sequence[int], aval: ShapedArray) -> Any:
    """An array of that type that holds these values along its last axis."""
    out = full(aval.shape, values[0], aval.dtype)
    for k, value in enumerate(values[1:], 1):
        here = eq(iota(_INT32, aval.shape, aval.ndim - 1), np.int32(k))
        out = where(here, full(aval.shape, value, aval.dtype), out)
    return out


# --- Indices in StableHLO -----------------------------------------------------------------------------------


def lower_indices(ctx: Any, indices: Any) -> Any:
    """Indices as int32 or int64: bounds may not fit into narrower types, and unsigned ones must not wrap."""
    dtype = indices.aval.dtype
    if dtype == np.uint64:
        top = ctx.constant(np.iinfo(np.int64).max, indices.aval)
        indices = ctx.op("minimum", [indices, top], indices.aval)
    return ctx.convert(indices, _INT64 if dtype.itemsize == 8 or dtype == np.uint32 else _INT32)


def index_bounds(
    ctx: Any, indices: Any, shape: Sequence[int], sizes: Sequence[int], axes: Sequence[int]
) -> tuple[Any, Any]:
    """Least and greatest index vectors inside, in the shape of the indices."""
    dtype = indices.aval.dtype
    last = [min_dim(shape[axis] - sizes[axis], int(np.iinfo(dtype).max)) for axis in axes]
    return ctx.constant(0, indices.aval), ctx.broadcast(
        ctx.numbers(last, dtype), indices.aval, [indices.aval.ndim - 1]
    )


def starts_inside(
    ctx: Any, starts: Sequence[Any], shape: Sequence[int], sizes: Sequence[int]
) -> Sequence[Any]:
    """Where the nearest window inside begins, along each axis, for what XLA may split over several devices.

    A device that holds a part of an axis loses a window that begins out of bounds, or takes another one.
    """
    if not ctx.module.partitioned_here:
        return starts
    bounds = [(ctx.constant(0, i.aval), n - m) for i, n, m in zip(starts, shape, sizes, strict=True)]
    return [
        clamped(ctx, i, (low, ctx.constant(high, i.aval))) if isinstance(high, int) else i
        for i, (low, high) in zip(starts, bounds, strict=True)
    ]


def clamped(ctx: Any, indices: Any, bounds: tuple[Any, Any]) -> Any:
    """The indices moved to the nearest windows that lie inside."""
    low, high = bounds
    return ctx.op("clamp", [low, indices, high], indices.aval)


def fitting(ctx: Any, indices: Any, bounds: tuple[Any, Any]) -> Any:
    """Which windows lie inside: the indices' shape without its last axis."""
    low, high = bounds
    inside = ctx.op("and", [ctx.compare("GE", indices, low), ctx.compare("LE", indices, high)])
    return ctx.reduce(inside, [indices.aval.ndim - 1], "and", True)
