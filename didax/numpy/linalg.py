"""`didax.numpy.linalg`: linear algebra with the names and arguments of `jax.numpy.linalg`.

    x = dnp.linalg.solve(a, b)
    w, v = dnp.linalg.eigh(a)       named tuples, as in NumPy

The last two axes hold the matrices; the axes before are batch axes, which broadcast where there are several
operands. Integers count as default floats; float16 and bfloat16 have norms, products and determinants of up to
three rows, but no factorisations (cast to float32 for these). The numbers in a matrix, which may be traced, never
raise an error: where a matrix is singular, or not positive definite for `cholesky`, the result is NaN. Derivatives are
finite wherever they have a finite limit, for example the derivative of `det` at a singular matrix; the
derivatives of norms at zero are 0, the smallest subgradient. Read next: `didax/lax/linalg.py`,
`didax/primitives/linalg/`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from didax.api.numpy_functions import Declined, computed_by
from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.dims import max_dim, may_exceed
from didax.core.errors import ArgumentError, ConcretizationTypeError, check_choice, message
from didax.core.modules import on_access
from didax.core.value import Array
from didax.lax import linalg as lax_linalg
from didax.lax.dot import PrecisionLike
from didax.numpy import creation, linear, manipulation, reductions, selection, ufuncs
from didax.numpy.linalg_operands import inexact_array, matrices, square_matrices
from didax.numpy.linear import matmul, tensordot, vecdot
from didax.numpy.manipulation import matrix_transpose
from didax.numpy.promotion import (
    ArrayLike,
    DTypeLike,
    as_array,
    broadcast,
    broadcast_shapes,
    cast,
    promote_dtypes,
)
from didax.numpy.reductions import canonical_axes
from didax.primitives import elementwise as el
from didax.primitives.linalg import eigen, matrix
from didax.primitives.linalg import pinv as pinv_
from didax.primitives.linalg import qr as qr_
from didax.primitives.linalg import solve as solve_
from didax.primitives.linalg import svd as svd_
from didax.primitives.linalg.host import are_small, is_finite
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import reshape

__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "cond", "cross", "det",
    "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

Axes = tuple[int, ...]


class EigResult(NamedTuple):
    """The eigenvalues, and the eigenvectors as columns.

    >>> import didax.numpy as dnp
    >>> values, vectors = dnp.linalg.eig(dnp.diag(dnp.array([2.0, 3.0])))
    >>> values, vectors.shape
    (Array([2.+0.j, 3.+0.j], dtype=complex64), (2, 2))
    """

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """The ascending eigenvalues, and the eigenvectors as columns.

    >>> import didax.numpy as dnp
    >>> found = dnp.linalg.eigh(dnp.diag(dnp.array([3.0, 2.0])))
    >>> found.eigenvalues, abs(found.eigenvectors)
    (Array([2., 3.], dtype=float32), Array([[0., 1.],
           [1., 0.]], dtype=float32))
    """

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """A matrix Q with orthonormal columns, and an upper triangular matrix R.

    >>> import didax.numpy as dnp
    >>> q, r = dnp.linalg.qr(dnp.ones((3, 2)))
    >>> q.shape, r.shape
    ((3, 2), (2, 2))
    """

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Left singular vectors as columns, descending singular values, right singular vectors as conjugated rows.

    >>> import didax.numpy as dnp
    >>> found = dnp.linalg.svd(dnp.array([[0.0, 3.0], [2.0, 0.0]]))
    >>> found.S.round(3), found.U.shape, found.Vh.shape
    (Array([3., 2.], dtype=float32), (2, 2), (2, 2))
    """

    U: Array
    S: Array
    Vh: Array


class SlogdetResult(NamedTuple):
    """The sign of the determinant, or its phase if it is complex, and the logarithm of its absolute value.

    >>> import didax.numpy as dnp
    >>> sign, logabsdet = dnp.linalg.slogdet(-dnp.eye(3))
    >>> sign, logabsdet
    (Array(-1., dtype=float32), Array(0., dtype=float32))
    """

    sign: Array
    logabsdet: Array


# --- operands -----------------------------------------------------------------------------------------------


