"""Whatever a user's function raises, wherever it is called, arrives as it is and leaves no transformation behind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.primitive import eager_trace
from didax.core.tracing import current_trace


def leave(x: Any) -> Any:
    sys.exit(4)


def interrupt(x: Any) -> Any:
    raise KeyboardInterrupt


def recur(x: Any) -> Any:
    return recur(x)


PLACES: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "jit": dx.jit,
    "grad": lambda f: dx.grad(lambda x: f(x).sum()),
    "vmap": lambda f: dx.vmap(f, axis_name="i"),
    "jvp": lambda f: lambda x: dx.jvp(f, (x,), (x,)),
    "scan": lambda f: lambda x: lax.scan(lambda c, y: (f(c), y), x, x),
    "cond": lambda f: dx.jit(lambda x: lax.cond(x[0] > 0, f, f, x)),
    "callback": lambda f: dx.jit(lambda x: dx.pure_callback(f, x, x)),
}
ERRORS = [(leave, SystemExit), (interrupt, KeyboardInterrupt), (recur, RecursionError)]


@pytest.mark.parametrize(("raises", "kind"), ERRORS)
@pytest.mark.parametrize("place", PLACES)
def test_what_a_function_raises_leaves_nothing_behind(
    place: str, raises: Callable[[Any], Any], kind: type[BaseException]
):
    x = dnp.ones(3)
    with pytest.raises(kind):
        PLACES[place](lambda x: raises(x))(x).block_until_ready()
    assert current_trace() is eager_trace
    assert float(dx.grad(lambda x: x * x)(2.0)) == 4.0


class Untold(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError("the user's")


def untold(x: Any) -> Any:
    raise Untold


@pytest.mark.parametrize("place", PLACES)
def test_an_error_whose_text_fails_arrives_as_it_is(place: str):
    with pytest.raises(Untold):
        PLACES[place](untold)(dnp.ones(3)).block_until_ready()


class Static:
    def __init__(self, hashed: Callable[[], int], equal: Callable[[], bool]):
        self.hashed, self.equal = hashed, equal

    def __hash__(self) -> int:
        return self.hashed()

    def __eq__(self, other: object) -> bool:
        return self.equal()


def fail() -> Any:
    raise ZeroDivisionError("the user's")


def test_a_static_argument_that_fails_to_be_hashed_or_compared_raises_its_own_error():
    f = dx.jit(lambda x, s: x, static_argnums=1)
    with pytest.raises(ZeroDivisionError, match="the user's"):
        f(1.0, Static(fail, lambda: True))
    f(1.0, Static(lambda: 1, fail))
    with pytest.raises(ZeroDivisionError, match="the user's"):
        f(1.0, Static(lambda: 1, fail))
