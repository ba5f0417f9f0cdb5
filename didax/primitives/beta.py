"""The beta function's logarithm and the regularised incomplete beta function.

    betaln(a, b)      log(Gamma(a) Gamma(b) / Gamma(a + b)), without cancellation for large arguments
    betainc(a, b, x)  I_x(a, b), the distribution function of Beta(a, b)

With W = x^a (1 - x)^b / (a B(a, b)), I_x(a, b) = W / (1 + d1/(1 + d2/(1 + ...))) (Abramowitz and Stegun, 26.5.8), which
converges fast for x < (a + 1) / (a + b + 2); elsewhere I_x(a, b) = 1 - I_(1-x)(b, a). Derivatives by a and b are not
known. Read next: `special.py`, whose loop this uses.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from didax.core import dtypes
from didax.core.avals import aval_of
from didax.primitives.composed import composed, iterate, like, where_usable
from didax.primitives.elementwise import (
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
    min_,
    mul,
    ne,
    neg,
    no_derivative,
    not_,
    or_,
    pow_,
    sub,
)
from didax.primitives.gamma import gamma_of, gamma_sign, lgamma, parity, stirling
from didax.primitives.gamma_quotients import (
    correction,
    deviance,
    digamma_drop,
    far_quotient,
    is_pole,
    sum_and_error,
)
from didax.primitives.select import where


def _log_of_beta(a: Any, b: Any) -> Any:
    """log|B(a, b)|. The leading terms of Stirling's series are combined before they could cancel."""
    a, b = min_(a, b), max_(a, b)
    total = add(a, b)
    near = sub(add(lgamma(a), lgamma(b)), lgamma(total))
    b_large, a_large = and_(ge(b, 10), ge(total, 10)), ge(a, 10)
    small, large = where(b_large, a, like(1, a)), where(b_large, b, like(10, a))
    bend = mul(sub(large, 0.5), log1p(div(small, large)))
    sum_ = add(small, large)
    rest = sub(sub(stirling(large), stirling(sum_)), bend)
    mixed = add(add(lgamma(a), sub(small, mul(small, log(sum_)))), rest)
    both = where(a_large, small, like(10, a))
    halves = sub(stirling(both), mul(sub(log(both), math.log(2 * math.pi)), 0.5))
    far = add(add(mul(both, log(div(both, add(both, large)))), halves), rest)
    inside = where(b_large, where(a_large, far, mixed), near)
    return where(and_(eq(b, math.inf), ge(a, 0)), like(-math.inf, a), inside)


def _betaln(a: Any, b: Any) -> Any:
    a, b, _, limit = _from_poles(a, b)
    return where(eq(limit, 1), _log_of_beta(a, b), log(limit))


