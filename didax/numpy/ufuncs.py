"""The elementwise functions of NumPy: one entry each, with its implementation per kind of dtype.

The letters are the kinds that an implementation takes: b booleans, i and u signed and unsigned integers, f
floats, c complex numbers. An entry names one primitive directly; a function of several primitives is defined
above its entry. Where a formula is 0 / 0 or overflows on a branch that is not taken, the operands of this
branch are replaced, so that derivatives stay finite. Read next: `ufunc.py` (what happens to the operands),
`didax/primitives/elementwise/` (the primitives).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.api.numpy_functions import Declined, computed_by
from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import ArgumentError, message
from didax.core.value import Array
from didax.numpy.promotion import (
    ArrayLike,
    as_array,
    as_array_of,
    as_operand,
    beside_wide,
    broadcast,
    broadcast_ranked,
    cast,
    checked_operand,
    lifted,
    no_out,
    pair_of,
    promote,
    promote_dtypes,
)
from didax.numpy.ufunc import identity, truth, ufunc
from didax.primitives import divisors, fitted, logarithmic, numpy_rules, special
from didax.primitives import elementwise as el
from didax.primitives.convert import bitcast_convert_type_p, stop_gradient_p
from didax.primitives.narrow import bytes_in_float32, halves_in_float32
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where as select
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
    "arctan2", "arctanh", "around", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_count",
    "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "cbrt", "ceil", "clip", "conj", "conjugate", "copysign", "cos", "cosh", "deg2rad", "degrees", "divide",
    "divmod", "equal", "exp", "exp2", "expm1", "fabs", "float_power", "floor", "floor_divide", "fmax", "fmin",
    "fmod", "frexp", "gcd", "greater", "greater_equal", "heaviside", "hypot", "i0", "imag", "invert", "iscomplex",
    "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "lcm", "ldexp", "left_shift", "less",
    "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "logical_and", "logical_not",
    "logical_or", "logical_xor", "maximum", "minimum", "mod", "modf", "multiply", "nan_to_num", "negative",
    "nextafter", "not_equal", "positive", "pow", "power", "rad2deg", "radians", "real", "reciprocal",
    "remainder", "right_shift", "rint", "round", "sign", "signbit", "sin", "sinc", "sinh", "spacing", "sqrt", "square",
    "subtract", "tan", "tanh", "true_divide", "trunc",
]  # fmt: skip


def _as_int(function: Any) -> Any:
    """Make the implementation for booleans that first converts them to int32, in any mode, as in jax.numpy."""
    return lambda *xs: function(*[cast(x, np.dtype(np.int32)) for x in xs])


def _by_parts(function: Any) -> Any:
    """A real function applied to the real and the imaginary part."""
    return lambda z: el.complex_(function(el.real(z)), function(el.imag(z)))


def _constant(value: Any, like: Any) -> Any:
    """Return a scalar in the dtype of `like`."""
    return scalar_like(value, aval_of(like).dtype)


def _choose(condition: Any, x: Any, y: Any) -> Any:
    """Bind `select` where one of the cases may be a Python scalar."""
    like = y if type(x) in dtypes.PYTHON_SCALARS else x
    return select(
        condition,
        *[_constant(case, like) if type(case) in dtypes.PYTHON_SCALARS else case for case in (x, y)],
    )


# --- arithmetic ---------------------------------------------------------------------------------------------


def _admits_division(avals: Sequence[ShapedArray]) -> bool:
    wide = all([a.dtype.itemsize >= 4 or a.dtype.kind in "iu" for a in avals])
    return wide and not all([a.weak_type for a in avals])  # the result of a rule is strong


def _admits_slow_division(avals: Sequence[ShapedArray]) -> bool:
    """NumPy divides floats, and takes remainders, number by number: a program of more numbers is faster."""
    return _admits_division(avals) and 3 * max([a.size for a in avals]) <= NUMPY_MAX_ELEMENTS


def _floored_by_numpy(x: Any, y: Any) -> Any:
    if np.count_nonzero(y) == y.size:
        return np.floor_divide(x, y)
    quotient = numpy_rules.divide(x, y)  # NumPy's by zero is another one
    return np.where((np.sign(x) != np.sign(y)) & (quotient * y != x), quotient - 1, quotient)


def _floored_float_by_numpy(x: Any, y: Any) -> Any:
    found = np.floor_divide(x, y)
    # Some larger quotients are rounded in another way, and quotients by zeros and infinities are others.
    if np.count_nonzero(np.abs(found) < 1 << 20) < found.size or np.count_nonzero(np.isfinite(y)) < y.size:
        raise Declined
    return found


def _modulo_by_numpy(x: Any, y: Any) -> Any:
    found = np.remainder(x, y)
    if found.dtype.kind != "f" or np.count_nonzero(found == found) == found.size:
        return found
    rest = np.fmod(x, y)  # the signs of NaN are those of the steps below
    rest = np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
    return np.where(y < 0, -(0 - rest), 0 - (-rest))


@computed_by(_floored_by_numpy, _admits_division, of_weak_types=True, in_jax=True)
def _floor_divide_int(x: Any, y: Any) -> Any:
    quotient = el.div(x, y)
    has_rest = el.ne(el.mul(quotient, y), x)  # no second division
    rounds_up = el.and_(el.ne(el.sign(x), el.sign(y)), has_rest)
    return _choose(rounds_up, el.sub(quotient, 1), quotient)


@computed_by(_floored_float_by_numpy, _admits_slow_division, of_weak_types=True, in_jax=True)
@halves_in_float32
def _floor_divide_float(x: Any, y: Any) -> Any:
    remainder = el.rem(x, y)
    quotient = el.div(el.sub(x, remainder), y)
    crosses = el.and_(el.ne(remainder, 0), el.ne(el.sign(y), el.sign(remainder)))
    quotient = _choose(crosses, el.sub(quotient, 1), quotient)
    floored = el.round_(quotient, rounding_method=el.RoundingMethod.AWAY_FROM_ZERO)
    ratio = stop_gradient_p.bind(el.div(x, y))  # tells 0.0 from -0.0, and infinite x
    floored = _choose(el.eq(floored, 0), el.mul(el.sign(ratio), 0), floored)
    is_limit = el.or_(el.not_(el.is_finite(ratio)), el.eq(el.abs_(y), math.inf))
    return _choose(is_limit, ratio, floored)


def _remainder_int(x: Any, y: Any) -> Any:
    return _choose(el.eq(y, 0), 0, el.rem(x, y))  # by zero: 0 as in NumPy; XLA gives x


@computed_by(_modulo_by_numpy, _admits_slow_division, of_weak_types=True, in_jax=True)
def _modulo_int(x: Any, y: Any) -> Any:
    return _towards_divisor(_remainder_int(x, y), y)


@computed_by(_modulo_by_numpy, _admits_slow_division, of_weak_types=True, in_jax=True)
@bytes_in_float32
def _modulo(x: Any, y: Any) -> Any:
    remainder = _towards_divisor(el.rem(x, y), y)
    # A zero has the sign of y.
    return _choose(el.lt(y, 0), el.neg(el.sub(0, remainder)), el.sub(0, el.neg(remainder)))


def _towards_divisor(remainder: Any, y: Any) -> Any:
    crosses = el.and_(el.ne(remainder, 0), el.ne(el.lt(remainder, 0), el.lt(y, 0)))
    return _choose(crosses, el.add(remainder, y), remainder)


def _lcm(x: Any, y: Any) -> Any:
    divisor = divisors.gcd(x, y)
    is_zero = el.eq(divisor, 0)
    return _choose(is_zero, 0, el.mul(el.abs_(x), el.div(el.abs_(y), _choose(is_zero, 1, divisor))))


add = ufunc("add", 2, "x + y; booleans are or-ed.", iufc=el.add, b=el.or_)
subtract = ufunc("subtract", 2, "x - y.", iufc=el.sub)
multiply = ufunc("multiply", 2, "x * y; booleans are and-ed.", iufc=el.mul, b=el.and_)
divide = ufunc("divide", 2, "x / y; integers are divided as floats.", operands="inexact", fc=el.div)
true_divide = divide
floor_divide = ufunc("floor_divide", 2, "x / y rounded down.",
                     i=_floor_divide_int, u=el.div, f=_floor_divide_float,
                     b=_as_int(_floor_divide_int))  # fmt: skip
remainder = ufunc("remainder", 2, "The remainder of floor_divide: x - y * floor(x / y), with the sign of y.",
                  f=_modulo, iu=_modulo_int, b=_as_int(_modulo_int))  # fmt: skip
mod = remainder
fmod = ufunc("fmod", 2, "The remainder of the division rounded towards zero, with the sign of x.",
             f=el.rem, iu=_remainder_int, b=_as_int(_remainder_int))  # fmt: skip
negative = ufunc("negative", 1, "-x.", iufc=el.neg)
positive = ufunc("positive", 1, "+x, which is x.", biufc=identity)
reciprocal = ufunc("reciprocal", 1, "1 / x, as floats.", operands="inexact", fc=lambda x: el.div(1, x))
square = ufunc("square", 1, "x * x.", iufc=el.square, b=_as_int(el.square))
hypot = ufunc(
    "hypot",
    2,
    "sqrt(x² + y²) without overflow; its derivative at the origin is 0.",
    operands="inexact",
    f=logarithmic.hypot,
)
gcd = ufunc("gcd", 2, "Greatest common divisor of integers.", names="x1 x2", iu=divisors.gcd)
lcm = ufunc("lcm", 2, "Least common multiple of integers.", names="x1 x2", iu=_lcm)

# --- powers -------------------------------------------------------------------------------------------------

_power = ufunc("power", 2, "x ** y.", iufc=el.pow_, b=_as_int(el.pow_))


@array_function
def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return x1 ** x2. An integer x2 of Python or NumPy becomes multiplications: exact, differentiable everywhere.

    The dtype is that of x1 then. TypeError for a negative one as the exponent of an integer array. Where x2 is an
    array, powers of integers to negative exponents are rounded towards 0: they are 0, or 1 and -1 where x1 is.

    >>> import didax.numpy as dnp
    >>> dnp.power(dnp.array([1, 2, 3]), 2)
    Array([1, 4, 9], dtype=int32)
    """
    if type(x2) is not int and not isinstance(x2, np.integer):
        return _power(x1, _exponent(x1, x2))
    x = as_array("power", x1, "x1")
    if x.dtype == np.bool_:
        x = cast(x, dtypes.default_dtype("i"))
    return el.integer_pow(x, y=int(x2))


