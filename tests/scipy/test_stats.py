"""didax.scipy.stats against scipy.stats (values) and jax (names, types); derivatives against finite differences."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from typing import Any

import jax
import jax.scipy.stats
import numpy as np
import pytest
import scipy.stats

import didax as dx
import didax.numpy as dnp
from didax.core.errors import ArgumentError
from didax.scipy import special, stats
from tests.checks import assert_close, first
from tests.scipy.families import check_batches, check_derivatives

INF, NAN = math.inf, math.nan
RNG = np.random.default_rng(0)
SHARES = np.array([0.0, 1e-6, 0.1, 0.5, 0.77, 0.999, 1.0, -0.1, 1.1, NAN])
REAL = np.array([0.0, 1e-4, 0.3, 1.0, 2.5, 8.0, 30.0, -0.4, -3.0, -20.0, INF, -INF, NAN])
UNIT = np.array([0.0, 1e-4, 0.3, 0.77, 1.0, -0.1, 1.2, INF, NAN])
WHOLE = np.array([0.0, 1.0, 2.0, 5.0, 20.0, -1.0, 0.5, NAN])
NO_LOCATION = ("gennorm", "vonmises", "wrapcauchy")  # in jax

# name: values, parameters to try
DISTRIBUTIONS: dict[str, tuple[np.ndarray, list[tuple[float, ...]]]] = {
    "norm": (REAL, [()]), "expon": (REAL, [()]), "gamma": (REAL, [(0.7,), (1.0,), (4.0,), (-1.0,)]),
    "chi2": (REAL, [(1.0,), (5.0,)]), "beta": (UNIT, [(0.5, 2.0), (1.0, 1.0), (3.0, 4.0), (-1.0, 1.0)]),
    "cauchy": (REAL, [()]), "gennorm": (REAL, [(0.8,), (2.0,)]), "gumbel_l": (REAL, [()]), "gumbel_r": (REAL, [()]),
    "laplace": (REAL, [()]), "logistic": (REAL, [()]), "pareto": (REAL, [(0.5,), (3.0,)]),
    "t": (REAL, [(1.0,), (7.5,), (-2.0,)]),
    "truncnorm": (REAL, [(-1.0, 3.0), (2.0, 40.0), (-40.0, -2.0), (20.0, 31.0), (1.0, -1.0)]),
    "uniform": (UNIT, [()]), "vonmises": (REAL[np.isfinite(REAL)] / 10, [(0.5,), (30.0,)]),
    "wrapcauchy": (REAL[np.isfinite(REAL)], [(0.3,), (1.5,)]),
    "bernoulli": (WHOLE, [(0.3,), (0.0,), (1.5,)]), "binom": (WHOLE, [(5.0, 0.3), (0.0, 0.5), (20.0, 1.0)]),
    "betabinom": (WHOLE, [(5.0, 0.5, 2.0), (20.0, 3.0, 1.0)]), "geom": (WHOLE, [(0.3,), (1.0,), (0.0,)]),
    "nbinom": (WHOLE, [(2.5, 0.3), (1.0, 1.0)]), "poisson": (WHOLE, [(0.0,), (0.3,), (7.0,), (-1.0,)]),
}  # fmt: skip
MODULES = [m.name for m in pkgutil.iter_modules(jax.scipy.stats.__path__) if not m.name.startswith("_")]


@pytest.mark.parametrize("dtype", first(["float32", "float64"]))
def test_values_are_those_of_scipy(dtype: str) -> None:
    rtol, tiny = (2e-5, 1e-37) if dtype == "float32" else (1e-11, 1e-300)
    with dx.enable_x64(dtype == "float64"), np.errstate(all="ignore"):
        for name, (values, parameters) in DISTRIBUTIONS.items():
            for kind in getattr(stats, name).__all__:
                if kind == "entropy":
                    continue
                x = (SHARES if kind in ("ppf", "isf") else values).astype(dtype)
                for shapes in parameters:
                    shapes = tuple(np.asarray(s, dtype) for s in shapes)
                    place = () if values is WHOLE or name in NO_LOCATION else (0.5, 2.0)
                    for more in ((), place) if place else ((),):
                        at = more[0] + x * more[1] if more and kind not in ("ppf", "isf") else x
                        at = np.asarray(at, dtype)
                        wanted = getattr(getattr(scipy.stats, name), kind)(
                            at.astype("float64"), *[float(s) for s in shapes], *more)  # fmt: skip
                        found = np.asarray(getattr(getattr(stats, name), kind)(at, *shapes, *more))
                        assert found.dtype == dtype
                        wanted = np.asarray(wanted).astype(dtype)
                        small = np.abs(wanted) < tiny  # subnormal numbers
                        if kind in ("pdf", "logpdf"):
                            small |= np.isnan(wanted) & np.isinf(at)  # where SciPy has no density
                        np.testing.assert_allclose(
                            np.where(small, 0, found), np.where(small, 0, wanted), rtol, rtol,
                            err_msg=f"{name}.{kind} {shapes} {more}")  # fmt: skip


# Where the terms of the textbook's formula cancel, overflow or vanish in 32 bits: function, its arguments.
EXTREME: list[tuple[str, str, tuple[float, ...]]] = [
    ("beta", "sf", (1e-7, 0.01, 0.5)),
    ("cauchy", "logpdf", (1e25,)), ("cauchy", "ppf", (0.99999,)), ("cauchy", "isf", (0.5,)),
    ("cauchy", "logcdf", (1e8,)),
    ("t", "logpdf", (1e20, 3.0)), ("t", "pdf", (1.0, INF)), ("gumbel_l", "logcdf", (-110.0,)),
    ("gumbel_r", "logsf", (110.0,)), ("gamma", "logcdf", (40.0, 3.0)), ("vonmises", "logpdf", (1e-4, 1e10)),
    ("wrapcauchy", "pdf", (1e-6, 0.999999)), ("gennorm", "cdf", (0.3, 100.0)), ("norm", "pdf", (1.5e-29, 0.0, 1e-30)),
    ("truncnorm", "pdf", (1e4, 1e4, 2e4)), ("truncnorm", "cdf", (-1e25, -INF, INF)),
    ("truncnorm", "logcdf", (8.0, 2.0, 40.0)), ("truncnorm", "logsf", (-8.0, -40.0, -2.0)),
    ("truncnorm", "cdf", (1.5e-4, 1e-4, 2e-4)), ("truncnorm", "logcdf", (20.5, 20.0, INF)),
]  # fmt: skip


def test_digits_are_kept_where_the_textbooks_formula_loses_them() -> None:
    for name, kind, arguments in EXTREME:
        given = np.float32(arguments)
        wanted = np.float32(getattr(getattr(scipy.stats, name), kind)(*given.astype("float64")))
        found = np.asarray(getattr(getattr(stats, name), kind)(*given))
        np.testing.assert_allclose(found, wanted, 1e-4, err_msg=f"{name}.{kind}{arguments}")


# What mpmath gives for the logarithms of densities, where the terms of the textbook's formula cancel in 64 bits, too.
LARGE: dict[str, list[tuple[tuple[float, ...], float]]] = {
    "beta": [((1 - 2.0**-20, 2.0**30, 1000.0), 16.1143038690668), ((1 - 2.0**-24, 2.0**30, 20.0), -3.5266918573601434),
             ((7.68899917602539e-06, 750.0, 1e8), 13.932355925681858), ((2.0**-30, 1.0, 2.0**30), 19.794415417264021),
             ((0.5, 2.0**29, 2.0**29), 10.171416355521622)],
    "gamma": [((18950138.0, 18940650.0), -11.673483501628169)],
    "chi2": [((47622972.0, 47591836.0), -15.195557203762192)],
    "t": [((-0.5, 2.0**29), -1.0439385338740608), ((2.5, 30.0), -3.860521319776036)],
    "binom": [((2.0**24, 2.0**25 + 4, 0.5), -8.8901314151178083), ((3.0, 2.0**30, 2.0**-28), -1.6328763849370606)],
    "nbinom": [((1000.0, 2.0**30, 1 - 2.0**-20), -4.6563959747890188), ((2.0**26, 2.0**26, 0.5), -10.27642547262658)],
    "poisson": [((2.0**28, 2.0**28 + 2.0**12), -10.654248743466547)],
    "betabinom": [((218.0, 362.0, 401074816.0, 219180608.0), -4.6870934171824685),
                  ((476214.0, 1263204.0, 481191840.0, 792310592.0), -9.2062468577094472),
                  ((0.0, 50.0, 2.0**-10, 2.0**20), -4.6565040724766858e-8)],
    "gennorm": [((0.25, 262144.0), -0.69314497866889518)],
    "truncnorm": [((0.0703125, 0.0625, 0.0712890625), 4.7340159478343277),
                  ((22.079967498779297, 22.074899673461914, 22.085277557373047), 4.5685701928577219)],
}  # fmt: skip


def test_densities_of_float32_numbers_are_rounded_once() -> None:
    """Also moved, in the tails, and their derivatives; where the exponential of a rounded logarithm loses digits."""
    z = np.concatenate([RNG.normal(size=60) * 3, RNG.uniform(-12, 12, 60)]).astype("float32")
    positive, shape = abs(z) + np.float32(1e-3), RNG.uniform(0.3, 40, 120).astype("float32")
    share, other = [RNG.uniform(0.02, 0.98, 120).astype("float32") for _ in range(2)]
    count = RNG.integers(0, 60, 120).astype("float32")
    more, loc, scale = count + RNG.integers(0, 60, 120).astype("float32"), np.float32(0.3), np.float32(1.7)
    circle = RNG.uniform(-3, 3, 120).astype("float32")
    cases: dict[str, tuple[Any, ...]] = {
        "norm": (z,), "laplace": (z,), "logistic": (z,), "gumbel_l": (z / 3,), "gumbel_r": (z / 3,), "cauchy": (z,),
        "t": (z, shape), "gennorm": (z / 4, shape / 20), "expon": (positive,), "gamma": (positive, shape),
        "chi2": (positive, shape), "pareto": (positive + 1, shape), "beta": (share, shape, positive),
        "truncnorm": (z, z - positive, z + share), "vonmises": (circle, shape), "wrapcauchy": (circle + 3, share),
        "geom": (count + 1, other), "poisson": (count, shape), "binom": (count, more, share),
        "nbinom": (count, shape, share), "betabinom": (count, more, shape, positive),
    }  # fmt: skip
    calls: list[tuple[str, Any, tuple[Any, ...]]] = []
    for name, args in cases.items():
        kind = "pmf" if hasattr(getattr(stats, name), "pmf") else "pdf"
        calls.append((name, kind, args))
        if kind == "pdf" and name != "gamma":
            calls.append((name, kind, (args[0] * scale + loc, *args[1:], loc, scale)))
    found = dx.jit(
        lambda every: [getattr(getattr(stats, n), k)(*x) for (n, k, _), x in zip(calls, every, strict=True)]
    )
    for (name, kind, args), value in zip(calls, found([args for *_, args in calls]), strict=True):
        reference = getattr(getattr(scipy.stats, name), kind)(*[np.float64(x) for x in args])
        np.testing.assert_allclose(
            value, reference, 4e-7 if name == "vonmises" else 7e-8, 2e-38, err_msg=name
        )
    for name in ("norm", "gamma", "vonmises"):  # NumPy evaluates small arrays, but for the last one
        density = getattr(stats, name).pdf
        np.testing.assert_allclose(density(*cases[name]), dx.jit(density)(*cases[name]), 1.2e-7, 1e-37)
    slope = dx.grad(lambda x, s: stats.norm.pdf(x, 0.3, s), (0, 1))
    with dx.enable_x64(True):
        wanted = dx.vmap(slope)(np.float64(z), np.float64(positive))
    np.testing.assert_allclose(dx.vmap(slope)(z, positive), wanted, 1e-5, 1e-30)


def test_operands_of_several_shapes_broadcast() -> None:
    k, n, loc = np.float32([[0], [2]]), np.float32([4, 7, 9]), np.float32([1, 2])
    for name in ("logpmf", "pmf"):
        ours, theirs = [getattr(lib.binom, name) for lib in (stats, scipy.stats)]
        for call in (ours, dx.jit(ours)):
            np.testing.assert_allclose(call(k, n, 0.3), theirs(k, n, 0.3), 1e-6)
    assert stats.poisson.entropy(np.float32([[3], [4], [5]]), loc).shape == (3, 2)


def test_densities_vanish_and_end_as_before_they_are_rounded() -> None:
    pdf = stats.norm.pdf
    np.testing.assert_array_equal(pdf(np.float32([INF, -INF, NAN, 1e30])), [0, 0, NAN, 0])
    assert pdf(np.float32(1e-30), 0.0, np.float32(1e-30)) == np.float32(
        np.exp(-0.5) / np.sqrt(2 * np.pi) * 1e30
    )
    np.testing.assert_array_equal(stats.gamma.pdf(0.0, np.float32([0.5, 1, 2, -1])), [INF, 1, 0, NAN])
    np.testing.assert_array_equal(
        stats.binom.pmf(np.float32([0, 3, 2, 4, 1.5]), 3, np.float32([0, 1, 1, 0.5, 0.5])), [1, 1, 0, 0, 0]
    )
    assert np.isnan(stats.vonmises.pdf(0.5, np.float32(INF)))
    far = np.float32(1e20)
    wanted = np.exp(3 * np.cos(np.float64(far)) - 3) / (2 * np.pi * scipy.special.i0e(3))
    np.testing.assert_allclose(stats.vonmises.pdf(far, 3.0), wanted, 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_densities_of_large_parameters_keep_their_digits(dtype: str) -> None:
    points = {name: np.array([at for at, _ in rows], dtype).T for name, rows in LARGE.items()}

    def logarithms(points: Any) -> Any:
        modules = {name: getattr(stats, name) for name in points}
        return {
            n: getattr(m, "logpmf" if hasattr(m, "logpmf") else "logpdf")(*points[n])
            for n, m in modules.items()
        }

    eps = float(np.finfo(dtype).eps)
    with dx.enable_x64(dtype == "float64"):
        for name, found in dx.jit(logarithms)(points).items():
            wanted = np.array([value for _, value in LARGE[name]], dtype)
            np.testing.assert_allclose(found, wanted, 8 * eps, 8 * eps, err_msg=name)


def test_vectors_of_large_parameters_keep_their_digits() -> None:
    """mpmath's values; gamma functions of these parameters are of size 1e7, and float32 has seven digits."""
    p, counts = np.float32([0.25, 0.3125, 0.4375]), np.array([250100, 312400, 437500])
    alpha = np.float32([2.0**20, 2.0**19, 2.0**19])
    points = np.float32([0.5, 0.25, 0.25])

    @dx.jit
    def values_and_slopes(p: Any, alpha: Any) -> Any:
        return (dx.value_and_grad(lambda p: stats.multinomial.logpmf(counts, 1_000_000, p))(p),
                dx.value_and_grad(lambda a: stats.dirichlet.logpdf(points, a))(alpha))  # fmt: skip

    (log_p, by_p), (log_density, by_alpha) = values_and_slopes(p, alpha)
    np.testing.assert_allclose(log_p, -14.00136543462506, 1e-6)
    np.testing.assert_allclose(by_p, counts / p, 1e-6)
    np.testing.assert_allclose(log_density, 14.4510813191215, 1e-6)
    np.testing.assert_allclose(by_alpha, 0.5 / alpha - 0.25 / 2**20, atol=1e-8)


