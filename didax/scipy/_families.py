"""Special functions of complex numbers, and families of functions: `loggamma`, `wofz`, `bessel_jn`, `sph_harm_y`.

Most are compositions of the functions of `didax.numpy`, and have the derivatives of these. Read next:
`didax/primitives/faddeeva.py`, where `wofz` is.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

import didax.numpy as dnp
from didax.api.custom import custom_jvp
from didax.core import dtypes
from didax.core.errors import ArgumentError, ConcretizationTypeError, api_boundary, message
from didax.core.value import Array
from didax.lax.elementwise import complex as complex_
from didax.lax.loops import fori_loop
from didax.numpy.promotion import ArrayLike, as_array, promote_dtypes
from didax.primitives import bessel
from didax.primitives.faddeeva import wofz as _wofz
from didax.primitives.gamma import STIRLING


def as_real(name: str, x: Any) -> Array:
    """An operand of a function of real numbers, which computes in its floating dtype."""
    value = dnp.asarray(promote_dtypes(name, x, to_inexact=True)[0])
    if dtypes.kind_of(value.dtype) != "f":
        raise ArgumentError(
            message(f"{name} takes real numbers.", f"operand: {value.aval}", fix="Use x.real.")
        )
    return value


# --- The logarithm of the gamma function --------------------------------------------------------------------

_STIRLING = [*STIRLING, -3617 / 122400]  # for |z| > 8
_SHIFTS = 8


def _in_double(function: Any) -> Any:
    """A function of complex numbers computed in complex128: large logarithms cancel, at zeros and in exponents."""

    @functools.wraps(function)
    def in_double(z: Any) -> Any:
        return function(z.astype(np.complex128)).astype(z.dtype)

    return in_double


@_in_double
def complex_loggamma(z: Any) -> Any:
    """The analytic continuation of log(gamma(x)) from the positive axis, cut along the negative one; NaN at poles.

    Left of 1/2 by the reflection formula in the form of Hare (1997); its term 2 pi i floor(...) chooses the branch.
    """
    pole = _is_pole(z)
    z = dnp.where(pole, 1, z)
    left = z.real < 0.5
    right = dnp.where(left, 1 - z, z)
    value = _right_loggamma(right)
    branch = dnp.copysign(2 * math.pi, z.imag) * dnp.floor(0.5 * z.real + 0.25)
    reflected = math.log(math.pi) - _log_sin_pi(dnp.where(left, z, 0.25)) - value
    return dnp.where(pole, math.nan, dnp.where(left, reflected + 1j * branch.astype(z.dtype), value))


def _is_pole(z: Any) -> Any:
    """Whether the gamma function has a pole at z."""
    return (z.imag == 0) & (z.real <= 0) & (z.real == dnp.floor(z.real))


@_in_double
def complex_gamma(z: Any) -> Any:
    """The gamma function of complex numbers; NaN at its poles."""
    return dnp.exp(complex_loggamma(z))


def complex_xlogy(x: Any, y: Any) -> Any:
    """x log(y) of complex numbers, and 0 where x is 0."""
    zero = (x == 0) & ~dnp.isnan(y)
    return x * dnp.log(dnp.where(zero & ((y == 0) | dnp.isinf(y)), 1, y))


def complex_xlog1py(x: Any, y: Any) -> Any:
    """x log(1 + y) of complex numbers, and 0 where x is 0."""
    zero = (x == 0) & ~dnp.isnan(y)
    return x * dnp.log1p(dnp.where(zero & ((y == -1) | dnp.isinf(y)), 0, y))


@custom_jvp
def complex_logit(z: Any) -> Any:
    """log(z / (1 - z)) of complex numbers; near 1/2, where the quotient is near 1, from its distance to 1."""
    near = abs(z - 0.5) < 0.25
    beside = dnp.where(near, z, 0.5)
    return dnp.where(
        near, dnp.log1p((2 * beside - 1) / (1 - beside)), dnp.log(dnp.where(near, 2, z / (1 - z)))
    )


complex_logit.defjvps(lambda t, y, z: t / (z * (1 - z)))


def complex_power_transform(log_x: Any, power: Any) -> Any:
    """expm1(power * log_x) / power of complex numbers, and its limit log_x at power 0."""
    u = power * log_x
    tiny = abs(u) < 1e-5
    safe = dnp.where(tiny, 1, u)
    ratio = dnp.where(tiny, 1 + u * (0.5 + u / 6), dnp.expm1(safe) / safe)
    at_end = dnp.isinf(log_x) & (power != 0)  # x is 0, or infinite
    end = dnp.expm1(dnp.where(at_end, u, 0)) / dnp.where(power == 0, 1, power)
    return dnp.where(at_end, end, dnp.where(power == 0, log_x, log_x * ratio))


def complex_erfcx(z: Any) -> Any:
    """exp(z^2) erfc(z) of complex numbers."""
    return wofz(complex_(-z.imag, z.real))


def _right_loggamma(z: Any) -> Any:
    """By Stirling's series of z + 8, and of z itself where it is large."""
    far = abs(z) > 100
    near = dnp.where(far, 1, z)
    # Angles of two factors add up to less than pi: the logarithm of their product is the sum of theirs.
    logs = sum((dnp.log((near + k) * (near + (k + 1))) for k in range(0, _SHIFTS, 2)), dnp.zeros_like(z))
    w = dnp.where(far, z, near + _SHIFTS)
    inverse = 1 / w
    square = inverse * inverse
    series = sum((c * square**k for k, c in enumerate(_STIRLING[1:], 1)), dnp.full_like(z, _STIRLING[0]))
    value = (w - 0.5) * dnp.log(w) - w + 0.5 * math.log(2 * math.pi) + inverse * series
    return value - dnp.where(far, 0, logs)