def _exponent(x1: Any, x2: Any) -> Any:
    """Convert an integer exponent to the dtype of its inexact base; the result is not promoted by the exponent."""
    base, exponent = as_operand(x1), as_operand(x2)
    if base is None or exponent is None:
        return x2
    dtype, (own, weak) = pair_of(base)[0], pair_of(exponent)
    return cast(exponent, dtype, weak) if dtypes.is_integer(own) and dtypes.is_inexact(dtype) else x2


pow = power
float_power = ufunc("float_power", 2, "x ** y, as floats.", operands="inexact", fc=el.pow_)

# --- exponentials and logarithms ----------------------------------------------------------------------------


def _log_add_exp2(x: Any, y: Any) -> Any:
    """The differences are scaled, which the maximum might not survive."""
    return _by_larger(x, y, _times_log_2, _over_log_2)


def _by_larger(x: Any, y: Any, scaled: Any, unscaled: Any) -> Any:
    """m + log(exp(x - m) + exp(y - m)), where m is the maximum: both branches have equal derivatives of all orders."""
    x_is_more = el.ge(el.real_part(x), el.real_part(y))
    larger = _choose(x_is_more, x, y)
    x, y = scaled(_excess(x, larger)), scaled(_excess(y, larger))
    excess = _choose(x_is_more, el.add(el.expm1(x), el.exp(y)), el.add(el.exp(x), el.expm1(y)))
    return el.add(larger, unscaled(el.log1p(excess)))


