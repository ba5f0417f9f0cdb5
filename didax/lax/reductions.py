"""Reductions over axes, and the positions of extrema.

`axes` are distinct and not negative; they are removed from the result. Dtypes stay: sums of small integers
wrap, where `didax.numpy.sum` widens. Read next: `primitives/reductions.py`; `cumulative.py`, the same for
every prefix.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax import tree
from didax.api.vmap import vmap
from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.primitive import Primitive
from didax.core.tracing import known_value
from didax.core.value import Array
from didax.lax.operands import operation
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
from didax.transforms.staging import trace_to_jaxpr

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


def _axes(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(operator.index(i) for i in axes)


@operation
def reduce_sum(operand: Any, axes: Sequence[int]) -> Array:
    """Sum over `axes`.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_sum(np.float32([[1, 2], [3, 4]]), axes=(0,))
    Array([4., 6.], dtype=float32)
    """
    return reduce_sum_p.bind(operand, axes=_axes(axes))


@operation
def reduce_prod(operand: Any, axes: Sequence[int]) -> Array:
    """Product over `axes`; its derivatives are finite also where factors are zero.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_prod(np.float32([[1, 2], [3, 4]]), axes=(0, 1))
    Array(24., dtype=float32)
    """
    return reduce_prod_p.bind(operand, axes=_axes(axes))


@operation
def reduce_max(operand: Any, axes: Sequence[int]) -> Array:
    """Maximum over `axes`: NaN if there is one, the least value of the dtype over nothing.

    Elements that tie share the derivative evenly.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_max(np.float32([[1, 2], [3, 4]]), axes=(1,))
    Array([2., 4.], dtype=float32)
    """
    return reduce_max_p.bind(operand, axes=_axes(axes))


@operation
def reduce_min(operand: Any, axes: Sequence[int]) -> Array:
    """Minimum over `axes`: NaN if there is one, the greatest value of the dtype over nothing.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_min(np.float32([[1, 2], [3, 4]]), axes=(1,))
    Array([1., 3.], dtype=float32)
    """
    return reduce_min_p.bind(operand, axes=_axes(axes))


@operation
def reduce_and(operand: Any, axes: Sequence[int]) -> Array:
    """True where all are; the bitwise and of integers.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_and(np.array([[True, False], [True, True]]), axes=(1,))
    Array([False,  True], dtype=bool)
    """
    return reduce_and_p.bind(operand, axes=_axes(axes))


@operation
def reduce_or(operand: Any, axes: Sequence[int]) -> Array:
    """True where any is; the bitwise or of integers.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_or(np.int32([1, 2, 4]), axes=(0,))
    Array(7, dtype=int32)
    """
    return reduce_or_p.bind(operand, axes=_axes(axes))


@operation
def reduce_xor(operand: Any, axes: Sequence[int]) -> Array:
    """True where an odd number is; the bitwise exclusive or of integers.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce_xor(np.int32([1, 3, 4]), axes=(0,))
    Array(6, dtype=int32)
    """
    return reduce_xor_p.bind(operand, axes=_axes(axes))


@operation
def argmax(operand: Any, axis: int, index_dtype: Any) -> Array:
    """Position of the first maximum along `axis`, as NaN counts. ValueError where the axis is empty.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.argmax(np.float32([[1, 5, 5], [2, 0, 1]]), axis=1, index_dtype=np.int32)
    Array([1, 0], dtype=int32)
    """
    return _search(argmax_p, operand, axis, index_dtype)


@operation
def argmin(operand: Any, axis: int, index_dtype: Any) -> Array:
    """Position of the first minimum along `axis`, as NaN counts. ValueError where the axis is empty.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.argmin(np.float32([[1, 5, 5], [2, 0, 1]]), axis=1, index_dtype=np.int32)
    Array([0, 1], dtype=int32)
    """
    return _search(argmin_p, operand, axis, index_dtype)


def _search(primitive: Primitive, operand: Any, axis: int, index_dtype: Any) -> Array:
    return primitive.bind(operand, axes=_axes([axis]), index_dtype=dtypes.dtype(index_dtype))


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
    and run as the functions above; anything else is folded by halves, in the order of the elements, and may
    be differentiated.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.reduce(np.float32([[1, 2], [3, 4]]), 0.0, lax.add, dimensions=(1,))
    Array([3., 7.], dtype=float32)
    """
    leaves, structure = tree.flatten(operands)
    init_leaves = tree.leaves(init_values)
    axes = _axes(dimensions)
    _check_operands(leaves, init_leaves, axes)
    inits = [elementwise_scalar(x, aval_of(leaf).dtype) for x, leaf in zip(init_leaves, leaves, strict=True)]

    def combine(xs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
        return tree.leaves(computation(tree.unflatten(structure, xs), tree.unflatten(structure, ys)))

    monoid = monoid_of(combine, [aval_of(x).dtype for x in leaves])
    if monoid is not None and monoid in _MONOIDS:
        reduction, identity = _MONOIDS[monoid]
        out = reduction.bind(leaves[0], axes=axes)
        known = known_value(inits[0])
        if known is None or np.asarray(known) != identity(aval_of(out).dtype):
            out = monoid.bind(inits[0], out)
        return tree.unflatten(structure, [out])
    return tree.unflatten(structure, _fold(combine, leaves, inits, axes))


def elementwise_scalar(x: Any, dtype: np.dtype[Any]) -> Any:
    """A Python scalar in the dtype of the array it is combined with."""
    return dtype.type(x) if isinstance(x, (bool, int, float, complex)) else x


def monoid_of(combine: Callable[..., Sequence[Any]], found: Sequence[np.dtype[Any]]) -> Primitive | None:
    """The binary primitive that `combine` applies to two scalars of a dtype, if that is all it does."""
    if len(found) != 1:
        return None
    scalar = ShapedArray((), found[0])
    jaxpr, captured = trace_to_jaxpr(lambda x, y: combine([x], [y]), [scalar, scalar], what="reduce")
    if captured or len(jaxpr.eqns) != 1:
        return None
    eqn = jaxpr.eqns[0]
    applied = set(eqn.invars) == set(jaxpr.invars) and list(jaxpr.outvars) == list(eqn.outvars)
    return eqn.primitive if applied and not eqn.params else None


def _check_operands(operands: Sequence[Any], inits: Sequence[Any], axes: tuple[int, ...]) -> None:
    avals = [aval_of(x) for x in operands]
    facts = [
        f"operands: {', '.join(map(str, avals))}",
        f"init_values: {', '.join(str(aval_of(x)) for x in inits)}",
    ]
    if not avals or any(a.shape != avals[0].shape for a in avals) or len(inits) != len(avals):
        fix = "Broadcast the operands first, and give one init value each."
        raise TypeError(message("reduce takes arrays of one shape and a scalar for each.", *facts, fix=fix))
    if any(aval_of(x).ndim for x in inits):
        fix = "Combine arrays with the result instead."
        raise TypeError(message("The init values of reduce are scalars.", *facts, fix=fix))
    if len(set(axes)) != len(axes) or any(not 0 <= i < avals[0].ndim for i in axes):
        fix = "Name each axis once, not from the end."
        raise ValueError(
            message("reduce takes distinct axes of its operands.", *facts, f"dimensions: {axes}", fix=fix)
        )


def _fold(
    combine: Callable[..., Any], xs: Sequence[Any], inits: Sequence[Any], axes: tuple[int, ...]
) -> list[Any]:
    """Neighbours are combined until one element is left, then the init values with that."""
    shape = aval_of(xs[0]).shape
    kept = [i for i in range(len(shape)) if i not in axes]
    n, rest = math.prod(shape[i] for i in axes), tuple(shape[i] for i in kept)
    order = (*sorted(axes), *kept)
    xs = [reshape(transpose(x, order), (n, math.prod(rest))) for x in xs]
    on_rows = vmap(lambda *xy: combine(xy[: len(xs)], xy[len(xs) :]))
    on_matrices = vmap(lambda *xy: on_rows(*xy))
    while n > 1:
        first, second = (
            [slice_axis(x, start, 2 * (n // 2) - 1 + start, 0, 2) for x in xs] for start in (0, 1)
        )
        last = [[slice_axis(x, n - 1, n, 0)] if n % 2 else [] for x in xs]
        xs = [concatenate([y, *z], 0) for y, z in zip(on_matrices(*first, *second), last, strict=True)]
        n = n - n // 2
    filled = [broadcast_in_dim(init, (math.prod(rest),), ()) for init in inits]
    outs = on_rows(*filled, *[reshape(x, (math.prod(rest),)) for x in xs]) if n else filled
    return [reshape(y, rest) for y in outs]
