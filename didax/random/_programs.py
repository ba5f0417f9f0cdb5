"""How samplers run: as one compiled program for each shape and dtype, so that eager and jitted draws are equal.

`compiled_program` compiles. `exact_program` is for results that are bit for bit equal in NumPy and XLA
(integers, and floats made of bits): NumPy draws the first few results of each kind, which takes no
compilation, and a compiled program draws all later ones. `draws` is for the functions that users call most: a
call like an earlier call goes straight to its program.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec

from didax.api.explicit import split_result
from didax.api.jit import JitFunction, jit
from didax.api.jit_cache import RepeatedCall
from didax.core import config
from didax.core.errors import asks_for_split, strip_internal_frames, without_idle
from didax.core.primitive import current_trace_var, eager_trace
from didax.core.process import after_fork
from didax.core.source import user_line
from didax.passes.key_reuse import DRAWN, holds_keys
from didax.passes.key_reuse import is_on as key_reuse_is_on
from didax.primitives.keys import random_wrap_p
from didax.runtime.array import ConcreteArray, keys_of
from didax.transforms.cache import on_clear

P = ParamSpec("P")

# NumPy takes 20 to 180 us for this many elements and compiles nothing; compiling takes 50 to 150 ms once per
# machine and 3 ms once per process. A compiled draw takes 12 us.
SMALL_DRAW = 256
FIRST_DRAWS = 32  # of one kind by NumPy; after so many it pays to compile
_PROGRAMS_MAX = 4096


class compiled_program:
    """`sampler(key, *arrays, shape=..., **static)` under jit: one function for each set of keyword parameters."""

    def __init__(self, sampler: Callable[..., Any]):
        functools.update_wrapper(self, sampler)
        self.sampler = sampler
        self._specialised = functools.lru_cache(_PROGRAMS_MAX)(self._specialise)
        on_clear(self._specialised.cache_clear)

    def _specialise(self, key_dtype: Any, **static: Any) -> JitFunction[..., Any]:
        def draw(key: Any, *args: Any) -> Any:
            key = key if key_dtype is None else random_wrap_p.bind(key, dtype=key_dtype)
            return self.sampler(key, *args, **static)

        return jit(functools.wraps(self.sampler)(draw))

    def __call__(self, key: Any, *args: Any, **static: Any) -> Any:
        if _is_concrete_key(key):
            _note_use(key)
            # The program gets the words of the key, because a key would take jit's slow path, which notes its
            # use.
            words = ConcreteArray(key.aval.physical, None, key.device_buffer(), key.committed)
            return self._specialised(key.aval.dtype, **static)(words, *args)
        return self._specialised(None, **static)(key, *args)

    def direct(self, key: ConcreteArray, static: dict[str, Any]) -> RepeatedCall | None:
        """Return the fast path of a call with this key and these parameters, once their program is compiled."""
        dtype = key.aval.dtype if holds_keys(key.aval) else None
        return self._specialised(dtype, **static).one_array_call(key.aval.physical)


class exact_program(compiled_program):
    """A `compiled_program` of which NumPy makes the first draws, where they are small and nothing is traced."""

    def __init__(self, sampler: Callable[..., Any]):
        super().__init__(sampler)
        self._drawn: Counter[Any] = Counter()
        on_clear(self._drawn.clear)

    def __call__(self, key: Any, *args: Any, **static: Any) -> Any:
        kind = tuple(static.values())
        if self._drawn[kind] < FIRST_DRAWS and _is_small(static["shape"]):
            if len(self._drawn) >= _PROGRAMS_MAX:
                self._drawn.clear()
            self._drawn[kind] += 1
            return self.sampler(_used_key(key), *args, **static)
        return super().__call__(key, *args, **static)


class Draw(NamedTuple):
    """The draw that a function plans: `program(key, **static)`."""

    program: compiled_program
    key: Any
    static: dict[str, Any]


def draws(plan: Callable[P, Any]) -> Callable[P, Any]:
    """Decorate a public function `(key, *args)` that checks its arguments and returns a `Draw`, or else its result.

    Once the program of a draw is compiled, a call with equal arguments runs it without checking the arguments
    again.
    """
    ready: dict[Any, RepeatedCall] = {}
    on_clear(ready.clear)
    after_fork(ready.clear)
    check: Callable[..., Any] = plan

    @functools.wraps(plan)
    def draw(key: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs:
                if asks_for_split(plan, kwargs):
                    return split_result(draw, (key, *args), kwargs)
                kwargs = without_idle(plan, kwargs)
            if kwargs or type(key) is not ConcreteArray or current_trace_var.get() is not eager_trace:
                return drawn(check(key, *args, **kwargs))
            try:
                entry = ready.get((key.aval, args))
            except TypeError:  # arguments that are not hashable: arrays, lists
                return drawn(check(key, *args))
            if entry is None or key.committed or entry.state is not config.state():
                planned = check(key, *args)
                result = drawn(planned)
                if (
                    type(planned) is Draw
                    and (found := planned.program.direct(key, planned.static)) is not None
                ):
                    if len(ready) >= _PROGRAMS_MAX:
                        ready.clear()
                    ready[key.aval, args] = found
                return result
            if entry.state.debug_key_reuse != "off":
                _note_use(key)
            program = entry.executable
            buffers = [key.device_buffer()]
            outs = program.loaded.execute_sharded(buffers).consume_with_handlers(program.handlers, False)
            return ConcreteArray(program.out_avals[0], None, outs[0])
        except Exception as error:
            strip_internal_frames(error, check, (key, *args), kwargs)
            raise

    def drawn(planned: Any) -> Any:
        return planned.program(planned.key, **planned.static) if type(planned) is Draw else planned

    return draw  # pyright: ignore[reportReturnType]


def _is_small(shape: tuple[int, ...]) -> bool:
    """Whether NumPy may draw: the result is small, and nothing is traced."""
    return current_trace_var.get() is eager_trace and math.prod(shape) <= SMALL_DRAW


# --- keys -------------------------------------------------------------------------------------------------


def _is_concrete_key(key: Any) -> bool:
    """Whether the use of this key is noted here: the key has a key dtype, and nothing is traced."""
    return type(key) is ConcreteArray and holds_keys(key.aval) and current_trace_var.get() is eager_trace


def _note_use(key: ConcreteArray) -> None:
    """Note one use of the key, which stands for all uses of its words within a draw."""
    if key_reuse_is_on() and (keys := keys_of(key)) is not None:
        keys.use(DRAWN, user_line())


def _used_key(key: Any) -> Any:
    """Note the use of the key, and return a copy whose uses are not noted as uses of the key."""
    if not _is_concrete_key(key):
        return key
    _note_use(key)
    return ConcreteArray(key.aval, key.host_value(), key._buffer, key.committed)  # pyright: ignore[reportPrivateUsage]
