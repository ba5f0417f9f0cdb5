"""Functions that change the dtype, fill arrays or count, and identities that only transformations notice.

Read next: `primitives/convert.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.api.devices import beside, device_put
from didax.api.flat import as_array, narrowed_scalar
from didax.core import dtypes, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import as_length, is_symbolic
from didax.core.dtypes import DTypeLike
from didax.core.errors import message
from didax.lax.operands import operation
from didax.primitives import convert as ops
from didax.primitives.kept import dce_sink_p
from didax.primitives.shape import broadcast_in_dim
from didax.runtime.array import written_numbers

__all__ = [
    "bitcast_convert_type",
    "broadcasted_iota",
    "convert_element_type",
    "dtype",
    "empty",
    "full",
    "full_like",
    "iota",
    "dce_sink",
    "optimization_barrier",
    "reduce_precision",
    "stop_gradient",
]


@operation(exact=("operand",))
def convert_element_type(operand: Any, new_dtype: DTypeLike | None = None) -> Any:
    """Return the values in another dtype; without `new_dtype` the dtype stays and only the weak type is removed.

    A complex number becomes its real part; a number becomes the boolean that it is not zero. A float becomes
    an integer by truncation; it saturates where it is out of range, and NaN becomes 0.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.convert_element_type(np.float32([-1.5, 300, np.nan]), "uint8")
    Array([  0, 255,   0], dtype=uint8)
    """
    dtype = aval_of(narrowed_scalar(operand)).dtype if new_dtype is None else dtypes.dtype(new_dtype)
    return _converted(operand.__jax_array__() if is_symbolic(operand) else operand, dtype)


def _converted(x: Any, dtype: np.dtype[Any], weak_type: bool = False) -> Any:
    """Return `x` as an array of a dtype, converted from all of its digits: also a 64-bit number of NumPy or Python."""
    if isinstance(x, np.ndarray | np.generic):
        x = _constant(np.array(x, dtypes.exact_dtype(x.dtype)))
    elif type(x) is float and dtypes.is_integer(dtype):
        x = _constant(dtype.type(dtypes.saturated(x, dtype)))
    elif type(x) in (bool, int, float) and not dtypes.as_extended(dtype):
        x = _constant(dtypes.numpy_scalar(x, dtype))
    elif type(x) is complex:
        x = _constant(np.complex128(x))
    return ops.convert_element_type(x, dtype, weak_type)


def _constant(value: Any) -> Any:
    return written_numbers.array(ShapedArray(value.shape, value.dtype), value)


@operation
def dtype(x: Any) -> np.dtype[Any]:
    """Return the dtype of a value, a dtype or a name of a dtype; a Python float has the default dtype.

    >>> from didax import lax
    >>> lax.dtype(1.0), lax.dtype("int8")
    (dtype('float32'), dtype('int8'))
    """
    return dtypes.dtype(x) if isinstance(x, str | type | np.dtype) else aval_of(narrowed_scalar(x)).dtype


@operation
def bitcast_convert_type(operand: Any, new_dtype: DTypeLike) -> Any:
    """Return the same bits read as another dtype.

    A narrower dtype adds a last axis with the parts of each element; a wider dtype consumes such an axis.

    Bits have no derivative: the tangents of the result are zero.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.bitcast_convert_type(np.float32(1), "uint32")
    Array(1065353216, dtype=uint32)
    >>> lax.bitcast_convert_type(np.float32([1, 2]), "uint16").shape
    (2, 2)
    """
    dtype = dtypes.dtype(new_dtype)
    if aval_of(operand).dtype == dtype:
        return stop_gradient(ops.convert_element_type(as_array(operand), dtype))
    return ops.bitcast_convert_type_p.bind(operand, new_dtype=dtype)


@operation
def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Return floats rounded to a format with the given numbers of exponent and mantissa bits, in their own dtype.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_precision(np.float32(3.14159), exponent_bits=8, mantissa_bits=7)
    Array(3.140625, dtype=float32)
    """
    return ops.reduce_precision_p.bind(
        operand, exponent_bits=operator.index(exponent_bits), mantissa_bits=operator.index(mantissa_bits)
    )


