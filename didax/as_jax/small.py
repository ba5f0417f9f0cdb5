"""Adapters that are a few lines each: versions, maps over devices, and what is trivial in a process with one client."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import didax
from didax.as_jax.hook import JAX_VERSION
from didax.core.errors import message
from didax.version import installed_jaxlib

__version__ = JAX_VERSION
__version_info__ = tuple(int(part) for part in JAX_VERSION.split("."))


def __getattr__(name: str) -> Any:
    if name == "Device":
        from didax.xla.client import xe  # loads jaxlib: on first need

        return xe.Device
    if name == "jaxlib_version":
        return installed_jaxlib()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def print_environment_info(return_string: bool = False) -> str | None:
    """Versions of what runs."""
    text = f"didax:  {didax.__version__}, as jax {JAX_VERSION}\nnumpy:  {np.__version__}\npython: {sys.version}\n"
    text += f"device: {didax.devices()}\nplatform: {platform.platform()}"
    if return_string:
        return text
    print(text)
    return None


@contextmanager
def threefry_partitionable(new_val: bool = True) -> Iterator[None]:
    """Keys are split as JAX does by default; another way is refused."""
    if not new_val:
        rule = "jax_threefry_partitionable=False is JAX's older way to draw numbers, which Didax has not."
        raise NotImplementedError(message(rule, fix="Leave it out."))
    yield


# --- Maps over devices -----------------------------------------------------------------------------------------


def pjit(fun: Callable[..., Any], in_shardings: Any = None, out_shardings: Any = None, **options: Any) -> Any:
    """`jit`, under its older name."""
    asked = {"in_shardings": in_shardings, "out_shardings": out_shardings}
    return didax.jit(fun, **{name: x for name, x in asked.items() if x is not None}, **options)


def shard_map(
    f: Any, mesh: Any = None, in_specs: Any = None, out_specs: Any = None, check_rep: bool = True,
    auto: Any = frozenset(), **options: Any,
) -> Any:  # fmt: skip
    """`shard_map` with the arguments of `jax.experimental.shard_map`."""
    if auto:
        options["axis_names"] = frozenset(mesh.axis_names) - frozenset(auto)
    options.setdefault("check_vma", check_rep)
    return didax.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)


def create_device_mesh(mesh_shape: Sequence[int], devices: Any = None, **_: Any) -> np.ndarray[Any, Any]:
    """The devices as an array of that shape; they are equally far from each other."""
    found = np.asarray(didax.devices() if devices is None else devices, dtype=object).ravel()
    size = int(np.prod(mesh_shape, dtype=int))
    if size != found.size:
        rule = "A mesh has as many places as there are devices."
        raise ValueError(
            message(rule, f"shape: {tuple(mesh_shape)}", f"devices: {found.size}", fix="Pass `devices`.")
        )
    return found.reshape(mesh_shape)


class Layout:
    """The order of an array's axes in memory. Didax leaves it to XLA: a layout can be stated, not asked for."""

    def __init__(
        self, major_to_minor: Sequence[int], tiling: Any = None, sub_byte_element_size_in_bits: int = 0
    ):
        self.major_to_minor, self.tiling = tuple(major_to_minor), tiling

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.major_to_minor == other.major_to_minor

    def __hash__(self) -> int:
        return hash(self.major_to_minor)


class Format:
    """A layout with a sharding."""

    def __init__(self, layout: Layout | None = None, sharding: Any = None):
        self.layout, self.sharding = layout, sharding


# --- jax.profiler: marks in profiles, which Didax does not take --------------------------------------------------


class TraceAnnotation:
    """Context manager and decorator that marks a stretch of a profile; without a profile it does nothing, as in JAX."""

    def __init__(self, name: str, **_: Any):
        self.name = name

    def __enter__(self) -> TraceAnnotation:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class StepTraceAnnotation(TraceAnnotation):
    """As `TraceAnnotation`, for a step of training."""


def annotate_function(func: Any = None, name: str | None = None, **_: Any) -> Any:
    """The function itself."""
    return (lambda f: f) if func is None else func


# --- jax.monitoring ---------------------------------------------------------------------------------------------

_LISTENERS: dict[str, list[Callable[..., Any]]] = {"event": [], "duration": [], "time_span": [], "scalar": []}


def _monitor(kind: str) -> tuple[Callable[..., None], Callable[..., None], Callable[..., None]]:
    def record(event: str, *values: Any, **details: Any) -> None:
        for listener in tuple(_LISTENERS[kind]):
            listener(event, *values, **details)

    def unregister(listener: Callable[..., Any]) -> None:
        _LISTENERS[kind].remove(listener)

    return record, _LISTENERS[kind].append, unregister


record_event, register_event_listener, unregister_event_listener = _monitor("event")
record_event_duration_secs, register_event_duration_secs_listener, unregister_event_duration_listener = (
    _monitor("duration")
)
record_event_time_span, register_event_time_span_listener, unregister_event_time_span_listener = _monitor(
    "time_span"
)
record_scalar, register_scalar_listener, unregister_scalar_listener = _monitor("scalar")


def clear_event_listeners() -> None:
    """Forget all listeners."""
    for listeners in _LISTENERS.values():
        listeners.clear()


# --- jax.extend -------------------------------------------------------------------------------------------------


def get_backend(name: str | None = None) -> Any:
    """XLA's client."""
    from didax.xla.client import backend  # loads jaxlib: on first need

    found = backend()
    if name not in (None, found.platform):
        rule = "A process has one backend."
        raise RuntimeError(
            message(rule, f"asked for: {name}", f"there is: {found.platform}", fix="Set DIDAX_PLATFORMS.")
        )
    return found.client


def backends() -> dict[str, Any]:
    """XLA's clients by platform."""
    client = get_backend()
    return {client.platform: client}


def get_default_device() -> Any:
    """The device that new arrays go to."""
    return didax.devices()[0]


def clear_backends() -> None:
    """Forget compiled programs; the client stays, as arrays live on it."""
    didax.clear_caches()


def register_exclusion(path: str) -> None:
    """Leave the frames of a file out of tracebacks: see `private.py`."""
    from didax.as_jax import private

    private.register_exclusion(path)
