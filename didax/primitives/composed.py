"""Elementwise operations that are lowered as formulas of others, and the parts of such formulas.

    logit = composed("logit", lambda x: log(div(x, sub(1, x))), lambda t, y, x: div(t, mul(x, sub(1, x))))

A formula is computed in float32 or float64 and its result cast once, so it needs no care for narrower dtypes. It is not
differentiated: each derivative is stated. Read next: `gamma.py`, `logarithmic.py`, `fitted.py`, which are made of it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import config
from didax.core.array_ops import Zero, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.jaxpr import Jaxpr
from didax.primitives.call import jit_p
from didax.primitives.control_flow.while_loop import while_of, while_p
from didax.primitives.elementwise import (
    add,
    and_,
    exp,
    expm1,
    gt,
    is_finite,
    log,
    log1p,
    lt,
    mul,
    ne,
    neg,
    not_,
    or_,
)
from didax.primitives.families import Elementwise
from didax.primitives.narrow import halves_in_float32, in_float64
from didax.primitives.reductions import reduce_or_p
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim
from didax.transforms.jet import jet_flat
from didax.transforms.jvp import Forward, jvp_flat
from didax.transforms.rewriting import trace_closed
from didax.xla.lowering import lower_function

Formula = Callable[..., Any]


def composed(
    name: str,
    function: Callable[..., Any],
    *jvp: Any,
    eager: Any = None,
    accepts: str = "f",
    series: Formula | None = None,
    of_numbers: Formula | None = None,
) -> Elementwise:
    """An elementwise operation that is lowered as `function`; `jvp` has a rule for each operand.

    `function` is given integers as they are, and floats of at least float32. Its result is cast to the dtype of the
    operands. The same holds for the rules of `jvp`, but not if there is a NumPy rule (`eager`): then each rule of `jvp`
    is a single operation. Power series are those of the rules, or of the formula `series`. `of_numbers` is given what
    is known of the operands when a program is compiled, numbers or None; it returns a shorter formula for those, or
    None.
    """
    if series is not None:
        return _Expanded(name, function, jvp, series)
    rules = jvp if eager is not None else list(map(halves_in_float32, jvp))
    lower = _lowering(halves_in_float32(function), of_numbers)
    return Elementwise(name, len(jvp), hlo=name, eager=eager, accepts=accepts, jvp=rules, lower=lower)


def _lowering(function: Formula, of_numbers: Formula | None = None) -> Callable[..., Any]:
    def lower(ctx: Any, *xs: Any) -> Any:
        shorter = None if of_numbers is None else of_numbers(*[x.constant for x in xs])
        return lower_function(ctx, halves_in_float32(shorter) if shorter else function, xs)[0]

    return lower


class _Expanded(Elementwise):
    """An operation that is `composed`, whose power series are those of a formula.

    By its rules, a series would be made of derivatives of all orders by all operands, each of them a formula.
    """

    pushes_programs = True

    def __init__(self, name: str, function: Formula, jvp: Sequence[Formula], series: Formula):
        lower, rules = _lowering(halves_in_float32(function)), list(map(halves_in_float32, jvp))
        super().__init__(name, len(jvp), hlo=name, eager=None, accepts="f", jvp=rules, lower=lower)
        self.function = halves_in_float32(series)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, forward: Forward | None = None) -> Any:
        if forward is None:
            return super().jvp(primals, tangents)
        return pushed_forward(self.function, primals, tangents, forward)


def pushed_forward(
    function: Formula, primals: Sequence[Any], tangents: Sequence[Any], forward: Forward
) -> Any:
    """The power series of a formula, whose program is remembered."""
    jaxpr = _program(function, tuple(map(aval_of, primals)), config.state())
    return jit_p.jvp(primals, tangents, jaxpr=jaxpr, forward=forward)


@functools.lru_cache(maxsize=256)
def _program(function: Formula, avals: tuple[ShapedArray, ...], options: config.State) -> Jaxpr:
    return trace_closed(lambda *xs: [function(*xs)], avals, what="jet")


def like(value: float, x: Any) -> Any:
    """The constant as an array of the type of `x`."""
    return broadcast_in_dim(scalar_like(float(value), aval_of(x).dtype), aval_of(x).shape, ())


@functools.cache
def gauss_legendre(count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The points and weights of Gauss's quadrature over [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return (points + 1) / 2, weights / 2


def slope_of(function: Callable[..., Any], i: int) -> Callable[..., Any]:
    """The derivative by operand `i` of a formula of arrays of one type, in forward mode; NaN where the formula is NaN.

    Where a formula chooses constants, at poles and other edges, the derivative is 0.
    """

    def slope(*xs: Any) -> Any:
        along = [like(1, x) if k == i else Zero(aval_of(x)) for k, x in enumerate(xs)]
        (y,), (y_dot,) = jvp_flat(lambda *xs: [function(*xs)], xs, along)
        return where(ne(y, y), y, instantiate(y_dot))

    return slope


def slopes(parameters: str, first: Callable[[str], Formula]) -> Callable[[str], Formula]:
    """Formulas of derivatives by parameters: `first("b")` is that by `b`, and those of higher order are its slopes.

    Each order loses digits, so slopes are computed in float64.
    """

    @functools.cache
    def formula(by: str) -> Formula:
        value = first(by[0])
        return value if len(by) == 1 else in_float64(higher_slope_of(value, parameters, by[1:]))

    return formula


def higher_slope_of(function: Formula, parameters: str, by: str) -> Formula:
    """The derivative of a formula by each of the letters of `by`, as `slope_of` has it.

    Those by one parameter are coefficients of one series: nested slopes would double the formula each.
    """
    for letter in dict.fromkeys(by):
        function = _repeated_slope_of(function, parameters.index(letter), by.count(letter))
    return function


def _repeated_slope_of(function: Formula, i: int, order: int) -> Formula:
    if order == 1:
        return slope_of(function, i)

    def slope(*xs: Any) -> Any:
        rest: list[Any] = [Zero(aval_of(xs[i]))] * (order - 1)
        along = [[like(1, x), *rest] if k == i else [] for k, x in enumerate(xs)]
        (y,), (coefficients,) = jet_flat(lambda *xs: [function(*xs)], xs, along, order)
        return where(ne(y, y), y, mul(instantiate(coefficients[-1]), math.factorial(order)))

    return slope


def derivatives(
    name: str,
    parameters: str,
    formula: Callable[[str], Formula],
    by_last: Formula,
    expanded: Callable[[Formula], Formula] = lambda formula: formula,
) -> Callable[[str], Elementwise]:
    """The derivatives of an operation by its operands but the last one, as operations made when they are asked for.

    `derivatives("f_grad", "ab", ...)("aab")` is f_grad_aab, the derivative by `a` twice and by `b`, lowered as
    `formula("aab")`. `by_last` is the derivative of the operation by its last operand, a function of all operands whose
    derivatives by the parameters are known: they are those by the last operand of what is made. Power series are those
    of the formulas, or of what `expanded` makes of them.
    """

    @functools.cache
    def by_last_and(by: str) -> Formula:
        return higher_slope_of(by_last, parameters, by)

    @functools.cache
    def derivative(by: str) -> Elementwise:
        def rule(further: str) -> Formula:
            return lambda t, y, *xs: mul(t, derivative("".join(sorted(by + further)))(*xs))

        rule_by_last = lambda t, y, *xs: mul(t, by_last_and(by)(*xs))
        value = formula(by)
        return _Expanded(f"{name}_{by}", value, [*map(rule, parameters), rule_by_last], expanded(value))

    return derivative


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """c0 + c1 x + c2 x^2 + ..., by Horner's scheme."""
    total = like(coefficients[-1], x)
    for c in coefficients[-2::-1]:
        total = add(mul(total, x), c) if c else mul(total, x)
    return total


