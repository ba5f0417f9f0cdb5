"""Laying arrays over devices: meshes, and arrays made of parts.

    mesh = didax.make_mesh((2, 4), ("data", "model"))
    x = didax.device_put(x, NamedSharding(mesh, PartitionSpec("data")))
    y = jit(f)(x)                                            runs on all eight devices

Read next: `core/sharding.py`; `runtime/partitioned.py`, where programs on several devices run.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from didax.api.devices import device_put, process_count
from didax.api.devices import devices as all_devices
from didax.api.layouts import as_seen_here, as_sharding, spread
from didax.core import config, dtypes, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.memory import DEVICE
from didax.core.mesh import AbstractMesh, AnyMesh, AxisType, Mesh, current_mesh
from didax.core.sharding import NamedSharding
from didax.core.value import Array
from didax.runtime.array import ConcreteArray, as_concrete, on_one_device
from didax.runtime.sharded import from_callback, from_shards, on_its_device

T = TypeVar("T")


@api_boundary
def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    axis_types: Sequence[AxisType] | None = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """A mesh of the first devices there are (or of `devices`), with these axis lengths and names.

    Axes are Auto where no types are given; Explicit, as in JAX, under the option `as_in_jax`.
    ValueError where there are fewer devices than the lengths ask for.

    >>> import didax as dx
    >>> dx.make_mesh((1,), ("data",))
    Mesh(axis_sizes=(1,), axis_names=('data',), axis_types=(Auto,))
    """
    shape = _lengths(axis_shapes)
    found = list(all_devices() if devices is None else devices)
    size = math.prod(shape)
    if size > len(found):
        raise ValueError(
            message(
                "A mesh has as many devices as the product of its axis lengths.",
                f"axis_shapes: {shape}, so {size} devices; there are {len(found)}",
                fix=f"Make the mesh smaller, or simulate devices on the CPU: DIDAX_NUM_CPU_DEVICES={size} in the "
                "environment of the process.",
            )
        )
    array = np.empty(size, dtype=object)
    array[:] = found[:size]
    if axis_types is None and config.state().as_in_jax:
        axis_types = (AxisType.Explicit,) * len(shape)
    return Mesh(array.reshape(shape), axis_names, axis_types)


def _lengths(axis_shapes: Sequence[int]) -> tuple[int, ...]:
    try:
        lengths = tuple(map(operator.index, axis_shapes))
        if min(lengths, default=1) > 0:
            return lengths
    except TypeError:
        pass
    rule = "The axis lengths of a mesh are integers from 1 on, one for each axis."
    fix = "Write make_mesh((2, 4), ('rows', 'columns'))."
    raise ArgumentError(message(rule, f"axis_shapes: {axis_shapes!r:.100}", fix=fix))


@api_boundary
def set_mesh(mesh: AnyMesh | None) -> Any:
    """Let specs without a mesh refer to this one: inside the block, or, if it is not used as a block, from here on.

    >>> import didax as dx
    >>> with dx.set_mesh(dx.make_mesh((1,), ("data",))):
    ...     dx.device_put(1.0, dx.P()).sharding.mesh.axis_names
    ('data',)
    """
    if mesh is not None and not isinstance(mesh, AnyMesh):  # pyright: ignore[reportUnnecessaryIsInstance]
        fix = "Pass what make_mesh returns, or None."
        raise ArgumentError(message("set_mesh takes a mesh.", f"got: {mesh!r:.200}", fix=fix))
    return _MeshSetting(None if mesh is not None and mesh.empty else mesh)


class _MeshSetting:
    """What `set_mesh` returns: the mesh is set for the process; a block keeps it to itself, in its own thread."""

    def __init__(self, mesh: AnyMesh | None):
        self._before = config.global_state.mesh
        self._mesh = mesh
        self._block = config.override(mesh=mesh)
        config.update("mesh", mesh)

    def __enter__(self) -> AnyMesh | None:
        config.update("mesh", self._before)
        self._block.__enter__()
        return self._mesh

    def __exit__(self, *error: object) -> None:
        self._block.__exit__(*error)


def get_mesh() -> Mesh:
    """The mesh of devices in force, set by `set_mesh` or a `with mesh:` block; a mesh without axes if there is none.

    >>> from didax import sharding
    >>> sharding.get_mesh().empty
    True
    """
    found = current_mesh()
    return found if isinstance(found, Mesh) else Mesh(np.empty((), object), ())


def get_abstract_mesh() -> AbstractMesh:
    """The mesh in force, without its devices; the axes along which a `shard_map` decides are Manual within it.

    >>> import didax as dx
    >>> with dx.set_mesh(dx.make_mesh((1,), ("data",))):
    ...     dx.sharding.get_abstract_mesh().axis_names
    ('data',)
    """
    return as_seen_here(current_mesh() or AbstractMesh((), ()))


@api_boundary
def make_array_from_callback(
    shape: Sequence[int], sharding: Any, data_callback: Callable[[Any], Any], dtype: Any = None
) -> Array:
    """The array of this shape whose part at `index` is `data_callback(index)`, where `index` is a tuple of slices.

    Each process asks for the parts that its own devices hold, each part once. The dtype is that of the parts, unless it
    is stated. ValueError where a part has another shape than its index says.

    >>> import didax as dx
    >>> s = dx.NamedSharding(dx.make_mesh((1,), ("data",)), dx.P("data"))
    >>> dx.make_array_from_callback((3,), s, lambda index: np.arange(3.0)[index])
    Array([0., 1., 2.], dtype=float32)
    """
    shape = tuple(map(operator.index, shape))
    layout = _required("make_array_from_callback", sharding)
    parts: dict[Any, Any] = {}

    def part(index: Any) -> Any:
        key = tuple((s.start, s.stop) for s in index)
        if key not in parts:
            parts[key] = _checked_part(data_callback(index), shape, index)
        return parts[key]

    local = layout.addressable_devices_indices_map(shape)
    if dtype is None and local:
        dtype = aval_of(part(next(iter(local.values())))).dtype
    aval = ShapedArray(shape, dtypes.narrowed(dtypes.dtype(float if dtype is None else dtype)))
    return on_its_device(from_callback(aval, layout, lambda index: as_concrete(part(index)).host_value()))


def _required(what: str, sharding: Any) -> NamedSharding:
    layout = as_sharding(what, sharding)
    if layout is None:
        raise TypeError(
            message(
                f"{what} needs a sharding.", "got: None", fix="Pass NamedSharding(mesh, PartitionSpec(...))."
            )
        )
    return layout


def _checked_part(part: Any, shape: tuple[int, ...], index: Any) -> Any:
    array = part if isinstance(part, ConcreteArray) else np.asarray(part)
    wanted = tuple(len(range(*s.indices(n))) for s, n in zip(index, shape, strict=True))
    if array.shape != wanted:
        raise ValueError(
            message(
                "A part of an array has the shape that its index says.",
                f"array: {list(shape)}, index: {index}: shape {wanted}; got shape {array.shape}",
                fix="Return the whole array indexed by the argument: lambda index: whole[index].",
            )
        )
    return array


@api_boundary
def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *, dtype: Any = None
) -> Array:
    """The array of this shape whose parts are `arrays`, each on its device already; nothing is copied.

    There is one array for each device of this process that the sharding names, in any order. What lies in another
    memory than the sharding says is moved. ValueError where one is missing, or has another shape or dtype than its
    part.

    >>> import didax as dx, didax.numpy as dnp
    >>> s = dx.NamedSharding(dx.make_mesh((1,), ("data",)), dx.P("data"))
    >>> part = dx.device_put(dnp.arange(2), dx.devices()[0])
    >>> dx.make_array_from_single_device_arrays((2,), s, [part])
    Array([0, 1], dtype=int32)
    """
    shape = tuple(map(operator.index, shape))
    layout = _required("make_array_from_single_device_arrays", sharding)
    _check_arrays(arrays)
    given = {x.device: x for x in map(as_concrete, arrays)}
    local = [d for d in layout.devices if d in layout.addressable_devices]
    missing = [d for d in local if d not in given]
    if missing or len(given) != len(local) or len(given) != len(arrays):
        raise ValueError(
            message(
                "There is one part for each device of this process that the sharding names.",
                f"devices of the sharding: {local}",
                f"devices of the arrays: {[as_concrete(x).device for x in arrays]}",
                fix="Put each part on its device: device_put(part, device).",
            )
        )
    parts = [given[d] for d in local]
    kind = layout.memory_kind or DEVICE
    parts = [x if x.sharding.memory_kind == kind else on_one_device(x, x.device, kind) for x in parts]
    piece = layout.shard_shape(shape)
    wanted = parts[0].aval.update(shape=piece) if parts else ShapedArray(piece, dtypes.dtype(dtype or float))
    if dtype is not None:
        wanted = wanted.update(dtype=dtypes.dtype(dtype))
    for x in parts:
        if x.aval.shape != wanted.shape or x.aval.dtype != wanted.dtype:
            rule = "Each part has the shape and dtype that the whole array says."
            fix = "Cut the array in equal parts."
            raise ValueError(message(rule, f"wanted: {wanted}; on {x.device}: {x.aval}", fix=fix))
    return on_its_device(from_shards(wanted.update(shape=shape, weak_type=False), layout, parts))


def _check_arrays(arrays: Any) -> None:
    """TypeError unless these are arrays of Didax in a list or a tuple."""
    kinds = list(map(type, arrays)) if isinstance(arrays, list | tuple) else [type(arrays)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(arrays, list | tuple) and all(issubclass(kind, ConcreteArray) for kind in kinds):
        return
    raise TypeError(
        message(
            "The parts of an array are a list of arrays, each of which lies on a device.",
            f"arrays: {kinds!r:.200}",
            fix="Pass [device_put(part, device) for device in ...].",
        )
    )


@api_boundary
def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Array:
    """The array whose parts on this process are `local_data`, all of them as one array.

    In one process that is the whole array. Where several processes compute, `local_data` is the block that covers the
    parts of this process's devices, and `global_shape` the shape of the whole; without it, each axis that is split over
    processes is as much longer as there are blocks along it. `local_data` may be a pytree, and the others prefixes of
    it. In one process an array without a sharding (None) lies on the default device.

    >>> import didax as dx
    >>> s = dx.NamedSharding(dx.make_mesh((1,), ("data",)), dx.P("data"))
    >>> dx.make_array_from_process_local_data(s, np.arange(2.0))
    Array([0., 1.], dtype=float32)
    """
    what = "make_array_from_process_local_data"
    leaves, tree = pytree.flatten(local_data)
    layouts = spread(f"{what} sharding", sharding, local_data)
    shapes = pytree.broadcast_prefix(
        global_shape, local_data, f"{what} global_shape", _is_shape, "the arrays"
    )

    def put(leaf: Any, layout: NamedSharding | None, global_shape: Any) -> Array:
        local = np.asarray(leaf)
        if layout is None and process_count() == 1 and global_shape in (None, local.shape):
            return device_put(leaf)
        layout = _required(what, layout)
        blocks = _local_blocks(layout, local.ndim)
        counts, _ = layout.parts(local.ndim)
        lengths = [
            n * count // len(block) for n, count, block in zip(local.shape, counts, blocks, strict=True)
        ]
        shape = tuple(lengths) if global_shape is None else tuple(global_shape)
        starts = [block[0] * n // count for block, n, count in zip(blocks, shape, counts, strict=True)]
        wanted = tuple(len(b) * n // c for b, n, c in zip(blocks, shape, counts, strict=True))
        if local.shape not in (wanted, shape):
            rule = "A process passes the block of the array that its devices hold."
            fix = "Pass a block of that shape."
            raise ValueError(message(rule, f"array: {shape}, block: {wanted}, got: {local.shape}", fix=fix))

        def part(index: Any) -> Any:
            if local.shape == shape:
                return local[index]
            slices = [s.indices(n) for s, n in zip(index, shape, strict=True)]
            return local[
                tuple(
                    slice(lo - start, hi - start) for (lo, hi, _), start in zip(slices, starts, strict=True)
                )
            ]

        aval = ShapedArray(shape, dtypes.narrowed(dtypes.dtype(local.dtype)))
        return on_its_device(from_callback(aval, layout, part))

    return pytree.unflatten(tree, map(put, leaves, layouts, shapes))


def _is_shape(x: Any) -> bool:
    return x is None or (
        isinstance(x, tuple | list) and all(isinstance(n, int) for n in cast(Sequence[Any], x))
    )


def _local_blocks(layout: NamedSharding, ndim: int) -> list[list[int]]:
    """For each axis, the numbers of the parts that this process holds."""
    _, places = layout.parts(ndim)
    mine = [part for d, part in zip(layout.devices, places, strict=True) if d in layout.addressable_devices]
    return [sorted({part[axis] for part in mine}) for axis in range(ndim)]
