"""`dot_general`: every product of two arrays that sums over shared axes.

    out[b, i, j] = sum_k x[b, i, k] * y[b, k, j]

`dimension_numbers = ((x_contract, y_contract), (x_batch, y_batch))` names, in pairs, the axes that are
summed over (k) and those that are walked together (b). The result has the batch axes in the order they are
named, then the remaining ("free") axes of x, then those of y. It is bilinear, and closed under its rules:
tangents, cotangents and batches are again `dot_general`s of the operands as they stand, so that no axis is
moved that XLA would not move anyway. Read next: `didax/lax/dot.py`, the functions users call;
`convolution.py`, the other bilinear operation.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core import config, dtypes
from didax.core.array_ops import Zero, add_tangents
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic
from didax.core.errors import message
from didax.core.jaxpr_print import register_param_type
from didax.core.primitive import Primitive, Rule, infer
from didax.passes.sparsity import Dependence, along_axes, by_basis, selected, union
from didax.primitives import padded, split
from didax.primitives.convert import convert_element_type
from didax.primitives.products import lower_product, lower_small_products
from didax.primitives.shape import transpose
from didax.transforms.batching import AxisData
from didax.transforms.jet import Series, cauchy
from didax.transforms.transpose import is_undef
from didax.xla.text import function_type

Axes = tuple[int, ...]
DimensionNumbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]


@register_param_type
class Precision(enum.Enum):
    """How exactly an accelerator multiplies float32, from DEFAULT (fast, narrow) to HIGHEST (in full).

    >>> import didax.numpy as dnp
    >>> dnp.dot(dnp.array([1.0, 2.0]), dnp.array([3.0, 4.0]), precision=Precision.HIGHEST)
    Array(11., dtype=float32)
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        """`Precision("high")`, as in JAX."""
        return cls.DEFAULT if value is None else PRECISIONS.get(str(value))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Precision.{self.name}"


PRECISIONS = {
    "default": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
}

Precisions = tuple[Precision, Precision] | None


def free_axes(ndim: int, contract: Axes, batch: Axes) -> Axes:
    """Axes that are neither summed over nor batch axes."""
    return tuple([i for i in range(ndim) if i not in contract and i not in batch])


def _neighbours(x: ShapedArray, y: ShapedArray, contract: Any) -> list[tuple[Axes, Axes]]:
    """The summed axes in runs that lie next to each other, in the same order, in both operands.

    The runs are in the order of the larger operand, because XLA moves the axes of the other one if its order differs:
    with one operand eight times as large, bki,ijk->bj took twice as long in the order of the smaller one.
    """
    sizes = x.size, y.size
    by_y = not any(map(is_symbolic, sizes)) and sizes[0] < sizes[1]
    runs: list[tuple[Axes, Axes]] = []
    for i, j in sorted(zip(*contract, strict=True), key=lambda pair: pair[by_y]):
        if runs and (runs[-1][0][-1] + 1, runs[-1][1][-1] + 1) == (i, j):
            runs[-1] = (*runs[-1][0], i), (*runs[-1][1], j)
        else:
            runs.append(((i,), (j,)))
    return runs


def _merged(ctx: Any, x: Any, runs: Sequence[Axes], batch: Axes) -> tuple[Any, list[int], list[int]]:
    """`x` with each run of axes as one axis, where those axes are then, and where the batch axes are.

    XLA moves several summed axes before it sums. Left to it, the gradient of a weight that is applied to a batch of
    sequences took 1.5 times as long.
    """
    gone = {i for run in runs for i in run[1:]}
    sizes = {run[0]: math.prod(x.aval.shape[i] for i in run) for run in runs}
    kept = [i for i in range(x.aval.ndim) if i not in gone]
    if gone:
        x = ctx.op("reshape", [x], x.aval.update(shape=tuple(sizes.get(i, x.aval.shape[i]) for i in kept)))
    return x, [kept.index(run[0]) for run in runs], [kept.index(i) for i in batch]


