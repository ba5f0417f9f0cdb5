"""The meaning of an index: one entry for each axis of the array, and the place of each axis in the result.

    parse(x, [slice(1, 3), None, 2])    [Span(axis=0, ...), New(1), Point(axis=1, ...)]

An index is a tuple of items. `parse` turns the items into entries: a `Span` (evenly spaced positions), a
`Point` (an integer or an array of integers), or `New` (new axes). `layout_of` orders the axes of the result
by NumPy's rule: the axes of the index arrays stand together, at the place of the first index array, or first
of all where another item separates the index arrays. `windows_of` expresses the index in the terms of gather
and scatter. Read next: `indexing.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from didax.core import config, dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import as_length, is_symbolic, slice_of
from didax.core.errors import (
    InconclusiveDimensionOperation,
    NonConcreteBooleanIndexError,
    PositionError,
    TracerArrayConversionError,
    TracerSliceError,
    message,
)
from didax.core.masked import check_no_mask
from didax.core.tracing import Tracer, known_value
from didax.core.value import Array
from didax.lax.slicing import of_one_dtype, wrapped
from didax.numpy.creation import asarray
from didax.numpy.dynamic_slices import Slice
from didax.numpy.promotion import broadcast_shapes
from didax.primitives.convert import iota
from didax.primitives.dimension import number
from didax.primitives.elementwise import clamp, rem
from didax.primitives.scalars import scalar_like
from didax.primitives.shape import broadcast_in_dim, reshape
from didax.primitives.slicing import concatenate
from didax.primitives.window_positions import GatherDimensionNumbers, signed
from didax.runtime.array import ConcreteArray
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS

_FULL = slice(None)


# --- Parsing ------------------------------------------------------------------------------------------------


class New(NamedTuple):
    """New axes of length 1. An Ellipsis without axes is zero new axes, and still separates index arrays beside it."""

    count: int


class Span(NamedTuple):
    """`size` elements from `start` on, at a positive distance of `step`; in reverse order where `flipped`.

    The start may be a traced array, where the size is not that of the whole axis.
    """

    axis: int
    start: Any
    size: int
    step: int = 1
    flipped: bool = False

    @property
    def static(self) -> bool:
        """Whether the start is known."""
        return not isinstance(self.start, Array)


class Point(NamedTuple):
    """An integer or an array of integers, counted from the front; where `static`, all are known to be in range."""

    axis: int
    position: Any
    static: bool

    @property
    def ndim(self) -> int:
        """The number of axes of the index."""
        return getattr(self.position, "ndim", 0)


Entry = New | Span | Point


def parse(
    x: ShapedArray, items: Sequence[Any], checked: bool, wraps: bool = True, drops: bool = False
) -> list[Entry]:
    """Return one entry per axis of `x` and per new axis; static integers out of range raise where `checked`.

    A position along an axis without elements always raises, unless `drops` says that reads or writes out of
    range are dropped.
    """
    consumed = [_axes_taken(item) for item in items]
    missing = x.ndim - sum(consumed)
    if missing < 0:
        rule = "An index has at most one entry for each axis."
        facts = f"array: {x}, index: {_describe(items)}, which is for {sum(consumed)} axes"
        raise IndexError(
            message(rule, facts, fix=f"Use at most {x.ndim} of them; None and Ellipsis do not count.")
        )
    dots = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    if any(item is Ellipsis for item in items[dots + 1 :]):
        rule = "An index contains Ellipsis (...) at most once."
        raise IndexError(message(rule, f"index: {_describe(items)}", fix="Write a : for each other axis."))
    items = [*items[:dots], *([_FULL] * missing or items[dots : dots + 1]), *items[dots + 1 :]]
    entries: list[Entry] = []
    axis = 0
    for item in items:
        if item is None or item is Ellipsis:
            entries.append(New(int(item is None)))
            continue
        found = _axis_entries(x, item, axis, checked, wraps, drops)
        entries += found
        axis += len(found)
    return entries


def _describe(items: Sequence[Any]) -> str:
    return f"[{', '.join(map(_item_text, items))}]"


def _item_text(item: Any) -> str:
    if type(item) is slice:
        parts = [item.start, item.stop, item.step][: 2 if item.step is None else 3]
        return ":".join("" if part is None else _item_text(part) for part in parts)
    if isinstance(item, Array):
        return str(item.aval)
    if isinstance(item, np.ndarray):
        return f"{item.dtype.name}[{','.join(map(str, item.shape))}]"
    return "..." if item is Ellipsis else f"{item!r:.100}"


def _axes_taken(item: Any) -> int:
    """Return the number of array axes that an item of an index takes."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if _is_mask(item) else 1


