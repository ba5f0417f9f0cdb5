"""What the primitives of control flow share: marks on operands, fixpoints, loops as text, eager runs, stand-ins.

Rules speak of operands by marks: a tuple of bools, one for each operand or result, that says which are
linear, batched, known or needed. What a loop carries has the marks that its body gives back, found by
`fixpoint`. Elements of a batch that take no part in a computation get the values of one that does (`stand_in`).
Read next: `cond.py`, then `while_loop.py` and `scan.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import Zero, array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.jaxpr import Eqn, Jaxpr, Var
from didax.core.primitive import Primitive, infer
from didax.primitives.call import jit_p
from didax.primitives.convert import stop_gradient_p
from didax.primitives.reductions import argmax_p
from didax.primitives.select import select_n
from didax.primitives.shape import broadcast_in_dim
from didax.primitives.slicing import dynamic_slice_p
from didax.transforms.batching import AxisData
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.staging import trace_to_jaxpr
from didax.xla.text import FunctionContext, Value

INT32 = np.dtype(np.int32)
Marks = tuple[bool, ...]


def nonzero(tangents: Sequence[Any]) -> Marks:
    """Which tangents are more than symbolic zeros."""
    return tuple(type(t) is not Zero for t in tangents)


def marked(values: Iterable[Any], marks: Sequence[bool]) -> list[Any]:
    """The values that are marked."""
    return [x for x, mark in zip(values, marks, strict=True) if mark]


def unmarked(values: Iterable[Any], marks: Sequence[bool]) -> list[Any]:
    """The values that are not marked."""
    return [x for x, mark in zip(values, marks, strict=True) if not mark]


def union(*marks: Sequence[bool]) -> Marks:
    """What is marked in any."""
    return tuple(any(column) for column in zip(*marks, strict=True))


def split_at(values: Sequence[Any], *sizes: int) -> list[Any]:
    """Consecutive parts of these sizes, then what is left."""
    parts: list[Any] = []
    start = 0
    for size in sizes:
        parts.append(values[start : start + size])
        start += size
    return [*parts, values[start:]]


def merge(marks: Sequence[bool], on: Sequence[Any], off: Sequence[Any]) -> list[Any]:
    """One sequence out of the marked and the unmarked values; undoes `marked` and `unmarked`."""
    each = {True: iter(on), False: iter(off)}
    return [next(each[bool(mark)]) for mark in marks]


def fixpoint(marks: Marks, step: Callable[[Marks], Sequence[bool]]) -> Marks:
    """The least marks, at least the given ones, that a body which receives them gives back."""
    while (grown := union(marks, step(marks))) != marks:
        marks = grown
    return marks


def with_invars(jaxpr: Jaxpr, invars: Sequence[Var]) -> Jaxpr:
    """The jaxpr with its inputs in another order, or with more of them."""
    return Jaxpr(invars, jaxpr.eqns, jaxpr.outvars, jaxpr.name)


def traced(f: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], what: str = "a loop") -> Jaxpr:
    """The program of a function of closed programs, on operands of these types."""
    jaxpr, captured = trace_to_jaxpr(f, avals, what=what)
    assert not captured, "jaxprs are closed"
    return jaxpr


# --- Loops ----------------------------------------------------------------------------------------


def carry_types(what: str, before: Sequence[ShapedArray], after: Sequence[ShapedArray]) -> list[ShapedArray]:
    """Types of what a loop carries, equal before and after its body: weak where they are weak in both."""
    if [a.strip_weak_type() for a in before] != [a.strip_weak_type() for a in after]:
        raise TypeError(
            message(
                f"The body of {what} must return what it carries with the types it received.",
                f"received: {', '.join(map(str, before))}",
                f"returned: {', '.join(map(str, after))}",
                fix="Cast or broadcast the results of the body.",
            )
        )
    return [
        a if a.weak_type and b.weak_type else a.strip_weak_type() for a, b in zip(before, after, strict=True)
    ]


def batch_first(axis: AxisData, x: Any, dim: int | None) -> Any:
    """`x` with its batch axis first, repeated along one where it has none."""
    return array_ops.broadcast_axis(x, axis.size, 0) if dim is None else array_ops.move_axis(x, dim, 0)


def lower_loop(
    ctx: FunctionContext,
    carry: Sequence[Value],
    condition: Callable[[FunctionContext, list[Value]], Value],
    body: Callable[[FunctionContext, list[Value]], Sequence[Value]],
) -> list[Value]:
    """Write a loop (`ctx.loop`) whose condition and body may have ordered effects.

    The loop carries the tokens of the function first. A condition with ordered effects is computed before the loop and
    at the end of its body: only there it can pass tokens on.
    """
    order = list(ctx.tokens)
    if order and _passes_tokens_on(ctx, carry, condition):
        first = condition(ctx, list(carry))

        def at_end(region: FunctionContext, values: list[Value]) -> list[Value]:
            outs = list(body(region, values[1:]))
            return [condition(region, outs), *outs]

        return lower_loop(ctx, [first, *carry], lambda region, values: values[0], at_end)[1:]

    def in_body(region: FunctionContext, values: list[Value]) -> list[Value]:
        region.tokens = dict(zip(order, values, strict=False))
        outs = body(region, values[len(order) :])
        return [*region.tokens.values(), *outs]

    carry = [*ctx.tokens.values(), *carry]
    outs = ctx.loop(carry, lambda region, values: condition(region, values[len(order) :]), in_body)
    ctx.tokens.update(zip(order, outs, strict=False))
    return outs[len(order) :]


def _passes_tokens_on(
    ctx: FunctionContext, carry: Sequence[Value], write: Callable[[FunctionContext, list[Value]], Any]
) -> bool:
    trial = ctx.region()
    write(trial, list(carry))
    return trial.tokens != ctx.tokens


# --- Eager runs -----------------------------------------------------------------------------------


def run_compiled(primitive: Primitive, args: Sequence[Any], main: str, params: dict[str, Any]) -> list[Any]:
    """Apply a primitive to concrete arrays as a compiled program, remembered with the jaxpr `params[main]`."""
    rest = tuple((name, value) for name, value in params.items() if name != main)
    avals = tuple([aval_of(x) for x in args])
    return jit_p.bind(*args, jaxpr=_as_program(params[main], primitive, main, rest, avals))


@cached_on_jaxpr
def _as_program(
    jaxpr: Jaxpr, primitive: Primitive, main: str, rest: tuple[Any, ...], avals: tuple[ShapedArray, ...]
) -> Jaxpr:
    # A copy: what is remembered with a jaxpr must not keep that jaxpr alive.
    params = {main: with_invars(jaxpr, jaxpr.invars), **dict(rest)}
    invars = [Var(aval) for aval in avals]
    outvars = [Var(aval) for aval in infer(primitive, avals, params)]
    return Jaxpr(invars, [Eqn(primitive, invars, params, outvars)], outvars, primitive.name)


# --- Elements of a batch that take no part --------------------------------------------------------


def stand_in(taking: Any, x: Any) -> Any:
    """The batch `x` with, at each element that takes no part, a copy of one that does; it gets no tangent."""
    return without_tangents(taking, x, one_taking(taking, x))


def one_taking(taking: Any, x: Any) -> Any:
    """An element of the batch `x` that takes part, repeated to the shape of `x`."""
    return _element(x, argmax_p.bind(taking, axes=(0,), index_dtype=INT32))


def without_tangents(taking: Any, x: Any, other: Any) -> Any:
    """`x` at elements that take part, elsewhere the other value, through which no tangent flows."""
    return select_n(along_first(taking, x), stop_gradient_p.bind(other), x)


def _element(x: Any, i: Any) -> Any:
    """`x[i]`, repeated to the shape of `x`."""
    shape = aval_of(x).shape
    row = dynamic_slice_p.bind(x, i, *[np.int32(0)] * (len(shape) - 1), slice_sizes=(1, *shape[1:]))
    return broadcast_in_dim(row, shape, tuple(range(len(shape))))


def along_first(x: Any, like: Any) -> Any:
    """`x`, one value for each element of the batch, repeated to the shape of `like`."""
    return broadcast_in_dim(x, aval_of(like).shape, (0,))
