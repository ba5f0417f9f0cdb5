"""Integrals of exponentials, sines and cosines.

    dawsn        exp(-x^2) times the integral of exp(t^2) from 0 to x
    sici         the integrals of sin(t) / t and cos(t) / t          fresnel  those of sin(pi t^2 / 2), cos(pi t^2 / 2)
    expn         the integral of exp(-x t) / t^n from 1 on
    owens_t      the integral of exp(-h^2 (1 + t^2) / 2) / (2 pi (1 + t^2)) from 0 to a

The equations are those of the NIST Digital Library of Mathematical Functions (DLMF), chapters 6 to 8. The tables of
Chebyshev coefficients (cut below 1e-17 of the largest) were computed with 40 digits from the definition. Derivatives
are those of the function. These primitives are loaded with `didax.scipy.special`, not before. Read next:
`hypergeometric.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from didax.core import dtypes
from didax.core.avals import aval_of
from didax.primitives import elementwise as el
from didax.primitives import integrals_in_double as double
from didax.primitives.composed import composed, gauss_legendre, iterate, like, polynomial, slope_of
from didax.primitives.elementwise import (
    abs_,
    add,
    and_,
    div,
    eq,
    exp,
    ge,
    gt,
    le,
    log,
    lt,
    mul,
    ne,
    neg,
    no_derivative,
    not_,
    or_,
    sub,
)
from didax.primitives.faddeeva import step_of
from didax.primitives.fitted import chebyshev, normal_share, normal_weight
from didax.primitives.gamma import digamma, lgamma
from didax.primitives.narrow import by_size, is_single
from didax.primitives.select import where
from didax.primitives.special import sinc

# fmt: off
_SICI_F = (
    0.9750955511968349, 0.037535076173331475, -0.01596201621885664, 0.003962800987383001,
    -0.0007302593053737661, 0.00011398231809627769, -1.763708024936964e-05, 2.9203175571665003e-06,
    -4.87780836660319e-07, 8.15357480596032e-08, -1.429885777581218e-08, 2.533231888963094e-09,
    -4.478248622798082e-10, 8.269644877158375e-11, -1.5222033429929525e-11, 2.7966765131627245e-12,
    -5.398903456215382e-13, 1.0103968550439497e-13, -1.923203567106943e-14, 3.858292523928427e-15,
    -7.131975957516121e-16, 1.444509560217599e-16, -2.9206177117494304e-17,
)  # fmt: skip
_SICI_G = (
    0.9354774742800651, 0.09528528155119607, -0.03729297230496898, 0.00726533461279506,
    -0.0007616924340107893, 2.452741669303489e-05, 2.24964408227214e-06, -3.399186162854597e-07,
    1.7846812887493148e-07, -4.6769129987543065e-08, 6.734854324165015e-09, -1.5909062736398312e-09,
    3.4846558077371e-10, -4.8718807053535766e-11, 1.2305214264200244e-11, -2.4589978909368493e-12,
    3.154789326518427e-13, -1.0563704277659675e-13, 1.582994203471488e-14, -2.1292043770333087e-15,
    1.0571129101739186e-15, -4.6927567539083e-17, 2.6436358487890786e-17, -1.0258511739606189e-17,
)  # fmt: skip

# fmt: on

# --- Sine and cosine integrals ------------------------------------------------------------------------------

# Below, power series (DLMF 6.6.5, 6.6.6); above, the auxiliary functions f and g (6.2.17, 6.2.18).
_NEAR = 4.0


def _series_of_sine(square: Any) -> Any:
    """Si(x) / x."""
    return polynomial(square, [(-1) ** k / ((2 * k + 1) * math.factorial(2 * k + 1)) for k in range(18)])


def _series_of_cosine(square: Any) -> Any:
    """Ci(x) without its singular part, euler_gamma + log(x)."""
    return polynomial(square, [0, *[(-1) ** k / (2 * k * math.factorial(2 * k)) for k in range(1, 19)]])


def _sine_and_cosine_far(x: Any) -> tuple[Any, Any]:
    """pi/2 - Si and Ci, for x > 4."""
    finite = where(lt(x, math.inf), x, like(_NEAR, x))
    y = sub(1, div(2 * (_NEAR + 6), add(finite, 6)))
    f = div(chebyshev(y, _SICI_F), finite)
    g = div(div(chebyshev(y, _SICI_G), finite), finite)
    sin, cos = el.sin(finite), el.cos(finite)
    zero = like(0, x)
    rest, ci = add(mul(f, cos), mul(g, sin)), sub(mul(f, sin), mul(g, cos))
    return [where(lt(x, math.inf), y, where(eq(x, x), zero, x)) for y in (rest, ci)]  # type: ignore[return-value]


def _si(x: Any) -> Any:
    size = abs_(x)
    near = le(size, _NEAR)
    small = where(near, x, like(0, x))
    far, _ = _sine_and_cosine_far(where(near, like(_NEAR, x), size))
    right = sub(math.pi / 2, far)
    return where(near, mul(small, _series_of_sine(el.square(small))), where(lt(x, 0), neg(right), right))


def _ci(x: Any) -> Any:
    size = abs_(x)
    near = le(size, _NEAR)
    small = where(near, size, like(1, x))
    series = add(add(log(small), np.euler_gamma), _series_of_cosine(el.square(small)))
    _, far = _sine_and_cosine_far(where(near, like(_NEAR, x), size))
    return where(near, series, far)


sine_over = composed(
    "sine_over", by_size(sinc, double.sine_over), lambda t, y, x: mul(t, slope_of(sinc, 0)(x))
)
sine_integral = composed(
    "sine_integral", by_size(_si, double.sine_integral), lambda t, y, x: mul(t, sine_over(x))
)
cosine_integral = composed("cosine_integral", by_size(_ci, double.cosine_integral),
                           lambda t, y, x: mul(t, div(el.cos(x), x)))  # fmt: skip

# --- Fresnel integrals --------------------------------------------------------------------------------------
# Below 1 the power series (DLMF 7.6.4, 7.6.6). Above, C + i S = (1 + i) / 2 (1 - exp(i pi x^2 / 2) w(z)) with
# z = sqrt(pi) / 2 (1 + i) x and Faddeeva's function w (7.5.9, 7.2.3), which is the trapezoidal sum of Note
# [Faddeeva] in `faddeeva.py`:
# far enough from the real axis it needs no other term.

STEP = step_of(12)
MIDPOINTS = [(k + 0.5) * STEP for k in range(12)]
POINTS = [(k + 1) * STEP for k in range(11)]


def _phase(x: Any) -> tuple[Any, Any]:
    """sin and cos of pi x^2 / 2. With x = n + f, x^2 is n^2 + (2 n + f) f, and of n^2 only n odd or even matters."""
    n = el.floor(add(x, 0.5))
    f = sub(x, n)
    odd = abs_(el.rem(n, 2))
    turns = add(odd, el.rem(mul(add(mul(n, 2), f), f), 4))
    angle = mul(turns, math.pi / 2)
    return el.sin(angle), el.cos(angle)


def _fresnel(x: Any) -> tuple[Any, Any]:
    size = abs_(x)
    near = lt(size, 1)
    small = where(near, size, like(0, x))
    q = mul(el.square(small), math.pi / 2)
    q2 = el.square(q)
    s = polynomial(q2, [(-1) ** k / (math.factorial(2 * k + 1) * (4 * k + 3)) for k in range(11)])
    c = polynomial(q2, [(-1) ** k / (math.factorial(2 * k) * (4 * k + 1)) for k in range(11)])
    s_near, c_near = mul(mul(small, q), s), mul(small, c)
    s_far, c_far = _fresnel_far(where(near, like(1, x), size))
    flip = lt(x, 0)
    return tuple([where(flip, neg(y), y) for y in (where(near, s_near, s_far), where(near, c_near, c_far))])  # type: ignore[return-value]


def _fresnel_far(x: Any) -> tuple[Any, Any]:
    """For x >= 1: z^2 = i y with y = pi x^2 / 2, so the sum has terms exp(-t^2) / (i y - t^2)."""
    end = 1e8 if is_single(x) else 1e17  # from there on both integrals round to 1/2
    huge = gt(x, end)
    size = where(huge, like(end, x), x)
    y = mul(el.square(size), math.pi / 2)
    y2 = el.square(y)
    weights = [math.exp(-(t**2)) for t in MIDPOINTS]
    inverses = [div(g, add(y2, t**4)) for t, g in zip(MIDPOINTS, weights, strict=True)]
    real = neg(_sum([mul(v, t**2) for t, v in zip(MIDPOINTS, inverses, strict=True)]))
    imaginary = neg(mul(y, _sum(inverses)))
    # w = (2 i h z / pi) (real + i imaginary), with i z = sqrt(pi) / 2 x (i - 1)
    factor = mul(size, STEP / math.sqrt(math.pi))
    w_real = neg(mul(factor, add(real, imaginary)))
    w_imag = mul(factor, sub(real, imaginary))
    w_real, w_imag = _add_pole(size, w_real, w_imag)
    sin, cos = _phase(size)
    a, b = sub(mul(cos, w_real), mul(sin, w_imag)), add(mul(sin, w_real), mul(cos, w_imag))
    s = where(huge, like(0.5, x), mul(sub(sub(1, a), b), 0.5))
    c = where(huge, like(0.5, x), mul(add(sub(1, a), b), 0.5))
    return where(eq(x, x), s, x), where(eq(x, x), c, x)


def _add_pole(x: Any, w_real: Any, w_imag: Any) -> tuple[Any, Any]:
    """Add 2 exp(-z^2) / (1 + exp(-2 pi i z / h)), with -2 pi i z / h = q (1 - i): less than exp(-q) for x >= 1."""
    q = mul(x, math.pi**1.5 / STEP)
    small = where(lt(q, 40), exp(neg(q)), like(0, x))
    sin, cos = el.sin(q), el.cos(q)
    # 1 / (1 + e^(q - i q)) = e^(-q + i q) / (1 + e^(-q + i q))
    re, im = mul(small, cos), mul(small, sin)
    below = add(el.square(add(re, 1)), el.square(im))
    re, im = div(add(re, el.square(small)), below), div(im, below)
    s, c = _phase(x)  # exp(-z^2) = c - i s
    return (
        add(w_real, mul(add(mul(c, re), mul(s, im)), 2)),
        add(w_imag, mul(sub(mul(c, im), mul(s, re)), 2)),
    )


def _sum(terms: list[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = add(total, term)
    return total


def _part(part: int, formula: Callable[[Any], Any], in_double: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return by_size(lambda x: formula(x)[part], lambda x: in_double(x)[part])


sine_of_square = composed("sine_of_square", _part(0, _phase, double.phase),
                          lambda t, y, x: mul(t, mul(mul(x, math.pi), cosine_of_square(x))))  # fmt: skip
cosine_of_square = composed("cosine_of_square", _part(1, _phase, double.phase),
                            lambda t, y, x: neg(mul(t, mul(mul(x, math.pi), sine_of_square(x)))))  # fmt: skip
fresnel_sine = composed(
    "fresnel_sine", _part(0, _fresnel, double.fresnel), lambda t, y, x: mul(t, sine_of_square(x))
)
fresnel_cosine = composed("fresnel_cosine", _part(1, _fresnel, double.fresnel),
                          lambda t, y, x: mul(t, cosine_of_square(x)))  # fmt: skip

# --- Dawson's integral --------------------------------------------------------------------------------------


def _dawsn(x: Any) -> Any:
    """sqrt(pi) / 2 times the imaginary part of w(x): see Note [Faddeeva]."""
    size = abs_(x)
    near, far = lt(size, 0.5), gt(size, 1e4)
    small = where(near, x, like(0, x))
    coefficients = [(-2.0) ** k / math.prod(range(1, 2 * k + 2, 2)) for k in range(14)]
    series = mul(small, polynomial(el.square(small), coefficients))
    middle = where(or_(near, far), like(1, x), size)
    inverse = div(0.5, where(far, size, like(1, x)))
    tail = add(inverse, mul(2, mul(inverse, el.square(inverse))))
    value = where(far, tail, _dawson_sum(middle))
    value = where(near, series, where(lt(x, 0), neg(value), value))
    return where(eq(x, x), value, x)


def _dawson_sum(x: Any) -> Any:
    square = el.square(x)
    position = div(x, STEP)
    fraction = sub(position, el.floor(position))
    at_midpoint = and_(gt(fraction, 0.25), lt(fraction, 0.75))  # then nodes at k h are farther away
    angle = mul(where(at_midpoint, sub(fraction, 0.5), fraction), math.pi)
    pole = el.tan(angle)  # which is -cot of an angle that is larger by pi / 2
    sums = []
    for nodes, used in ((POINTS, at_midpoint), (MIDPOINTS, el.not_(at_midpoint))):
        safe = where(used, square, like(-1, x))
        sums.append(_sum([div(math.exp(-(t**2)), sub(safe, t**2)) for t in nodes]))
    sums[0] = add(sums[0], div(0.5, square))  # the node at 0 counts once
    total = mul(where(at_midpoint, sums[0], sums[1]), mul(x, 2 * STEP / math.pi))
    return mul(add(total, mul(exp(neg(square)), pole)), math.sqrt(math.pi) / 2)


def _asymptotic(order: int, x: Any, large: Any) -> Any:
    """The derivative of -1 / (2 x^2) - 3 / (4 x^4) - ... of this order, 0 or 1, for large x."""
    x = where(large, x, like(10, x))
    inverse = div(1, el.square(x))
    terms = [-math.prod(range(1, 2 * k, 2)) / 2**k * (-2 * k) ** order for k in range(1, 14)]
    series = polynomial(inverse, [0, *terms])
    return div(series, x) if order else series


def _dawsn_slope(x: Any) -> Any:
    """1 - 2 x D(x), where that cancels by its asymptotic series."""
    large = gt(abs_(x), 10)
    middle = where(large, like(1, x), x)
    return where(large, _asymptotic(0, x, large), sub(1, mul(2, mul(middle, _dawsn(middle)))))


def _dawsn_curve(x: Any) -> Any:
    """-2 D(x) - 2 x D'(x), where that cancels by the same series."""
    large = gt(abs_(x), 5 if is_single(x) else 10)
    middle = where(large, like(1, x), x)
    near = mul(-2, add(dawsn(middle), mul(middle, dawsn_slope(middle))))
    return where(large, _asymptotic(1, x, large), near)


