"""Compiled programs with Refs among their operands: a new value is written over the old one, in the same memory.

So nothing is copied. It is safe under two conditions. No array of the user's may show the old value, or it would
change: `Cell.shared` and `own_value` see to that. And no other thread may use the Ref meanwhile: `borrowed` holds its
lock. Read next: `core/ref.py` (cells), `refs.py` (Refs among arguments), `specialization.py` (who runs these).
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, cast

from didax.api.refs import RefArguments
from didax.core.ref import Cell, Ref
from didax.runtime.array import ConcreteArray, seen_by_host
from didax.runtime.compiled import Program


class RefOperands(NamedTuple):
    """Which inputs of a jaxpr, captured values first, are the values of Refs."""

    positions: tuple[int, ...]
    written: tuple[int, ...]  # those written to: their new values are the leading outputs
    num_constants: int  # the captured values before the first Ref, which never change

    def donated(self, arguments: Sequence[bool], num_inputs: int) -> list[bool]:
        """Which inputs after the constants are donated: the Refs written to, and what the user donates."""
        count = num_inputs - len(arguments)
        donated = [*[False] * count, *arguments]
        for i in self.positions:
            donated[i] = i in self.written
        return donated[self.num_constants :]


def ref_operands(captured: Sequence[Any], num_written: int, arguments: RefArguments) -> RefOperands | None:
    """The Refs among the captured values and arguments of a function that was staged; None where there are none.

    The last `num_written` of the captured values are the captured Refs that the function writes to.
    """
    count = len(captured)
    refs = [i for i, x in enumerate(captured) if isinstance(x, Ref)]
    if not refs and not arguments.positions:
        return None
    written = (*range(count - num_written, count), *(count + i for i in arguments.written))
    return RefOperands((*refs, *(count + i for i in arguments.positions)), written, count - len(refs))


def run_with_refs(program: Program, refs: RefOperands, operands: Sequence[Any]) -> list[Any]:
    """Run a program on all inputs of its jaxpr, and store what it writes to Refs; returns its other outputs."""
    replaced = [i for i in refs.written if program.uses(i - refs.num_constants)]
    inputs = operands[refs.num_constants :]
    program.prepare([x.location().cell.value if isinstance(x, Ref) else x for x in inputs])
    # Python that the program calls may use the Refs, also from another thread. It must not have to wait for the
    # program, which waits for it; so no lock is held then, and the memory of the Refs is not reused.
    exclusive = not program.calls_python
    with borrowed(operands, replaced, exclusive) as (values, cells):
        outs = program.run(values[refs.num_constants :])
        if not exclusive:
            outs = [y.block_until_ready() for y in outs]  # raises what that Python raised
        for i, y in zip(refs.written, outs, strict=False):
            cast("Ref", operands[i]).store(cells[i], y, shared=False)
    return outs[len(refs.written) :]


@contextlib.contextmanager
def borrowed(
    operands: Sequence[Any], replaced: Sequence[int], exclusive: bool
) -> Generator[tuple[list[Any], dict[int, Cell]]]:
    """Concrete values of the operands, and the cells of the Refs among them by position.

    The program may reuse the memory of the Refs at the positions `replaced`: their values are copied where an array or
    another thread may see them. With `exclusive` all other threads wait inside of the block.
    """
    refs = {i: x for i, x in enumerate(operands) if isinstance(x, Ref)}
    with contextlib.ExitStack() as locks:
        if exclusive:
            # All calls take locks in the same order, so that no two calls wait for each other.
            for ref in sorted(refs.values(), key=id):
                locks.enter_context(ref.lock)
        cells = {i: ref.location().cell for i, ref in refs.items()}
        values = list(operands)
        for i, cell in cells.items():
            values[i] = own_value(cell, exclusive) if i in replaced else cell.value
        yield values, cells


def own_value(cell: Cell, exclusive: bool = True) -> Any:
    """The cell's value in memory that no array of the user's shows; a copy where one does, or may before long.

    Without `exclusive` other threads do not wait, and may read the Ref at any time.
    """
    value: ConcreteArray = cell.value
    return value.__copy__() if cell.shared or seen_by_host(value) or not exclusive else value
