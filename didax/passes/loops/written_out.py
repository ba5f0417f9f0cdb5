"""Equal steps that a program writes out, as a scan: XLA compiles one step instead of hundreds.

    h = f(h); h = f(h); ...; h = f(h)        becomes        scan(f, h, length=n)

A Python loop over steps of an equation of motion, of a recurrent net or of an optimiser leaves such a program, and its
gradient leaves two: the steps forward, and those backward, which read what the steps forward computed. XLA makes one
kernel of them, whose time to compile grows faster than its length.

A run is a stretch of equations that repeat with a period. It becomes a scan if every operand of its equations is one of
these: a value of the same step; one of an earlier step, which is carried; the same value in all steps; a number of each
step, or a value that the steps of another run computed, which are stacked. So the operations and their order stay, and
results are equal within rounding.

The rule: at least `MIN_STEPS` steps, of `MIN_REPEATED` equations together, in a program of `LONG`. Arrays of a step are
short, so that they stay in the caches where one kernel would keep them in registers, and what is stacked is at most
`MAX_STACKED` bytes. docs/design/compiling.md has the measurements. Read next: `driver.py`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core.array_ops import array_ops
from didax.core.dims import is_symbolic
from didax.core.dtypes import as_extended
from didax.core.exact import exact
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from didax.passes.loops.notes import Note, note
from didax.passes.loops.rewrite import copied, equations_of, is_long, num_bytes, substitute
from didax.passes.simplify import simplify_jaxpr
from didax.primitives.call import jit_p
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.elementwise import add
from didax.primitives.families import Elementwise
from didax.primitives.shape import reshape, reshape_p, transpose_p
from didax.primitives.slicing import concatenate, rev, slice_, slice_axis, slice_p
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import Constants
from didax.xla.platforms import platform

RULE = "written out"
MIN_STEPS = 16
MIN_REPEATED = 32  # in a run
WINDOW = 8  # equations in a row by which periods are found
MAX_STACKED = 1 << 20  # bytes
MAX_ELEMENTS = 1024  # of anything that steps of elementwise operations compute: XLA keeps it in registers
MAX_MOVED = 4096  # of anything that other steps compute, but for products and their sums
MAX_SUMMED = 1 << 16  # elements of such products and sums
MAX_JOINED = 1 << 14  # bytes of separate values that are joined to an array for the scan
MAX_ALONE = 8  # steps whose values are read one by one instead of as rows of a stack
MAX_TRIED = 16  # runs looked at in a program

Place = tuple[int, int]  # the equation of a step, and which of its results


@dataclasses.dataclass(eq=False)
class _Run:
    """Equations `start` to `start + period * steps`, and as which scan they are written."""

    start: int
    period: int
    steps: int
    body: list[Eqn] = dataclasses.field(default_factory=list)
    values: dict[Place, Var] = dataclasses.field(default_factory=dict)  # of a step, in the body
    consts: dict[Var, Var] = dataclasses.field(default_factory=dict)
    carried: dict[Any, _Carried] = dataclasses.field(default_factory=dict)
    rows: dict[Any, _Row] = dataclasses.field(default_factory=dict)
    is_scan: bool | None = None
    reverse: bool = False
    stacked: dict[Place, Var] = dataclasses.field(default_factory=dict)

    @property
    def stop(self) -> int:
        return self.start + self.period * self.steps

    def stored(self, t: int) -> int:
        """Where in the stacked results those of step `t` are."""
        return self.steps - 1 - t if self.reverse else t


@dataclasses.dataclass(eq=False)
class _Carried:
    """A value of an earlier step: the registers that hold it, and what they start from."""

    source: Place
    registers: list[Var]
    start: list[Atom]


@dataclasses.dataclass(eq=False)
class _Row:
    """Values that differ between steps, `atoms`: rows of an array. They may be stacked results of an earlier run."""

    var: Var
    atoms: Sequence[Atom]
    source: tuple[_Run, Place] | None = None
    first: int = 0  # where those of step 0 are in that run's stacked results
    forward: bool = True
    # An array of which they are slices, and the bounds of all of them in it.
    slices: tuple[Atom, tuple[int, ...], tuple[int, ...]] | None = None

    @property
    def is_stacked(self) -> bool:
        """Whether they are rows of an array that exists already."""
        return self.source is not None or self.slices is not None


class _Found(NamedTuple):
    """The program with scans, or None if it has no equal steps; and a note on each scan."""

    jaxpr: Jaxpr | None
    notes: tuple[Note, ...]


def with_scans(jaxpr: Jaxpr) -> tuple[Jaxpr, tuple[Note, ...]]:
    """The program with scans in the place of equal steps, and a note on each; the same object if it has none."""
    if platform() != "cpu" or not is_long(jaxpr):
        return jaxpr, ()
    found = _with_scans(jaxpr)
    return found.jaxpr or jaxpr, found.notes


@cached_on_jaxpr
def _with_scans(jaxpr: Jaxpr) -> _Found:
    simple = simplify_jaxpr(jaxpr, True)  # remembered: the lowering asks for the same
    simple = _with_slices_first(_with_functions_inside(simple))
    runs = _Program(simple).runs() if is_long(simple) else []
    return _written(simple, runs) if runs else _Found(None, ())


def _with_functions_inside(jaxpr: Jaxpr) -> Jaxpr:
    """The program with the equations of long functions that are called once, as the halves of a gradient are."""
    calls = Counter([inner for eqn in jaxpr.eqns for inner in eqn.jaxprs])
    eqns: list[Eqn] = []
    names: dict[Any, Atom] = {}
    for eqn in jaxpr.eqns:
        inner = eqn.params["jaxpr"] if eqn.primitive is jit_p else None
        if inner is None or calls[inner] > 1 or len(inner.eqns) < MIN_REPEATED:
            eqns.append(substitute(eqn, names))
            continue
        inner = copied(_with_functions_inside(simplify_jaxpr(inner, True)))
        atoms = [names.get(x, x) for x in eqn.invars]
        env: dict[Any, Atom] = dict(zip(inner.invars, atoms, strict=True))
        eqns += [substitute(e, env) for e in inner.eqns]
        names.update(zip(eqn.outvars, [env.get(x, x) for x in inner.outvars], strict=True))
    return Jaxpr(jaxpr.invars, eqns, [names.get(x, x) for x in jaxpr.outvars], jaxpr.name)


def _with_slices_first(jaxpr: Jaxpr) -> Jaxpr:
    """The program with slices of its inputs before all else: each step takes another one, so steps would differ."""
    early: set[Atom] = set(jaxpr.invars)
    first: list[Eqn] = []
    rest: list[Eqn] = []
    for eqn in jaxpr.eqns:
        if eqn.primitive in (slice_p, reshape_p) and eqn.invars[0] in early:
            early.update(eqn.outvars)
            first.append(eqn)
        else:
            rest.append(eqn)
    return Jaxpr(jaxpr.invars, [*first, *rest], jaxpr.outvars, jaxpr.name)


# --- Stretches that repeat ----------------------------------------------------------------------------


def _numbers(jaxpr: Jaxpr) -> np.ndarray[Any, Any]:
    """A number for each equation, which equations of the same operation and types share."""
    seen: dict[Any, int] = {}
    found: list[int] = []
    alone = 0
    for eqn in jaxpr.eqns:
        if not _may_be_in_loop(eqn):
            alone -= 1
            found.append(alone)
            continue
        params = tuple(eqn.params.items())
        if eqn.primitive.exact_params:
            params = exact(params)
        types = tuple([(type(x), x.aval) for x in eqn.invars]), tuple([v.aval for v in eqn.outvars])
        found.append(seen.setdefault((eqn.primitive, params, types), len(seen)))
    return np.array(found)


def _may_be_in_loop(eqn: Eqn) -> bool:
    if eqn.effects:
        return False
    is_summed = eqn.primitive.materializes_operands or eqn.primitive in (add, transpose_p)
    most = MAX_SUMMED if is_summed else MAX_MOVED
    if any([v.aval.size > most for v in eqn.outvars]):
        return False
    for x in (*eqn.invars, *eqn.outvars):
        aval = x.aval
        if is_symbolic(aval.size) or aval.size == 0 or aval.vma or aval.layout is not None:
            return False
        if as_extended(aval.dtype) is not None:
            return False
    return True


def _is_better_whole(body: Sequence[Eqn]) -> bool:
    """Whether the steps are one kernel that goes through long arrays once."""
    largest = max(v.aval.size for eqn in body for v in eqn.outvars)
    return largest > MAX_ELEMENTS and all(isinstance(eqn.primitive, Elementwise) for eqn in body)


def _stretch(numbers: np.ndarray[Any, Any]) -> tuple[int, int, int] | None:
    """Start, stop and period of the longest stretch that repeats, with the shortest of periods that are as good."""
    best = None
    longest = MIN_REPEATED - 1
    for period in _periods(numbers):
        differ = np.flatnonzero(numbers[period:] != numbers[:-period])
        ends = np.concatenate([[-1], differ, [len(numbers) - period]])
        lengths = np.diff(ends) - 1
        k = int(lengths.argmax())
        length = int(lengths[k]) + period
        if length > longest and length >= MIN_STEPS * period:
            best = int(ends[k]) + 1, int(ends[k]) + 1 + length, period
            longest = length + length // 8
    return best


def _periods(numbers: np.ndarray[Any, Any]) -> list[int]:
    """Distances at which `WINDOW` equations in a row come again, often enough for a stretch; the shortest first."""
    if len(numbers) < MIN_REPEATED:
        return []
    windows = np.zeros(len(numbers) - WINDOW + 1, np.int64)
    for k in range(WINDOW):
        windows = windows * 1_000_003 + numbers[k : k + len(windows)]  # a hash, which wraps around
    order = np.argsort(windows, kind="stable")
    distances = np.diff(order)[np.diff(windows[order]) == 0]
    found, counts = np.unique(distances, return_counts=True)
    return [int(d) for d in found[counts >= MIN_STEPS - 2] if d <= len(numbers) // MIN_STEPS]


class _Program:
    """A program in which runs are looked for."""

    def __init__(self, jaxpr: Jaxpr):
        self.jaxpr, self.eqns, self.inputs = jaxpr, jaxpr.eqns, set(jaxpr.invars)
        self.defined = {v: (i, o) for i, eqn in enumerate(jaxpr.eqns) for o, v in enumerate(eqn.outvars)}
        self.numbers = _numbers(jaxpr)
        self.last_use = {x: i for i, eqn in enumerate(jaxpr.eqns) for x in eqn.invars}
        self.last_use.update(dict.fromkeys(jaxpr.outvars, len(jaxpr.eqns)))
        self.at: dict[int, _Run] = {}  # the run of each equation

    def runs(self) -> list[_Run]:
        """The runs that become scans, in order."""
        stretches: list[list[_Run]] = []
        numbers = self.numbers.copy()
        for _ in range(MAX_TRIED):
            stretch = _stretch(numbers)
            if stretch is None:
                break
            stretches.append(list(self._cuts(*stretch)))  # one at least
            start, stop, _ = stretch
            numbers[start:stop] = np.arange(-stop - 1, -start - 1) - len(numbers)
        stretches.sort(key=lambda cuts: cuts[0].start)
        left: set[_Run] = set()
        while True:  # a run that is left may be what another one reads
            self.at = {}
            accepted: list[_Run] = []
            for cuts in stretches:
                run = next((run for run in cuts if run not in left and self._resolved(run)), None)
                if run is not None:
                    accepted.append(run)
                    self.at.update(dict.fromkeys(range(run.start, run.stop), run))
            alone = _read_alone(self.jaxpr, accepted)
            apart = [run for run in accepted if self._is_taken_apart(run, alone)]
            if not apart:
                return accepted
            left.update(apart)

    def _is_taken_apart(self, run: _Run, alone: set[Atom]) -> bool:
        """Whether values of many steps are read one by one."""
        return any(
            sum(v in alone for v in _of_steps(self.jaxpr, run, place)) > MAX_ALONE for place in run.values
        )

    def _cuts(self, start: int, stop: int, shortest: int) -> Iterator[_Run]:
        """The runs that a stretch may become. Steps begin where the fewest bytes cross; those at the ends may be left.

        A step may also span several periods, because the operands of one period may come from other places than those
        of the next.
        """
        for period in range(shortest, 5 * shortest, shortest):
            middle = start + (stop - start) // (2 * period) * period
            if stop - start < MIN_STEPS * period:
                break
            crossing = self._crossing(middle, min(middle + 2 * period, stop), period)
            first = start + crossing.index(min(crossing))
            steps = (stop - first) // period
            for before, after in ((0, 0), (1, 0), (1, 1), (2, 0), (2, 2), (3, 3)):
                if not before or steps - before - after >= MIN_STEPS // 2:
                    yield _Run(first + before * period, period, steps - before - after)

    def _crossing(self, middle: int, stop: int, period: int) -> list[int]:
        """For each place in the step at `middle`, the bytes of what is computed before it and read after it."""
        last = {x: i for i in range(middle, stop) for x in self.eqns[i].invars}
        change = [0] * (period + 1)
        for i in range(middle - period, middle + period):
            for v in self.eqns[i].outvars:
                begin, end = max(i + 1 - middle, 0), min(last.get(v, 0) + 1 - middle, period)
                if begin < end:
                    change[begin] += num_bytes(v.aval)
                    change[end] -= num_bytes(v.aval)
        return list(itertools.accumulate(change))[:period]

    # --- What each operand is ---

    def _place(self, x: Atom, run: _Run) -> tuple[int, Place] | None:
        """The step of the run that computes the value, and where."""
        i, o = self.defined.get(x, (-1, 0))  # type: ignore[arg-type]
        if not run.start <= i < run.stop:
            return None
        t, j = divmod(i - run.start, run.period)
        return t, (j, o)

    def _is_scan(self, run: _Run) -> bool:
        """Whether the run can be a scan; its body is written when this is first asked."""
        if run.is_scan is None:
            run.is_scan = self._wired(run)
        return run.is_scan

    def _wired(self, run: _Run) -> bool:
        for j in range(run.period):
            at = [self.eqns[run.start + t * run.period + j] for t in range(run.steps)]
            invars: list[Atom] = []
            for atoms in zip(*[eqn.invars for eqn in at], strict=True):
                x = self._operand(run, j, atoms)
                if x is None:
                    return False
                invars.append(x)
            outvars = [Var(v.aval) for v in at[0].outvars]
            run.values.update({(j, o): v for o, v in enumerate(outvars)})
            run.body.append(at[0].replace(invars=invars, outvars=outvars))
        return True

    def _operand(self, run: _Run, j: int, atoms: Sequence[Atom]) -> Atom | None:
        """The atom of the body for an operand that is `atoms[t]` in step t; None if a scan has no such operand."""
        if type(atoms[0]) is Literal:
            bits = [np.asarray(x.val, x.aval.dtype).tobytes() for x in atoms]  # type: ignore[union-attr]
            if len(set(bits)) == 1:
                return atoms[0]
            key = (atoms[0].aval, *bits)
            return run.rows.setdefault(key, _Row(Var(atoms[0].aval), atoms)).var
        places = [self._place(x, run) for x in atoms]
        last = places[-1]
        if last is None:
            if any(places):
                return None
            if len(set(atoms)) == 1:
                return run.consts.setdefault(atoms[0], Var(atoms[0].aval))
            return run.rows.setdefault(atoms, _Row(Var(atoms[0].aval), atoms)).var
        t, source = last
        delay = run.steps - 1 - t
        if places != [None] * delay + [(t, source) for t in range(run.steps - delay)]:
            return None
        if delay == 0:
            return run.values[source]
        if delay > 4:
            return None
        start = list(atoms[:delay])
        key = (source, *start)
        made = _Carried(source, [Var(atoms[0].aval) for _ in start], start[::-1])
        return run.carried.setdefault(key, made).registers[-1]

    # --- What is stacked ---

    def _resolved(self, run: _Run) -> bool:
        """Find out where the rows of the run come from; returns whether what it joins and stacks is small."""
        if not self._is_scan(run) or _is_better_whole(run.body):
            return False
        joined = 0
        for row in run.rows.values():
            row.source = row.slices = None
            if type(row.atoms[0]) is Var and not self._is_of_run(row) and not self._is_of_array(row):
                if not self.inputs.issuperset(row.atoms):
                    return False
                joined += sum(num_bytes(x.aval) for x in row.atoms)
        run.reverse = not any(row.source is not None and row.forward for row in run.rows.values())
        run.reverse = run.reverse and any(row.source is not None for row in run.rows.values())
        read_later = {
            (j, o)
            for j in range(run.period)
            for o in range(len(self.eqns[run.start + j].outvars))
            if self._is_read_later(run, j, o)
        }
        stacked = sum(num_bytes(run.values[place].aval) for place in read_later) * run.steps
        return joined <= MAX_JOINED and stacked <= MAX_STACKED

    def _is_read_later(self, run: _Run, j: int, o: int) -> bool:
        """Whether equations after the run read this value of a step before the last."""
        indices = range(run.start + j, run.stop - run.period, run.period)
        return any(self.last_use.get(self.eqns[i].outvars[o], 0) >= run.stop for i in indices)

    def _is_of_run(self, row: _Row) -> bool:
        """Whether the values of a row are the stacked results of an earlier run, in either direction."""
        source = self.at.get(self.defined.get(row.atoms[0], (-1, 0))[0])  # type: ignore[arg-type]
        if source is None:
            return False
        places = [self._place(x, source) for x in row.atoms]
        if places[0] is None or places[1] is None:
            return False
        (t, place), (u, _) = places[0], places[1]
        if abs(u - t) != 1 or places != [(t + k * (u - t), place) for k in range(len(places))]:
            return False
        row.source = source, place
        row.first = source.stored(t)
        row.forward = source.stored(u) > row.first
        return True

    def _is_of_array(self, row: _Row) -> bool:
        """Whether the values of a row are slices of one array, one after the other along its first axis."""
        bounds = [self._bounds(x) for x in row.atoms]
        if None in bounds:
            return False
        (array, starts, limits), (_, second, _) = bounds[0], bounds[1]  # type: ignore[misc]
        step = second[0] - starts[0]
        if abs(step) != 1 or limits[0] != starts[0] + 1:
            return False
        for t, found in enumerate(bounds):
            at = starts[0] + t * step
            if found != (array, (at, *starts[1:]), (at + 1, *limits[1:])):
                return False
        low = min(starts[0], starts[0] + step * (len(bounds) - 1))
        row.slices = array, (low, *starts[1:]), (low + len(bounds), *limits[1:])
        row.forward = step > 0
        return True

    def _bounds(self, x: Atom) -> tuple[Atom, tuple[int, ...], tuple[int, ...]] | None:
        """The array that the value is a slice of, in another shape or not, and where."""
        eqn = self._definition(x)
        if eqn is not None and eqn.primitive is reshape_p:
            eqn = self._definition(eqn.invars[0])
        if eqn is None or eqn.primitive is not slice_p or eqn.params["strides"] is not None:
            return None
        starts, limits = eqn.params["start_indices"], eqn.params["limit_indices"]
        return (eqn.invars[0], starts, limits) if starts else None

    def _definition(self, x: Atom) -> Eqn | None:
        i = self.defined.get(x, (-1, 0))[0]  # type: ignore[arg-type]
        return self.eqns[i] if 0 <= i and i not in self.at else None


# --- Writing the scans ----------------------------------------------------------------------------------


def _written(jaxpr: Jaxpr, runs: Sequence[_Run]) -> _Found:
    alone = _read_alone(jaxpr, runs)
    for run in runs:
        for row in run.rows.values():
            if row.source is not None:
                source, place = row.source
                source.stacked.setdefault(place, _stack_of(source, place))
    eqns: list[Eqn] = []
    notes: list[Note] = []
    done = 0
    for run in runs:
        eqns += jaxpr.eqns[done : run.start]
        scan, around = _scan(jaxpr, run, alone)
        eqns += around[0] + [scan] + around[1]
        facts = f"{run.steps} equal steps of {run.period} operations"
        notes.append(note(scan, RULE, True, facts))
        done = run.stop
    eqns += jaxpr.eqns[done:]
    return _Found(Jaxpr(jaxpr.invars, eqns, jaxpr.outvars, jaxpr.name), tuple(notes))


def _stack_of(run: _Run, place: Place) -> Var:
    return Var(run.values[place].aval.with_axis(0, run.steps))


def _of_steps(jaxpr: Jaxpr, run: _Run, place: Place) -> list[Var]:
    """The variables of a value in all steps."""
    j, o = place
    return [eqn.outvars[o] for eqn in jaxpr.eqns[run.start + j : run.stop : run.period]]


def _read_alone(jaxpr: Jaxpr, runs: Sequence[_Run]) -> set[Atom]:
    """The values that are read otherwise than as rows of what a run stacks."""
    inside = {i for run in runs for i in range(run.start, run.stop)}
    read: set[Atom] = {x for x in jaxpr.outvars if type(x) is Var}
    for i, eqn in enumerate(jaxpr.eqns):
        if i not in inside:
            read.update([x for x in eqn.invars if type(x) is Var])
    for run in runs:
        read.update(run.consts)
        read.update([x for c in run.carried.values() for x in c.start if type(x) is Var])
        read.update(
            [x for row in run.rows.values() if not row.is_stacked for x in row.atoms if type(x) is Var]
        )
    return read


def _scan(jaxpr: Jaxpr, run: _Run, alone: set[Atom]) -> tuple[Eqn, tuple[list[Eqn], list[Eqn]]]:
    """The scan of a run, and the equations before and after it."""
    line = run.body[0].source
    before: list[Eqn] = []
    after: list[Eqn] = []
    xs = [_array_of(run, row, before) for row in run.rows.values()]
    carry_in: list[Var] = []
    carry_out: list[Atom] = []
    starts: list[Atom] = []
    results: list[Var] = []
    last: dict[Place, Var] = {}  # values of the last step, which the scan returns
    for carried in run.carried.values():
        carry_in += carried.registers
        carry_out += [run.values[carried.source], *carried.registers[:-1]]
        starts += carried.start
        outs = [Var(v.aval) for v in carried.registers]
        results += outs
        last.setdefault(carried.source, outs[0])
    for j, o in run.values:
        of_steps = _of_steps(jaxpr, run, (j, o))
        read = [t for t, v in enumerate(of_steps) if v in alone]
        if read and read != [run.steps - 1]:
            run.stacked.setdefault((j, o), _stack_of(run, (j, o)))
        elif read and (j, o) not in last and (j, o) not in run.stacked:
            aval = run.values[j, o].aval
            eqns, (zeros,) = equations_of(lambda aval=aval: [array_ops.zeros(aval)], [], line)
            before += eqns
            carry_in.append(Var(aval))
            carry_out.append(run.values[j, o])
            starts.append(zeros)
            last[j, o] = Var(aval)
            results.append(last[j, o])
        for t in read:
            if t == run.steps - 1 and (j, o) in last:
                outs = results.index(last[j, o])
                results[outs] = last[j, o] = of_steps[t]
            else:
                after += _taken(run.stacked[j, o], run.stored(t), of_steps[t], line)
    consts = run.consts
    body = Jaxpr(
        [*consts.values(), *carry_in, *[row.var for row in run.rows.values()]],
        run.body,
        [*carry_out, *[run.values[place] for place in run.stacked]],
        "steps",
    )
    params = {
        "jaxpr": body, "num_consts": len(consts), "num_carry": len(carry_in), "length": run.steps,
        "reverse": run.reverse, "unroll": 1,
    }  # fmt: skip
    scan = Eqn(scan_p, [*consts, *starts, *xs], params, [*results, *run.stacked.values()], line)
    return scan, (before, after)


def _array_of(run: _Run, row: _Row, before: list[Eqn]) -> Atom:
    """The array whose rows the scan takes; the equations that make it are added to `before`."""
    line, steps, aval = run.body[0].source, run.steps, row.var.aval
    if row.is_stacked:
        if row.source is not None:
            source, place = row.source
            low = row.first if row.forward else row.first - (steps - 1)
            whole, rows_of = source.stacked[place], lambda x: slice_axis(x, low, low + steps, 0)
        else:
            whole, starts, limits = row.slices  # type: ignore[misc]
            rows_of = lambda x: reshape(slice_(x, starts, limits), (steps, *aval.shape))
        flip = row.forward == run.reverse
        eqns, (array,) = equations_of(
            lambda x: [rev(rows_of(x), (0,)) if flip else rows_of(x)], [whole], line
        )
        before += eqns
        return array
    atoms = row.atoms[::-1] if run.reverse else row.atoms
    if type(atoms[0]) is Literal:
        numbers = np.array([np.asarray(x.val, aval.dtype) for x in atoms])  # type: ignore[union-attr]
        array = Var(aval.strip_weak_type().with_axis(0, steps))
        before.append(Constants.equation(array, numbers))
        eqns, (array,) = equations_of(
            lambda x: [array_ops.convert(x, aval.dtype, aval.weak_type)], [array], line
        )
        before += eqns
        return array

    def joined(*xs: Any) -> list[Any]:
        return [concatenate([reshape(x, (1, *aval.shape)) for x in xs], 0)]

    eqns, (array,) = equations_of(joined, atoms, line)
    before += eqns
    return array


def _taken(stack: Var, i: int, out: Var, line: Any) -> list[Eqn]:
    """`out` as row `i` of the stack."""
    eqns, _ = equations_of(lambda x: [reshape(slice_axis(x, i, i + 1, 0), out.aval.shape)], [stack], line)
    eqns[-1] = eqns[-1].replace(outvars=[out])
    return eqns
