"""Elementary functions of complex numbers at signed zeros, infinities and NaN, as Annex G of the C standard has them.

XLA's are precise for finite numbers, but take -0.0 for 0.0, so that they err on one side of a branch cut, and make NaN
of what has a limit. All of them are symmetric: f(conj z) = conj f(z), and most are odd too. So XLA is asked for
the value at |x| + i|y|, a few selections put in what it lacks there, and signs bring the result back:

    symmetry       operand it is computed at   negated
    "conjugate"    x + i|y|                    the imaginary part for y < 0
    "odd"          |x| + i|y|                  the real part for x < 0, the imaginary part for y < 0

where -0.0 counts as negative. Real operands pass through. Read next: `elementwise/`, which names these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from didax.core import dtypes

Corner = Callable[["Corners", Any, Any, Any, Any], tuple[Any, Any]]


class Corners:
    """The writer of the rules below: comparisons of real and imaginary parts, and choices."""

    def __init__(self, ctx: Any) -> None:
        self.ctx = ctx

    def equals(self, x: Any, value: float) -> Any:
        return self.ctx.compare("EQ", x, self.ctx.constant(value, x.aval))

    def any_of(self, first: Any, *others: Any) -> Any:
        for other in others:
            first = self.ctx.op("or", [first, other])
        return first

    def all_of(self, first: Any, *others: Any) -> Any:
        for other in others:
            first = self.ctx.op("and", [first, other])
        return first

    def no(self, condition: Any) -> Any:
        return self.ctx.op("not", [condition])

    def is_nan(self, x: Any) -> Any:
        return self.ctx.compare("NE", x, x)

    def is_endless(self, x: Any) -> Any:
        """Whether `x` is infinite or NaN."""
        return self.no(self.ctx.op("is_finite", [x], x.aval.update(dtype=np.dtype(bool), weak_type=False)))

    def is_infinite(self, x: Any) -> Any:
        return self.equals(self.ctx.op("abs", [x]), math.inf)

    def put(self, condition: Any, value: Any, otherwise: Any) -> Any:
        """The value, a part or a number, where the condition holds."""
        if isinstance(value, float):
            value = self.ctx.constant(value, otherwise.aval)
        return self.ctx.select(condition, value, otherwise)

    def negated(self, condition: Any, x: Any) -> Any:
        return self.put(condition, self.ctx.op("negate", [x]), x)

    def is_negative(self, x: Any) -> Any:
        """Whether the sign bit of `x` is set."""
        bits = x.aval.update(dtype=np.dtype(f"i{x.aval.dtype.itemsize}"), weak_type=False)
        return self.ctx.compare("LT", self.ctx.op("bitcast_convert", [x], bits), self.ctx.constant(0, bits))

    def parts(self, z: Any) -> tuple[Any, Any]:
        part = z.aval.update(dtype=dtypes.real_dtype(z.aval.dtype))
        return self.ctx.op("real", [z], part), self.ctx.op("imag", [z], part)


def _operation(ctx: Any, hlo: str, z: Any) -> Any:
    return ctx.emit(f"{hlo} {z} : {z.type}" + (f" -> {z.type}" if hlo.startswith("chlo") else ""), z.aval)


def circular(hlo: str) -> Callable[..., Any]:
    """The lowering of sine, cosine, sinh or cosh: for complex numbers by products of real functions.

        sin z = sin x cosh y + i cos x sinh y        sinh z = -i sin(iz)
        cos z = cos x cosh y - i sin x sinh y        cosh z = cos(iz)

    XLA's own lowerings are differences of exponentials, which cancel near 0.
    """

    def lower(ctx: Any, z: Any) -> Any:
        if not dtypes.is_complex(z.aval.dtype):
            return _operation(ctx, hlo, z)
        c = Corners(ctx)
        x, y = c.parts(z)
        if hlo == "stablehlo.sine":
            return ctx.op("complex", _sine(c, x, y), z.aval)
        if hlo == "chlo.sinh":  # sinh(x + iy) has the parts of sin(y + ix)
            return ctx.op("complex", _sine(c, y, x)[::-1], z.aval)
        re, im = _cosine(c, x, y) if hlo == "stablehlo.cosine" else _cosine(c, y, x)
        return ctx.op("complex", [re, im if hlo == "chlo.cosh" else ctx.op("negate", [im])], z.aval)

    return lower


def _sine(c: Corners, x: Any, y: Any) -> list[Any]:
    """sin x cosh y and cos x sinh y."""
    sine, cosine = [c.ctx.op(name, [x]) for name in ("sine", "cosine")]
    known = c.all_of(c.is_endless(x), c.any_of(c.equals(y, 0), c.is_infinite(y)))
    return [_grown(c, sine, "chlo.cosh", y), c.put(known, y, _grown(c, cosine, "chlo.sinh", y))]


def _cosine(c: Corners, x: Any, y: Any) -> list[Any]:
    """cos x cosh y and sin x sinh y."""
    sine, cosine = [c.ctx.op(name, [x]) for name in ("sine", "cosine")]
    endless = c.is_endless(x)
    re = c.put(c.all_of(endless, c.is_infinite(y)), math.inf, _grown(c, cosine, "chlo.cosh", y))
    return [re, c.put(c.all_of(endless, c.equals(y, 0)), y, _grown(c, sine, "chlo.sinh", y))]


def _grown(c: Corners, factor: Any, hyperbolic: str, y: Any) -> Any:
    """The factor times cosh y or sinh y, also where cosh y and sinh y overflow and the product does not."""
    most = math.log(float(dtypes.finfo(y.aval.dtype).max)) - 4
    least, greatest = [c.ctx.constant(limit, y.aval) for limit in (-most, most)]
    low = c.ctx.op("clamp", [least, y, greatest])
    size = c.ctx.op("exponential", [c.ctx.op("abs", [c.ctx.op("subtract", [y, low])])])
    product = c.ctx.op("multiply", [factor, _operation(c.ctx, hyperbolic, low)])
    nothing = c.put(c.is_nan(product), factor, product)
    return c.put(c.equals(factor, 0), nothing, c.ctx.op("multiply", [product, size]))


def exp(ctx: Any, z: Any) -> Any:
    """The lowering of exp: e**x (cos y + i sin y), also where e**x overflows and a part does not."""
    if not dtypes.is_complex(z.aval.dtype):
        return _operation(ctx, "stablehlo.exponential", z)
    c = Corners(ctx)
    x, y = c.parts(z)
    most = math.log(float(dtypes.finfo(x.aval.dtype).max)) - 4
    low = ctx.op("minimum", [x, ctx.constant(most, x.aval)])
    sizes = [ctx.op("exponential", [part]) for part in (low, ctx.op("subtract", [x, low]))]
    re, im = [ctx.op("multiply", [sizes[0], ctx.op(name, [y])]) for name in ("cosine", "sine")]
    rest = c.put(c.equals(x, -math.inf), 1.0, sizes[1])
    re, im = ctx.op("multiply", [re, rest]), ctx.op("multiply", [im, rest])
    return ctx.op("complex", exp_corner(c, x, y, re, c.put(c.equals(y, 0), y, im)), z.aval)


def exp2(ctx: Any, z: Any) -> Any:
    """The lowering of 2**z: 2**x (cos(y log 2) + i sin(y log 2))."""
    c = Corners(ctx)
    x, y = c.parts(z)
    angle = ctx.op("multiply", [y, ctx.constant(math.log(2), y.aval)])
    size = ctx.op("power", [ctx.constant(2, x.aval), x])
    re, im = [ctx.op("multiply", [size, ctx.op(name, [angle])]) for name in ("cosine", "sine")]
    return ctx.op("complex", exp_corner(c, x, y, re, c.put(c.equals(y, 0), y, im)), z.aval)


def symmetric(hlo: str, symmetry: str, corner: Corner | None = None) -> Callable[..., Any]:
    """The lowering of a function: XLA's operation, and for complex numbers the symmetry and the corners of it."""

    def lower(ctx: Any, z: Any) -> Any:
        if not dtypes.is_complex(z.aval.dtype):
            return _operation(ctx, hlo, z)
        c = Corners(ctx)
        x, y = c.parts(z)
        x_negative, y_negative = c.is_negative(x), c.is_negative(y)
        y = ctx.op("abs", [y])
        if symmetry != "conjugate":
            x = ctx.op("abs", [x])
        # The barrier keeps XLA from computing it twice.
        re, im = c.parts(ctx.barrier(_operation(ctx, hlo, ctx.op("complex", [x, y], z.aval))))
        if corner is not None:
            re, im = corner(c, x, y, re, im)
        if symmetry == "odd":
            re = c.negated(x_negative, re)
        return ctx.op("complex", [re, c.negated(y_negative, im)], z.aval)

    return lower


