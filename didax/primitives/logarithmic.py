"""Functions made of logarithms whose own derivatives are finite where those of their parts are not.

    xlogy(x, y)     x log y, and 0 where x is 0           entropies and likelihoods at probability 0
    xlog1py(x, y)   x log(1 + y), and 0 where x is 0
    entr(x)         -x log x, 0 at 0 and -inf below
    rel_entr(p, q)  p log(p / q), and 0 where p is 0; kl_div(p, q) is p log(p / q) - p + q
    log_quotient(p, q)  log(p / q)
    logit(x)        log(x / (1 - x))
    spence(x)       the integral of log(t) / (1 - t) from 1 to x
    excess(x, y)    x - y, and 0 for equal infinities
    logaddexp(x, y)  log(exp(x) + exp(y)), without overflow
    log1mexp(x)     log(1 - exp(-x))
    hypot(x, y)     sqrt(x^2 + y^2), without overflow
    boxcox(p, x)    (x^p - 1) / p, and log x where p is 0; boxcox1p(p, x) is that of 1 + x

Each derivative is given in the form that does not cancel or divide 0 by 0. Read next: `didax/scipy/special.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from didax.primitives import gamma_in_double as double
from didax.primitives.composed import composed, derivatives, like, polynomial, slopes
from didax.primitives.elementwise import (
    abs_,
    add,
    and_,
    atan2,
    div,
    eq,
    exp,
    expm1,
    ge,
    gt,
    log,
    log1p,
    logistic,
    lt,
    max_,
    min_,
    mul,
    ne,
    neg,
    not_,
    or_,
    pow_,
    sign,
    sqrt,
    square,
    sub,
)
from didax.primitives.gamma_quotients import artanh_series, small_bend, sum_and_error
from didax.primitives.narrow import halves_in_float32, in_float64, is_single
from didax.primitives.numpy_rules import count_nonzero
from didax.primitives.select import where


def times_logarithm(x: Any, y: Any, logarithm: Any) -> Any:
    """x logarithm(y); 0 where x is 0 and y is a number."""
    vanishes = and_(eq(x, 0), eq(y, y))
    return where(vanishes, like(0, x), mul(x, logarithm(where(vanishes, like(1, x), y))))


def _ratio(x: Any, y: Any) -> Any:
    """x / y, and 0 for 0 / 0, with the derivative of x / y elsewhere."""
    return div(x, where(and_(eq(x, 0), eq(y, 0)), like(1, y), y))


xlogy = composed(
    "xlogy",
    lambda x, y: times_logarithm(x, y, log),
    lambda t, z, x, y: mul(t, log(y)),
    lambda t, z, x, y: mul(t, _ratio(x, y)),
)
xlog1py = composed(
    "xlog1py",
    lambda x, y: times_logarithm(x, y, log1p),
    lambda t, z, x, y: mul(t, log1p(y)),
    lambda t, z, x, y: mul(t, _ratio(x, add(y, 1))),
)


def _entropy(x: Any) -> Any:
    below = lt(x, 0)
    value = times_logarithm(x, where(below, like(1, x), x), lambda y: neg(log(y)))
    return where(below, like(-math.inf, x), value)


# With the derivative of its own. That of x y for y = log(x) would have x / x, whose own derivatives cancel.
entr = composed("entr", _entropy, lambda t, y, x: mul(t, where(lt(x, 0), like(0, x), neg(add(log(x), 1)))))


def _log_far_ratio(p: Any, q: Any, ratio: Any) -> Any:
    """log(p / q) of positive numbers, also where the ratio itself over- or underflows: then it is scaled."""
    power = 64 if is_single(p) else 512
    one, shift = like(1, p), 2 * power * math.log(2)
    over, under = gt(ratio, 2.0**power), lt(ratio, 2.0**-power)
    large, small = like(2.0**power, p), like(2.0**-power, p)
    p_scaled = mul(p, where(over, small, where(under, large, one)))
    scaled = div(p_scaled, mul(q, where(over, large, where(under, small, one))))
    return add(log(scaled), where(over, like(shift, p), where(under, like(-shift, p), like(0, p))))


def _log_ratio(p: Any, q: Any) -> Any:
    """log(p / q) of positive numbers: precise near 1, where it is 2 artanh((p - q) / (p + q))."""
    if is_single(p):
        return in_float64(double.log_quotient)(p, q)
    ratio = div(p, q)
    near = and_(gt(ratio, 0.5), lt(ratio, 2))
    v = where(near, div(sub(p, q), q), like(0, p))
    r = div(v, add(v, 2))  # p + q may overflow
    return where(near, mul(mul(r, 2), artanh_series(square(r))), _log_far_ratio(p, q, ratio))


log_quotient = composed(
    "log_quotient", _log_ratio, lambda t, z, p, q: div(t, p), lambda t, z, p, q: neg(div(t, q))
)


def _relative_entropy(p: Any, q: Any, positive: Any, value: Any) -> Any:
    """p times the logarithm that is `value` where p and q are positive."""
    nothing = and_(eq(p, 0), ge(q, 0))
    outside = where(or_(ne(p, p), ne(q, q)), like(math.nan, p), like(math.inf, p))
    return where(positive, mul(p, value), where(nothing, like(0, p), outside))


def _rel_entr(p: Any, q: Any) -> Any:
    positive = and_(gt(p, 0), gt(q, 0))
    return _relative_entropy(p, q, positive, _log_ratio(*[where(positive, x, like(1, p)) for x in (p, q)]))


def _has_slope(p: Any, q: Any) -> Any:
    return and_(and_(ge(p, 0), ge(q, 0)), gt(add(p, q), 0))


rel_entr = composed(
    "rel_entr",
    _rel_entr,
    lambda t, z, p, q: mul(t, where(_has_slope(p, q), add(log_quotient(p, q), 1), like(0, p))),
    lambda t, z, p, q: neg(mul(t, where(_has_slope(p, q), _ratio(p, q), like(0, p)))),
)


def _kl_div(p: Any, q: Any) -> Any:
    """q (1 + u) log(1 + u) - q u with u = p / q - 1, which is p (m - log(1 + m)) with m = q / p - 1."""
    if is_single(p):
        return in_float64(_kl_div_in_double)(p, q)
    m = div(sub(q, p), p)
    near = and_(gt(p, 0), lt(abs_(m), 0.5))
    close = mul(p, small_bend(where(near, m, like(0, p))))
    relative = _relative_entropy(p, q, and_(gt(p, 0), gt(q, 0)), _log_far_ratio(p, q, div(p, q)))
    outside = eq(relative, math.inf)
    return where(near, close, where(outside, relative, add(relative, where(outside, like(0, p), sub(q, p)))))


def _kl_div_in_double(p: Any, q: Any) -> Any:
    positive = and_(gt(p, 0), gt(q, 0))
    relative = _relative_entropy(p, q, positive, double.log_quotient(p, q))
    return where(eq(relative, math.inf), relative, add(relative, sub(q, p)))


def _kl_div_by_q(p: Any, q: Any) -> Any:
    """1 - p / q, which keeps its digits where p and q are near."""
    gap = sub(q, p)
    near = lt(abs_(gap), mul(q, 0.5))
    return where(near, div(where(near, gap, q), q), sub(1, _ratio(p, q)))


kl_div = composed(
    "kl_div",
    _kl_div,
    lambda t, z, p, q: mul(t, where(_has_slope(p, q), log_quotient(p, q), like(0, p))),
    lambda t, z, p, q: mul(t, where(_has_slope(p, q), _kl_div_by_q(p, q), like(0, p))),
)


def _log1p_square(x: Any) -> Any:
    if is_single(x):
        return in_float64(double.log1p_square)(x)
    large = gt(abs_(x), 1e4)
    far = where(large, abs_(x), like(1, x))
    near = log1p(square(where(large, like(0, x), x)))
    return where(large, add(log1p(square(div(1, far))), mul(log(far), 2)), near)


def _log1p_square_slope(x: Any) -> Any:
    """2 x / (1 + x^2), which is the same of 1 / x."""
    large = gt(abs_(x), 1)
    y = where(large, div(1, where(large, x, like(1, x))), x)
    return div(mul(y, 2), add(square(y), 1))


log1p_square = composed("log1p_square", _log1p_square, lambda t, z, x: mul(t, _log1p_square_slope(x)))


def _of_halves_in_float32(rule: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A rule of NumPy that computes floats of 16 bits as they are lowered."""
    return lambda z: rule(z) if z.dtype.itemsize > 2 else rule(z.astype(np.float32)).astype(z.dtype)


