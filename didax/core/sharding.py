"""Shardings: which part of an array each device holds.

    NamedSharding(mesh, PartitionSpec("data", None))   axis 0 is split over the mesh axis "data", axis 1 is not split

Equal shardings are one object, so that the keys of compiled programs compare pointers. Nothing here knows XLA.
Read next: `xla/partition.py` (shardings in XLA's words), `runtime/sharded.py` (arrays that lie on several devices).
"""

from __future__ import annotations

import itertools
import math
from abc import ABCMeta
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, cast
from weakref import WeakValueDictionary

from didax.core.avals import ShapedArray
from didax.core.errors import api_boundary, message
from didax.core.given import give
from didax.core.memory import DEVICE
from didax.core.mesh import ONE_DEVICE, AbstractMesh, AnyMesh, Mesh, current_mesh, is_local, without_devices

Index = tuple[slice, ...]
Parts = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
# Each of these is False until the first such use, so that programs and interpreters need not ask every value.
in_use = False  # a sharding over the devices of a mesh, or in a memory, was made
in_memories = False  # a memory other than the device's own was named
in_types = False  # a mesh with explicit axes was used


class DuplicateSpecError(ValueError):
    """A spec names a mesh axis twice.

    >>> import didax as dx
    >>> dx.NamedSharding(dx.make_mesh((1,), ("data",)), dx.P("data", "data"))
    Traceback (most recent call last):
    didax.core.sharding.DuplicateSpecError: A mesh axis splits at most one axis of an array.
      spec: P('data', 'data'), axis 'data'...
    """


class IndivisibleError(ValueError):
    """The length of an array's axis is no multiple of the number of parts.

    >>> import didax as dx
    >>> mesh = dx.sharding.AbstractMesh((2,), ("data",))
    >>> dx.NamedSharding(mesh, dx.P("data")).shard_shape((3,))
    Traceback (most recent call last):
    didax.core.sharding.IndivisibleError: ...
    """


class _Unconstrained:
    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "_UNCONSTRAINED"


_UNCONSTRAINED = _Unconstrained()

Entry = str | tuple[str, ...] | None | _Unconstrained


class PartitionSpec:
    """For each axis of an array, the mesh axes it is split over: None, a name, or several names, the slowest first.

    Axes beyond the last entry are not split. `PartitionSpec.UNCONSTRAINED` leaves an axis to the partitioner.
    `unreduced` and `reduced` are sets of mesh axes over which a sum is left open; no sharding accepts such axes.
    ValueError where they name an axis that another entry names.

    >>> PartitionSpec("data", None, ("x", "y"))
    P('data', None, ('x', 'y'))
    >>> PartitionSpec(("data",)) == PartitionSpec("data")
    True
    """

    __slots__ = ("_entries", "reduced", "unreduced")
    UNCONSTRAINED: ClassVar[Any] = _UNCONSTRAINED
    unreduced: frozenset[str]
    reduced: frozenset[str]

    @api_boundary
    def __init__(self, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()):
        self._entries = tuple(_entry(p) for p in partitions)
        self.unreduced, self.reduced = _open_sums(self._entries, unreduced, reduced)

    @property
    def partitions(self) -> tuple[Any, ...]:
        """The entries as a tuple."""
        return self._entries

    def update(
        self, partitions: Iterable[Any] | None = None, unreduced: Any = None, reduced: Any = None
    ) -> PartitionSpec:
        """A spec with other entries, or other sums left open."""
        return PartitionSpec(
            *(self._entries if partitions is None else partitions),
            unreduced=self.unreduced if unreduced is None else unreduced,
            reduced=self.reduced if reduced is None else reduced,
        )

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, i: Any) -> Any:
        return self._entries[i]

    def index(self, value: Any) -> int:
        """The position of the first entry that equals `value`."""
        return self._entries.index(_entry(value))

    def count(self, value: Any) -> int:
        """How many entries equal `value`."""
        return self._entries.count(_entry(value))

    def __add__(self, other: Any) -> PartitionSpec:
        if not isinstance(other, PartitionSpec | tuple):
            return NotImplemented
        return PartitionSpec(*self, *cast("Iterable[Any]", other))

    def __radd__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*other, *self) if isinstance(other, tuple) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PartitionSpec)
            and self._entries == other._entries
            and self.unreduced == other.unreduced
            and self.reduced == other.reduced
        )

    def __hash__(self) -> int:
        return hash((PartitionSpec, self._entries, self.unreduced, self.reduced))

    def __repr__(self) -> str:
        if not self.has_open_sums:
            return f"P{self._entries!r}"
        texts = [*map(repr, self._entries)]
        for kind, names in ("unreduced", self.unreduced), ("reduced", self.reduced):
            if names:
                texts.append(f"{kind}={{{', '.join(map(repr, sorted(names)))}}}")
        return f"P({', '.join(texts)})"

    def __reduce__(self) -> Any:
        return _spec, (self._entries, self.unreduced, self.reduced)

    @property
    def has_open_sums(self) -> bool:
        """Whether the spec says of a mesh axis that a sum over it is left open."""
        return bool(self.unreduced or self.reduced)


