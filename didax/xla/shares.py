"""Which of the user's lines an instruction of an optimised program works for, and how much for each.

    Program(text).shares["fusion.3"] = {(line 12 in "layer", "tanh"): 0.8, (line 13 in "layer", "add"): 0.2}

XLA fuses operations of several lines into one instruction, of which only the whole is measured. Its time is shared over
the operations inside in proportion to their arithmetic: a dot counts two per product, a reduction one per element that
it reads, an elementwise operation one per element of its result, transcendental functions ten, and what only moves or
repeats elements nothing, unless nothing else is there. What XLA added itself (copies, mostly) counts for the line that
made its operand, or, without such a line, for the loop or the call that it is in.
Read next: `hlo.py` (the text), `profiling.py` (what is measured), `didax/api/profile.py`.
"""

from __future__ import annotations

import functools
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from didax.xla.hlo import (
    Instruction,
    Origin,
    Places,
    arrays,
    calls,
    computations,
    elements,
    name_of,
    operand_names,
)


class Place(NamedTuple):
    """An operation of the user's program, and where it stands: the lines of the calls that it is in, its own last."""

    frames: tuple[Origin, ...]
    scope: str  # the named scopes that it is in, "model/layer"
    name: str  # "" for what XLA made itself
    is_backward: bool


NOWHERE = Place((), "", "", False)
Shares = dict[Place, float]


class Program:
    """An optimised program: for each instruction its `place`, its `shares` and its `callers`, which run it."""

    def __init__(self, text: str):
        self._places = Places(text)
        self._bodies = computations(text)
        self._of: dict[str, Instruction] = {}
        self._home: dict[str, str] = {}  # the computation of an instruction
        self._callers: dict[str, list[str]] = defaultdict(list)  # of a computation: instructions
        for name, body in self._bodies.items():
            for it in body:
                self._of[it.name], self._home[it.name] = it, name
                for callee, _ in calls(it):
                    self._callers[callee].append(it.name)
        for name in list(self._of):  # kernels of a GPU have the names of their instructions, without dots
            self._of.setdefault(_kernel(name), self._of[name])
            self._home.setdefault(_kernel(name), self._home[name])
        self.place = functools.cache(self._place)
        self.shares = functools.cache(self._shares)
        self.callers = functools.cache(self._all_callers)

    def __contains__(self, name: str) -> bool:
        return name in self._of

    def named(self, kernel: str) -> str:
        """The name of the instruction that has this name, or whose kernel has it."""
        return self._of[kernel].name if kernel in self._of else kernel

    def fits(self, ran: frozenset[str]) -> int:
        """How well the names of instructions that ran fit the program: all instructions of its entry have to run."""
        expected = {it.name for it in self._bodies.get("", ()) if it.opcode not in _NEVER_RUN}
        return len(ran & self._of.keys()) - len(
            {name for name in expected if not ran & {name, _kernel(name)}}
        )

    @functools.cached_property
    def shares_of_libraries(self) -> Shares:
        """The places of all products and convolutions that libraries compute, whose kernels have names of their own."""
        work: dict[Place, float] = defaultdict(float)
        for name in [it.name for body in self._bodies.values() for it in body if it.opcode == "custom-call"]:
            self._add_work(name, work)
        return _normalized(work) or {NOWHERE: 1.0}

    def _place(self, name: str) -> Place:
        """Where an instruction comes from; for one that XLA made, where its nearest operand or caller comes from."""
        seen: set[str] = set()
        todo = [name]
        while todo and len(seen) < _FAR:
            it = self._of.get(todo.pop(0))
            if it is None or it.name in seen:
                continue
            if frames := self._places.frames(it.attributes):
                return _place(frames, name_of(it.attributes))
            seen.add(it.name)
            todo += operand_names(it)
        found = map(self.place, self._callers[self._home[name]] if name in self._home else ())
        return next((place for place in found if place is not NOWHERE), NOWHERE)

    def _all_callers(self, name: str) -> frozenset[str]:
        """The instructions that an instruction is run by, at any depth."""
        found: set[str] = set()
        todo = list(self._callers[self._home[name]]) if name in self._home else []
        while todo:
            caller = todo.pop()
            if caller not in found:
                found.add(caller)
                todo += self._callers[self._home[caller]]
        return frozenset(found)

    def _shares(self, name: str) -> Shares:
        """The places that an instruction works for, with parts that sum to 1."""
        work: dict[Place, float] = defaultdict(float)
        self._add_work(name, work)
        return _normalized(work) or {self.place(name): 1.0}

    def _add_work(self, name: str, work: dict[Place, float]) -> None:
        inside = [callee for callee, _ in calls(self._of[name])]
        if not inside or self._of[name].opcode in _APPLIES:
            work[self.place(name)] += _arithmetic(self._of[name])
            return
        for callee in inside:
            for it in self._bodies.get(callee, ()):
                self._add_work(it.name, work)


