"""Matrix factorisations and triangular systems: `lax.linalg`, with the names of jax.lax.linalg.

The last two axes hold the matrices; all axes before are batch axes. Factorisations compute in float32, float64,
complex64 or complex128, on the CPU by LAPACK, and refuse narrower floats; triangular systems of narrower floats are
solved in float32. A matrix for which a factorisation fails
gives NaN. `primitives/linalg/matrix.py` explains the derivatives of vectors that are not unique.
`didax.numpy.linalg` is the friendlier layer above. Read next: `primitives/linalg/`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import numpy as np

from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.avals import aval_of
from didax.core.errors import ArgumentError, message
from didax.core.modules import on_access
from didax.lax.operands import operation
from didax.lax.qdwh import qdwh
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import add, mul
from didax.primitives.linalg import eigen, matrix, similarity, triangular
from didax.primitives.linalg import lu as lu_
from didax.primitives.linalg import qr as qr_
from didax.primitives.linalg import svd as svd_
from didax.primitives.linalg import tridiagonal as tridiagonal_
from didax.primitives.narrow import halves_in_float32
from didax.primitives.scalars import scalar_like
from didax.primitives.shape import reshape
from didax.primitives.slicing import concatenate, slice_axis
from didax.xla.platforms import platform

__all__ = [
    "EigImplementation", "EighImplementation", "SvdAlgorithm", "cholesky", "cholesky_update", "eig", "eigh",
    "hessenberg", "householder_product", "lu", "lu_pivots_to_permutation", "ormqr", "qdwh", "qr", "schur", "svd",
    "symmetric_product", "triangular_solve", "tridiagonal", "tridiagonal_solve",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


class SvdAlgorithm(enum.Enum):
    """How singular values are computed; each platform has some of these, and NotImplementedError is raised for others.

    >>> import didax.numpy as dnp
    >>> svd(dnp.diag(dnp.array([2.0, 3.0])), compute_uv=False, algorithm=SvdAlgorithm.DEFAULT).round(3)
    Array([3., 2.], dtype=float32)
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


class EighImplementation(enum.Enum):
    """How eigenvalues of Hermitian matrices are computed; each platform has one of these.

    NotImplementedError is raised for the others.

    >>> import didax.numpy as dnp
    >>> vectors, values = eigh(dnp.diag(dnp.array([3.0, 2.0])), implementation=EighImplementation.QR)
    >>> values
    Array([2., 3.], dtype=float32)
    """

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class EigImplementation(enum.Enum):
    """Which library computes eigenvalues: LAPACK on the CPU; NotImplementedError is raised for the others.

    >>> import didax.numpy as dnp
    >>> eig(dnp.diag(dnp.array([2.0, 3.0])), implementation=EigImplementation.LAPACK)[0]
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    """

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


# What the routines of the platforms can stand for: gesdd and syevd of LAPACK, the Jacobi method and syevd of cuSOLVER.
# Divide and conquer gives what the QR iteration gives.
_CHOICES: dict[type[enum.Enum], dict[str, tuple[enum.Enum, ...]]] = {
    SvdAlgorithm: {
        "cpu": (SvdAlgorithm.DEFAULT, SvdAlgorithm.QR, SvdAlgorithm.DIVIDE_AND_CONQUER),
        "cuda": (SvdAlgorithm.DEFAULT, SvdAlgorithm.JACOBI),
    },
    EighImplementation: {"cpu": (EighImplementation.QR,), "cuda": (EighImplementation.QR,)},
    EigImplementation: {"cpu": (EigImplementation.LAPACK,), "cuda": ()},
}


def _check_choice(name: str, option: str, choice: Any, kind: type[enum.Enum]) -> None:
    """Raise for an algorithm that the platform has not."""
    if choice is None:
        return
    if not isinstance(choice, kind):
        fix = f"Pass a member of lax.linalg.{kind.__name__}, or leave {option} out."
        raise TypeError(
            message(f"{option} of {name} is one of an enumeration.", f"{option}: {choice!r}", fix=fix)
        )
    if choice not in _CHOICES[kind].get(platform(), ()):
        names = ", ".join([str(x) for x in _CHOICES[kind].get(platform(), ())]) or "none of them"
        facts = f"{option}: {choice}, platform: {platform()}, which has {names}"
        raise NotImplementedError(
            message(f"{name} does not have this algorithm here.", facts, fix=f"Leave {option} out.")
        )


