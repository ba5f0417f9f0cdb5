"""Hypergeometric functions of real numbers, by their power series.

    hyp1f1(a, b, x)     = sum of (a)_k / (b)_k x^k / k!            Kummer's M(a, b, x), DLMF 13.2.2
    hyp2f1(a, b, c, x)  = sum of (a)_k (b)_k / (c)_k x^k / k!      Gauss's F(a, b; c; x), DLMF 15.2.1

The series are summed with their derivatives by the parameters, until no element changes. Transformations (DLMF 13.2.39,
15.8.1, 15.8.4) bring the argument where terms fall fast and do not cancel. Beyond large arguments of hyp1f1 its
asymptotic series (13.7) is used. Derivatives by x are again hypergeometric; those by parameters can be
differentiated by nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from didax.core import dtypes
from didax.core.avals import aval_of
from didax.primitives.composed import composed, iterate, like
from didax.primitives.elementwise import (
    abs_,
    add,
    and_,
    div,
    eq,
    exp,
    floor,
    ge,
    gt,
    le,
    log,
    log1p,
    lt,
    max_,
    min_,
    mul,
    ne,
    neg,
    no_derivative,
    not_,
    or_,
    rem,
    sub,
)
from didax.primitives.gamma import lgamma
from didax.primitives.select import where


class _Sum(NamedTuple):
    n: Any
    term: Any
    total: Any
    slope: Any  # of the term by a parameter
    slopes: Any


def _sum(x: Any, ratio: Callable[[Any], tuple[Any, Any]]) -> tuple[Any, Any]:
    """1 + t_1 + t_2 + ..., with t_(k+1) = t_k r_k x, and its derivative; `ratio(k)` gives r_k and its derivative."""
    zero, one = like(0, x), like(1, x)
    eps = 0.5 * float(dtypes.finfo(aval_of(x).dtype).eps)

    def step(s: _Sum) -> _Sum:
        r, r_dot = ratio(s.n)
        factor = mul(r, x)
        slope = add(mul(s.slope, factor), mul(s.term, mul(r_dot, x)))
        term = mul(s.term, factor)
        term, slope = [where(lt(abs_(y), math.inf), y, zero) for y in (term, slope)]
        total, slopes = add(s.total, term), add(s.slopes, slope)
        return _Sum(add(s.n, 1), term, total, slope, slopes)

    def moves(s: _Sum) -> Any:
        small = le(abs_(s.term), mul(abs_(s.total), eps))
        small_slope = le(abs_(s.slope), mul(add(abs_(s.slopes), abs_(s.total)), eps))
        return or_(not_(and_(small, small_slope)), lt(s.n, 2))

    last = iterate(step, moves, _Sum(zero, one, one, zero, zero))
    return last.total, last.slopes


def _is_pole(b: Any) -> Any:
    return and_(le(b, 0), eq(b, floor(b)))


def _sign_of_gamma(x: Any) -> Any:
    odd = ne(rem(floor(x), 2), 0)
    return where(and_(lt(x, 0), odd), like(-1, x), like(1, x))


def _gamma_ratio(above: list[Any], below: list[Any]) -> Any:
    """The product of gamma functions over that of others; 0 at a pole of one below."""
    log_size, sign = like(0, above[0]), like(1, above[0])
    zero = eq(above[0], math.inf)
    for x, add_or_sub in [*[(x, add) for x in above], *[(x, sub) for x in below]]:
        pole = _is_pole(x)
        safe = where(pole, like(1, x), x)
        log_size, sign = add_or_sub(log_size, lgamma(safe)), mul(sign, _sign_of_gamma(safe))
        if add_or_sub is sub:
            zero = or_(zero, pole)
    return where(zero, like(0, log_size), mul(sign, exp(log_size)))


# --- Kummer's function --------------------------------------------------------------------------------------


def _kummer_series(a: Any, b: Any, x: Any, by: str) -> tuple[Any, Any]:
    def ratio(k: Any) -> tuple[Any, Any]:
        below = mul(add(b, k), add(k, 1))
        r = div(add(a, k), below)
        return r, div(1, below) if by == "a" else neg(div(r, add(b, k)))

    return _sum(x, ratio)


def _hyp1f1(a: Any, b: Any, x: Any) -> Any:
    one = like(1, x)
    polynomial = _is_pole(a)
    pole = and_(_is_pole(b), not_(and_(polynomial, gt(a, b))))
    far = and_(and_(gt(abs_(x), add(50, mul(2, add(mul(a, a), mul(b, b))))), not_(polynomial)), not_(pole))
    bad = or_(or_(pole, far), not_(lt(abs_(x), math.inf)))
    flip = and_(lt(x, 0), not_(polynomial))
    safe_b, safe_x = where(bad, one, b), where(bad, like(0, x), x)
    first, argument = where(flip, sub(safe_b, a), a), where(flip, neg(safe_x), safe_x)
    total, _ = _kummer_series(first, safe_b, argument, "a")
    root = exp(mul(safe_x, 0.5))  # which does not vanish where the product with the large sum does not
    near = where(flip, mul(mul(total, root), root), total)
    far_b = where(pole, one, b)
    value = where(far, _kummer_far(a, far_b, where(far, x, like(100, x))), near)
    value = where(pole, like(math.inf, x), value)
    return where(or_(or_(ne(a, a), ne(b, b)), ne(x, x)), like(math.nan, x), value)


def _kummer_far(a: Any, b: Any, x: Any) -> Any:
    """gamma(b) / gamma(a) exp(x) x^(a-b) for large x, gamma(b) / gamma(b-a) (-x)^-a for large -x, with their series."""
    size, negative = abs_(x), lt(x, 0)
    c, other = sub(b, a), sub(add(a, 1), b)
    first, second = where(negative, a, c), where(negative, other, sub(1, a))
    total, term = like(1, x), like(1, x)
    growing = like(0, x)
    for k in range(30):
        new = mul(term, div(mul(add(first, k), add(second, k)), mul(size, k + 1)))
        growing = where(
            ge(abs_(new), abs_(term)), like(1, x), growing
        )  # from its smallest term on it diverges
        term = where(eq(growing, 1), like(0, x), new)
        total = add(total, term)
    power = where(negative, mul(neg(a), log(size)), add(x, mul(sub(a, b), log(size))))
    scale = where(negative, _gamma_ratio([b], [c]), _gamma_ratio([b], [a]))
    return mul(mul(scale, exp(power)), total)


def _kummer_slope(by: str) -> Callable[[Any, Any, Any], Any]:
    """The derivative by a parameter. With x < 0, M = exp(x) M(b - a, b, -x)."""

    def slope(a: Any, b: Any, x: Any) -> Any:
        flip = and_(lt(x, 0), not_(_is_pole(a)))
        first, argument = where(flip, sub(b, a), a), where(flip, neg(x), x)
        _, by_a = _kummer_series(first, b, argument, "a")
        if by == "a":
            return where(flip, neg(mul(by_a, exp(x))), by_a)
        _, by_b = _kummer_series(first, b, argument, "b")
        return where(flip, mul(add(by_a, by_b), exp(x)), by_b)

    return slope


def _times(factor: Any, value: Any) -> Any:
    """Their product, and 0 where the factor is: the function is constant there, whatever has overflown."""
    nothing = eq(factor, 0)
    return mul(factor, where(nothing, like(1, factor), value))


def _no_second(name: str, arity: int, function: Any) -> Any:
    return composed(name, function, *[no_derivative(name, "parameter")] * arity)


hyp1f1_grad_a = _no_second("hyp1f1_grad_a", 3, _kummer_slope("a"))
hyp1f1_grad_b = _no_second("hyp1f1_grad_b", 3, _kummer_slope("b"))
hyp1f1 = composed(
    "hyp1f1",
    _hyp1f1,
    lambda t, y, a, b, x: mul(t, hyp1f1_grad_a(a, b, x)),
    lambda t, y, a, b, x: mul(t, hyp1f1_grad_b(a, b, x)),
    lambda t, y, a, b, x: mul(t, _times(div(a, b), hyp1f1(add(a, 1), add(b, 1), x))),
)

# --- Gauss's function ---------------------------------------------------------------------------------------


def _gauss_series(a: Any, b: Any, c: Any, x: Any, by: str = "a") -> tuple[Any, Any]:
    def ratio(k: Any) -> tuple[Any, Any]:
        below = mul(add(c, k), add(k, 1))
        r = div(mul(add(a, k), add(b, k)), below)
        slope = {"a": div(add(b, k), below), "b": div(add(a, k), below), "c": neg(div(r, add(c, k)))}[by]
        return r, slope

    return _sum(x, ratio)


def _hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    one, zero = like(1, x), like(0, x)
    polynomial = or_(_is_pole(a), _is_pole(b))
    degree_first = or_(and_(_is_pole(a), gt(a, c)), and_(_is_pole(b), gt(b, c)))
    pole = and_(_is_pole(c), not_(degree_first))
    outside = and_(gt(x, 1), not_(polynomial))
    excess = sub(sub(c, a), b)
    at_one = and_(eq(x, 1), not_(polynomial))
    usual = not_(or_(or_(pole, outside), or_(at_one, not_(lt(abs_(x), math.inf)))))
    inside = _gauss_inside(a, b, where(usual, c, one), where(usual, x, zero), polynomial)
    value_at_one = where(gt(excess, 0), _gamma_ratio([c, excess], [sub(c, a), sub(c, b)]), like(math.inf, x))
    value = where(at_one, value_at_one, inside)
    value = where(or_(pole, outside), like(math.inf, x), value)
    nan = or_(or_(ne(a, a), ne(b, b)), or_(ne(c, c), ne(x, x)))
    return where(nan, like(math.nan, x), value)


def _gauss_inside(a: Any, b: Any, c: Any, x: Any, polynomial: Any) -> Any:
    """For x < 1, or everywhere where the series ends."""
    one, zero = like(1, x), like(0, x)
    turned = and_(lt(x, 0), not_(polynomial))  # F = (1 - x)^-a F(a, c - b; c; x / (x - 1))
    a, b = max_(a, b), min_(a, b)  # of the two ways to turn it the one with fewer changes of sign
    argument = where(turned, div(x, sub(where(turned, x, zero), 1)), x)
    second = where(turned, sub(c, b), b)
    excess = sub(sub(c, a), second)
    distance = abs_(sub(excess, floor(add(excess, 0.5))))
    # near 1 the series in 1 - x is faster; its two halves cancel where c - a - b is nearly whole
    reflected = and_(and_(gt(argument, 0.9), gt(distance, 1e-2)), not_(polynomial))
    direct, _ = _gauss_series(a, second, c, where(reflected, zero, argument))
    rest = where(reflected, sub(1, argument), zero)
    safe_excess = where(reflected, excess, like(0.5, x))
    first_half, _ = _gauss_series(a, second, sub(1, safe_excess), rest)
    last_half, _ = _gauss_series(sub(c, a), sub(c, second), add(safe_excess, 1), rest)
    first_half = mul(first_half, _gamma_ratio([c, safe_excess], [sub(c, a), sub(c, second)]))
    power = exp(mul(safe_excess, log(where(reflected, rest, one))))
    last_half = mul(mul(last_half, power), _gamma_ratio([c, neg(safe_excess)], [a, second]))
    value = where(reflected, add(first_half, last_half), direct)
    return where(turned, mul(value, exp(neg(mul(a, log1p(neg(where(turned, x, zero))))))), value)


def _gauss_slope(by: str) -> Callable[[Any, Any, Any, Any], Any]:
    """The derivative by a parameter, by the series, which needs |x| < 1 or, after Pfaff's transformation, x < 1/2."""

    def slope(a: Any, b: Any, c: Any, x: Any) -> Any:
        zero = like(0, x)
        turned = lt(x, 0)
        safe = where(turned, x, zero)
        argument = where(turned, div(safe, sub(safe, 1)), x)
        valid = lt(argument, 1)
        argument = where(valid, argument, zero)
        second = where(turned, sub(c, b), b)
        value, by_a = _gauss_series(a, second, c, argument, "a")
        _, by_b = _gauss_series(a, second, c, argument, "b")
        log_factor = neg(log1p(neg(safe)))
        if by == "a":
            found = where(turned, add(by_a, mul(value, log_factor)), by_a)
        elif by == "b":
            found = where(turned, neg(by_b), by_b)
        else:
            _, by_c = _gauss_series(a, second, c, argument, "c")
            found = where(turned, add(by_c, by_b), by_c)
        found = where(turned, mul(found, exp(mul(a, log_factor))), found)
        return where(valid, found, like(math.nan, x))

    return slope


hyp2f1_grad_a = _no_second("hyp2f1_grad_a", 4, _gauss_slope("a"))
hyp2f1_grad_b = _no_second("hyp2f1_grad_b", 4, _gauss_slope("b"))
hyp2f1_grad_c = _no_second("hyp2f1_grad_c", 4, _gauss_slope("c"))
hyp2f1 = composed(
    "hyp2f1",
    _hyp2f1,
    lambda t, y, a, b, c, x: mul(t, hyp2f1_grad_a(a, b, c, x)),
    lambda t, y, a, b, c, x: mul(t, hyp2f1_grad_b(a, b, c, x)),
    lambda t, y, a, b, c, x: mul(t, hyp2f1_grad_c(a, b, c, x)),
    lambda t, y, a, b, c, x: mul(t, _times(div(mul(a, b), c), hyp2f1(add(a, 1), add(b, 1), add(c, 1), x))),
)
