"""Programs on several devices: which devices, how the arguments are laid out, and what the results are.

A program runs on several devices where one of its arguments lies on them, or where it says so itself (a sharding
constraint). XLA's partitioner then cuts the program: everything not laid down is its own choice.
Read next: `runtime/sharded.py` (the arrays), `xla/partition.py`, `runtime/compiled.py` (programs on one device).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from didax.core.jaxpr import Jaxpr
from didax.core.mesh import Mesh
from didax.core.sharding import NamedSharding
from didax.runtime.array import ConcreteArray
from didax.runtime.sharded import ShardedArray, place
from didax.xla.device_text import Partition


def partition_of(jaxpr: Jaxpr, args: Sequence[Any]) -> Partition | None:
    """Where the program runs on these arguments, one for each input; None for a single device."""
    layouts = [_layout(x) for x in args]
    meshes = [layout.concrete_mesh for layout in layouts if layout is not None] or _meshes_in(jaxpr)
    return Partition(meshes[0], tuple(layouts)) if meshes else None


def _layout(x: Any) -> NamedSharding | None:
    """How an array, or a `ShapeDtypeStruct` in the place of one, lies on several devices."""
    sharding = x.sharding if isinstance(x, ShardedArray) else getattr(x, "sharding", None)
    return sharding if isinstance(sharding, NamedSharding) else None


_known_meshes: WeakKeyDictionary[Jaxpr, list[Mesh]] = WeakKeyDictionary()


def _meshes_in(jaxpr: Jaxpr) -> list[Mesh]:
    """The meshes that a program names itself."""
    found = _known_meshes.get(jaxpr)
    if found is None:
        found = _known_meshes[jaxpr] = list(dict.fromkeys(_search(jaxpr)))
    return found


def _search(jaxpr: Jaxpr) -> Iterator[Mesh]:
    for eqn in jaxpr.eqns:
        for value in eqn.params.values():
            mesh = value.mesh if isinstance(value, NamedSharding) else value
            if isinstance(mesh, Mesh):
                yield mesh
        for inner in eqn.jaxprs:
            yield from _meshes_in(inner)


def buffers_for(layouts: Sequence[NamedSharding], args: Sequence[Any]) -> list[Any]:
    """XLA's arrays of the arguments, laid out as the program wants them."""
    buffers: list[Any] = []
    for x, layout in zip(args, layouts, strict=True):
        buffer = x._buffer if type(x) is ShardedArray and x.sharding is layout else None  # pyright: ignore[reportPrivateUsage]
        if (
            buffer is None or buffer.is_deleted()
        ):  # XLA would read the memory of a deleted array, which is gone
            buffer = place(x, layout).device_buffer()
        buffers.append(buffer)
    return buffers


def results_of(executable: Any, outs: Sequence[Any]) -> list[ConcreteArray]:
    """The results of a run as arrays."""
    return [
        ShardedArray(aval, out, sharding)
        for aval, out, sharding in zip(executable.out_avals, outs, executable.out_shardings, strict=True)
    ]
