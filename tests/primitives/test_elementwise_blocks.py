"""Elementwise operations with loops are kernels that go on block by block, with the bits of the operation as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.scipy import special
from didax.xla import written_calls
from tests.quickly import AS_USERS

pytestmark = pytest.mark.cpu

RNG = np.random.default_rng(5)
LONG = 2 * written_calls.BLOCK + 44  # the last block overlaps the one before


def numbers(*shape: int) -> list[np.ndarray[Any, Any]]:
    return [RNG.uniform(low, high, shape).astype("float32") for low, high in ((0.5, 9), (0.1, 9))]


@pytest.mark.parametrize("shape", ["long", "short", "empty", "matrix"])
def test_blocks_have_the_bits_of_the_whole(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    args = numbers(*{"long": (LONG,), "short": (3,), "empty": (2, 0), "matrix": (20, 26)}[shape])
    program = dx.jit(special.gammainc).lower(*args)
    assert ("xla_cpu_small_call" in program.as_text()) == bool(args[0].size)
    found = program.compile()(*args)
    monkeypatch.setattr("didax.primitives.composed.fit_in_blocks", lambda ctx, aval: False)
    whole = dx.jit(lambda *args: special.gammainc(*args)).lower(*args)
    assert "xla_cpu_small_call" not in whole.as_text()
    np.testing.assert_array_equal(found, whole.compile()(*args))


PLACES: dict[str, Callable[..., Any]] = {
    "not used": lambda a, x: (special.gammainc(a, x) * 0, a)[1],
    "a constant operand": lambda a, x: special.gammainc(2.5, x),
    "constants only": lambda a, x: special.gammainc(dnp.full(300, 2.5), 1.5),
    "one operand twice": lambda a, x: special.gammainc(x, x),
    "twice": lambda a, x: (special.gammainc(a, x), special.gammainc(x, a)),
    "in a loop": lambda a, x: lax.scan(lambda c, ax: (c, special.gammainc(*ax)), 0, (a[:9], x[:9]))[1],
    "long rows in a loop": lambda a, x: lax.map(
        lambda ax: special.gammainc(*ax), (dnp.stack([a, x]), dnp.stack([x, a]))
    ),
    "a branch": lambda a, x: lax.cond(a[0] > 0, special.gammainc, lambda a, x: a, a, x),
    "a gradient": lambda a, x: dx.grad(lambda a, x: special.gammainc(a, x).sum(), (0, 1))(a, x),
}


@pytest.mark.ci
@pytest.mark.parametrize("name", PLACES)
def test_blocks_in_places(name: str) -> None:
    """XLA ends the process where such a kernel is not what it expects."""
    args = numbers(LONG)
    program = dx.jit(PLACES[name], compiler_options=AS_USERS)
    for found, wanted in zip(
        dx.tree.leaves(program(*args)), dx.tree.leaves(PLACES[name](*args)), strict=True
    ):
        np.testing.assert_allclose(found, wanted, 2e-6, 1e-7)


def test_many_cores_share_long_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    def text(n: int) -> str:
        return dx.jit(lambda a, x: special.gammainc(a, x)).lower(*numbers(n)).as_text()

    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert "xla_cpu_small_call" not in text(1 << 15)
    assert "xla_cpu_small_call" in text(1 << 10)
