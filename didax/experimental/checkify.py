"""`didax.checkify` under its name in JAX: `from didax.experimental import checkify`."""

from typing import TYPE_CHECKING

from didax.checkify import *  # noqa: F403  (the public names of the module)
from didax.core.modules import on_access as _on_access

if not TYPE_CHECKING:
    __getattr__, __dir__ = _on_access(__name__)
