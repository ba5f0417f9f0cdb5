"""Reductions, running totals and quantiles agree with jax.numpy in value, dtype, shape and weak type."""

import functools
from typing import Any

import jax
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from tests.checks import assert_close
from tests.numpy.oracle import DTYPES, check, compare, sample

REDUCTIONS = (
    "sum",
    "prod",
    "mean",
    "var",
    "std",
    "all",
    "any",
    "nansum",
    "nanmean",
    "nanprod",
    "nanvar",
    "count_nonzero",
)
NAN_REDUCTIONS = ("nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nansum")
EXTREMA = ("max", "min", "argmax", "argmin", "ptp", "nanmax", "nanmin")
REAL = tuple(d for d in DTYPES if d != "complex64")


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_every_dtype(name):
    for dtype in DTYPES:
        compare(lambda np, x: getattr(np, name)(x), sample(dtype, (3, 2)), jit=False, rtol=1e-2)
    for axis in (0, (0, 1), -1):
        compare(lambda np, x: getattr(np, name)(x, axis=axis), sample("float32", (3, 2)), jit=axis == 0)
    compare(lambda np, x: getattr(np, name)(x, axis=1, keepdims=True), sample("float32", (3, 2)), jit=False)


@pytest.mark.parametrize("name", EXTREMA)
def test_extrema_of_every_real_dtype(name):
    for dtype in REAL[1:] if name == "ptp" else REAL:
        compare(lambda np, x: getattr(np, name)(x), sample(dtype, (3, 2)), jit=False)
    compare(lambda np, x: getattr(np, name)(x, axis=1), sample("float32", (3, 2)))
    compare(lambda np, x: getattr(np, name)(x, keepdims=True), sample("float32", (3, 2)), jit=False)


@pytest.mark.parametrize("name", ("sum", "prod", "mean", "var", "cumsum", "argmax", "count_nonzero"))
def test_accumulators_with_x64(x64, name):
    for dtype in ("bool", "int8", "int32", "uint8", "int64", "float32", "float64"):
        x = sample(dtype, (3, 2))
        assert getattr(dnp, name)(x).dtype == jax.eval_shape(getattr(jax.numpy, name), x).dtype


EXPRESSIONS = [
    "np.sum(x, dtype='int32')", "np.sum(x, initial=2)", "np.sum(x, where=x > 0)",
    "np.sum(x, 0, where=x > 0, initial=1.5)", "np.prod(x, where=x > 0)", "np.max(x, where=x > 0, initial=-1)",
    "np.min(x, axis=1, initial=0)", "np.mean(x, where=x > 0)",
    "np.mean(x, axis=1, where=x > 0, keepdims=True)", "np.mean(x, dtype='float16')", "np.mean(x, dtype=int)",
    "np.var(x, ddof=1)", "np.var(x, correction=1)", "np.var(x, where=x > 0)",
    "np.std(x, axis=0, keepdims=True)", "np.cumsum(x)", "np.cumsum(x, 1)", "np.cumprod(x, axis=0)",
    "np.cumsum(x, dtype='int32')", "np.nancumsum(x)", "np.cumulative_sum(x, axis=1, include_initial=True)",
    "np.cumulative_prod(x, axis=0)", "np.average(x)", "np.average(x, axis=0, weights=np.abs(x))",
    "np.average(x, axis=1, weights=np.arange(4))", "np.average(x, weights=x * x, returned=True)",
    "np.median(x)", "np.median(x, axis=0)", "np.median(x, axis=(0, 1), keepdims=True)",
    "np.quantile(x, 0.3, axis=1)", "np.quantile(x, np.array([0.1, 0.5]), axis=0)",
    "np.quantile(x, 0.3, keepdims=True)", "np.percentile(x, 40)",
    *[f"np.quantile(x, 0.4, axis=0, method='{m}')" for m in ("lower", "higher", "nearest", "midpoint")],
    "np.sum(x, axis=())", "np.all(x > -100, axis=0)", "np.any(x > 3, where=x < 5)",
    "np.argmax(x, axis=1, keepdims=True)", "np.sum(np.zeros((0, 2)))", "np.prod(np.zeros((0, 2)), 0)",
    "np.mean(np.zeros((2, 0)), 0)", "np.max(np.zeros((0, 2)), 1)", "np.sum(2.0)", "np.max(3)", "np.mean(1)",
    "np.cumsum(np.array([True, True]))",
]  # fmt: skip


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_arguments(text):
    check(text, sample("float32", (3, 4)), jit=False)


