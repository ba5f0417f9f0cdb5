"""Densities and probabilities of float32 numbers, computed in float64 and rounded once.

    norm(z) = Power(1 / sqrt(2 pi), -z^2 / 2 * log2(e))     factor * 2**exponent, for location 0 and scale 1

The exponential of a logarithm that is rounded to float32 loses as many digits as the logarithm has before the point:
at 12 standard deviations from the mean of the normal distribution, 40 units in the last place. A `Power` keeps its
exponent in float64 until the end, and what is moved and scaled is moved and scaled there. The derivative is the density
times the derivative of its logarithm, which `_distributions.py` has; or that of another formula of the density, where
the density vanishes at an end of the support, and its derivatives there do not. Logarithms have the base 2, as in
`didax/primitives/gamma_in_double.py`, where the densities made of gamma functions are. Read next: `_distributions.py`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import didax.numpy as dnp
from didax.api.jit import jit
from didax.api.whole_functions import by_numpy
from didax.core.array_ops import instantiate
from didax.core.avals import ShapedArray
from didax.numpy.ufunc import ufunc
from didax.passes.sparsity import Dependence, stretched, union
from didax.primitives import gamma_in_double as double
from didax.primitives.composed import pushed_forward
from didax.primitives.elementwise import mul
from didax.primitives.elementwise.vectorized import exponential2, logarithm2, sine
from didax.primitives.families import Elementwise
from didax.primitives.fitted import bessel_i0e
from didax.primitives.gamma_in_double import Power
from didax.primitives.narrow import in_float64
from didax.primitives.truncated_normal import log_density_in_double
from didax.transforms.jvp import Forward, jvp_flat
from didax.xla.lowering import lower_function

Formula = Callable[..., Any]
_shape_of = operator.attrgetter("shape")
_LOG2_E = 1 / math.log(2)


class Density(Elementwise):
    """The density `of` a name, for float32 numbers: its value from float64, its derivative from another formula.

    The last operands are location and scale, if it is `moved`. Power series are those of exp(logarithm).
    """

    pushes_programs = True

    def __init__(self) -> None:
        super().__init__(
            "density",
            1,
            hlo="density",
            eager=self._computed,
            accepts="f",
            jvp=[self.jvp],
            lower=self._written,
        )
        self.formulas: dict[str, tuple[Formula, Formula, Formula | None, tuple[int, ...]]] = {}

    def _written(self, ctx: Any, *xs: Any, of: str, moved: bool) -> Any:
        return lower_function(ctx, self._value(of, moved), xs)[0]

    def _computed(self, *xs: Any, of: str, moved: bool) -> Any:
        return _numpy_function(self._value(of, moved), xs[0].dtype, *map(_shape_of, xs))(*xs)[0]

    @functools.cache  # noqa: B019, one object: programs are found again by their function
    def _value(self, of: str, moved: bool) -> Formula:
        in_double, _, _, still = self.formulas[of]
        return in_float64(lambda *xs: in_double(*xs, *(() if moved else still)))

    @functools.cache  # noqa: B019, as above
    def _series(self, of: str, moved: bool) -> Formula:
        _, logarithm, _, still = self.formulas[of]
        return lambda *xs: dnp.exp(logarithm(*xs, *(() if moved else still)))

    def jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        of: str,
        moved: bool,
        forward: Forward | None = None,
    ) -> Any:
        """By the other formula of the density, or the product with the derivative of the logarithm."""
        if forward is not None:
            return pushed_forward(self._series(of, moved), primals, tangents, forward)
        _, logarithm, stated, still = self.formulas[of]
        formula = stated or logarithm
        y = self.bind(*primals, of=of, moved=moved)
        _, (slope,) = jvp_flat(lambda *xs: [formula(*xs, *(() if moved else still))], primals, tangents)
        return y, slope if stated else mul(y, instantiate(slope))

    def sparsity(self, operands: Sequence[Dependence], **params: Any) -> Any:
        """The density depends on the elements of all operands."""
        shape = max([x.aval.shape for x in operands], key=len)
        return union([stretched(x, shape) for x in operands])


density_p = Density()


@functools.lru_cache(maxsize=1024)
def _numpy_function(value: Formula, dtype: np.dtype[Any], *shapes: Any) -> Callable[..., list[Any]]:
    """A density of small arrays: a program takes as long to run, and must be compiled."""
    found = by_numpy(lambda *xs: [value(*xs)], [ShapedArray(shape, dtype) for shape in shapes])
    return found or (lambda *xs: [np.asarray(jit(value)(*xs))])


def value_of(power: Power) -> Any:
    """The number, as a quotient: XLA computes a quotient once for several derivatives, but a product for each."""
    return power.factor / exponential2(-power.exponent, 1000.0)


def rounded_once(
    name: str,
    in_double: Formula,
    logarithm: Formula,
    stated: Formula | None,
    otherwise: Formula,
    still: tuple[int, ...],
) -> Formula:
    """A density: for float32 numbers by `in_double`, with the derivatives of `stated`, or those of its `logarithm`.

    All are functions of the same arguments. The last ones, location and (for some) scale, are not operands where they
    have their default values, the Python numbers `still`.
    """
    density_p.formulas[name] = in_double, logarithm, stated, still

    @functools.cache
    def operation(operands: int, moved: bool) -> ufunc:
        bound = functools.partial(density_p, of=name, moved=moved)
        return ufunc(name, operands, "A density.", operands="inexact", f=bound)

    def density(*xs: Any) -> Any:
        if xs[0].dtype != np.float32:
            return otherwise(*xs)
        arrays = [x for x in xs if not isinstance(x, int)]
        moved = len(arrays) != len(xs) - len(still)
        operands = xs if moved else arrays
        return operation(len(operands), moved)(*operands)

    return density


# --- The densities of distributions, for location 0 and scale 1 ---------------------------------------------


def norm(z: Any) -> Power:
    return Power(1 / math.sqrt(2 * math.pi), -0.5 * _LOG2_E * z * z)


def expon(z: Any) -> Power:
    return Power(1.0, -_LOG2_E * z)


def gamma(z: Any, a: Any) -> Power:
    return double.power_of_gamma(a, z, drop=1)


def chi2(z: Any, df: Any) -> Power:
    factor, exponent = double.power_of_gamma(0.5 * df, 0.5 * z, drop=1)
    return Power(0.5 * factor, exponent)


def beta(z: Any, a: Any, b: Any) -> Power:
    return double.binomial(a, b, z, drop=1)


def cauchy(z: Any) -> Power:
    return Power(double.ratio(1 / math.pi, 1 + z * z), 0 * z)


def _exp(z: Any) -> Any:
    return exponential2(_LOG2_E * z, 1000.0)


def gennorm(z: Any, beta: Any) -> Power:
    inverse = 1 / beta
    power = exponential2(beta * logarithm2(abs(z)), 1000.0)
    return Power(0.5 / double.gamma(1 + inverse), -_LOG2_E * power)


def gumbel_r(z: Any) -> Power:
    return Power(1.0, -_LOG2_E * (z + _exp(-z)))


def gumbel_l(z: Any) -> Power:
    return gumbel_r(-z)


def laplace(z: Any) -> Power:
    return Power(0.5, -_LOG2_E * abs(z))


def logistic(z: Any) -> Power:
    exponent = -_LOG2_E * abs(z)
    return Power(double.ratio(1, (1 + exponential2(exponent, 1000.0)) ** 2), exponent)


def pareto(z: Any, b: Any) -> Power:
    b = dnp.minimum(b, 1e60)  # in place of infinity
    return Power(b, -(b + 1) * logarithm2(z))


def t(z: Any, df: Any) -> Power:
    return double.t_density(z, df)


def truncnorm(z: Any, a: Any, b: Any) -> Power:
    return Power(1.0, _LOG2_E * log_density_in_double(z, a, b))


def vonmises(z: Any, kappa: Any) -> Power:
    factor = bessel_i0e(kappa.astype(np.float32)).astype(np.float64)
    return Power(double.ratio(0.5 / math.pi, factor), -2 * _LOG2_E * kappa * sine(0.5 * z) ** 2)


def wrapcauchy(z: Any, c: Any) -> Power:
    rest = 1 - c
    distance = rest * rest + 4 * c * double.sine_of_turns(z * (0.5 / math.pi)) ** 2
    return Power(double.ratio((0.5 / math.pi) * rest * (1 + c), distance), 0 * z)


def binom(k: Any, n: Any, p: Any) -> Power:
    return double.binomial(k, n - k, p)


def geom(k: Any, p: Any) -> Power:
    failures = k - 1
    exponent = dnp.where(failures == 0, 0, failures * logarithm2(1 - p, -p))
    return Power(p, exponent)


def nbinom(k: Any, n: Any, p: Any) -> Power:
    factor, exponent = double.binomial(n, k, p)
    return Power(factor * double.ratio(n, n + k), exponent)


def poisson(k: Any, mu: Any) -> Power:
    return double.power_of_gamma(k, mu)


def betabinom(k: Any, n: Any, a: Any, b: Any) -> Power:
    """From three binomial terms, each near its maximum: see `log_beta_binomial` of `_parts.py`."""
    rest = n - k
    swap = k + a > rest + b
    k, rest, a, b = [dnp.where(swap, y, x) for x, y in ((k, rest), (rest, k), (a, b), (b, a))]
    wins, losses = k + a, rest + b
    total = wins + losses
    p = double.ratio(wins, total)
    (f, x), (g, y), (h, z) = [double.binomial(*pair, p) for pair in ((k, rest), (a, b), (wins, losses))]
    factor = double.ratio(f * g * total, h * (a + b)) * double.ratio(a * b, wins * losses)
    return Power(factor, x + y - z)


POWERS: dict[str, Callable[..., Power]] = {
    formula.__name__: formula
    for formula in (
        norm, expon, gamma, chi2, beta, cauchy, gennorm, gumbel_r, gumbel_l, laplace, logistic, pareto, t, truncnorm,
        vonmises, wrapcauchy, betabinom, binom, geom, nbinom, poisson,
    )
}  # fmt: skip
