"""Read handwritten digits with a convolutional network, and ask which strokes speak for a digit.

scikit-learn ships 1,797 images of 8 x 8 pixels. Two layers of convolution and max pooling and a dense layer are
written for one image; `vmap` makes them a network for a minibatch, and gives every image a random shift of its own.
Prints the accuracy on images held out, beside that of a linear classifier. Writes a picture: the errors during
training, and the digits most in doubt with what `grad` by the pixels tells: which ones speak for the guess.
The architecture: LeCun et al. (1998), Gradient-based learning applied to document recognition.

    python examples/cnn.py [--epochs 40] [--seed 0] [--picture out/cnn.png]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import didax as dx
import didax.numpy as dnp
from didax import lax, nn, random
from didax.example_libraries import optimizers

CHANNELS = 1, 16, 32  # of the image, and of what each convolution makes of it
BATCH = 50


def init_params(key: dx.Array) -> Any:
    """Kernels of 3 x 3 pixels, and the weights of the scores; each layer with its biases."""
    first, second = random.split(key)
    kernel = nn.initializers.he_normal(in_axis=1, out_axis=0)
    layer = lambda key, n_in, n_out: (kernel(key, (n_out, n_in, 3, 3)), dnp.zeros((n_out, 1, 1)))
    convolutions = [layer(first, *CHANNELS[:2]), layer(second, *CHANNELS[1:])]
    n_features = 2 * 2 * CHANNELS[-1]  # each pooling halves the 8 x 8 pixels
    return {"convolutions": convolutions, "scores": (dnp.zeros((n_features, 10)), dnp.zeros(10))}


def logits(params: Any, image: dx.Array) -> dx.Array:
    """Scores of the ten digits for one image."""
    x = image[None]  # channels, rows, columns
    for kernel, bias in params["convolutions"]:
        x = nn.relu(lax.conv(x[None], kernel, (1, 1), "SAME")[0] + bias)
        x = lax.reduce_window(x, -dnp.inf, lax.max, (1, 2, 2), (1, 2, 2))  # the largest of each 2 x 2
    weights, bias = params["scores"]
    return x.ravel() @ weights + bias


def loss(params: Any, image: dx.Array, label: dx.Array, key: dx.Array) -> dx.Array:
    """Cross entropy of one image, moved by at most one pixel along each axis."""
    moved = lax.dynamic_slice(dnp.pad(image, 1), random.randint(key, (2,), 0, 3), image.shape)
    return -nn.log_softmax(logits(params, moved))[label]


def train(images: Any, test_images: Any, labels: Any, test_labels: Any, epochs: int, seed: int) -> Any:
    """Trained parameters, and the accuracy on the images held out after each epoch."""
    count = len(images) // BATCH
    init, update, parameters = optimizers.adam(optimizers.polynomial_decay(3e-3, epochs * count, 1e-4))
    batch_loss = lambda params, *batch: dx.vmap(loss, in_axes=(None, 0, 0, 0))(params, *batch).mean()

    @dx.jit
    def step(i: int, state: Any, images: dx.Array, labels: dx.Array, key: dx.Array) -> Any:
        grads = dx.grad(batch_loss)(parameters(state), images, labels, random.split(key, BATCH))
        return update(i, grads, state)

    first, key = random.split(random.key(seed))
    state, rng = init(init_params(first)), np.random.default_rng(seed)
    accuracies = []
    for epoch in track(range(epochs), "learning to read"):
        for i, batch in enumerate(rng.permutation(len(images))[: count * BATCH].reshape(count, BATCH)):
            number = epoch * count + i
            state = step(number, state, images[batch], labels[batch], random.fold_in(key, number))
        accuracies.append(np.mean(guess(parameters(state), test_images) == test_labels))
    return parameters(state), np.array(accuracies)


@dx.jit
def guess(params: Any, images: dx.Array) -> dx.Array:
    """The most likely digit of each image."""
    return dx.vmap(logits, in_axes=(None, 0))(params, images).argmax(axis=1)


@dx.jit
def explain(params: Any, image: dx.Array) -> Any:
    """The two likeliest digits, their probabilities, and what each pixel adds to the first against the second."""
    probabilities, guesses = lax.top_k(nn.softmax(logits(params, image)), 2)
    lead = lambda image: logits(params, image)[guesses] @ dnp.array([1.0, -1.0])
    return guesses, probabilities, image * dx.grad(lead)(image)


def draw(path: Path, accuracies: Any, linear: float, images: Any, labels: Any, explained: Any) -> None:
    """Accuracy by epoch, and the images most in doubt over what their pixels say."""
    figure = Figure(figsize=(14, 4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.9))
    axes = left.subplots()
    axes.plot(np.arange(len(accuracies)) + 1, 100 * (1 - accuracies), color="C0", label="the network")
    axes.axhline(100 * (1 - linear), color="C1", linestyle="--", label="a linear classifier")
    axes.set(xlabel="epoch", ylabel="wrong, %", title="Images held out", yscale="log")
    axes.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    axes.legend()
    guesses, probabilities, influences = map(np.asarray, explained)
    order = np.argsort(probabilities[:, 0])[:8]
    right.suptitle(
        "The most doubtful digits (red: wrong). Blue speaks for the first guess, red for the second"
    )
    for i, (top, bottom) in zip(order, right.subplots(2, 8).T, strict=True):
        top.imshow(images[i], cmap="gray_r")
        top.set_title(f"a {labels[i]}", color="black" if labels[i] == guesses[i, 0] else "red")
        extent = abs(influences[i]).max()
        bottom.imshow(influences[i], cmap="RdBu", vmin=-extent, vmax=extent)
        said = zip(guesses[i], probabilities[i], strict=True)
        bottom.set_xlabel("\n".join(f"{digit}: {probability:.0%}" for digit, probability in said))
        for axes in (top, bottom):
            axes.set(xticks=[], yticks=[])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Read handwritten digits with a convolutional network.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("out/cnn.png"))
    options = parser.parse_args()
    digits = load_digits()
    images, labels = (digits.images / 16).astype(np.float32), digits.target.astype(np.int32)
    split = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    train_images, test_images, train_labels, test_labels = split
    started = time.perf_counter()
    params, accuracies = train(*split, options.epochs, options.seed)
    print(f"{options.epochs} epochs of {len(train_images)} images in {time.perf_counter() - started:.1f} s")
    linear = LogisticRegression(max_iter=2000).fit(train_images.reshape(-1, 64), train_labels)
    linear_accuracy = linear.score(test_images.reshape(-1, 64), test_labels)
    print(f"accuracy on {len(test_images)} images held out: {accuracies[-1]:.1%}")
    print(f"accuracy of a linear classifier: {linear_accuracy:.1%}")
    explained = dx.vmap(explain, in_axes=(None, 0))(params, test_images)
    draw(options.picture, accuracies, linear_accuracy, test_images, test_labels, explained)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
