"""`BCSR`: sparse matrices in batched compressed-row format, and their conversion to BCOO, which computes for them.

    data[indptr[i] : indptr[i + 1]]       the entries of row i, in the columns `indices` at the same places

Entries after `indptr[-1]` count for nothing. Read next: `bcoo.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import didax.numpy as dnp
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.value import Array
from didax.experimental.sparse._base import (
    JAXSparse,
    Shape,
    check_axes_of_scipy,
    check_index_dtype,
    over_batch,
)
from didax.experimental.sparse._products import bcoo_dot_general
from didax.experimental.sparse._shapes import bcoo_broadcast_in_dim, bcoo_concatenate
from didax.experimental.sparse.bcoo import BCOO, bcoo_fromdense, bcoo_sort_indices, extract_at


def rows_of(indices: Any, indptr: Any) -> Any:
    """The row of each entry of one matrix; for entries after the last row, the number of rows."""
    steps = dnp.zeros(indices.shape, indptr.dtype).at[indptr].add(1, mode="drop")
    return (dnp.cumsum(steps) - 1).astype(indices.dtype)


def starts_of(rows: Any, n_rows: int) -> Any:
    """Where the entries of each row start, for one matrix whose entries are in order."""
    counts = dnp.zeros(n_rows + 1, rows.dtype).at[rows + 1].add(1, mode="drop")
    return dnp.cumsum(counts).astype(rows.dtype)


class BCSR(JAXSparse):
    """A sparse array with two sparse axes, rows and columns; see the module.

    >>> import didax.numpy as dnp
    >>> a = BCSR.fromdense(dnp.array([[0.0, 2.0, 0.0], [1.0, 0.0, 4.0]]))
    >>> a.data, a.indices.tolist(), a.indptr.tolist()
    (Array([2., 1., 4.], dtype=float32), [1, 0, 2], [0, 1, 3])
    """

    _buffers: ClassVar[tuple[str, ...]] = ("data", "indices", "indptr")
    _flags: ClassVar[tuple[str, ...]] = ("indices_sorted", "unique_indices")

    indices: Any
    indptr: Any
    indices_sorted: bool
    unique_indices: bool
    n_sparse = 2

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ):
        super().__init__(args, shape=shape, indices_sorted=indices_sorted, unique_indices=unique_indices)
        _check(self.data, self.indices, self.indptr, self.shape)

    nse: int = property(lambda self: self.indices.shape[-1])  # type: ignore[assignment]
    n_batch: int = property(lambda self: self.indices.ndim - 1)  # type: ignore[assignment]
    n_dense: int = property(lambda self: self.data.ndim - self.indices.ndim)  # type: ignore[assignment]

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCSR:
        """The array with the entries of a dense one that are not zero; see `bcsr_fromdense`."""
        return bcsr_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """The array with the entries of a SciPy sparse matrix."""
        check_axes_of_scipy(n_batch, n_dense, fix="Leave both out.")
        if mat.ndim != 2:
            rule = "BCSR from_scipy_sparse requires 2D array."
            raise ValueError(message(rule, f"given: {mat.ndim}D", fix="Use BCOO."))
        mat, dtype = mat.tocsr(), index_dtype or np.int32
        return cls((mat.data, mat.indices.astype(dtype), mat.indptr.astype(dtype)), shape=mat.shape)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The array of a BCOO array with two sparse axes."""
        if arr.n_sparse != 2:
            rule = "BCSR.from_bcoo requires n_sparse=2."
            raise NotImplementedError(message(rule, f"array: {arr!r}", fix="Use update_layout."))
        arr = arr if arr.indices_sorted else bcoo_sort_indices(arr)
        n_rows = arr.sparse_shape[0]
        indptr = over_batch(lambda rows: starts_of(rows, n_rows), arr.n_batch)(arr.indices[..., 0])
        return cls(
            (arr.data, arr.indices[..., 1], indptr),
            shape=arr.shape,
            indices_sorted=True,
            unique_indices=arr.unique_indices,
        )

    def to_bcoo(self) -> BCOO:
        """The array in coordinate format."""
        indices = coordinates(self.indices, self.indptr)
        flags = {name: getattr(self, name) for name in self._flags}
        return BCOO((self.data, indices), shape=self.shape, **flags)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The array with one entry per index, as `BCOO.sum_duplicates` makes it."""
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse, remove_zeros))

    def todense(self) -> Array:
        """The dense array."""
        return self.to_bcoo().todense()

    def transpose(self, axes: Any = None) -> Any:
        """Refused: the transpose is a matrix in compressed-column format."""
        rule = "Transpose is not implemented for BCSR."
        raise NotImplementedError(message(rule, f"array: {self!r}", fix="Use to_bcoo()."))


def _check(data: Any, indices: Any, indptr: Any, shape: Shape) -> None:
    for x in (indices, indptr):
        check_index_dtype(x, "The indices of a sparse array")
    n_batch = indices.ndim - 1
    facts = f"Invalid data: {data.shape}, indices: {indices.shape}, indptr: {indptr.shape}, shape: {shape}"
    n_dense = data.ndim - indices.ndim
    if n_batch < 0 or len(shape) - n_batch - n_dense != 2:
        rule = "BCSR array must have 2 sparse dimensions."
        raise ValueError(message(rule, facts, fix="Use BCOO for others."))
    if indptr.shape[n_batch:] != (shape[n_batch] + 1,):
        rule = "indptr shape must match the matrix shape plus 1."
        raise ValueError(message(rule, facts, fix="It has the start of each row, and the end of the last."))
    fits = data.shape[n_batch:] == (indices.shape[-1], *shape[n_batch + 2 :])
    for x in (data, indices, indptr):
        fits = fits and all(n in (1, m) for n, m in zip(x.shape[:n_batch], shape[:n_batch], strict=True))
    if not fits:
        rule = "A BCSR array has data of shape (*batch, nse, *dense) and indices of shape (*batch, nse)."
        fix = "Bring them to these shapes; batch dimensions not compatible with the shape have length 1."
        raise ValueError(message(rule, facts, fix=fix))


def coordinates(indices: Any, indptr: Any) -> Any:
    """The indices of the entries in coordinate format."""
    n_batch = indices.ndim - 1

    def both(indices: Any, indptr: Any) -> Any:
        return dnp.stack([rows_of(indices, indptr), indices], -1)

    return over_batch(both, n_batch)(indices, indptr)


@api_boundary
def bcsr_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> BCSR:
    """The array with the entries of a dense one that are not zero; see `bcoo_fromdense`.

    Raises ValueError unless two axes are left beside the batch and the dense ones.

    >>> a = bcsr_fromdense(dnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> a, a.indptr.tolist()
    (BCSR(float32[2, 2], nse=2), [0, 1, 2])
    """
    mat = dnp.asarray(mat)
    if mat.ndim - n_batch - n_dense != 2:
        rule = "bcsr_fromdense: must have 2 sparse dimensions."
        facts = f"{mat.aval}, n_batch={n_batch}, n_dense={n_dense}"
        raise ValueError(message(rule, facts, fix="Choose n_batch and n_dense so that two axes are left."))
    return BCSR.from_bcoo(
        bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    )


@api_boundary
def bcsr_todense(mat: BCSR) -> Array:
    """The dense array.

    >>> bcsr_todense(BCSR((dnp.array([2.0, 1.0]), dnp.array([1, 0]), dnp.array([0, 1, 2])), shape=(2, 2)))
    Array([[0., 2.],
           [1., 0.]], dtype=float32)
    """
    return mat.todense()


@api_boundary
def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Array:
    """The entries of a dense array at the places of a BCSR array.

    >>> bcsr_extract(dnp.array([1, 0]), dnp.array([0, 1, 2]), dnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([2., 3.], dtype=float32)
    """
    indices, indptr, mat = map(dnp.asarray, (indices, indptr, mat))
    if not indices.ndim == indptr.ndim == mat.ndim - 1 > 0:
        rule = "bcsr_extract takes a matrix, or a batch of them, and vectors of positions for each."
        facts = f"indices: {indices.aval}, indptr: {indptr.aval}, mat: {mat.aval}"
        raise ArgumentError(
            message(rule, facts, fix="Pass the indices and indptr of a BCSR array of mat's shape.")
        )
    return extract_at(coordinates(indices, indptr), mat)  # type: ignore[no-any-return]


@api_boundary
def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """The array with one entry per index, in the order of indices; under `jit` say `nse`.

    >>> a = BCSR((dnp.array([2.0, 1.0]), dnp.array([1, 1]), dnp.array([0, 2])), shape=(1, 3))
    >>> bcsr_sum_duplicates(a), bcsr_sum_duplicates(a).data
    (BCSR(float32[1, 3], nse=1), Array([3.], dtype=float32))
    """
    return mat.sum_duplicates(nse, remove_zeros=False)


@api_boundary
def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """As `bcoo_broadcast_in_dim`.

    >>> a = BCSR.fromdense(dnp.eye(2))
    >>> bcsr_broadcast_in_dim(a, shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCSR(float32[3, 2, 2], nse=2, n_batch=1)
    """
    return BCSR.from_bcoo(
        bcoo_broadcast_in_dim(mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions)
    )


@api_boundary
def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """As `bcoo_concatenate`.

    >>> a = BCSR.fromdense(dnp.eye(2))
    >>> bcsr_concatenate([a, a], dimension=0).todense()
    Array([[1., 0.],
           [0., 1.],
           [1., 0.],
           [0., 1.]], dtype=float32)
    """
    return BCSR.from_bcoo(bcoo_concatenate([x.to_bcoo() for x in operands], dimension=dimension))


@api_boundary
def bcsr_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:  # fmt: skip
    """As `bcoo_dot_general`, of a BCSR array and a dense one.

    Raises NotImplementedError where the second operand is sparse.

    >>> a = BCSR.fromdense(dnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> bcsr_dot_general(a, dnp.array([1.0, 10.0]), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([20.,  1.], dtype=float32)
    """
    if isinstance(rhs, JAXSparse):
        rule = "bcsr_dot_general currently implemented for BCSR lhs and ndarray rhs."
        facts = f"given: {type(lhs).__name__}, {type(rhs).__name__}"
        raise NotImplementedError(message(rule, facts, fix="Use to_bcoo()."))
    return bcoo_dot_general(
        lhs.to_bcoo() if isinstance(lhs, BCSR) else lhs,
        rhs,
        dimension_numbers=dimension_numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
