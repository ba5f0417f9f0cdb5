"""Programs of several devices: which devices a call runs on, and how its arguments and results lie on them.

A file says how an argument, or a result, is split over a mesh, by the lengths and names of its axes. A call runs on the
devices of an argument that lies on as many, or else on the first ones of the process.
Read next: `didax/primitives/exported.py`, which writes the program for these devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from didax.api.devices import devices
from didax.api.jit import jit
from didax.core import dtypes
from didax.core.avals import aval_of
from didax.core.errors import message
from didax.core.jaxpr import Eqn, Jaxpr
from didax.core.mesh import AnyMesh, Mesh
from didax.core.rule_types import as_list
from didax.core.sharding import NamedSharding, PartitionSpec, entry_names
from didax.export._file import damaged
from didax.primitives.exported import Artifact, exported_p, meshes_of
from didax.primitives.shape import reshape
from didax.primitives.shard_map import shard_map_p
from didax.primitives.sharding import sharding_constraint_p
from didax.primitives.varying import pvary_p
from didax.transforms.batching import AxisData, vmap_flat
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import interpret, rewritten

_AUTO = 1  # the type of mesh axes that XLA's partitioner decides about
Layout = dict[str, Any]  # the fields of a program's table that say how arguments and results lie


def layout_of(table: dict[str, Any]) -> Layout:
    """The layout in a program's table."""
    sides = "in_shardings", "out_shardings", "in_places", "out_places"
    found = {name: table[name] for name in (*sides, "meshes", "shardings")}
    shardings, meshes = found["shardings"] or (), found["meshes"] or ()
    for place in (*(found["in_places"] or ()), *(found["out_places"] or ())):
        if place > len(shardings):
            raise damaged(f"sharding {place} of {len(shardings)}")
    for sharding in shardings:
        if sharding["mesh"] is None and (sharding["mesh_index"] or 0) >= len(meshes):
            raise damaged(f"mesh {sharding['mesh_index']} of {len(meshes)}")
    return found


def written(ins: Sequence[NamedSharding | None], outs: Sequence[NamedSharding | None]) -> Layout:
    """The layout of a program whose arguments and results lie as these say; None leaves it to the partitioner."""
    shardings = list(dict.fromkeys([s for s in (*ins, *outs) if s is not None]))
    meshes = list(dict.fromkeys([s.mesh for s in shardings]))
    tables = [_table(s, meshes.index(s.mesh)) for s in shardings]
    number = {None: 0, **{s: i for i, s in enumerate(shardings, 1)}}
    named = [None, *tables]
    found: Layout = {"meshes": list(map(_mesh_table, meshes)), "shardings": tables}
    for side, of in (("in", ins), ("out", outs)):
        found[f"{side}_places"] = [number[s] for s in of]
        found[f"{side}_shardings"] = [{"kind": 0, "named": named[number[s]]} for s in of]
    return found


def _table(sharding: NamedSharding, mesh_index: int) -> dict[str, Any]:
    axes = [entry_names(entry) for entry in sharding.spec]
    spec = {"partitions": [{"names": list(names)} for names in axes], "reduced": [], "unreduced": []}
    return {"mesh": _mesh_table(sharding.mesh), "spec": spec, "mesh_index": mesh_index}


def _mesh_table(mesh: Any) -> dict[str, Any]:
    return {"sizes": mesh.axis_sizes, "names": mesh.axis_names, "types": [_AUTO] * len(mesh.axis_names)}


def of_inputs(jaxpr: Jaxpr) -> list[NamedSharding | None]:
    """How the arguments lie, where the program says it of them."""
    found: dict[Any, NamedSharding] = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive is sharding_constraint_p and not eqn.params.get("free"):
            sharding = eqn.params["sharding"]
            if PartitionSpec.UNCONSTRAINED not in tuple(sharding.spec):
                found.setdefault(eqn.invars[0], sharding)
    return [found.get(v) for v in jaxpr.invars]


def check_meshes(name: str, jaxpr: Jaxpr, in_many_forms: bool) -> None:
    """NotImplementedError for operations on a mesh that has no place in the file."""
    for eqn, mesh in on_meshes(jaxpr):
        several = isinstance(mesh, Mesh) and (mesh.size > 1 or eqn.primitive is sharding_constraint_p)
        if in_many_forms or not several or not mesh.are_all_axes_auto:
            rule = "The file of an exported program has no place for what this operation says of a mesh."
            facts = f"program: {name}, operation: {eqn.primitive.name}, mesh: {mesh}"
            fix = "Export it for one platform, shapes of numbers and devices along auto axes, or without meshes."
            raise NotImplementedError(message(rule, facts, fix=fix))


@cached_on_jaxpr
def without_lone_devices(jaxpr: Jaxpr, keeps_layouts: bool) -> Jaxpr:
    """The program without `shard_map` over meshes of one device, whose bodies stand in its place.

    An axis of one device is a batch of one. Constraints of such meshes say nothing, but to a file that has a place for
    them, which `keeps_layouts`.
    """
    if not any(mesh.size == 1 for _, mesh in on_meshes(jaxpr)):
        return jaxpr

    def apply(eqn: Eqn, inputs: list[Any]) -> Sequence[Any]:
        if eqn.primitive is shard_map_p and eqn.params["mesh"].size == 1:
            body = without_lone_devices(eqn.params["jaxpr"], keeps_layouts)
            return _along_one(body, eqn.params["axes"], inputs)
        if (
            eqn.primitive is sharding_constraint_p
            and eqn.params["sharding"].mesh.size == 1
            and not keeps_layouts
        ):
            return inputs
        inner = eqn.map_jaxprs(lambda jaxpr: without_lone_devices(jaxpr, keeps_layouts))
        return as_list(inner.primitive, inner.primitive.bind(*inputs, **inner.params))

    return rewritten(jaxpr, apply, what="export")


