"""Positions, and writes at positions: ix_, diag_indices, unravel_index, put, choose, compress, fill_diagonal.

A function that changes its argument in NumPy returns a changed copy here, and only with `inplace=False`, so
that a program moved over from NumPy cannot go on with the old array. Read next: `indexing.py` (x[...] and
x.at[...], on which these functions are built), `grids.py` (r_, mgrid).
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
from didax.core.dims import as_length, is_symbolic, max_dim, may_exceed
from didax.core.errors import (
    ArgumentError,
    ConcretizationTypeError,
    InconclusiveDimensionOperation,
    api_boundary,
    message,
)
from didax.core.tracing import known_value
from didax.core.value import Array
from didax.lax.slicing import Mode
from didax.numpy import ufuncs
from didax.numpy.creation import arange, canonical_shape, from_numpy, ones, tri, zeros
from didax.numpy.indexing import at, getitem
from didax.numpy.joining import stack
from didax.numpy.manipulation import broadcast_arrays, expand_dims, ravel, reshape, resize
from didax.numpy.promotion import (
    ArrayLike,
    DTypeLike,
    as_array,
    as_array_of,
    broadcast_shapes,
    cast,
    no_out,
    promote_dtypes,
)
from didax.numpy.reductions import canonical_axis, cumsum
from didax.numpy.selection import fitted_positions, flatnonzero, nonzero, ramp, take_along_axis
from didax.numpy.ufunc import truth

__all__ = [
    "choose", "compress", "diag_indices", "diag_indices_from", "extract", "fill_diagonal", "ix_", "mask_indices",
    "place", "put", "put_along_axis", "ravel_multi_index", "tril_indices", "tril_indices_from", "triu_indices",
    "triu_indices_from", "unravel_index",
]  # fmt: skip


# --- positions ----------------------------------------------------------------------------------------------


@array_function
def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Return vectors of positions (or masks) reshaped so that together they index their outer product.

    >>> import didax.numpy as dnp
    >>> x = dnp.arange(12).reshape(3, 4)
    >>> x[dnp.ix_(dnp.array([0, 2]), dnp.array([1, 3]))]
    Array([[ 1,  3],
           [ 9, 11]], dtype=int32)
    """
    vectors = [as_array("ix_", x, i) for i, x in enumerate(args)]
    for i, x in enumerate(vectors):
        if x.ndim != 1:
            fix = "Ravel it, or make it a vector of one element."
            raise ValueError(message("ix_ takes vectors.", f"argument {i + 1}: {x.aval}", fix=fix))
    vectors = [flatnonzero(x) if x.dtype == np.bool_ else x for x in vectors]
    vectors = [x if x.size else cast(x, dtypes.default_dtype("i")) for x in vectors]
    n = len(vectors)
    return tuple([reshape(x, (1,) * i + (x.size,) + (1,) * (n - 1 - i)) for i, x in enumerate(vectors)])


@evaluated_whole
@array_function
def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Return the positions of the main diagonal of an array with `ndim` axes of length n.

    >>> import didax.numpy as dnp
    >>> dnp.zeros((2, 2)).at[dnp.diag_indices(2)].set(1.0)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    n, ndim = as_length(n), operator.index(ndim)
    if n < 0 or ndim < 0:
        rule = "diag_indices takes a length and a number of axes of 0 or more."
        raise ValueError(message(rule, f"n: {n}, ndim: {ndim}", fix="Pass the length of the axes."))
    return (arange(n),) * ndim


def _square(name: str, arr: ArrayLike) -> Array:
    """Return an array with two or more axes, all of one length."""
    x = as_array(name, arr, "arr")
    if x.ndim < 2 or len(set(x.shape)) > 1:
        rule = f"{name} takes an array with at least two axes, all of the same length."
        raise ValueError(message(rule, f"array: {x.aval}", fix="Slice it to a square first."))
    return x


