"""Arithmetic, comparison, logic, elementary and special functions: tables of operations.

Each entry reads: name, StableHLO operation, NumPy function, derivative. A name that Python has taken ends
in an underscore (`max_`, `and_`). NumPy functions that differ from XLA at a corner (division by zero, the
sign of zero, NaN) are written out in `numpy_rules.py`. An operation NumPy lacks has no eager rule and runs
compiled, and so do functions of complex numbers: NumPy takes other sides of branch cuts.

Derivatives are finite where their limit is, in real and complex numbers; the cotangent of a complex number
follows the rule that a product's transpose multiplies without conjugation.
Read next: `families.py` for what an entry means.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import MissingRuleError, message
from didax.core.jaxpr_print import register_param_type
from didax.passes.checkify import Condition
from didax.primitives import complex_functions as at_corners
from didax.primitives import numpy_rules as rules
from didax.primitives.families import Elementwise, binary, scalar_like, unary
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, reduce_sum
from didax.xla.text import keep_nan

_BOOL = np.dtype(np.bool_)


def _to_bool(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return _BOOL


def no_derivative(primitive: str, operand: str) -> Callable[..., Any]:
    """A jvp entry for an operand by which the derivative is not known."""

    def refuse(t: Any, *args: Any) -> Any:
        raise MissingRuleError(
            message(
                f"{primitive} has no derivative by its {operand}.",
                f"{operand}: {aval_of(t)}",
                fix=f"Hold the {operand} constant (stop_gradient); differentiate by the other operand only.",
            )
        )

    return refuse


# --- arithmetic ---------------------------------------------------------------------------------------------

neg = unary("neg", hlo="negate", eager=np.negative, accepts="iufc",
            jvp=lambda t, y, x: neg(t), transpose=lambda ct, x: neg(ct))  # fmt: skip
add = binary("add", eager=np.add,
             jvp=(lambda t, z, x, y: t, lambda t, z, x, y: t),
             transpose=(lambda ct, x, y: ct, lambda ct, x, y: ct))  # fmt: skip
sub = binary("sub", hlo="subtract", eager=np.subtract,
             jvp=(lambda t, z, x, y: t, lambda t, z, x, y: neg(t)),
             transpose=(lambda ct, x, y: ct, lambda ct, x, y: neg(ct)))  # fmt: skip
mul = binary("mul", hlo="multiply", eager=np.multiply,
             jvp=(lambda t, z, x, y: mul(t, y), lambda t, z, x, y: mul(x, t)),
             transpose=(lambda ct, x, y: mul(ct, y), lambda ct, x, y: mul(x, ct)))  # fmt: skip
div = binary("div", hlo="divide", eager=rules.divide, numpy_kinds="iuf",
             lower=lambda ctx, x, y: _lower_division(ctx, "divide", x, y),
             jvp=(lambda t, z, x, y: div(t, y), lambda t, z, x, y: neg(mul(t, div(z, y)))),
             transpose=(lambda ct, x, y: div(ct, y), None),
             conditions=lambda x, y: [Condition("division", ne(y, 0), "Division by zero.", {})])  # fmt: skip
rem = binary("rem", hlo="remainder", eager=rules.remainder, accepts="iuf",
             lower=lambda ctx, x, y: _lower_division(ctx, "remainder", x, y),
             jvp=(lambda t, z, x, y: t, lambda t, z, x, y: neg(mul(t, _truncate(div(x, y))))))  # fmt: skip
square = unary("square", hlo="multiply", eager=np.square, accepts="iufc",
               lower=lambda ctx, x: ctx.op("multiply", [x, x]),
               jvp=lambda t, y, x: mul(t, mul(x, 2)))  # fmt: skip


def _lower_division(ctx: Any, op: str, x: Any, y: Any) -> Any:
    """The operation; of integers with no divisor 0, by which XLA divides if it knows it, and the process ends."""
    aval = x.aval
    if not dtypes.is_integer(aval.dtype) or (y.constant is not None and y.constant != 0):
        return ctx.op(op, [x, y])
    is_zero = ctx.compare("EQ", y, ctx.constant(0, aval))
    quotient = ctx.op(op, [x, ctx.select(is_zero, ctx.constant(1, aval), y)])
    return ctx.select(is_zero, ctx.constant(~aval.dtype.type(0), aval) if op == "divide" else x, quotient)


def _truncate(x: Any) -> Any:
    return mul(sign(x), floor(abs_(x)))


class IntegerPow(Elementwise):
    """`x ** y` for a static integer y, by repeated squaring."""

    widens = False  # each product is rounded

    def type(self, *avals: ShapedArray, **params: Any) -> ShapedArray:
        if params["y"] < 0 and not dtypes.is_inexact(avals[0].dtype):
            raise TypeError(
                message(
                    "Integers have no negative powers.",
                    f"integer_pow of {avals[0]} with y={params['y']}",
                    fix="Use a power of at least 0, or cast to a floating-point dtype first.",
                )
            )
        return super().type(*avals, **params)


def _integer_power(
    x: Any, y: int, one: Any, times: Callable[[Any, Any], Any], over: Callable[[Any, Any], Any]
) -> Any:
    if y < 0:
        return over(one, _integer_power(x, -y, one, times, over))
    power = None
    for bit in reversed(f"{y:b}"):
        if bit == "1":
            power = x if power is None else times(power, x)
        y >>= 1
        x = times(x, x) if y else x
    return one if power is None else power


def _integer_pow_eager(x: Any, *, y: int) -> Any:
    return _integer_power(x, y, np.ones(np.shape(x), x.dtype), np.multiply, np.divide)


def _integer_pow_lower(ctx: Any, x: Any, *, y: int) -> Any:
    times, over = [lambda a, b, name=name: ctx.op(name, [a, b]) for name in ("multiply", "divide")]
    return _integer_power(x, y, ctx.constant(1, x.aval), times, over)


integer_pow = IntegerPow(
    "integer_pow", 1, hlo="power", eager=_integer_pow_eager, accepts="iufc", numpy_kinds="iuf",
    lower=_integer_pow_lower,
    jvp=[lambda t, z, x, *, y: mul(t, mul(integer_pow(x, y=y - 1 if y else 0), y))],
)  # fmt: skip


def _pow_by_base(t: Any, z: Any, x: Any, y: Any) -> Any:
    is_zero = eq(y, 0)  # x ** 0 is constant, although 0 * x ** -1 is not finite at 0
    return mul(t, where(is_zero, _scalar(0, y), mul(y, pow_(x, where(is_zero, _scalar(1, y), sub(y, 1))))))


def _pow_by_exponent(t: Any, z: Any, x: Any, y: Any) -> Any:
    vanishes = and_(eq(x, 0), gt(real_part(y), 0))  # 0 ** y is constant, although log 0 is not finite
    return mul(t, where(vanishes, _scalar(0, z), mul(log(where(vanishes, _scalar(1, x), x)), z)))


def _pow_lower(ctx: Any, x: Any, y: Any) -> Any:
    return ctx.op("power", [x, y]) if dtypes.is_inexact(x.aval.dtype) else _wrapping_power(ctx, x, y)


def _wrapping_power(ctx: Any, x: Any, y: Any) -> Any:
    """Repeated squaring: XLA's own power of integers errs for large and negative exponents."""
    aval, width = x.aval, 8 * x.aval.dtype.itemsize
    is_signed = dtypes.is_signed(aval.dtype)
    zero, one = ctx.constant(0, aval), ctx.constant(1, aval)
    power, base, bits = one, x, y
    for _ in range(width - is_signed):
        is_odd = ctx.compare("NE", ctx.op("and", [bits, one]), zero)
        power = ctx.select(is_odd, ctx.op("multiply", [power, base]), power)
        base, bits = ctx.op("multiply", [base, base]), ctx.op("shift_right_logical", [bits, one])
    if not is_signed:
        return power
    reciprocal = ctx.select(ctx.compare("EQ", ctx.op("abs", [x]), one), power, zero)
    return ctx.select(ctx.compare("LT", y, zero), reciprocal, power)


