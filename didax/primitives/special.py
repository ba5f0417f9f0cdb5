"""Special functions that need a loop: the incomplete gamma functions and their derivatives by the parameter.

    igamma(a, x)   P(a, x), the regularised lower incomplete gamma function, the distribution function of Gamma(a)
    igammac(a, x)  Q(a, x) = 1 - P(a, x)
    random_gamma_grad(a, x)   dx/da where x is drawn from Gamma(a) by inverting P: -(dP/da) / (dP/dx)

With W = x^a exp(-x) / Gamma(a + 1) two expansions share the plane (Abramowitz and Stegun, 6.5.29 and 6.5.31):

    P = W S     S = 1 + x/(a + 1) + x^2/((a + 1)(a + 2)) + ...             where x <= 1 or x <= a
    Q = W a h   h = 1/(x + 1 - a - 1(1 - a)/(x + 3 - a - 2(2 - a)/(...)))  elsewhere

Each expansion is evaluated until no element changes, together with its derivative by `a` where that is asked for. An
operation of this file is lowered as the jaxpr of a Python function over other primitives. Read next:
`control_flow/while_loop.py`.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from didax.core import dtypes
from didax.core.avals import aval_of
from didax.primitives import gamma_in_double as double
from didax.primitives.composed import (
    composed,
    derivatives,
    higher_slope_of,
    iterate,
    like,
    log_of_rest,
    polynomial,
    slope_of,
    slopes,
    where_needed,
    where_usable,
)
from didax.primitives.densities import log_gamma_density, log_power_of_gamma, slope_by_gamma_parameter
from didax.primitives.elementwise import (
    abs_,
    add,
    and_,
    div,
    eq,
    erfc,
    exp,
    expm1,
    ge,
    gt,
    le,
    log,
    log1p,
    lt,
    mul,
    neg,
    not_,
    or_,
    pow_,
    sin,
    sqrt,
    square,
    sub,
)  # fmt: skip
from didax.primitives.fitted import erfcx
from didax.primitives.gamma import digamma, gamma_of, reciprocal_less_1
from didax.primitives.gamma_quotients import minus_log1p
from didax.primitives.narrow import in_float64, is_single
from didax.primitives.select import where

# --- The two expansions -------------------------------------------------------------------------------------


class _Series(NamedTuple):
    n: Any
    term: Any  # x^n / ((a + 1) ... (a + n))
    total: Any
    d_term: Any
    d_total: Any


def _series(a: Any, x: Any, sloped: bool) -> tuple[Any, Any]:
    """S(a, x) and its derivative by `a`, which is right only if `sloped`: else no step waits for it."""

    def step(s: _Series) -> _Series:
        n = add(s.n, 1)
        below = add(a, n)
        ratio = div(x, below)
        d_term = mul(ratio, sub(s.d_term, div(s.term, below)))
        term = mul(s.term, ratio)
        return _Series(n, term, add(s.total, term), d_term, add(s.d_total, d_term))

    def moves(s: _Series) -> Any:
        term_matters = _matters(s.term, s.total, digits=0.5)  # further terms are left out, too
        return or_(term_matters, _matters(s.d_term, s.d_total)) if sloped else term_matters

    zero, one = like(0, a), like(1, a)
    last = iterate(step, moves, _Series(0, one, one, zero, zero))
    return last.total, last.d_total


class _Fraction(NamedTuple):
    n: Any
    c: Any
    d: Any
    h: Any
    d_c: Any
    d_d: Any
    d_h: Any
    d_change: Any  # of d_h in the last step


def _fraction(a: Any, x: Any, sloped: bool) -> tuple[Any, Any]:
    """h(a, x) by Lentz's method, and its derivative by `a` if `sloped`. The n-th partial numerator is n (a - n)."""

    zero, one = like(0, a), like(1, a)

    def step(s: _Fraction) -> _Fraction:
        n = add(s.n, 1)
        below = add(b, mul(n, 2))
        numerator = mul(n, sub(a, n))
        quotient = div(numerator, s.c)
        c = add(below, quotient)
        d_c = sub(div(sub(n, mul(quotient, s.d_c)), s.c), 1)
        d = div(1, add(below, mul(numerator, s.d)))
        d_d = mul(square(d), sub(1, add(mul(n, s.d), mul(numerator, s.d_d))))
        change, d_factor = sub(mul(c, d), 1), add(mul(d_c, d), mul(c, d_d))
        d_change = add(mul(s.d_h, change), mul(s.h, d_factor))
        h, d_h = add(s.h, mul(s.h, change)), add(s.d_h, d_change)
        return _Fraction(n, c, d, h, d_c, d_d, d_h, d_change)

    def moves(s: _Fraction) -> Any:
        change_matters = _matters(sub(mul(s.c, s.d), 1), one)
        d_change_matters = _matters(s.d_change, add(abs_(s.h), abs_(s.d_h)))
        return or_(change_matters, d_change_matters) if sloped else change_matters

    b = add(sub(x, a), 1)
    d = div(1, b)
    start = _Fraction(0, like(math.inf, a), d, d, zero, square(d), square(d), one)
    last = iterate(step, moves, start)
    return last.h, last.d_h


