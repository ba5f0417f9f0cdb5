"""The `padded` rules of branches and of while loops: their programs padded, with the real sizes as constants.

Read first: `didax/primitives/padded.py`. Read next: `padded_scan.py`.
"""

from __future__ import annotations

from typing import Any

from didax.core.jaxpr import Jaxpr
from didax.passes.buckets import PaddedEqn
from didax.primitives.control_flow.common import with_invars
from didax.primitives.control_flow.layout import WhileLayout, split_at


def branched(self: Any, eqn: PaddedEqn, index: Any, *args: Any, branches: tuple[Jaxpr, ...]) -> Any:
    """Pad each branch."""
    return self.bind(index, *args, *eqn.numbers, branches=tuple(map(eqn.inner, branches)))


def sizes_first(jaxpr: Jaxpr, before: int, count: int) -> Jaxpr:
    """A padded jaxpr that takes its `count` real sizes after its first inputs, not after all."""
    consts, rest, sizes = split_at(jaxpr.invars, before, len(jaxpr.invars) - before - count)
    return with_invars(jaxpr, [*consts, *sizes, *rest])


def while_loop(
    self: Any, eqn: PaddedEqn, *args: Any, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, **params: Any
) -> Any:
    """Pad the condition and the body."""
    cond_consts, consts, carry = WhileLayout.of(params).split(args)
    count = len(eqn.numbers)
    cond = sizes_first(eqn.inner(cond_jaxpr), len(cond_consts), count)
    body = sizes_first(eqn.inner(body_jaxpr), len(consts), count)
    operands, sizes = WhileLayout.join([*cond_consts, *eqn.numbers], [*consts, *eqn.numbers], carry)
    return self.bind(*operands, cond_jaxpr=cond, body_jaxpr=body, **sizes)