pow_ = binary(
    "pow", eager=rules.power, numpy_kinds="iuf", lower=_pow_lower, jvp=(_pow_by_base, _pow_by_exponent)
)


def _scalar(value: Any, like: Any) -> Any:
    return scalar_like(value, aval_of(like).dtype)


# --- rounding, signs, parts ---------------------------------------------------------------------------------


@register_param_type
class RoundingMethod(enum.IntEnum):
    """Where `round` takes halves: away from zero, or to the nearest even number."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def _round_lower(ctx: Any, x: Any, *, rounding_method: RoundingMethod) -> Any:
    to_even = rounding_method == RoundingMethod.TO_NEAREST_EVEN
    return ctx.emit(f"stablehlo.round_nearest_{'even' if to_even else 'afz'} {x} : {x.type}", x.aval)


def _round_eager(x: Any, *, rounding_method: RoundingMethod) -> Any:
    return np.rint(x) if rounding_method == RoundingMethod.TO_NEAREST_EVEN else rules.round_away_from_zero(x)


def _sign_jvp(t: Any, y: Any, x: Any) -> Any:
    if not dtypes.is_complex(aval_of(x).dtype):
        return Zero(aval_of(t))
    turn = div(imag(mul(conj(y), t)), abs_(x))  # only a change of direction changes z / |z|
    zero = _scalar(0, turn)
    return mul(y, complex_(zero, where(eq(x, 0), zero, turn)))


def _abs_jvp(t: Any, y: Any, x: Any) -> Any:
    if not dtypes.is_complex(aval_of(x).dtype):
        return mul(t, sign(x))
    return real(mul(t, conj(sign(x))))


def _abs_lower(ctx: Any, x: Any) -> Any:
    if dtypes.kind_of(x.aval.dtype) == "u":
        return x
    out = ctx.op("abs", [x], ctx.out_avals[0])
    return at_corners.absolute(ctx, x, out) if dtypes.is_complex(x.aval.dtype) else out


def _sign_lower(ctx: Any, x: Any) -> Any:
    if dtypes.is_complex(x.aval.dtype):
        return at_corners.sign(ctx, x)
    is_unsigned = dtypes.kind_of(x.aval.dtype) == "u"
    return ctx.op("minimum", [x, ctx.constant(1, x.aval)]) if is_unsigned else ctx.op("sign", [x])


def _strong_zero(x: Any) -> Any:
    return aval_of(x).dtype.type(0)


def _nextafter_lower(ctx: Any, x: Any, y: Any) -> Any:
    out = ctx.emit(f"chlo.next_after {x}, {y} : {x.type}, {x.type} -> {x.type}", x.aval)
    if not x.aval.dtype.name.endswith("fnuz"):
        return out
    is_number = ctx.op("and", [ctx.compare("EQ", x, x), ctx.compare("EQ", y, y)])
    is_zero = ctx.op("and", [is_number, ctx.compare("NE", out, out)])  # -0.0 is NaN in such a dtype
    return ctx.select(is_zero, ctx.constant(0, x.aval), out)


floor = unary("floor", eager=np.floor, accepts="f")
ceil = unary("ceil", eager=np.ceil, accepts="f")
round_ = unary("round", eager=_round_eager, accepts="f", lower=_round_lower)
is_finite = unary("is_finite", eager=np.isfinite, accepts="f", out_dtype=_to_bool)
nextafter = binary("nextafter", eager=rules.nextafter, accepts="f", lower=_nextafter_lower,
                   jvp=(lambda t, z, x, y: t, None))  # fmt: skip
nextafter.widens = False
sign = unary("sign", eager=rules.sign, accepts="iufc", numpy_kinds="iuf", lower=_sign_lower, jvp=_sign_jvp)
abs_ = unary("abs", eager=np.abs, accepts="iufc", numpy_kinds="iuf", out_dtype=dtypes.real_dtype,
             lower=_abs_lower, jvp=_abs_jvp)  # fmt: skip
real = unary("real", eager=rules.real, accepts="c", out_dtype=dtypes.real_dtype,
             jvp=lambda t, y, x: real(t), transpose=lambda ct, x: complex_(ct, _strong_zero(ct)))  # fmt: skip
imag = unary("imag", eager=rules.imag, accepts="c", out_dtype=dtypes.real_dtype,
             jvp=lambda t, y, x: imag(t),
             transpose=lambda ct, x: complex_(_strong_zero(ct), neg(ct)))  # fmt: skip
conj = unary("conj", hlo="chlo.conj", eager=np.conjugate, accepts="c",
             jvp=lambda t, y, x: conj(t), transpose=lambda ct, x: conj(ct))  # fmt: skip


class Complex(Elementwise):
    """`x + iy`, from its parts in float32 or float64."""

    def type(self, *avals: ShapedArray, **params: Any) -> ShapedArray:
        if any(dtypes.is_float(aval.dtype) and aval.dtype.itemsize < 4 for aval in avals):
            raise self._error(
                "takes float32 or float64 operands", avals, "Cast them first: x.astype('float32')."
            )
        return super().type(*avals, **params)


complex_ = Complex(
    "complex", 2, hlo="complex", eager=rules.complex_, accepts="f", out_dtype=dtypes.complex_dtype,
    jvp=[lambda t, z, x, y: complex_(t, _scalar(0, t)), lambda t, z, x, y: complex_(_scalar(0, t), t)],
    transpose=[lambda ct, x, y: real(ct), lambda ct, x, y: neg(imag(ct))],
)  # fmt: skip


def real_part(x: Any) -> Any:
    """The real part of a complex array; real arrays pass through."""
    return real(x) if dtypes.is_complex(aval_of(x).dtype) else x


# --- exponentials, logarithms, roots ------------------------------------------------------------------------


elementary = functools.partial(unary, accepts="fc", numpy_kinds="f")


def _exp2_lower(ctx: Any, x: Any) -> Any:
    if dtypes.is_complex(x.aval.dtype):
        return at_corners.exp2(ctx, x)
    return ctx.op("power", [ctx.constant(2, x.aval), x])


exp = elementary(
    "exp",
    eager=np.exp,
    lower=at_corners.exp,
    jvp=lambda t, y, x: mul(t, y),
)
exp2 = elementary("exp2", eager=np.exp2, lower=_exp2_lower, jvp=lambda t, y, x: mul(t, mul(y, math.log(2))))
expm1 = elementary(
    "expm1",
    eager=np.expm1,
    lower=at_corners.symmetric("stablehlo.exponential_minus_one", "conjugate", at_corners.expm1_corner),
    jvp=lambda t, y, x: mul(t, add(y, 1)),
)
log = elementary(
    "log", eager=np.log, lower=at_corners.logarithm("stablehlo.log"), jvp=lambda t, y, x: div(t, x)
)
log1p = elementary(
    "log1p",
    eager=np.log1p,
    lower=at_corners.logarithm("stablehlo.log_plus_one"),
    jvp=lambda t, y, x: div(t, add(x, 1)),
)
sqrt = elementary(
    "sqrt",
    eager=np.sqrt,
    lower=at_corners.symmetric("stablehlo.sqrt", "conjugate", at_corners.sqrt_corner),
    jvp=lambda t, y, x: div(mul(t, 0.5), y),
)
rsqrt = elementary(
    "rsqrt",
    eager=rules.rsqrt,
    lower=at_corners.symmetric("stablehlo.rsqrt", "conjugate"),
    jvp=lambda t, y, x: mul(t, mul(div(y, x), -0.5)),
)
cbrt = unary("cbrt", eager=np.cbrt, accepts="f", jvp=lambda t, y, x: div(mul(t, 1 / 3), square(y)))
logistic = elementary(
    "logistic",
    eager=rules.logistic,
    lower=at_corners.symmetric("stablehlo.logistic", "conjugate", at_corners.logistic_corner),
    jvp=lambda t, y, x: mul(t, mul(y, sub(1, y))),
)

# --- trigonometric and hyperbolic functions -----------------------------------------------------------------

sin = elementary(
    "sin",
    eager=np.sin,
    lower=at_corners.circular("stablehlo.sine"),
    jvp=lambda t, y, x: mul(t, cos(x)),
)
cos = elementary(
    "cos",
    eager=np.cos,
    lower=at_corners.circular("stablehlo.cosine"),
    jvp=lambda t, y, x: neg(mul(t, sin(x))),
)
tan = elementary(
    "tan",
    eager=np.tan,
    lower=at_corners.symmetric("stablehlo.tan", "odd", at_corners.turned(at_corners.tanh_corner)),
    jvp=lambda t, y, x: mul(t, add(square(y), 1)),
)
asin = elementary(
    "asin",
    eager=np.arcsin,
    lower=at_corners.symmetric("chlo.asin", "odd", at_corners.turned(at_corners.asinh_corner)),
    jvp=lambda t, y, x: mul(t, rsqrt(_one_minus_square(x))),
)
acos = elementary(
    "acos",
    eager=np.arccos,
    lower=at_corners.symmetric("chlo.acos", "conjugate", at_corners.acos_corner),
    jvp=lambda t, y, x: neg(mul(t, rsqrt(_one_minus_square(x)))),
)
atan = elementary(
    "atan",
    eager=np.arctan,
    lower=at_corners.symmetric("chlo.atan", "odd", at_corners.turned(at_corners.atanh_corner)),
    jvp=lambda t, y, x: div(t, add(square(x), 1)),
)
sinh = elementary(
    "sinh",
    eager=np.sinh,
    lower=at_corners.circular("chlo.sinh"),
    jvp=lambda t, y, x: mul(t, cosh(x)),
)
cosh = elementary(
    "cosh",
    eager=np.cosh,
    lower=at_corners.circular("chlo.cosh"),
    jvp=lambda t, y, x: mul(t, sinh(x)),
)
tanh = elementary(
    "tanh",
    eager=np.tanh,
    lower=at_corners.symmetric("stablehlo.tanh", "odd", at_corners.tanh_corner),
    jvp=lambda t, y, x: mul(t, _one_minus_square(y)),
)
asinh = elementary(
    "asinh",
    eager=np.arcsinh,
    lower=at_corners.symmetric("chlo.asinh", "odd", at_corners.asinh_corner),
    jvp=lambda t, y, x: mul(t, rsqrt(add(square(x), 1))),
)
acosh = elementary(
    "acosh",
    eager=np.arccosh,
    lower=at_corners.symmetric("chlo.acosh", "conjugate", at_corners.acosh_corner),
    jvp=lambda t, y, x: mul(t, mul(rsqrt(sub(x, 1)), rsqrt(add(x, 1)))),
)
atanh = elementary(
    "atanh",
    eager=np.arctanh,
    lower=at_corners.symmetric("chlo.atanh", "odd", at_corners.atanh_corner),
    jvp=lambda t, y, x: div(t, _one_minus_square(x)),
)
for _function in (expm1, logistic, asin, acos, asinh, acosh, atanh):
    _function.widens_halves = True
atan2 = binary("atan2", eager=np.arctan2, accepts="f",
               jvp=(lambda t, z, x, y: mul(t, _over_square_norm(y, x)),
                    lambda t, z, x, y: neg(mul(t, _over_square_norm(x, y)))))  # fmt: skip


def _one_minus_square(x: Any) -> Any:
    return mul(sub(1, x), add(x, 1))  # 1 - x * x would cancel near 1


def _over_square_norm(a: Any, b: Any) -> Any:
    """a / (a² + b²), and 0 at the origin, by Smith's division: no square overflows or vanishes."""
    leads, origin = ge(abs_(a), abs_(b)), and_(eq(a, 0), eq(b, 0))
    large, small = where(origin, _scalar(math.inf, a), where(leads, a, b)), where(leads, b, a)
    ratio = div(small, large)
    inverse = div(1, add(large, mul(small, ratio)))
    return where(leads, inverse, mul(ratio, inverse))  # a quotient of quotients, XLA would square again


