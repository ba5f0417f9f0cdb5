"""Each distribution against scipy.stats: 1e5 draws by Kolmogorov and Smirnov or chi-square, moments, tails, gradients.

Keys are fixed, so that a test passes always or never; the thresholds are those that one seed in a million exceeds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from scipy import stats

import didax as dx
import didax.numpy as dnp
from didax import random
from didax.core import sharding
from tests.checks import slow_unless

pytestmark = pytest.mark.usefixtures("any_use_of_keys")

N = 100_000
CHANCE = 1e-6


class Case(NamedTuple):
    name: str
    args: tuple[Any, ...]
    law: Any  # frozen distribution of scipy.stats


CONTINUOUS = [
    Case("uniform", (), stats.uniform()),
    Case("normal", (), stats.norm()),
    Case("exponential", (), stats.expon()),
    Case("gumbel", (), stats.gumbel_r()),
    Case("cauchy", (), stats.cauchy()),
    Case("laplace", (), stats.laplace()),
    Case("logistic", (), stats.logistic()),
    Case("maxwell", (), stats.maxwell()),
    Case("truncated_normal", (-1.0, 2.5), stats.truncnorm(-1, 2.5)),
    Case("lognormal", (0.7,), stats.lognorm(0.7)),
    Case("pareto", (2.5,), stats.pareto(2.5)),
    Case("rayleigh", (2.0,), stats.rayleigh(scale=2)),
    Case("weibull_min", (2.0, 1.5), stats.weibull_min(1.5, scale=2)),
    Case("triangular", (-1.0, 0.5, 3.0), stats.triang(1.5 / 4, loc=-1, scale=4)),
    Case("wald", (1.5,), stats.invgauss(1.5)),
    Case("gamma", (0.3,), stats.gamma(0.3)),
    Case("gamma", (1.0,), stats.gamma(1.0)),
    Case("gamma", (40.0,), stats.gamma(40.0)),
    Case("loggamma", (0.05,), stats.loggamma(0.05)),
    Case("beta", (0.5, 2.0), stats.beta(0.5, 2.0)),
    Case("chisquare", (3.0,), stats.chi2(3.0)),
    Case("f", (3.0, 9.0), stats.f(3.0, 9.0)),
    Case("t", (2.5,), stats.t(2.5)),
    Case("generalized_normal", (1.5,), stats.gennorm(1.5)),
]
DISCRETE = [
    Case("geometric", (0.3,), stats.geom(0.3)),
    Case("poisson", (0.3,), stats.poisson(0.3)),
    Case("poisson", (9.9,), stats.poisson(9.9)),
    Case("poisson", (10.0,), stats.poisson(10)),
    Case("poisson", (1000.0,), stats.poisson(1000)),
    Case("binomial", (10.0, 0.3), stats.binom(10, 0.3)),
    Case("binomial", (100.0, 0.5), stats.binom(100, 0.5)),
    Case("binomial", (1000.0, 0.9), stats.binom(1000, 0.9)),
]
OF_GAMMAS = ("gamma", "loggamma", "beta", "chisquare", "f", "t", "generalized_normal")
CLOSED_FORMS = [case for case in CONTINUOUS if case.name not in OF_GAMMAS]
NORMAL, GAMMA = (next(case for case in CONTINUOUS if case.name == name) for name in ("normal", "gamma"))

A, B = np.linspace(0.1, 8.0, 40, dtype="f"), np.linspace(3.0, 0.2, 40, dtype="f")
REJECTIONS = {
    "gamma": (A,), "loggamma": (A / 4,), "beta": (A, B), "f": (A + 1, B), "t": (A,), "generalized_normal": (B,),
    "dirichlet": (A.reshape(10, 4),), "poisson": (A**3,), "binomial": (np.floor(20 * A), B / 3),
    "multinomial": (np.floor(9 * A), np.array([0.1, 0.0, 0.6, 0.3], "f")),
}  # fmt: skip


def draw(case: Case, shape: Any, dtype: Any = None, seed: int = 0) -> np.ndarray:
    return np.asarray(getattr(random, case.name)(random.key(seed), *case.args, shape=shape, dtype=dtype))


def ids(case: Case) -> str:
    return f"{case.name}{case.args}"


# What equals jax's numbers below has its law: the laws are tried by `make test-ci`, and those of draws by rejection,
# whose programs take a second to compile for each shape, by `make test-all`.
@pytest.mark.ci
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=slow_unless(case.name == "gamma" or case.name not in REJECTIONS))
        for case in CONTINUOUS
    ],
    ids=ids,
)
def test_continuous_law(case: Case) -> None:
    x = draw(case, (N,)).astype("float64")
    assert np.isfinite(x).all()
    assert stats.kstest(x, case.law.cdf).pvalue > CHANCE
    for tail in (1e-3, 1 - 1e-3):  # where the Kolmogorov distance sees little
        below = int((x <= case.law.ppf(tail)).sum())
        assert stats.binomtest(below, N, tail).pvalue > CHANCE
    mean, variance = case.law.stats("mv")
    fourth = case.law.stats("k") if np.isfinite(variance) else np.inf
    if np.isfinite(variance):
        assert abs(x.mean() - mean) < 5 * np.sqrt(variance / N)
    if np.isfinite(fourth):
        assert abs(x.var() - variance) < 6 * variance * np.sqrt((fourth + 2) / N)


@pytest.mark.ci
@pytest.mark.parametrize("case", DISCRETE, ids=ids)
def test_discrete_law(case: Case) -> None:
    x = draw(case, (N,))
    assert x.dtype.kind == ("f" if case.name == "binomial" else "i")  # as in jax
    assert_counts(x, case.law)


def assert_counts(x: np.ndarray, law: Any) -> None:
    """Chi-square over the values that are expected at least 20 times, and two bins for what lies beyond."""
    low, high = law.ppf(20 / len(x)), law.ppf(1 - 20 / len(x))
    values = np.arange(low, high + 1)
    expected = law.pmf(values) * len(x)
    observed = np.array([(x == v).sum() for v in values], "float64")
    rest = np.array([law.cdf(low - 1), law.sf(high)]) * len(x)
    seen = np.array([(x < low).sum(), (x > high).sum()], "float64")
    assert not seen[rest < 1e-9].any()
    expected, observed = np.append(expected, rest[rest > 1]), np.append(observed, seen[rest > 1])
    if len(expected) == 1:
        assert observed[0] == len(x)
        return
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > CHANCE


# An odd number of random words is what all of them take in the same way: `uniform` stands for the others.
@pytest.mark.parametrize(
    "case, shape, wide",
    [
        pytest.param(case, shape, wide, id=f"{ids(case)} {shape}", marks=slow_unless(i == 0 or shape != (7,)))
        for i, case in enumerate([*CLOSED_FORMS, DISCRETE[0]])
        for shape, wide in [((7,), False), ((3, 500), False), ((9,), True)]
    ],
)
def test_the_numbers_of_jax(case: Case, shape: tuple[int, ...], wide: bool) -> None:
    with dx.enable_x64(wide), jax.enable_x64(wide):
        found = draw(case, shape, seed=5)
        key = jax.random.key(5)
        want = np.asarray(getattr(jax.random, case.name)(key, *case.args, shape=shape))
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found, want, rtol=1e-12 if wide else 4e-5, atol=1e-12 if wide else 1e-5)


@pytest.mark.parametrize("name", REJECTIONS)
def test_the_numbers_of_jax_by_rejection(name: str) -> None:
    """Counts near and far from where the method changes, and gamma samples of parameters below and above 1."""
    shape = {"multinomial": (40, 4), "dirichlet": (10,)}.get(name, (40,))
    found = np.asarray(getattr(random, name)(random.key(5), *REJECTIONS[name], shape=shape))
    want = np.asarray(getattr(jax.random, name)(jax.random.key(5), *REJECTIONS[name], shape=shape))
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found, want, rtol=4e-5, atol=1e-5)


# The numbers of closed forms in float64 are compared with those of jax above.
@pytest.mark.ci
@pytest.mark.parametrize(
    "case, dtype",
    [
        pytest.param(
            case,
            dtype,
            id=f"{ids(case)} {dtype}",
            marks=slow_unless(dtype != "float64" or case in (NORMAL, GAMMA)),
        )
        for case in [*CLOSED_FORMS, GAMMA]
        for dtype in ("bfloat16", "float64")
    ],
)
def test_dtypes(case: Case, dtype: str) -> None:
    x = draw(case, (2000,), dtype)
    assert x.dtype.name == dtype
    assert np.isfinite(x.astype("float64")).mean() > 0.999  # bfloat16 uniforms have 128 values
    assert stats.kstest(x.astype("float64"), case.law.cdf).statistic < 0.05


BY_REJECTION = [GAMMA, DISCRETE[3], DISCRETE[6]]


@pytest.mark.as_users  # a program of several operations is rounded otherwise with the cheap settings
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=slow_unless(i % 2 == 0 and case not in BY_REJECTION))
        for i, case in enumerate([*CLOSED_FORMS, DISCRETE[0], *BY_REJECTION])
    ],
    ids=ids,
)
def test_eager_compiled_and_mapped_draws_are_equal_in_every_bit(case: Case) -> None:
    f = lambda key: getattr(random, case.name)(key, *case.args, shape=(5,))
    keys = random.split(random.key(1), 3)
    apart = np.stack([np.asarray(f(k)) for k in keys])
    for mapped in (dx.vmap(f), dx.jit(dx.vmap(f)), dx.vmap(dx.jit(f))):
        assert np.array_equal(np.asarray(mapped(keys)), apart)
    assert np.array_equal(np.asarray(dx.jit(f)(keys[1])), apart[1])


@pytest.mark.as_users
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=slow_unless(case == GAMMA)) for case in BY_REJECTION], ids=ids
)
def test_draws_by_rejection_are_equal_in_every_bit(case: Case) -> None:
    """At once, and compiled and mapped; each program takes seconds to compile."""
    f = lambda key: getattr(random, case.name)(key, *case.args, shape=(5,))
    keys = random.split(random.key(1), 3)
    found = np.asarray(dx.jit(dx.vmap(f))(keys))
    assert np.array_equal(found, np.stack([np.asarray(f(k)) for k in keys]))


@pytest.mark.parametrize("case", [c for c in [*CLOSED_FORMS, GAMMA, *DISCRETE[::3]] if c.args], ids=ids)
def test_parameters_are_broadcast(case: Case) -> None:
    first = np.full((2, 1), case.args[0], "float32")
    rest = [np.full((3,), a, "float32") for a in case.args[1:]]
    shape = np.broadcast_shapes(first.shape, *[r.shape for r in rest])
    f = getattr(random, case.name)
    if case.name == "weibull_min":  # the types of the others tell as much as their values
        assert f(random.key(0), first, *rest).shape == shape
    assert dx.eval_shape(lambda *args: f(random.key(0), *args), first, *rest).shape == shape
    wider = dx.eval_shape(lambda *args: f(random.key(0), *args, shape=(4, 2, 3)), first, *rest)
    assert wider.shape == (4, 2, 3)
    with pytest.raises(ValueError, match=rf"parameters of {case.name} are broadcast"):
        f(random.key(0), first, *rest, shape=(5,))


@pytest.mark.ci
@pytest.mark.parametrize(
    "name, args",
    [("lognormal", (0.7,)), ("pareto", (2.5,)), ("rayleigh", (2.0,)), ("weibull_min", (2.0, 1.5)),
     ("triangular", (-1.0, 0.5, 3.0)), ("double_sided_maxwell", (1.0, 2.0))],
)  # fmt: skip
def test_gradients_of_closed_forms(name: str, args: tuple[float, ...]) -> None:
    with dx.enable_x64(True):
        f = lambda *args: getattr(random, name)(random.key(3), *args, shape=(50,)).sum()
        for i in range(len(args)):
            slope = float(dx.grad(f, i)(*args))
            step = 1e-6
            high, low = (f(*args[:i], args[i] + s, *args[i + 1 :]) for s in (step, -step))
            np.testing.assert_allclose(slope, (float(high) - float(low)) / (2 * step), rtol=1e-5)


def test_tails_of_the_normal_law() -> None:
    """Where erf is near 1 or -1, and takes a few values only; between them, the numbers of the inverse of erf."""
    bounds = np.float32([[5, 9], [-np.inf, -4], [-1, 2.5]])
    x = np.asarray(random.truncated_normal(random.key(0), *bounds.T[:, :, None], (3, N // 5)))
    for row, (low, high) in zip(x, bounds.tolist(), strict=True):
        assert low < row.min() and row.max() < high
        assert stats.kstest(row.astype("float64"), stats.truncnorm(low, high).cdf).pvalue > CHANCE
    known = random.truncated_normal(random.key(0), 5.0, 9.0, (3, N // 5))
    np.testing.assert_allclose(x[0], known[0], rtol=1e-6)


def test_a_scale_of_zero_draws_zeros() -> None:
    """As in NumPy and JAX."""
    assert not random.rayleigh(random.key(0), 0.0, (2,)).any()
    assert not random.weibull_min(random.key(0), 0.0, 2.0, (2,)).any()


def test_double_sided_maxwell_has_two_sides() -> None:
    x = np.asarray(random.double_sided_maxwell(random.key(0), 1.0, 2.0, (N,))) - 1
    assert stats.kstest(np.abs(x), stats.maxwell(scale=2).cdf).pvalue > CHANCE
    assert stats.binomtest(int((x > 0).sum()), N).pvalue > CHANCE


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda k: random.pareto(k, 0.0), r"pareto takes b above 0(.|\n)*b: 0.0(.|\n)*Clip"),
        (lambda k: random.rayleigh(k, np.float32([1, -2])), r"scale of at least 0(.|\n)*scale: -2.0"),
        (lambda k: random.weibull_min(k, 1.0, -1.0), r"concentration above 0"),
        (
            lambda k: random.uniform(k, minval=1j),
            r"uniform takes real numbers.*\n  minval: complex64\[\]\nTake its real",
        ),
        (
            lambda k: random.multivariate_normal(k, np.zeros(1), np.array([[1j]])),
            r"takes real numbers.*\n  cov: complex64\[1,1\]",
        ),
        (lambda k: random.geometric(k, 1.5), r"geometric takes p in \(0, 1\](.|\n)*p: 1.5"),
        (lambda k: random.triangular(k, 0.0, 4.0, 3.0), r"left <= mode <= right"),
        (lambda k: random.wald(k, np.ones(2), shape=(3,)), r"mean: float32\[2\], shape: \(3,\)"),
        (lambda k: random.weibull_min(k, np.ones(2), np.ones(3)), r"broadcast together"),
        (
            lambda k: random.cauchy(k, (2,), "int32"),
            r"cauchy draws a floating-point dtype(.|\n)*dtype: int32",
        ),
    ],
)
def test_bad_parameters(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call(random.key(0))


def test_nan_parameters_give_nan() -> None:
    assert np.isnan(np.asarray(random.pareto(random.key(0), dnp.array([1.0, np.nan])))).tolist() == [
        False,
        True,
    ]


def test_certain_success_takes_one_trial() -> None:
    assert np.asarray(random.geometric(random.key(0), 1.0, (50,))).tolist() == [1] * 50


def at_edges(name: str, *args: list[float]) -> np.ndarray:
    """Draws at a few parameters, whose program is compiled already: there are 40 of each above."""
    given = [np.resize(np.float32(x), 40) for x in args]
    return np.asarray(getattr(random, name)(random.key(0), *given, shape=(40,)))[: len(args[0])]


def test_counts_at_their_edges() -> None:
    x = at_edges("binomial", [0.0, 5.0, 5.0, 5.0, 1e6], [0.5, 0.0, 1.0, np.nan, 0.0])
    np.testing.assert_array_equal(x, [0, 0, 5, np.nan, 0])
    assert at_edges("poisson", [0.0, 0.0, 0.0]).tolist() == [0, 0, 0]


def test_gamma_at_its_edges() -> None:
    x = np.asarray(dx.jit(random.gamma)(random.key(0), dnp.array([0.0, -1.0, np.nan, np.inf, 1e30, 1e-30])))
    assert np.isnan(x[:3]).all() and x[3] == np.inf and abs(x[4] / 1e30 - 1) < 1e-6 and x[5] == 0
    assert np.isfinite(at_edges("loggamma", [1e-30]))
    assert dx.eval_shape(lambda: random.gamma(random.key(0), 2.0, (1 << 32,))).shape == (1 << 32,)


@pytest.mark.parametrize("a", [0.01, 0.3, 1.0, 2.5, 40.0, 3000.0])
def test_a_gamma_sample_moves_along_its_quantile(a: float) -> None:
    """dx/da at a fixed value of the distribution function, by finite differences of scipy's inverse."""
    from scipy.special import gammainc, gammaincinv

    with dx.enable_x64(True):
        keys = random.split(random.key(7), 200)
        x, slope = dx.vmap(lambda key: dx.jvp(lambda a: random.gamma(key, a), (a,), (1.0,)))(keys)
        log_slope = dx.vmap(lambda key: dx.grad(lambda a: random.loggamma(key, a))(a))(keys)
    x, slope, log_slope = (np.asarray(v) for v in (x, slope, log_slope))
    np.testing.assert_allclose(log_slope[x > 1e-300], (slope / x)[x > 1e-300], rtol=1e-6)
    p, h = gammainc(a, x), 1e-5 * a
    usable = (p > 1e-12) & (p < 1 - 1e-9) & (x > 1e-290)
    want = (gammaincinv(a + h, p) - gammaincinv(a - h, p)) / (2 * h)
    np.testing.assert_allclose(slope[usable], want[usable], rtol=2e-4)
    assert usable.sum() > (20 if a < 0.1 else 150)


