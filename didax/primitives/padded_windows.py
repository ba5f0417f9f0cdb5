"""The `padded` rules for parts of arrays: slices, pads, joins, gathers, scatters, windows, convolutions.

    x[i:]   of a real length n    elements i, i + 1, ... of the padded axis; the first n - i of them count

Where the parameters of an equation are plain numbers, the padded equation has the same numbers; where they depend on a
size, the program computes them. A position is out of range if it is beyond the real length. It is moved or dropped, as
the equation says, before the padded operation sees it.
Read first: `padded.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.dims import Size, is_symbolic
from didax.passes.buckets import PaddedEqn


def sliced(self: Any, eqn: PaddedEqn, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    """Slice one axis after the other."""
    steps = strides or (1,) * len(start_indices)
    for axis, (start, step, n) in enumerate(zip(start_indices, steps, eqn.out_shape, strict=True)):
        x = _taken(eqn, x, axis, start, step, n)
    return x


def _taken(eqn: PaddedEqn, x: Any, axis: int, start: Size, step: int, count: int) -> Any:
    """`count` elements from a real position on, `step` apart."""
    x = eqn.window(x, axis, start, max((count - 1) * step + 1, 0))
    return x if step == 1 else eqn.fit(x, axis, count, step)


def split(self: Any, eqn: PaddedEqn, x: Any, *, sizes: Sequence[Size], axis: int) -> list[Any]:
    """Each part starts where the parts before it really end."""
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [_taken(eqn, x, axis, start, 1, eqn.most(n)) for start, n in zip(starts, sizes, strict=True)]


def reversed_(self: Any, eqn: PaddedEqn, x: Any, *, dimensions: Sequence[int]) -> Any:
    """The last real element comes first."""
    for axis in dimensions:
        x = eqn.flip(x, axis, eqn.avals[0].shape[axis])
    return x


def concatenated(self: Any, eqn: PaddedEqn, *xs: Any, dimension: int) -> Any:
    """Each part is written where the one before it really ends, over what lies beyond that."""
    sizes = [aval.shape[dimension] for aval in eqn.avals]
    lengths = [eqn.most(n) for n in sizes]
    if not any(map(is_symbolic, sizes[:-1])):
        return eqn.fit(self.bind(*xs, dimension=dimension), dimension, eqn.out_shape[dimension])
    out = eqn.fit(xs[0], dimension, sum(lengths))
    for i, x in enumerate(xs[1:], 1):
        out = eqn.insert(out, x, dimension, sum(sizes[:i]))
    return eqn.fit(out, dimension, eqn.out_shape[dimension])


def padded(self: Any, eqn: PaddedEqn, x: Any, value: Any, *, padding_config: Any) -> Any:
    """Elements beyond the real lengths become the padding value, so the result may have more of it at its end."""
    if any(is_symbolic(interior) for _, _, interior in padding_config):
        raise eqn.refuse("spreads elements by a length")
    aval, config, starts = eqn.avals[0], list[tuple[int, int, int]](), dict[int, Size]()
    x = eqn.real(x, aval, [i for i, entry in enumerate(padding_config) if entry != (0, 0, 0)], value)
    for axis, (low, _, interior) in enumerate(padding_config):
        first, total = low, eqn.out_shape[axis]
        if is_symbolic(low):  # as much as there may be; some of it is left out again
            first = eqn.most(low)
            starts[axis] = first - low
            total += eqn.most(first - low)
        n = eqn.most(aval.shape[axis])
        config.append((first, total - first - max(n + (n - 1) * interior, 0), interior))
    x = self.bind(x, value, padding_config=tuple(config))
    for axis, start in starts.items():
        x = eqn.window(x, axis, start, eqn.out_shape[axis])
    return x


def dynamic_slice(self: Any, eqn: PaddedEqn, x: Any, *starts: Any, slice_sizes: Sequence[Size]) -> Any:
    """The start is moved so that the window ends within the real lengths."""
    aval = eqn.avals[0]
    starts = eqn.clamp(starts, [n - size for n, size in zip(aval.shape, slice_sizes, strict=True)])
    x, sizes = _with_room(eqn, x, aval.shape, slice_sizes), eqn.out_shape
    return self.bind(x, *starts, slice_sizes=sizes)


def _with_room(eqn: PaddedEqn, x: Any, shape: Sequence[Size], sizes: Sequence[Size]) -> Any:
    """`x`, longer where a window of a symbolic size may stick out of it, although its real part does not."""
    for axis, (n, size) in enumerate(zip(shape, sizes, strict=True)):
        if is_symbolic(size) and size != n:
            x = eqn.fit(x, axis, eqn.most(n) + eqn.most(size))
    return x


def dynamic_update_slice(self: Any, eqn: PaddedEqn, x: Any, update: Any, *starts: Any) -> Any:
    """Beyond its real length the update is what is there."""
    aval, part = eqn.avals[:2]
    starts = eqn.clamp(starts, [n - size for n, size in zip(aval.shape, part.shape, strict=True)])
    wide = _with_room(eqn, x, aval.shape, part.shape)
    axes = [i for i, n in enumerate(part.shape) if is_symbolic(n) and n != aval.shape[i]]
    if axes:
        there = eqn.slice_at(wide, starts, eqn.shape(part.shape))
        update = eqn.select(eqn.within(part.shape, axes), update, there)
    out = self.bind(wide, update, *starts)
    for axis, n in enumerate(eqn.out_shape):
        out = eqn.fit(out, axis, n)
    return out


# --- Positions that are data --------------------------------------------------------------------------------


def gathered(
    self: Any, eqn: PaddedEqn, x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Sequence[Size],
    mode: Any, **flags: Any,
) -> Any:  # fmt: skip
    """Positions are compared with real lengths. Those that are themselves padding read any element."""
    aval, sizes = eqn.avals[0], eqn.shape(slice_sizes)
    for axis, (size, n) in enumerate(zip(slice_sizes, aval.shape, strict=True)):
        if is_symbolic(size) and size != n:
            raise eqn.refuse("reads windows of such a length", f"window: {tuple(slice_sizes)}, axis {axis}")
    if mode.name != "PROMISE_IN_BOUNDS":
        indices = _in_bounds(eqn, indices, dimension_numbers.start_index_map, aval.shape, slice_sizes, mode)
    flags = {**flags, "indices_are_sorted": False, "unique_indices": False}
    return self.bind(x, indices, dimension_numbers=dimension_numbers, slice_sizes=sizes, mode=mode, **flags)


def _in_bounds(
    eqn: PaddedEqn, indices: Any, axes: Sequence[int], shape: Sequence[Size], sizes: Sequence[Size], mode: Any
) -> Any:
    """Index vectors for padded axes: moved inside the real lengths, or out of the padded ones."""
    if not any(is_symbolic(shape[axis]) for axis in axes):
        return indices
    bounds = [shape[axis] - sizes[axis] for axis in axes]
    if mode.name == "CLIP":
        return eqn.clamp_all(indices, bounds)
    return eqn.below(indices, bounds, [eqn.most(shape[axis]) for axis in axes])


def scattered(
    self: Any, eqn: PaddedEqn, x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, mode: Any, **flags: Any
) -> Any:  # fmt: skip
    """Updates beyond the real lengths get positions at which nothing is written."""
    aval, positions, part = eqn.avals
    dims = dimension_numbers
    left_out = {*dims.inserted_window_dims, *dims.operand_batching_dims}
    window = iter([part.shape[i] for i in dims.update_window_dims])
    sizes = [1 if axis in left_out else next(window) for axis in range(aval.ndim)]
    for axis, (size, n) in enumerate(zip(sizes, aval.shape, strict=True)):
        if is_symbolic(size) and size != n:
            raise eqn.refuse("writes windows of such a length", f"window: {tuple(sizes)}, axis {axis}")
    axes = dims.scatter_dims_to_operand_dims
    batch = [i for i, n in enumerate(positions.shape[:-1]) if is_symbolic(n)]
    indices = _in_bounds(eqn, indices, axes, aval.shape, sizes, mode)
    drops = type(mode).FILL_OR_DROP
    if batch:
        if not axes:
            raise eqn.refuse("writes all of them to one place")
        if mode.name == "CLIP":  # what is dropped from here on is only what lies beyond
            indices = eqn.clamp_all(indices, [aval.shape[axis] - sizes[axis] for axis in axes])
        outside = [eqn.most(aval.shape[axis]) for axis in axes]
        indices = eqn.moved_out(indices, positions, batch, outside)
        flags, mode = {**flags, "indices_are_sorted": False, "unique_indices": False}, drops
    elif any(is_symbolic(aval.shape[axis]) for axis in axes):
        flags, mode = {**flags, "indices_are_sorted": False}, drops
    return self.bind(x, indices, updates, dimension_numbers=dims, mode=mode, **flags)


# --- Windows ------------------------------------------------------------------------------------------------


def window_reduced(self: Any, eqn: PaddedEqn, x: Any, **params: Any) -> Any:
    """Over the identity beyond the real length; the padding after the axis makes as many windows as there may be."""
    aval = eqn.avals[0]
    axes = [i for i, n in enumerate(aval.shape) if is_symbolic(n)]
    if any(map(is_symbolic, params["window_dimensions"])):
        raise eqn.refuse("has windows of such a length")
    padding = list(params["padding"])
    for i, n in enumerate(aval.shape):
        reach = (params["window_dimensions"][i] - 1) * params["window_dilation"][i] + 1
        spread = params["base_dilation"][i]
        padding[i] = _padding(
            eqn, n, padding[i], spread, reach, params["window_strides"][i], eqn.out_shape[i]
        )
    x = eqn.real(x, aval, axes, self.identity(aval.dtype))
    return self.bind(x, **{**params, "padding": tuple(padding)})


def _padding(
    eqn: PaddedEqn, n: Size, padding: tuple[Size, Size], spread: int, reach: int, stride: int, count: int
) -> tuple[int, int]:
    """Padding of a padded axis, for as many windows as the result has."""
    low, high = padding
    if not is_symbolic(n) and not is_symbolic(high) and not is_symbolic(low):
        return low, high
    if is_symbolic(low):
        raise eqn.refuse("begins at a place that depends on it", f"padding: {padding}")
    length = eqn.most(n)
    dilated = (length - 1) * spread + 1 if length else 0
    return low, (count - 1) * stride + reach - dilated - low


def convolved(
    self: Any, eqn: PaddedEqn, lhs: Any, rhs: Any, *, padding: Any, dimension_numbers: Any, **params: Any
) -> Any:
    """Over zeros beyond the real length of the left side; the windows have a plain size."""
    (left, right), numbers = eqn.avals, dimension_numbers
    groups = params["feature_group_count"], params["batch_group_count"]
    spatial = [right.shape[i] for i in numbers.rhs_spec[2:]]
    if any(map(is_symbolic, spatial)):
        raise eqn.refuse("has windows of such a length", f"windows: {right}")
    grouped = (
        left.shape[numbers.lhs_spec[0]],
        left.shape[numbers.lhs_spec[1]],
        right.shape[numbers.rhs_spec[0]],
    )
    if groups != (1, 1) and any(map(is_symbolic, grouped)):
        raise eqn.refuse("groups them", f"feature_group_count, batch_group_count: {groups}")
    lhs = eqn.real(lhs, left, numbers.lhs_spec[1:], 0)
    rhs = eqn.real(rhs, right, numbers.rhs_spec[1:2], 0)
    sides: list[tuple[int, int]] = []
    for k, i in enumerate(numbers.lhs_spec[2:]):
        reach = (spatial[k] - 1) * params["rhs_dilation"][k] + 1
        count = eqn.out_shape[numbers.out_spec[2 + k]]
        stride, spread = params["window_strides"][k], params["lhs_dilation"][k]
        sides.append(_padding(eqn, left.shape[i], padding[k], spread, reach, stride, count))
    return self.bind(lhs, rhs, padding=tuple(sides), dimension_numbers=numbers, **params)
