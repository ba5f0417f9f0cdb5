"""The LSTM is JAX's reference: its outputs, its states and the order of its weights."""

import functools
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import rnn as theirs

import didax as dx
import didax.numpy as dnp
from didax.experimental import rnn
from tests.checks import first

BATCH, TIME, INPUT, HIDDEN = 3, 5, 2, 4


def arguments(layers: int, bidirectional: bool) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    states = (layers * (1 + bidirectional), BATCH, HIDDEN)
    count = rnn.get_num_params_in_lstm(INPUT, HIDDEN, layers, bidirectional)
    shapes = [(BATCH, TIME, INPUT), states, states, (count,)]
    arrays = [rng.normal(size=shape).astype("float32") for shape in shapes]
    return (*arrays, np.array([5, 1, 3], "int32"))


@pytest.mark.parametrize("bidirectional", first([True, False]))
def test_results_and_gradients_are_those_of_jax(bidirectional: bool) -> None:
    sizes = (INPUT, HIDDEN, 2, bidirectional)
    x, h, c, weights, lengths = arguments(2, bidirectional)

    def mine(*args: Any) -> Any:
        return rnn.lstm(*args, lengths, INPUT, HIDDEN, 2, 0.0, bidirectional)

    def other(x: Any, h: Any, c: Any, weights: Any) -> Any:
        parts = theirs.unpack_lstm_weights(weights, *sizes)
        return theirs.lstm_ref(x, h, c, *parts, lengths, INPUT, HIDDEN, 2, 0.0, bidirectional)

    def both(module: Any, f: Any) -> Any:
        def loss(*args: Any) -> Any:
            return sum((y**2).sum() for y in f(*args))

        return module.jit(lambda *args: (f(*args), module.grad(loss, (0, 1, 2, 3))(*args)))(x, h, c, weights)

    for one, two in zip(*(jax.tree.leaves(both(m, f)) for m, f in ((dx, mine), (jax, other))), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)
    assert rnn.get_num_params_in_lstm(*sizes) == theirs.get_num_params_in_lstm(*sizes) == weights.size
    swapped = rnn.swap_lstm_gates(weights, *sizes)
    np.testing.assert_array_equal(rnn.swap_lstm_gates(swapped, *sizes), weights)
    if not bidirectional:
        np.testing.assert_array_equal(swapped, theirs.swap_lstm_gates(weights, *sizes))
        drawn = rnn.init_lstm_weight(dx.random.key(1), *sizes)
        np.testing.assert_array_equal(drawn, theirs.init_lstm_weight(jax.random.key(1), *sizes))


def test_wrong_arguments_are_named() -> None:
    x, h, c, weights, lengths = arguments(1, False)
    with pytest.raises(NotImplementedError, match="Dropout is not supported in lstm"):
        rnn.lstm(x, h, c, weights, lengths, INPUT, HIDDEN, 1, 0.5, False)
    with pytest.raises(ValueError, match=r"weights: float32\[127\], wanted: 128"):
        rnn.lstm(x, h, c, weights[1:], lengths, INPUT, HIDDEN, 1, 0.0, False)
    with pytest.raises(ValueError, match="lstm takes x of shape"):
        rnn.lstm(x[0], h, c, weights, lengths, INPUT, HIDDEN, 1, 0.0, False)
    for precision in (dx.lax.Precision.HIGHEST, ("default", "highest"), "float32"):
        precisely = functools.partial(rnn.lstm, precision=precision)
        program = dx.make_jaxpr(precisely, static_argnums=(5, 6, 7, 8, 9))
        assert "HIGHEST" in str(program(x, h, c, weights, lengths, INPUT, HIDDEN, 1, 0.0, False))
    empty = rnn.lstm(x, h, c, dnp.asarray(weights), np.zeros(3, "int32"), INPUT, HIDDEN, 1, 0.0, False)
    np.testing.assert_array_equal(empty[1], h)