def _excess(z: Any, larger: Any) -> Any:
    if not dtypes.is_complex(aval_of(z).dtype):
        return logarithmic.excess(z, larger)
    return el.complex_(logarithmic.excess(el.real(z), el.real(larger)), el.sub(el.imag(z), el.imag(larger)))


def _log_add_exp_c(x: Any, y: Any) -> Any:
    """The principal value: its imaginary part is an angle within [-π, π]."""
    z = _by_larger(x, y, identity, identity)
    angle = el.imag(z)
    turned = el.atan2(el.sin(angle), el.cos(angle))
    return el.complex_(el.real(z), _choose(el.le(el.abs_(angle), math.pi), angle, turned))


def _log_add_exp2_c(x: Any, y: Any) -> Any:
    """The principal value, by the natural logarithm."""
    x, y = _by_parts(_times_log_2)(x), _by_parts(_times_log_2)(y)
    return _by_parts(_over_log_2)(_log_add_exp_c(x, y))


def _times_log_2(x: Any) -> Any:
    return el.mul(x, math.log(2))


def _over_log_2(x: Any) -> Any:
    return el.div(x, math.log(2))


def real_function(name: str, primitive: Any, doc: str, kinds: str = "fc", names: str = "") -> ufunc:
    """Make the entry of a function of real (or complex) numbers; integers become floats."""
    return ufunc(name, 1, doc, operands="inexact", names=names, **{kinds: primitive})


def _log_to(base: int) -> Any:
    """Make a logarithm to a base; it is strongly typed as in jax.numpy, where the logarithm of the base is strong."""

    def over_log_of_base(x: Any) -> Any:
        return cast(el.div(x, math.log(base)), aval_of(x).dtype)

    def apply(x: Any) -> Any:
        y = el.log(x)
        return _by_parts(over_log_of_base)(y) if dtypes.is_complex(aval_of(y).dtype) else over_log_of_base(y)

    return apply