def _log_sin_pi(z: Any) -> Any:
    """log(sin(pi z)), principal; far from the axis |sin| is exp(pi |Im z|) / 2."""
    x, y = z.real, z.imag
    turn = x - 2 * dnp.round(0.5 * x)  # sin(pi z) has the period 2
    far = abs(y) > 5
    # Sine and cosine of pi x are exact at their zeros, where their signs choose the branch on the cut.
    size = dnp.where(turn < 0, -turn, turn)
    sine = dnp.sin(math.pi * dnp.where(size > 0.5, 1 - size, size))
    height = math.pi * dnp.where(far, 0.5, y)
    real = dnp.where(turn < 0, -sine, sine) * dnp.cosh(height)
    near = dnp.log(complex_(real, dnp.sin(math.pi * (0.5 - size)) * dnp.sinh(height)))
    # sin(pi z) = +-i/2 exp(-+i pi z) (1 - exp(+-2 i pi z)), upper signs for Im z > 0
    up = dnp.where(y > 0, 1, -1)
    small = dnp.exp(-2 * math.pi * abs(y) + 2j * math.pi * up * turn)
    angle = up * (0.5 - turn)
    angle = angle - 2 * dnp.round(0.5 * angle)
    distant = math.pi * abs(y) - math.log(2) + 1j * math.pi * angle + dnp.log1p(-small)
    return dnp.where(far, distant.astype(z.dtype), near)


# --- Faddeeva's function ------------------------------------------------------------------------------------


@api_boundary
def wofz(z: ArrayLike) -> Array:
    """Return Faddeeva's function exp(-z^2) erfc(-i z), complex.

    >>> from didax.scipy import special
    >>> special.wofz(0.0)
    Array(1.+0.j, dtype=complex64)
    """
    value = as_array("wofz", z)
    if not dtypes.is_inexact(value.dtype):
        value = as_real("wofz", value)
    value = value.astype(dtypes.complex_dtype(value.dtype))
    return _wofz(value)


# --- Bessel functions ---------------------------------------------------------------------------------------


