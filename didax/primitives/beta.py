"""The beta function's logarithm and the regularised incomplete beta function.

    betaln(a, b)      log(Gamma(a) Gamma(b) / Gamma(a + b)), without cancellation for large arguments
    betainc(a, b, x)  I_x(a, b), the distribution function of Beta(a, b); betaincc(a, b, x) is 1 - I_x(a, b)

With W = x^a (1 - x)^b / B(a, b), I_x(a, b) = W / (a + a d1/(1 + d2/(1 + ...))) (Abramowitz and Stegun, 26.5.8), which
converges fast for x < (a + 1) / (a + b + 2); elsewhere I_x(a, b) = 1 - I_(1-x)(b, a). Every second convergent is that
of a fraction of a - (a + b) x, whose terms do not cancel near the mean. Derivatives by a and b are not known. Read
next: `special.py`, whose loop this uses.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from didax.core import dtypes
from didax.core.array_ops import instantiate
from didax.core.avals import aval_of
from didax.primitives import gamma_in_double as double
from didax.primitives.composed import (
    composed,
    derivatives,
    gauss_legendre,
    iterate,
    like,
    log_of_rest,
    repeat,
    slopes,
    where_needed,
    where_usable,
)
from didax.primitives.densities import SLOPES, binomial_factors, excess_over_mean, log_beta_density
from didax.primitives.elementwise import (
    abs_,
    add,
    and_,
    div,
    eq,
    exp,
    expm1,
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
    not_,
    or_,
    pow_,
    sqrt,
    square,
    sub,
)
from didax.primitives.gamma import gamma_of, gamma_sign, lgamma, reciprocal_less_1, stirling
from didax.primitives.gamma_in_double import parity
from didax.primitives.gamma_quotients import (
    correction,
    digamma_drop,
    far_quotient,
    is_pole,
    rise_of_gamma,
    small_bend,
    sum_and_error,
)
from didax.primitives.narrow import by_size, in_float64, is_single
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, reduce_sum_p
from didax.primitives.slicing import concatenate
from didax.transforms.jvp import jvp_flat


def _log_of_beta(a: Any, b: Any) -> Any:
    """log|B(a, b)|. The leading terms of Stirling's series are combined before they could cancel."""
    if is_single(a):
        return in_float64(_log_of_beta_in_double)(a, b)
    a, b = min_(a, b), max_(a, b)
    total = add(a, b)
    near = sub(add(lgamma(a), lgamma(b)), lgamma(total))
    b_large, a_large = and_(ge(b, 10), ge(total, 10)), ge(a, 10)
    small, large = where(b_large, a, like(1, a)), where(b_large, b, like(10, a))
    ratio, sum_ = div(small, large), add(small, large)
    vanishes = lt(abs_(ratio), float(dtypes.finfo(aval_of(a).dtype).tiny))  # then it may be rounded to 0
    bend = where(vanishes, small, mul(sub(large, 0.5), log1p(ratio)))
    rest = sub(sub(stirling(large), stirling(sum_)), bend)
    mixed = add(add(lgamma(a), sub(small, mul(small, log(sum_)))), rest)
    both = where(a_large, small, like(10, a))
    halves = sub(stirling(both), mul(sub(log(both), math.log(2 * math.pi)), 0.5))
    far = add(sub(halves, mul(both, log1p(div(large, both)))), rest)  # the sum of both may overflow
    inside = where(b_large, where(a_large, far, mixed), near)
    return where(and_(eq(b, math.inf), ge(a, 0)), like(-math.inf, a), inside)


def _betaln(a: Any, b: Any) -> Any:
    a, b, _, limit = _from_poles(a, b)
    return where(eq(limit, 1), _log_of_beta(a, b), log(abs_(limit)))