exp = real_function("exp", el.exp, "e ** x.")
exp2 = real_function("exp2", el.exp2, "2 ** x.")
expm1 = real_function("expm1", el.expm1, "e ** x - 1, accurate near 0.")
log = real_function("log", el.log, "Natural logarithm; NaN for negative numbers.")
log1p = real_function("log1p", el.log1p, "log(1 + x), accurate near 0.")
log2 = real_function("log2", _log_to(2), "Logarithm to base 2; never weakly typed.")
log10 = real_function("log10", _log_to(10), "Logarithm to base 10; never weakly typed.")
logaddexp = ufunc("logaddexp", 2, "log(exp(x) + exp(y)) without overflow.", operands="inexact",
                  f=logarithmic.logaddexp, c=_log_add_exp_c)  # fmt: skip
logaddexp2 = ufunc("logaddexp2", 2, "log2(2**x + 2**y) without overflow.", operands="inexact",
                   f=bytes_in_float32(_log_add_exp2), c=_log_add_exp2_c)  # fmt: skip
sqrt = real_function("sqrt", el.sqrt, "Square root; NaN for negative numbers.")
cbrt = real_function("cbrt", el.cbrt, "Cube root.", kinds="f")

# --- trigonometric and hyperbolic functions -----------------------------------------------------------------


sin = real_function("sin", el.sin, "Sine of an angle in radians.")
cos = real_function("cos", el.cos, "Cosine of an angle in radians.")
tan = real_function("tan", el.tan, "Tangent of an angle in radians.")
arcsin = asin = real_function("arcsin", el.asin, "The angle in [-π/2, π/2] whose sine is x.")
arccos = acos = real_function("arccos", el.acos, "The angle in [0, π] whose cosine is x.")
arctan = atan = real_function("arctan", el.atan, "The angle in (-π/2, π/2) whose tangent is x.")
arctan2 = atan2 = ufunc("arctan2", 2, "The angle of the point (y, x), in [-π, π]: the first operand is y.",
                        operands="inexact", f=el.atan2)  # fmt: skip
sinh = real_function("sinh", el.sinh, "Hyperbolic sine.")
cosh = real_function("cosh", el.cosh, "Hyperbolic cosine.")
tanh = real_function("tanh", el.tanh, "Hyperbolic tangent.")
arcsinh = asinh = real_function("arcsinh", el.asinh, "Inverse of sinh.")
arccosh = acosh = real_function("arccosh", el.acosh, "Inverse of cosh, at least 0.")
arctanh = atanh = real_function("arctanh", el.atanh, "Inverse of tanh.")
sinc = real_function(
    "sinc", halves_in_float32(lambda x: special.sinc(el.mul(x, math.pi))), "sin(πx) / (πx), and 1 at 0."
)
i0 = real_function("i0", fitted.bessel_i0, "The modified Bessel function of order 0.", kinds="f", names="x")
deg2rad = radians = real_function(
    "deg2rad", bytes_in_float32(lambda x: el.mul(x, math.pi / 180)), "Convert degrees to radians.", kinds="f"
)
rad2deg = degrees = real_function(
    "rad2deg", bytes_in_float32(lambda x: el.mul(x, 180 / math.pi)), "Convert radians to degrees.", kinds="f"
)

# --- rounding, signs, parts ---------------------------------------------------------------------------------


def _truncate(x: Any) -> Any:
    return _choose(el.lt(x, 0), el.ceil(x), el.floor(x))


def _round_to_even(x: Any) -> Any:
    return el.round_(x, rounding_method=el.RoundingMethod.TO_NEAREST_EVEN)


def _zero_like(x: Any) -> Any:
    return broadcast(cast(0, x.dtype, x.weak_type), x.shape)


floor = ufunc(
    "floor", 1, "The largest integer not above x; integers stay as they are.", f=el.floor, biu=identity
)
ceil = ufunc(
    "ceil", 1, "The smallest integer not below x; integers stay as they are.", f=el.ceil, biu=identity
)
trunc = ufunc(
    "trunc", 1, "x rounded towards zero; integers stay as they are.", names="x", f=_truncate, biu=identity
)
rint = ufunc("rint", 1, "The nearest integer as a float, halves to the even neighbour.",
             biu=lambda x: cast(x, dtypes.default_dtype("f")),
             f=_round_to_even, c=_by_parts(_round_to_even))  # fmt: skip
sign = ufunc("sign", 1, "-1, 0 or 1 (0 for -0.0); z / |z| for complex numbers.", iuc=el.sign,
             f=lambda x: _choose(el.eq(x, 0), 0, el.sign(x)))  # fmt: skip
