"""Rows for `dot_general`: layouts, dtypes, and the dtype of the sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from didax import lax
from tests.operations.row import BOOL, NUMERIC, Operation


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Small numbers, exact in every dtype, so that the order of summation does not matter."""
    values = rng.integers(0 if dtype.kind in "bu" else -3, 4, shape)
    imaginary = 1j * rng.integers(-3, 4, shape) if dtype.kind == "c" else 0
    return (values + imaginary).astype(dtype)


def product(
    name: str, shapes: Any, numbers: Any, dtypes: tuple[str, ...] = ("float32", "float64"), **more: Any
) -> Operation:
    """A row that multiplies arrays of two shapes."""
    import jax

    options = {"dimension_numbers": numbers, **more}
    return Operation(
        name,
        lambda x, y: lax.dot_general(x, y, **options),
        lambda x, y: jax.lax.dot_general(x, y, **options),
        lambda rng, dtype: tuple(draw(rng, shape, dtype) for shape in shapes),
        dtypes=dtypes,
        signed_zeros=False,
    )


MATMUL = (((1,), (0,)), ((), ()))
ROWS = [
    product("matmul", ((3, 4), (4, 2)), MATMUL, NUMERIC + BOOL),
    product("vectors", ((4,), (4,)), (((0,), (0,)), ((), ()))),
    product("outer", ((3,), (2, 2)), (((), ()), ((), ()))),
    product("scalars", ((), ()), (((), ()), ((), ()))),
    product("transposed", ((4, 3), (2, 4)), (((0,), (1,)), ((), ()))),
    product(
        "batched",
        ((5, 3, 4), (5, 4, 2)),
        (((2,), (1,)), ((0,), (0,))),
        ("float32", "bfloat16", "float64", "int32"),
    ),
    product("batch_last", ((3, 4, 5), (4, 2, 5)), (((1,), (0,)), ((2,), (2,)))),
    product("batched_vectors", ((5, 4), (5, 4)), (((1,), (1,)), ((0,), (0,)))),
    product("two_and_two", ((2, 3, 4, 5, 2), (4, 2, 2, 3, 3)), (((2, 1), (0, 3)), ((4, 0), (1, 2)))),
    product("empty_sum", ((3, 0), (0, 2)), MATMUL),
    product("empty_result", ((0, 4), (4, 2)), MATMUL),
    product("empty_batch", ((0, 3, 4), (0, 4, 2)), (((2,), (1,)), ((0,), (0,)))),
    product("wide_sums", ((3, 4), (4, 2)), MATMUL, ("bfloat16", "float16"), preferred_element_type="float32"),
    product(
        "wide_integers", ((3, 4), (4, 2)), MATMUL, ("int8", "uint8", "bool"), preferred_element_type="int32"
    ),
    product("float_sums", ((3, 4), (4, 2)), MATMUL, ("int8", "bool"), preferred_element_type="float32"),
    product("precise", ((3, 4), (4, 2)), MATMUL, ("float32",), precision="highest"),
]
