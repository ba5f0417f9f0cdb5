"""The comparison by which devices agree before a loop or branch with a collective, and the rules that ask for it.

    agreed(x, axes) = the lowest x along the axes; CheckError where x is not the same everywhere

The other functions are the rules `differs` and `agree` that the primitives of control flow share. Read first:
`didax/passes/uneven.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core.avals import aval_of
from didax.core.errors import message
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.core.source import user_line
from didax.passes.uneven import NOWHERE, Axes, Choose, Follow
from didax.primitives.check import check_p
from didax.primitives.collectives import pmin_p
from didax.primitives.control_flow.common import BOOL, INT32
from didax.primitives.control_flow.layout import BodyLayout, Values, WhileLayout
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import eq, ne, neg
from didax.primitives.shape import reshape
from didax.primitives.slicing import concatenate, slice_axis
from didax.transforms.named_axes import named_axis
from didax.transforms.rewriting import trace_closed


def lowest(x: Any, axes: Axes) -> Any:
    """The lowest number, or False, of the scalars that devices have along manual axes."""
    low, _ = _ends(x, axes)
    return ne(low, np.int32(0)) if aval_of(x).dtype == BOOL else low


def agreed(x: Any, axes: Axes) -> Any:
    """What `lowest` gives, after a check that every device along `axes` has this value."""
    over = sorted(axes)
    low, high = _ends(x, axes)
    text = message(
        "Devices that exchange values in a loop or branch go through it together: one that leaves it earlier, or takes "
        "another branch, would leave the others waiting.",
        f"along {', '.join(map(repr, over))} the condition, index or number of steps goes from {{low}} to {{high}}",
        fix=f"Decide by what all devices share (lax.pmax(pred, {over[0]!r})), or exchange values outside.",
    )
    site = {"kind": "check", "message": text, "names": ("low", "high"), "line": str(user_line() or "")}
    check_p.bind(eq(low, high), low, high, debug=False, **site)
    return ne(low, np.int32(0)) if aval_of(x).dtype == BOOL else low


def _ends(x: Any, axes: Axes) -> list[Any]:
    """The lowest and the highest number, by one exchange."""
    over = tuple(sorted(axes))
    size = math.prod(named_axis(name).size for name in over)
    number = reshape(convert_element_type(x, INT32), (1,))
    ends = pmin_p.bind(concatenate([number, neg(number)], 0), axis_name=over, axis_size=size)
    low, high = (reshape(slice_axis(ends, i, i + 1, 0), ()) for i in range(2))
    return [low, neg(high)]


# --- Rules ------------------------------------------------------------------------------------------------


def branches_differ(
    self: Any, follow: Follow, choose: Choose, operands: Sequence[Axes], *, branches: tuple[Jaxpr, ...]
) -> list[Axes]:
    """`differs` of a choice of branches by the first operand."""
    index = choose(operands[0])
    columns = zip(*(follow(branch, operands[1:]) for branch in branches), strict=True)
    return [index.union(*column) for column in columns]


def scan_differs(
    self: Any, follow: Follow, choose: Choose, operands: Sequence[Axes], **params: Any
) -> list[Axes]:
    """`differs` of a scan, which takes as many steps on all devices."""
    return _scanned(follow, NOWHERE, operands, params)


def counted_differs(
    self: Any, follow: Follow, choose: Choose, operands: Sequence[Axes], **params: Any
) -> list[Axes]:
    """`differs` of a scan whose number of steps is the first operand."""
    return _scanned(follow, choose(operands[0]), operands[1:], params)


def while_differs(
    self: Any, follow: Follow, choose: Choose, operands: Sequence[Axes], **params: Any
) -> list[Axes]:
    """`differs` of a loop that a condition ends."""
    return _looped(follow, choose, NOWHERE, operands, params)[1]


def bounded_differs(
    self: Any, follow: Follow, choose: Choose, operands: Sequence[Axes], **params: Any
) -> list[Axes]:
    """`differs` of a loop that a condition or a number of steps, the first operand, ends. Steps taken come first."""
    steps, outs = _looped(follow, choose, operands[0], operands[1:], params)
    return [steps, *outs]


def checkpointed_differs(
    self: Any, follow: Follow, choose: Choose, operands: Sequence[Axes], **params: Any
) -> list[Axes]:
    """`differs` of a loop that a condition ends, and that returns the steps taken and what it saves on the way."""
    steps, outs = _looped(follow, choose, NOWHERE, operands, params)
    return [steps, *outs, *([steps, steps, *outs] if params["save"] else [])]


def first_agreed(
    self: Any, compare: Callable[[Any], Any], args: Values, params: dict[str, Any]
) -> tuple[Values, dict[str, Any]]:
    """The operands of a primitive whose first operand decides, with one that all devices agree on."""
    return [compare(args[0]), *args[1:]], params


def condition_agreed(
    self: Any, compare: Callable[[Any], Any], args: Values, params: dict[str, Any]
) -> tuple[Values, dict[str, Any]]:
    """`agree` of a loop that a condition ends."""
    cond = params["cond_jaxpr"]
    new = trace_closed(lambda *xs: [compare(eval_jaxpr(cond, xs)[0])], cond.in_avals)
    return args, {**params, "cond_jaxpr": new}


def both_agreed(
    self: Any, compare: Callable[[Any], Any], args: Values, params: dict[str, Any]
) -> tuple[Values, dict[str, Any]]:
    """`agree` of a loop that a condition or a number of steps ends."""
    return condition_agreed(self, compare, *first_agreed(self, compare, args, params))


def _scanned(follow: Follow, steps: Axes, operands: Sequence[Axes], params: dict[str, Any]) -> list[Axes]:
    consts, carry, xs = BodyLayout.of(params).split(operands)
    return _settled(lambda carry: follow(params["jaxpr"], [*consts, *carry, *xs]), carry, steps)


def _looped(
    follow: Follow, choose: Choose, limit: Axes, operands: Sequence[Axes], params: dict[str, Any]
) -> tuple[Axes, list[Axes]]:
    """Along which axes the number of steps may differ, and the results of the body at the end."""
    cond_consts, consts, carry = WhileLayout.of(params).split(operands)
    while True:
        steps = choose(limit | follow(params["cond_jaxpr"], [*cond_consts, *carry])[0])
        outs = _settled(lambda carry: follow(params["body_jaxpr"], [*consts, *carry]), carry, steps)
        if outs[: len(carry)] == list(carry):
            return steps, outs
        carry = outs[: len(carry)]


def _settled(body: Callable[[Sequence[Axes]], list[Axes]], carry: Sequence[Axes], steps: Axes) -> list[Axes]:
    """Along which axes the carry, and what else a body returns, may differ after a number of steps that may differ."""
    carry = [axes | steps for axes in carry]
    while True:
        outs = [axes | steps for axes in body(carry)]
        joined = [a | b for a, b in zip(carry, outs[: len(carry)], strict=True)]
        if joined == carry:
            return [*carry, *outs[len(carry) :]]
        carry = joined
