"""The gamma function, its logarithm, and the derivatives of that.

    gamma(x)         Gamma(x), of either sign
    lgamma(x)        log|Gamma(x)|
    digamma(x)       its derivative, and polygamma(n, x), the n-th derivative of digamma
    zeta(s, q)       the sum of (k + q)^-s over k = 0, 1, ..., of which polygamma is a multiple

exp(lgamma(x)) would lose as many digits as lgamma(x) is large. Here Gamma(n + z), with z the distance to the nearest
integer, is a product of n - 1 exact factors and of Gamma(1 + z), whose reciprocal is an entire function; from 9.5 on it
is Stirling's x^(x - 1/2) exp(-x) of the exact x. Read next: `gamma_quotients.py`, `beta.py` and `special.py`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from didax.primitives import gamma_in_double as double
from didax.primitives.composed import composed, derivatives, like, polynomial, repeat, slope_of, slopes
from didax.primitives.elementwise import (
    RoundingMethod,
    abs_,
    add,
    and_,
    div,
    eq,
    exp,
    floor,
    ge,
    gt,
    le,
    log,
    log1p,
    lt,
    mul,
    ne,
    neg,
    no_derivative,
    or_,
    pow_,
    round_,
    sign,
    sin,
    square,
    sub,
)
from didax.primitives.families import Elementwise, unary
from didax.primitives.gamma_in_double import EULER_MACLAURIN, parity
from didax.primitives.narrow import by_size, in_float64, is_single
from didax.primitives.select import where
from didax.xla.lowering import lower_function

# 1 / Gamma(1 + z) in powers of z.
_RECIPROCAL = (
    1.0, 0.5772156649015329, -0.6558780715202539, -0.04200263503409524, 0.16653861138229148,
    -0.04219773455554433, -0.009621971527876973, 0.0072189432466631, -0.0011651675918590652,
    -0.00021524167411495098, 0.0001280502823881162, -2.013485478078824e-05, -1.2504934821426706e-06,
    1.133027231981696e-06, -2.056338416977607e-07, 6.116095104481416e-09, 5.002007644469223e-09,
    -1.18127457048702e-09, 1.0434267116911005e-10, 7.782263439905071e-12, -3.696805618642206e-12,
)  # fmt: skip
STIRLING = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156]

# --- The gamma function -------------------------------------------------------------------------------------


def gamma_of(x: Any) -> Any:
    """Gamma(x); NaN at the negative integers, where its sign is not known."""
    if is_single(x):
        return in_float64(double.gamma)(x)
    size = abs_(x)
    whole = round_(size, rounding_method=RoundingMethod.TO_NEAREST_EVEN)
    z = sub(size, whole)
    value = where(ge(size, 9.5), _by_stirling(size), _by_product(size, whole, z))
    sine = mul(sin(mul(z, math.pi)), parity(whole))
    mirrored = div(-math.pi, mul(mul(sine, value), size))
    mirrored = where(eq(z, 0), like(math.nan, x), mirrored)
    return where(eq(x, 0), div(1, x), where(lt(x, 0), mirrored, value))


def _by_product(x: Any, whole: Any, z: Any) -> Any:
    """gamma(x) for 0 < x < 9.5, as a product of `_factors` and gamma of a number near 1."""
    reciprocal = polynomial(z, _RECIPROCAL[: _terms(x)])
    return div(_factors(x, whole), mul(reciprocal, where(eq(whole, 0), x, like(1, x))))


def _factors(x: Any, whole: Any) -> Any:
    """(x - 1) (x - 2) ... for 0 < x < 9.5, down to a factor between 1/2 and 3/2: x - k has no rounding error."""
    one = like(1, x)
    product = one
    for k in range(1, 9):
        product = mul(product, where(gt(whole, k), sub(x, k), one))
    return product


def reciprocal_less_1(z: Any) -> Any:
    """1 / Gamma(1 + z) - 1, for |z| <= 1/2."""
    return mul(z, polynomial(z, _RECIPROCAL[1 : _terms(z)]))


def _terms(x: Any) -> int:
    """How many of `_RECIPROCAL` the dtype has digits for."""
    return 13 if is_single(x) else 21


def _by_stirling(x: Any) -> Any:
    """For x >= 9.5. The power is the square of one that does not overflow."""
    x = where(lt(x, 180), x, like(180, x))  # Gamma has overflown there
    root = pow_(x, sub(mul(x, 0.5), 0.25))
    return mul(mul(mul(exp(neg(x)), root), mul(exp(stirling(x)), math.sqrt(2 * math.pi))), root)


def stirling(x: Any) -> Any:
    """log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), for x >= 9.5."""
    inverse = div(1, x)
    terms = STIRLING[: 3 if is_single(x) else 7]
    return mul(inverse, polynomial(square(inverse), terms))


def gamma_sign(x: Any) -> Any:
    """The sign of Gamma(x); NaN at the negative integers."""
    whole = floor(x)
    signed = where(lt(x, 0), parity(whole), where(eq(x, x), like(1, x), x))
    signed = where(and_(lt(x, 0), eq(x, whole)), like(math.nan, x), signed)
    return where(eq(x, 0), sign(div(1, x)), signed)


# --- Its logarithm ------------------------------------------------------------------------------------------


def _lgamma(x: Any) -> Any:
    """Gamma is 1 at 1 and 2: there the logarithms are those of numbers whose distance to 1 is exact."""
    size = abs_(x)
    whole = round_(size, rounding_method=RoundingMethod.TO_NEAREST_EVEN)
    small = eq(whole, 0)
    z = where(small, x, sub(size, whole))
    factors = log(where(small, size, _factors(size, whole)))
    near = sub(where(small, neg(factors), factors), log1p(reciprocal_less_1(z)))
    value = where(ge(size, 9.5), _log_by_stirling(size), near)
    sine = double.sine_of_turn(z) if is_single(z) else sin(mul(z, math.pi))
    mirrored = sub(neg(log(mul(mul(abs_(sine), size), 1 / math.pi))), value)
    value = where(or_(ge(x, 0), small), value, mirrored)
    pole = and_(eq(z, 0), le(x, 0))
    return where(or_(pole, eq(size, math.inf)), like(math.inf, x), value)


def _log_by_stirling(x: Any) -> Any:
    """log Gamma(x), for x >= 9.5."""
    return add(mul(sub(x, 0.5), sub(log(x), 1)), add(stirling(x), 0.5 * math.log(2 * math.pi) - 0.5))


# --- Zeta functions -----------------------------------------------------------------------------------------


def _relative_zeta(s: Any, q: Any) -> Any:
    """zeta(s, q) q^s for s > 1 and q > 0, which neither overflows nor vanishes: by Euler and Maclaurin's formula."""
    count, order = (6, 4) if is_single(q) else (10, 10)
    # A loop, as powers are large programs.
    total = repeat(
        lambda k, total: add(total, pow_(div(q, add(q, k)), s)), like(0, q), lambda k: lt(k, count)
    )
    first = add(q, count)
    power = pow_(div(q, first), s)
    factor, series = div(s, first), like(0, q)
    for k, coefficient in enumerate(EULER_MACLAURIN[:order]):
        series = add(series, mul(factor, coefficient))
        factor = mul(factor, mul(div(add(s, 2 * k + 1), first), div(add(s, 2 * k + 2), first)))
    rest = mul(power, add(add(div(first, sub(s, 1)), 0.5), series))
    return add(total, where(eq(power, 0), power, rest))


