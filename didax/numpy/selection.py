"""Functions that choose and order elements: take, sort, searchsorted, nonzero, unique, bincount, select.

The shape of what `nonzero`, `unique` and one-argument `where` find depends on the values. Outside of jit the
shape is the same as in NumPy; under jit `size=` fixes it, and results are cut off or filled up. Read next:
`indexing.py`, `didax/primitives/sort.py`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.avals import aval_of
from didax.core.dims import as_length, is_symbolic, max_dim, may_exceed
from didax.core.errors import ArgumentError, ConcretizationTypeError, check_choice, message
from didax.core.tracing import known_value
from didax.core.value import Array
from didax.numpy import ufuncs
from didax.numpy.bisection import insertion_points
from didax.numpy.indexing import at, fill_parameter, getitem
from didax.numpy.promotion import (
    ArrayLike,
    DTypeLike,
    as_array,
    as_array_of,
    broadcast,
    broadcast_shapes,
    cast,
    checked_operand,
    inexact,
    lifted,
    no_out,
    promote_dtypes,
)
from didax.numpy.reductions import canonical_axis, cumsum
from didax.numpy.reductions import sum as array_sum
from didax.numpy.ufunc import truth
from didax.primitives import elementwise as el
from didax.primitives.convert import iota
from didax.primitives.dimension import number
from didax.primitives.gather import gather_p
from didax.primitives.narrow import halves_in_float32
from didax.primitives.shape import move_axis, reshape
from didax.primitives.slicing import concatenate, rev, slice_axis
from didax.primitives.sort import argsort as stable_order
from didax.primitives.sort import sort_p
from didax.primitives.window_positions import GatherDimensionNumbers, GatherScatterMode

__all__ = [
    "argpartition", "argsort", "argwhere", "bincount", "digitize", "flatnonzero", "interp", "isin",
    "lexsort", "nonzero", "partition", "searchsorted", "select", "sort", "sort_complex", "take", "take_along_axis",
    "trapezoid", "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values", "where",
]  # fmt: skip

_INT32 = np.dtype(np.int32)


def _ravel(x: Array) -> Array:
    return reshape(x, (x.size,))


# --- by position --------------------------------------------------------------------------------------------


@evaluated_whole
@array_function
def take(
    a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: None = None, mode: str | None = None,
    unique_indices: bool = False, indices_are_sorted: bool = False, fill_value: Any = None,
) -> Array:  # fmt: skip
    """Return the elements at positions along an axis (of the ravelled array by default).

    Negative positions count from the end. Beyond the ends `mode` "fill" (the default) gives `fill_value`, by
    default NaN or the extreme value of an integer dtype; "clip" gives the nearest element; "wrap" takes
    positions modulo the length.

    >>> import didax.numpy as dnp
    >>> dnp.take(dnp.array([1.0, 2.0]), dnp.array([1, 5]))
    Array([ 2., nan], dtype=float32)
    """
    no_out("take", out)
    x = as_array("take", a, "a")
    if axis is None:
        x, axis = _ravel(x), 0
    dimension = canonical_axis("take", axis, x.ndim)
    if mode is None and fill_value is None and _is_place(indices, x.shape[dimension]):
        return getitem(x, (slice(None),) * dimension + (indices,))
    if is_symbolic(indices):
        indices = as_array("take", indices, "indices")
    index = _positions("take", fitted_positions(indices, x.shape[dimension], mode))
    if mode == "wrap":
        index, mode = ufuncs.remainder(index, x.shape[dimension]), "clip"
    if mode == "clip":
        index = ufuncs.clip(index, 0, x.shape[dimension] - 1)
    place = (slice(None),) * dimension + (index,)
    return at(x)[place].get(mode=mode or "fill", fill_value=fill_value)


def _is_place(position: Any, length: Any) -> bool:
    """Whether this is a Python integer that is within bounds."""
    return type(position) is int and not is_symbolic(length) and -length <= position < length


def fitted_positions(indices: Any, length: int, mode: Any) -> Any:
    """Return known positions such that the default integers hold them, at the same side of the axis.

    Otherwise a position of 2**32 would be narrowed to 0, which is the position of an element.
    """
    is_array = isinstance(indices, np.ndarray | np.generic)
    if type(indices) is not int and not (
        is_array and indices.dtype.kind in "iu" and indices.dtype.itemsize == 8
    ):
        return indices
    if mode == "wrap" and length:
        return np.mod(indices, length)
    held = dtypes.iinfo(dtypes.default_dtype("i"))
    if not is_array:
        return min(max(indices, held.min), held.max)
    upper = np.minimum(indices, held.max)
    return upper if indices.dtype.kind == "u" else np.maximum(upper, held.min)


def _positions(name: str, indices: Any) -> Array:
    index = as_array(name, indices, "indices")
    if index.dtype == np.bool_:
        return cast(index, _INT32)
    if not dtypes.is_integer(index.dtype):
        raise ArgumentError(
            message(
                f"{name} takes integer positions.",
                f"indices: {index.aval}",
                fix="Cast them (indices.astype(int)).",
            )
        )
    return index


@evaluated_whole
@array_function
def take_along_axis(
    arr: ArrayLike, indices: ArrayLike, axis: int | None = -1, mode: str | None = None,
    fill_value: Any = None, *, wrap_negative_indices: bool | None = None,
) -> Array:  # fmt: skip
    """Return the elements at positions along an axis; each row has its own positions, the other axes broadcast.

    Positions and `mode` are as in `take`; with `wrap_negative_indices=False`, negative positions are out of
    range. With the mode "one_hot" the elements are chosen by comparisons and a sum, which some accelerators do faster;
    positions out of range give 0.

    >>> import didax.numpy as dnp
    >>> dnp.take_along_axis(dnp.array([[1, 2], [3, 4]]), dnp.array([[0], [1]]), axis=1)
    Array([[1],
           [4]], dtype=int32)
    """
    x = as_array("take_along_axis", arr, "arr")
    length = x.size if axis is None else x.shape[canonical_axis("take_along_axis", axis, x.ndim)]
    index = _positions("take_along_axis", fitted_positions(indices, length, mode))
    if axis is None:
        x, axis = _ravel(x), 0
    if x.ndim != index.ndim:
        raise ValueError(
            message(
                "take_along_axis takes positions with as many axes as the array.",
                f"arr: {x.aval}, indices: {index.aval}",
                fix="Add axes of length 1 to the positions.",
            )
        )
    dimension = canonical_axis("take_along_axis", axis, x.ndim)
    if wrap_negative_indices is False:
        index = cast(index, np.promote_types(index.dtype, _INT32))
        index = ufuncs.where(index < 0, 0 if mode == "clip" else x.shape[dimension], index)
    others = [s[:dimension] + (1,) + s[dimension + 1 :] for s in (x.shape, index.shape)]
    shape = broadcast_shapes("take_along_axis", others)
    x = broadcast(x, _with_length(shape, dimension, x.shape[dimension]))
    index = broadcast(index, _with_length(shape, dimension, index.shape[dimension]))
    if mode == "one_hot":
        return _by_comparison(x, index, dimension)
    if not x.size or not index.size:  # the window of a gather, one element, does not fit into an empty array
        place = tuple([index if i == dimension else ramp(n, i, x.ndim) for i, n in enumerate(shape)])
        return at(x)[place].get(mode=mode or "fill", fill_value=fill_value)
    others = tuple(i for i in range(x.ndim) if i != dimension)
    return gather_p.bind(
        x,
        reshape(_from_the_start(index, x.shape[dimension], mode), (*index.shape, 1)),
        dimension_numbers=GatherDimensionNumbers((), (dimension,), (dimension,), others, others),
        slice_sizes=(1,) * x.ndim,
        mode=GatherScatterMode.from_any("promise_in_bounds" if mode == "wrap" else mode or "fill"),
        fill_value=fill_parameter(fill_value),
        indices_are_sorted=False,
        unique_indices=False,
    )


def _from_the_start(index: Array, length: int, mode: str | None) -> Array:
    """Positions that count from the start of an axis of that length; those out of range stay out of range."""
    position = dtypes.position_dtype(length + 1)
    if dtypes.is_signed(index.dtype) or index.dtype.itemsize < position.itemsize:
        index = cast(index, np.promote_types(index.dtype, position))
    size = number(length, index.dtype)
    if mode == "wrap":
        return cast(ufuncs.mod(index, size), position)
    if not dtypes.is_signed(index.dtype):
        return cast(ufuncs.minimum(index, size), position)
    return ufuncs.where(index < 0, index + size, index)


def _by_comparison(x: Array, index: Array, axis: int) -> Array:
    """The elements of `x` at the positions, as sums of products with rows of an identity matrix."""
    length = x.shape[axis]
    index = ufuncs.where(index < 0, index + length, index)
    shape = (*index.shape[: axis + 1], length, *index.shape[axis + 1 :])
    columns = reshape(index, (*index.shape[: axis + 1], 1, *index.shape[axis + 1 :]))
    chosen = columns == iota(dtypes.position_dtype(length), shape, axis + 1)
    rows = reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))
    found = ufuncs.where(chosen, rows, x.dtype.type(0))
    if x.dtype == bool:
        return found.any(axis + 1)
    return found.sum(axis + 1, dtype=x.dtype)


def _with_length(shape: tuple[int, ...], axis: int, length: int) -> tuple[int, ...]:
    return shape[:axis] + (length,) + shape[axis + 1 :]


def ramp(length: int, axis: int, ndim: int) -> Array:
    """Return the positions along one of `ndim` axes; the others have length 1."""
    return reshape(
        iota(dtypes.position_dtype(length), (length,), 0),
        tuple([length if i == axis else 1 for i in range(ndim)]),
    )


# --- order --------------------------------------------------------------------------------------------------


def _no_fields(name: str, order: Any) -> TypeError:
    """Return the error for an `order`, which in NumPy names the fields of records to compare."""
    facts = f"order: {order!r:.100}"
    return TypeError(
        message(f"{name} compares numbers, which have no fields.", facts, fix="Leave order out.")
    )


@array_function
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """Return the elements sorted along an axis, NaN last (first if `descending`).

    Complex numbers sort by the real, then by the imaginary part.

    >>> import didax.numpy as dnp
    >>> dnp.sort(dnp.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    if order is not None:
        raise _no_fields("sort", order)
    x = as_array("sort", a, "a")
    if axis is None:
        x, axis = _ravel(x), 0
    dimension = canonical_axis("sort", axis, x.ndim)
    (result,) = sort_p.bind(x, dimension=dimension, is_stable=stable, num_keys=1)
    return rev(result, (dimension,)) if descending else result


@evaluated_whole
@array_function
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DTypeLike = None,
) -> Array:
    """Return the positions of the elements in sorted order, as integers of the default width.

    Equal elements keep their order.

    >>> import didax.numpy as dnp
    >>> dnp.argsort(dnp.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    if order is not None:
        raise _no_fields("argsort", order)
    x = as_array("argsort", a, "a")
    if axis is None:
        x, axis = _ravel(x), 0
    dimension = canonical_axis("argsort", axis, x.ndim)
    if descending:  # reversed twice, so that equal elements keep their order
        positions = rev(stable_order(rev(x, (dimension,)), dimension), (dimension,))
        positions = el.sub(number(x.shape[dimension] - 1, positions.dtype), positions)
    else:
        positions = stable_order(x, dimension)
    return cast(positions, dtypes.default_dtype("i") if dtype is None else dtypes.dtype(dtype))


@evaluated_whole
@array_function
def sort_complex(a: ArrayLike) -> Array:
    """Return the elements as complex numbers, sorted along the last axis by the real, then by the imaginary part.

    >>> import didax.numpy as dnp
    >>> dnp.sort_complex(dnp.array([3, 1]))
    Array([1.+0.j, 3.+0.j], dtype=complex64)
    """
    x = sort(as_array("sort_complex", a))
    return cast(x, dtypes.complex_dtype(inexact(x.dtype, False)[0]))


@evaluated_whole
@array_function
def lexsort(keys: Any, axis: int = -1) -> Array:
    """Return the positions that sort by several keys; the last key counts first.

    >>> import didax.numpy as dnp
    >>> dnp.lexsort((dnp.array([2, 1, 0]), dnp.array([0, 0, 1])))
    Array([1, 0, 2], dtype=int32)
    """
    if isinstance(keys, Array) and keys.ndim == 1:
        keys = keys[:1]  # the keys are single numbers: the first one tells
    xs = [as_array("lexsort", key, i) for i, key in enumerate(keys)]
    if any(x.shape != xs[0].shape for x in xs):
        facts = f"keys: {', '.join(str(x.aval) for x in xs)}"
        raise ValueError(message("lexsort takes keys of one shape.", facts, fix="Broadcast them first."))
    if xs and not xs[0].ndim:
        return as_array("lexsort", np.asarray(0, dtypes.default_dtype("i")))
    if not xs:
        raise TypeError(
            message("lexsort needs at least one key.", "keys: none", fix="Pass the arrays to sort by.")
        )
    dimension = canonical_axis("lexsort", axis, xs[0].ndim)
    ramp = iota(dtypes.position_dtype(xs[0].shape[dimension]), xs[0].shape, dimension)
    positions = sort_p.bind(*xs[::-1], ramp, dimension=dimension, is_stable=True, num_keys=len(xs))[-1]
    return cast(positions, dtypes.default_dtype("i"))


@evaluated_whole
@array_function
def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Return an array with the element `kth` in its sorted place, smaller elements before and larger ones after it.

    The array is sorted, which is one such order.

    >>> import didax.numpy as dnp
    >>> dnp.partition(dnp.array([3, 1, 2]), 1)
    Array([1, 2, 3], dtype=int32)
    """
    x = as_array("partition", a, "a")
    canonical_axis("partition", kth, x.shape[canonical_axis("partition", axis, x.ndim)])
    return sort(x, axis)


