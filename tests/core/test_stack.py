"""Functions nested deeper than Python's limit of calls: staged, printed, parsed, checked, lowered, differentiated."""

import contextvars
import re
import sys

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core import sharding
from didax.core.jaxpr_check import check_jaxpr
from didax.core.jaxpr_parse import parse_jaxpr
from didax.core.jaxpr_print import jaxpr_text
from didax.core.stack import on_new_stack, stack_is_low


def custom(f):
    with_rule = dx.custom_jvp(f)
    with_rule.defjvp(lambda primals, tangents: (with_rule(*primals), tangents[0]))
    return with_rule


LEVELS = {
    "cond": lambda f: lambda x: lax.cond(x > 0, f, lambda u: u, x),
    "jit": dx.jit,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    "while_loop": lambda f: lambda x: lax.while_loop(lambda c: c < 0, f, x),
    "condition": lambda f: lambda x: lax.while_loop(lambda c: f(c) < -5, lambda c: c, x),
    "vmap": lambda f: lambda x: dx.vmap(f)(x[None])[0],
    "custom_jvp": custom,
    "checkpoint": dx.checkpoint,
}


def nested(level, depth):
    f = dnp.sin
    for _ in range(depth):
        f = LEVELS[level](one_more(f))
    return f


def one_more(f):
    return lambda x: f(x + 1)


@pytest.mark.parametrize("level", LEVELS)
def test_staging_and_lowering_nest_deeper_than_the_stack(level):
    f = nested(level, 60 if level == "scan" else 110)  # the passes over scans take long
    assert "return" in dx.jit(f).lower(1.0).as_text()


def test_batches_nest_as_deeply_in_a_process_that_has_had_explicit_axes(monkeypatch):
    monkeypatch.setattr(sharding, "in_types", True)
    assert "return" in dx.jit(nested("vmap", 110)).lower(1.0).as_text()


@pytest.mark.parametrize("level", ["cond", "checkpoint"])
def test_gradients_nest_deeper_than_the_stack(level):
    assert "cosine" in dx.jit(dx.grad(nested(level, 50))).lower(1.0).as_text()


def test_deep_programs_are_printed_parsed_and_checked():
    jaxpr = dx.make_jaxpr(nested("cond", 160))(1.0)
    assert str(jaxpr).count("cond[") == 160
    parsed = parse_jaxpr(str(jaxpr))
    check_jaxpr(parsed)
    assert str(parsed) == str(jaxpr)


def test_deep_programs_run():
    np.testing.assert_allclose(dx.jit(nested("jit", 110))(1.0), np.sin(111.0), rtol=1e-5)
    np.testing.assert_allclose(dx.grad(nested("vmap", 60))(1.0), np.cos(61.0), rtol=1e-5)


def test_an_endless_recursion_ends_with_advice():
    def endless(x):
        return lax.cond(x > 0, endless, lambda u: u, x)

    with pytest.raises(RecursionError, match=r"nested too deeply(.|\n)*limit(.|\n)*known while tracing"):
        dx.make_jaxpr(endless)(1.0)


def test_errors_come_from_the_depth_with_the_users_frames():
    def fail(x):
        raise ZeroDivisionError("at the bottom")

    f = fail
    for _ in range(120):
        f = LEVELS["cond"](f)
    with pytest.raises(ZeroDivisionError, match="at the bottom") as info:
        dx.make_jaxpr(f)(1.0)
    assert info.traceback[-1].name == "fail"


def test_equations_of_passes_far_up_keep_their_lines():
    f = nested("jit", 100)
    text = jaxpr_text(dx.make_jaxpr(dx.grad(f))(1.0).jaxpr, source_info=True)
    lines = [line for line in text.splitlines() if re.search(r"= (add|cos|mul)\b", line)]
    assert lines and all("test_stack.py" in line for line in lines)


def test_a_new_stack_has_the_whole_limit_and_this_context():
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(5)

    def count(n):
        return (variable.get(), stack_is_low()) if n == 0 else count(n - 1)

    depth = sys.getrecursionlimit() * 3 // 5

    def deep(n):
        return on_new_stack(count, 10) if n == 0 else deep(n - 1)

    assert count(depth) == (5, True)
    assert deep(depth) == (5, False)
