"""Cumulative reductions: each element is combined with all elements before it along an axis.

The result has the shape and dtype of the operand; with `reverse` each element is combined with the elements
after it. Read next: `primitives/cumulative.py`; `associative_scan` for an operation of your own.
"""

from __future__ import annotations

import operator
from typing import Any

from didax.core.value import Array
from didax.lax.operands import operation
from didax.primitives.cumulative import cumlogsumexp_p, cummax_p, cummin_p, cumprod_p, cumsum_p

__all__ = ["cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"]


@operation
def cumsum(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """Return the cumulative sum along an axis; narrow floats are accumulated in float32.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.cumsum(np.int32([1, 2, 3]), reverse=True)
    Array([6, 5, 3], dtype=int32)
    """
    return cumsum_p.bind(operand, axis=operator.index(axis), reverse=bool(reverse))


@operation
def cumprod(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """Return the cumulative product along an axis; its derivatives are finite also after a zero.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.cumprod(np.int32([1, 2, 3, 4]))
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    return cumprod_p.bind(operand, axis=operator.index(axis), reverse=bool(reverse))


@operation
def cummax(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """Return the cumulative maximum along an axis; it is NaN from the first NaN on.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.cummax(np.int32([1, 3, 2, 4]))
    Array([1, 3, 3, 4], dtype=int32)
    """
    return cummax_p.bind(operand, axis=operator.index(axis), reverse=bool(reverse))


@operation
def cummin(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """Return the cumulative minimum along an axis; it is NaN from the first NaN on.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.cummin(np.int32([3, 4, 1, 2]))
    Array([3, 3, 1, 1], dtype=int32)
    """
    return cummin_p.bind(operand, axis=operator.index(axis), reverse=bool(reverse))


@operation
def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """Return the logarithm of the cumulative sum of exponentials along an axis, without overflow.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.cumlogsumexp(np.float32([0, 0]))
    Array([0.       , 0.6931472], dtype=float32)
    """
    return cumlogsumexp_p.bind(operand, axis=operator.index(axis), reverse=bool(reverse))
