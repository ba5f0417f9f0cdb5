"""What JAX has in `jax.experimental`: `checkify` and `io_callback`, which are `didax.checkify` and `didax.io_callback`;
`ode`, and beyond JAX `implicit`, are modules to import.
"""

from didax import checkify
from didax.api.callbacks import io_callback

__all__ = ["checkify", "io_callback"]
