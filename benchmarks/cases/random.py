"""Random numbers: bits, floats and shuffles of several sizes, as single calls and under jit, and keys.

NumPy's column is its generator of the same distribution, which keeps state and uses one core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.cases import Library, both
from benchmarks.harness import Case, Sampler, repeated, wait

SIZES = {"1e3": 1_000, "1e6": 1_000_000, "1e7": 10_000_000}
GENERATOR = numpy.random.default_rng(0)


def _numpy_bits(n: int) -> Any:
    return GENERATOR.integers(0, 1 << 32, n, numpy.uint32)


def _numpy_uniform(n: int) -> Any:
    return GENERATOR.random(n, numpy.float32)


def _numpy_normal(n: int) -> Any:
    return GENERATOR.standard_normal(n, numpy.float32)


DRAWS: dict[str, Callable[[int], Any]] = {
    "bits": _numpy_bits,
    "uniform": _numpy_uniform,
    "normal": _numpy_normal,
}


def _allow_reuse(lib: Library) -> None:
    """These cases draw from one key again and again."""
    lib.api.config.update("debug_key_reuse" if lib.api.__name__ == "didax" else "jax_debug_key_reuse", False)


def _draw(name: str, n: int, jitted: bool) -> Case:
    def build(lib: Library) -> Sampler:
        _allow_reuse(lib)
        f: Callable[[Any], Any] = lambda key: getattr(lib.api.random, name)(key, (n,))
        f = lib.api.jit(f) if jitted else f
        key = lib.api.random.key(0)
        return repeated(lambda: wait(f(key)))

    size = next(text for text, count in SIZES.items() if count == n)
    how = "jit" if jitted else "eager"
    sides = {**both(build), "numpy": lambda: _unchecked(lambda: DRAWS[name](n))}
    return Case(f"random.{name}.{how}.{size}", f"random.{name}, {size} values, {how}", sides, 1.0)


def _unchecked(call: Callable[[], Any]) -> Sampler:
    """NumPy draws other numbers: they are not compared."""
    return Sampler(repeated(call).sample)


def _key_case(
    name: str,
    title: str,
    call: Callable[[Library, Any], Any],
    budget: float,
    in_numpy: Callable[[], Any] | None = None,
) -> Case:
    def build(lib: Library) -> Sampler:
        _allow_reuse(lib)
        key = lib.api.random.key(0)
        return Sampler(repeated(lambda: wait(call(lib, key))).sample)

    sides = both(build)
    if in_numpy is not None:
        sides["numpy"] = lambda: _unchecked(in_numpy)
    return Case(f"random.{name}", title, sides, budget)


MILLION = 1_000_000

CASES = [
    _key_case("split", "random.split, eager", lambda lib, key: lib.api.random.split(key), 0.3),
    _key_case(
        "small_normal",
        "random.normal of 3 values, eager",
        lambda lib, key: lib.api.random.normal(key, (3,)),
        0.3,
        lambda: GENERATOR.standard_normal(3, numpy.float32),
    ),
    *(_draw(name, n, jitted) for name in DRAWS for n in SIZES.values() for jitted in (False, True)),
    _key_case(
        "permutation",
        "random.permutation of 1e6",
        lambda lib, key: lib.api.random.permutation(key, MILLION),
        1.0,
        lambda: GENERATOR.permutation(MILLION),
    ),
    _key_case(
        "choice",
        "random.choice of 1e6 among 1e6",
        lambda lib, key: lib.api.random.choice(key, MILLION, (MILLION,)),
        1.0,
        lambda: GENERATOR.integers(0, MILLION, MILLION),
    ),
]