# Where a derivative made of the value has few digits, or none: function, arguments, by which, mpmath's slope.
SLOPES: list[tuple[str, str, tuple[float, ...], int, float]] = [
    ("vonmises", "logpdf", (2.0**-10, 2.0**18), 1, 1.4305133315013289e-6),
    ("logistic", "sf", (-24.0,), 0, -3.7751345439940649e-11), ("expon", "cdf", (24.0,), 0, 3.775134544279098e-11),
    ("gumbel_r", "sf", (-3.0,), 0, -3.8005425040443577e-8), ("gumbel_l", "cdf", (3.0,), 0, 3.8005425040443577e-8),
    ("pareto", "cdf", (2.0, 30.0), 0, 1.3969838619232178e-8), ("cauchy", "logpdf", (2.0**70,), 0, -2.0**-69),
    ("gamma", "logsf", (0.0, 2.0**-10), 1, 0.0), ("chi2", "logsf", (0.0, 2.0**-10), 1, 0.0),
    ("bernoulli", "pmf", (1.0, 0.0), 1, 1.0), ("gamma", "logpdf", (2.0**-40, 1.0), 0, -1.0),
    ("betabinom", "logpmf", (0.0, 1.0, 2.0**-20, 1024.0), 2, -2.0**-10),
]  # fmt: skip


