"""Evaluating what is known at once, in the middle of staging: the trace of `ensure_compile_time_eval`.

An operation on concrete values is evaluated at once, though a function is being staged. An operation with a tracer
among its operands goes on to the trace that was current before. Read next: `tracing.py`, `transforms/staging.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

from didax.core.primitive import Primitive, Trace, eager_trace
from didax.core.tracing import Tracer, current_trace, set_current_trace


class CompileTimeTrace(Trace):
    """Evaluates operations on values, and leaves others to its parent."""

    __slots__ = ()
    transformation = "ensure_compile_time_eval"

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        waits = any([isinstance(x, Tracer) for x in args])
        with set_current_trace(self.parent if waits else eager_trace) as trace:
            return trace.process(primitive, args, params)


@contextlib.contextmanager
def ensure_compile_time_eval() -> Generator[None]:
    """Inside the block, what depends on no traced value is computed at once, also while a function is traced.

    So it may decide what the program is: Python sees its values.

    >>> import didax as dx, didax.numpy as dnp
    >>> @dx.jit
    ... def f(x):
    ...     with dx.ensure_compile_time_eval():
    ...         steps = int(dnp.ceil(dnp.log2(dnp.float32(x.size))))
    ...     return x * steps
    >>> f(dnp.ones(5))
    Array([3., 3., 3., 3., 3.], dtype=float32)
    """
    with set_current_trace(CompileTimeTrace(current_trace())) as trace:
        try:
            yield
        finally:
            trace.ended = True
