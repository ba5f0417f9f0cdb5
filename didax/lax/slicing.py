"""Parts of arrays: slice, pad, concatenate, rev, the dynamic forms of slices, gather and scatter.

Sizes and axes are Python integers; only the start indices of the dynamic forms and the index arrays of gather
and scatter may be traced. NumPy's notation (`x[...]`, `x.at[...]`) is built on these functions and is usually
the better choice. Read next: `primitives/slicing.py`, `primitives/gather.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.api.flat import as_array
from didax.api.whole_functions import evaluated_whole
from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import as_length, is_symbolic
from didax.core.dtypes import PYTHON_SCALARS
from didax.core.errors import ArgumentError, PositionError, message
from didax.lax.operands import operation
from didax.primitives import slicing
from didax.primitives.convert import convert_element_type
from didax.primitives.dimension import number
from didax.primitives.elementwise import add, lt
from didax.primitives.gather import (
    Scatter,
    gather_p,
    read_back,
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from didax.primitives.scalars import match_scalars, scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim
from didax.primitives.shape import reshape as reshape_to
from didax.primitives.window_positions import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)

__all__ = [
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "ScatterDimensionNumbers",
    "concatenate",
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "expand_dims",
    "gather",
    "index_in_dim",
    "index_take",
    "pad",
    "rev",
    "scatter",
    "scatter_add",
    "scatter_apply",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_sub",
    "slice",
    "slice_in_dim",
    "split",
    "squeeze",
]

Mode = str | GatherScatterMode | None


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(map(as_length, values))


def canonical_axis(function: str, x: ShapedArray, axis: Any, ndim: int | None = None) -> int:
    """Return `axis` counted from the front; ValueError when there is no such axis (of `ndim`, by default x.ndim)."""
    n, axis = x.ndim if ndim is None else ndim, operator.index(axis)
    if not -n <= axis < n:
        fix = f"Name an axis from {-n} to {n - 1}." if n else "A scalar has no axes."
        raise PositionError(message(f"{function} has no such axis.", f"operand: {x}, axis: {axis}", fix=fix))
    return axis + n if axis < 0 else axis


# --- Static windows -----------------------------------------------------------------------------------------


@operation
def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """Return the elements `start, start + stride, ...` below `limit` along each axis; bounds lie inside the operand.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.slice(np.arange(10), (2,), (9,), (3,))
    Array([2, 5, 8], dtype=int32)
    """
    starts, limits = _ints(start_indices), _ints(limit_indices)
    steps = None if strides is None else _ints(strides)
    if steps is not None and all(k == 1 for k in steps):
        steps = None
    return slicing.slice_p.bind(operand, start_indices=starts, limit_indices=limits, strides=steps)


@operation
def slice_in_dim(
    operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Any:
    """Return `operand[start_index:limit_index:stride]` along one axis; negative bounds count from the end.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.slice_in_dim(np.arange(6), 1, -1, 2)
    Array([1, 3], dtype=int32)
    """
    aval = aval_of(operand)
    axis = canonical_axis("slice_in_dim", aval, axis)
    length = aval.shape[axis]
    start = 0 if start_index is None else as_length(start_index)
    limit = length if limit_index is None else as_length(limit_index)
    start, limit = [i + length if i < 0 else i for i in (start, limit)]
    return slicing.slice_axis(operand, start, limit, axis, operator.index(stride))


@operation
def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """Return the elements at one static index along an axis; IndexError when the index is out of range.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.index_in_dim(np.arange(6).reshape(2, 3), -1, axis=1, keepdims=False)
    Array([2, 5], dtype=int32)
    """
    aval = aval_of(operand)
    axis = canonical_axis("index_in_dim", aval, axis)
    n, index = aval.shape[axis], operator.index(index)
    if not -n <= index < n:
        facts = f"index: {index}, axis: {axis} of length {n}, operand: {aval}"
        raise IndexError(
            message("index_in_dim got an index out of range.", facts, fix=f"Use -{n} to {n - 1}.")
        )
    index = index + n if index < 0 else index
    result = slicing.slice_axis(operand, index, index + 1, axis)
    return result if keepdims else squeeze(result, (axis,))


@operation
def concatenate(operands: Any, dimension: int) -> Any:
    """Return arrays of one dtype joined along an axis.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.concatenate([np.ones((2, 3)), np.zeros((2, 1))], 1).shape
    (2, 4)
    """
    operands = list(operands)
    if not operands:
        raise ValueError(
            message("concatenate needs at least one array.", "operands: []", fix="Pass the arrays to join.")
        )
    return slicing.concatenate_p.bind(
        *operands, dimension=canonical_axis("concatenate", aval_of(operands[0]), dimension)
    )


@operation
def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """Return the operand padded by `(low, high, interior)` for each axis; negative `low` and `high` remove elements.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.pad(np.array([1, 2, 3]), 0, [(1, 0, 1)])
    Array([0, 1, 0, 2, 0, 3], dtype=int32)
    """
    operand, padding_value = match_scalars((operand, padding_value))
    return slicing.pad_p.bind(
        operand, padding_value, padding_config=tuple([_ints(p) for p in padding_config])
    )


@operation
def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """Return the operand with its elements in reverse order along some axes.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.rev(np.array([1, 2, 3]), (0,))
    Array([3, 2, 1], dtype=int32)
    """
    aval = aval_of(operand)
    return slicing.rev_p.bind(operand, dimensions=tuple([canonical_axis("rev", aval, i) for i in dimensions]))


@operation
def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Return consecutive pieces of the given sizes along an axis; the sizes add up to the length of the axis.

    >>> from didax import lax
    >>> import numpy as np
    >>> [piece.shape for piece in lax.split(np.ones((6, 2)), (1, 5))]
    [(1, 2), (5, 2)]
    """
    axis = canonical_axis("split", aval_of(operand), axis)
    return slicing.split_p.bind(operand, sizes=_ints(sizes), axis=axis)


