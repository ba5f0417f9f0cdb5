"""Operations with effects are kept, never merged, and happen once: whatever transforms the program around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import didax as dx
from didax import lax
from didax.core.effects import NO_EFFECTS, Effect, union_within
from didax.core.jaxpr import Eqn, Jaxpr, nested_jaxprs
from didax.core.primitive import Primitive
from didax.core.primitive_names import by_name
from didax.passes.simplify import dce_jaxpr, simplify_jaxpr

NOTE = Effect("note")


class Note(Primitive):
    """Writes down that it ran; nobody needs its results, of which it has none."""

    multiple_results = True

    def type(self, *avals: Any) -> list[Any]:
        return []

    def effects(self, params: dict[str, Any]) -> frozenset[Effect]:
        return frozenset([NOTE])

    def jvp(self, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
        return self.bind(*primals), []

    def batch(self, axis: Any, args: Any, dims: Any) -> tuple[list[Any], list[Any]]:
        return self.bind(*args), []


note_p = Note("note_for_tests")
del by_name["note_for_tests"]  # no row of the table of rules


def count(jaxpr: Jaxpr) -> int:
    """How many notes the program and all inside it hold."""
    inner = sum(count(j) for e in jaxpr.eqns for v in e.params.values() for j in nested_jaxprs(v))
    return inner + sum(e.primitive is note_p for e in jaxpr.eqns)


def noted(x: Any) -> Any:
    note_p.bind(x)
    return x * x


WAYS = {
    "plain": noted,
    "jit": dx.jit(noted),
    "scan": lambda x: lax.scan(lambda c, _: (noted(c), None), x, length=3)[0],
    "scan that changes nothing": lambda x: lax.scan(lambda c, _: (note_p.bind(c), (c, None))[1], x, length=3)[0],
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: noted(c), x),
    "while": lambda x: lax.while_loop(lambda c: c < 100.0, noted, x),
    "cond": lambda x: lax.cond(x > 0, noted, noted, x),
}  # fmt: skip
EXPECTED = {"cond": 2}


@pytest.mark.parametrize("way", WAYS)
def test_every_holder_of_programs_reports_the_effects_inside(way: str):
    jaxpr = dx.make_jaxpr(WAYS[way])(2.0).jaxpr
    assert jaxpr.effects == {NOTE}
    assert count(jaxpr) == EXPECTED.get(way, 1)


@pytest.mark.parametrize("way", WAYS)
def test_what_nobody_needs_is_kept_for_its_effects(way: str):
    jaxpr = dx.make_jaxpr(WAYS[way])(2.0).jaxpr
    unused, _ = dce_jaxpr(jaxpr, (False,))
    assert count(unused) == count(simplify_jaxpr(jaxpr)) == EXPECTED.get(way, 1)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "while"])
def test_an_effect_happens_once_in_forward_and_reverse_mode(way: str):
    f = WAYS[way]
    for program in (dx.grad(f), lambda x: dx.jvp(f, (x,), (1.0,)), lambda x: dx.vjp(dx.jit(f), x)[1](1.0)):
        assert count(dx.make_jaxpr(program)(2.0).jaxpr) == EXPECTED.get(way, 1)


def test_equal_operations_with_effects_are_not_merged():
    jaxpr = dx.make_jaxpr(lambda x: (noted(x), noted(x)))(2.0).jaxpr
    simple = simplify_jaxpr(jaxpr)
    assert count(simple) == 2
    assert len(simple.eqns) == 3  # the two products are one


def test_effects_that_do_not_depend_on_the_step_stay_in_the_loop():
    def loop(x: Any) -> Any:
        def body(c: Any, y: Any) -> Any:
            note_p.bind(np.float32(3.0))
            return c * y, None

        return lax.scan(body, x, np.ones(3, np.float32))[0]

    jaxpr = dx.make_jaxpr(dx.grad(loop))(2.0).jaxpr
    assert not any(e.primitive is note_p for e in jaxpr.eqns)
    assert count(jaxpr) == 1


def test_a_program_with_its_constants_has_the_effects_of_the_program():
    closed = dx.make_jaxpr(dx.jit(lambda x: note_p.bind(x + np.ones(2))))(1.0)
    assert closed.effects == closed.jaxpr.effects == {NOTE}
    assert dx.make_jaxpr(lambda x: x + np.ones(2))(1.0).effects == NO_EFFECTS


def test_effects_are_equal_by_name_and_order():
    assert Effect("note") == NOTE
    assert Effect("note", ordered=True) != NOTE
    assert (str(NOTE), str(Effect("note", ordered=True))) == ("note", "ordered note")


def test_parameters_that_hold_no_programs_have_no_effects():
    assert union_within(((1, "a"), np.float32, None), "effects") == NO_EFFECTS


def test_effects_of_debug_callbacks_are_of_jax_s_classes() -> None:
    jaxpr = dx.make_jaxpr(lambda x: dx.debug.print("{}", x))(1.0).jaxpr
    (effect,) = jaxpr.effects
    assert isinstance(effect, dx.debug.DebugEffect) and isinstance(effect, dx.debug.OrderedDebugEffect)
    (kept,) = dx.make_jaxpr(lambda x: lax.dce_sink(x))(1.0).jaxpr.effects
    assert not isinstance(kept, dx.debug.DebugEffect)


def test_lowering_asks_each_application_for_its_effects_once(monkeypatch):
    asked = []
    monkeypatch.setattr(Eqn, "effects", property(lambda eqn: asked.append(eqn.primitive.name) or NO_EFFECTS))
    dx.jit(lambda x: lax.sin(lax.cos(x)) * 2.0).lower(1.0).as_text()
    assert sorted(asked) == ["cos", "mul", "sin"]
