"""Programs whose types say how arrays are split over explicit mesh axes: what the compiled program is told of that.

`without_types` writes the same program on plain types: every value that its type splits is constrained to lie like
that, and every result lies as its type says. So passes and lowering see constraints only, and no split types.
Read next: `core/device_types.py` (where types come from), `partitioned.py`, `xla/device_text.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.avals import ShapedArray
from didax.core.errors import message
from didax.core.jaxpr import Eqn, Jaxpr
from didax.core.mesh import AnyMesh, AxisType, Mesh, current_mesh, meshes_like
from didax.core.rule_types import as_list
from didax.core.sharding import NamedSharding, PartitionSpec
from didax.primitives.sharding import loosen_p, sharding_constraint_p
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import interpret, rewritten, trace_closed


def on_devices(sharding: NamedSharding, meshes: Sequence[Mesh]) -> NamedSharding:
    """The sharding with devices: where its mesh has none, it gets those of a mesh like it, one of `meshes` first."""
    if isinstance(sharding.mesh, Mesh):
        return sharding
    return sharding.update(mesh=mesh_of(sharding.mesh, meshes))


def mesh_of(mesh: AnyMesh, meshes: Sequence[Mesh]) -> Mesh:
    """A mesh with devices, like this one without: one of `meshes`, the mesh in force, or the only one there is."""
    known = set(meshes_like(mesh))
    for found in [*meshes, current_mesh(), *(known if len(known) == 1 else ())]:
        if isinstance(found, Mesh) and found.shape_tuple == mesh.shape_tuple:
            return found.update(axis_types=mesh.axis_types)
    raise ValueError(
        message(
            "Types name a mesh without its devices: these are of an argument, or of the mesh in force.",
            f"mesh: {mesh}",
            f"meshes with devices: {list(dict.fromkeys(meshes)) or list(known)}",
            fix="Set the mesh: with didax.set_mesh(mesh), or name it: NamedSharding(mesh, spec).",
        )
    )


def _untyped(mesh: Mesh) -> Mesh:
    return mesh.update(axis_types=(AxisType.Auto,) * len(mesh.axis_names))


class _Writer:
    """Writes constraints for types; `meshes` are those that the program names."""

    def __init__(self, meshes: tuple[Mesh, ...]):
        self.meshes = meshes

    def constrained(self, x: Any, sharding: NamedSharding) -> Any:
        """The value, laid out so; along axes that are not explicit the partitioner decides."""
        mesh = sharding.mesh if isinstance(sharding.mesh, Mesh) else mesh_of(sharding.mesh, self.meshes)
        free = {"free": mesh.auto_axes} if mesh.explicit_axes and mesh.auto_axes else {}
        return sharding_constraint_p.bind(x, sharding=sharding.update(mesh=_untyped(mesh)), **free)

    def apply(self, eqn: Eqn, xs: list[Any]) -> list[Any]:
        """The results of an equation, laid out as their types say."""
        primitive = eqn.primitive
        if primitive is loosen_p:
            return xs
        if primitive is sharding_constraint_p:
            sharding = eqn.params["sharding"]
            plain = sharding.mesh.are_all_axes_auto and isinstance(sharding.mesh, Mesh)
            return [primitive.bind(*xs, **eqn.params) if plain else self.constrained(xs[0], sharding)]
        outs = as_list(primitive, primitive.bind(*xs, **eqn.map_jaxprs(self.inner).params))
        return [self.typed(y, v.aval) for v, y in zip(eqn.outvars, outs, strict=True)]

    def typed(self, x: Any, aval: ShapedArray) -> Any:
        return x if aval.layout is None else self.constrained(x, aval.layout)

    def inner(self, jaxpr: Jaxpr) -> Jaxpr:
        return _inner(jaxpr, self.meshes)


def _untyped_avals(jaxpr: Jaxpr) -> list[ShapedArray]:
    return [aval.update(sharding=None) for aval in jaxpr.in_avals]


@cached_on_jaxpr
def _inner(jaxpr: Jaxpr, meshes: tuple[Mesh, ...]) -> Jaxpr:
    return rewritten(jaxpr, _Writer(meshes).apply, what="lowering", in_avals=_untyped_avals(jaxpr))


@cached_on_jaxpr
def without_types(jaxpr: Jaxpr, meshes: tuple[Mesh, ...]) -> Jaxpr:
    """The program on plain types, for the mesh that comes first; `meshes` are all that it and its arguments name."""
    writer, mesh = _Writer(meshes), meshes[0]

    def run(*args: Any) -> list[Any]:
        outs = interpret(jaxpr, args, writer.apply)
        return [
            writer.constrained(y, x.aval.layout or NamedSharding(mesh, PartitionSpec()))
            if mesh.explicit_axes or x.aval.layout is not None
            else y
            for x, y in zip(jaxpr.outvars, outs, strict=True)
        ]

    return trace_closed(run, _untyped_avals(jaxpr), what="lowering", name=jaxpr.name)


def labelled(
    found: NamedSharding, aval: ShapedArray, meshes: Sequence[Mesh], stated: NamedSharding | None
) -> NamedSharding:
    """The sharding of a result as its type describes it, or as the program itself states it."""
    if aval.layout is not None and found.in_types(aval.ndim) is not aval.layout:
        return on_devices(aval.layout, meshes).update(memory_kind=found.kind)
    return found.of_rank(aval.ndim) if found.mesh.explicit_axes and found is not stated else found
