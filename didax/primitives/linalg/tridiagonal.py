"""Systems with a tridiagonal matrix, given by its three diagonals.

    dl[i] x[i-1] + d[i] x[i] + du[i] x[i+1] = b[i]

The diagonals have one length; dl[0] and du[-1] stand outside the matrix and are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.array_ops import Zero, add_tangents
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic
from didax.core.errors import message
from didax.primitives.elementwise import mul, neg
from didax.primitives.linalg.matrix import (
    MatrixPrimitive,
    as_rows,
    check_matrices,
    info_aval,
    nan_unless,
    succeeded,
)
from didax.primitives.scalars import scalar_like
from didax.primitives.slicing import pad, slice_axis
from didax.transforms.transpose import is_undef
from didax.xla.lapack import cuda_call, lapack_call
from didax.xla.platforms import platform
from didax.xla.text import FunctionContext, Value


class TridiagonalSolve(MatrixPrimitive):
    """The x with A x = b, for the tridiagonal matrix A of three diagonals; NaN where A is singular. Linear in b."""

    def type(self, dl: ShapedArray, d: ShapedArray, du: ShapedArray, b: ShapedArray) -> ShapedArray:
        check_matrices("tridiagonal_solve", b, "b")
        if any(x.dtype != b.dtype or x.shape != b.shape[:-1] for x in (dl, d, du)):
            raise TypeError(
                message(
                    "tridiagonal_solve takes three diagonals of the dtype of b, as long as b has rows.",
                    f"dl: {dl}, d: {d}, du: {du}, b: {b}",
                    fix="Pass diagonals of shape (..., n) and b of shape (..., n, k); dl[0] and du[-1] are not read.",
                )
            )
        return b

    def lower(self, ctx: FunctionContext, dl: Value, d: Value, du: Value, b: Value) -> Value:
        if b.aval.size == 0:
            return b
        if platform() != "cpu":
            return _lower_cusparse(ctx, dl, d, du, b)
        operands = [dl, d, du, b]
        outs = [*(x.aval for x in operands), info_aval(b.aval)]
        *_, x, info = lapack_call(ctx, "gtsv", operands, outs)
        return nan_unless(ctx, succeeded(ctx, info), x)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """A x' = b' - A' x."""
        *diagonals, _ = primals
        *dots, b_dot = tangents
        x = self.bind(*primals)
        for offset, dot in zip((-1, 0, 1), dots, strict=True):
            if type(dot) is not Zero and aval_of(x).size:
                b_dot = add_tangents(b_dot, neg(_diagonal_times(dot, offset, x)))
        if type(b_dot) is Zero:
            return x, Zero(aval_of(x).tangent())
        return x, self.bind(*diagonals, b_dot)

    def transpose(self, ct: Any, dl: Any, d: Any, du: Any, b: Any) -> list[Any]:
        assert is_undef(b)
        axis = aval_of(d).ndim - 1
        return [None, None, None, self.bind(_shifted(du, -1, axis), d, _shifted(dl, 1, axis), ct)]


def _lower_cusparse(ctx: FunctionContext, dl: Value, d: Value, du: Value, b: Value) -> Value:
    """The solution by cuSPARSE, which takes three rows or more and zeros beyond the ends of the diagonals."""
    n, axis = d.aval.shape[-1], d.aval.ndim - 1
    added = 0 if is_symbolic(n) else max(3 - n, 0)  # rows of the identity

    def padded(x: Value, number: int, before: int, after: int) -> Value:
        config = [(before, after, 0) if i == axis else (0, 0, 0) for i in range(x.aval.ndim)]
        return ctx.pad(x, ctx.scalar(number, x.aval.dtype), config) if before or after else x

    dl = padded(ctx.slice_axis(dl, 1, n, axis), 0, 1, added)
    du = padded(ctx.slice_axis(du, 0, n - 1, axis), 0, 0, 1 + added)
    d, b = padded(d, 1, 0, added), padded(b, 0, 0, added)
    x = cuda_call(ctx, "cusparse_gtsv2_ffi", [dl, d, du, b], [b.aval])[0]
    return ctx.slice_axis(x, 0, n, axis) if added else x


def _diagonal_times(diagonal: Any, offset: int, x: Any) -> Any:
    """diagonal[i] x[i + offset], and zero where i + offset is beyond the ends of x.

    The diagonal is not read there, so that a NaN in this place does not reach the derivative.
    """
    axis, before, after = aval_of(x).ndim - 2, max(-offset, 0), max(offset, 0)
    n = aval_of(x).shape[axis]
    rows = as_rows(slice_axis(diagonal, before, n - after, axis), aval_of(x).shape[-1])
    product = mul(rows, slice_axis(x, after, n - before, axis))
    config = [(before, after, 0) if i == axis else (0, 0, 0) for i in range(axis + 2)]
    return pad(product, scalar_like(0, aval_of(x).dtype), tuple(config))


def _shifted(x: Any, offset: int, axis: int) -> Any:
    """x[i + offset] along an axis, zero beyond its ends."""
    config = [(0, 0, 0)] * aval_of(x).ndim
    config[axis] = (-offset, offset, 0)
    return pad(x, scalar_like(0, aval_of(x).dtype), tuple(config))


tridiagonal_solve_p = TridiagonalSolve("tridiagonal_solve")


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any) -> Any:
    """The solution of a tridiagonal system."""
    return tridiagonal_solve_p.bind(dl, d, du, b)
