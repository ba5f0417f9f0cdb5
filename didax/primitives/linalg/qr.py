"""QR factors: A = Q R, by Householder reflections.

With `pivoting` the columns are exchanged so that the diagonal of R descends: A[:, pivots] = Q R. LAPACK leaves the
reflections' vectors below the diagonal of R and their factors in `taus`; `householder_product` multiplies them out, and
`ormqr` multiplies a matrix with them. The diagonal of R is real, of either sign. Read next: `eigen.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import may_exceed, min_dim
from didax.core.errors import message
from didax.primitives.elementwise import abs_, add, gt, mul, sub
from didax.primitives.holes import NOT_LINEAR
from didax.primitives.linalg.host import Factorization, by_matrix, lower_on_host, routine, triangle
from didax.primitives.linalg.lu import take_rows
from didax.primitives.linalg.matrix import (
    INT32,
    MatrixPrimitive,
    adjoint,
    check_matrices,
    lower_eye,
    lower_slice,
    lower_triangle,
    matmul,
    on_diagonal,
    real_diagonal,
    transposed,
    tril,
    triu,
    with_matrix,
)
from didax.primitives.linalg.solve import det, identity, solve, where_matrix
from didax.primitives.linalg.triangular import triangular_solve
from didax.primitives.scalars import scalar_like
from didax.primitives.slicing import pad, slice_axis
from didax.xla.lapack import cuda_call, lapack_call
from didax.xla.platforms import platform
from didax.xla.text import FunctionContext, Value


class QR(Factorization):
    """`[q, r]`: q has orthonormal columns, min(m, n) of them or (`full_matrices`) m; r is upper triangular.

    With `pivoting` also the column of the matrix that each column of r comes from.
    """

    multiple_results = True
    holes = {"transpose": NOT_LINEAR}

    def type(self, x: ShapedArray, *, full_matrices: bool, pivoting: bool) -> Sequence[ShapedArray]:
        check_matrices("qr", x)
        m, n = x.shape[-2:]
        k = m if full_matrices else min_dim(m, n)
        return [with_matrix(x, m, k), with_matrix(x, k, n), *[_pivots_aval(x)] * pivoting]

    def eager(self, x: Any, *, full_matrices: bool, pivoting: bool) -> list[Any]:
        m, n = x.shape[-2:]
        k = min(m, n)

        def one(x: Any) -> list[Any]:
            factors, pivots, taus = _pivoted(x) if pivoting else _reflections(x)
            columns = m if full_matrices else k
            vectors = factors[:, :k]
            if columns > k:
                vectors = np.concatenate([vectors, np.zeros((m, columns - k), x.dtype)], 1)
            return [_product(vectors, taus), triangle(factors[:columns]), *pivots]

        return by_matrix(one, x)

    def lower(self, ctx: FunctionContext, x: Value, *, full_matrices: bool, pivoting: bool) -> list[Value]:
        q_aval, r_aval, *pivots_aval = ctx.out_avals
        if x.aval.size == 0:
            order = [ctx.iota(aval, aval.ndim - 1) for aval in pivots_aval]
            return [lower_eye(ctx, q_aval), ctx.constant(0, r_aval), *order]
        if pivoting and platform() != "cpu":
            rule = functools.partial(self.eager, full_matrices=full_matrices, pivoting=True)
            return lower_on_host(ctx, "qr with pivoting", rule, [x])
        m, n = x.aval.shape[-2:]
        factors, taus, *pivots = _lower_pivoting(ctx, x) if pivoting else _lower_reflections(ctx, x)
        r = lower_triangle(ctx, lower_slice(ctx, factors, *r_aval.shape[-2:]), "LE")
        vectors = lower_slice(ctx, factors, m, min_dim(m, n))
        vectors = _append_columns(ctx, vectors, q_aval.shape[-1] - min_dim(m, n))
        return [_lower_product(ctx, vectors, taus), r, *pivots]

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, full_matrices: bool, pivoting: bool
    ) -> tuple[list[Any], list[Any]]:
        """The columns stay where they are, so the factors are those of the matrix with its columns exchanged."""
        (x,), (t,) = primals, tangents
        q, r, *pivots = self.bind(x, full_matrices=full_matrices, pivoting=pivoting)
        pivots_dot = [Zero(aval_of(y).tangent()) for y in pivots]
        if type(t) is Zero:
            return [q, r, *pivots], [*[Zero(aval_of(y).tangent()) for y in (q, r)], *pivots_dot]
        if pivoting:
            t = transposed(take_rows(transposed(t), pivots[0]))
        return [q, r, *pivots], [*_qr_tangents(q, r, t), *pivots_dot]


def _pivots_aval(x: ShapedArray) -> ShapedArray:
    return with_matrix(x, x.shape[-1], dtype=INT32).strip_weak_type()


def _lower_pivoting(ctx: FunctionContext, x: Value) -> list[Value]:
    pivots_aval = _pivots_aval(x.aval)
    free = ctx.constant(0, pivots_aval)  # every column may be exchanged
    outs = [x.aval, pivots_aval, with_matrix(x.aval, min_dim(*x.aval.shape[-2:]))]
    factors, pivots, taus = lapack_call(ctx, "geqp3", [x, free], outs)
    return [factors, taus, ctx.op("subtract", [pivots, ctx.constant(1, pivots_aval)])]  # LAPACK counts from 1


def _qr_tangents(q: Any, r: Any, t: Any) -> list[Any]:
    """Tangents of the factors.

    With k = min(m, n) and C = Q^H A' R1^-1 for the leading k columns, Q' = Q W, where W is the skew-Hermitian matrix
    whose lower triangle is that of C, and R' = Q^H A' - W R. Columns of Q beyond k turn towards the first k by W, and
    among themselves as the reflections do, by `_turn_of_complement`.
    """
    ndim, (m, n), k_all = aval_of(q).ndim, aval_of(t).shape[-2:], aval_of(q).shape[-1]
    k = min_dim(m, n)
    moved = matmul(adjoint(q), t)
    r1 = slice_axis(slice_axis(r, 0, k, ndim - 2), 0, k, ndim - 1)
    c = triangular_solve(r1, slice_axis(moved, 0, k, ndim - 1))
    if may_exceed(k_all, k):
        c = pad(c, scalar_like(0, aval_of(c).dtype), ((0, 0, 0),) * (ndim - 1) + ((0, k_all - k, 0),))
    below = tril(c, -1)
    turn = sub(below, adjoint(below))
    if dtypes.is_complex(aval_of(c).dtype):
        turn = add(turn, sub(on_diagonal(c), real_diagonal(c)))
    fixed = k if dtypes.is_complex(aval_of(q).dtype) else k + 1  # one real column keeps its sign
    if may_exceed(k_all, fixed):
        complement = _turn_of_complement(q, matmul(q, turn), k)
        lows = ((0, 0, 0),) * (ndim - 2) + ((k, 0, 0),) * 2
        turn = add(turn, pad(complement, scalar_like(0, aval_of(c).dtype), lows))
    q_dot = matmul(q, turn)
    if may_exceed(m, k_all):  # n = k, where it does exceed; else q is square, and there is nothing outside
        outside = slice_axis(sub(t, matmul(q, moved)), 0, k, ndim - 1)
        q_dot = add(q_dot, triangular_solve(r1, outside))
    return [q_dot, triu(sub(moved, matmul(turn, r)))]


def _turn_of_complement(q: Any, q_dot: Any, k: int) -> Any:
    """X = Q2^H Q2', where Q2 are the columns of a complete Q beyond the first k, and `q_dot` is the tangent without X.

    A product of k reflections is I + (E - Q1) M E2^H, where Q1 are its first k columns, E and E2 those columns of I and
    the others, and (I - Q11)^H M = Q21^H for the upper and lower blocks of Q1. So X = Q12^H M' - Q2^H Q1' M. Where a
    column needs no reflection, the next one jumps, and X is 0.
    """
    ndim, n = aval_of(q).ndim, aval_of(q).shape[-1]

    def block(x: Any, upper: bool, left: bool) -> Any:
        rows = slice_axis(x, 0, k, ndim - 2) if upper else slice_axis(x, k, n, ndim - 2)
        return slice_axis(rows, 0, k, ndim - 1) if left else slice_axis(rows, k, n, ndim - 1)

    q11, q21, q12 = block(q, True, True), block(q, False, True), block(q, True, False)
    q1_dot, q2 = slice_axis(q_dot, 0, k, ndim - 1), slice_axis(q, k, n, ndim - 1)
    eye = identity(aval_of(q11))
    a = sub(eye, q11)
    smooth = gt(abs_(det(a)), 0.5)  # the product of the reflections' factors, each at least 1, or 0
    a = adjoint(where_matrix(smooth, a, eye))
    m = solve(a, adjoint(q21))
    m_dot = solve(a, add(adjoint(block(q_dot, False, True)), matmul(adjoint(block(q_dot, True, True)), m)))
    x = sub(matmul(adjoint(q12), m_dot), matmul(adjoint(q2), matmul(q1_dot, m)))
    return where_matrix(smooth, x, mul(x, 0))


class Geqrf(Factorization):
    """`[factors, taus]`: R with the vectors of the reflections below its diagonal, and the reflections' factors."""

    multiple_results = True
    holes = {
        "jvp": "it is the raw form of qr, which is differentiated as a whole",
        "transpose": NOT_LINEAR,
    }

    def type(self, x: ShapedArray) -> Sequence[ShapedArray]:
        check_matrices("geqrf", x)
        return [x, with_matrix(x, min_dim(*x.shape[-2:]))]

    def eager(self, x: Any) -> list[Any]:
        return by_matrix(lambda x: _reflections(x)[::2], x)

    def lower(self, ctx: FunctionContext, x: Value) -> list[Value]:
        return _lower_reflections(ctx, x) if x.aval.size else [x, ctx.constant(0, ctx.out_avals[1])]


