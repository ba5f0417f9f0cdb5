"""Logarithms of densities that keep their digits for large parameters, where the textbook's terms cancel.

    log_poisson(k, mu)         log(mu^k exp(-mu) / Gamma(k + 1))
    log_gamma_density(a, x)    log(x^(a - 1) exp(-x) / Gamma(a))
    log_binomial(a, b, x)      log(x^a (1 - x)^b Gamma(a + b + 1) / (Gamma(a + 1) Gamma(b + 1)))
    log_t_density(z, df)       the log of the density of Student's distribution, of float32 numbers
    log_beta_density(a, b, x)  log(x^(a - 1) (1 - x)^(b - 1) Gamma(a + b) / (Gamma(a) Gamma(b)))

The terms of log(mu^k exp(-mu) / k!) are of size k log k, and their sum is of size log k near its maximum. Loader (Fast
and Accurate Computation of Binomial Probabilities, 2000) writes it by the deviance D(k, mu) = k log(k / mu) + mu - k,
which vanishes at the maximum, and by the rest of Stirling's series. The two densities are the same formulas with one
less in each exponent: `drop` is 0 or 1. Derivatives are stated in forms that do not cancel there either. Read next:
`special.py`, `beta.py`.
"""

from __future__ import annotations

import math
from typing import Any

from didax.core import dtypes
from didax.core.avals import aval_of
from didax.primitives import gamma_in_double as double
from didax.primitives.composed import composed, like, polynomial, slope_of
from didax.primitives.convert import reduce_precision_p
from didax.primitives.elementwise import (
    abs_,
    add,
    and_,
    div,
    eq,
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
    neg,
    or_,
    sqrt,
    square,
    sub,
)
from didax.primitives.gamma import digamma, gamma_of, lgamma, stirling, trigamma
from didax.primitives.gamma_quotients import deviance, digamma_drop, sum_and_error, trigamma_drop
from didax.primitives.logarithmic import times_logarithm
from didax.primitives.narrow import by_size, in_float64, is_single
from didax.primitives.select import where

_LARGE = 10  # from here on Stirling's series has all digits


def _log_over_digamma(x: Any) -> Any:
    """log(x) - digamma(x), for x >= 10."""
    inverse = div(1, x)
    series = polynomial(square(inverse), [1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12])
    return add(mul(inverse, 0.5), mul(square(inverse), series))


def _log_of_mean(x: Any, mean: Any, excess: Any) -> Any:
    """log(mean / x) of positive numbers, with excess = x - mean."""
    share = neg(div(excess, x))
    near = lt(abs_(share), 0.5)
    apart = mul(log(div(sqrt(mean), sqrt(x))), 2)  # the quotient of the numbers may be too large or small
    return where(near, log1p(where(near, share, like(0, x))), apart)


# --- Of Poisson and of the gamma distribution ---------------------------------------------------------------


def log_power_of_gamma(a: Any, x: Any, drop: int = 0) -> Any:
    """log(x^(a - drop) exp(-x) / Gamma(a + 1 - drop))."""
    large = and_(ge(a, _LARGE), lt(a, math.inf))
    n = where(large, a, like(_LARGE, a))
    by_deviance = sub(mul(log(mul(n, 2 * math.pi)), -0.5), add(stirling(n), deviance(n, x, drop=drop)))
    direct = sub(sub(times_logarithm(sub(a, drop), x, log), x), lgamma(add(a, 1 - drop)))
    return where(large, by_deviance, direct)


def slope_by_gamma_parameter(a: Any, x: Any, drop: int) -> Any:
    """log(x) - digamma(a + 1 - drop)."""
    large = ge(a, _LARGE)
    n = where(large, a, like(_LARGE, a))
    drift = sub(_log_over_digamma(n), div(1 - drop, n))
    return where(large, add(_log_of_mean(n, x, sub(n, x)), drift), sub(log(x), digamma(add(a, 1 - drop))))


