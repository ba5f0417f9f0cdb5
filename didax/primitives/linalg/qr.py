"""QR factors: A = Q R, by Householder reflections.

LAPACK stores the vectors of the reflections below the diagonal of R, and their factors in `taus`;
`householder_product` multiplies the reflections. The diagonal of R is real, of either sign. Read next: `eigen.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core import dtypes
from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.primitives.elementwise import add, sub
from didax.primitives.families import NOT_LINEAR
from didax.primitives.linalg.matrix import (
    MatrixPrimitive,
    adjoint,
    check_matrices,
    lower_eye,
    lower_slice,
    lower_triangle,
    matmul,
    on_diagonal,
    real_diagonal,
    tril,
    triu,
    with_matrix,
)
from didax.primitives.linalg.triangular import triangular_solve
from didax.primitives.scalars import scalar_like
from didax.primitives.slicing import pad, slice_axis
from didax.xla.lapack import cuda_call, lapack_call, platform
from didax.xla.text import FunctionContext, Value


class QR(MatrixPrimitive):
    """`[q, r]`: q has min(m, n) orthonormal columns, or m of them with `full_matrices`; r is upper triangular."""

    multiple_results = True
    holes = {"transpose": NOT_LINEAR}

    def type(self, x: ShapedArray, *, full_matrices: bool) -> Sequence[ShapedArray]:
        check_matrices("qr", x)
        m, n = x.shape[-2:]
        k = m if full_matrices else min(m, n)
        return [with_matrix(x, m, k), with_matrix(x, k, n)]

    def lower(self, ctx: FunctionContext, x: Value, *, full_matrices: bool) -> list[Value]:
        q_aval, r_aval = ctx.out_avals
        if x.aval.size == 0:
            return [lower_eye(ctx, q_aval), ctx.constant(0, r_aval)]
        m, n = x.aval.shape[-2:]
        factors, taus = _lower_reflections(ctx, x)
        r = lower_triangle(ctx, lower_slice(ctx, factors, *r_aval.shape[-2:]), "LE")
        vectors = lower_slice(ctx, factors, m, min(m, n))
        vectors = _append_columns(ctx, vectors, q_aval.shape[-1] - min(m, n))
        return [_lower_product(ctx, vectors, taus), r]

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, full_matrices: bool
    ) -> tuple[list[Any], list[Any]]:
        (x,), (t,) = primals, tangents
        q, r = self.bind(x, full_matrices=full_matrices)
        if type(t) is Zero:
            return [q, r], [Zero(aval_of(y).tangent()) for y in (q, r)]
        return [q, r], _qr_tangents(q, r, t)


def _qr_tangents(q: Any, r: Any, t: Any) -> list[Any]:
    """Tangents of the factors.

    With k = min(m, n) and C = Q^H A' R1^-1 for the leading k columns, Q' = Q W, where W is the skew-Hermitian matrix
    whose lower triangle is that of C, and R' = Q^H A' - W R. Columns of Q beyond k turn towards the first k, and not
    among themselves: see Note [Degenerate gaps].
    """
    ndim, (m, n), k_all = aval_of(q).ndim, aval_of(t).shape[-2:], aval_of(q).shape[-1]
    k = min(m, n)
    moved = matmul(adjoint(q), t)
    r1 = slice_axis(slice_axis(r, 0, k, ndim - 2), 0, k, ndim - 1)
    c = triangular_solve(r1, slice_axis(moved, 0, k, ndim - 1))
    if k_all > k:
        c = pad(c, scalar_like(0, aval_of(c).dtype), ((0, 0, 0),) * (ndim - 1) + ((0, k_all - k, 0),))
    below = tril(c, -1)
    turn = sub(below, adjoint(below))
    if dtypes.is_complex(aval_of(c).dtype):
        turn = add(turn, sub(on_diagonal(c), real_diagonal(c)))
    q_dot = matmul(q, turn)
    if m > k_all:
        outside = sub(t, matmul(q, moved))  # n = k here
        q_dot = add(q_dot, triangular_solve(r1, outside))
    return [q_dot, triu(sub(moved, matmul(turn, r)))]


class Geqrf(MatrixPrimitive):
    """`[factors, taus]`: R with the vectors of the reflections below its diagonal, and the reflections' factors."""

    multiple_results = True
    holes = {
        "jvp": "it is the raw form of qr, which is differentiated as a whole",
        "transpose": NOT_LINEAR,
    }

    def type(self, x: ShapedArray) -> Sequence[ShapedArray]:
        check_matrices("geqrf", x)
        return [x, with_matrix(x, min(x.shape[-2:]))]

    def lower(self, ctx: FunctionContext, x: Value) -> list[Value]:
        return _lower_reflections(ctx, x) if x.aval.size else [x, ctx.constant(0, ctx.out_avals[1])]


