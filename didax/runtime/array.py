"""`ConcreteArray`: an array with numbers, on the host, on a device, or both.

It is created from a NumPy value or a device buffer and moves between the two on demand, without copying on the CPU.
Users meet it as `didax.Array`, its public base; the operators are attached by `didax/numpy/array_methods.py`.
Read next: `runtime/eager.py` (who makes them), `xla/buffers.py` (how they move).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import repeat
from threading import Lock
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from didax.core import config
from didax.core.avals import ShapedArray, aval_of
from didax.core.declarations import no_numbers
from didax.core.dtypes import PYTHON_SCALARS, dtype_name, is_complex, is_integer, numpy_scalar
from didax.core.errors import api_boundary, message
from didax.core.given import give, given_by
from didax.core.jaxpr import Literal
from didax.core.layout import Format, row_major
from didax.core.memory import DEVICE
from didax.core.mesh import mesh_of_new_arrays
from didax.core.primitive import eager_trace
from didax.core.process import after_fork
from didax.core.sharding import NamedSharding, PartitionSpec
from didax.core.tracing import Tracer, current_trace, leaked, set_current_trace
from didax.core.value import Array
from didax.passes.key_reuse import Keys, holds_keys
from didax.primitives.convert import copy_p
from didax.primitives.slicing import concatenate, slice_axis
from didax.transforms.cache import on_clear
from didax.transforms.staging import StagingTrace

# jaxlib is loaded with the first buffer, not with this module
_buffers: Any = None


def _device_floor() -> Any:
    global _buffers
    if _buffers is None:
        from didax.xla import buffers

        _buffers = buffers
    return _buffers


class ConcreteArray(Array):
    """An array with numbers, in a NumPy `value`, which must not be written to, or in a PJRT `buffer`, or in both."""

    __slots__ = ("__weakref__", "_buffer", "_keys", "_sharers", "_value", "committed")

    placed: Any = given_by("didax.runtime.sharded")

    def __init__(self, aval: ShapedArray, value: Any = None, buffer: Any = None, committed: bool = False):
        self.aval = aval
        self._value = value
        self._buffer = buffer
        self.committed = committed  # placed on its device by the user

    def host_value(self) -> Any:
        """The contents as a NumPy array or scalar that must not be written to; waits for the device if need be."""
        value = self._value
        if value is None:
            if self._buffer is None or self._buffer.is_deleted():
                raise self._deleted()
            value = self._value = _device_floor().to_host(self._buffer, self.aval)
        return value

    def device_buffer(self, device: Any = None) -> Any:
        """The contents as a buffer on `device` (by default where they are, else on the default device)."""
        buffer = self._buffer
        if buffer is None:
            if self._value is None:
                raise self._deleted()
            buffer = _device_floor().to_device(self._value, self.aval, device)
            if device is None:  # a copy on another device is used once, and not kept
                self._buffer = buffer
            return buffer
        if buffer.is_deleted():
            raise self._deleted()
        if device is not None and _device_of(buffer) is not device:
            return _device_floor().copy_to_device(buffer, device)
        return buffer

    def _deleted(self) -> RuntimeError:
        return RuntimeError(
            message(
                "This array's contents are gone: it was donated to a jitted function, or deleted.",
                f"array: {self.aval}",
                fix="Use the function's result instead, or do not donate the argument (donate_argnums).",
            )
        )

    def is_deleted(self) -> bool:
        """True when the contents were donated or deleted."""
        return self._value is None and (self._buffer is None or self._buffer.is_deleted())

    def delete(self) -> None:
        """Give the memory back now; any later use raises RuntimeError."""
        if self._buffer is not None and not self._buffer.is_deleted() and not self._is_shared():
            self._buffer.delete()
        self._value = self._buffer = None

    def _is_shared(self) -> bool:
        """Whether another array has the same buffer. See Note [Arrays that share a buffer]."""
        try:
            sharers = self._sharers
        except AttributeError:  # the slot is empty until it is needed, so that arrays are made quickly
            return False
        others = [sharer() for sharer in sharers.copy()]
        return any(x is not None and x is not self and x._buffer is self._buffer for x in others)

    def own_buffer(self) -> None:
        """Called before the buffer is donated: where other arrays have the same buffer, this array gets a copy."""
        buffer = self._buffer
        if buffer is not None and self._is_shared() and not buffer.is_deleted():
            self._buffer = _device_floor().copy_of(buffer)

    def share_with_library(self) -> None:
        """Record that another library reads an accelerator's buffer, so that nobody donates or deletes it."""
        reader = _Reader(self._buffer)
        _sharers_of(self).append(lambda: reader)

    def twin(self) -> ConcreteArray:
        """A second array with the same contents; the caller has to call `join_sharers` on the two."""
        return type(self)(self.aval, self._value, self._buffer, self.committed)

    def forget_donated(self) -> None:
        """Called after the buffer was donated: forget the host value, which may be a view of its memory."""
        self._value = None
        buffer: Any = self._buffer
        buffer.delete()  # otherwise XLA writes a line to stderr when the array is passed to a program again

    def block_until_ready(self) -> ConcreteArray:
        """Wait until the numbers are there; returns the array."""
        if self.is_deleted():
            raise self._deleted()
        if self._value is None and self._buffer is not None:
            _device_floor().wait(self._buffer)
        return self

    def is_ready(self) -> bool:
        """True when the numbers are there."""
        if self.is_deleted():
            raise self._deleted()
        return self._value is not None or bool(self.device_buffer().is_ready())

    @property
    def device(self) -> Any:
        """The device that holds the array, or held it until its contents were donated."""
        if self._buffer is not None:
            return _device_of(self._buffer)
        from didax.xla.client import backend

        return chosen_device() or backend().default_device

    @property
    def format(self) -> Format:
        """The order of the elements in memory, and the devices that hold them: `experimental.layout.Format`."""
        return row_major(self.aval.ndim, self.sharding)

    @property
    def place(self) -> Any:
        """Where programs on this array run: a device, or a tuple of devices that each hold a part of it."""
        return self.device

    def devices(self) -> set[Any]:
        """The devices that hold the array."""
        return self.sharding.device_set

    @property
    def sharding(self) -> Any:
        """How the array is laid out over devices. See Note [Arrays that nobody has placed]."""
        from didax.xla.client import backend

        mesh = None if self.committed else mesh_of_new_arrays()
        if mesh is None:
            return backend().shardings[self.device]
        return NamedSharding(mesh, PartitionSpec(*[None] * (self.aval.ndim if mesh.explicit_axes else 0)))

    @property
    def is_fully_addressable(self) -> bool:
        """Every device that holds a part of the array belongs to this process."""
        return True

    @property
    def is_fully_replicated(self) -> bool:
        """Every device holds the whole array."""
        return True

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts of the array on this process's devices."""
        if isinstance(sharding := self.sharding, NamedSharding):
            return self.placed(sharding).addressable_shards
        return [Shard(self.device, (slice(None),) * self.aval.ndim, 0, self)]

    @property
    def global_shards(self) -> list[Shard]:
        """The parts of the array on the devices of all processes."""
        return self.addressable_shards

    def addressable_data(self, index: int) -> ConcreteArray:
        """The part of the array on one of this process's devices."""
        return self.addressable_shards[index].data

    def platform(self) -> str:
        """The platform of the array's device: 'cpu' or 'cuda'."""
        return self.device.client.platform

    def on_device_size_in_bytes(self) -> int:
        """Bytes of device memory that the array takes."""
        return self.device_buffer().on_device_size_in_bytes()

    def unsafe_buffer_pointer(self) -> int:
        """The address of the contents, where other libraries find them; valid while the array lives."""
        if self.platform() == "cpu" and self._reads_in_place():
            return self._host_array().__array_interface__["data"][0]
        return self.device_buffer().unsafe_buffer_pointer()

    def copy_to_host_async(self) -> None:
        """Begin to bring the contents to the host, where that takes a copy."""
        if not self._reads_in_place():
            _device_floor().start_copy_to_host(self.device_buffer())

    def _reads_in_place(self) -> bool:
        """Whether the host can see the contents without a copy."""
        if self._value is not None:
            return True
        if self.is_deleted():
            raise self._deleted()
        return _device_floor().reads_in_place(self.aval)

    def _host_array(self) -> np.ndarray[Any, Any]:
        """`host_value` as an array that this object keeps, so that other libraries can share its memory."""
        value = self.host_value()
        if type(value) is not np.ndarray:
            value = self._value = np.asarray(value)
        return value

    def _check_numbers(self, name: str) -> None:
        if (error := no_numbers(name, (self.aval,))) is not None:
            raise error

    @api_boundary
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        self._check_numbers("A NumPy array")
        changed = dtype is not None and self.aval.dtype != dtype
        if copy is False and (changed or not self._reads_in_place()):
            wanted = np.dtype(dtype).name if changed else self.aval.dtype.name
            raise ValueError(
                message(
                    "A change of dtype needs a copy."
                    if changed
                    else "NumPy cannot see a device's memory without a copy.",
                    f"array: {self.aval}, wanted: {wanted}, copy=False",
                    fix="Drop copy=False, or convert first with x.astype(...).",
                )
            )
        value = self._host_array()
        if changed:
            return value.astype(dtype)
        if copy:
            return value.copy()
        if not _is_read_only(value):
            value = self._value = _read_only(value)
        return value.view()

    def __buffer__(self, flags: int, /) -> memoryview:
        """The buffer protocol, which Python asks classes for from version 3.12 on: `memoryview(x)` is read-only."""
        if not self._reads_in_place():  # NumPy asks here first, and takes what it is given for shared memory
            raise BufferError(
                message(
                    "A buffer is memory of the host, which does not hold this array's contents.",
                    f"array: {self.aval} on {self.device}",
                    fix="Copy it to the host: numpy.asarray(x).",
                )
            )
        return self.__array__().data

    def __bytes__(self) -> bytes:
        """The numbers in order of rows, also before Python 3.12, where there is no buffer to take them from."""
        return self.__array__().tobytes()

    def __dlpack_device__(self) -> tuple[int, int]:
        """The kind of device that holds the array and its number, as DLPack counts them."""
        return _device_floor().dlpack_device(self.device)

    @api_boundary
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The array's memory for another library, read-only where that can be said; `copy=True` gives it its own."""
        self._check_numbers("DLPack")
        floor, here = _device_floor(), self.__dlpack_device__()
        wanted = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        on_host = wanted == floor.CPU_DEVICE
        if wanted != here and (not on_host or copy is False):
            raise BufferError(
                message(
                    "DLPack shares memory where it is, or copies it to the host.",
                    f"array: {self.aval} on {here}, wanted on {wanted}, copy={copy}",
                    fix="Drop dl_device and copy=False, or move the array first with x.to_device(...).",
                )
            )
        if not on_host:
            source = self.__copy__() if copy else self
            capsule = floor.capsule_of_buffer(source.device_buffer(), stream)
            source.share_with_library()
            return capsule
        return floor.capsule_of_host(self._host_array(), max_version, bool(copy))

    def rows(self) -> Iterator[ConcreteArray] | None:
        """The arrays along the first axis, views of the host's memory; None where that would take a copy."""
        if not self._reads_in_place():
            return None
        row = self.aval.update(shape=self.aval.shape[1:])
        rows = map(ConcreteArray, repeat(row), self.host_value())
        return _rows_with_keys(rows, keys_of(self)) if holds_keys(row) else rows

    @api_boundary
    def __bool__(self) -> bool:
        return bool(self._only_element("truth value"))

    @api_boundary
    def __int__(self) -> int:
        return int(self._only_element("int"))

    @api_boundary
    def __float__(self) -> float:
        return float(self._only_element("float"))

    @api_boundary
    def __complex__(self) -> complex:
        return complex(self._only_element("complex"))

    @api_boundary
    def __index__(self) -> int:
        self._check_numbers("An index")
        if self.aval.ndim or not is_integer(self.aval.dtype):
            raise TypeError(
                message(
                    "Only an integer array without axes is an index.",
                    f"array: {self.aval}",
                    fix="Index one element, or convert it with x.astype(int).",
                )
            )
        return int(self.host_value())

    def _only_element(self, what: str) -> Any:
        """The element of an array without axes, for a truth value also of any array of one element.

        TypeError (ValueError for a truth value) for other arrays.
        """
        self._check_numbers(f"Conversion to {what}")
        if self.aval.ndim and (self.aval.size != 1 or what != "truth value"):
            raise self._no_scalar(what)
        if what in ("float", "int") and is_complex(self.aval.dtype):
            raise TypeError(
                message(
                    f"A complex array has no {what} value.",
                    f"array: {self.aval}",
                    fix="Take x.real, x.imag or abs(x) first.",
                )
            )
        value = self.host_value()
        return value if self.aval.ndim == 0 else value.reshape(())[()]

    def _no_scalar(self, what: str) -> Exception:
        facts = f"array: {self.aval}"
        if what == "truth value":
            fix = "Use .any() or .all(), index one element, or x.size > 0 to ask whether it is empty."
            return ValueError(message("Only an array of one element has a truth value.", facts, fix=fix))
        fix = "Index one element, or use x.item() where there is only one."
        return TypeError(message(f"Only an array without axes converts to {what}.", facts, fix=fix))

    @api_boundary
    def __hash__(self) -> int:
        raise TypeError(
            message(
                "Arrays are not hashable.", f"array: {self.aval}", fix="Hash x.tobytes() or id(x) instead."
            )
        )

    @api_boundary
    def __reduce__(self) -> Any:
        place = (self.platform(), self.device.id) if self.committed else None
        return _rebuild, (np.asarray(self.host_value()), self.aval, place)

    def __copy__(self) -> ConcreteArray:
        with set_current_trace(eager_trace):
            return copy_p.bind(self)

    def __deepcopy__(self, memo: Any) -> ConcreteArray:
        return self.__copy__()

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.aval.weak_type else ""
        suffix = f"dtype={dtype_name(self.aval.dtype)}{weak})"
        if self.is_deleted():
            return f"Array(deleted, shape={self.aval.shape}, {suffix}"
        if self.aval.physical is not self.aval:
            return f"Array({self.aval.shape}, {suffix} overlaying:\n{self.host_value()}"
        if self.aval.size == 0:
            return f"Array([], shape={self.aval.shape}, {suffix}"
        shown, threshold = self._shown()
        text = "Array(" + np.array2string(
            shown, prefix="Array(", separator=", ", suffix=",", threshold=threshold
        )
        room = np.get_printoptions()["linewidth"] - len(text[text.rfind("\n") + 1 :])
        return f"{text},{' ' if len(suffix) + 2 <= room else _NEW_LINE}{suffix}"

    def __str__(self) -> str:
        if self.aval.physical is not self.aval:
            return repr(self)
        shown, threshold = self._shown()
        with np.printoptions(threshold=threshold):
            return str(shown)

    def _shown(self) -> tuple[np.ndarray[Any, Any], int]:
        """An array to print in place of this one, and the size above which NumPy is to leave elements out.

        Of a large array in a device's memory only the elements that are printed are copied to the host.
        """
        options = np.get_printoptions()
        if self.aval.size <= options["threshold"] or self._reads_in_place():
            return self._host_array(), int(options["threshold"])
        return np.asarray(_edges(self, options["edgeitems"]).host_value()), 0

    @api_boundary
    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        self._check_numbers("Formatting")
        if self.aval.ndim:
            raise TypeError(
                message(
                    "Only an array without axes can be formatted like a number.",
                    f"array: {self.aval}, format: {spec!r}",
                    fix="Format its elements (x.tolist()), or leave the format out and set numpy.printoptions.",
                )
            )
        return format(self.host_value().item(), spec)


