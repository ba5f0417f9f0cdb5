"""Sparse arrays: `BCOO` and `BCSR` with batch and dense axes, and `COO`, `CSR`, `CSC`, as in `jax.experimental.sparse`.

    A = sparse.BCOO.fromdense(matrix)
    y = A @ x                                               products, sums, slices, reshapes, ...
    f = sparse.sparsify(lambda A, x: dnp.sin(A) @ x)        functions of dense arrays, for sparse ones
    sparse.grad(loss)(A, x)                                 a sparse array like A

Sparse arrays are pytrees, and everything is composed of gathers, scatters and sums, so `jit`, `vmap` and derivatives
apply. Shapes are static: the number of entries of a result follows from those of the operands.
Read next: `bcoo.py` (the format), `transform.py` (`sparsify`).
"""

from typing import TYPE_CHECKING

from didax.core.modules import on_access
from didax.experimental.sparse import _operators as _operators
from didax.experimental.sparse import linalg
from didax.experimental.sparse._base import (
    CuSparseEfficiencyWarning,
    JAXSparse,
    SparseEfficiencyError,
    SparseEfficiencyWarning,
)
from didax.experimental.sparse._creation import empty, eye, random_bcoo
from didax.experimental.sparse._products import (
    bcoo_conv_general_dilated,
    bcoo_dot_general,
    bcoo_dot_general_sampled,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
)
from didax.experimental.sparse._shapes import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_gather,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
)
from didax.experimental.sparse.ad import grad, jacfwd, jacobian, jacrev, value_and_grad
from didax.experimental.sparse.bcoo import (
    BCOO,
    bcoo_extract,
    bcoo_fromdense,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_todense,
    bcoo_transpose,
    bcoo_update_layout,
)
from didax.experimental.sparse.bcsr import (
    BCSR,
    bcsr_broadcast_in_dim,
    bcsr_concatenate,
    bcsr_dot_general,
    bcsr_extract,
    bcsr_fromdense,
    bcsr_sum_duplicates,
    bcsr_todense,
)
from didax.experimental.sparse.coo import (
    COO,
    CSC,
    CSR,
    coo_fromdense,
    coo_matmat,
    coo_matvec,
    coo_todense,
    csr_fromdense,
    csr_matmat,
    csr_matvec,
    csr_todense,
)
from didax.experimental.sparse.transform import SparseTracer, sparsify, todense

__all__ = [
    "BCOO",
    "BCSR",
    "COO",
    "CSC",
    "CSR",
    "CuSparseEfficiencyWarning",
    "JAXSparse",
    "SparseEfficiencyError",
    "SparseEfficiencyWarning",
    "SparseTracer",
    "bcoo_broadcast_in_dim",
    "bcoo_concatenate",
    "bcoo_conv_general_dilated",
    "bcoo_dot_general",
    "bcoo_dot_general_sampled",
    "bcoo_dynamic_slice",
    "bcoo_extract",
    "bcoo_fromdense",
    "bcoo_gather",
    "bcoo_multiply_dense",
    "bcoo_multiply_sparse",
    "bcoo_reduce_sum",
    "bcoo_reshape",
    "bcoo_rev",
    "bcoo_slice",
    "bcoo_sort_indices",
    "bcoo_squeeze",
    "bcoo_sum_duplicates",
    "bcoo_todense",
    "bcoo_transpose",
    "bcoo_update_layout",
    "bcsr_broadcast_in_dim",
    "bcsr_concatenate",
    "bcsr_dot_general",
    "bcsr_extract",
    "bcsr_fromdense",
    "bcsr_sum_duplicates",
    "bcsr_todense",
    "coo_fromdense",
    "coo_matmat",
    "coo_matvec",
    "coo_todense",
    "csr_fromdense",
    "csr_matmat",
    "csr_matvec",
    "csr_todense",
    "empty",
    "eye",
    "grad",
    "jacfwd",
    "jacobian",
    "jacrev",
    "linalg",
    "random_bcoo",
    "sparsify",
    "todense",
    "value_and_grad",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)
