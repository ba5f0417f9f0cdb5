"""Sines, powers and their kin of large float32 arrays on the CPU, in operations that XLA vectorizes.

    sin = elementary("sin", lower=vectorized(sine, at_corners.circular("stablehlo.sine")), ...)

XLA calls the C library for each element of a power, a cube root, a sine, cosine or tangent and their inverses. Here
they are polynomials in float64, rounded to float32 once: no error is above 0.51 units in the last place. Each is some
50 operations, which take 10 ms to compile, so small arrays, other dtypes, and all but the first MAX_USES of a program
are left to XLA. Milliseconds of the processor for 1,000,000 normal numbers, one loaded core of an AMD EPYC, XLA ->
here: sin and cos 9.0 -> 3.1, tan 15.7 -> 3.1, asin and acos 17.6 -> 3.3, atan 14.6 -> 1.6, atan2 34 -> 2.6; of one with
AVX-512 pow 5.0 -> 1.4, exp2 1.8 -> 0.5, cbrt 12.9 -> 2.0.
Read next: `elementary.py`, which names these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core.avals import aval_of
from didax.core.dims import is_symbolic
from didax.primitives.convert import bitcast_convert_type_p
from didax.primitives.elementwise.arithmetic import add, div, mul, neg, square, sub
from didax.primitives.elementwise.comparisons import eq, gt, lt, ne
from didax.primitives.elementwise.extrema import max_, min_
from didax.primitives.elementwise.logic_and_bits import and_, not_, or_, shift_left, shift_right_logical
from didax.primitives.elementwise.rounding import RoundingMethod, floor, round_
from didax.primitives.elementwise.signs_and_parts import abs_
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.xla.lowering import lower_function

MIN_SIZE = 1 << 13
MAX_USES = 8
_FLOAT32, _FLOAT64, _INT64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)

# 1 / (2 pi) in parts of 29 bits: the product of such a part and a float32 number is exact in float64. The last part has
# the bits that follow.
_TURNS = [
    float.fromhex(digits)
    for digits in (
        "0x1.45f306dp-3", "0x1.9391054p-32", "0x1.4fe13abp-61", "0x1.d1f534dp-90", "0x1.b81b6c5p-119",
        "0x1.5993c439041fep-150",
    )
]  # fmt: skip
# Fitted at Chebyshev nodes, in u = t * t, constants first: sin(2 pi t) / t and cos(2 pi t) for |t| up to 1/8, to 2**-37
# and 2**-33 of their values; atan(t) / t for |t| up to 1, to 2**-31; log2((1 + s) / (1 - s)) / s for numbers from the
# root of 1/2 to that of 2, to 2**-52, as an exponent may be many times a logarithm; 2**f for |f| up to 1/2, to 2**-34.
_SINE = (6.283185307151046, -41.34170214992894, 81.60520338341414, -76.69770824640028, 41.4670720818732)
_COSINE = (0.9999999999501311, -19.739208644094667, 64.93931382242201, -85.44256909069544, 59.21012431669593)
_ARCTANGENT = (
    0.9999999996145259, -0.3333332366562677, 0.19999595854185978, -0.1427904841711284, 0.11053784754700186,
    -0.0879611756278315, 0.06710114000711896, -0.044273668429416525, 0.022203455045528505, -0.007166164956401515,
    0.0010844927626975731,
)  # fmt: skip
_LOGARITHM = (
    2.885390081777927, 0.9617966939243345, 0.5770780172463286, 0.4121984020482752, 0.32061638813224547,
    0.2614442493522915, 0.2429160853987535,
)  # fmt: skip
_EXPONENTIAL = (
    0.9999999999595618, 0.6931471805568324, 0.24022651213498092, 0.05550410906325866, 0.009618025613318041,
    0.0013333478473686068, 0.000154697292141169, 1.5303700711232526e-05,
)  # fmt: skip
# The last two with fewer terms, to 2**-37 and 2**-29.
_SHORT_LOGARITHM = (
    2.8853900817900784, 0.9617966733522384, 0.5770835828995374, 0.4116728469972594, 0.3407276668616344,
)  # fmt: skip
_SHORT_EXPONENTIAL = (
    1.0000000005572272, 0.6931472057294706, 0.24022646857777252, 0.055503287944054805, 0.009618493331027666,
    0.0013399924786267948, 0.00015344496482465775,
)  # fmt: skip
_MANTISSA = 52  # the bits of a float64 number below those of its exponent
_WHOLE = 1.5 * 2.0**_MANTISSA  # added to a small number, it leaves the nearest integer in the lowest bits


def vectorized(kernel: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """A lowering: by the kernel, a function of float64 arrays, where that pays, and `otherwise` elsewhere."""

    def lower(ctx: Any, *xs: Any) -> Any:
        aval = xs[0].aval
        is_large = aval.dtype == _FLOAT32 and not is_symbolic(aval.size) and aval.size >= MIN_SIZE
        if not is_large or ctx.module.expanded >= MAX_USES or not ctx.module.on_cpu:
            return otherwise(ctx, *xs)
        ctx.module.expanded += 1
        return ctx.convert(lower_function(ctx, kernel, [ctx.convert(x, _FLOAT64) for x in xs])[0], _FLOAT32)

    return lower


def sine(x: Any) -> Any:
    """sin x, for float32 numbers."""
    quarters, s, c = _quarters(x)
    value = where(_is_odd(quarters), c, s)
    turned = where(_is_odd(floor(mul(quarters, 0.5))), neg(value), value)
    return where(lt(abs_(x), 2.0**-12), x, turned)  # -0.0, too


def cosine(x: Any) -> Any:
    """cos x, for float32 numbers."""
    quarters, s, c = _quarters(x)
    value = where(_is_odd(quarters), s, c)
    return where(_is_odd(floor(mul(add(quarters, 1.0), 0.5))), neg(value), value)


def tangent(x: Any) -> Any:
    """tan x, for float32 numbers."""
    quarters, s, c = _quarters(x)
    odd = _is_odd(quarters)
    value = div(where(odd, neg(c), s), where(odd, s, c))
    return where(lt(abs_(x), 2.0**-12), x, value)


def _quarters(x: Any) -> tuple[Any, Any, Any]:
    """The quarter turns next to an angle, up to whole turns, and sine and cosine of what the angle exceeds them by.

    The fraction of a turn is the sum of the fractions of all parts. The number of quarters is taken from the largest
    parts first, which is exact, so that no digit is lost where a small angle is left.
    """
    *exact, last = [mul(x, part) for part in _TURNS]
    fractions = [*(sub(y, _round(y)) for y in exact), last]
    total = fractions[0]
    for y in fractions[1:]:
        total = add(total, y)
    quarters = _round(mul(total, 4.0))
    t = sub(fractions[0], mul(quarters, 0.25))
    for y in fractions[1:]:
        t = add(t, y)
    u = square(t)
    return quarters, mul(t, _polynomial(u, _SINE)), _polynomial(u, _COSINE)


def arctangent(x: Any) -> Any:
    """atan x, for float32 numbers."""
    steep = gt(abs_(x), 1.0)
    t = where(steep, div(-1.0, x), x)
    y = mul(t, _polynomial(square(t), _ARCTANGENT))
    return where(steep, add(y, where(gt(x, 0.0), _like(math.pi / 2, x), _like(-math.pi / 2, x))), y)


def arctangent2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y), for float32 numbers: of signed zeros and infinities that of the C standard."""
    height, width = abs_(y), abs_(x)
    steep, level = gt(height, width), eq(height, width)
    t = div(where(steep, width, height), where(steep, height, width))
    t = where(level, where(gt(height, 0.0), _like(1.0, x), _like(0.0, x)), t)  # not 0 / 0, nor inf / inf
    angle = mul(t, _polynomial(square(t), _ARCTANGENT))
    angle = where(steep, sub(math.pi / 2, angle), angle)
    angle = where(_is_negative(x), sub(math.pi, angle), angle)
    return where(_is_negative(y), neg(angle), angle)


