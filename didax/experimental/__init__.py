"""Modules of `jax.experimental`: `checkify`, `ode`, `io_callback`, `compilation_cache`, `multihost_utils`.

Beyond JAX there is `implicit`.

Each module is loaded when it is first used. Read next: `ode.py`, `implicit.py`.
"""

from typing import TYPE_CHECKING

from didax.api.callbacks import io_callback
from didax.core.modules import on_access

__all__ = ["checkify", "compilation_cache", "implicit", "io_callback", "multihost_utils", "ode"]

if TYPE_CHECKING:
    from didax.experimental import checkify, compilation_cache, implicit, multihost_utils, ode
else:
    __getattr__, __dir__ = on_access(
        __name__, "checkify", "compilation_cache", "implicit", "multihost_utils", "ode"
    )
