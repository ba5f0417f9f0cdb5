"""Numbers for the equations of a program, which StableHLO and XLA's optimised program carry on.

    jaxpr, equations = number(jaxpr)

The jaxpr equals the one given, but the scope of each equation's line ends in `#7#`, its position in `equations`. Scopes
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

_NUMBER = re.compile(r"(?:^|/)#(\d+)#(?=/|$)")


class Numbered(NamedTuple):
    """A jaxpr whose equations carry their numbers, and its equations by number."""

    jaxpr: Jaxpr
    equations: Sequence[Eqn]

    def number(self, eqn: Eqn) -> int:
        """The number of one of the equations."""
        assert eqn.source is not None
        return int(_NUMBER.findall(eqn.source.scope)[-1])


def number(jaxpr: Jaxpr) -> Numbered:
    """Give each equation of a jaxpr, those inside of others too, a number. Equations that are shared stay shared.

    What a function of the library is made of has the line that calls the function: that of the equation around it.
    """
    equations: list[Eqn] = []
    done: dict[tuple[Jaxpr, SourceLine], Jaxpr] = {}

    def renewed(old: Jaxpr, outer: SourceLine) -> Jaxpr:
        if stack_is_low():
            return on_new_stack(renewed, old, outer)
        key = old, outer if any(map(_takes_outer_line, old.eqns)) else _NOWHERE
        found = done.get(key)
        if found is None:
            new = [numbered(eqn, outer) for eqn in old.eqns]
            found = done[key] = Jaxpr(old.invars, new, old.outvars, old.name)
        return found

    def numbered(eqn: Eqn, outer: SourceLine) -> Eqn:
        position, line = len(equations), eqn.source
        equations.append(eqn)
        if line is None or line.is_of_call:
            line = outer._replace(backward=outer.backward or (line is not None and line.backward))
        new = eqn.map_jaxprs(lambda inner: renewed(inner, line)) if eqn.jaxprs else eqn
        scope = f"{line.scope}/#{position}#" if line.scope else f"#{position}#"
        source = line._replace(scope=scope, is_of_call=False)
        equations[position] = Eqn(new.primitive, new.invars, new.params, new.outvars, source)
        return equations[position]

    return Numbered(renewed(jaxpr, _NOWHERE), equations)


def _takes_outer_line(eqn: Eqn) -> bool:
    if eqn.source is None or eqn.source.is_of_call:
        return True
    return any(_takes_outer_line(inner) for jaxpr in eqn.jaxprs for inner in jaxpr.eqns)


_NOWHERE = SourceLine(number.__code__, 0)


def line_of(eqn: Eqn) -> SourceLine | None:
    """Where a numbered equation comes from, without its number; None where nobody knows."""
    line = eqn.source
    if line is None or line.code is _NOWHERE.code:
        return None
    return line._replace(scope=without_numbers(line.scope))


def numbers_in(name: str) -> list[int]:
    """The numbers in the name of an operation, of the outermost equation first.

    >>> numbers_in("f/#3#/scan/body/attention/#12#/mul")
    [3, 12]
    """
    return [int(found) for found in _NUMBER.findall(name)]


def without_numbers(name: str) -> str:
    """The name of an operation without its numbers.

    >>> without_numbers("f/#3#/scan/body/attention/#12#/mul")
    'f/scan/body/attention/mul'
    """
    return _NUMBER.sub("", name).lstrip("/")
