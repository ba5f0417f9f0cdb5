"""What happens before XLA is asked, per equation: tracing a function into a jaxpr, and lowering that."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.cases import Library, both
from benchmarks.harness import Case, Sampler, prepared

LENGTHS = (100, 1000, 5000)


def chain(lib: Library, length: int) -> Callable[[Any], Any]:
    """A new function of `length` operations: no cache knows it."""

    def f(x: Any) -> Any:
        for _ in range(length // 4):
            x = lib.np.sin(x) * 2.0 - x + 1.0
        return x

    return f


def _trace(lib: Library, length: int) -> Sampler:
    x = lib.np.asarray(numpy.ones(8, numpy.float32))
    return prepared(lambda: lib.api.jit(chain(lib, length)), lambda f: f.trace(x), per=length)


def _trace_grad(lib: Library, length: int) -> Sampler:
    x = lib.np.asarray(numpy.float32(1.0))
    return prepared(lambda: lib.api.jit(lib.api.grad(chain(lib, length))), lambda f: f.trace(x), per=length)


def _lower(lib: Library, length: int) -> Sampler:
    x = lib.np.asarray(numpy.ones(8, numpy.float32))
    return prepared(lambda: lib.api.jit(chain(lib, length)).trace(x), _to_stablehlo(lib), per=length)


def _to_stablehlo(lib: Library) -> Callable[[Any], Any]:
    """JAX builds its module in `lower`, Didax writes it when the text is asked for."""
    if lib.api.__name__ == "jax":
        return lambda traced: traced.lower()
    return lambda traced: traced.lower().as_text()


def _growth(lib: Library) -> Sampler:
    """Time per equation of one long program over that of short ones, as many equations: 1 where linear."""
    short, long = _lower(lib, LENGTHS[0]), _lower(lib, LENGTHS[-1])
    count = LENGTHS[-1] // LENGTHS[0]
    return Sampler(lambda: long.sample() / statistics.mean(short.sample() for _ in range(count)))


CASES = [
    Case("trace.forward", "trace, per equation", both(lambda lib: _trace(lib, 1000)), 0.35),
    Case("trace.grad", "trace of the gradient, per equation", both(lambda lib: _trace_grad(lib, 1000)), 0.35),
    *[
        Case(f"lower.{n}", f"lower, per equation of {n:,}", both(lambda lib, n=n: _lower(lib, n)), 0.5)
        for n in LENGTHS
    ],
    Case(
        "lower.growth",
        f"lower, growth per equation from {LENGTHS[0]:,} to {LENGTHS[-1]:,}",
        both(_growth),
        1.3,
        absolute=True,
        unit="x",
    ),
]
