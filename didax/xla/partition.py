"""Arrays and programs that lie on several devices, in XLA's words.

`Partition` says how a program is laid out: its devices, and a sharding for each argument. `xla_sharding` is what
jaxlib wants with every array on several devices; `put_shards`, `shards_of`, `reshard` move the parts.
`found_sharding` reads the layout that XLA's partitioner chose for a result.
Read next: `core/sharding.py` (what users say), `runtime/sharded.py` (the arrays).
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from didax.core.avals import ShapedArray
from didax.core.errors import message
from didax.core.mesh import Mesh
from didax.core.primitive import Primitive
from didax.core.sharding import NamedSharding, PartitionSpec, Sharding, entry_names
from didax.xla.client import backend, hlo, xe

_UINT32 = ShapedArray((), np.dtype(np.uint32))


@dataclasses.dataclass(frozen=True, slots=True)
class Partition:
    """The mesh of a program, and how each of its arguments lies on it; None leaves an argument to XLA."""

    mesh: Mesh
    arguments: tuple[NamedSharding | None, ...]

    @property
    def devices(self) -> tuple[Any, ...]:
        """The devices, in the order in which XLA numbers them."""
        return tuple(self.mesh.devices.flat)

    def found(self, proto: Any, ndim: int) -> NamedSharding:
        """The sharding of an array with `ndim` axes that XLA tells of as a message of its own."""
        if proto is None:
            return NamedSharding(self.mesh, PartitionSpec())
        return found_sharding(hlo.HloSharding.from_proto(proto), self.mesh, ndim)


class XlaSharding(xe.Sharding):
    """A sharding as jaxlib's arrays hold it."""

    memory_kind = _memory_kind = None

    def __init__(self, sharding: Sharding):
        super().__init__()
        self.sharding = sharding
        self._devices = xe.DeviceList(sharding.devices)

    @property
    def _internal_device_list(self) -> Any:
        return self._devices

    @property
    def device_set(self) -> set[Any]:
        """The devices that hold a part of the array."""
        return self.sharding.device_set

    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Any:
        return hlo_sharding(self.sharding, num_dimensions)


_xla_shardings: WeakKeyDictionary[Sharding, XlaSharding] = WeakKeyDictionary()


def xla_sharding(sharding: Sharding) -> XlaSharding:
    """The sharding as jaxlib's arrays hold it, one object for each."""
    found = _xla_shardings.get(sharding)
    if found is None:
        found = _xla_shardings.setdefault(sharding, XlaSharding(sharding))
    return found


def hlo_sharding(sharding: Any, ndim: int) -> Any:
    """The sharding of an array with `ndim` axes as XLA tiles it."""
    if ndim == 0 or sharding.is_fully_replicated:
        return hlo.HloSharding.replicate()
    mesh, entries = sharding.mesh, sharding.entries(ndim)
    split = [mesh.axis_names.index(name) for names in entries for name in names]
    rest = [i for i in range(len(mesh.axis_names)) if i not in split]
    tiles = [math.prod(mesh.shape[name] for name in names) for names in entries]
    copies = math.prod(mesh.axis_sizes[i] for i in rest)
    kinds = [hlo.OpSharding_Type.REPLICATED] if copies > 1 else []
    return hlo.HloSharding.iota_tile(
        [*tiles, *[copies] * len(kinds)], mesh.axis_sizes, [*split, *rest], kinds
    )


def found_sharding(found: Any, mesh: Mesh, ndim: int) -> NamedSharding:
    """The sharding that XLA chose, by the mesh where a spec can say it; else by a mesh made for it."""
    if found.is_replicated() or found.is_maximal() or found.is_unknown():
        return NamedSharding(mesh, PartitionSpec())
    tiles = list(found.tile_assignment_dimensions())
    order = np.array(found.tile_assignment_devices()).reshape(tiles)
    spec = _spec_for(order, mesh, ndim)
    if spec is not None:
        return NamedSharding(mesh, spec)
    devices = np.array(list(mesh.devices.flat), dtype=object)[order]
    names = [f"axis{i}" for i in range(order.ndim)]
    return NamedSharding(Mesh(devices, names), PartitionSpec(*names[:ndim]))


