"""Vectorisation: one run of a function over values that carry an extra axis.

    vmap(f)(xs)[i] = f(xs[i])

A `BatchTracer` holds the whole batch and the position of the batch axis in it; its type is that of one element. Each
operation asks its primitive for the batch rule, which runs under the parent trace. Values without a batch axis stay
plain. Read next: `primitives/families.py` (the rule of elementwise primitives); `named_axes.py` for axes with names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core import config, device_types, sharding
from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.device_types import batch_type
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.core.leaks import check_leaks
from didax.core.primitive import Primitive, Trace, current_trace_var, infer, require
from didax.core.rule_types import check_axis, check_batch, check_fit, check_pair
from didax.core.source import SourceLine
from didax.core.tracing import Tracer, current_trace, run_under
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.empty_batches import empty_batch, only_computes_elements
from didax.transforms.named_axes import AxisData, run_in_axis
from didax.transforms.rewriting import trace_closed


class BatchTracer(Tracer):
    """A batch of values: `value` with its batch axis at `batch_dim`."""

    __slots__ = ("batch_dim", "value")

    def __init__(self, trace: Trace, value: Any, dim: int):
        self.owner = trace
        self.value = value
        self.batch_dim = dim
        self.aval = element_aval(aval_of(value), dim)

    def origin(self) -> SourceLine | str | None:
        return self.value.origin() if isinstance(self.value, Tracer) else None


class BatchTrace(Trace):
    """Moves batch axes along."""

    __slots__ = ("axis",)
    transformation = "vmap"

    def __init__(self, parent: Trace, axis: AxisData, function: Any = None):
        super().__init__(parent, function)
        self.axis = axis

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        mine = [type(x) is BatchTracer and x.owner is self for x in args]
        if True not in mine and self.axis.name not in primitive.named_axes(params):
            return self.parent.process(primitive, args, params)
        values = [x.value if own else x for x, own in zip(args, mine, strict=True)]
        dims = [x.batch_dim if own else None for x, own in zip(args, mine, strict=True)]
        token = current_trace_var.set(self.parent)
        try:
            rule = primitive.batch or require(primitive, "batch")
            if self.axis.size == 0 and only_computes_elements(primitive, args, params):
                found = empty_batch(primitive, args, params)
            else:
                if sharding.in_types:
                    rule = device_types.batched(primitive, rule, infer, values)
                found = rule(self.axis, values, dims, **params)
        except TypeError as error:
            check_fit(primitive, "batch", (self.axis, values, dims), params, error)
            raise
        finally:
            current_trace_var.reset(token)
        if type(found) is not tuple or len(found) != 2 or primitive.multiple_results:
            check_pair(primitive, "batch", found)
        out, out_dim = found
        outs, out_dims = (out, out_dim) if primitive.multiple_results else ([out], [out_dim])
        for y, dim in zip(outs, out_dims, strict=True):
            if dim is not None:
                check_axis(primitive, self.axis.size, y, dim)
        # A primitive without a type rule holds Python functions, whose operations are checked where they run.
        if config.state().check and primitive.type is not None:
            wanted = infer(primitive, tuple([aval_of(x) for x in args]), params)
            check_batch(primitive, outs, out_dims, wanted)
        if primitive.multiple_results:
            return [self.join(y, dim) for y, dim in zip(out, out_dim, strict=True)]
        return self.join(out, out_dim)

    def join(self, value: Any, dim: int | None) -> Any:
        """A tracer, or the value itself where it has no batch axis."""
        return value if dim is None else BatchTracer(self, value, dim)

    def split(self, x: Any) -> tuple[Any, int | None]:
        """Value and batch axis of a result."""
        return (x.value, x.batch_dim) if type(x) is BatchTracer and x.owner is self else (x, None)


def element_aval(aval: ShapedArray, dim: int | None) -> ShapedArray:
    """The type of one element of a batch."""
    return aval if dim is None else aval.without_axis(dim)


def batched_aval(aval: ShapedArray, dim: int | None, size: int) -> ShapedArray:
    """The type of a batch of such elements."""
    return aval if dim is None else aval.with_axis(dim, size)


def move_batch_axis(x: Any, dim: int | None, destination: int, size: int) -> Any:
    """`x` with its batch axis moved to `destination`; without a batch axis, `x` is repeated along a new one there."""
    if dim is None:
        return array_ops.broadcast_axis(x, size, destination)
    return x if dim == destination else array_ops.move_axis(x, dim, destination)


def vmap_flat(
    fun: Callable[..., Sequence[Any]],
    axis: AxisData,
    dims: Sequence[int | None],
    args: Sequence[Any],
    function: Any = None,
) -> tuple[list[Any], list[int | None]]:
    """Results of `fun` over the batch, and where each result's batch axis is (None: it has none)."""
    trace = BatchTrace(current_trace(), axis, fun if function is None else function)
    try:
        joined = [trace.join(x, dim) for x, dim in zip(args, dims, strict=True)]
        outs = run_under(trace, run_in_axis, (axis, fun, joined))
        pairs = [trace.split(y) for y in outs]
    finally:
        trace.ended = True
    joined, outs = [], []
    check_leaks(trace)
    return [y for y, _ in pairs], [dim for _, dim in pairs]


@cached_on_jaxpr
def batch_jaxpr(
    jaxpr: Jaxpr, axis: AxisData, dims_in: tuple[int | None, ...], batched_out: tuple[bool, ...] | None = None
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """A jaxpr over batches: inputs have their batch axis where `dims_in` says, batched outputs at 0.

    Also returns which outputs are batched; `batched_out` asks for at least these.
    """
    found: list[bool] = []

    def batched(*args: Any) -> list[Any]:
        outs, dims = vmap_flat(lambda *xs: eval_jaxpr(jaxpr, xs), axis, dims_in, args)
        wanted = batched_out or (False,) * len(outs)
        found.extend(dim is not None or want for dim, want in zip(dims, wanted, strict=True))
        return [
            move_batch_axis(y, dim, 0, axis.size) if batch else y
            for y, dim, batch in zip(outs, dims, found, strict=True)
        ]

    in_avals = [batch_type(a, dim, axis) for a, dim in zip(jaxpr.in_avals, dims_in, strict=True)]
    return trace_closed(batched, in_avals, what="vmap"), tuple(found)
