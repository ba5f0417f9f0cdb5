"""The gamma function, and quotients of its values.

    gamma(x)    Gamma(x), of either sign
    poch(z, m)  Gamma(z + m) / Gamma(z)

exp(lgamma(x)) would lose as many digits as lgamma(x) is large. Here Gamma(n + z), with z the distance to the nearest
integer, is a product of n - 1 exact factors and of Gamma(1 + z), whose reciprocal is an entire function; from 9.5 on it
is Stirling's x^(x - 1/2) exp(-x) of the exact x. What the rounding of a sum loses is put back by Gamma's derivative.
Read next: `beta.py` and `special.py`, which use this.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from didax.core.avals import aval_of
from didax.primitives.composed import composed, like, polynomial, where_usable
from didax.primitives.elementwise import (
    RoundingMethod,
    abs_,
    add,
    and_,
    digamma,
    div,
    eq,
    exp,
    floor,
    ge,
    gt,
    is_finite,
    le,
    lgamma,
    log,
    log1p,
    lt,
    mul,
    ne,
    neg,
    not_,
    or_,
    pow_,
    round_,
    sign,
    sin,
    square,
    sub,
)
from didax.primitives.select import where

# 1 / Gamma(1 + z) in powers of z.
_RECIPROCAL = (
    1.0, 0.5772156649015329, -0.6558780715202539, -0.04200263503409524, 0.16653861138229148,
    -0.04219773455554433, -0.009621971527876973, 0.0072189432466631, -0.0011651675918590652,
    -0.00021524167411495098, 0.0001280502823881162, -2.013485478078824e-05, -1.2504934821426706e-06,
    1.133027231981696e-06, -2.056338416977607e-07, 6.116095104481416e-09, 5.002007644469223e-09,
    -1.18127457048702e-09, 1.0434267116911005e-10, 7.782263439905071e-12, -3.696805618642206e-12,
)  # fmt: skip
_STIRLING = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156]

# --- The gamma function -------------------------------------------------------------------------------------


def gamma_of(x: Any) -> Any:
    """Gamma(x); NaN at the negative integers, where its sign is not known."""
    size = abs_(x)
    whole = round_(size, rounding_method=RoundingMethod.TO_NEAREST_EVEN)
    z = sub(size, whole)
    value = where(ge(size, 9.5), _by_stirling(size), _by_product(size, whole, z))
    sine = mul(sin(mul(z, math.pi)), _parity(whole))
    mirrored = div(-math.pi, mul(mul(sine, value), size))
    mirrored = where(eq(z, 0), like(math.nan, x), mirrored)
    return where(eq(x, 0), div(1, x), where(lt(x, 0), mirrored, value))


def _by_product(x: Any, whole: Any, z: Any) -> Any:
    """For 0 < x < 9.5, where x - k has no rounding error."""
    one = like(1, x)
    product = one
    for k in range(1, 9):
        product = mul(product, where(gt(whole, k), sub(x, k), one))
    terms = _RECIPROCAL[: 13 if aval_of(x).dtype == np.float32 else 21]
    return div(product, mul(polynomial(z, terms), where(eq(whole, 0), x, one)))


def _by_stirling(x: Any) -> Any:
    """For x >= 9.5. The power is the square of one that does not overflow."""
    end = 40 if aval_of(x).dtype == np.float32 else 180  # Gamma has overflown there
    x = where(lt(x, end), x, like(end, x))
    root = pow_(x, sub(mul(x, 0.5), 0.25))
    return mul(mul(mul(exp(neg(x)), root), mul(exp(stirling(x)), math.sqrt(2 * math.pi))), root)


def stirling(x: Any) -> Any:
    """log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), for x >= 9.5."""
    inverse = div(1, x)
    terms = _STIRLING[: 3 if aval_of(x).dtype == np.float32 else 7]
    return mul(inverse, polynomial(square(inverse), terms))


def _parity(whole: Any) -> Any:
    half = mul(whole, 0.5)
    return where(ne(floor(half), half), like(-1, whole), like(1, whole))


def gamma_sign(x: Any) -> Any:
    """The sign of Gamma(x); NaN at the negative integers."""
    whole = floor(x)
    signed = where(lt(x, 0), _parity(whole), where(eq(x, x), like(1, x), x))
    signed = where(and_(lt(x, 0), eq(x, whole)), like(math.nan, x), signed)
    return where(eq(x, 0), sign(div(1, x)), signed)


gamma = composed("gamma", gamma_of, lambda t, y, x: mul(t, mul(y, digamma(x))))

# --- Quotients ----------------------------------------------------------------------------------------------


def sum_and_error(x: Any, y: Any) -> tuple[Any, Any]:
    """x + y, and what its rounding has lost (Knuth, The Art of Computer Programming, 4.2.2)."""
    total = add(x, y)
    seen = sub(total, x)
    lost = add(sub(x, sub(total, seen)), sub(y, seen))
    return total, where(is_finite(lost), lost, like(0, x))


def correction(total: Any, lost: Any) -> Any:
    """Gamma(total + lost) / Gamma(total), where `lost` is below the last digit of `total`; also near a pole."""
    large = gt(total, 1)
    safe = where(large, total, like(1, total))
    distance = sub(total, round_(total, rounding_method=RoundingMethod.TO_NEAREST_EVEN))
    near_pole = and_(lt(total, 0), and_(ne(distance, 0), ne(lost, 0)))
    other = where(near_pole, div(distance, add(distance, lost)), like(1, total))
    return where(large, add(mul(lost, sub(log(safe), div(0.5, safe))), 1), other)


def _is_pole(x: Any) -> Any:
    return and_(and_(le(x, 0), eq(x, floor(x))), gt(x, -math.inf))


def _poch(z: Any, m: Any) -> Any:
    total, lost = sum_and_error(z, m)
    from_pole, to_pole = _is_pole(z), _is_pole(total)
    mirrored = and_(from_pole, to_pole)  # (-3)(-2) = poch(-3, 2) is (-1)^2 poch(2, 2)
    over, under = where(mirrored, sub(1, z), total), where(mirrored, sub(1, total), z)
    value = mul(div(gamma_of(over), gamma_of(under)), where(mirrored, like(1, z), correction(total, lost)))

    def otherwise(over: Any, under: Any, m: Any) -> Any:
        signs = mul(gamma_sign(over), gamma_sign(under))
        direct = mul(signs, exp(sub(lgamma(over), lgamma(under))))
        return where(and_(ge(under, 10), ge(over, 10)), square(root_of_quotient(under, m)), direct)

    value = where_usable(value, otherwise, over, under, m)
    value = where(mirrored, mul(value, _parity(m)), value)
    value = where(and_(from_pole, not_(to_pole)), like(0, z), value)
    value = where(and_(to_pole, not_(or_(from_pole, eq(total, m)))), like(math.inf, z), value)
    return where(eq(m, 0), like(1, z), value)


def root_of_quotient(z: Any, m: Any) -> Any:
    """The root of Gamma(z + m) / Gamma(z) by Stirling's series, for z >= 10 and z + m >= 10: it does not overflow."""
    safe = where(ge(z, 10), z, like(10, z))
    more = where(and_(ge(z, 10), ge(add(z, m), 10)), m, like(0, z))
    total, ratio = add(safe, more), div(more, safe)
    bend = add(mul(safe, minus_log1p(ratio)), mul(log1p(ratio), 0.5))
    exponent = sub(sub(stirling(total), stirling(safe)), bend)
    power = pow_(total, mul(more, 0.5))
    return where(eq(power, math.inf), power, mul(power, exp(mul(exponent, 0.5))))


