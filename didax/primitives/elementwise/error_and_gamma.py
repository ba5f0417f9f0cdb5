"""The error function, the gamma function's logarithm and its derivatives, and the zeta function.

XLA computes them; NumPy has none. `special.py` has those that XLA lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from didax.core.avals import aval_of
from didax.core.errors import MissingRuleError, message
from didax.primitives.elementwise.arithmetic import add, mul, neg, number_like, square
from didax.primitives.elementwise.elementary import exp
from didax.primitives.families import binary, unary


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
lgamma = unary("lgamma", hlo="chlo.lgamma", accepts="f", jvp=lambda t, y, x: mul(t, digamma(x)))
digamma = unary(
    "digamma", hlo="chlo.digamma", accepts="f", jvp=lambda t, y, x: mul(t, polygamma(number_like(1, x), x))
)
polygamma = binary("polygamma", hlo="chlo.polygamma", accepts="f",
                   jvp=(no_derivative("polygamma", "order"),
                        lambda t, z, m, x: mul(t, polygamma(add(m, 1), x))))  # fmt: skip
zeta = binary("zeta", hlo="chlo.zeta", accepts="f",
              jvp=(no_derivative("zeta", "exponent"),
                   lambda t, z, x, q: neg(mul(t, mul(x, zeta(add(x, 1), q))))))  # fmt: skip
