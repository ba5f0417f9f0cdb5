"""`scan_p`: run a body a known number of times, along the leading axis of its inputs and outputs.

    scan_p(c, h, xs; jaxpr):    for x in xs: h, y = jaxpr(c, h, x);    return h, stacked y

The body receives constants, what it carries, and a row of each of `xs`. Every rule is that of the body, wrapped
in a new scan whose carry has the marks the body gives back (`fixpoint`). Linearised, one scan runs now and
stacks what the linear steps will need, and a second, linear scan uses it (`_divide`: nothing is stacked that
is a constant, a row of `xs`, the same at every step, or stacked already). Transposed, a linear scan runs in
the other direction; cotangents of constants are sums, so they are carried. Lowered, it is a `stablehlo.while`
that counts; rows are read and written in place.
Read next: `while_loop.py`; `didax/lax/loops.py`, what users call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core.array_ops import Zero, array_ops, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from didax.core.primitive import Primitive
from didax.passes.checkify import Kinds, Report, Site, checkify_jaxpr, nothing_failed, report_of
from didax.passes.key_reuse import loop_keys, row_of, summarise, use_rows
from didax.passes.simplify import dce_jaxpr, simplify_jaxpr
from didax.primitives.call import check_jaxpr_operands, fill_zeros
from didax.primitives.control_flow.accumulate import accumulate_in_place
from didax.primitives.control_flow.common import (
    Marks,
    batch_first,
    carry_types,
    fixpoint,
    lower_loop,
    marked,
    merge,
    nonzero,
    run_compiled,
    split_at,
    unmarked,
    with_invars,
)
from didax.primitives.control_flow.order import read_before_writing
from didax.primitives.elementwise import add
from didax.primitives.shape import reshape
from didax.primitives.slicing import concatenate, dynamic_slice_p
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.jvp import jvp_jaxpr
from didax.transforms.linearize import linearize_jaxpr
from didax.transforms.partial_eval import Split, partial_eval_jaxpr
from didax.transforms.staging import trace_to_jaxpr
from didax.transforms.transpose import cotangent_avals, is_undef, strong_cotangents, transpose_jaxpr
from didax.xla.lowering import lower_jaxpr_body
from didax.xla.text import FunctionContext, Value


class Scan(Primitive):
    """`scan_p.bind(*consts, *carry, *xs, ...)`: the last carry, then the stacked outputs.

    `jaxpr` maps `num_consts` constants, `num_carry` parts of the carry and a row of each of `xs` to the next
    carry and a row of each output. It runs `length` times, with `reverse` from the last row to the first;
    compiled, `unroll` steps make one step of the loop.
    """

    multiple_results = True

    def bind(self, *args: Any, jaxpr: Jaxpr, num_consts: int, num_carry: int, **how: Any) -> list[Any]:
        """As of every primitive, but what the body hands on unchanged is a result at once."""
        plain = _forward(jaxpr, num_consts, num_carry)
        if plain.jaxpr is None:
            return self.apply(*args, jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry, **how)
        consts, carry, xs = split_at(args, num_consts, num_carry)
        fixed, varying = marked(carry, plain.fixed), unmarked(carry, plain.fixed)
        outs: list[Any] = []
        if plain.jaxpr.outvars or plain.jaxpr.effects:
            sizes = {"num_consts": num_consts + len(fixed), "num_carry": len(varying)}
            outs = self.apply(*consts, *fixed, *varying, *xs, jaxpr=plain.jaxpr, **sizes, **how)
        sources = {"fixed": fixed, "x": xs, "out": outs}
        return [sources[kind][k] for kind, k in plain.sources]

    def apply(self, *args: Any, **params: Any) -> list[Any]:
        """The scan as it is, under the current trace; of loops that follow these rules, theirs (`bounded.py`)."""
        return super().bind(*args, **params)

    def named_axes(self, params: dict[str, Any]) -> frozenset[str]:
        return params["jaxpr"].axis_names

    def type(
        self, *avals: ShapedArray, jaxpr: Jaxpr, length: int, num_consts: int, num_carry: int, **how: Any
    ) -> list[ShapedArray]:
        consts, carry, xs = split_at(avals, num_consts, num_carry)
        if any(x.shape[:1] != (length,) for x in xs):
            raise TypeError(
                message(
                    "scan runs along the leading axes of its inputs, which have its length.",
                    f"length: {length}, inputs: {', '.join(map(str, xs))}",
                    fix="Cut or pad the inputs.",
                )
            )
        check_jaxpr_operands(
            "the body of scan", jaxpr, [*consts, *carry, *(x.update(shape=x.shape[1:]) for x in xs)]
        )
        _, before, _ = split_at(jaxpr.in_avals, num_consts, num_carry)
        after, ys = split_at(jaxpr.out_avals, num_carry)
        return [*carry_types("scan", before, after), *(y.update(shape=(length, *y.shape)) for y in ys)]

    def evaluate(self, *args: Any, **params: Any) -> list[Any]:
        return run_compiled(self, args, "jaxpr", params)

    def lower(
        self,
        ctx: FunctionContext,
        *args: Any,
        jaxpr: Jaxpr,
        length: int,
        reverse: bool,
        num_consts: int,
        num_carry: int,
        unroll: int,
    ) -> list[Value]:
        consts, carry, xs = split_at(args, num_consts, num_carry)
        steps = Steps(read_before_writing(simplify_jaxpr(jaxpr)), consts, xs, num_carry, length, reverse)
        out_avals = ctx.out_avals[num_carry:]
        if length <= unroll:
            return steps.straight(ctx, carry, out_avals)
        return steps.loop(ctx, carry, out_avals, unroll)

    def jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        jaxpr: Jaxpr,
        num_consts: int,
        num_carry: int,
        **how: Any,
    ) -> tuple[list[Any], list[Any]]:
        new, out = jvp_body(jaxpr, num_consts, num_carry, nonzero(tangents))
        consts, carry, xs = split_at(primals, num_consts, num_carry)
        const_dots, carry_dots, x_dots = split_at(tangents, num_consts, num_carry)
        const_dots, x_dots = live_tangents(const_dots), live_tangents(x_dots)
        carry_dots = [instantiate(t) for t in marked(carry_dots, out[:num_carry])]
        outs = self.bind(
            *consts,
            *const_dots,
            *carry,
            *carry_dots,
            *xs,
            *x_dots,
            jaxpr=new,
            num_consts=num_consts + len(const_dots),
            num_carry=num_carry + len(carry_dots),
            **how,
        )
        num_ys = len(jaxpr.outvars) - num_carry
        last, last_dots, ys, y_dots = split_at(outs, num_carry, len(carry_dots), num_ys)
        outs = [*last, *ys]
        return outs, fill_zeros([*last_dots, *y_dots], out, [aval_of(y) for y in outs])

    def linearize(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        jaxpr: Jaxpr,
        num_consts: int,
        num_carry: int,
        **how: Any,
    ) -> tuple[list[Any], list[Any]]:
        halves = linearize_body(jaxpr, num_consts, num_carry, nonzero(tangents))
        const_dots, carry_dots, x_dots = split_at(tangents, num_consts, num_carry)
        carry_dots = [instantiate(t) for t in marked(carry_dots, halves.unknown_out[:num_carry])]
        outs, out_dots = self._run_halves(
            halves, primals, (live_tangents(const_dots), carry_dots, live_tangents(x_dots)), how
        )
        return outs, fill_zeros(out_dots, halves.unknown_out, [aval_of(y) for y in outs])

    def partial_eval(
        self, unknown: Sequence[bool], *args: Any, jaxpr: Jaxpr, num_consts: int, num_carry: int, **how: Any
    ) -> list[Any]:
        halves = partial_eval_body(jaxpr, num_consts, num_carry, tuple(unknown))
        now, later = parts_by(halves.unknown_in, args, num_consts, num_carry)
        outs, rest = self._run_halves(halves, [x for part in now for x in part], later, how)
        return merge(halves.unknown_out, rest, outs)

    def _run_halves(
        self, halves: Halves, known: Sequence[Any], unknown: Sequence[Sequence[Any]], how: dict[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        """Results of the known half, and of the unknown half on `unknown` (constants, carry, xs)."""
        consts, carry, xs = unknown
        outs: list[Any] = []
        if halves.known.outvars or halves.known.effects:
            outs = self.bind(
                *known, jaxpr=halves.known, num_consts=halves.num_consts, num_carry=halves.num_carry, **how
            )
        saved_consts, saved_xs = halves.residuals(known, outs)
        rest: list[Any] = []
        if halves.unknown.outvars or halves.unknown.effects:
            rest = self.bind(
                *saved_consts,
                *consts,
                *carry,
                *saved_xs,
                *xs,
                jaxpr=halves.unknown,
                num_consts=len(saved_consts) + len(consts),
                num_carry=len(carry),
                **how,
            )
        return outs[: halves.num_outs], rest

    def transpose(
        self, cts: Sequence[Any], *args: Any, jaxpr: Jaxpr, num_consts: int, num_carry: int, **how: Any
    ) -> list[Any]:
        linear = tuple(is_undef(x) for x in args)
        halves = partial_eval_body(jaxpr, num_consts, num_carry, linear)
        if halves.num_carry:  # a part of the carry is not linear: its values are computed first
            return self._transpose_unknown(halves, linear, cts, args, num_consts, num_carry, how)
        linear_in = halves.unknown_in  # all of the carry; parts that start from a known value are zero there
        strong = strong_cotangents(cts, jaxpr)
        new = transpose_body(jaxpr, num_consts, num_carry, linear_in, nonzero(cts), strong)
        (res_consts, _, res_xs), _ = parts_by(linear_in, args, num_consts, num_carry)
        carry_bars, y_bars = split_at(cts, num_carry)
        const_bars = [
            array_ops.zeros(v.aval)
            for v in marked(marked(jaxpr.invars[:num_consts], linear[:num_consts]), new.consts)
        ]
        carry_bars = [instantiate(ct) for ct in marked(carry_bars, new.carry)]
        outs = self.bind(
            *res_consts,
            *const_bars,
            *carry_bars,
            *res_xs,
            *live_tangents(y_bars),
            jaxpr=new.jaxpr,
            num_consts=len(res_consts),
            num_carry=len(const_bars) + len(carry_bars),
            **{**how, "reverse": not how["reverse"]},
        )
        found = iter(outs)
        bars = iter([next(found) if nz else None for nz in (*new.consts, *new.carry, *new.xs)])
        x_bars = [next(bars) if lin else None for lin in linear_in]
        return [x_bar if lin else None for x_bar, lin in zip(x_bars, linear, strict=True)]

    def _transpose_unknown(
        self,
        halves: Halves,
        linear: Marks,
        cts: Sequence[Any],
        args: Sequence[Any],
        num_consts: int,
        num_carry: int,
        how: dict[str, Any],
    ) -> list[Any]:
        """Run the half that is not linear, and transpose the other with what that gives."""
        now, (consts, carry, xs) = parts_by(halves.unknown_in, args, num_consts, num_carry)
        known = [x for part in now for x in part]
        outs = self.bind(
            *known, jaxpr=halves.known, num_consts=halves.num_consts, num_carry=halves.num_carry, **how
        )
        saved_consts, saved_xs = halves.residuals(known, outs)
        x_bars = self.transpose(
            marked(cts, halves.unknown_out),
            *saved_consts,
            *consts,
            *carry,
            *saved_xs,
            *xs,
            jaxpr=halves.unknown,
            num_consts=len(saved_consts) + len(consts),
            num_carry=len(carry),
            **how,
        )
        _, bars, _, x_bars = split_at(x_bars, len(saved_consts), len(consts) + len(carry), len(saved_xs))
        return merge(halves.unknown_in, [*bars, *x_bars], [None] * halves.unknown_in.count(False))

    def batch(
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
        consts, carry, xs = split_at(args, num_consts, num_carry)
        const_dims, carry_dims, x_dims = split_at(dims, num_consts, num_carry)
        xs = [array_ops.move_axis(x, 0, 1) if dim == 0 else x for x, dim in zip(xs, x_dims, strict=True)]
        row_dims = [None if dim is None else max(dim - 1, 0) for dim in x_dims]
        start = tuple(dim is not None for dim in carry_dims)
        new, batched = batch_body(jaxpr, axis, tuple(const_dims), start, tuple(row_dims))
        carry = [
            batch_first(axis, x, dim) if b else x
            for x, dim, b in zip(carry, carry_dims, batched[:num_carry], strict=True)
        ]
        outs = self.bind(*consts, *carry, *xs, jaxpr=new, num_consts=num_consts, num_carry=num_carry, **how)
        first = [0] * num_carry + [1] * (len(outs) - num_carry)
        return outs, [dim if b else None for dim, b in zip(first, batched, strict=True)]

    def keys(
        self,
        line: Any,
        operands: Sequence[Any],
        *,
        jaxpr: Jaxpr,
        length: int,
        num_consts: int,
        num_carry: int,
        **how: Any,
    ) -> list[Any]:
        consts, carry, xs = split_at(operands, num_consts, num_carry)
        body = summarise(jaxpr)
        rows: list[Any] = []

        def step(carry: Sequence[Any]) -> list[Any]:
            rows[:] = [row_of(x) for x in xs]
            return body.apply([*consts, *carry, *rows], None)[:num_carry]

        carry = loop_keys(step, length, carry)
        for x, row in zip(xs, rows, strict=length > 0):
            if row is not None:
                use_rows(x, row)
        return [*carry, *[None] * (len(jaxpr.outvars) - num_carry)]

    def checkify(
        self, kinds: Kinds, *args: Any, jaxpr: Jaxpr, num_consts: int, num_carry: int, **how: Any
    ) -> tuple[list[Any], Report | None]:
        new, sites = _checkify(jaxpr, kinds, num_consts, num_carry)
        start = nothing_failed(sites).arrays() if sites else []
        consts, rest = split_at(args, num_consts)
        sizes = {"num_consts": num_consts, "num_carry": len(start) + num_carry}
        outs = self.bind(*consts, *start, *rest, jaxpr=new, **sizes, **how)
        arrays, outs = split_at(outs, len(start))
        return outs, report_of(arrays, sites) if sites else None

    def run_jaxprs(
        self, run: Any, *args: Any, jaxpr: Jaxpr, length: int, reverse: bool, num_consts: int, num_carry: int,
        **how: Any,
    ) -> list[Any]:  # fmt: skip
        consts, carry, xs = split_at(args, num_consts, num_carry)
        rows: list[list[Any]] = []
        for i in reversed(range(length)) if reverse else range(length):
            row = [_row(x, i) for x in xs]
            carry, ys = split_at(run(jaxpr, [*consts, *carry, *row], f"step {i} of scan"), num_carry)
            rows.append(ys)
        columns = zip(*(reversed(rows) if reverse else rows), strict=True)
        stacked = [concatenate([reshape(y, (1, *aval_of(y).shape)) for y in ys], 0) for ys in columns]
        empty = [v.aval.update(shape=(0, *v.aval.shape)) for v in jaxpr.outvars[num_carry:]]
        return [*carry, *(stacked if length else map(array_ops.zeros, empty))]

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        params = eqn.params
        num_consts, num_carry = params["num_consts"], params["num_carry"]
        new, used_in, used_out = dce_body(params["jaxpr"], num_consts, num_carry, tuple(used))
        consts, carry, _ = split_at(used_in, num_consts, num_carry)
        return eqn.replace(
            invars=marked(eqn.invars, used_in),
            outvars=marked(eqn.outvars, used_out),
            params={**params, "jaxpr": new, "num_consts": sum(consts), "num_carry": sum(carry)},
        )

    def recompute(
        self, eqn: Eqn, needed: Marks, divide: Callable[[Jaxpr, Marks], Split[Jaxpr]]
    ) -> tuple[Eqn, Eqn, list[Var]]:
        params = eqn.params
        jaxpr, num_consts, num_carry = params["jaxpr"], params["num_consts"], params["num_carry"]
        split, wanted = _divide_step(jaxpr, num_consts, num_carry, needed, divide)
        rows = split.known.out_avals[len(wanted) :]
        saved = [Var(aval.update(shape=(params["length"], *aval.shape))) for aval in rows]
        first = eqn.replace(outvars=[*eqn.outvars, *saved], params={**params, "jaxpr": split.known})
        inputs = [k for kind, k in split.residuals if kind == "in"]
        sizes = {"num_consts": sum(k < num_consts for k in inputs), "num_carry": sum(wanted[:num_carry])}
        again = eqn.replace(
            invars=[*(eqn.invars[k] for k in inputs), *saved],
            outvars=marked(eqn.outvars, wanted),
            params={**params, **sizes, "jaxpr": split.unknown},
        )
        return first, again, saved


scan_p = Scan("scan")


def live_tangents(tangents: Sequence[Any]) -> list[Any]:
    """Those that are more than symbolic zeros."""
    return [t for t in tangents if type(t) is not Zero]


def parts_by(
    marks: Marks, values: Sequence[Any], num_consts: int, num_carry: int
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Constants, carry and xs among the values that are not marked, and among those that are."""
    pairs = list(
        zip(split_at(values, num_consts, num_carry), split_at(marks, num_consts, num_carry), strict=True)
    )
    return tuple(unmarked(*pair) for pair in pairs), tuple(marked(*pair) for pair in pairs)


