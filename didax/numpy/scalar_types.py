"""The dtypes by name: `dnp.float32` names a dtype, and a call of it makes an array of this dtype.

    dnp.zeros(3, dnp.int8)      dnp.float32(1)      x.dtype == dnp.bfloat16

The module also has the abstract kinds for `issubdtype`, constants, and questions about dtypes. Read next:
`didax/core/dtypes.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from didax.core import config, dtypes
from didax.core.avals import ShapedArray
from didax.core.dtypes import finfo as _finfo
from didax.core.dtypes import iinfo as _iinfo
from didax.core.dtypes import issubdtype
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.value import Array
from didax.numpy.creation import array
from didax.numpy.promotion import ArrayLike, DTypeLike, as_operand, checked_operand, pair_of

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
    """The class of `float32` and the others: equal to NumPy's scalar type, and callable to make arrays."""

    dtype: np.dtype[Any]

    def __call__(cls, x: Any = 0) -> Array:  # type: ignore[override]
        """Return an array of `x` in this dtype."""
        return array(x, cls.dtype)

    def __eq__(cls, other: object) -> bool:
        if isinstance(other, ScalarType | np.dtype):
            return other == cls.dtype if isinstance(other, np.dtype) else other.dtype == cls.dtype
        return other is cls.dtype.type

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __repr__(cls) -> str:
        return f"didax.numpy.{cls.__name__}"

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.dtype.type)


class DefaultScalarType(ScalarType):
    """The class of `int_`, `uint`, `float_` and `complex_`, which have the default width."""

    kind: dtypes.Kind

    @property
    def dtype(cls) -> np.dtype[Any]:  # type: ignore[override]
        """The dtype of this kind: 32 bits wide, or 64 under `enable_x64`."""
        return dtypes.default_dtype(cls.kind)


def _default_scalar_type(name: str, kind: dtypes.Kind) -> ScalarType:
    doc = "The dtype of this kind that has the default width."
    return DefaultScalarType(name, (), {"kind": kind, "__module__": "didax.numpy", "__doc__": doc})


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
    "int_": _default_scalar_type("int_", "i"), "uint": _default_scalar_type("uint", "u"),
    "float_": _default_scalar_type("float_", "f"), "complex_": _default_scalar_type("complex_", "c"),
}  # fmt: skip


_FLOATS = ("eps", "epsneg", "max", "min", "resolution", "smallest_normal", "smallest_subnormal", "tiny")
_INTEGERS = ("bits", "iexp", "machep", "maxexp", "minexp", "negep", "nexp", "nmant", "precision")


class finfo:
    """The limits of a floating-point or complex dtype, or of the dtype of an array: `eps`, `max`, `tiny`, ...

    The limits are Python numbers, as the array API asks. Python numbers are weak, so `x * finfo.eps` keeps
    the dtype of x.

    >>> import didax.numpy as dnp
    >>> dnp.finfo(dnp.bfloat16).bits, dnp.finfo("float16").max
    (16, 65504.0)
    """

    __module__ = "didax.numpy"

    dtype: np.dtype[Any]
    bits: int
    iexp: int
    machep: int
    maxexp: int
    minexp: int
    negep: int
    nexp: int
    nmant: int
    precision: int
    eps: float
    epsneg: float
    max: float
    min: float
    resolution: float
    smallest_normal: float
    smallest_subnormal: float
    tiny: float

    @api_boundary
    def __init__(self, dtype: DTypeLike):
        stated = _stated_dtype("finfo", dtype)
        if not dtypes.is_inexact(stated):
            fix = "Use iinfo for integer dtypes."
            raise ValueError(
                message("finfo takes a floating-point or complex dtype.", f"dtype: {stated.name}", fix=fix)
            )
        limits = _finfo(stated)
        self.dtype = dtypes.exact_dtype(limits.dtype)
        for name in _INTEGERS:
            setattr(self, name, int(getattr(limits, name)))
        for name in _FLOATS:
            setattr(self, name, float(getattr(limits, name)))

    def __repr__(self) -> str:
        return f"finfo(min={self.min}, max={self.max}, eps={self.eps}, dtype={self.dtype.name})"


class iinfo:
    """The limits of an integer dtype, or of the dtype of an array: `min`, `max`, `bits`, as Python integers.

    >>> import didax.numpy as dnp
    >>> dnp.iinfo(dnp.int8).max
    127
    """

    __module__ = "didax.numpy"

    @api_boundary
    def __init__(self, int_type: DTypeLike):
        stated = _stated_dtype("iinfo", int_type)
        if not dtypes.is_integer(stated):
            fix = "Use finfo for floating-point dtypes."
            raise ValueError(message("iinfo takes an integer dtype.", f"dtype: {stated.name}", fix=fix))
        limits = _iinfo(stated)
        self.dtype = stated
        self.bits, self.min, self.max = int(limits.bits), int(limits.min), int(limits.max)
        self.kind = dtypes.kind_of(stated)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype.name})"