class PlacedArray(ConcreteArray):
    """An array that the user has put on a device other than the default one, or on several (`ShardedArray`).

    It is a class of its own because hot paths recognise their arrays by the class alone: these arrays take the general
    path, which computes where they are.
    """

    __slots__ = ()


class HostArray(PlacedArray):
    """An array of one device in a memory of the host. See Note [Memories]."""

    __slots__ = ()

    @property
    def sharding(self) -> Any:
        """The device that the array belongs to, and the kind of memory that holds it."""
        from didax.xla.client import backend

        if self._buffer is None:
            raise self._deleted()
        return backend().in_memory(self.device, self._buffer._sharding.memory_kind)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The host, in DLPack's words."""
        return _device_floor().CPU_DEVICE

    def __copy__(self) -> ConcreteArray:
        return with_keys(
            HostArray(self.aval, None, _device_floor().copy_of(self.device_buffer()), True), keys_of(self)
        )

    @api_boundary
    def __reduce__(self) -> Any:
        place = (self.platform(), self.device.id, self.sharding.memory_kind)
        return _rebuild, (np.asarray(self.host_value()), self.aval, place)


# Note [Memories]
# An array lies in the memory of its device, or in one of the host's: its sharding says which, its type does not.
# Programs compute in the memory of the device. What lies elsewhere is brought there where it is used, so that an array
# may lie anywhere. Results lie in the memory of the device, except for those that the program itself puts elsewhere
# (`passes/memories.py`). Arrays in the memory of one device need not know of this: those in other memories have classes
# of their own, which hot paths leave to the general path.


