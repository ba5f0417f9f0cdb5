"""Dtypes of a byte or less, at all of their values: eagerly, compiled, and as constants of a program."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax, nn
from didax.core import dtypes
from didax.scipy import special

FLOATS = [d.name for d in dtypes.ALL_DTYPES if dtypes.is_float(d) and d.itemsize == 1]
# The least number of float8_e8m0fnu is denormal as a float32, which the cheap settings of tests flush to zero.
FLOATS_TO_TEST = [
    pytest.param(name, marks=[pytest.mark.as_users] if name == "float8_e8m0fnu" else []) for name in FLOATS
]
INTEGERS = ["int2", "uint2", "int4", "uint4"]


def every(name: str) -> np.ndarray[Any, Any]:
    """All values of a dtype."""
    dtype = dtypes.dtype(name)
    if name in INTEGERS:
        return np.arange(dtypes.iinfo(dtype).min, dtypes.iinfo(dtype).max + 1).astype(dtype)
    return np.arange(16 if name.startswith("float4") else 256, dtype=np.uint8).view(dtype)


def pairs(name: str) -> list[np.ndarray[Any, Any]]:
    """Vectors of which the elements are a sample of all pairs of values."""
    x = every(name)
    return [np.tile(x, 16), np.repeat(x, 16)] if len(x) < 256 else [x, np.roll(x[::-1], 77)]


def assert_bits(got: Any, want: Any) -> None:
    """Equal to the sign of zero; NaN are equal."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(got, want)
    both = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[both]), np.signbit(want[both]))


def reference(function: Callable[..., Any], *xs: np.ndarray[Any, Any]) -> Any:
    """Computed in float64 or int32, and rounded."""
    dtype = xs[0].dtype
    wide = np.float64 if dtypes.is_float(dtype) else np.int32
    out = function(*[x.astype(wide) for x in xs])
    return out if out.dtype == bool else out.astype(dtype)


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "max": lambda x, y: np.where((x == 0) & (y == 0), x + y, np.maximum(x, y)),
    "min": lambda x, y: np.where((x == 0) & (y == 0), -(-x - y), np.minimum(x, y)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [*FLOATS_TO_TEST, *INTEGERS])
@np.errstate(all="ignore")
def test_exact_operations_are_exact(dtype: str) -> None:
    functions = {name: getattr(lax, name) for name in BINARY}
    xs = pairs(dtype)
    compiled = dx.jit(lambda *xs: {name: f(*xs) for name, f in functions.items()})(*xs)
    for name, function in functions.items():
        if dtype == "float4_e2m1fn" and name in ("add", "sub", "mul"):
            continue  # it is symmetric, and has signs of zero that no wider sum has
        want = reference(BINARY[name], *xs)
        assert_bits(compiled[name], want)
        assert_bits(function(*xs), want)


@pytest.mark.parametrize("dtype", FLOATS_TO_TEST)
@np.errstate(all="ignore")
def test_functions_of_narrow_floats_are_rounded_once(dtype: str) -> None:
    """XLA alone computes some in 16 bits, and knows no erfc of theirs."""
    x = every(dtype)
    names = {"sqrt": np.sqrt, "asinh": np.arcsinh, "atanh": np.arctanh, "asin": np.arcsin, "floor": np.floor}
    compiled = dx.jit(lambda x: {name: getattr(lax, name)(x) for name in [*names, "erfc"]})(x)
    for name, function in names.items():
        want = reference(function, x).astype(np.float64)
        got = np.asarray(compiled[name]).astype(np.float64)
        off = ~((got == want) | np.isnan(want) & np.isnan(got))
        if dtype == "float4_e2m1fn":
            off &= ~np.isnan(function(x.astype(np.float64)))  # it has no NaN
        assert off.mean() < 0.02, f"{name}: {x[off]}"  # a last bit that float32 rounds the other way
    assert_bits(compiled["erfc"], lax.erfc(x))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@np.errstate(all="ignore")
