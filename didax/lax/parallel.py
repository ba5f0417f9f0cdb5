"""Collectives: operations across a mapped axis, to which `vmap(..., axis_name="i")` gives a name.

    vmap(lambda x: x / psum(x, "i"), axis_name="i")(xs)     = xs / sum(xs)

Most functions take pytrees and treat every array in them. `axis_name` is a name, or for some functions a
tuple of names: these axes are combined into one, of which the first varies slowest. A name that no enclosing
`vmap` maps is a NameError. Read next: `didax/primitives/collectives.py`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from didax.api.flat import as_array
from didax.api.layouts import constrained_tree, spread
from didax.core import dtypes, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.dtypes import PYTHON_SCALARS
from didax.core.errors import ArgumentError, message
from didax.core.primitive import infer
from didax.core.sharding import PartitionSpec
from didax.lax.operands import operation
from didax.lax.slicing import dynamic_index_in_dim
from didax.primitives import collectives as p
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import add, div, eq, lt, max_, mul
from didax.primitives.reductions import reduce_max_p, reduce_min_p
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, move_axis, reduce_sum, reshape
from didax.primitives.varying import pvary
from didax.transforms import named_axes

__all__ = [
    "all_gather",
    "all_to_all",
    "axis_index",
    "axis_size",
    "pbroadcast",
    "pcast",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "pshuffle",
    "psum",
    "psum_scatter",
    "pswapaxes",
    "with_sharding_constraint",
]

T = TypeVar("T")
AxisName = str | tuple[str, ...] | list[str]
Axes = AxisName | int | tuple[str | int, ...] | list[str | int]  # an integer is an axis of the array
IndexGroups = Sequence[Sequence[int]] | None  # positions along the axis: each group exchanges on its own
Groups = tuple[tuple[int, ...], ...]


# --- Asking about the axis ------------------------------------------------------------------------


@operation
def axis_size(axis_name: AxisName) -> int:
    """Return the length of the mapped axis (or the product of the lengths of several), as a Python integer.

    >>> import didax as dx
    >>> from didax import lax
    >>> dx.vmap(lambda x: x * lax.axis_size("i"), axis_name="i")(dx.numpy.ones(3))
    Array([3., 3., 3.], dtype=float32)
    """
    return math.prod(named_axes.axis_size(name) for name in _names(axis_name))


@operation
def axis_index(axis_name: AxisName) -> Any:
    """Return the position along the mapped axis (or along the combination of several), as an int32 scalar.

    >>> import didax as dx
    >>> from didax import lax
    >>> dx.vmap(lambda x: lax.axis_index("i"), axis_name="i")(dx.numpy.ones(3))
    Array([0, 1, 2], dtype=int32)
    """
    if not _names(axis_name):  # there is one place where nothing is mapped
        return broadcast_in_dim(np.int32(0), (), ())
    index: Any = None
    for name in _names(axis_name):
        size = named_axes.axis_size(name)
        inner = p.axis_index_p.bind(axis_name=name, axis_size=size)
        if named_axes.named_axis(name).tracked:
            inner = pvary(inner, (name,))
        index = inner if index is None else add(mul(index, np.int32(size)), inner)
    return index


# --- Reductions -----------------------------------------------------------------------------------


@operation
def psum(x: Any, axis_name: Axes, *, axis_index_groups: IndexGroups = None) -> Any:
    """Return the sum over the mapped axis, or over several; booleans count as integers.

    A value that does not depend on the axis is multiplied by its length: `psum(1, axis_name)` is a Python
    integer. With `axis_index_groups`, lists of positions along the axis, each group has a sum of its own.
    An integer in `axis_name` is an axis of the array, which is summed as well.

    >>> import didax as dx
    >>> from didax import lax
    >>> dx.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(dx.numpy.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float32)
    """
    names: Any = axis_name
    if type(axis_name) is not str:
        x, names = _over_own_axes("psum", lambda leaf, axes: reduce_sum(_counted(leaf), axes), x, axis_name)
    groups = _groups("psum", names, axis_index_groups)
    sizes = {len(group) for group in groups} if groups else {axis_size(names)}

    def psum_leaf(leaf: Any) -> Any:
        if type(leaf) in PYTHON_SCALARS and len(sizes) == 1:
            return leaf * min(sizes)
        return _over_axes(p.psum_p, _counted(leaf), names, groups)

    return pytree.map(psum_leaf, x)


@operation
def pmean(x: Any, axis_name: AxisName, *, axis_index_groups: IndexGroups = None) -> Any:
    """Return the mean over the mapped axis, or over several; the mean of integers is floating point.

    >>> import didax as dx
    >>> from didax import lax
    >>> dx.vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")(dx.numpy.array([1.0, 3.0]))
    Array([-1.,  1.], dtype=float32)
    """
    size = psum(1, axis_name, axis_index_groups=axis_index_groups)

    def mean(total: Any) -> Any:
        if type(total) in PYTHON_SCALARS:
            return total / size
        if not dtypes.is_inexact(aval_of(total).dtype):
            total = convert_element_type(total, dtypes.default_dtype(float))
        dtype = aval_of(total).dtype
        return div(
            total, scalar_like(size, dtype) if type(size) is int else convert_element_type(size, dtype)
        )

    return pytree.map(mean, psum(x, axis_name, axis_index_groups=axis_index_groups))


@operation
def pmax(x: Any, axis_name: Axes, *, axis_index_groups: IndexGroups = None) -> Any:
    """Return the largest element over the mapped axis, or over several; an integer is an axis of the array.

    >>> import didax as dx
    >>> from didax import lax
    >>> dx.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(dx.numpy.array([1.0, 3.0]))
    Array([3., 3.], dtype=float32)
    """
    names: Any = axis_name
    if type(axis_name) is not str:
        x, names = _over_own_axes("pmax", lambda leaf, axes: reduce_max_p.bind(leaf, axes=axes), x, axis_name)
    groups = _groups("pmax", names, axis_index_groups)
    return pytree.map(lambda leaf: _over_axes(p.pmax_p, leaf, names, groups), x)


@operation
def pmin(x: Any, axis_name: Axes, *, axis_index_groups: IndexGroups = None) -> Any:
    """Return the smallest element over the mapped axis, or over several; an integer is an axis of the array.

    >>> import didax as dx
    >>> from didax import lax
    >>> dx.vmap(lambda x: lax.pmin(x, "i"), axis_name="i")(dx.numpy.array([1.0, 3.0]))
    Array([1., 1.], dtype=float32)
    """
    names: Any = axis_name
    if type(axis_name) is not str:
        x, names = _over_own_axes("pmin", lambda leaf, axes: reduce_min_p.bind(leaf, axes=axes), x, axis_name)
    groups = _groups("pmin", names, axis_index_groups)
    return pytree.map(lambda leaf: _over_axes(p.pmin_p, leaf, names, groups), x)


# --- Moving data along the axis -------------------------------------------------------------------


@operation
def all_gather(
    x: Any, axis_name: AxisName, *, axis_index_groups: IndexGroups = None, axis: int = 0, tiled: bool = False
) -> Any:
    """Return the arrays of all elements, stacked along a new axis `axis`; with `tiled` joined along an existing axis.

    >>> import didax as dx
    >>> from didax import lax
    >>> dx.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(dx.numpy.array([1.0, 3.0]))
    Array([[1., 3.],
           [1., 3.]], dtype=float32)
    """
    groups = _equal_groups("all_gather", axis_name, axis_index_groups)

    def gather(leaf: Any) -> Any:
        shape = aval_of(leaf).shape
        where = _axis("all_gather", "axis", axis, aval_of(leaf), 0 if tiled else 1)
        if not _names(axis_name):
            return leaf
        pieces = leaf if tiled else reshape(leaf, (*shape[:where], 1, *shape[where:]))
        for names in reversed(_together(axis_name)):
            pieces = _bind(p.all_gather_p, pieces, names, groups, dimension=where)
        return pieces

    return pytree.map(gather, x)


@operation
def psum_scatter(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: IndexGroups = None,
    tiled: bool = False,
) -> Any:
    """Return the sum over the mapped axis, of which each element gets one part along `scatter_dimension`.

    The dimension is as long as the mapped axis and is removed; with `tiled` it is cut into pieces. Booleans count
    as integers.

    >>> import didax as dx
    >>> from didax import lax
    >>> dx.vmap(lambda x: lax.psum_scatter(x, "i"), axis_name="i")(dx.numpy.array([[1.0, 3.0], [10.0, 30.0]]))
    Array([11., 33.], dtype=float32)
    """
    groups = _equal_groups("psum_scatter", axis_name, axis_index_groups)

    def scatter(leaf: Any) -> Any:
        aval = aval_of(leaf)
        where = _axis("psum_scatter", "scatter_dimension", scatter_dimension, aval)
        if not tiled:
            _check_length("psum_scatter", "scatter_dimension", where, aval, axis_name, groups)
        out = _counted(leaf)
        for names in _together(axis_name):
            out = _bind(p.reduce_scatter_p, out, names, groups, dimension=where)
        return out if tiled else reshape(out, (*aval.shape[:where], *aval.shape[where + 1 :]))

    return pytree.map(scatter, x)


@operation
def all_to_all(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: IndexGroups = None,
    tiled: bool = False,
) -> Any:
    """Cut `split_axis` into a piece for every element, exchange the pieces, and join them along `concat_axis`.

    Without `tiled` the split axis is as long as the mapped axis and is removed; the pieces stack along a new
    axis.

    >>> import didax as dx
    >>> from didax import lax
    >>> x = dx.numpy.array([[1.0, 2.0], [3.0, 4.0]])
    >>> dx.vmap(lambda x: lax.all_to_all(x, "i", 0, 0), axis_name="i")(x)
    Array([[1., 3.],
           [2., 4.]], dtype=float32)
    """
    groups = _equal_groups("all_to_all", axis_name, axis_index_groups)

    def exchange(leaf: Any) -> Any:
        aval = aval_of(leaf)
        split = _axis("all_to_all", "split_axis", split_axis, aval)
        concat = _axis("all_to_all", "concat_axis", concat_axis, aval)
        if not tiled:
            _check_length("all_to_all", "split_axis", split, aval, axis_name, groups)
        out = _exchanged(leaf, axis_name, groups, split)
        if not tiled:
            return move_axis(out, split, concat)
        size, shape = len(groups[0]) if groups else axis_size(axis_name), list(aval.shape)
        shape[split] //= size
        out = move_axis(reshape(out, (*aval.shape[:split], size, *shape[split:])), split, concat)
        shape[concat] *= size
        return reshape(out, tuple(shape))

    return pytree.map(exchange, x)


def _exchanged(x: Any, axis_name: Any, groups: Groups, split: int) -> Any:
    """`x` with its piece k along `split` sent to the element k of the axes: over one of them after the other."""
    parts = _together(axis_name)
    if len(parts) == 1:
        return _bind(p.all_to_all_p, x, parts[0], groups, dimension=split)
    shape, sizes = aval_of(x).shape, [axis_size(names) for names in parts]
    out = reshape(x, (*shape[:split], *sizes, shape[split] // math.prod(sizes), *shape[split + 1 :]))
    for dimension, names in enumerate(parts, split):
        out = _bind(p.all_to_all_p, out, names, dimension=dimension)
    return reshape(out, shape)


@operation
def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Send arrays between elements: for each pair (source, destination) in `perm` the destination gets the arrays.

    An element that is no destination gets zeros.

    >>> import didax as dx
    >>> from didax import lax
    >>> x = dx.numpy.array([1.0, 2.0, 3.0])
    >>> dx.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(x)
    Array([0., 1., 2.], dtype=float32)
    """
    pairs = tuple((operator.index(src), operator.index(dst)) for src, dst in perm)
    _check_pairs(pairs, axis_name)
    names, *others = _together(axis_name)
    if others:
        return pytree.map(lambda leaf: _permuted(leaf, axis_name, pairs), x)
    return pytree.map(lambda leaf: _bind(p.ppermute_p, leaf, names, perm=pairs), x)