def _lower_reflections(ctx: FunctionContext, x: Value) -> list[Value]:
    call, routine = (lapack_call, "geqrf") if platform() == "cpu" else (cuda_call, "cusolver_geqrf")
    return call(ctx, routine, [x], [x.aval, with_matrix(x.aval, min(x.aval.shape[-2:]))])


class HouseholderProduct(MatrixPrimitive):
    """The first n columns of the product of reflections I - taus[i] v_i v_i^H, v_i below the diagonal of `a`."""

    holes = {
        "jvp": "it is a part of qr, which is differentiated as a whole",
        "transpose": NOT_LINEAR,
    }

    def type(self, a: ShapedArray, taus: ShapedArray) -> ShapedArray:
        check_matrices("householder_product", a, "a")
        facts = f"a: {a}", f"taus: {taus}"
        if taus.dtype != a.dtype:
            fix = "Cast one of them (x.astype)."
            raise TypeError(message("householder_product takes arrays of one dtype.", *facts, fix=fix))
        m, n = a.shape[-2:]
        if n > m or taus.shape[:-1] != a.shape[:-2] or not taus.ndim or taus.shape[-1] > n:
            raise ValueError(
                message(
                    "householder_product takes vectors as columns, no more of them than rows, and a factor for each.",
                    *facts,
                    fix="Pass a of shape (..., m, n) with n <= m, and taus of shape (..., k) with k <= n.",
                )
            )
        return a

    def lower(self, ctx: FunctionContext, a: Value, taus: Value) -> Value:
        return lower_eye(ctx, a.aval) if 0 in (a.aval.size, taus.aval.size) else _lower_product(ctx, a, taus)


def _lower_product(ctx: FunctionContext, a: Value, taus: Value) -> Value:
    if platform() != "cpu":
        return cuda_call(ctx, "cusolver_orgqr", [a, taus], [a.aval])[0]
    routine = "ungqr" if dtypes.is_complex(a.aval.dtype) else "orgqr"
    return lapack_call(ctx, routine, [a, taus], [a.aval])[0]


def _append_columns(ctx: FunctionContext, x: Value, count: int) -> Value:
    """`x` with that many columns of zeros."""
    if not count:
        return x
    config = [*[(0, 0, 0)] * (x.aval.ndim - 1), (0, count, 0)]
    return ctx.pad(x, ctx.scalar(0, x.aval.dtype), config)


qr_p = QR("qr")
geqrf_p = Geqrf("geqrf")
householder_product_p = HouseholderProduct("householder_product")


def qr(x: Any, full_matrices: bool = True) -> tuple[Any, Any]:
    """The factors, q complete or with as many columns as r has rows."""
    q, r = qr_p.bind(x, full_matrices=full_matrices)
    return q, r


def geqrf(x: Any) -> tuple[Any, Any]:
    """R with the vectors of the reflections below its diagonal, and the reflections' factors."""
    factors, taus = geqrf_p.bind(x)
    return factors, taus


def householder_product(a: Any, taus: Any) -> Any:
    """The first columns of the product of the reflections."""
    return householder_product_p.bind(a, taus)
