"""What types say of devices: along which manual axes values vary, and over which explicit axes arrays are split.

    float32[8@x,2]     axis 0 is split over the explicit mesh axis x; a type without such axes is the same everywhere
    float32[8,2]{V:x}  inside shard_map, devices may have different values along the manual axis x

A primitive's `type` rule knows nothing of devices: it is asked about plain types, and this file adds along which axes
the results vary, and over which they are split. A result varies along every axis along which an operand varies. The
primitive's `sharding` rule says how results are split, from the result's plain type and the operands' types:

    def sharding(self, out, *avals, **params): ...   # for each axis of `out` a tuple of mesh axes; or a list of these

A primitive without such a rule takes no split operands, and says so. Derivative and batch rules compute within one
operation, whose operands and results have known types. So no derivative or batch rule has to know of shardings. If the
types do not tell how a value inside of the rule is split, the rule runs a second time, on values whose types name no
explicit axes. The partitioner then decides inside of the rule, and the results of the rule are given the types that
they must have (`forward`, `backward`, `batched`). A cotangent is split as its primal is.
Read next: `sharding.py`; `primitives/split.py`, the rules that primitives share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core.array_ops import Zero, array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import ShardingTypeError, message
from didax.core.sharding import NamedSharding, PartitionSpec, entry_names

Primitive = Any  # the class of `primitive.py`, which asks here
Names = tuple[str, ...]
Split = tuple[Names, ...]  # for each axis of an array the mesh axes that it is split over
Rule = Callable[..., Any]


def split_of(aval: ShapedArray) -> Split:
    """For each axis of an array, the explicit mesh axes that it is split over."""
    return ((),) * aval.ndim if aval.layout is None else tuple(map(entry_names, aval.layout.spec))


def plain_types(primitive: Primitive, avals: tuple[ShapedArray, ...]) -> tuple[ShapedArray, ...]:
    """The operand types that the type rule is asked about; `avals` itself where they are plain, or the rule knows more.

    A primitive that holds jaxprs reads the types of its results from these.
    """
    for aval in avals:
        if aval.vma or aval.layout is not None:
            if primitive.dce is not None:
                return avals
            keep_vma, keep_layout = primitive.sets_varying, primitive.sets_sharding
            return tuple(
                [
                    a.update(vma=a.vma if keep_vma else (), sharding=a.layout if keep_layout else None)
                    for a in avals
                ]
            )
    return avals


def placed_types(
    primitive: Primitive,
    avals: tuple[ShapedArray, ...],
    found: tuple[ShapedArray, ...],
    params: dict[str, Any],
) -> tuple[ShapedArray, ...]:
    """The types of results, with what the operands' types say of devices."""
    if not primitive.sets_varying:
        varying = frozenset[str]().union(*[a.vma for a in avals])
        found = tuple([a.update(vma=varying) for a in found]) if varying else found
    layouts = [a.layout for a in avals if a.layout is not None]
    if not layouts or primitive.sets_sharding:
        return found
    mesh = _common_mesh(primitive, avals, layouts)
    if primitive.sharding is None:
        raise no_rule(primitive, avals)
    plain = list(found) if primitive.multiple_results else found[0]
    splits = primitive.sharding(plain, *avals, **params)
    each = splits if primitive.multiple_results else [splits]
    return tuple(
        [_split_type(primitive, a, mesh, split, avals) for a, split in zip(found, each, strict=True)]
    )


def _common_mesh(primitive: Primitive, avals: Sequence[ShapedArray], layouts: Sequence[NamedSharding]) -> Any:
    meshes = {layout.mesh for layout in layouts}
    if len(meshes) > 1:
        raise ShardingTypeError(
            message(
                f"The operands of {primitive.name} are split over one mesh.",
                f"operands: {_shown(avals)}",
                *(f"mesh: {mesh}" for mesh in meshes),
                fix="Move one of them: device_put(x, sharding).",
            )
        )
    return meshes.pop()


def _split_type(
    primitive: Primitive, aval: ShapedArray, mesh: Any, split: Split, avals: Sequence[ShapedArray]
) -> ShapedArray:
    names = [name for entry in split for name in entry]
    if len(set(names)) < len(names):
        raise ShardingTypeError(
            message(
                f"A mesh axis splits at most one axis of the result of {primitive.name}.",
                f"operands: {_shown(avals)}",
                f"result: {list(aval.shape)}, split over {split}",
                fix=how_to_say(primitive.name),
            )
        )
    return aval.update(sharding=NamedSharding(mesh, PartitionSpec(*split))) if names else aval


def how_to_say(name: str) -> str:
    """The way out where types do not say how a result is split."""
    return (
        "Say how the result is split, by out_sharding= where the function takes it, or lay the operands out first: "
        "didax.sharding.reshard(x, spec)."
    )


def no_rule(primitive: Primitive, avals: Sequence[ShapedArray]) -> ShardingTypeError:
    """The error of a primitive that does not say how its results are split."""
    return ShardingTypeError(
        message(
            f"{primitive.name} does not say how its results are split over explicit mesh axes.",
            f"operands: {_shown(avals)}",
            fix="Leave it to the partitioner: didax.sharding.auto_axes(f, out_sharding=spec)(x); or give each device "
            "the whole: didax.sharding.reshard(x, didax.P()).",
        )
    )


