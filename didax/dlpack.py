"""`from_dlpack`: arrays of other libraries (torch, NumPy, CuPy, ...) without a copy.

The other libraries have the opposite function: `torch.from_dlpack(x)` and `np.from_dlpack(x)` call
`x.__dlpack__`. Shared memory stays alive while either side uses it. An array must not change, so neither side
may write to shared memory: copy first. Read next: `xla/dlpack.py` (capsules), `runtime/array.py`
(`ConcreteArray.__dlpack__`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from didax.api.devices import device_put
from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.errors import api_boundary, message
from didax.core.modules import on_access
from didax.core.tracing import Tracer
from didax.core.value import Array
from didax.runtime.array import ConcreteArray, sharing

__all__ = ["from_dlpack", "is_supported_dtype"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """Return an array with the numbers and the dtype of another library's array, through DLPack.

    On the host, and on a GPU of this process, the memory is shared, and must not be written to any more; `copy=True`
    copies it. BufferError for arrays that DLPack cannot carry; ValueError where a device needs a copy that `copy=False`
    forbids.

    >>> import numpy as np, didax.numpy as dnp
    >>> dnp.from_dlpack(np.ones(2, "float32"))
    Array([1., 1.], dtype=float32)
    """
    x = external_array
    if isinstance(x, Array):
        array: Any = x.copy() if copy else sharing(x)
    else:
        array = _imported(x, copy)
    if device is None or isinstance(x, Tracer):
        return array
    placed = device_put(array, device)
    if copy is False and placed.device is not array.device:
        fix = "Drop copy=False, or device."
        facts = f"array: {array.aval} on {array.device}, device: {placed.device}"
        raise ValueError(message("An array on another device is a copy.", facts, fix=fix))
    return placed


@api_boundary
def is_supported_dtype(dtype: Any) -> bool:
    """Whether DLPack carries arrays of this dtype: booleans, and numbers of eight bits (integers) or sixteen and more.

    >>> is_supported_dtype("float32"), is_supported_dtype("int4")
    (True, False)
    """
    kind = dtypes.dtype(dtype)
    return not dtypes.is_sub_byte(kind) and (kind.itemsize > 1 or not dtypes.is_float(kind))


def _imported(x: Any, copy: bool | None) -> ConcreteArray:
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise TypeError(
            message(
                "from_dlpack takes arrays with __dlpack__ and __dlpack_device__.",
                f"got: {x!r:.100} of type {type(x).__name__}",
                fix="Pass the array itself (not a capsule), or use didax.numpy.asarray.",
            )
        )
    from didax.xla import dlpack  # loads jaxlib, when first needed

    if (buffer := dlpack.buffer_of(x)) is not None:
        shared = ConcreteArray(ShapedArray(tuple(buffer.shape), dtypes.dtype(buffer.dtype)), None, buffer)
        if copy:
            return shared.copy()
        shared.share_with_library()
        return shared
    value = dlpack.view_of(x, copy)
    return ConcreteArray(ShapedArray(value.shape, dtypes.dtype(value.dtype)), value)
