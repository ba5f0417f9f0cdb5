"""Whole programs as users write them, run from one source under Didax and JAX: only the library differs.

Each program takes the library (`didax` or `jax`) and returns a pytree of results; results agree in structure, shapes,
dtypes and values. They mix what the other tests take apart: classes as pytrees, derivatives inside compiled steps,
updates of arrays in loops, NumPy data, random draws that decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.ad_checkpoint
import jax.example_libraries.stax
import jax.flatten_util
import jax.tree_util
import numpy as np
import pytest

import didax as dx
from didax.example_libraries import stax
from didax.flatten_util import ravel_pytree
from tests.checks import assert_close


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


# --- the programs ------------------------------------------------------------------------------------------------


def newton(lib: Any) -> Any:
    """Logistic regression by Newton's method; the linear system is solved by elimination with x.at[...]."""
    jnp = lib.numpy
    xs = normal(40, 3)
    ys = xs @ np.float32([1, -2, 0.5]) > 0.3 * normal(40, seed=1)

    def loss(w: Any) -> Any:
        scores = xs @ w
        return jnp.mean(jnp.logaddexp(0.0, scores) - ys * scores) + 0.01 * jnp.sum(w**2)

    def solve(matrix: Any, rhs: Any) -> Any:
        rows = jnp.concatenate([matrix, rhs[:, None]], axis=1)
        for i in range(len(rows)):
            rows = rows.at[i].divide(rows[i, i])
            others = rows[:, i].at[i].set(0.0)
            rows = rows - jnp.outer(others, rows[i])
        return rows[:, -1]

    @lib.jit
    def step(w: Any) -> Any:
        gradient = lib.grad(loss)(w)
        return w - solve(lib.hessian(loss)(w), gradient), jnp.abs(gradient).max()

    w, sizes = jnp.zeros(3), []
    for _ in range(5):
        w, size = step(w)
        sizes.append(size)
    return {"w": w, "accuracy": jnp.mean((xs @ w > 0) == ys), "converged": sizes[-1] < 1e-5}


class Adam(NamedTuple):
    mean: Any
    square: Any
    step: Any


def convolutional_network(lib: Any) -> Any:
    """Convolutions, both ways of pooling, Adam over a pytree, auxiliary results, a static argument."""
    jnp, lax, nn, random, tree = lib.numpy, lib.lax, lib.nn, lib.random, lib.tree
    images = normal(6, 4, 4, 1)
    labels = np.arange(6) % 3
    glorot = nn.initializers.glorot_normal()
    key_conv, key_dense = random.split(random.PRNGKey(0))
    params = {
        "conv": {"w": glorot(key_conv, (3, 3, 1, 4)), "b": jnp.zeros(4)},
        "dense": (glorot(key_dense, (4, 3)), jnp.zeros(3)),
    }

    def network(params: Any, x: Any) -> Any:
        x = lax.conv_general_dilated(
            x, params["conv"]["w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = nn.gelu(x + params["conv"]["b"])
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        weights, biases = params["dense"]
        return x.reshape(len(x), 2, 2, -1).max(axis=(1, 2)) @ weights + biases

    def loss(params: Any, x: Any, y: Any) -> Any:
        log_p = nn.log_softmax(network(params, x))
        return -jnp.mean(jnp.sum(log_p * nn.one_hot(y, 3), axis=-1)), log_p.argmax(-1)

    @partial(lib.jit, static_argnames="rate")
    def train_step(params: Any, state: Adam, rate: float) -> Any:
        (value, guesses), grads = lib.value_and_grad(loss, has_aux=True)(params, images, labels)
        step = state.step + 1
        mean = tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, grads)
        square = tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, state.square, grads)
        scale = jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        params = tree.map(lambda p, m, s: p - rate * scale * m / (jnp.sqrt(s) + 1e-5), params, mean, square)
        return params, Adam(mean, square, step), value, guesses

    zeros = tree.map(jnp.zeros_like, params)
    state, values = Adam(zeros, zeros, 0), []
    for _ in range(3):
        params, state, value, guesses = train_step(params, state, rate=1e-2)
        values.append(value)
    return {"losses": jnp.stack(values), "params": params, "step": state.step, "guesses": guesses}


