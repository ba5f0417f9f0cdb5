"""Programs of several devices: which devices a call runs on, and how its arguments and results lie on them.

A file says how an argument, or a result, is split over a mesh, by the lengths and names of its axes. A call runs on the
devices of an argument that lies on as many, or else on the first ones of the process.
Read next: `didax/primitives/exported.py`, which writes the program for these devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.api.devices import devices
from didax.api.jit import jit
from didax.core import dtypes
from didax.core.avals import aval_of
from didax.core.errors import message
from didax.core.mesh import Mesh
from didax.core.sharding import NamedSharding, PartitionSpec
from didax.primitives.exported import Artifact, exported_p, meshes_of
from didax.primitives.sharding import sharding_constraint_p

Layout = dict[str, Any]  # the fields of a program's table that say how arguments and results lie


def whole(arguments: int, results: int) -> Layout:
    """The layout of a program of one device."""
    return {
        "in_shardings": [{"kind": 0}] * arguments,
        "out_shardings": [{"kind": 0}] * results,
        "in_places": [0] * arguments,
        "out_places": [0] * results,
    }


def layout_of(table: dict[str, Any]) -> Layout:
    """The layout in a program's table."""
    sides = "in_shardings", "out_shardings", "in_places", "out_places"
    return {name: table[name] for name in (*sides, "meshes", "shardings")}


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
    ins, outs = [
        [_sharding(s["named"], places) for s in layout[f"{side}_shardings"]] for side in ("in", "out")
    ]

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


def _sharding(table: dict[str, Any] | None, places: Sequence[Any]) -> NamedSharding | None:
    if table is None:
        return None
    mesh = Mesh(np.array(places).reshape(table["mesh"]["sizes"]), tuple(table["mesh"]["names"]))
    axes = [tuple(entry["names"] or ()) or None for entry in table["spec"]["partitions"] or ()]
    return NamedSharding(mesh, PartitionSpec(*axes))
