"""Rows for `didax.lax.slicing`: static and dynamic windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from didax.lax import slicing as lax
from tests.operations.row import Operation

DTYPES = ("float32", "float64", "bfloat16", "complex64", "int8", "uint64", "bool")


def draw(rng: np.random.Generator, dtype: np.dtype[Any], *shapes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Arrays of random numbers of these shapes."""
    return tuple(_numbers(rng, dtype, shape) for shape in shapes)


def _numbers(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    if dtype.kind in "iub":
        return np.asarray(rng.integers(0, 2 if dtype.kind == "b" else 100, shape)).astype(dtype)
    x = rng.normal(size=shape)
    return np.asarray(x + 1j * rng.normal(size=shape) if dtype.kind == "c" else x).astype(dtype)


def row(
    name: str, fun: Callable[..., Any], reference: Callable[..., Any], *shapes: tuple[int, ...], **more: Any
) -> Operation:
    return Operation(
        name, fun, reference, lambda rng, dtype: draw(rng, dtype, *shapes), **{"dtypes": DTYPES, **more}
    )


def at_starts(
    name: str, fun: Any, reference: Any, *shapes: Any, starts: tuple[int, ...], index: str = "int32"
) -> Operation:
    """A row whose last arguments are scalar start indices."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        shift = rng.integers(0, 2)
        return *draw(rng, dtype, *shapes), *[np.asarray(i + shift, index) for i in starts]

    return Operation(name, fun, reference, args, dtypes=("float32", "float64", "int8"))


def _jax(name: str, *args: Any, **kwargs: Any) -> np.ndarray:
    """The function of that name in jax.lax."""
    import jax

    return np.asarray(getattr(jax.lax, name)(*args, **kwargs))


def _both(name: str, *static: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The function of didax.lax and that of jax.lax, with their static arguments after the arrays."""
    return lambda *xs: getattr(lax, name)(*xs, *static), lambda *xs: _jax(name, *xs, *static)


def _windowed(name: str, n: int, *static: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`_both` for functions of `n` arrays and then a list of start indices."""
    return (
        lambda *xs: getattr(lax, name)(*xs[:n], xs[n:], *static),
        lambda *xs: _jax(name, *xs[:n], xs[n:], *static),
    )


ROWS = [
    row("slice", *_both("slice", (1, 0), (3, 4)), (3, 5)),
    row("slice strided", *_both("slice", (1, 0, 2), (8, 2, 3), (3, 1, 2)), (9, 2, 4)),
    row("slice empty", *_both("slice", (2, 0), (2, 3), (2, 1)), (3, 3), differentiable=False),
    row("slice in dim", *_both("slice_in_dim", 1, -1, 2, 1), (2, 8)),
    row("index in dim", *_both("index_in_dim", -1, 1, False), (2, 3)),
    row("rev", *_both("rev", (0, 2)), (3, 2, 4)),
    row(
        "concatenate",
        lambda *xs: lax.concatenate(xs, 1),
        lambda *xs: np.concatenate(xs, 1),
        (2, 3),
        (2, 1),
        (2, 2),
    ),
    row("pad", *_both("pad", ((2, 1, 0), (0, 0, 2))), (2, 3), ()),
    row("pad negative", *_both("pad", ((-1, 2, 1), (1, -2, 0))), (4, 3), ()),
    row("pad cut to nothing", *_both("pad", ((-2, -1, 0),)), (3,), (), differentiable=False),
    row("split", lambda x: lax.split(x, (1, 0, 3), 1), lambda x: np.split(x, (1, 1), 1), (2, 4)),
    row("squeeze", *_both("squeeze", (0, -1)), (1, 3, 1)),
    row("expand dims", *_both("expand_dims", (0, -1)), (3,)),
    at_starts("dynamic slice", *_windowed("dynamic_slice", 1, (2, 3)), (4, 5), starts=(1, 0)),
    at_starts(
        "dynamic slice moved inside",
        *_windowed("dynamic_slice", 1, (2, 3)),
        (4, 5),
        starts=(3, -5),
        index="int8",
    ),
    at_starts(
        "dynamic slice unsigned", *_windowed("dynamic_slice", 1, (2,)), (300,), starts=(254,), index="uint8"
    ),
    at_starts("dynamic slice in dim", *_both("dynamic_slice_in_dim", 2), (6, 2), starts=(3,)),
    at_starts("dynamic index in dim", *_both("dynamic_index_in_dim", 1, False), (2, 4), starts=(-1,)),
    at_starts("dynamic update slice", *_windowed("dynamic_update_slice", 2), (4, 5), (2, 3), starts=(1, 1)),
    at_starts(
        "dynamic update moved inside", *_windowed("dynamic_update_slice", 2), (4, 5), (2, 3), starts=(3, 4)
    ),
    at_starts(
        "dynamic update index in dim",
        lambda x, u, i: lax.dynamic_update_index_in_dim(x, u, i, 1),
        lambda x, u, i: _jax("dynamic_update_index_in_dim", x, u, i, 1),
        (3, 4),
        (3,),
        starts=(2,),
    ),
]
