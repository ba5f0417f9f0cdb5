"""Programs whose values lie in several memories: where each lies, and what is brought to the memory of the device.

    y = memory[kind=pinned_host] x           y = memory[kind=pinned_host] x
    z = sin y                     becomes    y' = memory[kind=device] y;  z = sin y'

Types do not say where values lie, so that any operation takes any value. This pass finds it out when a program is
lowered: from the arguments, and by the primitives' `memories` rules. A primitive without one computes in the memory of
the device; a value that lies elsewhere is brought there once. A primitive that holds jaxprs has a rule where its
results may lie elsewhere: a call, and the stacked results of a scan, whose rows stay in the memory that the body puts
them in. Equations that move nothing are left out. On the CPU all kinds are one memory, and moving is no operation;
arguments and results have their kinds there too.
Read next: `primitives/sharding.py`; Note [Memories] in `runtime/array.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core.array_ops import array_ops
from didax.core.jaxpr import Eqn, Jaxpr
from didax.core.memory import DEVICE
from didax.core.rule_types import as_list
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import interpret, rewritten, trace_closed

Memories = Sequence[str | None]  # of memory; None for that of the device
Placing = Callable[[Jaxpr, Memories, int], tuple[Jaxpr, Memories]]
# What a `memories` rule returns for an equation and the kinds of its operands: its parameters, the kinds in which it
# takes operands, and those of its results. None in the place of the parameters: its operands are its results.
Where = tuple[dict[str, Any] | None, Memories, Memories]
_ANY = "any"  # in the place of the kind that a result is to have


def memories_of_results(jaxpr: Jaxpr, operands: Memories) -> tuple[str | None, ...]:
    """The kinds of memory that the results of a program lie in, for operands that lie in these."""
    return tuple(_placed(jaxpr, operands, (_ANY,) * len(jaxpr.outvars))[1])


def in_memories(jaxpr: Jaxpr, operands: Memories, results: Memories) -> Jaxpr:
    """The program in which values are where they are used, for operands in these kinds of memory, with such results."""
    none: Memories = (None,) * len(jaxpr.invars)
    return _placed(jaxpr, operands or none, results or (None,) * len(jaxpr.outvars))[0]


def as_they_lie(eqn: Eqn, place: Placing, operands: Memories) -> Where:
    """The `memories` rule of operations that change nothing but types: results lie where the operands do."""
    return eqn.params, operands, operands


def on_the_device(eqn: Eqn, place: Placing, operands: Memories) -> Where:
    """The `memories` rule of branches: XLA follows values that are moved into loops, but not into branches."""
    return eqn.map_jaxprs(_without_moves).params, (None,) * len(operands), (None,) * len(eqn.outvars)


@cached_on_jaxpr
def _without_moves(jaxpr: Jaxpr) -> Jaxpr:
    """The program in which no value is moved from one memory to another; layouts on devices stay as asked for."""
    if not moves_values(jaxpr):
        return jaxpr

    def stay(eqn: Eqn, xs: list[Any]) -> list[Any]:
        params = eqn.map_jaxprs(_without_moves).params
        if not eqn.jaxprs and _moves(eqn):
            if "sharding" not in params:
                return xs
            params = {**params, "sharding": params["sharding"].on_device}
        outs = eqn.primitive.bind(*xs, **params)
        return as_list(eqn.primitive, outs)

    return rewritten(jaxpr, stay, what="lowering")


class _Elsewhere:
    """A value that does not lie in the memory of the device, and the same there, if it was brought there."""

    __slots__ = ("here", "kind", "value")

    def __init__(self, value: Any, kind: str):
        self.value = value
        self.kind = kind
        self.here: Any = None


def _kind(x: Any) -> str | None:
    return x.kind if type(x) is _Elsewhere else None


def _in(kind: str | None, x: Any) -> Any:
    """The value alone, in memory of that kind."""
    if type(x) is not _Elsewhere:
        return x if kind is None else array_ops.in_memory(x, kind)
    if x.kind == kind:
        return x.value
    if x.here is None:
        x.here = array_ops.in_memory(x.value, DEVICE)
    return x.here if kind is None else array_ops.in_memory(x.here, kind)


def _apply(eqn: Eqn, xs: list[Any]) -> list[Any]:
    primitive = eqn.primitive
    if primitive.memories is None:
        params = eqn.map_jaxprs(_all_here).params
        taken: Memories = (None,) * len(xs)
        given: Memories = (None,) * len(eqn.outvars)
    else:
        params, taken, given = primitive.memories(eqn, _place, tuple(map(_kind, xs)))
        if params is None:
            return xs
    outs = as_list(primitive, primitive.bind(*map(_in, taken, xs), **params))
    return [y if kind is None else _Elsewhere(y, kind) for y, kind in zip(outs, given, strict=True)]


def _all_here(jaxpr: Jaxpr) -> Jaxpr:
    return in_memories(jaxpr, (), ())


def _place(jaxpr: Jaxpr, operands: Memories, here: int) -> tuple[Jaxpr, Memories]:
    """A program that a primitive holds, and where its results lie: the first `here` of them on the device."""
    return _placed(jaxpr, operands, (None,) * here + (_ANY,) * (len(jaxpr.outvars) - here))


@cached_on_jaxpr
def moves_values(jaxpr: Jaxpr) -> bool:
    """Whether an equation moves a value from one memory to another."""
    for eqn in jaxpr.eqns:
        if any(map(moves_values, eqn.jaxprs)):
            return True
        if not eqn.jaxprs and _moves(eqn):
            return True
    return False


def _moves(eqn: Eqn) -> bool:
    if eqn.primitive.memories is None:
        return False
    params, _, given = eqn.primitive.memories(eqn, _place, (None,) * len(eqn.invars))
    return params is None or any(given)


def _placed(jaxpr: Jaxpr, operands: Memories, wanted: Memories) -> tuple[Jaxpr, Memories]:
    if any(operands) or moves_values(jaxpr):
        new, given = _rewritten(jaxpr, tuple(operands), tuple(wanted))
        return new, given
    return jaxpr, (None,) * len(jaxpr.outvars)


@cached_on_jaxpr
def _rewritten(
    jaxpr: Jaxpr, operands: tuple[str | None, ...], wanted: tuple[str | None, ...]
) -> tuple[Jaxpr, Memories]:
    given: list[str | None] = []

    def run(*args: Any) -> list[Any]:
        values = [x if kind is None else _Elsewhere(x, kind) for x, kind in zip(args, operands, strict=True)]
        outs = interpret(jaxpr, values, _apply)
        given[:] = [_kind(y) if kind == _ANY else kind for y, kind in zip(outs, wanted, strict=True)]
        return list(map(_in, given, outs))

    new = trace_closed(run, jaxpr.in_avals, what="lowering", name=jaxpr.name)
    return new, tuple(given)
