"""Writes docs/accuracy.md: the largest errors of special functions and distributions in units in the last place (ulp).

    pip install mpmath; python docs/make_accuracy.py

Each function is compiled and evaluated at points of a region, drawn with a fixed seed and rounded to the dtype; mpmath
evaluates it with 30 digits at the same points. Results differ a little between processors. mpmath is needed for this
script only, so the page is written by hand, after a change of `didax/scipy/special.py` or its primitives; a test says
which public functions have neither a row nor a reason.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import didax as dx
import didax.numpy as dnp
from didax.scipy import special, stats

PAGE = Path(__file__).parent / "accuracy.md"
POINTS = 40


class Row(NamedTuple):
    """A function, the regions of its arguments, and what mpmath calls it."""

    name: str
    exact: Callable[..., Any]
    regions: tuple[tuple[Any, ...], ...]
    call: Callable[..., Any] | None = None
    unit: float = 0.0  # errors are counted in ulp of no smaller number than this one: of functions with zeros

    @property
    def function(self) -> Callable[..., Any]:
        return self.call or getattr(special, self.name.split()[0])


def rows(mp: Any) -> list[Row]:
    """The table. A region is (low, high), with "log" for points spread over the powers of ten, "int" for integers."""
    wide, positive, share = (-5.0, 5.0), (1e-3, 50.0, "log"), (1e-3, 0.999)
    log_ndtr = lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)
    xlogy = lambda x, y: x * mp.log(y)
    rel_entr = lambda p, q: p * mp.log(p / q)
    power = lambda log_x, k: mp.expm1(k * log_x) / k
    gammainc = lambda a, x: mp.gammainc(a, 0, x, regularized=True)
    gammaincc = lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True)
    owens_t = lambda h, a: (
        mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mp.pi)
    )
    multigamma = lambda x: mp.log(mp.pi) / 2 + mp.loggamma(x) + mp.loggamma(x - mp.mpf(1) / 2)
    betainc = lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True)
    betaincc = lambda a, b, x: mp.betainc(a, b, x, 1, regularized=True)
    bessel = lambda x: special.bessel_jn(x, v=2)[2]
    return [
        Row("bessel_jn (n = 2)", lambda x: mp.besselj(2, x), ((0.1, 20.0),), bessel, 0.1),
        Row("beta", mp.beta, ((0.1, 10.0), (0.1, 10.0))),
        Row("betainc", betainc, ((0.5, 10.0), (0.5, 10.0), (0.05, 0.95))),
        Row("betaincc", betaincc, ((0.5, 10.0), (0.5, 10.0), (0.05, 0.95))),
        Row("betaln", lambda a, b: mp.log(mp.beta(a, b)), ((0.1, 20.0), (0.1, 20.0)), unit=1.0),
        Row("boxcox", lambda x, k: power(mp.log(x), k), ((0.1, 10.0), (0.1, 3.0)), unit=0.1),
        Row("boxcox1p", lambda x, k: power(mp.log1p(x), k), ((1e-3, 10.0, "log"), (0.1, 3.0))),
        Row("dawsn", lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), ((1e-3, 20.0, "log"),)),
        Row("digamma", mp.digamma, (positive,), unit=0.5),
        Row("entr", lambda x: -x * mp.log(x), ((1e-6, 0.9, "log"),)),
        Row("erf", mp.erf, ((1e-4, 4.0, "log"),)),
        Row("erfc", mp.erfc, ((-3.0, 8.0),)),
        Row("erfcx", lambda x: mp.exp(x * x) * mp.erfc(x), ((-3.0, 50.0),)),
        Row("erfinv", mp.erfinv, ((-0.999, 0.999),)),
        Row("exp1", mp.e1, ((1e-3, 50.0, "log"),)),
        Row("expi", mp.ei, ((0.5, 50.0, "log"),), unit=0.5),
        Row("expit", lambda x: 1 / (1 + mp.exp(-x)), ((-20.0, 20.0),)),
        Row("expn (n = 3)", lambda x: mp.expint(3, x), ((1e-3, 50.0, "log"),), lambda x: special.expn(3, x)),
        Row("factorial", mp.factorial, ((0.0, 20.0),)),
        Row("fresnel (S)", mp.fresnels, ((0.1, 10.0),), lambda x: special.fresnel(x)[0]),
        Row("fresnel (C)", mp.fresnelc, ((0.1, 10.0),), lambda x: special.fresnel(x)[1]),
        Row("gamma", mp.gamma, ((0.05, 20.0),)),
        Row("gammainc", gammainc, ((0.5, 20.0), (0.5, 20.0))),
        Row("gammaincc", gammaincc, ((0.5, 20.0), (0.5, 20.0))),
        Row("gammaln", mp.loggamma, (positive,), unit=0.5),
        Row("hyp1f1", mp.hyp1f1, ((0.5, 5.0), (0.5, 5.0), (0.1, 10.0))),
        Row("hyp2f1", mp.hyp2f1, ((0.5, 3.0), (0.5, 3.0), (1.0, 4.0), (0.0, 0.9))),
        Row("i0", lambda x: mp.besseli(0, x), ((0.0, 30.0),)),
        Row("i0e", lambda x: mp.besseli(0, x) * mp.exp(-x), ((0.0, 50.0),)),
        Row("i1", lambda x: mp.besseli(1, x), ((0.01, 30.0),)),
        Row("i1e", lambda x: mp.besseli(1, x) * mp.exp(-x), ((0.01, 50.0),)),
        Row("kl_div", lambda p, q: rel_entr(p, q) - p + q, ((0.1, 5.0), (0.1, 5.0)), unit=1.0),
        Row("log_ndtr", log_ndtr, ((-30.0, 3.0),)),
        Row("logit", lambda p: mp.log(p / (1 - p)), (share,), unit=0.5),
        Row("loggamma", mp.loggamma, (positive,), unit=0.5),
        Row("multigammaln (d = 2)", multigamma, ((1.0, 30.0),), lambda x: special.multigammaln(x, 2), 1.0),
        Row("ndtr", mp.ncdf, ((-10.0, 5.0),)),
        Row("ndtri", lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), ((1e-6, 0.999, "log"),), unit=0.5),
        Row("owens_t", owens_t, ((0.0, 4.0), (0.05, 5.0))),
        Row("poch", mp.rf, ((0.5, 10.0), (0.5, 5.0))),
        Row("polygamma (n = 1)", lambda x: mp.polygamma(1, x), (positive,), lambda x: special.polygamma(1, x)),
        Row("rel_entr", rel_entr, ((0.1, 5.0), (0.1, 5.0)), unit=0.5),
        Row("sici (Si)", mp.si, ((0.01, 50.0, "log"),), lambda x: special.sici(x)[0]),
        Row("sici (Ci)", mp.ci, ((0.01, 50.0, "log"),), lambda x: special.sici(x)[1], 0.5),
        Row("spence", lambda x: mp.polylog(2, 1 - x), ((0.01, 1.9),), unit=0.5),
        Row("wofz (real part)", lambda x: mp.exp(-x * x), ((0.0, 5.0),), lambda x: special.wofz(x).real),
        Row("xlog1py", lambda x, y: x * mp.log1p(y), (wide, (1e-3, 10.0, "log"))),
        Row("xlogy", xlogy, (wide, (1e-3, 10.0, "log")), unit=0.5),
        Row("zeta", mp.zeta, ((1.1, 10.0), (0.5, 10.0))),
    ]  # fmt: skip


def distributions(mp: Any) -> list[Row]:
    """The table of distributions: their densities, and their tails, where a difference from 1 would lose the digits."""
    below = lambda x: mp.erfc(-x / mp.sqrt(2)) / 2
    between = lambda a, b: below(-a) - below(-b) if a > 0 else below(b) - below(a)
    trunc_logpdf = lambda x: -x * x / 2 - mp.log(2 * mp.pi) / 2 - mp.log(between(mp.mpf(5), mp.mpf(8)))
    trunc_cdf = lambda x: between(mp.mpf(5), x) / between(mp.mpf(5), mp.mpf(8))
    trunc_logsf = lambda x: mp.log(between(x, mp.mpf(30))) - mp.log(between(mp.mpf(-1), mp.mpf(30)))
    gamma_below = lambda x, a: mp.gammainc(a, 0, x, regularized=True)
    gamma_above = lambda x, a: mp.gammainc(a, x, mp.inf, regularized=True)
    beta_below = lambda x, a, b: mp.betainc(a, b, 0, x, regularized=True)
    t_logpdf = lambda x, v: (
        mp.loggamma((v + 1) / 2)
        - mp.loggamma(v / 2)
        - mp.log(v * mp.pi) / 2
        - (v + 1) / 2 * mp.log1p(x * x / v)
    )
    von_mises = lambda x, k: k * (mp.cos(x) - 1) - mp.log(2 * mp.pi * mp.besseli(0, k) * mp.exp(-k))
    poisson = lambda k, mu: mp.floor(k) * mp.log(mu) - mu - mp.loggamma(mp.floor(k) + 1)
    logpmf = lambda k, mu: stats.poisson.logpmf(dnp.floor(k), mu)
    return [
        Row("norm.logcdf", lambda x: mp.log(below(x)), ((-30.0, 3.0),), stats.norm.logcdf),
        Row("norm.logsf", lambda x: mp.log(below(-x)), ((-3.0, 30.0),), stats.norm.logsf),
        Row("truncnorm.logpdf (5, 8)", trunc_logpdf, ((5.01, 7.99),), lambda x: stats.truncnorm.logpdf(x, 5, 8), 1),
        Row("truncnorm.cdf (5, 8)", trunc_cdf, ((5.01, 7.99),), lambda x: stats.truncnorm.cdf(x, 5, 8)),
        Row("truncnorm.logsf (-1, 30)", trunc_logsf, ((1.0, 29.0),), lambda x: stats.truncnorm.logsf(x, -1, 30)),
        Row("gamma.logcdf", lambda x, a: mp.log(gamma_below(x, a)), ((1e-3, 2.0, "log"), (0.5, 20.0)),
            stats.gamma.logcdf, 1),
        Row("gamma.logsf", lambda x, a: mp.log(gamma_above(x, a)), ((20.0, 60.0), (0.5, 15.0)), stats.gamma.logsf, 1),
        Row("beta.logcdf", lambda x, a, b: mp.log(beta_below(x, a, b)), ((0.01, 0.5), (0.5, 10.0), (0.5, 10.0)),
            stats.beta.logcdf, 1),
        Row("t.logpdf", t_logpdf, ((-20.0, 20.0), (0.5, 30.0)), stats.t.logpdf, 1),
        Row("norm.pdf", mp.npdf, ((-13.0, 13.0),), stats.norm.pdf),
        Row("gamma.pdf", lambda x, a: x ** (a - 1) * mp.exp(-x) / mp.gamma(a), ((1e-3, 80.0, "log"), (0.5, 20.0)),
            stats.gamma.pdf),
        Row("vonmises.pdf", lambda x, k: mp.exp(von_mises(x, k)), ((-3.0, 3.0), (0.1, 100.0)), stats.vonmises.pdf),
        Row("vonmises.logpdf", von_mises, ((-3.0, 3.0), (0.1, 100.0)), stats.vonmises.logpdf, 1),
        Row("poisson.pmf", lambda k, mu: mp.exp(poisson(k, mu)), ((0.0, 60.0), (0.5, 40.0)),
            lambda k, mu: stats.poisson.pmf(dnp.floor(k), mu)),
        Row("poisson.logpmf", poisson, ((0.0, 60.0), (0.5, 40.0)), logpmf, 1),
    ]  # fmt: skip


REASONS = {
    "bernoulli comb gammasgn": "rational or whole numbers, rounded once",
    "logsumexp softmax log_softmax": "sums, whose error grows with their length",
    "sph_harm_y": "products of polynomials; tests compare with SciPy",
}

HEAD = "| function | region | float32 | float64 | unit of at least |\n|---|---|---:|---:|---:|\n"

LIMITS = """
Outside of these regions:

