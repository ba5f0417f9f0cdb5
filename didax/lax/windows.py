"""Reductions over windows that move along the axes, for pooling.

Sums and extrema are primitives. Any other computation combines shifted copies of the operand, axis by axis: a
window of k elements takes about 2 log2(k) combinations, each of the whole array. Read next:
`primitives/windows.py`; `didax.nn` for pooling layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax import tree
from didax.api.flat import as_array
from didax.core.avals import aval_of
from didax.core.dims import as_length, is_symbolic
from didax.core.errors import message
from didax.core.primitive import Primitive
from didax.lax.convolution import padtype_to_pads
from didax.lax.monoids import Combine, is_identity, reduction_of
from didax.lax.operands import operation
from didax.primitives import elementwise
from didax.primitives.gather import gather_p
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim
from didax.primitives.slicing import slice_axis
from didax.primitives.window_positions import GatherDimensionNumbers, GatherScatterMode
from didax.primitives.windows import (
    ReduceWindow,
    Window,
    counts,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    windows_of,
)

__all__ = ["reduce_window", "reduce_window_shape_tuple"]

_MONOIDS: dict[Primitive, ReduceWindow] = {
    elementwise.add: reduce_window_sum_p,
    elementwise.max_: reduce_window_max_p,
    elementwise.min_: reduce_window_min_p,
}


@operation
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Combine the elements of each window; windows move along every axis by `window_strides` (default 1).

    `operand` is an array, or a pytree of arrays of one shape with a scalar for each in `init_value`. The
    `computation` takes two elements (pytrees of scalars) and is associative. `init_value` is combined once
    with each window, and not with padding: the result of a window that holds only padding is `init_value`.
    `padding` is "VALID", "SAME", "SAME_LOWER" or pairs (low, high). Everything may be traced, differentiated
    and batched, also the init value; the derivative of an extremum goes to the first element that attains it.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_window(np.float32([1, 4, 2, 3]), -np.inf, lax.max, (2,), (2,), "VALID")
    Array([4., 3.], dtype=float32)
    """
    xs, inits, combine, monoid, structure = reduction_of("reduce_window", operand, init_value, computation)
    aval = aval_of(xs[0])
    ones = (1,) * aval.ndim
    sizes = _entries(window_dimensions)
    strides = ones if window_strides is None else _entries(window_strides)
    spread = ones if base_dilation is None else _entries(base_dilation)
    dilation = ones if window_dilation is None else _entries(window_dilation)
    params = {
        "window_dimensions": sizes,
        "window_strides": strides,
        "padding": _padding(aval.shape, padding, (sizes, strides, dilation)),
        "base_dilation": spread,
        "window_dilation": dilation,
    }
    reduction = _MONOIDS.get(monoid) if monoid is not None and aval.dtype != np.bool_ else None
    if reduction is None or monoid is None:
        shape = counts("reduce_window", aval, params)
        if any(map(is_symbolic, (*sizes, *shape))):
            rule = "Windows of or along symbolic lengths have sums, maxima and minima."
            fix = "Write the computation with these, or export with numbers for the lengths."
            raise NotImplementedError(message(rule, f"operand: {aval}, window_dimensions: {sizes}", fix=fix))
        outs = _combine_windows(combine, xs, inits, windows_of(**params), shape)
        return tree.unflatten(structure, [as_array(y) for y in outs])
    out = reduction.bind(xs[0], **params)
    if not is_identity(inits[0], reduction.identity(aval.dtype)):
        out = monoid.bind(inits[0], out)
    return tree.unflatten(structure, [out])


@operation
def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """Return the shape of the result of `reduce_window`; an axis that the windows do not change may be -1.

    >>> reduce_window_shape_tuple((-1, 28, 28, 3), (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    (-1, 14, 14, 3)
    """
    ones = (1,) * len(operand_shape)
    sizes, strides, spread, dilation = [
        _entries(entries or ones)
        for entries in (window_dimensions, window_strides, base_dilation, window_dilation)
    ]
    pads = _padding(operand_shape, padding, (sizes, strides, dilation))
    windows = windows_of(sizes, strides, pads, spread, dilation)
    return tuple([-1 if n < 0 else w.count(n) for n, w in zip(operand_shape, windows, strict=True)])


def _padding(
    shape: Sequence[int], padding: Any, windows: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, int], ...]:
    if not isinstance(padding, str):
        return tuple((as_length(low), as_length(high)) for low, high in padding)
    if any(len(entries) != len(shape) for entries in windows):
        return ((0, 0),) * len(shape)  # the primitive names the argument that is too short
    sizes, strides, dilation = windows
    reach = [(n - 1) * d + 1 for n, d in zip(sizes, dilation, strict=True)]
    return tuple(padtype_to_pads(shape, reach, strides, padding))


