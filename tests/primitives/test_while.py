"""The while loops that a while loop becomes: what is carried, and elements that stop at different times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.jaxpr import Eqn, Jaxpr, eval_jaxpr
from didax.passes.simplify import dce_jaxpr, simplify_jaxpr
from didax.primitives.control_flow.while_loop import while_p
from didax.transforms.partial_eval import partial_eval_jaxpr
from tests.checks import assert_close
from tests.quickly import AS_USERS

F = Callable[..., Any]


def staged(f: F, *args: Any) -> Jaxpr:
    return simplify_jaxpr(dx.make_jaxpr(f)(*args).jaxpr)


def whiles(jaxpr: Jaxpr) -> list[Eqn]:
    return [eqn for eqn in jaxpr.eqns if eqn.primitive is while_p]


def sizes(eqn: Eqn) -> tuple[int, int, int]:
    """Numbers of constants of the condition and of the body, and parts of the carry."""
    return eqn.params["cond_nconsts"], eqn.params["body_nconsts"], len(eqn.outvars)


def test_what_the_body_does_not_change_is_a_constant():
    def f(x: Any, limit: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < c[1], lambda c: (c[0] * c[2], c[1], c[2]), (x, limit, 2.0))

    jaxpr = staged(f, 1.0, 9.0)
    (eqn,) = whiles(jaxpr)
    assert sizes(eqn)[2] == 1
    assert jaxpr.outvars[1] is jaxpr.invars[1]
    assert [float(x) for x in f(1.0, 9.0)] == [16.0, 9.0, 2.0]


def test_a_loop_without_an_end_that_changes_nothing_is_none():
    assert float(lax.while_loop(lambda x: True, lambda x: x, 1.0)) == 1.0


def test_dead_parts_of_the_carry_are_dropped():
    def f(x: Any) -> Any:
        def body(c: Any) -> Any:
            return c[0] + 1, c[1] * 2, c[2] + c[1], dnp.sin(c[3])

        return lax.while_loop(lambda c: c[0] < 3, body, (0, x, x, x))[1]

    jaxpr, _ = dce_jaxpr(dx.make_jaxpr(f)(2.0).jaxpr, (True,))
    (eqn,) = whiles(jaxpr)
    assert sizes(eqn) == (0, 0, 2)
    assert len(eqn.params["body_jaxpr"].eqns) == 2
    assert float(dx.jit(f)(2.0)) == 16.0


def test_tangents_of_what_does_not_depend_are_not_carried():
    def f(x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2, c[1] * c[2]), (0, 1.0, x))[2]

    (eqn,) = whiles(staged(lambda x: dx.jvp(f, (x,), (x,)), 2.0))
    assert sizes(eqn)[2] == 4  # of three parts one has a tangent
    # a part that becomes dependent on the way has one too
    g = lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[2], x), (0, 0.0, 1.0))[1]
    assert_close(dx.jvp(g, (2.0,), (1.0,)), (np.float32(2), np.float32(1)))


def test_a_linearised_loop_without_tangents_runs_once():
    jaxpr = staged(
        lambda x, n: dx.linearize(lambda n: lax.while_loop(lambda h: h < n, lambda h: h * 2, x), n)[0],
        1.0,
        9.0,
    )
    assert len(whiles(jaxpr)) == 1


def test_partial_evaluation_and_the_rest_give_the_whole():
    def f(n: Any, x: Any, y: Any) -> Any:
        return lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * x, c[2] + c[1] * y), (0, 1.0, 0.0)
        )

    args = [np.int32(4), np.float32(1.5), np.float32(2)]
    jaxpr = dx.make_jaxpr(f)(*args).jaxpr
    for unknown, waiting in (
        ((False, False, True), (False, False, True)),
        ((False, True, False), (False, True, True)),
        ((True, False, False), (True, True, True)),
    ):
        split = partial_eval_jaxpr(jaxpr, unknown)
        assert split.unknown_out == waiting
        known_args = [x for x, unk in zip(args, unknown, strict=True) if not unk]
        outs = eval_jaxpr(split.known, known_args)
        n = len(outs) - split.num_residual_outputs
        residuals = split.residual_values(known_args, outs[n:])
        rest = iter(
            eval_jaxpr(split.unknown, [*residuals, *(x for x, u in zip(args, unknown, strict=True) if u)])
        )
        known = iter(outs[:n])
        assert_close([next(rest if unk else known) for unk in waiting], eval_jaxpr(jaxpr, args))


# --- Batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, dx.jit], ids=["eager", "compiled"])
def test_elements_stop_one_by_one(wrap):
    def f(x: Any, limit: Any) -> Any:
        return lax.while_loop(lambda c: c[1] < limit, lambda c: (c[0] + 1, c[1] * 2), (0, x))

    xs, limits = np.float32([1, 3, 50, 2]), np.float32([9, 100, 10, 2.5])
    steps, last = wrap(dx.vmap(f))(xs, limits)
    assert (steps.tolist(), last.tolist()) == ([4, 6, 0, 1], [16, 192, 50, 4])
    steps, last = wrap(dx.vmap(f, (None, 0)))(np.float32(1), limits)
    assert (steps.tolist(), last.tolist()) == ([4, 7, 4, 2], [16, 128, 16, 4])


def test_a_condition_that_elements_share_stays_one():
    def f(x: Any, w: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * w, c[2] + 1.0), (0, x, 0.0))

    (eqn,) = whiles(staged(dx.vmap(f, (0, None)), np.ones(4, np.float32), 2.0))
    assert [v.aval.shape for v in eqn.outvars] == [(), (4,), ()]


def test_elements_that_are_through_are_not_changed_by_nan():
    f = dx.vmap(
        lambda x: lax.while_loop(lambda x: x > 0.0, lambda x: dnp.where(x > 1.0, x - 1.0, dnp.log(x - x)), x)
    )
    assert f(np.float32([2.5, -1.0, 4.5])).tolist() == [-np.inf, -1.0, -np.inf]
    _, tangents = dx.jvp(f, (np.float32([-1.0, 1.5]),), (np.float32([3, 1]),))
    assert tangents.tolist()[0] == 3.0


@pytest.mark.parametrize("wrap", [lambda f: f, dx.jit], ids=["eager", "compiled"])
def test_an_inner_loop_does_not_run_on_elements_that_are_through(wrap):
    """At zero the inner loop would not end; elements that start there never enter it."""

    def grow(x: Any) -> Any:
        return lax.while_loop(lambda y: dnp.abs(y) < 8.0, lambda y: y * 2.0, x)

    def f(x: Any) -> Any:
        return lax.while_loop(
            lambda c: (c[1] != 0.0) & (c[0] < 2), lambda c: (c[0] + 1, grow(c[1]) - 8.0), (0, x)
        )

    steps, last = wrap(dx.vmap(f))(np.float32([0.0, 1.0, 3.0]))
    assert (steps.tolist(), last.tolist()) == ([0, 1, 2], [0.0, 0.0, 0.0])


def test_an_empty_batch():
    f = dx.vmap(lambda x: lax.while_loop(lambda x: x < 3.0, lambda x: x + 1.0, x))
    assert f(np.zeros(0, np.float32)).shape == dx.jit(f)(np.zeros(0, np.float32)).shape == (0,)


def test_collectives_in_loops():
    xs = np.float32([1, 2, 5])
    shared = dx.vmap(
        lambda x: lax.while_loop(lambda y: lax.pmax(y, "i") < 20.0, lambda y: y + lax.psum(y, "i"), x),
        axis_name="i",
    )
    assert shared(xs).tolist() == [41.0, 42.0, 45.0]
    apart = dx.vmap(
        lambda x: lax.while_loop(lambda y: y < 20.0, lambda y: y + lax.psum(y, "i"), x), axis_name="i"
    )
    with pytest.raises(
        ValueError, match=r"(?s)cannot hold a collective over that axis.*axis 'i' of 3 elements"
    ):
        apart(xs)


# --- Types ----------------------------------------------------------------------------------------


def test_the_type_rule_names_what_does_not_fit():
    (eqn,) = whiles(staged(lambda x: lax.while_loop(lambda h: h < 3.0, lambda h: h * 2.0, x), 1.0))
    body = dx.make_jaxpr(lambda x: dnp.ones(2) * x)(1.0).jaxpr
    with pytest.raises(
        TypeError, match=r"(?s)must return what it carries.*received: float32\[\].*float32\[2\]"
    ):
        while_p.bind(np.float32(1), **{**eqn.params, "body_jaxpr": body})
    with pytest.raises(TypeError, match=r"(?s)condition of while is a bool scalar.*float32\[2\]"):
        while_p.bind(np.float32(1), **{**eqn.params, "cond_jaxpr": body})


def test_a_batch_carries_its_condition_only_if_that_costs_more_than_computing_it_again():
    def count(carries_on: F) -> F:
        return lambda x: lax.while_loop(carries_on, lambda c: (c[0] + 1, c[1] * 2), (x, x))

    x = np.array([1.0, 4.0, 9.0], np.float32)
    cheap, costly = count(lambda c: c[0] < 6), count(lambda c: dnp.sin(dnp.zeros(3) + c[0]).sum() > -2)
    assert len(whiles(staged(dx.vmap(cheap), x))[0].outvars) == 2
    assert len(whiles(staged(dx.vmap(costly), x))[0].outvars) == 3
    for f in (cheap, costly):
        rows = [f(one) for one in x]
        for y, expected in zip(dx.vmap(f)(x), zip(*rows, strict=True), strict=True):
            assert_close(y, np.stack(expected))


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "int8"])
@pytest.mark.parametrize("start, end, step", [(5, 0, 1), (9, 1, 2)])
def test_unsigned_counters_go_down(dtype: str, start: int, end: int, step: int) -> None:
    """Beside another carry, and another result of the program: XLA takes such a step for one upwards."""

    def program() -> Any:
        loop = lax.while_loop(lambda s: s[0] > end, lambda s: (s[0] - step, s[1] * 2), (first, 1.0))
        return 1.0, loop

    first = np.dtype(dtype).type(start)
    found = dx.jit(program, compiler_options=AS_USERS)()
    assert dx.tree.map(float, found) == (1.0, (float(end), float(2 ** ((start - end) // step))))
    assert found[1][0].dtype == dtype
