"""`jax.interpreters.mlir`: how a primitive is compiled.

    register_lowering(p, lower_fun(f))      as the operations that `f`, a function of arrays, is made of
    register_lowering(p, rule)              rule(ctx, *values, **params) -> values

Didax writes StableHLO as text. A rule that `lower_fun` made writes it. Any other rule is called with jaxlib's values,
inside a jaxlib module, and may build operations with `jaxlib.mlir`: Didax's text calls the function that it builds. A
rule that calls `lower_fun(f)(ctx, ...)` or `emit_python_callback` there is called once more, with Didax's values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from didax.as_jax.primitive import Primitive, UserRules
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.transforms.staging import trace_to_jaxpr
from didax.xla.callbacks import HostCallback
from didax.xla.lowering import call, call_python
from didax.xla.text import FunctionContext, Value, dense, names, tensor_type
from didax.xla.text import types as type_list

__all__ = [
    "LoweringRule", "LoweringRuleContext", "Value", "aval_to_ir_type", "dense_int_array", "dense_int_elements",
    "dtype_to_ir_type", "emit_python_callback", "i32_attr", "i64_attr", "ir_constant", "lower_fun", "register_lowering",
]  # fmt: skip

LoweringRule = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class LoweringRuleContext:
    """What a lowering rule knows: the primitive, the types of its operands and results."""

    didax: FunctionContext
    primitive: Primitive | None
    avals_in: Sequence[ShapedArray]
    avals_out: Sequence[ShapedArray]

    @property
    def module_context(self) -> Any:
        """The module that is being written; a program keeps what its callbacks need."""
        return SimpleNamespace(add_keepalive=lambda _: None, platforms=("cpu",), module=self.didax.module)

    def replace(self, **changes: Any) -> LoweringRuleContext:
        """The same with some fields replaced."""
        return dataclasses.replace(self, **changes)


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweringRule:
    """The rule that writes the operations of `fun`, which returns a sequence of arrays, or one array."""

    def rule(ctx: LoweringRuleContext, *operands: Value, **params: Any) -> list[Value]:
        _check_values("lower_fun", operands)

        def flat(*args: Any) -> list[Any]:
            out = fun(*args, **params)
            return list(out) if multiple_results else [out]

        jaxpr, captured = trace_to_jaxpr(flat, [x.aval for x in operands], function=fun, what="lowering")
        constants = [ir_constant(np.asarray(x), ctx) for x in captured]
        return call(ctx.didax, jaxpr, [*constants, *operands])

    rule.writes_text = True  # pyright: ignore[reportFunctionMemberAccess]
    return rule


class _ValuesOfJaxlib(NotImplementedError):
    """A function that writes Didax's text was given jaxlib's values."""


def _check_values(name: str, operands: Sequence[Any]) -> None:
    if not all(isinstance(x, Value) for x in operands):
        text = (
            f"mlir.{name} was called with jaxlib's values: a rule builds operations, or calls it, not both."
        )
        raise _ValuesOfJaxlib(message(text, fix="Write the whole rule as a function of arrays."))


def ir_constant(value: Any, ctx: LoweringRuleContext | None = None) -> Any:
    """A constant: Didax's value where a context is given, otherwise one in the jaxlib module that is being built."""
    array = np.asarray(value)
    aval = ShapedArray(array.shape, aval_of(array).dtype)
    if ctx is not None:
        return ctx.didax.constant(array, aval)
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    text = f"dense<{dense(array.astype(aval.dtype), aval.dtype)}> : {tensor_type(aval)}"
    return stablehlo.constant(ir.Attribute.parse(text))


def emit_python_callback(
    ctx: LoweringRuleContext,
    callback: Callable[..., Sequence[Any]],
    token: Any,
    operands: Sequence[Value],
    operand_avals: Sequence[ShapedArray],
    result_avals: Sequence[ShapedArray],
    *,
    has_side_effect: bool,
    returns_token: bool = False,
    partitioned: bool = False,
    sharding: Any = None,
) -> tuple[list[Value], Any, Any]:
    """Write a call of a Python function on NumPy arrays: its results, a token, and what has to be kept alive."""
    _check_values("emit_python_callback", operands)
    host = HostCallback(
        callback, list(operand_avals), list(result_avals), getattr(callback, "__name__", "callback")
    )
    return call_python(ctx.didax, host, list(operands), side_effect=has_side_effect), token, None


