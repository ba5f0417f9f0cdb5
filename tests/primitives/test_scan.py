"""The scans that a scan becomes: what is carried, saved, hoisted and written in place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.jaxpr import Eqn, Jaxpr, eval_jaxpr
from didax.passes.simplify import dce_jaxpr, simplify_jaxpr
from didax.primitives.control_flow.accumulate import accumulate_in_place
from didax.primitives.control_flow.order import fence_p, read_before_writing
from didax.primitives.control_flow.scan import scan_p
from didax.transforms.partial_eval import partial_eval_jaxpr
from tests.checks import assert_close

F = Callable[..., Any]
ROWS = np.linspace(0.1, 1.2, 5, dtype=np.float32)


def staged(f: F, *args: Any) -> Jaxpr:
    return simplify_jaxpr(dx.make_jaxpr(f)(*args).jaxpr)


def scans(jaxpr: Jaxpr) -> list[Eqn]:
    return [eqn for eqn in jaxpr.eqns if eqn.primitive is scan_p]


def sizes(eqn: Eqn) -> tuple[int, int, int, int]:
    """Numbers of constants, parts of the carry, xs, and outputs beside the carry."""
    consts, carry = eqn.params["num_consts"], eqn.params["num_carry"]
    return consts, carry, len(eqn.invars) - consts - carry, len(eqn.outvars) - carry


# --- What the body hands on -----------------------------------------------------------------------


def test_what_the_body_does_not_change_is_a_constant():
    def f(w: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: ((c[0] * c[1] + x, c[1]), None), (w, w), xs)[0]

    jaxpr = staged(f, 2.0, ROWS)
    (eqn,) = scans(jaxpr)
    assert sizes(eqn) == (1, 1, 1, 0)
    assert jaxpr.outvars[1] is jaxpr.invars[0]


def test_an_output_that_is_an_input_is_that_input():
    jaxpr = staged(lambda xs: lax.scan(lambda c, x: (c + x, (x, c, c)), 0.0, xs)[1], ROWS)
    (eqn,) = scans(jaxpr)
    assert sizes(eqn) == (0, 1, 1, 1)
    assert jaxpr.outvars[0] is jaxpr.invars[0]
    assert jaxpr.outvars[1] is jaxpr.outvars[2]


def test_a_loop_that_only_hands_on_is_none():
    assert scans(staged(lambda xs: lax.scan(lambda c, x: (c, x), 1.0, xs), ROWS)) == []


def test_dead_parts_of_carry_xs_and_outputs_are_dropped():
    def body(c: Any, x: Any) -> Any:
        used, dead, counter = c
        return (used * counter, dead + x[1], counter + 1), (x[0], dnp.sin(dead), counter)

    def f(xs: Any) -> Any:
        carry, ys = lax.scan(body, (1.0, 0.0, 0), xs)
        return carry[0], ys[2]

    jaxpr, used = dce_jaxpr(dx.make_jaxpr(f)((ROWS, ROWS)).jaxpr, (True, True))
    (eqn,) = scans(jaxpr)
    assert sizes(eqn) == (0, 2, 0, 1)
    assert used == (False, False)


# --- Residuals ------------------------------------------------------------------------------------


def halves(f: F, *args: Any) -> list[Eqn]:
    return scans(staged(lambda *xs: dx.linearize(f, *xs)[1](*xs), *args))


def test_residuals_that_are_constants_or_rows_are_not_stacked():
    def f(h: Any, w: Any, xs: Any) -> Any:
        return lax.scan(lambda h, x: (h * w + x * w, None), h, xs)[0]

    known, linear = halves(f, np.float32(1), np.float32(2), ROWS)
    assert sizes(known)[3] == 1  # h, before the step
    assert sizes(linear) == (2, 1, 3, 0)  # w, w_dot; h_dot; h, x, x_dot


def test_residuals_that_are_the_same_at_every_step_are_computed_once():
    def f(h: Any, w: Any, xs: Any) -> Any:
        return lax.scan(lambda h, x: (h * dnp.sin(w) * x, None), h, xs)[0]

    jaxpr = staged(lambda h, w, xs: dx.linearize(lambda h: f(h, w, xs), h)[1](h), 1.0, np.float32(2), ROWS)
    known, linear = scans(jaxpr) if len(scans(jaxpr)) == 2 else (None, scans(jaxpr)[0])
    assert known is None  # nothing of it is needed: the derivative does not depend on h
    assert sizes(linear) == (1, 1, 1, 0)
    assert [eqn.primitive.name for eqn in jaxpr.eqns].index("sin") < jaxpr.eqns.index(linear)


def test_a_residual_that_is_an_output_is_stacked_once():
    known, linear = halves(lambda h, xs: lax.scan(lambda h, x: ((y := dnp.exp(h * x)), y), h, xs), 1.0, ROWS)
    assert sizes(known)[3] == 2  # y, an output and a residual; h before the step
    assert sizes(linear) == (0, 1, 4, 1)  # h_dot; y, h, x, x_dot


def test_integers_have_no_tangents():
    def f(h: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: ((c[0] * x, c[1] + 1), c[1]), (h, 0), xs)

    _, linear = halves(f, 1.0, ROWS)
    assert sizes(linear)[1:] == (1, 3, 0)  # h_dot; h, x, x_dot


# --- Partial evaluation and transposition ---------------------------------------------------------


@pytest.mark.parametrize("unknown", [(True, False, False), (False, True, False), (False, False, True)])
def test_partial_evaluation_and_the_rest_give_the_whole(unknown):
    def f(h: Any, w: Any, xs: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            h, g, n = c
            return (dnp.sin(h) * w, g * dnp.cos(x), n + 1), (h * g, n, x * dnp.exp(w))

        return lax.scan(body, (h, 1.0, 0), xs)

    args = [np.float32(0.4), np.float32(-0.7), ROWS]
    jaxpr = dx.make_jaxpr(f)(*args).jaxpr
    split = partial_eval_jaxpr(jaxpr, unknown)
    assert split.unknown_out[2] is False  # the counter is known in any case
    known_args = [x for x, unk in zip(args, unknown, strict=True) if not unk]
    outs = eval_jaxpr(split.known, known_args)
    n = len(outs) - split.num_residual_outputs
    residuals = split.residual_values(known_args, outs[n:])
    rest = iter(
        eval_jaxpr(split.unknown, [*residuals, *(x for x, u in zip(args, unknown, strict=True) if u)])
    )
    known = iter(outs[:n])
    assert_close([next(rest if unk else known) for unk in split.unknown_out], eval_jaxpr(jaxpr, args))


def test_the_transpose_of_a_linear_loop_with_a_counter():
    """The counter is computed first, by a scan of its own."""

    def f(x: Any, y: Any) -> Any:
        return lax.scan(lambda c, row: ((c[0] * c[1] + row, c[1] + 1), c[0] * 2), (x, 1), y)

    _, ys = f(2.0, ROWS)
    transposed = dx.linear_transpose(lambda x, y: (f(x, y)[0][0], f(x, y)[1]), 1.0, ROWS)
    x_bar, y_bar = transposed((np.float32(3), ys))
    wanted = dx.vjp(lambda x, y: (f(x, y)[0][0], f(x, y)[1]), 2.0, ROWS)[1]((np.float32(3), ys))
    assert_close((x_bar, y_bar), wanted)


def test_cotangents_of_constants_that_get_none():
    def f(w: Any, v: Any) -> Any:
        return lax.scan(lambda h, x: (h * x, v * 2), w, ROWS)[0]

    assert_close(dx.grad(f, (0, 1))(1.0, 3.0), (np.prod(ROWS), np.float32(0)))


# --- In place -------------------------------------------------------------------------------------

N = 6000  # large enough for copies to be worth a fence


def write(x: Any, v: Any) -> Any:
    return lax.scan(lambda x, iv: (x.at[iv[0]].set(iv[1]), None), x, (np.arange(N), v))[0]


def read_and_write(x: Any, v: Any) -> Any:
    return lax.fori_loop(0, N, lambda i, x: x.at[i].set(x[i - 1] * v[i]), x)


def add_to_first(x: Any, v: Any) -> Any:
    return lax.fori_loop(0, N, lambda i, x: x.at[0].add(v[i] * x[2]), x)


def pop(x: Any, v: Any) -> Any:
    """The value is read where something else is written."""

    def body(x: Any, iv: Any) -> Any:
        return x.at[iv[0]].set(iv[1]), dnp.sin(x[iv[0]])

    return lax.scan(body, x, (np.arange(N), v))[1]


def in_while(x: Any, v: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < N, lambda c: (c[0] + 1, c[1].at[c[0]].set(v[c[0]])), (0, x))[1]


def copies(f: F, shape: tuple[int, ...], *args: Any) -> list[str]:
    """Copies of arrays of that shape inside the bodies of loops."""
    text = dx.jit(f).lower(*args).compile().as_text()
    bodies = re.findall(r" while\(.*body=%?([\w.]+)", text)
    assert bodies
    return [
        line
        for name in bodies
        for body in re.findall(rf"^%?{re.escape(name)} .*?^}}", text, re.M | re.S)
        for line in body.splitlines()
        if re.search(rf"f32\[{','.join(map(str, shape))}\]\S* copy\(", line)
    ]


@pytest.mark.parametrize("f", [write, read_and_write, add_to_first, pop, in_while])
def test_updates_are_in_place(f):
    x, v = np.ones(N, np.float32), np.ones(N, np.float32)
    assert copies(f, (N,), x, v) == []
    both = np.ones((3, N), np.float32)
    assert copies(dx.vmap(f, (0, None)), (3, N), both, v) == []
    if f is not in_while:
        gradient = dx.grad(lambda x, v: dnp.sum(f(x, v) ** 2), (0, 1))
        assert copies(gradient, (N,), x, v) == []
        assert copies(dx.vmap(gradient), (3, N), both, both) == []


@pytest.mark.parametrize("f", [write, read_and_write, add_to_first, pop])
def test_updates_in_place_have_the_derivatives_they_had(f, monkeypatch):
    """Among few elements, where any mistake in their order shows."""
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(2, N)).astype(np.float32)
    gradient = lambda: dx.jit(dx.grad(lambda x, v: dnp.sum(dnp.sin(f(x, v))), (0, 1)))(x, v)
    found = gradient()
    monkeypatch.setattr("didax.primitives.control_flow.lowering.read_before_writing", lambda jaxpr: jaxpr)
    monkeypatch.setattr(
        "didax.primitives.control_flow.transposition.accumulate_in_place", lambda jaxpr: jaxpr
    )
    dx.clear_caches()
    # What `add_to_first` reads in each step has a sum of N terms as its derivative, which the two programs round in
    # another order.
    assert_close(found, gradient(), rtol=3e-4 if f is add_to_first else None)


def test_a_sum_with_a_window_becomes_an_update_of_it():
    def f(x: Any, u: Any, i: Any) -> Any:
        z = dnp.zeros(8, np.float32)
        by_slice = x + lax.dynamic_update_slice(z, u, (i,))
        numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        by_index = lax.scatter_add(z, dnp.stack([i, i])[:, None], u, numbers) + by_slice
        return by_index + lax.pad(u, np.float32(0), [(2, 4, 0)]) + lax.pad(u, np.float32(0), [(1, 4, 1)])

    args = np.arange(8, dtype=np.float32), np.float32([3, 4]), np.int32(5)
    jaxpr = dx.make_jaxpr(f)(*args).jaxpr
    new = accumulate_in_place(jaxpr)
    assert_close(eval_jaxpr(new, args), eval_jaxpr(jaxpr, args))
    adds = [eqn for eqn in new.eqns if eqn.primitive.name == "add" and eqn.outvars[0].aval.shape == (8,)]
    assert len(adds) == 1  # of the padding between elements, which is no window


def test_a_read_that_needs_the_update_does_not_wait_for_it():
    """Reading x[x.at[i].set(1)[0]] before the update is impossible; so is fencing a sum of the whole."""
    large = dnp.zeros(N, np.int32)

    def circular(x: Any, i: Any) -> Any:
        y = x.at[i].set(1)
        return y, x[y[0]]

    def whole(x: Any, i: Any) -> Any:
        return x.at[i].set(1), x[2], x.sum()

    def fine(x: Any, i: Any) -> Any:
        return x.at[i].set(1), x[2] + x[i]

    for f, fences in ((circular, 0), (whole, 0), (fine, 1)):
        jaxpr = simplify_jaxpr(dx.make_jaxpr(f)(large, np.int32(3)).jaxpr)
        ordered = read_before_writing(jaxpr)
        assert [eqn.primitive for eqn in ordered.eqns].count(fence_p) == fences
        assert_close(dx.jit(lambda *a, j=ordered: eval_jaxpr(j, a))(large, 3), eval_jaxpr(jaxpr, (large, 3)))


def test_steps_that_return_float0():
    """The derivative of each of its integers is stacked."""
    steps = dnp.ones((3, 2), int)
    derivative = dx.grad(lambda i: (i * 1.5).sum(), allow_int=True)
    for run in (lambda f: f(), lambda f: dx.jit(f)()):
        _, ys = run(lambda: lax.scan(lambda c, i: (c, derivative(i)), 0.0, steps))
        assert ys.shape == (3, 2) and ys.dtype == dx.float0


@pytest.mark.parametrize("transform", [lambda f: f, dx.jit], ids=["eager", "jit"])
def test_a_loop_whose_results_a_later_function_leaves_unread_sends_no_cotangent(transform: Any) -> None:
    """Zeros for it would be multiplied by the slope of the square root at 0."""

    def f(x: Any) -> Any:
        roots = lax.map(dnp.sqrt, x)
        return dx.jit(lambda x, roots: x)(x, roots).sum()

    assert transform(dx.grad(f))(dnp.array([0.0, 2.0])).tolist() == [1.0, 1.0]
