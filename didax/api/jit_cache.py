"""What is remembered of jitted functions, and for how long.

A `JitCache` belongs to one function jitted in one way, however often `jit` is called with it. It has a specialization
for each signature, and shortcuts for calls whose arguments are like those of an earlier call. It lives as long as the
function does. Read next: `specialization.py`, `repeated_calls.py` (who uses the shortcuts).
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from didax.api.specialization import Specialization
from didax.core import config
from didax.core.avals import ShapedArray
from didax.core.process import after_fork, lock_for_forks
from didax.runtime.compiled import Program
from didax.runtime.key_flow import KeyFlow

if TYPE_CHECKING:
    from didax.core.sharding import NamedSharding
    from didax.xla.compile import Executable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class OneArrayCall:
    """All that is needed to repeat a call with one array for one result: XLA's executable, the type of the result."""

    loaded: Any
    handlers: Any
    aval: ShapedArray
    state: config.State  # the options that it was made under
    sharding: NamedSharding | None = None  # how the result lies on several devices


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RepeatedCall:
    """All that is needed to repeat any other call."""

    executable: Executable
    specialization: Specialization
    state: config.State  # the options that it was made under
    loaded: Any  # what XLA runs
    handlers: Any
    captured: list[Any]
    order: list[int] | None  # the program's arguments among those of a call with keywords; None: as they are
    donated: tuple[bool, ...] | None  # for each kept argument; None where none is
    kept: list[int] | None  # the arguments that results depend on; None: all
    key_flow: KeyFlow | None  # what it does to random keys; None where it gets none
    layouts: Sequence[NamedSharding] | None  # how the kept arguments lie on several devices; None: on one


class JitCache:
    """What is remembered of one function jitted in one way."""

    __slots__ = (
        "__weakref__",
        "bucket_calls",
        "one_array_calls",
        "repeated_calls",
        "specializations",
        "traces",
    )

    def __init__(self) -> None:
        self.specializations: dict[Any, Specialization] = {}  # by signature
        # By the types of the arguments, where all of them are arrays and positional; else with their structure as well.
        self.repeated_calls: dict[Any, RepeatedCall] = {}
        # By the type of the only argument, with its sharding where it lies on several devices.
        self.one_array_calls: dict[Any, OneArrayCall] = {}
        # With bucket=: by signature what calls need, and by signature over all sizes traces with their programs.
        self.bucket_calls: dict[Any, Any] = {}
        self.traces: dict[Any, list[Any]] = {}
        with _all_caches_lock:
            _all_caches.add(self)

    def programs(self) -> list[Program]:
        """The programs that are compiled, or will be when they are called."""
        found = [s.program for s in list(self.specializations.values())]
        padded = [
            p for traces in list(self.traces.values()) for t in traces for p in list(t.programs.values())
        ]
        return [program for program in found if program is not None] + padded

    def clear(self) -> None:
        """Forget every specialization."""
        self.specializations.clear()
        self.bucket_calls.clear()
        self.traces.clear()
        self.forget_calls()

    def forget_calls(self) -> None:
        """Forget the shortcuts: the next calls look for their specialization again."""
        self.repeated_calls.clear()
        self.one_array_calls.clear()


_all_caches: WeakSet[JitCache] = WeakSet()
_all_caches_lock = lock_for_forks(threading.RLock())  # reentrant: a garbage collection may run anything
_caches: WeakKeyDictionary[Any, dict[Hashable, JitCache]] = (
    WeakKeyDictionary()
)  # by function and options of jit


def cache_of(fun: Any, options: Hashable) -> JitCache:
    """The cache of a function jitted with these options: all that jit it in this way share the work."""
    try:
        caches = _caches.setdefault(fun, {})
    except TypeError:  # not hashable or not weakly referable: this wrapper keeps its own
        return JitCache()
    found = caches.get(options)
    if found is None:
        found = caches[options] = JitCache()
    return found


def _forget_calls() -> None:
    for cache in list(_all_caches):
        cache.forget_calls()


after_fork(
    _forget_calls
)  # they do not ask whether XLA, which does not survive a fork, is there: see `xla/client.py`


def _all() -> list[JitCache]:
    with _all_caches_lock:
        return list(_all_caches)


def programs_of_functions() -> list[Program]:
    """The programs of every jitted function."""
    return [program for cache in _all() for program in cache.programs()]


def clear_functions() -> None:
    """Forget the programs of every jitted function."""
    for cache in _all():
        cache.clear()
