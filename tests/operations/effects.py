"""Rows: checks of values, and calls of Python functions, which are as good as the operations around them."""

from __future__ import annotations

from typing import Any

import numpy as np

import didax as dx
from didax import lax
from tests.operations.row import FLOATS, Operation

SHAPE = (2, 3)


def numbers(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    return (rng.uniform(0.3, 1.5, SHAPE).astype(dtype),)


def checked(x: Any) -> Any:
    dx.debug.check(lax.ge(lax.reduce_min(x, (0, 1)), 0.0), "all are to be positive, not {x}", x=x)
    return lax.mul(x, x)


def watched(x: Any) -> Any:
    dx.debug.callback(lambda value: None, x)
    return lax.sin(x)


def doubled_by_numpy(x: Any) -> Any:
    return dx.pure_callback(
        lambda value: value * value.dtype.type(2),
        dx.ShapeDtypeStruct(x.shape, x.dtype),
        x,
        vmap_method="sequential",
    )


def read_by_numpy(x: Any) -> Any:
    return dx.io_callback(lambda value: value[0], dx.ShapeDtypeStruct(x.shape[1:], x.dtype), x)


ROWS = [
    Operation("check", checked, lambda x: x * x, numbers, FLOATS),
    Operation("debug_callback", watched, np.sin, numbers, FLOATS, has_text=False),
    Operation(
        "pure_callback",
        doubled_by_numpy,
        lambda x: 2 * x,
        numbers,
        (*FLOATS, "int32"),
        differentiable=False,
        has_text=False,
    ),
    Operation(
        "io_callback",
        read_by_numpy,
        lambda x: x[0],
        numbers,
        (*FLOATS, "int32"),
        differentiable=False,
        has_text=False,
    ),
]
