"""Rows for systems of equations, pseudoinverses, determinants of one row, few and many, and reflections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import didax.numpy as dnp
from didax.primitives.linalg import pinv, qr, solve
from tests.operations.linalg import DTYPES, RTOL, WIDE, Draw, hermitian, numbers
from tests.operations.row import Operation


def row(
    name: str, fun: Callable[..., Any], reference: Callable[..., Any], *draws: Draw, **more: Any
) -> Operation:
    settings: dict[str, Any] = {"dtypes": DTYPES, "rtol": RTOL, **more}
    return Operation(
        name,
        fun,
        lambda *xs: jax.tree.map(np.asarray, reference(*xs)),
        lambda rng, dtype: tuple(draw(rng, dtype) for draw in draws),
        **settings,
    )


def singular(n: int, rank: int) -> Draw:
    """Integers, of which LU finds the exact rank: the first rows are random, the others repeat them."""

    def draw(rng: np.random.Generator, dtype: np.dtype[Any]) -> np.ndarray:
        x = rng.choice([-1, 1], (n, n)) * np.tri(n).T
        return np.asarray(x[np.arange(n) % rank]).astype(dtype)

    return draw


def near(draw: Draw, n: int) -> Draw:
    return lambda rng, dtype: draw(rng, dtype) + (3 * np.eye(n)).astype(dtype)


def raw_factors(a: Any) -> list[Any]:
    reflections, taus = np.linalg.qr(a, "raw")
    return [np.swapaxes(reflections, -1, -2), taus]


def pinv_row(name: str, draw: Draw, hermitian: bool = False, **more: Any) -> Operation:
    def fun(a: Any) -> Any:
        return pinv.pinv(a, dnp.full(a.shape[:-2], 1e-4, a.real.dtype), hermitian)

    return row(name, fun, lambda a: np.linalg.pinv(a, 1e-4), draw, **more)


def equal_singular_values(rng: np.random.Generator, dtype: np.dtype[Any]) -> np.ndarray:
    return np.asarray(np.linalg.qr(numbers(4, 3)(rng, dtype))[0])


ROWS = [
    row("solve", solve.solve, np.linalg.solve, near(numbers(4, 4), 4), numbers(4, 2)),
    row("solve 1x1", solve.solve, np.linalg.solve, near(numbers(1, 1), 1), numbers(1, 3), dtypes=WIDE),
    row("solve batch", solve.solve, np.linalg.solve, near(numbers(2, 3, 3), 3), numbers(2, 3, 2), dtypes=WIDE),
    *(
        row(f"slogdet {n}", lambda a: list(solve.slogdet(a)), lambda a: list(np.linalg.slogdet(a)), numbers(n, n))
        for n in (1, 3, 5)
    ),
    *(row(f"det {n}", solve.det, np.linalg.det, numbers(n, n)) for n in (1, 2, 3, 5)),
    *(
        row(f"geqrf {m} by {n}", lambda a: list(qr.geqrf(a)), raw_factors, numbers(m, n),
            differentiable=False)
        for m, n in [(3, 2), (2, 3)]
    ),
    pinv_row("pinv tall", numbers(4, 2)),
    pinv_row("pinv wide", numbers(2, 2, 3), dtypes=WIDE),
    pinv_row("pinv of equal singular values", equal_singular_values, dtypes=WIDE),
    pinv_row("pinv hermitian", hermitian(3, 3), True, dtypes=WIDE),
    row("det batch", solve.det, np.linalg.det, numbers(2, 4, 4), dtypes=WIDE),
    *(
        row(f"det {n} of rank {rank}", solve.det, np.linalg.det, singular(n, rank), dtypes=WIDE, signed_zeros=False)
        for n, rank in [(2, 1), (3, 2), (4, 3), (4, 2), (5, 1)]
    ),
]  # fmt: skip
