"""The gamma function, its quotients and powers of float32 numbers, by formulas in float64.

    gamma(x), beta(a, b), poch(z, m)     as in `gamma.py`, `beta.py` and `gamma_quotients.py`
    number_of_ways(n, k)                 binomial coefficients, as in `beta.py`
    power_of_gamma(a, x), binomial(...)  the densities of `densities.py`, each as a `Power`
    digamma(x), trigamma(x)              the first two derivatives of log(Gamma(x))

In float64 nothing that leads to a float32 number overflows, and what cancels leaves enough digits. So one formula holds
everywhere, without branches and loops for what it cannot do: Gamma(x) = Gamma(x + 4) / (x (x + 1) (x + 2) (x + 3)), and
Stirling's series of x + 4. It compiles in a third of the time of the formulas in float32, and is faster. Logarithms
have the base 2, for which `elementwise/vectorized.py` has fast ones. A function of this file takes float64 arrays that
hold float32 numbers. Read next: `gamma.py`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from didax.primitives.composed import like, polynomial
from didax.primitives.elementwise import (
    RoundingMethod,
    abs_,
    add,
    and_,
    div,
    eq,
    floor,
    le,
    lt,
    max_,
    min_,
    mul,
    ne,
    neg,
    or_,
    round_,
    sqrt,
    square,
    sub,
)
from didax.primitives.elementwise.vectorized import exponential2, logarithm2, power_of_share
from didax.primitives.select import where

_SHIFT = 4  # from here on few terms of the series have the digits of float32
# Fitted at Chebyshev nodes, in u = 1 / y^2 for y >= 4: y times what Stirling's logarithm lacks, to 2**-30; y^2 times
# log(y) - 1 / (2 y) - digamma(y), to 2**-27; y^3 times trigamma(y) - 1 / y - 1 / (2 y^2), to 2**-25. And sin(pi z) / z
# in z^2 for |z| up to 1/2, to 2**-35.
_STIRLING = (0.08333333325536134, -0.0027777376965392093, 0.0007903748842643675, -0.0005066983344753814)
_DIGAMMA = (0.08333333266685727, -0.008332990442612445, 0.003940102003052192, -0.003397054066659133)
_TRIGAMMA = (0.1666666603606629, -0.033330085996441945, 0.023541599166016534, -0.025917629698321062)
_SINE = (
    3.141592653536132, -5.167712764593, 2.550163317938427, -0.599252186531583, 0.08205035020147247,
    -0.007028303855203096,
)  # fmt: skip
_VAST = 1e60  # in place of infinity: the results are beyond float32, too
_LOG2_E = 1 / math.log(2)
_ROOT = math.sqrt(2 * math.pi)


class Power(NamedTuple):
    """factor * 2**exponent, for a factor that is positive."""

    factor: Any
    exponent: Any


def ratio(x: Any, y: Any) -> Any:
    """x / y, nearly: XLA makes a kernel of its own of a quotient that several operations read, but not of 1 / y."""
    return mul(x, div(1, y))


def value_of(power: Power) -> Any:
    """The value of a power, to be rounded to float32."""
    return mul(power.factor, exponential2(power.exponent, 1000.0))


def logarithm_of(power: Power, times: Any = None) -> Any:
    """The natural logarithm of a power, or of `times` the power."""
    factor = power.factor if times is None else mul(power.factor, times)
    return mul(add(logarithm2(factor), power.exponent), math.log(2))


def log_quotient(x: Any, y: Any) -> Any:
    """log(x / y), for x and y above 0."""
    return mul(logarithm2(ratio(x, y), ratio(sub(x, y), y)), math.log(2))


def log1p_square(x: Any) -> Any:
    """log(1 + x^2)."""
    return mul(logarithm2(add(square(x), 1), square(x)), math.log(2))


def _steps(x: Any) -> Any:
    """x (x + 1) (x + 2) (x + 3)."""
    return mul(mul(x, add(x, 3)), mul(add(x, 1), add(x, 2)))


def _stirling(y: Any) -> Any:
    """log2 of Gamma(y) over its leading term, for y >= 4."""
    inverse = div(1, y)
    return mul(mul(inverse, polynomial(square(inverse), _STIRLING)), _LOG2_E)


def _whole(x: Any) -> Any:
    return round_(x, rounding_method=RoundingMethod.TO_NEAREST_EVEN)


def parity(whole: Any) -> Any:
    """(-1)^n for whole numbers n; also of float32 arrays."""
    half = mul(whole, 0.5)
    return where(ne(floor(half), half), like(-1, whole), like(1, whole))


def sine_of_turn(z: Any) -> Any:
    """sin(pi z) for |z| up to 1/2; also of float32 arrays."""
    return mul(z, polynomial(square(z), _SINE))


def turn(x: Any) -> tuple[Any, Any]:
    """sin(pi x) and cos(pi x)."""
    whole = _whole(x)
    z, sign = sub(x, whole), parity(whole)
    return mul(sine_of_turn(z), sign), mul(sine_of_turn(sub(0.5, abs_(z))), sign)


def sine_of_turns(x: Any, y: Any = None) -> Any:
    """sin(pi x), or sin(pi (x + y)), of numbers whose sum may be rounded."""
    whole = _whole(x)
    z = sub(x, whole)
    if y is not None:
        more = _whole(y)
        z = add(z, sub(y, more))
        turn = _whole(z)
        z, whole = sub(z, turn), add(add(whole, more), turn)
    return mul(sine_of_turn(z), parity(whole))


# --- The gamma function and its quotients -------------------------------------------------------------------


def _positive_gamma(x: Any) -> Any:
    x = min_(x, like(40, x))  # Gamma has overflown there
    y = add(x, _SHIFT)
    exponent = add(sub(mul(sub(y, 0.5), logarithm2(y)), mul(y, _LOG2_E)), _stirling(y))
    return mul(ratio(_ROOT, _steps(x)), exponential2(exponent))


def gamma(x: Any) -> Any:
    """Gamma(x); NaN at the negative integers, where its sign is not known."""
    size = abs_(x)
    value = _positive_gamma(size)
    mirrored = ratio(-math.pi, mul(mul(sine_of_turns(size), value), size))
    mirrored = where(eq(size, _whole(size)), like(math.nan, x), mirrored)
    value = where(lt(x, 0), mirrored, value)
    return where(eq(x, 0), div(1, x), where(eq(x, x), value, x))


def _positive_beta(a: Any, b: Any, total: Any) -> Power:
    """B(a, b) for 0 < a <= b, with their sum."""
    low, high, end = add(a, _SHIFT), add(b, _SHIFT), add(total, _SHIFT)
    share = ratio(low, end)
    exponent = mul(sub(low, 0.5), logarithm2(share))
    exponent = add(exponent, mul(sub(high, 0.5), logarithm2(ratio(high, end), neg(ratio(a, end)))))
    exponent = add(exponent, sub(add(_stirling(low), _stirling(high)), _stirling(end)))
    factor = ratio(mul(ratio(_steps(total), _steps(b)), mul(mul(square(end), end), sqrt(end))), _steps(a))
    return Power(mul(factor, _ROOT * math.exp(-_SHIFT)), exponent)


def beta(a: Any, b: Any) -> tuple[Any, Power]:
    """Sign and size of B(a, b), where neither a nor b nor their sum is a pole of Gamma; by Gamma(x) Gamma(1 - x)."""
    endless = eq(max_(a, b), math.inf)
    a, b = [min_(x, like(_VAST, x)) for x in (min_(a, b), max_(a, b))]
    total = add(a, b)
    negative, both, below = lt(a, 0), lt(b, 0), lt(total, 0)
    inverted = and_(negative, or_(both, lt(0, total)))
    p = where(negative, where(and_(below, lt(0, b)), b, sub(1, a)), a)
    q = where(below, where(both, sub(1, b), sub(1, total)), where(negative, total, b))
    p, q = min_(p, q), max_(p, q)
    size = _positive_beta(p, q, add(p, q))
    of_a, of_b, of_total = sine_of_turns(a), sine_of_turns(b), sine_of_turns(a, b)
    over = where(negative, where(below, of_total, like(math.pi, a)), like(1, a))
    over = where(both, mul(over, math.pi), over)
    under = where(negative, of_a, like(1, a))
    under = where(both, mul(mul(under, of_b), sub(1, total)), where(inverted, mul(under, b), under))
    sines = ratio(over, under)
    factor = where(inverted, ratio(abs_(sines), size.factor), mul(abs_(sines), size.factor))
    sign = where(lt(sines, 0), like(-1, a), like(1, a))
    exponent = where(inverted, neg(size.exponent), size.exponent)
    limit = where(negative, like(math.inf, a), like(-math.inf, a))
    return sign, Power(where(endless, like(1, a), factor), where(endless, limit, exponent))


def number_of_ways(n: Any, k: Any) -> Power:
    """Gamma(n + 1) / (Gamma(k + 1) Gamma(n - k + 1)), for 0 <= k <= n."""
    n, k, rest = [min_(x, like(1e39, x)) for x in (n, k, sub(n, k))]
    inverse = _positive_beta(add(min_(k, rest), 1), add(max_(k, rest), 1), add(n, 2))
    return Power(div(1, mul(inverse.factor, add(n, 1))), neg(inverse.exponent))


def poch(over: Any, under: Any, difference: Any, lost: Any) -> tuple[Any, Power]:
    """Sign and size of Gamma(over + lost) / Gamma(under), neither of them at a pole, with over - under.

    `lost` is below the last digit of `over`.
    """
    mirrored, other = lt(over, 0), lt(under, 0)
    p, q = [
        min_(where(below, sub(1, x), x), like(_VAST, x)) for below, x in ((mirrored, over), (other, under))
    ]
    grown = where(lt(difference, 0), like(-math.inf, p), like(math.inf, p))
    alike = eq(where(mirrored, like(1, p), like(0, p)), where(other, like(1, p), like(0, p)))
    high, low = add(p, _SHIFT), add(q, _SHIFT)
    # How much the argument above exceeds that below, after they were mirrored.
    more = where(mirrored, neg(difference), difference)
    quotient = mul(sub(low, 0.5), logarithm2(ratio(high, low), ratio(more, low)))
    logs = sub(logarithm2(high), _LOG2_E)
    quotient = sub(add(add(quotient, mul(more, logs)), _stirling(high)), _stirling(low))
    product = add(mul(sub(high, 0.5), logs), mul(sub(low, 0.5), sub(logarithm2(low), _LOG2_E)))
    product = add(add(product, add(_stirling(high), _stirling(low))), -_LOG2_E)
    exponent = where(alike, quotient, product)
    steps, size = _steps(p), _steps(q)
    factor = where(alike, ratio(size, steps), ratio(2 * math.pi, mul(steps, size)))
    # That was Gamma(p) / Gamma(q), or Gamma(p) Gamma(q) where one of them is mirrored.
    exponent, factor = where(mirrored, neg(exponent), exponent), where(mirrored, div(1, factor), factor)
    of_over = where(mirrored, sine_of_turns(over, lost), like(1, p))
    of_under = where(other, sine_of_turns(under), like(1, p))
    sines = ratio(of_under, of_over)
    scale = where(alike, like(1, p), where(mirrored, like(math.pi, p), like(1 / math.pi, p)))
    sign = where(lt(sines, 0), like(-1, p), like(1, p))
    endless = eq(under, math.inf)
    factor = where(endless, like(1, p), mul(factor, mul(abs_(sines), scale)))
    return sign, Power(factor, where(endless, grown, exponent))


# --- Derivatives of its logarithm ---------------------------------------------------------------------------


def sine_and_cosine(x: Any) -> tuple[Any, Any]:
    """sin(pi x) and cos(pi x), or both with their signs reversed."""
    z = sub(x, _whole(x))
    return sine_of_turn(z), sine_of_turn(sub(0.5, abs_(z)))


def digamma(x: Any) -> Any:
    """digamma(x); NaN at 0 and the negative integers."""
    left = lt(x, 0)
    size = where(left, sub(1, x), x)
    y = add(size, _SHIFT)
    inverse = div(1, y)
    series = mul(square(inverse), polynomial(square(inverse), _DIGAMMA))
    value = sub(sub(mul(logarithm2(y), math.log(2)), mul(inverse, 0.5)), series)
    for k in range(_SHIFT):
        value = sub(value, div(1, add(size, k)))
    sine, cosine = sine_and_cosine(x)
    mirrored = sub(value, mul(ratio(cosine, sine), math.pi))
    value = where(left, mirrored, value)
    return where(and_(le(x, 0), eq(sine, 0)), like(math.nan, x), value)


def digamma_rise(a: Any, b: Any, times: Any = None) -> Any:
    """digamma(a + b) - digamma(a) for positive a and a + b, as multiples of b; plus log(times), if that is given."""
    total = add(a, b)
    low, high = add(a, _SHIFT), add(total, _SHIFT)
    inverses = [div(1, low), div(1, high)]
    u, v = map(square, inverses)
    # _DIGAMMA's polynomial p, and (u p(u) - v p(v)) / (u - v)
    value, difference = like(_DIGAMMA[-1], a), like(0, a)
    for c in (*_DIGAMMA[-2::-1], 0):
        difference = add(mul(difference, u), value)
        value = add(mul(value, v), c)
    share = mul(b, mul(*inverses))
    rest = mul(difference, mul(share, add(*inverses)))
    scale, excess = mul(high, inverses[0]), mul(b, inverses[0])
    if times is not None:
        scale, excess = mul(scale, times), mul(sub(mul(high, times), low), inverses[0])
    rise = add(add(mul(logarithm2(scale, excess), math.log(2)), mul(share, 0.5)), rest)
    for k in range(_SHIFT):
        rise = add(rise, mul(b, mul(div(1, add(a, k)), div(1, add(total, k)))))
    return rise


def trigamma(x: Any) -> Any:
    """trigamma(x), the derivative of digamma; infinite at 0 and the negative integers."""
    left = lt(x, 0)
    size = where(left, sub(1, x), x)
    y = add(size, _SHIFT)
    inverse = div(1, y)
    u = square(inverse)
    value = add(inverse, add(mul(u, 0.5), mul(mul(u, inverse), polynomial(u, _TRIGAMMA))))
    for k in range(_SHIFT):
        value = add(value, square(div(1, add(size, k))))
    sine, _ = sine_and_cosine(x)
    return where(left, sub(square(ratio(math.pi, sine)), value), value)


# Euler and Maclaurin's formula: a sum is its first terms, and for the others their integral, half of the first of them,
# and a series of derivatives, whose coefficients B(2 k) / (2 k)! are these.
EULER_MACLAURIN = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000,
)  # fmt: skip


def zeta(s: Any, q: Any) -> Any:
    """Hurwitz's zeta(s, q), for s > 1 and q > 0."""
    return value_of(_zeta(s, q))