def _reflections(x: Any) -> tuple[Any, list[Any], Any]:
    factors, taus, _, _ = routine("geqrf", x.dtype)(x)
    return factors, [], taus


def _pivoted(x: Any) -> tuple[Any, list[Any], Any]:
    factors, pivots, taus, _, _ = routine("geqp3", x.dtype)(x)
    return factors, [pivots - INT32.type(1)], taus  # LAPACK counts from 1


def _lower_reflections(ctx: FunctionContext, x: Value) -> list[Value]:
    call, name = (lapack_call, "geqrf") if platform() == "cpu" else (cuda_call, "cusolver_geqrf_ffi")
    return call(ctx, name, [x], [x.aval, with_matrix(x.aval, min_dim(*x.aval.shape[-2:]))])


class HouseholderProduct(Factorization):
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

    def eager(self, a: Any, taus: Any) -> Any:
        return by_matrix(lambda a, taus: [_product(a, taus)], a, taus)[0]

    def lower(self, ctx: FunctionContext, a: Value, taus: Value) -> Value:
        return lower_eye(ctx, a.aval) if 0 in (a.aval.size, taus.aval.size) else _lower_product(ctx, a, taus)


def _product(a: Any, taus: Any) -> Any:
    return routine(_product_routine(a.dtype), a.dtype)(a, taus)[0]