def _from_poles(a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
    """Arguments of the same beta function away from poles of Gamma, its sign, and its limit 0 or inf, or 1 for none.

    Where a and a + b are poles but b is not, B(a, b) is (-1)^b B(1 - a - b, b), whose factors are finite.
    """
    a, b = min_(a, b), max_(a, b)
    total, lost = sum_and_error(a, b)
    pole, vanishes = or_(is_pole(a), is_pole(b)), and_(is_pole(total), eq(lost, floor(lost)))
    mirrored = and_(and_(is_pole(a), vanishes), and_(gt(b, 0), eq(b, floor(b))))
    sign = where(mirrored, parity(b), like(1, a))
    limit = where(and_(pole, not_(mirrored)), like(math.inf, a), like(1, a))
    limit = where(and_(vanishes, not_(pole)), like(0, a), limit)
    return where(mirrored, sub(sub(1, a), b), a), b, sign, limit


def _by_gammas(a: Any, b: Any) -> Any:
    """Gamma(a) Gamma(b) / Gamma(a + b), which is 0, infinite or NaN where a factor has overflown or vanished."""
    total, lost = sum_and_error(a, b)
    small, large, below = gamma_of(min_(a, b)), gamma_of(max_(a, b)), gamma_of(total)
    return div(mul(div(large, below), small), correction(total, lost))


def _beta(a: Any, b: Any) -> Any:
    def otherwise(a: Any, b: Any) -> Any:
        a, b, sign, limit = _from_poles(a, b)
        a_is_small = lt(abs_(a), abs_(b))
        small, large = where(a_is_small, a, b), where(a_is_small, b, a)
        head, far = gamma_of(small), far_quotient(large, small, inverse=True)
        is_head = and_(and_(is_finite(head), ne(head, 0)), far.usable)
        signs = mul(mul(gamma_sign(a), gamma_sign(b)), gamma_sign(add(a, b)))
        value = where(
            is_head, mul(mul(mul(head, far.factor), far.root), far.root), mul(signs, exp(_log_of_beta(a, b)))
        )
        return where(eq(limit, 1), mul(sign, value), limit)

    return where_usable(_by_gammas(a, b), otherwise, a, b)


beta = composed(
    "beta",
    _beta,
    lambda t, y, a, b: mul(t, mul(y, digamma_drop(a, b))),
    lambda t, y, a, b: mul(t, mul(y, digamma_drop(b, a))),
)
betaln = composed(
    "betaln",
    _betaln,
    lambda t, y, a, b: mul(t, digamma_drop(a, b)),
    lambda t, y, a, b: mul(t, digamma_drop(b, a)),
)


class _Fraction(NamedTuple):
    n: Any
    c: Any
    d: Any
    h: Any
    change: Any


def _fraction(a: Any, b: Any, x: Any) -> Any:
    """1 / (1 + d1/(1 + ...)) by Lentz's method, two of its terms a step."""

    def nonzero(y: Any) -> Any:
        return where(eq(y, 0), like(float(dtypes.finfo(aval_of(x).dtype).tiny), x), y)

    def term(s: _Fraction, numerator: Any) -> _Fraction:
        d = div(1, nonzero(add(mul(numerator, s.d), 1)))
        c = nonzero(add(div(numerator, s.c), 1))
        return _Fraction(s.n, c, d, mul(s.h, mul(c, d)), sub(mul(c, d), 1))

    def step(s: _Fraction) -> _Fraction:
        n, twice = s.n, add(a, mul(s.n, 2))
        odd = neg(mul(div(add(a, n), twice), mul(div(add(add(a, b), n), add(twice, 1)), x)))
        n = add(n, 1)
        even = mul(mul(div(n, add(twice, 1)), div(sub(b, n), add(twice, 2))), x)
        return term(term(s, odd), even)._replace(n=n)

    def moves(s: _Fraction) -> Any:
        return not_(le(abs_(s.change), 2 * float(dtypes.finfo(aval_of(x).dtype).eps)))

    one = like(1, x)
    last = iterate(step, moves, _Fraction(like(0, x), one, like(0, x), one, one))
    return where(moves(last), like(math.nan, x), div(1, last.h))


def _betainc(a: Any, b: Any, x: Any) -> Any:
    inside = and_(
        and_(gt(x, 0), lt(x, 1)), and_(and_(gt(a, 0), lt(a, math.inf)), and_(gt(b, 0), lt(b, math.inf)))
    )
    a0, b0 = a, b
    a, b, x0 = [where(inside, y, like(0.5, x)) for y in (a, b, x)]
    swap = gt(x0, div(add(a, 1), add(add(a, b), 2)))
    p, q = where(swap, b, a), where(swap, a, b)
    y = where(swap, sub(1, x0), x0)
    weight = div(_weight(a, b, x0), p)
    # Its first convergents cancel like this for x near the mean, until no digit would be right.
    lost = lt(sub(1, mul(y, div(add(p, q), add(p, 1)))), 10 * float(dtypes.finfo(aval_of(x).dtype).eps))
    value = where(lost, like(math.nan, x), mul(weight, _fraction(p, q, y)))
    value = where(eq(weight, 0), weight, value)
    value = where(swap, max_(sub(1, value), like(0, x)), value)
    zero, one = like(0, x), like(1, x)
    at_zero, at_one = or_(eq(a0, 0), eq(b0, math.inf)), or_(eq(b0, 0), eq(a0, math.inf))  # all of the mass
    end = or_(eq(x, 0), eq(x, 1))
    edge = where(end, x, where(at_zero, one, zero))
    known = and_(or_(end, or_(at_zero, at_one)), not_(and_(at_zero, at_one)))
    valid = and_(and_(ge(a0, 0), ge(b0, 0)), and_(known, and_(ge(x, 0), le(x, 1))))
    edge = where(valid, edge, like(math.nan, x))
    return where(inside, value, edge)


def _weight(a: Any, b: Any, x: Any, drop: int = 0) -> Any:
    """x^(a - drop) (1 - x)^(b - drop) / B(a, b), by its factors where none of them overflows, for 0 < x < 1."""
    rest, lost = sum_and_error(like(1, x), neg(x))
    root = mul(pow_(x, mul(sub(a, drop), 0.5)), pow_(rest, mul(sub(b, drop), 0.5)))
    root = mul(root, exp(mul(mul(sub(b, drop), 0.5), div(lost, rest))))

    def by_logarithms(a: Any, b: Any, x: Any) -> Any:
        logs = add(log(x), log1p(neg(x)))
        direct = sub(add(mul(a, log(x)), mul(b, log1p(neg(x)))), _log_of_beta(a, b))
        large = and_(ge(a, 10), ge(b, 10))
        m, n = where(large, a, like(10, a)), where(large, b, like(10, b))
        total = add(m, n)
        away = add(deviance(m, mul(total, x)), deviance(n, mul(total, sub(1, x))))
        rest = sub(stirling(total), add(stirling(m), stirling(n)))
        by_deviance = add(sub(rest, away), mul(log(mul(mul(m, div(n, total)), 0.5 / math.pi)), 0.5))
        return exp(sub(where(large, by_deviance, direct), mul(logs, drop)))

    return where_usable(mul(div(root, _by_gammas(a, b)), root), by_logarithms, a, b, x)


def _density(a: Any, b: Any, x: Any) -> Any:
    """The density of Beta(a, b), also at the ends."""
    inside = and_(gt(x, 0), lt(x, 1))
    within = _weight(a, b, where(inside, x, like(0.5, x)), drop=1)
    power, other = where(eq(x, 0), a, b), where(eq(x, 0), b, a)
    at_end = where(eq(power, 1), other, where(lt(power, 1), like(math.inf, x), like(0, x)))
    return where(inside, within, where(ge(mul(x, sub(1, x)), 0), at_end, like(math.nan, x)))


def _density_slope(y: Any, a: Any, b: Any, x: Any) -> Any:
    """The derivative by x of the density, which is `y`."""
    inside = and_(gt(x, 0), lt(x, 1))
    safe = where(inside, x, like(0.5, x))
    within = mul(y, sub(div(sub(a, 1), safe), div(sub(b, 1), sub(1, safe))))
    power, other = where(eq(x, 0), a, b), where(eq(x, 0), b, a)
    at_end = where(eq(power, 2), mul(other, add(other, 1)), like(0, x))
    at_end = where(eq(power, 1), neg(mul(other, sub(other, 1))), at_end)
    at_end = where(
        and_(gt(power, 1), lt(power, 2)), like(math.inf, x), where(lt(power, 1), like(-math.inf, x), at_end)
    )
    return where(inside, within, where(eq(x, 0), at_end, neg(at_end)))


beta_density = composed(
    "beta_density",
    _density,
    lambda t, y, a, b, x: mul(t, mul(y, sub(log(x), digamma_drop(a, b)))),
    lambda t, y, a, b, x: mul(t, mul(y, sub(log1p(neg(x)), digamma_drop(b, a)))),
    lambda t, y, a, b, x: mul(t, _density_slope(y, a, b, x)),
)
betainc = composed(
    "regularized_incomplete_beta",
    _betainc,
    no_derivative("betainc", "first parameter"),
    no_derivative("betainc", "second parameter"),
    lambda t, y, a, b, x: mul(t, beta_density(a, b, x)),
)
