"""Start the processes of a job on this machine:

    python -m didax.launch -n 4 SCRIPT --its-own arguments
    python -m didax.launch -n 2 -m package.module

Each process finds its place in the environment, where `didax.distributed.initialize()` looks for it; where there are
GPUs each takes the one of its number. Their output appears line by line, with the number of the process before it.
Signals (Ctrl-C, SIGTERM, ...) are passed on. When one process ends badly the others are ended too, first gently, and
the launcher's exit status is that of the process.
Read next: `didax/distributed.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, NoReturn

from didax.core.modules import on_access as _on_access

if not TYPE_CHECKING:
    __getattr__, __dir__ = _on_access(__name__)

_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


class _Launcher:
    """Processes that run together: `start` begins them, `wait` ends them together."""

    def __init__(self, grace: float):
        self._grace = grace
        self._write = threading.Lock()
        self._ending: float | None = None  # when the others are to be killed
        self.processes: list[subprocess.Popen[bytes]] = []
        self._readers: list[threading.Thread] = []
        self._early: list[int] | None = []  # signals that came before all processes run

    def start(self, command: Sequence[str], count: int, environment: dict[str, str]) -> None:
        """Start `count` processes of a command, and pass on the signals that came until then."""
        for number in range(count):
            mine = environment | {"DIDAX_PROCESS_ID": str(number), "DIDAX_LOCAL_PROCESS_ID": str(number)}
            process = subprocess.Popen(
                command,
                env=mine,
                stdin=None if number == 0 else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # the terminal's Ctrl-C reaches the launcher, who passes it on
            )
            self.processes.append(process)
            self._copy(number, process.stdout, sys.stdout.buffer)
            self._copy(number, process.stderr, sys.stderr.buffer)
        early, self._early = self._early or [], None
        for number in early:
            self.pass_on(number)

    def _copy(self, number: int, source: IO[bytes] | None, target: IO[bytes]) -> None:
        assert source is not None
        width = len(str(len(self.processes)))

        def run() -> None:
            with source:
                for line in source:
                    with self._write, contextlib.suppress(BrokenPipeError):
                        target.write(f"[{number:>{width}}] ".encode() + line.rstrip(b"\n") + b"\n")
                        target.flush()

        reader = threading.Thread(target=run, daemon=True)
        reader.start()
        self._readers.append(reader)

    def pass_on(self, number: int, frame: Any = None) -> None:
        """Send a signal to each process that runs."""
        if self._early is not None:
            self._early.append(number)
            return
        for process in self.processes:
            self._send(process, number)

    def _send(self, process: subprocess.Popen[bytes], number: int) -> None:
        """Send a signal to a process and to those that it has started."""
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)

    def wait(self) -> int:
        """Wait for all; when one ends badly, end the others. Returns the status of the first one that ended badly."""
        status = 0
        running = dict(enumerate(self.processes))
        while running:
            for number, process in list(running.items()):
                if (ended := process.poll()) is not None:
                    del running[number]
                    if ended and not status:
                        status = ended
                        self._end(number, ended, list(running))
            if self._ending is not None and time.monotonic() > self._ending:
                self.pass_on(signal.SIGKILL)
            time.sleep(0.02)
        for reader in self._readers:
            reader.join(1)  # a process that they have started may still hold the other end
        return status

    def _end(self, number: int, status: int, others: Sequence[int]) -> None:
        self._say(
            f"process {number} {_shown(status)}" + (f"; ending processes {_listed(others)}" if others else "")
        )
        self._ending = time.monotonic() + self._grace
        # The others have time to say why they fail, before they are asked to end.
        threading.Timer(min(2.0, self._grace), self.pass_on, [signal.SIGTERM]).start()

    def _say(self, text: str) -> None:
        with self._write:
            print(f"didax.launch: {text}", file=sys.stderr, flush=True)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _shown(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m didax.launch",
        description="Start a script in several processes that compute together.",
    )
    parser.add_argument("-n", "--processes", type=int, default=2, help="how many processes (2)")
    parser.add_argument("--devices", type=int, help="how many devices the CPU has in each process")
    parser.add_argument("--address", help="host:port where they meet, instead of a free port of this machine")
    parser.add_argument(
        "--grace",
        type=float,
        default=10,
        help="seconds from the end of one that ended badly to the kill of the others",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script", help="what each process runs")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    found = parser.parse_args(given)
    if found.processes < 1:
        parser.error(f"-n is a number of processes, 1 or more; got: {found.processes}")
    if not found.module and not os.path.exists(found.script):
        parser.error(f"there is no file {found.script!r}")
    return found


def _free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def main(given: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status.

    >>> from didax.launch import main
    >>> main(["-n", "2", "-m", "my_package.train", "--steps", "100"])  # doctest: +SKIP
    0
    """
    found = _arguments(given)
    command = [sys.executable, *(["-m"] if found.module else []), found.script, *found.arguments]
    environment = os.environ | {
        "PYTHONUNBUFFERED": "1",
        "DIDAX_COORDINATOR_ADDRESS": found.address or _free_address(),
        "DIDAX_NUM_PROCESSES": str(found.processes),
    }
    if found.devices is not None:
        environment["DIDAX_NUM_CPU_DEVICES"] = str(found.devices)
    launcher = _Launcher(found.grace)
    # Before the first process starts, which would outlive a launcher that a signal ends.
    for name in _PASSED_ON:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), launcher.pass_on)
    launcher.start(command, found.processes, environment)
    return launcher.wait()


def _end_like(status: int) -> NoReturn:
    """End with this status; a process that a signal ended has a negative one, and ends this process too."""
    if status < 0 and -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    _end_like(main())
