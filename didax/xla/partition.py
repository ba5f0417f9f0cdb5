"""Arrays and programs that lie on several devices, in XLA's words.

`Partition` says how a program is laid out: its devices, and a sharding for each argument. `xla_sharding` is what
jaxlib wants with every array on several devices; `put_shards`, `shards_of`, `reshard` move the parts.
`found_sharding` reads the layout that XLA's partitioner chose for a result.
Read next: `core/sharding.py` (what users say), `runtime/sharded.py` (the arrays).
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from didax.core.avals import ShapedArray
from didax.core.dtypes import float0
from didax.core.mesh import Mesh
from didax.core.sharding import NamedSharding, PartitionSpec, Sharding
from didax.xla.buffers import to_host
from didax.xla.client import backend, hlo, sharding_of_one, xe
from didax.xla.device_text import Partition


class XlaSharding(xe.Sharding):
    """A sharding as jaxlib's arrays hold it."""

    # The class needs them, too: JAX, where it is loaded, makes properties of these names for the base class.
    memory_kind: str | None = None
    _memory_kind: str | None = None

    def __init__(self, sharding: Sharding):
        super().__init__()
        self.sharding = sharding
        self.memory_kind = self._memory_kind = getattr(sharding, "kind", None)
        self._devices = xe.DeviceList(sharding.devices)

    @property
    def _internal_device_list(self) -> Any:
        return self._devices

    @property
    def device_set(self) -> set[Any]:
        """The devices that hold a part of the array."""
        return self.sharding.device_set

    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Any:
        return hlo_sharding(self.sharding, num_dimensions)


_xla_shardings: WeakKeyDictionary[Sharding, XlaSharding] = WeakKeyDictionary()


def xla_sharding(sharding: Any) -> Any:
    """The sharding as jaxlib's arrays hold it, always the same object; one device's where the mesh stands for it."""
    if sharding.is_one_device:
        return sharding_of_one(sharding.devices[0], sharding.kind)
    found = _xla_shardings.get(sharding)
    if found is None:
        found = _xla_shardings.setdefault(sharding, XlaSharding(sharding))
    return found


def hlo_sharding(sharding: Any, ndim: int) -> Any:
    """The sharding of an array with `ndim` axes as XLA tiles it."""
    if ndim == 0 or sharding.is_fully_replicated:
        return hlo.HloSharding.replicate()
    mesh, entries = sharding.mesh, sharding.entries(ndim)
    split = [mesh.axis_names.index(name) for names in entries for name in names]
    rest = [i for i in range(len(mesh.axis_names)) if i not in split]
    tiles = [math.prod(mesh.shape[name] for name in names) for names in entries]
    copies = math.prod(mesh.axis_sizes[i] for i in rest)
    kinds = [hlo.OpSharding_Type.REPLICATED] if copies > 1 else []
    return hlo.HloSharding.iota_tile(
        [*tiles, *[copies] * len(kinds)], mesh.axis_sizes, [*split, *rest], kinds
    )


def layout_found(partition: Partition, message_: Any, ndim: int) -> NamedSharding:
    """The sharding of an array with `ndim` axes, from XLA's message; None stands for the whole on each device."""
    if message_ is None:
        return NamedSharding(partition.mesh, PartitionSpec())
    return found_sharding(hlo.HloSharding.from_proto(message_), partition.mesh, ndim)


def found_sharding(found: Any, mesh: Mesh, ndim: int) -> NamedSharding:
    """The sharding that XLA chose: over the mesh, where a spec can express it; otherwise over a mesh made for it.

    Where XLA has split an axis of the mesh, the mesh made for it has the parts of this axis as axes, and the devices in
    the same order.
    """
    if found.is_replicated() or found.is_maximal() or found.is_unknown():
        return NamedSharding(mesh, PartitionSpec())
    tiles = list(found.tile_assignment_dimensions())
    order = np.array(found.tile_assignment_devices()).reshape(tiles)
    for finer in itertools.chain([mesh], _finer(mesh)):
        spec = _spec_for(order, finer, ndim)
        if spec is not None:
            return NamedSharding(finer, spec)
    devices = np.array(list(mesh.devices.flat), dtype=object)[order]
    names = [f"axis{i}" for i in range(order.ndim)]
    return NamedSharding(Mesh(devices, names), PartitionSpec(*names[:ndim]))


