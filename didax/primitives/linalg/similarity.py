"""Forms of square matrices under unitary similarity, A = Q F Q^H, by LAPACK's reflections and iterations.

    hessenberg:   F is zero below its first subdiagonal
    tridiagonal:  F is tridiagonal and real, for Hermitian A, of which one triangle is read
    schur:        F is upper triangular; for real A it has blocks of two on the diagonal where eigenvalues are complex

The first two are given as LAPACK gives them: F, the vectors of the reflections where F has zeros, and their factors
`taus`. The forms are not unique, so they have no derivatives; what is made of them (square roots, solutions of
Sylvester equations) is differentiated as a whole. Read next: `qr.py`, whose `householder_product` multiplies
reflections out.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.errors import ArgumentError, message
from didax.primitives.holes import NOT_LINEAR
from didax.primitives.linalg.host import Factorization, by_matrix, lower_on_host, nan_if_failed, routine
from didax.primitives.linalg.matrix import (
    check_square,
    info_aval,
    nan_unless,
    real_dtype,
    succeeded,
    with_matrix,
)
from didax.xla.lapack import Int32, cuda_call, lapack_call
from didax.xla.platforms import platform
from didax.xla.text import FunctionContext, Value

_NOT_UNIQUE = "the form is not unique, and its basis turns freely where eigenvalues meet"


class _Form(Factorization):
    on_gpus = False  # whether cuSOLVER has it
    multiple_results = True
    holes = {"jvp": _NOT_UNIQUE, "transpose": NOT_LINEAR}

    def lower(self, ctx: FunctionContext, x: Value, **params: Any) -> list[Value]:
        if x.aval.size == 0:
            return [ctx.constant(0, aval) for aval in ctx.out_avals]
        if platform() != "cpu" and not self.on_gpus:
            rule: Any = self.eager
            return lower_on_host(ctx, self.name, functools.partial(rule, **params), [x])
        *results, info = self.call(ctx, x, **params)
        ok = succeeded(ctx, info)
        return [nan_unless(ctx, ok, y) for y in results[: len(ctx.out_avals)]]

    def call(self, ctx: FunctionContext, x: Value, **params: Any) -> list[Value]:
        """The results, perhaps more of them than are asked for, then LAPACK's status."""
        raise NotImplementedError


class Hessenberg(_Form):
    """`[a, taus]`: the Hessenberg form with the reflections' vectors below it, and the factors of the reflections."""

    def type(self, x: ShapedArray) -> Sequence[ShapedArray]:
        check_square("hessenberg", x)
        return [x, with_matrix(x, _one_less("hessenberg", x))]

    def eager(self, x: Any) -> list[Any]:
        gehrd = routine("gehrd", x.dtype)

        def one(x: Any) -> Any:
            a, taus, info = gehrd(x)
            return nan_if_failed(info, a, taus)

        return by_matrix(one, x)

    def call(self, ctx: FunctionContext, x: Value) -> list[Value]:
        bounds = {"low": Int32(1), "high": Int32(x.aval.shape[-1])}
        return lapack_call(ctx, "gehrd", [x], [*ctx.out_avals, info_aval(x.aval)], **bounds)


class Tridiagonal(_Form):
    """`[a, d, e, taus]`: the form with the reflections' vectors beside it, its diagonals, the reflections' factors."""

    on_gpus = True

    def type(self, x: ShapedArray, *, lower: bool) -> Sequence[ShapedArray]:
        check_square("tridiagonal", x)
        n, less, real = x.shape[-1], _one_less("tridiagonal", x), real_dtype(x)
        return [x, with_matrix(x, n, dtype=real), with_matrix(x, less, dtype=real), with_matrix(x, less)]

    def call(self, ctx: FunctionContext, x: Value, *, lower: bool) -> list[Value]:
        outs = [*ctx.out_avals, info_aval(x.aval)]
        if platform() != "cpu":
            return cuda_call(ctx, "cusolver_sytrd_ffi", [x], outs, lower=lower)
        routine = "hetrd" if dtypes.is_complex(x.aval.dtype) else "sytrd"
        return lapack_call(ctx, routine, [x], outs, uplo="L" if lower else "U")


class Schur(_Form):
    """`[t]`, or with `vectors` `[t, z]`: the Schur form and the unitary matrix that leads to it."""

    def type(self, x: ShapedArray, *, vectors: bool) -> Sequence[ShapedArray]:
        check_square("schur", x)
        return [x, x] if vectors else [x]

    def eager(self, x: Any, *, vectors: bool) -> list[Any]:
        gees = routine("gees", x.dtype)

        def one(x: Any) -> Any:
            t, *_, z, _, info = gees(_unsorted, x, compute_v=vectors)
            return nan_if_failed(info, t, z) if vectors else nan_if_failed(info, t)

        return by_matrix(one, x)

    def call(self, ctx: FunctionContext, x: Value, *, vectors: bool) -> list[Value]:
        eigenvalues = [with_matrix(x.aval, x.aval.shape[-1])] * (1 if dtypes.is_complex(x.aval.dtype) else 2)
        outs = [x.aval, x.aval, *eigenvalues, *[info_aval(x.aval)] * 2]
        return lapack_call(ctx, "gees", [x], outs, mode="NV"[vectors], sort="N")


def _unsorted(*eigenvalue: Any) -> int:
    return 0


def _one_less(name: str, x: ShapedArray) -> int:
    if not x.shape[-1]:
        rule = f"{name} takes matrices of one row or more."
        raise ArgumentError(message(rule, f"operand: {x}", fix="Leave the empty matrix out."))
    return x.shape[-1] - 1


hessenberg_p = Hessenberg("hessenberg")
tridiagonal_p = Tridiagonal("tridiagonal")
schur_p = Schur("schur")


def hessenberg(x: Any) -> tuple[Any, Any]:
    """The Hessenberg form with reflections below it, and their factors."""
    a, taus = hessenberg_p.bind(x)
    return a, taus


def tridiagonal(x: Any, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """The tridiagonal form with reflections beside it, its two diagonals, and the reflections' factors."""
    a, d, e, taus = tridiagonal_p.bind(x, lower=lower)
    return a, d, e, taus


def schur(x: Any, vectors: bool = True) -> list[Any]:
    """The Schur form, and the unitary matrix if it is asked for."""
    return schur_p.bind(x, vectors=vectors)