class BilinearContraction(Primitive):
    """A sum of products of two arrays, linear in each; `preferred_element_type` is the dtype of the sum."""

    materializes_operands = True
    in_supported_dtype = True

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        (x, y), (x_dot, y_dot) = primals, tangents
        out = self.bind(x, y, **params)
        out_dot: Any = Zero(aval_of(out).tangent())
        if type(x_dot) is not Zero:
            out_dot = self.bind(x_dot, y, **params)
        if type(y_dot) is not Zero:
            out_dot = add_tangents(out_dot, self.bind(x, y_dot, **params))
        return out, out_dot

    def taylor(self, k: int, out: Series, args: Sequence[Series], **params: Any) -> Any:
        x, y = args
        return cauchy(lambda x, y: self.bind(x, y, **params), k, x, y)

    def sparsity(self, operands: Sequence[Dependence], **params: Any) -> Any:
        (aval,) = infer(self, tuple([x.aval for x in operands]), params)
        return by_basis(self, operands, params, aval)

    def out_dtype(self, x: ShapedArray, y: ShapedArray, preferred: np.dtype[Any] | None) -> np.dtype[Any]:
        """Dtype of the result; TypeError where the operands' dtypes differ or do not go with `preferred`."""
        if x.dtype != y.dtype:
            raise TypeError(
                message(
                    f"{self.name} takes operands of one dtype.",
                    f"lhs: {x}, rhs: {y}",
                    fix="Cast one of them (x.astype); preferred_element_type is the dtype of the result.",
                )
            )
        if preferred is None or preferred == x.dtype:
            return x.dtype
        if not _holds_sums_of(preferred, x.dtype):
            raise TypeError(
                message(
                    f"{self.name} sums in a dtype of the operands' kind or a wider one, no narrower.",
                    f"lhs: {x}, rhs: {y}, preferred_element_type: {preferred.name}",
                    fix="Leave preferred_element_type out and cast the result (out.astype).",
                )
            )
        return preferred


_WIDTH_OF_KIND = {"b": 0, "i": 1, "u": 1, "f": 2}