dawsn_slope = composed(
    "dawsn_slope", by_size(_dawsn_slope, double.dawsn_slope), lambda t, y, x: mul(t, _dawsn_curve(x))
)
dawsn = composed("dawsn", by_size(_dawsn, double.dawsn), lambda t, y, x: mul(t, dawsn_slope(x)))

# --- Generalised exponential integrals ----------------------------------------------------------------------


class _Continued(NamedTuple):
    n: Any
    c: Any
    d: Any
    h: Any


def _expn(n: Any, x: Any) -> Any:
    """E_n(x) for whole n >= 0 and x >= 0 by a power series (DLMF 8.19.8) below 1, by a continued fraction (8.19.17)
    above.
    """
    zero, one, nan = like(0, x), like(1, x), like(math.nan, x)
    near = le(x, 1)
    small = where(and_(near, gt(x, 0)), x, one)
    near_value = _expn_series(where(gt(n, 0), n, one), small)
    far_value = _expn_fraction(n, where(near, like(2, x), where(lt(x, math.inf), x, like(2, x))))
    inside = where(near, near_value, where(lt(x, math.inf), far_value, zero))
    inside = where(eq(n, 0), div(exp(neg(x)), x), inside)
    at_zero = where(gt(n, 1), div(1, sub(where(gt(n, 1), n, like(2, x)), 1)), like(math.inf, x))
    inside = where(eq(x, 0), at_zero, inside)
    valid = and_(and_(ge(x, 0), ge(n, 0)), eq(n, el.floor(n)))
    return where(valid, inside, where(ne(x, x), x, nan))