def _from_poles(a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
    """Arguments of the same |B(a, b)| away from poles of Gamma, the sign of B(a, b), its limit or 1 if it has none.

    Where a and a + b are poles but b is not, B(a, b) is (-1)^b B(1 - a - b, b), whose factors are finite.
    """
    a, b = min_(a, b), max_(a, b)
    total, lost = sum_and_error(a, b)
    pole, vanishes = or_(is_pole(a), is_pole(b)), and_(is_pole(total), eq(lost, floor(lost)))
    mirrored = and_(and_(is_pole(a), vanishes), and_(gt(b, 0), eq(b, floor(b))))
    sign = where(mirrored, parity(b), like(1, a))
    limit = where(and_(pole, not_(mirrored)), like(math.inf, a), like(1, a))
    limit = where(and_(vanishes, not_(pole)), like(0, a), limit)
    endless = or_(eq(a, -math.inf), and_(eq(b, math.inf), and_(lt(a, 0), not_(pole))))
    limit = where(endless, mul(parity(floor(a)), math.inf), limit)
    return where(mirrored, sub(sub(1, a), b), a), b, sign, limit


def _log_of_beta_in_double(a: Any, b: Any) -> Any:
    other = abs_(where(eq(a, 1), b, a))
    is_quotient = and_(or_(eq(a, 1), eq(b, 1)), and_(gt(other, 0), lt(other, math.inf)))  # B(1, b) = 1 / b
    power = double.beta(a, b)[1]
    factor = where(is_quotient, div(1, where(is_quotient, other, like(1, a))), power.factor)
    return double.logarithm_of(double.Power(factor, where(is_quotient, like(0, a), power.exponent)))


def _by_gammas(a: Any, b: Any) -> Any:
    """Gamma(a) Gamma(b) / Gamma(a + b), which is 0, infinite or NaN where a factor has overflown or vanished."""
    total, lost = sum_and_error(a, b)
    small, large, below = gamma_of(min_(a, b)), gamma_of(max_(a, b)), gamma_of(total)
    return div(mul(div(large, below), small), correction(total, lost))


def _beta(a: Any, b: Any) -> Any:
    if is_single(a):
        return in_float64(_beta_in_double)(a, b)

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


def _beta_in_double(a: Any, b: Any) -> Any:
    a, b, mirror, limit = _from_poles(a, b)
    sign, size = double.beta(a, b)
    return where(eq(limit, 1), mul(mul(mirror, sign), double.value_of(size)), limit)


beta = composed(
    "beta",
    _beta,
    lambda t, y, a, b: mul(t, mul(y, digamma_drop(a, b))),
    lambda t, y, a, b: mul(t, mul(y, digamma_drop(b, a))),
)


def _rise_of_ways(k: Any, rest: Any) -> Any:
    """digamma(rest + 1) - digamma(k + 1)."""
    drop = digamma_drop(add(min_(k, rest), 1), abs_(sub(k, rest)))
    return where(lt(k, rest), neg(drop), drop)


# Binomial coefficients, for 0 <= k <= n.
number_of_ways = composed(
    "number_of_ways",
    by_size(
        lambda n, k: div(1, mul(_beta(add(sub(n, k), 1), add(k, 1)), add(n, 1))),
        lambda n, k: double.value_of(double.number_of_ways(n, k)),
    ),
    lambda t, y, n, k: neg(mul(t, mul(y, digamma_drop(add(sub(n, k), 1), k)))),
    lambda t, y, n, k: mul(t, mul(y, _rise_of_ways(k, sub(n, k)))),
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


def _fraction(a: Any, b: Any, x: Any, y: Any, excess: Any) -> Any:
    """I_x(a, b) over its weight, with y = 1 - x, by every second convergent of the fraction, with Lentz's method.

    No step is taken for large parameters.
    """

    def step(s: _Fraction) -> _Fraction:
        return _Fraction(add(s.n, 1), *_fraction_step(s.n, a, b, x, y, excess, s.c, s.d, s.h))

    def moves(s: _Fraction) -> Any:
        change = sub(mul(s.c, s.d), 1)  # the relative change of h in the last step
        converged = le(abs_(change), 2 * float(dtypes.finfo(aval_of(x).dtype).eps))
        return not_(or_(converged, _large(a, b)))

    first = _fraction_start(a, excess)
    last = iterate(step, moves, _Fraction(0, first, like(0, x), first))
    return where(moves(last), like(math.nan, x), div(1, last.h))


def _fraction_start(a: Any, excess: Any) -> Any:
    return _nonzero(mul(div(a, add(a, 1)), add(excess, 1)))


def _fraction_step(
    n: Any, a: Any, b: Any, x: Any, y: Any, excess: Any, c: Any, d: Any, h: Any
) -> tuple[Any, Any, Any]:
    before, n = add(a, n), add(n, 1)  # of a small `a`, n - 1 leaves all digits
    once, twice = add(a, n), add(a, mul(n, 2))
    share = div(1, sub(twice, 1))
    bend = mul(mul(n, mul(sub(b, n), x)), share)
    shares = mul(mul(before, share), mul(add(before, b), x))
    more = mul(div(once, add(twice, 1)), add(add(excess, 1), mul(n, add(y, 1))))
    numerator, denominator = mul(shares, bend), add(add(n, bend), more)
    d = div(1, _nonzero(add(mul(numerator, d), denominator)))
    c = _nonzero(add(div(numerator, c), denominator))
    return c, d, mul(h, mul(c, d))


def _nonzero(y: Any) -> Any:
    return where(eq(y, 0), like(float(dtypes.finfo(aval_of(y).dtype).tiny), y), y)


class _SlopedFraction(NamedTuple):
    n: Any
    c: Any
    d: Any
    h: Any
    c_dot: Any
    d_dot: Any
    h_dot: Any


def _fraction_slope(at: list[Any], dots: list[Any]) -> tuple[Any, Any]:
    """`_fraction` and its derivative in a direction, both to their ends: for whole `b` the fraction ends earlier."""
    a, b, x, _, excess = at
    eps = 2 * float(dtypes.finfo(aval_of(x).dtype).eps)

    def step(s: _SlopedFraction) -> _SlopedFraction:
        along = [*dots, s.c_dot, s.d_dot, s.h_dot]
        new, new_dots = jvp_flat(lambda *xs: _fraction_step(s.n, *xs), [*at, s.c, s.d, s.h], along)
        return _SlopedFraction(add(s.n, 1), *new, *map(instantiate, new_dots))

    def moves(s: _SlopedFraction) -> Any:
        change, change_dot = sub(mul(s.c, s.d), 1), add(mul(s.c_dot, s.d), mul(s.c, s.d_dot))
        settled = le(abs_(change_dot), mul(add(abs_(div(s.h_dot, s.h)), 1), eps))
        return not_(or_(and_(le(abs_(change), eps), settled), _large(a, b)))

    (first,), (first_dot,) = jvp_flat(
        lambda a, excess: [_fraction_start(a, excess)], [a, excess], [dots[0], dots[4]]
    )
    zero = like(0, x)
    last = iterate(step, moves, _SlopedFraction(0, first, zero, first, first_dot, zero, first_dot))
    ratio = where(moves(last), like(math.nan, x), div(1, last.h))
    return ratio, neg(mul(mul(ratio, ratio), last.h_dot))


# Note [Large parameters of betainc]
# The fraction takes about sqrt(min(a, b)) steps near the mean. For large a and b the tail is integrated instead: with
# t = x (1 - (1 - x) g), 1 - t = (1 - x)(1 + x g), e = a - (a + b) x and m(z) = z - log(1 + z), I_x(a, b) over its
# weight is the integral from 0 on of exp(-e g - a m(-(1 - x) g) - b m(x g)) / ((1 - (1 - x) g) (1 + x g)) by g. Below
# the mean all of the exponent's terms have one sign. Gauss's quadrature is given the range where it is above -c.


def _large(a: Any, b: Any) -> Any:
    return gt(min_(a, b), 500)


def _quadrature(a: Any, b: Any, x: Any, y: Any, excess: Any) -> Any:
    """I_x(a, b) over its weight, with y = 1 - x, below the mean. See Note [Large parameters of betainc]."""
    c, count = (18, 12) if is_single(x) else (38, 24)
    curve = mul(sqrt(add(mul(mul(a, y), y), mul(mul(b, x), x))), math.sqrt(2 * c))
    slope = div(max_(excess, like(0, x)), curve)
    top = div(2 * c, mul(curve, add(slope, sqrt(add(square(slope), 1)))))
    top = min_(top, div(0.5, max_(x, y)))  # always above c for large a and b, except for rounding errors
    shape = aval_of(x).shape
    points, weights = gauss_legendre(count)

    def spread(x: Any) -> Any:
        return broadcast_in_dim(x, (*shape, count), tuple(range(len(shape))))

    def along(values: Any) -> Any:
        scalars = [scalar_like(float(value), aval_of(curve).dtype) for value in values]
        row = concatenate([broadcast_in_dim(value, (1,), ()) for value in scalars], 0)
        return broadcast_in_dim(row, (*shape, count), (len(shape),))

    a, b, x, y, excess, g = [spread(z) for z in (a, b, x, y, excess, top)]
    g = mul(g, along(points))
    down, up = mul(y, g), mul(x, g)
    exponent = add(mul(excess, g), add(mul(a, small_bend(neg(down))), mul(b, small_bend(up))))
    values = div(mul(exp(neg(exponent)), along(weights)), mul(sub(1, down), add(up, 1)))
    return mul(top, reduce_sum_p.bind(values, axes=(len(shape),)))


class _Tail(NamedTuple):
    """The share on the near side of the mean: over its weight, with the parameters of that; and if it is the upper."""

    a: Any
    b: Any
    ratio: Any
    is_upper: Any
    near_one: Any  # whether it leaves less than 1/2 to the other share, which subtraction would cancel
    log_share: Any  # its logarithm there


def _tail(a: Any, b: Any, x: Any, moderate: bool = False) -> _Tail:
    """For finite positive parameters and 0 < x < 1; neither is small or large if they are `moderate`."""
    # The sum of such parameters could overflow. The distribution is a point to the last digit, also of a part of them.
    vast = gt(min_(a, b), float(dtypes.finfo(aval_of(x).dtype).eps) ** -4)
    a, b = [where(vast, mul(y, 2.0**-30), y) for y in (a, b)]
    below, swap = _below_mean(a, b, x)
    if moderate:
        nowhere = ne(x, x)
        return _Tail(a, b, _fraction(*below), swap, nowhere, like(-1, x))
    ratio = where_needed(_large(a, b), _fraction(*below), _quadrature, *below)
    return _Tail(a, b, ratio, swap, *_near_one(*below[:3]))


def _near_one(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """Whether the share below x is more than 1/2 although x is below the mean, and its logarithm if it is."""
    small = _is_small(a, x)
    log_share = where_needed(small, like(-1, x), in_float64(_log_of_small), a, b, x)
    return and_(small, gt(log_share, -math.log(2))), log_share


def _is_small(a: Any, x: Any) -> Any:
    return and_(le(a, 0.5), le(x, 0.5))


_SMALL_TERMS = 56


def _log_of_small(a: Any, b: Any, x: Any) -> Any:
    """log I_x(a, b) for a <= 1/2 and x <= 1/2 below the mean, as a multiple of `a` up to its last digit.

    I_x(a, b) = x^a Gamma(a + b) / (Gamma(b) Gamma(a + 1)) (1 + a s), where s is the sum over n > 0 of
    (1 - b) (2 - b) ... (n - b) / n! x^n / (a + n): here by Horner's scheme.
    """

    def step(k: Any, total: Any) -> Any:
        n = sub(_SMALL_TERMS, k)
        return mul(mul(div(sub(n, b), n), x), add(div(1, add(a, n)), total))

    s = repeat(step, like(0, x), lambda k: lt(k, _SMALL_TERMS))
    exponent, less = rise_of_gamma(b, a)
    more, share = reciprocal_less_1(a), mul(a, s)
    factor = div(sub(add(add(more, share), mul(more, share)), less), add(less, 1))
    return add(add(mul(a, log(x)), exponent), log1p(factor))


def _below_mean(a: Any, b: Any, x: Any) -> tuple[list[Any], Any]:
    """a, b, x, 1 - x and a - (a + b) x, or the same of the other side where x is above the mean; and where it is."""
    rest, excess = sub(1, x), excess_over_mean(a, b, x)
    swap = lt(excess, sub(mul(x, 2), 1))  # x > (a + 1) / (a + b + 2)
    sides = (b, a), (a, b), (rest, x), (x, rest), (neg(excess), excess)
    return [where(swap, y, z) for y, z in sides], swap


def _tail_slope(by: str, a: Any, b: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    """The share on the near side of the mean, 1 less it, its derivative over it, and if it is the upper one."""
    below, is_upper = _below_mean(a, b, x)
    along = [like(1, x) if by == name else like(0, x) for name in "ab"]
    by_excess = sub(1, x) if by == "a" else neg(x)
    dots = [where(is_upper, y, z) for y, z in (along[::-1], along)]
    dots += [like(0, x), like(0, x), where(is_upper, neg(by_excess), by_excess)]
    large = _large(a, b)
    ratio, ratio_dot = _fraction_slope(below, dots)
    usual = [like(600, x), like(600, x), like(0.5, x), like(0.5, x), like(0, x)]
    safe = [where(large, y, z) for y, z in zip(below, usual, strict=True)]
    (far,), (far_dot,) = jvp_flat(lambda *xs: [_quadrature(*xs)], safe, dots)
    ratio, ratio_dot = where(large, far, ratio), where(large, far_dot, ratio_dot)
    weight = mul(beta_density(a, b, x), mul(x, sub(1, x)))  # whose derivatives are stated
    tail, slope = _share(weight, ratio), _log_weight_slope(by, a, b, x)
    rest, slope = sub(1, tail), add(div(ratio_dot, ratio), slope)
    near_one, log_share = _near_one(*below[:3])
    log_slope = where_needed(_is_small(below[0], below[2]), slope, _slope_of_small, *below[:3], *dots[:2])
    tail, rest = where(near_one, exp(log_share), tail), where(near_one, neg(expm1(log_share)), rest)
    return tail, rest, where(near_one, log_slope, slope), is_upper


def _slope_of_small(a: Any, b: Any, x: Any, a_dot: Any, b_dot: Any) -> Any:
    _, (slope,) = jvp_flat(lambda a, b: [_log_of_small(a, b, x)], [a, b], [a_dot, b_dot])
    return instantiate(slope)


def _log_weight_slope(by: str, a: Any, b: Any, x: Any) -> Any:
    """The derivative by a parameter of log(x^a (1 - x)^b / B(a, b))."""
    return sub(log(x), digamma_drop(a, b)) if by == "a" else sub(log1p(neg(x)), digamma_drop(b, a))


def _slope_within(by: str, a: Any, b: Any, x: Any, upper: bool) -> Any:
    tail, _, slope, is_upper = _tail_slope(by, a, b, x)
    slope = mul(tail, slope)
    return where(is_upper, slope, neg(slope)) if upper else where(is_upper, neg(slope), slope)


def _log_slope_within(by: str, a: Any, b: Any, x: Any, upper: bool) -> Any:
    tail, rest, slope, is_upper = _tail_slope(by, a, b, x)
    other = neg(div(mul(tail, slope), rest))
    return where(is_upper, slope, other) if upper else where(is_upper, other, slope)


def _slope(within: Callable[..., Any], upper: bool) -> Callable[[str], Callable[..., Any]]:
    """The derivative by a parameter of a share or its logarithm; 0 at the edges."""

    @functools.cache
    def slope(by: str) -> Callable[..., Any]:
        return in_float64(
            lambda a, b, x: _distribution(
                a, b, x, upper, functools.partial(within, by), lambda edge: mul(edge, 0)
            )
        )

    return slope


def _within(a: Any, b: Any, x: Any, upper: bool, moderate: bool = False) -> Any:
    """I_x(a, b) or 1 - I_x(a, b) of finite positive parameters for 0 < x < 1."""
    at = _tail(a, b, x, moderate)
    weight = _weight(at.a, at.b, x)
    tail = _share(weight, at.ratio)
    if is_single(x) and not moderate:  # in float32 the fraction loses digits for parameters next to 0
        tail = where(at.near_one, exp(at.log_share), tail)
    other = _rest(at, tail)
    return where(at.is_upper, tail, other) if upper else where(at.is_upper, other, tail)


def _share(weight: Any, ratio: Any) -> Any:
    """The weight times the ratio, 0 where the weight vanishes, whatever the ratio."""
    return where(eq(weight, 0), weight, mul(weight, ratio))


def _rest(at: _Tail, tail: Any) -> Any:
    """1 less the share on the near side of the mean."""
    return where(at.near_one, neg(expm1(at.log_share)), max_(sub(1, tail), like(0, tail)))


def _log_within(a: Any, b: Any, x: Any, upper: bool) -> Any:
    """The logarithm of what `_within` gives, finite also where that underflows to 0."""
    at = _tail(a, b, x)
    ratio = where(ne(at.ratio, at.ratio), like(1, x), at.ratio)  # of vast parameters
    tail = min_(_log_weight_times(at.a, at.b, x, ratio), like(0, x))
    tail = where(at.near_one, at.log_share, tail)
    other = log_of_rest(tail)
    return where(at.is_upper, tail, other) if upper else where(at.is_upper, other, tail)


def _hazard_within(a: Any, b: Any, x: Any, upper: bool) -> Any:
    """The density over I_x(a, b), or over 1 - I_x(a, b) if `upper`, also where they vanish."""
    at = _tail(a, b, x)
    over, weight = div(1, mul(x, sub(1, x))), _weight(at.a, at.b, x)
    of_tail = div(over, where(ne(at.ratio, at.ratio), like(0, x), at.ratio))  # NaN of vast parameters
    tail = _share(weight, at.ratio)
    other = div(mul(weight, over), _rest(at, tail))
    return where(at.is_upper, of_tail, other) if upper else where(at.is_upper, other, of_tail)


def _hazard(a: Any, b: Any, x: Any, upper: bool) -> Any:
    """`_hazard_within` for all x: infinite at the end where the share vanishes, the density at the other end."""
    inside = and_(and_(gt(x, 0), lt(x, 1)), and_(lt(a, math.inf), lt(b, math.inf)))
    value = _hazard_within(*[where(inside, y, like(0.5, x)) for y in (a, b, x)], upper=upper)
    at_end = where(eq(x, 1 if upper else 0), like(math.inf, x), _density(a, b, x))
    return where(inside, value, at_end)


def _log_weight_times(a: Any, b: Any, x: Any, y: Any) -> Any:
    """The logarithm of y x^a (1 - x)^b / B(a, b), for 0 < x < 1."""
    if is_single(x):

        def log_of(a: Any, b: Any, x: Any, y: Any) -> Any:
            return double.logarithm_of(double.binomial(a, b, x), mul(y, div(a, add(div(a, b), 1))))

        return in_float64(log_of)(a, b, x, y)
    value = mul(_weight(a, b, x), y)
    usable = gt(value, 1e3 * float(dtypes.finfo(aval_of(x).dtype).tiny))
    factor, exponent = binomial_factors(a, b, x, 0)
    low = min_(a, b)
    far = add(log(mul(mul(factor, y), div(low, add(div(low, max_(a, b)), 1)))), exponent)
    return where(usable, log(where(usable, value, like(1, x))), far)


def _betainc(a: Any, b: Any, x: Any, moderate: bool = False) -> Any:
    return _distribution(a, b, x, False, functools.partial(_within, moderate=moderate))


def _betaincc(a: Any, b: Any, x: Any, moderate: bool = False) -> Any:
    return _distribution(a, b, x, True, functools.partial(_within, moderate=moderate))


def _of_moderate(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The formula without what small and large parameters need, where both are known to be neither."""
    shorter = functools.partial(formula, moderate=True)

    def of_numbers(a: Any, b: Any, x: Any) -> Any:
        return shorter if None not in (a, b) and min(a, b) > 0.5 and min(a, b) <= 500 else None

    return of_numbers


def _log_distribution(a: Any, b: Any, x: Any, upper: bool) -> Any:
    """log I_x(a, b), or log(1 - I_x(a, b)) if `upper`."""
    return _distribution(a, b, x, upper, _log_within, log)


def _distribution(
    a: Any, b: Any, x: Any, upper: bool, within: Callable[..., Any] = _within, of_edge: Any = lambda x: x
) -> Any:
    """I_x(a, b), or 1 - I_x(a, b) if `upper`: the one on the near side of the mean is 1 minus the other.

    Or what `within` makes of the inside, and `of_edge` of values there.
    """
    inside = and_(
        and_(gt(x, 0), lt(x, 1)), and_(and_(gt(a, 0), lt(a, math.inf)), and_(gt(b, 0), lt(b, math.inf)))
    )
    value = within(*[where(inside, y, like(0.5, x)) for y in (a, b, x)], upper=upper)
    zero, one = like(0, x), like(1, x)
    at_zero, at_one = or_(eq(a, 0), eq(b, math.inf)), or_(eq(b, 0), eq(a, math.inf))  # all of the mass
    end = or_(eq(x, 0), eq(x, 1))
    edge = where(end, x, where(at_zero, one, zero))
    known = and_(or_(end, or_(at_zero, at_one)), not_(and_(at_zero, at_one)))
    valid = and_(and_(ge(a, 0), ge(b, 0)), and_(known, and_(ge(x, 0), le(x, 1))))
    edge = where(valid, sub(1, edge) if upper else edge, like(math.nan, x))
    return where(inside, value, of_edge(edge))


def _weight(a: Any, b: Any, x: Any, drop: int = 0) -> Any:
    """x^(a - drop) (1 - x)^(b - drop) / B(a, b), by its factors where none of them overflows, for 0 < x < 1."""
    if is_single(x):
        return in_float64(lambda a, b, x: _weight_in_double(a, b, x, drop))(a, b, x)
    rest, lost = sum_and_error(like(1, x), neg(x))
    root = mul(pow_(x, mul(sub(a, drop), 0.5)), pow_(rest, mul(sub(b, drop), 0.5)))
    root = mul(root, exp(mul(mul(sub(b, drop), 0.5), div(lost, rest))))

    def by_logarithms(a: Any, b: Any, x: Any) -> Any:
        factor, exponent = binomial_factors(a, b, x, drop)
        value = mul(factor, exp(exponent))
        low = min_(a, b)
        return value if drop else mul(value, div(low, add(div(low, max_(a, b)), 1)))

    return where_usable(mul(div(root, _by_gammas(a, b)), root), by_logarithms, a, b, x)


def _weight_in_double(a: Any, b: Any, x: Any, drop: int) -> Any:
    value = double.value_of(double.binomial(a, b, x, drop))
    return value if drop else mul(value, div(a, add(div(a, b), 1)))


def _density(a: Any, b: Any, x: Any) -> Any:
    """The density of Beta(a, b), also at the ends."""
    inside = and_(gt(x, 0), lt(x, 1))
    within = _weight(a, b, where(inside, x, like(0.5, x)), drop=1)
    power, other = where(eq(x, 0), a, b), where(eq(x, 0), b, a)
    at_end = where(eq(power, 1), other, where(lt(power, 1), like(math.inf, x), like(0, x)))
    return where(inside, within, where(ge(mul(x, sub(1, x)), 0), at_end, like(math.nan, x)))


def _density_by_parameter(first: bool) -> Any:
    """The derivative by a parameter of the density, which is `y`."""

    def rule(t: Any, y: Any, a: Any, b: Any, x: Any) -> Any:
        end, power = (like(0, x), a) if first else (like(1, x), b)
        vanishes = and_(eq(x, end), gt(power, 1))
        slope = SLOPES[first, 1](a, b, where(vanishes, like(0.5, x), x))
        return mul(t, mul(y, where(vanishes, like(0, x), slope)))

    return rule


def _density_slope(a: Any, b: Any, x: Any) -> Any:
    """The derivative by x of the density. See Note [Densities at the ends of their support] of `special.py`.

    Of x^p (1 - x)^q it is x^(p - 1) (1 - x)^(q - 1) (p (1 - x) - q x).
    """
    one, rest, total = like(1, x), sub(1, x), sub(add(a, b), 1)
    p, q, steep_a, steep_b = sub(a, 1), sub(b, 1), gt(a, 1), gt(b, 1)
    density = beta_density(where(steep_a, p, a), where(steep_b, q, b), x)
    density = mul(density, where(steep_a, div(total, where(steep_a, p, one)), one))
    total = where(steep_a, sub(total, 1), total)
    density = mul(density, where(steep_b, div(total, where(steep_b, q, one)), one))
    whole_a = or_(steep_a, and_(eq(p, 0), eq(x, 0)))
    whole_b = or_(steep_b, and_(eq(q, 0), eq(rest, 0)))
    up = mul(div(p, where(whole_a, one, x)), where(steep_b, rest, one))
    down = mul(div(q, where(whole_b, one, rest)), where(steep_a, x, one))
    both = and_(steep_a, steep_b)
    p, q, inside = where(both, p, one), where(both, q, one), where(both, x, like(0.5, x))
    return mul(density, where(both, excess_over_mean(p, q, inside), sub(up, down)))


beta_density = composed(
    "beta_density",
    _density,
    _density_by_parameter(True),
    _density_by_parameter(False),
    lambda t, y, a, b, x: mul(t, _density_slope(a, b, x)),
    series=lambda a, b, x: exp(log_beta_density(a, b, x)),
)
_betainc_grad = derivatives(
    "betainc_grad", "ab", slopes("ab", _slope(_slope_within, upper=False)), beta_density
)
betainc_grad_a, betainc_grad_b = map(_betainc_grad, "ab")
betainc = composed(
    "regularized_incomplete_beta",
    _betainc,
    lambda t, y, a, b, x: mul(t, betainc_grad_a(a, b, x)),
    lambda t, y, a, b, x: mul(t, betainc_grad_b(a, b, x)),
    lambda t, y, a, b, x: mul(t, beta_density(a, b, x)),
    of_numbers=_of_moderate(_betainc),
)
betaincc = composed(
    "regularized_incomplete_beta_complement",
    _betaincc,
    lambda t, y, a, b, x: neg(mul(t, betainc_grad_a(a, b, x))),
    lambda t, y, a, b, x: neg(mul(t, betainc_grad_b(a, b, x))),
    lambda t, y, a, b, x: neg(mul(t, beta_density(a, b, x))),
    of_numbers=_of_moderate(_betaincc),
)


def _hazard_slope(y: Any, a: Any, b: Any, x: Any, sign: int) -> Any:
    """The derivative by x of the density over a share that grows with x, or falls; where that is 1, of the density."""
    at_end = eq(x, 1 if sign > 0 else 0)
    inside = where(at_end, like(0.5, x), x)
    within = mul(y, sub(sub(div(sub(a, 1), inside), div(sub(b, 1), sub(1, inside))), mul(y, sign)))
    a, b = [where(at_end, z, like(3, z)) for z in (a, b)]
    end = sub(_density_slope(a, b, where(at_end, x, like(0.5, x))), mul(square(y), sign))
    return where(at_end, end, within)


def _hazard_by(parameter: str, slope: Any) -> Any:
    """Where the density vanishes with its logarithm's derivative infinite, its own derivative is 0."""

    def rule(t: Any, y: Any, a: Any, b: Any, x: Any) -> Any:
        end, power = (0, a) if parameter == "a" else (1, b)
        vanishes = and_(eq(x, end), gt(power, 1))
        inside = where(vanishes, like(0.5, x), x)
        value = sub(_log_weight_slope(parameter, a, b, inside), slope(a, b, inside))
        return mul(t, mul(y, where(vanishes, like(0, x), value)))

    return rule


beta_rate = composed(
    "beta_rate",
    lambda a, b, x: _hazard(a, b, x, upper=False),
    _hazard_by("a", lambda a, b, x: log_betainc_grad_a(a, b, x)),
    _hazard_by("b", lambda a, b, x: log_betainc_grad_b(a, b, x)),
    lambda t, y, a, b, x: mul(t, _hazard_slope(y, a, b, x, 1)),
)
beta_hazard = composed(
    "beta_hazard",
    lambda a, b, x: _hazard(a, b, x, upper=True),
    _hazard_by("a", lambda a, b, x: log_betaincc_grad_a(a, b, x)),
    _hazard_by("b", lambda a, b, x: log_betaincc_grad_b(a, b, x)),
    lambda t, y, a, b, x: mul(t, _hazard_slope(y, a, b, x, -1)),
)
_log_betainc_grad = derivatives(
    "log_betainc_grad", "ab", slopes("ab", _slope(_log_slope_within, upper=False)), beta_rate
)
_log_betaincc_grad = derivatives(
    "log_betaincc_grad",
    "ab",
    slopes("ab", _slope(_log_slope_within, upper=True)),
    lambda a, b, x: neg(beta_hazard(a, b, x)),
)
log_betainc_grad_a, log_betainc_grad_b = map(_log_betainc_grad, "ab")
log_betaincc_grad_a, log_betaincc_grad_b = map(_log_betaincc_grad, "ab")
log_betainc = composed(
    "log_betainc",
    lambda a, b, x: _log_distribution(a, b, x, upper=False),
    lambda t, y, a, b, x: mul(t, log_betainc_grad_a(a, b, x)),
    lambda t, y, a, b, x: mul(t, log_betainc_grad_b(a, b, x)),
    lambda t, y, a, b, x: mul(t, beta_rate(a, b, x)),
)
log_betaincc = composed(
    "log_betaincc",
    lambda a, b, x: _log_distribution(a, b, x, upper=True),
    lambda t, y, a, b, x: mul(t, log_betaincc_grad_a(a, b, x)),
    lambda t, y, a, b, x: mul(t, log_betaincc_grad_b(a, b, x)),
    lambda t, y, a, b, x: neg(mul(t, beta_hazard(a, b, x))),
)
