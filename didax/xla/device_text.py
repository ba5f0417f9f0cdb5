"""Programs on several devices: how they are laid out, and what the text of their modules says about that.

`Partition` is the mesh of a program, with a sharding for each argument. `DeviceWriter` writes meshes, shardings in
Shardy's words, groups of devices and numbers of channels into a module. `Collective` is an exchange between devices in
the program that XLA makes of it (`collectives.py`). Nothing here loads jaxlib.
Read next: `core/sharding.py` (what users say), `partition.py` (arrays and compiled programs).
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core.avals import ShapedArray
from didax.core.errors import message
from didax.core.mesh import ONE_DEVICE, AxisType, Mesh
from didax.core.primitive import Primitive
from didax.core.sharding import NamedSharding, PartitionSpec, entry_names

UINT32 = ShapedArray((), np.dtype(np.uint32))


@dataclasses.dataclass(frozen=True, slots=True)
class Partition:
    """The mesh of a program, and how each of its arguments lies on it; None leaves an argument to XLA."""

    mesh: Mesh
    arguments: tuple[NamedSharding | None, ...]
    meshes: tuple[Mesh, ...] = ()  # all that the program and its arguments name
    results: tuple[NamedSharding | None, ...] = ()  # where the program states them
    memories: tuple[str | None, ...] = ()  # of the results: kinds; None for that of the devices

    @property
    def is_one_device(self) -> bool:
        """Whether the program runs on one device only, which its arguments or results name."""
        return self.mesh.axis_names == ONE_DEVICE

    @property
    def argument_memories(self) -> list[str | None]:
        """The kinds of memory that the arguments lie in; None for that of the devices."""
        return [None if sharding is None else sharding.kind for sharding in self.arguments]

    @property
    def devices(self) -> tuple[Any, ...]:
        """The devices, in the order in which XLA numbers them."""
        return tuple(self.mesh.devices.flat)


class Manual(NamedTuple):
    """The mesh of the `shard_map` whose body is being written, and the manual axes of all that it is in."""

    mesh: Mesh
    axes: frozenset[str]


class DeviceWriter:
    """Writes what the module of a program on several devices says of them: meshes, groups, numbers of channels."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.manual: Manual | None = None
        self._meshes: dict[Mesh, str] = {}
        self._channels = 0

    @property
    def partitioned_here(self) -> bool:
        """Whether the partitioner cuts what is being written: not where the function decides along every axis."""
        return self.partitioned_axes > 0

    @property
    def partitioned_axes(self) -> int:
        """Along how many axes of the mesh the partitioner cuts what is being written."""
        mesh, axes = self._surroundings()
        return sum(size > 1 for name, size in mesh.shape_tuple if name not in axes)

    @property
    def num_processes(self) -> int:
        """How many processes have devices of the program."""
        return len({device.process_index for device in self.partition.devices})

    def header(self, name: str) -> str:
        """The opening of the module, with the meshes that its text names."""
        devices = self.partition.devices
        count = f"mhlo.num_partitions = {len(devices)} : i32, mhlo.num_replicas = 1 : i32"
        declared = [_mesh_text(mesh_name, mesh, devices) for mesh, mesh_name in self._meshes.items()]
        return "\n".join([f"module @{name} attributes {{{count}}} {{", *declared])

    def argument_attributes(self, avals: Sequence[ShapedArray]) -> list[list[str]]:
        """For each argument of the program, what its declaration says of where it lies."""
        return self._attributes(self.partition.arguments, avals, self.partition.argument_memories)

    def result_attributes(self, avals: Sequence[ShapedArray]) -> list[list[str]]:
        """The same for the results: a constraint alone is not kept where the program has meshes of several shapes."""
        unknown = [None] * len(avals)
        return self._attributes(self.partition.results or unknown, avals, self.partition.memories or unknown)

    def _attributes(
        self,
        shardings: Sequence[NamedSharding | None],
        avals: Sequence[ShapedArray],
        memories: Sequence[str | None],
    ) -> list[list[str]]:
        found: list[list[str]] = []
        for sharding, aval, kind in zip(shardings, avals, memories, strict=True):
            said = [] if kind is None else [f'mhlo.memory_kind = "{kind}"']
            if sharding is not None:
                lies = self.sharding(sharding, aval.physical.ndim)
                said.append(f"sdy.sharding = #sdy.sharding<{lies}>")
            found.append(said)
        return found

    def mesh(self, mesh: Mesh) -> str:
        """The name of a mesh in this module."""
        mesh = mesh.update(axis_types=(AxisType.Auto,) * len(mesh.axis_names))  # XLA knows no types of axes
        return self._meshes.setdefault(mesh, f"mesh{len(self._meshes) or ''}")

    def sharding(self, sharding: NamedSharding, ndim: int, free: Sequence[str] = ()) -> str:
        """How an array with `ndim` axes lies, as Shardy writes it: `@mesh, [{"x"}, {}]`.

        Over the mesh axes that are `free` the partitioner may split it further.
        """
        sharding.entries(ndim)  # checks the number
        entries = [*sharding.spec, *[None] * (ndim - len(sharding.spec))]
        mesh = sharding.concrete_mesh
        if not free:
            return self._split(mesh, map(_entry_text, entries))
        dims = [f"{{{', '.join([*map(quoted_name, entry_names(e)), '?'])}}}" for e in entries]
        decided = {*free, *sharding.axes, *(self.manual.axes if self.manual is not None else ())}
        whole = [quoted_name(n) for n in mesh.axis_names if n not in decided]
        replicated = f", replicated={{{', '.join(whole)}}}" if whole else ""
        return self._split(mesh, dims) + replicated

    def _split(self, mesh: Mesh, dims: Iterable[str]) -> str:
        return f"@{self.mesh(mesh)}, [{', '.join(dims)}]"

    def kept_whole(self, ctx: Any, x: Any, axes: Sequence[int]) -> Any:
        """The value, which the partitioner may split, but not along `axes`."""
        dims = ["{}" if axis in axes else "{?}" for axis in range(x.aval.ndim)]
        where = self._split(self._surroundings().mesh, dims)
        return ctx.emit(f"sdy.sharding_constraint {x} <{where}> : {x.type}", x.aval)

    def manual_sharding(self, mesh: Mesh, axes: Sequence[str], spec: PartitionSpec, ndim: int) -> str:
        """How an operand or result of a `shard_map` lies; along mesh axes other than `axes` the partitioner decides."""
        opened = ["?"] if len(axes) < len(mesh.axis_names) else []
        entries = [*map(entry_names, spec), *[()] * (ndim - len(spec))]
        dims = [f"{{{', '.join([*map(quoted_name, names), *opened])}}}" for names in entries]
        return f"<{self._split(mesh, dims)}>"

    def whole_computation(
        self, given: Sequence[Any], inner: Sequence[Any], returned: Sequence[Any], out_types: str, lines: str
    ) -> str:
        """An operation that every device does on whole values, or on the parts that a `shard_map` around it cuts.

        `inner` are the names of the values `given` within.
        """
        mesh, outer = self._surroundings()
        whole = [f"<{self._split(mesh, ['{}'] * x.aval.ndim)}>" for x in given]
        outs = [f"<{self._split(mesh, ['{}'] * aval.ndim)}>" for aval in returned]
        axes = ", ".join(quoted_name(name) for name in mesh.axis_names if name not in outer)
        header = ", ".join(f"{x}: {x.type}" for x in inner)
        return (
            f"sdy.manual_computation({', '.join(map(str, given))}) in_shardings=[{', '.join(whole)}] "
            f"out_shardings=[{', '.join(outs)}] manual_axes={{{axes}}} ({header}) {{\n{lines}\n}} : "
            f"({', '.join(x.type for x in given)}) -> ({out_types})"
        )

    def sharers(self) -> list[list[int]]:
        """The groups of devices that have the same values here, where values are whole."""
        mesh, outer = self._surroundings()
        return self._groups(mesh, [name for name in mesh.axis_names if name not in outer])

    def callers(self) -> np.ndarray[Any, Any]:
        """Who makes a call that all `sharers` come to, in a row for each device.

        The device's number, the number of the first of its group, how many of the group its process has, and whether
        its process has the first.
        """
        devices = self.partition.devices
        processes = [device.process_index for device in devices]
        rows = np.empty((len(devices), 4), UINT32.dtype)
        for group in self.sharers():
            here = Counter(processes[i] for i in group)
            for i in group:
                rows[i] = i, group[0], here[processes[i]], processes[i] == processes[group[0]]
        return rows

    def groups(self, primitive: Primitive, axes: Sequence[str]) -> list[list[int]]:
        """The devices that a collective over manual axes joins: groups of numbers, the first axis varying slowest."""
        return self._groups(self._manual_mesh(primitive, axes), axes)

    def _groups(self, mesh: Mesh, axes: Sequence[str]) -> list[list[int]]:
        numbers = self._device_numbers(mesh)
        along = [mesh.axis_names.index(name) for name in axes]
        rest = [i for i in range(numbers.ndim) if i not in along]
        size = math.prod(mesh.axis_sizes[i] for i in along)
        return numbers.transpose([*rest, *along]).reshape(-1, size).tolist()

    def positions(self, primitive: Primitive, axis: str) -> np.ndarray[Any, Any]:
        """For the number of each device, its position along a manual axis."""
        mesh = self._manual_mesh(primitive, [axis])
        places = np.empty(mesh.size, np.int32)
        positions = np.indices(mesh.axis_sizes)[mesh.axis_names.index(axis)]
        places[self._device_numbers(mesh).ravel()] = positions.ravel()
        return places

    def device_number(self, ctx: Any) -> Any:
        """The number of the running device, which has a meaning only where every axis is manual."""
        assert self.manual is not None
        mesh, axes = self.manual
        left = ", ".join(quoted_name(name) for name in mesh.axis_names if name not in axes)
        inner = ctx.region() if left else ctx
        number = inner.emit("stablehlo.partition_id : tensor<ui32>", UINT32)
        if not left:
            return number
        body = f"{{\n{inner.lines[0]}\nsdy.return {number} : {number.type}\n}}"
        return ctx.emit(
            f"sdy.manual_computation() in_shardings=[] out_shardings=[<@{self.mesh(mesh)}, []>] "
            f"manual_axes={{{left}}} () {body} : () -> {number.type}",
            UINT32,
        )

    def channel(self) -> str:
        """The attribute that tells one communication of the module from the others."""
        self._channels += 1
        return f"channel_handle = #stablehlo.channel_handle<handle = {self._channels}, type = 1>"

    def _surroundings(self) -> Manual:
        """The mesh of what is being written, and the axes along which a `shard_map` cuts values here."""
        return self.manual if self.manual is not None else Manual(self.partition.mesh, frozenset())

    def _device_numbers(self, mesh: Mesh) -> np.ndarray[Any, Any]:
        number = {device: i for i, device in enumerate(self.partition.devices)}
        return np.array([number[device] for device in mesh.devices.flat]).reshape(mesh.devices.shape)

    def _manual_mesh(self, primitive: Primitive, axes: Sequence[str]) -> Mesh:
        if self.manual is None or not self.manual.axes.issuperset(axes):
            raise unmapped(primitive, axes)
        return self.manual.mesh


