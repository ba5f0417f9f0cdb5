"""Products with BCOO arrays: elementwise, and contractions of one or two sparse operands.

    (A x)[i] = sum_k data[k] x[column[k]] where row[k] = i        gather, multiply, add up

A batch axis is mapped (`over_batch`). Where both operands are sparse, each entry of one meets each entry of the other,
so the cost is the product of their numbers of entries.
Read next: `transform.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import didax.numpy as dnp
from didax import lax
from didax.api.inspect import eval_shape
from didax.core.errors import api_boundary, message
from didax.core.value import Array
from didax.experimental.sparse._base import over_batch
from didax.experimental.sparse._shapes import dense_type
from didax.experimental.sparse.bcoo import (
    BCOO,
    bcoo_sum_duplicates,
    bcoo_update_layout,
    columns,
    elements_at,
    enough,
    extract_at,
    in_bounds,
    masked,
    take_columns,
)
from didax.lax.convolution import padtype_to_pads

Axes = tuple[int, ...]
DimensionNumbers = Any  # ((lhs contracted, rhs contracted), (lhs batch, rhs batch))


# --- Elementwise ---------------------------------------------------------------------------------------------


@api_boundary
def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Array:
    """The entries of the product of a sparse array and a dense one that broadcasts to its shape.

    Raises NotImplementedError where the product would be larger than the sparse array.

    >>> a = BCOO.fromdense(dnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> bcoo_multiply_dense(a, dnp.array([10.0, 100.0]))  # as a.data: of the places (0, 1) and (1, 0)
    Array([200.,  10.], dtype=float32)
    """
    v = dnp.asarray(v)
    return sp_mat.data * (v if not v.ndim else entries_of(sp_mat, v, 0))


def entries_of(mat: BCOO, v: Any, fill: int) -> Any:
    """The elements of a dense array, broadcast to the shape of a sparse one, at its indices; `fill` out of bounds."""
    if v.ndim > mat.ndim or any(
        n not in (1, m) for n, m in zip(v.shape[::-1], mat.shape[::-1], strict=False)
    ):
        rule = "multiplication between sparse and dense is only implemented for cases where the output shape matches "
        rule += "the sparse matrix shape."
        facts = f"sparse: {mat.shape}, dense: {v.shape}"
        raise NotImplementedError(message(rule, facts, fix="Broadcast the sparse array, or use todense()."))
    v = v.reshape(*(1,) * (mat.ndim - v.ndim), *v.shape)
    n_sparse = mat.n_sparse

    def gather(indices: Any, v: Any) -> Any:
        if not n_sparse:
            return v[None]
        places = [i if n != 1 else dnp.zeros_like(i) for i, n in zip(columns(indices), v.shape, strict=False)]
        return elements_at(v, tuple(places), fill)

    return over_batch(gather, mat.n_batch)(mat.indices, v)


@api_boundary
def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The elementwise product of two sparse arrays, which broadcast.

    Raises TypeError where the numbers of axes differ, NotImplementedError where those of dense axes do, and
    ValueError for shapes that do not broadcast.

    >>> a, b = BCOO.fromdense(dnp.array([0.0, 2.0, 3.0])), BCOO.fromdense(dnp.array([1.0, 0.0, 4.0]))
    >>> bcoo_multiply_sparse(a, b).todense()
    Array([ 0.,  0., 12.], dtype=float32)
    """
    facts = f"operands: {lhs!r}, {rhs!r}"
    if lhs.ndim != rhs.ndim:
        rule = "bcoo_multiply_sparse: arrays must have same number of dimensions."
        raise TypeError(message(rule, facts, fix="Use bcoo_broadcast_in_dim on one."))
    if lhs.n_dense != rhs.n_dense:
        rule = "bcoo_multiply_sparse: arrays with differing numbers of dense dimensions."
        raise NotImplementedError(message(rule, facts, fix="Use update_layout on one."))
    shape = lax.broadcast_shapes(lhs.shape, rhs.shape)
    n_batch = min(lhs.n_batch, rhs.n_batch)
    lhs, rhs = (bcoo_update_layout(x, n_batch=n_batch) for x in (lhs, rhs))
    n_sparse = lhs.n_sparse
    met = [i for i in range(n_sparse) if lhs.sparse_shape[i] != 1 != rhs.sparse_shape[i]]

    def multiply(*buffers: Any) -> tuple[Any, Any]:
        (x, i), (y, j) = buffers[:2], buffers[2:]
        together = (i[:, None, met] == j[None, :, met]).all(-1) if met else dnp.ones((len(i), len(j)), bool)
        together &= in_bounds(i, lhs.sparse_shape)[:, None] & in_bounds(j, rhs.sparse_shape)[None, :]
        count = len(i) * len(j)
        at_x, at_y = dnp.nonzero(together, size=count, fill_value=(len(i), len(j)))
        outside = max(shape, default=0)
        data = x.at[at_x].get(mode="fill", fill_value=0) * y.at[at_y].get(mode="fill", fill_value=0)
        where = [z.at[at].get(mode="fill", fill_value=outside) for z, at in ((i, at_x), (j, at_y))]
        return data, dnp.maximum(*where)

    return BCOO(over_batch(multiply, n_batch)(*lhs._bufs, *rhs._bufs), shape=shape)


# --- Contractions --------------------------------------------------------------------------------------------


@api_boundary
def bcoo_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: DimensionNumbers, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """As `lax.dot_general`, where either operand may be sparse; the result is sparse if both are.

    Batch axes of the product are batch axes of sparse operands, and dense axes are not contracted.

    Raises NotImplementedError where the axes are of other kinds, and what `lax.dot_general` raises for shapes that do
    not fit.

    >>> a = BCOO.fromdense(dnp.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> numbers = (((1,), (0,)), ((), ()))  # matrix products
    >>> bcoo_dot_general(a, dnp.array([1.0, 10.0]), dimension_numbers=numbers)
    Array([20.,  1.], dtype=float32)
    >>> bcoo_dot_general(a, a, dimension_numbers=numbers)
    BCOO(float32[2, 2], nse=4)
    """
    numbers = _canonical(dimension_numbers)
    if not isinstance(lhs, BCOO) and not isinstance(rhs, BCOO):
        return lax.dot_general(
            lhs, rhs, numbers, precision=precision, preferred_element_type=preferred_element_type
        )
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _dot_sparse(lhs, rhs, numbers, preferred_element_type)
    if isinstance(lhs, BCOO):
        return _dot_dense(lhs, dnp.asarray(rhs), numbers, preferred_element_type)
    (contracted, other), (batch, other_batch) = numbers
    out = _dot_dense(
        rhs, dnp.asarray(lhs), ((other, contracted), (other_batch, batch)), preferred_element_type
    )
    free = rhs.ndim - len(other) - len(other_batch)  # the axes of the sparse operand come first, and go last
    start = len(batch)
    order = (*range(start), *range(start + free, out.ndim), *range(start, start + free))
    return dnp.transpose(out, order)


def _canonical(numbers: DimensionNumbers) -> tuple[tuple[Axes, Axes], tuple[Axes, Axes]]:
    return tuple(tuple(tuple(map(operator.index, axes)) for axes in pair) for pair in numbers)  # type: ignore[return-value]


def _out_type(lhs: Any, rhs: Any, numbers: Any, dtype: Any) -> Any:
    """The type of the dense product; raises where the axes do not fit."""
    return eval_shape(
        lambda x, y: lax.dot_general(x, y, numbers, preferred_element_type=dtype),
        *map(dense_type, (lhs, rhs)),
    )


def _check_axes(mat: BCOO, contracted: Axes, batch: Axes) -> None:
    facts = f"array: {mat!r}, contracted: {contracted}, batch: {batch}"
    if any(d >= mat.n_batch for d in batch):
        rule = "bcoo_dot_general batch dimensions must be among the batch dimensions in the sparse representation."
        raise NotImplementedError(message(rule, facts, fix="Use update_layout with a larger n_batch."))
    if any(d >= mat.n_batch + mat.n_sparse for d in contracted):
        rule = "bcoo_dot_general: contracting over dense dimensions."
        raise NotImplementedError(message(rule, facts, fix="Use update_layout with a smaller n_dense."))


def _dot_dense(lhs: BCOO, rhs: Any, numbers: Any, dtype: Any) -> Array:
    """The product of a sparse array and a dense one."""
    out = _out_type(lhs, rhs, numbers, dtype)
    (contracted, others), (batch, other_batch) = numbers
    _check_axes(lhs, contracted, batch)
    n_batch, n_sparse, _, _ = lhs.layout
    # Axes of `rhs` that a batch axis of `lhs` meets, in the order of the latter; the sparse ones; all others.
    partner = dict(zip((*batch, *contracted), (*other_batch, *others), strict=True))
    sparse = [d - n_batch for d in contracted if d >= n_batch]
    met = [partner[d + n_batch] for d in sparse]
    free = [d for d in range(rhs.ndim) if d not in partner.values()]
    kept = [i for i in range(n_sparse) if i not in sparse]
    lengths = [rhs.shape[partner[d]] if d in partner else 1 for d in range(n_batch)]
    rhs = dnp.transpose(rhs, [*(partner[d] for d in range(n_batch) if d in partner), *met, *free])
    rhs = rhs.reshape(*lengths, *rhs.shape[sum(d in partner for d in range(n_batch)) :])
    kept_shape = tuple(lhs.sparse_shape[i] for i in kept)

    def product(data: Any, indices: Any, rhs: Any) -> Any:
        places = columns(indices)
        data = masked(data, in_bounds(indices, lhs.sparse_shape))  # what is out of bounds may be NaN
        if not kept and sparse:  # entries add up over all places: one contraction
            rows = elements_at(rhs, tuple(places[i] for i in sparse))
            return lax.dot_general(data, rows, (((0,), (0,)), ((), ())), preferred_element_type=out.dtype)
        if not kept:
            return _outer(data.sum(0, dtype=data.dtype), rhs, out.dtype)
        if sparse:
            rows = elements_at(rhs, tuple(places[i] for i in sparse))
            terms = lax.dot_general(data, rows, (((), ()), ((0,), (0,))), preferred_element_type=out.dtype)
        else:
            terms = _outer(data, rhs, out.dtype)
        zeros = dnp.zeros((*kept_shape, *terms.shape[1:]), out.dtype)
        return zeros.at[tuple(places[i] for i in kept)].add(terms, mode="drop")

    terms = over_batch(product, n_batch)(lhs.data, lhs.indices, rhs)
    terms = dnp.broadcast_to(terms, (*lhs.shape[:n_batch], *terms.shape[n_batch:]))
    summed = tuple(d for d in contracted if d < n_batch)
    order = [*batch, *(d for d in range(terms.ndim) if d not in batch and d not in summed), *summed]
    terms = dnp.transpose(terms, order)
    return terms.sum(tuple(range(terms.ndim - len(summed), terms.ndim)), dtype=out.dtype)


def _outer(x: Any, y: Any, dtype: Any) -> Any:
    return lax.dot_general(x, y, (((), ()), ((), ())), preferred_element_type=dtype)


def _dot_sparse(lhs: BCOO, rhs: BCOO, numbers: Any, dtype: Any) -> BCOO:
    """The product of two sparse arrays."""
    out = _out_type(lhs, rhs, numbers, dtype)
    (contracted, others), (batch, other_batch) = numbers
    facts = f"operands: {lhs!r}, {rhs!r}, dimension_numbers: {numbers}"
    if lhs.n_dense or rhs.n_dense:
        rule = "bcoo_spdot_general with dense dimensions."
        raise NotImplementedError(message(rule, facts, fix="Use update_layout with n_dense=0."))
    for mat, axes, shared in (lhs, contracted, batch), (rhs, others, other_batch):
        _check_axes(mat, axes, shared)
        if any(d < mat.n_batch for d in axes):
            rule = "bcoo_spdot_general only supports contraction of sparse indices."
            raise NotImplementedError(message(rule, facts, fix="Use update_layout with a smaller n_batch."))
    if rhs.n_batch > len(batch) and lhs.n_sparse > len(contracted):
        rule = "bcoo_spdot_general: cannot have unused batch dims on rhs with unused sparse dims on lhs."
        raise ValueError(message(rule, facts, fix="Use update_layout with a smaller n_batch on the right."))
    x_met, y_met = ([d - m.n_batch for d in axes] for m, axes in ((lhs, contracted), (rhs, others)))
    x_kept, y_kept = (
        [i for i in range(m.n_sparse) if i not in met] for m, met in ((lhs, x_met), (rhs, y_met))
    )
    shape = (*(lhs.sparse_shape[i] for i in x_kept), *(rhs.sparse_shape[i] for i in y_kept))
    nse = enough((lhs.nse if x_kept else 1) * (rhs.nse if y_kept else 1), shape)

    def product(x: Any, i: Any, y: Any, j: Any) -> tuple[Any, Any]:
        together = (take_columns(i, x_met)[:, None] == take_columns(j, y_met)[None]).all(-1)
        together &= in_bounds(i, lhs.sparse_shape)[:, None] & in_bounds(j, rhs.sparse_shape)[None, :]
        data = dnp.where(together, _outer(x, y, out.dtype), dnp.zeros((), out.dtype)).ravel()
        rows, cols = take_columns(i, x_kept), take_columns(j, y_kept)
        pairs = (len(i), len(j))
        where = [
            dnp.broadcast_to(rows[:, None], (*pairs, len(x_kept))),
            dnp.broadcast_to(cols[None], (*pairs, len(y_kept))),
        ]
        indices = dnp.concatenate(where, -1).reshape(pairs[0] * pairs[1], len(shape))
        return bcoo_sum_duplicates(BCOO((data, indices), shape=shape), nse=nse)._bufs  # type: ignore[return-value]

    buffers = [*_batch_first(lhs, batch), *_batch_first(rhs, other_batch)]
    own = lhs.n_batch - len(batch)
    theirs = rhs.n_batch - len(batch)
    start = len(batch)
    # Batch axes of one operand alone have length 1 in the other.
    buffers[:2] = [
        x.reshape(*x.shape[: start + own], *(1,) * theirs, *x.shape[start + own :]) for x in buffers[:2]
    ]
    buffers[2:] = [x.reshape(*x.shape[:start], *(1,) * own, *x.shape[start:]) for x in buffers[2:]]
    return BCOO(over_batch(product, start + own + theirs)(*buffers), shape=out.shape)


def _batch_first(mat: BCOO, batch: Axes) -> list[Any]:
    """The buffers with these batch axes in front of the others."""
    order = [*batch, *(d for d in range(mat.n_batch) if d not in batch)]
    return [dnp.transpose(x, [*order, *range(mat.n_batch, x.ndim)]) for x in mat._bufs]


@api_boundary
def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: DimensionNumbers) -> Array:
    """The elements of the dense product `lax.dot_general(A, B, dimension_numbers)` at indices, as entries.

    Raises what `lax.dot_general` raises for shapes that do not fit.

    >>> A, B, diagonal = dnp.array([[1.0, 2.0], [3.0, 4.0]]), 10 * dnp.eye(2), dnp.array([[0, 0], [1, 1]])
    >>> bcoo_dot_general_sampled(A, B, diagonal, dimension_numbers=(((1,), (0,)), ((), ())))
    Array([10., 40.], dtype=float32)
    """
    A, B, indices = map(dnp.asarray, (A, B, indices))
    numbers = _canonical(dimension_numbers)
    (left, right), (batch, _) = numbers
    n_sparse = indices.shape[-1]
    if indices.ndim > 2 or batch or n_sparse != A.ndim + B.ndim - 2 * len(left):
        return extract_at(indices, lax.dot_general(A, B, numbers))  # type: ignore[no-any-return]
    places = columns(indices)  # only the rows and columns that are asked for are multiplied
    rows, cols = (
        dnp.moveaxis(x, met, tuple(range(-len(met), 0))) if met else x for x, met in ((A, left), (B, right))
    )
    split = A.ndim - len(left)
    rows = elements_at(rows, places[:split]) if split else rows[None]
    cols = elements_at(cols, places[split:]) if split < n_sparse else cols[None]
    n = indices.shape[0]
    rows, cols = (dnp.broadcast_to(x, (n, *x.shape[1:])) for x in (rows, cols))
    met = tuple(range(1, 1 + len(left)))
    return lax.dot_general(rows, cols, ((met, met), ((0,), (0,))))


