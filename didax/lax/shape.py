"""Shapes: broadcasting, reshaping, permuting axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.avals import aval_of
from didax.core.errors import message
from didax.lax.operands import operation
from didax.primitives import shape as primitives

__all__ = [
    "broadcast",
    "broadcast_in_dim",
    "broadcast_shapes",
    "broadcast_to_rank",
    "collapse",
    "reshape",
    "transpose",
]


@operation
def broadcast(operand: Any, sizes: Sequence[int]) -> Any:
    """Add leading axes of the given sizes, repeating `operand` along them.

    >>> from didax import lax
    >>> lax.broadcast(1.0, (2, 3)).shape
    (2, 3)
    """
    shape = aval_of(operand).shape
    lead = tuple(sizes)
    return broadcast_in_dim(operand, (*lead, *shape), range(len(lead), len(lead) + len(shape)))


@operation
def broadcast_in_dim(operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Any:
    """Axis i of `operand` becomes axis broadcast_dimensions[i] of an array of that shape; the other axes repeat it.

    >>> from didax import lax
    >>> lax.broadcast_in_dim(np.arange(3), (3, 2), (0,))
    Array([[0, 0],
           [1, 1],
           [2, 2]], dtype=int32)
    """
    return primitives.broadcast_in_dim_p.bind(
        operand, shape=tuple(shape), broadcast_dimensions=tuple(broadcast_dimensions)
    )


@operation
def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that NumPy's rules broadcast all the shapes to; ValueError when there is none.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    try:
        return np.broadcast_shapes(*(tuple(s) for s in shapes))
    except ValueError:
        raise ValueError(
            message(
                "Shapes broadcast when each pair of lengths, from the last axis on, is equal or has a 1.",
                f"shapes: {', '.join(str(tuple(s)) for s in shapes)}",
                fix="Reshape or transpose one of the arrays.",
            )
        ) from None


@operation
def broadcast_to_rank(x: Any, rank: int) -> Any:
    """Add leading axes of length 1 up to that many axes."""
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
    """The elements of `operand`, axes taken in the order of `dimensions`, in a new shape.

    >>> from didax import lax
    >>> lax.reshape(np.zeros((2, 3)), (3, 2)).shape
    (3, 2)
    """
    if dimensions is not None:
        operand = transpose(operand, dimensions)
    return primitives.reshape_p.bind(operand, new_sizes=tuple(int(n) for n in new_sizes))


@operation
def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """Axis i of the result is axis permutation[i] of `operand`.

    >>> from didax import lax
    >>> lax.transpose(np.zeros((2, 3)), (1, 0)).shape
    (3, 2)
    """
    return primitives.transpose_p.bind(operand, permutation=tuple(int(i) for i in permutation))
