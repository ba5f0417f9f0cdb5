"""Rearranging arrays: shapes and axes, joining and splitting, repeating and padding.

Shapes, axes, counts and split points are static. Read next: `selection.py` (take, sort, unique),
`indexing.py`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from didax.core import dtypes
from didax.core.avals import aval_of
from didax.core.errors import api_boundary, message
from didax.core.tracing import Tracer
from didax.core.value import Array
from didax.numpy import promotion, ufuncs
from didax.numpy.creation import canonical_shape, placed, triangle
from didax.numpy.indexing import getitem
from didax.numpy.promotion import (
    ArrayLike,
    DTypeLike,
    as_array,
    as_array_of,
    cast,
    lifted,
    promote_dtypes,
)
from didax.numpy.reductions import canonical_axes, canonical_axis, cumsum
from didax.numpy.selection import searchsorted
from didax.primitives import elementwise as el
from didax.primitives import shape as shapes
from didax.primitives.convert import copy_p, iota
from didax.primitives.shape import broadcast_in_dim, move_axis
from didax.primitives.slicing import concatenate as join
from didax.primitives.slicing import pad as pad_axes
from didax.primitives.slicing import rev, slice_axis

__all__ = [
    "append", "array_split", "astype", "atleast_1d", "atleast_2d", "atleast_3d", "block", "broadcast_arrays",
    "broadcast_shapes", "broadcast_to", "column_stack", "concat", "concatenate", "delete", "diag", "diagflat",
    "diagonal", "diff", "dsplit", "dstack", "expand_dims", "flip", "fliplr", "flipud", "hsplit", "hstack",
    "insert", "matrix_transpose", "moveaxis", "pad", "permute_dims", "ravel", "repeat", "reshape", "resize",
    "roll", "rollaxis", "rot90", "split", "squeeze", "stack", "swapaxes", "tile", "transpose", "unstack",
    "vsplit", "vstack",
]  # fmt: skip


def _arrays(name: str, xs: Any) -> list[Array]:
    if isinstance(xs, Array | np.ndarray) and not xs.shape:
        raise TypeError(
            message(
                f"{name} takes a sequence of arrays.", f"got: {aval_of(xs)}", fix="Pass a list of arrays."
            )
        )
    return [as_array(name, x, i) for i, x in enumerate(xs)]


# --- shapes -------------------------------------------------------------------------------------------------


@api_boundary
def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = False, device: Any = None) -> Array:
    """`x` in another dtype; floats are truncated to integers, complex numbers lose their imaginary part.

    With `copy` the result has memory of its own also where the dtype is that of `x`.

    >>> import didax.numpy as dnp
    >>> dnp.astype(dnp.array([1.7, -1.7]), int)
    Array([ 1, -1], dtype=int32)
    """
    given = x if isinstance(x, Array) else as_array("astype", x)
    result = as_array_of("astype", x, dtypes.dtype(float if dtype is None else dtype))
    return placed(copy_p.bind(result) if copy and result is given else result, device)


def _new_shape(x: Array, shape: Any) -> tuple[int, ...]:
    lengths = tuple([operator.index(n) for n in (shape if isinstance(shape, tuple | list) else (shape,))])
    if -1 not in lengths:
        return lengths
    known = math.prod([n for n in lengths if n != -1])
    if lengths.count(-1) > 1 or not known or x.size % known:
        raise TypeError(
            message(
                "reshape finds at most one length, -1, from the others.",
                f"a: {x.aval} ({x.size} elements), new shape: {lengths}",
                fix="Choose lengths whose product divides the number of elements.",
            )
        )
    return tuple([x.size // known if n == -1 else n for n in lengths])


@api_boundary
def reshape(a: ArrayLike, shape: Any, order: str = "C", *, copy: bool | None = None) -> Array:
    """The elements in another shape; one length may be -1, "whatever is left". `order` "F" counts columns
    first.

    >>> import didax.numpy as dnp
    >>> dnp.reshape(dnp.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    x = as_array("reshape", a, "a")
    lengths = _new_shape(x, shape)
    if copy:
        x = copy_p.bind(x)
    if order == "C":
        return shapes.reshape(x, lengths)
    if order != "F":
        raise ValueError(
            message(
                "reshape reads elements in C or F order.", f"order: {order!r}", fix="Use order='C' or 'F'."
            )
        )
    return transpose(shapes.reshape(transpose(x), lengths[::-1]))


@api_boundary
def ravel(a: ArrayLike, order: str = "C") -> Array:
    """The elements as a vector.

    >>> import didax.numpy as dnp
    >>> dnp.ravel(dnp.array([[1, 2], [3, 4]]))
    Array([1, 2, 3, 4], dtype=int32)
    """
    return reshape(a, (-1,) if aval_of(as_array("ravel", a, "a")).size else (0,), order)


@api_boundary
def transpose(a: ArrayLike, axes: Any = None) -> Array:
    """The axes in another order, reversed by default.

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


@api_boundary
def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two axes swapped.

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


@api_boundary
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged.

    >>> import didax.numpy as dnp
    >>> dnp.swapaxes(dnp.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = as_array("swapaxes", a, "a")
    i, j = canonical_axis("swapaxes", axis1, x.ndim), canonical_axis("swapaxes", axis2, x.ndim)
    order = list(range(x.ndim))
    order[i], order[j] = j, i
    return shapes.transpose(x, tuple(order))


@api_boundary
def moveaxis(a: ArrayLike, source: Any, destination: Any) -> Array:
    """Axes moved to new places, the others in their order.

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


@api_boundary
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """One axis moved before the axis `start`.

    >>> import didax.numpy as dnp
    >>> dnp.rollaxis(dnp.zeros((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = as_array("rollaxis", a, "a")
    i = canonical_axis("rollaxis", axis, x.ndim)
    place = x.ndim if start == x.ndim else canonical_axis("rollaxis", start, x.ndim)
    return move_axis(x, i, place - (i < place))


@api_boundary
def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Axes of length 1 removed: all, or those named; ValueError if a named one is longer.

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


@api_boundary
def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """New axes of length 1, at these places of the result.

    >>> import didax.numpy as dnp
    >>> dnp.expand_dims(dnp.zeros((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    x = as_array("expand_dims", a, "a")
    count = len(axis) if isinstance(axis, tuple | list) else 1
    axes = canonical_axes("expand_dims", axis, x.ndim + count)
    lengths = iter(x.shape)
    shape = tuple([1 if i in axes else next(lengths) for i in range(x.ndim + count)])
    return broadcast_in_dim(x, shape, tuple([i for i in range(len(shape)) if i not in axes]))


@api_boundary
def broadcast_to(array: ArrayLike, shape: Any) -> Array:
    """`array` repeated to that shape, which its own must broadcast to.

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


@api_boundary
def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to.

    >>> import didax.numpy as dnp
    >>> dnp.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    given = [
        (operator.index(s),) if not hasattr(s, "__iter__") else tuple([operator.index(n) for n in s])
        for s in shapes
    ]
    return promotion.broadcast_shapes("broadcast_shapes", given) if given else ()


@api_boundary
def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """The arrays repeated to their common shape.

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


@api_boundary
def atleast_1d(*arys: ArrayLike) -> Any:
    """Scalars as vectors of one element; with several arguments a list.

    >>> import didax.numpy as dnp
    >>> dnp.atleast_1d(3.0).shape
    (1,)
    """
    return _at_least("atleast_1d", arys, lambda x: x if x.ndim else expand_dims(x, 0))


@api_boundary
def atleast_2d(*arys: ArrayLike) -> Any:
    """Vectors as matrices of one row; with several arguments a list.

    >>> import didax.numpy as dnp
    >>> dnp.atleast_2d(dnp.zeros(3)).shape
    (1, 3)
    """
    return _at_least(
        "atleast_2d", arys, lambda x: x if x.ndim >= 2 else expand_dims(x, tuple(range(2 - x.ndim)))
    )


@api_boundary
def atleast_3d(*arys: ArrayLike) -> Any:
    """Vectors of shape (n,) as (1, n, 1), matrices of shape (m, n) as (m, n, 1).

    >>> import didax.numpy as dnp
    >>> dnp.atleast_3d(dnp.zeros(3)).shape
    (1, 3, 1)
    """
    return _at_least(
        "atleast_3d", arys, lambda x: x if x.ndim >= 3 else expand_dims(x, ((0, 1, 2), (0, 2), (2,))[x.ndim])
    )


# --- joining and splitting ----------------------------------------------------------------------------------


@api_boundary
def concatenate(arrays: Any, axis: int | None = 0, dtype: DTypeLike = None) -> Array:
    """Arrays joined along an axis, in their common dtype; with axis None they are ravelled first.

    >>> import didax.numpy as dnp
    >>> dnp.concatenate([dnp.array([1, 2]), dnp.array([3.5])])
    Array([1. , 2. , 3.5], dtype=float32)
    """
    xs = _arrays("concatenate", arrays)
    if not xs:
        raise ValueError(
            message("concatenate needs at least one array.", "arrays: none", fix="Check the list.")
        )
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    return _joined("concatenate", xs, axis, dtype)


def _joined(name: str, xs: Sequence[Array], axis: int, dtype: Any) -> Array:
    ndims = {x.ndim for x in xs}
    if len(ndims) > 1 or ndims == {0}:
        shown = ", ".join([str(x.shape) for x in xs])
        raise ValueError(
            message(
                f"{name} joins arrays of the same number of axes, at least one.",
                f"shapes: {shown}",
                fix="Use stack for scalars, or add axes.",
            )
        )
    dimension = canonical_axis(name, axis, xs[0].ndim)
    if len({x.shape[:dimension] + x.shape[dimension + 1 :] for x in xs}) > 1:
        shown = ", ".join([str(x.shape) for x in xs])
        fix = "Slice, pad or transpose them to agree."
        raise ValueError(
            message(
                f"{name} joins arrays that agree in all axes but one.",
                f"shapes: {shown}, axis: {dimension}",
                fix=fix,
            )
        )
    if dtype is not None:
        return join([cast(x, dtypes.dtype(dtype)) for x in xs], dimension)
    return join(promote_dtypes(name, *xs), dimension)


@api_boundary
def concat(arrays: Any, /, *, axis: int | None = 0) -> Array:
    """As `concatenate`.

    >>> import didax.numpy as dnp
    >>> dnp.concat([dnp.ones(1), dnp.zeros(1)])
    Array([1., 0.], dtype=float32)
    """
    return concatenate(arrays, axis)


@api_boundary
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: DTypeLike = None) -> Array:
    """Arrays of one shape joined along a new axis.

    >>> import didax.numpy as dnp
    >>> dnp.stack([dnp.array([1, 2]), dnp.array([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    xs = _arrays("stack", arrays)
    if len({x.shape for x in xs}) != 1:
        shown = ", ".join([str(x.shape) for x in xs]) or "none"
        raise ValueError(
            message(
                "stack joins arrays of one shape.", f"shapes: {shown}", fix="Broadcast or pad them first."
            )
        )
    dimension = canonical_axis("stack", axis, xs[0].ndim + 1)
    return _joined("stack", [expand_dims(x, dimension) for x in xs], dimension, dtype)


@api_boundary
def vstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Arrays joined along the first axis, vectors as rows.

    >>> import didax.numpy as dnp
    >>> dnp.vstack([dnp.array([1, 2]), dnp.array([3, 4])])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    return concatenate([atleast_2d(x) for x in tup], 0, dtype)


@api_boundary
def hstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Arrays joined along the second axis, vectors along their only one.

    >>> import didax.numpy as dnp
    >>> dnp.hstack([dnp.array([1, 2]), dnp.array([3])])
    Array([1, 2, 3], dtype=int32)
    """
    xs = [atleast_1d(x) for x in tup]
    return concatenate(xs, 0 if xs and xs[0].ndim == 1 else 1, dtype)


@api_boundary
def dstack(tup: Any, dtype: DTypeLike = None) -> Array:
    """Arrays joined along the third axis.

    >>> import didax.numpy as dnp
    >>> dnp.dstack([dnp.zeros(2), dnp.ones(2)]).shape
    (1, 2, 2)
    """
    return concatenate([atleast_3d(x) for x in tup], 2, dtype)


@api_boundary
def column_stack(tup: Any) -> Array:
    """Vectors as the columns of a matrix; matrices as they are.

    >>> import didax.numpy as dnp
    >>> dnp.column_stack([dnp.array([1, 2]), dnp.array([3, 4])])
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    xs = [as_array("column_stack", x, i) for i, x in enumerate(tup)]
    return concatenate([x if x.ndim > 1 else atleast_2d(x).T for x in xs], 1)


@api_boundary
def block(arrays: Any) -> Array:
    """Nested lists of arrays as one: innermost lists are joined along the last axis, outer ones before it.

    >>> import didax.numpy as dnp
    >>> dnp.block([[dnp.ones((1, 1)), dnp.zeros((1, 2))], [dnp.zeros((1, 3))]])
    Array([[1., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    depth = _list_depth(arrays)
    ndim = max([depth, *[as_array("block", x).ndim for x in _list_leaves(arrays)]])
    return _joined_lists(arrays, -depth, ndim)


def _list_leaves(x: Any) -> list[Any]:
    return [leaf for item in x for leaf in _list_leaves(item)] if isinstance(x, list) else [x]


def _list_depth(x: Any) -> int:
    if not isinstance(x, list):
        return 0
    depths = {_list_depth(item) for item in x}
    if len(depths) != 1:
        shown = f"depths of the items: {sorted(depths)}" if depths else "an empty list"
        raise ValueError(
            message("block takes lists nested equally deep.", shown, fix="Wrap single arrays in lists.")
        )
    return 1 + depths.pop()


def _joined_lists(x: Any, axis: int, ndim: int) -> Array:
    if isinstance(x, list):
        return concatenate([_joined_lists(item, axis + 1, ndim) for item in x], axis)
    array = as_array("block", x)
    return shapes.reshape(array, (1,) * (ndim - array.ndim) + array.shape)


@api_boundary
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`values` joined to the end of `arr`; both are ravelled if there is no axis.

    >>> import didax.numpy as dnp
    >>> dnp.append(dnp.array([1, 2]), 3)
    Array([1, 2, 3], dtype=int32)
    """
    x, new = promote_dtypes("append", as_array("append", arr, "arr"), values)
    return concatenate([x, lifted(new)], axis)


def _split_points(name: str, x: Array, sections: Any, axis: int, even: bool) -> list[int]:
    length = x.shape[axis]
    if hasattr(sections, "__iter__"):
        points = [operator.index(i) for i in sections]
        return [slice(i).indices(length)[1] for i in points]
    count = operator.index(sections)
    if count < 1 or (even and length % count):
        raise ValueError(
            message(
                f"{name} makes equal parts.",
                f"a: {x.aval}, axis: {axis}, parts: {count}",
                fix="Use a divisor of the length, a list of split points, or array_split (uneven parts).",
            )
        )
    small, extra = divmod(length, count)
    return [i * small + min(i, extra) for i in range(1, count)]


def _split(name: str, ary: Any, sections: Any, axis: int, even: bool) -> list[Array]:
    x = as_array(name, ary, "ary")
    dimension = canonical_axis(name, axis, x.ndim)
    points = [0, *_split_points(name, x, sections, dimension, even), x.shape[dimension]]
    return [slice_axis(x, a, max(a, b), dimension) for a, b in pairwise(points)]


@api_boundary
def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Equal parts of an array along an axis, or the parts between split points.

    >>> import didax.numpy as dnp
    >>> dnp.split(dnp.arange(4), 2)
    [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis, even=True)


@api_boundary
def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """As `split`; where the length does not divide, the first parts are one longer.

    >>> import didax.numpy as dnp
    >>> [len(part) for part in dnp.array_split(dnp.arange(5), 3)]
    [2, 2, 1]
    """
    return _split("array_split", ary, indices_or_sections, axis, even=False)


@api_boundary
def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the second axis, the only one of vectors.

    >>> import didax.numpy as dnp
    >>> len(dnp.hsplit(dnp.zeros((2, 4)), 2))
    2
    """
    return split(ary, indices_or_sections, 0 if aval_of(as_array("hsplit", ary)).ndim == 1 else 1)


@api_boundary
def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the first axis.

    >>> import didax.numpy as dnp
    >>> len(dnp.vsplit(dnp.zeros((4, 2)), 2))
    2
    """
    return split(ary, indices_or_sections, 0)


@api_boundary
def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the third axis.

    >>> import didax.numpy as dnp
    >>> len(dnp.dsplit(dnp.zeros((1, 1, 4)), 2))
    2
    """
    return split(ary, indices_or_sections, 2)


@api_boundary
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The arrays along an axis, without it: the inverse of `stack`.

    >>> import didax.numpy as dnp
    >>> dnp.unstack(dnp.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    value = as_array("unstack", x)
    dimension = canonical_axis("unstack", axis, value.ndim)
    return tuple(
        [squeeze(slice_axis(value, i, i + 1, dimension), dimension) for i in range(value.shape[dimension])]
    )


# --- repeating, turning, padding ----------------------------------------------------------------------------


@api_boundary
def tile(A: ArrayLike, reps: Any) -> Array:
    """The whole array repeated along each axis; missing leading axes are added.

    >>> import didax.numpy as dnp
    >>> dnp.tile(dnp.array([1, 2]), 2)
    Array([1, 2, 1, 2], dtype=int32)
    """
    x = as_array("tile", A, "A")
    counts = (
        tuple([operator.index(n) for n in reps]) if hasattr(reps, "__iter__") else (operator.index(reps),)
    )
    if any([n < 0 for n in counts]):
        _refuse_negative("tile", f"A: {x.aval}, reps: {reps}")
    ndim = max(len(counts), x.ndim)
    counts = (1,) * (ndim - len(counts)) + counts
    lengths = (1,) * (ndim - x.ndim) + x.shape
    pairs = tuple([n for pair in zip(counts, lengths, strict=True) for n in pair])
    spread = broadcast_in_dim(shapes.reshape(x, lengths), pairs, tuple(range(1, 2 * ndim, 2)))
    return shapes.reshape(spread, tuple([m * n for m, n in zip(counts, lengths, strict=True)]))


@api_boundary
def repeat(
    a: ArrayLike, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Array:
    """Each element repeated in place, all as often or each its own number of times.

    Traced `repeats` need `total_repeat_length`, the length of the result: longer results are cut, shorter
    ones repeat the last element.

    >>> import didax.numpy as dnp
    >>> dnp.repeat(dnp.array([1, 2]), dnp.array([1, 3]))
    Array([1, 2, 2, 2], dtype=int32)
    """
    x = as_array("repeat", a, "a")
    if axis is None:
        x, axis = ravel(x), 0
    dimension = canonical_axis("repeat", axis, x.ndim)
    counts = repeats if isinstance(repeats, Array) else np.asarray(repeats)
    if total_repeat_length is None and not isinstance(counts, Tracer) and np.size(np.asarray(counts)) == 1:
        return _repeat_evenly(x, int(np.asarray(counts).reshape(())), dimension)
    length = x.shape[dimension]
    if total_repeat_length is None:
        index: Any = _repeated_places(x, np.asarray(counts), length)
    else:
        ends = cumsum(promotion.broadcast(as_array("repeat", counts, "repeats"), (length,)))
        place = iota(ends.dtype, (operator.index(total_repeat_length),), 0)
        index = ufuncs.minimum(searchsorted(ends, place, side="right"), max(length - 1, 0))
    return getitem(x, (slice(None),) * dimension + (index,))


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
    raise ValueError(message(rule, facts, fix="Use 0 to drop elements."))


def _repeat_evenly(x: Array, count: int, axis: int) -> Array:
    if count < 0:
        _refuse_negative("repeat", f"a: {x.aval}, repeats: {count}")
    shape = (*x.shape[: axis + 1], count, *x.shape[axis + 1 :])
    spread = broadcast_in_dim(x, shape, tuple([i for i in range(len(shape)) if i != axis + 1]))
    return shapes.reshape(spread, (*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :]))


@api_boundary
def resize(a: ArrayLike, new_shape: Any) -> Array:
    """The elements, repeated from the start as often as needed, in that shape.

    >>> import didax.numpy as dnp
    >>> dnp.resize(dnp.array([1, 2, 3]), (2, 2))
    Array([[1, 2],
           [3, 1]], dtype=int32)
    """
    x, shape = ravel(a), canonical_shape("resize", new_shape)
    size = math.prod(shape)
    if not x.size:
        return promotion.broadcast(x.dtype.type(0), shape)
    return shapes.reshape(slice_axis(tile(x, -(-size // x.size)), 0, size, 0), shape)


@api_boundary
def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """The elements in reverse order along axes, by default all.

    >>> import didax.numpy as dnp
    >>> dnp.flip(dnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    x = as_array("flip", m, "m")
    return rev(x, canonical_axes("flip", axis, x.ndim))


@api_boundary
def fliplr(m: ArrayLike) -> Array:
    """Reversed along the second axis.

    >>> import didax.numpy as dnp
    >>> dnp.fliplr(dnp.array([[1, 2]]))
    Array([[2, 1]], dtype=int32)
    """
    return flip(m, 1)


@api_boundary
def flipud(m: ArrayLike) -> Array:
    """Reversed along the first axis.

    >>> import didax.numpy as dnp
    >>> dnp.flipud(dnp.array([1, 2]))
    Array([2, 1], dtype=int32)
    """
    return flip(m, 0)


@api_boundary
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Turned by k quarter turns, from the first axis towards the second.

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


@api_boundary
def roll(a: ArrayLike, shift: Any, axis: int | Sequence[int] | None = None) -> Array:
    """Moved along axes, what leaves at the end coming back at the start. Shifts may be traced.

    >>> import didax.numpy as dnp
    >>> dnp.roll(dnp.arange(4), 1)
    Array([3, 0, 1, 2], dtype=int32)
    """
    x = as_array("roll", a, "a")
    if axis is None:
        return shapes.reshape(_roll(ravel(x), shift, 0), x.shape)
    axes = [canonical_axis("roll", i, x.ndim) for i in (axis if isinstance(axis, tuple | list) else (axis,))]
    shifts = list(shift) if isinstance(shift, tuple | list) or np.ndim(shift) else [shift]
    count = max(len(shifts), len(axes)) if 1 in (len(shifts), len(axes)) else len(axes)
    if len(shifts) not in (1, count):
        rule, fix = "roll takes a shift for each axis, or one for all.", "Pass as many shifts as axes."
        raise ValueError(message(rule, f"a: {x.aval}, shift: {shift}, axis: {axis}", fix=fix))
    for i, by in zip(_for_each(axes, count), _for_each(shifts, count), strict=True):
        x = _roll(x, by, i)
    return x


def _for_each(xs: list[Any], count: int) -> list[Any]:
    """The list, or its only element `count` times."""
    return xs * count if len(xs) == 1 else xs


def _roll(x: Array, shift: Any, axis: int) -> Array:
    length = x.shape[axis]
    if not length:
        return x
    if isinstance(shift, Tracer):
        place = ufuncs.remainder(iota(np.dtype(np.int32), (length,), 0) - shift, length)
        return getitem(x, (slice(None),) * axis + (place,))
    by = operator.index(shift) % length
    return (
        join([slice_axis(x, length - by, length, axis), slice_axis(x, 0, length - by, axis)], axis)
        if by
        else x
    )


_INDEX_MODES = ("edge", "reflect", "symmetric", "wrap")


@api_boundary
def pad(array: ArrayLike, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Array:
    """Longer at both ends of each axis: by constants, or by the array's own elements.

    `pad_width` is a number, a pair (before, after), or a pair per axis. `mode` is "constant", "edge",
    "reflect", "symmetric", "wrap" or "empty".

    >>> import didax.numpy as dnp
    >>> dnp.pad(dnp.array([1, 2]), (1, 2), mode="edge")
    Array([1, 1, 2, 2, 2], dtype=int32)
    """
    x = as_array("pad", array, "array")
    widths = _pairs("pad_width", pad_width, x.ndim)
    widths = [(operator.index(low), operator.index(high)) for low, high in widths]
    if any([n < 0 for pair in widths for n in pair]):
        raise ValueError(
            message(
                "pad makes arrays longer.",
                f"pad_width: {pad_width}",
                fix="Use widths of at least 0, or slice.",
            )
        )
    if mode in ("constant", "empty"):
        return _pad_constant(
            x, widths, _pairs("constant_values", constant_values if mode == "constant" else 0, x.ndim)
        )
    if mode not in _INDEX_MODES:
        modes = ", ".join(map(repr, ("constant", "empty", *_INDEX_MODES)))
        raise NotImplementedError(
            message("pad has no such mode.", f"mode: {mode!r}", fix=f"Use one of {modes}.")
        )
    for axis, pair in enumerate(widths):
        if any(pair):
            index = np.pad(np.arange(x.shape[axis]), pair, mode=mode)  # type: ignore[call-overload]
            x = getitem(x, (slice(None),) * axis + (index,))
    return x


def _pairs(name: str, given: Any, ndim: int) -> list[Any]:
    if (isinstance(given, Array) and given.ndim == 0) or not hasattr(given, "__len__"):
        return [(given, given)] * ndim
    items = list(given)
    if all([np.ndim(item) == 0 if not isinstance(item, Array) else item.ndim == 0 for item in items]):
        items = [tuple(items)]
    pairs = [tuple(item) * (2 if len(item) == 1 else 1) for item in items]
    pairs = pairs * ndim if len(pairs) == 1 else pairs
    if len(pairs) != ndim or any([len(pair) != 2 for pair in pairs]):
        raise ValueError(
            message(
                f"pad takes a number, a pair, or a pair per axis as {name}.",
                f"{name}: {given}, array of {ndim} axes",
                fix="Give one pair per axis.",
            )
        )
    return pairs


def _pad_constant(x: Array, widths: Sequence[tuple[int, int]], values: Sequence[Any]) -> Array:
    for axis, ((low, high), (before, after)) in enumerate(zip(widths, values, strict=True)):
        for width, value in (((low, 0), before), ((0, high), after)):
            if any(width):
                filler = as_array_of("pad", value, x.dtype, x.weak_type, "constant_values")
                x = pad_axes(
                    x, filler, tuple([(*width, 0) if i == axis else (0, 0, 0) for i in range(x.ndim)])
                )
    return x


# --- diagonals ----------------------------------------------------------------------------------------------


@api_boundary
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of matrices that lie along two axes, as the last axis; `offset` counts to the right.

    >>> import didax.numpy as dnp
    >>> dnp.diagonal(dnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    x = as_array("diagonal", a, "a")
    axes = canonical_axes("diagonal", (axis1, axis2), x.ndim)
    x = moveaxis(x, axes, (-2, -1))
    rows, columns = x.shape[-2:]
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    i = np.arange(count)
    return getitem(x, (..., i + max(0, -offset), i + max(0, offset)))


@api_boundary
def diag(v: ArrayLike, k: int = 0) -> Array:
    """The k-th diagonal of a matrix; or, for a vector, the matrix with that diagonal.

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
    columns = pad(x, (max(0, offset), max(0, -offset)))
    on_diagonal = el.and_(triangle(size, size, offset), el.not_(triangle(size, size, offset - 1)))
    return ufuncs.where(on_diagonal, columns, cast(0, x.dtype, x.weak_type))


@api_boundary
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix with the ravelled elements on its k-th diagonal.

    >>> import didax.numpy as dnp
    >>> dnp.diagflat(dnp.array([[1, 2]])).shape
    (2, 2)
    """
    return diag(ravel(v), k)


# --- differences, insertions --------------------------------------------------------------------------------


@api_boundary
def diff(a: ArrayLike, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Array:
    """Differences of neighbours along an axis, taken n times.

    >>> import didax.numpy as dnp
    >>> dnp.diff(dnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    x = as_array("diff", a, "a")
    dimension = canonical_axis("diff", axis, x.ndim)
    if n < 0:
        raise ValueError(message("diff is taken at least 0 times.", f"n: {n}", fix="Use n >= 0."))
    if n == 0:
        return x
    ends = [_edge(x, end, dimension) for end in (prepend, append)]
    x = concatenate([part for part in (ends[0], x, ends[1]) if part is not None], dimension)
    subtract = ufuncs.not_equal if x.dtype == np.bool_ else ufuncs.subtract
    for _ in range(operator.index(n)):
        length = x.shape[dimension]
        x = subtract(
            slice_axis(x, min(1, length), length, dimension), slice_axis(x, 0, max(length - 1, 0), dimension)
        )
    return x


def _edge(x: Array, value: Any, axis: int) -> Array | None:
    if value is None:
        return None
    edge = as_array("diff", value)
    return (
        edge
        if edge.ndim
        else promotion.broadcast(edge, tuple([1 if i == axis else n for i, n in enumerate(x.shape)]))
    )


def _positions(name: str, x: Array, obj: Any, axis: int) -> np.ndarray[Any, Any]:
    """Static positions along an axis, from an integer, a slice or integers."""
    length = x.shape[axis]
    if isinstance(obj, slice):
        return np.arange(length)[obj]
    index = np.asarray(obj)  # a traced array raises here: the result's shape depends on it
    if index.dtype == np.bool_:
        index = np.flatnonzero(index)
    limit = length if name == "insert" else length - 1
    if index.size and (index.min() < -length or index.max() > limit):
        raise IndexError(
            message(
                f"{name} takes positions within the axis.",
                f"obj: {obj}, axis of length {length}",
                fix="Check the positions.",
            )
        )
    return np.where(index < 0, index + length, index).astype(np.int64)


@api_boundary
def delete(arr: ArrayLike, obj: Any, axis: int | None = None) -> Array:
    """Without the elements at static positions: an integer, a slice, or an array of integers or booleans.

    >>> import didax.numpy as dnp
    >>> dnp.delete(dnp.array([1, 2, 3]), 1)
    Array([1, 3], dtype=int32)
    """
    x = as_array("delete", arr, "arr")
    if axis is None:
        x, axis = ravel(x), 0
    dimension = canonical_axis("delete", axis, x.ndim)
    kept = np.delete(np.arange(x.shape[dimension]), _positions("delete", x, obj, dimension))
    return getitem(x, (slice(None),) * dimension + (kept,))


@api_boundary
def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """With values inserted before static positions: an integer, a slice, or an array of integers.

    >>> import didax.numpy as dnp
    >>> dnp.insert(dnp.array([1, 3]), 1, 2)
    Array([1, 2, 3], dtype=int32)
    """
    x = as_array("insert", arr, "arr")
    if axis is None:
        x, axis = ravel(x), 0
    dimension = canonical_axis("insert", axis, x.ndim)
    new = as_array_of("insert", values, x.dtype, x.weak_type, "values")
    places = _positions("insert", x, obj, dimension)
    if places.ndim == 0 and new.ndim:  # one position takes all of the values
        new = (
            new
            if new.ndim == x.ndim
            else expand_dims(new, tuple(range(1, 1 + x.ndim - new.ndim)) if x.ndim == 1 else dimension)
        )
        places = np.full(new.shape[dimension] if new.ndim == x.ndim else 1, places)
    places = places.reshape(-1)
    new = promotion.broadcast(
        new, tuple([places.size if i == dimension else n for i, n in enumerate(x.shape)])
    )
    order = np.argsort(np.concatenate([places * 2, np.arange(x.shape[dimension]) * 2 + 1]), kind="stable")
    return getitem(join([new, x], dimension), (slice(None),) * dimension + (order,))
