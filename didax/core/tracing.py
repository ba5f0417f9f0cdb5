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

from didax.core.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerAttributeError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
    message,
)
from didax.core.primitive import Trace, current_trace_var
from didax.core.source import SourceLine
from didax.core.stack import on_new_stack, stack_is_low
from didax.core.value import Array

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


class Tracer(Array):
    """An array in flight through a trace."""

    __slots__ = ("__weakref__", "owner")
    owner: Trace  # not "trace", which is a method of arrays

    def known(self) -> Any | None:
        """The concrete value behind this tracer, or None where only the type is known."""
        return None

    def origin(self) -> SourceLine | str | None:
        """Where the tracer comes from: a line of the user's program or an argument's name; None where not recorded."""
        return None

    def facts(self) -> list[str]:
        """What errors say of it: its type, its trace, and where it comes from."""
        facts = [f"value: {self.aval}, traced by {self.owner.describe()}"]
        origin = self.origin()
        return [*facts, f"it comes from: {origin}"] if origin is not None else facts

    def __bool__(self) -> bool:
        if (value := self.known()) is not None:
            return bool(value)
        raise TracerBoolConversionError(
            message(
                "Python cannot branch on a traced array: its truth value is not known while tracing.",
                *self.facts(),
                fix="Use didax.lax.cond or didax.numpy.where, or make the argument static (static_argnames of jit).",
            )
        )

    def _scalar(self, kind: type, fix: str) -> Any:
        if (value := self.known()) is not None:
            return kind(value)
        error = TracerIntegerConversionError if kind is int else ConcretizationTypeError
        raise error(
            message(
                f"A traced array has no {kind.__name__} value: its numbers are not known while tracing.",
                *self.facts(),
                fix=fix,
            )
        )

    def __int__(self) -> int:
        return self._scalar(int, "Keep it an array, or make the argument static (static_argnames of jit).")

    def __float__(self) -> float:
        return self._scalar(float, "Keep it an array (didax.numpy instead of math), or compute it outside.")

    def __complex__(self) -> complex:
        return self._scalar(
            complex, "Keep it an array (didax.numpy instead of cmath), or compute it outside."
        )

    def __index__(self) -> int:
        if (value := self.known()) is not None:
            return value.__index__()
        raise TracerIntegerConversionError(
            message(
                "A traced array cannot be a Python index, a length or part of a shape.",
                *self.facts(),
                fix="Index an array (not a list) with it, compute shapes from x.shape, or make the argument static "
                "(static_argnames of jit).",
            )
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        known = self.known() is not None
        raise TracerArrayConversionError(
            message(
                "NumPy would see a traced array's numbers and lose its derivative."
                if known
                else "NumPy needs numbers, and a traced array has none yet.",
                *self.facts(),
                fix="Use the function of the same name in didax.numpy, or compute this part outside the "
                "transformation.",
            )
        )

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if (value := self.known()) is not None:
            return format(value, spec)
        raise self._not_concrete("A traced array has no digits to format", "Print it as it is, f'{x}'.")

    def __reduce__(self) -> Any:
        raise self._not_concrete("A traced array cannot be pickled", "Return it, and pickle the result.")

    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self

    def block_until_ready(self) -> Tracer:
        """The array itself: there is nothing to wait for while tracing."""
        return self

    def _not_concrete(self, rule: str, fix: str) -> ConcretizationTypeError:
        rule = f"{rule}: it is not in memory while tracing."
        return ConcretizationTypeError(message(rule, *self.facts(), fix=fix))

    def __repr__(self) -> str:
        return f"Traced<{self.aval}>({self.owner.transformation})"

    def __hash__(self) -> int:
        raise TypeError(
            message(
                "Arrays are not hashable, traced or not.",
                *self.facts(),
                fix="Hash a static value instead, or use id(x) for identity.",
            )
        )


def _only_in_memory(name: str) -> Any:
    """What only arrays in memory have; raises when asked of a tracer."""

    def refuse(self: Tracer, *args: Any, **kwargs: Any) -> Any:
        rule = f"A traced array has no {name}: it is not in memory while tracing."
        fix = "Ask for it outside of the transformed function, of an argument or a result."
        raise TracerAttributeError(message(rule, *self.facts(), fix=fix))

    refuse.__name__, refuse.__qualname__ = name, f"Tracer.{name}"
    return refuse


_IN_MEMORY_PROPERTIES = (
    "addressable_shards",
    "device",
    "is_fully_addressable",
    "is_fully_replicated",
    "sharding",
)
_IN_MEMORY_METHODS = (
    "addressable_data", "copy_to_host_async", "delete", "devices", "is_deleted", "is_ready",
    "on_device_size_in_bytes", "platform", "unsafe_buffer_pointer", "__dlpack__", "__dlpack_device__",
)  # fmt: skip
for _name in _IN_MEMORY_METHODS:
    setattr(Tracer, _name, _only_in_memory(_name))
for _name in _IN_MEMORY_PROPERTIES:
    setattr(Tracer, _name, property(_only_in_memory(_name)))


def known_value(x: Any) -> Any | None:
    """The concrete value of `x`, through any number of transformations that keep it; None where there is none.

    It is for choices, as Python's `if` makes them, and for errors. A result made from it, or without it, no longer
    depends on `x`: where a result is to be simplified, ask for the `constant_value`.
    """
    return x.known() if isinstance(x, Tracer) else x


def constant_value(x: Any) -> Any | None:
    """The concrete value of `x` if no transformation follows it, so that it may stand for `x`; None for a tracer."""
    return None if isinstance(x, Tracer) else x


def leaked(tracer: Tracer) -> UnexpectedTracerError:
    """The error for a tracer met outside of the transformation that made it."""
    origin = tracer.origin()
    if tracer.owner.ended:
        rule = "A traced array was used after the transformation that made it had ended."
        fix = (
            "Return the value from the transformed function instead of storing it in a global, an attribute "
        )
        fix += "or a list."
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
