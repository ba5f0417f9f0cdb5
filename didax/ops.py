"""Segment reductions: the rows of an array that have the same number are combined.

    segment_sum(data, ids)[k] = the sum of data[i] over all i with ids[i] == k

An example is the sum over the edges that arrive at each node of a graph. Read next: `numpy/indexing.py`
(`x.at[...]`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import didax.numpy as dnp
from didax.core import dtypes
from didax.core.dims import as_length
from didax.core.errors import ArgumentError, ConcretizationTypeError, api_boundary, message
from didax.core.modules import on_access
from didax.core.tracing import known_value
from didax.core.value import Array
from didax.primitives.reductions import greatest, least

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def segment_sum(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None,
) -> Array:  # fmt: skip
    """Return the sums of the slices data[i] with equal segment_ids[i], 0 for numbers that do not occur.

    Args:
      data: an array with a slice for each number, or one slice or scalar for all of them.
      segment_ids: a vector of integers, as long as `data`. Slices with numbers outside of [0, num_segments) are left
        out.
      num_segments: the number of results, by default one more than the largest number. Needed under jit.
      indices_are_sorted, unique_indices: promises that make the function faster, as in `x.at[...]`.
      bucket_size: sum this many slices at a time, and then the sums: more precise, and more memory.
      mode: what happens to numbers out of range, as in `x.at[...]`.

    >>> import didax.numpy as dnp
    >>> segment_sum(dnp.array([1.0, 2.0, 4.0]), dnp.array([0, 1, 0]))
    Array([5., 2.], dtype=float32)
    """
    options = (indices_are_sorted, unique_indices, bucket_size, mode)
    return _segments(
        "segment_sum", "add", dnp.sum, lambda dtype: 0, data, segment_ids, num_segments, *options
    )


@api_boundary
def segment_prod(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None,
) -> Array:  # fmt: skip
    """Return the products of the slices with equal numbers, 1 for numbers that do not occur.

    The arguments are those of `segment_sum`.

    >>> import didax.numpy as dnp
    >>> segment_prod(dnp.array([3.0, 2.0, 4.0]), dnp.array([0, 1, 0]))
    Array([12.,  2.], dtype=float32)
    """
    options = (indices_are_sorted, unique_indices, bucket_size, mode)
    return _segments(
        "segment_prod", "multiply", dnp.prod, lambda dtype: 1, data, segment_ids, num_segments, *options
    )


@api_boundary
def segment_max(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None,
) -> Array:  # fmt: skip
    """Return the largest elements of the slices with equal numbers; the arguments are those of `segment_sum`.

    A number that does not occur gives the least value of the dtype (-inf).

    >>> import didax.numpy as dnp
    >>> segment_max(dnp.array([3.0, 2.0, 4.0]), dnp.array([0, 1, 0]))
    Array([4., 2.], dtype=float32)
    """
    options = (indices_are_sorted, unique_indices, bucket_size, mode)
    return _segments("segment_max", "max", dnp.max, least, data, segment_ids, num_segments, *options)


@api_boundary
def segment_min(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None,
) -> Array:  # fmt: skip
    """Return the smallest elements of the slices with equal numbers; the arguments are those of `segment_sum`.

    A number that does not occur gives the greatest value of the dtype (inf).

    >>> import didax.numpy as dnp
    >>> segment_min(dnp.array([3.0, 2.0, 4.0]), dnp.array([0, 1, 0]))
    Array([3., 2.], dtype=float32)
    """
    options = (indices_are_sorted, unique_indices, bucket_size, mode)
    return _segments("segment_min", "min", dnp.min, greatest, data, segment_ids, num_segments, *options)


def _segments(
    name: str, update: str, reduce: Callable[..., Array], identity: Callable[[np.dtype[Any]], Any],
    data: Any, segment_ids: Any, num_segments: int | None,
    is_sorted: bool, unique: bool, bucket_size: int | None, mode: Any,
) -> Array:  # fmt: skip
    x, ids = dnp.asarray(data), dnp.asarray(segment_ids)
    if ids.ndim != 1 or x.shape[:1] not in ((), (1,), ids.shape) or not dtypes.is_integer(ids.dtype):
        rule, facts = (
            f"{name} takes an integer for each slice of data.",
            f"data: {x.aval}, segment_ids: {ids.aval}",
        )
        raise ArgumentError(message(rule, facts, fix="Cast them, or map over other axes with vmap."))
    x = dnp.broadcast_to(x, (*ids.shape, *x.shape[1:]))
    count = _count(name, ids) if num_segments is None else as_length(num_segments)
    if count < 0:
        facts, fix = f"num_segments: {count}", "Pass 0 or more."
        raise ValueError(message(f"{name} has so many results as there are segments.", facts, fix=fix))
    ids = ids.astype(np.int32 if dtypes.is_packed(ids.dtype) else np.promote_types(ids.dtype, np.int32))
    # Negative numbers are out of range here; they do not count from the end.
    options = {
        "indices_are_sorted": is_sorted, "unique_indices": unique, "mode": mode, "wrap_negative_indices": False
    }  # fmt: skip
    empty = identity(x.dtype)
    if not count:
        return dnp.zeros((0, *x.shape[1:]), x.dtype)
    if bucket_size is None:
        return getattr(dnp.full((count, *x.shape[1:]), empty, x.dtype).at[ids], update)(x, **options)
    buckets = -(-ids.size // max(operator.index(bucket_size), 1))
    parts = dnp.full((buckets, count, *x.shape[1:]), empty, x.dtype)
    place = (dnp.arange(ids.size) // bucket_size, ids)
    parts = getattr(parts.at[place], update)(x, **options)
    return reduce(parts, axis=0, initial=empty).astype(x.dtype)


def _count(name: str, ids: Array) -> int:
    known = known_value(ids)
    if known is None:
        rule = f"The length of the result of {name} depends on values, not known while tracing."
        fix = "Give num_segments, one more than the largest number."
        raise ConcretizationTypeError(message(rule, f"segment_ids: {ids.aval}", fix=fix))
    return int(np.max(np.asarray(known), initial=-1)) + 1
