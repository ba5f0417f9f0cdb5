"""Histograms and covariances.

Numbers of bins are static; edges may be traced. Read next: `reductions.py`, `selection.py` (`searchsorted`).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.errors import ArgumentError, message
from didax.core.value import Array
from didax.numpy import ufuncs
from didax.numpy.creation import linspace, ones, zeros
from didax.numpy.joining import concatenate, stack
from didax.numpy.linear import matmul
from didax.numpy.manipulation import atleast_2d, ravel
from didax.numpy.promotion import (
    ArrayLike,
    DTypeLike,
    as_array,
    as_array_of,
    cast,
    inexact,
    promote_dtypes,
    result_pair,
)
from didax.numpy.reductions import average
from didax.numpy.reductions import max as array_max
from didax.numpy.reductions import min as array_min
from didax.numpy.reductions import sum as array_sum
from didax.numpy.selection import bincount, searchsorted
from didax.numpy.signals import diff
from didax.primitives.narrow import halves_in_float32
from didax.primitives.shape import reshape

__all__ = ["corrcoef", "cov", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]

Function = TypeVar("Function", bound=Callable[..., Any])


# --- histograms ---------------------------------------------------------------------------------------------


def _elements_decide(function: Function) -> Function:
    """Make a histogram compute in the dtype of its elements, whatever the dtype of the edges is."""

    @functools.wraps(function)
    def apply(a: Any, bins: Any = 10, *args: Any, **options: Any) -> Any:
        name = function.__name__
        if isinstance(bins, (Array, np.ndarray)) and bins.ndim == 1:
            bins = cast(as_array(name, bins, "bins"), inexact(as_array(name, a).dtype, False)[0])
        return function(a, bins, *args, **options)

    return apply  # type: ignore[return-value]


@array_function
@_elements_decide
@halves_in_float32
def histogram_bin_edges(
    a: ArrayLike, bins: ArrayLike = 10, range: Any = None, weights: ArrayLike | None = None
) -> Array:
    """Return the edges of `bins` bins of one width, from the smallest to the largest element or over `range`.

    Where both ends are equal, the bins span one unit around them. Edges given as `bins` are returned.

    >>> import didax.numpy as dnp
    >>> dnp.histogram_bin_edges(dnp.array([0.0, 2.0]), 2)
    Array([0., 1., 2.], dtype=float32)
    """
    x = as_array("histogram_bin_edges", a)
    if isinstance(bins, str):
        fix = "Give their number, or the edges."
        raise NotImplementedError(message("Bins are not chosen by a rule.", f"bins: {bins!r}", fix=fix))
    edges = as_array("histogram_bin_edges", bins, "bins")
    dtype = inexact(x.dtype, False)[0]
    if edges.ndim == 1:
        return cast(edges, dtype)
    count = operator.index(bins)  # type: ignore[arg-type]
    if count < 1:
        rule, fix = "A histogram has one bin or more.", "Pass a positive number, or the edges."
        raise ValueError(message(rule, f"bins: {count}", fix=fix))
    low, high = _limits(x, range, dtype)
    return linspace(low, high, count + 1, dtype=dtype)


def _limits(x: Array, range: Any, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    if range is not None:
        low, high = [as_array_of("histogram", end, dtype, argument="range") for end in range]
    elif x.size:
        low, high = cast(array_min(x), dtype), cast(array_max(x), dtype)
    else:
        low, high = zeros((), dtype), ones((), dtype)
    is_point = ufuncs.equal(low, high)
    return ufuncs.where(is_point, low - 0.5, low), ufuncs.where(is_point, high + 0.5, high)


@array_function
@_elements_decide
@halves_in_float32
def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """Return the number of elements (or the sum of their weights) in each bin, and the edges; all are floats.

    The last bin contains both of its edges. With `density` the area under the histogram is 1.

    >>> import didax.numpy as dnp
    >>> dnp.histogram(dnp.array([0.0, 0.5, 2.0]), 2)
    (Array([2., 1.], dtype=float32), Array([0., 1., 2.], dtype=float32))
    """
    x = as_array("histogram", a)
    if weights is None:
        amount = ones(x.shape, inexact(x.dtype, False)[0])
    else:
        x, amount = [
            as_array("histogram", v) for v in promote_dtypes("histogram", x, weights, to_inexact=True)
        ]
        if x.shape != amount.shape:
            facts = f"a: {x.aval}, weights: {amount.aval}"
            raise ValueError(
                message("histogram takes a weight per element.", facts, fix="Broadcast the weights.")
            )
    edges = histogram_bin_edges(x, bins, range)
    place = _bin_of(ravel(x), edges)
    counts = zeros(edges.size, amount.dtype).at[place].add(ravel(amount), mode="drop")[1:]
    if density:
        counts = counts / diff(edges) / array_sum(counts)
    return counts, edges


def _bin_of(x: Array, edges: Array) -> Array:
    """Return the number of each element's bin, from 1; 0 below the first edge, edges.size beyond the last."""
    x = cast(x, edges.dtype)
    place = searchsorted(edges, x, side="right")
    return ufuncs.where(ufuncs.equal(x, edges[-1]), edges.size - 1, place)