def _product_routine(dtype: np.dtype[Any]) -> str:
    return "ungqr" if dtypes.is_complex(dtype) else "orgqr"


def _lower_product(ctx: FunctionContext, a: Value, taus: Value) -> Value:
    if platform() != "cpu":
        return cuda_call(ctx, "cusolver_orgqr_ffi", [a, taus], [a.aval])[0]
    return lapack_call(ctx, _product_routine(a.aval.dtype), [a, taus], [a.aval])[0]


class Ormqr(MatrixPrimitive):
    """Q c or c Q (or with Q^H), for the product Q of the reflections that `a` and `taus` hold."""

    holes = {
        "jvp": "qr, which is made of it, is differentiated as a whole",
        "transpose": NOT_LINEAR,
    }

    def type(
        self, a: ShapedArray, taus: ShapedArray, c: ShapedArray, *, left: bool, transpose: bool
    ) -> ShapedArray:
        check_matrices("ormqr", a, "a")
        check_matrices("ormqr", c, "c")
        facts = f"a: {a}", f"taus: {taus}", f"c: {c}"
        if a.dtype != taus.dtype or a.dtype != c.dtype:
            fix = "Cast them to one (x.astype)."
            raise TypeError(message("ormqr takes arrays of one dtype.", *facts, fix=fix))
        fits = (
            a.ndim == c.ndim and a.shape[:-2] == c.shape[:-2] == taus.shape[:-1] and taus.ndim == a.ndim - 1
        )
        if not fits or taus.shape[-1] > min_dim(*a.shape[-2:]) or c.shape[-2 if left else -1] != a.shape[-2]:
            raise ValueError(
                message(
                    "ormqr takes reflections of the height of `a`, and a matrix that Q fits.",
                    *facts,
                    f"left: {left}",
                    fix="Pass c with as many rows (left=True) or columns (left=False) as a has rows, "
                    "and no more taus than a has columns.",
                )
            )
        return c

    def lower(
        self, ctx: FunctionContext, a: Value, taus: Value, c: Value, *, left: bool, transpose: bool
    ) -> Value:
        if 0 in (a.aval.size, taus.aval.size, c.aval.size):
            return c
        a = lower_slice(ctx, a, a.aval.shape[-2], taus.aval.shape[-1])
        call, routine = lapack_call, "unmqr" if dtypes.is_complex(a.aval.dtype) else "ormqr"
        if platform() != "cpu":
            call, routine = cuda_call, "cusolver_ormqr_ffi"
        return call(ctx, routine, [a, taus, c], [c.aval], left=left, transpose=transpose)[0]


