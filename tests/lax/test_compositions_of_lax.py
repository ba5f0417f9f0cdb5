"""Operations of `lax` that are made of others: composites, block-scaled products, exchanges of ragged rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax


def test_composites_are_differentiated_and_batched_as_what_they_are_made_of() -> None:
    f = lax.composite(lambda x, *, scale: dnp.sin(x) * scale, "my.sin", version=1)
    x = dnp.arange(3.0)
    np.testing.assert_allclose(f(x, scale=2.0), 2 * np.sin(x))
    np.testing.assert_allclose(dx.vmap(dx.grad(lambda v: f(v, scale=2.0)))(x), 2 * np.cos(x), rtol=1e-6)
    with pytest.raises(
        TypeError, match=r"static\.\n  composite: my.sin, scale: float32\[\]\nPass traced arrays by"
    ):
        dx.make_jaxpr(lambda s: f(x, scale=s))(2.0)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float32"])
def test_scaled_dot_is_that_of_jax(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, 8)), rng.normal(size=(2, 8, 3))
    s, t = np.exp2(rng.integers(-2, 3, (2, 4, 2))), np.exp2(rng.integers(-2, 3, (2, 4, 3)))

    def products(xnp, lax):
        x, y = xnp.asarray(a, "float32").astype(dtype), xnp.asarray(b, "float32").astype(dtype)
        u, v = xnp.asarray(s, "float32"), xnp.asarray(t, "float32")
        return [
            lax.scaled_dot(x, y, lhs_scale=u, rhs_scale=v, preferred_element_type="float32"),
            lax.scaled_dot(x[0], y[0].T, rhs_scale=v[0].T, dimension_numbers=(((1,), (1,)), ((), ()))),
        ]

    for ours, theirs in zip(products(dnp, lax), products(jnp, jax.lax), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours.astype("float32"), theirs.astype("float32"), rtol=1e-2)


def test_scales_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"float32\[1,3\], contracted axes: \(1,\)\nLet its lengths divide"):
        lax.scaled_dot(dnp.ones((1, 4)), dnp.ones((4, 1)), lhs_scale=dnp.ones((1, 3)))
    with pytest.raises(ValueError, match="equally many axes, two or more"):
        lax.scaled_dot(dnp.ones(4), dnp.ones(4))


def test_broadcast_from_one_element() -> None:
    f = dx.vmap(lambda x: lax.pbroadcast({"x": x, "p": x > 1}, "i", 2), axis_name="i")
    x = dnp.arange(3.0)
    assert f(x)["x"].tolist() == [2.0] * 3
    assert f(x)["p"].dtype == bool
    assert f(x)["p"].all()
    assert dx.grad(lambda x: (f(x)["x"] * x).sum())(x).tolist() == [2.0, 2.0, 2.0 + 3.0]
    with pytest.raises(ValueError, match=r"source: 3, axis 'i' of 3 elements\nChoose one of 0 to 2"):
        dx.vmap(lambda x: lax.pbroadcast(x, "i", 3), axis_name="i")(x)


def test_rows_of_ragged_lengths_are_exchanged() -> None:
    """Two slices for each element: what arrives is what a loop over slices writes."""
    rng, size, per, rows, length = np.random.default_rng(1), 3, 2, 12, 14
    operand = rng.normal(size=(size, rows, 2)).astype("float32")
    output = np.zeros((size, length, 2), "float32")
    sizes = rng.integers(0, 3, (size, size * per))
    starts = np.cumsum(sizes, 1) - sizes
    received = sizes.reshape(size, size, per).transpose(1, 0, 2).reshape(size, -1)  # by receiver
    places = (np.cumsum(received, 1) - received).reshape(size, size, per).transpose(1, 0, 2).reshape(size, -1)
    wanted = output.copy()
    for i, j in np.ndindex(size, size * per):
        n, source, place = sizes[i, j], starts[i, j], places[i, j]
        wanted[j // per, place : place + n] = operand[i, source : source + n]

    def exchange(operand):
        numbers = [dnp.asarray(x) for x in (starts, sizes, places, received)]
        f = lambda *xs: lax.ragged_all_to_all(*xs, axis_name="i")
        return dx.vmap(f, axis_name="i")(operand, output, *numbers)

    found = dx.jit(exchange)(operand)
    np.testing.assert_array_equal(found, wanted)
    gradient = dx.grad(lambda x: (exchange(x) ** 2).sum())(operand)
    sent = np.arange(rows) < sizes.sum(1)[:, None]
    np.testing.assert_allclose(gradient, 2 * operand * sent[..., None], rtol=1e-6)
    with pytest.raises(ValueError, match="vectors of integers, equally many for each element"):
        dx.vmap(
            lambda x: lax.ragged_all_to_all(x, x, *[dnp.zeros(2, int)] * 4, axis_name="i"), axis_name="i"
        )(operand)


def test_small_names() -> None:
    assert lax.stage(np.float64(2)).dtype == "float32"
    assert lax.shape_as_value((2, 3)).tolist() == [2, 3]
    assert lax.shape_as_value(()).dtype == "int32"
    assert lax.exp(0.0, accuracy=lax.AccuracyMode.HIGHEST) == 1
    with pytest.raises(NotImplementedError, match="accuracy is XLA's"):
        lax.exp(0.0, accuracy=lax.Tolerance(atol=0.1))
    with pytest.raises(ValueError, match="one or two sizes above 0"):
        lax.Tolerance(1.0, 1.0, 1)