def _positive_zeta(s: Any, q: Any, scale: Any) -> Any:
    """scale * zeta(s, q) for s > 1 and q > 0; infinity as the scale stands for Gamma(s)."""
    root = pow_(q, mul(s, -0.5))
    over = eq(scale, math.inf)
    large = where(over, s, like(10, s))
    log_root = mul(sub(_log_by_stirling(large), mul(large, log(q))), 0.5)
    root = where(over, exp(log_root), root)
    value = mul(mul(mul(where(over, like(1, s), scale), root), _relative_zeta(s, q)), root)
    return where(eq(q, 0), like(math.inf, q), where(eq(q, math.inf), like(0, q), value))


def _zeta_of_reals(s: Any, q: Any, positive: Callable[[Any, Any], Any], direct: bool) -> Any:
    """A multiple of zeta(s, q) by s, known for q > 0, also for q < 0 and whole s, where the powers are real.

    The sum over all whole k of (k + q)^-s does not change with q by whole numbers. So for q < 0 it is the sum from
    q - floor(q) on, and, with the sign of (-1)^s, that from floor(q) + 1 - q on less that from 1 - q on. Midway between
    two poles and for odd s the first two cancel, and where both overflow the sign is that of the nearer pole.
    """
    zero = like(0, q)

    def parts(s: Any, q: Any) -> tuple[Any, Any, Any, Any]:
        negative, below = lt(q, 0), floor(q)
        return negative, sub(q, below), sub(add(below, 1), q), where(negative, parity(s), zero)

    def step(k: Any, total: Any) -> Any:
        # Arguments that change after the last step: what XLA moves out of a loop becomes many small kernels.
        s_here, q_here = where(lt(k, 3), s, like(2, s)), where(lt(k, 3), q, like(1, q))
        negative, after, before, sign = parts(s_here, q_here)
        midway = and_(eq(after, before), lt(sign, 0))
        of_after, of_before = where(midway, zero, like(1, q)), where(midway, zero, sign)
        base = where(eq(k, 0), after, where(eq(k, 1), before, sub(1, q_here)))
        weight = where(eq(k, 0), of_after, where(eq(k, 1), of_before, neg(sign)))
        found = positive(s_here, where(negative, base, q_here))
        return add(total, where(eq(weight, 0), zero, mul(weight, found)))

    negative, after, before, sign = parts(s, q)
    if direct:
        midway = and_(eq(after, before), lt(sign, 0))
        value, of_before, of_rest = [positive(s, x) for x in (where(negative, after, q), before, sub(1, q))]
        both = where(midway, zero, add(value, mul(sign, of_before)))
        value = where(negative, sub(both, mul(sign, of_rest)), value)
    else:  # as in float64 each sum takes many powers
        value = repeat(step, zero, lambda k: lt(k, 1), negative, 3)
    overflown = where(lt(after, before), like(math.inf, q), mul(sign, math.inf))
    value = where(and_(negative, ne(value, value)), overflown, value)
    pole = where(eq(after, 0), like(math.inf, q), where(eq(s, floor(s)), value, like(math.nan, q)))
    return where(negative, pole, value)