# --- Lowering -------------------------------------------------------------------------------------


class Steps(NamedTuple):
    """Writes the steps of one scan."""

    jaxpr: Jaxpr
    consts: list[Value]
    xs: list[Value]
    num_carry: int
    length: int
    reverse: bool

    @property
    def index_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int32 if self.length <= np.iinfo(np.int32).max else np.int64)

    def step(
        self, ctx: FunctionContext, carry: Sequence[Value], at: Value
    ) -> tuple[list[Value], list[Value]]:
        """One run of the body: the next carry, and a row of each output."""
        rows = [_read_row(ctx, x, at) for x in self.xs]
        outs = lower_jaxpr_body(ctx, self.jaxpr, [*self.consts, *carry, *rows])
        return outs[: self.num_carry], outs[self.num_carry :]

    def row_of(self, i: int) -> int:
        """The row that step `i` reads and writes."""
        return self.length - 1 - i if self.reverse else i

    def straight(
        self, ctx: FunctionContext, carry: list[Value], out_avals: Sequence[ShapedArray]
    ) -> list[Value]:
        """All steps one after another."""
        outputs: list[list[Value]] = []
        for i in range(self.length):
            carry, rows = self.step(ctx, carry, ctx.scalar(self.row_of(i), self.index_dtype))
            outputs.append([_as_row(ctx, y) for y in rows])
        if not outputs:
            return [*carry, *(ctx.constant(0, aval) for aval in out_avals)]
        columns = zip(*(outputs[:: -1 if self.reverse else 1]), strict=True)
        return [*carry, *[ctx.concatenate(rows, 0) for rows in columns]]

    def loop(
        self, ctx: FunctionContext, carry: list[Value], out_avals: Sequence[ShapedArray], unroll: int
    ) -> list[Value]:
        """A loop of `unroll` steps a time, then the steps that are left."""
        looped = self.length - self.length % unroll
        zero = ctx.scalar(0, self.index_dtype)
        ys = [_blank(ctx, aval) for aval in out_avals]

        def body(region: FunctionContext, values: list[Value]) -> list[Value]:
            (start,), carry, ys = split_at(values, 1, self.num_carry)
            for j in range(unroll):
                i = region.op("add", [start, region.scalar(j, self.index_dtype)]) if j else start
                if self.reverse:
                    i = region.op("subtract", [region.scalar(self.length - 1, self.index_dtype), i])
                carry, ys = self.write_step(region, carry, ys, i)
            return [region.op("add", [start, region.scalar(unroll, self.index_dtype)]), *carry, *ys]

        def condition(region: FunctionContext, values: list[Value]) -> Value:
            return region.compare("LT", values[0], region.scalar(looped, self.index_dtype))

        _, *outs = lower_loop(ctx, [zero, *carry, *ys], condition, body)
        carry, ys = split_at(outs, self.num_carry)
        for i in range(looped, self.length):
            carry, ys = self.write_step(ctx, carry, ys, ctx.scalar(self.row_of(i), self.index_dtype))
        return [*carry, *ys]

    def write_step(
        self, ctx: FunctionContext, carry: Sequence[Value], ys: Sequence[Value], at: Value
    ) -> tuple[list[Value], list[Value]]:
        """One run of the body whose output rows are written into `ys`."""
        carry, rows = self.step(ctx, carry, at)
        return carry, [write_row(ctx, y, row, at) for y, row in zip(ys, rows, strict=True)]


