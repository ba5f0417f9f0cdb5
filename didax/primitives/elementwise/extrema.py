"""The larger and the smaller of two numbers, and a number within bounds. NaN stays NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from didax.core import dtypes
from didax.core.avals import aval_of
from didax.primitives import numpy_rules
from didax.primitives.elementwise.arithmetic import mul, number_like
from didax.primitives.elementwise.comparisons import eq, gt, lt
from didax.primitives.elementwise.logic_and_bits import and_, or_
from didax.primitives.families import Elementwise, binary
from didax.primitives.select import where
from didax.xla.text import keep_nan, lower_combination


def _share_of(wins: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The rule of the operand `x` of an extremum of x and y: its tangent where it wins, half of it at a tie.

    Complex numbers have no `wins`; the extremum `z` tells. Real ones are compared with each other, because a compiled
    program may have computed z from an x that was rounded otherwise.
    """

    def rule(t: Any, z: Any, x: Any, y: Any) -> Any:
        chosen = eq(z, x) if dtypes.is_complex(aval_of(x).dtype) else wins(x, y)
        return where(eq(x, y), mul(t, 0.5), where(chosen, t, number_like(0, t)))

    return rule


def _of_both(rule: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return rule, lambda t, z, x, y: rule(t, z, y, x)


def _extremum_lower(op: str) -> Callable[..., Any]:
    return lambda ctx, x, y: keep_nan(ctx, lower_combination(ctx, op, x, y))  # See Note [NaN in extrema]


max_ = binary("max", eager=numpy_rules.maximum, accepts="biufc", lower=_extremum_lower("maximum"),
              jvp=_of_both(_share_of(gt)))  # fmt: skip
min_ = binary("min", eager=numpy_rules.minimum, accepts="biufc", lower=_extremum_lower("minimum"),
              jvp=_of_both(_share_of(lt)))  # fmt: skip
clamp = Elementwise("clamp", 3, hlo="clamp", eager=numpy_rules.clamp, accepts="iuf",
                    jvp=[lambda t, z, low, x, high: _where_or_zero(and_(gt(low, x), lt(low, high)), t),
                         lambda t, z, low, x, high: _where_or_zero(and_(gt(x, low), lt(x, high)), t),
                         lambda t, z, low, x, high: _where_or_zero(or_(lt(high, x), lt(high, low)), t)])  # fmt: skip


def _where_or_zero(condition: Any, t: Any) -> Any:
    return where(condition, t, number_like(0, t))