def test_slopes_keep_their_digits() -> None:
    def slopes(points: Any) -> Any:
        return [
            dx.grad(getattr(getattr(stats, name), kind), i)(*at)
            for at, (name, kind, _, i, _) in zip(points, SLOPES, strict=True)
        ]

    found = dx.jit(slopes)([tuple(np.float32(x) for x in at) for _, _, at, _, _ in SLOPES])
    for slope, row in zip(found, SLOPES, strict=True):
        np.testing.assert_allclose(slope, row[-1], 2e-3, err_msg=f"{row}")


def test_the_slope_of_a_certain_binomial_outcome() -> None:
    """All trials succeed: no share of failures is divided by."""
    by_p = dx.jit(dx.grad(lambda p: stats.binom.logpmf(25.0, 25.0, p)))
    np.testing.assert_allclose([by_p(0.75), by_p(1.0)], [25 / 0.75, 25.0], rtol=1e-6)


def test_names_and_types_are_those_of_jax() -> None:
    """Each function takes jax's arguments, by their names, and gives its dtypes and weak types."""
    for name in MODULES:
        ours, theirs = getattr(stats, name), getattr(jax.scipy.stats, name)
        assert importlib.import_module(f"didax.scipy.stats.{name}") is ours
        for kind in [kind for kind in dir(theirs) if not kind.startswith("_")]:
            wanted = inspect.signature(getattr(theirs, kind)).parameters
            given = inspect.signature(getattr(ours, kind)).parameters
            assert [*given][: len(wanted)] == [*wanted], (name, kind)
            assert all(given[k].default == p.default for k, p in wanted.items()), (name, kind)
            if name in ("dirichlet", "multinomial", "multivariate_normal", "truncnorm") or kind == "entropy":
                continue
            count = sum(p.default is p.empty for p in wanted.values())
            for x in (np.float32(0.5), 0.5, np.ones((2, 1), "int32")):
                found = dx.eval_shape(getattr(ours, kind), *[x] * count)
                try:
                    expected = jax.eval_shape(getattr(theirs, kind), *[x] * count)
                except TypeError:
                    continue  # integers, which some functions of jax do not take
                same = (found.shape, found.dtype) == (expected.shape, expected.dtype)
                assert same, (name, kind, x, found, expected)


def test_complex_numbers_are_refused_where_a_formula_compares_or_takes_sizes() -> None:
    """They were put in lexicographic order: some number, in one dtype eagerly and in another one compiled."""
    for name, kind in (("laplace", "cdf"), ("uniform", "ppf"), ("bernoulli", "ppf"), ("logistic", "logpdf")):
        with pytest.raises(
            ArgumentError, match=rf"{name}.{kind} takes real numbers.\n  arguments: complex64\["
        ):
            getattr(getattr(stats, name), kind)(0.5 + 0.1j, 0.3)
    assert_close(stats.norm.logpdf(0.5 + 0.1j), -0.5 * ((0.5 + 0.1j) ** 2 + math.log(2 * math.pi)), 1e-6)
    ranks = stats.rankdata(np.array([1j, 2, 1j, -1]))
    assert ranks.dtype == np.float32 and ranks.tolist() == [2.5, 4, 2.5, 1]


def test_python_numbers_give_weak_quantiles() -> None:
    assert stats.bernoulli.ppf(0.3, 0.5).weak_type
    assert not stats.bernoulli.ppf(np.float32(0.3), 0.5).weak_type
    assert stats.bernoulli.ppf(np.float16([0.0, 0.3, 0.6]), 0.5).dtype == np.float16


