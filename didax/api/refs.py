"""Refs at the edges of transformations: their values go in, and what was written comes out and is stored.

A function that is given a Ref has inside a Ref of its own, at home in the trace that runs it (`RefArguments`). Compiled
programs may reuse the memory of Refs that they write to, and nobody else uses these Refs meanwhile (`borrowed`).
Read next: `core/ref.py` (cells), `transforms/staging.py` (Refs that a function closes over).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Sequence
from typing import Any

from didax.api.flat import argument_names, as_array, flatten_arguments, leaf_avals
from didax.core import pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.ref import Cell, Ref
from didax.core.source import describe_function
from didax.runtime.array import ConcreteArray, seen_by_host


class RefArguments:
    """A function of leaves, some of which are Refs, as a function of their values.

    Its results are the last values of the Refs that it wrote to (`written`: their positions), then those of `fun`.
    """

    __slots__ = ("fun", "positions", "written")

    def __init__(self, fun: Callable[..., Sequence[Any]], positions: Sequence[int]):
        self.fun = fun
        self.positions = positions
        self.written: tuple[int, ...] = ()

    def __call__(self, *values: Any) -> list[Any]:
        leaves = list(values)
        for i in self.positions:
            leaves[i] = Ref(values[i])
        outs = self.fun(*leaves)
        cells = {i: _open_cell(leaves[i]) for i in self.positions}
        self.written = tuple(i for i, cell in cells.items() if cell.written)
        return [*(cells[i].value for i in self.written), *outs]


def _open_cell(ref: Ref) -> Cell:
    if ref.cell is None:
        rule = "A function cannot freeze or free a Ref that it was given as an argument."
        fix = "Read it with ref[...], and freeze it where it was made."
        raise ValueError(message(rule, *ref.facts(), fix=fix))
    return ref.cell


def leaf_types(what: str, f: Any, args: Any, kwargs: Any) -> tuple[list[ShapedArray], list[int]]:
    """Types of all leaves, of Refs those of their contents, and which leaves are Refs.

    TypeError for a leaf that is neither array, scalar nor Ref; ValueError where one Ref is given twice.
    """
    leaves, _ = flatten_arguments(args, kwargs)
    refs = [i for i, x in enumerate(leaves) if isinstance(x, Ref)]
    try:
        avals = [x.type if isinstance(x, Ref) else aval_of(x) for x in leaves]
    except TypeError:
        leaf_avals(what, f, *pytree.map(without_ref, (args, kwargs)))  # raises, naming the argument
        raise
    if len({id(leaves[i]) for i in refs}) < len(refs):
        _check_distinct(what, f, leaves, argument_names(f, args, kwargs))
    return avals, refs


def without_ref(x: Any) -> Any:
    """None, which has no leaves, in the place of a Ref."""
    return None if isinstance(x, Ref) else x


def _check_distinct(what: str, f: Any, operands: Sequence[Any], names: Sequence[str]) -> None:
    """ValueError where one Ref is among the operands twice: a write to the one would not be seen in the other."""
    places: dict[Ref, str] = {}
    for x, name in zip(operands, names, strict=True):
        if isinstance(x, Ref) and (other := places.setdefault(x, name)) != name:
            raise ValueError(
                message(
                    f"A function given to {what} meets one Ref in two places.",
                    f"function: {describe_function(f)}",
                    f"places: {other}, {name}",
                    *x.facts(),
                    fix="Pass it once, as one argument, and do not close over it as well.",
                )
            )


def check_not_captured(what: str, f: Any, captured: Sequence[Any], leaves: Sequence[Any]) -> None:
    """ValueError where the function closes over a Ref that it is also given as an argument."""
    for x in captured:
        if isinstance(x, Ref) and any(x is leaf for leaf in leaves):
            names = ["closed over", *(f"argument {i}" for i in range(len(leaves)))]
            _check_distinct(what, f, [x, *leaves], names)


def closing_over_refs(f: Callable[..., Any], leaves: Sequence[Any], tree: Any) -> Callable[..., Any]:
    """`f`, with the Refs among the leaves of its `(args, kwargs)` closed over, as a function of the other leaves."""

    @functools.wraps(f)
    def of_the_others(*others: Any) -> Any:
        given = iter(others)
        args, kwargs = pytree.unflatten(tree, [x if isinstance(x, Ref) else next(given) for x in leaves])
        return f(*args, **kwargs)

    return of_the_others


def other_leaves(leaves: Sequence[Any]) -> list[Any]:
    """The leaves that are no Refs."""
    return [x for x in leaves if not isinstance(x, Ref)]


def store(refs: Sequence[Ref], outs: Sequence[Any]) -> Sequence[Any]:
    """Write the leading outputs of a program to Refs, one to each; returns the other outputs."""
    for ref, y in zip(refs, outs, strict=False):
        ref.write(as_array(y))
    return outs[len(refs) :] if refs else outs


@contextlib.contextmanager
def borrowed(
    operands: Sequence[Any], replaced: Sequence[int], alone: bool
) -> Generator[tuple[list[Any], dict[int, Cell]]]:
    """Concrete values of the operands, and the cells of the Refs among them; `alone`, all others wait meanwhile.

    Of the Refs at the positions `replaced` the program may reuse the memory: where others can see it, they are copied.
    """
    refs = {i: x for i, x in enumerate(operands) if isinstance(x, Ref)}
    with contextlib.ExitStack() as locks:
        if alone:
            for ref in sorted(
                refs.values(), key=id
            ):  # in one order everywhere: no two calls wait for each other
                locks.enter_context(ref.lock)
        cells = {i: ref.location().cell for i, ref in refs.items()}
        values = list(operands)
        for i, cell in cells.items():
            values[i] = own_value(cell, alone) if i in replaced else cell.value
        yield values, cells


def own_value(cell: Cell, alone: bool = True) -> Any:
    """The cell's value in memory that nobody else sees, nor comes to see where others do not wait."""
    value: ConcreteArray = cell.value
    return value.__copy__() if cell.shared or seen_by_host(value) or not alone else value
