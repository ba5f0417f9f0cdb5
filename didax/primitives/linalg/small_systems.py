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
from collections.abc import Callable, Sequence

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

# Note [Small systems in one kernel] The loops of the elimination hold nine kernels, which XLA would compile one by
# one at 25 to 45 ms each, and start one by one at each step. As one kernel they compile in a third of the time, and
# most run faster: 200 inverses 4 x 4 0.74 -> 0.26 s of the processor (JAX 0.49) and 47 -> 35 us, 1,000 of 8 x 8 0.80
# -> 0.50 s and 680 -> 550 us, determinants of 200 matrices 4 x 4 0.57 -> 0.24 s. XLA cuts what is large for several
# threads, and cannot do so within a kernel: it ends with an error. It cuts results of 512 kB, and where operations
# outnumber the bytes read and written, what has 200,000 of operations and ten times the bytes. A step has eight
# operations for each element, and reads and writes eight bytes. So a block of matrices has 2,048 elements, or 32
# matrices, and arrays of more than 256 kB are left to many kernels.

_BLOCK = 2048  # elements of the systems of a block
_MOST_IN_KERNEL = 1 << 18  # bytes of an array

Write = Callable[[FunctionContext, Sequence[Value]], list[Value]]


def pays(ctx: FunctionContext, a: ShapedArray, sides: int = 0) -> bool:
    """Whether matrices, with so many right-hand sides, are so many and so small that they go side by side."""
    here = ctx.module.on_one_cpu and not ctx.module.alone
    if not here or is_symbolic(a.size) or is_symbolic(sides) or dtypes.is_complex(a.dtype):
        return False
    n = a.shape[-1]
    return 2 <= n <= _MOST_ROWS and sides <= n and a.size >= _FEWEST * n * n


def lower_small_systems(ctx: FunctionContext, a: Value, b: Value) -> Value:
    """The X with A X = B; NaN where a pivot is 0."""
    sides = _in_a_row(ctx, b)
    (x,) = _in_blocks(ctx, "systems", [_in_a_row(ctx, a), sides], [sides], _solve)
    return ctx.reshape(x, b.aval.shape)


def lower_small_pivots(ctx: FunctionContext, a: Value) -> list[Value]:
    """Whether the number of exchanges of rows is odd, and the pivots."""
    batch, n = a.aval.shape[:-2], a.aval.shape[-1]
    a = _in_a_row(ctx, a)
    count = a.aval.shape[0]
    odd = ctx.constant(False, a.aval.update(shape=(count,), dtype=_BOOL, weak_type=False))
    pivots = ctx.constant(0, a.aval.update(shape=(count, n)))
    odd, pivots = _in_blocks(ctx, "pivots", [a], [odd, pivots], _pivots)
    return [ctx.reshape(odd, batch), ctx.reshape(pivots, (*batch, n))]


def _in_a_row(ctx: FunctionContext, x: Value) -> Value:
    """Matrices of several batch axes as an array (matrices, rows, columns)."""
    rows, columns = x.aval.shape[-2:]
    return ctx.reshape(x, (x.aval.size // (rows * columns), rows, columns))


def _in_blocks(
    ctx: FunctionContext, name: str, xs: Sequence[Value], outs: Sequence[Value], write: Write
) -> list[Value]:
    """What `write` makes of matrices, like `outs`: of a block of them at a time, all in one kernel.

    See Note [Small systems in one kernel]. The results are written over `outs`, which nothing else reads.
    """
    count = xs[0].aval.shape[0]
    if max([x.aval.size * x.aval.dtype.itemsize for x in xs]) > _MOST_IN_KERNEL:
        return write(ctx, xs)
    elements = sum([x.aval.size // count for x in xs])
    block = min(count, max(_BLOCK // elements // 32, 1) * 32)

    def step(inner: FunctionContext, state: list[Value]) -> list[Value]:
        start, *found = state[: 1 + len(outs)]
        parts = [_rows_from(inner, x, start, block) for x in state[1 + len(outs) :]]
        found = [
            _with_rows(inner, out, part, start) for out, part in zip(found, write(inner, parts), strict=True)
        ]
        return [inner.op("add", [start, inner.scalar(block, INT32)]), *found, *state[1 + len(outs) :]]

    def whole(inner: FunctionContext, *values: Value) -> list[Value]:
        start = inner.scalar(0, INT32)
        return inner.loop([start, *values], functools.partial(_goes_on, count), step)[1 : 1 + len(outs)]

    return one_kernel(ctx, name, [*outs, *xs], whole)


def _rows_from(ctx: FunctionContext, x: Value, start: Value, count: int) -> Value:
    """`count` elements along the leading axis, the last ones where fewer are left."""
    return ctx.dynamic_slice(
        x, [start, *[ctx.scalar(0, INT32)] * (x.aval.ndim - 1)], [count, *x.aval.shape[1:]]
    )


def _with_rows(ctx: FunctionContext, x: Value, rows: Value, start: Value) -> Value:
    return ctx.dynamic_update_slice(x, rows, [start, *[ctx.scalar(0, INT32)] * (x.aval.ndim - 1)])


def _solve(ctx: FunctionContext, xs: Sequence[Value]) -> list[Value]:
    """The solutions of systems, as arrays (systems, rows, columns)."""
    a, b = xs
    n, m = b.aval.shape[-2:]
    rows, pivots, _ = _eliminated(ctx, ctx.concatenate([_beside(ctx, a), _beside(ctx, b)], 1))
    factors, x = ctx.slice_axis(rows, 0, n, 1), ctx.slice_axis(rows, n, n + m, 1)
    step = lambda inner, state: [*_substitute(inner, *state), state[2]]
    x = ctx.loop([ctx.scalar(0, INT32), x, factors], functools.partial(_goes_on, n), step)[1]
    solved = ctx.reduce(ctx.compare("NE", pivots, ctx.constant(0, pivots.aval)), [0], "and", True)
    x = ctx.select(ctx.broadcast(solved, x.aval.update(dtype=_BOOL), [2]), x, ctx.constant(math.nan, x.aval))
    return [ctx.transpose(x, (2, 0, 1))]


def _pivots(ctx: FunctionContext, xs: Sequence[Value]) -> list[Value]:
    """Whether the number of exchanges of rows is odd, and the pivots, for matrices (matrices, rows, columns)."""
    _, pivots, odd = _eliminated(ctx, _beside(ctx, xs[0]))
    return [odd, ctx.transpose(pivots, (1, 0))]


def _beside(ctx: FunctionContext, x: Value) -> Value:
    """Matrices side by side, as an array (rows, columns, matrices)."""
    return ctx.transpose(x, (1, 2, 0))


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