# --- special functions --------------------------------------------------------------------------------------

erf = unary("erf", hlo="chlo.erf", accepts="f",
            jvp=lambda t, y, x: mul(t, mul(exp(neg(square(x))), 2 / math.sqrt(math.pi))))  # fmt: skip
erfc = unary("erfc", hlo="chlo.erfc", accepts="f",
             jvp=lambda t, y, x: mul(t, mul(exp(neg(square(x))), -2 / math.sqrt(math.pi))))  # fmt: skip
erf_inv = unary("erf_inv", hlo="chlo.erf_inv", accepts="f",
                jvp=lambda t, y, x: mul(t, mul(exp(square(y)), math.sqrt(math.pi) / 2)))  # fmt: skip
lgamma = unary("lgamma", hlo="chlo.lgamma", accepts="f", jvp=lambda t, y, x: mul(t, digamma(x)))
digamma = unary(
    "digamma", hlo="chlo.digamma", accepts="f", jvp=lambda t, y, x: mul(t, polygamma(_scalar(1, x), x))
)
polygamma = binary("polygamma", hlo="chlo.polygamma", accepts="f",
                   jvp=(no_derivative("polygamma", "order"),
                        lambda t, z, m, x: mul(t, polygamma(add(m, 1), x))))  # fmt: skip
