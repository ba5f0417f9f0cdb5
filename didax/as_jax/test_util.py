"""`jax.test_util`: derivatives against finite differences, within JAX's tolerances.

    check_grads(f, (x, y), order=2)          both modes, and the derivatives of derivatives

Tangents are drawn, paired and widened by `didax.extend.testing`, whose own `check_grads` is stricter: it takes
differences of four points and a step suited to the dtype. Here they are of two points, `eps` apart on either side, and
tolerances grow with the size of the arrays, because programs state them for that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import didax
from didax import tree
from didax.extend import testing

__all__ = ["check_grads", "check_jvp", "check_vjp"]

_TOLERANCE = {2: 1e-1, 4: 2e-2, 8: 1e-6}  # by bytes of a real number
_STEP = {2: 1e-2, 4: 1e-4, 8: 1e-4}


def _settings(args: Any, atol: Any, rtol: Any, eps: Any) -> tuple[float, float, float]:
    dtypes = [testing.dtype_of(x) for x in tree.leaves(args) if testing.is_inexact(x)]
    width = min([d.itemsize // (2 if d.kind == "c" else 1) for d in dtypes], default=4)
    tolerance, step = _TOLERANCE.get(width, 1e-1), _STEP.get(width, 1e-2)
    return (
        tolerance if atol is None else atol,
        tolerance if rtol is None else rtol,
        step if eps is None else eps,
    )


def _change(f: Callable[..., Any], args: Any, tangents: Any, step: float) -> Any:
    """The change of the results along the tangents: a central difference."""

    def at(distance: float) -> Any:
        def move(x: Any, t: Any) -> Any:
            if not testing.is_inexact(x):
                return x
            return np.asarray(testing.wide(x) + distance * testing.wide(t)).astype(testing.dtype_of(x))

        return f(*tree.map(move, args, tangents))

    def quotient(a: Any, b: Any) -> Any:
        if not testing.is_inexact(a):
            return np.zeros(np.shape(a), didax.float0)
        return (testing.wide(a) - testing.wide(b)) / (2 * step)

    return tree.map(quotient, at(step), at(-step))


def _check_close(found: Any, wanted: Any, atol: float, rtol: float, what: str) -> None:
    for x, y in zip(tree.leaves(found), tree.leaves(wanted), strict=True):
        if testing.is_inexact(x):
            size = max(np.size(x), 1)
            np.testing.assert_allclose(
                testing.wide(x), testing.wide(y), atol=atol * size, rtol=rtol * size, err_msg=what
            )


def check_jvp(
    f: Callable[..., Any], f_jvp: Callable[..., Any], args: Sequence[Any], atol: Any = None, rtol: Any = None,
    eps: Any = None, err_msg: str = "",
) -> None:  # fmt: skip
    """AssertionError unless `f_jvp(args, tangents)` gives the results of `f` and their change along the tangents."""
    atol, rtol, step = _settings(args, atol, rtol, eps)
    tangents = testing.random_like(np.random.default_rng(0), args)
    out, out_dot = f_jvp(args, tangents)
    _check_close(out, f(*args), atol, rtol, f"{err_msg} primal results of jvp")
    _check_close(out_dot, _change(f, args, tangents, step), atol, rtol, f"{err_msg} tangents of jvp")


def check_vjp(
    f: Callable[..., Any], f_vjp: Callable[..., Any], args: Sequence[Any], atol: Any = None, rtol: Any = None,
    eps: Any = None, err_msg: str = "",
) -> None:  # fmt: skip
    """AssertionError unless `f_vjp(*args)` gives the results of `f`, and a function that agrees with their change."""
    atol, rtol, step = _settings(args, atol, rtol, eps)
    rng = np.random.default_rng(0)
    out, pull = f_vjp(*args)
    _check_close(out, f(*args), atol, rtol, f"{err_msg} primal results of vjp")
    tangents, cotangents = testing.random_like(rng, args), testing.random_like(rng, out)
    found = testing.pairing(tangents, pull(cotangents))
    wanted = testing.pairing(_change(f, args, tangents, step), cotangents)
    _check_close(np.float64(found), np.float64(wanted), atol, rtol, f"{err_msg} cotangents of vjp")


def check_grads(
    f: Callable[..., Any], args: Sequence[Any], order: int, modes: Sequence[str] = ("fwd", "rev"), atol: Any = None,
    rtol: Any = None, eps: Any = None,
) -> None:  # fmt: skip
    """AssertionError unless the derivatives of `f` at `args` agree with finite differences, up to an order."""
    how = {"atol": atol, "rtol": rtol, "eps": eps}
    args, rng = tuple(args), np.random.default_rng(1)

    def check(f: Callable[..., Any], order: int, path: str) -> None:
        if "fwd" in modes:
            check_jvp(f, functools.partial(didax.jvp, f), args, err_msg=path + "jvp", **how)
            if order > 1:
                tangents = testing.random_like(rng, args)
                check(lambda *xs: didax.jvp(f, xs, tangents), order - 1, path + "jvp of ")
        if "rev" in modes:
            check_vjp(f, functools.partial(didax.vjp, f), args, err_msg=path + "vjp", **how)
            if order > 1:
                cotangents = testing.random_like(rng, f(*args))

                def pulled(*xs: Any) -> Any:
                    out, pull = didax.vjp(f, *xs)
                    return out, testing.inexact_leaves(pull(cotangents))

                check(pulled, order - 1, path + "vjp of ")

    check(f, order, "")


Tolerance = float | dict[Any, float] | None


def _tolerance(x: Any, stated: Tolerance) -> float:
    """What is stated, for all dtypes or for this one; otherwise 0 for integers, and 1e-6 for numbers of 32 bits."""
    dtype = testing.dtype_of(x)
    if isinstance(stated, dict):
        stated = {np.dtype(kind): tolerance for kind, tolerance in stated.items()}.get(dtype)
    if stated is not None:
        return stated
    if dtype.kind in "biu":
        return 0.0
    width = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    return {2: 1e-2 if dtype.name == "bfloat16" else 1e-3, 4: 1e-6, 8: 1e-15}.get(width, 1e-1)


def check_close(xs: Any, ys: Any, atol: Tolerance = None, rtol: Tolerance = None, err_msg: str = "") -> None:
    """AssertionError unless two trees of arrays have one structure, equal shapes and close numbers."""
    assert tree.structure(xs) == tree.structure(ys), err_msg
    for x, y in zip(tree.leaves(xs), tree.leaves(ys), strict=True):
        assert np.shape(x) == np.shape(y), err_msg
        absolute, relative = (max(_tolerance(x, t), _tolerance(y, t)) for t in (atol, rtol))
        np.testing.assert_allclose(
            testing.wide(x), testing.wide(y), atol=absolute, rtol=relative, err_msg=err_msg
        )
