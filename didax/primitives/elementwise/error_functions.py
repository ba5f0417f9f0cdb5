"""The error function, its complement and its inverse.

XLA computes them; NumPy has none. `primitives/gamma.py` and `primitives/fitted.py` have others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from didax.core.avals import aval_of
from didax.core.errors import MissingRuleError, message
from didax.primitives.elementwise.arithmetic import mul, neg, square
from didax.primitives.elementwise.elementary import exp
from didax.primitives.families import unary


def no_derivative(primitive: str, operand: str) -> Callable[..., Any]:
    """A jvp entry for an operand by which the derivative is not known."""

    def refuse(t: Any, *args: Any) -> Any:
        raise MissingRuleError(
            message(
                f"{primitive} has no derivative by its {operand}.",
                f"{operand}: {aval_of(t)}",
                fix=f"Hold the {operand} constant (stop_gradient); differentiate by the other operand only.",
            )
        )

    return refuse


erf = unary("erf", hlo="chlo.erf", accepts="f",
            jvp=lambda t, y, x: mul(t, mul(exp(neg(square(x))), 2 / math.sqrt(math.pi))))  # fmt: skip
erfc = unary("erfc", hlo="chlo.erfc", accepts="f",
             jvp=lambda t, y, x: mul(t, mul(exp(neg(square(x))), -2 / math.sqrt(math.pi))))  # fmt: skip
erf_inv = unary("erf_inv", hlo="chlo.erf_inv", accepts="f",
                jvp=lambda t, y, x: mul(t, mul(exp(square(y)), math.sqrt(math.pi) / 2)))  # fmt: skip