def test_functions_of_halves_are_rounded_once(dtype: str) -> None:
    """XLA alone rounds each of their steps; eagerly there is one rounding."""
    x = np.arange(0, 65536, 7, dtype=np.uint16).view(dtypes.dtype(dtype))
    x = x[~(np.abs(x.astype(np.float64)) < float(dtypes.finfo(x.dtype).smallest_normal))]
    names = ["expm1", "logistic", "asin", "acos", "asinh", "acosh", "atanh"]
    compiled = dx.jit(lambda x: {name: getattr(lax, name)(x) for name in names})(x)
    for name in names:
        want = np.asarray(getattr(lax, name)(x)).astype(np.float64)
        got = np.asarray(compiled[name]).astype(np.float64)
        off = ~((got == want) | np.isnan(want) & np.isnan(got))
        off &= abs(want) > 4 * float(dtypes.finfo(x.dtype).smallest_normal)  # denormal steps may be flushed
        assert off.mean() < 0.001, f"{name}: {x[off]}"  # a last bit that float32 rounds the other way


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float4_e2m1fn"])
def test_clip_and_relu_keep_small_and_large_numbers(dtype: str) -> None:
    x = every(dtype)
    x = x[np.isfinite(x.astype(np.float32))]
    assert_bits(dx.jit(lambda x: dnp.clip(x, x, x))(x), dx.jit(lambda x: lax.max(x, x))(x))
    assert_bits(dx.jit(dx.nn.relu)(x), reference(lambda x: np.where(x > 0, x, 0.0), x))


@pytest.mark.parametrize("source", [*FLOATS_TO_TEST, *INTEGERS])
def test_integers_from_narrow_dtypes_are_exact_or_saturate(source: str) -> None:
    x = every(source)
    compiled = dx.jit(lambda x: {name: x.astype(name) for name in ("int4", "uint8", "int32")})(dnp.asarray(x))
    for name, got in compiled.items():
        assert_bits(got, dnp.asarray(x).astype(name))
        info = ml_dtypes.iinfo(name)
        wide = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e10, neginf=-1e10)
        if source in FLOATS:
            assert_bits(
                np.asarray(got).astype(np.int64), np.trunc(np.clip(wide, info.min, info.max)).astype(np.int64)
            )


@pytest.mark.parametrize("dtype", [*INTEGERS, "float4_e2m1fn", "float8_e8m0fnu", "float8_e4m3fn"])
def test_constants_are_computed_as_arrays_are(dtype: str) -> None:
    """XLA folds constants of its narrowest dtypes wrongly."""
    xs = every(dtype)[:: 1 if dtype in INTEGERS else -23]
    xs = [(x, y) for x in xs[:12] for y in xs[:12]][::5]
    names = ["max", "min", "lt", "ge"]
    if dtype != "float8_e8m0fnu":  # whose differences and quotients are NaN
        names += ["sub", "div", "rem", "mul", "nextafter" if dtype in FLOATS else "shift_left"]
    functions = [getattr(lax, name) for name in names] + [
        lambda x, y: lax.clamp(x, y, x),
        lambda x, y: lax.neg(x),
    ]
    functions = functions[:-1] if dtype.startswith(("u", "float8_e8")) else functions  # neg
    got = dx.jit(lambda: [[f(x, y) for x, y in xs] for f in functions])()
    wide = [np.array(column) for column in zip(*xs, strict=True)]
    for f, scalars in zip(functions, got, strict=True):
        assert_bits(np.array([np.asarray(x) for x in scalars]), f(*wide))


@pytest.mark.parametrize("dtype", FLOATS_TO_TEST)
def test_sorting_puts_nan_last(dtype: str) -> None:
    x = np.random.default_rng(0).permutation(every(dtype))
    want = np.sort(x.astype(np.float32)).astype(dtype)
    by_two_keys = lambda x: lax.sort((x, x), num_keys=2)[0]
    for sort in (dnp.sort, dx.jit(dnp.sort), dx.jit(by_two_keys)):
        np.testing.assert_array_equal(np.asarray(sort(x)).astype(np.float32), want.astype(np.float32))


@pytest.mark.as_users
def test_the_smallest_float8_e8m0fnu_is_no_zero() -> None:
    x = dnp.array([2.0**-127, 4.0, 2.0**-100], "float8_e8m0fnu")
    for run in (lambda f: f, dx.jit):
        assert float(run(dnp.min)(x)) == 2.0**-127
        assert float(run(lambda x: x[0] * x[1])(x)) == 2.0**-125
        np.testing.assert_array_equal(run(dnp.sort)(x).astype("float64"), [2.0**-127, 2.0**-100, 4])


