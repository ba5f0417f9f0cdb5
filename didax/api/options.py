"""Options as context managers, and forgetting what caches hold."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

from didax import compiled, eager
from didax.api import jit
from didax.core import config
from didax.transforms import cache, key_reuse


def enable_x64(new_val: bool = True) -> AbstractContextManager[None]:
    """Inside the block, values of no stated dtype are 64 bits wide.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.enable_x64():
    ...     dnp.asarray(1.0).dtype
    dtype('float64')
    """
    return config.override(enable_x64=new_val)


def disable_jit(disable: bool = True) -> AbstractContextManager[None]:
    """Inside the block, jitted functions run as plain Python, operation by operation."""
    return config.override(disable_jit=disable)


def numpy_dtype_promotion(mode: str) -> AbstractContextManager[None]:
    """Inside the block, 'strict' forbids implicit promotion of differing dtypes; 'standard' allows it."""
    return config.override(numpy_dtype_promotion=mode)


def debug_key_reuse(new_val: bool | str = True) -> AbstractContextManager[None]:
    """Inside the block, a random key used twice is an error (True, 'error'), 'warn's, or is let pass (False, 'off').

    >>> import didax as dx
    >>> with dx.debug_key_reuse(False):
    ...     key = dx.random.key(0)
    ...     dx.random.normal(key) == dx.random.normal(key)
    Array(True, dtype=bool)
    """
    return config.override(debug_key_reuse=new_val)


def clear_caches() -> None:
    """Forget every staged and compiled program and everything derived from them (not the cache on disk)."""
    jit.clear_functions()
    compiled.clear_programs()
    cache.clear_caches()
    eager.clear_plans()
    key_reuse.forget_reports()
    if "didax.xla.compile" in sys.modules:  # nothing was compiled otherwise
        sys.modules["didax.xla.compile"].clear_memory()
