"""Rows: integrals without elementary form and hypergeometric functions, against scipy.

`tests/scipy/test_more_special.py` tries them over their whole range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from didax.primitives import bessel, faddeeva, hypergeometric, integrals
from tests.operations.fitted import DTYPES, LOOSE, draw, wide
from tests.operations.row import COMPLEX, Operation


def orders_and_points(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    return np.array([[0, 1], [2, 5]]).astype(dtype), rng.uniform(0.2, 4, (2, 2)).astype(dtype)


def complex_draw(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    return ((rng.uniform(-3, 3, (2, 2)) + 1j * rng.uniform(-1, 3, (2, 2))).astype(dtype),)


def slope(f: Callable[..., Any], at: int) -> Callable[..., Any]:
    """The derivative of a SciPy function by one argument, as the difference of neighbours."""
    h = 1e-5

    def difference(*xs: Any) -> Any:
        above, below = ([x + sign * h * (i == at) for i, x in enumerate(xs)] for sign in (1, -1))
        return (f(*above) - f(*below)) / (2 * h)

    return wide(difference)


KUMMER = draw((0.3, 3), (0.5, 4), (-3, 3))
GAUSS = draw((0.3, 3), (0.3, 2), (0.6, 4), (-0.8, 0.8))
ROUGH = {"float64": 1e-6}

ROWS = [
    Operation("dawsn", integrals.dawsn, wide(special.dawsn), draw((-6, 6)), DTYPES),
    Operation("dawsn_slope", integrals.dawsn_slope, wide(lambda x: 1 - 2 * x * special.dawsn(x)), draw((-6, 6)), DTYPES,
              rtol=LOOSE),
    Operation("sine_over", integrals.sine_over, wide(lambda x: np.sinc(x / np.pi)), draw((-9, 9)), DTYPES, rtol=LOOSE),
    Operation("sine_integral", integrals.sine_integral, wide(lambda x: special.sici(x)[0]), draw((-9, 9)), DTYPES),
    Operation("cosine_integral", integrals.cosine_integral, wide(lambda x: special.sici(x)[1]), draw((0.7, 9)), DTYPES,
              rtol=LOOSE),
    Operation("fresnel_sine", integrals.fresnel_sine, wide(lambda x: special.fresnel(x)[0]), draw((-3, 3)), DTYPES),
    Operation("fresnel_cosine", integrals.fresnel_cosine, wide(lambda x: special.fresnel(x)[1]), draw((-3, 3)), DTYPES),
    Operation("sine_of_square", integrals.sine_of_square, wide(lambda x: np.sin(np.pi / 2 * x * x)), draw((-3, 3)),
              DTYPES, rtol=LOOSE),
    Operation("cosine_of_square", integrals.cosine_of_square, wide(lambda x: np.cos(np.pi / 2 * x * x)), draw((-3, 3)),
              DTYPES, rtol=LOOSE),
    Operation("wofz", faddeeva.wofz, special.wofz, complex_draw, COMPLEX),
    Operation("wofz_slope", faddeeva.wofz_slope, lambda z: 2j / np.sqrt(np.pi) - 2 * z * special.wofz(z),
              complex_draw, COMPLEX, rtol={"complex64": 1e-5, "complex128": 1e-12}),
    Operation("bessel_orders", lambda x: bessel.bessel_orders.bind(x, most=3),
              lambda x: np.stack([special.jv(n, x.astype("float64")) for n in range(4)]).astype(x.dtype),
              draw((-12, 12)), ("float32",)),
    Operation("expn", integrals.expn, wide(lambda n, x: special.expn(n.astype(int), x)), orders_and_points, DTYPES,
              argnums=(1,), rtol=LOOSE),
    Operation("owens_t", integrals.owens_t, wide(special.owens_t), draw((-2, 2), (-2, 2)), DTYPES, rtol=LOOSE),
    Operation("hyp1f1", hypergeometric.hyp1f1, wide(special.hyp1f1), KUMMER, DTYPES, rtol=LOOSE | {"float64": 1e-8}),
    Operation("hyp2f1", hypergeometric.hyp2f1, wide(special.hyp2f1), GAUSS, DTYPES, rtol=LOOSE | {"float64": 1e-8}),
    Operation("times_unless_zero", hypergeometric.times_unless_zero, np.multiply, draw((-2, 2), (-2, 2)), DTYPES[:2]),
    *[Operation(f"hyp1f1_grad_{name}", f, slope(special.hyp1f1, i), KUMMER, ("float64",), second_order=False,
                rtol=ROUGH)
      for i, (name, f) in enumerate({"a": hypergeometric.hyp1f1_grad_a, "b": hypergeometric.hyp1f1_grad_b}.items())],
    *[Operation(f"hyp2f1_grad_{name}", f, slope(special.hyp2f1, i), GAUSS, ("float64",), second_order=False,
                rtol=ROUGH)
      for i, (name, f) in enumerate({"a": hypergeometric.hyp2f1_grad_a, "b": hypergeometric.hyp2f1_grad_b,
                                     "c": hypergeometric.hyp2f1_grad_c}.items())],
]  # fmt: skip
ROWS = [replace(row, is_costly=True) for row in ROWS]
