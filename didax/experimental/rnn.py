"""`lstm`: a long short-term memory network of several layers, in one or both directions, for padded sequences.

    weights = init_lstm_weight(key, input_size, hidden_size, num_layers, bidirectional=False)
    y, h_n, c_n = lstm(x, h_0, c_0, weights, lengths, input_size, hidden_size, num_layers, 0.0, False)

    i, f, o = sigmoid(W x + b + U h + d)    each with its own W, b, U, d; and  g = tanh(W x + b + U h + d)
    c' = f c + i g,   h' = o tanh(c')       (Hochreiter and Schmidhuber 1997; names as in PyTorch and cuDNN)

The weights are one vector: for each layer and direction W (of i, f, g, o) and U, then for each b and d. So weights
that were trained with JAX can be used. A layer is a scan of matrix products, on any backend, and differentiable in
both modes; JAX's is a call of cuDNN.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import didax.numpy as dnp
from didax import lax, nn, random
from didax.api.options import default_matmul_precision
from didax.core.errors import api_boundary, message
from didax.core.modules import on_access
from didax.core.value import Array
from didax.lax.dot import canonicalize_precision

__all__ = [
    "get_num_params_in_lstm",
    "init_lstm_weight",
    "lstm",
    "lstm_ref",
    "swap_lstm_gates",
    "unpack_lstm_weights",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

Weights = dict[int, Array]  # by layer, and in it by direction: 2 layer + direction


def _shapes(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> list[tuple[int, ...]]:
    """The shapes of the matrices W, U of each layer and direction, then of the vectors b, d."""
    directions = 2 if bidirectional else 1
    count, gates = num_layers * directions, 4 * hidden_size
    widths = [input_size if i < directions else directions * hidden_size for i in range(count)]
    return [shape for n in widths for shape in ((gates, n), (gates, hidden_size))] + [(gates,)] * (2 * count)


@api_boundary
def get_num_params_in_lstm(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> int:
    """Return the number of weights.

    >>> get_num_params_in_lstm(3, 4, 1, False)
    144
    """
    return sum(map(math.prod, _shapes(input_size, hidden_size, num_layers, bidirectional)))


@api_boundary
def init_lstm_weight(
    rng: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """Return random weights, float32, uniform between -1 / sqrt(hidden_size) and 1 / sqrt(hidden_size).

    >>> weights = init_lstm_weight(random.key(0), input_size=3, hidden_size=4, num_layers=1, bidirectional=False)
    >>> weights.shape, bool((abs(weights) <= 0.5).all())
    ((144,), True)
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    k = np.sqrt(1.0 / hidden_size)
    return random.uniform(rng, (count,), np.float32, minval=-k, maxval=k)


def _parts(weights: Any, *sizes: Any) -> list[Array]:
    """The weights in their shapes."""
    weights, shapes = dnp.asarray(weights), _shapes(*sizes)
    count = sum(map(math.prod, shapes))
    if weights.shape != (count,):
        rule = "The weights of an LSTM are one vector, as long as get_num_params_in_lstm says."
        names = ("input_size", "hidden_size", "num_layers", "bidirectional")
        facts = ", ".join(f"{name}={size}" for name, size in zip(names, sizes, strict=True))
        raise ValueError(
            message(rule, f"weights: {weights.aval}, wanted: {count}, for {facts}", fix="Adapt these.")
        )
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1].tolist()
    return [x.reshape(shape) for x, shape in zip(dnp.split(weights, ends), shapes, strict=True)]


