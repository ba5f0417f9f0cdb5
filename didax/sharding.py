"""How arrays lie on devices: meshes, specs, shardings.

    mesh = didax.make_mesh((2, 4), ("data", "model"))
    sharding = NamedSharding(mesh, PartitionSpec("data", None))

Read next: `docs/devices.md`; `core/mesh.py` and `core/sharding.py`, where these are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from didax.api.explicit import auto_axes, explicit_axes, reshard
from didax.api.placement import get_abstract_mesh, get_mesh, set_mesh
from didax.core.mesh import AbstractMesh, AxisType, Mesh
from didax.core.sharding import DuplicateSpecError, IndivisibleError, NamedSharding, PartitionSpec, Sharding

if TYPE_CHECKING:
    from didax.xla.client import SingleDeviceSharding

__all__ = [
    "AbstractMesh",
    "AxisType",
    "DuplicateSpecError",
    "IndivisibleError",
    "Mesh",
    "NamedSharding",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "auto_axes",
    "explicit_axes",
    "get_abstract_mesh",
    "get_mesh",
    "reshard",
    "set_mesh",
]


def __getattr__(name: str) -> Any:
    if name != "SingleDeviceSharding":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from didax.xla.client import SingleDeviceSharding

    return SingleDeviceSharding
