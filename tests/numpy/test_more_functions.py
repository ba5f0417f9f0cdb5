"""Polynomials, sets, signals, statistics and functions of functions: values, dtypes and shapes of jax.numpy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import export, nn, scipy
from didax.core.errors import TracerIntegerConversionError
from tests.numpy.oracle import assert_same, check, compare, sample

X, Y = sample("float32", (6,)), sample("float32", (4,), seed=1)
POINTS = np.array([[0.0, 1.0], [0.5, 0.2], [2.0, 1.5], [0.1, 0.3]], np.float32)
INTS = np.array([3, 1, 2, 3, 1], np.int32)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize("dtype", ["int32", "float32", "complex64"])
def test_convolution(name: str, mode: str, dtype: str) -> None:
    for m, n in ((6, 4), (4, 6), (6, 3), (3, 6), (1, 1)):
        x, y = sample(dtype, (m,)), sample(dtype, (n,), seed=1)
        check(f"np.{name}(x, y, mode={mode!r})", x, y, rtol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "np.gradient(x)", "np.gradient(x, 0.5)", "np.gradient(x, np.cumsum(abs(x) + 1))", "np.ediff1d(x)",
        "np.ediff1d(x, 1.0, x[:2])", "np.unwrap(x * 3)", "np.unwrap(x, period=2)",
        "np.unwrap(x, discont=4.0)", "np.unwrap((x * 5).astype('int8'), period=4)",
        "np.unwrap((x * 5).astype('int32'), period=5)", "np.polydiv(x[:1] * np.inf, x)",
        "np.cov(x)", "np.cov(x, ddof=0)", "np.cov(x, bias=True)", "np.corrcoef(x)", "np.cov(x, x * x)",
        "np.corrcoef(x, x * x)", "np.cov(x, fweights=np.arange(6))", "np.cov(x, aweights=np.arange(6.0))",
        "np.cov(x, fweights=np.arange(6), aweights=np.arange(6.0), ddof=0)",
        "np.cov(x, fweights=np.arange(6), aweights=np.arange(6.0))",
        "np.histogram(x)", "np.histogram(x, 4, (-1, 2))", "np.histogram(x, np.array([-3.0, 0.0, 0.5, 3.0]))",
        "np.histogram(x, 4, weights=x * x)", "np.histogram(x, 3, density=True)",
        "np.histogram_bin_edges(x, 5)",
        "np.histogram(x * 0, 2)", "np.polyval(x, 0.5)", "np.polyval(x, x)", "np.polyder(x)",
        "np.polyder(x, 2)", "np.polyder(x, 0)",
        "np.polyint(x)", "np.polyint(x, 2, np.array([1.0, 2.0]))", "np.polyint(x, 2, 3.0)",
        "np.polyadd(x, x[:3])", "np.polysub(x[:2], x)",
        "np.polymul(x, x[:3])", "np.polydiv(x, x[1:3])", "np.polydiv(x[:2], x)", "np.poly(x)",
        "np.piecewise(x, [x < 0, x > 1], [lambda v: -v, 10.0])",
        "np.piecewise(x, [x < 0], [1.0, lambda v, k: v * k], 3)",
        "np.apply_along_axis(np.sum, 0, x)", "np.vectorize(lambda v, w: v + w)(x, 1.0)",
        "np.vectorize(lambda v: (v.sum(), v), signature='(n)->(),(n)')(x)",
    ],
)  # fmt: skip
def test_functions_of_a_vector(text: str) -> None:
    check(text, X, rtol=2e-4, weak=False)


def test_densities_have_the_dtype_of_the_sample() -> None:
    x, half = X.reshape(3, 2), X.astype("float16")
    assert dnp.histogramdd(x.astype("float16"), 2, density=True)[0].dtype == np.float16
    assert dnp.histogram(X.astype("int32"), np.array([0, 2], "bfloat16"))[0].dtype == np.float32
    assert dnp.histogram2d(half, X, 2, density=True)[0].dtype == np.float32
    with dx.enable_x64(True):
        assert dnp.histogramdd(x, 2, density=True)[0].dtype == np.float32


@pytest.mark.parametrize(
    "text",
    [
        "np.gradient(x)", "np.gradient(x, 2.0, 3.0)", "np.gradient(x, axis=1)", "np.unwrap(x, axis=0)",
        "np.cov(x)", "np.cov(x, rowvar=False)",
        "np.corrcoef(x)", "np.histogramdd(x, 3)", "np.histogramdd(x, [2, 3], [(0, 1), None])",
        "np.histogramdd(x, 2, density=True)",
        "np.histogram2d(x[:, 0], x[:, 1], 3)",
        "np.histogram2d(x[:, 0], x[:, 1], [2, np.array([0.0, 1.0, 2.0])])",
        "np.histogramdd(x, 3, weights=x[:, 0])", "np.apply_along_axis(np.cumsum, 0, x)",
        "np.apply_along_axis(lambda v: v[:1], 1, x)",
        "np.apply_along_axis(np.diag, 1, x)", "np.apply_over_axes(np.sum, x, [0, 1])",
        "np.apply_over_axes(np.cumsum, x, (0,))",
        "np.vectorize(np.dot, signature='(n),(n)->()')(x, x[:1])",
        "np.vectorize(np.dot, signature='(m,n),(n)->(m)')(x, x)",
        "np.vectorize(lambda v, w: v * w, excluded={1})(x, 2)",
    ],
)  # fmt: skip
def test_functions_of_a_matrix(text: str) -> None:
    check(text, POINTS, rtol=2e-4, weak=False)


@pytest.mark.parametrize(
    "text",
    [
        "np.union1d(x, y)", "np.setdiff1d(x, y)", "np.setxor1d(x, y)", "np.intersect1d(x, y)",
        "np.setdiff1d(x, y, assume_unique=True)",
        "np.intersect1d(x, y, return_indices=True)",
    ],
)  # fmt: skip
def test_sets(text: str) -> None:
    for x, y in (
        (INTS, INTS[:2]),
        (INTS, np.array([7, 2], np.int32)),
        (INTS, INTS[:0]),
        (X, Y),
        (INTS[:0], INTS),
    ):
        check(text, x, y, jit=False, weak=False)


@pytest.mark.parametrize(("size", "fill_value"), [(1, None), (4, None), (4, 9)])
@pytest.mark.parametrize("name", ["union1d", "setdiff1d", "setxor1d", "intersect1d"])
def test_sets_of_a_fixed_size(name: str, size: int, fill_value: int | None) -> None:
    y = np.array([1, 7, 2], np.int32)
    check(f"np.{name}(x, y, size={size}, fill_value={fill_value})", INTS, y, weak=False)


@pytest.mark.parametrize("name", ["union1d", "setdiff1d", "setxor1d", "intersect1d"])
def test_sets_of_weak_vectors_are_weak_with_a_size_too(name: str) -> None:
    f, x, y = getattr(dnp, name), dnp.stack([1.5, 2.5]), dnp.stack([2.5])
    assert f(x, y).weak_type and f(x, y, size=2).weak_type and f(x, y, size=4, fill_value=7).weak_type


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize(
    "options", ["", ", size=5, fill_value=-7", ", assume_unique=True, size=5, fill_value=-7"]
)
@pytest.mark.parametrize("name", ["setdiff1d", "setxor1d", "intersect1d"])
def test_sets_with_nan(name: str, options: str, dtype: str) -> None:
    """All NaNs of a vector are one value, and none is equal to a NaN of the other vector."""
    x, few = np.array([np.nan, 1, np.nan, 2], dtype), np.array([np.nan, 1], dtype)
    if "assume_unique" in options:
        x = x[1:]
    for a, b in ((x, few), (few, x), (x, few[:1]), (x[:1], x), (x[:0], few), (x, few[:0])):
        check(f"np.{name}(x, y{options})", a, b, jit="size" in options, weak=False)


def test_polynomial_roots_and_fits() -> None:
    for p in ([1.0, -6.0, 11.0, -6.0], [2.0, 4.0], [0.0, 1.0, 0.0, 0.0], [3.0]):
        theirs = jnp.roots(jnp.asarray(p))
        ours = dnp.roots(dnp.asarray(p))
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(
            np.sort_complex(np.asarray(ours)), np.sort_complex(np.asarray(theirs)), atol=1e-4
        )
    compiled = dx.jit(lambda p: dnp.roots(p, strip_zeros=False))
    for p in ([1, -3, 2, 0], [0, 1, -3, 2], [0, 0, 1, 3], [0, 0, 0, 0]):
        ours, theirs = compiled(np.float32(p)), jnp.roots(jnp.asarray(p, "float32"), strip_zeros=False)
        np.testing.assert_allclose(np.sort_complex(ours), np.sort_complex(theirs), atol=1e-5)
        assert np.isnan(ours).tolist() == np.isnan(theirs).tolist()
    x = np.linspace(-1, 1, 9).astype(np.float32)
    y = 3 * x**2 - x + 0.5
    for options in ({}, {"w": np.arange(1, 10).astype(np.float32)}, {"cov": True}, {"cov": "unscaled"}):
        compare(lambda np, x, y: np.polyfit(x, y, 2, **options), x, y + np.sin(9 * x), rtol=1e-3, jit=False)
    ours, theirs = [np.polyfit(x, y, 2, full=True) for np in (dnp, jnp)]
    np.testing.assert_allclose(np.asarray(ours[0]), [3, -1, 0.5], atol=1e-4)
    assert_same(ours[2:4], theirs[2:4], rtol=1e-3, weak=False)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
def test_windows(name: str) -> None:
    for m in (0, 1, 2, 7):
        assert_same(getattr(dnp, name)(m), getattr(jnp, name)(m), rtol=1e-6)


@pytest.mark.parametrize("trim", ["fb", "f", "b"])
def test_trim_zeros(trim: str) -> None:
    for x in ([0, 0, 1, 0, 2, 0], [0, 0], [1, 2], []):
        ours = dnp.trim_zeros(dnp.asarray(x, dtype="float32"), trim)
        np.testing.assert_array_equal(np.asarray(ours), np.trim_zeros(np.asarray(x, "float32"), trim))


@pytest.mark.parametrize("bitorder", ["big", "little"])
def test_bits(bitorder: str) -> None:
    bits = np.array([[1, 0, 1, 0, 0, 0, 0, 0, 7], [0, 0, 1, 1, 1, 0, 0, 1, 0]], np.uint8)
    for axis in (None, 0, 1):
        check(f"np.packbits(x, {axis}, {bitorder!r})", bits)
        for count in (None, 3, 20, -2):
            check(f"np.unpackbits(x, {axis}, {count}, {bitorder!r})", bits)


def test_block() -> None:
    x, y = np.ones((2, 2), np.float32), np.arange(2, dtype=np.float32)
    for text in (
        "np.block([[x, x * 2], [y, y]])",
        "np.block([y, 1.0])",
        "np.block(x)",
        "np.block([[y], [y]])",
    ):
        check(text, x, y)
    with pytest.raises(ValueError, match="nested equally deep"):
        dnp.block([y, [y]])


def test_spacing() -> None:
    x = np.array([1.0, -1.0, 3e20, 0.1, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(np.asarray(dnp.spacing(dnp.asarray(x))), np.spacing(x))


def test_derivatives_pass_through_mapped_functions() -> None:
    rows = dnp.asarray(POINTS)
    total = lambda f: dx.grad(lambda x: f(x).sum())(rows)
    assert_same(total(lambda x: dnp.apply_along_axis(lambda v: v * v, 1, x)), jnp.asarray(2 * POINTS))
    assert_same(total(dnp.vectorize(lambda v: v @ v, signature="(n)->()")), jnp.asarray(2 * POINTS))
    assert_same(total(lambda x: dnp.convolve(x[:, 0], x[:2, 1])[0]), dx_gradient_of_first_product())


def dx_gradient_of_first_product() -> Any:
    expected = np.zeros_like(POINTS)
    expected[0] = POINTS[0][::-1]
    return jnp.asarray(expected)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: dnp.convolve(dnp.ones(0), dnp.ones(2)), r"two vectors that are not empty\.\n.*float32\[0\]"),
        (lambda: dnp.convolve(dnp.ones(2), dnp.ones(2), "some"), r"no such mode\.\n.*'some'\n.*'full'"),
        (lambda: dnp.gradient(dnp.ones(1)), r"A slope needs two samples"),
        (lambda: dnp.histogram(dnp.ones(2), weights=dnp.ones(3)), r"a weight per element"),
        (lambda: dnp.histogram(dnp.ones(2), "auto"), r"not chosen by a rule"),
        (lambda: dnp.cov(dnp.ones(2), fweights=dnp.ones(3)), r"weight per observation\.\n.*float32\[3\]"),
        (
            lambda: dnp.cov(dnp.ones(2), fweights=dnp.ones(2)),
            r"numbers of repetitions.*\n  fweights: float32\[2\]",
        ),
        (
            lambda: dnp.cov(dnp.ones(2), aweights=dnp.ones(2) * 1j),
            r"real weights.*\n  aweights: complex64\[2\]",
        ),
        (lambda: dnp.cov(dnp.ones((2, 2, 2))), r"vectors and matrices"),
        (lambda: dnp.polyval and dnp.polymul(dnp.ones((2, 2)), 1), r"vectors of coefficients"),
        (lambda: dnp.polyder(dnp.ones(2), -1), r"at least 0 times"),
        (lambda: dnp.vectorize(dnp.sum, signature="(n")(dnp.ones(2)), r"signature of NumPy's form"),
        (lambda: dnp.vectorize(dnp.dot, signature="(n),(n)->()")(dnp.ones(2), dnp.ones(3)), r"one length"),
        (
            lambda: dnp.vectorize(lambda x: x[None], signature="()->()")(dnp.ones(2)),
            r"core axes of its signature",
        ),
        (lambda: dnp.piecewise(dnp.ones(2), [True], []), r"a function for each condition"),
    ],
)
def test_errors_name_the_rule_and_the_operands(call: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=text):
        call()


def test_what_tracing_cannot_know() -> None:
    with pytest.raises(ValueError, match="strip_zeros=False"):
        dx.jit(dnp.roots)(dnp.ones(3))
    with pytest.raises(dx.core.errors.ConcretizationTypeError, match="size="):
        dx.jit(dnp.union1d)(dnp.ones(3), dnp.ones(2))


# --- keyword arguments that NumPy lacks, and others ---------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float32", "bfloat16"])
def test_frexp_and_sort_complex(dtype: str) -> None:
    check("np.frexp(x)", sample(dtype, (5,)), weak=False)
    check("np.sort_complex(x)", sample(dtype, (3, 4)), weak=False)


def test_sort_complex_keeps_the_precision_of_single() -> None:
    with dx.enable_x64():
        for dtype, wanted in (("int32", "complex64"), ("int64", "complex128"), ("float16", "complex64")):
            assert dnp.sort_complex(dnp.zeros(2, dtype)).dtype == wanted
    assert dnp.sort_complex(dnp.zeros(2, "float8_e5m2")).dtype == "complex64"


def test_keys_without_axes_have_one_order() -> None:
    assert int(dnp.lexsort(dnp.array([2, 1]))) == np.lexsort(np.array([2, 1])) == 0


def test_conditions_and_choices_in_arrays() -> None:
    conditions, choices = np.array([[True, False], [True, True]]), np.int32([[1, 2], [3, 4]])
    assert dx.jit(dnp.select)(conditions, choices).tolist() == [1, 4]


def test_functions_of_several_polynomials_and_of_each_point() -> None:
    """Polynomials lie along the first axis; scalar conditions choose for all elements; a grid is mapped over."""
    a, b, x = np.arange(6).reshape(2, 3), np.array([[5, 7, 3]]), np.arange(-4, 5)
    assert dnp.polyadd(a, b).tolist() == [[0, 1, 2], [8, 11, 8]]
    assert dnp.polyadd(a, np.array([2])).tolist() == [[0, 1, 2], [5, 6, 7]]
    with pytest.raises(ValueError, match="broadcast"):
        dnp.polyadd(np.arange(3), a)
    assert dnp.polysub(b, a).tolist() == [[0, -1, -2], [2, 3, -2]]
    scaled = [lambda x: x * 0, lambda x: x * 10, lambda x: x * 100]
    assert dnp.piecewise(x, dnp.array([False, True, False]), scaled).tolist() == (x * 10).tolist()
    assert dnp.piecewise(x, dnp.array([True, True]), scaled[:2]).tolist() == (x * 10).tolist()
    assert dnp.piecewise(x, x < 0, scaled[:2]).tolist() == np.where(x < 0, 0, x * 10).tolist()
    of_any_length = dx.ShapeDtypeStruct(export.symbolic_shape("n"), "float32")
    assert str(dx.eval_shape(lambda x: dnp.piecewise(x, x < 0, scaled[:2]), of_any_length).shape) == "(n,)"
    grid = dnp.fromfunction(lambda i, k=0: (i + k) * dnp.arange(3), (2,), k=1)
    assert grid.tolist() == [[0, 1, 2], [0, 2, 4]] and dnp.fromfunction(lambda i, j: 1, (2, 0)).shape == (
        2,
        0,
    )


@pytest.mark.cpu
def test_edges_that_are_integers_are_exact() -> None:
    """An element on an edge belongs to the bin that begins there."""
    counts, edges = dnp.histogram(dnp.array([1, 2, 3, 10, 11, 15, 19, 25]), range=(0, 25), bins=5)
    assert edges.tolist() == [0, 5, 10, 15, 20, 25] and counts.tolist() == [3, 0, 2, 2, 1]
    assert all(isinstance(y, dx.Array) for y in dnp.average(dnp.ones((2, 3)), 0, returned=True))


def test_frexp_at_the_corners() -> None:
    check("np.frexp(x)", np.float32([0, -0.0, 1, -3.5, np.inf, -np.inf, np.nan, 3e38, -1.2e-38]))
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        limits = dnp.finfo(dtype)
        with dx.enable_x64():
            x = dnp.array([float(limits.smallest_subnormal) * k for k in (1, 3, 5)], dtype=dtype)
            for mantissa, exponent in (dnp.frexp(x), dx.jit(dnp.frexp)(x)):
                wanted = np.frexp(np.asarray(x).astype(np.float64))
                np.testing.assert_array_equal(np.asarray(mantissa).astype(np.float64), wanted[0])
                np.testing.assert_array_equal(exponent, wanted[1])
    assert float(dx.grad(lambda x: dnp.frexp(x)[0])(3.0)) == 0.25
    with pytest.raises(TypeError, match=r"frexp takes real numbers.\n  x: complex64"):
        dnp.frexp(1j)


@pytest.mark.parametrize(
    "text", ["np.kaiser(5, 14.0)", "np.kaiser(1, 3)", "np.kaiser(0, 3)", "np.kaiser(4, 0)"]
)
def test_kaiser(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    "text",
    [
        "np.argsort(x, dtype='int8')",
        "np.interp(x, np.array([0.0, 1, 2]), np.array([0.0, 10, 30]), left='extrapolate')",
        "np.interp(x, np.array([0.0, 1, 2]), np.array([0.0, 10, 30]), right='extrapolate', left=2)",
        "np.interp(x, np.array([0.0, 1, 2]), np.array([0.0, 10, 30]), period=2.5)",
        "np.interp(x, np.array([3.0, 1, 2]), np.array([0.0, 10, 30]), period=-0.7)",
        *[f"np.searchsorted(np.sort(x), x, method={m!r})" for m in ("compare_all", "scan", "sort")],
        "np.digitize(x, np.array([0.0, 1]), method='sort')", "np.isin(x, x[1:3], method='sort')",
        "np.nanvar(x, mean=1.0)", "np.nanstd(x, mean=0.5, ddof=1)",
    ],
)  # fmt: skip
def test_keywords_of_functions_of_a_vector(text: str) -> None:
    check(text, X, rtol=1e-4, weak=False)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "float32"])
def test_sums_without_promotion(dtype: str) -> None:
    check("np.sum(x, promote_integers=False)", sample(dtype))
    check("np.prod(x, promote_integers=False)", sample(dtype))


@pytest.mark.parametrize("mode", ["fill", "clip", None])
@pytest.mark.parametrize("wrap", [True, False, None])
def test_negative_positions_along_an_axis(mode: str | None, wrap: bool | None) -> None:
    if wrap is None and jax.__version_info__ >= (0, 11):
        pytest.skip("JAX 0.11 takes None for False")
    positions = np.array([[-1, 0, 3], [2, 5, -2]], np.int8)
    call = lambda np, x, i: np.take_along_axis(x, i, 1, mode=mode, wrap_negative_indices=wrap)
    compare(call, POINTS[:2].repeat(2, 1), positions)


def test_delete_at_traced_positions() -> None:
    x, positions = dnp.eye(4), dnp.array([-1, 2])
    deleted = dx.jit(lambda x, i: dnp.delete(x, i, axis=1, assume_unique_indices=True))(x, positions)
    np.testing.assert_array_equal(deleted, dnp.delete(x, positions, axis=1))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: dnp.searchsorted(x, x, method="other"), ValueError, "method: 'other'"),
        (lambda x: dnp.isin(x, x, method="scan"), ValueError, "method: 'scan'"),
        (lambda x: dnp.interp(x, x, x, left="other"), ValueError, "left: 'other'"),
        (lambda x: dnp.interp(x, x, x, period=0), ValueError, "period: 0"),
    ],
)
def test_bad_keywords(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(dnp.ones(3))


def test_interp_compiled_with_an_array_as_its_period() -> None:
    period = dnp.asarray(6.0)
    out = dx.jit(lambda x: dnp.interp(x, np.float32([0, 1, 2]), np.float32([1, 2, 3]), period=period))
    assert np.allclose(np.asarray(out(np.float32([0.5, 7]))), [1.5, 2])


@pytest.mark.parametrize("name", ["setxor1d", "setdiff1d", "intersect1d"])
def test_sets_of_no_elements_are_filled_with_zeros(name: str) -> None:
    x = np.array([-3.0, 2.0], "float32")
    other = x + 7 if name == "intersect1d" else x
    assert_same(getattr(dnp, name)(x, other, size=3), getattr(jnp, name)(x, other, size=3))


def test_quantiles_of_nothing_are_nan_as_their_mean() -> None:
    assert np.isnan(dnp.median(dnp.zeros(0))) and np.isnan(dnp.quantile(dnp.zeros(0), 0.5))
    found = dnp.median(dnp.zeros((0, 2)), axis=0, keepdims=True)
    assert found.shape == (1, 2) and np.isnan(found).all()
    assert dnp.median(dnp.zeros((0, 2)), axis=1).shape == jnp.median(jnp.zeros((0, 2)), axis=1).shape == (0,)
    with pytest.raises(ValueError, match="choose needs at least one array to choose from"):
        dnp.choose(0, [])


def test_bounds_of_arange_are_named() -> None:
    with pytest.raises(TracerIntegerConversionError, match=r"stop of arange says(.|\n)*argument n"):
        dx.jit(lambda n: dnp.arange(n))(3)
    with pytest.raises(TypeError, match=r"arange takes numbers(.|\n)*stop: \[1, 2\] of type list"):
        dnp.arange([1, 2])


def test_keys_are_finite_and_no_nan() -> None:
    key = dx.random.key(0)
    assert not dnp.isnan(key) and not dnp.isinf(key) and dnp.isfinite(key)


def test_arrays_of_float0_are_made() -> None:
    like = dx.grad(lambda i: i * 1.0, allow_int=True)(3)
    made = [
        dnp.zeros(2, dx.float0),
        dnp.ones((2,), dx.float0),
        dnp.empty(2, dx.float0),
        dnp.full(2, 0, dx.float0),
    ]
    made += [dnp.zeros_like(like, shape=(2,)), dnp.zeros_like(dnp.ones(2), dx.float0)]
    for x in made:
        assert x.dtype == dx.float0 and x.shape == (2,) and bool((x == x).all())
    assert dx.vjp(lambda i: i + 1, 3)[1](dnp.zeros((), dx.float0))[0].dtype == dx.float0


def test_the_slope_at_a_sample_does_not_ask_for_its_value():
    x = np.array([1.0, np.inf, 3.0, np.nan, 8.0], "float32")
    np.testing.assert_array_equal(dnp.gradient(x, 0.5), np.gradient(x, 0.5))


def test_functions_of_nothing_and_of_numbers_have_the_shapes_of_numpy():
    assert dnp.poly(dnp.zeros(0)).shape == np.shape(np.poly([])) == ()
    for name in ("cumsum", "cumprod", "nancumsum", "nancumprod"):
        assert getattr(dnp, name)(2, axis=-1).shape == getattr(dnp, name)(dnp.ones(()), axis=0).shape == (1,)
    assert dnp.repeat(2, 3, axis=0).tolist() == [2, 2, 2]
    assert dx.jit(dnp.roots)(dnp.ones(1)).shape == (0,)


def test_axes_and_shifts_are_those_of_numpy():
    x = np.float32([[1, 2, 4], [8, 16, 32]])
    np.testing.assert_allclose(dnp.geomspace(x, 64, 4, axis=-1), np.geomspace(x, 64, 4, axis=-1), rtol=1e-5)
    for name in ("linspace", "geomspace"):
        with pytest.raises(np.exceptions.AxisError, match=rf"{name} takes an axis[\s\S]*axis: 5"):
            getattr(dnp, name)(x, x, 3, axis=5)
    np.testing.assert_array_equal(dnp.roll(x, (1, 1)), np.roll(x, (1, 1)))
    for by, axes in ((np.array([1, 1]), None), (1, np.array([1, 0])), (np.array([1, -1]), dnp.array([0, 1]))):
        np.testing.assert_array_equal(dnp.roll(x, by, axes), np.roll(x, by, axes))
    np.testing.assert_array_equal(dnp.roll(x, 1, axis=()), x)
    assert dnp.setdiff1d(INTS, np.float32([1.0, 2.5])).dtype == INTS.dtype


def test_what_only_has_a_shape_and_a_dtype_is_asked_for_them():
    """A matrix of `scipy.sparse` is no array, and programs ask for its shape."""

    class Matrix:
        shape, dtype = (2, 3), np.dtype("float64")

    assert (dnp.shape(Matrix()), dnp.ndim(Matrix()), dnp.size(Matrix()), dnp.size(Matrix(), 1)) == (
        (2, 3),
        2,
        6,
        3,
    )
    assert dnp.result_type(Matrix(), "int8") == "float32"
    assert dnp.shape(np.array(["a", "b"])) == (2,)
    with pytest.raises(TypeError, match="shape takes arrays and scalars"):
        dnp.shape(object())


def test_shapes_and_axes_may_be_arrays_and_ranges():
    x = dnp.arange(6.0)
    assert dnp.reshape(x, np.array([2, -1])).shape == x.reshape(np.array([2, 3])).shape == (2, 3)
    assert (
        dnp.reshape(x, np.array(6)).shape == dnp.reshape(np.ones(1), np.array([], int)).shape + (6,) == (6,)
    )
    assert dnp.expand_dims(x, range(2)).shape == (1, 1, 6) and dnp.sum(dnp.ones((2, 3)), axis=range(2)) == 6.0


def test_geomspace_of_complex_numbers_turns_the_short_way() -> None:
    for ends in ((-3.25 + 0j, 1 - 1j), (1j, 1000j), (2 + 0j, -2 + 1j)):
        np.testing.assert_allclose(dnp.geomspace(*ends, 4), np.geomspace(*ends, 4), rtol=1e-5, atol=1e-5)


def test_bincount_of_negative_numbers_alone() -> None:
    """They count as 0, as beside others."""
    assert dnp.bincount(dnp.array([-1, -2])).tolist() == [2]
    assert dnp.bincount(dnp.array([-1, 1])).tolist() == [1, 1] and dnp.bincount(dnp.zeros(0, int)).shape == (
        0,
    )


@pytest.mark.parametrize(
    ("f", "wanted"),
    [
        (lambda x: dnp.linspace(0.1, np.float64(0.7), 2, dtype="float64"), [0.1, 0.7]),
        (lambda x: dnp.logspace(0.1, 0.7, 2, dtype="float64"), [10**0.1, 10**0.7]),
        (lambda x: dnp.geomspace(0.1, 0.7, 2, dtype="float64"), [0.1, 0.7]),
        (lambda x: dnp.fft.rfftfreq(2, 0.1, dtype="float64"), [0.0, 5.0]),
        (lambda x: dnp.searchsorted(x, 0.1, side="right"), 1),
        (lambda x: dnp.searchsorted(x.astype("int64"), 2**40), 2),
        (lambda x: dnp.isin(x, 0.1), [True, False]),
        (lambda x: dnp.isclose(x, 0.1, rtol=1e-12, atol=0), [True, False]),
        (lambda x: dnp.outer(x, 0.1)[1], 0.02),
        (lambda x: dnp.interp(0.1, x, x), 0.1),
        (lambda x: dnp.stack([x[0], 0.7]), [0.1, 0.7]),
        (lambda x: dnp.diff(x, append=0.7), [0.1, 0.5]),
        (lambda x: dnp.ediff1d(x, to_end=0.7), [0.1, 0.7]),
        (lambda x: dnp.put(x, 0, 0.7, inplace=False), [0.7, 0.2]),
        (lambda x: dnp.fill_diagonal(x[None], 0.7, inplace=False)[0], [0.7, 0.2]),
        (lambda x: dnp.piecewise(x, [x < 0.15], [0.7, 0.3]), [0.7, 0.3]),
        (lambda x: dnp.histogram(x, 1, range=(0.1, 0.7))[1], [0.1, 0.7]),
        (lambda x: dnp.linspace(x[0], 0.7, 2), [0.1, 0.7]),
        (lambda x: dnp.hstack([x[0], 0.7]), [0.1, 0.7]),
        (lambda x: dnp.block([[x[0], 0.7]])[0], [0.1, 0.7]),
        (lambda x: dnp.append(0.7, x[0]), [0.7, 0.1]),
        (lambda x: dnp.array_equal(x[0], 0.1), True),
        (lambda x: dnp.array_equiv(x[:1].astype("int64") + 2**40, 2**40), True),
        (lambda x: dnp.clip(0.7, x[0], x + 1), 0.7),
        (lambda x: dnp.percentile(x, 0.3), 0.1003),
        (lambda x: nn.logsumexp(x[:1] * 0, b=0.7), np.log(0.7)),
        (lambda x: dnp.r_[x[0], 0.7], [0.1, 0.7]),
        (lambda x: scipy.signal.welch(x, 0.7, nperseg=2)[0], [0.0, 0.35]),
        (
            lambda x: dnp.cov(x.astype("float32"), aweights=dnp.array([1, 0.7], "float64")),
            0.005000000149011613,
        ),
    ],
)
def test_numbers_beside_wider_dtypes_keep_their_digits(f, wanted):
    """Python's numbers have 64 bits; beside arrays or a stated dtype of 64 bits they keep them, without enable_x64."""
    found = f(dnp.array([0.1, 0.2], "float64"))
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-15, atol=1e-16)


