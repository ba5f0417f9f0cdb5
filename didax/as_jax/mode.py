"""What Didax does differently while it stands in for JAX: `enter()`, which `install()` calls."""

from __future__ import annotations

from didax.as_jax import texts
from didax.core import config
from didax.core.jax_options import Config


def enter() -> None:
    """Behave as JAX does where Didax differs on purpose.

    Classes have the names that they have in JAX. Under `as_in_jax` dtypes of 64 bits are truncated unless x64 is on,
    static positions out of range are not errors, callbacks are given arrays of the library, and their exceptions are
    JaxRuntimeErrors. A random key may be used again. JAX's environment variables set options, such as JAX_ENABLE_X64=1.
    """
    config.update("as_in_jax", True)
    config.update("debug_key_reuse", "off")
    Config().read_environment()
    texts.enter()
