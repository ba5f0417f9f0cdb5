"""didax.test_util: right derivatives pass, wrong ones do not."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax.as_jax.test_util import check_close
from didax.test_util import check_grads, check_jvp, check_vjp


@dx.custom_jvp
def wrong(x: dx.Array) -> dx.Array:
    return dnp.sin(x)


wrong.defjvp(lambda primals, tangents: (wrong(*primals), tangents[0] * 0.5))


def test_derivatives_are_checked() -> None:
    x = np.float32([0.3, 1.2])
    check_grads(lambda x, y: dnp.sin(x) * y, (x, x + 1), order=2)
    check_grads(lambda x: dnp.tanh(x).sum(), (x,), order=3, modes=["rev"])
    check_jvp(dnp.sin, functools.partial(dx.jvp, dnp.sin), (x,), atol=1e-2, rtol=1e-2)
    numbers = {"a": 0.5, "b": np.array([1.0, 2.0])}  # float64, which is narrowed
    check_grads(lambda tree, n: tree["a"] * tree["b"] * n, (numbers, 3), order=2)
    check_grads(lambda x: x[0] * x[1], ([2.0, 3.0],), order=2)
    for mode in ("fwd", "rev"):
        with pytest.raises(AssertionError, match="vjp" if mode == "rev" else "jvp"):
            check_grads(wrong, (x,), 1, modes=[mode])
        for eps in (1e-3, 1e-2, 0.1):  # the step of the differences
            check_grads(dnp.sin, (x,), 2, modes=mode, eps=eps)
            with pytest.raises(AssertionError, match=r"finite differences|vjp against jvp"):
                check_grads(wrong, (x,), 1, modes=mode, eps=eps)
    with pytest.raises(ValueError, match=r'"fwd" and "rev".*\n  modes: \[\'forward\'\]'):
        check_grads(dnp.sin, (x,), 1, modes=["forward"])
    with pytest.raises(AssertionError, match="primal result of the vjp"):
        check_vjp(dnp.sin, functools.partial(dx.vjp, dnp.cos), (x,))


def test_trees_are_close_as_jax_says() -> None:
    """`check_close` of JAX's private tools: by dtype, or as stated for all dtypes or for some."""
    x = np.float32([1.0, 2.0])
    check_close({"a": x, "b": 1}, {"a": x + np.float32(1e-7), "b": 1})
    check_close(x, x + np.float32(1e-3), atol={"float32": 1e-2}, rtol=0.0)
    for other, options in (
        (x + np.float32(1e-3), {}),
        (x[:1], {}),
        ([x], {}),
        (x + np.float32(1e-3), {"atol": {"float64": 1.0}}),
    ):
        with pytest.raises(AssertionError):
            check_close(x, other, **options)
    with pytest.raises(AssertionError):
        check_close(1, 2)
