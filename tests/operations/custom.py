"""Rows: functions with rules of their own, each of them right: the harness finds one that is lost or misread."""

from __future__ import annotations

from typing import Any

import numpy as np

import didax as dx
import didax.numpy as dnp
from didax import lax
from tests.operations.row import FLOATS, Operation

SHAPE = (2, 3)


def numbers(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    return (rng.uniform(0.3, 1.5, SHAPE).astype(dtype),)


def pair(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    return *numbers(rng, dtype), *numbers(rng, dtype)


@dx.custom_jvp
def cubed(x: Any) -> Any:
    return x * x * x


cubed.defjvp(lambda primals, tangents: (cubed(*primals), 3 * primals[0] ** 2 * tangents[0]))


@dx.custom_vjp
def product(x: Any, y: Any) -> Any:
    return x * lax.sin(y)


product.defvjp(
    lambda x, y: (product(x, y), (x, y)),
    lambda saved, z_bar: (z_bar * dnp.sin(saved[1]), z_bar * saved[0] * dnp.cos(saved[1])),
)


WEIGHTS = np.linspace(-1.0, 1.0, 3)


@dx.custom_jvp
def weighted(x: Any) -> Any:
    return x * x * dnp.asarray(WEIGHTS, x.dtype)


@weighted.defjvp
def _weighted_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (x_dot,) = primals, tangents
    return weighted(x), 2 * x * dx.device_put(
        WEIGHTS.astype(x.dtype)
    ) * x_dot  # an array that the rule brings along


@dx.custom_vjp
def remade(x: Any) -> Any:
    return lax.exp(x)


remade.defvjp(lambda x: (remade(x), x), lambda x, y_bar: (lax.exp(x) * y_bar,), optimize_remat=True)


@dx.custom_batching.custom_vmap
def rowwise(x: Any) -> Any:
    return x * lax.cos(x)


rowwise.def_vmap(lambda size, batched, x: (x * lax.cos(x), batched[0]))


def doubled(x: Any) -> Any:
    return dx.custom_derivatives.linear_call(lambda _, x: 2 * x, lambda _, x_bar: 2 * x_bar, (), x)


def staged(f: Any) -> Any:
    """`f` in a jitted call, whose rules are not used before the call is transformed."""
    return lambda *args: dx.jit(lambda *xs: f(*xs))(*args)


ROWS = [
    Operation(f"{name} {how}", wrap(f), reference, args, FLOATS, has_text=False)
    for name, f, reference, args in [
        ("custom_jvp", cubed, lambda x: x**3, numbers),
        ("custom_vjp", product, lambda x, y: x * np.sin(y), pair),
        ("custom_jvp with an array", weighted, lambda x: x * x * WEIGHTS.astype(x.dtype), numbers),
        ("custom_vjp remade", remade, np.exp, numbers),
        ("custom_vmap", rowwise, lambda x: x * np.cos(x), numbers),
        ("linear_call", doubled, lambda x: 2 * x, numbers),
    ]
    for how, wrap in [("in Python", lambda f: f), ("staged", staged)]
] + [
    # The rule is staged after the program that it belongs to, and writes its array down.
    Operation(name, dx.grad(lambda x, f=f: staged(f)(x).sum()), reference, numbers, FLOATS, has_text=False)
    for name, f, reference in [
        ("gradient of custom_jvp with an array", weighted, lambda x: 2 * x * WEIGHTS.astype(x.dtype)),
        ("gradient of custom_vjp remade", dx.checkpoint(remade), np.exp),
    ]
]
