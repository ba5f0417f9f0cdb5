"""Meshes: devices as an array, whose axes have names.

    mesh = Mesh(devices, ("data", "model"))

Nothing here computes or knows XLA: a device is any object. Equal meshes are one object, so that the keys of compiled
programs compare pointers. Read next: `sharding.py`, how an array lies on the devices of a mesh.
"""

from __future__ import annotations

import enum
import math
from collections import OrderedDict
from collections.abc import Container, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from didax.core import config
from didax.core.errors import ArgumentError, api_boundary, message


class AxisType(enum.Enum):
    """Who decides how arrays lie along a mesh axis: XLA's partitioner (Auto), their types, or the function itself.

    >>> import didax as dx
    >>> dx.sharding.AbstractMesh((4,), ("data",), (dx.sharding.AxisType.Explicit,))
    AbstractMesh('data': 4, axis_types=(Explicit,))
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class AnyMesh:
    """What a mesh with devices and one without know of their axes; `Mesh` and `AbstractMesh` are the two."""

    __slots__ = ("__weakref__", "axis_names", "axis_sizes", "axis_types")
    axis_names: tuple[str, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]

    @property
    def shape(self) -> OrderedDict[str, int]:
        """The length of each axis, by name."""
        return OrderedDict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[str, int], ...]:
        """Pairs of name and length."""
        return tuple(self.shape.items())

    @property
    def size(self) -> int:
        """How many devices there are in all."""
        return math.prod(self.axis_sizes) if self.axis_names else 0

    @property
    def empty(self) -> bool:
        """True without axes: no mesh."""
        return not self.axis_names

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without its devices."""
        raise NotImplementedError

    def axes_of(self, kind: AxisType) -> tuple[str, ...]:
        """The names of the axes of a type."""
        return tuple(n for n, t in zip(self.axis_names, self.axis_types, strict=True) if t is kind)

    @property
    def auto_axes(self) -> tuple[str, ...]:
        """The axes along which the partitioner decides."""
        return self.axes_of(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[str, ...]:
        """The axes along which types decide."""
        return self.axes_of(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[str, ...]:
        """The axes along which the function itself decides."""
        return self.axes_of(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether every axis is Auto."""
        return all(t is AxisType.Auto for t in self.axis_types)

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether every axis is Explicit."""
        return all(t is AxisType.Explicit for t in self.axis_types)

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether every axis is Manual."""
        return all(t is AxisType.Manual for t in self.axis_types)

    def with_types(self, names: Container[str], kind: AxisType) -> Any:
        """The mesh whose axes of these names have another type; an axis that is Manual stays so."""
        manual = AxisType.Manual
        pairs = zip(self.axis_names, self.axis_types, strict=True)
        mesh: Any = self  # each of the two kinds has an `update` of its own
        return mesh.update(axis_types=[kind if n in names and t is not manual else t for n, t in pairs])


class AbstractMesh(AnyMesh):
    """Names, lengths and types of mesh axes, without the devices.

    >>> AbstractMesh((2, 4), ("x", "y"))
    AbstractMesh('x': 2, 'y': 4, axis_types=(Auto, Auto))
    """

    __slots__ = ()

    @api_boundary
    def __new__(
        cls, axis_sizes: Sequence[int], axis_names: Sequence[str], axis_types: Any = None
    ) -> AbstractMesh:
        sizes, names = tuple(int(n) for n in axis_sizes), _checked_names(axis_names)
        if len(sizes) != len(names):
            _refuse_axes(f"axis sizes: {sizes}", names)
        types = _checked_types(axis_types, names)
        key = sizes, names, types
        found = _abstract_meshes.get(key)
        if found is None:
            found = object.__new__(cls)
            found.axis_sizes, found.axis_names, found.axis_types = key
            _abstract_meshes[key] = found
        return found

    def __reduce__(self) -> Any:
        return AbstractMesh, (self.axis_sizes, self.axis_names, self.axis_types)

    def __repr__(self) -> str:
        return f"AbstractMesh({_axes_text(self)})"

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """Itself."""
        return self

    def update(self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None) -> AbstractMesh:
        """A mesh with other lengths, names or types."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )


_abstract_meshes: WeakValueDictionary[Any, AbstractMesh] = WeakValueDictionary()


class Mesh(AnyMesh):
    """Devices as an array whose axes have names.

    `devices` is an array (or nested sequences) of devices with one axis for each name. ValueError where the number of
    axes is not the number of names, or where a name or a device occurs twice. As a context manager a mesh is the one
    that specs without a mesh refer to.

    >>> import didax as dx
    >>> Mesh(dx.devices()[:1], ("x",))
    Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Auto,))
    """

    __slots__ = ("abstract", "device_set", "devices")
    devices: np.ndarray[Any, Any]
    device_set: frozenset[Any]
    abstract: AbstractMesh

    @api_boundary
    def __new__(cls, devices: Any, axis_names: Any, axis_types: Any = None) -> Mesh:
        array = _device_array(devices)
        names = _checked_names((axis_names,) if isinstance(axis_names, str) else axis_names)
        if array.ndim != len(names):
            _refuse_axes(f"devices: an array of shape {array.shape}", names)
        flat = tuple(array.flat)
        if names and not (flat and all([hasattr(device, "process_index") for device in flat])):
            rule, fix = "A mesh holds devices, at least one.", "Pass an array of didax.devices()."
            raise ValueError(
                message(rule, f"devices: an array of shape {array.shape}, {list(flat)!s:.200}", fix=fix)
            )
        if len(set(flat)) < len(flat):
            rule, fix = "A mesh has each device once.", "Leave out the repeated ones."
            raise ValueError(message(rule, f"devices: {list(flat)}", fix=fix))
        types = _checked_types(axis_types, names)
        key = flat, array.shape, names, types
        found = _meshes.get(key)
        if found is None:
            found = object.__new__(cls)
            found.axis_sizes, found.axis_names, found.axis_types = array.shape, names, types
            found.abstract = AbstractMesh(array.shape, names, types)
            found.devices = array
            found.device_set = frozenset(flat if names else ())
            _meshes[key] = found
        return found

    def __reduce__(self) -> Any:
        rule = "A mesh is bound to the devices of this process."
        fix = "Pickle its axis sizes and names instead."
        raise TypeError(message(rule, f"mesh: {self}", fix=fix))

    def __copy__(self) -> Mesh:
        return self

    def __deepcopy__(self, memo: Any) -> Mesh:
        return self

    def __repr__(self) -> str:
        types = f", axis_types={_types_text(self)}" if self.axis_names else ""
        return f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}{types})"

    def __str__(self) -> str:
        return f"Mesh({_axes_text(self)})"

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without its devices."""
        return self.abstract

    @property
    def device_ids(self) -> np.ndarray[Any, Any]:
        """The numbers of the devices."""
        ids = [device.id for device in self.devices.flat]
        return np.array(ids, int).reshape(self.devices.shape)

    @property
    def local_devices(self) -> list[Any]:
        """The devices that belong to this process."""
        return [d for d in self.devices.flat if is_local(d)]

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh on devices of this process."""
        mine = np.vectorize(is_local, otypes=[bool])(self.devices)
        if mine.all():
            return self
        kept = [
            np.flatnonzero(mine.any(axis=tuple(j for j in range(mine.ndim) if j != i)))
            for i in range(mine.ndim)
        ]
        return Mesh(self.devices[np.ix_(*kept)], self.axis_names, self.axis_types)

    @property
    def is_multi_process(self) -> bool:
        """Whether devices of several processes are in it."""
        return len({d.process_index for d in self.devices.flat}) > 1

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """A mesh with other devices, names or types."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __enter__(self) -> Mesh:
        entered = config.override(mesh=self)
        entered.__enter__()
        _entered.set((*_entered.get(), _Entered(self, entered)))
        return self

    def __exit__(self, *error: object) -> None:
        *outer, entered = _entered.get()
        _entered.set(tuple(outer))
        entered.block.__exit__(*error)


class _Entered(NamedTuple):
    mesh: Mesh
    block: config.override


_meshes: WeakValueDictionary[Any, Mesh] = WeakValueDictionary()
_entered: ContextVar[tuple[_Entered, ...]] = ContextVar("didax_meshes", default=())


ONE_DEVICE = ("one device",)  # the axis of the meshes that stand for a device alone


def mesh_of_device(device: Any) -> Mesh:
    """The mesh that stands for a device alone, where a program wants one."""
    return Mesh([device], ONE_DEVICE)


def meshes_like(mesh: AnyMesh) -> list[Mesh]:
    """The meshes made so far with axes of these names and lengths: one for each order of devices."""
    found = [known for known in list(_meshes.values()) if known.shape_tuple == mesh.shape_tuple]
    return list({tuple(known.devices.flat): known for known in found}.values())


def _axes_text(mesh: AnyMesh) -> str:
    axes = ", ".join([f"{name!r}: {size}" for name, size in mesh.shape_tuple]) or "()"
    return f"{axes}, axis_types={_types_text(mesh)}"


def _types_text(mesh: AnyMesh) -> str:
    return f"({', '.join(map(repr, mesh.axis_types))}{',' if len(mesh.axis_types) == 1 else ''})"


def _checked_names(names: Sequence[str]) -> tuple[str, ...]:
    found = tuple(names)
    if len(set(found)) < len(found) or not all(type(name) is str for name in found):
        rule = "The axes of a mesh have names, which are strings, all different."
        raise ValueError(message(rule, f"axis_names: {found}", fix="Name each axis once."))
    return found


def _checked_types(types: Any, names: tuple[str, ...]) -> tuple[AxisType, ...]:
    if types is None:
        return (AxisType.Auto,) * len(names)
    found = (types,) * len(names) if isinstance(types, AxisType) else tuple(types)
    if len(found) != len(names) or not all(isinstance(t, AxisType) for t in found):
        rule = "axis_types has one AxisType for each axis of the mesh."
        raise ArgumentError(
            message(rule, f"axis_types: {found}, axis_names: {names}", fix="Give as many types as names.")
        )
    return found


def _refuse_axes(what: str, names: tuple[str, ...]) -> NoReturn:
    rule = "A mesh has one name for each axis."
    raise ValueError(
        message(rule, what, f"axis_names: {names}", fix="Reshape the devices, or give as many names.")
    )


def _device_array(devices: Any) -> np.ndarray[Any, Any]:
    array = np.array(devices, dtype=object)
    array.flags.writeable = False
    return array


def is_local(device: Any) -> bool:
    """Whether a device belongs to this process."""
    return device.process_index == device.client.process_index()


def without_devices(mesh: AnyMesh) -> str:
    """The message for a question about devices that an abstract mesh cannot answer."""
    return message(
        "An abstract mesh has no devices, and devices are asked for here.",
        f"mesh: {mesh}",
        fix="Use a Mesh of devices.",
    )


def current_mesh() -> AnyMesh | None:
    """The mesh that specs without a mesh refer to, which `set_mesh` or a `with mesh:` block says; None without one."""
    return config.state().mesh


def mesh_of_new_arrays() -> Mesh | None:
    """The mesh of `set_mesh`, each device of which holds a copy of every array that nobody has placed; or None.

    As in JAX, a `with mesh:` block does not place such arrays. Neither does a mesh of several processes here: arrays
    that nobody has placed belong to their process alone.
    """
    mesh = current_mesh()
    if not isinstance(mesh, Mesh) or any(entered.mesh is mesh for entered in _entered.get()[-1:]):
        return None
    return None if mesh.is_multi_process else mesh
