"""What the passes did to each loop, and why not more: the lines of `didax.explain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from didax.core.jaxpr import Eqn
from didax.core.source import SourceLine


class Note(NamedTuple):
    """One pass on one loop: done or not, and why."""

    source: SourceLine | None  # the user's line that made the loop
    loop: str
    rule: str  # name of the pass
    done: bool
    why: str

    def __str__(self) -> str:
        return f"{'yes' if self.done else 'no':4}{self.rule}: {self.why}"


def describe(eqn: Eqn) -> str:
    """A loop in a few words: `scan of 10 steps, 3 carried, 2 stacked`."""
    params: dict[str, Any] = eqn.params
    if "length" not in params:
        return f"while loop, {len(eqn.outvars)} carried"
    carried = params["num_carry"]
    backwards = ", backwards" if params["reverse"] else ""
    return f"scan of {params['length']} steps{backwards}, {carried} carried, {len(eqn.outvars) - carried} stacked"


def note(eqn: Eqn, rule: str, done: bool, why: str) -> Note:
    """A note on a loop."""
    return Note(eqn.source, describe(eqn), rule, done, why)


def renamed_loops(notes: Sequence[Note], before: Sequence[Eqn], after: Sequence[Eqn]) -> list[Note]:
    """Notes on loops that a later pass changed, each in its place, which describe the loops as they are now."""
    names = {
        (old.source, describe(old)): describe(new)
        for old, new in zip(before, after, strict=True)
        if old is not new
    }
    return [said._replace(loop=names.get((said.source, said.loop), said.loop)) for said in notes]
