"""`debug.breakpoint` stops where the values are, and shows them under the names of the program's variables."""

from __future__ import annotations

import bdb
import io
from collections.abc import Callable
from typing import Any

import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax

UNNAMED = "(didax) "


def session(way: Callable[[Any], Any], commands: str, *args: Any, **options: Any) -> list[str]:
    """The lines that the prompt writes while a program runs."""
    answers = io.StringIO()

    def f(x: Any, note: str = "static") -> Any:
        pair = {"twice": x * 2, "list": [x + 1]}
        dx.debug.breakpoint(stdin=io.StringIO(commands), stdout=answers, **options)
        return pair["twice"].sum()

    way(f)(*args)
    return answers.getvalue().splitlines()


WAYS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f,
    "jit": dx.jit,
    "grad": dx.grad,
    "jit of grad": lambda f: dx.jit(dx.grad(f)),
    "jvp": lambda f: lambda x: dx.jvp(f, (x,), (x,)),
    "scan": lambda f: dx.jit(lambda x: lax.scan(lambda c, _: (c, f(x)), 0.0, length=1)),
    "cond": lambda f: dx.jit(lambda x: lax.cond(x[0] > 0, f, lambda x: 0.0, x)),
}


@pytest.mark.parametrize("way", WAYS)
def test_local_variables_have_their_values(way: str):
    lines = session(WAYS[way], "p pair['twice'].tolist()\nx + 10\nnote\nc\n", dnp.array([1.0, 2.0]))
    assert lines[0].startswith(f"Stopped at {__file__}:")
    assert [line for line in lines if line.startswith(UNNAMED)] == [
        "(didax) [2.0, 4.0]",
        "(didax) [11. 12.]",
        "(didax) static",
        "(didax) ",
    ]


def test_under_vmap_it_stops_at_each_element():
    for way in (lambda f: dx.vmap(f), lambda f: dx.jit(dx.vmap(f))):
        lines = session(way, "p float(x)\nc\np float(x)\nc\n", dnp.array([3.0, 4.0]))
        assert sum("Stopped at" in line for line in lines) == 2
        assert [line for line in lines if line[8:9].isdigit()] == ["(didax) 3.0", "(didax) 4.0"]


def test_frames_are_walked_and_shown():
    lines = session(dx.jit, "w\nu\nd\nl\nlocals\nc\n", dnp.ones(1), num_frames=2)
    assert any(line.startswith("> ") and ".f)" in line for line in lines)
    assert any("->" in line and "breakpoint" in line for line in lines)
    assert "note = 'static'" in "\n".join(lines)
    assert "There is no frame beyond." in session(dx.jit, "u\nc\n", dnp.ones(1), num_frames=1)[-2]


def test_mistakes_at_the_prompt_are_told_and_the_program_goes_on():
    lines = session(dx.jit, "nothing\n1 +\n\nhelp p\n", dnp.ones(1))
    assert "(didax) NameError: name 'nothing' is not defined" in lines
    assert any("SyntaxError" in line for line in lines)
    assert any("print its value" in line for line in lines)


def test_quitting_ends_the_program_and_leaves_the_process_usable():
    for way in (lambda f: f, dx.jit):
        with pytest.raises(bdb.BdbQuit):
            session(way, "q\n", dnp.ones(1))
    assert float(dx.jit(lambda x: x + 1)(1.0)) == 2.0


def test_a_breakpoint_in_a_branch_not_taken_does_not_stop():
    assert session(WAYS["cond"], "c\n", dnp.array([-1.0])) == []
