"""Loops cut into segments, each checkpointed: reverse mode in memory of the square root of the number of steps.

    while_bounded(p, f, h, N)    while p(h): h = f(h)          at most N steps
    for_counted(f, n, h, N)      for _ in range(n): h = f(h)   at most N steps
    scan_in_segments(f, h, xs)   the scan of a known length, in a given number of segments

Each is a loop over segments, whose body is a checkpointed loop over steps. Going forward, only the carries between
segments are saved. Going backward, one segment at a time is taken again and its steps saved. With sqrt(N) segments of
sqrt(N) steps that is the memory of 2 sqrt(N) carries, for the work of each step once more.
Read next: `didax/lax/loops.py`, what users call; `checkpointed.py`, fewer carries yet, or steps without a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core.avals import ShapedArray, aval_of
from didax.core.jaxpr import Jaxpr, Var
from didax.primitives.checkpoint import checkpoint_p
from didax.primitives.control_flow.bounded import bounded_p
from didax.primitives.control_flow.common import COUNT, INT32, with_invars
from didax.primitives.control_flow.counted import counted_p
from didax.primitives.control_flow.layout import BodyLayout, Values, split_at
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.convert import iota, stop_gradient_p
from didax.primitives.elementwise import add, div, lt, min_, sub
from didax.primitives.select import select_n
from didax.primitives.shape import reshape
from didax.primitives.slicing import concatenate, slice_axis
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import trace_closed

_UNCUT = 16  # A loop of at most so many steps is not cut: all of its steps are saved.
_FORWARD = {"reverse": False, "unroll": 1}


def segments(steps: int) -> tuple[int, int]:
    """Number and length of the segments of a loop of up to `steps` steps: both about the square root."""
    length = max(1, math.isqrt(max(steps - 1, 0)) + 1)
    return max(1, -(-steps // length)), length


def _copy(jaxpr: Jaxpr) -> Jaxpr:
    """An equal jaxpr: what is remembered with a jaxpr must not keep that jaxpr alive."""
    return with_invars(jaxpr, jaxpr.invars)


def while_bounded(
    cond: Jaxpr, body: Jaxpr, cond_consts: Values, consts: Values, carry: Values, steps: int
) -> list[Any]:
    """`while_p` that stops after at most so many steps."""
    if steps <= _UNCUT:
        return bounded_p.run(max(steps, 1), cond, body, np.int32(steps), cond_consts, consts, carry)[1:]
    count, length = segments(steps)
    cond, body = _while_of_segments(body, cond, len(cond_consts), steps, length)
    consts, carry = [*cond_consts, *consts], [np.int32(0), *carry]
    return bounded_p.run(count, cond, body, np.int32(count), cond_consts, consts, carry)[2:]


@cached_on_jaxpr
def _while_of_segments(
    body: Jaxpr, cond: Jaxpr, num_cond_consts: int, steps: int, length: int
) -> tuple[Jaxpr, Jaxpr]:
    """Condition and body of the loop over segments, which also carries the number of steps taken."""
    body = _copy(body)
    num_consts = len(body.invars) - len(body.outvars)

    def segment(*args: Any) -> list[Any]:
        cond_consts, consts, (taken,), carry = split_at(args, num_cond_consts, num_consts, 1)
        limit = min_(sub(np.int32(steps), taken), np.int32(length))
        n, *carry = bounded_p.run(length, cond, body, limit, cond_consts, consts, carry)
        return [add(taken, n), *carry]

    cond_avals, carry_avals = split_at(cond.in_avals, num_cond_consts)
    avals = [*cond_avals, *body.in_avals[:num_consts], COUNT, *carry_avals]
    cond_invars, carry_invars = split_at(cond.invars, num_cond_consts)
    return with_invars(cond, [*cond_invars, Var(COUNT), *carry_invars]), _checkpointed(segment, avals)


def for_counted(body: Jaxpr, n: Any, consts: Values, carry: Values, steps: int) -> list[Any]:
    """`n` steps, at most `steps`, of a body that maps constants and carry to the next carry."""
    if steps <= _UNCUT:
        operands, sizes = BodyLayout.join(consts, carry)
        return counted_p.bind(n, *operands, jaxpr=body, length=max(steps, 1), **sizes, **_FORWARD)
    count, length = segments(steps)
    outer = _count_of_segments(body, len(consts), length)
    needed = add(div(sub(n, 1), length), 1)
    operands, sizes = BodyLayout.join([n, *consts], [np.int32(0), *carry])
    return counted_p.bind(needed, *operands, jaxpr=outer, length=count, **sizes, **_FORWARD)[1:]


@cached_on_jaxpr
def _count_of_segments(body: Jaxpr, num_consts: int, length: int) -> Jaxpr:
    """The body of the loop over segments, which also carries the number of steps taken."""
    body = _copy(body)

    def segment(n: Any, *args: Any) -> list[Any]:
        consts, (taken,), carry = split_at(args, num_consts, 1)
        limit = min_(sub(n, taken), np.int32(length))
        operands, sizes = BodyLayout.join(consts, carry)
        outs = counted_p.bind(limit, *operands, jaxpr=body, length=length, **sizes, **_FORWARD)
        return [add(taken, limit), *outs]

    consts, carry = split_at(body.in_avals, num_consts)
    return _checkpointed(segment, [COUNT, *consts, COUNT, *carry])


def scan_in_segments(args: Values, params: dict[str, Any], count: int) -> list[Any]:
    """`scan_p` with these parameters in at most `count` segments of equal length, whose first carries are saved.

    The last segment may be shorter. Segments then count their steps, so that one body serves all of them.
    """
    length, layout = params["length"], BodyLayout.of(params)
    size = -(-length // count)
    count = -(-length // size)
    missing = count * size - length
    consts, carry, xs = layout.split(args)
    xs = [reshape(_with_more_rows(x, missing), (count, size, *aval_of(x).shape[1:])) for x in xs]
    if missing:
        is_whole = lt(iota(INT32, (count,), 0), count - 1)
        xs = [select_n(is_whole, np.int32(size - missing), np.int32(size)), *xs]
    others = {name: params[name] for name in ("num_consts", "num_carry", "reverse")}
    body = _scan_of_segment(params["jaxpr"], size, params["unroll"], bool(missing), **others)
    outs = scan_p.bind(*consts, *carry, *xs, jaxpr=body, length=count, unroll=1, **others)
    last, ys = layout.split_results(outs)
    ys = [reshape(y, (count * size, *aval_of(y).shape[2:])) for y in ys]
    return [*last, *(slice_axis(y, 0, length, 0) if missing else y for y in ys)]


def _with_more_rows(x: Any, count: int) -> Any:
    """`x` with so many rows after its own, which nobody reads."""
    return concatenate([x, stop_gradient_p.bind(slice_axis(x, 0, count, 0))], 0) if count else x


@cached_on_jaxpr
def _scan_of_segment(jaxpr: Jaxpr, length: int, unroll: int, counted: bool, **others: Any) -> Jaxpr:
    """The body of the scan over segments; if it is `counted`, the first of its rows is how many steps to take."""
    jaxpr, layout = _copy(jaxpr), BodyLayout.of(others)
    params = {"jaxpr": jaxpr, "length": length, **others}

    def segment(*args: Any) -> list[Any]:
        if not counted:
            return scan_p.bind(*args, **params, unroll=unroll)
        consts, carry, (n, *xs) = layout.split(args)
        return counted_p.bind(n, *consts, *carry, *xs, **params, unroll=1)

    consts, carry, rows = layout.split(jaxpr.in_avals)
    xs = [row.with_axis(0, length) for row in rows]
    return _checkpointed(segment, [*consts, *carry, *([COUNT] if counted else []), *xs])


def _checkpointed(f: Callable[..., Values], avals: Sequence[ShapedArray]) -> Jaxpr:
    """A jaxpr that runs `f` as a checkpointed call."""
    # prevent_cse is not needed: nothing can be merged with the first computation, which is in another loop.
    params = {"jaxpr": trace_closed(f, avals), "prevent_cse": False, "policy": None}
    return trace_closed(lambda *args: checkpoint_p.bind(*args, **params), avals)
