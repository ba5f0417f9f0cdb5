"""Functions that a lowering writes beside the one it is in, and XLA keeps apart from it.

    one_kernel(ctx, name, [x], write)     compiled, loops and all, as one kernel
    in_blocks(ctx, name, [x, y], write)   the same of elementwise functions, block after block
    kept_apart(ctx, name, [x], write)     not fused with what is around it; its operands are in memory

`write(inner, *arguments)` writes the body. Functions of equal text are one. Read next: `lowering.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from didax.core.avals import ShapedArray
from didax.core.dims import is_symbolic
from didax.xla.lowering import NOT_INLINED, ONE_KERNEL
from didax.xla.text import FunctionContext, Value, names, types


def one_kernel(
    ctx: FunctionContext,
    name: str,
    operands: Sequence[Value],
    write: Callable[..., Value],
) -> Value:
    """A call of a function that XLA compiles, loops and all, as a kernel. `write(inner, *arguments)` writes its body.

    The body has to read each of the arguments, in a way that XLA cannot simplify: otherwise XLA ends the process.
    """
    hidden = ctx.emit_many(
        f"stablehlo.optimization_barrier {names(operands)} : {types(operands)}", [x.aval for x in operands]
    )
    return _call_written(ctx, name, hidden, lambda inner, *xs: [write(inner, *xs)], ONE_KERNEL)[0]


# Note [Elementwise loops in blocks]
# A series that is summed until it does not change, or a recurrence, is a loop whose state are arrays. XLA runs each
# step as several kernels, which read and write all of these arrays. As one kernel that goes on block by block, the
# state stays in the fastest cache, a block ends with its own last element, and half as much is compiled. Milliseconds
# of the processor for 100,000 float32 numbers, one core, before -> so, with those to compile: betainc 8.3, 1165 -> 3.0,
# 541; gammainc 9.8, 765 -> 4.4, 351; its gradient 26, 1141 -> 9.0, 460; hyp2f1 522, 1570 -> 223, 902. Blocks of 128 to
# 2,048 are level. A kernel runs on one core, and XLA gives parts of long arrays to all: with many cores they stay so.
BLOCK = 256
_LONG, _FEW_CORES = 1 << 14, 4
_LONGEST = 1 << 27  # positions in all operands, one after the other, are int32


def fit_in_blocks(ctx: FunctionContext, aval: ShapedArray) -> bool:
    """Whether `in_blocks` pays, and can be used, for arrays of this type. See Note [Elementwise loops in blocks]."""
    n = aval.size
    if is_symbolic(n) or n == 0 or n > _LONGEST or not ctx.module.on_one_cpu or ctx.module.alone:
        return False
    return aval.dtype in _INBLOCKS and (n <= _LONG or (os.cpu_count() or 1) <= _FEW_CORES)


_INBLOCKS = (np.float32, np.float64)


def in_blocks(
    ctx: FunctionContext,
    name: str,
    operands: Sequence[Value],
    write: Callable[..., Value],
    rows: tuple[int, ...] = (),
) -> Value:
    """What `write(inner, *operands)` makes of operands of one type, element by element, block after block.

    Its results may have further axes in front, of lengths `rows`. Operands that are constants stay constants; the
    others are handed over as one array, since XLA ends the process if a kernel does not read one of its arguments.
    """
    aval = operands[0].aval
    known = [x.constant for x in operands]
    given = [ctx.reshape(x, (aval.size,)) for x in operands if x.constant is None]
    if not given:
        given, known[0] = [ctx.reshape(operands[0], (aval.size,))], None
    n, index = aval.size, ShapedArray((), np.dtype(np.int32))
    block = min(n, BLOCK)

    def body(inner: FunctionContext, packed: Value, start: Value) -> Value:
        """Of the block that begins at `start`."""
        parts = iter(range(len(given)))
        xs = []
        for value in known:
            if value is None:
                first = inner.op("add", [start, inner.constant(next(parts) * n, index)])
                xs.append(inner.dynamic_slice(packed, [first], [block]))
            else:
                xs.append(inner.constant(value, aval.update(shape=(block,))))
        return write(inner, *xs)

    def whole(inner: FunctionContext, packed: Value) -> Value:
        zero = inner.constant(0, index)
        if n == block:
            return body(inner, packed, zero)

        def step(inner: FunctionContext, state: list[Value]) -> list[Value]:
            i, out = state
            # The last block is a whole one, too.
            start = inner.op("minimum", [i, inner.constant(n - block, index)])
            out = inner.dynamic_update_slice(
                out, body(inner, packed, start), [*[inner.constant(0, index)] * len(rows), start]
            )
            return [inner.op("add", [i, inner.constant(block, index)]), out]

        out = inner.broadcast(inner.scalar(0.0, aval.dtype), aval.update(shape=(*rows, n)), [])
        end = lambda condition, state: condition.compare("LT", state[0], condition.constant(n, index))
        return inner.loop([zero, out], end, step)[1]

    out = one_kernel(ctx, name, [ctx.concatenate(given, 0)], whole)
    return ctx.reshape(out, (*rows, *aval.shape))


def kept_apart(
    ctx: FunctionContext, name: str, operands: Sequence[Value], write: Callable[..., Sequence[Value]]
) -> list[Value]:
    """The results of a call of a function that XLA does not fuse with what is around it.

    `write(inner, *arguments)` writes its body.
    """
    return _call_written(ctx, name, operands, write, NOT_INLINED)


def _call_written(
    ctx: FunctionContext,
    name: str,
    operands: Sequence[Value],
    write: Callable[..., Sequence[Value]],
    marks: str,
) -> list[Value]:
    inner = FunctionContext(ctx.module)
    arguments = [Value(f"%arg{i}", x.aval) for i, x in enumerate(operands)]
    results = write(inner, *arguments)
    parameters = ", ".join([f"{x}: {x.type}" for x in arguments])
    lines = "\n".join([*inner.lines, f"return {names(results)} : {types(results)}"])
    head = f"({parameters}) -> ({types(results)})"
    function = ctx.module.add(f"{head} {{\n{lines}\n}}", name, False)
    return ctx.emit_many(
        f"func.call @{function}({names(operands)}) {{mhlo.frontend_attributes = {{{marks}}}}} : "
        f"({types(operands)}) -> ({types(results)})",
        [x.aval for x in results],
    )
