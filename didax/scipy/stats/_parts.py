"""Parts of the formulas of distributions, in forms that keep their digits where the textbook's lose them.

    log1mexp_of_exp(z)         log(1 - exp(-exp(z)))
    exp_or_inf(z)              exp(z); power_of_size(z, b) is abs(z)^b
    log1p_square(z)            log(1 + z^2), which does not overflow
    one_minus_exp(x)           1 - exp(-x), and logistic_cdf(z): with all digits of small derivatives
    log_poisson(k, mu)         log(mu^k exp(-mu) / k!)
    log_binomial_of_trials(n, k, p), log_beta_binomial(n, k, a, b)    probabilities of k among n
    log_mass(a, b)             log(Phi(b) - Phi(a)), for the normal distribution, as a pair: see there

The densities that are made of gamma functions are primitives: see `didax/primitives/densities.py`.
Read next: `_tables.py`.
"""

from __future__ import annotations

import math
from typing import Any

import didax.numpy as dnp
from didax.lax import stop_gradient
from didax.nn.activations import log1mexp
from didax.numpy.ufunc import ufunc
from didax.primitives import beta, densities, logarithmic, special, truncated_normal
from didax.primitives.gamma_quotients import sum_and_error
from didax.scipy.special import erfcx, expit, ndtr

LOG_2PI = math.log(2 * math.pi)


def _density(name: str, nin: int) -> ufunc:
    return ufunc(
        name, nin, "See `didax/primitives/densities.py`.", operands="inexact", f=getattr(densities, name)
    )


log_poisson = _density("log_poisson", 2)
log_gamma_density = _density("log_gamma_density", 2)
log_binomial = _density("log_binomial", 3)
log_beta_density = _density("log_beta_density", 3)
log_t_density = _density("log_t_density", 2)
log1p_quotient = _density("log1p_quotient", 2)
gamma_density, beta_density = [
    ufunc(f.name, n, f"See `didax/primitives/{where}.py`.", operands="inexact", f=f)
    for f, n, where in ((special.gamma_density, 2, "special"), (beta.beta_density, 3, "beta"))
]
log1p_square = ufunc(
    "log1p_square",
    1,
    "log(1 + z^2), which does not overflow.",
    operands="inexact",
    f=logarithmic.log1p_square,
)
truncnorm_log_density, truncnorm_log_share = [
    ufunc(f"truncnorm_{f.name}", 3, "See `didax/primitives/truncated_normal.py`.", operands="inexact", f=f)
    for f in (truncated_normal.log_density, truncated_normal.log_share)
]
cauchy_share = ufunc(
    "cauchy_share",
    1,
    "arctan2(1, -z) / pi, with the digits of small shares.",
    operands="inexact",
    f=logarithmic.cauchy_share,
)


def log1mexp_of_exp(z: Any) -> Any:
    """log(1 - exp(-exp(z))), also where exp(z) is 0."""
    tiny = z < math.log(float(dnp.finfo(z.dtype).tiny))
    return dnp.where(tiny, z, log1mexp(exp_or_inf(dnp.where(tiny, 0, z))))


def exp_or_inf(z: Any) -> Any:
    """exp(z), with derivative 0 where it overflows: what is made of it there does not depend on z."""
    over = z > math.log(float(dnp.finfo(z.dtype).max))
    return dnp.where(over, math.inf, dnp.exp(dnp.where(over, 0, z)))


def power_of_size(z: Any, exponent: Any) -> Any:
    """abs(z) ** exponent for exponents above 0, with derivative 0 at 0, and where it overflows.

    Where it is flat at 0, for exponents above 1, so that it has further derivatives, it is z ** exponent.
    """
    size, zero = abs(z), z == 0
    flat = zero & (exponent > 1)
    at_zero = dnp.where(flat, z, 1) ** dnp.where(flat, exponent, 1)
    over = exponent * dnp.log(dnp.where(zero, 1, size)) > math.log(float(dnp.finfo(z.dtype).max)) - 1
    power = dnp.where(zero | over, 1, size) ** exponent
    return dnp.where(zero, dnp.where(flat, at_zero, 0), dnp.where(over, math.inf, power))


