"""`ShardedArray`: an array that lies on several devices. Users meet it as `didax.Array`, like any other.

`place(x, sharding)` lays an array over devices; `from_shards` joins parts that are there already.
Read next: `core/sharding.py` (which part is where), `xla/partition.py` (what XLA is told), `partitioned.py` (programs).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import job
from didax.core.avals import ShapedArray
from didax.core.dtypes import dtype_name
from didax.core.errors import message
from didax.core.given import give, given_by
from didax.core.memory import DEVICE
from didax.core.mesh import AxisType, Mesh, current_mesh
from didax.core.sharding import Index, NamedSharding, checked_memory_kind
from didax.primitives.inspection import inspect_sharding_p
from didax.primitives.sharding import loosen_p, memory_p, sharding_constraint_p
from didax.runtime.array import (
    ConcreteArray,
    HostArray,
    PlacedArray,
    Shard,
    as_concrete,
    join_sharers,
    keys_of,
    on_device,
    on_one_device,
    sharing,
    with_keys,
)
from didax.runtime.explicit import on_devices
from didax.xla.inspection import Inspection


class ShardedArray(PlacedArray):
    """An array on several devices: `_buffer` is XLA's array of all parts, `_value` the whole on the host."""

    __slots__ = ("sharding",)
    sharding: NamedSharding  # how the array is laid out over devices; a slot, which hot paths read
    exchanged: Any = given_by("didax.runtime.placed")

    def __init__(self, aval: ShapedArray, buffer: Any, sharding: NamedSharding):
        self.aval = aval
        self._value = None
        self._buffer = buffer
        self.committed = True
        self.sharding = sharding

    @property
    def device(self) -> Any:
        """The sharding: the array has no single device."""
        return self.sharding

    @property
    def place(self) -> Any:
        """The devices that programs on this array run on; a single one is not in a tuple."""
        first, *others = self.sharding.devices
        return (first, *others) if others else first

    def devices(self) -> set[Any]:
        """The devices that hold a part of the array."""
        return self.sharding.device_set

    @property
    def is_fully_addressable(self) -> bool:
        """Every device that holds a part of the array belongs to this process."""
        return self.sharding.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Every device holds the whole array."""
        return self.sharding.is_fully_replicated

    def host_value(self) -> Any:
        """The whole array as a NumPy array that must not be written to; waits for the devices if need be."""
        value = self._value
        if value is None:
            value = self._value = self._gathered()
        return value

    def _gathered(self) -> np.ndarray[Any, Any]:
        shards = self.addressable_shards
        if self.is_fully_replicated:
            return shards[0].data.host_value()
        if not self.is_fully_addressable:
            raise RuntimeError(
                message(
                    "A process sees only its own part of an array that is split over several processes.",
                    f"array: {self.aval}, {self.sharding}",
                    fix="Look at x.addressable_shards, or gather it with "
                    "didax.experimental.multihost_utils.process_allgather.",
                )
            )
        physical = self.aval.physical
        whole = np.empty(physical.shape, physical.dtype)
        for shard in shards:
            if shard.replica_id == 0:
                whole[shard.index] = shard.data.host_value()
        return whole

    def device_buffer(self, device: Any = None) -> Any:
        """XLA's array of all parts; with `device` the whole as a buffer on one device."""
        if self.is_deleted():
            raise self._deleted()
        if device is None:
            return self._buffer
        return ConcreteArray(self.aval, self.host_value()).device_buffer(device)

    def is_deleted(self) -> bool:
        """True when the contents were donated or deleted."""
        return self._buffer is None or self._buffer.is_deleted()

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts of the array on this process's devices."""
        from didax.xla.partition import shards_of

        local = self.sharding.addressable_devices
        pieces = [piece for piece in self._pieces() if piece[0] in local]
        aval = self.aval.update(shape=self.sharding.shard_shape(self.aval.shape), sharding=None)
        parts = shards_of(self.device_buffer(), aval.physical, [device for device, _, _ in pieces])
        return [
            Shard(device, index, copy, on_device(aval, part))
            for (device, index, copy), part in zip(pieces, parts, strict=True)
        ]

    @property
    def global_shards(self) -> list[Shard]:
        """The parts of the array on the devices of all processes; `data` is None for those of other processes."""
        mine = {shard.device: shard for shard in self.addressable_shards}
        return [
            mine.get(device) or Shard(device, index, copy, None) for device, index, copy in self._pieces()
        ]

    def _pieces(self) -> list[tuple[Any, Index, int]]:
        """For each device: which part it holds, and how many devices before it hold the same."""
        sharding, shape = self.sharding, self.aval.shape
        seen: dict[Any, int] = {}
        pieces: list[tuple[Any, Index, int]] = []
        _, places = sharding.parts(self.aval.ndim)
        for device, index, part in zip(sharding.devices, sharding.indices(shape), places, strict=True):
            copy = seen[part] = seen.get(part, -1) + 1
            pieces.append((device, index, copy))
        return pieces

    def __repr__(self) -> str:
        return super().__repr__() if self._is_here() else self._description()

    def __str__(self) -> str:
        return super().__str__() if self._is_here() else self._description()

    def _is_here(self) -> bool:
        return self.is_deleted() or self.is_fully_addressable or self.is_fully_replicated

    def _description(self) -> str:
        return (
            f"Array(shape={self.aval.shape}, dtype={dtype_name(self.aval.dtype)}, sharding={self.sharding})"
        )

    def rows(self) -> None:
        """None: the rows are made by a program, so that they stay on the devices."""
        return

    def own_buffer(self) -> None:
        """Called before the buffer is donated: where other arrays have the same buffer, this array gets a copy."""
        if self._is_shared() and not self.is_deleted():
            self._buffer = self.__copy__()._buffer

    def twin(self) -> ShardedArray:
        """A second array with the same buffer; the caller has to call `join_sharers` on the two."""
        twin = ShardedArray(self.aval, self._buffer, self.sharding)
        twin._value = self._value
        return twin

    def platform(self) -> str:
        """The platform of the array's devices: 'cpu' or 'cuda'."""
        return self.sharding.devices[0].client.platform

    def unsafe_buffer_pointer(self) -> int:
        """ValueError: the array's memory is in several places."""
        raise ValueError(self._in_parts("has no single address"))

    def __dlpack_device__(self) -> tuple[int, int]:
        """BufferError: the array's memory is in several places."""
        raise BufferError(self._in_parts("cannot be shared by DLPack"))

    def _in_parts(self, refused: str) -> str:
        fix = "Use one of x.addressable_shards, or the whole array on the host: numpy.asarray(x)."
        return message(
            f"An array on several devices {refused}.", f"array: {self.aval}, {self.sharding}", fix=fix
        )

    def copy_to_host_async(self) -> None:
        """Begin to bring the contents to the host, where that takes a copy."""
        for shard in self.addressable_shards:
            shard.data.copy_to_host_async()

    def _reads_in_place(self) -> bool:
        return self._value is not None or (
            self.is_fully_replicated and self.addressable_shards[0].data._reads_in_place()
        )

    def __reduce__(self) -> Any:
        return as_concrete, (np.asarray(self.host_value()),)

    def __copy__(self) -> ShardedArray:
        from didax.xla.buffers import copy_of

        copies = [
            on_device(shard.data.aval, copy_of(shard.data.device_buffer()))
            for shard in self.addressable_shards
        ]
        copied = from_shards(self.aval, self.sharding, copies)
        with_keys(copied, keys_of(self))
        return copied