def _is_mask(item: Any) -> bool:
    return isinstance(item, Array | np.ndarray) and item.dtype == np.bool_


_SMALL_INTEGERS = {d for d in dtypes.ALL_DTYPES if dtypes.is_integer(d)}  # NumPy knows no kind of int4


def items_of(index: Any) -> list[Any]:
    """Return the items of an index, with sequences as arrays."""
    items = index if type(index) is tuple else (index,)
    for item in items:
        if isinstance(item, np.ndarray):
            check_no_mask(item)
            if item.dtype.kind not in "biu" and item.dtype not in _SMALL_INTEGERS:
                raise _not_an_index(item)
    return [_sequence(i) if isinstance(i, list | tuple | range | bool | np.bool_) else i for i in items]


def _sequence(item: Any) -> Any:
    """Return a sequence or a Python bool as an array."""
    try:
        found = np.asarray(item)
    except TracerArrayConversionError:
        return asarray(item)
    except ValueError:  # a ragged sequence
        raise _not_an_index(item) from None
    if found.size and found.dtype.kind not in "biu":
        raise _not_an_index(item)
    return found if found.size else found.astype(np.int32)


def _axis_entries(
    x: ShapedArray, item: Any, axis: int, checked: bool, wraps: bool, drops: bool
) -> list[Entry]:
    """Return the entry for an item at an axis; a mask of several axes gives several entries."""
    if type(item) is slice:
        return [_span(x, item, axis)]
    if type(item) is Slice:
        return [_dynamic_span(x, item, axis)]
    if is_symbolic(item):
        item = item.__jax_array__()
    if _is_mask(item):
        return _mask_points(x, item, axis)
    if is_symbolic(x.shape[axis]) and _is_static(item):
        item = _along_symbolic(x, item, axis, checked, wraps)
    if isinstance(item, Array) and dtypes.is_integer(item.dtype):
        if not drops and not x.shape[axis] and item.size:
            raise _out_of_range(x, axis, item.aval)
        return [Point(axis, _wrapped_array(item, x.shape[axis]) if wraps else item, static=False)]
    if isinstance(item, np.ndarray) and dtypes.is_integer(item.dtype):
        if is_symbolic(x.shape[axis]):
            return [Point(axis, _int32(signed(item)), True)]
        return [_static_points(x, item, axis, checked or not (drops or x.shape[axis]), wraps)]
    if not isinstance(item, Array | np.ndarray) and hasattr(item, "__index__"):
        i, n = as_length(item), x.shape[axis]
        inside = (-n if wraps else 0) <= i < n
        if (checked or not (drops or n)) and not inside:
            raise _out_of_range(x, axis, i)
        return [Point(axis, i + n if i < 0 and wraps else i, inside)]
    raise _not_an_index(item)


def _is_static(item: Any) -> bool:
    if isinstance(item, Array):
        return False
    return dtypes.is_integer(item.dtype) if isinstance(item, np.ndarray) else hasattr(item, "__index__")


def _along_symbolic(x: ShapedArray, item: Any, axis: int, checked: bool, wraps: bool) -> Any:
    """Return static integers as they are if they are known to lie within an axis of symbolic length.

    Otherwise they are an array, as traced ones are: where they lie is found as the program runs.
    """
    n, index = x.shape[axis], np.asarray(item)
    if not index.size:
        return item
    least, most = int(index.min()), int(index.max())
    try:
        inside = bool((-n if wraps else 0) <= least and most < n)
    except InconclusiveDimensionOperation:
        return asarray(item)
    if checked and not inside:
        raise _out_of_range(x, axis, item)
    return item if inside and (index.ndim == 0 or least >= 0) else asarray(item)


