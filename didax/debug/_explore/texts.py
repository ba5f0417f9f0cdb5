"""The texts of a program as rows: its jaxpr, its StableHLO, and what XLA made of it.

A `Row` is a line of text, how deep it is nested, and the numbers of the equations that it comes from (`marks.py`).
Rows that are nested more deeply than the one before them can be folded into it. In XLA's program each computation
stands below the operation that runs it, so that a fusion holds what is fused in it.
Read next: `page.py`, which writes the rows into a page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from didax.core.jaxpr import Eqn
from didax.core.jaxpr_print import Printer, Scope
from didax.debug._explore.marks import Numbered, numbers_in
from didax.xla.hlo import Instruction, calls, computations, name_of


class Row(NamedTuple):
    """A line of a text."""

    depth: int
    text: str
    numbers: tuple[int, ...]  # of the equations that it comes from
    folded: bool = False  # whether what is nested in it is hidden at first
    instruction: str = ""  # the name of the instruction of XLA's that it shows


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
    # For each open region the rows that opened the regions of its operation so far.
    opened: list[list[int]] = []
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

_NOISE = re.compile(
    r', (?:metadata|backend_config)=\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{(?:[^{}"]|"[^"]*"|\{[^{}]*\})*\})*\}'
)
_TUPLE_TYPE = re.compile(r"\([^()]*\) ")
_TYPE = re.compile(r"\b[a-z]\w*\[[^\]]*\] ")
# They run programs; the others have functions of elements.
_RUNS = ("while", "conditional", "call", "async-start")


def xla_rows(text: str) -> list[Row]:
    """The rows of an optimised program (`didax.xla.hlo.text_of`), from its entry; what it runs stands below."""
    programs = computations(text)
    shown: set[str] = set()

    def of(name: str, depth: int) -> Iterator[Row]:
        shown.add(name)
        for instruction in programs[name]:
            inner = [
                row
                for called in dict.fromkeys(called for called, _ in calls(instruction))
                if called in programs and called not in shown
                for row in [Row(depth + 1, called, ()), *of(called, depth + 2)]
            ]
            numbers = numbers_in(name_of(instruction.attributes))[-1:]
            if instruction.opcode == "fusion":  # what is fused comes from several equations
                numbers += [n for row in inner for n in row.numbers]
            folded = bool(inner) and instruction.opcode not in _RUNS
            line = _line(instruction)
            yield Row(depth, line, tuple(dict.fromkeys(numbers)), folded, instruction.name)
            yield from inner

    rows = [Row(0, "the entry", ()), *of("", 1)]
    for name in programs:
        if name not in shown:
            rows += [Row(0, name, ()), *of(name, 1)]
    return rows


def _line(instruction: Instruction) -> str:
    """An instruction as it is shown: without the types of operands, which stand where these are made."""
    operands, before = instruction.operands[1:-1], ""
    while operands != before:
        before, operands = operands, _TUPLE_TYPE.sub("", operands)
    attributes = _NOISE.sub("", instruction.attributes)
    return f"{instruction.name} = {instruction.result} {instruction.opcode}({_TYPE.sub('', operands)}){attributes}"
