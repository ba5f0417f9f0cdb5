"""`conv_general_dilated`: convolution over any number of spatial axes, as machine learning uses the word.

    out[n, o, p] = sum_{c, k} lhs[n, c, p * stride + k * rhs_dilation - low] * rhs[o, c, k]

where `lhs` is first spread by `lhs_dilation` (zeros between its elements) and padded. `ConvDimensionNumbers`
says which axis of each array is which. With `feature_group_count` the features of lhs and out fall into
groups that do not mix; with `batch_group_count` the batch of lhs falls into groups, one for each group of
features of out. It is bilinear, and its rules are closed: the cotangents are convolutions with strides and
dilations exchanged, and a batch axis folds into the batch, the features or the groups. Read next:
`didax/lax/convolution.py`, what users call.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic, max_dim, may_exceed
from didax.core.errors import ArgumentError, message
from didax.core.jaxpr_print import register_param_type
from didax.primitives import padded_windows, split
from didax.primitives.convert import convert_element_type
from didax.primitives.dot import (
    BilinearContraction,
    Precisions,
    accumulation_dtype,
    inverse_permutation,
    match_cotangent,
    operand_dtype,
    precision_names,
)
from didax.primitives.shape import reshape
from didax.primitives.slicing import rev
from didax.transforms.batching import AxisData
from didax.transforms.transpose import is_undef
from didax.xla.text import Value, function_type, int_array, lower_parts, tensor_type

Axes = tuple[int, ...]
_INT64 = np.dtype(np.int64)
Padding = tuple[tuple[int, int], ...]


@register_param_type
class ConvDimensionNumbers(NamedTuple):
    """The axes of lhs and out (batch, feature, *spatial) and of rhs (feature out, feature in, *spatial).

    >>> from didax import lax
    >>> lax.conv_dimension_numbers((1, 8, 8, 3), (5, 5, 3, 2), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """

    lhs_spec: Axes
    rhs_spec: Axes
    out_spec: Axes


class ConvWindow(NamedTuple):
    """The parameters that belong to the spatial axes, one entry for each."""

    strides: Axes
    padding: Padding
    lhs_dilation: Axes
    rhs_dilation: Axes

    def out_lengths(self, lhs: Sequence[int], rhs: Sequence[int]) -> Axes:
        """Spatial lengths of the result."""
        padded = [
            dilated(n, d) + low + high
            for n, d, (low, high) in zip(lhs, self.lhs_dilation, self.padding, strict=True)
        ]
        reach = [dilated(n, d) for n, d in zip(rhs, self.rhs_dilation, strict=True)]
        lengths = zip(padded, reach, self.strides, strict=True)
        return tuple(
            [max_dim((n - k) // stride + 1, 0) if may_exceed(n, 0) else 0 for n, k, stride in lengths]
        )


def dilated(n: int, dilation: int) -> int:
    """Length of an axis with dilation - 1 zeros between its elements."""
    return 0 if n == 0 else (n - 1) * dilation + 1


# Note [Convolutions over devices]. Where an array is split over some axes of a mesh and repeated over others, XLA's
# partitioner may sum the parts of a convolution over all devices, repeated ones too: results are a multiple of what
# they should be, in JAX as well. It happens where spatial axes are split, and in convolutions of groups. These axes are
# kept whole on meshes of several axes; on a mesh of one axis nothing is repeated. With groups of images, XLA's
# partitioner ends the process where the features of the result are split.
def _whole_where_split_wrongly(
    ctx: Any, lhs: Any, rhs: Any, numbers: ConvDimensionNumbers, feature_groups: int, batch_groups: int
) -> tuple[Any, Any]:
    """The operands of a convolution, whole along the axes that XLA's partitioner must not split."""
    devices, ndim = ctx.module.devices, lhs.aval.ndim
    count = devices.partitioned_axes
    lhs_axes: Sequence[int] = ()
    rhs_axes: Sequence[int] = ()
    if batch_groups != 1 and count == 1:
        rhs_axes = numbers.rhs_spec[:1]
    elif batch_groups != 1 and count > 1:
        lhs_axes = rhs_axes = range(ndim)
    elif count > 1:
        first = 1 if feature_groups != 1 else 2
        lhs_axes, rhs_axes = numbers.lhs_spec[first:], numbers.rhs_spec[first:]
    if lhs_axes:
        lhs = devices.kept_whole(ctx, lhs, lhs_axes)
    if rhs_axes:
        rhs = devices.kept_whole(ctx, rhs, rhs_axes)
    return lhs, rhs


class Convolution(BilinearContraction):
    """Convolution; see the module docstring."""

    sharding = split.convolved
    holes = {"eager": "NumPy has no convolution over several axes: it runs as a compiled program"}
    padded = padded_windows.convolved

    def type(
        self,
        lhs: ShapedArray,
        rhs: ShapedArray,
        *,
        window_strides: Axes,
        padding: Padding,
        lhs_dilation: Axes,
        rhs_dilation: Axes,
        dimension_numbers: ConvDimensionNumbers,
        feature_group_count: int,
        batch_group_count: int,
        precision: Precisions,
        preferred_element_type: np.dtype[Any] | None,
    ) -> ShapedArray:
        window = ConvWindow(window_strides, padding, lhs_dilation, rhs_dilation)
        _check_specs(lhs, rhs, dimension_numbers)
        _check_window(lhs, rhs, window)
        _check_groups(lhs, rhs, dimension_numbers, feature_group_count, batch_group_count)
        lhs_spec, rhs_spec, out_spec = dimension_numbers
        spatial = window.out_lengths(
            [lhs.shape[i] for i in lhs_spec[2:]], [rhs.shape[i] for i in rhs_spec[2:]]
        )
        lengths = (lhs.shape[lhs_spec[0]] // batch_group_count, rhs.shape[rhs_spec[0]], *spatial)
        dtype = self.out_dtype(lhs, rhs, preferred_element_type)
        weak = lhs.weak_type and rhs.weak_type and dtype == lhs.dtype
        return ShapedArray(tuple([lengths[i] for i in inverse_permutation(out_spec)]), dtype, weak)

    def lower(
        self,
        ctx: Any,
        lhs: Any,
        rhs: Any,
        *,
        window_strides: Axes,
        padding: Padding,
        lhs_dilation: Axes,
        rhs_dilation: Axes,
        dimension_numbers: ConvDimensionNumbers,
        feature_group_count: int,
        batch_group_count: int,
        precision: Precisions,
        preferred_element_type: np.dtype[Any] | None,
    ) -> Any:
        out = ctx.out_avals[0]
        # XLA takes no window of length 0, as cotangents can be.
        if 0 in (lhs.aval.size, rhs.aval.size, out.size):
            return ctx.constant(0, out)
        inner = operand_dtype(out.dtype, lhs.aval.dtype)
        lhs, rhs = ctx.convert(lhs, inner), ctx.convert(rhs, inner)
        window = ConvWindow(window_strides, padding, lhs_dilation, rhs_dilation)
        if batch_group_count == 1 and (
            is_small_depthwise(lhs.aval, rhs.aval, dimension_numbers, feature_group_count)
            or _is_of_one_feature(ctx, lhs.aval, rhs.aval, dimension_numbers)
        ):
            return lower_depthwise(ctx, lhs, rhs, window, dimension_numbers)
        if any([is_symbolic(n) for pair in padding for n in pair]):
            groups = feature_group_count, batch_group_count
            return _lower_open_padding(ctx, lhs, rhs, window, dimension_numbers, groups, precision)
        if ctx.module.devices is not None:
            lhs, rhs = _whole_where_split_wrongly(
                ctx, lhs, rhs, dimension_numbers, feature_group_count, batch_group_count
            )
        how = (
            f"dim_numbers = {_dim_numbers_text(dimension_numbers)}, window = {_window_text(window)} "
            f"{{batch_group_count = {batch_group_count} : i64, "
            f"feature_group_count = {feature_group_count} : i64, "
            f"precision_config = {_precision_text(precision)}}}"
        )
        emit = _emit if ctx.module.on_cpu or not dtypes.is_complex(out.dtype) else _emit_by_parts
        return emit(ctx, lhs, rhs, out, how)

    def transpose(self, ct: Any, lhs: Any, rhs: Any, **params: Any) -> list[Any]:
        if 0 in (ct.size, lhs.size, rhs.size):  # there are no windows, so the lengths below do not exist
            return [None, None]
        if is_undef(lhs):
            return [_lhs_cotangent(ct, lhs.aval, rhs, **params), None]
        return [None, _rhs_cotangent(ct, lhs, rhs.aval, **params)]

    def batch(
        self,
        axis: AxisData,
        args: Sequence[Any],
        dims: Sequence[int | None],
        *,
        dimension_numbers: ConvDimensionNumbers,
        feature_group_count: int,
        batch_group_count: int,
        **params: Any,
    ) -> tuple[Any, int]:
        (lhs, rhs), (lhs_dim, rhs_dim) = args, dims
        (lhs_n, lhs_c, *_), (rhs_o, *_), (out_n, out_o, *_) = dimension_numbers
        params["dimension_numbers"] = dimension_numbers
        groups = {"feature_group_count": feature_group_count, "batch_group_count": batch_group_count}
        if lhs_dim is None:  # more features of the result, in each group
            assert rhs_dim is not None
            inner = max_dim(feature_group_count, batch_group_count)
            out = self.bind(lhs, fold_axis(rhs, rhs_dim, rhs_o, inner), **params, **groups)
            return unfold_axis(out, axis.size, out_o, inner), out_o
        if rhs_dim is None:  # more images
            out = self.bind(fold_axis(lhs, lhs_dim, lhs_n, batch_group_count), rhs, **params, **groups)
            return unfold_axis(out, axis.size, out_n), out_n
        kind, into = (
            ("batch_group_count", lhs_n)
            if may_exceed(batch_group_count, 1)
            else ("feature_group_count", lhs_c)
        )
        groups[kind] *= axis.size  # more groups
        out = self.bind(fold_axis(lhs, lhs_dim, into), fold_axis(rhs, rhs_dim, rhs_o), **params, **groups)
        return unfold_axis(out, axis.size, out_o), out_o


# --- cotangents -------------------------------------------------------------------------------------------


def _lhs_cotangent(
    ct: Any,
    lhs: ShapedArray,
    rhs: Any,
    *,
    window_strides: Axes,
    padding: Padding,
    lhs_dilation: Axes,
    rhs_dilation: Axes,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision: Precisions,
    preferred_element_type: np.dtype[Any] | None,
) -> Any:
    """`ct` convolved with the reversed window; strides and lhs_dilation, features in and out trade places."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    ct, rhs = match_cotangent(ct, rhs)
    groups = max_dim(feature_group_count, batch_group_count)
    kernel = rev(rhs, rhs_spec[2:])
    if may_exceed(groups, 1):  # counted among the features out, which become features in
        kernel = _regroup(kernel, rhs_spec[0], rhs_spec[1], groups)
    lengths = _spatial_lengths(dimension_numbers, lhs, aval_of(rhs), aval_of(ct))
    pads = []
    for (n, k, m), stride, (low, _), spread, reach in zip(
        lengths, window_strides, padding, lhs_dilation, rhs_dilation, strict=True
    ):
        low = dilated(k, reach) - 1 - low
        pads.append((low, dilated(n, spread) + dilated(k, reach) - 1 - dilated(m, stride) - low))
    out = conv_general_dilated_p.bind(
        ct,
        kernel,
        window_strides=lhs_dilation,
        padding=tuple(pads),
        lhs_dilation=window_strides,
        rhs_dilation=rhs_dilation,
        dimension_numbers=ConvDimensionNumbers(out_spec, (rhs_spec[1], rhs_spec[0], *rhs_spec[2:]), lhs_spec),
        feature_group_count=groups,
        batch_group_count=1,
        precision=precision,
        preferred_element_type=None,
    )
    if may_exceed(batch_group_count, 1):  # groups of features back to groups of the batch
        out = _regroup(out, lhs_spec[1], lhs_spec[0], batch_group_count)
    return convert_element_type(out, lhs.dtype)


def _rhs_cotangent(
    ct: Any,
    lhs: Any,
    rhs: ShapedArray,
    *,
    window_strides: Axes,
    padding: Padding,
    lhs_dilation: Axes,
    rhs_dilation: Axes,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision: Precisions,
    preferred_element_type: np.dtype[Any] | None,
) -> Any:
    """`lhs` convolved with `ct` as the window: summed over the batch, strides and rhs_dilation exchanged."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    ct, lhs = match_cotangent(ct, lhs)
    lengths = _spatial_lengths(dimension_numbers, aval_of(lhs), rhs, aval_of(ct))
    pads = []
    for (n, k, m), stride, (low, _), spread, reach in zip(
        lengths, window_strides, padding, lhs_dilation, rhs_dilation, strict=True
    ):
        pads.append((low, dilated(k, reach) + dilated(m, stride) - 1 - dilated(n, spread) - low))
    out = conv_general_dilated_p.bind(
        lhs,
        ct,
        window_strides=rhs_dilation,
        padding=tuple(pads),
        lhs_dilation=lhs_dilation,
        rhs_dilation=window_strides,
        dimension_numbers=ConvDimensionNumbers(
            (lhs_spec[1], lhs_spec[0], *lhs_spec[2:]),
            (out_spec[1], out_spec[0], *out_spec[2:]),
            (rhs_spec[1], rhs_spec[0], *rhs_spec[2:]),
        ),
        feature_group_count=batch_group_count,
        batch_group_count=feature_group_count,
        precision=precision,
        preferred_element_type=None,
    )
    return convert_element_type(out, rhs.dtype)


def _spatial_lengths(numbers: ConvDimensionNumbers, *avals: ShapedArray) -> Iterator[tuple[int, int, int]]:
    """Lengths of lhs, rhs and out along each spatial axis."""
    lengths = [[aval.shape[i] for i in spec[2:]] for aval, spec in zip(avals, numbers, strict=True)]
    return zip(*lengths, strict=True)


# --- folding one axis into another ------------------------------------------------------------------------


def fold_axis(x: Any, source: int, into: int, outer: int = 1) -> Any:
    """Merge axis `source` into axis `into` of the array without it.

    The merged axis counts (source, into); with `outer` groups on `into` it counts (group, source, rest of
    into).
    """
    x = array_ops.move_axis(x, source, into)
    shape = aval_of(x).shape
    before, (size, n), after = shape[:into], shape[into : into + 2], shape[into + 2 :]
    if may_exceed(outer, 1):
        x = array_ops.move_axis(reshape(x, (*before, size, outer, n // outer, *after)), into + 1, into)
    return reshape(x, (*before, size * n, *after))


def unfold_axis(x: Any, size: int, axis: int, outer: int = 1) -> Any:
    """The inverse of `fold_axis`: the folded axis is at `axis`, what it was folded into right after it."""
    shape = aval_of(x).shape
    before, n, after = shape[:axis], shape[axis] // size, shape[axis + 1 :]
    if may_exceed(outer, 1):
        x = array_ops.move_axis(reshape(x, (*before, outer, size, n // outer, *after)), axis + 1, axis)
    return reshape(x, (*before, size, n, *after))


def _regroup(x: Any, source: int, into: int, groups: int) -> Any:
    """Take the groups off the front of axis `source` and put them in front of axis `into`."""
    shape = aval_of(x).shape
    x = reshape(x, (*shape[:source], groups, shape[source] // groups, *shape[source + 1 :]))
    return fold_axis(x, source, into)


# --- lowering ---------------------------------------------------------------------------------------------


def _dim_numbers_text(numbers: ConvDimensionNumbers) -> str:
    """`[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]`."""
    texts = []
    for spec, names in zip(numbers, ("bf", "oi", "bf"), strict=True):
        labels = [*names, *map(str, range(len(spec) - 2))]
        texts.append(f"[{', '.join([labels[i] for i in inverse_permutation(spec)])}]")
    return f"{texts[0]}x{texts[1]}->{texts[2]}"


def _window_text(window: ConvWindow) -> str:
    pads = [list(pair) for pair in window.padding]
    return (
        f"{{stride = {list(window.strides)}, pad = {pads}, lhs_dilate = {list(window.lhs_dilation)}, "
        f"rhs_dilate = {list(window.rhs_dilation)}}}"
    )


def _lower_open_padding(
    ctx: Any,
    lhs: Value,
    rhs: Value,
    window: ConvWindow,
    numbers: ConvDimensionNumbers,
    groups: tuple[int, int],
    precision: Precisions,
) -> Value:
    """A convolution whose padding is symbolic: it is an operand."""
    pads = ctx.reshape(
        ctx.numbers([n for pair in window.padding for n in pair], _INT64), (len(window.padding), 2)
    )
    out = ctx.out_avals[0]
    return ctx.emit(
        f'"stablehlo.dynamic_conv"({lhs}, {rhs}, {pads}) <{{'
        f"dimension_numbers = #stablehlo.conv<{_dim_numbers_text(numbers)}>, "
        f"window_strides = {int_array(window.strides)}, lhs_dilation = {int_array(window.lhs_dilation)}, "
        f"rhs_dilation = {int_array(window.rhs_dilation)}, "
        f"feature_group_count = {groups[0]} : i64, batch_group_count = {groups[1]} : i64, "
        f"precision_config = {_precision_text(precision)}}}> : {function_type([lhs, rhs, pads], [out])}",
        out,
    )


def _precision_text(precision: Precisions) -> str:
    names = precision_names(precision).split(", ")
    return f"[{', '.join([f'#stablehlo<precision {name}>' for name in names])}]"


_LARGE = 1 << 13  # elements of a result for which a longer compilation pays


def is_small_depthwise(
    lhs: ShapedArray, rhs: ShapedArray, numbers: ConvDimensionNumbers, feature_groups: int
) -> bool:
    """True for one group per feature and a window of at most 81 elements, which `lower_depthwise` is for."""
    one_per_feature = 1 < feature_groups == lhs.shape[numbers.lhs_spec[1]]
    return one_per_feature and _has_small_window(rhs, numbers)


def _has_small_window(rhs: ShapedArray, numbers: ConvDimensionNumbers) -> bool:
    return math.prod([rhs.shape[i] for i in numbers.rhs_spec[2:]]) <= 81


def _is_of_one_feature(ctx: Any, lhs: ShapedArray, rhs: ShapedArray, numbers: ConvDimensionNumbers) -> bool:
    """Whether a filter of a signal or an image is large enough on the CPU to be a sum of shifted images, too."""
    out = ctx.out_avals[0]
    if not ctx.module.on_one_cpu or is_symbolic(out.size) or out.size < _LARGE:
        return False
    few = lhs.shape[numbers.lhs_spec[1]] == 1 and rhs.shape[numbers.rhs_spec[0]] <= 4
    return few and _has_small_window(rhs, numbers)


def _emit(ctx: Any, lhs: Value, rhs: Value, out: ShapedArray, how: str) -> Value:
    return ctx.emit(f"stablehlo.convolution({lhs}, {rhs}) {how} : {function_type([lhs, rhs], [out])}", out)


def _emit_by_parts(ctx: Any, lhs: Value, rhs: Value, out: ShapedArray, how: str) -> Value:
    """A convolution of complex numbers as four of real ones: the libraries of accelerators know no complex ones."""
    part = out.update(dtype=dtypes.real_dtype(out.dtype))
    (a, b), (c, d) = lower_parts(ctx, lhs), lower_parts(ctx, rhs)
    ac, bd, ad, bc = [_emit(ctx, x, y, part, how) for x, y in ((a, c), (b, d), (a, d), (b, c))]
    real, imag = ctx.op("subtract", [ac, bd]), ctx.op("add", [ad, bc])
    return ctx.emit(f"stablehlo.complex {real}, {imag} : {tensor_type(out)}", out)


def lower_depthwise(
    ctx: Any, lhs: Value, rhs: Value, window: ConvWindow, numbers: ConvDimensionNumbers
) -> Value:
    """A depthwise convolution as a sum of shifted images, one for each element of the window.

    XLA's CPU backend runs feature groups by a generic loop; the shifted images fuse into one vectorised one.
    Batch 4, 32 features, 32 x 32 float32, milliseconds on two cores (either layout, the cotangent of lhs
    alike):

        window           3 x 3   5 x 5   7 x 7   9 x 9
        convolution       3.9     6.4     9.4    13.7
        shifted images    0.11    0.24    0.36    0.53

    It runs filters of one feature by a generic loop, too. Processor microseconds on one loaded core, convolution ->
    shifted images: 9 and 33 numbers over 100,000 2791 -> 105 and 3075 -> 257 (NumPy 251, 1232), 3 x 3 over 256 x 256
    6493 -> 108, its cotangents 10617 -> 308 and 9944 -> 2479, with 4 features 4416 -> 257. 32 features are left to the
    library.
    """
    out = ctx.out_avals[0]
    lhs_spec, rhs_spec, out_spec = numbers
    sums = accumulation_dtype(out.dtype, lhs.aval.dtype)
    image = _padded(ctx, ctx.convert(lhs, sums), window, lhs_spec)
    rhs = ctx.convert(rhs, sums)
    features = lhs.aval.shape[lhs_spec[1]]
    # the features of out count (feature of lhs, multiple): they are two axes until the end
    position = [i + (i > out_spec[1]) for i in out_spec]
    shape = (
        *out.shape[: out_spec[1]],
        features,
        out.shape[out_spec[1]] // features,
        *out.shape[out_spec[1] + 1 :],
    )
    wide = ShapedArray(shape, sums)
    image_dims = [position[lhs_spec.index(i)] for i in range(lhs.aval.ndim)]
    spatial = [out.shape[i] for i in out_spec[2:]]
    total = None
    for offset in itertools.product(*[range(rhs.aval.shape[i]) for i in rhs_spec[2:]]):
        starts = [k * d for k, d in zip(offset, window.rhs_dilation, strict=True)]
        shifted = _slice(ctx, image, lhs_spec[2:], starts, spatial, window.strides)
        factor = _slice(ctx, rhs, rhs_spec[2:], offset, [1] * len(offset), [1] * len(offset))
        factor = ctx.reshape(factor, shape[out_spec[1] : out_spec[1] + 2])
        terms = (
            ctx.broadcast(shifted, wide, image_dims),
            ctx.broadcast(factor, wide, position[1:2] + [position[1] + 1]),
        )
        product = ctx.op("multiply", terms)
        total = product if total is None else ctx.op("add", [total, product])
    assert total is not None
    return ctx.convert(ctx.reshape(total, out.shape), out.dtype)


def _padded(ctx: Any, x: Value, window: ConvWindow, spec: Axes) -> Value:
    """`x` spread by lhs_dilation and padded, as the convolution sees it."""
    config = [(0, 0, 0)] * len(spec)
    for axis, (before, after), spread in zip(spec[2:], window.padding, window.lhs_dilation, strict=True):
        config[axis] = (before, after, spread - 1)
    return ctx.pad(x, ctx.scalar(0, x.aval.dtype), config)


def _slice(
    ctx: Any, x: Value, axes: Axes, starts: Sequence[int], lengths: Sequence[int], strides: Sequence[int]
) -> Value:
    """`x[start : ... : stride]` with that many elements along each of the axes, whole along the others."""
    first, last, steps = [0] * x.aval.ndim, list(x.aval.shape), [1] * x.aval.ndim
    for axis, start, length, stride in zip(axes, starts, lengths, strides, strict=True):
        first[axis], last[axis], steps[axis] = start, start + (length - 1) * stride + 1, stride
    return ctx.slice(x, first, last, steps)


# --- checks -----------------------------------------------------------------------------------------------


def _check_specs(lhs: ShapedArray, rhs: ShapedArray, numbers: ConvDimensionNumbers) -> None:
    ndim = lhs.ndim
    if ndim < 2 or rhs.ndim != ndim or any(sorted(spec) != list(range(ndim)) for spec in numbers):
        raise TypeError(
            message(
                "A convolution takes two arrays with as many axes, and each spec names every axis once.",
                f"lhs: {lhs}, rhs: {rhs}",
                *[f"{name}: {spec}" for name, spec in numbers._asdict().items()],
                fix="Give lhs batch and feature axes, rhs two feature axes, and both as many spatial axes.",
            )
        )


def _check_window(lhs: ShapedArray, rhs: ShapedArray, window: ConvWindow) -> None:
    spatial = lhs.ndim - 2
    for name, values in window._asdict().items():
        if len(values) != spatial or (name != "padding" and any(n < 1 for n in values)):
            raise ValueError(
                message(
                    "A convolution takes one stride, padding and dilation, at least 1, per spatial axis.",
                    f"lhs: {lhs}, rhs: {rhs}, spatial axes: {spatial}",
                    f"{'window_strides' if name == 'strides' else name}: {values}",
                    fix=f"Pass {spatial} of them.",
                )
            )


def _check_groups(
    lhs: ShapedArray, rhs: ShapedArray, numbers: ConvDimensionNumbers, features: int, batches: int
) -> None:
    (lhs_n, lhs_c, *_), (rhs_o, rhs_i, *_), _ = numbers
    facts = (
        f"lhs: {lhs}, with batch {lhs.shape[lhs_n]} and features {lhs.shape[lhs_c]}",
        f"rhs: {rhs}, with features out {rhs.shape[rhs_o]} and in {rhs.shape[rhs_i]}",
        f"feature_group_count: {features}, batch_group_count: {batches}",
    )
    if features < 1 or batches < 1 or (may_exceed(features, 1) and may_exceed(batches, 1)):
        raise ValueError(
            message(
                "A convolution has groups of features or of the batch, not both, at least one.",
                *facts,
                fix="Set one to 1.",
            )
        )
    if lhs.shape[lhs_c] != features * rhs.shape[rhs_i]:
        raise ArgumentError(
            message(
                "The features of lhs must be feature_group_count times the features in of rhs.",
                *facts,
                fix="Check dimension_numbers, which say where each array has its features.",
            )
        )
    if rhs.shape[rhs_o] % (features * batches) or lhs.shape[lhs_n] % batches:
        raise TypeError(
            message(
                "The groups must divide the features out of rhs, and groups of the batch the batch of lhs.",
                *facts,
                fix="Choose a group count that divides them.",
            )
        )


conv_general_dilated_p = Convolution("conv_general_dilated")
