"""Rows for reductions over axes: nothing to reduce, NaN, infinities, ties of zeros, wrapping integers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from didax import lax
from didax.primitives.reductions import reduce_max_finite_p, reduce_max_no_nan_p
from tests.operations.row import Operation

REALS = ("float32", "float64", "float16", "bfloat16", "int8", "int32", "uint8", "uint32", "bool")
ORDERED = (*REALS, "complex64")
NUMBERS = ("float32", "float64", "float16", "bfloat16", "complex64", "int8", "int64", "uint32")
BITS = ("bool", "int8", "int32", "uint16", "uint64")
NARROW_RTOL = {"float16": 1e-2, "bfloat16": 6e-2}
AXES = [(0,), (2,), (0, 2), (0, 1, 2), ()]


def draw(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Distinct values away from zero; small integers of every kind otherwise."""
    if dtype.kind in "biu":
        return rng.integers(-5, 6, shape).astype(dtype)
    size = int(np.prod(shape))
    values = (rng.permutation(size) + rng.uniform(0.2, 0.8, size)) * 2.0 / max(size, 1) - 1.02
    if dtype.kind == "c":
        return (values + 1j * rng.permutation(values)).reshape(shape).astype(dtype)
    return values.reshape(shape).astype(dtype)


def factors(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Numbers whose products stay representable."""
    x = draw(rng, dtype, shape)
    return x if dtype.kind in "biu" else np.sign(x) * (np.abs(x) + 1).astype(dtype)


def corners(dtype: np.dtype[Any]) -> list[tuple[Any, ...]]:
    """An empty array, and for inexact dtypes NaN among infinities and zeros of both signs."""
    empty = [(np.zeros((2, 0, 3), dtype),), (np.zeros((0, 2, 0), dtype),)]
    if dtype.kind in "biu":
        return empty
    inf, nan = np.inf, np.nan
    special = np.array([[[nan, 1], [inf, -inf]], [[-0.0, 0.0], [-inf, -inf]], [[0.0, -0.0], [-inf, nan]]])
    return [*empty, (special.astype(dtype),)]


def real_corners(dtype: np.dtype[Any]) -> list[tuple[Any, ...]]:
    """`corners` without infinite complex numbers: JAX multiplies these by 1, which changes them."""
    return corners(dtype)[: 2 if dtype.kind == "c" else None]


def ordered_corners(dtype: np.dtype[Any]) -> list[tuple[Any, ...]]:
    """`corners` of real numbers only: among complex ones JAX loses NaN, and has another least number."""
    return [] if dtype.kind == "c" else corners(dtype)


CORNERS = {"reduce_prod": real_corners, "reduce_max": ordered_corners, "reduce_min": ordered_corners}


def reduction(
    name: str, axes: tuple[int, ...], accepted: tuple[str, ...], of: Callable[..., Any], **more: Any
) -> Operation:
    def reference(x: Any) -> Any:
        import jax

        return np.asarray(getattr(jax.lax, name)(x, axes))

    return Operation(
        f"{name} {axes}",
        lambda x: of(x, axes),
        reference,
        lambda rng, dtype: ((factors if name == "reduce_prod" else draw)(rng, dtype, (3, 2, 4)),),
        dtypes=accepted,
        corners=CORNERS.get(name, corners),
        rtol=NARROW_RTOL,
        **more,
    )


def search(name: str, axis: int, of: Callable[..., Any]) -> Operation:
    def reference(x: Any) -> Any:
        import jax

        return np.asarray(getattr(jax.lax, name)(x, axis, np.int32))

    return Operation(
        f"{name} {axis}",
        lambda x: of(x, axis, np.int32),
        reference,
        lambda rng, dtype: (draw(rng, dtype, (3, 2, 4)),),
        dtypes=REALS,
        corners=lambda dtype: [c for c in corners(dtype) if c[0].shape[axis]],
        differentiable=False,
    )


def largest_without_nan(axes: tuple[int, ...]) -> Operation:
    row = reduction("reduce_max", axes, REALS, lambda x, axes: reduce_max_no_nan_p.bind(x, axes=axes))
    return dataclasses.replace(
        row, name=f"reduce_max_no_nan axes={axes}", corners=lambda dtype: corners(dtype)[:2]
    )


def largest_finite(axes: tuple[int, ...]) -> Operation:
    row = reduction("reduce_max", axes, REALS, lambda x, axes: reduce_max_finite_p.bind(x, axes=axes))
    return dataclasses.replace(row, name=f"reduce_max_finite axes={axes}", corners=lambda dtype: [])


ROWS = [
    *(reduction("reduce_sum", axes, NUMBERS, lax.reduce_sum) for axes in AXES),
    *(reduction("reduce_prod", axes, NUMBERS, lax.reduce_prod) for axes in AXES),
    *(reduction("reduce_max", axes, ORDERED, lax.reduce_max) for axes in AXES),
    *(reduction("reduce_min", axes, ORDERED, lax.reduce_min) for axes in AXES),
    *(largest_without_nan(axes) for axes in AXES),
    largest_finite(AXES[1]),
    *(reduction("reduce_and", axes, BITS, lax.reduce_and, differentiable=False) for axes in AXES),
    *(reduction("reduce_or", axes, BITS, lax.reduce_or, differentiable=False) for axes in AXES[:2]),
    *(reduction("reduce_xor", axes, BITS, lax.reduce_xor, differentiable=False) for axes in AXES[:2]),
    *(search("argmax", axis, lax.argmax) for axis in (0, 2)),
    *(search("argmin", axis, lax.argmin) for axis in (1, 2)),
]
