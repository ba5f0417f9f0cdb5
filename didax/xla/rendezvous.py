"""How the processes of a job find each other, and learn that one of them has ended.

    hub = Hub(host, port, count)                      in process 0
    member = Member(address, index, count, ...)       in every process, process 0 too

Members connect to the hub at the coordinator's address and say who they are. When all have come, each is told the port
of XLA's distributed runtime service, over which XLA does all the rest. The connections stay: one that closes means that
its process has ended, and the hub tells all others. A process that has been silent for `silence` seconds counts as
ended, too.
Messages are lines of JSON. Nothing here knows XLA. Read next: `distributed.py`.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from didax.core.errors import DistributedError, message

_LONGEST_LINE = 1 << 16
_PROTOCOL = 1


class _Line:
    """A connection that carries messages."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self.process: int | None = None  # whose it is, once that is known
        self.heard = time.monotonic()
        self._rest = b""
        self._sending = threading.Lock()

    def send(self, **words: Any) -> None:
        """Send a message. A connection that the other end has closed is noticed by `receive`, not here."""
        with contextlib.suppress(OSError), self._sending:
            self.connection.sendall(json.dumps(words).encode() + b"\n")

    def receive(self) -> list[dict[str, Any]] | None:
        """The messages that have come; None at the end of the connection. ValueError for what is not a message."""
        try:
            data = self.connection.recv(_LONGEST_LINE)
        except TimeoutError:
            return []
        except OSError:
            return None
        if not data:
            return None
        self.heard = time.monotonic()
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            raise ValueError("too long for a message")
        found = [json.loads(line) for line in lines]
        if not all(isinstance(words, dict) for words in found):
            raise ValueError("no message")
        return found

    def close(self) -> None:
        """Hang up; whoever listens there, here or elsewhere, hears the end."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


class Hub:
    """Where the members of a job meet: a thread of process 0.

    `when_complete()` is called when all have come; it returns what they are told.
    """

    def __init__(
        self,
        host: str,
        port: int,
        count: int,
        patience: float,
        silence: float,
        versions: str,
        when_complete: Callable[[], dict[str, Any]],
    ):
        self._count = count
        self._silence = silence
        self._versions = versions
        self._when_complete = when_complete
        self._members: dict[int, _Line] = {}
        self._gone: set[int] = set()
        self._complete = False
        self._until = time.monotonic() + patience
        self._patience = patience
        self._server = _listen(host, port)
        self._server.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._ended = threading.Event()
        threading.Thread(target=self._serve, daemon=True, name="didax-hub").start()

    def wait_for_all(self, timeout: float) -> None:
        """Wait until every member has said that it ends, or has gone."""
        self._ended.wait(timeout)

    def wait_for_news(self, process: int, timeout: float) -> None:
        """Wait until all have been told that a process has ended, which the process itself has announced."""
        until = time.monotonic() + timeout
        while process not in self._gone and time.monotonic() < until:
            time.sleep(0.01)

    def _serve(self) -> None:
        beat = time.monotonic()
        while not self._ended.is_set():
            for key, _ in self._selector.select(min(self._silence / 4, 0.5)):
                if key.fileobj is self._server:
                    self._welcome()
                else:
                    self._hear(key.data)
            if time.monotonic() - beat > self._silence / 4:
                beat = time.monotonic()
                self._tell_all(kind="alive")
            self._look()

    def _welcome(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._server.accept()
            connection.settimeout(5)
            line = _Line(connection)
            self._selector.register(connection, selectors.EVENT_READ, line)

    def _hear(self, line: _Line) -> None:
        try:
            messages = line.receive()
        except ValueError:
            messages = None
        for words in messages or []:
            self._take(line, words)
        if messages is None:
            self._drop(line, "has ended")

    def _drop(self, line: _Line, reason: str) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(line.connection)
        line.close()
        process = line.process
        if process is None or self._members.get(process) is not line:
            return
        if not self._complete:
            del self._members[process]  # it may come again
        elif process not in self._gone:
            self._lose(process, reason)

    def _lose(self, process: int, reason: str, clean: bool = False) -> None:
        self._tell_all(kind="gone", process=process, reason=reason, clean=clean)
        self._gone.add(process)
        if len(self._gone) == self._count:
            self._ended.set()

    def _tell_all(self, **words: Any) -> None:
        for process, line in list(self._members.items()):
            if process not in self._gone:
                line.send(**words)

    def _take(self, line: _Line, words: dict[str, Any]) -> None:
        kind = words.get("kind")
        if kind == "here" and line.process is None and words.get("protocol") == _PROTOCOL:
            self._admit(line, words)
        elif kind == "bye" and line.process is not None and line.process not in self._gone:
            self._lose(line.process, str(words.get("reason")), clean=bool(words.get("clean")))

    def _admit(self, line: _Line, words: dict[str, Any]) -> None:
        process, count, versions = words["process"], words["count"], words["versions"]
        if self._complete:
            late = f"the {self._count} processes of the job are there already; this process {process} is one more"
            line.send(kind="refused", why=late)
        elif count != self._count:
            self._refuse(line, f"process {process} has num_processes={count}, process 0 has {self._count}")
        elif versions != self._versions:
            self._refuse(line, f"process {process} runs {versions}, process 0 runs {self._versions}")
        elif process in self._members:
            self._refuse(line, f"there are two processes with process_id={process}")
        else:
            line.process = process
            self._members[process] = line
            if len(self._members) == self._count:
                self._complete = True
                self._start()

    def _start(self) -> None:
        told = self._when_complete()
        outside = [
            host
            for process, line in self._members.items()
            if process and not (host := line.connection.getsockname()[0]).startswith("127.")
        ]
        for process, line in self._members.items():
            mine = {"host": outside[0]} if process == 0 and outside else {}
            line.send(kind="start", **told, **mine)

    def _refuse(self, line: _Line, why: str) -> None:
        """The job cannot begin: tell the process that has come last, and all that are here."""
        line.send(kind="refused", why=why)
        self._tell_all(kind="refused", why=why)

    def _look(self) -> None:
        """See whether processes are late, or silent."""
        now = time.monotonic()
        if not self._complete:
            if now > self._until:
                missing = [i for i in range(self._count) if i not in self._members]
                names = ", ".join(map(str, missing))
                why = f"after {self._patience:g} s there is no process {names} of {self._count}"
                self._tell_all(kind="refused", why=why)
                self._until = float("inf")
            return
        for process, line in list(self._members.items()):
            if process not in self._gone and now - line.heard > self._silence:
                self._lose(process, f"has been silent for {self._silence:g} s")

    def close(self) -> None:
        """Stop listening."""
        self._ended.set()
        self._server.close()
        for line in self._members.values():
            line.close()


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; DistributedError where the port is taken."""
    family = socket.AF_INET6 if ":" in host or (not host and socket.has_dualstack_ipv6()) else socket.AF_INET
    try:
        return socket.create_server(
            (host, port), family=family, dualstack_ipv6=family == socket.AF_INET6 and not host, backlog=1024
        )
    except OSError as error:
        raise DistributedError(
            message(
                "Process 0 listens at the port of the coordinator's address, which must be free.",
                f"address: {host or '(any)'}:{port}: {error.strerror or error}",
                fix="Choose another port, or end what has this one: an earlier run, or a second process 0.",
            )
        ) from None