# The share of the Cauchy distribution below z, arctan2(1, -z) / pi, and its density.
cauchy_density = composed(
    "cauchy_density",
    lambda z: div(1 / math.pi, add(square(z), 1)),
    lambda t, y, z: neg(mul(t, mul(y, _log1p_square_slope(z)))),
    eager=_of_halves_in_float32(lambda z: (1 / math.pi) / (z * z + 1)),
)
cauchy_share = composed(
    "cauchy_share",
    lambda z: mul(atan2(like(1, z), neg(z)), 1 / math.pi),
    lambda t, y, z: mul(t, cauchy_density(z)),
    eager=_of_halves_in_float32(lambda z: np.arctan2(z.dtype.type(1), -z) * (1 / math.pi)),
)


def _logit(x: Any) -> Any:
    """log(x / (1 - x)); near 1/2, where that is a small logarithm, 2 artanh(2 x - 1)."""
    d = sub(mul(x, 2), 1)
    near = lt(abs_(d), 1 / 3)
    d = where(near, d, like(0, x))
    far = log(div(x, sub(1, x)))
    return where(near, mul(mul(d, 2), artanh_series(square(d))), far)


logit = composed("logit", _logit, lambda t, y, x: div(t, mul(x, sub(1, x))))


# log(t) / (1 - t) = -w / (exp(w) - 1) * exp(w) at t = exp(-w): its integral in powers of w, by Bernoulli's numbers
_DEBYE = [
    1 / 36,
    -1 / 3600,
    1 / 211680,
    -1 / 10886400,
    1 / 526901760,
    -691 / 16999766784000,
    1 / 1120863744000,
]