- `hyp1f1`, `hyp2f1`: parameters of some tens may make the terms of the series cancel, at worst to a relative error of
  1e-3 in float64; where less than this would be known the result is NaN (`hyp1f1(195, 2.4, -17)`,
  `hyp2f1(-29.75, -28.25, 24, -0.8125)`). float32 is computed in float64, at three to four times the cost.
  Derivatives of `hyp2f1` by its parameters may be NaN where their series is too long: for 1 - x < 6e-4 and x < -1500;
  and they are NaN where c is 0 or a negative whole number.
  Derivatives of `hyp1f1` by its parameters are NaN for x far below 0 where b - a is 0 or a negative whole number.
- Derivatives of `beta` and `poch` are NaN at their zeros, which lie at negative arguments (`beta(0.5, -1.5)`,
  `poch(-3, 1.5)`), and second derivatives beside zeros and poles lose digits: formulas for them would make every
  gradient of `beta` and `poch` compile 15 % longer.
"""


def points(region: tuple[Any, ...], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Points of a region."""
    low, high, *how = region
    return np.exp(rng.uniform(np.log(low), np.log(high), POINTS)) if how else rng.uniform(low, high, POINTS)


def largest_error(row: Row, mp: Any, dtype: str) -> float:
    """The largest error in ulp."""
    rng = np.random.default_rng(0)
    args = [points(region, rng).astype(dtype) for region in row.regions]
    with dx.enable_x64(dtype == "float64"):
        found = np.asarray(dx.jit(row.function)(*args))
    errors = []
    for y, *xs in zip(found, *args, strict=True):
        wanted = mp.re(row.exact(*[mp.mpf(float(x)) for x in xs]))
        unit = np.spacing(np.abs(np.asarray(max(abs(float(wanted)), row.unit), dtype)))
        if abs(wanted) > float(np.finfo(dtype).tiny) and float(unit) > 0:
            errors.append(float(abs(mp.mpf(float(y)) - wanted) / float(unit)))
    return max(errors)


