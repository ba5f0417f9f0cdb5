"""Lowering: a jaxpr becomes the text of a StableHLO module.

    lower_module(jaxpr) -> text with `func.func public @main`

Each equation asks its primitive's `lower` rule for text. Jaxprs inside equations become private functions, one per
distinct jaxpr; two whose text is equal share one. Literals become constants; captured arrays are inputs of the jaxpr.
Operations that have an ordered effect are chained by tokens, which are led through functions, loops and branches.
Read next: `text.py` (what rules write with), `compile.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from didax.core import config
from didax.core import sharding as shardings
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic
from didax.core.dtypes import supported_dtype
from didax.core.effects import Effects
from didax.core.errors import RuleTypeError, message
from didax.core.exact import exact, value_of
from didax.core.jaxpr import Eqn, Jaxpr, Var
from didax.core.primitive import Primitive, require
from didax.core.primitive_names import is_of_library
from didax.core.rule_types import as_list, check_fit, check_kind, check_list, check_type, failed
from didax.core.source import describe_function, follows_equations
from didax.core.stack import on_new_stack, stack_is_low
from didax.passes.memories import in_memories
from didax.passes.outline import cut, drawn_again, kept_in_memory
from didax.passes.physical import physical_jaxpr
from didax.passes.simplify import simplify_jaxpr
from didax.transforms.cache import on_clear
from didax.transforms.staging import trace_to_jaxpr
from didax.xla.callbacks import CPU_TARGET, GPU_TARGET, HostCallback
from didax.xla.device_text import UINT32, DeviceWriter, Partition, of_first_device
from didax.xla.inspection import Listener
from didax.xla.platforms import platform
from didax.xla.text import (
    TOKEN,
    FunctionContext,
    LiteralValue,
    Module,
    NoOpenForm,
    Value,
    function_type,
    layout_text,
    names,
    quoted,
    tensor_type,
    types,
)


def lower_module(
    jaxpr: Jaxpr,
    donated: Sequence[bool] = (),
    name: str = "didax",
    outline: bool = False,
    replaced: Mapping[int, int] = MappingProxyType({}),
    callbacks: list[HostCallback] | None = None,
    partition: Partition | None = None,
    located: bool = False,
    listener: Listener | None = None,
    alone: bool = False,
) -> str:
    """StableHLO text of a module whose `main` is the jaxpr.

    Buffers of donated inputs may be reused for outputs; `replaced` maps an input to the output that takes its place,
    where that is known. With `outline` large functions are cut into several, which XLA compiles apart
    (`passes/outline.py`). The Python functions that the program calls are added to `callbacks`; if there are any, the
    first argument of `main` is the number of the run. With `located` each operation is followed by its name and the
    line of the user's program that it comes from. With a `listener` the text asks XLA how it splits the values that the
    program inspects over devices. A program that is to run `alone`, in other processes, calls nothing in this one.
    """
    if shardings.in_memories:
        held, given = ([], ()) if partition is None else (partition.argument_memories, partition.memories)
        jaxpr = in_memories(jaxpr, held, given)
        if any(held):
            # A GPU does not give away memory of the host: it may be read by others.
            usable = (None, *given) if platform() == "cpu" else (None,)
            donated = [d and kind in usable for d, kind in zip(donated, held, strict=False)]
            alike = {i for i, out in replaced.items() if held[i] == (given[out] if given else None)}
            replaced = {i: out for i, out in replaced.items() if i in alike and held[i] in usable}
    devices = None if partition is None else DeviceWriter(partition)
    module = Module(outline, devices, located, listener, alone)
    donated = donated or (False,) * len(jaxpr.invars)
    attributes = [["jax.buffer_donor = true"] if is_donated else [] for is_donated in donated]
    for i, out in replaced.items():
        attributes[i] = [f"tf.aliasing_output = {out} : i32"]
    of_results: list[list[str]] = [[] for _ in jaxpr.outvars]
    if devices is not None:
        for found, laid_out in zip(attributes, devices.argument_attributes(jaxpr.in_avals), strict=True):
            found += laid_out
        of_results = devices.result_attributes(jaxpr.out_avals)
    text, _ = function_text(
        module, jaxpr, list(map(_in_braces, attributes)), list(map(_in_braces, of_results))
    )
    main = f"func.func public @main{text}"
    if callbacks is not None:
        callbacks += module.callbacks
    header = f"module @{name} {{" if devices is None else devices.header(name)
    return "\n".join([header, *module.functions, main, "}"]) + "\n"


def _in_braces(attributes: Sequence[str]) -> str:
    return f" {{{', '.join(attributes)}}}" if attributes else ""


def function_name(module: Module, jaxpr: Jaxpr) -> str:
    """Name of the private function for an inner jaxpr, lowered on first use."""
    manual = None if module.devices is None else module.devices.manual
    name = module.named.get((jaxpr, manual))
    if name is None:
        text, calls_python = function_text(module, jaxpr)
        name = module.named[jaxpr, manual] = module.add(text, jaxpr.name, calls_python)
    return name


def function_text(
    module: Module, jaxpr: Jaxpr, attributes: Sequence[str] | None = None, of_results: Sequence[str] = ()
) -> tuple[str, bool]:
    """Arguments, result types and body of the function for a jaxpr, and whether it takes the number of the run.

    `attributes` and `of_results` are those of the arguments and of the results of `main`, which makes the tokens that
    other functions take and return.
    """
    jaxpr = _simplified(module, jaxpr)
    is_ordered = has_order(jaxpr.effects)
    ctx = FunctionContext(module)
    ctx.path = f"{jaxpr.name}/" if jaxpr.name else ""
    args = [Value(f"%arg{i}", v.aval) for i, v in enumerate(jaxpr.invars)]
    if is_ordered:
        ctx.tokens = [Value("%token", module.token) if attributes is None else first_token(ctx)]
    tokens = list(ctx.tokens)
    if attributes is not None:
        ctx.stored = frozenset([x.name for x in args])
        if not module.alone:  # otherwise other programs may call it with parts of one array
            for i, x in enumerate(args):
                x.sources = 2 << i
    blocks = cut(jaxpr) if module.outline else [jaxpr]
    outs = lower_jaxpr_body(ctx, jaxpr, args) if len(blocks) == 1 else lower_blocks(ctx, jaxpr, blocks, args)
    if attributes is None:
        args, outs = [*tokens, *args], [*ctx.tokens, *outs]
    parameters = [f"{x}: {x.type}" for x in args]
    if attributes and ctx.run.used:  # a run that calls Python borrows the memory of its arguments
        attributes = [text if "sdy.sharding" in text or "memory_kind" in text else "" for text in attributes]
    if attributes:
        parameters = [text + attribute for text, attribute in zip(parameters, attributes, strict=True)]
    if ctx.run.used:
        parameters = [f"{ctx.run.value}: {ctx.run.value.type}", *parameters]
    of_results = of_results or [""] * len(outs)
    results = ", ".join([tensor_type(x.aval) + text for x, text in zip(outs, of_results, strict=True)])
    ending = f"return {names(outs)} : {types(outs)}" if outs else "return"
    text = "\n".join([f"({', '.join(parameters)}) -> ({results}) {{", *ctx.lines, ending, "}"])
    return text, ctx.run.used


def _simplified(module: Module, jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr without what is not needed.

    Where the partitioner cuts it, equal equations stay apart: each is split as its own uses ask, whereas the devices
    would have to exchange the result of a single one. XLA merges those that are split alike afterwards.
    """
    return simplify_jaxpr(jaxpr, not module.partitioned_here)