def gamma_times_zeta(s: Any, q: Any) -> Any:
    """Gamma(s) zeta(s, q), for s > 1 and q > 0, whose factors may overflow and vanish."""
    size, y = _zeta(s, q), add(s, _SHIFT)
    of_gamma = add(add(mul(sub(y, 0.5), logarithm2(y)), mul(y, -_LOG2_E)), _stirling(y))
    return value_of(Power(ratio(mul(size.factor, _ROOT), _steps(s)), add(size.exponent, of_gamma)))


def _zeta(s: Any, q: Any) -> Power:
    """q^-s times the sum of (q / (q + k))^s, by three terms and Euler and Maclaurin's formula."""
    s, q = min_(s, like(1e39, s)), min_(q, like(1e39, q))
    start = max_(q, like(1e-60, q))
    powers = [power_of_share(ratio(start, add(start, k)), s) for k in range(1, 4)]
    first, last = add(q, 3), powers[-1]
    factor, series = ratio(s, first), like(0.5, q)
    for k, coefficient in enumerate(EULER_MACLAURIN[:6]):
        series = add(series, mul(factor, coefficient))
        factor = mul(factor, mul(ratio(add(s, 2 * k + 1), first), ratio(add(s, 2 * k + 2), first)))
    total = mul(last, add(ratio(first, sub(s, 1)), series))
    total = add(where(lt(last, 1e-15), like(0, q), total), 1)
    for power in powers[:-1]:
        total = add(total, power)
    exponent = neg(mul(s, logarithm2(q)))
    return Power(total, where(eq(q, 0), like(math.inf, q), exponent))


