"""Batches of which only some elements take part in a computation: those are active, the others inactive.

A batched branch or loop computes on whole batches, and what it computes for inactive elements is dropped. The values
of an inactive element may be such that the computation fails, never ends, or has no finite derivative there. So
copies of an active element go in instead of them (`fill_inactive`). `active` is an array of one bool per element.
Read next: `masked.py`, loops of batches; `cond.py`, branches of batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import array_ops
from didax.core.avals import aval_of
from didax.primitives.control_flow.common import INT32
from didax.primitives.control_flow.layout import Values
from didax.primitives.convert import stop_gradient_p
from didax.primitives.keys import impl_of, random_clone_p
from didax.primitives.reductions import argmax_p
from didax.primitives.select import select_n
from didax.primitives.shape import broadcast_in_dim
from didax.primitives.slicing import dynamic_slice_p
from didax.transforms.batching import AxisData


def batch_first(axis: AxisData, x: Any, dim: int | None) -> Any:
    """`x` with its batch axis first; an `x` that has no batch axis is repeated along a new one.

    Keys are cloned with that: each element of the batch is to use them as if it were alone.
    """
    if dim is not None:
        return array_ops.move_axis(x, dim, 0)
    repeated = array_ops.broadcast_axis(x, axis.size, 0)
    return repeated if impl_of(aval_of(x).dtype) is None else random_clone_p.bind(repeated)


def batch_carry(
    axis: AxisData, carry: Values, dims: Sequence[int | None], batched: Sequence[bool]
) -> list[Any]:
    """The carry, with the batch axis first in the parts that are batched. `dims` says where the batch axes are now."""
    parts = zip(carry, dims, batched, strict=True)
    return [batch_first(axis, x, dim) if b else x for x, dim, b in parts]


def along_first(x: Any, like: Any) -> Any:
    """`x`, which has one value for each element of the batch, broadcast to the shape of `like`."""
    return broadcast_in_dim(x, aval_of(like).shape, (0,))


def select_active(active: Any, x: Any, other: Any) -> Any:
    """`x` at active elements, `other` at inactive ones."""
    return select_n(along_first(active, x), other, x)


def replace_inactive(active: Any, x: Any, other: Any) -> Any:
    """`x` at active elements; at inactive ones `other`, through which no tangent flows."""
    return select_n(along_first(active, x), stop_gradient_p.bind(other), x)


def fill_inactive(active: Any, x: Any, dim: int = 0, *, linear: bool = False) -> Any:
    """The batch `x`, whose axis is `dim`, with a copy of an active element in place of each inactive one.

    No tangent flows through the copies, except where `x` may be `linear`, since `stop_gradient` has no transpose: what
    is computed for inactive elements must then be dropped.
    """
    x = array_ops.move_axis(x, dim, 0)
    if linear:
        x = select_n(along_first(active, x), _first_active(active, x), x)
    else:
        x = replace_inactive(active, x, _first_active(active, x))
    return array_ops.move_axis(x, 0, dim)


def _first_active(active: Any, x: Any) -> Any:
    """The first active element of the batch, repeated to the shape of `x`."""
    i = argmax_p.bind(active, axes=(0,), index_dtype=INT32)
    shape = aval_of(x).shape
    row = dynamic_slice_p.bind(x, i, *[np.int32(0)] * (len(shape) - 1), slice_sizes=(1, *shape[1:]))
    return broadcast_in_dim(row, shape, tuple(range(len(shape))))