def metropolis(lib: Any) -> Any:
    """Chains of a random walk under jit(vmap), where a `cond` on a draw accepts or rejects."""
    jnp, lax, random = lib.numpy, lib.lax, lib.random

    def log_density(x: Any) -> Any:
        return jnp.logaddexp(-0.5 * jnp.sum((x - 2) ** 2), -0.5 * jnp.sum((x + 2) ** 2))

    def step(key: Any, x: Any, scale: float) -> Any:
        key_move, key_accept = random.split(key)
        moved = x + scale * random.normal(key_move, x.shape)
        accepted = random.uniform(key_accept) < jnp.exp(log_density(moved) - log_density(x))
        return lax.cond(accepted, lambda: (moved, 1), lambda: (x, 0))

    walk = lib.jit(lib.vmap(step, in_axes=(0, 0, None)))
    key, xs, accepted = random.PRNGKey(7), jnp.zeros((4, 2)), 0
    for i in range(10):
        key = random.fold_in(key, i)
        xs, moves = walk(random.split(key, len(xs)), xs, 0.7)
        accepted += moves
    return {"xs": xs, "accepted": accepted, "share": np.mean(accepted) / 10}


def gradients_of_examples(lib: Any) -> Any:
    """vmap(grad) of a model made of registered dataclasses, against vjp, jvp and the Jacobian of the whole batch."""
    jnp, tree = lib.numpy, lib.tree

    @lib.tree_util.register_dataclass
    @dataclass
    class Linear:
        w: Any
        b: Any
        activation: str = field(default="tanh", metadata={"static": True})

        def __call__(self, x: Any) -> Any:
            return getattr(jnp, self.activation)(x @ self.w + self.b)

    params = {
        "layers": [Linear(normal(3, 4), normal(4)), Linear(normal(4, 2), normal(2), "sin")],
        "scale": 0.5,
    }
    batch = {"x": normal(5, 3), "y": normal(5, 2), "weight": 2.0}
    axes = {"x": 0, "y": 0, "weight": None}

    def loss(params: Any, example: Any) -> Any:
        x = example["x"]
        for layer in params["layers"]:
            x = layer(x)
        return params["scale"] * jnp.sum((x - example["y"]) ** 2) * example["weight"]

    def losses(params: Any) -> Any:
        return lib.vmap(loss, in_axes=(None, axes))(params, batch)

    @lib.jit
    def derivatives(params: Any) -> Any:
        tangents = tree.map(jnp.ones_like, params)
        values, change = lib.jvp(losses, (params,), (tangents,))
        (pulled,) = lib.vjp(losses, params)[1](values)
        per_example = lib.vmap(lib.grad(loss), in_axes=(None, axes))(params, batch)
        return values, change, pulled, per_example, lib.jacrev(losses)(params)

    values, change, pulled, per_example, jacobian = derivatives(params)
    pairing = sum(jnp.sum(leaf) for leaf in tree.leaves(pulled)) - jnp.vdot(values, change)
    paths = [lib.tree_util.keystr(path) for path, _ in lib.tree_util.tree_flatten_with_path(params)[0]]
    differences = tree.map(lambda a, b: jnp.abs(a - b).max(), per_example, jacobian)
    small = [pairing < 1e-4, max(tree.leaves(differences)) < 1e-5]
    return {
        "values": values,
        "change": change,
        "pulled": tree.leaves(pulled),
        "per_example": tree.leaves(per_example),
        "small": [bool(x) for x in small],
        "paths": [len(path) for path in paths],
    }


