"""Operations on BCOO arrays that move entries, under the names and with the arguments of `didax.lax`.

The kind of each axis stays: batch axes are moved among batch axes, sparse ones are computed with the indices, dense
ones move in the data. An operation that would mix kinds says so.
Read next: `_products.py`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import didax.numpy as dnp
from didax import lax
from didax.api.inspect import eval_shape
from didax.api.stages import ShapeDtypeStruct
from didax.api.vmap import vmap
from didax.core.dims import as_length, max_dim
from didax.core.errors import api_boundary, message
from didax.experimental.sparse._base import Shape
from didax.experimental.sparse.bcoo import (
    BCOO,
    bcoo_sum_duplicates,
    bcoo_transpose,
    bcoo_update_layout,
    bounds,
    enough,
    in_bounds,
    masked,
    resized,
    split,
    take_columns,
)
from didax.numpy.reductions import canonical_axes


def dense_type(x: Any) -> Any:
    """The shape and dtype of an operand, sparse or dense."""
    return ShapeDtypeStruct(x.shape, x.dtype)


def _unsupported(what: str, *facts: str, fix: str) -> NotImplementedError:
    return NotImplementedError(message(what, *facts, fix=fix))


@api_boundary
def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """As `lax.broadcast_in_dim`: new axes before the sparse ones are batch axes, those after them are dense.

    Raises ValueError where an axis has no place in the result or kinds of axes would mix, and NotImplementedError for
    a new sparse axis longer than 1.

    >>> a = BCOO.fromdense(dnp.array([0.0, 2.0]))
    >>> rows = bcoo_broadcast_in_dim(a, shape=(3, 2), broadcast_dimensions=(1,))
    >>> rows, rows.todense().tolist()
    (BCOO(float32[3, 2], nse=1, n_batch=1), [[0.0, 2.0], [0.0, 2.0], [0.0, 2.0]])
    """
    shape, where = tuple(map(as_length, shape)), tuple(map(operator.index, broadcast_dimensions))
    if len(where) != mat.ndim:
        rule = "broadcast_dimensions has one entry for each axis of the array."
        raise ValueError(
            message(rule, f"broadcast_dimensions: {where}, array: {mat!r}", fix="Name them all.")
        )
    batch, sparse, dense = split(where, mat)
    facts = (
        f"shape: {mat.shape}, n_batch={mat.n_batch}, n_dense={mat.n_dense}, new shape: {shape}, at: {where}"
    )
    for one, other, kinds in (batch, sparse, "batch and sparse"), (sparse, dense, "sparse and dense"):
        if max(one, default=0) > min(other, default=len(shape)):
            rule = f"Cannot mix {kinds} dimensions during broadcast_in_dim."
            raise ValueError(message(rule, facts, fix="Keep the order of the axes."))
    n_batch = min(where[mat.n_batch :], default=len(shape))
    n_dense = len(shape) - min(dense) if dense else 0
    n_sparse = len(shape) - n_batch - n_dense
    new_sparse = shape[n_batch : n_batch + n_sparse]
    if math.prod(mat.sparse_shape) != math.prod(new_sparse):
        rule = "Adding sparse dimensions with lengths != 1 is not implemented."
        raise _unsupported(
            rule, facts, fix="Put the new axis in front, or behind in a layout with dense axes."
        )
    data, indices = mat.data, mat.indices
    if (n_batch, n_dense) != (mat.n_batch, mat.n_dense):
        at = (*batch, n_batch, *(d + 1 - n_sparse for d in dense))
        data = lax.broadcast_in_dim(data, (*shape[:n_batch], mat.nse, *shape[n_batch + n_sparse :]), at)
        of_indices = (*shape[:n_batch], mat.nse, mat.n_sparse)
        indices = lax.broadcast_in_dim(indices, of_indices, (*batch, n_batch, n_batch + 1))
    elif mat.n_dense:
        data = lax.broadcast_in_dim(
            data, (*data.shape[: n_batch + 1], *shape[n_batch + n_sparse :]), tuple(range(data.ndim))
        )
    if n_sparse != mat.n_sparse:
        zeros = dnp.zeros(indices.shape[:-1], indices.dtype)
        own = {axis - n_batch: i for i, axis in enumerate(sparse)}
        outside = ~in_bounds(indices, mat.sparse_shape)  # an axis of length 1 has its own place out of bounds
        found = [indices[..., own[i]] if i in own else dnp.where(outside, 1, zeros) for i in range(n_sparse)]
        indices = dnp.stack(found, -1) if found else dnp.zeros((*indices.shape[:-1], 0), indices.dtype)
    return BCOO((data, indices), shape=shape)


@api_boundary
def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """As `lax.concatenate`, along a batch axis or a sparse one.

    Raises ValueError where an operand is dense or the numbers of batch or dense axes differ, NotImplementedError
    along a dense axis, and what `lax.concatenate` raises for shapes that do not fit.

    >>> a, b = BCOO.fromdense(dnp.array([0.0, 2.0])), BCOO.fromdense(dnp.array([3.0]))
    >>> both = bcoo_concatenate([a, b], dimension=0)
    >>> both, both.todense()
    (BCOO(float32[3], nse=2), Array([0., 2., 3.], dtype=float32))
    """
    dimension, operands = operator.index(dimension), list(operands)
    if not operands or not all(isinstance(x, BCOO) for x in operands):
        rule = "bcoo_concatenate: expected operands to be a sequence of BCOO arrays."
        raise ValueError(
            message(rule, f"given: {operands!r:.200}", fix="Convert the dense ones with fromdense.")
        )
    out = eval_shape(lambda *xs: lax.concatenate(xs, dimension), *map(dense_type, operands))
    if len({x.n_batch for x in operands}) != 1 and max(x.n_batch for x in operands) == 1:
        # An array with one row may count as a batch of one, or the other way round.
        for n in (0, 1):
            if all(x.shape[0] == 1 for x in operands if x.n_batch == n):
                operands = [bcoo_update_layout(x, n_batch=1 - n) if x.n_batch == n else x for x in operands]
                break
    facts = ", ".join(map(repr, operands))[:200]
    for kind in "batch", "dense":
        if len({getattr(x, f"n_{kind}") for x in operands}) > 1:
            rule = f"bcoo_concatenate requires inputs to have matching {kind} dimensions."
            raise ValueError(message(rule, f"operands: {facts}", fix="Use update_layout on some."))
    first = operands[0]
    n_batch = first.n_batch
    if dimension >= n_batch + first.n_sparse:
        rule = "Concatenation along dense dimensions is not implemented."
        raise _unsupported(
            rule, f"dimension: {dimension}, operands: {facts}", fix="Use update_layout before."
        )
    nse = max(x.nse for x in operands)
    buffers: list[tuple[Any, Any]] = []
    offset = 0
    for x in operands:
        data, indices = _full_batch(x, other=dimension)
        if dimension < n_batch:
            data, indices = resized(data, indices, nse, x.sparse_shape)
        else:
            indices = _moved_into(out.shape, x, indices, dimension, offset)
        offset += x.shape[dimension]
        buffers.append((data, indices))
    along = dimension if dimension < n_batch else n_batch
    batches = zip(*buffers, strict=True)
    joined = tuple(_joined(xs, along, n_batch) for xs in batches)
    return BCOO(joined, shape=out.shape)  # type: ignore[arg-type]


def _moved_into(shape: Shape, mat: BCOO, indices: Any, dimension: int, offset: int) -> Any:
    """The indices of an array that begins at `offset` along a sparse axis of an array of this shape."""
    n_batch, n_sparse, _, _ = mat.layout
    moved = indices
    if offset:
        step = np.zeros(n_sparse, np.int64)
        step[dimension - n_batch] = offset
        moved = indices + dnp.asarray(step.astype(indices.dtype))
    outside = bounds(shape[n_batch : n_batch + n_sparse], indices)
    return dnp.where(in_bounds(indices, mat.sparse_shape)[..., None], moved, outside)


def _full_batch(mat: BCOO, other: int) -> tuple[Any, Any]:
    """The buffers with their full length along the batch axis along which they are to be joined."""
    if other >= mat.n_batch:
        return mat.data, mat.indices
    n = mat.shape[other]
    return tuple(dnp.broadcast_to(x, (*x.shape[:other], n, *x.shape[other + 1 :])) for x in mat._bufs)  # type: ignore[return-value]


def _joined(xs: Sequence[Any], axis: int, n_batch: int) -> Any:
    """The concatenation, after batch axes that some operands share have their length."""
    batch = lax.broadcast_shapes(
        *(tuple(1 if i == axis else n for i, n in enumerate(x.shape[:n_batch])) for x in xs)
    )
    whole = [
        dnp.broadcast_to(
            x, tuple(n if i == axis or i >= n_batch else batch[i] for i, n in enumerate(x.shape))
        )
        for x in xs
    ]
    return dnp.concatenate(whole, axis)


def _prefix(sizes: Sequence[int], start: int, count: int) -> int | None:
    """The end of the longest run of sizes from `start` on whose product is `count`; None where there is none."""
    ends = [i for i in range(start, len(sizes) + 1) if math.prod(sizes[start:i]) == count]
    return ends[-1] if ends else None


@api_boundary
def bcoo_reshape(
    mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, sharding: Any = None
) -> BCOO:
    """As `lax.reshape`, where the batch, the sparse and the dense axes are reshaped each for themselves.

    Raises TypeError where the number of elements would change, and ValueError where kinds of axes would mix.

    >>> a = BCOO.fromdense(dnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> bcoo_reshape(a, new_sizes=(4,)).todense()
    Array([0., 2., 1., 0.], dtype=float32)
    """
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    shape = tuple(map(as_length, new_sizes))
    if math.prod(shape) != mat.size:
        rule = "reshape keeps the number of elements."
        raise TypeError(message(rule, f"from {mat.shape} to {shape}", fix="Use sizes with the same product."))
    batch, sparse, _ = split(mat.shape, mat)
    facts = f"from {mat.shape} to {shape}, n_batch={mat.n_batch}, n_dense={mat.n_dense}"
    i = _prefix(shape, 0, math.prod(batch))
    j = None if i is None else _prefix(shape, i, math.prod(sparse))
    for end, kinds in (i, "batch and sparse"), (j, "sparse and dense"):
        if end is None:
            rule = f"bcoo_reshape: new shape cannot mix {kinds} dimensions."
            raise ValueError(message(rule, facts, fix="Change the layout first: update_layout."))
    new_batch, new_sparse, new_dense = shape[:i], shape[i:j], shape[j:]
    data, indices = mat.data, mat.indices
    if new_batch != batch:
        data = dnp.broadcast_to(data, (*batch, *data.shape[mat.n_batch :]))
        indices = dnp.broadcast_to(indices, (*batch, *indices.shape[mat.n_batch :]))
    data = data.reshape(
        *(data.shape[: mat.n_batch] if new_batch == batch else new_batch), mat.nse, *new_dense
    )
    if new_batch != batch:
        indices = indices.reshape(*new_batch, *indices.shape[mat.n_batch :])
    if new_sparse != sparse:
        flat = dnp.zeros(indices.shape[:-1], indices.dtype)
        for axis, length in enumerate(sparse):
            flat = flat * dnp.asarray(length, indices.dtype) + indices[..., axis]
        found = []
        for length in reversed(new_sparse):
            step = dnp.asarray(max_dim(length, 1), indices.dtype)
            found.append(flat % step)
            flat = flat // step
        places = dnp.stack(found[::-1], -1) if found else take_columns(indices, [])
        valid = in_bounds(indices, sparse)
        if not new_sparse:  # such entries have no index that would be out of bounds
            data = masked(data, valid)
        indices = dnp.where(valid[..., None], places, bounds(new_sparse, indices))
    return BCOO((data, indices), shape=shape)


@api_boundary
def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """As `lax.rev`.

    Raises what `lax.rev` raises.

    >>> bcoo_rev(BCOO.fromdense(dnp.array([0.0, 2.0, 3.0])), (0,)).todense()
    Array([3., 2., 0.], dtype=float32)
    """
    eval_shape(lambda x: lax.rev(x, tuple(dimensions)), dense_type(operand))
    n_batch, n_sparse, _, _ = operand.layout
    end = n_batch + n_sparse
    data, indices = operand.data, operand.indices
    batch = [d for d in dimensions if d < n_batch]
    sparse = [d - n_batch for d in dimensions if n_batch <= d < end]
    if batch:
        indices = lax.rev(indices, batch)
    if batch or any(d >= end for d in dimensions):
        data = lax.rev(data, batch + [d - n_sparse + 1 for d in dimensions if d >= end])
    if sparse:
        limit = bounds(operand.sparse_shape, indices)
        turned = [limit[i] - 1 - indices[..., i] if i in sparse else indices[..., i] for i in range(n_sparse)]
        valid = in_bounds(indices, operand.sparse_shape)
        indices = dnp.where(valid[..., None], dnp.stack(turned, -1), limit)
    return BCOO((data, indices), shape=operand.shape, unique_indices=operand.unique_indices)


@api_boundary
def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """As `lax.squeeze`.

    Raises ValueError for an axis whose length is not 1.

    >>> bcoo_squeeze(BCOO.fromdense(dnp.array([[0.0, 2.0]])), dimensions=(0,)).todense()
    Array([0., 2.], dtype=float32)
    """
    gone = set(canonical_axes("bcoo_squeeze", tuple(dimensions), arr.ndim))
    if any(arr.shape[d] != 1 for d in gone):
        rule = "cannot select an axis to squeeze out which has size not equal to one."
        raise ValueError(message(rule, f"shape: {arr.shape}, dimensions: {dimensions}", fix="Name others."))
    n_batch, n_sparse, _, _ = arr.layout
    batch = tuple(d for d in gone if d < n_batch)
    kept = [i for i in range(n_sparse) if i + n_batch not in gone]
    data = arr.data
    if len(kept) < n_sparse:  # what is out of bounds along an axis that goes must not count any more
        data = masked(data, in_bounds(arr.indices, arr.sparse_shape))
    data = lax.squeeze(data, (*batch, *(d - n_sparse + 1 for d in gone if d >= n_batch + n_sparse)))
    indices = arr.indices if len(kept) == n_sparse else take_columns(arr.indices, kept)
    return BCOO(
        (data, lax.squeeze(indices, batch)),
        shape=[n for i, n in enumerate(arr.shape) if i not in gone],
        indices_sorted=arr.indices_sorted,
        unique_indices=arr.unique_indices,
    )


@api_boundary
def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """As `lax.slice`.

    Raises ValueError unless each axis has a start and a limit within its length and a positive stride, and TypeError
    for a dense array.

    >>> a = BCOO.fromdense(dnp.array([0.0, 2.0, 3.0, 4.0]))
    >>> bcoo_slice(a, start_indices=[1], limit_indices=[4], strides=[2]).todense()
    Array([2., 4.], dtype=float32)
    """
    _check_bcoo("bcoo_slice", mat)
    starts, limits = [[as_length(i) for i in x] for x in (start_indices, limit_indices)]
    steps = [1] * mat.ndim if strides is None else [operator.index(i) for i in strides]
    if not len(starts) == len(limits) == len(steps) == mat.ndim:
        rule = f"bcoo_slice: indices must have size mat.ndim={mat.ndim}."
        raise ValueError(
            message(rule, f"start: {starts}, limit: {limits}, strides: {steps}", fix="Name all axes.")
        )
    fits = all(0 <= a <= b <= n for a, b, n in zip(starts, limits, mat.shape, strict=True))
    if not fits or min(steps, default=1) <= 0:
        rule = "bcoo_slice: invalid indices, or strides that are not a sequence of positive integers."
        facts = f"start: {starts}, limit: {limits}, strides: {steps}, shape: {mat.shape}"
        raise ValueError(
            message(rule, facts, fix="Take 0 <= start <= limit <= length and strides from 1 on.")
        )
    shape = tuple(-(-(b - a) // s) for a, b, s in zip(starts, limits, steps, strict=True))
    cuts = [slice(a, b, s) for a, b, s in zip(starts, limits, steps, strict=True)]
    batch, _, dense = split(cuts, mat)
    data, indices = (
        x[tuple(c if x.shape[i] == mat.shape[i] else slice(None) for i, c in enumerate(batch))]
        for x in mat._bufs
    )
    data = data[(*(slice(None),) * (mat.n_batch + 1), *dense)]
    low, high, step = (bounds(split(x, mat)[1], indices) for x in (starts, limits, steps))
    keep = ((indices >= low) & (indices < high) & ((indices - low) % step == 0)).all(-1)
    return _cut(mat, data, indices, keep, (indices - low) // step, shape)


def _check_bcoo(what: str, mat: Any) -> None:
    if not isinstance(mat, BCOO):
        rule = f"{what}: input should be BCOO array."
        raise TypeError(message(rule, f"given: {type(mat).__name__}", fix="Convert it with BCOO.fromdense."))


def _cut(mat: BCOO, data: Any, indices: Any, keep: Any, moved: Any, shape: Shape) -> BCOO:
    """The entries that a slice keeps, at their new places; no more of them than there are places."""
    sparse_shape = shape[mat.n_batch : mat.n_batch + mat.n_sparse]
    if not mat.n_sparse:
        return BCOO((data, indices), shape=shape)
    indices = dnp.where(keep[..., None], moved, bounds(sparse_shape, indices))
    out = BCOO((masked(data, keep), indices), shape=shape)
    nse = enough(mat.nse, sparse_shape)
    return bcoo_sum_duplicates(out, nse=nse) if nse < mat.nse else out


@api_boundary
def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """As `lax.dynamic_slice`: the starts may be traced, and are moved so that the slice is within the array.

    Raises ValueError unless each axis has a start and a size, and TypeError for a size longer than its axis.

    >>> a = BCOO.fromdense(dnp.array([0.0, 2.0, 3.0, 4.0]))
    >>> bcoo_dynamic_slice(a, [1], [2]).todense(), bcoo_dynamic_slice(a, [9], [2]).todense()
    (Array([2., 3.], dtype=float32), Array([3., 4.], dtype=float32))
    """
    _check_bcoo("bcoo_dynamic_slice", mat)
    sizes = tuple(map(as_length, slice_sizes))
    starts = [dnp.asarray(i) for i in start_indices]
    if not len(starts) == len(sizes) == mat.ndim:
        rule = f"bcoo_dynamic_slice: indices must have size mat.ndim={mat.ndim}."
        raise ValueError(message(rule, f"starts: {len(starts)}, sizes: {sizes}", fix="Name all axes."))
    if not all(0 <= n <= m for n, m in zip(sizes, mat.shape, strict=True)):
        rule = "slice_sizes must be less than or equal to operand shape."
        raise TypeError(message(rule, f"slice_sizes: {sizes}, shape: {mat.shape}", fix="Take less."))
    if not mat.ndim:
        return mat
    starts = [
        dnp.clip(dnp.where(i < 0, i + n, i), 0, n - size).astype(np.int32)
        for i, n, size in zip(starts, mat.shape, sizes, strict=True)
    ]
    batch, sparse, dense = split(starts, mat)
    batch_sizes, sparse_sizes, dense_sizes = split(sizes, mat)
    zero = np.int32(0)
    buffers = []
    for x, after, after_sizes in (
        (mat.data, (zero, *dense), (mat.nse, *dense_sizes)),
        (mat.indices, (zero, zero), (mat.nse, mat.n_sparse)),
    ):
        whole = [x.shape[i] == n for i, n in enumerate(mat.shape[: mat.n_batch])]
        at = [i if own else zero for i, own in zip(batch, whole, strict=True)]
        lengths = [n if own else 1 for n, own in zip(batch_sizes, whole, strict=True)]
        buffers.append(lax.dynamic_slice(x, (*at, *after), (*lengths, *after_sizes)))
    data, indices = buffers
    if not mat.n_sparse:
        return BCOO((data, indices), shape=sizes)
    low = dnp.stack([i.astype(indices.dtype) for i in sparse])
    keep = ((indices >= low) & (indices < low + bounds(sparse_sizes, indices))).all(-1)
    return _cut(mat, data, indices, keep, indices - low, sizes)


@api_boundary
def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sum over axes: entries at one place stay entries of their own.

    Raises AxisError for an axis that the array does not have.

    >>> a = BCOO.fromdense(dnp.array([[0.0, 2.0], [1.0, 4.0]]))
    >>> sums = bcoo_reduce_sum(a, axes=[0])
    >>> sums, sums.todense()
    (BCOO(float32[2], nse=3), Array([1., 6.], dtype=float32))
    """
    gone = sorted(canonical_axes("bcoo_reduce_sum", tuple(axes), mat.ndim))
    n_batch, n_sparse, _, nse = mat.layout
    data, indices = mat.data, mat.indices
    if data.dtype == bool:  # True counts as 1
        data = data.astype(int)
    data = data.sum(tuple(a - n_sparse + 1 for a in gone if a >= n_batch + n_sparse), dtype=data.dtype)
    kept = [i for i in range(n_sparse) if i + n_batch not in gone]
    if len(kept) < n_sparse:
        data = masked(data, in_bounds(indices, mat.sparse_shape))
        indices = take_columns(indices, kept)
    summed = [a for a in gone if a < n_batch]
    # The entries of an axis's elements are put one after another, or are added where that is possible.
    for axis in summed:
        if indices.shape[axis] == 1:
            factor = np.asarray(mat.shape[axis]).astype(data.dtype)
            data = data * factor if data.shape[axis] == 1 else data.sum(axis, keepdims=True, dtype=data.dtype)
        elif data.shape[axis] == 1:
            data = dnp.broadcast_to(data, (*data.shape[:axis], mat.shape[axis], *data.shape[axis + 1 :]))
    rest = [a for a in range(n_batch) if a not in summed]
    count = nse * math.prod(indices.shape[a] for a in summed)

    def merged(x: Any) -> Any:
        x = dnp.transpose(x, (*rest, *summed, *range(n_batch, x.ndim)))
        return x.reshape(*x.shape[: len(rest)], count, *x.shape[n_batch + 1 :])

    shape = [n for i, n in enumerate(mat.shape) if i not in gone]
    return BCOO((merged(data), merged(indices)), shape=shape)


@api_boundary
def bcoo_gather(
    operand: BCOO, start_indices: Any, dimension_numbers: Any, slice_sizes: Sequence[int], *,
    unique_indices: bool = False, indices_are_sorted: bool = False, mode: Any = None, fill_value: Any = None,
) -> BCOO:  # fmt: skip
    """As `lax.gather` with slices that are within the array, which is the default, or are moved into it (`mode`).

    Raises NotImplementedError for other modes and for batching dimensions, and what `lax.gather` raises.

    >>> a = BCOO.fromdense(dnp.array([[0, 2], [3, 0], [0, 5]]))
    >>> rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> bcoo_gather(a, dnp.array([[2], [0]]), rows, (1, 2), mode="clip").todense()
    Array([[0, 5],
           [0, 2]], dtype=int32)
    """
    within = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    mode = within if mode is None else lax.GatherScatterMode.from_any(mode)
    allowed = (within, lax.GatherScatterMode.CLIP)
    if mode not in allowed and not (mode == lax.GatherScatterMode.FILL_OR_DROP and fill_value == 0):
        rule = "bcoo_gather fills slices that are out of bounds with zeros alone: this mode is not yet supported."
        facts = f"mode={mode}, fill_value={fill_value}"
        raise _unsupported(rule, facts, fix="Use mode='clip', or mode='fill' with fill_value=0.")
    start_indices = dnp.asarray(start_indices)
    out = eval_shape(
        lambda x, i: lax.gather(
            x, i, dimension_numbers, tuple(slice_sizes), mode=mode, fill_value=fill_value
        ),
        *map(dense_type, (operand, start_indices)),
    )
    start_map, collapsed = dimension_numbers.start_index_map, dimension_numbers.collapsed_slice_dims
    if dimension_numbers.operand_batching_dims:
        raise _unsupported("bcoo_gather has no batching dimensions.", fix="Use vmap.")
    flat = start_indices.reshape(-1, start_indices.shape[-1])
    sizes = [slice_sizes[axis] if axis in start_map else n for axis, n in enumerate(operand.shape)]

    def one(where: Any) -> BCOO:
        starts: list[Any] = [np.int32(0)] * operand.ndim
        for i, axis in enumerate(start_map):
            starts[axis] = where[i]
        found = bcoo_squeeze(bcoo_dynamic_slice(operand, starts, sizes), dimensions=collapsed)
        if mode in allowed:
            return found
        limit = np.array([operand.shape[a] - slice_sizes[a] for a in start_map])
        return found._with_data(found.data * ((where >= 0) & (where <= limit)).all().astype(found.dtype))

    batch = start_indices.shape[:-1]
    gathered: BCOO = vmap(one)(flat)
    gathered = bcoo_reshape(gathered, new_sizes=(*batch, *gathered.shape[1:]))
    offsets = dimension_numbers.offset_dims
    order = [d for d in range(len(out.shape)) if d not in offsets] + list(offsets)
    permutation = [int(i) for i in np.argsort(order)]
    if permutation == sorted(permutation):
        return gathered
    if set(permutation[: gathered.n_batch]) != set(range(gathered.n_batch)):
        gathered = bcoo_update_layout(gathered, n_batch=0)
    return bcoo_transpose(gathered, permutation=permutation)
