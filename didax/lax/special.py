"""Incomplete gamma functions and the derivative of gamma samples.

Elementwise, like `elementwise.py`; each is a loop over a series or a continued fraction, told in
`didax/primitives/special.py`.
"""

from __future__ import annotations

from typing import Any

from didax.lax.operands import operation
from didax.primitives import special as ops

__all__ = ["igamma", "igamma_grad_a", "igammac", "random_gamma_grad"]


@operation
def igamma(a: Any, x: Any) -> Any:
    """Regularised lower incomplete gamma function P(a, x), for a >= 0 and x >= 0; NaN elsewhere.

    >>> from didax import lax
    >>> lax.igamma(1.0, 2.0)
    Array(0.86466..., dtype=float32, weak_type=True)
    """
    return ops.igamma(a, x)


@operation
def igammac(a: Any, x: Any) -> Any:
    """Regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x), accurate where it is small.

    >>> from didax import lax
    >>> lax.igammac(1.0, 20.0)
    Array(2.0611...e-09, dtype=float32, weak_type=True)
    """
    return ops.igammac(a, x)


@operation
def igamma_grad_a(a: Any, x: Any) -> Any:
    """Derivative of P(a, x) by `a`.

    >>> from didax import lax
    >>> lax.igamma_grad_a(1.0, 2.0)
    Array(-0.2208..., dtype=float32, weak_type=True)
    """
    return ops.igamma_grad_a(a, x)


@operation
def random_gamma_grad(a: Any, x: Any) -> Any:
    """Derivative by `a` of a sample `x` of the gamma distribution that stays at its quantile.

    >>> from didax import lax
    >>> lax.random_gamma_grad(1.0, 2.0)
    Array(1.6316..., dtype=float32, weak_type=True)
    """
    return ops.random_gamma_grad(a, x)
