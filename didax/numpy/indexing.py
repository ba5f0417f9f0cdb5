"""NumPy's indexing: `x[index]`, and `x.at[index].set(...)` for what NumPy writes as `x[index] = ...`.

    getitem(x, index)            every index of NumPy: integers, slices, ..., None, masks, integer arrays
    at(x)[index].add(values)     the array with elements changed; repeated indices count repeatedly

An index is parsed into one entry per axis (`Span`, `Point`, `New`). An index of spans and static integers is
a slice; with a traced integer it is a dynamic_slice; with integer arrays it is a gather. An update of one
static window reads the window, computes, and writes it back; every other update is a scatter, and so are sums
and products whose values have the array's dtype. A static index out of range raises IndexError. Traced
integers and arrays cannot raise: a read moves them inside the array, a write drops them, and `mode` chooses
otherwise. NumPy itself does the work for a small array outside of any transformation, with an index in range.
Read next: `index_parsing.py`, `primitives/slicing.py`, `primitives/gather.py`.
"""

from __future__ import annotations

import functools
import operator
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from didax.api.results import array_function
from didax.core import config, dtypes
from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.device_types import loosened
from didax.core.dims import as_length, is_symbolic, max_dim
from didax.core.errors import api_boundary, message
from didax.core.missing_names import AdvisingAttributeError
from didax.core.source import is_internal
from didax.core.tracing import Tracer
from didax.core.value import Array
from didax.lax.slicing import Mode, of_one_dtype
from didax.numpy import ufuncs
from didax.numpy.creation import asarray, is_foreign_array
from didax.numpy.index_parsing import (
    Entry,
    Layout,
    New,
    Point,
    Span,
    items_of,
    layout_of,
    lift_scalar_masks,
    parse,
    scalar_of,
    windows_of,
    wrapped_items,
)
from didax.numpy.promotion import ArrayLike, as_array, as_operand, cast, checked_operand, scalar
from didax.primitives.dimension import number
from didax.primitives.filled import full
from didax.primitives.gather import (
    Scatter,
    gather_p,
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, reshape
from didax.primitives.slicing import dynamic_slice_p, dynamic_update_slice_p, rev, slice_, slice_axis
from didax.primitives.window_positions import GatherScatterMode, ScatterDimensionNumbers
from didax.runtime.array import ConcreteArray
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS, evaluates_with_numpy

__all__ = ["at", "getitem"]

_CLIP, _DROP = GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP
_PROMISE = GatherScatterMode.PROMISE_IN_BOUNDS


# --- Static windows -----------------------------------------------------------------------------------------


class _StaticWindow(NamedTuple):
    """An index of integers, slices, Ellipsis and None in the terms of slice."""

    starts: tuple[int, ...]
    limits: tuple[int, ...]
    steps: tuple[int, ...] | None  # None: all steps are 1
    sizes: tuple[int, ...]
    layout: Layout


_BOUNDS = frozenset({int, type(None)})
_PLAIN = frozenset({int, type(None), type(Ellipsis)})


def _static_key(index: Any) -> tuple[Any, ...] | None:
    """Return an index without arrays as a hashable key, with slices as tuples; None for any other index."""
    key: list[Any] = []
    for item in index if type(index) is tuple else (index,):
        if type(item) is slice:
            item = (item.start, item.stop, item.step)
            if not _BOUNDS.issuperset(map(type, item)):
                return None
        elif isinstance(item, np.integer):
            item = int(item)
        elif type(item) not in _PLAIN:
            return None
        key.append(item)
    return tuple(key)


@functools.lru_cache(maxsize=1 << 14)
def _static_window(x: ShapedArray, key: tuple[Any, ...]) -> _StaticWindow | None:
    """Return the window of a static index into an array of type `x`; IndexError where it is out of range.

    None where a symbolic length does not say whether it is.
    """
    entries = parse(x, [slice(*item) if type(item) is tuple else item for item in key], checked=True)
    if any([isinstance(e, Point) and isinstance(e.position, Array) for e in entries]):
        return None
    starts, limits, steps = _bounds([e for e in entries if type(e) is not New], x.shape)
    sizes = [-(-(j - i) // k) for i, j, k in zip(starts, limits, steps, strict=True)]
    return _StaticWindow(
        starts, limits, steps if any(k != 1 for k in steps) else None, tuple(sizes), layout_of(entries)
    )


def _window_within(x: ShapedArray, key: tuple[Any, ...]) -> _StaticWindow | None:
    """Return `_static_window`; None where a position is out of range, but is to be treated as a traced one."""
    try:
        return _static_window(x, key)
    except IndexError:
        if _raises_out_of_range(None):
            raise
        return None


def _raises_out_of_range(mode: Any) -> bool:
    """Whether a static position out of range is an error; in JAX it is moved or dropped, as a traced one is."""
    return mode is None and not config.state().as_in_jax


def _bounds(axes: Sequence[Entry], shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return starts, limits and steps; an axis whose position is not static is taken whole."""
    bounds = [_axis_bounds(e, n) for e, n in zip(axes, shape, strict=True)]
    return tuple([tuple([bound[i] for bound in bounds]) for i in range(3)])


def _axis_bounds(e: Entry, length: int) -> tuple[int, int, int]:
    if isinstance(e, Span) and e.static:
        return e.start, e.start + max_dim((e.size - 1) * e.step + 1, 0), e.step
    if isinstance(e, Point) and e.static and e.ndim == 0:
        i = as_length(e.position)
        return i, i + 1, 1
    return 0, length, 1


def _take_spans(x: Array, entries: Sequence[Entry]) -> tuple[Array, list[Entry]]:
    """Slice the array to its spans; return the slice and the entries, in which each span is now a whole axis."""
    axes = [Span(e.axis, 0, n) if type(e) is Point else e for e, n in _per_axis(entries, x.shape)]
    x = slice_(x, *_bounds(axes, x.shape))
    return x, [
        Span(e.axis, 0, e.size, 1, e.flipped) if isinstance(e, Span) and e.static else e for e in entries
    ]


def _per_axis(entries: Sequence[Entry], shape: tuple[int, ...]) -> list[tuple[Any, int]]:
    return list(zip([e for e in entries if type(e) is not New], shape, strict=True))


class _Options(NamedTuple):
    """The keyword arguments that all updates take."""

    indices_are_sorted: bool = False
    unique_indices: bool = False
    mode: GatherScatterMode | None = None
    wraps: bool = True
    wraps_around: bool = False  # mode "wrap": positions out of range are taken modulo the length

    @staticmethod
    def of(
        indices_are_sorted: bool, unique_indices: bool, mode: Mode, wrap_negative_indices: bool
    ) -> _Options:
        promises = bool(indices_are_sorted), bool(unique_indices)
        if mode == "wrap":
            return _Options(*promises, _PROMISE, wraps=True, wraps_around=True)
        chosen = None if mode is None else GatherScatterMode.from_any(mode)
        return _Options(*promises, chosen, bool(wrap_negative_indices))

    def items(self, x: ShapedArray, items: list[Any]) -> list[Any]:
        """Return the items of an index into an array of type `x`, changed as the mode asks."""
        return wrapped_items(x, items) if self.wraps_around else items


# --- Reading ------------------------------------------------------------------------------------------------


def fill_parameter(fill_value: Any) -> Any:
    """A fill value as the parameter of a gather: a number of Python's; None for NaN, which is not equal to itself."""
    number = None if fill_value is None else np.asarray(fill_value).item()
    return None if number != number else number


@array_function
def getitem(x: ArrayLike, index: Any) -> Array:
    """Return `x[index]` as in NumPy, always as a copy.

    A static index out of range raises IndexError; traced integers and arrays are moved inside the array.
    TypeError for a float, NonConcreteBooleanIndexError for a traced mask.

    >>> import didax.numpy as dnp
    >>> x = dnp.arange(12).reshape(3, 4)
    >>> getitem(x, (slice(None, None, -1), 1))
    Array([9, 5, 1], dtype=int32)
    >>> getitem(x, (dnp.array([0, 2]), slice(1, 3)))
    Array([[ 1,  2],
           [ 9, 10]], dtype=int32)
    """
    x = as_array("indexing", x)
    found = _read_with_numpy(x, index) if evaluates_with_numpy(x) else None
    return _read(x, index) if found is None else found


def _read(x: Array, index: Any) -> Array:
    key = _static_key(index)
    window = None if key is None else _window_within(x.aval, key)
    return _get(x, index, _Options()) if window is None else _take_static(x, window)


def _read_with_numpy(x: Any, index: Any) -> Array | None:
    """Return `x[index]` computed by NumPy; None where NumPy refuses the index, or would not check its positions.

    NumPy does not check the positions where the result is empty.
    """
    items = _numpy_index(index)
    if items is None:
        return None
    try:
        value = x.host_value()[items]
    except (IndexError, TypeError, ValueError):
        return None
    return (
        ConcreteArray(ShapedArray(value.shape, x.aval.dtype, x.aval.weak_type), value) if value.size else None
    )


_SAME_IN_NUMPY = frozenset({int, bool, slice, type(None), type(Ellipsis)})


def _numpy_index(index: Any) -> tuple[Any, ...] | None:
    """Return the items of an index for NumPy; None where an item is traced or means something else to NumPy."""
    items: list[Any] = []
    for item in index if type(index) is tuple else (index,):
        if type(item) is ConcreteArray:
            item = item.host_value()
        if type(item) not in _SAME_IN_NUMPY and not _is_numpy_integers(item):
            return None
        items.append(item)
    return tuple(items)


def _is_numpy_integers(item: Any) -> bool:
    """Whether this is a mask or an array of integers other than uint64, whose large values NumPy makes negative."""
    if type(item) is not np.ndarray and not isinstance(item, np.generic):
        return False  # a masked array is refused elsewhere
    kind = item.dtype.kind
    return kind in "ib" or (kind == "u" and item.itemsize < 8)


def _get(x: Array, index: Any, options: _Options, fill_value: Any = None) -> Array:
    x, items = lift_scalar_masks(x, items_of(index))
    mode = options.mode
    entries = parse(x.aval, options.items(x.aval, items), _raises_out_of_range(mode), options.wraps)
    fills = mode is _DROP and not all(e.static for e in entries if type(e) is Point)
    layout = layout_of(entries)
    if 0 in layout.shape:
        return reshape(slice_axis(x, 0, 0, 0), layout.final_shape)
    if not fills and not any(map(_needs_gather, entries)):
        taken = _take_dynamic(x, entries)
    else:
        x, entries = _take_spans(x, entries)
        windows = windows_of(x.aval, entries, layout)
        static = all(e.static for e in entries if type(e) is Point)
        taken = gather_p.bind(
            x,
            windows.indices,
            dimension_numbers=windows.dimension_numbers,
            slice_sizes=windows.slice_sizes,
            indices_are_sorted=options.indices_are_sorted,
            unique_indices=options.unique_indices,
            mode=_PROMISE if static else mode or _CLIP,
            fill_value=fill_value,
        )
    return reshape(rev(reshape(taken, layout.shape), layout.flipped), layout.final_shape)


def _needs_gather(e: Entry) -> bool:
    if isinstance(e, Span):
        return not e.static and e.step != 1
    return isinstance(e, Point) and e.ndim > 0


def _take_static(x: Array, window: _StaticWindow) -> Any:
    """Return the elements of a static window, in their final shape."""
    if (
        window.steps is None
        and type(x) is ConcreteArray
        and x.size > NUMPY_MAX_ELEMENTS
        and x.shape != window.sizes
    ):
        # XLA evaluates it: one compiled program serves every position
        taken = dynamic_slice_p.bind(x, *_starts(window), slice_sizes=window.sizes)
    else:
        taken = slice_(x, window.starts, window.limits, window.steps)
    if not window.layout.flipped:
        return reshape(taken, window.layout.final_shape)
    return reshape(rev(reshape(taken, window.layout.shape), window.layout.flipped), window.layout.final_shape)


def _take_dynamic(x: Array, entries: Sequence[Entry]) -> Any:
    """Read spans and integers, some of them traced: first a slice, then a dynamic_slice of length 1."""
    axes = [e for e, _ in _per_axis(entries, x.shape)]
    x = slice_(x, *_bounds(axes, x.shape))
    positions: list[Any] = [0] * x.ndim
    sizes = list(x.shape)
    for e in axes:
        if type(e) is Point and not e.static:
            positions[e.axis], sizes[e.axis] = scalar_of(e.position), 1
        elif type(e) is Span and not e.static:
            positions[e.axis], sizes[e.axis] = e.start, e.size
    if sizes == list(x.shape):
        return x
    return dynamic_slice_p.bind(x, *of_one_dtype(positions), slice_sizes=tuple(sizes))


# --- Writing ------------------------------------------------------------------------------------------------


class _Update(NamedTuple):
    """How an update combines new values with old ones: as a function of arrays, and as a scatter."""

    combine: Callable[[Any, Any], Any]
    scatter: Scatter
    scatter_bool: Scatter | None = None  # for booleans, which are or-ed and and-ed


_UPDATES = {
    "set": _Update(lambda old, new: new, scatter_p),
    "add": _Update(ufuncs.add, scatter_add_p, scatter_max_p),
    "subtract": _Update(ufuncs.subtract, scatter_sub_p),
    "multiply": _Update(ufuncs.multiply, scatter_mul_p, scatter_min_p),
    "min": _Update(ufuncs.minimum, scatter_min_p),
    "max": _Update(ufuncs.maximum, scatter_max_p),
}
_UPDATES |= {"divide": _UPDATES["multiply"], "power": _UPDATES["multiply"]}  # of ones: _updated_ones


def _update(x: Array, index: Any, kind: str, values: Any, options: _Options) -> Array:
    plain = options.mode is None and options.wraps
    if plain and evaluates_with_numpy(x):
        found = _write_with_numpy(x, index, kind, values)
        if found is not None:
            return found
    values = _checked_values(kind, values, x.aval)
    key = _static_key(index) if plain else None
    window = None if key is None else _window_within(x.aval, key)
    if window is not None and window.steps is None and not _scatters(x.aval, window, kind, values):
        return _write_window(x, window, kind, values)
    if _is_traced_mask(index) and aval_of(values).ndim == 0 and index.shape == x.shape[: index.ndim]:
        mask = broadcast_in_dim(index, x.shape, tuple(range(index.ndim)))
        return where(mask, _fitting_values(_UPDATES[kind].combine(x, values), x.aval, x.shape, kind), x)
    lifted, items = lift_scalar_masks(x, items_of(index))
    checked = _raises_out_of_range(options.mode)
    entries = parse(lifted.aval, options.items(lifted.aval, items), checked, options.wraps, drops=True)
    return reshape(_scatter(lifted, entries, kind, values, options), x.shape)


def _write_with_numpy(x: Any, index: Any, kind: str, values: Any) -> Array | None:
    """Return `_update` computed by NumPy; None where `_read_with_numpy` gives None, or values need another dtype."""
    items, dtype = _numpy_index(index), x.aval.dtype
    if items is None:
        return None
    kind_of_scalar = dtypes.PYTHON_SCALARS.get(type(values))
    if kind_of_scalar is not None and dtypes.KIND_RANKS[kind_of_scalar] <= _kind_rank(dtype):
        new: Any = scalar(values, dtype, False)
    elif getattr(values, "dtype", None) == dtype and (
        type(values) in (ConcreteArray, np.ndarray) or isinstance(values, np.generic)
    ):
        new = values.host_value() if type(values) is ConcreteArray else values
    else:
        return None
    out, ufunc = np.array(x.host_value()), _scatter_of(kind, dtype).ufunc
    try:
        if not out[items].size:
            return None
        if ufunc is None:
            out[items] = new
        else:
            with np.errstate(all="ignore"):
                ufunc.at(out, items, new)
    except (IndexError, TypeError, ValueError):
        return None
    return ConcreteArray(x.aval, out)


def _scatter_of(kind: str, dtype: Any) -> Scatter:
    update = _UPDATES[kind]
    return update.scatter_bool if dtype == np.bool_ and update.scatter_bool else update.scatter


def _kind_rank(dtype: Any) -> int:
    """Rank the kinds of dtypes: booleans, integers, real numbers, complex ones."""
    return dtypes.KIND_RANKS[dtypes.kind_of(dtype)]


def _is_traced_mask(index: Any) -> bool:
    return isinstance(index, Tracer) and index.dtype == np.bool_ and index.known() is None


def _starts(window: _StaticWindow) -> Sequence[Any]:
    """Where a window starts: Python's integers, or int64 where a default one would not hold them."""
    if any(map(is_symbolic, window.starts)):
        return [number(start, dtypes.default_dtype(int)) for start in window.starts]
    if max(window.starts, default=0) < 2**31:
        return window.starts
    return [np.int64(start) for start in window.starts]


def _write_window(x: Array, window: _StaticWindow, kind: str, values: Any) -> Array:
    """Update a window at a static place: read the window, compute, write it back."""
    if 0 in window.sizes:
        return x
    if kind != "set":
        values = _UPDATES[kind].combine(_take_static(x, window), values)
    new = _unflipped(_fitting_values(values, x.aval, window.layout.final_shape, kind), window.layout)
    part = reshape(new, window.sizes)
    if (layout := x.aval.layout) is not None and aval_of(part).layout is None:
        whole = [n == m for n, m in zip(x.aval.shape, window.sizes, strict=True)]
        if all(map(operator.or_, whole, [entry is None for entry in layout.spec])):
            # Along the axes that are split the part is as long as the array.
            part = array_ops.with_layout(part, layout)
    return dynamic_update_slice_p.bind(x, part, *_starts(window))


def _scatters(x: ShapedArray, window: _StaticWindow, kind: str, values: Any) -> bool:
    """Whether a static window is updated by a scatter: then several devices exchange less.

    Derivatives of sums and products are shorter, too: the operand's cotangent of a sum is that of the result.
    """
    if kind == "set" or window.sizes == x.shape or x.dtype == np.bool_:
        return False
    if any([is_symbolic(size) and size != n for size, n in zip(window.sizes, x.shape, strict=True)]):
        return False  # padded programs have no windows of such lengths
    if any([not is_symbolic(n) and n > np.iinfo(np.int32).max for n in x.shape]):  # positions have 32 bits
        return False
    new = aval_of(values)
    return dtypes.result_type((x.dtype, x.weak_type), (new.dtype, new.weak_type))[0] == x.dtype


def _scatter(x: Array, entries: Sequence[Entry], kind: str, values: Any, options: _Options) -> Array:
    layout = layout_of(entries)
    if 0 in layout.shape:
        return x
    dtype, weak = x.aval.dtype, x.aval.weak_type
    operand: Any = x
    if kind != "set":  # compute in the dtype to which both promote
        wide, _ = dtypes.result_type((dtype, weak), (aval_of(values).dtype, aval_of(values).weak_type))
        if wide != dtype:
            _warn_if_unsafe(kind, aval_of(values), x.aval)
            operand = cast(x, wide)
    if 0 in x.aval.shape:  # every write is out of range
        _fitting_values(values, operand.aval, layout.final_shape, kind)
        return x
    windows = windows_of(x.aval, entries, layout)
    static = all(e.static for e in entries if type(e) is Point)
    once = all(e.ndim == 0 for e in entries if type(e) is Point)  # then the positions differ, and increase
    out = _scatter_of(kind, dtype).bind(
        operand,
        windows.indices,
        _unflipped(_fitting_values(values, operand.aval, layout.final_shape, kind), layout),
        dimension_numbers=ScatterDimensionNumbers(*windows.dimension_numbers),
        indices_are_sorted=options.indices_are_sorted or once,
        unique_indices=options.unique_indices or once or (static and _all_differ(windows.indices)),
        mode=_PROMISE if static else options.mode or _DROP,
    )
    return out if operand is x else cast(out, dtype, weak)


def _all_differ(indices: Any) -> bool:
    """Whether no static position repeats: XLA may use this, and derivatives are simpler."""
    if indices.size > NUMPY_MAX_ELEMENTS:  # comparing them would cost more than it saves
        return False
    rows = indices.reshape(-1, indices.shape[-1])
    return len(np.unique(rows, axis=0)) == len(rows)


def _unflipped(values: Any, layout: Layout) -> Any:
    """Return the values as they lie in the array: without new axes, and reversed where the index reverses."""
    return rev(reshape(values, layout.shape), layout.flipped)


def _fitting_values(values: Any, x: ShapedArray, shape: tuple[int, ...], kind: str) -> Any:
    """Return the values in the dtype of the array, broadcast to the indexed shape."""
    aval = aval_of(values)
    if aval.dtype != x.dtype or aval.weak_type != x.weak_type:
        if config.state().numpy_dtype_promotion == "strict":
            dtypes.result_type((x.dtype, x.weak_type), (aval.dtype, aval.weak_type))  # may raise
        _warn_if_unsafe(kind, aval, x)
        python = type(values) in dtypes.PYTHON_SCALARS
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


def _checked_values(kind: str, given: Any, x: ShapedArray) -> Any:
    """Return the values as an operand; TypeError where imaginary parts would be lost, or numbers meet random keys."""
    if isinstance(given, list | tuple) or (as_operand(given) is None and is_foreign_array(given)):
        given = asarray(given)
    operand = checked_operand(f"x.at[...].{kind}", given, "values")
    values = aval_of(operand)
    if dtypes.as_extended(x.dtype) or dtypes.as_extended(values.dtype):
        dtypes.join(values.dtype, False, x.dtype, False)  # raises where the dtypes differ
    elif dtypes.kind_of(values.dtype) == "c" and dtypes.kind_of(x.dtype) != "c":
        rule = f"x.at[...].{kind} keeps the array's dtype, which does not hold complex values."
        fix = "Cast the array (x.astype('complex64')), or take the real part of the values (values.real)."
        raise TypeError(message(rule, f"values: {values}, x: {x}", fix=fix))
    return operand


def _warn_if_unsafe(kind: str, values: ShapedArray, x: ShapedArray) -> None:
    """Warn, at the user's line, where fractions are lost; narrower numbers of one kind give no warning."""
    if _kind_rank(values.dtype) <= _kind_rank(x.dtype):
        return
    frame, level = sys._getframe(), 1
    while is_internal(frame.f_code) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    text = message(
        f"x.at[...].{kind} casts its values to the array's dtype, which loses part of them.",
        f"values: {values}, x: {x}",
        fix="Cast the values (values.astype(x.dtype)) or the array.",
    )
    warnings.warn(text, FutureWarning, stacklevel=level)


class _IndexUpdateHelper:
    """The type of `x.at`: its index says which elements are meant."""

    __slots__ = ("array",)

    def __init__(self, array: Array):
        self.array = array

    def __getitem__(self, index: Any) -> _IndexUpdateRef:
        return _IndexUpdateRef(self.array, index)

    def __call__(self, *args: Any) -> NoReturn:
        facts = f"array: {self.array.aval}, called with: {', '.join([f'{x!r:.50}' for x in args])}"
        fix = "Write x.at[i].set(v), with brackets."
        raise TypeError(message("An index stands in brackets after `at`.", facts, fix=fix))

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise _no_assignment(self.array)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not hasattr(_IndexUpdateRef, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        fix = f"Write x.at[i].{name}(...), with an index in brackets; x.at[...] means all elements."
        rule = "An index stands in brackets after `at`."
        raise AdvisingAttributeError(message(rule, f"array: {self.array.aval}, attribute: {name}", fix=fix))

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


def _no_assignment(array: Array) -> TypeError:
    fix = "Write x = x.at[i].set(v), which gives a changed array (.add, .multiply, .max likewise)."
    return TypeError(
        message("Arrays are immutable: `at` takes no assignment.", f"array: {array.aval}", fix=fix)
    )


def _updater(name: str, summary: str, example: str, result: str) -> Callable[..., Array]:
    """Make the method `x.at[index].<name>`."""

    def method(
        self: _IndexUpdateRef,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        options = _Options.of(indices_are_sorted, unique_indices, mode, wrap_negative_indices)
        if name in _ON_ONES:
            return _updated_ones(self.array, self.index, name, values, options)
        return _update(self.array, self.index, name, values, options)

    method.__name__, method.__qualname__ = name, f"_IndexUpdateRef.{name}"
    method.__doc__ = f"""{summary}

    >>> import didax.numpy as dnp
    >>> {example}
    {result}
    """
    return api_boundary(method)


_ON_ONES = {"divide": ufuncs.divide, "power": ufuncs.power}


def _updated_ones(x: Array, index: Any, name: str, values: Any, options: _Options) -> Array:
    """Return `x / y` or `x ** y`, where y collects the values at the index and is 1 elsewhere."""
    combine = _ON_ONES[name]
    values = _checked_values(name, values, x.aval)
    dtype = aval_of(combine(full((), 1, x.dtype), full((), 1, x.dtype))).dtype
    ones = as_array(name, full(x.shape, 1, dtype))
    return combine(x, _update(ones, index, name, values, options))


class _IndexUpdateRef:
    """The type of `x.at[index]`: elements of an array that can be read, or replaced in a copy of the array.

    All methods take `mode`, which says what becomes of indices out of range ("drop" or "fill", "clip",
    "wrap", "promise_in_bounds"); `indices_are_sorted` and `unique_indices`, which are promises that XLA may
    use; and `wrap_negative_indices`. Updates other than `divide` keep the dtype of the array.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index: Any):
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or name in self.__slots__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        methods = [
            x
            for x in dir(_IndexUpdateRef)
            if not x.startswith("_") and x not in ("array", "index", "loosened")
        ]
        fix = f"Use one of {', '.join(methods)}."
        raise AdvisingAttributeError(
            message(f"x.at[i] has no method {name}.", f"array: {self.array.aval}", fix=fix)
        )

    def _assigned(self, value: Any) -> NoReturn:
        raise _no_assignment(self.array)

    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = __imod__ = __ipow__ = _assigned
    __iand__ = __ior__ = __ixor__ = __ilshift__ = __irshift__ = __imatmul__ = _assigned

    def loosened(self) -> _IndexUpdateRef:
        """The same of an array whose type says nothing of explicit mesh axes."""
        return _IndexUpdateRef(loosened(self.array), self.index)

    @array_function
    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
        fill_value: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return `x[index]`; with mode "fill" an index out of range reads `fill_value`.

        >>> import didax.numpy as dnp
        >>> dnp.array([1., 2.]).at[dnp.array([1, 5])].get(mode="fill", fill_value=-1)
        Array([ 2., -1.], dtype=float32)
        """
        options = _Options.of(indices_are_sorted, unique_indices, mode, wrap_negative_indices)
        return _get(self.array, self.index, options, fill_parameter(fill_value))

    @array_function
    def apply(
        self,
        func: Callable[[Array], ArrayLike],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return the array with `x[index] = func(x[index])`; where an index repeats, `func` is applied once.

        >>> import didax.numpy as dnp
        >>> dnp.array([1., 4.]).at[1].apply(dnp.sqrt)
        Array([1., 2.], dtype=float32)
        """
        options = _Options.of(indices_are_sorted, unique_indices, mode, wrap_negative_indices)
        return _update(self.array, self.index, "set", func(_get(self.array, self.index, options)), options)

    set = _updater(
        "set",
        "Return the array with `x[index] = values`; where indices repeat, the last value stays.",
        "dnp.zeros(3).at[1].set(5.)",
        "Array([0., 5., 0.], dtype=float32)",
    )
    add = _updater(
        "add",
        "Return the array with `x[index] += values`, repeatedly where indices repeat.",
        "dnp.zeros(3).at[dnp.array([0, 0, 2])].add(1.)",
        "Array([2., 0., 1.], dtype=float32)",
    )
    subtract = _updater(
        "subtract",
        "Return the array with `x[index] -= values`, repeatedly where indices repeat.",
        "dnp.zeros(2).at[0].subtract(1.)",
        "Array([-1.,  0.], dtype=float32)",
    )
    multiply = mul = _updater(
        "multiply",
        "Return the array with `x[index] *= values`, repeatedly where indices repeat.",
        "dnp.ones(2).at[0].multiply(3.)",
        "Array([3., 1.], dtype=float32)",
    )
    divide = _updater(
        "divide",
        "Return the array with `x[index] /= values`, repeatedly where indices repeat; integers become floats.",
        "dnp.array([1., 2.]).at[1].divide(4.)",
        "Array([1. , 0.5], dtype=float32)",
    )
    power = _updater(
        "power",
        "Return the array with `x[index] **= values`, repeatedly where indices repeat.",
        "dnp.array([1., 2.]).at[1].power(3)",
        "Array([1., 8.], dtype=float32)",
    )
    min = _updater(
        "min",
        "Return the array with `x[index] = minimum(x[index], values)`.",
        "dnp.ones(2).at[0].min(0.)",
        "Array([0., 1.], dtype=float32)",
    )
    max = _updater(
        "max",
        "Return the array with `x[index] = maximum(x[index], values)`.",
        "dnp.ones(2).at[0].max(2.)",
        "Array([2., 1.], dtype=float32)",
    )


def at(x: ArrayLike) -> _IndexUpdateHelper:
    """Return `x.at`: index it, then call `set`, `add`, ... for a copy of `x` with the indexed elements changed.

    >>> import didax.numpy as dnp
    >>> dnp.arange(4).at[1:3].set(7)
    Array([0, 7, 7, 3], dtype=int32)
    """
    return _IndexUpdateHelper(as_array("indexing", x))
