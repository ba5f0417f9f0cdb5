"""What `profile` returns: where the time of a call goes, as tables, as a flame picture, as a trace for Perfetto.

    print(profile)           tables of lines and of named scopes, in plain text (`rich.print` shows them in colour)
    profile.flame()          an SVG picture, which notebooks show
    profile.save("x.json")   a trace that ui.perfetto.dev and chrome://tracing open

Read next: `profile.py` (how times are measured), `profile_flame.py` (the picture), `docs/windows.md`.
"""

from __future__ import annotations

import gzip
import json
import linecache
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from didax.api.profile_flame import Flame, Node
from didax.core.errors import ArgumentError, message
from didax.core.source import name_of_file
from didax.xla.hlo import Origin
from didax.xla.shares import NOWHERE, Place, scopes_of


class Times(NamedTuple):
    """Seconds of a call: all, and parts of it, which may overlap: devices compute while the host waits."""

    total: float
    computing: float  # anything was computed
    compiling: float  # the library traced, lowered or compiled
    transfers: float  # arrays moved between host and devices
    waiting: float  # the calling thread waited for results
    python: float  # the calling thread did something else


class FirstCall(NamedTuple):
    """Seconds of the first call: all, and those of tracing, lowering, and compiling or reading the cache."""

    total: float
    tracing: float
    lowering: float
    compiling: float


class Operation(NamedTuple):
    """Seconds of a call that go into an operation at one place: the lines of the calls around it, its own line last."""

    frames: tuple[Origin, ...]
    scope: str  # the named scopes that it is in, "model/layer"
    name: str  # the primitive's; "" for what XLA made itself
    is_backward: bool  # whether it belongs to the backward pass of a derivative
    seconds: float

    @property
    def line(self) -> tuple[str, int]:
        """The file and the line of the user's program; ("", 0) where there is none."""
        return (self.frames[-1].file, self.frames[-1].line) if self.frames else ("", 0)


class Line(NamedTuple):
    """Seconds of a call that go into a line of the user's program; file "" is for what belongs to no line."""

    file: str
    line: int
    seconds: float
    backward: float  # of these, those of the backward pass
    operations: tuple[str, ...]

    @property
    def text(self) -> str:
        """The line itself, where its file can be read."""
        return linecache.getline(self.file, self.line).strip() if self.file else ""


class Scope(NamedTuple):
    """Seconds of a call that go into a named scope, those of the scopes inside included; name "" is for no scope."""

    name: str
    seconds: float
    backward: float


class Stretch(NamedTuple):
    """What ran from when to when, in seconds since the profile began, and where: for a trace."""

    name: str
    start: float
    end: float
    thread: str
    place: Place


