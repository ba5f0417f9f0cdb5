"""Functions that make arrays: from data, filled with one value, counted, spaced, or triangular.

Values without a stated dtype get the default width (32 bits, or 64 under enable_x64); a dtype that the user
writes is honoured. Shapes and counts are static: a traced array among them raises
TracerIntegerConversionError. Read next: `promotion.py` (what counts as an array), `grids.py`,
`manipulation.py`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.api.devices import beside, device_put
from didax.api.layouts import constrained_tree
from didax.api.numpy_functions import Declined, computed_by
from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.avals import aval_of
from didax.core.device_types import loosened
from didax.core.dims import Dim, as_length, is_symbolic, lengths_of, max_dim
from didax.core.errors import (
    ArgumentError,
    ConcretizationTypeError,
    TracerIntegerConversionError,
    api_boundary,
    message,
)
from didax.core.masked import check_no_mask
from didax.core.tracing import Tracer, known_value
from didax.core.value import Array
from didax.dlpack import from_dlpack
from didax.numpy.promotion import (
    ArrayLike,
    DTypeLike,
    as_array,
    as_array_of,
    as_operand,
    beside_wide,
    broadcast,
    broadcast_shapes,
    cast,
    checked_operand,
    constant,
    from_numpy,
    inexact,
    lifted,
    pair_of,
    promote_dtypes,
    result_pair,
    scalar,
)
from didax.numpy.reductions import canonical_axis
from didax.numpy.ufuncs import where
from didax.primitives import elementwise as el
from didax.primitives.convert import copy_p, iota
from didax.primitives.dimension import number
from didax.primitives.filled import full as full_of
from didax.primitives.linalg.host import is_finite
from didax.primitives.narrow import halves_in_float32
from didax.primitives.shape import broadcast_in_dim, broadcast_in_dim_p, move_axis, reshape
from didax.primitives.sharding import with_layout
from didax.primitives.slicing import concatenate
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS

__all__ = [
    "arange", "array", "asarray", "copy", "empty", "empty_like", "eye", "from_dlpack", "frombuffer",
    "full", "full_like", "geomspace", "identity", "linspace", "logspace",
    "ones", "ones_like", "tri", "tril", "triu", "vander", "zeros",
    "zeros_like",
]  # fmt: skip

Shape = int | Sequence[int]


# --- from data ----------------------------------------------------------------------------------------------


@api_boundary
def array(
    object: Any,
    dtype: DTypeLike = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array made from a scalar, a NumPy array, an array (also a traced one), or nested lists of these.

    Without a dtype, the elements promote to their common dtype; Python scalars and NumPy's 64-bit values get
    the default width. The contents of NumPy arrays are always copied. Arrays are immutable, so `copy=False`
    only saves a copy where it can. ValueError for ragged lists.

    >>> import didax.numpy as dnp
    >>> dnp.array([[1, 2], [3, 4]], dtype="float32")
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    if order not in (None, "K", "C", "A"):
        raise NotImplementedError(
            message("Arrays are stored in row-major order.", f"order: {order!r}", fix="Leave order out.")
        )
    stated = None if dtype is None else dtypes.dtype(dtype)
    x = _from_object(object, stated)
    if copy and x is object:
        x = x.copy()  # so that donating or deleting one of the arrays leaves the other
    if stated is not None and (x.dtype != stated or x.weak_type):
        x = cast(x, stated)
    x = x if x.ndim >= ndmin else reshape(x, (1,) * (ndmin - x.ndim) + x.shape)
    return placed(x, device, out_sharding)


def placed(x: Array, device: Any, out_sharding: Any = None) -> Array:
    """Return `x` on a device, or laid out as a sharding says; without either, where `x` is."""
    x = x if device is None else device_put(x, device)
    return x if out_sharding is None else constrained_tree("out_sharding", loosened(x), out_sharding)


@api_boundary
def asarray(
    a: Any,
    dtype: DTypeLike = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return `a` as an array, like `array`, but without a copy where none is needed.

    `copy=True` makes a copy, which stays valid when `a` is donated or deleted; `copy=False` raises ValueError
    where a copy is needed: for a change of dtype, and for everything that is not an array of this library.

    >>> import didax.numpy as dnp
    >>> dnp.asarray(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    is_same = isinstance(a, Array) and (dtype is None or (a.dtype == dtypes.dtype(dtype) and not a.weak_type))
    if copy is False and not is_same:
        raise ValueError(
            message(
                "asarray with copy=False takes arrays as they are.",
                f"a: {aval_of(a) if isinstance(a, Array) else type(a).__name__}, dtype: {dtype}",
                fix="Leave copy out, or set it to None, which copies where it must.",
            )
        )
    if not is_same:
        if dtype is None and _is_float0(getattr(a, "dtype", None)):
            return a
        return array(a, dtype, order=order, device=device, out_sharding=out_sharding)
    return placed(copy_p.bind(a) if copy else a, device, out_sharding)


def _from_object(x: Any, dtype: np.dtype[Any] | None) -> Array:
    if isinstance(x, list | tuple):
        return _from_sequence(x, dtype)
    if dtype is not None and isinstance(x, np.ndarray | np.generic):
        # The conversion starts from all the bits of the number.
        return from_numpy(np.asanyarray(x), dtypes.exact_dtype(x.dtype))
    operand = as_operand(x)
    if operand is None:
        operand = _from_buffer(x, dtype)
    if dtype is not None and type(operand) in (bool, int, float, complex):
        return lifted(_stated_scalar(operand, dtype))
    return lifted(operand)


def _stated_scalar(x: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(x, complex) and dtypes.kind_of(dtype) not in "bc":
        rule = "A complex number has no place among real ones."
        fix = "Pass its real part, or use a complex dtype."
        raise TypeError(message(rule, f"number: {x!r}, dtype: {dtype.name}", fix=fix))
    with np.errstate(all="ignore"):
        return dtypes.numpy_scalar(x, dtype)


def _is_buffer(x: Any) -> bool:
    """True for objects with the buffer protocol, such as `array.array` and `bytearray`; bytes are taken for text."""
    try:
        return not isinstance(x, bytes) and memoryview(x) is not None
    except TypeError:
        return False


_ARRAY_PROTOCOLS = ("__array__", "__dlpack__", "__array_interface__", "__array_struct__")


def is_foreign_array(x: Any) -> bool:
    """True for what NumPy reads as an array: another library's array, a range, a buffer."""
    return isinstance(x, range) or any([hasattr(x, name) for name in _ARRAY_PROTOCOLS]) or _is_buffer(x)


