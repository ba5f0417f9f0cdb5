"""The pseudoinverse of any matrix: P = V diag(1/s) U^H for A = U diag(s) V^H, without the s that vanish.

A P and P A project on the columns of A and of A^H. The derivative is stated for the pseudoinverse as a whole and holds
where the rank does not change; derivatives of the factors would not do, since they do not exist where singular values
coincide. Read next: `didax/numpy/linalg.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import may_exceed
from didax.core.errors import message
from didax.core.primitive import Rule
from didax.primitives.elementwise import abs_, add, div, le, mul, sub
from didax.primitives.holes import NOT_LINEAR
from didax.primitives.linalg.eigen import eigh, eigh_p
from didax.primitives.linalg.host import are_small
from didax.primitives.linalg.matrix import (
    MatrixPrimitive,
    adjoint,
    check_matrices,
    check_square,
    hermitian_part,
    matmul,
    real_dtype,
    scale_columns,
    transposed,
    with_matrix,
)
from didax.primitives.linalg.svd import svd, svd_p
from didax.primitives.reductions import reduce_max_p
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim
from didax.xla.lowering import lower_as


def _pinv(a: Any, rcond: Any, *, hermitian: bool) -> Sequence[Any]:
    if not aval_of(a).size:
        return [transposed(a)]
    if hermitian:
        v, s = eigh(hermitian_part(a))
        uh = adjoint(v)
    else:
        u, s, vh = svd(a, full_matrices=False)
        v, uh = adjoint(vh), adjoint(u)
    last = aval_of(s).ndim - 1
    cutoff = mul(rcond, reduce_max_p.bind(abs_(s), axes=(last,)))
    vanish = le(abs_(s), broadcast_in_dim(cutoff, aval_of(s).shape, tuple(range(last))))  # a NaN does not
    one, zero = (scalar_like(k, aval_of(s).dtype) for k in (1, 0))
    return [matmul(scale_columns(v, where(vanish, zero, div(one, where(vanish, one, s)))), uh)]


def _adjoint(x: Any) -> Any:
    return x.swapaxes(-1, -2).conj()


class Pinv(MatrixPrimitive):
    """The pseudoinverse of A; singular values of at most `rcond` times the largest count as zero.

    With `hermitian` it is the pseudoinverse of the Hermitian part of A.
    """

    holes = {"transpose": NOT_LINEAR}

    def type(self, a: ShapedArray, rcond: ShapedArray, *, hermitian: bool) -> ShapedArray:
        (check_square if hermitian else check_matrices)("pinv", a)
        if rcond.shape != a.shape[:-2] or rcond.dtype != real_dtype(a):
            raise TypeError(
                message(
                    "pinv takes a real rcond for each matrix.",
                    f"a: {a}",
                    f"rcond: {rcond}",
                    fix="Broadcast rcond to the batch axes of a.",
                )
            )
        return with_matrix(a, *a.shape[:-3:-1])

    def eager_for(self, avals: tuple[ShapedArray, ...]) -> Rule:
        return super().eager_for(avals) if are_small(avals[:1]) else None

    def eager(self, a: Any, rcond: Any, *, hermitian: bool) -> Any:
        if hermitian:
            half = a.real.dtype.type(0.5)
            v, s = eigh_p.eager((a + _adjoint(a)) * half, lower=True)
            uh = _adjoint(v)
        else:
            u, s, vh = svd_p.eager(a, full_matrices=False)
            v, uh = _adjoint(vh), _adjoint(u)
        sizes = np.abs(s)
        vanish = sizes <= np.asarray(rcond * sizes.max(-1))[..., None]  # a NaN does not
        weights = np.where(vanish, 0, 1 / np.where(vanish, 1, s))
        return (v * weights[..., None, :].astype(s.dtype)) @ uh

    lower = lower_as(_pinv)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, hermitian: bool) -> tuple[Any, Any]:
        (a, rcond), (t, _) = primals, tangents
        out = self.bind(a, rcond, hermitian=hermitian)
        if type(t) is Zero:
            return out, Zero(aval_of(out).tangent())
        a, t = (hermitian_part(a), hermitian_part(t)) if hermitian else (a, t)
        return out, _pinv_tangent(a, out, t)


def _pinv_tangent(a: Any, p: Any, t: Any) -> Any:
    """-P A' P + P P^H A'^H (1 - A P) + (1 - P A) A'^H P^H P, where the rank does not change.

    G. Golub and V. Pereyra, The differentiation of pseudo-inverses, 1973.
    """
    m, n = aval_of(a).shape[-2:]
    th, ph = adjoint(t), adjoint(p)
    if not may_exceed(n, m):
        first, second = matmul(matmul(p, ph), th), matmul(matmul(th, ph), p)
    else:
        first, second = matmul(p, matmul(ph, th)), matmul(th, matmul(ph, p))
    outside = add(sub(first, matmul(matmul(first, a), p)), sub(second, matmul(p, matmul(a, second))))
    return sub(outside, matmul(p, matmul(t, p)))


pinv_p = Pinv("pinv")


def pinv(a: Any, rcond: Any, hermitian: bool = False) -> Any:
    """The pseudoinverse; singular values of at most `rcond` (one number for each matrix) times the largest are zero."""
    return pinv_p.bind(a, rcond, hermitian=hermitian)