zeta = binary("zeta", hlo="chlo.zeta", accepts="f",
              jvp=(no_derivative("zeta", "exponent"),
                   lambda t, z, x, q: neg(mul(t, mul(x, zeta(add(x, 1), q))))))  # fmt: skip

# --- comparison and choice ----------------------------------------------------------------------------------


def comparison(
    name: str, eager: Callable[..., Any], accepts: str = "biuf", physical: Callable[..., Any] | None = None
) -> Elementwise:
    """A comparison: the StableHLO direction is the name in capitals."""
    return binary(name, eager=eager, accepts=accepts, out_dtype=_to_bool, physical=physical,
                  lower=lambda ctx, x, y: ctx.compare(name.upper(), x, y))  # fmt: skip


def _count_differences(avals: Sequence[ShapedArray], *xs: Any) -> Any:
    """How many of the integers behind each two elements of an extended dtype differ; scalars stretch."""
    longest = max(avals, key=lambda aval: aval.ndim)
    shape = longest.physical.shape
    axes = [(*range(aval.ndim), *range(longest.ndim, len(shape))) for aval in avals]
    x, y = [broadcast_in_dim(x, shape, dims) for x, dims in zip(xs, axes, strict=True)]
    return reduce_sum(sign(xor(x, y)), tuple(range(longest.ndim, len(shape))))


