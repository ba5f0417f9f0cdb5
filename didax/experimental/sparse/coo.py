"""`COO`, `CSR` and `CSC`: sparse matrices without batches, in the three formats of SciPy, and their products.

They can be made, multiplied with dense vectors and matrices, and made dense; `BCOO` computes for them and can do more.
Functions that differ in the format alone (`coo_matvec`, `csr_matvec`) are made by one function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

import didax.numpy as dnp
from didax.core.errors import api_boundary, message
from didax.core.value import Array
from didax.experimental.sparse._base import JAXSparse
from didax.experimental.sparse._products import bcoo_dot_general
from didax.experimental.sparse.bcoo import BCOO, bcoo_fromdense, bcoo_sort_indices
from didax.experimental.sparse.bcsr import BCSR, rows_of


class _Matrix(JAXSparse):
    """What the formats share: each is computed as a BCOO matrix, and made of one."""

    def __init__(self, args: Sequence[Any], *, shape: Sequence[int], **flags: bool):
        self._check_rank(shape)
        super().__init__(args, shape=shape, **flags)

    @classmethod
    def _check_rank(cls, shape: Sequence[int]) -> None:
        if len(shape) != 2:
            rule = f"{cls.__name__} must have ndim=2."
            raise ValueError(message(rule, f"got shape: {tuple(shape)}", fix="Use BCOO for others."))

    def to_bcoo(self) -> BCOO:
        """The matrix in batched coordinate format."""
        raise NotImplementedError

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> Self:
        """The matrix of a BCOO matrix without batch and dense axes, whose entries are in order."""
        raise NotImplementedError

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> Self:
        """The matrix with the entries of a dense one that are not zero; under `jit` say how many (`nse`).

        Raises ValueError unless the dense matrix has two axes.
        """
        mat = dnp.asarray(mat)
        cls._check_rank(mat.shape)
        return cls.from_bcoo(bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype))

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = np.int32) -> Self:
        cls._check_rank(shape)
        buffers = dnp.zeros(0, dtype), dnp.zeros((0, 2), index_dtype)
        return cls.from_bcoo(BCOO(buffers, shape=shape, indices_sorted=True, unique_indices=True))

    def todense(self) -> Array:
        """The dense matrix."""
        return self.to_bcoo().todense()

    def __matmul__(self, other: Any) -> Array:
        if isinstance(other, JAXSparse):
            rule = "matmul between two sparse objects of this format is not implemented."
            raise NotImplementedError(message(rule, f"left: {self!r}", f"right: {other!r}", fix="Use BCOO."))
        other = dnp.asarray(other)
        dtype = dnp.result_type(self.data, other)
        return _product(self._with_data(self.data.astype(dtype)), other.astype(dtype), (1, 2), False)


class COO(_Matrix):
    """A matrix with the entries `data[k]` at (`row[k]`, `col[k]`).

    A product with a dense operand raises TypeError where its length does not fit, with a sparse one
    NotImplementedError.

    >>> a = COO.fromdense(dnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> a.data, a.row.tolist(), a.col.tolist()
    (Array([2., 1.], dtype=float32), [0, 1], [1, 0])
    >>> a @ dnp.ones(2)
    Array([2., 1.], dtype=float32)
    """

    _buffers: ClassVar[tuple[str, ...]] = ("data", "row", "col")
    _flags: ClassVar[tuple[str, ...]] = ("rows_sorted", "cols_sorted")
    row: Any
    col: Any
    rows_sorted: bool
    cols_sorted: bool

    def to_bcoo(self) -> BCOO:
        return BCOO((self.data, dnp.stack([self.row, self.col], -1)), shape=self.shape)

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> COO:
        flags = {"rows_sorted": mat.indices_sorted}
        return cls((mat.data, mat.indices[:, 0], mat.indices[:, 1]), shape=mat.shape, **flags)

    def _sort_indices(self) -> COO:
        return self if self.rows_sorted else COO.from_bcoo(bcoo_sort_indices(self.to_bcoo()))

    def transpose(self, axes: Any = None) -> COO:
        """The transpose."""
        _check_axes(axes)
        flags = {"rows_sorted": self.cols_sorted, "cols_sorted": self.rows_sorted}
        return COO((self.data, self.col, self.row), shape=self.shape[::-1], **flags)


class CSR(_Matrix):
    """A matrix whose row i has the entries `data[indptr[i]:indptr[i + 1]]`, in the columns `indices` there.

    Products raise what those of `COO` raise.

    >>> a = CSR.fromdense(dnp.array([[0.0, 2.0, 0.0], [1.0, 0.0, 4.0]]))
    >>> a.data, a.indices.tolist(), a.indptr.tolist()
    (Array([2., 1., 4.], dtype=float32), [1, 0, 2], [0, 1, 3])
    >>> a @ dnp.ones(3)
    Array([2., 5.], dtype=float32)
    """

    _buffers: ClassVar[tuple[str, ...]] = ("data", "indices", "indptr")
    indices: Any
    indptr: Any

    def to_bcoo(self) -> BCOO:
        rows = rows_of(self.indices, self.indptr)
        return BCOO((self.data, dnp.stack([rows, self.indices], -1)), shape=self.shape)

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> CSR:
        return cls(BCSR.from_bcoo(mat)._bufs, shape=mat.shape)

    def transpose(self, axes: Any = None) -> CSC:
        """The transpose, in compressed-column format."""
        _check_axes(axes)
        return CSC(self._bufs, shape=self.shape[::-1])


class CSC(_Matrix):
    """A matrix whose column j has the entries `data[indptr[j]:indptr[j + 1]]`, in the rows `indices` there.

    Products raise what those of `COO` raise.

    >>> a = CSC.fromdense(dnp.array([[0.0, 2.0, 0.0], [1.0, 0.0, 4.0]]))
    >>> a.data, a.indices.tolist(), a.indptr.tolist()
    (Array([1., 2., 4.], dtype=float32), [1, 0, 1], [0, 1, 2, 3])
    >>> a @ dnp.ones(3)
    Array([2., 5.], dtype=float32)
    """

    _buffers: ClassVar[tuple[str, ...]] = ("data", "indices", "indptr")
    indices: Any
    indptr: Any

    def to_bcoo(self) -> BCOO:
        return self.transpose().to_bcoo().transpose()

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> CSC:
        return CSR.from_bcoo(mat.transpose()).transpose()

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSC:
        mat = dnp.asarray(mat)
        cls._check_rank(mat.shape)
        # Of more than `nse` entries, the first in the order of columns are kept.
        return CSR.fromdense(mat.T, nse=nse, index_dtype=index_dtype).transpose()

    def transpose(self, axes: Any = None) -> CSR:
        """The transpose, in compressed-row format."""
        _check_axes(axes)
        return CSR(self._bufs, shape=self.shape[::-1])


def _check_axes(axes: Any) -> None:
    if axes is not None:
        rule = "transpose of a matrix takes no axes."
        raise NotImplementedError(message(rule, f"axes: {axes!r}", fix="Leave them out, or use BCOO."))


def _product(mat: _Matrix, x: Any, ranks: tuple[int, ...], transpose: bool) -> Array:
    """The product of a matrix, or of its transpose, and a dense vector or matrix."""
    x = dnp.asarray(x)
    met = 0 if transpose else 1
    if x.ndim not in ranks or x.shape[0] != mat.shape[met] or x.dtype != mat.dtype:
        rule = "The product of a sparse matrix takes a dense operand of fitting rank, length and dtype."
        error = NotImplementedError if x.ndim not in ranks else TypeError
        facts = f"matmul with object of shape {x.shape} and dtype {x.dtype}, matrix: {mat!r}"
        raise error(message(rule, facts, fix="Reshape or cast it, or use BCOO."))
    return bcoo_dot_general(mat.to_bcoo(), x, dimension_numbers=(((met,), (0,)), ((), ())))  # type: ignore[no-any-return]


def _functions(cls: type[_Matrix]) -> tuple[Callable[..., Any], ...]:
    def fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> Any:
        """The matrix with the entries of a dense one that are not zero; under `jit` say how many (`nse`).

        Raises ValueError unless the dense matrix has two axes.

        >>> coo_fromdense(dnp.eye(2)), csr_fromdense(dnp.eye(2))
        (COO(float32[2, 2], nse=2), CSR(float32[2, 2], nse=2))
        """
        return cls.fromdense(mat, nse=nse, index_dtype=index_dtype)

    def todense(mat: Any) -> Array:
        """The dense matrix.

        >>> dense = dnp.array([[0.0, 2.0], [1.0, 0.0]])
        >>> coo_todense(COO.fromdense(dense)).tolist(), csr_todense(CSR.fromdense(dense)).tolist()
        ([[0.0, 2.0], [1.0, 0.0]], [[0.0, 2.0], [1.0, 0.0]])
        """
        return mat.todense()  # type: ignore[no-any-return]

    def matvec(mat: Any, v: Any, transpose: bool = False) -> Array:
        """The product of the matrix, or of its transpose, and a dense vector of its dtype.

        Raises TypeError for a vector of another length or dtype, and NotImplementedError for an operand of another
        rank.

        >>> dense, v = dnp.array([[0.0, 2.0], [1.0, 0.0]]), dnp.array([1.0, 10.0])
        >>> coo_matvec(COO.fromdense(dense), v), csr_matvec(CSR.fromdense(dense), v, transpose=True)
        (Array([20.,  1.], dtype=float32), Array([10.,  2.], dtype=float32))
        """
        return _product(mat, v, (1,), transpose)

    def matmat(mat: Any, B: Any, *, transpose: bool = False) -> Array:
        """The product of the matrix, or of its transpose, and a dense matrix of its dtype.

        Raises TypeError for a matrix of another length or dtype, and NotImplementedError for an operand of another
        rank.

        >>> dense, B = dnp.array([[0.0, 2.0], [1.0, 0.0]]), dnp.array([[1.0], [10.0]])
        >>> coo_matmat(COO.fromdense(dense), B).tolist(), csr_matmat(CSR.fromdense(dense), B, transpose=True).tolist()
        ([[20.0], [1.0]], [[10.0], [2.0]])
        """
        return _product(mat, B, (2,), transpose)

    made: list[Any] = [fromdense, todense, matvec, matmat]
    for function in made:
        function.__name__ = function.__qualname__ = f"{cls.__name__.lower()}_{function.__name__}"
    return tuple([api_boundary(function) for function in made])


coo_fromdense, coo_todense, coo_matvec, coo_matmat = _functions(COO)
csr_fromdense, csr_todense, csr_matvec, csr_matmat = _functions(CSR)