@array_function
def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Return the positions of the main diagonal of a square array.

    >>> import didax.numpy as dnp
    >>> dnp.eye(2)[dnp.diag_indices_from(dnp.eye(2))]
    Array([1., 1.], dtype=float32)
    """
    x = _square("diag_indices_from", arr)
    return diag_indices(x.shape[0], x.ndim)


def _matrix_shape(name: str, arr: Any) -> tuple[int, int]:
    shape = tuple(arr.shape) if hasattr(arr, "shape") else as_array(name, arr, "arr").shape
    if len(shape) != 2:
        fix = "Index the matrices of a stack one by one, or vmap."
        raise ValueError(message(f"{name} takes a matrix.", f"arr has shape {shape}", fix=fix))
    return shape


@api_boundary
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the row and column indices of the lower triangle of an n x m matrix.

    >>> import didax.numpy as dnp
    >>> dnp.tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    return _in_triangle(n, k, m, lower=True)


@api_boundary
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the row and column indices of the upper triangle of an n x m matrix.

    >>> import didax.numpy as dnp
    >>> dnp.triu_indices(2)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    return _in_triangle(n, k, m, lower=False)


def _in_triangle(n: Any, k: Any, m: Any, lower: bool) -> tuple[Array, Array]:
    """`tril_indices`, or `triu_indices`; of a matrix of any size if it is square: the positions have to be counted."""
    if not is_symbolic(n) and not is_symbolic(m):
        n, k, m = [x if x is None else operator.index(x) for x in (n, k, m)]
        rows, columns = (np.tril_indices if lower else np.triu_indices)(n, k=k, m=m)
        return from_numpy(rows), from_numpy(columns)
    if m not in (None, n):
        rule = "The positions in a triangle of a matrix of any size are counted for square matrices."
        fix = "Use nonzero of dnp.tri, with size=, or a square matrix."
        raise InconclusiveDimensionOperation(message(rule, f"matrix: {n} x {m}", fix=fix))
    k = operator.index(k) if lower else operator.index(k) - 1
    # The side of the triangle below the k-th diagonal, or of the one above it.
    rest = max_dim(n + k if k < 0 else n - 1 - k, 0)
    below = rest * (rest + 1) // 2 if k < 0 else n * n - rest * (rest + 1) // 2
    inside = tri(n, n, k, bool)
    inside, size = (inside, below) if lower else (ufuncs.logical_not(inside), n * n - below)
    rows, columns = nonzero(inside, size=size)
    return rows, columns


@array_function
def tril_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """Return the positions on and below the k-th diagonal of a matrix.

    >>> import didax.numpy as dnp
    >>> dnp.tril_indices_from(dnp.eye(2))
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    rows, columns = _matrix_shape("tril_indices_from", arr)
    return tril_indices(rows, k, columns)


@array_function
def triu_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """Return the positions on and above the k-th diagonal of a matrix.

    >>> import didax.numpy as dnp
    >>> dnp.triu_indices_from(dnp.eye(2))
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    rows, columns = _matrix_shape("triu_indices_from", arr)
    return triu_indices(rows, k, columns)


@array_function
def mask_indices(
    n: int, mask_func: Callable[[Array, int], ArrayLike], k: int = 0, *, size: int | None = None
) -> tuple[Array, ...]:
    """Return the positions where `mask_func(ones((n, n)), k)` is not zero; `size` fixes their number under jit.

    >>> import didax.numpy as dnp
    >>> dnp.mask_indices(2, dnp.triu)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    return nonzero(mask_func(ones((n, n)), k), size=size)


def _integers(name: str, argument: str, x: Array) -> Array:
    if dtypes.is_integer(x.dtype):
        return x
    fix = "Cast them (astype('int32'))."
    raise ArgumentError(message(f"{name} takes integer positions.", f"{argument}: {x.aval}", fix=fix))


@array_function
def unravel_index(indices: ArrayLike, shape: Any) -> tuple[Array, ...]:
    """Return positions in the ravelled array as positions along each axis; positions out of range are moved inside.

    >>> import didax.numpy as dnp
    >>> dnp.unravel_index(dnp.array([1, 5]), (2, 3))
    (Array([0, 1], dtype=int32), Array([1, 2], dtype=int32))
    """
    lengths = canonical_shape("unravel_index", shape)
    flat = _integers("unravel_index", "indices", as_array("unravel_index", indices, "indices"))
    if isinstance(shape, (Array, np.ndarray, np.generic)):
        flat = as_array("unravel_index", promote_dtypes("unravel_index", flat, shape)[0])
    total = math.prod(lengths)
    if may_exceed(total, int(dtypes.iinfo(flat.dtype).max)):
        flat = cast(flat, dtypes.default_dtype("i"))
    flat = ufuncs.where(ufuncs.less(flat, 0), ufuncs.add(flat, total), flat)
    flat = ufuncs.clip(flat, 0, max_dim(total - 1, 0))
    places: list[Array] = []
    for n in reversed(lengths):
        flat, place = ufuncs.divmod(flat, max_dim(n, 1))
        places.append(place)
    return tuple(reversed(places))


