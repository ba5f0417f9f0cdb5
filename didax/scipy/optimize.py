"""Minima of functions of many variables: `minimize`, by BFGS or with limited memory.

Both take a step along p = -H g for the gradient g, as long as a line search finds one that fulfils the strong Wolfe
conditions (Nocedal and Wright, Numerical Optimization, 2006, algorithms 3.5, 3.6, 6.1 and 7.5). H is an estimate of the
inverse Hessian from the last steps: a matrix (BFGS), or the steps themselves (L-BFGS).

`minimize` may be compiled and batched. Its result cannot be differentiated in reverse mode; differentiate the
condition that it solves, gradient = 0, instead: `experimental.implicit`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import didax.numpy as dnp
from didax.api.autodiff import value_and_grad
from didax.core import dtypes
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.modules import on_access
from didax.core.value import Array
from didax.lax.loops import fori_loop, while_loop
from didax.numpy.promotion import ArrayLike, promote_dtypes

__all__ = ["OptimizeResults", "minimize"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


class OptimizeResults(NamedTuple):
    """What `minimize` found.

    `status` is 0 for success, 1 after too many iterations, 3 where the line search found no step, and 5 where a
    limit on evaluations was met. `hess_inv` is BFGS's estimate, or None.

    >>> import didax.numpy as dnp
    >>> found = minimize(lambda x: ((x - 3.0) ** 2).sum(), dnp.zeros(2), method="BFGS")
    >>> bool(found.success), int(found.status), found.x.round(3)
    (True, 0, Array([3., 3.], dtype=float32))
    """

    x: Array
    success: Array
    status: Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: Array
    njev: Array
    nit: Array


_LIMITED = "l-bfgs-experimental-do-not-rely-on-this"
_OPTIONS = {
    "bfgs": {"norm": math.inf, "gtol": 1e-5, "maxiter": None, "line_search_maxiter": 10},
    _LIMITED: {"norm": math.inf, "gtol": 1e-5, "ftol": 2.220446049250313e-09, "maxiter": None, "maxfun": math.inf,
               "maxgrad": math.inf, "maxls": 20, "maxcor": 10},
}  # fmt: skip


@api_boundary
def minimize(
    fun: Callable[..., Any],
    x0: ArrayLike,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Return a local minimum of `fun(x, *args)`, a scalar function of a vector, searched from `x0` on.

    The `method` is "BFGS" or "l-bfgs-experimental-do-not-rely-on-this". It ends where the `norm` of the gradient is
    below `gtol` (`tol`), after `maxiter` iterations, or where a line search fails.

    >>> from didax.scipy.optimize import minimize
    >>> dnp.round(minimize(lambda x: ((x - 1) ** 2).sum(), dnp.zeros(2), method="BFGS").x, 3)
    Array([1., 1.], dtype=float32)
    """
    kind = method.lower() if isinstance(method, str) else method
    if kind not in _OPTIONS:
        fix = f"Use 'BFGS' or {_LIMITED!r}."
        raise ArgumentError(message("minimize has two methods.", f"method: {method!r}", fix=fix))
    if not isinstance(args, tuple):
        fix = "Write (argument,) for one argument."
        raise TypeError(
            message("minimize takes further arguments as a tuple.", f"args: {args!r:.100}", fix=fix)
        )
    unknown = [name for name in options or {} if name not in _OPTIONS[kind] and name != "tol"]
    if unknown:
        fix = f"Use some of {', '.join(_OPTIONS[kind])}."
        raise ArgumentError(
            message(f"minimize by {method} has no such option.", f"options: {unknown}", fix=fix)
        )
    x = dnp.asarray(promote_dtypes("minimize", x0, to_inexact=True)[0])
    x = x.astype(x.dtype)
    if x.ndim != 1 or dtypes.is_complex(x.dtype):
        fix = "Flatten it (ravel), or use flatten_util.ravel_pytree."
        rule = "minimize starts from a vector of real numbers."
        raise ArgumentError(message(rule, f"x0: {x.aval}", fix=fix))
    chosen = {**_OPTIONS[kind], **({} if tol is None else {"gtol": tol}), **(options or {})}
    chosen.pop("tol", None)
    if chosen.get("maxcor", 1) < 1:
        rule = f"minimize by {method} remembers one step or more."
        raise ArgumentError(
            message(rule, f"maxcor: {chosen['maxcor']!r}", fix="Choose maxcor of at least 1.")
        )
    evaluate = value_and_grad(functools.wraps(fun)(lambda x: fun(x, *args)))  # so that errors name the user's
    return _descend(evaluate, x, kind == "bfgs", chosen)


