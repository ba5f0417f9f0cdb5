"""Products of matrices that only stacked results of a scan need: computed after the loop, for all steps at once.

    for ...: h = step(h); stack h @ w        becomes        for ...: h = step(h); stack h;      H @ w

The readout of a recurrent net is such a product. So are the cotangents of its inputs in the backward scan, whose
factors are stacked already for the gradient of the weights (`contract.py`). What is computed from the product for the
results alone is moved behind the loop, too.

The rule: the arrays that are newly stacked are not larger than the arrays that are no longer stacked.
Read next: `hoist.py`, the same before the loop; `one_function.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from didax.core.jaxpr import Atom, Eqn, Jaxpr, Var
from didax.passes.loops.hoist import MAX_BYTES, hoisted
from didax.passes.loops.notes import Note, note
from didax.passes.loops.rewrite import definitions, inlined, num_bytes, uses
from didax.passes.loops.split_products import CarryFree, call_cost, gain, is_product, may_move, split_products
from didax.passes.simplify import dce_jaxpr
from didax.primitives.control_flow.layout import BodyLayout
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.slicing import slice_p
from didax.transforms.batching import AxisData, batch_jaxpr

RULE = "products after the loop"


class _Tail(NamedTuple):
    """Values that only results need, the equations that compute them, and the values of a step that these read."""

    values: list[Var]
    eqns: list[Eqn]
    read: list[Var]


def defer_products(eqn: Eqn, original: Eqn) -> tuple[list[Eqn], Eqn, list[Eqn], list[Note]]:
    """Equations before the scan, the scan without such products, equations after it; a note on the `original` scan."""
    tail = _tail(eqn)
    if tail is None:
        return [], eqn, [], []
    scan, after = _rewritten(eqn, tail)
    before: list[Eqn] = []
    again = hoisted(scan)  # if only one slice of a product is still read, the product can be hoisted now
    if again is not None and not again.results:
        before, scan = again.before, again.scan
    return before, scan, after, [note(original, RULE, True, ", ".join(str(v.aval) for v in tail.values))]


# --- What only results need ------------------------------------------------------------------------


def _tail(eqn: Eqn) -> _Tail | None:
    body, layout = eqn.params["jaxpr"], BodyLayout.of(eqn.params)
    consts, carry, rows = layout.split(body.invars)
    if not carry:
        return None  # It is a map, and a user who asks for a map wants one step after the other.
    _, ys = layout.split_results(body.outvars)
    body_values = _Values(body, consts, call_cost(eqn))
    found = [tail for v in ys if (tail := body_values.tail(v)) is not None]
    values = [v for tail in found for v in tail.values]
    read = dict.fromkeys(v for tail in found for v in tail.read)
    stacked = {*rows, *ys}.difference(values)
    new = sum(num_bytes(v.aval) for v in read if v not in stacked)
    if not found or new > sum(num_bytes(v.aval) for v in values):
        return None
    eqns = {e for tail in found for e in tail.eqns}
    computed = {v for e in eqns for v in e.outvars}.difference(values, body_values.steady)
    if (new + sum(num_bytes(v.aval) for v in computed)) * eqn.params["length"] > MAX_BYTES:
        return None
    return _Tail(values, [e for e in body.eqns if e in eqns], list(read))


class _Values:
    """Which equation computes each value of a body, and how often the value is read."""

    def __init__(self, body: Jaxpr, consts: Sequence[Var], call: float) -> None:
        self.made_by = definitions(body)
        self.count = uses(body)
        self.slices = Counter([eqn.invars[0] for eqn in body.eqns if eqn.primitive is slice_p])
        self.consts = set(consts)
        self.call = call
        carry_free = CarryFree(self.consts, (), call)
        carry_free.grow(body.eqns)
        self.steady = carry_free.steady

    def tail(self, value: Any) -> _Tail | None:
        """The equations of a result that nothing else in the body reads, back to the factors of its products.

        None if there is no product among them that is better computed after the loop.
        """
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
        """Whether only results read `x`, or only two slices of it, each of which a product of slices can give."""
        return self.count[x] == 1 or (is_product(self.made_by[x]) and self.count[x] == self.slices[x] == 2)


# --- The scan without the products ---------------------------------------------------------------------------


def _rewritten(eqn: Eqn, tail: _Tail) -> tuple[Eqn, list[Eqn]]:
    body, layout = eqn.params["jaxpr"], BodyLayout.of(eqn.params)
    consts, _, rows = layout.split(body.invars)
    const_args, _, row_args = layout.split(eqn.invars)
    _, ys = layout.split_results(body.outvars)
    ys = dict(zip(ys, layout.split_results(eqn.outvars)[1], strict=True))
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
    step = split_products(
        Jaxpr([*consts, *tail.read], tail.eqns, tail.values, body.name), CarryFree((), (), 0.0)
    )
    all_out = (True,) * len(tail.values)
    step = dce_jaxpr(step, all_out, keep_inputs=True)[0]
    dims = (None,) * len(consts) + (0,) * len(tail.read)
    batched, _ = batch_jaxpr(step, AxisData(None, length), dims, all_out)
    after, values = inlined(batched, [*const_args, *(stacks[v] for v in tail.read)], eqn.source)
    names: dict[Any, Any] = dict(zip(values, later, strict=True))
    return scan_p.dce(scan, (True,) * len(outs)), [
        e.replace(invars=[names.get(x, x) for x in e.invars], outvars=[names.get(v, v) for v in e.outvars])
        for e in after
    ]
