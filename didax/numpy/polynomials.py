"""Polynomials as vectors of coefficients, the highest power first: arithmetic, calculus, roots and fits.

Read next: `linalg.py` (which finds roots and fits).
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from didax.api.numpy_functions import Declined, computed_by
from didax.api.results import array_function
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.dims import is_symbolic, max_dim
from didax.core.errors import ArgumentError, message
from didax.core.tracing import Tracer
from didax.core.value import Array
from didax.lax.loops import scan
from didax.numpy import linalg, ufuncs
from didax.numpy.creation import arange, ones, vander, zeros, zeros_like
from didax.numpy.joining import concatenate
from didax.numpy.linear import outer
from didax.numpy.manipulation import atleast_1d, diag, roll
from didax.numpy.padding import pad
from didax.numpy.promotion import (
    ArrayLike,
    as_array,
    beside_wide,
    broadcast,
    broadcast_shapes,
    cast,
    promote_dtypes,
)
from didax.numpy.reductions import argmax
from didax.numpy.reductions import sum as array_sum
from didax.numpy.selection import argsort, where
from didax.numpy.signals import convolve
from didax.primitives.linalg.host import is_finite
from didax.primitives.narrow import halves_in_float32

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots",
]  # fmt: skip


# Steps of a recurrence: longer ones are loops, which compile in the time of one step.
_WRITTEN_OUT_MAX = 8
_SHORT_STEPS_MAX = 32  # of a product and a sum, which XLA takes together
_BY_NUMPY_MAX = 32  # roots; the program of more is faster


def _coefficients(name: str, *args: Any, to_inexact: bool = False, many: bool = False) -> list[Array]:
    """The coefficients as arrays of one dtype: vectors, or with `many` the polynomials along the first axis."""
    xs = [atleast_1d(as_array(name, x, i)) for i, x in enumerate(beside_wide(*args))]
    for x in xs:
        if x.ndim != 1 and not many:
            fix = "Pass one polynomial; vmap over more."
            raise ValueError(message(f"{name} takes vectors of coefficients.", f"got: {x.aval}", fix=fix))
    return [as_array(name, x) for x in promote_dtypes(name, *xs, to_inexact=to_inexact)]


def _strip(x: Array, name: str) -> Array:
    """Return `x` without leading zeros, whose number must be known."""
    if isinstance(x, Tracer):
        raise ValueError(
            message(
                f"{name} drops leading zeros, whose number is not known while tracing.",
                f"coefficients: {x.aval}",
                fix="Leave them: strip_zeros=False, or trim_leading_zeros=False.",
            )
        )
    nonzero = np.flatnonzero(np.asarray(x))
    return x[int(nonzero[0]) if nonzero.size else x.shape[0] :]


@evaluated_whole
@array_function
@halves_in_float32
def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """Return the values of the polynomial, by Horner's scheme; `unroll` is accepted and ignored.

    >>> import didax.numpy as dnp
    >>> dnp.polyval(dnp.array([1, 0, 2]), dnp.array([0, 3]))
    Array([ 2, 11], dtype=int32)
    """
    coefficients, points = [as_array("polyval", y) for y in promote_dtypes("polyval", p, x)]
    shape = broadcast_shapes("polyval", [coefficients.shape[1:], points.shape])
    start = broadcast(cast(0, points.dtype, points.weak_type and coefficients.weak_type), shape)
    if is_symbolic(coefficients.shape[0]) or coefficients.shape[0] > _SHORT_STEPS_MAX:
        return scan(lambda y, c: (y * points + c, None), start, coefficients)[0]
    return functools.reduce(lambda y, c: y * points + c, coefficients, start)


@evaluated_whole
@array_function
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the sum of two polynomials, or of polynomials whose coefficients are along the first axis.

    The shorter operand broadcasts to the last rows of the longer one.

    >>> import didax.numpy as dnp
    >>> dnp.polyadd(dnp.array([1, 2]), dnp.array([5]))
    Array([1, 7], dtype=int32)
    """
    x, y = _coefficients("polyadd", a1, a2, many=True)
    if x.ndim > 1 or y.ndim > 1:
        short, long = (y, x) if y.shape[0] <= x.shape[0] else (x, y)
        return long.at[long.shape[0] - short.shape[0] :].add(short)
    length = max_dim(x.shape[0], y.shape[0])
    return ufuncs.add(pad(x, (length - x.shape[0], 0)), pad(y, (length - y.shape[0], 0)))


