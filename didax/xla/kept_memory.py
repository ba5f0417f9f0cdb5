"""Memory that the process keeps when arrays are freed, for the arrays that come after: the option `keep_memory`.

The C library gives large blocks back to the system when they are freed, and the system clears every page of a new one.
For results of some megabytes these page faults take longer than the arithmetic. With `keep_memory` blocks of up to so
many bytes come from memory that the process keeps; `clear_caches()` gives it back. The option sets the allocator of the
whole process (glibc's `mallopt`). Measurements are in docs/design/memory.md. Read next: `client.py`.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from didax.core.errors import message

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
_MOST = 2**31 - 1  # mallopt takes an int
_kept_by: Any = None  # the C library, once it has been told to keep memory


def keep(limit: int) -> None:
    """Let the process keep blocks of up to `limit` bytes, and at most so many at the end of its memory."""
    global _kept_by
    if not limit:
        return
    library: Any = ctypes.CDLL(None) if ctypes.sizeof(ctypes.c_void_p) == 8 else None
    if not hasattr(library, "mallopt") or not hasattr(library, "gnu_get_libc_version"):
        raise RuntimeError(
            message(
                "Only glibc's allocator can be told to keep memory.",
                f"keep_memory: {limit}",
                fix="Leave the option keep_memory at 0 here.",
            )
        )
    size = _MOST if limit < 0 else min(limit, _MOST)
    library.mallopt(_MMAP_THRESHOLD, size)
    library.mallopt(_TRIM_THRESHOLD, size)
    _kept_by = library


def give_back() -> None:
    """Give memory that is free back to the system, where the C library can: much of it lies between what is in use."""
    library: Any = _kept_by or (ctypes.CDLL(None) if os.name == "posix" else None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
