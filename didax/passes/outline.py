"""Cutting a large program into blocks that XLA compiles one by one.

`cut` splits the equations of a large jaxpr into consecutive blocks, each a jaxpr of its own. What crosses a cut is
written to memory instead of fused, so cuts are made only before contractions (products of matrices, convolutions),
whose operands are in memory anyway, and of these where the fewest bytes cross. A chain of elementwise operations is
left whole: cut, its gradient ran 6 times slower.

Whether it pays follows from the longest path that no contraction interrupts, such as the state of a recurrent network
or the sum that residual layers add to. XLA repeats the values on it in every fusion that reads them; cut, such programs
compile in a third to four fifths of the time. Programs of short paths, as those of perceptrons and convolutions,
compile up to 4 times slower when they are cut. docs/design/compiling.md has the measurements.
Read next: `xla/lowering.py`, which calls each block as a function that is not to be inlined.
"""

from __future__ import annotations

from collections import Counter

from didax.core.jaxpr import Atom, Jaxpr, Var

BLOCK = 128  # equations in a block, about
WINDOW = 48  # how far a cut may move to find a cheaper place
SMALL = 3 * BLOCK  # programs up to this size are left whole
LONG = (
    35  # values on a path that are read more than once; programs whose paths are all shorter are left whole
)


def cut(jaxpr: Jaxpr) -> list[Jaxpr]:
    """The equations in consecutive blocks, or one block for a small program.

    Each block's inputs are the variables it takes from before, its outputs those that are needed after.
    """
    n = len(jaxpr.eqns)
    if n <= SMALL or longest_path(jaxpr) < LONG:
        return [jaxpr]
    last_use = _last_uses(jaxpr)
    crossing = _crossing_bytes(jaxpr, last_use)
    blocks: list[Jaxpr] = []
    places = [i for i, eqn in enumerate(jaxpr.eqns) if eqn.primitive.materializes_operands]
    start = 0
    while start < n:
        ahead = [i for i in places if i >= start + BLOCK - WINDOW]
        near = [i for i in ahead if i < start + BLOCK + WINDOW] or ahead[:1]
        stop = min(near, key=crossing.__getitem__) if near else n
        blocks.append(_block(jaxpr, start, stop, last_use))
        start = stop
    return blocks


def longest_path(jaxpr: Jaxpr) -> int:
    """How many values on a path that no contraction interrupts are read by several equations; of the longest path."""
    readers = Counter(x for eqn in jaxpr.eqns for x in dict.fromkeys(eqn.invars) if type(x) is Var)
    counts: dict[Atom, int] = {}
    for eqn in jaxpr.eqns:
        if not eqn.primitive.materializes_operands:
            before = max([counts.get(x, 0) for x in eqn.invars], default=0)
            for v in eqn.outvars:
                counts[v] = before + (readers[v] > 1)
    return max(counts.values(), default=0)


def _last_uses(jaxpr: Jaxpr) -> dict[Atom, int]:
    """The last equation that uses each variable; results of the program are used after all."""
    last: dict[Atom, int] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        for x in eqn.invars:
            last[x] = i
    for x in jaxpr.outvars:
        last[x] = len(jaxpr.eqns)
    return last


def _crossing_bytes(jaxpr: Jaxpr, last_use: dict[Atom, int]) -> list[int]:
    """For each position, the bytes computed before it that are used at or after it."""
    n = len(jaxpr.eqns)
    change = [0] * (n + 2)
    for i, eqn in enumerate(jaxpr.eqns):
        for v in eqn.outvars:
            size = v.aval.size * v.aval.dtype.itemsize
            change[i + 1] += size
            change[last_use.get(v, i) + 1] -= size
    crossing: list[int] = []
    live = 0
    for step in change[: n + 1]:
        live += step
        crossing.append(live)
    return crossing


def _block(jaxpr: Jaxpr, start: int, stop: int, last_use: dict[Atom, int]) -> Jaxpr:
    eqns = jaxpr.eqns[start:stop]
    inside = {v for eqn in eqns for v in eqn.outvars}
    taken = {x: None for eqn in eqns for x in eqn.invars if type(x) is Var and x not in inside}  # ordered
    given = [v for eqn in eqns for v in eqn.outvars if last_use.get(v, -1) >= stop]
    return Jaxpr(list(taken), eqns, given, f"{jaxpr.name or 'main'}_part")
