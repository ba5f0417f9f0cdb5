"""Quotients of values of the gamma function, without overflow, and without the cancellation of large logarithms.

    poch(z, m)          Gamma(z + m) / Gamma(z)
    far_quotient(z, m)  the same in two factors, for large z and z + m
    deviance(x, mean)   x log(x / mean) + mean - x, which is left of the exponents of large powers

What the rounding of a sum z + m loses is put back by Gamma's derivative. Read next: `beta.py` and `special.py`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from didax.primitives import gamma_in_double as double
from didax.primitives.composed import composed, like, polynomial, repeat, where_usable
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
    is_finite,
    le,
    log,
    log1p,
    lt,
    max_,
    mul,
    ne,
    neg,
    not_,
    or_,
    pow_,
    round_,
    sin,
    square,
    sub,
)
from didax.primitives.gamma import (
    STIRLING,
    digamma,
    gamma_of,
    gamma_sign,
    lgamma,
    mirrored,
    polygamma_from,
    polygamma_of,
    polygamma_terms,
    stirling,
)
from didax.primitives.gamma_in_double import EULER_MACLAURIN, parity
from didax.primitives.narrow import by_size, in_float64, is_single
from didax.primitives.select import where


def sum_and_error(x: Any, y: Any) -> tuple[Any, Any]:
    """x + y, and what its rounding has lost (Dekker, 1971).

    The operands are chosen by size, because XLA makes x of (1 + x) - 1, where 1 is a constant.
    """
    total, x_is_more = add(x, y), gt(abs_(x), abs_(y))
    lost = sub(where(x_is_more, y, x), sub(total, where(x_is_more, x, y)))
    return total, where(is_finite(lost), lost, like(0, x))


def correction(total: Any, lost: Any) -> Any:
    """Gamma(total + lost) / Gamma(total), where `lost` is below the last digit of `total`; also near a pole."""
    large = gt(total, 1)
    safe = where(large, total, like(1, total))
    distance = sub(total, round_(total, rounding_method=RoundingMethod.TO_NEAREST_EVEN))
    near_pole = and_(lt(total, 0), and_(ne(distance, 0), ne(lost, 0)))
    other = where(near_pole, div(distance, add(distance, lost)), like(1, total))
    return where(large, add(mul(lost, sub(log(safe), div(0.5, safe))), 1), other)


def is_pole(x: Any) -> Any:
    """Whether Gamma has a pole at x: at 0 and the whole numbers below it."""
    return and_(and_(le(x, 0), eq(x, floor(x))), gt(x, -math.inf))


def _poch(z: Any, m: Any) -> Any:
    if is_single(z):
        return in_float64(lambda z, m: _poch_at_poles(z, m, _quotient_in_double))(z, m)
    return _poch_at_poles(z, m, _quotient)


def _poch_at_poles(z: Any, m: Any, quotient: Any) -> Any:
    """Gamma(z + m) / Gamma(z), by `quotient`, a function of numerator, denominator, m, and what z + m has lost."""
    total, lost = sum_and_error(z, m)
    from_pole, to_pole = is_pole(z), and_(is_pole(total), eq(lost, floor(lost)))
    mirrored = and_(from_pole, to_pole)  # (-3)(-2) = poch(-3, 2) is (-1)^2 poch(2, 2)
    over, under = where(mirrored, sub(1, z), total), where(mirrored, sub(1, total), z)
    value = quotient(over, under, m, where(mirrored, like(0, z), lost))
    value = where(mirrored, mul(value, parity(m)), value)
    value = where(and_(from_pole, not_(to_pole)), like(0, z), value)
    value = where(and_(to_pole, not_(or_(from_pole, eq(total, m)))), like(math.inf, z), value)
    value = where(eq(m, 0), like(1, z), value)
    return where(eq(total, total), value, like(math.nan, z))


def _quotient_in_double(over: Any, under: Any, m: Any, lost: Any) -> Any:
    sign, size = double.poch(over, under, m, lost)
    return mul(sign, double.value_of(size))


def _quotient(over: Any, under: Any, m: Any, lost: Any) -> Any:
    def otherwise(over: Any, under: Any, m: Any) -> Any:
        signs = mul(gamma_sign(over), gamma_sign(under))
        direct = mul(signs, exp(sub(lgamma(over), lgamma(under))))
        far = far_quotient(under, m)
        return where(far.usable, mul(mul(far.factor, far.root), far.root), direct)

    # Beside a pole to which the sum was rounded Gamma(-n + lost) is (-1)^n / (n! lost).
    beside = and_(is_pole(over), ne(lost, 0))
    above = gamma_of(where(beside, sub(1, over), over))
    above = where(beside, div(parity(over), mul(above, where(beside, lost, like(1, over)))), above)
    value = mul(div(above, gamma_of(under)), correction(over, lost))
    other = where_usable(value, otherwise, over, under, m)
    return where(and_(beside, eq(value, 0)), value, other)


class FarQuotient(NamedTuple):
    """Gamma(z + m) / Gamma(z) = factor * root^2, or 1 / that, where it is usable; the root does not overflow."""

    usable: Any
    factor: Any
    root: Any


def far_quotient(z: Any, m: Any, inverse: bool = False) -> FarQuotient:
    """By Stirling's series, where z and z + m are above 10; where both are below -10, by reflection.

    There Gamma(z + m) / Gamma(z) = sin(pi z) / sin(pi (z + m)) Gamma(1 - z) / Gamma(1 - z - m).
    """
    total, lost = sum_and_error(z, m)
    usable = or_(and_(ge(z, 10), ge(total, 10)), and_(le(z, -10), le(total, -10)))
    left = and_(usable, lt(z, 0))
    root = _root_of_quotient(where(left, sub(1, total), z), m, inverse)
    sines = [_sine_of_turns(z, like(0, z)), _sine_of_turns(total, lost)]
    over, under = reversed(sines) if inverse else sines
    return FarQuotient(usable, where(left, div(over, under), like(1, z)), root)


def _sine_of_turns(x: Any, lost: Any) -> Any:
    """sin(pi (x + lost))."""
    whole = round_(x, rounding_method=RoundingMethod.TO_NEAREST_EVEN)
    return mul(sin(mul(add(sub(x, whole), lost), math.pi)), parity(whole))


def _root_of_quotient(z: Any, m: Any, inverse: bool) -> Any:
    """The root of Gamma(z + m) / Gamma(z) for z >= 10 and z + m >= 10, or 1 over it.

    It is not for the caller to divide by: XLA makes x / root / root x / (root * root), which overflows.
    """
    safe = where(ge(z, 10), z, like(10, z))
    more = where(and_(ge(z, 10), ge(add(z, m), 10)), m, like(0, z))
    total, ratio = add(safe, more), div(more, safe)
    bend = add(mul(safe, minus_log1p(ratio)), mul(log1p(ratio), 0.5))
    exponent = sub(sub(stirling(total), stirling(safe)), bend)
    half = -0.5 if inverse else 0.5
    power = pow_(total, mul(more, half))
    return where(or_(eq(power, math.inf), eq(power, 0)), power, mul(power, exp(mul(exponent, half))))


def artanh_series(square: Any, first: int = 1) -> Any:
    """1 / first + z / (first + 2) + z^2 / (first + 4) + ..., for squares z <= 1/9: artanh(r) is r times that of r^2."""
    terms = 8 if is_single(square) else 17
    return polynomial(square, [1 / n for n in range(first, first + 2 * terms, 2)])


def small_bend(m: Any) -> Any:
    """m - log(1 + m) without cancellation, for |m| <= 1/2: log(1 + m) = 2 artanh(r) with r = m / (2 + m)."""
    r = div(m, add(m, 2))
    return sub(mul(m, r), mul(mul(2, mul(r, square(r))), artanh_series(square(r), 3)))


def minus_log1p(m: Any) -> Any:
    """m - log(1 + m)."""
    near = lt(abs_(m), 0.5)
    return where(near, small_bend(where(near, m, like(0, m))), sub(m, log1p(m)))


def divided_difference(u: Any, v: Any, coefficients: Sequence[float]) -> tuple[Any, Any]:
    """p(v) and (p(u) - p(v)) / (u - v), for p(u) = c0 + c1 u + c2 u^2 + ..., by Horner's scheme."""
    value, difference = like(coefficients[-1], u), like(0, u)
    for c in coefficients[-2::-1]:
        difference = add(mul(difference, u), value)
        value = add(mul(value, v), c) if c else mul(value, v)
    return value, difference