def has_order(effects: Effects) -> bool:
    """Whether operations with these effects are chained by a token."""
    return any(effect.ordered for effect in effects)


@follows_equations()
def lower_jaxpr_body(ctx: FunctionContext, jaxpr: Jaxpr, args: Sequence[Value]) -> list[Value]:
    """Write the equations of a jaxpr into `ctx`; returns its outputs."""
    if stack_is_low():
        return on_new_stack(lower_jaxpr_body, ctx, jaxpr, args)
    jaxpr = physical_jaxpr(jaxpr)
    env: dict[Var, Value] = {
        v: x if x.aval is v.aval else Value(x.name, v.aval, x.constant, x.sources)
        for v, x in zip(jaxpr.invars, args, strict=True)
    }

    def read(x: Any) -> Value:
        return env[x] if type(x) is Var else LiteralValue(ctx, x.val, x.aval)

    located, outer = ctx.module.located, ctx.place
    draws: set[Any] = set()
    kept: set[Any] = set()
    if ctx.module.on_one_cpu and not ctx.inlines:
        draws, kept = drawn_again(jaxpr), kept_in_memory(jaxpr)
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        if located:
            ctx.place = _place(ctx.path, eqn)
        ctx.out_avals = out_avals = tuple([v.aval for v in eqn.outvars])
        rule = primitive.lower or require(primitive, "lower")
        operands = [read(x) for x in eqn.invars]
        sources = 0
        for x in operands:
            sources |= x.sources
        try:
            if primitive.moves_elements or primitive.in_supported_dtype:
                out = _lower_in_supported_dtypes(ctx, primitive, rule, operands, eqn.params)
            else:
                out = rule(ctx, *operands, **eqn.params)
        except Exception as error:
            if ctx.inlines and not isinstance(error, NoOpenForm):
                reason = str(error).split("\n")[0]
                raise NoOpenForm(f"{primitive.name} has no form of open lengths: {reason}") from error
            if is_of_library(primitive) or (explained := _explained(eqn, operands, error)) is error:
                raise
            raise explained from error
        if primitive.multiple_results:
            check_list(primitive, "lower", out, len(out_avals))
            for v, y, aval in zip(eqn.outvars, out, out_avals, strict=True):
                env[v] = _typed(y, aval, primitive)
        else:
            env[eqn.outvars[0]] = _typed(out, out_avals[0], primitive)
        for v in eqn.outvars:
            env[v].sources = sources or int(env[v].constant is None)
            if v in draws:
                (env[v],) = materialized_as_vectors(ctx, [env[v]])
            elif v in kept:
                (env[v],) = materialized(ctx, [env[v]])
    ctx.place = outer
    return [read(x) for x in jaxpr.outvars]


