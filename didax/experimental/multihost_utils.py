"""What the processes of a job exchange outside compiled programs: values, and the news that all have come here.

    multihost_utils.process_allgather(x)              the values of all processes, in each of them
    multihost_utils.broadcast_one_to_all(x)           the value of process 0, in each of them
    multihost_utils.sync_global_devices("saved")      wait until all have come here
    multihost_utils.assert_equal(x)                   all have the same

Every process calls them, in the same order. A process that computes alone may call them too.
Read next: docs/devices.md; `didax/distributed.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from didax.api.devices import devices, process_count, process_index
from didax.api.jit import jit
from didax.api.layouts import constrained
from didax.api.placement import make_array_from_process_local_data, make_array_from_single_device_arrays
from didax.core import job, pytree
from didax.core.avals import aval_of
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.mesh import Mesh
from didax.core.modules import on_access
from didax.core.sharding import NamedSharding, PartitionSpec
from didax.core.value import Array
from didax.passes.key_reuse import holds_keys
from didax.random import key_data, key_impl, wrap_key_data
from didax.runtime.array import as_concrete

__all__ = [
    "assert_equal",
    "broadcast_one_to_all",
    "global_array_to_host_local_array",
    "host_local_array_to_global_array",
    "process_allgather",
    "reached_preemption_sync_point",
    "sync_global_devices",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The arrays of all processes, as NumPy arrays: stacked along a new first axis or, with `tiled`, joined.

    An array must have the same shape and dtype in each process; NumPy arrays keep their dtype. An array that lies on
    devices of several processes is one array already, and is brought to all of them; it needs `tiled=True`, because no
    axis is added.

    >>> process_allgather(np.arange(3))
    array([[0, 1, 2]])
    """
    leaves, tree = pytree.flatten(in_tree)
    whole = [_whole(x, tiled) for x in leaves]
    local = [_host_array(x) for x, found in zip(leaves, whole, strict=True) if found is None]
    gathered = iter(_gathered(local, tiled))
    return pytree.unflatten(tree, [next(gathered) if found is None else found for found in whole])


def _is_global(x: Any) -> bool:
    return isinstance(x, Array) and not x.is_fully_addressable


def _whole(x: Any, tiled: bool) -> np.ndarray[Any, Any] | None:
    """The contents of an array of several processes; None for other arrays."""
    if not _is_global(x):
        return None
    if not tiled:
        rule, fix = "An array of several processes is gathered without a new axis.", "Pass tiled=True."
        raise ArgumentError(message(rule, f"array: {aval_of(x)}, {x.sharding}", fix=fix))
    return np.asarray(constrained(x, x.sharding.update(spec=())))


def _host_array(x: Any) -> np.ndarray[Any, Any]:
    """The array on the host, in its dtype; that of a Python number is the one that it has as an array."""
    return np.asarray(x if isinstance(x, np.ndarray | np.generic) else as_concrete(x))


def _gathered(arrays: Sequence[np.ndarray[Any, Any]], tiled: bool) -> list[np.ndarray[Any, Any]]:
    """For each array of this process, those of all processes."""
    rows = [array.tobytes() for array in arrays]
    if process_count() > 1 and arrays:
        _check_same_types("process_allgather", arrays)
        table = np.asarray(constrained(_table(b"".join(rows)), NamedSharding(_mesh(), PartitionSpec())))
    else:
        table = _words(b"".join(rows))[None]
    found: list[np.ndarray[Any, Any]] = []
    start = 0
    each = table.view(np.uint8)
    for array in arrays:
        stop = start + array.nbytes
        parts = np.ascontiguousarray(each[:, start:stop]).reshape(-1).view(array.dtype)
        shape = (len(table), *array.shape)
        stacked = parts.reshape(shape)
        found.append(stacked.reshape(-1, *array.shape[1:]) if tiled and array.ndim else stacked)
        start = stop
    return found


