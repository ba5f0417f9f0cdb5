"""Loops and branches on values that differ between devices, inside `shard_map`.

    while x < limit: x = x + 1        where the limit differs between devices, so does the x that the loop ends with

The types of a loop's body say along which manual axes each part of the carry varies. Where operands vary along more
axes than the body was staged for, or where devices take different numbers of steps, or different branches, the body
is staged again with types that say so, and operands are made to vary (`pvary`): reverse mode then sums over devices
where it has to, outside the loop. A device that has left a loop, or that took another branch, cannot take part in
a collective, and the others would wait for it forever; this is an error.
Read next: `primitives/varying.py`; `scan.py`, `while_loop.py`, `cond.py`, which call these.
"""

from __future__ import annotations

from typing import Any

from didax.core.avals import aval_of
from didax.core.errors import message
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.primitives.control_flow.layout import Values, split_at
from didax.primitives.varying import pvary
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import trace_closed

Axes = frozenset[str]
NO_AXES: Axes = frozenset()


def fit_loop(
    body: Jaxpr, operands: Values, num_consts: int, num_carry: int, uneven: Axes = NO_AXES
) -> tuple[Jaxpr, list[Any]]:
    """The body and the operands of a loop, whose types say along which axes they vary.

    Along the axes in `uneven` devices take different numbers of steps.
    """
    found = tuple([aval_of(x).vma for x in operands])
    if not uneven and not any(found) and not any([a.vma for a in body.out_avals]):
        return body, list(operands)
    check_collectives("A loop that some devices leave before others", uneven, body)
    wanted = tuple([a.vma | vma | uneven for a, vma in zip(body.in_avals, found, strict=True)])
    body = _varying_body(body, wanted, num_consts, num_carry, uneven)
    return body, [pvary(x, a.vma) for x, a in zip(operands, body.in_avals, strict=True)]


@cached_on_jaxpr
def _varying_body(
    body: Jaxpr, wanted: tuple[Axes, ...], num_consts: int, num_carry: int, uneven: Axes
) -> Jaxpr:
    """The body on operands that vary along these axes. The carry also varies along all axes that the body adds.

    Rows that it returns vary along `uneven` as well: there are fewer of them on some devices.
    """
    new = body
    while True:
        avals = [a.update(vma=vma) for a, vma in zip(body.in_avals, wanted, strict=True)]
        if avals != new.in_avals:
            new = trace_closed(lambda *args: eval_jaxpr(body, args), avals)
        after = [a.vma for a in new.out_avals[:num_carry]]
        carry = wanted[num_consts : num_consts + num_carry]
        joined = tuple([a | b for a, b in zip(carry, after, strict=True)])
        if joined == carry:
            rows = [uneven] * (len(body.outvars) - num_carry)
            return returning_varying(new, (*joined, *rows))
        wanted = (*wanted[:num_consts], *joined, *wanted[num_consts + num_carry :])


@cached_on_jaxpr
def returning_varying(jaxpr: Jaxpr, wanted: tuple[Axes, ...]) -> Jaxpr:
    """The jaxpr whose results vary along these axes."""
    if all(vma <= a.vma for a, vma in zip(jaxpr.out_avals, wanted, strict=True)):
        return jaxpr
    return trace_closed(lambda *args: list(map(pvary, eval_jaxpr(jaxpr, args), wanted)), jaxpr.in_avals)


def fit_condition(cond: Jaxpr, operands: Values) -> Jaxpr:
    """The condition of a loop on operands that may vary along more axes."""
    avals = [a.update(vma=a.vma | aval_of(x).vma) for a, x in zip(cond.in_avals, operands, strict=True)]
    return cond if avals == list(cond.in_avals) else _on(cond, tuple(avals))


@cached_on_jaxpr
def _on(jaxpr: Jaxpr, avals: tuple[Any, ...]) -> Jaxpr:
    return trace_closed(lambda *args: eval_jaxpr(jaxpr, args), avals)


def fit_while(
    cond: Jaxpr, body: Jaxpr, cond_consts: Values, consts: Values, carry: Values, uneven: Axes = NO_AXES
) -> tuple[Jaxpr, Jaxpr, Values, Values]:
    """Condition, body, constants and carry of a loop that ends by a condition, which may differ between devices.

    Along the axes in `uneven` devices take different numbers of steps whatever the condition says.
    """
    while True:
        cond = fit_condition(cond, [*cond_consts, *carry])
        uneven = uneven | cond.out_avals[0].vma
        check_collectives("A loop that some devices leave before others", uneven, cond)
        before = [aval_of(x) for x in carry]
        body, operands = fit_loop(body, [*consts, *carry], len(consts), len(carry), uneven)
        consts, carry = split_at(operands, len(consts))
        if [aval_of(x) for x in carry] == before:
            return cond, body, consts, carry


def fit_branches(
    branches: tuple[Jaxpr, ...], index: Any, operands: Values
) -> tuple[tuple[Jaxpr, ...], list[Any]]:
    """The branches, whose results vary along the same axes, and also where the choice differs; and their operands."""
    uneven = aval_of(index).vma
    found = [aval_of(x).vma for x in operands]
    if not uneven and not any(found) and not any(a.vma for b in branches for a in b.out_avals):
        return branches, list(operands)
    check_collectives("A branch that only some devices take", uneven, *branches)
    operands = [pvary(x, uneven) for x in operands]
    new = [fit_condition(branch, operands) for branch in branches]
    columns = zip(*([a.vma for a in branch.out_avals] for branch in new), strict=True)
    wanted = tuple([uneven.union(*column) for column in columns])
    return tuple([returning_varying(branch, wanted) for branch in new]), operands


def check_collectives(what: str, uneven: Axes, *jaxprs: Jaxpr) -> None:
    """ValueError for a collective over an axis along which devices do different things."""
    for jaxpr in jaxprs:
        if over := uneven & jaxpr.axis_names:
            raise would_wait(what, over)


def would_wait(what: str, over: Axes) -> ValueError:
    """The error of a collective over axes along which devices do different things."""
    names = sorted(over)
    return ValueError(
        message(
            f"{what} cannot hold a collective: the devices would wait for each other forever.",
            f"the condition may differ between devices along {', '.join(map(repr, names))}",
            fix=f"Decide by what all devices share (lax.pmax(pred, {names[0]!r})), or exchange values outside.",
        )
    )
