"""Products of matrices moved out of loops: what moves before and after them, what stays, and that results are equal."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.jaxpr import Eqn, Jaxpr
from didax.passes.loops import defer, hoist
from tests.checks import ci_unless
from tests.loop_programs import (
    RNG,
    F,
    assert_same_as_without,
    gradient,
    live,
    lstm,
    net,
    normal,
    optimised,
    scans,
)

RULE = "products before the loop"
AFTER = "products after the loop"


def shapes_of_products(jaxpr: Jaxpr) -> list[tuple[Any, ...]]:
    return [e.outvars[0].aval.shape for e in jaxpr.eqns if e.primitive.name == "dot_general"]


def the_scan(f: F, *args: Any) -> tuple[Jaxpr, Eqn]:
    """The optimised program, and its only scan."""
    jaxpr = optimised(f, *args)
    (scan,) = scans(jaxpr)
    return jaxpr, scan


def final(step: F, shape: tuple[int, ...]) -> F:
    """The last carry of a scan over `xs`, with the other arguments for weights."""
    return lambda xs, *w: lax.scan(lambda h, x: (step(h, x, *w), None), dnp.zeros(shape), xs)[0]


def assert_nothing_moves(f: F, *args: Any) -> None:
    text = dx.explain(f)(*args)
    assert RULE not in text
    assert AFTER not in text
    assert_same_as_without(f, *args)


# --- What moves before a loop ----------------------------------------------------------------------------------


def test_a_product_of_rows_is_computed_for_all_steps_at_once():
    f, args = net(64, 16)
    jaxpr, scan = the_scan(f, *args)
    assert shapes_of_products(jaxpr) == [(20, 16, 64)]
    assert shapes_of_products(scan.params["jaxpr"]) == [(16, 64)]
    assert f"yes {RULE}: float32[16,64]; 4,096 bytes stacked for each step" in dx.explain(f)(*args)
    assert_same_as_without(f, *args)


def test_what_a_factor_is_computed_from_moves_with_it():
    def step(h: Any, x: Any, u: Any, w: Any) -> Any:
        x = dnp.concatenate([dnp.tanh(x) * 2, x.astype(np.float32) ** 2], 1)
        return dnp.tanh(x @ (u * 0.5) + h @ w)

    f, args = final(step, (16, 64)), (normal(9, 16, 20), normal(40, 64), normal(64, 64, scale=0.1))
    jaxpr, scan = the_scan(f, *args)
    assert shapes_of_products(jaxpr) == [(9, 16, 64)]
    assert "tanh" in {e.primitive.name for e in jaxpr.eqns}
    assert [e.primitive.name for e in scan.params["jaxpr"].eqns] == ["dot_general", "add", "tanh"]
    assert_same_as_without(f, *args)


def test_products_of_concatenated_parts_are_taken_apart():
    def step(h: Any, x: Any, w: Any) -> Any:
        return dnp.tanh(dnp.concatenate([x, h, dnp.cumsum(x, 1)], 1) @ w)

    f, args = final(step, (16, 64)), (normal(40, 16, 48), normal(160, 64, scale=0.1))
    jaxpr, scan = the_scan(f, *args)
    assert shapes_of_products(jaxpr) == [(40, 16, 64)]  # of the first part: sums over rows stay
    assert shapes_of_products(scan.params["jaxpr"]) == [(16, 64)]
    assert_same_as_without(f, *args)


def test_a_concatenation_on_the_right_is_taken_apart():
    def step(h: Any, x: Any, w: Any) -> Any:
        return dnp.tanh(w @ dnp.concatenate([h, x], 0))

    f, args = final(step, (64, 16)), (normal(40, 48, 16), normal(64, 112, scale=0.1))
    jaxpr, scan = the_scan(f, *args)
    assert len(shapes_of_products(jaxpr)) == 1
    assert shapes_of_products(scan.params["jaxpr"]) == [(64, 16)]
    assert_same_as_without(f, *args)


def test_parts_of_products_stay_where_few_steps_would_gain():
    """XLA compiles a product for each gate in place of one, which few steps do not earn back."""

    def step(h: Any, x: Any, w: Any) -> Any:
        return dnp.tanh(dnp.concatenate([x, h], 1) @ w)

    f, w = final(step, (16, 64)), normal(112, 64, scale=0.1)
    assert shapes_of_products(the_scan(f, normal(40, 16, 48), w)[0]) == [(40, 16, 64)]
    assert_nothing_moves(f, normal(20, 16, 48), w)


def test_gates_are_read_whole():
    """Gates that are slices of a sum: a product for each, so that no row of a stack is read in parts."""
    f, args = lstm(32, 8)
    jaxpr, scan = the_scan(f, *args)
    assert shapes_of_products(jaxpr) == [(20, 8, 32)] * 4
    assert shapes_of_products(scan.params["jaxpr"]) == [(8, 128)]
    rows = scan.params["jaxpr"].invars[-4:]
    sliced = {e.invars[0] for e in scan.params["jaxpr"].eqns if e.primitive.name == "slice"}
    assert {v.aval.shape for v in rows} == {(8, 32)}
    assert sliced.isdisjoint(rows)
    assert_same_as_without(f, *args)


def test_a_product_of_which_one_slice_is_read_is_of_slices():
    """The cotangent of an LSTM's joined input, of which the backward scan needs the state's half."""

    def f(w: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            h, c = c
            i, f, g, o = dnp.split(dnp.concatenate([x, h], 1) @ w, 4, 1)
            c = dx.nn.sigmoid(f) * c + dx.nn.sigmoid(i) * dnp.tanh(g)
            return (dx.nn.sigmoid(o) * dnp.tanh(c), c), None

        zero = dnp.zeros((8, 32))
        return (lax.scan(step, (zero, zero), xs)[0][0] ** 2).sum()

    args = normal(64, 128, scale=0.1), normal(12, 8, 32)
    backward = scans(optimised(dx.grad(f), *args))[-1]
    assert shapes_of_products(backward.params["jaxpr"]) == [(8, 32)]
    assert backward.params["num_consts"] == 1
    assert_same_as_without(dx.grad(f, (0, 1)), *args)


def test_stacked_products_need_no_scan():
    def f(xs: Any, u: Any, h: Any) -> Any:
        return lax.scan(lambda h, x: (dnp.sin(h) + x[0, 0], x @ u), h, xs)

    args = normal(9, 16, 32), normal(32, 32), normal(64, 64)
    jaxpr, scan = the_scan(f, *args)
    assert len(scan.outvars) == 1
    assert jaxpr.outvars[1] in {e.outvars[0] for e in jaxpr.eqns if e.primitive.name == "dot_general"}
    assert_same_as_without(f, *args)


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_are_those_of_their_steps(reverse):
    def f(xs: Any, u: Any, w: Any) -> Any:
        return lax.scan(lambda h, x: (dnp.tanh(h @ w + x @ u), h), dnp.zeros((4, 32)), xs, reverse=reverse)

    args = normal(7, 4, 32), normal(32, 32), normal(32, 32, scale=0.2)
    assert shapes_of_products(optimised(f, *args)) == [(7, 4, 32)]
    assert_same_as_without(f, *args)


# --- What moves after a loop ----------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
def test_a_readout_is_computed_for_all_steps_at_once(reverse):
    def f(xs: Any, w: Any, o: Any, b: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = dnp.tanh(h @ w + x)
            return h, {"state": h, "readout": dx.nn.sigmoid(h @ (o * 2) + b)}

        return lax.scan(step, dnp.zeros((8, 32)), xs, reverse=reverse)

    args = normal(9, 8, 32), normal(32, 32, scale=0.1), normal(32, 24), normal(24)
    jaxpr = optimised(f, *args)
    assert shapes_of_products(jaxpr) == [(9, 8, 24)]
    (scan,) = scans(jaxpr)
    assert scan.params["num_consts"] == 1
    assert f"yes {AFTER}: float32[8,24]" in dx.explain(f)(*args)
    assert_same_as_without(f, *args)


def test_a_readout_of_a_state_that_is_not_stacked():
    """The state is stacked instead, where it is not larger."""

    def f(xs: Any, o: Any) -> Any:
        return lax.scan(lambda h, x: (dnp.sin(h) + x, h @ o), dnp.zeros((8, 32)), xs)[1]

    for columns, moves in [(32, True), (31, False)]:
        args = normal(9, 8, 32), normal(32, columns)
        assert (AFTER in dx.explain(f)(*args)) == moves
        assert_same_as_without(f, *args)


def test_cotangents_of_inputs_are_computed_after_the_backward_loop():
    f, args = lstm(32, 8)
    g = dx.grad(lambda *args: (f(*args) ** 2).mean(), (0, 1, 2, 3))
    backward = scans(optimised(g, *args))[-1]
    assert shapes_of_products(backward.params["jaxpr"]) == [(8, 32)]
    assert f"yes {AFTER}: float32[8,32]" in dx.explain(g)(*args)
    assert_same_as_without(g, *args)


def test_of_two_slices_each_moves_where_it_is_read():
    """A product of which one half is carried on and the other a result."""

    def f(xs: Any, w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            y = dnp.sin(h) + x
            z = y @ w
            return z[:, :32] * 0.1, (y, z[:, 32:])

        return lax.scan(step, dnp.zeros((16, 32)), xs)

    args = normal(9, 16, 32), normal(32, 64)
    jaxpr = optimised(f, *args)
    assert shapes_of_products(jaxpr) == [(9, 16, 32)]
    assert shapes_of_products(scans(jaxpr)[0].params["jaxpr"]) == [(16, 32)]
    assert_same_as_without(f, *args)


def test_results_that_the_body_reads_stay():
    def f(xs: Any, w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            y = h @ w
            return dnp.tanh(y + x), y

        return lax.scan(step, dnp.zeros((8, 64)), xs)

    args = normal(9, 8, 64), normal(64, 64, scale=0.1)
    assert AFTER not in dx.explain(f)(*args)
    assert_same_as_without(f, *args)


def test_products_of_two_values_of_a_step_stay():
    """Both factors would have to be stacked, which are larger than what is stacked of them."""

    def f(xs: Any) -> Any:
        return lax.scan(lambda h, x: (dnp.sin(h) + x, h @ dnp.cos(h).T), dnp.zeros((8, 64)), xs)[1]

    assert AFTER not in dx.explain(f)(normal(9, 8, 64))
    assert_same_as_without(f, normal(9, 8, 64))


# --- What stays -----------------------------------------------------------------------------------


def test_a_map_keeps_its_products():
    assert_nothing_moves(lambda xs, u: lax.map(lambda x: x @ u, xs), normal(9, 16, 32), normal(32, 32))


def test_what_costs_more_to_stack_than_to_compute_stays():
    """The part that a joined product starts no kernel for, of short sums."""

    def step(h: Any, x: Any, w: Any) -> Any:
        return dnp.tanh(dnp.concatenate([x, h], 1) @ w)

    assert_nothing_moves(final(step, (32, 64)), normal(9, 32, 2), normal(66, 64, scale=0.1))


def test_large_parts_that_cores_share_anyway_stay():
    def step(h: Any, x: Any, w: Any) -> Any:
        return dnp.tanh(dnp.concatenate([x, h], 1) @ w)

    assert_nothing_moves(final(step, (64, 128)), normal(3, 64, 128), normal(256, 128, scale=0.05))


@pytest.mark.cpu
def test_small_products_of_a_loop_that_is_one_function_stay():
    """There they start no kernel, and a batch of small products starts many."""

    def f(xs: Any, u: Any, w: Any) -> Any:
        return lax.scan(lambda h, x: (dnp.tanh(x @ x.T + h @ w), h @ u), dnp.zeros((4, 4)), xs)

    assert "yes one function" in dx.explain(f)(normal(9, 4, 4), normal(4, 4), normal(4, 4))
    assert_nothing_moves(f, normal(9, 4, 4), normal(4, 4), normal(4, 4))


def test_products_of_large_factors_that_are_computed_stay():
    """A step finds such a factor near; of all steps it would be written to memory and read again."""
    f = final(lambda h, x, u, w: dnp.tanh(x.astype(np.float32) @ u + h @ w), (32, 32))
    weights = normal(512, 32, scale=0.05), normal(32, 32, scale=0.1)
    xs = RNG.integers(0, 255, (5, 32, 512))
    assert_nothing_moves(f, xs.astype(np.uint8), *weights)
    assert RULE in dx.explain(f)(xs.astype(np.float32), *weights)


def test_what_is_computed_on_the_way_is_bounded(monkeypatch):
    """Gradients summed over small batches: what each keeps in memory is not kept of all."""

    def before(xs: Any, u: Any, w: Any) -> Any:
        return lax.scan(lambda h, x: (h + dnp.tanh(x @ u) @ w, None), dnp.zeros((32, 32)), xs)[0]

    def after(xs: Any, u: Any, _: Any) -> Any:
        return lax.scan(lambda h, x: (dnp.sin(h) + x, dnp.tanh(h @ u)[:, ::8]), dnp.zeros((32, 32)), xs)

    args = normal(10, 32, 32), normal(32, 256), normal(256, 32)
    for f, rule in [(before, RULE), (after, AFTER)]:
        assert rule in dx.explain(f)(*args)
        assert_same_as_without(f, *args)
    for module in (hoist, defer):
        monkeypatch.setattr(module, "MAX_BYTES", 10 * 32 * 256 * 4 - 1)
    for f in (before, after):
        assert_nothing_moves(lambda *args, f=f: f(*args), *args)


def test_stacks_are_bounded(monkeypatch):
    monkeypatch.setattr(hoist, "MAX_BYTES", 20 * 16 * 64 * 4 - 1)
    f, args = net(64, 16)
    assert RULE not in dx.explain(f)(*args)


def test_sums_of_products_are_left_for_after_the_loop():
    """A sum over steps is one product then, of the rows themselves."""

    def f(xs: Any, ys: Any) -> Any:
        return lax.scan(lambda s, xy: (s + xy[0].T @ xy[1], None), dnp.zeros((32, 32)), (xs, ys))[0]

    args = normal(9, 16, 32), normal(9, 16, 32)
    assert RULE not in dx.explain(f)(*args)
    assert shapes_of_products(optimised(f, *args)) == [(32, 32)]
    assert_same_as_without(f, *args)


def test_products_of_the_carry_stay():
    f = final(lambda h, x, w: dnp.tanh(h @ w) + x[0, 0], (16, 64))
    assert_nothing_moves(f, normal(9, 16, 64), normal(64, 64, scale=0.1))


def test_loops_with_effects_keep_their_products():
    def f(xs: Any, u: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            dx.debug.callback(lambda _: None, h[0, 0])
            return h + x @ u, None

        return lax.scan(step, dnp.zeros((16, 64)), xs)[0]

    assert RULE not in dx.explain(f)(normal(9, 16, 64), normal(64, 64))


# --- Sums with many terms -------------------------------------------------------------------------


def test_a_term_that_is_read_twice_is_taken_apart_once():
    """Doubled forty times, a value has 2 ** 40 terms."""

    def doubled(x: Any) -> Any:
        for _ in range(40):
            x = dnp.add(x, x)
        return x

    def f(xs: Any, u: Any, w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            z = doubled(x @ u + h @ w)
            return dnp.tanh(z[:, :32] * 1e-12) + z[:, 32:] * 1e-12, h @ doubled(w)

        return lax.scan(step, dnp.full((8, 32), 0.1), xs)

    args = normal(5, 8, 32), normal(32, 64, scale=0.1), normal(32, 64, scale=0.1)
    assert shapes_of_products(optimised(f, *args)) == [(5, 8, 32), (5, 8, 32), (5, 8, 64)]
    assert_same_as_without(f, *args)


def test_sums_of_more_terms_than_python_calls():
    def f(xs: Any, u: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            h, total = c
            y = x.T
            z, square = x @ u, y @ x
            for _ in range(1200):
                z, square = z + h, square + y @ x
            return (dnp.tanh(z[:, :32] + z[:, 32:]) @ u, total + square), None

        return lax.scan(step, (dnp.zeros((8, 64)), dnp.zeros((32, 32))), xs)[0]

    text = dx.explain(f)(normal(5, 8, 32), normal(32, 64))
    assert f"yes {RULE}: float32[8,32], float32[8,32]" in text
    assert "yes one product after the loop" in text


def test_slices_of_products_of_slices():
    def f(xs: Any, u: Any, w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            first = x @ u
            second = first[:, :32] @ u + h @ w
            return dnp.tanh(second[:, :32] * second[:, 32:]) + first[:, 32:], None

        return lax.scan(step, dnp.zeros((8, 32)), xs)[0]

    args = normal(5, 8, 32), normal(32, 64, scale=0.1), normal(32, 64, scale=0.1)
    assert shapes_of_products(optimised(f, *args)) == [(5, 8, 32)] * 4
    assert_same_as_without(f, *args)


def test_products_of_parts_that_are_such_products():
    def f(xs: Any, u: Any, w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            first = dnp.concatenate([x, h], 1) @ u
            return dnp.tanh(dnp.concatenate([first, x], 1) @ w), None

        return lax.scan(step, dnp.zeros((8, 32)), xs)[0]

    args = normal(300, 8, 32), normal(64, 32, scale=0.1), normal(64, 32, scale=0.1)
    assert shapes_of_products(optimised(f, *args)) == [(300, 8, 32)] * 2
    assert_same_as_without(f, *args)


def test_slices_of_a_product_with_a_scalar():
    def f(xs: Any, v: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            return dnp.tanh(dnp.einsum(",i->i", h[0], v)[:8] + x), dnp.einsum("i,->i", v, h[0])[8:]

        return lax.scan(step, dnp.ones(8), xs)

    assert_same_as_without(f, normal(5, 8), normal(16))


# --- The law: results are as without ---------------------------------------------------------------


def generated(seed: int) -> tuple[F, tuple[Any, ...]]:
    """A recurrent cell of random form over a batch, and its arguments."""
    choose = random.Random(seed)
    units, inputs = choose.choice([8, 32, 40]), choose.choice([4, 32])
    batch, length = choose.choice([1, 3, 16]), choose.choice([0, 1, 6, 30])
    gates = choose.choice([1, 2, 4])
    form = choose.choice(["joined", "apart", "twice", "of the left", "shared"])
    cut = choose.choice(["split", "reshape", "strided", "overlapping"])
    reverse, stacked = choose.random() < 0.3, choose.random() < 0.5

    def product(x: Any, h: Any, w: Any) -> Any:
        wx, wh = w[:inputs], w[inputs:]
        if form == "joined":
            return dnp.concatenate([x, h], 1) @ w
        if form == "apart":
            return x @ wx + (h @ wh + w[0])
        if form == "twice":
            return (x @ wx) @ dnp.eye(gates * units) + dnp.sin(x) @ wx + h @ wh
        if form == "of the left":
            return dnp.einsum("ji,bj->bi", wx, x) + dnp.einsum("ji,bj->bi", wh, h)
        y = x @ wx
        return y + h @ wh + y[:, ::-1]

    def parts(z: Any) -> list[Any]:
        if cut == "reshape":
            return list(dnp.moveaxis(z.reshape(batch, gates, units), 1, 0))
        if cut == "strided":
            return [z[:, k::gates] for k in range(gates)]
        if cut == "overlapping":
            return [z[:, k : k + units] for k in range(gates)]
        return dnp.split(z, gates, 1)

    def f(w: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            first, *rest = parts(product(x, h, w))
            h = dnp.tanh(first)
            for gate in rest:
                h = h * dx.nn.sigmoid(gate)
            return h, (h[0], x @ w[:inputs], dnp.sin(h @ w[:units, :units]) + h) if stacked else None

        return lax.scan(step, dnp.full((batch, units), 0.1), xs, reverse=reverse)

    return f, (normal(inputs + units, gates * units, scale=0.3), normal(length, batch, inputs))


def _loss(f: F) -> F:
    return lambda *args: sum((y**2).sum() for y in dx.tree.leaves(f(*args)))


MODES: dict[str, F] = {
    "plain": lambda f: f,
    "gradient": lambda f: dx.grad(_loss(f), (0, 1)),
    "vmap": lambda f: lambda w, xs: dx.vmap(f, (None, 0))(w, dnp.stack([xs, xs * 0.5])),
    "vmap over weights": lambda f: (
        lambda w, xs: dx.vmap(dx.grad(_loss(f)), (0, None))(dnp.stack([w, -w]), xs)
    ),
    "jvp": lambda f: lambda w, xs: dx.jvp(f, (w, xs), (w * 0.1, xs)),
    "second order": lambda f: lambda w, xs: dx.jvp(dx.grad(_loss(f), (0, 1)), (w, xs), (w * 0.1, xs)),
    "checkpoint": lambda f: dx.grad(_loss(dx.checkpoint(f)), (0, 1)),
}


@pytest.mark.parametrize(
    ("seed", "how"),
    [
        pytest.param(n, how, marks=ci_unless(n == i % 3) if n % 3 == i % 3 else pytest.mark.slow)
        for n in range(6)
        for i, how in enumerate(MODES)
    ],
)
def test_generated_cells_compute_what_they_did(seed, how):
    f, args = generated(seed * len(MODES) + list(MODES).index(how))
    assert_same_as_without(MODES[how](f), *args)


def test_generated_cells_have_products_that_move():
    """Otherwise the test above would show nothing."""
    texts = [dx.explain(f)(*args) for f, args in map(generated, range(42))]
    assert sum(RULE in text for text in texts) > 20
    assert sum(AFTER in text for text in texts) > 10


def test_other_dtypes():
    def f(xs: Any, u: Any, w: Any) -> Any:
        start = dnp.zeros((16, 32), xs.dtype)
        return lax.scan(lambda h, x: ((h @ w + x @ u) % 7, None), start, xs)[0]

    for dtype in (np.int32, np.float64, np.complex64):
        with dx.enable_x64(dtype is np.float64):
            args = [(10 * normal(*s)).astype(dtype) for s in [(5, 16, 32), (32, 32), (32, 32)]]
            g = (
                f
                if dtype is not np.complex64
                else lambda *a: lax.scan(
                    lambda h, x: (h @ a[2] * 0.01 + x @ a[1], None), dnp.zeros((16, 32), np.complex64), a[0]
                )[0]
            )
            assert shapes_of_products(optimised(g, *args)) == [(5, 16, 32)]
            assert_same_as_without(g, *args)


def test_stacked_nets():
    """A net over the states of another, and the gradients of both."""
    f, (w, u, b, xs) = net(40, 4)
    two = lambda w, u, b: (f(w, u, b, f(u, w, b, xs)) ** 2).mean()
    assert dx.explain(dx.grad(two, (0, 1, 2)))(w, u, b).count(RULE) == 2
    assert_same_as_without(dx.grad(two, (0, 1, 2)), w, u, b)


@pytest.mark.cpu
def test_stacks_of_the_backward_loop_lie_where_products_of_the_forward_loop_lay():
    """Products are stacked before the first loop and after the second: no program needs both stacks at a time."""
    f, args = lstm(40, 4, 200)
    compiled = dx.jit(gradient(f)).lower(*args).compile()
    of_a_state = 200 * 4 * 40 * 4
    # The two stacks are four times of this size; apart they would make 16 of it.
    assert compiled.memory_analysis().temp_size_in_bytes < 13.5 * of_a_state


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float16", "complex64"])
def test_stacks_of_a_loop_over_what_another_loop_stacked(dtype):
    """The second loop's stacks begin with NaN, an element of the first loop's, and are overwritten."""

    def f(xs: Any) -> Any:
        ys = lax.scan(lambda c, x: (c + x, c * x), dnp.nan, xs)[1]
        return lax.scan(lambda c, y: (c + 1, ((c % 2).astype(dtype), y > 0)), 0, ys)[1]

    numbers, signs = dx.jit(f)(dnp.ones(5))
    assert numbers.dtype == dtype
    assert numbers.tolist() == [0, 1, 0, 1, 0]
    assert signs.tolist() == [False] * 5


def test_the_notes_of_a_loop_stand_together():
    """Though a later pass changes how many results it stacks."""
    f, args = lstm(32, 8)
    text = dx.explain(gradient(f))(*args)
    assert text.splitlines()[0].endswith("2 loops")
    assert RULE in text
    assert "yes residuals computed again" in text


def test_programs_without_such_products_are_the_same_object():
    jaxpr = live(lambda x, xs: lax.scan(lambda c, x: (dnp.sin(c) @ c, x), x, xs), normal(64, 64), normal(3))
    assert hoist.hoist_products(jaxpr)[0] is jaxpr