def _spec_for(order: np.ndarray[Any, Any], mesh: Mesh, ndim: int) -> PartitionSpec | None:
    """The spec by which device number `order[i, j, ...]` holds part i, j, ... of an array; None where there is none."""
    place = np.empty((order.size, order.ndim), int)
    place[order.ravel()] = list(itertools.product(*map(range, order.shape)))
    place = place[:, :ndim].reshape(*mesh.axis_sizes, ndim)
    names: list[list[tuple[int, str]]] = [[] for _ in range(ndim)]
    for axis, (name, _) in enumerate(mesh.shape_tuple):
        step = np.diff(place, axis=axis)
        moved = {d for d in range(ndim) if step[..., d].any()}
        if len(moved) > 1:
            return None
        for d in moved:
            names[d].append((int(step[(0,) * len(mesh.axis_sizes)][d]), name))
    spec = PartitionSpec(*[tuple(name for _, name in sorted(found, reverse=True)) for found in names])
    counts, places = NamedSharding(mesh, spec).parts(ndim)
    fits = counts == order.shape[:ndim] and places == tuple(map(tuple, place.reshape(-1, ndim).tolist()))
    return _trimmed(spec) if fits else None


def _trimmed(spec: PartitionSpec) -> PartitionSpec:
    """The spec without the Nones at its end."""
    entries = list(spec)
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries)


# Text.


class Manual(NamedTuple):
    """The mesh of the `shard_map` whose body is being written, and the manual axes of all that it is in."""

    mesh: Mesh
    axes: frozenset[str]