def deviance(x: Any, mean: Any, excess: Any = None, drop: int = 0) -> Any:
    """(x - drop) log(x / mean) + mean - x of positive numbers, without cancellation where they are near.

    `excess` is x - mean, where it is known to more digits than the two numbers tell; `drop` is 0 or 1.
    """
    excess = sub(x, mean) if excess is None else excess
    v = neg(div(excess, x))
    near = lt(abs_(v), 0.5)
    v = where(near, v, like(0, x))
    close = mul(x, small_bend(v))
    close = add(close, log1p(v)) if drop else close
    apart = where(near, mul(x, 2), mean)
    return where(near, close, sub(mul(sub(x, drop) if drop else x, log(div(x, apart))), excess))


def rise_of_gamma(x: Any, rise: Any) -> tuple[Any, Any]:
    """y and z with Gamma(x + rise) / Gamma(x) = exp(y) / (1 + z): multiples of `rise` up to their last digits.

    For positive arguments. By the recurrence up to 10, from there on by Stirling's series and its divided differences.
    """
    low, one = lt(x, 10), like(1, x)
    start = where(low, x, one)

    def step(k: Any, product: Any) -> Any:
        share = div(rise, add(start, k))
        return add(add(product, share), mul(product, share))

    product = repeat(step, like(0, x), lambda k: lt(k, 10))
    far = where(low, add(x, 10), x)
    total = add(far, rise)
    u, v = div(1, total), div(1, far)
    _, difference = divided_difference(u, v, [0, *[y for c in STIRLING for y in (c, 0)]])
    slope = sub(sub(log(far), 1), mul(mul(u, v), difference))
    exponent = add(mul(rise, slope), mul(sub(total, 0.5), log1p(mul(rise, v))))
    return exponent, where(low, product, like(0, x))