def _spec(entries: tuple[Any, ...], unreduced: frozenset[str], reduced: frozenset[str]) -> PartitionSpec:
    return PartitionSpec(*entries, unreduced=unreduced, reduced=reduced)


def _open_sums(
    entries: tuple[Any, ...], unreduced: Any, reduced: Any
) -> tuple[frozenset[str], frozenset[str]]:
    if not unreduced and not reduced:
        return _NONE, _NONE
    named = [name for entry in entries for name in entry_names(entry)]
    for kind, names in ("unreduced", unreduced), ("reduced", reduced):
        if not isinstance(names, set | frozenset):
            raise TypeError(
                message(
                    f"{kind} of a PartitionSpec is a set of mesh axes.",
                    f"got: {names!r:.200}",
                    fix=f"Write {kind}={{...}}.",
                )
            )
        for name in cast("set[Any]", names):
            if not isinstance(name, str) or name in named:
                raise ValueError(
                    message(
                        "A PartitionSpec names a mesh axis once.",
                        f"entries: {entries}, unreduced: {unreduced}, reduced: {reduced}",
                        fix=f"Leave {name!r} out of one of them.",
                    )
                )
            named.append(name)
    return frozenset(unreduced), frozenset(reduced)


_NONE: frozenset[str] = frozenset()


def _entry(partition: Any) -> Any:
    """An entry in its one form: a tuple of one name is the name, an empty tuple None."""
    if partition is None or partition is _UNCONSTRAINED or isinstance(partition, str):
        return partition
    names: tuple[Any, ...] = tuple(partition) if isinstance(partition, tuple | list) else (partition,)  # type: ignore
    if all(isinstance(name, str) for name in names):
        return names if len(names) > 1 else names[0] if names else None
    raise TypeError(
        message(
            "An entry of a PartitionSpec is None, the name of a mesh axis, or a tuple of names.",
            f"got: {partition!r}",
            fix="Name mesh axes by strings.",
        )
    )


def entry_names(entry: Any) -> tuple[str, ...]:
    """The mesh axes of an entry, the slowest first."""
    if entry is None or entry is _UNCONSTRAINED:
        return ()
    return (entry,) if isinstance(entry, str) else entry


