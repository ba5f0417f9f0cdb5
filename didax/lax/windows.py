"""Reductions over windows that move along the axes, for pooling.

Read next: `primitives/windows.py`; `didax.nn` for pooling layers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from didax.core.avals import aval_of
from didax.core.errors import api_boundary, message
from didax.core.primitive import Primitive
from didax.core.tracing import known_value
from didax.core.value import Array
from didax.lax.convolution import padtype_to_pads
from didax.lax.reductions import elementwise_scalar, monoid_of
from didax.primitives import elementwise
from didax.primitives.windows import (
    ReduceWindow,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
)

__all__ = ["reduce_window", "reduce_window_shape_tuple"]

_MONOIDS: dict[Primitive, ReduceWindow] = {
    elementwise.add: reduce_window_sum_p,
    elementwise.max_: reduce_window_max_p,
    elementwise.min_: reduce_window_min_p,
}


@api_boundary
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Array:
    """Combine the elements of each window; windows move along every axis by `window_strides` (default 1).

    `computation` is `lax.add` (with init value 0), `lax.max` or `lax.min`. `padding` is "VALID", "SAME",
    "SAME_LOWER" or pairs (low, high), and is filled with `init_value`. The derivative of an extremum goes to
    the first element that attains it. NotImplementedError for any other computation.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_window(np.float32([1, 4, 2, 3]), -np.inf, lax.max, (2,), (2,), "VALID")
    Array([4., 3.], dtype=float32)
    """
    aval = aval_of(operand)
    init = elementwise_scalar(init_value, aval.dtype)
    primitive = monoid_of(lambda xs, ys: [computation(xs[0], ys[0])], [aval.dtype])
    reduction = _MONOIDS.get(primitive) if primitive is not None else None
    known = known_value(init)
    is_identity = reduction is not None and known is not None and known == reduction.identity(aval.dtype)
    if reduction is None or (reduction is reduce_window_sum_p and not is_identity):
        raise NotImplementedError(
            message(
                "Windows are reduced by lax.add with init value 0, by lax.max or by lax.min.",
                f"computation: {getattr(computation, '__name__', computation)}, init_value: {init_value}",
                fix="Slice the operand once for each element of the window and combine the slices.",
            )
        )
    ones = (1,) * aval.ndim
    sizes = _entries(window_dimensions)
    strides = ones if window_strides is None else _entries(window_strides)
    spread = ones if base_dilation is None else _entries(base_dilation)
    dilation = ones if window_dilation is None else _entries(window_dilation)
    out = reduction.bind(
        operand,
        window_dimensions=sizes,
        window_strides=strides,
        padding=_padding(aval.shape, padding, (sizes, strides, spread, dilation)),
        base_dilation=spread,
        window_dilation=dilation,
    )
    return out if is_identity or primitive is None else primitive.bind(init, out)


@api_boundary
def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The shape of the result of `reduce_window`; an axis that the window leaves alone may be -1.

    >>> reduce_window_shape_tuple((-1, 28, 28, 3), (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    (-1, 14, 14, 3)
    """
    ones = (1,) * len(operand_shape)
    sizes, strides, spread, dilation = [
        _entries(entries or ones)
        for entries in (window_dimensions, window_strides, base_dilation, window_dilation)
    ]
    pads = _padding(operand_shape, padding, (sizes, strides, spread, dilation))
    padded = [
        (n - 1) * d + 1 + low + high if n else low + high
        for n, d, (low, high) in zip(operand_shape, spread, pads, strict=True)
    ]
    reach = [(k - 1) * d + 1 for k, d in zip(sizes, dilation, strict=True)]
    return tuple(
        [
            n if known < 0 else max((n - k) // s + 1, 0)
            for known, n, k, s in zip(operand_shape, padded, reach, strides, strict=True)
        ]
    )


def _padding(
    shape: Sequence[int], padding: Any, windows: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, int], ...]:
    if not isinstance(padding, str):
        return tuple((operator.index(low), operator.index(high)) for low, high in padding)
    if any(len(entries) != len(shape) for entries in windows):
        return ((0, 0),) * len(shape)  # the primitive says which of them lacks an entry
    sizes, strides, spread, dilation = windows
    lengths = [max((n - 1) * d + 1, 0) for n, d in zip(shape, spread, strict=True)]
    reach = [(n - 1) * d + 1 for n, d in zip(sizes, dilation, strict=True)]
    return tuple(padtype_to_pads(lengths, reach, strides, padding))


def _entries(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(operator.index(n) for n in values)
