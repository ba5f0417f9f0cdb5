"""More stack than Python gives to one thread: programs may be nested deeper than its limit of calls.

    def walk(jaxpr):
        if stack_is_low():
            return on_new_stack(walk, jaxpr)
        ...

Staging a function, and following the jaxprs inside of jaxprs, takes some ten Python calls a level, and Python allows
a thread a thousand calls (`sys.getrecursionlimit`). When half of them are taken the work goes on in a new thread, which
has a stack of its own, in a copy of the context; the thread that started it waits. Two functions ask whether the stack
is low: `run_under` in `tracing.py`, which stages all functions, and `cached_on_jaxpr` in `transforms/cache.py`, through
which most passes over jaxprs go.
Read next: `process.py`.
"""

from __future__ import annotations

import contextvars
import sys
import types
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from didax.core.process import in_a_thread

T = TypeVar("T")

# The largest number of stacks that continue each other: an endless recursion has to be stopped.
_MOST_STACKS = 20


class StackBelow(NamedTuple):
    """A stack that another one continues: its innermost frame, the stack that it continues itself, and its number."""

    frame: types.FrameType
    below: StackBelow | None
    number: int


_below: ContextVar[StackBelow | None] = ContextVar("didax_stack", default=None)


def stack_is_low() -> bool:
    """Whether half of the calls that Python allows this thread are taken."""
    try:
        sys._getframe(sys.getrecursionlimit() // 2)  # pyright: ignore[reportPrivateUsage]
    except ValueError:  # the stack is less deep than that
        return False
    return True


def on_new_stack(fun: Callable[..., T], *args: Any) -> T:
    """`fun(*args)` in a thread of its own, in a copy of this context.

    >>> on_new_stack(max, 1, 2)
    2
    """
    below = _below.get()
    count = 1 if below is None else below.number + 1
    if count > _MOST_STACKS:
        raise RecursionError(
            "Transformations and control flow are nested too deeply.\n"
            f"  stacks of calls in use: {count}\n"
            f"  Python's limit (sys.getrecursionlimit()): {sys.getrecursionlimit()} calls each\n"
            "A function that calls itself needs an end that is known while tracing. If it has one, write the levels as "
            "a loop (scan, fori_loop), or raise the limit by sys.setrecursionlimit."
        )
    context = contextvars.copy_context()
    context.run(_below.set, StackBelow(sys._getframe(), below, count))  # pyright: ignore[reportPrivateUsage]
    try:
        return in_a_thread(lambda: context.run(fun, *args))
    finally:
        context.run(_below.set, None)  # the entry refers to this frame


def stack_below() -> StackBelow | None:
    """The stack that the one of this thread continues; None where it continues none."""
    return _below.get()
