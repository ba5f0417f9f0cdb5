"""Iterative solution of linear systems: `cg`, `bicgstab` and `gmres`, with the names and arguments of jax.scipy.

    x, _ = cg(lambda v: A @ (A.T @ v) + v, b)

The operator is a function from pytrees like `b` to pytrees like it, or a matrix. The derivatives follow from
the equation A x = b (`lax.custom_linear_solve`): reverse mode solves a system with the transposed operator by
the same method, so memory does not grow with the number of steps. A system that is not finite has the solution NaN.
Read next: `didax/lax/solvers.py`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import didax.numpy as dnp
from didax import lax
from didax.core import dtypes, pytree
from didax.core.errors import api_boundary, check_choice, message
from didax.core.modules import on_access
from didax.core.value import Array

__all__ = ["bicgstab", "cg", "gmres"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

Operator = Callable[[Any], Any]
Method = Callable[..., Any]  # (A, b, x0, tolerance, maxiter, M) -> x, residual


@api_boundary
def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Return (x, None) with A x = b for a positive definite A, by conjugate gradients.

    Args:
      A: a symmetric (Hermitian) linear function, or a matrix, which may be sparse.
      b: the right-hand side, an array or a pytree of arrays.
      x0: where to start, a pytree like `b`; zeros by default.
      tol, atol: stop where the residual is at most max(tol * |b|, atol).
      maxiter: the largest number of steps, by default ten times the number of unknowns.
      M: an approximate inverse of A, a function or a matrix.

    >>> import didax as dx, didax.numpy as dnp
    >>> A = dnp.array([[4.0, 1.0], [1.0, 3.0]])
    >>> cg(A, dnp.array([1.0, 2.0]))[0]
    Array([0.0909..., 0.636...], dtype=float32)
    """
    return _solve("cg", _cg, A, b, x0, tol, atol, maxiter, M)


