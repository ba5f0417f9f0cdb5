"""Functions that rearrange arrays: shapes and axes, repetition and rotation, diagonals.

Shapes, axes and counts are static. Read next: `joining.py` (concatenate, split, insert), `padding.py`,
`selection.py` (take, sort, unique), `indexing.py`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import config, dtypes
from didax.core.avals import aval_of
from didax.core.dims import as_length, is_symbolic, lengths_of, max_dim, min_dim
from didax.core.errors import ArgumentError, ConcretizationTypeError, check_choice, message
from didax.core.tracing import Tracer, known_value
from didax.core.value import Array
from didax.numpy import promotion, ufuncs
from didax.numpy.creation import canonical_shape, placed, triangle
from didax.numpy.indexing import getitem
from didax.numpy.promotion import ArrayLike, DTypeLike, as_array, as_array_of, cast
from didax.numpy.reductions import canonical_axes, canonical_axis, cumsum
from didax.numpy.selection import searchsorted
from didax.primitives import elementwise as el
from didax.primitives import shape as shapes
from didax.primitives.convert import copy_p, iota
from didax.primitives.shape import broadcast_in_dim, move_axis
from didax.primitives.slicing import concatenate as join
from didax.primitives.slicing import pad, rev, slice_axis

__all__ = [
    "astype", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "diag", "diagflat", "diagonal", "expand_dims", "flip", "fliplr", "flipud",
    "matrix_transpose", "moveaxis", "permute_dims", "ravel", "repeat", "reshape", "resize", "roll",
    "rollaxis", "rot90", "squeeze", "swapaxes", "tile", "transpose",
]  # fmt: skip


# --- shapes -------------------------------------------------------------------------------------------------


@array_function
def astype(x: ArrayLike, dtype: DTypeLike, copy: bool = False, device: Any = None) -> Array:
    """Return `x` in another dtype; floats are truncated to integers, complex numbers lose their imaginary part.

    With `copy` the result has memory of its own even where `x` already has the dtype.

    >>> import didax.numpy as dnp
    >>> dnp.astype(dnp.array([1.7, -1.7]), int)
    Array([ 1, -1], dtype=int32)
    """
    given = x if isinstance(x, Array) else as_array("astype", x)
    result = as_array_of("astype", x, dtypes.dtype(float if dtype is None else dtype))
    return placed(copy_p.bind(result) if copy and result is given else result, device)


def _new_shape(x: Array, shape: Any) -> tuple[int, ...]:
    several = isinstance(shape, tuple | list | range) or getattr(shape, "ndim", 0)  # a vector is a shape, too
    lengths = tuple(map(as_length, shape if several else (shape,)))
    if -1 not in lengths:
        return lengths
    known = math.prod([n for n in lengths if n != -1])
    if lengths.count(-1) > 1 or known == 0 or x.size % known != 0:
        raise TypeError(
            message(
                "reshape finds at most one length, -1, from the others.",
                f"a: {x.aval} ({x.size} elements), new shape: {lengths}",
                fix="Choose lengths whose product divides the number of elements.",
            )
        )
    return tuple([x.size // known if n == -1 else n for n in lengths])


@array_function
def reshape(a: ArrayLike, shape: Any, order: str = "C", *, copy: bool | None = None) -> Array:
    """Return the elements in another shape; one length may be -1, which stands for the length that remains.

    With `order` "F" the elements are read and placed with the first index changing fastest.

    >>> import didax.numpy as dnp
    >>> dnp.reshape(dnp.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    x = as_array("reshape", a, "a")
    lengths = _new_shape(x, shape)
    if order not in ("C", "F"):  # calls are hot
        check_choice("reshape", "order", order, "C", "F")
    if config.state().as_in_jax and isinstance(a, np.ndarray) and math.prod(lengths) == x.size and not copy:
        known: Any = a.reshape(lengths, order=order)  # type: ignore[call-overload]  # it was checked
        return known  # a NumPy array, as in JAX: programs look at its numbers while they are traced
    if copy:
        x = copy_p.bind(x)
    if order == "C":
        return shapes.reshape(x, lengths)
    return transpose(shapes.reshape(transpose(x), lengths[::-1]))


@array_function
def ravel(a: ArrayLike, order: str = "C") -> Array:
    """Return the elements as a vector.

    >>> import didax.numpy as dnp
    >>> dnp.ravel(dnp.array([[1, 2], [3, 4]]))
    Array([1, 2, 3, 4], dtype=int32)
    """
    if order not in ("C", "F"):
        check_choice("ravel", "order", order, "C", "F")
    return reshape(a, (-1,) if aval_of(as_array("ravel", a, "a")).size else (0,), order)


@array_function
def transpose(a: ArrayLike, axes: Any = None) -> Array:
    """Return the array with its axes in another order, reversed by default.

    >>> import didax.numpy as dnp
    >>> dnp.transpose(dnp.zeros((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    x = as_array("transpose", a, "a")
    order = (
        tuple(range(x.ndim))[::-1]
        if axes is None
        else tuple([canonical_axis("transpose", i, x.ndim) for i in axes])
    )
    return shapes.transpose(x, order)


permute_dims = transpose


@array_function
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Return the array with its last two axes swapped.

    >>> import didax.numpy as dnp
    >>> dnp.matrix_transpose(dnp.zeros((5, 2, 3))).shape
    (5, 3, 2)
    """
    value = as_array("matrix_transpose", x)
    if value.ndim < 2:
        raise ValueError(
            message(
                "matrix_transpose takes matrices, or stacks of them.",
                f"x: {value.aval}",
                fix="Add axes (x[None, :]).",
            )
        )
    return swapaxes(value, -1, -2)


@evaluated_whole
@array_function
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Return the array with two axes exchanged.

    >>> import didax.numpy as dnp
    >>> dnp.swapaxes(dnp.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = as_array("swapaxes", a, "a")
    i, j = canonical_axis("swapaxes", axis1, x.ndim), canonical_axis("swapaxes", axis2, x.ndim)
    order = list(range(x.ndim))
    order[i], order[j] = j, i
    return shapes.transpose(x, tuple(order))


@evaluated_whole
@array_function
def moveaxis(a: ArrayLike, source: Any, destination: Any) -> Array:
    """Return the array with some axes moved to new places; the other axes keep their order.

    >>> import didax.numpy as dnp
    >>> dnp.moveaxis(dnp.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = as_array("moveaxis", a, "a")
    sources, destinations = (
        canonical_axes("moveaxis", source, x.ndim),
        canonical_axes("moveaxis", destination, x.ndim),
    )
    if len(sources) != len(destinations):
        raise ValueError(
            message(
                "moveaxis takes as many destinations as sources.",
                f"source: {source}, destination: {destination}",
                fix="Pair them.",
            )
        )
    order = [i for i in range(x.ndim) if i not in sources]
    for place, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, axis)
    return shapes.transpose(x, tuple(order))


@array_function
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """Return the array with one axis moved before the axis `start`.

    >>> import didax.numpy as dnp
    >>> dnp.rollaxis(dnp.zeros((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = as_array("rollaxis", a, "a")
    i = canonical_axis("rollaxis", axis, x.ndim)
    place = x.ndim if start == x.ndim else canonical_axis("rollaxis", start, x.ndim)
    return move_axis(x, i, place - (i < place))


@array_function
def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Return the array without its axes of length 1: all of them, or the named axes.

    ValueError if a named axis is longer than 1.

    >>> import didax.numpy as dnp
    >>> dnp.squeeze(dnp.zeros((1, 3, 1))).shape
    (3,)
    """
    x = as_array("squeeze", a, "a")
    axes = (
        [i for i, n in enumerate(x.shape) if n == 1]
        if axis is None
        else canonical_axes("squeeze", axis, x.ndim)
    )
    if any([x.shape[i] != 1 for i in axes]):
        raise ValueError(
            message(
                "squeeze removes axes of length 1.",
                f"a: {x.aval}, axis: {axis}",
                fix="Name such axes only, or index the axis.",
            )
        )
    return shapes.reshape(x, tuple([n for i, n in enumerate(x.shape) if i not in axes]))


@array_function
def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """Return the array with new axes of length 1, at the given places of the result.

    >>> import didax.numpy as dnp
    >>> dnp.expand_dims(dnp.zeros((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    x = as_array("expand_dims", a, "a")
    count = np.size(axis)
    axes = canonical_axes("expand_dims", axis, x.ndim + count)
    lengths = iter(x.shape)
    shape = tuple([1 if i in axes else next(lengths) for i in range(x.ndim + count)])
    return broadcast_in_dim(x, shape, tuple([i for i in range(len(shape)) if i not in axes]))


@array_function
def broadcast_to(array: ArrayLike, shape: Any) -> Array:
    """Return `array` repeated to the given shape, to which it must broadcast.

    >>> import didax.numpy as dnp
    >>> dnp.broadcast_to(dnp.arange(2), (2, 2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    x = as_array("broadcast_to", array, "array")
    lengths = canonical_shape("broadcast_to", shape)
    fits = x.ndim <= len(lengths) and all(
        [n in (1, m) for n, m in zip(x.shape, lengths[len(lengths) - x.ndim :], strict=True)]
    )
    if not fits:
        raise ValueError(
            message(
                "broadcast_to repeats axes of length 1 and adds leading axes.",
                f"array: {x.aval}, shape: {lengths}",
                fix="Aligned at the last axis, each length must be 1 or that of the shape.",
            )
        )
    return promotion.broadcast(x, lengths)


@array_function
def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Return the shape to which arrays of the given shapes broadcast.

    >>> import didax.numpy as dnp
    >>> dnp.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    given = [
        (operator.index(s),) if not hasattr(s, "__iter__") else tuple([operator.index(n) for n in s])
        for s in shapes
    ]
    return promotion.broadcast_shapes("broadcast_shapes", given) if given else ()


@evaluated_whole
@array_function
def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """Return a list of the arrays, each repeated to their common shape.

    >>> import didax.numpy as dnp
    >>> [a.shape for a in dnp.broadcast_arrays(dnp.zeros((2, 1)), dnp.zeros(3))]
    [(2, 3), (2, 3)]
    """
    xs = [as_array("broadcast_arrays", x, i) for i, x in enumerate(args)]
    shape = promotion.broadcast_shapes("broadcast_arrays", [x.shape for x in xs]) if xs else ()
    return [promotion.broadcast(x, shape) for x in xs]


def _at_least(name: str, args: tuple[Any, ...], grow: Any) -> Any:
    outs = [grow(as_array(name, x, i)) for i, x in enumerate(args)]
    return outs[0] if len(outs) == 1 else outs


@array_function
def atleast_1d(*arys: ArrayLike) -> Any:
    """Return arrays with at least one axis: a scalar becomes a vector. Several arguments give a list.

    >>> import didax.numpy as dnp
    >>> dnp.atleast_1d(3.0).shape
    (1,)
    """
    return _at_least("atleast_1d", arys, lambda x: x if x.ndim else expand_dims(x, 0))


@evaluated_whole
@array_function
def atleast_2d(*arys: ArrayLike) -> Any:
    """Return arrays with at least two axes: a vector becomes a matrix of one row. Several arguments give a list.

    >>> import didax.numpy as dnp
    >>> dnp.atleast_2d(dnp.zeros(3)).shape
    (1, 3)
    """
    return _at_least(
        "atleast_2d", arys, lambda x: x if x.ndim >= 2 else expand_dims(x, tuple(range(2 - x.ndim)))
    )


@evaluated_whole
@array_function
def atleast_3d(*arys: ArrayLike) -> Any:
    """Return arrays with at least three axes: shape (n,) becomes (1, n, 1), shape (m, n) becomes (m, n, 1).

    >>> import didax.numpy as dnp
    >>> dnp.atleast_3d(dnp.zeros(3)).shape
    (1, 3, 1)
    """
    return _at_least(
        "atleast_3d", arys, lambda x: x if x.ndim >= 3 else expand_dims(x, ((0, 1, 2), (0, 2), (2,))[x.ndim])
    )


# --- repeating, turning -------------------------------------------------------------------------------------


@evaluated_whole
@array_function
def tile(A: ArrayLike, reps: Any) -> Array:
    """Return the whole array repeated along each axis; leading axes that the array lacks are added.

    >>> import didax.numpy as dnp
    >>> dnp.tile(dnp.array([1, 2]), 2)
    Array([1, 2, 1, 2], dtype=int32)
    """
    x = as_array("tile", A, "A")
    counts = lengths_of(reps)
    if any([n < 0 for n in counts]):
        _refuse_negative("tile", f"A: {x.aval}, reps: {reps}")
    ndim = max(len(counts), x.ndim)
    counts = (1,) * (ndim - len(counts)) + counts
    lengths = (1,) * (ndim - x.ndim) + x.shape
    pairs = tuple([n for pair in zip(counts, lengths, strict=True) for n in pair])
    spread = broadcast_in_dim(shapes.reshape(x, lengths), pairs, tuple(range(1, 2 * ndim, 2)))
    return shapes.reshape(spread, tuple([m * n for m, n in zip(counts, lengths, strict=True)]))


@evaluated_whole
@array_function
def repeat(
    a: ArrayLike, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Array:
    """Return the array with each element repeated in place; the elements share one count or have one each.

    Traced `repeats` need `total_repeat_length`, the length of the result: a longer result is cut, a shorter
    one repeats its last element. An axis without elements stays empty whatever the length.

    >>> import didax.numpy as dnp
    >>> dnp.repeat(dnp.array([1, 2]), dnp.array([1, 3]))
    Array([1, 2, 2, 2], dtype=int32)
    """
    x = as_array("repeat", a, "a")
    if axis is None or (not x.ndim and axis in (0, -1)):  # a number counts as a vector of it, as in NumPy
        x, axis = ravel(x), 0
    dimension = canonical_axis("repeat", axis, x.ndim)
    if is_symbolic(repeats) and total_repeat_length is None:
        return _repeat_evenly(x, repeats, dimension)
    counts = repeats if isinstance(repeats, Array) else np.asarray(repeats)
    length = x.shape[dimension]
    if total_repeat_length is None:
        counts = _known_counts(counts)
        if counts.size == 1:
            return _repeat_evenly(x, int(counts.reshape(())), dimension)
        index: Any = _repeated_places(x, counts, length)
    else:
        ends = cumsum(promotion.broadcast(as_array("repeat", counts, "repeats"), (length,)))
        if length == 0:
            return x  # no element can fill up the places
        place = iota(ends.dtype, (as_length(total_repeat_length),), 0)
        index = ufuncs.minimum(searchsorted(ends, place, side="right"), max_dim(length - 1, 0))
    return getitem(x, (slice(None),) * dimension + (index,))


def _known_counts(repeats: Any) -> np.ndarray[Any, Any]:
    known = known_value(repeats)
    if known is None:
        rule = "The length of the result of repeat depends on values, not known while tracing."
        fix = "Give total_repeat_length, the sum of the counts."
        raise ConcretizationTypeError(message(rule, f"repeats: {repeats.aval}", fix=fix))
    return np.asarray(known)


def _repeated_places(x: Array, counts: np.ndarray[Any, Any], length: int) -> np.ndarray[Any, Any]:
    facts = f"a: {x.aval}, repeats: {dtypes.dtype_name(counts.dtype)}{list(counts.shape)}"
    if counts.shape != (length,):
        rule, fix = "repeat takes one number, or one for each element.", "Check axis and repeats."
        raise ValueError(message(rule, f"{facts}, elements: {length}", fix=fix))
    if (counts < 0).any():
        _refuse_negative("repeat", facts)
    return np.repeat(np.arange(length), counts.astype(np.int64, casting="same_kind"))


def _refuse_negative(name: str, facts: str) -> NoReturn:
    rule = f"{name} repeats elements a number of times that is not negative."
    raise ArgumentError(message(rule, facts, fix="Use 0 to drop elements."))


def _repeat_evenly(x: Array, count: int, axis: int) -> Array:
    if count < 0:
        _refuse_negative("repeat", f"a: {x.aval}, repeats: {count}")
    shape = (*x.shape[: axis + 1], count, *x.shape[axis + 1 :])
    spread = broadcast_in_dim(x, shape, tuple([i for i in range(len(shape)) if i != axis + 1]))
    return shapes.reshape(spread, (*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :]))


@evaluated_whole
@array_function
def resize(a: ArrayLike, new_shape: Any) -> Array:
    """Return the elements in a new shape, repeated from the start as often as needed.

    >>> import didax.numpy as dnp
    >>> dnp.resize(dnp.array([1, 2, 3]), (2, 2))
    Array([[1, 2],
           [3, 1]], dtype=int32)
    """
    x, shape = ravel(a), canonical_shape("resize", new_shape)
    size = math.prod(shape)
    if not (x.size and size):
        return promotion.broadcast(cast(0, x.dtype, x.weak_type), shape)
    return shapes.reshape(slice_axis(tile(x, -(-size // x.size)), 0, size, 0), shape)


@evaluated_whole
@array_function
def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Return the array with its elements in reverse order along axes (all by default).

    >>> import didax.numpy as dnp
    >>> dnp.flip(dnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    x = as_array("flip", m, "m")
    return rev(x, canonical_axes("flip", axis, x.ndim))


@array_function
def fliplr(m: ArrayLike) -> Array:
    """Return the array reversed along the second axis.

    >>> import didax.numpy as dnp
    >>> dnp.fliplr(dnp.array([[1, 2]]))
    Array([[2, 1]], dtype=int32)
    """
    return flip(m, 1)


@array_function
def flipud(m: ArrayLike) -> Array:
    """Return the array reversed along the first axis.

    >>> import didax.numpy as dnp
    >>> dnp.flipud(dnp.array([1, 2]))
    Array([2, 1], dtype=int32)
    """
    return flip(m, 0)


@evaluated_whole
@array_function
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Return the array rotated by k quarter turns, from the first of two axes towards the second.

    >>> import didax.numpy as dnp
    >>> dnp.rot90(dnp.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    x = as_array("rot90", m, "m")
    first, second = canonical_axes("rot90", axes, x.ndim)
    turns = operator.index(k) % 4
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    if turns == 2:
        return flip(x, (first, second))
    return flip(swapaxes(x, first, second), second) if turns else x


@evaluated_whole
@array_function
def roll(a: ArrayLike, shift: Any, axis: int | Sequence[int] | None = None) -> Array:
    """Return the array with its elements shifted along axes; elements that leave at the end come back at the start.

    The shifts are integers, which may be traced, or floats that are whole numbers.

    >>> import didax.numpy as dnp
    >>> dnp.roll(dnp.arange(4), 1)
    Array([3, 0, 1, 2], dtype=int32)
    """
    x = as_array("roll", a, "a")
    shifts = [int(by) if isinstance(by, float) and by.is_integer() else by for by in listed(shift)]
    if axis is None:
        total = shifts[0] if len(shifts) == 1 else sum(shifts)
        return shapes.reshape(_roll(ravel(x), total, 0), x.shape)
    axes = [canonical_axis("roll", i, x.ndim) for i in listed(axis)]
    if not axes:
        return x
    count = max(len(shifts), len(axes)) if 1 in (len(shifts), len(axes)) else len(axes)
    if len(shifts) not in (1, count):
        rule, fix = "roll takes a shift for each axis, or one for all.", "Pass as many shifts as axes."
        raise ValueError(message(rule, f"a: {x.aval}, shift: {shift}, axis: {axis}", fix=fix))
    for i, by in zip(_repeated_list(axes, count), _repeated_list(shifts, count), strict=True):
        x = _roll(x, by, i)
    return x


def listed(x: Any) -> list[Any]:
    """Return the elements of a sequence or a vector, or a list of the number `x` alone."""
    is_vector = hasattr(type(x), "ndim") and x.ndim  # a class of scalars has an `ndim` that is not a number
    return list(x) if isinstance(x, tuple | list | range) or is_vector else [x]


def _repeated_list(xs: list[Any], count: int) -> list[Any]:
    """Return the list, or its only element `count` times."""
    return xs * count if len(xs) == 1 else xs


def _roll(x: Array, shift: Any, axis: int) -> Array:
    length = x.shape[axis]
    if not length:
        return x
    if isinstance(shift, Tracer):
        if shift.dtype.itemsize < 4 or dtypes.is_packed(shift.dtype):
            shift = shift.astype(np.int32)  # the dtype may be too narrow for the length
        by = ufuncs.remainder(shift, length)
        place = ufuncs.remainder(iota(dtypes.position_dtype(length), (length,), 0) - by, length)
        return getitem(x, (slice(None),) * axis + (place,))
    by = as_length(shift) % length
    return (
        join([slice_axis(x, length - by, length, axis), slice_axis(x, 0, length - by, axis)], axis)
        if is_symbolic(by) or by
        else x
    )


# --- diagonals ----------------------------------------------------------------------------------------------


@evaluated_whole
@array_function
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return the diagonals of the matrices along two axes, as the last axis; `offset` counts to the right.

    >>> import didax.numpy as dnp
    >>> dnp.diagonal(dnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    x = as_array("diagonal", a, "a")
    axes = canonical_axes("diagonal", (axis1, axis2), x.ndim)
    x = moveaxis(x, axes, (-2, -1))
    rows, columns = x.shape[-2:]
    offset = offset if is_symbolic(offset) else operator.index(offset)
    count = max_dim(0, min_dim(rows, columns - offset) if offset >= 0 else min_dim(rows + offset, columns))
    known = not any(map(is_symbolic, (count, rows, columns)))
    i: Any = np.arange(count) if known else iota(np.dtype(np.int32), (count,), 0)
    return getitem(x, (..., i + max(0, -offset), i + max(0, offset)))


@evaluated_whole
@array_function
def diag(v: ArrayLike, k: int = 0) -> Array:
    """Return the k-th diagonal of a matrix; for a vector, return the matrix that has the vector as this diagonal.

    >>> import didax.numpy as dnp
    >>> dnp.diag(dnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    x = as_array("diag", v, "v")
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError(
            message(
                "diag takes a vector or a matrix.", f"v: {x.aval}", fix="Use diagonal for stacks of matrices."
            )
        )
    offset = operator.index(k)
    size = x.shape[0] + abs(offset)
    zero = cast(0, x.dtype, x.weak_type)
    columns = pad(x, zero, ((max(0, offset), max(0, -offset), 0),))
    on_diagonal = el.and_(triangle(size, size, offset), el.not_(triangle(size, size, offset - 1)))
    return ufuncs.where(on_diagonal, columns, zero)


@array_function
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """Return the matrix with the ravelled elements on its k-th diagonal.

    >>> import didax.numpy as dnp
    >>> dnp.diagflat(dnp.array([[1, 2]])).shape
    (2, 2)
    """
    return diag(ravel(v), k)
