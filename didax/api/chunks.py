"""`vmap` of a few elements at a time: a scan over chunks of the batch, whose peak memory is that of one chunk.

Read next: `vmap.py`, and `didax/lax/loops.py` for `map(batch_size=)`, which is the same with other defaults.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.api.flat import as_array
from didax.api.traced import TracedFunction
from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_count, is_symbolic
from didax.core.errors import message
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.primitives.control_flow.common import COUNT
from didax.primitives.control_flow.layout import BodyLayout, merge, split_at, where_false, where_true
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.convert import iota
from didax.primitives.elementwise import add, mul
from didax.primitives.filled import zeros
from didax.primitives.shape import reshape
from didax.primitives.slicing import concatenate, dynamic_update_slice_p, slice_axis
from didax.transforms.batching import AxisData, batch_jaxpr, move_batch_axis
from didax.transforms.staging import trace_to_jaxpr

# For each result, its axis of the rows: one that is not the first is written by a loop.
Places = Sequence[int]


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


def is_chunked(chunk_size: int, length: Any) -> bool:
    """Whether so many elements are more than one chunk; an error where their number is symbolic."""
    if is_symbolic(length):
        raise ValueError(
            message(
                "With a chunk_size, a program has as many chunks as the batch needs, whose length has to be known.",
                f"length: {length}, chunk_size: {chunk_size}",
                fix="Drop chunk_size in programs of symbolic sizes, or write the chunks by lax.fori_loop.",
            )
        )
    return chunk_size < length


def map_chunks(
    body: TracedFunction, rows: Sequence[Any], length: int, size: int, axes: Sequence[int] | None = None
) -> tuple[list[Any], list[int]]:
    """Results for all rows, and the axis of each result that runs over the rows.

    A result that does not depend on the row has such an axis, too. The axis is the one that `axes` names, or the first
    one. See Note [Chunks of columns].
    """
    avals = body.out_avals
    wanted = (0,) * len(avals) if axes is None else axes
    places = [axis if _may_be_written(aval) else 0 for aval, axis in zip(avals, wanted, strict=True)]
    columns = [
        zeros(aval.update(shape=(*aval.shape[:axis], length, *aval.shape[axis:])))
        for aval, axis in zip(avals, places, strict=True)
        if axis
    ]
    whole = length - length % size
    columns, *parts = _map_whole(body, rows, places, columns, 0, whole, size)
    if whole < length:
        columns, part = _map_whole(body, rows, places, columns, whole, length, length - whole)
        parts.append(part)
    stacked = [concatenate(ys, 0) for ys in zip(*parts, strict=True)]
    return merge([axis > 0 for axis in places], columns, stacked), places


def depends_on_rows(body: TracedFunction, count: int) -> tuple[bool, ...]:
    """Which results of a function of `count` rows differ from row to row."""
    dims = (None,) * len(body.captured) + (0,) * count
    return batch_jaxpr(body.jaxpr, AxisData(None, 2), dims)[1]


def map_rows(
    jaxpr: Jaxpr, captured: Sequence[Any], carry: Sequence[Any], rows: Sequence[Any], length: int
) -> list[Any]:
    """A scan of the jaxpr along the rows."""
    args, sizes = BodyLayout.join(captured, carry, rows)
    outs = scan_p.bind(*args, jaxpr=jaxpr, **sizes, length=length, reverse=False, unroll=1)
    return [as_array(y) for y in outs]


def _map_whole(
    body: TracedFunction,
    rows: Sequence[Any],
    places: Places,
    columns: list[Any],
    start: int,
    stop: int,
    size: int,
) -> tuple[list[Any], list[Any]]:
    """Results for the rows from `start` to `stop`, `size` at a time: the columns with them, and what is stacked."""
    count = (stop - start) // size
    dims = (None,) * len(body.captured) + (0,) * len(rows)
    batched, _ = batch_jaxpr(body.jaxpr, AxisData(None, size), dims, (True,) * len(places))
    chunks = [slice_axis(x, start, stop, 0) for x in rows]
    chunks = [reshape(x, (count, size, *aval_of(x).shape[1:])) for x in chunks]
    if columns:
        batched = _writing(batched, len(body.captured), places, columns, start, size)
        chunks.insert(0, iota(COUNT.dtype, (count,), 0))
    outs = map_rows(batched, body.captured, columns, chunks, count)
    columns, stacked = split_at(outs, len(columns))
    return columns, [reshape(y, (count * size, *y.shape[2:])) for y in stacked]


# Note [Chunks of columns]. A scan stacks results along the first axis. Those that belong along another one, as the
# columns of a Jacobian, would be stacked and transposed, in twice their memory. So the loop carries the whole result,
# zeros at first, and writes each chunk where it belongs.


def _may_be_written(aval: ShapedArray) -> bool:
    """Whether a loop may carry zeros of the type: not keys, and nothing that has a place on devices."""
    is_number = dtypes.as_extended(aval.dtype) is None and aval.dtype != dtypes.float0
    return is_number and not aval.vma and aval.layout is None


def _writing(
    batched: Jaxpr, num_captured: int, places: Places, columns: Sequence[Any], first: int, size: int
) -> Jaxpr:
    """The jaxpr of a chunk, which takes the columns and its own number too, and returns the columns with its own."""

    def step(*args: Any) -> list[Any]:
        captured, held, (number,), chunk = split_at(args, num_captured, len(columns), 1)
        start = add(mul(number, np.int32(size)), np.int32(first))
        outs = eval_jaxpr(batched, [*captured, *chunk])
        is_column = [axis > 0 for axis in places]
        new = [
            _written(old, move_batch_axis(y, 0, axis, 0), start, axis)
            for old, y, axis in zip(
                held, where_true(outs, is_column), where_true(places, is_column), strict=True
            )
        ]
        return [*new, *where_false(outs, is_column)]

    captured, chunk = split_at(batched.in_avals, num_captured)
    avals = [*captured, *map(aval_of, columns), COUNT, *chunk]
    return trace_to_jaxpr(step, avals, what="vmap")[0]


def _written(columns: Any, chunk: Any, start: Any, axis: int) -> Any:
    starts = [np.int32(0)] * aval_of(columns).ndim
    starts[axis] = start
    return dynamic_update_slice_p.bind(columns, chunk, *starts)
