"""Loops cut into segments, each checkpointed: reverse mode in memory of the square root of the number of steps.

    while_bounded(p, f, h, N)    while p(h): h = f(h)          at most N steps
    for_counted(f, n, h, N)      for _ in range(n): h = f(h)   at most N steps
    scan_in_segments(f, h, xs)   the scan of a known length, in a given number of segments

A loop over segments, whose body is a checkpointed loop over steps. Going forward only the carries between segments are
saved; going backward one segment at a time is taken again and its steps saved. With sqrt(N) segments of sqrt(N)
steps that is the memory of 2 sqrt(N) carries, for the work of each step once more.
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
from didax.primitives.control_flow.common import INT32, split_at, traced, with_invars
from didax.primitives.control_flow.counted import COUNT, counted_p
from didax.primitives.control_flow.scan import scan_p
from didax.primitives.convert import iota, stop_gradient_p
from didax.primitives.elementwise import add, div, lt, min_, sub
from didax.primitives.select import select_n
from didax.primitives.shape import reshape
from didax.primitives.slicing import concatenate, slice_axis
from didax.transforms.cache import cached_on_jaxpr

_FLAT = 16  # up to so many steps all of them are saved


def segments(steps: int) -> tuple[int, int]:
    """Number and length of the segments of a loop of up to `steps` steps: both about the square root."""
    length = max(1, math.isqrt(max(steps - 1, 0)) + 1)
    return max(1, -(-steps // length)), length


def _copy(jaxpr: Jaxpr) -> Jaxpr:
    """An equal jaxpr: what is remembered with a jaxpr must not keep that jaxpr alive."""
    return with_invars(jaxpr, jaxpr.invars)


def while_bounded(
    cond: Jaxpr,
    body: Jaxpr,
    cond_consts: Sequence[Any],
    consts: Sequence[Any],
    carry: Sequence[Any],
    steps: int,
) -> list[Any]:
    """`while_p` that stops after at most so many steps."""
    sizes = {"cond_nconsts": len(cond_consts), "body_nconsts": len(consts), "num_carry": len(carry)}
    if steps <= _FLAT:
        how = {"cond_jaxpr": cond, "body_jaxpr": body, **sizes, "length": max(steps, 1)}
        return bounded_p.bind(np.int32(steps), *cond_consts, *consts, *carry, **how)[1:]
    count, length = segments(steps)
    outer_cond, outer_body = _while_of_segments(body, cond, len(cond_consts), len(consts), steps, length)
    return bounded_p.bind(
        np.int32(count),
        *cond_consts,
        *cond_consts,
        *consts,
        np.int32(0),
        *carry,
        cond_jaxpr=outer_cond,
        body_jaxpr=outer_body,
        cond_nconsts=len(cond_consts),
        body_nconsts=len(cond_consts) + len(consts),
        num_carry=1 + len(carry),
        length=count,
    )[2:]


@cached_on_jaxpr
def _while_of_segments(
    body: Jaxpr, cond: Jaxpr, cond_nconsts: int, body_nconsts: int, steps: int, length: int
) -> tuple[Jaxpr, Jaxpr]:
    """Condition and body of the loop over segments, which also carries the number of steps taken."""
    num_carry, body = len(body.outvars), _copy(body)
    params = {"cond_nconsts": cond_nconsts, "body_nconsts": body_nconsts, "num_carry": num_carry}

    def segment(*args: Any) -> list[Any]:
        consts, (taken,), carry = split_at(args, cond_nconsts + body_nconsts, 1)
        limit = min_(sub(np.int32(steps), taken), np.int32(length))
        how = {"cond_jaxpr": cond, "body_jaxpr": body, **params, "length": length}
        n, *carry = bounded_p.bind(limit, *consts, *carry, **how)
        return [add(taken, n), *carry]

    cond_avals, carry_avals = split_at(cond.in_avals, cond_nconsts)
    avals = [*cond_avals, *body.in_avals[:body_nconsts], COUNT, *carry_avals]
    outer = with_invars(cond, [*cond.invars[:cond_nconsts], Var(COUNT), *cond.invars[cond_nconsts:]])
    return outer, _checkpointed(segment, avals)


def for_counted(body: Jaxpr, n: Any, consts: Sequence[Any], carry: Sequence[Any], steps: int) -> list[Any]:
    """`n` steps, at most `steps`, of a body that maps constants and carry to the next carry."""
    how = {"num_consts": len(consts), "num_carry": len(carry), "reverse": False, "unroll": 1}
    if steps <= _FLAT:
        return counted_p.bind(n, *consts, *carry, jaxpr=body, length=max(steps, 1), **how)
    count, length = segments(steps)
    taken = np.int32(0)
    how = {**how, "num_consts": 1 + len(consts), "num_carry": 1 + len(carry)}
    outer = _count_of_segments(body, len(consts), length)
    needed = add(div(sub(n, 1), length), 1)
    return counted_p.bind(needed, n, *consts, taken, *carry, jaxpr=outer, length=count, **how)[1:]


@cached_on_jaxpr
def _count_of_segments(body: Jaxpr, num_consts: int, length: int) -> Jaxpr:
    """The body of the loop over segments, which also carries the number of steps taken."""
    num_carry, body = len(body.outvars), _copy(body)
    how = {"num_consts": num_consts, "num_carry": num_carry, "reverse": False, "unroll": 1}

    def segment(n: Any, *args: Any) -> list[Any]:
        consts, (taken,), carry = split_at(args, num_consts, 1)
        limit = min_(sub(n, taken), np.int32(length))
        outs = counted_p.bind(limit, *consts, *carry, jaxpr=body, length=length, **how)
        return [add(taken, limit), *outs]

    consts, carry = split_at(body.in_avals, num_consts)
    return _checkpointed(segment, [COUNT, *consts, COUNT, *carry])


def scan_in_segments(
    args: Sequence[Any],
    *,
    jaxpr: Jaxpr,
    length: int,
    num_consts: int,
    num_carry: int,
    reverse: bool,
    unroll: int,
    count: int,
) -> list[Any]:
    """`scan_p` in at most `count` segments of equal length, of which the first carries are saved.

    Where the last segment is shorter, segments count their steps: they have one body all the same.
    """
    size = -(-length // count)
    count = -(-length // size)
    rest = count * size - length
    how: dict[str, Any] = {"num_consts": num_consts, "num_carry": num_carry, "reverse": reverse}
    start, xs = split_at(args, num_consts + num_carry)
    xs = [reshape(_lengthened(x, rest), (count, size, *aval_of(x).shape[1:])) for x in xs]
    if rest:
        steps = select_n(lt(iota(INT32, (count,), 0), count - 1), np.int32(size - rest), np.int32(size))
        xs = [steps, *xs]
    body = _scan_of_segment(jaxpr, num_consts, num_carry, size, reverse, unroll, bool(rest))
    outs = scan_p.bind(*start, *xs, jaxpr=body, length=count, unroll=1, **how)
    last, ys = split_at(outs, num_carry)
    ys = [reshape(y, (count * size, *aval_of(y).shape[2:])) for y in ys]
    return [*last, *(slice_axis(y, 0, length, 0) if rest else y for y in ys)]


def _lengthened(x: Any, rest: int) -> Any:
    """`x` with so many rows more, which nobody reads."""
    return concatenate([x, stop_gradient_p.bind(slice_axis(x, 0, rest, 0))], 0) if rest else x


@cached_on_jaxpr
def _scan_of_segment(
    jaxpr: Jaxpr, num_consts: int, num_carry: int, length: int, reverse: bool, unroll: int, counted: bool
) -> Jaxpr:
    """The body of the scan over segments; `counted`, the first of its rows is how many steps to take."""
    how = {"num_consts": num_consts, "num_carry": num_carry, "length": length, "reverse": reverse}
    jaxpr = _copy(jaxpr)

    def segment(*args: Any) -> list[Any]:
        if not counted:
            return scan_p.bind(*args, jaxpr=jaxpr, unroll=unroll, **how)
        start, (n,), xs = split_at(args, num_consts + num_carry, 1)
        return counted_p.bind(n, *start, *xs, jaxpr=jaxpr, unroll=1, **how)

    start, rows = split_at(jaxpr.in_avals, num_consts + num_carry)
    xs = [row.update(shape=(length, *row.shape)) for row in rows]
    return _checkpointed(segment, [*start, *([COUNT] if counted else []), *xs])


def _checkpointed(f: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray]) -> Jaxpr:
    """A jaxpr that runs `f` as a checkpointed call."""
    # Nothing can be merged with the first computation: that is in another loop.
    how = {"jaxpr": traced(f, avals), "prevent_cse": False, "policy": None}
    return traced(lambda *args: checkpoint_p.bind(*args, **how), avals)
