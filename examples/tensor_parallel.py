"""Tensor parallelism: the weights of a transformer block are split over devices, and so is the batch.

A language model of one block learns the bytes of this file. Along the mesh axis "model" each device has some of the
heads and some of the hidden units (Shoeybi et al., "Megatron-LM", 2019): what enters a device's heads needs no
exchange, what leaves them is summed over "model" once, and so it is for the hidden units. Nothing in the model says so:
the weights are laid out, and XLA's partitioner does the rest.

    DIDAX_NUM_CPU_DEVICES=8 python examples/tensor_parallel.py [--steps 60] [--width 64]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

import didax as dx
import didax.numpy as dnp
from didax import P, nn, random, tree

HEADS, LENGTH, BATCH, RATE = 8, 32, 16, 0.1

# How each weight is split: by heads and by hidden units.
LAYOUT = {
    "embed": P(),
    "place": P(),
    "qkv": P(None, None, "model", None),
    "out": P("model", None, None),
    "up": P(None, "model"),
    "down": P("model", None),
    "scores": P(),
}


def init_params(key: dx.Array, width: int) -> dict[str, dx.Array]:
    head = width // HEADS
    shapes = {
        "embed": (128, width),
        "place": (LENGTH, width),
        "qkv": (3, width, HEADS, head),
        "out": (HEADS, head, width),
        "up": (width, 4 * width),
        "down": (4 * width, width),
        "scores": (width, 128),
    }
    keys = random.split(key, len(shapes))
    return {
        name: 0.5 * width**-0.5 * random.normal(k, shape)
        for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def attention(p: Any, x: dx.Array) -> dx.Array:
    """Causal attention of one sequence (length, width)."""
    q, k, v = dnp.einsum("td,sdhe->sthe", x, p["qkv"])
    scores = dnp.einsum("qhe,khe->hqk", q, k) / q.shape[-1] ** 0.5
    seen = dnp.arange(len(x))[:, None] >= dnp.arange(len(x))
    weights = nn.softmax(dnp.where(seen, scores, -1e9), axis=-1)
    return dnp.einsum("hqk,khe,hed->qd", weights, v, p["out"])


def logits(p: Any, text: dx.Array) -> dx.Array:
    """Scores of the byte that follows each of these."""
    x = p["embed"][text] + p["place"]
    x = x + attention(p, nn.standardize(x))
    x = x + nn.gelu(nn.standardize(x) @ p["up"]) @ p["down"]
    return nn.standardize(x) @ p["scores"]


def loss(p: Any, texts: dx.Array) -> dx.Array:
    """Mean cross entropy of a batch of texts, each one byte longer than the model reads."""
    found = nn.log_softmax(dx.vmap(logits, in_axes=(None, 0))(p, texts[:, :-1]))
    return -(nn.one_hot(texts[:, 1:], 128) * found).sum(-1).mean()


@dx.jit
def train_step(p: Any, texts: dx.Array) -> tuple[Any, dx.Array]:
    value, grads = dx.value_and_grad(loss)(p, texts)
    return tree.map(lambda w, g: w - RATE * g, p, grads), value


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Train a transformer block whose weights are split over devices."
    )
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args(argv)
    models = min(4, dx.device_count())
    mesh = dx.make_mesh((dx.device_count() // models, models), ("data", "model"))
    rows = dx.NamedSharding(mesh, P("data"))

    source = np.frombuffer(Path(__file__).read_bytes(), np.uint8) % 128
    alone = init_params(random.key(0), options.width)
    params = dx.device_put(alone, {name: dx.NamedSharding(mesh, LAYOUT[name]) for name in alone})
    print("the weights `up`, each part by the number of its device:")
    dx.debug.visualize_array_sharding(params["up"], scale=0.4)

    rng = np.random.default_rng(0)
    losses: list[tuple[float, float]] = []
    for _ in track(range(options.steps), "training twice"):
        starts = rng.integers(0, len(source) - LENGTH, BATCH)
        texts = source[starts[:, None] + np.arange(LENGTH + 1)].astype(np.int32)
        params, value = train_step(params, dx.device_put(texts, rows))
        alone, value_alone = train_step(alone, texts)
        losses.append((float(value), float(value_alone)))

    forward = dx.jit(loss).lower(params, dx.device_put(texts, rows)).compile()
    print("the forward pass exchanges:", *forward.collectives(), sep="\n  ")
    print(f"loss {losses[0][0]:.2f} -> {losses[-1][0]:.2f} nats a byte")
    apart = max(float(abs(np.asarray(params[name]) - np.asarray(alone[name])).max()) for name in alone)
    print(f"equal to one device: weights differ by at most {apart:.1e}")
    if apart > 1e-2 or not np.allclose(*np.transpose(losses), atol=1e-3):
        raise SystemExit("the devices did not compute what one device computes")


if __name__ == "__main__":
    main()