def image_pipeline(lib: Any) -> Any:
    """Indexing of every kind, updates, blurring, histograms, order statistics."""
    jnp, lax = lib.numpy, lib.lax
    images = np.round(8 + 3 * normal(3, 6, 6)).clip(0, 16)

    @lib.jit
    def fixed_shapes(stack: Any, i: Any) -> Any:
        image = stack[0]
        kernel = jnp.outer(jnp.array([1, 2, 1]), jnp.array([1, 2, 1])) / 16
        padded = jnp.pad(image, 1, mode="edge")
        return {
            "blur": lax.conv_general_dilated(stack[:, None], kernel[None, None], (1, 1), "SAME")[:, 0],
            "edges": padded[:-2, 1:-1] - padded[2:, 1:-1],
            "histogram": jnp.zeros(17, int).at[image.astype(int)].add(1),
            "halved": image.reshape(3, 2, 3, 2).mean((1, 3)),
            "crops": (
                image[2:5, ::-1],
                stack[..., 0],
                image[None, :, jnp.newaxis, 3],
                image[i],
                image[-i, i],
            ),
            "changed": image.at[1:3, ::2].multiply(2).at[-1].min(3.0).at[:, 0].max(5.0).at[i].set(0),
            "outside": image.at[jnp.array([100, i])].get(mode="fill", fill_value=-1.0),
            "masked": jnp.where(image > 8, image, 0),
            "turned": jnp.rot90(jnp.roll(image, (1, -2), (0, 1))).T[::2],
            "ordered": (jnp.sort(image, axis=1)[:, ::-1], jnp.median(stack, axis=0), jnp.argmax(image, 1)),
            "picked": lib.vmap(lambda x, j: x[j, j])(stack, jnp.array([1, 2, 3])),
        }

    image = jnp.asarray(images[0])
    bright = image[image > 8]
    where = jnp.argwhere(image > 8)
    bytes_ = (image * 16).astype(jnp.uint8)
    return {
        "fixed": fixed_shapes(images, 2),
        "chosen": (bright, where, image.at[image > 10].set(1.0)),
        "bytes": (bytes_ + np.uint8(250), bytes_ >> 2, bytes_ / 2, ~bytes_, bytes_.sum()),
        "interop": np.hypot(image, 1.0)[jnp.int32(1)] + np.float32(image[0, 0]),
    }


def equilibrium_model(lib: Any) -> Any:
    """A layer defined as a fixed point: found by a while_loop, differentiated by its equation, batched and trained."""
    jnp, lax = lib.numpy, lib.lax

    def iterate(f: Any, z: Any) -> Any:
        def unsettled(carry: Any) -> Any:
            previous, z, i = carry
            return jnp.logical_and(jnp.linalg.norm(previous - z) > 1e-5, i < 100)

        return lax.while_loop(unsettled, lambda c: (c[1], f(c[1]), c[2] + 1), (z, f(z), 0))[1]

    @partial(lib.custom_vjp, nondiff_argnums=(0, 1))
    def layer(solver: Any, f: Any, params: Any, x: Any) -> Any:
        return solver(lambda z: f(params, x, z), jnp.zeros_like(x))

    def layer_fwd(solver: Any, f: Any, params: Any, x: Any) -> Any:
        z = layer(solver, f, params, x)
        return z, (params, x, z)

    def layer_bwd(solver: Any, f: Any, residuals: Any, ct: Any) -> Any:
        params, x, z = residuals
        _, pull_inputs = lib.vjp(lambda params, x: f(params, x, z), params, x)
        _, pull_state = lib.vjp(lambda z: f(params, x, z), z)
        return pull_inputs(solver(lambda u: pull_state(u)[0] + ct, jnp.zeros_like(z)))

    layer.defvjp(layer_fwd, layer_bwd)

    def cell(params: Any, x: Any, z: Any) -> Any:
        return jnp.tanh(z @ params["w"] + x @ params["u"] + params["b"])

    def loss(params: Any, xs: Any, labels: Any) -> Any:
        z = lib.vmap(lambda x: layer(iterate, cell, params, x))(xs)
        return -jnp.take_along_axis(lib.nn.log_softmax(z @ params["out"]), labels[:, None], axis=1).mean()

    @lib.jit
    def step(params: Any, xs: Any, labels: Any) -> Any:
        value, grads = lib.value_and_grad(loss)(params, xs, labels)
        return lib.tree.map(lambda p, g: p - 0.5 * g, params, grads), value

    w_key, u_key = lib.random.split(lib.random.key(1))
    orthogonal = lib.nn.initializers.orthogonal
    params = {"w": orthogonal(0.3)(w_key, (6, 6)), "u": orthogonal()(u_key, (6, 6)), "b": jnp.zeros(6)}
    params["out"] = normal(6, 3)
    xs, labels, values = normal(8, 6), np.arange(8) % 3, []
    for _ in range(4):
        params, value = step(params, xs, labels)
        values.append(value)
    return {"params": params, "values": jnp.stack(values), "decreased": values[-1] < values[0]}


class LSTMState(NamedTuple):
    h: Any
    c: Any


