"""The densities and shares of the gamma and beta distributions, whose logarithms do not end where the shares vanish.

    gamma_logcdf(z, a), gamma_logsf(z, a)          log P(a, z) and log Q(a, z)
    beta_logcdf(z, a, b), beta_logsf(z, a, b)      log I_z(a, b) and log(1 - I_z(a, b))

Where a share is below the least number of its dtype, its logarithm is that of the density times a continued fraction.
So far from the mean few terms of the fraction suffice. Read next: `_tables.py`.
"""

from __future__ import annotations

import math
from typing import Any

import didax.numpy as dnp
from didax.lax import stop_gradient
from didax.scipy.special import betainc, betaincc, gammainc, gammaincc
from didax.scipy.stats._distributions import log_of_smaller
from didax.scipy.stats._parts import log_beta_density, log_binomial, log_gamma_density, log_poisson

_STEPS = 12  # of a continued fraction, two terms each


def _least_log(z: Any) -> float:
    """The logarithm of a number near the least one of the dtype."""
    return math.log(1e3 * float(dnp.finfo(z.dtype).tiny))


# --- The gamma distribution ---------------------------------------------------------------------------------


def gamma_logpdf(z: Any, a: Any) -> Any:
    """At 0 the density may vanish; its logarithm has no derivative there."""
    end = (z == 0) & (a > 1)
    return dnp.where(end, -math.inf, log_gamma_density(a, dnp.where(end, 1, z)))


def gamma_logcdf(z: Any, a: Any) -> Any:
    """Where the share vanishes, by the continued fraction of the lower incomplete gamma function (DLMF 8.9.1)."""
    inside = (z > 0) & (z < a)
    far = inside & (log_poisson(a, dnp.where(inside, z, 1)) < _least_log(z))
    usual = _gamma_logcdf_near(dnp.where(far, stop_gradient(a), z), a)
    x, shape = dnp.where(far, z, 1), dnp.where(far, a, 100)
    below = shape + 2 * _STEPS + 1
    for k in range(_STEPS, 0, -1):
        below = shape + 2 * k - (shape + k) * x / below
        below = shape + (2 * k - 1) + k * x / below
    return dnp.where(far, log_poisson(shape, x) - dnp.log1p(-x / below), usual)


def gamma_logsf(z: Any, a: Any) -> Any:
    """Where the tail vanishes, by the continued fraction of gammaincc (DLMF 8.9.2)."""
    far = (z > a + 1) & (log_gamma_density(a, dnp.where(z > 0, z, 1)) < _least_log(z))
    usual = _gamma_logsf_near(dnp.where(far, stop_gradient(a), z), a)
    x, shape = dnp.where(far, z, 100), dnp.where(far, a, 1)
    below = x + (2 * _STEPS + 1) - shape
    for k in range(_STEPS, 0, -1):
        below = x + (2 * k - 1) - shape - k * (k - shape) / below
    return dnp.where(far, log_gamma_density(shape, x) + dnp.log(x / below), usual)


_gamma_logcdf_near = log_of_smaller(lambda z, a: gammainc(a, z), lambda z, a: gammaincc(a, z))
_gamma_logsf_near = log_of_smaller(lambda z, a: gammaincc(a, z), lambda z, a: gammainc(a, z))

# --- The beta distribution ----------------------------------------------------------------------------------


def beta_logpdf(z: Any, a: Any, b: Any) -> Any:
    """At an end the density may vanish; its logarithm has no derivative there."""
    end = ((z == 0) & (a > 1)) | ((z == 1) & (b > 1))
    return dnp.where(end, -math.inf, log_beta_density(a, b, dnp.where(end, 0.5, z)))


def beta_sf(z: Any, a: Any, b: Any) -> Any:
    """1 - I_z(a, b)."""
    return betaincc(a, b, z)


def beta_logcdf(z: Any, a: Any, b: Any) -> Any:
    """log I_z(a, b)."""
    return _beta_log_share(z, a, b, lower=True)


def beta_logsf(z: Any, a: Any, b: Any) -> Any:
    """log(1 - I_z(a, b))."""
    return _beta_log_share(z, a, b, lower=False)


def _beta_log_share(z: Any, a: Any, b: Any, lower: bool) -> Any:
    """Where the share vanishes, by the continued fraction of betainc (DLMF 8.17.22): see `primitives/beta.py`."""
    mean = (a + 1) / (a + b + 2)
    inside = (z > 0) & (z < 1) & ((z < mean) if lower else (z > mean))
    first, last = (a, b) if lower else (b, a)
    weight = log_binomial(a, b, dnp.where(inside, z, 0.5))
    far = inside & (weight < _least_log(z))
    usual = (_beta_logcdf_near if lower else _beta_logsf_near)(dnp.where(far, stop_gradient(mean), z), a, b)
    z, m, n = [dnp.where(far, x, safe) for x, safe in ((z, 0.25 if lower else 0.75), (first, 1), (last, 1))]
    x, below = z if lower else 1 - z, 1
    for k in range(_STEPS, -1, -1):
        if k < _STEPS:
            below = 1 + (k + 1) / (m + 2 * k + 1) * ((n - k - 1) / (m + 2 * k + 2)) * x / below
        below = 1 - (m + k) / (m + 2 * k) * ((m + n + k) / (m + 2 * k + 1)) * x / below
    log_weight = log_binomial(m, n, z) if lower else log_binomial(n, m, z)
    return dnp.where(far, log_weight - dnp.log1p(m / n) - dnp.log(below), usual)


def _beta_cdf(z: Any, a: Any, b: Any) -> Any:
    return betainc(a, b, z)


_beta_logcdf_near = log_of_smaller(_beta_cdf, beta_sf)
_beta_logsf_near = log_of_smaller(beta_sf, _beta_cdf)
