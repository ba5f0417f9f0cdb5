"""Incomplete gamma and beta functions, the derivative of gamma samples, scaled Bessel functions.

The functions are elementwise, like those of `elementwise.py`. The formulas are in
`didax/primitives/special.py`, `beta.py` and `fitted.py` beside it; `didax/scipy/special.py` has more special functions.
"""

from __future__ import annotations

from typing import Any

from didax.lax.operands import operation
from didax.primitives import beta, fitted
from didax.primitives import special as ops

__all__ = [
    "bessel_i0e",
    "bessel_i1e",
    "betainc",
    "igamma",
    "igamma_grad_a",
    "igammac",
    "random_gamma_grad",
]


@operation
def igamma(a: Any, x: Any) -> Any:
    """Return the regularised lower incomplete gamma function P(a, x), for a >= 0 and x >= 0; NaN elsewhere.

    >>> from didax import lax
    >>> lax.igamma(1.0, 2.0)
    Array(0.86466..., dtype=float32, weak_type=True)
    """
    return ops.igamma(a, x)


@operation
def igammac(a: Any, x: Any) -> Any:
    """Return the regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x), accurate where it is small.

    >>> from didax import lax
    >>> lax.igammac(1.0, 20.0)
    Array(2.0611...e-09, dtype=float32, weak_type=True)
    """
    return ops.igammac(a, x)


@operation
def igamma_grad_a(a: Any, x: Any) -> Any:
    """Return the derivative of P(a, x) by `a`.

    >>> from didax import lax
    >>> lax.igamma_grad_a(1.0, 2.0)
    Array(-0.2208..., dtype=float32, weak_type=True)
    """
    return ops.igamma_grad_a(a, x)


@operation
def random_gamma_grad(a: Any, x: Any) -> Any:
    """Return the derivative by `a` of a sample `x` of the gamma distribution, at a fixed quantile.

    >>> from didax import lax
    >>> lax.random_gamma_grad(1.0, 2.0)
    Array(1.6316..., dtype=float32, weak_type=True)
    """
    return ops.random_gamma_grad(a, x)


@operation
def betainc(a: Any, b: Any, x: Any) -> Any:
    """Return the regularised incomplete beta function I_x(a, b), for a, b > 0 and x in [0, 1]; differentiable by x.

    >>> from didax import lax
    >>> round(float(lax.betainc(2.0, 1.0, 0.5)), 6)
    0.25
    """
    return beta.betainc(a, b, x)


@operation
def bessel_i0e(x: Any) -> Any:
    """Return exp(-|x|) I0(x), with the modified Bessel function of order 0.

    >>> from didax import lax
    >>> lax.bessel_i0e(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return fitted.bessel_i0e(x)


@operation
def bessel_i1e(x: Any) -> Any:
    """Return exp(-|x|) I1(x), with the modified Bessel function of order 1.

    >>> from didax import lax
    >>> lax.bessel_i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return fitted.bessel_i1e(x)