def _place(path: str, eqn: Eqn) -> str:
    """Where an equation comes from, as an MLIR location: its names, and the line."""
    line = eqn.source
    scope = f"{line.scope}/" if line is not None and line.scope and not line.is_of_call else ""
    names = quoted(
        f"{path}{'transpose/' if line is not None and line.backward else ''}{scope}{eqn.primitive.name}"
    )
    # Callers share the staged functions of the library, so the equations there have no line: those of the calls have.
    if line is None or line.is_of_call:
        return f" loc({names})"
    return f" loc({names}({quoted(line.file)}:{line.line}:1))"


def _lower_in_supported_dtypes(
    ctx: FunctionContext, primitive: Primitive, rule: Any, operands: Sequence[Value], params: dict[str, Any]
) -> Any:
    """What the rule writes, with operands and results in dtypes that XLA supports.

    With 2-bit integers XLA's CPU compiler ends the process (a concatenation), or its programs write beyond their memory
    (a sort of a large array). Sums and products of bytes, cut off to 2 bits, are those of 2-bit integers. A reduction
    of float8_e8m0fnu has nothing to start from, because this dtype has neither 0 nor infinities.
    """
    wide = [
        x if (to := supported_dtype(x.aval.dtype)) is x.aval.dtype else ctx.convert(x, to) for x in operands
    ]
    out_avals = ctx.out_avals
    ctx.out_avals = tuple([aval.update(dtype=supported_dtype(aval.dtype)) for aval in out_avals])
    out = rule(ctx, *wide, **params)
    if all([a is b for a, b in zip(ctx.out_avals, out_avals, strict=True)]):
        return out
    check_list(primitive, "lower", out, len(out_avals))
    outs = [
        _typed(y, aval, primitive) for y, aval in zip(as_list(primitive, out), ctx.out_avals, strict=True)
    ]
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