def _holds_sums_of(preferred: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    kinds = dtypes.kind_of(dtype), dtypes.kind_of(preferred)
    if "c" in kinds:
        return kinds[0] == kinds[1]
    if kinds[0] in "iu" and kinds[1] in "iu":
        return preferred.itemsize >= dtype.itemsize
    return _WIDTH_OF_KIND[kinds[0]] <= _WIDTH_OF_KIND[kinds[1]]


def operand_dtype(out: np.dtype[Any], dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Dtype in which the operands enter XLA: their own, or the result's when that is of another kind.

    Operands narrower than a byte enter in the result's dtype, too: XLA does not widen them.
    """
    own = dtypes.kind_of(out) == dtypes.kind_of(dtype) and not dtypes.is_sub_byte(dtype)
    return dtype if own else out


def accumulation_dtype(out: np.dtype[Any], dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Dtype NumPy computes in: float32 for narrower floats, else the wider of operand and result."""
    if not dtypes.is_inexact(out) or (out is dtype and out.itemsize > 2):
        return out
    return dtypes.join(dtypes.at_least_single(out), False, dtypes.at_least_single(dtype), False)[0]


def match_cotangent(ct: Any, x: Any) -> tuple[Any, Any]:
    """Cotangent and known operand in one dtype: with preferred_element_type their dtypes may differ."""
    out, dtype = aval_of(ct).dtype, aval_of(x).dtype
    if out == dtype:
        return ct, x
    wide = accumulation_dtype(out, dtype)
    return convert_element_type(ct, wide), convert_element_type(x, wide)


class DotGeneral(BilinearContraction):
    """Sum of products over named axes, with batch axes."""

    casts_weak_operands = False
    sharding = split.contracted
    padded = padded.contracted

    def type(
        self,
        x: ShapedArray,
        y: ShapedArray,
        *,
        dimension_numbers: DimensionNumbers,
        precision: Precisions,
        preferred_element_type: np.dtype[Any] | None,
    ) -> ShapedArray:
        (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
        _check_axes("lhs", x, x_contract, x_batch)
        _check_axes("rhs", y, y_contract, y_batch)
        _check_lengths("contracting", x, y, x_contract, y_contract)
        _check_lengths("batch", x, y, x_batch, y_batch)
        shape = [
            *(x.shape[i] for i in x_batch),
            *(x.shape[i] for i in free_axes(x.ndim, x_contract, x_batch)),
            *(y.shape[i] for i in free_axes(y.ndim, y_contract, y_batch)),
        ]
        dtype = self.out_dtype(x, y, preferred_element_type)
        return ShapedArray(tuple(shape), dtype, x.weak_type and y.weak_type and dtype == x.dtype)

    def sparsity(self, operands: Sequence[Dependence], **params: Any) -> Any:
        """By the axes alone where a number of the other operand is not known: a row of one, a column of the other."""
        (aval,) = infer(self, tuple([x.aval for x in operands]), params)
        sides = list(zip(operands, *params["dimension_numbers"], strict=True))
        return by_basis(self, operands, params, aval, lambda: union(_rows_by_axes(sides, aval.shape)))

    def eager_for(self, avals: tuple[ShapedArray, ...]) -> Rule:
        # NumPy and XLA add in different orders, and programs written for JAX compare compiled layers with eager ones
        # bit by bit.
        if config.state().as_in_jax and dtypes.is_inexact(avals[0].dtype):
            return None
        return super().eager_for(avals)

    def eager(
        self,
        x: Any,
        y: Any,
        *,
        dimension_numbers: DimensionNumbers,
        precision: Precisions,
        preferred_element_type: np.dtype[Any] | None,
    ) -> Any:
        out = preferred_element_type or x.dtype
        inner = accumulation_dtype(out, x.dtype)
        if x.dtype != inner:
            x, y = x.astype(inner), y.astype(inner)
        z = _numpy_dot(x, y, dimension_numbers)
        return z if inner == out else z.astype(out)

    def eager_text(
        self,
        source: Any,
        names: Sequence[str],
        avals: Sequence[ShapedArray],
        *,
        dimension_numbers: Any,
        **more: Any,
    ) -> str | None:
        dtype = avals[0].dtype
        if dtype.isbuiltin != 1 or dtype.itemsize <= 2 or more["preferred_element_type"] not in (None, dtype):
            return None
        return f"{source.given(_numpy_dot)}({', '.join(names)}, {source.given(dimension_numbers)})"

    def lower(
        self,
        ctx: Any,
        x: Any,
        y: Any,
        *,
        dimension_numbers: DimensionNumbers,
        precision: Precisions,
        preferred_element_type: np.dtype[Any] | None,
    ) -> Any:
        (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
        out = ctx.out_avals[0]
        inner = operand_dtype(out.dtype, x.aval.dtype)
        if not ctx.module.on_cpu and inner == np.int8 and out.dtype == np.int32:
            inner = inner if _in_fours(x.aval, y.aval, dimension_numbers) else out.dtype
        x, y = ctx.convert(x, inner), ctx.convert(y, inner)
        if ctx.module.partitioned_here:
            return _lower_partitioned(ctx, x, y, dimension_numbers, precision)
        runs = _neighbours(x.aval, y.aval, (x_contract, y_contract))
        x, x_contract, x_batch = _merged(ctx, x, [run for run, _ in runs], x_batch)
        y, y_contract, y_batch = _merged(ctx, y, [run for _, run in runs], y_batch)
        are_matrices = x.aval.ndim == y.aval.ndim == 2 and not x_batch
        if are_matrices and len(x_contract) == len(y_contract) == 1 and out.dtype == inner:
            found = lower_product(ctx, x, y, x_contract[0], y_contract[0], precision_names(precision))
            if found is not None:
                return found
        numbers = (x_contract, y_contract), (x_batch, y_batch)
        if out.dtype == inner and (found := lower_small_products(ctx, x, y, numbers, out)) is not None:
            return found
        if not x_batch and _sums_within_large(ctx, x, y, x_contract, y_contract):
            return _emit_turned(ctx, x, y, (x_contract, y_contract), precision, out)
        if rows := _summed_rows(ctx, y, tuple(y_contract), tuple(y_batch)):
            y, _, _ = _merged(ctx, y, [rows], ())
            numbers = (x_contract, [y.aval.ndim - 1]), (x_batch, y_batch)
            merged = out.update(shape=(*out.shape[: -len(rows)], y.aval.shape[-2]))
            return ctx.reshape(_emit_dot(ctx, x, y, numbers, precision, merged), out.shape)
        return _emit_dot(ctx, x, y, numbers, precision, out)

    def transpose(
        self,
        ct: Any,
        x: Any,
        y: Any,
        *,
        dimension_numbers: DimensionNumbers,
        precision: Precisions,
        preferred_element_type: np.dtype[Any] | None,
    ) -> list[Any]:
        (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
        left, right = _Operand(x, x_contract, x_batch), _Operand(y, y_contract, y_batch)
        split = len(x_batch) + len(left.free)  # the free axes of y come after those of x in ct
        if is_undef(x):
            return [_cotangent(ct, tuple(range(split, aval_of(ct).ndim)), left, right, precision), None]
        return [None, _cotangent(ct, tuple(range(len(x_batch), split)), right, left, precision)]

    def batch(
        self,
        axis: AxisData,
        args: Sequence[Any],
        dims: Sequence[int | None],
        *,
        dimension_numbers: Any,
        **params: Any,
    ) -> tuple[Any, int]:
        (x, y), (x_dim, y_dim) = args, dims
        contract, batch = dimension_numbers
        (x_contract, y_contract), (x_batch, y_batch) = contract, batch
        new_x = shifted(x_contract, x_dim), shifted(x_batch, x_dim)
        new_y = shifted(y_contract, y_dim), shifted(y_batch, y_dim)
        if x_dim is not None and y_dim is not None:
            new_batch = (x_dim, *new_x[1]), (y_dim, *new_y[1])
            out_dim = 0
        else:  # the batch axis of one operand is one more free axis
            new_batch = new_x[1], new_y[1]
            x_free = free_axes(aval_of(x).ndim, *new_x)
            y_free = free_axes(aval_of(y).ndim, *new_y)
            place = x_free.index(x_dim) if x_dim is not None else len(x_free) + y_free.index(y_dim)
            out_dim = len(x_batch) + place
        numbers = (new_x[0], new_y[0]), new_batch
        return self.bind(x, y, dimension_numbers=numbers, **params), out_dim


def _in_fours(x: ShapedArray, y: ShapedArray, dims: DimensionNumbers) -> bool:
    """Whether the matrices of a product have multiples of four rows and columns, as the cuBLAS of int8 asks for.

    XLA fills up other ones, and gave twice the product of (3, 4) and (4, 2) on an H100 (jaxlib 0.11.2).
    """
    (x_contract, y_contract), (x_batch, y_batch) = dims
    sizes = [
        math.prod([a.shape[i] for i in axes])
        for a, axes in (
            (x, x_contract),
            (x, free_axes(x.ndim, x_contract, x_batch)),
            (y, free_axes(y.ndim, y_contract, y_batch)),
        )
    ]
    return not any([is_symbolic(n) or n % 4 for n in sizes])


def _lower_partitioned(ctx: Any, x: Any, y: Any, dims: DimensionNumbers, precision: Precisions) -> Any:
    """The product where the partitioner cuts it. Axes are not merged: each may be split along another axis of the mesh.

    The partitioner heeds the left operand first. Where both operands are summed along their leading axes, the right
    one is most often the cotangent of a layer's result: it is written on the left, so that the cotangent of the weights
    lies as the cotangents before it, and not as the layer's input.
    """
    (x_contract, y_contract), (x_batch, _) = dims
    out = ctx.out_avals[0]
    if x_batch or x_contract != y_contract or x_contract != tuple(range(len(x_contract))):
        return _emit_dot(ctx, x, y, dims, precision, out)
    return _emit_turned(ctx, x, y, dims[0], precision, out)


def _summed_rows(ctx: Any, y: Any, contract: Axes, batch: Axes) -> Axes:
    """The axes of the rows of the right operand, if they are several, and are summed over.

    XLA moves the summed axis of such an operand before the others, a copy at each call. The rows of one axis are a
    matrix, which its library takes transposed. Processor microseconds, one loaded core of an AMD EPYC:

        (50), (4, 50, 50)           26 -> 16
        (64), (64, 128, 64)        332 -> 47
        (32, 64), (64, 128, 64)    641 -> 415
    """
    last = y.aval.ndim - 1
    free = free_axes(y.aval.ndim, contract, batch)
    several = len(free) > 1 and list(contract) == [last] and list(batch) == list(range(len(batch)))
    return free if several and ctx.module.on_one_cpu and not any(map(is_symbolic, y.aval.shape)) else ()


_LARGE = 1 << 18  # elements of an operand


def _sums_within_large(ctx: Any, x: Any, y: Any, x_contract: Any, y_contract: Any) -> bool:
    """Whether a matrix is summed down its columns, with a large array that is summed along an axis within.

    Gradients of weights by shared inputs are such sums: one for each cotangent of a batch, as in `jacrev`. XLA first
    moves the summed axis to an end. If it goes to the front, both operands are summed down their columns, which XLA's
    library does not take. With the array on the left, the axis goes to the end. Processor milliseconds, one loaded core
    of an AMD EPYC:

        (128, 64), (64, 128, 64)      2.6 -> 1.7
        (512, 128), (32, 512, 32)     3.7 -> 2.2
        (512, 784), (4, 512, 128)    12.6 -> 11.1
        (128, 64), (8, 128, 64)       0.35 -> 0.40, so such arrays do not count as large
    """
    shape = y.aval.shape
    if not ctx.module.on_one_cpu or any(map(is_symbolic, (*x.aval.shape, *shape))):
        return False
    within = len(y_contract) == 1 and 0 < y_contract[0] < len(shape) - 1
    return within and list(x_contract) == [0] and x.aval.ndim == 2 and math.prod(shape) >= _LARGE


def _emit_turned(ctx: Any, x: Any, y: Any, contract: Any, precision: Precisions, out: ShapedArray) -> Any:
    """The product without batch axes, computed as `y` times `x`, and then its axes are moved."""
    x_contract, y_contract = contract
    from_x = x.aval.ndim - len(x_contract)
    order = (*range(from_x, out.ndim), *range(from_x))
    turned = out.update(shape=tuple([out.shape[i] for i in order]))
    dims = (y_contract, x_contract), ((), ())
    product = _emit_dot(ctx, y, x, dims, precision and (precision[1], precision[0]), turned)
    return ctx.transpose(product, inverse_permutation(order))


def _emit_dot(ctx: Any, x: Any, y: Any, dims: Any, precision: Precisions, out: ShapedArray) -> Any:
    (x_contract, y_contract), (x_batch, y_batch) = dims
    batching = f"batching_dims = {list(x_batch)} x {list(y_batch)}, " if x_batch else ""
    return ctx.emit(
        f"stablehlo.dot_general {x}, {y}, {batching}"
        f"contracting_dims = {list(x_contract)} x {list(y_contract)}, "
        f"precision = [{precision_names(precision)}] : {function_type([x, y], [out])}",
        out,
    )


def shifted(axes: Axes, dim: int | None) -> Axes:
    """Axes of one element as axes of the batch."""
    return axes if dim is None else tuple([i + (i >= dim) for i in axes])


def precision_names(precision: Precisions) -> str:
    """The two operands' precisions as StableHLO names them."""
    return ", ".join([p.name for p in precision or (Precision.DEFAULT, Precision.DEFAULT)])


def _rows_by_axes(sides: Sequence[tuple[Dependence, Axes, Axes]], shape: Axes) -> list[Any]:
    """Rows that a product has from each operand with its contracting and batch axes, whatever the other one holds."""
    found: list[Any] = []
    first = len(sides[0][2])  # where the free axes of the operand are in the result
    for x, contract, batch in sides:
        left = [i for i in range(x.aval.ndim) if i not in contract]
        free = [i for i in left if i not in batch]
        lengths = tuple([x.aval.shape[i] for i in left])
        numbers = np.arange(math.prod(lengths)).reshape(lengths)
        numbers = numbers.transpose([left.index(i) for i in (*batch, *free)])
        places = [*range(len(batch)), *range(first, first + len(free))]
        numbers = np.expand_dims(numbers, [i for i in range(len(shape)) if i not in places])
        summed = Dependence(x.aval.update(shape=lengths), rows=along_axes(x, contract))
        found.append(selected(summed, np.broadcast_to(numbers, shape)))
        first += len(free)
    return found


class _Operand(NamedTuple):
    """An operand with its axes."""

    value: Any
    contract: Axes
    batch: Axes

    @property
    def free(self) -> Axes:
        return free_axes(aval_of(self.value).ndim, self.contract, self.batch)


def _cotangent(ct: Any, ct_contract: Axes, linear: _Operand, other: _Operand, precision: Precisions) -> Any:
    """Cotangent of the operand `linear`: `ct` times the other one, summed over the other one's free axes.

    The axes of `linear` come out as batch, free, contracted with `ct` on the left, as batch, contracted,
    free with `ct` on the right: the side is chosen that leaves them in place, if there is one.
    """
    ct, y = match_cotangent(ct, other.value)
    left = _Operand(ct, ct_contract, tuple(range(len(linear.batch))))
    right = _Operand(y, other.free, other.batch)
    contracted = tuple([i for _, i in sorted(zip(other.contract, linear.contract, strict=True))])
    order = linear.batch + contracted + linear.free
    if order == tuple(range(len(order))):
        left, right = right, left
    else:
        order = linear.batch + linear.free + contracted
    numbers = (left.contract, right.contract), (left.batch, right.batch)
    out = dot_general_p.bind(
        left.value, right.value, dimension_numbers=numbers, precision=precision, preferred_element_type=None
    )
    dtype, out = linear.value.aval.dtype, transpose(out, inverse_permutation(order))
    return out if aval_of(out).dtype == dtype else convert_element_type(out, dtype)


def inverse_permutation(order: Axes) -> Axes:
    """The permutation that undoes `order`."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _numpy_dot(x: Any, y: Any, dimension_numbers: DimensionNumbers) -> Any:
    (x_contract, y_contract), (x_batch, _) = dimension_numbers
    if not x_batch and x_contract == (x.ndim - 1,) and y_contract == (0,) and y.ndim <= 2:
        return np.dot(x, y)
    x_order, x_shape, y_order, y_shape, shape = _matmul_plan(x.shape, y.shape, dimension_numbers)
    return np.matmul(x.transpose(x_order).reshape(x_shape), y.transpose(y_order).reshape(y_shape)).reshape(
        shape
    )


@functools.lru_cache(4096)
def _matmul_plan(x_shape: Axes, y_shape: Axes, dimension_numbers: DimensionNumbers) -> tuple[Axes, ...]:
    """Axis orders and shapes that make stacks of matrices of the operands; last, the shape of the result."""
    (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
    x_free = free_axes(len(x_shape), x_contract, x_batch)
    y_free = free_axes(len(y_shape), y_contract, y_batch)

    def lengths(shape: Axes, axes: Axes) -> Axes:
        return tuple(shape[i] for i in axes)

    batch, rows, columns = lengths(x_shape, x_batch), lengths(x_shape, x_free), lengths(y_shape, y_free)
    summed = math.prod(lengths(x_shape, x_contract))
    return (
        x_batch + x_free + x_contract,
        (*batch, math.prod(rows), summed),
        y_batch + y_contract + y_free,
        (*batch, summed, math.prod(columns)),
        batch + rows + columns,
    )


def _check_axes(which: str, x: ShapedArray, contract: Axes, batch: Axes) -> None:
    axes = contract + batch
    if len(set(axes)) != len(axes) or any(not 0 <= i < x.ndim for i in axes):
        raise TypeError(
            message(
                "dot_general takes distinct axes of each operand, each either contracting or batch.",
                f"{which}: {x}, contracting axes: {contract}, batch axes: {batch}",
                fix=f"Name axes from 0 to {x.ndim - 1}, each at most once."
                if x.ndim
                else "A scalar has no axes.",
            )
        )


def _check_lengths(what: str, x: ShapedArray, y: ShapedArray, x_axes: Axes, y_axes: Axes) -> None:
    x_lengths, y_lengths = [x.shape[i] for i in x_axes], [y.shape[i] for i in y_axes]
    if x_lengths != y_lengths:
        raise TypeError(
            message(
                f"dot_general needs as many {what} axes of lhs as of rhs, pairwise of one length.",
                f"lhs: {x}, {what} axes {x_axes} of lengths {tuple(x_lengths)}",
                f"rhs: {y}, {what} axes {y_axes} of lengths {tuple(y_lengths)}",
                fix="Name other axes, or transpose or reshape an operand.",
            )
        )


dot_general_p = DotGeneral("dot_general")
