"""The text of `didax.explain`: each loop of a program by the user's line, with what was done to it and why not more."""

from __future__ import annotations

from didax.core import config
from didax.core.jaxpr import Jaxpr
from didax.passes.loops.driver import optimize_loops
from didax.passes.loops.notes import Note
from didax.passes.simplify import dce_jaxpr


def report(name: str, jaxpr: Jaxpr) -> str:
    """What the passes do to the loops of a program, under the options in force."""
    if config.state().optimize_loops == "off":
        return f"{name}: the option optimize_loops is 'off', loops are compiled as they are."
    live, _ = dce_jaxpr(jaxpr, (True,) * len(jaxpr.outvars))
    _, notes = optimize_loops(live)
    by_loop: dict[tuple[object, str], list[Note]] = {}
    for said in notes:
        by_loop.setdefault((said.source, said.loop), []).append(said)
    loops = list(by_loop.items())
    count = "no loops" if not loops else f"{len(loops)} loop{'s' if len(loops) > 1 else ''}"
    return "\n".join([f"{name}: {count}", *(line for loop in loops for line in _lines(*loop))])


def _lines(where: tuple[object, str], notes: list[Note]) -> list[str]:
    source, loop = where
    head = f"  {loop}" if source is None else f"  {loop}\n    at {source}"
    return [head, *(f"    {note}" for note in notes)]
