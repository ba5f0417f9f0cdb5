"""Loops whose checks report failures as data: they carry the report on the steps taken so far.

A scan takes all of its steps, and the report keeps what failed first. A while loop ends where a check fails; the
checks of its condition are reported by the body, because the condition returns nothing but a bool.
Read next: `didax/passes/checkify.py`, which says what a report is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core.avals import aval_of
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.passes.checkify import Kinds, Report, Site, checkify_jaxpr, nothing_failed, report_of
from didax.primitives.control_flow.layout import BodyLayout, Values, split_at
from didax.primitives.control_flow.unchanged import Loop
from didax.primitives.select import select_n
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import trace_closed


@cached_on_jaxpr
def checkify_scan_body(jaxpr: Jaxpr, kinds: Kinds, layout: BodyLayout) -> tuple[Jaxpr, tuple[Site, ...]]:
    """The body `(consts, report, carry, row) -> (report, carry, y)`, and the checks that the report is on.

    Without checks there is no report among its operands and results.
    """
    body = checkify_jaxpr(jaxpr, kinds)
    if not body.sites:
        return body.jaxpr, ()
    start = [aval_of(x) for x in nothing_failed(body.sites).arrays()]

    def step(*args: Any) -> list[Any]:
        consts, before, rest = split_at(args, layout.num_consts, len(start))
        outs, report = body.split(eval_jaxpr(body.jaxpr, [*consts, *rest]))
        assert report is not None, "it has checks"
        return [*report_of(before, body.sites).unless_failed(report).arrays(), *outs]

    consts, rest = split_at(jaxpr.in_avals, layout.num_consts)
    return trace_closed(step, [*consts, *start, *rest], what="checkify"), body.sites


def run_checkified(
    loop: Loop, kinds: Kinds, parts: Sequence[Values], cond: Jaxpr, body: Jaxpr, num_before: int = 0
) -> tuple[list[Any], Report | None]:
    """Results of a while loop, and the report on its checks.

    `loop` runs a loop of another condition and body; `num_before` of its results come before the carry. `parts` are
    the constants of the condition, the constants of the body, and the carry.
    """
    cond_consts, consts, carry = parts
    new = _checkify_while(body, cond, kinds, len(cond_consts), len(consts))
    start = eval_jaxpr(new.start, [*cond_consts, *carry])
    outs = loop(new.cond, new.body, [], [*cond_consts, *consts], [*start, *carry])
    before, (_, *arrays), rest = split_at(outs, num_before, len(start))
    return [*before, *rest], report_of(arrays, new.sites) if new.sites else None


class _CheckifiedWhile(NamedTuple):
    """A loop that carries whether it goes on, and a report on these checks; `start` computes the first of both."""

    start: Jaxpr
    cond: Jaxpr
    body: Jaxpr
    sites: tuple[Site, ...]


@cached_on_jaxpr
def _checkify_while(
    body: Jaxpr, cond: Jaxpr, kinds: Kinds, num_cond_consts: int, num_body_consts: int
) -> _CheckifiedWhile:
    new_cond, new_body = checkify_jaxpr(cond, kinds), checkify_jaxpr(body, kinds)
    sites = new_body.sites + new_cond.sites

    def goes_on(report: Report | None, *args: Any) -> list[Any]:
        """Whether the loop goes on after this report on the body, and the report on body and condition."""
        (pred,), cond_report = new_cond.split(eval_jaxpr(new_cond.jaxpr, args))
        if cond_report is not None:
            report = cond_report if report is None else report.then(cond_report)
        if report is None:
            return [pred]
        return [select_n(report.failed, pred, np.bool_(False)), *report.arrays()]

    def before_loop(*args: Any) -> list[Any]:
        return goes_on(nothing_failed(new_body.sites) if new_body.sites else None, *args)

    start = trace_closed(before_loop, cond.in_avals, what="checkify")

    def step(*args: Any) -> list[Any]:
        sizes = (num_cond_consts, num_body_consts, len(start.outvars))
        cond_consts, body_consts, _, carry = split_at(args, *sizes)
        outs, report = new_body.split(eval_jaxpr(new_body.jaxpr, [*body_consts, *carry]))
        return [*goes_on(report, *cond_consts, *outs[: len(carry)]), *outs]

    consts, carry = split_at(body.in_avals, num_body_consts)
    carry = [*start.out_avals, *carry]
    loop = trace_closed(step, [*cond.in_avals[:num_cond_consts], *consts, *carry], what="checkify")
    return _CheckifiedWhile(start, trace_closed(lambda pred, *_: [pred], carry, what="checkify"), loop, sites)
