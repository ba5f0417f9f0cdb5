"""Elementary functions: exponentials, logarithms, roots, trigonometric and hyperbolic functions.

They run compiled on complex numbers, as NumPy takes other sides of branch cuts; `complex_functions.py` corrects XLA at
corners. Derivatives are finite where their limit is.
Read next: `powers.py`; `families.py` for what is made of an entry.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.avals import aval_of
from didax.primitives import complex_functions as at_corners
from didax.primitives import numpy_rules
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise.arithmetic import add, div, mul, neg, number_like, square, sub
from didax.primitives.elementwise.comparisons import eq, ge
from didax.primitives.elementwise.logic_and_bits import and_
from didax.primitives.elementwise.signs_and_parts import abs_
from didax.primitives.elementwise.vectorized import (
    arctangent,
    arctangent2,
    cosine,
    cube_root,
    exponential2,
    sine,
    tangent,
    vectorized,
)
from didax.primitives.families import binary, unary
from didax.primitives.select import where

_SINGLE = np.dtype(np.float32)
elementary = functools.partial(unary, accepts="fc", numpy_kinds="f")


def _halves_in_single(rule: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """The rule of a tangent t and an operand x; in float32 where x is float16, whose squares overflow from 256 on."""

    def jvp(t: Any, y: Any, x: Any) -> Any:
        if aval_of(x).dtype != np.float16:
            return rule(t, x)
        return convert_element_type(
            rule(*[convert_element_type(v, _SINGLE) for v in (t, x)]), np.dtype(np.float16)
        )

    return jvp


def _exp2_lower(ctx: Any, x: Any) -> Any:
    if dtypes.is_complex(x.aval.dtype):
        return at_corners.exp2(ctx, x)
    return ctx.op("power", [ctx.constant(2, x.aval), x])


def _log1p_lower(ctx: Any, x: Any) -> Any:
    """log1p; of float64 near -0.3 by log(y) + (x - (y - 1)) / y with y = 1 + x, since XLA's loses two digits there."""
    out = at_corners.logarithm("stablehlo.log_plus_one")(ctx, x)
    if x.aval.dtype != np.float64:
        return out
    y = ctx.op("add", [x, ctx.constant(1, x.aval)])
    rest = ctx.op("subtract", [x, ctx.op("subtract", [y, ctx.constant(1, x.aval)])])
    value = ctx.op("add", [ctx.op("log", [y]), ctx.op("divide", [rest, y])])
    inside = ctx.compare(
        "LT", ctx.op("abs", [ctx.op("add", [x, ctx.constant(0.3, x.aval)])]), ctx.constant(0.2, x.aval)
    )
    return ctx.select(inside, value, out)


def _atanh_lower(ctx: Any, x: Any) -> Any:
    """atanh, for float64 as half the logarithm of 1 + 2 |x| / (1 - |x|), which is never below 1, with the sign of x."""
    if x.aval.dtype != np.float64:
        return at_corners.symmetric("chlo.atanh", "odd", at_corners.atanh_corner)(ctx, x)
    size = ctx.op("abs", [x])
    ratio = ctx.op("divide", [size, ctx.op("subtract", [ctx.constant(1, x.aval), size])])
    logarithm = ctx.op("log_plus_one", [ctx.op("add", [ratio, ratio])])
    value = ctx.op("multiply", [logarithm, ctx.constant(0.5, x.aval)])
    return ctx.op("multiply", [ctx.op("sign", [x]), value])  # the sign of -0.0 is -0.0


exp = elementary(
    "exp",
    eager=np.exp,
    lower=at_corners.exp,
    jvp=lambda t, y, x: mul(t, y),
)
exp2 = elementary(
    "exp2",
    eager=np.exp2,
    lower=vectorized(exponential2, _exp2_lower),
    jvp=lambda t, y, x: mul(t, mul(y, math.log(2))),
)
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
    lower=_log1p_lower,
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
    eager=numpy_rules.rsqrt,
    lower=at_corners.rsqrt,
    jvp=lambda t, y, x: mul(t, mul(div(y, x), -0.5)),
)
cbrt = unary(
    "cbrt",
    eager=np.cbrt,
    accepts="f",
    lower=vectorized(cube_root, lambda ctx, x: ctx.op("cbrt", [x])),
    jvp=lambda t, y, x: div(mul(t, 1 / 3), square(y)),
)
logistic = elementary(
    "logistic",
    eager=numpy_rules.logistic,
    lower=at_corners.symmetric("stablehlo.logistic", "conjugate", at_corners.logistic_corner),
    jvp=lambda t, y, x: mul(t, mul(y, sub(1, y))),
)

