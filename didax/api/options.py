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


def optimize_loops(new_val: bool | str = "auto") -> AbstractContextManager[None]:
    """Inside the block, programs are compiled with the passes on loops that pay ('auto'), or with none ('off').

    What they do to a program, and why, is told by `explain`.

    >>> import didax as dx
    >>> with dx.optimize_loops("off"):
    ...     int(dx.jit(lambda n: dx.lax.fori_loop(0, 5, lambda i, x: x + i, n))(0))
    10
    """
    return config.override(optimize_loops=new_val)


def debug_key_reuse(new_val: bool | str = True) -> AbstractContextManager[None]:
    """Inside the block, a random key used twice is an error (True, 'error'), 'warn's, or is let pass (False, 'off').

    >>> import didax as dx
    >>> with dx.debug_key_reuse(False):
    ...     key = dx.random.key(0)
    ...     dx.random.normal(key) == dx.random.normal(key)
    Array(True, dtype=bool)
    """
    return config.override(debug_key_reuse=new_val)


def debug_nans(new_val: bool | str = True) -> AbstractContextManager[None]:
    """Inside the block, an operation that makes a NaN out of numbers raises NaNError, a FloatingPointError.

    A jitted function is looked at through its results, and run again step by step to find the first such operation.
    With "outputs" it is the first whose NaN reached a result: what is masked later, and operations outside of jit, are
    let pass.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.debug_nans("outputs"):
    ...     float(dx.jit(lambda x: dnp.where(x > 0, dnp.log(x), 0.0))(-1.0))
    0.0
    """
    return config.override(debug_nans=new_val)


def debug_infs(new_val: bool | str = True) -> AbstractContextManager[None]:
    """Inside the block, an operation that makes an infinity out of finite numbers raises NaNError; as `debug_nans`."""
    return config.override(debug_infs=new_val)


def checking_leaks(new_val: bool = True) -> AbstractContextManager[None]:
    """Inside the block, a traced array that is still held when its transformation ends raises UnexpectedTracerError.

    The error names the line that made the array and what holds it. Each transformation looks through all of memory.
    """
    return config.override(check_tracer_leaks=new_val)


def clear_caches() -> None:
    """Forget every staged and compiled program and everything derived from them (not the cache on disk)."""
    jit.clear_functions()
    compiled.clear_programs()
    cache.clear_caches()
    eager.clear_plans()
    key_reuse.forget_reports()
    if "didax.xla.compile" in sys.modules:  # nothing was compiled otherwise
        sys.modules["didax.xla.compile"].clear_memory()