@api_boundary
def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Return the Bessel functions J_0(z), ..., J_v(z) along a new first axis.

    For |z| > max(25, v) they are computed by Hankel's expansions of J_0 and J_1 (DLMF 10.17.3) and the recurrence
    upwards, for smaller z by Miller's recurrence downwards (DLMF 3.6), and low orders of float32 numbers by
    `primitives/bessel.py`. `n_iter`, the number of steps of JAX's recurrence, is accepted and not needed.

    >>> from didax.scipy import special
    >>> special.bessel_jn(0.0, v=1)
    Array([1., 0.], dtype=float32)
    """
    x = as_real("bessel_jn", z)
    try:
        order = operator.index(v)
    except TypeError:
        order = -1
    if order < 0:
        rule = "bessel_jn takes the highest order, an integer of at least 0."
        raise ArgumentError(message(rule, f"v: {v!r:.100}", fix="Pass a Python integer."))
    wide = x.astype(dtypes.at_least_single(x.dtype))
    if wide.dtype == np.float32 and order <= bessel.MOST:
        out = bessel.bessel_orders.bind(wide, most=order)
    else:
        out = _bessel_orders(wide, order)
    return out.astype(x.dtype) if x.dtype != wide.dtype else out


def _bessel_orders(x: Any, order: int) -> Any:
    return dnp.where(dnp.isnan(x), x, _bessel(x, order))


def _bessel_value(x: Any, order: int) -> Any:
    size, limit = abs(x), max(25, order)
    near = size <= limit
    small = _downwards(dnp.where(near, size, 1), order, limit)
    large = _upwards(dnp.where(near, limit + 1, size), order)
    signs = np.where(np.arange(order + 1) % 2, -1, 1).reshape(-1, *[1] * x.ndim)
    both = dnp.where(near, small, large)
    return dnp.where(x < 0, signs.astype(np.int32) * both, both).astype(x.dtype)


_bessel = custom_jvp(_bessel_value, nondiff_argnums=(1,))


@_bessel.defjvp
def _bessel_jvp(order: int, primals: Any, tangents: Any) -> Any:
    """J_n' = (J_(n-1) - J_(n+1)) / 2, with J_-1 = -J_1."""
    (x,), (x_dot,) = primals, tangents
    more = _bessel(x, order + 1)
    before = dnp.concatenate([-more[1:2], more[:order]])
    return more[: order + 1], 0.5 * (before - more[1:]) * x_dot


def _downwards(x: Any, order: int, limit: int) -> Any:
    """Miller's recurrence from a tiny number at a far higher order, normalised by J_0 + 2 J_2 + 2 J_4 + ... = 1.

    It is rescaled before it overflows.
    """
    start = limit + 20 + int(6 * limit ** (1 / 2))
    positions = np.arange(order + 1).reshape(-1, *[1] * x.ndim)
    safe = dnp.where(x < 1e-6, 1e-6, x)  # below, J_n is its first two terms

    def step(i: Any, state: Any) -> Any:
        above, here, total, found = state
        n = start - i  # `here` belongs to this order
        below = 2 * n / safe * here - above
        scale = dnp.where(abs(below) > 1e12, 1e-12, 1).astype(x.dtype)
        above, here = here * scale, below * scale
        total = total * scale + dnp.where((n - 1) % 2 == 0, dnp.where(n == 1, here, 2 * here), 0)
        found = found * scale
        return above, here, total, dnp.where(positions == n - 1, here, found)

    zero = dnp.zeros_like(x)
    first = (zero, dnp.full_like(x, 1e-18), zero, dnp.zeros((order + 1, *x.shape), x.dtype))
    _, _, total, found = fori_loop(0, start, step, first)
    value = found / total
    half, second = 0.5 * x, 0.25 * x * x
    powers = [
        half**n / math.factorial(n) * (1 - second / (n + 1)) if n < 160 else zero for n in range(order + 1)
    ]
    return dnp.where(x < 1e-6, dnp.stack(powers), value)


def _upwards(x: Any, order: int) -> Any:
    values = [_hankel(x, 0), _hankel(x, 1)]
    for n in range(1, order):
        values.append(2 * n / x * values[n] - values[n - 1])
    return dnp.stack(values[: order + 1])


def _hankel(x: Any, order: int) -> Any:
    """sqrt(2 / (pi x)) (P cos(x - c) - Q sin(x - c)), c = (order / 2 + 1 / 4) pi."""
    mu, term, p, q = 4 * order**2, dnp.ones_like(x), dnp.ones_like(x), dnp.zeros_like(x)
    for k in range(1, 20):
        term = term * ((mu - (2 * k - 1) ** 2) / (8 * k)) / x
        sign = -1 if k % 4 in (2, 3) else 1
        p, q = (p, q + sign * term) if k % 2 else (p + sign * term, q)
    sin, cos = dnp.sin(x), dnp.cos(x)
    # cos(x - pi / 4) = (cos + sin) / sqrt(2), which is exact where x - pi / 4 would be rounded
    c, s = (cos + sin, sin - cos) if order == 0 else (sin - cos, -(sin + cos))
    return (p * c - q * s) / dnp.sqrt(math.pi * x)


