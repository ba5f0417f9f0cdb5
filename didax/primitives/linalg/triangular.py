"""Cholesky factors and triangular systems; the derivatives of the other factorisations solve such systems.

    cholesky:          A = L L^H, reading the lower triangle of A
    triangular_solve:  X with op(A) X = B, or X op(A) = B; op may transpose and conjugate

Read next: `lu.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import Zero, add_tangents
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.primitives.elementwise import neg
from didax.primitives.holes import NOT_LINEAR
from didax.primitives.linalg.host import Factorization, by_matrix, routine
from didax.primitives.linalg.matrix import (
    MatrixPrimitive,
    check_matrices,
    check_square,
    conjugate,
    from_triangle,
    half_triangle,
    info_aval,
    lower_conjugate,
    lower_triangle,
    matmul,
    matrix_by_matrix,
    nan_unless,
    succeeded,
    transposed,
    tril,
    triu,
)
from didax.primitives.shape import move_axis, reshape
from didax.transforms.batching import AxisData
from didax.transforms.elements import check_elements
from didax.transforms.jet import Series, quotient
from didax.transforms.transpose import is_undef
from didax.xla.lapack import cuda_call, lapack_call
from didax.xla.platforms import platform
from didax.xla.text import FunctionContext, Value, function_type


class Cholesky(MatrixPrimitive):
    """The lower triangular L with L L^H = A and a positive diagonal; NaN where A is not positive definite."""

    holes = {"transpose": NOT_LINEAR}

    def type(self, x: ShapedArray) -> ShapedArray:
        check_square("cholesky", x)
        return x

    def eager(self, x: Any) -> Any:
        try:
            return np.linalg.cholesky(x)
        except np.linalg.LinAlgError:
            return np.tril(matrix_by_matrix(np.linalg.cholesky, x, x.shape, x.dtype))

    def lower(self, ctx: FunctionContext, x: Value) -> Value:
        if x.aval.size == 0:
            return x
        outs = [x.aval, info_aval(x.aval)]
        if platform() == "cpu":
            out, info = lapack_call(ctx, "potrf", [x], outs, uplo="L")
        elif platform() == "cuda":  # XLA's own factorisation takes fifty times as long for 1024 rows
            out, info = cuda_call(ctx, "cusolver_potrf_ffi", [x], outs, lower=True)
        else:
            return lower_triangle(
                ctx, ctx.emit(f"stablehlo.cholesky {x}, lower = true : {x.type}", x.aval), "GE"
            )
        return lower_triangle(ctx, nan_unless(ctx, succeeded(ctx, info), out), "GE")

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """L' = L phi(L^-1 A' L^-H), where phi takes the lower triangle with half of the diagonal."""
        (x,), (t,) = primals, tangents
        out = self.bind(x)
        if type(t) is Zero:
            return out, Zero(aval_of(out).tangent())
        inner = triangular_solve(out, from_triangle(t, lower=True), left_side=True, lower=True)
        inner = triangular_solve(out, inner, lower=True, transpose_a=True, conjugate_a=True)
        # The product may have zeros of either sign above the diagonal, and NaN where there is no factor.
        return out, tril(matmul(out, half_triangle(inner)))


class TriangularSolve(Factorization):
    """The X with op(A) X = B (`left_side`) or X op(A) = B, where op may transpose and conjugate A.

    It reads one triangle of A; with `unit_diagonal` it does not read the diagonal, and takes it for 1. It is linear in
    B, and its transpose solves the system with the transpose of op(A).
    """

    def type(
        self,
        a: ShapedArray,
        b: ShapedArray,
        *,
        left_side: bool,
        lower: bool,
        transpose_a: bool,
        conjugate_a: bool,
        unit_diagonal: bool,
    ) -> ShapedArray:
        check_square("triangular_solve", a, "a")
        check_matrices("triangular_solve", b, "b")
        facts = f"a: {a}", f"b: {b}", f"left_side: {left_side}"
        if a.dtype != b.dtype:
            fix = "Cast one of them (x.astype)."
            raise TypeError(message("triangular_solve takes arrays of one dtype.", *facts, fix=fix))
        if a.shape[:-2] != b.shape[:-2]:
            fix = "Broadcast one of them to the leading axes of the other."
            raise TypeError(message("a and b of triangular_solve have equal batch axes.", *facts, fix=fix))
        if a.shape[-1] != b.shape[-2 if left_side else -1]:
            fix = f"Give b as many {'rows' if left_side else 'columns'} as a has, or change left_side."
            raise ValueError(message("triangular_solve needs matrices that fit.", *facts, fix=fix))
        return b.update(weak_type=a.weak_type and b.weak_type)

    def eager(
        self,
        a: Any,
        b: Any,
        *,
        left_side: bool,
        lower: bool,
        transpose_a: bool,
        conjugate_a: bool,
        unit_diagonal: bool,
    ) -> Any:
        how = (2 if conjugate_a else 1) if transpose_a else 0
        a = a.conj() if conjugate_a and not transpose_a else a
        trsm, one = routine("trsm", a.dtype), a.dtype.type(1)
        flags = {"side": not left_side, "lower": lower, "trans_a": how, "diag": unit_diagonal}
        return by_matrix(lambda a, b: [trsm(one, a, b, **flags)], a, b)[0]

    def lower(
        self,
        ctx: FunctionContext,
        a: Value,
        b: Value,
        *,
        left_side: bool,
        lower: bool,
        transpose_a: bool,
        conjugate_a: bool,
        unit_diagonal: bool,
    ) -> Value:
        conjugate_a = conjugate_a and a.aval.dtype.kind == "c"
        if conjugate_a and not transpose_a:
            a = lower_conjugate(ctx, a)
        if platform() == "cpu":
            how = ("C" if conjugate_a else "T") if transpose_a else "N"
            flags = {"diag": "U" if unit_diagonal else "N", "side": "L" if left_side else "R"}
            flags |= {"trans_x": how, "uplo": "L" if lower else "U"}
            return lapack_call(ctx, "trsm", [a, b], [b.aval], **flags)[0]
        how = ("ADJOINT" if conjugate_a else "TRANSPOSE") if transpose_a else "NO_TRANSPOSE"
        text = {flag: str(flag).lower() for flag in (False, True)}
        return ctx.emit(
            f'"stablehlo.triangular_solve"({a}, {b}) <{{left_side = {text[left_side]}, '
            f"lower = {text[lower]}, transpose_a = #stablehlo<transpose {how}>, "
            f"unit_diagonal = {text[unit_diagonal]}}}> : {function_type([a, b], [b.aval])}",
            b.aval,
        )

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        """op(A) X' = B' - op(A') X."""
        (a, b), (a_dot, b_dot) = primals, tangents
        out = self.bind(a, b, **params)
        if type(a_dot) is not Zero:
            b_dot = add_tangents(b_dot, neg(_times(a_dot, out, **params)))
        if type(b_dot) is Zero:
            return out, Zero(aval_of(out).tangent())
        return out, self.bind(a, b_dot, **params)

    def taylor(self, k: int, out: Series, args: Sequence[Series], **params: Any) -> Any:
        a, b = args

        def solve(rest: Any, a: Any) -> Any:
            return self.bind(a, rest, **params)

        return quotient(solve, lambda x, a: _times(a, x, **params), k, out, b, a)

    def transpose(self, ct: Any, a: Any, b: Any, *, transpose_a: bool, **params: Any) -> list[Any]:
        assert is_undef(b) and not is_undef(a)
        return [None, self.bind(a, ct, transpose_a=not transpose_a, **params)]

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any
    ) -> tuple[Any, int]:
        check_elements(self, args, dims, params)
        (a, b), (a_dim, b_dim) = args, dims
        if a_dim is not None:
            return super().batch(axis, args, dims, **params)
        assert b_dim is not None
        side = -1 if params["left_side"] else -2  # the axis of right-hand sides
        return fold_right_sides(lambda sides: self.bind(a, sides, **params), b, b_dim, side), 0