@operation
def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """Return the array without the given axes, each of length 1.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.squeeze(np.ones((1, 3, 1)), (0, -1)).shape
    (3,)
    """
    aval = aval_of(array)
    axes = [canonical_axis("squeeze", aval, i) for i in dimensions]
    if len(set(axes)) != len(axes) or any(aval.shape[i] != 1 for i in axes):
        fix = "Name only axes of length 1, or select an element along the others."
        raise ValueError(
            message(
                "squeeze removes distinct axes of length 1.",
                f"array: {aval}, dimensions: {tuple(dimensions)}",
                fix=fix,
            )
        )
    return as_array(reshape_to(array, tuple([n for i, n in enumerate(aval.shape) if i not in axes])))


@operation
def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """Return the array with new axes of length 1, at the given positions of the result.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.expand_dims(np.ones(3), (0, -1)).shape
    (1, 3, 1)
    """
    aval = aval_of(array)
    ndim = aval.ndim + len(dimensions)
    axes = {canonical_axis("expand_dims", aval, i, ndim) for i in dimensions}
    if len(axes) != len(dimensions):
        facts = f"array: {aval}, dimensions: {tuple(dimensions)}"
        raise ValueError(message("expand_dims takes distinct axes.", facts, fix="Name each new axis once."))
    lengths = iter(aval.shape)
    return as_array(reshape_to(array, tuple([1 if i in axes else next(lengths) for i in range(ndim)])))


# --- Windows at a traced position ---------------------------------------------------------------------------


@operation
def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """Return a window of static sizes; the start indices may be traced.

    A window that would reach beyond the operand is moved inside. Negative start indices count from the end,
    where allowed.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.dynamic_slice(np.arange(6), (4,), (3,))
    Array([3, 4, 5], dtype=int32)
    """
    return _window(operand, start_indices, slice_sizes, allow_negative_indices)


