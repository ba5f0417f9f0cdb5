"""The compilation cache on disk: a bounded directory of compiled programs, by a hash of what they compute.

Entries are written whole or not at all, and carry a hash of their content: a bad one is a miss. Several processes may
share the directory. Read next: `compile.py`, which looks here before it asks XLA.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import warnings
from pathlib import Path

from didax.core import config
from didax.core.errors import message


class DiskStore:
    """A directory of serialized executables, bounded in bytes; the least recently used go first."""

    def __init__(self, folder: Path, max_bytes: int):
        self.folder = folder
        self.max_bytes = max_bytes
        self._room = 0  # bytes that may be written before the entries are counted again
        folder.mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> bytes | None:
        """The entry, or None; reading marks it as used."""
        path = self.folder / name
        try:
            content = path.read_bytes()
        except OSError:
            return None
        digest, body = content[:32], content[32:]
        if _digest(name, body) != digest:
            return None
        with contextlib.suppress(OSError):  # a directory shared by users who may only read it
            os.utime(path)
        return body

    def write(self, name: str, body: bytes) -> None:
        """Add an entry whole or not at all, then drop the oldest beyond the bound."""
        import tempfile  # with ten modules, which a process that finds its programs does not load

        handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(_digest(name, body) + body)
            os.replace(temporary, self.folder / name)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            return
        self._room -= len(body) + 32
        if self._room < 0:
            self._trim()

    def _trim(self) -> None:
        """Drop the oldest entries beyond the bound. It asks for the size of each, so it is not done at each write."""
        entries: list[tuple[float, int, str]] = []
        with os.scandir(self.folder) as scan:
            for entry in scan:
                with contextlib.suppress(OSError):  # another process may have removed it
                    info = entry.stat()
                    entries.append((info.st_mtime, info.st_size, entry.path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.max_bytes:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size
        self._room = (self.max_bytes - total) // 8  # other processes write too


def _digest(name: str, body: bytes) -> bytes:
    """The hash that an entry begins with: of its content and its name, which is the hash of the program's text."""
    return hashlib.sha256(name.encode() + b"\0" + body).digest()


def store_in_force() -> DiskStore | None:
    """The store that the options in force ask for; None for none."""
    state = config.state()
    if not state.enable_compilation_cache:
        return None
    limit = state.compilation_cache_max_size
    return _open_store(cache_folder(), sys.maxsize if limit < 0 else limit)


def cache_folder() -> str:
    """The directory of compiled programs, by the options in force."""
    return config.state().compilation_cache_dir or _default_folder()


def _default_folder() -> str:
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(root, "didax")


@functools.lru_cache(maxsize=8)
def _open_store(folder: str, max_bytes: int) -> DiskStore | None:
    try:
        store = DiskStore(Path(folder), max_bytes)
        problem = "" if os.access(folder, os.W_OK) else "no file can be written there"
    except OSError as error:
        store, problem = None, str(error)
    # A missing or read-only home directory is not a mistake to warn of.
    if problem and folder != _default_folder():
        warnings.warn(
            message(
                "Compiled programs cannot be kept in the directory for them.",
                f"compilation_cache_dir (DIDAX_COMPILATION_CACHE_DIR): {folder!r}: {problem}",
                fix="Choose another directory, or set DIDAX_ENABLE_COMPILATION_CACHE=0.",
            ),
            stacklevel=2,
        )
    return store
