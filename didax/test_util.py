"""Checks of derivatives against finite differences, for tests of your own, with the arguments of `jax.test_util`.

    check_grads(f, (x, y), order=2)       jvp and vjp of f, and of its derivatives
    check_jvp(f, partial(jvp, f), args)   one rule

Each looks along one random direction, the same in every run, and raises AssertionError. `eps` is the step of the finite
differences; without `atol` and `rtol` their expected error is allowed. `extend.testing.check` checks a primitive with
all of its rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import didax.numpy as dnp
from didax import tree
from didax.api.autodiff import jvp, vjp
from didax.core.errors import message
from didax.core.modules import on_access
from didax.core.value import Array
from didax.extend import testing

__all__ = ["check_grads", "check_jvp", "check_vjp"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


def _close(found: Any, wanted: Any, atol: float | None, rtol: float | None, error: float, what: str) -> None:
    for x, y in zip(tree.leaves(found), tree.leaves(wanted), strict=True):
        if testing.is_inexact(x):
            default = error * max(testing.finite_scale(y), 1e-3)
            np.testing.assert_allclose(
                testing.wide(x),
                y,
                error if rtol is None else rtol,
                default if atol is None else atol,
                err_msg=what,
            )


def _arrays(args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments as derivatives take them: a function of NumPy's arrays may compute in 64 bits."""
    return tuple(tree.map(lambda x: x if isinstance(x, Array) else dnp.asarray(x), list(args)))


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Check that `f_jvp(args, tangents)` returns the value of `f` and its derivative along the tangents.

    >>> import functools, didax as dx, didax.numpy as dnp
    >>> check_jvp(dnp.sin, functools.partial(dx.jvp, dnp.sin), (1.0,))
    """
    args = _arrays(args)
    tangents = testing.random_like(np.random.default_rng(0), args)
    out, out_dot = f_jvp(args, tangents)
    testing.assert_close(out, f(*args), rtol, atol, f"primal result of the jvp. {err_msg}")
    numerical, error = testing.numerical_jvp(f, args, tangents, step=eps)
    _close(out_dot, numerical, atol, rtol, error, f"jvp against finite differences. {err_msg}")


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Check that `f_vjp(*args)` returns the value of `f` and the transpose of its derivative.

    >>> import functools, didax as dx, didax.numpy as dnp
    >>> check_vjp(dnp.sin, functools.partial(dx.vjp, dnp.sin), (1.0,))
    """
    args, rng = _arrays(args), np.random.default_rng(0)
    out, pull = f_vjp(*args)
    testing.assert_close(out, f(*args), rtol, atol, f"primal result of the vjp. {err_msg}")
    tangents, cotangents = testing.random_like(rng, args), testing.random_like(rng, out)
    numerical, error = testing.numerical_jvp(f, args, tangents, step=eps)
    forward = np.asarray(testing.pairing(cotangents, numerical))
    backward = np.asarray(testing.pairing(pull(cotangents), tangents))
    scale = max([1.0, *[testing.finite_scale(y) for y in tree.leaves(numerical)]])
    tolerance = error * scale if atol is None else atol
    np.testing.assert_allclose(
        backward, forward, error if rtol is None else rtol, tolerance, err_msg=f"vjp against jvp. {err_msg}"
    )


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Check the derivatives of `f` up to an order in the `modes` "fwd" and "rev", and all combinations of these.

    Raises ValueError for other modes.

    >>> import didax.numpy as dnp
    >>> check_grads(lambda x: dnp.sin(x) * x, (1.0,), order=2)
    """
    modes = [modes] if isinstance(modes, str) else modes
    if not {"fwd", "rev"}.issuperset(modes):
        rule = 'The modes of check_grads are "fwd" and "rev".'
        raise ValueError(message(rule, f"modes: {modes!r}", fix="Name one of them, or both."))
    args, rng = _arrays(args), np.random.default_rng(1)
    if "fwd" in modes:
        check_jvp(f, functools.partial(jvp, f), args, atol, rtol, eps)
    if "rev" in modes:
        check_vjp(f, functools.partial(vjp, f), args, atol, rtol, eps)
    if order <= 1:
        return
    tangents, cotangents = testing.random_like(rng, args), testing.random_like(rng, f(*args))
    if "fwd" in modes:
        check_grads(lambda *xs: jvp(f, xs, tangents)[1], args, order - 1, modes, atol, rtol, eps)
    if "rev" in modes:
        pulled = lambda *xs: testing.inexact_leaves(vjp(f, *xs)[1](cotangents))
        check_grads(pulled, args, order - 1, modes, atol, rtol, eps)
