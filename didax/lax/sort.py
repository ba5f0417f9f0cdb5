"""Sorting, and the largest few elements.

Floats are in numeric order with NaN last; complex numbers compare by real, then imaginary part.
Read next: `primitives/sort.py`; `didax.numpy` for `argsort`, `median` and the like.
"""

from __future__ import annotations

import operator
from typing import Any

from didax.core.avals import aval_of
from didax.core.errors import api_boundary
from didax.core.value import Array
from didax.primitives.sort import sort_p, top_k_p

__all__ = ["sort", "sort_key_val", "top_k"]


def _axis(axis: int, x: Any) -> int:
    axis = operator.index(axis)
    return axis + aval_of(x).ndim if axis < 0 else axis


@api_boundary
def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sort along `dimension`: an array, or a tuple of arrays of one shape by the first `num_keys` of them.

    Returns what it was given, an array or a tuple. The order is stable in any case.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.sort(np.float32([3, 1, 2]))
    Array([1., 2., 3.], dtype=float32)
    >>> lax.sort((np.int32([2, 1, 2]), np.int32([5, 6, 4])), num_keys=2)[1]
    Array([6, 4, 5], dtype=int32)
    """
    many = isinstance(operand, (tuple, list))
    operands = tuple(operand) if many else (operand,)
    dimension = _axis(dimension, operands[0]) if operands else 0
    outs = sort_p.bind(
        *operands, dimension=dimension, is_stable=bool(is_stable), num_keys=operator.index(num_keys)
    )
    return tuple(outs) if many else outs[0]


@api_boundary
def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> tuple[Array, Array]:
    """Sort `keys` along `dimension`, and `values`, of the same shape, in the same order.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.sort_key_val(np.int32([3, 1, 2]), np.float32([0.3, 0.1, 0.2]))[1]
    Array([0.1, 0.2, 0.3], dtype=float32)
    """
    return sort((keys, values), dimension, is_stable)


@api_boundary
def top_k(operand: Any, k: int, *, axis: int = -1) -> list[Array]:
    """The `k` largest elements along `axis`, from the largest down, and their int32 positions.

    Of equal elements the first come first. NaN is the largest, one with a sign bit the smallest; 0.0 is above
    -0.0. ValueError when the axis has fewer than `k` elements.

    >>> import numpy as np
    >>> from didax import lax
    >>> values, indices = lax.top_k(np.float32([1, 5, 3, 5]), 3)
    >>> values, indices
    (Array([5., 5., 3.], dtype=float32), Array([1, 3, 2], dtype=int32))
    """
    return top_k_p.bind(operand, k=operator.index(k), axis=_axis(axis, operand))
