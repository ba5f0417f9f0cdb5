"""Many small systems at once, on the CPU: each step of the elimination is one for all matrices, by vector instructions.

    A X = B    Gaussian elimination, in which each step takes the largest element of a column as the pivot, and then
               substitution from the last row up

The equations lie side by side, as an array (rows, columns of A and of B, systems). LAPACK takes one matrix at a time,
and each call takes 0.1 microseconds before it computes. Rounding errors are those of LAPACK's elimination: residuals
and errors of matrices of any condition were 0.4 to 1.3 of LAPACK's. Processor microseconds for inverses of 1,000
float32 matrices, one loaded core, LAPACK -> here: 2 x 2 285 -> 63, 4 x 4 405 -> 117 (PyTorch 160), 8 x 8 1,000 -> 440,
12 x 12 2,000 -> 1,300; of 100 matrices 4 x 4 93 -> 60, of 10,000 3,700 -> 1,040. Read next: `solve.py`, which asks for
this.
"""

from __future__ import annotations

import math

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.dims import is_symbolic
from didax.primitives.linalg.matrix import INT32
from didax.xla.text import FunctionContext, Value
from didax.xla.written_calls import kept_apart

_BOOL = np.dtype(bool)
_MOST_ROWS = 8
_FEWEST = 128  # systems


def pays(ctx: FunctionContext, a: ShapedArray, b: ShapedArray) -> bool:
    """Whether systems are so many, and so small, that they are solved side by side."""
    here = ctx.module.on_one_cpu and not ctx.module.alone
    if not here or is_symbolic(a.size) or is_symbolic(b.size) or dtypes.is_complex(a.dtype):
        return False
    n, m = b.shape[-2:]
    return 2 <= n <= _MOST_ROWS and 1 <= m <= n and a.size >= _FEWEST * n * n


def lower_small_systems(ctx: FunctionContext, a: Value, b: Value) -> Value:
    """The X with A X = B; NaN where a pivot is 0."""
    n, m = b.aval.shape[-2:]
    count = a.aval.size // n**2
    sides = [ctx.transpose(ctx.reshape(x, (count, n, k)), (1, 2, 0)) for x, k in ((a, n), (b, m))]
    ok = ctx.constant(True, a.aval.update(shape=(count,), dtype=_BOOL))

    def goes_on(inner: FunctionContext, state: list[Value]) -> Value:
        return inner.compare("LT", state[0], inner.scalar(n, INT32))

    _, rows, ok = ctx.loop([ctx.scalar(0, INT32), ctx.concatenate(sides, 1), ok], goes_on, _eliminate)
    factors, x = ctx.slice_axis(rows, 0, n, 1), ctx.slice_axis(rows, n, n + m, 1)
    step = lambda inner, state: [*_substitute(inner, *state), state[2]]
    x = ctx.loop([ctx.scalar(1, INT32), x, factors], goes_on, step)[1]
    solved = ctx.broadcast(ok, x.aval.update(dtype=_BOOL), [2])
    x = ctx.select(solved, x, ctx.constant(math.nan, x.aval))
    return ctx.reshape(ctx.transpose(x, (2, 0, 1)), b.aval.shape)


def _eliminate(ctx: FunctionContext, state: list[Value]) -> list[Value]:
    """Step `k`: the row of the pivot becomes row k, over its pivot, and is subtracted from those below.

    Places of pivots and scaled rows are computed apart, otherwise XLA computes them anew for each element.
    """
    k, rows, ok = state
    (place,) = kept_apart(ctx, "place", [rows, k], lambda ctx, *xs: [_place_of_pivot(ctx, *xs)])
    scaled, pivot, moved, factors = kept_apart(ctx, "pivot_row", [rows, k, place], _pivot_row)
    others = ctx.select(_is_row(ctx, rows, place), ctx.broadcast(moved, rows.aval, [1, 2]), rows)
    scaled, factors = (ctx.broadcast(x, rows.aval, axes) for x, axes in ((scaled, [1, 2]), (factors, [0, 2])))
    left = ctx.op("subtract", [others, ctx.op("multiply", [factors, scaled])])
    left = ctx.select(_is_row(ctx, rows, k, "GT"), left, rows)
    nonzero = ctx.compare("NE", pivot, ctx.constant(0, pivot.aval))
    return [
        ctx.op("add", [k, ctx.scalar(1, INT32)]),
        ctx.select(_is_row(ctx, rows, k), scaled, left),
        ctx.op("and", [ok, nonzero]),
    ]


