"""Functions that sort, or find the largest few elements.

Floats are in numeric order with NaN last; complex numbers compare by the real, then by the imaginary part.
Read next: `primitives/sort.py`; `didax.numpy` for `argsort`, `median` and similar functions.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import as_length
from didax.core.errors import message
from didax.core.value import Array
from didax.lax.operands import operation
from didax.primitives.convert import convert_element_type, stop_gradient_p
from didax.primitives.elementwise import ne, sub
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.sort import sort_p, take_along, top_k_p

__all__ = ["approx_max_k", "approx_min_k", "sort", "sort_key_val", "top_k"]

_FLOAT32 = np.dtype(np.float32)


def _axis(axis: int, x: Any) -> int:
    axis = operator.index(axis)
    return axis + aval_of(x).ndim if axis < 0 else axis


@operation
def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sort an array along `dimension`, or a tuple of arrays of one shape by the first `num_keys` of them.

    The result is an array or a tuple, like the operand. The order is always stable.

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


@operation
@evaluated_whole
def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> tuple[Array, Array]:
    """Sort `keys` along `dimension`, and put `values`, of the same shape, into the same order.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.sort_key_val(np.int32([3, 1, 2]), np.float32([0.3, 0.1, 0.2]))[1]
    Array([0.1, 0.2, 0.3], dtype=float32)
    """
    return sort((keys, values), dimension, is_stable)


@operation
def top_k(operand: Any, k: int, *, axis: int = -1) -> list[Array]:
    """Return the `k` largest elements along `axis`, from the largest down, and their int32 positions.

    Equal elements keep their order. NaN is the largest element, NaN with a sign bit the smallest; 0.0 is
    above -0.0. ValueError when the axis has fewer than `k` elements.

    >>> import numpy as np
    >>> from didax import lax
    >>> values, indices = lax.top_k(np.float32([1, 5, 3, 5]), 3)
    >>> values, indices
    (Array([5., 5., 3.], dtype=float32), Array([1, 3, 2], dtype=int32))
    """
    return top_k_p.bind(operand, k=as_length(k), axis=_axis(axis, operand))


@operation
@evaluated_whole
def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """Return the `k` largest floats along an axis, as `top_k` does: always all of them, whatever the `recall_target`.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.approx_max_k(np.float32([1, 5, 3]), 2)[1]
    Array([1, 2], dtype=int32)
    """
    return _approximate_top_k(
        "approx_max_k", operand, k, reduction_dimension, recall_target, aggregate_to_topk
    )


@operation
@evaluated_whole
def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """Return the `k` smallest floats along an axis, from the smallest up, and their positions, as `approx_max_k` does.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.approx_min_k(np.float32([1, 5, 3]), 2)[0]
    Array([1., 3.], dtype=float32)
    """
    return _approximate_top_k(
        "approx_min_k", operand, k, reduction_dimension, recall_target, aggregate_to_topk
    )


def _approximate_top_k(
    name: str, operand: Any, k: int, axis: int, recall_target: float, aggregate_to_topk: bool
) -> list[Array]:
    aval, k, axis = aval_of(operand), as_length(k), _axis(axis, operand)
    _check_approximate(name, aval, k, axis, recall_target, aggregate_to_topk)
    if name == "approx_max_k":
        return top_k(operand, k, axis=axis)
    # in a dtype that has negative numbers
    x = convert_element_type(operand, _FLOAT32) if aval.dtype.itemsize == 1 else operand
    nan = scalar_like(math.nan, aval_of(x).dtype)
    order = where(ne(x, x), nan, sub(0, x))  # neither NaN nor zero has a sign here
    places = top_k(stop_gradient_p.bind(order), k, axis=axis)[1]
    return [take_along(operand, places, axis), places]


def _check_approximate(name: str, x: ShapedArray, k: int, axis: int, recall: float, aggregate: bool) -> None:
    rules = (
        (dtypes.is_float(x.dtype), f"{name} takes floats.", "Use top_k for integers."),
        (0 <= axis < x.ndim, f"{name} takes one of the axes of its operand.", "Name an axis of the operand."),
        (
            not 0 <= axis < x.ndim or 0 <= k <= x.shape[axis],
            f"{name} gives at most as many elements as the axis has.",
            f"Choose k from 0 to {x.shape[axis] if 0 <= axis < x.ndim else 0}.",
        ),
        (0 < recall <= 1, f"{name} finds a share of the k elements.", "Use a recall_target in (0, 1]."),
        (
            aggregate,
            f"{name} gives the k extreme elements of the whole axis.",
            "Leave aggregate_to_topk out.",
        ),
    )
    for holds, rule, fix in rules:
        if not holds:
            facts = f"operand: {x}, k: {k}, reduction_dimension: {axis}"
            options = f"recall_target: {recall}, aggregate_to_topk: {aggregate}"
            raise ValueError(message(rule, facts, options, fix=fix))