def _span(x: ShapedArray, item: slice, axis: int) -> Span:
    try:
        if any(map(is_symbolic, (x.shape[axis], item.start, item.stop))):
            return _symbolic_span(axis, *slice_of(item, x.shape[axis]))
        start, stop, step = item.indices(x.shape[axis])
    except ValueError:
        facts = f"slice: {_item_text(item)}, axis {axis} of {x}"
        raise ValueError(message("A slice has a step other than 0.", facts, fix="Use 1 or -1.")) from None
    except TypeError as error:
        traced = [bound for bound in (item.start, item.stop, item.step) if isinstance(bound, Tracer)]
        if not traced:
            raise _not_an_index(item) from error
        raise TracerSliceError(
            message(
                "The bounds of a slice fix the shape of the result, so they cannot be traced.",
                f"slice: {_item_text(item)}, axis {axis} of {x}",
                *traced[0].facts(),
                fix="Use didax.lax.dynamic_slice(x, starts, sizes) with static sizes, or mask with where.",
            )
        ) from None
    size = len(range(start, stop, step))
    if step > 0:
        return Span(axis, start, size, step if size > 1 else 1)
    return Span(axis, start + (size - 1) * step if size else 0, size, -step if size > 1 else 1, size > 1)


def _dynamic_span(x: ShapedArray, item: Slice, axis: int) -> Span:
    n, reach = x.shape[axis], (item.size - 1) * item.stride + 1
    if item.size and reach > n:
        rule = "A slice is no longer than the axis that it is of."
        facts = f"slice: {item.size} elements at a distance of {item.stride}, axis {axis} of {x}"
        raise IndexError(message(rule, facts, fix="Choose a smaller size."))
    start: Any = item.start
    if not item.size or reach == n:  # there is one place where it can lie
        start = 0
    elif not isinstance(start, Array):
        start = max(0, min(start + n if start < 0 else start, n - reach))
    else:
        start = _clamped(wrapped(start, n), n - reach)
    return Span(axis, start, item.size, item.stride if item.size > 1 else 1)


def _clamped(start: Any, last: int) -> Any:
    return clamp(scalar_like(0, start.dtype), start, number(last, start.dtype))


def _symbolic_span(axis: int, start: Any, size: Any, step: int) -> Span:
    if step > 0:
        return Span(axis, start, size, step)
    return Span(axis, start + (size - 1) * step, size, -step, True)


def _mask_points(x: ShapedArray, mask: Any, axis: int) -> list[Entry]:
    known = known_value(mask)
    if known is None:
        raise NonConcreteBooleanIndexError(
            message(
                "A traced mask cannot be an index: how many elements it selects is not known while tracing.",
                f"mask: {aval_of(mask)}, array: {x}",
                fix="Use didax.numpy.where(mask, x, y), or the indices didax.numpy.nonzero(mask, size=...).",
            )
        )
    values = np.asarray(known)
    lengths = x.shape[axis : axis + values.ndim]
    if any(m not in (n, 0) for m, n in zip(values.shape, lengths, strict=True)):  # 0 selects nothing
        rule = "A mask has the lengths of the axes it selects from."
        facts = f"mask: {aval_of(mask)}, array: {x}, first axis: {axis}"
        raise IndexError(message(rule, facts, fix="Compute the mask from the array itself."))
    return [Point(axis + i, _int32(found), True) for i, found in enumerate(values.nonzero())]


def _static_points(x: ShapedArray, index: Any, axis: int, checked: bool, wraps: bool) -> Point:
    n, given = x.shape[axis], index
    index = signed(given)
    outside = (index < (-n if wraps else 0)) | (index >= n)
    if outside.any():
        if checked:
            raise _out_of_range(x, axis, int(given[outside].flat[0]))
        index = index.clip(-(n + 1), n) if wraps else index
    return Point(axis, _int32(np.where(index < 0, index + n, index) if wraps else index), not outside.any())


def _int32(index: Any) -> Any:
    """Return static indices with 32 bits where they fit, whatever the default width of the machine.

    Along axes of more than 2**31 elements they fit into uint32, or need `enable_x64`.
    """
    most = int(np.abs(index).max()) if index.size else 0
    if most < 2**31:
        return index.astype(np.int32)
    if config.state().enable_x64:
        return index.astype(np.int64)
    dtype = np.dtype(np.int32 if index.min() < 0 else np.uint32)
    dtypes.check_counts(dtype, most + 1)
    return index.astype(dtype)


