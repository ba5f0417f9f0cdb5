"""Scans in two: a half that runs now, and a half that waits for operands which are not known yet.

    h, y, r = known(c, h, xs)           now; it stacks the residuals r
    h', y' = unknown(c', h', xs', r)    later; for `linearize`, the linear half, on tangents

The halves of a scan follow from the halves of its body. What differs is where the second half finds its residuals.
Those that a step computes are stacked by the first half. Nothing new is stacked for a residual that is a constant or
a row of the xs, that the first half stacks already as an output, or that is the same at every step.
Read next: `scan.py`, which runs halves; `bounded.py` and `checkpointed.py`, which run other loops in two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from didax.core.jaxpr import Jaxpr, Var, eval_jaxpr
from didax.passes.simplify import dce_jaxpr
from didax.primitives.control_flow.common import with_invars
from didax.primitives.control_flow.layout import BodyLayout, Mask, Pair, Values, all_false, fixpoint
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.linearize import linearize_jaxpr
from didax.transforms.partial_eval import partial_eval_jaxpr
from didax.transforms.split import Split

Source = tuple[str, int]  # where a residual is found, see `Halves`
Divide = Callable[[Jaxpr, Mask], Split[Jaxpr]]


class Halves(NamedTuple):
    """A scan in two.

    `known` returns the known results, `num_outs` of them, then the stacked residuals; its operands are laid out by
    `layout`. Residual constants come first among the constants of `unknown`, residual rows first among its xs. The
    sources say what they are:

    - ("in", k): operand k of the known half;
    - ("out", k): result k of the known half;
    - ("once", k): result k of `once`, which maps the known constants to what is the same at every step.

    `unknown_in` and `unknown_out` mark the operands and results of the whole scan that belong to the unknown half.
    """

    known: Jaxpr
    unknown: Jaxpr
    once: Jaxpr
    layout: BodyLayout
    num_outs: int
    const_sources: tuple[Source, ...]
    x_sources: tuple[Source, ...]
    unknown_in: Mask
    unknown_out: Mask

    def residuals(self, known_args: Values, outs: Values) -> Pair:
        """The residual constants and the residual xs of the unknown half, by operands and results of the known one."""
        once = eval_jaxpr(self.once, self.layout.split(known_args)[0])
        values = {"in": known_args, "once": once, "out": outs}
        return [values[kind][k] for kind, k in self.const_sources], [
            values[kind][k] for kind, k in self.x_sources
        ]


@cached_on_jaxpr
def linearize_body(jaxpr: Jaxpr, layout: BodyLayout, nonzero_in: Mask) -> Halves:
    """The halves of a scan whose second half is linear: it maps tangents to tangents."""
    consts, carry, _, split = _split_body(linearize_jaxpr, jaxpr, layout, nonzero_in)
    return _halves(split, layout, BodyLayout((sum(consts), sum(carry))), nonzero_in)


@cached_on_jaxpr
def partial_eval_body(jaxpr: Jaxpr, layout: BodyLayout, unknown: Mask) -> Halves:
    """The halves of a scan by which of its operands are unknown."""
    consts, carry, xs, split = _split_body(partial_eval_jaxpr, jaxpr, layout, unknown)
    known_layout = BodyLayout((consts.count(False), carry.count(False)))
    return _halves(split, known_layout, BodyLayout((sum(consts), sum(carry))), (*consts, *carry, *xs))


def _split_body(
    split_jaxpr: Callable[..., Split[Jaxpr]], jaxpr: Jaxpr, layout: BodyLayout, unknown: Mask
) -> tuple[Mask, Mask, Mask, Split[Jaxpr]]:
    """The split of a body, and the masks of the unknown constants, carry and xs."""
    consts, start, xs = layout.split(unknown)
    num_carry = layout.num_carry
    ys = all_false(len(jaxpr.outvars) - num_carry)

    def step(carry: Mask) -> Split[Jaxpr]:
        return split_jaxpr(jaxpr, (*consts, *carry, *xs), (*carry, *ys))

    carry = fixpoint(start, lambda mask: step(mask).unknown_out[:num_carry])
    return consts, carry, xs, step(carry)


def _halves(
    split: Split[Jaxpr], known_layout: BodyLayout, unknown_layout: BodyLayout, unknown_in: Mask
) -> Halves:
    """The halves of a scan by the halves of its body."""
    known, unknown = split.known, split.unknown
    num_consts, num_carry = known_layout
    num_outs = len(known.outvars) - split.num_residual_outputs
    same = _same_at_every_step(known, num_consts)
    outs = list(known.outvars)[:num_outs]
    stacked: dict[Any, int] = {y: k for k, y in enumerate(outs) if k >= num_carry}
    once: dict[Any, int] = {}
    consts: list[tuple[Var, Source]] = []
    xs: list[tuple[Var, Source]] = []
    for var, (kind, k) in zip(unknown.invars, split.residuals, strict=False):
        value = known.invars[k] if kind == "in" else known.outvars[num_outs + k]
        if kind == "in" and k < num_consts:
            consts.append((var, ("in", k)))
        elif kind == "in" and k >= num_consts + num_carry:
            xs.append((var, ("in", k)))
        elif value in same:
            consts.append((var, ("once", once.setdefault(value, len(once)))))
        else:
            if value not in stacked:
                stacked[value] = len(outs)
                outs.append(value)
            xs.append((var, ("out", stacked[value])))
    const_ins, carry_ins, x_ins = unknown_layout.split(unknown.invars[len(split.residuals) :])
    invars = [*(v for v, _ in consts), *const_ins, *carry_ins, *(v for v, _ in xs), *x_ins]
    steady = [eqn for eqn in known.eqns if same.issuperset(eqn.outvars) and not eqn.effects]
    hoisted = Jaxpr(known.invars[:num_consts], steady, list(once))
    return Halves(
        Jaxpr(known.invars, known.eqns, outs, known.name),
        with_invars(unknown, invars),
        dce_jaxpr(hoisted, (True,) * len(once), keep_inputs=True)[0],
        known_layout,
        num_outs,
        tuple(source for _, source in consts),
        tuple(source for _, source in xs),
        unknown_in,
        split.unknown_out,
    )


def _same_at_every_step(jaxpr: Jaxpr, num_consts: int) -> set[Any]:
    """The variables that depend on constants only, and on no effect."""
    same: set[Any] = set(jaxpr.invars[:num_consts])
    for eqn in jaxpr.eqns:
        if all(type(x) is not Var or x in same for x in eqn.invars) and not eqn.effects:
            same.update(eqn.outvars)
    return same


def split_recomputed(
    jaxpr: Jaxpr, layout: BodyLayout, needed: Mask, divide: Divide
) -> tuple[Split[Jaxpr], Mask]:
    """The split of a body whose second half computes needed results again, and which results that half returns.

    `divide` splits a jaxpr so that its second half returns the results of a mask. The second half is a loop of its own,
    so whatever part of the carry it reads it must also carry.
    """
    num_consts, num_carry = layout
    start, ys = layout.split_results(needed)

    def reads(carry: Mask) -> Mask:
        sources = divide(jaxpr, (*carry, *ys)).residuals
        return tuple(("in", num_consts + k) in sources for k in range(num_carry))

    carry = fixpoint(start, reads)
    split = divide(jaxpr, (*carry, *ys))
    # The body receives a part of the carry at every step, whether it reads that part or not.
    carried = {("in", num_consts + k) for k in range(num_carry) if carry[k]}
    inputs = sorted({source for source in split.residuals if source[0] == "in"} | carried)
    saved = split.unknown.invars[len(split.residuals) - split.num_residual_outputs :]
    again = with_invars(split.unknown, [*(jaxpr.invars[k] for _, k in inputs), *saved])
    sources = (*inputs, *(source for source in split.residuals if source[0] == "out"))
    return Split(split.known, again, split.unknown_out, sources), (*carry, *ys)
