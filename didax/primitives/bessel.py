"""The Bessel functions of the first kind and low whole orders, of float32 numbers, by formulas in float64.

    bessel_j(n, x, most=m)    J_n(x) for whole |n| <= m, with J_n' = (J_(n-1) - J_(n+1)) / 2

Up to max(8, m) by Miller's recurrence downwards (DLMF 3.6), which needs no rescaling in float64, beyond by the forms of
Hankel's expansions of J_0 and J_1 (DLMF 10.17.3) and the recurrence upwards. All of it is one kernel without a loop,
for all orders. `didax/scipy/_families.py` has what holds for other dtypes and any order.
"""

from __future__ import annotations

import math
from typing import Any

from didax.primitives.composed import like, polynomial
from didax.primitives.elementwise import (
    abs_,
    add,
    and_,
    div,
    eq,
    floor,
    ge,
    le,
    lt,
    max_,
    min_,
    mul,
    ne,
    neg,
    no_derivative,
    sqrt,
    square,
    sub,
)
from didax.primitives.elementwise.vectorized import cosine, sine
from didax.primitives.families import Elementwise
from didax.primitives.narrow import in_float64
from didax.primitives.select import where
from didax.xla.lowering import lower_function

MOST = 16  # the largest order that `bessel_jn` leaves to this file
# P and x Q of DLMF 10.17.3 in 1 / x^2 for x > 8, for the orders 0 and 1, fitted at Chebyshev's nodes: 2**-32, 2**-28
_HANKEL = ((
        (0.9999999999207991, -0.07031223176290545, 0.11200541516150259, -0.5435084290073388, 3.512539672046463),
        (-0.12499999965815793, 0.07324102021755932, -0.22646302700122872, 1.598110028981734, -12.543834934527636),
    ),
 (
        (1.0000000000886635, 0.11718719984018194, -0.14403153655966172, 0.6442179145781656, -4.03199208335364),
        (0.3749999996212796, -0.10253776938854503, 0.2768623076741651, -1.8501892330537826, 14.195141574102667),
    ),
)  # fmt: skip


def _far(n: Any, x: Any, most: int) -> Any:
    """For x >= max(8, most)."""
    inverse = div(1, x)
    u = square(inverse)
    sin, cos = sine(x), cosine(x)
    size = sqrt(mul(inverse, 1 / math.pi))
    # sqrt(2) cos(x - pi / 4) and its kin, which are exact where x - pi / 4 would be rounded
    waves = (add(cos, sin), sub(sin, cos)), (sub(sin, cos), neg(add(sin, cos)))
    below, here = [
        mul(size, sub(mul(polynomial(u, p), c), mul(mul(polynomial(u, q), inverse), s)))
        for (p, q), (c, s) in zip(_HANKEL, waves, strict=True)
    ]
    found = where(eq(n, 0), below, here)
    for k in range(1, most):  # `here` belongs to the order k
        below, here = here, sub(mul(mul(inverse, 2 * k), here), below)
        found = where(eq(n, k + 1), here, found)
    return found


def _near(n: Any, x: Any, most: int) -> Any:
    """From a number far above, normalised by J_0 + 2 J_2 + 2 J_4 + ... = 1; for x < 0.01 two terms of the series."""
    small = lt(x, 0.01)
    twice = div(2, where(small, like(1, x), x))
    above, here, total, found = like(0, x), like(1, x), like(0, x), like(0, x)
    for k in range(max(8, most) + 16, 0, -1):  # `here` belongs to the order k
        above, here = here, sub(mul(mul(twice, k), here), above)
        if k % 2:
            total = add(total, here if k == 1 else mul(here, 2))
        if k <= most + 1:
            found = where(eq(n, k - 1), here, found)
    half, power = mul(x, 0.5), like(1, x)
    for k in range(1, most + 1):
        power = where(ge(n, k), mul(power, mul(half, 1 / k)), power)
    series = mul(power, sub(1, mul(square(half), div(1, add(n, 1)))))
    return where(small, series, mul(found, div(1, total)))


def _value(n: Any, x: Any, most: int) -> Any:
    """J_-n is (-1)^n J_n, and so is J_n(-x)."""
    order, size, limit = abs_(n), abs_(x), max(8, most)
    endless = eq(size, math.inf)
    large = max_(where(endless, like(limit, x), size), like(limit, x))
    value = where(le(size, limit), _near(order, min_(size, like(limit, x)), most), _far(order, large, most))
    value = where(endless, like(0, x), value)
    half = mul(order, 0.5)
    return where(and_(ne(lt(n, 0), lt(x, 0)), ne(floor(half), half)), neg(value), value)


def _slope(t: Any, y: Any, n: Any, x: Any, *, most: int) -> Any:
    below, above = [bessel_j(add(n, step), x, most=most + 1) for step in (-1, 1)]
    return mul(t, mul(sub(below, above), 0.5))


def _by_order(t: Any, y: Any, n: Any, x: Any, *, most: int) -> Any:
    return no_derivative("bessel_j", "order")(t)


def _lower(ctx: Any, n: Any, x: Any, *, most: int) -> Any:
    return lower_function(ctx, in_float64(lambda n, x: _value(n, x, most)), [n, x])[0]


bessel_j = Elementwise(
    "bessel_j", 2, hlo="bessel_j", eager=None, accepts="f", jvp=[_by_order, _slope], lower=_lower
)
