"""Hypergeometric functions of real numbers, by their power series.

    hyp1f1(a, b, x)     = sum of (a)_k / (b)_k x^k / k!            Kummer's M(a, b, x), DLMF 13.2.2
    hyp2f1(a, b, c, x)  = sum of (a)_k (b)_k / (c)_k x^k / k!      Gauss's F(a, b; c; x), DLMF 15.2.1

The series are summed with their derivatives by the parameters, until no element changes. Transformations (DLMF 13.2.39,
15.8.1) bring the argument where terms fall fast and do not cancel. Beyond large arguments of hyp1f1 its asymptotic
series (13.7) is used; near 1 hyp2f1 is continued by Taylor's series. Where the terms of a sum cancel all the same, the
result is NaN. Everything is computed in float64, as float32 would lose all digits for ordinary arguments. Derivatives
by x are again hypergeometric; of those by parameters the sums are differentiated further, to any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from didax.core import dtypes
from didax.core.avals import aval_of
from didax.primitives.composed import composed, derivatives, iterate, like, slope_of, slopes, where_needed
from didax.primitives.control_flow.while_loop import while_of, while_p
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
    is_finite,
    le,
    log,
    log1p,
    lt,
    max_,
    min_,
    mul,
    ne,
    neg,
    not_,
    or_,
    rem,
    sub,
)
from didax.primitives.gamma import lgamma
from didax.primitives.gamma_quotients import poch
from didax.primitives.narrow import in_float64
from didax.primitives.reductions import reduce_or_p
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where


class _Sum(NamedTuple):
    n: Any
    term: Any
    total: Any
    slope: Any  # of the term by a parameter
    slopes: Any
    peak: Any  # the largest term
    bound: Any  # what the term would be, were no factor near 0


def _sum(x: Any, ratio: Callable[[Any], tuple[Any, Any, Any]]) -> tuple[Any, Any]:
    """1 + t_1 + t_2 + ..., with t_(k+1) = t_k r_k x, and its derivative.

    `ratio(k)` gives r_k, its derivative, and a bound of |r_k| by which it is seen that the sum has arrived: where a
    factor of r_k is 0, all later terms are, but not their derivatives. NaN where the sum does not end, or is what
    rounding errors of far larger terms have left.
    """
    zero, one = like(0, x), like(1, x)
    eps = 0.5 * float(dtypes.finfo(aval_of(x).dtype).eps)

    def step(s: _Sum) -> _Sum:
        r, r_dot, size = ratio(s.n)
        factor = mul(r, x)
        slope = add(mul(s.slope, factor), mul(s.term, mul(r_dot, x)))
        term = mul(s.term, factor)
        total, slopes = add(s.total, term), add(s.slopes, slope)
        peak, bound = max_(s.peak, abs_(term)), mul(s.bound, abs_(mul(size, x)))
        return _Sum(add(s.n, 1), term, total, slope, slopes, peak, bound)

    def moves(s: _Sum) -> Any:
        small = le(s.bound, mul(abs_(s.total), eps))
        small_slope = le(abs_(s.slope), mul(add(abs_(s.slopes), abs_(s.total)), eps))
        goes_on = or_(not_(and_(small, small_slope)), lt(s.n, 2))
        return and_(goes_on, and_(lt(abs_(s.total), math.inf), lt(abs_(s.slopes), math.inf)))

    last = iterate(step, moves, _Sum(0, one, one, zero, zero, one, one))
    unknown = or_(_is_lost(last, eps), moves(last))
    return where(unknown, like(math.nan, x), last.total), where(unknown, like(math.nan, x), last.slopes)


def _is_lost(s: Any, eps: float) -> Any:
    """Whether the sum is what rounding errors of far larger terms have left."""
    return and_(gt(s.peak, 1e3), gt(mul(s.peak, 1e4 * eps), abs_(s.total)))


class _Plain(NamedTuple):
    n: Any
    term: Any
    total: Any
    peak: Any  # the largest term


_AT_ONCE = 4  # terms that are added before an element is asked whether its sum has arrived


def _plain_sum(x: Any, ratio: Callable[[Any], Any]) -> Any:
    """The sum of the series without its derivative."""
    one = like(1, x)
    eps = 0.5 * float(dtypes.finfo(aval_of(x).dtype).eps)

    def step(s: _Plain) -> _Plain:
        n, term, total, peak = s
        for k in range(_AT_ONCE):
            term = mul(term, mul(ratio(add(mul(n, _AT_ONCE), k)), x))
            total, peak = add(total, term), max_(peak, abs_(term))
        return _Plain(n, term, total, peak)

    def moves(s: _Plain) -> Any:
        size = abs_(s.total)
        return and_(not_(le(abs_(s.term), mul(size, eps))), lt(size, math.inf))

    last = iterate(step, moves, _Plain(0, one, one, one))
    return where(or_(_is_lost(last, eps), moves(last)), like(math.nan, x), last.total)


def _not_small(factor: Any) -> Any:
    return max_(abs_(factor), like(1, factor))


def _not_zero(factor: Any) -> Any:
    return where(eq(factor, 0), like(1, factor), factor)


def _is_pole(b: Any) -> Any:
    return and_(le(b, 0), eq(b, floor(b)))


def _sign_of_gamma(x: Any) -> Any:
    odd = ne(rem(floor(x), 2), 0)
    return where(and_(lt(x, 0), odd), like(-1, x), like(1, x))


def _gamma_ratio(above: list[Any], below: list[Any]) -> Any:
    """The product of gamma functions `above` over the product of those `below`; 0 at a pole of one below."""
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


def _kummer_series(a: Any, b: Any, x: Any) -> Any:
    """A polynomial ends before b + k is 0, but terms after its end, which are 0, are added as well."""

    return _plain_sum(x, lambda k: div(add(a, k), mul(_not_zero(add(b, k)), add(k, 1))))


def _kummer_slopes(a: Any, b: Any, x: Any, along: Callable[[Any], Any]) -> Any:
    """The derivative of the sum; `along(k)` is the derivative of (a + k) / (b + k), times b + k."""

    def ratio(k: Any) -> tuple[Any, Any, Any]:
        above, by_parameter, below = add(a, k), along(k), mul(add(b, k), add(k, 1))
        ends = and_(eq(above, 0), eq(by_parameter, 0))  # all later terms are 0, and so are their derivatives
        size = where(ends, above, _not_small(above))
        return div(above, below), div(by_parameter, below), div(size, below)

    return _sum(x, ratio)[1]


def _hyp1f1(a: Any, b: Any, x: Any) -> Any:
    one = like(1, x)
    polynomial = _is_pole(a)
    pole = and_(_is_pole(b), not_(and_(polynomial, ge(a, b))))
    ends = or_(polynomial, and_(_is_pole(sub(b, a)), lt(x, 0)))  # a series of few terms, once it is flipped
    far = and_(and_(_is_far(a, b, x), not_(ends)), not_(pole))
    bad = or_(or_(pole, far), not_(lt(abs_(x), math.inf)))
    flip = and_(lt(x, 0), not_(polynomial))
    safe_b, safe_x = where(bad, one, b), where(bad, like(0, x), x)
    first, argument = where(flip, sub(safe_b, a), a), where(flip, neg(safe_x), safe_x)
    total = _kummer_series(first, safe_b, argument)
    root = exp(mul(safe_x, 0.5))  # which does not vanish where the product with the large sum does not
    near = where(flip, mul(mul(total, root), root), total)
    value = where_needed(far, near, _kummer_far, a, where(pole, one, b), where(far, x, like(100, x)))
    value = where(pole, like(math.inf, x), value)
    return where(or_(or_(ne(a, a), ne(b, b)), ne(x, x)), like(math.nan, x), value)


def _is_far(a: Any, b: Any, x: Any) -> Any:
    """Whether the asymptotic series gives all digits of the result."""
    return gt(abs_(x), add(50, mul(2, add(mul(a, a), mul(b, b)))))


def _kummer_far(a: Any, b: Any, x: Any) -> Any:
    """gamma(b) / gamma(a) exp(x) x^(a-b) for large x, gamma(b) / gamma(b-a) (-x)^-a for large -x, with their series."""
    size, negative = abs_(x), lt(x, 0)
    c = sub(b, a)
    first, second = where(negative, a, c), where(negative, c, a)
    total = _far_sum(first, sub(1, second), size)
    power = sub(max_(x, like(0, x)), mul(first, log(size)))
    scale = poch(second, first)
    root = exp(mul(power, 0.5))  # which overflows later than the power
    return mul(mul(mul(scale, root), root), total)


class _Far(NamedTuple):
    n: Any
    term: Any
    following: Any
    total: Any


def _far_sum(a: Any, b: Any, x: Any) -> Any:
    """The sum of (a)_k (b)_k / (k! x^k) up to its smallest term, from which on it diverges."""
    inverse = div(1, x)
    share = mul(b, inverse)

    def step(s: _Far) -> _Far:
        n = add(s.n, 1)
        factor = div(add(share, mul(inverse, n)), add(n, 1))
        following = mul(mul(s.following, add(a, n)), factor)
        return _Far(n, s.following, following, add(s.total, s.following))

    def moves(s: _Far) -> Any:
        return and_(lt(s.n, 30), le(abs_(s.following), abs_(s.term)))

    one = like(1, x)
    return iterate(step, moves, _Far(0, one, mul(a, share), one)).total


def _kummer_slope(by: str) -> Callable[[Any, Any, Any], Any]:
    """The derivative by a parameter. With x < 0, M = exp(x) M(b - a, b, -x).

    Where `a` is a pole, M has few terms, and so has its derivative by b; that by a has terms without end.
    """

    def slope(a: Any, b: Any, x: Any) -> Any:
        far = and_(and_(lt(x, 0), _is_far(a, b, x)), gt(x, -math.inf))
        within = [where(far, like(y, x), z) for y, z in ((1, a), (2, b), (0, x))]
        beyond = [where(far, z, like(y, x)) for y, z in ((1, a), (2, b), (-100, x))]
        return where(far, slope_of(_kummer_far, "ab".index(by))(*beyond), near(*within))

    def near(a: Any, b: Any, x: Any) -> Any:
        flip = lt(x, 0) if by == "a" else and_(lt(x, 0), not_(_is_pole(a)))
        first, argument = where(flip, sub(b, a), a), where(flip, neg(x), x)
        if by == "a":
            by_a = _kummer_slopes(first, b, argument, lambda k: like(1, x))
            return where(flip, neg(mul(by_a, exp(x))), by_a)
        # Flipped, the factor is (b - a + k) / (b + k) = 1 - a / (b + k). Its derivative by b vanishes with `a`; the sum
        # of the derivatives by each parameter would not, because of rounding errors.
        by_b = _kummer_slopes(first, b, argument, lambda k: div(where(flip, a, neg(add(a, k))), add(b, k)))
        return where(flip, mul(by_b, exp(x)), by_b)

    return slope


def _nothing(factor: Any, value: Any) -> Any:
    return and_(eq(factor, 0), not_(is_finite(value)))


# The product, and 0 where the factor is 0: the function is constant there, even where the value has overflowed.
times_unless_zero = composed(
    "times_unless_zero",
    lambda factor, value: mul(factor, where(_nothing(factor, value), like(0, factor), value)),
    lambda t, y, factor, value: mul(t, value),
    lambda t, y, factor, value: mul(factor, where(_nothing(factor, value), like(0, factor), t)),
)


def _hyp1f1_by_x(a: Any, b: Any, x: Any) -> Any:
    return times_unless_zero(div(a, b), hyp1f1(add(a, 1), add(b, 1), x))


_hyp1f1_grad = derivatives(
    "hyp1f1_grad", "ab", slopes("ab", lambda by: in_float64(_kummer_slope(by))), _hyp1f1_by_x
)
hyp1f1_grad_a, hyp1f1_grad_b = map(_hyp1f1_grad, "ab")
hyp1f1_grad_aa, hyp1f1_grad_ab, hyp1f1_grad_bb = map(_hyp1f1_grad, ("aa", "ab", "bb"))
hyp1f1 = composed(
    "hyp1f1",
    in_float64(_hyp1f1),
    lambda t, y, a, b, x: mul(t, hyp1f1_grad_a(a, b, x)),
    lambda t, y, a, b, x: mul(t, hyp1f1_grad_b(a, b, x)),
    lambda t, y, a, b, x: mul(t, _hyp1f1_by_x(a, b, x)),
)

# --- Gauss's function ---------------------------------------------------------------------------------------


def _gauss_series(
    a: Any, b: Any, c: Any, x: Any, along: Callable[[Any], Any] | None = None
) -> tuple[Any, Any]:
    """The sum, and its derivative; `along(k)` is the derivative of (b + k) / (c + k), times c + k."""

    def ratio(k: Any) -> tuple[Any, Any, Any]:
        # A polynomial ends before c + k is 0, but a term after its end, which is 0, may be added as well.
        growing = add(c, k) if along else _not_zero(add(c, k))
        below, first = mul(growing, add(k, 1)), add(a, k)
        r, slope = (
            div(mul(first, add(b, k)), below),
            like(0, x) if along is None else div(mul(first, along(k)), below),
        )
        return r, slope, div(mul(_not_small(first), _not_small(add(b, k))), below) if along else r

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


def _degree(a: Any, b: Any) -> Any:
    """The degree of the polynomial that the series of such parameters is, or infinity."""
    endless = like(math.inf, a)
    return min_(where(_is_pole(a), neg(a), endless), where(_is_pole(b), neg(b), endless))


def _gauss_inside(a: Any, b: Any, c: Any, x: Any, polynomial: Any) -> Any:
    """F(a, b; c; x) for x < 1, and for all x where the series ends."""
    one, zero = like(1, x), like(0, x)
    turned = and_(lt(x, 0), not_(polynomial))  # F = (1 - x)^-a F(a, c - b; c; x / (x - 1))
    a, b = max_(a, b), min_(a, b)  # of the two ways to turn it, the one with fewer changes of sign
    safe = where(turned, x, zero)
    argument = where(turned, div(x, sub(safe, 1)), x)
    rest = where(turned, div(1, sub(1, safe)), sub(1, x))  # 1 less the argument
    log_factor = where(turned, neg(mul(a, log1p(neg(safe)))), zero)
    b = where(turned, sub(c, b), b)
    # F = (1 - x)^(c - a - b) F(c - a, c - b; c; x), where this is the shorter polynomial, or the only one. For a c that
    # is a pole F is a polynomial by its definition, for which this does not hold.
    shorter = and_(lt(_degree(sub(c, a), sub(c, b)), _degree(a, b)), and_(gt(rest, 0), not_(_is_pole(c))))
    log_rest = log(where(shorter, rest, one))
    log_factor = where(shorter, add(log_factor, mul(sub(sub(c, a), b), log_rest)), log_factor)
    a, b = where(shorter, sub(c, a), a), where(shorter, sub(c, b), b)
    near = and_(gt(argument, 0.9), eq(_degree(a, b), math.inf))
    start = where(near, like(_NEAR_ONE, x), argument)
    value, _ = _gauss_series(a, b, c, start)
    next_value, _ = _gauss_series(add(a, 1), add(b, 1), add(c, 1), where(near, start, zero))
    slope = mul(div(mul(a, b), c), next_value)
    value = where(near, _continued(a, b, c, rest, near, value, slope), value)
    return where(or_(turned, shorter), mul(value, exp(log_factor)), value)


class _Continued(NamedTuple):
    n: Any
    rest: Any  # 1 less the point
    value: Any
    slope: Any


_NEAR_ONE = 0.75


def _continued(a: Any, b: Any, c: Any, rest: Any, used: Any, value: Any, slope: Any) -> Any:
    """F(a, b; c; 1 - rest) from its value and slope at 0.75, by Taylor's series over half of the distance to 1 each.

    With the coefficients f_n about a point p, and q = 1 - p, the differential equation (DLMF 15.10.1) says
    p q (n + 1) (n + 2) f_(n+2) = (n + a) (n + b) f_n - (n + 1) ((q - p) n + c - (a + b + 1) p) f_(n+1).
    """
    axes = tuple(range(aval_of(rest).ndim))
    eps = float(dtypes.finfo(aval_of(rest).dtype).eps)
    rest = where(used, rest, like(1 - _NEAR_ONE, rest))

    def step(s: _Continued) -> _Continued:
        q, p = s.rest, sub(1, s.rest)
        end = max_(mul(q, 0.5), rest)
        way = sub(q, end)
        share = div(way, mul(p, q))

        def goes_on(n: Any, before: Any, last: Any, total: Any, slopes: Any) -> Any:
            matters = gt(add(abs_(before), abs_(last)), mul(abs_(total), 0.1 * eps))
            return and_(lt(n, 500), reduce_or_p.bind(matters, axes=axes))

        def body(n: Any, before: Any, last: Any, total: Any, slopes: Any) -> list[Any]:
            first = mul(mul(mul(add(a, n), add(b, n)), div(way, mul(add(n, 1), add(n, 2)))), before)
            bend = add(mul(sub(q, p), n), sub(c, mul(add(add(a, b), 1), p)))
            new = mul(sub(first, mul(div(bend, add(n, 2)), last)), share)
            return [add(n, 1), last, new, add(total, new), add(slopes, mul(add(n, 2), new))]

        linear = mul(s.slope, way)
        begin = [scalar_like(0.0, aval_of(q).dtype), s.value, linear, add(s.value, linear), linear]
        _, _, _, total, slopes = while_of(while_p.run, goes_on, body, begin)
        moved = gt(way, 0)
        by_way = div(slopes, where(moved, way, like(1, way)))
        return _Continued(add(s.n, 1), end, where(moved, total, s.value), where(moved, by_way, s.slope))

    start = _Continued(0, like(1 - _NEAR_ONE, rest), value, slope)
    return iterate(step, lambda s: gt(s.rest, rest), start).value


def _gauss_slope(by: str) -> Callable[[Any, Any, Any, Any], Any]:
    """The derivative by a parameter, by the series, which needs |x| < 1 or, after Pfaff's transformation, x < 1/2."""

    def slope(a: Any, b: Any, c: Any, x: Any) -> Any:
        if by == "a":
            a, b = b, a
        zero = like(0, x)
        turned = lt(x, 0)
        safe = where(turned, x, zero)
        argument = where(turned, div(safe, sub(safe, 1)), x)
        valid = lt(argument, 1)
        argument = where(valid, argument, zero)
        second = where(turned, sub(c, b), b)

        # Turned, the factor is (c - b + k) / (c + k) = 1 - b / (c + k). Its derivative by c vanishes with `b`; the sum
        # of the derivatives of numerator and denominator would not, because of rounding errors.
        def along(k: Any) -> Any:
            if by == "c":
                return div(where(turned, b, neg(add(b, k))), add(c, k))
            return where(turned, like(-1, x), like(1, x))

        _, found = _gauss_series(a, second, c, argument, along)
        found = where(turned, mul(found, exp(neg(mul(a, log1p(neg(safe)))))), found)
        return where(valid, found, like(math.nan, x))

    return slope


