"""Which operands of a loop are which: masks, which say it one by one, and layouts, which say it by number.

Transformations describe operands and results by masks: one bool for each, true where it is linear, batched, unknown
or needed. A loop gives each part of its carry the same mask before and after the body, which `fixpoint` finds.

A loop takes its operands in parts, one after another: constants, the carry, the arrays it goes along. Its parameters
say how many operands each part has. A `Layout` reads these parameters, splits operands (or masks, types, tangents of
them) into parts, and joins parts again:

    consts, carry, xs = BodyLayout.of(params).split(operands)
    operands, sizes = BodyLayout.join(consts, carry, xs)

Read next: `scan.py`, whose rules are written with these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self

from didax.core.array_ops import Zero, instantiate

Mask = tuple[bool, ...]
# One for each operand, or each result: arrays, tangents, cotangents, operands of a lowering.
Values = Sequence[Any]
Pair = tuple[list[Any], list[Any]]  # two such lists, as the results and their tangents


# --- Masks ----------------------------------------------------------------------------------------


def where_true(values: Iterable[Any], mask: Sequence[bool]) -> list[Any]:
    """The values at which the mask is true."""
    return [x for x, m in zip(values, mask, strict=True) if m]


def where_false(values: Iterable[Any], mask: Sequence[bool]) -> list[Any]:
    """The values at which the mask is false."""
    return [x for x, m in zip(values, mask, strict=True) if not m]


def merge(mask: Sequence[bool], on_true: Values, on_false: Values) -> list[Any]:
    """The inverse of `where_true` and `where_false`: their values in one list."""
    given = {True: iter(on_true), False: iter(on_false)}
    return [next(given[bool(m)]) for m in mask]


def union(*masks: Sequence[bool]) -> Mask:
    """The mask that is true where any of these is."""
    return tuple(any(column) for column in zip(*masks, strict=True))


def all_false(count: int) -> Mask:
    """The mask of so many values that is true nowhere."""
    return (False,) * count


def fixpoint(mask: Mask, step: Callable[[Mask], Sequence[bool]]) -> Mask:
    """The least mask of a carry that contains `mask`, and that `step` (what the body makes of a mask) keeps."""
    while (grown := union(mask, step(mask))) != mask:
        mask = grown
    return mask


def nonzero(tangents: Values) -> Mask:
    """Which tangents are more than symbolic zeros."""
    return tuple(type(t) is not Zero for t in tangents)


def nonzero_only(tangents: Values) -> list[Any]:
    """The tangents that are more than symbolic zeros."""
    return [t for t in tangents if type(t) is not Zero]


def instantiated(tangents: Values, mask: Sequence[bool]) -> list[Any]:
    """The tangents at which the mask is true, symbolic zeros among them as arrays of zeros."""
    return [instantiate(t) for t in where_true(tangents, mask)]


# --- Layouts --------------------------------------------------------------------------------------


def split_at(values: Values, *sizes: int) -> list[Any]:
    """Consecutive parts of these sizes, and a last part of all that is left."""
    parts: list[Any] = []
    start = 0
    for size in sizes:
        parts.append(values[start : start + size])
        start += size
    return [*parts, values[start:]]


class Layout(tuple[int, ...]):
    """How many operands each part has, in order; the last part, which is not counted, has all that are left."""

    __slots__ = ()
    parameters: ClassVar[tuple[str, ...]]  # the names of the primitive's parameters that hold the numbers

    @classmethod
    def of(cls, params: dict[str, Any]) -> Self:
        """The layout that parameters of the primitive state."""
        return cls([params[name] for name in cls.parameters])

    @classmethod
    def join(cls, *parts: Values) -> tuple[list[Any], dict[str, int]]:
        """The operands in order, and the parameters that state how they are laid out."""
        return [x for part in parts for x in part], dict(zip(cls.parameters, map(len, parts), strict=False))

    def split(self, values: Values) -> list[Any]:
        """The parts of the operands, or of anything that has one entry for each operand."""
        return split_at(values, *self)

    def split_by(self, mask: Mask, values: Values) -> tuple[list[list[Any]], list[list[Any]]]:
        """The parts of the values at which the mask is false, and the parts of the values at which it is true."""
        pairs = list(zip(self.split(values), self.split(mask), strict=True))
        return [where_false(*pair) for pair in pairs], [where_true(*pair) for pair in pairs]


class BodyLayout(Layout):
    """Constants, the carry, xs: of a scan, and of every loop's body, which is given a row of each of the xs.

    Results are the carry, then the ys. A scan returns the ys whole; its body returns a row of each.
    """

    __slots__ = ()
    parameters = ("num_consts", "num_carry")

    @property
    def num_consts(self) -> int:
        return self[0]

    @property
    def num_carry(self) -> int:
        return self[1]

    def split_results(self, results: Values) -> list[Any]:
        """The carry and the ys."""
        return split_at(results, self.num_carry)

    @classmethod
    def of_while(cls, params: dict[str, Any]) -> Self:
        """The layout of the body of a while loop, by the loop's parameters."""
        return cls((params["body_nconsts"], len(params["body_jaxpr"].outvars)))


class WhileLayout(Layout):
    """Constants of the condition, constants of the body, the carry: of a while loop."""

    __slots__ = ()
    parameters = ("cond_nconsts", "body_nconsts")