def _spence(x: Any) -> Any:
    """By its reflections into [1/2, 2], where the series in log(x) converges fast."""
    high = and_(gt(x, 2), lt(x, math.inf))
    inner = where(high, div(1, where(high, x, like(2, x))), x)
    low = and_(lt(inner, 0.5), gt(inner, 0))
    small = where(low, inner, like(0.5, x))
    near = and_(ge(inner, 0.5), lt(inner, math.inf))
    w = neg(log(where(low, sub(1, small), where(near, inner, like(1, x)))))
    series = mul(w, add(add(mul(w, -0.25), 1), mul(square(w), polynomial(square(w), _DEBYE))))
    inside = where(low, sub(add(mul(log(small), w), math.pi**2 / 6), series), series)
    inside = where(eq(inner, 0), like(math.pi**2 / 6, x), inside)  # also where 1 / x vanishes
    inside = where(high, sub(mul(square(log(where(high, x, like(2, x)))), -0.5), inside), inside)
    inside = where(eq(x, math.inf), like(-math.inf, x), inside)
    inside = where(eq(x, 1), like(0, x), inside)  # which is -0.0 by the series
    return where(ge(x, 0), inside, like(math.nan, x))


def _spence_slope(x: Any) -> Any:
    """log(x) / (1 - x); near 1 by log(1 + d) = 2 artanh(d / (2 + d)), which is smooth to all orders."""
    d = sub(x, 1)
    near = lt(abs_(d), 0.5)
    close, far = where(near, d, like(0, x)), where(near, like(1, x), d)
    twice = add(close, 2)
    series = mul(div(2, twice), artanh_series(square(div(close, twice))))
    return neg(where(near, series, div(log(x), far)))


spence = composed("spence", _spence, lambda t, y, x: mul(t, _spence_slope(x)))

# --- Powers that become logarithms --------------------------------------------------------------------------


def _power_transform(power: Any, log_x: Any) -> Any:
    """expm1(u) / power with u = power log_x, and its limit log_x at power 0."""
    endless = eq(abs_(log_x), math.inf)
    finite = where(endless, like(0, log_x), log_x)
    u = mul(power, finite)
    tiny = lt(abs_(u), 1e-5)
    series = polynomial(u, [1, 1 / 2, 1 / 6])
    safe = where(tiny, like(1, u), min_(u, like(1e4, u)))  # whose power is infinite
    inside = mul(finite, where(tiny, series, div(expm1(safe), safe)))
    vanishes = and_(endless, lt(mul(sign(log_x), power), 0))  # x^power does
    limit = div(-1, where(vanishes, power, like(1, u)))
    limit = where(vanishes, limit, where(ne(power, power), power, log_x))
    return where(endless, limit, inside)


