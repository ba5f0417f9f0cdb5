"""Equal steps that programs write out: which become scans, of how many steps; results are as eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.core.jaxpr_check import check_jaxpr
from didax.passes.loops.written_out import MIN_STEPS, with_scans
from didax.primitives.control_flow.scan import scan_p
from tests.checks import assert_close

X = np.linspace(0.1, 0.9, 8, dtype=np.float32)
N = 3 * MIN_STEPS


def chain(x: Any) -> Any:
    """Each step has a number of its own."""
    for i in range(N):
        x = dnp.sin(x) * 1.01 + 0.1 * i
    return x.sum()


def motion(x: Any) -> Any:
    """The state is an array of few numbers, which each step takes apart."""
    state = x[:3]
    for _ in range(N):
        a, b, c = state
        state = state + 0.01 * dnp.array([10 * (b - a), a * (2 - c) - b, a * b - c])
    return state.sum()


def two_steps_back(x: Any) -> Any:
    """A step reads the results of the last two."""
    before = x
    for _ in range(N):
        x, before = 2 * x - before - 0.01 * dnp.sin(x) * before[::-1], x
    return (x * x).sum()


def recurrent(x: Any) -> Any:
    """All steps read the same weights, whose cotangents are summed."""
    w, h = dnp.outer(x, x) * 0.1, x[None]
    for _ in range(N):
        h = dnp.tanh(h @ w + x)
    return (h * h).sum()


def descent(x: Any) -> Any:
    """Each step is a gradient."""
    momentum = x * 0
    for _ in range(N):
        momentum = 0.9 * momentum + dx.grad(lambda w: ((dnp.tanh(w * x) - 0.3) ** 2).mean())(x)
        x = x - 0.1 * momentum
    return x.sum()


def whole_numbers(x: Any) -> Any:
    n = (100 * x).astype(np.int32)
    for i in range(N):
        n = dnp.where(n % 2 == 0, n // 2, 3 * n + i)
    return n.sum()


def with_a_middle(x: Any) -> Any:
    """The state in the middle is a result, too."""
    for i in range(2 * N):
        x = dnp.cos(x) * 1.01 - 0.2 * x
        if i == N:
            middle = x
    return (x * middle).sum()


def assert_same_as_eager(f: Callable[..., Any], *args: Any) -> None:
    for x, y in zip(dx.tree.leaves(dx.jit(f)(*args)), dx.tree.leaves(f(*args)), strict=True):
        assert x.dtype == y.dtype
        assert_close(x, y, rtol=2e-4, atol=2e-4 * (1 + float(np.max(np.abs(y), initial=0))))


def of_slices(x: Any) -> Any:
    """Each step takes a row of an array, forwards, and one backwards."""

    def f(xs: Any, w: Any) -> Any:
        h = w
        for t in range(N):
            h = dnp.tanh(h * w + xs[t]) + 0.1 * xs[N - t, ::-1] * w
        return h.sum()

    return f, dnp.sin(dnp.arange(N + 1.0)[:, None] + x)


def test_steps_that_take_slices_of_an_input_take_rows_of_it() -> None:
    f, xs = of_slices(X)
    assert scans_of(f, xs, X) == [N]
    assert [N - 4 <= n <= N for n in scans_of(dx.grad(f, 1), xs, X)] == [True, True]
    for g in (f, dx.grad(f, 1), dx.grad(f)):
        assert_same_as_eager(g, xs, X)


def scans_of(f: Callable[..., Any], *args: Any) -> list[int]:
    """The lengths of the scans that equal steps became."""
    jaxpr, _ = with_scans(dx.make_jaxpr(f)(*args).jaxpr)
    check_jaxpr(jaxpr)
    return [eqn.params["length"] for eqn in jaxpr.eqns if eqn.primitive is scan_p]


@pytest.mark.parametrize(
    "f", [chain, motion, two_steps_back, recurrent, descent, whole_numbers, with_a_middle]
)
def test_equal_steps_become_a_scan(f: Any) -> None:
    steps = 2 * N if f is with_a_middle else N
    assert [steps - 4 <= n <= steps for n in scans_of(f, X)] == [True]
    assert_same_as_eager(f, X)


@pytest.mark.parametrize("f", [chain, motion, two_steps_back, recurrent, descent])
def test_so_do_those_of_gradients(f: Any) -> None:
    """The backward scan reads what the forward scan stacks."""
    assert [N - 6 <= n <= N for n in scans_of(dx.grad(f), X)] == [True, True]
    assert_same_as_eager(dx.grad(f), X)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("f", "changed"),
    [
        (chain, lambda f: dx.grad(lambda s: (dx.grad(f)(X * s[0]) ** 2).sum())),
        (two_steps_back, lambda f: dx.grad(lambda s: (dx.grad(f)(X * s[0]) ** 2).sum())),
        (two_steps_back, lambda f: dx.vmap(lambda s: f(X * s))),
        (recurrent, lambda f: dx.vmap(dx.grad(lambda s: f(X * s)))),
        (motion, lambda f: lambda s: dx.jvp(f, (X,), (X * s[0],))),
        (recurrent, lambda f: lambda s: dx.lax.scan(lambda c, t: (c + f(X * t), c), 0.0, s)),
    ],
    ids=["second order", "second order of two", "vmap", "vmap of grad", "jvp", "in a scan"],
)
def test_results_are_as_eager_under_transformations(f: Any, changed: Any) -> None:
    assert_same_as_eager(changed(f), np.array([1.0, 0.5], np.float32))


def test_gradients_of_a_jitted_function_are_found_in_its_halves() -> None:
    assert [N - 6 <= n <= N for n in scans_of(dx.grad(dx.jit(chain)), X)] == [True, True]


@pytest.mark.parametrize("shape", [(), (3,), (4, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_every_result_of_a_chain_is_as_eager(shape: Any, dtype: Any) -> None:
    """Used, unused or returned by itself."""

    def f(x: Any) -> Any:
        states = [x]
        for i in range(N):
            states.append(dnp.sin(states[-1]) * x + i)
        return states

    x = np.full(shape, 0.3, dtype)
    for results in (
        lambda s: s[-1],
        lambda s: s[-2],
        lambda s: [s[3], s[-1]],
        lambda s: [s[0], s[-1] * s[-2]],
    ):
        g = lambda x, results=results: results(f(x))
        with dx.enable_x64():
            assert scans_of(g, x)
            assert_same_as_eager(g, x)


def test_programs_stay_as_they_are_where_a_scan_would_lose() -> None:
    assert scans_of(chain, np.ones(2000, np.float32)) == []  # a kernel goes through a long array once
    assert scans_of(chain, np.ones((0, 3), np.float32)) == []

    def short(x: Any) -> Any:
        for _ in range(MIN_STEPS - 1):
            x = sum((dnp.sin(x) * i for i in range(1, 9)), x)
        return x

    def with_weights(ws: Any, x: Any) -> Any:  # to join them would be a copy in each call
        for w in ws:
            x = dnp.tanh(x @ w) + dnp.sin(x) * 0.1
        return x.sum()

    def all_states(x: Any) -> Any:
        states = [x]
        for _ in range(N):
            states.append(dnp.sin(states[-1]) * 0.9 + states[-1][::-1] * 0.1 - 0.01 * x)
        return states

    assert scans_of(short, X) == scans_of(all_states, X) == []
    assert scans_of(with_weights, [np.ones((8, 8), np.float32)] * (3 * N), X) != [3 * N]
    assert scans_of(with_weights, [np.ones((64, 64), np.float32)] * (2 * N), np.ones(64, np.float32)) == []


def test_effects_stay_in_order() -> None:
    seen: list[int] = []

    def f(x: Any) -> Any:
        for i in range(N):
            x = dnp.sin(x) * 0.5 + dnp.cos(x)
            x = x - 0.1 * x * x
            dx.debug.callback(lambda y, i=i: seen.append(i), x[0], ordered=True)
        return x

    assert scans_of(f, X) == []
    dx.block_until_ready(dx.jit(f)(X))
    assert seen == list(range(N))


def test_the_option_and_other_platforms_leave_programs_whole() -> None:
    traced = dx.jit(chain).trace(X)
    assert traced.lower().as_text().count("stablehlo.sine") == 1
    for name in ("cuda", "tpu"):
        assert traced.lower(lowering_platforms=(name,)).as_text().count("stablehlo.sine") == N
    with dx.optimize_loops("off"):
        assert dx.jit(chain).trace(X).lower().as_text().count("stablehlo.sine") == N


def test_explain_says_what_a_scan_was() -> None:
    assert f"written out: {N} equal steps of 3 operations" in dx.explain(chain)(X)
