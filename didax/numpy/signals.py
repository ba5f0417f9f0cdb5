"""Functions of sequences of samples: convolution, correlation, differences, slopes, phases, windows.

Read next: `didax/lax/convolution.py`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.api.numpy_functions import Declined, computed_by
from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.dims import as_length, is_symbolic, max_dim, may_exceed, min_dim
from didax.core.errors import message
from didax.core.value import Array
from didax.lax.convolution import conv_general_dilated
from didax.lax.dot import PrecisionLike
from didax.lax.slicing import dynamic_slice
from didax.numpy import ufuncs
from didax.numpy.creation import arange, check_known_length, ones
from didax.numpy.joining import concatenate
from didax.numpy.manipulation import flip, ravel
from didax.numpy.promotion import (
    ArrayLike,
    DTypeLike,
    as_array,
    as_array_of,
    broadcast,
    promote_dtypes,
    result_pair,
)
from didax.numpy.reductions import canonical_axes, canonical_axis, cumsum
from didax.primitives.linalg.host import is_finite
from didax.primitives.narrow import halves_in_float32
from didax.primitives.shape import reshape
from didax.primitives.slicing import slice_axis

__all__ = [
    "bartlett", "blackman", "convolve", "correlate", "diff", "ediff1d", "gradient", "hamming", "hanning", "kaiser",
    "trim_zeros", "unwrap",
]  # fmt: skip


# --- convolution --------------------------------------------------------------------------------------------


def _vectors(name: str, a: Any, v: Any) -> list[Array]:
    x, y = [as_array(name, z) for z in promote_dtypes(name, a, v, to_inexact=True)]
    if x.ndim != 1 or y.ndim != 1 or not x.size or not y.size:
        rule, fix = f"{name} takes two vectors that are not empty.", "Ravel them; vmap over other axes."
        raise ValueError(message(rule, f"operands: {x.aval}, {y.aval}", fix=fix))
    return [x, y]


def _overlaps(name: str, x: Array, kernel: Array, mode: str, precision: Any, element: Any) -> Array:
    """Return the sums of products while the kernel, which is not the longer vector, slides along `x`."""
    n = kernel.size
    pads = {"full": (n - 1, n - 1), "same": (n // 2, n - n // 2 - 1), "valid": (0, 0)}
    if mode not in pads:
        fix = f"Use one of {', '.join(map(repr, pads))}."
        raise ValueError(message(f"{name} has no such mode.", f"mode: {mode!r}", fix=fix))
    if precision is None and element is None:
        return _sums_of_products(x, kernel, before=pads[mode][0], after=pads[mode][1])
    return _sliding(x, kernel, pads[mode], precision, element)


def _sliding(x: Array, kernel: Array, pads: Any, precision: Any = None, element: Any = None) -> Array:
    out = conv_general_dilated(
        reshape(x, (1, 1, x.size)), reshape(kernel, (1, 1, kernel.size)), (1,), [pads],
        precision=precision, preferred_element_type=element,
    )  # fmt: skip
    return reshape(out, (out.size,))


def _by_numpy(x: Any, kernel: Any, *, before: int, after: int) -> Any:
    # What lies beyond the vector counts as 0, and 0 * inf is NaN.
    if not (is_finite(x) and is_finite(kernel)):
        raise Declined
    if before == after == 0:
        return np.correlate(x, kernel.conj(), "valid")
    beyond, sums = kernel.size - 1, np.correlate(x, kernel.conj(), "full")
    return sums[beyond - before : sums.size - (beyond - after)]


def _are_wide(avals: Sequence[ShapedArray]) -> bool:
    return all([a.dtype.itemsize > 2 for a in avals])


@computed_by(_by_numpy, _are_wide)
def _sums_of_products(x: Array, kernel: Array, *, before: int, after: int) -> Array:
    return _sliding(x, kernel, (before, after))


def _either_may_be_longer(x: Array, y: Array) -> bool:
    """Whether the sizes are symbolic, and neither vector is known to be as long as the other."""
    return is_symbolic(x.size - y.size) and may_exceed(x.size, y.size) and may_exceed(y.size, x.size)


def _overlaps_of_all(
    x: Array, kernel: Array, mode: str, precision: Any, element: Any, start_of_same: Any
) -> Array:
    """`_overlaps` where either vector may be the longer one: the part that the mode asks for, of all overlaps."""
    every = _overlaps("convolve", x, kernel, "full", precision, element)
    shorter, longer = min_dim(x.size, kernel.size), max_dim(x.size, kernel.size)
    starts = {
        "full": (0, every.size),
        "same": (start_of_same, longer),
        "valid": (shorter - 1, longer - shorter + 1),
    }
    if mode not in starts:
        return _overlaps("convolve", x, kernel, mode, precision, element)  # which refuses it
    start, length = starts[mode]
    return dynamic_slice(every, (start,), (length,))


@evaluated_whole
@array_function
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Return the convolution of two vectors, as floats.

    `mode` says which overlaps count: all ("full"), as many as the longer vector has elements ("same"), or
    complete ones only ("valid").

    >>> import didax.numpy as dnp
    >>> dnp.convolve(dnp.array([1.0, 2.0, 3.0]), dnp.array([0.0, 1.0]))
    Array([0., 1., 2., 3.], dtype=float32)
    """
    x, y = _vectors("convolve", a, v)
    if _either_may_be_longer(x, y):
        return _overlaps_of_all(
            x, flip(y), mode, precision, preferred_element_type, (min_dim(x.size, y.size) - 1) // 2
        )
    x, y = sorted([x, y], key=lambda z: z.size, reverse=True)
    return _overlaps("convolve", x, flip(y), mode, precision, preferred_element_type)