def _slope_of_gamma_power(name: str, drop: int) -> Any:
    """The operation (a - drop) / x - 1, whose terms are subtracted by size: none is rounded where they cancel."""

    def slope(a: Any, x: Any) -> Any:
        rest = sub(sub(a, max_(x, like(drop, x))), min_(x, like(drop, x))) if drop else sub(a, x)
        at_zero = and_(eq(x, 0), eq(a, drop))
        return where(at_zero, like(-1, x), div(rest, where(at_zero, like(1, x), x)))

    def bend(t: Any, y: Any, a: Any, x: Any) -> Any:
        above = sub(a, drop)
        x = where(and_(eq(x, 0), eq(above, 0)), like(1, x), x)
        return neg(mul(t, div(div(above, x), x)))

    return composed(name, slope, lambda t, y, a, x: div(t, x), bend)


def _log_power(a: Any, x: Any, drop: int = 0) -> Any:
    if not is_single(x):
        return log_power_of_gamma(a, x, drop)
    power = lambda a, x: double.logarithm_of(double.power_of_gamma(a, x, drop))
    is_exponential = and_(eq(a, drop), ge(x, 0))  # whose logarithm may be next to 0
    return where(is_exponential, sub(0, x), in_float64(power)(a, x))


poisson_slope = _slope_of_gamma_power("poisson_slope", 0)
gamma_slope = _slope_of_gamma_power("gamma_slope", 1)
log_poisson = composed(
    "log_poisson",
    _log_power,
    lambda t, y, k, mu: mul(t, slope_by_gamma_parameter(k, mu, 0)),
    lambda t, y, k, mu: mul(t, poisson_slope(k, mu)),
)
log_gamma_density = composed(
    "log_gamma_density",
    lambda a, x: _log_power(a, x, drop=1),
    lambda t, y, a, x: mul(t, slope_by_gamma_parameter(a, x, 1)),
    lambda t, y, a, x: mul(t, gamma_slope(a, x)),
)

# --- Of the binomial and of the beta distribution -----------------------------------------------------------