def _typed(value: Value, aval: ShapedArray, primitive: Primitive) -> Value:
    """The value that a rule wrote, with its exact type: lowering rules need not keep track of weak types."""
    if not isinstance(value, Value):  # pyright: ignore[reportUnnecessaryIsInstance]
        check_list(primitive, "lower", value, 1)
        check_kind(
            primitive, "lower", value, Value, f"a Value of type {aval}, such as ctx.op and ctx.emit return"
        )
    if value.aval is aval:
        return value
    check_type(primitive, "lower", "A result", value.aval, aval)
    return Value(value.name, aval, value.constant)


def _explained(eqn: Eqn, operands: Sequence[Value], error: Exception) -> Exception:
    if isinstance(error, TypeError):
        check_fit(eqn.primitive, "lower", (None, *operands), eqn.params, error)
    return failed(eqn.primitive, "lower", operands, error)


def lower_region(ctx: FunctionContext, jaxpr: Jaxpr, operands: Sequence[Value]) -> str:
    """A region without arguments that runs a jaxpr on values of the enclosing function: `{ ... return }`.

    It returns the tokens of the function before its results.
    """
    region = ctx.region()
    results = lower_jaxpr_body(region, _simplified(ctx.module, jaxpr), operands)
    return region.body([*region.tokens, *results])


# Attributes that tell XLA not to inline a function, and to compile it as one kernel.
NOT_INLINED = 'inlineable = "false"'
ONE_KERNEL = f'{NOT_INLINED}, xla_cpu_small_call = "true"'


def call(
    ctx: FunctionContext,
    jaxpr: Jaxpr,
    operands: Sequence[Value],
    inline: bool = True,
    one_kernel: bool = False,
) -> list[Value]:
    """Write a call of the function for an inner jaxpr. With `one_kernel` XLA compiles it as a kernel, loops and all."""
    if ctx.inlines:
        if not inline:  # what is computed again is not merged with what was computed before
            operands = behind_barrier(ctx, operands)
        return lower_jaxpr_body(ctx, _simplified(ctx.module, jaxpr), operands)
    name = function_name(ctx.module, jaxpr)
    inline = inline or _maps_within_a_map(ctx, jaxpr)
    avals: Sequence[Any] = jaxpr.out_avals
    is_ordered = has_order(jaxpr.effects)
    if is_ordered:
        operands, avals = [*ctx.tokens, *operands], [ctx.module.token, *avals]
    if name in ctx.module.calling_python:
        operands = [ctx.run.use(), *operands]
    results = ", ".join([tensor_type(aval) for aval in avals])
    marks = ONE_KERNEL if one_kernel else "" if inline else NOT_INLINED
    attributes = f" {{mhlo.frontend_attributes = {{{marks}}}}}" if marks else ""
    outs = ctx.emit_many(
        f"func.call @{name}({names(operands)}){attributes} : ({types(operands)}) -> ({results})", avals
    )
    if is_ordered:
        ctx.tokens, outs = outs[:1], outs[1:]
    return outs


def behind_barrier(ctx: FunctionContext, operands: Sequence[Value]) -> Sequence[Value]:
    """The same values behind a barrier: each is there when all of them are, and XLA does not merge them with others."""
    if not operands:
        return operands
    text = f"stablehlo.optimization_barrier {names(operands)} : {types(operands)}"
    return ctx.emit_many(text, [x.aval for x in operands])


