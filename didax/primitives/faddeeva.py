"""Faddeeva's function w(z) = exp(-z^2) erfc(-iz) of complex numbers, and its derivative.

    wofz(z)         w(z)
    wofz_slope(z)   w'(z) = 2i / sqrt(pi) - 2 z w(z), which would cancel far from 0

Both are computed in the quadrant X = |Re z|, Y = |Im z| by Note [Faddeeva], in real arithmetic, where no term of a part
cancels another, and brought back by w(-conj z) = conj w(z) and w(z) = 2 exp(-z^2) - w(-z). Of complex64 numbers they
are computed in float64: then nothing overflows, and no other formula is needed far from 0. Read next: `integrals.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from didax.core.avals import aval_of
from didax.primitives import elementwise as el
from didax.primitives import gamma_in_double as double
from didax.primitives.composed import composed, like, slope_of
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import (
    add,
    and_,
    div,
    eq,
    exp,
    floor,
    ge,
    gt,
    lt,
    max_,
    min_,
    mul,
    neg,
    not_,
    or_,
    square,
    sub,
)
from didax.primitives.elementwise.vectorized import exponential2
from didax.primitives.select import where

# Note [Faddeeva]
# w(z) = i z / pi times the integral of exp(-t^2) / (z^2 - t^2) over all t, for Im z > 0, and w'(z) is -2 i / pi times
# the integral of t^2 exp(-t^2) / (z^2 - t^2). The trapezoidal rule with step h is exact up to exp(-pi^2 / h^2), except
# for the poles at +-z, which add 2 exp(-z^2) / (1 -+ exp(-2 pi i z / h)) to w: minus for nodes at k h and plus for
# nodes at (k + 1/2) h. Of the two rules, the one whose nodes are farther from z is used. With 12 nodes and
# h = sqrt(pi / 12) the error is below 1e-15 (Al Azah and Chandler-Wilde, SIAM J. Numer. Anal., volume 59, 2021), with 7
# nodes below 1e-8.


def step_of(count: int) -> float:
    """The distance between neighbouring nodes of the rule with `count` nodes."""
    return math.sqrt(math.pi / count)


Pair = tuple[Any, Any]
_VAST = 1e60  # in place of infinity, where float64 is to hold a fourth power


def _formula(z: Any, derivative: bool, differentiable: bool = False) -> Any:
    """w or its derivative; by operations that have derivatives, if `differentiable`."""
    dtype = aval_of(z).dtype
    single = dtype == np.complex64
    x, y = el.real(z), el.imag(z)
    if single:
        x, y = [convert_element_type(part, np.dtype("float64")) for part in (x, y)]
    # By choices, because abs has no derivative at 0.
    left, below = lt(x, 0), lt(y, 0)
    across, up = where(left, neg(x), x), where(below, neg(y), y)
    near = [min_(part, like(_VAST, part)) for part in (across, up)]
    wave = _fast_wave if single and not differentiable else _wave
    re, im = _quadrant(near[0], near[1], below, derivative, 7 if single else 12, wave)
    if not single:
        far = gt(max_(across, up), _VAST)
        distant = _distant(where(far, across, like(1, x)), where(far, up, like(1, x)), derivative)
        distant = where(below, neg(distant[0]), distant[0]), distant[1]
        far = and_(far, not_(and_(below, ge(up, across))))  # there exp(-z^2) counts
        re, im = [where(far, *parts) for parts in zip(distant, (re, im), strict=True)]
    turned = neg(re) if derivative else neg(im)
    re, im = (where(left, turned, re), im) if derivative else (re, where(left, turned, im))
    endless = and_(below, eq(min_(across, up), math.inf))  # exp(-z^2) has no limit there
    re, im = [where(endless, like(math.nan, x), part) for part in (re, im)]
    if single:
        re, im = [convert_element_type(part, np.dtype("float32")) for part in (re, im)]
    return el.complex_(re, im)


def _quadrant(x: Any, y: Any, below: Any, derivative: bool, count: int, wave: Callable[..., Any]) -> Pair:
    """The parts of w(x + iy), or of w(x - iy) where `below`, for x and y of at least 0; or those of w'."""
    h = step_of(count)
    turns = mul(x, 1 / h)
    fraction = sub(turns, floor(turns))
    # Whether nodes at k h are farther away. Where the poles add nothing the choice is free.
    whole = and_(gt(fraction, 0.25), lt(fraction, 0.75))
    re, im = _sums(x, y, whole, count, derivative)
    counts = lt(y, math.pi / h)
    exponent = where(or_(counts, below), mul(sub(y, x), add(y, x)), like(0, x))
    size, cos, sin = wave(exponent, mul(mul(x, y), 2))  # exp(-z^2), with -sin
    length, c, s = wave(mul(y, -2 * math.pi / h), mul(turns, 2 * math.pi))
    length = where(whole, neg(length), length)
    # v / (1 + v) for v = exp(2 pi i z / h) of either sign
    v, u = mul(length, c), mul(length, s)
    share = div(1, add(square(add(v, 1)), square(u)))
    v, u = mul(add(v, square(length)), share), mul(u, share)
    twice = mul(size, 2)
    near = where(counts, twice, like(0, x))
    pole = mul(near, add(mul(cos, v), mul(sin, u))), mul(near, sub(mul(cos, u), mul(sin, v)))
    if not derivative:
        re, im = add(re, pole[0]), add(im, pole[1])
        is_real = and_(eq(sin, 0), eq(twice, math.inf))  # w has no imaginary part there: 0, not inf * 0
        turned = where(is_real, sin, mul(twice, sin))
        return where(below, sub(mul(twice, cos), re), re), where(below, add(turned, im), im)
    re = sub(re, mul(2, sub(mul(x, pole[0]), mul(y, pole[1]))))
    im = sub(im, mul(2, add(mul(x, pole[1]), mul(y, pole[0]))))
    more = mul(twice, 2)
    re = where(below, neg(add(re, mul(more, add(mul(x, cos), mul(y, sin))))), re)
    return re, where(below, sub(im, mul(more, sub(mul(x, sin), mul(y, cos)))), im)


