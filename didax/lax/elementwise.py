"""Elementwise operations: arithmetic, comparison, logic, elementary and special functions.

Operands have one dtype and one shape; scalars and axes of length 1 stretch, and Python scalars take the dtype of the
arrays beside them. Nothing is promoted (`didax.numpy` promotes). The functions have the names and arguments of
`jax.lax`. Read next: `primitives/elementwise/`, the table of their derivatives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.avals import aval_of
from didax.core.errors import message
from didax.lax.operands import operation
from didax.primitives import elementwise as ops
from didax.primitives import gamma as gamma_functions
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import RoundingMethod
from didax.primitives.scalars import match_scalars, scalar_like

__all__ = [
    "RoundingMethod",
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clz",
    "complex",
    "conj",
    "cos",
    "cosh",
    "digamma",
    "div",
    "eq",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "ge",
    "gt",
    "imag",
    "integer_pow",
    "is_finite",
    "le",
    "lgamma",
    "log",
    "log1p",
    "logistic",
    "lt",
    "max",
    "min",
    "mul",
    "mulhi",
    "ne",
    "neg",
    "nextafter",
    "polygamma",
    "population_count",
    "pow",
    "real",
    "reciprocal",
    "rem",
    "round",
    "rsqrt",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "sub",
    "tan",
    "tanh",
    "zeta",
]

# --- arithmetic --------------------------------------------------------------------------------------------


@operation
def neg(x: Any) -> Any:
    """Return -x.

    >>> from didax import lax
    >>> lax.neg(2.0)
    Array(-2., dtype=float32, weak_type=True)
    """
    return ops.neg(x)


@operation
def add(x: Any, y: Any) -> Any:
    """Return x + y.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.add(np.float32([1, 2]), 0.5)
    Array([1.5, 2.5], dtype=float32)
    """
    return ops.add(x, y)


@operation
def sub(x: Any, y: Any) -> Any:
    """Return x - y.

    >>> from didax import lax
    >>> lax.sub(3, 1)
    Array(2, dtype=int32, weak_type=True)
    """
    return ops.sub(x, y)


@operation
def mul(x: Any, y: Any, *, out_dtype: Any = None) -> Any:
    """Return x * y; with `out_dtype` both factors are converted first.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.mul(np.float32([1, 2]), 3)
    Array([3., 6.], dtype=float32)
    """
    if out_dtype is not None:
        x, y = [convert_element_type(z, dtypes.dtype(out_dtype)) for z in match_scalars((x, y))]
    return ops.mul(x, y)


@operation
@evaluated_whole
def mulhi(x: Any, y: Any, /) -> Any:
    """Return the upper half of the bits of the product of integers, which is twice as wide as the factors.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.mulhi(np.uint8(200), np.uint8(200))  # 40000 is 156 * 256 + 64
    Array(156, dtype=uint8)
    """
    x, y = match_scalars((x, y))
    dtype, weak = aval_of(x).dtype, aval_of(x).weak_type and aval_of(y).weak_type
    if not dtypes.is_integer(dtype) or aval_of(y).dtype != dtype:
        facts, fix = f"x: {aval_of(x)}, y: {aval_of(y)}", "Cast them to one dtype of integers."
        raise TypeError(message("mulhi multiplies integers of one dtype.", facts, fix=fix))
    if dtype.itemsize == 8:
        return convert_element_type(_upper_half(x, y), dtype, weak)
    bits = dtypes.iinfo(dtype).bits
    wide = np.dtype(f"{'i' if dtypes.is_signed(dtype) else 'u'}{bits // 4 or 1}")
    product = ops.mul(convert_element_type(x, wide), convert_element_type(y, wide))
    return convert_element_type(ops.shift_right_arithmetic(product, bits), dtype, weak)


def _upper_half(x: Any, y: Any) -> Any:
    """Return the upper half of the product of 64-bit integers, from the halves x = a 2³² + b and y = c 2³² + d."""
    shift = ops.shift_right_arithmetic if aval_of(x).dtype.kind == "i" else ops.shift_right_logical
    (a, b), (c, d) = [(shift(z, 32), ops.and_(z, 0xFFFFFFFF)) for z in (x, y)]
    carry = convert_element_type(ops.shift_right_logical(ops.mul(b, d), 32), aval_of(x).dtype)
    middle = ops.add(ops.mul(a, d), carry)
    low = ops.add(ops.mul(b, c), ops.and_(middle, 0xFFFFFFFF))
    return ops.add(ops.add(ops.mul(a, c), shift(middle, 32)), shift(low, 32))


@operation
def div(x: Any, y: Any) -> Any:
    """Return x / y. Integers are divided towards zero; an integer divided by zero has all bits set.

    >>> from didax import lax
    >>> lax.div(-7, 2)
    Array(-3, dtype=int32, weak_type=True)
    """
    return ops.div(x, y)


@operation
def rem(x: Any, y: Any) -> Any:
    """Return the remainder of the division towards zero, with the sign of x; the remainder by the integer zero is x.

    >>> from didax import lax
    >>> lax.rem(-7, 2)
    Array(-1, dtype=int32, weak_type=True)
    """
    return ops.rem(x, y)


@operation
def square(x: Any) -> Any:
    """Return x * x.

    >>> from didax import lax
    >>> lax.square(3.0)
    Array(9., dtype=float32, weak_type=True)
    """
    return ops.square(x)


@operation
def reciprocal(x: Any) -> Any:
    """Return 1 / x.

    >>> from didax import lax
    >>> lax.reciprocal(4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return ops.div(scalar_like(1.0, aval_of(x).dtype), x)


@operation
def integer_pow(x: Any, y: int) -> Any:
    """Return x to the power of a static integer, by repeated squaring; TypeError for a negative power of an integer.

    >>> from didax import lax
    >>> lax.integer_pow(2.0, -3)
    Array(0.125, dtype=float32, weak_type=True)
    """
    return ops.integer_pow.bind(x, y=int(y))


@operation
def pow(x: Any, y: Any) -> Any:
    """Return x to the power of y. An integer y may stand beside an inexact x; powers of integers wrap.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.pow(np.float32([2, 3]), np.int32(2))
    Array([4., 9.], dtype=float32)
    """
    is_inexact = dtypes.PYTHON_SCALARS.get(type(x), "i") in "fc"
    if is_inexact and type(y) is not int and dtypes.is_integer(aval_of(y).dtype):
        y = convert_element_type(y, dtypes.default_dtype(type(x)), aval_of(y).weak_type)
    x, y = match_scalars((x, y))
    dtype = aval_of(x).dtype
    if dtypes.is_inexact(dtype) and dtypes.is_integer(aval_of(y).dtype):
        y = convert_element_type(y, dtype, aval_of(y).weak_type)
    return ops.pow_(x, y)


@operation
def abs(x: Any) -> Any:
    """Return the absolute value; it is real for complex x, and the smallest signed integer is its own absolute value.

    >>> from didax import lax
    >>> lax.abs(3 - 4j)
    Array(5., dtype=float32, weak_type=True)
    """
    return ops.abs_(x)


@operation
def sign(x: Any) -> Any:
    """Return -1, 0 or 1; z / |z| for complex numbers. Zeros keep their sign, NaN stays.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.sign(np.int32([-3, 0, 5]))
    Array([-1,  0,  1], dtype=int32)
    """
    return ops.sign(x)


@operation
def max(x: Any, y: Any) -> Any:
    """Return the larger of two numbers, NaN where either is NaN. At a tie each gets half of the derivative.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.max(np.float32([1, 5]), 3)
    Array([3., 5.], dtype=float32)
    """
    return ops.max_(x, y)


@operation
def min(x: Any, y: Any) -> Any:
    """Return the smaller of two numbers, NaN where either is NaN. At a tie each gets half of the derivative.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.min(np.float32([1, 5]), 3)
    Array([1., 3.], dtype=float32)
    """
    return ops.min_(x, y)


@operation
def nextafter(x1: Any, x2: Any) -> Any:
    """Return the next representable number after x1 in the direction of x2.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.nextafter(np.float32(1), np.float32(2))
    Array(1.0000001, dtype=float32)
    """
    return ops.nextafter(x1, x2)


# --- rounding and parts ------------------------------------------------------------------------------------


@operation
def floor(x: Any) -> Any:
    """Return the largest integer not above x, as a float.

    >>> from didax import lax
    >>> lax.floor(-1.5)
    Array(-2., dtype=float32, weak_type=True)
    """
    return ops.floor(x)


@operation
def ceil(x: Any) -> Any:
    """Return the smallest integer not below x, as a float.

    >>> from didax import lax
    >>> lax.ceil(-1.5)
    Array(-1., dtype=float32, weak_type=True)
    """
    return ops.ceil(x)


@operation
def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """Return the nearest integer, as a float; halves round away from zero, or to the even neighbour.

    >>> from didax import lax
    >>> lax.round(2.5)
    Array(3., dtype=float32, weak_type=True)
    >>> lax.round(2.5, lax.RoundingMethod.TO_NEAREST_EVEN)
    Array(2., dtype=float32, weak_type=True)
    """
    return ops.round_(x, rounding_method=RoundingMethod(rounding_method))


@operation
def is_finite(x: Any) -> Any:
    """Return True where x is neither infinite nor NaN.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.is_finite(np.float32([1, np.inf]))
    Array([ True, False], dtype=bool)
    """
    return ops.is_finite(x)


@operation
def real(x: Any) -> Any:
    """Return the real part of complex x.

    >>> from didax import lax
    >>> lax.real(3 - 4j)
    Array(3., dtype=float32, weak_type=True)
    """
    return ops.real(x)


@operation
def imag(x: Any) -> Any:
    """Return the imaginary part of complex x.

    >>> from didax import lax
    >>> lax.imag(3 - 4j)
    Array(-4., dtype=float32, weak_type=True)
    """
    return ops.imag(x)


@operation
def complex(x: Any, y: Any) -> Any:
    """Return x + iy from float32 or float64 parts.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.complex(np.float32(3), -4)
    Array(3.-4.j, dtype=complex64)
    """
    return ops.complex_(x, y)


@operation
def conj(x: Any) -> Any:
    """Return the complex conjugate; float32 and float64 arrays become complex.

    >>> from didax import lax
    >>> lax.conj(3 - 4j)
    Array(3.+4.j, dtype=complex64, weak_type=True)
    """
    return ops.conj(x) if dtypes.is_complex(aval_of(x).dtype) else ops.complex_(x, 0)


# --- exponentials, logarithms, roots -----------------------------------------------------------------------


@operation
def exp(x: Any) -> Any:
    """Return e to the power of x.

    >>> from didax import lax
    >>> lax.exp(1.0)
    Array(2.718282, dtype=float32, weak_type=True)
    """
    return ops.exp(x)


@operation
def exp2(x: Any) -> Any:
    """Return 2 to the power of x.

    >>> from didax import lax
    >>> lax.exp2(3.0)
    Array(8., dtype=float32, weak_type=True)
    """
    return ops.exp2(x)


@operation
def expm1(x: Any) -> Any:
    """Return exp(x) - 1, accurate near 0.

    >>> from didax import lax
    >>> lax.expm1(1e-8)
    Array(1.e-08, dtype=float32, weak_type=True)
    """
    return ops.expm1(x)


@operation
def log(x: Any) -> Any:
    """Return the natural logarithm.

    >>> from didax import lax
    >>> lax.log(2.0)
    Array(0.6931472, dtype=float32, weak_type=True)
    """
    return ops.log(x)


@operation
def log1p(x: Any) -> Any:
    """Return log(1 + x), accurate near 0.

    >>> from didax import lax
    >>> lax.log1p(1e-8)
    Array(1.e-08, dtype=float32, weak_type=True)
    """
    return ops.log1p(x)


@operation
def logistic(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)), the sigmoid.

    >>> from didax import lax
    >>> lax.logistic(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return ops.logistic(x)


@operation
def sqrt(x: Any) -> Any:
    """Return the square root.

    >>> from didax import lax
    >>> lax.sqrt(9.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return ops.sqrt(x)


@operation
def rsqrt(x: Any) -> Any:
    """Return 1 / sqrt(x).

    >>> from didax import lax
    >>> lax.rsqrt(4.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return ops.rsqrt(x)


@operation
def cbrt(x: Any) -> Any:
    """Return the cube root, which is real for negative x.

    >>> from didax import lax
    >>> lax.cbrt(-8.0)
    Array(-2., dtype=float32, weak_type=True)
    """
    return ops.cbrt(x)


# --- trigonometric and hyperbolic functions ----------------------------------------------------------------


@operation
def sin(x: Any) -> Any:
    """Return the sine.

    >>> from didax import lax
    >>> lax.sin(0.5)
    Array(0.47942555, dtype=float32, weak_type=True)
    """
    return ops.sin(x)


@operation
def cos(x: Any) -> Any:
    """Return the cosine.

    >>> from didax import lax
    >>> lax.cos(0.5)
    Array(0.87758255, dtype=float32, weak_type=True)
    """
    return ops.cos(x)


@operation
def tan(x: Any) -> Any:
    """Return the tangent.

    >>> from didax import lax
    >>> lax.tan(0.5)
    Array(0.5463025, dtype=float32, weak_type=True)
    """
    return ops.tan(x)


@operation
def asin(x: Any) -> Any:
    """Return the inverse sine.

    >>> from didax import lax
    >>> lax.asin(0.5)
    Array(0.5235988, dtype=float32, weak_type=True)
    """
    return ops.asin(x)


@operation
def acos(x: Any) -> Any:
    """Return the inverse cosine.

    >>> from didax import lax
    >>> lax.acos(0.5)
    Array(1.0471976, dtype=float32, weak_type=True)
    """
    return ops.acos(x)


@operation
def atan(x: Any) -> Any:
    """Return the inverse tangent.

    >>> from didax import lax
    >>> lax.atan(0.5)
    Array(0.4636476, dtype=float32, weak_type=True)
    """
    return ops.atan(x)


@operation
def atan2(x: Any, y: Any) -> Any:
    """Return the angle of the point (y, x), in (-pi, pi].

    >>> from didax import lax
    >>> lax.atan2(1.0, -1.0)
    Array(2.3561945, dtype=float32, weak_type=True)
    """
    return ops.atan2(x, y)


@operation
def sinh(x: Any) -> Any:
    """Return the hyperbolic sine.

    >>> from didax import lax
    >>> lax.sinh(0.5)
    Array(0.5210953, dtype=float32, weak_type=True)
    """
    return ops.sinh(x)


@operation
def cosh(x: Any) -> Any:
    """Return the hyperbolic cosine.

    >>> from didax import lax
    >>> lax.cosh(1.5)
    Array(2.3524096, dtype=float32, weak_type=True)
    """
    return ops.cosh(x)


@operation
def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent.

    >>> from didax import lax
    >>> lax.tanh(0.5)
    Array(0.4621172, dtype=float32, weak_type=True)
    """
    return ops.tanh(x)


@operation
def asinh(x: Any) -> Any:
    """Return the inverse hyperbolic sine.

    >>> from didax import lax
    >>> lax.asinh(1.0)
    Array(0.8813736, dtype=float32, weak_type=True)
    """
    return ops.asinh(x)


@operation
def acosh(x: Any) -> Any:
    """Return the inverse hyperbolic cosine.

    >>> from didax import lax
    >>> lax.acosh(2.0)
    Array(1.316958, dtype=float32, weak_type=True)
    """
    return ops.acosh(x)


@operation
def atanh(x: Any) -> Any:
    """Return the inverse hyperbolic tangent.

    >>> from didax import lax
    >>> lax.atanh(0.5)
    Array(0.54930615, dtype=float32, weak_type=True)
    """
    return ops.atanh(x)


# --- special functions -------------------------------------------------------------------------------------


@operation
def erf(x: Any) -> Any:
    """Return the error function.

    >>> from didax import lax
    >>> lax.erf(0.5)
    Array(0.5204999, dtype=float32, weak_type=True)
    """
    return ops.erf(x)


@operation
def erfc(x: Any) -> Any:
    """Return 1 - erf(x), accurate for large x.

    >>> from didax import lax
    >>> lax.erfc(5.0)
    Array(1.5374597e-12, dtype=float32, weak_type=True)
    """
    return ops.erfc(x)


@operation
def erf_inv(x: Any) -> Any:
    """Return the inverse of the error function.

    >>> from didax import lax
    >>> lax.erf_inv(0.5)
    Array(0.47693628, dtype=float32, weak_type=True)
    """
    return ops.erf_inv(x)


@operation
def lgamma(x: Any) -> Any:
    """Return the logarithm of |gamma(x)|.

    >>> from didax import lax
    >>> lax.lgamma(5.0)
    Array(3.1780539, dtype=float32, weak_type=True)
    """
    return gamma_functions.lgamma(x)


@operation
def digamma(x: Any) -> Any:
    """Return the derivative of lgamma.

    >>> from didax import lax
    >>> lax.digamma(1.0)
    Array(-0.5772157, dtype=float32, weak_type=True)
    """
    return gamma_functions.digamma(x)


@operation
def polygamma(m: Any, x: Any) -> Any:
    """Return the m-th derivative of digamma; it has no derivative by m.

    >>> from didax import lax
    >>> lax.polygamma(1.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    return gamma_functions.polygamma(m, x)


@operation
def zeta(x: Any, q: Any) -> Any:
    """Return the Hurwitz zeta function, the sum of (k + q) ** -x over k = 0, 1, ...; it has no derivative by x.

    >>> from didax import lax
    >>> lax.zeta(2.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    return gamma_functions.zeta(x, q)


# --- comparison --------------------------------------------------------------------------------------------


@operation
def eq(x: Any, y: Any) -> Any:
    """Return True where x == y.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.eq(np.int32([1, 2]), 2)
    Array([False,  True], dtype=bool)
    """
    return ops.eq(x, y)


@operation
def ne(x: Any, y: Any) -> Any:
    """Return True where x != y.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.ne(np.int32([1, 2]), 2)
    Array([ True, False], dtype=bool)
    """
    return ops.ne(x, y)


@operation
def lt(x: Any, y: Any) -> Any:
    """Return True where x < y.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.lt(np.int32([1, 2]), 2)
    Array([ True, False], dtype=bool)
    """
    return ops.lt(x, y)


@operation
def le(x: Any, y: Any) -> Any:
    """Return True where x <= y.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.le(np.int32([1, 2]), 2)
    Array([ True,  True], dtype=bool)
    """
    return ops.le(x, y)


@operation
def gt(x: Any, y: Any) -> Any:
    """Return True where x > y.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.gt(np.int32([1, 2]), 2)
    Array([False, False], dtype=bool)
    """
    return ops.gt(x, y)


@operation
def ge(x: Any, y: Any) -> Any:
    """Return True where x >= y.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.ge(np.int32([1, 2]), 2)
    Array([False,  True], dtype=bool)
    """
    return ops.ge(x, y)


# --- logic and bits ----------------------------------------------------------------------------------------


@operation
def bitwise_and(x: Any, y: Any) -> Any:
    """Return the "and" of booleans or of the bits of integers.

    >>> from didax import lax
    >>> lax.bitwise_and(6, 3)
    Array(2, dtype=int32, weak_type=True)
    """
    return ops.and_(x, y)


@operation
def bitwise_or(x: Any, y: Any) -> Any:
    """Return the "or" of booleans or of the bits of integers.

    >>> from didax import lax
    >>> lax.bitwise_or(6, 3)
    Array(7, dtype=int32, weak_type=True)
    """
    return ops.or_(x, y)


@operation
def bitwise_xor(x: Any, y: Any) -> Any:
    """Return the "exclusive or" of booleans or of the bits of integers.

    >>> from didax import lax
    >>> lax.bitwise_xor(6, 3)
    Array(5, dtype=int32, weak_type=True)
    """
    return ops.xor(x, y)


@operation
def bitwise_not(x: Any) -> Any:
    """Return the "not" of booleans or of the bits of integers.

    >>> from didax import lax
    >>> lax.bitwise_not(6)
    Array(-7, dtype=int32, weak_type=True)
    """
    return ops.not_(x)


@operation
def shift_left(x: Any, y: Any) -> Any:
    """Return the bits of x moved up by y; 0 where y is negative or at least the width.

    >>> from didax import lax
    >>> lax.shift_left(3, 2)
    Array(12, dtype=int32, weak_type=True)
    """
    return ops.shift_left(x, y)


@operation
def shift_right_arithmetic(x: Any, y: Any) -> Any:
    """Return the bits of x moved down by y, with copies of the highest bit moving in.

    >>> from didax import lax
    >>> lax.shift_right_arithmetic(-8, 2)
    Array(-2, dtype=int32, weak_type=True)
    """
    return ops.shift_right_arithmetic(x, y)


@operation
def shift_right_logical(x: Any, y: Any) -> Any:
    """Return the bits of x moved down by y, with zeros moving in.

    >>> from didax import lax
    >>> lax.shift_right_logical(-8, 28)
    Array(15, dtype=int32, weak_type=True)
    """
    return ops.shift_right_logical(x, y)


@operation
def population_count(x: Any) -> Any:
    """Return the number of one bits in an integer.

    >>> from didax import lax
    >>> lax.population_count(7)
    Array(3, dtype=int32, weak_type=True)
    """
    return ops.population_count(x)


@operation
def clz(x: Any) -> Any:
    """Return the number of zero bits above the highest one bit.

    >>> from didax import lax
    >>> lax.clz(7)
    Array(29, dtype=int32, weak_type=True)
    """
    return ops.clz(x)
