"""Adapters that are a few lines each: versions, layouts, and what is trivial in a process with one client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


# --- Layouts ----------------------------------------------------------------------------------------------------


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
