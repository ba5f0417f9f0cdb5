"""`jax.scipy.special.lpmn` and `lpmn_values`, which JAX deprecates: associated Legendre functions at many points.

    P(m, l)   for m along the first axis, l along the second, the points z along the third; 0 where m > l

The recurrences over degrees are those of the normalised functions, which neither overflow nor lose digits; the other
functions are multiples of these. `scipy.special.sph_harm_y` is the function that stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import didax.numpy as dnp
from didax import jvp
from didax.core.errors import api_boundary, message


@api_boundary
def lpmn_values(m: int, n: int, z: Any, is_normalized: bool) -> Any:
    """The functions of orders and degrees up to n; `is_normalized` ones are those of spherical harmonics."""
    return _values(*_checked("lpmn_values", m, n, z), is_normalized)


@api_boundary
def lpmn(m: int, n: int, z: Any) -> tuple[Any, Any]:
    """The functions of orders and degrees up to n, and their derivatives by z."""
    n, z = _checked("lpmn", m, n, z)
    of_n: Callable[[Any], Any] = lambda z: _values(n, z, False)
    return jvp(of_n, (z,), (dnp.ones_like(z),))


def _checked(name: str, m: int, n: int, z: Any) -> tuple[int, Any]:
    z = dnp.asarray(z)
    facts = f"m: {m!r}, n: {n!r}, z: {z.dtype}{list(z.shape)}"
    if m != n:
        rule = f"{name} computes all orders up to the largest degree."
        raise NotImplementedError(message(rule, facts, fix="Pass m = n, and take the orders that you want."))
    if n < 0 or z.ndim != 1:
        fix = "Pass n >= 0, and z.ravel()."
        raise ValueError(message(f"{name} takes a degree and a vector of points.", facts, fix=fix))
    return n, z if dnp.issubdtype(z.dtype, dnp.floating) else z.astype(float)


def _values(n: int, z: Any, is_normalized: bool) -> Any:
    orders = np.arange(n + 1)
    diagonal = [(1 - 2 * (m % 2)) * math.sqrt(_double_factorials(m) / (4 * math.pi)) for m in range(n + 1)]
    sine = dnp.sqrt(dnp.maximum(1 - z * z, 0))
    first = [dnp.full_like(z, diagonal[0])] + [diagonal[m] * sine**m for m in range(1, n + 1)]
    before, rows = dnp.zeros((n + 1, len(z)), z.dtype), []
    row = before
    for degree in range(n + 1):
        below = orders < degree  # for the order that equals the degree the recurrence begins
        square = np.where(below, degree * degree - orders * orders, 1)
        a = np.sqrt(np.where(below, (4 * degree * degree - 1) / square, 0))
        inside = np.maximum((degree - 1) ** 2 - orders * orders, 0) * (2 * degree + 1)
        b = np.sqrt(np.where(below, inside / (max(2 * degree - 3, 1) * square), 0))
        last, row = row, _column(a, z) * z * row - _column(b, z) * before
        row = row.at[degree].set(first[degree])
        before = last
        rows.append(row)
    found = dnp.stack(rows, 1)
    return found if is_normalized else found * dnp.asarray(_scales(n), z.dtype)[:, :, None]


def _column(numbers: Any, z: Any) -> Any:
    return dnp.asarray(numbers[:, None], z.dtype)


def _double_factorials(m: int) -> float:
    """(2m + 1)!! / (2m)!!"""
    return math.prod([(2 * i + 1) / (2 * i) for i in range(1, m + 1)])


def _scales(n: int) -> Any:
    """By order and degree, the quotient of the function and the normalised one; 0 where the order is larger."""
    found = np.zeros((n + 1, n + 1))
    for m in range(n + 1):
        for degree in range(m, n + 1):
            ratio = math.lgamma(degree + m + 1) - math.lgamma(degree - m + 1)
            found[m, degree] = math.sqrt(4 * math.pi / (2 * degree + 1)) * math.exp(ratio / 2)
    return found
