"""Functions of square matrices: the exponential, square roots, and others by their values on eigenvalues.

    expm(A) = 1 + A + A^2 / 2 + ...        r(A / 2^s)^(2^s), where r is the Pade approximant (N. Higham, 2005)
    sqrtm(A) @ sqrtm(A) = A                on the triangular Schur form (Bjoerck and Hammarling, 1983)
    funm(A, f) = Z f(T) Z^H                on the triangular Schur form, by Parlett's recurrence (1976)

The exponential and the square root have derivatives of every order. Read next: `_special_matrices.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import didax.numpy as dnp
from didax.api.autodiff import jvp
from didax.api.custom import custom_jvp
from didax.api.jit import jit
from didax.api.numpy_functions import computed_by
from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.errors import ArgumentError, message
from didax.core.value import Array
from didax.lax import linalg as lax_linalg
from didax.lax.control_flow import cond
from didax.lax.loops import fori_loop
from didax.numpy import linalg
from didax.numpy.linalg_operands import inexact_array, square_matrices
from didax.numpy.promotion import ArrayLike, promote_dtypes
from didax.primitives.convert import stop_gradient_p
from didax.primitives.linalg import matrix
from didax.primitives.linalg.similarity import schur
from didax.scipy._lists import takes_lists
from didax.scipy.linalg import _by_numpy
from didax.scipy.linalg._systems import by_schur, sylvester


@evaluated_whole
@array_function
def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """Return the exponential of square matrices; NaN where more than `max_squarings + 1` squarings would be needed.

    JAX leaves the last of these out, and has few digits then. `upper_triangular` promises upper triangular matrices,
    which saves time.

    >>> from didax.scipy import linalg
    >>> linalg.expm(dnp.array([[0.0, 1.0], [0.0, 0.0]]))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    x = square_matrices("expm", A)
    x = matrix.triu(x) if upper_triangular else x
    return _exponential(x, upper_triangular=upper_triangular, most=max_squarings + 1)


@computed_by(_by_numpy.exponential, _by_numpy.are_short)
def _exponential(x: Any, *, upper_triangular: bool, most: Any) -> Any:
    degree, radius = _by_numpy.PADE[dtypes.finfo(x.dtype).bits]
    norm = abs(stop_gradient_p.bind(x)).sum(-2).max(-1, initial=0)
    ratio = dnp.where((norm > radius) & (norm < math.inf), norm / radius, 1)
    squarings = dnp.ceil(dnp.log2(ratio)).astype("int32")
    scale = dnp.ldexp(dnp.ones((), norm.dtype), -dnp.minimum(squarings, most))
    u, v = _pade_halves(x * scale[..., None, None].astype(x.dtype), degree)
    if upper_triangular:
        out = lax_linalg.triangular_solve(v - u, v + u, left_side=True)
    else:
        out = linalg.solve(v - u, v + u)

    square = _compiled_squares if isinstance(most, int) else _squares
    out = square(out, squarings, most)
    return dnp.where((squarings > most)[..., None, None], dnp.nan, out)


def _squares(y: Any, squarings: Any, most: Any) -> Any:
    """The matrices `y`, each of them squared as often as `squarings` says."""

    def square(i: Any, y: Any) -> Any:
        wanted = (i < squarings)[..., None, None]
        return cond(wanted.any(), lambda: dnp.where(wanted, matrix.matmul(y, y), y), lambda: y)

    return fori_loop(0, most, square, y)


_compiled_squares = jit(_squares, static_argnums=2)  # eager derivatives find the loop's programs compiled