@pytest.mark.parametrize("a", [0.3, 2.5, 40.0])
def test_second_derivatives_of_gamma_samples_are_those_of_their_quantiles(a: float) -> None:
    from scipy.special import gammainc, gammaincinv

    with dx.enable_x64(True):
        keys = random.split(random.key(7), 20)
        x = np.asarray(dx.vmap(lambda key: random.gamma(key, a))(keys))
        curve = dx.vmap(lambda key: dx.grad(dx.grad(lambda a: random.gamma(key, a)))(a))(keys)
        log_curve = dx.vmap(lambda key: dx.grad(dx.grad(lambda a: random.loggamma(key, a)))(a))(keys)
    p, h = gammainc(a, x), 1e-3 * a
    steps = [gammaincinv(a + k * h, p) for k in (-1, 0, 1)]
    for found, (before, at, after) in ((curve, steps), (log_curve, np.log(steps))):
        np.testing.assert_allclose(found, (after - 2 * at + before) / h**2, rtol=1e-3, atol=1e-6)


@pytest.mark.ci
@pytest.mark.parametrize(
    "name, args, moment, law",
    [
        ("gamma", (2.5,), lambda x: x**2, lambda a: a * (a + 1)),
        ("beta", (1.5, 2.5), lambda x: x, lambda a, b: a / (a + b)),
        ("t", (9.0,), lambda x: x**2, lambda df: df / (df - 2)),
        ("wald", (1.5,), lambda x: x, lambda mean: mean),  # 1.2 along the root that was taken
        pytest.param("chisquare", (3.0,), lambda x: x, lambda df: df, marks=pytest.mark.slow),
        pytest.param("f", (3.0, 12.0), lambda x: x, lambda m, n: n / (n - 2), marks=pytest.mark.slow),
        pytest.param("generalized_normal", (1.7,), lambda x: abs(x), lambda p: None, marks=pytest.mark.slow),
    ],
)
def test_gradients_of_moments(name: str, args: tuple[float, ...], moment: Any, law: Any) -> None:
    """The gradient of a mean over samples is that of the moment, which quadrature or a formula gives."""
    from scipy.special import gamma as gamma_function

    if name == "generalized_normal":
        law = lambda p: gamma_function(2 / p) / gamma_function(1 / p)
    draws = lambda *args: moment(getattr(random, name)(random.key(0), *args, shape=(N // 4,))).mean()
    for i, slope in enumerate(dx.grad(draws, tuple(range(len(args))))(*args)):
        h = 1e-4
        high, low = (law(*args[:i], args[i] + s, *args[i + 1 :]) for s in (h, -h))
        assert abs(float(slope) - (high - low) / (2 * h)) < 0.03 * max(1, abs(high - low) / (2 * h))


@pytest.mark.ci
def test_dirichlet() -> None:
    alpha, n = np.array([0.5, 2.0, 3.5], "float32"), N // 5
    x = np.asarray(random.dirichlet(random.key(0), alpha, (n,)))
    assert x.shape == (n, 3)
    np.testing.assert_allclose(x.sum(-1), 1, rtol=1e-5)
    for i in range(3):
        assert stats.kstest(x[:, i], stats.beta(alpha[i], alpha.sum() - alpha[i]).cdf).pvalue > CHANCE
    slope = dx.grad(lambda a: random.dirichlet(random.key(0), a, (n,))[:, 0].mean())(alpha)
    want = np.array([alpha[1] + alpha[2], -alpha[0], -alpha[0]]) / alpha.sum() ** 2
    np.testing.assert_allclose(slope, want, atol=0.009)
    tiny = np.asarray(random.dirichlet(random.key(0), np.full(3, 1e-4, "float32"), (n,)))
    np.testing.assert_allclose(tiny.sum(-1), 1, rtol=1e-5)  # one component takes all, none is NaN


@pytest.mark.ci
def test_multinomial() -> None:
    p, n = np.array([0.2, 0.0, 0.3, 0.5], "float32"), 100.0
    x = np.asarray(random.multinomial(random.key(0), n, np.broadcast_to(p, (20_000, 4))))
    assert (x.sum(-1) == n).all() and (x[:, 1] == 0).all()
    for i in (0, 2, 3):
        assert_counts(x[:, i], stats.binom(100, float(p[i])))
    assert abs(np.cov(x[:, 0], x[:, 2])[0, 1] + n * 0.2 * 0.3) < 0.4
    several = lambda n, p: random.multinomial(random.key(0), n, p, shape=(2, 6, 4))
    assert dx.eval_shape(several, dnp.array([[3.0], [5.0]]), p).shape == (2, 6, 4)


@pytest.mark.ci
def test_ball_is_filled_evenly() -> None:
    for p in (1.0, 2.0, 4.0):
        x = np.asarray(random.ball(random.key(0), 3, p, (20_000,)))
        radius = (np.abs(x) ** p).sum(-1) ** (1 / p)
        assert stats.kstest(radius**3, "uniform").pvalue > CHANCE
        assert np.abs(x.mean(0)).max() < 0.03


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_multivariate_normal(method: str) -> None:
    mean, root = np.array([1.0, -2.0, 0.5], "float32"), np.random.default_rng(0).normal(size=(3, 3))
    cov = (root @ root.T).astype("float32")
    x = np.asarray(random.multivariate_normal(random.key(0), mean, cov, (N,), method=method))
    np.testing.assert_allclose(x.mean(0), mean, atol=0.05)
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.1)
    white = (x - mean) @ np.linalg.inv(np.linalg.cholesky(cov)).T
    assert stats.kstest(white[:, 2], "norm").pvalue > CHANCE
    batch = random.multivariate_normal(
        random.key(0), np.zeros((4, 1, 3), "float32"), np.stack([cov] * 2), method=method
    )
    assert batch.shape == (4, 2, 3)


def test_multivariate_normal_is_jax_s_by_cholesky() -> None:
    cov = np.array([[2.0, 0.5], [0.5, 1.0]], "float32")
    want = jax.random.multivariate_normal(jax.random.key(3), np.zeros(2, "float32"), cov, (5,))
    found = random.multivariate_normal(random.key(3), np.zeros(2, "float32"), cov, (5,))
    np.testing.assert_allclose(found, want, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("n, m", [(4, 4), (5, 3), (2, 4)])
def test_orthogonal(dtype: str, n: int, m: int) -> None:
    q = np.asarray(random.orthogonal(random.key(0), n, (50,), dtype, m))
    assert q.shape == (50, n, m) and q.dtype.name == dtype
    adjoint = np.conj(np.swapaxes(q, -1, -2))
    product = q @ adjoint if n < m else adjoint @ q
    np.testing.assert_allclose(product, np.broadcast_to(np.eye(min(n, m)), product.shape), atol=1e-5)
    if n < m:
        wanted = jax.random.orthogonal(jax.random.key(0), n, (50,), dtype, m)
        np.testing.assert_allclose(q, wanted, rtol=1e-4, atol=1e-5)


def test_orthogonal_matrices_are_uniform() -> None:
    q = np.asarray(random.orthogonal(random.key(0), 3, (20_000,)))
    assert abs(np.trace(q, axis1=-2, axis2=-1).var() - 1) < 0.05  # of the trace under Haar's measure
    assert stats.binomtest(int((np.linalg.det(q) > 0).sum()), len(q)).pvalue > CHANCE


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda k: random.gamma(k, 0.0), r"gamma takes a above 0(.|\n)*a: 0.0"),
        (lambda k: random.poisson(k, -1.0), r"poisson takes lam of at least 0"),
        (lambda k: random.binomial(k, 3.0, 1.5), r"binomial takes p between 0 and 1(.|\n)*p: 1.5"),
        (lambda k: random.dirichlet(k, 2.0), r"concentrations along the last axis"),
        (lambda k: random.multinomial(k, 5.0, np.ones(3) / 3, shape=(2,)), r"ends in the number of outcomes"),
        (lambda k: random.multivariate_normal(k, np.zeros(2), np.eye(3)), r"Give both the same n"),
        (lambda k: random.multivariate_normal(k, np.zeros(2), np.eye(2), method="qr"), r"method: 'qr'"),
    ],
)
def test_bad_parameters_of_the_others(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call(random.key(0))


def test_multivariate_normal_has_the_dtype_of_its_parameters(x64: None) -> None:
    for dtypes in [("float32", "float32"), ("float32", "float64"), ("float64", "float32")]:
        mean, cov = np.zeros(2, dtypes[0]), np.eye(2, dtype=dtypes[1])
        want = jax.random.multivariate_normal(jax.random.key(0), mean, cov).dtype
        assert random.multivariate_normal(random.key(0), mean, cov).dtype == want


@pytest.mark.cpu
@pytest.mark.parametrize("name", ["poisson", "binomial"])
def test_counts_of_large_arrays_are_those_of_small_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements of large arrays leave the rounds; keys of other generators draw whole arrays from one key."""
    monkeypatch.setattr(sharding, "in_use", False)  # as in a process that has split no array over devices
    n = 300
    means = np.linspace(0, 60, n, dtype=np.float32).reshape(3, n // 3)
    args = (means,) if name == "poisson" else (np.float32(90), means / 90)

    def draw(key: Any) -> Any:
        return dx.jit(lambda key: getattr(random, name)(key, *args))(key)

    expected = np.asarray(draw(random.key(3)))
    dx.clear_caches()
    monkeypatch.setattr("didax.random._rejection._MANY", n)
    np.testing.assert_array_equal(draw(random.key(3)), expected)
    for impl, in_blocks in ("threefry2x32", True), ("rbg", False):
        text = str(dx.make_jaxpr(draw)(random.key(3, impl=impl)))
        assert ("scatter" in text) == in_blocks
    dx.clear_caches()


@pytest.mark.ci
def test_many_gamma_numbers_are_those_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the elements of large arrays that wait are drawn again, by threefry; other generators draw batches."""
    monkeypatch.setattr(sharding, "in_use", False)  # as in a process that has split no array over devices
    given = np.resize(np.float32([0.3, 1.0, 2.5, 700.0, np.nan, -1.0, np.inf]), 16384)
    many = np.asarray(dx.jit(random.gamma)(random.key(0), given))
    few = np.asarray(dx.jit(random.gamma)(random.key(0), given[:40]))
    np.testing.assert_allclose(many[:40], few, rtol=2e-6)  # in kernels that round otherwise
    np.testing.assert_array_equal(np.isnan(many), np.isnan(given) | (given < 0))
    assert (
        0.29 < many[::7].mean() < 0.31
        and (many[6::7] == np.inf).all()
        and (many[np.isfinite(many)] > 0).all()
    )
    for impl, few_again in (("threefry2x32", True), ("rbg", False)):
        text = str(dx.make_jaxpr(lambda key: random.gamma(key, 2.0, (16384,)))(random.key(0, impl=impl)))
        assert ("cumsum" in text) == few_again
    monkeypatch.setattr(sharding, "in_use", True)
    assert "cumsum" not in str(dx.make_jaxpr(lambda key: random.gamma(key, 2.0, (16385,)))(random.key(0)))


@pytest.mark.parametrize("name", ["bernoulli", "poisson", "geometric", "binomial"])
def test_a_parameter_from_numpy_has_the_default_width(name: str) -> None:
    trials = (10,) if name == "binomial" else ()
    drawn = [getattr(random, name)(random.key(0), *trials, p, shape=(30,)) for p in (0.3, np.float64(0.3))]
    assert drawn[0].dtype == drawn[1].dtype and (drawn[0] == drawn[1]).all()
