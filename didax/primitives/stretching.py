"""Bringing the operands of an elementwise operation to one shape: scalars stretch, and batches are aligned.

A scalar beside arrays counts as an array of their shape that has this number everywhere. Read next: `families.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import ArgumentError, message
from didax.primitives.shape import broadcast_in_dim, reduce_sum
from didax.transforms.batching import AxisData


def stretch(x: Any, like: Any) -> Any:
    """A scalar broadcast to the shape of `like`; arrays pass through."""
    shape = aval_of(like).shape
    if aval_of(x).shape == shape:
        return x
    return broadcast_in_dim(x, shape, ())


def stretch_axes(args: Sequence[Any], error: TypeError) -> list[Any]:
    """Arrays of one rank with axes of length 1 as long as the others'; raises the error where that does not help."""
    shapes = [aval_of(x).shape for x in args]
    arrays = [shape for shape in shapes if shape]
    if len(set(map(len, arrays))) != 1 or len(set(arrays)) == 1:
        raise error
    lengths = [set(column) - {1} or {1} for column in zip(*arrays, strict=True)]
    if any(len(found) > 1 for found in lengths):
        raise error
    full = tuple([n for found in lengths for n in found])
    return [
        x if shape in ((), full) else broadcast_in_dim(x, full, tuple(range(len(full))))
        for x, shape in zip(args, shapes, strict=True)
    ]


def unstretch(ct: Any, aval: ShapedArray) -> Any:
    """The transpose of `stretch`: the sum over everything for an operand that was a scalar."""
    if aval_of(ct).shape == aval.shape:
        return ct
    return reduce_sum(ct, tuple(range(aval_of(ct).ndim)))


def align_batches(axis: AxisData, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[list[Any], int]:
    """Bring batched elementwise operands to one shape with the batch axis at one place.

    Scalars that are not batched stay scalars; batched scalars beside arrays gain axes.
    """
    avals = [aval_of(x) for x in args]
    shapes = {a.shape for a, d in zip(avals, dims, strict=True) if d is not None}
    first = next(d for d in dims if d is not None)
    if len(shapes) == 1 and all(
        d == first or (d is None and a.shape == ()) for a, d in zip(avals, dims, strict=True)
    ):
        return list(args), first
    elements = [_without(a.shape, d) for a, d in zip(avals, dims, strict=True)]
    ranks = [len(shape) for shape in elements]
    inner = max(elements, key=len)
    # Of other shapes a batch axis would pass for another axis, or be stretched.
    if any(shape not in ((), inner) for shape in elements):
        facts = f"elements of the batch: {', '.join(map(str, elements))}"
        raise ArgumentError(
            message("Operands have one shape, or are scalars.", facts, fix="Broadcast them first.")
        )
    full = (axis.size, *inner)

    def align(x: Any, aval: ShapedArray, dim: int | None, rank: int) -> Any:
        if dim is None:
            return x if rank == 0 else broadcast_in_dim(x, full, tuple(range(1, len(full))))
        if rank == 0 and inner:
            return broadcast_in_dim(x, full, (0,))
        return x if dim == 0 else array_ops.move_axis(x, dim, 0)

    return [align(*item) for item in zip(args, avals, dims, ranks, strict=True)], 0


def _without(shape: tuple[int, ...], dim: int | None) -> tuple[int, ...]:
    return shape if dim is None else shape[:dim] + shape[dim + 1 :]