absolute = abs = ufunc("absolute", 1, "|x|, a real number for complex x.", ifc=el.abs_, bu=identity)
fabs = ufunc("fabs", 1, "|x| as a float.", operands="inexact", f=el.abs_)
copysign = ufunc("copysign", 2, "|x| with the sign of y, as floats.", operands="inexact",
                 f=lambda x, y: _choose(el.eq(_sign_bit(x), _sign_bit(y)), x, el.neg(x)))  # fmt: skip
nextafter = ufunc(
    "nextafter", 2, "The float after x in the direction of y.", operands="inexact", f=el.nextafter
)


def _spacing(x: Any) -> Any:
    """Return the distance to the next float away from zero, with the sign of x; NaN for infinities. Never weak."""
    dtype = aval_of(x).dtype
    most = float(dtypes.finfo(dtype).max)  # not every dtype has an infinity to go towards
    away = _choose(_sign_bit(x), -most, broadcast(_constant(most, x), aval_of(x).shape))
    step = el.sub(el.nextafter(x, away), x)
    return cast(_choose(el.lt(el.abs_(x), most), step, el.sub(el.mul(x, math.inf), x)), dtype)


spacing = ufunc("spacing", 1, "The distance to the next float away from zero, with the sign of x.",
                operands="inexact", f=_spacing)  # fmt: skip


def _heaviside(x: Any, y: Any) -> Any:
    at_zero = _choose(el.eq(x, 0), y, x)  # NaN stays NaN
    return _choose(el.lt(x, 0), 0, _choose(el.gt(x, 0), 1, at_zero))


heaviside = ufunc("heaviside", 2, "0 for x < 0, y at x = 0, 1 for x > 0.", operands="inexact",
                  f=_heaviside)  # fmt: skip
real = ufunc("real", 1, "The real part; real numbers stay as they are.", c=el.real, biuf=identity)
imag = ufunc("imag", 1, "The imaginary part, 0 for real numbers.", c=el.imag, biuf=_zero_like)
conjugate = conj = ufunc(
    "conjugate", 1, "The complex conjugate; real numbers stay as they are.", c=el.conj, biuf=identity
)


def _sign_bit(x: Any) -> Any:
    """Read the sign of a float from its first bit, so that -0.0 and negative NaNs are negative."""
    dtype = aval_of(x).dtype
    if float(dtypes.finfo(dtype).min) > 0:
        return el.lt(x, x)  # float8_e8m0fnu has no sign
    if dtypes.is_sub_byte(dtype):
        x, dtype = cast(x, np.dtype(np.float32)), np.dtype(np.float32)
    bits = np.dtype(f"i{dtype.itemsize}")
    return el.lt(bitcast_convert_type_p.bind(x, new_dtype=bits), 0)


signbit = ufunc("signbit", 1, "Whether the sign bit is set: true for -0.0.",
                f=_sign_bit, i=lambda x: el.lt(x, 0), bu=lambda x: el.ne(x, x))  # fmt: skip


@evaluated_whole
@array_function
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Return the argument of complex numbers, in (-π, π], or in degrees; 0 or π for real numbers.

    >>> import didax.numpy as dnp
    >>> dnp.angle(1j, deg=True)
    Array(90., dtype=float32, weak_type=True)
    """
    (x,) = promote("angle", z)
    x = x if dtypes.is_inexact(aval_of(x).dtype) else cast(x, dtypes.default_dtype("f"), aval_of(x).weak_type)
    result = arctan2(imag(x), real(x))
    return rad2deg(result) if deg else result


@evaluated_whole
@array_function
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Round to the given number of decimals, halves to the even neighbour.

    Negative `decimals` count digits left of the point.

    NotImplementedError for integers with negative `decimals`.

    >>> import didax.numpy as dnp
    >>> dnp.round(dnp.array([0.25, 1.5, 2.5]), 1)
    Array([0.2, 1.5, 2.5], dtype=float32)
    """
    no_out("round", out)
    x, decimals = as_array("round", a, "a"), operator.index(decimals)
    if not dtypes.is_inexact(x.dtype):
        if decimals < 0:
            raise NotImplementedError(
                message(
                    "Integers are not rounded left of the point.",
                    f"a: {x.aval}, decimals={decimals}",
                    fix="Cast to a float first (a.astype('float32')).",
                )
            )
        return x
    if dtypes.is_complex(x.dtype):
        return el.complex_(round(el.real(x), decimals), round(el.imag(x), decimals))
    return _round_decimals(x, decimals) if decimals else _round_to_even(x)


@halves_in_float32
def _round_decimals(x: Any, decimals: int) -> Any:
    factor = _constant(10.0**decimals, x)
    return el.div(_round_to_even(el.mul(x, factor)), factor)


around = round


