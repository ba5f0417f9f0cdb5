"""How samplers run: as one compiled program per shape, or at first, where little is drawn, by NumPy on the spot.

`compiled_program` compiles always: for what NumPy and XLA round differently. `program` lets NumPy draw what is
small. `exact_program` is for results that are the same bit for bit (integers, and floats made of bits): NumPy
draws the first few of a kind, which takes no compilation, and a compiled program all that follow.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from didax.api.jit import jit
from didax.array import ConcreteArray, keys_of
from didax.core.source import user_line
from didax.core.tracing import current_trace_var, eager_trace
from didax.primitives.keys import random_wrap_p
from didax.transforms.key_reuse import DRAWN, holds_keys
from didax.transforms.key_reuse import is_on as key_reuse_is_on

# Up to here NumPy takes 20 to 180 us and compiles nothing, which takes 50 to 150 ms once per machine and 3 ms
# once per process. Compiled, a draw takes 12 us.
SMALL_DRAW = 256
FIRST_DRAWS = 32  # of one kind, by NumPy: a program that draws more often than that goes on to do so
_PROGRAMS_MAX = 4096


def compiled_program(sampler: Callable[..., Any]) -> Callable[..., Any]:
    """`sampler(key, *arrays, shape=..., **static)` under jit: a function for each set of parameters by keyword."""

    @functools.lru_cache(_PROGRAMS_MAX)
    def specialised(key_dtype: Any, **static: Any) -> Callable[..., Any]:
        def draw(key: Any, *args: Any) -> Any:
            key = key if key_dtype is None else random_wrap_p.bind(key, dtype=key_dtype)
            return sampler(key, *args, **static)

        return jit(functools.wraps(sampler)(draw))

    @functools.wraps(sampler)
    def run(key: Any, *args: Any, **static: Any) -> Any:
        if _is_concrete_key(key):
            _use_up(key)
            # Handed the words the program has no key to keep account of, which takes the slow way into jit.
            words = ConcreteArray(key.aval.physical, None, key.device_buffer(), key.committed)
            return specialised(key.aval.dtype, **static)(words, *args)
        return specialised(None, **static)(key, *args)

    return run


def program(sampler: Callable[..., Any]) -> Callable[..., Any]:
    """As `compiled_program`, but where little is drawn and nothing is traced NumPy does it."""
    compiled = compiled_program(sampler)

    @functools.wraps(sampler)
    def run(key: Any, *args: Any, shape: tuple[int, ...], **static: Any) -> Any:
        if _is_small(shape):
            return sampler(_taken(key), *args, shape=shape, **static)
        return compiled(key, *args, shape=shape, **static)

    return run


def exact_program(sampler: Callable[..., Any]) -> Callable[..., Any]:
    """As `program`, and compiled after a few draws of the same shape: NumPy and XLA must agree in every bit."""
    compiled = compiled_program(sampler)
    drawn: Counter[Any] = Counter()

    @functools.wraps(sampler)
    def run(key: Any, *args: Any, shape: tuple[int, ...], **static: Any) -> Any:
        kind = (shape, *static.values())
        if drawn[kind] < FIRST_DRAWS and _is_small(shape):
            if len(drawn) >= _PROGRAMS_MAX:
                drawn.clear()
            drawn[kind] += 1
            return sampler(_taken(key), *args, shape=shape, **static)
        return compiled(key, *args, shape=shape, **static)

    return run


def _is_small(shape: tuple[int, ...]) -> bool:
    """Whether NumPy may draw it: little, and now."""
    return math.prod(shape) <= SMALL_DRAW and current_trace_var.get() is eager_trace


# --- keys -------------------------------------------------------------------------------------------------


def _is_concrete_key(key: Any) -> bool:
    """Whether uses of the key are noted here: a key of a dtype, drawn from now."""
    return type(key) is ConcreteArray and holds_keys(key.aval) and current_trace_var.get() is eager_trace


def _use_up(key: ConcreteArray) -> None:
    """Note that a key is used, once for all that a draw does with it."""
    if key_reuse_is_on() and (keys := keys_of(key)) is not None:
        keys.use(DRAWN, user_line())


def _taken(key: Any) -> Any:
    """The key, noted as used, as an array whose further uses say nothing about the one given."""
    if not _is_concrete_key(key):
        return key
    _use_up(key)
    return ConcreteArray(key.aval, key.host_value(), key._buffer, key.committed)  # pyright: ignore[reportPrivateUsage]
