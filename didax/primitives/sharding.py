"""How a value inside a program lies on devices: a constraint that the partitioner keeps.

    sharding_constraint(x, sharding)   the same value, laid out so; over explicit axes its type says so
    loosen(x)                          the same value, whose type says nothing of explicit axes

Both are the identity on values, and so are their derivatives: a cotangent lies as the value does.
Read next: `core/sharding.py`, `core/device_types.py`; `runtime/partitioned.py`, where such programs run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.avals import ShapedArray, aval_of
from didax.core.given import given_by
from didax.core.sharding import NamedSharding, PartitionSpec
from didax.primitives import filled
from didax.primitives.shape import LinearUnary
from didax.transforms.batching import AxisData


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
        where = ctx.module.devices.sharding(sharding, x.aval.ndim, free)
        return ctx.emit(f"sdy.sharding_constraint {x} <{where}> : {x.type}", x.aval)

    def transpose(self, ct: Any, x: Any, *, sharding: NamedSharding, **more: Any) -> list[Any]:
        if sharding.mesh.are_all_axes_explicit:  # the cotangent is laid out as the type of the operand says
            return [ct]
        return [self.bind(ct, sharding=sharding, **more)]

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
    """The operand, of whose splits the partitioner is free to think otherwise."""

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


sharding_constraint_p = ShardingConstraint("sharding_constraint")
loosen_p = Loosen("loosen")


def zeros(aval: ShapedArray) -> Any:
    """An array of zeros of that type."""
    return filled.zeros(aval) if aval.layout is None else with_layout(filled.zeros(aval), aval.layout)


def with_layout(x: Any, layout: NamedSharding | None) -> Any:
    """The value with a type that says how it is split over explicit mesh axes, or for None says nothing of them."""
    if aval_of(x).layout is layout:
        return x
    return loosen_p.bind(x) if layout is None else sharding_constraint_p.bind(x, sharding=layout)