def ambiguous(name: str, avals: Sequence[ShapedArray], rule: str, *facts: str) -> ShardingTypeError:
    """The error of operands whose types do not say how the result is split."""
    return ShardingTypeError(message(rule, f"operands: {_shown(avals)}", *facts, fix=how_to_say(name)))


def _shown(avals: Sequence[ShapedArray]) -> str:
    return ", ".join(map(str, avals))


# --- Rules that compute ---------------------------------------------------------------------------------------


def loosened(x: Any) -> Any:
    """The value, or `Zero`, with a type that says nothing of explicit axes."""
    if type(x) is Zero:
        return Zero(x.aval.update(sharding=None))
    return x if aval_of(x).layout is None else array_ops.with_layout(x, None)


def pinned(x: Any, layout: NamedSharding | None) -> Any:
    """The value, or `Zero`, with a type that has this layout."""
    if type(x) is Zero:
        return Zero(x.aval.update(sharding=layout))
    return x if aval_of(x).layout is layout else array_ops.with_layout(x, layout)


def _is_split(xs: Sequence[Any]) -> bool:
    return any([aval_of(x).layout is not None for x in xs])


def _leaves_types(primitive: Primitive) -> bool:
    """Whether the rules of a primitive give results their types: from jaxprs, or because that is its task."""
    return primitive.dce is not None or primitive.sets_sharding or primitive.type is None


def forward(primitive: Primitive, rule: Rule, infer: Rule, primals: Sequence[Any]) -> Rule:
    """A jvp rule for operands whose types say how they are split; the rule itself for others."""

    def run(primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any) -> Any:
        wanted = [a.layout for a in infer(primitive, tuple(map(aval_of, primals)), params)]
        try:
            outs, dots = rule(primals, tangents, **params)
        except ShardingTypeError:
            outs, dots = rule(list(map(loosened, primals)), list(map(loosened, tangents)), **params)
        if primitive.multiple_results:
            return list(map(pinned, outs, wanted)), list(map(pinned, dots, wanted))
        return pinned(outs, wanted[0]), pinned(dots, wanted[0])

    return run if _is_split(primals) and not _leaves_types(primitive) else rule


def batched(primitive: Primitive, rule: Rule, infer: Rule, values: Sequence[Any]) -> Rule:
    """A batch rule for operands whose types say how they are split; the rule itself for others."""

    def run(axis: Any, values: Sequence[Any], dims: Sequence[int | None], /, **params: Any) -> Any:
        elements = [
            aval_of(x) if d is None else aval_of(x).without_axis(d) for x, d in zip(values, dims, strict=True)
        ]
        wanted = [a.layout for a in infer(primitive, tuple(elements), params)]
        try:
            found, out_dims = rule(axis, values, dims, **params)
        except ShardingTypeError:
            found, out_dims = rule(axis, list(map(loosened, values)), dims, **params)
        if not primitive.multiple_results:
            return pinned(found, batch_layout(aval_of(found), wanted[0], out_dims, axis)), out_dims
        return [
            pinned(y, batch_layout(aval_of(y), layout, d, axis))
            for y, layout, d in zip(found, wanted, out_dims, strict=True)
        ], out_dims

    return run if _is_split(values) and not _leaves_types(primitive) else rule


def batch_layout(
    aval: ShapedArray, layout: NamedSharding | None, dim: int | None, axis: Any
) -> NamedSharding | None:
    """How a batch of elements that are split like this is split; its batch axis is split as the mapped axis is."""
    if dim is None or axis.layout is None:
        return layout if dim is None or layout is None else layout.with_entry(dim)
    if layout is None:
        layout = NamedSharding(axis.layout.mesh, PartitionSpec(*[None] * (aval.ndim - 1)))
    return layout.with_entry(dim, axis.layout.spec[0])


def batch_type(aval: ShapedArray, dim: int | None, axis: Any) -> ShapedArray:
    """The type of a batch of such elements along a mapped axis that may be split; None: an element alone."""
    if dim is None:
        return aval
    batch = aval.with_axis(dim, axis.size)
    return batch.update(sharding=batch_layout(batch, aval.layout, dim, axis))


def backward(primitive: Primitive, rule: Rule) -> Rule:
    """A transpose rule for operands whose types say how they are split; its caller sees to the cotangents' types."""

    def run(ct: Any, /, *args: Any, **params: Any) -> Any:
        cts = ct if primitive.multiple_results else [ct]
        if not _is_split([*[x for x in cts if type(x) is not Zero], *args]):
            return rule(ct, *args, **params)
        try:
            return rule(ct, *args, **params)
        except ShardingTypeError:
            ct = list(map(loosened, ct)) if primitive.multiple_results else loosened(ct)
            return rule(ct, *map(_loosened_argument, args), **params)

    return rule if _leaves_types(primitive) else run


def _loosened_argument(x: Any) -> Any:
    undef = getattr(x, "loosened", None)  # placeholders of linear arguments have this method
    return loosened(x) if undef is None else undef()
