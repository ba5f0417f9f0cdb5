"""Special functions, with the names and arguments of `jax.scipy.special`.

    from didax.scipy import special
    special.logit(p), special.xlogy(p, q), special.betainc(a, b, x)

Elementwise functions promote their operands to a common floating-point dtype and broadcast them. Derivatives
are finite wherever they have a finite limit: of `xlogy` at probability 0, of `log_ndtr` far in the tail, of
`logsumexp` at -inf. Read next: `didax/primitives/logarithmic.py`, `fitted.py`, `beta.py` and `special.py`,
which define the primitives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import didax.numpy as dnp
from didax import nn
from didax.api.whole_functions import evaluated_whole
from didax.core.dtypes import default_dtype
from didax.core.errors import api_boundary, message
from didax.core.modules import on_access
from didax.core.value import Array
from didax.nn import logsumexp
from didax.numpy.promotion import promote_dtypes
from didax.numpy.ufunc import ufunc
from didax.primitives import beta as _beta
from didax.primitives import elementwise as el
from didax.primitives import fitted, hypergeometric, integrals, logarithmic
from didax.primitives import gamma as _gamma
from didax.primitives import special as loops
from didax.primitives.gamma_quotients import poch as _poch
from didax.primitives.narrow import bytes_in_float32, halves_in_float32
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where as select
from didax.scipy import _families as families
from didax.scipy._families import bessel_jn, complex_gamma, complex_loggamma, complex_xlogy, sph_harm_y, wofz

__all__ = [
    "bernoulli", "bessel_jn", "beta", "betainc", "betaincc", "betaln", "boxcox", "boxcox1p", "comb", "dawsn", "digamma",
    "entr", "erf", "erfc", "erfcx", "erfinv", "exp1", "expi", "expit", "expn", "factorial", "fresnel", "gamma",
    "gammainc", "gammaincc", "gammaln", "gammasgn", "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "kl_div", "log_ndtr",
    "log_softmax", "loggamma", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "owens_t", "poch", "polygamma",
    "rel_entr", "sici", "softmax", "spence", "sph_harm_y", "wofz", "xlog1py", "xlogy", "zeta",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

ArrayLike = Any
Axes = int | tuple[int, ...] | None


# The operands' names, by which a call may give them; that of a function of one operand is x.
_NAMES = {
    "beta": "a b", "betainc": "a b x", "betaincc": "a b x", "betaln": "a b", "boxcox": "x lmbda", "boxcox1p": "x lmbda",
    "expn": "n x", "gammainc": "a x", "gammaincc": "a x", "hyp1f1": "a b x", "hyp2f1": "a b c x", "kl_div": "p q",
    "ndtri": "p", "owens_t": "h a", "poch": "z m", "polygamma": "n x", "rel_entr": "p q", "xlog1py": "x y",
    "xlogy": "x y", "zeta": "x q",
}  # fmt: skip


_LISTED = ("expn", "hyp1f1", "hyp2f1", "log_ndtr", "ndtr", "spence")


class _OfLists(ufunc):
    """A ufunc that takes lists and tuples of numbers, too, which the others refuse."""

    def _make_plan(self, args: Sequence[Any]) -> Any:
        return self._call_lists if any([type(x) in (list, tuple) for x in args]) else super()._make_plan(args)

    def _call_lists(self, *args: Any) -> Any:
        return self(*[dnp.asarray(x) if type(x) in (list, tuple) else x for x in args])


def _function(name: str, nin: int, doc: str, implementation: Any, kinds: str = "f") -> ufunc:
    made = (_OfLists if name in _LISTED else ufunc)(
        name, nin, doc, operands="inexact", names=_NAMES.get(name, "x"), **{kinds: implementation}
    )
    made.__module__ = __name__
    return made


def _choose(condition: Any, x: Any, y: Any) -> Any:
    """Bind `select` where one case may be a Python scalar."""
    dtype = (y if type(x) is float else x).dtype
    return select(condition, *[scalar_like(case, dtype) if type(case) is float else case for case in (x, y)])


# --- Logistic functions and entropies -----------------------------------------------------------------------


expit = _function("expit", 1, "1 / (1 + exp(-x)).", el.logistic, "fc")
logit = _function("logit", 1, "log(p / (1 - p)), the inverse of `expit`.", logarithmic.logit)
logit.implementations["c"] = families.complex_logit
xlogy = _function("xlogy", 2, "x log(y), and 0 where x is 0, with its derivatives.", logarithmic.xlogy)
xlogy.implementations["c"] = complex_xlogy
xlog1py = _function(
    "xlog1py", 2, "x log(1 + y), and 0 where x is 0, with its derivatives.", logarithmic.xlog1py
)
xlog1py.implementations["c"] = families.complex_xlog1py
entr = _function("entr", 1, "-x log(x), 0 at 0 and -inf below.", logarithmic.entr)
rel_entr = _function("rel_entr", 2, "p log(p / q), 0 where p is 0; inf where p or q is negative, or where only q is 0.",
                     logarithmic.rel_entr)  # fmt: skip
kl_div = _function("kl_div", 2, "p log(p / q) - p + q; inf where `rel_entr` is inf.", logarithmic.kl_div)


@evaluated_whole
@api_boundary
def softmax(x: ArrayLike, /, *, axis: Axes = None) -> Array:
    """Return exp(x) / sum(exp(x)) over an axis, by default over all elements.

    >>> from didax.scipy import special
    >>> special.softmax(dnp.zeros(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    return nn.softmax(x, tuple(range(dnp.ndim(x))) if axis is None else axis)


@evaluated_whole
@api_boundary
def log_softmax(x: ArrayLike, /, *, axis: Axes = None) -> Array:
    """Return log(softmax(x)), without overflow, over an axis, by default over all elements.

    >>> from didax.scipy import special
    >>> float(special.log_softmax(dnp.array([0.0, 1000.0]))[0])
    -1000.0
    """
    return nn.log_softmax(x, tuple(range(dnp.ndim(x))) if axis is None else axis)


# --- Error functions and the normal distribution ------------------------------------------------------------


erf = _function("erf", 1, "The error function.", el.erf)
erfc = _function("erfc", 1, "1 - erf(x), accurate where it is small.", el.erfc)
erfcx = _function("erfcx", 1, "exp(x^2) erfc(x), which does not vanish for large x.", fitted.erfcx)
erfcx.implementations["c"] = families.complex_erfcx
erfinv = _function("erfinv", 1, "The inverse of erf, on [-1, 1].", fitted.erfinv)
ndtr = _function("ndtr", 1, "The normal distribution function.", fitted.ndtr)
ndtri = _function("ndtri", 1, "The inverse of `ndtr`, on [0, 1].", fitted.ndtri)
_log_ndtr = _function("log_ndtr", 1, "", fitted.log_ndtr)


@api_boundary
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """Return log(ndtr(x)), accurate in both tails; `series_order` is accepted for compatibility and ignored.

    >>> from didax.scipy import special
    >>> float(special.log_ndtr(-100.0))
    -5005.52...
    """
    return _log_ndtr(x)


# --- Gamma functions ----------------------------------------------------------------------------------------


gamma = _function("gamma", 1, "The gamma function; NaN at negative integers.", _gamma.gamma)
gamma.implementations["c"] = complex_gamma
gammaln = _function("gammaln", 1, "log|gamma(x)|.", _gamma.lgamma)
loggamma = _function(
    "loggamma",
    1,
    "log(gamma(x)), NaN for negative numbers; of complex numbers its continuation, with a cut there.",
    lambda x: _choose(el.lt(x, 0), math.nan, _gamma.lgamma(x)),
)
loggamma.implementations["c"] = complex_loggamma
gammasgn = _function(
    "gammasgn", 1, "The sign of gamma(x); NaN at negative integers.", bytes_in_float32(_gamma.gamma_sign)
)
digamma = _function("digamma", 1, "The derivative of `gammaln`.", _gamma.digamma)
gammainc = _function("gammainc", 2, "P(a, x), the regularised lower incomplete gamma function.", loops.igamma)
gammaincc = _function("gammaincc", 2, "Q(a, x) = 1 - P(a, x), accurate where it is small.", loops.igammac)
polygamma = _function(
    "polygamma", 2, "The n-th derivative of `digamma` at x; not differentiable by n.", _gamma.polygamma
)
poch = _function("poch", 2, "gamma(z + m) / gamma(z).", _poch)
beta = _function("beta", 2, "gamma(a) gamma(b) / gamma(a + b).", _beta.beta)
betaln = _function("betaln", 2, "log|beta(a, b)|, accurate for large a and b.", _beta.betaln)
betainc = _function("betainc", 3, "I_x(a, b), the distribution function of Beta(a, b).", _beta.betainc)
betaincc = _function(
    "betaincc",
    3,
    "1 - betainc(a, b, x), which keeps its digits where it is small.",
    _beta.betaincc,
)
_zeta = _function("zeta", 2, "", _gamma.zeta)


@api_boundary
def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Return the sum of 1 / (k + q)^x over k >= 0, for x > 1; differentiable by both.

    Without q this is Riemann's zeta function, for which q = 1. Below 1, where the sum does not converge, the function
    and its derivatives are NaN. It is not continued there; SciPy continues Riemann's function only.

    >>> from didax.scipy import special
    >>> round(float(special.zeta(2.0)) * 6 / math.pi**2, 5)
    1.0
    """
    return _zeta(x, 1.0 if q is None else q)


@evaluated_whole
@api_boundary
def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """Return gamma(n + 1), and 0 for negative n.

    NotImplementedError with `exact`: only Python has integers of any size.

    >>> from didax.scipy import special
    >>> round(float(special.factorial(5)))
    120
    """
    if exact:
        raise NotImplementedError(
            message(
                "factorial computes floating-point numbers.",
                "exact: True",
                fix="Use math.factorial for exact integers.",
            )
        )
    n = families.as_real("factorial", n)
    small = n < 1.0  # elsewhere n gamma(n), where n + 1 would be rounded
    argument = dnp.where(small, dnp.where(n < 0, 0.0, n) + 1.0, n)
    return dnp.where(n < 0, 0.0, dnp.where(small, 1.0, n) * gamma(argument))


@evaluated_whole
@api_boundary
@halves_in_float32
def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """Return the number of ways to choose k things of N, as floats: 0 for k < 0 and for k > N.

    With `repetition` a thing may be chosen several times.

    >>> from didax.scipy import special
    >>> round(float(special.comb(5, 2))), round(float(special.comb(5, 2, repetition=True)))
    (10, 15)
    """
    N, k = dnp.broadcast_arrays(*promote_dtypes("comb", N, k, to_inexact=True))
    valid = (k >= 0) & (N >= 0) & ((k <= N) | bool(repetition))
    N, k = [dnp.where(valid, x, 1.0) for x in (N, k)]
    N = N + k - 1.0 if repetition else N
    empty = (N < 0) | (N < k)  # then there is no way to choose
    ways = _beta.number_of_ways(dnp.where(empty, k, N), k)
    return dnp.where(valid, dnp.where(empty, dnp.where(k == 0, 1.0, 0.0), ways), 0.0)


@evaluated_whole
@api_boundary
def multigammaln(a: ArrayLike, d: int) -> Array:
    """Return the logarithm of the multivariate gamma function of dimension `d`, an integer; for a > (d - 1) / 2.

    >>> from didax.scipy import special
    >>> float(special.multigammaln(3.0, 2))
    1.55...
    """
    a = families.as_real("multigammaln", a)
    d = _static_integer("multigammaln", "d", d)
    constant = d * (d - 1) / 4 * math.log(math.pi)
    return sum((gammaln(a - j / 2) for j in range(d)), dnp.zeros_like(a)) + constant


# --- Bessel functions and integrals -------------------------------------------------------------------------

i0 = _function("i0", 1, "The modified Bessel function of order 0.", fitted.bessel_i0)
i0e = _function("i0e", 1, "exp(-|x|) i0(x), which does not overflow.", fitted.bessel_i0e)
i1 = _function("i1", 1, "The modified Bessel function of order 1.", fitted.bessel_i1)
i1e = _function("i1e", 1, "exp(-|x|) i1(x), which does not overflow.", fitted.bessel_i1e)
exp1 = _function("exp1", 1, "The exponential integral E1(x), of exp(-t) / t from x to infinity.", fitted.exp1)
expi = _function("expi", 1, "The exponential integral Ei(x), the principal value of exp(t) / t from -infinity to x.",
                 fitted.expi)  # fmt: skip
expn = _function("expn", 2, "The exponential integral E_n(x), of exp(-x t) / t^n from 1 to infinity, for whole n >= 0.",
                 integrals.expn)  # fmt: skip
dawsn = _function("dawsn", 1, "Dawson's integral, of exp(t^2 - x^2) from 0 to x.", integrals.dawsn)
owens_t = _function("owens_t", 2, "Owen's T function, of exp(-h^2 (1 + t^2) / 2) / (2 pi (1 + t^2)) from 0 to a.",
                    integrals.owens_t)  # fmt: skip
_sine_integral = _function("sici", 1, "", integrals.sine_integral)
_cosine_integral = _function("sici", 1, "", integrals.cosine_integral)
_fresnel_sine = _function("fresnel", 1, "", integrals.fresnel_sine)
_fresnel_cosine = _function("fresnel", 1, "", integrals.fresnel_cosine)


@api_boundary
def sici(x: ArrayLike) -> tuple[Array, Array]:
    """Return the integrals of sin(t) / t from 0 to x, and of cos(t) / t from infinity to |x|.

    >>> from didax.scipy import special
    >>> special.sici(0.0)
    (Array(0., dtype=float32, weak_type=True), Array(-inf, dtype=float32, weak_type=True))
    """
    return _sine_integral(x), _cosine_integral(x)


@api_boundary
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Return the integrals S of sin(pi t^2 / 2) and C of cos(pi t^2 / 2) from 0 to x.

    >>> from didax.scipy import special
    >>> special.fresnel(math.inf)
    (Array(0.5, dtype=float32, weak_type=True), Array(0.5, dtype=float32, weak_type=True))
    """
    return _fresnel_sine(x), _fresnel_cosine(x)


hyp1f1 = _function("hyp1f1", 3, "Kummer's function M(a, b, x), the sum of (a)_k / (b)_k x^k / k!.",
                   hypergeometric.hyp1f1)  # fmt: skip
hyp2f1 = _function("hyp2f1", 4, "Gauss's F(a, b; c; x), the sum of (a)_k (b)_k / (c)_k x^k / k!; inf for x > 1.",
                   hypergeometric.hyp2f1)  # fmt: skip
spence = _function("spence", 1, "The integral of log(t) / (1 - t) from 1 to x, the dilogarithm of 1 - x.",
                   logarithmic.spence)  # fmt: skip


# --- Transforms and numbers ---------------------------------------------------------------------------------


boxcox = _function("boxcox", 2, "(x^lmbda - 1) / lmbda, and log(x) where lmbda is 0.",
                   lambda x, lmbda: logarithmic.boxcox(lmbda, x))  # fmt: skip
boxcox1p = _function("boxcox1p", 2, "boxcox(1 + x, lmbda), accurate near 0.",
                     lambda x, lmbda: logarithmic.boxcox1p(lmbda, x))  # fmt: skip
boxcox.implementations["c"] = lambda x, lmbda: families.complex_power_transform(dnp.log(x), lmbda)
boxcox1p.implementations["c"] = lambda x, lmbda: families.complex_power_transform(dnp.log1p(x), lmbda)


@api_boundary
def bernoulli(n: int) -> Array:
    """Return the Bernoulli numbers B(0), ..., B(n), with B(1) = -1/2; ValueError for a negative n.

    >>> from didax.scipy import special
    >>> special.bernoulli(2)
    Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    n = _static_integer("bernoulli", "n", n)
    numbers: list[Fraction] = [Fraction(1)]
    for m in range(1, n + 1):
        total = sum((math.comb(m + 1, k) * b for k, b in enumerate(numbers)), Fraction(0))
        numbers.append(-total / (m + 1))
    return dnp.array([float(b) for b in numbers], default_dtype("f"))


def _static_integer(name: str, argument: str, value: Any) -> int:
    number = int(value)
    if number != value or number < 0:
        raise ValueError(
            message(
                f"{name} takes an integer of at least 0 as {argument}.",
                f"{argument}: {value!r:.100}",
                fix="Pass a Python integer.",
            )
        )
    return number