def _matters(change: Any, total: Any, digits: float = 4) -> Any:
    """By default changes count that are more than the rounding error of two products, 4 in the last digit."""
    return gt(abs_(change), mul(abs_(total), digits * float(dtypes.finfo(aval_of(change).dtype).eps)))


# --- The functions made of them -----------------------------------------------------------------------------


# Note [Large parameters]
# The expansions take about 5 sqrt(a) steps near x = a, and would not end where a + 1 rounds to a. For `_large(a)` the
# variable x is nearly normal: with z = (x - a) / sqrt(a), x = a + z sqrt(a) + (z^2 - 1) / 3 + O(1 / sqrt(a)), so dx/da
# for fixed z is 1 + z / (2 sqrt(a)), and P is Temme's uniform expansion, of which the first term is used. The errors of
# both are O(1 / a).


def _large(a: Any) -> Any:
    return gt(a, _large_from(aval_of(a).dtype))


def _is_normal(a: Any, x: Any) -> Any:
    """Whether the expansions take too many steps: far from a they take few."""
    return and_(_large(a), lt(abs_(sub(div(x, a), 1)), 0.5))


def _large_from(dtype: np.dtype[Any]) -> float:
    return 1e5 if dtype == np.float32 else 1e7


class _Plane(NamedTuple):
    """Both expansions at points (a, x), and the masks that say which of the two holds there."""

    by_series: Any
    by_fraction: Any
    s: Any
    d_s: Any
    h: Any
    d_h: Any


def _expand(a: Any, x: Any, sloped: bool) -> _Plane:
    """Both expansions, each evaluated at a harmless point where it is not the one to use."""
    low = or_(le(x, 1), le(x, a))
    usable = and_(
        and_(gt(a, 0), gt(x, 0)),
        and_(le(x, float(dtypes.finfo(aval_of(a).dtype).max)), not_(_is_normal(a, x))),
    )
    by_series, by_fraction = and_(usable, low), and_(usable, not_(low))
    s, d_s = _series(where(by_series, a, like(1, a)), where(by_series, x, like(0, a)), sloped)
    h, d_h = _fraction(where(by_fraction, a, like(1, a)), where(by_fraction, x, like(3, a)), sloped)
    return _Plane(by_series, by_fraction, s, d_s, h, d_h)


