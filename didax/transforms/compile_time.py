"""Evaluating what is known at once, in the middle of staging: the trace of `ensure_compile_time_eval`.

An operation on concrete values is evaluated at once, though a function is being staged. An operation with a tracer
among its operands goes on to the trace that was current before. Read next: `core/tracing.py`, `staging.py`.
"""

from __future__ import annotations

from typing import Any

from didax.core.primitive import Primitive, Trace, eager_trace
from didax.core.tracing import Tracer, set_current_trace


class CompileTimeTrace(Trace):
    """Evaluates operations on values, and leaves others to its parent."""

    __slots__ = ()
    transformation = "ensure_compile_time_eval"

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        waits = any([isinstance(x, Tracer) for x in args])
        with set_current_trace(self.parent if waits else eager_trace) as trace:
            return trace.process(primitive, args, params)
