"""Statistics of samples: `mode`, `rankdata`, `sem`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import didax.numpy as dnp
from didax.api.numpy_functions import Declined, computed_by
from didax.api.vmap import vmap
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.errors import ArgumentError, api_boundary, check_choice, message
from didax.core.value import Array
from didax.numpy.promotion import ArrayLike, as_array, inexact
from didax.numpy.reductions import canonical_axes
from didax.primitives.narrow import halves_in_float32
from didax.primitives.numpy_rules import count_nonzero, take_along, where


class ModeResult(NamedTuple):
    """The most frequent elements, and how often they occur."""

    mode: Array
    count: Array


def _check_policy(name: str, nan_policy: str) -> None:
    if nan_policy != "propagate":
        rule = f"{name} lets NaN propagate."
        raise NotImplementedError(
            message(rule, f"nan_policy: {nan_policy!r}", fix="Leave it out, and mask NaN before.")
        )


def _sample(name: str, a: Any, axis: int | None, nan_policy: str) -> tuple[Array, int]:
    _check_policy(name, nan_policy)
    x = as_array(name, a, "a")
    x = x.ravel() if axis is None or not x.ndim else x
    along = 0 if axis is None else axis
    if not -x.ndim <= along < x.ndim:
        fix = f"Choose -{x.ndim} <= axis < {x.ndim}."
        raise ArgumentError(
            message(f"{name} needs an axis of the array.", f"a: {x.aval}, axis: {axis}", fix=fix)
        )
    return x, along


@evaluated_whole
@api_boundary
def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """Return the most frequent element along an axis, the smallest of several ones, and how often it occurs.

    >>> from didax.scipy import stats
    >>> stats.mode(dnp.array([3, 1, 3, 1, 2]))
    ModeResult(mode=Array(1, dtype=int32), count=Array(2, dtype=int32))
    """
    given = as_array("mode", a, "a")
    x, along = _sample("mode", a, axis, nan_policy)
    if x.shape[along] == 0:
        shape = x.shape[:along] + x.shape[along:][1:]
        dtype = inexact(x.dtype, x.weak_type)[0]
        found, count = dnp.full(shape, math.nan, dtype), dnp.zeros(shape, dtype)
    else:
        moved = dnp.moveaxis(x, along, -1)
        found, count = [y.reshape(moved.shape[:-1]) for y in _modes(moved.reshape(-1, moved.shape[-1]))]
    if keepdims:
        kept = (
            [1] * (given.ndim or 1)
            if axis is None
            else [1 if i == along % x.ndim else n for i, n in enumerate(x.shape)]
        )
        found, count = found.reshape(kept), count.reshape(kept)
    return ModeResult(found, count)


def _modes_by_numpy(rows: Any) -> tuple[Any, Any]:
    ordered = rows.copy()
    ordered.sort(-1)
    if count_nonzero(ordered[:, -1:] != ordered[:, -1:]):
        raise Declined  # the function counts NaN as equal
    place = np.arange(1, rows.shape[-1] + 1)
    first = np.maximum.accumulate(_run_begins(ordered) * place, -1)
    counts = place - first + 1  # of equal elements so far
    each = np.arange(len(rows))
    best = counts.argmax(-1)
    return ordered[each, first[each, best] - 1], counts[each, best].astype(dtypes.default_dtype("i"))


@computed_by(_modes_by_numpy)
def _modes(rows: Any) -> tuple[Any, Any]:
    """The mode of each row, and how often it occurs."""

    def of_row(row: Any) -> tuple[Any, Any]:
        ordered = dnp.sort(row)
        first, last = [dnp.searchsorted(ordered, ordered, side=side) for side in ("left", "right")]
        counts = last - first
        best = dnp.argmax(counts)
        return ordered[best], counts[best].astype(dtypes.default_dtype("i"))

    return vmap(of_row)(rows)


def _run_begins(ordered: Any) -> Any:
    """Where runs of equal elements begin in sorted rows."""
    begins = np.ones(ordered.shape, bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=begins[:, 1:])
    return begins


_RANKS = ("average", "min", "max", "dense", "ordinal")


@evaluated_whole
@api_boundary
def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """Return the ranks of elements from 1 on, as floats of 32 bits or more, along an axis or (None) among all of them.

    Equal elements get the "average", "min" or "max" of their ranks; the same rank, from which the next ranks count on
    ("dense"); or ranks by their order ("ordinal"). Where a NaN is, all ranks are NaN.

    >>> from didax.scipy import stats
    >>> stats.rankdata(dnp.array([10, 30, 10]))
    Array([1.5, 3. , 1.5], dtype=float32)
    """
    check_choice("rankdata", "method", method, *_RANKS)
    x, along = _sample("rankdata", a, axis, nan_policy)
    # A bfloat16 does not hold all ranks beyond 256.
    dtype = dtypes.at_least_single(dtypes.real_dtype(inexact(x.dtype, x.weak_type)[0]))
    if not x.size:
        return x.astype(dtype)
    moved = dnp.moveaxis(x, along, -1)
    ranks = 0.5 * _doubled_ranks(moved.reshape(-1, moved.shape[-1]), method=method).astype(dtype)
    out = dnp.moveaxis(ranks.reshape(moved.shape), -1, along)
    if not dtypes.is_inexact(x.dtype):
        return out
    return dnp.where(dnp.isnan(x).any(along, keepdims=True), math.nan, out)


def _doubled_ranks_by_numpy(rows: Any, *, method: str) -> Any:
    """`_doubled_ranks`, by NumPy."""
    n = rows.shape[-1]
    order = rows.argsort(-1, "stable")
    place = np.arange(1, n + 1)
    if method == "ordinal":
        low = high = np.broadcast_to(place, rows.shape)
    else:
        begins = _run_begins(take_along(rows, order, -1))
        low = high = begins.cumsum(-1)
        if method in ("min", "average"):
            low = high = np.maximum.accumulate(begins * place, -1)
        if method in ("max", "average"):
            ends = np.ones(rows.shape, bool)
            ends[:, :-1] = begins[:, 1:]
            high = np.minimum.accumulate(where(ends, place, n)[:, ::-1], -1)[:, ::-1]
            low = low if method == "average" else high
    out = np.empty(rows.shape, np.int32)
    if len(rows) == 1:
        out[0, order[0]] = low[0] + high[0]
    else:
        np.put_along_axis(out, order, low + high, -1)
    return out


@computed_by(_doubled_ranks_by_numpy)
def _doubled_ranks(rows: Any, *, method: str) -> Any:
    """Twice the ranks in each row, which are integers."""

    def ends(row: Any) -> tuple[Any, Any]:
        order = dnp.argsort(row, stable=True)
        if method == "ordinal":
            rank = dnp.argsort(order) + 1
            return rank, rank
        ordered = row[order]
        if method == "dense":
            new = (ordered[1:] != ordered[:-1]).astype(order.dtype)
            rank = dnp.cumsum(dnp.concatenate([dnp.ones_like(order[:1]), new]))[dnp.argsort(order)]
            return rank, rank
        first = dnp.searchsorted(ordered, row, side="left") + 1
        last = dnp.searchsorted(ordered, row, side="right")
        return {"min": (first, first), "max": (last, last), "average": (first, last)}[method]

    low, high = vmap(ends)(rows)
    return (low + high).astype(np.int32)


@evaluated_whole
@api_boundary
@halves_in_float32
def sem(
    a: ArrayLike,
    axis: int | tuple[int, ...] | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """Return the standard error of the mean along one or several axes, or (None) of all elements: std(ddof) / sqrt(n).

    NaN propagates, or is left out with `nan_policy="omit"`.

    >>> from didax.scipy import stats
    >>> round(float(stats.sem(dnp.array([1.0, 2.0, 3.0]))), 4)
    0.5774
    """
    _check_policy("sem", "propagate" if nan_policy == "omit" else nan_policy)
    x = as_array("sem", a, "a")
    x = x if x.ndim else x.ravel()
    axes = canonical_axes("sem", axis, x.ndim)
    if nan_policy == "omit" and dtypes.is_inexact(x.dtype):
        spread = dnp.nanstd(x, axis=axes, ddof=ddof, keepdims=keepdims)
        return spread / dnp.sqrt((~dnp.isnan(x)).sum(axes, keepdims=keepdims).astype(spread.dtype))
    count = math.prod([x.shape[i] for i in axes])
    return dnp.std(x, axis=axes, ddof=ddof, keepdims=keepdims) / count**0.5