def minus_log1p(m: Any) -> Any:
    """m - log(1 + m), without cancellation near 0: there log(1 + m) = 2 artanh(r) with r = m / (2 + m)."""
    near = lt(abs_(m), 0.5)
    small = where(near, m, like(0, m))
    r = div(small, add(small, 2))
    tail = polynomial(square(r), [1 / n for n in range(3, 35, 2)])
    return where(near, sub(mul(small, r), mul(mul(2, mul(r, square(r))), tail)), sub(m, log1p(m)))


def digamma_drop(a: Any, b: Any) -> Any:
    """digamma(a) - digamma(a + b); for large a by the difference of its asymptotic series, term by term."""
    far = and_(ge(a, 10), gt(b, 0))
    large, more = where(far, a, like(10, a)), where(far, b, like(1, a))
    total = add(large, more)
    half = mul(div(more, mul(large, total)), 0.5)
    series = neg(add(add(log1p(div(more, large)), half), sub(_digamma_rest(large), _digamma_rest(total))))
    near = where(far, like(1, a), a)
    return where(far, series, sub(digamma(near), digamma(add(near, b))))


def _digamma_rest(x: Any) -> Any:
    """log(x) - 1 / (2 x) - digamma(x), for x >= 10."""
    inverse = square(div(1, x))
    return mul(inverse, polynomial(inverse, [1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760]))


poch = composed(
    "poch",
    _poch,
    lambda t, y, z, m: neg(mul(t, mul(y, digamma_drop(z, m)))),
    lambda t, y, z, m: mul(t, mul(y, digamma(add(z, m)))),
)
