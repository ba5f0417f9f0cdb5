"""`BCOO`: sparse arrays in batched coordinate format, and how their entries are stored.

    a = BCOO.fromdense(matrix)          a.data, a.indices: the entries and where they are
    a @ x, x @ a, a.T, a * 2, a + a     what is computed with it; `sparsify` gives more
    a.todense()

The axes are batch axes, then sparse ones, then dense ones. `data` has the shape `(*batch, nse, *dense)`, `indices` the
shape `(*batch, nse, n_sparse)`; in either, a batch axis may have length 1, which all elements share. Entries at equal
indices add up; entries whose indices are out of bounds count for nothing, and fill up to `nse` where there are fewer.
Read next: `_shapes.py`, `_products.py`, `transform.py`.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

import didax.numpy as dnp
from didax import lax
from didax.api.vmap import vmap
from didax.core.dims import Size, is_symbolic
from didax.core.errors import ArgumentError, ConcretizationTypeError, api_boundary, message
from didax.core.tracing import known_value
from didax.core.value import Array
from didax.experimental.sparse._base import (
    JAXSparse,
    Shape,
    SparseEfficiencyError,
    SparseEfficiencyWarning,
    check_axes_of_scipy,
    check_index_dtype,
    over_batch,
)


class Layout(NamedTuple):
    """How many axes of each kind there are, and how many entries."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int