def fold_right_sides(solve: Callable[[Any], Any], b: Any, dim: int, side: int) -> Any:
    """`solve` for a batch of right-hand sides, joined as columns (side -1) or rows (side -2) of one for each matrix."""
    ndim = aval_of(b).ndim
    side += ndim - 1  # where the batch goes: just before the axis that it is joined with
    b = move_axis(b, dim, side)
    shape = aval_of(b).shape
    flat = (*shape[:side], shape[side] * shape[side + 1], *shape[side + 2 :])
    return move_axis(reshape(solve(reshape(b, flat)), shape), side, 0)


def _times(
    a: Any,
    x: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    """op(a) x, or x op(a), for the triangle of `a` that the solver reads."""
    a = tril(a, -1 if unit_diagonal else 0) if lower else triu(a, 1 if unit_diagonal else 0)
    a = conjugate(a) if conjugate_a else a
    a = transposed(a) if transpose_a else a
    return matmul(a, x) if left_side else matmul(x, a)


cholesky_p = Cholesky("cholesky")
triangular_solve_p = TriangularSolve("triangular_solve")


def cholesky(x: Any) -> Any:
    """The lower Cholesky factor of the Hermitian matrix whose lower triangle is that of `x`."""
    return cholesky_p.bind(x)


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """X with op(a) X = b, or X op(a) = b where not `left_side`."""
    return triangular_solve_p.bind(
        a,
        b,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=bool(conjugate_a),
        unit_diagonal=bool(unit_diagonal),
    )
