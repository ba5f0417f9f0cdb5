"""Order statistics: quantiles, percentiles, medians, and their forms that ignore NaN.

The elements over `axis` are sorted, and a quantile lies at the position `q * (n - 1)` of their order; between
two elements the `method` decides. NaN sorts to the end: the result is NaN if there is one, and the functions
that ignore NaN take the numbers before it. Read next: `reductions.py`, `didax/primitives/sort.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from didax.api.results import array_function
from didax.core.errors import message
from didax.core.value import Array
from didax.numpy import ufuncs
from didax.numpy.promotion import ArrayLike, as_array, as_array_of, broadcast, cast, constant, inexact
from didax.numpy.reductions import Axis, canonical_axes, no_out
from didax.numpy.reductions import any as any_of
from didax.numpy.reductions import sum as array_sum
from didax.numpy.ufuncs import isnan, where
from didax.primitives import elementwise as el
from didax.primitives.reductions import is_narrow_float
from didax.primitives.shape import broadcast_in_dim, move_axis, reshape
from didax.primitives.sort import sort_p, take_along

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

_Method = Callable[[Any, Any, Any], Any]  # (low neighbour, high neighbour, fraction) -> quantile
_METHODS: dict[str, _Method] = {
    "linear": lambda low, high, t: el.add(el.mul(low, el.sub(1, t)), el.mul(high, t)),
    "lower": lambda low, high, t: low,
    "higher": lambda low, high, t: where(el.gt(t, 0), high, low),
    "nearest": lambda low, high, t: where(el.gt(t, 0.5), high, low),
    "midpoint": lambda low, high, t: where(el.gt(t, 0), el.mul(el.add(low, high), 0.5), low),
}


def _quantile(name: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, ignore_nan: bool) -> Array:
    if method not in _METHODS:
        raise ValueError(
            message(
                f"{name} has no such method.",
                f"method: {method!r}",
                fix=f"Use one of {', '.join(map(repr, _METHODS))}.",
            )
        )
    x = as_array(name, a, "a")
    dtype = inexact(x.dtype, x.weak_type)[0]
    wide = np.dtype(np.float32) if is_narrow_float(dtype) else dtype  # positions need 24 bits
    x, probability = cast(x, dtype), as_array_of(name, q, wide, argument="q")
    axes = canonical_axes(name, axis, x.ndim)
    kept = tuple([n for i, n in enumerate(x.shape) if i not in axes])
    rows = _axes_last(x, axes)
    if rows.size == 0:  # no elements: NaN, as for the mean
        shown = tuple([1 if i in axes else n for i, n in enumerate(x.shape)]) if keepdims else kept
        return broadcast(constant(np.nan, dtype), (*probability.shape, *shown))
    (rows,) = sort_p.bind(rows, dimension=rows.ndim - 1, is_stable=True, num_keys=1)
    result = cast(_interpolated(cast(rows, wide), probability, method, ignore_nan), dtype)
    if keepdims:
        kept = tuple([1 if i in axes else n for i, n in enumerate(x.shape)])
    return reshape(result, (*probability.shape, *kept))


def _axes_last(x: Array, axes: tuple[int, ...]) -> Array:
    """Merge the axes into one axis at the end."""
    for i, axis in enumerate(sorted(axes)):
        x = move_axis(x, axis - i, x.ndim - 1)
    kept = x.shape[: x.ndim - len(axes)]
    return reshape(x, (*kept, int(np.prod(x.shape[x.ndim - len(axes) :], dtype=np.int64))))


def _interpolated(rows: Array, q: Array, method: str, ignore_nan: bool) -> Array:
    """Return quantiles of sorted rows, in an array of shape (q.size, *rows.shape[:-1]); NaN is sorted to the end."""
    dtype = rows.dtype
    kept, length = rows.shape[:-1], rows.shape[-1]
    missing = isnan(rows)
    count = (
        el.sub(constant(length, dtype), array_sum(missing, -1, dtype=dtype))
        if ignore_nan
        else broadcast(constant(length, dtype), kept)
    )
    flat = reshape(q, (q.size,))
    shape = (q.size, *kept)
    last = broadcast_in_dim(ufuncs.maximum(count - 1, 0), shape, tuple(range(1, len(shape))))
    place = el.mul(broadcast_in_dim(flat, shape, (0,)), last)
    low = el.floor(place)
    stacked = broadcast_in_dim(rows, (*shape, length), tuple(range(1, len(shape) + 1)))
    below, above = _elements_at(stacked, low), _elements_at(stacked, ufuncs.minimum(el.ceil(place), last))
    result = _METHODS[method](below, above, el.sub(place, low))
    is_nan = el.eq(count, constant(0, dtype)) if ignore_nan else any_of(missing, -1)
    is_nan = broadcast_in_dim(is_nan, shape, tuple(range(1, len(shape))))
    return where(is_nan, constant(np.nan, dtype), result)


def _elements_at(rows: Array, place: Array) -> Array:
    last = rows.shape[-1] - 1
    dtype = np.dtype(np.int32 if last < 2**31 else np.int64)
    index = ufuncs.clip(cast(place, dtype), 0, last)
    picked = take_along(rows, reshape(index, (*index.shape, 1)), rows.ndim - 1)
    return reshape(picked, place.shape)


@array_function
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """Return the values below which a share `q` (0 to 1) of the elements lies; the axes of `q` come first.

    >>> import didax.numpy as dnp
    >>> dnp.quantile(dnp.array([0.0, 1.0, 2.0]), 0.25)
    Array(0.5, dtype=float32)
    """
    no_out("quantile", out)
    return _quantile("quantile", a, q, axis, method, keepdims, ignore_nan=False)


@array_function
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """Return quantiles as `quantile` does, of the elements that are not NaN.

    >>> import didax.numpy as dnp
    >>> dnp.nanquantile(dnp.array([0.0, dnp.nan, 2.0]), 0.5)
    Array(1., dtype=float32)
    """
    no_out("nanquantile", out)
    return _quantile("nanquantile", a, q, axis, method, keepdims, ignore_nan=True)


@array_function
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """Return quantiles as `quantile` does, with `q` from 0 to 100.

    >>> import didax.numpy as dnp
    >>> dnp.percentile(dnp.array([0.0, 1.0, 2.0]), 25)
    Array(0.5, dtype=float32)
    """
    return quantile(a, ufuncs.divide(q, 100), axis, out, overwrite_input, method, keepdims)


@array_function
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """Return quantiles as `nanquantile` does, with `q` from 0 to 100.

    >>> import didax.numpy as dnp
    >>> dnp.nanpercentile(dnp.array([0.0, dnp.nan, 2.0]), 50)
    Array(1., dtype=float32)
    """
    return nanquantile(a, ufuncs.divide(q, 100), axis, out, overwrite_input, method, keepdims)


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
