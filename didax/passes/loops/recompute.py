"""Residuals that a forward scan stacks for a backward scan: computed again there, where that is cheaper.

    for ...: h, (exp(z), 1 + exp(z), ...) = step(h)   and a scan that reads them     becomes
    for ...: h, z = step(h)                           and a scan that computes them from z

Which values to stack is a minimal cut. Between the values that can only be stacked (products, the carry before the
step) and the values that the backward scan reads, a value is either stacked, which costs a kernel that writes it and
one that reads it, or computed again from others, which costs arithmetic on its elements. Measured: 0.8 of the time of
the gradient of an LSTM of 32 units whose gates are written out. Loops that become one function keep what they stack,
since a stack costs them no kernel.
Read next: `contract.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from didax.core.jaxpr import Atom, Eqn, Jaxpr, Var
from didax.passes.loops.notes import Note, note
from didax.passes.loops.one_function import is_small
from didax.passes.loops.rewrite import definitions, num_bytes, uses
from didax.passes.simplify import dce_jaxpr
from didax.primitives.control_flow.layout import BodyLayout
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.convert import convert_element_type_p
from didax.primitives.elementwise import abs_, add, max_, min_, mul, neg, square, sub
from didax.primitives.families import Elementwise
from didax.primitives.select import select_n_p
from didax.primitives.shape import broadcast_in_dim_p, reshape_p, transpose_p
from didax.primitives.slicing import slice_p

RULE = "residuals computed again"
KERNEL, BYTE = 120.0, 0.05  # nanoseconds to start a kernel, and to move a byte
FAST, SLOW = 0.05, 0.5  # nanoseconds per element: of arithmetic, of other functions
GAIN = 0.9  # the cost after must be less than this part of the cost before
_MOVES = {broadcast_in_dim_p, convert_element_type_p, reshape_p, select_n_p, slice_p, transpose_p}
_ARITHMETIC = {abs_, add, max_, min_, mul, neg, square, sub, *_MOVES}
_INFINITE = float("inf")
Graph = dict[Any, dict[Any, float]]


class _Pair(NamedTuple):
    """A forward scan, a backward scan, and the results of the first that only the second reads, as rows."""

    forward: Eqn
    backward: Eqn
    residuals: list[Var]


def recompute_residuals(jaxpr: Jaxpr) -> tuple[Jaxpr, list[Note]]:
    """The program with fewer stacked residuals, and a note on each pair of scans."""
    notes: list[Note] = []
    for eqn in [eqn for eqn in jaxpr.eqns if eqn.primitive is scan_p]:
        made_by, count = definitions(jaxpr), uses(jaxpr)
        for pair in _pairs(eqn, made_by, count):
            saved = _cheapest(pair)
            before, after = len(pair.residuals), saved
            if after is None:
                notes.append(note(pair.forward, RULE, False, f"its {before} residuals are cheaper to read"))
                continue
            forward, backward = _rewritten(pair, after)
            swap = {id(pair.forward): forward, id(pair.backward): backward}
            eqns = [swap.get(id(e), e) for e in jaxpr.eqns]
            jaxpr = Jaxpr(jaxpr.invars, eqns, jaxpr.outvars, jaxpr.name)
            notes.append(note(forward, RULE, True, f"{before} residuals from {len(after)} values"))
            break
    return jaxpr, notes


def _pairs(backward: Eqn, made_by: dict[Any, Eqn], count: Any) -> Iterable[_Pair]:
    params = backward.params
    consts, carry, rows = BodyLayout.of(params).split(backward.invars)
    others = {*consts, *carry}.difference(rows)
    for forward in dict.fromkeys(made_by[x] for x in rows if x in made_by):
        same_steps = forward.primitive is scan_p and forward.params["length"] == params["length"]
        if not same_steps or forward.effects or backward.effects or is_small(forward):
            continue
        _, stacked = BodyLayout.of(forward.params).split_results(forward.outvars)
        residuals = [v for v in stacked if v not in others and 0 < rows.count(v) == count[v]]
        if residuals:
            yield _Pair(forward, backward, residuals)


# --- The cut ---------------------------------------------------------------------------------------


def _body_values(pair: _Pair) -> dict[Var, Atom]:
    """What each stacked result of the forward scan is in its body."""
    layout = BodyLayout.of(pair.forward.params)
    _, stacked = layout.split_results(pair.forward.outvars)
    _, ys = layout.split_results(pair.forward.params["jaxpr"].outvars)
    return dict(zip(stacked, ys, strict=True))


def _cheapest(pair: _Pair) -> list[Any] | None:
    """The values of the forward body to read in the backward scan; None where the residuals themselves are cheapest."""
    body = pair.forward.params["jaxpr"]
    values = _body_values(pair)
    wanted = [values[v] for v in pair.residuals]
    if any(type(x) is not Var for x in wanted):
        return None
    kept = {x for v, x in values.items() if v not in pair.residuals}
    consts, _, rows = BodyLayout.of(pair.forward.params).split(body.invars)
    ready = {*kept, *rows}

    def price(x: Any) -> float:
        once = KERNEL + BYTE * num_bytes(x.aval)
        return 0.0 if x in consts else once if x in ready else 2 * once

    made_by = {v: eqn for v, eqn in definitions(body).items() if _is_cheap(eqn)}
    graph: Graph = {"source": {}, "sink": {}}
    reached: dict[Any, None] = {}  # in this order in every process
    todo = list(wanted)
    while todo:
        x = todo.pop()
        if x in reached:
            continue
        reached[x] = None
        eqn = made_by.get(x)
        graph["source"]["in", x] = _INFINITE if eqn is None else _work(eqn)
        graph["in", x] = {("out", x): price(x)}
        graph.setdefault(("out", x), {})
        for y in () if eqn is None else [y for y in eqn.invars if type(y) is Var]:
            graph.setdefault(("out", y), {})["in", x] = _INFINITE
            todo.append(y)
    for x in wanted:
        graph["out", x]["sink"] = _INFINITE
    cost, near = minimal_cut(graph)
    if cost > GAIN * sum(map(price, dict.fromkeys(wanted))):
        return None
    return [x for x in reached if ("in", x) in near and ("out", x) not in near]


def _is_cheap(eqn: Eqn) -> bool:
    return eqn.primitive in _MOVES or isinstance(eqn.primitive, Elementwise)


def _work(eqn: Eqn) -> float:
    return eqn.outvars[0].aval.size * (FAST if eqn.primitive in _ARITHMETIC else SLOW)


def minimal_cut(graph: Graph) -> tuple[float, set[Any]]:
    """The capacity of a minimal cut between "source" and "sink", and the nodes on the source's side (Edmonds, Karp)."""
    left: Graph = {node: {} for node in graph}
    for node, edges in graph.items():
        for other, capacity in edges.items():
            left[node][other] = left[node].get(other, 0.0) + capacity
            left.setdefault(other, {}).setdefault(node, 0.0)
    total = 0.0
    while True:
        came_from: dict[Any, Any] = {"source": None}
        queue = deque(["source"])
        while queue and "sink" not in came_from:
            node = queue.popleft()
            for other, capacity in left[node].items():
                if capacity > 1e-9 and other not in came_from:
                    came_from[other] = node
                    queue.append(other)
        if "sink" not in came_from:
            return total, set(came_from)
        path: list[tuple[Any, Any]] = []
        node = "sink"
        while came_from[node] is not None:
            path.append((came_from[node], node))
            node = came_from[node]
        flow = min(left[a][b] for a, b in path)
        for a, b in path:
            left[a][b] -= flow
            left[b][a] += flow
        total += flow