def _zeta(formula: Callable[[Any, Any], Any], s: Any, q: Any) -> Any:
    value = formula(s, q)
    value = where(eq(s, 1), like(math.inf, q), where(gt(s, 1), value, like(math.nan, q)))
    vanishes = and_(gt(s, 1), or_(and_(gt(s, 1e30), gt(q, 1)), eq(q, math.inf)))
    return where(ne(q, q), q, where(vanishes, like(0, q), value))


def _plain_zeta(s: Any, q: Any) -> Any:
    return _positive_zeta(s, q, like(1, q))


_slope_of_zeta = slopes("s", lambda by: slope_of(_plain_zeta, 0))


def _zeta_by_exponent(by: str) -> Callable[[Any, Any], Any]:
    """A derivative by s for s > 1 and q > 0. For q < 0, where zeta is known for whole s only, there is none."""

    def derivative(s: Any, q: Any) -> Any:
        valid = and_(and_(gt(s, 1), lt(s, math.inf)), gt(q, 0))
        value = _slope_of_zeta(by)(where(valid, s, like(2, s)), where(valid, q, like(1, q)))
        at_pole = math.inf if len(by) % 2 == 0 else -math.inf
        edge = where(and_(eq(s, 1), ge(q, 0)), like(at_pole, q), like(math.nan, q))
        edge = where(and_(gt(s, 1), eq(q, 0)), like(math.inf, q), edge)
        return where(valid, value, edge)

    return derivative