def language_model(lib: Any) -> Any:
    """An LSTM over text: scan of a checkpointed step with dropout, gradients clipped inside, donated parameters."""
    jnp, lax, nn, random, tree = lib.numpy, lib.lax, lib.nn, lib.random, lib.tree
    text = "the cat sat on the mat and the dog sat on the cat " * 2
    letters = sorted(set(text))
    tokens = np.array([letters.index(c) for c in text], "int32").reshape(4, -1)
    width = 8

    @partial(lib.custom_vjp, nondiff_argnums=(1,))
    def clip_gradient(x: Any, bound: float) -> Any:
        return x

    clip_gradient.defvjp(
        lambda x, bound: (x, ()), lambda bound, _, ct: (tree.map(lambda g: jnp.clip(g, -bound, bound), ct),)
    )

    def cell(params: Any, state: LSTMState, x: Any) -> LSTMState:
        gates = lib.ad_checkpoint.checkpoint_name(
            x @ params["wi"] + state.h @ params["wh"] + params["b"], "gates"
        )
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        c = nn.sigmoid(f + 1.0) * state.c + nn.sigmoid(i) * jnp.tanh(g)
        return LSTMState(nn.sigmoid(o) * jnp.tanh(c), c)

    policy = lib.checkpoint_policies.save_only_these_names("gates")

    def loss(params: Any, tokens: Any, key: Any) -> Any:
        @partial(lib.checkpoint, policy=policy, prevent_cse=False)
        def step(state: LSTMState, inputs: Any) -> Any:
            x, key = inputs
            x = jnp.where(random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)
            state = clip_gradient(cell(params["lstm"], state, x), 1e-3)
            return state, state.h

        xs, zero = params["embed"][tokens[:, :-1]].swapaxes(0, 1), jnp.zeros((len(tokens), width))
        _, hs = lax.scan(step, LSTMState(zero, zero), (xs, random.split(key, len(xs))))
        logits = lax.transpose(hs, (1, 0, 2)) @ params["out"]
        return -jnp.mean(jnp.sum(nn.one_hot(tokens[:, 1:], len(letters)) * nn.log_softmax(logits), -1))

    @partial(lib.jit, donate_argnames=("params",), static_argnames=("rate",))
    def train_step(params: Any, key: Any, *, rate: float) -> Any:
        value, grads = lib.value_and_grad(loss)(params, tokens, key)
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in tree.leaves(grads)))
        return tree.map(lambda p, g: p - rate * g * jnp.minimum(1.0, 1.0 / norm), params, grads), (
            value,
            norm,
        )

    params = {
        "embed": normal(len(letters), width),
        "lstm": {
            "wi": normal(width, 4 * width),
            "wh": normal(width, 4 * width, seed=1),
            "b": normal(4 * width),
        },
        "out": normal(width, len(letters)),
    }
    params, key = tree.map(jnp.asarray, params), random.key(0)
    values = []
    for i in range(4):
        params, value = train_step(params, random.fold_in(key, i), rate=0.5)
        values.append(value)
    return {"values": values, "params": params}


PROGRAMS: list[Callable[[Any], Any]] = [
    newton,
    convolutional_network,
    metropolis,
    gradients_of_examples,
    image_pipeline,
    equilibrium_model,
    language_model,
]


@pytest.mark.ci  # whole programs
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_gives_what_it_gives_under_jax(program: Callable[[Any], Any]):
    ours, wanted = program(dx), program(jax)
    assert_close(ours, jax.tree.map(np.asarray, wanted), rtol=1e-3, atol=1e-4)


# --- what these programs and their like have found -------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "lecun_normal"]
)
def test_initializers_draw_what_those_of_jax_draw(name: str):
    """The normal ones drew from the whole normal distribution, not from the truncated one."""
    shape = (3, 3, 2, 4)
    ours = getattr(dx.nn.initializers, name)(batch_axis=0)(dx.random.PRNGKey(1), shape)
    wanted = getattr(jax.nn.initializers, name)(batch_axis=0)(jax.random.PRNGKey(1), shape)
    assert_close(ours, np.asarray(wanted), rtol=1e-5)


@pytest.mark.parametrize("name", ["glorot_uniform", "lecun_normal"])
def test_complex_weights_are_those_of_jax(name: str):
    """Uniform in a disk, or normal and cut off at a radius of two deviations."""
    ours = getattr(dx.nn.initializers, name)()(dx.random.key(1), (3, 4), "complex64")
    wanted = getattr(jax.nn.initializers, name)()(jax.random.key(1), (3, 4), "complex64")
    assert_close(ours, np.asarray(wanted), rtol=1e-4)