def _permuted(x: Any, axis_name: AxisName, pairs: Sequence[tuple[int, int]]) -> Any:
    """`ppermute` over axes that no one operation communicates over: all is gathered, each element picks a part."""
    sources = np.full(axis_size(axis_name), -1, np.int32)
    for source, destination in pairs:
        sources[destination] = source
    source = dynamic_index_in_dim(sources, axis_index(axis_name), keepdims=False)
    found = dynamic_index_in_dim(all_gather(x, axis_name), max_(source, np.int32(0)), keepdims=False)
    return where(lt(source, np.int32(0)), scalar_like(0, aval_of(found).dtype), found)


@operation
def pshuffle(x: Any, axis_name: AxisName, perm: Sequence[int]) -> Any:
    """Give element i the arrays of element `perm[i]`; `perm` is a permutation of the axis.

    >>> import didax as dx
    >>> from didax import lax
    >>> dx.vmap(lambda x: lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(dx.numpy.array([1.0, 2.0, 3.0]))
    Array([3., 1., 2.], dtype=float32)
    """
    size = axis_size(axis_name)
    if sorted(perm) != list(range(size)):
        raise ValueError(
            message(
                "pshuffle takes a permutation of the mapped axis.",
                f"perm: {perm}, axis {axis_name!r} of {size} elements",
                fix=f"Name each of 0 to {size - 1} once, or use ppermute.",
            )
        )
    return ppermute(x, axis_name, [(src, dst) for dst, src in enumerate(perm)])