@array_function
@halves_in_float32
def histogramdd(
    sample: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """Return the counts of points, the rows of `sample`, on a grid of bins, and the edges of each axis.

    Counts are integers unless there are weights or `density` is asked for.

    `bins` is one number, or a number or edges for each axis; `range` is None, or a pair or None for each
    axis.

    >>> import didax.numpy as dnp
    >>> dnp.histogramdd(dnp.array([[0.0, 0.0], [1.0, 1.0]]), 2)[0]
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    points = as_array("histogramdd", sample, "sample")
    if points.ndim != 2:
        fix = "Put one point in each row."
        raise ValueError(message("histogramdd takes a matrix of points.", f"sample: {points.aval}", fix=fix))
    count, ndim = points.shape
    amount = None
    if weights is not None:
        given = as_array("histogramdd", weights, "weights")
        if given.shape != (count,):
            facts = f"sample: {points.aval}, weights: {given.aval}"
            raise ValueError(message("histogramdd takes a weight per point.", facts, fix="Pass a vector."))
        points, amount = [
            as_array("histogramdd", v) for v in promote_dtypes("histogramdd", points, given, to_inexact=True)
        ]
    edges = [
        histogram_bin_edges(points[:, i], b, r)
        for i, (b, r) in enumerate(
            zip(_per_axis("bins", bins, ndim), _per_axis("range", range, ndim), strict=True)
        )
    ]
    places = [_bin_of(points[:, i], e) for i, e in enumerate(edges)]
    # One number for each point's cell: joined to rows of numbers, the searches of all axes would be one scalar loop.
    lengths = [e.size + 1 for e in edges]
    cells = zeros(count, int)
    for place, length in zip(places, lengths, strict=True):
        cells = cells * length + place
    counts = reshape(bincount(cells, amount, length=math.prod(lengths)), tuple(lengths))
    counts = counts[tuple([slice(1, -1)] * ndim)]
    if density:
        counts = counts / array_sum(counts)
        for i, e in enumerate(edges):
            counts = counts / reshape(diff(e), tuple([e.size - 1 if j == i else 1 for j in _range(ndim)]))
        counts = cast(counts, inexact(points.dtype, points.weak_type)[0])
    return counts, edges


_range = range


def _per_axis(name: str, given: Any, ndim: int) -> list[Any]:
    if given is None or not hasattr(given, "__len__"):
        return [given] * ndim
    if len(given) != ndim:
        fix = f"Give one for each of the {ndim} axes."
        raise ValueError(message(f"histogramdd takes {name} per axis.", f"{name}: {given}", fix=fix))
    return list(given)


@array_function
def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """Return the counts of points (x, y) on a grid of bins, the edges along x and the edges along y.

    >>> import didax.numpy as dnp
    >>> dnp.histogram2d(dnp.array([0.0, 1.0]), dnp.array([0.0, 1.0]), 2)[0]
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    if hasattr(bins, "__len__") and len(bins) not in (1, 2):
        bins = [bins, bins]
    counts, edges = histogramdd(
        stack([as_array("histogram2d", x), as_array("histogram2d", y)], 1), bins, range, weights, density
    )
    return counts, edges[0], edges[1]


# --- covariances --------------------------------------------------------------------------------------------


def _observations(name: str, m: Any, y: Any, rowvar: bool) -> Array:
    parts = [
        as_array(name, x) for x in promote_dtypes(name, *([m] if y is None else [m, y]), to_inexact=True)
    ]
    if any(x.ndim > 2 for x in parts):
        shown = ", ".join([str(x.aval) for x in parts])
        raise ValueError(
            message(
                f"{name} takes vectors and matrices.",
                f"operands: {shown}",
                fix="Reshape to rows of observations.",
            )
        )
    rows = [x if rowvar or x.ndim == 1 else x.T for x in map(_as_rows, parts)]
    return concatenate([atleast_2d(x) for x in rows], 0)


def _as_rows(x: Array) -> Array:
    return x if x.ndim else reshape(x, (1,))


@evaluated_whole
@array_function
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike = None,
) -> Array:
    """Return the covariances of variables, which are the rows of `m` and `y` (columns if `rowvar` is False).

    `fweights` are numbers of repetitions of each observation, `aweights` are weights; `ddof` (1, or 0 with
    `bias`) is subtracted from the number of observations.

    >>> import didax.numpy as dnp
    >>> dnp.cov(dnp.array([[0.0, 2.0], [0.0, -2.0]]))
    Array([[ 2., -2.],
           [-2.,  2.]], dtype=float32)
    """
    result, stated = _covariances(m, y, rowvar, bias, ddof, fweights, aweights, dtype)
    return cast(result, stated)


