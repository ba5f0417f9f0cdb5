"""Systems of linear equations, by factors that are kept (`lu_factor`, `cho_factor`) or at once; Sylvester's equation.

Right-hand sides of one axis are vectors, all others are matrices. A singular matrix gives infinities or NaN.
Read next: `_factors.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import didax.numpy as dnp
from didax.api.numpy_functions import computed_by
from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import config, dtypes
from didax.core.dims import min_dim
from didax.core.errors import ArgumentError, check_choice, message
from didax.core.value import Array
from didax.lax import linalg as lax_linalg
from didax.lax.loops import fori_loop
from didax.lax.solvers import custom_linear_solve
from didax.numpy import linalg
from didax.numpy.linalg_operands import matrices, square_matrices
from didax.numpy.promotion import ArrayLike, broadcast, broadcast_shapes, promote_dtypes
from didax.primitives.linalg import matrix
from didax.primitives.linalg.lu import lu_pivots_to_permutation, take_rows
from didax.primitives.linalg.similarity import schur
from didax.primitives.narrow import halves_in_float32
from didax.scipy._lists import of_list, takes_lists
from didax.scipy.linalg import _by_numpy

# --- Cholesky factors ---------------------------------------------------------------------------------------


@evaluated_whole
@array_function
@takes_lists(1)
def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """Return the upper triangular U with `U^H @ U = a`, or (`lower`) L with `L @ L^H = a`; NaN where there is none.

    `a` is first replaced by `(a + a^H) / 2`.

    >>> from didax.scipy import linalg
    >>> linalg.cholesky(dnp.array([[4, 2], [2, 5]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    return linalg.cholesky(square_matrices("cholesky", a), upper=not lower)


@array_function
@takes_lists(1)
def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """Return a Cholesky factor, and whether it is the lower one, for `cho_solve`.

    >>> from didax.scipy import linalg
    >>> linalg.cho_factor(dnp.array([[4.0]]))
    (Array([[2.]], dtype=float32), False)
    """
    return _cho_factor(a, lower), lower


@evaluated_whole
def _cho_factor(a: ArrayLike, lower: bool) -> Array:
    return linalg.cholesky(square_matrices("cho_factor", a), upper=not lower)


@array_function
@takes_lists(2)
def cho_solve(
    c_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    """Return the x with `a @ x = b`, for the Cholesky factor of `a` that `cho_factor` gave.

    >>> from didax.scipy import linalg
    >>> linalg.cho_solve(linalg.cho_factor(dnp.array([[4.0]])), dnp.array([8.0]))
    Array([2.], dtype=float32)
    """
    factor, lower = c_and_lower
    return _cho_solve(of_list(factor), b, bool(lower))


@evaluated_whole
@halves_in_float32
def _cho_solve(factor: Any, b: Any, lower: bool) -> Any:
    def solve(c: Any, b: Any) -> Any:
        first = _triangular(c, b, lower=lower, adjoint=not lower)
        return _triangular(c, first, lower=lower, adjoint=lower)

    return _solved("cho_solve", factor, b, solve)


# --- LU factors ---------------------------------------------------------------------------------------------


@evaluated_whole
@array_function
@takes_lists(1)
def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """Return the factors L and U in one array, and the exchanges of rows, for `lu_solve`.

    >>> from didax.scipy import linalg
    >>> linalg.lu_factor(dnp.array([[1.0, 2.0], [2.0, 8.0]]))[1]
    Array([1, 1], dtype=int32)
    """
    factors, pivots, _ = lax_linalg.lu(matrices("lu_factor", a))
    return factors, pivots


@array_function
def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Return the x with `op(a) @ x = b`, for the factors of `a` that `lu_factor` gave.

    `op(a)` is a, its transpose (`trans=1`) or its conjugate transpose (`trans=2`).

    >>> from didax.scipy import linalg
    >>> linalg.lu_solve(linalg.lu_factor(dnp.array([[1.0, 2.0], [0.0, 4.0]])), dnp.array([4.0, 8.0]))
    Array([0., 2.], dtype=float32)
    """
    factors, pivots = lu_and_piv
    return _lu_solve(factors, pivots, b, _trans("lu_solve", trans))


@evaluated_whole
@halves_in_float32
def _lu_solve(factors: Any, pivots: Any, b: Any, kind: int) -> Any:
    exchanges = dnp.asarray(pivots)

    def solve(lu: Any, b: Any) -> Any:
        rows = lu.shape[-1]
        order = lu_pivots_to_permutation(broadcast(exchanges, (*lu.shape[:-2], exchanges.shape[-1])), rows)
        if not kind:
            y = _triangular(lu, take_rows(b, order), lower=True, unit=True)
            return _triangular(lu, y, lower=False)
        y = _triangular(lu, b, lower=False, transpose=True, conjugate=kind == 2)
        y = _triangular(lu, y, lower=True, unit=True, transpose=True, conjugate=kind == 2)
        return take_rows(y, dnp.argsort(order, axis=-1))

    return _solved("lu_solve", factors, b, solve)


@evaluated_whole
@array_function
@takes_lists(1)
def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, ...]:
    """Return `(p, l, u)` with `p @ l @ u = a`, or with `permute_l` `(p @ l, u)`.

    p is a permutation of rows, l lower triangular with ones on its diagonal, u upper triangular.

    >>> from didax.scipy import linalg
    >>> linalg.lu(dnp.array([[1.0, 2.0], [2.0, 8.0]]), permute_l=True)
    (Array([[0.5, 1. ],
           [1. , 0. ]], dtype=float32), Array([[ 2.,  8.],
           [ 0., -2.]], dtype=float32))
    """
    factors, _, order = lax_linalg.lu(matrices("lu", a))
    rows, columns = factors.shape[-2:]
    k = min_dim(rows, columns)
    lower = matrix.tril(factors[..., :k], -1) + dnp.eye(rows, k, dtype=factors.dtype)
    upper = matrix.triu(factors[..., :k, :])
    if permute_l:
        return take_rows(lower, dnp.argsort(order, axis=-1)), upper
    numbers = dnp.arange(rows, dtype=order.dtype)
    permutation = (order[..., None, :] == numbers[:, None]).astype(dtypes.real_dtype(factors.dtype))
    return permutation, lower, upper


# --- Systems ------------------------------------------------------------------------------------------------


@array_function
def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return the determinants of square matrices.

    >>> from didax.scipy import linalg
    >>> float(linalg.det(dnp.array([[2.0, 0.0], [0.0, 3.0]])))
    6.0
    """
    return linalg.det(a)


@array_function
def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return the inverses of square matrices.

    >>> from didax.scipy import linalg
    >>> linalg.inv(dnp.array([[2.0]]))
    Array([[0.5]], dtype=float32)
    """
    return linalg.inv(a)


@array_function
def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """Return the x with `a @ x = b`.

    `assume_a="pos"` promises Hermitian positive definite matrices, of which the triangle that `lower` names is read;
    "sym" and "her" promise symmetric and Hermitian ones, and "gen" nothing.

    >>> from didax.scipy import linalg
    >>> linalg.solve(dnp.array([[4.0, 0.0], [0.0, 16.0]]), dnp.array([4.0, 16.0]), assume_a="pos")
    Array([1., 1.], dtype=float32)
    """
    check_choice("solve", "assume_a", assume_a, "gen", "sym", "her", "pos")
    if assume_a != "pos":
        return linalg.solve(a, b)

    def by_cholesky(a: Any, b: Any) -> Any:
        whole = a if lower else matrix.adjoint(a)
        factor = lax_linalg.cholesky(whole, symmetrize_input=False)
        return _cho_solve(factor, b, True)

    return _solved("solve", a, b, by_cholesky)


@evaluated_whole
@array_function
@takes_lists(2)
@halves_in_float32
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """Return the x with `op(a) @ x = b` for triangular matrices, of which the triangle that `lower` names is read.

    `op(a)` is a, its transpose (`trans` 1 or "T") or its conjugate transpose (2 or "C"). With `unit_diagonal` the
    diagonal counts as ones.

    >>> from didax.scipy import linalg
    >>> linalg.solve_triangular(dnp.array([[2.0, 0.0], [1.0, 4.0]]), dnp.array([2.0, 9.0]), lower=True)
    Array([1., 2.], dtype=float32)
    """
    kind = _trans("solve_triangular", trans)

    def by_substitution(a: Any, b: Any) -> Any:
        return _triangular(
            a, b, lower=bool(lower), unit=bool(unit_diagonal), transpose=kind > 0, conjugate=kind == 2
        )

    return _solved("solve_triangular", a, b, by_substitution)


def _trans(name: str, trans: Any) -> int:
    """0, 1 or 2 for a matrix, its transpose or its conjugate transpose."""
    kinds = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in kinds:
        fix = "Use 0 ('N'), 1 ('T') or 2 ('C')."
        raise ArgumentError(message(f"{name} takes three values of trans.", f"trans: {trans!r}", fix=fix))
    return kinds[trans]


def _triangular(
    a: Any,
    b: Any,
    *,
    lower: bool,
    unit: bool = False,
    transpose: bool = False,
    conjugate: bool = False,
    adjoint: bool = False,
) -> Any:
    return lax_linalg.triangular_solve(
        a, b, left_side=True, lower=lower, unit_diagonal=unit, transpose_a=transpose or adjoint,
        conjugate_a=conjugate or adjoint,
    )  # fmt: skip


def _solved(name: str, a: Any, b: Any, solve: Callable[[Any, Any], Any]) -> Any:
    """`solve` applied to square matrices and columns of one dtype with equal batch axes."""
    left, right = [dnp.asarray(x) for x in promote_dtypes(name, a, b, to_inexact=True)]
    left, right = left.astype(left.dtype), right.astype(right.dtype)  # strongly typed
    matrix.check_square(name, left.aval, "a")
    if config.state().as_in_jax and name != "solve" and 1 < right.ndim == left.ndim - 1:
        return _solved(name, left, right[..., None], solve)[..., 0]  # JAX takes these for batched vectors
    if right.ndim == 0 or right.shape[-2 if right.ndim > 1 else -1] != left.shape[-1]:
        raise ArgumentError(
            message(
                f"{name} takes a right-hand side with as many rows as the matrix: a vector, or matrices.",
                f"matrix: {left.aval}, b: {right.aval}",
                fix="Pass b of shape (n,) or (..., n, k); give batched vectors an axis (b[..., None]).",
            )
        )
    columns = right if right.ndim > 1 else right[:, None]
    batch = broadcast_shapes(name, [left.shape[:-2], columns.shape[:-2]])
    out = solve(broadcast(left, batch + left.shape[-2:]), broadcast(columns, batch + columns.shape[-2:]))
    return out if right.ndim > 1 else out[..., 0]


# --- Sylvester's equation -----------------------------------------------------------------------------------


@evaluated_whole
@array_function
@takes_lists(3)
def solve_sylvester(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8
) -> Array:
    """Return the X with `A @ X + X @ B = C`, for A of shape (..., m, m), B (..., n, n) and C (..., m, n).

    There is one solution if no eigenvalue of A is the negative of one of B; NaN where a sum of eigenvalues is smaller
    than `tol` in absolute value. The method "schur" (on the CPU) is that of Bartels and Stewart (Comm. ACM 15, 1972);
    "eigen" needs matrices with well conditioned eigenvectors.

    >>> from didax.scipy import linalg
    >>> linalg.solve_sylvester(dnp.array([[1.0]]), dnp.array([[2.0]]), dnp.array([[6.0]]))
    Array([[2.]], dtype=float32)
    """
    check_choice("solve_sylvester", "method", method, "schur", "eigen")
    operands = [dnp.asarray(x) for x in promote_dtypes("solve_sylvester", A, B, C, to_inexact=True)]
    a, b, c = [x.astype(x.dtype) for x in operands]
    matrix.check_square("solve_sylvester", a.aval, "A")
    matrix.check_square("solve_sylvester", b.aval, "B")
    if c.ndim < 2 or c.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ArgumentError(
            message(
                "solve_sylvester takes a C with the rows of A and the columns of B.",
                f"A: {a.aval}, B: {b.aval}, C: {c.aval}",
                fix="Pass C of shape (..., m, n).",
            )
        )
    batch = broadcast_shapes("solve_sylvester", [x.shape[:-2] for x in (a, b, c)])
    a, b, c = [broadcast(x, batch + x.shape[-2:]) for x in (a, b, c)]
    if method == "schur":
        return _solution_by_schur(a, b, c, tol=float(tol))
    return sylvester(a, b, c, lambda a, b, c: by_eigenvectors(a, b, c, float(tol)))


@computed_by(_by_numpy.sylvester, _by_numpy.are_short)
def _solution_by_schur(a: Any, b: Any, c: Any, *, tol: float) -> Any:
    return sylvester(a, b, c, lambda a, b, c: by_schur(a, b, c, tol))


def sylvester(a: Any, b: Any, c: Any, solve: Callable[[Any, Any, Any], Any]) -> Any:
    """The X with `a @ X + X @ b = c` that `solve` finds, with derivatives of every order.

    The transpose of the map X -> a X + X b is the map of the transposed matrices.
    """

    def transposed(_: Any, ct: Any) -> Any:
        return solve(matrix.transposed(a), matrix.transposed(b), ct)

    return custom_linear_solve(
        lambda x: matrix.matmul(a, x) + matrix.matmul(x, b), c, lambda _, c: solve(a, b, c), transposed
    )


def by_schur(a: Any, b: Any, c: Any, tol: float = 0.0) -> Any:
    """The solution by the method of Bartels and Stewart, of real or complex matrices."""
    dtype = dtypes.complex_dtype(c.dtype)
    x = _by_schur(a.astype(dtype), b.astype(dtype), c.astype(dtype), tol)
    return x if dtypes.is_complex(c.dtype) else x.real


def by_eigenvectors(a: Any, b: Any, c: Any, tol: float = 0.0) -> Any:
    """The solution by the eigenvectors of both matrices."""
    x = _by_eigenvectors(a, b, c.astype(dtypes.complex_dtype(c.dtype)), tol)
    return x if dtypes.is_complex(c.dtype) else x.real


def _by_schur(a: Any, b: Any, c: Any, tol: float) -> Any:
    """With A = U R U^H and B = V S V^H, R Y + Y S = U^H C V is solved column by column, and X = U Y V^H."""
    (r, u), (s, v) = schur(a), schur(b)
    f = matrix.matmul(matrix.matmul(matrix.adjoint(u), c), v)
    y = triangular_sylvester(r, s, f)
    x = matrix.matmul(matrix.matmul(u, y), matrix.adjoint(v))
    return _unless_singular(matrix.diagonal(r), matrix.diagonal(s), x, tol)


def triangular_sylvester(r: Any, s: Any, f: Any) -> Any:
    """The Y with `r @ Y + Y @ s = f` for upper triangular matrices: column k needs the ones before it."""
    if not f.size:
        return f
    identity = dnp.eye(r.shape[-1], dtype=r.dtype)

    def column(k: Any, y: Any) -> Any:
        known = (y @ dnp.take(s, k, axis=-1)[..., None])[..., 0]  # the columns of y from k on are still zero
        shift = dnp.take(dnp.take(s, k, axis=-1), k, axis=-1)[..., None, None]
        new = _triangular(r + shift * identity, (dnp.take(f, k, axis=-1) - known)[..., None], lower=False)
        return dnp.where(dnp.arange(f.shape[-1]) == k, new, y)

    return fori_loop(0, f.shape[-1], column, dnp.zeros_like(f))


def _by_eigenvectors(a: Any, b: Any, c: Any, tol: float) -> Any:
    (w, u), (z, v) = linalg.eig(a), linalg.eig(b)
    f = linalg.solve(u, matrix.matmul(c, v))
    y = f / (w[..., :, None] + z[..., None, :])
    x = matrix.transposed(linalg.solve(matrix.transposed(v), matrix.transposed(matrix.matmul(u, y))))
    return _unless_singular(w, z, x, tol)


def _unless_singular(w: Any, z: Any, x: Any, tol: float) -> Any:
    sums = abs(w[..., :, None] + z[..., None, :])
    return dnp.where((sums >= tol).all((-1, -2), keepdims=True), x, dnp.nan)