@array_function
def ravel_multi_index(
    multi_index: Sequence[ArrayLike], dims: Sequence[int], mode: str = "raise", order: str = "C", *,
    dtype: DTypeLike = None,
) -> Array:  # fmt: skip
    """Return positions along each axis as positions in the ravelled array.

    `mode` says what becomes of a position out of range: "raise" (which needs known values, so not under jit),
    "clip" (to the nearest), "wrap" (modulo the length), or "ignore" (computed with as it is).

    >>> import didax.numpy as dnp
    >>> dnp.ravel_multi_index((dnp.array([0, 1]), dnp.array([1, 2])), (2, 3))
    Array([1, 5], dtype=int32)
    """
    lengths = canonical_shape("ravel_multi_index", dims)
    given = list(multi_index)
    if len(given) != len(lengths) or order not in ("C", "F"):
        rule = "ravel_multi_index takes positions for each axis, in order 'C' or 'F'."
        facts = f"positions for {len(given)} axes, dims: {lengths}, order: {order!r}"
        raise ValueError(message(rule, facts, fix="Pass a position, or an array of them, for each of dims."))
    places = [_integers("ravel_multi_index", "multi_index", as_array("ravel_multi_index", i)) for i in given]
    places = [
        _inside("ravel_multi_index", cast(i, dtypes.default_dtype("i")), n, mode)
        for i, n in zip(places, lengths, strict=True)
    ]
    if order == "F":
        places, lengths = places[::-1], lengths[::-1]
    flat: Any = as_array("ravel_multi_index", 0)
    for place, n in zip(places, lengths, strict=True):
        flat = ufuncs.add(ufuncs.multiply(flat, n), place)
    return cast(flat, dtypes.default_dtype("i") if dtype is None else dtypes.dtype(dtype))


def _inside(name: str, index: Array, length: int, mode: str) -> Array:
    """Return positions from 0 to length - 1, as the mode asks; ValueError for others if the mode is "raise"."""
    if mode == "clip":
        return ufuncs.clip(index, 0, length - 1)
    if mode == "wrap":
        return ufuncs.remainder(index, length)
    if mode == "ignore":
        return index
    facts = f"positions: {index.aval}, allowed: 0 to {length - 1}, mode: {mode!r}"
    fix = "Use mode='clip' or mode='wrap', or correct the positions."
    if mode != "raise":
        raise ValueError(
            message(f"{name} has the modes 'raise', 'clip', 'wrap' and 'ignore'.", facts, fix=fix)
        )
    known = None if is_symbolic(length) else known_value(index)
    if known is None:
        rule = (
            f"{name} with mode='raise' has to know the positions and lengths, which are traced, or symbolic."
        )
        raise ConcretizationTypeError(message(rule, facts, fix=fix))
    found = np.asarray(known)
    if ((found < 0) | (found >= length)).any():
        raise ValueError(message(f"{name} got a position out of range.", facts, fix=fix))
    return index


# --- choosing -----------------------------------------------------------------------------------------------


@array_function
def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """Return, for each element of `a`, the element at its place in the array `choices[a]`; all arrays broadcast.

    `mode` is "raise" (which needs known values, so not under jit), "clip" or "wrap".

    >>> import didax.numpy as dnp
    >>> dnp.choose(dnp.array([0, 1, 1]), [dnp.array([1, 2, 3]), 10])
    Array([ 1, 10, 10], dtype=int32)
    """
    no_out("choose", out)
    which = _integers("choose", "a", as_array("choose", a, "a"))
    if len(choices) == 0:
        fix = "Pass a list of arrays, or an array along whose first axis they are."
        raise ValueError(
            message("choose needs at least one array to choose from.", f"choices: {choices!r}", fix=fix)
        )
    arrays = [as_array("choose", x, "choices") for x in promote_dtypes("choose", *list(choices))]
    which = _inside("choose", which, len(arrays), mode)
    which, *arrays = broadcast_arrays(which, *arrays)
    return take_along_axis(stack(arrays, dtype=arrays[0].dtype), expand_dims(which, 0), 0, mode="clip")[0]


