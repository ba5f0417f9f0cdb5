"""Scans of a few scalar operations a step, unrolled.

    for i in range(n): h = f(h)        becomes        for i in range(0, n, 4): h = f(f(f(f(h))))

Such a loop spends half of its time on counting. Measured on one core, as fractions of the time without this pass:
`c * 0.999 + 0.1` 0.6, a running sum 0.6, a branch of two operations 0.6. Longer steps gain nothing, and cost compile
time: sums of 64 elements 1.0, four products of matrices of four rows (a Kalman filter) 1.3.

The rule: at most `MAX_EQNS` operations a step, all of them on single elements. Read next: `one_function.py`.
"""

from __future__ import annotations

from didax.core.jaxpr import Eqn, Jaxpr
from didax.passes.loops.notes import Note, note
from didax.primitives.control_flow.cond import cond_p
from didax.primitives.convert import convert_element_type_p
from didax.primitives.families import Elementwise
from didax.primitives.select import select_n_p
from didax.xla.platforms import platform

RULE = "unrolled"
STEPS = 4
MIN_LENGTH = 64
MAX_EQNS = 8


def unrolled(eqn: Eqn, original: Eqn) -> tuple[Eqn, list[Note]]:
    """The scan with several steps in one, where that pays, and a note on the scan as it was (`original`)."""
    if eqn.params["unroll"] != 1:
        return eqn, [note(original, RULE, False, f"as asked for, {eqn.params['unroll']} steps at a time")]
    size = _num_operations(eqn.params["jaxpr"])
    if size is None or size > MAX_EQNS or eqn.params["length"] < MIN_LENGTH or platform() != "cpu":
        return eqn, [note(original, RULE, False, "its steps cost more than counting them")]
    facts = f"{STEPS} steps at a time, of {size} operations on single elements each"
    return eqn.replace(params={**eqn.params, "unroll": STEPS}), [note(original, RULE, True, facts)]


def _num_operations(jaxpr: Jaxpr) -> int | None:
    """How many operations on single elements a body consists of; None if there are others in it."""
    total = 0
    for eqn in jaxpr.eqns:
        if any(v.aval.physical.size != 1 for v in eqn.outvars):
            return None
        if eqn.primitive is cond_p:
            inner = [_num_operations(jaxpr) for jaxpr in eqn.jaxprs]
        elif isinstance(eqn.primitive, Elementwise) or eqn.primitive in (convert_element_type_p, select_n_p):
            inner = [1]
        else:
            return None
        if None in inner:
            return None
        total += sum(n for n in inner if n is not None)
    return total