def _pade_halves(x: Any, degree: int) -> tuple[Any, Any]:
    """The odd and the even part of the numerator of the approximant, whose denominator is their difference."""
    c = _by_numpy.pade_coefficients(degree)
    x2 = matrix.matmul(x, x)
    identity = dnp.eye(x.shape[-1], dtype=x.dtype)
    powers = [identity, x2]
    while len(powers) < 4:
        powers.append(matrix.matmul(powers[-1], x2))

    def combined(coefficients: list[float]) -> Any:
        return sum(
            (p * a for p, a in zip(powers[1:], coefficients[1:], strict=False)), coefficients[0] * identity
        )

    odd, even = c[1::2], c[::2]
    u, v = combined(odd[:4]), combined(even[:4])
    if degree > 7:
        u = u + matrix.matmul(powers[3], combined([0, *odd[4:]]))
        v = v + matrix.matmul(powers[3], combined([0, *even[4:]]))
    return matrix.matmul(x, u), v


@evaluated_whole
@array_function
@takes_lists(2)
def expm_frechet(A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """Return `(expm(A), L)`, or L without `compute_expm`: the derivative of the exponential at A in the direction E.

    `method` is accepted.

    >>> from didax.scipy import linalg
    >>> linalg.expm_frechet(dnp.zeros((1, 1)), dnp.ones((1, 1)), compute_expm=False)
    Array([[1.]], dtype=float32)
    """
    a, e = [dnp.asarray(x) for x in promote_dtypes("expm_frechet", A, E, to_inexact=True)]
    a, e = dnp.broadcast_arrays(
        square_matrices("expm_frechet", a, "A"), square_matrices("expm_frechet", e, "E")
    )
    value, slope = _exponential_and_slope(a, e)
    return (value, slope) if compute_expm else slope


@computed_by(_by_numpy.exponential_and_slope, _by_numpy.are_short)
def _exponential_and_slope(a: Any, e: Any) -> Any:
    return jvp(expm, (a,), (e,))


# --- Square roots -------------------------------------------------------------------------------------------


@evaluated_whole
@array_function
def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """Return the principal square root of square matrices, complex; on the CPU. NaN where there is none.

    The root of a singular matrix has no derivative. `blocksize` is accepted.

    >>> from didax.scipy import linalg
    >>> linalg.sqrtm(dnp.array([[4.0, 0.0], [0.0, 9.0]]))
    Array([[2.+0.j, 0.+0.j],
           [0.+0.j, 3.+0.j]], dtype=complex64)
    """
    x = inexact_array("sqrtm", A, "A")
    x = x.astype(dtypes.at_least_single(x.dtype))
    matrix.check_square("sqrtm", x.aval, "A")
    return _root(x.astype(dtypes.complex_dtype(x.dtype)))


@computed_by(_by_numpy.principal_root, _by_numpy.are_short)
def _root(x: Any) -> Any:
    return _principal_root(x)


@custom_jvp
def _principal_root(x: Any) -> Any:
    t, z = schur(x)
    root = _triangular_root(t)
    return matrix.matmul(matrix.matmul(z, root), matrix.adjoint(z))


@_principal_root.defjvp
def _principal_root_jvp(primals: Any, tangents: Any) -> Any:
    """R R' + R' R = A'."""
    (x,), (x_dot,) = primals, tangents
    root = _principal_root(x)
    return root, sylvester(root, root, x_dot, by_schur)


def _triangular_root(t: Any) -> Any:
    """The root of upper triangular matrices: column j above the diagonal solves (R + r_jj) x = t_j, R known so far."""
    n = t.shape[-1]
    if not t.size:
        return t
    rows, diagonal = dnp.arange(n), dnp.sqrt(matrix.diagonal(t))

    def column(j: Any, root: Any) -> Any:
        shifts = diagonal + dnp.take(diagonal, j, axis=-1)[..., None]
        # Where both diagonal elements are 0, any number is tried, and the root is checked below.
        shifts = dnp.where((shifts == 0) | (rows >= j), 1, shifts)
        system = dnp.where(rows < j, matrix.triu(root, 1), 0) + matrix.on_diagonal(matrix.as_rows(shifts, n))
        wanted = dnp.where(rows < j, dnp.take(t, j, axis=-1), 0)[..., None]
        above = lax_linalg.triangular_solve(system, wanted, left_side=True)
        return dnp.where(rows == j, above + matrix.on_diagonal(matrix.as_rows(diagonal, n)), root)

    root = fori_loop(0, n, column, dnp.zeros_like(t))
    defect = abs(matrix.matmul(root, root) - t).max((-1, -2), initial=0)
    size = abs(t).max((-1, -2), initial=0)
    singular = (diagonal == 0).sum(-1) > 1
    bad = singular & (defect > size * math.sqrt(float(dtypes.finfo(t.dtype).eps)))
    return dnp.where(bad[..., None, None], dnp.nan, root)


# --- Other functions ----------------------------------------------------------------------------------------


@array_function
def funm(A: ArrayLike, func: Callable[[Array], Array], disp: bool = True) -> Any:
    """Return `func` of a square matrix, complex, on the CPU; `func` gets the complex eigenvalues as a vector.

    With `disp=False` return also an estimate of the relative error, which is large where eigenvalues are close to each
    other. NaN stands where two eigenvalues are equal and the matrix cannot be diagonalised.

    >>> from didax.scipy import linalg
    >>> linalg.funm(dnp.array([[1.0, 0.0], [0.0, 4.0]]), dnp.sqrt).real
    Array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    x = square_matrices("funm", A)
    if x.ndim != 2:
        fix = "Use vmap for a batch of matrices."
        raise ArgumentError(message("funm takes one matrix.", f"A: {x.aval}", fix=fix))
    n, dtype = x.shape[-1], dtypes.complex_dtype(x.dtype)
    t, z = schur(x.astype(dtype))
    w = matrix.diagonal(t)
    values = dnp.asarray(func(w)).astype(dtype)
    f = _parlett(t, matrix.on_diagonal(matrix.as_rows(values, n)))
    out = matrix.matmul(matrix.matmul(z, f), matrix.adjoint(z))
    return out if disp else (out, _estimated_error(f, w - w[:, None]))


@computed_by(_by_numpy.parlett, _by_numpy.are_short)
def _parlett(t: Any, values: Any) -> Any:
    """The function of an upper triangular matrix t, from a diagonal matrix of its values on the eigenvalues."""
    n, w = t.shape[-1], matrix.diagonal(t)
    offsets = np.arange(n) - np.arange(n)[:, None]
    gaps = w - w[:, None]
    rounding = 4 * n * float(dtypes.finfo(t.dtype).eps) * abs(t).max(initial=0)
    size = dnp.where(dnp.isfinite(values), abs(values), 0).max(initial=0)
    equal = abs(gaps) <= rounding

    def superdiagonal(p: Any, f: Any) -> Any:
        """f is 0 where it is not known yet, so its commutator with t has the sums of the recurrence.

        For equal eigenvalues both are 0 if the matrix can be diagonalised. All of this is so up to rounding.
        """
        sums = matrix.matmul(t, f) - matrix.matmul(f, t)
        unknown = dnp.where(gaps == 0, dnp.nan, sums / dnp.where(gaps == 0, 1, gaps))
        vanishes = equal & (abs(t) <= rounding) & (abs(sums) <= rounding * size)
        return f + dnp.where(offsets == p, dnp.where(vanishes, 0, unknown), 0)

    return fori_loop(1, n, superdiagonal, values)


def _estimated_error(f: Any, gaps: Any) -> Any:
    """The rounding error, grown by the smallest gap between eigenvalues, which the recurrence divides by."""
    eps = float(dtypes.finfo(f.dtype).eps)
    distinct = dnp.where(dnp.eye(f.shape[-1], dtype=bool), 1, abs(gaps))
    smallest = dnp.minimum(distinct.min(initial=1), 1)
    above = abs(matrix.triu(f, 1)).sum(-2).max(-1, initial=0)
    error = dnp.clip(eps / dnp.maximum(smallest, eps) * above, eps, 1)
    return dnp.where(dnp.isfinite(f).all(), error, math.inf).astype(dtypes.real_dtype(f.dtype))
