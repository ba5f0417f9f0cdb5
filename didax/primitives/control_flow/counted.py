"""`counted_p`: the first `n` steps of a scan, for an `n` that is known when the loop starts.

    counted_p(n, c, h, xs; jaxpr, length):    for x in xs[:n]: h, y = jaxpr(c, h, x);    return h, stacked ys

Inputs and outputs have `length` rows. Rows from `n` on have no meaning, and nobody reads them: in every mode the work
is the work of `n` steps. The rules are the rules of `scan_p`, but each scan that they bind counts `n` steps
(`_CountedRules`). Only a count that differs between the elements of a batch is a case of its own: the loop goes on
for the greatest count, and elements that have finished keep what they have (`masked.py`).
Read next: `bounded.py`, where the count comes from a condition; `scan.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.jaxpr import Eqn
from didax.core.primitive import Primitive
from didax.passes.checkify import Kinds, Report
from didax.primitives.control_flow.agreement import counted_differs, first_agreed
from didax.primitives.control_flow.batches import batch_first
from didax.primitives.control_flow.common import COUNT, INT32, LoopPrimitive
from didax.primitives.control_flow.effects import run_by_element, runs_by_element
from didax.primitives.control_flow.layout import BodyLayout, Pair, Values, split_at
from didax.primitives.control_flow.lowering import ScanWriter, lower_loop
from didax.primitives.control_flow.masked import masked_counted
from didax.primitives.control_flow.scan import Scan, scan_p
from didax.primitives.control_flow.varying import fit_loop
from didax.primitives.elementwise import sub
from didax.primitives.reductions import reduce_max_p
from didax.primitives.slicing import concatenate
from didax.transforms.batching import AxisData
from didax.transforms.jvp import Forward, jvp_jaxpr
from didax.xla.text import FunctionContext, Value


class Counted(LoopPrimitive):
    """`counted_p.bind(n, *consts, *carry, *xs, ...)`: the carry after `n` steps, then the stacked outputs.

    The parameters are the parameters of `scan_p`. `n` is an int32 from 0 to `length`. With `reverse` row `n - 1` comes
    first.
    """

    differs, agree = counted_differs, first_agreed

    def bind(self, n: Any, *args: Any, **params: Any) -> list[Any]:
        """As for `scan_p`."""
        return _CountedRules(n).bind(*args, **params)

    def type(self, n: ShapedArray, *avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        check_count(n)
        return scan_p.type(*avals, **params)

    def lower(self, ctx: FunctionContext, n: Value, *args: Value, **params: Any) -> list[Value]:
        writer, carry = ScanWriter.of(args, params)
        ys = [ctx.constant(0, aval) for aval in ctx.out_avals[len(carry) :]]

        def body(region: FunctionContext, values: list[Value]) -> list[Value]:
            (i,), carry, ys = split_at(values, 1, writer.num_carry)
            one = region.scalar(1, INT32)
            row = region.op("subtract", [region.op("subtract", [n, one]), i]) if writer.reverse else i
            carry, ys = writer.step(region, carry, ys, row)
            return [region.op("add", [i, one]), *carry, *ys]

        def condition(region: FunctionContext, values: list[Value]) -> Value:
            return region.compare("LT", values[0], n)

        return lower_loop(ctx, [ctx.scalar(0, INT32), *carry, *ys], condition, body)[1:]

    def jvp(self, primals: Values, tangents: Values, *, forward: Forward = jvp_jaxpr, **params: Any) -> Pair:
        return _CountedRules(primals[0]).jvp(primals[1:], tangents[1:], forward=forward, **params)

    def linearize(self, primals: Values, tangents: Values, **params: Any) -> Pair:
        return _CountedRules(primals[0]).linearize(primals[1:], tangents[1:], **params)

    def partial_eval(self, unknown: Sequence[bool], *args: Any, **params: Any) -> list[Any]:
        if unknown[0]:
            return self.bind(*args, **params)
        return _CountedRules(args[0]).partial_eval(unknown[1:], *args[1:], **params)

    def transpose(self, cts: Values, n: Any, *args: Any, **params: Any) -> list[Any]:
        return [None, *_CountedRules(n).transpose(cts, *args, **params)]

    def batch(self, axis: AxisData, args: Values, dims: Sequence[int | None], **params: Any) -> Any:
        if dims[0] is None:
            return _CountedRules(args[0]).batch(axis, args[1:], dims[1:], **params)
        if runs_by_element(params["jaxpr"]):
            return run_by_element(self, axis, args, dims, params)
        return self._batch_counts(axis, args, dims, params)

    def _batch_counts(
        self, axis: AxisData, args: Values, dims: Sequence[int | None], params: dict[str, Any]
    ) -> Any:
        counts = batch_first(axis, args[0], dims[0])
        layout, reverse = BodyLayout.of(params), params["reverse"]
        consts, carry, xs = layout.split(args[1:])
        const_dims, carry_dims, x_dims = layout.split(dims[1:])
        carry = [batch_first(axis, x, dim) for x, dim in zip(carry, carry_dims, strict=True)]
        xs = [x if d is None else array_ops.move_axis(x, d, 1) for x, d in zip(xs, x_dims, strict=True)]
        row_dims = tuple(None if dim is None else 0 for dim in x_dims)
        most = reduce_max_p.bind(counts, axes=(0,)) if axis.size != 0 else np.int32(0)
        new = masked_counted(params["jaxpr"], axis, tuple(const_dims), row_dims, reverse)
        first = sub(most, 1) if reverse else np.int32(0)
        outs = _CountedRules(most).run(params, new, [counts, *consts], [first, *carry], xs)[1:]
        return outs, [0] * len(carry) + [1] * (len(outs) - len(carry))

    def keys(self, line: Any, operands: Values, **params: Any) -> list[Any]:
        return scan_p.keys(line, operands[1:], **params)

    def checkify(self, kinds: Kinds, n: Any, *args: Any, **params: Any) -> tuple[list[Any], Report | None]:
        return _CountedRules(n).checkify(kinds, *args, **params)

    def run_jaxprs(self, run: Any, n: Any, *args: Any, **params: Any) -> list[Any]:
        outs = scan_p.run_jaxprs(run, *args, **{**params, "length": int(n)})
        last, ys = BodyLayout.of(params).split_results(outs)
        return [*last, *(with_rows(y, params["length"]) for y in ys)]

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        new = scan_p.dce(eqn.replace(invars=eqn.invars[1:]), used)
        return new.replace(invars=[eqn.invars[0], *new.invars])


counted_p = Counted("counted_scan")


class _CountedRules(Scan):
    """The rules of `scan_p`, where every scan that they bind takes `n` steps."""

    def __init__(self, n: Any):  # It is not a primitive of its own, so nothing is registered.
        self.n = n

    def apply(self, *args: Any, **params: Any) -> list[Any]:
        uneven = aval_of(self.n).vma
        jaxpr, operands = fit_loop(params["jaxpr"], args, params["num_consts"], params["num_carry"], uneven)
        return Primitive.bind(counted_p, self.n, *operands, **{**params, "jaxpr": jaxpr})


def check_count(n: ShapedArray) -> None:
    """TypeError unless `n` can be a number of steps."""
    if (n.shape, n.dtype) != (COUNT.shape, COUNT.dtype):
        raise TypeError(
            message("A number of steps is an int32 scalar.", f"number of steps: {n}", fix="Cast it to int32.")
        )


def with_rows(ys: Any, length: int) -> Any:
    """`ys` with rows of zeros after its own, up to `length` rows."""
    aval = aval_of(ys)
    missing = aval.update(shape=(length - aval.shape[0], *aval.shape[1:]))
    return concatenate([ys, array_ops.zeros(missing)], 0)
