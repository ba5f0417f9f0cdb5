"""What a page holds: rows of all texts, costs by line, saved values and memory, as one object of JSON in a template.

The template is `page.html`, with `page.css` and `page.js`; nothing is loaded from elsewhere. The keys of the object
are those that `page.js` reads.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any, NamedTuple

from didax.api.checkpoint import Residual
from didax.api.profile_report import Profile
from didax.core.source import SourceLine
from didax.core.stack import on_new_stack, stack_is_low
from didax.debug._explore.costs import Rates, costs_of, inner_jaxprs
from didax.debug._explore.marks import line_of, without_numbers
from didax.debug._explore.memory import Timeline, timeline
from didax.debug._explore.programs import Absent, View
from didax.debug._explore.sources import File
from didax.debug._explore.texts import Row, jaxpr_rows, stablehlo_rows, xla_rows
from didax.xla.hlo import text_of


class LineCost(NamedTuple):
    """What a line of the user's program costs in a run, and what it keeps for the backward pass."""

    file: str
    line: int
    equations: int
    flops: float
    bytes: int
    saved: int  # bytes
    estimate: float  # seconds
    measured: float | None  # seconds
    # In a loop of unknown length, whose body counts once; or of operations that nobody can count.
    at_least: bool
    at_most: bool  # in a branch that may not be taken


class Places:
    """The lines that equations come from, each with a number."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self.numbers: dict[tuple[str, int], int] = {}
        self.lines: list[SourceLine] = []

    def add(self, line: SourceLine | None) -> int:
        """The number of a line; -1 for None."""
        if line is None:
            return -1
        place = line.file, line.line
        found = self.numbers.get(place)
        if found is None:
            found = self.numbers[place] = len(self.numbers)
            self.lines.append(line)
        return found


def program_data(
    view: View, places: Places, rates: Rates, compiled: Any, measured: Profile | None
) -> dict[str, Any]:
    """What the page knows of a program."""
    if stack_is_low():
        return on_new_stack(program_data, view, places, rates, compiled, measured)
    numbered = view.numbered
    costs = costs_of(numbered)
    text = view.stablehlo()
    equations: list[Any] = []
    for eqn, cost in zip(numbered.equations, costs.equations, strict=True):
        line = line_of(eqn)
        equations.append(
            [
                places.add(line),
                eqn.primitive.name,
                int(line is not None and line.backward),
                "" if line is None else line.scope,
                cost.flops,
                cost.bytes,
                cost.times,
                int(cost.at_least) + 2 * int(cost.at_most) + 4 * bool(inner_jaxprs(eqn)),
                rates.seconds(cost),
            ]
        )
    return {
        "name": view.name,
        "label": view.label,
        "equations": equations,
        "jaxpr": _rows(jaxpr_rows(numbered, view.num_consts)),
        "stablehlo": None if text is None else _rows(stablehlo_rows(text)),
        "xla": None if compiled is None else _xla(xla_rows(text_of(compiled)), measured),
        "memory": _memory(timeline(numbered), view.inputs, compiled),
        "flops": costs.flops,
        "measured": None if measured is None else _times(measured, places),
    }


def _rows(rows: Sequence[Row]) -> list[Any]:
    return [[row.depth, without_numbers_in(row.text), list(row.numbers), int(row.folded)] for row in rows]


def _xla(rows: Sequence[Row], measured: Profile | None) -> list[Any]:
    """The rows of XLA's program, and the seconds that the instruction of each took."""
    seconds = {} if measured is None else {name: took for (_, name), took in measured.instructions.items()}
    return [[*one, seconds.get(row.instruction)] for one, row in zip(_rows(rows), rows, strict=True)]


