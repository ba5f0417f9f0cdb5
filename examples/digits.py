"""Train a small network on handwritten digits: `make demo`.

1,797 real images of 8 x 8 pixels (scikit-learn ships them; nothing is downloaded) are learned by a two-layer perceptron
with dropout. The loss is written for one image; `vmap` makes it a loss over a minibatch, `value_and_grad`
differentiates it, `jit` compiles the whole training step. Prints the accuracy on images held out and writes a
picture: the loss curve and a page of test digits with what the network takes them for.

    python examples/digits.py [--epochs 40] [--seed 0] [--picture out/digits.png]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import didax as dx
import didax.numpy as dnp
from didax import nn, random, tree

WIDTHS = (64, 256, 128, 10)
KEEP = 0.7  # share of hidden units that dropout keeps
BATCH = 64
LEARNING_RATE = 2e-3


# --- the model, for one image ------------------------------------------------------------------------------------


def init_params(key: dx.Array) -> list[dict[str, dx.Array]]:
    """Weights and biases of every layer."""
    keys = random.split(key, len(WIDTHS) - 1)
    he = nn.initializers.he_normal()
    return [
        {"w": he(k, (n_in, n_out)), "b": dnp.zeros(n_out)}
        for k, n_in, n_out in zip(keys, WIDTHS[:-1], WIDTHS[1:], strict=True)
    ]


def logits(params: Any, image: dx.Array, key: dx.Array | None = None) -> dx.Array:
    """Scores of the ten digits for one image; with a key, hidden units are dropped at random."""
    x = image
    for i, layer in enumerate(params):
        x = x @ layer["w"] + layer["b"]
        if i < len(params) - 1:
            x = nn.relu(x)
            if key is not None:
                key, draw = random.split(key)
                x = dnp.where(random.bernoulli(draw, KEEP, x.shape), x / KEEP, 0.0)
    return x


def loss(params: Any, image: dx.Array, label: dx.Array, key: dx.Array) -> dx.Array:
    """Cross entropy of one image."""
    return -nn.log_softmax(logits(params, image, key))[label]


# --- training ----------------------------------------------------------------------------------------------------


def batch_loss(params: Any, images: dx.Array, labels: dx.Array, key: dx.Array) -> dx.Array:
    """Mean loss of a minibatch; each image drops its own units."""
    keys = random.split(key, len(labels))
    return dx.vmap(loss, in_axes=(None, 0, 0, 0))(params, images, labels, keys).mean()


class Adam(NamedTuple):
    """State of the optimiser (Kingma and Ba, 2015): running means of the gradient and its square."""

    mean: Any
    square: Any
    step: dx.Array


def init_adam(params: Any) -> Adam:
    """The state before the first step."""
    zeros = tree.map(dnp.zeros_like, params)
    return Adam(zeros, zeros, dnp.float32(0))


@dx.jit
def train_step(params: Any, state: Adam, images: dx.Array, labels: dx.Array, key: dx.Array) -> Any:
    """One step of Adam on one minibatch."""
    value, grads = dx.value_and_grad(batch_loss)(params, images, labels, key)
    step = state.step + 1
    mean = tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, grads)
    square = tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state.square, grads)
    rate = LEARNING_RATE * dnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    params = tree.map(lambda p, m, s: p - rate * m / (dnp.sqrt(s) + 1e-8), params, mean, square)
    return params, Adam(mean, square, step), value


@dx.jit
def predict(params: Any, images: dx.Array) -> dx.Array:
    """The most likely digit of each image."""
    return dx.vmap(logits, in_axes=(None, 0))(params, images).argmax(axis=1)


def minibatches(count: int, rng: np.random.Generator) -> Iterator[np.ndarray[Any, Any]]:
    """Positions of one epoch's minibatches, all of one size so that one program serves them."""
    order = rng.permutation(count)
    for start in range(0, count - BATCH + 1, BATCH):
        yield order[start : start + BATCH]


def train(images: Any, labels: Any, epochs: int, seed: int) -> tuple[Any, list[float]]:
    """Trained parameters and the loss of every step."""
    key, draw = random.split(random.key(seed))
    params = init_params(draw)
    state = init_adam(params)
    rng = np.random.default_rng(seed)
    losses: list[dx.Array] = []
    columns = TextColumn("training"), BarColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn()
    with Progress(*columns) as progress:
        task = progress.add_task("training", total=epochs, note="compiling")
        for epoch in range(epochs):
            for batch in minibatches(len(labels), rng):
                key, draw = random.split(key)
                params, state, value = train_step(params, state, images[batch], labels[batch], draw)
                losses.append(value)
            progress.update(task, advance=1, note=f"epoch {epoch + 1}/{epochs}, loss {float(value):.3f}")
    return params, [float(value) for value in losses]


# --- the picture -------------------------------------------------------------------------------------------------


def draw(path: Path, losses: list[float], images: Any, labels: Any, guesses: Any, accuracy: float) -> None:
    """The loss curve beside a page of test digits; wrong guesses first, in red."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(13, 6.5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.25))
    axes = left.subplots()
    smooth = np.convolve(losses, np.ones(20) / 20, mode="valid")
    axes.semilogy(losses, color="0.8", linewidth=0.7, label="each minibatch")
    axes.semilogy(np.arange(len(smooth)) + 19, smooth, color="C0", label="mean of 20")
    axes.set(xlabel="step", ylabel="cross entropy", title="Training loss")
    axes.legend()
    order = np.argsort(guesses == labels, kind="stable")[:60]
    right.suptitle(f"Test digits: {accuracy:.1%} right; wrong ones marked (guess, truth)")
    for axis, i in zip(right.subplots(6, 10).flat, order, strict=True):
        wrong = guesses[i] != labels[i]
        axis.imshow(images[i].reshape(8, 8), cmap="gray_r")
        axis.set_title(f"{guesses[i]}, not {labels[i]}" if wrong else str(guesses[i]), fontsize=8, pad=2)
        axis.title.set_color("red" if wrong else "black")
        axis.set(xticks=[], yticks=[])
        for side in axis.spines.values():
            side.set(color="red" if wrong else "0.8", linewidth=2 if wrong else 0.5)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("out/digits.png"))
    options = parser.parse_args()
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    split = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    train_images, test_images, train_labels, test_labels = split
    started = time.perf_counter()
    params, losses = train(train_images, train_labels, options.epochs, options.seed)
    seconds = time.perf_counter() - started
    guesses = np.asarray(predict(params, test_images))
    accuracy = float(np.mean(guesses == test_labels))
    print(
        f"{len(losses)} steps on {len(train_labels)} images in {seconds:.1f} s (tracing and compiling included)"
    )
    print(f"accuracy on {len(test_labels)} images held out: {accuracy:.1%}")
    draw(options.picture, losses, test_images, test_labels, guesses, accuracy)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
