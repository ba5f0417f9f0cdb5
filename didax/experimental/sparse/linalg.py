"""Linear algebra of sparse matrices: the largest eigenvalues (`lobpcg_standard`) and a direct solution (`spsolve`).

Iterative solutions are in `didax.scipy.sparse.linalg`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import didax.numpy as dnp
from didax import lax
from didax.api.callbacks import pure_callback
from didax.api.stages import ShapeDtypeStruct
from didax.core import dtypes
from didax.core.errors import api_boundary, message
from didax.core.value import Array
from didax.experimental.sparse._base import JAXSparse
from didax.experimental.sparse.coo import CSR, csr_matvec

__all__ = ["lobpcg_standard", "spsolve"]


@api_boundary
def lobpcg_standard(A: Any, X: Any, m: int = 100, tol: Any = None) -> tuple[Array, Array, Array]:
    """Return the k largest eigenvalues of a symmetric matrix, eigenvectors, and the number of steps.

    Args:
      A: an (n, n) matrix, dense or sparse, or a function of (n, c) matrices that multiplies with it.
      X: an (n, k) matrix with linearly independent columns, where the search starts; 0 < 5 k < n.
      m: the largest number of steps.
      tol: an eigenpair is found when |A v - w v| < 10 n tol (w + |A v|); by default the precision of the dtype.

    Returns (w, V, steps): w of shape (k,) in descending order, V of shape (n, k). Has no derivative.

    The method is locally optimal: each step takes the best vectors in the span of the present ones, their residuals
    and the last step (Knyazev, SIAM J. Sci. Comput. 23, 2001), whose basis is orthonormalised by a QR decomposition.

    >>> w, v, steps = lobpcg_standard(dnp.diag(dnp.arange(1.0, 9.0)), dnp.ones((8, 1)))
    >>> w.round(2), abs(v[:, 0]).round(2)[-2:]
    (Array([8.], dtype=float32), Array([0., 1.], dtype=float32))
    """
    X = dnp.asarray(X)
    multiply = _as_function(A, X)
    n, k = X.shape
    tol = dtypes.finfo(X.dtype).eps if tol is None else tol
    X = lax.stop_gradient(dnp.linalg.qr(X)[0])

    def best(basis: Any, image: Any) -> tuple[Any, Any]:
        w, V = dnp.linalg.eigh(basis.T @ image, symmetrize_input=True)
        return w[::-1][:k], V[:, ::-1][:, :k]

    def found(w: Any, V: Any, AV: Any) -> Any:
        error = dnp.linalg.norm(AV - w * V, axis=0)
        return error < tol * 10 * n * (w + dnp.linalg.norm(AV, axis=0))

    def step(state: Any) -> Any:
        steps, w, V, P, _ = state
        basis = dnp.concatenate([V, _orthonormal(multiply(V) - w * V, V), dnp.zeros_like(P)], 1)
        basis = basis.at[:, 2 * k :].set(_orthonormal(P, basis[:, : 2 * k]))
        image = multiply(basis)
        w, Q = best(basis, image)
        V, AV = basis @ Q, image @ Q
        return steps + 1, w, V, basis[:, k:] @ Q[k:], found(w, V, AV).all()

    AX = multiply(X)
    w, Q = best(X, AX)
    V = X @ Q
    start = (0, w, V, dnp.zeros_like(V), found(w, V, AX @ Q).all())
    steps, w, V, _, _ = lax.while_loop(lambda s: (s[0] < m) & ~s[4], step, start)
    return w, V / dnp.linalg.norm(V, axis=0), steps


def _orthonormal(x: Any, basis: Any) -> Any:
    """The part of the columns that is orthogonal to a basis, made orthonormal; columns with too little of it are 0."""
    norm = dnp.linalg.norm(x, axis=0)
    x = x / dnp.where(norm == 0, 1, norm)
    for _ in range(2):  # a second time, because rounding leaves some of the basis in small columns
        x = x - basis @ (basis.T @ x)
        q, r = dnp.linalg.qr(x)
        size = dnp.abs(dnp.diagonal(r))
        x = dnp.where(size > 10 * dtypes.finfo(x.dtype).eps, q, 0)
    left = x - basis @ (basis.T @ x)
    return dnp.where(dnp.linalg.norm(left, axis=0) >= 0.99, left, 0)


def _as_function(A: Any, X: Any) -> Callable[[Any], Any]:
    if X.ndim != 2 or not 0 < 5 * X.shape[1] < X.shape[0]:
        rule = "lobpcg_standard takes X of shape (n, k): expected search dim * 5 < matrix dim, and search dim > 0."
        raise ValueError(message(rule, f"X: {X.aval}", fix="Use didax.numpy.linalg.eigh for small matrices."))
    n = X.shape[0]
    if isinstance(A, JAXSparse):
        multiply: Callable[[Any], Any] = lambda x: A @ x
    elif callable(A):
        multiply = A
    else:
        dense = dnp.asarray(A)
        if dense.shape != (n, n):
            rule = f"A must be ({n}, {n}) matrix A."
            raise ValueError(message(rule, f"A: {dense.aval}", f"X: {X.aval}", fix="Use a matching X."))
        multiply = lambda x: dense @ x
    image = multiply(X)
    if image.shape != X.shape or image.dtype != X.dtype:
        rule = "A and X of lobpcg_standard have one dtype, and A keeps the shape of what it is applied to."
        raise ValueError(message(rule, f"X: {X.aval}", f"A(X): {image.aval}", fix="Cast one of them."))
    return multiply


@api_boundary
def spsolve(data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1) -> Array:
    """Return x with A x = b for a square matrix in compressed-row format.

    The solution is SciPy's (`scipy.sparse.linalg.spsolve`), which a callback computes on the host, on any backend;
    `tol` and `reorder` are accepted. Differentiable with respect to `data` and `b`.

    Args:
      data, indices, indptr: the entries, their columns, and where each row starts.
      b: the right-hand side, a vector with the dtype of `data`.

    Raises ValueError for arrays whose shapes or dtypes do not fit.

    >>> spsolve(dnp.array([2.0, 4.0]), dnp.array([0, 1]), dnp.array([0, 1, 2]), dnp.array([2.0, 8.0]))
    Array([1., 2.], dtype=float32)
    """
    data, indices, indptr, b = map(dnp.asarray, (data, indices, indptr, b))
    facts = f"data: {data.aval}, indices: {indices.aval}, indptr: {indptr.aval}, b: {b.aval}"
    if data.dtype != b.dtype:
        raise ValueError(message("data types do not match: data and b of spsolve.", facts, fix="Cast one."))
    if any(not dtypes.is_integer(x.dtype) for x in (indices, indptr)):
        raise ValueError(message("index arrays of spsolve must be integer typed.", facts, fix="Cast them."))
    if any(x.ndim != 1 for x in (data, indices, indptr, b)):
        rule = "Arrays of spsolve must be one-dimensional."
        raise ValueError(message(rule, facts, fix="Use vmap for several right-hand sides."))
    if indptr.size != b.size + 1 or data.shape != indices.shape:
        rule = "Invalid CSR buffer sizes of spsolve."
        raise ValueError(message(rule, facts, fix="indptr has an entry per row and one more."))
    if reorder not in (0, 1, 2, 3):
        rule = "reorder of spsolve is not valid, must be one of [0, 1, 2, 3]."
        raise ValueError(message(rule, f"reorder: {reorder}", fix="Leave it out."))
    n = b.size

    def solve(transposed: bool) -> Callable[[Any, Any], Any]:
        def run(_: Any, right: Any) -> Any:
            out = ShapeDtypeStruct(right.shape, right.dtype)
            kept = map(lax.stop_gradient, (data, indices, indptr))
            return pure_callback(_solver(transposed), out, *kept, right, vmap_method="sequential")

        return run

    def multiply(x: Any) -> Any:
        return csr_matvec(CSR((data, indices, indptr), shape=(n, n)), x)

    return lax.custom_linear_solve(multiply, b, solve(False), solve(True))  # type: ignore[no-any-return]


def _solver(transposed: bool) -> Callable[..., Any]:
    def solve(data: Any, indices: Any, indptr: Any, b: Any) -> Any:
        import scipy.sparse
        from scipy.sparse.linalg import spsolve as solution

        buffers = tuple(map(np.asarray, (data, indices, indptr)))
        mat = scipy.sparse.csr_matrix(buffers, shape=(len(b), len(b)))
        mat = (mat.T if transposed else mat).tocsc(copy=True)
        return np.asarray(solution(mat, np.asarray(b)), b.dtype).reshape(b.shape)

    return solve
