"""Lowering: a jaxpr becomes the text of a StableHLO module.

    lower_module(jaxpr) -> text with `func.func public @main`

Each equation asks its primitive's `lower` rule for text. Jaxprs inside equations become private functions, one per
distinct jaxpr; two whose text is equal share one. Literals become constants, captured arrays were inputs already.
Read next: `text.py` (what rules write with), `compile.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from didax.core.avals import ShapedArray
from didax.core.dtypes import carrier
from didax.core.effects import Effect, Effects
from didax.core.errors import message
from didax.core.jaxpr import Jaxpr, Var
from didax.core.mesh import Mesh
from didax.core.primitive import Primitive, require
from didax.core.stack import on_new_stack, stack_is_low
from didax.passes.outline import cut
from didax.passes.physical import physical_jaxpr
from didax.passes.simplify import simplify_jaxpr
from didax.xla.callbacks import HostCallback
from didax.xla.partition import Partition, mesh_text, spec_text
from didax.xla.text import TOKEN, FunctionContext, LiteralValue, Value, names, tensor_type, types

_UINT32 = ShapedArray((), np.dtype(np.uint32))


class Module:
    """The functions of a module under construction; with `outline` large ones are cut into several."""

    def __init__(self, outline: bool = False, partition: Partition | None = None) -> None:
        self.outline = outline
        self.partition = partition
        self.manual: Mesh | None = None  # that of the `shard_map` whose body is being written
        self.manual_axes: frozenset[str] = frozenset()  # the axes of those whose bodies are being written
        self._meshes: dict[Mesh, str] = {}
        self._channels = 0
        self.functions: list[str] = []
        self.callbacks: list[HostCallback] = []
        self.calling: set[str] = set()  # functions that take the number of the run: they call Python
        self._by_jaxpr: dict[tuple[Jaxpr, Mesh | None, frozenset[str]], str] = {}
        self._by_text: dict[str, str] = {}
        self._taken: set[str] = {"main"}

    def function(self, jaxpr: Jaxpr) -> str:
        """Name of the private function for an inner jaxpr, lowered on first use."""
        name = self._by_jaxpr.get((jaxpr, self.manual, self.manual_axes))
        if name is None:
            text, calls_python = function_text(self, jaxpr)
            name = self._by_text.get(text)
            if name is None:
                name = self._by_text[text] = self._fresh_name(jaxpr.name)
                if calls_python:
                    self.calling.add(name)
                self.functions.append(f"func.func private @{name}{text}")
            self._by_jaxpr[jaxpr, self.manual, self.manual_axes] = name
        return name

    def mesh(self, mesh: Mesh) -> str:
        """The name of a mesh in this module."""
        return self._meshes.setdefault(mesh, f"mesh{len(self._meshes) or ''}")

    def device_groups(self, primitive: Primitive, axes: Sequence[str]) -> list[list[int]]:
        """The devices that a collective over manual axes joins: groups of numbers, the first axis varying slowest."""
        mesh = self._manual_mesh(primitive, axes)
        numbers = self._device_numbers(mesh)
        along = [mesh.axis_names.index(name) for name in axes]
        rest = [i for i in range(numbers.ndim) if i not in along]
        size = math.prod(mesh.axis_sizes[i] for i in along)
        return numbers.transpose([*rest, *along]).reshape(-1, size).tolist()

    def axis_index(self, ctx: FunctionContext, primitive: Primitive, axis: str) -> Value:
        """The position of the running device along a manual axis, an int32 scalar."""
        mesh = self._manual_mesh(primitive, [axis])
        places = np.empty(mesh.size, np.int32)
        along = mesh.axis_names.index(axis)
        places[self._device_numbers(mesh).ravel()] = np.indices(mesh.axis_sizes)[along].ravel()
        number = self._partition_number(ctx, mesh)
        table = ctx.constant(places, ShapedArray(places.shape, places.dtype))
        one = places.dtype
        found = ctx.emit(
            f"stablehlo.dynamic_slice {table}, {number}, sizes = [1] : ({table.type}, {number.type}) -> tensor<1xi32>",
            ShapedArray((1,), one),
        )
        return ctx.emit(f"stablehlo.reshape {found} : ({found.type}) -> tensor<i32>", ShapedArray((), one))

    def _partition_number(self, ctx: FunctionContext, mesh: Mesh) -> Value:
        """The number of the running device, which has a meaning only where every axis is manual."""
        left = [name for name in mesh.axis_names if name not in self.manual_axes]
        inner = ctx.region() if left else ctx
        number = inner.emit("stablehlo.partition_id : tensor<ui32>", _UINT32)
        if not left:
            return number
        axes = ", ".join(f'"{name}"' for name in left)
        ending = f"sdy.return {number} : {number.type}"
        return ctx.emit(
            f"sdy.manual_computation() in_shardings=[] out_shardings=[<@{self.mesh(mesh)}, []>] "
            f"manual_axes={{{axes}}} () {{\n{inner.lines[0]}\n{ending}\n}} : () -> {number.type}",
            _UINT32,
        )

    def channel(self) -> str:
        """The attribute that tells one communication of the module from the others."""
        self._channels += 1
        return f"channel_handle = #stablehlo.channel_handle<handle = {self._channels}, type = 1>"

    def _device_numbers(self, mesh: Mesh) -> np.ndarray[Any, Any]:
        assert self.partition is not None
        number = {device: i for i, device in enumerate(self.partition.devices)}
        return np.array([number[device] for device in mesh.devices.flat]).reshape(mesh.devices.shape)

    def _manual_mesh(self, primitive: Primitive, axes: Sequence[str]) -> Mesh:
        if self.manual is None or not set(axes) <= set(self.manual.axis_names):
            raise NameError(
                message(
                    f"{primitive.name} was compiled outside of the function that maps its axis.",
                    f"axes: {tuple(axes)}",
                    fix="Collectives belong inside vmap(..., axis_name=...) or shard_map.",
                )
            )
        return self.manual

    def header(self, name: str) -> str:
        """The opening of the module, with the meshes that its text names."""
        if self.partition is None:
            return f"module @{name} {{"
        devices = self.partition.devices
        count = f"mhlo.num_partitions = {len(devices)} : i32, mhlo.num_replicas = 1 : i32"
        declared = [mesh_text(mesh_name, mesh, devices) for mesh, mesh_name in self._meshes.items()]
        return "\n".join([f"module @{name} attributes {{{count}}} {{", *declared])

    def callback_index(self, callback: HostCallback) -> int:
        """The number of a callback in this program."""
        for index, known in enumerate(self.callbacks):
            if known.same_as(callback):
                return index
        self.callbacks.append(callback)
        return len(self.callbacks) - 1

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
    jaxpr: Jaxpr,
    donated: Sequence[bool] = (),
    name: str = "didax",
    outline: bool = False,
    replaced: Mapping[int, int] = MappingProxyType({}),
    callbacks: list[HostCallback] | None = None,
    partition: Partition | None = None,
) -> str:
    """StableHLO text of a module whose `main` is the jaxpr.

    Buffers of donated inputs may be reused for outputs; `replaced` says of some which output takes their place. With
    `outline` large functions are cut into several, which XLA compiles separately (`passes/outline.py`). What the
    program calls back into is added to `callbacks`; if there is any, `main` takes the number of the run first.
    """
    module = Module(outline, partition)
    donated = donated or (False,) * len(jaxpr.invars)
    attributes = [["jax.buffer_donor = true"] if gift else [] for gift in donated]
    for i, out in replaced.items():
        attributes[i] = [f"tf.aliasing_output = {out} : i32"]
    if partition is not None:
        for attribute, sharding, var in zip(attributes, partition.arguments, jaxpr.invars, strict=True):
            if sharding is not None:
                spec = spec_text(sharding, var.aval.physical.ndim)
                attribute.append(f"sdy.sharding = #sdy.sharding<@{module.mesh(sharding.mesh)}, {spec}>")
    text, _ = function_text(
        module, jaxpr, [f" {{{', '.join(found)}}}" if found else "" for found in attributes]
    )
    main = f"func.func public @main{text}"
    if callbacks is not None:
        callbacks += module.callbacks
    return "\n".join([module.header(name), *module.functions, main, "}"]) + "\n"


def function_text(module: Module, jaxpr: Jaxpr, attributes: Sequence[str] | None = None) -> tuple[str, bool]:
    """Arguments, result types and body of the function for a jaxpr, and whether it takes the number of the run.

    `attributes` are those of the arguments of `main`, which makes the tokens that other functions take and return.
    """
    order = ordered(jaxpr.effects)
    jaxpr = simplify_jaxpr(jaxpr)
    ctx = FunctionContext(module)
    args = [Value(f"%arg{i}", v.aval) for i, v in enumerate(jaxpr.invars)]
    tokens = [Value(f"%token{i}", TOKEN) for i in range(len(order))]
    if attributes is not None:
        tokens = [ctx.emit("stablehlo.create_token : !stablehlo.token", TOKEN) for _ in order]
    ctx.tokens.update(zip(order, tokens, strict=True))
    blocks = cut(jaxpr) if module.outline else [jaxpr]
    outs = lower_jaxpr_body(ctx, jaxpr, args) if len(blocks) == 1 else lower_blocks(ctx, jaxpr, blocks, args)
    if attributes is None:
        args, outs = [*tokens, *args], [*ctx.tokens.values(), *outs]
    parameters = [f"{x}: {x.type}" for x in args]
    if attributes and not ctx.run.used:  # a run that calls Python borrows the memory of its arguments
        parameters = [text + attribute for text, attribute in zip(parameters, attributes, strict=True)]
    if ctx.run.used:
        parameters = [f"{ctx.run.value}: {ctx.run.value.type}", *parameters]
    results = ", ".join([tensor_type(x.aval) for x in outs])
    ending = f"return {names(outs)} : {types(outs)}" if outs else "return"
    text = "\n".join([f"({', '.join(parameters)}) -> ({results}) {{", *ctx.lines, ending, "}"])
    return text, ctx.run.used


def ordered(effects: Effects) -> list[Effect]:
    """The ordered ones, each of which has a token."""
    return sorted(effect for effect in effects if effect.ordered) if effects else []


def lower_jaxpr_body(ctx: FunctionContext, jaxpr: Jaxpr, args: Sequence[Value]) -> list[Value]:
    """Write the equations of a jaxpr into `ctx`; returns its outputs."""
    if stack_is_low():
        return on_new_stack(lower_jaxpr_body, ctx, jaxpr, args)
    jaxpr = physical_jaxpr(jaxpr)
    env: dict[Var, Value] = {v: _typed(x, v.aval) for v, x in zip(jaxpr.invars, args, strict=True)}

    def read(x: Any) -> Value:
        return env[x] if type(x) is Var else LiteralValue(ctx, x.val, x.aval)

    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        ctx.out_avals = out_avals = tuple([v.aval for v in eqn.outvars])
        rule = primitive.lower or require(primitive, "lower")
        operands = [read(x) for x in eqn.invars]
        if primitive.moves_elements or primitive.in_carrier:
            out = _lower_in_carrier(ctx, primitive, rule, operands, eqn.params)
        else:
            out = rule(ctx, *operands, **eqn.params)
        if primitive.multiple_results:
            env.update(zip(eqn.outvars, map(_typed, out, out_avals), strict=True))
        else:
            env[eqn.outvars[0]] = _typed(out, out_avals[0])
    return [read(x) for x in jaxpr.outvars]


def _lower_in_carrier(
    ctx: FunctionContext, primitive: Primitive, rule: Any, operands: Sequence[Value], params: dict[str, Any]
) -> Any:
    """What the rule writes, with operands and results in the carriers of their dtypes.

    With 2-bit integers XLA's CPU compiler ends the process (a concatenation), or its programs write beyond their memory
    (a sort of a large array). Sums and products of bytes, cut off to 2 bits, are those of 2-bit integers. Of
    float8_e8m0fnu, which has neither 0 nor infinities, a reduction has nothing to start from.
    """
    wide = [x if (to := carrier(x.aval.dtype)) is x.aval.dtype else ctx.convert(x, to) for x in operands]
    out_avals = ctx.out_avals
    ctx.out_avals = tuple([aval.update(dtype=carrier(aval.dtype)) for aval in out_avals])
    if all([a is b for a, b in zip(ctx.out_avals, out_avals, strict=True)]):
        return rule(ctx, *wide, **params)
    out = rule(ctx, *wide, **params)
    outs = out if primitive.multiple_results else [out]
    outs = [ctx.convert(y, aval.dtype) for y, aval in zip(outs, out_avals, strict=True)]
    return outs if primitive.multiple_results else outs[0]


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
    """A region without arguments that runs a jaxpr on values of the enclosing function: `{ ... return }`.

    It returns the tokens of the function before its results.
    """
    region = ctx.region()
    results = lower_jaxpr_body(region, simplify_jaxpr(jaxpr), operands)
    outs = [*region.tokens.values(), *results]
    # asking for the names of literals writes their constants, so it comes before the lines are taken
    ending = f"stablehlo.return {names(outs)} : {types(outs)}" if outs else "stablehlo.return"
    return "\n".join(["{", *region.lines, ending, "}"])


# Marks by which XLA knows functions that it shall leave alone, and those that it shall compile as one kernel.
_NOT_INLINED = 'inlineable = "false"'
_ONE_KERNEL = f'{_NOT_INLINED}, xla_cpu_small_call = "true"'


def call(
    ctx: FunctionContext,
    jaxpr: Jaxpr,
    operands: Sequence[Value],
    inline: bool = True,
    one_kernel: bool = False,
) -> list[Value]:
    """Call the function of an inner jaxpr; as `one_kernel` XLA compiles it, loops and all, to one function."""
    name = ctx.module.function(jaxpr)
    avals: Sequence[Any] = jaxpr.out_avals
    order = ordered(jaxpr.effects)
    if order:
        operands = [*(ctx.tokens[effect] for effect in order), *operands]
        avals = [*[TOKEN] * len(order), *avals]
    if name in ctx.module.calling:
        operands = [ctx.run.use(), *operands]
    results = ", ".join([tensor_type(aval) for aval in avals])
    marks = _ONE_KERNEL if one_kernel else "" if inline else _NOT_INLINED
    how = f" {{mhlo.frontend_attributes = {{{marks}}}}}" if marks else ""
    outs = ctx.emit_many(
        f"func.call @{name}({names(operands)}){how} : ({types(operands)}) -> ({results})", avals
    )
    ctx.tokens.update(zip(order, outs, strict=False))
    return outs[len(order) :]