def _weight(a: Any, x: Any) -> Any:
    """x^a exp(-x) / Gamma(a + 1), by its factors where none of them overflows: its logarithm would lose digits."""
    if is_single(a):
        return in_float64(lambda a, x: double.value_of(double.power_of_gamma(a, x)))(a, x)
    small, one = lt(a, 1), like(1, a)
    root = pow_(x, mul(a, 0.5))
    factorial = mul(gamma_of(where(small, add(a, 1), a)), where(small, one, a))
    value = mul(mul(exp(neg(x)), root), div(root, factorial))
    return where_usable(value, lambda a, x: exp(log_power_of_gamma(a, x)), a, x)


def sinc(x: Any) -> Any:
    """sin(x) / x, to all orders smooth at 0."""
    near = lt(abs_(x), 1)
    small, large = where(near, x, like(0, x)), where(near, like(1, x), x)
    series = polynomial(square(small), [(-1) ** k / math.factorial(2 * k + 1) for k in range(10)])
    return where(near, series, div(sin(large), large))


def _density(a: Any, x: Any) -> Any:
    """The density of Gamma(a) at x, also at the ends: the weight of a - 1, which is that of `a` times a / x."""
    inside = and_(gt(x, 0), lt(x, math.inf))
    safe = where(inside, x, like(1, x))
    below = lt(a, 1)
    within = mul(_weight(where(below, a, sub(a, 1)), safe), where(below, div(a, safe), like(1, x)))
    at_zero = where(eq(a, 1), like(1, x), where(lt(a, 1), like(math.inf, x), like(0, x)))
    return where(inside, within, where(gt(x, 0), like(0, x), at_zero))


def _density_by_parameter(y: Any, a: Any, x: Any) -> Any:
    """The derivative by `a` of the density, which is `y`."""
    vanishes = or_(and_(eq(x, 0), gt(a, 1)), eq(x, math.inf))
    slope = slope_by_gamma_parameter(a, where(vanishes, like(1, x), x), 1)
    return mul(y, where(vanishes, like(0, x), slope))


# Note [Densities at the ends of their support]. Where x^p vanishes, its derivative is not p / x times itself, but p
# times x^(p - 1). So the derivative of a density of a parameter a = p + 1 > 1 is made of that of a - 1, and is right at
# the end, as are its own derivatives. A power series would be made of one density for each of its terms, with all of
# their derivatives by parameters: it is that of the exponential of the logarithm.
def _density_slope(a: Any, x: Any) -> Any:
    """The derivative by x of the density: of x^p exp(-x) it is x^(p - 1) exp(-x) (p - x)."""
    p, steep, one = sub(a, 1), gt(a, 1), like(1, x)
    density = div(gamma_density(where(steep, p, a), x), where(steep, p, one))
    finite = where(lt(x, math.inf), x, like(0, x))
    whole = or_(steep, and_(eq(p, 0), eq(x, 0)))
    return mul(density, sub(div(p, where(whole, one, x)), where(steep, finite, one)))


def _igamma(a: Any, x: Any) -> Any:
    return _distribution(a, x, upper=False)


def _igammac(a: Any, x: Any) -> Any:
    return _distribution(a, x, upper=True)


def _distribution(a: Any, x: Any, upper: bool) -> Any:
    """P(a, x), or Q(a, x) if `upper`; the expansion at a point gives one of the two, and the other is 1 minus it."""
    at = _expand(a, x, sloped=False)
    weight = _weight(a, x)
    p, q = mul(weight, at.s), mul(mul(weight, a), at.h)
    inside = where(at.by_series, sub(1, p) if upper else p, q if upper else sub(1, q))
    inside = where(_is_normal(a, x), _temme(a, x, upper), inside)
    if upper:
        inside = where_needed(and_(at.by_series, and_(le(x, 1), le(a, 0.5))), inside, _upper_of_small, a, x)
    zero, one, nan = like(0, a), like(1, a), like(math.nan, a)
    at_infinity = or_(eq(x, math.inf), eq(a, 0))  # Gamma(0) is the point 0
    at_zero = or_(eq(x, 0), eq(a, math.inf))
    edge = where(at_zero, one if upper else zero, inside)
    edge = where(at_infinity, zero if upper else one, edge)
    valid = and_(and_(ge(a, 0), ge(x, 0)), not_(and_(at_zero, at_infinity)))
    return where(valid, edge, nan)


