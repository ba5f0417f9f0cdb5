"""NumPy's indexing: `x[index]`, and `x.at[index].set(...)` for what NumPy writes as `x[index] = ...`.

    getitem(x, index)            everything NumPy takes: integers, slices, ..., None, masks, integer arrays
    at(x)[index].add(values)     the array with elements changed; repeated indices count repeatedly

An index is parsed into one entry per axis (`_Span`, `_Point`, `_New`). Spans and static integers alone are a
slice; with a traced integer a dynamic_slice; integer arrays make a gather. Updates of one static window read
it, compute and write it back; all others are a scatter. A static index out of range raises IndexError. Traced
integers and arrays cannot: read, they are moved inside; written, they are dropped; `mode` chooses otherwise.
Read next: `primitives/slicing.py`, `primitives/gather.py`.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.array import ConcreteArray
from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import NonConcreteBooleanIndexError, message
from didax.core.tracing import Tracer, known_value
from didax.core.value import Array
from didax.eager import NUMPY_MAX_ELEMENTS
from didax.lax.slicing import Mode, of_one_dtype, wrapped
from didax.numpy import ufuncs
from didax.numpy.promotion import PYTHON_SCALARS, ArrayLike, as_array, cast, checked_operand, scalar
from didax.primitives.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    Scatter,
    ScatterDimensionNumbers,
    gather_p,
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, full, reshape
from didax.primitives.slicing import concatenate, dynamic_slice_p, dynamic_update_slice_p, rev, slice_

__all__ = ["at", "getitem"]

_CLIP, _DROP = GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP
_PROMISE = GatherScatterMode.PROMISE_IN_BOUNDS
_FULL = slice(None)


# --- Parsing ------------------------------------------------------------------------------------------------


class _New(NamedTuple):
    """A new axis of length 1."""


class _Span(NamedTuple):
    """`size` elements from `start` on, `step` apart (positive), in reverse order where `flipped`."""

    axis: int
    start: int
    size: int
    step: int = 1
    flipped: bool = False


class _Point(NamedTuple):
    """An integer, or an array of integers; counted from the front. Known to be in range where `static`."""

    axis: int
    position: Any
    static: bool

    @property
    def ndim(self) -> int:
        """Number of axes of the index."""
        return 0 if type(self.position) is int else self.position.ndim


_Entry = _New | _Span | _Point
_NEW = _New()


def _parse(x: ShapedArray, items: Sequence[Any], checked: bool, wraps: bool = True) -> list[_Entry]:
    """One entry per axis of `x` and per new axis. Static integers out of range raise where `checked`."""
    consumed = [_consumes(item) for item in items]
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
    items = [*items[:dots], *[_FULL] * missing, *items[dots + 1 :]]
    entries: list[_Entry] = []
    axis = 0
    for item in items:
        if item is None:
            entries.append(_NEW)
            continue
        found = _axis_entries(x, item, axis, checked, wraps)
        entries += found
        axis += len(found)
    return entries


def _describe(items: Sequence[Any]) -> str:
    texts = [
        str(aval_of(i)) if isinstance(i, Array | np.ndarray) else "..." if i is Ellipsis else _slice_text(i)
        for i in items
    ]
    return f"[{', '.join(texts)}]"


def _slice_text(item: Any) -> str:
    if type(item) is not slice:
        return repr(item)
    return ":".join("" if part is None else str(part) for part in (item.start, item.stop, item.step))


def _consumes(item: Any) -> int:
    """Number of axes an item of an index is for."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if _is_mask(item) else 1


def _is_mask(item: Any) -> bool:
    return isinstance(item, Array | np.ndarray) and item.dtype == np.bool_


def _items(index: Any) -> list[Any]:
    """The items of an index; sequences as NumPy arrays."""
    items = index if type(index) is tuple else (index,)
    return [np.asarray(i) if isinstance(i, list | range | bool | np.bool_) else i for i in items]