def _from_buffer(x: Any, dtype: np.dtype[Any] | None) -> Any:
    """Return an array for an object that NumPy understands: another library's array, a range, a buffer.

    The conversion to a stated dtype starts from all the bits of the numbers.
    """
    if is_foreign_array(x):
        values = np.asarray(x)
        if dtype is None:
            return from_numpy(values)
        return from_numpy(values, dtypes.exact_dtype(values.dtype))
    raise _no_number(x)


def _element(x: Any) -> Any:
    """Return `as_operand(x)` for an item of a list, which has to be a number or an array."""
    found = as_operand(x)
    if found is None:
        raise _no_number(x)
    return found


def _no_number(x: Any) -> ArgumentError:
    return ArgumentError(
        message(
            "array takes numbers, arrays, and nested lists of these.",
            f"got: {x!r:.100} of type {type(x).__name__}",
            fix="Pass numbers; replace None by dnp.nan, and keep strings and objects outside of arrays.",
        )
    )


def _from_sequence(xs: Sequence[Any], dtype: np.dtype[Any] | None) -> Array:
    leaves = list(_leaves(xs))
    for x in leaves:
        if isinstance(x, np.ndarray):
            check_no_mask(x)
    if not any([isinstance(x, Array) or hasattr(x, "__jax_array__") for x in leaves]):
        return _from_numbers(xs, leaves, dtype)
    if (
        all(
            [isinstance(x, Array) and not isinstance(x, Tracer) and x.aval.physical.ndim == 0 for x in leaves]
        )
        and dtype is None
    ):
        pair = result_pair(*leaves)
        return from_numpy(np.array(_map_leaves(lambda x: np.asarray(x), xs)), pair[0])
    # All elements promote together, at whatever depth: a Python number is weak in an inner list too.
    stated = dtypes.result_type(*[_pair_of_element(x) for x in leaves])[0] if dtype is None else dtype
    return _stack([_from_object(x, stated) for x in xs], stated)


def _pair_of_element(x: Any) -> tuple[np.dtype[Any], bool]:
    known = isinstance(x, Array) or type(x) in dtypes.PYTHON_SCALARS
    return pair_of(x if known else _from_object(x, None))


