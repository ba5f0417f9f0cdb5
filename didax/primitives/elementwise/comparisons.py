"""Comparisons: bools that say which elements of two arrays are equal, or smaller, or larger.

Random keys are not numbers, so they are only compared for equality: two keys are equal where all of their words are.
Read next: `arithmetic.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core.avals import ShapedArray
from didax.primitives.convert import convert_element_type
from didax.primitives.families import Elementwise, binary
from didax.primitives.shape import broadcast_in_dim, reduce_sum

_BOOL = np.dtype(np.bool_)


def to_bool(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the result of a comparison."""
    return _BOOL


def comparison(
    name: str, eager: Callable[..., Any], accepts: str = "biuf", physical: Callable[..., Any] | None = None
) -> Elementwise:
    """A comparison: the StableHLO direction is the name in capitals."""
    return binary(name, eager=eager, accepts=accepts, out_dtype=to_bool, physical=physical,
                  lower=lambda ctx, x, y: ctx.compare(name.upper(), x, y))  # fmt: skip


def _count_differences(avals: Sequence[ShapedArray], *xs: Any) -> Any:
    """How many of the integers behind each two elements of an extended dtype differ; scalars stretch."""
    longest = max(avals, key=lambda aval: aval.ndim)
    shape = longest.physical.shape
    axes = [(*range(aval.ndim), *range(longest.ndim, len(shape))) for aval in avals]
    x, y = [broadcast_in_dim(x, shape, dims) for x, dims in zip(xs, axes, strict=True)]
    differs = convert_element_type(ne(x, y), np.dtype(np.uint32), False)
    return reduce_sum(differs, tuple(range(longest.ndim, len(shape))))


eq = comparison("eq", np.equal, accepts="biufcx",
                physical=lambda avals, x, y: eq(_count_differences(avals, x, y), 0))  # fmt: skip
ne = comparison("ne", np.not_equal, accepts="biufcx",
                physical=lambda avals, x, y: ne(_count_differences(avals, x, y), 0))  # fmt: skip
lt = comparison("lt", np.less)
le = comparison("le", np.less_equal)
gt = comparison("gt", np.greater)
ge = comparison("ge", np.greater_equal)
