"""Powers: `integer_pow` with a static exponent, by repeated squaring, and `pow_` of two arrays.

    (x^y)' = x' y x^(y - 1) + y' log(x) x^y

The first summand is 0 where y is 0, and the second where x is 0 and y is not negative, though a factor is infinite
there. Powers of integers wrap; to negative exponents they are rounded towards 0. Read next: `vectorized.py`, by which
large float32 arrays are raised, `complex_functions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.primitives import complex_functions as at_corners
from didax.primitives import numpy_rules
from didax.primitives.elementwise.arithmetic import div, mul, number_like, sub
from didax.primitives.elementwise.comparisons import eq, ge
from didax.primitives.elementwise.elementary import log
from didax.primitives.elementwise.logic_and_bits import and_, not_
from didax.primitives.elementwise.rounding import is_finite
from didax.primitives.elementwise.signs_and_parts import abs_, real_part
from didax.primitives.elementwise.vectorized import power, vectorized
from didax.primitives.families import Elementwise, binary
from didax.primitives.select import where


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

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        if params["y"] != 0:
            return super().jvp(primals, tangents, **params)
        out = self.bind(*primals, **params)  # ones: a factor of 0 would make NaN of an infinite tangent
        return out, Zero(aval_of(out).tangent())

    def eager_text(self, source: Any, names: Sequence[str], avals: Any, *, y: int) -> str | None:
        if y < 1:
            return None
        times = lambda a, b: source.line(f"{source.given(np.multiply)}({a}, {b})")
        return _integer_power(names[0], y, str, times, times)


def _integer_power(
    x: Any, y: int, one: Callable[[], Any], times: Callable[[Any, Any], Any], over: Callable[[Any, Any], Any]
) -> Any:
    if y < 0:
        return over(one(), _integer_power(x, -y, one, times, over))
    power = None
    for bit in reversed(f"{y:b}"):
        if bit == "1":
            power = x if power is None else times(power, x)
        y >>= 1
        x = times(x, x) if y else x
    return one() if power is None else power


def _integer_pow_eager(x: Any, *, y: int) -> Any:
    return _integer_power(x, y, lambda: np.ones(np.shape(x), x.dtype), np.multiply, np.divide)


def _integer_pow_lower(ctx: Any, x: Any, *, y: int) -> Any:
    times, over = [lambda a, b, name=name: ctx.op(name, [a, b]) for name in ("multiply", "divide")]
    return _integer_power(x, y, lambda: ctx.constant(1, x.aval), times, over)


integer_pow = IntegerPow(
    "integer_pow", 1, hlo="power", eager=_integer_pow_eager, accepts="iufc", numpy_kinds="iuf",
    lower=_integer_pow_lower,
    jvp=[lambda t, z, x, *, y: mul(t, mul(integer_pow(x, y=y - 1), y))],
)  # fmt: skip


def _pow_by_base(t: Any, z: Any, x: Any, y: Any) -> Any:
    # x ** 0 is constant, although 0 * x ** -1 is not finite at 0. Elsewhere the product has a derivative by y, 1 / x.
    vanishes = and_(eq(y, 0), not_(is_finite(abs_(div(1, x)))))
    power = pow_(x, where(vanishes, number_like(1, y), sub(y, 1)))
    return mul(t, where(vanishes, number_like(0, y), mul(y, power)))


def _pow_by_exponent(t: Any, z: Any, x: Any, y: Any) -> Any:
    vanishes = and_(eq(x, 0), ge(real_part(y), 0))  # 0 ** y is constant, although log 0 is not finite
    return mul(t, where(vanishes, number_like(0, z), mul(log(where(vanishes, number_like(1, x), x)), z)))


def _pow_lower(ctx: Any, x: Any, y: Any) -> Any:
    if dtypes.is_complex(x.aval.dtype):
        return at_corners.power(ctx, x, y)
    if not dtypes.is_float(x.aval.dtype):
        return _wrapping_power(ctx, x, y)
    known = y.constant is not None and float(y.constant) in _KNOWN_TO_XLA
    return (_by_xla if known else _large_power)(ctx, x, y)


def _by_xla(ctx: Any, x: Any, y: Any) -> Any:
    return ctx.op("power", [x, y])


_KNOWN_TO_XLA = {-1.0, 0.0, 0.5, 1.0, 2.0, 3.0}  # exponents for which it writes quotients, roots and products
_large_power = vectorized(power, _by_xla)


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
    "pow", eager=numpy_rules.power, numpy_kinds="iuf", lower=_pow_lower, jvp=(_pow_by_base, _pow_by_exponent)
)
