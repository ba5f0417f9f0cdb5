"""`vmap` of a few elements at a time: a scan over chunks of the batch, whose peak memory is that of one chunk.

Read next: `vmap.py`, and `didax/lax/loops.py` for `map(batch_size=)`, which is the same with other defaults.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from didax.api.flat import as_array
from didax.api.traced import TracedFunction
from didax.core.avals import aval_of
from didax.core.dims import is_count
from didax.core.errors import message
from didax.core.jaxpr import Jaxpr
from didax.primitives.control_flow.layout import BodyLayout
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.shape import reshape
from didax.primitives.slicing import concatenate, slice_axis
from didax.transforms.batching import AxisData, batch_jaxpr


def checked_size(caller: str, name: str, size: Any) -> int | None:
    """The number of elements at a time; an error unless it is a positive integer or None."""
    if size is None:
        return None
    if not is_count(size):
        raise (ValueError if isinstance(size, int) else TypeError)(
            message(
                f"The {name} of {caller} is how many elements are mapped at a time.",
                f"{name}: {size!r:.100} of type {type(size).__name__}",
                fix="Pass a positive integer, or None.",
            )
        )
    return operator.index(size)


def map_chunks(body: TracedFunction, rows: Sequence[Any], length: int, size: int) -> list[Any]:
    """Results for all rows, along new leading axes; what does not depend on the row has one too."""
    whole = length - length % size
    parts = [_map_whole(body, [slice_axis(x, 0, whole, 0) for x in rows], whole // size, size)]
    if whole < length:
        rest = [slice_axis(x, whole, length, 0) for x in rows]
        parts.append(_map_whole(body, rest, 1, length - whole))
    return [concatenate(ys, 0) for ys in zip(*parts, strict=True)]


def depends_on_rows(body: TracedFunction, count: int) -> tuple[bool, ...]:
    """Which results of a function of `count` rows are other ones for each."""
    dims = (None,) * len(body.captured) + (0,) * count
    return batch_jaxpr(body.jaxpr, AxisData(None, 2), dims)[1]


def map_rows(
    jaxpr: Jaxpr, captured: Sequence[Any], carry: Sequence[Any], rows: Sequence[Any], length: int
) -> list[Any]:
    """A scan of the jaxpr along the rows."""
    args, sizes = BodyLayout.join(captured, carry, rows)
    outs = scan_p.bind(*args, jaxpr=jaxpr, **sizes, length=length, reverse=False, unroll=1)
    return [as_array(y) for y in outs]


def _map_whole(body: TracedFunction, rows: Sequence[Any], count: int, size: int) -> list[Any]:
    """Results for `count` chunks of `size` rows."""
    dims = (None,) * len(body.captured) + (0,) * len(rows)
    batched, _ = batch_jaxpr(body.jaxpr, AxisData(None, size), dims, (True,) * len(body.jaxpr.outvars))
    chunks = [reshape(x, (count, size, *aval_of(x).shape[1:])) for x in rows]
    outs = map_rows(batched, body.captured, (), chunks, count)
    return [reshape(y, (count * size, *y.shape[2:])) for y in outs]
