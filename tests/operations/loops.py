"""Rows: loops, against Python."""

from __future__ import annotations

from typing import Any

import numpy as np

import didax as dx
from didax import lax
from didax.passes.loops.one_function import one_function_p
from didax.primitives.control_flow.order import fence_p
from tests.operations.row import Operation

SHAPE = (3, 2)


def numbers(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    real = rng.integers(1, 4, shape) if dtype.kind in "iu" else rng.uniform(0.3, 1.5, shape)
    return np.asarray(real + 1j * rng.uniform(0.3, 1.5, shape) if dtype.kind == "c" else real).astype(dtype)


def one(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    return (numbers(rng, dtype),)


def scan_args(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    return numbers(rng, dtype, (2,)), numbers(rng, dtype, (2,)), numbers(rng, dtype)


def scan(w: Any, h: Any, xs: Any, **how: Any) -> Any:
    """A carry that is multiplied, a counter, and outputs of both."""
    (h, _), ys = lax.scan(
        lambda c, x: ((c[0] * w + x, c[1] + 1), (c[0] * x, c[1])), (h, np.int32(0)), xs, **how
    )
    return h, *ys


def scan_in_python(w: Any, h: Any, xs: Any, reverse: bool = False, **how: Any) -> Any:
    order = range(len(xs))[:: -1 if reverse else 1]
    ys, counts = np.zeros_like(xs), np.zeros(len(xs), np.int32)
    for n, i in enumerate(order):
        ys[i], counts[i] = h * xs[i], n
        h = h * w + xs[i]
    return h, ys, counts


def doublings(x: Any, limit: Any) -> Any:
    """How often to double until all are beyond the limit, and what comes out."""
    return lax.while_loop(lambda c: (lax.abs(c[1]) < limit).any(), lambda c: (c[0] + 1, c[1] + c[1]), (0, x))


def doublings_in_python(x: Any, limit: Any) -> Any:
    n = 0
    while (np.abs(x) < limit).any():
        n, x = n + 1, x + x
    return np.int32(n), x


def powers(x: Any, n: Any, **how: Any) -> Any:
    """`x ** (n + 1)`, in a loop of `n` steps."""
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * x), (0, x), **how)[1]


def power(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    return numbers(rng, dtype), np.int32(3)


def affine(f: Any, g: Any) -> Any:
    """The affine map f, then the affine map g."""
    return f[0] * g[0], f[1] * g[0] + g[1]


def affine_in_python(a: Any, b: Any) -> Any:
    a, b = a.copy(), b.copy()
    for i in range(1, len(a)):
        a[i], b[i] = a[i - 1] * a[i], b[i - 1] * a[i] + b[i]
    return a, b


def as_one_function(x: Any) -> Any:
    """A running sum of squares, as a loop that is compiled as one function."""
    dtype = np.dtype(x.dtype)
    loop = dx.make_jaxpr(lambda x: lax.scan(lambda c, x: (c + x * x,) * 2, dtype.type(0), x)[1])
    jaxpr = loop(dx.ShapeDtypeStruct(x.shape, dtype)).jaxpr
    return one_function_p.bind(x, jaxpr=jaxpr)[0]


ROWS = [
    *[
        Operation(
            "-".join(["scan", *(f"{k}={v}" for k, v in how.items())]),
            lambda *args, how=how: scan(*args, **how),
            lambda *args, how=how: scan_in_python(*args, **how),
            scan_args,
            dtypes,
            second_order=not how,
        )
        for how, dtypes in (
            ({}, ("float32", "complex64", "int32")),
            ({"unroll": 2, "reverse": True}, ("float64",)),
            ({"unroll": True}, ("float32",)),
        )
    ],
    Operation(
        "while_loop",
        lambda x: doublings(x, 4)[1],
        lambda x: doublings_in_python(x, 4)[1],
        one,
        ("float32", "int32"),
        differentiable=False,  # in reverse
    ),
    Operation(
        "fori_loop",
        lambda x: lax.fori_loop(1, 4, lambda i, h: h * x, x),
        lambda x: x**4,
        one,
        ("float64", "int32"),
    ),
    *[
        Operation(
            "-".join(["while_loop", *(f"{k}={v}" for k, v in how.items())]),
            lambda x, n, how=how: powers(x, n, **how),
            lambda x, n: (x ** (n + 1)).astype(x.dtype),
            power,
            dtypes,
            second_order=False,  # they are in tests/primitives/test_bounded_loops.py
        )
        for how, dtypes in (
            ({"max_steps": 8}, ("float32", "complex64", "int32")),
            ({"max_steps": 100}, ("float64",)),
            ({"checkpoints": 2}, ("float32", "int32")),
        )
    ],
    Operation(
        "fori_loop-max_steps",
        lambda x, n: lax.fori_loop(0, n, lambda i, h: h * x, x, max_steps=8),
        lambda x, n: (x ** (n + 1)).astype(x.dtype),
        power,
        ("float32", "int32"),
        second_order=False,
    ),
    Operation(
        "while_loop-backward",
        lambda x, n: dx.vjp(lambda x: powers(x, n, checkpoints=2), x)[1](dx.numpy.ones_like(x))[0],
        lambda x, n: (4 * x**n).astype(x.dtype),
        power,
        ("float32",),
        second_order=False,
        batchable=False,  # batches are in tests/primitives/test_bounded_loops.py
    ),
    Operation("map", lambda x: lax.map(lax.square, x, batch_size=2), np.square, one, ("float32",)),
    Operation(
        "associative_scan",
        lambda a, b: lax.associative_scan(affine, (a, b)),
        affine_in_python,
        lambda rng, d: (numbers(rng, d, (5, 2)), numbers(rng, d, (5, 2))),
        ("float32", "int32"),
    ),
    Operation(
        "one_function",
        as_one_function,
        lambda x: np.cumsum(x * x, dtype=x.dtype),
        lambda rng, d: (numbers(rng, d, (6,)),),
        ("float32", "int32"),
    ),
    Operation(
        "fence",
        lambda x, y: tuple(fence_p.bind(x, y)),
        lambda x, y: (x, y),
        lambda rng, d: (numbers(rng, d), numbers(rng, d, (4,))),
        ("float32", "bfloat16", "int32", "bool"),
    ),
]