# --- Densities ----------------------------------------------------------------------------------------------


def _times(power: Any, logarithm: Any) -> Any:
    """The power times the logarithm, 0 where the power is 0."""
    return where(eq(power, 0), like(0, power), mul(power, logarithm))


def _share_of_steps(x: Any, y: Any) -> Any:
    """x (x + 1) (x + 2) (x + 3) / y^4, for y = x + 4."""
    return mul(ratio(mul(x, add(x, 3)), square(y)), ratio(mul(add(x, 1), add(x, 2)), square(y)))


def power_of_gamma(a: Any, x: Any, drop: int = 0) -> Power:
    """x^(a - drop) exp(-x) / Gamma(a + 1 - drop), for positive arguments."""
    a, x = min_(a, like(_VAST, a)), min_(x, like(_VAST, x))
    start = add(a, 1 - drop)
    y = add(start, _SHIFT)
    less = ratio(sub(x, y), y)
    exponent = _times(sub(a, drop), logarithm2(ratio(x, y), less))
    exponent = sub(add(exponent, mul(sub(y, x), _LOG2_E)), _stirling(y))
    return Power(ratio(_share_of_steps(start, y), mul(sqrt(y), _ROOT)), exponent)


def binomial(a: Any, b: Any, x: Any, drop: int = 0) -> Power:
    """x^(a - drop) (1 - x)^(b - drop) Gamma(a + b + 1 - drop) / (Gamma(a + 1 - drop) Gamma(b + 1 - drop)).

    For 0 < x < 1. The excess of x over the mean is computed once: its rounding error changes the two powers by inverse
    factors.
    """
    a, b = min_(a, like(_VAST, a)), min_(b, like(_VAST, b))
    starts = [add(y, 1 - drop) for y in (a, b, add(a, b))]
    ends = [add(y, _SHIFT) for y in starts]
    (first, last, total), rest = ends, sub(1, x)
    excess = sub(mul(x, sub(b, drop)), mul(rest, sub(a, drop)))
    excess = add(excess, sub(mul(x, 2 * drop + _SHIFT + 1 - drop), _SHIFT + 1))  # x total - first
    powers = [
        _times(sub(y, drop), logarithm2(ratio(mul(share, total), end), ratio(over, end)))
        for y, share, end, over in ((a, x, first, excess), (b, rest, last, sub(drop - _SHIFT - 1, excess)))
    ]
    terms = [_stirling(end) for end in ends]
    exponent = add(add(*powers), sub(sub(terms[2], terms[0]), terms[1]))
    shares = [_share_of_steps(start, end) for start, end in zip(starts, ends, strict=True)]
    factor = mul(ratio(mul(shares[0], shares[1]), shares[2]), sqrt(ratio(ratio(total, first), last)))
    factor = mul(factor, math.exp(_SHIFT + 1 - drop) / _ROOT)
    return Power(mul(factor, total) if drop else factor, exponent)


