"""`ConcreteArray`: an array with numbers, on the host, on a device, or both.

It is created from a NumPy value or a device buffer and moves between the two on demand, without copying on the CPU.
Users meet it as `didax.Array`, its public base; the operators are attached by `didax/numpy/array_methods.py`.
Read next: `eager.py` (who makes them), `xla/buffers.py` (how they move).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.tracing import Tracer, leaked
from didax.core.value import Array

# jaxlib is loaded with the first buffer, not with this module
_buffers: Any = None


def _device_floor() -> Any:
    global _buffers
    if _buffers is None:
        from didax.xla import buffers

        _buffers = buffers
    return _buffers


class ConcreteArray(Array):
    """An array with numbers. `value` (NumPy, not to be written) and `buffer` (PJRT) hold them; one may be absent."""

    __slots__ = ("__weakref__", "_buffer", "_value", "committed")

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
            if device is None:  # what the user did not place stays on no other device
                self._buffer = buffer
            return buffer
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
        if self._buffer is not None and not self._buffer.is_deleted():
            self._buffer.delete()
        self._value = self._buffer = None

    def forget_donated(self) -> None:
        """Called after the buffer was given to a program: a host view of it must not survive."""
        self._value = None

    def block_until_ready(self) -> ConcreteArray:
        """Wait until the numbers are there; returns the array."""
        if self._value is None and self._buffer is not None:
            self._buffer.block_until_ready()
        return self

    def is_ready(self) -> bool:
        """True when the numbers are there."""
        return self._value is not None or (self._buffer is not None and self._buffer.is_ready())

    @property
    def device(self) -> Any:
        """The device that holds the array."""
        if self._buffer is not None and not self._buffer.is_deleted():
            return _device_of(self._buffer)
        from didax.xla.client import backend

        return backend().default_device

    def devices(self) -> set[Any]:
        """The devices that hold the array."""
        return {self.device}

    @property
    def sharding(self) -> Any:
        """How the array is laid out over devices."""
        from didax.xla.client import backend

        return backend().shardings[self.device]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        value = np.asarray(self.host_value())
        if dtype is not None and value.dtype != dtype:
            if copy is False:
                raise ValueError(
                    message(
                        "A change of dtype needs a copy.",
                        f"array: {self.aval}, wanted: {np.dtype(dtype).name}, copy=False",
                        fix="Drop copy=False, or convert first with x.astype(...).",
                    )
                )
            return value.astype(dtype)
        if copy:
            return value.copy()
        view = value.view()
        view.flags.writeable = False
        return view

    def __bool__(self) -> bool:
        return bool(self.item_of("truth value"))

    def __int__(self) -> int:
        return int(self.item_of("int"))

    def __float__(self) -> float:
        return float(self.item_of("float"))

    def __complex__(self) -> complex:
        return complex(self.item_of("complex"))

    def __index__(self) -> int:
        if self.aval.ndim or (
            self.aval.dtype.kind not in "iub" and not np.issubdtype(self.aval.dtype, np.integer)
        ):
            raise TypeError(
                message(
                    "Only an integer array without axes is an index.",
                    f"array: {self.aval}",
                    fix="Index one element.",
                )
            )
        return int(self.host_value())

    def item_of(self, what: str) -> Any:
        """The only element; TypeError (ValueError for a truth value) when it is not the array's only one."""
        value = self.host_value()
        if what == "truth value" and self.aval.size != 1:
            raise ValueError(
                message(
                    "Only an array of one element has a truth value.",
                    f"array: {self.aval}",
                    fix="Use .any() or .all(), or index one element.",
                )
            )
        if what != "truth value" and self.aval.ndim:
            raise TypeError(
                message(
                    f"Only an array without axes converts to {what}.",
                    f"array: {self.aval}",
                    fix="Index one element, or use x.item() where there is only one.",
                )
            )
        return value if self.aval.ndim == 0 else value.reshape(())[()]

    def __hash__(self) -> int:
        raise TypeError(
            message(
                "Arrays are not hashable.", f"array: {self.aval}", fix="Hash x.tobytes() or id(x) instead."
            )
        )

    def __reduce__(self) -> Any:
        return _rebuild, (np.asarray(self.host_value()), self.aval.weak_type)

    def __copy__(self) -> ConcreteArray:
        return self

    def __deepcopy__(self, memo: Any) -> ConcreteArray:
        return self

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.aval.weak_type else ""
        suffix = f"dtype={self.aval.dtype.name}{weak})"
        if self.is_deleted():
            return f"Array(deleted, shape={self.aval.shape}, {suffix}"
        body = np.array2string(
            np.asarray(self.host_value()), prefix="Array(", separator=", ", suffix=f", {suffix}"
        )
        if self.aval.size == 0:
            body = f"[], shape={self.aval.shape}"
        return f"Array({body}, {suffix}"

    def __str__(self) -> str:
        return str(np.asarray(self.host_value()))

    def __format__(self, spec: str) -> str:
        return format(self.host_value()[()] if self.aval.ndim == 0 else str(self), spec)


def _rebuild(value: np.ndarray[Any, Any], weak_type: bool) -> ConcreteArray:
    return ConcreteArray(ShapedArray(value.shape, value.dtype, weak_type), value)


def _device_of(buffer: Any) -> Any:
    return next(iter(buffer._sharding.device_set))


_HOST_VALUES = (np.ndarray, np.generic, int, float, complex)


def as_concrete(x: Any) -> ConcreteArray:
    """A concrete array for a NumPy array (copied: its owner may write to it) or a scalar; arrays pass through."""
    if type(x) is ConcreteArray:
        return x
    if isinstance(x, Tracer):
        raise leaked(x)
    aval = aval_of(x)
    if isinstance(x, np.ndarray):
        return ConcreteArray(aval, np.array(x, aval.dtype))
    if not isinstance(x, _HOST_VALUES):
        raise _no_numbers(x)
    return ConcreteArray(
        aval, x if isinstance(x, np.generic) and x.dtype == aval.dtype else aval.dtype.type(x)
    )


def argument_buffer(x: Any, device: Any = None) -> Any:
    """A buffer with the contents of one argument of a program: an array's own, or a new one for a NumPy value."""
    if type(x) is ConcreteArray:
        return x.device_buffer(device)
    if isinstance(x, Tracer):
        raise leaked(x)
    if not isinstance(x, _HOST_VALUES):
        raise _no_numbers(x)
    return _device_floor().to_device(x, aval_of(x), device, copy=True)


def _no_numbers(x: Any) -> TypeError:
    """The error for a description of an array (`ShapeDtypeStruct`) in the place of one."""
    return TypeError(
        message(
            "Only arrays with numbers can be computed with.",
            f"got: {x!r:.100}",
            fix="Pass an array of this type.",
        )
    )
