"""Sparse arrays out of nothing: `empty`, `eye`, and random ones.

`sparse_format` chooses the class: "bcoo", "bcsr", "coo", "csr" or "csc". `random_bcoo` draws both the places of the
entries and their values from a key. Read next: `bcoo.py`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import didax.numpy as dnp
from didax import random
from didax.api.vmap import vmap
from didax.core import dtypes
from didax.core.errors import api_boundary, message
from didax.experimental.sparse.bcoo import BCOO
from didax.experimental.sparse.bcsr import BCSR
from didax.experimental.sparse.coo import COO, CSC, CSR

_FORMATS: dict[str, Any] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC}


def _format(name: str) -> Any:
    if name not in _FORMATS:
        rule = f"A sparse format is one of {', '.join(_FORMATS)}."
        raise ValueError(message(rule, f"sparse_format={name!r}", fix="Choose one of them."))
    return _FORMATS[name]


@api_boundary
def empty(
    shape: Sequence[int],
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **options: int,
) -> Any:
    """Return a sparse array of zeros.

    Args:
      shape, dtype, index_dtype: of the array and of its indices.
      sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
      options: for BCOO and BCSR, how many batch and dense axes it has, and entries: `n_batch`, `n_dense`, `nse`.

    Raises ValueError for an unknown format, and where the shape has fewer axes than are asked for.

    >>> empty((2, 3)), empty((2, 3), "int32", sparse_format="csr", index_dtype="int32").nse
    (BCOO(float32[2, 3], nse=0), 0)
    """
    cls = _format(sparse_format)
    if cls not in (BCOO, BCSR):
        return cls._empty(shape, dtype=dtype, index_dtype=index_dtype, **options)
    shape = tuple(map(operator.index, shape))
    n_batch, n_dense, nse = (options.pop(name, 0) for name in ("n_batch", "n_dense", "nse"))
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_sparse, n_batch, n_dense, nse) < 0 or options:
        rule = (
            "Invalid inputs: numbers of axes and entries count from 0, and the shape has all of these axes."
        )
        facts = f"shape={shape}, n_batch={n_batch}, n_dense={n_dense}, nse={nse}, {options or ''}"
        raise ValueError(message(rule, facts, fix="Ask for fewer axes."))
    if cls is BCSR and n_sparse != 2:
        rule = "BCSR sparse.empty: must have 2 sparse dimensions."
        raise ValueError(
            message(rule, f"shape={shape}, n_batch={n_batch}, n_dense={n_dense}", fix="Use BCOO.")
        )
    batch, sparse = shape[:n_batch], shape[n_batch : n_batch + n_sparse]
    data = dnp.zeros((*batch, nse, *shape[n_batch + n_sparse :]), dtype)
    indices = dnp.broadcast_to(np.array(sparse, np.dtype(index_dtype)), (*batch, nse, n_sparse))
    out = BCOO((data, indices), shape=shape, indices_sorted=True, unique_indices=True)
    return out if cls is BCOO else BCSR.from_bcoo(out)


@api_boundary
def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = None, index_dtype: Any = "int32",
    sparse_format: str = "bcoo", **options: int,
) -> Any:  # fmt: skip
    """Return a sparse matrix with ones along the k-th diagonal.

    Args:
      N, M: numbers of rows and columns, by default equal.
      k: which diagonal: 0 is the main one, positive ones are above it.
      dtype, index_dtype: of the matrix and of its indices.
      sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
      options: for BCOO and BCSR, how many batch and dense axes it has: `n_batch`, `n_dense`.

    Raises ValueError for an unknown format.

    >>> eye(2, 3, k=1)
    BCOO(float32[2, 3], nse=2)
    >>> eye(2, 3, k=1).todense()
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    cls = _format(sparse_format)
    N, k = operator.index(N), operator.index(k)
    M = N if M is None else operator.index(M)
    length = max(0, min(N, M - k) if k > 0 else min(N + k, M))
    if not length and cls in (BCOO, BCSR):
        return empty((N, M), dtype, index_dtype, sparse_format, **options)
    if options.get("n_batch") or options.get("n_dense"):
        return cls.fromdense(dnp.eye(N, M, k, dtype=dtype), index_dtype=index_dtype, **options)
    places = np.arange(length)
    indices = np.stack([places - min(k, 0), places + max(k, 0)], -1).astype(index_dtype)
    data = dnp.ones(length, dtype)
    out = BCOO((data, indices), shape=(N, M), indices_sorted=True, unique_indices=True)
    return out if cls is BCOO else cls.from_bcoo(out)


