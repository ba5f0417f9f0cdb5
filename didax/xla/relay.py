"""The way from XLA's client of the distributed runtime to its service: a relay that never hangs up on the client.

jaxlib's client ends its whole process, by an abort, when it loses its connection to the service, which runs in process
0. Between the two stands this relay, in the client's own process: when the service is gone, the client's connection is
still there, though nobody answers. That the service is gone is noticed at the rendezvous (`rendezvous.py`) instead, and
raised as an exception.
"""

from __future__ import annotations

import contextlib
import socket
import threading

_CHUNK = 1 << 16


class Relay:
    """Listens on this machine, at `port`, and passes on what it hears to an address."""

    def __init__(self, host: str, port: int):
        self._to = host, port
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True, name="didax-relay").start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
                far = socket.create_connection(self._to, timeout=10)
            except OSError:
                if self._server.fileno() < 0:
                    return  # closed
                continue
            for end in (near, far):
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open += [near, far]
            threading.Thread(target=self._pass_on, args=(near, far), daemon=True, name="didax-relay").start()
            threading.Thread(target=self._pass_on, args=(far, near), daemon=True, name="didax-relay").start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        """Copy until one end is gone, and then do nothing: the other end stays open."""
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                target.sendall(data)

    def close(self) -> None:
        """Hang up, when the client is gone."""
        for end in [self._server, *self._open]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads there
            end.close()
