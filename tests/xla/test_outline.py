"""Which programs are compiled in pieces, and which values are written to memory, so that XLA does not repeat them.

Pieces and values are counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.core.jaxpr import eval_jaxpr
from didax.passes.outline import BLOCK, FEW, LONG, cut, kept_in_memory, longest_path
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


def heat(steps: int) -> Any:
    """Each step reads the one before at five places."""

    def loss(w: Any, x: Any) -> Any:
        for _ in range(steps):
            around = [dnp.roll(w, shift, axis) for shift in (1, -1) for axis in (0, 1)]
            w = w + 0.1 * (sum(around) - 4 * w)
        return (w * w).sum()

    return loss


def motion(steps: int) -> Any:
    """An equation of motion whose state is an array of few numbers, taken apart in each step."""

    def loss(w: Any, x: Any) -> Any:
        state = w[0, :3]
        for _ in range(steps):
            a, b, c = state
            state = state + 0.01 * dnp.array([10 * (b - a), a * (2 - c) - b, a * b - c])
        return state.sum()

    return loss


def centred(steps: int) -> Any:
    def loss(w: Any, x: Any) -> Any:
        for _ in range(steps):
            w = w - 0.1 * w.sum()
        return w.sum()

    return loss


def mirrored(steps: int) -> Any:
    """Each step reads the one before in both directions, in arrays of one size."""

    def loss(w: Any, x: Any) -> Any:
        for _ in range(steps):
            w = dnp.cos(dnp.maximum(0.9 * w, w[::-1]))
        return w.sum()

    return loss


def of_jitted_steps(steps: int) -> Any:
    step = dx.jit(lambda w: w + 0.1 * (w[::-1] + dnp.concatenate([w[1:], w[:1]])))

    def loss(w: Any, x: Any) -> Any:
        for _ in range(steps):
            w = step(w)
        return w.sum()

    return loss


@pytest.mark.parametrize(
    ("f", "most"),
    [(heat(12), 12), (motion(12), 24), (centred(20), 20), (mirrored(20), 20), (of_jitted_steps(20), 20)],
)
def test_values_read_at_several_places_in_each_of_many_steps_are_kept(f: Any, most: int) -> None:
    kept = kept_in_memory(simplify_jaxpr(dx.make_jaxpr(f)(W, X).jaxpr))
    assert most // 2 <= len(kept) <= most
    for g in (f, dx.grad(f)):
        assert_close(dx.jit(g)(W, X), g(W, X))


@pytest.mark.parametrize(("f", "least"), [(heat(12), 20), (motion(12), 20), (mirrored(12), 12)])
def test_so_are_those_of_gradients(f: Any, least: int) -> None:
    assert least <= len(kept_in_memory(simplified_gradient(f))) <= 80


def test_no_kernel_adds_up_the_cotangents_of_all_steps() -> None:
    """Each use of an element of `w` gives a cotangent that is padded, and their sum is one computation."""

    def f(w: Any, x: Any) -> Any:
        total = w[0, 0]
        for i in range(1100):
            total = dnp.sin(total * w[i % 8, i // 8 % 8])
        return total

    jaxpr = simplified_gradient(f)
    paddings = sum(eqn.primitive.name == "pad" for eqn in jaxpr.eqns)
    assert paddings // (2 * FEW) <= len(kept_in_memory(jaxpr)) <= 2 * paddings // FEW


@pytest.mark.parametrize(
    "f", [heat(1), motion(1), mirrored(1), elementwise(300), perceptron(80), convolutions(25)]
)
def test_short_programs_chains_and_networks_keep_nothing(f: Any) -> None:
    assert not kept_in_memory(simplified_gradient(f))


def test_only_programs_of_one_cpu_are_told_what_to_keep() -> None:
    traced = dx.jit(heat(12)).trace(W, X)
    text = {name: traced.lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "cuda", "tpu")}
    assert [text[name].count("call @materialized") for name in text] == [11, 0, 0]
