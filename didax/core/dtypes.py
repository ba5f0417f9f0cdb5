"""Dtypes: their names, their kinds, and the lattice that decides what `int8 + float32` is.

Promotion is one rule: the result dtype is the join (least upper bound) of the operands on the lattice
`PROMOTION` below. Besides a node per dtype it has the weak nodes `i*`, `f*` and `c*`: Python's int, float and
complex, and arrays made from them. They lie below the dtypes of their own kind, so `x + 1` keeps the dtype of
`x`. A pair `(dtype, weak)` names a node; a weak result has the default width of its kind:

    join(int8, i*) = int8        join(int8, f*) = f*, which is float32 (float64 under enable_x64)

The dtypes are NumPy's and those of ml_dtypes (bfloat16, float8, float4, int2, int4), plus `float0`, the dtype
of tangents of integers and booleans. What the user writes is honoured: `enable_x64` only sets default widths.
An `ExtendedDtype` has elements that are no numbers (random keys): they are moved about, and promote to nothing.
Read next: `avals.py`, where a dtype and its weakness become part of an abstract value.
"""

import functools
import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

import ml_dtypes
import numpy as np

from didax.core import config
from didax.core.dims import is_symbolic
from didax.core.errors import ArgumentError, TypePromotionError, api_boundary, message

DType: TypeAlias = np.dtype[Any]
DTypeLike: TypeAlias = str | type[Any] | DType
Kind: TypeAlias = Literal["b", "i", "u", "f", "c", "0", "x"]
"""Bool, signed integer, unsigned integer, float, complex, float0, extended."""