@evaluated_whole
@array_function
def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Return the correlation of two vectors, with the second conjugated; the modes are those of `convolve`.

    >>> import didax.numpy as dnp
    >>> dnp.correlate(dnp.array([1.0, 2.0, 3.0]), dnp.array([0.0, 1.0]))
    Array([2., 3.], dtype=float32)
    """
    x, y = _vectors("correlate", a, v)
    if _either_may_be_longer(x, y):
        y_is_longer = min_dim(max_dim(y.size - x.size, 0), 1)
        start = (min_dim(x.size, y.size) - 1 + y_is_longer) // 2
        return _overlaps_of_all(x, ufuncs.conj(y), mode, precision, preferred_element_type, start)
    if x.size >= y.size:
        return _overlaps("correlate", x, ufuncs.conj(y), mode, precision, preferred_element_type)
    out = _overlaps("correlate", y, ufuncs.conj(x), mode, precision, preferred_element_type)
    return flip(ufuncs.conj(out))


# --- differences, slopes ------------------------------------------------------------------------------------


@evaluated_whole
@array_function
def diff(a: ArrayLike, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Array:
    """Return differences of neighbours along an axis, taken n times.

    >>> import didax.numpy as dnp
    >>> dnp.diff(dnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    x = as_array("diff", a, "a")
    n = operator.index(n)
    if n < 0:
        raise ValueError(message("diff is taken at least 0 times.", f"n: {n}", fix="Use n >= 0."))
    if n == 0:
        return x
    dimension = canonical_axis("diff", axis, x.ndim)
    ends = [_edge(x, end, dimension) for end in (prepend, append)]
    x = concatenate([part for part in (ends[0], x, ends[1]) if part is not None], dimension)
    subtract = ufuncs.not_equal if x.dtype == np.bool_ else ufuncs.subtract
    for _ in range(n):
        length = x.shape[dimension]
        less = max_dim(length - 1, 0)
        x = subtract(slice_axis(x, length - less, length, dimension), slice_axis(x, 0, less, dimension))
    return x


def _edge(x: Array, value: Any, axis: int) -> Array | None:
    if value is None:
        return None
    is_number = type(value) in (int, float)
    edge = as_array_of("diff", value, *result_pair(x, value)) if is_number else as_array("diff", value)
    return (
        edge if edge.ndim else broadcast(edge, tuple([1 if i == axis else n for i, n in enumerate(x.shape)]))
    )


@evaluated_whole
@array_function
def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """Return differences of neighbours in the ravelled array, with given numbers before and after them.

    >>> import didax.numpy as dnp
    >>> dnp.ediff1d(dnp.array([1, 4, 9]), to_end=0)
    Array([3, 5, 0], dtype=int32)
    """
    x = ravel(as_array("ediff1d", ary))
    begin, end = [
        [] if part is None else [ravel(as_array_of("ediff1d", part, x.dtype))] for part in (to_begin, to_end)
    ]
    return concatenate([*begin, diff(x), *end])


@evaluated_whole
@array_function
@halves_in_float32
def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: int | Sequence[int] | None = None, edge_order: int | None = None
) -> Any:
    """Return slopes along axes: second-order differences inside, first-order differences at the ends.

    Without `axis` the result is a list of the slopes along all axes.

    After `f` come the distances of samples: one for all axes, or for each axis a distance or the coordinates.

    >>> import didax.numpy as dnp
    >>> dnp.gradient(dnp.array([0.0, 1.0, 4.0]))
    Array([1., 2., 3.], dtype=float32)
    """
    if edge_order not in (None, 1):
        rule, fix = "gradient is of first order at the ends.", "Leave edge_order out."
        raise NotImplementedError(message(rule, f"edge_order: {edge_order}", fix=fix))
    promoted = promote_dtypes("gradient", as_array("gradient", f), *varargs, to_inexact=True)
    x, *spacings = [as_array("gradient", v) for v in (*promoted, *(() if varargs else (1.0,)))]
    axes = canonical_axes("gradient", axis, x.ndim)
    if len(spacings) == 1 and spacings[0].ndim == 0:
        spacings *= len(axes)
    if len(spacings) != len(axes):
        rule, fix = "gradient takes a distance per axis.", "Give one distance, or one for each axis."
        raise TypeError(message(rule, f"axes: {axes}, distances: {len(spacings)}", fix=fix))
    slopes = [_slope(x, s, i) for i, s in zip(axes, spacings, strict=True)]
    return slopes[0] if len(slopes) == 1 else slopes


