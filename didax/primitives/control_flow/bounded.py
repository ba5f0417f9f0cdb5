"""`bounded_p`: a while loop of at most so many steps, which reverse mode differentiates.

    bounded_p(limit, p, c, h):    for i in range(limit): if not p(h): break; h, y = body(c, h)
                                  return number of steps, h, stacked ys

Linearised, the loop runs now, stacks residuals, and counts its steps; the linear half is the scan of that count
(`counted.py`). So the work of both halves grows with the steps taken, and the memory with the bound.
Read next: `segments.py`, which builds loops from it whose memory grows with the square root of the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.jaxpr import Eqn, Jaxpr, eval_jaxpr
from didax.core.jaxpr_check import check_jaxpr_operands
from didax.passes.checkify import Kinds, Report
from didax.passes.simplify import dce_jaxpr, simplify_jaxpr
from didax.primitives.call import fill_zeros
from didax.primitives.control_flow.agreement import both_agreed, bounded_differs
from didax.primitives.control_flow.batches import batch_carry, batch_first
from didax.primitives.control_flow.bodies import batch_body, batch_dims, dce_body, jvp_body
from didax.primitives.control_flow.checkified import run_checkified
from didax.primitives.control_flow.common import COUNT, INT32, LoopPrimitive, carry_types, with_invars
from didax.primitives.control_flow.counted import check_count, counted_p, with_rows
from didax.primitives.control_flow.effects import run_by_element, runs_by_element
from didax.primitives.control_flow.halves import Halves, linearize_body, partial_eval_body
from didax.primitives.control_flow.layout import (
    BodyLayout,
    Mask,
    Pair,
    Values,
    WhileLayout,
    instantiated,
    merge,
    nonzero,
    nonzero_only,
    split_at,
    union,
    where_true,
)
from didax.primitives.control_flow.lowering import lower_loop, write_row
from didax.primitives.control_flow.masked import check_collectives, masked_bounded
from didax.primitives.control_flow.order import read_before_writing
from didax.primitives.control_flow.varying import fit_while
from didax.primitives.control_flow.while_loop import carry_keys, with_unread
from didax.primitives.elementwise import and_, lt
from didax.primitives.slicing import concatenate
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.jvp import Forward, jvp_jaxpr
from didax.transforms.partial_eval import partial_eval_jaxpr
from didax.transforms.transpose import is_undef
from didax.xla.lowering import lower_jaxpr_body
from didax.xla.text import FunctionContext, Value

Residuals = Pair  # constant ones, stacked ones


class Bounded(LoopPrimitive):
    """`bounded_p.bind(limit, *cond_consts, *body_consts, *carry, ...)`: steps taken, the carry, stacked outputs.

    `cond_jaxpr` and `body_jaxpr` are those of `while_p`, but the body returns outputs after the next carry. The
    outputs have `length` rows, and rows from the number of steps on have no meaning. `limit` is an int32 from 0 to
    `length`.
    """

    main = "body_jaxpr"
    differs, agree = bounded_differs, both_agreed

    def run(self, length: int, cond: Jaxpr, body: Jaxpr, limit: Any, *parts: Values) -> list[Any]:
        """The loop on operands in parts: constants of the condition, constants of the body, the carry."""
        operands, sizes = WhileLayout.join(*parts)
        sizes = {**sizes, "num_carry": len(parts[-1]), "length": length}
        return self.bind(limit, *operands, cond_jaxpr=cond, body_jaxpr=body, **sizes)

    def bind(self, limit: Any, *args: Any, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, **sizes: int) -> list[Any]:
        """As for every primitive, but with jaxprs whose types say along which axes devices take different steps."""
        cond_consts, consts, carry = WhileLayout.of(sizes).split(args)
        cond, body, consts, carry = fit_while(
            cond_jaxpr, body_jaxpr, cond_consts, consts, carry, aval_of(limit).vma
        )
        return super().bind(limit, *cond_consts, *consts, *carry, cond_jaxpr=cond, body_jaxpr=body, **sizes)

    def type(self, limit: ShapedArray, *avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        check_count(limit)
        cond_consts, consts, carry = WhileLayout.of(params).split(avals)
        body = params["body_jaxpr"]
        check_jaxpr_operands("the condition of a bounded loop", params["cond_jaxpr"], [*cond_consts, *carry])
        check_jaxpr_operands("the body of a bounded loop", body, [*consts, *carry])
        after, ys = split_at(body.out_avals, len(carry))
        types = carry_types("a bounded loop", body.in_avals[len(consts) :], after)
        count = COUNT.update(vma=limit.vma | params["cond_jaxpr"].out_avals[0].vma)
        return [count, *types, *(y.with_axis(0, params["length"]) for y in ys)]

    def lower(self, ctx: FunctionContext, limit: Value, *args: Value, **params: Any) -> list[Value]:
        cond_jaxpr = simplify_jaxpr(params["cond_jaxpr"])
        body_jaxpr = read_before_writing(simplify_jaxpr(params["body_jaxpr"]))
        cond_consts, consts, carry = WhileLayout.of(params).split(args)
        ys = [ctx.constant(0, aval) for aval in ctx.out_avals[1 + len(carry) :]]

        def goes_on(region: FunctionContext, values: list[Value]) -> Value:
            within = region.compare("LT", values[0], limit)
            holds = lower_jaxpr_body(region, cond_jaxpr, [*cond_consts, *values[1 : 1 + len(carry)]])[0]
            return region.op("and", [within, holds])

        def step(region: FunctionContext, values: list[Value]) -> list[Value]:
            (i,), before, ys = split_at(values, 1, len(carry))
            outs = lower_jaxpr_body(region, body_jaxpr, [*consts, *before])
            after, rows = split_at(outs, len(carry))
            ys = [write_row(region, y, row, i) for y, row in zip(ys, rows, strict=True)]
            return [region.op("add", [i, region.scalar(1, INT32)]), *after, *ys]

        return lower_loop(ctx, [ctx.scalar(0, INT32), *carry, *ys], goes_on, step)

    def jvp(self, primals: Values, tangents: Values, *, forward: Forward = jvp_jaxpr, **params: Any) -> Pair:
        layout = WhileLayout.of(params)
        cond_consts, consts, carry = layout.split(primals[1:])
        _, const_dots, carry_dots = layout.split(tangents[1:])
        new, out = jvp_body(
            params["body_jaxpr"], _body_layout(params), nonzero([*const_dots, *carry_dots]), forward
        )
        carry_dots = instantiated(carry_dots, out[: len(carry)])
        cond = with_unread(params["cond_jaxpr"], tuple(aval_of(t) for t in carry_dots))
        parts = cond_consts, [*consts, *nonzero_only(const_dots)], [*carry, *carry_dots]
        n, *outs = self.run(params["length"], cond, new, primals[0], *parts)
        num_ys = len(out) - len(carry)
        last, last_dots, ys, y_dots = split_at(outs, len(carry), len(carry_dots), num_ys)
        outs = [n, *last, *ys]
        return outs, fill_zeros([*last_dots, *y_dots], (False, *out), [aval_of(y) for y in outs])

    def linearize(self, primals: Values, tangents: Values, **params: Any) -> Pair:
        layout = WhileLayout.of(params)
        cond_consts, consts, carry = layout.split(primals[1:])
        _, const_dots, carry_dots = layout.split(tangents[1:])
        dots_in = nonzero([*const_dots, *carry_dots])
        halves = linearize_body(params["body_jaxpr"], _body_layout(params), dots_in)
        known = cond_consts, consts, carry
        outs, saved = self._run_known(halves, params["length"], params["cond_jaxpr"], primals[0], *known)
        carry_dots = instantiated(carry_dots, halves.unknown_out[: len(carry)])
        unknown = outs[0], saved, nonzero_only(const_dots), carry_dots
        dots = _run_unknown(halves, params["length"], *unknown)
        return outs, fill_zeros(dots, (False, *halves.unknown_out), [aval_of(y) for y in outs])

    def _run_known(
        self, halves: Halves, length: int, cond: Jaxpr, limit: Any, *parts: Values
    ) -> tuple[list[Any], Residuals]:
        """The known half: the number of steps and the results, and the residuals of the unknown half."""
        n, *outs = self.run(length, cond, halves.known, limit, *parts)
        _, consts, carry = parts
        return [n, *outs[: halves.num_outs]], halves.residuals([*consts, *carry], outs)

    def partial_eval(self, unknown: Sequence[bool], *args: Any, **params: Any) -> list[Any]:
        """What is known is computed by a loop of its own, which runs now, if it is known when to stop."""
        split = _split(params, tuple(unknown))
        if split is None:
            return self.bind(*args, **params)
        halves, cond = split
        known, (consts, carry) = _known_and_unknown(halves, args, unknown, params)
        outs, saved = self._run_known(halves, params["length"], cond, args[0], *known)
        rest = _run_unknown(halves, params["length"], outs[0], saved, consts, carry)
        return [outs[0], *merge(halves.unknown_out, rest, outs[1:])]

    def transpose(self, cts: Values, *args: Any, **params: Any) -> list[Any]:
        linear = tuple(is_undef(x) for x in args)
        split = _split(params, linear)
        assert split is not None, "the condition of a loop that is linear in its carry is not linear"
        halves, cond = split
        known, (consts, carry) = _known_and_unknown(halves, args, linear, params)
        outs, saved = self._run_known(halves, params["length"], cond, args[0], *known)
        operands, scan_params = _as_scan(halves, params["length"], saved, consts, carry)
        cts = where_true(cts[1:], halves.unknown_out)
        _, *found = counted_p.transpose(cts, outs[0], *operands, **scan_params)
        _, cts_in, _ = split_at(found, len(saved[0]), len(consts) + len(carry))
        cts_in = merge(halves.unknown_in, cts_in, [None] * halves.unknown_in.count(False))
        return [*[None] * (1 + params["cond_nconsts"]), *cts_in]

    def batch(self, axis: AxisData, args: Values, dims: Sequence[int | None], **params: Any) -> Any:
        layout, cond, body = WhileLayout.of(params), params["cond_jaxpr"], params["body_jaxpr"]
        cond_dims, const_dims, carry_dims = map(tuple, layout.split(dims[1:]))
        start = tuple(dim is not None for dim in carry_dims)
        new, batched = batch_body(body, axis, const_dims, start)
        carry_batched = batched[: len(carry_dims)]
        new_cond, (by_element,) = batch_jaxpr(cond, axis, (*cond_dims, *batch_dims(carry_batched)))
        if by_element or dims[0] is not None:
            if runs_by_element(cond, body):
                return run_by_element(self, axis, args, dims, params)
            return self._batch_by_element(axis, args, dims, params)
        cond_consts, consts, carry = layout.split(args[1:])
        carry = batch_carry(axis, carry, carry_dims, carry_batched)
        outs = self.run(params["length"], new_cond, new, args[0], cond_consts, consts, carry)
        first = [0] * len(carry) + [1] * (len(outs) - 1 - len(carry))
        return outs, [None, *(dim if b else None for dim, b in zip(first, batched, strict=True))]

    def _batch_by_element(
        self, axis: AxisData, args: Values, dims: Sequence[int | None], params: dict[str, Any]
    ) -> Any:
        layout, cond, body = WhileLayout.of(params), params["cond_jaxpr"], params["body_jaxpr"]
        check_collectives(axis, cond, body)
        cond_dims, const_dims, carry_dims = map(tuple, layout.split(dims[1:]))
        cond_consts, consts, carry = layout.split(args[1:])
        limits = batch_first(axis, args[0], dims[0])
        carry = [batch_first(axis, x, dim) for x, dim in zip(carry, carry_dims, strict=True)]
        cond, _ = batch_jaxpr(cond, axis, (*cond_dims, *(0,) * len(carry)), (True,))
        counts = array_ops.zeros(ShapedArray((axis.size,), INT32))
        active = and_(lt(counts, limits), eval_jaxpr(cond, [*cond_consts, *carry])[0])
        masked = masked_bounded(body, cond, axis, const_dims)
        parts = [], [limits, *cond_consts, *consts], [active, counts, *carry]
        _, _, *outs = self.run(params["length"], *masked, np.int32(params["length"]), *parts)
        return outs, [0] * (1 + len(carry)) + [1] * (len(outs) - 1 - len(carry))

    def keys(self, line: Any, operands: Values, **params: Any) -> list[Any]:
        carry = carry_keys(operands[1:], params, params["length"])
        num_ys = len(params["body_jaxpr"].outvars) - len(carry)
        return [None, *carry, *[None] * num_ys]

    def checkify(
        self, kinds: Kinds, limit: Any, *args: Any, **params: Any
    ) -> tuple[list[Any], Report | None]:
        """As for `while_p`."""

        def loop(cond: Jaxpr, body: Jaxpr, *parts: Values) -> list[Any]:
            return self.run(params["length"], cond, body, limit, *parts)

        parts = WhileLayout.of(params).split(args)
        return run_checkified(loop, kinds, parts, params["cond_jaxpr"], params["body_jaxpr"], num_before=1)

    def run_jaxprs(self, run: Any, limit: Any, *args: Any, **params: Any) -> list[Any]:
        cond_consts, consts, carry = WhileLayout.of(params).split(args)
        cond, body, layout = params["cond_jaxpr"], params["body_jaxpr"], _body_layout(params)
        rows: list[list[Any]] = []
        while len(rows) < int(limit):
            step = len(rows)
            if not bool(run(cond, [*cond_consts, *carry], f"condition {step} of while_loop")[0]):
                break
            outs = run(body, [*consts, *carry], f"step {step} of while_loop")
            carry, ys = layout.split_results(outs)
            rows.append([array_ops.broadcast_axis(y, 1, 0) for y in ys])
        _, avals = layout.split_results(body.out_avals)
        empty = [array_ops.zeros(y.with_axis(0, 0)) for y in avals]
        stacked = [concatenate(list(column), 0) for column in zip(empty, *rows, strict=True)]
        return [np.int32(len(rows)), *carry, *(with_rows(y, params["length"]) for y in stacked)]

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        params, layout = eqn.params, WhileLayout.of(eqn.params)
        cond, read = dce_jaxpr(params["cond_jaxpr"], (True,))
        cond_consts, carry_read = split_at(read, params["cond_nconsts"])
        carry_used, ys_used = split_at(used[1:], params["num_carry"])
        needed = (*union(carry_used, carry_read), *ys_used)
        body, used_in, used_out = dce_body(params["body_jaxpr"], _body_layout(params), needed)
        parts = layout.split_by((*cond_consts, *used_in), eqn.invars[1:])[1]
        invars, sizes = WhileLayout.join(*parts)
        cond_invars = where_true(
            params["cond_jaxpr"].invars, (*cond_consts, *used_in[params["body_nconsts"] :])
        )
        jaxprs = {"cond_jaxpr": with_invars(cond, cond_invars), "body_jaxpr": body}
        return eqn.replace(
            invars=[eqn.invars[0], *invars],
            outvars=[eqn.outvars[0], *where_true(eqn.outvars[1:], used_out)],
            params={**params, **jaxprs, **sizes, "num_carry": len(parts[-1])},
        )


bounded_p = Bounded("bounded_while")


def _body_layout(params: dict[str, Any]) -> BodyLayout:
    return BodyLayout((params["body_nconsts"], params["num_carry"]))


# --- Two halves -----------------------------------------------------------------------------------


def _split(params: dict[str, Any], unknown: Mask) -> tuple[Halves, Jaxpr] | None:
    """The halves of the body, and the condition on what is known; None if it is not known when to stop."""
    cond_unknown, consts, carry = WhileLayout.of(params).split(unknown[1:])
    halves = partial_eval_body(params["body_jaxpr"], _body_layout(params), (*consts, *carry))
    cond = partial_eval_jaxpr(params["cond_jaxpr"], (*cond_unknown, *halves.unknown_in[len(consts) :]))
    return None if unknown[0] or cond.unknown_out[0] else (halves, cond.known)


def _known_and_unknown(
    halves: Halves, args: Values, unknown: Sequence[bool], params: dict[str, Any]
) -> tuple[list[list[Any]], list[list[Any]]]:
    """The known operands in parts, and the unknown constants of the body and parts of the carry."""
    layout = WhileLayout.of(params)
    cond_unknown, _, _ = layout.split(unknown[1:])
    known, (_, *later) = layout.split_by((*cond_unknown, *halves.unknown_in), args[1:])
    return known, later


def _run_unknown(halves: Halves, length: int, n: Any, *operands: Any) -> list[Any]:
    """The unknown half, on as many steps as the known half took."""
    if not halves.unknown.outvars:
        return []
    args, params = _as_scan(halves, length, *operands)
    return counted_p.bind(n, *args, **params)


def _as_scan(
    halves: Halves, length: int, saved: Residuals, consts: Values, carry: Values
) -> tuple[list[Any], dict[str, Any]]:
    """Operands and parameters of the unknown half as a counted scan, except for the count."""
    saved_consts, saved_xs = saved
    operands, sizes = BodyLayout.join([*saved_consts, *consts], carry, saved_xs)
    return operands, {"jaxpr": halves.unknown, **sizes, "length": length, "reverse": False, "unroll": 1}
