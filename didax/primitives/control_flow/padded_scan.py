"""The `padded` rule of scan, which runs as many steps as a padded axis has, and stops at the real length.

    for i, x in enumerate(xs): h, y = (f(h, x) if i < n else (h, anything))

A step with effects is refused, as it would be run too often. A body that holds a while loop is put into a branch,
because such a loop may never end on arbitrary elements. Any other body is computed in the padded steps, too, and the
carry that it returns there is dropped: this is faster than a branch.
Read first: `padded.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core.array_ops import array_ops
from didax.core.dims import is_symbolic
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.passes.buckets import NUMBER, PaddedEqn
from didax.primitives.control_flow.common import may_not_end
from didax.primitives.control_flow.layout import BodyLayout, split_at
from didax.primitives.control_flow.padded import sizes_first
from didax.primitives.convert import convert_element_type, iota
from didax.primitives.elementwise import lt
from didax.primitives.select import where
from didax.transforms.rewriting import trace_closed

_INT32 = np.dtype(np.int32)


def scanned(self: Any, eqn: PaddedEqn, *args: Any, **params: Any) -> Any:
    """The body padded; where the length is symbolic, with the number of the step."""
    length, layout = params["length"], BodyLayout.of(params)
    consts, carry, xs = layout.split(args)
    body = sizes_first(eqn.inner(params["jaxpr"]), len(consts), len(eqn.numbers))
    consts = [*consts, *eqn.numbers]
    if is_symbolic(length):
        if body.effects:
            raise eqn.refuse("runs the effects of its body once for each real step")
        body = _stopping(eqn, body, len(consts), len(carry))
        steps = eqn.most(length)
        consts, xs = [*consts, eqn.number(length)], [*xs, iota(_INT32, (steps,), 0)]
        length = steps
    operands, sizes = BodyLayout.join(consts, carry, xs)
    params = {**params, **sizes, "jaxpr": body, "length": length, "unroll": eqn.most(params["unroll"])}
    return self.bind(*operands, **params)


def _stopping(eqn: PaddedEqn, body: Jaxpr, num_consts: int, num_carry: int) -> Jaxpr:
    """The body with two more operands: after the constants the number of real steps, and last that of the step."""
    avals = body.in_avals
    skipped = _skipped(body, num_consts, num_carry) if may_not_end(body) else None

    def run(*args: Any) -> list[Any]:
        consts, (count,), rest = split_at(args, num_consts, 1)
        operands, goes_on = [*consts, *rest[:-1]], lt(rest[-1], count)
        if skipped is not None:
            return eqn.branch(goes_on, body, skipped, operands)
        outs = eval_jaxpr(body, operands)
        after = zip(outs, rest[:num_carry], strict=False)
        return [*(where(goes_on, new, old) for new, old in after), *outs[num_carry:]]

    return trace_closed(run, [*avals[:num_consts], NUMBER, *avals[num_consts:], NUMBER])


def _skipped(body: Jaxpr, num_consts: int, num_carry: int) -> Jaxpr:
    """The body of a step that does nothing."""

    def stay(*operands: Any) -> list[Any]:
        carry = zip(operands[num_consts : num_consts + num_carry], body.out_avals, strict=False)
        same = [convert_element_type(x, aval.dtype, aval.weak_type) for x, aval in carry]
        return [*same, *map(array_ops.zeros, body.out_avals[num_carry:])]

    return trace_closed(stay, body.in_avals)
