"""What `didax.numpy` tells programs written for the array API standard: its version, devices and dtypes.

    xp = x.__array_namespace__()
    xp.__array_namespace_info__().default_dtypes()

The other modules define the functions of the standard; this module answers the questions of its inspection
API. The defaults follow `enable_x64`. `docs/differences.md` lists the functions that immutable arrays cannot
have. Read next: https://data-apis.org/array-api/2024.12, `scalar_types.py` (`isdtype`, `finfo`, `iinfo`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.api.devices import devices as backend_devices
from didax.core import dtypes
from didax.core.errors import api_boundary, message
from didax.numpy.scalar_types import isdtype

__all__ = ["__array_api_version__", "__array_namespace_info__"]

__array_api_version__ = "2024.12"

_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip
_DEFAULT_KINDS: dict[str, dtypes.Kind] = {
    "real floating": "f",
    "complex floating": "c",
    "integral": "i",
    "indexing": "i",
}


def _check_device(device: Any) -> None:
    if device is not None and device not in backend_devices():
        raise ValueError(
            message(
                "Dtypes are told for a device of the backend.",
                f"device: {device!r}, devices: {backend_devices()}",
                fix="Choose one of didax.devices(), or leave device out.",
            )
        )


class __array_namespace_info__:
    """The capabilities, devices and dtypes of this namespace, as the array API standard asks for them.

    >>> import didax.numpy as dnp
    >>> dnp.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float32')
    """

    __module__ = "didax.numpy"

    def capabilities(self) -> dict[str, Any]:
        """Say what holds in transformed functions too: no shape depends on data. The axes are as many as NumPy's.

        Outside of `jit` a mask is an index, and `unique_values` works. A library asks here which of two ways to take,
        and the answer has to be right under `jit`, too.
        """
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> Any:
        """Return the device on which new arrays are made."""
        return backend_devices()[0]

    def devices(self) -> list[Any]:
        """Return the devices on which an array can be."""
        return backend_devices()

    @api_boundary
    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """Return, for each kind of number, the dtype that a value gets when no dtype is given."""
        _check_device(device)
        return {name: dtypes.default_dtype(kind) for name, kind in _DEFAULT_KINDS.items()}

    @api_boundary
    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of the standard by name: all of them, or those of one or several kinds of `isdtype`."""
        _check_device(device)
        found = {name: np.dtype(name) for name in _NAMES}
        return {name: d for name, d in found.items() if kind is None or isdtype(d, kind)}
