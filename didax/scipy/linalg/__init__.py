"""Linear algebra with the names and arguments of `jax.scipy.linalg`.

    from didax.scipy import linalg
    linalg.expm(a), linalg.solve_sylvester(a, b, q), linalg.toeplitz(c)

The last two axes hold the matrices, and the axes before are batch axes, which broadcast. Keywords that tell SciPy how
to use memory or whether to check (`overwrite_a`, `check_finite`) are accepted and make no difference. What is not
unique, such as a Schur form, has no derivative; functions of matrices that are made of it have derivatives of every
order.

Read next: `_systems.py`, `_factors.py`, `_matrix_functions.py`, `_special_matrices.py`, in this order.
"""

from typing import TYPE_CHECKING

from didax.core.modules import on_access
from didax.scipy.linalg._factors import (
    eigh,
    eigh_tridiagonal,
    hessenberg,
    polar,
    qr,
    qr_multiply,
    rsf2csf,
    schur,
    svd,
)
from didax.scipy.linalg._matrix_functions import expm, expm_frechet, funm, sqrtm
from didax.scipy.linalg._special_matrices import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    fiedler_companion,
    hadamard,
    hankel,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    leslie,
    pascal,
    toeplitz,
)
from didax.scipy.linalg._systems import (
    cho_factor,
    cho_solve,
    cholesky,
    det,
    inv,
    lu,
    lu_factor,
    lu_solve,
    solve,
    solve_sylvester,
    solve_triangular,
)

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion", "convolution_matrix", "det", "dft",
    "eigh", "eigh_tridiagonal", "expm", "expm_frechet", "fiedler", "fiedler_companion", "funm", "hadamard", "hankel",
    "helmert", "hessenberg", "hilbert", "inv", "invhilbert", "invpascal", "leslie", "lu", "lu_factor", "lu_solve",
    "pascal", "polar", "qr", "qr_multiply", "rsf2csf", "schur", "solve", "solve_sylvester", "solve_triangular",
    "sqrtm", "svd", "toeplitz",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)
