"""`ffi_call_p`: a compiled function behind XLA's typed interface, as an operation of a program.

Read next: `didax/ffi.py`, what users call; `callback.py`, the same for Python functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.avals import ShapedArray
from didax.core.effects import NO_EFFECTS, Effects
from didax.core.errors import message
from didax.core.primitive import Primitive
from didax.primitives.callback import IO, VMAP_METHODS, batch_by_method
from didax.transforms.batching import AxisData
from didax.xla.ffi import call_target
from didax.xla.text import FunctionContext, Value

_UNKNOWN = (
    "what a foreign function computes is not known: call it inside a function with rules of its own (custom_jvp, "
    "custom_vjp)"
)
Layouts = tuple[tuple[int, ...] | None, ...]


class FfiCall(Primitive):
    """`ffi_call_p.bind(*args, target=, result_avals=, config=, ...)`: the results of the foreign function.

    `config` is the text of its attributes. Layouts name the axes of each operand and result from the slowest to the
    fastest; None is the order of the axes. `aliases` are pairs of an operand and the result that takes its memory.
    """

    multiple_results = True
    holes = dict.fromkeys(("jvp", "transpose"), _UNKNOWN)

    def type(self, *avals: ShapedArray, result_avals: tuple[ShapedArray, ...], **params: Any) -> Any:
        return result_avals

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset([IO[False]]) if params["has_side_effect"] else NO_EFFECTS

    def lower(
        self,
        ctx: FunctionContext,
        *args: Value,
        target: str,
        result_avals: tuple[ShapedArray, ...],
        config: str,
        has_side_effect: bool,
        vmap_method: str | None,
        input_layouts: Layouts,
        output_layouts: Layouts,
        aliases: tuple[tuple[int, int], ...],
        api_version: int,
    ) -> list[Value]:
        def orders(avals: Sequence[ShapedArray], layouts: Layouts) -> list[Sequence[int]]:
            shapes = [aval.physical.ndim for aval in avals]
            return [range(n) if order is None else order for n, order in zip(shapes, layouts, strict=True)]

        return call_target(
            ctx,
            target,
            args,
            result_avals,
            config=config,
            side_effect=has_side_effect,
            operand_layouts=orders([x.aval for x in args], input_layouts),
            result_layouts=orders(result_avals, output_layouts),
            aliases=aliases,
            api_version=api_version,
        )

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        if params["vmap_method"] is None:
            raise NotImplementedError(
                message(
                    "ffi_call under vmap needs to know how the foreign function is mapped.",
                    f"target: {params['target']}, vmap_method: None",
                    fix=f"Pass vmap_method: one of {', '.join(map(repr, VMAP_METHODS))}.",
                )
            )
        mapped = {**params}
        if not params["vmap_method"].startswith("sequential"):
            whole = params["vmap_method"] == "legacy_vectorized"
            had = [whole and dim is None for dim in dims]
            mapped["input_layouts"] = tuple(map(_with_batch, params["input_layouts"], had))
            mapped["output_layouts"] = tuple([_with_batch(order) for order in params["output_layouts"]])
        return batch_by_method(self, axis, args, dims, mapped)


def _with_batch(order: tuple[int, ...] | None, unbatched: bool = False) -> tuple[int, ...] | None:
    """The layout of an array that has a batch axis before its own."""
    return order if order is None or unbatched else (0, *[i + 1 for i in order])


ffi_call_p = FfiCall("ffi_call")
