"""`jax.test_util`: derivatives against finite differences.

    check_grads(f, (x, y), order=2)          both modes, and the derivatives of derivatives

Each check draws a direction from a fixed seed, and compares what the derivative says of it with a central difference.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import didax
from didax import tree_util
from didax.core.array_ops import array_ops
from didax.core.avals import aval_of

__all__ = ["check_grads", "check_jvp", "check_vjp"]

_TOLERANCE = {2: 1e-1, 4: 2e-2, 8: 1e-6}  # by bytes of a real number
_STEP = {2: 1e-2, 4: 1e-4, 8: 1e-4}


def _width(tree: Any) -> int:
    sizes = [aval_of(x).dtype for x in tree_util.tree_leaves(tree)]
    return min([d.itemsize // (2 if d.kind == "c" else 1) for d in sizes if d.kind in "fcV"], default=4)


def _direction(tree: Any, seed: int) -> Any:
    """Random tangents of the values in a tree; integers have none."""
    draws = np.random.RandomState(seed)

    def draw(x: Any) -> Any:
        aval = aval_of(x)
        if aval.tangent() is not aval:
            return array_ops.zeros(aval.tangent())
        numbers = draws.standard_normal(aval.shape)
        if np.issubdtype(aval.dtype, np.complexfloating):
            numbers = numbers + 1j * draws.standard_normal(aval.shape)
        return np.asarray(numbers).astype(aval.dtype)

    return tree_util.tree_map(draw, tree)


def _shifted(tree: Any, direction: Any, by: float) -> Any:
    def shift(x: Any, t: Any) -> Any:
        return x if t.dtype == didax.float0 else np.asarray(np.asarray(x) + by * t).astype(aval_of(x).dtype)

    return tree_util.tree_map(shift, tree, direction)


def _difference(f: Callable[..., Any], args: Any, direction: Any, step: float) -> Any:
    above, below = f(*_shifted(args, direction, step)), f(*_shifted(args, direction, -step))

    def quotient(a: Any, b: Any) -> Any:
        if aval_of(a).tangent().dtype == didax.float0:
            return np.zeros(np.shape(a), didax.float0)
        return (np.asarray(a) - np.asarray(b)) / (2 * step)

    return tree_util.tree_map(quotient, above, below)


def _check_close(found: Any, wanted: Any, atol: float, rtol: float, what: str) -> None:
    for x, y in zip(tree_util.tree_leaves(found), tree_util.tree_leaves(wanted), strict=True):
        if getattr(x, "dtype", None) == didax.float0:
            continue
        kind = np.result_type(
            np.asarray(x).astype(np.complex64 if np.iscomplexobj(x) else np.float32), np.float64
        )
        a, b = np.asarray(x).astype(kind), np.asarray(y).astype(kind)
        np.testing.assert_allclose(a, b, atol=atol * max(a.size, 1), rtol=rtol * max(a.size, 1), err_msg=what)


def _settings(args: Any, atol: Any, rtol: Any, eps: Any) -> tuple[float, float, float]:
    width = _width(args)
    tolerance = _TOLERANCE.get(width, 1e-1)
    return (
        tolerance if atol is None else atol,
        tolerance if rtol is None else rtol,
        _STEP.get(width, 1e-2) if eps is None else eps,
    )


def check_jvp(
    f: Callable[..., Any], f_jvp: Callable[..., Any], args: Sequence[Any], atol: Any = None, rtol: Any = None,
    eps: Any = None, err_msg: str = "",
) -> None:  # fmt: skip
    """AssertionError unless `f_jvp(args, tangents)` gives the results of `f` and their change along the tangents."""
    atol, rtol, step = _settings(args, atol, rtol, eps)
    tangents = _direction(args, 0)
    out, out_dot = f_jvp(args, tangents)
    _check_close(out, f(*args), atol, rtol, f"{err_msg} primal results of jvp")
    _check_close(out_dot, _difference(f, args, tangents, step), atol, rtol, f"{err_msg} tangents of jvp")


def check_vjp(
    f: Callable[..., Any], f_vjp: Callable[..., Any], args: Sequence[Any], atol: Any = None, rtol: Any = None,
    eps: Any = None, err_msg: str = "",
) -> None:  # fmt: skip
    """AssertionError unless `f_vjp(*args)` gives the results of `f`, and a function that agrees with their change."""
    atol, rtol, step = _settings(args, atol, rtol, eps)
    out, pull = f_vjp(*args)
    _check_close(out, f(*args), atol, rtol, f"{err_msg} primal results of vjp")
    tangents, cotangents = _direction(args, 0), _direction(out, 1)
    change = _difference(f, args, tangents, step)
    found, wanted = _inner(tangents, pull(cotangents)), _inner(change, cotangents)
    _check_close(found, wanted, atol, rtol, f"{err_msg} cotangents of vjp")


def _inner(xs: Any, ys: Any) -> np.ndarray[Any, Any]:
    """The sum of products, without conjugation: cotangents are linear functions of tangents."""
    pairs = zip(tree_util.tree_leaves(xs), tree_util.tree_leaves(ys), strict=True)
    terms = [np.sum(np.asarray(x) * np.asarray(y)) for x, y in pairs if x.dtype != didax.float0]
    return np.asarray(np.real(sum(terms)) if terms else 0.0)


def check_grads(
    f: Callable[..., Any], args: Sequence[Any], order: int, modes: Sequence[str] = ("fwd", "rev"), atol: Any = None,
    rtol: Any = None, eps: Any = None,
) -> None:  # fmt: skip
    """AssertionError unless the derivatives of `f` at `args` agree with finite differences, up to an order."""
    how = {"atol": atol, "rtol": rtol, "eps": eps}
    args = tuple(args)

    def check(f: Callable[..., Any], args: Any, order: int, path: str) -> None:
        if "fwd" in modes:
            check_jvp(f, functools.partial(didax.jvp, f), args, err_msg=path + "jvp", **how)
            if order > 1:
                tangents = _direction(args, 2)
                check(lambda *xs: didax.jvp(f, xs, tangents), args, order - 1, path + "jvp of ")
        if "rev" in modes:
            check_vjp(f, functools.partial(didax.vjp, f), args, err_msg=path + "vjp", **how)
            if order > 1:
                cotangents = _direction(f(*args), 3)

                def pulled(*xs: Any) -> Any:
                    out, pull = didax.vjp(f, *xs)
                    return out, pull(cotangents)

                check(pulled, args, order - 1, path + "vjp of ")

    check(f, args, order, "")