class _State(NamedTuple):
    x: Array
    f: Array
    g: Array
    memory: Any
    k: Array
    evaluations: Array
    status: Array  # -1 while it runs


def _descend(evaluate: Any, x: Any, whole: bool, options: Mapping[str, Any]) -> OptimizeResults:
    n = x.shape[0]
    most = n * 200 if options["maxiter"] is None else options["maxiter"]
    searches = options["line_search_maxiter" if whole else "maxls"]
    ftol = options.get("ftol")
    most_calls = min(options.get("maxfun", math.inf), options.get("maxgrad", math.inf))

    def status_of(f_before: Any, s: _State, failed: Any) -> Any:
        code = dnp.where(s.k >= most, 1, -1)
        code = dnp.where(s.evaluations >= most_calls, 5, code)
        if ftol is not None:
            scale = dnp.maximum(dnp.maximum(abs(f_before), abs(s.f)), 1)
            code = dnp.where((f_before - s.f) / scale <= ftol, 0, code)
        code = dnp.where(failed, 3, code)
        return dnp.where(_norm(s.g, options["norm"]) < options["gtol"], 0, code)

    def step(s: _State) -> _State:
        p = -(s.memory @ s.g) if whole else -_two_loops(s.memory, s.g)
        search = _line_search(evaluate, s.x, p, s.f, s.g, searches)
        new_x = s.x + search.a * p
        memory = _updated(s.memory, new_x - s.x, search.g - s.g, whole, s.k)
        new = _State(new_x, search.f, search.g, memory, s.k + 1, s.evaluations + search.evaluations, s.status)
        kept = search.failed
        new = new._replace(
            **{name: dnp.where(kept, getattr(s, name), getattr(new, name)) for name in ("x", "f", "g")}
        )
        return new._replace(status=status_of(s.f, new, search.failed))

    f, g = evaluate(x)
    memory = dnp.eye(n, dtype=x.dtype) if whole else _empty_memory(x, options["maxcor"])
    zero = dnp.asarray(0)
    start = _State(x, f.astype(x.dtype), g, memory, zero, zero + 1, zero - 1)
    start = start._replace(status=dnp.where(_norm(g, options["norm"]) < options["gtol"], 0, start.status))
    last = while_loop(lambda s: (s.status < 0) & (s.k < most), step, start)
    status = dnp.where(last.status < 0, 1, last.status)
    hessian = last.memory if whole else None
    calls = last.evaluations
    return OptimizeResults(last.x, status == 0, status, last.f, last.g, hessian, calls, calls, last.k)


def _norm(g: Any, order: Any) -> Any:
    return dnp.linalg.norm(g, order) if g.shape[0] else dnp.zeros((), g.dtype)


# --- Estimates of the inverse Hessian -----------------------------------------------------------------------


class _Memory(NamedTuple):
    steps: Array  # the last ones, the newest at the end
    changes: Array  # of the gradient
    inverse: Array  # 1 / (step . change), 0 where there is none
    scale: Array


def _empty_memory(x: Any, length: int) -> _Memory:
    rows = dnp.zeros((length, x.shape[0]), x.dtype)
    return _Memory(rows, rows, dnp.zeros(length, x.dtype), dnp.ones((), x.dtype))


def _updated(memory: Any, step: Any, change: Any, whole: bool, k: Any) -> Any:
    """The estimate after a step; the step is left out where the curvature along it is not positive."""
    curvature = step @ change
    useful = curvature > 0
    rho = dnp.where(useful, 1 / dnp.where(useful, curvature, 1), 0)
    if whole:
        square = change @ change
        first = dnp.where(useful & (k == 0), curvature / dnp.where(square == 0, 1, square), 1)
        memory = memory * first  # the first estimate has the scale of the first step
        moved = dnp.eye(step.shape[0], dtype=step.dtype) - rho * dnp.outer(step, change)
        return moved @ memory @ moved.T + rho * dnp.outer(step, step)
    rolled = _Memory(
        dnp.concatenate([memory.steps[1:], step[None]]),
        dnp.concatenate([memory.changes[1:], change[None]]),
        dnp.concatenate([memory.inverse[1:], rho[None]]),
        curvature / dnp.where(useful, change @ change, 1),
    )
    return _Memory(*[dnp.where(useful, new, old) for new, old in zip(rolled, memory, strict=True)])


