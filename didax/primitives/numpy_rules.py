"""Eager rules of elementwise primitives for which NumPy's functions and XLA's differ.

Operands are NumPy arrays or scalars of one dtype; results have XLA's value at every corner: integer
division by zero, the smallest integer over -1, shifts beyond the width, the sign of zero. A rule that takes
several steps computes 16-bit floats in float32 and rounds the result once, as XLA does. There is one difference:
denormal numbers keep their values here, while XLA on the CPU takes them for 0.
Read next: `elementwise/`, the tables that name these rules.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from didax.core import dtypes

Rule = Callable[..., Any]
# These are NumPy's functions without the search for arrays of other libraries. A count takes a tenth of the time of
# `any` or `all`.
count_nonzero, where, concatenate = [inspect.unwrap(f) for f in (np.count_nonzero, np.where, np.concatenate)]
_BELOW_HALF = {np.dtype(kind): np.nextafter(kind(0.5), kind(0)) for kind in (np.float32, np.float64)}


def _in_float32(rule: Rule) -> Rule:
    """Compute 16-bit floats in float32."""

    def wrapped(*xs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype.itemsize > 2:
            return rule(*xs)
        return rule(*[x.astype(np.float32) for x in xs]).astype(dtype)

    return wrapped


def _is_integer(x: Any) -> bool:
    return x.dtype.kind in "iu"


def divide(x: Any, y: Any) -> Any:
    """The quotient. Of integers it is truncated, and has all bits set where the divisor is zero."""
    if not _is_integer(x):
        return np.divide(x, y)
    quotient = _quotient(x, y)
    return quotient if count_nonzero(y) == y.size else np.where(y == 0, ~np.zeros_like(y), quotient)


def _quotient(x: Any, y: Any) -> Any:
    return (x - np.fmod(x, y)) // y


def remainder(x: Any, y: Any) -> Any:
    """The remainder with the sign of `x`; `x` itself where an integer divisor is zero."""
    out = np.fmod(x, y)
    return np.where(y == 0, x, out) if _is_integer(x) and count_nonzero(y) < y.size else out


def power(x: Any, y: Any) -> Any:
    """x ** y; integers wrap, and their negative powers are truncated (0 unless x is 1 or -1)."""
    if x.dtype.kind != "i":
        return np.power(x, y)
    odd_sign = np.where(y & 1, x, np.ones_like(x))
    reciprocal = np.where(np.abs(x) == 1, odd_sign, np.zeros_like(x))
    return np.where(y < 0, reciprocal, np.power(x, np.maximum(y, 0)))


def sign(x: Any) -> Any:
    """-1 or 1; zeros keep their sign, and NaN stays NaN; of a complex number z it is z / |z|."""
    return (
        np.sign(x) if x.dtype.kind in "iuc" else np.where(np.abs(x) > 0, np.copysign(1, x).astype(x.dtype), x)
    )


def round_away_from_zero(x: Any) -> Any:
    """The nearest integer, halves away from zero."""
    if (below_half := _BELOW_HALF.get(x.dtype)) is not None:
        # The sum with the float below 1/2 reaches the next integer from halves on, and from nothing nearer to zero.
        return np.trunc(x + np.copysign(below_half, x))
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x).astype(x.dtype), whole)


def real(x: Any) -> Any:
    """The real part."""
    return x.real


def imag(x: Any) -> Any:
    """The imaginary part."""
    return x.imag


def complex_(x: Any, y: Any) -> Any:
    """x + iy, without arithmetic."""
    shape = np.broadcast_shapes(np.shape(x), np.shape(y))
    out = np.empty(shape, np.result_type(x.dtype, np.complex64))
    out.real, out.imag = x, y
    return out


rsqrt = _in_float32(lambda x: np.reciprocal(np.sqrt(x)))
logistic = _in_float32(lambda x: np.reciprocal(1 + np.exp(-x)))


def maximum(x: Any, y: Any) -> Any:
    """The larger operand: NaN if one of them is NaN, and 0.0 of the zeros 0.0 and -0.0."""
    out = np.maximum(x, y)
    if x.dtype.kind in "biuc" or not count_nonzero(zeros := out == 0):
        return out
    return where(zeros & (x == y), x + y, out)


def minimum(x: Any, y: Any) -> Any:
    """The smaller operand: NaN if one of them is NaN, and -0.0 of the zeros 0.0 and -0.0."""
    out = np.minimum(x, y)
    if x.dtype.kind in "biuc" or not count_nonzero(zeros := out == 0):
        return out
    return where(zeros & (x == y), -(-x - y), out)


def nextafter(x: Any, y: Any) -> Any:
    """The next float from `x` towards `y`; `y` where they are equal."""
    return np.where(x == y, y, np.nextafter(x, y))


def clamp(low: Any, x: Any, high: Any) -> Any:
    """`x` moved into [low, high]."""
    return minimum(maximum(x, low), high)


def _unsigned(x: Any) -> Any:
    return x.view(f"u{x.dtype.itemsize}")


def shift_left(x: Any, y: Any) -> Any:
    """Bits moved up; the result is 0 where the amount is at least the width."""
    return np.left_shift(x, y)


def shift_right_arithmetic(x: Any, y: Any) -> Any:
    """Bits moved down; copies of the highest bit move in, for unsigned dtypes too."""
    signed = f"i{x.dtype.itemsize}"
    return np.right_shift(x.view(signed), y.view(signed)).view(x.dtype)


def shift_right_logical(x: Any, y: Any) -> Any:
    """Bits moved down; zeros move in."""
    return np.right_shift(_unsigned(x), _unsigned(y)).view(x.dtype)


def take_along(x: Any, indices: Any, axis: int) -> Any:
    """`np.take_along_axis`, which takes 10 microseconds to make the indices of the other axes, where there are any."""
    if x.ndim == 1:
        return x[indices]
    if x.ndim == 2 and len(x) == 1 and axis in (1, -1):
        return x[:, indices[0]]
    return np.take_along_axis(x, indices, axis)


def population_count(x: Any) -> Any:
    """The number of set bits."""
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def count_leading_zeros(x: Any) -> Any:
    """The number of zero bits above the highest set one."""
    bits, width, shift = _unsigned(x), 8 * x.dtype.itemsize, 1
    while shift < width:  # set every bit below the highest set one
        bits = bits | bits >> shift
        shift *= 2
    return (width - np.bitwise_count(bits)).astype(x.dtype)


def convert(x: Any, dtype: np.dtype[Any]) -> Any:
    """The values in another dtype. Complex to real keeps the real part; float to integer saturates."""
    if dtypes.is_complex(x.dtype) and not dtypes.is_complex(dtype) and dtype != np.bool_:
        x = x.real
    if dtypes.is_integer(dtype) and dtypes.is_float(x.dtype):
        return saturation(dtype)(x)
    # The package ml_dtypes cannot cast between all pairs of its own dtypes.
    if x.dtype.isbuiltin == dtype.isbuiltin == 2:
        x = x.astype(np.int8 if dtypes.is_integer(dtype) else np.float32)
    return x.astype(dtype)


@functools.cache
def saturation(dtype: np.dtype[Any]) -> Rule:
    """The function that takes floats to the nearest integers of a dtype towards 0."""
    limits = dtypes.iinfo(dtype)
    low, high = [np.asarray(float(limit)) for limit in (limits.min, limits.max)]  # faster than scalars
    least, greatest = dtype.type(limits.min), dtype.type(limits.max)

    def saturate(x: Any) -> Any:
        x = x.astype(np.float64)
        fits = (x > low) & (x < high)
        if count_nonzero(fits) == fits.size:
            return x.astype(dtype)
        inside = np.where(fits, x, 0).astype(dtype)
        return np.where(x >= high, greatest, np.where(x <= low, least, inside))

    return saturate


def of_kind(rule: Rule, dtype: np.dtype[Any]) -> Rule:
    """The NumPy function that a rule comes down to for a dtype; the rule itself where it does more."""
    return _OF_KINDS.get(rule, {}).get(dtype.kind, rule)


_OF_KINDS: dict[Rule, dict[str, Rule]] = {
    divide: {"f": np.divide, "c": np.divide},
    remainder: {"f": np.fmod},
    power: {"f": np.power, "c": np.power},
    maximum: dict.fromkeys("biuc", np.maximum),
    minimum: dict.fromkeys("biuc", np.minimum),
    shift_left: dict.fromkeys("iu", np.left_shift),
    shift_right_arithmetic: {"i": np.right_shift},
    shift_right_logical: {"u": np.right_shift},
    sign: {"i": np.sign, "u": np.sign, "f": lambda x: np.copysign(np.sign(x), x)},
}


def of_constants(rule: Rule, constants: list[Any]) -> Rule:
    """The rule for operands of which some are these constants, the others None: without cases that cannot occur."""
    if len(constants) != 2 or (rule not in (divide, remainder, maximum, minimum)):
        return rule
    first, second = constants
    if rule in (divide, remainder):  # of integers, by `of_kind`
        knows = second is not None and count_nonzero(second) == second.size
        return (_quotient if rule is divide else np.fmod) if knows else rule
    constant = first if second is None else second
    if constant is None or constant.dtype.kind != "f":
        return rule
    if count_nonzero(constant) == constant.size:  # no zero meets another one
        return np.maximum if rule is maximum else np.minimum
    return _maximum_with_zero if rule is maximum and not np.signbit(constant).any() else rule


def _maximum_with_zero(x: Any, y: Any) -> Any:
    return np.maximum(x, y) + 0.0  # where -0.0 becomes 0.0
