"""Effects in loops and branches happen once for each element that takes part, and once only.

Batched, a branch or a loop computes on the whole batch while only some elements take part. A callback in it would be
shown values of the other elements, too. So such a branch or loop runs for one element after the other
(`run_by_element`), as callbacks do themselves. Where a derivative takes primal steps again, it does not repeat
effects that have no results (`without_effects`).
Read next: `didax/primitives/callback.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core.array_ops import array_ops
from didax.core.avals import aval_of
from didax.core.effects import KEPT, REPORT
from didax.core.jaxpr import Jaxpr
from didax.core.primitive import Primitive, eager_trace, infer
from didax.core.tracing import current_trace
from didax.passes.checkify import CHECK
from didax.primitives.control_flow.layout import BodyLayout, Values, merge, where_false
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.filled import zeros
from didax.primitives.shape import reshape
from didax.primitives.slicing import concatenate, slice_axis
from didax.transforms.batching import AxisData, batched_aval, element_aval
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import trace_closed


def runs_by_element(*jaxprs: Jaxpr) -> bool:
    """Whether programs have effects that must not happen for elements that take no part.

    Checks, reports of progress and computations that are only kept may happen for these, too.
    """
    return any(effect not in (CHECK, KEPT, REPORT) for jaxpr in jaxprs for effect in jaxpr.effects)


def run_by_element(
    primitive: Primitive,
    axis: AxisData,
    args: Values,
    dims: Sequence[int | None],
    params: dict[str, Any],
    unroll: bool = False,
) -> tuple[list[Any], list[int]]:
    """Apply a primitive to one element of the batch after the other; results with their batch axis at 0."""
    batched = [dim is not None for dim in dims]
    rows = [array_ops.move_axis(x, dim, 0) for x, dim in zip(args, dims, strict=True) if dim is not None]
    shared = where_false(args, batched)

    def apply(*values: Any) -> list[Any]:
        return primitive.bind(*merge(batched, values[len(shared) :], values[: len(shared)]), **params)

    if current_trace() is eager_trace and axis.size != 0:
        outs = _one_by_one(apply, axis.size, shared, rows)
    elif axis.size == 0:
        avals = [element_aval(aval_of(x), dim) for x, dim in zip(args, dims, strict=True)]
        outs = [zeros(batched_aval(aval, 0, 0)) for aval in infer(primitive, tuple(avals), params)]
    else:
        row_avals = [element_aval(aval_of(x), 0) for x in rows]
        body = trace_closed(apply, [*map(aval_of, shared), *row_avals], what="vmap")
        operands, sizes = BodyLayout.join(shared, [], rows)
        unroll_by = axis.size if unroll else 1
        outs = scan_p.bind(*operands, jaxpr=body, **sizes, length=axis.size, reverse=False, unroll=unroll_by)
    return outs, [0] * len(outs)


def _one_by_one(apply: Callable[..., list[Any]], size: int, shared: Values, rows: Values) -> list[Any]:
    results: list[list[Any]] = []
    for i in range(size):
        row = [reshape(slice_axis(x, i, i + 1, 0), aval_of(x).shape[1:]) for x in rows]
        results.append([array_ops.broadcast_axis(y, 1, 0) for y in apply(*shared, *row)])
    return [concatenate(column, 0) for column in zip(*results, strict=True)]


@cached_on_jaxpr
def without_effects(jaxpr: Jaxpr) -> Jaxpr:
    """The program without equations that have effects but no results."""
    if not jaxpr.effects:
        return jaxpr
    eqns = [
        eqn.map_jaxprs(without_effects) if eqn.effects else eqn
        for eqn in jaxpr.eqns
        if eqn.outvars or not eqn.effects
    ]
    return Jaxpr(jaxpr.invars, eqns, jaxpr.outvars, jaxpr.name)