def _substitute(ctx: FunctionContext, step: Value, x: Value, factors: Value) -> list[Value]:
    """What row n - `step` of X contributes to the rows above is subtracted there."""
    k = ctx.op("subtract", [ctx.scalar(x.aval.shape[0], INT32), step])
    read = lambda inner, x, factors, k: [_at(inner, factors, k, 1), _at(inner, x, k, 0)]
    column, row = kept_apart(ctx, "row", [x, factors, k], read)
    product = ctx.op("multiply", [ctx.broadcast(column, x.aval, [0, 2]), ctx.broadcast(row, x.aval, [1, 2])])
    left = ctx.select(_is_row(ctx, x, k, "LT"), ctx.op("subtract", [x, product]), x)
    return [ctx.op("add", [step, ctx.scalar(1, INT32)]), left]


def _place_of_pivot(ctx: FunctionContext, rows: Value, k: Value) -> Value:
    """The first row from k on whose element of column k is largest; no row where they are NaN."""
    n, _, count = rows.aval.shape
    sizes = ctx.op("abs", [_at(ctx, rows, k, 1)])
    each = rows.aval.update(shape=(count,))
    place, largest = ctx.constant(n, each.update(dtype=INT32, weak_type=False)), ctx.constant(-1, each)
    for i in range(n):
        below = ctx.broadcast(ctx.compare("GE", ctx.scalar(i, INT32), k), each.update(dtype=_BOOL), [])
        size = _row(ctx, sizes, i)
        better = ctx.op("and", [below, ctx.compare("GT", size, largest)])
        place, largest = (
            ctx.select(better, ctx.constant(i, place.aval), place),
            ctx.select(better, size, largest),
        )
    return place


def _pivot_row(ctx: FunctionContext, rows: Value, k: Value, place: Value) -> list[Value]:
    """The pivot's row over the pivot, the pivot, row k, and column k after both have changed places."""
    n, width, count = rows.aval.shape
    row = rows.aval.update(shape=(width, count))
    found = ctx.constant(0, row)
    for i in range(n):
        is_it = ctx.compare("EQ", place, ctx.constant(i, place.aval))
        found = ctx.select(ctx.broadcast(is_it, row.update(dtype=_BOOL), [1]), _row(ctx, rows, i), found)
    pivot, moved, column = _at(ctx, found, k, 0), _at(ctx, rows, k, 0), _at(ctx, rows, k, 1)
    scaled = ctx.op("divide", [found, ctx.broadcast(pivot, row, [1])])
    moved_factor = ctx.broadcast(_at(ctx, moved, k, 0), column.aval, [1])
    return [scaled, pivot, moved, ctx.select(_is_row(ctx, column, place), moved_factor, column)]


def _is_row(ctx: FunctionContext, x: Value, i: Value, direction: str = "EQ") -> Value:
    """Where the place along the leading axis is `i`, a number or one for each system; or above it, or below it."""
    places = x.aval.update(dtype=INT32, weak_type=False)
    wanted = ctx.broadcast(i, places, [places.ndim - 1] if i.aval.ndim else [])
    return ctx.compare(direction, ctx.iota(places, 0), wanted)


def _at(ctx: FunctionContext, x: Value, k: Value, axis: int) -> Value:
    """Element k along an axis."""
    shape, zero = x.aval.shape, ctx.scalar(0, INT32)
    starts = [k if i == axis else zero for i in range(len(shape))]
    part = ctx.dynamic_slice(x, starts, [1 if i == axis else length for i, length in enumerate(shape)])
    return ctx.reshape(part, [length for i, length in enumerate(shape) if i != axis])


def _row(ctx: FunctionContext, x: Value, i: int) -> Value:
    """Element i of the leading axis."""
    return ctx.reshape(ctx.slice_axis(x, i, i + 1, 0), x.aval.shape[1:])