@pytest.mark.cpu
@pytest.mark.parametrize("side", ["left", "right"])
def test_searches_of_many_values_write_the_keys_to_memory(side: str) -> None:
    """Those of the vector, too: gathers would compute them again at each stride."""
    rng = np.random.default_rng(0)
    edges = np.sort(rng.standard_normal(31).astype(np.float32))
    values = np.r_[edges, -0.0, np.inf, -np.inf, np.nan, rng.standard_normal(1500)].astype(np.float32)
    search = dx.jit(lambda edges, values: dnp.searchsorted(edges, values, side))
    np.testing.assert_array_equal(search(edges, values), np.searchsorted(edges, values, side))
    for given, count in (values, 2), (values[:100], 0):
        assert search.lower(edges, given).as_text().count("call @materialized") == count


def test_powers_of_vectors_are_products_of_powers() -> None:
    """Each column of `vander` has the bits of repeated squaring, in a program of a few operations."""
    for x in (np.float32([0.5, -3, 0, np.inf, np.nan]), np.int32([3, -7, 0]), np.float16([0.3, 2])):
        for count in (1, 2, 7, 20):
            powers = [np.asarray(dx.lax.integer_pow(dnp.asarray(x), y)) for y in range(count)]
            np.testing.assert_array_equal(dnp.vander(x, count, increasing=True), np.stack(powers, 1))
            np.testing.assert_array_equal(dnp.vander(x, count), np.stack(powers[::-1], 1))
    assert dnp.vander(np.array([True, False]), 2).tolist() == [[1, 1], [0, 1]]
    assert len(dx.make_jaxpr(dnp.vander)(np.ones(1000, "float32")).eqns) < 80
    slopes = dx.jacfwd(lambda t: dnp.vander(t[None], 4)[0])
    assert [slopes(t).tolist() for t in (0.0, 1e20)] == [[0, 0, 1, 0], [np.inf, np.float32(2e20), 1, 0]]


