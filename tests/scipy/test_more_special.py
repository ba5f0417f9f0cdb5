"""Integrals, hypergeometric functions, Bessel functions and functions of complex numbers, against scipy.

The bounds are in units in the last place (ulp) of values that are away from zeros. Against mpmath's 30 digits these
were found: owens_t 17, expn 17, and, for positive parameters, hyp1f1 60 and hyp2f1 25; against SciPy dawsn 6,
sici 2 (the cosine integral absolutely), fresnel 2. SciPy itself is off by more at some points, so that decimals judge
hyp1f1.
"""

from __future__ import annotations

import decimal
import functools
import math
from typing import Any

import jax
import numpy as np
import pytest
import scipy.special

import didax as dx
import didax.numpy as dnp
from didax.core.errors import ArgumentError, ConcretizationTypeError
from didax.scipy import special, stats
from tests.checks import assert_close, first
from tests.quickly import AS_USERS
from tests.scipy.families import check_batches, check_derivatives

RNG = np.random.default_rng(0)
REAL = np.concatenate(
    [RNG.normal(size=20) * scale for scale in (0.3, 3, 30)] + [[0.0, 1.0, 4.0, 1e5, np.inf, np.nan]]
)
REAL = np.concatenate([REAL, -REAL[:-3]])
POSITIVE = [RNG.uniform(0.2, 4, 20) for _ in range(3)]
COMPLEX = (RNG.normal(size=60) + 1j * RNG.normal(size=60)) * 10 ** RNG.uniform(-2, 1, 60)
X = RNG.uniform(-12, 12, 20)

VALUES: dict[str, tuple[tuple[Any, ...], float]] = {
    "dawsn": ((REAL,), 60), "sici": ((REAL,), 20), "fresnel": ((REAL,), 100),
    "owens_t": ((RNG.normal(size=60) * 2, RNG.normal(size=60) * 2), 200),
    "expn": ((np.tile([0.0, 1, 2, 5, 30], 8), np.repeat([0, 1e-5, 0.3, 1.0, 1.1, 4.0, 30.0, np.inf], 5)), 60),
    "hyp1f1": ((POSITIVE[0], POSITIVE[1], np.append(X[:-2], [-400.0, 70.0])), 400),
    "hyp2f1": ((*POSITIVE, np.append(X[:-4] / 13, [0.95, -7.0, 0.99, 0.0])), 400),
    "wofz": ((COMPLEX[np.abs(COMPLEX.imag) < 4],), 200), "loggamma": ((COMPLEX,), 400),
}  # fmt: skip


@np.vectorize
def kummer(a: float, b: float, x: float) -> float:
    """The power series of hyp1f1, in decimals enough for terms that cancel."""
    with decimal.localcontext(prec=400):
        total = term = decimal.Decimal(1)
        above, below, argument = map(decimal.Decimal, (float(a), float(b), float(x)))
        for k in range(3000):
            term *= (above + k) / (below + k) / (k + 1) * argument
            total += term
            if abs(term) < abs(total) * decimal.Decimal("1e-30"):
                break
        return float(total)


