"""Sets as sorted vectors of distinct numbers: union, intersection, differences.

The length of a result depends on the values: under jit `size=` fixes it, and results are cut off or filled up
with `fill_value` (by default the smallest element of the result). Read next: `selection.py` (`unique`,
`isin`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.dims import as_length
from didax.core.value import Array
from didax.numpy import ufuncs
from didax.numpy.indexing import getitem
from didax.numpy.joining import concatenate
from didax.numpy.manipulation import ravel
from didax.numpy.promotion import ArrayLike, as_array, broadcast, cast, promote_dtypes
from didax.numpy.reductions import count_nonzero
from didax.numpy.selection import argsort, flatnonzero, isin, unique
from didax.primitives.convert import iota

__all__ = ["intersect1d", "setdiff1d", "setxor1d", "union1d"]


def _vectors(name: str, ar1: Any, ar2: Any) -> list[Array]:
    return [ravel(as_array(name, x, i)) for i, x in enumerate(promote_dtypes(name, ar1, ar2))]


def _selected(x: Array, mask: Array, size: int | None, fill_value: Any) -> Array:
    """Return the elements of a vector where the mask holds, `size` of them."""
    if size is None:
        return getitem(x, flatnonzero(mask))
    count: int = as_length(size)
    if not x.shape[0]:
        return broadcast(_fill_value(x, mask, fill_value), (count,))
    places = flatnonzero(mask, size=count, fill_value=0)
    is_hit = ufuncs.less(iota(np.dtype(np.int32), (count,), 0), count_nonzero(mask))
    found = ufuncs.where(is_hit, getitem(x, places), _fill_value(x, mask, fill_value))
    return cast(found, x.dtype, x.weak_type)


def _fill_value(x: Array, mask: Array, fill_value: Any) -> Any:
    """Return the value that fills up the result: by default the first element where the mask holds, or 0."""
    if fill_value is not None:
        return cast(as_array("size", fill_value, "fill_value"), x.dtype, x.weak_type)
    zero = cast(0, x.dtype, x.weak_type)
    return ufuncs.where(mask.any(), getitem(x, flatnonzero(mask, size=1)[0]), zero) if x.shape[0] else zero


@evaluated_whole
@array_function
def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Return the distinct elements of both arrays, sorted.

    >>> import didax.numpy as dnp
    >>> dnp.union1d(dnp.array([3, 1]), dnp.array([1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    return unique(concatenate(_vectors("union1d", ar1, ar2)), size=size, fill_value=fill_value)


@evaluated_whole
@array_function
def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Return the distinct elements of the first array that are not in the second.

    They are sorted unless `assume_unique`.

    Under `size` the result is filled up with 0 unless `fill_value` is given.

    >>> import didax.numpy as dnp
    >>> dnp.setdiff1d(dnp.array([3, 1, 2]), dnp.array([1]))
    Array([2, 3], dtype=int32)
    """
    tests = _vectors("setdiff1d", ar1, ar2)[1]
    x = ravel(as_array("setdiff1d", ar1))  # the result has its dtype
    if size is None:
        x = x if assume_unique else unique(x)
        return _selected(x, isin(x, tests, invert=True), None, None)
    x = x if assume_unique else getitem(x, _order(x))
    mask = isin(x, tests, invert=True)
    mask = mask if assume_unique else ufuncs.logical_and(mask, _is_first(x))
    return _selected(x, mask, size, 0 if fill_value is None else fill_value)


def _order(x: Array) -> Array:
    """Return where the elements of a sorted vector come from; all complex NaNs have one place in the order."""
    return argsort(ufuncs.where(ufuncs.isnan(x), np.nan, x) if dtypes.is_complex(x.dtype) else x)


def _is_first(x: Array) -> Array:
    """Return a mask of the first element of each value of a sorted vector, in which all NaNs are one value."""
    differs = ufuncs.not_equal(x[1:], x[:-1])
    if dtypes.is_inexact(x.dtype):
        differs = ufuncs.logical_and(
            differs, ufuncs.logical_not(ufuncs.logical_and(ufuncs.isnan(x[1:]), ufuncs.isnan(x[:-1])))
        )
    return concatenate([ufuncs.equal(iota(np.dtype(np.int32), (min(1, x.shape[0]),), 0), 0), differs])


@evaluated_whole
@array_function
def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Return the distinct elements that are in exactly one of the arrays, sorted.

    >>> import didax.numpy as dnp
    >>> dnp.setxor1d(dnp.array([3, 1, 2]), dnp.array([1, 4]))
    Array([2, 3, 4], dtype=int32)
    """
    x, y = [getitem(v, _order(v)) for v in _vectors("setxor1d", ar1, ar2)]
    unshared = [ufuncs.logical_and(isin(a, b, invert=True), _is_first(a)) for a, b in ((x, y), (y, x))]
    both = concatenate([x, y])
    order = _order(both)
    return _selected(getitem(both, order), getitem(concatenate(unshared), order), size, fill_value)


@evaluated_whole
@array_function
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """Return the distinct elements that are in both arrays, sorted; on request also where each first occurs.

    >>> import didax.numpy as dnp
    >>> dnp.intersect1d(dnp.array([3, 1, 2]), dnp.array([2, 3, 5]))
    Array([2, 3], dtype=int32)
    """
    x, y = _vectors("intersect1d", ar1, ar2)
    order = argsort(x)
    values = getitem(x, order)
    hit = ufuncs.logical_and(isin(values, y), _is_first(values))
    found = _selected(values, hit, size, fill_value)
    if not return_indices:
        return found
    first = _selected(order, hit, size, x.shape[0])
    order_y = argsort(y)
    sorted_y = getitem(y, order_y)
    hit_y = ufuncs.logical_and(isin(sorted_y, x), _is_first(sorted_y))
    second = _selected(order_y, hit_y, size, y.shape[0])
    return found, first, second
