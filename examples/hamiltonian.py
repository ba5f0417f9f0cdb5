"""Which measurements tell a malignant tumour? Bayesian logistic regression by Hamiltonian Monte Carlo.

569 tumours, 30 measurements of each (scikit-learn ships them). The logarithm of the posterior density is written for
one vector of weights. `hessian` tells which directions are narrow, `grad` the force on the weights; `lax.scan` makes
the leapfrog steps and the whole chain; `vmap` runs all chains at once, in one compiled program. Prints the accuracy on
tumours held out, and how well the chains agree. Writes a picture: what is known of each weight and of each tumour.
The method: Neal (2011), MCMC using Hamiltonian dynamics; the agreement: Gelman and Rubin (1992).

    python examples/hamiltonian.py [--chains 8] [--draws 1000] [--seed 0] [--picture out/hamiltonian.png]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import didax as dx
import didax.numpy as dnp
from didax import lax, nn, random

BLOCKS = 20  # the draws are computed in so many calls, so that the progress bar moves
LEAPFROG_STEPS, STEP = 8, 0.2


def scores(weights: dx.Array, xs: dx.Array) -> dx.Array:
    """The log odds that each tumour is malignant."""
    return xs @ weights[1:] + weights[0]


def log_posterior(weights: dx.Array, xs: dx.Array, malignant: dx.Array) -> dx.Array:
    """Up to a constant; a priori the weights are standard normal."""
    odds = scores(weights, xs)
    return nn.log_sigmoid(dnp.where(malignant, odds, -odds)).sum() - (weights**2).sum() / 2


@dx.jit
def most_probable(xs: dx.Array, malignant: dx.Array) -> tuple[dx.Array, dx.Array]:
    """The most probable weights by Newton's method, and a square root of their covariance as if they were normal."""
    slope, curvature = dx.grad(log_posterior), dx.hessian(log_posterior)
    improve = lambda _, w: w - dnp.linalg.solve(curvature(w, xs, malignant), slope(w, xs, malignant))
    mode = lax.fori_loop(0, 10, improve, dnp.zeros(xs.shape[1] + 1))
    return mode, dnp.linalg.inv(dnp.linalg.cholesky(-curvature(mode, xs, malignant))).T


def transition(
    z: dx.Array, key: dx.Array, potential: Callable[[dx.Array], dx.Array]
) -> tuple[dx.Array, dx.Array]:
    """One step of a chain: roll over the landscape with a random push, and accept where the roll was accurate."""
    push, choose = random.split(key)

    def leapfrog(state: Any, _: None) -> Any:
        z, momentum = state
        z = z + STEP / 2 * momentum
        momentum = momentum - STEP * dx.grad(potential)(z)
        return (z + STEP / 2 * momentum, momentum), None

    energy = lambda z, momentum: potential(z) + (momentum**2).sum() / 2
    start = z, random.normal(push, z.shape)
    end, _ = lax.scan(leapfrog, start, None, length=LEAPFROG_STEPS)
    accepted = dnp.log(random.uniform(choose)) < energy(*start) - energy(*end)
    return dnp.where(accepted, end[0], z), accepted


@dx.jit
def run_chains(zs: dx.Array, keys: dx.Array, mode: Any, root: Any, xs: Any, malignant: Any) -> Any:
    """Every chain goes on from its z: where it comes, and the share of accepted steps."""

    def step(z: dx.Array, key: dx.Array) -> Any:
        z, accepted = transition(z, key, lambda z: -log_posterior(mode + root @ z, xs, malignant))
        return z, (z, accepted)

    _, (path, accepted) = dx.vmap(lambda z, keys: lax.scan(step, z, keys))(zs, keys)
    return path, accepted.mean()


def sample(xs: Any, malignant: Any, chains: int, draws: int, seed: int) -> tuple[Any, Any]:
    """Weights of shape (chains, draws, number of weights), without the first quarter; the share accepted."""
    mode, root = most_probable(xs, malignant)
    first, *keys = random.split(random.key(seed), 1 + BLOCKS)
    path = random.normal(first, (chains, 1, len(mode)))
    paths, shares = [], []
    for key in track(keys, f"running {chains} chains"):
        draw_keys = random.split(key, (chains, draws // BLOCKS))
        path, share = run_chains(path[:, -1], draw_keys, mode, root, xs, malignant)
        paths.append(path)
        shares.append(share)
    return np.asarray(mode + np.concatenate(paths[BLOCKS // 4 :], axis=1) @ root.T), np.mean(shares)


def draw(path: Path, names: Any, weights: Any, probabilities: Any, malignant: Any) -> None:
    """The posterior of each weight, by its mean, beside what is said of the tumours held out."""
    figure = Figure(figsize=(13, 6.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    low, middle, high = np.quantile(weights[:, 1:], (0.05, 0.5, 0.95), axis=0)
    order, rows = np.argsort(middle), np.arange(len(middle))
    left.axvline(0, color="0.8")
    left.hlines(rows, low[order], high[order], alpha=0.5)
    left.plot(middle[order], rows, "o", markersize=3)
    left.set_yticks(rows, names[order], fontsize=8)
    left.set(xlabel="weight", title="What each measurement says for malignant: 90 % of the posterior")
    low, middle, high = np.quantile(probabilities, (0.05, 0.5, 0.95), axis=0)
    order, columns = np.argsort(middle), np.arange(len(middle))
    colors = np.where(malignant[order], "C3", "C0")
    right.vlines(columns, low[order], high[order], colors=colors, alpha=0.5)
    right.scatter(columns, middle[order], s=9, c=colors)
    right.set(xlabel="tumours held out (red: malignant)", ylabel="probability of being malignant")
    right.set_title("What is known of each tumour: 90 % of the posterior")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Bayesian logistic regression by Hamiltonian Monte Carlo.")
    parser.add_argument("--chains", type=int, default=8)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("out/hamiltonian.png"))
    options = parser.parse_args()
    data = load_breast_cancer()
    split = train_test_split(data.data, data.target == 0, test_size=0.3, random_state=0, stratify=data.target)
    scaler = StandardScaler().fit(split[0])
    xs, test_xs = (scaler.transform(x).astype(np.float32) for x in split[:2])
    malignant, test_malignant = split[2:]
    started = time.perf_counter()
    path, accepted = sample(xs, malignant, options.chains, options.draws, options.seed)
    seconds = time.perf_counter() - started
    disagreement = np.sqrt(1 + path.mean(axis=1).var(axis=0) / path.var(axis=1).mean(axis=0))  # 1: none
    weights = path.reshape(-1, path.shape[-1])
    probabilities = np.asarray(nn.sigmoid(dx.vmap(scores, in_axes=(0, None))(weights, test_xs)))
    right = (probabilities.mean(axis=0) > 0.5) == test_malignant
    print(f"{options.chains} chains of {options.draws} draws in {seconds:.1f} s, {accepted:.0%} accepted")
    print(f"largest disagreement of chains (potential scale reduction): {disagreement.max():.3f}")
    print(f"accuracy on {len(test_xs)} tumours held out: {right.mean():.1%}")
    draw(options.picture, data.feature_names, weights, probabilities, test_malignant)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
