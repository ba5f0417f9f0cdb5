"""Order statistics: quantiles, percentiles, medians, and their forms that ignore NaN.

The elements over `axis` are sorted, and a quantile lies at the position `q * (n - 1)` of their order; between
two elements the `method` decides. By the method "inverted_cdf" the quantile is the first element up to which a share
`q` of the elements lies, or of their weights. NaN sorts to the end: the result is NaN if there is one, and the
functions that ignore NaN take the numbers before it. Read next: `reductions.py`, `didax/primitives/sort.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from didax.api.numpy_functions import Declined, computed_by
from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.errors import ArgumentError, message
from didax.core.value import Array
from didax.numpy import ufuncs
from didax.numpy.promotion import ArrayLike, as_array, as_array_of, broadcast, cast, constant, inexact, no_out
from didax.numpy.reductions import Axis, canonical_axes, cumsum, weights_over
from didax.numpy.reductions import all as all_of
from didax.numpy.reductions import sum as array_sum
from didax.numpy.ufuncs import isnan, where
from didax.primitives import elementwise as el
from didax.primitives.convert import stop_gradient_p
from didax.primitives.gather import gather_p
from didax.primitives.reductions import is_narrow_float
from didax.primitives.shape import move_axis, reshape
from didax.primitives.slicing import concatenate, slice_axis
from didax.primitives.sort import sort_p
from didax.primitives.window_positions import GatherDimensionNumbers, GatherScatterMode

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

# (low neighbour, high neighbour, fraction, the library's where) -> quantile
_Method = Callable[[Any, Any, Any, Callable[..., Any]], Any]
_METHODS: dict[str, _Method] = {
    "linear": lambda low, high, t, where: low * (1 - t) + high * t,
    "lower": lambda low, high, t, where: low,
    "higher": lambda low, high, t, where: where(t > 0, high, low),
    "nearest": lambda low, high, t, where: where(t > 0.5, high, low),
    "midpoint": lambda low, high, t, where: where(t > 0, (low + high) * 0.5, low),
}


_OF_WEIGHTS = "inverted_cdf"


def _checked_method(name: str, method: str, weights: Any) -> None:
    known = [*_METHODS, _OF_WEIGHTS]
    if method not in known:
        fix = f"Use one of {', '.join(map(repr, known))}."
        raise ValueError(message(f"{name} has no such method.", f"method: {method!r}", fix=fix))
    if weights is not None and method != _OF_WEIGHTS:
        rule = f"{name} takes weights by the method {_OF_WEIGHTS!r} only."
        fix = f"Pass method={_OF_WEIGHTS!r}, or leave out the weights."
        raise NotImplementedError(message(rule, f"method: {method!r}, weights: given", fix=fix))


def _real(name: str, x: Any, argument: str) -> Array:
    array = as_array(name, x, argument)
    if dtypes.is_complex(array.dtype):
        fix = "Take the real or the imaginary part."
        raise ArgumentError(message(f"{name} takes real numbers.", f"{argument}: {array.aval}", fix=fix))
    return array


def _quantile(
    name: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, ignore_nan: bool, weights: Any = None
) -> Array:
    _checked_method(name, method, weights)
    x, w = _real(name, a, "a"), None if weights is None else _real(name, weights, "weights")
    found = (
        (x.dtype, x.weak_type) if w is None else dtypes.result_type(*[(y.dtype, y.weak_type) for y in (x, w)])
    )
    dtype = inexact(*found)[0]
    wide = np.dtype(np.float32) if is_narrow_float(dtype) else dtype  # positions need 24 bits
    x, probability = cast(x, dtype), as_array_of(name, q, wide, argument="q")
    axes = canonical_axes(name, axis, x.ndim)
    kept = tuple([n for i, n in enumerate(x.shape) if i not in axes])
    rows = _axes_last(x, axes)
    if rows.size == 0:  # no elements: NaN, as for the mean
        shown = tuple([1 if i in axes else n for i, n in enumerate(x.shape)]) if keepdims else kept
        return broadcast(constant(np.nan, dtype), (*probability.shape, *shown))
    columns = [rows] if w is None else [rows, _axes_last(cast(weights_over(name, x, w, axis), wide), axes)]
    rows, *heavy = sort_p.bind(*columns, dimension=rows.ndim - 1, is_stable=True, num_keys=1)
    result = cast(
        _interpolated(cast(rows, wide), probability, *heavy, method=method, ignore_nan=ignore_nan), dtype
    )
    if keepdims:
        kept = tuple([1 if i in axes else n for i, n in enumerate(x.shape)])
    return reshape(result, (*probability.shape, *kept))


def _share(q: Any) -> Any:
    """Percents as shares of 1; a Python number stays one, and keeps its digits for the dtype of the elements."""
    return q / 100 if type(q) in (int, float) else ufuncs.divide(q, 100)


def _axes_last(x: Array, axes: tuple[int, ...]) -> Array:
    """Merge the axes into one axis at the end."""
    for i, axis in enumerate(sorted(axes)):
        x = move_axis(x, axis - i, x.ndim - 1)
    kept = x.shape[: x.ndim - len(axes)]
    return reshape(x, (*kept, math.prod(x.shape[x.ndim - len(axes) :])))


def _by_numpy(rows: Any, q: Any, *, method: str, ignore_nan: bool) -> Any:
    """`_interpolated` of NumPy values."""
    if method not in _METHODS:
        raise Declined
    dtype, kept, length = rows.dtype, rows.shape[:-1], rows.shape[-1]
    rows = rows.reshape(-1, length)
    if (
        len(rows) == q.size == 1
        and (found := _of_a_row(rows[0], q.reshape(())[()], method, ignore_nan)) is not None
    ):
        out = np.empty((1, *kept), dtype)
        out.fill(found)
        return out
    is_nan = np.isnan(rows[:, 0 if ignore_nan else -1])
    last = dtype.type(length - 1)
    if ignore_nan:
        last = np.maximum(last - np.isnan(rows).sum(-1, dtype=dtype), dtype.type(0))
    elif is_nan.any():
        rows = np.where(is_nan[:, None], dtype.type(np.nan), rows)
    place, each = q.reshape(-1, 1) * last, np.arange(len(rows))
    low = np.floor(place)
    below, above = [rows[each, np.fmin(np.fmax(i, 0), last).astype(np.intp)] for i in (low, np.ceil(place))]
    return _METHODS[method](below, above, place - low, np.where).reshape(-1, *kept)


def _of_a_row(row: Any, q: Any, method: str, ignore_nan: bool) -> Any:
    """One quantile of one row by operators of numbers, which are faster than functions of arrays; None for a NaN."""
    last = len(row) - 1
    if ignore_nan and row[last] != row[last]:
        last -= np.count_nonzero(row != row)
    place = q * row.dtype.type(last) + 0.0  # not -0.0
    if not (0 <= place <= last) or row[last] != row[last]:
        return None
    low = math.floor(place)
    choose = lambda condition, x, y: x if condition else y
    return _METHODS[method](row[low], row[math.ceil(place)], place - row.dtype.type(low), choose)


@computed_by(_by_numpy, lambda avals: len(avals) == 2)
def _interpolated(
    rows: Array, q: Array, weights: Array | None = None, *, method: str, ignore_nan: bool
) -> Array:
    """Return quantiles of sorted rows, in an array of shape (q.size, *rows.shape[:-1]); NaN is sorted to the end."""
    dtype, length, axis = rows.dtype, rows.shape[-1], rows.ndim - 1
    shares = reshape(q, (q.size,))
    count = constant(length, dtype)
    if ignore_nan:
        count = el.sub(count, array_sum(isnan(rows), -1, dtype=dtype, keepdims=True))
    # Elements become NaN, not the result: so the derivatives by q are NaN in both modes.
    start = 0 if ignore_nan else length - 1
    is_nan = isnan(slice_axis(rows, start, start + 1, axis))
    elements = lambda place: where(is_nan, constant(np.nan, dtype), _elements_at(rows, place))
    last = ufuncs.maximum(count - 1, 0)
    if weights is not None:
        place, usable = _place_by_weight(shares, weights, isnan(rows))
        found = where(usable, elements(ufuncs.minimum(place, last)), constant(np.nan, dtype))
    elif method == _OF_WEIGHTS:
        place = el.ceil(ufuncs.multiply(shares, count)) - 1
        found = where(isnan(shares), shares, elements(ufuncs.clip(place, 0, last)))
    else:
        place = ufuncs.multiply(shares, last)
        low = el.floor(place)
        both = elements(concatenate([low, ufuncs.minimum(el.ceil(place), last)], low.ndim - 1))
        below, above = (slice_axis(both, i, i + q.size, axis) for i in (0, q.size))
        found = _METHODS[method](below, above, el.sub(place, low), where)
    return move_axis(found, axis, 0)


def _place_by_weight(shares: Array, weights: Array, missing: Array) -> tuple[Array, Array]:
    """How many elements lie below a share of the weights of their row, and whether the weights say so.

    An element without weight is not a quantile, not even of the share 0. Weights that are negative, infinite or NaN,
    or that are all 0, have no quantiles.
    """
    weights = stop_gradient_p.bind(weights)
    valid = el.and_(el.ge(weights, 0), el.is_finite(weights))
    sums = cumsum(where(el.and_(valid, el.not_(missing)), weights, 0), -1)
    total = slice_axis(sums, sums.shape[-1] - 1, sums.shape[-1], sums.ndim - 1)
    usable = el.and_(all_of(valid, -1, keepdims=True), ufuncs.greater(total, 0))
    goal = ufuncs.multiply(shares, total)
    sums, goal = reshape(sums, (*sums.shape[:-1], 1, sums.shape[-1])), reshape(goal, (*goal.shape, 1))
    is_below = ufuncs.logical_or(ufuncs.less(sums, goal), ufuncs.equal(sums, 0))
    return array_sum(is_below, -1, dtype=shares.dtype), ufuncs.logical_and(usable, el.eq(shares, shares))


def _elements_at(rows: Array, place: Array) -> Array:
    """The elements of each row at its places, or at places that are those of all rows."""
    axis = rows.ndim - 1
    last = rows.shape[axis] - 1
    dtype = np.dtype(np.int64 if isinstance(last, int) and last >= 2**31 else np.int32)
    index = ufuncs.clip(cast(place, dtype), 0, last)
    own = tuple(range(place.ndim - 1))  # axes of rows with their own places
    kept = () if own else rows.shape[:-1]
    return gather_p.bind(
        rows,
        reshape(index, (*index.shape, 1)),
        dimension_numbers=GatherDimensionNumbers(tuple(range(len(kept))), (axis,), (axis,), own, own),
        slice_sizes=(*(kept or (1,) * axis), 1),
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=None,
        indices_are_sorted=False,
        unique_indices=False,
    )


@evaluated_whole
@array_function
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Return the values below which a share `q` (0 to 1) of the elements lies; the axes of `q` come first.

    `method` is "linear", "lower", "higher", "midpoint", "nearest" or "inverted_cdf", which takes `weights` of the
    elements, or of the axes in the order in which `axis` names them. Where weights are negative, infinite or NaN, or
    all of them are 0, the result is NaN.

    >>> import didax.numpy as dnp
    >>> dnp.quantile(dnp.array([0.0, 1.0, 2.0]), 0.25)
    Array(0.5, dtype=float32)
    """
    no_out("quantile", out)
    return _quantile("quantile", a, q, axis, method, keepdims, False, weights)