def _axis_entries(x: ShapedArray, item: Any, axis: int, checked: bool, wraps: bool) -> list[_Entry]:
    """The entry for an item at an axis; several for a mask of several axes."""
    if type(item) is slice:
        return [_span(x, item, axis)]
    if _is_mask(item):
        return _mask_points(x, item, axis)
    if isinstance(item, Array) and dtypes.is_integer(item.dtype):
        if not x.shape[axis] and item.size:
            raise _out_of_range(x, axis, item.aval)
        return [_Point(axis, _wrapped_array(item, x.shape[axis]) if wraps else item, static=False)]
    if isinstance(item, np.ndarray) and (item.dtype.kind in "iu" or not item.size):
        return [_static_points(x, item, axis, checked, wraps)]
    if not isinstance(item, Array | np.ndarray | str) and hasattr(item, "__index__"):
        i, n = operator.index(item), x.shape[axis]
        if (checked or not n) and not -n <= i < n:
            raise _out_of_range(x, axis, i)
        return [_Point(axis, i + n if i < 0 and wraps else i, -n <= i < n)]
    raise _not_an_index(item)


def _span(x: ShapedArray, item: slice, axis: int) -> _Span:
    try:
        start, stop, step = item.indices(x.shape[axis])
    except TypeError as error:
        bounds = [b for b in (item.start, item.stop, item.step) if isinstance(b, Tracer)]
        if not bounds:
            raise _not_an_index(item) from error
        raise type(error)(
            message(
                "The bounds of a slice fix the shape of the result, so they cannot be traced.",
                f"slice: {_slice_text(item)}, axis {axis} of {x}",
                fix="Use didax.lax.dynamic_slice(x, starts, sizes) with static sizes, or mask with where.",
            )
        ) from None
    size = len(range(start, stop, step))
    if step > 0:
        return _Span(axis, start, size, step if size > 1 else 1)
    return _Span(axis, start + (size - 1) * step if size else 0, size, -step if size > 1 else 1, size > 1)


def _mask_points(x: ShapedArray, mask: Any, axis: int) -> list[_Entry]:
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
    if values.shape != x.shape[axis : axis + values.ndim]:
        rule = "A mask has the lengths of the axes it selects from."
        facts = f"mask: {aval_of(mask)}, array: {x}, first axis: {axis}"
        raise IndexError(message(rule, facts, fix="Compute the mask from the array itself."))
    return [_Point(axis + i, _int32(found), True) for i, found in enumerate(values.nonzero())]


def _static_points(x: ShapedArray, index: Any, axis: int, checked: bool, wraps: bool) -> _Point:
    n = x.shape[axis]
    index = index.astype(np.int64)
    outside = (index < -n) | (index >= n)
    if outside.any():
        if checked or not n:
            raise _out_of_range(x, axis, int(index[outside].flat[0]))
        index = index.clip(-(n + 1), n) if wraps else index
    return _Point(axis, _int32(np.where(index < 0, index + n, index) if wraps else index), not outside.any())


def _int32(index: Any) -> Any:
    """Static indices in 32 bits where they fit, whatever the machine's default."""
    return index.astype(np.int32 if not index.size or np.abs(index).max() < 2**31 else np.int64)


def _wrapped_array(index: Any, length: int) -> Any:
    """An array of integers that count from the end, where negative, counted from the front."""
    if type(index) is ConcreteArray and index._value is not None and index.size <= NUMPY_MAX_ELEMENTS:
        found = np.asarray(index._value)
        if found.dtype.itemsize < 4:
            found = found.astype(np.int32)
        return (
            found if found.dtype.kind == "u" else np.where(found < 0, found + found.dtype.type(length), found)
        )
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


