"""Clean a noisy photograph by Newton's method with a trust region, for 10,000 unknowns and a sparse Hessian.

scikit-learn ships the photograph. A clean image is near the noisy one, and its neighbouring pixels are alike but for
edges: the logarithm below forgives few large steps. This energy is not convex, so plain Newton steps may lead uphill.
`sparse_hessian` reads off the program which pairs of pixels meet, and computes the 10,000 x 10,000 matrix in a few
passes. Prints the number of passes, the error before and after, and how flat the energy has become. Writes a picture:
the photograph, noisy and cleaned.
The method: Conn, Gould and Toint (2000), Trust-region methods, with steps damped as by Levenberg and Marquardt.

    python examples/trust_region.py [--size 100] [--steps 25] [--seed 0] [--picture out/trust_region.png]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track
from scipy.sparse import eye_array
from scipy.sparse.linalg import spsolve
from sklearn.datasets import load_sample_image

import didax as dx
import didax.numpy as dnp
from didax.experimental.sparse_derivatives import sparse_hessian

NOISE = 0.1  # deviation; the image lies between 0 and 1
EDGE = 0.1  # a step between neighbours that is larger is rather an edge than noise


def energy(image: dx.Array, noisy: dx.Array) -> dx.Array:
    """Minus the log probability of a clean image, given the noisy one, up to a constant."""
    steps = (image[1:] - image[:-1], image[:, 1:] - image[:, :-1])
    rough = sum(dnp.log1p((step / EDGE) ** 2).sum() for step in steps)
    return ((image - noisy) ** 2).sum() / (2 * NOISE**2) + rough


def clean(noisy: Any, steps: int) -> tuple[Any, list[float], int]:
    """The image of least energy; the lengths of the gradient on the way; the Hessian's passes."""
    hessian = sparse_hessian(energy)
    slope = dx.jit(dx.value_and_grad(energy))
    image, damping = noisy, 1000.0
    value, gradient = slope(image, noisy)
    lengths = []
    for _ in track(range(steps), "cleaning"):
        curvature = hessian(image, noisy).astype("float64") + damping * eye_array(image.size)
        move = spsolve(curvature.tocsc(), -np.ravel(gradient))
        trial = image + move.reshape(image.shape).astype("float32")
        trial_value, trial_gradient = slope(trial, noisy)
        promised = (damping * move @ move - np.ravel(gradient) @ move) / 2  # by the quadratic model
        ratio = float(value - trial_value) / promised if promised > 0 else -1.0
        damping *= 4 if ratio < 0.25 else 0.25 if ratio > 0.75 else 1
        if ratio > 0.05:
            image, value, gradient = trial, trial_value, trial_gradient
        lengths.append(float(dnp.linalg.norm(gradient)))
    return image, lengths, hessian.passes(noisy, noisy)


def draw(path: Path, images: dict[str, Any], lengths: list[float]) -> None:
    """The images side by side, and the length of the gradient."""
    figure = Figure(figsize=(14, 3.8), layout="constrained")
    *places, last = figure.subplots(1, len(images) + 1)
    for axes, (title, image) in zip(places, images.items(), strict=True):
        axes.imshow(image, cmap="gray", vmin=0, vmax=1)
        axes.set(title=title, xticks=[], yticks=[])
    last.semilogy(np.arange(len(lengths)) + 1, lengths, "o-", markersize=3)
    last.set(xlabel="step", title="Length of the gradient")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Clean a photograph by a trust-region method.")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("out/trust_region.png"))
    options = parser.parse_args()
    gray = load_sample_image("china.jpg").mean(axis=2)[
        40 : 40 + 2 * options.size : 2, 200 : 200 + 2 * options.size : 2
    ]
    truth = (gray / 255).astype(np.float32)
    noise = np.random.default_rng(options.seed).normal(size=truth.shape).astype(np.float32)
    noisy = truth + NOISE * noise
    started = time.perf_counter()
    image, lengths, passes = clean(noisy, options.steps)
    seconds = time.perf_counter() - started
    error, error_before = (float(np.sqrt(np.mean((x - truth) ** 2))) for x in (image, noisy))
    print(f"{options.steps} steps with {image.size:,} unknowns in {seconds:.1f} s")
    print(f"passes for a Hessian: {passes}")
    print(f"length of the gradient, first and last: {lengths[0]:.3g}, {lengths[-1]:.3g}")
    print(f"error before: {error_before:.4f}; after: {error:.4f}")
    draw(options.picture, {"The photograph": truth, "Noisy": noisy, "Cleaned": image}, lengths)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
