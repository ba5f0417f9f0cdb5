"""Golden jaxprs: what transformations write, as text, so that a change in it is seen and judged.

`pytest tests/test_golden.py --update-golden` writes the files in tests/golden/ anew; read their diff.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from tests.checks import assert_round_trips

GOLDEN = Path(__file__).parent / "golden"


def mlp_loss(params: dict[str, Any], x: Any, y: Any) -> Any:
    hidden = dnp.tanh(x @ params["w1"] + params["b1"])
    return dnp.mean((hidden @ params["w2"] - y) ** 2)


PARAMS = {"w1": dnp.ones((3, 4)), "b1": dnp.zeros(4), "w2": dnp.ones(4)}
X, Y = dnp.ones((5, 3)), dnp.zeros(5)
V = dnp.array([1.0, 2.0, 3.0])


def branches(x: Any) -> Any:
    return lax.cond(x[0] > 0.0, lambda y: dnp.sin(y) * y, lambda y: y, x)


def nested(x: Any) -> Any:
    return dx.jit(lambda y: dx.jit(dnp.sin)(y) * x)(2.0 * x)


def softmax(x: Any) -> Any:
    e = dnp.exp(x - dnp.max(x))
    return e / dnp.sum(e)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mlp": (mlp_loss, (PARAMS, X, Y)),
    "grad-mlp": (dx.grad(mlp_loss), (PARAMS, X, Y)),
    "vmap-grad-mlp": (dx.vmap(dx.grad(mlp_loss), (None, 0, 0)), (PARAMS, X, Y)),
    "jvp-softmax": (lambda x, t: dx.jvp(softmax, (x,), (t,)), (V, V)),
    "vjp-softmax": (lambda x, ct: dx.vjp(softmax, x)[1](ct), (V, V)),
    "cond": (branches, (V,)),
    "jvp-cond": (lambda x, t: dx.jvp(branches, (x,), (t,)), (V, V)),
    "grad-cond": (dx.grad(lambda x: branches(x).sum()), (V,)),
    "vmap-cond": (dx.vmap(branches), (dnp.ones((2, 3)),)),
    "nested-jit": (nested, (V,)),
    "grad-nested-jit": (dx.grad(lambda x: nested(x).sum()), (V,)),
    "indexing": (lambda x, i: (x[i], x[1:], x.at[i].set(0.0)), (V, dnp.array([0, 2]))),
    "promotion": (lambda x, n: (x + n, x + 1, n * 1.5), (V, np.int8(3))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, update_golden: bool) -> None:
    f, args = PROGRAMS[name]
    jaxpr = dx.make_jaxpr(f)(*args)
    assert_round_trips(jaxpr)
    path = GOLDEN / f"{name}.txt"
    if update_golden:
        path.write_text(f"{jaxpr}\n")
    assert f"{jaxpr}\n" == path.read_text()


def test_no_file_without_a_program() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(PROGRAMS)
