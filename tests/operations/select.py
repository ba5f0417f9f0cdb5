"""Rows: select_n and clamp (didax.lax), against jax.lax."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from didax import lax
from tests.operations.elementwise import SHAPE, numbers, special_floats
from tests.operations.row import BOOL, COMPLEX, FLOATS, NARROW, Operation

DTYPES = (*FLOATS, *NARROW, *COMPLEX, "int32", "uint8", *BOOL)


def case(rng: np.random.Generator, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return rng.integers(0, 2, SHAPE).astype(dtype) if dtype.kind in "biu" else numbers(rng, dtype)


def by_bool(rng: np.random.Generator, shape: tuple[int, ...] = SHAPE) -> np.ndarray[Any, Any]:
    return np.asarray(rng.choice([False, True], shape))


def by_int(rng: np.random.Generator, shape: tuple[int, ...] = SHAPE) -> np.ndarray[Any, Any]:
    return np.asarray(rng.integers(0, 3, shape, np.int32))


def select_n(label: str, which: Any, count: int, dtypes: tuple[str, ...] = FLOATS) -> Operation:
    return Operation(
        f"select_n-{label}",
        lax.select_n,
        lambda *args: np.asarray(jax.lax.select_n(*args)),
        lambda rng, dtype: (which(rng), *[case(rng, dtype) for _ in range(count)]),
        dtypes,
    )


def limits(dtype: np.dtype[Any]) -> list[tuple[Any, ...]]:
    if dtype.kind in "iu":
        return []
    return [tuple(np.ascontiguousarray(g) for g in np.meshgrid(*[special_floats(dtype)] * 3))]


ROWS = [
    select_n("bool", by_bool, 2, DTYPES),
    select_n("int", by_int, 3, DTYPES),
    select_n("bool-scalar", lambda rng: by_bool(rng, ()), 2),
    select_n("int-scalar", lambda rng: by_int(rng, ()), 3),
    select_n("single", lambda rng: np.zeros(SHAPE, np.int32), 1),
    Operation(
        "select_n-stretching-cases",
        lambda which, x, y: lax.select_n(which, x, y, 0),
        lambda which, x, y: np.choose(which, [x, y, np.zeros_like(y)]).astype(y.dtype),
        lambda rng, dtype: (by_int(rng), numbers(rng, dtype)[0, 0].reshape(()), numbers(rng, dtype)),
        (*FLOATS, "bfloat16"),
    ),
    Operation(
        "select",
        lax.select,
        lambda which, x, y: np.where(which, x, y),
        lambda rng, dtype: (by_bool(rng), case(rng, dtype), case(rng, dtype)),
        (*FLOATS, "int32"),
    ),
    Operation(
        "clamp",
        lax.clamp,
        lambda low, x, high: np.asarray(jax.lax.clamp(low, x, high)),
        lambda rng, dtype: (
            case(rng, dtype),
            case(rng, dtype) * dtype.type(2),
            case(rng, dtype) + dtype.type(3),
        ),
        (*FLOATS, "bfloat16", "int32"),
        corners=limits,
    ),
    Operation(
        "clamp-crossed",  # the upper limit is the result wherever it is below the lower one
        lax.clamp,
        lambda low, x, high: np.minimum(np.maximum(x, low), high),
        lambda rng, dtype: (
            case(rng, dtype) + dtype.type(3),
            case(rng, dtype) * dtype.type(2),
            case(rng, dtype),
        ),
        ("float32",),
    ),
    Operation(
        "clamp-scalar-limits",
        lambda x: lax.clamp(-1, x, 1),
        lambda x: np.clip(x, -1, 1).astype(x.dtype),
        lambda rng, dtype: (numbers(rng, dtype),),
        FLOATS,
    ),
]
