"""didax.scipy.special against scipy: values in both precisions, at ordinary points and corners, dtypes and shapes."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
import pytest
import scipy.special

import didax as dx
import didax.numpy as dnp
from didax.core.errors import ArgumentError
from didax.scipy import special, stats
from tests.checks import assert_close, first

INF, NAN = np.inf, np.nan
POSITIVE = [0.0, 1e-30, 0.3, 1.0, 2.5, 8.0, 30.0, INF, NAN]
REAL = [*POSITIVE, -0.0, -0.5, -3.2, -40.0, -INF]
UNIT = [0.0, 1e-30, 0.02, 0.3, 0.5, 0.77, 1.0, NAN, -0.1, 1.1]
PAIRS = [(x, y) for x in REAL for y in REAL]
POSITIVE_PAIRS = [(x, y) for x in (0.3, 1.0, 2.5, 30.0) for y in (0.4, 1.0, 7.5)]

# name: points, and (where scipy calls it otherwise) its name there
VALUES: dict[str, Any] = {
    "expit": REAL, "logit": UNIT, "entr": REAL, "xlogy": PAIRS, "xlog1py": PAIRS, "rel_entr": PAIRS,
    "kl_div": [(p, q) for p, q in PAIRS if p < INF],
    "erf": REAL, "erfc": REAL, "erfcx": REAL, "erfinv": [*UNIT, -0.5, -1.0], "ndtr": REAL,
    "log_ndtr": [x for x in REAL if x not in (8.0, 30.0)],  # where SciPy loses digits
    "ndtri": UNIT, "gamma": [*POSITIVE, -0.5, -3.2, -1.0], "gammaln": [*POSITIVE, -0.5, -3.2],
    "gammasgn": [*REAL, -1.0, -2.5], "digamma": [*POSITIVE[1:-2], NAN, -0.5, -3.2], "factorial": POSITIVE[1:-2],
    "gammainc": [(a, x) for a in (0.3, 1.0, 8.0) for x in POSITIVE], "betaln": POSITIVE_PAIRS,
    "gammaincc": [(a, x) for a in (0.3, 8.0) for x in POSITIVE],
    "poch": [(1.5, 2.0), (-0.5, 2.2), (3.0, 0.0), (-3.0, 2.0), (-3.0, 5.0), (-3.0, 0.5), (20.0, -3.5), (1e4, 3.0)],
    "beta": [*POSITIVE_PAIRS, (-0.5, 2.2), (-1.5, 0.3), (20.0, 30.0), (40.5, 0.5)],
    "betainc": [(a, b, x) for a in (0.5, 2.0, 20.0) for b in (0.5, 3.0) for x in (0.0, 0.1, 0.6, 1.0, NAN)],
    "polygamma": [(n, x) for n in (0.0, 1.0, 3.0) for x in (0.3, 1.0, 20.0)],
    "zeta": [(1.5, 1.0), (2.0, 0.3), (8.0, 4.0)],
    "i0": REAL, "i0e": REAL, "i1": REAL, "i1e": REAL, "exp1": [*POSITIVE, -1.0], "expi": REAL,
    "spence": [*POSITIVE[:-2], NAN, -1.0], "boxcox": [(x, y) for x in (0.0, 0.3, 2.0) for y in (0.5, 2.0, 1e-9)],
    "boxcox1p": [(x, y) for x in (1e-9, 0.3, 2.0) for y in (0.0, 0.5, -2.0)],
    "comb": [(5.0, 2.0), (30.0, 7.0), (5.0, 0.0), (5.0, 6.0), (5.0, -1.0), (0.0, 0.0), (5.5, 2.0)],
}  # fmt: skip
# Relative to their result, exponentials of large numbers lose the digits of these, and XLA's functions some others.
RTOL = {"beta": 25, "betainc": 100, "gammainc": 500, "gammaincc": 500, "betaln": 50, "comb": 50, "digamma": 200,
        "erfcx": 50, "gammaln": 50, "polygamma": 20,
        "zeta": 20}  # fmt: skip
NEAR_ZEROS = ("gammaln", "betaln", "digamma", "expi")  # which have zeros: there, absolutely


@pytest.mark.parametrize("dtype", first(["float32", "float64"]))
@pytest.mark.parametrize("name", VALUES)
def test_values_are_those_of_scipy(name: str, dtype: str) -> None:
    points = [np.atleast_1d(np.asarray(x, dtype)) for x in VALUES[name]]
    args = [np.asarray(column) for column in zip(*points, strict=True)]
    with dx.enable_x64(dtype == "float64"), np.errstate(all="ignore"):
        if name == "polygamma":
            wanted = scipy.special.polygamma(args[0].astype(int), args[1].astype("float64"))
        else:
            wanted = getattr(scipy.special, name)(*[x.astype("float64") for x in args])
        wanted = np.asarray(wanted).astype(dtype)
        found = np.asarray(getattr(special, name)(*args))
    assert found.dtype == wanted.dtype
    eps = float(np.finfo(dtype).eps)
    atol = 20 * eps if name in NEAR_ZEROS else 10 * float(np.finfo(dtype).tiny)
    np.testing.assert_allclose(found, wanted, eps * RTOL.get(name, 20), atol, err_msg=str(args))


ONLY_FLOATS = ("log_ndtr", "ndtr", "ndtri", "spence")  # in jax


@pytest.mark.parametrize("name", sorted(VALUES))
def test_types_are_those_of_jax(name: str) -> None:
    mine, theirs = getattr(special, name), getattr(jax.scipy.special, name)
    count = len(np.atleast_1d(VALUES[name][2]))
    ranks = [np.ones((2, 1), "float32"), np.ones(3, "float16"), 1.0]
    for args in ([np.float32(0.5)] * count, ranks[:count], [] if name in ONLY_FLOATS else [1] * count):
        if name == "polygamma":
            args[0] = 1
        if args:
            found, wanted = dx.eval_shape(mine, *args), jax.eval_shape(theirs, *args)
            assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), args


def test_reductions_take_all_elements_by_default() -> None:
    x = np.float32([[0.0, 1.0], [2.0, -INF]])
    assert_close(special.softmax(x), scipy.special.softmax(x), rtol=1e-6)
    assert_close(special.softmax(x, axis=0), scipy.special.softmax(x, axis=0), rtol=1e-6)
    assert_close(special.log_softmax(x, axis=(0, 1)), scipy.special.log_softmax(x), rtol=1e-6)
    assert_close(special.logsumexp(x), np.float32(scipy.special.logsumexp(x)), rtol=1e-6)
    found = special.logsumexp(x[0], b=np.float32([1, -2]), return_sign=True)
    assert_close(
        found, tuple(map(np.float32, scipy.special.logsumexp(x[0], b=[1, -2], return_sign=True))), rtol=1e-6
    )


@pytest.mark.parametrize(
    "x", [[INF, 1.0], [INF, INF], [-INF, -INF], [-INF, 1.0], [INF, -INF], [NAN, INF], [NAN, -INF]]
)
def test_logsumexp_at_infinities(x: list[float]) -> None:
    with np.errstate(all="ignore"):
        wanted = np.float32(np.log(np.sum(np.exp(np.float64(x)))))
    assert_close(special.logsumexp(np.float32(x)), wanted)
    assert_close(dx.jit(special.logsumexp)(np.float32(x)), wanted)
    assert_close(special.logsumexp(np.float32(x), b=np.ones(2, "float32")), wanted)


def test_numbers() -> None:
    assert_close(special.bernoulli(12), scipy.special.bernoulli(12).astype("float32"), rtol=1e-6)
    assert_close(
        special.multigammaln(np.float32([3.0, 7.5]), 3),
        np.float32([scipy.special.multigammaln(a, 3) for a in (3.0, 7.5)]),
    )
    for true in (True, 2, np.True_):
        assert_close(special.comb(4, 5, repetition=true), np.float32(56), rtol=1e-5)
    assert_close(special.zeta(2.0), np.float32(math.pi**2 / 6))
    assert_close(special.beta(1.0, np.float32([2e4, 1e6])), np.float32([5e-5, 1e-6]), rtol=1e-5)
    for n in (-1, 2.5):
        with pytest.raises(ValueError, match=rf"bernoulli takes an integer(?s:.*)n: {n}"):
            special.bernoulli(n)
    with pytest.raises(NotImplementedError, match=r"math\.factorial"):
        special.factorial(3, exact=True)


def test_incomplete_gamma_functions_do_not_depend_on_slower_neighbours() -> None:
    """The loop goes on for an element that takes thousands of steps; the others stay as they are."""
    a, x = np.float32([1.0, 2.0, 3.0, 1.5, 0.5]), np.float32([1.5, 3.1415927, 3.1415927, 2.0, 3e38])
    for f in (special.gammainc, special.gammaincc):
        wanted = getattr(scipy.special, f.__name__)(np.float64(a), np.float64(x))
        np.testing.assert_allclose(np.asarray(dx.jit(f)(a, x)), wanted, rtol=2e-6)


def test_bessel_functions_up_to_where_they_overflow() -> None:
    """Beyond 88.7, where exp(x) overflows; the derivative of i1 is no difference of two infinite numbers."""
    x = np.float32([88.0, 90.0, -91.5, 95.0, -300.0])
    finite, slope = np.abs(x) < 93, dx.vmap(dx.grad(special.i1))
    cases = [
        (special.i0, scipy.special.i0),
        (special.i1, scipy.special.i1),
        (slope, lambda x: scipy.special.ivp(1, x)),
    ]
    for f, of in cases:
        found, want = np.asarray(dx.jit(f)(x)), of(np.float64(x))
        np.testing.assert_allclose(found[finite], want[finite], rtol=1e-6)
        np.testing.assert_array_equal(found[~finite], np.sign(want[~finite]) * np.inf)
    assert (np.asarray(slope(np.float16([20, -88]))) == np.inf).all()
    third = dx.vmap(dx.grad(dx.grad(dx.grad(special.i1))))(np.float32([0, 1e-3, 7.9, 8.1]))
    np.testing.assert_allclose(third[:2], [0.375, 0.375], rtol=1e-5)
    np.testing.assert_allclose(third[2:], [311.58192, 377.49195], rtol=1e-4)


def test_integers_and_complex_numbers() -> None:
    assert special.xlogy(2, 3).dtype == np.float32
    assert_close(special.logit(1j), np.complex64(np.log(1j / (1 - 1j))), rtol=1e-6)
    assert_close(special.expit(np.complex64(0)), np.complex64(0.5))


def test_eager_shares_of_beta_of_one_number() -> None:
    """Of two of these numbers they were NaN, in programs that LLVM compiled at level 0."""
    for a, x in ((0.4294432, 0.07301039), (0.8748916, 0.435941), (0.853, 0.496)):
        a, x = np.float32([a]), np.float32([x])
        exact = scipy.special.betainc(a.astype("float64"), x.astype("float64"), x.astype("float64"))
        np.testing.assert_allclose(special.betainc(a, x, x), exact, 2e-7)


@pytest.mark.ci
def test_derivatives_of_shares_of_beta_by_parameters() -> None:
    """Numbers from mpmath: by a fraction, by one that ends before its derivative does, and by quadrature."""
    a, b, x = np.array([[2.5, 1.5, 0.3], [30.0, 40.0, 0.45], [600.0, 700.0, 0.46], [1.0, 1.0, 0.7]]).T
    by_a = [-0.09484271915351, -0.05067774675423, -0.01190131615336, -0.2496724607571]
    by_b = [0.08702731862242, 0.03964063336079, 0.01016919618632, 0.3611918412978]
    log_by_a = [0.104101932631, 0.1426529561414, 0.02188821585177, 0.832241535857]
    log_by_b = [-0.09552353771745, -0.1115845493222, -0.01870260047686, -1.203972804326]
    with dx.enable_x64(True):
        dots = dx.jit(dx.vmap(dx.grad(special.betainc, (0, 1))))(a, b, x)
        np.testing.assert_allclose(np.asarray(dots), [by_a, by_b], rtol=1e-11)
        log_upper = lambda a, b, x: stats.beta.logsf(x, a, b)
        dots = dx.jit(dx.vmap(dx.grad(log_upper, (0, 1))))(a, b, x)
        np.testing.assert_allclose(np.asarray(dots), [log_by_a, log_by_b], rtol=1e-11)
        np.testing.assert_allclose(dx.grad(dx.grad(special.betainc), 1)(2.5, 1.5, 0.3), -0.07032724148967)


@pytest.mark.ci
def test_shares_of_beta_beside_one_that_is_nearly_one() -> None:
    """For a small parameter: 1 less the other share would lose 1 / a digits. Numbers from mpmath."""
    a, b, x = np.array([[2**-30, 2, 2**-60], [2**-30, 0.5, 2**-7], [2**-10, 3, 0.125], [0.25, 20, 0.03125]]).T
    upper = [3.7801293718542174e-8, 5.8062438493534149e-9, 8.0243913708784769e-4, 0.12350088951116838]
    by_a = [40.588829300217725, 6.2344068417659599, 0.82176590648092697, 0.53758609434441933]
    by_b = [-6.0064163271403331e-10, -4.5885881347101017e-9, -2.7462786565261373e-4, -6.6944283715116742e-3]
    by_aa = [-1646.4531262777364, -42.149857669510794, 0.13890717027488554, 0.24684191869832454]
    p, q, y = [z.astype("float32") for z in (a, b, x)]
    np.testing.assert_allclose(special.betaincc(p, q, y), upper, rtol=5e-7)
    np.testing.assert_allclose(stats.beta.logcdf(y, p, q), np.log1p(-np.array(upper)), rtol=5e-7)
    with dx.enable_x64(True):
        np.testing.assert_allclose(special.betainc(b, a, 1 - x)[1:], upper[1:], rtol=1e-14)
        dots = dx.jit(dx.vmap(dx.grad(special.betaincc, (0, 1))))(a, b, x)
        np.testing.assert_allclose(np.asarray(dots), [by_a, by_b], rtol=1e-13)
        dots = dx.jit(dx.vmap(dx.grad(lambda a, b, x: stats.beta.logsf(x, a, b), (0, 1))))(a, b, x)
        np.testing.assert_allclose(np.asarray(dots), np.array([by_a, by_b]) / upper, rtol=1e-13)
        np.testing.assert_allclose(dx.vmap(dx.grad(dx.grad(special.betaincc)))(a, b, x), by_aa, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
def test_comb_keeps_the_dtype_beside_a_python_number(dtype: str) -> None:
    n = dnp.full(2, 5, dtype)
    assert special.comb(n, 2).dtype == jax.scipy.special.comb(jax.numpy.full(2, 5, dtype), 2).dtype


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shares_of_gamma_are_level_at_infinity(dtype: str) -> None:
    a, end = np.array([0.5, 1.0, 2.0, 1000.0], dtype), np.full(4, np.inf, dtype)
    with dx.enable_x64(dtype == "float64"):
        for share in (special.gammainc, special.gammaincc):
            assert not np.asarray(dx.grad(lambda x, share=share: share(a, x).sum())(end)).any()


def test_factorials_of_python_numbers_are_weak_and_real() -> None:
    assert special.factorial(5).weak_type and not special.factorial(np.int8(5)).weak_type
    with pytest.raises(ArgumentError, match="factorial takes real numbers"):
        special.factorial(1j)


def test_comb_of_float32_numbers_is_rounded_once_up_to_the_overflow() -> None:
    """From 1e31 on the beta function of float32 numbers vanished, and its inverse was infinite."""
    n, k = np.float32([[5.0, 515.0, 7227.0, 3550794.0], [2.0, 20.0, 11.0, 6.0]])
    wanted = np.array([10, math.comb(515, 20), math.comb(7227, 11), math.comb(3550794, 6)], "float64")
    for evaluate in (special.comb, dx.jit(special.comb)):
        np.testing.assert_allclose(evaluate(n, k), wanted, rtol=1e-7)
    assert special.comb(np.float32(math.inf), 3) == math.inf


def test_comb_has_no_loops_and_has_derivatives_by_both_numbers() -> None:
    """Of float32 numbers it is a formula in float64, without the loops of the beta function of float64 numbers."""
    n, k = np.float32([[5.0, 30.0, 1e8], [2.0, 23.0, 2.0]])
    assert "while" not in dx.jit(special.comb).lower(n, k).as_text()
    psi = scipy.special.digamma
    ways = scipy.special.comb(*np.float64([n, k]))
    slopes = dx.grad(lambda n, k: special.comb(n, k).sum(), (0, 1))(n, k)
    rest = n.astype("float64") - k
    np.testing.assert_allclose(slopes[0], ways * (psi(rest + k + 1) - psi(rest + 1)), rtol=1e-6)
    np.testing.assert_allclose(slopes[1], ways * (psi(rest + 1) - psi(k + 1.0)), rtol=1e-6)


@pytest.mark.parametrize("order", ["forward", "reverse"])
def test_second_derivatives_to_the_overflow(order: str) -> None:
    """Where exp(x), a cotangent of a factor, or the function itself overflows."""
    x = np.float32([60.0, 89.0, 90.0, 200.0])
    exact = x.astype("float64")
    derivative = (
        dx.grad if order == "reverse" else lambda f: lambda x: dx.jvp(f, (x,), (dnp.ones_like(x),))[1]
    )
    for f, want in [
        (special.i1, (3 * scipy.special.iv(1, exact) + scipy.special.iv(3, exact)) / 4),
        (special.i0, (scipy.special.iv(0, exact) + scipy.special.iv(2, exact)) / 2),
        (special.expi, np.exp(exact) * (exact - 1) / exact**2),
    ]:
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(dx.vmap(derivative(derivative(f)))(x), np.float32(want), rtol=1e-4)
    np.testing.assert_allclose(special.expi(x[:3]), scipy.special.expi(x[:3]), rtol=1e-5)


def test_second_derivatives_of_expn_near_0() -> None:
    second = dx.grad(dx.grad(lambda x: special.expn(2, x)))
    np.testing.assert_allclose([second(np.float32(1e-20)), second(np.float32(0))], [1e20, np.inf], rtol=1e-5)


def test_float32_is_float64_rounded_at_the_edges() -> None:
    huge, inf, nan = 3e38, np.inf, np.nan
    cases = {
        "gammaln": [(-huge,), (-16777216.0,)],
        "expi": [(huge,)],
        "spence": [(huge,)],
        "betaln": [(inf, -inf), (-inf, 2.0), (inf, -0.5)],
        "beta": [(inf, -inf), (-inf, 2.0), (inf, -0.5), (inf, -8388607.5), (inf, -1.5)],
        "poch": [(inf, nan), (inf, -inf)],
        "zeta": [(1.5, inf), (1.5, huge), (inf, 1e20), (huge, 1e20)],
        "boxcox": [(34.0, huge)],
        "boxcox1p": [(34.0, huge)],
    }
    for name, points in cases.items():
        args = [np.float64(np.float32(x)) for x in zip(*points, strict=True)]
        wanted = getattr(scipy.special, name)(*args)
        with dx.enable_x64(True):
            np.testing.assert_allclose(getattr(special, name)(*args), wanted, rtol=1e-13, err_msg=name)
        found = getattr(special, name)(*[x.astype(np.float32) for x in args])
        np.testing.assert_allclose(found, wanted.astype(np.float32), rtol=1e-6, err_msg=name)


def test_derivatives_of_spence_at_one() -> None:
    """Its slope is a quotient of vanishing numbers there. Numbers from mpmath."""
    f: Any = special.spence
    with dx.enable_x64(True):
        for wanted in (-1.0, 0.5, -2 / 3, 1.5, -4.8):
            f = dx.jacfwd(f)
            np.testing.assert_allclose(f(1.0), wanted, rtol=1e-14)


def test_the_normal_share_of_float64_numbers_calls_no_library() -> None:
    """XLA calls the C library's erf for each element. To two units in the last place around the middle."""
    x = np.linspace(-0.7, 0.7, 201)
    with dx.enable_x64(True):
        program = dx.jit(special.ndtr).lower(x)
        assert "erf" not in program.as_text()
        np.testing.assert_allclose(program.compile()(x), scipy.special.ndtr(x), 4.5e-16, 0)
