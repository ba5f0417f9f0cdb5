"""A small GPT that learns to write like Python's manual, character by character.

The text is what `help()` shows of the language's topics, 700,000 characters that ship with Python. The model is
written for one text, with `nn.dot_product_attention`; `vmap` makes it one for a minibatch, `jit` compiles the training
step, and one `lax.scan` writes a new text, every character drawn from what the model expects after the ones before.
Prints bits per character on pages held out, beside those of a table of pairs of characters, and what the model wrote.
Writes a picture: both measures during training.
The architecture: Radford et al. (2019), Language Models are Unsupervised Multitask Learners.

    python examples/gpt.py [--steps 1500] [--length 300] [--seed 0] [--picture out/gpt.png]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from pydoc_data.topics import topics  # what help("topics") shows
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track

import didax as dx
import didax.numpy as dnp
from didax import lax, nn, random
from didax.example_libraries import optimizers

CONTEXT, WIDTH, HEADS, LAYERS = 64, 64, 4, 2
BATCH = 16


def init_params(key: dx.Array, characters: int) -> Any:
    """Embeddings, the layers, and the weights of the scores."""
    keys = iter(random.split(key, 3 + 4 * LAYERS))
    normal = lambda *shape: 0.05 * random.normal(next(keys), shape)
    shapes = {"attend": (1, 3), "join": (1, 1), "widen": (1, 4), "narrow": (4, 1)}  # in units of WIDTH
    layer = lambda: {name: normal(n_in * WIDTH, n_out * WIDTH) for name, (n_in, n_out) in shapes.items()}
    embeddings = {"letters": normal(characters, WIDTH), "places": normal(CONTEXT, WIDTH)}
    return embeddings | {"layers": [layer() for _ in range(LAYERS)], "scores": normal(WIDTH, characters)}


def logits(params: Any, text: dx.Array) -> dx.Array:
    """Scores of the character that follows, at each position."""
    x = params["letters"][text] + params["places"][: len(text)]
    for layer in params["layers"]:
        parts = (nn.standardize(x) @ layer["attend"]).reshape(len(text), 3, HEADS, WIDTH // HEADS)
        heads = nn.dot_product_attention(parts[:, 0], parts[:, 1], parts[:, 2], is_causal=True)
        x = x + heads.reshape(x.shape) @ layer["join"]
        x = x + nn.gelu(nn.standardize(x) @ layer["widen"]) @ layer["narrow"]
    return nn.standardize(x) @ params["scores"]


def bits(params: Any, text: dx.Array) -> dx.Array:
    """Bits per character of a text, the first one given."""
    found = nn.log_softmax(logits(params, text[:-1]))
    return -dnp.take_along_axis(found, text[1:, None], axis=1).mean() / np.log(2)


@dx.jit
def mean_bits(params: Any, texts: dx.Array) -> dx.Array:
    """Bits per character of a batch of texts."""
    return dx.vmap(bits, in_axes=(None, 0))(params, texts).mean()


def train(text: Any, held_out: Any, characters: int, steps: int, seed: int) -> tuple[Any, Any, Any]:
    """Trained parameters; the bits per character of every minibatch, and of the text held out at times."""
    init, update, parameters = optimizers.adam(optimizers.polynomial_decay(3e-3, steps, 3e-4))

    @dx.jit
    def step(i: int, state: Any, texts: dx.Array) -> Any:
        value, grads = dx.value_and_grad(mean_bits)(parameters(state), texts)
        return update(i, grads, state), value

    state = init(init_params(random.key(seed), characters))
    rng = np.random.default_rng(seed)
    values, tests = [], {}
    for i in track(range(steps), "learning to write"):
        starts = rng.integers(len(text) - CONTEXT, size=BATCH)
        state, value = step(i, state, text[starts[:, None] + np.arange(CONTEXT + 1)])
        values.append(value)
        if (i + 1) % max(1, steps // 10) == 0:
            tests[i + 1] = float(mean_bits(parameters(state), held_out))
    return parameters(state), np.array(values), tests


@dx.jit(static_argnames="length")
def write(params: Any, start: dx.Array, key: dx.Array, length: int) -> dx.Array:
    """`length` characters that follow `start`, which has CONTEXT of them."""

    def step(text: dx.Array, key: dx.Array) -> tuple[dx.Array, dx.Array]:
        drawn = random.categorical(key, logits(params, text)[-1] / 0.7)  # below 1: rather what is likely
        return dnp.append(text[1:], drawn.astype(text.dtype)), drawn

    return lax.scan(step, start, random.split(key, length))[1]


def draw(path: Path, values: Any, tests: dict[int, float], pairs: float) -> None:
    """Bits per character during training."""
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(np.arange(len(values)) + 1, values, color="0.8", linewidth=0.8, label="each minibatch")
    axes.plot(list(tests), list(tests.values()), "o-", label="pages held out")
    axes.axhline(pairs, color="C3", linestyle="--", label="pages held out, by a table of pairs")
    axes.set(
        xlabel="step", ylabel="bits per character", title="A small GPT reads Python's manual", ylim=(1, 6)
    )
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def bits_by_pairs(text: Any, held_out: Any, characters: int) -> float:
    """Bits per character of the text held out, if only the character before is known."""
    counts = np.full((characters, characters), 0.1)
    np.add.at(counts, (text[:-1], text[1:]), 1)
    found = np.log2(counts / counts.sum(axis=1, keepdims=True))
    return float(-found[held_out[:, :-1], held_out[:, 1:]].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description="A small GPT that learns to write like Python's manual.")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--length", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("out/gpt.png"))
    options = parser.parse_args()
    manual = "\n".join(topics.values()).encode("ascii", "replace").decode()
    alphabet, codes = np.unique(list(manual), return_inverse=True)
    text, rest = np.split(codes.astype(np.int32), [len(codes) * 9 // 10])
    held_out = rest[: len(rest) // (CONTEXT + 1) * (CONTEXT + 1)].reshape(-1, CONTEXT + 1)[:256]
    started = time.perf_counter()
    params, values, tests = train(text, held_out, len(alphabet), options.steps, options.seed)
    seconds = time.perf_counter() - started
    pairs = bits_by_pairs(text, held_out, len(alphabet))
    print(f"{options.steps} steps of {BATCH} x {CONTEXT} characters in {seconds:.1f} s")
    print(f"bits per character held out: {tests[options.steps]:.2f}; by a table of pairs: {pairs:.2f}")
    written = write(params, held_out[0, :CONTEXT], random.key(options.seed + 1), options.length)
    print("it writes:", "".join(alphabet[np.asarray(written)]), sep="\n")
    draw(options.picture, values, tests, pairs)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
