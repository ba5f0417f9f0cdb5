"""Calls of Python functions from array programs: to compute a value, to have an effect, to show values.

    pure_callback_p(x; f, result_avals) = f(x)       computed by the host; may be left out, repeated, reordered
    io_callback_p(x; f, result_avals, ordered)       the same with an effect: happens as often as the program says
    debug_callback_p(x; f, ordered)                  no result; follows the primal values through every transformation

Every pass keeps equations with effects. Debug callbacks, and io callbacks that are `ordered`, keep their order, by
tokens (`xla/lowering.py`). A `FlatCallback` holds the user's function: it takes read-only NumPy arrays and returns
arrays, one for each of `result_avals`. Evaluated eagerly it is called on the spot. Under vmap `vmap_method` says how a
pure callback is mapped; the others run once for each element. Read next: `xla/callbacks.py` (how a compiled program
calls), `didax/api/callbacks.py` (what users call).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core import dtypes
from didax.core.array_ops import Zero, array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.effects import DEBUG, Effect, Effects
from didax.core.errors import message
from didax.core.given import given_by
from didax.core.primitive import Primitive
from didax.core.source import describe_function
from didax.primitives import split
from didax.primitives.control_flow.effects import run_by_element
from didax.transforms.batching import AxisData, batched_aval
from didax.xla.callbacks import HostCallback
from didax.xla.lowering import call_python, has_order
from didax.xla.text import FunctionContext, Value

IO = {ordered: Effect("io", ordered) for ordered in (False, True)}
VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")


class FlatCallback:
    """A user's function on flat arrays: `call(*arrays)` returns a sequence. Equal for one function, one structure.

    `function` is the one that the user gave; calls that differ in anything else have different `key`s. `effect` is what
    a debug callback has.
    """

    __slots__ = ("call", "effect", "function", "key")

    def __init__(self, function: Any, key: Any, call: Callable[..., Sequence[Any]], effect: Effect = DEBUG):
        self.function = function
        self.key = key
        self.call = call
        self.effect = effect

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        return self.call(*arrays)

    def __eq__(self, other: object) -> bool:
        return type(other) is FlatCallback and self.function is other.function and self.key == other.key

    def __hash__(self) -> int:
        return hash((id(self.function), self.key))

    def __repr__(self) -> str:
        return describe_function(self.function)


class CallPython(Primitive):
    """The base of the primitives that call Python."""

    multiple_results = True
    caches_types = False
    side_effect = True
    evaluate = given_by("didax.api.callbacks")

    def type(self, *avals: ShapedArray, result_avals: tuple[ShapedArray, ...], **params: Any) -> Any:
        return result_avals

    def physical(self, in_avals: Sequence[ShapedArray], *args: Any, **params: Any) -> list[Any]:
        """The callback is given the words of random keys."""
        return self.bind(*args, **params)

    def lower(
        self,
        ctx: FunctionContext,
        *args: Value,
        callback: FlatCallback,
        result_avals: tuple[ShapedArray, ...],
        ordered: bool = False,
        **params: Any,
    ) -> list[Value]:
        host = HostCallback(callback, [x.aval for x in args], result_avals, self.name)
        is_ordered = has_order(self.effects({"ordered": ordered, "callback": callback}))
        return call_python(ctx, host, args, side_effect=self.side_effect, is_ordered=is_ordered)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        avals = params["result_avals"]
        if any(dtypes.is_inexact(a.dtype) for a in avals) and any(type(t) is not Zero for t in tangents):
            raise ValueError(
                message(
                    f"{self.name} cannot be differentiated: what a Python callback computes is not known.",
                    f"callback: {params['callback']}",
                    f"arguments: {', '.join(str(aval_of(x)) for x in primals)}, results: {', '.join(map(str, avals))}",
                    fix="Call it inside a function with a rule of its own (custom_jvp, custom_vjp), or keep it out "
                    "of the derivative: stop_gradient on its arguments.",
                )
            )
        return self.bind(*primals, **params), [Zero(aval.tangent()) for aval in avals]

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        return run_by_element(self, axis, args, dims, params)


class PureCallback(CallPython):
    """`pure_callback_p.bind(*args, callback=, result_avals=, sharding=, vmap_method=)`: the callback's results."""

    side_effect = False
    holes = {"transpose": "its jvp is refused, so it is never part of a linear program"}

    def batch(
        self,
        axis: AxisData,
        args: Sequence[Any],
        dims: Sequence[int | None],
        *,
        vmap_method: str | None,
        result_avals: tuple[ShapedArray, ...],
        **params: Any,
    ) -> Any:
        if vmap_method is None:
            raise _no_method(params["callback"])
        params = {**params, "vmap_method": vmap_method, "result_avals": result_avals}
        return batch_by_method(self, axis, args, dims, params)