def _lead(x: Any) -> Any:
    """The first half of the digits of x: products of halves are exact."""
    info = dtypes.finfo(aval_of(x).dtype)
    lead = reduce_precision_p.bind(x, exponent_bits=int(info.nexp), mantissa_bits=(int(info.nmant) - 1) // 2)
    return where(is_finite(lead), lead, x)


def excess_over_mean(a: Any, b: Any, x: Any) -> Any:
    """a - (a + b) x = a (1 - x) - b x for 0 < x < 1, whose terms cancel near the mean, by exact products of halves."""
    total, lost = sum_and_error(a, b)
    mirrored = gt(x, 0.5)  # where 1 - x is exact
    start, share = where(mirrored, b, a), where(mirrored, sub(1, x), x)
    m, y = _lead(total), _lead(share)
    m_rest, y_rest = sub(total, m), sub(share, y)
    excess = sub(sub(sub(start, mul(m, y)), mul(m, y_rest)), mul(m_rest, y))
    excess = sub(sub(excess, mul(m_rest, y_rest)), mul(lost, share))
    return where(mirrored, neg(excess), excess)


def binomial_factors(a: Any, b: Any, x: Any, drop: int) -> tuple[Any, Any]:
    """x^(a - drop) (1 - x)^(b - drop) Gamma(a + b + 1 - drop) / (Gamma(a + 1 - drop) Gamma(b + 1 - drop)).

    For 0 < x < 1, as a factor that neither overflows nor vanishes, and the logarithm of the other. What is large is by
    Stirling's series.
    """
    excess, rest, is_first = excess_over_mean(a, b, x), sub(1, x), le(a, b)
    low, high = min_(a, b), max_(a, b)
    low_share, high_share = where(is_first, x, rest), where(is_first, rest, x)
    low_excess, high_excess = where(is_first, excess, neg(excess)), where(is_first, neg(excess), excess)
    usable, large = ge(high, _LARGE), ge(low, _LARGE)
    high = where(usable, high, like(_LARGE, a))
    total = add(low, high)
    share = sub(
        stirling(total), add(stirling(high), deviance(high, mul(total, high_share), high_excess, drop))
    )
    n, mean = where(large, low, like(_LARGE, a)), mul(total, low_share)
    both = sub(share, add(stirling(n), deviance(n, mean, low_excess, drop)))
    # For a small parameter it is nearly that of the gamma distribution at (a + b) x.
    one = sub(add(share, times_logarithm(sub(low, drop), mean, log)), add(mean, lgamma(add(low, 1 - drop))))
    factor = mul(where(large, sqrt(div(0.5 / math.pi, n)), like(1, a)), sqrt(div(total, high)))
    factor = mul(factor, total) if drop else factor
    gammas = [gamma_of(add(where(usable, like(1, y), y), 1 - drop)) for y in (add(a, b), a, b)]
    ways = mul(mul(gammas[0], div(1, gammas[1])), div(1, gammas[2]))
    direct = add(times_logarithm(sub(a, drop), x, log), mul(sub(b, drop), log1p(neg(x))))
    return where(usable, factor, ways), where(usable, where(large, both, one), direct)


def _log_binomial(a: Any, b: Any, x: Any, drop: int = 0) -> Any:
    inside = and_(gt(x, 0), lt(x, 1))
    within = _log_binomial_within(a, b, where(inside, x, like(0.5, x)), drop)
    power, other = where(eq(x, 0), a, b), where(eq(x, 0), b, a)
    at_end = where(eq(power, drop), like(0, x) if drop == 0 else log(other), like(-math.inf, x))
    at_end = where(lt(power, drop), like(math.inf, x), at_end)
    return where(inside, within, where(ge(mul(x, sub(1, x)), 0), at_end, like(math.nan, x)))


def _log_binomial_within(a: Any, b: Any, x: Any, drop: int) -> Any:
    if is_single(x):
        value = in_float64(lambda a, b, x: double.logarithm_of(double.binomial(a, b, x, drop)))(a, b, x)
    else:
        factor, exponent = binomial_factors(a, b, x, drop)
        value = add(log(factor), exponent)
    # Where only a power of x, or of 1 - x, is left, the logarithm may be next to 0.
    of_rest = eq(a, drop)
    other = where(of_rest, b, a)
    power = mul(sub(other, drop), where(of_rest, log1p(neg(x)), log(x)))
    return where(or_(of_rest, eq(b, drop)), add(power, log(other)) if drop else power, value)


def _slope_by_binomial_parameter(a: Any, b: Any, x: Any, rest: Any, excess: Any, drop: int) -> Any:
    """log(x) - digamma(a + 1 - drop) + digamma(a + b + 1 - drop), with rest = 1 - x and excess = a - (a + b) x."""
    large = ge(a, _LARGE)
    n = where(large, a, like(_LARGE, a))
    total = add(n, b)
    drift = sub(_log_over_digamma(n), _log_over_digamma(total))
    drift = drift if drop else sub(drift, div(div(b, n), total))
    log_x = where(gt(x, 0.5), log1p(neg(rest)), log(x))
    usual = sub(log_x, digamma_drop(add(a, 1 - drop), b))
    return where(large, add(_log_of_mean(n, mul(total, x), excess), drift), usual)


def _slope_by(first: bool, drop: int) -> Any:
    """The operation that is the derivative by the first or the second parameter."""

    def formula(a: Any, b: Any, x: Any) -> Any:
        excess, rest = excess_over_mean(a, b, x), sub(1, x)
        if first:
            return _slope_by_binomial_parameter(a, b, x, rest, excess, drop)
        return _slope_by_binomial_parameter(b, a, rest, x, neg(excess), drop)

    def in_double(a: Any, b: Any, x: Any) -> Any:
        near, far, share = (a, b, x) if first else (b, a, sub(1, x))
        return double.digamma_rise(add(near, 1 - drop), far, share)

    slope = by_size(formula, in_double)

    # log(x) - digamma(a + 1 - drop) + digamma(a + b + 1 - drop), or the same with a, b and x replaced by b, a and 1 - x
    def by_own(near: Any, far: Any) -> Any:
        return neg(trigamma_drop(add(near, 1 - drop), far))

    def by_other(near: Any, far: Any) -> Any:
        return trigamma(add(add(near, 1 - drop), far))

    rules = [
        lambda t, y, a, b, x: mul(t, by_own(a, b) if first else by_other(b, a)),
        lambda t, y, a, b, x: mul(t, by_other(a, b) if first else by_own(b, a)),
        lambda t, y, a, b, x: div(t, x if first else sub(x, 1)),
    ]
    name = f"{'log_beta_density' if drop else 'log_binomial'}_by_{'first' if first else 'second'}"
    return composed(name, slope, *rules)


SLOPES = {(first, drop): _slope_by(first, drop) for first in (True, False) for drop in (0, 1)}


def _by_parameter(first: bool, drop: int) -> Any:
    return lambda t, y, *xs: mul(t, SLOPES[first, drop](*xs))


def slope_by_share(a: Any, b: Any, x: Any, drop: int) -> Any:
    """(a - drop) / x - (b - drop) / (1 - x), also near where the terms cancel, and at an end where one is 0 / 0."""
    p, q, rest = sub(a, drop), sub(b, drop), sub(1, x)
    cancels = and_(gt(mul(p, q), 0), and_(gt(x, 0), lt(x, 1)))
    one, half = like(1, x), like(0.5, x)
    sizes = [where(cancels, abs_(y), one) for y in (p, q)]
    excess = excess_over_mean(sizes[0], sizes[1], where(cancels, x, half))
    excess = div(where(lt(p, 0), neg(excess), excess), where(cancels, mul(x, rest), one))
    none = [or_(cancels, and_(eq(y, 0), eq(z, 0))) for y, z in ((p, x), (q, rest))]
    first, last = [
        div(y, where(absent, one, z)) for absent, y, z in zip(none, (p, q), (x, rest), strict=True)
    ]
    return where(cancels, excess, sub(first, last))


log_binomial = composed(
    "log_binomial",
    _log_binomial,
    _by_parameter(True, 0),
    _by_parameter(False, 0),
    lambda t, y, a, b, x: mul(t, slope_by_share(a, b, x, 0)),
)
log_beta_density = composed(
    "log_beta_density",
    lambda a, b, x: _log_binomial(a, b, x, drop=1),
    _by_parameter(True, 1),
    _by_parameter(False, 1),
    lambda t, y, a, b, x: mul(t, slope_by_share(a, b, x, 1)),
)

# log(1 + k / n), which nbinom has beside a binomial probability. In its derivative, the product of two divisors (which
# XLA makes of two quotients) would vanish for a small n.
log1p_quotient = composed(
    "log1p_quotient",
    lambda k, n: log1p(div(k, n)),
    lambda t, y, k, n: div(t, add(n, k)),
    lambda t, y, k, n: neg(mul(t, mul(div(k, n), div(1, add(n, k))))),
)

# --- Student's, of float32 numbers --------------------------------------------------------------------------

log_t_density_by_freedom = composed(
    "log_t_density_by_freedom",
    in_float64(double.log_t_density_by_freedom),
    lambda t, y, z, df: mul(t, slope_of(in_float64(double.t_density_slope), 1)(z, df)),
    lambda t, y, z, df: mul(t, in_float64(double.t_density_curve)(z, df)),
)
log_t_density = composed(
    "log_t_density",
    in_float64(lambda z, df: double.logarithm_of(double.t_density(z, df))),
    lambda t, y, z, df: mul(t, in_float64(double.t_density_slope)(z, df)),
    lambda t, y, z, df: mul(t, log_t_density_by_freedom(z, df)),
)
