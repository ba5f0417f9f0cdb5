"""Integrals of float32 numbers, by formulas in float64: Dawson's, those of sines and cosines, and Fresnel's.

Each is a power series near 0 and a quotient of polynomials beyond, or one quotient for all. Nothing cancels more digits
than float64 has to spare, so there are no further cases, and a function is one kernel. The quotients were fitted in
Chebyshev's nodes with 30 digits; their relative errors are stated beside them. A function of this file takes float64
arrays that hold float32 numbers. Read next: `integrals.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.primitives.composed import like, polynomial
from didax.primitives.elementwise import abs_, add, div, eq, gt, lt, max_, min_, mul, neg, square, sub
from didax.primitives.elementwise.vectorized import cosine, logarithm2, sine
from didax.primitives.gamma_in_double import turn
from didax.primitives.select import where

_VAST = 1e60  # in place of infinity
Quotient = tuple[Sequence[float], Sequence[float]]  # the coefficients above and below, constants first

# D(x) (1 + x^2 / 5) / x in 1 / (1 + x^2 / 5), for all x: 2**-28
_DAWSON: Quotient = (
    (
        0.09999999970887442, -0.6517710407358127, 2.5437199544422606, -5.296383120308267, 8.157640308440799,
        -6.0257917706794855, 3.4248595501658037, 9.181674088839713, -19.01556358815283, 30.61109462678984,
    ),
    (
        1.0, -7.617712226667231, 32.586877417054396, -80.85285985139807, 139.665455808595, -151.9450438229133,
        119.66564124406418, -46.68317290281568, 14.529465280092321, 2.680828022583879,
    ),
)  # fmt: skip
# -2 x^2 (1 - 2 x D(x)) in 1 / x^2, for x > 5: 2**-28
_DAWSON_SLOPE = (
    1.000000002318125, 1.4999947052717495, 3.7519624320075513, 12.856007368587791, 76.15196063047752,
    -202.37510684849659, 9098.862993246728,
)  # fmt: skip
# x f(x) and x^2 g(x) of DLMF 6.2.17 and 6.2.18 in 1 / x^2, for x > 4: 2**-29 and 2**-26
_NEAR = 4.0
_SICI: tuple[Quotient, Quotient] = (
    (
        (0.999999998211852, 125.62582335166614, 3684.831739622521, 25322.111965843196, 19948.530410740324),
        (1.0, 127.62581028204002, 3916.099553095847, 30802.947757607548, 41756.48023112609),
    ),
    (
        (0.9999999895376988, 149.98157737421008, 5231.532838401373, 41137.678942537874, 27798.514791607977),
        (1.0, 155.98149133429067, 6047.540750608721, 63676.39457275518, 131895.7587930326),
    ),
)  # fmt: skip
# pi x f(x) and pi^2 x^3 g(x) of DLMF 7.2.10 and 7.2.11 in 1 / (pi x^2)^2, for x > 1: 2**-27 and 2**-24
_FRESNEL: tuple[Quotient, Quotient] = (
    (
        (
            0.9999999936744991, 362.63656575759506, 32303.761554117773, 815110.7190534413, 5025574.804811851,
            3986722.2922185236,
        ),
        (
            1.0, 365.6364686558419, 33295.93730849296, 886680.5729977881, 6221084.116739714, 7234294.449940258,
        ),
    ),
    (
        (
            0.9999999504616661, 448.4740058976218, 48806.833502034046, 1444688.2688425896, 9527718.320775196,
            5488505.556479572,
        ),
        (
            1.0, 463.47305498486264, 54817.0147297549, 1959664.271054596, 19551141.346508678, 37363077.82750371,
        ),
    ),
)  # fmt: skip


def _quotient(x: Any, coefficients: Quotient) -> Any:
    above, below = coefficients
    return mul(polynomial(x, above), div(1, polynomial(x, below)))


# --- Dawson's integral --------------------------------------------------------------------------------------


def dawsn(x: Any) -> Any:
    """exp(-x^2) times the integral of exp(t^2) from 0 to x."""
    x = max_(min_(x, like(_VAST, x)), like(-_VAST, x))
    share = div(1, add(mul(square(x), 0.2), 1))
    return mul(mul(x, share), _quotient(share, _DAWSON))


def dawsn_slope(x: Any) -> Any:
    """1 - 2 x D(x), from 5 on, where that cancels, as a polynomial in 1 / x^2."""
    inverse = div(1, max_(square(x), like(25, x)))
    far = mul(mul(inverse, -0.5), polynomial(inverse, _DAWSON_SLOPE))
    return where(gt(abs_(x), 5), far, sub(1, mul(mul(x, 2), dawsn(x))))


# --- Sine and cosine integrals ------------------------------------------------------------------------------


def _far(x: Any) -> tuple[Any, Any, Any, Any]:
    """f(x), g(x), sin(x) and cos(x), for x > 4."""
    inverse = div(1, min_(x, like(_VAST, x)))
    f, g = [_quotient(square(inverse), table) for table in _SICI]
    return mul(f, inverse), mul(g, square(inverse)), sine(x), cosine(x)


def _is_near(x: Any) -> tuple[Any, Any, Any]:
    """Whether |x| < 4, |x| there, and |x| elsewhere."""
    size = abs_(x)
    near = lt(size, _NEAR)
    return near, where(near, size, like(1, x)), where(near, like(_NEAR, x), size)


def sine_integral(x: Any) -> Any:
    """The integral of sin(t) / t from 0 to x."""
    near, small, large = _is_near(x)
    f, g, sin, cos = _far(large)
    far = sub(math.pi / 2, add(mul(f, cos), mul(g, sin)))
    far = where(eq(large, math.inf), like(math.pi / 2, x), far)
    series = [(-1) ** k / ((2 * k + 1) * math.factorial(2 * k + 1)) for k in range(12)]
    value = where(near, mul(small, polynomial(square(small), series)), far)
    return where(lt(x, 0), neg(value), where(eq(x, 0), x, value))


def sine_over(x: Any) -> Any:
    """sin(x) / x."""
    is_zero = eq(x, 0)
    return where(is_zero, like(1, x), mul(sine(x), div(1, where(is_zero, like(1, x), x))))


def cosine_integral(x: Any) -> Any:
    """The integral of cos(t) / t from infinity to |x|."""
    near, small, large = _is_near(x)
    f, g, sin, cos = _far(large)
    far = where(eq(large, math.inf), like(0, x), sub(mul(f, sin), mul(g, cos)))
    series = [np.euler_gamma, *[(-1) ** k / (2 * k * math.factorial(2 * k)) for k in range(1, 12)]]
    return where(near, add(mul(logarithm2(small), math.log(2)), polynomial(square(small), series)), far)


# --- Fresnel integrals --------------------------------------------------------------------------------------


def phase(x: Any) -> tuple[Any, Any]:
    """sin and cos of pi x^2 / 2. The square is exact."""
    return turn(mul(square(x), 0.5))


def fresnel(x: Any) -> tuple[Any, Any]:
    """The integrals of sin(pi t^2 / 2) and cos(pi t^2 / 2) from 0 to x."""
    size = min_(abs_(x), like(_VAST, x))
    near = lt(size, 1)
    q = mul(square(min_(size, like(1, x))), math.pi / 2)
    sines, cosines = [
        [(-1) ** k / (math.factorial(2 * k + odd) * (4 * k + 1 + 2 * odd)) for k in range(8)]
        for odd in (1, 0)
    ]
    inverse = div(1, max_(size, like(1, x)))
    root = mul(square(inverse), 1 / math.pi)
    f, g = [_quotient(square(root), table) for table in _FRESNEL]
    f, g = mul(f, mul(inverse, 1 / math.pi)), mul(g, mul(root, mul(inverse, 1 / math.pi)))
    sin, cos = phase(size)
    s = where(near, mul(mul(size, q), polynomial(square(q), sines)), sub(0.5, add(mul(f, cos), mul(g, sin))))
    c = where(near, mul(size, polynomial(square(q), cosines)), add(0.5, sub(mul(f, sin), mul(g, cos))))
    flip = lt(x, 0)
    return where(flip, neg(s), s), where(flip, neg(c), c)
