"""Layers: shapes promised by init are those of apply, keys are split among layers, and small networks learn."""

import types
from typing import Any

import jax
import numpy as np
import pytest
from jax.example_libraries import stax as theirs

import didax as dx
import didax.numpy as dnp
from didax import random
from didax.example_libraries import optimizers, stax

IMAGES = (4, 9, 8, 3)
ROWS = (4, 6)


@pytest.mark.parametrize(
    "layer, shape",
    [
        (stax.Dense(5), ROWS),
        (stax.Dense(5), (2, 3, 6)),
        (stax.Conv(5, (3, 2)), IMAGES),
        (stax.Conv(5, (3, 3), strides=(2, 2), padding="SAME"), IMAGES),
        (stax.BatchNorm(), IMAGES),
        (stax.BatchNorm(axis=(0,), center=False), ROWS),
        (stax.MaxPool((2, 2)), IMAGES),
        (stax.SumPool((2, 3), strides=(2, 1)), IMAGES),
        (stax.AvgPool((3, 3), padding="SAME"), IMAGES),
        (stax.Flatten, IMAGES),
        (stax.Dropout(0.5), ROWS),
        (stax.serial(), ROWS),
        (stax.serial(stax.FanOut(2), stax.parallel(stax.Dense(3), stax.Dense(3)), stax.FanInSum), ROWS),
        (stax.serial(stax.FanOut(2), stax.parallel(stax.Identity, stax.Dense(3)), stax.FanInConcat()), ROWS),
        (stax.shape_dependent(lambda shape: stax.Dense(2 * shape[-1])), ROWS),
    ],
)
def test_init_promises_the_shape_that_apply_returns(layer: stax.Layer, shape: tuple[int, ...]) -> None:
    init, apply = layer
    promised, params = init(random.key(0), shape)
    run = dx.jit(lambda params, x, key: apply(params, x, rng=key))
    out = run(params, dnp.ones(shape), random.key(1))
    assert out.shape == promised
    unknown_batch, _ = init(random.key(0), (-1, *shape[1:]))
    assert unknown_batch[1:] == promised[1:]


def network(S: Any) -> Any:
    """Layers whose axes are named, of either library."""
    return S.serial(
        S.GeneralConv(("NCHW", "OIHW", "NHWC"), 4, (3, 2), (2, 1), "SAME"),
        S.ConvTranspose(2, (2, 2), (2, 2)), S.Conv(3, (2, 2)),
        S.FanOut(3), S.parallel(S.AvgPool((2, 1), spec="NHWC"), S.MaxPool((2, 1)), S.SumPool((2, 1))), S.FanInSum,
    )  # fmt: skip


def test_layers_with_named_axes_are_those_of_jax() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 6, 5)).astype("float32")
    init, apply = network(stax)
    shape, params = init(random.key(0), (-1, *x.shape[1:]))
    outs = dx.jit(apply)(params, x)
    assert outs.shape[1:] == shape[1:] and shape[0] == -1
    their_init, their_apply = network(theirs)
    kinds = jax.eval_shape(lambda key: their_init(key, x.shape)[1], jax.random.key(0))
    arrays = [np.asarray(leaf) for leaf in dx.tree.leaves(params)]
    assert [leaf.shape for leaf in arrays] == [leaf.shape for leaf in jax.tree.leaves(kinds)]
    wanted = jax.jit(their_apply)(jax.tree.unflatten(jax.tree.structure(kinds), arrays), x)
    np.testing.assert_allclose(outs, wanted, rtol=1e-4, atol=1e-5)
    assert str(dx.tree.structure(params)) == str(jax.tree.structure(kinds))
    shape, (w, b) = stax.Conv1DTranspose(4, (3,), (2,))[0](random.key(0), (-1, 5, 3))
    assert (shape, w.shape, b.shape) == ((-1, 11, 4), (3, 3, 4), (1, 1, 4))
    assert stax.BatchNorm(axis=0)[0](random.key(0), (4, 3))[1][0].shape == (3,)


@pytest.mark.skipif(not jax.__version__.startswith("0.10."), reason="the names are those of JAX 0.10")
def test_names_are_those_of_jax() -> None:
    own = {name for name in dir(theirs) if not isinstance(getattr(theirs, name), types.ModuleType)}
    assert {name for name in own if not name.startswith("_")} - set(dir(stax)) == set()


def test_pools() -> None:
    x = np.random.default_rng(0).normal(size=(1, 4, 4, 1)).astype("float32")
    blocks = x.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(2, 2, 4)
    for layer, reduce in ((stax.MaxPool, np.max), (stax.SumPool, np.sum), (stax.AvgPool, np.mean)):
        out = layer((2, 2), strides=(2, 2))[1]((), x)
        np.testing.assert_allclose(np.asarray(out)[0, :, :, 0], reduce(blocks, axis=-1), rtol=1e-6)
    edge = stax.AvgPool((3, 3), padding="SAME")[1]((), dnp.ones((1, 4, 4, 1)))
    np.testing.assert_allclose(edge, np.ones((1, 4, 4, 1)))  # what lies outside is not counted


