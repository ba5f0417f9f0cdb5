"""The shardings that users pass: for one array, or a pytree of them for a pytree of arrays.

Read next: `core/sharding.py`; `placement.py` and `devices.py`, which take them.
"""

from __future__ import annotations

from typing import Any

from didax.core import pytree
from didax.core.avals import aval_of
from didax.core.errors import NoMeshError, message
from didax.core.layout import Format
from didax.core.mesh import AbstractMesh, AnyMesh, AxisType, Mesh, current_mesh, mesh_of_device
from didax.core.sharding import NamedSharding, PartitionSpec, Sharding
from didax.core.tracing import Tracer
from didax.primitives.sharding import sharding_constraint_p
from didax.transforms.named_axes import manual_names


def as_sharding(what: str, sharding: Any, *where: str) -> NamedSharding | None:
    """A sharding for one that a user gave: also a spec, or one on a mesh without devices, which mean the mesh in force.

    None stays None.
    """
    if sharding is None:
        return sharding
    if isinstance(sharding, Format):  # XLA decides on the layout
        return as_sharding(what, sharding.sharding, *where)
    if isinstance(sharding, NamedSharding):
        mesh = current_mesh()
        if isinstance(mesh, Mesh) and sharding.mesh in (mesh.abstract_mesh, as_seen_here(mesh)):
            return sharding.update(mesh=mesh)  # a mesh without devices: those of the mesh in force
        return sharding
    if isinstance(sharding, PartitionSpec):
        mesh = current_mesh()
        if mesh is None:
            raise NoMeshError(
                message(
                    f"{what} with a PartitionSpec needs a mesh that it refers to.",
                    *where,
                    f"spec: {sharding}",
                    fix="Pass NamedSharding(mesh, spec), or set the mesh: with didax.set_mesh(mesh).",
                )
            )
        return NamedSharding(mesh, sharding)
    if isinstance(sharding, Sharding) or hasattr(sharding, "device_set"):
        (device,) = sharding.device_set
        return NamedSharding(mesh_of_device(device), PartitionSpec(), memory_kind=sharding.memory_kind)
    raise TypeError(
        message(
            f"{what} takes a NamedSharding or a PartitionSpec.",
            *where,
            f"got: {sharding!r:.200}",
            fix="Pass NamedSharding(mesh, PartitionSpec(...)).",
        )
    )


def as_seen_here(mesh: AnyMesh) -> AbstractMesh:
    """The mesh without its devices; the axes along which a `shard_map` decides are Manual within it."""
    names = manual_names()
    return mesh.abstract_mesh.with_types(names, AxisType.Manual) if names else mesh.abstract_mesh


def constrained(
    x: Any, sharding: NamedSharding | None, *where: str, as_stated: bool = False, uneven: bool = False
) -> Any:
    """The array, laid out as the sharding says; itself without one. `where` says in errors what it is.

    Over explicit mesh axes its sharding has, unless `as_stated`, an entry for each axis, as types have. With `uneven`
    a value inside of a program may be cut into parts of which the last are shorter.
    """
    if sharding is None:
        return x
    for name in sharding.axes and manual_names():
        if name in sharding.axes:
            rule = "Within a shard_map nothing is laid out over its own axes: each device has its part."
            fix = f"Leave {name!r} out."
            raise ValueError(message(rule, *where, f"axis: {name!r}, sharding: {sharding}", fix=fix))
    if uneven and isinstance(x, Tracer) and sharding.mesh.are_all_axes_auto:
        sharding.entries(aval_of(x).ndim, *where)
    else:
        sharding.check_shape(aval_of(x).shape, *where)
    if sharding.mesh.explicit_axes and not as_stated:
        sharding = sharding.of_rank(aval_of(x).ndim)
    return sharding_constraint_p.bind(x, sharding=sharding)


def constrained_tree(what: str, x: Any, shardings: Any, uneven: bool = False) -> Any:
    """The pytree of arrays, laid out as the shardings say, which are a prefix of it."""
    leaves, tree = pytree.flatten(x)
    each = spread(f"{what} shardings", shardings, x)
    return pytree.unflatten(
        tree, [constrained(leaf, s, uneven=uneven) for leaf, s in zip(leaves, each, strict=True)]
    )


def spread(what: str, shardings: Any, tree: Any, of: str = "the arrays") -> list[NamedSharding | None]:
    """A sharding for each leaf of a pytree, from shardings that are a prefix of it; errors call it `of`."""
    found = pytree.broadcast_prefix(shardings, tree, what, _is_sharding, of)
    return [as_sharding(what, s) for s in found]


def _is_sharding(x: Any) -> bool:
    return x is None or isinstance(x, PartitionSpec | Sharding | Format) or hasattr(x, "device_set")
