"""How products of two matrices are written for the CPU, where XLA's own order of work is slow.

    x.T @ x, x @ x.T        is symmetric: the blocks on and above the diagonal are multiplied, the others are copied
    x.T @ y                 with rows of x of many multiples of 512 bytes: x is transposed before it is multiplied;
                            x is also transposed where sums have some 100 terms, as in the gradient of a weight

XLA multiplies a Gram matrix as any product, while NumPy computes half of it. And XLA reads a matrix that is summed down
its columns one cache line at a time, where lines at distances of powers of two displace each other. Processor
milliseconds, float32, one loaded core of an AMD EPYC:

    product, shapes                        XLA's    here    NumPy
    x.T @ x, (512, 512)                     4.8      3.1      2.0
    x.T @ x, (1024, 1024)                  61       32       21
    x.T @ x, (1000, 1000)                  27       20       13
    x.T @ x, (4096, 256)                    8.4      7.1      3.9
    x.T @ x, (4096, 512)                   49       31       21
    x @ x.T, (1000, 1000)                  34       21       13
    x.T @ y, (2048, 1024), (2048, 1024)   110       69       50
    x.T @ y, (4096, 512), (4096, 512)      41       32       25
    x.T @ y, (2048, 512), (2048, 64)        4.4      3.0      2.1
    x.T @ y, (64, 1024), (64, 64)           0.33     0.13
    x.T @ y, (128, 512), (128, 512)         1.1      0.79
    x.T @ y, (192, 256), (192, 256)         0.38     0.31
    x.T @ y, (128, 784), (128, 128)         0.35     0.32

The last four sums are short: XLA's library takes such products only if they are summed along rows. Left to XLA,
because they took longer: x.T @ y of twice (2048, 256) 4.4, transposed 5.3, of twice (1000, 1000) 28, 34; x.T @ x of
(512, 2048) 75, in blocks 108.

Many products of small matrices are sums of products of elements: XLA calls a library for each, which is slow for some
sizes and for all complex numbers. Processor microseconds for 3,000 products, the call of the program included:

    product                          XLA's   here
    (4, 4) @ (4, 4) float32           2249     67
    (4, 4) @ (4,)                      127     69
    (5, 5) @ (5, 5)                   4360    175
    (8, 8) @ (8, 8)                    175    136
    (4, 4) @ (4, 4) float64            595     61
    (3, 3) @ (3, 3) complex64         1345    148
    (4, 4) @ (4, 4) int32             1013     82

Read next: `dot.py`, which asks for this.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.dims import is_symbolic
from didax.xla.text import FunctionContext, Value, function_type
from didax.xla.written_calls import kept_apart

_BLOCKS = 4
_LARGE = 1 << 14  # elements of a product
_SMALL = 8  # rows, columns and terms of a product
_MANY = 16  # products


def lower_product(
    ctx: FunctionContext, x: Value, y: Value, x_axis: int, y_axis: int, precision: str
) -> Value | None:
    """The product of two matrices that sums over an axis of each; None where nothing is gained over XLA's own."""
    sizes = (*x.aval.shape, *y.aval.shape)
    if x.aval.dtype.name not in ("float32", "float64") or any(map(is_symbolic, sizes)):
        return None
    if not ctx.module.on_one_cpu or min(sizes) < 64:
        return None
    x, x_axis = _as_it_lies(ctx, x, x_axis)
    y, y_axis = _as_it_lies(ctx, y, y_axis)
    summed, rows = x.aval.shape[x_axis], x.aval.shape[1 - x_axis]
    if summed < 256:
        is_gradient = x_axis == y_axis == 0 and x.aval.dtype.itemsize == 4
        if not is_gradient or x.name == y.name or rows * y.aval.shape[1] < _LARGE:
            return None
        return _dot(ctx, ctx.barrier(ctx.transpose(x, (1, 0))), y, 1, y_axis, precision)
    if x.name == y.name and x_axis == y_axis and 256 <= rows <= min(2 * summed, 2048):
        return _gram(ctx, x, x_axis, precision)
    if x_axis == 0 and rows >= 512 and rows % 128 == 0:
        return _dot(ctx, ctx.barrier(ctx.transpose(x, (1, 0))), y, 1, y_axis, precision)
    return None


