"""Cutting a large program into blocks that XLA compiles one by one.

`cut` splits the equations of a large jaxpr into consecutive blocks, each a jaxpr of its own. A value that
crosses a cut is written to memory instead of fused. So cuts are made only before contractions (products of matrices,
convolutions), whose operands are in memory anyway, and among nearby contractions before the one where the fewest bytes
cross. A chain of elementwise operations is left whole: when one was cut, its gradient ran 6 times slower.

Whether cutting pays follows from the longest path that no contraction interrupts, such as the state of a recurrent
network or the sum that residual layers add to. XLA computes the values on the path again in every fusion that reads
them. When such programs are cut, they compile in a third to four fifths of the time. Programs of short paths, such as
perceptrons and convolutional networks, compile up to 4 times slower when they are cut.

`kept_in_memory` is for programs that no contraction interrupts: the steps of a stencil, or of an equation of motion,
written out. Each step reads the one before at several places (slices of it, broadcasts). XLA computes the step again
for each place, with all steps before it, so the time is multiplied at each step, up to minutes. These values are
therefore written to memory, which costs a copy.
docs/design/compiling.md has the measurements.
Read next: `xla/lowering.py`, which calls each block as a function that is not to be inlined.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from typing import Any

from didax.core.dims import is_symbolic
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Var

BLOCK = 128  # equations in a block, about
WINDOW = 48  # how far a cut may move to find a cheaper place
SMALL = 3 * BLOCK  # programs up to this size are left whole
LONG = 35  # values on a path that are read more than once; programs of shorter paths are left whole
MANY = 1000  # if one result takes as many moves of elements, values are kept in memory
FEW = 16  # then one kernel is left to do as many moves of elements


def cut(jaxpr: Jaxpr) -> list[Jaxpr]:
    """The equations in consecutive blocks, or one block for a small program.

    Each block's inputs are the variables it takes from before, its outputs those that are needed after.
    """
    n = len(jaxpr.eqns)
    if n <= SMALL or longest_path(jaxpr) < LONG:
        return [jaxpr]
    last_use = last_uses(jaxpr)
    crossing = crossing_bytes(jaxpr, last_use)
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
    """The largest number of values on one path that several equations read, if no contraction interrupts the path."""
    readers = _readers(jaxpr.eqns)
    counts: dict[Atom, int] = {}
    for eqn in jaxpr.eqns:
        if not eqn.primitive.materializes_operands:
            before = max([counts.get(x, 0) for x in eqn.invars], default=0)
            for v in eqn.outvars:
                counts[v] = before + (readers[v] > 1)
    return max(counts.values(), default=0)


def _readers(eqns: Sequence[Eqn]) -> Counter[Var]:
    """How many of the equations read each variable."""
    return Counter(x for eqn in eqns for x in dict.fromkeys(eqn.invars) if type(x) is Var)


def kept_in_memory(jaxpr: Jaxpr) -> set[Var]:
    """The values to write to memory, so that XLA does not compute them again for each place at which they are read.

    These are the values that several equations read, some of them at other places. Where a computation of too many
    moves reads no such value, its result is kept as well.
    """
    if len(jaxpr.eqns) < FEW or _moves_repeated(jaxpr, set(), set()) < MANY:
        return set()
    moved = _readers([eqn for eqn in jaxpr.eqns if _moves(eqn, eqn.invars)])
    again = {x for x, n in _readers(jaxpr.eqns).items() if n > 1}
    again.update(*[_readers([eqn]) for eqn in jaxpr.eqns if _called(eqn)])  # a function may read it twice
    kept: set[Var] = set()
    _moves_repeated(jaxpr, again.intersection(moved), kept)
    return kept


def _moves_repeated(jaxpr: Jaxpr, ends: Set[Var], kept: set[Var]) -> int:
    """The most moves of computed elements that one result takes if only `ends` are in memory; exact only up to `MANY`.

    The values among `ends` are added to `kept`. If there are `ends`, so are values that take more than `FEW` moves.
    """
    counts: dict[Atom, int] = {}  # of the values that are not in memory
    most = 0
    for eqn in jaxpr.eqns:
        computed = [x for x in eqn.invars if x in counts]
        moves = n = _moves(eqn, computed) if computed else 0
        for x in computed:
            n += max(moves, 1) * counts[x]
        most = max(most, n)
        is_written = _writes(eqn)
        for v in eqn.outvars:
            if v in ends or (ends and n > FEW):
                kept.add(v)
            elif not is_written:
                counts[v] = min(n, MANY)
    return most


def _moves(eqn: Eqn, operands: Sequence[Atom]) -> int:
    """How many equations read these operands at other places: this one, or those of the function that it calls.

    Such equations have results of other sizes (slices, concatenations, broadcasts, sums), or reverse axes. XLA was not
    seen to compute anything again for other moves that keep the size, such as transposes and gathers.
    """
    if _writes(eqn):
        return 0
    if (inner := _called(eqn)) is not None:
        return sum([_moves(e, e.invars) for e in inner.eqns])
    if eqn.primitive.name == "rev":
        return 1
    out = eqn.outvars[0].aval if eqn.outvars else None
    for x in operands:
        if x.aval is not out and out is not None and x.aval.ndim and x.aval.size != out.size:
            return 1  # an operand of rank 0 does not count: a number stretches
    return 0


def _writes(eqn: Eqn) -> bool:
    """Whether XLA always writes the equation's results to memory, as those of contractions and of loops."""
    return eqn.primitive.materializes_operands or not _OF_LOOPS.isdisjoint(eqn.params)