def _slope(x: Array, spacing: Array, axis: int) -> Array:
    length = x.shape[axis]
    if length < 2:
        fix = "Leave this axis out (axis=)."
        raise ValueError(message("A slope needs two samples.", f"f: {x.aval}, axis: {axis}", fix=fix))
    steps = diff(x, axis=axis)
    if spacing.ndim == 0:
        quotients = steps / spacing
        # Inside, the sample itself does not count, even where it is NaN or infinite.
        inner = (slice_axis(x, 2, length, axis) - slice_axis(x, 0, length - 2, axis)) / (spacing * 2)
    else:
        gaps = reshape(diff(spacing), tuple([length - 1 if i == axis else 1 for i in range(x.ndim)]))
        quotients = steps / gaps
        left, right = slice_axis(gaps, 0, length - 2, axis), slice_axis(gaps, 1, length - 1, axis)
        inner = (
            slice_axis(quotients, 0, length - 2, axis) * right
            + slice_axis(quotients, 1, length - 1, axis) * left
        ) / (left + right)
    ends = slice_axis(quotients, 0, 1, axis), slice_axis(quotients, length - 2, length - 1, axis)
    return concatenate([ends[0], inner, ends[1]], axis)


@evaluated_whole
@array_function
@halves_in_float32
def unwrap(
    p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * math.pi
) -> Array:
    """Return a phase made continuous: jumps of more than half a period (or `discont`) become shorter by whole periods.

    Integers with a period that is an integer stay integers.

    >>> import didax.numpy as dnp
    >>> dnp.unwrap(dnp.array([0.0, 3.0, 1.0]), period=4)
    Array([ 0., -1., -3.], dtype=float32)
    """
    x, period = [as_array("unwrap", y) for y in promote_dtypes("unwrap", p, period)]
    if dtypes.is_complex(x.dtype):
        raise ValueError(message("unwrap takes real phases.", f"p: {x.aval}", fix="Take the angle first."))
    dimension = canonical_axis("unwrap", axis, x.ndim)
    if not x.shape[dimension]:
        return x
    half = period / 2 if dtypes.is_inexact(x.dtype) else period // 2
    steps = diff(x, axis=dimension)
    wrapped = ufuncs.remainder(steps + half, period) - half
    is_half = ufuncs.logical_and(wrapped == -half, half + half == period)  # of an odd integer there is none
    wrapped = ufuncs.where(ufuncs.logical_and(is_half, steps > 0), half, wrapped)
    smallest = period / 2 if discont is None else discont
    correction = ufuncs.where(ufuncs.abs(steps) < smallest, 0, wrapped - steps)
    first = slice_axis(x, 0, 1, dimension)
    rest = slice_axis(x, 1, x.shape[dimension], dimension) + cumsum(correction, dimension)
    return concatenate([first, rest.astype(x.dtype)], dimension)


