"""Sums of products that a loop carries, as one product after the loop.

    for x, g in xs: dW += x.T @ g            becomes          for ...: stack x, g;      dW += X.T @ G

The gradient of a weight that a loop uses at each step is such a sum, since a transposed scan carries the cotangents
of its constants. Summed in the loop, all of dW is read and written at each step; the product after the loop sums over
steps and rows at once. The factors are often stacked already, as residuals. Measured on one core, as fractions of the
gradient's time without this pass: a tanh net of 32 units, batch 8, 1,000 steps 0.3; an LSTM of that size 0.8; 256 units
0.9 or less.

The rule: the factors that are newly stacked are not larger than the sums that are no longer carried.
Read next: `one_function.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from didax.core import dtypes
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Var
from didax.passes.loops.notes import Note, note
from didax.passes.loops.rewrite import definitions, equations_of, num_bytes, uses
from didax.passes.simplify import dce_jaxpr
from didax.primitives.control_flow.layout import BodyLayout
from didax.primitives.dot import dot_general_p
from didax.primitives.elementwise import add
from didax.primitives.shape import reduce_sum_p, reshape_p, transpose_p

RULE = "one product after the loop"
_MOVES = (transpose_p, reshape_p)  # moving each term or moving the sum over steps is the same
_MAX_BYTES = 1 << 30  # of factors that are newly stacked, over all steps


class _Term(NamedTuple):
    """What a step adds: a product of `factors`, or a sum of one over axes; then `moves`, in order, rearrange it."""

    eqn: Eqn
    moves: tuple[Eqn, ...]

    @property
    def factors(self) -> Sequence[Atom]:
        return self.eqn.invars


class _Sum(NamedTuple):
    """Part k of the carry, to which a step only adds these terms."""

    k: int
    terms: list[_Term]


def contract_sums(eqn: Eqn) -> tuple[list[Eqn], dict[Any, Atom], list[Note]]:
    """The scan without such sums and the equations after it, new names of its results, and notes."""
    body, layout = eqn.params["jaxpr"], BodyLayout.of(eqn.params)
    found = list(carried_sums(body, layout))
    if not found:
        return [eqn], {}, []
    _, carry, rows = layout.split(body.invars)
    ready = {*rows, *layout.split_results(body.outvars)[1]}
    products = [s for s in found if any(t.eqn.primitive is dot_general_p for t in s.terms)]
    factors = [x for s in products for t in s.terms for x in t.factors]
    new = dict.fromkeys(x for x in factors if x not in ready)  # in this order in every process
    found = [s for s in found if all(x in ready or x in new for t in s.terms for x in t.factors)]
    stacked = sum(num_bytes(x.aval) for x in new)
    carried = sum(num_bytes(carry[s.k].aval) for s in found)
    facts = f"{stacked:,} bytes stacked at each step, {carried:,} no longer carried"
    if not products or stacked > carried or stacked * eqn.params["length"] > _MAX_BYTES:
        return [eqn], {}, [note(eqn, RULE, False, facts)] if products else []
    eqns, results = _rewritten(eqn, found, [x for x in new if type(x) is Var])
    names = ", ".join(str(eqn.outvars[s.k].aval) for s in found)
    return eqns, results, [note(eqn, RULE, True, f"{names}; {facts}")]


def carried_sums(body: Jaxpr, layout: BodyLayout) -> Iterator[_Sum]:
    """The parts of a carry that are such sums."""
    count, made_by = uses(body), definitions(body)
    consts, carry, _ = layout.split(body.invars)
    steady = set(consts)
    for k, (before, after) in enumerate(zip(carry, body.outvars, strict=False)):
        eqn = made_by.get(after)
        if eqn is None or eqn.primitive is not add or count[before] != 1 or count[after] != 1:
            continue
        if before.aval is not after.aval or not dtypes.is_inexact(before.aval.dtype):
            continue
        rest = [x for x in eqn.invars if x is not before]
        terms = list(_terms(rest[0], made_by, count)) if len(rest) == 1 else []
        same_shape = [t is not None and t.eqn.outvars[0].aval.dtype == after.aval.dtype for t in terms]
        if all(same_shape) and rest and rest[0].aval.shape == after.aval.shape:
            sums = [t for t in terms if t is not None]
            if sums and not any(type(x) is not Var or x in steady for t in sums for x in t.factors):
                yield _Sum(k, sums)


def _terms(x: Atom, made_by: dict[Any, Eqn], count: Any) -> Iterator[_Term | None]:
    """The terms of the sum `x` that a step adds; None for a term that is neither a product nor a sum over axes."""
    todo = [x]
    while todo:
        x = todo.pop()
        moves: list[Eqn] = []
        eqn = made_by.get(x)
        while eqn is not None and eqn.primitive in _MOVES and count[x] == 1:
            moves.append(eqn)
            x = eqn.invars[0]
            eqn = made_by.get(x)
        if eqn is None or count[x] != 1:
            yield None
        elif eqn.primitive is add and not moves and eqn.invars[0].aval.shape == eqn.invars[1].aval.shape:
            todo += reversed(eqn.invars)
        elif eqn.primitive in (dot_general_p, reduce_sum_p):
            yield _Term(eqn, tuple(reversed(moves)))
        else:
            yield None


def _rewritten(eqn: Eqn, sums: Sequence[_Sum], new: Sequence[Var]) -> tuple[list[Eqn], dict[Any, Atom]]:
    body, layout = eqn.params["jaxpr"], BodyLayout.of(eqn.params)
    gone = {s.k for s in sums}
    keep = [k for k in range(layout.num_carry) if k not in gone]
    consts, carry, rows = layout.split(body.invars)
    const_args, carry_args, row_args = layout.split(eqn.invars)
    after, ys = layout.split_results(body.outvars)
    last, y_stacks = layout.split_results(eqn.outvars)
    outs = [*(after[k] for k in keep), *ys, *new]
    whole = Jaxpr([*consts, *(carry[k] for k in keep), *rows], body.eqns, outs, body.name)
    small = dce_jaxpr(whole, (True,) * len(outs), keep_inputs=True)[0]
    stacks = [Var(x.aval.update(shape=(eqn.params["length"], *x.aval.shape))) for x in new]
    loop = eqn.replace(
        invars=[*const_args, *(carry_args[k] for k in keep), *row_args],
        outvars=[*(last[k] for k in keep), *y_stacks, *stacks],
        params={**eqn.params, "jaxpr": small, "num_carry": len(keep)},
    )
    over_steps: dict[Any, Atom] = dict(zip(ys, y_stacks, strict=True))
    over_steps.update(zip(rows, row_args, strict=True))
    over_steps.update(zip(new, stacks, strict=True))
    eqns, results = [loop], {}
    for s in sums:
        factors = [over_steps[x] for t in s.terms for x in t.factors]
        more, (total,) = equations_of(
            lambda *xs, s=s: [_total(s, xs)], [carry_args[s.k], *factors], eqn.source
        )
        eqns += more
        results[eqn.outvars[s.k]] = total
    return eqns, results


def _total(s: _Sum, args: Sequence[Any]) -> Any:
    total, *factors = args
    given = iter(factors)
    for term in s.terms:
        part = _over_steps(term, [next(given) for _ in term.factors])
        for move in term.moves:
            part = move.primitive.bind(part, **move.params)
        total = add(total, part)
    return total


def _over_steps(term: _Term, stacks: Sequence[Any]) -> Any:
    """The term summed over steps: the sum is also over the leading axes of the stacked factors."""
    params = term.eqn.params
    if term.eqn.primitive is reduce_sum_p:
        return reduce_sum_p.bind(*stacks, axes=(0, *(i + 1 for i in params["axes"])))
    (x_contract, y_contract), (x_batch, y_batch) = params["dimension_numbers"]
    one_more = [tuple(i + 1 for i in axes) for axes in (x_contract, y_contract, x_batch, y_batch)]
    numbers = ((0, *one_more[0]), (0, *one_more[1])), (one_more[2], one_more[3])
    return dot_general_p.bind(*stacks, **{**params, "dimension_numbers": numbers})
