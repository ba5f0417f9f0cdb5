"""Parts of the formulas of distributions, in forms that keep their digits where the textbook's lose them.

    log1mexp_of_exp(z)         log(1 - exp(-exp(z)))
    exp_or_inf(z)              exp(z); power_of_size(z, b) is abs(z)^b
    log1p_square(z)            log(1 + z^2), which does not overflow
    log_poisson(k, mu)         log(mu^k exp(-mu) / k!)
    log_gamma_density(z, a)    log(z^(a - 1) exp(-z) / gamma(a))
    log_binomial(n, k, p)      log(n! / (k! (n - k)!) p^k (1 - p)^(n - k)): and the beta distribution
    log_mass(a, b)             log(Phi(b) - Phi(a)), for the normal distribution, as a pair: see there

The terms of log(mu^k exp(-mu) / k!) are of size k log k, and their sum is of size log k near its maximum. Loader (Fast
and Accurate Computation of Binomial Probabilities, 2000) writes it by the deviance D(k, mu) = k log(k / mu) + mu - k,
which vanishes at the maximum, and by the rest of Stirling's series. Read next: `_tables.py`.
"""

from __future__ import annotations

import math
from typing import Any

import didax.numpy as dnp
from didax.nn.activations import log1mexp
from didax.primitives.gamma import stirling
from didax.primitives.gamma_quotients import deviance
from didax.scipy.special import betaln, erfcx, gammaln, ndtr, xlog1py, xlogy

LOG_2PI = math.log(2 * math.pi)
_LARGE = 10  # from here on Stirling's series has all digits


def log1mexp_of_exp(z: Any) -> Any:
    """log(1 - exp(-exp(z))), also where exp(z) is 0."""
    tiny = z < -10
    w = dnp.exp(dnp.where(tiny, z, -10))
    return dnp.where(tiny, z - w / 2 + w * w / 24, log1mexp(exp_or_inf(dnp.where(tiny, -10, z))))


def exp_or_inf(z: Any) -> Any:
    """exp(z), with derivative 0 where it overflows: what is made of it there does not depend on z."""
    over = z > math.log(float(dnp.finfo(z.dtype).max))
    return dnp.where(over, math.inf, dnp.exp(dnp.where(over, 0, z)))


def power_of_size(z: Any, exponent: Any) -> Any:
    """abs(z) ** exponent for exponents above 0, with derivative 0 at 0, and where it overflows."""
    size, zero = abs(z), z == 0
    over = exponent * dnp.log(dnp.where(zero, 1, size)) > math.log(float(dnp.finfo(z.dtype).max)) - 1
    power = dnp.where(zero | over, 1, size) ** exponent
    return dnp.where(zero, 0, dnp.where(over, math.inf, power))


def log1p_square(z: Any) -> Any:
    """log(1 + z^2), also where z^2 overflows."""
    size = abs(z)
    large = size > 1e4
    inverse = 1 / dnp.where(large, size, 1)
    return dnp.where(
        large, dnp.log1p(inverse * inverse) - 2 * dnp.log(inverse), dnp.log1p(dnp.where(large, 0, z) ** 2)
    )


def log_gamma_density(z: Any, a: Any) -> Any:
    """log(z^(a - 1) exp(-z) / gamma(a))."""
    large = (a > _LARGE + 1) & (z > 0)
    x, mean = dnp.where(large, a - 1, _LARGE), dnp.where(large, z, _LARGE)
    by_deviance = -stirling(x) - deviance(x, mean) - 0.5 * (LOG_2PI + dnp.log(x))
    a, z = dnp.where(large, 1, a), dnp.where(large, 0, z)
    return dnp.where(large, by_deviance, xlogy(a - 1, z) - z - gammaln(a))


def log_poisson(k: Any, mu: Any) -> Any:
    """log(mu^k exp(-mu) / k!)."""
    return log_gamma_density(mu, k + 1)


def log_binomial(n: Any, k: Any, p: Any) -> Any:
    """log(n! / (k! (n - k)!) p^k (1 - p)^(n - k)) for k and n - k above -1; n and k need not be whole."""
    rest = n - k
    large = (k > _LARGE) & (rest > _LARGE) & (p > 0) & (p < 1)
    x, y = dnp.where(large, k, _LARGE), dnp.where(large, rest, _LARGE)
    share = dnp.where(large, p, 0.5)
    total = x + y
    by_deviance = (
        stirling(total) - stirling(x) - stirling(y)
        - deviance(x, total * share) - deviance(y, total * (1 - share))
        + 0.5 * (dnp.log(total / x) - dnp.log(y) - LOG_2PI)
    )  # fmt: skip
    k, rest = dnp.where(large, 0, k), dnp.where(large, 0, rest)
    direct = log_ways(k, rest) + xlogy(k, p) + xlog1py(rest, -p)
    return dnp.where(large, by_deviance, direct)


def log_ways(k: Any, rest: Any) -> Any:
    """The logarithm of the number of ways to choose k things of k + rest."""
    return -dnp.log1p(k + rest) - betaln(rest + 1, k + 1)


def log_mass(a: Any, b: Any) -> tuple[Any, Any]:
    """The pair (m, s) with log(Phi(b) - Phi(a)) = s - m^2 / 2, for a < b.

    m is the distance of the interval from 0. Far from 0 all masses have about the same m^2, which cancels in their
    ratios: see `log_ratio`.
    """
    width, middle = b - a, 0.5 * (a + b)
    narrow = width * (1 + abs(middle)) < 0.01
    right, left = (a > 0) & ~narrow, (b < 0) & ~narrow
    tail = right | left
    near, far = dnp.where(left, -b, a), dnp.where(left, -a, b)
    tail_size = _log_tail(dnp.where(tail, near, 1), dnp.where(tail, far, 2))
    between = ~tail & ~narrow
    around = dnp.log1p(-ndtr(dnp.where(between, a, -1)) - ndtr(-dnp.where(between, b, 1)))
    w, centre = dnp.where(narrow, width, 1), dnp.where(narrow, middle, 0)
    slim = dnp.log(w) - 0.5 * LOG_2PI + dnp.log1p(w * w * (centre * centre - 1) / 24)
    distance = dnp.where(narrow, centre, dnp.where(tail, near, 0))
    return distance, dnp.where(narrow, slim, dnp.where(tail, tail_size, around))


def _log_tail(near: Any, far: Any) -> Any:
    """log(Phi(far) - Phi(near)) + near^2 / 2, for 0 < near < far."""
    endless = dnp.isinf(far)
    end = dnp.where(endless, near + 1, far)
    first, last = [dnp.log(0.5 * erfcx(x * math.sqrt(0.5))) for x in (near, end)]
    gap = 0.5 * (end - near) * (end + near) + first - last
    return first + dnp.where(endless, 0, log1mexp(dnp.where(endless, 1, gap)))


def log_ratio(mass: tuple[Any, Any], whole: tuple[Any, Any]) -> Any:
    """The logarithm of the quotient of two numbers of the form exp(s - m^2 / 2)."""
    (m, s), (m_whole, s_whole) = mass, whole
    return s - s_whole - 0.5 * (m - m_whole) * (m + m_whole)
