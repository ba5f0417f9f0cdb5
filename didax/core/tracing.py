"""Tracing: a plain Python function is run on tracers, by an interpreter other than Python.

There is one current trace, held in a context variable; `Primitive.bind` hands every operation to it. A `Tracer` is an
`Array` in flight: it knows its type and its trace, and has no numbers. There are no levels and no stack to search:
nesting is the chain of traces' parents, and threads and async tasks are independent because context variables are.

    grad(f)(x)   current trace: LinearizeTrace -> parent EagerTrace
    jit(grad(f)) current trace: LinearizeTrace -> parent StagingTrace -> parent EagerTrace

Read first: `primitive.py` (`Trace`, and the rules traces ask for). Read next: `didax/transforms/` (one trace a file).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from didax.core.errors import UnexpectedTracerError, message
from didax.core.primitive import Trace, current_trace_var
from didax.core.source import SourceLine
from didax.core.stack import on_new_stack, stack_is_low
from didax.core.tracer_conversions import TracerConversions

T = TypeVar("T")


def current_trace() -> Trace:
    """The interpreter that receives operations now."""
    return current_trace_var.get()


class set_current_trace:
    """Context manager: operations go to `trace` inside the block.

    Interpreters that run a rule per operation set and reset the variable themselves; this is for whole blocks, inside
    of what `run_under` has begun.
    """

    __slots__ = ("_token", "_trace")

    def __init__(self, trace: Trace):
        self._trace = trace

    def __enter__(self) -> Trace:
        self._token = current_trace_var.set(self._trace)
        return self._trace

    def __exit__(self, *exc: object) -> None:
        current_trace_var.reset(self._token)


def run_under(trace: Trace, fun: Callable[..., T], args: Sequence[Any]) -> T:
    """`fun(*args)` with `trace` current: how a transformation begins.

    Whatever instruction an interrupt (Ctrl-C) arrives at, the trace from before is current again afterwards. A context
    manager written in Python cannot promise that: it may be interrupted before the first line of its `__exit__`.
    """
    if stack_is_low():  # functions within functions come through here
        return on_new_stack(run_under, trace, fun, args)
    outer = current_trace_var.get()
    try:
        current_trace_var.set(trace)
        return fun(*args)
    finally:
        current_trace_var.set(outer)


class Tracer(TracerConversions):
    """An array in flight through a trace: its type is known, its numbers need not be."""

    __slots__ = ("__weakref__", "owner")
    owner: Trace  # not "trace", which is a method of arrays

    def known(self) -> Any | None:
        """The concrete value behind this tracer, or None where only the type is known."""
        return None

    def origin(self) -> SourceLine | str | None:
        """Where the tracer comes from: a line of the user's program or an argument's name; None where not recorded."""
        return None

    def facts(self) -> list[str]:
        """Lines about the tracer for error messages: its type, its trace, and where it comes from."""
        facts = [f"value: {self.aval}, traced by {self.owner.describe()}"]
        origin = self.origin()
        return [*facts, f"it comes from: {origin}"] if origin is not None else facts

    def __repr__(self) -> str:
        return f"Traced<{self.aval}>({self.owner.transformation})"


def known_value(x: Any) -> Any | None:
    """The concrete value of `x`, through any number of transformations that keep it; None where there is none.

    Use the value for choices, as Python's `if` makes them, and for errors. A result that is computed from it does not
    depend on `x` any more, so a derivative with respect to `x` is lost: to simplify results use `constant_value`.
    """
    return x.known() if isinstance(x, Tracer) else x


def constant_value(x: Any) -> Any | None:
    """The concrete value of `x` if no transformation traces `x`, so that results may be computed from it; else None."""
    return None if isinstance(x, Tracer) else x


def leaked(tracer: Tracer) -> UnexpectedTracerError:
    """The error for a tracer met outside of the transformation that made it."""
    origin = tracer.origin()
    if tracer.owner.ended:
        rule = "A traced array was used after the transformation that made it had ended."
        fix = "Return the value from the transformed function instead of storing it in a global, an attribute or "
        fix += "a list."
    else:
        rule = "A traced array was used outside of the transformation that made it, which runs on: in another thread, "
        rule += "or in a context of its own."
        fix = (
            "Work on it in the thread that runs the transformed function, or hand that thread's context on: "
        )
        fix += "thread.submit(contextvars.copy_context().run, f, x)."
    facts = [f"value: {tracer.aval}, made during {tracer.owner.describe()}"]
    facts += [f"it comes from: {origin}"] if origin is not None else []
    error = UnexpectedTracerError(message(rule, *facts, fix=fix))
    error.tracer = tracer
    return error