def _with_two_axes(name: str, x: Any, argument: str = "x") -> Array:
    """Return an array with two or more axes, of any dtype."""
    value = as_array(name, x, argument)
    if value.ndim < 2:
        fix = "Give it two axes or more (reshape)."
        raise ArgumentError(
            message(
                f"{name} takes matrices: the last two axes of an array.", f"{argument}: {value.aval}", fix=fix
            )
        )
    return value


def _eps(x: Array) -> float:
    return float(dtypes.finfo(dtypes.real_dtype(x.dtype)).eps)


def _tolerance_per_matrix(name: str, x: Any, a: Array, argument: str) -> Array:
    """Return a tolerance for each matrix of `a`, in the real dtype of `a`."""
    value = cast(as_array(name, x, argument), dtypes.real_dtype(a.dtype))
    return broadcast(value, broadcast_shapes(name, [value.shape, a.shape[:-2]]))


def _given_value(name: str, **given: Any) -> Any:
    """Return the only given value of an argument that has several names."""
    found = {key: value for key, value in given.items() if value is not None}
    if len(found) > 1:
        rule, facts = f"{name} takes one tolerance.", ", ".join([f"{k}={v!r}" for k, v in found.items()])
        raise ValueError(message(rule, facts, fix=f"Pass {' or '.join(given)}."))
    return next(iter(found.values()), None)


# --- systems of equations -----------------------------------------------------------------------------------


