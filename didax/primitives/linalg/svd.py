"""Singular value decomposition: A = U diag(s) V^H, s descending and not negative.

U and V have min(m, n) orthonormal columns, or are square with `full_matrices`; V is given as V^H. Where singular
values coincide or vanish, see Note [Degenerate gaps] in `matrix.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import may_exceed, min_dim
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import add, mul, neg, real_part, sub
from didax.primitives.holes import NOT_LINEAR
from didax.primitives.linalg.host import Factorization, by_matrix, is_finite, nan_if_failed, routine
from didax.primitives.linalg.matrix import (
    MatrixPrimitive,
    adjoint,
    as_columns,
    as_rows,
    check_matrices,
    diagonal,
    gaps,
    hermitian_part,
    info_aval,
    lower_adjoint,
    lower_eye,
    lower_finite,
    lower_slice,
    matmul,
    matrix_by_matrix,
    nan_unless,
    real_dtype,
    reciprocal_or_zero,
    scale_columns,
    succeeded,
    with_matrix,
    zero_unless,
)
from didax.primitives.scalars import scalar_like
from didax.primitives.slicing import concatenate, pad, slice_axis
from didax.xla.lapack import cuda_call, lapack_call
from didax.xla.platforms import platform
from didax.xla.text import FunctionContext, Value


class SVD(Factorization):
    """`[u, s, vh]`: left vectors as columns, singular values, conjugated right vectors as rows."""

    multiple_results = True
    holes = {"transpose": NOT_LINEAR}

    def type(self, x: ShapedArray, *, full_matrices: bool) -> Sequence[ShapedArray]:
        check_matrices("svd", x)
        m, n = x.shape[-2:]
        k = min_dim(m, n)
        left, right = (m, n) if full_matrices else (k, k)
        s = with_matrix(x, k, dtype=real_dtype(x))
        return [with_matrix(x, m, left), s, with_matrix(x, right, n)]

    def eager(self, x: Any, *, full_matrices: bool) -> list[Any]:
        gesdd = routine("gesdd", x.dtype)

        def one(x: Any) -> Any:
            finite = is_finite(x)  # LAPACK may not return for other matrices
            u, s, vh, info = gesdd(x if finite else np.zeros_like(x), full_matrices=full_matrices)
            return nan_if_failed(info or not finite, u, s, vh)

        return by_matrix(one, x)

    def lower(self, ctx: FunctionContext, x: Value, *, full_matrices: bool) -> list[Value]:
        u_aval, s_aval, vh_aval = ctx.out_avals
        if x.aval.size == 0:
            return [lower_eye(ctx, u_aval), ctx.constant(0, s_aval), lower_eye(ctx, vh_aval)]
        if platform() == "cpu":
            s, u, vh, ok = _lower_gesdd(ctx, x, "A" if full_matrices else "S", *ctx.out_avals)
        else:
            s, u, vh, ok = _lower_jacobi(ctx, x, s_aval, compute_uv=True)
            u, vh = lower_slice(ctx, u, *u_aval.shape[-2:]), lower_slice(ctx, vh, *vh_aval.shape[-2:])
        return [nan_unless(ctx, ok, y) for y in (u, s, vh)]

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, full_matrices: bool
    ) -> tuple[list[Any], list[Any]]:
        (x,), (t,) = primals, tangents
        u, s, vh = self.bind(x, full_matrices=full_matrices)
        if type(t) is Zero:
            return [u, s, vh], [Zero(aval_of(y).tangent()) for y in (u, s, vh)]
        return [u, s, vh], _svd_tangents(u, s, vh, t)


class SingularValues(MatrixPrimitive):
    """The singular values alone, descending."""

    holes = {"transpose": NOT_LINEAR}

    def type(self, x: ShapedArray) -> ShapedArray:
        check_matrices("svd", x)
        return with_matrix(x, min_dim(*x.shape[-2:]), dtype=real_dtype(x))

    def eager(self, x: Any) -> Any:
        shape = (*x.shape[:-2], min(x.shape[-2:]))

        def values(x: Any) -> Any:
            return matrix_by_matrix(lambda y: np.linalg.svd(y, compute_uv=False), x, shape, x.real.dtype)

        if is_finite(x):
            return values(x)
        finite = np.isfinite(x).all((-2, -1))
        s = values(np.where(finite[..., None, None], x, x.dtype.type(0)))
        return np.where(finite[..., None], s, s.dtype.type(np.nan))

    def lower(self, ctx: FunctionContext, x: Value) -> Value:
        (s_aval,) = ctx.out_avals
        if x.aval.size == 0:
            return ctx.constant(0, s_aval)
        if platform() == "cpu":
            m, n = x.aval.shape[-2:]
            k = min_dim(m, n)
            unused = with_matrix(x.aval, m, k), with_matrix(x.aval, k, n)
            s, _, _, ok = _lower_gesdd(ctx, x, "N", unused[0], s_aval, unused[1])
        else:
            s, _, _, ok = _lower_jacobi(ctx, x, s_aval, compute_uv=False)
        return nan_unless(ctx, ok, s)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """s' = Re diag(U^H A' V)."""
        (x,), (t,) = primals, tangents
        if type(t) is Zero:
            s = self.bind(x)
            return s, Zero(aval_of(s).tangent())
        u, s, vh = svd_p.bind(x, full_matrices=False)
        return s, real_part(diagonal(matmul(adjoint(u), matmul(t, adjoint(vh)))))


def _lower_gesdd(
    ctx: FunctionContext, x: Value, mode: str, u_aval: ShapedArray, s_aval: ShapedArray, vh_aval: ShapedArray
) -> list[Value]:
    """LAPACK's divide and conquer: s, u and v^H, and for which matrices they are right."""
    finite = lower_finite(ctx, x)
    outs = [x.aval, s_aval, u_aval, vh_aval, info_aval(x.aval)]
    _, s, u, vh, info = lapack_call(ctx, "gesdd", [zero_unless(ctx, finite, x)], outs, mode=mode)
    return [s, u, vh, ctx.op("and", [succeeded(ctx, info), finite])]


