"""Rows: arithmetic, comparison, logic, elementary and special functions (didax.lax), against jax.lax.

Corners leave out denormal numbers, which XLA on the CPU takes for 0 and NumPy does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from didax import lax
from didax.primitives import divisors
from tests.operations.row import BOOL, COMPLEX, FLOATS, INTS, UINTS, Operation

REAL = (*FLOATS, "bfloat16")
INEXACT = (*REAL, *COMPLEX)
SOME_INTS = ("int32", "int8", "uint32", "int64")
SHAPE = (2, 3)
Draw = Callable[[np.random.Generator, np.dtype[Any]], np.ndarray[Any, Any]]


def between(low: float, high: float) -> Draw:
    """Numbers from an interval; complex ones also have an imaginary part, of up to 1."""

    def draw(rng: np.random.Generator, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        x = rng.uniform(low, high, SHAPE)
        return (x + 1j * rng.uniform(0.2, 1, SHAPE) if dtype.kind == "c" else x).astype(dtype)

    return draw


def away_from_zero(rng: np.random.Generator, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    sign = rng.choice([-1, 1], SHAPE)
    return (sign * between(0.3, 3)(rng, dtype)).astype(dtype)


def integers(low: int, high: int) -> Draw:
    return lambda rng, dtype: rng.integers(low if dtype.kind != "u" else max(low, 0), high, SHAPE).astype(
        dtype
    )


def booleans(rng: np.random.Generator, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return rng.choice([False, True], SHAPE)


def special_floats(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return np.array([0.0, -0.0, 1, -1, 0.5, 2.5, -2.5, np.inf, -np.inf, np.nan], dtype)


def special_integers(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    info = np.iinfo(dtype)
    return np.unique(np.array([0, 1, 2, 7, info.max, info.max - 1, info.min, info.min + 1], dtype))


def unary_corners(dtype: np.dtype[Any]) -> list[tuple[Any, ...]]:
    if dtype.kind == "c" or dtype.kind == "b":
        return []
    return [(special_integers(dtype) if dtype.kind in "iu" else special_floats(dtype),)]


def binary_corners(dtype: np.dtype[Any]) -> list[tuple[Any, ...]]:
    """All pairs of special numbers."""
    return [tuple(np.ascontiguousarray(g) for g in np.meshgrid(x, x)) for (x,) in unary_corners(dtype)]


def operation(
    name: str,
    draws: Sequence[Draw],
    dtypes: tuple[str, ...] = REAL,
    corners: Any = None,
    label: str = "",
    params: Sequence[Any] = (),
    reference: Callable[..., Any] | None = None,
    **more: Any,
) -> Operation:
    """A row for didax.lax.NAME; jax.lax.NAME is its reference where no other is given."""
    ours, theirs = getattr(lax, name), reference or getattr(jax.lax, name)
    return Operation(
        name=f"{name}{label}",
        fun=lambda *xs: ours(*xs, *params),
        reference=lambda *xs: np.asarray(theirs(*xs, *params)),
        args=lambda rng, dtype: tuple(draw(rng, dtype) for draw in draws),
        dtypes=dtypes,
        corners=corners,
        **more,
    )


def unary(name: str, draw: Draw, dtypes: tuple[str, ...] = (*REAL, "complex128"), **more: Any) -> Operation:
    return operation(name, [draw], dtypes, **{"corners": unary_corners, **more})


def discrete(
    name: str, draws: Sequence[Draw], dtypes: tuple[str, ...], corners: Any, label: str = "", **more: Any
) -> Operation:
    """A row without derivatives."""
    return operation(name, draws, dtypes, corners, label=label, differentiable=False, **more)


numbers, positive = away_from_zero, between(0.5, 3)
small, any_integer = integers(-9, 9), integers(-100, 100)

ROWS = [
    unary("neg", numbers),
    operation("add", [numbers, numbers], INEXACT, binary_corners),
    operation("sub", [numbers, numbers], INEXACT, binary_corners),
    operation("mul", [numbers, numbers], INEXACT, binary_corners),
    operation("div", [numbers, numbers], INEXACT, binary_corners),
    operation("rem", [numbers, between(0.7, 0.9)], REAL, binary_corners),
    *[
        discrete(name, [any_integer, small], SOME_INTS, binary_corners, "-integers")
        for name in ("add", "sub", "mul", "div", "rem", "max", "min")
    ],
    *[
        discrete(name, [any_integer], ("int32", "int8"), unary_corners, "-integers")
        for name in ("neg", "abs", "sign")
    ],
    Operation(
        "gcd",
        divisors.gcd,
        np.gcd,
        lambda rng, dtype: (any_integer(rng, dtype), small(rng, dtype)),
        (*SOME_INTS, "uint8"),
        corners=binary_corners,
        differentiable=False,
    ),
    discrete("square", [any_integer], SOME_INTS, unary_corners, "-integers"),
    discrete("abs", [any_integer], ("uint32",), unary_corners, "-unsigned", reference=np.abs),
    discrete("sign", [any_integer], ("uint32",), unary_corners, "-unsigned"),
    discrete("pow", [small, integers(0, 120)], SOME_INTS, None, "-integers", reference=np.power),
    operation(
        "integer_pow", [small], SOME_INTS, unary_corners, "-integers", params=(3,), differentiable=False
    ),
    *[
        operation("integer_pow", [numbers], INEXACT, unary_corners, f"-{y}", params=(y,))
        for y in (0, 1, 2, 5, -1, -2)
    ],
    operation("pow", [positive, numbers], INEXACT, lambda d: [] if d.kind == "c" else binary_corners(d)),
    unary("square", numbers),
    unary("reciprocal", numbers),
    unary("abs", numbers),
    unary("sign", numbers),
    operation("max", [numbers, numbers], REAL, binary_corners),
    operation("min", [numbers, numbers], REAL, binary_corners),
    operation("max", [numbers, numbers], ("complex64",), None, "-complex"),
    discrete("max", [booleans, booleans], BOOL, None, "-bool"),
    discrete("min", [booleans, booleans], BOOL, None, "-bool"),
    operation("nextafter", [numbers, numbers], FLOATS, binary_corners, differentiable=False),
    unary("floor", numbers, REAL),
    unary("ceil", numbers, REAL),
    unary("round", numbers, REAL),
    unary("round", numbers, REAL, label="-to_even", params=(1,)),
    unary("is_finite", numbers, REAL),
    operation("real", [numbers], COMPLEX),
    operation("imag", [numbers], COMPLEX),
    operation("complex", [numbers, numbers], FLOATS, binary_corners),
    operation("conj", [numbers], (*FLOATS, *COMPLEX)),
    *[
        unary(name, numbers)
        for name in ("exp", "exp2", "expm1", "logistic", "sin", "cos", "sinh", "cosh", "tanh")
    ],
    *[unary(name, numbers) for name in ("atan", "asinh")],
    *[unary(name, positive) for name in ("log", "log1p", "sqrt", "rsqrt")],
    unary("cbrt", numbers, REAL),
    *[unary(name, between(-0.8, 0.8)) for name in ("tan", "asin", "acos", "atanh")],
    unary("acosh", between(1.2, 3)),
    operation("atan2", [numbers, numbers], REAL, binary_corners),
    unary("erf", numbers, REAL),
    unary("erfc", numbers, REAL),
    unary("erf_inv", between(-0.8, 0.8), REAL),
    unary("lgamma", positive, REAL),
    unary("digamma", between(0.5, 3), REAL),
    operation(
        "polygamma", [lambda rng, d: rng.integers(1, 4, SHAPE).astype(d), positive], FLOATS, argnums=(1,)
    ),
    operation("zeta", [between(1.5, 4), between(0.5, 3)], FLOATS),
    *[
        discrete(name, [small, small], ("int32", "uint8", "float32", "bfloat16"), binary_corners)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    ],
    *[
        discrete(name, [booleans, booleans], BOOL, None, "-bool")
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    ],
    *[discrete(name, [small, small], ("complex64",), None, "-complex") for name in ("eq", "ne")],
    *[
        discrete(f"bitwise_{name}", [draw, draw], dtypes, None, label)
        for name in ("and", "or", "xor")
        for draw, dtypes, label in [(booleans, BOOL, "-bool"), (any_integer, (*INTS, *UINTS), "")]
    ],
    discrete("bitwise_not", [booleans], BOOL, None, "-bool"),
    discrete("bitwise_not", [any_integer], SOME_INTS, unary_corners),
    *[
        discrete(name, [any_integer, small], (*INTS, *UINTS), binary_corners)
        for name in ("shift_left", "shift_right_arithmetic", "shift_right_logical")
    ],
    discrete("population_count", [any_integer], (*INTS, *UINTS), unary_corners),
    discrete("clz", [any_integer], (*INTS, *UINTS), unary_corners),
]