@evaluated_whole
@array_function
def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Return the positions of the elements in the order of `partition`.

    >>> import didax.numpy as dnp
    >>> dnp.argpartition(dnp.array([3, 1, 2]), 1)
    Array([1, 2, 0], dtype=int32)
    """
    x = as_array("argpartition", a, "a")
    canonical_axis("argpartition", kth, x.shape[canonical_axis("argpartition", axis, x.ndim)])
    return argsort(x, axis)


@evaluated_whole
@array_function
def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None, *, method: str = "scan"
) -> Array:
    """Return the position of each of `v` in the sorted vector `a`: before equal elements ("left") or after ("right").

    The search is always binary; every `method` of JAX is accepted.

    >>> import didax.numpy as dnp
    >>> dnp.searchsorted(dnp.array([1, 3, 5]), dnp.array([3, 4]))
    Array([1, 2], dtype=int32)
    """
    check_choice("searchsorted", "side", side, "left", "right")
    check_choice("searchsorted", "method", method, "compare_all", "scan", "scan_unrolled", "sort")
    x, values = [as_array("searchsorted", y) for y in promote_dtypes("searchsorted", a, v)]
    if x.ndim != 1:
        raise ValueError(
            message("searchsorted searches a vector.", f"a: {x.aval}", fix="Ravel it, or vmap the search.")
        )
    if sorter is not None:
        x = getitem(x, as_array("searchsorted", sorter))
    found = insertion_points(x, values, side=side)  # type: ignore[arg-type]  # it was checked
    return cast(found, dtypes.default_dtype("i"))


@evaluated_whole
@array_function
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """Return the number of the bin into which each element falls.

    Bins increase and, unless `right`, contain their lower edge. Decreasing edges number the bins from the
    other end. `method` is the `method` of `searchsorted`.

    >>> import didax.numpy as dnp
    >>> dnp.digitize(dnp.array([0.5, 2.5]), dnp.array([0.0, 1.0, 2.0]))
    Array([1, 3], dtype=int32)
    """
    edges = as_array("digitize", bins, "bins")
    side = "left" if right else "right"
    upwards = searchsorted(edges, x, side=side, method=method or "scan")
    known = known_value(edges)
    if not may_exceed(edges.size, 1) or (known is not None and np.asarray(known)[0] <= np.asarray(known)[-1]):
        return upwards
    downwards = ufuncs.subtract(edges.size, searchsorted(rev(edges, (0,)), x, side=side))
    return ufuncs.where(ufuncs.less(edges[-1], edges[0]), downwards, upwards)


@evaluated_whole
@array_function
def isin(
    element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *,
    method: str = "auto",
) -> Array:  # fmt: skip
    """Whether each element is among the test elements.

    The test elements are sorted and searched; every `method` of JAX is accepted.

    >>> import didax.numpy as dnp
    >>> dnp.isin(dnp.array([1, 2, 3]), dnp.array([2, 4]))
    Array([False,  True, False], dtype=bool)
    """
    check_choice("isin", "method", method, "auto", "binary_search", "compare_all", "sort")
    x, tests = [as_array("isin", y) for y in promote_dtypes("isin", element, test_elements)]
    tests = sort(tests, None)
    if not tests.size:
        found = broadcast(np.bool_(False), x.shape)
    else:
        found = ufuncs.equal(getitem(tests, ufuncs.minimum(searchsorted(tests, x), tests.size - 1)), x)
    return ufuncs.logical_not(found) if invert else found


# --- found by value -----------------------------------------------------------------------------------------


def _result_count(name: str, x: Array, mask: Array, size: int | None) -> int:
    """Return the number of results of `x`: `size`, or the number of True elements, which must be known."""
    if size is not None:
        return as_length(size)
    known = known_value(mask)
    if known is None:
        raise ConcretizationTypeError(
            message(
                f"The shape of the result of {name} depends on values, which are not known while tracing.",
                f"array: {x.aval}",
                fix="Give size=, the number of results (cut off or filled up), or use a mask with where.",
            )
        )
    return int(np.count_nonzero(np.asarray(known)))


def _true_positions(name: str, x: Array, mask: Array, size: int | None) -> tuple[Array, Array]:
    """Return the flat positions of the True elements, in order, and a mask that is False at filled-up places.

    The mask has been made of `x`, which an error names.
    """
    flat = _ravel(mask)
    count = _result_count(name, x, mask, size)
    order = stable_order(el.not_(flat), 0)
    spare = count if is_symbolic(flat.size) else max(count - flat.size, 0)
    if is_symbolic(spare) or spare:
        order = concatenate([order, broadcast(cast(0, order.dtype), (spare,))], 0)
    taken = slice_axis(order, 0, count, 0)
    kind = dtypes.position_dtype(flat.size + 1)
    return taken, el.lt(iota(kind, (count,), 0), array_sum(flat, dtype=kind))


@evaluated_whole
@array_function
def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """Return the positions of nonzero elements, one array per axis.

    `size` fixes the number of positions; `fill_value` (by default 0) fills them up: a number, or a tuple of one for
    each axis. The positions are floats where the number is a float.

    >>> import didax.numpy as dnp
    >>> dnp.nonzero(dnp.array([0, 5, 7]))
    (Array([1, 2], dtype=int32),)
    """
    x = as_array("nonzero", a, "a")
    if x.ndim == 0:
        raise ValueError(
            message("nonzero takes an array with axes.", f"a: {x.aval}", fix="Use atleast_1d first.")
        )
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * x.ndim
    if len(fills) != x.ndim or any(np.shape(fill) for fill in fills):
        rule = "nonzero fills up with one number, or with a tuple of one for each axis."
        fix = "Pass a single number, or a tuple with as many numbers as the array has axes."
        raise ValueError(message(rule, f"a: {x.aval}, fill_value: {fill_value!r:.100}", fix=fix))
    flat, is_hit = _true_positions("nonzero", x, truth(x), size)
    columns = []
    for length, fill in zip(reversed(x.shape), reversed(fills), strict=True):
        divisor = number(max_dim(length, 1), flat.dtype)
        column = cast(el.rem(flat, divisor), dtypes.default_dtype("i"))
        columns.append(ufuncs.where(is_hit, column, 0 if fill is None else fill))
        flat = el.div(flat, divisor)
    return tuple(reversed(columns))


@evaluated_whole
@array_function
def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Return the positions of nonzero elements in the ravelled array.

    >>> import didax.numpy as dnp
    >>> dnp.flatnonzero(dnp.array([[0, 5], [7, 0]]))
    Array([1, 2], dtype=int32)
    """
    return nonzero(_ravel(as_array("flatnonzero", a, "a")), size=size, fill_value=fill_value)[0]