def _log_distribution(a: Any, x: Any, upper: bool) -> Any:
    """log P(a, x), or log Q(a, x) if `upper`; finite also where P or Q underflows to 0."""
    at = _expand(a, x, sloped=False)
    log_p = _log_weight_times(a, x, at.s, like(1, x))
    log_q = _log_weight_times(a, x, mul(a, _times_x(at.h, x)), x)
    small, q = _small(a, x, at)
    if upper:
        log_rest = where(and_(small, lt(q, 0.5)), log(q), log_of_rest(log_p))
        inside = where(at.by_series, log_rest, log_q)
    else:
        log_p = where(and_(small, lt(q, 0.5)), log1p(neg(q)), log_p)
        inside = where(at.by_series, log_p, log_of_rest(log_q))
    inside = where(_is_normal(a, x), _log_temme(a, x, upper), inside)
    return _with_ends(a, x, inside, *[like(y, a) for y in ((0, -math.inf) if upper else (-math.inf, 0))])


def _hazard(a: Any, x: Any, upper: bool) -> Any:
    """The density over P(a, x), or over Q(a, x) if `upper`, also where they vanish."""
    at = _expand(a, x, sloped=False)
    weight = _weight(a, x)
    density = div(mul(weight, a), x)
    _, q = _small(a, x, at)
    if upper:
        q = where(_small_at(a, x, at), q, sub(1, mul(weight, at.s)))
        inside = where(at.by_series, div(density, q), div(1, _times_x(at.h, x)))
    else:
        inside = where(at.by_series, div(div(a, x), at.s), div(density, sub(1, mul(mul(weight, a), at.h))))
    inside = where(_is_normal(a, x), _temme_hazard(a, x, upper), inside)
    at_zero = where(eq(a, 1), like(1, x), where(lt(a, 1), like(math.inf, x), like(0, x)))
    return _with_ends(a, x, inside, at_zero if upper else like(math.inf, x), like(1 if upper else 0, x))


def _with_ends(a: Any, x: Any, inside: Any, at_zero: Any, at_infinity: Any) -> Any:
    """The values at x = 0, or where a is infinite, and at infinity."""
    is_zero, is_infinite = or_(eq(x, 0), eq(a, math.inf)), eq(x, math.inf)
    valid = and_(and_(gt(a, 0), ge(x, 0)), not_(and_(is_zero, is_infinite)))
    value = where(is_zero, at_zero, where(is_infinite, at_infinity, inside))
    return where(valid, value, like(math.nan, a))


def _times_x(h: Any, x: Any) -> Any:
    """x h(a, x), where h is nearly 1 / x if x is vast."""
    return where(gt(x, 1e30), like(1, x), mul(x, h))


def _small_at(a: Any, x: Any, at: _Plane) -> Any:
    return and_(at.by_series, and_(le(x, 1), le(a, 0.5)))


def _small(a: Any, x: Any, at: _Plane) -> tuple[Any, Any]:
    """Where 1 - P would cancel, and Q there."""
    small = _small_at(a, x, at)
    return small, where_needed(small, like(0.5, a), _upper_of_small, a, x)


def _log_weight_times(a: Any, x: Any, y: Any, z: Any) -> Any:
    """The logarithm of y / z x^a exp(-x) / Gamma(a + 1)."""
    if is_single(a):
        log_of = lambda a, x, y, z: double.logarithm_of(double.power_of_gamma(a, x), div(y, z))
        return in_float64(log_of)(a, x, y, z)
    value = mul(_weight(a, x), div(y, z))
    usable = gt(value, like(1e3 * float(dtypes.finfo(aval_of(a).dtype).tiny), a))
    return where(
        usable, log(where(usable, value, like(1, a))), add(log_power_of_gamma(a, x), sub(log(y), log(z)))
    )


