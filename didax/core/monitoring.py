"""Events that the library reports, and the functions that listen to them: what `didax.monitoring` publishes.

Tracing, lowering and compiling report how long they took (`Elapsed`), and the compilation cache what it found. The
names of events are JAX's, so listeners written for JAX work. Without listeners an event costs a look at an empty tuple.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from didax.core.errors import message

Listener = Callable[..., None]

TRACED = "/jax/core/compile/jaxpr_trace_duration"
LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILED = "/jax/core/compile/backend_compile_duration"
CACHE_REQUEST = "/jax/compilation_cache/compile_requests_use_cache"
CACHE_HIT = "/jax/compilation_cache/cache_hits"
CACHE_MISS = "/jax/compilation_cache/cache_misses"
CACHE_READ = "/jax/compilation_cache/cache_retrieval_time_sec"


class Events:
    """The events of one kind: each listener is called with the name, the values and the details of every event.

    `names` are those of the values.
    """

    def __init__(self, kind: str, *names: str):
        self.kind, self.names = kind, names
        self.listeners: tuple[Listener, ...] = ()  # replaced, never changed: threads may be calling them

    def record(self, event: str, *values: Any, **details: Any) -> None:
        """Tell the listeners of an event; its values may be given by name.

        Raises TypeError where a value is missing.

        >>> from didax import monitoring
        >>> def listener(event, *values, **details):
        ...     print(event, values, details)
        >>> monitoring.register_scalar_listener(listener)
        >>> monitoring.record_scalar("/mine/loss", 0.5, step=3)
        /mine/loss (0.5,) {'step': 3}
        >>> monitoring.unregister_scalar_listener(listener)
        """
        for name in self.names[len(values) :]:
            if name not in details:
                facts = f"event: {event!r}, {name}: not given"
                raise TypeError(
                    message(f"An event of the kind {self.kind!r} has values.", facts, fix="Pass it.")
                )
            values = (*values, details.pop(name))
        for listener in self.listeners:
            listener(event, *values, **details)

    def register(self, callback: Listener) -> None:
        """Have a function told of each event from now on.

        Raises TypeError for what is no function.

        >>> from didax import monitoring
        >>> seen = []
        >>> listener = lambda event, **details: seen.append(event)
        >>> monitoring.register_event_listener(listener)
        >>> monitoring.record_event("/mine/start")
        >>> monitoring.unregister_event_listener(listener)
        >>> "/mine/start" in seen
        True
        """
        if not callable(callback):
            rule = f"A listener to events of the kind {self.kind!r} is a function."
            raise TypeError(
                message(rule, f"given: {callback!r:.100}", fix="Pass a function of the event's name.")
            )
        self.listeners = (*self.listeners, callback)

    def unregister(self, callback: Listener) -> None:
        """Have a function no longer told of events. Of several registrations this ends the last one.

        Raises ValueError for a function that is not registered.

        >>> from didax import monitoring
        >>> seen = []
        >>> listener = lambda event, **details: seen.append(event)
        >>> monitoring.register_event_listener(listener)
        >>> monitoring.unregister_event_listener(listener)
        >>> monitoring.record_event("/mine/end")
        >>> seen
        []
        """
        if callback not in self.listeners:
            rule = "Only a listener that is registered can be unregistered."
            facts = f"kind of events: {self.kind!r}, listener: {callback!r:.100}"
            raise ValueError(message(rule, facts, fix="Pass the function that was registered."))
        at = self.listeners.index(callback)
        self.listeners = (*self.listeners[:at], *self.listeners[at + 1 :])


events, durations = Events("event"), Events("duration", "duration")
spans, scalars = Events("time span", "start_time", "end_time"), Events("scalar", "value")
_TIMED = (durations, spans, scalars)


class Elapsed:
    """Context manager: reports how long its block took, if anybody listens. A block that raised is not reported."""

    __slots__ = ("details", "event", "start")

    def __init__(self, event: str, **details: str | int):
        self.event, self.details = event, details

    def __enter__(self) -> None:
        self.start = 0.0
        if any(kind.listeners for kind in _TIMED):
            self.start = time.time()
            scalars.record(self.event, self.start, **self.details)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self.start and kind is None:
            end = time.time()
            durations.record(self.event, end - self.start, **self.details)
            spans.record(self.event, self.start, end, **self.details)