def _blank(ctx: FunctionContext, aval: ShapedArray) -> Value:
    """An array of which every element is going to be written."""
    # Each holds another number: of equal constants XLA makes one array, and a copy of it for each loop that writes.
    # What every dtype of so many bytes holds: float0, which has none, is written as booleans.
    limit = 1 << max(8 * aval.dtype.itemsize - 7, 0)
    return ctx.constant(next(ctx.counter) % limit, aval)


def _at_row(ctx: FunctionContext, x: Value, at: Value) -> list[Value]:
    return [at] + [ctx.scalar(0, at.aval.dtype)] * (x.aval.ndim - 1)


def _read_row(ctx: FunctionContext, x: Value, at: Value) -> Value:
    starts = _at_row(ctx, x, at)
    row = x.aval.update(shape=(1, *x.aval.shape[1:]))
    return ctx.reshape(ctx.dynamic_slice(x, starts, row.shape), row.shape[1:])


def _as_row(ctx: FunctionContext, y: Value) -> Value:
    return ctx.reshape(y, (1, *y.aval.shape))


def write_row(ctx: FunctionContext, ys: Value, y: Value, at: Value) -> Value:
    """`ys` with row `at` replaced by `y`."""
    # No guard against an update that reads what it overwrites (Note [Updates in place]): nothing reads `ys` before
    # the loop has ended. Guarded, a loop of small rows is three times slower.
    return ctx.dynamic_update_slice(ys, _as_row(ctx, y), _at_row(ctx, ys, at))