def power(x: Any, y: Any) -> Any:
    """x ** y, for float32 numbers: 2 ** (y log2 |x|), with the sign and the special cases of the C standard."""
    negative = lt(_bits(x), 0)  # -0.0, too
    limit = where(gt(y, 2.0**200), _like(2.0**200, y), y)  # infinity times log2 1 is to be 0
    limit = where(lt(limit, -(2.0**200)), _like(-(2.0**200), y), limit)
    value = exponential2(mul(limit, logarithm2(abs_(x))))
    is_whole = eq(y, floor(y))
    value = where(and_(negative, and_(is_whole, _is_odd(y))), neg(value), value)
    is_root = and_(and_(lt(x, 0.0), gt(x, -math.inf)), not_(is_whole))  # of a negative number
    value = where(is_root, _like(math.nan, x), value)
    return where(or_(eq(x, 1.0), eq(y, 0.0)), _like(1.0, x), value)


def exponential2(x: Any, most: float = 200.0) -> Any:
    """2 ** x, to be rounded to float32, for an exponent up to `most`, and that for others; NaN for NaN."""
    exponent = max_(min_(x, _like(most, x)), _like(-most, x))
    whole = _round(exponent)
    fraction = _polynomial(sub(exponent, whole), _EXPONENTIAL)
    # A NaN of float32 has no bits in the lower half, so what is added to the bits of another is 0.
    return _number(add(_bits(fraction), shift_left(_bits(add(whole, _WHOLE)), _MANTISSA)))


