"""Writing windows that may meet, where nobody says which write comes last: what accelerators make of `scatter`.

`scatter` promises that the last update of an element stays. A CPU writes one window after the other. A GPU writes them
all at once: where windows meet, any of them may stay, another one in each run, and the primal may keep an update whose
tangent the derivative drops. So the writes are numbered in their order. First, each place gets the greatest number of
the writes that meet there; a maximum does not depend on the order of writing. Then

    windows that are equal or apart     a write that finds another number than its own is sent out of bounds, where
                                        writes are dropped; there is one number for each place of a window
    windows that may overlap in part    each element takes the update whose number it has

Read next: `gather.py`, the primitive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.avals import ShapedArray
from didax.core.dims import is_symbolic
from didax.primitives.window_positions import (
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
    as_gather,
    window_sizes,
)

_BOOL, _INT32, _INT64 = np.dtype(bool), np.dtype(np.int32), np.dtype(np.int64)
_ELEMENTS = GatherDimensionNumbers((), (0,), (0,))  # single elements of a vector


def write_last(ctx: Any, operand: Any, indices: Any, updates: Any, dims: ScatterDimensionNumbers) -> Any:
    """`operand` with windows replaced by updates, the last of those that meet; windows out of bounds are dropped."""
    shape = operand.aval.shape
    if any(map(is_symbolic, (*shape, *updates.aval.shape))):  # the type of the numbers depends on the sizes
        return ctx.scatter(operand, indices, updates, dims, None)
    sizes = window_sizes(updates.aval.shape, dims, len(shape))
    if all(sizes[axis] == 1 for axis in dims.scatter_dims_to_operand_dims):
        indices = _last_of_equals(ctx, operand, indices, updates, dims)
        return ctx.scatter(operand, indices, updates, dims, None)
    return _last_of_overlapping(ctx, operand, indices, updates, dims)


def _last_of_equals(ctx: Any, operand: Any, indices: Any, updates: Any, dims: ScatterDimensionNumbers) -> Any:
    """The indices of windows that are equal or apart, out of bounds where a later window is equal."""
    placed = {*dims.scatter_dims_to_operand_dims, *dims.operand_batching_dims}
    places = tuple(n if axis in placed else 1 for axis, n in enumerate(operand.aval.shape))
    count = indices.aval.shape[:-1]
    numbers = _numbers(ctx, count)
    marks = updates.aval.update(
        shape=[1 if i in dims.update_window_dims else n for i, n in enumerate(updates.aval.shape)],
        dtype=numbers.aval.dtype,
        weak_type=False,
    )
    own = ctx.broadcast(numbers, marks, _batch_axes(updates.aval, dims))
    last = _greatest(ctx, ShapedArray(places, marks.dtype), indices, own, dims)
    found = ctx.gather(last, indices, as_gather(dims), [1] * len(places), marks)
    stays = ctx.reshape(ctx.compare("EQ", found, own), count)
    stays = ctx.broadcast(stays, indices.aval.update(dtype=_BOOL), range(len(count)))
    return ctx.select(stays, indices, ctx.constant(-1, indices.aval))


def _last_of_overlapping(
    ctx: Any, operand: Any, indices: Any, updates: Any, dims: ScatterDimensionNumbers
) -> Any:
    """The operand, each of whose elements takes the last update of it."""
    order = [*_batch_axes(updates.aval, dims), *dims.update_window_dims]
    in_order = ctx.transpose(updates, order)  # one window after the other
    numbers = _numbers(ctx, in_order.aval.shape)
    last = _greatest(
        ctx,
        ShapedArray(operand.aval.shape, numbers.aval.dtype),
        indices,
        ctx.transpose(numbers, np.argsort(order).tolist()),
        dims,
    )
    flat = ctx.reshape(in_order, [math.prod(updates.aval.shape)])
    taken = ctx.gather(flat, ctx.reshape(last, [*last.aval.shape, 1]), _ELEMENTS, [1], operand.aval)
    return ctx.select(ctx.compare("GE", last, ctx.constant(0, last.aval)), taken, operand)


def _greatest(
    ctx: Any, places: ShapedArray, indices: Any, numbers: Any, dims: ScatterDimensionNumbers
) -> Any:
    """The greatest number that is written to each place, -1 where none is."""
    return ctx.scatter(ctx.constant(-1, places), indices, numbers, dims, "maximum")


def _numbers(ctx: Any, shape: Sequence[int]) -> Any:
    """0, 1, 2, ... row after row."""
    count = math.prod(shape)
    dtype = _INT32 if count <= np.iinfo(_INT32).max else _INT64
    return ctx.reshape(ctx.iota(ShapedArray((count,), dtype), 0), shape)


def _batch_axes(updates: ShapedArray, dims: ScatterDimensionNumbers) -> list[int]:
    return [axis for axis in range(updates.ndim) if axis not in dims.update_window_dims]
