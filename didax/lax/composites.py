"""Operations that are compositions of others: `composite`, `scaled_dot`, `stage`, `shape_as_value`; accuracies.

Read next: `dot.py`, `didax/nn/scaled.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.api.context import named_call
from didax.api.flat import as_array, check_callable
from didax.api.jit import jit
from didax.core import dtypes
from didax.core.accuracy import AccuracyMode
from didax.core.avals import aval_of
from didax.core.dtypes import DTypeLike
from didax.core.errors import ArgumentError, message
from didax.core.tracing import Tracer
from didax.core.value import Array
from didax.lax.dot import dot_general
from didax.lax.operands import operation
from didax.primitives.convert import convert_element_type
from didax.primitives.dimension import number
from didax.primitives.elementwise import mul
from didax.primitives.shape import broadcast_in_dim, reshape
from didax.primitives.slicing import concatenate

__all__ = ["AccuracyMode", "Tolerance", "composite", "scaled_dot", "shape_as_value", "stage"]

_BFLOAT16 = dtypes.dtype("bfloat16")


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """A bound of an elementwise function's error, for `accuracy=`: absolute, relative, or in units in the last place.

    The functions refuse it, because they compute in one way only. ValueError for a size that is no number or is
    negative, if all sizes are 0, and for `rtol` together with `ulps`.

    >>> Tolerance(atol=1e-3, ulps=4)
    Tolerance(atol=0.001, rtol=0.0, ulps=4)
    >>> Tolerance()
    Traceback (most recent call last):
    ValueError: A tolerance has one or two sizes above 0: atol, and rtol or ulps.
      tolerance: Tolerance(atol=0.0, rtol=0.0, ulps=0)
    Leave out the sizes that do not count.
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self) -> None:
        sizes = (self.atol, self.rtol, self.ulps)
        if (
            not all([isinstance(size, int | float) and size >= 0 for size in sizes])
            or not any(sizes)
            or (self.rtol and self.ulps)
        ):
            rule = "A tolerance has one or two sizes above 0: atol, and rtol or ulps."
            fix = "Leave out the sizes that do not count."
            raise ValueError(message(rule, f"tolerance: {self}", fix=fix))


@operation
def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """Return the function as one call under a name in programs: it is staged once, and is a function of its own there.

    The compiler sees what it is made of, and so do transformations. Keyword arguments are static. Raises TypeError for
    a traced keyword argument.

    >>> import didax as dx, didax.numpy as dnp
    >>> from didax import lax
    >>> tangent = lax.composite(lambda x, *, scale: scale * dnp.sin(x) / dnp.cos(x), "my.tangent")
    >>> float(tangent(1.0, scale=2)), float(dx.grad(tangent)(0.0, scale=2))
    (3.1148154735565186, 2.0)
    """
    check_callable("composite", decomposition)

    @functools.wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        for key, value in attributes.items():
            if isinstance(value, Tracer):
                rule = "The keyword arguments of a composite are static."
                facts = f"composite: {name}, {key}: {value.aval}"
                raise TypeError(message(rule, facts, fix="Pass traced arrays by position."))
        body = named_call(functools.partial(decomposition, **attributes), name=name)
        return jit(body)(*args)

    return call


@operation
def stage(x: Any, /) -> Array:
    """Return a number or a NumPy array as an array of the library, under `jit` as a value of the program.

    >>> from didax import lax
    >>> lax.stage(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return as_array(x)


@operation
def shape_as_value(shape: Sequence[int]) -> Any:
    """Return a shape, which may have symbolic lengths, as a vector of integers.

    >>> from didax import lax
    >>> lax.shape_as_value((2, 3))
    Array([2, 3], dtype=int32)
    """
    dtype = dtypes.default_dtype(int)
    if not shape:
        return as_array(np.zeros(0, dtype))
    return concatenate([reshape(as_array(number(n, dtype)), (1,)) for n in shape], 0)


@operation
def scaled_dot(
    lhs: Any,
    rhs: Any,
    *,
    lhs_scale: Any = None,
    rhs_scale: Any = None,
    dimension_numbers: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Return the product of `lhs * lhs_scale` and `rhs * rhs_scale`, both rounded to bfloat16, summed in a dtype.

    A scale has the shape of its operand but along contracted axes, where it has one number for a block of neighbours.
    The dtype is bfloat16 if none is named. `dimension_numbers` are those of `dot_general`; without them the operands
    are stacks of matrices. Raises ArgumentError where shapes do not fit.

    >>> import didax.numpy as dnp
    >>> from didax import lax
    >>> x, scale = dnp.ones((1, 4), "float8_e4m3fn"), dnp.array([[1.0, 3.0]])
    >>> lax.scaled_dot(x, x.T, lhs_scale=scale, preferred_element_type="float32")
    Array([[8.]], dtype=float32)
    """
    x, y = as_array(lhs), as_array(rhs)
    if x.ndim != y.ndim or x.ndim < 2:
        rule = "scaled_dot multiplies arrays of equally many axes, two or more."
        raise ArgumentError(message(rule, f"lhs: {x.aval}, rhs: {y.aval}", fix="Reshape them."))
    if dimension_numbers is None:
        batch = tuple(range(x.ndim - 2))
        dimension_numbers = ((x.ndim - 1,), (x.ndim - 2,)), (batch, batch)
    dtype = _BFLOAT16 if preferred_element_type is None else dtypes.dtype(preferred_element_type)
    contracted, _ = dimension_numbers
    x = _scaled("lhs", x, lhs_scale, contracted[0])
    y = _scaled("rhs", y, rhs_scale, contracted[1])
    return dot_general(x, y, dimension_numbers, preferred_element_type=dtype)


def _scaled(what: str, x: Any, scale: Any, contracted: Sequence[int]) -> Any:
    x = convert_element_type(x, _BFLOAT16)
    if scale is None:
        return x
    aval = aval_of(scale)
    scale = convert_element_type(scale, _BFLOAT16)
    fits = aval.ndim == x.ndim and all(
        (m > 0 and n % m == 0) if i in contracted else n == m
        for i, (n, m) in enumerate(zip(x.shape, aval.shape, strict=True))
    )
    if not fits:
        rule = f"The scale of {what} has its shape, but along contracted axes a number for each block of neighbours."
        facts = f"{what}: {x.aval}, scale: {aval}, contracted axes: {tuple(contracted)}"
        raise ArgumentError(message(rule, facts, fix="Let its lengths divide those of the contracted axes."))
    shape: list[int] = []  # each axis of the scale, and one for the block
    for n, m in zip(x.shape, aval.shape, strict=True):
        shape += [m, n // m if m else 1]
    spread = broadcast_in_dim(scale, tuple(shape), tuple(range(0, 2 * x.ndim, 2)))
    return mul(x, reshape(spread, x.shape))
