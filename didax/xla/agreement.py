"""What the processes of a job tell each other, through the key-value store and barriers of XLA's distributed runtime.

    agree(job, text, processes)            all stage the same program, or each is told the first difference
    barrier(job, "saved", processes)       all have come here

Read next: `didax/core/job.py` (how to wait), `distributed.py` (how a job begins).
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from didax.core.errors import DistributedError, message
from didax.core.job import Job
from didax.xla.client import xe

NEVER = 10**6  # seconds
_SLICE = 500  # milliseconds that one wait inside XLA lasts at most


class StoreJob(Job):
    """A job with a client of XLA's distributed runtime, which has a key-value store and barriers."""

    def __init__(self, index: int, count: int):
        super().__init__(index, count)
        self._errors = (xe.JaxRuntimeError,)
        self.client: Any = None
        self.agreed: set[bytes] = set()  # hashes of what groups of processes have agreed upon
        self._meetings: dict[Any, int] = {}

    def meeting(self, purpose: str, processes: Sequence[int]) -> str:
        """A name for the next meeting of these processes for a purpose: the same in each, and never used again."""
        key = purpose, tuple(processes)
        self._meetings[key] = self._meetings.get(key, -1) + 1
        group = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return f"didax/{group}/{self._meetings[key]}"

    def tell(self, key: str, value: bytes) -> None:
        """Write into the key-value store."""
        self.wait_for(lambda: self.client.key_value_set_bytes(key, value))

    def ask(self, key: str, processes: Sequence[int], late: Callable[[], str] | None = None) -> bytes:
        """What one of these processes has written, or will write."""
        given_up = False

        def get() -> bytes:
            while True:
                try:
                    return self.client.blocking_key_value_get_bytes(key, _SLICE)
                except xe.JaxRuntimeError as error:
                    if "DEADLINE_EXCEEDED" not in str(error) or given_up:
                        raise

        try:
            return self.wait_for(get, processes, late)
        finally:
            given_up = True

    def told_under(self, prefix: str) -> dict[int, bytes]:
        """What has been written under names that are a prefix, a slash and a number."""
        found = self.wait_for(lambda: self.client.key_value_dir_get_bytes(prefix))
        return {int(key.rpartition("/")[2]): value for key, value in found}

    def forget(self, key: str) -> None:
        """Remove what was written under a name, and under all that begin with it and a slash."""
        self.wait_for(lambda: self.client.key_value_delete(key))


def processes_of(devices: Sequence[Any]) -> tuple[int, ...]:
    """The processes that devices belong to."""
    return tuple(sorted({device.process_index for device in devices}))


def barrier(
    job: StoreJob, purpose: str, processes: Sequence[int], late: Callable[[], str] | None = None
) -> None:
    """Wait until each of these processes has come here as often as this one."""
    name = job.meeting(f"barrier {purpose}", processes)
    job.wait_for(lambda: job.client.wait_at_barrier(name, NEVER * 1000, list(processes)), processes, late)


def others_differ(
    job: StoreJob, purpose: str, value: bytes, processes: Sequence[int], what: str
) -> dict[int, bytes]:
    """The value of the first of these processes, and of the next one that has another; nothing where all have the same.

    All learn it, at the same time. `what` says in an error what this process waits for.
    """
    name, leader = job.meeting(purpose, processes), processes[0]
    digest = hashlib.sha256(value).digest()

    def late() -> str:
        here = {int(key.rpartition("/")[2]) for key, _ in job.client.key_value_dir_get_bytes(f"{name}/here")}
        return message(
            "The processes that compute together come to the same programs and transfers.",
            f"process {job.index} waits at {what}",
            *[f"process {p} has not come there for {job.patience:g} s" for p in processes if p not in here],
            fix="See what that process does; or allow more time: initialize(program_timeout_seconds=).",
        )

    job.tell(f"{name}/here/{job.index}", digest)
    if job.index != leader and job.ask(f"{name}/here/{leader}", processes, late) != digest:
        job.tell(f"{name}/other/{job.index}", b"")
    barrier(job, purpose, processes, late)
    others = job.told_under(f"{name}/other")
    if others:
        shown = leader, min(others)
        if job.index in shown:
            job.tell(f"{name}/value/{job.index}", zlib.compress(value))
        values = {p: zlib.decompress(job.ask(f"{name}/value/{p}", processes)) for p in shown}
        barrier(job, f"{purpose} told", processes)  # nobody ends before all know
        return values
    if job.index == leader:
        job.forget(f"{name}/here")
    return {}


def told_by_all(job: StoreJob, purpose: str, words: str) -> list[str]:
    """What each process of the job has to say, told to all of them. No process goes on before all have heard it."""
    everyone = range(job.count)
    name = job.meeting(purpose, everyone)
    job.tell(f"{name}/{job.index}", words.encode())
    barrier(job, purpose, everyone)
    told = job.told_under(name)
    barrier(job, f"{purpose} heard", everyone)
    if job.index == 0:
        job.forget(name)
    return [told[process].decode() for process in everyone]


def agree(job: StoreJob, text: str, processes: Sequence[int]) -> None:
    """Return when each of these processes has come to this program; DistributedError in each if one has another.

    Programs that they have agreed upon once are not compared again.
    """
    key = hashlib.sha256(f"{processes}\0{text}".encode()).digest()
    if key in job.agreed:
        return
    what = f"the program {program_name(text)}"
    texts = others_differ(job, "program", text.encode(), processes, what)
    if texts:
        raise DistributedError(programs_differ({p: value.decode() for p, value in texts.items()}))
    job.agreed.add(key)


def programs_differ(texts: dict[int, str]) -> str:
    """The message for the programs of two processes: where they differ first."""
    lines = [text.splitlines() for text in texts.values()]
    shortest = min(map(len, lines))
    at = next((i for i in range(shortest) if lines[0][i] != lines[1][i]), shortest)
    shown = _around_difference(*[each[at].strip() if at < len(each) else "(it ends)" for each in lines])
    return message(
        "Processes that compute together run the same programs, in the same order.",
        *[
            f"process {process}, {program_name(text)}, line {at + 1}: {line}"
            for (process, text), line in zip(texts.items(), shown, strict=True)
        ],
        fix="Let no shape, no constant and no branch depend on the process, its random seed or the order of a set.",
    )


def program_name(text: str) -> str:
    """The name of a program, from its text."""
    found = re.search(r"^module @(\S+)", text, re.MULTILINE)
    return found[1].removeprefix("jit_") if found else "a program"


def _around_difference(a: str, b: str, *, width: int = 120) -> list[str]:
    """Both lines, cut to what surrounds the first character in which they differ."""
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    begin = max(0, at - width // 2)
    return [
        ("..." if begin else "") + line[begin : begin + width] + ("..." if len(line) > begin + width else "")
        for line in (a, b)
    ]
