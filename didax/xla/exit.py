"""The end of a process in which other threads are inside XLA: it ends at once, with its own exit status.

Such threads are daemons of the user's program, and threads whose compilation nobody waits for after an interrupt
(`didax/core/process.py`). A thread that returns from C++ when the interpreter has ended cannot run Python any more.
Before Python 3.14 the thread is unwound then, and C++ aborts the whole process. Besides, the destructors of C++ that
run at the exit wait for compilations, or destroy objects that other threads still use. So when Python's exit begins
while there are other threads, `leave_quietly` arranges two things with the C library: a thread that would abort sleeps
for ever instead, as Python 3.14 lets it sleep; and the process ends right after Python, without those destructors.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import sys


def leave_quietly() -> None:
    """Arrange for the end of the process where other threads run Python or XLA; called by Python's exit."""
    if len(sys._current_frames()) > 1:
        # Another C library than glibc has no such function, and does not unwind threads.
        with contextlib.suppress(OSError, AttributeError):
            _let_threads_sleep()
        skip_teardown()


def _let_threads_sleep() -> None:
    if sys.version_info < (3, 14):
        cxx = ctypes.CDLL("libstdc++.so.6")
        cxx._ZSt13set_terminatePFvvE(_address("pause"))


def skip_teardown() -> None:
    """Let the process end without C++'s teardown, as soon as Python's is done."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        libc = ctypes.CDLL(None)
        libc.fflush(None)
        libc.on_exit(_address("_exit"), None)  # called with the exit status


def _address(name: str) -> ctypes.c_void_p:
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p)


atexit.register(leave_quietly)