def batch_by_method(
    primitive: Primitive,
    axis: AxisData,
    args: Sequence[Any],
    dims: Sequence[int | None],
    params: dict[str, Any],
) -> Any:
    """The batch rule of a call of an opaque function; `vmap_method` says which batches the function takes."""
    vmap_method, result_avals = params["vmap_method"], params["result_avals"]
    if vmap_method in ("sequential", "sequential_unrolled"):
        return run_by_element(
            primitive, axis, args, dims, params, unroll=vmap_method == "sequential_unrolled"
        )
    args = [x if d is None else array_ops.move_axis(x, d, 0) for x, d in zip(args, dims, strict=True)]
    if vmap_method != "legacy_vectorized":  # that method passes unbatched operands as they are
        length = axis.size if vmap_method == "broadcast_all" else 1
        args = [
            array_ops.broadcast_axis(x, length, 0) if d is None else x
            for x, d in zip(args, dims, strict=True)
        ]
    params = {**params, "result_avals": tuple(batched_aval(aval, 0, axis.size) for aval in result_avals)}
    return primitive.bind(*args, **params), [0] * len(result_avals)


def _no_method(callback: FlatCallback) -> NotImplementedError:
    return NotImplementedError(
        message(
            "pure_callback under vmap needs to know how its callback is mapped.",
            f"callback: {callback}, vmap_method: None",
            fix=f"Pass vmap_method: one of {', '.join(map(repr, VMAP_METHODS))}.",
        )
    )


class IoCallback(CallPython):
    """`io_callback_p.bind(*args, callback=, result_avals=, sharding=, ordered=)`: results of an impure callback."""

    holes = {"transpose": "its jvp is refused, so it is never part of a linear program"}

    def effects(self, params: dict[str, Any]) -> Effects:
        return _IO[params["ordered"]]

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        if params["ordered"]:
            raise ValueError(
                message(
                    "An ordered io_callback cannot be mapped by vmap: elements of a batch have no order.",
                    f"callback: {params['callback']}, mapped over {axis.size} elements",
                    fix="Pass ordered=False, or loop with lax.scan or lax.map instead of vmap.",
                )
            )
        return run_by_element(self, axis, args, dims, params)


class DebugCallback(CallPython):
    """`debug_callback_p.bind(*args, callback=, ordered=)`: shows values to a callback; no results."""

    sharding = split.no_results

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset([params["callback"].effect])

    def type(self, *avals: ShapedArray, **params: Any) -> Any:
        return []

    def lower(self, ctx: FunctionContext, *args: Value, **params: Any) -> list[Value]:
        return super().lower(ctx, *args, result_avals=(), **params)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        return self.bind(*primals, **params), []

    def transpose(self, cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        return [None] * len(args)


_IO = {ordered: frozenset([effect]) for ordered, effect in IO.items()}

pure_callback_p = PureCallback("pure_callback")
io_callback_p = IoCallback("io_callback")
debug_callback_p = DebugCallback("debug_callback")