def lower_small_products(
    ctx: FunctionContext,
    x: Value,
    y: Value,
    numbers: tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]],
    out: ShapedArray,
) -> Value | None:
    """Products of many small matrices, as sums of products of elements; None for others."""
    (x_contract, y_contract), (x_batch, y_batch) = numbers
    if len(x_contract) != 1 or not _are_small(ctx, x.aval, y.aval, x_contract[0], x_batch):
        return None
    x_free, y_free = [
        [i for i in range(v.aval.ndim) if i not in (*contract, *batch)]
        for v, contract, batch in ((x, x_contract, x_batch), (y, y_contract, y_batch))
    ]
    # The axes of the result: the batch, then the free axes of `x`, then the free axes of `y`.
    x_places = {axis: place for place, axis in enumerate([*x_batch, *x_free])}
    y_places = {axis: place for place, axis in enumerate(y_batch)}
    y_places |= {axis: place for place, axis in enumerate(y_free, len(x_batch) + len(x_free))}

    def write(inner: FunctionContext, x: Value, y: Value) -> list[Value]:
        def factor(v: Value, axis: int, k: int, places: dict[int, int]) -> Value:
            others = [i for i in range(v.aval.ndim) if i != axis]
            cut = inner.reshape(inner.slice_axis(v, k, k + 1, axis), [v.aval.shape[i] for i in others])
            return inner.broadcast(cut, out, [places[i] for i in others])

        terms = [
            inner.op(
                "multiply", [factor(x, x_contract[0], k, x_places), factor(y, y_contract[0], k, y_places)]
            )
            for k in range(x.aval.shape[x_contract[0]])
        ]
        total = functools.reduce(lambda a, b: inner.op("add", [a, b]), terms)
        if not dtypes.is_float(out.dtype):
            return [total]
        zero = inner.constant(0, out)  # the sum begins with it, so it is never -0.0
        return [inner.select(inner.compare("EQ", total, zero), zero, total)]

    # Apart, so that an operand is computed once, not for each use.
    return kept_apart(ctx, "small_products", [x, y], write)[0]


def _are_small(
    ctx: FunctionContext, x: ShapedArray, y: ShapedArray, contract: int, batch: Sequence[int]
) -> bool:
    if not ctx.module.on_one_cpu or any(map(is_symbolic, (*x.shape, *y.shape))) or 0 in (x.size, y.size):
        return False
    if dtypes.kind_of(x.dtype) not in "ifc" or x.dtype.itemsize < 4:
        return False
    count, terms = math.prod([x.shape[i] for i in batch]), x.shape[contract]
    sizes = terms, x.size // (count * terms), y.size // (count * terms)
    return count >= _MANY and max(sizes) <= _SMALL and max(sizes[1:]) > 1


def _as_it_lies(ctx: FunctionContext, x: Value, axis: int) -> tuple[Value, int]:
    """The matrix that was transposed to `x`, and the axis there."""
    source = ctx.transposed.get(x.name)
    return (x, axis) if source is None else (source, 1 - axis)


def _gram(ctx: FunctionContext, x: Value, axis: int, precision: str) -> Value:
    n = x.aval.shape[1 - axis]
    cuts = [n * i // _BLOCKS for i in range(_BLOCKS + 1)]
    above: list[Value] = []
    out: list[Value] = []
    for start, stop in itertools.pairwise(cuts):
        first, rest = [ctx.slice_axis(x, start, limit, 1 - axis) for limit in (stop, n)]
        row = _dot(ctx, first, rest, axis, axis, precision)
        left = [
            ctx.slice_axis(other, start - n + other.aval.shape[1], stop - n + other.aval.shape[1], 1)
            for other in above
        ]
        out.append(ctx.concatenate([*[ctx.transpose(block, (1, 0)) for block in left], row], 1))
        above.append(row)
    return ctx.concatenate(out, 0)


def _dot(ctx: FunctionContext, x: Value, y: Value, x_axis: int, y_axis: int, precision: str) -> Value:
    out: Any = x.aval.update(shape=(x.aval.shape[1 - x_axis], y.aval.shape[1 - y_axis]))
    return ctx.emit(
        f"stablehlo.dot_general {x}, {y}, contracting_dims = [{x_axis}] x [{y_axis}], precision = [{precision}] : "
        f"{function_type([x, y], [out])}",
        out,
    )
