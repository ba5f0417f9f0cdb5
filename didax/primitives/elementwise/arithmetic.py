"""Arithmetic: the first table of elementwise operations, and what their entries look like.

Each entry reads: name, StableHLO operation, NumPy function, derivative, and where the operation is linear its
transpose. A derivative maps the tangent `t` of one operand, the result and the operands to that operand's share of the
result's tangent; a transpose maps the cotangent `ct` of the result and the operands to the operand's cotangent. NumPy
functions that differ from XLA at a corner (division by zero, NaN, the sign of zero) are in `numpy_rules.py`.
Read next: `elementary.py`, the second table; `families.py` for what is made of an entry.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.avals import aval_of
from didax.passes.checkify import Condition
from didax.primitives import numpy_rules
from didax.primitives.counting import lower_product
from didax.primitives.elementwise.comparisons import ne
from didax.primitives.families import binary, unary
from didax.primitives.scalars import scalar_like
from didax.transforms.jet import cauchy, quotient

neg = unary("neg", hlo="negate", eager=np.negative, accepts="iufc",
            jvp=lambda t, y, x: neg(t), transpose=lambda ct, x: neg(ct))  # fmt: skip
add = binary("add", eager=np.add,
             jvp=(lambda t, z, x, y: t, lambda t, z, x, y: t),
             transpose=(lambda ct, x, y: ct, lambda ct, x, y: ct))  # fmt: skip
sub = binary("sub", hlo="subtract", eager=np.subtract,
             jvp=(lambda t, z, x, y: t, lambda t, z, x, y: neg(t)),
             transpose=(lambda ct, x, y: ct, lambda ct, x, y: neg(ct)))  # fmt: skip
mul = binary("mul", hlo="multiply", eager=np.multiply, lower=lower_product,
             jvp=(lambda t, z, x, y: mul(t, y), lambda t, z, x, y: mul(x, t)),
             transpose=(lambda ct, x, y: mul(ct, y), lambda ct, x, y: mul(x, ct)),
             taylor=lambda k, z, xs: cauchy(mul, k, *xs))  # fmt: skip
div = binary("div", hlo="divide", eager=numpy_rules.divide, numpy_kinds="iuf",
             lower=lambda ctx, x, y: lower_division(ctx, "divide", x, y),
             jvp=(lambda t, z, x, y: div(t, y), lambda t, z, x, y: neg(mul(t, div(z, y)))),
             transpose=(lambda ct, x, y: div(ct, y), None),
             taylor=lambda k, z, xs: quotient(div, mul, k, z, *xs),
             conditions=lambda x, y: [Condition("division", ne(y, 0), "division by zero", {})])  # fmt: skip
square = unary("square", hlo="multiply", eager=np.square, accepts="iufc",
               lower=lambda ctx, x: ctx.op("multiply", [x, x]),
               jvp=lambda t, y, x: mul(t, mul(x, 2)))  # fmt: skip


def lower_division(ctx: Any, op: str, x: Any, y: Any) -> Any:
    """The operation `op`; integers are never divided by 0, since XLA ends the process where the 0 is a constant."""
    aval = x.aval
    if not dtypes.is_integer(aval.dtype) or (y.constant is not None and y.constant != 0):
        return ctx.op(op, [x, y])
    is_zero = ctx.compare("EQ", y, ctx.constant(0, aval))
    quotient = ctx.op(op, [x, ctx.select(is_zero, ctx.constant(1, aval), y)])
    return ctx.select(is_zero, ctx.constant(~aval.dtype.type(0), aval) if op == "divide" else x, quotient)


def number_like(value: Any, x: Any) -> Any:
    """A Python number in the dtype of `x`."""
    return scalar_like(value, aval_of(x).dtype)
