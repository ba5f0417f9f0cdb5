"""Questions about arrays: shape, size, closeness, equality.

Read next: `ufuncs.py` for questions about each element.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.api.whole_functions import evaluated_whole
from didax.core import config, dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic, min_dim
from didax.core.errors import api_boundary
from didax.core.value import Array
from didax.numpy import ufuncs
from didax.numpy.creation import asarray
from didax.numpy.promotion import (
    ArrayLike,
    as_array,
    as_array_of,
    as_operand,
    beside_wide,
    broadcast_shapes,
    checked_operand,
    promote,
)
from didax.numpy.reductions import all as all_of
from didax.numpy.reductions import canonical_axes
from didax.numpy.ufuncs import logical_and, logical_or
from didax.primitives.narrow import bytes_in_float32

__all__ = [
    "allclose", "array_equal", "array_equiv", "isclose", "iscomplexobj", "isrealobj", "isscalar", "ndim",
    "shape", "size",
]  # fmt: skip


def _type(name: str, a: Any) -> ShapedArray:
    """Return the type of an array, of a `ShapeDtypeStruct`, or of a scalar."""
    aval = getattr(a, "aval", None)
    return aval if isinstance(aval, ShapedArray) else aval_of(checked_operand(name, a, "a"))


def _shape(name: str, a: Any) -> tuple[int, ...]:
    """Return the shape, also of what is no array here: of strings, or a matrix of `scipy.sparse`."""
    if hasattr(a, "dtype") and type(lengths := getattr(a, "shape", None)) is tuple:
        return lengths
    if config.state().as_in_jax and as_operand(a) is None:
        return np.shape(a)  # of lists and buffers, which are to be an error in JAX, too
    return _type(name, a).shape


@api_boundary
def shape(a: ArrayLike) -> tuple[int, ...]:
    """Return the shape: the length of each axis.

    >>> import didax.numpy as dnp
    >>> dnp.shape(dnp.zeros((2, 3)))
    (2, 3)
    """
    return _shape("shape", a)


@api_boundary
def ndim(a: ArrayLike) -> int:
    """Return the number of axes.

    >>> import didax.numpy as dnp
    >>> dnp.ndim(1.0)
    0
    """
    return len(_shape("ndim", a))


@api_boundary
def size(a: ArrayLike, axis: int | Sequence[int] | None = None) -> int:
    """Return the number of elements, or the number along some axes.

    >>> import didax.numpy as dnp
    >>> dnp.size(dnp.zeros((2, 3)), 1)
    3
    """
    lengths = _shape("size", a)
    return math.prod([lengths[i] for i in canonical_axes("size", axis, len(lengths))])


def isscalar(element: Any) -> bool:
    """Whether the argument is a number or an array without axes.

    >>> import didax.numpy as dnp
    >>> dnp.isscalar(1.0), dnp.isscalar([1.0])
    (True, False)
    """
    operand = as_operand(element)
    return (
        operand is not None
        and np.ndim(element if not isinstance(operand, Array) else 0) == 0
        and not getattr(operand, "shape", ())
    )


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex.

    >>> import didax.numpy as dnp
    >>> dnp.iscomplexobj(dnp.array([1j]))
    True
    """
    found = getattr(x, "dtype", None)
    if found is None:
        return isinstance(x, complex)
    return dtypes.as_extended(found) is None and np.dtype(found).kind == "c"


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex.

    >>> import didax.numpy as dnp
    >>> dnp.isrealobj(dnp.array([1.0]))
    True
    """
    return not iscomplexobj(x)


@evaluated_whole
@api_boundary
@bytes_in_float32
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether |a - b| <= atol + rtol * |b|, elementwise. Infinities of one sign are close, keys if they are equal.

    >>> import didax.numpy as dnp
    >>> dnp.isclose(dnp.array([1.0, 2.0]), dnp.array([1.0, 2.1]))
    Array([ True, False], dtype=bool)
    """
    if all(dtypes.as_extended(getattr(x, "dtype", None)) is not None for x in (a, b)):
        return ufuncs.equal(a, b)
    x, y = [as_array("isclose", v) for v in promote("isclose", a, b, to_inexact=True)]
    kind = dtypes.real_dtype(x.dtype)
    bound = ufuncs.add(
        as_array_of("isclose", atol, kind, argument="atol"),
        ufuncs.multiply(as_array_of("isclose", rtol, kind, argument="rtol"), abs(y)),
    )
    is_finite = logical_and(ufuncs.isfinite(x), ufuncs.isfinite(y))
    near = logical_and(is_finite, ufuncs.less_equal(abs(ufuncs.subtract(x, y)), bound))
    near = logical_or(near, ufuncs.equal(x, y))
    return logical_or(near, logical_and(ufuncs.isnan(x), ufuncs.isnan(y))) if equal_nan else near


@evaluated_whole
@api_boundary
def allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether all elements are close to each other, as `isclose` defines it.

    >>> import didax.numpy as dnp
    >>> dnp.allclose(dnp.array([1.0]), 1.0)
    Array(True, dtype=bool)
    """
    return all_of(isclose(a, b, rtol, atol, equal_nan))


@api_boundary
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether both arrays have equal shapes and equal elements.

    >>> import didax.numpy as dnp
    >>> dnp.array_equal(dnp.array([1, 2]), dnp.array([1, 2]))
    Array(True, dtype=bool)
    >>> dnp.array_equal([1, 2], [1, 3])
    Array(False, dtype=bool)
    """
    x, y = map(asarray, beside_wide(a1, a2))
    if x.shape != y.shape:
        if x.ndim == y.ndim and any(map(is_symbolic, x.shape + y.shape)):
            return _equal_at_some_sizes(x, y, equal_nan)
        return as_array("array_equal", False)
    if x.dtype == y.dtype == dtypes.float0:
        return as_array("array_equal", True)
    same = ufuncs.equal(x, y)
    return all_of(logical_or(same, logical_and(ufuncs.isnan(x), ufuncs.isnan(y))) if equal_nan else same)


def _equal_at_some_sizes(x: Array, y: Array, equal_nan: bool) -> Array:
    """Whether arrays of symbolic shapes have equal lengths, and equal elements where they overlap."""
    lengths = list(zip(x.shape, y.shape, strict=True))
    overlap = tuple([slice(min_dim(n, m)) for n, m in lengths])
    agree = [ufuncs.equal(n, m) for n, m in lengths if n != m]
    return functools.reduce(logical_and, agree, array_equal(x[overlap], y[overlap], equal_nan))


@api_boundary
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether all elements are equal after broadcasting; False where the shapes do not broadcast.

    >>> import didax.numpy as dnp
    >>> dnp.array_equiv(dnp.array([1, 1]), 1)
    Array(True, dtype=bool)
    """
    x, y = map(asarray, beside_wide(a1, a2))
    try:
        broadcast_shapes("array_equiv", [x.shape, y.shape])
    except ValueError:
        if any(map(is_symbolic, x.shape + y.shape)):
            raise  # they may broadcast at some sizes
        return as_array("array_equiv", False)
    return all_of(ufuncs.equal(x, y))