def cube_root(x: Any) -> Any:
    """The real root of a float32 number, negative for a negative one."""
    root = exponential2(mul(logarithm2(abs_(x)), 1 / 3))
    return where(eq(x, 0.0), x, where(lt(x, 0.0), neg(root), root))


def logarithm2(x: Any, excess: Any = None) -> Any:
    """log2 x, for numbers of at least 0 that are not subnormal; `excess` is x - 1 where more digits of it are known."""
    one, root = (int(np.float64(v).view(np.int64)) for v in (1.0, math.sqrt(0.5)))
    # The exponent, as it is stored, that leaves a mantissa next to 1: 1023 from the root of 1/2 to that of 2.
    exponent = shift_right_logical(add(_bits(x), one - root), _MANTISSA)
    mantissa = _number(add(sub(_bits(x), shift_left(exponent, _MANTISSA)), one))
    over = sub(mantissa, 1.0)
    if excess is not None:
        over = where(eq(exponent, 1023), excess, over)
    # In one kernel: XLA makes one of its own of a quotient that is read twice.
    s = mul(over, div(1.0, add(over, 2.0)))
    # The bits of 2**52 and of an integer below it are those of their sum.
    whole = sub(_number(or_(exponent, int(np.float64(2.0**_MANTISSA).view(np.int64)))), 2.0**_MANTISSA + 1023)
    value = add(whole, mul(s, _polynomial(square(s), _LOGARITHM)))
    value = where(lt(x, math.inf), value, x)
    return where(eq(x, 0.0), _like(-math.inf, x), value)


def power_of_share(r: Any, s: Any) -> Any:
    """r ** s for 0 < r <= 1 and s >= 0, to 2**-27 of the sum of it and 1; no less than 2**-60."""
    one, root = (int(np.float64(v).view(np.int64)) for v in (1.0, math.sqrt(0.5)))
    exponent = shift_right_logical(add(_bits(r), one - root), _MANTISSA)
    over = sub(_number(add(sub(_bits(r), shift_left(exponent, _MANTISSA)), one)), 1.0)
    y = mul(over, div(1.0, add(over, 2.0)))
    whole = sub(_number(or_(exponent, int(np.float64(2.0**_MANTISSA).view(np.int64)))), 2.0**_MANTISSA + 1023)
    power = mul(s, add(whole, mul(y, _polynomial(square(y), _SHORT_LOGARITHM))))
    power = where(lt(power, -60.0), _like(-60.0, r), power)
    whole = _round(power)
    fraction = _polynomial(sub(power, whole), _SHORT_EXPONENTIAL)
    return _number(add(_bits(fraction), shift_left(_bits(add(whole, _WHOLE)), _MANTISSA)))


def _bits(x: Any) -> Any:
    return bitcast_convert_type_p.bind(x, new_dtype=_INT64)


def _number(bits: Any) -> Any:
    return bitcast_convert_type_p.bind(bits, new_dtype=_FLOAT64)


def _is_negative(x: Any) -> Any:
    """Its sign bit: 1 / -0.0 is negative."""
    return lt(where(eq(x, 0.0), div(1.0, x), x), 0.0)


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """c0 + c1 x + c2 x^2 + ..., by Horner's scheme."""
    total = add(mul(x, coefficients[-1]), coefficients[-2])
    for c in coefficients[-3::-1]:
        total = add(mul(total, x), c)
    return total


def _like(value: float, x: Any) -> Any:
    return scalar_like(value, aval_of(x).dtype)


def _round(x: Any) -> Any:
    return round_(x, rounding_method=RoundingMethod.TO_NEAREST_EVEN)


def _is_odd(whole: Any) -> Any:
    half = mul(whole, 0.5)
    return ne(half, floor(half))
