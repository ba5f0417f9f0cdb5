"""Many small systems at once, on the CPU: each step of the elimination is one for all matrices, by vector instructions.

    A X = B    Gaussian elimination, in which each step takes the largest element of a column as the pivot, and then
               substitution from the last row up
    det A      the product of the pivots

The equations lie side by side, as an array (rows, columns of A and of B, systems). LAPACK takes one matrix at a time,
and each call takes 0.1 microseconds before it computes. The pivots are LAPACK's, and so are rounding errors: for 4,000
matrices each that were random, graded, of condition 1e3 and 1e6, nearly singular or Hilbert's, residuals of solutions
were 0.5 to 1.0 of LAPACK's and errors of inverses 0.3 to 1.1 (medians and 99 %). Processor microseconds for inverses of
1,000 float32 matrices, one loaded core, LAPACK -> here: 2 x 2 285 -> 65, 4 x 4 405 -> 120 (PyTorch 160), 8 x 8 1,000 ->
480; of 100 matrices 4 x 4 93 -> 60, of 10,000 3,700 -> 1,100; determinants of 1,000 matrices 4 x 4 215 -> 67 (PyTorch
70). Read next: `solve.py`, which asks for this.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.dims import is_symbolic
from didax.primitives.linalg.matrix import INT32
from didax.xla.text import FunctionContext, Value
from didax.xla.written_calls import kept_apart, one_kernel

_BOOL = np.dtype(bool)
_MOST_ROWS = 8
_FEWEST = 128  # systems

# Note [Small systems in one kernel]
# As one kernel, loops and all, the elimination takes half of the time to compile, and as long to run (of 8 rows half
# as long). XLA cuts a long operation for several threads, and refuses the program where it is in such a kernel: on
# two cores and more from 1,960 systems of four rows on, and from 469 of more rows. The kernel has one result, as XLA
# ends the process where one of several is not used.
_FEW_ROWS = 4
_MOST_OF_FEW_ROWS, _MOST_OF_MORE_ROWS = 1024, 256  # systems in one kernel


def pays(ctx: FunctionContext, a: ShapedArray, sides: int = 0) -> bool:
    """Whether matrices, with so many right-hand sides, are so many and so small that they go side by side."""
    here = ctx.module.on_one_cpu and not ctx.module.alone
    if not here or is_symbolic(a.size) or is_symbolic(sides) or dtypes.is_complex(a.dtype):
        return False
    n = a.shape[-1]
    return 2 <= n <= _MOST_ROWS and sides <= n and a.size >= _FEWEST * n * n


def lower_small_systems(ctx: FunctionContext, a: Value, b: Value) -> Value:
    """The X with A X = B; NaN where a pivot is 0."""
    x = _together(ctx, "solved", [_beside(ctx, a), _beside(ctx, b)], _solved)
    return ctx.reshape(ctx.transpose(x, (2, 0, 1)), b.aval.shape)


def lower_small_pivots(ctx: FunctionContext, a: Value) -> list[Value]:
    """Whether the number of exchanges of rows is odd, and the pivots."""
    batch, n = a.aval.shape[:-2], a.aval.shape[-1]
    found = _together(ctx, "pivots", [_beside(ctx, a)], _pivots_and_odd)
    pivots, odd = ctx.slice_axis(found, 0, n, 0), ctx.reshape(ctx.slice_axis(found, n, n + 1, 0), batch)
    odd = ctx.compare("NE", odd, ctx.constant(0, odd.aval))
    return [odd, ctx.reshape(ctx.transpose(pivots, (1, 0)), (*batch, n))]


def _together(ctx: FunctionContext, name: str, operands: list[Value], write: Callable[..., Value]) -> Value:
    """What `write` computes, as one kernel if there are few systems. See Note [Small systems in one kernel]."""
    n, _, count = operands[0].aval.shape
    most = _MOST_OF_FEW_ROWS if n <= _FEW_ROWS else _MOST_OF_MORE_ROWS
    if count <= most and all(x.aval.size for x in operands):
        return one_kernel(ctx, name, operands, write)
    return write(ctx, *operands)


def _solved(ctx: FunctionContext, a: Value, b: Value) -> Value:
    n, m = b.aval.shape[:2]
    rows, pivots, _ = _eliminated(ctx, ctx.concatenate([a, b], 1))
    factors, x = ctx.slice_axis(rows, 0, n, 1), ctx.slice_axis(rows, n, n + m, 1)
    step = lambda inner, state: [*_substitute(inner, *state), state[2]]
    x = ctx.loop([ctx.scalar(0, INT32), x, factors], functools.partial(_goes_on, n), step)[1]
    solved = ctx.reduce(ctx.compare("NE", pivots, ctx.constant(0, pivots.aval)), [0], "and", True)
    return ctx.select(
        ctx.broadcast(solved, x.aval.update(dtype=_BOOL), [2]), x, ctx.constant(math.nan, x.aval)
    )


def _pivots_and_odd(ctx: FunctionContext, a: Value) -> Value:
    """The pivots, and below them 1 where the number of exchanges is odd."""
    _, pivots, odd = _eliminated(ctx, a)
    odd = ctx.convert(ctx.reshape(odd, (1, *odd.aval.shape)), pivots.aval.dtype)
    return ctx.concatenate([pivots, odd], 0)


def _beside(ctx: FunctionContext, x: Value) -> Value:
    """Matrices as an array (rows, columns, matrices)."""
    rows, columns = x.aval.shape[-2:]
    return ctx.transpose(ctx.reshape(x, (x.aval.size // (rows * columns), rows, columns)), (1, 2, 0))


def _eliminated(ctx: FunctionContext, rows: Value) -> list[Value]:
    """Triangular rows, the pivots, and whether the number of exchanges is odd."""
    n, _, count = rows.aval.shape
    pivots = ctx.constant(0, rows.aval.update(shape=(n, count)))
    odd = ctx.constant(False, rows.aval.update(shape=(count,), dtype=_BOOL))
    start = [ctx.scalar(0, INT32), rows, pivots, odd]
    return ctx.loop(start, functools.partial(_goes_on, n), _eliminate)[1:]


def _goes_on(n: int, ctx: FunctionContext, state: list[Value]) -> Value:
    return ctx.compare("LT", state[0], ctx.scalar(n, INT32))


def _eliminate(ctx: FunctionContext, state: list[Value]) -> list[Value]:
    """Step `k`: the row of the pivot becomes row k, and a multiple of it is subtracted from each row below.

    Multiples are those of LAPACK, so that equal rows leave exact zeros. Places of pivots, rows and multiples are
    computed apart, otherwise XLA computes them anew for each element.
    """
    k, rows, pivots, odd = state
    (place,) = kept_apart(ctx, "place", [rows, k], lambda ctx, *xs: [_place_of_pivot(ctx, *xs)])
    found, pivot, moved, factors = kept_apart(ctx, "pivot_row", [rows, k, place], _pivot_row)
    others = ctx.select(_is_row(ctx, rows, place), ctx.broadcast(moved, rows.aval, [1, 2]), rows)
    found, factors = (ctx.broadcast(x, rows.aval, axes) for x, axes in ((found, [1, 2]), (factors, [0, 2])))
    left = ctx.op("subtract", [others, ctx.op("multiply", [factors, found])])
    left = ctx.select(_is_row(ctx, rows, k, "GT"), left, rows)
    exchanged = ctx.compare("NE", place, ctx.broadcast(k, place.aval, []))
    row = ctx.reshape(pivot, (1, *pivot.aval.shape))
    return [
        ctx.op("add", [k, ctx.scalar(1, INT32)]),
        ctx.select(_is_row(ctx, rows, k), found, left),
        ctx.dynamic_update_slice(pivots, row, [k, ctx.scalar(0, INT32)]),
        ctx.op("xor", [odd, exchanged]),
    ]


def _substitute(ctx: FunctionContext, step: Value, x: Value, factors: Value) -> list[Value]:
    """The last row of X but `step`; what it contributes to the rows above is subtracted there."""
    k = ctx.op("subtract", [ctx.scalar(x.aval.shape[0] - 1, INT32), step])
    column, row = kept_apart(ctx, "row", [x, factors, k], _solved_row)
    row = ctx.broadcast(row, x.aval, [1, 2])
    product = ctx.op("multiply", [ctx.broadcast(column, x.aval, [0, 2]), row])
    left = ctx.select(_is_row(ctx, x, k, "LT"), ctx.op("subtract", [x, product]), x)
    return [ctx.op("add", [step, ctx.scalar(1, INT32)]), ctx.select(_is_row(ctx, x, k), row, left)]


def _solved_row(ctx: FunctionContext, x: Value, factors: Value, k: Value) -> list[Value]:
    """Column k of the factors, and row k of X over the pivot."""
    column, row = _at(ctx, factors, k, 1), _at(ctx, x, k, 0)
    return [column, ctx.op("divide", [row, ctx.broadcast(_at(ctx, column, k, 0), row.aval, [1])])]


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
    """The pivot's row, the pivot, row k, and the multiples: column k, after both changed places, over the pivot.

    Where the pivot is 0 there is nothing to eliminate, and nothing is divided.
    """
    n, width, count = rows.aval.shape
    row = rows.aval.update(shape=(width, count))
    found = ctx.constant(math.nan, row)
    for i in range(n):
        is_it = ctx.compare("EQ", place, ctx.constant(i, place.aval))
        found = ctx.select(ctx.broadcast(is_it, row.update(dtype=_BOOL), [1]), _row(ctx, rows, i), found)
    pivot, moved, column = _at(ctx, found, k, 0), _at(ctx, rows, k, 0), _at(ctx, rows, k, 1)
    is_zero = ctx.compare("EQ", pivot, ctx.constant(0, pivot.aval))
    divisor = ctx.select(is_zero, ctx.constant(1, pivot.aval), pivot)
    moved_factor = ctx.broadcast(_at(ctx, moved, k, 0), column.aval, [1])
    column = ctx.select(_is_row(ctx, column, place), moved_factor, column)
    return [found, pivot, moved, ctx.op("divide", [column, ctx.broadcast(divisor, column.aval, [1])])]


def _is_row(ctx: FunctionContext, x: Value, i: Value, direction: str = "EQ") -> Value:
    """Where the place along the leading axis is `i`, or above or below it; `i` may differ between the systems."""
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
