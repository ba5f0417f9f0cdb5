"""`qdwh`: the polar factors of a matrix by products and QR factors alone.

    X = U H, with orthonormal columns in U and a Hermitian H without negative eigenvalues

The iteration of Nakatsukasa, Bai and Gygi (SIAM J. Matrix Anal. Appl. 31, 2010): dynamically weighted Halley steps
move all singular values of U towards 1,

    U <- (b / c) U + (a - b / c) / sqrt(c) Q1 Q2^H    where [sqrt(c) U; I] = [Q1; Q2] R

with weights a, b, c that follow from a lower bound of the singular values. Six steps are enough for condition numbers
up to 1e16. Read next: `didax/scipy/linalg`, whose `polar` has derivatives.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import ArgumentError, message
from didax.core.value import Array
from didax.lax.loops import while_loop
from didax.lax.operands import operation
from didax.primitives import elementwise as el
from didax.primitives.convert import convert_element_type, iota
from didax.primitives.linalg import matrix
from didax.primitives.linalg.qr import qr
from didax.primitives.reductions import reduce_max_p
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, reduce_sum
from didax.primitives.slicing import concatenate, slice_axis

__all__ = ["qdwh"]

_MAX_ITERATIONS = 10


def _constant(value: float, aval: ShapedArray) -> Any:
    """The constant as an array of this type."""
    return broadcast_in_dim(scalar_like(value, aval.dtype), aval.shape, ())


class _State(NamedTuple):
    u: Array
    bound: Array  # below all singular values of u
    steps: Array
    change: Array  # of u by the last step


@operation
@evaluated_whole
def qdwh(
    x: Any,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[Any, Any] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Return `(u, h, steps, converged)` with `u @ h = x` for matrices with at least as many rows as columns.

    u has orthonormal columns and h is Hermitian without negative eigenvalues. `eps` is the precision that is asked for,
    by default that of the dtype; `is_hermitian` is accepted and makes no difference. With a `dynamic_shape`, two
    integers that may be traced, the matrix is the upper left part of x of this shape, and beside its factors there are
    zeros. ArgumentError for wide matrices.

    >>> import numpy as np
    >>> from didax import lax
    >>> u, h, steps, converged = lax.linalg.qdwh(np.float32([[0, 2], [1, 0]]))
    >>> np.allclose(u, [[0, 1], [1, 0]], atol=1e-6), np.allclose(h, [[1, 0], [0, 2]], atol=1e-6), bool(converged)
    (True, True, True)
    """
    aval = aval_of(x)
    matrix.check_matrices("qdwh", aval)
    rows, columns = aval.shape[-2:]
    if rows < columns:
        rule = "qdwh takes matrices with at least as many rows as columns."
        raise ArgumentError(message(rule, f"x: {aval}", fix="Pass the conjugate transpose: x = (u h)^H."))
    if dynamic_shape is not None:
        x = _part(x, *dynamic_shape)
    precision = float(dtypes.finfo(aval.dtype).eps) if eps is None else float(eps)
    return _iterate(x, precision, _MAX_ITERATIONS if max_iterations is None else int(max_iterations))


def _iterate(x: Any, eps: float, most: int) -> tuple[Array, Array, Array, Array]:
    aval = aval_of(x)
    dtype, (rows, columns), axes = aval.dtype, aval.shape[-2:], tuple(range(aval.ndim))
    real = dtypes.real_dtype(dtype)
    identity = matrix.on_diagonal(_constant(1, aval.update(shape=(*aval.shape[:-2], columns, columns))))

    def step(state: _State) -> _State:
        a, b, c = _weights(state.bound)
        stacked = concatenate([_times(state.u, el.sqrt(c)), identity], aval.ndim - 2)
        q, _ = qr(stacked, full_matrices=False)
        q1, q2 = [slice_axis(q, *ends, aval.ndim - 2) for ends in ((0, rows), (rows, rows + columns))]
        moved = _times(matrix.matmul(q1, matrix.adjoint(q2)), (a - b / c) / el.sqrt(c))
        u = el.add(_times(state.u, b / c), moved)
        bound = state.bound * (a + b * state.bound**2) / (1 + c * state.bound**2)
        change = el.sqrt(reduce_sum(el.square(el.abs_(el.sub(u, state.u))), axes))
        return _State(u, el.min_(bound, 1), state.steps + 1, change)

    def moves(state: _State) -> Any:
        return (1 - state.bound > 10 * eps) | (state.change > (5 * eps) ** (1 / 3))

    bound, steps, change = [_constant(v, aval.update(shape=(), dtype=d))
                            for v, d in ((eps, real), (0, np.dtype(np.int32)), (1, real))]  # fmt: skip
    start = _State(_scaled(x), bound, steps, change)
    last = while_loop(lambda state: (state.steps < most) & moves(state), step, start)
    u = last.u  # one step of Newton and Schulz removes the rounding errors
    gram = matrix.matmul(matrix.adjoint(u), u)
    u = el.sub(el.mul(u, 1.5), el.mul(matrix.matmul(u, gram), 0.5))
    h = matrix.hermitian_part(matrix.matmul(matrix.adjoint(u), x))
    return u, h, last.steps, ~moves(last)


def _part(x: Any, rows: Any, columns: Any) -> Any:
    """Zeros outside of a part of each matrix; the steps leave singular values of 0 as they are."""
    shape = aval_of(x).shape
    inside = [
        el.lt(iota(matrix.INT32, shape, axis), convert_element_type(size, matrix.INT32))
        for axis, size in ((len(shape) - 2, rows), (len(shape) - 1, columns))
    ]
    return where(el.and_(*inside), x, scalar_like(0, aval_of(x).dtype))


def _scaled(x: Any) -> Any:
    """Matrices scaled to singular values of at most 1: the 2-norm is at most the root of 1-norm times inf-norm."""
    ndim, sizes = aval_of(x).ndim, el.abs_(x)
    if not aval_of(x).size:
        return x
    norms = [reduce_max_p.bind(reduce_sum(sizes, (axis,)), axes=(ndim - 2,)) for axis in (ndim - 1, ndim - 2)]
    norm = el.mul(el.sqrt(norms[0]), el.sqrt(norms[1]))
    norm = where(el.eq(norm, 0), _constant(1, aval_of(norm)), norm)
    norm = broadcast_in_dim(norm, aval_of(x).shape, tuple(range(ndim - 2)))
    return el.div(x, convert_element_type(norm, aval_of(x).dtype))


def _times(x: Any, factor: Any) -> Any:
    return el.mul(x, convert_element_type(factor, aval_of(x).dtype))


def _weights(bound: Any) -> tuple[Any, Any, Any]:
    """The weights a, b and c of the next step."""
    square = bound**2
    d = el.cbrt(4 * (1 - square) / square**2)
    root = el.sqrt(1 + d)
    a = root + 0.5 * el.sqrt(8 - 4 * d + 8 * (2 - square) / (square * root))
    b = (a - 1) ** 2 / 4
    return a, b, a + b - 1
