"""Signals while XLA runs a program that calls Python: no handler raises where only C++ could catch the exception.

A signal's handler runs in the main thread with the next line of Python. While a program computes, the next line of
Python is often the first line of the function that XLA calls. An exception there would be printed and lost, and XLA
would read a random register as the result of the call. So while such a program runs, handlers that come due in frames
of functions that are marked `fragile` are put off. The handlers run in `raise_held`. Each callback begins by calling
it, so that an exception of a handler ends the run, and it is called once more when the program has ended. In functions
marked `sound`, and in functions that these call, handlers run at once.
"""

from __future__ import annotations

import _signal  # pyright: ignore[reportMissingImports]
import signal
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

# Integers and the C module, because `signal` makes members of an enumeration in each call: 90 us for each run, not 2.
_NAMES = ("SIGINT", "SIGALRM", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGVTALRM", "SIGPROF")
_SIGNALS = tuple(int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name))
_put_off: dict[CodeType, bool] = {}  # by code object: True for fragile functions, False for sound ones
_due: list[tuple[Any, int, FrameType]] = []  # handlers that were put off, with their arguments


def fragile(function: F) -> F:
    """Mark a function in which no handler of a signal may raise."""
    _put_off[function.__code__] = True
    return function


def sound(function: F) -> F:
    """Mark a function, called by a fragile one, in which handlers may raise."""
    _put_off[function.__code__] = False
    return function


class _Handler:
    """Wraps the handler of a signal, and puts it off in fragile functions; elsewhere it just calls the handler."""

    __slots__ = ("own",)

    def __init__(self, own: Any):
        self.own = own

    def __call__(self, number: int, frame: FrameType | None) -> Any:
        caller = frame
        while caller is not None and caller.f_code not in _put_off:
            caller = caller.f_back
        if frame is None or caller is None or not _put_off[caller.f_code]:
            return self.own(number, frame)
        _due.append((self.own, number, frame))


def raise_held() -> None:
    """Run the handlers that were put off, in the main thread."""
    while _due and threading.get_ident() == threading.main_thread().ident:
        handler, number, frame = _due.pop(0)
        handler(number, frame)


@fragile
def hold_signals() -> list[int]:
    """From now on put off handlers; returns the signals for `release_signals`. Only the main thread has any."""
    held: list[int] = []
    if threading.get_ident() == threading.main_thread().ident:
        for number in _SIGNALS:
            own = _signal.getsignal(number)
            if callable(own) and type(own) is not _Handler:
                _signal.signal(number, _Handler(own))
                held.append(number)
    return held


@fragile
def release_signals(held: list[int]) -> None:
    """Give these signals their handlers back."""
    for number in held:
        handler = _signal.getsignal(number)
        if type(handler) is _Handler:  # a callback may have set another
            _signal.signal(number, handler.own)
