"""How a value inside a program lies on devices: a constraint that the partitioner keeps; and in which memory.

    sharding_constraint(x, sharding)   the same value, laid out so, in the memory that the sharding says; over explicit
                                       axes its type says how it is laid out
    loosen(x)                          the same value, whose type says nothing of explicit axes
    memory(x, kind)                    the same value, in memory of that kind

All are the identity on values, and so are their derivatives: a cotangent lies as the value does. The cotangent of
`memory` is brought to `source`, the kind of memory that the operand was known to lie in; by default that of the device.
Read next: `core/sharding.py`, `core/device_types.py`, `passes/memories.py`; `runtime/partitioned.py`, where such
programs run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core import config
from didax.core.avals import ShapedArray, aval_of
from didax.core.given import given_by
from didax.core.jaxpr import Eqn
from didax.core.memory import DEVICE
from didax.core.sharding import NamedSharding, PartitionSpec, checked_memory_kind
from didax.passes.memories import Memories, Placing, Where, as_they_lie
from didax.primitives import filled, padded, split
from didax.primitives.shape import LinearUnary
from didax.transforms.batching import AxisData
from didax.xla.platforms import platform


class ShardingConstraint(LinearUnary):
    """The operand, which lies on devices as the parameter says.

    Along the axes `free` of the mesh, where there are any, the partitioner decides.
    """

    evaluate = given_by("didax.runtime.sharded")
    moves_elements = True
    sets_sharding = True

    def type(self, x: ShapedArray, *, sharding: NamedSharding, free: tuple[str, ...] = ()) -> ShapedArray:
        if sharding.mesh.are_all_axes_auto:
            return x
        sharding.check_shape(x.shape)
        return x.update(sharding=sharding)

    def lower(self, ctx: Any, x: Any, *, sharding: NamedSharding, free: tuple[str, ...] = ()) -> Any:
        laid_out = x
        if ctx.module.devices is not None:  # else the mesh has no devices, and the program runs on one
            where = ctx.module.devices.sharding(sharding, x.aval.ndim, free)
            laid_out = ctx.emit(f"sdy.sharding_constraint {x} <{where}> : {x.type}", x.aval)
        return laid_out if sharding.kind is None else lower_move(ctx, laid_out, sharding.kind)

    def memories(self, eqn: Eqn, place: Placing, operands: Memories) -> Where:
        return eqn.params, (None,), (eqn.params["sharding"].kind,)

    def transpose(self, ct: Any, x: Any, *, sharding: NamedSharding, **more: Any) -> list[Any]:
        if sharding.mesh.are_all_axes_explicit:  # the cotangent is laid out as the type of the operand says
            return [ct]
        return [self.bind(ct, sharding=sharding.on_device, **more)]

    def batch(
        self,
        axis: AxisData,
        args: Sequence[Any],
        dims: Sequence[int | None],
        *,
        sharding: NamedSharding,
        **more: Any,
    ) -> tuple[Any, int]:
        (x,), (dim,) = args, dims
        assert dim is not None
        left = None if sharding.mesh.are_all_axes_explicit else PartitionSpec.UNCONSTRAINED
        spec = list(sharding.spec) + [None] * (dim - len(sharding.spec))
        spec.insert(dim, axis.split_over or left)
        return self.bind(x, sharding=sharding.update(spec=spec), **more), dim


class Loosen(LinearUnary):
    """The operand, which the partitioner may split in other ways."""

    evaluate = given_by("didax.runtime.sharded")
    moves_elements = True
    sets_sharding = True

    def type(self, x: ShapedArray) -> ShapedArray:
        return x.update(sharding=None)

    def lower(self, ctx: Any, x: Any) -> Any:
        return x

    def transpose(self, ct: Any, x: Any) -> list[Any]:
        return [ct]  # which is laid out as the type of the operand says

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None]) -> Any:
        return self.bind(args[0]), dims[0]

    memories = staticmethod(as_they_lie)


class Memory(LinearUnary):
    """The operand, in memory of this kind."""

    evaluate = given_by("didax.runtime.sharded")
    moves_elements = True
    sharding = split.kept
    padded = padded.elementwise

    def type(self, x: ShapedArray, *, kind: str, source: str = DEVICE) -> ShapedArray:
        return x

    def lower(self, ctx: Any, x: Any, *, kind: str, source: str = DEVICE) -> Any:
        return lower_move(ctx, x, kind)

    def transpose(self, ct: Any, x: Any, *, kind: str, source: str = DEVICE) -> list[Any]:
        return [self.bind(ct, kind=source, source=kind)]

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        return self.bind(args[0], **params), dims[0]

    def memories(self, eqn: Eqn, place: Placing, operands: Memories) -> Where:
        wanted = None if eqn.params["kind"] == DEVICE else eqn.params["kind"]
        if operands[0] == wanted:
            return None, operands, operands
        return eqn.params, operands if wanted is None else (None,), (wanted,)


sharding_constraint_p = ShardingConstraint("sharding_constraint")
memory_p = Memory("memory")
loosen_p = Loosen("loosen")


def zeros(aval: ShapedArray) -> Any:
    """An array of zeros of this type, split as the type says."""
    return filled.zeros(aval) if aval.layout is None else with_layout(filled.zeros(aval), aval.layout)


def with_layout(x: Any, layout: NamedSharding | None) -> Any:
    """`x` with a type that says how `x` is split over explicit mesh axes; for None, with a type that names none."""
    if aval_of(x).layout is layout:
        return x
    return loosen_p.bind(x) if layout is None else sharding_constraint_p.bind(x, sharding=layout)


def lower_move(ctx: Any, x: Any, kind: str) -> Any:
    """Write that a value is moved to memory of this kind; on the CPU all kinds are one memory."""
    if config.state().lowering_platform is None:
        from didax.xla.client import backend

        checked_memory_kind(kind, backend().devices[:1])
    if platform() == "cpu":
        return x
    said = (
        'backend_config = "", has_side_effect = true, mhlo.frontend_attributes = '
        f'{{_xla_buffer_placement = "{kind}"}}'
    )
    text = f"stablehlo.custom_call @annotate_device_placement({x}) {{{said}}} : ({x.type}) -> {x.type}"
    return ctx.emit(text, x.aval)


def in_memory(x: Any, kind: str) -> Any:
    """The value, moved to memory of this kind."""
    return memory_p.bind(x, kind=kind)
