"""What Didax does otherwise while it stands in for JAX: `enter()`, which `install()` calls."""

from __future__ import annotations

from typing import Any

from didax.core import config
from didax.core.jax_options import OptionWithoutEffect


def enter() -> None:
    """Behave as JAX does where Didax differs on purpose.

    Under `as_in_jax` dtypes of 64 bits are truncated unless x64 is on, callbacks are given arrays of the library, and
    their exceptions are JaxRuntimeErrors. A random key may be used again.
    """
    config.update("as_in_jax", True)
    config.update("debug_key_reuse", "off")


def _unheeded(option: str) -> Any:
    return lambda new_val=True: OptionWithoutEffect(option, new_val)


enable_custom_prng = _unheeded("jax_enable_custom_prng")
legacy_prng_key = _unheeded("jax_legacy_prng_key")
softmax_custom_jvp = _unheeded("jax_softmax_custom_jvp")
allow_f16_reductions = _unheeded("jax_allow_f16_reductions")
