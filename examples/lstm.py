"""When will a nerve cell fire next? An LSTM forecasts a recorded potential, with what it is not sure of.

Matplotlib ships the recording of a cell that fires in rhythm. A long short-term memory reads it by `lax.scan`, value
by value, and tells mean and deviation of the next change. To forecast, it reads what was recorded so far, then goes on
with values that it draws itself; `vmap` draws a hundred futures, one for each random key. Prints when the cell fires
next, and the error of the whole forecast beside that of the last period repeated. Writes a picture of the futures.
The network: Hochreiter and Schmidhuber (1997), Long short-term memory, with the forget gates of Gers et al. (2000).

    python examples/lstm.py [--steps 1500] [--futures 100] [--seed 0] [--picture out/lstm.png]
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
from didax import lax, nn, random
from didax.example_libraries import optimizers

HIDDEN, LENGTH, BATCH = 48, 150, 16
START, NOW, END = 1500, 6000, 7000  # of 12,000 samples: the cell fires in rhythm, and is forecast from NOW on
MERGED = 4  # samples become one value


def init_params(key: dx.Array) -> Any:
    """Weights of the four gates, which see the value and the hidden state, and of what is told."""
    gates = nn.initializers.glorot_normal()(key, (1 + HIDDEN, 4 * HIDDEN))
    bias = dnp.zeros((4, HIDDEN)).at[1].set(1).ravel()  # at first nothing is forgotten
    return {"gates": (gates, bias), "tell": (dnp.zeros((HIDDEN, 2)), dnp.array([0.0, -1.0]))}


def read(params: Any, state: Any, value: dx.Array) -> Any:
    """The state after one more value, with the mean and the log deviation of the next change."""
    hidden, cell = state
    (weights, bias), (tell, offset) = params["gates"], params["tell"]
    let_in, keep, new, show = dnp.split(dnp.append(hidden, value) @ weights + bias, 4)
    cell = nn.sigmoid(keep) * cell + nn.sigmoid(let_in) * nn.tanh(new)
    hidden = nn.sigmoid(show) * nn.tanh(cell)
    return (hidden, cell), hidden @ tell + offset


def read_all(params: Any, values: dx.Array) -> Any:
    nothing = dnp.zeros(HIDDEN), dnp.zeros(HIDDEN)
    return lax.scan(lambda state, value: read(params, state, value), nothing, values)


def loss(params: Any, values: dx.Array) -> dx.Array:
    """Minus the log likelihood of a change, on average, up to a constant; the first values only prepare."""
    _, told = read_all(params, values[:-1])
    mean, log_deviation = told[LENGTH // 5 :].T
    change = dnp.diff(values)[LENGTH // 5 :]
    return (((change - mean) / dnp.exp(log_deviation)) ** 2 / 2 + log_deviation).mean()


def learn(values: Any, steps: int, seed: int) -> Any:
    """Parameters, trained on minibatches of stretches of the record."""
    init, update, parameters = optimizers.adam(optimizers.polynomial_decay(5e-3, steps, 1e-4))

    @dx.jit
    def step(i: int, state: Any, stretches: dx.Array) -> Any:
        batch_loss = lambda params: dx.vmap(loss, in_axes=(None, 0))(params, stretches).mean()
        return update(i, optimizers.clip_grads(dx.grad(batch_loss)(parameters(state)), 1.0), state)

    state, rng = init(init_params(random.key(seed))), np.random.default_rng(seed)
    for i in track(range(steps), "learning the rhythm"):
        starts = rng.integers(len(values) - LENGTH, size=(BATCH, 1))
        state = step(i, state, values[starts + np.arange(LENGTH)])
    return parameters(state)


@dx.jit(static_argnames="count")
def forecast(params: Any, past: dx.Array, keys: dx.Array, count: int) -> dx.Array:
    """For each key a future of `count` values."""
    state, told = read_all(params, past)

    def step(carry: Any, key: dx.Array) -> Any:
        state, told, value = carry
        value = value + told[0] + dnp.exp(told[1]) * random.normal(key)
        return (*read(params, state, value), value), value

    start = state, told[-1], past[-1]
    return dx.vmap(lambda key: lax.scan(step, start, random.split(key, count))[1])(keys)


def draw(path: Path, values: Any, now: int, futures: Any) -> None:
    """The record, the median of the futures and the band that holds 80 % of them; and three futures."""
    figure = Figure(figsize=(13, 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    places = MERGED * np.arange(-now, len(values) - now)
    low, middle, high = np.quantile(futures, (0.1, 0.5, 0.9), axis=0)
    for axes in (top, bottom):
        axes.plot(places[now - 150 :], values[now - 150 :], color="black", linewidth=1.2, label="recorded")
        axes.axvline(0, color="0.6", linestyle="--")
        axes.set(ylabel="potential, standardised")
    top.plot(places[now:], middle, color="C1", label="median of the futures")
    top.fill_between(places[now:], low, high, color="C1", alpha=0.3, linewidth=0, label="80 % of them")
    top.set(title="A nerve cell, forecast from the dashed line on")
    for i, future in enumerate(futures[:3]):
        bottom.plot(places[now:], future, color=f"C{i}", linewidth=0.8, label=f"future {i + 1}")
    bottom.set(xlabel="samples from now on")
    top.legend(loc="upper left", ncols=3)
    bottom.legend(loc="upper left", ncols=4)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="An LSTM forecasts the potential of a nerve cell.")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--futures", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("out/lstm.png"))
    options = parser.parse_args()
    with cbook.get_sample_data("membrane.dat") as file:
        record = np.frombuffer(file.read(), np.float32)[START:END].reshape(-1, MERGED).mean(axis=1)
    now = (NOW - START) // MERGED
    values = (record - record[:now].mean()) / record[:now].std()
    past, future = values[:now], values[now:]
    started = time.perf_counter()
    params = learn(past, options.steps, options.seed)
    keys = random.split(random.key(options.seed + 1), options.futures)
    futures = np.asarray(forecast(params, past, keys, len(future)))
    print(f"{options.steps} steps and {options.futures} futures in {time.perf_counter() - started:.1f} s")
    next_fire = lambda x: MERGED * (x > 2).argmax(axis=-1)
    low, middle, high = np.quantile(next_fire(futures), (0.1, 0.5, 0.9))
    print(
        f"samples to the next firing: {next_fire(future)}; forecast: {middle:.0f}, in 80 % {low:.0f} to {high:.0f}"
    )
    period = 10 + int(np.argmax([np.corrcoef(past[lag:], past[:-lag])[0, 1] for lag in range(10, 100)]))
    repeated = np.resize(past[-period:], len(future))
    error, plain = (np.sqrt(np.mean((x - future) ** 2)) for x in (np.median(futures, axis=0), repeated))
    print(f"error of the median of the futures: {error:.2f}; of the last period repeated: {plain:.2f}")
    draw(options.picture, values, now, futures)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
