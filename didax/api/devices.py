"""Where arrays live: listing devices, moving arrays, waiting for them."""

from __future__ import annotations

from typing import Any, TypeVar

from didax.api.flat import narrowed_scalar
from didax.api.layouts import as_sharding, constrained
from didax.core import config, job, pytree
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.layout import Format, check_rank
from didax.core.memory import Space
from didax.core.sharding import NamedSharding, PartitionSpec
from didax.core.tracing import Tracer
from didax.runtime.array import (
    ConcreteArray,
    PlacedArray,
    as_concrete,
    chosen_device,
    join_sharers,
    on_device,
)

T = TypeVar("T")


@api_boundary
def devices(backend: str | None = None) -> list[Any]:
    """The devices of the backend, those of all processes (it may be named, 'cpu' or 'cuda', only to insist on it).

    >>> import didax as dx
    >>> len(dx.devices()) >= 1
    True
    """
    from didax.xla.client import backend as start

    started = start()
    aliases = {"gpu": "cuda"}
    name = aliases.get(backend, backend) if isinstance(backend, str) else backend
    if backend is not None and name != started.platform:
        raise RuntimeError(
            message(
                f"Unknown backend {backend!r}: a process computes on one backend, and this process on another one.",
                f"backend: {started.platform!r}",
                fix=f"Set DIDAX_PLATFORMS={backend} before the first array is made, where the machine has such devices"
                " and XLA's plugin for them is installed: `python -m didax doctor` tells.",
            )
        )
    return list(started.all_devices)


@api_boundary
def device_count(backend: str | None = None) -> int:
    """How many devices there are, in all processes.

    >>> import didax as dx
    >>> dx.device_count() == len(dx.devices())
    True
    """
    return len(devices(backend))


@api_boundary
def local_devices(process_index: int | None = None, backend: str | None = None) -> list[Any]:
    """The devices of this process, or of the process of that number.

    >>> import didax as dx
    >>> dx.local_devices() == dx.devices()  # in a process that computes alone
    True
    """
    found, count = devices(backend), process_count()
    if process_index is not None and process_index not in range(count):
        rule = "Processes are numbered from 0 on."
        fix = "Leave process_index out for this process, or pass one of process_indices()."
        raise ValueError(message(rule, f"process_index: {process_index}, processes: {count}", fix=fix))
    number = job.own_index() if process_index is None else process_index
    return [device for device in found if device.process_index == number]


@api_boundary
def local_device_count(backend: str | None = None) -> int:
    """How many devices this process has.

    >>> import didax as dx
    >>> dx.local_device_count() == len(dx.local_devices())
    True
    """
    return len(local_devices(backend=backend))


@api_boundary
def process_count(backend: str | None = None) -> int:
    """How many processes compute together: 1, unless `didax.distributed.initialize` says otherwise.

    >>> import didax as dx
    >>> dx.process_count()  # in a process that computes alone
    1
    """
    _check_platform(backend)
    return job.own_count()


@api_boundary
def process_index(backend: str | None = None) -> int:
    """The number of this process among those that compute together, from 0 on.

    >>> import didax as dx
    >>> dx.process_index()  # in a process that computes alone
    0
    """
    _check_platform(backend)
    return job.own_index()


