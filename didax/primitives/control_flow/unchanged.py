"""Loops without what their bodies hand on unchanged: such a part of the carry is a constant of the loop.

    for x in xs: h, k, y = f(h, k), k, x      becomes      for x in xs: h = f(h, k)      with y = xs

A derivative of the loop then has no tangents to carry for these parts, and stacks none of their values.
Read next: `scan.py` and `while_loop.py`, which bind their loops in this form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from didax.core.jaxpr import Jaxpr, Var
from didax.primitives.control_flow.layout import (
    BodyLayout,
    Mask,
    Values,
    merge,
    split_at,
    where_false,
    where_true,
)
from didax.transforms.cache import cached_on_jaxpr

# condition, body, constants of each, carry -> carry
Loop = Callable[[Jaxpr, Jaxpr, Values, Values, Values], list[Any]]


class ChangedOnly(NamedTuple):
    """The body of a scan without what it hands on, or None if it hands on nothing; and where results come from.

    Parts of the carry marked by `fixed` are constants of the new body, after the others. A source is ("fixed", k);
    ("x", k), one of the xs as a whole; or ("out", k), a result of the new scan.
    """

    jaxpr: Jaxpr | None
    fixed: Mask
    sources: tuple[tuple[str, int], ...]


@cached_on_jaxpr
def changed_only(jaxpr: Jaxpr, layout: BodyLayout) -> ChangedOnly:
    """The body of a scan without parts of the carry, rows and outputs that it only hands on."""
    consts, carry, xs = layout.split(jaxpr.invars)
    after, ys = layout.split_results(jaxpr.outvars)
    fixed = tuple(x is y for x, y in zip(carry, after, strict=True))
    kept = where_false(after, fixed)
    fixed_sources = iter([("fixed", k) for k in range(sum(fixed))])
    kept_sources = iter([("out", k) for k in range(len(kept))])
    sources = [next(fixed_sources if f else kept_sources) for f in fixed]
    rows = {x: ("x", k) for k, x in enumerate(xs)}
    for y in ys:
        source = rows.get(y)
        if source is None:
            source = ("out", len(kept))
            kept.append(y)
            if type(y) is Var:
                rows[y] = source
        sources.append(source)
    if len(kept) == len(jaxpr.outvars):
        return ChangedOnly(None, fixed, ())
    invars = [*consts, *where_true(carry, fixed), *where_false(carry, fixed), *xs]
    return ChangedOnly(Jaxpr(invars, jaxpr.eqns, kept, jaxpr.name), fixed, tuple(sources))


def loop_over_changed(
    loop: Loop, cond: Jaxpr, body: Jaxpr, cond_consts: Values, consts: Values, carry: Values
) -> list[Any]:
    """The carry that a while loop ends with; `loop` runs it for the parts of the carry that the body changes."""
    fixed = _unchanged(body, len(consts))
    if True not in fixed:
        return loop(cond, body, cond_consts, consts, carry)
    constant, changing = where_true(carry, fixed), where_false(carry, fixed)
    if not changing and not cond.effects:  # a condition with effects may be what ends the program
        return constant
    cond = _constants_first(cond, len(cond_consts), fixed)
    body = _constants_first(body, len(consts), fixed, outputs=True)
    outs = loop(cond, body, [*cond_consts, *constant], [*consts, *constant], changing)
    return merge(fixed, constant, outs)


@cached_on_jaxpr
def _unchanged(body: Jaxpr, num_consts: int) -> Mask:
    """Which parts of the carry the body of a while loop returns as it received them."""
    return tuple(x is y for x, y in zip(body.invars[num_consts:], body.outvars, strict=True))


@cached_on_jaxpr
def _constants_first(jaxpr: Jaxpr, num_consts: int, fixed: Mask, outputs: bool = False) -> Jaxpr:
    """The jaxpr with the fixed parts of the carry after its constants; with `outputs`, not among its results."""
    consts, carry = split_at(jaxpr.invars, num_consts)
    outs = where_false(jaxpr.outvars, fixed) if outputs else jaxpr.outvars
    return Jaxpr(
        [*consts, *where_true(carry, fixed), *where_false(carry, fixed)], jaxpr.eqns, outs, jaxpr.name
    )