def of_first_device(ctx: Any, devices: DeviceWriter, is_first: Any, x: Any) -> Any:
    """The value that the first of the `sharers` has, on all of them: bits are exchanged, so that no digit differs."""
    dtype = x.aval.dtype
    if dtype.kind == "c":
        part = x.aval.update(dtype=np.dtype(f"f{dtype.itemsize // 2}"))
        parts = [
            of_first_device(ctx, devices, is_first, ctx.op(name, [x], part)) for name in ("real", "imag")
        ]
        return ctx.op("complex", parts, x.aval)
    word = x.aval.update(dtype=np.dtype(f"u{dtype.itemsize}"))
    is_bool = dtype.kind == "b"
    bits = ctx.convert(x, word.dtype) if is_bool else ctx.op("bitcast_convert", [x], word)
    bits = ctx.select(is_first, bits, ctx.constant(0, word))
    args, header = ctx.block([ShapedArray((), word.dtype)] * 2)
    total = ctx.region()
    body = total.body([total.op("add", args)], header)
    groups = devices.sharers()
    bits = ctx.emit(
        f'"stablehlo.all_reduce"({bits}) <{{replica_groups = dense<{groups}> : '
        f"tensor<{len(groups)}x{len(groups[0])}xi64>, {devices.channel()}, use_global_device_ids}}> "
        f"({body}) : ({bits.type}) -> {bits.type}",
        word,
    )
    return ctx.convert(bits, dtype) if is_bool else ctx.op("bitcast_convert", [bits], x.aval)