# How the classes name themselves in tracebacks (`unsupported operand type(s) for +: 'Array' and 'str'`).
ConcreteArray.__name__ = PlacedArray.__name__ = HostArray.__name__ = "Array"


def on_device(aval: ShapedArray, buffer: Any) -> ConcreteArray:
    """The array of a buffer that the user placed on its device."""
    from didax.xla.client import backend

    if buffer._sharding.memory_kind not in (None, DEVICE):
        return HostArray(aval, None, buffer, committed=True)
    kind = ConcreteArray if _device_of(buffer) is backend().default_device else PlacedArray
    return kind(aval, None, buffer, committed=True)


def on_one_device(x: ConcreteArray, device: Any, kind: str = DEVICE) -> ConcreteArray:
    """A new array with the contents of another, placed on a device, in its memory or in memory of another kind.

    Where they lie there already, the two arrays share a buffer.
    """
    mine = x
    if kind == DEVICE and type(x) is not HostArray:
        # An array with a host value gives it to a new array, which gets a buffer of its own: deleting or donating the
        # one array leaves the other as it is.
        mine = x if x._value is None else ConcreteArray(x.aval, x._value)
        buffer = mine.device_buffer(device)
    elif x._buffer is None:
        buffer = _device_floor().put_in_memory(x.host_value(), x.aval, device, kind)
    else:
        buffer = _device_floor().copy_to_device(x.device_buffer(), device, kind)
    placed = on_device(x.aval, buffer)
    join_sharers(mine, placed)
    return with_keys(placed, keys_of(x))