@evaluated_whole
@array_function
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return x1 * 2 ** x2 for an integer x2.

    >>> import didax.numpy as dnp
    >>> dnp.ldexp(3.0, 2)
    Array(12., dtype=float32)
    """
    exponent = as_array("ldexp", x2, "x2")
    if not dtypes.is_integer(exponent.dtype) and exponent.dtype != np.bool_:
        raise ArgumentError(
            message(
                "ldexp takes integer exponents.", f"x2: {exponent.aval}", fix="Use x1 * 2.0 ** x2 for others."
            )
        )
    (x,) = promote_dtypes("ldexp", as_array("ldexp", x1, "x1"), to_inexact=True)
    x, exponent = broadcast_ranked("ldexp", [cast(x, x.dtype), exponent])
    return _scaled_by_power(x, exponent)


@halves_in_float32
def _scaled_by_power(x: Any, exponent: Any) -> Any:
    """x * 2 ** exponent in three steps: a power that takes the least to the largest number is no number itself."""
    bias = _float_format(x.dtype)[1]
    steps = clip(cast(exponent, x.dtype), -3 * bias + 3, 3 * bias)
    rest = cast(steps, np.dtype(np.int32))
    for parts in (3, 2, 1):
        part = el.div(rest, parts)
        rest = el.sub(rest, part)
        x = el.mul(x, _power_of_two(part, x.dtype))
    return x


def _float_format(dtype: np.dtype[Any]) -> tuple[int, int, np.dtype[Any]]:
    """The number of stored digits of floats, the bias of their exponents, and the integers as wide as they are."""
    limits = dtypes.finfo(dtype)
    return limits.nmant, 1 - int(limits.minexp), np.dtype(f"u{dtype.itemsize}")


def _power_of_two(exponent: Any, dtype: np.dtype[Any]) -> Any:
    """2 ** exponent, exactly: its bits are those of the biased exponent."""
    digits, bias, word = _float_format(dtype)
    return bitcast_convert_type_p.bind(
        el.shift_left(cast(el.add(exponent, bias), word), digits), new_dtype=dtype
    )


@evaluated_whole
@array_function
def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Return the mantissa, of magnitude from 0.5 up to 1, and the int32 exponent: x = mantissa * 2 ** exponent.

    The exponent of zeros, infinities and NaN is 0.

    >>> import didax.numpy as dnp
    >>> mantissa, exponent = dnp.frexp(dnp.float32(12))
    >>> float(mantissa), int(exponent)
    (0.75, 4)
    """
    (value,) = [lifted(operand) for operand in promote("frexp", x, to_inexact=True)]
    if dtypes.is_complex(value.dtype):
        fix = "Take the real and the imaginary part."
        raise TypeError(message("frexp takes real numbers.", f"x: {value.aval}", fix=fix))
    return _mantissa_and_exponent(value)


@bytes_in_float32
def _mantissa_and_exponent(value: Array) -> tuple[Array, Array]:
    digits, bias, _ = _float_format(value.dtype)
    bits = _magnitude_bits(value)
    # Compiled programs treat a subnormal number as zero, so its bits are read as an integer, which is a
    # normal number.
    is_subnormal = el.lt(bits, 1 << digits)
    normal = _choose(is_subnormal, copysign(cast(bits, value.dtype), value), value)
    own = el.sub(cast(el.shift_right_logical(_magnitude_bits(normal), digits), np.dtype(np.int32)), bias - 1)
    mantissa, half = normal, el.shift_right_arithmetic(own, 1)  # 2 ** -own may overflow
    for part in (half, el.sub(own, half)):
        mantissa = el.mul(mantissa, _power_of_two(el.neg(part), value.dtype))
    exponent = _choose(is_subnormal, el.sub(own, bias + digits - 1), own)
    is_number = el.and_(el.is_finite(value), el.ne(normal, 0))
    return _choose(is_number, mantissa, value), _choose(is_number, exponent, 0)


def _magnitude_bits(x: Array) -> Array:
    """Return the bits of floats without the sign, as unsigned integers."""
    word = _float_format(x.dtype)[2]
    bits = bitcast_convert_type_p.bind(stop_gradient_p.bind(x), new_dtype=word)
    return el.and_(bits, (1 << (8 * word.itemsize - 1)) - 1)


@evaluated_whole
@array_function
def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """Return the fractional and the integral part, both with the sign of x.

    >>> import didax.numpy as dnp
    >>> dnp.modf(-1.5)
    (Array(-0.5, dtype=float32, weak_type=True), Array(-1., dtype=float32, weak_type=True))
    """
    no_out("modf", out)
    (value,) = [lifted(operand) for operand in promote("modf", x, to_inexact=True)]
    negative = _sign_bit(value)
    size = _choose(negative, el.neg(value), value)
    part = where(isinf(size), 0, size - floor(size))
    return _choose(negative, el.neg(part), part), trunc(value)


