"""The distributions, as tables of formulas for location 0 and scale 1: first those on the real line, then those on
integers.

`_distributions.py` explains the columns. The formulas are those of SciPy's documentation; `xlogy(x, y)` is x log(y),
and 0 where x is 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import didax.numpy as dnp
from didax.nn.activations import log1mexp, log_sigmoid
from didax.primitives.gamma import stirling
from didax.primitives.gamma_quotients import minus_log1p
from didax.scipy.special import (
    betainc,
    betaln,
    entr,
    gammainc,
    gammaincc,
    gammaln,
    i0e,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    xlog1py,
    xlogy,
)
from didax.scipy.stats._distributions import Distribution, continuous, discrete
from didax.scipy.stats._gamma_and_beta import (
    beta_logcdf,
    beta_logpdf,
    beta_logsf,
    beta_sf,
    gamma_logcdf,
    gamma_logpdf,
    gamma_logsf,
)
from didax.scipy.stats._parts import (
    LOG_2PI,
    beta_density,
    cauchy_share,
    exp_or_inf,
    gamma_density,
    log1mexp_of_exp,
    log1p_quotient,
    log1p_square,
    log_beta_binomial,
    log_binomial,
    log_binomial_of_trials,
    log_mass,
    log_poisson,
    log_ratio,
    log_t_density,
    logistic_cdf,
    one_minus_exp,
    power_of_size,
    truncnorm_log_density,
    truncnorm_log_share,
)

LOG_2 = math.log(2)


def _positive(*shapes: Any) -> Any:
    ok = shapes[0] > 0
    for x in shapes[1:]:
        ok = ok & (x > 0)
    return ok


def _from(low: float) -> Any:
    return lambda *shapes: (low, math.inf)


def _between(low: float, high: float) -> Any:
    return lambda *shapes: (low, high)


# --- Continuous distributions -------------------------------------------------------------------------------


def _laplace_cdf(z: Any) -> Any:
    """By the smaller of cdf and sf; not of abs(z), which has no derivative at 0."""
    below = z < 0
    tail = 0.5 * dnp.exp(dnp.where(below, z, -z))
    return dnp.where(below, tail, 1 - tail)


def _cauchy_ppf(q: Any) -> Any:
    """tan(pi (q - 1/2)), near the ends by their distances."""
    inner = (q > 0) & (q < 1)
    middle = abs(q - 0.5) < 0.25
    distance = dnp.where(middle, q - 0.5, dnp.where(inner, dnp.where(q > 0.5, 1 - q, q), 0.25))
    slope = dnp.tan(math.pi * distance)
    far = 1 / dnp.where(middle, 1, dnp.where(q > 0.5, slope, -slope))
    return dnp.where(inner, dnp.where(middle, slope, far), dnp.where(q > 0.5, math.inf, -math.inf))


def _cauchy_logcdf(z: Any) -> Any:
    """By the smaller of cdf and sf."""
    below = z < 0
    tail = cauchy_share(dnp.where(below, z, -z))
    return dnp.where(below, dnp.log(tail), dnp.log1p(-tail))


def _t_logpdf(z: Any, df: Any) -> Any:
    """By Stirling's series for large df: log(gamma((df + 1) / 2) / gamma(df / 2)) is nearly log(df / 2) / 2."""
    if z.dtype == np.float32:
        return log_t_density(z, df)
    df = dnp.minimum(df, 1e300)  # from there on, at infinity too, it is the normal distribution
    large = df > 20
    half = dnp.where(large, 0.5 * df, 10)
    far = stirling(half + 0.5) - stirling(half) - half * minus_log1p(0.5 / half) - 0.5 * LOG_2PI
    few = dnp.where(large, 1, df)
    scale = dnp.where(large, far, -0.5 * dnp.log(few) - betaln(0.5, 0.5 * few))
    return scale - 0.5 * (df + 1) * log1p_square(z / dnp.sqrt(df))


def _truncnorm_logpdf(z: Any, a: Any, b: Any) -> Any:
    if z.dtype == np.float32:
        return truncnorm_log_density(z, a, b)
    return log_ratio((z, -0.5 * LOG_2PI), log_mass(a, b))


