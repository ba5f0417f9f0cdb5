"""The texts of a program as rows: its jaxpr, its StableHLO, and what XLA made of it.

A `Row` is a line of text, how deep it is nested, and the numbers of the equations that it comes from (`marks.py`).
Rows that are nested more deeply than the one before them can be folded into it. In XLA's program each computation
stands below the operation that runs it, so that a fusion holds what is fused in it.
Read next: `page.py`, which writes the rows into a page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from didax.core.jaxpr import Eqn
from didax.core.jaxpr_print import Printer, Scope
from didax.debug._explore.marks import Numbered, numbers_in


class Row(NamedTuple):
    """A line of a text."""

    depth: int
    text: str
    numbers: tuple[int, ...]  # of the equations that it comes from
    folded: bool = False  # whether what is nested in it is hidden at first


# --- Jaxprs ----------------------------------------------------------------------------------------------------------

_OPEN, _NAMED, _CLOSE = "\x01", "\x02", "\x03"  # around an equation: `\x01 number \x02 text \x03`
_MARK = re.compile(f"{_OPEN}(\\d+){_NAMED}|{_CLOSE}")


class _MarkingPrinter(Printer):
    """Writes each equation between marks that say its number."""

    def __init__(self, numbered: Numbered):
        super().__init__()
        self._numbered = numbered

    def eqn(self, eqn: Eqn, scope: Scope, pad: str = "") -> str:
        return f"{_OPEN}{self._numbered.number(eqn)}{_NAMED}{super().eqn(eqn, scope, pad)}{_CLOSE}"


def jaxpr_rows(numbered: Numbered, num_consts: int) -> list[Row]:
    """The rows of a jaxpr's text."""
    rows: list[Row] = []
    inside: list[int] = []  # the equations that the text is in
    for line in _MarkingPrinter(numbered).jaxpr(numbered.jaxpr, num_consts).split("\n"):
        marks = list(_MARK.finditer(line))
        inside += [int(mark[1]) for mark in marks if mark[1]]
        owner = inside[-1:]
        for mark in marks:
            if not mark[1]:
                inside.pop()
        text = _MARK.sub("", line)
        rows.append(Row(_indentation(text) // 2, text.strip(), tuple(owner)))
    return rows


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


# --- StableHLO -------------------------------------------------------------------------------------------------------

_LOCATION = re.compile(r' loc\("((?:[^"\\]|\\.)*)"(?:\("(?:[^"\\]|\\.)*":\d+:\d+\))?\)')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACE = re.compile("[{}]")


def stablehlo_rows(text: str) -> list[Row]:
    """The rows of a module whose operations say where they come from.

    An operation with regions says it where the last of them is closed; the rows that open its regions say it too.
    """
    rows: list[Row] = []
    opened: list[
        list[int]
    ] = []  # for each open region the rows that opened the regions of its operation so far
    for line in text.splitlines():
        found = _LOCATION.search(line)
        numbers = tuple(numbers_in(found[1])[-1:]) if found else ()
        line = _LOCATION.sub("", line).strip()
        change, lowest = _braces(line)
        closed = [row for _ in range(-lowest) for row in opened.pop()]
        for row in closed if numbers else ():
            rows[row] = rows[row]._replace(numbers=numbers)
        rows.append(Row(len(opened), line, numbers))
        opened += [[*closed, len(rows) - 1] for _ in range(change - lowest)]
    return rows


def _braces(line: str) -> tuple[int, int]:
    """By how much a line changes the depth, and how far it goes below the depth that it begins with (0 or less)."""
    depth = lowest = 0
    for brace in _BRACE.findall(_STRING.sub("", line)):
        depth += 1 if brace == "{" else -1
        if depth < lowest:
            lowest = depth
    return depth, lowest


# --- XLA's program ---------------------------------------------------------------------------------------------------

_METADATA = re.compile(r', metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}')
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_CALLED = re.compile(r"(?:calls|to_apply|condition|body|true_computation|false_computation)=%?([^\s,{}]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_CONFIG = re.compile(r', backend_config=\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{(?:[^{}"]|"[^"]*"|\{[^{}]*\})*\})*\}')


_RUNS = re.compile(
    r" (?:while|conditional|call|async-start)\("
)  # operations that run programs, not single values


class Computation(NamedTuple):
    """A computation of XLA's: its first line, and its operations."""

    head: str
    operations: list[str]


def xla_rows(text: str) -> list[Row]:
    """The rows of an optimised program, from its entry."""
    computations = _computations(text)
    shown: set[str] = set()

    def of(name: str, depth: int) -> Iterator[Row]:
        shown.add(name)
        for line in computations[name].operations:
            inner = [
                row
                for called in _called(line)
                if called in computations and called not in shown
                for row in [
                    Row(depth + 1, computations[called].head, ()),
                    *of(called, depth + 2),
                    Row(depth + 1, "}", ()),
                ]
            ]
            numbers = _numbers_of(line)
            if " fusion(" in line:  # what is fused comes from several equations
                numbers += [n for row in inner for n in row.numbers]
            folded = bool(inner) and not _RUNS.search(line)
            yield Row(depth, _plain(line), tuple(dict.fromkeys(numbers)), folded)
            yield from inner

    roots = [name for name, found in computations.items() if found.head.startswith("ENTRY")]
    rows: list[Row] = []
    for name in [*roots, *computations]:
        if name not in shown:
            rows += [Row(0, computations[name].head, ()), *of(name, 1), Row(0, "}", ())]
    return rows


def _computations(text: str) -> dict[str, Computation]:
    found: dict[str, Computation] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.endswith("{") and not line.startswith((" ", "HloModule")):
            lines = []
            name = line.removeprefix("ENTRY ").split()[0].lstrip("%")
            found[name] = Computation(line, lines)
        elif line.startswith("  "):
            lines.append(line.strip())
    return found


def _called(line: str) -> Sequence[str]:
    plain = _STRING.sub("", line)
    names = _CALLED.findall(plain)
    for branches in _BRANCHES.findall(plain):
        names += [name.strip().lstrip("%") for name in branches.split(",")]
    return list(dict.fromkeys(names))


def _numbers_of(line: str) -> list[int]:
    found = _OP_NAME.search(line)
    return numbers_in(found[1])[-1:] if found else []


def _plain(line: str) -> str:
    return _CONFIG.sub("", _METADATA.sub("", line))
