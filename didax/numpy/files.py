"""Arrays in files and in text: `load`, `save`, `fromfile`, `fromstring`, print options.

`save`, `savez` and the print options are NumPy's own functions: they take Didax arrays, and hold for them. A
function that makes arrays is written here and makes Didax arrays. Files are read when the Python code runs, so in
a traced function once, during tracing. Read next: `creation.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np
from numpy import (
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
from didax.numpy.promotion import ArrayLike, DTypeLike

__all__ = [
    "ComplexWarning", "array_repr", "array_str", "fromfile", "fromiter", "fromstring", "get_printoptions",
    "iterable", "load", "printoptions", "save", "savez", "set_printoptions",
]  # fmt: skip


@api_boundary
def array_repr(
    arr: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """Return an array as the text that NumPy's `repr` has, whatever the print options say.

    >>> import didax.numpy as dnp
    >>> dnp.array_repr(dnp.array([1.25, 2.5]), precision=1)
    'Array([1.2, 2.5], dtype=float32)'
    """
    return np.array_repr(arr, max_line_width, precision, suppress_small)  # type: ignore[arg-type]


@api_boundary
def array_str(
    a: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """Return the elements of an array as text, without its dtype.

    >>> import didax.numpy as dnp
    >>> dnp.array_str(dnp.array([1.25, 2.5]), precision=1)
    '[1.2 2.5]'
    """
    return np.array_str(a, max_line_width, precision, suppress_small)  # type: ignore[arg-type]


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
