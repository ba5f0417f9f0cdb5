"""Comparison with jax.numpy: the same call on both sides gives the same value, dtype, shape and weak type."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

import didax as dx
import didax.numpy as dnp
from tests.checks import in_sample
from tests.quickly import XLA_FLAGS

IS_QUICK = os.environ["XLA_FLAGS"] == XLA_FLAGS  # otherwise all programs are compiled as users' are
RTOL = {
    "float64": 1e-12,
    "complex128": 1e-12,
    "float32": 2e-5,
    "complex64": 2e-5,
    "float16": 4e-3,
    "bfloat16": 3e-2,
}


def wide(x: Any) -> Any:
    """A NumPy array that assert_allclose can take: ml_dtypes as float32."""
    x = np.asarray(x)
    return x.astype(np.float32) if x.dtype == ml_dtypes.bfloat16 else x


def assert_same(ours: Any, theirs: Any, rtol: float | None = None, weak: bool = True) -> None:
    """One result, or a tuple or list of results, equals the oracle's."""
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other, rtol, weak)
        return
    if not isinstance(theirs, jax.Array):
        assert ours == theirs
        return
    assert isinstance(ours, dx.Array), type(ours)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), (ours.aval, theirs.aval)
    if weak and theirs.dtype != bool:  # booleans are never weak here
        assert ours.weak_type == theirs.weak_type, f"weak_type: {ours.weak_type}, not {theirs.weak_type}"
    tolerance = RTOL.get(theirs.dtype.name, 0) if rtol is None else rtol
    np.testing.assert_allclose(wide(ours), wide(theirs), rtol=tolerance, atol=tolerance, equal_nan=True)


def assert_same_types(ours: Any, theirs: Any, weak: bool) -> None:
    """What `assert_same` says of shapes and dtypes, where `ours` are types."""
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same_types(one, other, weak)
    elif isinstance(theirs, jax.Array):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), (ours, theirs.aval)
        if weak and theirs.dtype != bool:
            assert ours.weak_type == theirs.weak_type, f"weak_type: {ours.weak_type}, not {theirs.weak_type}"


def compare(
    call: Callable[..., Any], *args: Any, rtol: float | None = None, weak: bool = True, jit: bool = True
) -> None:
    """`call(np, *arrays)` gives the same for np = didax.numpy and jax.numpy, and the same under jit.

    NumPy arrays among `args` are handed to both as arrays; everything else goes as it is. A function of NumPy is a
    composition of operations, whose compiled form other tests hold: so one case in three is compiled, and the others
    are lowered (`make test-all` compiles all).
    """
    is_array = [isinstance(x, np.ndarray | np.generic) for x in args]
    theirs = call(jnp, *[jnp.asarray(x) if a else x for x, a in zip(args, is_array, strict=True)])
    ours_in = [dnp.asarray(x) if a else x for x, a in zip(args, is_array, strict=True)]
    assert_same(call(dnp, *ours_in), theirs, rtol, weak)
    if jit and not isinstance(theirs, int | bool):
        arrays = [x for x, a in zip(ours_in, is_array, strict=True) if a]

        def staged(*traced: Any) -> Any:
            rest = iter(traced)
            return call(dnp, *[next(rest) if a else x for x, a in zip(args, is_array, strict=True)])

        if IS_QUICK and not in_sample(name_of(call, args), 3):
            assert_same_types(dx.jit(staged).lower(*arrays).out_info, theirs, weak)
        else:
            assert_same(dx.jit(staged)(*arrays), theirs, rtol, weak)


def name_of(call: Callable[..., Any], args: Any) -> str:
    """A text that differs between cases and is the same in every process."""
    types = [f"{x.dtype}{x.shape}" if isinstance(x, np.ndarray) else type(x).__name__ for x in args]
    return f"{os.environ['PYTEST_CURRENT_TEST']} {call.__code__.co_names} {types}"


DTYPES = ("bool", "uint8", "int32", "float32", "bfloat16", "complex64")


def sample(dtype: str, shape: tuple[int, ...] = (4,), seed: int = 0) -> np.ndarray[Any, Any]:
    """Small numbers of both signs (where the dtype has them) and zeros."""
    rng = np.random.default_rng([seed, len(shape)])
    x = np.round(rng.normal(size=shape) * 3, 2)
    if dtype == "bool":
        return np.asarray(x > 0)
    if dtype.startswith("u"):
        return np.asarray(np.abs(x)).astype(dtype)
    if dtype.startswith("complex"):
        return np.asarray(x + 1j * np.round(rng.normal(size=shape), 2)).astype(dtype)
    return np.asarray(x).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def check(text: str, *args: Any, **options: Any) -> None:
    """`compare` for an expression in np, x, y and z."""
    names = ("x", "y", "z")[: len(args)]
    compare(
        eval(f"lambda np, {', '.join(names)}: {text}" if args else f"lambda np: {text}"), *args, **options
    )
