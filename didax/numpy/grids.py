"""Grids of points, and the objects whose indexing makes arrays.

    meshgrid, indices, fromfunction    functions of vectors, of a shape
    mgrid, ogrid                       grids by slices
    r_, c_, s_, index_exp              arrays joined; indices kept

    r_[1:4, 0, [7, 8]]      array([1, 2, 3, 0, 7, 8])
    ogrid[0:2, 0:1:3j]      vectors that broadcast to a grid; a step of 3j asks for 3 points, both ends included

Bounds and steps are static numbers. Read next: `positions.py`, `creation.py` (arange, linspace).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.api.results import array_function
from didax.api.vmap import vmap
from didax.core import dtypes
from didax.core.errors import api_boundary, check_choice, message
from didax.core.value import Array
from didax.numpy.creation import arange, asarray, canonical_shape, linspace, zeros
from didax.numpy.joining import concatenate, stack
from didax.numpy.manipulation import reshape
from didax.numpy.promotion import ArrayLike, DTypeLike, as_array, beside_wide, promote_dtypes
from didax.primitives.convert import iota
from didax.primitives.shape import broadcast_in_dim

__all__ = ["c_", "fromfunction", "index_exp", "indices", "meshgrid", "mgrid", "ogrid", "r_", "s_"]


# --- functions ----------------------------------------------------------------------------------------------


@array_function
def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Array]:
    """Return the coordinate arrays of the grid that vectors span.

    With `indexing` "ij" the axes of the grid are in the order of the vectors; "xy" swaps the first two.

    >>> import didax.numpy as dnp
    >>> [a.shape for a in dnp.meshgrid(dnp.arange(3), dnp.arange(2))]
    [(2, 3), (2, 3)]
    """
    check_choice("meshgrid", "indexing", indexing, "xy", "ij")
    vectors = [as_array("meshgrid", x, i) for i, x in enumerate(xi)]
    for i, x in enumerate(vectors):
        if x.ndim > 1:
            raise ValueError(
                message("meshgrid takes vectors.", f"argument {i + 1}: {x.aval}", fix="Ravel it first.")
            )
    axes = list(range(len(vectors)))
    if indexing == "xy" and len(axes) > 1:
        axes[0], axes[1] = 1, 0
    lengths = [math.prod(x.shape) for x in vectors]
    shape = tuple([lengths[i] for i in axes])
    if sparse:
        return [
            reshape(x, tuple([n if j == axis else 1 for j, n in enumerate(shape)]))
            for x, axis in zip(vectors, axes, strict=True)
        ]
    return [
        broadcast_in_dim(reshape(x, (n,)), shape, (axis,))
        for x, n, axis in zip(vectors, lengths, axes, strict=True)
    ]


@api_boundary
def indices(dimensions: Sequence[int], dtype: DTypeLike = None, sparse: bool = False) -> Any:
    """Return, for each axis of a grid, the index along this axis: an array of shape (len(dimensions), *dimensions).

    >>> import didax.numpy as dnp
    >>> dnp.indices((2, 2))
    Array([[[0, 0],
            [1, 1]],
    <BLANKLINE>
           [[0, 1],
            [0, 1]]], dtype=int32)
    """
    shape = canonical_shape("indices", dimensions)
    stated = dtypes.dtype(int if dtype is None else dtype)
    if sparse:
        return tuple(
            [
                reshape(iota(stated, (n,), 0), tuple([n if j == i else 1 for j in range(len(shape))]))
                for i, n in enumerate(shape)
            ]
        )
    return stack([iota(stated, shape, axis) for axis in range(len(shape))]) if shape else zeros((0,), stated)


@api_boundary
def fromfunction(function: Any, shape: Any, *, dtype: DTypeLike = float, **kwargs: Any) -> Any:
    """Return what `function` gives for the indices of each point of a grid of the given shape.

    It is called once, with scalars that are mapped over the axes of the grid (`vmap`), so its results have these axes
    first, whatever it returns.

    >>> import didax.numpy as dnp
    >>> dnp.fromfunction(lambda i, j: i + j, (2, 2), dtype=int)
    Array([[0, 1],
           [1, 2]], dtype=int32)
    """
    lengths = canonical_shape("fromfunction", shape)
    positions = [iota(dtypes.dtype(dtype), (n,), 0) for n in lengths]
    mapped = functools.partial(function, **kwargs)
    for axis in reversed(range(len(lengths))):
        mapped = vmap(mapped, in_axes=tuple([0 if i == axis else None for i in range(len(lengths))]))
    return mapped(*positions)


# --- objects that are indexed -------------------------------------------------------------------------------


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