def _not_an_index(item: Any) -> TypeError:
    what = (
        str(aval_of(item))
        if isinstance(item, Array | np.ndarray)
        else f"{item!r:.100} of type {type(item).__name__}"
    )
    return TypeError(
        message(
            "An index is made of integers, slices, Ellipsis, None, and arrays of integers or booleans.",
            f"got: {what}",
            fix="Cast an array to integers (x.astype('int32')); use a field's position instead of its name.",
        )
    )


def _lift_scalar_masks(x: Any, items: list[Any]) -> tuple[Any, list[Any]]:
    """A mask without axes selects all or nothing of a new axis: make that axis, and index it by integers."""
    positions = [
        i
        for i, item in enumerate(items)
        if _is_mask(item) and item.ndim == 0 and known_value(item) is not None
    ]
    if not positions:
        return x, items
    dots = next((i for i, item in enumerate(items) if item is Ellipsis), None)
    for i in positions:
        if dots is not None and i > dots:
            axis = aval_of(x).ndim - sum(map(_consumes, items[i:]))
        else:
            axis = sum(map(_consumes, items[:i]))
        shape = aval_of(x).shape
        x = reshape(x, (*shape[:axis], 1, *shape[axis:]))
        items = [*items[:i], np.zeros(int(bool(known_value(items[i]))), np.int32), *items[i + 1 :]]
    return x, items


# --- Where the result's axes come from ----------------------------------------------------------------------


class _Layout(NamedTuple):
    """The axes of an indexed array, new ones aside; a label is None for an axis of the index arrays."""

    labels: tuple[int | None, ...]
    shape: tuple[int, ...]
    final_shape: tuple[int, ...]  # with new axes
    flipped: tuple[int, ...]


def _layout(entries: Sequence[_Entry]) -> _Layout:
    points = [i for i, e in enumerate(entries) if type(e) is _Point]
    shape = _broadcast([e for e in entries if type(e) is _Point])
    together = not shape or points[-1] - points[0] == len(points) - 1
    first = (points[0] if together else 0) if shape else None
    axes: list[tuple[int | None, int, bool] | None] = []  # label, length, flipped; None for a new axis
    for i, e in enumerate(entries):
        if i == first:
            axes += [(None, n, False) for n in shape]
        if type(e) is _Span:
            axes.append((e.axis, e.size, e.flipped))
        elif type(e) is _New:
            axes.append(None)
    old = [axis for axis in axes if axis is not None]
    return _Layout(
        tuple([label for label, _, _ in old]),
        tuple([n for _, n, _ in old]),
        tuple([1 if axis is None else axis[1] for axis in axes]),
        tuple([i for i, (_, _, flipped) in enumerate(old) if flipped]),
    )


def _broadcast(points: Sequence[_Point]) -> tuple[int, ...]:
    shapes = [p.position.shape for p in points if p.ndim]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError(
            message(
                "Index arrays are broadcast to one shape.",
                f"shapes: {', '.join(map(str, shapes))}",
                fix="Reshape them, or use didax.numpy.ix_ for their outer product.",
            )
        ) from None


class _Windows(NamedTuple):
    """An index in the terms of gather and scatter."""

    indices: Any
    dimension_numbers: GatherDimensionNumbers
    slice_sizes: tuple[int, ...]


def _windows(x: ShapedArray, entries: Sequence[_Entry], layout: _Layout) -> _Windows:
    """Points and spaced spans become columns of indices; other spans become the window."""
    steps = {e.axis: e.step for e in entries if type(e) is _Span}
    batch = [i for i, label in enumerate(layout.labels) if label is None or steps[label] != 1]
    batch_shape = tuple([layout.shape[i] for i in batch])
    point_axes = [j for j, i in enumerate(batch) if layout.labels[i] is None]
    columns: dict[int, Any] = {}
    sizes, collapsed = list(x.shape), []
    for e in entries:
        if type(e) is _Point:
            columns[e.axis] = _placed(e.position, point_axes[len(point_axes) - e.ndim :], batch_shape)
        elif type(e) is _Span and e.step != 1:
            ramp = np.arange(e.start, e.start + e.size * e.step, e.step, dtype=np.int32)
            columns[e.axis] = _placed(ramp, [batch.index(layout.labels.index(e.axis))], batch_shape)
        elif type(e) is _Span and e.size != x.shape[e.axis]:
            columns[e.axis], sizes[e.axis] = _placed(e.start, [], batch_shape), e.size
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
    return _Windows(_stacked(list(columns.values()), batch_shape), dims, tuple(sizes))


