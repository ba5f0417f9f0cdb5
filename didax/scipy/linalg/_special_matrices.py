"""Matrices with a structure: made of one or two vectors (`toeplitz`, `companion`), or from a size (`hilbert`, `dft`).

Matrices made from a size are computed exactly, in Python's integers where they are whole, and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import didax.numpy as dnp
from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.dims import as_length, is_symbolic, max_dim, may_exceed, min_dim
from didax.core.errors import ArgumentError, message
from didax.core.value import Array
from didax.lax import scan
from didax.numpy.promotion import ArrayLike, DTypeLike, as_array, broadcast, broadcast_shapes, promote_dtypes

# --- Made of vectors ----------------------------------------------------------------------------------------


def _vector(name: str, x: Any, argument: str, least: int = 0) -> Array:
    value = dnp.atleast_1d(as_array(name, x, argument))
    if not may_exceed(value.shape[-1], least - 1):
        rule = f"{name} takes vectors of {least} element{'s' if least > 1 else ''} or more."
        raise ArgumentError(message(rule, f"{argument}: {value.aval}", fix="Pass a longer last axis."))
    return value


def _pair(name: str, **vectors: Any) -> list[Array]:
    """Two vectors in one dtype with equal batch axes."""
    xs = [_vector(name, x, argument) for argument, x in vectors.items()]
    xs = [dnp.asarray(x) for x in promote_dtypes(name, *xs)]
    batch = broadcast_shapes(name, [x.shape[:-1] for x in xs])
    return [broadcast(x, (*batch, x.shape[-1])) for x in xs]


def _grid(rows: int, columns: int) -> tuple[Any, Any]:
    """The row and the column of each position of a matrix: NumPy arrays, or traced ones for a symbolic size."""
    xp = dnp if is_symbolic(rows) or is_symbolic(columns) else np
    return xp.arange(rows)[:, None], xp.arange(columns)


@evaluated_whole
@array_function
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Return matrices with equal elements along diagonals: first column `c`, first row `r` (by default conj(c)).

    The element r[0] is not read. The last axes of c and r are the vectors, and the axes before broadcast.

    >>> from didax.scipy import linalg
    >>> linalg.toeplitz(dnp.array([1, 2, 3]), dnp.array([0, 5]))
    Array([[1, 5],
           [2, 1],
           [3, 2]], dtype=int32)
    """
    column, row = _pair("toeplitz", c=c, r=dnp.conj(_vector("toeplitz", c, "c")) if r is None else r)
    m, n = column.shape[-1], row.shape[-1]
    # From the upper right corner to the lower left one.
    values = dnp.concatenate([row[..., :0:-1], column], -1)
    i, j = _grid(m, n)
    return values[..., i - j + max_dim(n - 1, 0)]


