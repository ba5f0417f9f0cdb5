"""The directory of compiled programs on disk, with the names of JAX's module; `didax.config` does the same.

Read next: `didax/xla/compile.py`, which reads and writes the programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from didax.core import config
from didax.core.errors import api_boundary
from didax.core.modules import on_access

__all__ = ["reset_cache", "set_cache_dir"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def set_cache_dir(path: str) -> None:
    """Keep compiled programs in this directory from now on, which sets the option `compilation_cache_dir`.

    >>> from didax.experimental.compilation_cache import compilation_cache
    >>> compilation_cache.set_cache_dir("")  # the default place, ~/.cache/didax
    """
    config.update("compilation_cache_dir", str(path))


@api_boundary
def reset_cache() -> None:
    """Do nothing: each compilation looks up the directory. Programs written for JAX call this function.

    >>> from didax.experimental.compilation_cache import compilation_cache
    >>> compilation_cache.reset_cache()
    """