@evaluated_whole
@array_function
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the x with `a @ x = b`: a vector where `b` has one axis, else matrices. NaN where `a` is singular.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.solve(dnp.array([[2, 0], [0, 4]]), dnp.array([2, 2]))
    Array([1. , 0.5], dtype=float32)
    """
    left, right = [
        as_array("solve", x, i) for i, x in enumerate(promote_dtypes("solve", a, b, to_inexact=True))
    ]
    left, right = cast(left, left.dtype), cast(right, right.dtype)
    matrix.check_square("solve", left.aval, "a")
    is_vector = right.ndim == 1
    columns = right[:, None] if is_vector else right
    if columns.ndim < 2 or columns.shape[-2] != left.shape[-1]:
        raise ValueError(
            message(
                "solve takes as many values on the right as equations: b of shape (n,) or (..., n, k).",
                f"a: {left.aval}",
                f"b: {right.aval}",
                fix="Make batches of vectors matrices of one column: solve(a, b[..., None])[..., 0].",
            )
        )
    lead = broadcast_shapes("solve", [left.shape[:-2], columns.shape[:-2]])
    x = solve_.solve(broadcast(left, lead + left.shape[-2:]), broadcast(columns, lead + columns.shape[-2:]))
    return x[..., 0] if is_vector else x


@evaluated_whole
@array_function
def inv(a: ArrayLike) -> Array:
    """Return the inverse of matrices; NaN where a matrix is singular.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.inv(dnp.array([[2, 0], [0, 4]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    x = square_matrices("inv", a)
    return solve_.solve(x, solve_.identity(x.aval))


@evaluated_whole
@array_function
def pinv(
    a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *, rcond: ArrayLike | None = None
) -> Array:
    """Return the Moore-Penrose pseudoinverse.

    Singular values up to `rtol` (also named `rcond`) times the largest count as 0; the default is 10 max(m,
    n) times the resolution of the dtype. The derivative assumes that the rank is constant near `a`.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.pinv(dnp.array([[2.0, 0], [0, 0]]))
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)
    """
    x = matrices("pinv", a)
    tolerance = _given_value("pinv", rtol=rtol, rcond=rcond)
    tolerance = 10 * max_dim(*x.shape[-2:]) * _eps(x) if tolerance is None else tolerance
    return pinv_.pinv(x, _tolerance_per_matrix("pinv", tolerance, x, "rtol"), bool(hermitian))


@evaluated_whole
@array_function
def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """Return `(x, residuals, rank, s)`: the shortest x that minimises `norm(a @ x - b)`, for one matrix.

    Singular values s up to `rcond` times the largest count as 0; the default is max(m, n) times the
    resolution of the dtype. The residuals are the sums of squares. With `numpy_resid` they are left out where
    NumPy leaves them out; this depends on the rank, so `numpy_resid` does not work under jit.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.lstsq(dnp.array([[1.0], [1]]), dnp.array([1.0, 3]))[0].round(4)
    Array([2.], dtype=float32)
    """
    left, right = [
        as_array("lstsq", x, i) for i, x in enumerate(promote_dtypes("lstsq", a, b, to_inexact=True))
    ]
    left, right = cast(left, left.dtype), cast(right, right.dtype)
    if left.ndim != 2 or right.ndim not in (1, 2) or left.shape[0] != right.shape[0]:
        raise ValueError(
            message(
                "lstsq takes one matrix, and a vector or matrix of as many rows.",
                f"a: {left.aval}",
                f"b: {right.aval}",
                fix="Use vmap for batches.",
            )
        )
    matrix.check_matrices("lstsq", left.aval, "a")
    m, n = left.shape
    x, residuals, rank, s = _lstsq(left, right, rcond)
    if numpy_resid and (int(rank) < n or m <= n):
        residuals = creation.zeros(0, s.dtype)
    return x, residuals, rank, s


def _lstsq(a: Array, b: Array, rcond: Any) -> tuple[Array, Array, Array, Array]:
    tolerance = max_dim(*a.shape) * _eps(a) if rcond is None else rcond
    tolerance = ufuncs.where(ufuncs.less(tolerance, 0), _eps(a), tolerance)
    tolerance = _tolerance_per_matrix("lstsq", tolerance, a, "rcond")
    x, residuals, s = _least_squares(a, b, tolerance)
    return x, residuals, reductions.sum(s > tolerance * reductions.max(s, initial=0)), s


def _least_squares_by_numpy(a: Any, b: Any, tolerance: Any) -> tuple[Any, ...]:
    if not (is_finite(a) and is_finite(b)):
        raise Declined
    u, s, vh = svd_.svd_p.eager(a, full_matrices=False)
    counts = s > tolerance * s.max()
    weights = np.where(counts, 1 / np.where(counts, s, 1), 0).astype(s.dtype)
    moved = u.conj().T @ b
    x = vh.conj().T @ (moved * (weights if b.ndim == 1 else weights[:, None]))
    error = b - a @ x
    squares = error.real**2 + error.imag**2 if error.dtype.kind == "c" else error * error
    return x, np.atleast_1d(squares.sum(0)), s


@computed_by(_least_squares_by_numpy, lambda avals: are_small(avals[:1]))
def _least_squares(a: Array, b: Array, tolerance: Array) -> tuple[Array, Array, Array]:
    """The solution, the sums of squares that remain, and the singular values."""
    x = matmul(pinv_.pinv(a, tolerance), b)
    error = b - matmul(a, x)
    return x, reductions.sum(_squared_magnitude(error if error.ndim == 2 else error[:, None]), 0), svdvals(a)


@evaluated_whole
@array_function
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Return the x with `tensordot(a, x, x.ndim) = b`; the `axes` of `a` are first moved to the end.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.tensorsolve(2 * dnp.eye(6).reshape(2, 3, 6), dnp.ones((2, 3)))
    Array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    x, y = as_array("tensorsolve", a, "a"), as_array("tensorsolve", b, "b")
    if axes is not None:
        x = manipulation.moveaxis(x, tuple(axes), tuple(range(x.ndim - len(axes), x.ndim)))
    shape = x.shape[y.ndim :]
    if x.shape[: y.ndim] != y.shape or math.prod(shape) != y.size:
        raise ValueError(
            message(
                "tensorsolve takes an a whose first axes are those of b, the others as many elements in all.",
                f"a: {x.aval}",
                f"b: {y.aval}",
                fix="Name with axes those of a that belong to the solution.",
            )
        )
    return solve(reshape(x, (y.size, y.size)), reshape(y, (y.size,))).reshape(shape)


@evaluated_whole
@array_function
def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """Return the inverse with respect to tensordot.

    `tensordot(tensorinv(a, ind), a, ind)` is the identity for tensors with the axes of `a` after the first
    `ind`.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.tensorinv(dnp.eye(6).reshape(2, 3, 6)).shape
    (6, 2, 3)
    """
    x, count = as_array("tensorinv", a, "a"), _integer("tensorinv", ind, "ind")
    rows, columns = x.shape[:count], x.shape[count:]
    if count < 1 or math.prod(rows) != math.prod(columns):
        raise ValueError(
            message(
                "tensorinv takes as many elements along the first ind axes as along the others.",
                f"a: {x.aval}, ind: {count}",
                fix="Choose ind so that both products agree.",
            )
        )
    return inv(reshape(x, (math.prod(rows), math.prod(columns)))).reshape(columns + rows)


def _integer(name: str, n: Any, argument: str) -> int:
    try:
        return operator.index(n)
    except TypeError as error:
        if isinstance(error, ConcretizationTypeError):
            raise
        rule = f"{name} takes an integer for {argument}."
        raise TypeError(message(rule, f"{argument}: {n!r:.100}", fix="Pass an int.")) from None


# --- determinants -------------------------------------------------------------------------------------------


@evaluated_whole
@array_function
def det(a: ArrayLike) -> Array:
    """Return the determinant; its first two derivatives are right at singular matrices, too.

    That of up to three rows is a sum of products, infinite or NaN where one of them overflows; `slogdet` does not
    overflow.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.det(dnp.array([[1, 2], [3, 4]]))
    Array(-2., dtype=float32)
    """
    x = inexact_array("det", a)
    few = x.ndim > 1 and not may_exceed(x.shape[-1], 3)  # no factors are needed
    wide = _at_least_float32(x) if few else x
    matrix.check_square("det", wide.aval, "a")
    return cast(solve_.det(wide), x.dtype)


@evaluated_whole
@array_function
def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """Return the sign of the determinant and the logarithm of its absolute value, which do not overflow.

    `method` may be "lu" or "qr", as in JAX; both names compute from LU factors.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.slogdet(1000 * dnp.eye(20)).logabsdet
    Array(138.1551, dtype=float32)
    """
    if method not in (None, "lu", "qr"):
        rule = "slogdet has two methods."
        raise ValueError(message(rule, f"method: {method!r}", fix="Use 'lu' or 'qr', or leave it out."))
    return SlogdetResult(*solve_.slogdet(square_matrices("slogdet", a)))


# --- factorisations -----------------------------------------------------------------------------------------


@evaluated_whole
@array_function
def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Return the lower triangular L with `L @ L^H = a`, or the upper U with `U^H @ U = a`; NaN where there is none.

    `a` is first replaced by `(a + a^H) / 2`; without `symmetrize_input` only the triangle of the result is
    read.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.cholesky(dnp.array([[4, 2], [2, 5]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    x = square_matrices("cholesky", a)
    if upper:
        return matrix.adjoint(lax_linalg.cholesky(matrix.adjoint(x), symmetrize_input=symmetrize_input))
    return lax_linalg.cholesky(x, symmetrize_input=symmetrize_input)


@evaluated_whole
@array_function
def qr(a: ArrayLike, mode: str = "reduced") -> Array | QRResult:
    """Return `(Q, R)` with `Q @ R = a`: Q has orthonormal columns and R is upper triangular.

    `mode` is "reduced" (Q has min(m, n) columns), "complete" (Q has m columns), "r" (the result is R), or
    "raw": the transposed R with the vectors of the reflections below its diagonal, and the factors of the
    reflections, as LAPACK's geqrf returns them.

    >>> import didax.numpy as dnp
    >>> q, r = dnp.linalg.qr(dnp.ones((3, 2)))
    >>> q.shape, r.shape
    ((3, 2), (2, 2))
    """
    check_choice("qr", "mode", mode, "reduced", "complete", "r", "raw")
    x = matrices("qr", a)
    if mode == "raw":
        reflections, taus = qr_.geqrf(x)
        return QRResult(matrix_transpose(reflections), taus)
    q, r = lax_linalg.qr(x, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def _is_lower(name: str, given: Any) -> bool:
    if given not in (None, "L", "U"):
        raise ValueError(
            message(f"{name} reads one triangle.", f"UPLO: {given!r}", fix="Use UPLO='L' or UPLO='U'.")
        )
    return given != "U"


@evaluated_whole
@array_function
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Return the ascending eigenvalues of Hermitian matrices, and the eigenvectors as columns.

    `a` is first replaced by `(a + a^H) / 2`; without `symmetrize_input` only its triangle `UPLO` ("L" or "U")
    is read.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.eigh(dnp.array([[2, 0], [0, 1]])).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    x = square_matrices("eigh", a)
    v, w = lax_linalg.eigh(x, lower=_is_lower("eigh", UPLO), symmetrize_input=symmetrize_input)
    return EighResult(w, v)


@evaluated_whole
@array_function
def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Return the ascending eigenvalues of Hermitian matrices; the arguments are those of `eigh`.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.eigvalsh(dnp.array([[0, 2], [2, 0]]))
    Array([-2.,  2.], dtype=float32)
    """
    x, lower = square_matrices("eigvalsh", a), _is_lower("eigvalsh", UPLO)
    return eigen.eigvalsh(matrix.hermitian_part(x) if symmetrize_input else x, lower)


@evaluated_whole
@array_function
def eig(a: ArrayLike) -> EigResult:
    """Return the complex eigenvalues of square matrices, and the eigenvectors as columns of norm 1. On the CPU only.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.eig(dnp.array([[0, 1], [-1, 0]])).eigenvalues
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    w, v = lax_linalg.eig(square_matrices("eig", a), compute_left_eigenvectors=False)
    return EigResult(w, v)


@evaluated_whole
@array_function
def eigvals(a: ArrayLike) -> Array:
    """Return the complex eigenvalues of square matrices. On the CPU only.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.eigvals(dnp.array([[1, 1], [0, 2]]))
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    x = square_matrices("eigvals", a)
    return lax_linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


@evaluated_whole
@array_function
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Array | SVDResult:
    """Return `(U, S, Vh)` with `U @ diag(S) @ Vh = a`; S descends. Without `compute_uv` return S.

    U and Vh are square; without `full_matrices` they have min(m, n) columns and rows. `hermitian` promises
    that `a` is Hermitian. `subset_by_index=(i, j)` gives the singular values i to j - 1 with their vectors,
    and needs `full_matrices=False`.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.svd(dnp.array([[3, 0], [0, 4]])).S
    Array([4., 3.], dtype=float32)
    """
    x = square_matrices("svd", a) if hermitian else matrices("svd", a)
    if subset_by_index is not None and ((full_matrices and compute_uv) or hermitian):
        facts = f"subset_by_index: {subset_by_index}, full_matrices: {full_matrices}, hermitian: {hermitian}"
        fix = "Pass full_matrices=False, and leave out hermitian."
        raise ValueError(message("svd gives a subset of the reduced factors.", facts, fix=fix))
    if hermitian:
        return _hermitian_svd(x, compute_uv)
    out = lax_linalg.svd(
        x, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv), subset_by_index=subset_by_index
    )
    return SVDResult(*out) if compute_uv else out


def _hermitian_svd(x: Array, compute_uv: bool) -> Array | SVDResult:
    """Compute the decomposition from eigenvalues w and eigenvectors V: S = |w|, and U = V sign(w)."""
    if not compute_uv:
        return -selection.sort(-ufuncs.abs(eigvalsh(x)))
    w, v = eigh(x)
    order = selection.argsort(-ufuncs.abs(w))
    w = selection.take_along_axis(w, order, -1)
    v = selection.take_along_axis(v, order[..., None, :], -1)
    return SVDResult(
        v * ufuncs.where(w < 0, -1, 1)[..., None, :].astype(v.dtype), ufuncs.abs(w), matrix.adjoint(v)
    )


@evaluated_whole
@array_function
def svdvals(x: ArrayLike, /) -> Array:
    """Return the singular values, in descending order.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.svdvals(dnp.array([[0, 3], [4, 0]]))
    Array([4., 3.], dtype=float32)
    """
    return lax_linalg.svd(matrices("svdvals", x, "x"), compute_uv=False)


# --- norms --------------------------------------------------------------------------------------------------


@evaluated_whole
@array_function
def norm(
    x: ArrayLike,
    ord: float | str | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
) -> Array:
    """Return the norm of vectors (one axis) or matrices (two axes).

    Without `ord` and `axis` all elements count as one vector.

    The orders are those of `vector_norm` and `matrix_norm`.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.norm(dnp.array([3, 4]))
    Array(5., dtype=float32)
    """
    value = inexact_array("norm", x, "x")
    if axis is None and ord is None:
        return _vector_norm("norm", value, 2, tuple(range(value.ndim)), keepdims)
    axes = canonical_axes("norm", axis, value.ndim)
    if len(axes) not in (1, 2):
        raise ValueError(
            message(
                "norm takes one axis, of vectors, or two, of matrices.",
                f"x: {value.aval}, axis: {axis}, ord: {ord!r}",
                fix="Name one or two axes.",
            )
        )
    which = _vector_norm if len(axes) == 1 else _matrix_norm
    return which("norm", value, ord, axes, keepdims)


@evaluated_whole
@array_function
def vector_norm(
    x: ArrayLike,
    /,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ord: float | str = 2,
) -> Array:
    """Return `sum(abs(x) ** ord) ** (1 / ord)` over axes (all by default).

    The orders inf and -inf give the largest and smallest absolute value, the order 0 the number of nonzero
    elements.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.vector_norm(dnp.array([[3, 4], [6, 8]]), axis=1)
    Array([ 5., 10.], dtype=float32)
    """
    value = inexact_array("vector_norm", x, "x")
    return _vector_norm("vector_norm", value, ord, canonical_axes("vector_norm", axis, value.ndim), keepdims)


@evaluated_whole
@array_function
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Array:
    """Return the norm of matrices, by the order `ord`.

    The orders are "fro" (the root of the sum of squares), "nuc" (the sum of the singular values), 2 and -2
    (the largest and smallest singular value), 1 and -1 (the largest and smallest sum of absolute values in a
    column), inf and -inf (the same in a row).

    >>> import didax.numpy as dnp
    >>> dnp.linalg.matrix_norm(dnp.array([[1, 2], [3, 4]]), ord=1)
    Array(6., dtype=float32)
    """
    value = inexact_array("matrix_norm", _with_two_axes("matrix_norm", x), "x")
    return _matrix_norm("matrix_norm", value, ord, (value.ndim - 2, value.ndim - 1), keepdims)


def _at_least_float32(x: Array) -> Array:
    """Return `x` in float32 at least: squares overflow at smaller numbers than their root."""
    return cast(x, dtypes.at_least_single(x.dtype))


def _squared_magnitude(x: Array) -> Array:
    """Return `abs(x) ** 2`, smooth at 0."""
    return ufuncs.square(x.real) + ufuncs.square(x.imag) if dtypes.is_complex(x.dtype) else ufuncs.square(x)


def _vector_norm(name: str, x: Array, order: Any, axes: Axes, keepdims: bool) -> Array:
    dtype, x = dtypes.real_dtype(x.dtype), _at_least_float32(x)
    return cast(_power_norm(x, _order(name, order, "vectors", ()), axes, keepdims), dtype)


def _power_norm(x: Array, order: float, axes: Axes, keepdims: bool) -> Array:
    if order == 2:
        return _root(reductions.sum(_squared_magnitude(x), axes, keepdims=keepdims), 2)
    if order == 0:
        return reductions.sum(x != 0, axes, dtypes.real_dtype(x.dtype), keepdims=keepdims)
    sizes = ufuncs.abs(x)
    if order == math.inf:
        return reductions.max(sizes, axes, keepdims=keepdims, initial=0)
    if order == -math.inf:
        return reductions.min(sizes, axes, keepdims=keepdims)
    if order == 1:
        return reductions.sum(sizes, axes, keepdims=keepdims)
    return _root(reductions.sum(sizes**order, axes, keepdims=keepdims), order)


def _root(total: Array, order: float) -> Array:
    """Return `total ** (1 / order)`, with derivative 0 where `total` is 0."""
    if order < 0:
        return total ** (1 / order)
    zero = el.eq(total, 0)
    safe = where(zero, scalar_like(1, total.dtype), total)
    root = el.sqrt(safe) if order == 2 else safe ** (1 / order)
    return where(zero, scalar_like(0, total.dtype), root)


def _order(name: str, order: Any, operands: str, names: tuple[str, ...]) -> Any:
    """Return the order: a number, or one of the names; None is 2 where there are no names."""
    if isinstance(order, str) and order == "f":  # NumPy's short form
        order = "fro"
    if order is None:
        return names[0] if names else 2.0
    if isinstance(order, str) and order not in names:
        known = ", ".join([*map(repr, names), "or "]) if names else ""
        fix = f"Use {known}a number (numpy.inf for the largest)."
        raise ValueError(message(f"{name} of {operands} has no such order.", f"ord: {order!r}", fix=fix))
    return order if isinstance(order, str) else float(order)


def _matrix_norm(name: str, x: Array, order: Any, axes: Axes, keepdims: bool) -> Array:
    order = _order(name, order, "matrices", ("fro", "nuc"))
    if order == "fro":
        return _vector_norm(name, x, 2, axes, keepdims)
    if order in ("nuc", 2, -2):
        kept = _singular_norm(x, order, axes)
    elif order in (1, -1, math.inf, -math.inf):
        summed, compared = axes if abs(order) == 1 else axes[::-1]
        sums = reductions.sum(ufuncs.abs(x), summed, keepdims=True)
        kept = _extreme(sums, compared, largest=order > 0)
    else:
        fix = "Use 'fro', 'nuc', or one of 1, -1, 2, -2, numpy.inf, -numpy.inf."
        raise ValueError(message(f"{name} of matrices has no such order.", f"ord: {order!r}", fix=fix))
    return kept if keepdims else manipulation.squeeze(kept, axes)


def _singular_norm(x: Array, order: Any, axes: Axes) -> Array:
    """Return the norm of the singular values; both matrix axes are kept, with length 1."""
    s = svdvals(manipulation.moveaxis(_at_least_float32(x), axes, (-2, -1)))
    if order == "nuc":
        y = reductions.sum(s, -1)
    else:
        y = _extreme(s, s.ndim - 1, largest=order == 2)[..., 0]
    return cast(manipulation.expand_dims(y, axes), dtypes.real_dtype(x.dtype))


def _extreme(x: Array, axis: int, *, largest: bool) -> Array:
    if largest:
        return reductions.max(x, axis, keepdims=True, initial=0)
    return reductions.min(x, axis, keepdims=True)


@evaluated_whole
@array_function
def cond(x: ArrayLike, p: float | str | None = None) -> Array:
    """Return the condition number, `norm(x, p) * norm(inv(x), p)`, by default for p = 2; inf for singular matrices.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.cond(dnp.array([[1, 0], [0, 4]]))
    Array(4., dtype=float32)
    """
    value = matrices("cond", x, "x")
    if 0 in value.shape[-2:]:  # a batch of no matrices has no numbers
        fix = "Pass an array with elements."
        raise ValueError(message("cond takes matrices with elements.", f"x: {value.aval}", fix=fix))
    if p in (None, 2, -2):
        s = svdvals(value)
        found = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        matrix.check_square("cond", value.aval, "x")
        axes = (value.ndim - 2, value.ndim - 1)
        found = _matrix_norm("cond", value, p, axes, False) * _matrix_norm("cond", inv(value), p, axes, False)
    unknown = reductions.any(ufuncs.isnan(value), (-2, -1))
    return ufuncs.where(ufuncs.isnan(found) & ~unknown, math.inf, found)


@evaluated_whole
@array_function
def matrix_rank(
    M: ArrayLike, rtol: ArrayLike | None = None, *, hermitian: bool = False, tol: ArrayLike | None = None
) -> Array:
    """Return the number of singular values above `tol`, or above `rtol` times the largest.

    The default of `rtol` is max(m, n) times the resolution of the dtype. An array with fewer than two axes
    has rank 1, or rank 0 where all of its elements are 0.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.matrix_rank(dnp.ones((3, 3)))
    Array(1, dtype=int32)
    """
    given = _given_value("matrix_rank", rtol=rtol, tol=tol)
    x = as_array("matrix_rank", M, "M")
    if x.ndim < 2:
        return cast(reductions.any(x != 0), dtypes.default_dtype("i"))
    x = square_matrices("matrix_rank", x) if hermitian else matrices("matrix_rank", x, "M")
    s = ufuncs.abs(eigvalsh(x)) if hermitian else svdvals(x)
    given = max_dim(*x.shape[-2:]) * _eps(x) if given is None else given
    limit = _tolerance_per_matrix("matrix_rank", given, x, "rtol" if tol is None else "tol")[..., None]
    if tol is None:
        limit = limit * reductions.max(s, -1, keepdims=True, initial=0)
    return reductions.sum(s > limit, -1)


# --- products -----------------------------------------------------------------------------------------------


@evaluated_whole
@array_function
def matrix_power(a: ArrayLike, n: int) -> Array:
    """Return the product of `n` copies of `a`; for negative n of `-n` copies of its inverse; for 0 the identity.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.matrix_power(dnp.array([[1, 1], [0, 1]]), 5)
    Array([[1, 5],
           [0, 1]], dtype=int32)
    """
    x, count = _with_two_axes("matrix_power", a, "a"), _integer("matrix_power", n, "n")
    if x.shape[-1] != x.shape[-2]:
        fix = "Pass an array whose last two axes have one length."
        raise ArgumentError(message("matrix_power takes square matrices.", f"a: {x.aval}", fix=fix))
    if count == 0:
        return solve_.identity(x.aval.strip_weak_type())
    x, count = (inv(x), -count) if count < 0 else (x, count)
    result: Array | None = None
    while count:
        if count % 2:
            result = x if result is None else matmul(result, x)
        count //= 2
        x = matmul(x, x) if count else x
    assert result is not None
    return result


@evaluated_whole
@array_function
def multi_dot(arrays: Sequence[ArrayLike], *, precision: PrecisionLike = None) -> Array:
    """Return the product of two or more matrices, in the cheapest order; the first and last may be vectors.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.multi_dot([dnp.ones(2), dnp.ones((2, 3)), dnp.ones((3, 4))])
    Array([6., 6., 6., 6.], dtype=float32)
    """
    values = [as_array("multi_dot", x, i) for i, x in enumerate(arrays)]
    inner = all([x.ndim == 2 for x in values[1:-1]])
    if len(values) < 2 or not inner or not {values[0].ndim, values[-1].ndim} <= {1, 2}:
        raise ValueError(
            message(
                "multi_dot takes two matrices or more; the first and last may be vectors.",
                f"arrays: {', '.join([str(x.aval) for x in values]) or 'none'}",
                fix="Use matmul for batches of matrices.",
            )
        )
    operands: list[Any] = []
    for i, x in enumerate(values):
        operands += [x, [i + 1] if i == 0 and x.ndim == 1 else [i, i + 1][: x.ndim]]
    out = [k for k in (0, len(values)) if any([k in labels for labels in operands[1::2]])]
    return linear.einsum(*operands, out, optimize="optimal", precision=precision)


@array_function
def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the matrix of the products of each element of one vector with each element of the other.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.outer(dnp.array([1, 2]), dnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    x, y = as_array("outer", x1, "x1"), as_array("outer", x2, "x2")
    if x.ndim != 1 or y.ndim != 1:
        facts = f"x1: {x.aval}, x2: {y.aval}"
        raise ValueError(message("linalg.outer takes vectors.", facts, fix="Use numpy.outer, which ravels."))
    return linear.outer(x, y)


@array_function
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Return the cross product of three-dimensional vectors along `axis`; the other axes broadcast.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.cross(dnp.array([1, 0, 0]), dnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    for name, x in (("x1", x1), ("x2", x2)):
        value = as_array("cross", x, name)
        if value.shape[reductions.canonical_axis("cross", axis, value.ndim)] != 3:
            rule = "linalg.cross multiplies vectors of three components."
            fix = "numpy.cross takes vectors of two components too."
            raise ValueError(message(rule, f"{name}: {value.aval}, axis: {axis}", fix=fix))
    return linear.cross(x1, x2, axis=axis)


@array_function
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Return the diagonals of matrices.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.diagonal(dnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    return manipulation.diagonal(_with_two_axes("diagonal", x), offset, -2, -1)


@array_function
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike = None) -> Array:
    """Return the sums of the diagonals of matrices.

    >>> import didax.numpy as dnp
    >>> dnp.linalg.trace(dnp.ones((3, 2, 2)))
    Array([2., 2., 2.], dtype=float32)
    """
    return linear.trace(_with_two_axes("trace", x), offset, -2, -1, dtype)
