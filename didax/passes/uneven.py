"""Loops and branches with a collective, about which devices may disagree, in programs whose types do not say so.

    while pred(x): x = psum(x, "d")        where `pred` may differ along "d", the devices compare it at each step

A device that has left a loop, or that took another branch, does not come to the collective in it, and the others would
wait forever. Where types are tracked, they forbid such programs (`primitives/control_flow/varying.py`). In a
`shard_map` without tracked types, `agreeing` finds out along which manual axes each value may differ, by the `differs`
rules of the primitives. The results of a primitive without a rule differ along the axes along which an operand does.
Where the devices that a collective joins choose by a value that may differ between them, the primitive's `agree` rule
puts a comparison before the choice: all devices choose by the lowest of their values, and a check raises CheckError
unless they all have that value.
Read next: `primitives/control_flow/agreement.py`, the comparison; `primitives/shard_map.py`, who asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core.effects import NO_EFFECTS
from didax.core.jaxpr import Eqn, Jaxpr
from didax.core.primitive import require
from didax.core.rule_types import as_list
from didax.transforms.rewriting import interpret, rewritten

Axes = frozenset[str]
NOWHERE: Axes = frozenset()
Follow = Callable[[Jaxpr, Sequence[Axes]], list[Axes]]
Choose = Callable[[Axes], Axes]


def agreeing(
    jaxpr: Jaxpr, operands: Sequence[Axes], axes: Axes, compare: Callable[[Any, Axes], Any]
) -> Jaxpr:
    """The program in which devices agree before they come to a collective, or to none.

    `operands` says along which of the manual `axes` each operand may differ, and `compare(x, over)` returns the scalar
    on which the devices along axes agree.
    """
    if not _chooses(jaxpr, axes):
        return jaxpr
    search = _Search(axes)
    search.follow(jaxpr, operands)
    return _Writer(search.uneven, compare).on(jaxpr) if search.uneven else jaxpr


def differing(jaxpr: Jaxpr, operands: Sequence[Axes], axes: Axes) -> list[Axes]:
    """Along which of the axes results may differ, where operands may along these, and devices agree on choices."""
    return _Search(axes).follow(jaxpr, operands)


def _chooses(jaxpr: Jaxpr, axes: Axes) -> bool:
    """Whether a loop or branch in the program holds a collective over one of the axes."""
    return any(
        eqn.primitive.agree is not None or any(_chooses(inner, axes) for inner in eqn.jaxprs)
        for eqn in jaxpr.eqns
        if not axes.isdisjoint(eqn.primitive.named_axes(eqn.params))
    )


class _Search:
    """Along which axes values may differ; and the equations whose choice may differ along axes of their collectives."""

    def __init__(self, axes: Axes):
        self.axes = axes
        self.uneven: dict[Eqn, Axes] = {}
        self._found: dict[tuple[Jaxpr, tuple[Axes, ...]], list[Axes]] = {}

    def follow(self, jaxpr: Jaxpr, operands: Sequence[Axes]) -> list[Axes]:
        """Along which axes the results may differ, where operands may differ along these."""
        key = jaxpr, tuple(operands)
        if (found := self._found.get(key)) is None:
            found = self._found[key] = interpret(jaxpr, operands, self._results, lambda _: NOWHERE)
        return found

    def _results(self, eqn: Eqn, operands: list[Axes]) -> list[Axes]:
        def choose(axes: Axes) -> Axes:
            over = axes & eqn.primitive.named_axes(eqn.params)
            if over:
                self.uneven[eqn] = self.uneven.get(eqn, NOWHERE) | over
            return axes - over

        if eqn.primitive.differs is not None:
            found = eqn.primitive.differs(self.follow, choose, operands, **eqn.params)
            return [axes & self.axes for axes in found]
        joined = NOWHERE.union(*operands)
        for inner in eqn.jaxprs:
            joined = joined.union(*self.follow(inner, [joined] * len(inner.invars)))
        if eqn.effects is not NO_EFFECTS:  # what an effect returns may be another value on each device
            joined = self.axes
        return [joined] * len(eqn.outvars)


class _Writer:
    """Writes programs anew, with a comparison before each uneven choice."""

    def __init__(self, uneven: dict[Eqn, Axes], compare: Callable[[Any, Axes], Any]):
        self.uneven = uneven
        self.compare = compare
        self._written: dict[Jaxpr, Jaxpr] = {}

    def on(self, jaxpr: Jaxpr) -> Jaxpr:
        """The program with comparisons."""
        new = self._written.get(jaxpr)
        if new is None:
            new = self._written[jaxpr] = rewritten(jaxpr, self._apply, what="shard_map")
        return new

    def _apply(self, eqn: Eqn, inputs: list[Any]) -> list[Any]:
        params = eqn.map_jaxprs(self._inner).params
        if (over := self.uneven.get(eqn)) is not None:
            agree = require(eqn.primitive, "agree")
            inputs, params = agree(lambda x: self.compare(x, over), inputs, params)
        return as_list(eqn.primitive, eqn.primitive.bind(*inputs, **params))

    def _inner(self, jaxpr: Jaxpr) -> Jaxpr:
        return self.on(jaxpr) if any(self._holds(eqn) for eqn in jaxpr.eqns) else jaxpr

    def _holds(self, eqn: Eqn) -> bool:
        return eqn in self.uneven or any(self._holds(e) for inner in eqn.jaxprs for e in inner.eqns)
