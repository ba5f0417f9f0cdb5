"""Ordered triples of transformations, over a table of small functions at once: a sample, or (`-m slow`) the others.

A composition such as jit(grad(vmap(f))) is checked twice. Its outermost layer is checked against what it
stands for: the inner composition itself, a loop, or finite differences. The result is compared with what
jax gives for the same composition; these numbers are kept in tests/golden/compositions.json, and some are
computed in each run.
`pytest tests/test_compositions.py --update-golden` computes them all.

The table is one function of a pytree (an array for each of its functions), so one composition tries all of
them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.lax
import didax.numpy
from tests.checks import assert_close, first, numerical_jvp, pairing

GOLDEN = Path(__file__).parent / "golden" / "compositions.json"
F = Callable[[dict[str, Any]], Any]


# --- The functions: `m` is didax or jax ---------------------------------------------------------------------


def elementwise(m: ModuleType, x: Any) -> Any:
    return m.numpy.sin(x) * x - m.numpy.exp(-x)


def contraction(m: ModuleType, x: Any) -> Any:
    a = m.numpy.reshape(m.numpy.arange(9.0), (3, 3)) / 10
    return x @ a @ m.numpy.tanh(x)


def normalisation(m: ModuleType, x: Any) -> Any:
    return x / (1.0 + m.numpy.sum(x * x))


def indexing(m: ModuleType, x: Any) -> Any:
    return m.numpy.concatenate([x[::-1] * x[1], x[:2]]) * x[-1]


def logsumexp(m: ModuleType, x: Any) -> Any:
    top = m.numpy.max(x)
    return top + m.numpy.log(m.numpy.sum(m.numpy.exp(x - top)))


def inner_jit(m: ModuleType, x: Any) -> Any:
    return m.jit(lambda y: m.jit(m.numpy.cos)(y) * x)(x * x)


def branch(m: ModuleType, x: Any) -> Any:
    return m.lax.cond(x[0] > 0.0, lambda y: m.numpy.sin(y) * y, lambda y: y**3, x)


def selection(m: ModuleType, x: Any) -> Any:
    return m.numpy.where(x > 0.4, x**3, m.numpy.cumsum(x) * x)


FUNCTIONS = [elementwise, contraction, normalisation, indexing, logsumexp, inner_jit, branch, selection]


def table(m: ModuleType) -> F:
    """All functions, each on its own argument."""
    return lambda xs: {f.__name__: f(m, xs[f.__name__]) for f in FUNCTIONS}


def arguments() -> dict[str, Any]:
    rng = np.random.default_rng(7)
    return {f.__name__: rng.uniform(-1.2, 1.2, 3) for f in FUNCTIONS}


# --- The transformations: a function of one pytree to another -----------------------------------------------


def total(m: ModuleType, tree: Any) -> Any:
    return sum(m.numpy.sum(y) for y in m.tree.leaves(tree))


def tangent(m: ModuleType, xs: Any) -> Any:
    """A direction that itself depends on the point."""
    return m.tree.map(lambda x: 1.0 + 0.5 * x, xs)


def batch(m: ModuleType, xs: Any) -> Any:
    return m.tree.map(lambda x: m.numpy.stack([x, 0.5 - x]), xs)


TRANSFORMATIONS: dict[str, Callable[[ModuleType, F], F]] = {
    "jit": lambda m, f: m.jit(f),
    "vmap": lambda m, f: lambda xs: m.vmap(f)(batch(m, xs)),
    "jvp": lambda m, f: lambda xs: m.jvp(f, (xs,), (tangent(m, xs),))[1],
    "grad": lambda m, f: m.grad(lambda xs: total(m, f(xs))),
    "linearize": lambda m, f: lambda xs: m.linearize(f, xs)[1](tangent(m, xs)),
    "vjp": lambda m, f: lambda xs: (lambda ys, pull: pull(ys)[0])(*m.vjp(f, xs)),
    "cond": lambda m, f: (
        lambda xs: m.lax.cond(total(m, xs) > 0.0, f, lambda xs: m.tree.map(lambda y: 2.0 * y, f(xs)), xs)
    ),
}
TRIPLES = list(itertools.product(TRANSFORMATIONS, repeat=3))


def is_sampled(triple: tuple[str, ...]) -> bool:
    """One of seven. Any two transformations meet in any two of the three places, in one triple each."""
    order = list(TRANSFORMATIONS)
    return sum(map(order.index, triple)) % len(order) == 3


CASES = [names if is_sampled(names) else pytest.param(names, marks=pytest.mark.slow) for names in TRIPLES]


def compose(m: ModuleType, names: tuple[str, ...]) -> F:
    """`names` from the outermost to the innermost, around the table of functions."""
    f = table(m)
    for name in reversed(names):
        f = TRANSFORMATIONS[name](m, f)
    return f


def check_layer(name: str, inner: F, xs: Any, found: Any) -> None:
    """The result of one transformation of `inner`, against what the transformation means."""
    if name == "jit":
        assert_close(found, inner(xs), what="jit")
    elif name == "cond":
        factor = 1.0 if sum(map(np.sum, xs.values())) > 0 else 2.0
        assert_close(found, dx.tree.map(lambda y: factor * y, inner(xs)), what="cond")
    elif name == "vmap":
        elements = [inner(dx.tree.map(lambda x: x[i], batch(dx, xs))) for i in range(2)]
        assert_close(found, dx.tree.map(lambda *ys: np.stack(ys), *elements), rtol=1e-11, what="vmap")
    elif name in ("jvp", "linearize"):
        slopes, error = numerical_jvp(inner, (xs,), (tangent(dx, xs),))
        assert_close(found, slopes, rtol=error, atol=10 * error * scale(slopes), what=name)
    else:  # grad and vjp: their pairing with a direction is the derivative in that direction
        direction = tangent(np_like, xs)
        slopes, error = numerical_jvp(inner, (xs,), (direction,))
        ys = dx.tree.map(np.ones_like, slopes) if name == "grad" else inner(xs)
        wanted = pairing(ys, slopes)
        assert abs(pairing(found, direction) - wanted) <= 10 * error * max(1.0, scale(slopes) * scale(ys)), (
            name
        )


class np_like:
    tree = dx.tree


def scale(tree: Any) -> float:
    return sum(float(np.sum(np.abs(y))) for y in dx.tree.leaves(tree))


@pytest.fixture(autouse=True)
def in_64_bits(x64: None) -> None:
    """All of it in 64 bits, for the sake of the finite differences."""


@pytest.fixture(scope="module")
def golden(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Results of every canonical composition, by jax."""
    if request.config.getoption("--update-golden"):
        write_golden()
    return json.loads(GOLDEN.read_text())


