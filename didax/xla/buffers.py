"""Arrays between host and device: NumPy values to PJRT buffers and back, without copying where XLA allows it.

`to_device` may use the memory of the NumPy array that it is given, so nobody may write to that array afterwards.
`to_host` returns a view of a CPU buffer where it can (`reads_in_place`), and copies from an accelerator. Both keep the
memory that they share alive. Read next: `dlpack.py`, by which other libraries see the same memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import dtypes, job
from didax.core.avals import ShapedArray
from didax.core.memory import DEVICE
from didax.xla.client import Backend, backend, forked, is_forked, xe  # pyright: ignore[reportAttributeAccessIssue]
from didax.xla.dlpack import CPU, CUDA, capsule_of_buffer, capsule_of_host, view_of_buffer

__all__ = [
    "CPU_DEVICE", "capsule_of_buffer", "capsule_of_host", "copy_of", "copy_to_device", "copying", "dlpack_device",
    "find_device", "is_staged", "lend", "put", "put_in_memory", "reads_in_place",
    "start_copy_to_host", "to_device", "to_host", "with_memory_of",
]  # fmt: skip

CPU_DEVICE = (CPU, 0)  # the host, in DLPack's words

_NATIVE = frozenset("?bhilqBHILQefdFD")  # codes of the dtypes that the buffer protocol knows

_SMALL = 1 << 15  # bytes
_COPY_NOW = xe.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_ALIAS = xe.HostBufferSemantics.ZERO_COPY


def to_device(value: Any, aval: ShapedArray, device: Any = None, copy: bool = False) -> Any:
    """A device buffer with the contents of a NumPy array or a scalar; with `copy` the array may be changed later."""
    started = backend()
    device = started.default_device if device is None else device
    aval = aval.physical
    if aval.dtype == dtypes.float0:
        aval = aval.update(dtype=np.dtype(bool))
        value = np.zeros(aval.shape, bool)
    return put(np.asarray(value, aval.dtype), aval, started, device, copy)


def put(
    array: np.ndarray[Any, Any], aval: ShapedArray, client: Backend, device: Any, copy: bool = False
) -> Any:
    """A buffer on a device of a client with the contents of an array of that type."""
    # A small array is copied at once: then its buffer is ready when a program starts, and the program need not wait.
    semantics = _COPY_NOW if copy or array.nbytes <= _SMALL else _ALIAS
    sharding = client.shardings[device]
    return xe.batched_device_put(
        aval, sharding, [array], [device], True, host_buffer_semantics=semantics, enable_x64=True
    )


def copying(aval: ShapedArray) -> tuple[Any, ...]:
    """What `put` calls to copy NumPy arrays of this type to the default device: the function and its arguments."""
    client = backend()
    device = client.default_device
    return xe.batched_device_put, aval, client.shardings[device], [device], _COPY_NOW


def is_staged(aval: ShapedArray) -> bool:
    """Whether arrays of this type are written into existing buffers: small ones on a CPU."""
    return 0 < aval.size * aval.dtype.itemsize <= _SMALL and reads_in_place(aval)


def with_memory_of(avals: Sequence[ShapedArray], made: Sequence[Any]) -> tuple[Any, ...]:
    """CPU buffers, each followed by its memory: an array that may be written to while no program reads it."""
    pairs: list[Any] = []
    for aval, buffer in zip(avals, made, strict=True):
        size = aval.size * aval.dtype.itemsize
        memory = memoryview((ctypes.c_char * size).from_address(address_of(buffer, aval)))
        pairs += [buffer, np.frombuffer(memory, aval.dtype).reshape(aval.shape)]
    return tuple(pairs)


def address_of(buffer: Any, aval: ShapedArray) -> int:
    """Where in memory a buffer is. Its own `unsafe_buffer_pointer` imports jax where jax is installed."""
    if reads_in_place(aval) and aval.physical.size:
        return to_host(buffer, aval).__array_interface__["data"][0]
    return buffer.unsafe_buffer_pointer()


def lend(buffer: Any, client: Backend, device: Any) -> Any:
    """A CPU buffer's contents, once they are there, as a buffer of another client; large ones share the memory."""
    return put(to_host(buffer, buffer.aval), buffer.aval, client, device)


