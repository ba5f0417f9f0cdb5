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
import jax.tree_util
import numpy as np
import pytest

import didax as dx
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


PROGRAMS: list[Callable[[Any], Any]] = [
    newton,
    convolutional_network,
    metropolis,
    gradients_of_examples,
    image_pipeline,
]


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


def test_initializers_have_the_default_dtype(x64: None):
    """They were 32 bits wide whatever enable_x64 said."""
    inits = dx.nn.initializers
    for init in [
        inits.zeros,
        inits.constant(1),
        inits.normal(),
        inits.truncated_normal(),
        inits.he_uniform(),
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
