"""Arrays in files and as text: `load`, `save`, `fromfile`, `fromstring`, print options.

What only reads arrays is NumPy's own function: `save`, `savez`, `array_repr` and `array_str` take Didax arrays, and
`set_printoptions` holds for them as for NumPy's. What makes arrays makes Didax arrays here. All of it happens while
the program runs, or is traced: none of it is staged. Read next: `creation.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np
from numpy import (
    array_repr,
    array_str,
    get_printoptions,
    iterable,
    printoptions,
    save,
    savez,
    set_printoptions,
)
from numpy.exceptions import ComplexWarning

from didax.core import dtypes
from didax.core.errors import api_boundary
from didax.core.value import Array
from didax.numpy.creation import asarray
from didax.numpy.promotion import DTypeLike

__all__ = [
    "ComplexWarning", "array_repr", "array_str", "fromfile", "fromiter", "fromstring", "get_printoptions",
    "iterable", "load", "printoptions", "save", "savez", "set_printoptions",
]  # fmt: skip


@api_boundary
def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """The array in a file that `save` wrote, or NumPy's view of one that `savez` wrote; other arguments are NumPy's.

    bfloat16, which the format does not know, comes back as what it was.

    >>> import io, didax.numpy as dnp
    >>> file = io.BytesIO()
    >>> dnp.save(file, dnp.arange(3))
    >>> _ = file.seek(0)
    >>> dnp.load(file)
    Array([0, 1, 2], dtype=int32)
    """
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    return asarray(found.view(ml_dtypes.bfloat16) if found.dtype == np.dtype("V2") else found)


@api_boundary
def fromfile(file: Any, dtype: DTypeLike = float, count: int = -1, sep: str = "", offset: int = 0) -> Array:
    """The numbers in a file, binary or, with a separator, text; all of them, or `count`.

    In a binary file `float` and `int` are 64 bits wide, as in NumPy; the array has the default width.

    >>> import tempfile, numpy as np, didax.numpy as dnp
    >>> with tempfile.TemporaryFile() as file:
    ...     np.arange(3, dtype="int8").tofile(file)
    ...     _ = file.seek(0)
    ...     dnp.fromfile(file, "int8")
    Array([0, 1, 2], dtype=int8)
    """
    return asarray(np.fromfile(file, np.dtype(dtype), count, sep, offset=offset), dtype)


@api_boundary
def fromiter(iter: Iterable[Any], dtype: DTypeLike, count: int = -1) -> Array:
    """The numbers that an iterable gives, all of them or `count`. While tracing it is gone through once.

    >>> import didax.numpy as dnp
    >>> dnp.fromiter((n * n for n in range(3)), int)
    Array([0, 1, 4], dtype=int32)
    """
    return asarray(np.fromiter(iter, dtypes.dtype(dtype), count))


@api_boundary
def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """The numbers in a text, between separators.

    >>> import didax.numpy as dnp
    >>> dnp.fromstring("1, 2, 3", int, sep=",")
    Array([1, 2, 3], dtype=int32)
    """
    return asarray(np.fromstring(string, dtypes.dtype(dtype), count, sep=sep))