@pytest.mark.parametrize("dtype", first(["float32", "float64"]))
def test_values_are_those_of_scipy(dtype: str) -> None:
    eps = float(np.finfo(dtype).eps)
    with dx.enable_x64(dtype == "float64"), np.errstate(all="ignore"):
        for name, (points, ulps) in VALUES.items():
            kind = (
                np.dtype(f"c{2 * np.dtype(dtype).itemsize}")
                if points[0].dtype.kind == "c"
                else np.dtype(dtype)
            )
            args = [x.astype(kind) for x in points]
            wide = [x.astype("complex128" if kind.kind == "c" else "float64") for x in args]
            judge = kummer if name == "hyp1f1" else getattr(scipy.special, name)
            wanted = judge(*([wide[0].astype(int), wide[1]] if name == "expn" else wide))
            found = getattr(special, name)(*args)
            for x, y in zip(dx.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
                assert x.dtype == kind
                atol = 20 * eps if name in ("sici", "loggamma") else 10 * float(np.finfo(dtype).tiny)
                np.testing.assert_allclose(
                    np.asarray(x), y.astype(kind), max(eps * ulps, 2e-11), atol, err_msg=name
                )


def test_corners() -> None:
    nan, inf = np.nan, np.inf
    with np.errstate(all="ignore"):
        for name, points in {
            "hyp1f1": [(1.0, -1.0, 3.0), (-2.0, -1.0, 3.0), (-2.0, 3.0, 1e3), (1.0, 2.0, nan), (0.0, 1.0, 5.0)],
            "hyp2f1": [(1.0, 2.0, 3.0, 1.5), (-2.0, 3.0, 2.0, 1.7), (1.0, 1.0, 3.0, 1.0), (1.0, 2.0, -1.0, 0.3),
                       (1.0, 1.0, 2.0, 1.0), (-1.0, 2.0, -3.0, 0.3), (1.0, 2.0, 3.0, nan), (1.0, 1.0, 2.0, 0.95)],
            "owens_t": [(0.0, 1.0), (1.0, inf), (inf, 1.0), (nan, 1.0), (1.0, -inf), (0.0, inf)],
            "expn": [(-1.0, 2.0), (2.0, -1.0), (1.0, 0.0), (3.0, 0.0), (0.0, 0.0)],
        }.items():  # fmt: skip
            for args in points:
                wanted = getattr(scipy.special, name)(*([int(args[0]), args[1]] if name == "expn" else args))
                # Here SciPy's sign is that of a limit.
                wanted = np.inf if name == "hyp1f1" and args[1] == -1 else wanted
                assert_close(getattr(special, name)(*args), np.float32(wanted), 3e-5, what=f"{name}{args}")
    assert dnp.isnan(special.loggamma(-1.5))
    assert special.loggamma(-1.5 + 0j).dtype == special.wofz(1).dtype == np.complex64


def test_bessel_functions() -> None:
    x = np.concatenate([RNG.uniform(-60, 60, 30), [0, 1e-8, 1e3, -3.0, 24.9, 25.1, np.nan]])
    with dx.enable_x64(True):
        for order in (0, 3, 40):
            wanted = np.stack([scipy.special.jv(n, x) for n in range(order + 1)])
            found = special.bessel_jn(x, v=order)
            np.testing.assert_allclose(found, wanted, 3e-13, 3e-16, err_msg=str(order))
    assert special.bessel_jn(np.float16(1), v=2).dtype == np.float16
    assert special.bessel_jn(np.ones((2, 2), "float32"), v=2).shape == (3, 2, 2)


def test_bessel_functions_of_float32_numbers_are_rounded_once() -> None:
    x = np.concatenate(
        [RNG.uniform(-20, 20, 100), RNG.normal(size=60) * 10 ** RNG.uniform(-5, 4, 60), [0, 8, np.inf]]
    )
    x = x.astype("float32")
    for order in (0, 2, 5):
        value = lambda x, order=order: special.bessel_jn(x, v=order)
        slope = lambda x, value=value: dx.jvp(value, (x,), (dnp.ones_like(x),))[1]
        ends = np.isfinite(x)
        for times, function in enumerate((value, slope)):
            wanted = np.stack(
                [scipy.special.jvp(n, x[ends].astype("float64"), times) for n in range(order + 1)]
            )
            np.testing.assert_allclose(dx.jit(function)(x[ends]), wanted, 3e-7, 4e-8)
        assert not np.asarray(value(x))[:, ~ends].any()
    assert special.bessel_jn(np.ones((0, 3), "float32"), v=3).shape == (4, 0, 3)


@pytest.mark.ci
def test_all_orders_of_bessel_functions_are_one_operation() -> None:
    x = RNG.uniform(-20, 20, 1100).astype("float32")  # longer than a block, and no whole number of blocks
    wanted = np.stack([scipy.special.jv(n, x.astype("float64")) for n in range(17)])
    orders = lambda x: special.bessel_jn(x, v=16)
    found = np.asarray(dx.jit(orders)(x))
    np.testing.assert_allclose(found, wanted, 3e-7, 4e-8)
    assert str(dx.make_jaxpr(dx.grad(lambda x: orders(x).sum()))(x)).count("= bessel_orders") == 1
    np.testing.assert_array_equal(dx.vmap(orders)(x[:3]), found[:, :3].T)
    assert np.isnan(orders(np.float32("nan"))).all() and np.signbit(orders(np.float32(-0.0))[1])


def test_spherical_harmonics() -> None:
    n, m = RNG.integers(0, 8, 40), RNG.integers(-8, 9, 40)
    theta, phi = [RNG.uniform(0, top, 40).astype("float32") for top in (math.pi, 2 * math.pi)]
    wanted = np.where(abs(m) > n, 0, scipy.special.sph_harm_y(n, m, theta, phi)).astype("complex64")
    assert_close(special.sph_harm_y(n, m, theta, phi), wanted, 1e-4, 2e-6)
    traced = dx.jit(special.sph_harm_y, static_argnames="n_max")(n[:, None], m[:, None], theta, phi, n_max=7)
    assert_close(dnp.diagonal(traced), wanted, 1e-4, 2e-6)
    outside = np.float32([-3.0, -1.0, 4.0, 5.0])  # no polar angles: of the cosine
    wanted = scipy.special.sph_harm_y(3, 1, outside, 0.7).astype("complex64")
    assert_close(special.sph_harm_y(3, 1, outside, 0.7), wanted, 1e-4, 2e-6)
    slope = dx.grad(lambda theta: special.sph_harm_y(1, 1, theta, 0.0).real)
    assert_close(
        dx.vmap(slope)(np.float32([0, math.pi])), np.float32([-1, 1]) * math.sqrt(3 / 8 / math.pi), 1e-5
    )


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_derivatives(order: int) -> None:
    x, h, a = np.array([-7.3, -0.4, 0.7, 2.3, 5.9]), np.array([0.3, -1.2, 2.0]), np.array([0.4, 1.7, -0.8])
    orders = np.array([0.0, 1.0, 4.0])
    z = np.array([0.7 + 1.2j, -1.3 - 0.4j, 3.1 + 0.2j])
    check_derivatives({
        "dawsn": (special.dawsn, x), "sici": (special.sici, x), "fresnel": (special.fresnel, x),
        "owens_t": (special.owens_t, h, a), "expn": (lambda x: special.expn(orders, x), np.array([0.4, 0.9, 2.1])),
        "hyp1f1": (lambda x: special.hyp1f1(1.3, 2.4, x), x), "hyp2f1": (
            lambda x: special.hyp2f1(1.3, 2.4, 3.1, x), x[:3] / 9),
        "loggamma": (special.loggamma, z), "wofz": (special.wofz, z), "bessel_jn": (
            lambda x: special.bessel_jn(x, v=3), x * 5),
        "sph_harm_y": (lambda t, p: special.sph_harm_y(3, 2, t, p), np.array([0.5, 1.9]), np.array([0.5, 1.0])),
    }, order)  # fmt: skip
    check_derivatives({
        "hyp1f1": (special.hyp1f1, np.array([1.3, 0.7]), np.array([2.4, 0.9]), np.array([1.1, -3.0])),
        "hyp2f1": (special.hyp2f1, *np.array([[1.3, 0.7], [2.4, 0.9], [3.1, 1.2], [0.4, -3.0]])),
    }, order=1)  # fmt: skip
    with dx.enable_x64(True):
        assert_close(dx.grad(special.dawsn)(1e6), np.float64(-5e-13), 1e-9)
        assert_close(dx.grad(lambda x: special.sici(x)[0])(0.0), np.float64(1))
    with pytest.raises(NotImplementedError, match="expn has no derivative by its order"):
        dx.grad(special.expn)(1.0, 2.0)
    assert np.isnan(dx.grad(special.expn, 1)(0.0, -0.5))  # as is expn itself, left of 0


def test_batches_and_errors() -> None:
    x = RNG.uniform(0.2, 3, (3, 2)).astype("float32")
    check_batches({
        "bessel_jn": (lambda x: special.bessel_jn(x, v=2), x), "wofz": (special.wofz, x), "loggamma": (
            lambda x: special.loggamma(x * (1 + 1j)), x), "hyp2f1": (lambda x: special.hyp2f1(1, 2, x, -x), x),
        "sph_harm_y": (lambda x: special.sph_harm_y(2, 1, x, x), x), "expn": (lambda x: special.expn(2, x), x),
    })  # fmt: skip
    for call, error, text in (
        (lambda: special.bessel_jn(1.0, v=-1), ArgumentError, "bessel_jn takes the highest order"),
        (lambda: special.bessel_jn(1j, v=1), ArgumentError, "bessel_jn takes real numbers"),
        (lambda: special.sph_harm_y(2, 1, 0.0, 0.0, diff_n=1), NotImplementedError, "gives values only"),
        (lambda: special.sph_harm_y(2.0, 1, 0.0, 0.0), ArgumentError, "takes integers as degree and order"),
        (lambda: dx.jit(special.sph_harm_y)(2, 1, 0.0, 0.0), ConcretizationTypeError, "needs the largest degree"),
        (lambda: special.dawsn(1j), TypeError, "dawsn takes real numbers"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            call()


def test_types_are_those_of_jax() -> None:
    f = np.float32(0.5)
    for name, count in {"dawsn": 1, "sici": 1, "fresnel": 1, "loggamma": 1, "wofz": 1, "owens_t": 2, "expn": 2,
                        "hyp1f1": 3, "hyp2f1": 4}.items():  # fmt: skip
        for x in (f, 1, np.ones(3, "int32")):
            found = dx.eval_shape(getattr(special, name), *[x] * count)
            wanted = jax.eval_shape(getattr(jax.scipy.special, name), *[x] * count)
            for one, other in zip(dx.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
                assert (one.shape, one.dtype) == (other.shape, other.dtype), (name, x)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_loggamma_on_its_cut_and_at_its_poles(dtype: str) -> None:
    """The upper side of the cut has one branch, midway between poles and beside them, too; poles are NaN."""
    z = np.array([-0.5, -2.5, -7.5, -1 + 1e-4j, -2 - 1e-4j, 0.0, -1.0, -6.0], dtype)
    with dx.enable_x64(dtype == "complex128"):
        found = dx.jit(special.loggamma)(z)
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(
        found, scipy.special.loggamma(z.astype(complex)).astype(dtype), 40 * eps, 4 * eps
    )


def test_loggamma_of_complex_numbers_near_its_zeros_and_far_out() -> None:
    """Single precision has all digits where the logarithms cancel, too; the products of large numbers overflow."""
    z = np.array([1.001 + 0.002j, 1.999 - 0.001j, 0.7 + 3j, 90 - 60j, 2e4 + 1e4j, -3e30 + 1e30j], "complex64")
    wanted = scipy.special.loggamma(z.astype("complex128"))
    for name, judge in (("loggamma", wanted), ("gamma", np.exp(wanted[:3]))):
        found = dx.jit(getattr(special, name))(z[: len(judge)])
        np.testing.assert_allclose(found, judge.astype("complex64"), rtol=2e-7, err_msg=name)


def test_gamma_and_xlogy_of_complex_numbers() -> None:
    x = RNG.normal(size=(2, 12)) * 2 + 1j * RNG.normal(size=(2, 12)) * 2
    x = np.concatenate([x, [[0, 0, 0, 1j, -2, 3], [0, np.inf, 1j, 0, 1, -2]]], 1)
    for name, arguments in (
        ("gamma", x[:1, :12]),
        ("gamma", np.array([[-2.0, 0.5, 4.0, -0.5]]) + 0j),
        ("xlogy", x),
    ):
        with np.errstate(all="ignore"):
            wanted = getattr(scipy.special, name)(*arguments)
        found = getattr(special, name)(*(dnp.asarray(v, "complex128") for v in arguments))
        np.testing.assert_allclose(np.isnan(found), np.isnan(wanted), err_msg=name)
        finite = np.isfinite(wanted)
        assert_close(np.asarray(found)[finite], wanted[finite], rtol=1e-10)
    found = dx.grad(special.xlogy, holomorphic=True)(0j, 2 + 1j)
    np.testing.assert_allclose(found, np.log(2 + 1j), rtol=1e-6)


def test_complex_numbers_in_functions_of_probabilities() -> None:
    """Values of mpmath at branch points and beside them; what jax gives elsewhere, its branches of logarithms too."""
    z = np.array([0.3 + 0.4j, -1.2 + 0.1j, 0.7 - 2j, 0.5 + 1e-4j, 3 + 1e-3j, 1e-6 - 2e-6j], np.complex64)
    power = np.array([0, 1j, 0.5, 1e-7, -2, 1 + 1j], np.complex64)
    calls = {
        "logit": (z,), "xlog1py": (power, z), "boxcox": (z, power), "boxcox1p": (z, power), "erfcx": (z,),
        "softmax": (z,), "log_softmax": (z,),
    }  # fmt: skip
    with jax.enable_x64(True):
        theirs = {name: getattr(jax.scipy.special, name)(*[jax.numpy.asarray(x, "complex128") for x in args])
                  for name, args in calls.items()}  # fmt: skip
    ours = dx.jit(lambda: {name: getattr(special, name)(*args) for name, args in calls.items()})()
    for name, wanted in theirs.items():
        assert ours[name].dtype == "complex64"
        np.testing.assert_allclose(ours[name], wanted, rtol=1e-5, err_msg=name)
        np.testing.assert_allclose(getattr(special, name)(*calls[name]), wanted, rtol=1e-5, err_msg=name)
    assert special.xlog1py(dnp.complex64(0), -1) == 0
    assert special.logit(dnp.complex64(0.5)) == 0
    for point in (0.5, 1e4 + 1e4j):
        slope = dx.grad(lambda x: special.logit(x), holomorphic=True)(dnp.complex64(point))
        np.testing.assert_allclose(slope, 1 / (point * (1 - point)), rtol=1e-6)
    slope = dx.grad(lambda x: special.xlog1py(x, -1), holomorphic=True)(dnp.complex64(0))
    assert np.isfinite(slope) or np.isneginf(slope.real)


# What mpmath gives for numbers that both dtypes hold, where formulas overflow, cancel, or meet poles.
HARD: list[tuple[str, tuple[float, ...], float]] = [
    ("comb", (60.0, 30.0), 118264581564861424.0), ("beta", (33.0, 33.0), 8.3948557922534366547e-21),
    ("beta", (-5.75, -524.75), 62776277601408.613886), ("beta", (-3.0, 2.0), 1 / 6), ("beta", (0.0, 2.0), math.inf),
    ("beta", (-1.5, 0.5), 0.0), ("betaln", (-2.5, 2.0**30), 51.929794821423687888),
    ("poch", (-311.75, -0.125), 0.90120096462047412977),
    ("poch", (-2.0, 1e-30), 0.0), ("poch", (-(2.0**40), 1.0), -(2.0**40)),
    ("poch", (2.0**-70, -12.0), 2.0876756987868098988e-9), ("poch", (2.0**-70, -200.0), 0.0),
    ("polygamma", (3.0, -7.75), 1558.5419205916065598), ("polygamma", (20.0, 88.0), -1.7536449356581167778e-22),
    ("polygamma", (10.0, -0.5), -42108.858768975491797), ("polygamma", (1.0, 2.0**60), 8.6736173798840354758e-19),
    ("zeta", (2.0, 2.0**60), 8.6736173798840354758e-19), ("zeta", (math.inf, 0.5), math.inf), ("gammaln", (1.0,), 0.0),
    ("gammaln", (1 + 2.0**-23,), -6.8809457642534711512e-8), ("gammaln", (1.875,), -0.047672685399188299644),
    ("gammaincc", (2.0**-20, 0.5), 5.338419671675147442e-7),
    ("gammaincc", (2.0**-10, 0.0625), 0.0022023116299865891872),
    ("betainc", (2.0**-10, 2.0**20, 2.0**-20), 0.999785543848942), ("betainc", (2.0**-10, 2.0**40, 0.5), 1.0),
    ("betainc", (2.0**20, 2.0**21, 0.33298781514167786), 0.0967876186258980955),
    ("betaincc", (2.0**28, 2.0**18, 0.9990264773368835), 0.136545399310512005),
    ("betainc", (2.0**28, 2.0**18, 0.9990203976631165), 0.01812424352962999), ("betainc", (1e30, 1e30, 0.5), 0.5),
    ("betainc", (2.0**29, 2.0**29, 0.4999893307685852), 0.242207667326483434),
    ("betainc", (600.0, 2.0**27, 4.543328486761311e-06), 0.659622892089513639), ("betainc", (3e38, 3e38, 0.5), 0.5),
    ("betainc", (2.0**22, 0.75, 0.9999997615814209), 0.260019942629084193),
    ("betainc", (2.0**22, 12.5, 0.9999961853027344), 0.158009151762213428), ("betaincc", (2.0, 1.0, 1.0), 0.0),
    ("kl_div", (17.5, 17.515625), 6.9712971555329259e-6),
    ("log_ndtr", (12.25,), -8.3997960636334176589e-35), ("erfcx", (-6.6875,), 52945959254800978190.0),
    ("erfcx", (-40.0,), math.inf), ("erfinv", (1 - 2.0**-20,), 3.4655050258033307173), ("erfinv", (-0.0,), -0.0),
    ("owens_t", (9.0, 2.0), 5.6429420297692032387e-20), ("boxcox", (0.0, 0.0), -math.inf),
    ("boxcox", (math.inf, 2.0), math.inf), ("boxcox", (math.inf, -2.0), 0.5),
    ("hyp2f1", (1.0, 3.0, 2.0, 1 - 2.0**-16), 2147516416.0),
    ("hyp2f1", (-3.0, 4.0, 4.0, 1 - 2.0**-12), 1.4551915228366852e-11),
    ("hyp2f1", (4.0, 5.0, 6.0, 1 - 2.0**-16), 469117803233099.84),
    ("hyp2f1", (1.0, 1.0, 2.0, 1 - 2.0**-20), 13.862956831944786),
    ("hyp2f1", (4.25, 1.25, 3.625, -1348.0), 9.2416708756444305e-5),
    ("hyp2f1", (-29.75, -28.25, 24.0, -0.8125), math.nan),
]  # fmt: skip


@pytest.mark.parametrize("dtype", first(["float32", "float64"]))
def test_hard_arguments(dtype: str) -> None:
    """One program for all; x64 is on for float64."""
    names = sorted({name for name, *_ in HARD})
    points = [
        [np.asarray(x, dtype) for x in zip(*[x for n, x, _ in HARD if n == name], strict=True)]
        for name in names
    ]
    with dx.enable_x64(dtype == "float64"):
        found = dx.jit(lambda xs: [getattr(special, n)(*x) for n, x in zip(names, xs, strict=True)])(points)
    for name, values in zip(names, found, strict=True):
        wanted = np.asarray([y for n, _, y in HARD if n == name], dtype)
        np.testing.assert_allclose(values, wanted, 64 * float(np.finfo(dtype).eps), 0, err_msg=name)
        assert np.signbit(values)[np.signbit(wanted)].all(), name


def test_float64_of_wide_ranges() -> None:
    """XLA's own log1p and erf_inv have fewer digits; the Fresnel integrals approach 1/2 slowly."""
    calls = {
        "log1p": (lambda: dnp.log1p(np.full(9, -0.4140625)), -0.53454215038330672532),
        "arctanh": (lambda: dnp.arctanh(np.full(9, 0.4140625)), 0.44050445886475765312),
        "fresnel": (lambda: special.fresnel(3e7)[0], 0.49999998938967044),
        "betaln": (lambda: special.betaln(2e307, 0.25), -175.60867015773492),
        "betaln of two": (lambda: special.betaln(1e308, 1e308) * 1e-300, -138629436.11198906),
        "poch": (lambda: special.poch(1 + 2.0**-52, -4.0), -750599937895082.97),
        "bessel_jn": (lambda: special.bessel_jn(2.0**-21, v=2)[2], 2.8421709430403468906e-14),
        "gammainc": (lambda: special.gammainc(171.5, 1.5) * 1e200, 2.1916706588093875384e-81),
    }
    with dx.enable_x64(True):
        found = dx.jit(lambda: [f() for f, _ in calls.values()])()
    for (name, (_, wanted)), value in zip(calls.items(), found, strict=True):
        np.testing.assert_allclose(value, wanted, 2e-13 if name == "gammainc" else 1e-15, err_msg=name)


@pytest.mark.parametrize("dtype", first(["float32", "float64"]))
def test_the_inverse_of_erf_and_normal_tails_keep_their_digits(dtype: str) -> None:
    """At the joint of the two polynomials, far in the tails, and where 1 - x has few digits."""
    eps, tiny = np.finfo(dtype).eps, np.finfo(dtype).tiny
    x = np.array([1e-20, 0.3, 0.85 - eps, 0.85, 0.8500001, 0.99, 1 - 4 * eps, 1 - eps], dtype)
    p = np.array([tiny, 1e-30, 1e-8, 0.074, 0.076, 0.5, 0.875, 0.99, 1 - eps], dtype)
    # Levy's quantile of its distribution function is the number again.
    middle = [0.001 * k for k in range(-50, 51, 3)]
    z = np.array([-12.5, -5.3, 0.7, 5.0, *middle], dtype)
    with dx.enable_x64(dtype == "float64"):
        found = dx.jit(
            lambda x, p, z: (
                *map(special.erfinv, (x, -x)),
                special.ndtri(p),
                special.ndtr(z),
                special.log_ndtr(z),
                special.erfcx(-z),
            )
        )(x, p, z)
    x, p, z = np.float64(x), np.float64(p), np.float64(z)
    inverse = scipy.special.erfinv(x)
    upper = [
        scipy.special.ndtri(p),
        scipy.special.ndtr(z),
        scipy.special.log_ndtr(z),
        scipy.special.erfcx(-z),
    ]
    for y, wanted in zip(found, [inverse, -inverse, *upper], strict=True):
        np.testing.assert_allclose(np.asarray(y), wanted.astype(dtype), rtol=30 * eps, atol=tiny)
    np.testing.assert_allclose(np.asarray(found[3])[4:], scipy.special.ndtr(z)[4:], rtol=eps)


def test_third_derivatives_by_parameters() -> None:
    """Numbers from differences of mpmath's functions."""

    def thrice(f: Any) -> Any:
        return dx.jacfwd(dx.jacfwd(dx.jacfwd(f)))

    with dx.enable_x64(True):
        close = functools.partial(np.testing.assert_allclose, rtol=1e-6)
        close(thrice(lambda a: special.hyp1f1(a, 2.5, 0.7))(1.3), 0.01253664393)
        close(thrice(lambda b: special.hyp1f1(1.5, b, 0.7))(1.3), -4.774542553)
        close(thrice(lambda c: special.hyp2f1(1.2, 2.5, c, 0.3))(3.2), -0.12490515438785)
        by_a = lambda x: dx.jacfwd(dx.jacfwd(lambda a: special.hyp1f1(a, 2.5, x)))(0.0)
        close(dx.jacfwd(by_a)(0.7), 0.203931099326)
        close(thrice(lambda a: special.gammainc(a, 0.4))(1.3), -0.327036500472803)
        close(thrice(lambda a: special.gammainc(a, 2.0))(1.3), 0.156138251653797)
        close(thrice(lambda s: special.zeta(s, 1.7))(2.3), -2.103886913026642)
        close(dx.jacfwd(thrice(lambda s: special.zeta(s, 1.7)))(2.3), 6.464459984211177)
        by_q = dx.grad(special.zeta, 1)
        close(dx.grad(dx.grad(by_q))(2.3, 1.7), -0.032219945275222345)
        # Its terms end, but not its derivatives by parameters.
        polynomial = dx.grad(dx.grad(special.hyp2f1), 1)(0.7, -2.0, 1.2, 0.3)
        close(polynomial, 0.13612772188611047)


def test_derivatives_of_hyp1f1_where_its_slope_by_x_vanishes() -> None:
    """At a = 0 the factor of that slope is 0, and is not to hide what depends on it. Numbers from mpmath."""
    with dx.enable_x64(True):
        at_zero = (0.0, 2.5, 0.7)
        mixed = dx.jacfwd(dx.jacfwd(dx.jacfwd(special.hyp1f1, 0), 2), 0)
        np.testing.assert_allclose(mixed(*at_zero), 0.203931099326915, rtol=1e-9)
        curve = dx.grad(dx.jacfwd(dx.jacfwd(special.hyp1f1, 2), 2), 0)
        np.testing.assert_allclose(curve(*at_zero), 0.157729812240219, rtol=1e-9)


def test_slopes_by_a_of_hyp1f1_with_few_terms_keep_their_digits() -> None:
    """At a whole a <= 0 the terms end, those of the derivative go on, and cancel for x < 0. Numbers from mpmath."""
    with dx.enable_x64(True):
        a, b, x = np.array([[0.0, 0.0, -1.0, -5.0], [0.5, 7.0, 1.0, 0.5], [-60.0] * 4])
        wanted = [-6.049414059897236, -2.3175719838108764, -225.96517385454163, -98244872.59744065]
        np.testing.assert_allclose(dx.vmap(dx.grad(special.hyp1f1))(a, b, x), wanted, rtol=1e-13)


def test_slopes_of_hyp1f1_far_out_and_by_b_where_a_is_small() -> None:
    """Far out the series overflows; turned for x < 0, two derivatives cancelled. Numbers from mpmath."""
    by_a, by_b = [dx.jit(dx.vmap(dx.grad(special.hyp1f1, i))) for i in range(2)]
    with dx.enable_x64(True):
        b = np.full(4, 2.0)
        a, x = np.array([0.0, 1.5, 0.0, 0.0]), np.array([-1000.0, -1000.0, 1000.0, -60.0])
        wanted = [-6.4859709438836699, -1.5835753625370234e-4, math.inf, -3.6882268937903002]
        np.testing.assert_allclose(by_a(a, b, x), wanted, rtol=1e-13)
        a, x = np.array([2**-30, 2**-30, 1.5, -2.0]), np.array([-5.0, -500.0, -1000.0, 1000.0])
        wanted = [4.3666983616290215e-10, 5.9878087252553131e-10, 4.2579615072878501e-5, 500 - 5e6 / 36]
        np.testing.assert_allclose(by_b(a, b, x), wanted, rtol=1e-13)
        value = special.hyp1f1(1e-3, 1.5, 720.0)  # exp(x) x^(a - b) alone would overflow
        np.testing.assert_allclose(value, 2.2781709019567184e305, rtol=1e-13)


def test_high_derivatives_of_erfcx_keep_their_digits() -> None:
    """The fourth and the fifth one, from mpmath, where 2 x y and 2 / sqrt(pi) cancel."""
    with dx.enable_x64(True):
        fourth = dx.grad(dx.grad(dx.grad(dx.grad(special.erfcx))))
        found = [fourth(8.0), dx.grad(fourth)(8.0)]
    np.testing.assert_allclose(found, [0.0003695459477458332, -0.00022111075942826247], rtol=1e-13)


def test_wofz_of_imaginary_numbers_is_real_where_it_overflows() -> None:
    for dtype, size in ((np.complex64, 12), (np.complex128, 40)):
        with dx.enable_x64(dtype == np.complex128):
            for f in (special.wofz, dx.jit(special.wofz)):
                found = np.asarray(f(np.array([-1j * size, -1e6j, complex(0, -np.inf)], dtype)))
                assert found.dtype == dtype and (found.real == np.inf).all() and (found.imag == 0).all()
            assert dx.jit(special.erfcx)(dtype(-size)).imag == 0


def test_hyp1f1_of_polynomials_that_end_before_a_pole_of_their_terms() -> None:
    """With whole b <= a <= 0 the sum ends, though later terms would divide by 0."""
    a, b = map(
        np.array, zip(*[(-float(i), -float(j)) for i in range(8) for j in range(max(i, 1), 9)], strict=True)
    )
    with dx.enable_x64(True):
        for x in (-0.6, 4.0):
            wanted = np.array(
                [
                    sum(
                        math.prod((p + i) / (q + i) * x / (i + 1) for i in range(k))
                        for k in range(int(-p) + 1)
                    )
                    for p, q in zip(a, b, strict=True)
                ]
            )
            np.testing.assert_allclose(special.hyp1f1(a, b, x), wanted, rtol=1e-13)
            by_x = dx.vmap(dx.grad(special.hyp1f1, 2))(a, b, np.full(a.shape, x))
            step = 1e-5
            wanted = (special.hyp1f1(a, b, x + step) - special.hyp1f1(a, b, x - step)) / (2 * step)
            np.testing.assert_allclose(by_x, wanted, rtol=1e-8, atol=1e-9)


def test_hyp2f1_of_polynomials_whose_c_is_a_pole_of_their_terms() -> None:
    """With whole c < a <= 0 the sum ends; transformations of F do not hold for it."""
    pairs = [(-float(i), -float(j)) for i in range(8) for j in range(i + 1, 10)]
    a, c = map(np.array, zip(*pairs, strict=True))
    for_x = lambda b, x: [
        sum(
            math.prod((p + i) * (b + i) / (q + i) * x / (i + 1) for i in range(k)) for k in range(int(-p) + 1)
        )
        for p, q in pairs
    ]
    with dx.enable_x64(True):
        value, slope = dx.jit(special.hyp2f1), dx.jit(dx.vmap(dx.grad(special.hyp2f1, 3)))
        for b, x in ((0.5, -0.6), (2.0, 0.95), (-20.0, 0.3), (2.0, 4.0)):
            b_, x_ = np.full(a.shape, b), np.full(a.shape, x)
            np.testing.assert_allclose(value(a, b_, c, x_), for_x(b, x), rtol=1e-11)
            np.testing.assert_allclose(value(b_, a, c, x_), for_x(b, x), rtol=1e-11)
            wanted = np.subtract(for_x(b, x + 1e-5), for_x(b, x - 1e-5)) / 2e-5
            np.testing.assert_allclose(slope(a, b_, c, x_), wanted, rtol=1e-6, atol=1e-8)


def test_hyp1f1_where_the_terms_of_its_series_cancel() -> None:
    """Single precision has all digits, as the sum is in double precision; what that cannot tell either is NaN."""
    a, b, x = np.float32(
        [[19.25, -8.125, -36.5, 195.0], [1.5, 65.5, 1.5, 2.375], [-21.5, -90.25, 5.5, -17.25]]
    )
    wanted = [9.63544896307e-8, 989.257064591, -0.0964761076289, math.nan]
    np.testing.assert_allclose(dx.jit(special.hyp1f1)(a, b, x), wanted, rtol=1e-6)


def test_polygamma_between_poles_where_powers_overflow() -> None:
    """psi_30(-1/2) is what is left of two powers that cancel; elsewhere the nearer pole has the sign."""
    found = special.polygamma(np.float32([30, 50, 50, 51]), np.float32([-0.5, -9.31, -9.69, -9.31]))
    np.testing.assert_allclose(found, [-9.2221271e26, np.inf, -np.inf, np.inf], rtol=1e-4)


def test_slopes_that_would_cancel_or_overflow() -> None:
    """Of erfcx far out, of relative entropies of equal shares, of a hypergeometric function that is constant."""

    def slopes(x: Any, p: Any, q: Any) -> Any:
        by_x = dx.grad(lambda x: special.erfcx(x).sum())
        by_p, by_q = [dx.grad(lambda *a: special.kl_div(*a).sum(), i)(p, q) for i in range(2)]
        constant = dx.grad(lambda x: special.hyp1f1(0.0, 1.0, x).sum())(100 * x)
        return by_x(x), dx.grad(lambda x: by_x(x).sum())(x), by_p, by_q, constant

    x, p, q = (
        np.float32([5.0, 50.0, 1e4]),
        np.float32([0.5, 0.3, 2.0]),
        np.float32([0.50001, 0.29999, 2.00001]),
    )
    first, second, by_p, by_q, constant = dx.jit(slopes)(x, p, q)
    wanted = [-0.0213327898, -2.25540563e-4, -5.6418957e-9], [8.08137782e-3, 9.0162171e-6, 1.1283792e-12]
    np.testing.assert_allclose(first, wanted[0], rtol=2e-5)
    np.testing.assert_allclose(second, wanted[1], rtol=2e-3)
    p, q = np.float64(p), np.float64(q)
    np.testing.assert_allclose(by_p, np.log(p / q), rtol=1e-5)
    np.testing.assert_allclose(by_q, 1 - p / q, rtol=1e-5)
    np.testing.assert_array_equal(constant, 0)


def test_slopes_of_beta_by_a_large_argument_beside_a_small_one() -> None:
    """digamma(b) - digamma(a + b) without cancellation, also where one of the sums is below 10."""
    a, b = np.float32([1e-5, 2e-6, 1e-3, 15.0]), np.float32([2.0, 0.3, 50.0, 0.7])
    slope = dx.jit(lambda a, b: dx.grad(lambda b: special.betaln(a, b).sum())(b))(a, b)
    a, b = np.float64(a), np.float64(b)
    wanted = scipy.special.digamma(b) - scipy.special.digamma(a + b)
    np.testing.assert_allclose(slope, wanted, rtol=2e-6)
    poch = dx.jit(lambda z, m: dx.grad(lambda z: special.poch(z, m).sum())(z))(
        np.float32([20.8]), np.float32([-20.2])
    )
    by_z = scipy.special.digamma(0.6) - scipy.special.digamma(20.8)
    np.testing.assert_allclose(poch, scipy.special.poch(20.8, -20.2) * by_z, rtol=1e-5)


def test_slopes_that_vanish_with_a_small_parameter() -> None:
    """Of quotients of gamma functions of negative arguments, and of hyp2f1 turned for x < 0. Numbers from mpmath."""
    with dx.enable_x64(True):
        a, b = np.array([-25.75, -1.75]), np.array([2.0**-25, 2.0**-17])
        slopes = dx.jit(dx.vmap(dx.grad(special.poch)))(a, b)
        np.testing.assert_allclose(slopes, [5.871390221952985e-7, 1.4725358356223267e-4], rtol=1e-12)
        np.testing.assert_allclose(
            dx.vmap(dx.grad(special.betaln))(a, b),
            [-5.8713901998819091e-7, -1.4725619294374835e-4],
            rtol=1e-12,
        )
        wanted = [-1.3805452280838002e-5, -8.6283766463867329e-7, 4.4377450425063673e-12]
        slopes = [dx.grad(special.hyp2f1, i)(2.0**-20, 2.0**-16, 2.5, -3.0) for i in range(3)]
        np.testing.assert_allclose(slopes, wanted, rtol=1e-13)


def test_slopes_of_halves_are_computed_in_float32() -> None:
    """Angles, differences and products on the way have more digits, and a wider range, than halves have."""
    x = dnp.array([1.5, 7.3, 9.1], "bfloat16")

    def slopes(x: Any) -> Any:
        functions = lambda x: special.fresnel(x)[0].sum(), lambda x: special.beta(x, x).sum()
        return [dx.grad(f)(x) for f in functions]

    for half, single in zip(*[dx.jit(slopes)(y) for y in (x, x.astype("float32"))], strict=True):
        assert half.dtype == x.dtype
        np.testing.assert_allclose(np.float32(half), single, rtol=2e-2)


def test_zeta_is_few_kernels():
    # Each takes tens of milliseconds to compile. What XLA moved out of the loop over terms was 13 more.
    x = np.full(1000, 2.5, np.float32)
    program = dx.jit(special.zeta, compiler_options=AS_USERS).lower(x, x).compile()
    assert program.as_text().count(" fusion(") <= 2


def test_functions_of_known_numbers_are_written_without_what_they_do_not_need():
    x = np.float32([-7.75, -2.5, -2, -0.3, -0.0, 0, 1e-30, 0.3, 1, 4.5, 1e5, 1e20, np.inf, np.nan])
    s = np.float32([-2.5, 0.5, 1, 1.5, 2, 4, 17.3, 1e30, np.inf, np.nan])

    def known(x: Any, s: Any) -> Any:
        by_order = [(special.polygamma(n, x), special.zeta(n + 1, x)) for n in (1.0, 2.0, 3.0, 4.0)]
        return (
            by_order,
            special.zeta(2.5, x),
            special.zeta(0.5, x),
            special.zeta(s, 1.0),
            special.zeta(s, 0.3),
        )

    def asked(x: Any, s: Any, numbers: Any) -> Any:
        by_order = [(special.polygamma(n, x), special.zeta(n + 1, x)) for n in numbers[:4]]
        by_exponent = [special.zeta(n, x) for n in numbers[4:6]]
        return by_order, *by_exponent, *[special.zeta(s, n) for n in (numbers[6], numbers[7])]

    numbers = np.float32([1, 2, 3, 4, 2.5, 0.5, 1, 0.3])
    pairs = [dx.tree.leaves(dx.jit(f)(*args)) for f, args in ((known, (x, s)), (asked, (x, s, numbers)))]
    for found, wanted in zip(*pairs, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=3e-7)
    x01 = np.float32([-1, 0, 1e-30, 0.3, 0.6, 0.999, 1, 1.5, np.nan])
    for a, b in ((2.0, 3.0), (0.7, 300.0), (0.3, 2.0), (2.0, 0.0), (600.0, 700.0), (np.inf, 1.0)):
        for f in (special.betainc, special.betaincc):
            of_numbers, general = dx.jit(functools.partial(f, a, b)), dx.jit(f)
            np.testing.assert_allclose(of_numbers(x01), general(np.float32(a), np.float32(b), x01), rtol=5e-7)
        lines = [
            len(text.splitlines())
            for text in (of_numbers.lower(x01).as_text(), general.lower(a, b, x01).as_text())
        ]
        assert (lines[0] < 0.6 * lines[1]) == (0.5 < min(a, b) <= 500)
    # What few elements need is carried with one flag, not with a mask, which is a kernel.
    text = dx.jit(special.betainc).lower(x01, x01, x01).as_text()
    loops = [line for line in text.splitlines() if "while" in line]
    assert len(loops) >= 3
    assert not any("xi1>" in line for line in loops)
    slope = dx.jit(dx.vmap(dx.grad(lambda x: special.polygamma(1, x)))).lower(x).as_text()
    assert "power" not in slope and len(slope.splitlines()) < 200  # one formula, of order 2


ROUNDED: dict[str, Any] = {
    "gamma": ([-4.7, -0.3, 1e-20, 0.1, 1.0, 1.4616, 5.5, 20.25, 34.0],),
    "beta": ([0.1, 3.0, 9.5, 1e-20, -2.7, -2.7, 50.0], [0.2, 9.0, 9.7, 30.0, 5.2, -0.3, 1e7]),
    "betaln": ([0.1, 3.0, 300.0, 1e-20, 1e8], [0.2, 9.0, 400.0, 30.0, 2e9]),
    "poch": ([1.5, 1e7, 0.3, -3.7, -3.7, 30.5], [2.25, 3.5, 20.0, 2.0, 6.0, -28.0]),
    "digamma": ([-20.3, -0.5, 1e-20, 0.3, 1.4616, 3.0, 1e6],),
    "zeta": ([1.01, 2.0, 17.0, 4.0], [0.01, 3.0, 1.5, 1e5]),
    "polygamma": ([1.0, 2.0, 7.0, 40.0], [0.3, 5.0, 1e4, 2.5]),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_gamma_functions_of_float32_are_rounded_once(name: str) -> None:
    """They are computed in float64, with and without `enable_x64`."""
    args = [np.float32(column) for column in ROUNDED[name]]
    wide = [x.astype("float64") for x in args]
    wanted = (
        scipy.special.polygamma(wide[0].astype(int), wide[1])
        if name == "polygamma"
        else getattr(scipy.special, name)(*wide)
    )
    found = np.asarray(dx.jit(getattr(special, name))(*args))
    assert found.dtype == np.float32
    unit = np.spacing(
        np.maximum(np.abs(wanted), 0.5 if name in ("betaln", "digamma") else 0).astype("float32")
    )
    assert (np.abs(found - wanted) <= 0.51 * unit).all(), (found, wanted)


def test_densities_of_float32_are_those_of_float64() -> None:
    k, n, p = np.float32([0, 3, 5e7, 12]), np.float32([5, 3, 1e8, 40]), np.float32([0.3, 0.9, 0.5, 1e-3])
    x, a, b = (
        np.float32([0.3, 1e-20, 0.7, 50.0]),
        np.float32([2, 0.3, 1e6, 50.5]),
        np.float32([3, 9, 4e5, 0.2]),
    )
    share = np.float32([0.3, 1e-20, 0.7143, 0.99])
    cases: dict[str, Any] = {"binom.logpmf": (k, n, p), "poisson.logpmf": (k, np.float32([0.5, 80, 5e7, 12])),
             "gamma.logpdf": (x, a), "beta.logpdf": (share, a, b)}  # fmt: skip
    for name, args in cases.items():
        family, kind = name.split(".")
        with dx.enable_x64():
            wanted = np.asarray(getattr(getattr(stats, family), kind)(*[y.astype("float64") for y in args]))
        found = np.asarray(dx.jit(getattr(getattr(stats, family), kind))(*args))
        unit = np.spacing(np.maximum(np.abs(wanted), 1).astype("float32"))
        assert (np.abs(found - wanted) <= 0.6 * unit).all(), (name, found, wanted)


def test_second_derivatives_of_gamma_functions() -> None:
    x = np.float32([-0.3, 0.2, 1.5, 30.0])
    slopes = dx.jit(lambda x: dx.grad(lambda x: dx.grad(lambda x: special.digamma(x).sum())(x).sum())(x))(x)
    np.testing.assert_allclose(slopes[1:], scipy.special.polygamma(2, np.float64(x[1:])), rtol=3e-7)


def test_zeta_below_one_is_not_a_number_with_its_derivatives() -> None:
    """The sum does not end there."""
    found = [special.zeta(0.5), special.zeta(0.5, 1.0), *dx.grad(special.zeta, (0, 1))(0.5, 1.0)]
    assert np.isnan(found).all()
    np.testing.assert_allclose(dx.grad(special.zeta, 1)(1.0, 1.0), -(np.pi**2) / 6, rtol=1e-6)


@pytest.mark.parametrize("evaluate", [lambda f: f, dx.jit], ids=["eager", "jit"])
def test_float32_shares_of_beta_with_a_small_parameter(evaluate: Any) -> None:
    """Where the share is 1 less a small one, which 1 / a roundings of float32 would cover."""
    a = np.float32([1.2e-5, 0.48, 1.5, 1e-4, 5.0, 3e4])
    b = np.float32([5.5, 4.6e-5, 5.8e-5, 5.0, 1e-4, 2e4])
    x = np.float32([0.04, 0.777, 0.916, 0.5, 0.5, 0.61])
    wide = [y.astype(np.float64) for y in (a, b, x)]
    for function, upper in ((special.betainc, False), (special.betaincc, True)):
        exact = (scipy.special.betaincc if upper else scipy.special.betainc)(*wide)
        np.testing.assert_allclose(evaluate(function)(a, b, x), exact, rtol=3e-7, atol=5e-7)


def test_logarithms_of_one_are_zero() -> None:
    """Where only a power is left, the logarithm is that of the power: it may be 0, or next to it."""
    for zero in (
        special.betaln(1.0, 1.0),
        stats.poisson.logpmf(0, 0.0),
        stats.beta.logpdf(0.3, 1.0, 1.0),
        stats.binom.logpmf(0, 0, 0.3),
    ):
        assert zero == 0
    np.testing.assert_allclose(
        special.betaln(np.float32([1, 3, 1]), np.float32([3, 1, 1e-20])), -np.log([3, 3, 1e-20]), rtol=1e-6
    )
    np.testing.assert_allclose(stats.poisson.logpmf(0, 1e-9), -1e-9, rtol=1e-6)
    np.testing.assert_allclose(stats.binom.logpmf(0, 10, 1e-9), -1e-8, rtol=1e-6)
    np.testing.assert_allclose(stats.binom.logpmf(10, 10, 0.5), 10 * np.log(0.5), rtol=1e-6)


@pytest.mark.parametrize("dtype", first(["complex64", "complex128"]))
def test_faddeeva_keeps_the_digits_of_both_parts(dtype: str) -> None:
    """Also on the axes, where one part is tiny, below them, and far out, where w' = 2i / sqrt(pi) - 2 z w cancels."""
    size = 10 ** RNG.uniform(-6, 4, 80)
    z = np.concatenate([RNG.normal(size=80) + 1j * abs(RNG.normal(size=80)) * size, np.linspace(-9, 9, 40)])
    z = np.concatenate(
        [z * RNG.choice([1, 3], 120), [1e20 + 1e9j, -1e25j + 1e30, 2.5 - 1.5j, -0.5 - 3j]]
    ).astype(dtype)
    wide, eps = z.astype("complex128"), float(np.finfo(dtype).eps)
    wanted = scipy.special.wofz(wide)
    slope, curve = 2j / np.sqrt(np.pi) - 2 * wide * wanted, np.zeros_like(wide)
    far = abs(wide) > 30
    inverse = 1 / wide[far]
    terms = np.array([1, 3 / 2, 15 / 4, 105 / 8, 945 / 16, 10395 / 32])
    slope[far] = -1j / np.sqrt(np.pi) * inverse**2 * np.polyval(terms[::-1], inverse**2)
    curve[far] = 2j / np.sqrt(np.pi) * inverse**3 * np.polyval((terms * np.arange(1, 7))[::-1], inverse**2)
    curve[~far] = -2 * (wanted + wide * slope)[~far]
    with dx.enable_x64(dtype == "complex128"):
        found = np.asarray(dx.jit(special.wofz)(z))
        by_z = dx.grad(special.wofz, holomorphic=True)
        slopes, curves = dx.jit(dx.vmap(lambda z: (by_z(z), dx.grad(by_z, holomorphic=True)(z))))(z)
        ends = special.wofz(np.array([np.inf, complex(0, np.inf), np.nan, -np.inf], dtype))
    tiny = 10 * float(np.finfo(dtype).tiny)
    for part in ("real", "imag"):
        y = getattr(wanted, part)
        known = abs(y) > 1e-3 * eps * abs(wanted) if dtype == "complex128" else np.full(y.shape, True)
        np.testing.assert_allclose(getattr(found, part)[known], y[known], max(3 * eps, 4e-13), tiny)
    np.testing.assert_allclose(slopes, slope.astype(dtype), max(3 * eps, 1e-11), tiny)
    near = abs(wide) < 1e10
    np.testing.assert_allclose(np.asarray(curves)[near], curve[near].astype(dtype), max(3 * eps, 1e-9), tiny)
    assert np.array_equal(np.isnan(ends), [False, False, True, False])
    assert not np.abs(np.asarray(ends)[[0, 1, 3]]).any()


def test_integrals_of_float32_numbers_are_rounded_once() -> None:
    x = np.concatenate(
        [RNG.uniform(-12, 12, 200), RNG.normal(size=60) * 10 ** RNG.uniform(-6, 6, 60), [5, -5, 4, 1]]
    )
    x = x.astype("float32")
    wide = x.astype("float64")
    wanted = {
        "dawsn": (special.dawsn, scipy.special.dawsn(wide)),
        "S": (lambda x: special.fresnel(x)[0], scipy.special.fresnel(wide)[0]),
        "C": (lambda x: special.fresnel(x)[1], scipy.special.fresnel(wide)[1]),
        "Si": (lambda x: special.sici(x)[0], scipy.special.sici(wide)[0]),
        "Ci": (lambda x: special.sici(x)[1], scipy.special.sici(abs(wide))[1]),
        "S'": (dx.vmap(dx.grad(lambda x: special.fresnel(x)[0])), np.sin(np.fmod(wide**2, 4) * (np.pi / 2))),
        "Si'": (dx.vmap(dx.grad(lambda x: special.sici(x)[0])), np.sin(wide) / wide),
    }
    for name, (function, values) in wanted.items():
        np.testing.assert_allclose(dx.jit(function)(x), values, 1.3e-7, 1e-9, err_msg=name)


@pytest.mark.parametrize("dtype", first(["float32", "float64"]))
def test_compiled_slopes_of_boxcox1p_have_what_rounding_loses(dtype: str) -> None:
    """XLA makes x of (1 + x) - 1, so that nothing seems to be lost."""
    x = -(10.0 ** -np.arange(2.0, 12)).astype(dtype)
    wide = np.log1p(x.astype("float64"))
    slope = dx.vmap(dx.grad(special.boxcox1p), (0, None))
    with dx.enable_x64(dtype == "float64"):
        by_x = dx.jit(lambda x: slope(x, 1e4))(x[2:])
        mixed = dx.jit(dx.vmap(dx.grad(dx.grad(special.boxcox1p), 1), (0, None)))(x, 0.5)
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(by_x, np.exp(9999 * wide[2:]), 8 * eps)
    np.testing.assert_allclose(mixed, wide * np.exp(-0.5 * wide), 8 * eps)


def test_values_and_slopes_of_parameters_that_are_tiny_or_whole() -> None:
    """Second derivatives of entropies, betainc of a small parameter, hyp1f1 where it is a polynomial times exp(x)."""
    x = np.float32([1e-30, 1e-3, 1e25])
    curve = dx.vmap(dx.grad(dx.grad(special.entr)))
    np.testing.assert_allclose(dx.jit(curve)(x), -1 / x, 1e-6)
    assert dx.grad(special.entr)(0.0) == np.inf and dx.grad(special.entr)(-1.0) == 0
    a = np.float32([1e-37, 1e-33, 1e-20])
    np.testing.assert_allclose(special.betainc(a, np.float32(0.1), np.float32(0.3)), 1, 2e-7)
    with dx.enable_x64(True):
        found = [
            special.hyp1f1(1.5, -2.5, -100.0),
            special.hyp1f1(5.0, 2.0, -400.0),
            special.hyp1f1(1.5, 1.5, -80.0),
        ]
    np.testing.assert_allclose(found, [-3.888118218788629e-36, -4.955052543421991e-168, np.exp(-80)], 1e-12)