@api_boundary
def swap_lstm_gates(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """Return the weights with those of the third and the fourth gate exchanged, for libraries that order them so.

    Raises ValueError where the weights are not a vector of the length that `get_num_params_in_lstm` says.

    >>> weights = dnp.arange(16)  # W, U, b and d of one input and one hidden unit, each with four gates
    >>> swap_lstm_gates(weights, 1, 1, 1, False)
    Array([ 0,  1,  3,  2,  4,  5,  7,  6,  8,  9, 11, 10, 12, 13, 15, 14],
          dtype=int32)
    """
    parts = _parts(weights, input_size, hidden_size, num_layers, bidirectional)
    gates = [dnp.split(x, 4) for x in parts]
    return dnp.concatenate([x.ravel() for i, f, g, o in gates for x in (i, f, o, g)])


@api_boundary
def unpack_lstm_weights(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[Weights, Weights, Weights, Weights]:
    """Return W, U, b and d, each by the number of the layer and direction; the gates i, f, g, o follow one another.

    Raises ValueError where the weights are not a vector of the length that `get_num_params_in_lstm` says.

    >>> W, U, b, d = unpack_lstm_weights(dnp.arange(20), 2, 1, 1, False)
    >>> W[0].tolist(), U[0].shape, b[0].tolist(), d[0].shape
    ([[0, 1], [2, 3], [4, 5], [6, 7]], (4, 1), [12, 13, 14, 15], (4,))
    """
    parts = _parts(weights, input_size, hidden_size, num_layers, bidirectional)
    count = len(parts) // 4
    matrices, vectors = parts[: 2 * count], parts[2 * count :]
    return tuple(dict(enumerate(x)) for x in (matrices[::2], matrices[1::2], vectors[::2], vectors[1::2]))  # type: ignore[return-value]


@api_boundary
def lstm(
    x: Any, h_0: Any, c_0: Any, weights: Any, seq_lengths: Any, input_size: int, hidden_size: int, num_layers: int,
    dropout: float, bidirectional: bool, precision: Any = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return the outputs of the last layer, and the last states of all layers.

    Args:
      x: the sequences, (batch, time, input_size); after its length a sequence may hold anything.
      h_0, c_0: the first states, (layers * directions, batch, hidden_size).
      weights: a vector, see `init_lstm_weight`.
      seq_lengths: (batch,) integers: after its length the outputs of a sequence are 0, and its states stay.
      input_size, hidden_size, num_layers: Python integers.
      dropout: 0; other values are refused, because the result would need a random key.
      bidirectional: whether each layer has a second network, which runs backwards; outputs are joined.
      precision: of the matrix products, as in `lax.dot`; of a pair the higher one.

    Returns (y, h_n, c_n): y of shape (batch, time, directions * hidden_size), the states like h_0.

    Raises ValueError where the shapes do not fit the sizes, and NotImplementedError for a `dropout` other than 0.

    >>> x, state = dnp.ones((2, 5, 3)), dnp.zeros((1, 2, 4))  # two sequences of at most five steps
    >>> weights = init_lstm_weight(random.key(0), 3, 4, 1, False)
    >>> y, h_n, c_n = lstm(x, state, state, weights, dnp.array([5, 2]), 3, 4, 1, 0.0, False)
    >>> y.shape, h_n.shape, float(abs(y[1, 2:]).max())
    ((2, 5, 4), (1, 2, 4), 0.0)
    """
    precisions = canonicalize_precision(precision)
    chosen = "default" if precisions is None else max(precisions, key=lambda p: p.value).name.lower()
    with default_matmul_precision(chosen):
        parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
        sizes = input_size, hidden_size, num_layers, dropout, bidirectional
        return lstm_ref(x, h_0, c_0, *parts, seq_lengths, *sizes)


@api_boundary
def lstm_ref(
    x: Any, h_0: Any, c_0: Any, W_ih: Weights, W_hh: Weights, b_ih: Weights, b_hh: Weights, seq_lengths: Any,
    input_size: int, hidden_size: int, num_layers: int, dropout: float, bidirectional: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """As `lstm`, with the weights in the parts that `unpack_lstm_weights` returns.

    >>> x, state = dnp.ones((1, 2, 3)), dnp.zeros((1, 1, 4))
    >>> parts = unpack_lstm_weights(dnp.zeros(144), 3, 4, 1, False)
    >>> lstm_ref(x, state, state, *parts, dnp.array([2]), 3, 4, 1, 0.0, False)[1]
    Array([[[0., 0., 0., 0.]]], dtype=float32)
    """
    if dropout:
        rule = "Dropout is not supported in lstm, which has no random key."
        raise NotImplementedError(
            message(rule, f"dropout: {dropout}", fix="Pass 0.0, and drop out between lstms.")
        )
    x, h_0, c_0, lengths = map(dnp.asarray, (x, h_0, c_0, seq_lengths))
    directions = 2 if bidirectional else 1
    states = (num_layers * directions, x.shape[0], hidden_size)
    if (
        x.ndim != 3
        or x.shape[2] != input_size
        or lengths.shape != x.shape[:1]
        or {h_0.shape, c_0.shape} != {states}
    ):
        rule = (
            "lstm takes x of shape (batch, time, input_size), states of shape (layers * directions, batch, "
            "hidden_size) and a length for each sequence."
        )
        facts = f"x: {x.aval}, h_0: {h_0.aval}, c_0: {c_0.aval}, seq_lengths: {lengths.aval}; states wanted: {states}"
        raise ValueError(message(rule, facts, fix="Transpose or pad them."))
    steps = dnp.arange(x.shape[1])
    within = (steps[:, None] < lengths)[..., None]  # (time, batch, 1)
    y, ends = dnp.swapaxes(x, 0, 1), []
    for layer in range(num_layers):
        outputs = []
        for k in range(layer * directions, (layer + 1) * directions):
            inputs = dnp.einsum("tbn,gn->tbg", y, W_ih[k]) + (b_ih[k] + b_hh[k])  # of all steps at once
            end, output = _run(inputs, within, (h_0[k], c_0[k]), W_hh[k], reverse=k % directions == 1)
            ends.append(end)
            outputs.append(output)
        y = dnp.concatenate(outputs, -1)
    h_n, c_n = (dnp.stack(parts) for parts in zip(*ends, strict=True))
    return dnp.swapaxes(y, 0, 1), h_n, c_n


def _run(inputs: Any, within: Any, start: tuple[Any, Any], W_hh: Any, reverse: bool) -> tuple[Any, Any]:
    """The last state and the outputs of one network. In `reverse` the padding comes first, and changes nothing."""

    def step(state: Any, now: Any) -> Any:
        (h, c), (x, present) = state, now
        i, f, g, o = dnp.split(x + h @ W_hh.T, 4, -1)
        new_c = nn.sigmoid(f) * c + nn.sigmoid(i) * dnp.tanh(g)
        new_h = nn.sigmoid(o) * dnp.tanh(new_c)
        state = dnp.where(present, new_h, h), dnp.where(present, new_c, c)
        return state, dnp.where(present, new_h, dnp.zeros_like(new_h))

    return lax.scan(step, start, (inputs, within), reverse=reverse)  # type: ignore[return-value]