def test_compiled_reductions_are_those_of_jax():
    for text in (
        "np.var(x, 0)",
        "np.cumsum(x, 1)",
        "np.median(x, axis=0)",
        "np.max(x, where=x > 0, initial=-1)",
    ):
        check(text, sample("float32", (3, 4)))


@pytest.mark.parametrize(
    "text",
    [
        *[f"np.{name}(x)" for name in NAN_REDUCTIONS],
        *[f"np.{name}(x, 1)" for name in NAN_REDUCTIONS],
        "np.nanargmax(x)", "np.nanargmin(x, 0)", "np.nanmedian(x)", "np.nanmedian(x, 1)",
        "np.nanquantile(x, 0.3, 1)",
        "np.nancumprod(x)", "np.max(x, 0)", "np.argmax(x, 0)", "np.median(x, 0)", "np.nansum(x, where=y)",
    ],
)  # fmt: skip
def test_reductions_of_nan_are_those_of_jax(text):
    x = sample("float32", (3, 3))
    x[0, 1] = np.nan
    x[2] = np.nan
    check(text, x, np.array([True, False, True]))


def test_quantiles_of_nan_alone_have_derivative_0():
    x = dnp.array([[np.nan, 1.0], [np.nan, 3.0]])
    for axis, want in ((0, [[0, 0.5], [0, 0.5]]), (1, [[0, 1], [0, 1]]), ((), [[0, 1], [0, 1]])):
        assert dx.grad(lambda x, axis=axis: dnp.nanmedian(x, axis).sum())(x).tolist() == want


def test_narrow_floats_are_accumulated_in_float32():
    x = np.full(3000, 1.0, np.float16)
    assert float(dnp.sum(x)) == 3000 and float(dnp.mean(x)) == 1
    assert float(dx.jit(dnp.sum)(dnp.asarray(x))) == 3000


def test_derivatives():
    x = sample("float32", (3, 2))
    for name in ("mean", "var", "std", "prod", "max", "median"):
        ours = dx.grad(lambda v: getattr(dnp, name)(v))(dnp.asarray(x))
        theirs = jax.grad(lambda v: getattr(jax.numpy, name)(v))(x)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_errors_name_the_rule_the_values_and_the_fix():
    with pytest.raises(
        ValueError, match=r"max of nothing is not defined\.\n  a: float32\[0\], axes: \(0,\)\nGive `initial`"
    ):
        dnp.max(dnp.zeros(0))
    with pytest.raises(np.exceptions.AxisError, match=r"axis: 2, array of 1 axes\nUse an axis from -1 to 0"):
        dnp.sum(dnp.zeros(3), axis=2)
    with pytest.raises(ValueError, match="each axis once"):
        dnp.sum(dnp.zeros(3), axis=(0, -1))
    with pytest.raises(TypeError, match=r"axes as integers\.\n  axis: 1.5"):
        dnp.sum(dnp.zeros(3), axis=1.5)
    with pytest.raises(
        TypeError, match=r"sum takes arrays and scalars\.\n  a: \[1, 2\] of type list\nConvert it"
    ):
        dnp.sum([1, 2])
    with pytest.raises(NotImplementedError, match="arrays are immutable"):
        dnp.sum(dnp.zeros(3), out=np.zeros(()))
    with pytest.raises(ValueError, match=r"method: 'cubic'\nUse one of 'linear'"):
        dnp.quantile(dnp.zeros(3), 0.5, method="cubic")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("options", [{}, {"ddof": 3}, {"ddof": 2}, {"fweights": [1, 1], "ddof": 4}])