@operation
def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """Return the lower triangular L with `L @ L^H = x`; NaN where `x` is not positive definite.

    With `symmetrize_input` x is first replaced by `(x + x^H) / 2`; without it only the lower triangle is
    read.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.linalg.cholesky(np.float32([[4, 2], [2, 5]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    return triangular.cholesky(_symmetrized("cholesky", x) if symmetrize_input else x)


@operation
@evaluated_whole
@halves_in_float32
def cholesky_update(r_matrix: Any, w_vector: Any) -> Any:
    """Return the upper Cholesky factor of `R^H @ R + w w^H`, for the upper triangular factor R and vectors w.

    >>> import numpy as np
    >>> from didax import lax
    >>> r = np.float32([[3, 1], [0, 2]])
    >>> lax.linalg.cholesky_update(r, np.float32([4, 0]))
    Array([[5.       , 0.6      ],
           [0.       , 2.1540658]], dtype=float32)
    """
    r, w = aval_of(r_matrix), aval_of(w_vector)
    matrix.check_square("cholesky_update", r, "r_matrix")
    if w.dtype != r.dtype or w.shape != r.shape[:-1]:
        raise ArgumentError(
            message(
                "cholesky_update takes a vector of the dtype and length of the factor's columns.",
                f"r_matrix: {r}, w_vector: {w}",
                fix="Pass w_vector of shape (..., n) for r_matrix of shape (..., n, n).",
            )
        )
    row = reshape(matrix.conjugate(w_vector), (*w.shape[:-1], 1, *w.shape[-1:]))
    updated = qr_.qr(concatenate([matrix.triu(r_matrix), row], r.ndim - 2), full_matrices=False)[1]
    return matrix.positive_diagonal(updated)


@operation
@halves_in_float32
def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """Return the X with `op(a) @ X = b` (`left_side`) or `X @ op(a) = b`, for a triangular matrix `a`.

    Only the triangle that `lower` names is read; with `unit_diagonal` its diagonal is not read and counts as
    ones. `op` transposes and conjugates as the arguments say. `a` and `b` have equal batch axes; `b` may have
    one axis less, for one right-hand side.

    >>> import numpy as np
    >>> from didax import lax
    >>> a = np.float32([[2, 0], [1, 4]])
    >>> lax.linalg.triangular_solve(a, np.float32([2, 9]), left_side=True, lower=True)
    Array([1., 2.], dtype=float32)
    """
    shape = aval_of(b).shape
    single = len(shape) == aval_of(a).ndim - 1
    if single:
        b = reshape(b, (*shape, 1) if left_side else (*shape[:-1], 1, *shape[-1:]))
    out = triangular.triangular_solve(
        a,
        b,
        left_side=left_side,
        lower=lower,
        transpose_a=transpose_a,
        conjugate_a=conjugate_a,
        unit_diagonal=unit_diagonal,
    )
    return reshape(out, shape) if single else out


@operation
def lu(x: Any) -> tuple[Any, Any, Any]:
    """Return `(lu, pivots, permutation)` with `x[permutation] = L @ U`.

    One array holds L (without its diagonal of ones) and U. Row i was exchanged with row `pivots[i]`, in
    order.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.linalg.lu(np.float32([[1, 2], [2, 8]]))
    (Array([[ 2. ,  8. ],
           [ 0.5, -2. ]], dtype=float32), Array([1, 1], dtype=int32), Array([1, 0], dtype=int32))
    """
    return lu_.lu(x)


@operation
def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """Return the permutation of the rows that the exchanges of LU make: row i with row `pivots[i]`, in order.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.linalg.lu_pivots_to_permutation(np.int32([2, 2]), 3)
    Array([2, 0, 1], dtype=int32)
    """
    return lu_.lu_pivots_to_permutation(pivots, permutation_size)


@operation
def qr(x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None) -> Any:
    """Return `(q, r)` with `q @ r = x`: q has orthonormal columns and r is upper triangular.

    For m x n matrices q is m x m, or m x min(m, n) without `full_matrices`. With `pivoting` (on the CPU) return
    `(q, r, pivots)` with `q @ r = x[:, pivots]`, where the diagonal of r descends in absolute value.

    >>> import numpy as np
    >>> from didax import lax
    >>> q, r = lax.linalg.qr(np.ones((3, 2), "float32"), full_matrices=False)
    >>> q.shape, r.shape
    ((3, 2), (2, 2))
    >>> lax.linalg.qr(np.float32([[1, 3, 2]]), pivoting=True)[2][0]
    Array(1, dtype=int32)
    """
    _only_default("qr", use_magma=use_magma)
    return qr_.qr_pivoting(x, bool(full_matrices)) if pivoting else qr_.qr(x, bool(full_matrices))


@operation
def householder_product(a: Any, taus: Any) -> Any:
    """Return the first columns of the product of the reflections `I - taus[i] v v^H`.

    The vector v is column i of `a` below its diagonal, with 1 on the diagonal and 0 above: the form that
    LAPACK's geqrf and `numpy.linalg.qr(..., mode="raw")` return.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.linalg.householder_product(np.float32([[0], [1]]), np.float32([1]))
    Array([[ 0.],
           [-1.]], dtype=float32)
    """
    return qr_.householder_product(a, taus)


@operation
def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Any:
    """Return `Q @ c`, or `c @ Q` without `left`, for the product Q of the reflections of `householder_product`.

    Q is square. With `transpose` its conjugate transpose stands in its place. `a` has shape (..., m, n), `taus`
    (..., k) with k <= min(m, n), and `c` m rows (`left`) or m columns.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.linalg.ormqr(np.float32([[0], [1]]), np.float32([1]), np.eye(2, dtype="float32"))
    Array([[ 0., -1.],
           [-1.,  0.]], dtype=float32)
    """
    return qr_.ormqr(a, taus, c, left=bool(left), transpose=bool(transpose))


@operation
def hessenberg(a: Any) -> tuple[Any, Any]:
    """Return `(a, taus)`: the Hessenberg form of square matrices, on the CPU.

    The form has zeros below its first subdiagonal; there stand the vectors of the reflections that lead to it, and
    `taus` has their factors. `didax.scipy.linalg.hessenberg` gives the form and the unitary matrix apart.

    >>> import numpy as np
    >>> from didax import lax
    >>> [x.shape for x in lax.linalg.hessenberg(np.eye(3, dtype="float32"))]
    [(3, 3), (2,)]
    """
    return similarity.hessenberg(a)


@operation
def tridiagonal(a: Any, *, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """Return `(a, d, e, taus)`: Hermitian matrices, of which one triangle is read, in tridiagonal form.

    `d` is the diagonal of the form and `e` the one beside it, both real. Beyond them `a` holds the vectors of the
    reflections that lead to the form, and `taus` their factors.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.linalg.tridiagonal(np.float32([[2, 1], [1, 3]]))[1]
    Array([2., 3.], dtype=float32)
    """
    return similarity.tridiagonal(a, bool(lower))


@operation
def schur(
    x: Any,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: None = None,
) -> Any:
    """Return `(t, z)` with `z @ t @ z^H = x` for square matrices, on the CPU; without `compute_schur_vectors` `[t]`.

    z is unitary and t is upper triangular, with the eigenvalues on its diagonal; t of a real matrix is real and has
    blocks of two rows where a pair of eigenvalues is complex. The eigenvalues are not sorted.

    >>> import numpy as np
    >>> from didax import lax
    >>> t, z = lax.linalg.schur(np.float32([[1, 0], [1, 2]]))
    >>> np.allclose(z @ t @ z.T, [[1, 0], [1, 2]], atol=1e-6)
    True
    """
    _only_default("schur", sort_eig_vals=sort_eig_vals, select_callable=select_callable)
    return similarity.schur(x, bool(compute_schur_vectors))


@operation
@evaluated_whole
@halves_in_float32
def symmetric_product(
    a_matrix: Any, c_matrix: Any, *, alpha: float = 1.0, beta: float = 0.0, symmetrize_output: bool = False
) -> Any:
    """Return `alpha a a^T + beta c` for matrices a of shape (..., m, n) and symmetric c of shape (..., m, m).

    With `symmetrize_output` the upper triangle of the result is the transpose of the lower one.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.linalg.symmetric_product(np.float32([[1], [2]]), np.eye(2, dtype="float32"), beta=1.0)
    Array([[2., 2.],
           [2., 5.]], dtype=float32)
    """
    a, c = aval_of(a_matrix), aval_of(c_matrix)
    matrix.check_matrices("symmetric_product", a, "a_matrix")
    matrix.check_square("symmetric_product", c, "c_matrix")
    if a.dtype != c.dtype or a.shape[:-1] != c.shape[:-1]:
        raise ArgumentError(
            message(
                "symmetric_product takes a square matrix of the dtype and the rows of the other one.",
                f"a_matrix: {a}, c_matrix: {c}",
                fix="Pass a_matrix of shape (..., m, n) and c_matrix of shape (..., m, m).",
            )
        )
    factor, share = [scalar_like(x, a.dtype) for x in (alpha, beta)]
    product = mul(matrix.matmul(a_matrix, matrix.transposed(a_matrix)), factor)
    out = add(product, mul(c_matrix, share))
    if not symmetrize_output:
        return out
    return add(matrix.tril(out), matrix.transposed(matrix.tril(out, -1)))


@operation
def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Any, Any]:
    """Return `(v, w)`: the eigenvectors of Hermitian matrices, as columns, and the ascending eigenvalues.

    With `symmetrize_input` x is first replaced by `(x + x^H) / 2`; without it only the triangle that `lower`
    names is read. `subset_by_index=(i, j)` gives the eigenvalues i to j - 1 with their vectors.

    Equal eigenvalues do not fix their eigenvectors, which are then any orthonormal ones. The gradient of a function is
    right if the function does not depend on the choice of this basis, as a norm or the trace of a function of
    the matrix; it is not right for `v * f(w) @ v^H` as a whole.

    >>> import numpy as np
    >>> from didax import lax
    >>> v, w = lax.linalg.eigh(np.float32([[2, 0], [0, 1]]))
    >>> w
    Array([1., 2.], dtype=float32)
    """
    _check_choice("eigh", "implementation", implementation, EighImplementation)
    v, w = eigen.eigh(_symmetrized("eigh", x) if symmetrize_input else x, bool(lower))
    if subset_by_index is None:
        return v, w
    start, stop = _subset("eigh", subset_by_index, aval_of(w).shape[-1])
    return _last_axis(v, start, stop), _last_axis(w, start, stop)


@operation
def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """Return `(u, s, vh)` with `u @ diag(s) @ vh = x`; s descends. Without `compute_uv` return s.

    For m x n matrices u is m x m and vh is n x n; without `full_matrices` they are m x k and k x n, with k =
    min(m, n). `subset_by_index=(i, j)` gives the singular values i to j - 1 with their vectors.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.linalg.svd(np.float32([[3, 0], [0, 4]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    _check_choice("svd", "algorithm", algorithm, SvdAlgorithm)
    if not compute_uv:
        s = svd_.singular_values(x)
        return (
            s
            if subset_by_index is None
            else _last_axis(s, *_subset("svd", subset_by_index, aval_of(s).shape[-1]))
        )
    u, s, vh = svd_.svd(x, bool(full_matrices))
    if subset_by_index is None:
        return u, s, vh
    start, stop = _subset("svd", subset_by_index, aval_of(s).shape[-1])
    return (
        _last_axis(u, start, stop),
        _last_axis(s, start, stop),
        slice_axis(vh, start, stop, aval_of(vh).ndim - 2),
    )


@operation
def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Any]:
    """Return `[w, left, right]`: the eigenvalues and the requested eigenvectors of square matrices; all complex.

    The columns have norm 1: `x @ right = right * w`, `x^H @ left = left * conj(w)`. On the CPU only.
    Eigenvectors are always differentiable; `enable_eigvec_derivs` is accepted because JAX has it.

    >>> import numpy as np
    >>> from didax import lax
    >>> w, left, right = lax.linalg.eig(np.float32([[1, 1], [0, 2]]))
    >>> w
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    _check_choice("eig", "implementation", implementation, EigImplementation)
    _only_default("eig", use_magma=use_magma)
    return eigen.eig(x, bool(compute_left_eigenvectors), bool(compute_right_eigenvectors))


@operation
def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Any:
    """Return the x with `A @ x = b` for the matrix with diagonal d, `dl[1:]` below it and `du[:-1]` above it.

    dl, d and du have shape (..., n), and b has shape (..., n, k). A singular matrix gives NaN.

    >>> import numpy as np
    >>> from didax import lax
    >>> dl, d, du = np.float32([[0, 1, 1], [2, 2, 2], [1, 1, 0]])
    >>> lax.linalg.tridiagonal_solve(dl, d, du, np.float32([[3], [4], [3]]))
    Array([[1.],
           [1.],
           [1.]], dtype=float32)
    """
    _only_default("tridiagonal_solve", perturb_singular=perturb_singular)
    return tridiagonal_.tridiagonal_solve(dl, d, du, b)


def _symmetrized(name: str, x: Any) -> Any:
    """The Hermitian part; that of integers is computed in float32, of 64-bit ones in the default width."""
    dtype = aval_of(x).dtype
    if not dtypes.is_inexact(dtype):
        x = convert_element_type(x, dtypes.default_dtype("f") if dtype.itemsize == 8 else np.dtype("float32"))
    matrix.check_square(name, aval_of(x))
    return matrix.hermitian_part(x)


def _last_axis(x: Any, start: int, stop: int) -> Any:
    """Return part of the last axis."""
    return slice_axis(x, start, stop, aval_of(x).ndim - 1)


def _subset(name: str, subset: tuple[int, int], count: int) -> tuple[int, int]:
    start, stop = subset
    if not 0 <= start <= stop <= count:
        raise ValueError(
            message(
                f"subset_by_index of {name} is a range of positions.",
                f"subset_by_index: {subset}, number of values: {count}",
                fix=f"Choose 0 <= start <= stop <= {count}.",
            )
        )
    return start, stop


def _only_default(name: str, **options: Any) -> None:
    """Raise for options that choose among implementations, because there is only one here."""
    for option, value in options.items():
        if value not in (None, False):
            raise NotImplementedError(
                message(
                    f"{name} has one implementation per platform.",
                    f"{option}: {value!r}",
                    fix=f"Leave {option} out.",
                )
            )