@array_function
def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """Return the array without the zeros at the front ("f") and back ("b") of axes (all by default).

    The shape depends on the values, so this does not work while tracing.

    >>> import didax.numpy as dnp
    >>> dnp.trim_zeros(dnp.array([0, 0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int32)
    """
    x = as_array("trim_zeros", filt)
    known = np.asarray(x)  # raises for a traced array: the shape depends on the values
    for dimension in canonical_axes("trim_zeros", axis, x.ndim):
        hits = np.flatnonzero(known.any(axis=tuple([i for i in range(x.ndim) if i != dimension])))
        first = int(hits[0]) if hits.size else x.shape[dimension]
        last = int(hits[-1]) + 1 if hits.size else 0
        low = first if "f" in trim.lower() else 0
        x = slice_axis(x, low, max(low, last) if "b" in trim.lower() else x.shape[dimension], dimension)
    return x


# --- windows ------------------------------------------------------------------------------------------------


def _samples(name: str, M: Any) -> Any:
    """The number of samples of a window."""
    check_known_length(name, "M", M)
    if isinstance(M, float) and M.is_integer():
        return int(M)
    if not hasattr(M, "__index__") or getattr(M, "ndim", 0):
        facts = f"M: {M!r:.100} of type {type(M).__name__}"
        raise TypeError(message(f"{name} takes a number of samples.", facts, fix="Pass an integer."))
    return as_length(M)


def _cosines(name: str, M: int, *weights: float) -> Array:
    """Return Σ weights[k] cos(2πkn / (M - 1)), with alternating signs."""
    M = _samples(name, M)
    if M <= 1:
        return ones(max(M, 0))
    turn = arange(M, dtype=dtypes.default_dtype("f")) * (2 * math.pi / (M - 1))
    terms = [w * (-1) ** k * ufuncs.cos(turn * k) for k, w in enumerate(weights)]
    return ufuncs.add(terms[0], terms[1]) if len(terms) == 2 else terms[0] + terms[1] + terms[2]


@evaluated_whole
@array_function
def hamming(M: int) -> Array:
    """Return the Hamming window of M samples.

    >>> import didax.numpy as dnp
    >>> dnp.hamming(3).round(2)
    Array([0.08, 1.  , 0.08], dtype=float32)
    """
    return _cosines("hamming", M, 0.54, 0.46)


@evaluated_whole
@array_function
def hanning(M: int) -> Array:
    """Return the Hann window of M samples.

    >>> import didax.numpy as dnp
    >>> dnp.hanning(3)
    Array([0., 1., 0.], dtype=float32)
    """
    return _cosines("hanning", M, 0.5, 0.5)


@evaluated_whole
@array_function
def blackman(M: int) -> Array:
    """Return the Blackman window of M samples.

    >>> import didax.numpy as dnp
    >>> dnp.abs(dnp.blackman(3)).round(3)
    Array([0., 1., 0.], dtype=float32)
    """
    return _cosines("blackman", M, 0.42, 0.5, 0.08)


@evaluated_whole
@array_function
def kaiser(M: int, beta: ArrayLike) -> Array:
    """Return the Kaiser window of M samples; a larger `beta` (14 is usual) makes it narrower.

    >>> import didax.numpy as dnp
    >>> dnp.kaiser(3, 0)
    Array([1., 1., 1.], dtype=float32)
    """
    M = _samples("kaiser", M)
    if M <= 1:
        return ones(max(M, 0))
    shape = as_array("kaiser", beta, "beta")
    position = (2 * arange(M, dtype=dtypes.default_dtype("f")) + (1 - M)) / (M - 1)  # from -1 to 1
    return ufuncs.i0(shape * ufuncs.sqrt(1 - ufuncs.square(position))) / ufuncs.i0(shape)


@evaluated_whole
@array_function
def bartlett(M: int) -> Array:
    """Return the triangular window of M samples, zero at the ends.

    >>> import didax.numpy as dnp
    >>> dnp.bartlett(3)
    Array([0., 1., 0.], dtype=float32)
    """
    M = _samples("bartlett", M)
    if M <= 1:
        return ones(max(M, 0))
    n = arange(M, dtype=dtypes.default_dtype("f"))
    return 1 - ufuncs.abs(2 * n + (1 - M)) / (M - 1)
