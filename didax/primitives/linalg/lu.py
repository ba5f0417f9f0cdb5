"""LU factors with row exchanges: P A = L U.

L and U share one array: L stands below the diagonal (its own diagonal is 1), U on and above it. LAPACK gives the
exchanges as `pivots`: for i = 0, 1, ... in order, row i was exchanged with row pivots[i]. `lu_pivots_to_permutation`
turns the pivots into the permutation with A[permutation] = L U. Read next: `qr.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import Zero, add_tangents
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic, may_exceed, min_dim
from didax.core.errors import message
from didax.primitives.elementwise import sub
from didax.primitives.gather import gather_p
from didax.primitives.holes import NOT_DIFFERENTIABLE, NOT_LINEAR
from didax.primitives.linalg.host import Factorization, by_matrix, routine
from didax.primitives.linalg.matrix import (
    INT32,
    MatrixPrimitive,
    check_matrices,
    info_aval,
    lower_has_numbers,
    matmul,
    nan_unless,
    succeeded,
    tril,
    triu,
    with_matrix,
)
from didax.primitives.linalg.triangular import triangular_solve
from didax.primitives.scalars import scalar_like
from didax.primitives.shape import reshape
from didax.primitives.slicing import concatenate, pad, slice_axis
from didax.primitives.window_positions import GatherDimensionNumbers, GatherScatterMode
from didax.xla.lapack import cuda_call, lapack_call
from didax.xla.platforms import platform
from didax.xla.text import FunctionContext, Value


class LU(Factorization):
    """`[lu, pivots]`: the factors in one array, and for each row the row with which it was exchanged."""

    multiple_results = True
    holes = {"transpose": NOT_LINEAR}

    def type(self, x: ShapedArray) -> Sequence[ShapedArray]:
        check_matrices("lu", x)
        return [x, with_matrix(x, min_dim(*x.shape[-2:]), dtype=INT32).strip_weak_type()]

    def eager(self, x: Any) -> list[Any]:
        getrf = routine("getrf", x.dtype)
        return by_matrix(lambda x: getrf(x)[:2], x)

    def lower(self, ctx: FunctionContext, x: Value) -> list[Value]:
        lu_aval, pivots_aval = ctx.out_avals
        if x.aval.size == 0:
            return [x, ctx.constant(0, pivots_aval)]
        outs = [lu_aval, pivots_aval, info_aval(x.aval)]
        if platform() == "cpu":
            out, pivots, info = lapack_call(ctx, "getrf", [x], outs)
            # The status is positive where U is singular: the factors are right nevertheless.
            ok = succeeded(ctx, info, "GE")
        else:
            out, pivots, info = cuda_call(ctx, "cusolver_getrf_ffi", [x], outs)
            ok = ctx.op("and", [succeeded(ctx, info, "GE"), lower_has_numbers(ctx, x)])
        pivots = ctx.op("subtract", [pivots, ctx.constant(1, pivots_aval)])  # LAPACK counts from 1
        return [nan_unless(ctx, ok, out), pivots]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        (x,), (t,) = primals, tangents
        out, pivots = self.bind(x)
        pivots_dot = Zero(aval_of(pivots).tangent())
        if type(t) is Zero:
            return [out, pivots], [Zero(aval_of(out).tangent()), pivots_dot]
        t = take_rows(t, lu_pivots_to_permutation(pivots, aval_of(x).shape[-2]))
        return [out, pivots], [_lu_tangent(out, t), pivots_dot]


def _lu_tangent(lu: Any, t: Any) -> Any:
    """The tangent of the factors of a matrix whose permuted tangent is `t`.

    In the leading square block, F = L^-1 A' U^-1 gives L' = L tril(F, -1) and U' = L^-1 A' - tril(F, -1) U. The last
    pivot has no part in tril(F, -1), so it may be 0. Rows below are L2 = A2 U^-1, columns beyond are U2 = L^-1 A2.
    """
    ndim, (m, n) = aval_of(lu).ndim, aval_of(lu).shape[-2:]
    k = min_dim(m, n)
    if k == 0:
        return t
    square, t1 = _corner(lu, k), _corner(t, k)
    t1 = triangular_solve(square, t1, left_side=True, lower=True, unit_diagonal=True)
    f = triangular_solve(_corner(square, k - 1), slice_axis(t1, 0, k - 1, ndim - 1))
    f = tril(pad(f, scalar_like(0, aval_of(f).dtype), (*((0, 0, 0),) * (ndim - 1), (0, 1, 0))), -1)
    l_dot = add_tangents(f, matmul(tril(square, -1), f))
    u_dot = triu(sub(t1, matmul(f, triu(square))))
    out = add_tangents(l_dot, u_dot)
    if may_exceed(m, k):
        l2, t2 = [slice_axis(slice_axis(x, k, m, ndim - 2), 0, k, ndim - 1) for x in (lu, t)]
        rest = triangular_solve(square, sub(t2, matmul(l2, u_dot)))
        out = concatenate([out, rest], ndim - 2)
    if may_exceed(n, k):
        u2, t2 = [slice_axis(slice_axis(x, k, n, ndim - 1), 0, k, ndim - 2) for x in (lu, t)]
        rest = sub(t2, matmul(l_dot, u2))
        rest = triangular_solve(square, rest, left_side=True, lower=True, unit_diagonal=True)
        if may_exceed(m, k):  # only while the sizes are symbolic: at least one of both parts is empty
            still = ((0, 0, 0),) * (ndim - 2) + ((0, m - k, 0), (0, 0, 0))
            rest = pad(rest, scalar_like(0, aval_of(rest).dtype), still)
        out = concatenate([out, rest], ndim - 1)
    return out


def _corner(x: Any, k: int) -> Any:
    ndim = aval_of(x).ndim
    return slice_axis(slice_axis(x, 0, k, ndim - 2), 0, k, ndim - 1)


def take_rows(x: Any, rows: Any) -> Any:
    """`x[..., rows[..., i], :]`, for a permutation `rows` of the rows of each matrix."""
    aval = aval_of(x)
    if not aval.size:  # gather's window of one row would not fit
        return x
    batch = tuple(range(aval.ndim - 2))
    return gather_p.bind(
        x,
        reshape(rows, (*aval_of(rows).shape, 1)),
        dimension_numbers=GatherDimensionNumbers(
            (aval.ndim - 1,), (len(batch),), (len(batch),), batch, batch
        ),
        slice_sizes=(*(1 for _ in batch), 1, aval.shape[-1]),
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=None,
        indices_are_sorted=False,
        unique_indices=True,
    )


class PivotsToPermutation(MatrixPrimitive):
    """The permutation of `permutation_size` rows that a sequence of exchanges makes."""

    materializes_operands = False
    holes = {"transpose": NOT_DIFFERENTIABLE}

    def type(self, pivots: ShapedArray, *, permutation_size: int) -> ShapedArray:
        facts = f"pivots: {pivots}, permutation_size: {permutation_size}"
        if pivots.dtype != INT32 or not pivots.ndim:
            raise TypeError(
                message(
                    "Pivots are vectors of int32.", facts, fix="Pass the pivots that lax.linalg.lu gives."
                )
            )
        if permutation_size < pivots.shape[-1]:
            raise ValueError(
                message(
                    "A permutation is at least as long as its pivots.",
                    facts,
                    fix="permutation_size is the number of rows of the matrix.",
                )
            )
        return pivots.update(shape=(*pivots.shape[:-1], permutation_size))

    def eager(self, pivots: Any, *, permutation_size: int) -> Any:
        if not pivots.size:
            return np.broadcast_to(
                np.arange(permutation_size, dtype=INT32), (*pivots.shape[:-1], permutation_size)
            )
        exchanges = np.clip(pivots, 0, permutation_size - 1).reshape(-1, pivots.shape[-1]).tolist()
        rows = [_exchanged(row, permutation_size) for row in exchanges]
        return np.array(rows, INT32).reshape(*pivots.shape[:-1], permutation_size)

    def lower(self, ctx: FunctionContext, pivots: Value, *, permutation_size: int) -> Value:
        out = ctx.out_avals[0]
        if not pivots.aval.size:
            return ctx.iota(out, out.ndim - 1)
        last = ctx.scalar(out.shape[-1] - 1, INT32)
        pivots = ctx.op("clamp", [ctx.scalar(0, INT32), pivots, last], pivots.aval)
        if platform() == "cuda" and not is_symbolic(out.size):
            return cuda_call(ctx, "cu_lu_pivots_to_permutation", [pivots], [out])[0]
        return _lower_exchanges(ctx, pivots, out)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out = self.bind(*primals, **params)
        return out, Zero(aval_of(out).tangent())


def _exchanged(pivots: Sequence[int], size: int) -> list[int]:
    rows = list(range(size))
    for i, j in enumerate(pivots):
        rows[i], rows[j] = rows[j], rows[i]
    return rows


def _lower_exchanges(ctx: FunctionContext, pivots: Value, out: ShapedArray) -> Value:
    """A loop over the pivots; each step exchanges two elements of every row of `out`, in place."""
    index = ctx.iota(out, out.ndim - 1)

    def step(body: FunctionContext, state: list[Value]) -> list[Value]:
        i, rows = state
        there, here = _column(body, pivots, i), _column(body, rows, i)
        moved = body.dynamic_update_slice(
            rows, _gather_columns(body, rows, there), _column_starts(body, rows, i)
        )
        return [body.op("add", [i, body.scalar(1, INT32)]), _scatter_columns(body, moved, there, here)]

    def goes_on(condition: FunctionContext, state: list[Value]) -> Value:
        return condition.compare("LT", state[0], condition.scalar(pivots.aval.shape[-1], INT32))

    return ctx.loop([ctx.scalar(0, INT32), index], goes_on, step)[1]


def _column(ctx: FunctionContext, x: Value, i: Value) -> Value:
    """Element i of every row, of shape (..., 1)."""
    return ctx.dynamic_slice(x, _column_starts(ctx, x, i), (*x.aval.shape[:-1], 1))


def _column_starts(ctx: FunctionContext, x: Value, i: Value) -> list[Value]:
    return [*([ctx.scalar(0, INT32)] * (x.aval.ndim - 1)), i]


def _gather_columns(ctx: FunctionContext, x: Value, indices: Value) -> Value:
    """`x[..., indices[..., 0]]`, of shape (..., 1)."""
    axis, batch = x.aval.ndim - 1, range(x.aval.ndim - 1)
    return ctx.gather(x, indices, ((axis,), (), (axis,), batch, batch), [1] * (axis + 1), indices.aval)


def _scatter_columns(ctx: FunctionContext, x: Value, indices: Value, column: Value) -> Value:
    """`x` with `column[..., 0]` at `indices[..., 0]` of every row."""
    axis, batch = x.aval.ndim - 1, range(x.aval.ndim - 1)
    return ctx.scatter(x, indices, column, ((axis,), (), (axis,), batch, batch), None, unique_indices=True)


lu_p = LU("lu")
lu_pivots_to_permutation_p = PivotsToPermutation("lu_pivots_to_permutation")


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """The permutation that results from the exchanges, made one after the other."""
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=permutation_size)


def lu(x: Any) -> tuple[Any, Any, Any]:
    """The factors in one array, the pivots, and the permutation of rows."""
    out, pivots = lu_p.bind(x)
    return out, pivots, lu_pivots_to_permutation(pivots, aval_of(x).shape[-2])
