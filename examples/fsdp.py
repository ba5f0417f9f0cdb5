"""Fully sharded data parallelism: each device keeps a part of the parameters, and gathers a layer when it needs it.

A deep residual network on handwritten digits. The layers are stacked and each is split over all devices, like the
state of the optimiser and the batch. Inside of `shard_map` a scan gathers one layer after the other. The transpose of a
gather is a scatter of sums, so the gradient of a layer comes out summed over the batch and split again. With
`checkpoint` the backward pass gathers the layers anew, and no device ever holds more than one of them.

    DIDAX_NUM_CPU_DEVICES=8 python examples/fsdp.py [--layers 12] [--width 256] [--steps 100]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.progress import track
from sklearn.datasets import load_digits

import didax as dx
import didax.numpy as dnp
from didax import lax, nn, random, tree

BATCH, RATE, MOMENTUM = 128, 0.05, 0.9


def init_params(key: dx.Array, layers: int, width: int) -> dict[str, dx.Array]:
    into, through, out = random.split(key, 3)
    he = nn.initializers.he_normal()
    return {
        "into": he(into, (64, width)),
        "layers": he(through, (layers, width, width)) / layers,
        "out": he(out, (width, 10)),
    }


def loss(params: Any, images: dx.Array, labels: dx.Array, whole: Any) -> dx.Array:
    """Mean cross entropy of the images at hand; `whole` makes a weight whole from the part at hand."""

    @dx.checkpoint
    def layer(x: dx.Array, w: dx.Array) -> tuple[dx.Array, None]:
        return x + nn.relu(x @ whole(w)), None

    x = nn.relu(images @ whole(params["into"]))
    x, _ = lax.scan(layer, x, params["layers"])
    return -(nn.one_hot(labels, 10) * nn.log_softmax(x @ whole(params["out"]))).sum(axis=1).mean()


def update(params: Any, speed: Any, grads: Any) -> tuple[Any, Any]:
    """Gradient descent with momentum, each device for its parts."""
    speed = tree.map(lambda v, g: MOMENTUM * v + g, speed, grads)
    return tree.map(lambda p, v: p - RATE * v, params, speed), speed


def sharded_step(mesh: Any) -> Any:
    """A training step whose parameters, state and batch are split over all devices."""
    split = {"into": dx.P("data"), "layers": dx.P(None, "data"), "out": dx.P("data")}

    def step(params: Any, speed: Any, images: dx.Array, labels: dx.Array) -> Any:
        def mean_loss(params: Any) -> dx.Array:
            gathered = lambda w: lax.all_gather(w, "data", tiled=True)
            return lax.pmean(loss(params, images, labels, gathered), "data")

        value, grads = dx.value_and_grad(mean_loss)(params)
        return *update(params, speed, grads), value

    rows = dx.P("data")
    mapped = dx.shard_map(
        step, mesh=mesh, in_specs=(split, split, rows, rows), out_specs=(split, split, dx.P())
    )
    return dx.jit(mapped), tree.map(lambda spec: dx.NamedSharding(mesh, spec), split)


@dx.jit
def plain_step(params: Any, speed: Any, images: dx.Array, labels: dx.Array) -> Any:
    """The same on one device."""
    value, grads = dx.value_and_grad(loss)(params, images, labels, lambda w: w)
    return *update(params, speed, grads), value


def held(params: Any, device: Any) -> int:
    """Bytes of the parts that a device holds."""
    shards = (shard for x in tree.leaves(params) for shard in x.addressable_shards)
    return sum(shard.data.nbytes for shard in shards if shard.device == device)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train with parameters that are split over all devices.")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args(argv)
    mesh = dx.make_mesh((dx.device_count(),), ("data",))
    digits = load_digits()
    images, labels = (digits.data / 16).astype(np.float32), digits.target.astype(np.int32)

    step, layout = sharded_step(mesh)
    alone = init_params(random.key(0), options.layers, options.width)
    params = dx.device_put(alone, layout)
    speed, speed_alone = (tree.map(dnp.zeros_like, p) for p in (params, alone))
    rng = np.random.default_rng(0)
    losses: list[tuple[float, float]] = []
    for _ in track(range(options.steps), "training twice"):
        batch = rng.choice(len(labels), BATCH, replace=False)
        data = images[batch], labels[batch]
        params, speed, value = step(params, speed, *data)
        alone, speed_alone, value_alone = plain_step(alone, speed_alone, *data)
        losses.append((float(value), float(value_alone)))

    total, part = sum(x.nbytes for x in tree.leaves(params)), held(params, dx.devices()[0])
    print(f"parameters: {total:,} bytes, {part:,} of them on each of {mesh.size} devices")
    collectives = step.lower(params, speed, images[:BATCH], labels[:BATCH]).compile().collectives()
    print(*collectives, sep="\n")
    sent = sum(c.bytes * c.times for c in collectives)
    print(f"each device sends {sent:,} bytes a step: {sent / total:.2f} times the parameters")
    print(f"loss {losses[0][0]:.3f} -> {losses[-1][0]:.3f}")
    apart = max(
        float(abs(np.asarray(a) - np.asarray(b)).max())
        for a, b in zip(tree.leaves(params), tree.leaves(alone), strict=True)
    )
    print(f"equal to one device: parameters differ by at most {apart:.1e}")
    if apart > 1e-3 or not np.allclose(*np.transpose(losses), atol=1e-3):
        raise SystemExit("the devices did not compute what one device computes")


if __name__ == "__main__":
    main()