def _two_loops(memory: _Memory, g: Any) -> Any:
    """H g from the remembered steps, from the newest to the oldest and back."""
    length = memory.inverse.shape[0]

    def down(i: Any, state: Any) -> Any:
        q, shares = state
        j = length - 1 - i
        share = memory.inverse[j] * (memory.steps[j] @ q)
        return q - share * memory.changes[j], shares.at[j].set(share)

    q, shares = fori_loop(0, length, down, (g, dnp.zeros_like(memory.inverse)))

    def up(j: Any, r: Any) -> Any:
        return r + memory.steps[j] * (shares[j] - memory.inverse[j] * (memory.changes[j] @ r))

    return fori_loop(0, length, up, q * memory.scale)


# --- The line search ----------------------------------------------------------------------------------------


class _Search(NamedTuple):
    a: Array  # the step that was accepted, or is the last one tried
    f: Array
    g: Array
    done: Array
    failed: Array
    bracketed: Array  # whether a minimum is between low and high
    low: Array
    f_low: Array
    slope_low: Array
    high: Array
    f_high: Array
    evaluations: Array


def _line_search(evaluate: Any, x: Any, p: Any, f0: Any, g0: Any, most: int) -> _Search:
    """A step with f(a) <= f(0) + 1e-4 a f'(0) and |f'(a)| <= 0.9 |f'(0)|.

    The step grows until a minimum is bracketed, then the bracket shrinks around the minimum of a parabola.
    """
    slope0 = g0 @ p
    zero, false = dnp.zeros((), x.dtype), dnp.asarray(False)
    c1, c2 = 1e-4, 0.9
    eps = float(dnp.finfo(x.dtype).eps)

    def step(s: _Search) -> _Search:
        a = dnp.where(s.bracketed, _between(s), dnp.where(s.evaluations == 0, 1, 2 * s.a)).astype(x.dtype)
        f, g = evaluate(x + a * p)
        f = f.astype(x.dtype)
        slope = g @ p
        rounding = eps * abs(f0)  # two values that differ by less are equal
        too_high = ~(f <= f0 + c1 * a * slope0 + rounding) | ((s.evaluations > 0) & (f >= s.f_low + rounding))
        flat = abs(slope) <= -c2 * slope0
        done = ~too_high & flat
        # The new point becomes the high end, or the low end, from which the function descends into the bracket.
        turned = slope * dnp.where(s.bracketed, s.high - s.low, 1) >= 0
        high = dnp.where(too_high, a, dnp.where(turned, s.low, s.high))
        f_high = dnp.where(too_high, f, dnp.where(turned, s.f_low, s.f_high))
        low, f_low = dnp.where(too_high, s.low, a), dnp.where(too_high, s.f_low, f)
        slope_low = dnp.where(too_high, s.slope_low, slope)
        bracketed = s.bracketed | too_high | turned
        return _Search(
            a, f, g, done, s.failed, bracketed, low, f_low, slope_low, high, f_high, s.evaluations + 1
        )

    start = _Search(zero, f0, g0, false, false, false, zero, f0, slope0, zero, f0, dnp.asarray(0))
    last = while_loop(lambda s: ~s.done & (s.evaluations < most), step, start)
    lower = dnp.isfinite(last.f) & (last.f < f0)  # less than was asked for, but better than nothing
    return last._replace(failed=~last.done & ~lower)


def _between(s: _Search) -> Any:
    """The minimum of the parabola through the low end and the high one, at least a tenth of the bracket from both."""
    width = s.high - s.low
    bend = s.f_high - s.f_low - s.slope_low * width
    usable = (bend > 0) & dnp.isfinite(bend)
    share = dnp.where(usable, -0.5 * s.slope_low * width / dnp.where(usable, bend, 1), 0.5)
    return s.low + width * dnp.clip(share, 0.1, 0.9)