@pytest.mark.parametrize("dtype", [*INTEGERS, "float8_e4m3fn", "float8_e8m0fnu"])
@pytest.mark.parametrize("compiled", [False, True])
def test_extrema_over_nothing_are_the_initial_value(dtype: str, compiled: bool) -> None:
    for f in (dnp.max, dnp.min):
        run = lambda x: f(x, axis=1, initial=1)
        got = (dx.jit(run) if compiled else run)(dnp.zeros((2, 0), dtype))
        assert_bits(got, np.ones(2).astype(dtype))


def test_mulhi_of_integers_narrower_than_a_byte() -> None:
    for name in INTEGERS:
        x, y = pairs(name)
        bits = ml_dtypes.iinfo(name).bits
        want = (x.astype(np.int32) * y.astype(np.int32)) >> bits
        assert_bits(dx.jit(lambda x, y: lax.mulhi(x, y))(x, y), want.astype(name))


@pytest.mark.as_users
def test_the_smallest_float8_e8m0fnu_of_several() -> None:
    values, places = lax.approx_min_k(dnp.array([1.0, 4.0, 2.0], "float8_e8m0fnu"), 2)
    assert values.tolist() == [1, 2] and places.tolist() == [0, 2]


def test_functions_of_floats_narrower_than_a_byte() -> None:
    x = every("float4_e2m1fn")
    fraction, whole = dx.jit(dnp.modf)(x)
    wanted = np.modf(x.astype(np.float64))
    assert_bits(fraction, wanted[0].astype(x.dtype))
    assert_bits(whole, wanted[1].astype(x.dtype))
    np.testing.assert_array_equal(dnp.signbit(x), np.signbit(x.astype(np.float64)))


def test_derivatives_of_float16_survive_what_overflows_on_their_way() -> None:
    x = dnp.asarray([-300, 0.5, 300], "float16")
    for function in (dnp.arcsinh, dnp.arctan, dnp.arctanh, nn.gelu):
        slope = dx.vmap(dx.grad(function))
        assert slope(x).dtype == x.dtype
        assert slope(x).tolist() == slope(x.astype("float32")).astype("float16").tolist()
    assert np.isfinite(dx.grad(special.comb)(dnp.asarray(40.5, "float16"), dnp.asarray(3, "float16")))


@pytest.mark.parametrize("dtype", ["float4_e2m1fn", "float8_e4m3fn", "float8_e8m0fnu", "float8_e5m2"])
def test_only_infinities_are_infinite(dtype: str) -> None:
    x = every(dtype)
    for name in ("isinf", "isposinf", "isneginf"):
        found, wanted = getattr(dnp, name)(x), getattr(np, name)(x.astype(np.float32))
        np.testing.assert_array_equal(found, wanted, name)


def test_functions_that_compute_in_single_precision() -> None:
    x = dx.ShapeDtypeStruct((3,), "float8_e5m2")
    assert dx.eval_shape(lambda x: dx.scipy.special.bessel_jn(x, v=1), x).dtype == "float8_e5m2"
    assert dx.eval_shape(dx.scipy.fft.dct, x).dtype == "float32"


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_functions_of_bytes_survive_what_overflows_on_their_way(dtype: str) -> None:
    x = dnp.array([-448.0, -60.0, -7.0, -0.0, 1.0, 30.0, 448.0], dtype)
    wide, turned = x.astype("float32"), x[::-1]

    def values(x: Any, y: Any) -> Any:
        special = dx.scipy.special
        pairs = dnp.logaddexp(x, y), dnp.logaddexp2(x, y), special.boxcox1p(dnp.abs(x), 0.5)
        lines = nn.softmax(x), nn.log_softmax(x / 4), nn.logsumexp(x), nn.logmeanexp(x), nn.standardize(x)
        return *pairs, *lines, nn.gelu(x), nn.squareplus(x), dnp.sinc(x / 4), dnp.std(x), dnp.nanstd(x)

    expected = [np.asarray(y.astype(dtype)) for y in values(wide, wide[::-1])]
    assert all(np.isfinite(y.astype("float32")).all() for y in expected)
    for f in (values, dx.jit(values)):
        for y, e in zip(f(x, turned), expected, strict=True):
            assert y.dtype == dtype
            np.testing.assert_allclose(np.asarray(y, "float32"), e.astype("float32"), rtol=0.13, atol=2e-3)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float16"])