def _along_one(body: Jaxpr, names: Sequence[str], args: Sequence[Any]) -> list[Any]:
    """The results of a program over axes of these names, each of length 1."""
    if not names:
        return interpret(body, args, _apply_untracked)
    run = lambda *xs: _along_one(body, names[1:], xs)
    outs, dims = vmap_flat(run, AxisData(names[0], 1), (None,) * len(args), args)
    lengths = [aval_of(y).shape for y in outs]
    return [
        y if dim is None else reshape(y, n[:dim] + n[dim + 1 :])
        for y, dim, n in zip(outs, dims, lengths, strict=True)
    ]


def _apply_untracked(eqn: Eqn, inputs: list[Any]) -> Sequence[Any]:
    """The results of an equation, whose types do not say along which axes they vary."""
    if eqn.primitive is pvary_p:
        return inputs
    eqn = eqn.map_jaxprs(_untracked)
    return as_list(eqn.primitive, eqn.primitive.bind(*inputs, **eqn.params))


def _untracked(jaxpr: Jaxpr) -> Jaxpr:
    avals = [aval.update(vma=frozenset()) for aval in jaxpr.in_avals]
    return rewritten(jaxpr, _apply_untracked, what="export", in_avals=avals)


def on_meshes(jaxpr: Jaxpr) -> Iterator[tuple[Eqn, Any]]:
    """The operations that speak of a mesh, each with its mesh."""
    for eqn in jaxpr.eqns:
        mesh = (
            eqn.params["sharding"].mesh if eqn.primitive is sharding_constraint_p else eqn.params.get("mesh")
        )
        if eqn.primitive.sets_sharding or isinstance(mesh, AnyMesh):
            yield eqn, mesh
        for inner in eqn.jaxprs:
            yield from on_meshes(inner)


def devices_of_call(name: str, count: int, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """The devices for a program of `count`, called with these arrays."""
    for x in arrays:
        sharding = getattr(x, "sharding", None)
        if (
            isinstance(sharding, NamedSharding)
            and isinstance(sharding.mesh, Mesh)
            and sharding.mesh.size == count
        ):
            return tuple(sharding.mesh.devices.flat)
    found = devices()
    if len(found) < count:
        rule = f"The exported program {name} is for several devices, more than this process has."
        facts = f"exported for: {count} devices, this process: {len(found)}"
        raise ValueError(message(rule, facts, fix="Export the function without shardings."))
    return tuple(found[:count])


def on_devices(artifact: Artifact, layout: Layout, places: Sequence[Any]) -> Callable[..., list[Any]]:
    """The program as a function of arrays, which are laid out over the devices as it says."""
    meshes = meshes_of(artifact, places) or [Mesh(places, "devices")]
    ins, outs = [[_sharding(s, layout, places) for s in _named(layout, side)] for side in ("in", "out")]

    def laid_out(x: Any, sharding: NamedSharding | None) -> Any:
        aval = aval_of(x)
        if aval.dtype == dtypes.float0:
            return x
        free = PartitionSpec(*[PartitionSpec.UNCONSTRAINED] * aval.ndim)
        return sharding_constraint_p.bind(x, sharding=sharding or NamedSharding(meshes[0], free))

    def run(*xs: Any) -> list[Any]:
        ys = exported_p.bind(*map(laid_out, xs, ins), artifact=artifact)
        return list(map(laid_out, ys, outs))

    return jit(run)


def _named(layout: Layout, side: str) -> list[dict[str, Any] | None]:
    """The tables of shardings, of arguments or results: by number, or as earlier versions of jax wrote them."""
    if places := layout[f"{side}_places"]:
        return [layout["shardings"][i - 1] if i else None for i in places]
    return [s["named"] for s in layout[f"{side}_shardings"] or ()]


def shardings_over(layout: Layout, side: str, mesh: Mesh) -> tuple[NamedSharding | None, ...]:
    """How the arguments, or the results, lie over a mesh; ValueError for one with other axes than the program's."""
    for table in _named(layout, side):
        axes = None if table is None else _axes(table, layout)
        if axes not in (None, dict(mesh.shape)):
            rule = (
                "The arrays of an exported program lie over a mesh with the axes that it was exported with."
            )
            raise ValueError(message(rule, f"exported with: {axes}, mesh: {mesh}", fix="Pass such a mesh."))
    places = tuple(mesh.devices.flat)
    return tuple([_sharding(table, layout, places) for table in _named(layout, side)])


def _axes(table: dict[str, Any], layout: Layout) -> dict[str, int]:
    mesh = table["mesh"] or layout["meshes"][table["mesh_index"] or 0]
    return dict(zip(mesh["names"], mesh["sizes"], strict=True))


def _sharding(table: dict[str, Any] | None, layout: Layout, places: Sequence[Any]) -> NamedSharding | None:
    if table is None:
        return None
    axes = _axes(table, layout)
    split = [tuple(entry["names"] or ()) or None for entry in table["spec"]["partitions"] or ()]
    mesh = Mesh(np.array(places).reshape(list(axes.values())), tuple(axes))
    return NamedSharding(mesh, PartitionSpec(*split))
