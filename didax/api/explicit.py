"""Shardings in types: what users say where arrays are split over explicit mesh axes.

    mesh = didax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    y = reshard(x, P("x", None))                   another layout, and another type
    z = dnp.dot(x, w, out_sharding=P("x", "y"))    a product whose operands do not say how it is split
    f = auto_axes(f, out_sharding=P("x"))          a function in which the partitioner decides

Read next: `core/device_types.py`, where types come from; `docs/devices.md`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from didax.api.layouts import constrained_tree, spread
from didax.core import config, pytree
from didax.core.avals import ShapedArray, aval_of, is_array_like
from didax.core.device_types import loosened
from didax.core.errors import api_boundary, message
from didax.core.mesh import AnyMesh, AxisType, current_mesh
from didax.core.sharding import NamedSharding, PartitionSpec, entry_names
from didax.core.source import describe_function
from didax.core.value import Array
from didax.primitives.sharding import with_layout

T = TypeVar("T")


@api_boundary
def reshard(xs: T, out_shardings: Any) -> T:
    """The arrays of a pytree, split over explicit mesh axes by one spec or sharding for all, or by a prefix of these.

    Devices exchange what they have to. A PartitionSpec refers to the mesh in force. ValueError where a shape cannot be
    cut so, or where an axis is one over which the partitioner decides.

    >>> import didax as dx, didax.numpy as dnp
    >>> mesh = dx.make_mesh((1,), ("x",), axis_types=dx.sharding.AxisType.Explicit)
    >>> with dx.set_mesh(mesh):
    ...     dx.typeof(reshard(dnp.ones((8, 2)), dx.P("x")))
    float32[8@x,2]
    """
    for sharding in spread("reshard shardings", out_shardings, xs):
        left = [n for n in (sharding.axes if sharding else ()) if n not in sharding.mesh.explicit_axes]  # type: ignore[union-attr]
        if left:
            raise ValueError(
                message(
                    "reshard splits arrays over explicit mesh axes; the partitioner or the function sees to others.",
                    f"axis: {left[0]!r}, sharding: {sharding}",
                    fix="Use lax.with_sharding_constraint, or a mesh with axis_types=AxisType.Explicit.",
                )
            )
        if sharding and sharding.constrained is not sharding and sharding.mesh.are_all_axes_explicit:
            rule = "reshard says of each axis how it is split."
            fix = "Write None for an axis that is not split."
            raise ValueError(message(rule, f"spec: {sharding.spec}", fix=fix))
    return constrained_tree("reshard", xs, out_shardings)


@api_boundary
def auto_axes(f: Any = None, /, *, axes: Any = None, out_sharding: Any = None) -> Any:
    """`f`, within which the partitioner decides how arrays are split over mesh axes.

    Args:
      f: a function of arrays. Without it `auto_axes(...)` is a decorator.
      axes: the name, or names, of the explicit axes; by default all.
      out_sharding: how the results are split: a spec or sharding, or a pytree of them that is a prefix of the results.
        A call may say it too, by the keyword `out_sharding`.

    >>> import didax as dx, didax.numpy as dnp
    >>> mesh = dx.make_mesh((1,), ("x",), axis_types=dx.sharding.AxisType.Explicit)
    >>> with dx.set_mesh(mesh):
    ...     x = reshard(dnp.ones((8, 2)), dx.P("x"))
    ...     dx.typeof(auto_axes(lambda x: x[::-1].reshape(16), out_sharding=dx.P("x"))(x))
    float32[16@x]
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)

    @functools.wraps(f)
    @api_boundary
    def run(*args: Any, out_sharding: Any = out_sharding, **kwargs: Any) -> Any:
        if out_sharding is None:
            raise TypeError(
                message(
                    "auto_axes is told how the results are split.",
                    f"function: {describe_function(f)}, out_sharding: None",
                    fix="Pass out_sharding=P(...), to auto_axes or to the function that it returns.",
                )
            )
        outer = _mesh("auto_axes", f, (args, kwargs))
        inner = _with_types(outer, axes, AxisType.Auto)
        args, kwargs = pytree.map(functools.partial(_seen_in, inner), (args, kwargs))
        with config.override(mesh=inner):
            outs = f(*args, **kwargs)
        with config.override(mesh=outer):
            return constrained_tree("auto_axes", outs, out_sharding)

    return run