@api_boundary
def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Return (x, None) with A x = b for any regular A, by stabilised biconjugate gradients.

    The arguments are those of `cg`; A need not be symmetric.

    >>> import didax.numpy as dnp
    >>> bicgstab(dnp.array([[2.0, 1.0], [0.0, 4.0]]), dnp.array([4.0, 4.0]))[0].round(4)
    Array([1.5, 1. ], dtype=float32)
    """
    return _solve("bicgstab", _bicgstab, A, b, x0, tol, atol, maxiter, M)


@api_boundary
def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, None]:
    """Return (x, None) with A x = b for any regular A, by minimal residuals over Krylov spaces.

    The arguments are those of `cg`, and:

    Args:
      restart: the dimension of a Krylov space, after which the next one begins; memory grows with it.
      maxiter: the largest number of Krylov spaces.
      solve_method: "batched" or "incremental"; both names run the same method here.

    >>> import didax.numpy as dnp
    >>> gmres(dnp.array([[2.0, 1.0], [0.0, 4.0]]), dnp.array([4.0, 4.0]))[0].round(4)
    Array([1.5, 1. ], dtype=float32)
    """
    check_choice("gmres", "solve_method", solve_method, "batched", "incremental")
    return _solve("gmres", functools.partial(_gmres, restart), A, b, x0, tol, atol, maxiter, M)


def _solve(
    name: str, method: Method, A: Any, b: Any, x0: Any, tol: Any, atol: Any, maxiter: Any, M: Any
) -> tuple[Any, None]:
    b = pytree.map(_inexact, b)
    start = pytree.map(dnp.zeros_like, b) if x0 is None else pytree.map(_inexact, x0)
    _check_start(name, b, start)
    matvec, precondition = _operator(name, "A", A), _operator(name, "M", M)
    limit = 10 * sum(x.size for x in pytree.leaves(b)) if maxiter is None else maxiter
    start = pytree.map(lax.stop_gradient, start)

    def solve_from(x0: Any, matvec: Operator, b: Any) -> Any:
        x, residual = method(matvec, b, x0, dnp.maximum(tol * _norm(b), atol), limit, precondition)
        is_known = dnp.isfinite(_norm(residual))  # otherwise no step was taken for it, and x is the guess
        return pytree.map(lambda y: dnp.where(is_known, y, math.nan), x)

    def from_zero(vecmat: Operator, b: Any) -> Any:
        return solve_from(pytree.map(dnp.zeros_like, b), vecmat, b)

    return lax.custom_linear_solve(matvec, b, functools.partial(solve_from, start), from_zero), None


def _inexact(x: Any) -> Array:
    x = dnp.asarray(x)
    return x if dtypes.is_inexact(x.dtype) else x.astype(dtypes.default_dtype("f"))


def _check_start(name: str, b: Any, x0: Any) -> None:
    facts = pytree.mismatch(pytree.structure(b), pytree.structure(x0), "b", "x0", root="b").splitlines()
    if pytree.structure(b) == pytree.structure(x0):
        pairs = zip(pytree.flatten_with_path(b)[0], pytree.leaves(x0), strict=True)
        facts = [
            f"b{pytree.keystr(path)}: {x.aval}, in x0 {y.aval}"
            for (path, x), y in pairs
            if x.shape != y.shape or x.dtype != y.dtype
        ]
    if facts:
        raise ValueError(
            message(f"The guess of {name} is like the right-hand side.", *facts, fix="Reshape or cast x0.")
        )


def _operator(name: str, argument: str, given: Any) -> Operator:
    if given is None:
        return lambda x: x
    if callable(given):
        return given
    # A matrix of `experimental.sparse` is a pytree that multiplies vectors.
    is_sparse = hasattr(given, "todense") and pytree.structure(given).num_nodes > 1
    matrix = given if is_sparse else dnp.asarray(given)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            message(
                f"{name} takes a linear function or a square matrix as {argument}.",
                f"{argument}: {getattr(matrix, 'aval', matrix)}",
                fix="Pass a function for a batch of systems (vmap), lstsq for others.",
            )
        )
    return lambda x: matrix @ x


# --- Vectors that are pytrees -------------------------------------------------------------------------------


def _dot(x: Any, y: Any) -> Any:
    return functools.reduce(dnp.add, pytree.leaves(pytree.map(dnp.vdot, x, y)))


def _norm(x: Any) -> Any:
    return dnp.sqrt(_dot(x, x).real)


def _minus(x: Any, y: Any) -> Any:
    return pytree.map(dnp.subtract, x, y)


def _plus(x: Any, factor: Any, y: Any) -> Any:
    return pytree.map(lambda x, y: x + (factor * y).astype(x.dtype), x, y)


def _quotient_or_zero(x: Any, y: Any) -> Any:
    """Return x / y, and 0 where y is 0: then nothing is left to do in this direction."""
    return dnp.where(y == 0, 0, x / dnp.where(y == 0, 1, y))


# --- The methods --------------------------------------------------------------------------------------------


def _cg(A: Operator, b: Any, x0: Any, tolerance: Any, maxiter: int, M: Operator) -> Any:
    def goes_on(state: Any) -> Any:
        _, r, _, _, k = state
        return (_norm(r) > tolerance) & (k < maxiter)

    def step(state: Any) -> Any:
        x, r, p, gamma, k = state
        Ap = A(p)
        alpha = _quotient_or_zero(gamma, _dot(p, Ap).real)
        r = _plus(r, -alpha, Ap)
        z = M(r)
        new = _dot(r, z).real
        return _plus(x, alpha, p), r, _plus(z, _quotient_or_zero(new, gamma), p), new, k + 1

    r = _minus(b, A(x0))
    z = M(r)
    return lax.while_loop(goes_on, step, (x0, r, z, _dot(r, z).real, 0))[:2]


def _bicgstab(A: Operator, b: Any, x0: Any, tolerance: Any, maxiter: int, M: Operator) -> Any:
    first = _minus(b, A(x0))

    def goes_on(state: Any) -> Any:
        _, r, _, rho, k = state
        return (_norm(r) > tolerance) & (k < maxiter) & (rho != 0)

    def step(state: Any) -> Any:
        x, r, p, rho, k = state
        p_hat = M(p)
        v = A(p_hat)
        alpha = _quotient_or_zero(rho, _dot(first, v))
        s = _plus(r, -alpha, v)
        s_hat = M(s)
        t = A(s_hat)
        omega = _quotient_or_zero(_dot(t, s), _dot(t, t))
        x = _plus(_plus(x, alpha, p_hat), omega, s_hat)
        r = _plus(s, -omega, t)
        new = _dot(first, r)
        beta = _quotient_or_zero(new, rho) * _quotient_or_zero(alpha, omega)
        return x, r, _plus(r, beta, _plus(p, -omega, v)), new, k + 1

    return lax.while_loop(goes_on, step, (x0, first, first, _dot(first, first), 0))[:2]


def _gmres(restart: int, A: Operator, b: Any, x0: Any, tolerance: Any, maxiter: int, M: Operator) -> Any:
    restart = min(restart, sum(x.size for x in pytree.leaves(b)))

    def goes_on(state: Any) -> Any:
        _, r, k = state
        return (_norm(r) > tolerance) & (k < maxiter)

    def step(state: Any) -> Any:
        x, r, k = state
        size = _norm(r)
        unit = pytree.map(lambda y: y * _quotient_or_zero(1, size).astype(y.dtype), r)
        basis, hessenberg = _arnoldi(lambda v: A(M(v)), unit, restart)
        goal = dnp.zeros(restart + 1, hessenberg.dtype).at[0].set(size.astype(hessenberg.dtype))
        y = dnp.linalg.lstsq(hessenberg, goal)[0]
        x = _plus(x, 1, M(pytree.map(lambda v: dnp.tensordot(y.astype(v.dtype), v[:-1], 1), basis)))
        return x, _minus(b, A(x)), k + 1

    return lax.while_loop(goes_on, step, (x0, _minus(b, A(x0)), 0))[:2]


def _arnoldi(A: Operator, unit: Any, n: int) -> tuple[Any, Array]:
    """Return an orthonormal basis of the Krylov space of A, stacked, and A in this basis; unused vectors are 0."""
    dtype = dnp.result_type(*pytree.leaves(unit))
    basis = pytree.map(lambda v: dnp.zeros((n + 1, *v.shape), v.dtype).at[0].set(v), unit)

    def overlaps(basis: Any, w: Any) -> Any:
        parts = pytree.map(lambda v, w: dnp.tensordot(v.conj(), w, w.ndim), basis, w)
        return functools.reduce(dnp.add, pytree.leaves(parts)).astype(dtype)

    def extend(k: Any, state: Any) -> Any:
        basis, hessenberg = state
        w = A(pytree.map(lambda v: v[k], basis))
        before = _norm(w)
        column = dnp.zeros(n + 1, dtype)
        for _ in range(2):  # a second time, because rounding leaves parts along the basis
            h = overlaps(basis, w)
            w = pytree.map(lambda v, w, h=h: w - dnp.tensordot(h.astype(v.dtype), v, 1), basis, w)
            column = column + h
        size = _norm(w)
        size = dnp.where(size > 10 * float(dtypes.finfo(dtype).eps) * before, size, 0)
        basis = pytree.map(
            lambda v, w: v.at[k + 1].set(w * _quotient_or_zero(1, size).astype(w.dtype)), basis, w
        )
        return basis, hessenberg.at[:, k].set(column.at[k + 1].set(size.astype(dtype)))

    return lax.fori_loop(0, n, extend, (basis, dnp.zeros((n + 1, n), dtype)))