def test_distributions_of_vectors() -> None:
    alpha, p = np.float32([2.0, 3.0, 0.5]), np.float32([0.2, 0.3, 0.5])
    points = RNG.dirichlet([1.0, 1.0, 1.0], 4).T.astype("float32")
    assert_close(stats.dirichlet.logpdf(points, alpha), scipy.stats.dirichlet.logpdf(
        points.astype("f8") / points.astype("f8").sum(0), alpha).astype("float32"), 1e-4)  # fmt: skip
    assert_close(stats.dirichlet.pdf(points[:2], alpha), stats.dirichlet.pdf(points, alpha), 1e-3)
    assert stats.dirichlet.logpdf(np.float32([0.5, 0.6, 0.1]), alpha) == -INF
    counts = np.array([[1, 2, 0], [0, 0, 3], [1, 1, 0], [-1, 2, 2]])
    wanted = scipy.stats.multinomial.logpmf(counts, 3, p.astype("f8") / p.astype("f8").sum())
    assert_close(stats.multinomial.logpmf(counts, 3, p), wanted.astype("float32"), 1e-5, 1e-5)
    a = RNG.normal(size=(3, 3))
    cov, mean, x = (a @ a.T + np.eye(3)), RNG.normal(size=3), RNG.normal(size=(5, 3))
    with dx.enable_x64(True):
        wanted = scipy.stats.multivariate_normal.logpdf(x, mean, cov)
        for singular in (None, False):
            assert_close(stats.multivariate_normal.logpdf(x, mean, cov, singular), wanted, 1e-10)
        with pytest.raises(NotImplementedError, match="allow_singular: True"):
            stats.multivariate_normal.logpdf(x, mean, cov, allow_singular=True)
        wanted = scipy.stats.multivariate_normal.pdf(x, mean, 2.0)
        assert_close(stats.multivariate_normal.pdf(x, mean, 2.0), wanted, 1e-10)
        assert_close(
            stats.multivariate_normal.logpdf(x, 0.5, 2.0), stats.norm.logpdf(x, 0.5, math.sqrt(2)), 1e-10
        )
        batch = stats.multivariate_normal.logpdf(x, mean, np.stack([cov, 2 * cov])[:, None])
        assert batch.shape == (2, 5)


# Where a chance is 0 and its count is not, or a coordinate is 0 and the density vanishes there: gradient and Hessian.
ON_THE_EDGE = [
    ("multinomial.pmf", ([2.0, 0.0, 1.0], 3.0, [1.0, 0.0, 0.0]), 2, [0, 0, 3], [[0, 0, 6], [0, 0, 0], [6, 0, 0]]),
    ("multinomial.pmf", ([1.0, 1.0, 1.0], 3.0, [1.0, 0.0, 0.0]), 2, [0, 0, 0], [[0, 0, 0], [0, 0, 6], [0, 6, 0]]),
    ("dirichlet.pdf", ([0.5, 0.0, 0.5], [1.0, 3.0, 1.0]), 0, [0, 0, 0], [[0, 0, 0], [0, 24, 0], [0, 0, 0]]),
    ("dirichlet.pdf", ([0.5, 0.0, 0.5], [2.0, 2.0, 2.0]), 0, [0, 30, 0], [[0, 60, 0], [60, 0, 60], [0, 60, 0]]),
    ("dirichlet.pdf", ([0.5, 0.0, 0.5], [2.0, 2.0, 2.0]), 1, [0, 0, 0], [[0] * 3] * 3),
    # The other factors overflow.
    ("multinomial.pmf", ([1e3, 1e3, 0.0], 2e3, [0.0, 1.0, 0.0]), 2, [0, 0, 0], [[0] * 3] * 3),
    ("dirichlet.pdf", ([0.0, 0.0, 1.0], [400.0, 500.0, 1.0]), 0, [0, 0, 0], [[0] * 3] * 3),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "by", "gradient", "hessian"), ON_THE_EDGE)
def test_densities_of_vectors_have_derivatives_where_they_vanish(
    name: str, args: tuple[Any, ...], by: int, gradient: list[int], hessian: list[list[int]]
) -> None:
    law, kind = name.split(".")
    f, given = getattr(getattr(stats, law), kind), [np.float32(x) for x in args]
    assert f(*given) == 0
    np.testing.assert_allclose(dx.grad(f, by)(*given), gradient, 1e-5, 1e-6)
    np.testing.assert_allclose(dx.jit(dx.hessian(f, by))(*given), hessian, 1e-5, 1e-5)


def test_statistics_of_samples() -> None:
    x = np.float32([[3, 1, 3, 1, 2], [0, 0, 5, 5, 5], [1, 2, 3, 4, 5]])
    methods = ("average", "min", "max", "dense", "ordinal")
    for axis in (0, 1, -1, None):
        for keepdims in (False, True):
            found, wanted = (
                stats.mode(x, axis, keepdims=keepdims),
                scipy.stats.mode(x, axis, keepdims=keepdims),
            )
            assert_close(found.mode, np.asarray(wanted.mode))
            assert_close(found.count, np.asarray(wanted.count).astype("int32"))
            for along in (axis, (axis,), (0, 1)) if axis is not None else (None,):
                wanted = np.float32(scipy.stats.sem(x, along, keepdims=keepdims))
                assert_close(stats.sem(x, along, keepdims=keepdims), wanted, 1e-5)
        for method in methods:
            wanted = scipy.stats.rankdata(x, method, axis=axis).astype("float32")
            assert_close(stats.rankdata(x, method, axis=axis), wanted, what=f"{method} {axis}")  # by NumPy
    compiled = dx.jit(lambda x: [stats.rankdata(x, method, axis=1) for method in methods])(x)
    for method, found in zip(methods, compiled, strict=True):
        np.testing.assert_array_equal(found, stats.rankdata(x, method, axis=1))
    holes = np.float32([[1, 2, NAN, 4], [NAN, 5, 5, 9]])
    for axis in (1, None, (0, 1)):
        wanted = scipy.stats.sem(holes, axis, nan_policy="omit")
        assert_close(stats.sem(holes, axis, nan_policy="omit"), np.float32(wanted), 1e-5)
    assert dnp.isnan(stats.rankdata(np.float32([1, NAN, 2]))).all()
    many = (dnp.arange(1000) % 500 / 512).astype("bfloat16")  # which does not hold all ranks
    assert stats.rankdata(many, "max").tolist() == stats.rankdata(many.astype("float32"), "max").tolist()
    for axis in (0, 1, None):
        empty = np.zeros((2, 0), "float32")
        assert stats.rankdata(empty, axis=axis).shape == scipy.stats.rankdata(empty, axis=axis).shape
    assert stats.mode(np.zeros((0, 2), "float32")).count.shape == (2,)
    assert stats.mode(np.float32(2), None, keepdims=True).mode.shape == (1,)
    halves = RNG.normal(size=(50, 40)).astype("float16")
    wanted = scipy.stats.sem(halves.astype("float64")).astype("float16")
    np.testing.assert_array_equal(stats.sem(halves), wanted)  # rounded once


