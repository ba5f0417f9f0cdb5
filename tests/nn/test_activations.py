"""Activations and normalisations of logits against jax.nn, at their corners, eagerly and compiled, with gradients."""

import itertools
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import nn
from tests.checks import first
from tests.numpy.oracle import assert_same

ACTIVATIONS = [
    "celu", "elu", "gelu", "hard_sigmoid", "hard_silu", "hard_tanh", "identity", "leaky_relu", "log_sigmoid", "mish",
    "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softplus", "sparse_plus", "sparse_sigmoid",
    "squareplus", "tanh",
]  # fmt: skip
OVER_AN_AXIS = ["softmax", "log_softmax", "logsumexp", "logmeanexp", "standardize"]
CORNERS = np.array([0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 20.0, -20.0, 90.0, -90.0, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_values_and_gradients(dtype: str) -> None:
    x = np.concatenate([np.linspace(-4, 4, 23), CORNERS])
    with dx.enable_x64(dtype == "float64"), jax.enable_x64(dtype == "float64"):
        ours, theirs = dnp.asarray(x).astype(dtype), jnp.asarray(x).astype(dtype)
        compiled = dx.jit(lambda x: {name: getattr(nn, name)(x) for name in ACTIVATIONS})(ours)
        for name in ACTIVATIONS:
            f, g = getattr(nn, name), getattr(jax.nn, name)
            want = g(theirs)
            if name == "squareplus":  # NaN in JAX
                want = jnp.where(theirs == -jnp.inf, 0, want)
            assert_same(f(ours), want)
            assert_same(compiled[name], want)
            if dtype == "float32":
                smooth = ours[:23] + 0.01
                slopes = dx.vmap(dx.grad(f))(smooth)
                assert_same(slopes, jax.vmap(jax.grad(g))(jnp.asarray(np.asarray(smooth))))


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name not in ("identity", "relu")])
def test_integers_are_taken_as_floats(name: str) -> None:
    x = np.arange(-3, 4)
    assert_same(getattr(nn, name)(x), jnp.asarray(getattr(nn, name)(x.astype("float32"))), weak=False)


def test_a_mean_of_16_bit_exponentials_is_rounded_once() -> None:
    """Both terms of log(sum) - log(count) are larger than it."""
    x = np.sin(np.arange(700) / 30).astype("float16")
    assert nn.logmeanexp(x) == nn.logmeanexp(x.astype("float32")).astype("float16")


def test_narrow_integers_give_float32_whatever_the_default_width() -> None:
    with dx.enable_x64(True):
        assert {str(nn.soft_sign(dnp.ones(2, dtype)).dtype) for dtype in ("int8", "uint32", "bool")} == {
            "float32"
        }
        assert nn.soft_sign(dnp.ones(2, "int64")).dtype == "float64"
        assert dx.typeof(nn.soft_sign(3)) == dx.typeof(dnp.sin(3))


BESIDE_FLOATS = "relu6 sparse_plus sparse_sigmoid elu celu selu leaky_relu hard_sigmoid hard_silu hard_swish"


@pytest.mark.parametrize("x64", first([True, False]))
def test_formulas_with_numbers_promote_integers_as_these_do(x64: bool) -> None:
    with dx.enable_x64(x64), jax.enable_x64(x64):
        for name, dtype in itertools.product(BESIDE_FLOATS.split(), ("int8", "int32", "int64", "bool")):
            x = np.ones(2, dtype)
            found, wanted = (dx.eval_shape(getattr(nn, name), x), jax.eval_shape(getattr(jax.nn, name), x))
            assert (found.dtype, found.weak_type) == (wanted.dtype, wanted.weak_type), (name, dtype)


@pytest.mark.parametrize("name", ["gelu", "softplus", "log_sigmoid", "silu", "mish", "elu", "sigmoid"])
def test_gradients_far_out_are_finite(name: str) -> None:
    far = dnp.array([-1e4, -100.0, 100.0, 1e4])
    assert np.isfinite(dx.vmap(dx.grad(getattr(nn, name)))(far)).all()


def rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32") * 5


@pytest.mark.parametrize("axis", [0, -1, (0, 2), None])
def test_over_an_axis(axis: object) -> None:
    x = rows(3, 4, 5)
    compiled = dx.jit(lambda x: {name: getattr(nn, name)(x, axis=axis) for name in OVER_AN_AXIS})(x)
    for name in OVER_AN_AXIS:
        f, g = getattr(nn, name), getattr(jax.nn, name)
        where = rows(3, 4, 5) > (-100 if name == "standardize" else -2)  # one element alone has no spread
        assert_same(f(x, axis=axis), g(x, axis=axis))
        assert_same(compiled[name], g(x, axis=axis))
        assert_same(f(x, axis=axis, where=where), g(x, axis=axis, where=where))