eq = comparison("eq", np.equal, accepts="biufcx",
                physical=lambda avals, x, y: eq(_count_differences(avals, x, y), 0))  # fmt: skip
ne = comparison("ne", np.not_equal, accepts="biufcx",
                physical=lambda avals, x, y: ne(_count_differences(avals, x, y), 0))  # fmt: skip
lt = comparison("lt", np.less)
le = comparison("le", np.less_equal)
gt = comparison("gt", np.greater)
ge = comparison("ge", np.greater_equal)


def _share_of_winner(t: Any, z: Any, x: Any, y: Any) -> Any:
    """The tangent of `x` where it is the extremum `z` of x and y, half of it at a tie."""
    return where(eq(x, y), mul(t, 0.5), where(eq(z, x), t, _scalar(0, t)))


def _extremum_lower(op: str) -> Callable[..., Any]:
    return lambda ctx, x, y: keep_nan(ctx, ctx.op(op, [x, y]))  # See Note [NaN in extrema]


max_ = binary("max", eager=rules.maximum, accepts="biuf", lower=_extremum_lower("maximum"),
              jvp=(_share_of_winner, lambda t, z, x, y: _share_of_winner(t, z, y, x)))  # fmt: skip
min_ = binary("min", eager=rules.minimum, accepts="biuf", lower=_extremum_lower("minimum"),
              jvp=(_share_of_winner, lambda t, z, x, y: _share_of_winner(t, z, y, x)))  # fmt: skip
