"""Numbers for the equations of a program, which StableHLO and XLA's optimised program carry on.

    jaxpr, equations = number(jaxpr)

The jaxpr equals the one given, but the scope of each equation's line ends in `#7`, its position in `equations`. Scopes
are written into the names of operations (`xla/lowering.py`), passes keep them, and XLA keeps the names of what it
optimises. So every text of the program says from which equations its parts come: `numbers_in` reads it.
Read next: `texts.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from didax.core.jaxpr import Eqn, Jaxpr
from didax.core.source import SourceLine
from didax.core.stack import on_new_stack, stack_is_low

_NUMBER = re.compile(r"(?:^|/)#(\d+)(?=/|$)")


class Numbered(NamedTuple):
    """A jaxpr whose equations carry their numbers, and its equations by number."""

    jaxpr: Jaxpr
    equations: Sequence[Eqn]

    def number(self, eqn: Eqn) -> int:
        """The number of one of the equations."""
        assert eqn.source is not None
        return int(_NUMBER.findall(eqn.source.scope)[-1])


def number(jaxpr: Jaxpr) -> Numbered:
    """Give each equation of a jaxpr, those inside of others too, a number. Equations that are shared stay shared."""
    equations: list[Eqn] = []
    done: dict[Jaxpr, Jaxpr] = {}

    def renewed(old: Jaxpr) -> Jaxpr:
        if stack_is_low():
            return on_new_stack(renewed, old)
        found = done.get(old)
        if found is None:
            new = [numbered(eqn) for eqn in old.eqns]
            found = done[old] = Jaxpr(old.invars, new, old.outvars, old.name)
        return found

    def numbered(eqn: Eqn) -> Eqn:
        position = len(equations)
        equations.append(eqn)
        new = eqn.map_jaxprs(renewed) if eqn.jaxprs else eqn
        line = eqn.source or SourceLine(number.__code__, 0)
        scope = f"{line.scope}/#{position}" if line.scope else f"#{position}"
        equations[position] = new = Eqn(
            new.primitive, new.invars, new.params, new.outvars, line._replace(scope=scope)
        )
        return new

    return Numbered(renewed(jaxpr), equations)


def line_of(eqn: Eqn) -> SourceLine | None:
    """Where a numbered equation comes from, without its number; None where nobody knows."""
    line = eqn.source
    if line is None or line.code is number.__code__:
        return None
    return line._replace(scope=without_numbers(line.scope))


def numbers_in(name: str) -> list[int]:
    """The numbers in the name of an operation, of the outermost equation first.

    >>> numbers_in("f/#3/scan/body/attention/#12/mul")
    [3, 12]
    """
    return [int(found) for found in _NUMBER.findall(name)]


def without_numbers(name: str) -> str:
    """The name of an operation without its numbers.

    >>> without_numbers("f/#3/scan/body/attention/#12/mul")
    'f/scan/body/attention/mul'
    """
    return _NUMBER.sub("", name).lstrip("/")
