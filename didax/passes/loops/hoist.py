"""Products of matrices that do not need the carry: computed before the loop, for all steps at once.

    for x in xs: h = tanh(x @ u + h @ w)        becomes        for g in xs @ u: h = tanh(g + h @ w)

One large product keeps all cores busy and reads its weights once, and a step starts one kernel less. Where such a
product is only a part of a larger one, `split_products.py` splits it off first. Measured on two cores, as fractions of
the time without this pass: tanh nets 0.6 to 0.95, LSTMs 0.3 to 1.03, gradients 0.55 to 1.05 (docs/design/loops.md).

The rule weighs what the product costs a step against the bytes that are stacked (`gain` in `split_products.py`).
Equations that compute the factors of a product move with it, if they are arithmetic on elements or move elements.
Read next: `split_products.py`, `recompute.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from didax.core.jaxpr import Atom, Eqn, Jaxpr
from didax.passes.loops.contract import carried_sums
from didax.passes.loops.notes import Note, note
from didax.passes.loops.rewrite import inlined, num_bytes, substitute, uses
from didax.passes.loops.split_products import PARTS, CarryFree, call_cost, is_product, split_products
from didax.passes.simplify import dce_jaxpr
from didax.primitives.control_flow.layout import BodyLayout
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.slicing import dynamic_update_slice_p
from didax.transforms.batching import AxisData, batch_jaxpr

RULE = "products before the loop"
MAX_BYTES = 1 << 28  # of all values, for all steps, that are computed before the loop


class Hoisted(NamedTuple):
    """The equations before a scan, the scan, those of its results that are computed before it, and its new stacks."""

    before: list[Eqn]
    scan: Eqn
    results: dict[Any, Atom]
    stacks: list[Any]


def hoist_products(jaxpr: Jaxpr) -> tuple[Jaxpr, list[Note]]:
    """The program with such products before its scans, and a note on each scan that had any."""
    eqns: list[Eqn] = []
    names: dict[Any, Atom] = {}
    notes: list[Note] = []
    for eqn in jaxpr.eqns:
        eqn = substitute(eqn, names)
        if eqn.primitive is scan_p and not eqn.effects:
            found = hoisted(eqn)
            if found is not None:
                eqns += found.before
                names.update(found.results)
                eqn = found.scan
                notes.append(note(eqn, RULE, True, _facts(found)))
        eqns.append(eqn)
    if not notes:
        return jaxpr, []
    return Jaxpr(jaxpr.invars, eqns, [names.get(x, x) for x in jaxpr.outvars], jaxpr.name), notes


def _facts(found: Hoisted) -> str:
    if not found.stacks:
        return "none; only the parts of products that are read are computed"
    size = sum(num_bytes(v.aval) for v in found.stacks)
    return f"{', '.join(str(v.aval) for v in found.stacks)}; {size:,} bytes stacked for each step"


def hoisted(eqn: Eqn) -> Hoisted | None:
    """The scan without the products that are better computed before it; None if it has none."""
    layout = BodyLayout.of(eqn.params)
    consts, carry, rows = layout.split(eqn.params["jaxpr"].invars)
    if _is_map(eqn.params["jaxpr"], carry):
        return None  # A user who asks for a map wants one step after the other.
    carry_free = CarryFree(consts, rows, call_cost(eqn), eqn.params["length"])
    split = split_products(eqn.params["jaxpr"], carry_free)
    body = dce_jaxpr(split, (True,) * len(split.outvars), keep_inputs=True)[0]
    summed = {term.eqn for total in carried_sums(body, layout) for term in total.terms}
    carry_free.values.difference_update(v for e in summed for v in e.outvars)
    moved = _to_move(body, carry_free)
    if not any(map(is_product, moved)) and split is eqn.params["jaxpr"]:
        return None
    computed = sum(num_bytes(v.aval) for e in moved for v in e.outvars if v not in carry_free.steady)
    return _rewritten(eqn, body, moved) if computed * eqn.params["length"] <= MAX_BYTES else None


def _is_map(body: Jaxpr, carry: Sequence[Any]) -> bool:
    """Whether no step needs the one before: the carry is nothing but arrays into which each step writes."""
    users = uses(body)
    written = {
        e.invars[0]: e.outvars[0]
        for e in body.eqns
        if e.primitive is dynamic_update_slice_p and users[e.invars[0]] == users[e.outvars[0]] == 1
    }
    return all(written.get(old) is new for old, new in zip(carry, body.outvars, strict=False))


def _to_move(body: Jaxpr, carry_free: CarryFree) -> list[Eqn]:
    """The equations to compute before the loop: products of rows, what their factors need, and parts of weights."""
    factors = {x for eqn in body.eqns if is_product(eqn) for x in eqn.invars}
    needed: set[Any] = set()
    moved: list[Eqn] = []
    for eqn in reversed(body.eqns):
        out = eqn.outvars[0]
        is_part = eqn.primitive in PARTS and out in factors
        wanted = is_part if out in carry_free.steady else carry_free.pays_whole(eqn)
        if out in carry_free.values and (wanted or out in needed):
            moved.append(eqn)
            needed.update(eqn.invars)
    return moved[::-1]


def _rewritten(eqn: Eqn, body: Jaxpr, moved: Sequence[Eqn]) -> Hoisted:
    layout = BodyLayout.of(eqn.params)
    consts, carry, rows = layout.split(body.invars)
    const_args, carry_args, row_args = layout.split(eqn.invars)
    gone = {v: e for e in moved for v in e.outvars}
    left = [e for e in body.eqns if e.outvars[0] not in gone]
    read = {x for e in left for x in e.invars}.union(body.outvars)
    crossing = [v for v in gone if v in read]

    dims = (None,) * len(consts) + (0,) * len(rows)
    batched, is_stack = batch_jaxpr(
        Jaxpr([*consts, *rows], moved, crossing, body.name), AxisData(None, eqn.params["length"]), dims
    )
    before, values = inlined(batched, [*const_args, *row_args], eqn.source)
    now = dict(zip(crossing, values, strict=True))
    stacks = [v for v, stack in zip(crossing, is_stack, strict=True) if stack]
    steady = [v for v, stack in zip(crossing, is_stack, strict=True) if not stack]

    after, ys = layout.split_results(body.outvars)
    ys = list(zip(layout.split_results(eqn.outvars)[1], ys, strict=True))
    results = {out: now[v] for out, v in ys if v in stacks}
    outs = [*after, *(v for out, v in ys if out not in results)]
    scan = eqn.replace(
        invars=[*const_args, *(now[v] for v in steady), *carry_args, *row_args, *(now[v] for v in stacks)],
        outvars=[v for v in eqn.outvars if v not in results],
        params={
            **eqn.params,
            "jaxpr": Jaxpr([*consts, *steady, *carry, *rows, *stacks], left, outs, body.name),
            "num_consts": len(consts) + len(steady),
        },
    )
    return Hoisted(before, scan_p.dce(scan, (True,) * len(outs)), results, stacks)
