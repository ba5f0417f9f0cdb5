"""Batching rules of your own: `custom_vmap`, and `sequential_vmap`, which runs one element after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from didax.api.custom import custom_vmap
from didax.core import pytree
from didax.core.errors import api_boundary
from didax.core.modules import on_access
from didax.lax.loops import map as lax_map

__all__ = ["custom_vmap", "sequential_vmap"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

P = ParamSpec("P")
R = TypeVar("R")


@api_boundary
def sequential_vmap(f: Callable[P, R]) -> custom_vmap[P, R]:
    """Return `f` with a batching rule that runs a loop, one element after the other.

    >>> import didax as dx
    >>> import didax.numpy as dnp
    >>> double = dx.custom_batching.sequential_vmap(lambda x: x * 2)
    >>> dx.vmap(double)(dnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    mapped = custom_vmap(f)

    def rule(axis_size: int, in_batched: Sequence[Any], *args: Any) -> tuple[Any, Any]:
        leaves, tree = pytree.flatten(tuple(args))
        marks = pytree.leaves(tuple(in_batched))

        def one(rows: Sequence[Any]) -> Any:
            given = iter(rows)
            every = [next(given) if batched else x for x, batched in zip(leaves, marks, strict=True)]
            return f(*pytree.unflatten(tree, every))  # pyright: ignore[reportCallIssue]

        rows = [x for x, batched in zip(leaves, marks, strict=True) if batched]
        out = lax_map(one, rows)
        return out, pytree.map(lambda _: True, out)

    mapped.def_vmap(rule)
    return mapped
