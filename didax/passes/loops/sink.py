"""Products of matrices that only stacked results of a scan need, for all steps at once after the loop.

    for ...: h = step(h); stack h @ w        becomes        for ...: h = step(h); stack h;      H @ w

The readout of a recurrent net is such a product, and so are the cotangents of its inputs in the backward scan, whose
factors are stacked already for the gradient of the weights (`contract.py`). What is computed from the product for the
results alone goes with it.

The rule: what is stacked anew is not larger than what is stacked no more. Read next: `hoist.py`, the same before the
loop; `one_function.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from didax.core.jaxpr import Atom, Eqn, Jaxpr, Var
from didax.passes.loops.apart import (
    Free,
    call_cost,
    gain,
    is_product,
    may_move,
    take_apart,
)
from didax.passes.loops.hoist import MAX_BYTES, hoisted
from didax.passes.loops.notes import Note, note
from didax.passes.loops.rewrite import definitions, num_bytes, renamed, uses
from didax.passes.simplify import dce_jaxpr
from didax.primitives.control_flow.common import split_at
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.slicing import slice_p
from didax.transforms.batching import AxisData, batch_jaxpr

RULE = "products after the loop"


class _Tail(NamedTuple):
    """Values that only results need: the equations that compute them, and what these read of a step."""

    values: list[Var]
    eqns: list[Eqn]
    read: list[Var]


def sink_products(eqn: Eqn, was: Eqn) -> tuple[list[Eqn], Eqn, list[Eqn], list[Note]]:
    """What comes before the scan then, the scan without such products, what follows; a note on the scan as it `was`."""
    tail = _tail(eqn)
    if tail is None:
        return [], eqn, [], []
    scan, after = _rewritten(eqn, tail)
    before: list[Eqn] = []
    again = hoisted(scan)  # a product may have one slice left that is read
    if again is not None and not again.results:
        before, scan = again.before, again.scan
    return before, scan, after, [note(was, RULE, True, ", ".join(str(v.aval) for v in tail.values))]


# --- What only results need ------------------------------------------------------------------------


def _tail(eqn: Eqn) -> _Tail | None:
    body, num_consts, num_carry = (eqn.params[name] for name in ("jaxpr", "num_consts", "num_carry"))
    if not num_carry:
        return None  # a map: its steps are what the user wants one after another
    body_values = _Values(body, num_consts, call_cost(eqn))
    found = [tail for v in body.outvars[num_carry:] if (tail := body_values.tail(v)) is not None]
    values = [v for tail in found for v in tail.values]
    read = dict.fromkeys(v for tail in found for v in tail.read)
    stacked = {*body.invars[num_consts + num_carry :], *body.outvars[num_carry:]}.difference(values)
    new = sum(num_bytes(v.aval) for v in read if v not in stacked)
    if not found or new > sum(num_bytes(v.aval) for v in values):
        return None
    eqns = {e for tail in found for e in tail.eqns}
    computed = {v for e in eqns for v in e.outvars}.difference(values, body_values.steady)
    if (new + sum(num_bytes(v.aval) for v in computed)) * eqn.params["length"] > MAX_BYTES:
        return None
    return _Tail(values, [e for e in body.eqns if e in eqns], list(read))


class _Values:
    """Who computes and who reads the values of a body."""

    def __init__(self, body: Jaxpr, num_consts: int, call: float) -> None:
        self.made_by = definitions(body)
        self.count = uses(body)
        self.slices = Counter([eqn.invars[0] for eqn in body.eqns if eqn.primitive is slice_p])
        self.consts = set(body.invars[:num_consts])
        self.call = call
        free = Free(self.consts, (), call)
        free.grow(body.eqns)
        self.steady = free.steady

    def tail(self, value: Any) -> _Tail | None:
        """What computes a result that the body does not read, back to the factors of its products, if it has any."""
        eqns: dict[Eqn, None] = {}
        read: dict[Any, None] = {}
        todo = [value]
        while todo:
            x = todo.pop()
            eqn = self.made_by.get(x)
            if type(x) is not Var or x in self.consts or eqn in eqns:
                continue
            if eqn is None or not (x in self.steady or (may_move(eqn) and self._is_for_results(x))):
                read[x] = None
                continue
            eqns[eqn] = None
            if is_product(eqn):
                read.update(dict.fromkeys(y for y in eqn.invars if y not in self.steady))
                todo += [y for y in eqn.invars if y in self.steady]
            else:
                todo += eqn.invars
        return _Tail([value], list(eqns), list(read)) if any(map(self._pays, eqns)) else None

    def _pays(self, eqn: Eqn) -> bool:
        return is_product(eqn) and gain(eqn) + self.call > 0

    def _is_for_results(self, x: Any) -> bool:
        """Whether `x` has one reader; or a slice of it, which may be computed of slices instead."""
        return self.count[x] == 1 or (is_product(self.made_by[x]) and self.count[x] == self.slices[x] == 2)


# --- The scan without it ---------------------------------------------------------------------------


def _rewritten(eqn: Eqn, tail: _Tail) -> tuple[Eqn, list[Eqn]]:
    body, num_consts, num_carry = (eqn.params[name] for name in ("jaxpr", "num_consts", "num_carry"))
    consts, _, rows = split_at(body.invars, num_consts, num_carry)
    const_args, _, row_args = split_at(eqn.invars, num_consts, num_carry)
    ys = dict(zip(body.outvars[num_carry:], eqn.outvars[num_carry:], strict=True))
    later = {ys[v]: v for v in tail.values}
    stacks: dict[Any, Atom] = {v: out for v, out in ys.items() if out not in later}
    stacks.update(zip(rows, row_args, strict=True))
    length = eqn.params["length"]
    new = {v: Var(v.aval.update(shape=(length, *v.aval.shape))) for v in tail.read if v not in stacks}
    stacks.update(new)

    kept = [(v, out) for v, out in zip(body.outvars, eqn.outvars, strict=True) if out not in later]
    outs = [*(v for v, _ in kept), *new]
    scan = eqn.replace(
        outvars=[*(out for _, out in kept), *new.values()],
        params={**eqn.params, "jaxpr": Jaxpr(body.invars, body.eqns, outs, body.name)},
    )
    step = take_apart(Jaxpr([*consts, *tail.read], tail.eqns, tail.values, body.name), Free((), (), 0.0))
    all_out = (True,) * len(tail.values)
    step = dce_jaxpr(step, all_out, keep_inputs=True)[0]
    dims = (None,) * num_consts + (0,) * len(tail.read)
    batched, _ = batch_jaxpr(step, AxisData(None, length), dims, all_out)
    after, values = renamed(batched, [*const_args, *(stacks[v] for v in tail.read)], eqn.source)
    names: dict[Any, Any] = dict(zip(values, later, strict=True))
    return scan_p.dce(scan, (True,) * len(outs)), [
        e.replace(invars=[names.get(x, x) for x in e.invars], outvars=[names.get(v, v) for v in e.outvars])
        for e in after
    ]