# Each takes parts x + iy of the operand (no sign where there is symmetry) and re + i im of XLA's result.


def exp_corner(c: Corners, x: Any, y: Any, re: Any, im: Any) -> tuple[Any, Any]:
    endless = c.is_endless(y)
    vanishes = c.all_of(endless, c.equals(x, -math.inf))
    grows = c.all_of(endless, c.equals(x, math.inf))
    return c.put(grows, math.inf, c.put(vanishes, 0.0, re)), c.put(vanishes, 0.0, im)


def expm1_corner(c: Corners, x: Any, y: Any, re: Any, im: Any) -> tuple[Any, Any]:
    re, im = exp_corner(c, x, y, re, im)
    return c.put(c.all_of(c.is_endless(y), c.equals(x, -math.inf)), -1.0, re), im


def sqrt_corner(c: Corners, x: Any, y: Any, re: Any, im: Any) -> tuple[Any, Any]:
    up = c.equals(y, math.inf)
    right, left = c.any_of(up, c.equals(x, math.inf)), c.any_of(up, c.equals(x, -math.inf))
    return c.put(right, math.inf, re), c.put(left, math.inf, im)


def tanh_corner(c: Corners, x: Any, y: Any, re: Any, im: Any) -> tuple[Any, Any]:
    return c.put(c.equals(x, 0), x, re), im