@evaluated_whole
@array_function
def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """Return the pair (floor_divide(x1, x2), remainder(x1, x2)).

    >>> import didax.numpy as dnp
    >>> dnp.divmod(7, 2)
    (Array(3, dtype=int32, weak_type=True), Array(1, dtype=int32, weak_type=True))
    """
    quotient = floor_divide(x1, x2)
    if not dtypes.is_integer(quotient.dtype):
        return quotient, remainder(x1, x2)
    rest = subtract(x1, multiply(quotient, x2))  # a second division would cost as much as the first
    return quotient, multiply(rest, not_equal(x2, 0))  # 0 where x2 is


# --- comparison ---------------------------------------------------------------------------------------------


def _ordered(strict: Any, weak: Any) -> Any:
    """Make a comparison of complex numbers: by the real parts, then by the imaginary parts."""

    def compare(x: Any, y: Any) -> Any:
        same = el.eq(el.real(x), el.real(y))
        return _choose(same, weak(el.imag(x), el.imag(y)), strict(el.real(x), el.real(y)))

    return compare


def _not_a_number(x: Any) -> Any:
    return el.ne(x, x)


def _ignoring_nan(takes_first: Any) -> Any:
    return lambda x, y: _choose(el.or_(takes_first(x, y), _not_a_number(y)), x, y)


def _ignoring_nan_c(takes_first: Any) -> Any:
    """A complex number of which one part is NaN may still compare by the other one."""
    return _ignoring_nan(lambda x, y: el.and_(takes_first(x, y), el.eq(x, x)))


equal = ufunc("equal", 2, "x == y.", biufcx=el.eq)
not_equal = ufunc("not_equal", 2, "x != y.", biufcx=el.ne)
less = ufunc(
    "less",
    2,
    "x < y; complex numbers compare by real part, then imaginary part.",
    biuf=el.lt,
    c=_ordered(el.lt, el.lt),
)
less_equal = ufunc("less_equal", 2, "x <= y.", biuf=el.le, c=_ordered(el.lt, el.le))
greater = ufunc("greater", 2, "x > y.", biuf=el.gt, c=_ordered(el.gt, el.gt))
greater_equal = ufunc("greater_equal", 2, "x >= y.", biuf=el.ge, c=_ordered(el.gt, el.ge))
maximum = ufunc("maximum", 2, "The larger of x and y; NaN if either is.", biufc=el.max_)
minimum = ufunc("minimum", 2, "The smaller of x and y; NaN if either is.", biufc=el.min_)
fmax = ufunc("fmax", 2, "The larger of x and y; NaN only if both are.", names="x1 x2", biu=el.max_,
             f=_ignoring_nan(el.gt), c=_ignoring_nan_c(_ordered(el.gt, el.ge)))  # fmt: skip
fmin = ufunc("fmin", 2, "The smaller of x and y; NaN only if both are.", names="x1 x2", biu=el.min_,
             f=_ignoring_nan(el.lt), c=_ignoring_nan_c(_ordered(el.lt, el.le)))  # fmt: skip

# --- logic and bits -----------------------------------------------------------------------------------------

logical_and = ufunc("logical_and", 2, "Whether both are nonzero.", operands="truth", b=el.and_)
logical_or = ufunc("logical_or", 2, "Whether either is nonzero.", operands="truth", b=el.or_)
logical_xor = ufunc("logical_xor", 2, "Whether exactly one is nonzero.", operands="truth", b=el.xor)
logical_not = ufunc("logical_not", 1, "Whether x is zero.", operands="truth", b=el.not_)
bitwise_and = ufunc("bitwise_and", 2, "x & y.", biu=el.and_)
bitwise_or = ufunc("bitwise_or", 2, "x | y.", biu=el.or_)
bitwise_xor = ufunc("bitwise_xor", 2, "x ^ y.", biu=el.xor)
invert = bitwise_not = bitwise_invert = ufunc("invert", 1, "~x.", biu=el.not_)
left_shift = bitwise_left_shift = ufunc("left_shift", 2, "x << y; 0 for shifts beyond the width.",
                                        iu=el.shift_left, b=_as_int(el.shift_left))  # fmt: skip
right_shift = bitwise_right_shift = ufunc("right_shift", 2, "x >> y, filling with the sign.",
                                          b=_as_int(el.shift_right_arithmetic),
                                          i=el.shift_right_arithmetic, u=el.shift_right_logical)  # fmt: skip
bitwise_count = ufunc("bitwise_count", 1, "The number of set bits of |x|, as uint8.",
                      iu=lambda x: cast(el.population_count(el.abs_(x)), np.dtype(np.uint8)),
                      b=lambda x: cast(x, np.dtype(np.uint8)))  # fmt: skip

