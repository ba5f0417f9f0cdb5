"""Rows: what lies on several devices, on a mesh of one; `tests/devices/` has the meshes of eight."""

from __future__ import annotations

from typing import Any

import numpy as np

import didax as dx
from didax import NamedSharding, P, lax
from tests.operations.row import FLOATS, Operation

SHAPE = (2, 3)


def numbers(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    return (rng.uniform(0.3, 1.5, SHAPE).astype(dtype),)


def in_host_memory(x: Any) -> Any:
    return dx.device_put(x, dx.memory.Space.Host)


def constrained(x: Any) -> Any:
    return lax.with_sharding_constraint(x, NamedSharding(dx.make_mesh((1,), ("x",)), P("x")))


def inspected(x: Any) -> Any:
    dx.debug.inspect_array_sharding(x, callback=lambda sharding: None)
    return lax.sin(x)


def mapped(x: Any) -> Any:
    mesh = dx.make_mesh((1,), ("x",))
    return dx.shard_map(lambda x: lax.mul(x, lax.psum(x, "x")), mesh=mesh, in_specs=P("x"), out_specs=P("x"))(
        x
    )


def cast(x: Any) -> Any:
    mesh = dx.make_mesh((1,), ("x",))
    vary = dx.shard_map(lambda x: lax.pcast(x, "x", to="varying"), mesh=mesh, in_specs=P(), out_specs=P("x"))
    return lax.sin(vary(x))


ROWS = [
    Operation("memory", in_host_memory, lambda x: x, numbers, (*FLOATS, "int32")),
    Operation("sharding_constraint", constrained, lambda x: x, numbers, (*FLOATS, "int32"), has_text=False),
    Operation("inspect_sharding", inspected, np.sin, numbers, FLOATS, has_text=False),
    Operation("shard_map", mapped, lambda x: x * x, numbers, FLOATS, has_text=False),
    Operation("pvary", cast, np.sin, numbers, FLOATS, has_text=False),
]