def _lower_jacobi(ctx: FunctionContext, x: Value, s_aval: ShapedArray, compute_uv: bool) -> list[Value]:
    """cuSOLVER's Jacobi iteration: s, square u and v^H, and for which matrices they are right."""
    m, n = x.aval.shape[-2:]
    outs = [x.aval, s_aval, with_matrix(x.aval, m, m), with_matrix(x.aval, n, n), info_aval(x.aval)]
    flags = {"compute_uv": compute_uv, "full_matrices": True}
    _, s, u, v, info = cuda_call(ctx, "cusolver_gesvdj_ffi", [x], outs, **flags)
    ok = ctx.op("and", [succeeded(ctx, info), lower_finite(ctx, x)])
    return [s, u, lower_adjoint(ctx, v), ok]


def _svd_tangents(u: Any, s: Any, vh: Any, t: Any) -> list[Any]:
    """Tangents of the factors.

    With P = U1^H A' V1 for the k = min(m, n) leading vectors, s' = Re diag(P). U1^H U' = E + D and V1^H V' = E - D,
    where E is the Hermitian part of P over s[j] - s[i], D its skew part over s[j] + s[i].
    """
    v = adjoint(vh)
    u1, v1 = (slice_axis(y, 0, aval_of(s).shape[-1], aval_of(y).ndim - 1) for y in (u, v))
    rows, columns = matmul(t, v1), matmul(adjoint(t), u1)
    inner = matmul(adjoint(u1), rows)
    symmetric = _over(hermitian_part(inner), gaps(s), s)
    skew = _over(sub(inner, hermitian_part(inner)), _sums(s), s)
    s_inverse = reciprocal_or_zero(s, s)
    u_dot = _vectors_tangent(u, add(symmetric, skew), rows, s_inverse)
    v_dot = _vectors_tangent(v, sub(symmetric, skew), columns, s_inverse)
    return [u_dot, real_part(diagonal(inner)), adjoint(v_dot)]


def _over(x: Any, divisor: Any, s: Any) -> Any:
    return mul(x, convert_element_type(reciprocal_or_zero(divisor, s), aval_of(x).dtype))


def _sums(s: Any) -> Any:
    k = aval_of(s).shape[-1]
    return add(as_rows(s, k), as_columns(s, k))


def _vectors_tangent(x: Any, turn: Any, moved: Any, s_inverse: Any) -> Any:
    """The tangent of the vectors `x`.

    The first k vectors turn among themselves by `turn`, and move out of the space they span by `moved` / s. Vectors
    beyond the k-th, if there are any, move oppositely, so that all stay orthogonal.
    """
    (m, p), k, ndim = aval_of(x).shape[-2:], aval_of(turn).shape[-1], aval_of(x).ndim
    along = matmul(adjoint(x), moved)
    if may_exceed(p, k):
        out = scale_columns(slice_axis(along, k, p, ndim - 2), s_inverse)
        still = pad(out, scalar_like(0, aval_of(out).dtype), ((0, 0, 0),) * (ndim - 1) + ((0, p - k, 0),))
        upper = concatenate([turn, neg(adjoint(out))], ndim - 1)
        return matmul(x, concatenate([upper, still], ndim - 2))
    out = matmul(x, turn)
    return add(out, scale_columns(sub(moved, matmul(x, along)), s_inverse)) if may_exceed(m, p) else out


svd_p = SVD("svd")
singular_values_p = SingularValues("singular_values")


def svd(x: Any, full_matrices: bool = True) -> tuple[Any, Any, Any]:
    """The factors u, s, v^H."""
    u, s, vh = svd_p.bind(x, full_matrices=full_matrices)
    return u, s, vh


def singular_values(x: Any) -> Any:
    """The singular values, descending."""
    return singular_values_p.bind(x)
