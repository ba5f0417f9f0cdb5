"""Loops over batches whose elements take different numbers of steps.

Note [Elements that have finished]
The body runs on the whole batch for as long as any element continues. For an element that has finished it computes on,
and what it computes is dropped: the element keeps what it has. Values that were not meant for the body may make it
fail, run forever, or have no finite derivative. So a body where this matters is given copies of an element that
continues in their place (`fill_inactive`). A collective over the batched axis needs every element in every step, so
a loop that some elements leave before others cannot hold one (`check_collectives`).

Each function here makes the body of one such loop, which also carries what decides who continues.
Read next: `batches.py`; then the loops: `while_loop.py`, `counted.py`, `bounded.py`, `replay.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core import config, dtypes
from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.passes.checkify import CHECK
from didax.primitives.control_flow.batches import along_first, fill_inactive, select_active
from didax.primitives.control_flow.common import BOOL, COUNT, INT32, may_not_end
from didax.primitives.control_flow.layout import Values, split_at
from didax.primitives.convert import ConvertElementType, convert_element_type
from didax.primitives.elementwise import add, and_, lt, sub
from didax.primitives.families import Elementwise
from didax.primitives.reductions import reduce_or_p
from didax.primitives.select import SelectN, select_n
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import trace_closed

Dims = tuple[int | None, ...]


def check_collectives(axis: AxisData, *jaxprs: Jaxpr) -> None:
    """ValueError for a collective over the axis in a loop that some of its elements leave before others."""
    if any(axis.name in jaxpr.axis_names for jaxpr in jaxprs):
        raise ValueError(
            message(
                "A loop that some elements of a mapped axis leave before others cannot hold a collective over "
                "that axis.",
                f"axis {axis.name!r} of {axis.size} elements",
                fix=f"Stop by a condition all elements share (lax.pmax(pred, {axis.name!r})), or compute the "
                "collective outside of the loop.",
            )
        )


# --- Conditions that differ -----------------------------------------------------------------------


@cached_on_jaxpr
def masked_while(body: Jaxpr, cond: Jaxpr, axis: AxisData, const_dims: Dims) -> tuple[Jaxpr, Jaxpr]:
    """Condition and body, given both over batches, of a loop that first carries which elements continue.

    The body takes the constants of the condition, then its own, whose batch axes are `const_dims`.
    """
    consts, carry = split_at(body.in_avals, len(const_dims))
    cond_consts, _ = split_at(cond.in_avals, len(cond.invars) - len(carry))

    def step(*args: Any) -> list[Any]:
        cond_args, const_args, (pred,), carry = split_at(args, len(cond_consts), len(const_dims), 1)
        carry = _masked_step(body, pred, const_args, carry, const_dims)
        return [eval_jaxpr(cond, [*cond_args, *carry])[0], *carry]

    carry = [ShapedArray((axis.size,), BOOL), *carry]
    return _any_continues(carry), trace_closed(step, [*cond_consts, *consts, *carry], what="vmap")


@cached_on_jaxpr
def masked_while_anew(body: Jaxpr, cond: Jaxpr, const_dims: Dims) -> tuple[Jaxpr, Jaxpr]:
    """`masked_while` for a condition computed twice for each step, if it `costs_little`: nothing more is carried.

    Memory is neither written nor read for the condition then: XLA fuses it with the step.
    """
    consts, carry = split_at(body.in_avals, len(const_dims))
    cond_consts, _ = split_at(cond.in_avals, len(cond.invars) - len(carry))

    def step(*args: Any) -> list[Any]:
        cond_args, const_args, carry = split_at(args, len(cond_consts), len(const_dims))
        return _masked_step(body, eval_jaxpr(cond, [*cond_args, *carry])[0], const_args, carry, const_dims)

    def any_continues(*args: Any) -> list[Any]:
        return [reduce_or_p.bind(eval_jaxpr(cond, args)[0], axes=(0,))]

    continues = trace_closed(any_continues, cond.in_avals, what="vmap")
    return continues, trace_closed(step, [*cond_consts, *consts, *carry], what="vmap")


def costs_little(cond: Jaxpr) -> bool:
    """Whether a condition is a few elementwise operations, without effects."""
    kinds = (Elementwise, SelectN, ConvertElementType)
    return len(cond.eqns) <= _FEW and all([isinstance(eqn.primitive, kinds) for eqn in cond.eqns])


_FEW = 4


def _masked_step(body: Jaxpr, pred: Any, const_args: Values, carry: Values, const_dims: Dims) -> list[Any]:
    """One step of the elements for which `pred` holds; the others keep what they have."""
    entering = [*const_args, *carry]
    checks = CHECK in body.effects or config.state().error_checking_behavior_oob == "raise"
    if checks or may_not_end(body):
        entering = _filled(pred, entering, (*const_dims, *[0] * len(carry)))
    after = eval_jaxpr(body, entering)
    return [select_active(pred, y, x) for x, y in zip(carry, after, strict=True)]


@cached_on_jaxpr
def masked_bounded(body: Jaxpr, cond: Jaxpr, axis: AxisData, const_dims: Dims) -> tuple[Jaxpr, Jaxpr]:
    """Condition and body of a loop that first carries which elements continue, and how many steps each has taken.

    `cond` is over batches, `body` is not. The new body takes how many steps each element may take, the constants of
    the condition, and its own, whose batch axes are `const_dims`. It is always given copies: from where an element
    stopped there might be no finite derivative.
    """
    num_carry = len(body.invars) - len(const_dims)
    dims = (*const_dims, *(0,) * num_carry)
    new, _ = batch_jaxpr(body, axis, dims, (True,) * len(body.outvars))
    consts, carry = split_at(new.in_avals, len(const_dims))
    cond_consts, _ = split_at(cond.in_avals, len(cond.invars) - num_carry)

    def step(*args: Any) -> list[Any]:
        sizes = (1, len(cond_consts), len(const_dims), 2)
        (limits,), cond_args, const_args, (pred, counts), carry = split_at(args, *sizes)
        after, ys = split_at(eval_jaxpr(new, _filled(pred, [*const_args, *carry], dims)), num_carry)
        carry = [select_active(pred, y, x) for x, y in zip(carry, after, strict=True)]
        counts = add(counts, convert_element_type(pred, INT32))
        still = and_(lt(counts, limits), eval_jaxpr(cond, [*cond_args, *carry])[0])
        return [still, counts, *carry, *ys]

    counts = COUNT.update(shape=(axis.size,))
    carry = [counts.update(dtype=BOOL), counts, *carry]
    return _any_continues(carry), trace_closed(step, [counts, *cond_consts, *consts, *carry], what="vmap")


def _any_continues(carry: Sequence[ShapedArray]) -> Jaxpr:
    """The condition of a loop of these types that first carries which elements continue."""
    return trace_closed(lambda pred, *_: [reduce_or_p.bind(pred, axes=(0,))], carry, what="vmap")


# --- Counts that differ ---------------------------------------------------------------------------


@cached_on_jaxpr
def masked_counted(jaxpr: Jaxpr, axis: AxisData, const_dims: Dims, row_dims: Dims, reverse: bool) -> Jaxpr:
    """The body `(counts, consts, i, carry, rows)` of a counted scan in which an element takes steps `i < count`.

    Rows of ys are zero at elements that have finished: a linear one then sends nothing back to them.
    """
    num_consts, num_carry = len(const_dims), len(jaxpr.invars) - len(const_dims) - len(row_dims)
    dims = (*const_dims, *(0,) * num_carry, *row_dims)
    new, _ = batch_jaxpr(jaxpr, axis, dims, (True,) * len(jaxpr.outvars))

    def step(*args: Any) -> list[Any]:
        (counts,), consts, (i,), carry, rows = split_at(args, 1, num_consts, 1, num_carry)
        active = lt(i, counts)
        entering = _filled(active, [*consts, *carry, *rows], dims, linear=True)
        after, ys = split_at(eval_jaxpr(new, entering), num_carry)
        carry = [select_active(active, y, x) for x, y in zip(carry, after, strict=True)]
        ys = [_or_zero(active, y) for y in ys]
        return [sub(i, 1) if reverse else add(i, 1), *carry, *ys]

    consts, carry, rows = split_at(new.in_avals, num_consts, num_carry)
    counts = COUNT.update(shape=(axis.size,))
    return trace_closed(step, [counts, *consts, COUNT, *carry, *rows], what="vmap")


@cached_on_jaxpr
def masked_loop_of_replay(body: Jaxpr, axis: AxisData, dims: Dims, num_consts: int) -> Jaxpr:
    """`(counts, consts, i, carry) -> (i + 1, carry)`: the body, given over batches, of a loop that is replayed."""

    def step(counts: Any, *args: Any) -> list[Any]:
        consts, (i,), carry = split_at(args, num_consts, 1)
        return [add(i, 1), *eval_jaxpr(body, _filled(lt(i, counts), [*consts, *carry], dims, linear=True))]

    consts, carry = split_at(body.in_avals, num_consts)
    return trace_closed(step, [COUNT.update(shape=(axis.size,)), *consts, COUNT, *carry])


@cached_on_jaxpr
def masked_step_of_replay(step: Jaxpr, axis: AxisData, dims: Dims, num_consts: int) -> Jaxpr:
    """`(counts, consts, state, i, carry) -> state`: a step that leaves alone elements whose loop ended before `i`."""
    num_state = len(step.outvars)

    def masked(counts: Any, *args: Any) -> list[Any]:
        start, (i,), rows = split_at(args, num_consts + num_state, 1)
        active = lt(i, counts)
        state = eval_jaxpr(step, _filled(active, [*start, *rows], dims, linear=True))
        return [select_active(active, y, x) for x, y in zip(start[num_consts:], state, strict=True)]

    start, rows = split_at(step.in_avals, num_consts + num_state)
    return trace_closed(masked, [COUNT.update(shape=(axis.size,)), *start, COUNT, *rows])


# --- Elements that have finished ------------------------------------------------------------------


def _filled(active: Any, values: Values, dims: Sequence[int | None], linear: bool = False) -> list[Any]:
    """The values, with copies of an active element at inactive ones; in an empty batch there are none to copy."""
    if aval_of(active).size == 0:
        return list(values)
    return [
        x if dim is None else fill_inactive(active, x, dim, linear=linear)
        for x, dim in zip(values, dims, strict=True)
    ]


def _or_zero(active: Any, y: Any) -> Any:
    """`y`, with zero at inactive elements."""
    aval = aval_of(y)
    return select_n(along_first(active, y), array_ops.zeros(aval), y) if dtypes.is_inexact(aval.dtype) else y
