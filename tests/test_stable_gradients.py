"""Derivatives at the corners are the mathematical limits: finite where these are.

A row reads: function, point, limit of the derivative by each argument; of vector functions the gradient of the sum,
at kinks the documented choice. Every row runs in forward and reverse mode, in both precisions, eager and jitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax, nn
from didax.scipy import special
from tests.checks import assert_close, in_sample, slow_unless

INF = np.inf
FIRST = np.array([1.0, 0.0], "float32")
EULER = 0.5772156649015329


class Row(NamedTuple):
    """A function at a point, and what its derivatives by each argument are there."""

    name: str
    fun: Callable[..., Any]
    point: tuple[Any, ...]
    limits: tuple[Any, ...]
    # Of smooth functions of numbers: the second derivative by each argument.
    second: tuple[Any, ...] | None = None


ROWS = [
    # logistic functions
    Row("expit", special.expit, (100.0,), (0.0,), (0.0,)),
    Row("expit", special.expit, (-INF,), (0.0,), (0.0,)),
    Row("logit-tiny", special.logit, (1e-30,), (1e30,)),
    Row("logit", special.logit, (0.5,), (4.0,), (0.0,)),
    Row("softplus-large", nn.softplus, (1e4,), (1.0,), (0.0,)),
    Row("softplus-low", nn.softplus, (-1e4,), (0.0,), (0.0,)),
    Row("softplus-0", nn.softplus, (0.0,), (0.5,), (0.25,)),
    Row("softplus-inf", nn.softplus, (INF,), (1.0,), (0.0,)),
    Row("softplus-minus-inf", nn.softplus, (-INF,), (0.0,), (0.0,)),
    Row("log_sigmoid-low", nn.log_sigmoid, (-1e4,), (1.0,), (0.0,)),
    Row("silu-low", nn.silu, (-1e4,), (0.0,), (0.0,)),
    Row("gelu-low", nn.gelu, (-1e3,), (0.0,), (0.0,)),
    Row("mish-low", nn.mish, (-1e4,), (0.0,), (0.0,)),
    Row("elu-large", nn.elu, (1e4,), (1.0,), (0.0,)),
    Row("tanh-large", dnp.tanh, (1e4,), (0.0,), (0.0,)),
    # entropies
    Row("xlogy-0", special.xlogy, (0.0, 2.0), (np.log(2.0), 0.0), (0.0, 0.0)),
    Row("xlogy-0-0", lambda y: special.xlogy(0.0, y), (0.0,), (0.0,)),
    Row("xlog1py-0", special.xlog1py, (0.0, 1.0), (np.log(2.0), 0.0), (0.0, 0.0)),
    Row("xlog1py-0-at-pole", lambda y: special.xlog1py(0.0, y), (-1.0,), (0.0,)),
    Row("entr", special.entr, (1.0,), (-1.0,), (-1.0,)),
    Row("rel_entr-p-0", lambda q: special.rel_entr(0.0, q), (0.5,), (0.0,)),
    Row("rel_entr-both-0", lambda q: special.rel_entr(0.0, q), (0.0,), (0.0,)),
    Row("kl_div-p-0", lambda q: special.kl_div(0.0, q), (0.5,), (1.0,)),
    Row("kl_div-equal", special.kl_div, (0.5, 0.5), (0.0, 0.0), (2.0, 2.0)),
    # Bessel functions, and the third derivative of one
    Row("i0-0", special.i0, (0.0,), (0.0,), (0.5,)),
    Row("i1-0", dx.grad(special.i1), (0.0,), (0.0,), (0.375,)),
    Row("i1-near-0", dx.grad(special.i1), (1e-8,), (3.75e-9,), (0.375,)),
    Row("i0e-before-8", dx.grad(special.i0e), (7.75,), (0.00196736780162277,), (-0.0006639243667965012,)),
    Row("i1e-before-8", dx.grad(special.i1e), (7.75,), (0.001303443434826269,), (-0.00034834220194212434,)),
    # sums of exponentials
    Row("logaddexp-equal-inf", dnp.logaddexp, (INF, INF), (0.5, 0.5)),
    Row("logaddexp-equal-minus-inf", dnp.logaddexp, (-INF, -INF), (0.5, 0.5)),
    Row("logaddexp-one-inf", dnp.logaddexp, (INF, 0.0), (1.0, 0.0)),
    Row("logaddexp-one-minus-inf", dnp.logaddexp, (-INF, 0.0), (0.0, 1.0)),
    Row("logaddexp-far", dnp.logaddexp, (1e4, -1e4), (1.0, 0.0), (0.0, 0.0)),
    Row("logaddexp2-equal-inf", dnp.logaddexp2, (INF, INF), (0.5, 0.5)),
    Row("logsumexp-low", special.logsumexp, ([-INF, 0.0, 0.0],), ([0.0, 0.5, 0.5],)),
    Row("logsumexp-all-low", special.logsumexp, ([-INF, -INF],), ([0.5, 0.5],)),
    Row("logsumexp-one-inf", special.logsumexp, ([INF, 0.0],), ([1.0, 0.0],)),
    Row("logsumexp-inf", special.logsumexp, ([INF, INF],), ([0.5, 0.5],)),
    Row("logsumexp-where", lambda x: special.logsumexp(x, where=FIRST > 0), ([1.0, INF],), ([1.0, 0.0],)),
    Row("logsumexp-b-0", lambda x: special.logsumexp(x, b=FIRST), ([1.0, INF],), ([1.0, 0.0],)),
    Row("logsumexp-b-inf", lambda x: special.logsumexp(x, b=FIRST + 1), ([INF, INF],), ([2 / 3, 1 / 3],)),
    Row("logsumexp-b-all-low", lambda x: special.logsumexp(x, b=FIRST + 1), ([-INF, -INF],), ([2 / 3, 1 / 3],)),
    Row("softmax-low", lambda x: nn.softmax(x)[1], ([-INF, 0.0, 0.0],), ([0.0, 0.25, -0.25],)),
    Row("log_softmax-low", lambda x: nn.log_softmax(x)[1], ([-INF, 0.0, 0.0],), ([0.0, 0.5, -0.5],)),
    Row("log_softmax-sum", lambda x: nn.log_softmax(x)[1:].sum(), ([-INF, 0.0, 0.0],), ([0.0, 0.0, 0.0],)),
    Row("softmax-where", lambda x: nn.softmax(x, where=np.array([True, True, False]))[0], ([0.0, 0.0, INF],),
        ([0.25, -0.25, 0.0],)),
    Row("logmeanexp-low", nn.logmeanexp, ([-INF, 0.0],), ([0.0, 1.0],)),
    # lengths and angles
    Row("norm-0", dnp.linalg.norm, ([0.0, 0.0],), ([0.0, 0.0],)),
    Row("norm-one", lambda x: dnp.linalg.norm(x, 1), ([0.0, 2.0],), ([0.0, 1.0],)),
    Row("norm-inf", lambda x: dnp.linalg.norm(x, INF), ([0.0, 2.0],), ([0.0, 1.0],)),
    Row("norm-3-0", lambda x: dnp.linalg.norm(x, 3), ([0.0, 0.0],), ([0.0, 0.0],)),
    Row("norm-3-partly-0", lambda x: dnp.linalg.norm(x, 3), ([0.0, 2.0],), ([0.0, 1.0],)),
    Row("norm-matrix-0", dnp.linalg.norm, ([[0.0, 0.0], [0.0, 0.0]],), ([[0.0, 0.0], [0.0, 0.0]],)),
    Row("vector_norm-axis", lambda x: dnp.linalg.vector_norm(x, axis=1), ([[0.0, 0.0], [3.0, 4.0]],),
        ([[0.0, 0.0], [0.6, 0.8]],)),
    Row("abs-0", dnp.abs, (0.0,), (0.0,)),
    Row("hypot-0", dnp.hypot, (0.0, 0.0), (0.0, 0.0)),
    Row("hypot-0-1", dnp.hypot, (0.0, 1.0), (0.0, 1.0), (1.0, 0.0)),
    Row("hypot-huge", dnp.hypot, (3e30, 4e30), (0.6, 0.8)),
    Row("arctan2-0", dnp.arctan2, (0.0, 0.0), (0.0, 0.0)),
    Row("arctan2-huge", dnp.arctan2, (1e30, 0.0), (0.0, -1e-30)),
    Row("std-equal", dnp.std, ([2.0, 2.0],), ([0.0, 0.0],)),
    # powers
    Row("power-0-0", lambda x: dnp.power(x, 0.0), (0.0,), (0.0,)),
    Row("power-0-1", lambda x: dnp.power(x, 1.0), (0.0,), (1.0,), (0.0,)),
    Row("power-0-2", lambda x: dnp.power(x, 2.0), (0.0,), (0.0,), (2.0,)),
    Row("power-0-3", lambda x: dnp.power(x, 3.0), (0.0,), (0.0,), (0.0,)),
    Row("power-int-0-0", lambda x: x**0, (0.0,), (0.0,), (0.0,)),
    Row("power-int-0-1", lambda x: x**1, (0.0,), (1.0,), (0.0,)),
    Row("power-int-0-2", lambda x: x**2, (0.0,), (0.0,), (2.0,)),
    Row("power-exponent-at-0", dnp.power, (0.0, 2.0), (0.0, 0.0), (2.0, 0.0)),
    Row("power-traced-0-0", lambda y: dnp.power(0.0, y), (2.0,), (0.0,), (0.0,)),
    Row("prod-0", dnp.prod, ([0.0, 2.0, 3.0],), ([6.0, 0.0, 0.0],)),
    Row("prod-two-0", dnp.prod, ([0.0, 0.0, 3.0],), ([0.0, 0.0, 0.0],)),
    Row("cumprod-0", lambda x: dnp.cumprod(x)[-1], ([0.0, 2.0, 3.0],), ([6.0, 0.0, 0.0],)),
    Row("sqrt-of-square-sum", lambda x: dnp.sqrt(dnp.sum(x * x) + 1.0), ([0.0, 0.0],), ([0.0, 0.0],)),
    # quotients of small things
    Row("sinc-0", dnp.sinc, (0.0,), (0.0,), (-(np.pi**2) / 3,)),
    Row("expm1-low", dnp.expm1, (-1e4,), (0.0,), (0.0,)),
    Row("log1mexp-large", nn.log1mexp, (1e4,), (0.0,), (0.0,)),
    Row("boxcox-log", special.boxcox, (2.0, 0.0), (0.5, np.log(2.0) ** 2 / 2), (-0.25, np.log(2.0) ** 3 / 3)),
    Row("boxcox-at-0", special.boxcox, (0.0, 2.0), (0.0, 0.25), (1.0, -0.25)),
    Row("boxcox-at-0-1", special.boxcox, (0.0, 1.0), (1.0, 1.0)),
    Row("boxcox-at-0-half", lambda x: special.boxcox(x, 0.5), (0.0,), (INF,)),
    Row("boxcox-near-0", special.boxcox, (1e-12, 1.5), (1e-6, 4 / 9)),
    Row("boxcox-small-power", special.boxcox, (2.0, 1e-5), (0.50000346574791415, 0.24022761704415945)),
    Row("boxcox-inf-mixed", dx.grad(special.boxcox), (INF, -1.0), (0.0, 0.0)),
    Row("boxcox1p-at-0", special.boxcox1p, (-1.0, 2.0), (0.0, 0.25), (1.0, -0.25)),
    Row("boxcox1p-0", special.boxcox1p, (0.0, 2.0), (1.0, 0.0), (1.0, 0.0)),
    Row("spence-1", special.spence, (1.0,), (-1.0,), (0.5,)),
    # special functions
    Row("erf-large", special.erf, (1e4,), (0.0,), (0.0,)),
    Row("erfc-inf", special.erfc, (INF,), (0.0,)),
    Row("erfinv-0", special.erfinv, (0.0,), (np.sqrt(np.pi) / 2,), (0.0,)),
    Row("ndtr-low", special.ndtr, (-1e4,), (0.0,), (0.0,)),
    Row("log_ndtr-low", special.log_ndtr, (-1e3,), (1000.0009999980001,)),
    Row("log_ndtr-high", special.log_ndtr, (1e4,), (0.0,), (0.0,)),
    Row("log_ndtr-0", special.log_ndtr, (0.0,), (np.sqrt(2 / np.pi),), (-2 / np.pi,)),
    Row("ndtri-half", special.ndtri, (0.5,), (np.sqrt(2 * np.pi),), (0.0,)),
    Row("i0-0", special.i0, (0.0,), (0.0,), (0.5,)),
    Row("i1-0", special.i1, (0.0,), (0.5,), (0.0,)),
    Row("gammaln-1", special.gammaln, (1.0,), (-EULER,), (np.pi**2 / 6,)),
    Row("gamma-1", special.gamma, (1.0,), (-EULER,), (EULER**2 + np.pi**2 / 6,)),
    Row("betaln-large", special.betaln, (1.0, 1e6), (-EULER - np.log(1e6) - 0.5e-6, -1e-6)),
    Row("poch-0", special.poch, (3.0, 0.0), (0.0, 1.5 - EULER)),
    Row("poch-at-poles", lambda z: special.poch(z, 2.0), (-3.0,), (-5.0,), (2.0,)),
    Row("beta-at-poles", lambda a: special.beta(a, 2.0), (-2.0,), (0.75,), (1.75,)),
    Row("betaln-at-poles", lambda a: special.betaln(a, 2.0), (-2.0,), (1.5,), (1.25,)),
    Row("owens_t-0-inf", special.owens_t, (0.0, INF), (0.0, 0.0)),
    Row("owens_t-0-minus-inf", special.owens_t, (0.0, -INF), (0.0, 0.0)),
    Row("owens_t-inf-0", special.owens_t, (INF, 0.0), (0.0, 0.0)),
    Row("gammainc-0", lambda x: special.gammainc(1.0, x), (0.0,), (1.0,), (-1.0,)),
    Row("betainc-0", lambda x: special.betainc(1.0, 2.0, x), (0.0,), (2.0,), (-2.0,)),
    Row("betainc-1", lambda x: special.betainc(1.0, 2.0, x), (1.0,), (0.0,)),
    Row("exp1-large", special.exp1, (1e4,), (0.0,), (0.0,)),
    Row("expi-low", special.expi, (-1e4,), (0.0,), (0.0,)),
]  # fmt: skip
CASES = [
    pytest.param(
        row,
        dtype,
        id=f"{row.name}-{dtype}",
        marks=slow_unless((dtype == "float32") == in_sample(row.name, 2)),
    )
    for row in ROWS
    for dtype in ("float32", "float64")
]


def summed(row: Row) -> Callable[..., Any]:
    return lambda *xs: dnp.sum(row.fun(*xs))


def wanted(row: Row, limits: Any, dtype: str) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(x, dtype) for x in limits)


@pytest.mark.parametrize(("row", "dtype"), CASES)
def test_the_derivative_is_the_limit(row: Row, dtype: str) -> None:
    with dx.enable_x64(dtype == "float64"), np.errstate(all="ignore"):
        point = wanted(row, row.point, dtype)
        every = tuple(range(len(point)))
        limits = wanted(row, row.limits, dtype)
        f = summed(row)
        everything = {
            "reverse": lambda *xs: dx.grad(f, every)(*xs),
            "forward": lambda *xs: dx.jacfwd(f, every)(*xs),
        }
        if row.second is not None:
            second = wanted(row, row.second, dtype)
            everything["reverse of reverse"] = lambda *xs: tuple(
                dx.grad(dx.grad(f, i), i)(*xs) for i in every
            )
            everything["forward of reverse"] = lambda *xs: tuple(
                dx.jacfwd(dx.grad(f, i), i)(*xs) for i in every
            )
        results = {name: {"eager": derivative(*point)} for name, derivative in everything.items()}
        if dtype == "float32":  # the programs of float64 are the same
            compiled = dx.jit(lambda *xs: {name: g(*xs) for name, g in everything.items()})(*point)
            for name, found in compiled.items():
                results[name]["jitted"] = found
        for name, found in results.items():
            limit = second if " of " in name else limits
            for how, values in found.items():
                assert_close(values, limit, rtol=2e-5 if dtype == "float32" else 1e-9, what=f"{name}, {how}")


def test_the_derivative_of_a_remainder_counts_whole_multiples():
    """XLA divides by a repeated number by multiplying with its inverse: 7.407... / 7.407... was below 1."""

    def f(x: Any, y: Any) -> Any:
        return lax.rem(dnp.resize(x, (4, 4)), dnp.resize(y, (4, 4))).sum()

    derivative = dx.jit(dx.grad(f, (0, 1)))
    for x in np.random.default_rng(0).uniform(0.1, 100, 50).astype("float32"):
        for n in (1, 3, -7):
            multiple = np.float32(n) * x
            wanted = [16, -16 * np.trunc(float(multiple) / float(x))]
            assert [float(d) for d in derivative(multiple, x)] == wanted