ShardedArray.__name__ = "Array"


@give(ConcreteArray, "placed")
def place(x: Any, sharding: NamedSharding, *where: str) -> ConcreteArray:
    """The array, laid over devices; itself where it lies like that. `where` names it in the error for its shape."""
    array = as_concrete(x)
    sharding = sharding.constrained
    sharding.check_shape(array.aval.shape, *where)
    if not isinstance(array, ShardedArray):
        if sharding.num_devices == 1 and sharding.has_addressable_devices:
            return _on_one_device(array, sharding)
    elif array.sharding.is_equivalent_to(sharding, array.aval.ndim):
        return array if array.sharding is sharding else _relabelled(array, sharding)
    elif array.sharding.on_device.is_equivalent_to(sharding.on_device, array.aval.ndim):
        return with_keys(_in_memory(array, sharding), keys_of(array))
    elif not (array.is_fully_addressable or array.is_fully_replicated):
        return with_keys(_exchanged(array, sharding), keys_of(array))
    whole = array.host_value()
    return with_keys(from_callback(array.aval, sharding, lambda index: whole[index]), keys_of(array))


def _on_one_device(array: ConcreteArray, sharding: NamedSharding) -> ShardedArray:
    """The array with a sharding over a mesh of one device: on that device, in the memory that the sharding names."""
    moved = on_one_device(array, sharding.devices[0], sharding.kind or DEVICE)
    placed = ShardedArray(array.aval.update(sharding=sharding), moved.device_buffer(), sharding)
    join_sharers(moved, placed)
    with_keys(placed, keys_of(array))
    return placed


