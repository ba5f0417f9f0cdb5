"""The normal distribution between a and b, of float32 numbers a <= z <= b, by formulas in float64.

    density(z, a, b)        phi(z) / (Phi(b) - Phi(a)), and log_density(z, a, b)
    log_share(z, a, b)      log((Phi(z) - Phi(a)) / (Phi(b) - Phi(a)))

A mass Phi(b) - Phi(a) is a difference of shares around 0, and of scaled tails beyond, where its factor
exp(-m^2 / 2) is kept apart: far from 0 all masses have nearly the same m^2, which cancels in their quotients. Numbers
of 24 bits that are next to each other leave nine digits of such a difference. The derivatives are densities again.
`didax/scipy/stats/_parts.py` has what holds in float64. Read next: `fitted.py`.
"""

from __future__ import annotations

import math
from typing import Any

from didax.primitives.composed import composed, like, polynomial
from didax.primitives.elementwise import abs_, add, exp, ge, lt, max_, min_, mul, neg, square, sub
from didax.primitives.elementwise.vectorized import exponential2, logarithm2
from didax.primitives.fitted import scaled_normal_tail
from didax.primitives.narrow import in_float64
from didax.primitives.select import where

_VAST = 1e60  # in place of infinity
_LOG2 = math.log(2)


_SERIES = [(-0.5) ** k / (math.factorial(k) * (2 * k + 1) * math.sqrt(2 * math.pi)) for k in range(14)]


def _from_0(x: Any, tail: Any) -> Any:
    """Phi(x) - 1 / 2, up to |x| = 1 to all digits."""
    u = square(x)
    small = max_(min_(x, like(1, x)), like(-1, x))
    beyond = sub(0.5, mul(tail, exponential2(mul(u, -0.5 / _LOG2), 1000.0)))
    far = where(lt(x, 0), neg(beyond), beyond)
    return where(lt(u, 1), mul(small, polynomial(square(small), _SERIES)), far)


class _Masses:
    """log(Phi(v) - Phi(u)) for pairs u < v of several numbers, each of which is looked at once."""

    def __init__(self, *numbers: Any) -> None:
        self.numbers = [max_(min_(x, like(_VAST, x)), like(-_VAST, x)) for x in numbers]
        self.tails = [scaled_normal_tail(abs_(x)) for x in self.numbers]
        self.shares = [_from_0(x, tail) for x, tail in zip(self.numbers, self.tails, strict=True)]

    def mass(self, i: int, j: int) -> tuple[Any, Any]:
        """The pair (m, s) of the mass exp(s - m^2 / 2) between the i-th and the j-th number."""
        u, v = self.numbers[i], self.numbers[j]
        left = lt(add(u, v), 0)
        near, far = where(left, neg(v), u), where(left, neg(u), v)
        near_tail = where(left, self.tails[j], self.tails[i])
        far_tail = where(left, self.tails[i], self.tails[j])
        gap = mul(mul(sub(far, near), add(far, near)), -0.5)
        tail = sub(near_tail, mul(far_tail, exp(gap)))  # to all digits, which may cancel
        is_tail = ge(near, 0.5)
        value = where(is_tail, tail, sub(self.shares[j], self.shares[i]))
        return where(is_tail, near, like(0, u)), mul(logarithm2(value), _LOG2)


def _quotient(mass: tuple[Any, Any], whole: tuple[Any, Any]) -> Any:
    """The logarithm of the quotient of two numbers exp(s - m^2 / 2)."""
    (m, s), (m_whole, s_whole) = mass, whole
    return sub(sub(s, s_whole), mul(mul(sub(m, m_whole), add(m, m_whole)), 0.5))


def log_density_in_double(z: Any, a: Any, b: Any) -> Any:
    """log(phi(z) / (Phi(b) - Phi(a))), of float64 arrays."""
    z = max_(min_(z, like(_VAST, z)), like(-_VAST, z))
    return _quotient((z, like(-0.5 * math.log(2 * math.pi), z)), _Masses(a, b).mass(0, 1))


def _log_share(z: Any, a: Any, b: Any) -> Any:
    masses = _Masses(a, z, b)
    whole = masses.mass(0, 2)
    below, above = _quotient(masses.mass(0, 1), whole), _quotient(masses.mass(1, 2), whole)
    rest = neg(exponential2(mul(min_(above, like(0, z)), 1 / _LOG2), 1000.0))
    by_rest = mul(logarithm2(add(rest, 1), rest), _LOG2)
    return where(lt(below, -_LOG2), below, by_rest)


density = composed(
    "truncated_normal_density",
    in_float64(lambda z, a, b: exponential2(mul(log_density_in_double(z, a, b), 1 / _LOG2), 1000.0)),
    lambda t, y, z, a, b: neg(mul(t, mul(y, z))),
    lambda t, y, z, a, b: mul(t, mul(y, density(a, a, b))),
    lambda t, y, z, a, b: neg(mul(t, mul(y, density(b, a, b)))),
)
log_density = composed(
    "truncated_normal_log_density",
    in_float64(log_density_in_double),
    lambda t, y, z, a, b: neg(mul(t, z)),
    lambda t, y, z, a, b: mul(t, density(a, a, b)),
    lambda t, y, z, a, b: neg(mul(t, density(b, a, b))),
)
log_share = composed(
    "truncated_normal_log_share",
    in_float64(_log_share),
    lambda t, y, z, a, b: mul(t, density(z, a, z)),
    lambda t, y, z, a, b: neg(mul(t, mul(density(a, a, z), exp(log_share(neg(z), neg(b), neg(a)))))),
    lambda t, y, z, a, b: neg(mul(t, density(b, a, b))),
)
