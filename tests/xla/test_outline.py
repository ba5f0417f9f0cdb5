"""Which programs are compiled in pieces: those with long paths that no contraction interrupts. Pieces are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.jaxpr import eval_jaxpr
from didax.passes.outline import BLOCK, LONG, cut, longest_path
from didax.passes.simplify import simplify_jaxpr
from tests.checks import assert_close

W = np.full((8, 8), 0.1, np.float32)
X = np.ones((2, 8), np.float32)


def perceptron(layers: int) -> Any:
    def loss(w: Any, x: Any) -> Any:
        for _ in range(layers):
            x = dnp.tanh(x @ w + 0.1)
        return (x * x).mean()

    return loss


def recurrent(steps: int) -> Any:
    """The state goes through all steps without a product of matrices."""

    def loss(w: Any, x: Any) -> Any:
        state = hidden = x
        for _ in range(steps):
            gate = dx.nn.sigmoid(hidden @ w)
            state = gate * state + (1 - gate) * dnp.tanh(hidden @ w)
            hidden = gate * dnp.tanh(state)
        return hidden.sum()

    return loss


def convolutions(layers: int) -> Any:
    def loss(w: Any, x: Any) -> Any:
        x, w = dnp.broadcast_to(x, (1, 4, 2, 8)), dnp.broadcast_to(w[:4, :4, None, None], (4, 4, 3, 3))
        for _ in range(layers):
            x = dnp.maximum(lax.conv(x, w, (1, 1), "SAME"), 0)
            x = x - x.mean((0, 2, 3), keepdims=True)
        return (x * x).sum()

    return loss


def elementwise(length: int) -> Any:
    def loss(w: Any, x: Any) -> Any:
        for _ in range(length):
            w = dnp.sin(w) * 1.1
        return w.sum()

    return loss


def simplified_gradient(f: Any) -> Any:
    return simplify_jaxpr(dx.make_jaxpr(dx.grad(f))(W, X).jaxpr)


@pytest.mark.parametrize(
    ("f", "whole"),
    [(perceptron(80), True), (convolutions(25), True), (recurrent(40), False), (recurrent(5), True)],
)
def test_programs_with_long_paths_are_cut(f: Any, whole: bool) -> None:
    jaxpr = simplified_gradient(f)
    blocks = cut(jaxpr)
    assert sum(len(block.eqns) for block in blocks) == len(jaxpr.eqns)
    if whole:
        assert len(blocks) == 1
    else:
        assert len(jaxpr.eqns) // (2 * BLOCK) <= len(blocks) <= 2 * len(jaxpr.eqns) // BLOCK
        assert len(blocks) > 2


def test_a_chain_without_contractions_is_one_piece() -> None:
    jaxpr = simplified_gradient(elementwise(300))
    assert len(jaxpr.eqns) > 3 * BLOCK and longest_path(jaxpr) > LONG
    assert len(cut(jaxpr)) == 1


def test_the_pieces_compute_what_the_program_does() -> None:
    jaxpr = simplified_gradient(recurrent(40))
    args = [np.asarray(W), np.asarray(X)]
    env: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
    for block in cut(jaxpr):
        env.update(zip(block.outvars, eval_jaxpr(block, [env[v] for v in block.invars]), strict=True))
    assert_close([env[v] for v in jaxpr.outvars], eval_jaxpr(jaxpr, args))