def _polygamma(n: Any, x: Any) -> Any:
    """(-1)^(n + 1) n! zeta(n + 1, x) for whole n > 0."""
    known, order = _order(n)
    factorial = gamma_of(add(order, 1))
    value = _zeta_of_reals(add(order, 1), x, lambda s, x: _positive_zeta(s, x, factorial), False)
    return where(eq(n, 0), digamma(x), where(known, mul(neg(parity(order)), value), like(math.nan, x)))


def _polygamma_in_double(n: Any, x: Any) -> Any:
    known, order = _order(n)
    value = mul(neg(parity(order)), _zeta_of_reals(add(order, 1), x, double.gamma_times_zeta, True))
    return where(eq(n, 0), double.digamma(x), where(known, value, like(math.nan, x)))


def _order(n: Any) -> tuple[Any, Any]:
    """Whether it is a positive whole number, and one in any case."""
    known = and_(gt(n, 0), eq(n, floor(n)))
    return known, where(known, n, like(1, n))


# --- Derivatives of the logarithm ---------------------------------------------------------------------------


def _lower_digamma(ctx: Any, x: Any) -> Any:
    if x.aval.dtype == np.float64:
        return ctx.op("chlo.digamma", [x])
    return lower_function(ctx, in_float64(double.digamma), [x])[0]


def polygamma_terms(n: int, single: bool) -> list[tuple[int, list[float]]]:
    """Numbers k and polynomials p: (-1)^(n + 1) polygamma(n, x) is the sum of p(1 / (x + k)), for n > 0 and x > 0.

    The last is the asymptotic series, the others are of the recurrence. With the digits of float64, or of numbers that
    are rounded to float32 if `single`.
    """
    count, order = (6, 5) if single else (10, 10)
    series = [0.0] * n + [math.factorial(n - 1), math.factorial(n) / 2]
    for k, c in enumerate(EULER_MACLAURIN[:order]):
        series += [c * math.factorial(n + 2 * k + 1), 0.0]
    step = [0.0] * (n + 1) + [math.factorial(n)]
    return [*((k, step) for k in range(count)), (count, series[:-1])]


def mirrored(x: Any) -> Any:
    """1 - x for negative x."""
    return where(lt(x, 0), sub(1, x), x)


def polygamma_from(n: int, single: bool, x: Any, value: Any) -> Any:
    """polygamma(n, x), from that of `mirrored(x)`, times (-1)^(n + 1).

    The n-th derivative of pi cot(pi x) is (-1)^n polygamma(n, 1 - x) - polygamma(n, x). If `single`, with the digits of
    numbers that are rounded to float32.
    """
    below, whole = lt(x, 0), round_(x, rounding_method=RoundingMethod.TO_NEAREST_EVEN)
    z = sub(x, whole)
    if single:
        sine, cosine = double.sine_and_cosine(x)
    else:  # midway between poles the cosine is 0
        sine, cosine = sin(mul(z, math.pi)), sin(mul(sub(0.5, abs_(z)), math.pi))
    of_cotangent = np.polynomial.Polynomial([0, 1])
    for _ in range(n):
        of_cotangent = of_cotangent.deriv() * np.polynomial.Polynomial([-1, 0, -1])
    slope = mul(polynomial(div(cosine, sine), list(of_cotangent.coef)), math.pi ** (n + 1))
    found = where(below, sub(neg(value), slope), value if n % 2 else neg(value))
    return where(and_(le(x, 0), eq(x, whole)), like(math.inf if n % 2 else -math.inf, x), found)