@api_boundary
def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of all processes that compute together.

    >>> import didax as dx
    >>> dx.process_indices()  # in a process that computes alone
    [0]
    """
    return list(range(process_count(backend)))


def _check_platform(name: Any) -> None:
    """Processes are the same for all platforms; XLA is not started to ask."""
    if not (name is None or isinstance(name, str)):
        rule = "backend= takes the name of a platform, or None."
        raise ArgumentError(message(rule, f"got: {name!r:.100}", fix="Leave it out."))


# Older names, of programs for JAX.
host_count, host_id, host_ids = process_count, process_index, process_indices


def default_backend() -> str:
    """The platform new arrays go to: 'cpu' or 'gpu'.

    >>> import didax as dx
    >>> dx.default_backend() in ("cpu", "gpu")
    True
    """
    from didax.xla.client import backend

    return "gpu" if backend().platform == "cuda" else backend().platform


@api_boundary
def device_put(
    x: T, device: Any = None, *, src: Any = None, donate: bool = False, may_alias: bool | None = None
) -> T:
    """A pytree of arrays on a device (the default one when none is given), or laid over devices by a sharding.

    `device` may be a pytree of devices and shardings, a prefix of `x`; a PartitionSpec refers to the mesh in force.
    Under a transformation a sharding is a constraint, and a device says nothing: placement is the compiled program's.
    `src`, `donate` and `may_alias` are accepted and have no effect: arguments are kept. ValueError where an array
    cannot be cut as the sharding says.

    >>> import didax as dx
    >>> float(dx.device_put(2.0))
    2.0
    """

    leaves, tree = pytree.flatten(x)
    each = pytree.broadcast_prefix(device, x, "device_put device", _is_place, "the arrays")
    return pytree.unflatten(tree, [_put(leaf, place) for leaf, place in zip(leaves, each, strict=True)])


def _is_place(x: Any) -> bool:
    if x is None or isinstance(x, PartitionSpec | Space | Format):
        return True
    return hasattr(x, "device_set") or hasattr(x, "device_kind")


def _put(x: Any, device: Any) -> Any:
    if isinstance(device, Format):  # XLA chooses the order of the axes in memory
        check_rank(device.layout, getattr(x, "shape", ()))
        device = device.sharding
    if isinstance(device, Space):
        if device is Space.Host and default_backend() != "cpu":
            rule = "Arrays are kept in the memory of their devices."
            fix = "Leave it there, or bring the numbers to the host with device_get."
            raise NotImplementedError(message(rule, f"device: {device!r}", fix=fix))
        device = None
    if isinstance(device, NamedSharding | PartitionSpec):
        return constrained(narrowed_scalar(x), as_sharding("device_put", device))
    if isinstance(x, Tracer):
        return x
    from didax.xla.client import backend

    if hasattr(device, "device_set"):
        (device,) = device.device_set
    if device is not None and device not in backend().shardings:
        raise ValueError(
            message(
                "device_put takes one of this process's devices.",
                f"device: {device!r}, devices: {backend().devices}",
                fix="Choose one of didax.local_devices().",
            )
        )
    array = as_concrete(narrowed_scalar(x))
    if device is None:
        asked = config.default_device_was_set and not array.committed
        chosen = chosen_device() if asked else None
        if chosen is None or (array.device is chosen and array._buffer is not None):  # pyright: ignore[reportPrivateUsage]
            array.device_buffer()
            return array
        return PlacedArray(array.aval, None, array.device_buffer(chosen), committed=False)
    # An array with a host value gives it to a new array, which gets a buffer of its own: deleting or donating the one
    # array leaves the other as it is.
    mine = array if array._value is None else ConcreteArray(array.aval, array._value)  # pyright: ignore[reportPrivateUsage]
    placed = on_device(array.aval, mine.device_buffer(device))
    join_sharers(mine, placed)
    return placed


def beside(x: Any, like: Any) -> Any:
    """A new array, laid where the array that it is to be like lies, if the user placed that one.

    So the state of an optimizer is split as the parameters are.
    """
    if isinstance(like, PlacedArray) and like.aval.shape == x.shape and not like.aval.weak_type:
        return device_put(x, like.sharding)
    return x


def device_get(x: Any) -> Any:
    """A pytree of NumPy arrays with the contents of a pytree of arrays.

    What is no array stays as it is; so do random keys, which no NumPy array holds.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.device_get({"x": dnp.arange(2), "name": "a"})
    {'name': 'a', 'x': array([0, 1], dtype=int32)}
    """

    def get(leaf: Any) -> Any:
        if isinstance(leaf, ConcreteArray) and leaf.aval.physical is leaf.aval:
            return leaf.__array__()
        return leaf  # also random keys, which no NumPy array holds

    return pytree.map(get, x)


def copy_to_host_async(x: T) -> T:
    """Start to bring the numbers of a pytree of arrays to the host; returns the pytree.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.copy_to_host_async(dnp.arange(2))
    Array([0, 1], dtype=int32)
    """
    for leaf in pytree.leaves(x):
        if isinstance(leaf, ConcreteArray):
            leaf.copy_to_host_async()
    return x


def block_until_ready(x: T) -> T:
    """Wait until every array in a pytree has its numbers; returns the pytree.

    What is no array is let pass.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.block_until_ready(dnp.arange(2) + 1)
    Array([1, 2], dtype=int32)
    """
    for leaf in pytree.leaves(x):
        if isinstance(leaf, ConcreteArray):
            leaf.block_until_ready()
    return x