class Member:
    """A process of the job, as one end of its connection to the hub.

    `lost(process, reason, clean)` is called, in a thread, for each process that is gone; `clean`: it has said so at the
    end of its program.
    """

    def __init__(
        self,
        address: tuple[str, int],
        index: int,
        count: int,
        patience: float,
        silence: float,
        versions: str,
        lost: Callable[[int, str, bool], None],
    ):
        self._silence = silence
        self._lost = lost
        self._left = False
        until = time.monotonic() + patience
        self._line = _Line(_connect(address, until, patience, index))
        self._line.connection.settimeout(min(silence / 4, 1.0))
        self._line.send(kind="here", process=index, count=count, versions=versions, protocol=_PROTOCOL)
        #: What the hub tells when all have come.
        self.told: dict[str, Any] = self._await_start(address, until, index, count)
        threading.Thread(target=self._listen, daemon=True, name="didax-member").start()

    @property
    def host(self) -> str:
        """The address of this machine, by which it reaches the coordinator."""
        return self.told.get("host") or self._line.connection.getsockname()[0]

    def _await_start(self, address: tuple[str, int], until: float, index: int, count: int) -> dict[str, Any]:
        where = f"coordinator_address: {address[0]}:{address[1]}, this is process {index} of {count}"
        heard = False
        while True:
            try:
                messages = self._line.receive()
            except ValueError:
                messages = None
            for words in messages or []:
                heard = True
                if words.get("kind") == "start":
                    return words
                if words.get("kind") == "refused":
                    self._line.close()
                    fix = "Start as many processes as num_processes says, of one version, each with its own process_id."
                    raise DistributedError(
                        message(
                            "The processes of the job have not all come together.",
                            f"{words.get('why')}",
                            where,
                            fix=fix,
                        )
                    )
            if messages is None:
                self._line.close()
                rule = (
                    "The coordinator has ended before all processes had come."
                    if heard
                    else "What listens at the coordinator's address is not a coordinator."
                )
                fix = (
                    "Look at what process 0 printed."
                    if heard
                    else "Correct the address, which must be that of process 0; or choose another port."
                )
                raise DistributedError(message(rule, where, fix=fix))
            if time.monotonic() > until + 2:  # the hub reports who is missing a little earlier
                self._line.close()
                fix = "See that process 0 runs, and that this is its address."
                raise DistributedError(message("The coordinator does not answer.", where, fix=fix))

    def _listen(self) -> None:
        beat = 0.0
        while not self._left:
            try:
                messages = self._line.receive()
            except ValueError:
                messages = []
            for words in messages or []:
                if words.get("kind") == "gone":
                    self._lost(int(words["process"]), str(words["reason"]), bool(words.get("clean")))
            if self._left:
                return
            now = time.monotonic()
            if messages is None:
                return self._lost(0, "has ended", False)
            if now - self._line.heard > self._silence:
                return self._lost(0, f"has been silent for {self._silence:g} s", False)
            if now - beat > self._silence / 4:
                beat = now
                self._line.send(kind="alive")

    def leave(self, reason: str, clean: bool) -> None:
        """Say that this process ends."""
        self._left = True
        self._line.send(kind="bye", reason=reason, clean=clean)

    def close(self) -> None:
        """Hang up."""
        self._left = True
        self._line.close()


def _connect(address: tuple[str, int], until: float, patience: float, index: int) -> socket.socket:
    """A connection to the coordinator, which may start later; DistributedError where there is none in time."""
    while True:
        try:
            connection = socket.create_connection(
                address, timeout=max(0.1, min(5.0, until - time.monotonic()))
            )
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except OSError as error:
            if time.monotonic() > until:
                raise DistributedError(
                    message(
                        "Every process connects to the coordinator, which is process 0.",
                        f"coordinator_address: {address[0]}:{address[1]}: {error.strerror or error}",
                        f"this is process {index}, which tried for {patience:g} s",
                        fix="See that process 0 runs, that this is its address, and that no firewall is between.",
                    )
                ) from None
            time.sleep(0.05)