def _in_memory(array: ShardedArray, sharding: NamedSharding) -> ShardedArray:
    """The array with the same parts on the same devices, in the memory that the sharding names."""
    kind = sharding.kind or DEVICE
    parts = [on_one_device(shard.data, shard.device, kind) for shard in array.addressable_shards]
    return from_shards(array.aval, sharding, parts)


def _exchanged(array: ShardedArray, sharding: NamedSharding) -> ConcreteArray:
    """The array of several processes, laid out in another way by a program in which they exchange parts."""
    if set(array.place) != set(sharding.devices):
        raise ValueError(
            message(
                "An array that is split over several processes stays on the same devices.",
                f"array: {array.aval}, {array.sharding}, on {len(array.place)} devices",
                f"wanted: {sharding}, on {len(sharding.devices)} devices",
                fix="Gather it first: didax.experimental.multihost_utils.process_allgather(x, tiled=True).",
            )
        )
    moved = array.exchanged(sharding.on_device)
    if sharding.kind is not None:
        return _in_memory(moved, sharding)
    return moved if moved.sharding is sharding else _relabelled(moved, sharding)


def _relabelled(array: ShardedArray, sharding: NamedSharding) -> ShardedArray:
    """The array with another description of the same layout; the parts stay where they are."""
    relabelled = ShardedArray(array.aval.update(sharding=sharding), array.device_buffer(), sharding)
    relabelled._value = array._value
    join_sharers(array, relabelled)
    with_keys(relabelled, keys_of(array))
    return relabelled


def from_callback(aval: ShapedArray, sharding: NamedSharding, data: Callable[[Index], Any]) -> ConcreteArray:
    """The array whose part at an index is `data(index)`, asked once for each part that this process holds."""
    from didax.xla.partition import put_shards

    check_takes_part(sharding)
    parts: dict[Any, np.ndarray[Any, Any]] = {}
    physical, local = aval.physical, sharding.addressable_devices
    values: list[np.ndarray[Any, Any]] = []
    _, places = sharding.parts(aval.ndim)
    for device, index, part in zip(sharding.devices, sharding.indices(aval.shape), places, strict=True):
        if device in local:
            if part not in parts:
                parts[part] = np.asarray(data(index), physical.dtype, order="C")
            values.append(parts[part])
    return ShardedArray(aval.update(sharding=sharding), put_shards(values, physical, sharding), sharding)


def on_its_device(array: ConcreteArray) -> ConcreteArray:
    """The array itself; where its mesh only stands for one device, the plain array on that device."""
    if not isinstance(array, ShardedArray) or not array.sharding.is_one_device:
        return array
    (shard,) = array.addressable_shards
    return with_keys(shard.data, keys_of(array))


