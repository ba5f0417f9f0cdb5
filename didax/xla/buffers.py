"""Arrays between host and device: NumPy values to PJRT buffers and back, without copying where XLA allows it.

`to_device` may alias the NumPy array it is given, so only arrays that nobody will write to belong here.
`to_host` views a CPU buffer where it can; from an accelerator it copies. Both keep what they view alive.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.xla.client import backend, xe  # pyright: ignore[reportAttributeAccessIssue]

_NATIVE = frozenset("?bhilqBHILQefdFD")  # dtypes the buffer protocol knows

_SMALL = 1 << 15  # bytes
_COPY_NOW = xe.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_ALIAS = xe.HostBufferSemantics.ZERO_COPY


def to_device(value: Any, aval: ShapedArray, device: Any = None, copy: bool = False) -> Any:
    """A device buffer with the contents of a NumPy array or a scalar; with `copy` the array may be written to after."""
    started = backend()
    device = started.default_device if device is None else device
    if aval.dtype == dtypes.float0:
        aval = aval.update(dtype=np.dtype(bool))
        value = np.zeros(aval.shape, bool)
    array = np.asarray(value, aval.dtype)
    # A small array is copied at once: its buffer is ready when the program starts, which then runs without waiting.
    how = _COPY_NOW if copy or array.nbytes <= _SMALL else _ALIAS
    return xe.batched_device_put(
        aval, started.shardings[device], [array], [device], True, host_buffer_semantics=how, enable_x64=True
    )


def to_host(buffer: Any, aval: ShapedArray) -> np.ndarray[Any, Any]:
    """The contents of a device buffer as a NumPy array, which must not be written to."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    if backend().platform == "cpu":
        if aval.dtype.char in _NATIVE and aval.dtype.isbuiltin == 1:
            return np.asarray(buffer)
        if aval.dtype.name not in _PACKED:
            return _copy(buffer, aval)
    # jaxlib's own reader: unpacks dtypes narrower than a byte and copies from accelerators. Its first call imports jax
    # with jaxlib 0.10, where jax is installed.
    read = getattr(buffer, "_to_np_array_did_copy", None) or buffer._single_device_array_to_np_array_did_copy
    return read()[0]


_PACKED = frozenset({"int2", "uint2", "int4", "uint4", "float4_e2m1fn"})


def _copy(buffer: Any, aval: ShapedArray) -> np.ndarray[Any, Any]:
    """A copy by address, for dtypes (bfloat16, float8) that the buffer protocol does not know.

    A view would not do: XLA does not know of it, and would write into donated memory under it.
    """
    if aval.size == 0:
        return np.zeros(aval.shape, aval.dtype)
    buffer.block_until_ready()
    return np.array(_AddressView(buffer, aval)).view(aval.dtype).reshape(aval.shape)


class _AddressView:
    """Memory of a buffer, by NumPy's array interface."""

    def __init__(self, buffer: Any, aval: ShapedArray):
        self.buffer = buffer
        self.__array_interface__ = {
            "shape": (aval.size,),
            "typestr": f"|V{aval.dtype.itemsize}" if aval.dtype.itemsize > 1 else "|u1",
            "data": (buffer.unsafe_buffer_pointer(), True),
            "version": 3,
        }


def copy_to_device(buffer: Any, device: Any) -> Any:
    """A buffer with the same contents on another device."""
    started = backend()
    return xe.batched_copy_array_to_devices_with_sharding(
        [buffer],
        [started.device_lists[device]],
        [started.shardings[device]],
        [xe.ArrayCopySemantics.REUSE_INPUT],
    )[0]
