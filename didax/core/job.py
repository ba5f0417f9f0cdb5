"""A job: the processes that compute together, and what this one knows of the others.

`current` is the job of this process, or None. When another process has ended, or is not heard of any more, the job is
told by `lose`, and from then on whatever needs the others raises `DistributedError`. To wait for the others is to call
`wait_for`: the work that waits, which is inside of XLA, runs in a thread, so that the caller can be told.
Nothing here knows XLA.
Read next: `didax/xla/rendezvous.py` (who finds out), `didax/xla/distributed.py` (who starts it).
"""

from __future__ import annotations

import _thread
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from didax.core.errors import DistributedError, message
from didax.core.process import after_fork

if TYPE_CHECKING:
    from queue import SimpleQueue

T = TypeVar("T")

_LOOK = 0.1  # seconds between two looks at the others
# Seconds that XLA has to report a lost process itself, and in which news of the other processes may follow its report.
_GRACE = 1.0


class Job:
    """The processes that compute together: this one is number `index` of `count`."""

    def __init__(self, index: int, count: int):
        self.index = index
        self.count = count
        self.patience = 300.0  # seconds to wait for a process that is there, and does something else
        self._lost: dict[int, str] = {}  # processes that are gone, with the reason, the first one first
        self._lost_at = 0.0
        self._unclean = False
        self._errors: tuple[type[BaseException], ...] = ()  # what XLA raises
        self._orders: SimpleQueue[Callable[[], None]] | None = None
        self._last: Any = None  # a result of the program that started last

    def lose(self, process: int, reason: str, clean: bool = False) -> None:
        """From now on process number `process` is gone; `clean`: it has done all of its work."""
        if not self._lost:
            self._lost_at = time.monotonic()
        self._unclean = self._unclean or not clean
        self._lost.setdefault(process, reason)

    @property
    def lost(self) -> dict[int, str]:
        """The processes that are gone, with the reason."""
        return dict(self._lost)

    @property
    def failed(self) -> bool:
        """Whether a process is gone that had not come to its end."""
        return self._unclean

    def check(self, processes: Sequence[int] | None = None) -> None:
        """DistributedError where one of these processes (by default of all) is gone."""
        for process, reason in list(self._lost.items()):
            if processes is None or process in processes:
                raise self._error(process, reason)

    def _check_before(self, processes: Sequence[int] | None) -> None:
        """The check before work begins. A process that ended cleanly may have done its part of the work already."""
        if self._unclean:
            self.check(processes)

    def _error(self, process: int, reason: str, *facts: str) -> DistributedError:
        return DistributedError(
            message(
                "The processes of a job compute together: when one ends, the others cannot go on.",
                f"process {process} of {self.count} {reason}",
                f"this is process {self.index}",
                *facts,
                fix="Look at what that process printed last; start the job again, from a checkpoint if there is one.",
            )
        )

    def wait_for(
        self,
        work: Callable[[], T],
        processes: Sequence[int] | None = None,
        late: Callable[[], str] | None = None,
    ) -> T:
        """The result of `work()`, which needs other processes: by default all of them.

        DistributedError where one of them is gone, or where XLA says so; and, if `late` says what is waited for, where
        the work takes longer than the job's patience. The work then goes on unseen.
        """
        self._check_before(processes)
        return self._result(work, _start_thread, lambda: self._is_over(_GRACE), processes, late)

    def run(self, work: Callable[[], list[Any]], processes: Sequence[int], in_turn: bool) -> list[Any]:
        """The results of starting a program on devices of these processes: buffers, which may not be ready.

        All programs start in one thread, in the order of the calls. With `in_turn`, each starts when the one before has
        ended. Gloo needs that: where processes run two programs at once, each may wait for the other one's exchange.
        """
        self._check_before(processes)
        if self._orders is None:
            from queue import SimpleQueue  # not needed where one process computes

            orders: SimpleQueue[Callable[[], None]] = SimpleQueue()
            self._orders = orders
            _start_thread(lambda: _serve(orders))

        def start() -> list[Any]:
            if in_turn and _is_running(self._last):
                with contextlib.suppress(*self._errors):  # who reads that result is told
                    self._last.block_until_ready()
            outs = work()
            self._last = min(outs, key=lambda out: out.aval.size, default=None)
            return outs

        return self._result(start, self._orders.put, self._is_stuck, processes)

    def wait_until_ready(self, buffer: Any) -> None:
        """Wait for the contents of a buffer; DistributedError where the other processes that it needs are gone."""
        try:
            if buffer.is_ready():
                buffer.block_until_ready()  # which raises what went wrong
                return
        except Exception as error:
            raise self.explained(error) from None

        def is_lost() -> bool:  # a program that needs no other process ends, whatever happens to them
            return self._is_stuck() and _is_running(self._last)

        self._result(buffer.block_until_ready, _start_thread, is_lost)

    def _is_over(self, grace: float) -> bool:
        return bool(self._lost) and time.monotonic() - self._lost_at > grace

    def _is_stuck(self) -> bool:
        """Whether a running program will never end. If the others ended cleanly, its part here may just be slow."""
        return self._is_over(_GRACE if self._unclean else self.patience)

    def _result(
        self,
        work: Callable[[], T],
        start: Callable[[Callable[[], None]], Any],
        is_lost: Callable[[], bool],
        processes: Sequence[int] | None = None,
        late: Callable[[], str] | None = None,
    ) -> T:
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

        begun = time.monotonic()
        start(run)
        while not running.acquire(timeout=_LOOK):
            if is_lost():
                self.check(processes)
            if late is not None and time.monotonic() - begun > self.patience:
                raise DistributedError(late())
        if errors:
            try:
                raise self.explained(errors[0], processes)
            finally:
                errors.clear()  # the traceback refers to this frame, which would refer to the error
        return results[0]

    def explained(self, error: BaseException, processes: Sequence[int] | None = None) -> BaseException:
        """The error for what XLA raised where processes compute together: who is gone, as soon as that is known."""
        if not isinstance(error, self._errors) or not any(word in str(error) for word in _CONNECTION):
            return error
        until = time.monotonic() + 2 * _GRACE
        while not self._lost and time.monotonic() < until:
            time.sleep(0.01)
        for process, reason in list(self._lost.items()):
            if processes is None or process in processes:
                return self._error(process, reason)
        return DistributedError(
            message(
                "The processes of a job compute together: their connections must last.",
                f"this is process {self.index} of {self.count}; XLA says: {str(error).splitlines()[0]}",
                fix="See that no firewall stands between the machines; start the job again.",
            )
        )


# Words of Gloo, NCCL and gRPC for a process that cannot be reached.
_CONNECTION = ("Gloo", "NCCL", "nccl", "onnect", "UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")


def _start_thread(run: Callable[[], None]) -> None:
    _thread.start_new_thread(run, ())


def _is_running(buffer: Any) -> bool:
    return buffer is not None and not buffer.is_deleted() and not buffer.is_ready()


def _serve(orders: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        orders.get()()


current: Any = None  # a Job, or None


def set_current(job: Job | None) -> None:
    """Make this the job of the process; None: it has none."""
    global current
    current = job

    if job is not None:
        global _place
        _place = job.index, job.count


def in_force() -> Any:
    """The job of the process; DistributedError where it has none, or has left it."""
    if current is None:
        raise DistributedError(
            message(
                "An array or program of several processes needs their job, which this process has left.",
                f"this was process {own_index()} of {own_count()}",
                fix="Call didax.distributed.shutdown() last.",
            )
        )
    return current


_place = 0, 1


def own_index() -> int:
    """The number of this process among those that have started XLA together."""
    return _place[0]


def own_count() -> int:
    """The number of processes that have started XLA together."""
    return _place[1]


after_fork(lambda: set_current(None))  # a child is none of the job's processes
