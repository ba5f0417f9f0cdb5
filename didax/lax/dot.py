"""Products of arrays: `dot_general` and its common special cases.

Operands have one dtype here; `didax.numpy` (matmul, einsum, tensordot) promotes. Read next:
`primitives/dot.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core import config, dtypes
from didax.core.avals import aval_of
from didax.core.errors import message
from didax.lax.operands import operation
from didax.primitives.convert import convert_element_type, iota
from didax.primitives.cumulative import cumsum_p
from didax.primitives.dot import Precision, dot_general_p
from didax.primitives.elementwise import and_, ge, lt, sub
from didax.primitives.reductions import reduce_or_p
from didax.primitives.scalars import match_scalars, scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, reduce_sum_p

__all__ = [
    "DotDimensionNumbers",
    "DotAlgorithmPreset",
    "Precision",
    "PrecisionLike",
    "batch_matmul",
    "dot",
    "dot_general",
    "ragged_dot",
]

DotDimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


class DotAlgorithmPreset(enum.Enum):
    """Algorithms of products by their operands' and their sums' dtypes; each stands for the precision that it needs.

    The backends choose the algorithm themselves, so one that rounds more than is asked for is never taken.
    """

    DEFAULT = "default"
    ANY_F8_ANY_F8_F32 = "default", 1
    ANY_F8_ANY_F8_F32_FAST_ACCUM = "default", 2
    ANY_F8_ANY_F8_ANY = "default", 3
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = "default", 4
    F16_F16_F16 = "default", 5
    F16_F16_F32 = "default", 6
    BF16_BF16_BF16 = "default", 7
    BF16_BF16_F32 = "default", 8
    BF16_BF16_F32_X3 = "high", 1
    TF32_TF32_F32 = "high", 2
    BF16_BF16_F32_X6 = "highest", 1
    BF16_BF16_F32_X9 = "highest", 2
    TF32_TF32_F32_X3 = "highest", 3
    F32_F32_F32 = "highest", 4
    F64_F64_F64 = "highest", 5


PrecisionLike = None | str | Precision | DotAlgorithmPreset | tuple[str, str] | tuple[Precision, Precision]

_PRECISIONS = {
    "default": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
}


@operation
def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return the product of two arrays of one dtype, summed over contracting axes, element by element over batch axes.

    `dimension_numbers` is `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`. The result has the
    batch axes, then the other axes of `lhs`, then the other axes of `rhs`. `preferred_element_type` is the
    dtype of the sums and the result.

    >>> import numpy as np
    >>> from didax import lax
    >>> a, b = np.ones((5, 2, 3), "float32"), np.ones((5, 3, 4), "float32")
    >>> lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,)))).shape
    (5, 2, 4)
    """
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    lhs, rhs = match_scalars((lhs, rhs))
    return dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=((_axes(lhs_contract), _axes(rhs_contract)), (_axes(lhs_batch), _axes(rhs_batch))),
        precision=canonicalize_precision(precision),
        preferred_element_type=canonicalize_element_type(preferred_element_type),
    )


