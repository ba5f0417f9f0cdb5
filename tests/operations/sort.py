"""Rows for sorting: NaN and zeros of both signs among the keys, ties, several keys, operands that follow."""

from __future__ import annotations

from typing import Any

import numpy as np

from didax import lax
from tests.operations.reductions import draw
from tests.operations.row import Operation

REALS = ("float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "uint32", "bool")
SORTED = (*REALS, "complex64")
SHAPE = (3, 4, 2)


def specials(dtype: np.dtype[Any]) -> list[np.ndarray]:
    """Operands with ties; of inexact dtypes with every kind of special value."""
    rng = np.random.default_rng(0)
    ties = [rng.integers(0, 3, SHAPE).astype(dtype), np.zeros((2, 0, 2), dtype)]
    if dtype.kind in "biu":
        return ties
    values = rng.choice([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0], (4, 16, 2))
    return [*ties, values.astype(dtype)]


def sort_row(dimension: int) -> Operation:
    def reference(x: Any) -> Any:
        import jax

        return np.asarray(jax.lax.sort(x, dimension))

    return Operation(
        f"sort {dimension}",
        lambda x: lax.sort(x, dimension),
        reference,
        lambda rng, dtype: (draw(rng, dtype, SHAPE),),
        dtypes=SORTED,
        corners=lambda dtype: [(x,) for x in specials(dtype)],
    )


def sort_many_row(dimension: int, num_keys: int) -> Operation:
    def reference(*xs: Any) -> Any:
        import jax

        return tuple(np.asarray(y) for y in jax.lax.sort(xs, dimension, num_keys=num_keys))

    def with_followers(rng: np.random.Generator, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return x, rng.permutation(x.size).reshape(x.shape).astype(np.float32), rng.permutation(x)

    return Operation(
        f"sort three by {num_keys} along {dimension}",
        lambda *xs: lax.sort(xs, dimension, num_keys=num_keys),
        reference,
        lambda rng, dtype: with_followers(rng, draw(rng, dtype, SHAPE)),
        dtypes=SORTED,
        corners=lambda dtype: [with_followers(np.random.default_rng(1), x) for x in specials(dtype)],
    )


def top_k_row(k: int, axis: int) -> Operation:
    def reference(x: Any) -> Any:
        import jax

        return [np.asarray(y) for y in jax.lax.top_k(x, k, axis=axis)]

    return Operation(
        f"top_k {k} along {axis}",
        lambda x: lax.top_k(x, k, axis=axis),
        reference,
        lambda rng, dtype: (draw(rng, dtype, SHAPE),),
        dtypes=REALS,
        corners=lambda dtype: [(x,) for x in specials(dtype) if x.size],
    )


ROWS = [
    sort_row(-1),
    sort_row(0),
    sort_many_row(1, 1),
    sort_many_row(0, 2),
    sort_many_row(-1, 3),
    top_k_row(2, -1),
    top_k_row(3, 0),
    top_k_row(0, 1),
]