@evaluated_whole
@array_function
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Return quantiles as `quantile` does, of the elements that are not NaN.

    >>> import didax.numpy as dnp
    >>> dnp.nanquantile(dnp.array([0.0, dnp.nan, 2.0]), 0.5)
    Array(1., dtype=float32)
    """
    no_out("nanquantile", out)
    return _quantile("nanquantile", a, q, axis, method, keepdims, True, weights)


@evaluated_whole
@array_function
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Return quantiles as `quantile` does, with `q` from 0 to 100.

    >>> import didax.numpy as dnp
    >>> dnp.percentile(dnp.array([0.0, 1.0, 2.0]), 25)
    Array(0.5, dtype=float32)
    """
    return quantile(a, _share(q), axis, out, overwrite_input, method, keepdims, weights=weights)


@evaluated_whole
@array_function
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Return quantiles as `nanquantile` does, with `q` from 0 to 100.

    >>> import didax.numpy as dnp
    >>> dnp.nanpercentile(dnp.array([0.0, dnp.nan, 2.0]), 50)
    Array(1., dtype=float32)
    """
    return nanquantile(a, _share(q), axis, out, overwrite_input, method, keepdims, weights=weights)


@evaluated_whole
@array_function
def median(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """Return the element in the middle of the sorted order, or the mean of the two in the middle.

    >>> import didax.numpy as dnp
    >>> dnp.median(dnp.array([3.0, 1.0, 2.0]))
    Array(2., dtype=float32)
    """
    return quantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


@evaluated_whole
@array_function
def nanmedian(
    a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """Return the median of the elements that are not NaN.

    >>> import didax.numpy as dnp
    >>> dnp.nanmedian(dnp.array([3.0, dnp.nan, 2.0]))
    Array(2.5, dtype=float32)
    """
    return nanquantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)