def iterate(step: Callable[[Any], Any], moves: Callable[[Any], Any], start: Any) -> Any:
    """Apply `step` to a named tuple of arrays, as long as any element `moves`; its first field is the number of steps.

    An element that has arrived stays as it is. Further steps would let rounding errors add up in it, so that its value
    would depend on the other elements.
    """
    state = type(start)
    first = aval_of(start[1])
    axes = tuple(range(first.ndim))
    # Several times the most that were seen, so that the loop ends.
    most = 6e3 if first.dtype == np.float32 else 6e4

    def goes_on(*args: Any) -> Any:
        s = state(*args)
        return reduce_or_p.bind(and_(moves(s), lt(s.n, most)), axes=axes)

    def body(*args: Any) -> list[Any]:
        old = state(*args)
        new, moving = step(old), moves(old)
        return [add(old[0], 1), *[where(moving, y, x) for x, y in zip(old[1:], new[1:], strict=True)]]

    return state(*while_of(while_p.run, goes_on, body, [scalar_like(0.0, first.dtype), *start[1:]]))


def repeat(
    step: Callable[[Any, Any], Any],
    start: Any,
    goes_on: Callable[[Any], Any],
    further: Any = None,
    most: int = 0,
) -> Any:
    """Apply `step(k, x)` for k = 0, 1, ... while `goes_on(k)`, or while k < `most` if an element must go `further`."""
    dtype = aval_of(start).dtype

    def holds(k: Any, _: Any) -> Any:
        if further is None:
            return goes_on(k)
        any_further = reduce_or_p.bind(further, axes=tuple(range(aval_of(further).ndim)))
        return or_(goes_on(k), and_(any_further, lt(k, most)))

    return while_of(
        while_p.run, holds, lambda k, x: [add(k, 1), step(k, x)], [scalar_like(0.0, dtype), start]
    )[1]


def log_of_rest(log_share: Any) -> Any:
    """log(1 - exp(x)) for x <= 0."""
    near = gt(log_share, -math.log(2))
    return where(near, log(neg(expm1(log_share))), log1p(neg(exp(log_share))))


def where_needed(needed: Any, value: Any, otherwise: Callable[..., Any], *xs: Any) -> Any:
    """`value`, but `otherwise(*xs)` at the elements where it is `needed`; it is computed only if there is one.

    This is a loop of at most one step. The step changes `xs`, because XLA moves out of a loop what does not change.
    """
    any_needed = reduce_or_p.bind(needed, axes=tuple(range(aval_of(value).ndim)))

    def body(goes_on: Any, value: Any, *xs: Any) -> list[Any]:
        return [
            and_(goes_on, not_(goes_on)),
            where(needed, otherwise(*xs), value),
            *[like(1, x) for x in xs],
        ]

    return while_of(while_p.run, lambda goes_on, *_: goes_on, body, [any_needed, value, *xs])[1]


def where_usable(value: Any, otherwise: Callable[..., Any], *xs: Any) -> Any:
    """`value`, but `otherwise(*xs)` at the elements where `value` is 0, infinite or NaN."""
    return where_needed(not_(and_(is_finite(value), ne(value, 0))), value, otherwise, *xs)