def register_lowering(
    prim: Primitive,
    rule: LoweringRule,
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> LoweringRule:
    """State how a primitive is compiled, on all platforms or on one; a rule for all counts where there is no other."""
    if not isinstance(prim, Primitive) or type(prim.rules) is not UserRules:
        text = (
            "register_lowering takes rules for primitives that a program makes; those of Didax keep theirs."
        )
        raise TypeError(message(text, f"primitive: {prim!r}", fix="Make one with jax.extend.core.Primitive."))
    lowerings: dict[str | None, LoweringRule] = prim.rules.__dict__.setdefault("lowerings", {})
    lowerings[platform] = rule
    prim.rules.lower = lambda ctx, *operands, **params: _lower(
        prim, lowerings, ctx, operands, params, cacheable
    )
    return rule


_NAMES = {"gpu": ("cuda", "rocm", "gpu"), "cuda": ("cuda", "gpu"), "cpu": ("cpu",), "tpu": ("tpu",)}


def _lower(
    prim: Primitive,
    lowerings: dict[str | None, LoweringRule],
    ctx: FunctionContext,
    operands: Sequence[Value],
    params: dict[str, Any],
    cacheable: bool,
) -> Any:
    from didax.xla.client import backend  # loads jaxlib: on first need

    platform = backend().platform
    names = (*_NAMES.get(platform, (platform,)), None)
    rule = next((lowerings[name] for name in names if name in lowerings), None)
    if rule is None:
        text = f"The primitive {prim.name!r} has no lowering for this platform."
        facts = f"platform: {platform}", f"registered: {', '.join(map(str, lowerings))}"
        raise NotImplementedError(
            message(text, *facts, fix="Call mlir.register_lowering without a platform.")
        )
    given = prim.to_jax(params)
    wrapped = LoweringRuleContext(ctx, prim, tuple([x.aval for x in operands]), list(ctx.out_avals))
    if hasattr(rule, "writes_text"):
        outs = list(rule(wrapped, *operands, **given))
    else:
        try:
            key = rule, wrapped.avals_in, tuple(wrapped.avals_out), tuple(params.items())
            outs = _built(prim, rule, wrapped, operands, given, key if cacheable else None)
        except _ValuesOfJaxlib as error:
            outs = _written(rule, wrapped, operands, given, error)
    return outs if prim.multiple_results else outs[0]


def _written(
    rule: LoweringRule,
    wrapped: LoweringRuleContext,
    operands: Sequence[Value],
    params: dict[str, Any],
    error: Exception,
) -> list[Value]:
    """What a rule writes with Didax's values; `error` where jaxlib's builders refuse them."""
    try:
        return list(rule(wrapped, *operands, **params))
    except (TypeError, RuntimeError) as refused:
        words = "incompatible function arguments", "requires a Location", "requires a Context"
        if any(text in str(refused) for text in words):
            raise error from None
        raise


# --- Rules that build operations with jaxlib.mlir -------------------------------------------------------------

# Texts of functions that rules have built: a program is written with the lines of the user's program, and without.
_texts: dict[Any, str] = {}
_MANY_TEXTS = 256


def _built(
    prim: Primitive,
    rule: LoweringRule,
    wrapped: LoweringRuleContext,
    operands: Sequence[Value],
    params: dict[str, Any],
    key: Any,
) -> list[Value]:
    """A call of the function that a rule builds in a jaxlib module, remembered by `key`; None: build it anew."""
    text = _texts.get(key) if key is not None else None
    if text is None:
        text = _function(rule, wrapped, params)
        if len(_texts) >= _MANY_TEXTS:
            _texts.clear()
        if key is not None:
            _texts[key] = text
    ctx = wrapped.didax
    name = ctx.module.add(text, prim.name, False)
    results = ", ".join([tensor_type(aval) for aval in wrapped.avals_out])
    line = f"func.call @{name}({names(operands)}) : ({type_list(operands)}) -> ({results})"
    return ctx.emit_many(line, wrapped.avals_out)


def _function(rule: LoweringRule, wrapped: LoweringRuleContext, params: dict[str, Any]) -> str:
    """The text of the function that a rule builds, from its arguments on."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func

    from didax.xla.artifacts import stablehlo_context

    with stablehlo_context() as context, ir.Location.unknown(context):
        module = ir.Module.create()
        types = [[aval_to_ir_type(aval) for aval in avals] for avals in (wrapped.avals_in, wrapped.avals_out)]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("rule", (types[0], types[1]))
        with ir.InsertionPoint(function.add_entry_block()):
            outs = rule(wrapped, *function.arguments, **params)
            func.ReturnOp(list(_flat_values(outs)))
        module.operation.verify()
        return str(function).partition("@rule")[2].strip()


def _flat_values(outs: Any) -> Iterator[Any]:
    """The values that a rule returned: in lists, or as the results of an operation."""
    if hasattr(outs, "results") and not hasattr(outs, "type"):
        outs = outs.results
    if isinstance(outs, (list, tuple)) or type(outs).__name__ == "OpResultList":
        for out in outs:
            yield from _flat_values(out)
    else:
        yield outs


def aval_to_ir_type(aval: ShapedArray) -> Any:
    """The type of a tensor, in the module that is being built."""
    from jaxlib.mlir import ir

    return ir.Type.parse(tensor_type(aval))


def dtype_to_ir_type(dtype: Any) -> Any:
    """The type of an element, in the module that is being built."""
    from jaxlib.mlir import ir

    return ir.RankedTensorType(aval_to_ir_type(ShapedArray((), np.dtype(dtype)))).element_type


def i32_attr(i: int) -> Any:
    """An attribute that is an integer of 32 bits."""
    from jaxlib.mlir import ir

    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), i)


def i64_attr(i: int) -> Any:
    """An attribute that is an integer of 64 bits."""
    from jaxlib.mlir import ir

    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), i)


def dense_int_elements(xs: Sequence[int]) -> Any:
    """An attribute that is a vector of integers of 64 bits."""
    from jaxlib.mlir import ir

    numbers: Any = np.asarray(xs, np.int64)
    return ir.DenseIntElementsAttr.get(numbers)


def dense_int_array(xs: Sequence[int]) -> Any:
    """An attribute that is an array of integers of 64 bits."""
    from jaxlib.mlir import ir

    return ir.DenseI64ArrayAttr.get([int(x) for x in xs])