@api_boundary
def explicit_axes(f: Any = None, /, *, axes: Any = None, in_sharding: Any = None) -> Any:
    """`f`, within which types say how arrays are split over mesh axes.

    Args:
      f: a function of arrays. Without it `explicit_axes(...)` is a decorator.
      axes: the name, or names, of the axes; by default all.
      in_sharding: how the arguments are split: a spec or sharding for all, or a prefix of the tuple of arguments. A
        call may say it too, by the keyword `in_sharding`.

    >>> import didax as dx, didax.numpy as dnp
    >>> with dx.set_mesh(dx.make_mesh((1,), ("x",))):
    ...     explicit_axes(lambda x: print(dx.typeof(x)), in_sharding=dx.P("x"))(dnp.ones(8))
    float32[8@x]
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)

    @functools.wraps(f)
    @api_boundary
    def run(*args: Any, in_sharding: Any = in_sharding, **kwargs: Any) -> Any:
        outer = _mesh("explicit_axes", f, (args, kwargs))
        inner = _with_types(outer, axes, AxisType.Explicit)
        with config.override(mesh=inner):
            args = constrained_tree("explicit_axes", args, in_sharding)
            outs = f(*args, **kwargs)
        return pytree.map(functools.partial(_seen_in, outer), outs)

    return run


def _mesh(what: str, f: Any, args: Any) -> AnyMesh:
    """The mesh in force, or else that of the types of the arguments."""
    layouts = [aval_of(x).layout for x in pytree.leaves(args) if is_array_like(x)]
    found = current_mesh() or next((layout.mesh for layout in layouts if layout is not None), None)
    if found is None:
        raise ValueError(
            message(
                f"{what} needs a mesh.",
                f"function: {describe_function(f)}, mesh in force: None",
                fix="Set the mesh: with didax.set_mesh(mesh).",
            )
        )
    return found


def _with_types(mesh: AnyMesh, axes: Any, kind: AxisType) -> AnyMesh:
    names = (
        mesh.axis_names
        if axes is None
        else {axes}
        if isinstance(axes, str)
        else set(cast("Iterable[str]", axes))
    )
    for name in names:
        if name not in mesh.axis_names:
            rule = "The axes that are named are axes of the mesh."
            raise ValueError(message(rule, f"axis: {name!r}, mesh: {mesh}", fix="Correct the name."))
    return mesh.with_types(names, kind)


def _seen_in(mesh: AnyMesh, x: Any) -> Any:
    """The value, whose type says only what it can say where the mesh has these types of axes."""
    if not isinstance(x, Array) or x.aval.layout is None:
        return x
    explicit = mesh.explicit_axes
    spec = [tuple(n for n in entry_names(e) if n in explicit) for e in x.aval.layout.spec]
    return with_layout(x, NamedSharding(mesh, PartitionSpec(*spec)).in_types(x.ndim))


def batch_split(avals: Sequence[ShapedArray], dims: Sequence[int | None]) -> NamedSharding | None:
    """How the mapped axes of a `vmap`'s arguments, which are split alike, are split over explicit mesh axes."""
    found = {
        aval.layout and aval.layout.spec[dim] and aval.layout.update(spec=(aval.layout.spec[dim],))
        for aval, dim in zip(avals, dims, strict=True)
        if dim is not None
    }
    if len(found) > 1:
        specs = ", ".join("not split" if s is None else repr(s.spec[0]) for s in sorted(found, key=repr))
        raise ValueError(
            message(
                "The mapped axes of the arguments of vmap are split alike.",
                f"mapped axes: {', '.join(str(a) for a, d in zip(avals, dims, strict=True) if d is not None)}: {specs}",
                fix="Lay one of the arguments out as the others are: didax.sharding.reshard.",
            )
        )
    return next(iter(found), None)


def split_result(f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The result, split as `out_sharding=` says; the partitioner decides how the function computes it."""
    rest = {name: value for name, value in kwargs.items() if name != "out_sharding"}
    args, rest = pytree.map(_loosened, (args, rest))
    return constrained_tree("out_sharding", f(*args, **rest), kwargs["out_sharding"])


def _loosened(x: Any) -> Any:
    if isinstance(x, Array):
        return loosened(x)
    own = getattr(x, "loosened", None)  # of x.at[index], which holds an array
    return x if own is None else own()
