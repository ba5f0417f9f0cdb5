"""`pad`: a function that makes arrays longer at both ends of each axis.

Axes are padded one after the other, so that corners are padded twice. The new elements are constants,
elements of the array (`edge`, `reflect`, `symmetric`, `wrap`), statistics of its ends (`maximum`, `mean`,
`median`, `minimum`), a ramp, or what a function returns. Widths are static; the other values may be traced.
Read next: `manipulation.py`, `joining.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.dims import as_length, is_symbolic
from didax.core.errors import check_choice, message
from didax.core.value import Array
from didax.numpy import reductions, ufuncs
from didax.numpy.creation import linspace
from didax.numpy.functional import apply_along_axis
from didax.numpy.indexing import getitem
from didax.numpy.manipulation import broadcast_to, tile
from didax.numpy.order_statistics import median
from didax.numpy.promotion import ArrayLike, as_array, as_array_of, cast
from didax.numpy.reductions import canonical_axis
from didax.primitives.narrow import halves_in_float32
from didax.primitives.slicing import concatenate as join
from didax.primitives.slicing import pad as pad_axes
from didax.primitives.slicing import rev, slice_axis

__all__ = ["pad"]

Widths = Sequence[tuple[int, int]]
_STATISTICS: dict[str, Callable[..., Array]] = {
    "maximum": reductions.max,
    "mean": reductions.mean,
    "median": median,
    "minimum": reductions.min,
}
_OPTIONS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",),
    "empty": (),
    "edge": (),
    "wrap": (),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    "linear_ramp": ("end_values",),
    **{name: ("stat_length",) for name in _STATISTICS},
}


@evaluated_whole
@array_function
def pad(
    array: ArrayLike, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any
) -> Array:
    """Return the array made longer at both ends of each axis.

    `pad_width` is a number, a pair (before, after), a pair per axis, or a dictionary with a number or a pair
    for each padded axis.

    `mode` is "constant" (`constant_values=0`), "empty" (zeros), "edge", "wrap", "reflect" or "symmetric"
    (`reflect_type="even"` or "odd"), "linear_ramp" (`end_values=0`), "maximum", "mean", "median" or "minimum"
    (`stat_length=None`, which is the whole axis), or a function `f(vector, widths, axis, kwargs)`, which gets
    each vector of the array padded with zeros and returns the padded vector. Options have the same forms as
    the widths.

    >>> import didax.numpy as dnp
    >>> dnp.pad(dnp.array([1, 2]), (1, 2), mode="edge")
    Array([1, 1, 2, 2, 2], dtype=int32)
    >>> dnp.pad(dnp.array([1.0, 3.0]), 1, mode="reflect", reflect_type="odd")
    Array([-1.,  1.,  3.,  5.], dtype=float32)
    """
    x = as_array("pad", array, "array")
    widths = _widths(_pairs_by_axis(pad_width, x.ndim) if isinstance(pad_width, dict) else pad_width, x.ndim)
    if callable(mode):
        return _pad_with(mode, x, widths, kwargs)
    _check_options(mode, kwargs)
    if mode in ("constant", "empty"):
        return _pad_constant(x, widths, _pairs("constant_values", kwargs.get("constant_values", 0), x.ndim))
    for axis, (pair, option) in enumerate(zip(widths, _options(mode, kwargs, x.ndim), strict=True)):
        if any(map(is_symbolic, pair)) or any(pair):
            x = _pad_axis(x, axis, pair, mode, option)
    return x


# --- arguments ----------------------------------------------------------------------------------------------


def _pairs_by_axis(given: dict[int, Any], ndim: int) -> list[Any]:
    """Return a pair per axis from a dictionary with the axes that are padded."""
    pairs: list[Any] = [(0, 0)] * ndim
    for axis, widths in given.items():
        (pairs[canonical_axis("pad", axis, ndim)],) = _pairs("pad_width", widths, 1)
    return pairs


def _widths(pad_width: Any, ndim: int) -> Widths:
    widths = [(as_length(low), as_length(high)) for low, high in _pairs("pad_width", pad_width, ndim)]
    if any([n < 0 for pair in widths for n in pair]):
        fix = "Use widths of at least 0, or slice."
        raise ValueError(message("pad makes arrays longer.", f"pad_width: {pad_width}", fix=fix))
    return widths


def _check_options(mode: str, kwargs: dict[str, Any]) -> None:
    if mode not in _OPTIONS:
        fix = f"Use one of {', '.join(map(repr, _OPTIONS))}, or a function."
        raise NotImplementedError(message("pad has no such mode.", f"mode: {mode!r}", fix=fix))
    if unknown := [name for name in kwargs if name not in _OPTIONS[mode]]:
        known = f"It takes {_OPTIONS[mode][0]}." if _OPTIONS[mode] else "It takes none."
        raise ValueError(
            message(f"pad in mode {mode!r} has no such option.", f"options: {', '.join(unknown)}", fix=known)
        )


def _pairs(name: str, given: Any, ndim: int) -> list[Any]:
    if (isinstance(given, Array) and given.ndim == 0) or not hasattr(given, "__len__"):
        return [(given, given)] * ndim
    items = list(given)
    if all([np.ndim(item) == 0 if not isinstance(item, Array) else item.ndim == 0 for item in items]):
        items = [tuple(items)]
    pairs = [tuple(item) * (2 if len(item) == 1 else 1) for item in items]
    pairs = pairs * ndim if len(pairs) == 1 else pairs
    if len(pairs) != ndim or any([len(pair) != 2 for pair in pairs]):
        raise ValueError(
            message(
                f"pad takes a number, a pair, or a pair per axis as {name}.",
                f"{name}: {given}, array of {ndim} axes",
                fix="Give one pair per axis.",
            )
        )
    return pairs


def _options(mode: str, kwargs: dict[str, Any], ndim: int) -> list[Any]:
    """Return the option of the mode for each axis."""
    if mode in ("reflect", "symmetric"):
        kind = kwargs.get("reflect_type", "even")
        check_choice("pad", "reflect_type", kind, "even", "odd")
        return [kind] * ndim
    if mode == "linear_ramp":
        return _pairs("end_values", kwargs.get("end_values", 0), ndim)
    if mode in _STATISTICS:
        lengths = _pairs("stat_length", kwargs.get("stat_length"), ndim)
        if any([n is not None and operator.index(n) < 1 for pair in lengths for n in pair]):
            rule, fix = "A statistic is of one element at least.", "Use lengths from 1 on, or None."
            raise ValueError(message(rule, f"stat_length: {kwargs['stat_length']}", fix=fix))
        return lengths
    return [None] * ndim


# --- modes --------------------------------------------------------------------------------------------------


def _pad_constant(x: Array, widths: Widths, values: Sequence[Any]) -> Array:
    first = values[0][0] if values else 0
    if all([value is first for pair in values for value in pair]):
        filler = as_array_of("pad", first, x.dtype, x.weak_type, "constant_values")
        return pad_axes(x, filler, tuple([(low, high, 0) for low, high in widths]))
    for axis, ((low, high), (before, after)) in enumerate(zip(widths, values, strict=True)):
        for width, value in (((low, 0), before), ((0, high), after)):
            if any(map(is_symbolic, width)) or any(width):
                filler = as_array_of("pad", value, x.dtype, x.weak_type, "constant_values")
                x = pad_axes(
                    x, filler, tuple([(*width, 0) if i == axis else (0, 0, 0) for i in range(x.ndim)])
                )
    return x


def _pad_with(function: Callable[..., Any], x: Array, widths: Widths, kwargs: dict[str, Any]) -> Array:
    x = _pad_constant(x, widths, [(0, 0)] * x.ndim)
    for axis, pair in enumerate(widths):
        x = apply_along_axis(function, axis, x, pair, axis, kwargs)
    return x


def _pad_axis(x: Array, axis: int, pair: tuple[int, int], mode: str, option: Any) -> Array:
    if mode in _STATISTICS:
        return _pad_statistic(x, axis, pair, _STATISTICS[mode], option)
    if not x.shape[axis]:
        fix = "Pad it with constants, or with a statistic that empty arrays have."
        raise ValueError(
            message(f"pad in mode {mode!r} repeats elements, and this axis has none.",
                    f"array: {x.aval}, axis: {axis}", fix=fix)
        )  # fmt: skip
    if mode == "linear_ramp":
        return _pad_ramp(x, axis, pair, option)
    if option == "odd":
        return _pad_odd(x, axis, pair, shared=mode == "reflect")
    low, high = pair
    n = x.shape[axis]
    if mode == "edge":
        ends = slice_axis(x, 0, 1, axis), slice_axis(x, n - 1, n, axis)
        parts = [
            broadcast_to(end, _with_length(x, axis, width)) for end, width in zip(ends, pair, strict=True)
        ]
    else:
        cycle = _cycle(x, axis, mode)
        parts = [_repeated(cycle, axis, -low, low), _repeated(cycle, axis, n, high)]
    return join([part for part in (parts[0], x, parts[1]) if part.shape[axis]], axis)


def _cycle(x: Array, axis: int, mode: str) -> Array:
    """Return what repeats along an axis that is wrapped or reflected."""
    shared = int(mode == "reflect")  # the ends are not repeated
    if mode == "wrap" or x.shape[axis] == 1:
        return x
    return join([x, rev(slice_axis(x, shared, x.shape[axis] - shared, axis), (axis,))], axis)


def _repeated(cycle: Array, axis: int, start: int, length: int) -> Array:
    """Return elements `start` to `start + length` of a cycle that goes on for ever."""
    period = cycle.shape[axis]
    start %= period
    copies = max(-(-(start + length) // period), 1)
    if copies > 1:
        cycle = tile(cycle, [copies if i == axis else 1 for i in range(cycle.ndim)])
    return slice_axis(cycle, start, start + length, axis)


def _with_length(x: Array, axis: int, length: int) -> tuple[int, ...]:
    return x.shape[:axis] + (length,) + x.shape[axis + 1 :]


def _pad_statistic(
    x: Array, axis: int, pair: tuple[int, int], statistic: Callable[..., Array], lengths: Any
) -> Array:
    n = x.shape[axis]
    first, last = [n if length is None else min(operator.index(length), n) for length in lengths]
    ends = []
    for part, width in (
        (slice_axis(x, 0, first, axis), pair[0]),
        (slice_axis(x, n - last, n, axis), pair[1]),
    ):
        value = statistic(part, axis=axis, keepdims=True)
        if dtypes.is_integer(x.dtype):
            value = ufuncs.rint(value)
        ends.append(broadcast_to(cast(value, x.dtype, x.weak_type), _with_length(x, axis, width)))
    return join([ends[0], x, ends[1]], axis)


def _pad_ramp(x: Array, axis: int, pair: tuple[int, int], values: Any) -> Array:
    n = x.shape[axis]
    before, after = [
        linspace(as_array_of("pad", value, x.dtype, False, "end_values"), edge, width, False, dtype=x.dtype, axis=axis)
        for value, edge, width in zip(
            values, (_slice_at(x, 0, axis), _slice_at(x, n - 1, axis)), pair, strict=True
        )
    ]  # fmt: skip
    return join([cast(part, x.dtype, x.weak_type) for part in (before, x, rev(after, (axis,)))], axis)


def _slice_at(x: Array, position: int, axis: int) -> Array:
    return getitem(x, (slice(None),) * axis + (position,))


@halves_in_float32
def _pad_odd(x: Array, axis: int, pair: tuple[int, int], shared: bool) -> Array:
    """Pad by reflection in the point at each end; `shared` says that a reflected part does not repeat the end."""
    shared = shared and x.shape[axis] > 1  # one element gives no others to reflect
    head = _reflected(x, axis, pair[0], shared)
    tail = rev(_reflected(rev(x, (axis,)), axis, pair[1], shared), (axis,))
    return join([head, x, tail], axis)


def _reflected(x: Array, axis: int, width: int, shared: bool) -> Array:
    """Return the part before `x`: reflections in its first point, until there are `width` elements."""
    whole, needed = x, width + x.shape[axis]
    while (length := whole.shape[axis]) < needed:
        first = slice_axis(whole, 0, 1, axis)
        part = rev(slice_axis(whole, int(shared), length, axis), (axis,))
        whole = join([2 * first - part, whole], axis)
    return slice_axis(whole, whole.shape[axis] - needed, whole.shape[axis] - needed + width, axis)