@array_function
def compress(
    condition: ArrayLike, a: ArrayLike, axis: int | None = None, *, size: int | None = None,
    fill_value: ArrayLike = 0, out: None = None,
) -> Array:  # fmt: skip
    """Return the slices along an axis (of the ravelled array by default) where the vector `condition` holds.

    A short condition is False beyond its end; a condition that holds beyond the end of the axis raises ValueError.
    `size` fixes the number of results, as jit needs it: results are cut off, or filled up with `fill_value`, and what
    the condition says beyond the end of the axis does not count.

    >>> import didax.numpy as dnp
    >>> dnp.compress(dnp.array([True, False, True]), dnp.array([1, 2, 3]))
    Array([1, 3], dtype=int32)
    """
    no_out("compress", out)
    mask, x = as_array("compress", condition, "condition"), as_array("compress", a, "a")
    x, dimension = (ravel(x), 0) if axis is None else (x, canonical_axis("compress", axis, x.ndim))
    length = x.shape[dimension]
    beyond = known_value(mask[length:]) if mask.ndim == 1 and size is None else None
    if mask.ndim != 1 or (beyond is not None and np.asarray(beyond).any()):
        rule = "compress takes a vector of conditions that holds nowhere beyond the end of the axis."
        facts = f"condition: {mask.aval}, axis of length {length}, a: {x.aval}"
        raise ValueError(message(rule, facts, fix="Pass one condition for each slice along the axis."))
    places = flatnonzero(mask[:length], size=size, fill_value=length)  # out of range, so filled
    fill = np.asarray(fill_value).item()
    return at(x)[(slice(None),) * dimension + (places,)].get(mode="fill", fill_value=fill)


@array_function
def extract(condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: Any = 0) -> Array:
    """Return the elements where the condition holds, as a vector.

    A condition that holds beyond the end of the array raises ValueError; for `size` see `compress`.

    >>> import didax.numpy as dnp
    >>> dnp.extract(dnp.array([True, False]), dnp.array([1, 2]))
    Array([1], dtype=int32)
    """
    mask, x = as_array("extract", condition, "condition"), as_array("extract", arr, "arr")
    return compress(ravel(mask), ravel(x), size=size, fill_value=fill_value)


# --- writing ------------------------------------------------------------------------------------------------


def _check_copies(name: str, x: Array, inplace: bool) -> None:
    if inplace:
        rule = f"{name} cannot change its argument: arrays are immutable."
        fix = f"Pass inplace=False for a changed copy: x = {name}(x, ..., inplace=False)."
        raise ValueError(message(rule, f"array: {x.aval}", fix=fix))


def _repeated(values: Array, count: int) -> Array:
    """Return `count` elements of the values, repeated from the start."""
    flat = ravel(values)
    return flat if flat.size == count else resize(flat, (count,))


@array_function
def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Array:
    """Return a copy with the elements at positions of the ravelled array set to `v`, which repeats if it is short.

    Negative positions count from the end. `mode` says what becomes of a position out of range: "clip" and
    "wrap" move it inside, None drops the write. ValueError unless `inplace=False`.

    >>> import didax.numpy as dnp
    >>> dnp.put(dnp.zeros(4), dnp.array([0, 2]), dnp.array([5.0, 6.0]), inplace=False)
    Array([5., 0., 6., 0.], dtype=float32)
    """
    x = as_array("put", a, "a")
    values = as_array_of("put", v, x.dtype, argument="v") if type(v) is float else as_array("put", v, "v")
    index = as_array("put", fitted_positions(ind, x.size, mode), "ind")
    _check_copies("put", x, inplace)
    if mode not in (None, "clip", "wrap"):
        raise ValueError(
            message("Unknown mode for put.", f"mode: {mode!r}", fix="Use 'clip', 'wrap' or None.")
        )
    if not index.size or not values.size or not x.size:
        return x
    index = ravel(_integers("put", "ind", index))
    if mode is not None:
        index = _inside("put", index, x.size, mode)
    return reshape(at(ravel(x))[index].set(_repeated(values, index.size), mode="drop"), x.shape)


