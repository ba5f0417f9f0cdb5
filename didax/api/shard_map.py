"""`shard_map`: a function that each device runs on its own part of the arrays.

    f = shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))

Read next: `primitives/shard_map.py`; `didax/lax/parallel.py`, by which the devices exchange values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

from didax.api.flat import FlatFunction, argument_names, check_callable, flatten_arguments, result_name
from didax.core import config, pytree
from didax.core.avals import aval_of
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.mesh import AnyMesh, Mesh, current_mesh
from didax.core.sharding import NamedSharding, PartitionSpec, check_spec, entry_names
from didax.core.source import describe_function, wraps
from didax.primitives.shard_map import manual_axes, part, shard_map_p, split_axes
from didax.primitives.varying import pvary
from didax.runtime.sharded import ShardedArray
from didax.transforms.named_axes import manual_names
from didax.transforms.staging import trace_to_jaxpr

AXES_OF_TYPES: Any = object()  # the default of `in_axes` of smap: None means an argument that is not split


def shard_map(
    f: Any = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = None,
    mesh: AnyMesh | None = None,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Any:
    """`f`, which each device of a mesh runs on its own part of the arguments.

    Args:
      f: the function on parts. Without it `shard_map(...)` is a decorator.
      in_specs: PartitionSpecs, a prefix of the arguments as a tuple: how each argument is cut into parts; by default as
        their types say that they are split over explicit mesh axes.
      out_specs: PartitionSpecs, a prefix of the results: how the parts of a result are joined. What a spec leaves out
        has to be the same on all devices.
      mesh: the devices; by default the mesh in force (`set_mesh`).
      axis_names: the mesh axes along which `f` decides itself what devices exchange, by default all of them. Along the
        others the partitioner decides.
      check_vma: whether types track which values may differ between devices. It finds results that differ where their
        spec says that they do not, and spares communication in reverse mode.

    Raises ValueError where a spec does not fit its array, or names an axis that the mesh has not.

    >>> import didax as dx, didax.numpy as dnp
    >>> mesh = dx.make_mesh((1,), ("x",))
    >>> f = dx.shard_map(lambda x: dx.lax.psum(x.sum(), "x"), mesh=mesh, in_specs=dx.P("x"), out_specs=dx.P())
    >>> f(dnp.arange(4.0))
    Array(6., dtype=float32)
    """
    if f is None:
        return functools.partial(
            shard_map,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    check_callable("shard_map", f)
    if isinstance(axis_names, str) or not isinstance(axis_names, Collection):
        rule, fix = "axis_names of shard_map is a set of names.", f"Pass {{{str(axis_names)!r}}}."
        raise ArgumentError(message(rule, f"axis_names: {axis_names!r}", fix=fix))
    names: frozenset[Any] = frozenset(cast("Collection[Any]", axis_names))

    @wraps(f)
    @api_boundary
    def mapped(*args: Any) -> Any:
        return _run(f, args, mesh, in_specs, out_specs, names, check_vma)

    return mapped


@api_boundary
def smap(f: Any = None, /, *, out_axes: Any, axis_name: str, in_axes: Any = AXES_OF_TYPES) -> Any:
    """`f`, which the devices along one axis of the mesh in force run on their parts of the arguments.

    It is a `shard_map` whose specs are numbers of axes.

    Args:
      in_axes: which axis of each argument is split over the mesh axis, None for an argument that each device gets
        whole: an integer, None, or a tuple for the arguments, in which each may be a pytree of them. By default the
        arguments' types say it (explicit mesh axes).
      out_axes: along which axis of each result the parts are joined, None where they are the same on all devices.
      axis_name: the mesh axis; along the others `f` sees whole arrays.

    Raises TypeError for axes that are neither integers nor None, ValueError as `shard_map` does.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.set_mesh(dx.make_mesh((1,), ("x",))):
    ...     dx.smap(lambda x: x * 2, in_axes=0, out_axes=0, axis_name="x")(dnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    if f is None:
        return functools.partial(smap, out_axes=out_axes, axis_name=axis_name, in_axes=in_axes)
    if not isinstance(axis_name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        rule = "smap maps over one axis of the mesh, by its name."
        raise TypeError(message(rule, f"axis_name: {axis_name!r}", fix="Use shard_map for several axes."))
    in_specs = None if in_axes is AXES_OF_TYPES else _specs_of_axes("in_axes", in_axes, axis_name)
    out_specs = _specs_of_axes("out_axes", out_axes, axis_name)
    return shard_map(f, in_specs=in_specs, out_specs=out_specs, axis_names={axis_name})


def _specs_of_axes(what: str, axes: Any, name: str) -> Any:
    def spec(axis: Any) -> PartitionSpec:
        if axis is None:
            return PartitionSpec()
        if not isinstance(axis, int) or axis < 0:
            rule = f"{what} of smap has integers from 0 on, and None, in its leaves."
            raise TypeError(message(rule, f"{what}: {axes!r:.200}", fix="Pass the numbers of axes."))
        return PartitionSpec(*[None] * axis, name)

    return pytree.map(spec, axes, is_leaf=lambda axis: axis is None)


def _run(
    f: Callable[..., Any],
    args: Any,
    mesh: AnyMesh | None,
    in_specs: Any,
    out_specs: Any,
    names: Any,
    check: bool,
) -> Any:
    found = _concrete_mesh(f, mesh)
    outer = frozenset(manual_names())
    axes = tuple(name for name in found.axis_names if name in names or (not names and name not in outer))
    _check_names(f, "axis_names", names, found)
    if taken := sorted(outer.intersection(axes)):
        rule = "A shard_map within another one is over axes along which that one leaves values whole."
        facts = f"function: {describe_function(f)}; axis {taken[0]!r} is manual already"
        raise ValueError(message(rule, facts, fix="Name others: axis_names={...}."))
    leaves, tree = flatten_arguments(args, {})
    how: dict[str, Any] = {"mesh": found, "axes": axes, "tracked": check}
    arg_names = argument_names(f, args, {})
    if in_specs is None:
        in_each = [_spec_of(aval_of(x), axes) for x in leaves]
    else:
        in_each = _spread(f, "in_specs", in_specs, args, axes, found)
        for name, x, spec in zip(arg_names, leaves, in_each, strict=True):
            _check_split(f, name, aval_of(x), spec, axes)
    avals = [
        _checked_part(f, name, aval_of(x), spec, how)
        for name, x, spec in zip(arg_names, leaves, in_each, strict=True)
    ]
    flat = FlatFunction(f, tree, "shard_map")
    out_each: list[PartitionSpec] = []

    def body(*parts: Any) -> list[Any]:
        outs = flat(*parts)
        results = pytree.unflatten(flat.out_tree, outs)
        out_each.extend(_spread(f, "out_specs", out_specs, results, axes, found))
        joined: list[Any] = []
        for i, (y, spec) in enumerate(zip(outs, out_each, strict=True)):
            _check_result(f, result_name(flat.out_tree, i), aval_of(y), spec, how)
            joined.append(pvary(y, split_axes(spec)) if check else y)
        return joined

    with manual_axes(**how), config.override(mesh=found):
        jaxpr, captured = trace_to_jaxpr(body, avals, function=f, what="shard_map", arg_names=arg_names)
    for x in captured:
        _check_captured(f, aval_of(x), axes)
    in_each = [PartitionSpec()] * len(captured) + in_each
    outs = shard_map_p.bind(
        *captured, *leaves, jaxpr=jaxpr, in_specs=tuple(in_each), out_specs=tuple(out_each), **how
    )
    for y, spec in zip(outs, out_each, strict=True):
        _say_as_stated(y, NamedSharding(found, spec))
    return pytree.unflatten(flat.out_tree, outs)


def _say_as_stated(y: Any, stated: NamedSharding) -> None:
    """Let an array tell how it is laid out in the user's words, where several say the same."""
    if isinstance(y, ShardedArray) and stated.is_equivalent_to(y.sharding, y.ndim):
        y.sharding = stated


def _concrete_mesh(f: Any, mesh: AnyMesh | None) -> Mesh:
    if mesh is not None and not isinstance(mesh, AnyMesh):  # pyright: ignore[reportUnnecessaryIsInstance]
        rule, facts = "mesh of shard_map is a mesh.", f"function: {describe_function(f)}, mesh: {mesh!r:.200}"
        raise ArgumentError(message(rule, facts, fix="Pass what make_mesh returns, or leave it out."))
    found = current_mesh() if mesh is None or not isinstance(mesh, Mesh) else mesh
    if not isinstance(found, Mesh) or (mesh is not None and found.abstract_mesh is not mesh.abstract_mesh):
        raise ValueError(
            message(
                "shard_map needs a mesh of devices.",
                f"function: {describe_function(f)}, mesh: {mesh}, mesh in force: {current_mesh()}",
                fix="Pass mesh=, or set one: with didax.set_mesh(mesh).",
            )
        )
    return found


def _check_names(f: Any, what: str, names: Any, mesh: Mesh) -> None:
    for name in names:
        if name not in mesh.axis_names:
            rule = f"{what} of shard_map names axes of the mesh."
            facts = f"function: {describe_function(f)}; axis {name!r}, the mesh has {mesh.axis_names}"
            raise ValueError(message(rule, facts, fix="Correct the name."))


def _spread(f: Any, what: str, specs: Any, tree: Any, axes: Sequence[str], mesh: Mesh) -> list[PartitionSpec]:
    """The spec of each leaf; errors name the function."""
    of = "the arguments (a tuple)" if what == "in_specs" else "the results"
    if isinstance(specs, list) and isinstance(tree, tuple):
        specs = tuple(cast("list[Any]", specs))
    found = pytree.broadcast_prefix(
        specs, tree, f"shard_map {what}", lambda s: s is None or isinstance(s, PartitionSpec), of
    )
    found = [PartitionSpec() if spec is None else spec for spec in found]
    for spec in found:
        if not isinstance(spec, PartitionSpec):
            rule, fix = f"{what} of shard_map holds PartitionSpecs.", "Write didax.P(...) for each array."
            raise TypeError(message(rule, f"function: {describe_function(f)}, got: {spec!r:.100}", fix=fix))
        _check_names(f, what, split_axes(spec), mesh)
        check_spec(mesh, spec)
        outside = [name for name in split_axes(spec) if name not in axes]
        if outside:
            rule = f"{what} of shard_map names manual axes only; the partitioner sees to the others."
            facts = f"function: {describe_function(f)}, spec: {spec}, axis_names: {set(axes)}"
            raise ValueError(message(rule, facts, fix=f"Leave {outside[0]!r} out, or add it to axis_names."))
    return found


def _spec_of(aval: Any, axes: Sequence[str]) -> PartitionSpec:
    """The spec of an argument, as its type says how it is split over explicit mesh axes."""
    split = () if aval.layout is None else aval.layout.spec
    return PartitionSpec(*[tuple(n for n in entry_names(e) if n in axes) for e in split])


def _check_split(f: Any, name: str, aval: Any, spec: PartitionSpec, axes: Sequence[str]) -> None:
    if aval.layout is None:
        return
    stated = _spec_of(aval, axes)
    if stated != PartitionSpec(*spec, *[None] * (aval.ndim - len(spec))):
        raise ValueError(
            message(
                "in_specs of shard_map say what the types of the arguments say of explicit mesh axes.",
                f"function: {describe_function(f)}, argument {name}: {aval}, spec: {spec}",
                fix="Leave in_specs out, or lay the argument out as they say: didax.sharding.reshard.",
            )
        )


def _check_captured(f: Any, aval: Any, axes: Sequence[str]) -> None:
    spec = _spec_of(aval, axes)
    if any(spec):
        raise ValueError(
            message(
                "Each device has the whole of what the function of shard_map uses and is not passed as an argument.",
                f"function: {describe_function(f)}, uses: {aval}, which is split over {split_axes(spec)}",
                fix="Pass it as an argument, or give each device the whole: didax.sharding.reshard(x, didax.P()).",
            )
        )


def _checked_part(f: Any, name: str, aval: Any, spec: PartitionSpec, how: Any) -> Any:
    where = f"function: {describe_function(f)}, argument {name}: {aval}"
    sharding = NamedSharding(how["mesh"], spec)
    _check_rank(where, "in_specs", aval, spec)
    sharding.check_shape(aval.shape, where)
    return part(aval, spec, **how)


def _check_rank(where: str, what: str, aval: Any, spec: PartitionSpec) -> None:
    if len(spec) > aval.ndim:
        rule = f"A spec in {what} of shard_map has at most one entry for each axis of its array."
        facts = f"spec: {spec}, with {len(spec)} entries; the array has {aval.ndim} axes"
        raise ValueError(message(rule, where, facts, fix="Leave entries out, or give the array more axes."))


def _check_result(f: Any, name: str, aval: Any, spec: PartitionSpec, how: Any) -> None:
    where = f"function: {describe_function(f)}, {name}: {aval}"
    _check_rank(where, "out_specs", aval, spec)
    differ = sorted(aval.vma.intersection(how["axes"]) - frozenset(split_axes(spec)))
    if differ:
        raise ValueError(
            message(
                "A result of shard_map is the same on all devices along the axes that its spec leaves out.",
                where,
                f"spec: {spec}; the value may differ along {', '.join(map(repr, differ))}",
                fix=f"Sum or gather it (lax.psum(y, {differ[0]!r})), name the axis in the spec, or, if you know that "
                "it is the same, pass check_vma=False.",
            )
        )
