"""Functions of neural networks: activations, normalisations, losses' building blocks, and initialisers.

    from didax import nn
    nn.relu(x), nn.softmax(logits), nn.initializers.he_normal()(key, (784, 256))

Each is finite where its limit is, with its derivatives. Read next: `activations.py`, `initializers.py`.
"""

from didax.nn import initializers
from didax.nn.activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    logsumexp,
    mish,
    one_hot,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softmax,
    softplus,
    sparse_plus,
    standardize,
    swish,
    tanh,
)

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "initializers",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "mish",
    "one_hot",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softmax",
    "softplus",
    "sparse_plus",
    "standardize",
    "swish",
    "tanh",
]