@pytest.mark.parametrize("size", [7, 4096])  # evaluated on the spot, and compiled
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_a_row_with_a_special_value(special: float, size: int) -> None:
    x = rows(20, size)
    x[1, 3] = x[2, size - 1] = x[3, :] = special
    names = ["softmax", "log_softmax", "logsumexp"]
    compiled = dx.jit(lambda x: {name: getattr(nn, name)(x, axis=-1) for name in names})(x)
    for name in names:
        want = getattr(jax.nn, name)(x, axis=-1)
        assert_same(getattr(nn, name)(x, axis=-1), want)
        assert_same(compiled[name], want)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_softmax_of_nothing(shape: tuple[int, ...]) -> None:
    assert nn.softmax(dnp.zeros(shape)).shape == shape
    assert nn.log_softmax(dnp.zeros(shape)).shape == shape


def test_softmax_of_rows_without_finite_elements() -> None:
    """Rows of -inf, of inf, of NaN, as 0 / 0 and -inf - log(0) give them; the least finite number is like others."""
    low, inf = np.finfo(np.float32).min, np.inf
    x = np.float32([[-inf] * 3, [low, -inf, -inf], [low] * 3, [np.nan, 0, 1], [inf, 0, 1], [-inf, 0, 0]])
    for f in (nn.softmax, nn.log_softmax):
        expected = getattr(jax.nn, f.__name__)(x)
        for evaluate in (lambda f: f, dx.jit):
            np.testing.assert_allclose(evaluate(f)(x), expected, rtol=1e-6)


def test_softmax_compares_nothing() -> None:
    """XLA computes an attention block by block, without an array of all weights, as far as it knows every operation."""
    text = dx.jit(nn.softmax).lower(np.ones((8, 64), np.float32)).as_text()
    assert "stablehlo.maximum" in text and not any(
        name in text for name in ("compare", "select", "precision")
    )


def test_softmax_of_complex_numbers() -> None:
    x = np.array([1 + 1j, 2 - 1j, 0.5], "complex64")
    wanted = np.exp(x) / np.exp(x).sum()
    np.testing.assert_allclose(dx.jit(nn.softmax)(x), wanted, rtol=1e-5)
    np.testing.assert_allclose(np.exp(nn.log_softmax(x)), wanted, rtol=1e-5)


def test_gradient_of_softmax_is_its_jacobian() -> None:
    x = dnp.asarray(rows(6))
    p = np.asarray(nn.softmax(x))
    np.testing.assert_allclose(dx.jacrev(nn.softmax)(x), np.diag(p) - np.outer(p, p), atol=1e-6)
    np.testing.assert_allclose(dx.jacfwd(nn.log_softmax)(x), np.eye(6) - p, atol=1e-6)
    text = dx.jit(dx.grad(lambda x: nn.softmax(x)[0, 0])).lower(np.ones((8, 64), np.float32)).as_text()
    quotients = re.findall(r"stablehlo.divide .*tensor<(.*)xf32>", text)
    assert set(quotients) == {"8x1"}


def test_logsumexp_with_weights_and_signs() -> None:
    a, b = rows(4, 3), rows(4, 3)
    b[0, 0] = 0
    for options in ({}, {"keepdims": True}, {"return_sign": True}):
        weights = np.abs(b) if "return_sign" not in options else b
        ours = nn.logsumexp(a, axis=1, b=weights, **options)
        theirs = jax.nn.logsumexp(a, axis=1, b=weights, **options)
        for x, y in zip(*[v if isinstance(v, tuple) else (v,) for v in (ours, theirs)], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5)
    assert float(nn.logsumexp(dnp.array([-dnp.inf, -dnp.inf]))) == -np.inf


def test_log1mexp_keeps_its_digits() -> None:
    x = np.array([1e-10, 1e-3, 0.5, 0.7, 5.0, 80.0], "float32")
    want = np.log(-np.expm1(-x.astype("float64")))
    np.testing.assert_allclose(nn.log1mexp(x)[:5], want[:5], rtol=2e-6)
    slopes = dx.vmap(dx.grad(nn.log1mexp))
    np.testing.assert_allclose(slopes(x), np.exp(-x) / -np.expm1(-x.astype("float64")), rtol=1e-6)
    assert "select_n" not in str(dx.make_jaxpr(slopes)(x))  # one formula, which needs no cases