# --- The two scans ---------------------------------------------------------------------------------


def _rewritten(pair: _Pair, saved: Sequence[Any]) -> tuple[Eqn, Eqn]:
    forward, backward = pair.forward, pair.backward
    body, layout = forward.params["jaxpr"], BodyLayout.of(forward.params)
    consts, _, rows = layout.split(body.invars)
    const_args, _, row_args = layout.split(forward.invars)
    values = _body_values(pair)
    stays = [v for v in values if v not in pair.residuals]
    stacked: dict[Any, Atom] = {values[v]: v for v in reversed(stays)}
    stacked.update(zip(rows, row_args, strict=True))
    new = [x for x in saved if x not in stacked and x not in consts]
    length = forward.params["length"]
    stacked.update({x: Var(x.aval.update(shape=(length, *x.aval.shape))) for x in new})
    after, _ = layout.split_results(body.outvars)
    last, _ = layout.split_results(forward.outvars)
    outs = [*after, *(values[v] for v in stays), *new]
    small = dce_jaxpr(Jaxpr(body.invars, body.eqns, outs, body.name), (True,) * len(outs), keep_inputs=True)[
        0
    ]
    first = forward.replace(
        outvars=[*last, *stays, *(stacked[x] for x in new)],
        params={**forward.params, "jaxpr": small},
    )
    arguments = dict(zip(consts, const_args, strict=True))
    from_consts = {x: arguments[x] for x in saved if x in arguments}
    from_rows = {x: stacked[x] for x in saved if x not in arguments}
    return first, _reading(backward, pair, values, from_consts, from_rows)


