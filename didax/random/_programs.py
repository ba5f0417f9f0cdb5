"""How samplers run: small draws by NumPy on the spot, others as one compiled program."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

from didax.api.jit import jit
from didax.core.tracing import current_trace, eager_trace

# Up to here NumPy takes 20 to 70 us and compiles nothing, which takes 50 to 150 ms. Once compiled,
# microseconds for `uniform`, NumPy -> program: 3 elements 64 -> 25, 1000 elements 182 -> 30.
SMALL_DRAW = 256


def compiled_program(sampler: Callable[..., Any]) -> Callable[..., Any]:
    """`sampler(*arrays, shape=..., **static)` under jit: parameters by keyword are static."""
    parameters = inspect.signature(sampler).parameters.values()
    return jit(sampler, static_argnames=[p.name for p in parameters if p.kind is p.KEYWORD_ONLY])


def program(sampler: Callable[..., Any]) -> Callable[..., Any]:
    """As `compiled_program`, but where little is drawn and nothing is traced NumPy does it."""
    compiled = compiled_program(sampler)

    @functools.wraps(sampler)
    def run(*args: Any, shape: tuple[int, ...], **static: Any) -> Any:
        small = current_trace() is eager_trace and math.prod(shape) <= SMALL_DRAW
        return (sampler if small else compiled)(*args, shape=shape, **static)

    return run
