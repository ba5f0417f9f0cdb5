"""Factors of matrices: singular values, QR, eigenvalues of Hermitian ones, Schur and Hessenberg forms, polar factors.

Read next: `_matrix_functions.py`.
"""

from __future__ import annotations

from typing import Any

import didax.numpy as dnp
from didax.api.custom import custom_jvp
from didax.api.numpy_functions import computed_by
from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.errors import ArgumentError, check_choice, message
from didax.core.value import Array
from didax.lax import linalg as lax_linalg
from didax.lax.loops import fori_loop
from didax.numpy import linalg
from didax.numpy.linalg_operands import matrices, square_matrices
from didax.numpy.promotion import ArrayLike, broadcast, broadcast_shapes, promote_dtypes
from didax.primitives.linalg import matrix, similarity
from didax.primitives.linalg import qr as qr_
from didax.scipy._lists import takes_lists
from didax.scipy.linalg import _by_numpy
from didax.scipy.linalg._systems import sylvester


@array_function
@takes_lists(1)
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Return `(u, s, vh)` with `u @ diag(s) @ vh = a`; s descends. Without `compute_uv` return s.

    u and vh are square; without `full_matrices` they have min(m, n) columns and rows.

    >>> from didax.scipy import linalg
    >>> linalg.svd(dnp.array([[3, 0], [0, 4]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    found = linalg.svd(a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


@evaluated_whole
@array_function
@takes_lists(1)
def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """Return `(q, r)` with `q @ r = a`, with `pivoting` `(q, r, p)` with `q @ r = a[:, p]`.

    q has orthonormal columns: m of them in mode "full", min(m, n) in mode "economic". In mode "r" the result has no q.

    >>> from didax.scipy import linalg
    >>> [x.shape for x in linalg.qr(dnp.ones((3, 2)), mode="economic", pivoting=True)]
    [(3, 2), (2, 2), (2,)]
    """
    check_choice("qr", "mode", mode, "full", "r", "economic")
    q, *rest = lax_linalg.qr(matrices("qr", a), pivoting=pivoting, full_matrices=mode != "economic")
    return tuple(rest) if mode == "r" else (q, *rest)


@array_function
def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """Return `(c @ q, r)`, or `(q @ c, r)` in mode "left", for the reduced factors of `a`; with `pivoting` also `p`.

    q has shape (..., m, k) with k = min(m, n). A vector `c` counts as a row ("right") or a column ("left"). With
    `conjugate` the conjugate of q takes its place.

    >>> from didax.scipy import linalg
    >>> [x.shape for x in linalg.qr_multiply(dnp.ones((3, 2)), dnp.ones((5, 3)))]
    [(5, 2), (2, 2)]
    """
    check_choice("qr_multiply", "mode", mode, "left", "right")
    x, y = [dnp.asarray(v) for v in promote_dtypes("qr_multiply", a, c, to_inexact=True)]
    matrix.check_matrices("qr_multiply", x.aval, "a")
    q, *rest = lax_linalg.qr(x.astype(x.dtype), pivoting=pivoting, full_matrices=False)
    q, y = dnp.conj(q) if conjugate else q, y.astype(y.dtype)
    rows = y.shape[-1] if mode == "right" or y.ndim == 1 else y.shape[-2]
    if y.ndim == 0 or rows != q.shape[-2 if mode == "right" else -1]:
        raise ArgumentError(
            message(
                "qr_multiply takes a matrix that fits q.",
                f"q: {q.aval}, c: {y.aval}, mode: {mode!r}",
                fix="Pass c with as many columns as q has rows (right), or as many rows as q has columns (left).",
            )
        )
    return dnp.matmul(y, q) if mode == "right" else dnp.matmul(q, y), *rest


# --- Eigenvalues --------------------------------------------------------------------------------------------


@evaluated_whole
@array_function
@takes_lists(2)
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: tuple[int, int] | None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Return the ascending eigenvalues of Hermitian matrices and the eigenvectors as columns, or the eigenvalues only.

    Of `a` the triangle that `lower` names is read. With a positive definite `b` they solve `a v = w b v` (`type` 1),
    `a b v = w v` (2) or `b a v = w v` (3), and the vectors satisfy `v^H b v = 1` (`v^H b^-1 v = 1` for type 3).
    `eigvals=(i, j)` asks for the eigenvalues i to j, both included.

    >>> from didax.scipy import linalg
    >>> linalg.eigh(dnp.array([[2, 0], [0, 1]]), eigvals_only=True)
    Array([1., 2.], dtype=float32)
    """
    x = square_matrices("eigh", a)
    if b is None:
        if type != 1:
            rule = "eigh of one matrix solves a v = w v."
            raise ArgumentError(message(rule, f"type: {type!r}", fix="Pass b too, or leave type out."))
        v, w = lax_linalg.eigh(x, lower=lower, symmetrize_input=False)
    else:
        v, w = _generalized(x, b, lower, type)
    if eigvals is not None:
        first, last = eigvals
        if not 0 <= first <= last < w.shape[-1]:
            fix = f"Choose 0 <= i <= j < {w.shape[-1]}."
            raise ArgumentError(
                message("eigvals of eigh is a range of positions.", f"eigvals: {eigvals}", fix=fix)
            )
        v, w = v[..., first : last + 1], w[..., first : last + 1]
    return w if eigvals_only else (w, v)


def _generalized(a: Any, b: Any, lower: bool, kind: Any) -> tuple[Any, Any]:
    """With b = L L^H, type 1 is the problem of L^-1 a L^-H, and types 2 and 3 are that of L^H a L."""
    if kind not in (1, 2, 3):
        fix = "Use 1, 2 or 3."
        raise ArgumentError(message("eigh knows three problems of two matrices.", f"type: {kind!r}", fix=fix))
    x, y = [dnp.asarray(v) for v in promote_dtypes("eigh", a, b, to_inexact=True)]
    matrix.check_square("eigh", y.aval, "b")
    batch = broadcast_shapes("eigh", [x.shape[:-2], y.shape[:-2]])
    x, y = [matrix.from_triangle(broadcast(v, batch + v.shape[-2:]), lower) for v in (x, y)]
    factor = lax_linalg.cholesky(y)
    turn = {"transpose_a": True, "conjugate_a": True}
    if kind == 1:
        half = lax_linalg.triangular_solve(factor, x, left_side=True, lower=True)
        x = lax_linalg.triangular_solve(factor, half, lower=True, **turn)
    else:
        x = matrix.matmul(matrix.matmul(matrix.adjoint(factor), x), factor)
    v, w = lax_linalg.eigh(x)
    if kind == 3:
        return matrix.matmul(factor, v), w
    return lax_linalg.triangular_solve(factor, v, left_side=True, lower=True, **turn), w


@evaluated_whole
@array_function
@takes_lists(2)
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Any:
    """Return the ascending eigenvalues of Hermitian tridiagonal matrices and the eigenvectors, or the eigenvalues only.

    `d` of shape (..., n) is the real diagonal and `e` of shape (..., n - 1) the one below it. `select="i"` with
    `select_range=(i, j)` asks for the eigenvalues i to j, both included. The matrices are solved as dense ones; `tol`
    and `key`, which choose how close and from where an iteration goes, are accepted.

    >>> from didax.scipy import linalg
    >>> linalg.eigh_tridiagonal(dnp.array([2.0, 1.0]), dnp.array([0.0]), eigvals_only=True)
    Array([1., 2.], dtype=float32)
    """
    check_choice("eigh_tridiagonal", "select", select, "a", "i")
    x, y = [dnp.asarray(v) for v in promote_dtypes("eigh_tridiagonal", d, e, to_inexact=True)]
    if not x.ndim or not y.ndim or y.shape[-1] != max(x.shape[-1] - 1, 0):
        raise ArgumentError(
            message(
                "eigh_tridiagonal takes a diagonal and one that is shorter by 1.",
                f"d: {x.aval}, e: {y.aval}",
                fix="Pass d of shape (..., n) and e of shape (..., n - 1).",
            )
        )
    batch = broadcast_shapes("eigh_tridiagonal", [x.shape[:-1], y.shape[:-1]])
    x, y = broadcast(x, batch + x.shape[-1:]), broadcast(y, batch + y.shape[-1:])
    n = x.shape[-1]
    beside = dnp.concatenate([y, dnp.zeros((*batch, n - y.shape[-1]), y.dtype)], -1)
    below = dnp.arange(n)[:, None] == dnp.arange(n) + 1
    dense = dnp.where(below, beside[..., None, :], matrix.on_diagonal(matrix.as_rows(x, n)))
    if select == "i" and select_range is None:
        raise ArgumentError(
            message("select='i' needs a range of positions.", "select_range: None", fix="Pass (i, j).")
        )
    chosen = None if select_range is None or select == "a" else (int(select_range[0]), int(select_range[1]))
    return eigh(dense, lower=True, eigvals_only=eigvals_only, eigvals=chosen)


# --- Forms under unitary similarity -------------------------------------------------------------------------


@evaluated_whole
@array_function
def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """Return `(t, z)` with `z @ t @ z^H = a` for square matrices, on the CPU: z is unitary, t upper triangular.

    For real matrices t is real and has blocks of two rows where eigenvalues are complex; with `output="complex"` it is
    triangular and complex.

    >>> from didax.scipy import linalg
    >>> t, z = linalg.schur(dnp.array([[0.0, 1.0], [-1.0, 0.0]]), output="complex")
    >>> dnp.allclose(abs(t), dnp.eye(2), atol=1e-6)
    Array(True, dtype=bool)
    """
    check_choice("schur", "output", output, "real", "complex")
    x = square_matrices("schur", a)
    t, z = similarity.schur(x.astype(dtypes.complex_dtype(x.dtype)) if output == "complex" else x)
    return t, z


@evaluated_whole
@array_function
@takes_lists(2)
def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """Return the complex Schur form `(t, z)` of a real one; batch axes broadcast.

    Rotations of two rows and columns, from the last to the first, make the blocks triangular.

    >>> from didax.scipy import linalg
    >>> t, z = linalg.rsf2csf(*linalg.schur(dnp.array([[0.0, 1.0], [-1.0, 0.0]])))
    >>> abs(t[1, 0]) == 0
    Array(True, dtype=bool)
    """
    t, z = [dnp.asarray(x) for x in promote_dtypes("rsf2csf", T, Z, to_inexact=True)]
    matrix.check_square("rsf2csf", t.aval, "T")
    matrix.check_square("rsf2csf", z.aval, "Z")
    batch = broadcast_shapes("rsf2csf", [t.shape, z.shape])
    dtype = dtypes.complex_dtype(t.dtype)
    t, z = [broadcast(x, batch).astype(dtype) for x in (t, z)]
    n, eps = t.shape[-1], float(dtypes.finfo(t.dtype).eps)
    if n < 2:
        return t, z

    def step(i: Any, state: Any) -> Any:
        t, z = state
        m = n - 1 - i
        block = _pair(_pair(t, m, -2), m, -1)
        below, sizes = block[..., 1, 0], abs(block[..., 0, 0]) + abs(block[..., 1, 1])
        turn = _rotation(block, abs(below) > eps * sizes)
        back = matrix.adjoint(turn)
        t = _with_pair(t, m, -2, matrix.matmul(turn, _pair(t, m, -2)))
        t = _with_pair(t, m, -1, matrix.matmul(_pair(t, m, -1), back))
        return t.at[..., m, m - 1].set(0), _with_pair(z, m, -1, matrix.matmul(_pair(z, m, -1), back))

    t, z = fori_loop(0, n - 1, step, (t, z))
    return matrix.triu(t), z


def _pair(x: Any, m: Any, axis: int) -> Any:
    """Rows (or columns) m - 1 and m."""
    return dnp.take(x, dnp.stack([m - 1, m]), axis=axis)


def _with_pair(x: Any, m: Any, axis: int, new: Any) -> Any:
    where = dnp.stack([m - 1, m])
    return x.at[..., where, :].set(new) if axis == -2 else x.at[..., where].set(new)


def _rotation(block: Any, needed: Any) -> Any:
    """The unitary matrix that makes a block of two rows triangular, or that changes nothing."""
    a, b, c, d = block[..., 0, 0], block[..., 0, 1], block[..., 1, 0], block[..., 1, 1]
    half = (a - d) / 2
    mu = half + dnp.sqrt(half**2 + b * c)  # an eigenvalue of the block, less d
    length = dnp.hypot(abs(mu), abs(c))
    length = dnp.where(length == 0, 1, length)
    cos, sin = dnp.where(needed, mu / length, 1), dnp.where(needed, c / length, 0)
    return dnp.stack([dnp.stack([dnp.conj(cos), sin], -1), dnp.stack([-sin, cos], -1)], -2)


@evaluated_whole
@array_function
def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """Return the Hessenberg form h of square matrices, on the CPU; with `calc_q` `(h, q)` with `q @ h @ q^H = a`.

    h is zero below its first subdiagonal and q is unitary.

    >>> from didax.scipy import linalg
    >>> h, q = linalg.hessenberg(dnp.arange(9.0).reshape(3, 3), calc_q=True)
    >>> dnp.allclose(q @ h @ q.T, dnp.arange(9.0).reshape(3, 3), atol=1e-5)
    Array(True, dtype=bool)
    """
    x = square_matrices("hessenberg", a)
    n = x.shape[-1]
    if n == 0:
        return (x, x) if calc_q else x
    packed, taus = similarity.hessenberg(x)
    h = matrix.triu(packed, -1)
    if not calc_q:
        return h
    q = dnp.broadcast_to(dnp.eye(n, dtype=x.dtype), x.shape)
    inner = qr_.householder_product(packed[..., 1:, :-1], taus)
    return h, q.at[..., 1:, 1:].set(inner)


# --- Polar factors ------------------------------------------------------------------------------------------


@evaluated_whole
@array_function
@takes_lists(1)
def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """Return `(u, p)` with `a = u @ p` or (`side="left"`) `a = p @ u`.

    p is Hermitian without negative eigenvalues; u has orthonormal columns, or rows where it is wide. Both methods,
    "qdwh" (see `lax.linalg.qdwh`) and "svd", take matrices of every shape. Derivatives, of every order, are those of
    matrices of full rank.

    >>> from didax.scipy import linalg
    >>> linalg.polar(dnp.array([[0.0, 2.0], [1.0, 0.0]]), method="svd")[1]
    Array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    check_choice("polar", "side", side, "right", "left")
    check_choice("polar", "method", method, "qdwh", "svd")
    x = matrices("polar", a)
    rows, columns = x.shape[-2:]
    if side == "left":  # x^H = u^H p
        u, p = _right_polar(matrix.adjoint(x), method, eps, max_iterations, rows <= columns)
        return matrix.adjoint(u), p
    return _right_polar(x, method, eps, max_iterations, rows >= columns)


def _right_polar(x: Any, method: str, eps: Any, most: Any, tall: bool) -> tuple[Any, Any]:
    if tall:
        return _tall_polar(x, method=method, eps=eps, most=most)
    u, p = _tall_polar(matrix.adjoint(x), method=method, eps=eps, most=most)  # x = p u^H = u^H (u p u^H)
    rows = matrix.adjoint(u)
    return rows, matrix.hermitian_part(matrix.matmul(matrix.matmul(u, p), rows))


@computed_by(_by_numpy.polar_factors, _by_numpy.are_short)
def _tall_polar(x: Any, *, method: str, eps: Any, most: Any) -> tuple[Any, Any]:
    return polar_factors(x, method, eps, most)


def _polar_factors(x: Any, method: str, eps: Any, most: Any) -> tuple[Any, Any]:
    """The factors of matrices with at least as many rows as columns."""
    if method == "qdwh":
        u, p, _, _ = lax_linalg.qdwh(x, eps=eps, max_iterations=most)
        return u, p
    w, s, vh = lax_linalg.svd(x, full_matrices=False)
    v = matrix.adjoint(vh)
    return matrix.matmul(w, vh), matrix.hermitian_part(matrix.matmul(matrix.scale_columns(v, s), vh))


polar_factors = custom_jvp(_polar_factors, nondiff_argnums=(1, 2, 3))


@polar_factors.defjvp
def _polar_jvp(method: str, eps: Any, most: Any, primals: Any, tangents: Any) -> Any:
    """U' = U W + (1 - U U^H) A' P^-1, where W is skew-Hermitian and P W + W P = U^H A' - A'^H U."""
    (x,), (x_dot,) = primals, tangents
    u, p = polar_factors(x, method, eps, most)
    moved = matrix.matmul(matrix.adjoint(u), x_dot)
    turn = sylvester(p, p, moved - matrix.adjoint(moved), _by_eigh)
    u_dot = matrix.matmul(u, turn)
    if x.shape[-2] > x.shape[-1]:
        outside = x_dot - matrix.matmul(u, moved)
        u_dot = u_dot + matrix.adjoint(linalg.solve(p, matrix.adjoint(outside)))
    return (u, p), (u_dot, matrix.hermitian_part(moved - matrix.matmul(turn, p)))


def _by_eigh(p: Any, _: Any, c: Any) -> Any:
    """The X with p X + X p = c, for a positive definite p."""
    v, w = lax_linalg.eigh(p)
    inside = matrix.matmul(matrix.matmul(matrix.adjoint(v), c), v)
    inside = inside / (w[..., :, None] + w[..., None, :]).astype(inside.dtype)
    return matrix.matmul(matrix.matmul(v, inside), matrix.adjoint(v))
