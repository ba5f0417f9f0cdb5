"""What the factorisations share: checks of their operands, the batching rule, small matrix algebra, lowering helpers.

Matrices are the last two axes of an array, vectors are the last axis; all axes before them are batch axes. So vmap adds
one more leading axis, for every primitive here (`MatrixPrimitive`).

# Note [Degenerate gaps]
The derivatives of eigenvectors and singular vectors divide by the gaps between eigenvalues. Within a group of
equal eigenvalues the vectors are any basis of the group's space, and have no derivative. Functions of the matrix that
do not depend on the choice of basis (its norms, the trace of f(A), a projector on whole groups) get the right
derivative when rotations within a group are left out, where a division by zero would give NaN. Eigenvalues count as
equal when they are closer than their rounding error. The same holds for the extra columns of full factors. The matrix
V f(w) V^H is not among these functions: within a group its derivative is f'(w), which no rule for V can know. Second
derivatives at equal eigenvalues lack what mixes the vectors of a group, for the same reason: that of the sum of f(w)
has f''(w) there. Functions with rules of their own (pinv, det, expm, polar) have it.

Read next: `triangular.py`, then `lu.py`, `qr.py`, `eigen.py`, `svd.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import max_dim
from didax.core.errors import ArgumentError, message
from didax.core.primitive import Primitive
from didax.primitives import padded, split
from didax.primitives.convert import convert_element_type, iota, stop_gradient_p
from didax.primitives.dimension import number
from didax.primitives.dot import Precision, dot_general_p
from didax.primitives.elementwise import abs_, add, conj, div, eq, ge, gt, le, lt, mul, neg, real_part, sub
from didax.primitives.reductions import reduce_max_p
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, reshape, transpose
from didax.primitives.slicing import slice_axis
from didax.transforms.batching import AxisData, move_batch_axis
from didax.transforms.elements import check_elements
from didax.xla.text import FunctionContext, Value, lower_parts

DTYPES = frozenset([np.dtype(name) for name in ("float32", "float64", "complex64", "complex128")])
INT32 = np.dtype(np.int32)
_BOOL = np.dtype(bool)
# Rounding errors of the largest eigenvalue; LAPACK splits equal eigenvalues of small matrices by up to 8 of them.
_GAP = 32


class MatrixPrimitive(Primitive):
    """A primitive on the matrices that are the last two axes of its operands."""

    materializes_operands = True
    sharding = split.along_whole_axes(lambda x, **_: range(x.ndim - 2, x.ndim))
    padded = padded.in_batches(2)

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any
    ) -> tuple[Any, Any]:
        check_elements(self, args, dims, params)  # a batch of vectors would pass for a matrix
        values = [move_batch_axis(x, dim, 0, axis.size) for x, dim in zip(args, dims, strict=True)]
        out = self.bind(*values, **params)
        return out, [0] * len(out) if self.multiple_results else 0


# --- Checks -------------------------------------------------------------------------------------------------


def check_matrices(name: str, x: ShapedArray, what: str = "operand") -> None:
    """TypeError unless `x` holds matrices of a dtype that LAPACK knows."""
    if x.dtype not in DTYPES:
        raise TypeError(
            message(
                f"{name} computes in float32, float64, complex64 or complex128.",
                f"{what}: {x}",
                fix="Cast it first (x.astype), and the result back if need be.",
            )
        )
    if x.ndim < 2:
        raise ArgumentError(
            message(
                f"{name} takes matrices: the last two axes of an array.",
                f"{what}: {x}",
                fix="Give it two axes or more (reshape).",
            )
        )


def check_square(name: str, x: ShapedArray, what: str = "operand") -> None:
    """TypeError or ValueError unless `x` holds square matrices of a dtype that LAPACK knows."""
    check_matrices(name, x, what)
    if x.shape[-1] != x.shape[-2]:
        raise ArgumentError(
            message(
                f"{name} takes square matrices.",
                f"{what}: {x}",
                fix="Pass an array whose last two axes have one length.",
            )
        )


def with_matrix(x: ShapedArray, *shape: int, dtype: np.dtype[Any] | None = None) -> ShapedArray:
    """The type of an array with the batch axes of `x` and this shape after them."""
    return x.update(shape=(*x.shape[:-2], *shape), dtype=dtype)


def real_dtype(x: ShapedArray) -> np.dtype[Any]:
    """The dtype of the real and imaginary parts of `x`."""
    return dtypes.real_dtype(x.dtype)


# --- Matrix algebra -----------------------------------------------------------------------------------------


def matmul(x: Any, y: Any) -> Any:
    """Product of matrices with equal batch axes."""
    n = aval_of(x).ndim
    batch = tuple(range(n - 2))
    return dot_general_p.bind(
        x,
        y,
        dimension_numbers=(((n - 1,), (n - 2,)), (batch, batch)),
        precision=(Precision.HIGHEST, Precision.HIGHEST),
        preferred_element_type=None,
    )


def transposed(x: Any) -> Any:
    """The matrices with rows and columns exchanged."""
    n = aval_of(x).ndim
    return transpose(x, (*range(n - 2), n - 1, n - 2))


def conjugate(x: Any) -> Any:
    """The complex conjugate; real numbers stay as they are."""
    return conj(x) if dtypes.is_complex(aval_of(x).dtype) else x


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    return conjugate(transposed(x))


def hermitian_part(x: Any) -> Any:
    """(x + x^H) / 2."""
    return mul(add(x, adjoint(x)), 0.5)


def _indices(compare: Callable[..., Any], x: Any, offset: int = 0) -> Any:
    """Where `compare(row + offset, column)` holds in matrices of the shape of `x`."""
    shape = aval_of(x).shape
    rows, columns = iota(INT32, shape, len(shape) - 2), iota(INT32, shape, len(shape) - 1)
    return compare(add(rows, offset) if offset else rows, columns)


def _where_indices(compare: Callable[..., Any], x: Any, offset: int = 0) -> Any:
    return where(_indices(compare, x, offset), x, scalar_like(0, aval_of(x).dtype))


def tril(x: Any, k: int = 0) -> Any:
    """`x` on and below its k-th diagonal, zero above."""
    return _where_indices(ge, x, k)


def triu(x: Any, k: int = 0) -> Any:
    """`x` on and above its k-th diagonal, zero below."""
    return _where_indices(le, x, k)


def on_diagonal(x: Any) -> Any:
    """`x` on its diagonal, zero elsewhere."""
    return _where_indices(eq, x)


def diagonal(x: Any) -> Any:
    """The diagonal of matrices with at least as many columns as rows.

    In a matrix that is laid out row after row, it is every (columns + 1)-th element.
    """
    *batch, rows, columns = aval_of(x).shape
    flat = reshape(x, (*batch, rows * columns))
    return slice_axis(flat, 0, rows * columns, len(batch), columns + 1)


def half_triangle(x: Any, lower: bool = True) -> Any:
    """`x` below its diagonal (or above), half of it on the diagonal, zero elsewhere."""
    inside = tril(x) if lower else triu(x)
    return where(_indices(eq, x), mul(inside, 0.5), inside)


def from_triangle(x: Any, lower: bool) -> Any:
    """The Hermitian matrix that has one triangle in common with `x`; imaginary parts on the diagonal are not read."""
    half = half_triangle(x, lower)
    return add(half, adjoint(half))


def real_diagonal(x: Any) -> Any:
    """The real part of the diagonal, zero elsewhere, in the dtype of `x`."""
    return convert_element_type(real_part(on_diagonal(x)), aval_of(x).dtype)


def positive_diagonal(x: Any) -> Any:
    """Upper triangular factors with a real diagonal; rows in which the diagonal is negative are negated."""
    negative = lt(real_part(diagonal(x)), 0)
    return triu(where(as_rows(negative, aval_of(x).shape[-1]), neg(x), x))


def scale_columns(x: Any, factors: Any) -> Any:
    """`x @ diag(factors)`; the factors have the dtype of `x` or are real."""
    return mul(x, as_columns(convert_element_type(factors, aval_of(x).dtype), aval_of(x).shape[-2]))


def as_columns(v: Any, rows: int) -> Any:
    """Matrices with entries `v[j]` in column j."""
    *batch, n = aval_of(v).shape
    return broadcast_in_dim(v, (*batch, rows, n), (*range(len(batch)), len(batch) + 1))


def as_rows(v: Any, columns: int) -> Any:
    """Matrices with entries `v[i]` in row i."""
    shape = aval_of(v).shape
    return broadcast_in_dim(v, (*shape, columns), tuple(range(len(shape))))


def reciprocal_or_zero(x: Any, values: Any) -> Any:
    """1 / x, and 0 where x is within the rounding error of `values`. See Note [Degenerate gaps]."""
    aval, n = aval_of(x), aval_of(values).shape[-1]
    sizes = abs_(stop_gradient_p.bind(values))
    largest = reduce_max_p.bind(sizes, axes=(aval_of(sizes).ndim - 1,))
    units = mul(number(max_dim(n, _GAP), aval_of(sizes).dtype), float(dtypes.finfo(aval.dtype).eps))
    limit = mul(largest, units)
    limit = broadcast_in_dim(limit, aval.shape, tuple(range(aval_of(limit).ndim)))
    matters = gt(abs_(stop_gradient_p.bind(x)), limit)
    one, zero = scalar_like(1, aval.dtype), scalar_like(0, aval.dtype)
    return where(matters, div(one, where(matters, x, one)), zero)


def gaps(values: Any) -> Any:
    """The matrices values[j] - values[i]."""
    n = aval_of(values).shape[-1]
    return sub(as_columns(values, n), as_rows(values, n))


# --- Lowering -----------------------------------------------------------------------------------------------


def info_aval(x: ShapedArray) -> ShapedArray:
    """The type of LAPACK's status codes, one per matrix."""
    return with_matrix(x, dtype=INT32).strip_weak_type()