@evaluated_whole
@array_function
def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Return the positions of nonzero elements as the rows of a matrix.

    >>> import didax.numpy as dnp
    >>> dnp.argwhere(dnp.array([[0, 5], [7, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    x = as_array("argwhere", a, "a")
    if not x.ndim:  # a position without axes has no columns
        count = flatnonzero(x, size=size).size
        return broadcast(cast(0, dtypes.default_dtype("i")), (count, 0))
    columns = nonzero(x, size=size, fill_value=fill_value)
    return concatenate([reshape(column, (column.shape[0], 1)) for column in columns], 1)


@evaluated_whole
@array_function
def where(
    condition: ArrayLike, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: Any = None
) -> Any:
    """Return `x` where the condition holds, else `y`, all broadcast together; without `x` and `y`, return `nonzero`.

    Both branches are computed in full: where one has a NaN or infinite derivative, replace its operand, too.

    >>> import didax.numpy as dnp
    >>> dnp.where(dnp.array([True, False]), 1.0, dnp.zeros(2))
    Array([1., 0.], dtype=float32)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        facts = f"condition: {as_array('where', condition).aval}, {'x' if x is None else 'y'}: None"
        fix = "Pass the values for both, or the condition alone for its positions."
        raise ArgumentError(message("where takes both x and y, or neither.", facts, fix=fix))
    if size is not None or fill_value is not None:
        raise ValueError(
            message(
                "where takes size and fill_value only with a condition alone.",
                f"size: {size}",
                fix="Drop them.",
            )
        )
    return ufuncs.where(condition, x, y)


class _Groups(NamedTuple):
    """Sorted rows: the columns, the original place of each row, and whether the row is the first of its value."""

    columns: list[Array]
    order: Array | None  # None where it was not asked for
    is_first: Array


def _groups(rows: Array, equal_nan: bool, with_order: bool = True) -> _Groups:
    count = rows.shape[0]
    if equal_nan and dtypes.is_complex(rows.dtype):  # all NaNs have one place in the order
        rows = ufuncs.where(ufuncs.isnan(rows), np.nan, rows)
    columns = [reshape(slice_axis(rows, i, i + 1, 1), (count,)) for i in range(rows.shape[1])]
    order = iota(dtypes.position_dtype(count), (count,), 0) if with_order else None
    if columns:
        operands = columns if order is None else [*columns, order]
        columns = sort_p.bind(*operands, dimension=0, is_stable=True, num_keys=len(columns))
    if columns and order is not None:
        *columns, order = columns
    differs = broadcast(np.bool_(False), (max(count - 1, 0),))
    for column in columns:
        now, before = slice_axis(column, min(1, count), count, 0), slice_axis(column, 0, max(count - 1, 0), 0)
        differ = ufuncs.not_equal(now, before)
        if equal_nan and dtypes.is_inexact(column.dtype):
            differ = el.and_(differ, el.not_(el.and_(ufuncs.isnan(now), ufuncs.isnan(before))))
        differs = el.or_(differs, differ)
    return _Groups(columns, order, concatenate([broadcast(np.bool_(True), (min(1, count),)), differs], 0))


@evaluated_whole
@array_function
def unique(
    ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, size: int | None = None, fill_value: Any = None,
    sorted: bool = True,
) -> Any:  # fmt: skip
    """Return the distinct elements in order, or the distinct slices along an axis.

    On request also return, in this order: the position where each value first occurs, for each element the
    position of its value, and how often each value occurs. `size` fixes the number of results, which are
    filled up with `fill_value` or the smallest value; ValueError asks for `fill_value` where there is no value.

    >>> import didax.numpy as dnp
    >>> dnp.unique(dnp.array([3, 1, 1]))
    Array([1, 3], dtype=int32)
    """
    x = as_array("unique", ar, "ar")
    dimension = None if axis is None else canonical_axis("unique", axis, x.ndim)
    rows = reshape(x, (x.size, 1)) if dimension is None else _rows(x, dimension)
    # Elements are sorted twice as fast without their places. Complex NaNs are replaced before they are sorted.
    with_order = return_index or return_inverse or dimension is not None or dtypes.is_complex(x.dtype)
    groups = _groups(rows, equal_nan, with_order)
    count, kind = _result_count("unique", x, groups.is_first, size), dtypes.default_dtype("i")
    # One more position: the end of the last group.
    starts, _ = _true_positions("unique", x, groups.is_first, count + 1)
    starts, ends = slice_axis(starts, 0, count, 0), slice_axis(starts, 1, count + 1, 0)
    number = el.add(iota(_INT32, (count,), 0), 1)
    total = array_sum(groups.is_first, dtype=_INT32)
    is_hit = el.le(number, total)
    starts = ufuncs.where(is_hit, starts, 0)
    source = starts if groups.order is None or not rows.shape[0] else getitem(groups.order, starts)
    values = x if groups.order is not None else groups.columns[0]
    outs: list[Any] = [_unique_values(values, dimension, source, is_hit, fill_value)]
    if return_index:
        outs.append(cast(source, kind))
    if return_inverse:
        assert groups.order is not None
        inverse = _scattered(el.sub(cumsum(groups.is_first, dtype=kind), 1), groups.order)
        outs.append(reshape(inverse, x.shape) if dimension is None else inverse)
    if return_counts:
        sizes = el.sub(ufuncs.where(el.ge(number, total), rows.shape[0], ends), starts)
        outs.append(cast(ufuncs.where(is_hit, sizes, 0), kind))
    return outs[0] if len(outs) == 1 else tuple(outs)


def _scattered(values: Array, order: Array) -> Array:
    """Return the vector whose element order[i] is values[i]."""
    return at(broadcast(cast(0, values.dtype), values.shape))[order].set(values)


def _rows(x: Array, axis: int) -> Array:
    moved = move_axis(x, axis, 0)
    return reshape(moved, (moved.shape[0], math.prod(moved.shape[1:])))


def _unique_values(x: Array, axis: int | None, source: Array, is_hit: Array, fill_value: Any) -> Array:
    if not (x.size if axis is None else x.shape[axis]):
        return _only_filled(x, axis, source.shape[0], fill_value)
    values = getitem(_ravel(x), source) if axis is None else take(x, source, axis, mode="clip")
    if fill_value is None:
        return values
    shape = tuple([-1 if axis is None or i == axis else 1 for i in range(values.ndim)])
    shape = tuple([source.shape[0] if n == -1 else 1 for n in shape])
    filler = as_array_of("unique", fill_value, values.dtype, values.weak_type)
    return ufuncs.where(reshape(is_hit, shape), values, filler)


def _only_filled(x: Array, axis: int | None, count: int, fill_value: Any) -> Array:
    """The `count` fill values that are returned for an array without elements."""
    if count and fill_value is None:
        rule = "unique fills up with the smallest value, and an array without elements has none."
        facts = f"ar: {x.aval}, size: {count}"
        raise ValueError(message(rule, facts, fix="Pass fill_value=, or size=0."))
    shape = (count,) if axis is None else (*x.shape[:axis], count, *x.shape[axis + 1 :])
    filler = as_array_of("unique", 0 if fill_value is None else fill_value, x.dtype, x.weak_type)
    return broadcast(filler, shape)


class UniqueAll(NamedTuple):
    """The distinct values, the first position and the count of each, and the place of each element's value."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The distinct values, and how often each occurs."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The distinct values, and the position of each element's value among them."""

    values: Array
    inverse_indices: Array


@array_function
def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAll:
    """Return everything that `unique` can return; NaNs are distinct.

    >>> import didax.numpy as dnp
    >>> dnp.unique_all(dnp.array([3, 1, 1])).counts
    Array([2, 1], dtype=int32)
    """
    return UniqueAll(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


@array_function
def unique_counts(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> UniqueCounts:
    """Return the distinct values and how often each occurs; NaNs are distinct.

    >>> import didax.numpy as dnp
    >>> dnp.unique_counts(dnp.array([3, 1, 1])).values
    Array([1, 3], dtype=int32)
    """
    return UniqueCounts(*unique(x, False, False, True, equal_nan=False, size=size, fill_value=fill_value))


@array_function
def unique_inverse(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> UniqueInverse:
    """Return the distinct values and the position of each element's value among them; NaNs are distinct.

    >>> import didax.numpy as dnp
    >>> dnp.unique_inverse(dnp.array([3, 1, 1])).inverse_indices
    Array([1, 0, 0], dtype=int32)
    """
    return UniqueInverse(*unique(x, False, True, equal_nan=False, size=size, fill_value=fill_value))


@array_function
def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Return the distinct values; NaNs are distinct.

    >>> import didax.numpy as dnp
    >>> dnp.unique_values(dnp.array([3, 1, 1]))
    Array([1, 3], dtype=int32)
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


@array_function
@halves_in_float32
def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None
) -> Array:
    """Return how often each non-negative integer occurs, or the sum of its weights. `length` is needed under jit.

    >>> import didax.numpy as dnp
    >>> dnp.bincount(dnp.array([0, 2, 2]))
    Array([1, 0, 2], dtype=int32)
    """
    values = as_array("bincount", x)
    values = cast(values, np.dtype(np.uint8)) if values.dtype == np.bool_ else values
    if values.ndim != 1 or not dtypes.is_integer(values.dtype):
        raise ArgumentError(
            message("bincount counts a vector of integers.", f"x: {values.aval}", fix="Cast and ravel it.")
        )
    if length is None:
        known = known_value(values)
        if known is None:
            raise ConcretizationTypeError(
                message(
                    "The length of the result of bincount depends on values, not known while tracing.",
                    f"x: {values.aval}",
                    fix="Give length=, one more than the largest integer counted.",
                )
            )
        counted = np.maximum(np.asarray(known, np.int64), 0)  # negative numbers count as 0
        most = int(np.max(counted, initial=-1))
        length = max(most + 1, operator.index(minlength))
    amount: Any = 1 if weights is None else as_array("bincount", weights, "weights")
    dtype = dtypes.default_dtype("i") if weights is None else amount.dtype
    start = broadcast(cast(0, dtype), (as_length(length),))
    return at(start)[ufuncs.maximum(values, 0)].add(amount, mode="drop")


@evaluated_whole
@array_function
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: ArrayLike = 0) -> Array:
    """Return for each element the choice of the first condition that holds, else the default.

    >>> import didax.numpy as dnp
    >>> x = dnp.arange(3)
    >>> dnp.select([x < 1, x > 1], [x + 10, x + 20])
    Array([10,  0, 22], dtype=int32)
    """
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ValueError(
            message(
                "select takes a choice for each condition, and at least one.",
                f"conditions: {len(condlist)}, choices: {len(choicelist)}",
                fix="Pass lists of equal length.",
            )
        )
    *choices, result = promote_dtypes("select", *choicelist, default)
    choices, result = [lifted(x) for x in choices], lifted(result)
    for condition, choice in zip(reversed(list(condlist)), reversed(choices), strict=True):
        result = ufuncs.where(condition, choice, result)
    return result


# --- between points -----------------------------------------------------------------------------------------


@evaluated_whole
@array_function
@halves_in_float32
def interp(
    x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: Any = None, right: Any = None, period: Any = None
) -> Array:
    """Return the linear interpolation between the points (xp, fp), where xp increases.

    Beyond the points the result is `left` and `right`, by default the values at the ends.

    `left` or `right` may be "extrapolate", which continues the line. With a `period` the points may be in any
    order and describe a periodic function, which is defined everywhere.

    >>> import didax.numpy as dnp
    >>> dnp.interp(2.5, dnp.array([1.0, 2.0, 3.0]), dnp.array([0.0, 10.0, 30.0]))
    Array(20., dtype=float32)
    >>> dnp.interp(9.5, dnp.array([0.0, 1.0]), dnp.array([0.0, 10.0]), period=3)
    Array(5., dtype=float32)
    """
    values, points, heights = [
        as_array("interp", y) for y in promote_dtypes("interp", x, xp, fp, to_inexact=True)
    ]
    if points.shape != heights.shape or points.ndim != 1 or not points.size:
        raise ValueError(
            message(
                "interp takes vectors xp and fp of one length.",
                f"xp: {points.aval}, fp: {heights.aval}",
                fix="Pass matching vectors.",
            )
        )
    if dtypes.is_complex(heights.dtype):
        for name, y in (("x", x), ("xp", xp)):
            if dtypes.is_complex(aval_of(y).dtype):
                rule, fix = f"interp takes real numbers as {name}.", "Take the real or the imaginary part."
                raise ValueError(message(rule, f"{name}: {aval_of(y)}", fix=fix))
        values, points = values.real, points.real
    if period is not None:
        values, points, heights = _periodic_points(values, points, heights, period)
        left = right = None
    high = ufuncs.clip(searchsorted(points, values, side="right"), 1, max_dim(points.size - 1, 1))
    low, high = high - 1, ufuncs.minimum(high, points.size - 1)
    x0, x1, y0, y1 = points[low], points[high], heights[low], heights[high]
    width = x1 - x0
    is_step = el.eq(width, 0)
    slope = ufuncs.where(is_step, 0.0, (y1 - y0) / ufuncs.where(is_step, 1.0, width))
    inner = y0 + slope * (values - x0)
    result = ufuncs.where(values < points[0], _value_beyond("left", left, heights[0], inner), inner)
    return ufuncs.where(values > points[-1], _value_beyond("right", right, heights[-1], inner), result)


def _value_beyond(name: str, given: Any, end: Array, line: Array) -> Any:
    """Return the value that `interp` has on one side of the points."""
    if isinstance(given, str):
        if given != "extrapolate":
            rule, fix = f"interp takes a number, or one word, as {name}.", "Use 'extrapolate' for that word."
            raise ValueError(message(rule, f"{name}: {given!r}", fix=fix))
        return line
    return end if given is None else checked_operand("interp", given, name)


def _periodic_points(values: Array, points: Array, heights: Array, period: Any) -> tuple[Array, Array, Array]:
    """Move all points into one period, in order, with one point of the period before and one of the period after."""
    known = known_value(period) if isinstance(period, Array) else period
    if known is not None and (np.ndim(known) or float(known) == 0):
        rule, fix = "interp takes a period, a number other than 0.", "Leave it out for functions without one."
        raise ValueError(message(rule, f"period: {known}", fix=fix))
    length = ufuncs.abs(as_array("interp", period, "period"))
    values, points = ufuncs.remainder(values, length), ufuncs.remainder(points, length)
    order = stable_order(points, 0)
    points, heights = getitem(points, order), getitem(heights, order)
    last = points.size - 1
    points = concatenate([points[last:] - length, points, points[:1] + length], 0)
    return values, points, concatenate([heights[last:], heights, heights[:1]], 0)


@evaluated_whole
@array_function
@halves_in_float32
def trapezoid(y: ArrayLike, x: Any = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """Return the integral along an axis by the trapezoidal rule, between points `x` or in steps of `dx`.

    >>> import didax.numpy as dnp
    >>> dnp.trapezoid(dnp.array([0.0, 1.0, 2.0]))
    Array(2., dtype=float32)
    """
    given = [as_array("trapezoid", y, "y")] if x is None else [as_array("trapezoid", y, "y"), x]
    values, *x_values = promote_dtypes("trapezoid", *given, to_inexact=True)
    dimension = canonical_axis("trapezoid", axis, values.ndim)
    values = move_axis(values, dimension, values.ndim - 1)
    steps: Any = dx
    for points in x_values:
        if points.ndim != 1:  # the points have an axis of this name of their own, and broadcast
            points = move_axis(points, canonical_axis("trapezoid", axis, points.ndim), points.ndim - 1)
        steps = points[..., 1:] - points[..., :-1]
    n = values.shape[-1]
    if x is None and not is_symbolic(n) and n > 1 and np.ndim(dx) == 0:  # the values are read once
        return (array_sum(values[..., 1:-1], -1) + (values[..., 0] + values[..., -1]) * 0.5) * steps
    return array_sum((values[..., 1:] + values[..., :-1]) * steps, -1) * 0.5
