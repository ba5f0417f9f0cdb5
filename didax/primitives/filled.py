"""Arrays filled with one number: zeros, or any. Random keys are made of words with that number.

Read next: `shape.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.dims import is_symbolic
from didax.primitives.keys import random_wrap_p
from didax.primitives.shape import broadcast_in_dim


def zeros(aval: ShapedArray) -> Any:
    """An array of zeros of a type."""
    if aval.dtype == dtypes.float0:
        if any(map(is_symbolic, aval.shape)):  # NumPy's arrays have lengths that are known
            return broadcast_in_dim(np.zeros((), dtypes.float0), aval.shape, ())
        return np.zeros(aval.shape, dtypes.float0)
    return filled(aval, 0)


def filled(aval: ShapedArray, value: int) -> Any:
    """An array of a type filled with a number, weakly typed where the type is weak."""
    if aval.weak_type and (python_type := dtypes.python_type(aval.dtype)) is not None:
        return broadcast_in_dim(python_type(value), aval.shape, ())  # Python scalars are weak
    return full(aval.shape, value, aval.dtype)


def full(shape: tuple[int, ...], value: Any, dtype: np.dtype[Any]) -> Any:
    """An array filled with a scalar; of an extended dtype, elements made of it."""
    if (extended := dtypes.as_extended(dtype)) is not None:
        numbers = full((*shape, *extended.element_shape), value, extended.element_dtype)
        return random_wrap_p.bind(numbers, dtype=dtype)
    return broadcast_in_dim(dtype.type(value), shape, ())
