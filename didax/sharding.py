"""How arrays lie on devices: meshes, specs, shardings.

    mesh = didax.make_mesh((2, 4), ("data", "model"))
    sharding = NamedSharding(mesh, PartitionSpec("data", None))

Read next: `docs/devices.md`; `core/mesh.py` and `core/sharding.py`, where these are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from didax.api.explicit import auto_axes, explicit_axes, reshard
from didax.api.placement import get_abstract_mesh, get_mesh, set_mesh
from didax.core import config
from didax.core.errors import api_boundary, message
from didax.core.mesh import AbstractMesh, AxisType, Mesh
from didax.core.missing_names import missing
from didax.core.sharding import DuplicateSpecError, IndivisibleError, NamedSharding, PartitionSpec, Sharding

if TYPE_CHECKING:
    from didax.core.manual_axes import ManualAxisType
    from didax.xla.client import SingleDeviceSharding

__all__ = [
    "AbstractMesh",
    "AxisType",
    "DuplicateSpecError",
    "IndivisibleError",
    "ManualAxisType",
    "Mesh",
    "NamedSharding",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "auto_axes",
    "explicit_axes",
    "get_abstract_mesh",
    "get_mesh",
    "make_single_device_sharding",
    "reshard",
    "set_mesh",
    "use_abstract_mesh",
]


@api_boundary
def make_single_device_sharding(device: Any, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    """The sharding of an array on one device.

    >>> import didax as dx
    >>> make_single_device_sharding(dx.devices()[0]).device_set == {dx.devices()[0]}
    True
    """
    from didax.xla.client import SingleDeviceSharding

    return SingleDeviceSharding(device, memory_kind=memory_kind)


@api_boundary
def use_abstract_mesh(mesh: AbstractMesh) -> Any:
    """Let specs without a mesh refer to this one inside of the block: `set_mesh` for a mesh without devices.

    >>> with use_abstract_mesh(AbstractMesh((2,), ("data",))):
    ...     get_abstract_mesh().axis_names
    ('data',)
    """
    if not isinstance(mesh, AbstractMesh):  # pyright: ignore[reportUnnecessaryIsInstance]
        rule = "use_abstract_mesh takes a mesh without devices."
        raise TypeError(
            message(rule, f"mesh: {mesh!r:.200}", fix="Pass mesh.abstract_mesh, or use set_mesh.")
        )
    return config.override(mesh=None if mesh.empty else mesh)


def __getattr__(name: str) -> Any:
    if name == "SingleDeviceSharding":
        from didax.xla.client import SingleDeviceSharding

        return SingleDeviceSharding
    if name == "ManualAxisType":
        from didax.core.manual_axes import ManualAxisType

        return ManualAxisType
    raise missing(__name__, name)
