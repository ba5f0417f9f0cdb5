"""Rows: special functions by fitted polynomials, logarithms and the beta function, against scipy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special, stats

from didax import lax
from didax.primitives import beta, densities, fitted, gamma, gamma_quotients, logarithmic
from tests.operations.row import Operation

DTYPES = ("float32", "float64")
CORNERS = np.array([0.0, -0.0, 1.0, 0.5, 2.0, 1e-30, 1e30, np.inf, -np.inf, np.nan, -1.0, -2.5, 8.0, 40.0])


def draw(*ranges: tuple[float, float]) -> Callable[..., tuple[Any, ...]]:
    """Square operands: batches along any axis have one shape, and so share one compiled program."""
    return lambda rng, dtype: tuple(rng.uniform(low, high, (2, 2)).astype(dtype) for low, high in ranges)


def corners(arity: int, values: np.ndarray = CORNERS) -> Callable[[Any], list[tuple[Any, ...]]]:
    grid = [x.ravel() for x in np.meshgrid(*[values] * arity)]
    return lambda dtype: [tuple(x.astype(dtype) for x in grid)]


def wide(f: Callable[..., Any]) -> Callable[..., Any]:
    def reference(*xs: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(f(*[x.astype("float64") for x in xs])).astype(xs[0].dtype)

    return reference


def stats_density(a: Any, b: Any, x: Any) -> Any:
    return x ** (a - 1) * (1 - x) ** (b - 1) / special.beta(a, b)


def solve(a: Any, b: Any) -> Any:
    return lax.custom_linear_solve(lambda x: a * x, b, lambda _, b: b / a, symmetric=True)


CLOSE = {"float32": 2e-6, "float64": 1e-13}  # SciPy's own error is the larger one in float64
LOOSE = {"float32": 1e-4, "float64": 1e-11}
NO_HUGE = CORNERS[np.abs(CORNERS) != 1e30]

ROWS = [
    Operation("bessel_i0e", lax.bessel_i0e, wide(special.i0e), draw((-20, 20)), DTYPES, corners=corners(1)),
    Operation("bessel_i1e", lax.bessel_i1e, wide(special.i1e), draw((-20, 20)), DTYPES, corners=corners(1),
              signed_reference=False),  # it is odd, and SciPy's is 0.0 at -0.0
    Operation("bessel_i0", fitted.bessel_i0, wide(special.i0), draw((-20, 20)), DTYPES, corners=corners(1), rtol=LOOSE),
    Operation("bessel_i1", fitted.bessel_i1, wide(special.i1), draw((-20, 20)), DTYPES, corners=corners(1), rtol=LOOSE,
              signed_reference=False),
    Operation("bessel_i1_slope", fitted.bessel_i1_slope, wide(lambda x: special.ivp(1, x)), draw((-20, 20)), DTYPES,
              corners=corners(1), rtol=LOOSE),
    Operation("exp_over_x", fitted.exp_over_x, wide(lambda x: np.exp(x) / x), draw((1, 9)), DTYPES, rtol=LOOSE),
    Operation("erfcx", fitted.erfcx, wide(special.erfcx), draw((-2, 20)), DTYPES, corners=corners(1)),
    Operation("erfinv", fitted.erfinv, wide(special.erfinv), draw((-0.9, 0.9)), DTYPES, corners=corners(1),
              signed_reference=False),
    Operation("log_ndtr", fitted.log_ndtr, wide(special.log_ndtr), draw((-20, 5)), DTYPES, corners=corners(1)),
    Operation("log_ndtr_slope", fitted.log_ndtr_slope, wide(lambda x: stats.norm.pdf(x) / special.ndtr(x)),
              draw((-20, 5)), DTYPES, rtol=CLOSE),
    Operation("cauchy_density", logarithmic.cauchy_density, wide(stats.cauchy.pdf), draw((-9, 9)), DTYPES,
              corners=corners(1), rtol=CLOSE),
    Operation("cauchy_share", logarithmic.cauchy_share, wide(stats.cauchy.cdf), draw((-9, 9)), DTYPES,
              corners=corners(1), rtol=CLOSE),
    Operation("ndtri", fitted.ndtri, wide(special.ndtri), draw((0.01, 0.99)), DTYPES, corners=corners(1)),
    Operation("exp1", fitted.exp1, wide(special.exp1), draw((0.1, 5)), DTYPES, corners=corners(1)),
    Operation("expi", fitted.expi, wide(special.expi), draw((1, 9)), DTYPES, corners=corners(1), rtol=LOOSE),
    Operation("xlogy", logarithmic.xlogy, wide(special.xlogy), draw((-2, 2), (0.1, 3)), DTYPES, corners=corners(2)),
    Operation("xlog1py", logarithmic.xlog1py, wide(special.xlog1py), draw((-2, 2), (-0.9, 3)), DTYPES,
              corners=corners(2)),
    Operation("boxcox", logarithmic.boxcox, wide(lambda p, x: special.boxcox(x, p)), draw((-2, 2), (0.2, 3)), DTYPES,
              rtol=CLOSE),
    Operation("boxcox1p", logarithmic.boxcox1p, wide(lambda p, x: special.boxcox1p(x, p)), draw((-2, 2), (-0.8, 3)),
              DTYPES, rtol=CLOSE),
    Operation("entr", logarithmic.entr, wide(special.entr), draw((0.1, 3)), DTYPES, corners=corners(1)),
    Operation("rel_entr", logarithmic.rel_entr, wide(special.rel_entr), draw((0.1, 3), (0.1, 3)), DTYPES,
              corners=corners(2, NO_HUGE)),
    Operation("kl_div", logarithmic.kl_div, wide(special.kl_div), draw((0.1, 3), (0.1, 3)), ("float64",), rtol=CLOSE),
    Operation("log_quotient", logarithmic.log_quotient, wide(lambda p, q: np.log(p / q)), draw((0.1, 3), (0.1, 3)),
              ("float64",), rtol=CLOSE),
    Operation("log1p_square", logarithmic.log1p_square, wide(lambda x: np.log1p(x * x)), draw((-3, 3)), DTYPES,
              corners=corners(1), rtol=LOOSE),
    Operation("logit", logarithmic.logit, wide(special.logit), draw((0.1, 0.9)), (*DTYPES, "bfloat16"),
              corners=corners(1)),
    Operation("gamma", gamma.gamma, wide(special.gamma), draw((0.1, 20)), DTYPES, corners=corners(1), rtol=CLOSE),
    Operation("trigamma", gamma.trigamma, wide(lambda x: special.polygamma(1, x)), draw((0.1, 20)), DTYPES, rtol=LOOSE),
    Operation("poch", gamma_quotients.poch, wide(special.poch), draw((0.5, 20), (0.5, 5)), ("float64",), rtol=CLOSE),
    Operation("beta", beta.beta, wide(special.beta), draw((1, 9), (1, 9)), ("float64",), rtol=CLOSE),
    Operation("number_of_ways", beta.number_of_ways, wide(special.comb), draw((9, 20), (0.5, 8)), ("float64",),
              rtol=CLOSE),
    Operation("beta_density", beta.beta_density, wide(stats_density), draw((0.3, 9), (0.3, 9), (0.05, 0.95)),
              ("float64",), rtol=CLOSE, second_order=False),
    Operation("log_poisson", densities.log_poisson, wide(lambda k, mu: k * np.log(mu) - mu - special.gammaln(k + 1)),
              draw((4, 30), (4, 30)), ("float64",), rtol=CLOSE, second_order=False),
    Operation("poisson_slope", densities.poisson_slope, wide(lambda a, x: a / x - 1), draw((4, 9), (4, 9)),
              ("float64",), rtol=CLOSE),
    Operation("gamma_slope", densities.gamma_slope, wide(lambda a, x: (a - 1) / x - 1), draw((4, 9), (4, 9)),
              ("float64",), rtol=CLOSE),
    Operation("log1p_quotient", densities.log1p_quotient, wide(lambda k, n: np.log1p(k / n)), draw((1, 9), (0.1, 9)),
              ("float64",), rtol=CLOSE),
    Operation("log_gamma_density", densities.log_gamma_density, wide(lambda a, x: stats.gamma.logpdf(x, a)),
              draw((4, 30), (4, 30)), ("float64",), rtol=CLOSE, second_order=False),
    Operation("log_binomial", densities.log_binomial,
              wide(lambda a, b, x: stats.beta.logpdf(x, a + 1, b + 1) - np.log(a + b + 1)),
              draw((4, 30), (4, 30), (0.05, 0.95)), ("float64",), rtol=CLOSE, second_order=False),
    Operation("log_beta_density", densities.log_beta_density, wide(lambda a, b, x: stats.beta.logpdf(x, a, b)),
              draw((4, 30), (4, 30), (0.05, 0.95)), ("float64",), rtol=CLOSE, second_order=False),
    Operation("ndtr", fitted.ndtr, wide(special.ndtr), draw((-12, 5)), DTYPES, corners=corners(1), rtol=CLOSE),
    Operation("normal_density", fitted.normal_density, wide(lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi)),
              draw((-12, 5)), ("float64",), corners=corners(1), rtol=CLOSE),
    Operation("spence", logarithmic.spence, wide(special.spence), draw((0.1, 5)), DTYPES,
              corners=corners(1, CORNERS[CORNERS < math.inf])),
    Operation("excess", logarithmic.excess, wide(lambda x, y: np.where(x == y, 0, x - y)), draw((-2, 2), (-2, 2)),
              (*DTYPES, "bfloat16"), corners=corners(2)),
    Operation("logaddexp", logarithmic.logaddexp, wide(np.logaddexp), draw((-3, 3), (-3, 3)),
              (*DTYPES, "float16", "bfloat16"), corners=corners(2)),
    Operation("log1mexp", logarithmic.log1mexp, wide(lambda x: -abs(np.log(-np.expm1(-x)))), draw((0.1, 5)), DTYPES,
              corners=corners(1)),
    Operation("hypot", logarithmic.hypot, wide(np.hypot), draw((-2, 2), (-2, 2)), (*DTYPES, "float16", "bfloat16"),
              corners=corners(2)),
    Operation("betaln", beta.betaln, wide(special.betaln), draw((0.1, 20), (0.1, 20)), DTYPES, rtol=LOOSE),
    Operation("betainc", beta.betainc, wide(special.betainc), draw((0.3, 5), (0.3, 5), (0.05, 0.95)), DTYPES,
              argnums=(2,), corners=corners(3, np.array([0.0, 1.0, 0.5, 2.0, np.inf, np.nan, -1.0])), rtol=LOOSE,
              second_order=False),
    Operation("betaincc", beta.betaincc, wide(special.betaincc), draw((0.3, 5), (0.3, 5), (0.05, 0.95)), ("float64",),
              argnums=(2,), corners=corners(3, np.array([0.0, 1.0, 0.5, 2.0, np.inf, np.nan, -1.0])), rtol=LOOSE,
              second_order=False),
    Operation("digamma_drop", gamma_quotients.digamma_drop, wide(lambda a, b: special.psi(a) - special.psi(a + b)),
              draw((0.3, 20), (0.3, 20)), DTYPES, rtol=LOOSE, second_order=False),
    Operation("trigamma_drop", gamma_quotients.trigamma_drop,
              wide(lambda a, b: special.polygamma(1, a) - special.polygamma(1, a + b)),
              draw((0.3, 20), (0.3, 20)), DTYPES, rtol=LOOSE, second_order=False),
    Operation("polygamma_2", gamma.polygamma_of(2), wide(lambda x: special.polygamma(2, x)), draw((-4, 20)), DTYPES,
              rtol=LOOSE, second_order=False),
    Operation("slope_of_log_binomial", densities.SLOPES[True, 0],
              wide(lambda a, b, x: np.log(x) - special.psi(a + 1) + special.psi(a + b + 1)),
              draw((0.3, 20), (0.3, 20), (0.05, 0.95)), DTYPES, rtol=LOOSE, second_order=False),
    Operation("slope_of_log_beta_density", densities.SLOPES[False, 1],
              wide(lambda a, b, x: np.log1p(-x) - special.psi(b) + special.psi(a + b)),
              draw((0.3, 20), (0.3, 20), (0.05, 0.95)), DTYPES, rtol=LOOSE, second_order=False),
    *[
        Operation(name, function, wide(reference), draw((0.3, 5), (0.3, 5), (0.05, 0.95)), ("float64",), argnums=(2,),
                  rtol={"float64": 1e-11}, second_order=False)
        for name, function, reference in (
            ("log_betainc", beta.log_betainc, lambda a, b, x: stats.beta.logcdf(x, a, b)),
            ("log_betaincc", beta.log_betaincc, lambda a, b, x: stats.beta.logsf(x, a, b)),
            ("beta_rate", beta.beta_rate, lambda a, b, x: stats.beta.pdf(x, a, b) / stats.beta.cdf(x, a, b)),
            ("beta_hazard", beta.beta_hazard, lambda a, b, x: stats.beta.pdf(x, a, b) / stats.beta.sf(x, a, b)),
        )
    ],
    Operation("custom_linear_solve", solve, lambda a, b: b / a, draw((1, 2), (-1, 1)), ("float32", "complex64")),
]  # fmt: skip
ROWS = [replace(row, is_costly=row.name != "custom_linear_solve") for row in ROWS]