def check_takes_part(sharding: NamedSharding) -> None:
    """ValueError where no device of this process holds a part."""
    if not sharding.has_addressable_devices:
        raise ValueError(
            message(
                "A process makes, and computes with, arrays of which its own devices hold parts.",
                f"sharding: {sharding}, on devices of processes "
                f"{sorted({device.process_index for device in sharding.devices})}; this is process {job.own_index()}",
                fix="Let only the processes of the mesh do this: if didax.process_index() in ...",
            )
        )


def from_shards(aval: ShapedArray, sharding: NamedSharding, shards: Sequence[ConcreteArray]) -> ShardedArray:
    """The array of parts that are on their devices already, one for each device of this process."""
    from didax.xla.partition import join_shards

    return ShardedArray(
        aval.update(sharding=sharding),
        join_shards([x.device_buffer() for x in shards], aval.physical, sharding),
        sharding,
    )


@give(inspect_sharding_p, "evaluate")
def inspect(x: Any, *, inspection: Inspection, axes: tuple[int, ...]) -> list[Any]:
    array = as_concrete(x)
    inspection.tell(array.sharding, axes, array.aval.ndim)
    return []


@give(sharding_constraint_p, "evaluate")
def constrain(x: Any, *, sharding: NamedSharding, **_: Any) -> ConcreteArray:
    array = as_concrete(x)
    sharding = on_devices(sharding, _meshes_of(array))
    check_takes_part(sharding)
    if job.current is not None and not (isinstance(array, ShardedArray) or sharding.is_fully_addressable):
        _check_same(array, sharding)
    return on_its_device(place(array, sharding))


@give(loosen_p, "evaluate")
def loosen(x: Any) -> ConcreteArray:
    array = as_concrete(x)
    if not isinstance(array, ShardedArray):
        return array
    mesh = array.sharding.concrete_mesh
    auto = mesh.update(axis_types=(AxisType.Auto,) * len(mesh.axis_names))
    return _relabelled(array, array.sharding.update(mesh=auto))


def _meshes_of(array: ConcreteArray) -> list[Mesh]:
    found = [array.sharding.mesh] if isinstance(array, ShardedArray) else []
    return [mesh for mesh in [*found, current_mesh()] if isinstance(mesh, Mesh)]


def _check_same(array: ConcreteArray, sharding: NamedSharding) -> None:
    """ValueError unless all processes that are to hold parts of an array pass the same."""
    import hashlib  # not needed where one process computes

    from didax.xla.agreement import others_differ, processes_of

    value, processes = np.ascontiguousarray(array.host_value()), processes_of(sharding.devices)
    digest = hashlib.sha256(f"{array.aval}{sharding.spec}".encode() + value.tobytes()).digest()
    what = f"the transfer of {array.aval}"
    others = [p for p in others_differ(job.current, "transfer", digest, processes, what) if p != processes[0]]
    if others:
        raise ValueError(
            message(
                "What is laid over the devices of several processes is the same in each of them.",
                f"process {others[0]} has another array than process {processes[0]}; here it is {array.aval}",
                f"wanted: {sharding}",
                fix="Draw or load the same in all; or join what differs: make_array_from_process_local_data.",
            )
        )


@give(memory_p, "evaluate")
def in_memory(x: Any, *, kind: str, source: str = DEVICE) -> ConcreteArray:
    """An array with the same contents in memory of that kind, on the devices where it is."""
    array = as_concrete(x)
    sharding = array.sharding
    if sharding.memory_kind == kind:
        return sharing(array)
    checked_memory_kind(kind, sharding.devices)
    if isinstance(sharding, NamedSharding):
        return place(array, sharding.with_memory_kind(kind))
    return on_one_device(array, array.device, kind)


def memory_of(x: Any) -> str:
    """The kind of memory that a value is known to lie in."""
    return (x.sharding.memory_kind or DEVICE) if isinstance(x, ShardedArray | HostArray) else DEVICE