_NARROW_INTS = ["int2", "int4", "uint2", "uint4"]
_NARROW_FLOATS = ["float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
                  "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]  # fmt: skip

PROMOTION: Final[dict[str, list[str]]] = {
    "b1": ["i*"],
    "u1": ["u2", "i2"], "u2": ["u4", "i4"], "u4": ["u8", "i8"], "u8": ["f*"],
    "i*": ["u1", "i1", *_NARROW_INTS],
    "i1": ["i2"], "i2": ["i4"], "i4": ["i8"], "i8": ["f*"],
    "f*": ["c*", "f2", "bf", *_NARROW_FLOATS],
    "bf": ["f4"], "f2": ["f4"], "f4": ["f8", "c8"], "f8": ["c16"],
    "c*": ["c8"], "c8": ["c16"], "c16": [],
    # The narrow dtypes hold so few values that leaving them is always the user's explicit choice.
    **{node: [] for node in _NARROW_INTS + _NARROW_FLOATS},
    "float0": [],
}  # fmt: skip
"""The dtypes directly above each node: `u2` is uint16 (sizes in bytes), `bf` bfloat16, `i*` weak integers."""

# With enable_x64 off, operands of at most 32 bits give no 64-bit result: only uint32 with a signed integer would.
_LATTICES = (PROMOTION | {"u4": ["u8", "i4"]}, PROMOTION)  # enable_x64 off, on

float0: Final[DType] = np.dtype([("float0", np.void, 0)])
"""The dtype of tangents of booleans and integers: it has one value and no bytes."""


def _node_dtype(node: str) -> DType:
    name = {"bf": "bfloat16"}.get(node, node)
    return np.dtype(getattr(ml_dtypes, name, name))


_WEAK: dict[str, Kind] = {"i*": "i", "f*": "f", "c*": "c"}
_NODE_DTYPES: dict[str, DType] = {n: _node_dtype(n) for n in PROMOTION if n not in _WEAK and n != "float0"}
ALL_DTYPES: Final[tuple[DType, ...]] = tuple(_NODE_DTYPES.values())
"""Every dtype an array of numbers can have (so without `float0`)."""

_PACKED = frozenset(_NODE_DTYPES[node] for node in _NARROW_INTS)
_NODE_DTYPES["float0"] = float0
_NODES: dict[DType, str] = {d: node for node, d in _NODE_DTYPES.items()}
_WEAK_NODES: dict[Kind, str] = {"b": "b1", "i": "i*", "u": "i*", "f": "f*", "c": "c*", "0": "float0"}

# --- Names and kinds ----------------------------------------------------------------------------------------

_STEMS: dict[str, tuple[Kind, str]] = {  # how a name starts -> its kind, how the short name starts
    "bool": ("b", "bool"), "int": ("i", "i"), "uint": ("u", "u"),
    "float": ("f", "f"), "bfloat": ("f", "bf"), "complex": ("c", "c"),
}  # fmt: skip


def _kind_and_short_name(d: DType) -> tuple[Kind, str]:
    stem = next(stem for stem in _STEMS if d.name.startswith(stem))
    kind, short = _STEMS[stem]
    return kind, short + d.name.removeprefix(stem)


_KINDS: dict[DType, Kind] = {float0: "0"}
_SHORT_NAMES: dict[DType, str] = {float0: "float0"}
for _d in ALL_DTYPES:
    _KINDS[_d], _SHORT_NAMES[_d] = _kind_and_short_name(_d)
_FROM_SHORT_NAMES = {name: d for d, name in _SHORT_NAMES.items()}


def dtype_name(dtype: DType) -> str:
    """Return `dtype.name`, and 'float0' for float0, which NumPy knows as 'void0'."""
    return "float0" if dtype == float0 else dtype.name


def short_name(dtype: DType) -> str:
    """Return the name that jaxprs print, its digits counting bits: `f32`, `bf16`, `i4`, `bool`, `f8_e4m3fn`.

    >>> short_name(np.dtype(np.uint8))
    'u8'
    """
    return _SHORT_NAMES[dtype]


def from_short_name(name: str) -> DType:
    """Return the dtype with this short name, the inverse of `short_name`; a ValueError if there is none.

    >>> from_short_name('c64')
    dtype('complex64')
    """
    try:
        return _FROM_SHORT_NAMES[name]
    except KeyError:
        fix = f"Use one of {', '.join(_FROM_SHORT_NAMES)}."
        raise ValueError(message("No dtype has this short name.", f"name: {name!r}", fix=fix)) from None


def kind_of(dtype: DType) -> Kind:
    """Return 'b', 'i', 'u', 'f', 'c' for bool, signed, unsigned, float, complex, and '0' for float0.

    Unlike `numpy.dtype.kind` it knows the dtypes of ml_dtypes.

    >>> kind_of(np.dtype(ml_dtypes.bfloat16))
    'f'
    """
    return _KINDS[dtype]


def is_float(dtype: DType) -> bool:
    """Whether `dtype` is a real floating-point dtype."""
    return _KINDS[dtype] == "f"


def is_complex(dtype: DType) -> bool:
    """Whether `dtype` is complex."""
    return _KINDS[dtype] == "c"


def is_inexact(dtype: DType) -> bool:
    """Whether `dtype` is floating-point or complex: what can be differentiated."""
    return _KINDS[dtype] in "fc"


def is_integer(dtype: DType) -> bool:
    """Whether `dtype` is a signed or unsigned integer; booleans are not."""
    return _KINDS[dtype] in "iu"


def is_signed(dtype: DType) -> bool:
    """Whether `dtype` is a signed integer."""
    return _KINDS[dtype] == "i"


def is_packed(dtype: DType) -> bool:
    """Whether `dtype` is of integers of 2 or 4 bits: NumPy stores them, and computes with them in int8."""
    return dtype in _PACKED


_SUPPORTED_DTYPES = {
    _NODE_DTYPES["int2"]: np.dtype(np.int8),
    _NODE_DTYPES["uint2"]: np.dtype(np.uint8),
    # The least number of float8_e8m0fnu is denormal in float32, and XLA takes denormal numbers for 0.
    _NODE_DTYPES["float8_e8m0fnu"]: np.dtype(np.float64),
}


def supported_dtype(dtype: DType) -> DType:
    """The dtype in which programs move and combine numbers of this dtype: a wider one where XLA does not support it."""
    return _SUPPORTED_DTYPES.get(dtype, dtype)


_COMPUTE_DTYPES = {
    d: _SUPPORTED_DTYPES.get(d, np.dtype(np.float32)) for d in map(_node_dtype, _NARROW_FLOATS)
}


def compute_dtype(dtype: DType) -> DType | None:
    """The dtype in which functions of floats of a byte or less are computed; None for other dtypes."""
    return _COMPUTE_DTYPES.get(dtype)


def at_least_single(dtype: DType) -> DType:
    """The dtype for numbers like these with at least the precision of float32: itself, or a wider float."""
    narrow = is_float(dtype) and dtype.itemsize < 4
    return compute_dtype(dtype) or (np.dtype(np.float32) if narrow else dtype)


def is_sub_byte(dtype: DType) -> bool:
    """Whether elements have less than 8 bits in XLA's memory."""
    return dtype in _PACKED or dtype == _NODE_DTYPES["float4_e2m1fn"]


# --- Extended dtypes ----------------------------------------------------------------------------------------


class extended(np.generic):
    """The base class of the scalar types of all extended dtypes.

    >>> import didax as dx, didax.numpy as dnp
    >>> dnp.issubdtype(dx.random.key(0).dtype, dx.dtypes.extended), dnp.issubdtype(np.float32, dx.dtypes.extended)
    (True, False)
    """


class prng_key(extended):
    """The scalar type of random keys, whichever generator they are for.

    >>> import didax as dx, didax.numpy as dnp
    >>> dnp.issubdtype(dx.random.key(0).dtype, dx.dtypes.prng_key)
    True
    """


class ExtendedDtype:
    """A dtype whose elements are no numbers; a small array of numbers stands behind each element.

    An element is represented by `element_shape` elements of `element_dtype`. Operations that move data move
    these along; all others refuse, and `advice` says what to do instead. See `passes/physical.py`.

    >>> import didax as dx, didax.numpy as dnp, numpy as np
    >>> from didax.extend import dtypes
    >>> class colour(dx.dtypes.extended): pass
    >>> rgb = dtypes.register_extended(dtypes.ExtendedDtype("rgb", colour, np.dtype("uint8"), (3,)))
    >>> dx.make_jaxpr(lambda x: x[::-1])(dx.ShapeDtypeStruct((4,), rgb)).out_avals
    (rgb[4],)
    >>> dx.eval_shape(dnp.sin, dx.ShapeDtypeStruct((4,), rgb))
    Traceback (most recent call last):
    TypeError: sin takes numbers, and opaque elements are none.
    ...
    """

    kind: Final = "V"  # as NumPy has it: neither number nor text
    noun: str = "opaque elements"
    advice: str = "Move them about only."

    def __init__(
        self, name: str, scalar_type: type[extended], element_dtype: DType, element_shape: tuple[int, ...]
    ):
        self.name = name
        self.type = scalar_type
        self.element_dtype = element_dtype
        self.element_shape = element_shape
        self.itemsize = element_dtype.itemsize * math.prod(element_shape)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return from_short_name, (self.name,)


def register_extended(dtype: ExtendedDtype) -> DType:
    """Make an extended dtype known by its name, and return it, typed as a dtype.

    A later dtype of the same name takes the name over.

    >>> import didax as dx, numpy as np
    >>> from didax.extend import dtypes
    >>> class amount(dx.dtypes.extended): pass
    >>> money = dtypes.register_extended(dtypes.ExtendedDtype("money", amount, np.dtype("int32"), (2,)))
    >>> dx.ShapeDtypeStruct((3,), money)
    ShapeDtypeStruct(shape=(3,), dtype=money)
    >>> dx.dtypes.issubdtype(money, amount)
    True
    """
    found = cast(DType, dtype)
    _KINDS[found], _SHORT_NAMES[found], _DTYPES[found] = "x", dtype.name, found
    _FROM_SHORT_NAMES[dtype.name] = found
    return found


def as_extended(dtype: object) -> ExtendedDtype | None:
    """`dtype` if its elements are no numbers, such as those of random keys; None for any other dtype.

    >>> import didax as dx, didax.numpy as dnp
    >>> from didax.extend import dtypes
    >>> def numbers_of(x):
    ...     found = dtypes.as_extended(x.dtype)
    ...     return x.size * (found.itemsize // found.element_dtype.itemsize if found else 1)
    >>> numbers_of(dx.random.split(dx.random.key(0), 3)), numbers_of(dnp.ones(3))
    (6, 3)
    """
    return dtype if isinstance(dtype, ExtendedDtype) else None


# ml_dtypes derives its scalar types from np.generic directly. These are the bases that they would have in NumPy.
_KIND_CLASSES: dict[Kind, type[np.generic]] = {
    "b": np.bool_, "i": np.signedinteger, "u": np.unsignedinteger,
    "f": np.floating, "c": np.complexfloating, "0": np.void,
}  # fmt: skip
_BASES: dict[type[np.generic], type[np.generic]] = {d.type: _KIND_CLASSES[_KINDS[d]] for d in ALL_DTYPES}


def _scalar_class(x: DTypeLike) -> type[np.generic]:
    if isinstance(x, type) and issubclass(x, np.generic):
        return cast("type[np.generic]", x)
    if isinstance(x, ExtendedDtype):
        return x.type
    return cast(DType, np.dtype(x)).type


@api_boundary
def issubdtype(arg1: DTypeLike, arg2: DTypeLike) -> bool:
    """Like `numpy.issubdtype`, and bfloat16, float8 and float4 are `np.floating`, int4 is `np.signedinteger`.

    >>> issubdtype('bfloat16', np.floating)
    True
    """
    lower, upper = _scalar_class(arg1), _scalar_class(arg2)
    return issubclass(lower, upper) or issubclass(_BASES.get(lower, lower), upper)


# --- Default widths, and what the user may write for a dtype ------------------------------------------------

PYTHON_SCALARS: Final[dict[type[Any], Kind]] = {bool: "b", int: "i", float: "f", complex: "c"}
"""Python's types of numbers and their kinds. Subclasses do not count: `np.float64` derives from `float`."""
PYTHON_TYPES: Final[dict[Kind, type[Any]]] = {
    "b": bool, "i": int, "u": int, "f": float, "c": complex, "0": int,
}  # fmt: skip
"""Python's type for the elements of each kind of dtype; the one value of float0 is written 0."""
KIND_RANKS: Final[dict[Kind, int]] = {"x": -1, "0": 0, "b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
"""How far up the tower of numbers each kind stands: a Python scalar fits dtypes of its own rank and of higher ones."""
_DEFAULTS: dict[Kind, tuple[DType, DType]] = {  # with enable_x64 off, on
    "b": (np.dtype(np.bool_), np.dtype(np.bool_)),
    "i": (np.dtype(np.int32), np.dtype(np.int64)),
    "u": (np.dtype(np.uint32), np.dtype(np.uint64)),
    "f": (np.dtype(np.float32), np.dtype(np.float64)),
    "c": (np.dtype(np.complex64), np.dtype(np.complex128)),
}
# The usual ways to write a dtype, and the ways to write a Python type, which stands for a default width.
_DTYPES: dict[Any, DType] = {float0: float0, "float0": float0}
_PYTHON_SPELLINGS: dict[Any, Kind] = {}
for _d in ALL_DTYPES:
    _DTYPES.update({_d: _d, _d.type: _d, _d.name: _d})
for _type, _kind in PYTHON_SCALARS.items():
    _PYTHON_SPELLINGS.update({_type: _kind, _type.__name__: _kind})


def default_dtype(kind: Kind | type[Any]) -> DType:
    """Return the dtype of values whose dtype nobody stated, for a kind or for Python's type of that kind.

    That is int32, uint32, float32 or complex64, and under `enable_x64` the dtype twice as wide.
    """
    return _DEFAULTS[PYTHON_SCALARS[kind] if isinstance(kind, type) else kind][config.state().enable_x64]


def position_dtype(length: int) -> DType:
    """The dtype that counts positions along an axis: int32, and int64 where these are too many, under `enable_x64`.

    >>> position_dtype(100)
    dtype('int32')
    """
    if not is_symbolic(length) and length > 2**31 and config.state().enable_x64:
        return np.dtype(np.int64)
    check_counts(np.dtype(np.int32), length)
    return np.dtype(np.int32)


def check_counts(dtype: DType, length: int) -> None:
    """OverflowError where an axis has more than 2**31 elements, and positions of this dtype cannot count them."""
    if not is_symbolic(length) and length > 2**31 and iinfo(dtype).max < length:
        raise OverflowError(
            message(
                "Positions along an axis of more than 2**31 elements need 64-bit integers.",
                f"length of the axis: {length}, dtype of positions: {dtype_name(dtype)}",
                fix="Turn on enable_x64 and use int64, or cut the array into shorter ones.",
            )
        )


def narrowed(x: DType) -> DType:
    """The dtype that a NumPy value takes here: its own, or the default width for 64 bits without enable_x64.

    >>> narrowed(np.dtype("float64"))
    dtype('float32')
    """
    wide = x.kind in "iufc" and x.itemsize >= (16 if x.kind == "c" else 8)
    found = exact_dtype(x)
    return default_dtype(kind_of(found)) if wide and not config.state().enable_x64 else found


def python_type(dtype: DType) -> type[Any] | None:
    """The type of the Python scalars whose default dtype this is; None where there are none.

    >>> python_type(np.dtype("float32")), python_type(np.dtype("uint32"))
    (<class 'float'>, None)
    """
    kind = _KINDS[dtype]
    return PYTHON_TYPES[kind] if kind in "bifc" and default_dtype(kind) == dtype else None


def numpy_scalar(x: complex, dtype: DType) -> "np.generic[Any]":
    """Return a Python scalar in `dtype`; OverflowError where it is out of an integer dtype's range.

    >>> numpy_scalar(3, np.dtype("int8"))
    np.int8(3)
    """
    kind = _KINDS[dtype]
    if kind == "x":  # raises: no number is such an element
        join(default_dtype(cast("type[Any]", type(x))), True, dtype, False)
    if kind in "iu":
        least, greatest = integer_limits(dtype)
        if not least <= x.real <= greatest:  # NaN is in no range
            what = "integer" if isinstance(x, int) else type(x).__name__
            rule = "A Python number must fit the integer dtype it takes."
            facts = f"{what}: {x}, dtype: {dtype.name} ({least} to {greatest})"
            fix = "Use a wider dtype (enable_x64 widens the default), or a float."
            raise OverflowError(message(rule, facts, fix=fix))
    elif kind == "f" and type(x) is int:
        return dtype.type(float(x))  # the dtypes of ml_dtypes take no integer of more than 64 bits
    return dtype.type(x)


def saturated(x: float, dtype: DType) -> int:
    """Return a Python number as an integer of `dtype`, as conversions do: truncated and limited, 0 for NaN.

    >>> saturated(-1.5, np.dtype("int8")), saturated(math.inf, np.dtype("int8"))
    (-1, 127)
    """
    low, high = (0, 1) if dtype == np.bool_ else (iinfo(dtype).min, iinfo(dtype).max)
    return int(min(max(x, low), high)) if x == x else 0


def dtype(x: DTypeLike) -> DType:
    """Return the dtype that `x` names: a string, a dtype, a scalar type, `bool`, `int`, `float` or `complex`.

    Python's types (and their names) have the default width; any other dtype is taken as written, in native
    byte order. What is no dtype of numbers raises TypeError.

    >>> dtype('float64'), dtype(ml_dtypes.bfloat16)
    (dtype('float64'), dtype(bfloat16))
    """
    found = exact_dtype(x)
    return _truncated(found) if found.itemsize >= 8 and config.state().as_in_jax else found


def _truncated(dtype: DType) -> DType:
    """The dtype that JAX gives to a program that states a dtype of 64 bits without `enable_x64`, with its warning."""
    if dtype.kind not in "iufc" or (narrow := narrowed(dtype)) == dtype:
        return dtype
    text = f"The dtype {dtype} that the program states is truncated to {narrow}, as in JAX without jax_enable_x64."
    warnings.warn(text, UserWarning, stacklevel=4)
    return narrow


def exact_dtype(x: DTypeLike) -> DType:
    """The dtype that `x` names, of 64 bits too where the option `as_in_jax` narrows what programs state."""
    try:
        kind = _PYTHON_SPELLINGS.get(x)
        return _DTYPES[x] if kind is None else default_dtype(kind)
    except (KeyError, TypeError):  # another spelling, such as 'f4' or '>i2'; or nonsense, perhaps unhashable
        found = _DTYPES.get(_numpy_dtype(x))
    if found is None:
        rule = "A dtype must name booleans, integers, floats or complex numbers."
        fix = "Use a name such as 'float32', a scalar type such as np.int8, or bool, int, float, complex."
        rule, fix = getattr(x, "why_no_arrays", (rule, fix))  # a class of dtypes may know better
        raise ArgumentError(message(rule, f"dtype: {x!r}", fix=fix))
    return found


def is_weak_name(x: object) -> bool:
    """Whether `x` is Python's int, float or complex, whose dtypes are weak; dtypes of NumPy equal these types."""
    return isinstance(x, type) and x in (int, float, complex)


def _numpy_dtype(x: object) -> DType | None:
    """What NumPy takes `x` for. Only spellings of a dtype reach NumPy, which reads None as float64."""
    if not isinstance(x, str | np.dtype | type):
        return None
    try:
        return cast(DType, np.dtype(x)).newbyteorder("=")
    except (TypeError, ValueError):
        return None


# --- Promotion ----------------------------------------------------------------------------------------------


@functools.cache
def _bounds(x64: bool) -> dict[str, frozenset[str]]:
    return check_lattice(_LATTICES[x64])


def check_lattice(above: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    """Return each node's upper bounds, itself included, for the nodes directly `above` each.

    ValueError where the order is circular, or where two nodes have common upper bounds and none of these is
    the least: then their join, the dtype they promote to, would be a matter of taste.

    >>> check_lattice({"a": ["c"], "b": ["c"], "c": []})["a"] == {"a", "c"}
    True
    """
    bounds = {node: _reachable(node, above) for node in above}
    for a, b in itertools.combinations(above, 2):
        common = bounds[a] & bounds[b]
        if {a, b} <= common or (common and not any(common <= bounds[node] for node in common)):
            least = sorted(n for n in common if not any(n in bounds[m] for m in common - {n}))
            rule = "Any two dtypes with common upper bounds have exactly one least of them, their join."
            facts = f"dtypes: {a}, {b}; least bounds: {', '.join(least) or 'none, for there is a cycle'}"
            raise ValueError(message(rule, facts, fix="Remove an edge, or add one that orders the bounds."))
    return bounds


def _reachable(node: str, above: Mapping[str, Sequence[str]]) -> frozenset[str]:
    found, rest = {node}, [node]
    while rest:
        new = set(above[rest.pop()]) - found
        found |= new
        rest += new
    return frozenset(found)


def _least_upper_bound(a: str, b: str, x64: bool) -> str | None:
    bounds = _bounds(x64)
    common = bounds[a] & bounds[b]
    return next((node for node in common if common <= bounds[node]), None)


def _node(dtype: DType, weak: bool) -> str:
    return _WEAK_NODES[_KINDS[dtype]] if weak else _NODES[dtype]


_JOINS: tuple[dict[tuple[DType, bool, DType, bool], tuple[DType, bool]], ...] = ({}, {})  # enable_x64 off, on


def join(dtype1: DType, weak1: bool, dtype2: DType, weak2: bool) -> tuple[DType, bool]:
    """Return the `(dtype, weak)` that two operands promote to; TypePromotionError if there is none.

    A weak result has the default width of its kind, whatever the widths that went in.

    >>> join(np.dtype('int8'), False, np.dtype('float32'), True)
    (dtype('float32'), True)
    """
    joins, key = _JOINS[config.state().enable_x64], (dtype1, weak1, dtype2, weak2)
    try:
        return joins[key]
    except KeyError:
        joins[key] = result = _compute_join(*key)
        return result


def _compute_join(dtype1: DType, weak1: bool, dtype2: DType, weak2: bool) -> tuple[DType, bool]:
    if (extended := as_extended(dtype1) or as_extended(dtype2)) is not None:
        return _join_extended(extended, (dtype1, weak1), (dtype2, weak2))
    node = _least_upper_bound(_node(dtype1, weak1), _node(dtype2, weak2), config.state().enable_x64)
    if node is None:
        inputs = _describe((dtype1, weak1), (dtype2, weak2))
        fix = "Cast one of them to the dtype you want, as in x.astype('float32')."
        raise TypePromotionError(
            message("These dtypes promote to no common dtype.", inputs, fix=fix)
        ) from None
    if node in _WEAK:
        return default_dtype(_WEAK[node]), True
    return _NODE_DTYPES[node], False


def _join_extended(
    dtype: ExtendedDtype, first: tuple[DType, bool], second: tuple[DType, bool]
) -> tuple[DType, bool]:
    """An extended dtype joins itself alone."""
    if first[0] == second[0]:
        return first[0], False
    rule = f"{dtype.noun.capitalize()} are no numbers, and have no dtype in common with others."
    raise TypePromotionError(message(rule, _describe(first, second), fix=dtype.advice))


def result_type(first: tuple[DType, bool], *rest: tuple[DType, bool]) -> tuple[DType, bool]:
    """Return the join of `(dtype, weak)` pairs, in any number and order.

    Raises TypePromotionError if they have no common dtype or if, under `numpy_dtype_promotion='strict'`, a
    strong operand would change its dtype; weak operands may still adopt the dtype of a strong one.
    """
    result = join(*first, *(rest[-1] if rest else first))
    for pair in rest[:-1]:
        result = join(*result, *pair)
    if config.state().numpy_dtype_promotion == "strict":
        _check_strict((first, *rest), result[0])
    return result


def _check_strict(pairs: tuple[tuple[DType, bool], ...], result: DType) -> None:
    if all(d == result or _node(d, weak) in _WEAK for d, weak in pairs):
        return
    rule = "With numpy_dtype_promotion='strict' no operand changes its dtype implicitly."
    name = dtype_name(result)
    fix = f"Cast explicitly, as in x.astype('{name}'), or set numpy_dtype_promotion='standard'."
    raise TypePromotionError(message(rule, _describe(*pairs), f"common dtype: {name}", fix=fix))


def _describe(*pairs: tuple[DType, bool]) -> str:
    return "inputs: " + ", ".join(("weak " if weak else "") + dtype_name(d) for d, weak in pairs)


def promote_types(a: DTypeLike | None, b: DTypeLike | None) -> DType:
    """Return the dtype that two dtypes promote to; `int`, `float` and `complex` are weak, None is float64.

    >>> promote_types('bfloat16', np.float16), promote_types(np.int8, int)
    (dtype('float32'), dtype('int8'))
    """
    a, b = [np.dtype(np.float64) if x is None else x for x in (a, b)]
    pairs = [(exact_dtype(x), x in PYTHON_SCALARS) for x in (a, b)]
    return result_type(*pairs)[0]


# --- Related dtypes -----------------------------------------------------------------------------------------


def tangent_dtype(dtype: DType) -> DType:
    """Return the dtype of the tangents of values of `dtype`: itself if inexact, else `float0`."""
    return dtype if is_inexact(dtype) else float0


def real_dtype(dtype: DType) -> DType:
    """Return the dtype of the real part: float32 for complex64, float64 for complex128, else `dtype`."""
    return np.dtype(f"f{dtype.itemsize // 2}") if is_complex(dtype) else dtype


def complex_dtype(dtype: DType) -> DType:
    """Return the dtype for complex numbers of this precision: complex128 for float64, complex64 for other floats,
    else the default.
    """
    if not is_inexact(dtype):
        return default_dtype("c")
    return np.dtype(np.complex128 if real_dtype(dtype) == np.float64 else np.complex64)


def finfo(dtype: DTypeLike) -> "ml_dtypes.finfo | np.finfo[Any]":
    """Return the limits of a floating-point or complex dtype, those of ml_dtypes included.

    Raises ValueError for other dtypes.

    >>> float(finfo("bfloat16").eps), finfo("float32").bits
    (0.0078125, 32)
    """
    return cast("ml_dtypes.finfo | np.finfo[Any]", ml_dtypes.finfo(exact_dtype(dtype)))


def iinfo(int_type: DTypeLike) -> ml_dtypes.iinfo:
    """Return the limits of an integer dtype, those of ml_dtypes included.

    Raises ValueError for other dtypes.

    >>> iinfo("int4").min, iinfo("uint8").max
    (-8, 255)
    """
    return ml_dtypes.iinfo(exact_dtype(int_type))


@functools.cache
def integer_limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest integer of a dtype; `iinfo` makes an object that computes them."""
    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)