def _wrapped_array(index: Any, length: int) -> Any:
    """Return an array of integers whose negative elements, which count from the end, are counted from the front."""
    small = type(index) is ConcreteArray and index._value is not None and index.size <= NUMPY_MAX_ELEMENTS
    if small and not is_symbolic(length):
        found = np.asarray(index._value)
        if found.dtype.itemsize < 4:
            found = found.astype(np.int32)
        if found.dtype.kind == "u":
            return found
        dtypes.check_counts(found.dtype, length)
        return np.where(found < 0, found + found.dtype.type(length), found)
    return wrapped(index, length)


def _out_of_range(x: ShapedArray, axis: int, index: Any) -> IndexError:
    n = x.shape[axis]
    return IndexError(
        message(
            "An index is out of range.",
            f"index: {index}, axis {axis} of length {n}, array: {x}",
            fix=f"Use {-n} to {n - 1}, or say what to do beyond with x.at[...].get(mode=...)."
            if n
            else "An axis of length 0 has no elements.",
        )
    )


def _not_an_index(item: Any) -> PositionError:
    described = _item_text(item)
    if not isinstance(item, Array | np.ndarray):
        described = f"{item!r:.100} of type {type(item).__name__}"
    return PositionError(
        message(
            "An index is made of integers, slices, Ellipsis, None, and arrays of integers or booleans.",
            f"got: {described}",
            fix="Cast an array to integers (x.astype('int32')); use a field's position instead of its name.",
        )
    )


def lift_scalar_masks(x: Any, items: list[Any]) -> tuple[Any, list[Any]]:
    """Replace a mask without axes, which selects all or nothing of a new axis: make the axis and index it."""
    positions = [
        i
        for i, item in enumerate(items)
        if _is_mask(item) and item.ndim == 0 and known_value(item) is not None
    ]
    if not positions:
        return x, items
    for i in positions:
        axis = _axis_of(items, i, aval_of(x).ndim)
        shape = aval_of(x).shape
        x = reshape(x, (*shape[:axis], 1, *shape[axis:]))
        items = [*items[:i], np.zeros(int(bool(known_value(items[i]))), np.int32), *items[i + 1 :]]
    return x, items


def wrapped_items(x: ShapedArray, items: list[Any]) -> list[Any]:
    """Return the items of an index with integers out of range wrapped around the length of their axis."""
    return [_wrapped_item(item, _length_at(x, items, i)) for i, item in enumerate(items)]


def _wrapped_item(item: Any, length: int) -> Any:
    if not length or type(item) is slice or _is_mask(item) or _axes_taken(item) == 0:
        return item
    if not isinstance(item, Array | np.ndarray):
        return operator.index(item) % length if hasattr(item, "__index__") else item
    if not dtypes.is_integer(item.dtype) or length > ml_dtypes.iinfo(item.dtype).max:
        return item
    if isinstance(item, np.ndarray):
        return item % length
    # The remainder may be negative; parsing counts it from the end.
    return rem(item, number(length, item.dtype))


def _length_at(x: ShapedArray, items: list[Any], i: int) -> int:
    axis = _axis_of(items, i, x.ndim)
    return x.shape[axis] if 0 <= axis < x.ndim else 0


def _axis_of(items: Sequence[Any], i: int, ndim: int) -> int:
    """Return the axis of an array with `ndim` axes to which the i-th item of an index belongs."""
    if any(item is Ellipsis for item in items[:i]):
        return ndim - sum(map(_axes_taken, items[i:]))
    return sum(map(_axes_taken, items[:i]))


# --- Where the result's axes come from ----------------------------------------------------------------------


class Layout(NamedTuple):
    """The axes of an indexed array without the new axes; the label is None for an axis of the index arrays."""

    labels: tuple[int | None, ...]
    shape: tuple[int, ...]
    final_shape: tuple[int, ...]  # with the new axes
    flipped: tuple[int, ...]


def layout_of(entries: Sequence[Entry]) -> Layout:
    points = [i for i, e in enumerate(entries) if type(e) is Point]
    shape = _broadcast([e for e in entries if type(e) is Point])
    together = not shape or points[-1] - points[0] == len(points) - 1
    first = (points[0] if together else 0) if shape else None
    axes: list[tuple[int | None, int, bool] | None] = []  # (label, length, flipped); None for a new axis
    for i, e in enumerate(entries):
        if i == first:
            axes += [(None, n, False) for n in shape]
        if type(e) is Span:
            axes.append((e.axis, e.size, e.flipped))
        elif type(e) is New:
            axes += [None] * e.count
    old = [axis for axis in axes if axis is not None]
    return Layout(
        tuple([label for label, _, _ in old]),
        tuple([n for _, n, _ in old]),
        tuple([1 if axis is None else axis[1] for axis in axes]),
        tuple([i for i, (_, _, flipped) in enumerate(old) if flipped]),
    )