def asinh_corner(c: Corners, x: Any, y: Any, re: Any, im: Any) -> tuple[Any, Any]:
    return re, c.put(c.equals(y, 0), y, im)


def atanh_corner(c: Corners, x: Any, y: Any, re: Any, im: Any) -> tuple[Any, Any]:
    unknown = c.all_of(c.any_of(c.is_nan(x), c.is_nan(y)), c.no(c.equals(y, math.inf)))
    re = c.put(c.equals(x, 0), x, c.ctx.op("abs", [re]))
    return re, c.put(unknown, math.nan, im)


def acos_corner(c: Corners, x: Any, y: Any, re: Any, im: Any) -> tuple[Any, Any]:
    unknown = c.is_nan(y)
    im = c.put(c.all_of(unknown, c.no(c.is_infinite(x))), math.nan, im)
    return c.put(c.all_of(unknown, c.equals(x, 0)), math.pi / 2, re), im


def acosh_corner(c: Corners, x: Any, y: Any, re: Any, im: Any) -> tuple[Any, Any]:
    im, re = acos_corner(c, x, y, im, re)  # acosh z = i acos z in the upper half-plane
    return re, im


def turned(corner: Corner) -> Corner:
    """The corners of g from those of f, where g(z) = -i f(iz), as sin has it of sinh: parts change places."""

    def swapped(c: Corners, x: Any, y: Any, re: Any, im: Any) -> tuple[Any, Any]:
        im, re = corner(c, y, x, im, re)
        return re, im

    return swapped


def logarithm(hlo: str) -> Callable[..., Any]:
    """The lowering of a logarithm: infinite where a part of a complex number is."""

    def lower(ctx: Any, z: Any) -> Any:
        out = _operation(ctx, hlo, z)
        if not dtypes.is_complex(z.aval.dtype):
            return out
        c = Corners(ctx)
        x, y = c.parts(z)
        re, im = c.parts(ctx.barrier(out))  # computed once
        endless = c.any_of(c.is_infinite(x), c.is_infinite(y))
        return ctx.op("complex", [c.put(endless, math.inf, re), im], z.aval)

    return lower


def power(ctx: Any, z: Any, w: Any) -> Any:
    """The lowering of z**w, e**(w log z) in polar form: e**(c l - d a) at the angle d l + c a.

    For w = c + id, l = log |z| and a the argument of z. Powers of 0 are 1 for w = 0, 0 for c > 0, and else NaN.
    """
    c = Corners(ctx)
    (x, y), (re, im) = c.parts(z), c.parts(w)
    size, argument = ctx.op("abs", [z], x.aval), ctx.op("atan2", [y, x])
    size = c.put(c.any_of(c.is_infinite(x), c.is_infinite(y)), math.inf, size)
    length = ctx.op("log", [size])
    is_zero, is_real = c.equals(size, 0), c.equals(im, 0)
    turn, swing = ctx.op("multiply", [re, argument]), ctx.op("multiply", [im, length])
    shrink, grown = ctx.op("multiply", [im, argument]), ctx.op("multiply", [re, length])
    exponent = c.put(is_real, grown, ctx.op("subtract", [grown, shrink]))
    angle = c.put(is_real, turn, ctx.op("add", [swing, turn]))
    power = ctx.op("power", [size, re])
    in_range = c.all_of(ctx.op("is_finite", [power], is_zero.aval), c.no(c.equals(power, 0)))
    product = ctx.op("multiply", [power, ctx.op("exponential", [ctx.op("negate", [shrink])])])
    radius = c.put(is_real, power, c.put(in_range, product, ctx.op("exponential", [exponent])))
    out = [ctx.op("multiply", [radius, ctx.op(name, [angle])]) for name in ("cosine", "sine")]
    out = exp_corner(c, exponent, angle, out[0], c.put(c.equals(angle, 0), angle, out[1]))
    of_zero = c.put(ctx.compare("GT", re, ctx.constant(0, re.aval)), 0.0, ctx.constant(math.nan, re.aval))
    no_factor, one_factor = [c.all_of(is_real, c.equals(re, count)) for count in (0, 1)]
    parts = [
        c.put(no_factor, unit, c.put(one_factor, itself, c.put(is_zero, of_zero, part)))
        for unit, itself, part in zip((1.0, 0.0), (x, y), out, strict=True)
    ]
    return ctx.op("complex", parts, z.aval)