def write_golden() -> None:
    import jax

    with jax.enable_x64(True):
        results = {
            word: by_jax(tuple(word.split())) for word in sorted({canonical(names) for names in TRIPLES})
        }
    lines = [
        f"{json.dumps(word)}: {json.dumps(result, separators=(',', ':'))}" for word, result in results.items()
    ]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def canonical(names: tuple[str, ...]) -> str:
    """The composition with equal values: jit changes none, and linearize computes what jvp does."""
    return " ".join("jvp" if name == "linearize" else name for name in names if name != "jit")


def numbers(tree: Any) -> dict[str, Any]:
    """The results with the digits that are kept."""
    return {name: np.vectorize(lambda x: float(f"{x:.12g}"))(y).tolist() for name, y in tree.items()}


def by_jax(names: tuple[str, ...]) -> dict[str, Any]:
    import jax

    return numbers(jax.jit(compose(jax, names))(arguments()))


@pytest.mark.parametrize("names", CASES, ids="-".join)
def test_triple(names: tuple[str, ...], golden: dict[str, Any]) -> None:
    xs = arguments()
    found = compose(dx, names)(xs)
    check_layer(names[0], compose(dx, names[1:]), xs, found)
    for function, wanted in golden[canonical(names)].items():
        np.testing.assert_allclose(found[function], wanted, rtol=1e-9, atol=1e-10, err_msg=function)


@pytest.mark.parametrize("names", first((names,) for names in TRIPLES[::93]), ids="-".join)
def test_golden_results_are_those_of_jax(names: tuple[str, ...], golden: dict[str, Any]) -> None:
    for function, value in by_jax(names).items():
        np.testing.assert_allclose(
            value, golden[canonical(names)][function], rtol=1e-9, atol=1e-10, err_msg=function
        )
