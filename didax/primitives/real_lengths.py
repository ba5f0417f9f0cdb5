"""The operations that `padded` rules are written with: on arrays of padded lengths, by their real lengths.

    x of the padded length 8, real length n = 5:      x0 x1 x2 x3 x4  ?  ?  ?
    real(x, ..., fill=0)                              x0 x1 x2 x3 x4  0  0  0
    window(x, start=n - 2, length=2)                  x3 x4
    flip(x, n)                                        x4 x3 x2 x1 x0  ?  ?  ?

Sizes are ints or symbolic (`core/dims.py`); symbolic ones become int32 scalars that the program computes from the real
sizes that it gets. Read first: `didax/passes/buckets.py`, which declares them, and `padded.py`, the rules.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import LONGEST, Dim, Factor, Size, bounds, is_symbolic
from didax.core.errors import message
from didax.core.given import give
from didax.core.jaxpr import Jaxpr
from didax.passes.buckets import PaddedEqn
from didax.primitives.control_flow.cond import cond_p
from didax.primitives.convert import bitcast_convert_type_p, convert_element_type, iota
from didax.primitives.elementwise import add, and_, div, le, lt, max_, min_, mul, ne, rem, sub
from didax.primitives.gather import gather_p
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim, reshape
from didax.primitives.slicing import (
    concatenate,
    dynamic_slice_p,
    dynamic_update_slice_p,
    pad,
    rev,
    slice_axis,
)
from didax.primitives.window_positions import GatherDimensionNumbers, GatherScatterMode

_INT32 = np.dtype(np.int32)

# --- Sizes as numbers ---------------------------------------------------------------------------------------


@give(PaddedEqn, "number")
def number(self: PaddedEqn, size: Size) -> Any:
    """The value of an expression; each is computed once."""
    if not is_symbolic(size):
        return np.int32(size)
    found = self.lengths.found
    if size not in found:
        _check_range(self, size)
        found[size] = functools.reduce(add, [_product(self, monomial, a) for monomial, a in size.terms])
    return found[size]


def _product(eqn: PaddedEqn, monomial: Any, a: int) -> Any:
    factors = [_factor(eqn, factor) for factor, power in monomial for _ in range(power)]
    return functools.reduce(mul, factors if a == 1 and factors else [np.int32(a), *factors])


def _factor(eqn: PaddedEqn, factor: Factor) -> Any:
    if not factor.args:
        return eqn.numbers[[name for name, _ in eqn.lengths.bucket].index(factor.op)]
    for arg in factor.args:
        if is_symbolic(arg):
            _check_range(eqn, arg)
    return _OPERATIONS[factor.op](*[number(eqn, arg) for arg in factor.args])


def _check_range(eqn: PaddedEqn, size: Dim) -> None:
    """OverflowError unless the size is an int32, whatever the steps on the way: these wrap."""
    low, high = bounds(eqn.lengths.smaller(size))
    if low < -LONGEST or high > LONGEST:
        rule = "Sizes of padded programs are computed in 32 bits."
        facts = f"size: {size}, from {low} to {high}", f"operation: {eqn.primitive.name}"
        raise OverflowError(message(rule, *facts, fix="Choose smaller sizes in bucket=."))


def _floor(x: Any, y: Any) -> Any:
    """The quotient rounded down; that of integers is rounded to zero."""
    quotient, rest = div(x, y), rem(x, y)
    rounded_up = and_(ne(rest, np.int32(0)), ne(lt(rest, np.int32(0)), lt(y, np.int32(0))))
    return where(rounded_up, sub(quotient, np.int32(1)), quotient)


def _modulo(x: Any, y: Any) -> Any:
    return sub(x, mul(_floor(x, y), y))


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": _floor, "mod": _modulo, "max": max_, "min": min_,
}  # fmt: skip


@give(PaddedEqn, "as_number")
def as_number(self: PaddedEqn, number: Any, aval: ShapedArray) -> Any:
    """The number, converted to the dtype of `aval`."""
    return convert_element_type(number, aval.dtype, aval.weak_type)


# --- Masks --------------------------------------------------------------------------------------------------


@give(PaddedEqn, "within")
def within(self: PaddedEqn, shape: Sequence[Size], axes: Sequence[int]) -> Any:
    """Which positions are real: one comparison for each axis, joined by `and_`."""
    padded = self.shape(shape)
    masks = [lt(iota(_INT32, padded, axis), number(self, shape[axis])) for axis in axes]
    return functools.reduce(and_, masks)


@give(PaddedEqn, "real")
def real(self: PaddedEqn, x: Any, aval: ShapedArray, axes: Sequence[int], fill: Any) -> Any:
    """A selection, or `x` itself where the lengths are plain."""
    axes = [axis for axis in axes if is_symbolic(aval.shape[axis])]
    if not axes:
        return x
    if dtypes.as_extended(aval.dtype) is not None:
        raise self.refuse("takes numbers there", f"operand: {aval}")
    if type(fill) in (int, float, complex):
        fill = bool(fill) if aval.dtype == np.bool_ else scalar_like(fill, aval.dtype)
    return where(within(self, aval.shape, axes), x, fill)


@give(PaddedEqn, "select")
def select(self: PaddedEqn, which: Any, x: Any, y: Any) -> Any:
    """`select_n`."""
    return where(which, x, y)


@give(PaddedEqn, "lowest")
def lowest(self: PaddedEqn, dtype: np.dtype[Any]) -> Any:
    """For floats all bits are ones: the NaN of x86 has a sign, too, and comes after this one."""
    if dtype == np.bool_:
        return np.False_
    if dtypes.is_integer(dtype):
        return dtype.type(dtypes.iinfo(dtype).min)
    if dtypes.is_sub_byte(dtype):
        return dtype.type(dtypes.finfo(dtype).min)
    return bitcast_convert_type_p.bind(np.array(-1, f"i{dtype.itemsize}")[()], new_dtype=dtype)


# --- Parts --------------------------------------------------------------------------------------------------


@give(PaddedEqn, "fit")
def fit(self: PaddedEqn, x: Any, axis: int, length: int, step: int = 1) -> Any:
    """Padded with zeros at the end, or cut."""
    reach = (length - 1) * step + 1 if length else 0
    missing = reach - aval_of(x).shape[axis]
    if missing > 0:
        aval = aval_of(x)
        if dtypes.as_extended(aval.dtype) is not None:
            raise self.refuse("takes numbers there", f"operand: {aval}")
        x = pad(x, aval.dtype.type(0), tuple((0, missing if i == axis else 0, 0) for i in range(aval.ndim)))
    return slice_axis(x, 0, reach, axis, step)


@give(PaddedEqn, "window")
def window(self: PaddedEqn, x: Any, axis: int, start: Size, length: int) -> Any:
    """A plain slice, or a dynamic one, which needs room up to its end: without room its start would be moved."""
    if not is_symbolic(start):
        return slice_axis(
            fit(self, x, axis, max(start + length, aval_of(x).shape[axis])), start, start + length, axis
        )
    x = fit(self, x, axis, max(self.most(start) + length, aval_of(x).shape[axis]))
    sizes = tuple(length if i == axis else n for i, n in enumerate(aval_of(x).shape))
    return slice_at(self, x, _starts(self, x, axis, start), sizes)


def _starts(eqn: PaddedEqn, x: Any, axis: int, start: Size) -> list[Any]:
    return [number(eqn, start) if i == axis else np.int32(0) for i in range(aval_of(x).ndim)]


@give(PaddedEqn, "slice_at")
def slice_at(self: PaddedEqn, x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    """`dynamic_slice`."""
    return dynamic_slice_p.bind(x, *starts, slice_sizes=tuple(sizes))


@give(PaddedEqn, "insert")
def insert(self: PaddedEqn, x: Any, part: Any, axis: int, start: Size) -> Any:
    """`dynamic_update_slice`."""
    return dynamic_update_slice_p.bind(x, part, *_starts(self, x, axis, start))


@give(PaddedEqn, "flip")
def flip(self: PaddedEqn, x: Any, axis: int, size: Size) -> Any:
    """The padded axis reversed, without the elements that are not real and come first then."""
    length = aval_of(x).shape[axis]
    return window(self, rev(x, (axis,)), axis, length - size, length)


@give(PaddedEqn, "branch")
def branch(self: PaddedEqn, holds: Any, taken: Jaxpr, skipped: Jaxpr, operands: Sequence[Any]) -> list[Any]:
    """A `cond` of the two programs."""
    return cond_p.bind(convert_element_type(holds, _INT32), *operands, branches=(skipped, taken))


# --- Positions ----------------------------------------------------------------------------------------------


@give(PaddedEqn, "clamp")
def clamp(self: PaddedEqn, starts: Sequence[Any], bounds: Sequence[Size]) -> list[Any]:
    """In a dtype that has room for sizes."""
    wide = [_wide(i) for i in starts]
    return [_clamped(i, _as(self.number(bound), i)) for i, bound in zip(wide, bounds, strict=True)]


def _clamped(indices: Any, bounds: Any) -> Any:
    return max_(min_(indices, bounds), scalar_like(0, aval_of(indices).dtype))


def _wide(indices: Any) -> Any:
    """Indices in a dtype of 32 bits at least."""
    dtype = aval_of(indices).dtype
    return (
        indices
        if dtype.itemsize >= 4 and not dtypes.is_sub_byte(dtype)
        else convert_element_type(indices, _INT32)
    )


def _as(x: Any, like: Any) -> Any:
    return convert_element_type(x, aval_of(like).dtype)


@give(PaddedEqn, "clamp_all")
def clamp_all(self: PaddedEqn, indices: Any, bounds: Sequence[Size]) -> Any:
    """Each column of the index vectors is moved between 0 and its bound."""
    indices = _wide(indices)
    return _clamped(indices, _columns(self, indices, bounds))


@give(PaddedEqn, "below")
def below(self: PaddedEqn, indices: Any, bounds: Sequence[Size], others: Sequence[int]) -> Any:
    """An index that is larger than the bound of its column becomes the column's entry of `others`."""
    indices = _wide(indices)
    fits = le(indices, _columns(self, indices, bounds))
    return where(fits, indices, _columns(self, indices, others))