def _truncnorm_share(z: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """The logarithm of the share below z, or of that above z where the one below is 0; and where it is.

    So it is finite at both ends, with the slopes there.
    """
    low = z <= a
    z, a, b = [dnp.where(low, -x, y) for x, y in ((z, z), (b, a), (a, b))]
    if z.dtype == np.float32:
        return truncnorm_log_share(z, a, b), low
    high = z >= b
    inner = dnp.where(high, dnp.where(dnp.isinf(a), b - 1, 0.5 * (a + b)), z)
    whole = log_mass(a, b)
    below, above = log_ratio(log_mass(a, z), whole), log_ratio(log_mass(inner, b), whole)
    small = high | (below < -LOG_2)
    return dnp.where(small, below, dnp.log1p(-dnp.exp(dnp.where(small, -1, above)))), low


def _truncnorm_cdf(z: Any, a: Any, b: Any) -> Any:
    log_share, is_above = _truncnorm_share(z, a, b)
    share = dnp.exp(log_share)
    return dnp.where(is_above, 1 - share, share)


def _truncnorm_logcdf(z: Any, a: Any, b: Any) -> Any:
    log_share, is_above = _truncnorm_share(z, a, b)
    return dnp.where(is_above, -math.inf, log_share)


def _wrapcauchy_logpdf(z: Any, c: Any) -> Any:
    """1 + c^2 - 2 c cos(z) is (1 - c)^2 + 4 c sin(z / 2)^2, which keeps its digits where c is near 1."""
    distance = (1 - c) ** 2 + 4 * c * dnp.sin(0.5 * z) ** 2
    return dnp.log1p(-c) + dnp.log1p(c) - LOG_2PI - dnp.log(distance)


def _gennorm_cdf(z: Any, beta: Any) -> Any:
    power = power_of_size(z, beta)
    # By the series of the integral there: the power may vanish, and its inverse powers overflow.
    tiny = power < 1e-5
    w = dnp.where(tiny, power, 0)
    series = 1 - w / (1 + beta) + 0.5 * w * w / (1 + 2 * beta)
    tail = 0.5 * gammaincc(1 / beta, dnp.where(tiny, 1, power))
    middle = 0.5 + 0.5 * z * series * dnp.exp(-gammaln(1 + 1 / beta))
    return dnp.where(tiny, middle, dnp.where(z > 0, 1 - tail, tail))


CONTINUOUS: list[Distribution] = [
    continuous(
        "norm", "The normal distribution.", also="pdf", kinds="fc",
        logpdf=lambda z: -0.5 * (z * z + LOG_2PI), cdf=ndtr, sf=lambda z: ndtr(-z), logcdf=log_ndtr,
        logsf=lambda z: log_ndtr(-z), ppf=ndtri, isf=lambda q: -ndtri(q)),
    continuous(
        "expon", "The exponential distribution.", support=_from(0), also="pdf",
        logpdf=lambda z: -z, logsf=lambda z: -z, sf=lambda z: dnp.exp(-z), cdf=one_minus_exp,
        logcdf=log1mexp, ppf=lambda q: -dnp.log1p(-q)),
    continuous(
        "gamma", "The gamma distribution of shape a.", "a", support=_from(0), valid=_positive, also="",
        pdf=lambda z, a: gamma_density(a, z), logpdf=gamma_logpdf, logcdf=gamma_logcdf, cdf=lambda z, a: gammainc(a, z),
        sf=lambda z, a: gammaincc(a, z), logsf=gamma_logsf),
    continuous(
        "chi2", "The chi-square distribution of df degrees of freedom.", "df", support=_from(0), valid=_positive,
        also="", pdf=lambda z, df: 0.5 * gamma_density(df / 2, z / 2),
        logpdf=lambda z, df: gamma_logpdf(z / 2, df / 2) - LOG_2,
        logcdf=lambda z, df: gamma_logcdf(z / 2, df / 2),
        cdf=lambda z, df: gammainc(df / 2, z / 2), sf=lambda z, df: gammaincc(df / 2, z / 2),
        logsf=lambda z, df: gamma_logsf(z / 2, df / 2)),
    continuous(
        "beta", "The beta distribution of shapes a and b.", "a b", support=_between(0, 1), valid=_positive,
        also="", pdf=lambda z, a, b: beta_density(a, b, z), logpdf=beta_logpdf,
        cdf=lambda z, a, b: betainc(a, b, z), sf=beta_sf, logcdf=beta_logcdf,
        logsf=beta_logsf),
    continuous(
        "cauchy", "The Cauchy distribution.", also="pdf",
        logpdf=lambda z: -math.log(math.pi) - log1p_square(z), cdf=cauchy_share, sf=lambda z: cauchy_share(-z),
        logcdf=_cauchy_logcdf, logsf=lambda z: _cauchy_logcdf(-z), ppf=_cauchy_ppf, isf=lambda q: -_cauchy_ppf(q)),
    continuous(
        "gennorm", "The generalised normal distribution, exp(-|x|^beta).", "beta", valid=_positive, cdf=_gennorm_cdf,
        logpdf=lambda z, beta: -LOG_2 - gammaln(1 + 1 / beta) - power_of_size(z, beta)),
    continuous(
        "gumbel_r", "Gumbel's distribution of the largest.", also="pdf cdf", share="p",
        logpdf=lambda z: -z - exp_or_inf(-z), logcdf=lambda z: -exp_or_inf(-z),
        sf=lambda z: one_minus_exp(exp_or_inf(-z)), logsf=lambda z: log1mexp_of_exp(-z),
        ppf=lambda p: -dnp.log(-dnp.log(p))),
    continuous(
        "gumbel_l", "Gumbel's distribution of the smallest.", also="pdf sf", share="p",
        logpdf=lambda z: z - exp_or_inf(z), logsf=lambda z: -exp_or_inf(z), cdf=lambda z: one_minus_exp(exp_or_inf(z)),
        logcdf=log1mexp_of_exp, ppf=lambda p: dnp.log(-dnp.log1p(-p))),
    continuous(
        "laplace", "The Laplace distribution.",
        logpdf=lambda z: -abs(z) - LOG_2, cdf=_laplace_cdf),
    continuous(
        "logistic", "The logistic distribution.", share="x",
        logpdf=lambda z: log_sigmoid(z) + log_sigmoid(-z), cdf=logistic_cdf,
        sf=lambda z: logistic_cdf(-z), ppf=logit, isf=lambda q: -logit(q)),
    continuous(
        "pareto", "The Pareto distribution of shape b.", "b", support=_from(1), valid=_positive, also="pdf sf",
        logpdf=lambda z, b: dnp.log(b) - (b + 1) * dnp.log(z), logsf=lambda z, b: -b * dnp.log(z),
        cdf=lambda z, b: one_minus_exp(b * dnp.log(z)), logcdf=lambda z, b: log1mexp(b * dnp.log(z)),
        ppf=lambda q, b: dnp.exp(-dnp.log1p(-q) / b)),
    continuous(
        "t", "Student's t distribution of df degrees of freedom.", "df", valid=_positive,
        logpdf=_t_logpdf),
    continuous(
        "truncnorm", "The normal distribution between a and b.", "a b", support=lambda a, b: (a, b),
        valid=lambda a, b: a < b,
        logpdf=_truncnorm_logpdf, cdf=_truncnorm_cdf, sf=lambda z, a, b: _truncnorm_cdf(-z, -b, -a),
        logcdf=_truncnorm_logcdf, logsf=lambda z, a, b: _truncnorm_logcdf(-z, -b, -a)),
    continuous(
        "uniform", "The uniform distribution on [0, 1].", support=_between(0, 1),
        logpdf=dnp.zeros_like, cdf=lambda z: z, ppf=lambda q: q),
    continuous(
        "vonmises", "The von Mises distribution of concentration kappa.", "kappa", periodic=True,
        valid=lambda kappa: (kappa >= 0) & (kappa < math.inf),
        logpdf=lambda z, kappa: -2 * kappa * dnp.sin(0.5 * z) ** 2 - LOG_2PI - dnp.log(i0e(kappa))),
    continuous(
        "wrapcauchy", "The wrapped Cauchy distribution of parameter c.", "c", support=_between(0, 2 * math.pi),
        valid=lambda c: (c > 0) & (c < 1),
        logpdf=_wrapcauchy_logpdf),
]  # fmt: skip

# --- Discrete distributions ---------------------------------------------------------------------------------


def _is_share(p: Any) -> Any:
    return (p >= 0) & (p <= 1)


def _bernoulli_ppf(q: Any, p: Any) -> Any:
    # -1: below the support, as in SciPy
    value = dnp.where(q == 0, -1.0, dnp.where((q <= 1 - p) & (q < 1), 0.0, 1.0))
    return dnp.where(_is_share(q) & _is_share(p), value, math.nan)


def _nbinom_pmf(k: Any, n: Any, p: Any) -> Any:
    """For k = 0 without n / n, whose derivative would be rounding errors of a small n."""
    share = dnp.where(k == 0, 1, n) / dnp.where(k == 0, 1, n + k)
    return beta_density(n + 1, k + 1, p) / (n + k + 1) * share


def _poisson_entropy(mu: Any) -> Any:
    """By its definition up to mean 50, by its asymptotic series (Evans and Boersma, SIAM Rev. 30, 1988) above."""
    near = mu < 50
    mean = dnp.where(near & (mu > 0), mu, 1)[..., None]
    k = dnp.arange(160, dtype=mu.dtype)
    log_p = log_poisson(k, mean)
    small = dnp.where(mu == 0, entr(mu), -(dnp.exp(log_p) * log_p).sum(-1))
    large = dnp.where(near, 50, mu)
    tail = sum(
        (c / large**i for i, c in enumerate((1 / 12, 1 / 24, 19 / 360, 9 / 80, 863 / 2520), 1)), 0 * large
    )
    value = dnp.where(near, small, 0.5 * dnp.log(2 * math.pi * math.e * large) - tail)
    return dnp.where(mu >= 0, value, math.nan)


DISCRETE: list[Distribution] = [
    discrete(
        "bernoulli", "The Bernoulli distribution: 1 with probability p, else 0.", "p", support=_between(0, 1),
        inside=lambda p: dnp.where(p < 1, 0, 1), valid=_is_share, also="",
        logpmf=lambda k, p: xlogy(k, p) + xlog1py(1 - k, -p),
        pmf=lambda k, p: dnp.where(k < 1, 1 - p, p), cdf=lambda k, p: dnp.where(k < 1, 1 - p, 1), ppf=_bernoulli_ppf),
    discrete(
        "binom", "The binomial distribution: successes among n trials.", "n p", support=lambda n, p: (0, n),
        inside=lambda n, p: dnp.where(p < 1, 0, n),
        valid=lambda n, p: (n >= 0) & (n == dnp.floor(n)) & _is_share(p),
        also="", pmf=lambda k, n, p: beta_density(k + 1, n - k + 1, p) / (n + 1),
        logpmf=lambda k, n, p: log_binomial_of_trials(n, k, p)),
    discrete(
        "betabinom", "The binomial distribution whose p has the beta distribution of a and b.", "n a b",
        support=lambda n, a, b: (0, n), valid=lambda n, a, b: (n >= 0) & (n == dnp.floor(n)) & _positive(a, b),
        logpmf=lambda k, n, a, b: log_beta_binomial(n, k, a, b)),
    discrete(
        "geom", "The geometric distribution: trials up to the first success.", "p", support=_from(1),
        valid=lambda p: (p > 0) & (p <= 1), also="",
        pmf=lambda k, p: beta_density(2, k, p) / k / (k + 1), logpmf=lambda k, p: xlog1py(k - 1, -p) + dnp.log(p)),
    discrete(
        "nbinom", "The negative binomial distribution: failures before the n-th success.", "n p", support=_from(0),
        valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
        also="", pmf=_nbinom_pmf,
        logpmf=lambda k, n, p: log_binomial(n, k, p) - log1p_quotient(k, n)),
    discrete(
        "poisson", "The Poisson distribution of mean mu.", "mu", support=_from(0), valid=lambda mu: mu >= 0,
        also="", pmf=lambda k, mu: gamma_density(k + 1, mu), logpmf=log_poisson, cdf=lambda k, mu: gammaincc(k + 1, mu),
        entropy=_poisson_entropy),
]  # fmt: skip
