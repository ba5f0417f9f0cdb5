"""Effects in loops and branches: once for each element that takes part, and once only.

Batched, a branch or a loop runs on the whole batch while some elements take part in it. With a callback in it that
would show values of elements that do not, so it runs for one element after the other (`for_each`), as callbacks do
themselves. A linear half that repeats primal steps repeats them without those effects that have no results (`silent`).
Read next: `didax/primitives/callback.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core.array_ops import array_ops
from didax.core.avals import aval_of
from didax.core.jaxpr import Jaxpr
from didax.core.primitive import Primitive, eager_trace, infer
from didax.core.tracing import current_trace
from didax.passes.checkify import CHECK
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.shape import reshape, zeros
from didax.primitives.slicing import concatenate, slice_axis
from didax.transforms.batching import AxisData, batched_aval, element_aval
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.staging import trace_to_jaxpr


def go_by_element(*jaxprs: Jaxpr) -> bool:
    """Whether programs have effects that must not happen for elements that take no part (checks hold for these)."""
    return any(effect != CHECK for jaxpr in jaxprs for effect in jaxpr.effects)


def for_each(
    primitive: Primitive,
    axis: AxisData,
    args: Sequence[Any],
    dims: Sequence[int | None],
    params: dict[str, Any],
    unroll: bool = False,
) -> tuple[list[Any], list[int]]:
    """Apply a primitive to one element of the batch after the other; results with their batch axis at 0."""
    batched = [d is not None for d in dims]
    rows = [array_ops.move_axis(x, d, 0) for x, d in zip(args, dims, strict=True) if d is not None]
    shared = [x for x, b in zip(args, batched, strict=True) if not b]

    def apply(*values: Any) -> list[Any]:
        fixed, row = iter(values[: len(shared)]), iter(values[len(shared) :])
        return primitive.bind(*[next(row if b else fixed) for b in batched], **params)

    if current_trace() is eager_trace and axis.size:
        outs = _one_by_one(apply, axis.size, shared, rows)
    elif not axis.size:
        avals = [element_aval(aval_of(x), dim) for x, dim in zip(args, dims, strict=True)]
        outs = [zeros(batched_aval(aval, 0, 0)) for aval in infer(primitive, tuple(avals), params)]
    else:
        row_avals = [element_aval(aval_of(x), 0) for x in rows]
        body, captured = trace_to_jaxpr(apply, [*map(aval_of, shared), *row_avals], what="vmap")
        assert not captured, "every argument is an input"
        how = {"length": axis.size, "reverse": False, "unroll": axis.size if unroll else 1}
        outs = scan_p.bind(*shared, *rows, jaxpr=body, num_consts=len(shared), num_carry=0, **how)
    return outs, [0] * len(outs)


def _one_by_one(
    apply: Callable[..., list[Any]], size: int, shared: Sequence[Any], rows: Sequence[Any]
) -> list[Any]:
    results: list[list[Any]] = []
    for i in range(size):
        row = [reshape(slice_axis(x, i, i + 1, 0), aval_of(x).shape[1:]) for x in rows]
        results.append([array_ops.broadcast_axis(y, 1, 0) for y in apply(*shared, *row)])
    return [concatenate(column, 0) for column in zip(*results, strict=True)]


@cached_on_jaxpr
def silent(jaxpr: Jaxpr) -> Jaxpr:
    """The program without what is done for its effects only."""
    if not jaxpr.effects:
        return jaxpr
    eqns = [
        eqn.map_jaxprs(silent) if eqn.effects else eqn for eqn in jaxpr.eqns if eqn.outvars or not eqn.effects
    ]
    return Jaxpr(jaxpr.invars, eqns, jaxpr.outvars, jaxpr.name)
