"""Functions that change shapes: broadcasting, reshaping, permuting axes, repeating, stacking.

Nothing is promoted and shapes are static. Read next: `primitives/shape.py`; `slicing.py` for parts of arrays.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from didax.api.whole_functions import evaluated_whole
from didax.core.avals import aval_of
from didax.core.dims import as_length, broadcast_lengths
from didax.core.errors import message
from didax.lax.operands import operation
from didax.primitives import shape as primitives
from didax.primitives.slicing import concatenate
from didax.primitives.slicing import unstack as unstack_axis

__all__ = [
    "broadcast",
    "broadcast_in_dim",
    "broadcast_like",
    "broadcast_shapes",
    "broadcast_to_rank",
    "collapse",
    "reshape",
    "stack",
    "tile",
    "transpose",
    "unstack",
]


@operation
def broadcast(operand: Any, sizes: Sequence[int]) -> Any:
    """Return `operand` with new leading axes of the given sizes, repeated along them.

    >>> from didax import lax
    >>> lax.broadcast(1.0, (2, 3)).shape
    (2, 3)
    """
    shape = aval_of(operand).shape
    lead = tuple(sizes)
    return broadcast_in_dim(operand, (*lead, *shape), range(len(lead), len(lead) + len(shape)))


@operation
def broadcast_in_dim(operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Any:
    """Return an array of a shape in which axis broadcast_dimensions[i] is axis i of `operand`.

    It repeats the operand along the other axes. The axes may be named in any order.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.broadcast_in_dim(np.arange(3), (3, 2), (0,))
    Array([[0, 0],
           [1, 1],
           [2, 2]], dtype=int32)
    """
    dimensions = tuple(broadcast_dimensions)
    order = sorted(range(len(dimensions)), key=dimensions.__getitem__)
    if order != list(range(len(order))) and len(order) == aval_of(operand).ndim:
        operand, dimensions = transpose(operand, order), tuple(sorted(dimensions))
    return primitives.broadcast_in_dim_p.bind(operand, shape=tuple(shape), broadcast_dimensions=dimensions)


@operation
@evaluated_whole
def broadcast_like(arr: Any, like_arr: Any) -> Any:
    """Return `arr` broadcast by NumPy's rules to the shape of another array.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.broadcast_like(1.0, np.zeros((2, 3))).shape
    (2, 3)
    """
    shape, wanted = aval_of(arr).shape, aval_of(like_arr).shape
    if broadcast_shapes(shape, wanted) != wanted:
        rule, facts = (
            "broadcast_like repeats an array to the shape of another.",
            f"arr: {shape}, like_arr: {wanted}",
        )
        raise ValueError(message(rule, facts, fix="Swap them, or use didax.numpy.broadcast_arrays."))
    lead = len(wanted) - len(shape)
    kept = [i for i, n in enumerate(shape) if n == wanted[lead + i]]
    return broadcast_in_dim(reshape(arr, [shape[i] for i in kept]), wanted, [lead + i for i in kept])


@operation
def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which NumPy's rules broadcast all the shapes; ValueError when there is none.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    found = broadcast_lengths([tuple(map(as_length, shape)) for shape in shapes])
    if found is None:
        raise ValueError(
            message(
                "Incompatible shapes for broadcasting: from the last axis on, lengths are equal or one is 1.",
                f"shapes: {', '.join(str(tuple(s)) for s in shapes)}",
                fix="Reshape or transpose one of the arrays.",
            )
        )
    return found


@operation
def broadcast_to_rank(x: Any, rank: int) -> Any:
    """Return `x` with leading axes of length 1, so that it has `rank` axes.

    >>> import numpy as np
    >>> broadcast_to_rank(np.ones(3), 2).shape
    (1, 3)
    """
    shape = aval_of(x).shape
    if rank < len(shape):
        raise ValueError(
            message(
                "broadcast_to_rank adds axes.",
                f"operand: {aval_of(x)}, rank: {rank}",
                fix="Ask for at least its rank.",
            )
        )
    return reshape(x, (1,) * (rank - len(shape)) + shape)


@operation
def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """Merge the axes from `start_dimension` up to, not including, `stop_dimension` into one.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.collapse(np.zeros((2, 3, 4)), 0, 2).shape
    (6, 4)
    """
    shape = aval_of(operand).shape
    low, high, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if high < low:
        raise ValueError(
            message(
                "collapse merges the axes between start_dimension and stop_dimension.",
                f"operand: {aval_of(operand)}, start_dimension: {start_dimension}, stop_dimension: {stop_dimension}",
                fix="Let the stop not be before the start.",
            )
        )
    return reshape(operand, (*shape[:low], math.prod(shape[low:high]), *shape[high:]))


@operation
def reshape(operand: Any, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None) -> Any:
    """Return the elements of `operand` in a new shape; `dimensions` is the order in which its axes are read.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reshape(np.zeros((2, 3)), (3, 2)).shape
    (3, 2)
    """
    if dimensions is not None:
        operand = transpose(operand, dimensions)
    return primitives.reshape_p.bind(operand, new_sizes=tuple(map(as_length, new_sizes)))


@operation
def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """Return arrays of one shape stacked along a new axis.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.stack([np.zeros(3), np.ones(3)], axis=1).shape
    (3, 2)
    """
    xs = list(operands)
    shapes = [aval_of(x).shape for x in xs]
    if len(set(shapes)) != 1:
        facts, fix = f"shapes: {', '.join(map(str, shapes)) or 'none'}", "Broadcast or pad the others."
        raise ValueError(message("stack takes arrays of one shape, and at least one.", facts, fix=fix))
    (shape, *_), ndim = shapes, len(shapes[0]) + 1
    axis = _axis("stack", axis, ndim)
    return concatenate([reshape(x, (*shape[:axis], 1, *shape[axis:])) for x in xs], axis)


@operation
@evaluated_whole
def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """Return the slices along an axis, without this axis.

    >>> import numpy as np
    >>> from didax import lax
    >>> first, second = lax.unstack(np.int32([[1, 2, 3], [4, 5, 6]]))
    >>> second
    Array([4, 5, 6], dtype=int32)
    """
    return tuple(unstack_axis(x, _axis("unstack", axis, aval_of(x).ndim)))


@operation
@evaluated_whole
def tile(operand: Any, reps: Sequence[int]) -> Any:
    """Return the array repeated `reps[i]` times along each axis i.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.tile(np.int32([[1, 2]]), (2, 2))
    Array([[1, 2, 1, 2],
           [1, 2, 1, 2]], dtype=int32)
    """
    shape, counts = aval_of(operand).shape, [operator.index(n) for n in reps]
    if len(counts) != len(shape) or any(n < 0 for n in counts):
        facts, fix = (
            f"operand: {aval_of(operand)}, reps: {tuple(reps)}",
            "Give a number, 0 or more, for each axis.",
        )
        raise TypeError(message("tile repeats each axis some number of times.", facts, fix=fix))
    pairs = [n for pair in zip(counts, shape, strict=True) for n in pair]
    repeated = broadcast_in_dim(operand, pairs, range(1, len(pairs), 2))
    return reshape(repeated, [count * n for count, n in zip(counts, shape, strict=True)])


def _axis(name: str, axis: Any, ndim: int) -> int:
    found = operator.index(axis)
    if not -ndim <= found < ndim:
        facts, fix = f"axis: {found}, axes: {ndim}", f"Use one from {-ndim} to {ndim - 1}." if ndim else ""
        raise ValueError(
            message(f"{name} takes an axis of the array.", facts, fix=fix or "Add an axis first.")
        )
    return found % ndim


@operation
def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """Return `operand` with its axes permuted: axis i of the result is axis permutation[i] of `operand`.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.transpose(np.zeros((2, 3)), (1, 0)).shape
    (3, 2)
    """
    return primitives.transpose_p.bind(operand, permutation=tuple([operator.index(i) for i in permutation]))