@give(PaddedEqn, "moved_out")
def moved_out(
    self: PaddedEqn, indices: Any, aval: ShapedArray, axes: Sequence[int], others: Sequence[int]
) -> Any:
    """Index vectors beyond the real ones become `others` as a whole."""
    indices = _wide(indices)
    return where(within(self, aval.shape, axes), indices, _columns(self, indices, others))


def _columns(eqn: PaddedEqn, indices: Any, values: Sequence[Size]) -> Any:
    """A number for each entry of index vectors, in the shape of an array of them."""
    shape = aval_of(indices).shape
    row = concatenate([reshape(_as(number(eqn, value), indices), (1,)) for value in values], 0)
    return broadcast_in_dim(row, shape, (len(shape) - 1,))


# --- Reshape ------------------------------------------------------------------------------------------------


@give(PaddedEqn, "reshape")
def reshaped(self: PaddedEqn, x: Any, old: Sequence[Size], new: Sequence[Size]) -> Any:
    """Group by group: axes that have the same number of elements before and after.

    Elements are where they have to be where only the first axis of a group is longer than its real length; else each is
    fetched from where it is.
    """
    done: list[int] = []  # the padded shape of what is in its new shape already
    for before, after in _groups(tuple(old), tuple(new)):
        rest = aval_of(x).shape[len(done) + len(before) :]
        if not _in_place(self, before, after):
            x = _fetched(self, x, len(done), before, after)
        done += self.shape(after)
        x = reshape(x, (*done, *rest))
    return x


