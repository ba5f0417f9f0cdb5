"""Bodies of loops in forward mode, over batches, and without the parts that are not needed.

A body maps constants, the carry and a row of each of the xs to the next carry and a row of each of the ys. A part of
the carry has a tangent, a batch axis or a use in every step if it has one in any step: these functions take the mask
of the first step, extend it to the least mask that the body keeps (`fixpoint`), and transform the body for that one.
Read next: `halves.py`, bodies in two parts; `transposition.py`, bodies in reverse mode.
"""

from __future__ import annotations

from didax.core.jaxpr import Jaxpr
from didax.passes.simplify import dce_jaxpr
from didax.primitives.control_flow.common import with_invars
from didax.primitives.control_flow.layout import BodyLayout, Mask, all_false, fixpoint, split_at, where_true
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.jvp import Forward, jvp_jaxpr


@cached_on_jaxpr
def jvp_body(
    jaxpr: Jaxpr, layout: BodyLayout, nonzero_in: Mask, forward: Forward = jvp_jaxpr
) -> tuple[Jaxpr, Mask]:
    """The body on primals and tangents, and which results have a tangent.

    In each part of its inputs and of its results the primals come first, then the tangents that are not zero.
    """
    consts, start, xs = layout.split(nonzero_in)
    num_carry = layout.num_carry
    num_ys = len(jaxpr.outvars) - num_carry

    def step(carry: Mask) -> tuple[Jaxpr, Mask]:
        return forward(jaxpr, (*consts, *carry, *xs), (*carry, *all_false(num_ys)))

    carry = fixpoint(start, lambda mask: step(mask)[1][:num_carry])
    new, nonzero_out = step(carry)
    primals, tangents = split_at(new.invars, len(jaxpr.invars))
    dots = split_at(tangents, sum(consts), sum(carry))
    invars = [v for pair in zip(layout.split(primals), dots, strict=True) for part in pair for v in part]
    after, ys, after_dots, y_dots = split_at(new.outvars, num_carry, num_ys, sum(carry))
    return Jaxpr(invars, new.eqns, [*after, *after_dots, *ys, *y_dots], new.name), nonzero_out


@cached_on_jaxpr
def batch_body(
    jaxpr: Jaxpr,
    axis: AxisData,
    const_dims: tuple[int | None, ...],
    start: Mask,
    row_dims: tuple[int | None, ...] = (),
) -> tuple[Jaxpr, Mask]:
    """The body over a batch, and which results have a batch axis; `start` tells the parts of the carry that do.

    The batch axis is the first of the carry and of the results.
    """
    num_carry = len(start)
    ys = all_false(len(jaxpr.outvars) - num_carry)

    def step(carry: Mask) -> tuple[Jaxpr, Mask]:
        return batch_jaxpr(jaxpr, axis, (*const_dims, *batch_dims(carry), *row_dims), (*carry, *ys))

    return step(fixpoint(start, lambda mask: step(mask)[1][:num_carry]))


def batch_dims(batched: Mask) -> tuple[int | None, ...]:
    """The batch axis of each value: the first axis of a batched value, None of another."""
    return tuple(0 if b else None for b in batched)


@cached_on_jaxpr
def dce_body(jaxpr: Jaxpr, layout: BodyLayout, used: Mask) -> tuple[Jaxpr, Mask, Mask]:
    """The body without what no used result depends on, and which of its inputs and of its results are left."""
    start, ys = layout.split_results(used)
    carry = fixpoint(start, lambda mask: layout.split(dce_jaxpr(jaxpr, (*mask, *ys))[1])[1])
    small, used_in = dce_jaxpr(jaxpr, (*carry, *ys))
    consts, _, xs = layout.split(used_in)
    used_in = (*consts, *carry, *xs)
    return with_invars(small, where_true(jaxpr.invars, used_in)), used_in, (*carry, *ys)
