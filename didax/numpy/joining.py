"""Functions that join and split arrays, and insert and delete elements.

Arrays are joined in their common dtype. Axes, split points and the positions of deleted elements are static, because
the shapes of the results depend on them. Read next: `manipulation.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from didax.api.results import array_function
from didax.api.vmap import vmap
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.avals import aval_of
from didax.core.dims import as_length, is_symbolic, max_dim, may_exceed, min_dim, slice_of
from didax.core.errors import ArgumentError, PositionError, message
from didax.core.tracing import Tracer
from didax.core.value import Array
from didax.numpy import promotion, ufuncs
from didax.numpy.creation import arange, asarray
from didax.numpy.indexing import at, getitem
from didax.numpy.manipulation import atleast_1d, atleast_2d, atleast_3d, expand_dims, moveaxis, ravel
from didax.numpy.promotion import (
    ArrayLike,
    DTypeLike,
    as_array,
    as_array_of,
    beside_wide,
    cast,
    lifted,
    no_out,
    promote_dtypes,
)
from didax.numpy.reductions import canonical_axis
from didax.numpy.selection import argsort, flatnonzero
from didax.primitives import shape as shapes
from didax.primitives import slicing
from didax.primitives.slicing import concatenate as join
from didax.primitives.slicing import slice_axis

__all__ = [
    "append", "array_split", "block", "column_stack", "concat", "concatenate", "delete", "dsplit", "dstack",
    "hsplit", "hstack", "insert", "split", "stack", "unstack", "vsplit", "vstack",
]  # fmt: skip


# --- joining ------------------------------------------------------------------------------------------------


def _arrays(name: str, xs: Any) -> list[Array]:
    if isinstance(xs, Array | np.ndarray) and not xs.shape:
        raise TypeError(
            message(
                f"{name} takes a sequence of arrays.", f"got: {aval_of(xs)}", fix="Pass a list of arrays."
            )
        )
    xs = xs if isinstance(xs, Array) else list(xs)
    return [as_array(name, x, i) for i, x in enumerate(beside_wide(*xs))]


def _are_rows(xs: Any) -> bool:
    """Whether the arrays to join are the rows of an array, which are moved as a whole."""
    return isinstance(xs, Array) and any(is_symbolic(n) or n > 0 for n in xs.shape[:1])


def _formed(xs: Any, form: Callable[[Any], Array]) -> Any:
    """The arrays to join, each brought into a form."""
    return vmap(form)(xs) if _are_rows(xs) else [form(x) for x in beside_wide(*xs)]


def _joined_rows(rows: Array, axis: int, dtype: DTypeLike) -> Array:
    """The rows of an array joined along one of their axes."""
    if rows.ndim == 1:
        rule = "concatenate joins arrays of at least one axis, and an array of numbers has none to give."
        fix = "Give concatenate one list of all the arrays; for scalars use stack, or add axes."
        raise ArgumentError(message(rule, f"got: {rows.aval}", fix=fix))
    i = canonical_axis("concatenate", axis, rows.ndim - 1)
    n, *row = rows.shape
    return _stated(shapes.reshape(moveaxis(rows, 0, i), (*row[:i], n * row[i], *row[i + 1 :])), dtype)


def _stated(x: Array, dtype: DTypeLike) -> Array:
    """`x` in the dtype that was asked for, if one was."""
    return x if dtype is None else cast(x, dtypes.dtype(dtype))


@evaluated_whole
@array_function
def concatenate(arrays: Any, axis: int | None = 0, dtype: DTypeLike = None) -> Array:
    """Return the arrays joined along an axis, in their common dtype; with axis None they are ravelled first.

    >>> import didax.numpy as dnp
    >>> dnp.concatenate([dnp.array([1, 2]), dnp.array([3.5])])
    Array([1. , 2. , 3.5], dtype=float32)
    """
    if _are_rows(arrays):
        return _stated(ravel(arrays), dtype) if axis is None else _joined_rows(arrays, axis, dtype)
    xs = _arrays("concatenate", arrays)
    if not xs:
        raise ValueError(
            message("concatenate needs at least one array.", "arrays: none", fix="Check the list.")
        )
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    return _joined("concatenate", xs, axis, dtype)


def _joined(name: str, xs: Sequence[Array], axis: int, dtype: Any) -> Array:
    ndims = {x.ndim for x in xs}
    if len(ndims) > 1 or ndims == {0}:
        shown = ", ".join([str(x.shape) for x in xs])
        raise ArgumentError(
            message(
                f"{name} joins arrays of the same number of axes, at least one.",
                f"shapes: {shown}",
                fix=f"Give {name} one list of all the arrays; for scalars use stack, or add axes.",
            )
        )
    dimension = canonical_axis(name, axis, xs[0].ndim)
    if len({x.shape[:dimension] + x.shape[dimension + 1 :] for x in xs}) > 1:
        shown = ", ".join([str(x.shape) for x in xs])
        fix = "Slice, pad or transpose them to agree."
        raise ArgumentError(
            message(
                f"{name} joins arrays that agree in all axes but one.",
                f"shapes: {shown}, axis: {dimension}",
                fix=fix,
            )
        )
    if dtype is not None:
        return join([cast(x, dtypes.dtype(dtype)) for x in xs], dimension)
    return join(promote_dtypes(name, *xs), dimension)


@array_function
def concat(arrays: Any, /, *, axis: int | None = 0) -> Array:
    """Return the arrays joined along an axis, as `concatenate` does.

    >>> import didax.numpy as dnp
    >>> dnp.concat([dnp.ones(1), dnp.zeros(1)])
    Array([1., 0.], dtype=float32)
    """
    return concatenate(arrays, axis)


@evaluated_whole
@array_function
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: DTypeLike = None) -> Array:
    """Return arrays of one shape joined along a new axis.

    >>> import didax.numpy as dnp
    >>> dnp.stack([dnp.array([1, 2]), dnp.array([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    no_out("stack", out)
    if _are_rows(arrays):
        return _stated(moveaxis(arrays, 0, canonical_axis("stack", axis, arrays.ndim)), dtype)
    xs = _arrays("stack", arrays)
    if len({x.shape for x in xs}) != 1:
        shown = ", ".join([str(x.shape) for x in xs]) or "none"
        raise ArgumentError(
            message(
                "stack joins arrays of one shape.", f"shapes: {shown}", fix="Broadcast or pad them first."
            )
        )
    dimension = canonical_axis("stack", axis, xs[0].ndim + 1)
    return _joined("stack", [expand_dims(x, dimension) for x in xs], dimension, dtype)


@evaluated_whole
@array_function
def vstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Return the arrays joined along the first axis, with vectors as rows.

    >>> import didax.numpy as dnp
    >>> dnp.vstack([dnp.array([1, 2]), dnp.array([3, 4])])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    return concatenate(_formed(tup, atleast_2d), 0, dtype)


@evaluated_whole
@array_function
def hstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Return the arrays joined along the second axis, or vectors along their only axis.

    >>> import didax.numpy as dnp
    >>> dnp.hstack([dnp.array([1, 2]), dnp.array([3])])
    Array([1, 2, 3], dtype=int32)
    """
    xs = _formed(tup, atleast_1d)
    return concatenate(xs, 1 if any([x.ndim > 1 for x in xs[:1]]) else 0, dtype)


@evaluated_whole
@array_function
def dstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Return the arrays joined along the third axis.

    >>> import didax.numpy as dnp
    >>> dnp.dstack([dnp.zeros(2), dnp.ones(2)]).shape
    (1, 2, 2)
    """
    return concatenate(_formed(tup, atleast_3d), 2, dtype)


@evaluated_whole
@array_function
def column_stack(tup: Any) -> Array:
    """Return a matrix of columns: each vector is one column, each matrix several.

    >>> import didax.numpy as dnp
    >>> dnp.column_stack([dnp.array([1, 2]), dnp.array([3, 4])])
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    xs = tup if _are_rows(tup) else _arrays("column_stack", tup)
    return concatenate(_formed(xs, lambda x: x if x.ndim > 1 else atleast_2d(x).T), 1)


@evaluated_whole
@array_function
def block(arrays: Any) -> Array:
    """Return nested lists of arrays as one array: innermost lists join along the last axis, outer ones before it.

    >>> import didax.numpy as dnp
    >>> dnp.block([[dnp.ones((1, 1)), dnp.zeros((1, 2))], [dnp.zeros((1, 3))]])
    Array([[1., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    depth = _list_depth(arrays)
    leaves = beside_wide(*_list_leaves(arrays))
    ndim = max([depth, *[as_array("block", x).ndim for x in leaves]])
    return _joined_lists(_with_leaves(arrays, iter(leaves)), -depth, ndim)


def _list_leaves(x: Any) -> list[Any]:
    return [leaf for item in x for leaf in _list_leaves(item)] if isinstance(x, list) else [x]


def _with_leaves(x: Any, leaves: Iterator[Any]) -> Any:
    return [_with_leaves(item, leaves) for item in x] if isinstance(x, list) else next(leaves)


def _list_depth(x: Any) -> int:
    if not isinstance(x, list):
        return 0
    depths = {_list_depth(item) for item in x}
    if len(depths) != 1:
        shown = f"depths of the items: {sorted(depths)}" if depths else "an empty list"
        raise ValueError(
            message("block takes lists nested equally deep.", shown, fix="Wrap single arrays in lists.")
        )
    return 1 + depths.pop()


def _joined_lists(x: Any, axis: int, ndim: int) -> Array:
    if isinstance(x, list):
        return concatenate([_joined_lists(item, axis + 1, ndim) for item in x], axis)
    array = as_array("block", x)
    return shapes.reshape(array, (1,) * (ndim - array.ndim) + array.shape)


@evaluated_whole
@array_function
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Return `values` joined to the end of `arr`; without an axis both are ravelled.

    >>> import didax.numpy as dnp
    >>> dnp.append(dnp.array([1, 2]), 3)
    Array([1, 2, 3], dtype=int32)
    """
    arr, values = beside_wide(arr, values)
    x, new = promote_dtypes("append", as_array("append", arr, "arr"), values)
    return concatenate([x, lifted(new)], axis)


# --- splitting ----------------------------------------------------------------------------------------------


def _split_points(name: str, x: Array, sections: Any, axis: int, even: bool) -> list[Any]:
    length = x.shape[axis]
    if hasattr(sections, "__iter__") and getattr(sections, "ndim", 1):
        return [slice_of(slice(as_length(i)), length)[1] for i in sections]
    count = operator.index(sections)
    if count < 1 or (even and length % count):
        raise ValueError(
            message(
                f"{name} makes equal parts.",
                f"a: {x.aval}, axis: {axis}, parts: {count}",
                fix="Use a divisor of the length, a list of split points, or array_split (uneven parts).",
            )
        )
    small, extra = divmod(length, count)
    return [i * small + min_dim(i, extra) for i in range(1, count)]


def _split(name: str, ary: Any, sections: Any, axis: int, even: bool) -> list[Array]:
    x = as_array(name, ary, "ary")
    dimension = canonical_axis(name, axis, x.ndim)
    points = [0, *_split_points(name, x, sections, dimension, even), x.shape[dimension]]
    sizes = tuple([b - a for a, b in pairwise(points)])
    if any([size < 0 for size in sizes]):  # split points that go back: the parts overlap
        return [slice_axis(x, a, max_dim(a, b), dimension) for a, b in pairwise(points)]
    return slicing.split_axis(x, sizes, dimension)


@array_function
def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Return equal parts of an array along an axis, or the parts between split points.

    >>> import didax.numpy as dnp
    >>> dnp.split(dnp.arange(4), 2)
    [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis, even=True)


@array_function
def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Return parts of an array, as `split` does; where the length does not divide, the first parts are one longer.

    >>> import didax.numpy as dnp
    >>> [len(part) for part in dnp.array_split(dnp.arange(5), 3)]
    [2, 2, 1]
    """
    return _split("array_split", ary, indices_or_sections, axis, even=False)


@array_function
def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Return parts of an array as `split` does, along the second axis, or along the only axis of a vector.

    >>> import didax.numpy as dnp
    >>> len(dnp.hsplit(dnp.zeros((2, 4)), 2))
    2
    """
    return split(ary, indices_or_sections, 0 if aval_of(as_array("hsplit", ary)).ndim == 1 else 1)


@array_function
def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Return parts of an array as `split` does, along the first axis.

    >>> import didax.numpy as dnp
    >>> len(dnp.vsplit(dnp.zeros((4, 2)), 2))
    2
    """
    return split(ary, indices_or_sections, 0)


@array_function
def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Return parts of an array as `split` does, along the third axis.

    >>> import didax.numpy as dnp
    >>> len(dnp.dsplit(dnp.zeros((1, 1, 4)), 2))
    2
    """
    return split(ary, indices_or_sections, 2)


@evaluated_whole
@array_function
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices of an array along an axis, without this axis: the inverse of `stack`.

    >>> import didax.numpy as dnp
    >>> dnp.unstack(dnp.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    value = as_array("unstack", x)
    dimension = canonical_axis("unstack", axis, value.ndim)
    return tuple(slicing.unstack(value, dimension))


# --- inserting and deleting ---------------------------------------------------------------------------------


def _positions(name: str, x: Array, obj: Any, axis: int) -> np.ndarray[Any, Any]:
    """Return static positions along an axis from an integer, a slice or integers."""
    length = x.shape[axis]
    if isinstance(obj, slice):
        return np.arange(*obj.indices(length))
    index = np.asarray(obj)  # raises for a traced array: the shape depends on the values
    if index.dtype == np.bool_:
        if index.shape != (length,):
            rule = f"A mask for {name} has one element for each position along the axis."
            facts = f"obj: bool{list(index.shape)}, axis of length {length}"
            raise ValueError(message(rule, facts, fix="Compute the mask from the array, or pass integers."))
        index = np.flatnonzero(index)
    limit = length if name == "insert" else length - 1
    if index.size and (index.min() < -length or index.max() > limit):
        raise PositionError(
            message(
                f"{name} takes positions within the axis.",
                f"obj: {obj}, axis of length {length}",
                fix="Check the positions.",
            )
        )
    return np.where(index < 0, index + length, index).astype(np.int64)


def _may_be_outside(obj: Any, length: Any) -> bool:
    """Whether integers before which values are inserted may lie beyond a symbolic length, or count from its end."""
    if not is_symbolic(length) or isinstance(obj, slice | Tracer):
        return False
    index = np.asarray(obj)
    if index.dtype.kind not in "iu" or not index.size:
        return False
    return bool(index.min() < 0) or may_exceed(int(index.max()), length)


def _traced_positions(name: str, x: Array, obj: Array, axis: int) -> Array:
    """Return positions before which values are inserted, within the axis."""
    length = x.shape[axis]
    index = cast(obj, dtypes.position_dtype(2 * length + 2))  # its keys are twice as large
    return ufuncs.clip(ufuncs.where(index < 0, index + length, index), 0, length)


@array_function
def delete(
    arr: ArrayLike, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Array:
    """Return the array without the elements at static positions: an integer, a slice, integers or booleans.

    With `assume_unique_indices` the integers may be traced; they must be distinct and in range.

    >>> import didax.numpy as dnp
    >>> dnp.delete(dnp.array([1, 2, 3]), 1)
    Array([1, 3], dtype=int32)
    """
    x = as_array("delete", arr, "arr")
    if axis is None:
        x, axis = ravel(x), 0
    dimension = canonical_axis("delete", axis, x.ndim)
    if assume_unique_indices and isinstance(obj, Tracer) and dtypes.is_integer(obj.dtype):
        return getitem(x, (slice(None),) * dimension + (_others(x.shape[dimension], ravel(obj)),))
    runs = _runs(x, obj, dimension)
    if len(runs) > _MOST_PARTS:
        kept = np.ones(x.shape[dimension], bool)
        for start, limit in runs:
            kept[start:limit] = False
        return getitem(x, (slice(None),) * dimension + (np.flatnonzero(kept),))
    return _without_empty_parts(_between(x, runs, dimension), dimension)


_MOST_PARTS = 16  # more of them are one gather, whose indices are as many as the elements


def _runs(x: Array, obj: Any, axis: int) -> list[tuple[int, int]]:
    """Return the first and the last position, plus 1, of each run of positions to be deleted, in order."""
    if isinstance(obj, slice):
        start, count, step = slice_of(obj, x.shape[axis])
        if abs(step) == 1:
            start = start if step > 0 else start - count + 1
            return [(start, start + count)] if may_exceed(count, 0) else []
    places = np.unique(_positions("delete", x, obj, axis))
    first = np.diff(places, prepend=-2) > 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(places, np.flatnonzero(first)) if run.size]


def _between(x: Array, runs: Sequence[tuple[int, int]], axis: int) -> list[Array]:
    """Return the parts of `x` before, between and after runs of positions."""
    starts = [0, *[limit for _, limit in runs]]
    limits = [*[start for start, _ in runs], x.shape[axis]]
    return [slice_axis(x, start, limit, axis) for start, limit in zip(starts, limits, strict=True)]


def _without_empty_parts(parts: Sequence[Array], axis: int) -> Array:
    """Return the parts joined; of parts that are all empty, one."""
    return join([x for x in parts if is_symbolic(x.shape[axis]) or x.shape[axis]] or parts[:1], axis)


def _others(length: int, positions: Array) -> Array:
    """Return the positions along an axis that are not among the given positions, which are distinct."""
    kept = at(promotion.broadcast(np.bool_(True), (length,)))[positions].set(False)
    return flatnonzero(kept, size=max_dim(length - positions.size, 0))


@array_function
def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """Return the array with values inserted before positions: an integer, a slice, integers or booleans.

    Integers may be traced, and symbolic lengths do not say whether they are in range; those out of range are then moved
    to the nearer end.

    >>> import didax.numpy as dnp
    >>> dnp.insert(dnp.array([1, 3]), 1, 2)
    Array([1, 2, 3], dtype=int32)
    """
    x = as_array("insert", arr, "arr")
    if axis is None:
        x, axis = ravel(x), 0
    dimension = canonical_axis("insert", axis, x.ndim)
    new = as_array_of("insert", values, x.dtype, x.weak_type, "values")
    if is_symbolic(obj) or _may_be_outside(obj, x.shape[dimension]):
        obj, is_traced = asarray(obj), True
    else:
        is_traced = isinstance(obj, Tracer) and dtypes.is_integer(obj.dtype)
    places = (_traced_positions if is_traced else _positions)("insert", x, obj, dimension)
    if places.size == 1:  # one position takes all of the values
        new = shapes.reshape(new, (1,) * (x.ndim - new.ndim) + new.shape)
        if places.ndim == 0 and new.ndim == x.ndim:
            new = shapes.move_axis(new, 0, dimension)
        places = (promotion.broadcast if is_traced else np.broadcast_to)(places, (new.shape[dimension],))
    places = places.reshape(-1)
    new = promotion.broadcast(
        new, tuple([places.size if i == dimension else n for i, n in enumerate(x.shape)])
    )
    if is_traced:
        keys = join([places * 2, arange(x.shape[dimension], dtype=places.dtype) * 2 + 1], 0)
        return getitem(join([new, x], dimension), (slice(None),) * dimension + (argsort(keys),))
    order = np.argsort(places, kind="stable")
    if (order[1:] < order[:-1]).any():
        new = getitem(new, (slice(None),) * dimension + (order,))
    distinct, counts = np.unique(places, return_counts=True)
    if distinct.size > _MOST_PARTS:
        order = np.argsort(np.append(places[order] * 2, np.arange(x.shape[dimension]) * 2 + 1), kind="stable")
        return getitem(join([new, x], dimension), (slice(None),) * dimension + (order,))
    ends = np.cumsum(counts)
    news = [slice_axis(new, int(end - n), int(end), dimension) for end, n in zip(ends, counts, strict=True)]
    first, *olds = _between(x, [(int(p), int(p)) for p in distinct], dimension)
    rest = [part for pair in zip(news, olds, strict=True) for part in pair]
    return _without_empty_parts([first, *rest], dimension)