def _upper_of_small(a: Any, x: Any) -> Any:
    """Q(a, x) for a <= 1/2 and x <= 1, where 1 - P would cancel: with g = x^a / Gamma(a + 1), P = g (1 - a E).

    E is the sum of -(-x)^n / (n! (a + n)) over n > 0.
    """
    x = where(gt(x, 0), x, like(1, x))
    log_g = add(mul(a, log(x)), log1p(reciprocal_less_1(a)))
    terms = 10 if is_single(x) else 18
    power, total = like(1, x), like(0, x)
    for n in range(1, terms + 1):
        power = mul(mul(power, x), (1 if n == 1 else -1) / n)
        total = add(total, div(power, add(a, n)))
    return sub(mul(exp(log_g), mul(a, total)), expm1(log_g))


def _temme(a: Any, x: Any, upper: bool) -> Any:
    """See Note [Large parameters]. P = erfc(-eta sqrt(a/2)) / 2 - R, with R = exp(-a eta^2/2) / sqrt(2 pi a) c(eta)."""
    half_square, eta, c = _temme_parts(a, x)
    rest = mul(div(exp(neg(mul(a, half_square))), sqrt(mul(a, 2 * math.pi))), c)
    argument = mul(eta, sqrt(mul(a, 0.5)))
    return add(mul(erfc(argument), 0.5), rest) if upper else sub(mul(erfc(neg(argument)), 0.5), rest)


def _log_temme(a: Any, x: Any, upper: bool) -> Any:
    """The logarithm of that, by the share on the far side of a."""
    half_square, eta, _ = _temme_parts(a, x)
    log_tail = sub(log(_temme_tail(a, x)), mul(a, half_square))
    is_tail = gt(eta, 0) if upper else le(eta, 0)
    return where(is_tail, log_tail, log_of_rest(log_tail))


def _temme_hazard(a: Any, x: Any, upper: bool) -> Any:
    half_square, eta, _ = _temme_parts(a, x)
    tail, size = _temme_tail(a, x), exp(neg(mul(a, half_square)))
    density = div(sqrt(mul(a, 0.5 / math.pi)), x)  # over the size
    is_tail = gt(eta, 0) if upper else le(eta, 0)
    return where(is_tail, div(density, tail), div(mul(density, size), sub(1, mul(tail, size))))


def _temme_tail(a: Any, x: Any) -> Any:
    """The share on the far side of a, over exp(-a eta^2/2): erfcx(|eta| sqrt(a/2)) / 2 +- c(eta) / sqrt(2 pi a)."""
    _, eta, c = _temme_parts(a, x)
    rest = div(c, sqrt(mul(a, 2 * math.pi)))
    return add(mul(erfcx(mul(abs_(eta), sqrt(mul(a, 0.5)))), 0.5), where(gt(eta, 0), rest, neg(rest)))


