"""XLA's profiler, as jaxlib gives it, and what a profile of it holds (`Recording`).

Read next: `didax/profiler.py`, what users of JAX's names call; `didax/api/profile.py`, times by line.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

from didax.core.errors import message
from didax.core.process import import_to_the_end
from didax.version import __version__, installed_jaxlib
from didax.xla.client import backend
from didax.xla.hlo import text_of_serialized

_profiler = import_to_the_end("jaxlib._profiler")
_data = import_to_the_end("jaxlib._profile_data")

ProfileData, ProfileEvent, ProfilePlane = _data.ProfileData, _data.ProfileEvent, _data.ProfilePlane
ProfileOptions, TraceMe = _profiler.ProfileOptions, _profiler.TraceMe
register_subprocess = _profiler.register_subprocess
clear_metadata, set_metadata = _profiler.clear_metadata, _profiler.set_metadata


def session(options: Any) -> Any:
    """A profile that runs from now on, on a client that has been started, with the versions written into it."""
    started = backend()
    clear_metadata()
    set_metadata("didax_version", __version__)
    set_metadata("jaxlib_version", installed_jaxlib())
    set_metadata(f"{started.platform}_version", started.client.platform_version)
    return _profiler.ProfilerSession(ProfileOptions() if options is None else options)


def start_server(port: int, requires_backend: bool) -> Any:
    """A server that profilers connect to; it runs until nobody holds it."""
    if requires_backend:
        backend()
    return _profiler.start_server(port)


def heap_profile() -> bytes:
    """What lies in the memory of the devices, in pprof's format."""
    found: bytes = backend().client.heap_profile()
    return found


# --- What a profile holds --------------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """A stretch of time, in nanoseconds since the profile began: an instruction of a program, or what the host did."""

    name: str
    start: float
    end: float
    thread: int
    details: dict[str, Any]
    done: float  # the end; of an instruction, when it ended in another thread

    @property
    def run(self) -> tuple[Any, ...] | None:
        """The run of a program that the instruction belongs to; None for what the host did."""
        details = self.details
        return tuple([details.get(name) for name in _OF_RUN]) if "hlo_op" in details else None


@contextlib.contextmanager
def measure() -> Generator[list[Recording]]:
    """A block that is profiled, without Python's own calls; afterwards the list holds the recording."""
    options = ProfileOptions()
    options.python_tracer_level = 0  # it would slow Python down many times
    found: list[Recording] = []
    running = session(options)
    try:
        yield found
    finally:
        serialized = _stopped(running)
    found.append(Recording(serialized))


def _stopped(running: Any) -> bytes:
    """End a session, which says only now that it could not begin."""
    try:
        serialized: bytes = running.stop()
    except RuntimeError as error:
        rule = "Only one profile may be run at a time, and another one runs."
        fix = "End it first: leave its block, or call profiler.stop_trace."
        raise RuntimeError(message(rule, f"XLA says: {error}", fix=fix)) from None
    clear_metadata()
    return serialized


class Recording:
    """What a profile holds: stretches of time, and the texts of the programs that ran, by number."""

    def __init__(self, serialized: bytes):
        self._serialized = serialized
        self.began = 0.0  # since the epoch, in nanoseconds
        self.events: list[Measured] = []
        self.threads: list[str] = []
        ends: dict[Any, float] = {}  # of instructions that end in another thread
        # jaxlib makes a class at the first look at statistics, and Python warns of how that class is made. Where
        # warnings are errors, jaxlib would end the process.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            for plane in ProfileData.from_serialized_xspace(serialized).planes:
                self.began = float(dict(plane.stats).get("profile_start_time", self.began))
                for line in plane.lines:
                    if line.name not in _DERIVED:
                        self.threads.append(f"{plane.name} {line.name}")
                        self._read(line, len(self.threads) - 1, ends)
        for i, event in enumerate(self.events):
            if (end := ends.get(event.details.get("_p"))) is not None and event.run is not None:
                self.events[i] = event._replace(done=max(event.end, end))

    def _read(self, line: Any, thread: int, ends: dict[Any, float]) -> None:
        for event in line.events:
            name: str = event.name
            if name.startswith(_OF_NO_INTEREST) or name == "ThunkExecutor::Execute":
                continue
            details, end = dict(event.stats), event.start_ns + event.duration_ns
            if name.startswith("end: "):
                ends[details.get("_c")] = end
            else:
                self.events.append(Measured(name, event.start_ns, end, thread, details, end))

    def waits(self, thread: int) -> Iterator[tuple[float, float]]:
        """When a thread was in XLA, which ran a program or waited for results.

        A wait is two events with one number, or a single event.
        """
        begun: dict[Any, float] = {}
        for event in self.events:
            if event.thread == thread and event.name.endswith(_WAITS):
                if "_p" in event.details:
                    begun[event.details["_p"]] = event.start
                else:
                    yield begun.pop(event.details.get("_c"), event.start), event.end

    def programs(self) -> Iterator[str]:
        """The texts of the programs that were loaded while the profile ran.

        The numbers in the texts are not those of the events: a program that is loaded from disk brings its own.
        """
        for plane in _fields(self._serialized, _PLANES):
            if dict(_all_fields(plane)).get(_PLANE_NAME) != b"/host:metadata":
                continue
            for entry in _fields(plane, _EVENT_KINDS):
                for stat in _fields(dict(_all_fields(entry))[_VALUE], _KIND_STATS):
                    proto = dict(_all_fields(stat)).get(_BYTES)
                    if isinstance(proto, bytes) and (module := dict(_all_fields(proto)).get(_MODULE)):
                        yield text_of_serialized(module)


# Lines that profilers add, which repeat what is in other lines.
_DERIVED = ("XLA Modules", "XLA Ops", "Steps", "Framework Ops", "Framework Name Scope", "Source code")
_OF_RUN = ("hlo_module", "program_id", "run_id", "device_ordinal")
_OF_NO_INTEREST = ("ThreadpoolListener", "Wait for ")  # events during which nothing is computed

WAIT = "didax.profile::Await"  # for several devices XLA marks no waits itself
_WAITS = ("::Await", "(wait for completion)", "::ExecuteHelperOnSingleDevice", "::Execute")

# Numbers of fields in XLA's messages: XSpace, XPlane, XEventMetadata, XStat, HloProto.
_PLANES = 1
_PLANE_NAME, _EVENT_KINDS, _VALUE = 2, 4, 2
_KIND_STATS = 5
_BYTES = 6
_MODULE = 1


def _fields(content: bytes, number: int) -> Iterator[bytes]:
    """The fields of a protocol buffer with a number, which hold messages or texts."""
    return (value for found, value in _all_fields(content) if found == number and isinstance(value, bytes))


def _all_fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protocol buffer: their numbers, and what they hold, as an integer or as bytes."""
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(content, at)
            yield key >> 3, value
            continue
        size, at = _varint(content, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
        yield key >> 3, content[at : at + size]
        at += size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
