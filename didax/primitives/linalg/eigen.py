"""Eigenvalues and eigenvectors: `eigh` of Hermitian matrices, `eig` of any square ones (on the CPU).

    eigh:  A V = V diag(w), V unitary, w real and ascending; one triangle of A is read
    eig:   A V = V diag(w), and A^H U = U diag(w)^* for the left vectors U; columns of norm 1

A column times any number of modulus 1 is an eigenvector too; derivatives are those of columns that this number does
not turn. Where eigenvalues coincide, see Note [Degenerate gaps] in `matrix.py`. Read next: `svd.py`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import mul, real_part, sub
from didax.primitives.holes import NOT_LINEAR
from didax.primitives.linalg.host import (
    Factorization,
    by_matrix,
    is_finite,
    lower_on_host,
    nan_if_failed,
    routine,
)
from didax.primitives.linalg.matrix import (
    MatrixPrimitive,
    adjoint,
    as_columns,
    check_square,
    conjugate,
    diagonal,
    from_triangle,
    gaps,
    info_aval,
    lower_finite,
    lower_has_numbers,
    lower_triangle,
    matmul,
    matrix_by_matrix,
    nan_unless,
    real_dtype,
    reciprocal_or_zero,
    succeeded,
    with_matrix,
)
from didax.primitives.linalg.solve import solve
from didax.primitives.shape import reduce_sum
from didax.xla.lapack import cuda_call, lapack_call
from didax.xla.platforms import platform
from didax.xla.text import FunctionContext, Value, tensor_type


class Eigh(Factorization):
    """`[v, w]`: eigenvectors as columns and ascending eigenvalues of the Hermitian matrix that one triangle gives."""

    multiple_results = True
    holes = {"transpose": NOT_LINEAR}

    def type(self, x: ShapedArray, *, lower: bool) -> Sequence[ShapedArray]:
        check_square("eigh", x)
        return [x, with_matrix(x, x.shape[-1], dtype=real_dtype(x))]

    def eager(self, x: Any, *, lower: bool) -> list[Any]:
        solver = routine(_routine(x.dtype), x.dtype)

        def one(x: Any) -> Any:
            w, v, info = solver(x, lower=lower)
            return nan_if_failed(info, v, w)

        return by_matrix(one, x)

    def lower(self, ctx: FunctionContext, x: Value, *, lower: bool) -> list[Value]:
        return _lower_eigh(ctx, x, lower, "V")

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, lower: bool
    ) -> tuple[list[Any], list[Any]]:
        """With M = V^H A' V: w' = diag(M), V' = V (M / gaps)."""
        (x,), (t,) = primals, tangents
        v, w = self.bind(x, lower=lower)
        if type(t) is Zero:
            return [v, w], [Zero(aval_of(y).tangent()) for y in (v, w)]
        inner = _in_eigenbasis(v, t, lower)
        turn = mul(inner, convert_element_type(reciprocal_or_zero(gaps(w), w), aval_of(v).dtype))
        return [v, w], [matmul(v, turn), real_part(diagonal(inner))]


class Eigvalsh(MatrixPrimitive):
    """The ascending eigenvalues of the Hermitian matrix that one triangle gives."""

    holes = {"transpose": NOT_LINEAR}

    def type(self, x: ShapedArray, *, lower: bool) -> ShapedArray:
        check_square("eigvalsh", x)
        return with_matrix(x, x.shape[-1], dtype=real_dtype(x))

    def eager(self, x: Any, *, lower: bool) -> Any:
        side = "L" if lower else "U"
        w = matrix_by_matrix(lambda y: np.linalg.eigvalsh(y, side), x, x.shape[:-1], x.real.dtype)
        if is_finite(x):
            return w
        read = np.tril(x) if lower else np.triu(x)
        return np.where(np.isnan(read).any((-2, -1))[..., None], np.nan, w).astype(w.dtype)

    def lower(self, ctx: FunctionContext, x: Value, *, lower: bool) -> Value:
        return _lower_eigh(ctx, x, lower, "N")[1]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, lower: bool) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        if type(t) is Zero:
            w = self.bind(x, lower=lower)
            return w, Zero(aval_of(w).tangent())
        v, w = eigh_p.bind(x, lower=lower)
        return w, real_part(diagonal(_in_eigenbasis(v, t, lower)))


def _in_eigenbasis(v: Any, t: Any, lower: bool) -> Any:
    """V^H A' V, the tangent of the matrix in its eigenbasis."""
    return matmul(adjoint(v), matmul(from_triangle(t, lower), v))


def _lower_eigh(ctx: FunctionContext, x: Value, lower: bool, mode: str) -> list[Value]:
    w_aval = with_matrix(x.aval, x.aval.shape[-1], dtype=real_dtype(x.aval))
    if x.aval.size == 0:
        return [x, ctx.constant(0, w_aval)]
    outs = [x.aval, w_aval, info_aval(x.aval)]
    if platform() == "cpu":
        name, uplo = _routine(x.aval.dtype), "L" if lower else "U"
        *results, info = lapack_call(ctx, name, [x], outs, mode=mode, uplo=uplo)
        usable = lower_has_numbers if mode == "N" else None  # without vectors LAPACK may lose a NaN
    else:
        *results, info = cuda_call(ctx, "cusolver_syevd_ffi", [x], outs, algorithm=0, lower=lower)
        usable = lower_finite
    ok = succeeded(ctx, info)
    if usable is not None:
        read = lower_triangle(ctx, x, "GE" if lower else "LE")
        ok = ctx.op("and", [ok, usable(ctx, read)])
    return [nan_unless(ctx, ok, y) for y in results]