@evaluated_whole
@array_function
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Return matrices with equal elements along the other diagonals: first column `c`, last row `r` (zeros).

    The element r[0] is not read.

    >>> from didax.scipy import linalg
    >>> linalg.hankel(dnp.array([1, 2, 3]))
    Array([[1, 2, 3],
           [2, 3, 0],
           [3, 0, 0]], dtype=int32)
    """
    column, row = _pair("hankel", c=c, r=dnp.zeros_like(_vector("hankel", c, "c")) if r is None else r)
    values = dnp.concatenate([column, row[..., 1:]], -1)
    i, j = _grid(column.shape[-1], row.shape[-1])
    return values[..., i + j]


@evaluated_whole
@array_function
def circulant(c: ArrayLike) -> Array:
    """Return matrices whose first column is `c`, and whose other columns are the one before, rotated down by one.

    >>> from didax.scipy import linalg
    >>> linalg.circulant(dnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    column = _vector("circulant", c, "c")
    n = column.shape[-1]
    i, j = _grid(n, n)
    return column[..., (i - j) % max_dim(n, 1)]


@evaluated_whole
@array_function
def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """Return Leslie matrices: fecundities `f` as the first row, survival rates `s` below the diagonal.

    >>> from didax.scipy import linalg
    >>> linalg.leslie(dnp.array([1, 2]), dnp.array([3]))
    Array([[1, 2],
           [3, 0]], dtype=int32)
    """
    row, below = _pair("leslie", f=f, s=s)
    if not may_exceed(row.shape[-1], 1) or below.shape[-1] != row.shape[-1] - 1:
        facts = f"f: {row.aval}, s: {below.aval}"
        fix = "Pass f of shape (..., n) and s of shape (..., n - 1), for n of at least 2."
        raise ArgumentError(
            message("leslie takes two rates or more, and one survival rate less.", facts, fix=fix)
        )
    return _with_subdiagonal(row, dnp.concatenate([below, dnp.zeros_like(row[..., :1])], -1))


@evaluated_whole
@array_function
def companion(a: ArrayLike) -> Array:
    """Return companion matrices of polynomials, whose coefficients begin with that of the highest power.

    Their eigenvalues are the roots of the polynomial.

    >>> from didax.scipy import linalg
    >>> linalg.companion(dnp.array([2.0, 4.0, 6.0]))
    Array([[-2., -3.],
           [ 1.,  0.]], dtype=float32)
    """
    x = _floating_vector("companion", a, 2)
    row = -x[..., 1:] / x[..., :1]
    return _with_subdiagonal(row, dnp.ones_like(row))


def _with_subdiagonal(row: Any, below: Any) -> Array:
    """Matrices of zeros, except for the first row and the elements next to the diagonal, below it."""
    i, j = _grid(row.shape[-1], row.shape[-1])
    first = dnp.where(i == 0, row[..., None, :], dnp.zeros((), row.dtype))
    return dnp.where(i == j + 1, below[..., None, :], first)


def _floating_vector(name: str, a: Any, least: int) -> Array:
    return dnp.asarray(promote_dtypes(name, _vector(name, a, "a", least), to_inexact=True)[0])


@evaluated_whole
@array_function
def fiedler(a: ArrayLike) -> Array:
    """Return the symmetric matrices of distances |a[i] - a[j]|.

    >>> from didax.scipy import linalg
    >>> linalg.fiedler(dnp.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int32)
    """
    x = _vector("fiedler", a, "a")
    return abs(x[..., :, None] - x[..., None, :])


@evaluated_whole
@array_function
def fiedler_companion(a: ArrayLike) -> Array:
    """Return pentadiagonal matrices whose eigenvalues are the roots of a polynomial, as those of `companion`.

    The factors of Fiedler (Linear Algebra Appl. 372, 2003) are multiplied in the order in which the bandwidth is small.

    >>> from didax.scipy import linalg
    >>> linalg.fiedler_companion(dnp.array([1.0, 2.0, 3.0, 4.0]))
    Array([[-2., -3.,  1.],
           [ 1.,  0.,  0.],
           [ 0., -4.,  0.]], dtype=float32)
    """
    x = _floating_vector("fiedler_companion", a, 1)
    n = x.shape[-1] - 1
    monic = x / x[..., :1]
    source, one = _fiedler_positions(n)
    values = dnp.where(source > 0, -monic[..., source], dnp.zeros((), x.dtype))
    return dnp.where(one, dnp.ones((), x.dtype), values)


def _fiedler_positions(n: int) -> tuple[Any, Any]:
    """The coefficient that stands, negated, at each position of the matrix (0: none), and where ones stand."""
    i, j = _grid(n, n)
    even, before = i % 2 == 0, (j == i - 1) | (i == 0) & (j == 0)
    one = even & (j == i + 2) | ~even & ((j == i - 2) | (i == 1) & (j == 0))
    return even * (before * (i + 1) + (j == i + 1) * (i + 2)), one


@evaluated_whole
@array_function
def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """Return the matrices whose product with a vector v of length `n` is `dnp.convolve(a, v, mode)`.

    >>> from didax.scipy import linalg
    >>> linalg.convolution_matrix(dnp.array([1, 2]), 2)
    Array([[1, 0],
           [2, 1],
           [0, 2]], dtype=int32)
    """
    x, n = _vector("convolution_matrix", a, "a", 1), _size("convolution_matrix", n)
    m = x.shape[-1]
    shorter, longer = min_dim(m, n), max_dim(m, n)
    ends = {
        "full": (0, m + n - 1),
        "same": ((shorter - 1) // 2, longer),
        "valid": (shorter - 1, longer - shorter + 1),
    }
    if mode not in ends:
        fix = "Use 'full', 'same' or 'valid'."
        raise ArgumentError(message("convolution_matrix has three modes.", f"mode: {mode!r}", fix=fix))
    start, rows = ends[mode]
    i, j = _grid(rows, n)
    index = i + start - j
    return dnp.where((index >= 0) & (index < m), x[..., index.clip(0, m - 1)], dnp.zeros((), x.dtype))


@evaluated_whole
@array_function
def block_diag(*arrs: ArrayLike) -> Array:
    """Return a matrix with the given ones along its diagonal and zeros elsewhere; a vector counts as one row.

    >>> from didax.scipy import linalg
    >>> linalg.block_diag(dnp.array([[1], [2]]), 3)
    Array([[1, 0],
           [2, 0],
           [0, 3]], dtype=int32)
    """
    if not arrs:
        return dnp.zeros((1, 0))
    blocks = [dnp.atleast_2d(dnp.asarray(x)) for x in promote_dtypes("block_diag", *map(_block, arrs))]
    for i, x in enumerate(blocks):
        if x.ndim != 2:
            rule = "block_diag takes matrices, vectors and numbers."
            raise ArgumentError(message(rule, f"argument {i + 1}: {x.aval}", fix="Pass a batch one by one."))
    width, left, rows = sum(x.shape[1] for x in blocks), 0, []
    for x in blocks:
        rows.append(dnp.pad(x, ((0, 0), (left, width - left - x.shape[1]))))
        left += x.shape[1]
    return dnp.concatenate(rows)


def _block(x: Any) -> Any:
    return dnp.asarray(x) if isinstance(x, list | tuple) else x


# --- Made from a size ---------------------------------------------------------------------------------------


def _size(name: str, n: Any, least: int = 1) -> int:
    try:
        size = as_length(n)
    except TypeError:
        size = -1
    if not may_exceed(size, least - 1):
        rule = f"{name} takes a size, an integer of at least {least}."
        raise ArgumentError(message(rule, f"n: {n!r:.100}", fix="Pass a positive Python integer."))
    return size


def _computing(n: Any) -> Any:
    """NumPy, which computes in 64 bits; for a symbolic size `didax.numpy`, whose operations the program does."""
    return dnp if is_symbolic(n) else np


def _rounded(rows: list[list[Any]], n: int) -> Array:
    """Exact numbers as an array of the default float dtype."""
    return _as_floats(np.array(rows, np.float64).reshape(len(rows), n))


def _as_floats(x: Any) -> Array:
    return dnp.asarray(x, dtypes.default_dtype("f"))


@evaluated_whole
@array_function
def hilbert(n: int) -> Array:
    """Return the n x n matrix of 1 / (i + j + 1).

    >>> from didax.scipy import linalg
    >>> linalg.hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32)
    """
    n = _size("hilbert", n, 0)
    i = _computing(n).arange(n)
    return _as_floats(1 / (i[:, None] + i + 1))


@evaluated_whole
@array_function
def invhilbert(n: int) -> Array:
    """Return the inverse of `hilbert(n)`, a matrix of whole numbers.

    >>> from didax.scipy import linalg
    >>> linalg.invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """
    n = _size("invhilbert", n, 0)
    if is_symbolic(n):
        i = _as_floats(dnp.arange(n))
        steps = dnp.where(i == 0, n, (n + i) * (n - i) / dnp.maximum(i * i, 1))
        ways = dnp.cumprod(steps) * (1 - 2 * (i % 2))
        return ways[:, None] * ways / (i[:, None] + i + 1)

    def entry(i: int, j: int) -> int:
        ways = math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1) * math.comb(i + j, i) ** 2
        return (-1) ** (i + j) * (i + j + 1) * ways

    return _rounded([[entry(i, j) for j in range(n)] for i in range(n)], n)


def _triangle_kind(name: str, kind: Any) -> str:
    if kind not in (None, "symmetric", "lower", "upper"):
        fix = "Use 'symmetric', 'lower' or 'upper'."
        raise ArgumentError(message(f"{name} has three kinds.", f"kind: {kind!r}", fix=fix))
    return kind or "symmetric"


def _triangle(n: Any) -> Array:
    """Pascal's triangle as the lower half of a matrix: each row is the one before, added to itself moved by one."""
    first = _as_floats(dnp.arange(n) == 0)
    # The element that `roll` brings from the end to the front is 0, except in the last row, which no row follows.
    return scan(lambda row, _: (row + dnp.roll(row, 1), row), first, None, length=n)[1]


def _pascal_of(lower: Array, kind: str, inverse: bool = False) -> Array:
    """Pascal's matrix of a kind, from its lower triangular factor L.

    The symmetric matrix is L @ L.T; the inverse is L.T @ L, where L is the factor of the inverse.
    """
    if kind != "symmetric":
        return lower if kind == "lower" else lower.T
    left, right = (lower.T, lower) if inverse else (lower, lower.T)
    return dnp.matmul(left, right, precision="highest")


@evaluated_whole
@array_function
def pascal(n: int, kind: str | None = None) -> Array:
    """Return Pascal's triangle as a "symmetric" (the default), "lower" or "upper" triangular n x n matrix.

    >>> from didax.scipy import linalg
    >>> linalg.pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float32)
    """
    n, kind = _size("pascal", n, 0), _triangle_kind("pascal", kind)
    if is_symbolic(n):
        return _pascal_of(_triangle(n), kind)
    entry = {
        "symmetric": lambda i, j: math.comb(i + j, i),
        "lower": math.comb,
        "upper": lambda i, j: math.comb(j, i),
    }[kind]
    return _rounded([[entry(i, j) for j in range(n)] for i in range(n)], n)


@evaluated_whole
@array_function
def invpascal(n: int, kind: str | None = None) -> Array:
    """Return the inverse of `pascal(n, kind)`, a matrix of whole numbers.

    >>> from didax.scipy import linalg
    >>> linalg.invpascal(2)
    Array([[ 2., -1.],
           [-1.,  1.]], dtype=float32)
    """
    n, kind = _size("invpascal", n, 0), _triangle_kind("invpascal", kind)
    if is_symbolic(n):
        signs = _as_floats(1 - 2 * (dnp.arange(n) % 2))
        return _pascal_of(_triangle(n) * signs[:, None] * signs, kind, inverse=True)

    def lower(i: int, j: int) -> int:
        return (-1) ** (i - j) * math.comb(i, j) if i >= j else 0

    entry = {
        "symmetric": lambda i, j: sum(lower(k, i) * lower(k, j) for k in range(n)),
        "lower": lower,
        "upper": lambda i, j: lower(j, i),
    }[kind]
    return _rounded([[entry(i, j) for j in range(n)] for i in range(n)], n)


@evaluated_whole
@array_function
def helmert(n: int, full: bool = False) -> Array:
    """Return n - 1 orthonormal rows, each orthogonal to equal numbers; with `full` also the row of equal ones, first.

    Row k is (1, ..., 1, -k, 0, ..., 0) / sqrt(k (k + 1)), with k ones.

    >>> from didax.scipy import linalg
    >>> linalg.helmert(2)
    Array([[ 0.70710677, -0.70710677]], dtype=float32)
    """
    n = _size("helmert", n)
    xp = _computing(n)
    j, k = xp.arange(n), xp.arange(1, n)[:, None]
    rows = xp.where(j < k, 1, xp.where(j == k, -k, 0)) / xp.sqrt(1.0 * k * (k + 1))
    return _as_floats(xp.concatenate([xp.ones((1, n)) / xp.sqrt(1.0 * n), rows]) if full else rows)


@evaluated_whole
@array_function
def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Return Sylvester's matrix of ones and minus ones, whose rows are orthogonal; n is a power of 2.

    >>> from didax.scipy import linalg
    >>> linalg.hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    n = _size("hadamard", n)
    if n & (n - 1):
        raise ArgumentError(message("hadamard takes a power of 2.", f"n: {n}", fix="Use 1, 2, 4, 8, ..."))
    signs = np.ones((1, 1), np.int8)
    while len(signs) < n:
        signs = np.block([[signs, signs], [signs, -signs]])
    return dnp.asarray(signs).astype(dtype)


@evaluated_whole
@array_function
def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return the matrix of the discrete Fourier transform, exp(-2 pi i j k / n), of a complex `dtype`.

    `scale` divides it by sqrt(n) ("sqrtn"), so that it is unitary, or by n ("n").

    >>> from didax.scipy import linalg
    >>> linalg.dft(2).real
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    n = _size("dft", n, 0)
    xp = _computing(n)
    if scale not in (None, "sqrtn", "n"):
        fix = "Use None, 'sqrtn' or 'n'."
        raise ArgumentError(message("dft has three scales.", f"scale: {scale!r}", fix=fix))
    chosen = dtypes.default_dtype("c") if dtype is None else dtypes.dtype(dtype)
    if not dtypes.is_complex(chosen):
        fix = "Pass a complex dtype, or leave dtype out."
        raise ArgumentError(message("dft makes complex matrices.", f"dtype: {chosen}", fix=fix))
    length, i = max_dim(n, 1), xp.arange(n)
    turns = i[:, None] * i % length / length  # exact, however large the product
    values = xp.exp(-2j * np.pi * turns)
    if scale is not None:
        values = values / (xp.sqrt(1.0 * length) if scale == "sqrtn" else length)
    return dnp.asarray(values, chosen)