_NEW_LINE = "\n" + " " * len("Array(")


# Note [Arrays that nobody has placed]
# A new array, or a result of operations on such arrays, follows the other arguments of a program to their devices.
# Under `set_mesh` it counts as lying on every device of the mesh, each with the whole: so say its sharding, its devices
# and its shards. The numbers are copied there when a program or the user asks for them. Until then they are in one
# place, so that operations on small arrays cost under a mesh what they cost elsewhere.


# Note [Arrays that share a buffer]
# The result of a function is an array of its own, even where it has the contents of an argument (`x.ravel()`): when one
# of the two is donated or deleted, the other stays as it is. Nothing is copied for that. The two arrays share a buffer,
# and all arrays with one buffer have weak references to each other. When one of them is donated while another one
# lives, the program is given a copy.


def sharing(x: Any) -> Any:
    """A new array with the contents of a concrete array `x`; anything else is returned as it is.

    A function that is being staged gets `x` itself: it must see one object, so that the program captures it once.
    """
    if not isinstance(x, ConcreteArray) or _is_staging():
        return x
    if x.is_deleted():
        raise x._deleted()
    y = x.twin()
    if x._buffer is not None:
        join_sharers(x, y)
    return with_keys(y, keys_of(x))


def _is_staging() -> bool:
    trace = current_trace()
    while trace is not eager_trace:
        if isinstance(trace, StagingTrace):
            return True
        trace = trace.parent
    return False