def unmapped(primitive: Primitive, axes: Sequence[str]) -> NameError:
    """The error of a collective whose axis nobody maps where it runs."""
    return NameError(
        message(
            f"{primitive.name} runs outside of the function that maps its axis.",
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


def quoted_name(name: str) -> str:
    """The name of a mesh axis, as Shardy writes it."""
    return f'"{name}"'


def _entry_text(entry: Any) -> str:
    if entry is PartitionSpec.UNCONSTRAINED:
        return "{?}"
    return f"{{{', '.join(map(quoted_name, entry_names(entry)))}}}"


Groups = tuple[tuple[int, ...], ...]


class Collective(NamedTuple):
    """One exchange between devices in a compiled program.

    Attributes:
      kind: 'all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'collective_permute', ...
      groups: the numbers of the devices that exchange with each other, in the order of the mesh; for a
        collective_permute the pairs (from, to).
      operand_bytes, result_bytes: what a device puts in, and what it has afterwards.
      bytes: what a device sends at least, each time; for a ragged_all_to_all, what it sends at most.
      times: how often it happens in a run of the program; None where that depends on values, in a `while_loop` or
        behind a branch.
      line: the line of the user's program, 'model.py:12'; None where XLA does not tell.
      name: the scopes and the operation that it comes from, 'loss/dot_general'.

    >>> print(Collective("all_reduce", ((0, 1),), 8, 8, 8, 1, "model.py:12", "loss/psum"))
    all_reduce of 8 bytes among 2 devices, once: each sends 8 bytes
    """

    kind: str
    groups: Groups
    operand_bytes: int
    result_bytes: int
    bytes: int
    times: int | None
    line: str | None
    name: str

    def __str__(self) -> str:
        sizes = sorted({len(group) for group in self.groups})
        among = (
            f"{len(self.groups)} pairs of devices"
            if self.kind == "collective_permute"
            else f"{' or '.join(map(str, sizes))} devices"
        )
        often = (
            "times unknown" if self.times is None else "once" if self.times == 1 else f"{self.times} times"
        )
        return (
            f"{self.kind} of {self.operand_bytes} bytes among {among}, {often}: each sends {self.bytes} bytes"
        )