def _temme_parts(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """eta^2 / 2, eta and c(eta)."""
    m = div(sub(x, a), a)
    half_square = minus_log1p(m)
    root = sqrt(mul(half_square, 2))
    eta = where(lt(m, 0), neg(root), root)
    near = lt(abs_(m), 1e-2)
    c = where(
        near,
        add(mul(eta, 1 / 12), -1 / 3),
        sub(div(1, where(near, like(1, m), m)), div(1, where(near, like(1, m), eta))),
    )
    return half_square, eta, c


def _random_gamma_grad(a: Any, x: Any) -> Any:
    """-(dP/da) / (dP/dx). The weight W is a factor of both and is left out, so nothing overflows."""
    safe = where(gt(x, 0), x, like(1, x))
    inside = where(eq(x, 0), like(0, x), mul(safe, _relative_grad(a, safe, log(safe))))
    return where(and_(and_(gt(a, 0), lt(a, math.inf)), ge(x, 0)), inside, like(math.nan, x))


def _log_random_gamma_grad(a: Any, log_x: Any) -> Any:
    return _relative_grad(a, exp(log_x), log_x)


def _relative_grad(a: Any, x: Any, log_x: Any) -> Any:
    """(dx/da) / x, finite also where `x` has rounded to 0 and only `log_x` knows its value."""
    at = _expand(a, x, sloped=True)
    below = neg(div(add(mul(sub(log_x, digamma(add(a, 1))), at.s), at.d_s), a))
    above = add(mul(sub(log_x, digamma(a)), at.h), at.d_h)
    normal = mul(add(div(1, a), div(1, x)), 0.5)
    inside = where(at.by_fraction, above, where(_is_normal(a, x), normal, below))
    return where(and_(gt(a, 0), lt(x, math.inf)), inside, like(math.nan, x))


def _igamma_grad_a(a: Any, x: Any) -> Any:
    inside = and_(gt(x, 0), lt(x, math.inf))
    safe = where(inside, x, like(1, x))
    slope = neg(mul(gamma_density(a, safe), _random_gamma_grad(a, safe)))
    valid = and_(and_(gt(a, 0), lt(a, math.inf)), ge(x, 0))
    return where(valid, where(inside, slope, like(0, x)), like(math.nan, x))


def _igamma_slope(a: Any, x: Any) -> Any:
    """dP/da, for further derivatives, too: W ((log(x) - digamma(a + 1)) S + dS/da), and the same of -a h for Q.

    No factor is large for a small `a`: the derivatives of such factors would cancel.
    """
    inside = and_(gt(x, 0), lt(x, math.inf))
    safe = where(inside, x, like(1, x))
    at = _expand(a, safe, sloped=True)
    rise = slope_by_gamma_parameter(a, safe, 0)
    below = add(mul(rise, at.s), at.d_s)
    above = neg(add(mul(add(mul(a, rise), 1), at.h), mul(a, at.d_h)))
    normal = mul(add(div(a, safe), 1), -0.5)
    slope = mul(
        gamma_weight(a, safe), where(at.by_fraction, above, where(_is_normal(a, safe), normal, below))
    )
    valid = and_(and_(gt(a, 0), lt(a, math.inf)), ge(x, 0))
    return where(valid, where(inside, slope, like(0, x)), like(math.nan, x))


@functools.cache
def _igamma_slopes(by: str) -> Any:
    """The first derivative of float64 numbers has the density, which a gradient by x has as well."""
    if by == "a":
        return lambda a, x: (_igamma_slope if is_single(a) else _igamma_grad_a)(a, x)
    return in_float64(higher_slope_of(_igamma_slope, "a", by[1:]))


# --- The primitives -----------------------------------------------------------------------------------------


gamma_weight = composed(
    "gamma_weight",
    _weight,
    lambda t, y, a, x: mul(t, mul(y, slope_by_gamma_parameter(a, x, 0))),
    lambda t, y, a, x: mul(t, mul(y, sub(div(a, x), 1))),
)
gamma_density = composed(
    "gamma_density",
    _density,
    lambda t, y, a, x: mul(t, _density_by_parameter(y, a, x)),
    lambda t, y, a, x: mul(t, _density_slope(a, x)),
    series=lambda a, x: exp(log_gamma_density(a, x)),
)
_igamma_grad = derivatives("igamma_grad", "a", _igamma_slopes, gamma_density, expanded=in_float64)
igamma_grad_a, igamma_grad_aa = map(_igamma_grad, ("a", "aa"))
igamma = composed(
    "igamma",
    _igamma,
    lambda t, p, a, x: mul(t, igamma_grad_a(a, x)),
    lambda t, p, a, x: mul(t, gamma_density(a, x)),
)
igammac = composed(
    "igammac",
    _igammac,
    lambda t, q, a, x: neg(mul(t, igamma_grad_a(a, x))),
    lambda t, q, a, x: neg(mul(t, gamma_density(a, x))),
)


def _share_by_parameter(hazard: Any, a: Any, x: Any) -> Any:
    """The density times -dx/da for a fixed share, over the share."""
    inside = gt(x, 0)
    safe = where(inside, x, like(1, x))
    return where(inside, neg(mul(hazard(a, safe), random_gamma_grad(a, safe))), like(0, x))


def _hazard_by_parameter(y: Any, a: Any, x: Any, sign: int) -> Any:
    """Where the density vanishes at 0, for a > 1, it is 0."""
    vanishes = and_(eq(x, 0), gt(a, 1))
    x = where(vanishes, like(1, x), x)
    slope = sub(sub(log(x), digamma(a)), mul(mul(y, random_gamma_grad(a, x)), -sign))
    return mul(y, where(vanishes, like(0, x), slope))


def _hazard_slope(y: Any, a: Any, x: Any) -> Any:
    """The derivative by x of the density over Q(a, x): at 0 that of the density, and its square."""
    at_zero = eq(x, 0)
    within = mul(y, add(sub(div(sub(a, 1), where(at_zero, like(1, x), x)), 1), y))
    at_end = add(_density_slope(where(at_zero, a, like(3, a)), where(at_zero, x, like(1, x))), mul(y, y))
    return where(at_zero, at_end, within)


gamma_rate = composed(
    "gamma_rate",
    lambda a, x: _hazard(a, x, upper=False),
    lambda t, y, a, x: mul(t, _hazard_by_parameter(y, a, x, 1)),
    lambda t, y, a, x: mul(t, mul(y, sub(sub(div(sub(a, 1), x), 1), y))),
)
gamma_hazard = composed(
    "gamma_hazard",
    lambda a, x: _hazard(a, x, upper=True),
    lambda t, y, a, x: mul(t, _hazard_by_parameter(y, a, x, -1)),
    lambda t, y, a, x: mul(t, _hazard_slope(y, a, x)),
)
log_igamma = composed(
    "log_igamma",
    lambda a, x: _log_distribution(a, x, upper=False),
    lambda t, y, a, x: mul(t, _share_by_parameter(gamma_rate, a, x)),
    lambda t, y, a, x: mul(t, gamma_rate(a, x)),
)
log_igammac = composed(
    "log_igammac",
    lambda a, x: _log_distribution(a, x, upper=True),
    lambda t, y, a, x: neg(mul(t, _share_by_parameter(gamma_hazard, a, x))),
    lambda t, y, a, x: neg(mul(t, gamma_hazard(a, x))),
)


# With the density f, whose log has the derivatives log(x) - digamma(a) and (a - 1) / x - 1, they are -P_a / f, and
# that over x.
def _sample_by_x(y: Any, a: Any, x: Any) -> Any:
    return sub(sub(digamma(a), log(x)), sub(mul(div(y, x), sub(a, 1)), y))


def _log_sample_by_x(y: Any, a: Any, log_x: Any) -> Any:
    return sub(sub(digamma(a), log_x), mul(y, sub(a, exp(log_x))))


def _gradient_of_sample(name: str, formula: Any, by_x: Any) -> Any:
    """The derivative of a sample by `a`, as an operation; `by_x` takes it, and the operands, to its own derivative."""
    by_a = derivatives(
        name,
        "a",
        slopes("a", lambda by: slope_of(formula, 0)),
        lambda a, x: by_x(gradient(a, x), a, x),
        expanded=in_float64,
    )("a")
    gradient = composed(
        name,
        formula,
        lambda t, y, a, x: mul(t, by_a(a, x)),
        lambda t, y, a, x: mul(t, by_x(y, a, x)),
    )
    return gradient


random_gamma_grad = _gradient_of_sample("random_gamma_grad", _random_gamma_grad, _sample_by_x)
log_random_gamma_grad = _gradient_of_sample("log_random_gamma_grad", _log_random_gamma_grad, _log_sample_by_x)