def _entries(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(as_length, values))


# --- Any computation ----------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Elements along one axis, and a mask of the present elements: an absent element is part of no result."""

    values: list[Any]
    present: np.ndarray[Any, Any]

    def cut(self, axis: int, start: int, length: int, stride: int = 1) -> _Part:
        """Return `length` elements at a distance of `stride`, from `start` on."""
        stop = start + (length - 1) * stride + 1
        values = [slice_axis(x, start, stop, axis, stride) for x in self.values]
        return _Part(values, self.present[start:stop:stride])


def _combine_windows(
    combine: Combine, xs: list[Any], inits: list[Any], windows: Sequence[Window], shape: tuple[int, ...]
) -> list[Any]:
    filled = [broadcast_in_dim(init, shape, ()) for init in inits]
    if 0 in shape or 0 in aval_of(xs[0]).shape:
        return filled
    all_present = np.ones((1,) * len(windows), bool)
    for axis in reversed(range(len(windows))):  # the last axis first: elements meet in row-major order
        part = _combine_axis(
            combine, _dilated_and_padded(xs, axis, windows[axis]), axis, windows[axis], shape[axis]
        )
        xs, all_present = part.values, all_present & _along(part.present, axis, len(windows))
    return _where(all_present, combine(filled, xs), filled)


def _dilated_and_padded(xs: list[Any], axis: int, w: Window) -> _Part:
    """Dilate and pad the axis; absent elements get the value of a present one, which `combine` can take."""
    n = aval_of(xs[0]).shape[axis]
    if w.padding == (0, 0) and w.base_dilation == 1:
        return _Part(xs, np.ones(n, bool))
    at = np.arange(w.padded(n)) - w.padding[0]
    position = at // w.base_dilation
    present = (at % w.base_dilation == 0) & (position >= 0) & (position < n)
    position = np.clip(position, 0, n - 1)
    return _Part([_take(x, position, axis) for x in xs], present)


def _combine_axis(combine: Combine, part: _Part, axis: int, w: Window, count: int) -> _Part:
    """Combine two parts of 2^i elements to one of twice the size; the bits of `w.size` choose the parts."""
    reach = (count - 1) * w.stride + 1  # from the start of the first window to the start of the last
    found, size = None, 0
    for bit in range(w.size.bit_length()):
        step = 2**bit
        if w.size & step:
            here = part.cut(axis, size * w.dilation, reach)
            found, size = here if found is None else _combine_parts(combine, found, here, axis), size + step
        if 2 * step <= w.size:
            length = len(part.present) - step * w.dilation
            ends = [part.cut(axis, start, length) for start in (0, step * w.dilation)]
            part = _combine_parts(combine, *ends, axis)
    assert found is not None
    return found.cut(axis, 0, count, w.stride)


def _combine_parts(combine: Combine, x: _Part, y: _Part, axis: int) -> _Part:
    """Combine two elements; where only one is present, it is the result, and the only one that derivatives see."""
    ndim = aval_of(x.values[0]).ndim
    in_x, in_y = _along(x.present, axis, ndim), _along(y.present, axis, ndim)
    left, right = _where(in_x, x.values, y.values), _where(in_y, y.values, x.values)
    return _Part(_where(in_x & in_y, combine(left, right), left), x.present | y.present)


def _where(mask: np.ndarray[Any, Any], xs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
    if mask.all():
        return list(xs)
    shape = aval_of(xs[0]).shape
    masks = broadcast_in_dim(mask, shape, tuple(range(len(shape)))) if mask.shape != shape else mask
    return [where(masks, x, y) for x, y in zip(xs, ys, strict=True)]


def _take(x: Any, positions: np.ndarray[Any, Any], axis: int) -> Any:
    """Return the slices of `x` at the given positions along an axis."""
    shape = aval_of(x).shape
    others = tuple(i for i in range(len(shape)) if i != axis)
    return gather_p.bind(
        x,
        positions[:, None].astype(np.int32 if shape[axis] < 2**31 else np.int64),
        dimension_numbers=GatherDimensionNumbers(others, (axis,), (axis,)),
        slice_sizes=tuple(1 if i == axis else n for i, n in enumerate(shape)),
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=None,
        indices_are_sorted=True,
        unique_indices=False,
    )


def _along(mask: np.ndarray[Any, Any], axis: int, ndim: int) -> np.ndarray[Any, Any]:
    return mask.reshape([-1 if i == axis else 1 for i in range(ndim)])