def _append_columns(ctx: FunctionContext, x: Value, count: int) -> Value:
    """`x` with that many columns of zeros."""
    if not count:
        return x
    config = [*[(0, 0, 0)] * (x.aval.ndim - 1), (0, count, 0)]
    return ctx.pad(x, ctx.scalar(0, x.aval.dtype), config)


qr_p = QR("qr")
geqrf_p = Geqrf("geqrf")
householder_product_p = HouseholderProduct("householder_product")
ormqr_p = Ormqr("ormqr")


def qr(x: Any, full_matrices: bool = True) -> tuple[Any, Any]:
    """The factors, q complete or with as many columns as r has rows."""
    q, r = qr_p.bind(x, full_matrices=full_matrices, pivoting=False)
    return q, r


def qr_pivoting(x: Any, full_matrices: bool = True) -> tuple[Any, Any, Any]:
    """The factors of the matrix with its columns exchanged, and the order of the columns."""
    q, r, pivots = qr_p.bind(x, full_matrices=full_matrices, pivoting=True)
    return q, r, pivots


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Any:
    """A matrix times a product of reflections."""
    return ormqr_p.bind(a, taus, c, left=left, transpose=transpose)


def geqrf(x: Any) -> tuple[Any, Any]:
    """R with the vectors of the reflections below its diagonal, and the reflections' factors."""
    factors, taus = geqrf_p.bind(x)
    return factors, taus


def householder_product(a: Any, taus: Any) -> Any:
    """The first columns of the product of the reflections."""
    return householder_product_p.bind(a, taus)
