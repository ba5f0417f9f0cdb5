"""Collectives: operations across a mapped axis that has a name.

    vmap(lambda x: psum(x, "i"), axis_name="i")(xs)     every element gets the sum over the batch

Inside the mapped function an element's type has no such axis, so a collective is an operation on one array that names
the axis. The axis of a `vmap` ends at its interpreter: the batch rule turns the collective into an ordinary operation
along the batch axis. The manual axes of a `shard_map` end in the compiled program: there a collective is communication
between devices. Every other transformation treats it like any linear operation. A primitive handles one layout, and one
axis of a `vmap` or several manual ones (then `axis_name` is a tuple, the slowest first); the functions of
`didax/lax/parallel.py` build the other forms (untiled ones, means) from these.
Read next: `transforms/batching.py`; `varying.py`, which values differ between devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero, array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.primitive import Primitive
from didax.primitives import split
from didax.primitives.convert import computed_once, convert_element_type, iota
from didax.primitives.elementwise import div, eq, mul
from didax.primitives.filled import full
from didax.primitives.reductions import as_ordered_integers, reduce_max_p, reduce_min_p
from didax.primitives.scalars import scalar_like
from didax.primitives.select import select_n
from didax.primitives.shape import LinearUnary, reduce_sum, reshape, transpose
from didax.primitives.slicing import concatenate, slice_axis
from didax.transforms.batching import AxisData, move_batch_axis
from didax.xla.device_text import unmapped
from didax.xla.text import int_matrix, tensor_type

_UNBOUND = "its axis is not mapped where it is evaluated: collectives belong inside vmap(..., axis_name=...)"
_INT32 = np.dtype(np.int32)
Pairs = tuple[tuple[int, int], ...]
AxisName = str | tuple[str, ...]
Groups = Sequence[Sequence[int]]  # of numbers of devices, each in the order of its axes


_along_dimension = split.along_whole_axes(lambda x, dimension, **_: [dimension])


class Collective(Primitive):
    """A collective of one operand over the mapped axis `axis_name` of `axis_size` elements.

    `across` computes it on a whole batch with the batch axis first. An operand that does not depend on the
    axis is repeated along it first, unless `shared` knows the result.
    """

    alike: ClassVar[bool] = False  # whether all that exchange get the same result
    holes = {"eager": _UNBOUND}
    sets_varying = True
    sharding = split.kept  # over the explicit mesh axes that are not those of the collective

    def named_axes(self, params: dict[str, Any]) -> frozenset[str]:
        return frozenset(axis_names(params["axis_name"]))

    def differs(self, follow: Any, choose: Any, operands: Sequence[Any], **params: Any) -> list[Any]:
        over = self.named_axes(params)
        alike = self.alike and "axis_index_groups" not in params
        return [operands[0] - over if alike else operands[0] | over]

    def type(self, x: ShapedArray, *, axis_name: AxisName, axis_size: int, **params: Any) -> ShapedArray:
        return x

    def lower(self, ctx: Any, x: Any, *, axis_name: AxisName, **params: Any) -> Any:
        axes = axis_names(axis_name)
        if ctx.module.devices is None:
            raise unmapped(self, axes)
        groups = ctx.module.devices.groups(self, axes)
        parts = params.pop("axis_index_groups", None)
        if parts is not None:
            groups = [[group[i] for i in part] for group in groups for part in parts]
        return self.communicate(ctx, x, groups, **params)

    def communicate(self, ctx: Any, x: Any, groups: Groups, **params: Any) -> Any:
        """Write the communication within each group of devices."""
        raise NotImplementedError

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        (x,), (dim,) = args, dims
        if axis.name not in axis_names(params["axis_name"]):
            assert dim is not None, "only its own axis is met without a batched operand"
            return self.beside(x, dim, **params)
        if "axis_index_groups" in params:
            return self.within(move_batch_axis(x, dim, 0, axis.size), **params), 0
        if dim is None and self.shared is not None:
            return self.shared(x, **params), None
        return self.across(move_batch_axis(x, dim, 0, axis.size), **params)

    shared: Any = None

    def within(self, x: Any, *, axis_index_groups: Groups, axis_size: int, **params: Any) -> Any:
        """The result for a batch along axis 0 whose groups exchange values apart; its batch axis is 0."""
        found: list[Any] = []
        for group in axis_index_groups:
            y, dim = self.across(_picked(x, group), axis_size=len(group), **params)
            found.append(move_batch_axis(y, dim, 0, len(group)))
        place = {i: n for n, i in enumerate(i for group in axis_index_groups for i in group)}
        return _picked(concatenate(found, 0), [place[i] for i in range(len(place))])

    def across(self, x: Any, **params: Any) -> tuple[Any, int | None]:
        """The result for a batch along axis 0, and its batch axis."""
        raise NotImplementedError

    def beside(self, x: Any, dim: int, **params: Any) -> tuple[Any, int]:
        """The result for a batch along an axis of another name: it goes first, so `dimension` moves by one."""
        moved = {"dimension": params["dimension"] + 1} if "dimension" in params else {}
        return self.bind(array_ops.move_axis(x, dim, 0), **(params | moved)), 0


class LinearCollective(Collective, LinearUnary):
    """A collective that is linear in its operand."""


class CollectiveReduction(Collective):
    """A reduction over the axis: all devices get the same, unless they exchange in groups."""

    alike = True

    def type(
        self, x: ShapedArray, *, axis_name: AxisName, axis_size: int, axis_index_groups: Any = None
    ) -> ShapedArray:
        return x if axis_index_groups else x.update(vma=x.vma.difference(axis_names(axis_name)))


class PSum(CollectiveReduction, LinearCollective):
    """The sum over the axis."""

    def communicate(self, ctx: Any, x: Any, groups: Groups, *, axis_size: int) -> Any:
        return _reduce(ctx, "all_reduce", "add", x, x.aval, groups)

    def across(self, x: Any, **params: Any) -> tuple[Any, None]:
        return reduce_sum(x, (0,)), None

    def shared(self, x: Any, *, axis_size: int, **params: Any) -> Any:
        return mul(x, scalar_like(axis_size, aval_of(x).dtype))

    def transpose(self, ct: Any, x: Any, *, axis_name: AxisName, **params: Any) -> list[Any]:
        alike = "axis_index_groups" not in params
        if alike and x.aval.vma.issuperset(axis_names(axis_name)):  # the cotangent is the same on all devices
            return [ct]
        return [self.bind(ct, axis_name=axis_name, **params)]


class PExtremum(CollectiveReduction):
    """The largest or smallest element over the axis; elements that attain it share its derivative equally."""

    holes = {**Collective.holes, "transpose": "the operation is not linear"}

    def __init__(self, name: str, reduce: Primitive):
        super().__init__(name)
        self.reduce = reduce

    def communicate(self, ctx: Any, x: Any, groups: Groups, *, axis_size: int) -> Any:
        op = "maximum" if self.name == "pmax" else "minimum"

        def exchange(x: Any) -> Any:
            return _reduce(ctx, "all_reduce", op, x, x.aval, groups)

        return as_ordered_integers(ctx, x, op, exchange) if dtypes.is_float(x.aval.dtype) else exchange(x)

    def across(self, x: Any, **params: Any) -> tuple[Any, None]:
        return self.reduce.bind(x, axes=(0,)), None

    def shared(self, x: Any, **params: Any) -> Any:
        return x

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        if type(t) is Zero:
            return self.bind(x, **params), t
        (x,) = computed_once(x)
        out = self.bind(x, **params)
        attains = eq(x, out)
        count = psum_p.bind(convert_element_type(attains, aval_of(t).dtype), **params)
        return out, div(psum_p.bind(select_n(attains, scalar_like(0, aval_of(t).dtype), t), **params), count)


class AllGather(LinearCollective):
    """The operands of all elements, concatenated along `dimension`."""

    alike = True
    sharding = _along_dimension

    def type(
        self, x: ShapedArray, *, axis_name: str, axis_size: int, dimension: int, **_: Any
    ) -> ShapedArray:
        return _resized(x, dimension, _length(self, x, dimension) * axis_size)

    def communicate(self, ctx: Any, x: Any, groups: Groups, *, axis_size: int, dimension: int) -> Any:
        out = _resized(x.aval, dimension, x.aval.shape[dimension] * axis_size)
        attributes = f"all_gather_dim = {dimension} : i64, {_groups_text(ctx, groups)}, use_global_device_ids"
        return _emit(ctx, "all_gather", x, attributes, out)

    def across(self, x: Any, *, axis_size: int, dimension: int, **params: Any) -> tuple[Any, None]:
        return _merge(array_ops.move_axis(x, 0, dimension), dimension), None

    def transpose(self, ct: Any, x: Any, **params: Any) -> list[Any]:
        if not params["axis_size"]:  # the length of the operand does not follow from that of the result
            return [array_ops.zeros(x.aval)]
        return [reduce_scatter_p.bind(ct, **params)]


class ReduceScatter(LinearCollective):
    """The sum over the axis, cut along `dimension`: the k-th element of the axis gets the k-th piece."""

    sharding = _along_dimension

    def type(
        self, x: ShapedArray, *, axis_name: str, axis_size: int, dimension: int, **_: Any
    ) -> ShapedArray:
        return _resized(x, dimension, _piece(self, x, dimension, axis_name, axis_size))

    def communicate(self, ctx: Any, x: Any, groups: Groups, *, axis_size: int, dimension: int) -> Any:
        out = _resized(x.aval, dimension, x.aval.shape[dimension] // axis_size)
        return _reduce(
            ctx, "reduce_scatter", "add", x, out, groups, f"scatter_dimension = {dimension} : i64, "
        )

    def across(self, x: Any, *, axis_size: int, dimension: int, **params: Any) -> tuple[Any, int]:
        return _cut(reduce_sum(x, (0,)), dimension, axis_size), dimension

    def transpose(self, ct: Any, x: Any, **params: Any) -> list[Any]:
        return [all_gather_p.bind(ct, **params)]


class AllToAll(LinearCollective):
    """Piece k, along `dimension`, of the operand of element j becomes piece j of the result of element k."""

    sharding = _along_dimension

    def type(
        self, x: ShapedArray, *, axis_name: str, axis_size: int, dimension: int, **_: Any
    ) -> ShapedArray:
        _piece(self, x, dimension, axis_name, axis_size)
        return x

    def communicate(self, ctx: Any, x: Any, groups: Groups, *, axis_size: int, dimension: int) -> Any:
        attributes = (
            f"split_dimension = {dimension} : i64, concat_dimension = {dimension} : i64, "
            f"split_count = {axis_size} : i64, {_groups_text(ctx, groups)}"
        )
        return _emit(ctx, "all_to_all", x, attributes, x.aval)

    def across(self, x: Any, *, axis_size: int, dimension: int, **params: Any) -> tuple[Any, int]:
        pieces = _cut(x, dimension + 1, axis_size)  # (batch, ..., axis_size, length of a piece, ...)
        order = list(range(aval_of(pieces).ndim))
        order[0], order[dimension + 1] = dimension + 1, 0
        return _merge(transpose(pieces, tuple(order)), dimension + 1), 0

    def transpose(self, ct: Any, x: Any, **params: Any) -> list[Any]:
        return [self.bind(ct, **params)]


class PPermute(LinearCollective):
    """Element `dst` gets the operand of element `src` for each pair in `perm`; zeros where no pair leads."""

    def communicate(self, ctx: Any, x: Any, groups: Groups, *, axis_size: int, perm: Pairs) -> Any:
        pairs = [(group[src], group[dst]) for group in groups for src, dst in perm]
        where = f"source_target_pairs = {int_matrix(pairs, 2)}, {ctx.module.devices.channel()}"
        return _emit(ctx, "collective_permute", x, where, x.aval)

    def across(self, x: Any, *, axis_size: int, perm: Pairs, **params: Any) -> tuple[Any, int]:
        source = {dst: src for src, dst in perm}
        return _picked(x, [source.get(dst) for dst in range(axis_size)]), 0

    def transpose(self, ct: Any, x: Any, *, perm: Pairs, **params: Any) -> list[Any]:
        return [self.bind(ct, perm=tuple((dst, src) for src, dst in perm), **params)]


class AxisIndex(Primitive):
    """The position of the element along the axis."""

    holes = {
        "eager": _UNBOUND,
        "jvp": "it has no operands",
        "transpose": "it has no operands",
    }

    def named_axes(self, params: dict[str, Any]) -> frozenset[str]:
        return frozenset((params["axis_name"],))

    def differs(self, follow: Any, choose: Any, operands: Sequence[Any], **params: Any) -> list[Any]:
        return [self.named_axes(params)]

    def type(self, *, axis_name: str, axis_size: int) -> ShapedArray:
        return ShapedArray((), _INT32)

    def lower(self, ctx: Any, *, axis_name: str, axis_size: int) -> Any:
        devices = ctx.module.devices
        if devices is None:
            raise unmapped(self, [axis_name])
        places = devices.positions(self, axis_name)
        table = ctx.constant(places, ShapedArray(places.shape, _INT32))
        number = devices.device_number(ctx)
        found = ctx.emit(
            f"stablehlo.dynamic_slice {table}, {number}, sizes = [1] : ({table.type}, {number.type}) -> tensor<1xi32>",
            ShapedArray((1,), _INT32),
        )
        return ctx.op("reshape", [found], ShapedArray((), _INT32))

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, axis_name: str, axis_size: int
    ) -> tuple[Any, int]:
        return iota(_INT32, (axis_size,), 0), 0


def axis_names(axis_name: AxisName) -> tuple[str, ...]:
    """The axes of a collective, the slowest first."""
    return axis_name if isinstance(axis_name, tuple) else (axis_name,)


def _picked(x: Any, sources: Sequence[int | None]) -> Any:
    """The elements of `x` at these positions along axis 0; zeros for None."""
    aval = aval_of(x)
    runs: list[tuple[int | None, int]] = []  # (first source, or None for zeros, and how many in a row)
    for src in sources:
        start, count = runs[-1] if runs else (-1, 0)
        if count and src == (None if start is None else start + count):
            runs[-1] = start, count + 1
        else:
            runs.append((src, 1))
    pieces = [
        full((n, *aval.shape[1:]), 0, aval.dtype) if start is None else slice_axis(x, start, start + n, 0)
        for start, n in runs
    ]
    return concatenate(pieces, 0) if pieces else x


def _groups_text(ctx: Any, groups: Groups) -> str:
    longest = max(map(len, groups))
    rows = [[*group, *[-1] * (longest - len(group))] for group in groups]  # -1: no device
    return f"replica_groups = {int_matrix(rows, longest)}, {ctx.module.devices.channel()}"


def _emit(ctx: Any, name: str, x: Any, attributes: str, out: ShapedArray, region: str = "") -> Any:
    return ctx.emit(
        f'"stablehlo.{name}"({x}) <{{{attributes}}}>{region} : ({x.type}) -> {tensor_type(out)}', out
    )


def _reduce(ctx: Any, name: str, op: str, x: Any, out: ShapedArray, groups: Groups, first: str = "") -> Any:
    """A reduction over each group of devices."""
    scalar = ShapedArray((), x.aval.dtype)
    args, header = ctx.block([scalar, scalar])
    body = ctx.region()
    result = body.op(op, args)
    lines = "\n".join([header, *body.lines, f"stablehlo.return {result} : {result.type}"])
    attributes = f"{first}{_groups_text(ctx, groups)}, use_global_device_ids"
    return _emit(ctx, name, x, attributes, out, f" ({{\n{lines}\n}})")


def _length(primitive: Primitive, x: ShapedArray, dimension: int) -> int:
    if not 0 <= dimension < x.ndim:
        raise TypeError(
            message(
                f"{primitive.name} works along an axis of its operand.",
                f"operand: {x}, dimension: {dimension}",
                fix=f"Name one of the {x.ndim} axes." if x.ndim else "Give the operand an axis (reshape).",
            )
        )
    return x.shape[dimension]


def _piece(primitive: Primitive, x: ShapedArray, dimension: int, axis_name: str, axis_size: int) -> int:
    """Length of the pieces an operand is cut into, one for each element of the mapped axis."""
    length = _length(primitive, x, dimension)
    if length % axis_size:
        raise ValueError(
            message(
                f"{primitive.name} cuts an axis into one piece for each element of the mapped axis.",
                f"operand: {x}, dimension: {dimension}; axis {axis_name!r} has {axis_size} elements",
                fix="Choose or pad the axis to a multiple of that.",
            )
        )
    return length // axis_size


def _resized(x: ShapedArray, dimension: int, length: int) -> ShapedArray:
    return x.update(shape=(*x.shape[:dimension], length, *x.shape[dimension + 1 :]))


def _cut(x: Any, dimension: int, count: int) -> Any:
    """The axis `dimension` as two axes: `count` pieces, and within a piece."""
    shape = aval_of(x).shape
    return reshape(x, (*shape[:dimension], count, shape[dimension] // count, *shape[dimension + 1 :]))


def _merge(x: Any, dimension: int) -> Any:
    """The axes `dimension` and the next as one."""
    shape = aval_of(x).shape
    return reshape(x, (*shape[:dimension], shape[dimension] * shape[dimension + 1], *shape[dimension + 2 :]))


psum_p = PSum("psum")
pmax_p = PExtremum("pmax", reduce_max_p)
pmin_p = PExtremum("pmin", reduce_min_p)
all_gather_p = AllGather("all_gather")
reduce_scatter_p = ReduceScatter("reduce_scatter")
all_to_all_p = AllToAll("all_to_all")
ppermute_p = PPermute("ppermute")
axis_index_p = AxisIndex("axis_index")
