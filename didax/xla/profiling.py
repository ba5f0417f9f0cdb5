"""XLA's profiler, as jaxlib gives it. Read next: `didax/profiler.py`, what users call."""

from __future__ import annotations

from typing import Any

from didax.core.process import import_to_the_end
from didax.version import __version__, installed_jaxlib
from didax.xla.client import backend

_profiler = import_to_the_end("jaxlib._profiler")
_data = import_to_the_end("jaxlib._profile_data")

ProfileData, ProfileEvent, ProfilePlane = _data.ProfileData, _data.ProfileEvent, _data.ProfilePlane
ProfileOptions, TraceMe = _profiler.ProfileOptions, _profiler.TraceMe
register_subprocess = _profiler.register_subprocess
clear_metadata = getattr(_profiler, "clear_metadata", lambda: None)  # later than jaxlib 0.10.0


def session(options: Any) -> Any:
    """A profile that runs from now on, on a client that has been started, with the versions written into it."""
    started = backend()
    clear_metadata()
    if hasattr(_profiler, "set_metadata"):
        _profiler.set_metadata("didax_version", __version__)
        _profiler.set_metadata("jaxlib_version", installed_jaxlib())
        _profiler.set_metadata(f"{started.platform}_version", started.client.platform_version)
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
