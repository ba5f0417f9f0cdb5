"""Kinds of calls of library functions: what calls share that come down to the same operations.

    kind_of_call((x, 0.25), {"axis": 0})      # the types of arrays, other arguments; the arrays; numbers beside them
    called_with(f, args, kwargs, tracers, moving, numbers)     # the call with other arrays, and some other numbers

`whole_functions.py` remembers by kind what NumPy computes of small arrays, `large_functions.py` what a program computes
of large ones. Read next: these, and `number_arguments.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import copysign, inf
from typing import Any, cast

import numpy as np

from didax.core import config
from didax.core.avals import aval_of
from didax.core.dtypes import narrowed
from didax.core.exact import exact
from didax.core.jaxpr import Jaxpr
from didax.passes.simplify import dce_jaxpr
from didax.primitives.numpy_rules import count_nonzero
from didax.runtime.array import ConcreteArray
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS
from didax.transforms.batching import BatchTrace, BatchTracer
from didax.transforms.jvp import JVPTrace, JVPTracer
from didax.transforms.linearize import LinearizeTrace, LinearizeTracer
from didax.transforms.staging import trace_to_jaxpr

_PLAIN = frozenset({type(None), bool, str, type})
_NUMBERS: frozenset[Any] = frozenset({int, float})
_INTEGERS_END = 1 << 31  # beyond the integers that may be arguments
_LISTS = frozenset({list, tuple})
# Of transformations that run operations at once, unless a trace around them stages operations.
_TRACERS = frozenset({JVPTracer, LinearizeTracer, BatchTracer})
_ARRAYS = frozenset({ConcreteArray, np.ndarray, *_TRACERS})
TRANSFORMATIONS = frozenset({JVPTrace, LinearizeTrace, BatchTrace})
_NUMPY_KINDS = "?bBhHiIlLqQefdFD"
_NUMPY_SCALARS = frozenset([np.dtype(kind).type for kind in _NUMPY_KINDS])
_ITEMS_MAX = 16  # of a list among the arguments

_WIDE_FLOATS = frozenset({np.dtype(kind) for kind in (np.float32, np.float64, np.complex64, np.complex128)})


def kind_of_call(
    args: tuple[Any, ...], kwargs: dict[str, Any], of_large: bool = False, of_traced: bool = False
) -> tuple[tuple[Any, ...], list[Any], list[float]] | None:
    """A key shared by calls that come down to the same operations, the values of the arrays, and numbers beside them.

    None for other calls. The numbers are Python numbers that may be arguments, see `number_arguments.py`. `of_large`
    admits arrays of any length, which are then among the values as they are, and `of_traced` those that an eager
    transformation traces.
    """
    key: list[Any] = [config.state(), *kwargs]
    values: list[Any] = []
    numbers: list[float] = []
    for x in (*args, *kwargs.values()) if kwargs else args:
        kind: Any = type(x)  # pyright: ignore[reportUnknownVariableType]  # a cast would be a call
        if kind is ConcreteArray:
            if x.committed or (x.aval.size > NUMPY_MAX_ELEMENTS and not of_large):
                return None
            key.append(x.aval)
            value = x if of_large else x._value  # pyright: ignore[reportPrivateUsage]
            values.append(x.host_value() if value is None else value)
        elif kind in _PLAIN:
            key += (kind, x)
        elif of_traced and kind in _TRACERS:
            below = behind(x)
            if type(below) is not ConcreteArray or below.committed:
                return None
            key.append(x.aval)
            values.append(x)
        elif kind is int:
            if 2 < abs(x) < _INTEGERS_END:  # `is_argument`, without a call
                key.append(kind)
                numbers.append(x)
            else:
                key += (kind, x)
        elif kind is float and (x % 1.0 > 0 or 2 < abs(x) < inf):
            key.append(kind)
            numbers.append(x)
        elif kind is float and x == x:
            key += (kind, x, x == 0 and copysign(1.0, x))
        elif kind is float or kind is complex:
            key += (kind, exact(x))
        elif kind is tuple and all([type(i) is int for i in x]):
            key += (kind, x)
        elif kind is np.ndarray:
            if (value := _as_given(x) if of_large else _value_here(x)) is None:
                return None
            key += (kind, x.dtype, x.shape)
            values.append(value)
        elif kind in _NUMPY_SCALARS:
            key += (kind, x.tobytes())
        elif (
            kind not in _LISTS
            or len(x) > _ITEMS_MAX
            or (inner := kind_of_call(x, {}, of_large, of_traced)) is None
        ):
            return None
        else:
            key += (kind, inner[0])
            values += inner[1]
            numbers += inner[2]
    return tuple(key), values, numbers


def behind(x: Any) -> Any:
    """The array that a tracer of eager transformations holds, with the axes that `vmap` hides; others as they are."""
    while isinstance(x, JVPTracer | LinearizeTracer | BatchTracer):
        x = x.value if isinstance(x, BatchTracer) else x.primal
    return x


def is_argument(x: float) -> bool:
    """Whether a number may be an argument: small integers, infinities and NaN may be special to a function."""
    return x % 1.0 > 0 or 2 < abs(x) < (_INTEGERS_END if type(x) is int else inf)


def _is_of_integers(x: Any) -> bool:
    """Whether an argument is a tuple such as a shape or axes."""
    return type(x) is tuple and all([type(i) is int for i in cast("Any", x)])


def _value_here(x: np.ndarray[Any, Any]) -> Any:
    """A copy of a NumPy array, whose owner may write to it, in the dtype that it has here; None if it is not staged."""
    dtype = x.dtype
    if x.size > NUMPY_MAX_ELEMENTS or dtype.char not in _NUMPY_KINDS or not dtype.isnative:
        return None
    if dtype.itemsize < 8:
        return x.copy("K")
    value = x.astype(narrowed(dtype))
    if dtype.kind in "iu" and count_nonzero(value != x):
        return None  # a position is out of bounds by all of its digits
    return value


def _as_given(x: np.ndarray[Any, Any]) -> Any:
    """A NumPy array for a program, which copies it; None for integers that may not fit the dtype they have here."""
    dtype = x.dtype
    if (
        dtype.char not in _NUMPY_KINDS
        or not dtype.isnative
        or (dtype.kind in "iu" and narrowed(dtype) != dtype)
    ):
        return None
    return x


def called_with(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    arrays: Sequence[Any],
    moving: Sequence[int],
    numbers: Sequence[Any],
) -> Any:
    """The result of a call with these in the place of its arrays, and of its numbers in the positions `moving`."""
    given, positions = iter(arrays), itertools.count()
    by_position = dict(zip(moving, numbers, strict=False))

    def replaced(x: Any) -> Any:
        if type(x) in _ARRAYS:
            return next(given)
        if type(x) in _NUMBERS:
            return by_position.get(next(positions), x) if is_argument(x) else x
        if type(x) not in _LISTS or _is_of_integers(x):
            return x
        return type(x)(map(replaced, x))

    replaced_args = [replaced(x) for x in args]  # before those by name
    return f(*replaced_args, **{name: replaced(x) for name, x in kwargs.items()})


def arrays_in(xs: Sequence[Any]) -> list[Any]:
    """The arrays among arguments, and in lists among them, in order."""
    found: list[Any] = []
    for x in xs:
        if type(x) in _ARRAYS:
            found.append(x)
        elif type(x) in _LISTS:
            found += arrays_in(x)
    return found


def traced(function: Any, arguments: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """The program of a function of such arguments, and the values that it captures."""
    jaxpr, captured = trace_to_jaxpr(function, list(map(aval_of, arguments)))
    return dce_jaxpr(jaxpr, (True,) * len(jaxpr.outvars), keep_inputs=True)[0], captured


def narrow_alike(args: Sequence[Any], arrays: Sequence[Any], results: Sequence[Any] | None = None) -> bool:
    """Whether a function cannot tell NumPy's 64-bit floats among its arguments from what they are here.

    It may convert them to integers or to 16 bits by all of their digits, to the dtype that it is told or that another
    array has.
    """
    if not any(
        [type(x) is np.ndarray and x.dtype.kind in "fc" and aval_of(x).dtype != x.dtype for x in arrays]
    ):
        return True

    def all_wide(xs: Sequence[Any]) -> bool:
        return all([aval_of(x).dtype in _WIDE_FLOATS for x in xs])

    names_dtype = any([type(x) in (str, type) for x in args])
    return not names_dtype and (all_wide(arrays) or (results is not None and all_wide(results)))
