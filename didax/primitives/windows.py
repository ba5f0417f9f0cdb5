"""Reductions over windows that move along the axes: sums and extrema, as in pooling layers.

    reduce_window_sum(x)[i] = sum over k of x[i * stride + k * window_dilation - low]    (0 <= k < window)

Every parameter has one entry per axis. The entries of `padding` are pairs (low, high), and the operand is padded
with the identity of the operation. `base_dilation` spreads the operand, with the identity between its elements.
The sum is linear, and its transpose is a sum over windows of the cotangent. The tangent of an extremum is the
tangent of the first element that attains it. This element is found axis by axis with slices and comparisons, which
XLA fuses into one loop, while its select_and_scatter runs serially.
Read next: `reductions.py`; `didax/lax/windows.py`, what users call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic, max_dim, may_exceed
from didax.core.errors import ArgumentError, message
from didax.core.primitive import Primitive
from didax.passes.sparsity import Dependence, by_basis
from didax.primitives import padded_windows, split
from didax.primitives.convert import computed_once
from didax.primitives.elementwise import eq
from didax.primitives.holes import NOT_LINEAR
from didax.primitives.reductions import greatest, is_narrow_float, least, sign_zeros
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import LinearUnary
from didax.primitives.slicing import pad, slice_axis
from didax.transforms.batching import AxisData
from didax.xla.text import int_array, int_matrix, keep_nan, lower_combination, tensor_type


class Window(NamedTuple):
    """The window along one axis."""

    size: int
    stride: int
    padding: tuple[int, int]
    base_dilation: int
    dilation: int

    @property
    def extent(self) -> int:
        """The distance from the first element of the window to the last, both included."""
        return (self.size - 1) * self.dilation + 1

    def padded(self, n: int) -> int:
        """Length of an axis of n elements once spread and padded."""
        return max_dim((n - 1) * self.base_dilation + 1, 0) + sum(self.padding)

    def count(self, n: int) -> int:
        """How many windows fit along an axis of n elements."""
        return max_dim((self.padded(n) - self.extent) // self.stride + 1, 0)


_ONE = Window(1, 1, (0, 0), 1, 1)  # along an axis that the reduction leaves as it is
Entries = tuple[int, ...]


def windows_of(
    window_dimensions: Entries,
    window_strides: Entries,
    padding: tuple[tuple[int, int], ...],
    base_dilation: Entries,
    window_dilation: Entries,
) -> list[Window]:
    """The parameters by axis."""
    parts = window_dimensions, window_strides, padding, base_dilation, window_dilation
    return [Window(*entries) for entries in zip(*parts, strict=True)]


def params_of(windows: Sequence[Window]) -> dict[str, Any]:
    """The inverse of `windows_of`."""
    words = "window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation"
    return dict(zip(words, [tuple(column) for column in zip(*windows, strict=True)] or [()] * 5, strict=True))


def counts(name: str, x: ShapedArray, params: dict[str, Any]) -> tuple[int, ...]:
    """How many windows fit along each axis; ArgumentError or ValueError for parameters that describe no windows."""
    facts = [f"operand: {x}", *(f"{name}: {value}" for name, value in params.items())]
    if any(len(value) != x.ndim for value in params.values()):
        fix = f"Give {x.ndim} entries each."
        raise ArgumentError(message(f"{name} takes one entry per axis of its operand.", *facts, fix=fix))
    windows = windows_of(**params)
    if any(n < 1 for w in windows for n in (w.size, w.stride, w.base_dilation, w.dilation)):
        fix = "Make them at least 1."
        raise ValueError(message("Windows have positive sizes, strides and dilations.", *facts, fix=fix))
    return tuple(w.count(n) for w, n in zip(windows, x.shape, strict=True))


# Note [Windows that XLA does not take]
# XLA's simplifier writes windows of one element as pads and slices, and ends the process where their padding is
# negative, as it is in the gradient of a padded window. So axes along which the window has one element, and axes from
# which the padding cuts elements off, are padded here, and a window that has one element along every axis is a slice.
# So are axes whose padding has a symbolic length: the operation has no form of open lengths for it, and `pad` has one.


def _lower_edges(ctx: Any, x: Any, start: Any, windows: Sequence[Window]) -> tuple[Any, list[Window]]:
    """The operand padded along some axes, and windows over the padded operand.

    See Note [Windows that XLA does not take].
    """
    if not any(map(_is_padded_before, windows)):
        return x, list(windows)
    config = [(*w.padding, w.base_dilation - 1) if _is_padded_before(w) else (0, 0, 0) for w in windows]
    inner = [w._replace(padding=(0, 0), base_dilation=1) if _is_padded_before(w) else w for w in windows]
    return ctx.pad(x, start, config), inner


def _is_padded_before(w: Window) -> bool:
    if any(map(is_symbolic, w.padding)) or min(w.padding) < 0:
        return True
    return w.size == 1 and (max(w.padding) > 0 or w.base_dilation > 1)


def _lower_strides(ctx: Any, x: Any, windows: Sequence[Window]) -> Any:
    for i, w in enumerate(windows):
        if w.stride > 1:
            x = ctx.slice_axis(x, 0, x.aval.shape[i], i, w.stride)
    return x


class ReduceWindow(Primitive):
    """Combines the elements of each window: `op` in StableHLO, `ufunc` in NumPy."""

    in_supported_dtype = True
    padded = padded_windows.window_reduced
    sharding = split.along_whole_axes(
        lambda x, **params: [i for i, w in enumerate(windows_of(**params)) if w != _ONE]
    )

    def __init__(
        self, name: str, op: str, ufunc: np.ufunc, accepts: str, identity: Callable[[np.dtype[Any]], Any]
    ) -> None:
        super().__init__(name)
        self.op, self.ufunc, self.accepts, self.identity = op, ufunc, accepts, identity

    def type(self, x: ShapedArray, **params: Any) -> ShapedArray:
        if dtypes.kind_of(x.dtype) not in self.accepts:
            fix = "Cast it first (x.astype)."
            raise TypeError(message(f"{self.name} cannot reduce this dtype.", f"operand: {x}", fix=fix))
        return x.update(shape=counts(self.name, x, params))

    def eager(self, x: Any, **params: Any) -> Any:
        x = np.asarray(x)
        seen = _windows_view(x, windows_of(**params), x.dtype.type(self.identity(x.dtype)))
        return self.reduce_view(seen, tuple(range(x.ndim, 2 * x.ndim)))

    def reduce_view(self, seen: Any, axes: tuple[int, ...]) -> Any:
        """Reduce an array over its trailing axes, one window each."""
        return sign_zeros(
            self.ufunc.reduce(seen, axis=axes), seen, self.ufunc, lambda zeros: zeros.any(axis=axes)
        )

    def lower(self, ctx: Any, x: Any, **params: Any) -> Any:
        windows, out = windows_of(**params), ctx.out_avals[0]
        if not windows or out.size == 0:
            return ctx.constant(0, out) if windows else x
        start = ctx.scalar(self.identity(x.aval.dtype), x.aval.dtype)
        x, windows = _lower_edges(ctx, x, start, windows)
        if all(w.size == 1 for w in windows):
            return _lower_strides(ctx, x, windows)
        args, header = ctx.block([start.aval, start.aval])
        body = ctx.region()
        result = self.combine(body, *args)
        # A symbolic window has no form of open lengths: `index` says so.
        sizes, strides, base, dilation = (
            int_array([operator.index(getattr(w, name)) for w in windows])
            for name in ("size", "stride", "base_dilation", "dilation")
        )
        return ctx.emit(
            f'"stablehlo.reduce_window"({x}, {start}) <{{base_dilations = {base}, '
            f"padding = {int_matrix([w.padding for w in windows], 2)}, window_dilations = {dilation}, "
            f"window_dimensions = {sizes}, window_strides = {strides}}}> ({body.body([result], header)}) : "
            f"({x.type}, {start.type}) -> {tensor_type(out)}",
            out,
        )

    def sparsity(self, operands: Sequence[Dependence], **params: Any) -> Any:
        """All elements of a window, as for its sum."""
        return by_basis(reduce_window_sum_p, operands, params, self.type(operands[0].aval, **params))

    def combine(self, body: Any, x: Any, y: Any) -> Any:
        """The operation on two elements, in the body of the reduction."""
        return body.op(self.op, [x, y])

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        windows = windows_of(**params)
        windows.insert(dims[0], _ONE)
        return self.bind(args[0], **params_of(windows)), dims[0]


def _windows_view(x: Any, windows: Sequence[Window], identity: Any) -> Any:
    """A view whose leading axes count the windows and whose trailing axes are those of a window."""
    spread = np.full(
        [w.padded(n) + 2 * _spare(w) for w, n in zip(windows, x.shape, strict=True)], identity, x.dtype
    )
    spread[tuple(_places(w, n) for w, n in zip(windows, x.shape, strict=True))] = x
    spread = spread[
        tuple(slice(_spare(w), _spare(w) + w.padded(n)) for w, n in zip(windows, x.shape, strict=True))
    ]
    shape = [w.count(n) for w, n in zip(windows, x.shape, strict=True)] + [w.size for w in windows]
    steps = [s * w.stride for s, w in zip(spread.strides, windows, strict=True)]
    steps += [s * w.dilation for s, w in zip(spread.strides, windows, strict=True)]
    raw = spread.view(f"V{spread.itemsize}")  # as_strided does not take float8_e5m2
    return np.lib.stride_tricks.as_strided(raw, shape, steps, writeable=False).view(spread.dtype)


def _spare(w: Window) -> int:
    """The room that is left on either side for the elements that negative padding cuts off."""
    return max(0, -min(w.padding))


def _places(w: Window, n: int) -> slice:
    start = _spare(w) + w.padding[0]
    return slice(start, start + max((n - 1) * w.base_dilation + 1, 0), w.base_dilation)


class ReduceWindowSum(LinearUnary, ReduceWindow):
    """The sum of each window."""

    def reduce_view(self, seen: Any, axes: tuple[int, ...]) -> Any:
        wide = np.float32 if is_narrow_float(seen.dtype) else seen.dtype
        return self.ufunc.reduce(seen, axis=axes, dtype=wide).astype(seen.dtype, copy=False)

    def transpose(self, ct: Any, x: Any, **params: Any) -> list[Any]:
        if not may_exceed(aval_of(ct).size, 0):
            return [None]
        shape = x.aval.shape
        back = [_reversed(w, n) for w, n in zip(windows_of(**params), shape, strict=True)]
        ct_x = self.bind(ct, **params_of(back))
        for i, (n, step) in enumerate(zip(shape, params["base_dilation"], strict=True)):
            ct_x = slice_axis(ct_x, 0, max_dim((n - 1) * step + 1, 0), i, step)
        return [ct_x]


def _reversed(w: Window, n: int) -> Window:
    """The window over the cotangent whose sums belong to the elements of the spread operand."""
    low, high = w.padding
    spread = (w.count(n) - 1) * w.stride + 1
    return Window(w.size, 1, (w.extent - 1 - low, w.padded(n) - spread - high), w.stride, w.dilation)


class ReduceWindowExtremum(ReduceWindow):
    """The largest or smallest element of each window."""

    holes = {"transpose": NOT_LINEAR}

    def combine(self, body: Any, x: Any, y: Any) -> Any:
        return keep_nan(body, lower_combination(body, self.op, x, y))

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        y = self.bind(x, **params)
        if type(t) is Zero:
            return y, Zero(aval_of(y).tangent())
        windows = windows_of(**params)
        # The last axis comes first, so that ties go to the first element in row-major order.
        for i in reversed(range(len(windows))):
            x, t = self._along_axis(x, t, i, windows[i])
        return y, t

    def _along_axis(self, x: Any, t: Any, axis: int, window: Window) -> tuple[Any, Any]:
        """Extrema of windows along one axis, and the tangents of the elements that attain them first."""
        if window == _ONE:
            return x, t
        (x,), aval = computed_once(x), aval_of(x)
        windows = [window if i == axis else _ONE for i in range(aval.ndim)]
        y = self.bind(x, **params_of(windows))
        count = aval_of(y).shape[axis]
        if not may_exceed(count, 0):
            return y, slice_axis(t, 0, 0, axis)
        # Elements beyond the last window, if there may be none, to take the last step from as the others.
        further = window.extent + window.stride if may_exceed(1, count) else 0
        config = tuple(
            (w.padding[0], w.padding[1] + (further if i == axis else 0), w.base_dilation - 1)
            for i, w in enumerate(windows)
        )
        x = pad(x, scalar_like(self.identity(aval.dtype), aval.dtype), config)
        t = pad(t, scalar_like(0, aval_of(t).dtype), config)
        starts = [k * window.dilation for k in range(window.size)]
        reach = count * window.stride if further else (count - 1) * window.stride + 1
        taken = [[slice_axis(z, s, s + reach, axis, window.stride) for s in starts] for z in (x, t)]
        y_dot = taken[1][-1]
        for element, tangent in zip(taken[0][-2::-1], taken[1][-2::-1], strict=True):
            y_dot = where(eq(element, y), tangent, y_dot)
        return y, y_dot


def _zero(dtype: np.dtype[Any]) -> Any:
    return 0


reduce_window_sum_p = ReduceWindowSum("reduce_window_sum", "add", np.add, "iufc", _zero)
reduce_window_max_p = ReduceWindowExtremum("reduce_window_max", "maximum", np.maximum, "iufc", least)
reduce_window_min_p = ReduceWindowExtremum("reduce_window_min", "minimum", np.minimum, "iufc", greatest)
