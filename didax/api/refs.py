"""Refs at the edges of transformations: their values go in, and what was written comes out and is stored.

    jit(f)(ref, x)      new value, out = program(ref[...], x);    ref[...] = new value

A function that is given a Ref has inside a Ref of its own, at home in the trace that runs it (`RefArguments`). One of
four files on mutable arrays: `core/ref.py` has the class and its cells, this file what transformations do with Refs
among arguments, `ref_programs.py` how compiled programs reuse their memory, and `didax/ref.py` what users call.
Read next: `transforms/staging.py` (Refs that a function closes over).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from didax.api.flat import argument_names, as_array, flatten_arguments, leaf_avals
from didax.core import pytree
from didax.core.array_ops import instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.ref import Cell, Ref
from didax.core.source import describe_function, wraps
from didax.primitives.convert import convert_element_type
from didax.transforms.batching import AxisData, move_batch_axis, vmap_flat
from didax.transforms.jvp import jvp_flat
from didax.transforms.staging import values_of


class RefArguments:
    """A function of leaves, some of which are Refs, as a function of their values.

    Its results are the last values of the Refs that it wrote to, then the results of `fun`. `written` has the positions
    of these Refs among the leaves, once the function has run.
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


# --- The leaves of a call -------------------------------------------------------------------------


def leaf_types(caller: str, f: Any, args: Any, kwargs: Any) -> tuple[list[ShapedArray], list[int]]:
    """The types of all leaves (of a Ref the type of its contents), and the positions of the Refs among them.

    TypeError for a leaf that is neither array, scalar nor Ref; ValueError where one Ref is given twice.
    """
    leaves, _ = flatten_arguments(args, kwargs)
    refs = [i for i, x in enumerate(leaves) if isinstance(x, Ref)]
    try:
        avals = [x.type if isinstance(x, Ref) else aval_of(x) for x in leaves]
    except TypeError:
        leaf_avals(caller, f, *pytree.map(without_ref, (args, kwargs)))  # raises, naming the argument
        raise
    if len({id(leaves[i]) for i in refs}) < len(refs):
        _check_distinct(caller, f, leaves, argument_names(f, args, kwargs))
    return avals, refs


def without_ref(x: Any) -> Any:
    """`x`, or None, which has no leaves, for a Ref."""
    return None if isinstance(x, Ref) else x


def _check_distinct(caller: str, f: Any, operands: Sequence[Any], names: Sequence[str]) -> None:
    """ValueError where one Ref is two operands: inside, a write to the one would not be seen in the other."""
    places: dict[Ref, str] = {}
    for x, name in zip(operands, names, strict=True):
        if isinstance(x, Ref) and (other := places.setdefault(x, name)) != name:
            raise ValueError(
                message(
                    f"A function given to {caller} meets one Ref in two places.",
                    f"function: {describe_function(f)}",
                    f"places: {other}, {name}",
                    *x.facts(),
                    fix="Pass it once, as one argument, and do not close over it as well.",
                )
            )


def check_not_captured(caller: str, f: Any, captured: Sequence[Any], leaves: Sequence[Any]) -> None:
    """ValueError where the function closes over a Ref that it is also given as an argument."""
    for x in captured:
        if isinstance(x, Ref) and any(x is leaf for leaf in leaves):
            names = ["closed over", *(f"argument {i}" for i in range(len(leaves)))]
            _check_distinct(caller, f, [x, *leaves], names)


def closing_over_refs(f: Callable[..., Any], leaves: Sequence[Any], tree: Any) -> Callable[..., Any]:
    """`f` as a function of the leaves of its `(args, kwargs)` that are no Refs; it closes over the Refs."""

    @wraps(f)
    def of_other_leaves(*others: Any) -> Any:
        given = iter(others)
        args, kwargs = pytree.unflatten(tree, [x if isinstance(x, Ref) else next(given) for x in leaves])
        return f(*args, **kwargs)

    return of_other_leaves


def other_leaves(leaves: Sequence[Any]) -> list[Any]:
    """The leaves that are no Refs."""
    return [x for x in leaves if not isinstance(x, Ref)]


def store(refs: Sequence[Ref], outs: Sequence[Any]) -> Sequence[Any]:
    """Write the leading outputs of a program to Refs, one to each; returns the other outputs."""
    for ref, y in zip(refs, outs, strict=False):
        ref.write(as_array(y))
    return outs[len(refs) :] if refs else outs


# --- Transformations that run the function --------------------------------------------------------


def jvp_of_refs(
    arguments: RefArguments, leaves: Sequence[Any], dots: Sequence[Any], fun: Any, values: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """`jvp_flat` of a function with Refs among its arguments: inside, a primal and its tangent are one Ref.

    `dots` are the tangents as the user passed them: a Ref for each Ref that is written to, which gets the new tangent.
    `values` are the tangents' numbers.
    """
    outs, out_dots = jvp_flat(arguments, values_of(leaves), values, function=fun)
    count = len(arguments.written)
    for i, y, y_dot in zip(arguments.written, outs, out_dots, strict=False):
        if not isinstance(dots[i], Ref):
            rule = "A Ref that the function given to jvp writes to needs a Ref for its tangent."
            fix = "Pass new_ref(tangent) as its tangent."
            raise TypeError(message(rule, *leaves[i].facts(), f"tangent: {dots[i]!r:.100}", fix=fix))
        leaves[i].write(as_array(y))
        dot = cast("Ref", dots[i])
        dot.write(as_array(convert_element_type(instantiate(y_dot), dot.dtype, dot.weak_type)))
    return outs[count:], out_dots[count:]


def vmap_of_refs(
    arguments: RefArguments, axis: AxisData, dims: Sequence[int | None], leaves: Sequence[Any], fun: Any
) -> tuple[list[Any], list[int | None]]:
    """`vmap_flat` of a function mapped over Refs: inside, each element has its own, and their values are a batch."""
    values = list(leaves)
    for i in arguments.positions:
        values[i] = leaves[i].read()
    outs, out_dims = vmap_flat(arguments, axis, dims, values, function=fun)
    count = len(arguments.written)
    for i, y, dim in zip(arguments.written, outs, out_dims, strict=False):
        leaves[i].write(as_array(move_batch_axis(y, dim, cast("int", dims[i]), axis.size)))
    return outs[count:], out_dims[count:]
