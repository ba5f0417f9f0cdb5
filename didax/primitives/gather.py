"""Reading and writing windows of an array at positions that are data: `gather` and the `scatter` family.

    gather(x, i)[b, w]        = x[i[b] + w]
    scatter_add(x, i, u)      = x, after  x[i[b] + w] += u[b, w]  for every b, w

The last axis of the indices holds one position per entry of `start_index_map`; the other axes (`b`) are the
batch. Windows (`w`) have sizes `slice_sizes`; axes of the operand that are collapsed, or walked together with
an axis of the indices (`operand_batching_dims`), are left out of them. `GatherScatterMode` says what becomes
of a window that does not fit. The two are transposes of each other. Indexing by arrays and batches of dynamic
slices are made of them. Read next: `window_positions.py` (dimension numbers and positions), `slicing.py`
(windows at one position), `didax/numpy/indexing.py` (NumPy's notation for all this).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import Zero, add_tangents, array_ops, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import may_exceed
from didax.core.errors import MissingRuleError, message
from didax.core.primitive import Primitive, eager_trace
from didax.core.tracing import set_current_trace
from didax.passes.checkify import Condition
from didax.passes.sparsity import Dependence, everything, grouped, union
from didax.primitives import padded_windows, split
from didax.primitives.convert import computed_once, iota
from didax.primitives.elementwise import add, div, eq, max_, min_, mul, ne, neg, or_
from didax.primitives.families import Elementwise
from didax.primitives.filled import full, zeros
from didax.primitives.last_writers import write_last
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, reshape
from didax.primitives.window_positions import (
    CLIP,
    FILL_OR_DROP,
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    as_gather,
    as_scatter,
    clamped,
    find_windows,
    fitting,
    index_bounds,
    lower_indices,
    pairing_error,
    problem_with,
    result_order,
    window_axes,
    window_sizes,
    windows_fit,
)
from didax.transforms.batching import AxisData, move_batch_axis
from didax.transforms.transpose import is_undef
from didax.xla.lowering import materialized
from didax.xla.text import keep_nan, lower_combination

_INT32 = np.dtype(np.int32)


# --- Updates in place ---------------------------------------------------------------------------------------
# Note [Updates in place]
# XLA writes an update into the buffer of its operand where it can, which is what makes a loop of updates
# cheap. On the CPU it also fuses the update's own computation into that write, and (jaxlib 0.10.2) overlooks
# that this computation reads the very buffer it overwrites when a reshape or another change of type lies
# between them: `base.at[1:].set(base[:-1])`, reshaped before or after, repeats base[0]. An optimization
# barrier is dropped before fusion, so it cures only some of these. A call that must not be inlined cures them
# all: the update is computed in full before the write begins, and the write stays in place. A call takes 0.5
# microseconds and more, which is what a step of a loop may take, so there is none where nothing that the operand is
# computed from is read for the update (`Value.sources`: a loop that writes what it reads from rows). The arrays that
# a loop carries lie apart; they count as one if they start from one, since XLA takes a loop of one step apart. Updates
# of one element need no guard, since there the only read comes before the only write. Nor do sums of a window and
# something else, which read each element before they overwrite it: 200 steps of two fields of 100 cells, each of which
# grows by differences of the other (FDTD), take 0.2 of the time. On several devices the call also keeps the partitioner
# from gathering the updates.


def materialized_update(ctx: Any, x: Any, update: Any, partial: Iterable[int], added: Any = None) -> Any:
    """`update`, computed in full before an operation that may write in place. See Note [Updates in place].

    Along the axes `partial` the update covers a part of the operand. If `added` is given, the update is what combines
    it with the very elements that are overwritten: each of these is read before it is written.
    """
    if not ctx.module.on_cpu or not may_exceed(update.aval.size, 1) or update.constant is not None:
        return update
    reads_operand = x.sources & (update if added is None else added).sources
    if x.constant is not None or not (reads_operand or ctx.module.partitioned_here):
        return update
    return materialized(ctx, [_uneven_kept_whole(ctx, update, partial)])[0]


def _uneven_kept_whole(ctx: Any, update: Any, axes: Iterable[int]) -> Any:
    """`update`, which the partitioner does not split along those of the `axes` that the devices do not divide evenly.

    Otherwise it would split such an axis over some devices before the call of Note [Updates in place], and gather it.
    """
    devices = ctx.module.devices
    if devices is None or not devices.partitioned_here:
        return update
    count = len(devices.partition.devices)
    uneven = [i for i in axes if update.aval.shape[i] % count != 0]
    return devices.kept_whole(ctx, update, uneven) if uneven else update


# --- gather -------------------------------------------------------------------------------------------------


_FEW_BYTES = 256  # of indices whose places are remembered
_FEW_PLACES = 1024


class _Places(NamedTuple):
    """Where the elements of a gather's result lie in the operand, read row by row, and which of them are missing."""

    flat: np.ndarray[Any, Any]
    missing: np.ndarray[Any, Any] | None


