"""The dtypes by name: `dnp.float32` names a dtype wherever one is asked for, and called it makes an array of
it.

    dnp.zeros(3, dnp.int8)      dnp.float32(1)      x.dtype == dnp.bfloat16

Beside them the abstract kinds for `issubdtype`, constants, and questions about dtypes.
Read next: `didax/core/dtypes.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.dtypes import finfo as _finfo
from didax.core.dtypes import iinfo as _iinfo
from didax.core.dtypes import issubdtype
from didax.core.errors import api_boundary, message
from didax.core.value import Array
from didax.numpy.creation import array
from didax.numpy.promotion import ArrayLike, DTypeLike, checked_operand, pair_of

__all__ = [
    "can_cast", "dtype", "e", "euler_gamma", "finfo", "generic", "iinfo", "inexact", "inf", "integer",
    "isdtype", "issubdtype", "complexfloating", "floating", "nan", "newaxis", "number", "pi", "promote_types",
    "result_type", "signedinteger", "unsignedinteger", "character", "flexible", "object_",
]  # fmt: skip

pi, e, euler_gamma, inf, nan, newaxis = math.pi, math.e, float(np.euler_gamma), math.inf, math.nan, None
generic, number, inexact = np.generic, np.number, np.inexact
integer, signedinteger, unsignedinteger = np.integer, np.signedinteger, np.unsignedinteger
floating, complexfloating = np.floating, np.complexfloating
character, flexible, object_ = np.character, np.flexible, np.object_
dtype = np.dtype


class ScalarType(type):
    """The class of `float32` and the others: equal to NumPy's scalar type, and a function from data to
    arrays.
    """

    dtype: np.dtype[Any]

    def __call__(cls, x: Any = 0, /) -> Array:  # type: ignore[override]
        """An array of `x` in this dtype."""
        return array(x, cls.dtype)

    def __eq__(cls, other: object) -> bool:
        return other is cls.dtype.type or (isinstance(other, ScalarType) and other.dtype == cls.dtype)

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __repr__(cls) -> str:
        return f"didax.numpy.{cls.__name__}"

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.dtype.type)


def _scalar_type(d: np.dtype[Any]) -> ScalarType:
    name = "bool_" if d == np.bool_ else d.name
    return ScalarType(name, (), {"dtype": d, "__module__": "didax.numpy", "__doc__": f"The dtype {d.name}."})


SCALAR_TYPES: dict[str, ScalarType] = {
    ("bool_" if d == np.bool_ else d.name): _scalar_type(d) for d in dtypes.ALL_DTYPES
}
SCALAR_TYPES |= {
    "bool": SCALAR_TYPES["bool_"], "half": SCALAR_TYPES["float16"], "single": SCALAR_TYPES["float32"],
    "double": SCALAR_TYPES["float64"], "csingle": SCALAR_TYPES["complex64"],
    "cdouble": SCALAR_TYPES["complex128"],
}  # fmt: skip


def finfo(dtype: DTypeLike) -> Any:
    """The limits of a floating-point or complex dtype, or of an array's: `eps`, `max`, `tiny`, ...

    >>> import didax.numpy as dnp
    >>> dnp.finfo(dnp.bfloat16).bits
    16
    """
    return _finfo(getattr(dtype, "dtype", dtype))


def iinfo(dtype: DTypeLike) -> Any:
    """The limits of an integer dtype, or of an array's: `min`, `max`, `bits`.

    >>> import didax.numpy as dnp
    >>> dnp.iinfo(dnp.int8).max
    127
    """
    return _iinfo(getattr(dtype, "dtype", dtype))


@api_boundary
def promote_types(a: DTypeLike, b: DTypeLike) -> np.dtype[Any]:
    """The dtype that two dtypes promote to; `int`, `float` and `complex` are weak.

    >>> import didax.numpy as dnp
    >>> dnp.promote_types("bfloat16", "float16")
    dtype('float32')
    """
    return dtypes.promote_types(a, b)


@api_boundary
def result_type(*args: ArrayLike | DTypeLike) -> np.dtype[Any]:
    """The dtype that arrays, scalars and dtypes promote to together.

    >>> import didax.numpy as dnp
    >>> dnp.result_type(dnp.zeros(2, "int8"), 1.0)
    dtype('float32')
    """
    if not args:
        raise TypeError(
            message("result_type needs at least one array or dtype.", "got: nothing", fix="Pass some.")
        )
    return dtypes.result_type(*[_pair(x) for x in args])[0]


def _pair(x: Any) -> tuple[np.dtype[Any], bool]:
    if isinstance(x, str | type | np.dtype):
        return dtypes.dtype(x), x in (int, float, complex)
    return pair_of(checked_operand("result_type", x, "argument"))


def can_cast(from_: Any, to: DTypeLike, casting: str = "safe") -> bool:
    """Whether a dtype converts to another under NumPy's casting rule.

    >>> import didax.numpy as dnp
    >>> dnp.can_cast("int8", "int32")
    True
    """
    return np.can_cast(np.dtype(getattr(from_, "dtype", from_)), np.dtype(to), casting=casting)  # type: ignore[arg-type]


_KIND_NAMES = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
    "complex floating": "c", "numeric": "iufc",
}  # fmt: skip


@api_boundary
def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Whether a dtype is of a kind of the array API: "bool", "integral", "real floating", ..., a dtype, or a
    tuple.

    >>> import didax.numpy as dnp
    >>> dnp.isdtype("bfloat16", "real floating")
    True
    """
    if isinstance(kind, tuple):
        return any([isdtype(dtype, k) for k in kind])
    found = dtypes.dtype(dtype)
    if isinstance(kind, str) and kind in _KIND_NAMES:
        return dtypes.kind_of(found) in _KIND_NAMES[kind]
    return found == dtypes.dtype(kind)