@pytest.mark.parametrize("shape, axis", [((4, 3), -1), ((3, 4), -1), ((2, 3, 4), 0), ((5, 2, 2), 1)])
def test_orthogonal_weights_are_those_of_jax(shape: tuple[int, ...], axis: int):
    ours = dx.nn.initializers.orthogonal(2.0, axis)(dx.random.key(1), shape)
    wanted = jax.nn.initializers.orthogonal(2.0, axis)(jax.random.key(1), shape)
    assert_close(ours, np.asarray(wanted), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"two axes or more.\n  shape: \(3,\)"):
        dx.nn.initializers.orthogonal()(dx.random.key(1), (3,))


def test_a_stax_model_starts_where_that_of_jax_does():
    """Keys were split once for all layers: other parameters for the same key."""

    def parameters(lib: Any, stax: Any) -> Any:
        model = stax.serial(
            stax.Dense(4), stax.Tanh, stax.FanOut(2), stax.parallel(stax.Dense(3), stax.Dense(2))
        )
        return model[0](lib.random.key(0), (-1, 2))[1]

    ours, wanted = parameters(dx, stax), parameters(jax, jax.example_libraries.stax)
    assert_close(ours, jax.tree.map(np.asarray, wanted), rtol=1e-5)


@pytest.mark.parametrize(
    "pytree",
    [{}, {"a": 1, "b": 2.5}, [np.ones((2, 2), "int8"), (np.ones(3, "float16"),)], 3.0, [np.int32([1]), True]],
    ids=str,
)
def test_raveled_pytrees_are_those_of_jax(pytree: Any):
    flat, unravel = ravel_pytree(pytree)
    wanted, wanted_unravel = jax.flatten_util.ravel_pytree(pytree)
    assert flat.dtype == wanted.dtype
    assert_close(flat, np.asarray(wanted))
    assert_close(unravel(flat), jax.tree.map(np.asarray, wanted_unravel(wanted)))


def test_unravel_takes_traced_vectors_of_its_size_and_dtype():
    flat, unravel = ravel_pytree({"w": np.ones((2, 2), "float32"), "b": np.float32(3)})
    gradient = dx.jit(dx.grad(lambda v: (unravel(v)["w"] ** 2).sum()))(flat)
    assert gradient.tolist() == [0, 2, 2, 2, 2]
    assert dx.vmap(unravel)(np.ones((3, 5), "float32"))["w"].shape == (3, 2, 2)
    with pytest.raises(ValueError, match=r"given: float32\[4\], wanted: float32\[5\]"):
        unravel(flat[:4])
    assert unravel(flat.astype("int32"))["w"].dtype == "int32"  # leaves of one dtype take that of the vector
    flat, unravel = ravel_pytree({"w": np.ones((2, 2), "float32"), "b": np.int32(3)})
    with pytest.raises(TypeError, match=r"given: int32\[5\], wanted: float32\[5\]"):
        unravel(flat.astype("int32"))


def test_jacobian_is_the_name_of_jacrev():
    assert dx.jacobian(lambda x: x * x)(dx.numpy.array([1.0, 2.0])).tolist() == [[2, 0], [0, 4]]


def test_initializers_have_the_default_dtype(x64: None):
    """They were 32 bits wide whatever enable_x64 said."""
    inits = dx.nn.initializers
    for init in [
        inits.zeros,
        inits.constant(1),
        inits.normal(),
        inits.truncated_normal(),
        inits.he_uniform(),
        inits.orthogonal(),
    ]:
        assert init(dx.random.key(0), (2, 2)).dtype == np.float64


def test_window_with_too_few_entries_is_named():
    """With padding by name the error was that of zip."""
    with pytest.raises(ValueError, match="takes one entry per axis of its operand") as caught:
        dx.lax.reduce_window(np.ones((2, 3), "float32"), 0.0, dx.lax.add, (2,), (1,), "VALID")
    assert "window_dimensions: (2,)" in str(caught.value)


def test_windows_move_by_one_without_padding_unless_told():
    x = normal(4, 5)
    ours = dx.lax.reduce_window(x, 0.0, dx.lax.add, (2, 3))
    assert_close(ours, np.asarray(jax.lax.reduce_window(x, 0.0, jax.lax.add, (2, 3))), rtol=1e-5)


def test_shape_of_floats_is_named_by_the_sampler():
    """The error was that of operator.index."""
    with pytest.raises(TypeError, match=r"normal takes a shape of integers.\n  shape: \(2.0,\)\nPass an int"):
        dx.random.normal(dx.random.key(0), (2.0,))