def join_sharers(x: ConcreteArray, y: ConcreteArray) -> None:
    """Record that the second array, which was just made, has the buffer of the first."""
    y._sharers = sharers = _sharers_of(x)
    sharers.append(ref(y, sharers.remove))  # until it is gone


def _sharers_of(x: ConcreteArray) -> list[Any]:
    try:
        return x._sharers
    except AttributeError:
        sharers: list[Any] = []
        sharers.append(ref(x, sharers.remove))
        x._sharers = sharers
        return sharers


class _Reader:
    """Stands among the arrays that share a buffer for another library that was given the memory."""

    def __init__(self, buffer: Any):
        self._ref = ref(buffer)

    @property
    def _buffer(self) -> Any:
        return self._ref()


def keys_of(x: Any) -> Keys | None:
    """The record of the random keys in an array, always the same object; None for a value that holds no keys."""
    if not isinstance(x, ConcreteArray) or not holds_keys(x.aval):
        return None
    try:
        return x._keys
    except AttributeError:  # the slot is empty until it is needed, so that arrays are made quickly
        found = x._keys = Keys(x.aval)
        return found


def seen_by_host(x: ConcreteArray) -> bool:
    """True when the host has seen the contents, so that NumPy arrays may be views of them."""
    return x._value is not None


def with_keys(x: ConcreteArray, keys: Keys | None) -> ConcreteArray:
    """The array, which was just made, with this record of the random keys in it."""
    if keys is not None:
        x._keys = keys
    return x