def _line(row: Row) -> str:
    """The line of a table."""
    import mpmath

    regions = " x ".join(f"[{region[0]:g}, {region[1]:g}]" for region in row.regions)
    unit = f"{row.unit:g}" if row.unit else ""
    errors = [f"{largest_error(row, mpmath.mp, dtype):.3g}" for dtype in ("float32", "float64")]
    line = f"| `{row.name}` | {regions} | {' | '.join(errors)} | {unit} |"
    print(line, file=sys.stderr)
    return line


def page() -> str:
    """The text of the page."""
    import mpmath  # for this script only

    mpmath.mp.dps = 30
    table = "\n".join(map(_line, rows(mpmath.mp)))
    of_distributions = "\n".join(map(_line, distributions(mpmath.mp)))
    reasons = "\n".join(
        f"- {', '.join(f'`{n}`' for n in names.split())}: {why}." for names, why in REASONS.items()
    )
    return (
        "# How accurate special functions are\n\n"
        "The largest error of each function of `didax.scipy.special`, compiled for the CPU, at "
        f"{POINTS} points of a region, in units in the\nlast place (ulp) of the exact value, which is mpmath's with 30 "
        "digits. Near a zero of a function the exact value is tiny, and\nso is its last place. There the error is in "
        "units in the last place of the larger number that the last column names. The\npage is made by "
        "[docs/make_accuracy.py](make_accuracy.py).\n\n"
        f"{HEAD}{table}\n\nNot in the table:\n\n{reasons}\n{LIMITS}\n"
        "Distributions of `didax.scipy.stats`, in the same way; the parameters are in brackets, or regions after that "
        f"of x:\n\n{HEAD}{of_distributions}\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page())
