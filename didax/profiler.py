"""Profiles of what runs, on the host and on devices: `jax.profiler`, by XLA's profiler.

    with didax.profiler.trace("/tmp/profile"):
        step(params).block_until_ready()

writes a directory that TensorBoard, xprof and Perfetto show. The operations of compiled programs carry the names of
`named_scope` and the lines of the program. `TraceAnnotation` marks a stretch of the host's time. `didax.profile` tells
where the time of a function goes, by line.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from didax.api.profile_analysis import places_in
from didax.api.profile_report import Profile
from didax.core.errors import api_boundary, message
from didax.core.modules import on_access
from didax.xla import profiling
from didax.xla.profiling import (
    ProfileData,
    ProfileEvent,
    ProfileOptions,
    ProfilePlane,
    TraceMe,
    register_subprocess,
)

__all__ = [
    "Profile",
    "ProfileData",
    "ProfileEvent",
    "ProfileOptions",
    "ProfilePlane",
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate_function",
    "device_memory_profile",
    "register_subprocess",
    "save_device_memory_profile",
    "start_server",
    "start_trace",
    "stop_server",
    "stop_trace",
    "trace",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

F = TypeVar("F", bound=Callable[..., Any])

_lock = threading.Lock()
_running: tuple[Any, str, bool] | None = None  # the session, its directory, whether Perfetto's file is wanted
_server: Any = None


@api_boundary
def start_trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> None:
    """Profile everything from now on, until `stop_trace`, which writes to the directory.

    Args:
      log_dir: the directory; each profile is a directory of its own in `plugins/profile` there.
      create_perfetto_link: refused: Didax opens no port for a browser.
      create_perfetto_trace: also write `perfetto_trace.json.gz`, for ui.perfetto.dev, in which instructions have
        the lines and the named scopes that they come from.
      profiler_options: a `ProfileOptions`: what to watch.

    Raises RuntimeError while another profile runs.

    >>> start_trace("/tmp/profile")  # doctest: +SKIP
    >>> step(params).block_until_ready()  # doctest: +SKIP
    >>> stop_trace()  # doctest: +SKIP
    """
    global _running
    if create_perfetto_link:
        rule = "Didax serves no files to a browser, so there is no link to a profile."
        fix = "Pass create_perfetto_trace=True, and open the file at ui.perfetto.dev."
        raise NotImplementedError(message(rule, "create_perfetto_link: True", fix=fix))
    with _lock:
        if _running is not None:
            rule = "Profile has already been started. Only one profile may be run at a time."
            raise RuntimeError(message(rule, f"it writes to: {_running[1]}", fix="Call stop_trace first."))
        _running = profiling.session(profiler_options), os.fspath(log_dir), create_perfetto_trace


@api_boundary
def stop_trace() -> None:
    """End the profile that `start_trace` began, and write it; RuntimeError if there is none.

    >>> stop_trace()
    Traceback (most recent call last):
    RuntimeError: No profile started, so there is none to stop.
    Call start_trace before, or use `with trace(log_dir)`.
    """
    global _running
    with _lock:
        if _running is None:
            rule = "No profile started, so there is none to stop."
            raise RuntimeError(message(rule, fix="Call start_trace before, or use `with trace(log_dir)`."))
        (session, folder, for_perfetto), _running = _running, None
        session.stop_and_export(folder)
        profiling.clear_metadata()
    if for_perfetto:
        _write_for_perfetto(Path(folder))


def _write_for_perfetto(folder: Path) -> None:
    """Write the events of the newest profile once more, with the lines and named scopes of instructions."""
    newest = max((folder / "plugins" / "profile").iterdir(), key=lambda path: path.stat().st_mtime)
    places: dict[Any, Any] = {}
    for path in newest.glob("*.xplane.pb"):
        places |= places_in(profiling.Recording(path.read_bytes()))
    for path in newest.glob("*.trace.json.gz"):
        events = json.loads(gzip.decompress(path.read_bytes()))
        events.pop("metadata", None)  # which Perfetto does not read
        for event in events["traceEvents"]:
            found = event.get("args", {})
            place = places.get((found.get("hlo_module"), found.get("hlo_op")))
            if place is not None and place.frames:
                lines = [f"{frame.file}:{frame.line}" for frame in place.frames]
                event["args"] = {**found, "operation": place.name, "lines": lines, "scope": place.scope}
        (newest / "perfetto_trace.json.gz").write_bytes(gzip.compress(json.dumps(events).encode()))


@contextmanager
def trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> Iterator[None]:
    """Profile a block, with the arguments of `start_trace`.

    >>> import os, tempfile, didax.numpy as dnp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with trace(folder):
    ...         _ = (dnp.arange(3) + 1).block_until_ready()
    ...     os.listdir(folder)
    ['plugins']
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


