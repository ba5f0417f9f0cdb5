"""Fixed points and roots of functions, differentiated by the equations that they solve.

    fixed_point(f, x0)    x with x = f(x)       by repeating f
    root(f, x0)           x with f(x) = 0       by Newton's method

Derivatives do not go through the iteration: both functions are a `lax.custom_root`, and have derivatives with respect
to the values over which `f` closes. For another solver use `lax.custom_root` itself. Read next:
`didax/lax/solvers.py`, `docs/implicit.md`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import didax.numpy as dnp
from didax import lax
from didax.api.jacobians import jacfwd
from didax.core import dtypes, pytree
from didax.core.errors import api_boundary
from didax.core.modules import on_access

__all__ = ["fixed_point", "root"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def fixed_point(
    f: Callable[[Any], Any], x0: Any, *, tol: float | None = None, max_steps: int = 10_000
) -> Any:
    """Return the x with x = f(x) to which x0, f(x0), f(f(x0)), ... converge.

    It is differentiable with respect to what `f` closes over. Its derivatives iterate the derivative of `f` in the same
    way, so they converge where this iteration converges.

    Args:
      f: a function from pytrees like `x0` to pytrees like it, which is a contraction near the fixed point.
      x0: where to start, a pytree of floating-point arrays.
      tol: stop where a step changes no element by more than `tol * (1 + |x|)`; by default ten rounding errors.
      max_steps: the largest number of steps; where it is reached the result is NaN.

    >>> import didax as dx, didax.numpy as dnp
    >>> def square_root(a):
    ...     return fixed_point(lambda x: (x + a / x) / 2, 1.0)
    >>> round(float(square_root(9.0)), 5), round(float(dx.grad(square_root)(9.0)), 5)
    (3.0, 0.16667)
    """

    def solve(g: Callable[[Any], Any], x: Any) -> Any:
        return _iterate(lambda x: pytree.map(dnp.add, x, g(x)), x, tol, max_steps)

    def solve_linear(g: Callable[[Any], Any], y: Any) -> Any:
        """Return x with g(x) = y, where x + g(x) is a contraction: iterate x + g(x) - y."""
        step = lambda x: pytree.map(lambda x, gx, y: x + gx - y, x, g(x), y)
        return _iterate(step, pytree.map(dnp.zeros_like, y), tol, max_steps)

    def tangent_solve(g: Callable[[Any], Any], y: Any) -> Any:
        return lax.custom_linear_solve(g, y, solve_linear, solve_linear)

    return lax.custom_root(lambda x: pytree.map(dnp.subtract, f(x), x), x0, solve, tangent_solve)


@api_boundary
def root(f: Callable[[Any], Any], x0: Any, *, tol: float | None = None, max_steps: int = 100) -> Any:
    """Return the x with f(x) = 0 that Newton's method finds from `x0`.

    It is differentiable with respect to what `f` closes over. Each step solves a system with the full Jacobian of `f`,
    so this is for few unknowns.

    Args:
      f: a function from pytrees like `x0` to pytrees like it, with a regular Jacobian at the root.
      x0: where to start, a pytree of floating-point arrays.
      tol: stop where a step changes no element by more than `tol * (1 + |x|)`; by default ten rounding errors.
      max_steps: the largest number of steps; where it is reached the result is NaN.

    >>> import didax as dx, didax.numpy as dnp
    >>> def intersection(r):
    ...     return root(lambda p: {"x": p["x"] ** 2 + p["y"] ** 2 - r**2, "y": p["x"] - p["y"]}, {"x": 1.0, "y": 2.0})
    >>> round(float(dx.grad(lambda r: intersection(r)["x"])(5.0)), 5)
    0.70711
    """

    def solve(f: Callable[[Any], Any], x: Any) -> Any:
        return _iterate(lambda x: pytree.map(dnp.subtract, x, _solve_dense(f, x, f(x))), x, tol, max_steps)

    def tangent_solve(g: Callable[[Any], Any], y: Any) -> Any:
        return _solve_dense(g, pytree.map(dnp.zeros_like, y), y)

    return lax.custom_root(f, x0, solve, tangent_solve)


def _iterate(step: Callable[[Any], Any], x: Any, tol: float | None, max_steps: int) -> Any:
    """Repeat `step` until it changes x by little; NaN where the changes stay larger."""

    def moves(x: Any, new: Any) -> Any:
        pairs = zip(pytree.leaves(x), pytree.leaves(new), strict=True)
        return dnp.any(
            dnp.array([dnp.any(~(abs(b - a) <= _tolerance(a, tol) * (1 + abs(b)))) for a, b in pairs])
        )

    def advance(state: Any) -> Any:
        i, x, _ = state
        new = step(x)
        return i + 1, new, moves(x, new)

    _, x, moving = lax.while_loop(lambda s: (s[0] < max_steps) & s[2], advance, (0, x, dnp.array(True)))
    return pytree.map(lambda x: dnp.where(moving, dnp.nan, x), x)


def _tolerance(x: Any, tol: float | None) -> float:
    return 10 * float(dtypes.finfo(dtypes.real_dtype(x.dtype)).eps) if tol is None else tol


def _solve_dense(f: Callable[[Any], Any], x: Any, y: Any) -> Any:
    """Return J^-1 y, where J is the Jacobian of f at x."""
    leaves, tree = pytree.flatten(x)
    dtype = dnp.result_type(*leaves)

    def flat(values: list[Any]) -> Any:
        return dnp.concatenate([v.astype(dtype).ravel() for v in values])

    def whole(vector: Any) -> Any:
        parts = dnp.split(vector, list(itertools.accumulate(leaf.size for leaf in leaves))[:-1])
        return tree.unflatten(
            [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in zip(parts, leaves, strict=True)]
        )

    jacobian = jacfwd(lambda v: flat(pytree.leaves(f(whole(v)))))(flat(leaves))
    return whole(dnp.linalg.solve(jacobian, flat(pytree.leaves(y))))