def _polygamma_of_order(n: int, single: bool, x: Any) -> Any:
    if n == 1 and single:
        return double.trigamma(x)
    size, value = mirrored(x), like(0, x)
    for k, p in polygamma_terms(n, single):
        value = add(value, polynomial(div(1, add(size, k)), p))
    return polygamma_from(n, single, x, value)


_SUMS_OF_TERMS = (1, 2, 3, 4)  # orders for which the terms have the digits


@functools.cache
def polygamma_of(n: int) -> Elementwise:
    """polygamma(n, x) for a known order n > 0, without loops."""

    formula = by_size(*[functools.partial(_polygamma_of_order, n, single) for single in (False, True)])
    name = f"polygamma_{n}" if n > 1 else "trigamma"
    return composed(name, formula, lambda t, y, x: mul(t, polygamma_of(n + 1)(x)))


# --- The primitives -----------------------------------------------------------------------------------------


digamma = unary(
    "digamma", hlo="digamma", lower=_lower_digamma, accepts="f", jvp=lambda t, y, x: mul(t, trigamma(x))
)
digamma.widens_halves = True
trigamma = polygamma_of(1)
gamma = composed("gamma", gamma_of, lambda t, y, x: mul(t, mul(y, digamma(x))))
lgamma = composed("lgamma", _lgamma, lambda t, y, x: mul(t, digamma(x)))
polygamma = composed(
    "polygamma",
    by_size(_polygamma, _polygamma_in_double),
    no_derivative("polygamma", "order"),
    lambda t, y, n, x: mul(t, polygamma(_next(n), x)),
    of_numbers=lambda n, x: (lambda _, x: polygamma_of(int(n))(x)) if n in _SUMS_OF_TERMS else None,
)


def _next(n: Any) -> Any:
    """The next order, known if that one is."""
    return n + 1 if type(n) is float else add(n, 1)


def _zeta_by_q(s: Any, q: Any) -> Any:
    """NaN for s < 1, as the sum itself."""
    return neg(mul(where(lt(s, 1), like(math.nan, s), s), zeta(_next(s), q)))


_zeta_grad = derivatives("zeta_grad", "s", _zeta_by_exponent, _zeta_by_q)
zeta_grad_s, zeta_grad_ss = map(_zeta_grad, ("s", "ss"))


def _without_sums_for_negative(positive: Callable[[Any, Any], Any], s: Any, q: Any) -> Any:
    """zeta(s, q), where there are no values for q < 0 but at the poles."""
    pole = where(eq(sub(q, floor(q)), 0), like(math.inf, q), like(math.nan, q))
    return where(lt(q, 0), pole, positive(s, q))


_zeta_of_few = by_size(
    *[
        functools.partial(_zeta, functools.partial(_without_sums_for_negative, f))
        for f in (_plain_zeta, double.zeta)
    ]
)


def _zeta_of_numbers(s: Any, q: Any) -> Any:
    """Whole exponents have sums of few terms; others have no values for negative numbers but at the poles."""
    if s is not None and s - 1 in _SUMS_OF_TERMS:
        n = int(s) - 1
        return lambda _, q: mul(polygamma_of(n)(q), -((-1) ** n) / math.factorial(n))
    return _zeta_of_few if (s is not None and s % 1 != 0) or (q is not None and q > 0) else None


zeta = composed(
    "zeta",
    by_size(
        functools.partial(_zeta, functools.partial(_zeta_of_reals, positive=_plain_zeta, direct=False)),
        functools.partial(_zeta, functools.partial(_zeta_of_reals, positive=double.zeta, direct=True)),
    ),
    lambda t, y, s, q: mul(t, zeta_grad_s(s, q)),
    lambda t, y, s, q: mul(t, _zeta_by_q(s, q)),
    of_numbers=_zeta_of_numbers,
)
