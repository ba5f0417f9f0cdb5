"""Generators that keep their state; the numbers are those of jax 0.10.2."""

from __future__ import annotations

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax
from didax.experimental.random import StatefulPRNG, stateful_rng


def test_draws_follow_each_other_everywhere() -> None:
    rng = stateful_rng(42)
    draw = dx.jit(rng.uniform)
    drawn = [rng.uniform(), rng.uniform(), draw(), draw()]
    np.testing.assert_allclose(drawn, [0.5302608, 0.72766423, 0.6672406, 0.3890121], rtol=1e-6)
    assert dx.random.key_data(rng.key()).tolist() == [2954079971, 3276725750]

    counted = lambda: int(rng._counter[...])
    before = counted()
    lax.scan(lambda c, _: (c + rng.uniform(), None), 0.0, None, length=3)
    dx.grad(lambda x: x * rng.uniform())(2.0)
    assert counted() == before + 4
    passed = dx.jit(lambda rng: rng.uniform())
    assert passed(rng) != passed(rng) and counted() == before + 6


def test_parameters_and_shapes() -> None:
    rng = stateful_rng(0)
    assert rng.normal(dnp.zeros(2), 3.0).shape == rng.uniform(dnp.zeros(2), 1).shape == (2,)
    assert rng.random((2, 3)).shape == (2, 3) and rng.key(2).shape == (2,)
    found = rng.integers(5, size=9)
    assert found.dtype == "int32" and 0 <= found.min() and found.max() < 5


def test_generators_from_generators() -> None:
    rng = stateful_rng(123)
    several = rng.split(3)
    mapped = dx.vmap(lambda rng, x: x + rng.uniform())(several, dnp.zeros(3))
    np.testing.assert_allclose(mapped, [0.35525954, 0.21937883, 0.5336956], rtol=1e-6)
    with pytest.raises(ValueError, match="draws within vmap"):
        several.uniform()
    rng = stateful_rng(123)
    assert [r.integers(0, 10, 2).tolist() for r in rng.spawn(2)] == [[4, 5], [2, 1]]


def test_a_seed_is_drawn_eagerly_only() -> None:
    assert isinstance(stateful_rng(), StatefulPRNG)
    with pytest.raises(TypeError, match="needs a seed"):
        dx.jit(lambda: stateful_rng().uniform())()