def _expn_series(n: Any, x: Any) -> Any:
    """For n >= 1 and 0 < x <= 1; n so large that a power of x vanishes leaves the sum alone."""
    zero, power, total = like(0, x), like(1, x), like(0, x)
    for m in range(22):
        gap = sub(m + 1, n)
        term = div(power, where(eq(gap, 0), like(1, x), gap))
        total = add(total, where(eq(gap, 0), zero, mul(term, 1 / math.factorial(m))))
        power = neg(mul(power, x))
    size = exp(sub(mul(sub(n, 1), log(x)), lgamma(n)))
    odd = eq(el.rem(n, 2), 1)
    first = mul(where(odd, size, neg(size)), sub(digamma(n), log(x)))
    return sub(first, total)


def _expn_fraction(n: Any, x: Any) -> Any:
    """exp(-x) / (x + n - 1 n / (x + n + 2 - 2 (n + 1) / (x + n + 4 - ...))), by Lentz's method."""
    b = add(x, n)
    d = div(1, b)
    eps = 2 * float(dtypes.finfo(aval_of(x).dtype).eps)

    def step(s: _Continued) -> _Continued:
        k = add(s.n, 1)
        numerator = neg(mul(k, add(n, sub(k, 1))))
        below = add(b, mul(k, 2))
        d = div(1, add(below, mul(numerator, s.d)))
        c = add(below, div(numerator, s.c))
        return _Continued(k, c, d, add(s.h, mul(s.h, sub(mul(c, d), 1))))

    def moves(s: _Continued) -> Any:
        return not_(le(abs_(sub(mul(s.c, s.d), 1)), eps))

    return mul(iterate(step, moves, _Continued(0, like(math.inf, x), d, d)).h, exp(neg(x)))


