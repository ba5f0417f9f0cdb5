"""Products of groups of rows: `ragged_dot`, and `ragged_dot_general` for arrays of any rank.

    ragged_dot(x, matrices, sizes)[i] = x[i] @ matrices[group of row i]

The groups lie one after another along the ragged axis of the first operand; what comes after the last group belongs to
none. Each row is multiplied for every group, and only the product for the row's own group is kept. A NaN in one
group causes no NaN in another, not even in a derivative. Read next: `dot.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import api_boundary, message
from didax.lax.dot import DotDimensionNumbers, PrecisionLike, dot_general
from didax.lax.operands import operation
from didax.primitives.convert import convert_element_type, iota
from didax.primitives.cumulative import cumsum_p
from didax.primitives.elementwise import and_, ge, lt, sub
from didax.primitives.reductions import reduce_or_p
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, reduce_sum_p, transpose

__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general"]


class RaggedDotDimensionNumbers:
    """Which axes `ragged_dot_general` sums over, takes as batch, splits into groups and takes the groups from.

    >>> rows = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])  # the axes of `ragged_dot`
    >>> rows.lhs_ragged_dimensions, rows.rhs_group_dimensions
    ((0,), (0,))
    """

    __slots__ = ("dot_dimension_numbers", "lhs_ragged_dimensions", "rhs_group_dimensions")

    @api_boundary
    def __init__(
        self,
        dot_dimension_numbers: DotDimensionNumbers,
        lhs_ragged_dimensions: Sequence[int],
        rhs_group_dimensions: Sequence[int],
    ):
        (a, b), (c, d) = dot_dimension_numbers
        self.dot_dimension_numbers = (tuple(a), tuple(b)), (tuple(c), tuple(d))
        self.lhs_ragged_dimensions = tuple(lhs_ragged_dimensions)
        self.rhs_group_dimensions = tuple(rhs_group_dimensions)

    def _parts(self) -> tuple[Any, ...]:
        return self.dot_dimension_numbers, self.lhs_ragged_dimensions, self.rhs_group_dimensions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedDotDimensionNumbers) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={x}" for name, x in zip(self.__slots__, self._parts(), strict=True))
        return f"RaggedDotDimensionNumbers({facts})"


_ROWS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


@operation
@evaluated_whole
def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
) -> Any:
    """Return the products of groups of rows of `lhs` (m, k), each with the matrix of its group in `rhs` (g, k, n).

    The first group_sizes[0] rows are multiplied by rhs[0], and so on; rows after the last group give zeros.
    The cost is the cost of one matrix product in which each row meets every matrix.

    >>> import numpy as np
    >>> from didax import lax
    >>> matrices = np.float32([[[1]], [[10]]])
    >>> lax.ragged_dot(np.ones((4, 1), "float32"), matrices, np.int32([1, 2]))
    Array([[ 1.],
           [10.],
           [10.],
           [ 0.]], dtype=float32)
    """
    x, y, sizes = aval_of(lhs), aval_of(rhs), aval_of(group_sizes)
    if x.ndim != 2 or y.ndim != 3 or x.shape[1] != y.shape[1] or sizes.shape != y.shape[:1]:
        raise TypeError(
            message(
                "ragged_dot takes lhs (m, k), rhs (g, k, n) and group_sizes (g,).",
                f"lhs: {x}, rhs: {y}, group_sizes: {sizes}",
                fix="Map over other axes with vmap, or use ragged_dot_general.",
            )
        )
    _check_sizes("ragged_dot", sizes, group_offset)
    return _by_rows(lhs, rhs, group_sizes, _ROWS, precision, preferred_element_type)


@operation
def ragged_dot_general(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
) -> Any:
    """Return `dot_general` of two arrays, one axis of the first being split into groups, the ragged axis.

    By the kind of the ragged axis, with b for batch axes, k for those summed over, m and n for the others:

        m   (b, m, k), (g, b, k, n) -> (b, m, n)    each group of rows meets its own matrix
        k   (b, m, k), (b, k, n) -> (g, b, m, n)    the sums over each group
        b   (b, m, k), (b, k, n) -> (b, m, n)       the groups make no difference

    Args:
      group_sizes: integers, the lengths of the groups: (g,), or one row for each place along the batch axes and along
        the axes of the kind of the ragged axis that come before it.
      ragged_dot_dimension_numbers: the axes; `rhs_group_dimensions` names g in the second operand, for a ragged m.
      precision, preferred_element_type: as of `dot_general`.

    Raises TypeError where there is not exactly one ragged axis, where `group_sizes` are no integers or have
    another shape, and where the group axes of `rhs` do not fit the kind of the ragged axis.

    >>> import numpy as np
    >>> x, y = np.float32([[1, 2, 3]]), np.float32([[1], [10], [100]])
    >>> sums = RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), [1], [])  # the axis that is summed over is split
    >>> ragged_dot_general(x, y, np.int32([1, 2]), sums)
    Array([[[  1.]],
    <BLANKLINE>
           [[320.]]], dtype=float32)
    """
    numbers = ragged_dot_dimension_numbers
    if len(numbers.lhs_ragged_dimensions) != 1:
        rule = "ragged_dot_general expects exactly one lhs ragged dimension."
        raise TypeError(message(rule, f"given: {numbers.lhs_ragged_dimensions}", fix="Name one."))
    x, sizes = aval_of(lhs), aval_of(group_sizes)
    (ragged,) = numbers.lhs_ragged_dimensions
    (contracted, _), (batch, _) = numbers.dot_dimension_numbers
    if not 0 <= ragged < x.ndim:
        rule = "The ragged dimension is an axis of lhs, counted from the front."
        raise TypeError(message(rule, f"lhs: {x}, ragged: {ragged}", fix="Name one of its axes."))
    _check_sizes("ragged_dot_general", sizes, group_offset)
    is_row = ragged not in contracted and ragged not in batch
    _check_groups(numbers, aval_of(rhs), sizes, is_row)
    _check_prefix(x, sizes, _prefix(numbers, x.ndim))
    if is_row:
        return _by_rows(lhs, rhs, group_sizes, numbers, precision, preferred_element_type)
    if ragged in contracted:
        return _by_sums(lhs, rhs, group_sizes, numbers, precision, preferred_element_type)
    return dot_general(lhs, rhs, numbers.dot_dimension_numbers, precision, preferred_element_type)


def _check_sizes(caller: str, sizes: ShapedArray, group_offset: Any) -> None:
    if not dtypes.is_integer(sizes.dtype) or not sizes.ndim or group_offset is not None:
        facts = f"group_sizes: {sizes}, group_offset: {group_offset}"
        fix = "Cast the sizes; slice rhs in place of a group_offset."
        raise TypeError(
            message(f"{caller} counts rows with integers, from the first group on.", facts, fix=fix)
        )


def _check_groups(
    numbers: RaggedDotDimensionNumbers, rhs: ShapedArray, sizes: ShapedArray, is_row: bool
) -> None:
    groups = numbers.rhs_group_dimensions
    (_, contracted), (_, batch) = numbers.dot_dimension_numbers
    fits = len(groups) == is_row
    if fits and is_row:
        (axis,) = groups
        fits = (
            0 <= axis < rhs.ndim and axis not in (*contracted, *batch) and rhs.shape[axis] == sizes.shape[-1]
        )
    if not fits:
        rule = "rhs of ragged_dot_general has one group dimension, as long as there are groups, which is neither "
        rule += "contracting nor batch, where the ragged dimension of lhs is neither; else it has none."
        facts = f"rhs: {rhs}, group dimensions: {groups}, group_sizes: {sizes}, {numbers}"
        raise TypeError(message(rule, facts, fix="Correct rhs_group_dimensions."))


def _check_prefix(lhs: ShapedArray, sizes: ShapedArray, prefix: Sequence[int]) -> None:
    wanted = (*(lhs.shape[i] for i in prefix), sizes.shape[-1])
    if sizes.ndim != 1 and sizes.shape != wanted:
        rule = f"ragged_dot_general expected group_sizes to have shape {wanted}, or one axis."
        raise TypeError(message(rule, f"group_sizes: {sizes}, lhs: {lhs}", fix="Broadcast them."))


def _prefix(numbers: RaggedDotDimensionNumbers, ndim: int) -> list[int]:
    """The axes of lhs along which the sizes may differ: batch axes, then those of the ragged one's kind before it."""
    (contracted, _), (batch, _) = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    if ragged in batch:
        return list(batch[: batch.index(ragged)])
    free = [i for i in range(ndim) if i not in contracted and i not in batch]
    kind = contracted if ragged in contracted else free
    return [*batch, *kind[: kind.index(ragged)]]


