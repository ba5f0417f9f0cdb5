"""Remainders of large float32 arrays on the CPU, in operations that XLA vectorizes.

    x rem y = x - n y, n = x / y without its fraction

XLA calls the C library for each element. Below 2**27 the quotient has fewer digits than float64, so the integer n is
right to one, and n y and the difference are exact. A first pass asks whether all elements allow that: no divisor is 0,
infinite or so small that a remainder may be denormal, no operand is NaN, no quotient is larger. Otherwise XLA computes
all of them, so the bits are the same in any case. Processor milliseconds of 1,000,000 pairs, one loaded core, XLA ->
here: remainder 17.5 -> 2.2, by one number 16.9 -> 1.2, `divmod` 18.5 -> 4.5; with an infinity among them 20.
Read next: `rounding.py`, which asks for this.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from didax.core.dims import is_symbolic
from didax.primitives.steps import reduce_in_steps
from didax.xla.text import FunctionContext, Value, function_type

MIN_SIZE = 1 << 13
_FLOAT32, _FLOAT64, _INT32, _UINT32, _BOOL = map(np.dtype, ("f4", "f8", "i4", "u4", "?"))
_LARGEST_QUOTIENT = 2.0**27
_LEAST_DIVISOR = 2.0**-100


def pays(ctx: FunctionContext, x: Value) -> bool:
    """Whether remainders are written in this way: of many float32 numbers, in a program for one CPU."""
    here = ctx.module.on_one_cpu and not ctx.module.alone
    return here and x.aval.dtype == _FLOAT32 and not is_symbolic(x.aval.size) and x.aval.size >= MIN_SIZE


def lower_remainder(ctx: FunctionContext, x: Value, y: Value) -> Value:
    """The remainder with the sign of `x`, for arrays of which `pays` holds."""
    size, divisor = ctx.op("abs", [x]), ctx.op("abs", [y])
    fits = [
        ctx.compare("LT", size, ctx.op("multiply", [divisor, ctx.constant(_LARGEST_QUOTIENT, y.aval)])),
        ctx.compare("GE", divisor, ctx.constant(_LEAST_DIVISOR, y.aval)),
        ctx.compare("LT", divisor, ctx.constant(np.inf, y.aval)),
    ]
    fit = ctx.op("and", [fits[0], ctx.op("and", fits[1:])])
    flat = ctx.reshape(fit, (x.aval.size,))
    all_fit = reduce_in_steps(ctx, flat, [0], _all) or _all(ctx, [flat], [0])[0]
    branches = ctx.region(), ctx.region()
    outs = branches[0].op("remainder", [x, y]), _by_quotient(branches[1], x, y)
    regions = ", ".join([branch.body([out]) for branch, out in zip(branches, outs, strict=True)])
    index = ctx.convert(all_fit, _INT32)
    return ctx.emit(f'"stablehlo.case"({index}) ({regions}) : {function_type([index], [x.aval])}', x.aval)


def _all(ctx: FunctionContext, xs: Sequence[Value], axes: Sequence[int]) -> list[Value]:
    return [ctx.reduce(xs[0], axes, "and", True)]


def _by_quotient(ctx: FunctionContext, x: Value, y: Value) -> Value:
    """The remainder by an integer quotient that may be off by one, and is then corrected."""
    size, divisor = (ctx.convert(ctx.op("abs", [z]), _FLOAT64) for z in (x, y))
    whole = ctx.op("floor", [ctx.op("divide", [size, divisor])])
    left = ctx.op("subtract", [size, ctx.op("multiply", [whole, divisor])])
    left = ctx.select(
        ctx.compare("LT", left, ctx.constant(0, left.aval)), ctx.op("add", [left, divisor]), left
    )
    left = ctx.select(ctx.compare("GE", left, divisor), ctx.op("subtract", [left, divisor]), left)
    bits = x.aval.update(dtype=_UINT32, weak_type=False)
    sign = ctx.op("and", [ctx.op("bitcast_convert", [x], bits), ctx.constant(1 << 31, bits)])
    signed = ctx.op("or", [ctx.op("bitcast_convert", [ctx.convert(left, _FLOAT32)], bits), sign])
    found = ctx.op("bitcast_convert", [signed], x.aval)
    return ctx.select(ctx.compare("LT", size, divisor), x, found)  # denormal numbers, too