class DeviceWriter:
    """What the module of a program on several devices says of them: meshes, groups of devices, numbers of channels."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.manual: Manual | None = None
        self._meshes: dict[Mesh, str] = {}
        self._channels = 0

    def header(self, name: str) -> str:
        """The opening of the module, with the meshes that its text names."""
        devices = self.partition.devices
        count = f"mhlo.num_partitions = {len(devices)} : i32, mhlo.num_replicas = 1 : i32"
        declared = [_mesh_text(mesh_name, mesh, devices) for mesh, mesh_name in self._meshes.items()]
        return "\n".join([f"module @{name} attributes {{{count}}} {{", *declared])

    def argument_attributes(self, avals: Sequence[ShapedArray]) -> list[list[str]]:
        """For each argument of the program, what its declaration says of where it lies."""
        return [
            []
            if sharding is None
            else [f"sdy.sharding = #sdy.sharding<{self.sharding(sharding, aval.physical.ndim)}>"]
            for sharding, aval in zip(self.partition.arguments, avals, strict=True)
        ]

    def mesh(self, mesh: Mesh) -> str:
        """The name of a mesh in this module."""
        return self._meshes.setdefault(mesh, f"mesh{len(self._meshes) or ''}")

    def sharding(self, sharding: NamedSharding, ndim: int) -> str:
        """How an array with `ndim` axes lies, as Shardy writes it: `@mesh, [{"x"}, {}]`."""
        sharding.entries(ndim)  # checks the number
        entries = [*sharding.spec, *[None] * (ndim - len(sharding.spec))]
        return f"@{self.mesh(sharding.concrete_mesh)}, [{', '.join(map(_entry_text, entries))}]"

    def manual_sharding(self, mesh: Mesh, axes: Sequence[str], spec: PartitionSpec, ndim: int) -> str:
        """The same for an operand or result of a `shard_map`: the partitioner decides on other axes than `axes`."""
        opened = ", ?" if len(axes) < len(mesh.axis_names) else ""
        entries = [*map(entry_names, spec), *[()] * (ndim - len(spec))]
        dims = [
            "{" + (", ".join(f'"{n}"' for n in names) + opened).removeprefix(", ") + "}" for names in entries
        ]
        return f"<@{self.mesh(mesh)}, [{', '.join(dims)}]>"

    def groups(self, primitive: Primitive, axes: Sequence[str]) -> list[list[int]]:
        """The devices that a collective over manual axes joins: groups of numbers, the first axis varying slowest."""
        mesh = self._manual_mesh(primitive, axes)
        numbers = self._device_numbers(mesh)
        along = [mesh.axis_names.index(name) for name in axes]
        rest = [i for i in range(numbers.ndim) if i not in along]
        size = math.prod(mesh.axis_sizes[i] for i in along)
        return numbers.transpose([*rest, *along]).reshape(-1, size).tolist()

    def positions(self, primitive: Primitive, axis: str) -> np.ndarray[Any, Any]:
        """For the number of each device, its position along a manual axis."""
        mesh = self._manual_mesh(primitive, [axis])
        places = np.empty(mesh.size, np.int32)
        places[self._device_numbers(mesh).ravel()] = np.indices(mesh.axis_sizes)[
            mesh.axis_names.index(axis)
        ].ravel()
        return places

    def device_number(self, ctx: Any) -> Any:
        """The number of the running device, which has a meaning only where every axis is manual."""
        assert self.manual is not None
        mesh, axes = self.manual
        left = ", ".join(f'"{name}"' for name in mesh.axis_names if name not in axes)
        inner = ctx.region() if left else ctx
        number = inner.emit("stablehlo.partition_id : tensor<ui32>", _UINT32)
        if not left:
            return number
        body = f"{{\n{inner.lines[0]}\nsdy.return {number} : {number.type}\n}}"
        return ctx.emit(
            f"sdy.manual_computation() in_shardings=[] out_shardings=[<@{self.mesh(mesh)}, []>] "
            f"manual_axes={{{left}}} () {body} : () -> {number.type}",
            _UINT32,
        )

    def channel(self) -> str:
        """The attribute that tells one communication of the module from the others."""
        self._channels += 1
        return f"channel_handle = #stablehlo.channel_handle<handle = {self._channels}, type = 1>"

    def _device_numbers(self, mesh: Mesh) -> np.ndarray[Any, Any]:
        number = {device: i for i, device in enumerate(self.partition.devices)}
        return np.array([number[device] for device in mesh.devices.flat]).reshape(mesh.devices.shape)

    def _manual_mesh(self, primitive: Primitive, axes: Sequence[str]) -> Mesh:
        if self.manual is None or not self.manual.axes.issuperset(axes):
            raise unmapped(primitive, axes)
        return self.manual.mesh


def unmapped(primitive: Primitive, axes: Sequence[str]) -> NameError:
    """The error of a collective whose axis nobody maps where it is compiled."""
    return NameError(
        message(
            f"{primitive.name} was compiled outside of the function that maps its axis.",
            f"axes: {tuple(axes)}",
            fix="Collectives belong inside vmap(..., axis_name=...) or shard_map.",
        )
    )


def _mesh_text(name: str, mesh: Mesh, devices: Sequence[Any]) -> str:
    """The declaration of a mesh in a module whose partitions are `devices`, in their order."""
    axes = ", ".join(f'"{axis}"={size}' for axis, size in mesh.shape_tuple)
    numbers = [devices.index(device) for device in mesh.devices.flat]
    ids = "" if numbers == list(range(len(numbers))) else f", device_ids=[{', '.join(map(str, numbers))}]"
    return f"sdy.mesh @{name} = <[{axes}]{ids}>"


def _entry_text(entry: Any) -> str:
    if entry is PartitionSpec.UNCONSTRAINED:
        return "{?}"
    return "{" + ", ".join(f'"{name}"' for name in entry_names(entry)) + "}"


# Buffers.


def put_shards(parts: Sequence[np.ndarray[Any, Any]], aval: ShapedArray, sharding: Sharding) -> Any:
    """One array of XLA's from the part of each of this process's devices, which are still on the host."""
    local = [d for d in sharding.devices if d in sharding.addressable_devices]
    return xe.batched_device_put(aval, xla_sharding(sharding), list(parts), local, True, enable_x64=True)


def join_shards(buffers: Sequence[Any], aval: ShapedArray, sharding: Sharding) -> Any:
    """One array of XLA's from a buffer on each of this process's devices; nothing is copied."""
    return xe.ArrayImpl(aval, xla_sharding(sharding), list(buffers), committed=True, _skip_checks=True)


def shards_of(buffer: Any, aval: ShapedArray, devices: Sequence[Any]) -> list[Any]:
    """The parts of an array of XLA's, each of the given type, as arrays on one device each: these, in their order."""
    with _jax_not_imported():
        parts = list(buffer._arrays)
    single = backend().shardings
    return [
        xe.ArrayImpl(aval, single[device], [part], committed=True, _skip_checks=True)
        for part, device in zip(parts, devices, strict=True)
    ]


@contextlib.contextmanager
def _jax_not_imported() -> Iterator[None]:
    """jaxlib imports jax, where jax is installed, to split an array; here it finds none.

    A thread that begins to import jax in these microseconds would be refused.
    """
    if "jax" in sys.modules:
        yield
        return
    sys.modules["jax"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.modules.pop("jax", None)