def _broadcast(points: Sequence[Point]) -> tuple[int, ...]:
    shapes = [p.position.shape for p in points if p.ndim]
    try:
        return broadcast_shapes("indexing", shapes) if shapes else ()
    except ValueError:
        raise PositionError(
            message(
                "Index arrays are broadcast to one shape.",
                f"shapes: {', '.join(map(str, shapes))}",
                fix="Reshape them, or use didax.numpy.ix_ for their outer product.",
            )
        ) from None


class Windows(NamedTuple):
    """An index in the terms of gather and scatter."""

    indices: Any
    dimension_numbers: GatherDimensionNumbers
    slice_sizes: tuple[int, ...]


def windows_of(x: ShapedArray, entries: Sequence[Entry], layout: Layout) -> Windows:
    """Make columns of indices from the points and the spans with a step; the other spans become the window."""
    steps = {e.axis: e.step for e in entries if type(e) is Span}
    batch = [i for i, label in enumerate(layout.labels) if label is None or steps[label] != 1]
    batch_shape = tuple([layout.shape[i] for i in batch])
    point_axes = [j for j, i in enumerate(batch) if layout.labels[i] is None]
    columns: dict[int, Any] = {}
    sizes, collapsed = list(x.shape), []
    for e in entries:
        if type(e) is Point:
            columns[e.axis] = (
                _at_batch_axes(e.position, point_axes[len(point_axes) - e.ndim :], batch_shape)
                if e.ndim
                else scalar_of(e.position)
            )
        elif type(e) is Span and e.step != 1:
            first = e.start if e.static else 0
            if is_symbolic(e.size) or is_symbolic(first):
                dtype = dtypes.position_dtype(x.shape[e.axis])
                ramp: Any = number(first, dtype) + iota(dtype, (e.size,), 0) * dtype.type(e.step)
            else:
                ramp = np.arange(first, first + e.size * e.step, e.step, dtype=np.int64)
            if not e.static:
                ramp = e.start + ramp.astype(e.start.dtype)
            columns[e.axis] = _at_batch_axes(ramp, [batch.index(layout.labels.index(e.axis))], batch_shape)
        elif type(e) is Span and e.size != x.shape[e.axis]:
            columns[e.axis], sizes[e.axis] = e.start, e.size
            continue
        else:
            continue
        sizes[e.axis] = 1
        collapsed.append(e.axis)
    dims = GatherDimensionNumbers(
        tuple([i for i in range(len(layout.labels)) if i not in batch]),
        tuple(sorted(collapsed)),
        tuple(columns),
    )
    return Windows(_stacked(list(columns.values()), batch_shape), dims, tuple(sizes))


def _at_batch_axes(index: Any, axes: Sequence[int], shape: tuple[int, ...]) -> Any:
    """Return an index reshaped so that its axes lie at `axes` of the batch axes."""
    if isinstance(index, Array):
        kept = [(n, i) for n, i in zip(index.shape, axes, strict=True) if n == shape[i]]  # the rest repeats
        return broadcast_in_dim(
            reshape(index, tuple([n for n, _ in kept])), shape, tuple([i for _, i in kept])
        )
    lengths = [1] * len(shape)
    for n, i in zip(index.shape, axes, strict=True):
        lengths[i] = n
    return np.broadcast_to(index.reshape(lengths), shape)


def _stacked(columns: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Stack columns of indices (arrays of the given shape, or scalars) along a new last axis."""
    if not columns:
        return np.zeros((*shape, 0), np.int32)
    columns = [number(c, np.dtype(np.int32)) if is_symbolic(c) else c for c in columns]
    if shape and not any(isinstance(c, Array) for c in columns):
        return _int32(np.stack([np.broadcast_to(signed(np.asarray(c)), shape) for c in columns], -1))
    parts = of_one_dtype(columns)
    return concatenate(
        [reshape(c, (*shape, 1)) if aval_of(c).ndim else broadcast_in_dim(c, (*shape, 1), ()) for c in parts],
        len(shape),
    )


def scalar_of(index: Any) -> Any:
    return index if type(index) is int or is_symbolic(index) or isinstance(index, Array) else index[()]