def _window(operand: Any, starts: Any, sizes: Any, allow_negative_indices: Any) -> Any:
    starts = start_scalars("dynamic_slice", aval_of(operand), starts, allow_negative_indices)
    return slicing.dynamic_slice_p.bind(operand, *starts, slice_sizes=_ints(sizes))


@operation
def dynamic_update_slice(
    operand: Any, update: Any, start_indices: Any, *, allow_negative_indices: bool | Sequence[bool] = True
) -> Any:
    """Return the operand with a window overwritten by `update`; start indices are as in `dynamic_slice`.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.dynamic_update_slice(np.arange(6), np.array([7, 8]), (2,))
    Array([0, 1, 7, 8, 4, 5], dtype=int32)
    """
    starts = start_scalars("dynamic_update_slice", aval_of(operand), start_indices, allow_negative_indices)
    operand, update = match_scalars((operand, update))
    return slicing.dynamic_update_slice_p.bind(operand, update, *starts)


def start_scalars(
    function: str, x: ShapedArray, starts: Any, allow_negative: bool | Sequence[bool]
) -> Sequence[Any]:
    """Return start indices as scalars of one dtype; negative indices, which count from the end, are made positive."""
    if hasattr(starts, "ndim"):  # one array with an index per axis
        starts = [reshape_to(slicing.slice_(starts, (i,), (i + 1,)), ()) for i in range(aval_of(starts).size)]
    starts = [i.__jax_array__() if is_symbolic(i) else i for i in starts]
    if len(starts) != x.ndim:
        facts = f"operand: {x}, start_indices: {len(starts)}"
        raise ArgumentError(
            message(f"{function} needs a start index for each axis.", facts, fix="Pass one integer per axis.")
        )
    wraps = [allow_negative] * x.ndim if isinstance(allow_negative, bool) else list(allow_negative)
    starts = [wrapped(i, n) if wrap else i for i, n, wrap in zip(starts, x.shape, wraps, strict=True)]
    return of_one_dtype(starts)


def wrapped(index: Any, length: int) -> Any:
    """Return an index that, where negative, counted from the end, counted from the front."""
    if type(index) is int:
        index = index + length if index < 0 else index
        return number(index, dtypes.default_dtype(int)) if is_symbolic(index) else index
    dtype = aval_of(index).dtype
    if not dtypes.is_integer(dtype) or not dtypes.is_signed(dtype):
        return index
    if dtype.itemsize < 4 if is_symbolic(length) else length > dtypes.iinfo(dtype).max:
        index = convert_element_type(index, np.promote_types(dtype, dtypes.position_dtype(length + 1)))
    if is_symbolic(length):
        length = number(length, aval_of(index).dtype)
    return where(lt(index, 0), add(index, length), index)


def of_one_dtype(indices: Sequence[Any]) -> Sequence[Any]:
    """Return integers in one dtype: the dtype of the arrays among them if they agree, else one that holds them all."""
    arrays = {aval_of(i).dtype for i in indices if type(i) not in PYTHON_SCALARS}
    if not arrays or not all(map(dtypes.is_integer, arrays)):
        return indices
    narrow = all(d.itemsize < 4 or d == np.int32 for d in arrays)
    common = arrays.pop() if len(arrays) == 1 else np.dtype(np.int32 if narrow else np.int64)
    if common.itemsize < 4:
        common = np.dtype(np.int32)
    return [scalar_like(i, common) if type(i) is int else convert_element_type(i, common) for i in indices]


def _at_axis(
    function: str, x: ShapedArray, start: Any, size: int, axis: int
) -> tuple[int, list[Any], list[int]]:
    """Return the axis, start indices and sizes of a window that is whole along the other axes."""
    axis = canonical_axis(function, x, axis)
    starts: list[Any] = [0] * x.ndim
    starts[axis] = start
    return axis, starts, [size if i == axis else n for i, n in enumerate(x.shape)]


