"""From a recording of XLA's profiler to the user's lines.

What runs at an instant are the innermost instructions: a loop does not count while an instruction of its body runs, and
an eager operation does not while XLA compiles for it. If several run, they share the instant, so the times of all
places add up to the time in which anything was computed. An instruction's time is shared over the places that it works
for (`xla/shares.py`). The text of a program comes from the recording. If the program was found in the cache, the text
may name lines as they were then; the program is compiled anew to know the lines of today.
Read next: `profile_report.py`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from didax.api.jit_cache import programs_of_functions
from didax.api.profile_report import FirstCall, Operation, Profile, Stretch, Times
from didax.runtime.collectives import with_current_lines
from didax.runtime.compiled import programs_of_jaxprs
from didax.xla.hlo import Origin, module_name, text_of
from didax.xla.profiling import Measured, Recording
from didax.xla.shares import NOWHERE, Place, Program, Shares

CALL, EAGER = "didax.profile: a call", "didax.profile: an eager operation"
_GRAPH = "cuda_graph_id"
_TRANSFERS = ("DevicePut", "CopyToHost", "BufferFromHost", "Transfer", "ToLiteral", "MemcpyH2D", "MemcpyD2H")
_Interval = tuple[float, float]


class Span(NamedTuple):
    """What the library did before a program could run."""

    kind: str  # "tracing", "lowering" or "compiling"
    start: float
    end: float
    of: str  # the name of the function


class _Work(NamedTuple):
    """A stretch of work, with a key that tells it apart. While it lasts, the stretches in `hides` do not count."""

    start: float
    end: float
    key: Any
    shares: Shares  # empty for a stretch that only hides others
    hides: tuple[Any, ...]


class Analysis:
    """A recording, in nanoseconds, of calls, and what the library did in them, in seconds since the epoch."""

    def __init__(self, recording: Recording, spans: Sequence[Span]):
        self._recording = recording
        self._calls = _Nest([e for e in recording.events if e.name == CALL])
        self._marks = _Nest([e for e in recording.events if e.name == EAGER])
        began = recording.began
        self._spans = [s._replace(start=s.start * 1e9 - began, end=s.end * 1e9 - began) for s in spans]
        self._instructions = [e for e in recording.events if e.run and self._calls.around(e.start)]
        self._programs = _programs_of_runs(self._instructions, recording)
        # The instructions that call others, which are measured by themselves.
        self._holders = {
            (program, caller)
            for program, name in {(self._program(e), _instruction(e)) for e in self._instructions}
            for caller in program.callers(name)
        }

    def _program(self, event: Measured) -> Program:
        return self._programs[event.run]

    def profile(self, name: str, runs: int, first: FirstCall | None) -> Profile:
        """What the user is told: seconds of a call."""
        of_places: dict[Place, float] = defaultdict(float)
        of_instructions: dict[tuple[str, str], float] = defaultdict(float)
        for work, nanoseconds in _shared(list(self._works())):
            seconds = nanoseconds * 1e-9 / runs
            for place, part in work.shares.items():
                of_places[place] += seconds * part
            if isinstance(work.key, _Run):
                of_instructions[work.key.module, work.key.instruction] += seconds
        operations = [Operation(*place, t) for place, t in of_places.items() if t]
        operations.sort(key=lambda operation: -operation.seconds)
        computing = sum(operation.seconds for operation in operations)
        times = Times(*[nanoseconds * 1e-9 / runs for nanoseconds in self._times(computing * 1e9 * runs)])
        trace = list(self._stretches())
        return Profile(name, runs, first, times, tuple(operations), dict(of_instructions), trace)

    def _works(self) -> Iterator[_Work]:
        for event in self._instructions:
            program = self._program(event)
            name = program.named(_instruction(event))
            shares = self._shares(event)
            marks = self._marks.around(event.start)
            if marks and NOWHERE in shares:  # an eager operation, the mark of which has its line
                continue
            run = _Run(event.run, str(event.details.get("hlo_module", "")), name)
            hides = [run._replace(instruction=caller) for caller in program.callers(name)]
            # Some ends are told late, but a call returns when all is done.
            end = min(event.done, self._calls.events[self._calls.around(event.start)[0]].end)
            yield _Work(event.start, end, run, shares, (*hides, *marks))
        for i, mark in enumerate(self._marks.events):
            if self._calls.around(mark.start):
                yield _Work(mark.start, mark.end, i, _shares_of_mark(mark), self._marks.outside(i))
        for span in self._spans:
            yield _Work(span.start, span.end, span, {}, self._marks.around(span.start))

    def _shares(self, event: Measured) -> Shares:
        program, name = self._program(event), _instruction(event)
        if name not in program:
            return program.shares_of_libraries if _GRAPH in event.details else {NOWHERE: 1.0}
        if (program, name) in self._holders:
            return {program.place(name): 1.0}
        return program.shares(name)

    def _times(self, computing: float) -> Times:
        calls = [(e.start, e.end) for e in self._calls.events]
        thread = self._calls.events[0].thread
        work = [*self._instructions, *self._marks.events]
        transfers = [(e.start, e.end) for e in self._recording.events if e.name.startswith(_TRANSFERS)]
        preparing = [(s.start, s.end) for s in self._spans]
        waits = list(self._recording.waits(thread))
        here = [(e.start, e.end) for e in work if e.thread == thread]

        def length(stretches: list[_Interval]) -> float:
            return union(_within(calls, stretches))

        total = union(calls)
        return Times(
            total,
            computing=computing,
            compiling=length(preparing),
            transfers=length(transfers),
            waiting=length(waits),
            python=total - length([*preparing, *transfers, *waits, *here]),
        )

    def _stretches(self) -> Iterator[Stretch]:
        """What a trace shows: instructions and eager operations by their lines, and all else under its name."""
        shown = set(map(id, self._instructions))
        names = self._recording.threads
        for event in self._recording.events:
            place = NOWHERE
            if id(event) in shown:
                place = self._program(event).place(_instruction(event))
            elif event.name == EAGER:
                (place,) = _shares_of_mark(event)
            start, end = event.start * 1e-9, event.end * 1e-9
            yield Stretch(event.name, start, end, names[event.thread], place)
        for span in self._spans:
            name = f"{span.kind} {span.of}".rstrip()
            yield Stretch(name, span.start * 1e-9, span.end * 1e-9, "before programs run", NOWHERE)


class _Run(NamedTuple):
    """An instruction in one run of a program."""

    run: Any
    module: str
    instruction: str


def _instruction(event: Measured) -> str:
    """The name of the instruction; of a CUDA graph, which runs many instructions at once, that of the kernel."""
    return event.name if _GRAPH in event.details else str(event.details["hlo_op"])


def _shares_of_mark(mark: Measured) -> Shares:
    details = mark.details
    scope, name = str(details.get("scope", "")), str(details["operation"])
    if "file" not in details:
        return {Place((), scope, name, False): 1.0}
    names = f"{details['function']}/{scope}/{name}" if scope else f"{details['function']}/{name}"
    frame = Origin(names, str(details["file"]), int(details["line"]))
    return {Place((frame,), scope, name, bool(details["backward"])): 1.0}


class _Nest:
    """Stretches of time of which each is within another one or apart from it."""

    def __init__(self, events: Sequence[Measured]):
        self.events = sorted(events, key=lambda e: (e.start, -e.end))
        self._starts = [e.start for e in self.events]
        self._outer: list[int | None] = []
        stack: list[int] = []
        for i, event in enumerate(self.events):
            while stack and self.events[stack[-1]].end <= event.start:
                stack.pop()
            self._outer.append(stack[-1] if stack else None)
            stack.append(i)

    def around(self, time: float) -> tuple[int, ...]:
        """The numbers of those that an instant is in, the innermost first."""
        i = bisect_right(self._starts, time) - 1
        return tuple(j for j in self._and_outer(i if i >= 0 else None) if self.events[j].end > time)

    def outside(self, i: int) -> tuple[int, ...]:
        """The numbers of those that one is in."""
        return tuple(self._and_outer(self._outer[i]))

    def _and_outer(self, i: int | None) -> Iterator[int]:
        while i is not None:
            yield i
            i = self._outer[i]


def _shared(works: Sequence[_Work]) -> Iterator[tuple[_Work, float]]:
    """How long each stretch of work lasted, where those that last at the same time share it, and hidden ones get none.

    >>> one = _Work(0.0, 4.0, "loop", {NOWHERE: 1.0}, ())
    >>> two = _Work(1.0, 3.0, "body", {NOWHERE: 1.0}, ("loop",))
    >>> [(work.key, time) for work, time in _shared([one, two, two._replace(end=2.0, key="other")])]
    [('loop', 2.0), ('body', 1.5), ('other', 0.5)]
    """
    spent = [0.0] * len(works)
    hidden: Counter[Any] = Counter()
    active: set[int] = set()
    lasting = [(i, w) for i, w in enumerate(works) if w.end > w.start]
    bounds = sorted([(w.start, 1, i) for i, w in lasting] + [(w.end, 0, i) for i, w in lasting])
    last = 0.0
    for time, begins, i in bounds:
        if active and time > last:
            shown = [j for j in active if works[j].shares and not hidden[works[j].key]]
            for j in shown:
                spent[j] += (time - last) / len(shown)
        last = time
        if begins:
            active.add(i)
            hidden.update(works[i].hides)
        else:
            active.remove(i)
            hidden.subtract(works[i].hides)
    return zip(works, spent, strict=True)


def union(stretches: Iterable[_Interval]) -> float:
    """How long any of the stretches lasts.

    >>> union([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total, end = 0.0, float("-inf")
    for start, stop in sorted(stretches):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def _within(outer: Sequence[_Interval], stretches: Iterable[_Interval]) -> Iterator[_Interval]:
    """The parts of the stretches that are in one of the outer ones, which are in order and apart."""
    starts = [start for start, _ in outer]
    for start, stop in stretches:
        for i in range(max(0, bisect_right(starts, start) - 1), len(outer)):
            if outer[i][0] >= stop:
                break
            if outer[i][1] > start:
                yield max(start, outer[i][0]), min(stop, outer[i][1])


def places_in(recording: Recording) -> dict[tuple[str, str], Place]:
    """Where each instruction that ran comes from, by the names of its module and its own."""
    ran = [e for e in recording.events if e.run]
    programs = _programs_of_runs(ran, recording)
    return {
        (str(e.details["hlo_module"]), _instruction(e)): programs[e.run].place(_instruction(e)) for e in ran
    }


def _programs_of_runs(events: Sequence[Measured], recording: Recording) -> dict[Any, Program]:
    """The program of each run: of those with the name of its module the one that its instructions fit best.

    Programs of one name that fit equally are versions of one function, for other shapes.
    """
    names: dict[Any, set[str]] = defaultdict(set)
    for event in events:
        names[event.run].add(_instruction(event))
    modules = {str(run[0]) for run in names}
    known: dict[str, list[Program]] = defaultdict(list)
    for text in dict.fromkeys(recording.programs()):
        if (module := module_name(text)) in modules:
            known[module].append(Program(_text_of_today(text)))
    found: dict[tuple[str, frozenset[str]], Program] = {}
    for module, ran in {(str(run[0]), frozenset(ran)) for run, ran in names.items()}:
        candidates = known[module] or [Program("")]
        found[module, ran] = max(candidates, key=lambda program: program.fits(ran))
    return {run: found[str(run[0]), frozenset(ran)] for run, ran in names.items()}


def _text_of_today(text: str) -> str:
    """The text of a program with the lines that it comes from now, where it is one that is known here."""
    name = module_name(text)
    for program in (*programs_of_functions(), *programs_of_jaxprs()):
        if program.module_name == name:
            for where, executable in program.executables().items():
                if text_of(executable.loaded) == text:
                    loaded = with_current_lines(program, where)
                    return text if loaded is None else text_of(loaded)
    return text
