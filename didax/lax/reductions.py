"""Reductions over axes, and the positions of extrema.

`axes` are distinct and not negative; they are removed from the result. The dtype stays: sums of small
integers wrap, where `didax.numpy.sum` widens. Read next: `primitives/reductions.py`; `cumulative.py`, which
reduces every prefix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax import tree
from didax.api.flat import as_array
from didax.core import dtypes
from didax.core.avals import aval_of
from didax.core.errors import ArgumentError, message
from didax.core.primitive import Primitive
from didax.core.value import Array
from didax.lax.monoids import Combine, is_identity, reduction_of
from didax.lax.operands import as_ints, operation
from didax.primitives import elementwise
from didax.primitives.reductions import (
    argmax_p,
    argmin_p,
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_prod_p,
    reduce_xor_p,
)
from didax.primitives.shape import broadcast_in_dim, reduce_sum_p, reshape, transpose
from didax.primitives.slicing import concatenate, slice_axis

__all__ = [
    "argmax",
    "argmin",
    "reduce",
    "reduce_and",
    "reduce_max",
    "reduce_min",
    "reduce_or",
    "reduce_prod",
    "reduce_sum",
    "reduce_xor",
]


@operation
def reduce_sum(operand: Any, axes: Sequence[int]) -> Array:
    """Return the sum over `axes`.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_sum(np.float32([[1, 2], [3, 4]]), axes=(0,))
    Array([4., 6.], dtype=float32)
    """
    return reduce_sum_p.bind(operand, axes=as_ints(axes))


@operation
def reduce_prod(operand: Any, axes: Sequence[int]) -> Array:
    """Return the product over `axes`; its derivatives are finite even where factors are zero.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_prod(np.float32([[1, 2], [3, 4]]), axes=(0, 1))
    Array(24., dtype=float32)
    """
    return reduce_prod_p.bind(operand, axes=as_ints(axes))


@operation
def reduce_max(operand: Any, axes: Sequence[int]) -> Array:
    """Return the maximum over `axes`; NaN if there is one; over no elements the least value of the dtype.

    Elements that tie share the derivative evenly.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_max(np.float32([[1, 2], [3, 4]]), axes=(1,))
    Array([2., 4.], dtype=float32)
    """
    return reduce_max_p.bind(operand, axes=as_ints(axes))


@operation
def reduce_min(operand: Any, axes: Sequence[int]) -> Array:
    """Return the minimum over `axes`; NaN if there is one; over no elements the greatest value of the dtype.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_min(np.float32([[1, 2], [3, 4]]), axes=(1,))
    Array([1., 3.], dtype=float32)
    """
    return reduce_min_p.bind(operand, axes=as_ints(axes))


@operation
def reduce_and(operand: Any, axes: Sequence[int]) -> Array:
    """Return the "and" over `axes`, of booleans or of the bits of integers.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_and(np.array([[True, False], [True, True]]), axes=(1,))
    Array([False,  True], dtype=bool)
    """
    return reduce_and_p.bind(operand, axes=as_ints(axes))


@operation
def reduce_or(operand: Any, axes: Sequence[int]) -> Array:
    """Return the "or" over `axes`, of booleans or of the bits of integers.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_or(np.int32([1, 2, 4]), axes=(0,))
    Array(7, dtype=int32)
    """
    return reduce_or_p.bind(operand, axes=as_ints(axes))


@operation
def reduce_xor(operand: Any, axes: Sequence[int]) -> Array:
    """Return the "exclusive or" over `axes`, of booleans or of the bits of integers.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_xor(np.int32([1, 3, 4]), axes=(0,))
    Array(6, dtype=int32)
    """
    return reduce_xor_p.bind(operand, axes=as_ints(axes))


@operation
def argmax(operand: Any, axis: int, index_dtype: Any) -> Array:
    """Return the position of the first maximum along `axis`; NaN is a maximum. ValueError where the axis is empty.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.argmax(np.float32([[1, 5, 5], [2, 0, 1]]), axis=1, index_dtype=np.int32)
    Array([1, 0], dtype=int32)
    """
    return _search(argmax_p, operand, axis, index_dtype)


@operation
def argmin(operand: Any, axis: int, index_dtype: Any) -> Array:
    """Return the position of the first minimum along `axis`; NaN is a minimum. ValueError where the axis is empty.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.argmin(np.float32([[1, 5, 5], [2, 0, 1]]), axis=1, index_dtype=np.int32)
    Array([0, 1], dtype=int32)
    """
    return _search(argmin_p, operand, axis, index_dtype)


def _search(primitive: Primitive, operand: Any, axis: int, index_dtype: Any) -> Array:
    return primitive.bind(operand, axes=as_ints([axis]), index_dtype=dtypes.dtype(index_dtype))


# --- Any monoid ---------------------------------------------------------------------------------------------

_MONOIDS: dict[Primitive, tuple[Primitive, Callable[[np.dtype[Any]], Any]]] = {
    elementwise.add: (reduce_sum_p, lambda dtype: 0),
    elementwise.mul: (reduce_prod_p, reduce_prod_p.identity),
    elementwise.max_: (reduce_max_p, reduce_max_p.identity),
    elementwise.min_: (reduce_min_p, reduce_min_p.identity),
    elementwise.and_: (reduce_and_p, reduce_and_p.identity),
    elementwise.or_: (reduce_or_p, reduce_or_p.identity),
    elementwise.xor: (reduce_xor_p, reduce_xor_p.identity),
}


@operation
def reduce(
    operands: Any, init_values: Any, computation: Callable[[Any, Any], Any], dimensions: Sequence[int]
) -> Any:
    """Combine the elements along `dimensions` by `computation`, which takes two elements and is associative.

    `operands` is an array or a pytree of arrays of one shape; `init_values` has a scalar for each, and
    `computation` maps two such pytrees of scalars to one. Sums, products, extrema and logic are recognised
    and run as the functions above. Any other computation is applied to neighbours until one element is left,
    in the order of the elements, and can be differentiated. Over no dimensions the result is the operands;
    over an axis without elements it is the init values. These have the dtypes of the operands; where the
    dtype is an integer, a number that is infinite stands for the end of its range.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce(np.float32([[1, 2], [3, 4]]), 0.0, lax.add, dimensions=(1,))
    Array([3., 7.], dtype=float32)
    """
    axes = as_ints(dimensions)
    xs, inits, combine, monoid, structure = reduction_of("reduce", operands, init_values, computation)
    _check_axes(xs, axes)
    if not axes:
        return tree.unflatten(structure, [as_array(x) for x in xs])
    if monoid is None or monoid not in _MONOIDS:
        return tree.unflatten(structure, [as_array(y) for y in _fold(combine, xs, inits, axes)])
    reduction, identity = _MONOIDS[monoid]
    out = reduction.bind(xs[0], axes=axes)
    if not is_identity(inits[0], identity(aval_of(out).dtype)):
        out = monoid.bind(inits[0], out)
    return tree.unflatten(structure, [out])


def _check_axes(operands: Sequence[Any], axes: tuple[int, ...]) -> None:
    avals = [aval_of(x) for x in operands]
    if len(set(axes)) != len(axes) or any(not 0 <= i < avals[0].ndim for i in axes):
        rule, fix = "reduce takes distinct axes of its operands.", "Name each axis once, not from the end."
        facts = f"operands: {', '.join(map(str, avals))}", f"dimensions: {axes}"
        raise ArgumentError(message(rule, *facts, fix=fix))


def _fold(combine: Combine, xs: Sequence[Any], inits: Sequence[Any], axes: tuple[int, ...]) -> list[Any]:
    """Combine neighbours until one element is left, then combine the init values with this element."""
    shape = aval_of(xs[0]).shape
    kept = [i for i in range(len(shape)) if i not in axes]
    n, rest = math.prod(shape[i] for i in axes), tuple(shape[i] for i in kept)
    order = (*sorted(axes), *kept)
    xs = [reshape(transpose(x, order), (n, math.prod(rest))) for x in xs]
    while n > 1:
        first, second = (
            [slice_axis(x, start, 2 * (n // 2) - 1 + start, 0, 2) for x in xs] for start in (0, 1)
        )
        last = [[slice_axis(x, n - 1, n, 0)] if n % 2 else [] for x in xs]
        xs = [concatenate([y, *z], 0) for y, z in zip(combine(first, second), last, strict=True)]
        n = n - n // 2
    filled = [broadcast_in_dim(init, rest, ()) for init in inits]
    return combine(filled, [reshape(x, rest) for x in xs]) if n else filled
