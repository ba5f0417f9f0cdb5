"""How results are split over explicit mesh axes: the `sharding` rules that primitives share.

A rule gets the result's type (or the list of them) and the operands' types, and says for each axis of the result over
which mesh axes it is split. It never communicates: where the operands do not say how the result is split, or where it
would take an exchange between devices to compute it so, the rule refuses, and the user says what is wanted.
Read next: `core/device_types.py`, which asks for these rules; `sharding.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from didax.core.avals import ShapedArray
from didax.core.device_types import Names, Split, ambiguous, split_of

Type = ShapedArray


def joined(name: str, avals: Sequence[Type], splits: Sequence[Split]) -> Split:
    """The split of operands that are walked together: where one is not split, as the others are."""
    found: list[Names] = []
    for axis, entries in enumerate(zip(*splits, strict=True)):
        different = {names for names in entries if names}
        if len(different) > 1:
            raise ambiguous(
                name,
                avals,
                f"{name} takes operands that are split alike over explicit mesh axes.",
                f"axis {axis}: split over {' and over '.join(sorted(map(str, different)))}",
            )
        found.append(different.pop() if different else ())
    return tuple(found)


def elementwise(primitive: Any, out: Type, *avals: Type, **_: Any) -> Split:
    """The result is split as the operands are; scalars go with any split."""
    wide = [a for a in avals if a.ndim == out.ndim]
    return joined(primitive.name, avals, [split_of(a) for a in wide])


def kept(primitive: Any, out: Type, x: Type, *others: Type, **_: Any) -> Split:
    """The result is split as the first operand is."""
    return split_of(x)


def each_kept(primitive: Any, outs: Sequence[Type], *avals: Type, **_: Any) -> list[Split]:
    """Each result is split as its operand is."""
    return [split_of(a) for a in avals]


def no_results(primitive: Any, outs: Sequence[Type], *avals: Type, **_: Any) -> list[Split]:
    """A primitive without results has no splits."""
    return []


def reduced(primitive: Any, out: Type, x: Type, *, axes: Sequence[int], **_: Any) -> Split:
    """The split of the axes that are left."""
    return tuple(names for i, names in enumerate(split_of(x)) if i not in axes)


def broadcast(primitive: Any, out: Type, x: Type, *, broadcast_dimensions: Sequence[int], **_: Any) -> Split:
    """New axes are not split."""
    found: list[Names] = [()] * out.ndim
    for names, n, axis in zip(split_of(x), x.shape, broadcast_dimensions, strict=True):
        found[axis] = names if n == out.shape[axis] else ()
    return tuple(found)


def permuted(primitive: Any, out: Type, x: Type, *, permutation: Sequence[int]) -> Split:
    """Axes keep their splits where they go."""
    split = split_of(x)
    return tuple(split[i] for i in permutation)


def resized(primitive: Any, out: Type, x: Type, *others: Type, **_: Any) -> Split:
    """An axis that changes its length stays split where the new length can be cut into as many parts."""
    if out.shape != x.shape:
        for axis, (n, names) in enumerate(zip(out.shape, split_of(x), strict=True)):
            count = parts(x, names)
            if n != x.shape[axis] and n % count:
                raise ambiguous(
                    primitive.name, (x, *others),
                    f"{primitive.name} keeps a split axis split, in equal parts.",
                    f"axis {axis} of the result has length {n}; parts: {count}; {n} % {count} = {n % count}",
                )  # fmt: skip
    return split_of(x)


def each_resized(primitive: Any, outs: Sequence[Type], x: Type, **_: Any) -> list[Split]:
    """`resized` for each of several results."""
    return [resized(primitive, out, x) for out in outs]


def parts(x: Type, names: Names) -> int:
    """Into how many parts these mesh axes cut an axis."""
    return math.prod(x.layout.mesh.shape[name] for name in names) if names else 1


def concatenated(primitive: Any, out: Type, *xs: Type, **_: Any) -> Split:
    """All operands are split alike."""
    splits = {split_of(x) for x in xs if x.size} or {split_of(xs[0])}
    if len(splits) > 1:
        raise ambiguous(primitive.name, xs, f"{primitive.name} joins arrays that are split alike.")
    return splits.pop()


def updated(primitive: Any, out: Type, x: Type, update: Type, *starts: Type) -> Split:
    """The array and the part of it that is written are split alike."""
    if split_of(x) != split_of(update):
        rule = f"{primitive.name} writes a part that is split as the array is."
        raise ambiguous(primitive.name, (x, update), rule)
    return split_of(x)


def along_whole_axes(axes: Callable[..., Sequence[int]]) -> Callable[..., Any]:
    """The rule of a primitive that works along `axes(x, **params)`, which must not be split; the others are kept."""

    def rule(primitive: Any, out: Any, *avals: Type, **params: Any) -> Any:
        split = joined(primitive.name, avals, [split_of(a) for a in avals])
        for axis in axes(avals[0], **params):
            if split[axis]:
                rule_, fact = f"{primitive.name} works along axes that are not split.", f"axis: {axis}"
                raise ambiguous(primitive.name, avals, rule_, fact)
        outs: Sequence[Type] = out if primitive.multiple_results else [out]
        found: list[Split] = []
        for y in outs:  # axes beside those of the operands are new ones, of a matrix
            found.append((*split[: y.ndim], *[()] * (y.ndim - len(split))))
        return found if primitive.multiple_results else found[0]

    return rule


def reshaped(primitive: Any, out: Type, x: Type, *, new_sizes: Sequence[int]) -> Split:
    """The split, where axes that are merged, or that an axis falls into, are split along the first of them."""
    found: list[Names] = [()] * out.ndim
    split = split_of(x)
    for before, after in _groups(x.shape, tuple(new_sizes)):
        names = [split[i] for i in before]
        if not any(names):
            continue
        leading = [entry for entry in names if entry]
        fits = len(before) == 1 or len(after) == 1
        if len(before) > 1:
            fits = fits and names[: len(leading)] == leading
        together = tuple(name for entry in leading for name in entry)
        entries = _divided(x, together, [out.shape[i] for i in after]) if fits else None
        if entries is None:
            raise ambiguous(
                primitive.name, (x,),
                "reshape merges and divides axes that are split along the first of them, in equal parts.",
                f"new shape: {tuple(new_sizes)}",
            )  # fmt: skip
        for i, entry in zip(after, entries, strict=True):
            found[i] = entry
    return tuple(found)


def _divided(x: Type, names: Names, lengths: Sequence[int]) -> list[Names] | None:
    """How the axes that an axis is divided into are split, each as a whole before the next; None where they cannot."""
    found: list[Names] = [()] * len(lengths)
    i = 0
    for name in names:
        while i < len(lengths) and parts(x, found[i]) == lengths[i]:
            i += 1
        if i == len(lengths) or lengths[i] % parts(x, (*found[i], name)):
            return None
        found[i] = (*found[i], name)
    return found


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Axes of the old and of the new shape that hold the same elements; axes of length 1 are left out."""
    before = [i for i, n in enumerate(old) if n != 1]
    after = [i for i, n in enumerate(new) if n != 1]
    if [old[i] for i in before] == [new[i] for i in after]:
        return [([i], [j]) for i, j in zip(before, after, strict=True)]
    if 0 in old:
        return [(before, after)] if before and after else []
    groups: list[tuple[list[int], list[int]]] = []
    while before:
        mine, theirs = [before.pop(0)], [after.pop(0)]
        m, n = old[mine[0]], new[theirs[0]]
        while m != n:
            if m < n:
                mine.append(before.pop(0))
                m *= old[mine[-1]]
            else:
                theirs.append(after.pop(0))
                n *= new[theirs[-1]]
        groups.append((mine, theirs))
    return groups


