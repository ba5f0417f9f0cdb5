"""Objects whose indexing makes arrays: `r_`, `c_` (join), `mgrid`, `ogrid` (grids), `s_`, `index_exp` (indices).

    r_[1:4, 0, [7, 8]]      array([1, 2, 3, 0, 7, 8])
    ogrid[0:2, 0:1:3j]      vectors that broadcast to a grid; a step of 3j asks for 3 points, both ends included

Bounds and steps are static numbers. Read next: `positions.py`, `creation.py` (arange, linspace, meshgrid).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core.errors import api_boundary, message
from didax.core.value import Array
from didax.numpy.creation import arange, asarray, linspace, meshgrid
from didax.numpy.joining import concatenate, stack
from didax.numpy.manipulation import reshape
from didax.numpy.promotion import as_array, beside_wide, promote_dtypes

__all__ = ["c_", "index_exp", "mgrid", "ogrid", "r_", "s_"]


def _points(span: slice) -> Array:
    """Return the numbers that a slice stands for; an imaginary step is the number of points."""
    start, stop = (0, span.start) if span.stop is None else (span.start or 0, span.stop)
    step = 1 if span.step is None else span.step
    stop = 0 if stop is None else stop  # as NumPy: a slice without numbers stands for none
    return linspace(start, stop, int(abs(step))) if isinstance(step, complex) else arange(start, stop, step)


class _Grid:
    """The class of `mgrid` and `ogrid`."""

    def __init__(self, name: str, sparse: bool):
        self.name, self.sparse = name, sparse

    def __repr__(self) -> str:
        return f"didax.numpy.{self.name}"

    @api_boundary
    def __getitem__(self, key: slice | tuple[slice, ...]) -> Any:
        spans = key if isinstance(key, tuple) else (key,)
        for span in spans:
            if not isinstance(span, slice):
                fix = f"Write {self.name}[0:3, 0:1:5j]."
                raise TypeError(message(f"{self.name} is indexed by slices.", f"got: {span!r:.100}", fix=fix))
        if not isinstance(key, tuple):
            return _points(key)
        if not spans:
            return [] if self.sparse else asarray(np.zeros(0, np.int32))
        vectors = [as_array(self.name, x) for x in promote_dtypes(self.name, *map(_points, spans))]
        grids = meshgrid(*vectors, indexing="ij", sparse=self.sparse)
        return grids if self.sparse else stack(grids)


class _Join:
    """The class of `r_` and `c_`: joins the items of the index along `axis`, with at least `ndmin` axes.

    An array with fewer axes gets new ones; its own axes begin at axis `start` of the result (counted from the
    end where `start` is negative).
    """

    def __init__(self, name: str, axis: int, ndmin: int, start: int):
        self.name, self.axis, self.ndmin, self.start = name, axis, ndmin, start

    def __repr__(self) -> str:
        return f"didax.numpy.{self.name}"

    @api_boundary
    def __getitem__(self, key: Any) -> Array:
        items = key if isinstance(key, tuple) else (key,)
        axis, ndmin, start = self.axis, self.ndmin, self.start
        matrix = ""
        if items and isinstance(items[0], str):
            matrix = items[0] if items[0] in ("r", "c") else ""
            numbers = [] if matrix else self._directive(items[0])
            axis, ndmin, start = [*numbers, *(axis, ndmin, start)[len(numbers) :]]
            items = items[1:]
        if not items or any(isinstance(item, str) for item in items):
            rule = f"{self.name} is indexed by arrays, numbers and slices, a directive before them."
            raise ValueError(message(rule, f"index: {key!r:.100}", fix=f"Write {self.name}['0,2', x, 1:4]."))
        parts = [
            _with_axes(_points(i) if isinstance(i, slice) else self._array(i), ndmin, start)
            for i in beside_wide(*items)
        ]
        joined = concatenate(parts, axis)
        if matrix and joined.ndim == 1:
            return reshape(joined, (-1, 1) if matrix == "c" else (1, -1))
        return joined

    def _array(self, item: Any) -> Array:
        return asarray(item) if isinstance(item, list | tuple) else as_array(self.name, item)

    def _directive(self, text: str) -> list[int]:
        try:
            numbers = [int(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        if not 1 <= len(numbers) <= 3:
            rule = f"A directive of {self.name} is 'r', 'c', or 'axis', 'axis,ndmin' or 'axis,ndmin,start'."
            raise ValueError(message(rule, f"directive: {text!r}", fix=f"Write {self.name}['0,2', x, y]."))
        return numbers


def _with_axes(x: Array, ndmin: int, start: int) -> Array:
    """Return `x` with new axes of length 1, so that it has `ndmin` axes and its own axes begin at `start`."""
    new = ndmin - x.ndim
    if new <= 0:
        return x
    before = start + new + 1 if start < 0 else min(start, new)
    return reshape(x, (1,) * before + x.shape + (1,) * (new - before))


class _IndexExpression:
    """The class of `s_` and `index_exp`: indexing returns the index itself."""

    def __init__(self, name: str, as_tuple: bool):
        self.name, self.as_tuple = name, as_tuple

    def __repr__(self) -> str:
        return f"didax.numpy.{self.name}"

    def __getitem__(self, key: Any) -> Any:
        return (key,) if self.as_tuple and not isinstance(key, tuple) else key


mgrid = _Grid("mgrid", sparse=False)
ogrid = _Grid("ogrid", sparse=True)
r_ = _Join("r_", axis=0, ndmin=1, start=-1)
c_ = _Join("c_", axis=-1, ndmin=2, start=0)
s_ = _IndexExpression("s_", as_tuple=False)
index_exp = _IndexExpression("index_exp", as_tuple=True)
