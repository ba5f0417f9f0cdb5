"""Data-parallel training: every device has all parameters, and a part of each minibatch.

1,797 handwritten digits, a perceptron with one hidden layer. The training step is the one that a single device would
run. Where its batch lies on eight devices, XLA's partitioner splits it, and adds the one exchange that is needed: the
sum of the gradients. The script trains a second time on one device, and compares.

    DIDAX_NUM_CPU_DEVICES=8 python examples/data_parallel.py             eight devices of one process
    python -m didax.launch -n 4 examples/data_parallel.py --job          four processes; so do srun and mpirun
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.progress import track
from sklearn.datasets import load_digits

import didax as dx
import didax.numpy as dnp
from didax import nn, random, tree
from didax.experimental import multihost_utils

HIDDEN, BATCH, RATE = 128, 64, 0.3


def init_params(key: dx.Array) -> dict[str, dx.Array]:
    first, second = random.split(key)
    he = nn.initializers.he_normal()
    return {
        "w": he(first, (64, HIDDEN)),
        "b": dnp.zeros(HIDDEN),
        "out": he(second, (HIDDEN, 10)),
        "b_out": dnp.zeros(10),
    }


def logits(params: Any, image: dx.Array) -> dx.Array:
    """Scores of the ten digits for one image."""
    hidden = nn.relu(image @ params["w"] + params["b"])
    return hidden @ params["out"] + params["b_out"]


def loss(params: Any, images: dx.Array, labels: dx.Array) -> dx.Array:
    """Mean cross entropy of a batch."""
    scores = dx.vmap(logits, in_axes=(None, 0))(params, images)
    return -(nn.one_hot(labels, 10) * nn.log_softmax(scores)).sum(axis=1).mean()


@dx.jit
def train_step(params: Any, images: dx.Array, labels: dx.Array) -> tuple[Any, dx.Array]:
    value, grads = dx.value_and_grad(loss)(params, images, labels)
    return tree.map(lambda p, g: p - RATE * g, params, grads), value


def minibatches(count: int, steps: int) -> Iterator[np.ndarray[Any, Any]]:
    """Positions of the images of each step; every process draws the same."""
    rng = np.random.default_rng(0)
    for _ in range(steps):
        yield rng.choice(count, BATCH, replace=False)


def train(
    params: Any, images: Any, labels: Any, steps: int, rows: Any, title: str
) -> tuple[Any, list[float]]:
    """Trained parameters and the loss of every step; batches are laid out by `rows`, or lie on one device."""
    losses = []

    def lay(array: Any, batch: Any) -> Any:
        if rows is None:
            return array[batch]
        # Each process is asked only for the rows that its own devices hold.
        shape = (BATCH, *array.shape[1:])
        return dx.make_array_from_callback(shape, rows, lambda index: array[batch][index])

    quiet = dx.process_index() != 0
    for batch in track(list(minibatches(len(labels), steps)), title, disable=quiet):
        params, value = train_step(params, lay(images, batch), lay(labels, batch))
        losses.append(value)
    return params, [float(value) for value in losses]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train on several devices, each with a part of the data.")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--job", action="store_true", help="this process is one of several")
    options = parser.parse_args(argv)
    if options.job:
        dx.distributed.initialize()
    mesh = dx.make_mesh((dx.device_count(),), ("data",))
    rows, whole = dx.NamedSharding(mesh, dx.P("data")), dx.NamedSharding(mesh, dx.P())

    digits = load_digits()
    images, labels = (digits.data / 16).astype(np.float32), digits.target.astype(np.int32)
    held_out = len(labels) // 5
    params = init_params(random.key(0))
    given = images[held_out:], labels[held_out:], options.steps
    alone, losses_alone = train(params, *given, None, "one device     ")
    params = dx.device_put(params, whole)
    trained, losses = train(params, *given, rows, f"{dx.device_count()} devices".ljust(15))

    if dx.process_index() == 0:
        print(f"{dx.process_count()} processes with {dx.local_device_count()} devices each")
    example = [dx.ShapeDtypeStruct((BATCH, *x.shape[1:]), x.dtype, sharding=rows) for x in (images, labels)]
    collectives = train_step.lower(params, *example).compile().collectives()
    scores = dx.vmap(logits, in_axes=(None, 0))(alone, images[:held_out])
    accuracy = float((scores.argmax(1) == labels[:held_out]).mean())
    apart = max(
        float(abs(multihost_utils.process_allgather(a, tiled=True) - np.asarray(b)).max())
        for a, b in zip(tree.leaves(trained), tree.leaves(alone), strict=True)
    )
    if dx.process_index() == 0:
        print(*collectives, sep="\n")
        print(
            f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, {accuracy:.1%} of {held_out} images held out are right"
        )
        print(f"equal to one device: parameters differ by at most {apart:.1e}")
    if apart > 1e-3 or not np.allclose(losses, losses_alone, atol=1e-3):
        raise SystemExit("the devices did not compute what one device computes")


if __name__ == "__main__":
    main()
