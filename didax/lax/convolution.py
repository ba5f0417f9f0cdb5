"""Convolutions: `conv_general_dilated` and its common special cases.

Operands have one dtype. Read next: `primitives/convolution.py`, which says what is computed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.avals import aval_of
from didax.core.dims import as_length, max_dim
from didax.core.errors import message
from didax.lax.dot import PrecisionLike, canonicalize_element_type, canonicalize_precision, dot_general
from didax.lax.operands import as_ints, operation
from didax.primitives.convert import convert_element_type, iota
from didax.primitives.convolution import ConvDimensionNumbers, conv_general_dilated_p, dilated
from didax.primitives.elementwise import eq
from didax.primitives.shape import broadcast_in_dim, reshape, transpose
from didax.primitives.slicing import rev

__all__ = [
    "ConvDimensionNumbers",
    "ConvGeneralDilatedDimensionNumbers",
    "conv",
    "conv_dimension_numbers",
    "conv_general_dilated",
    "conv_general_dilated_local",
    "conv_general_dilated_patches",
    "conv_general_permutations",
    "conv_general_shape_tuple",
    "conv_shape_tuple",
    "conv_transpose",
    "conv_transpose_shape_tuple",
    "conv_with_general_padding",
    "padtype_to_pads",
]

ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]
_INT32 = np.dtype(np.int32)
PaddingLike = str | Sequence[tuple[int, int]]


@operation
def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: PaddingLike,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return a convolution with strides, padding, dilations and groups, over any number of spatial axes.

    `lhs` and `rhs` have one dtype; the result has it too, unless `preferred_element_type` names another. `padding` is
    'SAME', 'SAME_LOWER', 'VALID' or a pair (low, high) for each spatial axis. `dimension_numbers` says which axis is
    which, as `('NHWC', 'HWIO', 'NHWC')` or as ConvDimensionNumbers; the default is `('NCHW', 'OIHW', 'NCHW')`. Raises
    TypeError for two dtypes, and ArgumentError for shapes that do not fit.

    >>> import numpy as np
    >>> from didax import lax
    >>> images, window = np.ones((8, 28, 28, 3), "float32"), np.ones((5, 5, 3, 16), "float32")
    >>> numbers = ("NHWC", "HWIO", "NHWC")
    >>> lax.conv_general_dilated(images, window, (2, 2), "SAME", dimension_numbers=numbers).shape
    (8, 14, 14, 16)
    """
    x, w = aval_of(lhs), aval_of(rhs)
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    ones = (1,) * (x.ndim - 2)
    strides = as_ints(window_strides)
    spread = ones if lhs_dilation is None else as_ints(lhs_dilation)
    reach = ones if rhs_dilation is None else as_ints(rhs_dilation)
    if isinstance(padding, str):
        if spread != ones:
            raise ValueError(
                message(
                    "With lhs_dilation the padding must be given in numbers: 'SAME' could mean several.",
                    f"padding: {padding!r}, lhs_dilation: {spread}",
                    fix="Pass a pair (low, high) for each spatial axis, or use conv_transpose.",
                )
            )
        lengths = [x.shape[i] for i in numbers.lhs_spec[2:]]
        windows = [dilated(w.shape[i], d) for i, d in zip(numbers.rhs_spec[2:], reach, strict=False)]
        padding = padtype_to_pads(lengths, windows, strides, padding)
    return conv_general_dilated_p.bind(
        lhs,
        rhs,
        window_strides=strides,
        padding=tuple([(as_length(low), as_length(high)) for low, high in padding]),
        lhs_dilation=spread,
        rhs_dilation=reach,
        dimension_numbers=numbers,
        feature_group_count=operator.index(feature_group_count),
        batch_group_count=operator.index(batch_group_count),
        precision=canonicalize_precision(precision),
        preferred_element_type=canonicalize_element_type(preferred_element_type),
    )


