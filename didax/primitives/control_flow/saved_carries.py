"""Which carries of a loop are saved as the loop goes, in a fixed number of places; and how they are read.

    places = first_saved(h, k);    for i in 1, 2, ...:  h = body(h);  places = save_carry(i, h, *places)

The k places are arrays: `steps`, the step before which the carry in each place was current (-1 for an empty place);
`levels`, which decide between them; and the carries, stacked. The rule makes the schedule of fewest repetitions,
binomial in the number of steps and of places, and does not need to know how many steps there will be (Q. Wang, P.
Moin, G. Iaccarino, Minimal repetition dynamic checkpointing algorithm for unsteady adjoint calculation, SIAM J. Sci.
Comput. 31(4), 2009).
Read next: `checkpointed.py`, the loop that saves; `replay.py`, which reads, and saves what it computes again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core.array_ops import array_ops
from didax.core.avals import aval_of
from didax.primitives.control_flow.common import INT32
from didax.primitives.control_flow.layout import Values
from didax.primitives.convert import iota
from didax.primitives.elementwise import add, and_, eq, gt, lt, or_
from didax.primitives.reductions import argmax_p, reduce_max_p, reduce_or_p
from didax.primitives.select import select_n
from didax.primitives.shape import broadcast_in_dim, reshape
from didax.primitives.slicing import dynamic_slice_p, dynamic_update_slice_p

_MOST = np.int32(np.iinfo(np.int32).max)

# Note [Which carries are saved]
# Each saved carry has a level. While places are empty, every carry is saved, with level 0. Once they are full, a carry
# can be dropped if a later one has a higher level: its place goes to the next carry, with level 0. If no carry can be
# dropped, the place of the last one goes to the next carry, which gets the last one's level and one more. The first
# carry is never dropped: its level is the highest. Going backwards, carries after the current step are dropped, and the
# loop runs from the last saved carry to the current step, and saves by the same rule on the way.


def first_saved(carry: Values, checkpoints: int) -> list[Any]:
    """Steps, levels and carries of the places at the start, where only the first carry is saved."""
    first = eq(iota(INT32, (checkpoints,), 0), 0)
    steps = select_n(first, np.int32(-1), np.int32(0))
    levels = select_n(first, np.int32(0), _MOST)
    return [steps, levels, *(array_ops.broadcast_axis(x, checkpoints + 1, 0) for x in carry)]


def save_carry(
    i: Any, carry: Values, steps: Any, levels: Any, saved: Values, wanted: Any = True
) -> list[Any]:
    """The places after step `i - 1`, with the carry before step `i` saved if the rule says so and it is `wanted`.

    See Note [Which carries are saved].
    """
    k = aval_of(steps).shape[0]
    places = iota(INT32, (k,), 0)
    later_and_higher = and_(
        gt(_by_pairs(steps, 1), _by_pairs(steps, 0)), gt(_by_pairs(levels, 1), _by_pairs(levels, 0))
    )
    droppable = reduce_or_p.bind(later_and_higher, axes=(1,))
    room = select_n(lt(steps, 0), select_n(droppable, np.int32(0), np.int32(1)), np.int32(2))
    has_room = gt(reduce_max_p.bind(room, axes=(0,)), 0)
    last = argmax_p.bind(steps, axes=(0,), index_dtype=INT32)
    place = select_n(has_room, last, argmax_p.bind(room, axes=(0,), index_dtype=INT32))
    above = add(reduce_max_p.bind(select_n(eq(places, last), np.int32(0), levels), axes=(0,)), 1)
    save = and_(and_(gt(i, 0), wanted), or_(has_room, gt(reduce_max_p.bind(steps, axes=(0,)), 0)))
    here = and_(eq(places, place), save)
    steps = select_n(here, steps, broadcast_in_dim(i, (k,), ()))
    levels = select_n(here, levels, broadcast_in_dim(select_n(has_room, above, np.int32(0)), (k,), ()))
    row = select_n(save, np.int32(k), place)  # row k, which nobody reads, if nothing is saved
    return [steps, levels, *(_write(xs, x, row) for xs, x in zip(saved, carry, strict=True))]


def _by_pairs(x: Any, axis: int) -> Any:
    """An array of one value per pair of places (i, j): `x[i]` with axis 0, `x[j]` with axis 1."""
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