expn = composed(
    "expn",
    _expn,
    no_derivative("expn", "order"),
    lambda t, y, n, x: neg(mul(t, _expn_below(n, x))),
)


def _expn_below(n: Any, x: Any) -> Any:
    """E_(n-1)(x), where E_-1(x) = exp(-x) (1 + 1 / x) / x; NaN below 0, as E_n itself."""
    x_here = where(eq(n, 0), x, like(1, x))  # its derivatives may be infinite, and 0 times infinity is NaN
    lowest = mul(div(exp(neg(x_here)), x_here), add(div(1, x_here), 1))
    lowest = where(lt(x, 0), like(math.nan, x), lowest)
    return where(eq(n, 0), lowest, expn(where(eq(n, 0), like(1, x), sub(n, 1)), x))


# --- Owen's T function --------------------------------------------------------------------------------------


def _owens_t(h: Any, a: Any) -> Any:
    """By Gauss's quadrature for a <= 1; T(h, a) = (Q(h) + Q(ah)) / 2 - Q(h) Q(ah) - T(ah, 1/a) above, Q = 1 - Phi."""
    h, size = abs_(h), abs_(a)
    above = gt(size, 1)
    product = where(eq(h, 0), like(0, h), mul(h, where(above, size, like(1, a))))
    inside = _owens_quadrature(
        where(above, product, h), where(above, div(1, where(above, size, like(1, a))), size)
    )
    q1, q2 = normal_share(neg(h)), normal_share(neg(product))
    outside = sub(sub(mul(add(q1, q2), 0.5), mul(q1, q2)), inside)
    value = where(above, outside, inside)
    value = where(or_(ne(h, h), ne(a, a)), like(math.nan, h), value)
    return where(lt(a, 0), neg(value), value)


