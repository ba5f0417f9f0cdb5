"""Rows: incomplete gamma functions and derivatives of gamma samples, against scipy where it has them, and jax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from scipy import special, stats

from didax import lax
from didax.core.avals import aval_of
from didax.primitives.random_gamma import random_gamma_p
from didax.primitives.random_wald import wald_sample
from didax.primitives.special import (
    gamma_density,
    gamma_hazard,
    gamma_rate,
    gamma_weight,
    log_igamma,
    log_igammac,
    log_random_gamma_grad,
)
from didax.random._gamma import _gamma_jaxpr
from tests.operations.row import NARROW, Operation

DTYPES = ("float32", "float64", *NARROW)


def draw(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Square operands: batches along any axis have one shape, and so share one compiled program."""
    return tuple(rng.uniform(0.3, 6.0, (2, 2)).astype(dtype) for _ in range(2))


def draw_with_logarithm(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    return rng.uniform(0.3, 6.0, (2, 2)).astype(dtype), rng.uniform(-1, 1.5, (2, 2)).astype(dtype)


def corners(dtype: np.dtype[Any]) -> list[tuple[Any, ...]]:
    values = np.array([0.0, 1.0, 2.0, np.nan, -1.0, 0.5, 30.0])
    a, x = (v.ravel() for v in np.meshgrid(values, np.append(values, np.inf)))
    return [(a.astype(dtype), x.astype(dtype))]


def wide(f: Callable[..., Any]) -> Callable[..., Any]:
    def reference(a: Any, x: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(f(a.astype("float64"), x.astype("float64"))).astype(a.dtype)

    return reference


def by_jax(name: str) -> Callable[..., Any]:
    return lambda a, x: np.asarray(getattr(jax.lax, name)(a, x))


def log_slope(a: Any, log_x: Any) -> Any:
    x = np.exp(log_x.astype("float64"))
    p, h = special.gammainc(a.astype("float64"), x), 1e-5
    inverse = [special.gammaincinv(a.astype("float64") + s, p) for s in (h, -h)]
    return ((inverse[0] - inverse[1]) / (2 * h) / x).astype(a.dtype)


def gamma_of_words(words: Any, a: Any) -> Any:
    jaxpr = _gamma_jaxpr(aval_of(words), aval_of(a), False, may_be_split=False)
    return random_gamma_p.bind(words, a, jaxpr=jaxpr, log_space=False)


def gamma_of_jax(words: Any, a: np.ndarray) -> np.ndarray:
    """jax's numbers for the same key."""
    return np.asarray(jax.random.gamma(words, a, dtype=a.dtype))


ROWS = [
    Operation("random_gamma", gamma_of_words, gamma_of_jax,
              lambda rng, dtype: (rng.integers(0, 1 << 32, (2,), np.uint32), rng.uniform(0.3, 5, (6,)).astype(dtype)),
              differentiable=False,  # at a fixed quantile, not for fixed rounds: tests/random/test_distributions.py
              rtol={"float32": 2e-5, "float64": 1e-10}),
    Operation("igamma", lax.igamma, wide(special.gammainc), draw, DTYPES, corners=corners),
    Operation("igammac", lax.igammac, wide(special.gammaincc), draw, DTYPES, corners=corners),
    Operation("gamma_weight", gamma_weight, wide(lambda a, x: x**a * np.exp(-x) / special.gamma(a + 1)), draw,
              ("float64",), rtol={"float64": 1e-12}),
    Operation("gamma_density", gamma_density, wide(lambda a, x: x ** (a - 1) * np.exp(-x) / special.gamma(a)), draw,
              ("float64",), rtol={"float32": 2e-6, "float64": 1e-13}),
    Operation("log_igamma", log_igamma, wide(lambda a, x: stats.gamma.logcdf(x, a)), draw, ("float64",),
              rtol={"float64": 1e-12}, second_order=False),
    Operation("log_igammac", log_igammac, wide(lambda a, x: stats.gamma.logsf(x, a)), draw, ("float64",),
              rtol={"float64": 1e-12}, second_order=False),
    Operation("gamma_rate", gamma_rate, wide(lambda a, x: stats.gamma.pdf(x, a) / stats.gamma.cdf(x, a)), draw,
              ("float64",), rtol={"float64": 1e-12}, second_order=False),
    Operation("gamma_hazard", gamma_hazard, wide(lambda a, x: stats.gamma.pdf(x, a) / stats.gamma.sf(x, a)), draw,
              ("float64",), rtol={"float64": 1e-12}, second_order=False),
    Operation("igamma_grad_a", lax.igamma_grad_a, by_jax("igamma_grad_a"), draw, DTYPES[:2],
              rtol={"float32": 2e-5, "float64": 1e-9}, second_order=False),
    Operation("random_gamma_grad", lax.random_gamma_grad, by_jax("random_gamma_grad"), draw, DTYPES[:2],
              second_order=False, rtol={"float32": 2e-5, "float64": 1e-9}),
    Operation("log_random_gamma_grad", log_random_gamma_grad, log_slope, draw_with_logarithm, ("float64",),
              second_order=False, rtol={"float64": 1e-5}),
    Operation("wald_sample", wald_sample, lambda x, mean: x, draw, DTYPES[:2],
              differentiable=False),  # at a fixed quantile: tests/random/test_distributions.py
]  # fmt: skip
ROWS = [replace(row, is_costly=True) for row in ROWS]
