"""What happens to a process while jaxlib works: interrupts, and forks.

    executable = to_the_end(lambda: client.compile_and_load(text, devices, options))

Python runs the handlers of signals (Ctrl-C, an alarm) in the main thread, between two steps of its own or when C++ code
asks for it. jaxlib asks for it in the middle of a compilation; if a handler raises there, jaxlib goes on compiling with
objects that the exception has freed. So the main thread leaves such work to another thread, where no handler runs, and
waits in a way that signals interrupt: the exception arrives at once, and the work ends later, unseen, with all objects
that it needs.

A fork copies the memory and one thread. `lock_for_forks` makes locks that other threads held free again in the child;
`after_fork` registers whatever else has to be done there.
Read next: `stack.py` (threads for what is nested deeply),
`didax/xla/client.py` (XLA in a forked child), `didax/xla/exit.py` (the end of a process).
"""

from __future__ import annotations

import _imp
import _thread
import contextvars
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

    The work sees the options in force here: the thread runs in a copy of this thread's context.

    >>> in_a_thread(lambda: 1 + 1)
    2
    """
    results: list[T] = []
    errors: list[BaseException] = []
    running = threading.Lock()
    running.acquire()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            results.append(context.run(work))
        except BaseException as error:
            errors.append(error)
        finally:
            running.release()

    try:
        _thread.start_new_thread(run, ())  # 60 us; an object of threading.Thread takes 100
    except RuntimeError:  # the interpreter is shutting down, and starts no threads
        return work()
    running.acquire()
    if errors:
        try:
            raise errors[0]
        finally:
            errors.clear()  # the traceback refers to this frame, which would refer to the error
    return results[0]


def import_to_the_end(module: str) -> Any:
    """Import a module written in C++, which an interrupt must not stop halfway."""
    # Where a finder of modules imports Didax, another thread's import would wait for the finder for ever.
    if _imp.lock_held():
        return importlib.import_module(module)
    return to_the_end(lambda: importlib.import_module(module))


def after_fork(hook: Callable[[], None]) -> None:
    """Call `hook()` in every forked child, before anything else runs there."""
    if hasattr(os, "register_at_fork"):  # Windows has no forks
        os.register_at_fork(after_in_child=hook)


def lock_for_forks(lock: T) -> T:
    """The lock or condition of a module; it is free in a forked child, which has no thread that held it."""
    after_fork(lock._at_fork_reinit)  # type: ignore[attr-defined]  # as the standard library does with its own locks
    return lock