def _routine(dtype: np.dtype[Any]) -> str:
    return "heevd" if dtypes.is_complex(dtype) else "syevd"


class Eig(MatrixPrimitive):
    """`[w]`, then left and right eigenvectors as far as asked for, as columns; all of them complex."""

    multiple_results = True
    holes = {"transpose": NOT_LINEAR}

    def type(self, x: ShapedArray, *, compute_left: bool, compute_right: bool) -> Sequence[ShapedArray]:
        check_square("eig", x)
        dtype = dtypes.complex_dtype(x.dtype)
        vectors = x.update(dtype=dtype)
        return [with_matrix(x, x.shape[-1], dtype=dtype), *[vectors] * (compute_left + compute_right)]

    def lower(
        self, ctx: FunctionContext, x: Value, *, compute_left: bool, compute_right: bool
    ) -> list[Value]:
        w_aval = ctx.out_avals[0]
        if x.aval.size == 0:
            return [ctx.constant(0, aval) for aval in ctx.out_avals]
        if platform() != "cpu":
            rule = functools.partial(_eig_on_host, compute_left=compute_left, compute_right=compute_right)
            return lower_on_host(ctx, "eig", rule, [x])
        flags = {"compute_left": "NV"[compute_left], "compute_right": "NV"[compute_right]}
        vectors = [x.aval.update(dtype=w_aval.dtype)] * 2
        if dtypes.is_complex(x.aval.dtype):
            w, *both, info = lapack_call(ctx, "geev", [x], [w_aval, *vectors, info_aval(x.aval)], **flags)
        else:
            parts = [w_aval.update(dtype=x.aval.dtype)] * 2
            re, im, *both, info = lapack_call(
                ctx, "geev", [x], [*parts, *vectors, info_aval(x.aval)], **flags
            )
            w = ctx.emit(f"stablehlo.complex {re}, {im} : {tensor_type(w_aval)}", w_aval)
        ok = succeeded(ctx, info)
        asked = [v for v, wanted in zip(both, (compute_left, compute_right), strict=True) if wanted]
        return [nan_unless(ctx, ok, y) for y in (w, *asked)]

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, compute_left: bool, compute_right: bool
    ) -> tuple[list[Any], list[Any]]:
        (x,), (t,) = primals, tangents
        if type(t) is Zero:
            outs = self.bind(x, compute_left=compute_left, compute_right=compute_right)
            return outs, [Zero(aval_of(y).tangent()) for y in outs]
        w, *left, right = self.bind(x, compute_left=compute_left, compute_right=True)
        t = convert_element_type(t, aval_of(w).dtype)
        w_dot, right_dot = _eig_tangents(t, w, right)
        left_dot = [_eig_tangents(adjoint(t), conjugate(w), u)[1] for u in left]
        outs, dots = [w, *left, right], [w_dot, *left_dot, right_dot]
        kept = len(outs) if compute_right else -1
        return outs[:kept], dots[:kept]


def _eig_on_host(x: Any, *, compute_left: bool, compute_right: bool) -> list[Any]:
    """What `Eig` computes, by SciPy, for each matrix."""
    library: Any = importlib.import_module("scipy.linalg")
    dtype = dtypes.complex_dtype(x.dtype)

    def one(x: Any) -> Sequence[Any]:
        finite = is_finite(x)  # LAPACK may not return for other matrices
        try:
            w, left, right = library.eig(x if finite else np.zeros_like(x), left=True, right=True)
        except np.linalg.LinAlgError:
            w, left, right, finite = x[0], x, x, False
        asked = [v for v, wanted in ((left, compute_left), (right, compute_right)) if wanted]
        return nan_if_failed(not finite, *[y.astype(dtype) for y in (w, *asked)])

    return by_matrix(one, x)


def _eig_tangents(t: Any, w: Any, v: Any) -> tuple[Any, Any]:
    """With M = V^-1 A' V: w' = diag(M), and V' = V (M / gaps), without the part that scales or turns a column."""
    inner = solve(v, matmul(t, v))
    moved = matmul(v, mul(inner, reciprocal_or_zero(gaps(w), w)))
    overlap = reduce_sum(mul(conjugate(v), moved), (aval_of(v).ndim - 2,))
    return diagonal(inner), sub(moved, mul(v, as_columns(overlap, aval_of(v).shape[-2])))


eigh_p = Eigh("eigh")
eigvalsh_p = Eigvalsh("eigvalsh")
eig_p = Eig("eig")


def eigh(x: Any, lower: bool = True) -> tuple[Any, Any]:
    """Eigenvectors and eigenvalues of the Hermitian matrix that one triangle of `x` gives."""
    v, w = eigh_p.bind(x, lower=lower)
    return v, w


def eigvalsh(x: Any, lower: bool = True) -> Any:
    """Eigenvalues of the Hermitian matrix that one triangle of `x` gives."""
    return eigvalsh_p.bind(x, lower=lower)


def eig(x: Any, compute_left: bool = True, compute_right: bool = True) -> list[Any]:
    """Eigenvalues, then left and right eigenvectors as far as asked for."""
    return eig_p.bind(x, compute_left=compute_left, compute_right=compute_right)
