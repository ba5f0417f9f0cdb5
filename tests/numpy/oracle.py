"""Comparison with jax.numpy: the same call on both sides gives the same value, dtype, shape and weak type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

import didax as dx
import didax.numpy as dnp

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


def compare(
    call: Callable[..., Any], *args: Any, rtol: float | None = None, weak: bool = True, jit: bool = True
) -> None:
    """`call(np, *arrays)` gives the same for np = didax.numpy and jax.numpy, and the same under jit.

    NumPy arrays among `args` are handed to both as arrays; everything else goes as it is.
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

        assert_same(dx.jit(staged)(*arrays), theirs, rtol, weak)


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