def _words(data: bytes) -> np.ndarray[Any, Any]:
    return np.frombuffer(data + bytes(-len(data) % 4), np.uint32)


def _mesh() -> Mesh:
    """One device of each process, in the order of the processes."""
    first = {device.process_index: device for device in reversed(devices())}
    return Mesh([first[process] for process in sorted(first)], "process")


def _table(data: bytes) -> Any:
    """An array with a row of 32-bit words for each process, each of which passes its own."""
    return make_array_from_process_local_data(
        NamedSharding(_mesh(), PartitionSpec("process")), _words(data)[None]
    )


@api_boundary
def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether the processes have agreed to stop at this step, as one of them is about to be stopped by its machine.

    A process that computes alone has nobody to agree with: False. RuntimeError in a job, which has no such service.

    >>> reached_preemption_sync_point(10)
    False
    """
    if job.current is None:
        return False
    rule = "The processes of a job do not tell each other that their machine stops one of them."
    fix = "Save what you need every few steps."
    raise RuntimeError(message(rule, f"step: {step_id}", f"processes: {job.current.count}", fix=fix))


@api_boundary
def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The pytree of process 0, or of the one process that passes `is_source=True`, in all of them, as NumPy arrays.

    All processes pass a pytree of the same structure, shapes and dtypes. ValueError unless one of them is the source.

    >>> broadcast_one_to_all({"seed": 3})
    {'seed': array(3, dtype=int32)}
    """
    leaves, tree = pytree.flatten(in_tree)
    arrays = [_host_array(x) for x in leaves]
    mine = process_index() == 0 if is_source is None else bool(is_source)
    if process_count() == 1:
        return pytree.unflatten(tree, arrays)
    _check_same_types("broadcast_one_to_all", arrays)
    data = b"".join(array.tobytes() for array in arrays)
    head = np.uint32(mine).tobytes()
    total = np.asarray(_sum_of_rows(_table(head + (data if mine else bytes(len(data))))))
    if total[0] != 1:
        rule = "One process is the source of a broadcast."
        fix = "Pass is_source=True in one, False in the others."
        raise ValueError(message(rule, f"sources: {total[0]}", fix=fix))
    received, start = total.view(np.uint8)[4:], 0
    found: list[np.ndarray[Any, Any]] = []
    for array in arrays:
        part = received[start : start + array.nbytes]
        found.append(part.copy().view(array.dtype).reshape(array.shape))
        start += array.nbytes
    return pytree.unflatten(tree, found)


def _sum_of_rows(table: Any) -> Any:
    replicated = NamedSharding(_mesh(), PartitionSpec())

    def broadcast(table: Any) -> Any:
        return constrained(table.sum(0, dtype=np.uint32), replicated)

    return jit(broadcast)(table)


@api_boundary
def sync_global_devices(name: str) -> None:
    """Wait until every process has come here; `name` must be the same in all of them.

    >>> sync_global_devices("begin")
    """
    different = _differing("meeting", name.encode(), f"sync_global_devices({name!r})")
    if different:
        rule = "The processes come to sync_global_devices with the same name."
        facts = f"process {different[0]} has another name than process 0; this is process {process_index()}: {name!r}"
        raise AssertionError(message(rule, facts, fix="Let all processes do the same."))


@api_boundary
def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """AssertionError, in every process, unless all have the same pytree: structure, shapes, dtypes and values.

    NaNs with the same bits are the same; so are 0.0 and -0.0. Of arrays of several processes only type and layout are
    compared.

    >>> assert_equal({"step": 3})
    """
    paths, tree = pytree.flatten_with_path(in_tree)
    digests = [_digest(x) for _, x in paths]
    different = _differing("comparison", b"".join([repr(tree).encode(), *digests]), "assert_equal")
    if different:
        rule = fail_message or "All processes have the same values."
        own = [f"{pytree.keystr(path) or 'the value'}: {x!r:.200}" for path, x in paths[:3]]
        facts = f"process {different[0]} has others than process 0; this is process {process_index()}"
        raise AssertionError(message(rule, facts, *own, fix="Compute them from the same data and keys."))


