"""What all reductions share: the type of the result, where a batch axis goes, and how long rows are cut.

Read next: `shape.py` (the sum), `reductions.py` (the others).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.errors import ArgumentError, message


def reduced_aval(name: str, x: ShapedArray, axes: tuple[int, ...], accepts: str) -> ShapedArray:
    """Type of a reduction over `axes`; TypeError for a dtype or axes it cannot take."""
    if dtypes.kind_of(x.dtype) not in accepts:
        raise TypeError(
            message(f"{name} cannot reduce this dtype.", f"operand: {x}", fix="Cast it first (x.astype).")
        )
    if len(set(axes)) != len(axes) or any(not 0 <= i < x.ndim for i in axes):
        raise ArgumentError(
            message(
                f"{name} takes distinct axes of its operand.",
                f"operand: {x}, axes: {axes}",
                fix=f"Name axes from 0 to {x.ndim - 1}, each at most once."
                if x.ndim
                else "A scalar has no axes: use axes=().",
            )
        )
    return x.update(shape=tuple(n for i, n in enumerate(x.shape) if i not in axes))


def batched_axes(axes: Sequence[int], dim: int) -> tuple[tuple[int, ...], int]:
    """Axes of the batched operand for axes of one element, and where the batch axis lands when they are removed."""
    inner = tuple(i + (i >= dim) for i in axes)
    return inner, dim - sum(i < dim for i in inner)


def reduced_from(ndim: int, axes: Sequence[int]) -> int:
    """The first of the innermost axes, as far as they are all reduced; `ndim` where the last one is not."""
    first = ndim
    while first - 1 in axes:
        first -= 1
    return first


@functools.lru_cache(maxsize=1024)
def cut_row(length: int, *, lanes: int, rows: int) -> tuple[int, int, int] | None:
    """(blocks, rows, lanes) whose product is `length`, the last two near what is asked for; None if there are none.

    The rows of a block are combined first: XLA's loops use vector instructions where the last axis stays. A length is
    cut only into equal parts, because XLA copies an array before it takes a part of it as another shape.
    """
    for width in _near(lanes):
        if length % width == 0:
            for height in _near(rows):
                if length // width % height == 0:
                    return length // (width * height), height, width
    return None


def _near(wish: int) -> list[int]:
    """Numbers from a quarter to twice the wish, the nearest first."""
    return sorted(range(wish // 4, 2 * wish), key=lambda n: abs(n - wish))
