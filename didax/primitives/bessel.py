"""The Bessel functions of the first kind and low whole orders, of float32 numbers, by formulas in float64.

    bessel_orders(x, most=m)    J_0(x), ..., J_m(x) along a new first axis, with J_n' = (J_(n-1) - J_(n+1)) / 2

Up to max(8, m), J_n(x) = (x / 2)^n / n! h_n(x), where h_n = 0F1(; n + 1; -x^2 / 4) (DLMF 10.16.9). Two of them, of an
order that is not less than x, are power series in which few digits cancel; h_(n-1) = h_n - x^2 / (4 n (n + 1)) h_(n+1)
(DLMF 10.6.1) are those of lower orders, without a quotient by x. Beyond, by the forms of Hankel's expansions of J_0 and
J_1 (DLMF 10.17.3) and the recurrence upwards. `didax/scipy/_families.py` has what holds for other dtypes and any order.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.device_types import Split, split_of
from didax.core.dims import is_symbolic
from didax.core.primitive import Primitive
from didax.passes.sparsity import Dependence, selected
from didax.primitives import padded
from didax.primitives.composed import like, polynomial
from didax.primitives.control_flow.while_loop import while_of, while_p
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import abs_, add, div, eq, ge, le, lt, max_, min_, mul, sqrt, square, sub
from didax.primitives.elementwise.vectorized import cosine, sine
from didax.primitives.elementwise_operands import check_dtypes
from didax.primitives.holes import NOT_LINEAR
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, reshape
from didax.primitives.slicing import concatenate, dynamic_slice_p, dynamic_update_slice_p, slice_axis
from didax.transforms.batching import AxisData
from didax.xla.lowering import lower_function
from didax.xla.text import FunctionContext, Value
from didax.xla.written_calls import one_kernel

MOST = 16  # the largest order that `bessel_jn` leaves to this file
_LONG, _FEW_CORES = 1 << 14, 4  # longer arrays are left to XLA's loops where many cores share them
_BLOCK = 512  # elements whose orders are computed one after the other, while they are in the cache
_INT = np.dtype("int32")
# P and x Q of DLMF 10.17.3 in 1 / x^2 for x > 8, for the orders 0 and 1, fitted at Chebyshev's nodes: 2**-32, 2**-28
_HANKEL = ((
        (0.9999999999207991, -0.07031223176290545, 0.11200541516150259, -0.5435084290073388, 3.512539672046463),
        (-0.12499999965815793, 0.07324102021755932, -0.22646302700122872, 1.598110028981734, -12.543834934527636),
    ),
 (
        (1.0000000000886635, 0.11718719984018194, -0.14403153655966172, 0.6442179145781656, -4.03199208335364),
        (0.3749999996212796, -0.10253776938854503, 0.2768623076741651, -1.8501892330537826, 14.195141574102667),
    ),
)  # fmt: skip


def _series(n: int, quarter: Any) -> Any:
    """h_n in x^2 / 4 <= max(8, n)^2 / 4, to 2**-40."""
    coefficients, largest = [1.0], (max(8, n) / 2) ** 2
    while abs(coefficients[-1]) * largest ** (len(coefficients) - 1) > 2.0**-47:
        k = len(coefficients)
        coefficients.append(-coefficients[-1] / (k * (n + k)))
    return polynomial(quarter, coefficients)


def _hankel(x: Any) -> list[Any]:
    """J_0 and J_1 of positive numbers, from 8 on."""
    inverse = div(1, x)
    u = square(inverse)
    sin, cos = sine(x), cosine(x)
    size = sqrt(mul(inverse, 1 / math.pi))
    # sqrt(2) cos(x - pi / 4) and its kin, which are exact where x - pi / 4 would be rounded
    plus, minus = add(sin, cos), sub(sin, cos)
    return [
        mul(size, sub(mul(polynomial(u, p), c), mul(mul(polynomial(u, q), inverse), s)))
        for (p, q), (c, s) in zip(_HANKEL, ((plus, minus), (minus, mul(plus, -1))), strict=True)
    ]


def _values(x: Any, *, most: int) -> Any:
    """J_0 to J_most of float32 numbers. The signs of negative ones come from x / 2 and J_1."""
    dtype, shape = aval_of(x).dtype, aval_of(x).shape
    x = convert_element_type(x, np.dtype("float64"))
    top = max(8, most)
    size = abs_(x)
    near, endless = le(size, top), eq(size, math.inf)
    half = mul(where(near, x, like(0, x)), 0.5)
    far = max_(where(endless, like(top, x), size), like(top, x))
    zero, one = like(0, x), like(1, x)
    quarter = square(half)
    origin = [scalar_like(0, _INT)] * len(shape)
    row = lambda dtype: broadcast_in_dim(scalar_like(0.0, dtype), (most + 1, *shape), ())

    def write(rows: Any, n: Any, value: Any) -> Any:
        value = broadcast_in_dim(value, (1, *shape), tuple(range(1, len(shape) + 1)))
        return dynamic_update_slice_p.bind(rows, value, n, *origin)

    def down(n: Any, above: Any, here: Any, rows: Any) -> list[Any]:
        """From h_(n+1) and h_n to h_n and h_(n-1)."""
        rows = write(rows, min_(n, most), here)
        order = convert_element_type(max_(n, 1), x_dtype)
        below = sub(here, mul(mul(quarter, div(1, mul(order, add(order, 1)))), above))
        return [sub(n, 1), here, below, rows]

    x_dtype = aval_of(x).dtype
    start = [scalar_like(top, _INT), _series(top + 1, quarter), _series(top, quarter), row(x_dtype)]
    rows = while_of(while_p.run, lambda n, *_: ge(n, 0), down, start)[3]

    first, second = _hankel(far)
    negative = lt(x, 0)
    below, here = [where(endless, zero, y) for y in (first, where(negative, mul(second, -1), second))]
    inverse = mul(div(2, far), where(negative, like(-1, x), one))

    def up(n: Any, power: Any, here: Any, above: Any, out: Any) -> list[Any]:
        """From (x / 2)^n / n!, J_n and J_(n+1) to those of the next order; the J are of numbers that are not `near`."""
        factor = dynamic_slice_p.bind(rows, n, *origin, slice_sizes=(1, *shape))
        found = where(near, mul(power, reshape(factor, shape)), here)
        following = convert_element_type(add(n, 1), x_dtype)
        next_power = mul(power, mul(half, div(1, following)))
        return [
            add(n, 1),
            next_power,
            above,
            sub(mul(mul(inverse, following), above), here),
            write(out, n, convert_element_type(found, dtype)),
        ]

    start = [scalar_like(0, _INT), one, below, here, row(dtype)]
    return while_of(while_p.run, lambda n, *_: le(n, most), up, start)[4]


def _by_blocks(ctx: FunctionContext, x: Value, most: int) -> Value:
    """The same of a vector, block by block; the last one begins where it is whole."""
    n, index = x.aval.size, ShapedArray((), _INT)
    block = min(n, _BLOCK)

    def body(body: FunctionContext, state: list[Value]) -> list[Value]:
        i, out = state
        start = body.op("minimum", [i, body.constant(n - block, index)])
        found = lower_function(body, _values, [body.dynamic_slice(x, [start], [block])], most=most)[0]
        out = body.dynamic_update_slice(out, found, [body.constant(0, index), start])
        return [body.op("add", [i, body.constant(block, index)]), out]

    rows = ctx.broadcast(ctx.scalar(0.0, x.aval.dtype), x.aval.update(shape=(most + 1, n)), [])
    return ctx.loop(
        [ctx.constant(0, index), rows],
        lambda condition, state: condition.compare("LT", state[0], condition.constant(n, index)),
        body,
    )[1]


class BesselOrders(Primitive):
    """J_0, ..., J_most of each element, along a new first axis."""

    holes = {"transpose": NOT_LINEAR}
    padded = padded.elementwise

    def type(self, x: ShapedArray, *, most: int) -> ShapedArray:
        check_dtypes(self.name, "f", [x])
        return x.update(shape=(most + 1, *x.shape), weak_type=False)

    def lower(self, ctx: FunctionContext, x: Value, *, most: int) -> Value:
        size = x.aval.size
        if is_symbolic(size) or size == 0 or not ctx.module.on_one_cpu or ctx.module.alone:
            return lower_function(ctx, _values, [x], most=most)[0]
        if size > _LONG and (os.cpu_count() or 1) > _FEW_CORES:  # a kernel runs on one core
            return lower_function(ctx, _values, [x], most=most)[0]
        flat = ctx.reshape(x, (size,))
        out = one_kernel(ctx, self.name, [flat], lambda inner, x: _by_blocks(inner, x, most))
        return ctx.reshape(out, ctx.out_avals[0].shape)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, most: int) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        if type(t) is Zero:
            out = self.bind(x, most=most)
            return out, Zero(aval_of(out).tangent())
        more = self.bind(x, most=most + 1)
        here, above = slice_axis(more, 0, most + 1, 0), slice_axis(more, 1, most + 2, 0)
        first = mul(slice_axis(more, 1, 2, 0), -1)
        below = concatenate([first, slice_axis(more, 0, most, 0)], 0) if most else first
        t = broadcast_in_dim(t, aval_of(here).shape, tuple(range(1, aval_of(here).ndim)))
        return here, mul(t, mul(sub(below, above), 0.5))

    def batch(self, axis: AxisData, args: Any, dims: Any, *, most: int) -> tuple[Any, int]:
        return self.bind(args[0], most=most), dims[0] + 1

    def sharding(self, out: ShapedArray, x: ShapedArray, *, most: int) -> Split:
        return ((), *split_of(x))

    def sparsity(self, operands: Sequence[Dependence], *, most: int) -> Any:
        x = operands[0]
        return selected(x, np.tile(np.arange(x.aval.size), most + 1))


bessel_orders = BesselOrders("bessel_orders")
