"""What is remembered of jitted functions, and for how long.

A `JitCache` belongs to one function jitted in one way, however often `jit` is called with it. It has a specialization
for each signature, and shortcuts for calls whose arguments are like those of an earlier call. It lives as long as the
function does. Read next: `specialization.py`, `repeated_calls.py` (who uses the shortcuts).
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from didax.api.specialization import Results, Specialization
from didax.core import config
from didax.core.process import after_fork, lock_for_forks
from didax.runtime.compiled import Program
from didax.runtime.key_flow import KeyFlow

if TYPE_CHECKING:
    from didax.core.sharding import NamedSharding
    from didax.xla.compile import Executable


_SPECIALIZATIONS_MAX = 2048  # of one function: a small program takes a fifth of a megabyte
ABSENT: Any = object()  # in the place of an argument or a result that is not there


@dataclasses.dataclass(slots=True, eq=False)
class RepeatedCall:
    """All that is needed to repeat a call."""

    executable: Executable
    specialization: Results
    state: config.State  # the options that it was made under
    captured: list[Any]
    donated: tuple[bool, ...] | None  # for each kept argument; None where none is
    kept: list[int] | None  # the arguments that results depend on; None: all
    key_flow: KeyFlow | None  # what it does to random keys; None where it gets none
    layouts: Sequence[NamedSharding] | None  # how the kept arguments lie on several devices; None: on one
    code: Callable[..., Any] | None = None  # how it is repeated (see `call_code.py`), from the second call on

    @property
    def is_alone(self) -> bool:
        """Whether it runs on the default device, with arguments or results that lie in memory of the host."""
        partition = getattr(self.executable, "partition", None)
        return partition is not None and partition.is_one_device

    @property
    def is_plain(self) -> bool:
        """Whether arguments go into the run as they are, and its one result is that of the call."""
        others = self.donated, self.kept, self.key_flow, self.layouts
        return self.specialization.single and not self.captured and others == (None,) * 4


class JitCache:
    """What is remembered of one function jitted in one way."""

    __slots__ = (
        "__weakref__",
        "bucket_calls",
        "codes",
        "repeated_calls",
        "specializations",
        "traces",
    )

    def __init__(self) -> None:
        self.specializations: dict[Any, Specialization] = {}  # by signature
        # By structure and kinds of the arguments, static values and options.
        self.repeated_calls: dict[Any, RepeatedCall] = {}
        # The codes of the latest kinds of calls, by the type of the first argument, or under None if it is no array.
        self.codes: dict[Any, tuple[Callable[..., Any], ...]] = {}
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

    def add(self, signature: Any, specialization: Specialization) -> None:
        """Remember a specialization; of very many, as for arrays of ever new shapes, the older half is forgotten."""
        if len(self.specializations) >= _SPECIALIZATIONS_MAX:
            for old in list(self.specializations)[: _SPECIALIZATIONS_MAX // 2]:
                self.specializations.pop(old, None)
            self.forget_calls()
        self.specializations[signature] = specialization

    def clear(self) -> None:
        """Forget every specialization."""
        self.specializations.clear()
        self.bucket_calls.clear()
        self.traces.clear()
        self.forget_calls()

    def forget_calls(self) -> None:
        """Forget the shortcuts: the next calls look for their specialization again."""
        self.repeated_calls.clear()
        self.codes.clear()


class Remembering:
    """A function with a cache, as users ask for it."""

    __slots__ = ()
    _cache: JitCache

    def clear_cache(self) -> None:
        """Forget every program of this function."""
        self._cache.clear()

    def _cache_size(self) -> int:
        """How many programs the function has; JAX's programs ask."""
        padded = [len(trace.programs) for traces in self._cache.traces.values() for trace in traces]
        return len(self._cache.specializations) + sum(padded)


_all_caches: WeakSet[JitCache] = WeakSet()
_all_caches_lock = lock_for_forks(threading.RLock())  # reentrant: a garbage collection may run anything
# By function and options of jit.
_caches: WeakKeyDictionary[Any, dict[Hashable, JitCache]] = WeakKeyDictionary()


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


# They do not ask whether XLA, which does not survive a fork, is there: see `xla/client.py`.
after_fork(_forget_calls)


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
