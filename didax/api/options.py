"""Options as context managers, and forgetting what caches hold."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

from didax import compiled, eager
from didax.api import jit
from didax.core import config
from didax.transforms import cache


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


def clear_caches() -> None:
    """Forget every staged and compiled program and everything derived from them (not the cache on disk)."""
    jit.clear_functions()
    compiled.clear_programs()
    cache.clear_caches()
    eager.clear_plans()
    if "didax.xla.compile" in sys.modules:  # nothing was compiled otherwise
        sys.modules["didax.xla.compile"].clear_memory()
