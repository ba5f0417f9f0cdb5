"""Draws of generated shape, dtype, seed, generator and transformation are those of jax.random."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import didax as dx
from didax import random
from tests.checks import first

FLOATS = ("float32", "float16", "bfloat16", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
COUNT = 120


class Drawn(NamedTuple):
    """A call of both libraries' functions of that name."""

    name: str
    impl: str
    seed: int
    wide: bool
    shape: tuple[int, ...]
    arguments: dict[str, Any]
    mapped: bool

    def __str__(self) -> str:
        how = "-".join(f"{k}={v}" for k, v in self.arguments.items())
        return f"{self.name}-{self.impl}-{self.seed}-{self.shape}-{how}{'-x64' * self.wide}{'-vmap' * self.mapped}"

    def call(self, lib: Any, api: Any) -> np.ndarray[Any, Any]:
        key = lib.key(self.seed, impl=self.impl)
        draw = lambda key: getattr(lib, self.name)(key, **self.arguments)
        if self.mapped:
            return np.asarray(api.jit(api.vmap(draw))(lib.split(key, 3)))
        return np.asarray(draw(key))


def _interval(rng: np.random.Generator, dtype: str, wide: bool) -> dict[str, Any]:
    info, most = np.iinfo(dtype), np.iinfo("int64" if wide else "int32").max  # jax takes no larger bound
    low, high = sorted(
        min(int(x), most - 1) for x in rng.integers(info.min, info.max, 2, dtype, endpoint=True)
    )
    return {"minval": low, "maxval": max(high, low + 1)}


def _generate(rng: np.random.Generator) -> Drawn:
    wide = bool(rng.integers(4) == 0)
    shape = tuple(int(n) for n in rng.integers(0, 6, rng.integers(0, 4)))
    if rng.integers(6) == 0:
        shape = (int(rng.integers(200, 3000)),)
    impl = str(rng.choice(["threefry2x32", "rbg", "unsafe_rbg"], p=[0.7, 0.2, 0.1]))
    mapped = bool(rng.integers(3) == 0) and impl == "threefry2x32"
    name = str(rng.choice(["bits", "uniform", "normal", "randint", "bernoulli", "truncated_normal", "exponential",
                           "gumbel", "laplace"]))  # fmt: skip
    arguments: dict[str, Any] = {"shape": shape}
    if name == "bernoulli":
        arguments["p"] = float(rng.uniform())
    elif name == "bits":
        arguments["dtype"] = str(rng.choice(INTEGERS[1 : 8 if wide else 6 : 2]))
    elif name == "randint":
        dtype = arguments["dtype"] = str(rng.choice(INTEGERS[: 8 if wide else 6]))
        arguments |= _interval(rng, dtype, wide)
    else:
        arguments["dtype"] = str(rng.choice(FLOATS[: 4 if wide else 3]))
    if name == "uniform":
        arguments["minval"], arguments["maxval"] = sorted(round(float(x), 3) for x in rng.normal(size=2))
    if name == "truncated_normal":
        arguments["lower"], arguments["upper"] = sorted(round(float(x), 3) for x in rng.normal(size=2))
    seed = int(rng.integers(-(2**63), 2**63 - 1)) if wide else int(rng.integers(-(2**31), 2**31))
    return Drawn(name, impl, seed, wide, shape, arguments, mapped)


_RNG = np.random.default_rng(2024)
CASES = [_generate(_RNG) for _ in range(COUNT)]


@pytest.mark.parametrize("part", first(range(8), 4))
def test_generated_draws_are_those_of_jax(part: int) -> None:
    for case in CASES[part::8]:
        with dx.enable_x64(case.wide), jax.enable_x64(case.wide):
            got, want = case.call(random, dx), case.call(jax.random, jax)
        assert got.dtype == want.dtype, case
        assert got.shape == want.shape, case
        if got.dtype.kind in "iub":
            assert np.array_equal(got, want), case
        else:
            eps = (
                float(np.finfo(np.float16).eps) if got.dtype.itemsize == 2 else float(np.finfo(got.dtype).eps)
            )
            eps = 2.0**-8 if got.dtype.name == "bfloat16" else eps
            if (case.name, got.dtype) == ("laplace", np.float64):
                eps *= 16  # XLA's log1p, which jax uses as it is, loses two digits
            wide_got, wide_want = got.astype(np.float64), want.astype(np.float64)
            np.testing.assert_allclose(wide_got, wide_want, rtol=16 * eps, atol=16 * eps, err_msg=str(case))