def test_covariances_of_too_few_observations_are_numpy_s(options):
    """Infinite, or NaN where there are none: a negative variance is none."""
    full, empty = np.array([[1.0, 2.0], [3.0, 5.0]], np.float32), np.zeros((2, 0), np.float32)
    ours = {k: np.array(v) if k == "fweights" else v for k, v in options.items()}
    for x in (full, empty) if "fweights" not in options else (full,):
        np.testing.assert_array_equal(np.asarray(dnp.cov(x, **ours)), np.cov(x, **ours).astype(np.float32))


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_variances_without_degrees_of_freedom_are_nan_with_derivative_0(name):
    x = np.array([1.0, 2.0, 4.0], np.float32)
    ours = getattr(dnp, name)
    for count in range(4):
        mask = np.arange(3) < count
        for ddof in (0, 2, 4):
            f = lambda x: ours(x, ddof=ddof, where=mask)
            expected = getattr(jax.numpy, name)(x, ddof=ddof, where=mask)
            for value in (f(x), dx.jit(f)(x), ours(x[:count], ddof=ddof)):
                np.testing.assert_allclose(value, expected, rtol=1e-6)
            if count <= ddof:
                np.testing.assert_array_equal(dx.grad(f)(x), 0)
                np.testing.assert_array_equal(dx.grad(lambda x: ours(x, ddof=ddof))(x[:count]), 0)


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_elements_that_are_left_out_of_variances_have_derivative_0(name):
    f = lambda x, mask: getattr(dnp, name)(x, where=mask)
    gradient = dx.vmap(dx.grad(f))
    x = np.array([[1.0, 3.0, np.nan], [1.0, 3.0, np.inf], [1.0, 2.0, 3.0], [2.0, 2.0, 2.0]], np.float32)
    mask = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 0], [1, 0, 1]], bool)
    slope = 1.0 if name.endswith("var") else 0.5
    expected = [[-slope, slope, 0], [-slope, slope, 0], [0, 0, 0], [0, 0, 0]]
    np.testing.assert_allclose(gradient(x, mask), expected)
    np.testing.assert_allclose(dx.jit(gradient)(x, mask), expected)


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod", "nansum", "nanprod"])
def test_fractions_are_true_in_totals_of_booleans(name):
    compare(lambda np, x: getattr(np, name)(x, dtype=bool), np.array([0.0, 0.5, 0.25], np.float32))
    compare(lambda np, x: getattr(np, name)(x, dtype=bool), np.array([0.5, -0.5], np.float32))


def test_numbers_of_elements_beyond_32_bits():
    """Their types only: nothing this large is made."""
    x = dx.ShapeDtypeStruct((2**31 + 5,), "int8")
    for f in (dnp.sum, dnp.mean, dnp.var, dnp.std, dnp.average, dnp.median):
        assert dx.eval_shape(f, x).shape == ()
    assert "0x4F000000" in dx.jit(dnp.var).lower(x).as_text()  # 2**31 as a float32


# --- complex numbers ----------------------------------------------------------------------------------------

COMPLEX = np.complex64(
    [[1 + 2j, 1 - 2j, -1 + 5j, 1 + 2j], [2, complex(2, np.nan), complex(np.nan, 1), -np.inf]]
)


@pytest.mark.parametrize("evaluate", [lambda f: f, dx.jit])
@pytest.mark.parametrize("name", ["max", "min", "ptp", "argmax", "argmin", "nanmax", "nanmin", "nanargmax"])
def test_extrema_of_complex_numbers_are_lexicographic(name: str, evaluate: Any) -> None:
    found = np.asarray(evaluate(lambda x: getattr(dnp, name)(x, axis=1))(COMPLEX))
    expected = getattr(np, name)(COMPLEX, axis=1)
    np.testing.assert_array_equal(found, expected)
    assert (found.dtype == np.complex64) == (expected.dtype == np.complex64)


@pytest.mark.parametrize("evaluate", [lambda f: f, dx.jit])
def test_cumulative_extrema_of_complex_numbers_keep_nan(evaluate: Any) -> None:
    found = np.asarray(evaluate(lambda x: lax.cummax(x, 1))(COMPLEX))
    np.testing.assert_array_equal(found, np.maximum.accumulate(COMPLEX, 1))
    window = evaluate(lambda x: lax.reduce_window(x, 0j, lax.min, (1, 2), (1, 2)))(COMPLEX[:1])
    np.testing.assert_array_equal(np.asarray(window), [[0j, -1 + 5j]])


def test_the_smallest_complex_numbers_are_found_among_those_chosen() -> None:
    x = np.complex64([complex(-np.inf, -5), 3, 1])
    assert complex(dnp.max(x[:1])) == complex(-np.inf, -5)
    assert complex(dnp.max(x, initial=0.5, where=np.array([True, False, True]))) == 1


