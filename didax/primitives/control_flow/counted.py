"""`counted_p`: the first `n` steps of a scan, for an `n` that is known when the loop starts.

    counted_p(n, c, h, xs; jaxpr, length):    for x in xs[:n]: h, y = jaxpr(c, h, x);    return h, stacked y

Inputs and outputs have `length` rows, of which rows from `n` on have no meaning: nobody reads them. The work is that of
`n` steps, in every mode. The rules are those of `scan`, each scan that they make being counted (`_Counting`); only a
count that differs between the elements of a batch is a case of its own: the loop goes on for the element that
counts furthest, and those that are through keep what they have.
Read next: `bounded.py`, where the count comes from a condition; `scan.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.jaxpr import Eqn, Jaxpr, eval_jaxpr
from didax.core.primitive import Primitive
from didax.passes.checkify import Kinds, Report
from didax.passes.simplify import simplify_jaxpr
from didax.primitives.control_flow.common import (
    INT32,
    along_first,
    batch_first,
    lower_loop,
    one_taking,
    run_compiled,
    split_at,
    traced,
)
from didax.primitives.control_flow.effects import for_each, go_by_element
from didax.primitives.control_flow.order import read_before_writing
from didax.primitives.control_flow.scan import Scan, Steps, scan_p
from didax.primitives.elementwise import add, lt, sub
from didax.primitives.reductions import reduce_max_p
from didax.primitives.select import select_n
from didax.primitives.slicing import concatenate
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.cache import cached_on_jaxpr
from didax.xla.text import FunctionContext, Value

COUNT = ShapedArray((), INT32)


class Counted(Primitive):
    """`counted_p.bind(n, *consts, *carry, *xs, ...)`: the carry after `n` steps, then the stacked outputs.

    Parameters are those of `scan_p`; `0 <= n <= length`, an int32. With `reverse` row `n - 1` comes first.
    """

    multiple_results = True

    def bind(self, n: Any, *args: Any, **params: Any) -> list[Any]:
        """As of `scan_p`."""
        return _Counting(n).bind(*args, **params)

    def named_axes(self, params: dict[str, Any]) -> frozenset[str]:
        return params["jaxpr"].axis_names

    def type(self, n: ShapedArray, *avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        check_count(n)
        return scan_p.type(*avals, **params)

    def evaluate(self, *args: Any, **params: Any) -> list[Any]:
        return run_compiled(self, args, "jaxpr", params)

    def lower(
        self,
        ctx: FunctionContext,
        n: Value,
        *args: Value,
        jaxpr: Jaxpr,
        length: int,
        reverse: bool,
        num_consts: int,
        num_carry: int,
        unroll: int,
    ) -> list[Value]:
        consts, carry, xs = split_at(args, num_consts, num_carry)
        steps = Steps(read_before_writing(simplify_jaxpr(jaxpr)), consts, xs, num_carry, length, reverse)
        ys = [ctx.constant(0, aval) for aval in ctx.out_avals[num_carry:]]

        def body(region: FunctionContext, values: list[Value]) -> list[Value]:
            (i,), carry, ys = split_at(values, 1, num_carry)
            one = region.scalar(1, INT32)
            row = region.op("subtract", [region.op("subtract", [n, one]), i]) if reverse else i
            carry, ys = steps.write_step(region, carry, ys, row)
            return [region.op("add", [i, one]), *carry, *ys]

        return lower_loop(
            ctx, [ctx.scalar(0, INT32), *carry, *ys], lambda region, xs: region.compare("LT", xs[0], n), body
        )[1:]

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        return _Counting(primals[0]).jvp(primals[1:], tangents[1:], **params)

    def linearize(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        return _Counting(primals[0]).linearize(primals[1:], tangents[1:], **params)

    def partial_eval(self, unknown: Sequence[bool], *args: Any, **params: Any) -> list[Any]:
        if unknown[0]:
            return self.bind(*args, **params)
        return _Counting(args[0]).partial_eval(unknown[1:], *args[1:], **params)

    def transpose(self, cts: Sequence[Any], n: Any, *args: Any, **params: Any) -> list[Any]:
        return [None, *_Counting(n).transpose(cts, *args, **params)]

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        if dims[0] is None:
            return _Counting(args[0]).batch(axis, args[1:], dims[1:], **params)
        if go_by_element(params["jaxpr"]):
            return for_each(self, axis, args, dims, params)
        return self._batch_by_element(axis, args, dims, **params)

    def _batch_by_element(
        self,
        axis: AxisData,
        args: Sequence[Any],
        dims: Sequence[int | None],
        *,
        jaxpr: Jaxpr,
        num_consts: int,
        num_carry: int,
        **how: Any,
    ) -> Any:
        counts = batch_first(axis, args[0], dims[0])
        consts, carry, xs = split_at(args[1:], num_consts, num_carry)
        const_dims, carry_dims, x_dims = split_at(dims[1:], num_consts, num_carry)
        carry = [batch_first(axis, x, dim) for x, dim in zip(carry, carry_dims, strict=True)]
        xs = [x if d is None else array_ops.move_axis(x, d, 1) for x, d in zip(xs, x_dims, strict=True)]
        row_dims = tuple(None if dim is None else 0 for dim in x_dims)
        most = reduce_max_p.bind(counts, axes=(0,)) if axis.size else np.int32(0)
        new = _masked(jaxpr, axis, tuple(const_dims), num_carry, row_dims, how["reverse"])
        outs = self.bind(
            most,
            counts,
            *consts,
            sub(most, 1) if how["reverse"] else np.int32(0),
            *carry,
            *xs,
            jaxpr=new,
            num_consts=1 + num_consts,
            num_carry=1 + num_carry,
            **how,
        )[1:]
        return outs, [0] * num_carry + [1] * (len(outs) - num_carry)

    def keys(self, line: Any, operands: Sequence[Any], **params: Any) -> list[Any]:
        return scan_p.keys(line, operands[1:], **params)

    def checkify(self, kinds: Kinds, n: Any, *args: Any, **params: Any) -> tuple[list[Any], Report | None]:
        return _Counting(n).checkify(kinds, *args, **params)

    def run_jaxprs(self, run: Any, n: Any, *args: Any, length: int, **params: Any) -> list[Any]:
        outs = scan_p.run_jaxprs(run, *args, length=int(n), **params)
        last, ys = split_at(outs, params["num_carry"])
        return [*last, *(lengthened(y, length) for y in ys)]

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        new = scan_p.dce(eqn.replace(invars=eqn.invars[1:]), used)
        return new.replace(invars=[eqn.invars[0], *new.invars])


counted_p = Counted("counted_scan")


class _Counting(Scan):
    """The rules of `scan`, every scan of which takes `n` steps."""

    def __init__(self, n: Any):  # no primitive of its own, so nothing is registered
        self.n = n

    def apply(self, *args: Any, **params: Any) -> list[Any]:
        return Primitive.bind(counted_p, self.n, *args, **params)


def check_count(n: ShapedArray) -> None:
    """TypeError unless `n` can be a number of steps."""
    if n.strip_weak_type() is not COUNT:
        raise TypeError(
            message("A number of steps is an int32 scalar.", f"number of steps: {n}", fix="Cast it to int32.")
        )


def lengthened(ys: Any, length: int) -> Any:
    """The rows of `ys`, with as many of zeros after them as are missing to `length`."""
    aval = aval_of(ys)
    missing = aval.update(shape=(length - aval.shape[0], *aval.shape[1:]))
    return concatenate([ys, array_ops.zeros(missing)], 0)


# --- Counts that differ ---------------------------------------------------------------------------


@cached_on_jaxpr
def _masked(
    jaxpr: Jaxpr,
    axis: AxisData,
    const_dims: tuple[int | None, ...],
    num_carry: int,
    row_dims: tuple[int | None, ...],
    reverse: bool,
) -> Jaxpr:
    """The body for a batch, `(counts, consts, i, carry, rows)`, that leaves alone elements with a count up to `i`.

    These go on from a copy of an element that takes part: what they hold might have no finite derivative.
    """
    dims = (*const_dims, *(0,) * num_carry, *row_dims)
    new, _ = batch_jaxpr(jaxpr, axis, dims, (True,) * len(jaxpr.outvars))
    num_consts = len(const_dims)

    def step(*args: Any) -> list[Any]:
        (counts,), consts, (i,), carry, rows = split_at(args, 1, num_consts, 1, num_carry)
        taking = lt(i, counts)
        entering = [
            x if dim is None or not axis.size else among_taking(taking, x, dim)
            for x, dim in zip((*consts, *carry, *rows), dims, strict=True)
        ]
        after, ys = split_at(eval_jaxpr(new, entering), num_carry)
        carry = [select_n(along_first(taking, x), x, y) for x, y in zip(carry, after, strict=True)]
        ys = [_or_zero(taking, y) for y in ys]
        return [sub(i, 1) if reverse else add(i, 1), *carry, *ys]

    consts, carry, rows = split_at(new.in_avals, num_consts, num_carry)
    counts = ShapedArray((axis.size,), INT32)
    return traced(step, [counts, *consts, COUNT, *carry, *rows], what="vmap")


def among_taking(taking: Any, x: Any, dim: int) -> Any:
    """The batch `x`, of axis `dim`, with a copy of an element that takes part at each that does not."""
    x = array_ops.move_axis(x, dim, 0)
    return array_ops.move_axis(select_n(along_first(taking, x), one_taking(taking, x), x), 0, dim)


def _or_zero(taking: Any, y: Any) -> Any:
    """`y`, with zero at each element that takes no part: as a linear output it sends back nothing there."""
    aval = aval_of(y)
    return select_n(along_first(taking, y), array_ops.zeros(aval), y) if dtypes.is_inexact(aval.dtype) else y
