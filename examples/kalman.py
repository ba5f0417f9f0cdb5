"""How unquiet is a stock? A Kalman filter and smoother without a loop over days, by `associative_scan`.

Matplotlib ships four years of Google's daily prices. The logarithm of a day's range, its highest price over its lowest,
is observed; behind it are two volatilities, one of which passes in days and one in months. `grad` goes through a
filter that goes day by day, a `lax.scan`, to the model's parameters. What days tell about later ones also composes
associatively: `lax.associative_scan` filters 1,047 days in a dozen rounds of small matrix products that may all run at
once, and smooths them too. Prints how far both filters differ, and how many ranges lay in the interval of 95 % told
the day before. Writes a picture. The scans: Särkkä and García-Fernández (2021).

    python examples/kalman.py [--days 1047] [--steps 200] [--picture out/kalman.png]
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
from didax import lax, nn, tree
from didax.example_libraries import optimizers

SEEN = np.ones(2, np.float32)  # the sum of both volatilities is observed, with noise


def model_of(params: Any) -> Any:
    """How a state moves on in a day, the covariances of its shocks and of the first state, the noise of a range."""
    keep, shock = nn.sigmoid(params["keep"]), dnp.exp(params["shock"])
    return dnp.diag(keep), dnp.diag(shock), dnp.diag(shock / (1 - keep**2)), dnp.exp(params["noise"])


def filter_by_day(model: Any, ys: dx.Array) -> Any:
    """Mean and covariance of each state by the observations up to it; mean and variance told of each observation."""
    move, shock, spread, noise = model

    def step(told: Any, y: dx.Array) -> Any:
        mean, spread = told
        expected, variance = SEEN @ mean, SEEN @ spread @ SEEN + noise
        gain = spread @ SEEN / variance
        mean, spread = mean + gain * (y - expected), spread - dnp.outer(gain, gain) * variance
        return (move @ mean, move @ spread @ move.T + shock), (mean, spread, expected, variance)

    return lax.scan(step, (dnp.zeros(2), spread), ys)[1]


def filter_at_once(model: Any, ys: dx.Array) -> tuple[dx.Array, dx.Array]:
    """The same means and covariances, by products of days: given the state x before some days, that after them is
    normal with mean A x + b and covariance C, and the likelihood of their observations is exp(e x - x J x / 2)."""
    move, shock, spread, noise = model

    def day(move: dx.Array, shock: dx.Array, y: dx.Array) -> Any:
        variance = SEEN @ shock @ SEEN + noise
        gain, known = shock @ SEEN / variance, SEEN @ move / variance
        rest = dnp.eye(2) - dnp.outer(gain, SEEN)
        return rest @ move, gain * y, rest @ shock, known * y, dnp.outer(known, SEEN @ move)

    def join(early: Any, late: Any) -> Any:
        (a1, b1, c1, e1, j1), (a2, b2, c2, e2, j2) = early, late
        inverse = dnp.linalg.inv(dnp.eye(2) + c1 @ j2)
        forth, back = a2 @ inverse, a1.T @ inverse.T
        mean, known = forth @ (b1 + c1 @ e2) + b2, back @ (e2 - j2 @ b1) + e1
        return forth @ a1, mean, forth @ c1 @ a2.T + c2, known, back @ j2 @ a1 + j1

    each = lambda xs, first: dnp.concatenate([first[None], dnp.broadcast_to(xs, (len(ys) - 1, 2, 2))])
    days = dx.vmap(day)(each(move, 0 * move), each(shock, spread), ys)
    return lax.associative_scan(dx.vmap(join), days)[1:3]


def smooth(model: Any, means: dx.Array, spreads: dx.Array) -> Any:
    """Means and covariances by all observations, of what a filter knows: each day given the next is E x + g, and L."""
    move, shock, *_ = model

    def day(mean: dx.Array, spread: dx.Array) -> Any:
        back = dnp.linalg.solve(move @ spread @ move.T + shock, move @ spread).T
        return back, mean - back @ move @ mean, spread - back @ move @ spread

    def join(late: Any, early: Any) -> Any:
        (e2, g2, l2), (e1, g1, l1) = late, early
        return e1 @ e2, e1 @ g2 + g1, e1 @ l2 @ e1.T + l1

    last = dnp.zeros((1, 2, 2)), means[-1:], spreads[-1:]
    days = tree.map(lambda xs, x: dnp.concatenate([xs, x]), dx.vmap(day)(means[:-1], spreads[:-1]), last)
    return lax.associative_scan(dx.vmap(join), days, reverse=True)[1:]


def learn(ys: Any, steps: int) -> Any:
    """The parameters that make the observations most likely."""

    def loss(params: Any) -> dx.Array:
        *_, expected, variance = filter_by_day(model_of(params), ys - params["mean"])
        return ((ys - params["mean"] - expected) ** 2 / variance + dnp.log(variance)).mean() / 2

    init, update, parameters = optimizers.adam(0.05)
    step = dx.jit(lambda i, state: update(i, dx.grad(loss)(parameters(state)), state))
    start = {"keep": [4.0, 0.0], "shock": [-4.0, -4.0], "noise": -2.0, "mean": ys.mean()}
    state = init({name: dnp.array(value) for name, value in start.items()})
    for i in track(range(steps), "learning the model"):
        state = step(i, state)
    return parameters(state)


def draw(path: Path, data: Any, ys: Any, mean: Any, states: Any, spreads: Any) -> None:
    figure = Figure(figsize=(12, 6.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
    top.plot(data["date"], data["close"], color="black")
    top.set(ylabel="dollars", title="Google's stock")
    bottom.semilogy(data["date"], 100 * np.exp(ys), ".", color="0.6", markersize=4, label="range of a day")
    band = 100 * np.exp(mean + states.sum(axis=1) + np.outer((-2, 2), np.sqrt(spreads.sum(axis=(1, 2)))))
    bottom.fill_between(data["date"], *band, color="C0", alpha=0.4, label="volatility, 95 % interval")
    bottom.plot(data["date"], 100 * np.exp(mean + states[:, 0]), color="C1", label="its part that stays")
    bottom.set(yticks=[1, 2, 5, 10], yticklabels=["1 %", "2 %", "5 %", "10 %"], ylabel="range of the price")
    bottom.legend(loc="upper center")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="A Kalman filter and smoother by associative_scan.")
    parser.add_argument("--days", type=int, default=1047)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--picture", type=Path, default=Path("out/kalman.png"))
    options = parser.parse_args()
    data = cbook.get_sample_data("goog.npz")["price_data"][-options.days :]
    ys = np.log(np.log(data["high"] / data["low"])).astype(np.float32)
    started = time.perf_counter()
    params = learn(ys, options.steps)
    model, around = model_of(params), ys - params["mean"]
    filtered = dx.jit(filter_at_once)(model, around)
    smoothed = map(np.asarray, dx.jit(smooth)(model, *filtered))
    print(f"{options.steps} steps and {len(ys)} days at once in {time.perf_counter() - started:.1f} s")
    *by_day, expected, variance = dx.jit(filter_by_day)(model, around)
    difference = max(tree.leaves(tree.map(lambda a, b: float(abs(a - b).max()), tuple(by_day), filtered)))
    halves = np.log(0.5) / np.log(np.diagonal(model[0]))
    print(f"half of a shock is gone after {halves[0]:.0f} and {halves[1]:.1f} days")
    inside = np.mean(abs(around - expected) < 1.96 * np.sqrt(variance))
    print(f"in the interval told the day before: {inside:.1%}; the filters differ by: {difference:.1e}")
    draw(options.picture, data, ys, float(params["mean"]), *smoothed)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
