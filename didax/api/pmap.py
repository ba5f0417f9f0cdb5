"""`pmap`: a function of one element, which each device runs on one element of a batch.

    pmap(f)(xs)[i] = f(xs[i]), computed on device i

It is `shard_map` over a mesh of one axis, jitted. Programs written anew use `shard_map`, or `jit` on arrays that lie on
several devices. Read next: `shard_map.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from didax.api.devices import devices as all_devices
from didax.api.flat import argument_names, check_callable
from didax.api.jit import jit
from didax.api.shard_map import shard_map
from didax.api.static import StaticArguments, as_numbers
from didax.core import pytree
from didax.core.avals import aval_of
from didax.core.errors import api_boundary, message
from didax.core.mesh import Mesh
from didax.core.sharding import PartitionSpec
from didax.core.source import describe_function, wraps
from didax.primitives.shape import move_axis, reshape
from didax.primitives.slicing import slice_axis


@api_boundary
def pmap(
    fun: Callable[..., Any],
    axis_name: str | None = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Callable[..., Any]:
    """`fun`, which each device runs on one element of the mapped axes: device `i` on element `i`.

    Args:
      axis_name: a name for collectives inside `fun`.
      in_axes, out_axes: the mapped axis of each argument and result, as of `vmap`; None for what all devices share.
      static_broadcasted_argnums: arguments that are part of the program, as `static_argnums` of `jit`.
      devices: the devices, by default the first ones there are.
      axis_size: the length of the mapped axes, where it is to be checked.
      donate_argnums: arguments whose memory may be reused for results.

    Raises ValueError where mapped axes differ in length, or are longer than there are devices.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.pmap(lambda x: x / dx.lax.psum(x, "i"), axis_name="i")(dnp.array([4.0]))
    Array([1.], dtype=float32)
    """
    check_callable("pmap", fun)
    static = StaticArguments(
        "pmap", fun, as_numbers(static_broadcasted_argnums, "static_broadcasted_argnums"), ()
    )
    name = axis_name or "pmap"
    programs: dict[Any, Any] = {}

    @wraps(fun)
    @api_boundary
    def mapped(*args: Any, **kwargs: Any) -> Any:
        dynamic, named, key = static.split(args, kwargs)
        leaves, tree = pytree.flatten((dynamic, named))
        dims = _dims(in_axes, static, args, dynamic, leaves)
        size = _size(fun, argument_names(fun, dynamic, named), leaves, dims, axis_size)
        found = list(all_devices() if devices is None else devices)
        if size > len(found):
            raise ValueError(
                message(
                    "pmap has a device for each element of the mapped axes.",
                    f"function: {describe_function(fun)}, elements: {size}, devices: {len(found)}",
                    fix="Map fewer elements, or use shard_map, whose parts may hold several.",
                )
            )
        which = key, tree, dims, tuple(found[:size])
        program = programs.get(which)
        if program is None:
            mesh = Mesh(found[:size], (name,))
            program = programs[which] = _program(
                static.filled(key), tree, dims, out_axes, mesh, as_numbers(donate_argnums, "donate_argnums")
            )
        return program(*leaves)

    def lower(*args: Any, **kwargs: Any) -> Any:
        """The program for these arguments, as `lower` of a jitted function."""
        numbers = as_numbers(static_broadcasted_argnums, "static_broadcasted_argnums")
        return jit(mapped, static_argnums=numbers, donate_argnums=donate_argnums).lower(*args, **kwargs)

    mapped.__dict__["lower"] = lower
    return mapped


def _program(
    fun: Callable[..., Any], tree: Any, dims: Sequence[Any], out_axes: Any, mesh: Mesh, donated: Sequence[int]
) -> Any:
    """The jitted function of leaves."""
    (name,) = mesh.axis_names

    def element(*parts: Any) -> Any:
        args, kwargs = pytree.unflatten(tree, [_without_axis(x, d) for x, d in zip(parts, dims, strict=True)])
        return pytree.map(_with_axis, fun(*args, **kwargs))

    def run(*leaves: Any) -> Any:
        specs = tuple(_spec(name, d) for d in dims)
        mapped = shard_map(element, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(name), check_vma=False)
        outs, out_tree = pytree.flatten(mapped(*leaves))
        numbers = pytree.unflatten(out_tree, range(len(outs)))
        wanted = pytree.broadcast_prefix(out_axes, numbers, "pmap out_axes", _is_none, "the results")
        return pytree.unflatten(out_tree, [_placed(y, d) for y, d in zip(outs, wanted, strict=True)])

    args, _ = pytree.unflatten(tree, range(len(dims)))
    return jit(run, donate_argnums=[leaf for i in donated for leaf in pytree.leaves(args[i])])


def _is_none(x: Any) -> bool:
    return x is None


def _spec(name: str, dim: int | None) -> PartitionSpec:
    return PartitionSpec() if dim is None else PartitionSpec(*[None] * dim, name)


def _with_axis(y: Any) -> Any:
    return reshape(y, (1, *aval_of(y).shape))


def _without_axis(x: Any, dim: int | None) -> Any:
    shape = aval_of(x).shape
    return x if dim is None else reshape(x, (*shape[:dim], *shape[dim + 1 :]))


def _placed(y: Any, dim: int | None) -> Any:
    """The results of the devices along axis `dim`; that of the first one for None."""
    aval = aval_of(y)
    if dim is None:
        return reshape(slice_axis(y, 0, 1, 0), aval.shape[1:])
    return move_axis(y, 0, dim if dim >= 0 else dim + aval.ndim)


def _dims(
    in_axes: Any, static: StaticArguments, args: Any, dynamic: Any, leaves: Sequence[Any]
) -> tuple[Any, ...]:
    """The mapped axis of each leaf, counted from the front; keyword arguments are mapped over axis 0."""
    if isinstance(in_axes, tuple | list):
        each = cast("Sequence[Any]", in_axes)
        marked = (
            {i % len(args) for i in static.numbers} if len(each) == len(args) > len(dynamic) else set[int]()
        )
        in_axes = tuple([axis for i, axis in enumerate(each) if i not in marked])
    found = pytree.broadcast_prefix(in_axes, tuple(dynamic), "pmap in_axes", _is_none)
    found += [0] * (len(leaves) - len(found))
    return tuple(
        d if d is None or d >= 0 else d + aval_of(x).ndim for d, x in zip(found, leaves, strict=True)
    )


def _size(
    fun: Any, names: Sequence[str], leaves: Sequence[Any], dims: Sequence[Any], stated: int | None
) -> int:
    """The length of the mapped axes."""
    lengths: dict[str, int] = {} if stated is None else {"axis_size": stated}
    for name, x, d in zip(names, leaves, dims, strict=True):
        shape = aval_of(x).shape
        if d is not None:
            lengths[f"{name}, axis {d}"] = shape[d] if d < len(shape) else -1
    if len(set(lengths.values())) != 1 or -1 in lengths.values():
        raise ValueError(
            message(
                "pmap maps axes of one length, which the arguments have.",
                f"function: {describe_function(fun)}",
                *(f"{what}: {'no such axis' if n < 0 else f'length {n}'}" for what, n in lengths.items()),
                fix="Correct in_axes, or the shapes of the arguments.",
            )
        )
    return next(iter(lengths.values()))
