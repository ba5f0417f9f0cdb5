"""`ds(start, size)`: a slice of known length in an index, whose start may be traced: `x[ds(i, 3)]`.

Read next: `index_parsing.py`, where it becomes a span.
"""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

from didax.core.dims import as_length
from didax.core.errors import api_boundary, message
from didax.core.tracing import known_value


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """`size` elements from `start` on, at a distance of `stride`; made by `ds`."""

    start: Any
    size: int
    stride: int = 1


@api_boundary
def ds(start: Any, size: Any = None, stride: int | None = None) -> slice | Slice:
    """Return what selects `size` elements from `start` on in an index: `start:start + size*stride:stride`.

    `ds(size)` starts at 0, and `ds(None)` is the whole axis. The start may be traced: one out of range is moved so that
    the elements lie inside, as by `lax.dynamic_slice`, and a negative one counts from the end. Raises TypeError for a
    size that is not known, ValueError for one that is negative and for a stride below 1.

    >>> import didax as dx, didax.numpy as dnp
    >>> x = dnp.arange(10)
    >>> dx.jit(lambda i: x[dx.ds(i, 3)])(4)
    Array([4, 5, 6], dtype=int32)
    >>> x.at[dx.ds(dnp.array(8), 3)].set(0)
    Array([0, 1, 2, 3, 4, 5, 6, 0, 0, 0], dtype=int32)
    """
    if start is None:
        return slice(None)
    start, size = (0, start) if size is None else (start, size)
    try:
        length = as_length(size)
    except TypeError:
        rule = "The size of a slice fixes the shape of the result, so it is an integer that is known."
        fix = "Pass it as a static argument (jit(static_argnames=...))."
        raise TypeError(message(rule, f"size: {size!r:.200}", fix=fix)) from None
    step = 1 if stride is None else operator.index(stride)
    if length < 0 or step < 1:
        rule = "A slice has a size of 0 or more and a stride of 1 or more."
        raise ValueError(
            message(rule, f"size: {size}, stride: {stride}", fix="Use dnp.flip to reverse an axis.")
        )
    known = known_value(start)
    return Slice(start if known is None else operator.index(known), length, step)