# --- What the body hands on -----------------------------------------------------------------------


class _Forwarded(NamedTuple):
    """A body without what it only hands on (None where there is nothing of the kind), and where results come from.

    Parts of the carry that are `fixed` have become constants. A source is ("fixed", k), ("x", k): an input as
    a whole, or ("out", k): an output of the new scan.
    """

    jaxpr: Jaxpr | None
    fixed: Marks
    sources: tuple[tuple[str, int], ...]


@cached_on_jaxpr
def _forward(jaxpr: Jaxpr, num_consts: int, num_carry: int) -> _Forwarded:
    consts, carry, xs = split_at(jaxpr.invars, num_consts, num_carry)
    after, ys = split_at(jaxpr.outvars, num_carry)
    fixed = tuple(x is y for x, y in zip(carry, after, strict=True))
    kept = unmarked(after, fixed)
    places = iter([("fixed", k) for k in range(sum(fixed))])
    moving = iter([("out", k) for k in range(len(kept))])
    sources = [next(places if f else moving) for f in fixed]
    rows = {x: ("x", k) for k, x in enumerate(xs)}
    for y in ys:
        source = rows.get(y)  # type: ignore[arg-type]
        if source is None:
            source = ("out", len(kept))
            kept.append(y)
            if type(y) is Var:
                rows[y] = source
        sources.append(source)
    if len(kept) == len(jaxpr.outvars):
        return _Forwarded(None, fixed, ())
    invars = [*consts, *marked(carry, fixed), *unmarked(carry, fixed), *xs]
    return _Forwarded(Jaxpr(invars, jaxpr.eqns, kept, jaxpr.name), fixed, tuple(sources))