def _placed(index: Any, axes: Sequence[int], shape: tuple[int, ...]) -> Any:
    """An index broadcast so that its axes lie at `axes` of the batch."""
    if isinstance(index, Array):
        kept = [(n, i) for n, i in zip(index.shape, axes, strict=True) if n == shape[i]]  # the others repeat
        return broadcast_in_dim(
            reshape(index, tuple([n for n, _ in kept])), shape, tuple([i for _, i in kept])
        )
    index = np.asarray(index, None if isinstance(index, np.ndarray) else np.int32)
    lengths = [1] * len(shape)
    for n, i in zip(index.shape, axes, strict=True):
        lengths[i] = n
    return np.broadcast_to(index.reshape(lengths), shape)


def _stacked(columns: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Columns of indices side by side on a last axis."""
    if not columns:
        return np.zeros((*shape, 0), np.int32)
    if not any(isinstance(c, Array) for c in columns):
        return np.stack(columns, -1)
    return concatenate([reshape(c, (*shape, 1)) for c in of_one_dtype(list(columns))], len(shape))


# --- Static windows -----------------------------------------------------------------------------------------


class _StaticWindow(NamedTuple):
    """An index of integers, slices, Ellipsis and None in the terms of slice."""

    starts: tuple[int, ...]
    limits: tuple[int, ...]
    steps: tuple[int, ...] | None  # None: all 1
    sizes: tuple[int, ...]
    layout: _Layout


_BOUNDS = frozenset({int, type(None)})
_PLAIN = frozenset({int, type(None), type(Ellipsis)})


def _static_key(index: Any) -> tuple[Any, ...] | None:
    """An index without arrays as a hashable key: slices as tuples; None where it is anything else."""
    key: list[Any] = []
    for item in index if type(index) is tuple else (index,):
        if type(item) is slice:
            item = (item.start, item.stop, item.step)
            if not _BOUNDS.issuperset(map(type, item)):
                return None
        elif type(item) not in _PLAIN:
            return None
        key.append(item)
    return tuple(key)


@functools.lru_cache(maxsize=1 << 14)
def _static_window(x: ShapedArray, key: tuple[Any, ...]) -> _StaticWindow:
    """The window for a static index of an array of that type; IndexError where it is out of range."""
    entries = _parse(x, [slice(*item) if type(item) is tuple else item for item in key], checked=True)
    starts, limits, steps = _bounds([e for e in entries if type(e) is not _New], x.shape)
    sizes = [-(-(j - i) // k) for i, j, k in zip(starts, limits, steps, strict=True)]
    return _StaticWindow(
        starts, limits, steps if any(k != 1 for k in steps) else None, tuple(sizes), _layout(entries)
    )


def _bounds(axes: Sequence[_Entry], shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Starts, limits and steps; all of an axis where the position along it is not static."""
    bounds = [_axis_bounds(e, n) for e, n in zip(axes, shape, strict=True)]
    return tuple([tuple([bound[i] for bound in bounds]) for i in range(3)])


def _axis_bounds(e: _Entry, length: int) -> tuple[int, int, int]:
    if isinstance(e, _Span):
        return e.start, e.start + max((e.size - 1) * e.step + 1, 0), e.step
    if isinstance(e, _Point) and e.static and e.ndim == 0:
        i = int(e.position)
        return i, i + 1, 1
    return 0, length, 1


def _take_spans(x: Array, entries: Sequence[_Entry]) -> tuple[Array, list[_Entry]]:
    """Take the spans first; afterwards each is all of its axis."""
    axes = [_Span(e.axis, 0, n) if type(e) is _Point else e for e, n in _per_axis(entries, x.shape)]
    x = slice_(x, *_bounds(axes, x.shape))
    return x, [_Span(e.axis, 0, e.size, 1, e.flipped) if type(e) is _Span else e for e in entries]


def _per_axis(entries: Sequence[_Entry], shape: tuple[int, ...]) -> list[tuple[Any, int]]:
    return list(zip([e for e in entries if type(e) is not _New], shape, strict=True))


# --- Reading ------------------------------------------------------------------------------------------------


def getitem(x: ArrayLike, index: Any) -> Array:
    """`x[index]` as in NumPy; a copy, never a view.

    A static index out of range raises IndexError; traced integers and arrays are moved inside. TypeError for
    a float, NonConcreteBooleanIndexError for a traced mask.

    >>> import didax.numpy as dnp
    >>> x = dnp.arange(12).reshape(3, 4)
    >>> getitem(x, (slice(None, None, -1), 1))
    Array([9, 5, 1], dtype=int32)
    >>> getitem(x, (dnp.array([0, 2]), slice(1, 3)))
    Array([[ 1,  2],
           [ 9, 10]], dtype=int32)
    """
    x = as_array("indexing", x)
    key = _static_key(index)
    return _get(x, index) if key is None else _take_static(x, _static_window(x.aval, key))


def _get(
    x: Array,
    index: Any,
    mode: GatherScatterMode | None = None,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    wraps: bool = True,
) -> Array:
    x, items = _lift_scalar_masks(x, _items(index))
    entries = _parse(x.aval, items, mode is None, wraps)
    fills = mode is _DROP and not all(e.static for e in entries if type(e) is _Point)
    layout = _layout(entries)
    if 0 in layout.shape:
        return _as_array(full(layout.final_shape, 0, x.dtype))
    if not fills and all(e.ndim == 0 for e in entries if type(e) is _Point):
        taken = _take_dynamic(x, entries)
    else:
        x, entries = _take_spans(x, entries)
        windows = _windows(x.aval, entries, layout)
        static = all(e.static for e in entries if type(e) is _Point)
        taken = gather_p.bind(
            x,
            windows.indices,
            dimension_numbers=windows.dimension_numbers,
            slice_sizes=windows.slice_sizes,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=_PROMISE if static else mode or _CLIP,
            fill_value=fill_value,
        )
    return reshape(rev(reshape(taken, layout.shape), layout.flipped), layout.final_shape)


def _take_static(x: Array, window: _StaticWindow) -> Any:
    """The elements of a static window, in its final shape."""
    if (
        window.steps is None
        and type(x) is ConcreteArray
        and x.size > NUMPY_MAX_ELEMENTS
        and x.shape != window.sizes
    ):
        # evaluated by XLA: one program for every position
        taken = dynamic_slice_p.bind(x, *window.starts, slice_sizes=window.sizes)
    else:
        taken = slice_(x, window.starts, window.limits, window.steps)
    if not window.layout.flipped:
        return reshape(taken, window.layout.final_shape)
    return reshape(rev(reshape(taken, window.layout.shape), window.layout.flipped), window.layout.final_shape)


def _take_dynamic(x: Array, entries: Sequence[_Entry]) -> Any:
    """Spans and integers, some of them not static: a slice, then a dynamic_slice of length 1 along these."""
    axes = [e for e, _ in _per_axis(entries, x.shape)]
    x = slice_(x, *_bounds(axes, x.shape))
    positions: list[Any] = [0] * x.ndim
    sizes = list(x.shape)
    for e in axes:
        if type(e) is _Point and not e.static:
            positions[e.axis], sizes[e.axis] = _scalar(e.position), 1
    return dynamic_slice_p.bind(x, *of_one_dtype(positions), slice_sizes=tuple(sizes))


def _scalar(index: Any) -> Any:
    return index if type(index) is int or isinstance(index, Array) else index[()]


# --- Writing ------------------------------------------------------------------------------------------------


class _Update(NamedTuple):
    """How an update meets what is there: as a function of arrays, and as a scatter."""

    combine: Callable[[Any, Any], Any]
    scatter: Scatter
    scatter_bool: Scatter | None = None  # booleans are or-ed and and-ed


_UPDATES = {
    "set": _Update(lambda old, new: new, scatter_p),
    "add": _Update(ufuncs.add, scatter_add_p, scatter_max_p),
    "subtract": _Update(ufuncs.subtract, scatter_sub_p),
    "multiply": _Update(ufuncs.multiply, scatter_mul_p, scatter_min_p),
    "min": _Update(ufuncs.minimum, scatter_min_p),
    "max": _Update(ufuncs.maximum, scatter_max_p),
}


class _Options(NamedTuple):
    """Keyword arguments that all updates take."""

    indices_are_sorted: bool
    unique_indices: bool
    mode: GatherScatterMode | None
    wraps: bool


def _update(x: Array, index: Any, kind: str, values: Any, options: _Options) -> Array:
    update = _UPDATES[kind]
    values = checked_operand(f"x.at[...].{kind}", values, "values")
    key = _static_key(index) if options.mode is None and options.wraps else None
    window = None if key is None else _static_window(x.aval, key)
    if window is not None and window.steps is None:
        return _write_window(x, window, update, kind, values)
    if _is_traced_mask(index) and aval_of(values).ndim == 0 and index.shape == x.shape[: index.ndim]:
        mask = broadcast_in_dim(index, x.shape, tuple(range(index.ndim)))
        return where(mask, _fitted(update.combine(x, values), x.aval, x.shape, kind), x)
    shape = x.shape
    x, items = _lift_scalar_masks(x, _items(index))
    return reshape(
        _scatter(
            x, _parse(x.aval, items, options.mode is None, options.wraps), update, kind, values, options
        ),
        shape,
    )


def _is_traced_mask(index: Any) -> bool:
    return isinstance(index, Tracer) and index.dtype == np.bool_ and index.known() is None


def _write_window(x: Array, window: _StaticWindow, update: _Update, kind: str, values: Any) -> Array:
    """A window at a static place: read it, compute, write it."""
    if 0 in window.sizes:
        return x
    if kind != "set":
        values = update.combine(_take_static(x, window), values)
    new = _unflipped(_fitted(values, x.aval, window.layout.final_shape, kind), window.layout)
    return dynamic_update_slice_p.bind(x, reshape(new, window.sizes), *window.starts)


def _scatter(
    x: Array, entries: Sequence[_Entry], update: _Update, kind: str, values: Any, options: _Options
) -> Array:
    layout = _layout(entries)
    if 0 in layout.shape:
        return x
    dtype, weak = x.aval.dtype, x.aval.weak_type
    operand: Any = x
    if kind != "set":  # compute in the dtype that both fit into
        wide, _ = dtypes.result_type((dtype, weak), (aval_of(values).dtype, aval_of(values).weak_type))
        if wide != dtype:
            _warn_if_unsafe(kind, aval_of(values), x.aval)
            operand = cast(x, wide)
    windows = _windows(x.aval, entries, layout)
    static = all(e.static for e in entries if type(e) is _Point)
    ordered = static and all(e.ndim == 0 for e in entries if type(e) is _Point)  # spaced spans only
    primitive = (
        update.scatter_bool if dtype == np.bool_ and update.scatter_bool is not None else update.scatter
    )
    out = primitive.bind(
        operand,
        windows.indices,
        _unflipped(_fitted(values, operand.aval, layout.final_shape, kind), layout),
        dimension_numbers=ScatterDimensionNumbers(*windows.dimension_numbers),
        indices_are_sorted=options.indices_are_sorted or ordered,
        unique_indices=options.unique_indices or ordered,
        mode=_PROMISE if static else options.mode or _DROP,
    )
    return out if operand is x else cast(out, dtype, weak)


def _unflipped(values: Any, layout: _Layout) -> Any:
    """Values as they are laid out in the array: without new axes, and reversed ones turned back."""
    return rev(reshape(values, layout.shape), layout.flipped)


def _fitted(values: Any, x: ShapedArray, shape: tuple[int, ...], kind: str) -> Any:
    """Values in the array's dtype, broadcast to the indexed shape."""
    aval = aval_of(values)
    if aval.dtype != x.dtype or aval.weak_type != x.weak_type:
        _warn_if_unsafe(kind, aval, x)
        python = type(values) in PYTHON_SCALARS
        values = scalar(values, x.dtype, x.weak_type) if python else cast(values, x.dtype, x.weak_type)
    lead = aval.ndim - len(shape)
    inner = aval.shape[max(lead, 0) :]
    offset = len(shape) - len(inner)
    if any(n != 1 for n in aval.shape[: max(lead, 0)]) or any(
        n not in (1, shape[offset + i]) for i, n in enumerate(inner)
    ):
        rule = f"The values of x.at[...].{kind} are broadcast to the shape of x[...]."
        raise ValueError(
            message(rule, f"values: {aval}, x[...] has shape {shape}, x: {x}", fix="Reshape the values.")
        )
    return broadcast_in_dim(reshape(values, inner), shape, tuple(range(offset, len(shape))))


def _warn_if_unsafe(kind: str, values: ShapedArray, x: ShapedArray) -> None:
    """Warn of the loss of fractions or imaginary parts; narrower numbers are what the array asks for."""
    order = "biufc"
    ranks = [order.index(dtypes.kind_of(aval.dtype).replace("u", "i")) for aval in (x, values)]
    if ranks[1] > ranks[0]:
        warnings.warn(
            message(
                f"x.at[...].{kind} casts its values to the array's dtype, which loses part of them.",
                f"values: {values}, x: {x}",
                fix="Cast the values (values.astype(x.dtype)) or the array.",
            ),
            FutureWarning,
            stacklevel=5,
        )


class _IndexUpdateHelper:
    """`x.at`: index it to say which elements are meant."""

    __slots__ = ("array",)

    def __init__(self, array: Array):
        self.array = array

    def __getitem__(self, index: Any) -> _IndexUpdateRef:
        return _IndexUpdateRef(self.array, index)

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


class _IndexUpdateRef:
    """`x.at[index]`: elements of an array, to be read or replaced in a copy.

    All methods take `mode` ("drop" or "fill", "clip", "promise_in_bounds": what becomes of indices out of
    bounds), `indices_are_sorted` and `unique_indices` (promises that XLA may use), and
    `wrap_negative_indices`.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index: Any):
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
        fill_value: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """`x[index]`, with a choice of what an index out of bounds reads: `fill_value` where mode is "fill".

        >>> import didax.numpy as dnp
        >>> at(dnp.array([1., 2.]))[dnp.array([1, 5])].get(mode="fill", fill_value=-1)
        Array([ 2., -1.], dtype=float32)
        """
        if fill_value is not None:
            fill_value = np.asarray(fill_value).item()
            fill_value = None if fill_value != fill_value else fill_value
        chosen = None if mode is None else GatherScatterMode.from_any(mode)
        return _get(
            self.array,
            self.index,
            chosen,
            fill_value,
            indices_are_sorted,
            unique_indices,
            wrap_negative_indices,
        )

    def divide(self, values: ArrayLike, **options: Any) -> Array:
        """The array with `x[index] /= values`; integers become floats.

        >>> import didax.numpy as dnp
        >>> at(dnp.array([1., 2.]))[1].divide(4.)
        Array([1. , 0.5], dtype=float32)
        """
        x = self.array
        ones = full(x.shape, 1, ufuncs.divide(x.dtype.type(1), x.dtype.type(1)).dtype)
        return ufuncs.divide(x, _IndexUpdateRef(_as_array(ones), self.index).multiply(values, **options))

    def power(self, values: ArrayLike, **options: Any) -> Array:
        """The array with `x[index] **= values`.

        >>> import didax.numpy as dnp
        >>> at(dnp.array([1., 2.]))[1].power(3)
        Array([1., 8.], dtype=float32)
        """
        ones = _as_array(full(self.array.shape, 1, self.array.dtype))
        return ufuncs.power(self.array, _IndexUpdateRef(ones, self.index).multiply(values, **options))

    def apply(self, func: Callable[[Array], ArrayLike], **options: Any) -> Array:
        """The array with `x[index] = func(x[index])`: applied once, also where indices repeat.

        >>> import didax.numpy as dnp
        >>> at(dnp.array([1., 4.]))[1].apply(dnp.sqrt)
        Array([1., 2.], dtype=float32)
        """
        return self.set(func(self.get(**options)), **options)

    def _change(
        self,
        kind: str,
        values: ArrayLike,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        chosen = None if mode is None else GatherScatterMode.from_any(mode)
        options = _Options(bool(indices_are_sorted), bool(unique_indices), chosen, wrap_negative_indices)
        return _update(self.array, self.index, kind, values, options)

    def set(self, values: ArrayLike, **options: Any) -> Array:
        """The array with `x[index] = values`; where indices repeat, the last value stays.

        >>> import didax.numpy as dnp
        >>> at(dnp.zeros(3))[1].set(5.)
        Array([0., 5., 0.], dtype=float32)
        """
        return self._change("set", values, **options)

    def add(self, values: ArrayLike, **options: Any) -> Array:
        """The array with `x[index] += values`, repeatedly where indices repeat.

        >>> import didax.numpy as dnp
        >>> at(dnp.zeros(3))[dnp.array([0, 0, 2])].add(1.)
        Array([2., 0., 1.], dtype=float32)
        """
        return self._change("add", values, **options)

    def subtract(self, values: ArrayLike, **options: Any) -> Array:
        """The array with `x[index] -= values`.

        >>> import didax.numpy as dnp
        >>> at(dnp.zeros(2))[0].subtract(1.)
        Array([-1.,  0.], dtype=float32)
        """
        return self._change("subtract", values, **options)

    def multiply(self, values: ArrayLike, **options: Any) -> Array:
        """The array with `x[index] *= values`.

        >>> import didax.numpy as dnp
        >>> at(dnp.ones(2))[0].multiply(3.)
        Array([3., 1.], dtype=float32)
        """
        return self._change("multiply", values, **options)

    mul = multiply

    def min(self, values: ArrayLike, **options: Any) -> Array:
        """The array with `x[index] = minimum(x[index], values)`.

        >>> import didax.numpy as dnp
        >>> at(dnp.ones(2))[0].min(0.)
        Array([0., 1.], dtype=float32)
        """
        return self._change("min", values, **options)

    def max(self, values: ArrayLike, **options: Any) -> Array:
        """The array with `x[index] = maximum(x[index], values)`.

        >>> import didax.numpy as dnp
        >>> at(dnp.ones(2))[0].max(2.)
        Array([2., 1.], dtype=float32)
        """
        return self._change("max", values, **options)


def _as_array(x: Any) -> Array:
    return as_array("indexing", x)


def at(x: ArrayLike) -> _IndexUpdateHelper:
    """`x.at`: index it, then `set`, `add`, ... for a copy of `x` with these elements changed.

    >>> import didax.numpy as dnp
    >>> dnp.arange(4).at[1:3].set(7)
    Array([0, 7, 7, 3], dtype=int32)
    """
    return _IndexUpdateHelper(as_array("indexing", x))
