"""Small random programs keep the laws: compiled = eager, vmap = loop, derivatives = differences, and more.

A program is a list of operations on values computed so far; operands are chosen by number, modulo how many
there are, so every list of numbers is a program. It mixes dtypes and shapes, and holds nested jits and
conds.
`pytest tests/test_random_programs.py --hypothesis-profile=search` looks for programs not tried before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import didax as dx
import didax.numpy as dnp
from didax import lax
from tests.checks import assert_close, assert_round_trips, check_grads, examples, is_inexact

Program = list[tuple[Any, ...]]


# --- Operations: of one or two values, total for all shapes and dtypes --------------------------------------


def fit(x: Any, y: Any) -> tuple[Any, Any]:
    """Two values that broadcast together: the second as it is, or its mean."""
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return x, dnp.mean(y)
    return x, y


def product(x: Any, y: Any) -> Any:
    x, y = fit(x, y)
    return x * y


def total(x: Any, y: Any) -> Any:
    x, y = fit(x, y)
    return x + 0.5 * y


def select(x: Any, y: Any) -> Any:
    x, y = fit(x, y)
    return dnp.where(x > 0.1234, x, y)  # away from values that rounding could move over the edge


def contract(x: Any, y: Any) -> Any:
    return dnp.tensordot(x.reshape(-1)[:2], y.reshape(-1)[:2], 1) if min(x.size, y.size) >= 2 else x


def to_integer(x: Any, y: Any) -> Any:
    return dnp.floor(3.7 * dnp.tanh(x) + 0.377).astype("int32")


def update(x: Any, y: Any) -> Any:
    return x.at[..., :1].set(dnp.mean(y).astype(x.dtype)) if x.ndim else x


OPERATIONS = {
    "sin": lambda x, y: dnp.sin(x),
    "tanh": lambda x, y: dnp.tanh(x),
    "bell": lambda x, y: dnp.exp(-(dnp.sin(x) ** 2)),
    "ratio": lambda x, y: x / (1.5 + x * x),
    "product": product,
    "total": total,
    "select": select,
    "contract": contract,
    "sum": lambda x, y: x.sum(0) if x.ndim else x,
    "mean": lambda x, y: x.mean(-1, keepdims=True) if x.ndim else x,
    "max": lambda x, y: x.max(),
    "cumsum": lambda x, y: dnp.cumsum(x, -1) if x.ndim else x,
    "reverse": lambda x, y: x[::-1] if x.ndim else x,
    "transpose": lambda x, y: x.T,
    "flatten": lambda x, y: x.reshape(-1),
    "stack": lambda x, y: dnp.stack([x, x * 2]) if x.ndim < 3 else x,
    "concatenate": lambda x, y: dnp.concatenate([x.reshape(-1), y.reshape(-1)[:2]]),
    "pick": lambda x, y: x[..., -1] if x.ndim else x,
    "update": update,
    "to_integer": to_integer,
    "to_float32": lambda x, y: x.astype("float32"),
    "compare": lambda x, y: x > 0.05678,
    "constant": lambda x, y: dnp.arange(3.0) - 0.7,
}


def scalar(x: Any) -> Any:
    return dnp.mean(x) * 1.0


def run(program: Program, values: list[Any]) -> list[Any]:
    """Run a program on values; the last value and one from the middle are its results."""
    values = list(values)
    for name, *operands in program:
        if name == "jit":
            values += dx.jit(lambda *xs, inner=operands[0]: run(inner, list(xs)))(*values)
        elif name == "closure":
            values += dx.jit(lambda inner=operands[0], outer=tuple(values): run(inner, list(outer)))()
        elif name == "cond":
            yes, no, i = operands
            pred = scalar(values[i % len(values)]) > 0.0321
            branches = [
                lambda *xs, b=b: [scalar(y).astype("float32") for y in run(b, list(xs))] for b in (yes, no)
            ]
            values += lax.cond(pred, *branches, *values)
        else:
            i, j = operands
            values.append(OPERATIONS[name](values[i % len(values)], values[j % len(values)]))
    return [values[-1], values[len(values) // 2]]


number = st.integers(0, 7)
simple = st.tuples(st.sampled_from(sorted(OPERATIONS)), number, number)
straight = st.lists(simple, min_size=1, max_size=3)


def nesting(body: st.SearchStrategy[Program]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.one_of(
        st.tuples(st.just("jit"), body),
        st.tuples(st.just("closure"), body),
        st.tuples(st.just("cond"), body, body, number),
    )


inner = st.lists(st.one_of(simple, simple, nesting(straight)), min_size=1, max_size=3)
programs = st.lists(st.one_of(simple, simple, simple, nesting(inner)), min_size=1, max_size=6)
seeds = st.integers(0, 1000)


def inputs(seed: int, wide: bool = False) -> list[Any]:
    """A matrix, a vector, a scalar; unless `wide`, integers and booleans beside them."""
    rng = np.random.default_rng(seed)
    kind = "float64" if wide else "float32"
    floats = [rng.normal(size=shape).astype(kind) for shape in [(2, 3), (3,), ()]]
    if wide:
        return [dnp.asarray(x) for x in floats]
    return [dnp.asarray(x) for x in [*floats, rng.integers(-3, 4, 3).astype("int32"), rng.normal(size=3) > 0]]


@pytest.fixture(autouse=True, scope="module")
def in_64_bits() -> Any:
    with dx.enable_x64(True):
        yield


@given(programs, seeds)
@examples(0.2)
def test_compiled_is_eager(program: Program, seed: int) -> None:
    xs = inputs(seed)
    assert_close(dx.jit(lambda *xs: run(program, list(xs)))(*xs), run(program, xs), rtol=1e-4)


@given(programs, seeds)
@examples(0.2)
def test_disable_jit_changes_nothing(program: Program, seed: int) -> None:
    xs = inputs(seed)
    with dx.disable_jit():
        plain = run(program, xs)
    assert_close(plain, run(program, xs), rtol=1e-4)


@given(programs, seeds, st.tuples(*[st.sampled_from([0, -1, None])] * 5))
@examples(0.2)
def test_vmap_is_a_loop(program: Program, seed: int, axes: tuple[int | None, ...]) -> None:
    axes = axes if any(axis is not None for axis in axes) else (0, *axes[1:])
    draws = [inputs(seed), inputs(seed + 1)]
    stacked = [x if a is None else dnp.stack([x, y], a) for x, y, a in zip(*draws, axes, strict=True)]
    found = dx.vmap(lambda *xs: run(program, list(xs)), axes)(*stacked)
    second = [x if a is None else y for x, y, a in zip(*draws, axes, strict=True)]
    loop = [np.stack([x, y]) for x, y in zip(run(program, draws[0]), run(program, second), strict=True)]
    assert_close(found, loop, rtol=1e-4)


@given(programs, seeds)
@examples(0.2)
def test_jaxprs_are_legal_and_round_trip(program: Program, seed: int) -> None:
    f = lambda *xs: run(program, list(xs))
    xs = inputs(seed)
    assert_round_trips(dx.make_jaxpr(f)(*xs))
    tangents = [x * 0 + 1 if is_inexact(x) else np.zeros(x.shape, dx.float0) for x in xs]
    assert_round_trips(
        dx.make_jaxpr(lambda *xs: [t for t in dx.jvp(f, xs, tuple(tangents))[1] if is_inexact(t)])(*xs)
    )


@given(programs, seeds)
@examples(0.12)
def test_derivatives(program: Program, seed: int) -> None:
    """jvp against finite differences, vjp and linearize against jvp; some values are float32."""
    f = lambda *xs: [y for y in run(program, list(xs)) if is_inexact(y)]
    check_grads(f, inputs(seed, wide=True), order=1, eps=float(np.finfo(np.float32).eps))


@pytest.mark.ci
@given(programs, seeds)
@examples(0.12)
def test_second_derivatives(program: Program, seed: int) -> None:
    f = lambda *xs: sum(dnp.sum(y) for y in run(program, list(xs)) if is_inexact(y)) * 1.0
    check_grads(
        lambda *xs: dx.grad(f)(*xs), inputs(seed, wide=True), order=1, eps=float(np.finfo(np.float32).eps)
    )


@pytest.mark.ci
@given(programs, seeds)
@examples(0.12)
def test_transformations_commute_with_jit(program: Program, seed: int) -> None:
    f = lambda *xs: sum(dnp.sum(y) for y in run(program, list(xs)) if is_inexact(y)) * 1.0
    xs = inputs(seed, wide=True)
    assert_close(dx.jit(dx.grad(f))(*xs), dx.grad(dx.jit(f))(*xs), rtol=1e-4, atol=1e-5)
    batches = [dnp.stack([x, x + 0.25]) for x in xs]
    assert_close(
        dx.jit(dx.vmap(dx.grad(f)))(*batches), dx.vmap(dx.jit(dx.grad(f)))(*batches), rtol=1e-4, atol=1e-5
    )