@operation
def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return the convolution of `lhs` (batch, feature, spatial...) with `rhs` (feature out, feature in, spatial...).

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.conv(np.ones((1, 1, 4), "float32"), np.ones((1, 1, 3), "float32"), (1,), "VALID")
    Array([[[3., 3.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision, preferred_element_type=preferred_element_type
    )


@operation
def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: PaddingLike,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return the convolution that `conv` computes, with dilations and explicit padding.

    >>> import numpy as np
    >>> from didax import lax
    >>> x = np.ones((1, 1, 4), "float32")
    >>> lax.conv_with_general_padding(x, x, (1,), [(1, 0)], None, None)
    Array([[[3., 4.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


@operation
def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: PaddingLike,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Any:
    """Return a convolution that enlarges: the cotangent of a strided convolution, as a layer ("deconvolution").

    By default the last axis holds the features and `rhs` is (spatial..., feature in, feature out). With
    `transpose_kernel` the window is the window of the forward convolution: it is reversed and its feature
    axes are exchanged. Explicit `padding` pads the dilated `lhs`; with `use_consistent_padding` it is the
    padding of the forward convolution.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.conv_transpose(np.ones((1, 5, 2), "float32"), np.ones((3, 2, 4), "float32"), (2,), "SAME").shape
    (1, 10, 4)
    """
    x, w = aval_of(lhs), aval_of(rhs)
    spatial = x.ndim - 2
    if dimension_numbers is None:
        first = (0, x.ndim - 1, *range(1, x.ndim - 1))
        dimension_numbers = ConvDimensionNumbers(first, (x.ndim - 1, x.ndim - 2, *range(spatial)), first)
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    windows = [w.shape[i] for i in numbers.rhs_spec[2:]]
    reach = [dilated(k, d) for k, d in zip(windows, rhs_dilation or (1,) * spatial, strict=False)]
    if isinstance(padding, str):
        pads = [_conv_transpose_padding(k, s, padding) for k, s in zip(reach, strides, strict=False)]
    elif use_consistent_padding:
        pads = [(k - 1 - low, k - 1 - high) for k, (low, high) in zip(reach, padding, strict=False)]
    else:
        pads = list(padding)
    if transpose_kernel:
        rhs = rev(rhs, numbers.rhs_spec[2:])
        order = list(range(w.ndim))
        out_features, in_features = numbers.rhs_spec[:2]
        order[out_features], order[in_features] = in_features, out_features
        rhs = transpose(rhs, tuple(order))
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * spatial,
        pads,
        strides,
        rhs_dilation,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


@operation
def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: PaddingLike,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return the patches that a convolution with a window of the given shape multiplies, on the feature axis.

    A patch lists the features of `lhs` one after the other, each with its elements in the order of the
    window.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.conv_general_dilated_patches(np.arange(4.0, dtype="float32").reshape(1, 1, 4), (2,), (1,), "VALID")
    Array([[[0., 1., 2.],
            [1., 2., 3.]]], dtype=float32)
    """
    x, shape = aval_of(lhs), as_ints(filter_shape)
    numbers = conv_dimension_numbers(x.shape, (1, 1, *shape), dimension_numbers)
    features, size = x.shape[numbers.lhs_spec[1]], math.prod(shape)
    one_each = convert_element_type(eq(iota(_INT32, (size, size), 0), iota(_INT32, (size, size), 1)), x.dtype)
    windows = broadcast_in_dim(one_each, (features, size, size), (1, 2))
    windows = reshape(windows, (features * size, 1, *shape))
    order = [0] * len(numbers.rhs_spec)  # from (out, in, spatial...) to the requested layout
    for axis, place in enumerate(numbers.rhs_spec):
        order[place] = axis
    return conv_general_dilated(
        lhs, transpose(windows, tuple(order)), window_strides, padding, lhs_dilation, rhs_dilation, numbers,
        feature_group_count=features, precision=precision, preferred_element_type=preferred_element_type,
    )  # fmt: skip


@operation
def conv_general_dilated_local(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: PaddingLike,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
) -> Any:
    """Return a convolution with a separate window for each place of the result ("locally connected").

    `rhs` has the axes of a window, but its in-feature axis holds whole patches (features of `lhs` times
    elements of the window, as in `conv_general_dilated_patches`), and its spatial axes are the places of the
    result.

    >>> import numpy as np
    >>> from didax import lax
    >>> x, windows = np.ones((1, 1, 4), "float32"), np.ones((5, 2, 3), "float32")
    >>> lax.conv_general_dilated_local(x, windows, (1,), "VALID", (2,)).shape
    (1, 5, 3)
    """
    numbers = conv_dimension_numbers(aval_of(lhs).shape, aval_of(rhs).shape, dimension_numbers)
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, numbers, precision
    )
    (batch, feature, *places), (_, inner, *spatial) = numbers.out_spec, numbers.rhs_spec
    found = dot_general(rhs, patches, (((inner,), (feature,)), (spatial, places)), precision)
    ndim = aval_of(found).ndim  # (spatial..., out, batch)
    order = [0] * ndim
    for axis, place in enumerate((*places, feature, batch)):
        order[place] = axis
    return transpose(found, tuple(order))


@operation
def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: PaddingLike,
    batch_group_count: int = 1,
) -> tuple[int, ...]:
    """Return the shape of a convolution in the order batch, features, spatial; the batch may be -1.

    >>> conv_shape_tuple((-1, 2, 5), (3, 2, 2), (1,), "VALID")
    (-1, 3, 4)
    """
    if isinstance(pads, str):
        pads = padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads)
    lengths = [
        max_dim((n + low + high - k) // s + 1, 0)
        for n, k, s, (low, high) in zip(lhs_shape[2:], rhs_shape[2:], strides, pads, strict=True)
    ]
    batch = lhs_shape[0] // batch_group_count if lhs_shape[0] > 0 else lhs_shape[0]
    return (batch, rhs_shape[0], *lengths)


@operation
def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: PaddingLike,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers,
) -> tuple[int, ...]:
    """Return the shape of the result of `conv_general_dilated`; the batch may be -1.

    >>> conv_general_shape_tuple((-1, 5, 5, 2), (2, 2, 2, 3), (1, 1), "SAME", ("NHWC", "HWIO", "NHWC"))
    (-1, 5, 5, 3)
    """
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    lhs, rhs = [lhs_shape[i] for i in numbers.lhs_spec], [rhs_shape[i] for i in numbers.rhs_spec]
    return _laid_out(conv_shape_tuple(lhs, rhs, window_strides, padding), numbers.out_spec)


@operation
def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: PaddingLike,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers,
) -> tuple[int, ...]:
    """Return the shape of the result of `conv_transpose`; the batch may be -1.

    >>> conv_transpose_shape_tuple((-1, 5, 5, 2), (2, 2, 2, 3), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))
    (-1, 10, 10, 3)
    """
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    lhs, rhs = [lhs_shape[i] for i in numbers.lhs_spec], [rhs_shape[i] for i in numbers.rhs_spec]
    if isinstance(padding, str):
        padding = [
            _conv_transpose_padding(k, s, padding) for k, s in zip(rhs[2:], window_strides, strict=True)
        ]
    spread = [dilated(n, s) for n, s in zip(lhs[2:], window_strides, strict=True)]
    found = conv_shape_tuple((*lhs[:2], *spread), rhs, (1,) * len(spread), padding)
    return _laid_out(found, numbers.out_spec)


def _laid_out(shape: tuple[int, ...], spec: Sequence[int]) -> tuple[int, ...]:
    return tuple([n for _, n in sorted(zip(spec, shape, strict=True))])


def _conv_transpose_padding(reach: int, stride: int, padding: str) -> tuple[int, int]:
    """Return the padding of the dilated input: the result is `stride` times as long (SAME), or longer (VALID)."""
    name = _padding_name(padding, ("SAME", "VALID"))
    if name == "SAME":
        total = reach + stride - 2
        low = reach - 1 if stride > reach - 1 else -(-total // 2)
    else:
        total = reach + stride - 2 + max_dim(reach - stride, 0)
        low = reach - 1
    return low, total - low


@operation
def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
) -> list[tuple[int, int]]:
    """Return the low and high padding for each axis.

    'SAME' gives ceil(length / stride) results; an odd number of elements adds the last one at the high end.

    >>> padtype_to_pads([7], [4], [2], "SAME"), padtype_to_pads([7], [4], [2], "SAME_LOWER")
    ([(1, 2)], [(2, 1)])
    """
    name = _padding_name(padding, ("SAME", "SAME_LOWER", "VALID"))
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    if any(s < 1 for s in window_strides):
        raise ValueError(
            message(
                "Strides are at least 1.",
                f"window_strides: {tuple(window_strides)}",
                fix="Use lhs_dilation to spread an image.",
            )
        )
    totals = [
        max_dim((-(-n // s) - 1) * s + k - n, 0)
        for n, k, s in zip(in_shape, window_shape, window_strides, strict=False)
    ]
    return [(t // 2, t - t // 2) if name == "SAME" else (t - t // 2, t // 2) for t in totals]


def _padding_name(padding: str, choices: tuple[str, ...]) -> str:
    if padding.upper() not in choices:
        raise ValueError(
            message(
                "A padding named by a string must be one of the known kinds.",
                f"padding: {padding!r}",
                fix=f"Use one of {', '.join(map(repr, choices))}, or pairs (low, high).",
            )
        )
    return padding.upper()


@operation
def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: ConvGeneralDilatedDimensionNumbers
) -> ConvDimensionNumbers:
    """Return the ConvDimensionNumbers of None (batch and features first) or of three strings of letters.

    >>> conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    ndim = len(lhs_shape)
    if ndim != len(rhs_shape) or ndim < 2:
        raise TypeError(
            message(
                "A convolution takes two arrays with as many axes, at least two.",
                f"lhs shape: {tuple(lhs_shape)}, rhs shape: {tuple(rhs_shape)}",
                fix="Add an axis of length 1 for the batch or the features.",
            )
        )
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if dimension_numbers is None:
        return ConvDimensionNumbers(*[tuple(range(ndim))] * 3)
    if len(dimension_numbers) != 3 or any(len(spec) != ndim for spec in dimension_numbers):
        raise TypeError(
            message(
                "dimension_numbers has three specs, for lhs, rhs and out, with a letter for each axis.",
                f"dimension_numbers: {dimension_numbers!r}, axes: {ndim}",
                fix="Write them as ('NHWC', 'HWIO', 'NHWC').",
            )
        )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


@operation
def conv_general_permutations(dimension_numbers: tuple[str, str, str]) -> list[tuple[int, ...]]:
    """Return the axes of lhs, rhs and out: first N and C (O and I of rhs), then the spatial axes in the order of rhs.

    >>> conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    [(0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)]
    """
    lhs, rhs, out = dimension_numbers
    spatial = [c for c in rhs if c not in "OI"]
    wanted = (("NC", lhs), ("OI", rhs), ("NC", out))
    if any(sorted(spec) != sorted([*first, *spatial]) for first, spec in wanted) or len(set(rhs)) != len(rhs):
        raise ValueError(
            message(
                "The specs of lhs and out name N, C and each spatial axis, that of rhs O, I and the same.",
                f"dimension_numbers: {dimension_numbers!r}",
                fix="Write them as ('NHWC', 'HWIO', 'NHWC').",
            )
        )
    return [tuple([spec.index(c) for c in [*first, *spatial]]) for first, spec in wanted]
