"""`ragged_all_to_all`: each element of a mapped axis sends slices of its own lengths to the others.

Every element gathers all arrays, and takes from them the rows that are for it: XLA has an operation for this on
accelerators only. Read next: `parallel.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.api.flat import as_array
from didax.core import dtypes
from didax.core.errors import ArgumentError, message
from didax.lax.operands import operation
from didax.lax.parallel import IndexGroups, all_gather, all_to_all, axis_size
from didax.lax.slicing import GatherDimensionNumbers, gather
from didax.primitives.convert import convert_element_type, iota
from didax.primitives.elementwise import add, and_, clamp, ge, lt, sub
from didax.primitives.reductions import reduce_max_p
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, reshape

__all__ = ["ragged_all_to_all"]

_INT32 = np.dtype(np.int32)


@operation
def ragged_all_to_all(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: str,
    axis_index_groups: IndexGroups = None,
) -> Any:
    """Send slices of rows to the elements of the mapped axis, and write what arrives into `output`.

    The vectors have one number for each element of the axis (or several, equally many for each, element by element).
    `send_sizes[i]` rows from `input_offsets[i]` on go to element i, which writes them from `output_offsets[i]` on.
    `recv_sizes` says what arrives, and follows from the others. Rows of `output` that nothing is written to stay.
    Raises ArgumentError for vectors of other lengths or dtypes.

    >>> import didax as dx, didax.numpy as dnp
    >>> from didax import lax
    >>> x, zeros = dnp.array([[1, 2, 2], [3, 4, 0]]), dnp.zeros((2, 4), int)
    >>> numbers = [dnp.array(n) for n in ([[0, 1], [0, 1]], [[1, 2], [1, 1]], [[0, 0], [1, 2]], [[1, 1], [2, 1]])]
    >>> dx.vmap(lambda *args: lax.ragged_all_to_all(*args, axis_name="i"), axis_name="i")(x, zeros, *numbers)
    Array([[1, 3, 0, 0],
           [2, 2, 4, 0]], dtype=int32)
    """
    rows, out = as_array(operand), as_array(output)
    size = len(axis_index_groups[0]) if axis_index_groups else axis_size(axis_name)
    numbers = [as_array(x) for x in (input_offsets, send_sizes, output_offsets, recv_sizes)]
    _check(rows, out, numbers, size)
    groups: Any = {"axis_index_groups": axis_index_groups}
    per_element = numbers[0].shape[0] // size

    def received(x: Any) -> Any:
        """One number for each slice that is for this element, by the elements that they come from."""
        x = reshape(convert_element_type(x, _INT32), (size, per_element))
        found = all_to_all(x, axis_name, 0, 0, **groups)
        return broadcast_in_dim(
            reshape(found, (size * per_element,)), (size * per_element, out.shape[0]), (0,)
        )

    starts, lengths, places = map(received, numbers[:3])
    n = rows.shape[0]
    row = iota(_INT32, starts.shape, 1)
    arrives = and_(ge(row, places), lt(row, add(places, lengths)))
    sender = np.repeat(np.arange(size, dtype=_INT32), per_element)
    first = broadcast_in_dim(as_array(sender * np.int32(n)), starts.shape, (0,))
    source = where(arrives, add(first, add(starts, sub(row, places))), np.int32(-1))
    chosen = reduce_max_p.bind(source, axes=(0,))
    everyone = all_gather(rows, axis_name, axis=0, tiled=True, **groups)
    if not rows.size or not out.size:
        return out
    window = GatherDimensionNumbers(tuple(range(1, out.ndim)), (0,), (0,))
    positions = reshape(clamp(np.int32(0), chosen, np.int32(size * n - 1)), (out.shape[0], 1))
    taken = gather(everyone, positions, window, (1, *rows.shape[1:]), mode="clip")
    written = broadcast_in_dim(ge(chosen, np.int32(0)), out.shape, (0,))
    return where(written, taken, out)


def _check(rows: Any, out: Any, numbers: Any, size: int) -> None:
    vectors = all(x.ndim == 1 and x.shape == numbers[0].shape and dtypes.is_integer(x.dtype) for x in numbers)
    if not vectors or not numbers[0].shape[0] or numbers[0].shape[0] % size:
        rule = (
            "Offsets and sizes of ragged_all_to_all are vectors of integers, equally many for each element."
        )
        facts = f"elements: {size}, vectors: {', '.join(str(x.aval) for x in numbers)}"
        raise ArgumentError(
            message(rule, facts, fix="Pass one number, or more, for each element of the axis.")
        )
    if rows.ndim < 1 or rows.ndim != out.ndim or rows.shape[1:] != out.shape[1:] or rows.dtype != out.dtype:
        rule = "The rows that ragged_all_to_all sends are rows of the output."
        raise ArgumentError(
            message(rule, f"operand: {rows.aval}, output: {out.aval}", fix="Reshape or cast one.")
        )
