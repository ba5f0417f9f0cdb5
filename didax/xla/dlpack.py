"""DLPack, the protocol by which array libraries share memory: our arrays as capsules, theirs as NumPy views.

    capsule_of_host(value, ...)     NumPy's exporter, which knows of read-only memory, taught bfloat16
    capsule_of_buffer(buffer)       jaxlib's, for memory of an accelerator
    view_of(x)                      NumPy's importer: a view of what another library holds on the host

NumPy has no name for bfloat16 and the float8s. They go through it as unsigned integers of their size, and the dtype
written in the capsule's header is exchanged before anybody reads it. Memory stays alive, and donation and deletion stay
away from it, for as long as either side holds a view.
Read next: `runtime/array.py` (`__dlpack__`), `didax/dlpack.py` (`from_dlpack`); https://dmlc.github.io/dlpack/latest/.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.errors import message
from didax.xla.client import backend, xe  # pyright: ignore[reportAttributeAccessIssue]

CPU, CUDA = 1, 2  # device types of the protocol
VERSION = (1, 0)  # the first version whose capsules say whether they are read-only

_UNSIGNED = 1
_CODES = {  # type codes of dtypes that NumPy's DLPack does not know
    "bfloat16": 4, "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14,
}  # fmt: skip
_DTYPES = {code: dtypes.dtype(name) for name, code in _CODES.items()}


class _Tensor(ctypes.Structure):
    """`DLTensor`: the description of memory in every capsule."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
    ]  # fmt: skip


class _Versioned(ctypes.Structure):
    """`DLManagedTensorVersioned`; capsules older than version 1 begin with the tensor."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    ]  # fmt: skip


_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))


def _tensor(capsule: Any) -> _Tensor:
    """The header of a capsule that nobody has consumed yet."""
    name = _name(capsule)
    if name == b"dltensor_versioned":
        return _Versioned.from_address(_pointer(capsule, name)).tensor
    return _Tensor.from_address(_pointer(capsule, b"dltensor"))


class _Producer:
    """A capsule as NumPy wants to be offered it."""

    def __init__(self, capsule: Any):
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0)


class _Writable:
    """The memory of an array, by NumPy's array interface, as if it were writable."""

    def __init__(self, value: np.ndarray[Any, Any]):
        address, _ = value.__array_interface__["data"]
        self.owner = value
        self.__array_interface__ = {**value.__array_interface__, "data": (address, False)}


def capsule_of_host(value: np.ndarray[Any, Any], max_version: Any, copy: bool | None) -> Any:
    """A capsule with the memory of a NumPy array, read-only unless copied. BufferError for dtypes DLPack lacks.

    Consumers from before version 1 cannot be told of read-only memory: they share it all the same.
    """
    code = _CODES.get(value.dtype.name)
    if code is None and value.dtype.isbuiltin != 1:
        raise _unknown_to_dlpack(value.dtype)
    numbers = value if code is None else value.view(f"u{value.dtype.itemsize}")
    if max_version is None or max_version < VERSION:
        capsule = np.asarray(_Writable(numbers)).__dlpack__(copy=copy)
    else:
        view = numbers.view()
        view.flags.writeable = False
        capsule = view.__dlpack__(max_version=max_version, copy=copy)
    if code is not None:
        _tensor(capsule).code = code
    return capsule


def _unknown_to_dlpack(dtype: np.dtype[Any]) -> BufferError:
    fix = "Convert it first, as in x.astype('int8')."
    return BufferError(message("DLPack has no such dtype.", f"dtype: {dtypes.dtype_name(dtype)}", fix=fix))


def capsule_of_buffer(buffer: Any, stream: int | None = None) -> Any:
    """A capsule with the memory of a device buffer."""
    buffer.block_until_ready()
    # Export a clone: in jaxlib 0.10 the process ends if the exported object is deleted while a capsule refers to it.
    try:
        return xe.buffer_to_dlpack_managed_tensor(buffer.clone(), stream=stream)
    except xe.JaxRuntimeError as error:
        if "DLPack" not in str(error):
            raise
        raise _unknown_to_dlpack(buffer.dtype) from None


def view_of_buffer(buffer: Any) -> np.ndarray[Any, Any]:
    """The memory of a buffer on the CPU; XLA knows of the view, and does not donate the buffer meanwhile."""
    return _view(capsule_of_buffer(buffer))


def buffer_of(x: Any) -> Any:
    """A buffer with the memory of another library's array on a GPU of this process; None for other arrays.

    This is jaxlib's own importer, which imports jax where jax is installed; on the host `view_of` does without it.
    """
    kind, number = x.__dlpack_device__()
    if kind != CUDA or backend().platform != "cuda":
        return None
    device = next((d for d in backend().devices if d.local_hardware_id == number), None)
    if device is None:
        return None
    stream = device.get_stream_for_external_ready_events()  # the other library lets it wait for the numbers
    return xe.dlpack_managed_tensor_to_buffer(x.__dlpack__(stream=stream), device, stream)


def view_of(x: Any, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """The memory of another library's array (copied to the host if it is elsewhere, unless `copy=False`)."""
    options: dict[str, Any] = {} if copy is None else {"copy": copy}
    if x.__dlpack_device__()[0] != CPU:
        options |= {"dl_device": (CPU, 0)}
    try:
        capsule = x.__dlpack__(max_version=VERSION, **options)
    except TypeError:
        if "dl_device" in options:
            raise
        capsule = x.__dlpack__()  # a producer from before version 1 knows no options
    view = _view(capsule)
    return view.copy() if copy else view


def _view(capsule: Any) -> np.ndarray[Any, Any]:
    header = _tensor(capsule)
    code, bits, lanes = header.code, header.bits, header.lanes
    if code in _DTYPES:
        header.code = _UNSIGNED
    try:
        view = np.from_dlpack(_Producer(capsule))  # type: ignore[arg-type]
    except (BufferError, RuntimeError):
        raise BufferError(
            message(
                "This DLPack array has no counterpart as an array of numbers on the host.",
                f"DLPack type code {code}, {bits} bits, {lanes} lanes",
                fix="Convert it in the library it comes from, to a dtype such as float32 and to the CPU.",
            )
        ) from None
    return view.view(_DTYPES[code]) if code in _DTYPES else view