def test_density_estimates() -> None:
    data, weights = RNG.normal(size=(2, 12)), RNG.uniform(0.1, 1, 12)
    points = RNG.normal(size=(2, 5))
    with dx.enable_x64(True):
        for sample, w, at in ((data, None, points), (data, weights, points), (data[0], weights, points[0])):
            for method in (None, "silverman", 0.4):
                ours, theirs = (lib.gaussian_kde(sample, method, w) for lib in (stats, scipy.stats))
                assert_close(ours(at), theirs(at), 1e-9)
                assert_close(ours.logpdf(at), theirs.logpdf(at), 1e-9)
                assert_close(ours.integrate_kde(ours), np.float64(theirs.integrate_kde(theirs)), 1e-9)
        d = ours.d
        assert_close(ours.integrate_gaussian(np.zeros(d), np.eye(d)), np.float64(
            theirs.integrate_gaussian(np.zeros(d), np.eye(d))), 1e-9)  # fmt: skip
        assert_close(ours.integrate_box_1d(-1, 2), np.float64(theirs.integrate_box_1d(-1, 2)), 1e-9)
        drawn = stats.gaussian_kde(data).resample(dx.random.key(0), (3, 4000))
        assert drawn.shape == (2, 3, 4000)
        assert_close(drawn.mean((1, 2)), data.mean(1), 0.1, 0.05)
        assert_close(dx.jit(lambda k, x: k(x))(ours, points[0]), ours(points[0]), 1e-12)


def test_density_estimates_of_other_dtypes_than_their_arguments() -> None:
    data = RNG.normal(size=(2, 12)).astype("float32")
    centre, spread = np.ones(2), np.eye(2)
    with dx.enable_x64(True):
        ours, theirs = stats.gaussian_kde(data), scipy.stats.gaussian_kde(data)
        wide = stats.gaussian_kde(data.astype("float64") * 2)
        found = [
            (ours(centre), theirs(centre)),
            (ours.integrate_gaussian(centre, spread), theirs.integrate_gaussian(centre, spread)),
            (ours.integrate_kde(wide), theirs.integrate_kde(scipy.stats.gaussian_kde(data * 2))),
        ]
        for value, want in found:
            assert value.dtype == "float64"
            assert_close(value, np.float64(want), 1e-5)
        for dtype in ("int8", "bfloat16"):
            assert ours(np.ones((2, 3)).astype(dtype)).dtype == "float32"


@pytest.mark.ci
def test_derivatives() -> None:
    x, shares = np.array([0.15, 0.4, 0.8]), np.array([0.2, 0.7])
    cases: dict[str, Any] = {}
    shapes_of = {"norm": (), "gamma": (2.3,), "beta": (1.7, 2.2), "t": (3.1,), "truncnorm": (-0.7, 1.9), "cauchy": (),
                 "logistic": (), "gumbel_r": (), "vonmises": (1.3,), "laplace": ()}  # fmt: skip
    for name, shapes in shapes_of.items():
        module = getattr(stats, name)
        cases[name] = (lambda x, *s, m=module: m.logpdf(x, *s), x, *[np.array(s) for s in shapes])
        if hasattr(module, "ppf"):
            cases[f"{name}.ppf"] = (lambda q, m=module: m.ppf(q), shares)
    check_derivatives(cases)
    with dx.enable_x64(True):  # where another branch would be infinite
        assert_close(dx.grad(lambda x: stats.expon.logpdf(x))(0.0), np.float64(-1))
        assert dx.grad(lambda a: stats.gamma.logpdf(-1.0, a))(2.0) == 0
        found = dx.grad(lambda x: stats.truncnorm.logcdf(x, 20.0, 31.0))(20.5)
        at = scipy.stats.truncnorm(20, 31)
        assert_close(found, np.float64(np.exp(at.logpdf(20.5) - at.logcdf(20.5))), 1e-6)
        ends: list[tuple[Any, tuple[float, ...]]] = [  # where a formula is infinite, its functions have a limit
            (stats.gamma.pdf, (0.0, 3.0)), (stats.beta.pdf, (1.0, 2.0, 3.0)), (stats.beta.pdf, (-1.0, 2.0, 3.0)),
            (stats.gumbel_l.pdf, (1000.0,)), (stats.gumbel_r.cdf, (-1000.0,)), (stats.gumbel_l.logcdf, (1000.0,)),
            (stats.gennorm.pdf, (1e10, 50.0)), (stats.gennorm.pdf, (0.0, 0.5)), (stats.truncnorm.cdf, (5.0, -1.0, 3.0)),
            (stats.truncnorm.logcdf, (2.0, 2.0, 4.0)), (stats.truncnorm.pdf, (0.0, -INF, -5.0)),
        ]  # fmt: skip
        for function, at in ends:
            found = [dx.grad(function, i)(*at) for i in range(len(at)) if math.isfinite(at[i])]
            assert np.isfinite(found).all(), (function, at, found)
            assert found[0] == 0, (function, at)
        infinite = [
            (stats.bernoulli.logpmf, (2.0,)),
            (stats.binom.logpmf, (-1.0, 3.0)),
            (stats.binom.logpmf, (1.5, 3.0)),
        ]
        for function, at in infinite:
            for p in (0.0, 0.4, 1.0):
                found = dx.value_and_grad(lambda p, f=function, at=at: f(*at, p))(p)
                assert found == (-INF, 0), (function, at, p)
        assert dx.grad(stats.poisson.entropy)(0.0) == INF
    assert_close(stats.poisson.entropy(np.float32([0.3, 7, 200])), scipy.stats.poisson.entropy(
        [0.3, 7, 200]).astype("float32"), 1e-5)  # fmt: skip


def test_arrays_without_elements() -> None:
    """In eager calls, too, which are evaluated as a whole from the third one on."""
    x = np.zeros((0, 3), "float32")
    for function, more in [
        (stats.norm.pdf, ()), (stats.gumbel_l.pdf, ()), (stats.beta.pdf, (2.0, 3.0)), (stats.poisson.pmf, (2.0,)),
        (stats.truncnorm.cdf, (0.0, 1.0)), (stats.betabinom.pmf, (2.0, 2.0, 3.0)),
    ]:  # fmt: skip
        for _ in range(4):
            found = function(x, *more)
            assert found.shape == x.shape and found.dtype == x.dtype
    assert stats.dirichlet.logpdf(x[:, 0], x[:, 0]) == -INF