def _hyp2f1_by_x(a: Any, b: Any, c: Any, x: Any) -> Any:
    return times_unless_zero(div(mul(a, b), c), hyp2f1(add(a, 1), add(b, 1), add(c, 1), x))


_hyp2f1_grad = derivatives(
    "hyp2f1_grad", "abc", slopes("abc", lambda by: in_float64(_gauss_slope(by))), _hyp2f1_by_x
)
hyp2f1_grad_a, hyp2f1_grad_b, hyp2f1_grad_c = map(_hyp2f1_grad, "abc")
hyp2f1_grad_aa, hyp2f1_grad_ab, hyp2f1_grad_ac, hyp2f1_grad_bb, hyp2f1_grad_bc, hyp2f1_grad_cc = map(
    _hyp2f1_grad, ("aa", "ab", "ac", "bb", "bc", "cc")
)
hyp2f1 = composed(
    "hyp2f1",
    in_float64(_hyp2f1),
    lambda t, y, a, b, c, x: mul(t, hyp2f1_grad_a(a, b, c, x)),
    lambda t, y, a, b, c, x: mul(t, hyp2f1_grad_b(a, b, c, x)),
    lambda t, y, a, b, c, x: mul(t, hyp2f1_grad_c(a, b, c, x)),
    lambda t, y, a, b, c, x: mul(t, _hyp2f1_by_x(a, b, c, x)),
)