def _by_rows(x: Any, y: Any, sizes: Any, numbers: RaggedDotDimensionNumbers, *options: Any) -> Any:
    """A ragged axis that is neither summed over nor a batch axis: products with the matrices of all groups, masked."""
    aval = aval_of(x)
    (contracted, others), (batch, other_batch) = numbers.dot_dimension_numbers
    (ragged,), (group,) = numbers.lhs_ragged_dimensions, numbers.rhs_group_dimensions
    prefix = _prefix(numbers, aval.ndim)
    rows = _masked(x, sizes, aval.shape[ragged], ragged, prefix)
    with_group = (
        (tuple(d + 1 for d in contracted), others),
        ((0, *(d + 1 for d in batch)), (group, *other_batch)),
    )
    products = dot_general(rows, y, with_group, *options)
    free = [i for i in range(aval.ndim) if i not in contracted and i not in batch]
    place = {axis: i for i, axis in enumerate([*batch, *free])}  # of the axes of x in a product
    # Both are masked: the zeros of other groups' rows times NaN are NaN.
    at = [place[axis] + 1 for axis in prefix]
    products = _mask(products, sizes, aval.shape[ragged], place[ragged] + 1, at)
    return (reduce_or_p if aval_of(products).dtype == np.bool_ else reduce_sum_p).bind(products, axes=(0,))