# --- questions ----------------------------------------------------------------------------------------------


def _false(x: Any) -> Any:
    return el.ne(x, x)


def _either_part(question: Any) -> Any:
    return lambda z: el.or_(question(el.real(z)), question(el.imag(z)))


def _is_infinite(x: Any) -> Any:
    return _equals(math.inf, el.abs_(x))


def _equals(infinity: float, x: Any) -> Any:
    # In a dtype without infinities `infinity` would stand for NaN, or for the largest number.
    return el.eq(x, infinity) if _has_infinities(aval_of(x).dtype) else el.lt(x, x)


@functools.cache
def _has_infinities(dtype: np.dtype[Any]) -> bool:
    return bool(np.isinf(np.array(math.inf).astype(dtype)))


isnan = ufunc(
    "isnan", 1, "Whether x is NaN; for complex x, whether either part is.", fc=_not_a_number, biux=_false
)
isinf = ufunc(
    "isinf",
    1,
    "Whether x is infinite; for complex x, whether either part is.",
    f=_is_infinite,
    c=_either_part(_is_infinite),
    biux=_false,
)
isfinite = ufunc("isfinite", 1, "Whether x is neither infinite nor NaN.",
                 f=el.is_finite, biux=lambda x: el.eq(x, x),
                 c=lambda z: el.and_(el.is_finite(el.real(z)), el.is_finite(el.imag(z))))  # fmt: skip
isposinf = ufunc("isposinf", 1, "Whether x is +inf.", f=lambda x: _equals(math.inf, x), biu=_false)
isneginf = ufunc("isneginf", 1, "Whether x is -inf.", f=lambda x: _equals(-math.inf, x), biu=_false)
iscomplex = ufunc(
    "iscomplex",
    1,
    "Whether x has a nonzero imaginary part.",
    names="x",
    c=lambda z: el.ne(el.imag(z), 0),
    biuf=lambda x: _false(imag(x)),
)
isreal = ufunc(
    "isreal",
    1,
    "Whether x has no imaginary part.",
    names="x",
    c=lambda z: el.eq(el.imag(z), 0),
    biuf=lambda x: logical_not(_false(imag(x))),
)


# --- choice -------------------------------------------------------------------------------------------------


def choose_where(condition: Any, x: Any, y: Any) -> Array:
    """Return three-argument `where`: operands are promoted, broadcast and selected."""
    x, y = promote_dtypes("where", x, y)
    test = as_array("where", condition, "condition")
    test, x, y = broadcast_ranked(
        "where", [test if test.dtype == np.bool_ else truth(test), lifted(x), lifted(y)]
    )
    return select(test, x, y)


where = choose_where


@evaluated_whole
@array_function
def clip(arr: ArrayLike, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """Return `arr` limited to [min, max]; `max` wins where `min` is larger. Either limit may be None.

    TypeError for complex numbers, which have no order.

    >>> import didax.numpy as dnp
    >>> dnp.clip(dnp.array([-1, 5]), 0, 3)
    Array([0, 3], dtype=int32)
    """
    arr, min, max = beside_wide(arr, min, max)
    x = as_array("clip", arr, "arr")
    for name, limit in (("arr", arr), ("min", min), ("max", max)):
        if limit is not None and dtypes.is_complex(pair_of(checked_operand("clip", limit, name))[0]):
            raise ArgumentError(
                message(
                    "Complex numbers have no order to clip by.",
                    f"{name}: {aval_of(limit)}",
                    fix="Clip the real and imaginary parts.",
                )
            )
    if min is not None:
        x = maximum(min, x)
    return x if max is None else minimum(max, x)


@evaluated_whole
@array_function
def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: ArrayLike = 0.0, posinf: Any = None, neginf: Any = None
) -> Array:
    """Return the array with NaN and infinities replaced; `copy` is ignored.

    Infinities become the largest finite numbers unless `posinf` and `neginf` are given.

    >>> import didax.numpy as dnp
    >>> dnp.nan_to_num(dnp.array([1.0, dnp.nan]))
    Array([1., 0.], dtype=float32)
    """
    value = as_array("nan_to_num", x)
    if not dtypes.is_inexact(value.dtype):
        return value
    if dtypes.is_complex(value.dtype):
        return el.complex_(
            *[nan_to_num(part(value), copy, nan, posinf, neginf) for part in (el.real, el.imag)]
        )
    limits = dtypes.finfo(value.dtype)
    replacements = (
        (isnan, nan),
        (isposinf, float(limits.max) if posinf is None else posinf),
        (isneginf, float(limits.min) if neginf is None else neginf),
    )
    for question, replacement in replacements:
        value = cast(
            where(question(value), as_array_of("nan_to_num", replacement, value.dtype), value), value.dtype
        )
    return value