class Profile:
    """Where the time of a call goes: what `didax.profile` returns.

    Attributes:
      name: the function's; runs: how many calls were measured; all seconds are means over these.
      times: the parts of a call (`Times`); first: those of the first call (`FirstCall`), None with `runs=0`.
      operations: seconds by place and operation, the longest first. lines, scopes: their sums.
      instructions: seconds by module and instruction of the optimised programs.

    >>> import didax as dx
    >>> found = dx.profile(dx.jit(lambda x: x + 1), 1.0, runs=1)
    >>> found.runs, found.first is None
    (1, False)
    """

    def __init__(
        self,
        name: str,
        runs: int,
        first: FirstCall | None,
        times: Times,
        operations: Sequence[Operation],
        instructions: dict[tuple[str, str], float],
        trace: Sequence[Stretch],
    ):
        self.name, self.runs, self.first, self.times = name, runs, first, times
        self.operations = tuple(operations)
        self.instructions = instructions
        self._trace = trace

    @property
    def lines(self) -> tuple[Line, ...]:
        """Seconds by line of the user's program, the longest first."""
        groups: dict[tuple[str, int], list[Operation]] = defaultdict(list)
        for operation in self.operations:
            groups[operation.line].append(operation)
        found = [
            Line(*place, *_sums(group), tuple(dict.fromkeys(op.name for op in group if op.name)))
            for place, group in groups.items()
        ]
        return tuple(sorted(found, key=lambda line: -line.seconds))

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Seconds by named scope, the longest first."""
        groups: dict[str, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            parts = operation.scope.split("/")
            for i in range(len(parts)):
                groups["/".join(parts[: i + 1])].append(operation)
        found = [Scope(name, *_sums(group)) for name, group in groups.items()]
        return tuple(sorted(found, key=lambda scope: -scope.seconds))

    def __repr__(self) -> str:
        return "\n\n".join(["\n".join(self._head()), *map(_plain, self._tables())])

    def _repr_html_(self) -> str:
        import html  # not needed where nobody looks

        head = "<br>".join(map(html.escape, self._head()))
        return f"<p>{head}</p>{self.flame().svg()}{''.join(map(_html, self._tables()))}"

    def __rich__(self) -> Any:
        """The same in colours, for `rich.print`."""
        from rich.console import Group
        from rich.table import Table

        shown: list[Any] = [" ".join(self._head())]
        for head, *rows in self._tables():
            table = Table(*head, box=None, header_style="bold")
            for seconds, percent, *texts in rows:
                share = float(percent or 0)
                table.add_row(
                    seconds, percent, *texts, style="red" if share >= 30 else "yellow" if share >= 10 else ""
                )
            shown.append(table)
        return Group(*shown)

    def _head(self) -> Iterator[str]:
        times, first = self.times, self.first
        calls = f"mean of {self.runs:,} calls" if self.runs > 1 else "one call"
        yield f"{self.name}: {_time(times.total)} ({calls})"
        yield (
            f"computing {_time(times.computing)}, waiting for it {_time(times.waiting)}, "
            f"transfers {_time(times.transfers)}, compiling {_time(times.compiling)}, Python {_time(times.python)}"
        )
        if first is not None:
            yield (
                f"the first call took {_time(first.total)}: tracing {_time(first.tracing)}, "
                f"lowering {_time(first.lowering)}, compiling {_time(first.compiling)}"
            )

    def _tables(self) -> Iterator[list[list[str]]]:
        lines, scopes = self.lines, [scope for scope in self.scopes if scope.name]
        if not lines:
            return
        backward = any(line.backward for line in lines)
        total = sum(operation.seconds for operation in self.operations)
        rows = [(line.seconds, line.backward, _label(line)) for line in lines]
        yield _table("line", rows, total, backward)
        if scopes:
            yield _table("scope", [(*scope[1:], scope.name) for scope in scopes], total, backward)

    def flame(self) -> Flame:
        """The times as a picture: the function, named scopes and lines, with what is inside of them below."""
        root = Node(self.name)
        for operation in self.operations:
            root.add(_path(operation), operation.seconds)
        return Flame(root, _time)

    def save(self, path: os.PathLike[str] | str) -> None:
        """Write a file, by the ending of its name: a trace for Perfetto (.json, .json.gz), or the flame picture (.svg).

        Raises ValueError for other endings. Open a trace at ui.perfetto.dev, or in chrome://tracing.
        """
        name = os.fspath(path)
        if name.endswith(".svg"):
            Path(path).write_text(self.flame().svg(), encoding="utf-8")
        elif name.endswith((".json", ".json.gz")):
            text = json.dumps({"traceEvents": list(self._events()), "displayTimeUnit": "ms"}).encode()
            Path(path).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        else:
            rule = "A profile is saved as a trace (.json, .json.gz) or as a picture (.svg)."
            raise ArgumentError(message(rule, f"path: {name!r}", fix="Give the file one of these endings."))

    def _events(self) -> Iterator[dict[str, Any]]:
        """The trace in the format of Chrome's, with microseconds."""
        threads = list(dict.fromkeys(stretch.thread for stretch in self._trace))
        for i, thread in enumerate(threads):
            yield {"ph": "M", "pid": 1, "tid": i, "name": "thread_name", "args": {"name": thread}}
        for s in self._trace:
            at = {"ph": "X", "pid": 1, "tid": threads.index(s.thread), "ts": s.start * 1e6}
            found: dict[str, Any] = {**at, "dur": (s.end - s.start) * 1e6, "name": s.name, "args": {}}
            if s.place is not NOWHERE:
                lines = [f"{frame.file}:{frame.line}" for frame in s.place.frames]
                scope, backward = s.place.scope, s.place.is_backward
                found["name"] = f"{s.place.name} {_short(*Operation(*s.place, 0.0).line)}".strip()
                found["args"] = {"instruction": s.name, "lines": lines, "scope": scope, "backward": backward}
            yield found