class TraceAnnotation(TraceMe):  # type: ignore[misc]
    """Context manager that marks a stretch of time in the profile: `with TraceAnnotation("load", step=3)`.

    >>> import didax.numpy as dnp
    >>> with TraceAnnotation("load", step=3):  # outside of a profile it does nothing
    ...     dnp.arange(2)
    Array([0, 1], dtype=int32)
    """


class StepTraceAnnotation(TraceAnnotation):
    """As `TraceAnnotation`, for a step that profilers list: `with StepTraceAnnotation("train", step_num=i)`.

    >>> import didax.numpy as dnp
    >>> for i in range(2):
    ...     with StepTraceAnnotation("train", step_num=i):
    ...         x = dnp.arange(2) + i
    >>> x
    Array([1, 2], dtype=int32)
    """

    def __init__(self, name: str, **details: Any):
        super().__init__(name, _r=1, **details)


@api_boundary
def annotate_function(func: F, name: str | None = None, **details: Any) -> F:
    """The function, each call of which is marked in the profile, by its name or the given one.

    >>> double = annotate_function(lambda x: 2 * x, name="double")
    >>> double(3)
    6
    """
    label: str = name or getattr(func, "__qualname__", None) or type(func).__name__

    @functools.wraps(func)
    def marked(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(label, **details):
            return func(*args, **kwargs)

    return marked  # type: ignore[return-value]


@api_boundary
def start_server(port: int, requires_backend: bool = True) -> Any:
    """Start the server that TensorBoard connects to, to take profiles; ValueError if one runs.

    >>> server = start_server(9999)  # doctest: +SKIP
    """
    global _server
    if _server is not None:
        rule = "Only one profiler server can be active at a time."
        raise ValueError(message(rule, f"port asked for: {port}", fix="Call stop_server first."))
    _server = profiling.start_server(port, requires_backend)
    return _server


@api_boundary
def stop_server() -> None:
    """Stop the server; ValueError if there is none.

    >>> stop_server()
    Traceback (most recent call last):
    ValueError: No active profiler server.
    Call start_server before.
    """
    global _server
    if _server is None:
        raise ValueError(message("No active profiler server.", fix="Call start_server before."))
    _server = None  # it runs as long as somebody holds it


@api_boundary
def device_memory_profile(backend: str | None = None) -> bytes:
    """What lies in the memory of the devices, as a compressed file of the tool pprof.

    RuntimeError where `backend` is not that of the process.

    >>> import gzip
    >>> len(gzip.decompress(device_memory_profile())) > 0
    True
    """
    found = profiling.backend().platform
    if backend not in (None, found):
        rule = "A process computes on one backend."
        facts = f"backend: {backend!r}, this process's: {found!r}"
        raise RuntimeError(message(rule, facts, fix="Leave it out, or set DIDAX_PLATFORMS."))
    return gzip.compress(profiling.heap_profile())


@api_boundary
def save_device_memory_profile(filename: os.PathLike[str] | str, backend: str | None = None) -> None:
    """Write `device_memory_profile()` to a file.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_device_memory_profile(f"{folder}/memory.prof")
    ...     os.listdir(folder)
    ['memory.prof']
    """
    Path(filename).write_bytes(device_memory_profile(backend))
