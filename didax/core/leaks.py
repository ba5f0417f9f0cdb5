"""Tracers that outlive their transformation, found when it ends: the option `check_tracer_leaks`.

A tracer refers to its trace. So a tracer that still refers to the trace when the function has returned is held by
something: a global, an attribute, a list. Python's garbage collector finds what holds the tracer, and the error says
its name. The search walks all of memory, once for each transformation. Without the option a leak is reported when it is
used (`tracing.leaked`).
"""

from __future__ import annotations

import gc
import types
from typing import Any, cast

from didax.core import config
from didax.core.errors import UnexpectedTracerError, message
from didax.core.primitive import Trace
from didax.core.tracing import Tracer

_DEPTH = 4  # containers followed from the tracer outward


def check_leaks(*traces: Trace) -> None:
    """Raise UnexpectedTracerError if tracers of these ended traces are held; does nothing without the option."""
    if not config.state().check_tracer_leaks:
        return
    for trace in traces:
        if _tracer_of(trace) is not None:
            gc.collect()  # a tracer in a cycle of garbage is held by nothing
            if (tracer := _tracer_of(trace)) is not None:
                raise _error(tracer)


def _tracer_of(trace: Trace) -> Tracer | None:
    for x in gc.get_referrers(trace):
        if isinstance(x, Tracer) and x.owner is trace:
            return x
    return None


def _error(tracer: Tracer) -> UnexpectedTracerError:
    origin = tracer.origin()
    holder = _path(tracer, _DEPTH, set())
    return UnexpectedTracerError(
        message(
            "A traced array is still held though the transformation that made it has ended.",
            f"value: {tracer.aval}, made during {tracer.owner.describe()}",
            *([f"it comes from: {origin}"] if origin is not None else []),
            f"held by: {holder or 'an object that Python does not name'}",
            fix="Return the value from the transformed function instead of storing it.",
        )
    )


def _path(x: Any, depth: int, seen: set[int]) -> str:
    """How to get to an object from a name: `global losses of __main__, item 0`; empty where that is not found."""
    holders = gc.get_referrers(x)
    seen.update((id(x), id(holders)))
    found = ""
    for holder in holders:
        if id(holder) in seen or isinstance(holder, (types.FrameType, Tracer, Trace, types.GeneratorType)):
            continue
        name, ends = _name_in(holder, x)
        if ends:
            return name
        if name and depth:
            outer = _path(holder, depth - 1, seen)
            if outer:
                return f"{outer}, {name}"
            found = found or name
    return found


def _name_in(holder: Any, x: Any) -> tuple[str, bool]:
    """What `x` is called in its holder ('' for nothing of interest), and whether that says it all."""
    if isinstance(holder, dict):
        table = cast("dict[Any, Any]", holder)
        key = next((key for key, value in table.items() if value is x), None)
        module = table.get("__name__")
        if isinstance(module, str) and "__builtins__" in table:
            return f"global {key} of {module}", True
        return f"key {key!r}", False
    if isinstance(holder, (list, tuple)):
        items = cast("list[Any] | tuple[Any, ...]", holder)
        place = next((i for i, value in enumerate(items) if value is x), None)
        kind = "list" if isinstance(holder, list) else "tuple"
        return (f"item {place} of a {kind}", False) if place is not None else ("", False)
    if isinstance(holder, types.CellType):
        return "a variable that a function closes over", False
    if isinstance(holder, types.FunctionType):
        return f"function {holder.__qualname__}", True
    if type(holder).__module__.startswith("didax.") or "iterator" in type(holder).__name__:
        return "", False
    attribute = next((k for k, v in getattr(holder, "__dict__", {}).items() if v is x), None)
    if attribute is not None:
        return f"attribute {attribute} of a {type(holder).__qualname__}", True
    if getattr(holder, "__dict__", None) is x:
        return f"the attributes of a {type(holder).__qualname__}", True
    return f"a {type(holder).__qualname__}", False