@functools.lru_cache(1024)
def _places(
    shape: tuple[int, ...],
    indices: tuple[bytes, np.dtype[Any], tuple[int, ...]],
    dims: GatherDimensionNumbers,
    sizes: tuple[int, ...],
    mode: GatherScatterMode,
) -> _Places | None:
    """What `find_windows` computes in many steps, for indices that come again, as those of diagonals do."""
    data, dtype, index_shape = indices
    found = find_windows(shape, np.frombuffer(data, dtype).reshape(index_shape), dims, sizes, mode)
    if math.prod(found.shape) > _FEW_PLACES:
        return None
    order = result_order(dims.offset_dims, len(found.shape))
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    flat: Any = sum(at * stride for at, stride in zip(found.positions, strides, strict=True))
    flat = np.broadcast_to(flat, found.shape).transpose(order)
    if found.fits is None or found.fits.all():
        return _Places(flat.astype(np.intp), None)
    missing = ~found.fits.reshape(found.fits.shape + (1,) * (len(found.shape) - found.fits.ndim))
    return _Places(flat.astype(np.intp), np.broadcast_to(missing, found.shape).transpose(order))


class Gather(Primitive):
    """Windows of the operand at positions given by `start_indices`."""

    linear = True
    moves_elements = True
    exact_params = True  # the fill value
    sharding = split.gathered
    padded = padded_windows.gathered

    def type(
        self,
        operand: ShapedArray,
        indices: ShapedArray,
        *,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: tuple[int, ...],
        **flags: Any,
    ) -> ShapedArray:
        dims = dimension_numbers
        problem = problem_with(operand, indices, dims, slice_sizes)
        window = [slice_sizes[axis] for axis in window_axes(dims, operand.ndim)] if not problem else []
        if not problem and len(window) != len(dims.offset_dims):
            problem = f"the window has {len(window)} axes, offset_dims names {len(dims.offset_dims)}"
        if problem:
            raise pairing_error("gather", problem, operand, indices, dims, f"slice_sizes: {slice_sizes}")
        order = result_order(dims.offset_dims, indices.ndim - 1 + len(window))
        shape = [*indices.shape[:-1], *window]
        return operand.update(shape=tuple(shape[i] for i in order))

    def eager(
        self,
        operand: Any,
        indices: Any,
        *,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: tuple[int, ...],
        mode: GatherScatterMode,
        fill_value: Any,
        **flags: Any,
    ) -> Any:
        operand, indices = np.asarray(operand), np.asarray(indices)
        if indices.nbytes <= _FEW_BYTES and operand.size:
            question = indices.tobytes(), indices.dtype, indices.shape
            places = _places(operand.shape, question, dimension_numbers, slice_sizes, mode)
            if places is not None:
                out = operand.reshape(-1).take(places.flat).reshape(places.flat.shape)
                fill = fill_scalar(fill_value, out.dtype) if places.missing is not None else None
                return out if fill is None else np.where(cast("Any", places.missing), fill, out)
        found = find_windows(operand.shape, indices, dimension_numbers, slice_sizes, mode)
        if 0 in operand.shape:  # every window is empty, or none fits
            out = np.zeros(found.shape, operand.dtype)
        else:
            out = np.broadcast_to(operand[found.positions], found.shape)
        if found.fits is not None and not found.fits.all():
            missing = ~found.fits.reshape(found.fits.shape + (1,) * (out.ndim - found.fits.ndim))
            out = np.where(missing, fill_scalar(fill_value, out.dtype), out)
        return out.transpose(result_order(dimension_numbers.offset_dims, out.ndim))

    def lower(
        self,
        ctx: Any,
        operand: Any,
        indices: Any,
        *,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: tuple[int, ...],
        mode: GatherScatterMode,
        fill_value: Any,
        indices_are_sorted: bool,
        unique_indices: bool,
    ) -> Any:
        out, dims = ctx.out_avals[0], dimension_numbers
        if 0 in operand.aval.shape or out.size == 0:  # XLA refuses to read from nothing
            return ctx.constant(fill_scalar(fill_value if mode is FILL_OR_DROP else 0, out.dtype), out)
        indices = lower_indices(ctx, indices)
        result = ctx.gather(operand, indices, dims, slice_sizes, out, indices_are_sorted)
        if mode is not FILL_OR_DROP or not dims.start_index_map:
            return result
        bounds = index_bounds(ctx, indices, operand.aval.shape, slice_sizes, dims.start_index_map)
        fits = fitting(ctx, indices, bounds)
        batch_axes = [i for i in range(out.ndim) if i not in dims.offset_dims]
        mask = ctx.broadcast(fits, out.update(dtype=np.dtype(bool)), batch_axes)
        return ctx.select(mask, result, ctx.constant(fill_scalar(fill_value, out.dtype), out))

    def conditions(
        self,
        operand: Any,
        indices: Any,
        *,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: tuple[int, ...],
        **flags: Any,
    ) -> list[Condition]:
        return windows_fit(operand, indices, dimension_numbers.start_index_map, slice_sizes)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        operand, indices = primals
        out = self.bind(operand, indices, **params)
        if type(tangents[0]) is Zero:
            return out, Zero(aval_of(out).tangent())
        fill = None if params["fill_value"] is None and params["mode"] is not FILL_OR_DROP else 0
        return out, self.bind(tangents[0], indices, **{**params, "fill_value": fill})

    def transpose(self, ct: Any, operand: Any, indices: Any, **params: Any) -> list[Any]:
        mode = params["mode"]
        ct_x = scatter_add_p.bind(
            zeros(operand.aval.strip_weak_type()),
            indices,
            ct,
            dimension_numbers=as_scatter(params["dimension_numbers"]),
            indices_are_sorted=params["indices_are_sorted"],
            unique_indices=params["unique_indices"]
            and mode is not CLIP,  # clipping may bring indices together
            mode=mode,
        )
        return [ct_x, None]

    def batch(
        self,
        axis: AxisData,
        args: Sequence[Any],
        dims: Sequence[int | None],
        *,
        dimension_numbers: GatherDimensionNumbers,
        slice_sizes: tuple[int, ...],
        **flags: Any,
    ) -> tuple[Any, int]:
        args = [x if d is None else array_ops.move_axis(x, d, 0) for x, d in zip(args, dims, strict=True)]
        operand_batched, indices_batched = [d is not None for d in dims]
        both = operand_batched and indices_batched
        offset, collapsed, index_map, batching, indices_batching = dimension_numbers
        new = GatherDimensionNumbers(
            (*(() if indices_batched else (0,)), *_shift(offset)),
            _shift(collapsed, operand_batched),
            _shift(index_map, operand_batched),
            (*((0,) if both else ()), *_shift(batching, operand_batched)),
            (*((0,) if both else ()), *_shift(indices_batching, indices_batched)),
        )
        sizes = (1 if both else axis.size, *slice_sizes) if operand_batched else slice_sizes
        if both:
            flags["indices_are_sorted"] = False
        return self.bind(*args, dimension_numbers=new, slice_sizes=sizes, **flags), 0


