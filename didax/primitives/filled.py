"""Arrays filled with one number: zeros, or any. Random keys are made of words with that number.

Read next: `shape.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.primitives.keys import random_wrap_p
from didax.primitives.shape import broadcast_in_dim


def zeros(aval: ShapedArray) -> Any:
    """An array of zeros of a type."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return filled(aval, 0)


_PYTHON_TYPES: dict[str, type[Any]] = {"i": int, "f": float, "c": complex}


def filled(aval: ShapedArray, value: int) -> Any:
    """An array of a type filled with a number, weakly typed where the type is weak."""
    if aval.weak_type and (kind := _PYTHON_TYPES.get(dtypes.kind_of(aval.dtype))) is not None:
        scalar = kind(value)  # Python scalars are weak
        if aval_of(scalar).dtype == aval.dtype:
            return broadcast_in_dim(scalar, aval.shape, ())
    return full(aval.shape, value, aval.dtype)


def full(shape: tuple[int, ...], value: Any, dtype: np.dtype[Any]) -> Any:
    """An array filled with a scalar; of an extended dtype, elements made of it."""
    if (extended := dtypes.as_extended(dtype)) is not None:
        numbers = full((*shape, *extended.element_shape), value, extended.element_dtype)
        return random_wrap_p.bind(numbers, dtype=dtype)
    return broadcast_in_dim(dtype.type(value), shape, ())