def _by_sums(x: Any, y: Any, sizes: Any, numbers: RaggedDotDimensionNumbers, *options: Any) -> Any:
    """A ragged axis that is summed over: the sums over each group."""
    (contracted, others), (batch, other_batch) = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    partner = dict(zip((*contracted, *batch), (*others, *other_batch), strict=True))
    prefix, length = _prefix(numbers, aval_of(x).ndim), aval_of(x).shape[ragged]
    left = _masked(x, sizes, length, ragged, prefix)
    right = _masked(y, sizes, length, partner[ragged], [partner[axis] for axis in prefix])
    shifted = [[tuple(d + 1 for d in axes) for axes in pair] for pair in numbers.dot_dimension_numbers]
    met, along = shifted
    whole = (tuple(met), ((0, *along[0]), (0, *along[1])))
    return dot_general(left, right, whole, *options)  # type: ignore[arg-type]


def _masked(x: Any, sizes: Any, length: int, ragged: int, prefix: Sequence[int]) -> Any:
    """x[g, ...]: for each group the array with zeros at what belongs to others."""
    shape = aval_of(x).shape
    count = aval_of(sizes).shape[-1]
    whole = broadcast_in_dim(x, (count, *shape), tuple(range(1, len(shape) + 1)))
    return _mask(whole, sizes, length, ragged + 1, [axis + 1 for axis in prefix])


def _mask(x: Any, sizes: Any, length: int, ragged: int, prefix: Sequence[int]) -> Any:
    """The array x[g, ...] where group g has the element, else 0."""
    is_member, along = _members(sizes, length)
    axes = (0, *prefix, ragged) if along > 2 else (0, ragged)
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    if order != list(range(len(axes))):
        is_member = transpose(is_member, tuple(order))
    dtype = aval_of(x).dtype
    zero = scalar_like(False if dtype == np.bool_ else 0, dtype)
    return where(broadcast_in_dim(is_member, aval_of(x).shape, tuple(axes[i] for i in order)), x, zero)


def _members(group_sizes: Any, count: int) -> tuple[Any, int]:
    """Which rows each group has: bool[g, ..., m]; and the number of axes."""
    sizes = convert_element_type(group_sizes, np.dtype(np.int32))
    ndim = aval_of(sizes).ndim
    if ndim > 1:
        sizes = transpose(sizes, (ndim - 1, *range(ndim - 1)))
    ends = cumsum_p.bind(sizes, axis=0, reverse=False)
    shape = (*aval_of(sizes).shape, count)
    row, end = iota(np.dtype(np.int32), shape, ndim), broadcast_in_dim(ends, shape, tuple(range(ndim)))
    start = sub(end, broadcast_in_dim(sizes, shape, tuple(range(ndim))))
    return and_(ge(row, start), lt(row, end)), ndim + 1
