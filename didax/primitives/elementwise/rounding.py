"""Rounding, the remainder of a division, and the neighbours of a floating-point number.

    rem(x, y) = x - n y, n = x / y rounded towards zero;  its derivative by y is -n

Floor, ceil and round are constant between their steps, so they have no derivative. Read next: `remainders.py`, for
the remainders of large arrays.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from didax.core.jaxpr_print import register_param_type
from didax.primitives import numpy_rules
from didax.primitives.elementwise.arithmetic import div, lower_division, mul, neg, sub
from didax.primitives.elementwise.comparisons import to_bool
from didax.primitives.families import binary, unary

_FLOAT32 = np.dtype(np.float32)


@register_param_type
class RoundingMethod(enum.IntEnum):
    """Where `round` takes halves: away from zero, or to the nearest even number.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.round(np.float32([0.5, 2.5]), RoundingMethod.AWAY_FROM_ZERO)
    Array([1., 3.], dtype=float32)
    >>> lax.round(np.float32([0.5, 2.5]), RoundingMethod.TO_NEAREST_EVEN)
    Array([0., 2.], dtype=float32)
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def _round_lower(ctx: Any, x: Any, *, rounding_method: RoundingMethod) -> Any:
    to_even = rounding_method == RoundingMethod.TO_NEAREST_EVEN
    return ctx.emit(f"stablehlo.round_nearest_{'even' if to_even else 'afz'} {x} : {x.type}", x.aval)


def _round_eager(x: Any, *, rounding_method: RoundingMethod) -> Any:
    return (
        np.rint(x)
        if rounding_method == RoundingMethod.TO_NEAREST_EVEN
        else numpy_rules.round_away_from_zero(x)
    )


def _nextafter_lower(ctx: Any, x: Any, y: Any) -> Any:
    out = ctx.emit(f"chlo.next_after {x}, {y} : {x.type}, {x.type} -> {x.type}", x.aval)
    if not x.aval.dtype.name.endswith("fnuz"):
        return out
    is_number = ctx.op("and", [ctx.compare("EQ", x, x), ctx.compare("EQ", y, y)])
    is_zero = ctx.op("and", [is_number, ctx.compare("NE", out, out)])  # -0.0 is NaN in such a dtype
    return ctx.select(is_zero, ctx.constant(0, x.aval), out)


def _rem_lower(ctx: Any, x: Any, y: Any) -> Any:
    from didax.primitives.elementwise.remainders import lower_remainder, pays  # on first need

    dtype = x.aval.dtype
    # The remainder is exact, and has no more digits than its operands.
    if dtype.name in ("float16", "bfloat16"):
        wide = [ctx.convert(z, _FLOAT32) for z in (x, y)]
        return ctx.convert(_rem_lower(ctx, *wide), dtype)
    return lower_remainder(ctx, x, y) if pays(ctx, x) else lower_division(ctx, "remainder", x, y)


floor = unary("floor", eager=np.floor, accepts="f", jvp=None)
ceil = unary("ceil", eager=np.ceil, accepts="f", jvp=None)
round_ = unary("round", eager=_round_eager, accepts="f", lower=_round_lower, jvp=None)
is_finite = unary("is_finite", eager=np.isfinite, accepts="f", out_dtype=to_bool)
nextafter = binary("nextafter", eager=numpy_rules.nextafter, accepts="f", lower=_nextafter_lower,
                   jvp=(lambda t, z, x, y: t, None))  # fmt: skip
nextafter.widens = False

rem = binary("rem", hlo="remainder", eager=numpy_rules.remainder, accepts="iuf",
             lower=_rem_lower,
             jvp=(lambda t, z, x, y: t, lambda t, z, x, y: neg(mul(t, _multiple(z, x, y)))))  # fmt: skip


def _multiple(z: Any, x: Any, y: Any) -> Any:
    """The integer n of z = x - n y. Not x / y without its fraction: XLA's quotient of equal numbers may be below 1."""
    return round_(div(sub(x, z), y), rounding_method=RoundingMethod.TO_NEAREST_EVEN)
