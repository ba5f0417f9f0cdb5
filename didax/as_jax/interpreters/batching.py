"""`jax.interpreters.batching`: the registries of batch rules.

    primitive_batchers[p]        rule(args, dims, **params) -> (outs, their dims)
    axis_primitive_batchers[p]   the same, after the axis's size and name and the trace
    fancy_primitive_batchers[p]  the same, after the axis (`.size`, `.name`)

A dim is the place of the batch axis in an argument, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.as_jax.primitive import Primitive, Registry
from didax.core.avals import aval_of
from didax.core.errors import message
from didax.transforms.batching import AxisData, BatchTrace, BatchTracer, move_batch_axis

__all__ = [
    "BatchTrace", "BatchTracer", "axis_primitive_batchers", "bdim_at_front", "broadcast", "defbroadcasting",
    "defreducer", "defvectorized", "fancy_primitive_batchers", "moveaxis", "not_mapped", "primitive_batchers",
]  # fmt: skip

not_mapped = None


def _filler(call: Callable[..., Any]) -> Callable[[Primitive, Callable[..., Any]], Callable[..., Any]]:
    def fill(primitive: Primitive, rule: Callable[..., Any]) -> Callable[..., Any]:
        def batch(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
            outs, out_dims = call(rule, axis, tuple(args), tuple(dims), primitive.to_jax(params))
            if not primitive.multiple_results:
                return outs, _place(outs, out_dims)
            outs = list(outs)
            if out_dims is None or isinstance(out_dims, int):
                out_dims = [out_dims] * len(outs)
            return outs, [_place(y, dim) for y, dim in zip(outs, out_dims, strict=True)]

        return batch

    return fill


def _place(out: Any, dim: Any) -> Any:
    """Places counted from the end, as rules may give them."""
    return dim if dim is None or dim >= 0 else dim + aval_of(out).ndim


def _derived(with_axis: bool) -> Callable[[Any], Callable[..., Any] | None]:
    def derive(primitive: Any) -> Callable[..., Any] | None:
        rules = primitive.rules
        if rules.batch is None:
            return None

        def batch(axis: Any, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
            return rules.batch(axis, list(args), list(dims), **primitive.to_didax(params))

        def batch_without_axis(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
            size = next(aval_of(x).shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
            return batch(AxisData(None, size), args, dims, **params)

        return batch if with_axis else batch_without_axis

    return derive


primitive_batchers = Registry(
    "primitive_batchers",
    "batch",
    _filler(lambda rule, axis, args, dims, params: rule(args, dims, **params)),
    _derived(False),
)
axis_primitive_batchers = Registry(
    "axis_primitive_batchers",
    "batch",
    _filler(
        lambda rule, axis, args, dims, params: rule(axis.size, axis.name, BatchTrace, args, dims, **params)
    ),
    lambda primitive: None,
)
fancy_primitive_batchers = Registry(
    "fancy_primitive_batchers",
    "batch",
    _filler(lambda rule, axis, args, dims, params: rule(axis, args, dims, **params)),
    _derived(True),
)


def broadcast(x: Any, size: int, axis: int, mesh_axis: Any = None) -> Any:
    """`x` repeated along a new axis."""
    return move_batch_axis(x, None, axis, size)


def moveaxis(x: Any, source: int, destination: int) -> Any:
    """`x` with one axis moved."""
    return move_batch_axis(x, source % max(aval_of(x).ndim, 1), destination % max(aval_of(x).ndim, 1), 0)


def bdim_at_front(x: Any, dim: int | None, size: int, mesh_axis: Any = None) -> Any:
    """`x` with its batch axis first, repeated where it has none."""
    return move_batch_axis(x, dim, 0, size)


# --- Rules of common forms ----------------------------------------------------------------------------------


def defvectorized(primitive: Primitive) -> None:
    """The primitive acts on each element, so the batch axis stays where it is."""

    def batch(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        places = {dim for dim in dims if dim is not None}
        if len(places) != 1 or None in dims:
            rule = "defvectorized is for primitives whose operands have their batch axis at one place."
            fix = "Register a rule in batching.primitive_batchers, or use batching.defbroadcasting."
            raise NotImplementedError(message(rule, f"primitive: {primitive}", f"places: {dims}", fix=fix))
        return primitive.bind(*args, **params), dims[0]

    fancy_primitive_batchers[primitive] = batch


def defbroadcasting(primitive: Primitive) -> None:
    """The primitive acts on each element of operands of one shape."""

    def batch(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        moved = [move_batch_axis(x, dim, 0, axis.size) for x, dim in zip(args, dims, strict=True)]
        out = primitive.bind(*moved, **params)
        return (out, [0] * len(out)) if primitive.multiple_results else (out, 0)

    fancy_primitive_batchers[primitive] = batch


def defreducer(primitive: Primitive) -> None:
    """The primitive takes the axes of its parameter `axes` away."""

    def batch(
        axis: AxisData, args: Sequence[Any], dims: Sequence[Any], *, axes: Sequence[int], **params: Any
    ) -> Any:
        (x,), (dim,) = args, dims
        moved = tuple(a + (a >= dim) for a in axes)
        if "input_shape" in params:
            params["input_shape"] = aval_of(x).shape
        return primitive.bind(x, axes=moved, **params), dim - sum(a < dim for a in moved)

    fancy_primitive_batchers[primitive] = batch