def to_host(buffer: Any, aval: ShapedArray) -> np.ndarray[Any, Any]:
    """The contents of a device buffer as a NumPy array, which must not be written to."""
    aval = aval.physical
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    wait(buffer)
    if reads_in_place(aval):
        # XLA knows of both kinds of views.
        return np.asarray(buffer) if _is_native(aval.dtype) else view_of_buffer(buffer)
    # jaxlib's own reader: unpacks dtypes narrower than a byte and copies from accelerators. Its first call imports jax
    # with jaxlib 0.10, where jax is installed.
    read = getattr(buffer, "_to_np_array_did_copy", None) or buffer._single_device_array_to_np_array_did_copy
    return read()[0]


def reader(aval: ShapedArray) -> Callable[[Any], np.ndarray[Any, Any]]:
    """`to_host` for buffers of this type whose program ran on the calling thread: nobody has to wait for them."""
    if reads_in_place(aval) and _is_native(aval.dtype):
        return np.asarray
    return lambda buffer: to_host(buffer, aval)


def _is_native(dtype: np.dtype[Any]) -> bool:
    return dtype.char in _NATIVE and dtype.isbuiltin == 1


def wait(buffer: Any) -> None:
    """Wait until the contents of a buffer are there; the handler of a signal may end the wait."""
    if job.current is not None:
        return job.current.wait_until_ready(buffer)
    if is_forked() and not buffer.is_ready():  # nobody computes the contents here
        raise forked(backend())
    buffer.block_until_ready()  # raises the error of the program, even of one that has failed already


def reads_in_place(aval: ShapedArray) -> bool:
    """Whether `to_host` is a view of the buffer's memory."""
    return backend().platform == "cpu" and aval.physical.dtype not in _PACKED


_PACKED_NAMES = frozenset({"int2", "uint2", "int4", "uint4", "float4_e2m1fn"})
_PACKED = frozenset(dtype for dtype in dtypes.ALL_DTYPES if dtype.name in _PACKED_NAMES)


def start_copy_to_host(buffer: Any) -> None:
    """Begin to copy a buffer to the host, so that `to_host` need not wait as long."""
    buffer._copy_single_device_array_to_host_async()


def copy_of(buffer: Any) -> Any:
    """A buffer with the same contents in memory of its own, of the same device and kind."""
    (device,) = buffer._sharding.device_set
    kind = buffer._sharding.memory_kind
    if kind not in (None, DEVICE):  # not every backend of XLA copies within the host's memory
        return put_in_memory(to_host(buffer, buffer.aval), buffer.aval, device, kind)
    return _copied(buffer, device, None, xe.ArrayCopySemantics.ALWAYS_COPY)


def copy_to_device(buffer: Any, device: Any, kind: str | None = None) -> Any:
    """A buffer with the same contents on another device, or in memory of another kind; None for the device's own."""
    return _copied(buffer, device, kind, xe.ArrayCopySemantics.REUSE_INPUT)


def _copied(buffer: Any, device: Any, kind: str | None, how: Any) -> Any:
    started = backend()
    return xe.batched_copy_array_to_devices_with_sharding(
        [buffer],
        [started.device_lists[device]],
        [started.in_memory(device, kind)],
        [how],
    )[0]


def put_in_memory(value: Any, aval: ShapedArray, device: Any, kind: str) -> Any:
    """A buffer in memory of a kind, with the contents of a NumPy array, which may be written to afterwards."""
    aval = aval.physical
    sharding, array = backend().in_memory(device, kind), np.asarray(value, aval.dtype)
    return xe.batched_device_put(
        aval, sharding, [array], [device], True, host_buffer_semantics=_COPY_NOW, enable_x64=True
    )


def find_device(platform: str, number: int) -> Any:
    """The device of that platform and number; None where this process has no such device."""
    found = [d for d in backend().devices if d.id == number and d.client.platform == platform]
    return found[0] if found else None


def dlpack_device(device: Any) -> tuple[int, int]:
    """A device's kind and number in DLPack's words."""
    return CPU_DEVICE if backend().platform == "cpu" else (CUDA, device.local_hardware_id)
