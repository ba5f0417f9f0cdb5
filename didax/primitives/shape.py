"""Changing shapes: broadcasting, reshaping, permuting axes, and the sum over axes, which is broadcasting's transpose.

All are linear: the jvp applies the operation to the tangent (`LinearUnary`), and each states its transpose.
Read next: `families.py` (elementwise primitives), which stretches scalars with these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import Zero, array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import way_to_equal
from didax.core.errors import ArgumentError, message
from didax.core.primitive import Primitive
from didax.passes.sparsity import along_axes
from didax.primitives import padded, split
from didax.primitives.counting import lower_sum
from didax.primitives.reduced import batched_axes, reduced_aval
from didax.transforms.batching import AxisData
from didax.transforms.elements import check_elements


class LinearUnary(Primitive):
    """A primitive that is linear in its only operand."""

    linear = True

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        y = self.bind(x, **params)
        if type(t) is Zero:
            return y, Zero(aval_of(y).tangent())
        return y, self.bind(t, **params)


class BroadcastInDim(LinearUnary):
    """Axis i of the operand becomes axis broadcast_dimensions[i] of the result; the other axes repeat it."""

    moves_elements = True
    sharding = split.broadcast
    padded = padded.of_shape

    def type(
        self, x: ShapedArray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
    ) -> ShapedArray:
        fits = len(broadcast_dimensions) == x.ndim and all(
            0 <= d < len(shape) and n in (1, shape[d])
            for n, d in zip(x.shape, broadcast_dimensions, strict=False)
        )
        if any([n < 0 for n in shape]):
            raise ArgumentError(
                message(
                    "An array has axes of lengths of at least 0.",
                    f"operand: {x}, shape: {shape}",
                    fix="Check how the shape is computed.",
                )
            )
        if not fits or any(a >= b for a, b in itertools.pairwise(broadcast_dimensions)):
            raise ArgumentError(
                message(
                    "broadcast_in_dim maps each axis of the operand to an axis of the shape, in order, of the same "
                    "length or 1.",
                    f"operand: {x}, shape: {shape}, broadcast_dimensions: {broadcast_dimensions}",
                    fix="Name one axis of the shape for each axis of the operand.",
                )
            )
        return x.update(shape=shape)

    def eager(self, x: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
        return _spread(np.asarray(x), shape, broadcast_dimensions) if shape or np.ndim(x) else x

    def lower(
        self, ctx: Any, x: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
    ) -> Any:
        if x.constant is not None:
            return ctx.constant(x.constant, ctx.out_avals[0])
        return ctx.broadcast(x, ctx.out_avals[0], broadcast_dimensions)

    def transpose(
        self, ct: Any, x: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
    ) -> list[Any]:
        repeated = [i for i in range(len(shape)) if i not in broadcast_dimensions]
        repeated += [d for n, d in zip(x.aval.shape, broadcast_dimensions, strict=True) if n != shape[d]]
        return [reshape(reduce_sum(ct, tuple(sorted(repeated))), x.aval.shape)]

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: tuple[int, ...]) -> tuple[Any, int]:
        check_elements(self, args, dims, params)
        shape, broadcast_dimensions = params["shape"], params["broadcast_dimensions"]
        if dims[0] == len(broadcast_dimensions):  # the batch axis is the last one, and stays the last
            ndim = len(shape)
            return broadcast_in_dim(args[0], (*shape, axis.size), (*broadcast_dimensions, ndim)), ndim
        x = array_ops.move_axis(args[0], dims[0], 0)
        return broadcast_in_dim(x, (axis.size, *shape), (0, *(d + 1 for d in broadcast_dimensions))), 0


def _spread(x: np.ndarray[Any, Any], shape: tuple[int, ...], dims: tuple[int, ...]) -> np.ndarray[Any, Any]:
    lengths = [1] * len(shape)
    for n, d in zip(x.shape, dims, strict=True):
        lengths[d] = n
    if (spread := x.reshape(lengths)).shape == shape:
        return spread
    out = np.empty(shape, x.dtype)
    out[...] = spread  # `np.broadcast_to` takes ten times as long
    return out


class Reshape(LinearUnary):
    """The same elements in row-major order, in another shape."""

    moves_elements = True
    sharding = split.reshaped
    padded = padded.reshaped

    def type(self, x: ShapedArray, *, new_sizes: tuple[int, ...]) -> ShapedArray:
        if (size := math.prod(new_sizes)) != x.size or any(n < 0 for n in new_sizes):
            rule = "cannot reshape array: reshape keeps the number of elements."
            fact = f"operand: {x} ({x.size} elements), new shape: {new_sizes} ({size} elements)"
            fix = way_to_equal(x.size, size) or "Choose a shape with as many elements."
            raise ArgumentError(message(rule, fact, fix=fix))
        return x.update(shape=new_sizes)

    def eager(self, x: Any, *, new_sizes: tuple[int, ...]) -> Any:
        return x.reshape(new_sizes)

    def eager_text(self, source: Any, names: Any, avals: Any, *, new_sizes: tuple[int, ...]) -> str:
        return f"{names[0]}.reshape({source.given(new_sizes)})"

    def lower(self, ctx: Any, x: Any, *, new_sizes: tuple[int, ...]) -> Any:
        return ctx.reshape(x, new_sizes)

    def transpose(self, ct: Any, x: Any, *, new_sizes: tuple[int, ...]) -> list[Any]:
        return [reshape(ct, x.aval.shape)]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, new_sizes: tuple[int, ...]) -> tuple[Any, int]:
        if dims[0] == aval_of(args[0]).ndim - 1:  # the batch axis is the last one, and stays the last
            return reshape(args[0], (*new_sizes, axis.size)), len(new_sizes)
        return reshape(array_ops.move_axis(args[0], dims[0], 0), (axis.size, *new_sizes)), 0


class Transpose(LinearUnary):
    """Axis i of the result is axis permutation[i] of the operand."""

    moves_elements = True
    sharding = split.permuted
    padded = padded.elementwise

    def type(self, x: ShapedArray, *, permutation: tuple[int, ...]) -> ShapedArray:
        if sorted(permutation) != list(range(x.ndim)):
            fix = f"Name each of the axes 0 to {x.ndim - 1} once."
            facts = f"operand: {x}, permutation: {permutation}"
            raise TypeError(message("transpose takes a permutation of all axes.", facts, fix=fix))
        return x.update(shape=tuple(x.shape[i] for i in permutation))

    def eager(self, x: Any, *, permutation: tuple[int, ...]) -> Any:
        return np.asarray(x).transpose(permutation)

    def lower(self, ctx: Any, x: Any, *, permutation: tuple[int, ...]) -> Any:
        return ctx.transpose(x, permutation)

    def transpose(self, ct: Any, x: Any, *, permutation: tuple[int, ...]) -> list[Any]:
        return [transpose(ct, tuple(int(i) for i in np.argsort(permutation)))]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, permutation: tuple[int, ...]) -> tuple[Any, int]:
        check_elements(self, args, dims, {"permutation": permutation})
        (x,), (dim,) = args, dims
        others = [i for i in range(aval_of(x).ndim) if i != dim]
        return transpose(x, (dim, *(others[i] for i in permutation))), 0


class ReduceSum(LinearUnary):
    """Sum over axes, in the operand's dtype (integers wrap)."""

    in_supported_dtype = True
    sharding = split.reduced
    padded = padded.reduced(lambda self, dtype: 0)

    def type(self, x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
        return reduced_aval("reduce_sum", x, axes, "iufc")

    def eager(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        if not axes:
            return x  # NumPy adds to 0.0, which loses the sign of -0.0
        x = np.asarray(x)
        if x.dtype.itemsize <= 2 and x.dtype.kind in "fV":  # sum narrow floats in float32, as XLA does
            return np.sum(x.astype(np.float32), axis=axes).astype(x.dtype)
        return np.add.reduce(x, axis=axes, dtype=x.dtype)  # what np.sum calls

    def eager_text(self, source: Any, names: Any, avals: Any, *, axes: tuple[int, ...]) -> str | None:
        dtype = avals[0].dtype
        plain = axes and dtype.isbuiltin == 1 and dtype.itemsize > 2
        return f"{source.given(np.add.reduce)}({names[0]}, {axes}, {source.given(dtype)})" if plain else None

    def lower(self, ctx: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
        return lower_sum(ctx, x, axes)

    def transpose(self, ct: Any, x: Any, *, axes: tuple[int, ...]) -> list[Any]:
        kept = tuple(i for i in range(x.aval.ndim) if i not in axes)
        return [broadcast_in_dim(ct, x.aval.shape, kept)]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, axes: tuple[int, ...]) -> tuple[Any, int]:
        inner, out_dim = batched_axes(axes, dims[0])
        return self.bind(args[0], axes=inner), out_dim

    def sparsity(self, operands: Sequence[Any], *, axes: tuple[int, ...]) -> Any:
        return along_axes(operands[0], axes)


broadcast_in_dim_p = BroadcastInDim("broadcast_in_dim")
reshape_p = Reshape("reshape")
transpose_p = Transpose("transpose")
reduce_sum_p = ReduceSum("reduce_sum")


def broadcast_in_dim(x: Any, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
    """Axis i of `x` becomes axis broadcast_dimensions[i] of an array of that shape."""
    if aval_of(x).shape == shape:
        return x
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=broadcast_dimensions)


def reshape(x: Any, new_sizes: tuple[int, ...]) -> Any:
    """The elements of `x` in another shape."""
    return x if aval_of(x).shape == new_sizes else reshape_p.bind(x, new_sizes=new_sizes)


def transpose(x: Any, permutation: tuple[int, ...]) -> Any:
    """Permute the axes."""
    if permutation == tuple(range(len(permutation))) and len(permutation) == aval_of(x).ndim:
        return x
    return transpose_p.bind(x, permutation=permutation)


def reduce_sum(x: Any, axes: tuple[int, ...]) -> Any:
    """Sum over axes."""
    return x if not axes else reduce_sum_p.bind(x, axes=axes)


def move_axis(x: Any, source: int, destination: int) -> Any:
    """Move one axis, keeping the order of the others."""
    if source == destination:
        return x
    order = [i for i in range(aval_of(x).ndim) if i != source]
    order.insert(destination, source)
    return transpose(x, tuple(order))


def broadcast_axis(x: Any, size: int, axis: int) -> Any:
    """Insert an axis of that size at `axis`, repeating `x` along it."""
    shape = aval_of(x).shape
    kept = tuple(i for i in range(len(shape) + 1) if i != axis)
    return broadcast_in_dim(x, (*shape[:axis], size, *shape[axis:]), kept)