@evaluated_whole
@array_function
def put_along_axis(
    arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None, inplace: bool = True, *,
    mode: Mode = None,
) -> Array:  # fmt: skip
    """Return a copy in which the elements that `take_along_axis` reads are set. ValueError unless `inplace=False`.

    >>> import didax.numpy as dnp
    >>> dnp.put_along_axis(dnp.zeros((2, 2)), dnp.array([[0], [1]]), 7.0, axis=1, inplace=False)
    Array([[7., 0.],
           [0., 7.]], dtype=float32)
    """
    given = as_array("put_along_axis", arr, "arr")
    _check_copies("put_along_axis", given, inplace)
    x, axis = (ravel(given), 0) if axis is None else (given, axis)
    length = x.shape[canonical_axis("put_along_axis", axis, x.ndim)]
    index = as_array("put_along_axis", fitted_positions(indices, length, mode), "indices")
    index = _integers("put_along_axis", "indices", index)
    if x.ndim != index.ndim:
        rule = "put_along_axis takes positions with as many axes as the array."
        facts = f"arr: {x.aval}, indices: {index.aval}"
        raise ValueError(message(rule, facts, fix="Add axes of length 1 to the positions."))
    dimension = canonical_axis("put_along_axis", axis, x.ndim)
    others = [s[:dimension] + (1,) + s[dimension + 1 :] for s in (x.shape, index.shape)]
    broadcast_shapes("put_along_axis", others)
    place = [index if i == dimension else ramp(n, i, x.ndim) for i, n in enumerate(x.shape)]
    return reshape(at(x)[tuple(place)].set(values, mode=mode), given.shape)


@array_function
def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """Return a copy whose elements where the mask holds are set to the values `vals` in order.

    A short `vals` starts again. ValueError unless `inplace=False`.

    >>> import didax.numpy as dnp
    >>> dnp.place(dnp.arange(4), dnp.array([True, False, True, True]), dnp.array([7, 8]), inplace=False)
    Array([7, 1, 8, 7], dtype=int32)
    """
    x, holds, values = as_array("place", arr, "arr"), as_array("place", mask), as_array("place", vals, "vals")
    _check_copies("place", x, inplace)
    if holds.size != x.size or not values.size:
        rule = "place takes a mask with as many elements as the array, and at least one value."
        facts = f"arr: {x.aval}, mask: {holds.aval}, vals: {values.aval}"
        raise ValueError(message(rule, facts, fix="Compute the mask from the array itself."))
    holds = reshape(truth(holds), x.shape)
    number = reshape(ufuncs.subtract(cumsum(ravel(holds)), 1), x.shape)
    values = at(zeros(values.shape, x.dtype))[...].set(values)  # cast like any update
    return ufuncs.where(holds, getitem(ravel(values), ufuncs.remainder(number, values.size)), x)


@array_function
def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """Return a copy with the main diagonal set to `val`; an array repeats along it. ValueError unless `inplace=False`.

    With `wrap` the diagonal of a tall matrix starts again below the square. More than two axes must be of one
    length.

    >>> import didax.numpy as dnp
    >>> dnp.fill_diagonal(dnp.zeros((2, 2)), 1.0, inplace=False)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    x = as_array("fill_diagonal", a, "a")
    is_number = type(val) is float
    values = (
        as_array_of("fill_diagonal", val, x.dtype) if is_number else as_array("fill_diagonal", val, "val")
    )
    _check_copies("fill_diagonal", x, inplace)
    if x.ndim != 2:
        x = _square("fill_diagonal", x)
    if not x.size or not values.size:
        return x
    step = sum([math.prod(x.shape[i + 1 :]) for i in range(x.ndim)])
    end = x.size if wrap or x.ndim > 2 else min(x.size, x.shape[1] * x.shape[1])
    count = len(range(0, end, step))
    values = values if not values.ndim else _repeated(values, count)
    return reshape(at(ravel(x))[:end:step].set(values), x.shape)
