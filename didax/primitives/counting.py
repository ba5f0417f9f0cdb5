"""Sums as programs are compiled: how many elements of a boolean array are true, and sums of arrays times numbers.

Programs count by `reduce_sum` of numbers that booleans were converted to. XLA writes these numbers to memory, four
bytes or more for each boolean, and adds them in a second loop. Here the booleans of a block are added as bytes, in
which up to 255 of them have room, so nothing but the booleans is read, and only totals of blocks are added as numbers.
A block has some 16 rows of 16 lanes, a loop that XLA writes out and LLVM vectorizes though the booleans are computed in
it; the barrier keeps XLA from adding blocks and totals in one loop. Milliseconds of the processor, fastest of 15, one
loaded AMD Zen core, blocks of 127 rows of 64 lanes without a barrier -> here, NumPy: 1,000,000 booleans 0.35 -> 0.08,
0.04 (JAX 3.2), 10,000,000 3.0 -> 0.7, 0.6, `(x > 0).sum()` of as many floats 5.7 -> 2.5, rows of 10,000 x 100 booleans
0.53 -> 0.08; of `isclose` of 1,000,000 0.37 -> 0.54.
On accelerators, and on several devices, the sum is plain. Read next: `shape.py`, for the sum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.dims import is_symbolic
from didax.primitives.reduced import cut_row, reduced_from

_UINT8 = np.dtype(np.uint8)


def lower_sum(ctx: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The sum over axes."""
    return _count(ctx, x, axes) or _weighted_sum(ctx, x, axes) or ctx.reduce(x, axes, "add", 0)


def _count(ctx: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The sum of `x` over axes if `x` was converted from booleans and its rows are long; None otherwise."""
    mask = ctx.masks.get(x.name) if ctx.masks and dtypes.is_integer(x.aval.dtype) else None
    if mask is None or not ctx.module.on_one_cpu:
        return None
    first = reduced_from(x.aval.ndim, axes)
    cut = cut_row(math.prod(x.aval.shape[first:]), lanes=16, rows=16)
    if cut is None:
        return None
    cells = ctx.convert(ctx.reshape(mask, (*x.aval.shape[:first], *cut)), _UINT8)
    totals = ctx.barrier(ctx.reduce(cells, [first + 1], "add", 0))
    return ctx.reduce(
        ctx.convert(totals, x.aval.dtype), [*(i for i in axes if i < first), first, first + 1], "add", 0
    )


_LARGE = 1 << 14  # elements of arrays whose weighted sum is written in rows


def _weighted_sum(ctx: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The sum of arrays, each multiplied by a number, as a sum of the rows of a matrix; None for other sums.

    XLA hands a product and its sum to a library, which goes through arrays of several axes against their order in
    memory. Processor microseconds, one loaded core of an AMD EPYC: 128 arrays of 32 x 64 1,690 -> 160, 64 of
    256 x 256 50,000 -> 3,000.
    """
    factors = ctx.factors.get(x.name)
    stop = len(axes)
    if factors is None or axes != tuple(range(stop)) or x.aval.ndim < stop + 2 or not ctx.module.on_one_cpu:
        return None
    if any(map(is_symbolic, x.aval.shape)) or x.aval.dtype != np.float32 or x.aval.size < _LARGE:
        return None
    count, kept = math.prod(x.aval.shape[:stop]), x.aval.shape[stop:]
    for weights, arrays in (factors, factors[::-1]):
        source, places = ctx.stretched.get(weights.name, (weights, range(x.aval.ndim)))
        own = [d for d, n in zip(places, source.aval.shape, strict=True) if n > 1]
        if source.aval.size == count and all(d < stop for d in own):
            matrix = x.aval.update(shape=(count, math.prod(kept)))
            weights = ctx.broadcast(ctx.reshape(source, (count,)), matrix, (0,))
            products = ctx.op("multiply", [weights, ctx.reshape(arrays, matrix.shape)])
            return ctx.reshape(ctx.reduce(products, [0], "add", 0), kept)
    return None


def lower_product(ctx: Any, x: Any, y: Any) -> Any:
    """The operation, and a note of its factors for sums of it."""
    out = ctx.op("multiply", [x, y], ctx.out_avals[0])
    ctx.factors[out.name] = x, y
    return out
