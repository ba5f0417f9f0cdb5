"""Signs and absolute values, the parts of complex numbers, and complex numbers of their parts.

The cotangent of a complex number follows the rule that the transpose of a product multiplies without conjugation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.primitives import complex_functions, numpy_rules
from didax.primitives.elementwise.arithmetic import div, mul, neg, number_like
from didax.primitives.elementwise.comparisons import eq
from didax.primitives.elementwise_operands import operand_error
from didax.primitives.families import Elementwise, unary
from didax.primitives.select import where


def _sign_jvp(t: Any, y: Any, x: Any) -> Any:
    if not dtypes.is_complex(aval_of(x).dtype):
        return Zero(aval_of(t))
    size = abs_(x)
    size = where(eq(x, 0), number_like(1, size), size)  # at 0 the numerator is 0, forward and transposed
    turn = div(imag(mul(conj(y), t)), size)  # only a change of direction changes z / |z|
    return mul(y, complex_(number_like(0, turn), turn))


def _abs_jvp(t: Any, y: Any, x: Any) -> Any:
    if not dtypes.is_complex(aval_of(x).dtype):
        return mul(t, sign(x))
    return real(mul(t, conj(sign(x))))


def _abs_lower(ctx: Any, x: Any) -> Any:
    if dtypes.kind_of(x.aval.dtype) == "u":
        return x
    out = ctx.op("abs", [x], ctx.out_avals[0])
    return complex_functions.absolute(ctx, x, out) if dtypes.is_complex(x.aval.dtype) else out


def _sign_lower(ctx: Any, x: Any) -> Any:
    if dtypes.is_complex(x.aval.dtype):
        return complex_functions.sign(ctx, x)
    is_unsigned = dtypes.kind_of(x.aval.dtype) == "u"
    return ctx.op("minimum", [x, ctx.constant(1, x.aval)]) if is_unsigned else ctx.op("sign", [x])


def _strong_zero(x: Any) -> Any:
    return aval_of(x).dtype.type(0)


sign = unary(
    "sign", eager=numpy_rules.sign, accepts="iufc", numpy_kinds="iuf", lower=_sign_lower, jvp=_sign_jvp
)
abs_ = unary("abs", eager=np.abs, accepts="iufc", numpy_kinds="iuf", out_dtype=dtypes.real_dtype,
             lower=_abs_lower, jvp=_abs_jvp)  # fmt: skip
real = unary("real", eager=numpy_rules.real, accepts="c", out_dtype=dtypes.real_dtype,
             jvp=lambda t, y, x: real(t), transpose=lambda ct, x: complex_(ct, _strong_zero(ct)))  # fmt: skip
imag = unary("imag", eager=numpy_rules.imag, accepts="c", out_dtype=dtypes.real_dtype,
             jvp=lambda t, y, x: imag(t),
             transpose=lambda ct, x: complex_(_strong_zero(ct), neg(ct)))  # fmt: skip
conj = unary("conj", hlo="chlo.conj", eager=np.conjugate, accepts="c",
             jvp=lambda t, y, x: conj(t), transpose=lambda ct, x: conj(ct))  # fmt: skip


class Complex(Elementwise):
    """`x + iy`, from its parts in float32 or float64."""

    def type(self, *avals: ShapedArray, **params: Any) -> ShapedArray:
        if any(dtypes.is_float(aval.dtype) and aval.dtype.itemsize < 4 for aval in avals):
            raise operand_error(
                self.name, "takes float32 or float64 operands", avals, "Cast them first: x.astype('float32')."
            )
        return super().type(*avals, **params)


complex_ = Complex(
    "complex", 2, hlo="complex", eager=numpy_rules.complex_, accepts="f", out_dtype=dtypes.complex_dtype,
    jvp=[lambda t, z, x, y: complex_(t, number_like(0, t)), lambda t, z, x, y: complex_(number_like(0, t), t)],
    transpose=[lambda ct, x, y: real(ct), lambda ct, x, y: neg(imag(ct))],
)  # fmt: skip


def real_part(x: Any) -> Any:
    """The real part of a complex array; real arrays pass through."""
    return real(x) if dtypes.is_complex(aval_of(x).dtype) else x
