"""Devices in the order of a mesh: `create_device_mesh`, for programs that name the module of `jax.experimental`.

JAX orders the devices of TPUs by their wiring. The devices that Didax runs on are equally far from each other within a
process, so they keep their order; `didax.make_mesh` makes the mesh at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from didax.api.devices import devices as all_devices
from didax.core.errors import api_boundary, message
from didax.core.modules import on_access

__all__ = ["create_device_mesh", "create_hybrid_device_mesh", "device_kind_handler_dict"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

device_kind_handler_dict: dict[str, Callable[..., np.ndarray[Any, Any] | None]] = {}
"""Functions `(shape, devices, contiguous_submeshes=)` by the kind of device, which a program adds.

`create_device_mesh` asks them for the order of the devices first; None leaves it to its own order.
"""


@api_boundary
def create_device_mesh(
    mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *, contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:  # fmt: skip
    """Return the devices as an array of this shape; ValueError unless there are as many as it has places.

    `contiguous_submeshes` and `allow_split_physical_axes` are about the wiring of TPUs, and change nothing.

    >>> import didax as dx
    >>> mesh = dx.sharding.Mesh(create_device_mesh((1, 1), dx.devices()[:1]), ("x", "y"))
    >>> mesh.shape["x"], mesh.shape["y"]
    (1, 1)
    >>> create_device_mesh((3, 2), dx.devices()[:1])
    Traceback (most recent call last):
    ValueError: A mesh has as many places as there are devices.
      shape: (3, 2), devices: 1
    Pass `devices`, or another shape.
    """
    found = np.asarray(all_devices() if devices is None else list(devices), dtype=object).ravel()
    if math.prod(mesh_shape) != found.size:
        rule = "A mesh has as many places as there are devices."
        facts = f"shape: {tuple(mesh_shape)}, devices: {found.size}"
        raise ValueError(message(rule, facts, fix="Pass `devices`, or another shape."))
    handler = device_kind_handler_dict.get(getattr(found[-1], "device_kind", "")) if found.size else None
    if handler is not None:
        ordered = handler(tuple(mesh_shape), list(found), contiguous_submeshes=contiguous_submeshes)
        if ordered is not None:
            return ordered
    return found.reshape(tuple(mesh_shape))


@api_boundary
def create_hybrid_device_mesh(
    mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *,
    process_is_granule: bool = True, should_sort_granules_by_key: bool = True, allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:  # fmt: skip
    """Return the devices as an array of shape `mesh_shape * dcn_mesh_shape`, whose blocks are of one process each.

    Args:
      mesh_shape: how the devices of a process are laid out.
      dcn_mesh_shape: how the processes are laid out; as many axes.
      devices: by default those of all processes.

    Raises ValueError where the shapes have different numbers of axes, or `dcn_mesh_shape` has another number of
    places than there are processes.

    >>> import didax as dx
    >>> create_hybrid_device_mesh((1, 1), (1, 1), dx.devices()[:1]).shape
    (1, 1)
    """
    found = list(all_devices() if devices is None else devices)
    processes: dict[int, list[Any]] = {}
    for device in found:
        processes.setdefault(device.process_index, []).append(device)
    if len(mesh_shape) != len(dcn_mesh_shape) or math.prod(dcn_mesh_shape) != len(processes):
        rule = "A hybrid mesh has a place for each process, and as many axes for processes as for devices."
        facts = f"shapes: {tuple(mesh_shape)}, {tuple(dcn_mesh_shape)}, processes: {len(processes)}"
        raise ValueError(
            message(rule, facts, fix="Give dcn_mesh_shape as many places as there are processes.")
        )
    order = sorted(processes) if should_sort_granules_by_key else list(processes)
    out = np.empty([n * m for n, m in zip(mesh_shape, dcn_mesh_shape, strict=True)], object)
    for place, index in zip(np.ndindex(*dcn_mesh_shape), order, strict=True):
        block = tuple(slice(i * n, (i + 1) * n) for i, n in zip(place, mesh_shape, strict=True))
        out[block] = create_device_mesh(mesh_shape, processes[index])
    return out