@operation
def pswapaxes(x: Any, axis_name: str, axis: int, *, axis_index_groups: IndexGroups = None) -> Any:
    """Exchange the mapped axis with the axis `axis` of the arrays, which has the same length.

    >>> import didax as dx
    >>> from didax import lax
    >>> dx.vmap(lambda x: lax.pswapaxes(x, "i", 0), axis_name="i")(dx.numpy.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([[1., 3.],
           [2., 4.]], dtype=float32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


@operation
def pbroadcast(x: Any, axis_name: AxisName, source: int) -> Any:
    """Give every element the arrays of the element at position `source` of the mapped axis.

    >>> import didax as dx
    >>> from didax import lax
    >>> dx.vmap(lambda x: lax.pbroadcast(x, "i", 2), axis_name="i")(dx.numpy.array([1.0, 2.0, 3.0]))
    Array([3., 3., 3.], dtype=float32)
    """
    size, place = axis_size(axis_name), operator.index(source)
    if not 0 <= place < size:
        rule = "The source of pbroadcast is a position along the mapped axis."
        facts = f"source: {place}, axis {axis_name!r} of {size} elements"
        raise ValueError(message(rule, facts, fix=f"Choose one of 0 to {size - 1}."))

    def from_source(leaf: Any) -> Any:
        aval = aval_of(leaf)
        here = broadcast_in_dim(eq(axis_index(axis_name), np.int32(place)), aval.shape, ())
        total = psum(where(here, leaf, np.zeros((), aval.dtype)), axis_name)
        return convert_element_type(total, aval.dtype)  # the sum of booleans is an integer

    return pytree.map(lambda leaf: from_source(as_array(leaf)), x)


# --- Values that differ between devices -----------------------------------------------------------


@operation
def pcast(x: Any, axis_name: AxisName, *, to: str) -> Any:
    """The same arrays, whose types say from here on that they may differ between devices along these axes.

    Only inside `shard_map`; `to` is "varying". Operations do this by themselves where it is needed.

    >>> import didax as dx
    >>> from didax import lax
    >>> mesh = dx.make_mesh((1,), ("i",))
    >>> f = dx.shard_map(lambda x: lax.pcast(x, "i", to="varying"), mesh=mesh, in_specs=dx.P(), out_specs=dx.P("i"))
    >>> f(dx.numpy.ones(2))
    Array([1., 1.], dtype=float32)
    """
    if to not in ("varying", "unreduced", "reduced", "invarying"):
        fix = 'Use to="varying".'
        raise ArgumentError(message("pcast makes values vary.", f"to: {to!r}", fix=fix))
    if to != "varying":
        raise NotImplementedError(
            message(
                "pcast makes values vary; the other way is an exchange between devices.",
                f"to: {to!r}",
                fix='Use to="varying", or psum, pmax or all_gather for values that are the same on all devices.',
            )
        )
    axes = [named_axes.named_axis(name) for name in _names(axis_name)]
    names = [str(axis.name) for axis in axes if axis.tracked]
    return pytree.map(lambda leaf: pvary(leaf, names), x)


# --- Values that lie on several devices -----------------------------------------------------------


@operation
def with_sharding_constraint(x: T, shardings: Any) -> T:
    """The pytree, whose arrays lie on devices as the shardings say: one for all, or a prefix of the pytree.

    Inside a program the partitioner keeps to it; outside, the arrays are laid out so at once. A PartitionSpec refers to
    the mesh in force. ValueError where an array's shape does not fit.

    >>> import didax as dx, didax.numpy as dnp
    >>> mesh = dx.make_mesh((1,), ("data",))
    >>> s = dx.NamedSharding(mesh, dx.P("data"))
    >>> dx.jit(lambda x: dx.lax.with_sharding_constraint(x * 2, s))(dnp.arange(2))
    Array([0, 2], dtype=int32)
    """
    for leaf, sharding in zip(
        pytree.leaves(x), spread("with_sharding_constraint", shardings, x), strict=True
    ):
        if sharding is not None and sharding.mesh.explicit_axes:
            _check_stated(leaf, sharding)
    return constrained_tree("with_sharding_constraint", x, shardings, uneven=True)


def _check_stated(x: Any, sharding: Any) -> None:
    """AssertionError unless a type says of explicit mesh axes what the sharding says."""
    aval = aval_of(x)
    stated = PartitionSpec.UNCONSTRAINED not in sharding.spec.partitions
    if stated and sharding.in_types(aval.ndim) is not aval.layout:
        raise AssertionError(
            message(
                "Over explicit mesh axes with_sharding_constraint asserts what the type says, and changes nothing.",
                f"array: {aval}, sharding: {sharding.spec}",
                fix="Lay the array out anew with didax.sharding.reshard.",
            )
        )


# --- Names and axes -------------------------------------------------------------------------------


def _names(axis_name: Any) -> tuple[Any, ...]:
    return tuple(axis_name) if isinstance(axis_name, tuple | list) else (axis_name,)


def _together(axis_name: Any) -> list[Any]:
    """The axes that one operation communicates over: a single one of a `vmap`, or neighbouring manual ones."""
    groups: list[Any] = []
    names = _names(axis_name)
    if len(set(names)) < len(names):
        rule, fix = "A collective goes over an axis once.", "Name each axis once."
        raise ValueError(message(rule, f"axis_name: {axis_name!r}", fix=fix))
    for name in names:
        if not named_axes.named_axis(name).manual:
            groups.append(name)
        elif groups and isinstance(groups[-1], tuple):
            groups[-1] = (*groups[-1], name)
        else:
            groups.append((name,))
    return groups


def _groups(name: str, axis_name: Any, groups: IndexGroups) -> Groups:
    """The groups of positions; ValueError unless each position along the axis is in one of them."""
    size = axis_size(axis_name)
    if groups is None:
        return ()
    if len(_together(axis_name)) > 1:
        rule = f"axis_index_groups of {name} are of one axis, or of the axes of a mesh."
        facts = f"axis_index_groups: {list(map(list, groups))}, axes: {axis_name!r}"
        raise NotImplementedError(
            message(rule, facts, fix="Map over one axis of all the elements (reshape).")
        )
    found = tuple([tuple([operator.index(i) for i in group]) for group in groups])
    if sorted(i for group in found for i in group) != list(range(size)) or () in found:
        raise ValueError(
            message(
                f"axis_index_groups of {name} holds each position along the axis once.",
                f"axis_index_groups: {list(map(list, found))}, axis {axis_name!r} of {size} elements",
                fix=f"Name each of 0 to {size - 1} once; [i] alone is a group, too.",
            )
        )
    return found


def _equal_groups(name: str, axis_name: Any, groups: IndexGroups) -> Groups:
    """The groups of positions; ValueError unless they are of one length, too."""
    found = _groups(name, axis_name, groups)
    if len({len(group) for group in found}) > 1:
        raise ValueError(
            message(
                f"{name} cuts and joins arrays alike everywhere, so axis_index_groups are of one length.",
                f"axis_index_groups: {list(map(list, found))}",
                fix="Make the groups equally long.",
            )
        )
    return found


def _bind(primitive: Any, x: Any, axis_name: Any, groups: Groups = (), **params: Any) -> Any:
    axes = [named_axes.named_axis(name) for name in _names(axis_name)]
    if axes[0].manual:
        axis_name = tuple(_names(axis_name))
        x = pvary(x, [str(axis.name) for axis in axes if axis.tracked])
    params = {"axis_name": axis_name, "axis_size": math.prod(axis.size for axis in axes), **params}
    if groups:
        equal = len({len(group) for group in groups}) == 1
        params |= {"axis_index_groups": groups, "axis_size": len(groups[0]) if equal else params["axis_size"]}
    infer(primitive, (aval_of(x),), params)  # an interpreter of the axis may never ask for the type
    return primitive.bind(x, **params)


def _counted(x: Any) -> Any:
    """A summand; booleans as integers."""
    return convert_element_type(x, dtypes.default_dtype(int)) if aval_of(x).dtype == np.bool_ else x


def _over_axes(primitive: Any, x: Any, axis_name: Any, groups: Groups = ()) -> Any:
    for names in _together(axis_name):
        x = _bind(primitive, x, names, groups)
    return x


def _over_own_axes(name: str, reduce: Callable[[Any, Any], Any], x: Any, axis_name: Any) -> tuple[Any, Any]:
    """The arrays, reduced over those of their own axes that `axis_name` numbers; and what it names."""
    names = _names(axis_name)
    axes = tuple([axis for axis in names if type(axis) is int])
    if not axes:
        return x, axis_name

    def reduced(leaf: Any) -> Any:
        ndim = aval_of(leaf).ndim
        if len(set(axes)) < len(axes) or not all(0 <= axis < ndim for axis in axes):
            rule = f"An integer in axis_name of {name} is an axis of the array, counted from 0, and stands there once."
            fix = f"Use axes from 0 to {ndim - 1}" if ndim else "Give the array an axis (reshape)"
            facts = f"axis_name: {axis_name!r}, array: {aval_of(leaf)}"
            raise ValueError(message(rule, facts, fix=f"{fix}, or a string where an axis of vmap is meant."))
        return reduce(leaf, axes)

    return pytree.map(reduced, x), tuple([axis for axis in names if type(axis) is not int])


def _axis(name: str, argument: str, axis: int, aval: ShapedArray, extra: int = 0) -> int:
    """Return the axis, counted from the front, of an array with `extra` more axes than `aval`."""
    ndim = aval.ndim + extra
    axis = operator.index(axis)
    if -ndim <= axis < ndim:
        return axis % ndim
    raise ValueError(
        message(
            f"{argument} of {name} must be an axis of the {'result' if extra else 'array'}.",
            f"array: {aval}, {argument}: {axis}",
            fix=f"Use an axis from {-ndim} to {ndim - 1}." if ndim else "Give the array an axis (reshape).",
        )
    )


def _check_length(
    name: str, argument: str, axis: int, aval: ShapedArray, axis_name: Any, groups: Groups
) -> None:
    size = len(groups[0]) if groups else axis_size(axis_name)
    if aval.shape[axis] != size:
        raise ValueError(
            message(
                f"{argument} of {name} must be as long as the mapped axis.",
                f"array: {aval}, {argument}: {axis}; axis {axis_name!r} has {size} elements",
                fix="Use tiled=True to cut a longer axis into pieces.",
            )
        )


def _check_pairs(pairs: Sequence[tuple[int, int]], axis_name: Any) -> None:
    size = axis_size(axis_name)
    sources, destinations = [src for src, _ in pairs], [dst for _, dst in pairs]
    distinct = len(set(sources)) == len(sources) and len(set(destinations)) == len(destinations)
    if distinct and all(0 <= i < size for i in (*sources, *destinations)):
        return
    raise ValueError(
        message(
            "ppermute takes pairs (source, destination), each position at most once on either side.",
            f"perm: {list(pairs)}, axis {axis_name!r} of {size} elements",
            fix=f"Use positions from 0 to {size - 1}; to send to several, use all_gather and index.",
        )
    )
