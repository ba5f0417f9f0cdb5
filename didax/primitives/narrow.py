"""Functions that compute narrow floats in a wider dtype, and round their results once.

    @halves_in_float32
    def gradient(f, *varargs): ...      # of float16 and bfloat16, too

What a function computes on its way, differences, squares and sums, may overflow a narrow dtype; in some dtypes of one
byte it becomes NaN, because they have no infinity. It also loses most of the few digits there are. Operations that are
primitives take care of this where they are lowered (`elementwise_lowering.py`); functions of several primitives are
decorated here. Read next: `composed.py`, whose formulas are decorated so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from didax.core import dtypes, pytree
from didax.core.avals import aval_of
from didax.core.value import Array
from didax.primitives.convert import convert_element_type

Function = TypeVar("Function", bound=Callable[..., Any])

_ARRAYS = (Array, np.ndarray, np.generic)
_SIZES = {d: d.itemsize for d in dtypes.ALL_DTYPES if dtypes.is_inexact(d)}


def bytes_in_float32(function: Function) -> Function:
    """Make a function compute floats of one byte in float32."""
    return _in_float32(function, 1)


def halves_in_float32(function: Function) -> Function:
    """Make a function compute floats of one or two bytes in float32."""
    return _in_float32(function, 2)


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of arrays of one dtype, computed in float64, and rounded to that dtype."""

    def wide(*xs: Any) -> Any:
        dtype = aval_of(xs[0]).dtype
        value = function(*[convert_element_type(x, np.dtype("float64")) for x in xs])
        return convert_element_type(value, dtype)

    return wide


def is_single(x: Any) -> bool:
    """Whether an array holds float32 numbers: their formulas have fewer terms, or are computed in float64."""
    return aval_of(x).dtype == np.float32


def by_size(formula: Callable[..., Any], in_double: Callable[..., Any]) -> Callable[..., Any]:
    """The formula; for float32 arrays the other one, of float64 arrays that hold their numbers."""
    wide = in_float64(in_double)
    return lambda *xs: wide(*xs) if is_single(xs[0]) else formula(*xs)


def _in_float32(function: Function, most: int) -> Function:
    """The function, which computes floats of at most `most` bytes in float32."""

    @functools.wraps(function)
    def apply(*args: Any, **options: Any) -> Any:
        narrow = _narrow_dtype(most, (*args, *options.values()) if options else args)
        if narrow is None:
            return function(*args, **options)
        wide = dtypes.at_least_single(narrow)
        widened = functools.partial(_converted, old=narrow, new=wide)
        out = function(*map(widened, args), **{name: widened(x) for name, x in options.items()})
        return pytree.map(functools.partial(_converted, old=wide, new=narrow), out)

    return apply  # type: ignore[return-value]


def _narrow_dtype(most: int, args: tuple[Any, ...]) -> np.dtype[Any] | None:
    """The one inexact dtype of the arrays, if its elements have at most `most` bytes: it is the dtype of the result."""
    found = None
    for x in args:
        if isinstance(x, _ARRAYS) and (size := _SIZES.get(x.dtype)) is not None:
            if size > most or (found is not None and x.dtype != found):
                return None
            found = x.dtype
    return found


def _converted(x: Any, old: np.dtype[Any], new: np.dtype[Any]) -> Any:
    return convert_element_type(x, new) if isinstance(x, _ARRAYS) and x.dtype == old else x
