"""Operations that stay as they are written, though nothing uses their results: `dce_sink`, `rng_uniform`.

No pass removes an application of one, merges it with an equal one or moves it out of a loop: their effect, `KEPT`, says
so, and says no more. Read next: `core/effects.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.avals import ShapedArray
from didax.core.effects import KEPT, Effects
from didax.core.errors import ArgumentError, message
from didax.core.primitive import Primitive
from didax.primitives import split
from didax.primitives.control_flow.effects import run_by_element
from didax.primitives.holes import NOT_LINEAR
from didax.transforms.batching import AxisData
from didax.xla.ffi import call_target
from didax.xla.text import FunctionContext, Value, tensor_type

_EFFECTS: Effects = frozenset([KEPT])
_INT64 = np.dtype(np.int64)
# XLA ends the process for other dtypes.
_DRAWN = ("float16", "bfloat16", "float32", "float64", "int32", "uint32", "int64", "uint64")


class DceSink(Primitive):
    """`dce_sink_p.bind(x, compiled=)`: keeps what computes `x`, in programs and, if `compiled`, in XLA's too."""

    multiple_results = True
    holes = {"transpose": "it has no results"}
    sharding = split.no_results

    def effects(self, params: dict[str, Any]) -> Effects:
        return _EFFECTS

    def type(self, x: ShapedArray, *, compiled: bool) -> list[ShapedArray]:
        return []

    def evaluate(self, x: Any, *, compiled: bool) -> list[Any]:
        return []

    def lower(self, ctx: FunctionContext, x: Value, *, compiled: bool) -> list[Value]:
        if compiled:  # jaxlib has registered a function of this name, which does nothing
            layouts = [range(x.aval.ndim)]
            call_target(
                ctx,
                "dce_sink",
                [x],
                [],
                config="{}",
                side_effect=True,
                operand_layouts=layouts,
                result_layouts=[],
            )
        return []

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, compiled: bool) -> Any:
        return self.bind(*primals, compiled=compiled), []

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, compiled: bool
    ) -> Any:
        return self.bind(*args, compiled=compiled), []


class RngUniform(Primitive):
    """`rng_uniform_p.bind(low, high, shape=)`: numbers from [low, high) by a generator whose state nobody keeps."""

    multiple_results = True
    holes = {
        "jvp": "another call draws other numbers: use didax.random, whose draws can be repeated",
        "transpose": NOT_LINEAR,
    }

    def effects(self, params: dict[str, Any]) -> Effects:
        return _EFFECTS  # two equal calls draw different numbers

    def type(self, low: ShapedArray, high: ShapedArray, *, shape: tuple[int, ...]) -> list[ShapedArray]:
        facts = f"a: {low}, b: {high}"
        if low.dtype != high.dtype or low.shape != () or high.shape != ():
            rule = "rng_uniform takes two scalars of one dtype."
            raise ArgumentError(message(rule, facts, fix="Cast one (x.astype)."))
        if low.dtype.name not in _DRAWN:
            rule = f"rng_uniform draws {', '.join(_DRAWN)}."
            raise TypeError(message(rule, facts, fix="Draw others, and cast them."))
        return [low.update(shape=shape, weak_type=low.weak_type and high.weak_type)]

    def lower(self, ctx: FunctionContext, low: Value, high: Value, *, shape: tuple[int, ...]) -> list[Value]:
        out = ctx.out_avals[0]
        sizes = ctx.constant(np.asarray(shape, _INT64), ShapedArray((len(shape),), _INT64))
        drawn = ctx.emit(
            f"stablehlo.rng {low}, {high}, {sizes}, distribution = UNIFORM : "
            f"({low.type}, {high.type}, {sizes.type}) -> {tensor_type(out)}",
            out,
        )
        return [drawn]

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, shape: tuple[int, ...]
    ) -> Any:
        return run_by_element(self, axis, args, dims, {"shape": shape})


dce_sink_p = DceSink("dce_sink")
rng_uniform_p = RngUniform("rng_uniform")
