"""From what a user may pass to what primitives take: arrays of one dtype, whose shapes fit.

    promote("add", x, y)      operands of the promoted dtype and one shape (scalars stretch by themselves)
    as_array("sum", x)        any single operand as an array

Primitives never promote; everything implicit happens here, and leaves an explicit conversion or broadcast in
the program. Python scalars are weak: they take the dtype of the arrays beside them. NumPy arrays and scalars
have the dtype they say, except that 64-bit ones become 32-bit unless enable_x64 is on, since NumPy's 64 bits
are mostly nobody's choice.
Read next: `didax/core/dtypes.py` (the lattice), `ufunc.py` (which remembers, per combination of types, what
to do).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from didax.core import config, dtypes
from didax.core.avals import ShapedArray, aval_of, check_no_mask
from didax.core.errors import ArgumentError, message
from didax.core.source import user_line
from didax.core.value import Array
from didax.primitives.convert import convert_element_type
from didax.primitives.shape import broadcast_in_dim
from didax.runtime.array import ConcreteArray

ArrayLike: TypeAlias = Array | np.ndarray[Any, Any] | np.generic | bool | int | float | complex
"""What functions of `didax.numpy` take for an array."""
DTypeLike: TypeAlias = Any
"""What names a dtype: 'float32', np.float32, a dtype; bool, int, float and complex for the default widths."""

PYTHON_SCALARS: dict[type, Any] = {bool: "b", int: "i", float: "f", complex: "c"}
_PYTHON_TYPES: dict[str, type] = {"b": bool, "i": int, "f": float, "c": complex}
Step: TypeAlias = Callable[[Any], Any]


# --- single operands ----------------------------------------------------------------------------------------


def as_operand(x: Any) -> Any:
    """An Array, a Python scalar or a NumPy scalar for any array-like value; None for anything else."""
    kind = type(x)
    if isinstance(x, Array) or kind in PYTHON_SCALARS:
        return x
    if isinstance(x, np.ndarray):
        return from_numpy(x)
    if isinstance(x, np.generic):
        dtype = dtypes.narrowed(x.dtype)
        return x if x.dtype == dtype else x.astype(dtype)
    if (convert := getattr(x, "__jax_array__", None)) is not None:
        return as_operand(convert())
    return next(
        (base(x) for base in PYTHON_SCALARS if isinstance(x, base)), None
    )  # enums and other subclasses


def checked_operand(name: str, x: Any, argument: str | int = "x") -> Any:
    """`as_operand`, or the TypeError that says which argument of which function is no array."""
    found = as_operand(x)
    if found is None:
        raise not_an_array(name, x, argument)
    return found


def not_an_array(name: str, x: Any, argument: str | int) -> ArgumentError:
    """The error for an argument that is neither an array nor a scalar."""
    where = f"argument {argument + 1}" if isinstance(argument, int) else argument
    fix = getattr(x, "how_to_read", "Convert it first, as in didax.numpy.asarray(...).")
    if x is None:
        fix = "Pass an array or a number."
    return ArgumentError(
        message(f"{name} takes arrays and scalars.", f"{where}: {x!r:.100} of type {_type_name(x)}", fix=fix)
    )


def _type_name(x: Any) -> str:
    kind = type(x)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def as_array(name: str, x: Any, argument: str | int = "x") -> Array:
    """`x` as an Array, scalars included; Python scalars stay weakly typed."""
    return x if isinstance(x, Array) else lifted(checked_operand(name, x, argument))


def lifted(x: Any) -> Array:
    """An operand as an Array."""
    if isinstance(x, Array):
        return x
    aval = aval_of(x)
    return ConcreteArray(aval, scalar(x, aval.dtype, False) if type(x) in PYTHON_SCALARS else x)


def from_numpy(x: np.ndarray[Any, Any], dtype: np.dtype[Any] | None = None) -> Array:
    """An Array with a copy of the contents, since their owner may write to them later."""
    if type(x) is not np.ndarray:
        check_no_mask(x)
    dtype = dtypes.narrowed(x.dtype) if dtype is None else dtype
    return ConcreteArray(ShapedArray(x.shape, dtype), np.array(x, dtype))


def cast(x: Any, dtype: np.dtype[Any], weak_type: bool = False) -> Array:
    """`x` in another dtype (or strength of dtype)."""
    return lifted(convert_element_type(x, dtype, weak_type))


def as_array_of(
    name: str, x: Any, dtype: np.dtype[Any], weak_type: bool = False, argument: str | int = "x"
) -> Array:
    """`x` as an array of this dtype: unlike `as_array`, which comes before one is known, it keeps all digits."""
    if isinstance(x, np.ndarray | np.generic):
        return cast(from_numpy(np.asanyarray(x), dtypes.dtype(x.dtype)), dtype, weak_type)
    if type(x) in (bool, int, float):
        return cast(constant(scalar(x, dtype, False), dtype), dtype, weak_type)
    return cast(as_array(name, x, argument), dtype, weak_type)


def constant(value: Any, dtype: np.dtype[Any]) -> Array:
    """A number as an array of this dtype: as a mere NumPy scalar it would be narrowed beside other operands."""
    return ConcreteArray(ShapedArray((), dtype), dtype.type(value))


def scalar(x: Any, dtype: np.dtype[Any], keep_python: bool) -> Any:
    """A Python scalar in `dtype`: still a Python scalar, hence weak, where that is its default and
    `keep_python`.

    Integers that do not fit `dtype` wrap around, as in XLA, unless not even the default integer holds them;
    floats saturate.
    """
    kind = dtypes.kind_of(dtype)
    if kind in "iu":
        x = dtypes.saturated(x, dtype) if type(x) is float else _wrapped(int(x), dtype)
    if keep_python and kind in _PYTHON_TYPES and dtype == dtypes.default_dtype(kind):
        return _PYTHON_TYPES[kind](x)
    with np.errstate(all="ignore"):
        return dtype.type(x)


def _wrapped(x: int, dtype: np.dtype[Any]) -> int:
    info = dtypes.iinfo(dtype)
    if info.min <= x <= info.max:
        return x
    default = dtypes.iinfo(dtypes.default_dtype("i"))
    if not default.min <= x <= default.max:
        dtypes.numpy_scalar(x, dtype)  # which raises
    return (x - int(info.min)) % (1 << info.bits) + int(info.min)


# --- several operands ---------------------------------------------------------------------------------------


def pair_of(x: Any) -> tuple[np.dtype[Any], bool]:
    """The dtype of an operand, and whether it is weak: its place on the promotion lattice."""
    aval = aval_of(x)
    return aval.dtype, aval.weak_type


def result_pair(*operands: Any) -> tuple[np.dtype[Any], bool]:
    """The dtype operands promote to, and whether it is weak."""
    return dtypes.result_type(*[pair_of(x) for x in operands])


def inexact(dtype: np.dtype[Any], weak: bool) -> tuple[np.dtype[Any], bool]:
    """Where functions of real numbers compute: inexact dtypes stay, weak and 64-bit ones take the default
    width.
    """
    if dtypes.is_inexact(dtype):
        return dtype, weak
    return (dtypes.default_dtype("f") if weak or dtype.itemsize == 8 else np.dtype(np.float32)), weak


def broadcast_shapes(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to; ValueError if there is none."""
    distinct = set(shapes)
    if len(distinct) == 1:
        return distinct.pop()
    ndim = max([len(shape) for shape in shapes])
    columns = zip(*[(1,) * (ndim - len(shape)) + shape for shape in shapes], strict=True)
    lengths = [set(column) - {1} or {1} for column in columns]
    if any(len(found) > 1 for found in lengths):
        raise ArgumentError(
            message(
                f"{name} takes arrays whose shapes broadcast: from the last axis on, lengths agree or are 1.",
                f"shapes: {', '.join(map(str, shapes))}",
                fix="Add axes where they are meant to repeat (x[:, None]), or check for a missing transpose.",
            )
        )
    return tuple([found.pop() for found in lengths])


def broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` repeated to `shape`, which its own broadcasts to."""
    old = aval_of(x).shape
    if old == shape:
        return x
    first = len(shape) - len(old)
    return broadcast_in_dim(x, shape, tuple(range(first, len(shape))))


def promote(name: str, *args: Any, to_inexact: bool = False) -> list[Any]:
    """Operands of one dtype whose shapes fit elementwise primitives; scalars stay scalars.

    TypeError for arguments that are no arrays, TypePromotionError and ValueError where dtypes or shapes do
    not fit.
    """
    operands = promote_dtypes(name, *args, to_inexact=to_inexact)
    return broadcast_ranked(name, operands)


def promote_dtypes(name: str, *args: Any, to_inexact: bool = False) -> list[Any]:
    """Operands of one dtype, each of its own shape."""
    operands = [checked_operand(name, x, i) for i, x in enumerate(args)]
    pair = result_pair(*operands)
    dtype, weak = inexact(*pair) if to_inexact else pair
    return to_dtype(operands, dtype, weak)


def to_dtype(operands: Sequence[Any], dtype: np.dtype[Any], weak: bool) -> list[Any]:
    """The operands in their common dtype."""
    steps = dtype_steps(operands, dtype, weak)
    return [x if step is None else step(x) for x, step in zip(operands, steps, strict=True)]


def dtype_steps(operands: Sequence[Any], dtype: np.dtype[Any], weak: bool) -> list[Step | None]:
    """What brings each operand to the common dtype; None for those that have it.

    Python scalars stay such (and so weak) where the others make the result as strong as it should be.
    """
    keep_python = weak or any(
        [isinstance(x, Array | np.generic) and not aval_of(x).weak_type for x in operands]
    )
    return [_dtype_step(x, dtype, weak, keep_python) for x in operands]


def _dtype_step(x: Any, dtype: np.dtype[Any], weak: bool, keep_python: bool) -> Step | None:
    if type(x) in PYTHON_SCALARS:
        python_type = _PYTHON_TYPES.get(dtypes.kind_of(dtype))
        if keep_python and python_type in (float, complex) and dtype == dtypes.default_dtype(python_type):
            return None if type(x) is python_type else python_type
        return functools.partial(scalar, dtype=dtype, keep_python=keep_python)
    return None if x.dtype == dtype else functools.partial(cast, dtype=dtype, weak_type=weak)


def broadcast_ranked(name: str, operands: Sequence[Any]) -> list[Any]:
    """The operands in one shape, but for scalars, which elementwise primitives stretch."""
    steps = shape_steps(name, operands)
    return [x if step is None else step(x) for x, step in zip(operands, steps, strict=True)]


def check_ranks(name: str, operands: Sequence[Any]) -> None:
    """What numpy_rank_promotion says to arrays of different ranks, of which none is a scalar."""
    mode = config.state().numpy_rank_promotion
    shapes = [aval_of(x).shape for x in operands]
    if mode == "allow" or len({len(shape) for shape in shapes if shape}) < 2:
        return
    text = message(
        f"With numpy_rank_promotion={mode!r} the operands of {name} have one rank.",
        f"shapes: {', '.join(map(str, shapes))}",
        fix="Add axes of length 1 (x[None]).",
    )
    if mode == "raise":
        raise ValueError(text)
    line = user_line()
    warnings.warn_explicit(text, UserWarning, line.file if line else __file__, line.line if line else 1)


def shape_steps(name: str, operands: Sequence[Any]) -> list[Step | None]:
    """What brings each operand to the common shape; None for scalars and for those that have it."""
    shapes = [aval_of(x).shape for x in operands]
    shape = broadcast_shapes(name, shapes)
    return [None if old in ((), shape) else functools.partial(broadcast, shape=shape) for old in shapes]
