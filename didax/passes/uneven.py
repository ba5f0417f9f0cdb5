"""Loops and branches with a collective, on which devices may disagree: found where types do not say what differs.

    while pred(x): x = psum(x, "d")        where `pred` may differ along "d", the devices compare it at each step

A device that has left a loop, or that took another branch, does not come to the collective in it, and the others would
wait forever. Types that are tracked forbid such programs (`primitives/control_flow/varying.py`). In a `shard_map`
without them, `agreeing` follows along which manual axes values may differ, by the primitives' `differs` rules; without
a rule, results differ along the axes along which an operand does. Where the devices that a collective joins choose by a
value that may differ between them, the primitive's `agree` rule puts a comparison before the choice: all go the way of
the lowest number, and a check raises CheckError unless it is the number of all.
Read next: `control_flow/agreement.py`, the comparison; `shard_map.py`, who asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core.effects import NO_EFFECTS
from didax.core.jaxpr import Eqn, Jaxpr, Var, map_jaxprs
from didax.core.primitive import require
from didax.core.source import follows_equations
from didax.transforms.staging import trace_to_jaxpr

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
    """Along which axes values may differ; and the equations whose choice may, along axes of their collectives."""

    def __init__(self, axes: Axes):
        self.axes = axes
        self.uneven: dict[Eqn, Axes] = {}
        self._found: dict[tuple[Jaxpr, tuple[Axes, ...]], list[Axes]] = {}

    def follow(self, jaxpr: Jaxpr, operands: Sequence[Axes]) -> list[Axes]:
        """Along which axes the results may differ, where operands may differ along these."""
        key = jaxpr, tuple(operands)
        if (found := self._found.get(key)) is None:
            env: dict[Var, Axes] = dict(zip(jaxpr.invars, operands, strict=True))
            for eqn in jaxpr.eqns:
                given = [env[x] if type(x) is Var else NOWHERE for x in eqn.invars]
                env.update(zip(eqn.outvars, self._results(eqn, given), strict=True))
            found = [env[x] if type(x) is Var else NOWHERE for x in jaxpr.outvars]
            self._found[key] = found
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
            new, captured = trace_to_jaxpr(
                lambda *args: self._run(jaxpr, args), jaxpr.in_avals, what="shard_map"
            )
            assert not captured, "jaxprs are closed"
            new = self._written[jaxpr] = Jaxpr(new.invars, new.eqns, new.outvars, jaxpr.name)
        return new

    @follows_equations()
    def _run(self, jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
        env: dict[Var, Any] = dict(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            inputs = [env[x] if type(x) is Var else x.val for x in eqn.invars]
            params = {name: map_jaxprs(value, self._inner) for name, value in eqn.params.items()}
            if (over := self.uneven.get(eqn)) is not None:
                inputs, params = require(eqn.primitive, "agree")(
                    lambda x, over=over: self.compare(x, over), inputs, params
                )
            out = eqn.primitive.bind(*inputs, **params)
            env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
        return [env[x] if type(x) is Var else x.val for x in jaxpr.outvars]

    def _inner(self, jaxpr: Jaxpr) -> Jaxpr:
        return self.on(jaxpr) if any(self._holds(eqn) for eqn in jaxpr.eqns) else jaxpr

    def _holds(self, eqn: Eqn) -> bool:
        return eqn in self.uneven or any(self._holds(e) for inner in eqn.jaxprs for e in inner.eqns)
