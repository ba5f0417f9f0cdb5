"""Files of arrays in the safetensors format, which other libraries read, too: a header in JSON, then the bytes.

    write(path, {"w": array}, {"step": "12"})
    TensorFile(path).read("w", slices)

The format (https://github.com/huggingface/safetensors) is simple enough to write without its library: 8 bytes that say
how long the header is; the header, with dtype, shape and place of each array; the arrays, C-contiguous, little-endian.
A dtype that the format has no name for is written as its bytes, along one more axis. Read next: `didax/checkpoints.py`.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from didax.core.errors import message

_NAMES = {
    "bool": "BOOL",
    **{f"{kind}int{bits}": f"{kind.upper() or 'I'}{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)},
    **{"float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64", "complex64": "C64"},
    **{"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0"},
}
_ALIGNED = 64  # bytes: where the first array begins, so that it can be mapped into memory
_CHUNK = 1 << 24

Array = np.ndarray[Any, Any]


def write(
    path: str,
    arrays: Mapping[str, tuple[Any, tuple[int, ...], Callable[[], Array]]],
    about: Mapping[str, str],
) -> dict[str, int]:
    """Write a file and bring it to the disk; returns the CRC-32 of each array.

    An array is given by its dtype, its shape and a function that returns it, called when its turn has come.
    """
    header: dict[str, Any] = {"__metadata__": dict(about)} if about else {}
    begin = 0
    for name, (dtype, shape, _) in arrays.items():
        end = begin + math.prod(shape) * dtype.itemsize
        shown = _NAMES.get(dtype.name)
        stored = list(shape) if shown else [*shape, dtype.itemsize]
        header[name] = {"dtype": shown or "U8", "shape": stored, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNED)
    checks: dict[str, int] = {}
    with open(path, "xb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, (dtype, shape, array) in arrays.items():
            checks[name] = _write_array(file, np.asarray(array(), dtype).reshape(shape))
        file.flush()
        os.fsync(file.fileno())
    return checks


def _write_array(file: Any, array: Array) -> int:
    if sys.byteorder == "big":
        array = array.byteswap()
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
    check = 0
    for begin in range(0, len(data), _CHUNK):
        chunk = data[begin : begin + _CHUNK]
        check = zlib.crc32(chunk, check)
        file.write(chunk)
    return check


class TensorFile:
    """A file to read arrays from; only its header is kept in memory."""

    def __init__(self, path: str):
        self.path = path
        with open(path, "rb") as file:
            head = file.read(8)
            length = struct.unpack("<Q", head)[0] if len(head) == 8 else -1
            self._begin = 8 + length
            size = os.path.getsize(path)
            header = json.loads(file.read(length)) if 0 <= length <= size - 8 else None
        if header is None:
            raise self._damaged("its header is cut off")
        self.about: dict[str, str] = header.pop("__metadata__", {})
        self.entries: dict[str, Any] = header
        ends = [entry["data_offsets"][1] for entry in header.values()]
        if self._begin + max(ends, default=0) != size:
            raise self._damaged(f"it has {size} bytes, and should have {self._begin + max(ends, default=0)}")

    def _damaged(self, why: str) -> ValueError:
        rule, fix = "A file of arrays is damaged.", "Restore it from a copy, or use another checkpoint."
        return ValueError(message(rule, f"{self.path}: {why}", fix=fix))

    def read(
        self, name: str, dtype: Any, shape: tuple[int, ...], part: tuple[slice, ...], check: int
    ) -> Array:
        """A part of an array of this dtype and shape; where the part is all of it, the CRC-32 is checked."""
        begin, end = self.entries[name]["data_offsets"]
        if end - begin != math.prod(shape) * dtype.itemsize:
            raise self._damaged(f"{name!r} is not of the type {dtype.name}{list(shape)}")
        if begin == end:
            return np.zeros(shape, dtype)[part]
        mapped = np.memmap(self.path, np.uint8, "r", self._begin + begin, (end - begin,))
        array = mapped.view(np.ndarray).view(dtype).reshape(shape)
        found = array[part]
        if found.shape == array.shape and zlib.crc32(mapped.data) != check:
            raise self._damaged(f"{name!r} has changed since it was written")
        return found.byteswap() if sys.byteorder == "big" else found
