"""Lowering: a jaxpr becomes the text of a StableHLO module.

    lower_module(jaxpr) -> text with `func.func public @main`

Each equation asks its primitive's `lower` rule for text. Jaxprs inside equations become private functions, one per
distinct jaxpr; two whose text is equal share one. Literals become constants, captured arrays were inputs already.
Read next: `text.py` (what rules write with), `compile.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.avals import ShapedArray
from didax.core.jaxpr import Jaxpr, Var
from didax.core.primitive import require
from didax.transforms.physical import physical_jaxpr
from didax.transforms.simplify import simplify_jaxpr
from didax.xla.outline import cut
from didax.xla.text import FunctionContext, LiteralValue, Value, names, tensor_type, types


class Module:
    """The functions of a module under construction; with `outline` large ones are cut into several."""

    def __init__(self, outline: bool = False) -> None:
        self.outline = outline
        self.functions: list[str] = []
        self._by_jaxpr: dict[Jaxpr, str] = {}
        self._by_text: dict[str, str] = {}
        self._taken: set[str] = {"main"}

    def function(self, jaxpr: Jaxpr) -> str:
        """Name of the private function for an inner jaxpr, lowered on first use."""
        name = self._by_jaxpr.get(jaxpr)
        if name is None:
            text = function_text(self, jaxpr)
            name = self._by_text.get(text)
            if name is None:
                name = self._by_text[text] = self._fresh_name(jaxpr.name)
                self.functions.append(f"func.func private @{name}{text}")
            self._by_jaxpr[jaxpr] = name
        return name

    def _fresh_name(self, wish: str) -> str:
        base = "".join(c if c.isalnum() and c.isascii() else "_" for c in wish) or "f"
        base = base if base[0].isalpha() else f"f{base}"
        name, n = base, 0
        while name in self._taken:
            n += 1
            name = f"{base}_{n}"
        self._taken.add(name)
        return name


def lower_module(
    jaxpr: Jaxpr, donated: Sequence[bool] = (), name: str = "didax", outline: bool = False
) -> str:
    """StableHLO text of a module whose `main` is the jaxpr.

    Buffers of donated inputs may be reused for outputs. With `outline` large functions are cut into several, which
    XLA compiles separately (`outline.py`).
    """
    module = Module(outline)
    donated = donated or (False,) * len(jaxpr.invars)
    attributes = [" {jax.buffer_donor = true}" if gift else "" for gift in donated]
    main = f"func.func public @main{function_text(module, jaxpr, attributes)}"
    return "\n".join([f"module @{name} {{", *module.functions, main, "}"]) + "\n"


def function_text(module: Module, jaxpr: Jaxpr, attributes: Sequence[str] = ()) -> str:
    """Arguments, result types and body of the function for a jaxpr."""
    jaxpr = simplify_jaxpr(jaxpr)
    ctx = FunctionContext(module)
    args = [Value(f"%arg{i}", v.aval) for i, v in enumerate(jaxpr.invars)]
    attributes = attributes or [""] * len(args)
    blocks = cut(jaxpr) if module.outline else [jaxpr]
    outs = lower_jaxpr_body(ctx, jaxpr, args) if len(blocks) == 1 else lower_blocks(ctx, jaxpr, blocks, args)
    signature = ", ".join([f"{x}: {x.type}{a}" for x, a in zip(args, attributes, strict=True)])
    results = ", ".join([tensor_type(x.aval) for x in outs])
    ending = f"return {names(outs)} : {types(outs)}" if outs else "return"
    return "\n".join([f"({signature}) -> ({results}) {{", *ctx.lines, ending, "}"])


def lower_jaxpr_body(ctx: FunctionContext, jaxpr: Jaxpr, args: Sequence[Value]) -> list[Value]:
    """Write the equations of a jaxpr into `ctx`; returns its outputs."""
    jaxpr = physical_jaxpr(jaxpr)
    env: dict[Var, Value] = {v: _typed(x, v.aval) for v, x in zip(jaxpr.invars, args, strict=True)}

    def read(x: Any) -> Value:
        return env[x] if type(x) is Var else LiteralValue(ctx, x.val, x.aval)

    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        ctx.out_avals = out_avals = tuple([v.aval for v in eqn.outvars])
        rule = primitive.lower or require(primitive, "lower")
        out = rule(ctx, *[read(x) for x in eqn.invars], **eqn.params)
        if primitive.multiple_results:
            env.update(zip(eqn.outvars, map(_typed, out, out_avals), strict=True))
        else:
            env[eqn.outvars[0]] = _typed(out, out_avals[0])
    return [read(x) for x in jaxpr.outvars]


def lower_blocks(
    ctx: FunctionContext, jaxpr: Jaxpr, blocks: Sequence[Jaxpr], args: Sequence[Value]
) -> list[Value]:
    """Write a large jaxpr as calls of its blocks, which XLA is told not to inline; returns its outputs."""
    env: dict[Var, Value] = dict(zip(jaxpr.invars, args, strict=True))
    for block in blocks:
        outs = call(ctx, block, [env[v] for v in block.invars], inline=False)
        env.update(zip(block.outvars, outs, strict=True))  # type: ignore[arg-type]
    return [env[x] if type(x) is Var else ctx.constant(x.val, x.aval) for x in jaxpr.outvars]


def _typed(value: Value, aval: ShapedArray) -> Value:
    """The value with its exact type: rules need not carry weak types."""
    return value if value.aval is aval else Value(value.name, aval, value.constant)


def lower_region(ctx: FunctionContext, jaxpr: Jaxpr, operands: Sequence[Value]) -> str:
    """A region without arguments that runs a jaxpr on values of the enclosing function: `{ ... return }`."""
    region = ctx.region()
    outs = lower_jaxpr_body(region, simplify_jaxpr(jaxpr), operands)
    # asking for the names of literals writes their constants, so it comes before the lines are taken
    ending = f"stablehlo.return {names(outs)} : {types(outs)}" if outs else "stablehlo.return"
    return "\n".join(["{", *region.lines, ending, "}"])


def call(ctx: FunctionContext, jaxpr: Jaxpr, operands: Sequence[Value], inline: bool = True) -> list[Value]:
    """Call the function of an inner jaxpr."""
    name = ctx.module.function(jaxpr)
    avals = jaxpr.out_avals
    results = ", ".join([tensor_type(aval) for aval in avals])
    how = "" if inline else ' {mhlo.frontend_attributes = {inlineable = "false"}}'
    return ctx.emit_many(
        f"func.call @{name}({names(operands)}){how} : ({types(operands)}) -> ({results})", avals
    )