def _leaves(x: Any) -> Any:
    if isinstance(x, list | tuple):
        for item in x:
            yield from _leaves(item)
    else:
        yield x


def _map_leaves(f: Any, x: Any) -> Any:
    return [_map_leaves(f, item) for item in x] if isinstance(x, list | tuple) else f(x)


def _from_numbers(xs: Sequence[Any], leaves: Sequence[Any], dtype: np.dtype[Any] | None) -> Array:
    """Return an array for lists that hold only numbers and NumPy arrays.

    NumPy assembles the lists; the promotion rules of this library choose the dtype.
    """
    if dtype is None:
        kinds = {type(x): x for x in leaves if not isinstance(x, np.ndarray)}
        foreign = {kind for kind, x in kinds.items() if as_operand(x) is None and is_foreign_array(x)}
        if foreign:
            xs = _map_leaves(lambda x: np.asarray(x) if type(x) in foreign else x, xs)
            return _from_numbers(xs, list(_leaves(xs)), None)
        operands = {kind: _element(x) for kind, x in kinds.items()}
        arrays = {x.dtype: from_numpy(x.ravel()[:0]) for x in leaves if isinstance(x, np.ndarray)}
        samples = [*operands.values(), *arrays.values()]
        dtype = result_pair(*samples)[0] if samples else dtypes.default_dtype("f")
    if type(None) in set(map(type, leaves)):  # NumPy makes NaN of it
        raise _no_number(None)
    try:
        return from_numpy(np.array(xs, dtype), dtype)
    except (OverflowError, TypeError):
        for x in leaves:
            if isinstance(x, str | bytes):
                raise _no_number(x) from None
            if isinstance(x, bool | int | float | complex):
                _stated_scalar(x, dtype)  # raises the error that names the number that does not fit
        raise
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise _no_number(next((x for x in leaves if isinstance(x, str | bytes)), xs)) from None
        raise _ragged_error(xs) from None


def _ragged_error(xs: Sequence[Any]) -> ValueError:
    lengths = ", ".join([str(len(x)) if hasattr(x, "__len__") else "a scalar" for x in xs])
    return ValueError(
        message(
            "Nested lists must have equal lengths.",
            f"items of length: {lengths:.200}",
            fix="Pad them, or keep a list of arrays.",
        )
    )