@pytest.mark.parametrize("dtype", first(["float32", "float64"]))
def test_shares_of_truncnorm_have_the_slopes_of_its_ends(dtype):
    a, b = np.array([-1, 2], dtype)
    at_a, at_b = scipy.stats.truncnorm(-1, 2).pdf([-1, 2])
    for function, x, wanted in [
        (stats.truncnorm.cdf, a, [at_a, -at_a, 0]), (stats.truncnorm.cdf, b, [at_b, 0, -at_b]),
        (stats.truncnorm.sf, a, [-at_a, at_a, 0]), (stats.truncnorm.sf, b, [-at_b, 0, at_b]),
        (stats.truncnorm.logcdf, b, [at_b, 0, -at_b]), (stats.truncnorm.logsf, a, [-at_a, at_a, 0]),
    ]:  # fmt: skip
        with dx.enable_x64(dtype == "float64"):
            slopes = dx.grad(function, (0, 1, 2))(x, a, b)
        np.testing.assert_allclose(slopes, wanted, rtol=1e-6 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize(
    ("function", "at", "wanted"),
    [
        (dx.grad(stats.logistic.logpdf), (0.0,), -0.5), (dx.grad(stats.logistic.pdf), (0.0,), -0.125),
        (stats.laplace.cdf, (0.0,), 0.5), (stats.laplace.cdf, (3.0, 3.0, 2.0), 0.25),
        (dx.grad(stats.gennorm.logpdf), (0.0, 2.0), -2.0), (dx.grad(stats.gennorm.logpdf), (0.0, 3.0), 0.0),
        (dx.grad(stats.gamma.logsf), (0.0, 1.0), 0.0), (dx.grad(stats.gamma.logsf), (0.0, 2.0), -1.0),
        (dx.grad(stats.beta.logsf), (0.0, 2.0, 3.0), -12.0), (dx.grad(stats.beta.logcdf), (1.0, 3.0, 2.0), -12.0),
    ],
)  # fmt: skip
def test_derivatives_where_a_formula_changes_sides(
    function: Any, at: tuple[float, ...], wanted: float
) -> None:
    """At the middle of smooth densities, and at the end where a share is 1."""
    for derivative in (dx.grad(function), dx.jacfwd(function)):
        np.testing.assert_allclose(derivative(*at), wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", first(["float16", "bfloat16"]))
def test_narrow_floats_are_rounded_once(dtype: str) -> None:
    x, y = dnp.asarray([1000, -3.3, 0.7], dtype), dnp.asarray([0.3, 0.7], dtype)
    eye = dnp.eye(2, dtype=dtype)
    for function, args in (
        (stats.cauchy.logpdf, (x,)), (stats.t.pdf, (x, dnp.asarray(2, dtype))), (stats.norm.pdf, (x[1:],)),
        (stats.dirichlet.pdf, (y, dnp.asarray([30, 5], dtype))), (stats.multivariate_normal.pdf, (5 * y, 0 * y, eye)),
        (stats.multinomial.logpmf, (y * 0 + 30, 60, y)),
    ):  # fmt: skip
        wide = [a.astype("float32") if hasattr(a, "dtype") else a for a in args]
        found, wanted = function(*args), function(*wide).astype(dtype)
        assert found.dtype == wanted.dtype == dnp.dtype(dtype)
        assert found.tolist() == wanted.tolist(), function
    slope = dx.grad(lambda v: stats.cauchy.logpdf(v).sum())(x)
    assert slope.dtype == x.dtype and np.isfinite(slope.astype("float32")).all()


def test_batches_and_errors() -> None:
    x = RNG.uniform(0.2, 0.8, (3, 2)).astype("float32")
    check_batches({
        "beta": (lambda x: stats.beta.logcdf(x, 2.0, x), x), "rank": (stats.rankdata, x), "mode": (stats.mode, x),
        "kde": (lambda x: stats.gaussian_kde(x)(x), x), "binom": (lambda x: stats.binom.pmf(2, 5, x), x),
    })  # fmt: skip
    for call, error, text in (
        (lambda: stats.rankdata(x, "best"), ArgumentError, "rankdata has 5 choices of method"),
        (lambda: stats.mode(x, nan_policy="omit"), NotImplementedError, "mode lets NaN propagate"),
        (lambda: stats.sem(x, 2), np.exceptions.AxisError, "sem takes an axis of the array"),
        (lambda: stats.dirichlet.pdf(x, x), ArgumentError, "dirichlet takes a vector of parameters"),
        (lambda: stats.multivariate_normal.pdf(x, x[0], x), ArgumentError, "a covariance of the size of the mean"),
        (lambda: stats.gaussian_kde(x[0, :1]), ArgumentError, "two points or more"),
        (lambda: stats.gaussian_kde(x).set_bandwidth(1), NotImplementedError, "keeps its bandwidth"),
        (lambda: stats.gaussian_kde(x, "best"), ArgumentError, "knows two rules"),
        (lambda: stats.gaussian_kde(x, [0.5]), ArgumentError, r"bw_method: \[0.5\]"),
        (lambda: stats.gaussian_kde(x + 1j), ArgumentError, "real numbers"),
        (lambda: stats.gaussian_kde(x)(x + 1j), ArgumentError, "points of an estimate are real"),
        (lambda: stats.gaussian_kde(x[0]).integrate_box_1d(x[0], 2.0), ArgumentError, "takes two numbers"),
        (lambda: stats.norm.pdf(x, 1, 2, 3), TypeError, "too many positional arguments"),
        (lambda: stats.norm.pdf("x"), TypeError, "norm.pdf takes arrays"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            call()


def test_logsf_where_the_tail_of_the_gamma_distribution_vanishes() -> None:
    """Near e^-88 and at e^-907; SciPy gives -inf for the second."""
    x, a = np.float32([88.0, 3000.0]), np.float32([2.5, 1000.0])

    def both(x: Any, a: Any) -> Any:
        return stats.gamma.logsf(x, a), stats.chi2.logsf(2 * x, 2 * a)

    values, slopes = dx.jit(lambda x, a: dx.jvp(lambda x: both(x, a), (x,), (dnp.ones_like(x),)))(x, a)
    hazard = scipy.stats.gamma.pdf(88.0, 2.5) / scipy.stats.gamma.sf(88.0, 2.5)
    for value, slope in zip(values, slopes, strict=True):
        np.testing.assert_allclose(value, [scipy.stats.gamma.logsf(88.0, 2.5), -906.454507], 1e-6)
        np.testing.assert_allclose(slope, [-hazard, -0.66716617], 1e-5)


@pytest.mark.ci
def test_logarithms_of_shares_go_on_where_the_shares_vanish() -> None:
    """With finite derivatives: SciPy's float64 and differences of it are what they are compared with."""
    cases = {
        "gamma logcdf": [(1e-30, 3.0), (100.0, 500.0), (0.5, 60.0), (2.0, 2.0)],
        "beta logcdf": [(1e-30, 3.0, 0.5), (1e-3, 40.0, 7.0), (0.4, 900.0, 300.0), (0.3, 2.0, 2.0)],
        "beta logsf": [(0.7, 0.01, 300.0), (0.999, 7.0, 40.0), (0.9, 900.0, 300.0), (0.3, 2.0, 2.0)],
    }
    for name, points in cases.items():
        module, kind = name.split()
        args = np.float32(points).T
        found, slope = dx.jit(jvp_by_first, static_argnums=0)(getattr(getattr(stats, module), kind), *args)
        function = getattr(getattr(scipy.stats, module), kind)
        z, *shapes = np.float64(args)
        after, before = [function(z * (1 + step), *shapes) for step in (1e-6, -1e-6)]
        np.testing.assert_allclose(np.asarray(found), function(z, *shapes), rtol=2e-6)
        np.testing.assert_allclose(np.asarray(slope), (after - before) / (2e-6 * z), rtol=1e-4)


def jvp_by_first(function: Any, z: Any, *shapes: Any) -> Any:
    return dx.jvp(lambda z: function(z, *shapes), (z,), (dnp.ones_like(z),))


def test_a_density_on_the_circle_has_no_value_at_infinity() -> None:
    x = np.float32([-np.inf, np.inf, np.nan, 1.0])
    for density in (stats.vonmises.logpdf, stats.vonmises.pdf):
        np.testing.assert_array_equal(np.isnan(density(x, 1.5)), [True, True, True, False])


@pytest.mark.parametrize(
    "point, mean, cov",
    [
        ((5, 3), (3,), ()),
        ((4, 5, 3), (5, 3), ()),
        ((3,), (3,), (4,)),
        ((5, 4, 3), (4, 3), (4,)),
        ((2, 5, 4, 3), (4, 3), (5, 1)),
        ((0, 3), (3,), ()),
    ],
)
def test_points_of_one_normal_distribution_are_the_columns_of_one_solve(point, mean, cov):
    rng = np.random.default_rng(0)
    x, m = rng.standard_normal(point), rng.standard_normal(mean)
    a = rng.standard_normal((*cov, 3, 3))
    c = a @ np.swapaxes(a, -1, -2) + np.eye(3)
    batch = np.broadcast_shapes(point[:-1], mean[:-1], cov)
    points, means = (np.broadcast_to(v, (*batch, 3)) for v in (x, m))
    covs = np.broadcast_to(c, (*batch, 3, 3))
    of = scipy.stats.multivariate_normal.logpdf
    wanted = np.array([of(points[i], means[i], covs[i]) for i in np.ndindex(*batch)]).reshape(batch)
    logpdf = stats.multivariate_normal.logpdf
    np.testing.assert_allclose(logpdf(x, m, c), wanted, rtol=2e-5)
    (solved,) = (
        eqn.invars[0].aval.shape
        for eqn in dx.make_jaxpr(logpdf)(x, m, c).jaxpr.eqns
        if eqn.primitive.name == "triangular_solve"
    )
    assert solved == (*batch[len(batch) - len(cov) :], 3, 3)  # no factor stands for more than one point


def test_gradients_of_densities_are_few_kernels() -> None:
    """The mask of infinite numbers and what is read twice would be others."""
    x = np.linspace(-3, 3, 100_000, dtype="float32")
    for density in (
        stats.norm.pdf,
        stats.cauchy.logcdf,
        stats.laplace.pdf,
        stats.logistic.cdf,
        stats.gumbel_l.pdf,
    ):
        program = dx.jit(dx.grad(lambda x, density=density: density(x).sum())).lower(x).compile()
        assert program.as_text().count(" fusion(") <= 2, density
    text = dx.jit(lambda x: stats.norm.pdf(x, 0.5, 0.3)).lower(x).as_text()
    scaled = text[text.rindex("stablehlo.divide") :]
    assert scaled.count("stablehlo.select") == 2  # the scale is not applied to what the choices give


def test_students_density_keeps_its_digits_with_its_derivatives() -> None:
    """Where degrees of freedom are many, two pairs of terms cancel; float32 numbers beside float64."""
    z = np.concatenate([RNG.normal(size=30), RNG.normal(size=30) * 10 ** RNG.uniform(-3, 2, 30)]).astype(
        "float32"
    )
    df = np.concatenate([RNG.uniform(0.5, 15, 30), 10 ** RNG.uniform(-2, 2, 30)]).astype("float32")
    by = [(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
    for order in by:
        f: Any = stats.t.logpdf
        for i in order:
            f = dx.grad(f, i)
        found = dx.jit(dx.vmap(f))(z, df)
        with dx.enable_x64(True):
            wanted = dx.jit(dx.vmap(f))(z.astype("float64"), df.astype("float64"))
        np.testing.assert_allclose(found, wanted, 2e-6, 1e-30, err_msg=str(order))
    far = dx.grad(stats.t.logpdf, 1)(np.float32(2.0), np.float32(1e6))
    np.testing.assert_allclose(far, (2**4 - 2 * 2**2 - 1) / -4e12, 1e-5)
    assert dx.grad(stats.t.logpdf)(np.float32(1), np.float32(INF)) == -1


def test_shares_of_float32_numbers_are_rounded_once() -> None:
    x = np.concatenate([RNG.uniform(-12, 8, 200), [0, 40, -40, 1e4, -1e4]]).astype("float32")
    wide = x.astype("float64")
    log_share = scipy.stats.norm.logcdf(wide)
    slope = np.exp(scipy.stats.norm.logpdf(wide) - log_share)
    for function, wanted in ((stats.norm.cdf, scipy.stats.norm.cdf(wide)), (stats.norm.logcdf, log_share)):
        np.testing.assert_allclose(dx.jit(function)(x), wanted, 1.2e-7, 1e-37)
    found = dx.jit(dx.vmap(dx.grad(stats.norm.logcdf)))(x)
    np.testing.assert_allclose(found[abs(x) < 30], slope[abs(x) < 30], 1.2e-7, 1e-37)
    assert np.isnan(dx.grad(stats.norm.logcdf)(NAN))


def test_truncated_normal_of_float32_numbers_is_rounded_once() -> None:
    """Also between neighbours and far from 0, where masses are small differences; beside float64."""
    a = np.concatenate([RNG.normal(size=40) * 3, RNG.normal(size=40) * 10 ** RNG.uniform(-4, 2, 40)]).astype(
        "float32"
    )
    b = a + np.concatenate([RNG.uniform(0.1, 6, 40), abs(a[40:]) * 10 ** RNG.uniform(-4, 0.5, 40)]).astype(
        "float32"
    )
    z = (a + (b - a) * RNG.uniform(0.1, 0.9, 80)).astype("float32")
    inside = (a < z) & (z < b)
    args = z[inside], a[inside], b[inside]
    wide = [x.astype("float64") for x in args]
    for f, by in (
        (stats.truncnorm.logpdf, (1, 2)),
        (stats.truncnorm.logcdf, (0, 2)),
        (stats.truncnorm.logsf, (0,)),
    ):
        for function in (f, *[dx.vmap(dx.grad(f, i)) for i in by]):
            found = dx.jit(function)(*args)
            with dx.enable_x64(True):
                wanted = dx.jit(function)(*wide)
            np.testing.assert_allclose(found, wanted, 4e-7, 1e-37)
    ends = np.array([-INF, 0, -1], "float32"), np.array([INF, INF, 1], "float32")
    np.testing.assert_allclose(
        stats.truncnorm.pdf(np.float32(0), *ends), scipy.stats.truncnorm.pdf(0, *ends), 1e-6
    )


# A density of powers of x or of p at the ends of their range, where it may vanish, but not its derivatives: the
# function, a polynomial, the rate of an exponential times which it is the density, and where.
X, REST = np.polynomial.Polynomial([0, 1]), np.polynomial.Polynomial([1, -1])
ENDS: list[tuple[str, Any, Any, float, float]] = [
    ("binom 1 of 5", lambda p: stats.binom.pmf(1.0, 5.0, p), 5 * X * REST**4, 0, 0),
    ("binom 4 of 5", lambda p: stats.binom.pmf(4.0, 5.0, p), 5 * X**4 * REST, 0, 1),
    ("binom 2 of 2", lambda p: stats.binom.pmf(2.0, 2.0, p), X**2, 0, 0),
    ("geom", lambda p: stats.geom.pmf(3.0, p), X * REST**2, 0, 1),
    ("nbinom", lambda p: stats.nbinom.pmf(1.0, 2.0, p), 2 * X**2 * REST, 0, 1),
    ("poisson 0", lambda mu: stats.poisson.pmf(0.0, mu), X**0, 1, 0),
    ("poisson 2", lambda mu: stats.poisson.pmf(2.0, mu), X**2 / 2, 1, 0),
    ("gamma", lambda x: stats.gamma.pdf(x, 2.0), X, 1, 0),
    ("gamma of place", lambda x: stats.gamma.pdf(x, 3.0, 0.0, 2.0), X**2 / 16, 0.5, 0),
    ("gamma cdf", lambda x: stats.gamma.cdf(x, 1.0), -(X**0), 1, 0),
    ("chi2", lambda x: stats.chi2.pdf(x, 4.0), X / 4, 0.5, 0),
    ("beta at 0", lambda x: stats.beta.pdf(x, 2.0, 3.0), 12 * X * REST**2, 0, 0),
    ("beta at 1", lambda x: stats.beta.pdf(x, 1.0, 2.0), 2 * REST, 0, 1),
    ("beta cdf", lambda x: stats.beta.cdf(x, 2.0, 2.0), 3 * X**2 - 2 * X**3, 0, 1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", first(["float32", "float64"]))
def test_derivatives_at_the_ends_of_the_support_are_limits(dtype: str) -> None:
    with dx.enable_x64(dtype == "float64"):

        def derivatives(x: dict[str, Any]) -> dict[str, Any]:
            found = {}
            for name, f, *_ in ENDS:
                slope = dx.grad(f)
                along = lambda g, x: dx.jvp(g, (x,), (dnp.ones_like(x),))[1]
                found[name] = [
                    slope(x[name]),
                    along(slope, x[name]),
                    along(lambda x, g=slope: along(g, x), x[name]),
                ]
            return found

        points = {name: np.asarray(at, dtype) for name, *_, at in ENDS}
        for name, found in dx.jit(derivatives)(points).items():
            polynomial, rate, at = next(row[2:] for row in ENDS if row[0] == name)
            for y in found:
                polynomial = polynomial.deriv() - rate * polynomial
                np.testing.assert_allclose(y, polynomial(at) * math.exp(-rate * at), 1e-5, 1e-6, err_msg=name)


def test_slopes_of_densities_keep_their_digits_near_an_end() -> None:
    """Where one parameter is 1 there is but one term, and nothing cancels."""
    slope = dx.grad(lambda x: stats.beta.logpdf(x, 1.0, 0.5))
    np.testing.assert_allclose(slope(np.float32(1e-9)), 0.5, 1e-6)
    np.testing.assert_allclose(dx.grad(lambda x: stats.beta.pdf(x, 1.0, 0.5))(np.float32(1e-9)), 0.25, 1e-6)


def test_mixed_derivatives_where_a_parameter_is_one() -> None:
    """There a term of the slope vanishes, but not its derivative by the parameter."""
    x = np.float32(0.25)
    by_both = lambda f: dx.grad(dx.grad(f), 1)(x, np.float32(1))
    np.testing.assert_allclose(by_both(lambda x, a: stats.beta.logpdf(x, a, 0.5)), 4, 1e-6)
    np.testing.assert_allclose(by_both(lambda x, b: stats.beta.logpdf(x, 0.5, b)), -4 / 3, 1e-6)
    log_x = math.log(0.25) + float(np.euler_gamma)  # log(x) - digamma(1)
    np.testing.assert_allclose(by_both(stats.gamma.pdf), math.exp(-0.25) * (4 - log_x), 1e-5)
    np.testing.assert_allclose(by_both(lambda x, a: stats.beta.pdf(x, a, 1.0)), 4, 1e-5)
    np.testing.assert_allclose(
        dx.grad(dx.grad(lambda n, p: stats.nbinom.pmf(0.0, n, p)), 1)(np.float32(1), x),
        1 + math.log(0.25),
        1e-5,
    )


def test_derivatives_of_the_gamma_distribution_far_from_its_mean() -> None:
    """By a parameter far above x, by a tiny one, and where terms of different sizes cancel. Numbers from mpmath."""
    for x64 in (False, True):
        rtol = 1e-12 if x64 else 2e-6
        with dx.enable_x64(x64):
            np.testing.assert_allclose(dx.grad(stats.gamma.logpdf, 1)(1e-30, 1e8), -87.498233528773736, rtol)
            np.testing.assert_allclose(dx.grad(stats.gamma.logcdf, 1)(0.3, 1e15), -35.742749199236622, rtol)
            twice = dx.grad(dx.grad(stats.gamma.logpdf))
            np.testing.assert_allclose([twice(1e4, 0.3), twice(1e15, 2.5)], [7e-9, -1.5e-30], rtol)
            np.testing.assert_allclose(stats.gamma.logsf(1e-30, 0.5), -1.1283791670955127e-15, rtol)
            twice = dx.grad(dx.grad(special.gammainc))
            np.testing.assert_allclose(
                [twice(1e-20, 0.3), twice(1e-9, 5.0)], [-0.324020585800443, -0.00536709211127137], rtol
            )


def test_derivatives_of_nbinom_by_tiny_parameters() -> None:
    """Also compiled, where XLA divides by the product of two divisors."""
    k, n, p = np.float32([0, 2, 5]), np.float32(1e-30), np.float32(1e-30)
    slopes = dx.jit(dx.vmap(dx.grad(stats.nbinom.logpmf, (1, 2)), (0, None, None)))(k, n, p)
    np.testing.assert_allclose(slopes[0], [math.log(1e-30), 1e30, 1e30], 1e-6)
    np.testing.assert_allclose(slopes[1], [1, -1, -4], 1e-6)
    by_n = dx.jit(dx.vmap(dx.grad(stats.nbinom.pmf, 1), (0, None, None)))(
        k[:2], np.float32(1e-20), np.float32(0.3)
    )
    np.testing.assert_allclose(by_n, [math.log(0.3), 0.7**2 / 2], 1e-6)


@pytest.mark.parametrize("dtype", first(["float64", "float32"]))
def test_binomial_logarithms_next_to_zero(dtype: str) -> None:
    """Of no successes, and of nothing else: where only a power of p, or of 1 - p, is left."""
    with dx.enable_x64(dtype == "float64"):
        p = np.asarray([1e-20, 1e-9], dtype)
        found = [stats.binom.logpmf(0, n, p) for n in (30, 1000)]
        found.append(stats.binom.logpmf(30, 30, 1 - np.asarray([1e-3, 0.1], dtype)))
    wanted = [-30.0 * p, -1000.0 * p, 30 * np.log((1 - np.asarray([1e-3, 0.1], dtype)).astype("float64"))]
    np.testing.assert_allclose(found, wanted, 2e-6 if dtype == "float32" else 2e-9)