def _reading(
    backward: Eqn, pair: _Pair, values: dict[Var, Atom], consts: dict[Any, Atom], rows: dict[Any, Atom]
) -> Eqn:
    """The backward scan that computes the residuals from further constants and rows."""
    body, layout = backward.params["jaxpr"], BodyLayout.of(backward.params)
    in_consts, in_carry, in_rows = layout.split(body.invars)
    const_args, carry_args, row_args = layout.split(backward.invars)
    env: dict[Any, Any] = {x: Var(x.aval) for x in (*consts, *rows)}
    const_vars, row_vars = [env[x] for x in consts], [env[x] for x in rows]
    eqns: list[Eqn] = []
    for eqn in _needed(pair, env, [values[v] for v in pair.residuals]):
        invars = [env.get(x, x) for x in eqn.invars]
        env.update({v: Var(v.aval) for v in eqn.outvars})
        eqns.append(eqn.replace(invars=invars, outvars=[env[v] for v in eqn.outvars]))
    gone = [x in pair.residuals for x in row_args]
    names = {
        v: env[values[x]]  # type: ignore[index]
        for v, x, out in zip(in_rows, row_args, gone, strict=True)
        if out
    }
    eqns += [eqn.replace(invars=[names.get(x, x) for x in eqn.invars]) for eqn in body.eqns]
    left = [i for i, out in enumerate(gone) if not out]
    invars = [*const_vars, *in_consts, *in_carry, *(in_rows[i] for i in left), *row_vars]
    new = Jaxpr(invars, eqns, [names.get(x, x) for x in body.outvars], body.name)
    return backward.replace(
        invars=[*consts.values(), *const_args, *carry_args, *(row_args[i] for i in left), *rows.values()],
        params={**backward.params, "jaxpr": new, "num_consts": layout.num_consts + len(consts)},
    )


def _needed(pair: _Pair, given: dict[Any, Any], wanted: Sequence[Any]) -> list[Eqn]:
    """The equations of the forward body that compute the wanted values from the given ones."""
    needed = {x for x in wanted if x not in given}
    found: list[Eqn] = []
    for eqn in reversed(pair.forward.params["jaxpr"].eqns):
        if needed.intersection(eqn.outvars):
            found.append(eqn)
            needed.update(x for x in eqn.invars if type(x) is Var and x not in given)
    return found[::-1]
