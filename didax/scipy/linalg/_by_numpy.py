"""Functions of a few small matrices, computed by NumPy and LAPACK: the eager rules of functions with loops.

Each takes finite NumPy values and does what a function of `_systems.py`, `_factors.py` or `_matrix_functions.py` does,
one matrix after the other. It declines (`Declined`) other values, and singular matrices. Read next:
`didax/api/numpy_functions.py`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.api.numpy_functions import Declined
from didax.core.avals import ShapedArray
from didax.primitives.linalg.host import are_small, by_matrix, is_finite, routine

# The degree of the Pade approximant, and the norm up to which it is exact to rounding, by the bits of a real number.
PADE = {32: (7, 3.925724783138660), 64: (13, 5.371920351148152)}
_LENGTH_MAX = 16  # of longer axes, loops over rows and columns are faster in a compiled program


def of_matrices(rule: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    """The rule for batches of matrices, from the rule for one; it gives one result, or a tuple."""

    @functools.wraps(rule)
    def compute(*operands: Any, **params: Any) -> Any:
        if not all(map(is_finite, operands)):
            raise Declined
        found = by_matrix(lambda *xs: rule(*xs, **params), *operands)
        return tuple(found) if len(found) > 1 else found[0]

    return compute


def are_short(avals: Sequence[ShapedArray]) -> bool:
    """Whether operands have few matrices of few rows and columns."""
    return are_small(avals) and all([max(a.shape[-2:]) <= _LENGTH_MAX for a in avals])


def solve(a: Any, b: Any) -> Any:
    """The x with `a @ x = b`."""
    *_, x, info = routine("gesv", a.dtype)(a, b)
    if info:
        raise Declined
    return x


# --- The exponential ----------------------------------------------------------------------------------------


def pade_coefficients(degree: int) -> list[float]:
    """The coefficients of the approximant's numerator, by ascending powers."""
    n = degree
    return [math.comb(n, k) * math.factorial(2 * n - k) / math.factorial(2 * n) for k in range(n + 1)]


@functools.cache
def _pade(dtype: np.dtype[Any]) -> tuple[float, Any, int]:
    """The radius, the coefficients of the odd and of the even part in rows of four powers, and the degree."""
    degree, radius = PADE[dtype.itemsize * 8 // (2 if dtype.kind == "c" else 1)]
    c = pade_coefficients(degree)
    halves = [c[1::2], c[::2]]
    rows = [half[:4] for half in halves] + [[0, *half[4:]] for half in halves if degree > 7]
    real = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    return radius, np.array(rows, real), degree


def _squarings(x: Any, radius: float) -> int:
    norm = float(np.abs(x).sum(0).max())
    return math.ceil(math.log2(norm / radius)) if norm > radius else 0


@functools.cache
def _identity(n: int) -> Any:
    return np.eye(n).reshape(-1)


@of_matrices
def exponential(x: Any, *, most: int, upper_triangular: bool = False) -> Sequence[Any]:
    """`expm` of one matrix."""
    radius, rows, degree = _pade(x.dtype)
    squarings, n = _squarings(x, radius), x.shape[-1]
    if squarings > most:
        raise Declined
    if squarings:
        x = x * 0.5**squarings
    powers = np.empty((4, n * n), x.dtype)
    powers[0] = _identity(n)
    square, fourth, sixth = powers[1:].reshape(3, n, n)
    np.dot(x, x, out=square)
    np.dot(square, square, out=fourth)
    np.dot(fourth, square, out=sixth)
    odd, even, *high = rows.dot(powers).reshape(-1, n, n)
    if degree > 7:
        odd, even = [y + sixth.dot(z) for y, z in zip((odd, even), high, strict=True)]
    odd = x.dot(odd)
    y = solve(even - odd, even + odd)
    for _ in range(squarings):
        y = y.dot(y)
    return [y]


@of_matrices
def exponential_and_slope(x: Any, e: Any) -> Sequence[Any]:
    """`expm` of one matrix, and its derivative in the direction e: the upper half for [[x, e], [0, x]]."""
    n = x.shape[-1]
    size = float(np.abs(e).max()) / max(float(np.abs(x).max()), 1e-3)  # the slope is linear in e
    scale = 2.0 ** -math.ceil(math.log2(size)) if size > 1 else 1.0
    both = np.zeros((2 * n, 2 * n), x.dtype)
    both[:n, :n] = both[n:, n:] = x
    both[:n, n:] = e * scale
    y = exponential(both, most=17)
    return [y[:n, :n], y[:n, n:] / scale]


# --- Functions of triangular matrices -----------------------------------------------------------------------


def _diagonal(x: Any, p: int) -> Any:
    """The p-th diagonal above the main one, to be written to."""
    n = x.shape[-1]
    return x.reshape(-1)[p : (n - p) * n : n + 1]


def _schur(x: Any) -> tuple[Any, Any]:
    """The triangular Schur form of a complex matrix, and the unitary matrix that leads to it."""
    t, _, _, z, _, info = routine("gees", x.dtype)(lambda *eigenvalue: 0, x)
    if info:
        raise Declined
    return t, z


@of_matrices
def principal_root(x: Any) -> Sequence[Any]:
    """The root z R z^H of a complex matrix z t z^H, by diagonals: (r_ii + r_jj) r_ij = t_ij - sum of r_ik r_kj."""
    t, z = _schur(x)
    d = np.sqrt(t.diagonal())
    root = np.diag(d)
    for p in range(1, len(d)):
        shifts = d[:-p] + d[p:]
        if not shifts.all():
            raise Declined
        _diagonal(root, p)[:] = (t.diagonal(p) - root.dot(root).diagonal(p)) / shifts
    return [z @ root @ z.conj().T]


@of_matrices
def parlett(t: Any, f: Any) -> Sequence[Any]:
    """f of an upper triangular matrix, from a diagonal matrix of its values: f t = t f, by diagonals."""
    w, f = t.diagonal(), np.array(f, order="C")
    rounding = 4 * len(w) * np.finfo(t.dtype).eps * abs(t).max(initial=0)
    for p in range(1, len(w)):
        gaps = w[p:] - w[:-p]
        if not (abs(gaps) > rounding).all():
            raise Declined
        _diagonal(f, p)[:] = (t.dot(f) - f.dot(t)).diagonal(p) / gaps
    return [f]


@of_matrices
def sylvester(a: Any, b: Any, c: Any, *, tol: float) -> Sequence[Any]:
    """The X with `a @ X + X @ b = c`."""
    dtype = np.result_type(c.dtype, np.complex64)
    (r, u), (s, v) = [_schur(x.astype(dtype)) for x in (a, b)]
    if (np.abs(r.diagonal()[:, None] + s.diagonal()) <= tol).any():
        raise Declined
    y, scale, info = routine("trsyl", dtype)(r, s, u.conj().T @ c @ v)
    if info or scale != 1:
        raise Declined
    x = u @ y @ v.conj().T
    return [x if c.dtype == dtype else x.real]


# --- Other factors ------------------------------------------------------------------------------------------


@of_matrices
def polar_factors(x: Any, *, method: str, eps: float | None, most: int | None) -> Sequence[Any]:
    """`u, p` with `x = u @ p`, from singular values, for a matrix of full rank that is not wide."""
    if eps is not None or most is not None:
        raise Declined
    w, s, vh, info = routine("gesdd", x.dtype)(x, full_matrices=False)
    if info or s[-1] <= 100 * len(s) * np.finfo(s.dtype).eps * s[0]:
        raise Declined
    p = (vh.conj().T * s) @ vh
    return [w @ vh, (p + p.conj().T) * s.dtype.type(0.5)]
