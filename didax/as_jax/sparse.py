"""`jax.experimental.sparse`: the class `BCOO` of sparse arrays, for matrices and arrays without batch and dense axes.

    a = BCOO.fromdense(matrix)          a.data, a.indices: the entries and where they are
    a @ x, x @ a, a.T, a * 2, a + a     what is computed with it
    a.todense()

An entry may be listed several times: the sum counts. All else of JAX's sparse module is missing.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import didax.numpy as dnp
from didax import tree_util
from didax.core.errors import message

__all__ = ["BCOO", "JAXSparse"]


class JAXSparse:
    """The class of sparse arrays."""

    __array_priority__ = 100


class BCOO(JAXSparse):
    """An array of which `data[k]` stands at `indices[k]`; it is zero elsewhere."""

    n_batch = n_dense = 0

    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ):
        self.data, self.indices = map(dnp.asarray, args)
        self.shape = tuple(operator.index(n) for n in shape)
        self.indices_sorted, self.unique_indices = indices_sorted, unique_indices
        if self.data.ndim != 1 or self.indices.shape != (self.data.shape[0], len(self.shape)):
            rule = "BCOO takes an entry for each row of indices, without batch and dense axes."
            facts = f"data: {self.data.aval}, indices: {self.indices.aval}, shape: {self.shape}"
            raise NotImplementedError(message(rule, facts, fix="Use vmap for batches, or dense arrays."))

    ndim = n_sparse = property(lambda self: len(self.shape))
    dtype = property(lambda self: self.data.dtype)
    nse = property(lambda self: self.data.shape[0])
    size = property(lambda self: int(np.prod(self.shape)))
    T = property(lambda self: self.transpose())

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32, **asked: Any
    ) -> BCOO:
        """The array with the entries of a dense one that are not zero; under jit `nse` says how many to keep."""
        if any(asked.values()):
            rule = "BCOO.fromdense makes arrays without batch and dense axes."
            raise NotImplementedError(message(rule, f"asked for: {asked}", fix="Leave these out."))
        mat = dnp.asarray(mat)
        places = dnp.nonzero(mat, size=nse, fill_value=mat.shape)
        indices = dnp.stack(places, -1).astype(index_dtype) if mat.ndim else dnp.zeros((1, 0), index_dtype)
        data = mat.at[places].get(mode="fill", fill_value=0) if mat.ndim else mat[None]
        return cls((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = np.int32) -> BCOO:
        """The array with the entries of a sparse matrix of SciPy's."""
        coo = mat.tocoo()
        indices = np.stack([coo.row, coo.col], -1).astype(index_dtype)
        return cls((dnp.asarray(coo.data), indices), shape=mat.shape)

    def todense(self) -> Any:
        """The dense array."""
        places = tuple(self.indices[:, axis] for axis in range(self.ndim))
        return dnp.zeros(self.shape, self.dtype).at[places].add(self.data, mode="drop")

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """The array with its axes in another order."""
        order = list(range(self.ndim))[::-1] if axes is None else list(axes)
        return BCOO((self.data, self.indices[:, dnp.array(order)]), shape=[self.shape[a] for a in order])

    def _matvec(self, x: Any) -> Any:
        """The product of a matrix and a dense vector or matrix."""
        x = dnp.asarray(x)
        if self.ndim != 2 or x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            rule = "A BCOO matrix is multiplied with a vector or a matrix of fitting length."
            raise TypeError(
                message(rule, f"operands: {self.shape}, {x.aval}", fix="Reshape, or use todense().")
            )
        rows, columns = self.indices[:, 0], self.indices[:, 1]
        taken = x.at[columns].get(mode="fill", fill_value=0)
        terms = taken * (self.data if x.ndim == 1 else self.data[:, None])
        return dnp.zeros((self.shape[0], *x.shape[1:]), terms.dtype).at[rows].add(terms, mode="drop")

    def __matmul__(self, other: Any) -> Any:
        return self._matvec(other.todense() if isinstance(other, BCOO) else other)

    def __rmatmul__(self, other: Any) -> Any:
        other = dnp.asarray(other)
        out = self.T._matvec(other.T)
        return out.T

    def __mul__(self, other: Any) -> BCOO:
        if dnp.ndim(other):
            places = tuple(self.indices[:, axis] for axis in range(self.ndim))
            other = dnp.broadcast_to(other, self.shape).at[places].get(mode="fill", fill_value=0)
        return BCOO((self.data * other, self.indices), shape=self.shape)

    __rmul__ = __mul__

    def __neg__(self) -> BCOO:
        return self * -1

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, BCOO):
            return self.todense() + other
        data = dnp.concatenate([self.data, other.data])
        return BCOO((data, dnp.concatenate([self.indices, other.indices])), shape=self.shape)

    def sum(self, axis: Any = None) -> Any:
        """The sum of all entries, or along axes, as a dense array."""
        return self.data.sum() if axis is None else self.todense().sum(axis)

    def __repr__(self) -> str:
        return f"BCOO({self.dtype}{list(self.shape)}, nse={self.nse})"


tree_util.register_pytree_node(
    BCOO,
    lambda x: ((x.data, x.indices), (x.shape, x.indices_sorted, x.unique_indices)),
    lambda aux, leaves: _unflatten(aux, leaves),
)


def _unflatten(aux: Any, leaves: Any) -> BCOO:
    """Leaves may be no arrays, as when a tree is mapped to something else."""
    x = object.__new__(BCOO)
    (x.shape, x.indices_sorted, x.unique_indices), (x.data, x.indices) = aux, leaves
    return x