def _drop_in_double(a: Any, b: Any) -> Any:
    positive = and_(gt(a, 0), gt(add(a, b), 0))
    drop = neg(double.digamma_rise(*[where(positive, x, like(1, x)) for x in (a, b)]))
    return where(positive, drop, sub(double.digamma(a), double.digamma(add(a, b))))


def _mirrored_drop(drop: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """digamma(a) - digamma(a + b), for negative a and a + b by `drop` and the difference of pi cot(pi x).

    That is pi sin(pi b) / (sin(pi a) sin(pi (a + b))), 0 where both are poles, and NaN where one of them is.
    """

    def apply(a: Any, b: Any) -> Any:
        total, lost = sum_and_error(a, b)
        negative = and_(le(a, 0), le(total, 0))
        value = drop(where(negative, sub(1, total), a), b)
        sines = [_sine_of_turns(x, y) for x, y in ((b, like(0, b)), (a, like(0, a)), (total, lost))]
        cotangents = mul(mul(div(sines[0], sines[1]), div(1, sines[2])), math.pi)
        of_a, of_total = eq(sines[1], 0), eq(sines[2], 0)
        cotangents = where(or_(of_a, of_total), like(math.nan, a), cotangents)
        mirrored = neg(add(value, where(and_(of_a, of_total), like(0, a), cotangents)))
        return where(and_(negative, lt(max_(abs_(a), abs_(total)), math.inf)), mirrored, value)

    return apply


def _between_poles(n: int, drop: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A difference of polygamma functions, also where a and a + b are both poles: by those at 1 - a and 1 - a - b."""

    def apply(a: Any, b: Any) -> Any:
        total, lost = sum_and_error(a, b)
        poles = and_(and_(is_pole(a), is_pole(total)), eq(lost, 0))
        value = drop(where(poles, sub(1, total), a), b)
        return where(poles, value if n % 2 else neg(value), value)

    return apply


def _drop_of_digamma(a: Any, b: Any) -> Any:
    """digamma(a) - digamma(a + b), which keeps its digits for small b, too.

    For positive arguments by differences of digamma's recurrence up to 10, and from there on of its asymptotic series,
    each of which is a multiple of b: of powers u^k - v^k by their divided differences.
    """
    positive = and_(gt(a, 0), gt(add(a, b), 0))
    start, more = where(positive, a, like(10, a)), where(positive, b, like(1, a))
    end = add(start, more)
    low = or_(lt(start, 10), lt(end, 10))
    steps = like(0, a)
    for k in range(10):
        steps = add(steps, div(div(more, add(start, k)), add(end, k)))
    large, total = where(low, add(start, 10), start), where(low, add(end, 10), end)
    share = div(div(more, large), total)
    u, v = square(div(1, large)), square(div(1, total))
    # log(x) - 1 / (2 x) - digamma(x) = 1 / (12 x^2) - 1 / (120 x^4) + ..., for x >= 10
    series = [c * math.factorial(2 * k + 1) for k, c in enumerate(EULER_MACLAURIN[:8])]
    _, difference = divided_difference(u, v, [0, *series])
    rest = mul(difference, mul(share, add(div(1, large), div(1, total))))
    series = add(add(log1p(div(more, large)), mul(share, 0.5)), rest)
    drop = neg(where(low, add(steps, series), series))
    other = where(positive, like(1, a), a)
    return where(positive, drop, sub(digamma(other), digamma(where(positive, like(1, a), add(a, b)))))


def _drop_of_polygamma(n: int, single: bool, a: Any, b: Any) -> Any:
    """polygamma(n, a) - polygamma(n, a + b) for n > 0, which keeps its digits for small b, too.

    For positive arguments both are sums of polynomials of inverses, whose differences are multiples of b.
    """
    total = add(a, b)
    positive = and_(gt(a, 0), gt(total, 0))
    start, end = mirrored(a), mirrored(total)
    more = where(positive, b, sub(end, start))
    drop, of_end = like(0, a), like(0, a)
    for k, p in polygamma_terms(n, single):
        u, v = div(1, add(start, k)), div(1, add(end, k))
        value, difference = divided_difference(u, v, p)
        distance = where(eq(v, 0), u, mul(mul(more, u), v))
        drop, of_end = add(drop, mul(distance, difference)), add(of_end, value)
    other = sub(polygamma_from(n, single, a, add(of_end, drop)), polygamma_from(n, single, total, of_end))
    return where(positive, drop if n % 2 else neg(drop), other)


_DROPS = (_drop_of_digamma, _drop_in_double)


@functools.cache
def _polygamma_drop(n: int) -> Any:
    """polygamma(n, a) - polygamma(n, a + b) as an operation: the n-th derivative of `digamma_drop` by `a`."""
    formulas = [functools.partial(_drop_of_polygamma, n, single) for single in (False, True)]
    formulas = [_between_poles(n, f) for f in formulas] if n else [_mirrored_drop(f) for f in _DROPS]
    return composed(
        ("digamma_drop", "trigamma_drop")[n] if n < 2 else f"polygamma_drop_{n}",
        by_size(*formulas),
        lambda t, y, a, b: mul(t, _polygamma_drop(n + 1)(a, b)),
        lambda t, y, a, b: neg(mul(t, polygamma_of(n + 1)(add(a, b)))),
    )


digamma_drop, trigamma_drop = map(_polygamma_drop, range(2))
poch = composed(
    "poch",
    _poch,
    lambda t, y, z, m: neg(mul(t, mul(y, digamma_drop(z, m)))),
    lambda t, y, z, m: mul(t, mul(y, digamma(add(z, m)))),
)