_OF_LOOPS = frozenset({"length", "body_jaxpr", "branches"})  # parameters of loops and branches


_LITTLE = 32  # numbers, which cost less than a call


def drawn_again(jaxpr: Jaxpr) -> set[Var]:
    """Arrays made of random numbers, which XLA would draw again in each loop that reads them.

    They are draws that several equations read, and what is computed of draws, element by element, and is read by
    several loops, or is stretched: a proposal that is summed and kept, a state whose neighbours the next step reads,
    a number for each channel of an image. Of a chain of such values it is the last one that all of the loops read. What
    is computed of logarithms is left, because XLA hands it, from them on, to its library with the sums that read it: in
    memory, a softmax of Gumbel's numbers took 1.6 times as long.
    """
    if not any(map(_draws, jaxpr.eqns)):
        return set()
    readers, (ends, after, sizes) = _readers(jaxpr.eqns), _loops_that_read(jaxpr)
    fresh: set[Atom] = set()  # computed of draws that are not in memory
    again: set[Var] = set()
    for eqn in jaxpr.eqns:
        is_draw = _draws(eqn)
        if not is_draw and not any([x in fresh for x in eqn.invars if _is_at_its_places(eqn, x)]):
            continue
        (v,) = eqn.outvars
        several = ends[v].bit_count() > 1 and ends[v] not in after[v]
        several = several or (is_draw and readers[v] > 1)
        if several and not is_symbolic(sizes[v]) and sizes[v] >= _LITTLE and v.aval.size != 1:
            again.add(v)
        elif not is_draw or not _has_logarithms(eqn):
            fresh.add(v)
    return again


def _draws(eqn: Eqn) -> bool:
    """Whether it is a call of a function that draws random numbers; a loop's results are in memory."""
    inner = _called(eqn)
    if inner is None or "length" in eqn.params or len(eqn.outvars) != 1:
        return False
    return any([e.primitive.is_drawn for e in inner.eqns])


def _has_logarithms(eqn: Eqn) -> bool:
    return any([e.primitive.name in ("log", "log1p") for inner in eqn.jaxprs for e in inner.eqns])


def _is_at_its_places(eqn: Eqn, x: Atom) -> bool:
    """Whether XLA computes the result in a loop that reads `x`, which has its size, at the same places."""
    return (
        type(x) is Var
        and len(eqn.outvars) == 1
        and not _writes(eqn)
        and eqn.outvars[0].aval.size == x.aval.size
    )


def _loops_that_read(jaxpr: Jaxpr) -> tuple[dict[Atom, int], dict[Atom, list[int]], dict[Atom, Any]]:
    """The loops that read each value, those of the values computed of it at its places, and the elements of the loops.

    A loop is a bit. One that reads an element several times, as it is stretched, is two.
    """
    ends: dict[Atom, int] = defaultdict(int)
    after: dict[Atom, list[int]] = defaultdict(list)
    sizes: dict[Atom, Any] = {v: v.aval.size for eqn in jaxpr.eqns for v in eqn.outvars}
    for i, v in enumerate(dict.fromkeys(jaxpr.outvars)):
        ends[v] = 1 << i
    bit = 1 << len(jaxpr.outvars)
    for eqn in reversed(jaxpr.eqns):
        bit <<= 2
        for x in dict.fromkeys(eqn.invars):
            if _is_at_its_places(eqn, x):
                ends[x] |= ends[eqn.outvars[0]]
                after[x].append(ends[eqn.outvars[0]])
                sizes[x] = sizes[eqn.outvars[0]]
            elif type(x) is Var:
                ends[x] |= bit
                if x in sizes and _stretches(eqn, x):
                    ends[x] |= bit << 1
                    sizes[x] = eqn.outvars[0].aval.size
    return ends, after, sizes


def _stretches(eqn: Eqn, x: Atom) -> bool:
    sizes = [aval.size for aval in (x.aval, *[v.aval for v in eqn.outvars])]
    return (
        eqn.primitive.name == "broadcast_in_dim" and not any(map(is_symbolic, sizes)) and sizes[0] < sizes[1]
    )


def _called(eqn: Eqn) -> Jaxpr | None:
    """The function that the equation calls."""
    inner = eqn.params.get("jaxpr")
    return inner if isinstance(inner, Jaxpr) else None


def last_uses(jaxpr: Jaxpr) -> dict[Atom, int]:
    """The last equation that uses each variable; results of the program are used after all."""
    last: dict[Atom, int] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        for x in eqn.invars:
            last[x] = i
    for x in jaxpr.outvars:
        last[x] = len(jaxpr.eqns)
    return last


def crossing_bytes(jaxpr: Jaxpr, last_use: dict[Atom, int]) -> list[int]:
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
