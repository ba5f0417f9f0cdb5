"""Functions that a lowering writes next to the one it is in, and that XLA keeps apart from it.

    one_kernel(ctx, name, [x], write)     compiled, loops and all, as one kernel
    kept_apart(ctx, name, [x], write)     not fused with what is around it; its operands are in memory

`write(inner, *arguments)` writes the body. Functions of equal text are one. Read next: `lowering.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from didax.xla.lowering import NOT_INLINED, ONE_KERNEL, behind_barrier
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
    hidden = behind_barrier(ctx, operands)
    return _call_written(ctx, name, hidden, lambda inner, *xs: [write(inner, *xs)], ONE_KERNEL)[0]


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
