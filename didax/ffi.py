"""Compiled functions of your own (C++, CUDA, numba) as operations of programs, behind XLA's typed interface.

    register_ffi_target("name", pycapsule(library.handler))     once: XLA knows the function by the name
    ffi_call("name", ShapeDtypeStruct((3,), "float32"))(x)      calls it, eagerly and in programs, on the arrays

The function is written with the header `xla/ffi/api/ffi.h` under `include_dir()`; it gets buffers of its operands and
of its results. `vmap` maps it by `vmap_method`; it has a derivative where a `custom_jvp` or `custom_vjp` around it says
which. Names and arguments follow `jax.ffi`. Read next: `docs/ffi.md`; `didax/primitives/ffi.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from didax.api.flat import as_array
from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import api_boundary, message
from didax.core.modules import on_access
from didax.primitives.callback import VMAP_METHODS
from didax.primitives.ffi import Layouts, ffi_call_p
from didax.xla import ffi
from didax.xla.ffi import include_dir, pycapsule
from didax.xla.text import FunctionContext, Value

__all__ = [
    "build_ffi_lowering_function",
    "ffi_call",
    "ffi_lowering",
    "include_dir",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_type",
    "register_ffi_type_id",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def register_ffi_target(
    name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any
) -> None:
    """Make a compiled function known by a name, under which programs call it.

    Args:
      fn: a capsule around its address (`pycapsule`), or a dict of capsules for its stages: "instantiate", "prepare",
        "initialize", "execute".
      platform: "cpu" or "cuda".
      api_version: 1 for the typed interface, 0 for the one before.

    Raises ValueError for a platform that is none, and where XLA knows another function by the name.

    >>> import ctypes
    >>> library = ctypes.CDLL("libscale.so")  # doctest: +SKIP
    >>> register_ffi_target("scale", pycapsule(library.Scale))  # doctest: +SKIP
    """
    ffi.register_target(name, fn, platform, api_version, **kwargs)


@api_boundary
def register_ffi_type(name: str, type_registration: Mapping[str, Any], platform: str = "cpu") -> None:
    """Make the type of a function's state known: a dict with capsules of its "type_id" and "type_info".

    >>> import didax as dx
    >>> import ctypes
    >>> library = ctypes.CDLL("libcounter.so")  # doctest: +SKIP
    >>> symbols = {"type_id": library.TypeId, "type_info": library.TypeInfo}  # doctest: +SKIP
    >>> state = {name: dx.ffi.pycapsule(symbol) for name, symbol in symbols.items()}  # doctest: +SKIP
    >>> dx.ffi.register_ffi_type("counter", state)  # doctest: +SKIP
    """
    ffi.register_type(name, type_registration, platform)


@api_boundary
def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """Make the type of a function's state known by a capsule of its type id, into which XLA writes the number.

    >>> import didax as dx
    >>> import ctypes
    >>> library = ctypes.CDLL("libcounter.so")  # doctest: +SKIP
    >>> dx.ffi.register_ffi_type_id("counter", dx.ffi.pycapsule(library.TypeId))  # doctest: +SKIP
    """
    ffi.register_type(name, {"type_id": obj}, platform)


@api_boundary
def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[Sequence[int] | None] | None = None,
    output_layouts: Any = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> Callable[..., Any]:
    """A function of arrays that calls a registered compiled function.

    Args:
      result_shape_dtypes: what it returns: something with `shape` and `dtype`, or a sequence of these.
      has_side_effect: call it also where no result is used.
      vmap_method: how `vmap` maps it: "sequential", "sequential_unrolled" (an element at a time), "expand_dims",
        "broadcast_all" (whole batches, in which operands that are not mapped have a batch axis of length 1, or of the
        length of the batch).
      input_layouts, output_layouts: for each array its axes from the slowest to the fastest; None for their order.
      input_output_aliases: a dict from the number of an operand to the number of the result that takes its memory.
      custom_call_api_version: of XLA's custom calls; from 4 on the interface is typed.
      legacy_backend_config: a string for functions of older interfaces.

    Keyword arguments of the function that is returned are static attributes of the call: numbers (Python's have 64
    bits), strings, bytes, arrays of NumPy's, which are spans of numbers, and dicts of these.

    Raises TypeError or ValueError for results, attributes, layouts and aliases that are not possible.

    >>> import didax as dx, didax.numpy as dnp
    >>> scale = dx.ffi.ffi_call("scale", dx.ShapeDtypeStruct((3,), "float32"))
    >>> dx.eval_shape(lambda x: scale(x, factor=2.0), dnp.ones(3))  # the function itself is not needed for types
    ShapeDtypeStruct(shape=(3,), dtype=float32)
    """
    many = isinstance(result_shape_dtypes, tuple | list)
    result_avals = tuple([_declared(x) for x in (result_shape_dtypes if many else [result_shape_dtypes])])
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        fix = f"Use one of {', '.join(map(repr, VMAP_METHODS))}, or None."
        raise ValueError(
            message("Unknown vmap_method of ffi_call.", f"vmap_method: {vmap_method!r}", fix=fix)
        )
    if output_layouts is not None and not many:
        output_layouts = [output_layouts]

    def call(*args: Any, **attributes: Any) -> Any:
        operands = [as_array(x) for x in args]
        avals = [aval_of(x) for x in operands]
        outs = ffi_call_p.bind(
            *operands,
            target=str(target_name),
            result_avals=result_avals,
            config=_config(attributes, custom_call_api_version, legacy_backend_config),
            has_side_effect=bool(has_side_effect),
            vmap_method=vmap_method,
            input_layouts=_layouts("input_layouts", input_layouts, avals),
            output_layouts=_layouts("output_layouts", output_layouts, result_avals),
            aliases=_aliases(input_output_aliases, avals, result_avals),
            api_version=int(custom_call_api_version),
        )
        outs = [as_array(y) for y in outs]
        return tuple(outs) if many else outs[0]

    return api_boundary(call)


@api_boundary
def ffi_lowering(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Sequence[int]] | None = None,
    result_layouts: Sequence[Sequence[int]] | None = None,
    backend_config: Mapping[str, Any] | None = None,
    has_side_effect: bool = False,
) -> Callable[..., Any]:
    """A `lower` rule for a primitive (`didax.extend.core.Primitive`) that is a compiled function.

    The primitive's parameters become attributes of the call, beside those of `backend_config`. Layouts are, as XLA has
    them, axes from the fastest to the slowest; left out, arrays lie in the order of their axes.

    >>> import didax as dx
    >>> class Scale(dx.extend.core.Primitive):
    ...     def type(self, x):
    ...         return x
    ...
    ...     lower = staticmethod(ffi_lowering("scale"))
    >>> scale_p = Scale("example_scale")
    >>> "custom_call @scale" in dx.jit(lambda x: scale_p.bind(x)).lower(2.0).as_text()
    True
    """
    write = build_ffi_lowering_function(
        call_target_name,
        operand_layouts=operand_layouts,
        result_layouts=result_layouts,
        backend_config=backend_config,
        has_side_effect=has_side_effect,
    )

    def lower(ctx: FunctionContext, *operands: Value, **params: Any) -> Any:
        outs = write(ctx, *operands, **params).results
        return outs if len(outs) > 1 else outs[0]

    return lower


class ForeignCall(NamedTuple):
    """A call of a compiled function in the text of a program: what it is called, and the values that it gives."""

    call_target_name: str
    results: list[Value]


@api_boundary
def build_ffi_lowering_function(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Sequence[int]] | None = None,
    result_layouts: Sequence[Sequence[int]] | None = None,
    backend_config: Mapping[str, Any] | None = None,
    has_side_effect: bool = False,
    result_types: Sequence[ShapedArray] | None = None,
) -> Callable[..., ForeignCall]:
    """A part of a `lower` rule that calls a compiled function: `write(ctx, *operands, **attributes).results`.

    As `ffi_lowering`, for rules that do more than the call: they write operations before it, and use its results.
    `result_types` are by default the types of the primitive's results.

    >>> import didax as dx
    >>> class MinusScale(dx.extend.core.Primitive):
    ...     def type(self, x):
    ...         return x
    ...
    ...     def lower(self, ctx, x):
    ...         (y,) = build_ffi_lowering_function("scale")(ctx, x).results
    ...         return ctx.op("negate", [y])
    >>> minus_scale_p = MinusScale("example_minus_scale")
    >>> "stablehlo.negate" in dx.jit(lambda x: minus_scale_p.bind(x)).lower(2.0).as_text()
    True
    """

    def write(ctx: FunctionContext, *operands: Value, **params: Any) -> ForeignCall:
        avals = [x.aval for x in operands]
        out_avals = ctx.out_avals if result_types is None else list(result_types)
        outs = ffi.call_target(
            ctx,
            call_target_name,
            operands,
            out_avals,
            config=ffi.attributes_text({**(backend_config or {}), **params}),
            side_effect=has_side_effect,
            operand_layouts=_from_fastest(operand_layouts, avals),
            result_layouts=_from_fastest(result_layouts, out_avals),
        )
        return ForeignCall(call_target_name, list(outs))

    return write


def _from_fastest(
    layouts: Sequence[Sequence[int]] | None, avals: Sequence[ShapedArray]
) -> list[Sequence[int]]:
    if layouts is None:
        return [range(aval.ndim) for aval in avals]
    return [list(order)[::-1] for order in layouts]


def _declared(x: Any) -> ShapedArray:
    try:
        return ShapedArray(tuple([int(n) for n in x.shape]), dtypes.dtype(x.dtype))
    except (AttributeError, TypeError):
        rule = "result_shape_dtypes of ffi_call is what has a shape and a dtype, or a sequence of these."
        fix = "Write ShapeDtypeStruct(shape, dtype)."
        raise TypeError(message(rule, f"got: {x!r:.100} of type {type(x).__name__}", fix=fix)) from None


def _config(attributes: Mapping[str, Any], api_version: int, legacy: str | None) -> str:
    if api_version >= 4 and legacy is None:
        return ffi.attributes_text(attributes)
    if attributes or api_version >= 4:
        rule = "Attributes go with the typed interface, legacy_backend_config with those before."
        facts = f"custom_call_api_version: {api_version}, attributes: {', '.join(attributes) or 'none'}"
        raise ValueError(message(rule, facts, fix="Use custom_call_api_version=4 with attributes."))
    return ffi.attribute_text("legacy_backend_config", legacy or "")


def _layouts(name: str, layouts: Any, avals: Sequence[ShapedArray]) -> Layouts:
    if layouts is None:
        return (None,) * len(avals)
    orders = tuple([None if order is None else tuple([int(i) for i in order]) for order in layouts])
    fits = len(orders) == len(avals) and all(
        order is None or sorted(order) == list(range(aval.ndim))
        for order, aval in zip(orders, avals, strict=True)
    )
    if not fits:
        rule = f"{name} of ffi_call has the axes of each array in some order, or None."
        facts = f"{name}: {layouts!r:.100}, arrays: {', '.join(map(str, avals))}"
        raise ValueError(message(rule, facts, fix="Name every axis of each array once."))
    return orders


def _aliases(
    aliases: Mapping[int, int] | None, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray]
) -> tuple[tuple[int, int], ...]:
    pairs = tuple(sorted((aliases or {}).items()))
    for x, out in pairs:
        inside = 0 <= x < len(avals) and 0 <= out < len(outs)
        if not inside or avals[x].strip_weak_type() is not outs[out].strip_weak_type():
            rule = (
                "input_output_aliases of ffi_call pairs an operand with a result of the same shape and dtype."
            )
            facts = f"pair: {x} -> {out}, operands: {', '.join(map(str, avals))}, results: {', '.join(map(str, outs))}"
            raise ValueError(message(rule, facts, fix="Correct the numbers, or the declared result."))
    return pairs
