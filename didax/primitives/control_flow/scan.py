"""`scan_p`: run a body a known number of times, along the leading axis of its inputs and outputs.

    scan_p(c, h, xs; jaxpr):    for x in xs: h, y = jaxpr(c, h, x);    return h, stacked ys

The body receives constants, the carry, and a row of each of the xs. Every rule transforms the body and binds a new
scan of it. Linearised, one scan runs now and stacks residuals, and a second, linear scan reads them (`halves.py`).
Transposed, a linear scan runs in the other direction (`transposition.py`). Lowered, it is a `stablehlo.while` that
counts (`lowering.py`).
Read next: these three files; `while_loop.py`; `didax/lax/loops.py`, what users call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic
from didax.core.errors import message
from didax.core.jaxpr import Eqn, Jaxpr, Var
from didax.core.jaxpr_check import check_jaxpr_operands
from didax.passes.checkify import Kinds, Report, nothing_failed, report_of
from didax.passes.key_reuse import loop_keys, row_of, summarise, use_rows
from didax.passes.memories import Memories, Placing, Where
from didax.passes.sparsity import Dependence, columns_of, dependence, everything, stack, step_row
from didax.primitives.call import fill_zeros, scatter_cotangents
from didax.primitives.control_flow.agreement import scan_differs
from didax.primitives.control_flow.batches import batch_carry
from didax.primitives.control_flow.bodies import batch_body, dce_body, jvp_body
from didax.primitives.control_flow.checkified import checkify_scan_body
from didax.primitives.control_flow.common import LoopPrimitive, carry_types
from didax.primitives.control_flow.halves import Halves, linearize_body, partial_eval_body, split_recomputed
from didax.primitives.control_flow.layout import (
    BodyLayout,
    Mask,
    Pair,
    Values,
    instantiated,
    merge,
    nonzero,
    nonzero_only,
    split_at,
    where_false,
    where_true,
)
from didax.primitives.control_flow.lowering import ScanWriter
from didax.primitives.control_flow.padded_scan import scanned
from didax.primitives.control_flow.transposition import transpose_body
from didax.primitives.control_flow.unchanged import changed_only
from didax.primitives.control_flow.varying import fit_loop
from didax.primitives.shape import reshape
from didax.primitives.slicing import concatenate, dynamic_slice_p
from didax.transforms.batching import AxisData
from didax.transforms.jvp import Forward, jvp_jaxpr
from didax.transforms.split import Split
from didax.transforms.transpose import is_undef
from didax.transforms.weak_types import strong_cotangents
from didax.xla.text import FunctionContext, Value

_MAX_FOLLOWED = 10_000  # steps of a loop that are followed one by one, to find which elements depend on which


class Scan(LoopPrimitive):
    """`scan_p.bind(*consts, *carry, *xs, ...)`: the last carry, then the stacked outputs.

    `jaxpr` maps `num_consts` constants, `num_carry` parts of the carry and a row of each of the xs to the next carry
    and a row of each of the ys. It runs `length` times, with `reverse` from the last row to the first; compiled,
    `unroll` steps make one step of the loop.
    """

    padded = scanned
    differs = scan_differs

    def bind(self, *args: Any, **params: Any) -> list[Any]:
        """As for every primitive, except that what the body hands on unchanged becomes a result at once."""
        layout = BodyLayout.of(params)
        changed = changed_only(params["jaxpr"], layout)
        if changed.jaxpr is None:
            return self.apply(*args, **params)
        consts, carry, xs = layout.split(args)
        fixed, changing = where_true(carry, changed.fixed), where_false(carry, changed.fixed)
        outs: list[Any] = []
        if changed.jaxpr.outvars or changed.jaxpr.effects:
            operands, sizes = BodyLayout.join([*consts, *fixed], changing, xs)
            outs = self.apply(*operands, **{**params, **sizes, "jaxpr": changed.jaxpr})
        values = {"fixed": fixed, "x": xs, "out": outs}
        return [values[kind][k] for kind, k in changed.sources]

    def apply(self, *args: Any, **params: Any) -> list[Any]:
        """Apply the primitive under the current trace; loops that share the rules of `scan_p` override this."""
        jaxpr, operands = fit_loop(params["jaxpr"], args, params["num_consts"], params["num_carry"])
        return super().bind(*operands, **{**params, "jaxpr": jaxpr})

    def run(self, params: dict[str, Any], jaxpr: Jaxpr, *parts: Values, reverse: bool = False) -> list[Any]:
        """A scan with these parameters but of another body, on these constants, this carry and these xs.

        With `reverse` it runs in the other direction.
        """
        operands, sizes = BodyLayout.join(*parts)
        backwards = params["reverse"] != reverse
        return self.bind(*operands, **{**params, **sizes, "jaxpr": jaxpr, "reverse": backwards})

    def type(self, *avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        jaxpr, length, layout = params["jaxpr"], params["length"], BodyLayout.of(params)
        consts, carry, xs = layout.split(avals)
        if any(x.shape[:1] != (length,) for x in xs):
            raise TypeError(
                message(
                    "scan runs along the leading axes of its inputs, which have its length.",
                    f"length: {length}, inputs: {', '.join(map(str, xs))}",
                    fix="Cut or pad the inputs.",
                )
            )
        rows = [x.without_axis() for x in xs]
        check_jaxpr_operands("the body of scan", jaxpr, [*consts, *carry, *rows])
        after, ys = layout.split_results(jaxpr.out_avals)
        types = carry_types("scan", layout.split(jaxpr.in_avals)[1], after)
        return [*types, *(y.with_axis(0, length) for y in ys)]

    def lower(self, ctx: FunctionContext, *args: Any, **params: Any) -> list[Value]:
        writer, carry = ScanWriter.of(args, params)
        out_avals = ctx.out_avals[len(carry) :]
        if not is_symbolic(writer.length) and writer.length <= params["unroll"]:
            return writer.unrolled(ctx, carry, out_avals)
        return writer.loop(ctx, carry, out_avals, params["unroll"])

    def memories(self, eqn: Eqn, place: Placing, operands: Memories) -> Where:
        """A loop reads and writes rows of arrays in another memory; steps that are written out need whole arrays."""
        params, body = eqn.params, eqn.params["jaxpr"]
        layout = BodyLayout.of(params)
        consts, carry, xs = layout.split(operands)
        in_steps = not is_symbolic(params["length"]) and params["length"] <= params["unroll"]
        taken = [*[None] * len([*consts, *carry]), *(None if in_steps else kind for kind in xs)]
        new, given = place(body, taken, len(body.outvars) if in_steps else len(carry))
        return {**params, "jaxpr": new}, taken, given

    def sparsity(self, operands: Sequence[Dependence], **params: Any) -> list[Dependence]:
        """Step by step: what is known of the carry, such as a count, says which elements each step reads."""
        layout, avals = BodyLayout.of(params), self.type(*[x.aval for x in operands], **params)
        if params["length"] > _MAX_FOLLOWED:
            return [Dependence(aval, rows=everything(operands, aval.size)) for aval in avals]
        consts, carry, xs = layout.split(operands)
        found: dict[int, list[Dependence]] = {}
        for i in range(params["length"])[:: -1 if params["reverse"] else 1]:
            outs = dependence(params["jaxpr"], [*consts, *carry, *[step_row(x, i) for x in xs]])
            carry, found[i] = layout.split_results(outs)
        columns = [[found[i][k] for i in sorted(found)] for k in range(len(avals) - len(carry))]
        ys = zip(columns, avals[len(carry) :], strict=True)
        return [*carry, *(stack(column, aval, columns_of(operands)) for column, aval in ys)]

    def jvp(self, primals: Values, tangents: Values, *, forward: Forward = jvp_jaxpr, **params: Any) -> Pair:
        layout = BodyLayout.of(params)
        new, out = jvp_body(params["jaxpr"], layout, nonzero(tangents), forward)
        consts, carry, xs = layout.split(primals)
        const_dots, carry_dots, x_dots = layout.split(tangents)
        carry_dots = instantiated(carry_dots, out[: len(carry)])
        parts = [*consts, *nonzero_only(const_dots)], [*carry, *carry_dots], [*xs, *nonzero_only(x_dots)]
        outs = self.run(params, new, *parts)
        num_ys = len(out) - len(carry)
        last, last_dots, ys, y_dots = split_at(outs, len(carry), len(carry_dots), num_ys)
        outs = [*last, *ys]
        return outs, fill_zeros([*last_dots, *y_dots], out, [aval_of(y) for y in outs])

    def linearize(self, primals: Values, tangents: Values, **params: Any) -> Pair:
        layout = BodyLayout.of(params)
        halves = linearize_body(params["jaxpr"], layout, nonzero(tangents))
        const_dots, carry_dots, x_dots = layout.split(tangents)
        carry_dots = instantiated(carry_dots, halves.unknown_out[: len(carry_dots)])
        dots = nonzero_only(const_dots), carry_dots, nonzero_only(x_dots)
        outs, out_dots = self._run_halves(params, halves, primals, dots)
        return outs, fill_zeros(out_dots, halves.unknown_out, [aval_of(y) for y in outs])

    def partial_eval(self, unknown: Sequence[bool], *args: Any, **params: Any) -> list[Any]:
        layout = BodyLayout.of(params)
        halves = partial_eval_body(params["jaxpr"], layout, tuple(unknown))
        now, later = layout.split_by(halves.unknown_in, args)
        outs, unknown_outs = self._run_halves(params, halves, [x for part in now for x in part], later)
        return merge(halves.unknown_out, unknown_outs, outs)

    def _run_halves(
        self, params: dict[str, Any], halves: Halves, known: Values, unknown: Sequence[Values]
    ) -> Pair:
        """Results of the known half, and of the unknown half on `unknown` (constants, carry, xs)."""
        consts, carry, xs = unknown
        outs: list[Any] = []
        if halves.known.outvars or halves.known.effects:
            outs = self.run(params, halves.known, *halves.layout.split(known))
        saved_consts, saved_xs = halves.residuals(known, outs)
        unknown_outs: list[Any] = []
        if halves.unknown.outvars or halves.unknown.effects:
            unknown_outs = self.run(params, halves.unknown, [*saved_consts, *consts], carry, [*saved_xs, *xs])
        return outs[: halves.num_outs], unknown_outs

    def transpose(self, cts: Values, *args: Any, **params: Any) -> list[Any]:
        jaxpr, layout = params["jaxpr"], BodyLayout.of(params)
        linear = tuple(is_undef(x) for x in args)
        halves = partial_eval_body(jaxpr, layout, linear)
        if halves.layout.num_carry:  # a part of the carry is not linear: its values are computed first
            return self._transpose_unknown(params, halves, cts, args)
        linear_in = halves.unknown_in  # all of the carry: a part that starts from a known value is zero there
        new = transpose_body(jaxpr, layout, linear_in, nonzero(cts), strong_cotangents(cts, jaxpr))
        (res_consts, _, res_xs), _ = layout.split_by(linear_in, args)
        ct_carry, ct_ys = layout.split_results(cts)
        consts, _, _ = layout.split(jaxpr.invars)
        linear_consts = where_true(where_true(consts, linear[: len(consts)]), new.consts)
        start = [*(array_ops.zeros(v.aval) for v in linear_consts), *instantiated(ct_carry, new.carry)]
        outs = self.run(params, new.jaxpr, res_consts, start, [*res_xs, *nonzero_only(ct_ys)], reverse=True)
        found = scatter_cotangents(outs, (*new.consts, *new.carry, *new.xs), linear_in)
        return [ct if lin else None for ct, lin in zip(found, linear, strict=True)]

    def _transpose_unknown(
        self, params: dict[str, Any], halves: Halves, cts: Values, args: Values
    ) -> list[Any]:
        """Run the half that is not linear, and transpose the other half with the residuals."""
        now, (consts, carry, xs) = BodyLayout.of(params).split_by(halves.unknown_in, args)
        known = [x for part in now for x in part]
        saved_consts, saved_xs = halves.residuals(known, self.run(params, halves.known, *now))
        operands, sizes = BodyLayout.join([*saved_consts, *consts], carry, [*saved_xs, *xs])
        cts = where_true(cts, halves.unknown_out)
        found = self.transpose(cts, *operands, **{**params, **sizes, "jaxpr": halves.unknown})
        _, ct_consts, ct_carry, _, ct_xs = split_at(
            found, len(saved_consts), len(consts), len(carry), len(saved_xs)
        )
        known_cts = [None] * halves.unknown_in.count(False)
        return merge(halves.unknown_in, [*ct_consts, *ct_carry, *ct_xs], known_cts)

    def batch(self, axis: AxisData, args: Values, dims: Sequence[int | None], **params: Any) -> Any:
        layout = BodyLayout.of(params)
        consts, carry, xs = layout.split(args)
        const_dims, carry_dims, x_dims = layout.split(dims)
        xs = [array_ops.move_axis(x, 0, 1) if dim == 0 else x for x, dim in zip(xs, x_dims, strict=True)]
        row_dims = tuple(None if dim is None else max(dim - 1, 0) for dim in x_dims)
        start = tuple(dim is not None for dim in carry_dims)
        new, batched = batch_body(params["jaxpr"], axis, tuple(const_dims), start, row_dims)
        carry = batch_carry(axis, carry, carry_dims, batched[: len(carry)])
        outs = self.run(params, new, consts, carry, xs)
        first = [0] * len(carry) + [1] * (len(outs) - len(carry))
        return outs, [dim if b else None for dim, b in zip(first, batched, strict=True)]

    def keys(self, line: Any, operands: Values, **params: Any) -> list[Any]:
        length, layout = params["length"], BodyLayout.of(params)
        consts, carry, xs = layout.split(operands)
        body = summarise(params["jaxpr"])
        rows: list[Any] = []

        def step(carry: Values) -> list[Any]:
            rows[:] = [row_of(x) for x in xs]
            return layout.split_results(body.apply([*consts, *carry, *rows], None))[0]

        carry = loop_keys(step, length, carry)
        for x, row in zip(xs, rows, strict=bool(rows)):
            if row is not None:
                use_rows(x, row)
        return [*carry, *[None] * (len(params["jaxpr"].outvars) - len(carry))]

    def checkify(self, kinds: Kinds, *args: Any, **params: Any) -> tuple[list[Any], Report | None]:
        layout = BodyLayout.of(params)
        new, sites = checkify_scan_body(params["jaxpr"], kinds, layout)
        start = nothing_failed(sites).arrays() if sites else []
        consts, carry, xs = layout.split(args)
        arrays, outs = split_at(self.run(params, new, consts, [*start, *carry], xs), len(start))
        return outs, report_of(arrays, sites) if sites else None

    def run_jaxprs(self, run: Any, *args: Any, **params: Any) -> list[Any]:
        jaxpr, layout = params["jaxpr"], BodyLayout.of(params)
        consts, carry, xs = layout.split(args)
        steps = range(params["length"])[:: -1 if params["reverse"] else 1]
        rows: list[list[Any]] = []
        for i in steps:
            row = [_row(x, i) for x in xs]
            carry, ys = layout.split_results(run(jaxpr, [*consts, *carry, *row], f"step {i} of scan"))
            rows.append(ys)
        if not steps:
            _, ys = layout.split_results(jaxpr.out_avals)
            return [*carry, *(array_ops.zeros(y.with_axis(0, 0)) for y in ys)]
        columns = zip(*(reversed(rows) if params["reverse"] else rows), strict=True)
        return [*carry, *(concatenate([reshape(y, (1, *aval_of(y).shape)) for y in ys], 0) for ys in columns)]

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        layout = BodyLayout.of(eqn.params)
        new, used_in, used_out = dce_body(eqn.params["jaxpr"], layout, tuple(used))
        _, (consts, carry, xs) = layout.split_by(used_in, eqn.invars)
        invars, sizes = BodyLayout.join(consts, carry, xs)
        params = {**eqn.params, **sizes, "jaxpr": new}
        return eqn.replace(invars=invars, outvars=where_true(eqn.outvars, used_out), params=params)

    def recompute(
        self, eqn: Eqn, needed: Mask, divide: Callable[[Jaxpr, Mask], Split[Jaxpr]]
    ) -> tuple[Eqn, Eqn, list[Var]]:
        params, layout = eqn.params, BodyLayout.of(eqn.params)
        split, wanted = split_recomputed(params["jaxpr"], layout, needed, divide)
        rows = split.known.out_avals[len(wanted) :]
        saved = [Var(aval.with_axis(0, params["length"])) for aval in rows]
        first = eqn.replace(outvars=[*eqn.outvars, *saved], params={**params, "jaxpr": split.known})
        inputs = [k for kind, k in split.residuals if kind == "in"]
        sizes = {"num_consts": sum(k < layout.num_consts for k in inputs)}
        sizes["num_carry"] = sum(wanted[: layout.num_carry])
        again = eqn.replace(
            invars=[*(eqn.invars[k] for k in inputs), *saved],
            outvars=where_true(eqn.outvars, wanted),
            params={**params, **sizes, "jaxpr": split.unknown},
        )
        return first, again, saved


scan_p = Scan("scan")


def _row(x: Any, i: int) -> Any:
    """`x[i]`, for an array in memory."""
    shape = aval_of(x).shape
    starts = [np.int32(i), *[np.int32(0)] * (len(shape) - 1)]
    return reshape(dynamic_slice_p.bind(x, *starts, slice_sizes=(1, *shape[1:])), shape[1:])
