"""Running the passes on a whole program, loop by loop, from the outside in.

Loops inside of a loop that becomes one function are left as they are. Programs without loops, and loops that no pass
changes, are the same objects as before.
Read next: the passes: `hoist.py`, `recompute.py`, `contract.py`, `defer.py`, `unroll.py`, `one_function.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from didax.core import config
from didax.core.jaxpr import Atom, Eqn, Jaxpr
from didax.core.jaxpr_check import check_jaxpr
from didax.passes.loops.contract import contract_sums
from didax.passes.loops.defer import defer_products
from didax.passes.loops.hoist import hoist_products
from didax.passes.loops.notes import Note, renamed_loops
from didax.passes.loops.one_function import as_one_function
from didax.passes.loops.parts import with_slices
from didax.passes.loops.recompute import recompute_residuals
from didax.passes.loops.rewrite import is_long, substitute
from didax.passes.loops.unroll import unrolled
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.control_flow.while_loop import while_p
from didax.transforms.cache import cached_on_jaxpr

LOOPS = (scan_p, while_p)


class Optimized(NamedTuple):
    """A program with its loops optimised, or None if it is as before; and what was done to each loop."""

    jaxpr: Jaxpr | None
    notes: tuple[Note, ...]


def optimize_loops(jaxpr: Jaxpr) -> tuple[Jaxpr, tuple[Note, ...]]:
    """The program with its loops optimised, as far as the option `optimize_loops` allows, and notes on each loop."""
    if config.state().optimize_loops == "off":
        return jaxpr, ()
    scans: tuple[Note, ...] = ()
    if is_long(jaxpr):
        from didax.passes.loops.written_out import with_scans  # loaded on first need

        jaxpr, scans = with_scans(jaxpr)
    if not _has_loops(jaxpr):
        return jaxpr, ()
    jaxpr = with_slices(jaxpr)
    found = _optimized(jaxpr)
    return found.jaxpr or jaxpr, (*scans, *found.notes)


def _has_loops(jaxpr: Jaxpr) -> bool:
    for eqn in jaxpr.eqns:  # noqa: SIM110 - a generator costs a call for each equation of each program
        if eqn.primitive in LOOPS or (eqn.params and any(map(_has_loops, eqn.jaxprs))):
            return True
    return False


@cached_on_jaxpr
def _optimized(jaxpr: Jaxpr) -> Optimized:
    eqns: list[Eqn] = []
    names: dict[Any, Atom] = {}  # new names of results of optimised loops
    hoisted, notes = hoist_products(jaxpr)
    fewer, more = recompute_residuals(hoisted)
    notes = [*renamed_loops(notes, hoisted.eqns, fewer.eqns), *more]
    for eqn in fewer.eqns:
        more, found, said = _optimized_eqn(substitute(eqn, names))
        eqns += more
        names.update(found)
        notes += said
    if len(eqns) == len(jaxpr.eqns) and all(a is b for a, b in zip(eqns, jaxpr.eqns, strict=True)):
        # Not `jaxpr` itself: what is remembered with a jaxpr must not keep that jaxpr alive.
        return Optimized(None, tuple(notes))
    new = Jaxpr(jaxpr.invars, eqns, [names.get(x, x) for x in fewer.outvars], jaxpr.name)
    if config.state().check:
        check_jaxpr(new)
    return Optimized(new, tuple(notes))


def _optimized_eqn(eqn: Eqn) -> tuple[Sequence[Eqn], dict[Any, Atom], list[Note]]:
    if eqn.primitive not in LOOPS:
        eqn, notes = _optimized_within(eqn)
        return [eqn], {}, notes
    eqns, names, notes = [eqn], {}, []
    if eqn.primitive is scan_p and not eqn.effects:
        eqns, names, notes = contract_sums(eqn)
    loop, *after = eqns
    before: list[Eqn] = []
    if eqn.primitive is scan_p and not eqn.effects:
        before, loop, deferred, more = defer_products(loop, eqn)
        after = [*deferred, *after]
        notes += more
        loop, more = unrolled(loop, eqn)
        notes += more
    whole, more = as_one_function(loop, eqn)
    notes += more
    if whole is None:
        whole, more = _optimized_within(loop)
        notes += more
    return [*before, whole, *after], names, notes


def _optimized_within(eqn: Eqn) -> tuple[Eqn, list[Note]]:
    """The equation with the loops in its jaxprs optimised."""
    inside = eqn.jaxprs
    if not any(map(_has_loops, inside)):
        return eqn, []
    notes = [note for jaxpr in inside for note in _optimized(jaxpr).notes]
    if all(_optimized(jaxpr).jaxpr is None for jaxpr in inside):
        return eqn, notes
    return eqn.map_jaxprs(lambda jaxpr: optimize_loops(jaxpr)[0]), notes