def _slope_by_power(power: Any, log_x: Any) -> Any:
    """Its derivative by the power: (exp(u) (u - 1) + 1) / power^2, for small u by a series."""
    endless = eq(abs_(log_x), math.inf)
    finite = where(endless, like(0, log_x), log_x)
    u = mul(power, finite)
    near = lt(abs_(u), 1)
    series = polynomial(where(near, u, like(0, u)), [(k + 1) / math.factorial(k + 2) for k in range(18)])
    vanishes = and_(endless, lt(mul(sign(log_x), power), 0))
    one = like(1, u)
    safe, divisor = where(near, one, u), where(and_(near, not_(vanishes)), one, power)
    far = div(div(where(vanishes, one, add(mul(exp(safe), sub(safe, 1)), 1)), divisor), divisor)
    inside = where(and_(near, not_(vanishes)), mul(square(finite), series), far)
    endless = and_(and_(endless, not_(vanishes)), eq(power, power))
    return where(endless, like(math.inf, u), inside)


def _power_less_one(power: Any, x: Any) -> Any:
    """x^(power - 1), for x >= 0: the derivative by x, which that of the logarithm would lose for small x."""
    ends = and_(eq(x, math.inf), lt(power, 1))  # where its derivatives vanish, as those of 0^2 by the power
    value = pow_(where(ends, like(0, x), x), where(ends, like(2, x), sub(power, 1)))
    return where(lt(x, 0), like(math.nan, x), value)


def _power_less_one_of_1p(power: Any, x: Any) -> Any:
    """(1 + x)^(power - 1), with what the rounding of 1 + x loses."""
    total, lost = sum_and_error(like(1, x), x)
    share = div(lost, where(gt(total, 0.5), total, like(1, x)))  # below, nothing is lost
    return mul(_power_less_one(power, total), add(mul(sub(power, 1), share), 1))


def _transform(name: str, logarithm: Callable[[Any], Any], by_x: Callable[[Any, Any], Any]) -> Any:
    by_power = derivatives(
        f"{name}_grad", "p", slopes("p", lambda by: lambda p, x: _slope_by_power(p, logarithm(x))), by_x
    )
    return composed(
        name,
        lambda p, x: _power_transform(p, logarithm(x)),
        lambda t, y, p, x: mul(t, by_power("p")(p, x)),
        lambda t, y, p, x: mul(t, by_x(p, x)),
    )


boxcox = _transform("boxcox", log, _power_less_one)
boxcox1p = _transform("boxcox1p", log1p, _power_less_one_of_1p)

# --- Differences and lengths --------------------------------------------------------------------------------


def _excess_eager(x: Any, y: Any) -> Any:
    difference = np.subtract(x, y)
    if count_nonzero(difference == difference) == difference.size:  # no infinity meets its equal
        return difference + x.dtype.type(0)  # -0.0 - 0.0 is 0.0, too
    return np.where(x == y, x.dtype.type(0), difference)


# What sums of exponentials shift by: exp(x - max) is 1 at the maximum, be it infinite, and its derivative is as well.
excess = composed(
    "excess",
    lambda x, y: where(eq(x, y), like(0, x), sub(x, y)),
    lambda t, z, x, y: t,
    lambda t, z, x, y: neg(t),
    eager=_excess_eager,
)


def _log_add_exp(x: Any, y: Any) -> Any:
    x_is_more = ge(x, y)
    larger, smaller = where(x_is_more, x, y), where(x_is_more, y, x)
    return add(larger, log1p(exp(excess(smaller, larger))))


def _log1mexp(x: Any) -> Any:
    return where(lt(x, math.log(2)), log(neg(expm1(neg(x)))), log1p(neg(exp(neg(x)))))


log1mexp = composed("log1mexp", _log1mexp, lambda t, z, x: neg(mul(t, div(exp(neg(x)), expm1(neg(x))))))

# The derivative by an operand is the share of its exponential in the sum.
logaddexp = composed(
    "logaddexp",
    _log_add_exp,
    halves_in_float32(lambda t, z, x, y: mul(t, logistic(excess(x, y)))),
    halves_in_float32(lambda t, z, x, y: mul(t, logistic(excess(y, x)))),
    eager=np.logaddexp,
)


def _hypot(x: Any, y: Any) -> Any:
    x, y = abs_(x), abs_(y)
    long, short = max_(x, y), min_(x, y)
    is_zero = eq(long, 0)
    ratio = div(short, where(is_zero, like(1, x), long))
    length = mul(long, sqrt(add(square(ratio), 1)))
    infinite = or_(eq(x, math.inf), eq(y, math.inf))
    return where(infinite, like(math.inf, x), where(is_zero, like(0, x), length))


hypot = composed(
    "hypot",
    _hypot,
    lambda t, z, x, y: mul(t, _ratio(x, z)),
    lambda t, z, x, y: mul(t, _ratio(y, z)),
    eager=np.hypot,
)
