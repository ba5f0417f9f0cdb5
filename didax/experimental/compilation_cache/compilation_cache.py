"""Where compiled programs are kept on disk, with the names of JAX's module; `didax.config` does the same.

Read next: `didax/xla/compile.py`, which reads and writes them.
"""

from __future__ import annotations

from didax.core import config

__all__ = ["reset_cache", "set_cache_dir"]


def set_cache_dir(path: str) -> None:
    """Keep compiled programs in this directory from now on: the option `compilation_cache_dir`.

    >>> from didax.experimental.compilation_cache import compilation_cache
    >>> compilation_cache.set_cache_dir("")  # the default place, ~/.cache/didax
    """
    config.update("compilation_cache_dir", str(path))


def reset_cache() -> None:
    """Does nothing, for programs of JAX: the directory is looked up at each compilation, so nothing is to be reset."""
