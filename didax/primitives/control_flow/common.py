"""What the primitives of control flow share: programs of functions, types of carries, eager runs.

Read next: `layout.py`, which operands are which; then `cond.py`, `while_loop.py` and `scan.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from didax.core.array_ops import instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.jaxpr import Eqn, Jaxpr, Var
from didax.core.primitive import Primitive, infer
from didax.primitives.call import jit_p
from didax.primitives.control_flow.layout import Values
from didax.transforms.cache import cached_on_jaxpr

BOOL = np.dtype(bool)
INT32 = np.dtype(np.int32)
COUNT = ShapedArray((), INT32)  # the type of a number of steps


class LoopPrimitive(Primitive):
    """A primitive that runs jaxprs in steps; its programs are remembered with the jaxpr of the parameter `main`."""

    multiple_results = True
    pushes_programs = True
    transposes_zeros = staticmethod(instantiate)  # for the backward rules in the body, at each step
    main: ClassVar[str] = "jaxpr"

    def evaluate(self, *args: Any, **params: Any) -> list[Any]:
        return run_compiled(self, args, self.main, params)


class Unbounded(LoopPrimitive):
    """A loop that may not end."""


def may_not_end(jaxpr: Jaxpr) -> bool:
    """Whether there is a while loop in the program."""
    return any(
        isinstance(eqn.primitive, Unbounded) or any(map(may_not_end, eqn.jaxprs)) for eqn in jaxpr.eqns
    )


def with_invars(jaxpr: Jaxpr, invars: Sequence[Var]) -> Jaxpr:
    """The jaxpr with its inputs in another order, or with more of them."""
    return Jaxpr(invars, jaxpr.eqns, jaxpr.outvars, jaxpr.name)


def carry_types(loop: str, before: Sequence[ShapedArray], after: Sequence[ShapedArray]) -> list[ShapedArray]:
    """The types of the carry that a loop returns: weak where they are weak both before and after the body.

    TypeError if the body changes a shape or a dtype.
    """
    if [a.strip_weak_type() for a in before] != [a.strip_weak_type() for a in after]:
        raise TypeError(
            message(
                f"The body of {loop} must return what it carries with the types it received.",
                f"received: {', '.join(map(str, before))}",
                f"returned: {', '.join(map(str, after))}",
                fix="Cast or broadcast the results of the body.",
            )
        )
    return [
        a if a.weak_type and b.weak_type else a.strip_weak_type() for a, b in zip(before, after, strict=True)
    ]


def run_compiled(primitive: Primitive, args: Values, main: str, params: dict[str, Any]) -> list[Any]:
    """Apply a primitive to concrete arrays as a compiled program, which is remembered with the jaxpr `params[main]`."""
    others = tuple((name, value) for name, value in params.items() if name != main)
    avals = tuple([aval_of(x) for x in args])
    return jit_p.bind(*args, jaxpr=_program_of(params[main], primitive, main, others, avals))


@cached_on_jaxpr
def _program_of(
    jaxpr: Jaxpr, primitive: Primitive, main: str, others: tuple[Any, ...], avals: tuple[ShapedArray, ...]
) -> Jaxpr:
    """The program of one equation, which applies the primitive to operands of these types."""
    # The equation holds a copy of the jaxpr: what is remembered with a jaxpr must not keep that jaxpr alive.
    params = {main: with_invars(jaxpr, jaxpr.invars), **dict(others)}
    invars = [Var(aval) for aval in avals]
    outvars = [Var(aval) for aval in infer(primitive, avals, params)]
    return Jaxpr(invars, [Eqn(primitive, invars, params, outvars)], outvars, primitive.name)
