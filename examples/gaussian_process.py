"""Draw a map from 500 measurements: Gaussian process regression, its kernel learned by the marginal likelihood.

Matplotlib ships a real map of elevations, near Jacksboro, Tennessee. The program sees 500 points of it. The kernel is
written for two points; two `vmap`s make it a matrix; `grad` goes through the Cholesky factorisation to the kernel's
parameters. Prints the error on the rest of the map, beside that of the nearest measurement, and how often the truth
lies in the interval of 95 %. Writes a picture: the map, the prediction and what the prediction does not know.
The method: Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, algorithm 2.1.

    python examples/gaussian_process.py [--points 500] [--steps 100] [--seed 0] [--picture out/gaussian_process.png]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import cbook
from matplotlib.figure import Figure
from rich.progress import track

import didax as dx
import didax.numpy as dnp
from didax import random, tree
from didax.example_libraries import optimizers
from didax.scipy.linalg import cho_solve, solve_triangular

EVERY = 4  # of the map, every fourth row and column is predicted


# --- the model ---------------------------------------------------------------------------------------------------


def kernel(params: Any, x: dx.Array, y: dx.Array) -> dx.Array:
    """The covariance of the elevations at two points: rational quadratic, a mixture of all length scales."""
    squared_distance = (((x - y) / params["length"]) ** 2).sum()
    return params["deviation"] ** 2 * (1 + squared_distance / (2 * params["shape"])) ** -params["shape"]


def covariance(params: Any, xs: dx.Array, ys: dx.Array) -> dx.Array:
    """The kernel of every point of `xs` with every point of `ys`."""
    return dx.vmap(lambda x: dx.vmap(lambda y: kernel(params, x, y))(ys))(xs)


def factor(params: Any, xs: dx.Array) -> dx.Array:
    """The Cholesky factor of the covariance of measurements, each of which has noise."""
    return dnp.linalg.cholesky(covariance(params, xs, xs) + params["noise"] ** 2 * dnp.eye(len(xs)))


def loss(log_params: Any, xs: dx.Array, heights: dx.Array) -> dx.Array:
    """Minus the log marginal likelihood of one measurement, on average."""
    root = factor(tree.map(dnp.exp, log_params), xs)
    whitened = solve_triangular(root, heights, lower=True)
    return (0.5 * whitened @ whitened + dnp.log(dnp.diagonal(root)).sum()) / len(xs) + 0.5 * np.log(2 * np.pi)


@dx.jit
def predict(params: Any, xs: dx.Array, heights: dx.Array, where: dx.Array) -> tuple[dx.Array, dx.Array]:
    """Mean and standard deviation of a measurement at each point of `where`."""
    root = factor(params, xs)
    cross = covariance(params, where, xs)
    known = solve_triangular(root, cross.T, lower=True)
    variance = params["deviation"] ** 2 + params["noise"] ** 2 - (known**2).sum(axis=0)
    return cross @ cho_solve((root, True), heights), dnp.sqrt(variance)


# --- learning ----------------------------------------------------------------------------------------------------


def learn(xs: dx.Array, heights: dx.Array, steps: int) -> Any:
    """The kernel's parameters that make the measurements most likely."""
    start = {"length": 0.1, "deviation": 1.0, "shape": 1.0, "noise": 0.1}
    init, update, parameters = optimizers.adam(0.05)

    @dx.jit
    def step(i: int, state: Any) -> Any:
        return update(i, dx.grad(loss)(parameters(state), xs, heights), state)

    state = init(tree.map(lambda x: dnp.log(dnp.float32(x)), start))
    for i in track(range(steps), "learning the kernel"):
        state = step(i, state)
    return tree.map(dnp.exp, parameters(state))


# --- the picture -------------------------------------------------------------------------------------------------


def draw(path: Path, elevation: Any, pixels: Any, mean: Any, deviation: Any) -> None:
    """The truth with the points that were measured, the prediction, and its uncertainty."""
    figure = Figure(figsize=(13, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    levels = {"cmap": "terrain", "vmin": elevation.min(), "vmax": elevation.max()}
    left.imshow(elevation, **levels)
    left.plot(pixels[:, 1], pixels[:, 0], ".", color="black", markersize=2)
    left.set_title(f"The map, measured at {len(pixels)} points")
    figure.colorbar(middle.imshow(mean, **levels), ax=(left, middle), label="metres")
    middle.set_title("The prediction")
    figure.colorbar(right.imshow(deviation, cmap="magma"), ax=right, label="metres")
    right.set_title("Its standard deviation")
    for axes in (left, middle, right):
        axes.set(xticks=[], yticks=[])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw a map from a few measurements.")
    parser.add_argument("--points", type=int, default=500)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("out/gaussian_process.png"))
    options = parser.parse_args()
    elevation = cbook.get_sample_data("jacksboro_fault_dem.npz")["elevation"].astype(np.float32)
    size = max(elevation.shape)
    draws = random.choice(random.key(options.seed), elevation.size, (options.points,), replace=False)
    pixels = np.stack(np.unravel_index(np.asarray(draws), elevation.shape), axis=1)
    measured = elevation[tuple(pixels.T)]
    middle, scale = measured.mean(), measured.std()
    xs, heights = dnp.array(pixels / size, "float32"), dnp.array((measured - middle) / scale)

    started = time.perf_counter()
    params = learn(xs, heights, options.steps)
    truth = elevation[::EVERY, ::EVERY]
    grid = np.stack(np.indices(truth.shape), axis=-1).reshape(-1, 2) * EVERY
    mean, deviation = (np.asarray(x) for x in predict(params, xs, heights, np.float32(grid / size)))
    mean, deviation = middle + scale * mean.reshape(truth.shape), scale * deviation.reshape(truth.shape)
    seconds = time.perf_counter() - started

    nearest = measured[((grid[:, None] - pixels) ** 2).sum(axis=2).argmin(axis=1)].reshape(truth.shape)
    error, plain_error = (float(np.sqrt(np.mean((x - truth) ** 2))) for x in (mean, nearest))
    inside = float(np.mean(np.abs(truth - mean) < 1.96 * deviation))
    print(f"{options.steps} steps and {truth.size} predictions in {seconds:.1f} s")
    print("kernel:", ", ".join(f"{name} {float(value):.3g}" for name, value in params.items()))
    print(f"error of the prediction: {error:.1f} m; of the nearest measurement: {plain_error:.1f} m")
    print(f"within the interval of 95 %: {inside:.1%} of the map")
    draw(options.picture, elevation, pixels, mean, deviation)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