@evaluated_whole
@array_function
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the difference of two polynomials, or of those along the first axis.

    >>> import didax.numpy as dnp
    >>> dnp.polysub(dnp.array([1, 2]), dnp.array([5]))
    Array([ 1, -3], dtype=int32)
    """
    x, y = _coefficients("polysub", a1, a2, many=True)
    return polyadd(x, ufuncs.negative(y))


@evaluated_whole
@array_function
def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """Return the product of two polynomials.

    >>> import didax.numpy as dnp
    >>> dnp.polymul(dnp.array([1, 1]), dnp.array([1, -1]))
    Array([ 1.,  0., -1.], dtype=float32)
    """
    x, y = _coefficients("polymul", a1, a2, to_inexact=True)
    if trim_leading_zeros and (x.shape[0] > 1 or y.shape[0] > 1):
        x, y = _strip(x, "polymul"), _strip(y, "polymul")
    x, y = [v if v.shape[0] else zeros(1, v.dtype) for v in (x, y)]
    return convolve(x, y)


@evaluated_whole
@array_function
@halves_in_float32
def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """Return the quotient and the remainder of the division of one polynomial by another.

    >>> import didax.numpy as dnp
    >>> dnp.polydiv(dnp.array([1.0, 0.0, -1.0]), dnp.array([1.0, 1.0]))
    (Array([ 1., -1.], dtype=float32), Array([0., 0., 0.], dtype=float32))
    """
    rest, divisor = _coefficients("polydiv", u, v, to_inexact=True)
    m, n = rest.shape[0] - 1, divisor.shape[0] - 1
    count = max(m - n + 1, 0)
    if count <= _WRITTEN_OUT_MAX:
        quotient = []
        for k in range(count):
            quotient.append(rest[k] / divisor[0])
            rest = rest.at[k : k + n + 1].add(-quotient[-1] * divisor)
        whole = concatenate([atleast_1d(q) for q in quotient]) if quotient else zeros_like(rest[:1])
    else:

        def next_quotient(window: Array, following: Array) -> tuple[Array, tuple[Array, Array]]:
            ratio = window[0] / divisor[0]
            window = window - ratio * divisor
            return concatenate([window[1:], following[None]]), (ratio, window[0])

        window, (whole, leading) = scan(next_quotient, rest[: n + 1], pad(rest[n + 1 :], (0, 1)))
        rest = concatenate([leading, window[:-1]])
    return whole, _strip(rest, "polydiv") if trim_leading_zeros else rest


def _order(name: str, m: Any) -> int:
    found = operator.index(m)
    if found < 0:
        raise ValueError(message(f"{name} is taken at least 0 times.", f"m: {found}", fix="Use m >= 0."))
    return found


@evaluated_whole
@array_function
@halves_in_float32
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """Return the derivative of a polynomial, taken `m` times.

    >>> import didax.numpy as dnp
    >>> dnp.polyder(dnp.array([1, 2, 3]))
    Array([2., 2.], dtype=float32)
    """
    (x,) = _coefficients("polyder", p, to_inexact=True)
    for _ in range(_order("polyder", m)):
        length = max_dim(x.shape[0] - 1, 0)
        x = x[:length] * (length - arange(length, dtype=x.dtype))
    return x


@evaluated_whole
@array_function
@halves_in_float32
def polyint(p: ArrayLike, m: int = 1, k: Any = None) -> Array:
    """Return the antiderivative of a polynomial, taken `m` times with the constants `k` (0 by default).

    >>> import didax.numpy as dnp
    >>> dnp.polyint(dnp.array([2.0, 2.0]))
    Array([1., 2., 0.], dtype=float32)
    """
    times = _order("polyint", m)
    x, constants = _coefficients("polyint", p, 0 if k is None else k, to_inexact=True)
    if constants.shape[0] not in (1, times):
        raise ValueError(
            message(
                "polyint takes a constant, or one per integration.",
                f"m: {times}, k: {constants.aval}",
                fix="Give m constants.",
            )
        )
    for i in range(times):
        constant = constants[i : i + 1] if constants.shape[0] > 1 else constants
        x = concatenate([x / arange(x.shape[0], 0, -1, dtype=x.dtype), constant])
    return x


@evaluated_whole
@array_function
def poly(seq_of_zeros: ArrayLike) -> Array:
    """Return the coefficients of the polynomial with the given roots, or a matrix's characteristic polynomial.

    >>> import didax.numpy as dnp
    >>> dnp.poly(dnp.array([1.0, 2.0]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    (x,) = [
        as_array("poly", y) for y in promote_dtypes("poly", as_array("poly", seq_of_zeros), to_inexact=True)
    ]
    if x.ndim == 2:
        x = linalg.eigvals(x)
    found = atleast_1d(x)
    if found.ndim > 1:
        raise ValueError(
            message("poly takes roots, or a square matrix.", f"got: {x.aval}", fix="Ravel the roots.")
        )
    if not found.shape[0]:
        return ones((), x.dtype)  # a number, as in NumPy
    return _with_roots(found)


@halves_in_float32
def _with_roots(x: Array) -> Array:
    is_short = not is_symbolic(x.shape[0]) and x.shape[0] <= _BY_NUMPY_MAX
    return _product_of_factors(x) if is_short else _product_in_a_loop(x)


def _factors_by_numpy(x: Any) -> Any:
    found = np.zeros(x.size + 1, x.dtype)
    found[0] = 1
    for i, root in enumerate(x, 1):
        found[1 : i + 1] -= root * found[:i]
    if not is_finite(found):  # convolutions multiply infinities by the zeros beyond the ends
        raise Declined
    return found


@computed_by(_factors_by_numpy)
def _product_of_factors(x: Array) -> Array:
    if x.shape[0] > _WRITTEN_OUT_MAX:
        return _product_in_a_loop(x)
    one = ones(1, x.dtype)
    return functools.reduce(convolve, [concatenate([one, -x[i : i + 1]]) for i in range(x.shape[0])], one)


def _product_in_a_loop(x: Array) -> Array:
    count = x.shape[0]
    places = arange(1, count + 1)

    def times_factor(found: Array, factor: tuple[Array, Array]) -> tuple[Array, None]:
        root, degree = factor
        # Beyond the degree an infinite root would make NaN.
        lower = where(places <= degree, found[1:] - root * found[:-1], 0)
        return concatenate([found[:1], lower]), None

    return scan(times_factor, pad(ones(1, x.dtype), (0, count)), (x, places))[0]


@array_function
def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """Return the complex roots of a polynomial, as eigenvalues of its companion matrix.

    Leading zeros are stripped, which tracing does not allow. With `strip_zeros=False` there is one NaN for each, after
    the roots.

    >>> import didax.numpy as dnp
    >>> dnp.sort(dnp.roots(dnp.array([1.0, -3.0, 2.0])).real).round(3)
    Array([1., 2.], dtype=float32)
    """
    (x,) = _coefficients("roots", p, to_inexact=True)
    kind = dtypes.complex_dtype(x.dtype)
    if x.shape[0] < 2:
        return zeros(0, kind)
    if not strip_zeros:
        return _with_leading_zeros(x)
    x = _strip(x, "roots")
    at_zero = _trailing_zeros(x)
    x = x[: x.shape[0] - at_zero]
    return concatenate([_eigenvalues(x) if x.shape[0] > 1 else zeros(0, kind), zeros(at_zero, kind)])


def _eigenvalues(x: Array) -> Array:
    """The eigenvalues of the companion matrix."""
    return linalg.eigvals(diag(ones(x.shape[0] - 2, x.dtype), -1).at[0, :].set(-x[1:] / x[0]))


def _with_leading_zeros(x: Array) -> Array:
    """The roots, then a NaN for each leading zero.

    The zeros are moved to the end. There each makes a further root 0, so that as many of the least roots are NaN.
    """
    count = argmax(x != 0)
    found = _eigenvalues(roll(x, -count))
    is_further = argsort(argsort(abs(found))) < count
    return where(is_further, np.nan * (1 + 1j), found)[argsort(is_further, stable=True)]


def _trailing_zeros(x: Array) -> int:
    nonzero = np.flatnonzero(np.asarray(x))
    return x.shape[0] - 1 - int(nonzero[-1]) if nonzero.size else x.shape[0]


@evaluated_whole
@array_function
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: Any = False,
) -> Any:
    """Return the coefficients of the polynomial of degree `deg` that fits points by (weighted) least squares.

    With `full` also return the residuals, rank, singular values and rcond of the least-squares problem; with
    `cov` also the covariance of the coefficients ("unscaled": not multiplied by chi squared over the degrees
    of freedom).

    >>> import didax.numpy as dnp
    >>> dnp.polyfit(dnp.array([0.0, 1.0, 2.0]), dnp.array([1.0, 3.0, 5.0]), 1).round(3)
    Array([2., 1.], dtype=float32)
    """
    points, values = [as_array("polyfit", v) for v in promote_dtypes("polyfit", x, y, to_inexact=True)]
    if (
        points.ndim != 1
        or values.ndim not in (1, 2)
        or values.shape[0] != points.shape[0]
        or not points.shape[0]
    ):
        raise ArgumentError(
            message(
                "polyfit fits values at points: a vector x, and y with as many rows.",
                f"x: {points.aval}, y: {values.aval}",
                fix="Ravel x; put the values of each series in a column of y.",
            )
        )
    matrix, rhs = vander(points, _order("polyfit", deg) + 1), values
    if w is not None:
        weight = as_array("polyfit", w, "w").astype(points.dtype)
        matrix, rhs = matrix * weight[:, None], rhs * (weight if rhs.ndim == 1 else weight[:, None])
    cutoff = points.shape[0] * float(dtypes.finfo(points.dtype).eps) if rcond is None else rcond
    scale = ufuncs.sqrt(array_sum(matrix * matrix, axis=0))
    fit, residuals, rank, singular = linalg.lstsq(matrix / scale, rhs, cutoff)
    fit = (fit.T / scale).T
    if full:
        return fit, residuals, rank, singular, as_array("polyfit", cutoff)
    if not cov:
        return fit
    return fit, _covariance(matrix / scale, scale, residuals, values, unscaled=cov == "unscaled")


def _covariance(matrix: Array, scale: Array, residuals: Array, y: Array, unscaled: bool) -> Array:
    base = linalg.inv(matrix.T @ matrix) / outer(scale, scale)
    if unscaled:
        return base
    freedom = y.shape[0] - matrix.shape[1]
    if freedom <= 0:
        raise ValueError(
            message(
                "The scaled covariance of a fit needs more points than coefficients.",
                f"points: {y.shape[0]}, coefficients: {matrix.shape[1]}",
                fix='Use cov="unscaled", or a lower degree.',
            )
        )
    factor = residuals / freedom
    return base * factor if y.ndim == 1 else base[:, :, None] * factor
