"""From the values that a user may pass to the operands of primitives: arrays of one dtype with fitting shapes.

    promote("add", x, y)      operands of the promoted dtype and one shape (scalars stretch by themselves)
    as_array("sum", x)        any single operand as an array

Primitives never promote: every implicit conversion or broadcast happens here, and appears in the program as
an explicit operation. Python scalars are weak: they take the dtype of the arrays beside them. NumPy arrays
and scalars keep their dtype, except that 64-bit dtypes become 32-bit dtypes unless enable_x64 is on, because
NumPy's 64 bits are rarely a choice of the user. Read next: `didax/core/dtypes.py` (the lattice of dtypes),
`ufunc.py` (which remembers the conversions for each combination of types).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from didax.core import config, dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import broadcast_lengths, is_symbolic
from didax.core.errors import ArgumentError, message
from didax.core.masked import check_no_mask
from didax.core.source import user_line
from didax.core.value import Array
from didax.primitives.convert import convert_element_type
from didax.primitives.dimension import number
from didax.primitives.shape import broadcast_in_dim
from didax.runtime.array import written_numbers

ArrayLike: TypeAlias = Array | np.ndarray[Any, Any] | np.generic | bool | int | float | complex
"""The type of an argument that functions of `didax.numpy` accept as an array."""
DTypeLike: TypeAlias = Any
"""The type of an argument that names a dtype.

