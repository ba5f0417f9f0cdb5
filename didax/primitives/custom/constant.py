"""`constant_p`: an array written into a program.

Programs take the arrays that their functions closed over as inputs. A rule that a user wrote may be staged after the
inputs of its program are fixed. The arrays that such a rule closed over are written into the program.
Read next: `didax/transforms/closure.py`, which finds values from outside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core.avals import ShapedArray, aval_of
from didax.core.given import give
from didax.core.jaxpr import Eqn, Var
from didax.core.primitive import Primitive, eager_trace
from didax.core.tracing import set_current_trace
from didax.primitives.keys import random_unwrap_p
from didax.transforms.rewriting import Constants


class Held:
    """An array as a parameter, compared by identity."""

    __slots__ = ("aval", "value")

    def __init__(self, value: Any):
        # A NumPy array is copied, because its owner may write to it.
        self.value = np.array(value) if isinstance(value, np.ndarray) else value
        self.aval = aval_of(value)

    def __repr__(self) -> str:
        return str(self.aval)


class Constant(Primitive):
    """`constant_p.bind(held=Held(x))` is `x`."""

    holes = dict.fromkeys(("jvp", "transpose", "batch"), "it has no operands")

    def type(self, *, held: Held) -> ShapedArray:
        return held.aval

    def evaluate(self, *, held: Held) -> Any:
        return held.value

    def lower(self, ctx: Any, *, held: Held) -> Any:
        return ctx.constant(np.asarray(held.value), held.aval)

    def physical(self, avals: Any, *, held: Held) -> Any:
        with set_current_trace(eager_trace):
            words = random_unwrap_p.bind(held.value)
        return self.bind(held=Held(words))

    def dce(self, eqn: Eqn, used: Any) -> Eqn:
        return eqn


constant_p = Constant("constant")


@give(Constants, "equation")
def equation(var: Var, value: Any) -> Eqn:
    """`var = value`."""
    return Eqn(constant_p, [], {"held": Held(value)}, [var])