@api_boundary
def bcoo_conv_general_dilated(
    lhs: Any, rhs: Any, *, window_strides: Sequence[int], padding: Any, lhs_dilation: Any = None,
    rhs_dilation: Any = None, dimension_numbers: Any = None, feature_group_count: int = 1,
    batch_group_count: int = 1, precision: Any = None, preferred_element_type: Any = None, out_sharding: Any = None,
) -> BCOO:  # fmt: skip
    """As `lax.conv_general_dilated`, along one axis, for operands of shape (1, 1, n) with strides and dilations 1.

    Raises NotImplementedError for other shapes, strides, dilations and numbers of groups.

    >>> x, window = dnp.array([[[0.0, 2.0, 0.0]]]), dnp.array([[[1.0, 10.0]]])
    >>> a, b = BCOO.fromdense(x), BCOO.fromdense(window)
    >>> bcoo_conv_general_dilated(a, b, window_strides=[1], padding=[(1, 1)]).todense()
    Array([[[ 0., 20.,  2.,  0.]]], dtype=float32)
    """
    for x, name in (
        (lhs_dilation, "lhs_dilation"),
        (rhs_dilation, "rhs_dilation"),
        (window_strides, "window_strides"),
    ):
        if x is not None and any(n != 1 for n in x):
            _refuse_convolution(f"with non-unit {name}", f"{name}={x}")
    if (feature_group_count, batch_group_count) != (1, 1):
        _refuse_convolution("with non-unit group counts", f"{feature_group_count=}, {batch_group_count=}")
    if lhs.ndim != 3 or rhs.ndim != 3 or lhs.shape[:2] != (1, 1) or rhs.shape[:2] != (1, 1):
        facts = f"shapes: {lhs.shape}, {rhs.shape}"
        _refuse_convolution("with leading dimensions other than (1, 1)", facts)
    out = eval_shape(
        lambda x, y: lax.conv_general_dilated(
            x, y, window_strides, padding, dimension_numbers=dimension_numbers,
            preferred_element_type=preferred_element_type,
        ),
        *map(dense_type, (lhs, rhs)),
    )  # fmt: skip
    low = _low_padding(padding, lhs.shape[2], rhs.shape[2])
    dtype = next(x.indices.dtype for x in (lhs, rhs) if isinstance(x, BCOO))
    (x, i), (y, j) = (_line(mat, dtype) for mat in (lhs, rhs))
    data = (x[:, None] * y[None]).ravel().astype(out.dtype)
    places = (i[:, None] + (low - j)[None]).ravel()
    places = dnp.where(places < 0, out.shape[2], places)
    return BCOO((data[None, None], places[None, None, :, None]), shape=out.shape)


def _refuse_convolution(what: str, facts: str) -> None:
    rule = f"bcoo convolution {what}."
    raise NotImplementedError(message(rule, facts, fix="Use todense(), and convolve dense arrays."))


def _low_padding(padding: Any, length: int, window: int) -> int:
    if isinstance(padding, str):
        padding = padtype_to_pads((length,), (window,), (1,), padding)
    return int(padding[0][0])


def _line(mat: Any, dtype: Any) -> tuple[Any, Any]:
    """The entries of an operand of shape (1, 1, n) and their places along the last axis; those out of bounds are 0."""
    if not isinstance(mat, BCOO):
        return mat[0, 0], dnp.arange(mat.shape[2], dtype=dtype)
    mat = bcoo_update_layout(mat, n_batch=2, n_dense=0)
    data, indices = (x.reshape(x.shape[2:]) for x in mat._bufs)
    valid = in_bounds(indices, mat.sparse_shape)
    return dnp.where(valid, data, dnp.zeros((), data.dtype)), indices[:, 0]