Examples are 'float32', np.float32, a dtype; bool, int, float and complex name the default widths.
"""

Step: TypeAlias = Callable[[Any], Any]


# --- single operands ----------------------------------------------------------------------------------------


def as_operand(x: Any) -> Any:
    """An Array, a Python scalar or a NumPy scalar for any array-like value; None for anything else."""
    kind = type(x)
    if isinstance(x, Array) or kind in dtypes.PYTHON_SCALARS:
        return x
    if isinstance(x, np.ndarray):
        return from_numpy(x)
    if isinstance(x, np.generic):
        dtype = dtypes.narrowed(x.dtype)
        return x if x.dtype == dtype else x.astype(dtype)
    if (convert := getattr(x, "__jax_array__", None)) is not None:
        return as_operand(convert())
    # Enums and other subclasses of int and float.
    return next((base(x) for base in dtypes.PYTHON_SCALARS if isinstance(x, base)), None)


def checked_operand(name: str, x: Any, argument: str | int = "x") -> Any:
    """Return `as_operand(x)`, or raise a TypeError that names the function and the argument."""
    found = as_operand(x)
    if found is None:
        raise not_an_array(name, x, argument)
    return found


def not_an_array(name: str, x: Any, argument: str | int) -> ArgumentError:
    """Return the error for an argument that is neither an array nor a scalar."""
    where = f"argument {argument + 1}" if isinstance(argument, int) else argument
    fix = getattr(x, "how_to_read", "Convert it first, as in didax.numpy.asarray(...).")
    if x is None:
        fix = "Pass an array or a number."
    return ArgumentError(
        message(f"{name} takes arrays and scalars.", f"{where}: {x!r:.100} of type {_type_name(x)}", fix=fix)
    )


def no_out(name: str, out: Any) -> None:
    """Raise NotImplementedError if there is an array to write to."""
    if out is not None:
        raise NotImplementedError(
            message(
                f"{name} cannot write into an array: arrays are immutable.",
                "out: given",
                fix="Use the result instead of out=.",
            )
        )


def _type_name(x: Any) -> str:
    kind = type(x)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def as_array(name: str, x: Any, argument: str | int = "x") -> Array:
    """Return `x` as an Array; a Python scalar becomes a weakly typed array."""
    return x if isinstance(x, Array) else lifted(checked_operand(name, x, argument))


def lifted(x: Any) -> Array:
    """Return an operand as an Array."""
    if isinstance(x, Array):
        return x
    aval = aval_of(x)
    return written_numbers.array(
        aval, scalar(x, aval.dtype, False) if type(x) in dtypes.PYTHON_SCALARS else x
    )


def from_numpy(x: np.ndarray[Any, Any], dtype: np.dtype[Any] | None = None) -> Array:
    """Return an Array with a copy of the contents, because the owner of `x` may write to it later."""
    if type(x) is not np.ndarray:
        check_no_mask(x)
    dtype = dtypes.narrowed(x.dtype) if dtype is None else dtype
    return written_numbers.array(ShapedArray(x.shape, dtype), np.array(x, dtype))


def cast(x: Any, dtype: np.dtype[Any], weak_type: bool = False) -> Array:
    """Return `x` in another dtype (or with another weak type)."""
    return lifted(convert_element_type(x, dtype, weak_type))


def as_array_of(
    name: str, x: Any, dtype: np.dtype[Any], weak_type: bool = False, argument: str | int = "x"
) -> Array:
    """Return `x` as an array of the given dtype; unlike `as_array` it keeps all digits of a Python number."""
    if isinstance(x, np.ndarray | np.generic):
        return cast(from_numpy(np.asanyarray(x), dtypes.exact_dtype(x.dtype)), dtype, weak_type)
    if type(x) in (bool, int, float):
        return cast(constant(scalar(x, dtype, False), dtype), dtype, weak_type)
    return cast(as_array(name, x, argument), dtype, weak_type)


def beside_wide(*operands: Any) -> list[Any]:
    """Return the operands; if an array among them has 64 bits, Python numbers become weak arrays of 64 bits.

    For functions that make an array of each operand before the operands promote: alone, the number would be narrowed.
    """
    arrays = [x for x in operands if isinstance(x, Array)]
    numbers = [x for x in operands if type(x) in (int, float)]
    if not numbers or not any([dtypes.narrowed(x.dtype) != x.dtype for x in arrays]):
        return list(operands)
    dtype, _ = result_pair(*arrays, *numbers)
    if dtypes.narrowed(dtype) == dtype:
        return list(operands)
    return [as_array_of("asarray", x, dtype, True) if type(x) in (int, float) else x for x in operands]


def constant(value: Any, dtype: np.dtype[Any]) -> Array:
    """Return a number as an array of the given dtype; as a NumPy scalar it would be narrowed among other operands."""
    return (
        number(value, dtype)
        if is_symbolic(value)
        else written_numbers.array(ShapedArray((), dtype), dtype.type(value))
    )


def scalar(x: Any, dtype: np.dtype[Any], keep_python: bool) -> Any:
    """Return a Python scalar in `dtype`.

    The result is still a Python scalar, and so weak, where `dtype` is the default for its kind and
    `keep_python` is set.

    An integer that does not fit `dtype` wraps around, as in XLA, unless it does not fit the default integer
    dtype either, which raises; a float saturates.
    """
    kind = dtypes.kind_of(dtype)
    if kind in "iu":
        x = dtypes.saturated(x, dtype) if type(x) is float else _wrapped(int(x), dtype)
    if keep_python and (python_type := dtypes.python_type(dtype)) is not None:
        return python_type(x)
    if kind in "iub":
        return dtype.type(x)
    with np.errstate(all="ignore"):
        return dtype.type(x)


def _wrapped(x: int, dtype: np.dtype[Any]) -> int:
    least, greatest = dtypes.integer_limits(dtype)
    if least <= x <= greatest:
        return x
    default = dtypes.integer_limits(dtypes.default_dtype("i"))
    if not default[0] <= x <= default[1]:
        dtypes.numpy_scalar(x, dtype)  # raises the error
    return (x - least) % (greatest - least + 1) + least


# --- several operands ---------------------------------------------------------------------------------------


def pair_of(x: Any) -> tuple[np.dtype[Any], bool]:
    """Return the dtype of an operand and whether it is weak: the place of the operand in the promotion lattice."""
    aval = aval_of(x)
    return aval.dtype, aval.weak_type


def result_pair(*operands: Any) -> tuple[np.dtype[Any], bool]:
    """Return the dtype to which operands promote, and whether it is weak."""
    return dtypes.result_type(*[pair_of(x) for x in operands])


def inexact(dtype: np.dtype[Any], weak: bool) -> tuple[np.dtype[Any], bool]:
    """Return the dtype in which functions of real numbers compute: an inexact dtype is kept.

    Weak and 64-bit integers compute in the default width, other integers and booleans in float32.
    """
    if dtypes.is_inexact(dtype):
        return dtype, weak
    return (dtypes.default_dtype("f") if weak or dtype.itemsize == 8 else np.dtype(np.float32)), weak


def broadcast_shapes(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape to which arrays of these shapes broadcast; ValueError if there is none."""
    distinct = set(shapes)
    if len(distinct) == 1:
        return distinct.pop()
    found = broadcast_lengths(shapes)
    if found is None:
        raise ArgumentError(
            message(
                f"Incompatible shapes for broadcasting by {name}: from the last axis on, lengths agree or are 1.",
                f"shapes: {', '.join(map(str, shapes))}",
                fix="Add axes where they are meant to repeat (x[:, None]), or check for a missing transpose.",
            )
        )
    return found


def broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    """Return `x` repeated to `shape`, to which it broadcasts."""
    old = aval_of(x).shape
    if old == shape:
        return x
    first = len(shape) - len(old)
    return broadcast_in_dim(x, shape, tuple(range(first, len(shape))))


def promote(name: str, *args: Any, to_inexact: bool = False) -> list[Any]:
    """Return the operands in one dtype, with shapes that elementwise primitives take; scalars stay scalars.

    TypeError for an argument that is no array, TypePromotionError for dtypes that do not promote, ValueError
    for shapes that do not broadcast.
    """
    operands = promote_dtypes(name, *args, to_inexact=to_inexact)
    return broadcast_ranked(name, operands)


def promote_dtypes(name: str, *args: Any, to_inexact: bool = False) -> list[Any]:
    """Return the operands in one dtype, each in its own shape."""
    operands = [checked_operand(name, x, i) for i, x in enumerate(args)]
    pair = result_pair(*operands)
    dtype, weak = inexact(*pair) if to_inexact else pair
    found = to_dtype(operands, dtype, weak)
    return found if dtype.itemsize < 8 else [_kept_wide(x) for x in found]


def _kept_wide(x: Any) -> Any:
    """Return a NumPy scalar of 64 bits as an array: as a scalar it would be narrowed by the next function it meets."""
    return constant(x, x.dtype) if isinstance(x, np.generic) and dtypes.narrowed(x.dtype) != x.dtype else x


def to_dtype(operands: Sequence[Any], dtype: np.dtype[Any], weak: bool) -> list[Any]:
    """Return the operands in their common dtype."""
    steps = dtype_steps(operands, dtype, weak)
    return [x if step is None else step(x) for x, step in zip(operands, steps, strict=True)]


def dtype_steps(operands: Sequence[Any], dtype: np.dtype[Any], weak: bool) -> list[Step | None]:
    """Return, for each operand, the function that converts it to the common dtype; None where it has the dtype.

    A Python scalar stays a Python scalar (and so weak) where the other operands already make the result as
    strong as it has to be.
    """
    keep_python = weak or any(
        [isinstance(x, Array | np.generic) and not aval_of(x).weak_type for x in operands]
    )
    return [_dtype_step(x, dtype, weak, keep_python) for x in operands]


def _dtype_step(x: Any, dtype: np.dtype[Any], weak: bool, keep_python: bool) -> Step | None:
    if type(x) in dtypes.PYTHON_SCALARS:
        python_type = dtypes.python_type(dtype)
        if keep_python and python_type in (float, complex):
            return None if type(x) is python_type else python_type
        return functools.partial(scalar, dtype=dtype, keep_python=keep_python)
    return None if x.dtype == dtype else functools.partial(cast, dtype=dtype, weak_type=weak)


def broadcast_ranked(name: str, operands: Sequence[Any]) -> list[Any]:
    """Return the operands in one shape, except scalars, which elementwise primitives stretch."""
    steps = shape_steps(name, operands)
    return [x if step is None else step(x) for x, step in zip(operands, steps, strict=True)]


def check_ranks(name: str, operands: Sequence[Any]) -> None:
    """Warn or raise, as numpy_rank_promotion asks, where arrays have different ranks and none of them is a scalar."""
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
    """Return, for each operand, the function that broadcasts it to the common shape; None where nothing is to do."""
    shapes = [aval_of(x).shape for x in operands]
    shape = broadcast_shapes(name, shapes)
    return [None if old in ((), shape) else functools.partial(broadcast, shape=shape) for old in shapes]
