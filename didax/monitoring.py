"""Events of the library, for programs that collect them: `jax.monitoring`.

    def listener(event, seconds, **details): ...
    didax.monitoring.register_event_duration_secs_listener(listener)

Didax tells, under the names that JAX gives them:

    /jax/core/compile/jaxpr_trace_duration              a function was traced by jit (`fun_name`)
    /jax/core/compile/jaxpr_to_mlir_module_duration     a program was written as StableHLO (`fun_name`)
    /jax/core/compile/backend_compile_duration          a program was compiled or loaded (`fun_name`)
    /jax/compilation_cache/compile_requests_use_cache   a program was looked for on disk,
    /jax/compilation_cache/cache_hits, cache_misses     was there, or was not
    /jax/compilation_cache/cache_retrieval_time_sec     how long the reading took

Durations come as time spans and, when they begin, as scalars too. A program may record events of its own.
"""

from typing import TYPE_CHECKING

from didax.core.modules import on_access
from didax.core.monitoring import durations, events, scalars, spans

__all__ = [
    "clear_event_listeners",
    "record_event",
    "record_event_duration_secs",
    "record_event_time_span",
    "record_scalar",
    "register_event_duration_secs_listener",
    "register_event_listener",
    "register_event_time_span_listener",
    "register_scalar_listener",
    "unregister_event_duration_listener",
    "unregister_event_listener",
    "unregister_event_time_span_listener",
    "unregister_scalar_listener",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

record_event = events.record
record_event_duration_secs = durations.record
record_event_time_span = spans.record
record_scalar = scalars.record

register_event_listener = events.register
register_event_duration_secs_listener = durations.register
register_event_time_span_listener = spans.register
register_scalar_listener = scalars.register

unregister_event_listener = events.unregister
unregister_event_duration_listener = durations.unregister
unregister_event_time_span_listener = spans.unregister
unregister_scalar_listener = scalars.unregister


def clear_event_listeners() -> None:
    """Forget all listeners, of all kinds.

    >>> clear_event_listeners()  # doctest: +SKIP
    """
    for kind in (events, durations, spans, scalars):
        kind.listeners = ()