def rsqrt(ctx: Any, z: Any) -> Any:
    """The lowering of 1 / sqrt(z), conj(s) / |s|**2 for s = sqrt(z): each part has its digits, unlike XLA's."""
    if not dtypes.is_complex(z.aval.dtype):
        return _operation(ctx, "stablehlo.rsqrt", z)
    c = Corners(ctx)
    x, y = c.parts(z)
    root = symmetric("stablehlo.sqrt", "conjugate", sqrt_corner)(ctx, z)
    re, im = c.parts(root)
    size = ctx.op("sqrt", [absolute(ctx, z, ctx.op("abs", [z], x.aval))])
    re, im = [
        ctx.op("divide", [ctx.op("divide", [part, size]), size]) for part in (re, ctx.op("negate", [im]))
    ]
    endless = c.any_of(c.is_infinite(x), c.is_infinite(y))
    re, im = (
        c.put(endless, 0.0, re),
        c.put(endless, c.negated(c.no(c.is_negative(y)), c.put(endless, 0.0, im)), im),
    )
    return ctx.op("complex", [c.put(c.equals(size, 0), math.inf, re), im], z.aval)


def log_add_exp(ctx: Any, z: Any, w: Any) -> Any:
    """log(e**z + e**w), where XLA has no such operation: its imaginary part is within [-π, π]."""
    c = Corners(ctx)
    (x, y), (u, v) = c.parts(z), c.parts(w)
    first = ctx.compare("GE", x, u)
    larger, smaller = ctx.select(first, z, w), ctx.select(first, w, z)
    (x, y), (u, v) = c.parts(larger), c.parts(smaller)
    distance = c.put(ctx.compare("EQ", x, u), 0.0, ctx.op("subtract", [u, x]))
    ratio = exp(ctx, ctx.op("complex", [distance, ctx.op("subtract", [v, y])], z.aval))
    re, im = c.parts(ctx.op("add", [larger, logarithm("stablehlo.log_plus_one")(ctx, ratio)]))
    turned = ctx.op("atan2", [ctx.op("sine", [im]), ctx.op("cosine", [im])])
    within = ctx.compare("LE", ctx.op("abs", [im]), ctx.constant(math.pi, im.aval))
    return ctx.op("complex", [re, ctx.select(within, im, turned)], z.aval)


def logistic_corner(c: Corners, x: Any, y: Any, re: Any, im: Any) -> tuple[Any, Any]:
    grown = c.all_of(c.equals(x, math.inf), c.is_endless(y))
    return c.put(grown, 1.0, re), c.put(grown, 0.0, im)


def sign(ctx: Any, z: Any) -> Any:
    """The lowering of z / |z|: 0 at zeros of any sign, and along the axis of the one part that is infinite."""
    c = Corners(ctx)
    x, y = c.parts(z)
    re, im = c.parts(ctx.barrier(ctx.op("sign", [z])))  # computed once
    is_zero = c.all_of(c.equals(x, 0), c.equals(y, 0))
    re, im = c.put(is_zero, 0.0, re), c.put(is_zero, 0.0, im)
    for along, across in ((x, y), (y, x)):
        alone = c.all_of(c.is_infinite(along), c.no(c.is_infinite(across)))
        turn = ctx.op("sign", [along])
        re = c.put(alone, turn if along is x else 0.0, re)
        im = c.put(alone, turn if along is y else 0.0, im)
    return ctx.op("complex", [re, im], z.aval)


def absolute(ctx: Any, z: Any, out: Any) -> Any:
    """|z|, from XLA's result `out`: infinite where a part of z is, even if the other part is NaN."""
    c = Corners(ctx)
    x, y = c.parts(z)
    return c.put(c.any_of(c.is_infinite(x), c.is_infinite(y)), math.inf, out)