# --- Forward mode and batches ---------------------------------------------------------------------


def _row(x: Any, i: int) -> Any:
    """`x[i]`, for an array in memory."""
    shape = aval_of(x).shape
    starts = [np.int32(i), *[np.int32(0)] * (len(shape) - 1)]
    return reshape(dynamic_slice_p.bind(x, *starts, slice_sizes=(1, *shape[1:])), shape[1:])


@cached_on_jaxpr
def _checkify(jaxpr: Jaxpr, kinds: Kinds, num_consts: int, num_carry: int) -> tuple[Jaxpr, tuple[Site, ...]]:
    """The body that also carries a report, before all else; `(consts, report, carry, row)`."""
    body = checkify_jaxpr(jaxpr, kinds)
    if not body.sites:
        return body.jaxpr, ()
    count = len(nothing_failed(body.sites).arrays())

    def step(*args: Any) -> list[Any]:
        consts, before, rest = split_at(args, num_consts, count)
        outs, report = body.split(eval_jaxpr(body.jaxpr, [*consts, *rest]))
        assert report is not None, "it has checks"
        return [*report_of(before, body.sites).unless_failed(report).arrays(), *outs]

    avals = jaxpr.in_avals
    before = [aval_of(x) for x in nothing_failed(body.sites).arrays()]
    new, _ = trace_to_jaxpr(step, [*avals[:num_consts], *before, *avals[num_consts:]], what="checkify")
    return new, body.sites


