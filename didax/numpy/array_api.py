"""What `didax.numpy` tells programs written for the array API standard: its version, devices and dtypes.

    xp = x.__array_namespace__()
    xp.__array_namespace_info__().default_dtypes()

The functions of the standard are those of the other modules; this one answers the questions of its
inspection API. Defaults follow `enable_x64`. What immutability forbids is listed in `docs/differences.md`.
Read next: https://data-apis.org/array-api/2024.12, `scalar_types.py` (`isdtype`, `finfo`, `iinfo`).
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
    """What this namespace can do, and the devices and dtypes it has, by the array API standard.

    >>> import didax.numpy as dnp
    >>> dnp.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float32')
    """

    __module__ = "didax.numpy"

    def capabilities(self) -> dict[str, Any]:
        """Boolean masks index and data make shapes, both outside of jit; NumPy limits the axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """The device that new arrays go to."""
        return backend_devices()[0]

    def devices(self) -> list[Any]:
        """The devices an array can be on."""
        return backend_devices()

    @api_boundary
    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtype of each kind that values of no stated dtype have."""
        _check_device(device)
        return {name: dtypes.default_dtype(kind) for name, kind in _DEFAULT_KINDS.items()}

    @api_boundary
    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes by name: all, or those of a kind (or kinds) of `isdtype`."""
        _check_device(device)
        found = {name: np.dtype(name) for name in _NAMES}
        return {name: d for name, d in found.items() if kind is None or isdtype(d, kind)}
