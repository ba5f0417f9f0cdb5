"""Which of the carries of a loop are saved as it goes, in a fixed number of places; and reading them.

    places = first_saved(h, k);    for i in 1, 2, ...:  h = body(h);  places = save_carry(i, h, *places)

The places are `at`, the step before which the carry in each was current (-1: none); `level`, which decides between
them; and the carries, stacked. The rule makes the schedule of fewest repetitions, binomial in the number of steps and
of places, and does not need to know how many steps there will be (Q. Wang, P. Moin, G. Iaccarino, Minimal repetition
dynamic checkpointing algorithm for unsteady adjoint calculation, SIAM J. Sci. Comput. 31(4), 2009).
Read next: `checkpointed.py`, the loop that saves; `fold.py`, which reads, and saves what it computes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import array_ops
from didax.core.avals import aval_of
from didax.primitives.control_flow.common import INT32
from didax.primitives.convert import iota
from didax.primitives.elementwise import add, and_, eq, gt, lt, or_
from didax.primitives.reductions import argmax_p, reduce_max_p, reduce_or_p
from didax.primitives.select import select_n
from didax.primitives.shape import broadcast_in_dim, reshape
from didax.primitives.slicing import dynamic_slice_p, dynamic_update_slice_p

_MOST = np.int32(np.iinfo(np.int32).max)

# Note [Which carries are saved]
# Each saved carry has a level. While there is room a carry is saved before every step, with level 0. Then one that
# has a later one of a higher level gives its place to the next. If there is none, the last one gives its place to the
# next, which gets its level and one more. The first carry stays. Backwards, those after the current step are given
# up, and the loop runs from the last that is left to the current step, saving by the same rule.


def first_saved(carry: Sequence[Any], checkpoints: int) -> list[Any]:
    """Steps, levels and values of what is saved at the start: the first carry."""
    first = eq(iota(INT32, (checkpoints,), 0), 0)
    at = select_n(first, np.int32(-1), np.int32(0))
    level = select_n(first, np.int32(0), _MOST)
    return [at, level, *(array_ops.broadcast_axis(x, checkpoints + 1, 0) for x in carry)]


def save_carry(
    i: Any, carry: Sequence[Any], at: Any, level: Any, saved: Sequence[Any], wanted: Any = True
) -> list[Any]:
    """Save the carry before step `i`, or not. See Note [Which carries are saved]."""
    k = aval_of(at).shape[0]
    places = iota(INT32, (k,), 0)
    later = and_(gt(_along(at, 1), _along(at, 0)), gt(_along(level, 1), _along(level, 0)))
    needless = reduce_or_p.bind(later, axes=(1,))
    room = select_n(lt(at, 0), select_n(needless, np.int32(0), np.int32(1)), np.int32(2))
    has_room = gt(reduce_max_p.bind(room, axes=(0,)), 0)
    last = argmax_p.bind(at, axes=(0,), index_dtype=INT32)
    place = select_n(has_room, last, argmax_p.bind(room, axes=(0,), index_dtype=INT32))
    above = add(reduce_max_p.bind(select_n(eq(places, last), np.int32(0), level), axes=(0,)), 1)
    save = and_(and_(gt(i, 0), wanted), or_(has_room, gt(reduce_max_p.bind(at, axes=(0,)), 0)))
    here = and_(eq(places, place), save)
    at = select_n(here, at, broadcast_in_dim(i, (k,), ()))
    level = select_n(here, level, broadcast_in_dim(select_n(has_room, above, np.int32(0)), (k,), ()))
    row = select_n(save, np.int32(k), place)
    return [at, level, *(_write(xs, x, row) for xs, x in zip(saved, carry, strict=True))]


def _along(x: Any, axis: int) -> Any:
    """A square array of which `x` is each column (axis 0) or row (axis 1)."""
    k = aval_of(x).shape[0]
    return broadcast_in_dim(x, (k, k), (axis,))


def read_saved(xs: Any, row: Any) -> Any:
    """One of the stacked values."""
    shape = aval_of(xs).shape
    window = dynamic_slice_p.bind(xs, row, *[np.int32(0)] * (len(shape) - 1), slice_sizes=(1, *shape[1:]))
    return reshape(window, shape[1:])


def _write(xs: Any, x: Any, row: Any) -> Any:
    update = array_ops.broadcast_axis(x, 1, 0)
    return dynamic_update_slice_p.bind(xs, update, row, *[np.int32(0)] * aval_of(x).ndim)
