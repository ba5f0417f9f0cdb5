"""Compiled programs hold the names of blocks and the user's lines; programs that differ in these only are one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax, random
from didax.xla.text import PLACE

X = np.arange(4.0, dtype="float32")


@dx.named_scope("halves")
def halves(x: Any) -> Any:
    return x / 2


def loss(x: Any) -> Any:
    with dx.named_scope("model"):
        with dx.named_scope('a "layer"'):
            y = dnp.sin(x)
        y = lax.scan(lambda c, r: (c * r, dnp.cos(r)), x[0], y)[1]
    y = dx.jit(lambda y: halves(y) + 1)(y) + dx.named_call(dnp.tanh, name="squash")(x)
    return lax.cond(y[0] > 0, lambda y: y.sum(), lambda y: y.prod(), y)


def names_in(text: str) -> set[str]:
    return {name.replace('\\"', '"') for name in re.findall(r'loc\("((?:[^"\\]|\\.)*)"', text)}


def test_the_text_of_a_program_has_names_and_lines() -> None:
    lowered = dx.jit(loss).lower(X)
    located = lowered.as_text(debug_info=True)
    wanted = {
        'loss/model/a "layer"/sin',
        "loss/model/cos",
        "loss/model/scan",
        "loss/squash/tanh",
        "loss/cond",
    }
    assert wanted <= names_in(located)
    assert any(name.endswith("halves/div") for name in names_in(located))
    line = loss.__code__.co_firstlineno + 3
    assert re.search(rf'sin"\("[^"]*test_places.py":{line}:1\)', located)
    assert re.sub(PLACE, "", located) == lowered.as_text()
    assert "loc(" not in lowered.as_text()
    backward = names_in(dx.jit(dx.grad(loss)).lower(X).as_text(debug_info=True))
    assert any("transpose/" in name and "model" in name for name in backward)


def test_what_rules_of_the_user_compute_has_the_names_of_the_call() -> None:
    """A backward rule runs long after the block of the call has ended; blocks of the rule are inside of it."""

    @dx.custom_vjp
    def f(x: Any) -> Any:
        return dnp.sin(x)

    @dx.named_scope("backward")
    def backward(x: Any, ct: Any) -> Any:
        return (dnp.cos(x) * ct,)

    f.defvjp(lambda x: (f(x), x), backward)

    @dx.custom_jvp
    def g(x: Any) -> Any:
        return dnp.sinh(x)

    g.defjvp(lambda primals, tangents: (g(*primals), dnp.cosh(*primals) * tangents[0]))

    @dx.named_scope("model")
    def loss(x: Any) -> Any:
        return (f(x) * g(x)).sum()

    names = lambda h: names_in(dx.jit(dx.grad(h)).lower(X).as_text(debug_info=True))
    assert {"loss/model/backward/cos", "loss/model/cosh"} <= names(loss)
    assert {"transposed/model/backward/cos", "transposed/model/cosh"} <= names(dx.checkpoint(loss))
    assert not any("model" in name for name in names(lambda x: f(x).sum()))


def test_the_compiled_program_has_them_too() -> None:
    compiled = dx.jit(dx.grad(loss)).lower(X).compile().as_text()
    assert "squash/tanh" in compiled
    assert "model/" in compiled


def test_names_make_no_other_program() -> None:
    """Equal functions are one, whatever their names and lines: inside of a program, and as programs."""

    def two(x: Any) -> Any:
        with dx.named_scope("first"):
            y = dx.jit(dnp.sinh)(x)
        with dx.named_scope("second"):
            return dx.jit(dnp.sinh)(y)

    text = dx.jit(two).lower(X).as_text(debug_info=True)
    assert text.count("func.func private") == 1
    plain = dx.jit(lambda x: dx.jit(dnp.sinh)(dx.jit(dnp.sinh)(x)))
    assert plain.lower(X).as_text().splitlines()[1:] == dx.jit(two).lower(X).as_text().splitlines()[1:]


def test_a_scope_ends_with_its_block_and_is_of_its_thread() -> None:
    def f(x: Any) -> Any:
        try:
            with dx.named_scope("failing"):
                raise ValueError
        except ValueError:
            return x + 1

    assert names_in(dx.jit(f).lower(X).as_text(debug_info=True)) == {"f/add"}
    with pytest.raises(TypeError, match=r"name: 3 of type int"), dx.named_scope(3):  # type: ignore[arg-type]
        pass
    assert dx.named_call(lambda x: x, name="whole").__name__ == "<lambda>"


def test_functions_of_the_library_have_the_lines_of_their_calls_and_programs_with_keys_have_lines() -> None:
    """What the library staged for one line may serve others: only the calls have lines."""

    def f(key: Any, x: Any) -> Any:
        one, two = random.split(key)
        x = x + random.normal(one, (4,))
        x = x * random.normal(two, (4,))
        return dnp.linalg.solve(dnp.diag(x), x)

    located = dx.jit(f).lower(random.key(0), X).as_text(debug_info=True)
    first = f.__code__.co_firstlineno
    lines: dict[str, set[int]] = {}
    for name, line in re.findall(r'loc\("([^"]*)"\("[^"]*":(\d+):1\)', located):
        lines.setdefault(name, set()).add(int(line) - first)
    assert lines["f/mul"] == {3} and lines["f/jit"] >= {2, 3} and lines["f/solve"] == {4}
    assert {line for found in lines.values() for line in found} <= {1, 2, 3, 4}
    assert not any(name.startswith(("_normal/", "_solve/")) for name in lines)
    assert 'loc("_normal/' in located and 'loc("_solve/' in located


def test_names_of_one_caller_of_a_function_of_the_library_are_not_those_of_another() -> None:
    """The function that a primitive is lowered as is staged once, for whoever comes first."""

    def text(scope: str) -> str:
        def draw(x: Any) -> Any:
            with dx.named_scope(scope):
                return lax.bessel_i1e(x) + random.normal(random.key(0), (7,))

        return dx.jit(draw).lower(np.ones(7, "float32")).as_text(debug_info=True)

    assert "first/" in text("first")
    assert "second/" in (later := text("second")) and "first" not in later