def test_one_hot_and_glu() -> None:
    assert_same(nn.one_hot(dnp.array([0, 2, 5, -1]), 3), jax.nn.one_hot(jnp.array([0, 2, 5, -1]), 3))
    x = rows(2, 6)
    assert_same(nn.glu(x), jax.nn.glu(x))


def test_softmax_of_lines_that_where_leaves_empty_and_of_complex_numbers():
    x, chosen = np.float32([[1, 2], [3, 4]]), np.array([[True, False], [True, False]])
    p, log_p = nn.softmax(x, axis=0, where=chosen), nn.log_softmax(x, axis=0, where=chosen)
    assert p[:, 1].tolist() == [0, 0] and log_p[:, 1].tolist() == [-np.inf, -np.inf]
    np.testing.assert_allclose(p[:, 0], np.exp(log_p[:, 0]), rtol=1e-6)
    slopes = dx.grad(lambda x: nn.softmax(x, axis=0, where=chosen)[0].sum())(x)
    np.testing.assert_allclose(slopes, [[p[0, 0] * p[1, 0], 0], [-p[0, 0] * p[1, 0], 0]], rtol=1e-5)
    z = np.complex64([1 + 2j, -0.5j, 2])
    np.testing.assert_allclose(nn.softmax(z), np.exp(z) / np.exp(z).sum(), rtol=1e-5)
    np.testing.assert_allclose(nn.log_softmax(z), z - np.log(np.exp(z).sum()), rtol=1e-5)


@pytest.mark.parametrize(("f", "fill"), [(nn.softmax, 0.0), (nn.log_softmax, -np.inf)])
def test_elements_that_are_left_out_are_constants(f, fill) -> None:
    x = np.float32([[1, 2, 3], [np.nan, 1, 2], [1, np.nan, 2], [np.inf, 0, 1]])
    left, x_dot = [0, 2], rows(4, 3)
    y, y_dot = dx.jvp(partial(f, where=np.array([True, False, True])), (x,), (x_dot,))
    for found, wanted in zip((y, y_dot), dx.jvp(f, (x[:, left],), (x_dot[:, left],)), strict=True):
        np.testing.assert_array_equal(found[:, dnp.array(left)], wanted)
    assert y[:, 1].tolist() == [fill] * 4 and y_dot[:, 1].tolist() == [0] * 4


@pytest.mark.parametrize("f", [nn.softmax, nn.log_softmax, nn.logsumexp])
def test_an_axis_that_is_absent_is_one_of_the_function_that_was_called(f) -> None:
    with pytest.raises(ValueError, match=f"^{f.__name__} takes an axis of the array(?s:.*)from -1 to 0"):
        f(dnp.ones(3), axis=1)


def test_the_sign_of_the_logsumexp_of_nothing_but_minus_infinity() -> None:
    x = dnp.array([[-dnp.inf, -dnp.inf], [0.0, -dnp.inf], [-dnp.inf, dnp.inf]])
    logs, signs = nn.logsumexp(x, axis=1, return_sign=True)
    assert logs.tolist() == [-np.inf, 0, np.inf] and signs.tolist() == [0, 1, 1]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int4", "float8_e4m3fn", "bfloat16", "int32"])
def test_one_hot_has_one_element_that_is_hot_in_any_dtype(dtype: str) -> None:
    assert (nn.one_hot(dnp.array([0, 1, 1], dtype), 300).argmax(1) == dnp.array([0, 1, 1])).all()
    assert nn.one_hot(dnp.array([0, 1, 1], dtype), 300).sum(1).tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_squareplus_keeps_its_digits_on_both_sides(dtype):
    x = np.array([-np.inf, -1e4, -50, 0, 1e4, 2e19], dtype)
    exact = x.astype("float64")
    want = [2 / (np.hypot(v, 2) - v) if v < 0 else (v + np.hypot(v, 2)) / 2 for v in exact]
    found = nn.squareplus(x).astype("float64")
    np.testing.assert_allclose(found, want, rtol=2 * float(dnp.finfo(dtype).eps))
    assert np.isfinite(dx.vmap(dx.grad(nn.squareplus))(x[1:-1]).astype("float32")).all()


def test_squareplus_of_complex_numbers():
    z = np.array([1j, -2 + 0.5j, 3], "complex64")
    np.testing.assert_allclose(nn.squareplus(z), (z + np.sqrt(z * z + 4)) / 2, rtol=1e-6)
