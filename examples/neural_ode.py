"""The law of motion of a nerve cell, learned from its recording: a neural differential equation by the adjoint.

Matplotlib ships the recording. The potential now and at two moments before is a point in space, which moves along a
closed path; a perceptron tells its velocity everywhere, and `odeint` follows it. The gradient of `odeint` is another
differential equation, solved backwards: the adjoint, whose memory does not grow with the number of steps. Prints how
far it is from the gradient by backpropagation through the steps of a plain solver, and how well the learned law goes
on where nothing was learned. Writes a picture. The method: Chen et al. (2018), Neural ordinary differential equations.

    python examples/neural_ode.py [--steps 600] [--seed 0] [--picture out/neural_ode.png]
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import cbook
from matplotlib.figure import Figure
from rich.progress import track
from scipy.ndimage import gaussian_filter1d

import didax as dx
import didax.numpy as dnp
from didax import flatten_util, lax, nn, random
from didax.example_libraries import optimizers
from didax.experimental.ode import odeint

START, NOW, END = 3000, 6000, 7000  # of 12,000 samples: in these the cell fires in rhythm
MERGED, DELAY = 4, 4  # samples become one value; a point is three values, so many apart
WIDTH, LENGTH, BATCH = 48, 12, 32
UNIT = 5.0  # values in a unit of time, in which the point moves by about 1


def init_params(key: dx.Array) -> Any:
    """Weights and biases of the perceptron."""
    he, widths = nn.initializers.he_normal(), (3, WIDTH, WIDTH, 3)
    keys = random.split(key, 3)
    return [(he(k, pair), dnp.zeros(pair[1])) for k, pair in zip(keys, pairwise(widths), strict=True)]


def velocity(point: dx.Array, _: dx.Array, params: Any) -> dx.Array:
    """Where the point goes. The law is the same at all times."""
    *hidden, (weights, bias) = params
    for w, b in hidden:
        point = nn.tanh(point @ w + b)
    return point @ weights + bias


def follow(params: Any, start: dx.Array, times: dx.Array, tolerance: float = 1e-3) -> dx.Array:
    """Where the point is at the times, by a solver whose gradient is the adjoint equation."""
    return odeint(velocity, start, times, params, rtol=tolerance, atol=tolerance)


def follow_by_steps(params: Any, start: dx.Array, times: dx.Array) -> dx.Array:
    """The same by eight steps of Runge and Kutta from time to time, whose gradient goes back through every step."""
    h = (times[1] - times[0]) / 8

    def step(point: dx.Array, _: None) -> tuple[dx.Array, None]:
        k1 = velocity(point, h, params)
        k2 = velocity(point + h / 2 * k1, h, params)
        k3 = velocity(point + h / 2 * k2, h, params)
        k4 = velocity(point + h * k3, h, params)
        return point + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    after = lambda point, _: (lax.scan(step, point, None, length=8)[0], point)
    return lax.scan(after, start, None, length=len(times))[1]


def loss(params: Any, paths: dx.Array, follow: Any) -> dx.Array:
    """The mean squared distance from recorded pieces of the path, each followed from its start."""
    times = dnp.arange(paths.shape[1]) / UNIT
    return ((dx.vmap(lambda path: follow(params, path[0], times))(paths) - paths) ** 2).mean()


def learn(points: Any, steps: int, seed: int) -> Any:
    """Parameters, trained on minibatches of pieces of the path."""
    init, update, parameters = optimizers.adam(optimizers.polynomial_decay(1e-2, steps, 1e-4))
    step = dx.jit(lambda i, state, paths: update(i, dx.grad(loss)(parameters(state), paths, follow), state))
    state, rng = init(init_params(random.key(seed))), np.random.default_rng(seed)
    for i in track(range(steps), "learning the law"):
        starts = rng.integers(len(points) - LENGTH, size=(BATCH, 1))
        state = step(i, state, points[starts + np.arange(LENGTH)])
    return parameters(state)


def difference_of_gradients(params: Any, paths: dx.Array) -> float:
    """How far the adjoint is from backpropagation, as a share of its length."""
    exact = lambda *args: follow(*args, tolerance=1e-6)
    ways = (
        dx.jit(lambda p, way=way: dx.grad(loss)(p, paths, way))(params) for way in (exact, follow_by_steps)
    )
    one, other = (flatten_util.ravel_pytree(gradient)[0] for gradient in ways)
    return float(dnp.linalg.norm(one - other) / dnp.linalg.norm(other))


def draw(path: Path, known: Any, future: Any, found: Any) -> None:
    """The path in space, recorded and by the learned law; and the potential on the way."""
    figure = Figure(figsize=(13, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 2.2))
    left.plot(known[:, 2], known[:, 0], ".", color="0.7", markersize=3, label="recorded, to learn from")
    left.plot(found[:, 2], found[:, 0], color="C1", label="the learned law")
    left.set(xlabel=f"potential {2 * DELAY * MERGED} samples before", ylabel="potential", ylim=(-1.5, 4))
    places = MERGED * np.arange(-150, len(future))
    right.plot(places, np.append(known[-150:, 0], future[:, 0]), color="black", label="recorded")
    right.plot(
        places[150:], found[:, 0], color="C1", linewidth=2, label="the learned law, from the dashed line on"
    )
    right.axvline(0, color="0.6", linestyle="--")
    right.set(xlabel="samples", ylabel="potential, standardised", title="What was never seen", ylim=(-1.5, 4))
    for axes in (left, right):
        axes.legend(loc="upper right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="A neural differential equation by the adjoint.")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("out/neural_ode.png"))
    options = parser.parse_args()
    with cbook.get_sample_data("membrane.dat") as file:
        record = np.frombuffer(file.read(), np.float32)[START:END].reshape(-1, MERGED).mean(axis=1)
    smooth = gaussian_filter1d(record, 1.2)
    values = (smooth - smooth.mean()) / smooth.std()
    points = np.stack([values[2 * DELAY :], values[DELAY:-DELAY], values[: -2 * DELAY]], axis=1)
    known, future = np.split(points, [(NOW - START) // MERGED - 2 * DELAY])
    started = time.perf_counter()
    params = learn(known, options.steps, options.seed)
    print(f"{options.steps} steps in {time.perf_counter() - started:.1f} s")
    paths = known[: BATCH * LENGTH].reshape(BATCH, LENGTH, 3)
    print(f"difference of the adjoint from backpropagation: {difference_of_gradients(params, paths):.6f}")
    found = np.asarray(dx.jit(follow)(params, future[0], np.arange(len(future)) / np.float32(UNIT)))
    error = np.sqrt(np.mean((found - future)[:, 0] ** 2))
    print(f"error on {MERGED * len(future)} samples never seen, in standard deviations: {error:.2f}")
    draw(options.picture, known, future, found)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