# Trigonometric and hyperbolic functions

sin = elementary(
    "sin",
    eager=np.sin,
    lower=vectorized(sine, at_corners.circular("stablehlo.sine")),
    jvp=lambda t, y, x: mul(t, cos(x)),
)
cos = elementary(
    "cos",
    eager=np.cos,
    lower=vectorized(cosine, at_corners.circular("stablehlo.cosine")),
    jvp=lambda t, y, x: neg(mul(t, sin(x))),
)
tan = elementary(
    "tan",
    eager=np.tan,
    lower=vectorized(
        tangent, at_corners.symmetric("stablehlo.tan", "odd", at_corners.turned(at_corners.tanh_corner))
    ),
    jvp=lambda t, y, x: mul(t, add(square(y), 1)),
)
asin = elementary(
    "asin",
    eager=np.arcsin,
    lower=vectorized(
        lambda x: arctangent2(x, sqrt(_one_minus_square(x))),
        at_corners.symmetric("chlo.asin", "odd", at_corners.turned(at_corners.asinh_corner)),
    ),
    jvp=lambda t, y, x: mul(t, rsqrt(_one_minus_square_beside_cuts(x))),
)
acos = elementary(
    "acos",
    eager=np.arccos,
    lower=vectorized(
        lambda x: arctangent2(sqrt(_one_minus_square(x)), x),
        at_corners.symmetric("chlo.acos", "conjugate", at_corners.acos_corner),
    ),
    jvp=lambda t, y, x: neg(mul(t, rsqrt(_one_minus_square_beside_cuts(x)))),
)
atan = elementary(
    "atan",
    eager=np.arctan,
    lower=vectorized(
        arctangent, at_corners.symmetric("chlo.atan", "odd", at_corners.turned(at_corners.atanh_corner))
    ),
    jvp=_halves_in_single(lambda t, x: div(t, add(square(x), 1))),
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
    jvp=_halves_in_single(lambda t, x: mul(t, rsqrt(_plus_one(square(x))))),
)
acosh = elementary(
    "acosh",
    eager=np.arccosh,
    lower=at_corners.symmetric("chlo.acosh", "conjugate", at_corners.acosh_corner),
    jvp=lambda t, y, x: mul(t, mul(rsqrt(sub(x, 1)), rsqrt(_plus_one(x)))),
)
atanh = elementary(
    "atanh",
    eager=np.arctanh,
    lower=_atanh_lower,
    jvp=_halves_in_single(lambda t, x: div(t, _one_minus_square(x))),
)
for _function in (exp2, expm1, logistic, sin, cos, tan, asin, acos, atan, asinh, acosh, atanh):
    _function.widens_halves = True
atan2 = binary("atan2", eager=np.arctan2, accepts="f",
               lower=vectorized(arctangent2, lambda ctx, y, x: ctx.op("atan2", [y, x])),
               jvp=(lambda t, z, x, y: mul(t, _over_square_norm(y, x)),
                    lambda t, z, x, y: neg(mul(t, _over_square_norm(x, y)))))  # fmt: skip


def _one_minus_square(x: Any) -> Any:
    return mul(sub(1, x), add(x, 1))  # 1 - x * x would cancel near 1


def _one_minus_square_beside_cuts(x: Any) -> Any:
    """1 - x²; 1 - x would lose the sign of a zero imaginary part, as x + 1 in `_plus_one`."""
    if not dtypes.is_complex(aval_of(x).dtype):
        return _one_minus_square(x)
    return mul(neg(sub(x, 1)), _plus_one(x))


def _plus_one(x: Any) -> Any:
    """x + 1; an imaginary part of -0.0 keeps its sign, which tells the side of a branch cut."""
    return sub(x, -1) if dtypes.is_complex(aval_of(x).dtype) else add(x, 1)


def _over_square_norm(a: Any, b: Any) -> Any:
    """a / (a² + b²), and 0 at the origin, by Smith's division: no square overflows or vanishes."""
    leads, origin = ge(abs_(a), abs_(b)), and_(eq(a, 0), eq(b, 0))
    large, small = where(origin, number_like(math.inf, a), where(leads, a, b)), where(leads, b, a)
    ratio = div(small, large)
    inverse = div(1, add(large, mul(small, ratio)))
    return where(leads, inverse, mul(ratio, inverse))  # a quotient of quotients, XLA would square again
