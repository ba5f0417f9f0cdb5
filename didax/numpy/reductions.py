"""Reductions and running totals: sum, mean, var, max, argmax, cumsum, and their forms that ignore NaN.

All functions take `axis` (None for every axis, an integer, or a tuple where several axes make sense; sums, extrema,
means and variances also names of mapped axes) and `keepdims`; `where` leaves elements out. Sums and products of
integers widen to the default width, and of booleans are integers; narrow floats are accumulated in float32 and
rounded once. Results are never weakly typed. Read next: `order_statistics.py` (quantiles),
`didax/primitives/reductions.py` and `didax/primitives/cumulative.py` (the primitives).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.declarations import no_numbers
from didax.core.errors import ArgumentError, message
from didax.core.value import Array
from didax.lax.parallel import axis_size, pmax, pmin, psum
from didax.numpy import ufuncs
from didax.numpy.promotion import (
    ArrayLike,
    DTypeLike,
    as_array,
    as_array_of,
    broadcast,
    broadcast_shapes,
    cast,
    constant,
    inexact,
    no_out,
)
from didax.numpy.ufunc import truth
from didax.numpy.ufuncs import isnan, where
from didax.primitives import cumulative
from didax.primitives import elementwise as el
from didax.primitives import reductions as rd
from didax.primitives.dimension import number
from didax.primitives.narrow import halves_in_float32
from didax.primitives.shape import broadcast_in_dim, reduce_sum, reshape, transpose
from didax.primitives.slicing import pad

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "cumprod", "cumsum",
    "cumulative_prod", "cumulative_sum", "max", "mean", "min", "nanargmax", "nanargmin", "nancumprod",
    "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "prod", "ptp", "std",
    "sum", "var",
]  # fmt: skip

Axis = int | Sequence[int] | None
_FLOAT32 = np.dtype(np.float32)
_BOOL = np.dtype(np.bool_)


# --- axes and dtypes ----------------------------------------------------------------------------------------


def canonical_axis(name: str, axis: Any, ndim: int) -> int:
    """Return an axis from 0 to ndim - 1; AxisError for an axis out of range, TypeError for a non-integer."""
    try:
        found = operator.index(axis)
    except TypeError:
        if isinstance(axis, Array):
            raise
        raise TypeError(
            message(
                f"{name} takes axes as integers.",
                f"axis: {axis!r:.60}",
                fix="Pass an int, or a tuple of ints where several are meant.",
            )
        ) from None
    if not -ndim <= found < ndim:
        fix = (
            f"Use an axis from {-ndim} to {ndim - 1}."
            if ndim
            else "An array without axes has none to name; use axis=None."
        )
        raise np.exceptions.AxisError(
            message(f"{name} takes an axis of the array.", f"axis: {found}, array of {ndim} axes", fix=fix)
        )
    return found % ndim


def axes_and_names(name: str, axis: Any, ndim: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the axes of an array, and the names of mapped axes, along which collectives go on with a reduction."""
    listed: Any = axis if isinstance(axis, tuple | list) else (axis,)
    if str not in map(type, listed):
        return canonical_axes(name, axis, ndim), ()
    axes = tuple([i for i in listed if not isinstance(i, str)])
    return canonical_axes(name, axes, ndim), tuple([i for i in listed if isinstance(i, str)])