def contracted(primitive: Any, out: Type, x: Type, y: Type, *, dimension_numbers: Any, **_: Any) -> Split:
    """Of a product: batch axes, then the free axes of both. Axes that are summed over must not be split in both."""
    (x_sum, y_sum), (x_batch, y_batch) = dimension_numbers
    xs, ys = split_of(x), split_of(y)
    summed = [(xs[i], ys[j]) for i, j in zip(x_sum, y_sum, strict=True)]
    if any(a and b and a != b for a, b in summed):
        rule = f"{primitive.name} sums over axes that are split alike."
        raise ambiguous(primitive.name, (x, y), rule, f"summed axes: split over {summed}")
    if any(a and b for a, b in summed):
        rule = "Where both operands are split along axes that are summed over, the result may be split in several ways."
        raise ambiguous(primitive.name, (x, y), rule, f"summed axes: split over {summed}")
    batch = joined(primitive.name, (x, y), [[xs[i] for i in x_batch], [ys[i] for i in y_batch]])  # type: ignore[list-item]
    free = [
        [names for i, names in enumerate(split) if i not in (*gone, *with_batch)]
        for split, gone, with_batch in ((xs, x_sum, x_batch), (ys, y_sum, y_batch))
    ]
    return (*batch, *free[0], *free[1])