@operation
def dynamic_slice_in_dim(
    operand: Any, start_index: Any, slice_size: int, axis: int = 0, *, allow_negative_indices: bool = True
) -> Any:
    """Return the window that `dynamic_slice` gives along one axis, whole along the others.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.dynamic_slice_in_dim(np.ones((5, 2)), 1, 3).shape
    (3, 2)
    """
    _, starts, sizes = _at_axis("dynamic_slice_in_dim", aval_of(operand), start_index, slice_size, axis)
    return _window(operand, starts, sizes, allow_negative_indices)


@operation
def dynamic_index_in_dim(
    operand: Any, index: Any, axis: int = 0, keepdims: bool = True, *, allow_negative_indices: bool = True
) -> Any:
    """Return the elements at one index along an axis; the index may be traced.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.dynamic_index_in_dim(np.arange(5), 2, keepdims=False)
    Array(2, dtype=int32)
    """
    axis, starts, sizes = _at_axis("dynamic_index_in_dim", aval_of(operand), index, 1, axis)
    result = _window(operand, starts, sizes, allow_negative_indices)
    return result if keepdims else squeeze(result, (axis,))


@operation
@evaluated_whole
def dynamic_update_slice_in_dim(
    operand: Any, update: Any, start_index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """Return the operand with a window along one axis overwritten, as in `dynamic_update_slice`.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.dynamic_update_slice_in_dim(np.zeros((3, 1)), np.ones((2, 1)), 0, axis=0).sum()
    Array(2., dtype=float32)
    """
    _, starts, _ = _at_axis("dynamic_update_slice_in_dim", aval_of(operand), start_index, 1, axis)
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=allow_negative_indices)


@operation
@evaluated_whole
def dynamic_update_index_in_dim(
    operand: Any, update: Any, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Any:
    """Return the operand with the elements at one index along an axis overwritten; `update` may lack this axis.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.dynamic_update_index_in_dim(np.array([1., 2.]), 5., 1, axis=0)
    Array([1., 5.], dtype=float32)
    """
    aval = aval_of(operand)
    axis = canonical_axis("dynamic_update_index_in_dim", aval, axis)
    operand, update = match_scalars((operand, update))
    shape = tuple([1 if i == axis else n for i, n in enumerate(aval.shape)])
    if aval_of(update).ndim != aval.ndim:
        kept = tuple([i for i in range(aval.ndim) if i != axis][aval.ndim - 1 - aval_of(update).ndim :])
        update = broadcast_in_dim(update, shape, kept)
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )


# --- gather and scatter -------------------------------------------------------------------------------------