def _sums(group: Sequence[Operation]) -> tuple[float, float]:
    return sum(op.seconds for op in group), sum(op.seconds for op in group if op.is_backward)


def _path(operation: Operation) -> list[str]:
    """What a place is inside of, from the outside: scopes and lines, the operation last."""
    found: list[str] = []
    around = ""
    for frame, scope in zip(operation.frames, scopes_of(operation.frames), strict=True):
        inner = scope.removeprefix(around).split("/")
        found += [*filter(None, inner), f"{_short(frame.file, frame.line)}  {_text(frame)}".strip()]
        around = scope
    name = operation.name or "made by XLA"
    return [*found, f"{name}, backward" if operation.is_backward else name]


def _text(frame: Origin) -> str:
    return linecache.getline(frame.file, frame.line).strip()


def _short(file: str, line: int) -> str:
    return f"{os.path.basename(name_of_file(file))}:{line}" if file else ""


def _label(line: Line) -> str:
    if not line.file:
        return f"(no line: {', '.join(line.operations[:3])})" if line.operations else "(made by XLA)"
    text = line.text
    return (
        f"{_short(line.file, line.line)}  {text if len(text) <= _WIDE else text[: _WIDE - 3] + '...'}".strip()
    )


def _time(seconds: float) -> str:
    """
    >>> _time(0.01234), _time(2.5e-6), _time(0.0), _time(70.0)
    ('12.3 ms', '2.50 us', '0', '70.0 s')
    """
    if seconds <= 0:
        return "0"
    unit, name = next((pair for pair in _UNITS if seconds >= pair[0]), _UNITS[-1])
    number = seconds / unit
    return f"{number:.{max(0, 2 - len(str(int(number))) + 1)}f} {name}"


_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_WIDE = 70  # of a line's text
_MOST_ROWS = 20


def _table(
    kind: str, rows: Sequence[tuple[float, float, str]], total: float, backward: bool
) -> list[list[str]]:
    """The cells of a table, its head first; the longest times, and the sum of the others."""
    shown, rest = list(rows[:_MOST_ROWS]), rows[_MOST_ROWS:]
    if rest:
        shown.append((sum(row[0] for row in rest), sum(row[1] for row in rest), f"({len(rest):,} more)"))
    cells = [
        [_time(t), f"{100 * t / total:.1f}" if total else "", *([_time(b)] if backward else []), label]
        for t, b, label in shown
    ]
    return [["time", "%", *(["backward"] if backward else []), kind], *cells]


def _plain(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i < len(row) - 1 else cell
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _html(rows: list[list[str]]) -> str:
    import html  # not needed where nobody looks

    def cells(row: list[str], kind: str) -> str:
        last = len(row) - 1
        sides = ["left" if i == last else "right" for i in range(len(row))]
        return "".join(
            f'<{kind} style="text-align: {side}">{html.escape(cell)}</{kind}>'
            for cell, side in zip(row, sides, strict=True)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows[1:])
    return f'<table class="didax-profile"><tr>{cells(rows[0], "th")}</tr>{body}</table>'