def test_unique_takes_complex_nan_for_one_value() -> None:
    x = np.complex64([complex(np.nan, 1), 3, complex(1, np.nan), 3, complex(np.nan, 2)])
    np.testing.assert_array_equal(np.asarray(dnp.unique(x)), np.unique(x))


# --- weights ------------------------------------------------------------------------------------------------

WEIGHTED = [((7,), None, (7,)), ((3, 4), 0, (3,)), ((3, 4), None, (3, 4)), ((2, 3, 4), (2, 0), (4, 2))]


@pytest.mark.parametrize(("shape", "axis", "weights_shape"), WEIGHTED)
def test_weighted_averages_and_quantiles(shape: Any, axis: Any, weights_shape: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.choice(5, shape).astype(np.float32)
    w = rng.choice(4, weights_shape).astype(np.float32) + 0.5
    q = np.float32([0, 0.23, 0.5, 1])
    for evaluate in (lambda f: f, dx.jit):
        assert_close(evaluate(lambda x, w: dnp.average(x, axis, w))(x, w), jax.numpy.average(x, axis, w))
        for weights in (w, None):
            options: dict[str, Any] = {"axis": axis, "weights": weights, "method": "inverted_cdf"}
            found = evaluate(lambda x, options=options: dnp.quantile(x, q, **options))(x)
            np.testing.assert_array_equal(np.asarray(found), np.quantile(x, q, **options))


def test_weights_of_nan_and_of_nothing() -> None:
    x, q = np.float32([3, 1, np.nan, 2]), np.float32([0, 0.5, 1])
    of = functools.partial(dnp.nanquantile, x, q, method="inverted_cdf")
    np.testing.assert_array_equal(of(weights=np.float32([1, 1, 9, 1])), [1, 2, 3])
    np.testing.assert_array_equal(of(weights=np.float32([1, 0, 9, 1])), [2, 2, 3])
    for bad in ([1, -1, 1, 1], [1, np.nan, 1, 1], [1, np.inf, 1, 1], [0, 0, 5, 0]):
        np.testing.assert_array_equal(of(weights=np.float32(bad)), [np.nan] * 3)
    found = dnp.quantile(x, q, method="inverted_cdf", weights=np.float32([1, 1, 9, 1]))
    np.testing.assert_array_equal(found, [np.nan] * 3)


def test_refused_weights_and_quantiles() -> None:
    x = np.ones((3, 2), np.float32)
    with pytest.raises(
        ValueError, match=r"average takes weights of the shape of a, or of the axes that it is"
    ):
        dnp.average(x, (0, 1), np.ones((2, 3)))
    with pytest.raises(
        NotImplementedError, match=r"quantile takes weights by the method 'inverted_cdf' only"
    ):
        dnp.quantile(x, 0.5, weights=x)
    with pytest.raises(ValueError, match=r"quantile takes real numbers.\n  a: complex64\[3,2\]"):
        dnp.median(x * 1j)


@pytest.mark.parametrize("q", [0.3, 1.0])
def test_both_modes_agree_on_a_quantile_of_nan_by_its_share(q: float) -> None:
    x = np.float32([1, 2, np.nan])
    for f in (lambda q: dnp.quantile(x, q), lambda q: dnp.nanquantile(x, q)):
        reverse, forward = dx.grad(f)(q), dx.jvp(f, (q,), (1.0,))[1]
        np.testing.assert_array_equal(np.asarray(reverse), np.asarray(forward))


@pytest.mark.parametrize("name, gathered", [("quantile", "2"), ("nanquantile", "5,2")])
def test_quantiles_read_their_neighbours_at_once(name: str, gathered: str) -> None:
    """At places that are those of all rows where none ignores NaN; repeated shares add to one element's derivative."""
    x, q = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32), np.array([0.3, 0.3], "f")
    f = lambda x: getattr(dnp, name)(x, q, axis=0)
    jaxpr = dx.make_jaxpr(f)(x).jaxpr
    gathers = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "gather"]
    assert len(gathers) == 1 and max(v.aval.size for eqn in jaxpr.eqns for v in eqn.outvars) <= x.size
    assert str(gathers[0].invars[1].aval) == f"int32[{gathered.replace('2', '4')},1]"
    slope = dx.grad(lambda x: f(x).sum())(x)
    np.testing.assert_allclose(np.sort(slope, 0)[-2:], [[0.2] * 5, [1.8] * 5], rtol=1e-5)