def succeeded(ctx: FunctionContext, info: Value, direction: str = "EQ") -> Value:
    """Where the status is 0 (or, by direction, at least 0)."""
    return ctx.compare(direction, info, ctx.constant(0, info.aval))


def nan_unless(ctx: FunctionContext, ok: Value, x: Value) -> Value:
    """`x` for the matrices that `ok` names, NaN for the others."""
    return _lower_unless(ctx, ok, x, nan_of(x.aval.dtype))


def zero_unless(ctx: FunctionContext, ok: Value, x: Value) -> Value:
    """`x` for the matrices that `ok` names, 0 for the others."""
    return _lower_unless(ctx, ok, x, 0)


def _lower_unless(ctx: FunctionContext, ok: Value, x: Value, otherwise: complex) -> Value:
    chosen = ctx.broadcast(ok, x.aval.update(dtype=_BOOL), range(ok.aval.ndim))
    return ctx.select(chosen, x, ctx.constant(otherwise, x.aval))


def lower_finite(ctx: FunctionContext, x: Value) -> Value:
    """The matrices all of whose elements are finite.

    For others cuSOLVER reports success and returns numbers, and gesdd of LAPACK may not return.
    """
    return _where_all(ctx, x, lambda y: ctx.op("is_finite", [y], y.aval.update(dtype=_BOOL, weak_type=False)))


