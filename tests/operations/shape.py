"""Rows: broadcasting, reshaping, transposing and summing, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from didax import lax
from didax.primitives.shape import reduce_sum
from tests.operations.row import BOOL, COMPLEX, FLOATS, INTS, NARROW, UINTS, Operation

MOVABLE = (*FLOATS, *NARROW, *COMPLEX, "int8", "int32", "uint16", *BOOL)


def drawn(shape: tuple[int, ...]) -> Callable[[np.random.Generator, np.dtype[Any]], tuple[Any, ...]]:
    """One array of this shape."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        numbers = rng.normal(size=shape) * (10 if dtype.kind == "i" else 1)
        if dtype.kind == "u":
            return (rng.integers(0, 200, shape).astype(dtype),)
        if dtype.kind == "b":
            return (np.asarray(numbers > 0),)
        return (
            np.asarray(numbers + 1j * rng.normal(size=shape) if dtype.kind == "c" else numbers).astype(dtype),
        )

    return args


def moving(
    name: str, fun: Any, reference: Any, shape: tuple[int, ...], dtypes: tuple[str, ...] = FLOATS
) -> Operation:
    return Operation(name, fun, reference, drawn(shape), dtypes)


def sum_of(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The sum in the operand's dtype; narrow floats are summed in float32."""
    wide = np.float32 if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x.dtype
    return np.sum(x.astype(wide), axis=axes, dtype=wide).astype(x.dtype)


def summing(axes: tuple[int, ...], shape: tuple[int, ...], dtypes: tuple[str, ...] = FLOATS) -> Operation:
    return moving(
        f"reduce_sum-{axes}-of-{shape}",
        lambda x: reduce_sum(x, axes),
        lambda x: sum_of(x, axes),
        shape,
        dtypes,
    )


ROWS = [
    moving(
        "broadcast_in_dim",
        lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (1,)),
        lambda x: np.broadcast_to(x[:, None], (2, 3, 4)),
        (3,),
        MOVABLE,
    ),
    moving(
        "broadcast_in_dim-stretch",
        lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (0, 2)),
        lambda x: np.broadcast_to(x[:, None], (2, 3, 4)),
        (2, 1),
    ),
    moving(
        "broadcast_in_dim-scalar",
        lambda x: lax.broadcast(x, (2, 0)),
        lambda x: np.broadcast_to(x, (2, 0)),
        (),
    ),
    moving("reshape", lambda x: lax.reshape(x, (4, 3)), lambda x: x.reshape(4, 3), (2, 6), MOVABLE),
    moving("reshape-to-scalar", lambda x: lax.reshape(x, ()), lambda x: x.reshape(()), (1, 1)),
    moving("reshape-empty", lambda x: lax.reshape(x, (3, 0)), lambda x: x.reshape(3, 0), (0, 5)),
    moving(
        "transpose", lambda x: lax.transpose(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1), (2, 3, 4), MOVABLE
    ),
    summing((1,), (3, 4), (*FLOATS, *NARROW, *COMPLEX, *INTS, *UINTS)),
    summing((0, 2), (2, 3, 4)),
    summing((0,), (0, 3)),
    summing((0, 1), (1, 1)),
]
