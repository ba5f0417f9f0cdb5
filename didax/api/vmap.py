"""`vmap`: a function of one example as a function of a batch.

    vmap(f)(xs)[i] = f(xs[i])

`in_axes` and `out_axes` are pytree prefixes that say which axis of each argument and result is the batch; keyword
arguments are mapped over axis 0, or by name when `in_axes` is a dictionary. Read next: `transforms/batching.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ParamSpec, cast

import numpy as np

from didax.api.chunks import checked_size, depends_on_rows, is_chunked, map_chunks
from didax.api.explicit import batch_split
from didax.api.flat import (
    FlatFunction,
    argument_names,
    as_array,
    check_callable,
    flatten_arguments,
    positional_names,
    result_name,
)
from didax.api.refs import RefArguments, leaf_types, vmap_of_refs
from didax.api.traced import trace_function
from didax.core import pytree
from didax.core import sharding as shardings
from didax.core.avals import ShapedArray, aval_of, is_array_like
from didax.core.dims import is_symbolic
from didax.core.errors import api_boundary, message
from didax.core.ref import Ref
from didax.core.source import describe_function, wraps
from didax.core.value import Array
from didax.transforms.batching import AxisData, element_aval, move_batch_axis, vmap_flat

P = ParamSpec("P")


@api_boundary
def vmap(
    fun: Callable[P, Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: str | None = None,
    axis_size: int | None = None,
    spmd_axis_name: str | tuple[str, ...] | None = None,
    *,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """Vectorise `fun` over a batch axis of its arguments.

    Args:
      in_axes: for each positional argument the axis to map, None to pass it whole (then it may be no array); an integer
        for all, or a pytree prefix of the arguments. Keyword arguments are mapped over axis 0. A dictionary maps
        arguments by their names.
      out_axes: where the batch axis appears in the results; None for results that do not depend on the batch.
      axis_name: a name for collectives (`lax.psum(x, axis_name)`) inside `fun`.
      axis_size: length of the batch, needed when no argument is mapped.
      spmd_axis_name: the mesh axes over which the batch is split in sharding constraints and `shard_map`s inside `fun`.
      chunk_size: map so many elements at a time, one chunk after another: the results are the same, and memory for
        intermediate values is that of one chunk. Not with `axis_name`, and not over Refs.

    Raises ValueError when mapped axes have different lengths or do not exist, TypeError for malformed axes.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.vmap(lambda x, y: x * y, in_axes=(0, None))(dnp.arange(3.0), 2.0)
    Array([0., 2., 4.], dtype=float32)
    """
    check_callable("vmap", fun)
    if isinstance(in_axes, list):
        in_axes = tuple(cast("list[Any]", in_axes))
    _check_axes_tree("in_axes", in_axes)
    _check_axes_tree("out_axes", out_axes)
    if not isinstance(axis_name, Hashable):
        rule, fact = "axis_name of vmap is hashable.", f"axis_name: {axis_name!r:.100}"
        raise TypeError(message(rule, fact, fix="Name the axis by a string."))
    split_over = (spmd_axis_name,) if isinstance(spmd_axis_name, str) else tuple(spmd_axis_name or ())
    chunk_size = _checked_chunk_size(fun, chunk_size, axis_name)

    @wraps(fun)
    def mapped(*args: P.args, **kwargs: P.kwargs) -> Any:
        leaves, tree = flatten_arguments(args, kwargs)
        dims = _flat_in_axes(fun, in_axes, args, kwargs)
        typed = _without_objects(leaves, tree, dims) if None in dims else (args, kwargs)
        avals, refs = leaf_types("vmap", fun, *typed)
        dims = [
            _normalise(fun, args, kwargs, i, a, d) for i, (a, d) in enumerate(zip(avals, dims, strict=True))
        ]
        if _BATCHED_NODES:
            _check_batched_nodes(fun, (args, kwargs), dims, "in_axes")
        size = _batch_size(fun, args, kwargs, avals, dims, axis_size)
        layout = batch_split(avals, dims) if shardings.in_types else None
        over = split_over if layout is None else layout.axes
        axis = AxisData(axis_name, size, split_over=over, layout=layout)
        flat = FlatFunction(fun, tree, "vmap")
        mapped_refs = [i for i in refs if dims[i] is not None]
        if mapped_refs:
            _check_no_chunks(fun, args, kwargs, mapped_refs[0], chunk_size)
            outs, out_dims = vmap_of_refs(RefArguments(flat, mapped_refs), axis, dims, leaves, fun)
        elif chunk_size is not None and is_chunked(chunk_size, axis.size):
            outs, out_dims = _in_chunks(flat, axis.size, dims, leaves, chunk_size, out_axes)
        else:
            outs, out_dims = vmap_flat(flat, axis, dims, leaves, function=fun)
        wanted = _wanted(flat, out_axes)
        moved = [
            as_array(_place(fun, flat.out_tree, i, y, dim, want, axis.size))
            for i, (y, dim, want) in enumerate(zip(outs, out_dims, wanted, strict=True))
        ]
        result = pytree.unflatten(flat.out_tree, moved)
        if _BATCHED_NODES:
            _check_batched_nodes(fun, result, wanted, "out_axes")
        return result

    mapped.__doc__ = _documented(fun)
    return api_boundary(mapped)


# Pytrees whose leaves share their leading axes, `n_batch` of them: only these axes can be mapped.
_BATCHED_NODES: list[type] = []


def has_batch_axes(cls: type) -> None:
    """Have vmap check that it maps one of the `n_batch` leading axes that the leaves of such a pytree share."""
    _BATCHED_NODES.append(cls)


def _check_batched_nodes(fun: Any, tree: Any, dims: Sequence[Any], name: str) -> None:
    kinds, start = tuple(_BATCHED_NODES), 0
    for node in pytree.leaves(tree, is_leaf=lambda x: isinstance(x, kinds)):
        end = start + (len(pytree.leaves(node)) if isinstance(node, kinds) else 1)
        found, start = {*dims[start:end]} - {None}, end
        n_batch = getattr(node, "n_batch", 0)
        if isinstance(node, kinds) and any(not 0 <= operator.index(dim) < n_batch for dim in found):
            rule = f"{name} of vmap for a sparse array must correspond to a batch dimension."
            facts = f"Cannot map {name}={found.pop()} for {type(node).__name__} array with n_batch={n_batch}: {node!r}"
            fix = "Use update_layout to make it a batch dimension, or None."
            raise ValueError(message(rule, facts, f"function: {describe_function(fun)}", fix=fix))


def _documented(fun: Any) -> str:
    """The docstring of the mapped function: what it is, then that of the function."""
    name, doc = getattr(fun, "__name__", repr(fun)), getattr(fun, "__doc__", None)
    note = f"Vectorized version of {name}: mapped arguments have one axis more, and so have the results."
    return f"{note}\n\nOriginal documentation:\n\n{doc}" if doc else note


def _in_chunks(
    flat: FlatFunction,
    length: int,
    dims: Sequence[int | None],
    leaves: Sequence[Any],
    size: int,
    out_axes: Any,
) -> tuple[list[Any], list[int | None]]:
    """Results of the flat function over the batch, a chunk at a time, and their batch axes."""
    mapped = [i for i, dim in enumerate(dims) if dim is not None]
    rows = [move_batch_axis(as_array(leaves[i]), dims[i], 0, length) for i in mapped]

    def of_rows(*elements: Any) -> Any:
        every = list(leaves)
        for i, x in zip(mapped, elements, strict=True):
            every[i] = x
        return flat(*every)

    avals = tuple([element_aval(aval_of(x), 0) for x in rows])
    body = trace_function("vmap", of_rows, pytree.structure((avals, {})), avals)
    batched = depends_on_rows(body, len(rows))
    wanted = _wanted(flat, out_axes)
    ndims = [aval.ndim + 1 for aval in body.out_avals]
    axes = [
        want % n if b and want is not None and -n <= want < n else 0
        for b, want, n in zip(batched, wanted, ndims, strict=True)
    ]
    outs, places = map_chunks(body, rows, length, size, axes)
    whole = [y if b else y[0] for y, b in zip(outs, batched, strict=True)]
    return whole, [place if b else None for place, b in zip(places, batched, strict=True)]


def _wanted(flat: FlatFunction, out_axes: Any) -> list[Any]:
    """The axis, or None, that `out_axes` wants of each result."""
    out = pytree.unflatten(flat.out_tree, list(range(flat.out_tree.num_leaves)))
    return pytree.broadcast_prefix(out_axes, out, "vmap out_axes", is_leaf=_is_none, of="result")


def _checked_chunk_size(fun: Any, chunk_size: Any, axis_name: str | None) -> int | None:
    size = checked_size("vmap", "chunk_size", chunk_size)
    if size is not None and axis_name is not None:
        raise ValueError(
            message(
                "Elements that vmap maps in chunks are not all there at once, so the axis cannot have a name.",
                f"function: {describe_function(fun)}, axis_name: {axis_name!r}, chunk_size: {size}",
                fix="Drop chunk_size, or axis_name where no collective needs it.",
            )
        )
    return size


def _check_no_chunks(fun: Any, args: Any, kwargs: Any, i: int, chunk_size: int | None) -> None:
    if chunk_size is not None:
        rule = "vmap with a chunk_size maps arrays, not Refs."
        names = f"argument {argument_names(fun, args, kwargs)[i]}, function: {describe_function(fun)}"
        raise ValueError(
            message(rule, names, fix="Pass ref[...] and return the new value, or drop chunk_size.")
        )


def _without_objects(leaves: Sequence[Any], tree: Any, dims: Sequence[int | None]) -> Any:
    """The arguments with a number in the place of each that is passed whole and is no array: it has no type."""
    return pytree.unflatten(
        tree,
        [
            x if dim is not None or isinstance(x, Array | Ref) or is_array_like(x) else 0
            for x, dim in zip(leaves, dims, strict=True)
        ],
    )


def _is_none(x: Any) -> bool:
    return x is None


def _check_axes_tree(name: str, axes: Any) -> None:
    for leaf in pytree.leaves(axes, is_leaf=_is_none):
        if leaf is not None and (isinstance(leaf, bool) or not hasattr(leaf, "__index__")):
            raise TypeError(
                message(
                    f"{name} of vmap consists of integers and None, alone or in a prefix of the pytree.",
                    f"{name}: {axes!r:.200}, which holds {leaf!r:.50} of type {type(leaf).__name__}",
                    fix="Write an integer, None, or a tuple, list or dict of these.",
                )
            )


def _flat_in_axes(fun: Any, in_axes: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int | None]:
    """One axis (or None) for each leaf of the arguments."""
    if isinstance(in_axes, dict):
        return _axes_by_name(fun, cast("dict[str, Any]", in_axes), args, kwargs)
    if isinstance(in_axes, tuple) and (count := len(cast("tuple[Any, ...]", in_axes))) != len(args):
        raise ValueError(
            message(
                "A tuple of in_axes of vmap has one entry for each positional argument.",
                f"in_axes: {in_axes!r:.200} ({count} entries), positional arguments: {len(args)}",
                f"function: {describe_function(fun)}",
                fix="Give each positional argument an entry; keyword arguments are mapped over axis 0.",
            )
        )
    positional = pytree.broadcast_prefix(in_axes, args, "vmap in_axes", is_leaf=_is_none)
    return [*positional, *(0 for _ in pytree.leaves(kwargs))]


def _axes_by_name(
    fun: Any, in_axes: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[int | None]:
    names = positional_names(fun, len(args))
    unknown = sorted(set(map(str, in_axes)) - set(names) - set(kwargs))
    if unknown:
        raise ValueError(
            message(
                "A dictionary of in_axes of vmap names arguments of the call.",
                f"not arguments: {', '.join(unknown)}; arguments: {', '.join([*names, *kwargs])}",
                fix="Use the parameter names of the function; arguments left out are mapped over axis 0.",
            )
        )
    dims: list[int | None] = []
    for name, arg in [*zip(names, args, strict=True), *sorted(kwargs.items())]:
        dims += pytree.broadcast_prefix(
            in_axes.get(name, 0), arg, f"vmap in_axes[{name!r}]", is_leaf=_is_none, of=name
        )
    return dims


def _normalise(fun: Any, args: Any, kwargs: Any, i: int, aval: ShapedArray, dim: Any) -> int | None:
    """The axis counted from the front; ValueError when the argument has no such axis."""
    if dim is None:
        return None
    dim = operator.index(dim)
    if not -aval.ndim <= dim < aval.ndim:
        name = argument_names(fun, args, kwargs)[i]
        raise ValueError(
            message(
                "in_axes of vmap must name an axis that the argument has.",
                f"argument {name}: {aval}, axis {dim}",
                f"function: {describe_function(fun)}",
                fix=f"Use an axis from {-aval.ndim} to {aval.ndim - 1}, or None to pass the argument whole."
                if aval.ndim
                else "A scalar has no axis to map: use None to pass it whole.",
            )
        )
    return dim % aval.ndim


def _batch_size(
    fun: Any, args: Any, kwargs: Any, avals: list[ShapedArray], dims: list[int | None], axis_size: int | None
) -> int:
    sizes = {i: a.shape[d] for i, (a, d) in enumerate(zip(avals, dims, strict=True)) if d is not None}
    given: Any = axis_size
    if not (given is None or isinstance(given, int | np.integer) or is_symbolic(given)):
        rule = "axis_size of vmap is the length of the batch, an int."
        raise TypeError(
            message(
                rule, f"function: {describe_function(fun)}; axis_size: {axis_size!r:.100}", fix="Pass an int."
            )
        )
    if axis_size is not None and not sizes:
        return axis_size
    found = {*sizes.values(), *([axis_size] if axis_size is not None else [])}
    if len(found) == 1:
        return found.pop()
    if not found:
        raise ValueError(
            message(
                "vmap needs at least one mapped argument, or axis_size.",
                f"function: {describe_function(fun)}, arguments: {len(args)} positional, {len(kwargs)} by keyword",
                fix="Map an argument with in_axes, or pass axis_size=n.",
            )
        )
    names = argument_names(fun, args, kwargs)
    facts = [f"argument {names[i]}: {avals[i]}, axis {dims[i]} has length {n}" for i, n in sizes.items()]
    raise ValueError(
        message(
            "All axes that vmap maps must have one length.",
            *([f"axis_size: {axis_size}"] if axis_size is not None else []),
            *facts,
            fix="Map axes of equal length, or pass an argument whole with None in in_axes.",
        )
    )


def _place(fun: Any, out_tree: Any, i: int, y: Any, dim: int | None, want: Any, size: int) -> Any:
    """A result with its batch axis where out_axes wants it."""
    if want is None:
        if dim is None:
            return y
        raise ValueError(
            message(
                "out_axes of vmap is None for a result that depends on the batch.",
                f"{result_name(out_tree, i)}: {element_aval(aval_of(y), dim)} for each element",
                f"function: {describe_function(fun)}",
                fix="Give it an axis in out_axes, or reduce it over the batch (lax.pmean with axis_name).",
            )
        )
    ndim = aval_of(y).ndim + (dim is None)
    want = operator.index(want)
    if not -ndim <= want < ndim:
        raise ValueError(
            message(
                "out_axes of vmap must name an axis that the batched result has.",
                f"{result_name(out_tree, i)}: {element_aval(aval_of(y), dim)} for each element, axis {want}",
                f"function: {describe_function(fun)}",
                fix=f"Use an axis from {-ndim} to {ndim - 1}.",
            )
        )
    return move_batch_axis(y, dim, want % ndim, size)
