"""Learn to draw digits: a variational autoencoder.

An encoder says where in a plane an image of a digit may lie, a decoder draws the image of a point of the plane. The
bound on the likelihood is written for one image, with one random point; `vmap` makes it one for a minibatch, in which
each image has its own key. Prints the bound on images held out, before and after training. Writes a picture: digits
drawn from the whole plane, and where the images held out lie.
The method: Kingma and Welling (2014), Auto-encoding variational Bayes.

    python examples/vae.py [--epochs 150] [--seed 0] [--picture out/vae.png]
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import didax as dx
import didax.numpy as dnp
from didax import nn, random
from didax.example_libraries import optimizers

ENCODER, DECODER = (64, 128, 4), (2, 128, 64)
BATCH = 64


def init_layers(key: dx.Array, widths: tuple[int, ...]) -> Any:
    """Weights and biases of a perceptron."""
    he, pairs = nn.initializers.he_normal(), list(pairwise(widths))
    return [(he(k, p), dnp.zeros(p[1])) for k, p in zip(random.split(key, len(pairs)), pairs, strict=True)]


def perceptron(layers: Any, x: dx.Array) -> dx.Array:
    for w, b in layers[:-1]:
        x = nn.gelu(x @ w + b)
    w, b = layers[-1]
    return x @ w + b


def encode(params: Any, image: dx.Array) -> tuple[dx.Array, dx.Array]:
    """Mean and logarithm of the deviation of the image's point in the plane."""
    mean, log_deviation = dnp.split(perceptron(params["encoder"], image), 2)
    return mean, log_deviation


def bound(params: Any, image: dx.Array, key: dx.Array) -> dx.Array:
    """A lower bound on the log likelihood of one image, whose pixels lie between 0 and 1."""
    mean, log_deviation = encode(params, image)
    point = mean + dnp.exp(log_deviation) * random.normal(key, mean.shape)
    scores = perceptron(params["decoder"], point)
    likelihood = (image * nn.log_sigmoid(scores) + (1 - image) * nn.log_sigmoid(-scores)).sum()
    divergence = (dnp.exp(2 * log_deviation) + mean**2 - 1 - 2 * log_deviation).sum() / 2
    return likelihood - divergence


@dx.jit
def mean_bound(params: Any, images: dx.Array, key: dx.Array) -> dx.Array:
    """The bound of an image on average."""
    return dx.vmap(bound, in_axes=(None, 0, 0))(params, images, random.split(key, len(images))).mean()


def train(images: Any, params: Any, epochs: int, seed: int) -> Any:
    """Trained parameters."""
    init, update, parameters = optimizers.adam(2e-3)
    loss = lambda params, images, key: -mean_bound(params, images, key)
    step = dx.jit(lambda i, state, *batch: update(i, dx.grad(loss)(parameters(state), *batch), state))
    state = init(params)
    rng = np.random.default_rng(seed)
    key = random.key(seed + 1)
    count = len(images) // BATCH
    for epoch in track(range(epochs), "learning to draw"):
        for i, batch in enumerate(rng.permutation(len(images))[: count * BATCH].reshape(count, BATCH)):
            number = epoch * count + i
            state = step(number, state, images[batch], random.fold_in(key, number))
    return parameters(state)


def draw(path: Path, params: Any, images: Any, labels: Any) -> None:
    """What is drawn at the points of a grid, and the points of the images."""
    side = np.linspace(-2, 2, 15)
    grid = np.stack(np.meshgrid(side, -side), axis=-1).astype(np.float32)
    drawn = np.asarray(nn.sigmoid(perceptron(params["decoder"], grid))).reshape(15, 15, 8, 8)
    figure = Figure(figsize=(12, 5.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.imshow(drawn.transpose(0, 2, 1, 3).reshape(120, 120), cmap="gray_r", extent=(-2, 2, -2, 2))
    left.set_title("What is drawn at each point")
    points, _ = dx.vmap(encode, in_axes=(None, 0))(params, images)
    shown = right.scatter(*np.asarray(points).T, c=labels, cmap="tab10", s=12, vmin=-0.5, vmax=9.5)
    figure.colorbar(shown, ax=right, ticks=range(10), label="digit")
    right.set(title="Where the images held out lie", aspect="equal")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Learn to draw digits.")
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("out/vae.png"))
    options = parser.parse_args()
    digits = load_digits()
    split = train_test_split(
        (digits.data / 16).astype(np.float32), digits.target, test_size=0.2, random_state=0
    )
    images, test_images, _, test_labels = split
    one, two, check = random.split(random.key(options.seed), 3)
    params = {"encoder": init_layers(one, ENCODER), "decoder": init_layers(two, DECODER)}
    before = mean_bound(params, test_images, random.clone(check))
    params = train(images, params, options.epochs, options.seed)
    after = mean_bound(params, test_images, check)
    print(f"log likelihood of an image held out is at least, before training: {float(before):.2f}")
    print(f"and after {options.epochs} epochs: {float(after):.2f}")
    draw(options.picture, params, test_images, test_labels)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