def convolved(
    primitive: Any,
    out: Type,
    lhs: Type,
    rhs: Type,
    *,
    dimension_numbers: Any,
    batch_group_count: int,
    **_: Any,
) -> Split:
    """The examples and the places in space as they are split; what is summed over, and the filters, are not split."""
    split, (batch, feature, *space) = split_of(lhs), dimension_numbers.lhs_spec
    if any(split_of(rhs)) or split[feature] or (batch_group_count > 1 and split[batch]):
        rule = f"{primitive.name} takes filters, features and groups of examples that are not split."
        raise ambiguous(primitive.name, (lhs, rhs), rule)
    found: list[Names] = [()] * out.ndim
    for i, j in zip(
        (batch, *space), (dimension_numbers.out_spec[0], *dimension_numbers.out_spec[2:]), strict=True
    ):
        if out.shape[j] % (count := parts(lhs, split[i])):
            rule = f"{primitive.name} keeps a split axis split, in equal parts."
            raise ambiguous(
                primitive.name,
                (lhs, rhs),
                rule,
                f"axis {j} of the result has length {out.shape[j]}; parts: {count}",
            )
        found[j] = split[i]
    return tuple(found)


def gathered(
    primitive: Any, out: Type, x: Type, indices: Type, *, dimension_numbers: Any, slice_sizes: Any, **_: Any
) -> Split:
    """Of what is looked up in axes that are not split: windows are split as the operand is."""
    dims, split = dimension_numbers, split_of(x)
    looked_up = {*dims.start_index_map, *dims.collapsed_slice_dims}
    cut = [i for i, n in enumerate(slice_sizes) if n != x.shape[i] and i not in dims.operand_batching_dims]
    if any(split[i] for i in {*looked_up, *cut}):
        rule = "A gather looks up in axes that are not split."
        raise ambiguous(primitive.name, (x, indices), rule, f"axes: {sorted({*looked_up, *cut})}")
    window = iter(
        [
            names
            for i, names in enumerate(split)
            if i not in dims.collapsed_slice_dims and i not in dims.operand_batching_dims
        ]
    )
    places = list(split_of(indices)[:-1])
    for i, j in zip(dims.start_indices_batching_dims, dims.operand_batching_dims, strict=True):
        if places[i] and split[j] and places[i] != split[j]:
            raise ambiguous(
                primitive.name, (x, indices), "A gather walks together through axes that are split alike."
            )
        places[i] = places[i] or split[j]
    rest = iter(places)
    return tuple(next(window if i in dims.offset_dims else rest) for i in range(out.ndim))


def scattered(
    primitive: Any, out: Type, x: Type, indices: Type, updates: Type, *, dimension_numbers: Any, **_: Any
) -> Split:
    """As the array that is written to is split, which is not along the axes that indices refer to."""
    dims, split = dimension_numbers, split_of(x)
    axes = sorted({*dims.inserted_window_dims, *dims.scatter_dims_to_operand_dims})
    if any(split[i] for i in axes):
        rule = "A scatter writes to places in axes that are not split."
        raise ambiguous(primitive.name, (x, indices, updates), rule, f"axes: {axes}")
    return split


def with_last_axes(primitive: Any, out: Type, x: Type, *others: Type, **_: Any) -> Split:
    """Axes at the end come or go; those that go are not split."""
    split = split_of(x)
    if any(split[out.ndim :]):
        rule = f"{primitive.name} works along axes that are not split."
        raise ambiguous(primitive.name, (x, *others), rule, f"axes: from {out.ndim} on")
    return (*split[: out.ndim], *[()] * (out.ndim - len(split)))
