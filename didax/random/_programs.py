"""How samplers run: a small draw by NumPy on the spot, any other as one compiled program."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

from didax.api.jit import jit
from didax.core.tracing import current_trace, eager_trace

# A program pays for its compilation (some 50 ms) after hundreds of draws of this size, at ten times it after
# dozens.
SMALL_DRAW = 1 << 13


def program(sampler: Callable[..., Any]) -> Callable[..., Any]:
    """`sampler(*arrays, shape=..., **static)` under jit, unless it draws little and nothing is being traced."""
    parameters = inspect.signature(sampler).parameters.values()
    compiled = jit(sampler, static_argnames=[p.name for p in parameters if p.kind is p.KEYWORD_ONLY])

    @functools.wraps(sampler)
    def run(*args: Any, shape: tuple[int, ...], **static: Any) -> Any:
        small = current_trace() is eager_trace and math.prod(shape) <= SMALL_DRAW
        return (sampler if small else compiled)(*args, shape=shape, **static)

    return run
