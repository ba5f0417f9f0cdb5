"""Small libraries written with Didax, to read and copy: layers (`stax.py`) and optimizers (`optimizers.py`).

    from didax.example_libraries import optimizers, stax
    init, apply = stax.serial(stax.Dense(64), stax.Relu, stax.Dropout(0.9), stax.Dense(10), stax.LogSoftmax)

They use only Didax's public functions, and have the names of `jax.example_libraries`.
"""

from didax.example_libraries import optimizers, stax

__all__ = ["optimizers", "stax"]