def one_minus_exp(x: Any) -> Any:
    """1 - exp(-x) for x >= 0, whose derivative vanishes as exp(-x): that of expm1, from its value, ends at 1e-7."""
    small = x < 1
    return dnp.where(small, -dnp.expm1(-dnp.where(small, x, 0)), 1 - dnp.exp(-dnp.where(small, 1, x)))


def logistic_cdf(z: Any) -> Any:
    """1 / (1 + exp(-z)) by its smaller tail, whose derivative has all digits on both sides."""
    below = z < 0
    tail = expit(dnp.where(below, z, -z))
    return dnp.where(below, tail, 1 - tail)


def log_binomial_of_trials(n: Any, k: Any, p: Any) -> Any:
    """log(n! / (k! (n - k)!) p^k (1 - p)^(n - k)); what the rounding of n - k loses counts by the derivative."""
    rest, lost = sum_and_error(*dnp.broadcast_arrays(n, -k))
    inside = (lost != 0) & (p < 1)
    slope = dnp.log(dnp.where(inside, n * (1 - p), 1) / dnp.where(inside, rest, 1))
    return log_binomial(k, rest, p) + dnp.where(inside, lost * slope, 0)


def log_beta_binomial(n: Any, k: Any, a: Any, b: Any) -> Any:
    """log(n! / (k! (n - k)!) B(k + a, n - k + b) / B(a, b)), of three binomial terms, each near its maximum.

    Any share p gives the same, so p has no derivative. It is at most 1/2, because 1 - p would lose digits of a small p.
    """
    rest = n - k
    swap = k + a > rest + b
    k, rest, a, b = [dnp.where(swap, y, x) for x, y in ((k, rest), (rest, k), (a, b), (b, a))]
    wins, losses = k + a, rest + b
    p = stop_gradient(wins / (wins + losses))
    terms = log_binomial(k, rest, p) + log_binomial(a, b, p) - log_binomial(wins, losses, p)
    # Quotients that are 1 where k or n - k is 0, so that they do not depend on a or b there, which may be tiny.
    return terms + dnp.log((wins + losses) / (a + b) * (a / wins) * (b / losses))


def log_mass(a: Any, b: Any) -> tuple[Any, Any]:
    """The pair (m, s) with log(Phi(b) - Phi(a)) = s - m^2 / 2, for a < b.

    m is the distance of the interval from 0, or less. Far from 0 all masses have about the same m^2, which cancels in
    their ratios: see `log_ratio`.
    """
    width, middle = b - a, 0.5 * (a + b)
    narrow = width * (1 + abs(middle)) < 0.3
    right, left = (a > 0) & ~narrow, (b < 0) & ~narrow
    tail = right | left
    near, far = dnp.where(left, -b, a), dnp.where(left, -a, b)
    tail_size = _log_tail(dnp.where(tail, near, 1), dnp.where(tail, far, 2))
    between = ~tail & ~narrow
    around = dnp.log1p(-ndtr(dnp.where(between, a, -1)) - ndtr(-dnp.where(between, b, 1)))
    # From the end that is nearer to 0, because the middle is rounded, which matters far from 0.
    start = dnp.where(middle < 0, -b, a)
    w, centre, nearer = [dnp.where(narrow, x, safe) for x, safe in ((width, 1), (middle, 0), (start, 0))]
    slim = dnp.log(w) - 0.5 * LOG_2PI + _log_of_slim(0.5 * w, centre) - 0.5 * w * (nearer + 0.25 * w)
    distance = dnp.where(narrow, nearer, dnp.where(tail, near, 0))
    return distance, dnp.where(narrow, slim, dnp.where(tail, tail_size, around))


def _log_of_slim(half: Any, centre: Any) -> Any:
    """log of the mean of phi over centre +- half, over phi(centre), by Taylor's series: its terms are Hermite's."""
    u, v = (half * centre) ** 2, half * half
    square = u - v
    fourth = (u - 6 * v) * u + 3 * v * v
    sixth = ((u - 15 * v) * u + 45 * v * v) * u - 15 * v * v * v
    eighth = (((u - 28 * v) * u + 210 * v * v) * u - 420 * v * v * v) * u + 105 * v * v * v * v
    return dnp.log1p(square / 6 + fourth / 120 + sixth / 5040 + eighth / 362880)


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
