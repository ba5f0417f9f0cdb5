"""Loops as StableHLO text: `stablehlo.while`, and the steps of a scan, which read and write rows in place.

    i = 0;  while i < length:  h, y = body(c, h, xs[i]);  ys[i] = y;  i += 1

Nothing is allocated in the loop: the ys start as arrays of their full size, of which each step overwrites a row.
Read next: `order.py`, which keeps XLA from copying arrays that a body reads and updates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core.avals import ShapedArray
from didax.core.dims import LONGEST, is_symbolic, may_exceed
from didax.core.jaxpr import Jaxpr
from didax.passes.memories import moves_values
from didax.passes.simplify import simplify_jaxpr
from didax.primitives.control_flow.layout import BodyLayout, split_at
from didax.primitives.control_flow.order import read_before_writing
from didax.primitives.sharding import memory_p
from didax.xla.lowering import lower_jaxpr_body
from didax.xla.text import FunctionContext, Value

WriteCondition = Callable[[FunctionContext, list[Value]], Value]
WriteBody = Callable[[FunctionContext, list[Value]], Sequence[Value]]


# --- Loops ----------------------------------------------------------------------------------------


def lower_loop(
    ctx: FunctionContext, carry: Sequence[Value], condition: WriteCondition, body: WriteBody
) -> list[Value]:
    """Write `stablehlo.while`; the functions write its regions, which see the values around them.

    The loop carries the tokens of the function before the carry. A region of a condition cannot pass tokens on. So a
    condition with ordered effects is computed before the loop and at the end of its body, and its result is carried.
    """
    if ctx.tokens and _passes_tokens_on(ctx, carry, condition):
        first = condition(ctx, list(carry))

        def body_and_condition(region: FunctionContext, values: list[Value]) -> list[Value]:
            outs = list(body(region, values[1:]))
            return [condition(region, outs), *outs]

        return _write_while(ctx, [first, *carry], lambda region, values: values[0], body_and_condition)[1:]
    return _write_while(ctx, carry, condition, body)


def _passes_tokens_on(ctx: FunctionContext, carry: Sequence[Value], condition: WriteCondition) -> bool:
    """Whether the condition has ordered effects."""
    trial = ctx.region()
    condition(trial, list(carry))
    return trial.tokens != ctx.tokens


def _write_while(
    ctx: FunctionContext, carry: Sequence[Value], condition: WriteCondition, body: WriteBody
) -> list[Value]:
    count = len(ctx.tokens)
    types = [x.aval for x in carry]
    carried = list(map(_signed, types))

    def body_with_tokens(region: FunctionContext, values: list[Value]) -> list[Value]:
        region.tokens = values[:count]
        outs = body(region, _with_bits_of(region, values[count:], types))
        return [*region.tokens, *_with_bits_of(region, outs, carried)]

    def condition_without_tokens(region: FunctionContext, values: list[Value]) -> Value:
        return condition(region, _with_bits_of(region, values[count:], types))

    start = [*ctx.tokens, *_with_bits_of(ctx, carry, carried)]
    outs = ctx.loop(start, condition_without_tokens, body_with_tokens)
    ctx.tokens = outs[:count]
    return _with_bits_of(ctx, outs[count:], types)


# Note [Unsigned counters]
# XLA (jaxlib 0.10 and 0.11) takes a carry to which a constant is added for a counter. It reads the constant of an
# unsigned one without its sign, so that a counter which starts from a known number and goes down ends at a wrong number
# (`while-loop-trip-count-annotator`). A loop therefore carries unsigned numbers as signed ones, with the same bits.


def _signed(aval: ShapedArray) -> ShapedArray:
    """The type as which a loop carries a value."""
    is_unsigned = aval.shape == () and aval.dtype.kind == "u"
    return aval.update(dtype=np.dtype(f"i{aval.dtype.itemsize}")) if is_unsigned else aval


def _with_bits_of(ctx: FunctionContext, xs: Sequence[Value], avals: Sequence[ShapedArray]) -> list[Value]:
    pairs = zip(xs, avals, strict=True)
    return [x if x.aval.dtype == a.dtype else ctx.op("bitcast_convert", [x], a) for x, a in pairs]


# --- Scans ----------------------------------------------------------------------------------------


class ScanWriter(NamedTuple):
    """Writes the steps of one scan, whose body has been made ready for it."""

    body: Jaxpr
    consts: list[Value]
    xs: list[Value]
    num_carry: int
    length: int
    reverse: bool

    @classmethod
    def of(cls, args: Sequence[Value], params: dict[str, Any]) -> tuple[ScanWriter, list[Value]]:
        """The writer of a scan, and the carry that the scan starts from."""
        consts, carry, xs = BodyLayout.of(params).split(args)
        body = read_before_writing(simplify_jaxpr(params["jaxpr"]))
        return cls(body, consts, xs, len(carry), params["length"], params["reverse"]), carry

    @property
    def index_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int64 if may_exceed(self.length, LONGEST) else np.int32)

    def unrolled(
        self, ctx: FunctionContext, carry: list[Value], out_avals: Sequence[ShapedArray]
    ) -> list[Value]:
        """All steps one after another, without a loop."""
        outputs: list[list[Value]] = []
        for i in range(self.length):
            carry, rows = self._run_body(ctx, carry, ctx.scalar(self._row_of(i), self.index_dtype))
            outputs.append([_as_row(ctx, y) for y in rows])
        if not outputs:
            return [*carry, *(ctx.constant(0, aval) for aval in out_avals)]
        columns = zip(*(outputs[:: -1 if self.reverse else 1]), strict=True)
        return [*carry, *(ctx.concatenate(rows, 0) for rows in columns)]

    def loop(
        self, ctx: FunctionContext, carry: list[Value], out_avals: Sequence[ShapedArray], unroll: int
    ) -> list[Value]:
        """A loop that takes `unroll` steps at a time, then the steps that are left; one of any length, one step."""
        unroll = 1 if is_symbolic(self.length) else unroll
        looped = self.length - self.length % unroll
        zero = ctx.scalar(0, self.index_dtype)
        ys = self._overwritten(ctx, out_avals)

        def body(region: FunctionContext, values: list[Value]) -> list[Value]:
            (start,), carry, ys = split_at(values, 1, self.num_carry)
            for j in range(unroll):
                i = region.op("add", [start, region.scalar(j, self.index_dtype)]) if j else start
                if self.reverse:
                    i = region.op("subtract", [region.scalar(self.length - 1, self.index_dtype), i])
                carry, ys = self.step(region, carry, ys, i)
            return [region.op("add", [start, region.scalar(unroll, self.index_dtype)]), *carry, *ys]

        def condition(region: FunctionContext, values: list[Value]) -> Value:
            return region.compare("LT", values[0], region.scalar(looped, self.index_dtype))

        _, *outs = lower_loop(ctx, [zero, *carry, *ys], condition, body)
        carry, ys = split_at(outs, self.num_carry)
        for i in range(looped, self.length) if looped != self.length else ():
            carry, ys = self.step(ctx, carry, ys, ctx.scalar(self._row_of(i), self.index_dtype))
        return [*carry, *ys]

    def step(
        self, ctx: FunctionContext, carry: Sequence[Value], ys: Sequence[Value], at: Value
    ) -> tuple[list[Value], list[Value]]:
        """The step at row `at`: the next carry, and the ys with that row written."""
        carry, rows = self._run_body(ctx, carry, at)
        return carry, [write_row(ctx, y, row, at) for y, row in zip(ys, rows, strict=True)]

    def _run_body(
        self, ctx: FunctionContext, carry: Sequence[Value], at: Value
    ) -> tuple[list[Value], list[Value]]:
        """The next carry, and a row of each output."""
        rows = [_read_row(ctx, x, at) for x in self.xs]
        outs = lower_jaxpr_body(ctx, self.body, [*self.consts, *carry, *rows])
        return outs[: self.num_carry], outs[self.num_carry :]

    def _overwritten(self, ctx: FunctionContext, avals: Sequence[ShapedArray]) -> list[Value]:
        """Arrays of any values, each of which the loop overwrites."""
        # XLA makes one array of equal constants, and copies that array for each loop that writes into it. So each array
        # has another value, below a limit that every dtype of so many bytes holds (float0 is written as booleans).
        values = [next(ctx.counter) % (1 << max(8 * aval.dtype.itemsize - 7, 0)) for aval in avals]
        moves = [e for e in self.body.eqns if e.primitive is memory_p or any(map(moves_values, e.jaxprs))]
        if moves:  # rows may go to the host, whose memory XLA takes in place of a broadcast
            numbers = [ctx.scalar(value, aval.dtype) for value, aval in zip(values, avals, strict=True)]
            return [ctx.fill(number, aval) for number, aval in zip(numbers, avals, strict=True)]
        earlier = next((x for x in self.xs if x.name in ctx.of_loops and 0 not in x.aval.shape), None)
        if earlier is None or ctx.module.partitioned_here:
            return [ctx.constant(value, aval) for value, aval in zip(values, avals, strict=True)]
        # XLA fills arrays of constants before all loops, and each takes memory of its own. An array that is made of an
        # element of what an earlier loop computed is filled after that loop, in memory that is free by then.
        corner = ctx.reshape(ctx.slice(earlier, [0] * earlier.aval.ndim, [1] * earlier.aval.ndim), ())
        outs: list[Value] = []
        for value, aval in zip(values, avals, strict=True):
            number = ctx.op("add", [ctx.convert(corner, aval.dtype), ctx.scalar(value, aval.dtype)])
            outs.append(ctx.fill(number, aval))
        return outs

    def _row_of(self, i: int) -> int:
        """The row that step `i` reads and writes."""
        return self.length - 1 - i if self.reverse else i


# --- Rows -----------------------------------------------------------------------------------------


def write_row(ctx: FunctionContext, ys: Value, y: Value, at: Value) -> Value:
    """`ys` with row `at` replaced by `y`."""
    # No guard against an update that reads what it overwrites (Note [Updates in place]): nothing reads `ys` before
    # the loop has ended. Guarded, a loop of small rows is three times slower.
    return ctx.dynamic_update_slice(ys, _as_row(ctx, y), _row_start(ctx, ys, at))


def _read_row(ctx: FunctionContext, x: Value, at: Value) -> Value:
    starts = _row_start(ctx, x, at)
    shape = x.aval.shape[1:]
    row = ctx.reshape(ctx.dynamic_slice(x, starts, (1, *shape)), shape)
    row.sources = x.sources
    return row


def _row_start(ctx: FunctionContext, x: Value, at: Value) -> list[Value]:
    """The index of the first element of row `at`."""
    return [at] + [ctx.scalar(0, at.aval.dtype)] * (x.aval.ndim - 1)


def _as_row(ctx: FunctionContext, y: Value) -> Value:
    return ctx.reshape(y, (1, *y.aval.shape))