def _no(count: int) -> Marks:
    return (False,) * count


@cached_on_jaxpr
def jvp_body(jaxpr: Jaxpr, num_consts: int, num_carry: int, nonzero_in: Marks) -> tuple[Jaxpr, Marks]:
    """The body on primals and tangents, both in the order of a scan, and which results have a tangent."""
    consts, start, xs = split_at(nonzero_in, num_consts, num_carry)
    rest = _no(len(jaxpr.outvars) - num_carry)

    def step(carry: Marks) -> tuple[Jaxpr, Marks]:
        return jvp_jaxpr(jaxpr, (*consts, *carry, *xs), (*carry, *rest))

    carry = fixpoint(start, lambda marks: step(marks)[1][:num_carry])
    new, nonzero_out = step(carry)
    primals, tangents = split_at(new.invars, len(jaxpr.invars))
    dots = split_at(tangents, sum(consts), sum(carry))
    ins = [
        v
        for pair in zip(split_at(primals, num_consts, num_carry), dots, strict=True)
        for vs in pair
        for v in vs
    ]
    after, ys, after_dots, y_dots = split_at(new.outvars, num_carry, len(rest), sum(carry))
    return Jaxpr(ins, new.eqns, [*after, *after_dots, *ys, *y_dots], new.name), nonzero_out


@cached_on_jaxpr
def batch_body(
    jaxpr: Jaxpr,
    axis: AxisData,
    const_dims: tuple[int | None, ...],
    start: Marks,
    row_dims: tuple[int | None, ...],
) -> tuple[Jaxpr, Marks]:
    """The body for a batch, which comes first in its carry, and which results have one."""
    num_carry = len(start)
    rest = _no(len(jaxpr.outvars) - num_carry)

    def step(carry: Marks) -> tuple[Jaxpr, Marks]:
        dims = (*const_dims, *(0 if b else None for b in carry), *row_dims)
        return batch_jaxpr(jaxpr, axis, dims, (*carry, *rest))

    return step(fixpoint(start, lambda marks: step(marks)[1][:num_carry]))


# --- Two halves -----------------------------------------------------------------------------------


