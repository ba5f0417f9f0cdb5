"""Which arrays are in memory while a program runs, equation by equation.

    arrays = live_arrays(numbered)     each with its bytes, when it is made and when it is last needed

This is the memory of the program as it is written: an array is there from the equation that computes it to the last
one that reads it, arguments and results to the end. XLA fuses operations and uses memory again, so it takes less; what
it does take is in the page beside the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal
from didax.core.stack import on_new_stack, stack_is_low
from didax.debug._explore.costs import inner_jaxprs, nbytes
from didax.debug._explore.marks import Numbered
from didax.passes.simplify import dce_jaxpr

_MOST_STEPS = 200_000  # a program whose shared parts make it longer is not looked into


class LiveArray:
    """An array of the program: from which step to which it is in memory."""

    __slots__ = ("birth", "bytes", "death", "number")

    def __init__(self, number: int, size: int, birth: int):
        self.number = number  # of the equation that makes it; of the inputs -1, -2, ...
        self.bytes = size
        self.birth = self.death = birth


class Timeline(NamedTuple):
    """The steps of a program, and the arrays that are there during them."""

    # Each is the number of the equation that runs; the first step is the call, the last one the return.
    steps: Sequence[int]
    arrays: Sequence[LiveArray]

    def live(self) -> list[int]:
        """The bytes in memory during each step."""
        change = [0] * (len(self.steps) + 1)
        for array in self.arrays:
            change[array.birth] += array.bytes
            change[array.death + 1] -= array.bytes
        total, found = 0, list[int]()
        for difference in change[:-1]:
            total += difference
            found.append(total)
        return found

    def peak(self) -> int:
        """The first of the steps during which most is in memory."""
        live = self.live()
        return live.index(max(live))


def timeline(numbered: Numbered) -> Timeline:
    """What is in memory, step by step."""
    walk = _Walk(numbered)
    jaxpr, _ = dce_jaxpr(numbered.jaxpr, (True,) * len(numbered.jaxpr.outvars), keep_inputs=True)
    inputs = [LiveArray(-1 - i, nbytes(v.aval), 0) for i, v in enumerate(jaxpr.invars)]
    walk.arrays += inputs
    outs = walk.run(jaxpr, inputs)
    walk.steps.append(-1)
    for array in (*inputs, *outs):
        if array is not None:
            array.death = len(walk.steps) - 1
    return Timeline(walk.steps, walk.arrays)


class _Walk:
    def __init__(self, numbered: Numbered):
        self.numbered = numbered
        self.steps = [-1]
        self.arrays: list[LiveArray] = []

    def made(self, number: int, vs: Sequence[Atom]) -> list[LiveArray | None]:
        """New arrays of these types, made now; None for a literal."""
        step = len(self.steps) - 1
        found = [None if type(v) is Literal else LiveArray(number, nbytes(v.aval), step) for v in vs]
        self.arrays += [array for array in found if array is not None]
        return found

    def run(self, jaxpr: Jaxpr, inputs: Sequence[LiveArray | None]) -> list[LiveArray | None]:
        """Run a jaxpr on arrays; its results are the arrays that are returned."""
        if stack_is_low():
            return on_new_stack(self.run, jaxpr, inputs)
        env: dict[Atom, LiveArray | None] = dict(zip(jaxpr.invars, inputs, strict=True))
        for eqn in jaxpr.eqns:
            self.steps.append(self.numbered.number(eqn))
            operands = [env.get(x) for x in eqn.invars]
            env.update(zip(eqn.outvars, self.results(eqn, operands), strict=True))
            for array in operands:
                if array is not None:
                    array.death = len(self.steps) - 1
        return [env.get(x) for x in jaxpr.outvars]

    def results(self, eqn: Eqn, operands: Sequence[LiveArray | None]) -> list[LiveArray | None]:
        """The results of an equation."""
        inner = inner_jaxprs(eqn) if len(self.steps) < _MOST_STEPS else []
        number = self.steps[-1]
        if inner and inner[0].is_call:
            return self.run(inner[0].jaxpr, operands)  # what it returns are the arrays that were made inside
        outs = self.made(number, eqn.outvars)
        for one in inner:
            invars = one.jaxpr.invars
            shared = dict(zip(reversed(invars), reversed(operands), strict=False))
            # Operands that are passed on whole are there already; parts of them, and what is carried, are copies.
            same = [
                array if array is not None and array.bytes == nbytes(v.aval) else None
                for v in invars
                for array in [shared.get(v)]
            ]
            new = [v for v, array in zip(invars, same, strict=True) if array is None]
            copies = dict(zip(new, self.made(number, new), strict=True))
            inside = [copies[v] if array is None else array for v, array in zip(invars, same, strict=True)]
            for array in self.run(one.jaxpr, inside):
                if array is not None:
                    array.death = max(array.death, len(self.steps) - 1)
        for array in outs:
            if array is not None:
                array.death = len(self.steps) - 1
        return outs
