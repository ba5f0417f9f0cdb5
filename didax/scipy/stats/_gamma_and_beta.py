"""The densities and shares of the gamma and beta distributions, whose logarithms do not end where the shares vanish.

    gamma_logcdf(z, a), gamma_logsf(z, a)          log P(a, z) and log Q(a, z)
    beta_logcdf(z, a, b), beta_logsf(z, a, b)      log I_z(a, b) and log(1 - I_z(a, b))

Read next: `_tables.py`, and `didax/primitives/special.py` and `beta.py` for the logarithms of shares.
"""

from __future__ import annotations

import math
from typing import Any

import didax.numpy as dnp
from didax.numpy.ufunc import ufunc
from didax.primitives import beta, special
from didax.scipy.special import betaincc
from didax.scipy.stats._parts import log_beta_density, log_gamma_density


def _log_share(name: str, nin: int, implementation: Any) -> ufunc:
    return ufunc(name, nin, "The logarithm of a share.", operands="inexact", f=implementation)


_log_gammainc = _log_share("log_gammainc", 2, special.log_igamma)
_log_gammaincc = _log_share("log_gammaincc", 2, special.log_igammac)
_log_betainc = _log_share("log_betainc", 3, beta.log_betainc)
_log_betaincc = _log_share("log_betaincc", 3, beta.log_betaincc)


def gamma_logpdf(z: Any, a: Any) -> Any:
    """At 0 the density may vanish; its logarithm has no derivative there."""
    end = (z == 0) & (a > 1)
    return dnp.where(end, -math.inf, log_gamma_density(a, dnp.where(end, 1, z)))


def gamma_logcdf(z: Any, a: Any) -> Any:
    """log P(a, z)."""
    return _log_gammainc(a, z)


def gamma_logsf(z: Any, a: Any) -> Any:
    """log Q(a, z)."""
    return _log_gammaincc(a, z)


def beta_logpdf(z: Any, a: Any, b: Any) -> Any:
    """At an end the density may vanish; its logarithm has no derivative there."""
    end = ((z == 0) & (a > 1)) | ((z == 1) & (b > 1))
    return dnp.where(end, -math.inf, log_beta_density(a, b, dnp.where(end, 0.5, z)))


def beta_sf(z: Any, a: Any, b: Any) -> Any:
    """1 - I_z(a, b)."""
    return betaincc(a, b, z)


def beta_logcdf(z: Any, a: Any, b: Any) -> Any:
    """log I_z(a, b)."""
    return _log_betainc(a, b, z)


def beta_logsf(z: Any, a: Any, b: Any) -> Any:
    """log(1 - I_z(a, b))."""
    return _log_betaincc(a, b, z)