def _groups(old: Sequence[Size], new: Sequence[Size]) -> list[tuple[tuple[Size, ...], tuple[Size, ...]]]:
    """The shortest neighbouring parts of two shapes that have the same number of elements."""
    groups: list[tuple[tuple[Size, ...], tuple[Size, ...]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        ends = [
            (p, q)
            for p in range(i, len(old) + 1)
            for q in range(j, len(new) + 1)
            if (p, q) != (i, j) and math.prod(old[i:p]) == math.prod(new[j:q])
        ]
        p, q = min(ends, key=sum) if ends else (len(old), len(new))
        groups.append((tuple(old[i:p]), tuple(new[j:q])))
        i, j = p, q
    return groups


def _in_place(eqn: PaddedEqn, before: Sequence[Size], after: Sequence[Size]) -> bool:
    """Whether padded elements are in the order of the real ones."""
    if before == after:
        return True
    shapes = [[n for n in shape if n != 1] for shape in (before, after)]
    leading = all(not is_symbolic(n) for shape in shapes for n in shape[1:])
    return leading and math.prod(eqn.shape(before)) == math.prod(eqn.shape(after))


def _fetched(eqn: PaddedEqn, x: Any, at: int, before: Sequence[Size], after: Sequence[Size]) -> Any:
    """The elements of the axes `before`, which begin at axis `at`, as one axis in the order of padded `after`."""
    source, target = eqn.shape(before), eqn.shape(after)
    if max(math.prod(source), math.prod(target)) > LONGEST:
        raise OverflowError(
            message(
                "A reshape of padded axes counts elements in 32 bits.",
                f"shapes: {before} to {after}, padded: {source} to {target}",
                fix="Choose smaller sizes in bucket=.",
            )
        )
    place = np.int32(0)
    for axis, n in enumerate(target):  # the number of each element of the result, in row-major order
        if n != 1:
            step = number(eqn, math.prod(after[axis + 1 :]))
            place = add(mul(iota(_INT32, target, axis), step), place)
    found = np.int32(0)
    for axis, n in enumerate(source):  # and where that is in padded axes
        if n != 1:
            step = max_(number(eqn, math.prod(before[axis + 1 :])), np.int32(1))
            index = div(place, step)
            if axis:
                index = rem(index, max_(number(eqn, before[axis]), np.int32(1)))
            found = add(
                mul(min_(index, np.int32(max(n - 1, 0))), np.int32(math.prod(source[axis + 1 :]))), found
            )
    shape = aval_of(x).shape
    x = reshape(x, (*shape[:at], math.prod(source), *shape[at + len(source) :]))
    if not aval_of(found).ndim:
        found = broadcast_in_dim(found, target, ())
    return _take(x, reshape(found, (math.prod(target),)), at)


def _take(x: Any, indices: Any, axis: int) -> Any:
    """The elements along an axis at these positions, which are inside."""
    shape, count = aval_of(x).shape, aval_of(indices).shape[0]
    if 0 in (*shape, count):
        return pad(
            slice_axis(x, 0, 0, axis), aval_of(x).dtype.type(0),
            tuple((0, count if i == axis else 0, 0) for i in range(len(shape))),
        )  # fmt: skip
    offset = tuple(i for i in range(len(shape)) if i != axis)
    return gather_p.bind(
        x,
        reshape(indices, (count, 1)),
        dimension_numbers=GatherDimensionNumbers(offset, (axis,), (axis,)),
        slice_sizes=tuple(1 if i == axis else n for i, n in enumerate(shape)),
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=None,
        indices_are_sorted=False,
        unique_indices=False,
    )