def _kernel(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _normalized(work: dict[Place, float]) -> Shares:
    total = sum(work.values())
    return {place: each / total for place, each in work.items() if each} if total else {}


def _place(frames: tuple[Origin, ...], name: str) -> Place:
    """The place of an instruction with these lines of calls and these names.

    >>> calls = Origin("f/model/jit", "a", 3), Origin("g/transpose/model/layer/jit", "a", 9)
    >>> _place(calls, "f/model/jit/g/transpose/model/layer/jit/_normal/mul")[1:]
    ('model/layer', 'mul', True)
    """
    *path, own = name.partition(";")[0].split("/")
    return Place(frames, scopes_of(frames)[-1], own, "transpose" in path)


def scopes_of(frames: Sequence[Origin]) -> list[str]:
    """The named scopes of each line, with those of the calls around it: functions may be called inside a scope."""
    found: list[str] = []
    scope = ""
    for frame in frames:
        inner = "/".join([part for part in frame.name.split("/")[1:-1] if part != "transpose"])
        inside = f"{inner}/".startswith(f"{scope}/") or not scope
        scope = inner if inside else f"{scope}/{inner}".rstrip("/")
        found.append(scope)
    return found


_FAR = 50
_APPLIES = frozenset(("reduce", "reduce-window", "map", "scatter", "select-and-scatter", "sort"))
_NEVER_RUN = frozenset(("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"))
# fmt: off
_MOVES = frozenset((
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "broadcast", "reshape", "iota", "copy",
    "transpose", "slice", "dynamic-slice", "dynamic-update-slice", "concatenate", "pad", "gather", "reverse",
    "bitcast-convert", "convert", "after-all",
))
_HARD = frozenset((
    "tanh", "exponential", "exponential-minus-one", "log", "log-plus-one", "sine", "cosine", "tan", "power", "sqrt",
    "rsqrt", "cbrt", "logistic", "atan2", "erf", "divide", "remainder",
))
# fmt: on


def _arithmetic(it: Instruction) -> float:
    """How much an instruction computes, in operations on numbers.

    >>> _arithmetic(Instruction("y", "dot", "f32[2,3]", "(f32[2,5] a, f32[5,3] b)", ", lhs_contracting_dims={1}"))
    60.0
    """
    if it.opcode in _MOVES:
        return 0.0
    size = elements(it.result)
    if it.opcode == "dot":
        found = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", it.attributes)
        (_, shape), *_ = arrays(it.operands)
        return 2.0 * size * math.prod(shape[int(i)] for i in (found[1].split(",") if found else ()) if i)
    if it.opcode == "convolution":
        *_, (_, kernel) = arrays(it.operands)
        return 2.0 * size * math.prod(kernel)
    if it.opcode in _APPLIES:
        return float(elements(it.operands))
    return (10.0 if it.opcode in _HARD else 1.0) * size