# --- Spherical harmonics ------------------------------------------------------------------------------------


@api_boundary
def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Array:
    """Return the spherical harmonics of degree n >= 0 and order m, |m| <= n, at polar angle theta and azimuth phi.

    They are orthonormal on the sphere and have the phase (-1)^m of Condon and Shortley; 0 for |m| > n. `n_max` is the
    largest degree, which has to be given where n is traced. NotImplementedError for `diff_n`.

    >>> from didax.scipy import special
    >>> special.sph_harm_y(0, 0, 0.3, 0.4)
    Array(0.2820948+0.j, dtype=complex64)
    """
    if diff_n is not None:
        rule = "sph_harm_y gives values only."
        raise NotImplementedError(message(rule, f"diff_n: {diff_n!r}", fix="Differentiate it: jvp, jacfwd."))
    degree, order = [as_array("sph_harm_y", x, name) for x, name in ((n, "n"), (m, "m"))]
    for name, x in (("n", degree), ("m", order)):
        if dtypes.kind_of(x.dtype) not in "iu":
            rule = "sph_harm_y takes integers as degree and order."
            raise ArgumentError(message(rule, f"{name}: {x.aval}", fix=f"Cast {name} first (astype)."))
    if n_max is None:
        n_max = _largest(degree)
    angles = [dnp.asarray(x) for x in promote_dtypes("sph_harm_y", theta, phi, to_inexact=True)]
    theta, phi = [x.astype(x.dtype) for x in angles]
    degree, order, theta, phi = dnp.broadcast_arrays(degree, order, theta, phi)
    size = abs(order)
    magnitude = _normalised_legendre(degree, size, theta, int(n_max))
    angle = order * phi
    sign = dnp.where((order < 0) & (size % 2 == 1), -1, 1).astype(theta.dtype)
    return sign * magnitude * dnp.exp(1j * angle)


def _largest(degree: Any) -> int:
    try:
        return int(np.max(np.asarray(degree), initial=0))
    except ConcretizationTypeError:
        rule = "sph_harm_y needs the largest degree while n is traced."
        raise ConcretizationTypeError(
            message(rule, f"n: {degree.aval}", fix="Pass n_max, an integer.")
        ) from None


def _normalised_legendre(n: Any, m: Any, theta: Any, n_max: int) -> Any:
    """P_n^m(cos(theta)) sqrt((2n + 1) / 4 pi (n - m)! / (n + m)!), degree by degree (DLMF 14.10.3)."""
    x, sin = dnp.cos(theta), dnp.sin(theta)
    # sqrt(1 - x^2), which is -sin where theta is not between 0 and pi. The float next to pi counts as pi.
    sin = dnp.where(sin < -4 * float(dtypes.finfo(sin.dtype).eps), -sin, sin)
    order = m.astype(theta.dtype)

    def step(k: Any, state: Any) -> Any:
        # `before` and `here` belong to the degrees k - 2 and k - 1; up to k = m, `here` has the order k - 1 as well.
        before, here, out = state
        k = dnp.asarray(k)
        degree = k.astype(theta.dtype)
        diagonal = -dnp.sqrt((2 * degree + 1) / dnp.maximum(2 * degree, 1)) * sin * here
        start = dnp.where(k == 0, here, diagonal)
        gap = dnp.where(k > m, degree * degree - order * order, 1)
        less = dnp.where(k > m + 1, (degree - 1) ** 2 - order * order, 0)
        a = dnp.sqrt((4 * degree * degree - 1).clip(0) / gap)
        b = dnp.sqrt((2 * degree + 1) * less / (gap * (2 * degree - 3).clip(1)))
        new = dnp.where(k <= m, start, a * x * here - b * before)
        return dnp.where(k <= m, 0, here), new, dnp.where((k == n) & (k >= m), new, out)

    zero = dnp.zeros_like(theta)
    _, _, out = fori_loop(
        0, n_max + 1, step, (zero, dnp.full_like(theta, math.sqrt(1 / (4 * math.pi))), zero)
    )
    return out
