"""The directory of compiled programs on disk: `compilation_cache.set_cache_dir(path)`."""

from didax.experimental.compilation_cache import compilation_cache

__all__ = ["compilation_cache"]