class BCOO(JAXSparse):
    """A sparse array with entries `data` at `indices`, and zeros elsewhere; see the module.

    >>> import didax.numpy as dnp
    >>> a = BCOO.fromdense(dnp.array([[0.0, 2.0, 0.0], [1.0, 0.0, 4.0]]))
    >>> a
    BCOO(float32[2, 3], nse=3)
    >>> a.data, a.indices.tolist()
    (Array([2., 1., 4.], dtype=float32), [[0, 1], [1, 0], [1, 2]])
    >>> a @ dnp.ones(3)
    Array([2., 5.], dtype=float32)
    """

    _buffers: ClassVar[tuple[str, ...]] = ("data", "indices")
    _flags: ClassVar[tuple[str, ...]] = ("indices_sorted", "unique_indices")

    indices: Any
    indices_sorted: bool
    unique_indices: bool

    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ):
        super().__init__(args, shape=shape, indices_sorted=indices_sorted, unique_indices=unique_indices)
        _check(self.data, self.indices, self.shape)
        if not self.n_sparse and self.nse > 1:  # all entries are at one place, and none is out of bounds
            self.unique_indices = False

    nse: int = property(lambda self: self.indices.shape[-2])  # type: ignore[assignment]
    n_batch: int = property(lambda self: self.indices.ndim - 2)  # type: ignore[assignment]
    n_sparse: int = property(lambda self: self.indices.shape[-1])  # type: ignore[assignment]
    n_dense: int = property(lambda self: self.data.ndim - 1 - self.n_batch)  # type: ignore[assignment]

    @property
    def layout(self) -> Layout:
        """The numbers of axes and entries."""
        return Layout(self.n_batch, self.n_sparse, self.n_dense, self.nse)

    @property
    def sparse_shape(self) -> Shape:
        """The lengths of the sparse axes."""
        return self.shape[self.n_batch : self.n_batch + self.n_sparse]

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:
        """The array with the entries of a dense one that are not zero; see `bcoo_fromdense`."""
        return bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """The array with the entries of a SciPy sparse matrix."""
        check_axes_of_scipy(n_batch, n_dense, fix="Use update_layout on the result.")
        coo = mat.tocoo()
        indices = np.stack([coo.row, coo.col], -1).astype(index_dtype or np.int32)
        return cls((dnp.asarray(coo.data), indices), shape=mat.shape)

    def update_layout(
        self, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
    ) -> BCOO:
        """The same array with other numbers of batch and dense axes; see `bcoo_update_layout`."""
        return bcoo_update_layout(self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The array with one entry per index, in the order of indices; entries that are 0 are removed if asked.

        Under `jit` say `nse`: further entries are lost, missing ones stand out of bounds.
        """
        return (bcoo_eliminate_zeros if remove_zeros else bcoo_sum_duplicates)(self, nse=nse)

    def sort_indices(self) -> BCOO:
        """The array with entries in the order of their indices."""
        return bcoo_sort_indices(self)

    def todense(self) -> Array:
        """The dense array."""
        return bcoo_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """The array with its axes in another order, each among those of its kind."""
        return bcoo_transpose(self, permutation=range(self.ndim)[::-1] if axes is None else axes)


def _check(data: Any, indices: Any, shape: Shape) -> Layout:
    check_index_dtype(indices, "The indices of a sparse array")
    nse, n_sparse = indices.shape[-2:] if indices.ndim > 1 else (-1, 0)
    n_batch = indices.ndim - 2
    n_dense = len(shape) - n_batch - n_sparse
    fits = nse >= 0 <= n_dense and data.shape[n_batch:] == (nse, *shape[n_batch + n_sparse :])
    for x in (data, indices):
        fits = fits and all(n in (1, m) for n, m in zip(x.shape[:n_batch], shape[:n_batch], strict=True))
    if not fits:
        rule = "A BCOO array has data of shape (*batch, nse, *dense) and indices of shape (*batch, nse, n_sparse)."
        facts = f"Invalid data: {data.shape}, indices: {indices.shape}, shape: {shape}"
        fix = "Bring them to these shapes; batch dimensions not compatible with the shape have length 1."
        raise ValueError(message(rule, facts, fix=fix))
    return Layout(n_batch, n_sparse, n_dense, nse)


class UnknownEntriesError(ConcretizationTypeError, ValueError):
    """The number of entries of a sparse array is traced. JAX raises either class, depending on the function."""


def concrete_nse(nse: Any, what: str) -> int:
    """The number of entries, which has to be known; UnknownEntriesError where it is traced."""
    known = known_value(nse)
    if known is None:
        rule = f"{what} has to know how many entries to store: nse must be specified while tracing."
        fix = "Pass nse=, an integer that is large enough."
        raise UnknownEntriesError(message(rule, f"nse: {nse}", fix=fix))
    found = operator.index(np.asarray(known)[()] if not isinstance(known, int) else known)
    if found < 0:
        rule = f"{what} takes a number of entries."
        raise ArgumentError(message(rule, f"nse: {found}", fix="Pass an integer of at least 0."))
    return found


def enough(nse: int, lengths: Sequence[Size]) -> int:
    """As many entries, but no more than there are places, if that number is known."""
    places = math.prod(lengths)
    return nse if is_symbolic(places) else min(nse, places)


def columns(indices: Any) -> tuple[Any, ...]:
    """The indices as one array for each sparse axis."""
    return tuple(indices[..., i] for i in range(indices.shape[-1]))


def bounds(mat_shape: Sequence[int], indices: Any) -> Any:
    """The lengths of the sparse axes, with the dtype of the indices."""
    if any(map(is_symbolic, mat_shape)):
        return dnp.array(mat_shape, dtype=indices.dtype)
    return dnp.asarray(np.array(mat_shape, np.int64).astype(indices.dtype))


def in_bounds(indices: Any, sparse_shape: Sequence[int]) -> Any:
    """Which entries are within bounds; the others do not count."""
    return (indices < bounds(sparse_shape, indices)).all(-1)


def masked(data: Any, keep: Any) -> Any:
    """The entries, with zeros where they are not kept; `keep` has no dense axes."""
    extra = data.ndim - keep.ndim
    return dnp.where(keep[(..., *(None,) * extra)], data, dnp.zeros((), data.dtype))


# --- To and from dense arrays --------------------------------------------------------------------------------


@api_boundary
def bcoo_todense(mat: BCOO) -> Array:
    """The dense array.

    >>> a = BCOO((dnp.array([1.0, 2.0, 4.0]), dnp.array([[0], [2], [2]])), shape=(3,))
    >>> bcoo_todense(a)  # entries at equal indices add up
    Array([1., 0., 6.], dtype=float32)
    """
    return todense_of(mat.data, mat.indices, mat.shape)


def todense_of(data: Any, indices: Any, shape: Shape) -> Array:
    """The dense array with these entries."""
    n_batch, n_sparse, _, _ = _check(data, indices, shape)

    def scatter(data: Any, indices: Any) -> Any:
        if not n_sparse:
            return data.sum(0, dtype=data.dtype)
        return dnp.zeros(shape[n_batch:], data.dtype).at[columns(indices)].add(data, mode="drop")

    return dnp.broadcast_to(over_batch(scatter, n_batch)(data, indices), shape)


@api_boundary
def bcoo_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32
) -> BCOO:
    """The array with the entries of a dense one that are not zero.

    Args:
      mat: the dense array.
      nse: how many entries to store for each element of the batch; has to be given under `jit`. By default as many
        as the element with most has.
      n_batch, n_dense: how many leading axes are batch axes, how many trailing ones are dense.
      index_dtype: the dtype of the indices.

    Raises ValueError where there are fewer axes than `n_batch + n_dense`, and ConcretizationTypeError under `jit`
    without `nse`.

    >>> a = bcoo_fromdense(dnp.array([[0.0, 2.0], [0.0, 0.0]]), n_batch=1)
    >>> a, a.indices.tolist()  # the second row has no entry: its index is out of bounds
    (BCOO(float32[2, 2], nse=1, n_batch=1), [[[1]], [[2]]])
    """
    mat = dnp.asarray(mat)
    n_sparse = mat.ndim - n_batch - n_dense
    if n_sparse < 0 or n_batch < 0 or n_dense < 0:
        rule = "The batch and dense axes are axes of the array."
        raise ValueError(
            message(rule, f"{mat.aval}, n_batch={n_batch}, n_dense={n_dense}", fix="Ask for fewer.")
        )
    stored = mat != 0
    if n_dense:
        stored = stored.any(tuple(range(mat.ndim - n_dense, mat.ndim)))
    counts = stored.sum(tuple(range(n_batch, stored.ndim)))
    size = concrete_nse(counts.max(initial=0) if nse is None else nse, "bcoo_fromdense")

    def places(stored: Any) -> Any:
        if not n_sparse:
            return dnp.zeros((size, 0), index_dtype)
        found = dnp.nonzero(stored, size=size, fill_value=stored.shape)
        return dnp.stack(found, -1).astype(index_dtype)

    indices = over_batch(places, n_batch)(stored)
    data = extract_at(indices, mat)
    if not n_sparse:  # such entries have no index that would be out of bounds
        data = masked(data, dnp.arange(size) < counts[..., None])
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


@api_boundary
def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """The entries of a dense array at the indices of a sparse one.

    Where indices repeat, `assume_unique=True` takes the entry each time, False once; the default is the flag of
    the sparse array.

    Raises TypeError where the first argument is not a BCOO array, and ValueError where the shapes differ.

    >>> a = BCOO.fromdense(dnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> bcoo_extract(a, dnp.array([[1.0, 2.0], [3.0, 4.0]])).todense()
    Array([[0., 2.],
           [3., 0.]], dtype=float32)
    """
    if not isinstance(sparr, BCOO):
        rule = "bcoo_extract takes a BCOO array and a dense one."
        raise TypeError(message(rule, f"given: {type(sparr).__name__}", fix="Swap the arguments."))
    arr = dnp.asarray(arr)
    if arr.shape != sparr.shape:
        rule = "bcoo_extract takes arrays of one shape (shape mismatch)."
        raise ValueError(message(rule, f"shapes: {sparr.shape}, {arr.shape}", fix="Broadcast the dense one."))
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    return sparr._with_data(extract_at(sparr.indices, arr, unique))


def elements_at(x: Any, places: Any, fill: int = 0) -> Any:
    """The elements of a dense array at positions along its first axes; `fill` where these are out of bounds."""
    if 0 in x.shape[: len(places)]:
        return dnp.full_like(x, fill, shape=(len(places[0]), *x.shape[len(places) :]))
    return x.at[places].get(mode="fill", fill_value=fill)


def extract_at(indices: Any, arr: Any, assume_unique: bool = True) -> Any:
    """The entries of a dense array at indices."""
    n_batch, (nse, n_sparse) = indices.ndim - 2, indices.shape[-2:]
    sparse_shape = arr.shape[n_batch : n_batch + n_sparse]

    def gather(indices: Any, arr: Any) -> Any:
        if not n_sparse:
            data = dnp.broadcast_to(arr, (nse, *arr.shape))
            return data if assume_unique else masked(data, dnp.arange(nse) < 1)
        data = elements_at(arr, columns(indices))
        if assume_unique:
            return data
        first = unique_places(indices, sparse_shape).first
        return masked(data, dnp.zeros(nse, bool).at[first].set(True, mode="drop"))

    return over_batch(gather, n_batch)(indices, arr)


# --- The order of the entries --------------------------------------------------------------------------------


class Unique(NamedTuple):
    """The distinct places among some, in order; out of bounds there is one place, the last."""

    indices: Any  # (nse, n_sparse), filled up with the place out of bounds
    inverse: Any  # (nse,): which place each entry is at
    first: Any  # (nse,): the first entry at each place, nse where there is none
    count: Any  # how many places are within bounds


def unique_places(indices: Any, sparse_shape: Shape) -> Unique:
    """The distinct places among those of an array without a batch."""
    nse = indices.shape[0]
    outside = bounds(sparse_shape, indices)
    indices = dnp.where(in_bounds(indices, sparse_shape)[:, None], indices, outside)
    ordered, order = _sorted(indices)
    new = dnp.ones(nse, bool).at[1:].set((ordered[1:] != ordered[:-1]).any(-1))
    place = dnp.cumsum(new, dtype=np.int32) - 1
    return Unique(
        dnp.broadcast_to(outside, indices.shape).at[place].set(ordered),
        dnp.zeros(nse, np.int32).at[order].set(place),
        dnp.full(nse, nse, np.int32).at[place].min(order),
        (new & in_bounds(ordered, sparse_shape)).sum(),
    )


def _sorted(indices: Any) -> tuple[Any, Any]:
    """Indices without a batch in order, and which entry each one is of."""
    *ordered, order = lax.sort(
        (*columns(indices), lax.iota(np.int32, indices.shape[0])), num_keys=indices.shape[1]
    )
    return dnp.stack(ordered, -1), order


@api_boundary
def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The array with entries in the order of their indices.

    >>> a = BCOO((dnp.array([1.0, 2.0]), dnp.array([[2], [0]])), shape=(3,))
    >>> bcoo_sort_indices(a).indices.tolist(), bcoo_sort_indices(a).data
    ([[0], [2]], Array([2., 1.], dtype=float32))
    """
    data, indices = mat.data, mat.indices
    if mat.n_sparse:
        indices, order = over_batch(_sorted, mat.n_batch)(indices)
        data = over_batch(lambda data, order: data[order], mat.n_batch)(data, order)
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices)


@api_boundary
def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array with one entry per index, in the order of indices; under `jit` say `nse`.

    Raises ConcretizationTypeError under `jit` without `nse`.

    >>> a = BCOO((dnp.array([1.0, 2.0, 4.0]), dnp.array([[2], [0], [2]])), shape=(3,))
    >>> bcoo_sum_duplicates(a).indices.tolist(), bcoo_sum_duplicates(a).data
    ([[0], [2]], Array([2., 5.], dtype=float32))
    """
    n_batch, n_sparse, _, _ = mat.layout
    if not n_sparse:
        size = 1 if nse is None else concrete_nse(nse, "bcoo_sum_duplicates")
        data = mat.data.sum(n_batch, keepdims=True, dtype=mat.dtype)
        indices = dnp.zeros((*mat.indices.shape[:n_batch], 1, 0), mat.indices.dtype)
    else:
        sparse_shape = mat.sparse_shape
        indices, place, _, counts = over_batch(lambda x: unique_places(x, sparse_shape), n_batch)(mat.indices)
        size = concrete_nse(counts.max(initial=0) if nse is None else nse, "bcoo_sum_duplicates")

        def add(place: Any, data: Any) -> Any:
            return dnp.zeros((size, *data.shape[1:]), data.dtype).at[place].add(data, mode="drop")

        data = over_batch(add, n_batch)(place, mat.data)
    summed = resized(data, indices, size, mat.sparse_shape)
    return BCOO(summed, shape=mat.shape, indices_sorted=True, unique_indices=True)


def resized(data: Any, indices: Any, nse: int, sparse_shape: Shape) -> tuple[Any, Any]:
    """Buffers with so many entries: the last are dropped, or entries out of bounds added."""
    axis = indices.ndim - 2

    def fitted(x: Any, fill: Any) -> Any:
        present = x.shape[axis]
        if present >= nse:
            return lax.slice_in_dim(x, 0, nse, axis=axis)
        shape = (*x.shape[:axis], nse - present, *x.shape[axis + 1 :])
        return dnp.concatenate([x, dnp.broadcast_to(fill, shape)], axis)

    return fitted(data, dnp.zeros((), data.dtype)), fitted(indices, bounds(sparse_shape, indices))


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array with one entry per index, without those that are 0."""
    n_batch = mat.n_batch
    zero = (mat.data == 0).all(tuple(range(n_batch + 1, mat.data.ndim)))
    shared = tuple(i for i in range(n_batch) if mat.indices.shape[i] == 1)
    zero = zero.all(shared, keepdims=True)
    indices = dnp.where(zero[..., None], bounds(mat.sparse_shape, mat.indices), mat.indices)
    return bcoo_sum_duplicates(BCOO((mat.data, indices), shape=mat.shape), nse=nse)


# --- The kinds of the axes -----------------------------------------------------------------------------------


def split(x: Sequence[Any], mat: BCOO) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """What belongs to the batch axes, to the sparse and to the dense ones."""
    end = mat.n_batch + mat.n_sparse
    return tuple(x[: mat.n_batch]), tuple(x[mat.n_batch : end]), tuple(x[end:])


@api_boundary
def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The array with its axes in another order, each among those of its kind.

    Raises TypeError for what is not a permutation, and NotImplementedError for one that moves an axis among those of
    another kind.

    >>> a = BCOO.fromdense(dnp.array([[0, 2, 0], [1, 0, 4]]))
    >>> bcoo_transpose(a, permutation=(1, 0)).todense()
    Array([[0, 1],
           [2, 0],
           [0, 4]], dtype=int32)
    """
    if not isinstance(permutation, Sequence | np.ndarray):
        rule = "transpose permutation must be a tuple/list/ndarray."
        raise TypeError(message(rule, f"given: {type(permutation).__name__}", fix="Pass a tuple."))
    order = tuple(map(operator.index, permutation))
    facts = f"permutation: {order}, shape: {mat.shape}"
    if sorted(order) != list(range(mat.ndim)):
        rule = "transpose permutation isn't a permutation of operand dimensions."
        raise TypeError(message(rule, facts, fix="Name each axis once."))
    if order == tuple(range(mat.ndim)):
        return mat
    n_batch, n_sparse, _, _ = mat.layout
    batch, sparse, dense = split(order, mat)
    for kind, axes, start in ("batch", batch, 0), ("dense", dense, n_batch + n_sparse):
        if sorted(axes) != list(range(start, start + len(axes))):
            rule = f"transpose permutation cannot permute {kind} axes with non-{kind} axes."
            facts += f", n_batch={n_batch}, n_dense={mat.n_dense}"
            raise NotImplementedError(message(rule, facts, fix="Change the layout first: update_layout."))
    data = dnp.transpose(mat.data, (*batch, n_batch, *(a - n_sparse + 1 for a in dense)))
    indices = dnp.transpose(mat.indices, (*batch, n_batch, n_batch + 1))
    same = sparse == tuple(range(n_batch, n_batch + n_sparse))
    if not same:
        indices = take_columns(indices, [a - n_batch for a in sparse])
    return BCOO(
        (data, indices),
        shape=[mat.shape[a] for a in order],
        indices_sorted=mat.indices_sorted and same,
        unique_indices=mat.unique_indices,
    )


def take_columns(indices: Any, which: Sequence[int]) -> Any:
    """The indices along some of the sparse axes."""
    if not which:
        return dnp.zeros((*indices.shape[:-1], 0), indices.dtype)
    return dnp.stack([indices[..., i] for i in which], -1)


@api_boundary
def bcoo_update_layout(
    mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
) -> BCOO:
    """The same array with other numbers of batch and dense axes.

    More batch or dense axes store zeros where these axes are longer than 1, and as many entries as before for each
    place along them: an error, a warning or nothing, by `on_inefficient` ("error", "warn", None).

    Raises ValueError for negative numbers and for more axes than the array has, and SparseEfficiencyError, a
    ValueError, for inefficient storage.

    >>> a = BCOO.fromdense(dnp.array([[0.0, 2.0], [1.0, 0.0]]), n_batch=1)
    >>> bcoo_update_layout(a, n_batch=0), bcoo_update_layout(a, n_dense=1, on_inefficient=None)
    (BCOO(float32[2, 2], nse=2), BCOO(float32[2, 2], nse=1, n_batch=1, n_dense=1))
    """
    n_batch = mat.n_batch if n_batch is None else operator.index(n_batch)
    n_dense = mat.n_dense if n_dense is None else operator.index(n_dense)
    if on_inefficient not in ("error", "warn", None):
        rule = "on_inefficient is 'error', 'warn' or None."
        raise ValueError(message(rule, f"on_inefficient: {on_inefficient!r}", fix="Choose one of them."))
    if min(n_batch, n_dense) < 0:
        rule = f"n_{'batch' if n_batch < 0 else 'dense'} must be non-negative."
        raise ValueError(message(rule, f"n_batch={n_batch}, n_dense={n_dense}", fix="Count from 0."))
    if n_batch + n_dense > mat.ndim:
        rule = (
            f"The sum of n_batch={n_batch} and n_dense={n_dense} cannot be larger than mat.ndim={mat.ndim}."
        )
        raise ValueError(message(rule, f"array: {mat!r}", fix="Ask for fewer."))
    for kind, new, old, axes in (
        ("dense", n_dense, mat.n_dense, mat.shape[mat.ndim - n_dense : mat.ndim - mat.n_dense]),
        ("batch", n_batch, mat.n_batch, mat.shape[mat.n_batch : n_batch]),
    ):
        if new > old and any(n > 1 for n in axes):
            _inefficient(
                f"For matrix of shape {mat.shape}, increasing n_{kind} from {old} to {new}", on_inefficient
            )
    if n_dense < mat.n_dense:
        mat = _dense_to_sparse(mat, mat.n_dense - n_dense)
    if n_batch < mat.n_batch:
        mat = _batch_to_sparse(mat, mat.n_batch - n_batch)
    if n_dense > mat.n_dense:
        mat = _sparse_to_dense(mat, n_dense - mat.n_dense)
    if n_batch > mat.n_batch:
        mat = _sparse_to_batch(mat, n_batch - mat.n_batch)
    return mat


def _inefficient(what: str, reaction: str | None) -> None:
    rule = f"{what} results in inefficient storage."
    others = "None" if reaction == "warn" else "'warn' or None"
    fix = f"Set the on_inefficient argument of bcoo_update_layout to {others}."
    if reaction == "error":
        raise SparseEfficiencyError(message(rule, fix=fix))
    if reaction == "warn":
        warnings.warn(message(rule, fix=fix), SparseEfficiencyWarning, stacklevel=4)


def _grid(lengths: Sequence[int], dtype: Any) -> Any:
    """All places of an array of this shape, in order: (number, axes)."""
    places = np.indices(tuple(lengths), np.int64).reshape(len(lengths), -1).T
    return dnp.asarray(places.astype(dtype))


def _dense_to_sparse(mat: BCOO, n: int) -> BCOO:
    """The first n dense axes become the last sparse ones: each entry becomes as many as they have places."""
    lengths = mat.shape[mat.ndim - mat.n_dense :][:n]
    count = math.prod(lengths)
    grid = _grid(lengths, mat.indices.dtype)

    def spread(indices: Any) -> Any:
        rows = dnp.repeat(indices, count, 0, total_repeat_length=indices.shape[0] * count)
        return dnp.concatenate([rows, dnp.tile(grid, (indices.shape[0], 1))], -1)

    indices = over_batch(spread, mat.n_batch)(mat.indices)
    start = mat.n_batch
    data = mat.data.reshape(*mat.data.shape[:start], mat.nse * count, *mat.data.shape[start + 1 + n :])
    return BCOO((data, indices), shape=mat.shape)


def _batch_to_sparse(mat: BCOO, n: int) -> BCOO:
    """The last n batch axes become the first sparse ones: their elements' entries come one after another."""
    start, lengths = mat.n_batch - n, mat.shape[mat.n_batch - n : mat.n_batch]
    data, indices = (
        dnp.broadcast_to(x, (*x.shape[:start], *lengths, *x.shape[mat.n_batch :])) for x in mat._bufs
    )
    count = math.prod(lengths) * mat.nse
    data = data.reshape(*data.shape[:start], count, *data.shape[mat.n_batch + 1 :])
    indices = indices.reshape(*indices.shape[:start], count, mat.n_sparse)
    grid = np.repeat(np.asarray(_grid(lengths, mat.indices.dtype)), mat.nse, 0)
    grid = dnp.broadcast_to(dnp.asarray(grid), (*indices.shape[:start], count, n))
    return BCOO((data, dnp.concatenate([grid, indices], -1)), shape=mat.shape)


def _sparse_to_dense(mat: BCOO, n: int) -> BCOO:
    """The last n sparse axes become the first dense ones: each entry is a block with one element that counts."""
    block = mat.shape[mat.ndim - mat.n_dense - n :]

    def widened(data: Any, indices: Any) -> Any:
        return dnp.zeros(block, data.dtype).at[columns(indices[-n:])].set(data, mode="drop")

    data = over_batch(lambda data, indices: vmap(widened)(data, indices), mat.n_batch)(mat.data, mat.indices)
    return BCOO((data, mat.indices[..., : mat.n_sparse - n]), shape=mat.shape)


def _sparse_to_batch(mat: BCOO, n: int) -> BCOO:
    """The first n sparse axes become the last batch axes: each element has all entries, those of others as 0."""
    lengths = mat.shape[mat.n_batch : mat.n_batch + n]

    def parted(data: Any, indices: Any) -> tuple[Any, Any]:
        place = (*columns(indices[:, :n]), dnp.arange(mat.nse))
        zeros = dnp.zeros((*lengths, *data.shape), data.dtype)
        rest = dnp.broadcast_to(indices[:, n:], (*lengths, mat.nse, mat.n_sparse - n))
        return zeros.at[place].set(data, mode="drop"), rest

    return BCOO(over_batch(parted, mat.n_batch)(mat.data, mat.indices), shape=mat.shape)