@api_boundary
def random_bcoo(
    key: Any, shape: Sequence[int], *, dtype: Any = None, indices_dtype: Any = None, nse: float = 0.2,
    n_batch: int = 0, n_dense: int = 0, unique_indices: bool = True, sorted_indices: bool = False,
    generator: Callable[..., Any] = random.uniform, **kwds: Any,
) -> BCOO:  # fmt: skip
    """Return a random BCOO array.

    Args:
      key: a random key.
      shape, dtype: of the array.
      indices_dtype: of the indices, by default that of integers.
      nse: the number of entries of each element of the batch, or, between 0 and 1, which share of the sparse places.
      n_batch, n_dense: how many axes are batch axes and dense axes.
      unique_indices: whether indices differ; sorted_indices: whether they are in order.
      generator: draws the entries: `generator(key, shape=..., dtype=..., **kwds)`.

    Raises ValueError where the shape has fewer axes than are asked for, `nse` is negative or not below the number of
    places, and `indices_dtype` is too narrow.

    >>> a = random_bcoo(random.key(0), (4, 5), nse=3)
    >>> a, bool((a.data < 1).all())
    (BCOO(float32[4, 5], nse=3), True)
    """
    shape = tuple(map(operator.index, shape))
    n_sparse = len(shape) - n_batch - n_dense
    if n_batch < 0 or n_dense < 0 or n_sparse < 0:
        rule = "Batch and dense axes are axes of the shape."
        raise ValueError(
            message(rule, f"Invalid n_batch={n_batch}, n_dense={n_dense} for {shape}", fix="Ask for fewer.")
        )
    batch, sparse, dense = shape[:n_batch], shape[n_batch : n_batch + n_sparse], shape[n_batch + n_sparse :]
    places = math.prod(sparse)
    if not 0 <= nse < places:
        rule = f"The number of entries is to be between 0 and {places}."
        raise ValueError(message(rule, f"got nse={nse}", fix="Use less, or a dense array."))
    count = operator.index(math.ceil(nse * places) if 0 < nse < 1 else int(nse))
    index_dtype = dtypes.default_dtype("i") if indices_dtype is None else np.dtype(indices_dtype)
    if places > np.iinfo(index_dtype).max:
        rule = f"indices_dtype={index_dtype} does not have enough range to generate sparse indices of size {places}."
        raise ValueError(message(rule, f"shape: {shape}", fix="Use a wider dtype."))

    def draw(key: Any) -> Any:
        if not n_sparse:
            return dnp.zeros((count, 0), index_dtype)
        flat = random.choice(key, places, (count,), replace=not unique_indices).astype(index_dtype)
        return dnp.stack(dnp.unravel_index(flat, sparse), -1).astype(index_dtype)

    size = math.prod(batch)
    keys = random.split(key, size + 1)
    dtype = dtypes.default_dtype("f") if dtype is None else dtype
    data = generator(keys[0], shape=(*batch, count, *dense), dtype=dtype, **kwds)
    indices = vmap(draw)(keys[1:]) if size else dnp.zeros((0, count, n_sparse), index_dtype)
    mat = BCOO((data, indices.reshape(*batch, count, n_sparse)), shape=shape)
    return mat.sort_indices() if sorted_indices else mat
