"""`Worker`: a process that checks programs, so that a program ends or stops this process, not the one that asks.

A request names a function of asking.py, such as `seed` or `program`. XLA may end the process (an abort in a kernel, a
stack that overflows), and a program may never return: then the answer is `Died` or `TimedOut`, and the next request
starts a new process. Every process checks a hundred programs, so that compiled programs do not fill the memory. Three
processes of four compile quickly, and one compiles as users' programs are compiled.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.quickly import XLA_FLAGS

LIFETIME = 100  # programs of one process
PATIENCE = 5  # a process that waits for others may take so many times longer than one that computes
CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Found:
    """A finding, with the reason if it is a known difference."""

    kind: str
    where: str
    message: str
    reason: str | None
    program: Any

    def key(self) -> str:
        """What findings are counted by: the kind, and the operations of the program, if these are few."""
        operations = dict.fromkeys(s.operation() for s in (*self.program.statements, *self.program.refused))
        stack = [name for name, _ in self.program.stack]
        return f"{self.kind}: {' '.join([*stack, *operations]) if len(operations) < 4 else self.where}"


@dataclass
class Answer:
    """What a worker says about a program."""

    findings: list[Found] = field(default_factory=list)
    elements: int = 0
    unstable: int = 0
    statements: int = 0
    refused: bool = False
    names: list[str] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Died:
    how: str


@dataclass(frozen=True)
class TimedOut:
    seconds: float


def cpu_seconds(pid: int) -> float:
    """The seconds for which a process has computed."""
    times = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def prepare(quickly: bool, x64: bool) -> None:
    """Settings that both libraries read when they start, so neither of them is imported yet."""
    assert "didax" not in sys.modules and "jax" not in sys.modules
    os.environ["JAX_ENABLE_X64"] = os.environ["DIDAX_ENABLE_X64"] = str(int(x64))
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["DIDAX_ENABLE_COMPILATION_CACHE"] = "0"
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    os.environ["JAX_TRACEBACK_FILTERING"] = "off"  # jax refuses often
    os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"
    os.environ["NPROC"] = "2"
    os.environ["JAX_NUM_CPU_DEVICES"] = os.environ["DIDAX_NUM_CPU_DEVICES"] = "2"  # for shard_map
    os.environ["XLA_FLAGS"] = XLA_FLAGS if quickly else ""


def serve(connection: Any, quickly: bool, x64: bool) -> None:
    """The worker's loop: requests in, answers out."""
    import gc
    import warnings

    prepare(quickly, x64)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command line ends its workers itself
    warnings.simplefilter("ignore")
    from tests.fuzz import asking

    gc.collect()
    gc.freeze()  # both libraries, which are never garbage
    gc.set_threshold(100_000, 20, 20)

    while True:
        try:
            kind, what = connection.recv()
        except EOFError:
            return
        connection.send(getattr(asking, kind)(what))


class Worker:
    def __init__(self, timeout: float = 180.0, x64: bool = False) -> None:
        self.timeout, self.x64 = timeout, x64
        self.process: Any = None
        self.asked = self.started = 0

    def ask(self, kind: str, what: Any) -> Any:
        """What the function `kind` of asking.py returns for `what`, or `Died` or `TimedOut`."""
        if self.process is None or self.asked >= LIFETIME:
            self.start()
        self.asked += 1
        try:
            self.connection.send((kind, what))
            if self.answers():
                return self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join(10)
            how = (
                signal.Signals(-self.process.exitcode).name
                if (self.process.exitcode or 0) < 0
                else str(self.process.exitcode)
            )
            self.stop()
            return Died(how)
        self.stop()
        return TimedOut(self.timeout)

    def answers(self) -> bool:
        """Whether an answer comes before the process has computed for `timeout` seconds, on a busy machine, too."""
        start, computed = time.monotonic(), cpu_seconds(self.process.pid)
        while not self.connection.poll(min(self.timeout, 5)):
            waited, busy = time.monotonic() - start, cpu_seconds(self.process.pid) - computed
            if busy > self.timeout or waited > PATIENCE * self.timeout:
                return False
        return True

    def start(self) -> None:
        self.stop()
        self.connection, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(
            target=serve, args=(theirs, self.started % 4 != 3, self.x64), daemon=True
        )
        self.process.start()
        theirs.close()
        self.asked, self.started = 0, self.started + 1

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
            self.process = None
