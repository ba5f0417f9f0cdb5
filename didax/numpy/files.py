"""Arrays in files and in text: `load`, `save`, `fromfile`, `fromstring`, print options.

A function that only reads arrays is NumPy's own function: `save`, `savez`, `array_repr` and `array_str` take
Didax arrays, and `set_printoptions` holds for Didax arrays, too. A function that makes arrays is written here
and makes Didax arrays. Files are read when the Python code runs, so in a traced function once, during
tracing. Read next: `creation.py`.
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
    """Return the array in a file that `save` wrote, or NumPy's archive of a file that `savez` wrote.

    The further arguments are those of `numpy.load`.

    The file format does not know bfloat16; the dtype is restored here.

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
    """Return the numbers in a file: all of them, or the first `count`. With a separator the file is text, else binary.

    In a binary file `float` and `int` mean 64 bits, as in NumPy; the array has the default width.

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
    """Return a vector of the numbers that an iterable gives: all of them, or the first `count`.

    A traced function reads the iterable once, during tracing.

    >>> import didax.numpy as dnp
    >>> dnp.fromiter((n * n for n in range(3)), int)
    Array([0, 1, 4], dtype=int32)
    """
    return asarray(np.fromiter(iter, dtypes.dtype(dtype), count))


@api_boundary
def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """Return a vector of the numbers in a text, which separators divide.

    >>> import didax.numpy as dnp
    >>> dnp.fromstring("1, 2, 3", int, sep=",")
    Array([1, 2, 3], dtype=int32)
    """
    return asarray(np.fromstring(string, dtypes.dtype(dtype), count, sep=sep))
