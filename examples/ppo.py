"""Balance a pole on a cart by proximal policy optimisation: carts, agents and training are one compiled program.

The physics, a drive and the loss are written for one cart; `vmap` makes many of it. A `lax.scan` drives, a loop
improves the agent, a scan repeats both, and a last `vmap` trains several agents. Prints for how many of 500 steps the
poles stay up. Writes a picture. The method: Schulman et al. (2017); the cart: Barto, Sutton and Anderson (1983).

    python examples/ppo.py [--agents 4] [--updates 100] [--seed 0] [--picture out/ppo.png]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import didax as dx
import didax.numpy as dnp
from didax import lax, nn, random, tree
from didax.example_libraries import optimizers

CARTS, STEPS, LIMIT = 64, 64, 500  # of an agent; of a cart between two improvements, and in a test
BATCHES, BATCH = 16, 512  # of an improvement
CLIP, ENTROPY, DISCOUNT, TRACE = 0.2, 0.01, 0.99, 0.95


def new_carts(key: dx.Array, *shape: int) -> dx.Array:
    """Position, speed, angle and angular speed of each: nearly at rest, nearly upright."""
    return random.uniform(key, (*shape, 4), minval=-0.05, maxval=0.05)


def drive(cart: dx.Array, right: dx.Array) -> tuple[dx.Array, dx.Array]:
    """A cart of 1 kg with a pole of 1 m, 0.1 kg after 0.02 s; whether it has left its track or the pole has fallen."""
    _, speed, angle, turn = cart
    sin, cos = dnp.sin(angle), dnp.cos(angle)
    push = (dnp.where(right, 10.0, -10.0) + 0.05 * turn**2 * sin) / 1.1
    lean = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    cart = cart + 0.02 * dnp.stack([speed, push - 0.05 * lean * cos / 1.1, turn, lean])
    return cart, (abs(cart[0]) > 2.4) | (abs(cart[2]) > np.pi / 15)


def judge(params: Any, cart: dx.Array) -> tuple[dx.Array, dx.Array]:
    """Log probabilities of a push to the left and to the right; the sum of discounted rewards to expect."""
    weights, bias, last = params
    *scores, value = nn.tanh(cart @ weights + bias) @ last
    return nn.log_softmax(dnp.stack(scores)), value


def play(params: Any, cart: dx.Array, keys: dx.Array) -> Any:
    """STEPS steps of one cart, each with a reward for which values are at most 1: what can be learned from them."""

    def step(cart: dx.Array, key: dx.Array) -> Any:
        choose, renew = random.split(key)
        scores, value = judge(params, cart)
        push = random.categorical(choose, scores)
        after, fell = drive(cart, push)
        surprise = 1 - DISCOUNT + DISCOUNT * dnp.where(fell, 0, judge(params, after)[1]) - value
        return dnp.where(fell, new_carts(renew), after), (cart, push, scores[push], value, surprise, fell)

    # The advantage of a push is the sum of all surprises from it to the next fall, discounted.
    trace = lambda later, now: (now[0] + DISCOUNT * TRACE * dnp.where(now[1], 0, later),) * 2
    cart, (carts, pushes, scores, values, *surprises) = lax.scan(step, cart, keys)
    _, advantages = lax.scan(trace, 0.0, surprises, reverse=True)
    return cart, (carts, pushes, scores, advantages, advantages + values)


def loss(params: Any, cart: Any, push: Any, old: Any, advantage: Any, target: Any) -> dx.Array:
    """Small where good pushes have become likelier, but more than a factor 1 + CLIP is not wanted."""
    scores, value = judge(params, cart)
    ratio = dnp.exp(scores[push] - old)
    gain = dnp.minimum(ratio * advantage, dnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage)
    return 10 * (value - target) ** 2 - gain + ENTROPY * (dnp.exp(scores) * scores).sum()


def follow(params: Any, cart: dx.Array) -> tuple[dx.Array, dx.Array]:
    """The cart at LIMIT steps in which the agent does what it holds for best, and how many are before a fall."""
    step = lambda now, _: (drive(now[0], judge(params, now[0])[0].argmax()),) * 2
    _, (carts, fell) = lax.scan(step, (cart, False), None, length=LIMIT)
    return carts, dnp.cumprod(~fell).sum()


def train(key: dx.Array, updates: int) -> Any:
    """One agent, and for how many steps it balances after each improvement, on average over ten carts."""
    init, update, parameters = optimizers.adam(optimizers.polynomial_decay(3e-3, updates * BATCHES, 0.0))
    play_all, follow_all = dx.vmap(play, in_axes=(None, 0, 0)), dx.vmap(follow, in_axes=(None, 0))
    mean_loss = lambda params, data: dx.vmap(loss, in_axes=(None, *[0] * 5))(params, *data).mean()

    def improve(carry: Any, now: Any) -> Any:
        (number, key), (state, carts) = now, carry
        keys, order, check = random.split(key, 3)
        carts, data = play_all(parameters(state), carts, random.split(keys, (CARTS, STEPS)))
        *data, advantages, targets = tree.map(lambda x: x.reshape(-1, *x.shape[2:]), data)
        data = *data, (advantages - advantages.mean()) / advantages.std(), targets

        def learn(i: dx.Array, state: Any) -> Any:
            batch = tree.map(lambda x: x[rows[i]], data)
            return update(number * BATCHES + i, dx.grad(mean_loss)(parameters(state), batch), state)

        rows = random.randint(order, (BATCHES, BATCH), 0, CARTS * STEPS)
        state = lax.fori_loop(0, BATCHES, learn, state)
        return (state, carts), follow_all(parameters(state), new_carts(check, 10))[1].mean()

    first, start, key = random.split(key, 3)
    params = nn.initializers.orthogonal(2.0)(first, (4, 64)), dnp.zeros(64), dnp.zeros((64, 3))
    learner = init(params), new_carts(start, CARTS)
    scan = dx.debug.progress(lax.scan, title="learning to balance")
    (state, _), curve = scan(improve, learner, (dnp.arange(updates), random.split(key, updates)))
    return parameters(state), curve


def draw(path: Path, params: Any, curves: Any) -> None:
    """The learning curves; what the first agent does at angles and angular speeds, and two paths there."""
    figure = Figure(figsize=(13, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(np.arange(1, curves.shape[1] + 1) * CARTS * STEPS / 1000, curves.T, color="C0", alpha=0.6)
    left.set(xlabel="thousands of steps driven", ylabel="steps without a fall", title="Agents that learn")
    angles, turns = np.meshgrid(np.linspace(-0.21, 0.21, 81), np.linspace(-2, 2, 81))
    pushes = dnp.vectorize(lambda *at: dnp.exp(judge(params, dnp.array([0, 0, *at]))[0][1]))(angles, turns)
    shown = right.pcolormesh(*np.degrees((angles, turns)), pushes, cmap="PuOr", vmin=0, vmax=1)
    figure.colorbar(shown, ax=right, label="probability of a push to the right")
    for angle in (-0.18, 0.18):
        places, _ = follow(params, dnp.array([0, 0, angle, 0]))
        right.plot(*np.degrees(places[:100, 2:]).T, "o-", color="black", linewidth=0.8, markersize=2)
    right.set(xlabel="angle of the pole, degrees", ylabel="degrees a second", title="What the first one does")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Balance a pole on a cart by proximal policy optimisation.")
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("out/ppo.png"))
    options = parser.parse_args()
    started = time.perf_counter()
    learn = dx.jit(dx.vmap(lambda key: train(key, options.updates)))
    agents, curves = tree.map(np.asarray, learn(random.split(random.key(options.seed), options.agents)))
    print(f"{options.updates * CARTS * STEPS:,} steps of each agent in {time.perf_counter() - started:.1f} s")
    print(f"steps without a fall at first: {curves[:, 0].mean():.0f}; in the end: {curves[:, -1].mean():.0f}")
    draw(options.picture, [x[0] for x in agents], curves)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
