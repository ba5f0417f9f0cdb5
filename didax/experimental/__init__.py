"""Functions under the names that JAX has them by in `jax.experimental`."""

from didax.api.callbacks import io_callback

__all__ = ["io_callback"]