def _maps_within_a_map(ctx: FunctionContext, jaxpr: Jaxpr) -> bool:
    """Whether the jaxpr holds a `shard_map` within another one: XLA ends the process if the call is not inlined."""
    devices = ctx.module.devices
    if devices is None or devices.manual is None:
        return False
    return any(
        eqn.primitive.name == "shard_map" or any(_maps_within_a_map(ctx, inner) for inner in eqn.jaxprs)
        for eqn in jaxpr.eqns
    )


def lower_function(
    ctx: FunctionContext, f: Callable[..., Any], operands: Sequence[Value], **params: Any
) -> list[Value]:
    """Write a call of the operations that `f(*operands, **params)`, a function of arrays, is made of.

    `f` returns an array or a list of arrays, and captures none. It is staged once for operands of these types.
    """
    avals = tuple([x.aval for x in operands])
    return call(ctx, _staged(f, avals, exact(tuple(params.items())), config.state()), operands)


@functools.lru_cache(maxsize=1024)
def _staged(
    f: Callable[..., Any], avals: tuple[ShapedArray, ...], params: Any, options: config.State
) -> Jaxpr:
    def flat(*args: Any) -> list[Any]:
        out = f(*args, **dict(value_of(params)))
        return list(out) if isinstance(out, (list, tuple)) else [out]

    jaxpr, captured = trace_to_jaxpr(flat, avals, function=f, what="lowering")
    if captured:
        raise RuleTypeError(
            message(
                "The function that a primitive is lowered as captures arrays.",
                f"function: {describe_function(f)}",
                f"captured: {', '.join(str(aval_of(x)) for x in captured)}",
                fix="Make them operands of the primitive, or compute them inside by operations on arrays "
                "(`didax.lax.iota`, `didax.numpy.arange`): NumPy's arrays are captured, too.",
            )
        )
    return jaxpr


on_clear(_staged.cache_clear)


def lower_as(f: Callable[..., Any]) -> Callable[..., Any]:
    """A `lower` rule, for a class, `unary` or `binary`: the operations that the function of arrays `f` is made of.

    `f(*operands, **params)` returns an array, or a list where the primitive has `multiple_results`. It captures none.

    >>> import didax as dx, didax.numpy as dnp
    >>> from didax.extend.core import Primitive
    >>> class Hypot(Primitive):
    ...     def type(self, x, y):
    ...         return x
    ...     lower = lower_as(lambda x, y: dnp.sqrt(x * x + y * y))
    >>> float(dx.jit(Hypot("hypotenuse").bind)(3.0, 4.0))
    5.0
    """

    def lower(*given: Any, **params: Any) -> Any:
        of_class = isinstance(given[0], Primitive)  # a method is given its primitive before the context
        ctx, *operands = given[of_class:]
        outs = lower_function(ctx, f, operands, **params)
        return outs if of_class and given[0].multiple_results else outs[0]

    return lower


def materialized(ctx: FunctionContext, xs: Sequence[Value]) -> list[Value]:
    """The same values, all of which are computed in full before a later operation reads any of them.

    XLA removes barriers before it fuses operations, so the values are passed through a call that is not inlined.
    """
    return call(ctx, _identity(tuple([x.aval.strip_weak_type() for x in xs])), xs, inline=False)


def materialized_as_vectors(ctx: FunctionContext, xs: Sequence[Value]) -> list[Value]:
    """`materialized` with arrays as vectors: XLA's loops go along the last axis, which may be short."""
    vectors = [x if is_symbolic(x.aval.size) else ctx.reshape(x, (x.aval.size,)) for x in xs]
    written = materialized(ctx, vectors) if vectors else []
    return [ctx.reshape(y, x.aval.shape) for x, y in zip(xs, written, strict=True)]


@functools.lru_cache(maxsize=512)
def _identity(avals: tuple[ShapedArray, ...]) -> Jaxpr:
    xs = [Var(aval) for aval in avals]
    return Jaxpr(xs, [], xs, "materialized")