def t_density(z: Any, df: Any) -> Power:
    """Student's density of df > 0 degrees of freedom at z."""
    df = min_(df, like(_VAST, df))
    half = mul(df, 0.5)
    low, high = add(half, _SHIFT), add(half, _SHIFT + 0.5)
    inverse = div(1, low)
    exponent = mul(sub(low, 0.5), logarithm2(mul(high, inverse), mul(inverse, 0.5)))
    exponent = add(
        exponent, sub(mul(sub(logarithm2(high), _LOG2_E), 0.5), sub(_stirling(low), _stirling(high)))
    )
    factor = mul(_steps(half), div(1, mul(_steps(add(half, 0.5)), sqrt(mul(df, math.pi)))))
    ratio_ = mul(square(z), div(1, df))
    power = mul(mul(add(df, 1), 0.5), logarithm2(add(ratio_, 1), ratio_))
    return Power(factor, sub(exponent, power))


def t_density_slope(z: Any, df: Any) -> Any:
    """The derivative of `log_t_density` by z, of operations that have derivatives themselves."""
    df = min_(df, like(_VAST, df))
    return mul(neg(mul(add(df, 1), z)), div(1, add(df, square(z))))


# Of digamma(h + 1/2) - digamma(h) - 1 / (2 h) for h = df / 2, in 1 / df^2, less one factor.
_FREEDOM = (0.5, -0.25, 0.5, -17 / 8, 31 / 2, -691 / 4)


