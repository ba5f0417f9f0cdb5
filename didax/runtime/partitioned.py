"""Programs on several devices: which devices, how the arguments are laid out, and what the results are.

A program runs on several devices where one of its arguments lies on them, or where it says so itself (a sharding
constraint). XLA's partitioner then cuts the program, and chooses itself how to split what has no stated layout.
Read next: `runtime/sharded.py` (the arrays), `xla/partition.py`, `runtime/compiled.py` (programs on one device).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

from didax.core import sharding as shardings
from didax.core.errors import message
from didax.core.jaxpr import Jaxpr, Var
from didax.core.memory import DEVICE
from didax.core.mesh import ONE_DEVICE, AbstractMesh, AnyMesh, Mesh, mesh_of_device
from didax.core.sharding import NamedSharding, PartitionSpec, checked_memory_kind
from didax.passes.memories import memories_of_results
from didax.primitives.shard_map import shard_map_p
from didax.primitives.sharding import memory_p, sharding_constraint_p
from didax.runtime.array import ConcreteArray, HostArray, argument_buffer, default_device, on_device
from didax.runtime.explicit import mesh_of
from didax.runtime.sharded import ShardedArray, place
from didax.xla.device_text import Partition

M = TypeVar("M", bound=AnyMesh)


class Asked(NamedTuple):
    """How an argument has to lie on devices; `where` says in errors which one it is."""

    sharding: NamedSharding
    where: str


def partition_of(
    jaxpr: Jaxpr, captured: Sequence[Any], args: Sequence[Any], asked: Sequence[Asked | None] = ()
) -> Partition | None:
    """Where the program runs on these values, one for each input; None for a single device.

    `asked` are the layouts that the last arguments have to have. ValueError where one of them was placed otherwise, and
    where the program and its arguments name different devices. Captured values follow arguments that were placed.
    """
    here = next((found for x in args if (found := _devices(x)) is not None), None)
    if here is not None:
        captured = [None if _devices(x) not in (None, here) else x for x in captured]
    args = [*captured, *args]
    layouts = [_layout(x) for x in args]
    for i, how in enumerate(asked, len(args) - len(asked)):
        if how is not None:
            check_placed(args[i], how)
            layouts[i] = how.sharding.constrained
    meshes = [*[layout.concrete_mesh for layout in layouts if layout is not None], *_meshes_in(jaxpr)]
    if not meshes and shardings.in_types:
        meshes = [mesh_of(mesh, ()) for mesh in _meshes_in(jaxpr, AbstractMesh)[:1]]
    memories: tuple[str | None, ...] = ()
    if shardings.in_memories:
        memories = memories_of_results(jaxpr, [None if s is None else s.kind for s in layouts])
    if not meshes and any(memories):
        meshes = [mesh_of_device(default_device() if here is None else here[0])]
    if not meshes:
        return None
    _check_devices(jaxpr, meshes, args)
    for kind in filter(None, dict.fromkeys(memories)):
        checked_memory_kind(kind, meshes[0].devices.flat)
    if shardings.in_types:
        # Where an argument leaves it to the partitioner, the partitioner chooses the layouts of the results, too.
        meshes = sorted(dict.fromkeys(meshes), key=lambda mesh: bool(mesh.explicit_axes))
        return Partition(meshes[0], tuple(layouts), tuple(meshes), _stated(jaxpr), memories)
    return Partition(meshes[0], tuple(layouts), results=_stated(jaxpr), memories=memories)


def _stated(jaxpr: Jaxpr) -> tuple[NamedSharding | None, ...]:
    """How each result lies, where the program says so; None where it does not."""
    said: dict[Var, NamedSharding] = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive is sharding_constraint_p:
            said[eqn.outvars[0]] = eqn.params["sharding"]
        elif eqn.primitive is memory_p and eqn.invars[0] in said:
            said[eqn.outvars[0]] = said[cast("Var", eqn.invars[0])]
        elif eqn.primitive is shard_map_p and set(eqn.params["axes"]) == set(eqn.params["mesh"].axis_names):
            laid_out = [NamedSharding(eqn.params["mesh"], spec) for spec in eqn.params["out_specs"]]
            said.update(zip(eqn.outvars, laid_out, strict=True))
    found = [said.get(x) if isinstance(x, Var) else None for x in jaxpr.outvars]
    return tuple([s if s is not None and _is_of_devices(s) else None for s in found])


def _is_of_devices(sharding: NamedSharding) -> bool:
    return isinstance(sharding.mesh, Mesh) and sharding.constrained is sharding


def check_placed(x: Any, asked: Asked) -> None:
    """ValueError where the user has placed an argument otherwise than asked."""
    found = x.sharding if getattr(x, "committed", True) and hasattr(x, "sharding") else None
    if found is None or asked.sharding.is_equivalent_to(found, x.ndim):
        return
    if asked.sharding.device_set == found.device_set and len(found.device_set) == 1:
        return
    raise ValueError(
        message(
            "An argument that was placed on devices lies there as in_shardings of jit says.",
            asked.where,
            f"in_shardings: {asked.sharding}",
            f"placed by:    {found}",
            fix="Leave its sharding out of in_shardings (None), or move it before: device_put(x, sharding).",
        )
    )


def _check_devices(jaxpr: Jaxpr, meshes: Sequence[Mesh], args: Sequence[Any]) -> None:
    """ValueError unless the meshes of a program, and what its arguments were placed on, are the same devices."""
    first = meshes[0]
    others = [tuple(mesh.devices.flat) for mesh in meshes if mesh is not first]
    others += [x.sharding.devices for x in args if isinstance(x, ConcreteArray) and x.committed]
    devices = tuple(first.devices.flat)
    for found in others:
        if found != devices:
            order = ", in the same order" if set(found) == first.device_set else ""
            raise ValueError(
                message(
                    f"The arrays and the meshes of one program are on the same devices{order}.",
                    f"program: {jaxpr.name or 'a program'}",
                    f"devices: {_ids(devices)}",
                    f"devices: {_ids(found)}",
                    fix="Use one mesh, or move the arrays: device_put(x, NamedSharding(mesh, spec)).",
                )
            )


def _ids(devices: Iterable[Any]) -> str:
    return ", ".join(map(str, devices))


def _devices(x: Any) -> tuple[Any, ...] | None:
    """The devices that an array, or a type in place of one, was placed on; None where nobody placed it."""
    if isinstance(x, ConcreteArray):
        return tuple(x.sharding.devices) if x.committed else None
    layout = _layout(x)
    return None if layout is None else tuple(layout.concrete_mesh.devices.flat)


def _layout(x: Any) -> NamedSharding | None:
    """How an array, or a `ShapeDtypeStruct` in place of one, lies on several devices or in memory of the host."""
    if isinstance(x, ConcreteArray) and not isinstance(x, ShardedArray | HostArray):
        return None
    sharding = getattr(x, "sharding", None)
    if getattr(sharding, "memory_kind", None) not in (None, DEVICE) and not isinstance(
        sharding, NamedSharding
    ):
        return _named(sharding)
    if not isinstance(sharding, NamedSharding) or not sharding.mesh.axis_names:
        return None  # an aval that no mesh splits has a mesh without axes
    return sharding


@functools.cache
def _named(sharding: Any) -> NamedSharding:
    """The sharding of one device, written as a sharding over a mesh of one device."""
    (device,) = sharding.device_set
    return NamedSharding(mesh_of_device(device), PartitionSpec(), memory_kind=sharding.memory_kind)


_known_meshes: WeakKeyDictionary[Jaxpr, dict[Any, list[Any]]] = WeakKeyDictionary()


def _meshes_in(jaxpr: Jaxpr, kind: type[M] = Mesh) -> list[M]:
    """The meshes of a kind, with devices or not, that a program names itself."""
    known = _known_meshes.setdefault(jaxpr, {})
    if kind not in known:
        known[kind] = list(dict.fromkeys(_search(jaxpr, kind)))
    return known[kind]


def _search(jaxpr: Jaxpr, kind: type[M]) -> Iterator[M]:
    for eqn in jaxpr.eqns:
        for value in eqn.params.values():
            mesh = value.mesh if isinstance(value, NamedSharding) else value
            if isinstance(mesh, kind):
                yield mesh
        for inner in eqn.jaxprs:
            yield from _meshes_in(inner, kind)


def buffers_for(layouts: Sequence[NamedSharding], args: Sequence[Any]) -> list[Any]:
    """XLA's arrays for the arguments, laid out as the program wants them."""
    buffers: list[Any] = []
    for x, layout in zip(args, layouts, strict=True):
        buffer = x._buffer if type(x) is ShardedArray and x.sharding is layout else None  # pyright: ignore[reportPrivateUsage]
        if layout.mesh.axis_names == ONE_DEVICE:
            buffer = _on_device_alone(x, layout)
        # XLA would read the memory of a deleted array without noticing that it is gone.
        if buffer is None or buffer.is_deleted():
            buffer = place(x, layout).device_buffer()
        buffers.append(buffer)
    return buffers


def _on_device_alone(x: Any, layout: NamedSharding) -> Any:
    """The buffer of an argument that lies on this one device, or can be copied there at once; otherwise None."""
    if isinstance(x, ShardedArray | HostArray):
        return x.device_buffer() if _layout(x) is layout else None
    return argument_buffer(x, layout.concrete_mesh.devices.flat[0]) if layout.kind is None else None


def results_of(executable: Any, outs: Sequence[Any]) -> list[ConcreteArray]:
    """The results of a run as arrays."""
    if executable.partition.mesh.axis_names == ONE_DEVICE:
        return list(map(on_device, executable.out_avals, outs))
    return [
        ShardedArray(aval, out, sharding)
        for aval, out, sharding in zip(executable.out_avals, outs, executable.out_shardings, strict=True)
    ]