def _finer(mesh: Mesh) -> Iterator[Mesh]:
    """The meshes of the same devices in the same order whose axes are parts of prime length of the axes of this one."""
    ways = [_prime_factors(n) for n in mesh.axis_sizes]
    for lengths in itertools.product(*ways):
        names = [
            name if len(found) == 1 else f"{name}.{i}"
            for name, found in zip(mesh.axis_names, lengths, strict=True)
            for i in range(len(found))
        ]
        yield Mesh(mesh.devices.reshape([n for found in lengths for n in found]), names)


def _prime_factors(n: int) -> list[tuple[int, ...]]:
    """The prime factors of n, in each order that there is: for 12 these are (2, 2, 3), (2, 3, 2) and (3, 2, 2)."""
    primes: list[int] = []
    for divisor in range(2, n):
        if n % divisor == 0 and all(divisor % p for p in primes):
            primes.append(divisor)
    return [(p, *others) for p in primes for others in _prime_factors(n // p)] or [(n,)]


def _spec_for(order: np.ndarray[Any, Any], mesh: Mesh, ndim: int) -> PartitionSpec | None:
    """The spec by which device number `order[i, j, ...]` holds part i, j, ... of an array; None where there is none."""
    place = np.empty((order.size, order.ndim), int)
    place[order.ravel()] = list(itertools.product(*map(range, order.shape)))
    place = place[:, :ndim].reshape(*mesh.axis_sizes, ndim)
    names: list[list[tuple[int, str]]] = [[] for _ in range(ndim)]
    for axis, (name, _) in enumerate(mesh.shape_tuple):
        step = np.diff(place, axis=axis)
        moved = {d for d in range(ndim) if step[..., d].any()}
        if len(moved) > 1:
            return None
        for d in moved:
            names[d].append((int(step[(0,) * len(mesh.axis_sizes)][d]), name))
    spec = PartitionSpec(*[tuple(name for _, name in sorted(found, reverse=True)) for found in names])
    counts, places = NamedSharding(mesh, spec).parts(ndim)
    fits = counts == order.shape[:ndim] and places == tuple(map(tuple, place.reshape(-1, ndim).tolist()))
    return _trimmed(spec) if fits else None


def _trimmed(spec: PartitionSpec) -> PartitionSpec:
    """The spec without the Nones at its end."""
    entries = list(spec)
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries)


# --- Buffers ------------------------------------------------------------------------------------------


def put_shards(parts: Sequence[np.ndarray[Any, Any]], aval: ShapedArray, sharding: Sharding) -> Any:
    """One XLA array from the parts for this process's devices, which are still on the host."""
    local = [d for d in sharding.devices if d in sharding.addressable_devices]
    if aval.dtype == float0:
        aval, parts = aval.update(dtype=np.dtype(bool)), [np.zeros(part.shape, bool) for part in parts]
    return xe.batched_device_put(aval, xla_sharding(sharding), list(parts), local, True, enable_x64=True)


def join_shards(buffers: Sequence[Any], aval: ShapedArray, sharding: Sharding) -> Any:
    """One XLA array from a buffer on each of this process's devices; nothing is copied."""
    return xe.ArrayImpl(aval, xla_sharding(sharding), list(buffers), committed=True, _skip_checks=True)


def moved_shards(
    buffer: Any, aval: ShapedArray, sharding: NamedSharding, client: Any, wanted: NamedSharding
) -> Any:
    """An XLA array of a client, laid out by `sharding`, as one that is `wanted` on other devices, part by part."""
    physical = aval.physical
    counts, _ = sharding.parts(aval.ndim)
    lengths = [n // count for n, count in zip(aval.shape, counts, strict=True)]
    part = physical.update(shape=(*lengths, *physical.shape[aval.ndim :]), sharding=None)
    parts = shards_of(buffer, part, sharding.devices, client)
    return put_shards([to_host(x, part) for x in parts], physical, wanted)


def shards_of(buffer: Any, aval: ShapedArray, devices: Sequence[Any], client: Any = None) -> list[Any]:
    """The parts of an XLA array, each of the given type, as arrays on one device each: these, in their order."""
    with _jax_not_imported():
        parts = list(buffer._arrays)
    client, kind = client or backend(), buffer._sharding.memory_kind
    return [
        xe.ArrayImpl(aval, client.in_memory(device, kind), [part], committed=True, _skip_checks=True)
        for part, device in zip(parts, devices, strict=True)
    ]


@contextlib.contextmanager
def _jax_not_imported() -> Iterator[None]:
    """jaxlib imports jax, where jax is installed, to split an array; here it finds none.

    A thread that begins to import jax in these microseconds would be refused.
    """
    if "jax" in sys.modules:
        yield
        return
    sys.modules["jax"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.modules.pop("jax", None)
