"""How products of two matrices are written for the CPU, where XLA's own order of work is slow.

    x.T @ x, x @ x.T        is symmetric: the blocks on and above the diagonal are multiplied, the others are copied
    x.T @ y                 with rows of x of many multiples of 512 bytes: x is transposed before it is multiplied;
                            so is it where some 100 products are summed, as in the gradient of a weight by a batch

XLA multiplies a Gram matrix as any product, NumPy asks for half of it. And XLA reads a matrix that is summed down its
columns line by line of the cache, where lines at distances of powers of two displace each other. Processor
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
(512, 2048) 75, in blocks 108. Read next: `dot.py`, which asks for this.
"""

from __future__ import annotations

import itertools
from typing import Any

from didax.core.dims import is_symbolic
from didax.xla.text import FunctionContext, Value, function_type

_BLOCKS = 4
_LARGE = 1 << 14  # elements of a product


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