def test_batch_norm_normalises_each_channel() -> None:
    x = np.random.default_rng(0).normal(3.0, 2.0, size=IMAGES).astype("float32")
    init, apply = stax.BatchNorm()
    out = np.asarray(apply(init(random.key(0), IMAGES)[1], x))
    np.testing.assert_allclose(out.mean((0, 1, 2)), np.zeros(3), atol=1e-5)
    np.testing.assert_allclose(out.var((0, 1, 2)), np.ones(3), atol=1e-3)


def test_dropout_keeps_the_mean_and_each_layer_draws_its_own() -> None:
    _, apply = stax.serial(stax.Dropout(0.8), stax.Identity)
    x = dnp.ones((200, 200))
    out = apply([(), ()], x, rng=random.key(0))
    assert set(np.unique(out)) == {0.0, 1.25}
    assert abs(float(out.mean()) - 1) < 0.02
    _, both = stax.parallel(stax.Dropout(0.5), stax.Dropout(0.5))
    a, b = both([(), ()], [x, x], rng=random.key(0))
    assert abs(float((a * b != 0).mean()) - 0.25) < 0.02
    np.testing.assert_array_equal(stax.Dropout(0.5, mode="test")[1]((), x), x)


def test_dropout_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needs a key(.|\n)*apply\(params, inputs, rng=key\)"):
        stax.serial(stax.Dense(2), stax.Dropout(0.5))[1](
            [(dnp.ones((3, 2)), dnp.ones(2)), ()], dnp.ones((1, 3))
        )


def digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    data = load_digits()
    return (data.images / 16).astype("float32"), data.target


def trained(network: stax.Layer, images: np.ndarray, labels: np.ndarray, steps: int, batch: int) -> tuple:
    """Parameters after a training loop on the host that splits a key per step, and the losses."""
    init, apply = network
    opt_init, opt_update, get_params = optimizers.adam(3e-3)

    @dx.jit
    def update(rng, step, state, x, y):
        def loss(params):
            return -dnp.mean(dnp.take_along_axis(apply(params, x, rng=rng), y[:, None], 1))

        value, gradients = dx.value_and_grad(loss)(get_params(state))
        return value, opt_update(step, gradients, state)

    init_key, rng = random.split(random.key(0))
    state = opt_init(init(init_key, (-1, *images.shape[1:]))[1])
    losses = []
    for step in range(steps):
        rng, rng_input = random.split(rng)
        rows = np.arange(step * batch, (step + 1) * batch) % len(images)
        value, state = update(rng_input, step, state, images[rows], labels[rows])
        losses.append(float(value))
    return get_params(state), losses


@pytest.mark.ci  # whole programs
def test_a_network_with_dropout_learns_digits() -> None:
    images, labels = digits()
    network = lambda mode: stax.serial(
        stax.Flatten, stax.Dense(64), stax.Relu, stax.Dropout(0.8, mode), stax.Dense(10), stax.LogSoftmax
    )
    params, losses = trained(network("train"), images[:1400], labels[:1400], steps=200, batch=64)
    assert np.mean(losses[-10:]) < 0.35 < losses[0]
    guesses = dnp.argmax(network("test")[1](params, images[1400:]), -1)
    assert float((guesses == labels[1400:]).mean()) > 0.85


@pytest.mark.ci  # whole programs
def test_a_convolutional_network_learns_digits() -> None:
    images, labels = digits()
    network = stax.serial(
        stax.Conv(8, (3, 3), padding="SAME"), stax.BatchNorm(), stax.Relu, stax.MaxPool((2, 2), (2, 2)),
        stax.Flatten, stax.Dense(10), stax.LogSoftmax,
    )  # fmt: skip
    _, losses = trained(network, images[..., None], labels, steps=80, batch=64)
    assert np.mean(losses[-10:]) < 0.4


def test_identity_takes_anything() -> None:
    """Libraries send it tuples with None in them."""
    assert stax.Identity[1]((), (1.0, None)) == (1.0, None)


@pytest.mark.parametrize("filters", [(3,), (3, 3, 3)])
def test_filters_have_a_length_for_each_axis(filters: Any) -> None:
    match = r"axes of filters: 'HWIO'(.|\n)*Pass a length for each"
    for layer in (stax.Conv, stax.ConvTranspose):
        with pytest.raises(ValueError, match=match):
            layer(4, filters)
