"""A pipeline: each device has one stage of a deep network, and hands what it computed to the next device.

The batch is cut into microbatches (Huang et al., "GPipe", 2019). In every tick each device runs its stage on the
microbatch that it holds and sends the result on by `ppermute`; after `microbatches + stages - 1` ticks all have come
through, so of a device's ticks `stages - 1` are idle. The loop is a `scan`, and its transpose is the pipeline that runs
backwards: nothing more is needed for the gradient.

    DIDAX_NUM_CPU_DEVICES=8 python examples/pipeline.py [--microbatches 16] [--width 64] [--steps 200]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.progress import track

import didax as dx
import didax.numpy as dnp
from didax import P, lax, random, tree

MICROBATCH, RATE = 8, 0.2


def stage(params: Any, x: dx.Array) -> dx.Array:
    """A part of the network that changes no shapes: one residual layer."""
    return x + dnp.tanh(x @ params["w"] + params["b"])


def init_stages(key: dx.Array, stages: int, width: int) -> dict[str, dx.Array]:
    w = random.normal(key, (stages, width, width)) / width**0.5 / stages
    return {"w": w, "b": dnp.zeros((stages, width))}


def pipeline(params: Any, xs: dx.Array, *, axis: str) -> dx.Array:
    """All microbatches (count, size, width) through all stages; on each device, its own stage's parameters."""
    count, stages, here = len(xs), lax.axis_size(axis), lax.axis_index(axis)
    onwards = [(i, i + 1) for i in range(stages - 1)]

    def tick(held: dx.Array, t: dx.Array) -> tuple[dx.Array, dx.Array]:
        x = dnp.where(here == 0, xs[dnp.minimum(t, count - 1)], held)
        y = stage(params, x)
        return lax.ppermute(y, axis, onwards), y

    held = lax.pcast(dnp.zeros_like(xs[0]), axis, to="varying")
    _, ys = lax.scan(tick, held, dnp.arange(count + stages - 1))
    # What the last device made in the last `count` ticks are the results, and all devices get them.
    return lax.psum(dnp.where(here == stages - 1, ys[stages - 1 :], 0.0), axis)


def one_after_the_other(params: Any, xs: dx.Array) -> dx.Array:
    """The same on one device."""
    return dx.vmap(lambda x: lax.scan(lambda x, p: (stage(p, x), None), x, params)[0])(xs)


def timetable(stages: int, count: int) -> str:
    """Which microbatch each device has in each tick."""
    ticks = range(count + stages - 1)
    cell = lambda i, t: f"{t - i:3}" if 0 <= t - i < count else "  ."
    return "\n".join(f"device {i}:{''.join(cell(i, t) for t in ticks)}" for i in range(stages))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Train a deep network whose layers are on different devices."
    )
    parser.add_argument("--microbatches", type=int, default=16)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args(argv)
    count, width, stages = options.microbatches, options.width, dx.device_count()
    mesh = dx.make_mesh((stages,), ("stage",))

    def in_pipeline(params: Any, xs: dx.Array) -> dx.Array:
        def on_device(params: Any, xs: dx.Array) -> dx.Array:
            own = tree.map(lambda p: p[0], params)  # the one stage of this device
            return pipeline(own, xs, axis="stage")

        return dx.shard_map(on_device, mesh=mesh, in_specs=(P("stage"), P()), out_specs=P())(params, xs)

    def step(network: Any) -> Any:
        def loss(params: Any, xs: dx.Array, ys: dx.Array) -> dx.Array:
            return ((network(params, xs) - ys) ** 2).mean()

        def train_step(params: Any, xs: dx.Array, ys: dx.Array) -> tuple[Any, dx.Array]:
            value, grads = dx.value_and_grad(loss)(params, xs, ys)
            return tree.map(lambda p, g: p - RATE * g, params, grads), value

        return dx.jit(train_step)

    # What is to be learned: another network of this kind.
    own, teacher, data = random.split(random.key(0), 3)
    alone = init_stages(own, stages, width)
    params = dx.device_put(alone, dx.NamedSharding(mesh, P("stage")))
    xs = random.normal(data, (count, MICROBATCH, width))
    ys = dx.jit(one_after_the_other)(tree.map(lambda p: 3 * p, init_stages(teacher, stages, width)), xs)

    piped, plain = step(in_pipeline), step(one_after_the_other)
    losses: list[tuple[float, float]] = []
    for _ in track(range(options.steps), "training twice"):
        params, value = piped(params, xs, ys)
        alone, value_alone = plain(alone, xs, ys)
        losses.append((float(value), float(value_alone)))

    print("microbatches in the pipeline, tick by tick:")
    print(timetable(stages, count))
    idle = (stages - 1) / (count + stages - 1)
    print(f"{idle:.0%} of the ticks are idle; with four times as many microbatches it were ", end="")
    print(f"{(stages - 1) / (4 * count + stages - 1):.0%}")
    print(*piped.lower(params, xs, ys).compile().collectives(), sep="\n")
    print(f"loss {losses[0][0]:.4f} -> {losses[-1][0]:.4f}")
    apart = max(float(abs(np.asarray(params[name]) - np.asarray(alone[name])).max()) for name in alone)
    print(f"equal to one device: parameters differ by at most {apart:.1e}")
    if apart > 1e-3 or not np.allclose(*np.transpose(losses), atol=1e-4):
        raise SystemExit("the devices did not compute what one device computes")


if __name__ == "__main__":
    main()
