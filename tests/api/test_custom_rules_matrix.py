"""A function's own rules under every transformation, pair and triple of transformations.

The rule is deliberately wrong: sin, with 3 cos as its derivative. So losing it anywhere shows, and a NumPy formula
says what every composition gives: the functions here act on each element alone, so a composition is known by its
value and derivatives at a point, and each layer by what it does to these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax, tree

Tree = dict[str, Any]
F = Callable[[Tree], Tree]
# (x, n) -> the function and its first n derivatives at x.
Derivatives = Callable[[np.ndarray, int], list[np.ndarray]]
SLOPE = 3.0


# --- Functions, one for each set of rules: these call the function, which is differentiated again ------------


def by_jvp() -> Any:
    f = dx.custom_jvp(dnp.sin)
    f.defjvp(lambda primals, tangents: (f(primals[0]), SLOPE * dnp.cos(primals[0]) * tangents[0]))
    return f


def by_vjp() -> Any:
    f = dx.custom_vjp(dnp.sin)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (SLOPE * dnp.cos(x) * ct,))
    return f


def by_linearize() -> Any:
    def rule(x: Any) -> Any:
        slope = SLOPE * dnp.cos(x)
        return f(x), lambda x_dot: slope * x_dot

    f = dx.custom_rules(dnp.sin, linearize=rule)
    return f


def by_both() -> Any:
    f = dx.custom_rules(
        dnp.sin,
        jvp=lambda primals, tangents: (f(primals[0]), SLOPE * dnp.cos(primals[0]) * tangents[0]),
        vjp=(lambda x: (f(x), dnp.cos(x)), lambda cos_x, ct: (SLOPE * cos_x * ct,)),
        vmap=lambda size, batched, x: (f(x), True),
    )
    return f


FUNCTIONS = {"jvp": by_jvp(), "vjp": by_vjp(), "linearize": by_linearize(), "both": by_both()}


def base(xs: Tree) -> Tree:
    return {name: f(xs[name]) for name, f in FUNCTIONS.items()}


def base_derivatives(x: np.ndarray, n: int) -> list[np.ndarray]:
    """Of sin, where the rule counts for the first and all further ones."""
    cycle = [np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)]
    return [np.sin(x), *(SLOPE * cycle[k % 4](x) for k in range(1, n + 1))]


# --- Layers: what is done to a function, and to its derivatives ---------------------------------------------


def total(f: F) -> Callable[[Tree], Any]:
    return lambda xs: sum(y.sum() for y in f(xs).values())


def same(d: Derivatives) -> Derivatives:
    return d


def derivative(d: Derivatives) -> Derivatives:
    return lambda x, n: d(x, n + 1)[1:]


def over_batch(f: F) -> F:
    def batched(xs: Tree) -> Tree:
        pairs = tree.map(lambda x: dnp.stack([x, x / 2]), xs)
        return tree.map(lambda y: y.sum(0), dx.vmap(f)(pairs))

    return batched


def summed(d: Derivatives) -> Derivatives:
    return lambda x, n: [a + b / 2**k for k, (a, b) in enumerate(zip(d(x, n), d(x / 2, n), strict=True))]


def twice(d: Derivatives) -> Derivatives:
    """Derivatives of f(f(x)), by composing the power series of both."""

    def composed(x: np.ndarray, n: int) -> list[np.ndarray]:
        inner = d(x, n)
        outer = d(inner[0], n)
        step = [np.zeros_like(x), *(inner[k] / math.factorial(k) for k in range(1, n + 1))]
        power = [np.ones_like(x), *(np.zeros_like(x) for _ in range(n))]
        series = [np.zeros_like(x) for _ in range(n + 1)]
        for k in range(n + 1):
            series = [s + outer[k] / math.factorial(k) * p for s, p in zip(series, power, strict=True)]
            power = [sum(power[i] * step[m - i] for i in range(m + 1)) for m in range(n + 1)]
        return [s * math.factorial(k) for k, s in enumerate(series)]

    return composed


def ones(xs: Tree) -> Tree:
    return tree.map(dnp.ones_like, xs)


def positive(xs: Tree) -> Any:
    return xs["jvp"][0] > -100.0


def scanned(f: F) -> F:
    return lambda xs: lax.scan(lambda c, _: (f(c), None), xs, None, length=2)[0]


def looped(f: F) -> F:
    def run(xs: Tree) -> Tree:
        return lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1])), (0, xs))[1]

    return run


def second(f: F) -> F:
    def diagonal(xs: Tree) -> Tree:
        found = dx.hessian(total(f))(xs)
        return {name: found[name][name].sum(-1) for name in xs}

    return diagonal


LAYERS: dict[str, tuple[Callable[[F], F], Callable[[Derivatives], Derivatives]]] = {
    "jit": (dx.jit, same),
    "vmap": (over_batch, summed),
    "grad": (lambda f: dx.grad(total(f)), derivative),
    "jvp": (lambda f: lambda xs: dx.jvp(f, (xs,), (ones(xs),))[1], derivative),
    "linearize": (lambda f: lambda xs: dx.linearize(f, xs)[1](ones(xs)), derivative),
    "scan": (scanned, twice),
    "while": (looped, twice),
    "cond": (lambda f: lambda xs: lax.cond(positive(xs), f, lambda ys: ys, xs), same),
    "hessian": (second, lambda d: lambda x, n: d(x, n + 2)[2:]),
    "checkpoint": (dx.checkpoint, same),
}
REVERSE = {"grad", "linearize", "hessian"}


def possible(names: tuple[str, ...]) -> bool:
    """Names from the inside out: a while loop has no reverse mode."""
    return "while" not in names or not REVERSE & set(names[names.index("while") :])


def check(names: tuple[str, ...]) -> None:
    f, d = base, base_derivatives
    for name in names:
        transform, transform_derivatives = LAYERS[name]
        f, d = transform(f), transform_derivatives(d)
    x = np.float32([0.4, 0.9])
    wanted = d(x.astype(np.float64), 0)[0]
    for kind, found in f(dict.fromkeys(FUNCTIONS, x)).items():
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-4, err_msg=f"{kind} under {names}")


@pytest.mark.parametrize("name", LAYERS)
def test_one_transformation_keeps_the_rules(name):
    check((name,))


@pytest.mark.parametrize("names", [p for p in itertools.permutations(LAYERS, 2) if possible(p)], ids="-".join)
def test_two_transformations_keep_the_rules(names):
    check(names)


# One triple in so many, at a stride that meets every transformation in every place; all where minutes do not matter.
@pytest.mark.ci
@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 13])
@pytest.mark.parametrize("first", LAYERS)
def test_three_transformations_keep_the_rules(first, stride):
    every = itertools.permutations([name for name in LAYERS if name != first], 2)
    for rest in itertools.islice(every, 0, None, stride):
        if possible((first, *rest)):
            check((first, *rest))