@operation
def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return the product of vectors and matrices; for other arrays `dimension_numbers` is needed, as in `dot_general`.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.dot(np.arange(3.0, dtype="float32"), np.arange(3.0, dtype="float32"))
    Array(5., dtype=float32)
    """
    if dimension_numbers is None:
        x, y = aval_of(lhs), aval_of(rhs)
        if not (1 <= x.ndim <= 2 and 1 <= y.ndim <= 2 and x.shape[-1] == y.shape[0]):
            raise ValueError(
                message(
                    "dot takes vectors and matrices; it sums over the last axis of lhs and the first of rhs.",
                    f"lhs: {x}, rhs: {y}",
                    fix="Make these axes equally long, or say with dimension_numbers which axes to sum over.",
                )
            )
        dimension_numbers = (((x.ndim - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


@operation
def batch_matmul(lhs: Any, rhs: Any, precision: PrecisionLike = None) -> Any:
    """Return the matrix products of two stacks: the last two axes are matrices, the axes before them agree.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.batch_matmul(np.ones((5, 2, 3), "float32"), np.ones((5, 3, 4), "float32")).shape
    (5, 2, 4)
    """
    x, y = aval_of(lhs), aval_of(rhs)
    if x.ndim < 2 or x.ndim != y.ndim:
        raise ValueError(
            message(
                "batch_matmul takes two stacks of matrices with as many axes, at least two.",
                f"lhs: {x}, rhs: {y}",
                fix="Broadcast one of them, or use didax.numpy.matmul, which does.",
            )
        )
    batch = tuple(range(x.ndim - 2))
    return dot_general(lhs, rhs, (((x.ndim - 1,), (x.ndim - 2,)), (batch, batch)), precision)


@operation
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
                fix="Map over other axes with vmap.",
            )
        )
    if not dtypes.is_integer(sizes.dtype) or group_offset is not None:
        facts = f"group_sizes: {sizes}, group_offset: {group_offset}"
        fix = "Cast the sizes; slice rhs in place of a group_offset."
        raise TypeError(
            message("ragged_dot counts rows with integers, from the first group on.", facts, fix=fix)
        )
    is_member = _members(group_sizes, x.shape[0])
    rows = _masked(broadcast_in_dim(lhs, (y.shape[0], *x.shape), (1, 2)), is_member)
    numbers = (((2,), (1,)), ((0,), (0,)))
    # Both are masked, because a NaN in one group is no reason for NaN in another one, in a derivative neither.
    products = _masked(dot_general(rows, rhs, numbers, precision, preferred_element_type), is_member)
    return (reduce_or_p if aval_of(products).dtype == np.bool_ else reduce_sum_p).bind(products, axes=(0,))


def _members(group_sizes: Any, count: int) -> Any:
    """Which rows each group has: bool[g, m]."""
    sizes = convert_element_type(group_sizes, np.dtype(np.int32))
    ends = cumsum_p.bind(sizes, axis=0, reverse=False)
    shape = (aval_of(sizes).shape[0], count)
    row, end = iota(np.dtype(np.int32), shape, 1), broadcast_in_dim(ends, shape, (0,))
    start = sub(end, broadcast_in_dim(sizes, shape, (0,)))
    return and_(ge(row, start), lt(row, end))


def _masked(x: Any, is_member: Any) -> Any:
    """x[g, m, n] where group g has row m, else 0."""
    dtype = aval_of(x).dtype
    zero = scalar_like(False if dtype == np.bool_ else 0, dtype)
    return where(broadcast_in_dim(is_member, aval_of(x).shape, (0, 1)), x, zero)


def canonicalize_precision(precision: PrecisionLike) -> tuple[Precision, Precision] | None:
    """Return a precision for each operand; None where neither the caller nor default_matmul_precision gives one."""
    if precision is None:
        default = config.state().default_matmul_precision
        return None if default == "default" else (_precision(default), _precision(default))
    if isinstance(precision, tuple | list) and len(precision) == 2:
        return _precision(precision[0]), _precision(precision[1])
    return _precision(precision), _precision(precision)


def _precision(given: Any) -> Precision:
    if isinstance(given, DotAlgorithmPreset):
        given = given.value if isinstance(given.value, str) else given.value[0]
    found = (
        given if isinstance(given, Precision) else _PRECISIONS.get(given) if isinstance(given, str) else None
    )
    if found is None:
        raise ValueError(
            message(
                "precision is a Precision, its name, or a pair of these for the two operands.",
                f"precision: {given!r}",
                fix=f"Use one of {', '.join(map(repr, _PRECISIONS))}.",
            )
        )
    return found


def canonicalize_element_type(dtype: Any) -> np.dtype[Any] | None:
    """Return the dtype that `preferred_element_type` names, None for None."""
    return None if dtype is None else dtypes.dtype(dtype)


def _axes(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple([int(i) for i in axes])
