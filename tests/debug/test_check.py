"""`debug.check` raises the user's message and line, in every transformation, and only where it should."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.debug import check
from tests.checks import sampled

MESSAGE = "{x} is not positive"


def log(x: Any) -> Any:
    check(x > 0, MESSAGE, x=x)
    return dnp.log(x)


def in_scan(x: Any) -> Any:
    return lax.scan(lambda c, y: (c + log(c - y), None), x, dnp.arange(3.0))[0]


def in_while(x: Any, **bound: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, log(c[1])), (0, x), **bound)[1]


def in_fori(x: Any) -> Any:
    return lax.fori_loop(0, 2, lambda i, c: log(c - i), x)


def in_cond(x: Any) -> Any:
    return lax.cond(x < 100, log, lambda x: x, x)


HOLDERS = {
    "plain": log,
    "scan": in_scan,
    "while": in_while,
    "bounded while": functools.partial(in_while, max_steps=40),
    "checkpointed while": functools.partial(in_while, checkpoints=3),
    "fori": in_fori,
    "cond": in_cond,
    "checkpoint": dx.checkpoint(log),
    "jit": dx.jit(log),
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f,
    "jit": dx.jit,
    "grad": dx.grad,
    "jit of grad": lambda f: dx.jit(dx.grad(f)),
    "grad of jit": lambda f: dx.grad(dx.jit(f)),
    "jvp": lambda f: lambda x: dx.jvp(f, (x,), (1.0,)),
    "vjp": lambda f: lambda x: dx.vjp(f, x)[1](1.0),
    "linearize": lambda f: lambda x: dx.linearize(f, x)[1](1.0),
    "vmap": lambda f: lambda x: dx.vmap(f)(x[None]),
    "jit of vmap": lambda f: lambda x: dx.jit(dx.vmap(f))(x[None]),
    "vmap of grad": lambda f: lambda x: dx.vmap(dx.grad(f))(x[None]),
    "hessian": dx.hessian,
}


NO_REVERSE_MODE = {("while", way) for way in WAYS if "grad" in way or way in ("vjp", "hessian")}


@pytest.mark.parametrize(
    ("holder", "way"), sampled([(h, w) for h in HOLDERS for w in WAYS if (h, w) not in NO_REVERSE_MODE], 2)
)
def test_a_check_raises_its_message_and_line_in_every_transformation(holder: str, way: str):
    program = WAYS[way](HOLDERS[holder])
    program(dnp.float32(40.0))
    with pytest.raises(dx.checkify.CheckError, match=r"-?\d.* is not positive") as error:
        program(dnp.float32(-2.0))
    assert f"checked at {__file__}:{log.__code__.co_firstlineno + 1} (log)" in str(error.value)
    program(dnp.float32(40.0))  # the process is as before


@pytest.mark.parametrize("way", [dx.vmap, lambda f: dx.jit(dx.vmap(f)), lambda f: dx.vmap(dx.jit(f))])
def test_of_a_batch_the_first_element_that_fails_is_shown(way: Any):
    with pytest.raises(dx.checkify.CheckError, match=r"^-3\.0 is not positive"):
        way(log)(dnp.array([1.0, -3.0, 2.0, -4.0]))
    way(log)(dnp.ones(3))
    assert way(log)(dnp.ones(0)).shape == (0,)


def test_a_value_that_the_failing_condition_does_not_depend_on_is_that_of_its_element():
    def f(x: Any, y: Any) -> None:
        check(x > 0, "{x} {y}", x=x, y=y)

    with pytest.raises(dx.checkify.CheckError, match=r"^-1 20\n"):
        dx.vmap(f)(dnp.array([1, -1]), dnp.array([10, 20]))
    with pytest.raises(dx.checkify.CheckError, match=r"^-1 \[5 6\]\n"):
        dx.vmap(f, in_axes=(0, None))(dnp.array([1, -1]), dnp.array([5, 6]))
    with pytest.raises(dx.checkify.CheckError, match=r"^-1 10\n"):
        dx.vmap(f, in_axes=(None, 0))(-1, dnp.array([10, 20]))


def test_a_check_that_nothing_depends_on_is_kept():
    def f(x: Any) -> Any:
        check(x < 3, "too large")
        return 0

    with pytest.raises(dx.checkify.CheckError, match="too large"):
        dx.jit(f)(5.0)
    with pytest.raises(dx.checkify.CheckError, match="too large"):
        dx.jit(lambda x: lax.scan(lambda c, _: (c, f(x + c)), 1, length=2)[0])(3.0)


def test_a_failing_check_ends_a_loop_that_would_not_end():
    def body(c: Any) -> Any:
        check(c < 5, "stopped at {}", c)
        return c + 1

    with pytest.raises(dx.checkify.CheckError, match="stopped at 5"):
        lax.while_loop(lambda c: True, body, 0)


def test_elements_that_have_left_a_loop_or_take_another_branch_are_not_checked():
    def body(c: Any) -> Any:
        check(c < 5, "{c} has left", c=c)
        return c + 1

    for bound in ({}, {"max_steps": 40}, {"checkpoints": 2}):
        count = dx.vmap(lambda x, bound=bound: lax.while_loop(lambda c: c < 5, body, x, **bound))
        assert count(dnp.array([1, 7, 5])).tolist() == [5, 7, 5]
    branch = dx.vmap(lambda x: lax.cond(x > 0, log, lambda x: x, x))
    assert branch(dnp.array([1.0, -1.0])).tolist() == [0.0, -1.0]
    assert dx.jit(branch)(dnp.array([1.0, -1.0])).tolist() == [0.0, -1.0]


def test_conditions_of_any_shape_hold_everywhere_or_fail():
    @dx.jit
    def f(x: Any) -> Any:
        check(x > 0, "{x}", x=x)
        return x

    f(dnp.ones((2, 3)))
    f(dnp.ones((0, 3)))
    with pytest.raises(dx.checkify.CheckError, match=r"\[1\. 0\.\]"):
        f(dnp.array([1.0, 0.0]))


def test_values_are_shown_by_position_name_and_format():
    with pytest.raises(dx.checkify.CheckError, match=r"^1 and 2\.50 of \[3 4\]\n"):
        check(False, "{} and {y:.2f} of {z}", 1, y=2.5, z=np.array([3, 4]))
    with pytest.raises(dx.checkify.CheckError, match=r"^no {braces}\n"):
        check(False, "no {{braces}}")


def test_trees_and_keys_are_shown():
    tree, key = {"a": (dnp.ones(2), 3), "b": []}, dx.random.key(7)
    message = "{} has {tree} and {{braces}}, {key} of {y:.1f}"
    f = dx.jit(lambda tree, key: check(tree["a"][1] < 0, message, tree["a"], tree=tree, key=key, y=2.25))
    with pytest.raises(dx.checkify.CheckError) as error:
        f(tree, key)
    ones, three = "Array([1. 1.], dtype=float32)", "Array(3, dtype=int32)"
    shown = f"({ones}, {three}) has {{'a': ({ones}, {three}), 'b': []}} and {{braces}}, [0 7] of 2.2"
    assert str(error.value).splitlines()[0] == shown
    with pytest.raises(dx.checkify.CheckError, match=r"^\{'a': 0\}"):
        check(False, "{0}", {"a": 0})


def test_a_format_that_does_not_fit_the_value_still_reports_the_failure():
    with pytest.raises(dx.checkify.CheckError, match=r"at {x:d} \(x = \[1\. 2\.\]\)"):
        check(False, "at {x:d}", x=dnp.array([1.0, 2.0]))


def test_the_first_frame_shown_is_the_users():
    with pytest.raises(dx.checkify.CheckError) as error:
        dx.jit(log)(-1.0)
    assert error.traceback[0].path.name == "test_check.py"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: check(1.0, "m"), TypeError, r"pred: float32\[\]\*?\nCompare"),
        (lambda: check("yes", "m"), TypeError, "pred: 'yes' of type str"),
        (lambda: check(True, 3), TypeError, "msg: 3"),
        (lambda: check(True, "{a} {}", b=1), ValueError, "missing: a, 0; given: b"),
        (lambda: check(True, "{a}", a="text"), TypeError, "a: 'text' of type str"),
    ],
)
def test_misuse_is_reported_when_the_check_is_made(call: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        call()


def test_the_primitive_is_printed_with_message_and_line():
    text = str(dx.make_jaxpr(log)(1.0))
    assert f"message='{MESSAGE}'" in text
    assert "test_check.py" in text


def test_checks_in_the_rules_of_a_custom_derivative_raise_when_these_run():
    @dx.custom_vjp
    def f(x: Any) -> Any:
        check(x < 10, "primal {x}", x=x)
        return x * 2

    def forward(x: Any) -> Any:
        check(x < 5, "forward {x}", x=x)
        return f(x), x

    def backward(saved: Any, ct: Any) -> Any:
        check(saved < 3, "backward {x}", x=saved)
        return (ct * 2,)

    f.defvjp(forward, backward)
    for way in (dx.grad, lambda f: dx.jit(dx.grad(f)), lambda f: dx.grad(dx.jit(f))):
        assert float(way(f)(1.0)) == 2.0
        for value, part in ((4.0, "backward 4.0"), (6.0, "forward 6.0")):
            assert float(f(value)) == value * 2
            with pytest.raises(dx.checkify.CheckError, match=part):
                way(f)(value)
            err, _ = dx.checkify.checkify(way(f))(value)
            assert err.get().startswith(part)
    with pytest.raises(dx.checkify.CheckError, match=r"primal 11\.0"):
        dx.jit(f)(11.0)
