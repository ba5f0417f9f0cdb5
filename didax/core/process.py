"""What happens to a process while jaxlib works: interrupts, and forks.

    executable = to_the_end(lambda: client.compile_and_load(text, devices, options))

Python runs the handlers of signals (Ctrl-C, an alarm) in the main thread, between two steps of its own or where C++
asks for them. jaxlib asks in the middle of a compilation, and goes on compiling with what the exception of a handler
has freed. So the main thread leaves such work to a thread that no handler runs in, and waits for it in a way that
signals end: the exception arrives at once, the work ends later and unseen, with all that it needs.

A fork copies memory and one thread. Locks that other threads held are new in the child (`lock_for_forks`); what else
the child has to know, it is told by hooks (`after_fork`).
Read next: `stack.py` (threads for what is nested deeply),
`didax/xla/client.py` (XLA in a forked child), `didax/xla/exit.py` (the end of a process).
"""

from __future__ import annotations

import _thread
import importlib
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def to_the_end(work: Callable[[], T]) -> T:
    """The result of `work()`, or its exception. The work is not interrupted, but waiting for it is.

    >>> to_the_end(lambda: 1 + 1)
    2
    """
    if threading.get_ident() != threading.main_thread().ident:
        return work()  # no handler of a signal runs here
    return in_a_thread(work)


def in_a_thread(work: Callable[[], T]) -> T:
    """The result of `work()`, or its exception, from a thread of its own. Waiting for it can be interrupted.

    >>> in_a_thread(lambda: 1 + 1)
    2
    """
    results: list[T] = []
    errors: list[BaseException] = []
    running = threading.Lock()
    running.acquire()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            running.release()

    try:
        _thread.start_new_thread(run, ())  # 60 us; an object of threading.Thread takes 100
    except RuntimeError:  # no threads any more: the interpreter is shutting down
        return work()
    running.acquire()
    if errors:
        try:
            raise errors[0]
        finally:
            errors.clear()  # the traceback knows this frame: no cycle
    return results[0]


def import_to_the_end(module: str) -> Any:
    """A module of C++, which does not survive half an import."""
    return to_the_end(lambda: importlib.import_module(module))


def after_fork(hook: Callable[[], None]) -> None:
    """Call `hook()` in every forked child, before anything else runs there."""
    if hasattr(os, "register_at_fork"):  # Windows has no forks
        os.register_at_fork(after_in_child=hook)


def lock_for_forks(lock: T) -> T:
    """The lock or condition of a module, which is free again in a forked child, whose holder is not there."""
    after_fork(lock._at_fork_reinit)  # type: ignore[attr-defined]  # what the standard library does with its own
    return lock
