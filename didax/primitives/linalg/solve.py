"""Systems of equations and determinants of square matrices, computed from LU factors.

    solve:    x = A^-1 b            x' = A^-1 (b' - A' x), and the transpose solves with A^T
    slogdet:  log |det A|, det A / |det A|          (log det)' = trace(A^-1 A')
    det:      det A                                 det' = trace(adj(A) A')

The derivatives are those of the whole function instead of following the factors. This takes fewer operations, and the
derivative of `det` is finite where A is singular, since the adjugate adj(A) = det(A) A^-1 is a polynomial of A (Note
[Adjugate of a singular matrix]). `solve` of a singular matrix gives NaN. Read next: `pinv.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero, add_tangents
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import may_exceed
from didax.core.errors import message
from didax.primitives.convert import convert_element_type, iota, stop_gradient_p
from didax.primitives.dimension import number
from didax.primitives.elementwise import (
    abs_,
    add,
    and_,
    complex_,
    div,
    eq,
    gt,
    imag,
    le,
    log,
    lt,
    mul,
    ne,
    neg,
    or_,
    real_part,
    sign,
    sub,
)
from didax.primitives.filled import full
from didax.primitives.holes import NOT_LINEAR
from didax.primitives.linalg.lu import lu, take_rows
from didax.primitives.linalg.matrix import (
    INT32,
    MatrixPrimitive,
    as_columns,
    as_rows,
    check_matrices,
    check_square,
    diagonal,
    matmul,
    matrix_by_matrix,
    nan_of,
    real_dtype,
    scale_columns,
    transposed,
    tril,
    with_matrix,
)
from didax.primitives.linalg.triangular import fold_right_sides, triangular_solve
from didax.primitives.reductions import reduce_and_p, reduce_max_p, reduce_prod_p
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, reduce_sum, reshape
from didax.primitives.slicing import concatenate, rev, slice_axis
from didax.transforms.batching import AxisData
from didax.transforms.elements import check_elements
from didax.transforms.transpose import is_undef
from didax.xla.lowering import lower_function
from didax.xla.text import FunctionContext, Value

# --- Systems ------------------------------------------------------------------------------------------------


def _solve(a: Any, b: Any) -> Sequence[Any]:
    factors, _, permutation = lu(a)
    x = triangular_solve(factors, take_rows(b, permutation), left_side=True, lower=True, unit_diagonal=True)
    x = triangular_solve(factors, x, left_side=True)
    ok = reduce_and_p.bind(ne(diagonal(factors), 0), axes=(aval_of(a).ndim - 2,))
    return [where_matrix(ok, x, full(aval_of(x).shape, nan_of(aval_of(x).dtype), aval_of(x).dtype))]


class Solve(MatrixPrimitive):
    """The X with A X = B, for square matrices; it is linear in B."""

    def type(self, a: ShapedArray, b: ShapedArray) -> ShapedArray:
        check_square("solve", a, "a")
        check_matrices("solve", b, "b")
        if a.dtype != b.dtype or a.shape[:-1] != b.shape[:-1]:
            raise TypeError(
                message(
                    "solve takes arrays of one dtype, with equal batch axes and as many rows.",
                    f"a: {a}",
                    f"b: {b}",
                    fix="Cast (x.astype) or broadcast one of them.",
                )
            )
        return b.update(weak_type=a.weak_type and b.weak_type)

    def eager(self, a: Any, b: Any) -> Any:
        try:
            return np.linalg.solve(a, b)
        except np.linalg.LinAlgError:
            n, both = a.shape[-1], np.concatenate([a, b], -1)
            return matrix_by_matrix(lambda y: np.linalg.solve(y[..., :n], y[..., n:]), both, b.shape, b.dtype)

    def lower(self, ctx: FunctionContext, a: Value, b: Value) -> Value:
        from didax.primitives.linalg.small_systems import lower_small_systems, pays  # on first need

        return (
            lower_small_systems(ctx, a, b)
            if pays(ctx, a.aval, b.aval.shape[-1])
            else lower_function(ctx, _solve, [a, b])[0]
        )

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        (a, b), (a_dot, b_dot) = primals, tangents
        x = self.bind(a, b)
        if type(a_dot) is not Zero:
            b_dot = add_tangents(b_dot, neg(matmul(a_dot, x)))
        if type(b_dot) is Zero:
            return x, Zero(aval_of(x).tangent())
        return x, self.bind(a, b_dot)

    def transpose(self, ct: Any, a: Any, b: Any) -> list[Any]:
        assert is_undef(b) and not is_undef(a)
        return [None, self.bind(transposed(a), ct)]

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any
    ) -> tuple[Any, Any]:
        check_elements(self, args, dims, params)
        (a, b), (a_dim, b_dim) = args, dims
        if a_dim is not None:
            return super().batch(axis, args, dims)
        assert b_dim is not None
        return fold_right_sides(lambda columns: self.bind(a, columns), b, b_dim, -1), 0


def where_matrix(chosen: Any, x: Any, otherwise: Any) -> Any:
    """`x` for the matrices that are chosen, `otherwise` for the others."""
    chosen = broadcast_in_dim(chosen, aval_of(x).shape, tuple(range(aval_of(chosen).ndim)))
    return where(chosen, x, otherwise)


# --- Determinants -------------------------------------------------------------------------------------------


def _slogdet_of_pivots(odd: Any, pivots: Any) -> Sequence[Any]:
    axis = aval_of(pivots).ndim - 1
    unit = reduce_prod_p.bind(sign(pivots), axes=(axis,))
    return [where(odd, neg(unit), unit), reduce_sum(log(abs_(pivots)), (axis,))]


class Slogdet(MatrixPrimitive):
    """`[sign, logabsdet]`: the determinant over its absolute value, and the logarithm of the absolute value."""

    multiple_results = True
    holes = {"transpose": NOT_LINEAR}

    def type(self, a: ShapedArray) -> Sequence[ShapedArray]:
        check_square("slogdet", a)
        return [with_matrix(a), with_matrix(a, dtype=real_dtype(a))]

    def eager(self, a: Any) -> list[Any]:
        unit, logarithm = np.linalg.slogdet(a)
        unit = np.where(np.isnan(logarithm), np.nan, unit)  # NumPy has a sign for NaN
        return [np.asarray(unit, a.dtype), np.asarray(logarithm, a.real.dtype)]

    def lower(self, ctx: FunctionContext, a: Value) -> list[Value]:
        return lower_function(ctx, _slogdet_of_pivots, _lower_pivots(ctx, a))

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        (a,), (t,) = primals, tangents
        outs = self.bind(a)
        dots: list[Any] = [Zero(aval_of(y).tangent()) for y in outs]
        if type(t) is not Zero:
            change = _trace(solve_p.bind(a, t))
            dots[1] = real_part(change)
            if dtypes.is_complex(aval_of(a).dtype):
                turn = imag(change)
                dots[0] = mul(outs[0], complex_(full(aval_of(turn).shape, 0, aval_of(turn).dtype), turn))
        return outs, dots


def _det_by_definition(a: Any) -> Sequence[Any]:
    ndim = aval_of(a).ndim
    products = mul(slice_axis(a, 0, 1, ndim - 2), slice_axis(_cofactors(a), 0, 1, ndim - 2))
    return [reduce_sum(products, (ndim - 2, ndim - 1))]


def _det_of_pivots(odd: Any, pivots: Any) -> Sequence[Any]:
    product = reduce_prod_p.bind(pivots, axes=(aval_of(pivots).ndim - 1,))
    return [where(odd, neg(product), product)]


class Det(MatrixPrimitive):
    """The determinant: by its definition for up to three rows, else as the product of the pivots."""

    holes = {"transpose": NOT_LINEAR}

    def type(self, a: ShapedArray) -> ShapedArray:
        check_square("det", a)
        return with_matrix(a)

    def eager(self, a: Any) -> Any:
        n = a.shape[-1]
        if n == 2:
            out = a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
        elif n == 3:
            (a1, a2, a3), (b1, b2, b3), (c1, c2, c3) = np.moveaxis(a, (-2, -1), (0, 1))
            out = a1 * (b2 * c3 - b3 * c2) + a2 * (b3 * c1 - b1 * c3) + a3 * (b1 * c2 - b2 * c1)
        else:
            out = np.linalg.det(a)
        return np.asarray(out, a.dtype)

    def lower(self, ctx: FunctionContext, a: Value) -> Value:
        n = a.aval.shape[-1]
        if n and not may_exceed(n, 3):
            return lower_function(ctx, _det_by_definition, [a])[0]
        return lower_function(ctx, _det_of_pivots, _lower_pivots(ctx, a))[0]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        (a,), (t,) = primals, tangents
        out = self.bind(a)
        if type(t) is Zero:
            return out, Zero(aval_of(out).tangent())
        ndim = aval_of(a).ndim
        return out, reduce_sum(mul(transposed(adjugate(a)), t), (ndim - 2, ndim - 1))


def _lower_pivots(ctx: FunctionContext, a: Value) -> list[Value]:
    """Whether the number of exchanges of rows is odd, and the diagonal of U."""
    from didax.primitives.linalg.small_systems import lower_small_pivots, pays  # on first need

    if a.aval.shape[-1] and not may_exceed(a.aval.shape[-1], 2):
        return lower_function(ctx, _pivots_of_two, [a])
    return lower_small_pivots(ctx, a) if pays(ctx, a.aval) else lower_function(ctx, _pivots, [a])


def _pivots(a: Any) -> Sequence[Any]:
    factors, pivots, _ = lu(a)
    shape = aval_of(pivots).shape
    exchanged = ne(pivots, iota(INT32, shape, len(shape) - 1))
    count = reduce_sum(convert_element_type(exchanged, INT32), (len(shape) - 1,))
    return [eq(and_(count, 1), 1), diagonal(factors)]


def _pivots_of_two(a: Any) -> Sequence[Any]:
    """As `_pivots`, of one or two rows: in a loop, the call of LAPACK takes far longer. What is NaN stays NaN."""
    shape, dtype = aval_of(a).shape, aval_of(a).dtype
    batch, ndim = shape[:-2], len(shape)
    if shape[-1] == 1:
        return [full(batch, False, np.dtype(bool)), reshape(a, (*batch, 1))]
    rows = [slice_axis(a, i, i + 1, ndim - 2) for i in range(2)]
    upper, lower = ([reshape(slice_axis(row, i, i + 1, ndim - 1), batch) for i in range(2)] for row in rows)
    odd = gt(abs_(lower[0]), abs_(upper[0]))
    pivot, right = (where(odd, y, x) for x, y in zip(upper, lower, strict=True))
    other, last = (where(odd, x, y) for x, y in zip(upper, lower, strict=True))
    factor = div(other, where(eq(pivot, 0), full(batch, 1, dtype), pivot))
    pivots = [reshape(x, (*batch, 1)) for x in (pivot, sub(last, mul(factor, right)))]
    return [odd, concatenate(pivots, ndim - 2)]


def _trace(a: Any) -> Any:
    return reduce_sum(diagonal(a), (aval_of(a).ndim - 2,))


def _cofactors(a: Any) -> Any:
    """The transpose of the adjugate of matrices of one to three rows, by its definition."""
    ndim, n = aval_of(a).ndim, aval_of(a).shape[-1]
    rows, columns = ndim - 2, ndim - 1
    if n == 1:
        return full(aval_of(a).shape, 1, aval_of(a).dtype)
    if n == 2:
        turned = rev(a, (rows, columns))
        shape = aval_of(a).shape
        on = eq(iota(INT32, shape, rows), iota(INT32, shape, columns))
        return where(on, turned, neg(turned))

    def rolled(i: int, j: int) -> Any:
        return _rolled(_rolled(a, i, rows), j, columns)

    return sub(mul(rolled(1, 1), rolled(2, 2)), mul(rolled(1, 2), rolled(2, 1)))


def _rolled(x: Any, by: int, axis: int) -> Any:
    n = aval_of(x).shape[axis]
    return concatenate([slice_axis(x, by, n, axis), slice_axis(x, 0, by, axis)], axis)


# Note [Adjugate of a singular matrix]
# det(A) A^-1 has no value where det(A) = 0, but the adjugate has one: with M = A + V C W^T invertible, for three
# columns V and W and a diagonal C, and K = 1 - C W^T M^-1 V, the determinant is det(A) = det(M) det(K), and so
#
#     adj(A) = det(M) (det(K) M^-1 + M^-1 V adj(K) C W^T M^-1)
#
# for all V, W and C. They are constants here, so the equation can be differentiated again. They are chosen to raise
# three pivots of A to the scale of their rows and columns: the pivots that are smallest beside this scale. If more than
# three pivots vanish to rounding, so do the adjugate and its first two derivatives.
_RAISED = 3


def adjugate(a: Any) -> Any:
    """det(a) a^-1, also where det(a) = 0. See Note [Adjugate of a singular matrix]."""
    if aval_of(a).shape[-1] <= _RAISED:
        return transposed(_cofactors(a)) if aval_of(a).size else a
    v, c, w, vanishes = _raising(stop_gradient_p.bind(a))
    cw = transposed(scale_columns(w, c))
    one = identity(aval_of(a))
    m = where_matrix(vanishes, one, add(a, matmul(v, cw)))
    inverse = solve_p.bind(m, one)
    inverse_v = matmul(inverse, v)
    k = matmul(cw, inverse_v)
    k = sub(identity(aval_of(k)), k)
    inside = matmul(inverse_v, matmul(transposed(_cofactors(k)), matmul(cw, inverse)))
    factor, det_k = (broadcast_in_dim(det_p.bind(x), aval_of(a).shape, _batch(a)) for x in (m, k))
    out = mul(factor, add(mul(det_k, inverse), inside))
    return where_matrix(vanishes, full(aval_of(a).shape, 0, aval_of(a).dtype), out)


def _raising(a: Any) -> tuple[Any, Any, Any, Any]:
    """V, the diagonal of C, W, and whether more pivots vanish than are raised."""
    factors, _, permutation = lu(a)
    pivots, n = diagonal(factors), aval_of(a).shape[-1]
    expected, sizes = _expected_pivots(a, permutation), abs_(pivots)
    w = _one_hot(_ranks(div(sizes, expected)), _RAISED, aval_of(a).dtype)
    lift = sub(convert_element_type(expected, aval_of(a).dtype), pivots)
    batch = aval_of(lift).shape[:-1]
    c = reshape(matmul(reshape(lift, (*batch, 1, n)), w), (*batch, _RAISED))
    lower = add(tril(factors, -1), identity(aval_of(a)))
    back = transposed(_one_hot(permutation, n, aval_of(a).dtype))
    dtype = aval_of(expected).dtype
    rounding = mul(expected, mul(number(n, dtype), float(dtypes.finfo(dtype).eps)))
    zeros = reduce_sum(convert_element_type(le(sizes, rounding), INT32), (len(batch),))
    return matmul(back, matmul(lower, w)), c, w, gt(zeros, _RAISED)


def _expected_pivots(a: Any, permutation: Any) -> Any:
    """The sizes that the pivots would have by the scales of their rows and columns, if these were independent."""
    sizes, last = abs_(a), aval_of(a).ndim - 1
    rows, columns = (reduce_max_p.bind(sizes, axes=(axis,)) for axis in (last, last - 1))
    one = scalar_like(1, aval_of(sizes).dtype)
    largest = reduce_max_p.bind(rows, axes=(last - 1,))
    largest = where(gt(largest, 0), largest, one)
    largest = broadcast_in_dim(largest, aval_of(rows).shape, tuple(range(last - 1)))
    shape = aval_of(rows).shape
    rows = reshape(take_rows(reshape(rows, (*shape, 1)), permutation), shape)
    expected = mul(div(rows, largest), columns)
    return where(gt(expected, 0), expected, largest)


def _ranks(x: Any) -> Any:
    """The place of each element in ascending order."""
    n = aval_of(x).shape[-1]
    mine, others = as_rows(x, n), as_columns(x, n)
    shape = aval_of(mine).shape
    earlier = lt(iota(INT32, shape, len(shape) - 1), iota(INT32, shape, len(shape) - 2))
    before = or_(lt(others, mine), and_(eq(others, mine), earlier))
    return reduce_sum(convert_element_type(before, INT32), (len(shape) - 1,))


def _one_hot(places: Any, count: int, dtype: np.dtype[Any]) -> Any:
    """Rows with a one at `places`, zeros elsewhere."""
    spread = as_rows(places, count)
    shape = aval_of(spread).shape
    return convert_element_type(eq(spread, iota(INT32, shape, len(shape) - 1)), dtype)


def identity(aval: ShapedArray) -> Any:
    """Identity matrices of a type."""
    rows, columns = (iota(INT32, aval.shape, aval.ndim - k) for k in (2, 1))
    return convert_element_type(eq(rows, columns), aval.dtype)


def _batch(a: Any) -> tuple[int, ...]:
    return tuple(range(aval_of(a).ndim - 2))


solve_p = Solve("solve")
slogdet_p = Slogdet("slogdet")
det_p = Det("det")


def solve(a: Any, b: Any) -> Any:
    """`a^-1 b`, for square matrices and equal batch axes; NaN where `a` is singular."""
    return solve_p.bind(a, b)


def slogdet(a: Any) -> tuple[Any, Any]:
    """The determinant over its absolute value, and the logarithm of the absolute value."""
    unit, logarithm = slogdet_p.bind(a)
    return unit, logarithm


def det(a: Any) -> Any:
    """The determinant."""
    return det_p.bind(a)