def _stated_dtype(name: str, x: Any) -> np.dtype[Any]:
    """Return the given dtype, or the dtype of an array or scalar; None is NumPy's default, float64."""
    if x is None:
        return np.dtype(np.float64)
    if isinstance(x, str | type | np.dtype):
        return dtypes.exact_dtype(x)
    return pair_of(checked_operand(name, x, "dtype"))[0]


@api_boundary
def promote_types(a: DTypeLike, b: DTypeLike) -> np.dtype[Any]:
    """Return the dtype to which two dtypes promote; `int`, `float` and `complex` are weak.

    >>> import didax.numpy as dnp
    >>> dnp.promote_types("bfloat16", "float16")
    dtype('float32')
    """
    return dtypes.promote_types(a, b)


@api_boundary
def result_type(*args: ArrayLike | DTypeLike) -> np.dtype[Any]:
    """Return the dtype to which arrays, scalars and dtypes promote together.

    >>> import didax.numpy as dnp
    >>> dnp.result_type(dnp.zeros(2, "int8"), 1.0)
    dtype('float32')
    """
    if not args:
        raise ArgumentError(
            message("result_type needs at least one array or dtype.", "got: nothing", fix="Pass some.")
        )
    found = dtypes.result_type(*[_pair(x) for x in args])[0]
    return dtypes.narrowed(found) if config.state().as_in_jax and dtypes.as_extended(found) is None else found


def _pair(x: Any) -> tuple[np.dtype[Any], bool]:
    if x is None:  # None means the default dtype
        return dtypes.default_dtype("f"), False
    if isinstance(aval := getattr(x, "aval", None), ShapedArray):
        return aval.dtype, aval.weak_type
    if isinstance(x, str | type | np.dtype):
        return dtypes.exact_dtype(x), dtypes.is_weak_name(x)
    if as_operand(x) is None and hasattr(x, "dtype"):  # no array, as a matrix of scipy.sparse
        return dtypes.narrowed(dtypes.exact_dtype(x.dtype)), False
    return pair_of(checked_operand("result_type", x, "argument"))


@api_boundary
def can_cast(from_: Any, to: DTypeLike, casting: str = "safe") -> bool:
    """Whether a dtype converts to another dtype under NumPy's casting rule.

    >>> import didax.numpy as dnp
    >>> dnp.can_cast("int8", "int32")
    True
    """
    if casting not in _CASTINGS:
        fix = f"Choose one of {', '.join(map(repr, _CASTINGS))}."
        raise ValueError(message("can_cast asks for one of NumPy's rules.", f"casting: {casting!r}", fix=fix))
    pair = _named("from_", getattr(from_, "dtype", from_)), _named("to", to)
    return np.can_cast(*pair, casting=casting)  # type: ignore[arg-type]


_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def _named(argument: str, x: Any) -> np.dtype[Any]:
    try:
        return np.dtype(x)
    except (TypeError, ValueError):
        fix = "Pass a name such as 'float32', a dtype, or an array for from_."
        rule = "can_cast compares dtypes."
        raise ArgumentError(message(rule, f"{argument}: {x!r:.100}", fix=fix)) from None


_KIND_NAMES = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
    "complex floating": "c", "numeric": "iufc",
}  # fmt: skip


@api_boundary
def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Whether a dtype is of a kind of the array API.

    A kind is "bool", "integral", "real floating", ..., a dtype, or a tuple of kinds. None is float64, as for NumPy.

    >>> import didax.numpy as dnp
    >>> dnp.isdtype("bfloat16", "real floating")
    True
    """
    if isinstance(kind, tuple):
        return any([isdtype(dtype, k) for k in kind])
    found = dtypes.exact_dtype(np.float64 if dtype is None else dtype)
    if isinstance(kind, str) and kind in _KIND_NAMES:
        return dtypes.kind_of(found) in _KIND_NAMES[kind]
    try:
        return found == dtypes.exact_dtype(kind)
    except TypeError:
        fix = f"Use one of {', '.join(map(repr, _KIND_NAMES))}, a dtype, or a tuple of these."
        raise ValueError(message("isdtype takes kinds and dtypes.", f"kind: {kind!r}", fix=fix)) from None