def fill_scalar(fill_value: Any, dtype: np.dtype[Any]) -> Any:
    """A fill value in `dtype`; None is NaN, the least signed integer, the greatest unsigned one or True."""
    if fill_value is not None:
        return np.asarray(fill_value).astype(dtype)[()]
    if dtypes.is_inexact(dtype):
        return dtype.type(np.nan)
    if dtype == np.bool_:
        return np.True_
    info = dtypes.iinfo(dtype)
    return dtype.type(info.min if dtypes.is_signed(dtype) else info.max)


def _shift(axes: Sequence[int], by: bool = True) -> tuple[int, ...]:
    return tuple(axis + by for axis in axes)


# --- scatter ------------------------------------------------------------------------------------------------


class Scatter(Primitive):
    """Windows of the operand, at positions given by `scatter_indices`, combined with `updates`.

    `scatter` itself writes the updates; where indices repeat, the last one stays. Subclasses differ in how
    an update is combined with the element that is there (`hlo`, `ufunc`), and so in their derivatives.
    """

    linear = True
    in_supported_dtype = True
    sharding = split.scattered
    padded = padded_windows.scattered

    def __init__(self, name: str, hlo: str | None, ufunc: Callable[..., Any] | None, accepts: str):
        super().__init__(name)
        self.hlo = hlo  # None: the update replaces what is there
        self.moves_elements = hlo is None
        self.ufunc: Any = ufunc
        self.accepts = accepts

    def type(
        self,
        operand: ShapedArray,
        indices: ShapedArray,
        updates: ShapedArray,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        **flags: Any,
    ) -> ShapedArray:
        facts = (operand, indices, dimension_numbers, f"updates: {updates}")
        if updates.dtype != operand.dtype or dtypes.kind_of(operand.dtype) not in self.accepts:
            fix = "Cast the updates to the operand's dtype."
            if updates.dtype == operand.dtype:
                fix = "Cast the operand and the updates (x.astype)."
            rule = f"{self.name} combines updates with an operand of the same dtype, one it can combine."
            raise TypeError(message(rule, f"operand: {operand}, updates: {updates}", fix=fix))
        dims = as_gather(dimension_numbers)
        window = len(window_axes(dims, operand.ndim))
        if updates.ndim != indices.ndim - 1 + window or len(dims.offset_dims) != window:
            raise pairing_error(
                self.name, "updates need the batch axes of the indices and the window's axes", *facts
            )
        problem = problem_with(
            operand, indices, dims, window_sizes(updates.shape, dimension_numbers, operand.ndim)
        )
        batch = tuple(n for i, n in enumerate(updates.shape) if i not in dims.offset_dims)
        if not problem and batch != indices.shape[:-1]:
            wanted = indices.shape[:-1]
            problem = f"the batch axes of the updates have lengths {batch}, those of the indices {wanted}"
        if problem:
            raise pairing_error(self.name, problem, *facts)
        return operand.update(weak_type=operand.weak_type and updates.weak_type)

    def eager(
        self,
        operand: Any,
        indices: Any,
        updates: Any,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        mode: GatherScatterMode,
        **flags: Any,
    ) -> Any:
        out, indices, updates = np.array(operand), np.asarray(indices), np.asarray(updates)
        dims, sizes = as_gather(dimension_numbers), window_sizes(updates.shape, dimension_numbers, out.ndim)
        drops = FILL_OR_DROP if mode is not CLIP else CLIP  # what XLA does where a promise is broken
        found = find_windows(out.shape, indices, dims, sizes, drops)
        updates = updates.transpose(np.argsort(result_order(dims.offset_dims, updates.ndim)))
        positions: Any = found.positions
        if not updates.size or not out.size:
            return out
        if found.fits is not None and not found.fits.all():
            positions = tuple(np.broadcast_to(p, found.shape)[found.fits] for p in positions)
            updates = updates[found.fits]
        if self.ufunc is None:
            out[positions] = updates
        else:
            self.ufunc.at(out, positions, updates)
        return out

    def conditions(
        self,
        operand: Any,
        indices: Any,
        updates: Any,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        **flags: Any,
    ) -> list[Condition]:
        sizes = window_sizes(aval_of(updates).shape, dimension_numbers, aval_of(operand).ndim)
        return windows_fit(operand, indices, dimension_numbers.scatter_dims_to_operand_dims, sizes)

    def lower(
        self,
        ctx: Any,
        operand: Any,
        indices: Any,
        updates: Any,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        mode: GatherScatterMode,
        indices_are_sorted: bool,
        unique_indices: bool,
    ) -> Any:
        out, dims = ctx.out_avals[0], dimension_numbers
        if 0 in (updates.aval.size, operand.aval.size):
            return operand
        indices = lower_indices(ctx, indices)
        if mode is CLIP and dims.scatter_dims_to_operand_dims:
            sizes = window_sizes(updates.aval.shape, dims, out.ndim)
            shape = operand.aval.shape
            indices = clamped(
                ctx, indices, index_bounds(ctx, indices, shape, sizes, dims.scatter_dims_to_operand_dims)
            )
        batch = [i for i in range(updates.aval.ndim) if i not in dims.update_window_dims]
        is_inside = not batch and mode in (CLIP, GatherScatterMode.PROMISE_IN_BOUNDS)
        is_fused = ctx.module.on_cpu and updates.constant is not None
        if is_inside and self.hlo and not is_fused and not ctx.module.partitioned_here:
            return _lower_window(ctx, operand, indices, updates, dims, self.hlo)
        updates = materialized_update(ctx, operand, updates, batch)
        may_meet = not (unique_indices or _writes_once(indices.aval, dims))
        if self.hlo is None and may_meet and not ctx.module.on_cpu:
            return write_last(ctx, operand, indices, updates, dims)
        return ctx.scatter(operand, indices, updates, dims, self.hlo, indices_are_sorted, unique_indices)

    def batch(
        self,
        axis: AxisData,
        args: Sequence[Any],
        dims: Sequence[int | None],
        *,
        dimension_numbers: ScatterDimensionNumbers,
        **flags: Any,
    ) -> tuple[Any, int]:
        indices_batched = dims[1] is not None
        operand, updates = [move_batch_axis(args[i], dims[i], 0, axis.size) for i in (0, 2)]
        indices = args[1] if dims[1] is None else array_ops.move_axis(args[1], dims[1], 0)
        window, inserted, to_operand, batching, indices_batching = dimension_numbers
        new = ScatterDimensionNumbers(
            (*(() if indices_batched else (0,)), *_shift(window)),
            _shift(inserted),
            _shift(to_operand),
            (*((0,) if indices_batched else ()), *_shift(batching)),
            (*((0,) if indices_batched else ()), *_shift(indices_batching, indices_batched)),
        )
        if indices_batched:
            flags["indices_are_sorted"] = False
        return self.bind(operand, indices, updates, dimension_numbers=new, **flags), 0

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        _, indices, updates = primals
        out = self.bind(*primals, **params)
        x_dot, _, u_dot = tangents
        if type(x_dot) is Zero and type(u_dot) is Zero:
            return out, Zero(aval_of(out).tangent())
        if params["unique_indices"] or _writes_once(aval_of(indices), params["dimension_numbers"]):
            params["unique_indices"] = params["unique_indices"] or params["mode"] is not CLIP
            return out, self.bind(instantiate(x_dot), indices, instantiate(u_dot), **params)
        return out, _last_writers_tangent(indices, aval_of(updates), x_dot, u_dot, params)

    def sparsity(self, operands: Sequence[Dependence], **params: Any) -> Any:
        """An element depends on the one that is there, and on all updates of it."""
        x, indices, updates = operands
        if indices.value is None:
            return everything(operands, x.aval.size)
        numbers = np.arange(1, x.aval.size + 1, dtype=np.int32).reshape(x.aval.shape)
        with set_current_trace(eager_trace):
            read = read_back(numbers, indices.value, updates.aval.shape, params)
        return union([x.rows, grouped(updates, np.asarray(read) - 1, x.aval.size)])

    def transpose(self, ct: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
        # recorded by the jvp above, for indices that do not repeat
        ct_x = self.bind(
            ct, indices, zeros(updates.aval if is_undef(updates) else aval_of(updates)), **params
        )
        ct_u = read_back(ct, indices, aval_of(updates).shape, params) if is_undef(updates) else None
        return [ct_x if is_undef(operand) else None, None, ct_u]


def _lower_window(
    ctx: Any, x: Any, indices: Any, updates: Any, dims: ScatterDimensionNumbers, op: str
) -> Any:
    """One window within `x` read, combined and written back: its new values are computed in one loop."""
    positions = dict(zip(dims.scatter_dims_to_operand_dims, range(indices.aval.size), strict=True))
    flat, zero = indices.aval.update(shape=()), ctx.constant(0, indices.aval.update(shape=()))
    starts = [
        ctx.op("reshape", [ctx.slice_axis(indices, i, i + 1, 0)], flat)
        if (i := positions.get(axis)) is not None
        else zero
        for axis in range(x.aval.ndim)
    ]
    sizes = window_sizes(updates.aval.shape, dims, x.aval.ndim)
    new = lower_combination(ctx, op, ctx.dynamic_slice(x, starts, sizes), ctx.reshape(updates, sizes))
    if op in ("maximum", "minimum"):
        new = keep_nan(ctx, new)  # See Note [NaN in extrema]
    return ctx.dynamic_update_slice(x, materialized_update(ctx, x, new, (), updates), starts)


def read_back(x: Any, indices: Any, updates: Sequence[int], params: dict[str, Any]) -> Any:
    """The elements of `x` that a scatter with these parameters overwrites, in the shape of updates; 0 if dropped."""
    dims, mode = params["dimension_numbers"], params["mode"]
    return gather_p.bind(
        x,
        indices,
        dimension_numbers=as_gather(dims),
        slice_sizes=window_sizes(updates, dims, aval_of(x).ndim),
        indices_are_sorted=params["indices_are_sorted"],
        unique_indices=params["unique_indices"],
        mode=mode if mode is CLIP else FILL_OR_DROP,
        fill_value=0,
    )


def _writes_once(indices: ShapedArray, dims: ScatterDimensionNumbers) -> bool:
    """True when there is one index for each element of the batch, so that none repeats."""
    others = [n for i, n in enumerate(indices.shape[:-1]) if i not in dims.scatter_indices_batching_dims]
    return all(n == 1 for n in others)


def _last_writers_tangent(
    indices: Any, updates: ShapedArray, x_dot: Any, u_dot: Any, params: dict[str, Any]
) -> Any:
    """Tangent of writing with indices that may repeat: only updates that stay count.

    The numbers of the updates, from 1, are written the same way; an update stays where its own number is
    found.
    """
    operand = x_dot.aval if type(x_dot) is Zero else aval_of(x_dot)
    numbers = _numbered(aval_of(indices).shape[:-1], updates.shape, params["dimension_numbers"])
    writers = scatter_p.bind(full(operand.shape, 0, _INT32), indices, numbers, **params)
    zero = scalar_like(0, operand.dtype)
    kept = x_dot if type(x_dot) is Zero else where(eq(writers, 0), x_dot, zero)
    if type(u_dot) is Zero:
        return kept
    stays = eq(read_back(writers, indices, updates.shape, params), numbers)
    return scatter_add_p.bind(instantiate(kept), indices, where(stays, u_dot, zero), **params)


def _numbered(batch: tuple[int, ...], shape: tuple[int, ...], dims: ScatterDimensionNumbers) -> Any:
    """1, 2, ... in the shape of the updates: one number for each window."""
    numbers = add(reshape(iota(_INT32, (math.prod(batch),), 0), batch), 1)
    return broadcast_in_dim(
        numbers, shape, tuple(i for i in range(len(shape)) if i not in dims.update_window_dims)
    )


class ScatterAdd(Scatter):
    """`operand[i] += updates` (or `-=`): linear in both together."""

    def __init__(self, name: str, hlo: str, ufunc: Callable[..., Any], share: Callable[[Any], Any]):
        super().__init__(name, hlo, ufunc, "iufc")
        self.share = share  # cotangent of an element of the result to that of an update

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out = self.bind(*primals, **params)
        x_dot, _, u_dot = tangents
        if type(u_dot) is Zero:
            return out, x_dot
        return out, self.bind(instantiate(x_dot), primals[1], u_dot, **params)

    def transpose(self, ct: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
        ct_u = self.share(read_back(ct, indices, updates.aval.shape, params)) if is_undef(updates) else None
        return [ct if is_undef(operand) else None, None, ct_u]


class ScatterMul(Scatter):
    """`operand[i] *= updates`."""

    linear = False

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        operand, indices, updates = primals
        out = self.bind(*primals, **params)
        x_dot, _, u_dot = tangents
        share: Any = Zero(aval_of(out).tangent())
        if type(x_dot) is not Zero:
            share = self.bind(x_dot, indices, updates, **params)
        if type(u_dot) is Zero:
            return out, share
        if not (params["unique_indices"] or _writes_once(aval_of(indices), params["dimension_numbers"])):
            raise MissingRuleError(
                message(
                    f"{self.name} has no derivative by its updates where indices may repeat.",
                    f"operand: {aval_of(operand)}, updates: {aval_of(updates)}",
                    fix="Pass unique_indices=True if no index repeats, or hold the updates constant.",
                )
            )
        spread = scatter_add_p.bind(zeros(aval_of(operand).tangent()), indices, u_dot, **params)
        return out, add_tangents(share, mul(operand, spread))

    def transpose(self, ct: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
        return [self.bind(ct, indices, updates, **params), None, None]


class ScatterExtremum(Scatter):
    """`operand[i] = min(operand[i], updates)`, or max."""

    linear = False
    holes = {"transpose": "the operation is not linear"}
    transpose = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, name: str, hlo: str, ufunc: Callable[..., Any], of_two: Elementwise):
        super().__init__(name, hlo, ufunc, "biufc")
        self.of_two = of_two  # the extremum of an element and an update

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        """The tangents of all that attain the extremum, averaged."""
        operand, indices, updates = primals
        x_dot, _, u_dot = tangents
        if type(x_dot) is Zero and type(u_dot) is Zero:
            out = self.bind(*primals, **params)
            return out, Zero(aval_of(out).tangent())
        operand, updates = computed_once(operand, updates)
        promised = params["unique_indices"] and params["mode"] is not CLIP  # which may move two to one place
        if promised or _writes_once(aval_of(indices), params["dimension_numbers"]):
            return self._jvp_of_one(operand, indices, updates, x_dot, u_dot, params)
        out = self.bind(operand, indices, updates, **params)
        shape, dtype = aval_of(updates).shape, aval_of(out).dtype
        zero, one = scalar_like(0, dtype), scalar_like(1, dtype)
        target = read_back(out, indices, shape, params)
        x_wins, u_wins = eq(operand, out), eq(updates, target)

        def total(x: Any, u: Any) -> Any:
            return scatter_add_p.bind(x, indices, u, **params)

        # Updates of a place that holds NaN are counted, although none attains it: where the count is 0 there was no
        # update, and a NaN of the operand keeps its tangent.
        is_counted = or_(u_wins, ne(target, target))
        count = total(where(x_wins, one, zero), where(is_counted, one, zero))
        x_wins = or_(x_wins, eq(count, zero))
        shares = total(where(x_wins, instantiate(x_dot), zero), where(u_wins, instantiate(u_dot), zero))
        return out, div(shares, max_(count, one))

    def _jvp_of_one(
        self, operand: Any, indices: Any, updates: Any, x_dot: Any, u_dot: Any, params: dict[str, Any]
    ) -> tuple[Any, Any]:
        """`jvp` where no element meets two updates: only the windows are read, and written back."""

        def read(x: Any) -> Any:
            return read_back(x, indices, aval_of(updates).shape, params)

        window_dot = Zero(aval_of(updates).tangent()) if type(x_dot) is Zero else read(x_dot)
        _, new_dot = self.of_two.jvp((read(operand), updates), (window_dot, u_dot))
        out = self.bind(operand, indices, updates, **params)
        return out, scatter_p.bind(instantiate(x_dot), indices, instantiate(new_dot), **params)


gather_p = Gather("gather")
scatter_p = Scatter("scatter", None, None, "biufc0x")
scatter_add_p = ScatterAdd("scatter_add", "add", np.add, lambda ct: ct)
scatter_sub_p = ScatterAdd("scatter_sub", "subtract", np.subtract, neg)
scatter_mul_p = ScatterMul("scatter_mul", "multiply", np.multiply, "iufc")
scatter_min_p = ScatterExtremum("scatter_min", "minimum", np.minimum, min_)
scatter_max_p = ScatterExtremum("scatter_max", "maximum", np.maximum, max_)