def test_differences_products_and_counts_of_narrow_floats_are_rounded_once(dtype: str) -> None:
    most = float(dtypes.finfo(dtype).max)
    x = (np.array([0.9, -0.5, 0.25, -0.8, 0.1, 0.6]) * most).astype(dtype)
    y = (np.array([0.5, 0.3, -0.5, 0.2, -0.9, 0.1]) * most**0.5).astype(dtype)
    count = int(min(most / 2, 3000))

    def values(x: Any, y: Any) -> Any:
        far = [dnp.gradient(x), dnp.unwrap(x), dnp.average(x, weights=dnp.abs(x)), dnp.corrcoef(x, x[::-1])]
        far += [
            dnp.interp(x / 2, dnp.sort(x), x),
            dnp.pad(x, 2, mode="reflect", reflect_type="odd"),
            dnp.sinc(x),
        ]
        far += [
            dnp.std(x),
            dnp.nanstd(x),
            nn.standardize(x),
            nn.squareplus(x),
            nn.celu(x, 0.3),
            nn.leaky_relu(x),
        ]
        near = [
            dnp.cov(y, y[::-1]),
            dnp.poly(y[:2]),
            dnp.polydiv(y, y[:2]),
            dnp.polyder(dnp.ones(19, y.dtype)),
        ]
        near += [dnp.cross(y[:3], y[3:]), dnp.trapezoid(y, y[::-1]), dnp.floor_divide(y, y[::-1])]
        near += [dnp.logspace(y[0] * 0, y[1] * 0 + 2, 4), dnp.polyval(y[:3] / 4, y / 4)]
        near += [nn.logsumexp(y, b=y[::-1] ** 2), dnp.histogram(dnp.zeros(count, y.dtype), 3, (-1, 1))[0]]
        return far, near

    expected = [
        np.asarray(z.astype(dtype), "float64")
        for z in dx.tree.leaves(values(x.astype("float32"), y.astype("float32")))
    ]
    for f in (values, dx.jit(values))[: 1 if dtype == "float16" else 2]:
        for z, e in zip(dx.tree.leaves(f(x, y)), expected, strict=True):
            assert z.dtype == dtype
            np.testing.assert_allclose(
                np.asarray(z, "float64"), e, rtol=3 * float(dtypes.finfo(dtype).eps), atol=2e-3
            )


def test_wider_floats_and_stated_dtypes_are_not_rounded_to_narrow_ones() -> None:
    x = dnp.array([1.0, 2.5, 7.0], "float8_e5m2")
    for f in (dnp.std, dnp.var, dnp.nanstd, dnp.cov, dnp.mean):
        assert f(x, dtype="float32") == f(x.astype("float32")) and f(x, dtype="float16").dtype == "float16"
    assert nn.standardize(dnp.ones(3, "float16"), mean=dnp.ones(1, "bfloat16")).dtype == "float32"
    assert [z.dtype for z in dnp.frexp(x)] == [x.dtype, "int32"]


def test_float8_e8m0fnu_has_no_sign_and_no_zero() -> None:
    x, y = dnp.array([0.5, 1.0, 64.0], "float8_e8m0fnu"), dnp.array([0.125, 4.0, 2.0**-100], "float8_e8m0fnu")
    assert not dnp.signbit(x).any() and not dnp.isclose(x, y).any()
    assert dnp.copysign(x, y).tolist() == x.tolist()
    assert dnp.floor_divide(x, y)[::2].tolist() == [4, 2.0**106]
    assert float(dnp.remainder(x, y)[1]) == 1
    assert [z.tolist() for z in dnp.frexp(x)] == [[0.5] * 3, [0, 1, 7]]


def test_spacing_where_there_is_no_infinity() -> None:
    found = dnp.spacing(dnp.array([1.0, -2.5, 0.0, 448.0], "float8_e4m3fn")).astype("float32")
    np.testing.assert_array_equal(found, [2.0**-3, -(2.0**-2), 2.0**-9, np.nan])


def test_truncated_normals_of_a_dtype_without_infinity_are_numbers() -> None:
    x = dx.random.truncated_normal(dx.random.key(0), -2.0, 2.0, (300,), "float8_e4m3fn").astype("float32")
    assert float(abs(x).max()) < 2 and float(x.std()) > 0.5
