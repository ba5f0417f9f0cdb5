"""Recurrent nets as programs to optimise, and what tests of the passes over loops look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.jaxpr import Eqn, Jaxpr
from didax.core.jaxpr_check import check_jaxpr
from didax.passes.loops import optimize_loops
from didax.passes.simplify import dce_jaxpr
from didax.primitives.control_flow.scan import scan_p
from tests.checks import assert_close

F = Callable[..., Any]
RNG = np.random.default_rng(0)


def normal(*shape: int, scale: float = 1.0) -> Any:
    return (RNG.normal(size=shape) * scale).astype(np.float32)


def live(f: F, *args: Any) -> Jaxpr:
    jaxpr = dx.make_jaxpr(f)(*args).jaxpr
    return dce_jaxpr(jaxpr, (True,) * len(jaxpr.outvars))[0]


def optimised(f: F, *args: Any) -> Jaxpr:
    jaxpr, _ = optimize_loops(live(f, *args))
    check_jaxpr(jaxpr)
    return jaxpr


def within(jaxpr: Jaxpr) -> list[Eqn]:
    """All equations, those of jaxprs inside included."""
    inner = [e for eqn in jaxpr.eqns for j in eqn.jaxprs for e in within(j)]
    return [*jaxpr.eqns, *inner]


def scans(jaxpr: Jaxpr) -> list[Eqn]:
    return [eqn for eqn in within(jaxpr) if eqn.primitive is scan_p]


def assert_same_as_without(f: F, *args: Any) -> None:
    found = dx.jit(lambda *xs: f(*xs))(*args)
    with dx.optimize_loops("off"):
        wanted = dx.jit(lambda *xs: f(*xs))(*args)
    for x, y in zip(dx.tree.leaves(found), dx.tree.leaves(wanted), strict=True):
        assert x.dtype == y.dtype
        assert_close(x, y, rtol=2e-4, atol=2e-4 * (1 + float(np.max(np.abs(y), initial=0))))


def net(units: int, batch: int, length: int = 20) -> tuple[F, tuple[Any, ...]]:
    """Hidden states of a recurrent net, as a function of its weights and inputs."""

    def f(w: Any, u: Any, b: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = dnp.tanh(x @ w + h @ u + b)
            return h, h

        return lax.scan(step, dnp.zeros((batch, units)), xs)[1]

    s = units**-0.5
    return f, (
        normal(units, units, scale=s),
        normal(units, units, scale=s),
        normal(units),
        normal(length, batch, units),
    )


def gradient(f: F) -> F:
    """The gradient of the mean square of what `f` returns, with respect to its weights."""
    return dx.grad(lambda *args: (f(*args) ** 2).mean(), (0, 1, 2))


def lstm(units: int, batch: int, length: int = 20) -> tuple[F, tuple[Any, ...]]:
    def f(w: Any, u: Any, b: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            h, c = c
            i, f, g, o = dnp.split(x @ w + h @ u + b, 4, axis=1)
            c = dx.nn.sigmoid(f) * c + dx.nn.sigmoid(i) * dnp.tanh(g)
            h = dx.nn.sigmoid(o) * dnp.tanh(c)
            return (h, c), h

        zero = dnp.zeros((batch, units))
        return lax.scan(step, (zero, zero), xs)[1]

    s = units**-0.5
    weights = normal(units, 4 * units, scale=s), normal(units, 4 * units, scale=s), normal(4 * units)
    return f, (*weights, normal(length, batch, units))
