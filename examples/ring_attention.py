"""Ring attention: a sequence that is split over the devices, of which none ever holds all scores, or those of a row.

Each device has a block of the sequence. Keys and values go around the ring of devices; each block that comes by is
added to the result with the softmax's running maximum and sum (Liu, Zaharia and Abbeel, 2023; the running softmax is
that of Milakov and Gimelshein, 2018). Reverse mode sends cotangents around the other way, by the transpose of
`ppermute`. Causal: a position sees itself and what comes before.

    DIDAX_NUM_CPU_DEVICES=8 python examples/ring_attention.py [--length 2048] [--heads 4] [--width 32]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import didax as dx
import didax.numpy as dnp
from didax import lax, random


def attention(q: dx.Array, k: dx.Array, v: dx.Array) -> dx.Array:
    """Causal attention with all scores at once; (length, heads, width) each."""
    length, _, width = q.shape
    scores = dnp.einsum("qhd,khd->hqk", q, k) / width**0.5
    seen = dnp.arange(length)[:, None] >= dnp.arange(length)
    weights = dx.nn.softmax(dnp.where(seen, scores, -dnp.inf), axis=-1)
    return dnp.einsum("hqk,khd->qhd", weights, v)


def add_block(state: Any, q: dx.Array, k: dx.Array, v: dx.Array, first_q: Any, first_k: Any) -> Any:
    """The running maximum, sum and result of the softmax, with one more block of keys and values."""
    maximum, total, result = state
    scores = dnp.einsum("qhd,khd->qhk", q, k) / q.shape[-1] ** 0.5
    seen = first_q + dnp.arange(len(q))[:, None] >= first_k + dnp.arange(len(k))
    scores = dnp.where(seen[:, None, :], scores, -dnp.inf)
    # The first block is the device's own, so from then on each position has seen one key, and the maximum is finite.
    new = dnp.maximum(maximum, scores.max(-1))
    weights, old = dnp.exp(scores - new[..., None]), dnp.exp(maximum - new)
    result = result * old[..., None] + dnp.einsum("qhk,khd->qhd", weights, v)
    return new, total * old + weights.sum(-1), result


def ring_attention(q: dx.Array, k: dx.Array, v: dx.Array, *, axis: str) -> dx.Array:
    """Causal attention of the block at hand to the whole sequence, which lies along a mesh axis."""
    count, here = lax.axis_size(axis), lax.axis_index(axis)
    around = [(i, (i + 1) % count) for i in range(count)]

    @dx.checkpoint  # the backward pass computes the scores of a block again instead of keeping them
    def visit(carry: Any, step: dx.Array) -> tuple[Any, None]:
        state, k, v = carry
        owner = (here - step) % count
        state = add_block(state, q, k, v, here * len(q), owner * len(k))
        return (state, *(lax.ppermute(x, axis, around) for x in (k, v))), None

    start = (dnp.full_like(q[..., 0], -dnp.inf), dnp.zeros_like(q[..., 0]), dnp.zeros_like(q))
    (state, _, _), _ = lax.scan(visit, (start, k, v), dnp.arange(count))
    _, total, result = state
    return result / total[..., None]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Attention over a sequence that is split over devices.")
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=32)
    options = parser.parse_args(argv)
    mesh = dx.make_mesh((dx.device_count(),), ("sequence",))
    shape = (options.length, options.heads, options.width)
    q, k, v, direction = (random.normal(key, shape) for key in random.split(random.key(0), 4))

    ring = dx.shard_map(
        partial(ring_attention, axis="sequence"),
        mesh=mesh,
        in_specs=dx.P("sequence"),
        out_specs=dx.P("sequence"),
    )

    def result_and_gradients(attend: Any) -> Any:
        """The result, and the gradients of its product with a direction."""

        def product(q: dx.Array, k: dx.Array, v: dx.Array) -> tuple[dx.Array, dx.Array]:
            result = attend(q, k, v)
            return (result * direction).sum(), result

        return dx.jit(dx.grad(product, argnums=(0, 1, 2), has_aux=True))

    split = dx.device_put((q, k, v), dx.NamedSharding(mesh, dx.P("sequence")))
    dx.debug.visualize_array_sharding(split[0][:, 0])
    compiled = result_and_gradients(ring).lower(*split).compile()
    grads, result = compiled(*split)
    whole = result_and_gradients(attention).lower(q, k, v).compile()
    grads_whole, result_whole = whole(q, k, v)

    print(*compiled.collectives(), sep="\n")
    for name, found in ("whole", whole), ("ring", compiled):
        used = found.memory_analysis().temp_size_in_bytes
        print(f"{name:6} takes {used:,} bytes for what it computes on the way")
    pairs = zip((result, *grads), (result_whole, *grads_whole), strict=True)
    apart = max(float(abs(np.asarray(a) - np.asarray(b)).max()) for a, b in pairs)
    print(f"equal to attention on one device: result and gradients differ by at most {apart:.1e}")
    if apart > 1e-4:
        raise SystemExit("the devices did not compute what one device computes")


if __name__ == "__main__":
    main()
