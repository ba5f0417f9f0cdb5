"""Reductions in two steps, which LLVM compiles to vector instructions.

XLA's loops for the CPU combine one element after the other, unless the loop over what is combined is short enough to be
written out (32 steps), and the loop inside it goes along memory. So an axis is cut into (blocks, rows, lanes): the rows
are reduced first, and what is left, a thirtieth, in a second step. The second step is a function of its own: XLA
would otherwise merge the two again. Processor milliseconds, one loaded core of an AMD EPYC, XLA -> in steps, NumPy:
`isfinite(x).all()` of 1,000,000 float32 0.44 -> 0.24, 0.21, of 10,000,000 5.1 -> 2.8, 2.9, for each row of (1000, 1000)
0.46 -> 0.13, 0.15, for each column 0.52 -> 0.31, 0.30; `any` of 10,000,000 booleans 2.5 -> 0.93, 0.49. Below 32,768
elements nothing is gained. Read next: `reductions.py`, which asks for this.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from didax.core.avals import ShapedArray
from didax.core.dims import is_symbolic
from didax.primitives.reduced import reduced_from
from didax.xla.text import FunctionContext, Value
from didax.xla.written_calls import kept_apart

Reduce = Callable[[FunctionContext, Sequence[Value], Sequence[int]], list[Value]]

MIN_SIZE = 1 << 15
_MAX_ROWS = 32
_MAX_COMPUTED_ROWS = 4


class Steps(NamedTuple):
    """The shape in which an array is reduced, the axis that goes first, and those that follow."""

    shape: tuple[int, ...]
    row: int
    rest: tuple[int, ...]


def reduce_in_steps(ctx: FunctionContext, x: Value, axes: Sequence[int], reduce: Reduce) -> Value | None:
    """What `reduce(ctx, [x], axes)` gives, by two calls of `reduce`; None where one call is as good.

    XLA may compute the elements within the first step, and LLVM gives up on long computations that are written out
    many times:
    `allclose` of 1,000,000 float32 with 32 rows 2.4, with 8 or 4 0.5, by XLA 0.65; bfloat16 with 8 rows 6.9, with 4
    1.3, by XLA 1.3; complex64 8.0, 1.7, 1.7; `isfinite` of float32 0.26 and 0.28.
    """
    steps = steps_of(ctx, x.aval, axes, _MAX_COMPUTED_ROWS)
    return None if steps is None else reduce_by(ctx, [ctx.reshape(x, steps.shape)], steps, reduce)[0]


def steps_of(
    ctx: FunctionContext, x: ShapedArray, axes: Sequence[int], max_rows: int = _MAX_ROWS
) -> Steps | None:
    """How an array is reduced in two steps; None where that does not pay."""
    return _cut(x.shape, tuple(axes), max_rows) if has_steps(ctx, x) else None


def reduce_by(ctx: FunctionContext, xs: Sequence[Value], steps: Steps, reduce: Reduce) -> list[Value]:
    """Reduce arrays of the shape that the steps ask for."""
    part = reduce(ctx, xs, [steps.row])
    if not steps.rest:
        return part
    return kept_apart(ctx, "reduce", part, lambda inner, *args: reduce(inner, args, steps.rest))


def has_steps(ctx: FunctionContext, x: ShapedArray) -> bool:
    """Whether an array is large enough, in a program in which functions may be kept apart."""
    return not is_symbolic(x.size) and x.size >= MIN_SIZE and ctx.module.on_one_cpu and not ctx.module.alone


@functools.lru_cache(maxsize=1024)
def _cut(shape: tuple[int, ...], axes: tuple[int, ...], max_rows: int) -> Steps | None:
    if not axes:
        return None
    last = max(axes)
    first = reduced_from(last + 1, axes)
    outer = tuple(i for i in axes if i < first)
    length, inner = math.prod(shape[first : last + 1]), shape[last + 1 :]
    lanes = _lanes(length, max_rows) if last == len(shape) - 1 else None
    if lanes is not None:
        return Steps((*shape[:first], *lanes), first + 1, (*outer, first, first + 1))
    rows = next((rows for rows in range(max_rows, 3, -1) if length % rows == 0), None)
    if rows is None or math.prod(inner) < 8:
        return None
    if rows == length:
        return Steps((*shape[:first], rows, *inner), first, outer)
    return Steps((*shape[:first], length // rows, rows, *inner), first + 1, (*outer, first))


def _lanes(length: int, max_rows: int) -> tuple[int, int, int] | None:
    """(blocks, rows, lanes) whose product is `length`: many rows, and then many lanes."""
    for rows in range(max_rows, 3, -1):
        if length % rows == 0:
            rest = length // rows
            lanes = max([n for n in range(16, 2049) if rest % n == 0], default=None)
            if lanes is not None:
                return rest // lanes, rows, lanes
    return None