def call_python(
    ctx: FunctionContext,
    callback: HostCallback,
    operands: Sequence[Value],
    *,
    side_effect: bool,
    is_ordered: bool = False,
) -> list[Value]:
    """Write a call of the callback; ordered calls happen in the order in which they are written."""
    outs = [
        aval.update(dtype=dtype) for aval, dtype in zip(callback.out_avals, callback.wire_out, strict=True)
    ]
    operands = [ctx.convert(x, dtype) for x, dtype in zip(operands, callback.wire_in, strict=True)]
    tokens = ctx.tokens if is_ordered else []
    given = [ctx.run.use(), *tokens, *operands]
    returned = [ctx.module.token] * len(tokens) + outs
    how = f"index = {ctx.module.number_of(callback)} : ui64", side_effect
    if ctx.module.partitioned_here:
        results = _call_once(ctx, given, returned, len(tokens), how)
    else:
        results = _emit_call(ctx, given, returned, how)
    if is_ordered:
        ctx.tokens = [results.pop(0)]
    return [ctx.convert(y, aval.dtype) for y, aval in zip(results, callback.out_avals, strict=True)]


def _emit_call(
    ctx: FunctionContext, given: Sequence[Value], returned: Sequence[Any], how: tuple[str, bool]
) -> list[Value]:
    config, side_effect = how
    return ctx.emit_many(
        f"stablehlo.custom_call @{_target()}({names(given)}) {{api_version = 4 : i32, "
        f"backend_config = {{{config}}}, "
        f"has_side_effect = {'true' if side_effect else 'false'}, "
        f"operand_layouts = [{', '.join([_by_rows(x.aval) for x in given])}], "
        f"result_layouts = [{', '.join(map(_by_rows, returned))}]}} : {function_type(given, returned)}",
        returned,
    )


def _call_once(
    ctx: FunctionContext,
    given: Sequence[Value],
    returned: Sequence[Any],
    num_tokens: int,
    how: tuple[str, bool],
) -> list[Value]:
    """A call with values that the partitioner splits: all devices that share a value reach it, and one of them calls.

    Each device names these devices, and so the run knows that they have reached the same call (`Run.call_once`).
    """
    devices = ctx.module.devices
    assert devices is not None
    inner, _ = ctx.block([x.aval for x in given])
    region = ctx.region()
    callers = devices.callers()
    number = region.emit("stablehlo.partition_id : tensor<ui32>", UINT32)
    table = region.constant(callers, ShapedArray(callers.shape, UINT32.dtype))
    caller = region.dynamic_slice(table, [number, region.constant(0, UINT32)], [1, callers.shape[1]])
    config, side_effect = how
    outs = _emit_call(
        region, [inner[0], caller, *inner[1:]], returned, (f"{config}, once = 1 : ui64", side_effect)
    )
    if devices.num_processes > 1:  # only one of them calls
        first = region.compare(
            "EQ", number, region.op("reshape", [region.slice_axis(caller, 1, 2, 1)], UINT32)
        )
        told = [of_first_device(region, devices, first, y) for y in outs[num_tokens:]]
        outs = [*outs[:num_tokens], *told]
    lines = "\n".join([*region.lines, f"sdy.return {names(outs)} : {types(outs)}" if outs else "sdy.return"])
    return ctx.emit_many(devices.whole_computation(given, inner, returned, types(outs), lines), returned)


def first_token(ctx: FunctionContext) -> Value:
    """The token that the first operation with an ordered effect waits for.

    On several devices a token is a number, which the partitioner can pass on.
    """
    if ctx.module.devices is None:
        return ctx.emit("stablehlo.create_token : !stablehlo.token", TOKEN)
    return ctx.constant(0, ctx.module.token)


def _target() -> str:
    return CPU_TARGET if platform() == "cpu" else GPU_TARGET


def _by_rows(aval: ShapedArray) -> str:
    return layout_text(range(aval.ndim)[::-1])
