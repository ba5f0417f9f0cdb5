"""Interpolation of samples on a grid: `RegularGridInterpolator`.

    f(x) = sum of weight * sample over the corners of the cell that holds x

The points of each axis strictly ascend or descend, as in SciPy; this is checked where their values are known. The
interpolant has derivatives with respect to the samples, the points and x. Read next: `ndimage.py`, for grids of whole
numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import didax.numpy as dnp
from didax.core import dtypes
from didax.core.errors import ArgumentError, ConcretizationTypeError, api_boundary, check_choice, message
from didax.core.modules import on_access
from didax.core.value import Array
from didax.numpy.promotion import ArrayLike, as_array, promote_dtypes

__all__ = ["RegularGridInterpolator"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


class RegularGridInterpolator:
    """A function of d variables from its values on a grid: "linear" along each axis, or that at the "nearest" point.

    `points` are d ascending vectors, or descending ones whose values are known, and `values` is an array of shape
    (m1, ..., md, ...), whose further axes are kept. ValueError for known points in another order.
    Outside the grid the function is `fill_value`, or continued (None). With `bounds_error` points outside raise a
    ValueError; traced points, which may be outside, raise a ConcretizationTypeError.

    >>> from didax.scipy.interpolate import RegularGridInterpolator
    >>> f = RegularGridInterpolator((dnp.array([0.0, 1.0, 3.0]),), dnp.array([0.0, 10.0, 30.0]))
    >>> f(dnp.array([[0.5], [2.0]]))
    Array([ 5., 20.], dtype=float32)
    """

    @api_boundary
    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: float | None = math.nan,
    ):
        _check_method(method)
        x = as_array("RegularGridInterpolator", values, "values")
        self.values = x if dtypes.is_inexact(x.dtype) else x.astype(dtypes.default_dtype("f"))
        self.grid = tuple(
            as_array("RegularGridInterpolator", p, f"points[{i}]") for i, p in enumerate(points)
        )
        fits = len(self.grid) <= x.ndim and all(
            p.ndim == 1 and 0 < p.shape[0] == n for p, n in zip(self.grid, x.shape, strict=False)
        )
        if not fits:
            facts = f"points: {', '.join(str(p.aval) for p in self.grid)}; values: {x.aval}"
            fix = "Pass a vector for each axis of the grid, as long as the axis."
            raise ArgumentError(
                message("RegularGridInterpolator takes the points of each axis.", facts, fix=fix)
            )
        descending = [i for i, p in enumerate(self.grid) if not _is_ascending(p, i)]
        if descending:
            self.grid = tuple(dnp.flip(p) if i in descending else p for i, p in enumerate(self.grid))
            self.values = dnp.flip(self.values, descending)
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value

    @api_boundary
    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """Return the values at points of shape (..., d), or at a tuple of d coordinate arrays, which broadcast."""
        method = self.method if method is None else method
        _check_method(method)
        at = self._points(xi)
        cells = []
        outside: Any = False
        missing: Any = False
        for i, grid in enumerate(self.grid):
            x = at[..., i]
            outside = outside | (x < grid[0]) | (x > grid[-1])
            missing = missing | dnp.isnan(x)
            cell = dnp.clip(dnp.searchsorted(grid, x, side="right") - 1, 0, max(grid.shape[0] - 2, 0))
            after = dnp.minimum(cell + 1, grid.shape[0] - 1)
            width = grid[after] - grid[cell]
            cells.append((cell, after, (x - grid[cell]) / dnp.where(width == 0, 1, width)))
        if self.bounds_error:
            _check_inside(at, outside)
        out = self._linear(cells) if method == "linear" else self._nearest(cells)
        more = (1,) * (out.ndim - at.ndim + 1)
        out = dnp.where(missing.reshape(missing.shape + more), math.nan, out)
        if self.fill_value is None:
            return out
        return dnp.where(outside.reshape(outside.shape + more), self.fill_value, out)

    def _points(self, xi: Any) -> Any:
        d = len(self.grid)
        if isinstance(xi, tuple):
            parts = dnp.broadcast_arrays(
                *[dnp.asarray(x) for x in promote_dtypes("xi", *xi, to_inexact=True)]
            )
            at = dnp.stack(parts, -1)
        else:
            at = dnp.asarray(promote_dtypes("xi", xi, to_inexact=True)[0])
            if at.ndim == 1:
                at = at[:, None] if d == 1 else at[None]
        if not at.ndim or at.shape[-1] != d:
            fix = f"Pass points of shape (..., {d})."
            rule = f"The interpolator takes points of {d} coordinates."
            raise ArgumentError(message(rule, f"xi: {at.aval}", fix=fix))
        return at

    def _linear(self, cells: Any) -> Any:
        total: Any = 0
        for corner in itertools.product((0, 1), repeat=len(cells)):
            index = tuple(
                cell if side == 0 else after for side, (cell, after, _) in zip(corner, cells, strict=True)
            )
            weight: Any = 1
            for side, (_, _, share) in zip(corner, cells, strict=True):
                weight = weight * (share if side else 1 - share)
            value = self.values[index]
            weight = weight.reshape(*weight.shape, *[1] * (value.ndim - weight.ndim))
            total = total + weight * value
        return total

    def _nearest(self, cells: Any) -> Any:
        return self.values[tuple(dnp.where(share <= 0.5, cell, after) for cell, after, share in cells)]


def _check_method(method: Any) -> None:
    check_choice("RegularGridInterpolator", "method", method, "linear", "nearest")


def _is_ascending(points: Array, axis: int) -> bool:
    """Whether the points ascend, as traced ones are taken to do. ValueError if they neither ascend nor descend."""
    try:
        steps: Any = np.diff(np.asarray(points))
    except ConcretizationTypeError:
        return True
    ascend = bool((steps > 0).all())
    if not ascend and not (steps < 0).all():
        facts = f"points[{axis}]: {np.array2string(np.asarray(points), threshold=6)}"
        rule = "RegularGridInterpolator takes points that strictly ascend or descend."
        raise ArgumentError(message(rule, facts, fix="Sort the points, and the values with them."))
    return ascend


def _check_inside(at: Any, outside: Any) -> None:
    try:
        count = int(np.sum(np.asarray(outside)))
    except ConcretizationTypeError:
        rule = "bounds_error compares the points with the grid, so it needs their values."
        fix = "Pass bounds_error=False: outside of the grid stands fill_value."
        raise ConcretizationTypeError(message(rule, f"xi: {at.aval}", fix=fix)) from None
    if count:
        fix = "Pass bounds_error=False, or points inside of the grid."
        raise ValueError(message("Points are outside of the grid.", f"how many: {count}", fix=fix))