@operation
def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Mode = None,
    fill_value: Any = None,
) -> Any:
    """Return windows of the operand at the positions in the last axis of `start_indices`.

    `mode` says what a window that reaches beyond the operand reads: "fill" (`fill_value`, else NaN or an extreme
    value), "clip" (the window is moved inside), or "promise_in_bounds", the default: none does.

    >>> from didax import lax
    >>> import numpy as np
    >>> rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> lax.gather(np.eye(3, dtype="float32"), np.array([[2], [0]]), rows, (1, 3))
    Array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    if fill_value is not None:
        fill_value = np.asarray(fill_value).item()
    return gather_p.bind(
        operand,
        start_indices,
        dimension_numbers=GatherDimensionNumbers(*[_ints(axes) for axes in dimension_numbers]),
        slice_sizes=_ints(slice_sizes),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any("promise_in_bounds" if mode is None else mode),
        fill_value=None if fill_value is not None and fill_value != fill_value else fill_value,
    )


@operation
def index_take(src: Any, idxs: Any, axes: Sequence[int]) -> Any:
    """Return elements of `src` at index arrays for some axes, whole along the other axes; indices are in bounds.

    >>> from didax import lax
    >>> import numpy as np
    >>> lax.index_take(np.arange(12).reshape(3, 4), (np.array([0, 2]), np.array([1, 1])), (0, 1))
    Array([1, 9], dtype=int32)
    """
    aval = aval_of(src)
    axes = tuple([canonical_axis("index_take", aval, i) for i in axes])
    columns = [expand_dims(i, (aval_of(i).ndim,)) for i in idxs]
    indices = concatenate(columns, aval_of(columns[0]).ndim - 1)
    batch = aval_of(indices).ndim - 1
    kept = aval.ndim - len(axes)
    return gather(
        src,
        indices,
        GatherDimensionNumbers(tuple(range(batch, batch + kept)), tuple(sorted(axes)), axes),
        [1 if i in axes else n for i, n in enumerate(aval.shape)],
        mode="promise_in_bounds",
    )


def _scatter(primitive: Scatter, doc: str, example: str) -> Callable[..., Any]:
    """Make the public function of a scatter primitive."""

    def function(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
    ) -> Any:
        operand, updates = match_scalars((operand, updates))
        return primitive.bind(
            operand,
            scatter_indices,
            updates,
            dimension_numbers=ScatterDimensionNumbers(*[_ints(axes) for axes in dimension_numbers]),
            indices_are_sorted=bool(indices_are_sorted),
            unique_indices=bool(unique_indices),
            mode=GatherScatterMode.from_any(mode),
        )

    function.__name__ = function.__qualname__ = primitive.name
    function.__doc__ = f"""{doc}

    A window that sticks out is dropped by default (`mode`: "drop", "clip" or "promise_in_bounds").

    >>> from didax import lax
    >>> import numpy as np
    >>> elements = lax.ScatterDimensionNumbers((), (0,), scatter_dims_to_operand_dims=(0,))
    >>> lax.{primitive.name}(np.array([1., 2., 3.]), np.array([[1], [1]]), np.array([5., 4.]), elements)
    {example}
    """
    return operation(function)


scatter = _scatter(
    scatter_p,
    "Return the operand with windows overwritten; where windows overlap, the last update stays.",
    "Array([1., 4., 3.], dtype=float32)",
)
scatter_add = _scatter(
    scatter_add_p,
    "Return the operand with updates added to windows.",
    "Array([ 1., 11.,  3.], dtype=float32)",
)
scatter_sub = _scatter(
    scatter_sub_p,
    "Return the operand with updates subtracted from windows.",
    "Array([ 1., -7.,  3.], dtype=float32)",
)
scatter_mul = _scatter(
    scatter_mul_p,
    "Return the operand with windows multiplied by updates.",
    "Array([ 1., 40.,  3.], dtype=float32)",
)
scatter_min = _scatter(
    scatter_min_p,
    "Return the operand with the minimum of its windows and the updates in the windows.",
    "Array([1., 2., 3.], dtype=float32)",
)
scatter_max = _scatter(
    scatter_max_p,
    "Return the operand with the maximum of its windows and the updates in the windows.",
    "Array([1., 5., 3.], dtype=float32)",
)


@operation
def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
) -> Any:
    """Return the operand with `func` applied to windows of shape `update_shape`, once where indices repeat.

    >>> from didax import lax
    >>> import numpy as np
    >>> elements = lax.ScatterDimensionNumbers((), (0,), scatter_dims_to_operand_dims=(0,))
    >>> lax.scatter_apply(np.array([1., 2.]), np.array([[1]]), lambda x: x * 10, elements, update_shape=(1,))
    Array([ 1., 20.], dtype=float32)
    """
    flags = {
        "dimension_numbers": ScatterDimensionNumbers(*[_ints(axes) for axes in dimension_numbers]),
        "indices_are_sorted": bool(indices_are_sorted),
        "unique_indices": bool(unique_indices),
        "mode": GatherScatterMode.from_any(mode),
    }
    return scatter_p.bind(
        operand,
        scatter_indices,
        func(read_back(operand, scatter_indices, _ints(update_shape), flags)),
        **flags,
    )