def test_long_recurrences_of_polynomials_are_loops() -> None:
    c, r = np.cos(np.arange(300)), np.append(np.sin(np.arange(60)), np.inf)
    x = np.linspace(-1, 1, 5)
    for run in (lambda f: f, dx.jit):
        np.testing.assert_allclose(run(dnp.polyval)(c, x), np.polyval(c, x), 1e-5, 1e-5)
        np.testing.assert_allclose(run(dnp.poly)(r[:-1]), np.poly(r[:-1]), 1e-4, 1e-4)
    assert dnp.poly(r[::-1])[:2].tolist() == [1, -np.inf]
    slopes = dx.grad(lambda c: dnp.polyval(c, 0.5))(c.astype("float32"))
    np.testing.assert_allclose(slopes[-40:], 0.5 ** np.arange(39, -1, -1.0), 1e-6)
    divisor = np.append(3, np.cos(np.arange(1, 20)) / 9).astype("float32")
    for few in (divisor, divisor[:1]):
        for run in (lambda f: f, dx.jit):
            quotient, rest = run(dnp.polydiv)(c.astype("float32"), few)
            assert rest.shape == c.shape
            wanted, wanted_rest = np.polydiv(c, few)
            np.testing.assert_allclose(quotient, wanted, 1e-4, 1e-5)
            np.testing.assert_allclose(
                rest[-len(few) :], np.append(np.zeros(20), wanted_rest)[-len(few) :], 1e-4, 1e-5
            )
    for f in (dnp.poly, lambda c: dnp.polyval(c, c), lambda c: dnp.polydiv(c, divisor)):
        assert len(dx.make_jaxpr(f)(c).eqns) < 20


def test_take_at_a_known_place_is_a_slice() -> None:
    x = dnp.arange(24.0).reshape(2, 3, 4)
    for axis in (None, 0, 1, -1):
        for i in (0, -1, 1, -2, 5, 30, -30, 2**40):
            for mode in (None, "clip", "wrap"):
                want = dnp.take(x, np.asarray(i), axis, mode=mode)
                for found in (
                    dnp.take(x, i, axis, mode=mode),
                    dx.jit(lambda x: dnp.take(x, i, axis, mode=mode))(x),
                ):
                    assert found.aval is want.aval
                    np.testing.assert_array_equal(found, want)
    assert "gather" not in str(dx.make_jaxpr(lambda x: dnp.take(x, -1, 1))(x))
    assert dnp.take(2.0, 0).weak_type == dnp.take(2.0, np.asarray(0)).weak_type


def test_keys_of_single_numbers_are_not_read_one_by_one() -> None:
    assert len(dx.make_jaxpr(dnp.lexsort)(np.ones(1000, "float32")).eqns) < 3
    assert int(dnp.lexsort(dnp.ones(1000))) == 0
    with pytest.raises(TypeError, match="at least one key"):
        dnp.lexsort(dnp.ones(0))