def _rows_with_keys(rows: Iterator[ConcreteArray], keys: Keys | None) -> Iterator[ConcreteArray]:
    for i, row in enumerate(rows):
        yield with_keys(row, keys and keys.row(i, row.aval))


# Note [Read-only for good]
# Whoever owns memory may make a NumPy array on it writeable again, and every view leads to the owner by its `base`. So
# a user does not get a view of our array. The last base of the user's array is an object that tells NumPy, by the array
# interface, where the memory is and that it must not be written to. Nothing is copied.


class _ReadOnlyMemory:
    """The memory of an array, which it keeps alive. See Note [Read-only for good]."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, value: np.ndarray[Any, Any]):
        interface = value.__array_interface__
        self._owner = value
        self.__array_interface__ = {**interface, "data": (interface["data"][0], True)}


def _read_only(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if not value.dtype.itemsize:  # float0
        return value
    if value.dtype.num < 256:
        return np.asarray(_ReadOnlyMemory(value))
    # The interface has no name for bfloat16 and its kin, which NumPy numbers from 256 on.
    return np.asarray(_ReadOnlyMemory(value.view(f"u{value.dtype.itemsize}"))).view(value.dtype)


def _is_read_only(value: np.ndarray[Any, Any]) -> bool:
    """Whether no array that this one is a view of can be written to."""
    found: Any = value
    while isinstance(found, np.ndarray):
        if found.flags.writeable or found.base is None:
            return False
        found = found.base
    return True


class Shard(NamedTuple):
    """The part of an array that one device holds.

    `x.addressable_shards` lists those of this process.

    >>> import didax as dx, didax.numpy as dnp
    >>> (shard,) = dx.device_put(dnp.arange(3)).addressable_shards
    >>> shard.replica_id, shard.data
    (0, Array([0, 1, 2], dtype=int32))
    """

    device: Any
    index: tuple[slice, ...]
    replica_id: int
    data: Any

    def __repr__(self) -> str:
        named = zip(self._fields[:-1], self, strict=False)
        return f"Shard({', '.join([f'{name}={value!r}' for name, value in named])}, data={self.data})"


def _edges(x: ConcreteArray, count: int) -> ConcreteArray:
    """The first and last `count` elements along each axis, and one between them, in whose place NumPy prints dots."""
    with set_current_trace(eager_trace):
        for axis, length in enumerate(x.aval.shape):
            if length > 2 * count + 1:
                parts = slice_axis(x, 0, count + 1, axis), slice_axis(x, length - count, length, axis)
                x = concatenate(parts, axis)
    return x


def _rebuild(value: np.ndarray[Any, Any], aval: ShapedArray, place: Any) -> ConcreteArray:
    """What unpickling calls: the array, on the device that the user had placed it on, if this process has it.

    `place` holds the platform and the number of the device, and the kind of memory where it is not that of the device.
    """
    device = _device_floor().find_device(*place[:2]) if place is not None else None
    if place is None or device is None:
        return ConcreteArray(aval, value)
    if kind := place[2:]:
        return on_device(aval, _device_floor().put_in_memory(value, aval, device, *kind))
    return on_device(aval, _device_floor().to_device(value, aval, device, copy=True))


def _device_of(buffer: Any) -> Any:
    return next(iter(buffer._sharding.device_set))


class _WrittenNumbers:
    """Arrays of numbers that a program writes are made by `written_numbers.array(aval, value)`.

    That is the class of arrays itself, so they cost nothing more. Within `recorded` it is a function that also keeps
    them, so that whoever stages a function can tell the numbers it writes from the arrays it captures.
    """

    __slots__ = ("_lists", "_lock", "_recordings", "array")

    array: Callable[[ShapedArray, Any], ConcreteArray]

    def __init__(self) -> None:
        self.array = ConcreteArray
        self._lists: ContextVar[tuple[list[ConcreteArray], ...]] = ContextVar("numbers", default=())
        self._recordings = 0  # in all threads
        self._lock = Lock()

    @contextmanager
    def recorded(self) -> Iterator[list[ConcreteArray]]:
        """The arrays without axes that are made of numbers inside the block, and in no other thread."""
        made: list[ConcreteArray] = []
        token = self._lists.set((*self._lists.get(), made))
        self._count(1)
        try:
            yield made
        finally:
            self._count(-1)
            self._lists.reset(token)

    def _count(self, change: int) -> None:
        with self._lock:
            self._recordings += change
            self.array = self._kept if self._recordings else ConcreteArray

    def _kept(self, aval: ShapedArray, value: Any) -> ConcreteArray:
        made = ConcreteArray(aval, value)
        if not aval.shape:
            for kept in self._lists.get():
                kept.append(made)
        return made


written_numbers = _WrittenNumbers()

_SCALARS = (np.generic, int, float, complex)
_HOST_VALUES = (np.ndarray, *_SCALARS)


def as_concrete(x: Any) -> ConcreteArray:
    """A concrete array for a NumPy array (copied: its owner may write to it) or a scalar; arrays pass through."""
    if isinstance(x, ConcreteArray):
        return x
    if isinstance(x, Tracer):
        raise leaked(x)
    aval = aval_of(x)
    if isinstance(x, np.ndarray):
        return written_numbers.array(aval, np.array(x, aval.dtype))
    if not isinstance(x, _SCALARS):
        raise _no_numbers(x)
    return written_numbers.array(
        aval,
        x.astype(aval.dtype, copy=False) if isinstance(x, np.generic) else numpy_scalar(x, aval.dtype),
    )


@give(Literal, "value")
def _literal_value(literal: Literal) -> Any:
    """The value: an array where `enable_x64` gave Python's or NumPy's numbers another width when they were traced."""
    x, aval = literal.val, literal.aval
    if type(x) not in _OF_ANY_WIDTH or aval_of(x).dtype == aval.dtype:
        return x
    value = np.array(x, aval.dtype)
    return written_numbers.array(ShapedArray(value.shape, value.dtype, aval.weak_type), value)


_OF_ANY_WIDTH = frozenset([*PYTHON_SCALARS, np.ndarray])


def chosen_device() -> Any:
    """The device that the option `default_device` names; None where that is the backend's default device."""
    from didax.xla.client import backend

    device = config.state().default_device if config.default_device_was_set else None
    return None if device is None or device is backend().default_device else device