@operation
def stop_gradient(x: Any) -> Any:
    """Return the same pytree of arrays, which every differentiation of any order treats as constant.

    >>> import didax as dx
    >>> from didax import lax
    >>> dx.grad(lambda x: lax.mul(x, lax.stop_gradient(x)))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return pytree.map(_stop_gradient, x)


def _stop_gradient(x: Any) -> Any:
    x = narrowed_scalar(x)
    return ops.stop_gradient_p.bind(x) if dtypes.is_inexact(aval_of(x).dtype) else x


@operation
def optimization_barrier(operand: Any) -> Any:
    """Return the same pytree of arrays, all computed before any of them is used.

    XLA moves no operation across the barrier.

    >>> from didax import lax
    >>> x, y = lax.optimization_barrier((1.0, 2.0))
    """
    flat, treedef = pytree.flatten(operand)
    return pytree.unflatten(treedef, ops.optimization_barrier_p.bind(*map(narrowed_scalar, flat)))


@operation
def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keep what computes the arrays of a pytree, though nothing uses them.

    No pass of Didax removes it from a program. XLA still does, unless `prevent_mlir_dce` is set.

    >>> import didax as dx
    >>> def f(x):
    ...     dx.lax.dce_sink(dx.lax.sin(x))
    ...     return x
    >>> "sin" in str(dx.make_jaxpr(dx.jit(f))(1.0))
    True
    """
    for x in pytree.leaves(val):
        dce_sink_p.bind(narrowed_scalar(x), compiled=bool(prevent_mlir_dce))


@operation
def iota(dtype: DTypeLike, size: int) -> Any:
    """Return the vector 0, 1, ..., size - 1.

    >>> from didax import lax
    >>> lax.iota("int32", 3)
    Array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


@operation
def broadcasted_iota(dtype: DTypeLike, shape: Sequence[int], dimension: int) -> Any:
    """Return an array of a shape with 0, 1, 2, ... along one axis, constant along the others.

    >>> from didax import lax
    >>> lax.broadcasted_iota("int32", (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    return ops.iota(dtypes.dtype(dtype), _shape(shape), operator.index(dimension))


@operation(exact=("fill_value",))
def full(
    shape: Sequence[int], fill_value: Any, dtype: DTypeLike | None = None, *, sharding: Any = None
) -> Any:
    """Return an array filled with one number, which may be traced; it keeps its dtype unless another is given.

    It lies where `sharding` says.

    >>> from didax import lax
    >>> lax.full((2,), 7, "float32")
    Array([7., 7.], dtype=float32)
    """
    aval = aval_of(fill_value if dtype is not None else narrowed_scalar(fill_value))
    if aval.ndim:
        raise TypeError(
            message(
                "full repeats a scalar.",
                f"fill_value: {aval}, shape: {tuple(shape)}",
                fix="Use didax.numpy.broadcast_to or didax.numpy.full to repeat an array.",
            )
        )
    wanted = aval.dtype if dtype is None else dtypes.dtype(dtype)
    scalar = _converted(fill_value, wanted, aval.weak_type and dtype is None)
    out = broadcast_in_dim(scalar, _shape(shape), ())
    return out if sharding is None else device_put(out, sharding)


@operation
def empty(shape: int | Sequence[int], dtype: DTypeLike) -> Any:
    """Return an array of a shape and dtype whose elements do not matter; they are zeros.

    >>> from didax import lax
    >>> lax.empty((2, 3), "int8").shape
    (2, 3)
    """
    return full((shape,) if isinstance(shape, int) else shape, 0, dtype)


@operation(exact=("fill_value",))
def full_like(
    x: Any,
    fill_value: Any,
    dtype: DTypeLike | None = None,
    shape: Sequence[int] | None = None,
    sharding: Any = None,
) -> Any:
    """Return an array filled with one number, with the shape and dtype of `x` unless others are given.

    It lies where `sharding` says, or beside `x`.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.full_like(np.int32([1, 2]), 7)
    Array([7, 7], dtype=int32)
    """
    aval = aval_of(x)
    weak = dtype is None and aval.weak_type
    out = full(aval.shape if shape is None else shape, fill_value, aval.dtype if dtype is None else dtype)
    out = ops.convert_element_type(out, aval_of(out).dtype, weak)
    return beside(out, x) if sharding is None else device_put(out, sharding)


def _shape(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(as_length, shape))