def _sums(x: Any, y: Any, whole: Any, count: int, derivative: bool) -> Pair:
    """The parts of the trapezoidal rule, for nodes at k h where `whole`, else at (k + 1/2) h."""
    h = step_of(count)
    real, cross, size = mul(sub(x, y), add(x, y)), mul(mul(x, y), 2), add(square(x), square(y))
    across, up = like(0, x), like(0, x)
    for k in range(count):
        t = [((k + offset) * h) ** 2 for offset in (1, 0.5)]
        weights = [math.exp(-s) * (s if derivative else 1) for s in t]
        square_of_node, weight = [where(whole, *[like(v, x) for v in pair]) for pair in (t, weights)]
        gap = sub(real, square_of_node)
        term = mul(weight, div(1, add(square(gap), square(cross))))
        if derivative:  # terms of t^2 exp(-t^2) / (z^2 - t^2)
            across, up = add(across, term), add(up, mul(term, gap))
        else:  # of z exp(-t^2) / (z^2 - t^2), whose parts are x and y times these
            across = add(across, mul(term, sub(size, square_of_node)))
            up = add(up, mul(term, add(size, square_of_node)))
    if derivative:
        return mul(mul(cross, across), -4 * h / math.pi), mul(up, -4 * h / math.pi)
    origin = where(whole, div(0.5, where(whole, size, like(1, x))), like(0, x))  # the node at 0 counts once
    return tuple(
        [mul(mul(add(total, origin), part), 2 * h / math.pi) for total, part in ((up, y), (across, x))]
    )  # type: ignore[return-value]


def _distant(x: Any, y: Any, derivative: bool) -> Pair:
    """i / (sqrt(pi) z), whose square does not overflow, or -i / (sqrt(pi) z^2)."""
    most = float(np.finfo(np.float64).max)
    x, y = min_(x, like(most, x)), min_(y, like(most, x))
    length = max_(x, y)
    a, b = div(x, length), div(y, length)
    scale = div(div(1 / math.sqrt(math.pi), add(square(a), square(b))), length)
    re, im = mul(b, scale), mul(a, scale)
    if not derivative:
        return re, im
    return mul(mul(re, im), -2 * math.sqrt(math.pi)), mul(sub(square(re), square(im)), math.sqrt(math.pi))


def _wave(exponent: Any, angle: Any) -> tuple[Any, Any, Any]:
    """exp(exponent), and cosine and sine of the angle."""
    return exp(exponent), el.cos(angle), el.sin(angle)


def _fast_wave(exponent: Any, angle: Any) -> tuple[Any, Any, Any]:
    """`_wave` to the digits of float32."""
    sin, cos = double.turn(mul(angle, 1 / math.pi))
    return exponential2(mul(exponent, math.log2(math.e)), 1000.0), cos, sin


_curve = slope_of(lambda z: _formula(z, derivative=True, differentiable=True), 0)
wofz_slope = composed(
    "wofz_slope",
    lambda z: _formula(z, derivative=True),
    lambda t, y, z: mul(t, _curve(z)),
    accepts="c",
)
wofz = composed(
    "wofz", lambda z: _formula(z, derivative=False), lambda t, y, z: mul(t, wofz_slope(z)), accepts="c"
)