def _owens_quadrature(h: Any, a: Any) -> Any:
    """Beyond t = 9 / h the integrand is below the rounding error."""
    top = el.min_(a, div(9, where(gt(h, 1), h, like(1, h))))
    finite = where(lt(h, 1e4), h, like(1e4, h))
    half_square = mul(el.square(finite), -0.5)
    total = like(0, h)
    for node, weight in zip(*gauss_legendre(24), strict=True):
        t2 = el.square(mul(top, float(node)))
        total = add(total, div(mul(exp(mul(half_square, t2)), float(weight)), add(t2, 1)))
    return mul(mul(mul(total, top), normal_weight(h)), 1 / (2 * math.pi))


def _owens_by_h(h: Any, a: Any) -> Any:
    """At 0 times infinity it is 0: there T has a kink, or the density vanishes."""
    density = mul(exp(mul(el.square(h), -0.5)), 1 / math.sqrt(8 * math.pi))
    endless = _is_endless(h, a)
    h, a = [where(endless, like(0, x), x) for x in (h, a)]
    return neg(mul(density, el.erf(mul(mul(a, h), math.sqrt(0.5)))))


def _owens_by_a(h: Any, a: Any) -> Any:
    below = add(el.square(a), 1)
    squares = mul(el.square(h), where(_is_endless(h, a), like(1, h), below))
    return div(mul(exp(mul(squares, -0.5)), 1 / (2 * math.pi)), below)


def _is_endless(h: Any, a: Any) -> Any:
    """Whether one operand is 0 and the other one infinite."""
    h, a = abs_(h), abs_(a)
    return and_(eq(el.min_(h, a), 0), eq(el.max_(h, a), math.inf))


owens_t = composed("owens_t", _owens_t, lambda t, y, h, a: mul(t, _owens_by_h(h, a)),
                   lambda t, y, h, a: mul(t, _owens_by_a(h, a)))  # fmt: skip