def _times(measured: Profile, places: Places) -> dict[str, Any]:
    """The times of a program: of its calls, and by place."""
    lines, nowhere = dict[int, float](), 0.0
    for line in measured.lines:
        place = places.numbers.get((line.file, line.line))
        if place is None:
            nowhere += line.seconds
        else:
            lines[place] = line.seconds
    return {
        "runs": measured.runs,
        "lines": lines,
        "nowhere": nowhere,
        "times": measured.times._asdict(),
        "first": measured.first and measured.first._asdict(),
        "flame": measured.flame().svg(),
    }


def without_numbers_in(text: str) -> str:
    """A line of a text; names that are written out in it lose the numbers."""
    return without_numbers(text) if "/#" in text else text


def _memory(found: Timeline, inputs: Sequence[str], compiled: Any) -> dict[str, Any]:
    stats = None if compiled is None else compiled.get_compiled_memory_stats()
    return {
        "steps": list(found.steps),
        "live": found.live(),
        "peak": found.peak(),
        "arrays": [[a.bytes, a.birth, a.death, a.number] for a in found.arrays if a.bytes],
        "inputs": list(inputs),
        "xla": stats
        and {
            "arguments": stats.argument_size_in_bytes,
            "results": stats.output_size_in_bytes,
            "temporaries": stats.temp_size_in_bytes,
            "shared": stats.alias_size_in_bytes,
        },
    }


def saved_data(saved: Sequence[Residual] | str, places: Places) -> Any:
    """What is kept for the backward pass, or why nobody knows."""
    if isinstance(saved, str):
        return {"why": saved, "rows": [], "bytes": 0}
    rows = [[places.add(r.line), r.nbytes, str(r.aval), r.origin] for r in saved]
    return {"why": "", "rows": rows, "bytes": sum(r.nbytes for r in saved)}


def line_costs(program: dict[str, Any], saved: dict[str, Any], places: Places) -> list[LineCost]:
    """The costs of a program by line, in the order of files and lines."""
    kept = dict[int, int]()
    for place, size, *_ in saved["rows"]:
        kept[place] = kept.get(place, 0) + size
    found: dict[int, list[Any]] = {
        place: [0, 0.0, 0, 0.0, None, False, False] for place in kept if place >= 0
    }
    for place, _, _, _, flops, size, times, flags, estimate, *_ in program["equations"]:
        if place < 0 or not times:
            continue
        row = found.setdefault(place, [0, 0.0, 0, 0.0, None, False, False])
        row[0] += 1
        row[1] += flops
        row[2] += size
        row[3] += estimate
        row[5] |= bool(flags & 1)
        row[6] |= bool(flags & 2)
    for place, seconds in (program["measured"] or {}).get("lines", {}).items():
        if int(place) in found:
            found[int(place)][4] = seconds
    rows = [
        LineCost(places.lines[k].file, places.lines[k].line, n, flops, size, kept.get(k, 0), *rest)
        for k, (n, flops, size, *rest) in found.items()
    ]
    return sorted(rows, key=lambda row: (places.files.get(row.file, 0), row.file, row.line))


def source_data(files: Sequence[File]) -> list[Any]:
    """The files of the user's program."""
    return [
        {"path": file.path, "name": file.name, "known": file.is_known, "lines": sorted(file.lines.items())}
        for file in files
    ]


def absent_data(absent: Sequence[Absent]) -> list[Any]:
    """The transformations that there is no program of."""
    return [[one.name, one.why] for one in absent]


def page_text(title: str, data: dict[str, Any]) -> str:
    """The page: one file, which loads nothing."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    # In a script element `<` could begin `</script>` or `<!--`; JSON may write it as an escape.
    parts = {
        "title": html.escape(title),
        "css": _file("page.css"),
        "data": text.replace("<", "\\u003c"),
        "js": _file("page.js"),
    }
    page = _file("page.html")
    before, *rest = page.split("{{")
    return before + "".join(parts[name] + after for name, after in (part.split("}}", 1) for part in rest))


def _file(name: str) -> str:
    return resources.files("didax.debug._explore").joinpath(name).read_text("utf-8")