def default_device() -> Any:
    """The device that new arrays go to."""
    from didax.xla.client import backend

    return chosen_device() or backend().default_device


def argument_buffer(x: Any, device: Any = None) -> Any:
    """A buffer with the contents of one argument of a program: an array's own, or a new one for a NumPy value."""
    if isinstance(x, ConcreteArray):
        # An array that was made under `default_device` lies there, but the user has not placed it.
        if device is None and type(x) is PlacedArray and not x.committed:
            from didax.xla.client import backend

            device = backend().default_device
        return x.device_buffer(device)
    if isinstance(x, Tracer):
        raise leaked(x)
    if not isinstance(x, _HOST_VALUES):
        raise _no_numbers(x)
    aval = aval_of(x)
    value = x if isinstance(x, np.ndarray | np.generic) else numpy_scalar(x, aval.dtype)
    return _device_floor().to_device(value, aval, device, copy=True)


def is_staged(x: np.ndarray[Any, Any]) -> bool:
    """Whether calls may write arrays like `x` into buffers of earlier calls."""
    return _device_floor().is_staged(aval_of(x))


def with_memory_of(avals: list[ShapedArray], made: list[Any]) -> tuple[Any, ...]:
    """Buffers of these types, each followed by its memory: see `xla/buffers.py`."""
    return _device_floor().with_memory_of(avals, made)