def _digest(x: Any) -> bytes:
    if _is_global(x):
        return f"{aval_of(x)} {x.sharding}".encode()
    if holds_keys(aval_of(x)):
        x = key_data(x)
    array = _host_array(x)
    canonical = np.where(array == 0, np.zeros((), array.dtype), array)
    return hashlib.sha256(f"{array.dtype} {array.shape}".encode() + canonical.tobytes()).digest()


def _differing(purpose: str, data: bytes, what: str) -> list[int]:
    """The processes whose data differ from those of process 0."""
    if process_count() == 1:
        return []
    from didax.xla.agreement import others_differ

    everyone = tuple(range(process_count()))
    digest = hashlib.sha256(data).digest()
    return [process for process in others_differ(job.in_force(), purpose, digest, everyone, what) if process]


def _check_same_types(what: str, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    types = [f"{array.dtype}{list(array.shape)}" for array in arrays]
    different = _differing("types", repr(types).encode(), what)
    if different:
        rule = f"All processes pass arrays of the same shapes and dtypes to {what}."
        facts = f"process {different[0]} has others than process 0; this is process {process_index()}"
        fix = "Pad them to one shape."
        raise ArgumentError(message(rule, facts, f"here: {', '.join(types):.300}", fix=fix))


@api_boundary
def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """A pytree of arrays over all processes, each of which passes its own block; arrays of several processes stay.

    `pspecs` is a PartitionSpec, or a prefix of the pytree with one for each part. An axis that is split over processes
    is longer than the axis of a block; what is not split has to be the same in all.

    >>> import didax as dx
    >>> host_local_array_to_global_array(np.arange(2), dx.make_mesh((1,), ("data",)), dx.P("data"))
    Array([0, 1], dtype=int32)
    """

    def convert(x: Any, spec: PartitionSpec) -> Any:
        if _is_global(x):
            return x
        if holds_keys(aval_of(x)):
            return wrap_key_data(convert(key_data(x), spec), impl=key_impl(x))
        return make_array_from_process_local_data(NamedSharding(global_mesh, spec), _host_array(x))

    return _map_with_specs("host_local_array_to_global_array", convert, local_inputs, pspecs)


@api_boundary
def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The inverse: for each array the block that lies on this process's devices, as an array of this process.

    >>> import didax as dx
    >>> global_array_to_host_local_array(dx.numpy.arange(2), dx.make_mesh((1,), ("data",)), dx.P("data"))
    Array([0, 1], dtype=int32)
    """

    def convert(x: Any, spec: PartitionSpec) -> Any:
        layout, local = NamedSharding(global_mesh, spec), NamedSharding(global_mesh.local_mesh, spec)
        laid = constrained(x, layout)
        shape, (counts, _) = laid.shape, local.parts(laid.ndim)
        block = tuple(n * count for n, count in zip(layout.shard_shape(shape), counts, strict=True))
        parts = [shard.data for shard in laid.addressable_shards]
        return make_array_from_single_device_arrays(block, local, parts)

    return _map_with_specs("global_array_to_host_local_array", convert, global_inputs, pspecs)


def _map_with_specs(what: str, convert: Any, arrays: Any, pspecs: Any) -> Any:
    leaves, tree = pytree.flatten(arrays)
    specs = pytree.broadcast_prefix(pspecs, arrays, f"{what} pspecs", _is_spec, "the arrays")
    for spec in specs:
        if not isinstance(spec, PartitionSpec):
            rule, fix = f"{what} takes a PartitionSpec for each array.", "Pass P() for what is not split."
            raise ArgumentError(message(rule, f"pspecs: {pspecs!r:.200}", fix=fix))
    return pytree.unflatten(tree, [convert(x, spec) for x, spec in zip(leaves, specs, strict=True)])


def _is_spec(x: Any) -> bool:
    return x is None or isinstance(x, PartitionSpec)
