"""How a value inside a program lies on devices: a constraint that the partitioner keeps.

The constraint is the identity on values, and so is its derivative: a cotangent lies as the value does.
Read next: `core/sharding.py`; `runtime/partitioned.py`, where such programs run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.avals import ShapedArray
from didax.core.given import given_by
from didax.core.sharding import NamedSharding, PartitionSpec
from didax.primitives.shape import LinearUnary
from didax.transforms.batching import AxisData


class ShardingConstraint(LinearUnary):
    """The operand, which lies on devices as the parameter says."""

    evaluate = given_by("didax.runtime.sharded")
    moves_elements = True

    def type(self, x: ShapedArray, *, sharding: NamedSharding) -> ShapedArray:
        sharding.check_shape(x.shape)
        return x

    def lower(self, ctx: Any, x: Any, *, sharding: NamedSharding) -> Any:
        where = ctx.module.devices.sharding(sharding, x.aval.ndim)
        return ctx.emit(f"sdy.sharding_constraint {x} <{where}> : {x.type}", x.aval)

    def transpose(self, ct: Any, x: Any, *, sharding: NamedSharding) -> list[Any]:
        return [self.bind(ct, sharding=sharding)]

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, sharding: NamedSharding
    ) -> tuple[Any, int]:
        (x,), (dim,) = args, dims
        assert dim is not None
        spec = list(sharding.spec) + [None] * (dim - len(sharding.spec))
        spec.insert(dim, axis.split_over or PartitionSpec.UNCONSTRAINED)
        return self.bind(x, sharding=sharding.update(spec=spec)), dim


sharding_constraint_p = ShardingConstraint("sharding_constraint")