def copying(x: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """What copies NumPy arrays of one type to the default device: see `xla/buffers.py`."""
    return _device_floor().copying(aval_of(x))


_SCALAR_BUFFERS_MAX = 1024
scalar_buffers: dict[Any, Any] = {}  # by type and value
on_clear(scalar_buffers.clear)
after_fork(scalar_buffers.clear)


def constant_buffer(x: Any) -> Any:
    """As `argument_buffer` on the default device, for a program that donates nothing: scalars share their buffers."""
    buffer = scalar_buffers.get((aval_of(x), x)) if type(x) in _SHARED_SCALARS else None
    if buffer is None:
        buffer = argument_buffer(x)
        share_scalars([x], [buffer])
    return buffer


def share_scalars(xs: Sequence[Any], buffers: Sequence[Any]) -> None:
    """Let later calls with one of these Python scalars find its buffer, which nobody writes to."""
    for x, buffer in zip(xs, buffers, strict=True):
        if type(x) not in _SHARED_SCALARS or (x == 0 and type(x) is float) or x != x:  # zeros have signs
            continue
        if len(scalar_buffers) >= _SCALAR_BUFFERS_MAX:
            scalar_buffers.clear()
        scalar_buffers[aval_of(x), x] = buffer


_SHARED_SCALARS = frozenset([bool, int, float])


def _no_numbers(x: Any) -> TypeError:
    """The error for a description of an array (`ShapeDtypeStruct`) in place of an array."""
    return TypeError(
        message(
            "Only arrays with numbers can be computed with.",
            f"got: {x!r:.100}",
            fix="Pass an array of this type.",
        )
    )