def _covariances(
    m: Any, y: Any, rowvar: bool, bias: bool, ddof: int | None, fweights: Any, aweights: Any, dtype: DTypeLike
) -> tuple[Array, np.dtype[Any]]:
    """Return covariances as they are computed, whose quotients are taken before they are rounded, and their dtype."""
    x = _observations("cov", m, y, rowvar)
    found = [
        None if w is None else _weights(w, name, x.shape[1])
        for w, name in ((fweights, "fweights"), (aweights, "aweights"))
    ]
    operands = [x, *[w for w in found if w is not None]]
    stated = result_pair(*operands)[0] if dtype is None else dtypes.dtype(dtype)
    x = cast(x, dtypes.at_least_single(stated))
    if not x.shape[0]:
        return zeros((0, 0), x.dtype), stated
    if ddof is None:
        ddof = 0 if bias else 1
    count, kind = x.shape[1], dtypes.real_dtype(x.dtype)
    repeats, weights = [None if w is None else cast(w, kind) for w in found]
    total = _product(repeats, weights)
    means, size = average(x, axis=1, weights=total, returned=True)
    size = size[0]
    if total is None:
        norm: Any = count - ddof
    elif weights is None or ddof == 0:
        norm = size - ddof
    else:
        norm = size - ddof * array_sum(total * weights) / size
    x = x - means[:, None]
    product = matmul(x, ufuncs.conj((x if total is None else x * total).T))
    # No variance is negative: where too few observations are left, it is infinite or NaN, as in NumPy.
    result = product / (ufuncs.maximum(norm, 0) if isinstance(norm, Array) else max(norm, 0))
    return reshape(result, tuple([n for n in result.shape if n != 1])), stated


def _weights(w: Any, name: str, count: int) -> Array:
    found = as_array("cov", w, name)
    if found.shape != (count,):
        facts = f"{name}: {found.aval}, observations: {count}"
        raise ArgumentError(message("cov takes a weight per observation.", facts, fix="Pass a vector."))
    if dtypes.kind_of(found.dtype) not in ("biu" if name == "fweights" else "biuf"):
        rule = "cov takes whole numbers of repetitions as fweights, and real weights as aweights."
        fix = "Pass fractions as aweights, which need no whole numbers."
        raise ArgumentError(message(rule, f"{name}: {found.aval}", fix=fix))
    return found


def _product(x: Array | None, y: Array | None) -> Array | None:
    return (x if y is None else y) if x is None or y is None else x * y


@evaluated_whole
@array_function
def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike = None) -> Array:
    """Return correlations: covariances over the product of standard deviations, between -1 and 1.

    >>> import didax.numpy as dnp
    >>> dnp.corrcoef(dnp.array([[0.0, 2.0], [0.0, -2.0]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    c, stated = _covariances(x, y, rowvar, False, None, None, None, dtype)
    return cast(_quotients_by_deviations(c), stated)


def _quotients_by_deviations(c: Array) -> Array:
    if not c.ndim:
        return c / c
    deviations = ufuncs.sqrt(ufuncs.real(c.diagonal()))
    c = c / deviations[:, None] / deviations[None, :]
    if not dtypes.is_complex(c.dtype):
        return ufuncs.clip(c, -1, 1)
    parts = [ufuncs.clip(part, -1, 1) for part in (ufuncs.real(c), ufuncs.imag(c))]
    return parts[0] + 1j * parts[1]