def log_t_density_by_freedom(z: Any, df: Any) -> Any:
    """The derivative of `log_t_density` by df; where its two pairs of terms cancel, series are used."""
    df = min_(df, like(_VAST, df))
    inverse = div(1, df)
    near = sub(digamma_rise(mul(min_(df, like(12, df)), 0.5), like(0.5, df)), inverse)
    drift = where(lt(12, df), mul(square(inverse), polynomial(square(inverse), _FREEDOM)), near)
    w = mul(square(z), inverse)
    share, small = div(1, add(w, 1)), min_(w, like(0.01, w))
    series = mul(square(small), polynomial(small, (-1 / 2, 2 / 3, -3 / 4, 4 / 5, -5 / 6)))
    bend = sub(sub(1, share), mul(logarithm2(add(w, 1), w), math.log(2)))  # w / (1 + w) - log(1 + w)
    bend = where(lt(w, 0.01), series, bend)
    return mul(add(add(drift, bend), mul(mul(w, share), inverse)), 0.5)


def t_density_curve(z: Any, df: Any) -> Any:
    """The second derivative of `log_t_density` by df, of operations that have derivatives themselves."""
    df = min_(df, like(_VAST, df))
    inverse = div(1, df)
    half = mul(min_(df, like(12, df)), 0.5)
    near = add(mul(sub(trigamma(add(half, 0.5)), trigamma(half)), 0.5), square(inverse))
    terms = [-2 * (k + 1) * c for k, c in enumerate(_FREEDOM)]
    far = mul(mul(square(inverse), inverse), polynomial(square(inverse), terms))
    drift = where(lt(12, df), far, near)
    rest = sub(1, div(1, add(mul(square(z), inverse), 1)))
    turned = mul(square(inverse), mul(rest, sub(2, rest)))
    return mul(add(drift, sub(mul(square(rest), inverse), turned)), 0.5)