class Halves(NamedTuple):
    """A scan in two: the first runs now, the second, on what the first has saved, when the rest is known.

    `known` returns what is known (`num_outs` results), then residuals, stacked. Residual constants of `unknown` come
    first among its constants, residual rows first among its xs. `const_sources[i]` is ("in", k), an input of the
    known half, or ("once", k), a result of `once`, which maps the known constants to residuals that are the same at
    every step. `x_sources[i]` is ("in", k) or ("out", k), a result of the known half. `unknown_in` and `unknown_out`
    mark operands and results of the whole.
    """

    known: Jaxpr
    unknown: Jaxpr
    once: Jaxpr
    num_consts: int
    num_carry: int
    num_outs: int
    const_sources: tuple[tuple[str, int], ...]
    x_sources: tuple[tuple[str, int], ...]
    unknown_in: Marks
    unknown_out: Marks

    def residuals(self, known_args: Sequence[Any], outs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Values for the residual constants and the residual xs of the unknown half."""
        once = eval_jaxpr(self.once, known_args[: self.num_consts])
        sources = {"in": known_args, "once": once, "out": outs}
        return [sources[s][k] for s, k in self.const_sources], [sources[s][k] for s, k in self.x_sources]


@cached_on_jaxpr
def linearize_body(jaxpr: Jaxpr, num_consts: int, num_carry: int, nonzero_in: Marks) -> Halves:
    """The halves of a scan from those of its linearised body."""
    consts, start, xs = split_at(nonzero_in, num_consts, num_carry)
    rest = _no(len(jaxpr.outvars) - num_carry)

    def step(carry: Marks) -> Split[Jaxpr]:
        return linearize_jaxpr(jaxpr, (*consts, *carry, *xs), (*carry, *rest))

    carry = fixpoint(start, lambda marks: step(marks).unknown_out[:num_carry])
    return _divide(step(carry), (num_consts, num_carry), (sum(consts), sum(carry)), nonzero_in)


@cached_on_jaxpr
def partial_eval_body(jaxpr: Jaxpr, num_consts: int, num_carry: int, unknown: Marks) -> Halves:
    """The halves of a scan by which of its operands are unknown."""
    consts, start, xs = split_at(unknown, num_consts, num_carry)
    rest = _no(len(jaxpr.outvars) - num_carry)

    def step(carry: Marks) -> Split[Jaxpr]:
        return partial_eval_jaxpr(jaxpr, (*consts, *carry, *xs), (*carry, *rest))

    carry = fixpoint(start, lambda marks: step(marks).unknown_out[:num_carry])
    sizes = (consts.count(False), carry.count(False)), (sum(consts), sum(carry))
    return _divide(step(carry), *sizes, (*consts, *carry, *xs))


def _divide(
    split: Split[Jaxpr], known_sizes: tuple[int, int], unknown_sizes: tuple[int, int], unknown_in: Marks
) -> Halves:
    """The halves of a scan from those of its body; the sizes are numbers of constants and parts of the carry."""
    known, unknown = split.known, split.unknown
    num_consts, num_carry = known_sizes
    num_outs = len(known.outvars) - split.num_residual_outputs
    same = _same_at_every_step(known, num_consts)
    outs = list(known.outvars)[:num_outs]
    stacked: dict[Any, int] = {y: k for k, y in enumerate(outs) if k >= num_carry}
    once: dict[Any, int] = {}
    consts: list[tuple[Var, tuple[str, int]]] = []
    xs: list[tuple[Var, tuple[str, int]]] = []
    for var, (kind, k) in zip(unknown.invars, split.residuals, strict=False):
        value = known.invars[k] if kind == "in" else known.outvars[num_outs + k]
        if kind == "in" and k < num_consts:
            consts.append((var, ("in", k)))
        elif kind == "in" and k >= num_consts + num_carry:
            xs.append((var, ("in", k)))
        elif value in same:
            consts.append((var, ("once", once.setdefault(value, len(once)))))
        else:
            if value not in stacked:
                stacked[value] = len(outs)
                outs.append(value)
            xs.append((var, ("out", stacked[value])))
    const_ins, carry_ins, x_ins = split_at(unknown.invars[len(split.residuals) :], *unknown_sizes)
    invars = [*(v for v, _ in consts), *const_ins, *carry_ins, *(v for v, _ in xs), *x_ins]
    hoisted = Jaxpr(
        known.invars[:num_consts],
        [e for e in known.eqns if same.issuperset(e.outvars) and not e.effects],
        list(once),
    )
    return Halves(
        Jaxpr(known.invars, known.eqns, outs, known.name),
        with_invars(unknown, invars),
        dce_jaxpr(hoisted, (True,) * len(once), keep_inputs=True)[0],
        num_consts,
        num_carry,
        num_outs,
        tuple(source for _, source in consts),
        tuple(source for _, source in xs),
        unknown_in,
        split.unknown_out,
    )


def _divide_step(
    jaxpr: Jaxpr,
    num_consts: int,
    num_carry: int,
    needed: Marks,
    divide: Callable[[Jaxpr, Marks], Split[Jaxpr]],
) -> tuple[Split[Jaxpr], Marks]:
    """The body divided so that its second half carries all it reads of the carry, and what that half returns."""
    ys = needed[num_carry:]

    def reads(carry: Marks) -> Marks:
        sources = divide(jaxpr, (*carry, *ys)).residuals
        return tuple(("in", num_consts + k) in sources for k in range(num_carry))

    carry = fixpoint(needed[:num_carry], reads)
    split = divide(jaxpr, (*carry, *ys))
    # What is carried comes in at every step, whether the step reads it or not.
    carried = {("in", num_consts + k) for k in range(num_carry) if carry[k]}
    inputs = sorted({source for source in split.residuals if source[0] == "in"} | carried)
    saved = split.unknown.invars[len(split.residuals) - split.num_residual_outputs :]
    again = with_invars(split.unknown, [*(jaxpr.invars[k] for _, k in inputs), *saved])
    sources = (*inputs, *(source for source in split.residuals if source[0] == "out"))
    return Split(split.known, again, split.unknown_out, sources), (*carry, *ys)


def _same_at_every_step(jaxpr: Jaxpr, num_consts: int) -> set[Any]:
    """The variables that depend on nothing but the constants, and that no effect gives."""
    same: set[Any] = set(jaxpr.invars[:num_consts])
    for eqn in jaxpr.eqns:
        if all(type(x) is not Var or x in same for x in eqn.invars) and not eqn.effects:
            same.update(eqn.outvars)
    return same


# --- Reverse mode and dead parts ------------------------------------------------------------------


class _Transposed(NamedTuple):
    """The body of a transposed scan, and which linear constants, parts of the carry and xs get a cotangent."""

    jaxpr: Jaxpr
    consts: Marks
    carry: Marks
    xs: Marks


@cached_on_jaxpr
def transpose_body(
    jaxpr: Jaxpr, num_consts: int, num_carry: int, linear: Marks, nonzero_ct: Marks, strong_ct: Marks = ()
) -> _Transposed:
    """`(residuals, const_bars, carry_bars, residual rows, y_bars) -> (const_bars, carry_bars, x_bars)`.

    Outputs marked by `strong_ct` have strongly typed cotangents in any case, see `transpose_jaxpr`.
    """
    start, ys = nonzero_ct[:num_carry], nonzero_ct[num_carry:]
    num_linear = sum(linear[:num_consts])

    def step(carry: Marks) -> tuple[Jaxpr, Marks]:
        return transpose_jaxpr(jaxpr, linear, (*carry, *ys), strong_ct=strong_ct)

    carry = fixpoint(start, lambda marks: step(marks)[1][num_linear : num_linear + num_carry])
    new, found = step(carry)
    found_consts, found_carry, found_xs = split_at(found, num_linear, num_carry)
    (res_consts, _, res_xs), (lin_consts, _, _) = parts_by(linear, jaxpr.in_avals, num_consts, num_carry)
    const_avals = marked(lin_consts, found_consts)
    out_avals = cotangent_avals(jaxpr, strong_ct)
    carry_avals = marked(out_avals[:num_carry], carry)
    y_avals = marked(out_avals[num_carry:], ys)

    def back(*args: Any) -> list[Any]:
        sizes = (len(res_consts), len(const_avals), len(carry_avals), len(res_xs))
        consts, const_bars, carry_bars, rows, y_bars = split_at(args, *sizes)
        x_bars = iter(eval_jaxpr(new, [*consts, *rows, *carry_bars, *y_bars]))
        const_bars = [add(total, next(x_bars)) for total in const_bars]
        moved = marked(zip(jaxpr.in_avals[num_consts:], found_carry, strict=False), carry)
        before = [next(x_bars) if f else array_ops.zeros(aval) for aval, f in moved]
        return [*const_bars, *before, *x_bars]

    body, captured = trace_to_jaxpr(
        back, [*res_consts, *const_avals, *carry_avals, *res_xs, *y_avals], what="transpose"
    )
    assert not captured, "jaxprs are closed"
    return _Transposed(accumulate_in_place(body), tuple(found_consts), carry, tuple(found_xs))


@cached_on_jaxpr
def dce_body(jaxpr: Jaxpr, num_consts: int, num_carry: int, used: Marks) -> tuple[Jaxpr, Marks, Marks]:
    """The body without what nobody needs, and which of its inputs and outputs are left."""
    start, ys = used[:num_carry], used[num_carry:]
    carry = fixpoint(start, lambda marks: _carry_read(jaxpr, num_consts, (*marks, *ys), num_carry))
    small, used_in = dce_jaxpr(jaxpr, (*carry, *ys))
    consts, _, xs = split_at(used_in, num_consts, num_carry)
    used_in = (*consts, *carry, *xs)
    return with_invars(small, marked(jaxpr.invars, used_in)), used_in, (*carry, *ys)


def _carry_read(jaxpr: Jaxpr, num_consts: int, used: Marks, num_carry: int) -> Marks:
    return dce_jaxpr(jaxpr, used)[1][num_consts : num_consts + num_carry]