def canonical_axes(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Return distinct axes from 0 to ndim - 1 for an integer, a tuple, a vector, or None, which means all axes."""
    if axis is None:
        return tuple(range(ndim))
    several = isinstance(axis, tuple | list | range) or getattr(axis, "ndim", 0)
    axes = tuple([canonical_axis(name, i, ndim) for i in (axis if several else (axis,))])
    if len(set(axes)) != len(axes):
        raise ArgumentError(
            message(f"{name} takes each axis once.", f"axis: {axis}", fix="Name every axis at most once.")
        )
    return axes


def _with_kept_axes(y: Any, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Any:
    return reshape(y, tuple([1 if i in axes else n for i, n in enumerate(shape)])) if keepdims else y


def _integer_accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which sums and products of integers are kept: at least the default width."""
    kind = dtypes.kind_of(dtype)
    if kind == "b":
        return dtypes.default_dtype("i")
    if kind in "iu" and dtype.itemsize < dtypes.default_dtype(kind).itemsize:
        return dtypes.default_dtype(kind)
    return dtype


def _mask(name: str, where_: Any) -> Array:
    mask = as_array(name, where_, "where")
    if mask.dtype != np.bool_:
        rule = f"{name} takes booleans that say which elements count."
        raise ArgumentError(message(rule, f"where: {mask.aval}", fix="Compare first, as in where=(w != 0)."))
    return mask


def _masked(name: str, x: Array, where_: Any, identity: Any) -> Array:
    if where_ is None:
        return x
    mask = _mask(name, where_)
    shape = broadcast_shapes(name, [x.shape, mask.shape])
    return where(mask, broadcast(x, shape), constant(identity, x.dtype))


def _reduce(
    bind: Callable[[Any, tuple[int, ...]], Any],
    combine: Callable[[Any, Any], Any],
    x: Array,
    axes: tuple[int, ...],
    keepdims: bool,
    initial: Any,
) -> Array:
    result = _with_kept_axes(bind(x, axes), x.shape, axes, keepdims)
    return (
        result
        if initial is None
        else combine(result, as_array_of("reduction", initial, result.dtype, argument="initial"))
    )


# --- sums and products --------------------------------------------------------------------------------------


def _sum_or_product(
    name: str,
    bind: Any,
    combine: Any,
    identity: int,
    a: Any,
    axis: Any,
    dtype: Any,
    keepdims: bool,
    initial: Any,
    where_: Any,
) -> Array:
    x = as_array(name, a, "a")
    stated = _integer_accumulator(x.dtype) if dtype is None else dtypes.dtype(dtype)
    x = truth(x) if stated == _BOOL else x  # 0.5 is true, although the integer of 0.5 is 0
    wide = dtypes.default_dtype("i") if stated == _BOOL else dtypes.at_least_single(stated)
    x = _masked(name, cast(x, wide), where_, identity)
    axes, names = (
        axes_and_names(name, axis, x.ndim) if name == "sum" else (canonical_axes(name, axis, x.ndim), ())
    )
    reduce = (lambda x, axes: psum(bind(x, axes), names)) if names else bind
    return cast(_reduce(reduce, combine, x, axes, keepdims, initial), stated)


def _product_over(x: Any, axes: tuple[int, ...]) -> Any:
    return rd.reduce_prod_p.bind(x, axes=axes) if axes else x


@evaluated_whole
@array_function
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Return the sum over axes, starting from `initial`; `promote_integers=False` keeps narrow integers narrow.

    >>> import didax.numpy as dnp
    >>> dnp.sum(dnp.array([[1, 2], [3, 4]]), axis=0)
    Array([4, 6], dtype=int32)
    """
    no_out("sum", out)
    dtype = dtype if promote_integers else _own_dtype("sum", a, dtype)
    return _sum_or_product("sum", reduce_sum, el.add, 0, a, axis, dtype, keepdims, initial, where)


def _own_dtype(name: str, a: Any, dtype: DTypeLike) -> DTypeLike:
    """Return the given dtype; without one, the dtype of `a` if sums exist in it."""
    own = as_array(name, a).dtype
    return own if dtype is None and own != _BOOL else dtype


@evaluated_whole
@array_function
def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Return the product over axes, starting from `initial`; `promote_integers=False` keeps narrow integers narrow.

    >>> import didax.numpy as dnp
    >>> dnp.prod(dnp.array([2, 3, 4]))
    Array(24, dtype=int32)
    """
    no_out("prod", out)
    dtype = dtype if promote_integers else _own_dtype("prod", a, dtype)
    return _sum_or_product("prod", _product_over, el.mul, 1, a, axis, dtype, keepdims, initial, where)


def _count(name: str, x: Array, axes: Sequence[Any], where_: Any, keepdims: bool) -> Any:
    """Return how many elements contribute to each result: a number, or an array if `where` leaves some out."""
    if where_ is None:
        return math.prod([axis_size(i) if isinstance(i, str) else x.shape[i] for i in axes])
    mask = broadcast(_mask(name, where_), x.shape)
    return sum(mask, axis=tuple(axes), keepdims=keepdims)


@evaluated_whole
@array_function
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Return the mean over axes; the mean of integers is a float. NaN where there are no elements.

    >>> import didax.numpy as dnp
    >>> dnp.mean(dnp.array([1, 2]))
    Array(1.5, dtype=float32)
    """
    no_out("mean", out)
    x = as_array("mean", a, "a")
    stated = inexact(x.dtype, x.weak_type)[0] if dtype is None else dtypes.dtype(dtype)
    compute = dtypes.at_least_single(inexact(stated, False)[0])
    positions, names = axes_and_names("mean", axis, x.ndim)
    axes: Any = positions + names
    total = sum(cast(x, compute), axes, keepdims=keepdims, where=where)
    count = _count("mean", x, axes, where, keepdims)
    return cast(
        el.div(total, cast(count, compute) if isinstance(count, Array) else number(count, compute)), stated
    )


@evaluated_whole
@array_function
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | float | None = None,
) -> Array:
    """Return the variance over axes: the mean of |x - mean(x)|², with `ddof` (or `correction`) taken off the count.

    The variance is NaN, with derivative 0, where there are no more than `ddof` elements.

    >>> import didax.numpy as dnp
    >>> dnp.var(dnp.array([1.0, 3.0]), ddof=1)
    Array(2., dtype=float32)
    """
    no_out("var", out)
    variance, stated = _variance(
        a, axis, dtype, ddof if correction is None else correction, keepdims, where, mean
    )
    return cast(variance, stated)


def _variance(
    a: Any, axis: Axis, dtype: DTypeLike, fewer: Any, keepdims: bool, where: Any, mean: Any
) -> tuple[Array, np.dtype[Any]]:
    """Return the variance as it is computed, whose root may not overflow where it does, and the dtype of the result."""
    x = as_array("var", a, "a")
    computed = inexact(x.dtype, x.weak_type)[0]
    stated = dtypes.real_dtype(computed) if dtype is None else dtypes.dtype(dtype)
    compute = dtypes.at_least_single(computed)
    if dtype is not None:
        wide = dtypes.at_least_single(inexact(stated, False)[0])
        compute = dtypes.join(compute, False, wide, False)[0]
    positions, names = axes_and_names("var", axis, x.ndim)
    axes: Any = positions + names
    x = cast(x, compute)
    center = (
        _mean(x, axis=axes, keepdims=True, where=where)
        if mean is None
        else as_array_of("var", mean, compute, argument="mean")
    )
    # Elements that are left out get the offset 0: the derivative of the square would be NaN where the center
    # is NaN.
    offset = _masked("var", ufuncs.subtract(x, center), where, 0)
    squares = el.real(el.mul(offset, el.conj(offset))) if dtypes.is_complex(compute) else el.square(offset)
    total = sum(squares, axes, keepdims=keepdims)
    count = _count("var", x, axes, where, keepdims)
    return _over_degrees_of_freedom(total, count, fewer), stated


def _over_degrees_of_freedom(total: Array, count: Any, fewer: Any) -> Array:
    """Return total / (count - fewer); NaN, a constant, where no degree of freedom is left."""
    nan = constant(np.nan, total.dtype)
    if type(count) is int and type(fewer) in (int, float):
        # The difference is taken in Python, which has no largest integer.
        freedom = count - fewer
        return el.div(total, number(freedom, total.dtype)) if freedom > 0 else broadcast(nan, total.shape)
    freedom = cast(ufuncs.subtract(count, fewer), total.dtype)
    is_left = ufuncs.greater(freedom, 0)
    return where(is_left, ufuncs.divide(total, where(is_left, freedom, 1)), nan)


_mean = mean


@evaluated_whole
@array_function
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | float | None = None,
) -> Array:
    """Return the standard deviation over axes, the square root of `var`; where it is 0 its derivative is 0.

    >>> import didax.numpy as dnp
    >>> dnp.std(dnp.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    no_out("std", out)
    return _root(
        *_variance(a, axis, dtype, ddof if correction is None else correction, keepdims, where, mean)
    )


def _root(variance: Array, stated: np.dtype[Any]) -> Array:
    """Return the square root, with derivative 0 at 0, and where the variance is a constant NaN."""
    is_positive = ufuncs.greater(variance, 0)
    return cast(where(is_positive, ufuncs.sqrt(where(is_positive, variance, 1)), variance), stated)


@evaluated_whole
@array_function
@halves_in_float32
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """Return the weighted mean; with `returned` also the sum of the weights.

    The weights have the shape of `a`, or the shape of the axes in the order in which `axis` names them.

    >>> import didax.numpy as dnp
    >>> dnp.average(dnp.array([1.0, 4.0]), weights=dnp.array([2.0, 1.0]))
    Array(2., dtype=float32)
    """
    x = as_array("average", a, "a")
    axes = canonical_axes("average", axis, x.ndim)
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        count = number(_count("average", x, axes, None, False), result.dtype)
        return (result, broadcast(as_array("average", count), result.shape)) if returned else result
    w = as_array("average", weights, "weights")
    w = weights_over("average", x, w, axis)
    dtype = inexact(*dtypes.result_type((x.dtype, x.weak_type), (w.dtype, w.weak_type)))[0]
    x, w = cast(x, dtype), cast(w, dtype)
    total = sum(w, axes, keepdims=keepdims)
    result = el.div(sum(el.mul(x, w), axes, keepdims=keepdims), total)
    return (result, total) if returned else result


def weights_over(name: str, x: Array, w: Array, axis: Axis) -> Array:
    """Weights in the shape of `x`, given for each element or for the axes in the order in which `axis` names them."""
    if w.shape == x.shape:
        return w
    axes = canonical_axes(name, axis, x.ndim)
    if axis is None or w.shape != tuple([x.shape[i] for i in axes]):
        raise ValueError(
            message(
                f"{name} takes weights of the shape of a, or of the axes that it is taken over.",
                f"a: {x.aval}, weights: {w.aval}, axis: {axis}",
                fix="Name the axes that the weights belong to, in their order, or broadcast the weights.",
            )
        )
    order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    return broadcast_in_dim(transpose(w, order), x.shape, tuple(sorted(axes)))


# --- extrema ------------------------------------------------------------------------------------------------


def _extremum(
    name: str, primitive: Any, combine: Any, a: Any, axis: Any, keepdims: bool, initial: Any, where_: Any
) -> Array:
    x = as_array(name, a, "a")
    if (error := no_numbers(name, (x.aval,))) is not None:
        raise error
    axes, names = axes_and_names(name, axis, x.ndim)
    if initial is None and (where_ is not None or 0 in [x.shape[i] for i in axes]):
        raise ValueError(
            message(
                f"{name} of nothing is not defined.",
                f"a: {x.aval}, axes: {axes}" + ("" if where_ is None else ", where: given"),
                fix="Give `initial`, the result where there are no elements.",
            )
        )
    x = _masked(name, cast(x, x.dtype), where_, primitive.identity(x.dtype))
    whole = lambda x, axes: primitive.bind(x, axes=axes) if axes else x
    collective = pmax if name == "max" else pmin
    reduce = (lambda x, axes: collective(whole(x, axes), names)) if names else whole
    return _reduce(reduce, combine, x, axes, keepdims, initial)


@evaluated_whole
@array_function
def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the largest element over axes; NaN if there is one.

    ValueError for empty axes unless `initial` is given.

    >>> import didax.numpy as dnp
    >>> dnp.max(dnp.array([[1, 5], [3, 2]]), axis=1)
    Array([5, 3], dtype=int32)
    """
    no_out("max", out)
    return _extremum("max", rd.reduce_max_p, el.max_, a, axis, keepdims, initial, where)


@evaluated_whole
@array_function
def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the smallest element over axes; NaN if there is one.

    ValueError for empty axes unless `initial` is given.

    >>> import didax.numpy as dnp
    >>> dnp.min(dnp.array([[1, 5], [3, 2]]), axis=1)
    Array([1, 2], dtype=int32)
    """
    no_out("min", out)
    return _extremum("min", rd.reduce_min_p, el.min_, a, axis, keepdims, initial, where)


amax, amin = max, min


@evaluated_whole
@array_function
def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Return the difference of the largest and the smallest element.

    >>> import didax.numpy as dnp
    >>> dnp.ptp(dnp.array([3, 1, 7]))
    Array(6, dtype=int32)
    """
    return ufuncs.subtract(max(a, axis, out, keepdims), min(a, axis, out, keepdims))


def _position(name: str, primitive: Any, a: Any, axis: int | None, keepdims: bool | None) -> Array:
    x = as_array(name, a, "a")
    shape = x.shape
    if axis is None:
        x, dimension, axes = reshape(x, (x.size,)), 0, tuple(range(len(shape)))
    else:
        dimension = canonical_axis(name, axis, x.ndim)
        axes = (dimension,)
    result = primitive.bind(x, axes=(dimension,), index_dtype=dtypes.default_dtype("i"))
    return _with_kept_axes(result, shape, axes, bool(keepdims))


@evaluated_whole
@array_function
def argmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Return the position of the largest element along an axis (of the ravelled array by default).

    NaN counts as the largest element.

    >>> import didax.numpy as dnp
    >>> dnp.argmax(dnp.array([1, 5, 5]))
    Array(1, dtype=int32)
    """
    no_out("argmax", out)
    return _position("argmax", rd.argmax_p, a, axis, keepdims)


@evaluated_whole
@array_function
def argmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Return the position of the smallest element along an axis (of the ravelled array by default).

    NaN counts as the smallest element.

    >>> import didax.numpy as dnp
    >>> dnp.argmin(dnp.array([4, 1, 1]))
    Array(1, dtype=int32)
    """
    no_out("argmin", out)
    return _position("argmin", rd.argmin_p, a, axis, keepdims)


# --- truth --------------------------------------------------------------------------------------------------


def _all_or_any(
    name: str, primitive: Any, identity: bool, a: Any, axis: Any, keepdims: bool, where_: Any
) -> Array:
    x = _masked(name, truth(as_array(name, a, "a")), where_, identity)
    axes = canonical_axes(name, axis, x.ndim)
    return _with_kept_axes(primitive.bind(x, axes=axes) if axes else x, x.shape, axes, keepdims)


@evaluated_whole
@array_function
def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether every element over axes is nonzero.

    >>> import didax.numpy as dnp
    >>> dnp.all(dnp.array([[True, False], [True, True]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    no_out("all", out)
    return _all_or_any("all", rd.reduce_and_p, True, a, axis, keepdims, where)


@evaluated_whole
@array_function
def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether some element over axes is nonzero.

    >>> import didax.numpy as dnp
    >>> dnp.any(dnp.array([0, 2]))
    Array(True, dtype=bool)
    """
    no_out("any", out)
    return _all_or_any("any", rd.reduce_or_p, False, a, axis, keepdims, where)


@evaluated_whole
@array_function
def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Return the number of nonzero elements over axes.

    >>> import didax.numpy as dnp
    >>> dnp.count_nonzero(dnp.array([0, 2, 3]))
    Array(2, dtype=int32)
    """
    return sum(truth(as_array("count_nonzero", a, "a")), axis, keepdims=keepdims)


# --- running totals -----------------------------------------------------------------------------------------


def _running(name: str, primitive: Any, a: Any, axis: int | None, dtype: Any) -> Array:
    x = as_array(name, a, "a")
    if axis is None or (not x.ndim and axis in (0, -1)):  # a number counts as a vector of it, as in NumPy
        x, axis = reshape(x, (x.size,)), 0
    stated = (
        (_integer_accumulator(x.dtype) if x.dtype == _BOOL else x.dtype)
        if dtype is None
        else dtypes.dtype(dtype)
    )
    dimension = canonical_axis(name, axis, x.ndim)
    if stated == _BOOL:
        numbers = cast(truth(x), dtypes.default_dtype("i"))  # 0.5 is true, although the integer of 0.5 is 0
        return truth(primitive.bind(numbers, axis=dimension, reverse=False))
    return primitive.bind(cast(x, stated), axis=dimension, reverse=False)


@evaluated_whole
@array_function
def cumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """Return running sums along an axis (of the ravelled array by default), in the dtype of `a` unless one is given.

    >>> import didax.numpy as dnp
    >>> dnp.cumsum(dnp.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    no_out("cumsum", out)
    return _running("cumsum", cumulative.cumsum_p, a, axis, dtype)


@evaluated_whole
@array_function
def cumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """Return running products along an axis (of the ravelled array by default).

    The dtype is the dtype of `a` unless one is given.

    >>> import didax.numpy as dnp
    >>> dnp.cumprod(dnp.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    no_out("cumprod", out)
    return _running("cumprod", cumulative.cumprod_p, a, axis, dtype)


def _running_with_initial(
    name: str, running: Any, start: int, x: Any, axis: int | None, dtype: Any, include_initial: bool
) -> Array:
    values = as_array(name, x)
    if axis is None and values.ndim != 1:
        raise ValueError(
            message(f"{name} needs an axis unless x is a vector.", f"x: {values.aval}", fix="Give axis=.")
        )
    dimension = canonical_axis(name, 0 if axis is None else axis, values.ndim)
    stated = _integer_accumulator(values.dtype) if dtype is None else dtype
    result = running(values, dimension, stated)
    if not include_initial:
        return result
    return pad(
        result, result.dtype.type(start), tuple([(int(i == dimension), 0, 0) for i in range(result.ndim)])
    )


@array_function
def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """Return running sums along an axis; with `include_initial` they start with 0.

    >>> import didax.numpy as dnp
    >>> dnp.cumulative_sum(dnp.array([1, 2]), include_initial=True)
    Array([0, 1, 3], dtype=int32)
    """
    return _running_with_initial("cumulative_sum", cumsum, 0, x, axis, dtype, include_initial)


@array_function
def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """Return running products along an axis; with `include_initial` they start with 1.

    >>> import didax.numpy as dnp
    >>> dnp.cumulative_prod(dnp.array([2, 3]), include_initial=True)
    Array([1, 2, 6], dtype=int32)
    """
    return _running_with_initial("cumulative_prod", cumprod, 1, x, axis, dtype, include_initial)


# --- without NaN --------------------------------------------------------------------------------------------


def without_nan(name: str, a: Any, replacement: Any) -> tuple[Array, Array | None]:
    """Return `a` with NaN replaced, and a mask of the NaNs; the mask is None where the dtype has no NaN."""
    x = as_array(name, a, "a")
    if not dtypes.is_inexact(x.dtype):
        return x, None
    missing = isnan(x)
    return where(missing, constant(replacement, x.dtype), x), missing


def _is_counted(name: str, missing: Array | None, where_: Any) -> Any:
    if missing is None:
        return where_
    present = el.not_(missing)
    return present if where_ is None else ufuncs.logical_and(present, _mask(name, where_))


@evaluated_whole
@array_function
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the sum over axes, as `sum` does, with 0 in the place of NaN.

    >>> import didax.numpy as dnp
    >>> dnp.nansum(dnp.array([1.0, dnp.nan]))
    Array(1., dtype=float32)
    """
    return sum(without_nan("nansum", a, 0)[0], axis, dtype, out, keepdims, initial, where)


@evaluated_whole
@array_function
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the product over axes, as `prod` does, with 1 in the place of NaN.

    >>> import didax.numpy as dnp
    >>> dnp.nanprod(dnp.array([2.0, dnp.nan]))
    Array(2., dtype=float32)
    """
    return prod(without_nan("nanprod", a, 1)[0], axis, dtype, out, keepdims, initial, where)


@evaluated_whole
@array_function
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """Return the mean of the elements that are not NaN.

    >>> import didax.numpy as dnp
    >>> dnp.nanmean(dnp.array([1.0, dnp.nan, 3.0]))
    Array(2., dtype=float32)
    """
    x, missing = without_nan("nanmean", a, 0)
    return mean(x, axis, dtype, out, keepdims, where=_is_counted("nanmean", missing, where))


@evaluated_whole
@array_function
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Return the variance of the elements that are not NaN; NaN where fewer than `ddof` + 1 numbers are left.

    >>> import didax.numpy as dnp
    >>> dnp.nanvar(dnp.array([1.0, dnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    x, missing = without_nan("nanvar", a, 0)
    return var(x, axis, dtype, out, ddof, keepdims, where=_is_counted("nanvar", missing, where), mean=mean)


@evaluated_whole
@array_function
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Return the standard deviation of the elements that are not NaN; where it is 0 its derivative is 0.

    >>> import didax.numpy as dnp
    >>> dnp.nanstd(dnp.array([1.0, dnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    no_out("nanstd", out)
    x, missing = without_nan("nanstd", a, 0)
    return _root(*_variance(x, axis, dtype, ddof, keepdims, _is_counted("nanstd", missing, where), mean))


def _nan_extremum(
    name: str, reduce: Any, primitive: Any, a: Any, axis: Any, keepdims: bool, initial: Any, where_: Any
) -> Array:
    x = as_array(name, a, "a")
    filled, missing = without_nan(name, x, primitive.identity(x.dtype))
    result = reduce(filled, axis, None, keepdims, initial, where_)
    if missing is None:
        return result
    nothing = all(missing, axis, keepdims=keepdims, where=where_)
    return result if initial is not None else where(nothing, constant(np.nan, result.dtype), result)


@evaluated_whole
@array_function
def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the largest element that is not NaN; NaN where no element is left.

    >>> import didax.numpy as dnp
    >>> dnp.nanmax(dnp.array([1.0, dnp.nan]))
    Array(1., dtype=float32)
    """
    no_out("nanmax", out)
    return _nan_extremum("nanmax", max, rd.reduce_max_p, a, axis, keepdims, initial, where)


@evaluated_whole
@array_function
def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the smallest element that is not NaN; NaN where no element is left.

    >>> import didax.numpy as dnp
    >>> dnp.nanmin(dnp.array([1.0, dnp.nan]))
    Array(1., dtype=float32)
    """
    no_out("nanmin", out)
    return _nan_extremum("nanmin", min, rd.reduce_min_p, a, axis, keepdims, initial, where)


def _nan_position(name: str, find: Any, replacement: float, a: Any, axis: Any, keepdims: Any) -> Array:
    x, missing = without_nan(name, a, replacement)
    result = find(x, axis, keepdims=keepdims)
    if missing is None:
        return result
    return where(all(missing, axis, keepdims=bool(keepdims)), -1, result)


@evaluated_whole
@array_function
def nanargmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Return the position of the largest element that is not NaN; -1 where no element is left.

    >>> import didax.numpy as dnp
    >>> dnp.nanargmax(dnp.array([dnp.nan, 1.0]))
    Array(1, dtype=int32)
    """
    no_out("nanargmax", out)
    return _nan_position("nanargmax", argmax, -np.inf, a, axis, keepdims)


@evaluated_whole
@array_function
def nanargmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Return the position of the smallest element that is not NaN; -1 where no element is left.

    >>> import didax.numpy as dnp
    >>> dnp.nanargmin(dnp.array([dnp.nan, 1.0]))
    Array(1, dtype=int32)
    """
    no_out("nanargmin", out)
    return _nan_position("nanargmin", argmin, np.inf, a, axis, keepdims)


@evaluated_whole
@array_function
def nancumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """Return running sums, as `cumsum` does, with 0 in the place of NaN.

    >>> import didax.numpy as dnp
    >>> dnp.nancumsum(dnp.array([1.0, dnp.nan, 2.0]))
    Array([1., 1., 3.], dtype=float32)
    """
    return cumsum(without_nan("nancumsum", a, 0)[0], axis, dtype, out)


@evaluated_whole
@array_function
def nancumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
    """Return running products, as `cumprod` does, with 1 in the place of NaN.

    >>> import didax.numpy as dnp
    >>> dnp.nancumprod(dnp.array([2.0, dnp.nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """
    return cumprod(without_nan("nancumprod", a, 1)[0], axis, dtype, out)
