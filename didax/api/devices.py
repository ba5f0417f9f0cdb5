"""Where arrays live: listing devices, moving arrays, waiting for them.

    devices(), local_devices(), process_index()     what there is
    device_put(x, place), device_get(x)             to a device, a sharding or a memory, and back to NumPy
    block_until_ready(x)                            wait for what is computed asynchronously

Every function takes pytrees of arrays where it takes an array. `device_put` under a transformation is an operation
like any other, with derivatives and batches. Read next: `layouts.py` (the shardings that users pass),
`primitives/sharding.py` (the operation), `xla/client.py` (the devices).
"""

from __future__ import annotations

from typing import Any, TypeVar

from didax.api.flat import narrowed_scalar
from didax.api.layouts import as_sharding, constrained
from didax.core import config, job, pytree
from didax.core import sharding as shardings
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.layout import Format, check_rank
from didax.core.memory import DEVICE, Space
from didax.core.sharding import NamedSharding, PartitionSpec
from didax.core.tracing import Tracer, known_value
from didax.primitives.sharding import memory_p
from didax.runtime.array import ConcreteArray, PlacedArray, as_concrete, chosen_device, on_one_device
from didax.runtime.sharded import memory_of

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

    `device` may be a pytree of devices and shardings, a prefix of `x`; a PartitionSpec refers to the mesh in force. A
    sharding may name a kind of memory; `memory.Space.Host` and `Space.Device` name one alone, and the array stays on
    its devices. Under a transformation a sharding is a constraint, and a device has no effect: the compiled program
    decides where it runs. A cotangent goes to the memory that `x` lies in; `src` names that memory where `x` is traced.
    `donate` and `may_alias` are accepted and have no effect: arguments are kept. ValueError where an array cannot be
    cut as the sharding says, or where its devices do not have such memory.

    >>> import didax as dx
    >>> float(dx.device_put(2.0))
    2.0
    """

    leaves, tree = pytree.flatten(x)
    each = pytree.broadcast_prefix(device, x, "device_put device", _is_place, "the arrays")
    sources = [None] * len(leaves)
    if src is not None:
        sources = pytree.broadcast_prefix(src, x, "device_put src", _is_place, "the arrays")
    puts = [_put(leaf, place, source) for leaf, place, source in zip(leaves, each, sources, strict=True)]
    return pytree.unflatten(tree, puts)


def _is_place(x: Any) -> bool:
    if x is None or isinstance(x, PartitionSpec | Space | Format):
        return True
    return hasattr(x, "device_set") or hasattr(x, "device_kind")


def _put(x: Any, device: Any, source: Any) -> Any:
    if isinstance(device, Format):  # XLA chooses the order of the axes in memory
        check_rank(device.layout, getattr(x, "shape", ()))
        device = device.sharding
    if isinstance(device, NamedSharding | PartitionSpec):
        if isinstance(x, Tracer) and (here := _memory_known(x, source)) != DEVICE:
            x = memory_p.bind(x, kind=DEVICE, source=here)
        return constrained(narrowed_scalar(x), as_sharding("device_put", device))
    kind = device.kind if isinstance(device, Space) else getattr(device, "memory_kind", None)
    moves = kind is not None and (kind != DEVICE or shardings.in_memories)
    if moves and (isinstance(x, Tracer) or isinstance(device, Space)):
        return _put_in_memory(x, kind or DEVICE, source)
    if isinstance(device, Space):
        device = None
    if isinstance(x, Tracer):
        return x
    from didax.xla.client import backend

    if hasattr(device, "device_set"):
        if len(device.device_set) != 1:
            rule = "device_put takes a device, or a sharding, which says how several devices share an array."
            fix = "Pass NamedSharding(mesh, PartitionSpec(...))."
            raise TypeError(message(rule, f"device: {device!r:.200}", fix=fix))
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
    return on_one_device(array, device, kind or DEVICE)


def _put_in_memory(x: Any, kind: str, source: Any) -> Any:
    """The array in memory of that kind, on the devices where it is; `source` is the memory that it is in."""
    x = narrowed_scalar(x)
    here = _memory_known(x, source)
    shardings.use_memories()
    return memory_p.bind(x, kind=kind) if here == DEVICE else memory_p.bind(x, kind=kind, source=here)


def _memory_known(x: Any, source: Any) -> str:
    """The kind of memory that the array lies in, as far as the caller says it, or its value is known."""
    here = source.kind if isinstance(source, Space) else getattr(source, "memory_kind", None)
    return here or memory_of(known_value(x))


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

    Leaves that are no arrays are let pass.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.block_until_ready(dnp.arange(2) + 1)
    Array([1, 2], dtype=int32)
    """
    for leaf in pytree.leaves(x):
        if isinstance(leaf, ConcreteArray):
            leaf.block_until_ready()
    return x