def _stack(parts: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    shapes = {x.shape for x in parts}
    if len(shapes) > 1:
        shown = ", ".join(sorted(map(str, shapes)))
        raise ValueError(
            message("Items of a list must have one shape.", f"shapes: {shown}", fix="Broadcast or pad them.")
        )
    rows = [reshape(cast(x, dtype), (1, *x.shape)) for x in parts]
    return concatenate(rows, 0)


@api_boundary
def copy(a: Any, order: str | None = None) -> Array:
    """Return an array with the same contents in memory of its own.

    >>> import didax.numpy as dnp
    >>> dnp.copy(dnp.ones(2))
    Array([1., 1.], dtype=float32)
    """
    return array(a, order=order)


@api_boundary
def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """Return a vector of the numbers in a bytes-like object; `float` and `int` mean 64 bits here, as in NumPy.

    >>> import didax.numpy as dnp
    >>> dnp.frombuffer(b"ab", dtype="uint8")
    Array([97, 98], dtype=uint8)
    """
    stated = None if dtype in (int, float, complex) else dtypes.dtype(dtype)
    found = np.frombuffer(buffer, np.dtype(dtype) if stated is None else stated, count, offset)
    return from_numpy(found, stated)


# --- filled -------------------------------------------------------------------------------------------------


def canonical_shape(name: str, shape: Any) -> tuple[int, ...]:
    """Return the shape as a tuple of lengths; TypeError or ValueError for an argument that is no shape."""
    lengths = _lengths(name, shape)
    if any([n < 0 for n in lengths]):
        fix = "Check how the shape is computed."
        raise ArgumentError(message(f"{name} takes lengths of at least 0.", f"shape: {lengths}", fix=fix))
    return lengths


def _lengths(name: str, shape: Any) -> tuple[int, ...]:
    try:
        return lengths_of(shape)
    except TypeError as error:
        if isinstance(error, ConcretizationTypeError):
            raise
        fix = "Pass an int or a tuple of ints."
        raise TypeError(
            message(f"{name} takes a shape of integers.", f"shape: {shape!r:.100}", fix=fix)
        ) from None


def _fill(shape: tuple[int, ...], value: Any) -> Array:
    return broadcast_in_dim_p.bind(value, shape=shape, broadcast_dimensions=())


def _is_float0(dtype: Any) -> bool:
    """Whether this is float0, the dtype of tangents of integers: it has one value, and its arrays are NumPy's."""
    return isinstance(dtype, np.dtype) and dtype == dtypes.float0


def _filled(name: str, shape: Any, value: Any, dtype: DTypeLike, device: Any) -> Array:
    if _is_float0(dtype):
        return np.zeros(canonical_shape(name, shape), dtypes.float0)  # pyright: ignore[reportReturnType]  # see _is_float0
    stated = dtypes.default_dtype("f") if dtype is None else dtypes.dtype(dtype)
    return placed(_fill(canonical_shape(name, shape), full_of((), value, stated)), device)


@array_function
def zeros(shape: Shape, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Return an array of zeros: of float32 (float64 under enable_x64) unless a dtype is given.

    >>> import didax.numpy as dnp
    >>> dnp.zeros((2, 2), int)
    Array([[0, 0],
           [0, 0]], dtype=int32)
    """
    return _filled("zeros", shape, 0, dtype, device)


@array_function
def ones(shape: Shape, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Return an array of ones: of float32 (float64 under enable_x64) unless a dtype is given.

    >>> import didax.numpy as dnp
    >>> dnp.ones(3)
    Array([1., 1., 1.], dtype=float32)
    """
    return _filled("ones", shape, 1, dtype, device)


@array_function
def empty(shape: Shape, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Return an array of zeros, as `zeros` does: no array here has undefined contents.

    >>> import didax.numpy as dnp
    >>> dnp.empty(2)
    Array([0., 0.], dtype=float32)
    """
    return _filled("empty", shape, 0, dtype, device)


@array_function
def full(shape: Shape, fill_value: ArrayLike, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Return an array filled with `fill_value`, which broadcasts to the shape; its dtype is kept unless one is given.

    >>> import didax.numpy as dnp
    >>> dnp.full((2,), 7)
    Array([7, 7], dtype=int32, weak_type=True)
    """
    lengths = canonical_shape("full", shape)
    if _is_float0(dtype):
        return np.zeros(lengths, dtypes.float0)  # pyright: ignore[reportReturnType]  # see _is_float0
    if dtype is None:
        value = checked_operand("full", fill_value, "fill_value")
    else:
        value = _converted(fill_value, dtypes.dtype(dtype))
    return placed(_fill(lengths, value) if aval_of(value).ndim == 0 else broadcast(value, lengths), device)


def _converted(value: Any, dtype: np.dtype[Any]) -> Array:
    """Return `array(value, dtype)`; a Python float becomes an integer as arrays of floats do: it saturates."""
    if type(value) is float and dtypes.is_integer(dtype):
        return constant(scalar(value, dtype, keep_python=False), dtype)
    return array(value, dtype)


def _filled_like(name: str, a: Any, value: Any, dtype: DTypeLike, shape: Any, device: Any) -> Array:
    if not isinstance(a, Array) and hasattr(a, "__jax_array__"):
        a = as_operand(a)  # the operand knows its device
    given = (
        aval_of(checked_operand(name, a, "a")) if not hasattr(a, "shape") or not hasattr(a, "dtype") else a
    )
    lengths = given.shape if shape is None else canonical_shape(name, shape)
    layout = given.aval.layout if isinstance(given, Array) and shape is None and device is None else None
    if layout is not None:
        return with_layout(_filled_like(name, loosened(given), value, dtype, shape, None), layout)
    if dtype is not None or _is_float0(given.dtype):
        dtype = given.dtype if dtype is None else dtype
        filled = full(lengths, value, dtype, device=device)
        return filled if device is not None else beside(filled, given)
    like = given.dtype if not isinstance(a, np.ndarray | np.generic) else aval_of(as_operand(a)).dtype
    filler = value
    if not isinstance(value, Array):
        filler = full_of((), value, like) if dtypes.as_extended(like) else _converted(value, like)
    filler = cast(filler, like, getattr(given, "weak_type", False))
    filled = _fill(lengths, filler) if filler.ndim == 0 else broadcast(filler, lengths)
    return beside(filled, given) if device is None else device_put(filled, device)


@array_function
def zeros_like(a: Any, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None) -> Array:
    """Return zeros with the shape and dtype of `a`; arguments may replace both.

    >>> import didax.numpy as dnp
    >>> dnp.zeros_like(dnp.array([1, 2]))
    Array([0, 0], dtype=int32)
    """
    return _filled_like("zeros_like", a, 0, dtype, shape, device)


@array_function
def ones_like(a: Any, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None) -> Array:
    """Return ones with the shape and dtype of `a`; arguments may replace both.

    >>> import didax.numpy as dnp
    >>> dnp.ones_like(dnp.array([1.5, 2.5]))
    Array([1., 1.], dtype=float32)
    """
    return _filled_like("ones_like", a, 1, dtype, shape, device)


@array_function
def empty_like(prototype: Any, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None) -> Array:
    """Return zeros with the shape and dtype of `prototype`, as `zeros_like` does.

    >>> import didax.numpy as dnp
    >>> dnp.empty_like(dnp.array([1, 2]))
    Array([0, 0], dtype=int32)
    """
    return _filled_like("empty_like", prototype, 0, dtype, shape, device)


@array_function
def full_like(
    a: Any, fill_value: ArrayLike, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None
) -> Array:
    """Return an array filled with `fill_value`, with the shape and dtype of `a`; arguments may replace both.

    >>> import didax.numpy as dnp
    >>> dnp.full_like(dnp.array([1, 2]), 7)
    Array([7, 7], dtype=int32)
    """
    return _filled_like("full_like", a, fill_value, dtype, shape, device)


# --- counted and spaced -------------------------------------------------------------------------------------


@array_function
def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: DTypeLike = None, *, device: Any = None
) -> Array:
    """Return the numbers start, start + step, ... below stop; `arange(stop)` starts at 0.

    The arguments are static numbers.

    >>> import didax.numpy as dnp
    >>> dnp.arange(3), dnp.arange(1, 2, 0.5)
    (Array([0, 1, 2], dtype=int32), Array([1. , 1.5], dtype=float32))
    """
    if stop is None:
        start, stop = 0 * start if isinstance(start, float) else 0, start
    bounds = [
        _static_number("arange", name, x)
        for name, x in (("start", start), ("stop", stop), ("step", 1 if step is None else step))
    ]
    if any(isinstance(x, complex) for x in bounds):
        fix = "Count in real numbers, then multiply by a complex one."
        raise ArgumentError(message("arange takes real numbers.", f"start, stop, step: {bounds}", fix=fix))
    if dtype is None:
        pair = result_pair(
            *[x for x in (as_operand(start), as_operand(stop), as_operand(step)) if x is not None]
        )
        dtype = pair[0]
    stated = dtypes.dtype(dtype)
    if bounds[2] == 0:
        rule = "arange needs a step that leads from start to stop."
        raise ZeroDivisionError(message(rule, "step: 0", fix="Use a nonzero step."))
    whole = dtypes.is_integer(stated) or any(map(is_symbolic, bounds))
    if whole and all([isinstance(x, int | Dim) for x in bounds]):
        return placed(_integer_range(stated, *bounds), device)
    return placed(from_numpy(np.arange(*bounds).astype(stated), stated), device)


def _static_number(name: str, argument: str, x: Any) -> Any:
    """Return a static number as a Python number; its errors name the function and the argument."""
    check_known_length(name, argument, x)
    if isinstance(x, Tracer) and x.ndim == 0:
        number: Any = known_value(x) if argument == "stop" else x  # a stop decides only the length
        return operator.index(number) if dtypes.is_integer(x.dtype) else float(number)
    if isinstance(x, Array | np.generic | np.ndarray) and not isinstance(x, Tracer) and x.size == 1:
        return x.item()
    is_number = type(x) in dtypes.PYTHON_SCALARS or hasattr(x, "__index__")
    if is_number and not isinstance(x, Array | np.ndarray):
        return x if type(x) in (float, complex) else as_length(x)
    rule = f"{name} takes numbers, which say where the result starts and stops, and by which steps."
    facts = f"{argument}: {x!r:.100} of type {type(x).__name__}"
    raise ArgumentError(message(rule, facts, fix="Pass numbers."))


def check_known_length(name: str, argument: str, x: Any) -> None:
    """Refuse a traced number that says how long a result is."""
    if isinstance(x, Tracer) and x.ndim == 0 and known_value(x) is None:
        is_integer = dtypes.is_integer(x.dtype)
        rule = f"{argument} of {name} says how long the result is: it must be known while tracing."
        fix = (
            "Compute it from x.shape, or make the argument static (static_argnums or static_argnames of jit)."
        )
        error = TracerIntegerConversionError if is_integer else ConcretizationTypeError
        raise error(message(rule, *x.facts(), fix=fix))


def _integer_range(dtype: np.dtype[Any], start: int, stop: int, step: int) -> Array:
    count = max_dim(0, -((start - stop) // step))
    ramp = iota(dtype, (count,), 0)
    if step != 1:
        ramp = el.mul(ramp, scalar(step, dtype, keep_python=False))
    if type(start) is Dim:
        return el.add(ramp, number(start, dtype))
    return el.add(ramp, scalar(start, dtype, keep_python=False)) if start else ramp


def all_digits(name: str, dtype: DTypeLike, *ends: Any) -> Sequence[Any]:
    """Return the ends; a number among them keeps all of its digits where the dtype, or another end, has 64 bits."""
    if dtype is None:
        return beside_wide(*ends)
    stated = dtypes.dtype(dtype)
    if not dtypes.is_inexact(stated) or dtypes.narrowed(stated) == stated:
        return ends
    real = dtypes.real_dtype(stated)
    return [
        as_array_of(name, x, real)
        if type(x) in (int, float) or (isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "iuf")
        else x
        for x in ends
    ]


@evaluated_whole
@api_boundary
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Return `num` evenly spaced values from `start` to `stop` along a new axis; with `retstep` also their distance.

    `start` and `stop` may be arrays, also traced arrays. With an integer dtype the values are rounded down.

    >>> import didax.numpy as dnp
    >>> dnp.linspace(0.0, 1.0, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    count = as_length(num)
    if count < 0:
        raise ValueError(
            message("linspace takes a number of values of at least 0.", f"num: {count}", fix="Use num >= 0.")
        )
    start, stop = all_digits("linspace", dtype, start, stop)
    ends = result_pair(*[checked_operand("linspace", x, i) for i, x in enumerate((start, stop))])
    out_dtype = inexact(*ends)[0]
    stated = out_dtype if dtype is None else dtypes.dtype(dtype)
    are_integers = dtypes.is_integer(stated) and dtypes.is_integer(ends[0]) and ends[0] != np.uint64
    floats = dtypes.at_least_single(inexact(stated, False)[0])
    compute = np.dtype(np.int64) if are_integers else floats
    first, last = cast(as_array("linspace", start), compute), cast(as_array("linspace", stop), compute)
    shape = broadcast_shapes("linspace", [first.shape, last.shape])
    first, last = broadcast(first, shape), broadcast(last, shape)
    intervals = count - 1 if endpoint else count
    if are_integers:
        values = _spaced_integers(first, last, count, intervals)
    else:
        values = _spaced(first, last, count, endpoint)
        values = el.floor(values) if dtypes.is_integer(stated) else values
    values = cast(values, stated)
    if axis != 0:
        values = move_axis(values, 0, canonical_axis("linspace", axis, values.ndim))
    values = placed(values, device)
    if not retstep:
        return values
    first, last = cast(first, floats), cast(last, floats)
    some = intervals > 0
    step = (
        el.div(el.sub(last, first), number(intervals, floats))
        if some
        else _fill(shape, floats.type(math.nan))
    )
    return values, cast(step, stated) if dtypes.is_inexact(stated) else step


@functools.lru_cache(maxsize=64)
def _positions(count: int) -> Any:
    return np.arange(count, dtype=np.float64)


def _spaced_by_numpy(first: Any, last: Any, *, count: int, endpoint: bool) -> Any:
    """Return the values with 64 bits, rounded once.

    The edges of a histogram of integers are then integers, where they are meant to be.
    """
    wide = np.complex128 if first.dtype.kind == "c" else np.float64
    start, stop = first.astype(wide), last.astype(wide)
    distance = stop - start
    if not is_finite(distance):  # as it is where the ends are: it does not overflow
        raise Declined
    intervals = count - 1 if endpoint else count
    if count < 2 or wide is np.complex128:
        return np.linspace(start, stop, count, endpoint).astype(first.dtype)
    # These are the bits of NumPy's function, which takes three times as long for what it looks at.
    k, step = _positions(count).reshape((count, *(1,) * np.ndim(start))), distance / intervals
    values = k * step if np.count_nonzero(step) == step.size else k / intervals * distance
    values = (values + start).astype(first.dtype)
    if endpoint:
        values[-1] = last
    return values


def _spaced(first: Array, last: Array, count: int, endpoint: bool) -> Array:
    """Return evenly spaced values, of which the first and the last are exact."""
    is_small = (
        not is_symbolic(count) and not is_symbolic(first.size) and count * first.size <= NUMPY_MAX_ELEMENTS
    )
    has_more_bits = dtypes.real_dtype(first.dtype) != np.float64
    return (_few_means if is_small and has_more_bits else _means)(first, last, count=count, endpoint=endpoint)


def _means(first: Array, last: Array, *, count: int, endpoint: bool) -> Array:
    """Return weighted means of both ends."""
    intervals = count - 1 if endpoint else count
    shape = (count, *first.shape)
    weights = iota(dtypes.real_dtype(first.dtype), shape, 0)
    weights = cast(el.div(weights, number(max_dim(intervals, 1), weights.dtype)), first.dtype)
    start, stop = [broadcast_in_dim(x, shape, tuple(range(1, len(shape)))) for x in (first, last)]
    if count == 1:
        return start  # whatever the other end is, infinite or NaN
    values = el.add(el.mul(start, el.sub(1, weights)), el.mul(stop, weights))
    if not endpoint:
        return values
    positions = iota(np.dtype(np.int32), shape, 0)
    is_last = el.eq(positions, number(count - 1, positions.dtype))
    return where(el.and_(is_last, el.gt(positions, 0)) if is_symbolic(count) else is_last, stop, values)


_few_means = computed_by(_spaced_by_numpy, in_jax=True)(_means)


def _spaced_integers(first: Array, last: Array, count: int, intervals: int) -> Array:
    """Return the values rounded down: whole where they are whole, which sums of rounded products need not be.

    Value k is first + floor(k d / n) for d = last - first. Neither d nor k d may fit into 64 bits, so both ends are
    divided by n first: with d = q n + r it is first + k q + floor(k r / n).
    """
    shape = (count, *first.shape)
    n, k = number(max_dim(intervals, 1), first.dtype), iota(first.dtype, shape, 0)
    rest = last % n - first % n
    whole, rest = last // n - first // n + rest // n, rest % n
    start, whole, rest = [
        broadcast_in_dim(x, shape, tuple(range(1, len(shape)))) for x in (first, whole, rest)
    ]
    return start + k * whole + k * rest // n


@evaluated_whole
@api_boundary
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike = None,
    axis: int = 0,
) -> Array:
    """Return `base` to the power of evenly spaced values from `start` to `stop`.

    >>> import didax.numpy as dnp
    >>> dnp.logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    base, start, stop = all_digits("logspace", dtype, base, start, stop)
    powers = _powers(base, start, stop, num, endpoint, axis)
    return powers if dtype is None else cast(powers, dtypes.dtype(dtype))


@halves_in_float32
def _powers(base: Any, start: Any, stop: Any, num: int, endpoint: bool, axis: int) -> Any:
    return base ** linspace(start, stop, num, endpoint, axis=axis)


@evaluated_whole
@api_boundary
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike = None,
    axis: int = 0,
) -> Array:
    """Return `num` values from `start` to `stop` with a constant ratio of neighbours; both ends have one sign.

    >>> import didax.numpy as dnp
    >>> dnp.geomspace(1.0, 8.0, 4).round(3)
    Array([1., 2., 4., 8.], dtype=float32)
    """
    start, stop = all_digits("geomspace", dtype, start, stop)
    ends = promote_dtypes(
        "geomspace", as_array("geomspace", start), as_array("geomspace", stop), to_inexact=True
    )
    stated = ends[0].dtype if dtype is None else dtypes.dtype(dtype)
    first, last = [cast(x, np.result_type(x.dtype, np.float32)) for x in ends]
    # Complex numbers turn from the first to the last the short way, as in NumPy.
    is_complex = dtypes.is_complex(first.dtype)
    sign = where(el.eq(first, 0), 1, el.sign(first)) if is_complex else where(el.lt(first, 0), -1, 1)
    exponents = linspace(el.log(first * sign.conj()), el.log(last * sign.conj()), num, endpoint)
    values = cast(el.exp(exponents) * sign, stated)
    return move_axis(values, 0, canonical_axis("geomspace", axis, values.ndim))


# --- matrices -----------------------------------------------------------------------------------------------


def triangle(rows: int, columns: int, k: int) -> Array:
    """Return a matrix of booleans that is True where j <= i + k."""
    i = iota(np.dtype(np.int32), (rows, columns), 0)
    return el.ge(el.add(i, k), iota(np.dtype(np.int32), (rows, columns), 1))


@evaluated_whole
@api_boundary
def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Return an N x M matrix with ones on the k-th diagonal and zeros elsewhere.

    >>> import didax.numpy as dnp
    >>> dnp.eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    shape = canonical_shape("eye", (N, N if M is None else M))
    i, j = [iota(np.dtype(np.int32), shape, axis) for axis in (0, 1)]
    ones_on_diagonal = cast(
        el.eq(el.add(i, operator.index(k)), j), dtypes.dtype(float if dtype is None else dtype)
    )
    return placed(ones_on_diagonal, device)


@evaluated_whole
@api_boundary
def identity(n: int, dtype: DTypeLike = None) -> Array:
    """Return the n x n identity matrix.

    >>> import didax.numpy as dnp
    >>> dnp.identity(2, int)
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    return eye(n, dtype=dtype)


@evaluated_whole
@api_boundary
def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None) -> Array:
    """Return an N x M matrix with ones on and below the k-th diagonal and zeros above it.

    >>> import didax.numpy as dnp
    >>> dnp.tri(2, dtype=int)
    Array([[1, 0],
           [1, 1]], dtype=int32)
    """
    rows, columns = canonical_shape("tri", (N, N if M is None else M))
    return cast(triangle(rows, columns, operator.index(k)), dtypes.dtype(float if dtype is None else dtype))


def _matrices(name: str, m: Any) -> Array:
    x = as_array(name, m, "m")
    if x.ndim < 2:
        raise ValueError(
            message(
                f"{name} takes matrices, or stacks of them.", f"m: {x.aval}", fix="Add axes (m[None, :])."
            )
        )
    return x


@evaluated_whole
@array_function
def tril(m: ArrayLike, k: int = 0) -> Array:
    """Return the lower triangle: the elements above the k-th diagonal of the last two axes become zero.

    >>> import didax.numpy as dnp
    >>> dnp.tril(dnp.ones((2, 2), int))
    Array([[1, 0],
           [1, 1]], dtype=int32)
    """
    x = _matrices("tril", m)
    return where(triangle(x.shape[-2], x.shape[-1], operator.index(k)), x, _zero(x))


@evaluated_whole
@array_function
def triu(m: ArrayLike, k: int = 0) -> Array:
    """Return the upper triangle: the elements below the k-th diagonal of the last two axes become zero.

    >>> import didax.numpy as dnp
    >>> dnp.triu(dnp.ones((2, 2), int))
    Array([[1, 1],
           [0, 1]], dtype=int32)
    """
    x = _matrices("triu", m)
    return where(triangle(x.shape[-2], x.shape[-1], operator.index(k) - 1), _zero(x), x)


def _zero(x: Array) -> Any:
    return x.dtype.type(0) if not x.weak_type else cast(0, x.dtype, True)


@evaluated_whole
@array_function
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """Return a matrix whose columns are powers of a vector, in descending order unless `increasing`.

    >>> import didax.numpy as dnp
    >>> dnp.vander(dnp.array([2.0, 3.0]), 3)
    Array([[4., 2., 1.],
           [9., 3., 1.]], dtype=float32)
    """
    vector = as_array("vander", x)
    if vector.ndim != 1:
        raise ValueError(message("vander takes a vector.", f"x: {vector.aval}", fix="Ravel it first."))
    count = vector.shape[0] if N is None else operator.index(N)
    if count == 0:
        return zeros((vector.shape[0], 0), vector.dtype)
    if vector.dtype == np.bool_:
        vector = cast(vector, dtypes.default_dtype("i"))
    powers = reshape(vector, (vector.shape[0], 1))
    # Twice as many in each step, with the bits of repeated squaring.
    while (known := powers.shape[1]) < count - 1:
        more = powers[:, : count - 1 - known] * powers[:, -1:]
        powers = concatenate([powers, more], 1)
    found = concatenate([ones_like(powers[:, :1]), powers[:, : count - 1]], 1)
    return found if increasing else found[:, ::-1]
