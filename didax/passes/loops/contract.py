"""Sums of products that a loop carries, as one product after the loop.

    for x, g in xs: dW += x.T @ g            becomes          for ...: stack x, g;      dW += X.T @ G

The gradient of a weight that a loop uses at each step is such a sum: cotangents of a scan's constants are carried.
Summed in the loop, all of dW is read and written at each step; the product after the loop adds over steps and rows
at once. Rows that a factor is made of are often stacked already, as residuals. Measured on one core, of the time of
the gradient: a tanh net of 32 units, batch 8, 1,000 steps: 0.3; an LSTM of that size: 0.8; 256 units: 0.9 or less.

The rule: what is stacked anew is not larger than what is carried no more. Read next: `one_function.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from didax.core import dtypes
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Var
from didax.passes.loops.notes import Note, note
from didax.passes.loops.rewrite import definitions, num_bytes, uses, written
from didax.passes.simplify import dce_jaxpr
from didax.primitives.control_flow.common import split_at
from didax.primitives.dot import dot_general_p
from didax.primitives.elementwise import add
from didax.primitives.shape import reduce_sum_p, reshape_p, transpose_p

RULE = "one product after the loop"
_MOVES = (transpose_p, reshape_p)  # which may wait until after the sum over steps
_MAX_BYTES = 1 << 30  # stacked anew, over all steps


class _Term(NamedTuple):
    """One summand of a step: a product or sum of `factors`, then moves of its elements, innermost first."""

    eqn: Eqn
    moves: tuple[Eqn, ...]

    @property
    def factors(self) -> Sequence[Atom]:
        return self.eqn.invars


class _Sum(NamedTuple):
    """Part k of the carry, to which each step adds the terms and nothing else."""

    k: int
    terms: list[_Term]


def contract_sums(eqn: Eqn) -> tuple[list[Eqn], dict[Any, Atom], list[Note]]:
    """The scan without such sums and what follows it, the results that have other names then, and notes."""
    body, num_consts, num_carry = eqn.params["jaxpr"], eqn.params["num_consts"], eqn.params["num_carry"]
    found = list(carried_sums(body, num_consts, num_carry))
    if not found:
        return [eqn], {}, []
    rows = body.invars[num_consts + num_carry :]
    ready = {*rows, *body.outvars[num_carry:]}
    products = [s for s in found if any(t.eqn.primitive is dot_general_p for t in s.terms)]
    new = {x for s in products for t in s.terms for x in t.factors} - ready
    found = [s for s in found if all(x in ready or x in new for t in s.terms for x in t.factors)]
    stacked = sum(num_bytes(x.aval) for x in new)
    carried = sum(num_bytes(body.invars[num_consts + s.k].aval) for s in found)
    facts = f"{stacked:,} bytes stacked at each step, {carried:,} carried no more"
    if not products or stacked > carried or stacked * eqn.params["length"] > _MAX_BYTES:
        return [eqn], {}, [note(eqn, RULE, False, facts)] if products else []
    eqns, results = _rewritten(eqn, found, [x for x in new if type(x) is Var])
    names = ", ".join(str(eqn.outvars[s.k].aval) for s in found)
    return eqns, results, [note(eqn, RULE, True, f"{names}; {facts}")]


def carried_sums(body: Jaxpr, num_consts: int, num_carry: int) -> Iterator[_Sum]:
    """The parts of a carry that are such sums."""
    count, made_by = uses(body), definitions(body)
    steady = {*body.invars[:num_consts]}
    carry = body.invars[num_consts : num_consts + num_carry]
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
    """The summands of a step's share; None for one that is no product or sum."""
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
    body, num_consts, num_carry = eqn.params["jaxpr"], eqn.params["num_consts"], eqn.params["num_carry"]
    gone = {s.k for s in sums}
    keep = [k for k in range(num_carry) if k not in gone]
    consts, carry, rows = split_at(body.invars, num_consts, num_carry)
    const_args, carry_args, row_args = split_at(eqn.invars, num_consts, num_carry)
    outs = [*(body.outvars[k] for k in keep), *body.outvars[num_carry:], *new]
    whole = Jaxpr([*consts, *(carry[k] for k in keep), *rows], body.eqns, outs, body.name)
    small = dce_jaxpr(whole, (True,) * len(outs), keep_inputs=True)[0]
    stacks = [Var(x.aval.update(shape=(eqn.params["length"], *x.aval.shape))) for x in new]
    loop = eqn.replace(
        invars=[*const_args, *(carry_args[k] for k in keep), *row_args],
        outvars=[*(eqn.outvars[k] for k in keep), *eqn.outvars[num_carry:], *stacks],
        params={**eqn.params, "jaxpr": small, "num_carry": len(keep)},
    )
    over_steps: dict[Any, Atom] = dict(zip(body.outvars[num_carry:], eqn.outvars[num_carry:], strict=True))
    over_steps.update(zip(rows, row_args, strict=True))
    over_steps.update(zip(new, stacks, strict=True))
    eqns, results = [loop], {}
    for s in sums:
        factors = [over_steps[x] for t in s.terms for x in t.factors]
        more, (total,) = written(lambda *xs, s=s: [_total(s, xs)], [carry_args[s.k], *factors], eqn.source)
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
    """The term summed over steps: the leading axes of the stacked factors are summed over too."""
    params = term.eqn.params
    if term.eqn.primitive is reduce_sum_p:
        return reduce_sum_p.bind(*stacks, axes=(0, *(i + 1 for i in params["axes"])))
    (x_contract, y_contract), (x_batch, y_batch) = params["dimension_numbers"]
    one_more = [tuple(i + 1 for i in axes) for axes in (x_contract, y_contract, x_batch, y_batch)]
    numbers = ((0, *one_more[0]), (0, *one_more[1])), (one_more[2], one_more[3])
    return dot_general_p.bind(*stacks, **{**params, "dimension_numbers": numbers})
