"""Questions about dtypes: `didax.dtypes`, with the names of `jax.dtypes`.

    dtypes.issubdtype(key.dtype, dtypes.prng_key)      # random keys are of an extended dtype
    dtypes.issubdtype(x.dtype, np.floating)            # also bfloat16 and float8

`prng_key` and `extended` are kinds of dtypes whose elements are not numbers. `float0` is the dtype of
tangents of integers. Read next: `core/dtypes.py`, which defines promotion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from didax.api.flat import narrowed_scalar
from didax.core.avals import aval_of
from didax.core.dtypes import (
    as_extended,
    default_dtype,
    extended,
    finfo,
    float0,
    iinfo,
    is_weak_name,
    kind_of,
    narrowed,
    prng_key,
)
from didax.core.dtypes import dtype as _named
from didax.core.dtypes import issubdtype as _issubdtype
from didax.core.dtypes import result_type as _result_type
from didax.core.errors import TypePromotionError, api_boundary, message
from didax.core.modules import on_access

bfloat16 = np.dtype(ml_dtypes.bfloat16).type

__all__ = [
    "TypePromotionError", "bfloat16", "canonicalize_dtype", "extended", "finfo", "float0", "iinfo",
    "issubdtype", "itemsize_bits", "prng_key", "result_type", "scalar_type_of",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


def issubdtype(a: Any, b: Any) -> bool:
    """Whether a dtype is of a kind, as `didax.numpy.issubdtype`, whose arguments have other names.

    >>> from didax import dtypes
    >>> dtypes.issubdtype("bfloat16", np.floating)
    True
    """
    return _issubdtype(a, b)


@api_boundary
def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """Return the dtype of values of `dtype` where nobody states one: 64-bit dtypes narrow without enable_x64.

    The dtypes of keys are returned as they are; `allow_extended_dtype` is accepted.

    >>> from didax import dtypes
    >>> dtypes.canonicalize_dtype("float64")
    dtype('float32')
    """
    found = default_dtype("f") if dtype is None else _named(dtype)
    return found if as_extended(found) else narrowed(found)


@api_boundary
def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """Return the dtype to which arrays, scalars and dtypes promote together, and on request whether it is weak.

    >>> from didax import dtypes
    >>> dtypes.result_type("int8", 1.0)
    dtype('float32')
    """
    pair = _result_type(*[_pair_of(x) for x in args])
    return pair if return_weak_type_flag else pair[0]


def _pair_of(x: Any) -> tuple[Any, bool]:
    if x is None:  # None means the default dtype
        return default_dtype("f"), False
    if isinstance(x, str | type | np.dtype) or as_extended(x):
        return _named(x), is_weak_name(x)
    aval = aval_of(narrowed_scalar(x))
    return aval.dtype, aval.weak_type


@api_boundary
def itemsize_bits(dtype: Any) -> int:
    """Return the number of bits of one element: 4 for int4, 8 for booleans.

    >>> from didax import dtypes
    >>> dtypes.itemsize_bits("bfloat16"), dtypes.itemsize_bits("int4")
    (16, 4)
    """
    found = _named(dtype)
    if kind_of(found) in "iu":
        return int(iinfo(found).bits)
    return int(finfo(found).bits) if kind_of(found) == "f" else 8 * found.itemsize


@api_boundary
def scalar_type_of(x: Any) -> type[Any]:
    """Return Python's type for the kind of an array's or a scalar's dtype: bool, int, float or complex.

    >>> from didax import dtypes
    >>> dtypes.scalar_type_of(np.int8(3))
    <class 'int'>
    """
    kind = kind_of(aval_of(x).dtype)
    types = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
    if kind not in types:
        raise TypeError(
            message(
                "Python has scalars of booleans and of numbers only.",
                f"x: {aval_of(x)}",
                fix="Ask for an array of numbers.",
            )
        )
    return types[kind]