class Sharding(metaclass=ABCMeta):  # noqa: B024  # for `register`, without abstract methods
    """How an array lies on devices: which of them hold it, and which part each one holds.

    XLA's class for one device cannot have two bases, so `didax.xla.client` registers it.

    >>> import didax as dx
    >>> s = dx.NamedSharding(dx.sharding.AbstractMesh((2,), ("data",)), dx.P("data"))
    >>> isinstance(s, dx.sharding.Sharding), s.shard_shape((4, 3))
    (True, (2, 3))
    """

    __slots__ = ("__weakref__",)

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that the array lies in; None without devices."""
        return DEVICE

    @property
    def device_set(self) -> set[Any]:
        """The devices that hold a part of the array."""
        return set(self.devices)

    @property
    def devices(self) -> tuple[Any, ...]:
        """The devices, in the order in which XLA numbers them."""
        raise NotImplementedError

    @property
    def num_devices(self) -> int:
        """How many devices hold a part of the array."""
        return len(self.devices)

    @property
    def addressable_devices(self) -> set[Any]:
        """The devices of this process that hold a part of the array."""
        return {d for d in self.devices if is_local(d)}

    @property
    def _addressable_device_assignment(self) -> tuple[Any, ...]:
        """The devices of this process, in their order, under the name that orbax-checkpoint asks for."""
        return tuple(d for d in self.devices if is_local(d))

    @property
    def has_addressable_devices(self) -> bool:
        """Whether a device of this process holds a part of the array."""
        return any(map(is_local, self.devices))

    @property
    def is_fully_addressable(self) -> bool:
        """Whether every device that holds a part belongs to this process."""
        return all(map(is_local, self.devices))

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        raise NotImplementedError

    def indices(self, shape: tuple[int, ...]) -> list[Index]:
        """The part of an array of this shape that each device holds, in the order of `devices`."""
        raise NotImplementedError

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the part that each device holds of an array of this shape."""
        raise NotImplementedError

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """For each device, the part of an array of this shape that the device holds."""
        return dict(zip(self.devices, self.indices(tuple(global_shape)), strict=True))

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """For each device of this process, the part of an array of this shape that the device holds."""
        return {d: index for d, index in self.devices_indices_map(global_shape).items() if is_local(d)}

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Whether an array with `ndim` axes lies the same way by both shardings."""
        if self is other:
            return True
        if not isinstance(other, Sharding) or self.devices != other.devices:
            return False
        if self.memory_kind != other.memory_kind:
            return False
        return self.parts(ndim) == other.parts(ndim)

    def parts(self, ndim: int) -> Parts:
        """Into how many parts each of `ndim` axes is cut, and for each device which part of each axis is its own."""
        raise NotImplementedError

    def with_memory_kind(self, kind: str) -> Sharding:
        """The same layout in memory of another kind: 'device', or one that `device.addressable_memories()` names."""
        raise NotImplementedError


def checked_memory_kind(kind: str | None, devices: Iterable[Any]) -> str | None:
    """The kind of memory, None for that of the devices; ValueError for one that a device does not have."""
    is_text = isinstance(kind, str)
    if kind is None or (is_text and kind == DEVICE):
        return None
    for device in devices:
        known = [memory.kind for memory in device.addressable_memories()]
        if not is_text or kind not in known:
            rule = "An array lies in a memory that its device can reach."
            raise ValueError(
                message(
                    rule,
                    f"memory kind: {kind!r}, device: {device}",
                    f"memories of the device: {', '.join(known)}",
                    fix="Name one of these, or leave the memory kind out.",
                )
            )
    use_memories()
    return kind


def use_memories() -> None:
    """Called before the first value lies elsewhere than in the memory of its device."""
    global in_use, in_memories
    in_use = in_memories = True


class NamedSharding(Sharding):
    """A layout by a mesh, and a spec that says over which mesh axes each axis of an array is split.

    ValueError where the spec names an axis that the mesh does not have; DuplicateSpecError where it names one twice.

    >>> import didax as dx
    >>> NamedSharding(Mesh(dx.devices()[:1], ("x",)), PartitionSpec("x")).shard_shape((4, 2))
    (4, 2)
    """

    __slots__ = ("_parts", "_typed", "kind", "memory_kind", "mesh", "spec")  # pyright: ignore[reportIncompatibleMethodOverride]
    mesh: AnyMesh
    spec: PartitionSpec
    kind: str | None  # of memory; None for that of the devices
    memory_kind: str | None  # the same by its name; None without devices
    _parts: dict[int, Parts]
    _typed: dict[int, NamedSharding | None]

    def __new__(cls, mesh: AnyMesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> NamedSharding:
        if not isinstance(cast(Any, mesh), AnyMesh) or not isinstance(cast(Any, spec), PartitionSpec):
            rule = "A NamedSharding has a mesh and a PartitionSpec."
            fix = "Pass NamedSharding(mesh, PartitionSpec(...))."
            raise TypeError(message(rule, f"mesh: {mesh!r:.200}", f"spec: {spec!r:.200}", fix=fix))
        kind = None if memory_kind == DEVICE else memory_kind
        key = mesh, spec, kind
        found = _named.get(key)
        if found is None:
            global in_use, in_types
            check_spec(mesh, spec)
            if kind is not None:
                checked_memory_kind(kind, mesh.devices.flat if isinstance(mesh, Mesh) else ())
            in_use = in_use or isinstance(mesh, Mesh)
            in_types = in_types or bool(mesh.explicit_axes)
            found = object.__new__(cls)
            found.mesh, found.spec, found.kind, found._parts, found._typed = mesh, spec, kind, {}, {}
            found.memory_kind = kind or (DEVICE if isinstance(mesh, Mesh) else None)
            _named[key] = found
        return found

    def __reduce__(self) -> Any:
        return _named_sharding, (self.mesh, self.spec, self.kind)

    def __repr__(self) -> str:
        kind = f", memory_kind={self.memory_kind}" if self.memory_kind else ""
        return f"NamedSharding(mesh={self.mesh}, spec={self.spec}{kind})"

    def update(
        self, *, mesh: AnyMesh | None = None, spec: Any = None, memory_kind: str | None = None
    ) -> NamedSharding:
        """A sharding with another mesh, spec or kind of memory."""
        spec = self.spec if spec is None else spec
        return NamedSharding(
            mesh or self.mesh,
            spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec),
            memory_kind=memory_kind or self.kind,
        )

    def with_memory_kind(self, kind: str) -> NamedSharding:
        """The same layout in memory of another kind: 'device', or one that `device.addressable_memories()` names."""
        return self.update(memory_kind=kind)

    @property
    def on_device(self) -> NamedSharding:
        """The same layout in the memory of the devices."""
        return self if self.kind is None else self.update(memory_kind=DEVICE)

    def in_types(self, ndim: int) -> NamedSharding | None:
        """What the type of an array with `ndim` axes says of this sharding: the entries of explicit mesh axes.

        None where it splits the array over no such axis.
        """
        if ndim in self._typed:
            return self._typed[ndim]
        explicit = self.mesh.explicit_axes
        spec = [tuple(n for n in names if n in explicit) for names in self.entries(ndim)]
        found = NamedSharding(self.mesh.abstract_mesh, PartitionSpec(*spec)) if any(spec) else None
        self._typed[ndim] = found
        return found

    def with_entry(self, axis: int, names: Any = None) -> NamedSharding:
        """The sharding of an array with one more axis, which is split over mesh axes."""
        return self.update(spec=(*self.spec[:axis], names, *self.spec[axis:]))

    def without_entry(self, axis: int) -> NamedSharding:
        """The sharding of one element along an axis: that of the array, without the axis."""
        return self.update(spec=(*self.spec[:axis], *self.spec[axis + 1 :]))

    def dims_text(self, lengths: Iterable[str]) -> list[str]:
        """Lengths of axes as types show them: `8@x`, or `8@(x,y)`."""
        texts: list[str] = []
        for length, names in zip(lengths, map(entry_names, self.spec), strict=True):
            joined = names[0] if len(names) == 1 else f"({','.join(names)})"
            texts.append(f"{length}@{joined}" if names else length)
        return texts

    def of_rank(self, ndim: int) -> NamedSharding:
        """The same layout of arrays with `ndim` axes, in a spec with an entry for each axis."""
        left = ndim - len(self.spec)
        return self.update(spec=(*self.spec, *[None] * left)) if left > 0 else self

    @property
    def constrained(self) -> NamedSharding:
        """The sharding in which axes that were left to the partitioner are not split."""
        if PartitionSpec.UNCONSTRAINED not in self.spec.partitions:
            return self
        return self.update(spec=[None if e is PartitionSpec.UNCONSTRAINED else e for e in self.spec])

    @property
    def devices(self) -> tuple[Any, ...]:
        """The devices, in the order in which XLA numbers them."""
        return tuple(self.concrete_mesh.devices.flat)

    @property
    def num_devices(self) -> int:
        """How many devices hold a part of the array."""
        return self.mesh.size

    @property
    def is_one_device(self) -> bool:
        """Whether the mesh stands for a device alone."""
        return self.mesh.axis_names == ONE_DEVICE

    @property
    def concrete_mesh(self) -> Mesh:
        """The mesh, which has devices; ValueError for an abstract one."""
        if not isinstance(self.mesh, Mesh):
            raise ValueError(without_devices(self.mesh))
        return self.mesh

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        sizes = self.mesh.shape
        return all(sizes[name] == 1 for name in self.axes)

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes over which an array is split."""
        return tuple(name for entry in self.spec for name in entry_names(entry))

    def entries(self, ndim: int, *where: str) -> tuple[tuple[str, ...], ...]:
        """The mesh axes over which each of `ndim` axes is split."""
        if ndim < len(self.spec):
            raise ValueError(
                message(
                    "A PartitionSpec has at most one entry for each axis of the array.",
                    *where,
                    f"spec: {self.spec}, with {len(self.spec)} entries; the array has {ndim} axes",
                    fix="Leave entries out of the spec, or give the array more axes.",
                )
            )
        return (*map(entry_names, self.spec), *[()] * (ndim - len(self.spec)))

    def parts(self, ndim: int) -> Parts:
        """Into how many parts each of `ndim` axes is cut, and for each device which part of each axis is its own."""
        found = self._parts.get(ndim)
        if found is None:
            found = self._parts[ndim] = _parts_by(self.mesh, self.entries(ndim))
        return found

    def check_shape(self, shape: Sequence[int], *where: str) -> None:
        """IndivisibleError unless an array of this shape can be cut into equal parts; `where` says what it is."""
        for axis, (length, names) in enumerate(zip(shape, self.entries(len(shape), *where), strict=True)):
            sizes = [self.mesh.shape[name] for name in names]
            if length % math.prod(sizes):
                split = " * ".join(f"{size} ({name!r})" for name, size in zip(names, sizes, strict=True))
                total = f" = {math.prod(sizes)}" if len(sizes) > 1 else ""
                raise IndivisibleError(
                    message(
                        "An axis is split over devices in equal parts.",
                        *where,
                        f"shape: {tuple(shape)}, axis {axis} has length {length}; parts: {split}{total}; "
                        f"{length} % {math.prod(sizes)} = {length % math.prod(sizes)}",
                        f"spec: {self.spec}, mesh: {self.mesh}",
                        fix="Pad the axis to a multiple, or do not split it.",
                    )
                )

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the part that each device holds of an array of this shape."""
        self.check_shape(global_shape)
        counts, _ = self.parts(len(global_shape))
        return tuple(n // count for n, count in zip(global_shape, counts, strict=True))

    def indices(self, shape: tuple[int, ...]) -> list[Index]:
        """The part of an array of this shape that each device holds, in the order of `devices`."""
        piece = self.shard_shape(shape)
        counts, places = self.parts(len(shape))
        return [
            tuple(
                slice(k * n, (k + 1) * n, None) if count > 1 else slice(None)
                for k, n, count in zip(place, piece, counts, strict=True)
            )
            for place in places
        ]


_named: WeakValueDictionary[Any, NamedSharding] = WeakValueDictionary()


def _named_sharding(mesh: AnyMesh, spec: PartitionSpec, kind: str | None) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind=kind)


def check_spec(mesh: AnyMesh, spec: PartitionSpec) -> None:
    """ValueError unless the mesh has every axis that the spec names, and the spec names each once.

    NotImplementedError where the spec leaves sums open.
    """
    if spec.has_open_sums:
        raise NotImplementedError(
            message(
                "The sums in arrays are finished: none is left open over a mesh axis.",
                f"spec: {spec}",
                fix="Leave unreduced= and reduced= out: the sum is then finished where it is computed.",
            )
        )
    names = [name for entry in spec for name in entry_names(entry)]
    for name in names:
        if name not in mesh.axis_names:
            rule = "A PartitionSpec names axes of its mesh."
            raise ValueError(
                message(
                    rule,
                    f"spec: {spec}, axis {name!r}; the mesh has {mesh.axis_names}",
                    fix="Correct the name.",
                )
            )
        if names.count(name) > 1:
            rule = "A mesh axis splits at most one axis of an array."
            raise DuplicateSpecError(message(rule, f"spec: {spec}, axis {name!r}", fix="Name the axis once."))


def _parts_by(mesh: AnyMesh, entries: Sequence[tuple[str, ...]]) -> Parts:
    sizes = mesh.shape
    counts = tuple(math.prod(sizes[name] for name in names) for names in entries)
    places: list[tuple[int, ...]] = []
    for position in itertools.product(*map(range, mesh.axis_sizes)):
        at = dict(zip(mesh.axis_names, position, strict=True))
        place: list[int] = []
        for names in entries:
            k = 0
            for name in names:
                k = k * sizes[name] + at[name]
            place.append(k)
        places.append(tuple(place))
    return counts, tuple(places)


def _sharding_of_type(aval: ShapedArray) -> NamedSharding:
    if aval.layout is not None:
        return aval.layout
    mesh = current_mesh() or AbstractMesh((), ())
    return NamedSharding(mesh.abstract_mesh, PartitionSpec(*[None] * aval.ndim))


give(ShapedArray, "sharding", __name__)(
    property(_sharding_of_type, doc="How the array is split over explicit mesh axes of the mesh in force.")
)