clamp = Elementwise("clamp", 3, hlo="clamp", eager=rules.clamp, accepts="iuf",
                    jvp=[lambda t, z, low, x, high: _where_or_zero(and_(gt(low, x), lt(low, high)), t),
                         lambda t, z, low, x, high: _where_or_zero(and_(gt(x, low), lt(x, high)), t),
                         lambda t, z, low, x, high: _where_or_zero(lt(high, x), t)])  # fmt: skip


def _where_or_zero(condition: Any, t: Any) -> Any:
    return where(condition, t, _scalar(0, t))


# --- logic and bits -----------------------------------------------------------------------------------------


def _popcnt_lower(ctx: Any, x: Any) -> Any:
    """Integers narrower than a byte as unsigned ones: XLA would count the copies of the sign bit in a byte."""
    dtype = x.aval.dtype
    unsigned = dtypes.dtype(f"u{dtype.name.removeprefix('u')}") if dtypes.is_packed(dtype) else dtype
    return ctx.convert(ctx.op("popcnt", [ctx.convert(x, unsigned)]), dtype)


and_ = binary("and", eager=np.bitwise_and, accepts="biu")
or_ = binary("or", eager=np.bitwise_or, accepts="biu")
xor = binary("xor", eager=np.bitwise_xor, accepts="biu")
not_ = unary("not", eager=np.invert, accepts="biu")
shift_left = binary("shift_left", eager=rules.shift_left, accepts="iu")
shift_right_arithmetic = binary("shift_right_arithmetic", eager=rules.shift_right_arithmetic, accepts="iu")
shift_right_logical = binary("shift_right_logical", eager=rules.shift_right_logical, accepts="iu")
population_count = unary("population_count", eager=rules.population_count, accepts="iu", lower=_popcnt_lower)
clz = unary("clz", hlo="count_leading_zeros", eager=rules.count_leading_zeros, accepts="iu")
