"""A question about a value: how does it lie on devices?

    inspect_sharding_p(x; inspection, axes) = nothing

`inspection` holds the user's function, which is called when the program is compiled, with what XLA's partitioner has
decided; evaluated eagerly, at once. `axes` are those of the operand that the user's value has: under vmap the operand
has one more. Like a debug callback it follows primal values, and no pass removes it.
Read next: `xla/inspection.py` (how XLA is asked), `didax/debug/_sharding.py` (what users call).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.avals import ShapedArray
from didax.core.effects import Effect, Effects
from didax.core.given import given_by
from didax.core.primitive import Primitive
from didax.transforms.batching import AxisData
from didax.xla.inspection import Inspection
from didax.xla.text import FunctionContext, Value

_INSPECT = frozenset([Effect("inspect")])


class InspectSharding(Primitive):
    """`inspect_sharding_p.bind(x, inspection=, axes=)`: tells the inspection how x lies on devices; no results."""

    multiple_results = True
    caches_types = False
    evaluate = given_by("didax.runtime.sharded")

    def effects(self, params: dict[str, Any]) -> Effects:
        return _INSPECT

    def type(self, x: ShapedArray, **params: Any) -> Any:
        return []

    def physical(self, in_avals: Sequence[ShapedArray], *args: Any, **params: Any) -> list[Any]:
        """Random keys lie on devices as their words do, so the words are inspected."""
        return self.bind(*args, **params)

    def lower(
        self, ctx: FunctionContext, x: Value, *, inspection: Inspection, axes: tuple[int, ...]
    ) -> list[Value]:
        listener, devices = ctx.module.listener, ctx.module.devices
        if listener is not None:
            manual = None if devices is None else devices.manual
            number = listener.number_of(inspection, axes, x.aval.ndim, manual)
            if devices is not None and len(devices.partition.devices) > 1:
                ctx.emit(
                    f"stablehlo.custom_call @InspectSharding({x}) {{api_version = 1 : i32, has_side_effect = true, "
                    f'backend_config = "{listener.mark(number)}"}} : ({x.type}) -> {x.type}',
                    x.aval,
                )
        return []

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        return self.bind(*primals, **params), []

    def transpose(self, cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        return [None] * len(args)

    def batch(
        self,
        axis: AxisData,
        args: Sequence[Any],
        dims: Sequence[int | None],
        *,
        inspection: Inspection,
        axes: tuple[int, ...],
    ) -> Any:
        (dim,) = dims
        assert dim is not None
        axes = tuple(a + (a >= dim) for a in axes)
        return self.bind(*args, inspection=inspection, axes=axes), []


inspect_sharding_p = InspectSharding("inspect_sharding")
