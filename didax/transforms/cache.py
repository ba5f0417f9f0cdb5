"""Memory for transformed jaxprs: each is computed once per jaxpr and forgotten with it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary

from didax.core import config
from didax.core.jaxpr import Jaxpr
from didax.core.stack import on_new_stack, stack_is_low

P = ParamSpec("P")
R = TypeVar("R")
Memory = WeakKeyDictionary[Any, dict[Any, Any]]
_all: list[Memory] = []
_ITSELF: Any = object()  # stands for a result that is the very jaxpr it is remembered with


def new_memory() -> Memory:
    """A memory of what was derived from each of its keys, which `clear_caches` empties."""
    memory: Memory = WeakKeyDictionary()
    _all.append(memory)
    return memory


def cached_on_jaxpr(f: Callable[Concatenate[Jaxpr, P], R]) -> Callable[Concatenate[Jaxpr, P], R]:
    """Remember `f(jaxpr, *hashable)` as long as the jaxpr lives; options that matter are part of the key."""
    memory = new_memory()

    @functools.wraps(f)
    def cached(jaxpr: Jaxpr, *args: P.args, **kwargs: P.kwargs) -> R:
        key = (config.state(), args, tuple(kwargs.items()))
        results = memory.setdefault(jaxpr, {})
        if key not in results:
            if stack_is_low():  # passes over jaxprs within jaxprs come through here
                return on_new_stack(functools.partial(cached, jaxpr, *args, **kwargs))
            result = f(jaxpr, *args, **kwargs)
            # A reference to its key would keep the entry alive.
            results[key] = _ITSELF if result is jaxpr else result
        found = results[key]
        return cast(R, jaxpr) if found is _ITSELF else found

    return cached


_hooks: list[Callable[[], Any]] = []


def on_clear(hook: Callable[[], Any]) -> None:
    """Register a function that `clear_caches` calls: for memories that `new_memory` did not make."""
    _hooks.append(hook)


def clear_caches() -> None:
    """Forget every transformed jaxpr and traced function, and what libraries remember."""
    for memory in _all:
        memory.clear()
    for hook in _hooks:
        hook()