def lower_has_numbers(ctx: FunctionContext, x: Value) -> Value:
    """The matrices without a NaN; of others cuSOLVER says that they are singular."""
    return _where_all(ctx, x, lambda y: ctx.compare("EQ", y, y))


def _where_all(ctx: FunctionContext, x: Value, holds: Callable[[Value], Value]) -> Value:
    found = list(map(holds, lower_parts(ctx, x) if dtypes.is_complex(x.aval.dtype) else [x]))
    both = found[0] if len(found) == 1 else ctx.op("and", found)
    return ctx.reduce(both, [x.aval.ndim - 2, x.aval.ndim - 1], "and", True)


def nan_of(dtype: np.dtype[Any]) -> complex:
    """What stands where there is no result: of complex numbers, both parts are NaN."""
    return complex(np.nan, np.nan) if dtypes.is_complex(dtype) else np.nan


def lower_triangle(ctx: FunctionContext, x: Value, direction: str) -> Value:
    """`x` where row `direction` column holds for the indices (GE: the lower triangle), zero elsewhere."""
    return ctx.select(_compare_indices(ctx, x.aval, direction), x, ctx.constant(0, x.aval))


def lower_eye(ctx: FunctionContext, aval: ShapedArray) -> Value:
    """Ones on the diagonal, zeros elsewhere."""
    on = _compare_indices(ctx, aval, "EQ")
    return ctx.select(on, ctx.constant(1, aval), ctx.constant(0, aval))


def _compare_indices(ctx: FunctionContext, aval: ShapedArray, direction: str) -> Value:
    index = aval.update(dtype=INT32, weak_type=False)
    return ctx.compare(direction, ctx.iota(index, aval.ndim - 2), ctx.iota(index, aval.ndim - 1))


def lower_slice(ctx: FunctionContext, x: Value, rows: int, columns: int) -> Value:
    """The first rows and columns of matrices."""
    out = with_matrix(x.aval, rows, columns)
    if out.shape == x.aval.shape:
        return x
    return ctx.slice(x, [0] * out.ndim, out.shape)


def lower_adjoint(ctx: FunctionContext, x: Value) -> Value:
    """The conjugate transpose."""
    *batch, rows, columns = range(x.aval.ndim)
    return lower_conjugate(ctx, ctx.transpose(x, [*batch, columns, rows]))


def lower_conjugate(ctx: FunctionContext, x: Value) -> Value:
    """The complex conjugate."""
    return ctx.emit(f"chlo.conj {x} : {x.type} -> {x.type}", x.aval) if dtypes.is_complex(x.aval.dtype) else x


# --- Eager --------------------------------------------------------------------------------------------------


def matrix_by_matrix(f: Callable[[Any], Any], x: Any, out_shape: tuple[int, ...], dtype: Any) -> Any:
    """`f` of NumPy matrices; the result is NaN for matrices for which `f` raises LinAlgError."""
    try:
        return f(x)
    except np.linalg.LinAlgError:
        out = np.full(out_shape, nan_of(np.dtype(dtype)), dtype)
    for index in np.ndindex(x.shape[:-2]):
        try:
            out[index] = f(x[index])
        except np.linalg.LinAlgError:
            continue
    return out
