"""Calls that do not wait for XLA: a program that is not compiled yet is evaluated, and compiled by a thread meanwhile.

With the option `compile_in_background` a call of such a program comes here (`run_uncompiled`). What it does follows
from estimates and from the number of calls, never from the time that anything took:

    compiling is estimated shorter than evaluating      the call compiles, and runs compiled
    otherwise                                           the call is evaluated operation by operation
    evaluation so far took a share of compiling         a thread begins to compile; see `Uncompiled.is_worth_compiling`

The evaluation of a loop may turn out to take longer than compiling. If the program has no effects, its evaluation is
then given up, and the call compiles it; a program that has effects and a loop of unknown length is compiled at once.
One thread compiles one program at a time, and first the program whose evaluation has taken longest; the thread ends
when no program is left. A program that cannot be compiled leaves its error to the next call.
Read next: `stepwise.py`, the evaluation and its cost; `compiled.py`, the programs.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Sequence
from typing import Any
from weakref import ref

from didax.core import config
from didax.core.given import give
from didax.core.process import after_fork, lock_for_forks
from didax.passes.physical import physical_jaxpr
from didax.runtime import donation
from didax.runtime.compiled import Program
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS, on_cpu
from didax.runtime.stepwise import Budget, TooLong, cost_of, evaluate

# The share of the time to compile that evaluation may take; beyond it a thread compiles.
_SHARE = 1 / 20
# Calls of a program on small arrays that are evaluated in any case.
_FIRST_CALLS = 2


class Uncompiled:
    """What is known about a program that is not compiled: its cost, its calls, whether a thread is to compile it."""

    __slots__ = ("calls", "cost", "missing", "must_compile", "requested")

    def __init__(self, program: Program):
        self.cost = cost_of(physical_jaxpr(program.jaxpr))
        self.missing = self.cost.of_missing_plans()
        self.calls = 0
        self.requested = self.must_compile = False

    @property
    def waits(self) -> bool:
        """Whether calls compile, and wait for that."""
        cost = self.cost
        first = 0.0 if self.calls else self.missing
        return (
            self.must_compile
            or cost.evaluating + first > cost.compiling
            or (cost.calls_python and cost.unbounded)
        )

    @property
    def has_warned(self) -> bool:
        """Whether a call was evaluated, or begun to be, and warned of donations that are of no use."""
        return self.calls > 0 or self.must_compile

    @property
    def evaluated(self) -> float:
        """Seconds that all calls took, by estimate."""
        return self.calls * self.cost.evaluating + self.missing

    def is_worth_compiling(self) -> bool:
        """Whether it is time for a thread to compile."""
        may_be_last = self.calls <= _FIRST_CALLS and self.cost.largest <= NUMPY_MAX_ELEMENTS
        return not may_be_last and self.evaluated > self.cost.compiling * _SHARE


@give(Program, "run_uncompiled")
def run_uncompiled(program: Program, args: Sequence[Any]) -> list[Any] | None:
    """Results of a program that is not compiled, from all its inputs; None where the call has to compile it."""
    if not on_cpu():  # to compile one operation takes as long as to compile a program there
        return None
    known = program.uncompiled
    if known is None:
        known = program.uncompiled = Uncompiled(program)
    if known.waits:
        return None
    donated = program.donated
    captured, arguments = args[: program.num_captured], args[program.num_captured :]
    if True in donated and not known.calls:
        program.warn_of_unusable_donations()
    donation.check(arguments, donated, captured, program.names)
    budget = float("inf") if known.cost.calls_python else max(known.cost.compiling, known.cost.evaluating)
    try:
        outs = evaluate(program.jaxpr, args, Budget(budget))
    except TooLong:
        known.must_compile = True
        return None
    donation.take(arguments, donated, outs)
    known.calls += 1
    if not known.requested and known.is_worth_compiling():
        _request(program, known)
    return outs


@give(Program, "may_call_python")
def may_call_python(program: Program) -> bool:
    """Whether the program, which is not compiled, has operations that call Python."""
    return cost_of(physical_jaxpr(program.jaxpr)).calls_python


# --- The thread -------------------------------------------------------------------------------------------

_waiting: list[tuple[ref[Program], config.State]] = []  # with the options that each is compiled under
_changed = lock_for_forks(threading.Condition())
_worker: threading.Thread | None = None


def _request(program: Program, known: Uncompiled) -> None:
    with _changed:
        _waiting.append((ref(program), config.state()))
        _start_worker()
    known.requested = True  # last: an interrupt before this line leaves the request to the next call


def _start_worker() -> None:
    """See to it that a thread compiles; the caller holds the lock."""
    global _worker
    if _worker is None or not _worker.is_alive():
        _worker = threading.Thread(target=_compile_waiting, name="didax compiles", daemon=True)
        try:
            _worker.start()
        except RuntimeError:  # the interpreter is shutting down, and starts no threads
            _waiting.clear()


def _compile_waiting() -> None:
    global _worker
    while True:
        with _changed:
            if not _waiting:
                _worker = None
                _changed.notify_all()
                return
            next_one = max(range(len(_waiting)), key=_urgency)
            found, options = _waiting.pop(next_one)
        program = found()
        if program is not None:  # otherwise nobody can call it any more
            _compile(program, options)
        del program


def _urgency(i: int) -> float:
    program = _waiting[i][0]()
    return 0.0 if program is None else program.uncompiled.evaluated


def _compile(program: Program, options: config.State) -> None:
    try:
        with config.pinned(options):
            program.executable()
    except BaseException:  # the next call compiles for itself, and raises what it meets
        program.uncompiled.must_compile = True


def wait() -> None:
    """Wait until the thread has compiled all that it was asked for; an interrupt ends the waiting only."""
    with _changed:
        while _waiting or (_worker is not None and _worker.is_alive()):
            if _waiting:
                _start_worker()
            _changed.wait()


def _stop() -> None:
    """Ask for nothing more: the process ends, and does not wait for the program that is being compiled."""
    _waiting.clear()


def _after_fork() -> None:
    global _worker
    _waiting.clear()
    _worker = None


atexit.register(_stop)
after_fork(_after_fork)
