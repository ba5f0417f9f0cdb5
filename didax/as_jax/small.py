"""Adapters that are a few lines each: versions, layouts, and what is trivial in a process with one client."""

from __future__ import annotations

import abc
import contextlib
import functools
from typing import Any

import numpy as np

import didax
import didax.numpy
from didax import tree_util
from didax.as_jax.hook import JAX_VERSION
from didax.core import dtypes, source
from didax.core.errors import message
from didax.primitives.convert import copy_p
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


def finfo(dtype: Any) -> Any:
    """The limits of a dtype of floats, or of an array's dtype, as scalars of the dtype; Didax has Python numbers."""
    return dtypes.finfo(didax.numpy.finfo(dtype).dtype)


@functools.wraps(didax.numpy.asarray)
def asarray(a: Any, *args: Any, **kwargs: Any) -> Any:
    """As `didax.numpy.asarray`, but a truth value is traced in a function that is being traced.

    Libraries ask by `bool(asarray(False))` whether they are in such a function (array-api-extra, and so SciPy). Other
    numbers keep their values, of which programs are compiled that run faster.
    """
    x = didax.numpy.asarray(a, *args, **kwargs)
    return copy_p.bind(x) if type(a) is bool else x


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
    return didax.config.jax_default_device or didax.devices()[0]


def clear_backends() -> None:
    """Forget compiled programs; the client stays, as arrays live on it."""
    didax.clear_caches()


def register_exclusion(path: str) -> None:
    """Count the lines of a file as the library's: equations and errors name the line that called it."""
    source.exclude(path)


def user_context(traceback: Any, *, name_stack: Any = None) -> Any:
    """Has no effect: in JAX errors inside point to the line of an equation, here they point to yours."""
    return _NoHint()


# --- Hints, which change no number --------------------------------------------------------------------------------


class _NoHint(contextlib.ContextDecorator):
    """A block, or a decorator, that changes nothing."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def set_xla_metadata(x: Any = None, **_: Any) -> Any:
    """Has no effect: operations are told nothing. Returns `x`; without `x`, a block or a decorator."""
    return _NoHint() if x is None else tree_util.tree_map(didax.numpy.asarray, x)


def compute_on(compute_type: str) -> Any:
    """Has no effect: what is inside runs where the rest of the program does."""
    if not isinstance(compute_type, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            message(
                "compute_on takes the name of a kind of unit.",
                f"compute_type: {compute_type!r}",
                fix="Pass a str.",
            )
        )
    names = ("device_host", "device", "tpu_sparsecore")
    if compute_type not in names and not compute_type.startswith("gpu_stream:"):
        fix = f"Use one of {', '.join(names)}, or gpu_stream: and a number."
        raise ValueError(message("No unit has this name.", f"compute_type: {compute_type!r}", fix=fix))
    return _NoHint()


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Both trees as they are, of equal structures and shapes: XLA decides how they lie on devices."""
    trees = tree_util.tree_structure(x), tree_util.tree_structure(y)
    if trees[0] != trees[1]:
        rule, fix = "shard_alike takes two trees of one structure.", "Pass their common part."
        raise ValueError(message(rule, f"x: {trees[0]}", f"y: {trees[1]}", fix=fix))
    pairs = tree_util.tree_map(lambda a, b: (didax.numpy.asarray(a), didax.numpy.asarray(b)), x, y)
    flat: list[tuple[Any, Any]] = trees[0].flatten_up_to(pairs)
    for a, b in flat:
        if a.shape != b.shape:
            rule, fix = "shard_alike takes two trees of equal shapes.", "Pass arrays of one shape."
            raise ValueError(message(rule, f"in x: {a.shape}, in y: {b.shape}", fix=fix))
    first, second = zip(*flat, strict=True) if flat else ((), ())
    return trees[0].unflatten(first), trees[1].unflatten(second)


# --- Python beside the devices ------------------------------------------------------------------------------------


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices of the hosts that the devices are on: CPU devices are their own. Others are refused."""
    devices = np.ravel(devices_or_mesh.devices if hasattr(devices_or_mesh, "axis_names") else devices_or_mesh)
    if all(device.platform == "cpu" for device in devices):
        return devices_or_mesh
    raise _colocated("colocated_cpu_devices", f"devices: {devices.tolist()}")


def colocated_python(fun: Any) -> Any:
    """Refused: it runs a function on the hosts of the devices that hold its arguments."""
    raise _colocated("colocated_python", f"function: {fun}")


def colocated_python_class(cls: type) -> Any:
    """Refused, as `colocated_python`."""
    raise _colocated("colocated_python_class", f"class: {cls}")


def _colocated(name: str, detail: str) -> NotImplementedError:
    rule = f"{name} needs a client that runs Python on the hosts of accelerators, which Didax does not have."
    return NotImplementedError(message(rule, detail, fix="Call the function: it runs in this process."))


# --- Arrays in files ------------------------------------------------------------------------------------------------


class GlobalAsyncCheckpointManagerBase(abc.ABC):
    """What JAX asks of a class that writes arrays to files while a program goes on; libraries derive from it."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raise what went wrong since the last call."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Wait until everything is written."""

    @abc.abstractmethod
    def serialize(self, arrays: Any, tensorstore_specs: Any, *, on_commit_callback: Any) -> None:
        """Begin to write arrays."""

    @abc.abstractmethod
    def deserialize(
        self, shardings: Any, tensorstore_specs: Any, global_shapes: Any = None, dtypes: Any = None
    ) -> Any:
        """Read arrays."""
