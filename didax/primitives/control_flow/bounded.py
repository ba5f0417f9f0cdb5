"""`bounded_p`: a while loop of at most so many steps, which reverse mode differentiates.

    bounded_p(limit, p, c, h):    for i in range(limit): if not p(h): break; h, y = body(c, h)
                                  return number of steps, h, stacked y

Linearised, the loop runs now, stacks what the linear steps will need, and counts its steps; the linear half
is the scan of that count (`counted.py`). So both cost what the steps taken cost; the memory is that of the bound.
Read next: `segments.py`, which makes loops of it whose memory is that of the square root of the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import array_ops, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from didax.core.primitive import Primitive
from didax.passes.checkify import Kinds, Report
from didax.passes.simplify import dce_jaxpr, simplify_jaxpr
from didax.primitives.call import check_jaxpr_operands, fill_zeros
from didax.primitives.control_flow.common import (
    INT32,
    Marks,
    along_first,
    batch_first,
    carry_types,
    lower_loop,
    marked,
    merge,
    nonzero,
    run_compiled,
    split_at,
    stand_in,
    traced,
    union,
    unmarked,
    with_invars,
)
from didax.primitives.control_flow.counted import COUNT, check_count, counted_p, lengthened
from didax.primitives.control_flow.effects import for_each, go_by_element
from didax.primitives.control_flow.order import read_before_writing
from didax.primitives.control_flow.scan import (
    Halves,
    batch_body,
    dce_body,
    jvp_body,
    linearize_body,
    live_tangents,
    partial_eval_body,
    parts_by,
    write_row,
)
from didax.primitives.control_flow.while_loop import carry_keys, check_collectives, run_checkified
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import add, and_, lt
from didax.primitives.reductions import reduce_or_p
from didax.primitives.select import select_n
from didax.primitives.slicing import concatenate
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.partial_eval import partial_eval_jaxpr
from didax.transforms.transpose import is_undef
from didax.xla.lowering import lower_jaxpr_body
from didax.xla.text import FunctionContext, Value

_BOOL = np.dtype(bool)


class Bounded(Primitive):
    """`bounded_p.bind(limit, *cond_consts, *body_consts, *carry, ...)`: steps taken, the carry, stacked outputs.

    `cond_jaxpr` and `body_jaxpr` are those of `while_p`, but the body returns outputs after the next carry. The
    outputs have `length` rows, those from the number of steps on without meaning; `0 <= limit <= length`, an int32.
    """

    multiple_results = True

    def named_axes(self, params: dict[str, Any]) -> frozenset[str]:
        return params["cond_jaxpr"].axis_names | params["body_jaxpr"].axis_names

    def type(self, limit: ShapedArray, *avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        check_count(limit)
        cond_consts, consts, carry = _parts(avals, params)
        body_jaxpr = params["body_jaxpr"]
        check_jaxpr_operands("the condition of a bounded loop", params["cond_jaxpr"], [*cond_consts, *carry])
        check_jaxpr_operands("the body of a bounded loop", body_jaxpr, [*consts, *carry])
        after, ys = split_at(body_jaxpr.out_avals, len(carry))
        types = carry_types("a bounded loop", body_jaxpr.in_avals[len(consts) :], after)
        return [COUNT, *types, *(y.update(shape=(params["length"], *y.shape)) for y in ys)]

    def evaluate(self, *args: Any, **params: Any) -> list[Any]:
        return run_compiled(self, args, "body_jaxpr", params)

    def lower(self, ctx: FunctionContext, limit: Value, *args: Value, **params: Any) -> list[Value]:
        cond_jaxpr = simplify_jaxpr(params["cond_jaxpr"])
        body_jaxpr = read_before_writing(simplify_jaxpr(params["body_jaxpr"]))
        cond_consts, consts, carry = _parts(args, params)
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

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        cond_consts, consts, carry = _parts(primals[1:], params)
        _, const_dots, carry_dots = _parts(tangents[1:], params)
        new, out = jvp_body(
            params["body_jaxpr"], len(consts), len(carry), nonzero([*const_dots, *carry_dots])
        )
        const_dots = live_tangents(const_dots)
        carry_dots = [instantiate(t) for t in marked(carry_dots, out[: len(carry)])]
        n, *outs = self.bind(
            primals[0],
            *cond_consts,
            *consts,
            *const_dots,
            *carry,
            *carry_dots,
            cond_jaxpr=with_unread(params["cond_jaxpr"], tuple(aval_of(t) for t in carry_dots)),
            body_jaxpr=new,
            cond_nconsts=len(cond_consts),
            body_nconsts=len(consts) + len(const_dots),
            num_carry=len(carry) + len(carry_dots),
            length=params["length"],
        )
        num_ys = len(params["body_jaxpr"].outvars) - len(carry)
        last, last_dots, ys, y_dots = split_at(outs, len(carry), len(carry_dots), num_ys)
        outs = [n, *last, *ys]
        return outs, fill_zeros([*last_dots, *y_dots], (False, *out), [aval_of(y) for y in outs])

    def linearize(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        cond_consts, consts, carry = _parts(primals[1:], params)
        _, const_dots, carry_dots = _parts(tangents[1:], params)
        halves = linearize_body(
            params["body_jaxpr"], len(consts), len(carry), nonzero([*const_dots, *carry_dots])
        )
        outs, saved_consts, saved_xs = self._run_known(
            halves, params["cond_jaxpr"], primals[0], cond_consts, [*consts, *carry], params["length"]
        )
        carry_dots = [instantiate(t) for t in marked(carry_dots, halves.unknown_out[: len(carry)])]
        dots = _run_unknown(
            halves, outs[0], saved_consts, saved_xs, live_tangents(const_dots), carry_dots, params["length"]
        )
        return outs, fill_zeros(dots, (False, *halves.unknown_out), [aval_of(y) for y in outs])

    def _run_known(
        self, halves: Halves, cond: Jaxpr, limit: Any, cond_consts: Any, known: Any, length: int
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """What is known: the number of steps and results; and residuals, constant and stacked, of the other half."""
        n, *outs = self.bind(
            limit,
            *cond_consts,
            *known,
            cond_jaxpr=cond,
            body_jaxpr=halves.known,
            cond_nconsts=len(cond_consts),
            body_nconsts=halves.num_consts,
            num_carry=halves.num_carry,
            length=length,
        )
        return [n, *outs[: halves.num_outs]], *halves.residuals(known, outs)

    def partial_eval(self, unknown: Sequence[bool], *args: Any, **params: Any) -> list[Any]:
        """What is known is computed by a loop of its own, run now, if it is known when to stop."""
        split = _split(params, tuple(unknown))
        if split is None:
            return self.bind(*args, **params)
        halves, cond = split
        now, (consts, carry, _), cond_consts = _known_and_unknown(halves, args, unknown, params)
        outs, saved_consts, saved_xs = self._run_known(
            halves, cond, args[0], cond_consts, now, params["length"]
        )
        rest = _run_unknown(halves, outs[0], saved_consts, saved_xs, consts, carry, params["length"])
        return [outs[0], *merge(halves.unknown_out, rest, outs[1:])]

    def transpose(self, cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        linear = tuple(is_undef(x) for x in args)
        split = _split(params, linear)
        assert split is not None, "the condition of a loop that is linear in its carry is not"
        halves, cond = split
        now, (consts, carry, _), cond_consts = _known_and_unknown(halves, args, linear, params)
        outs, saved_consts, saved_xs = self._run_known(
            halves, cond, args[0], cond_consts, now, params["length"]
        )
        bars = counted_p.transpose(
            marked(cts[1:], halves.unknown_out),
            outs[0],
            *saved_consts,
            *consts,
            *carry,
            *saved_xs,
            **_as_scan(halves, len(saved_consts) + len(consts), len(carry), params["length"]),
        )
        first = 1 + len(saved_consts)
        bars = bars[first : first + len(consts) + len(carry)]
        found = merge(halves.unknown_in, bars, [None] * halves.unknown_in.count(False))
        return [*[None] * (1 + params["cond_nconsts"]), *found]

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        cond_dims, const_dims, carry_dims = _parts(dims[1:], params)
        cond_consts, consts, carry = _parts(args[1:], params)
        start = tuple(dim is not None for dim in carry_dims)
        new, batched = batch_body(params["body_jaxpr"], axis, tuple(const_dims), start, ())
        marks = batched[: len(carry)]
        cond, (by_element,) = batch_jaxpr(params["cond_jaxpr"], axis, along_carry(cond_dims, marks))
        if by_element or dims[0] is not None:
            if go_by_element(params["cond_jaxpr"], params["body_jaxpr"]):
                return for_each(self, axis, args, dims, params)
            return self._batch_by_element(axis, args, dims, **params)
        carry = [
            batch_first(axis, x, dim) if b else x for x, dim, b in zip(carry, carry_dims, marks, strict=True)
        ]
        outs = self.bind(
            args[0], *cond_consts, *consts, *carry, **{**params, "cond_jaxpr": cond, "body_jaxpr": new}
        )
        first = [0] * len(carry) + [1] * (len(outs) - 1 - len(carry))
        return outs, [None, *(dim if b else None for dim, b in zip(first, batched, strict=True))]

    def _batch_by_element(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any
    ) -> Any:
        check_collectives(axis, params["cond_jaxpr"], params["body_jaxpr"])
        cond_dims, const_dims, carry_dims = _parts(dims[1:], params)
        cond_consts, consts, carry = _parts(args[1:], params)
        limits = batch_first(axis, args[0], dims[0])
        carry = [batch_first(axis, x, dim) for x, dim in zip(carry, carry_dims, strict=True)]
        all_true = (True,) * len(carry)
        pred_jaxpr, _ = batch_jaxpr(params["cond_jaxpr"], axis, along_carry(cond_dims, all_true), (True,))
        counts = array_ops.zeros(ShapedArray((axis.size,), INT32))
        pred = and_(lt(counts, limits), eval_jaxpr(pred_jaxpr, [*cond_consts, *carry])[0])
        cond, body = masked_loop(
            params["body_jaxpr"], pred_jaxpr, axis, tuple(const_dims), len(cond_consts), len(carry)
        )
        _, _, counts, *outs = self.bind(
            np.int32(params["length"]),
            limits,
            *cond_consts,
            *consts,
            pred,
            counts,
            *carry,
            cond_jaxpr=cond,
            body_jaxpr=body,
            cond_nconsts=0,
            body_nconsts=1 + len(cond_consts) + len(consts),
            num_carry=2 + len(carry),
            length=params["length"],
        )
        return [counts, *outs], [0] * (1 + len(carry)) + [1] * (len(outs) - len(carry))

    def keys(self, line: Any, operands: Sequence[Any], **params: Any) -> list[Any]:
        carry = carry_keys(_parts(operands[1:], params), params, params["length"])
        num_ys = len(params["body_jaxpr"].outvars) - len(carry)
        return [None, *carry, *[None] * num_ys]

    def checkify(
        self, kinds: Kinds, limit: Any, *args: Any, **params: Any
    ) -> tuple[list[Any], Report | None]:
        """As of `while_p`."""

        def run(consts: Sequence[Any], carry: Sequence[Any], **jaxprs: Jaxpr) -> list[Any]:
            sizes = {"cond_nconsts": 0, "body_nconsts": len(consts), "num_carry": len(carry)}
            return self.bind(limit, *consts, *carry, **jaxprs, **sizes, length=params["length"])

        return run_checkified(run, kinds, _parts(args, params), params, num_before=1)

    def run_jaxprs(self, run: Any, limit: Any, *args: Any, **params: Any) -> list[Any]:
        cond_consts, consts, carry = _parts(args, params)
        length, num_carry = params["length"], len(carry)
        rows: list[list[Any]] = []
        while len(rows) < int(limit):
            step = len(rows)
            if not bool(
                run(params["cond_jaxpr"], [*cond_consts, *carry], f"condition {step} of while_loop")[0]
            ):
                break
            outs = run(params["body_jaxpr"], [*consts, *carry], f"step {step} of while_loop")
            carry, ys = split_at(outs, num_carry)
            rows.append([array_ops.broadcast_axis(y, 1, 0) for y in ys])
        avals = params["body_jaxpr"].out_avals[num_carry:]
        empty = [array_ops.zeros(y.update(shape=(0, *y.shape))) for y in avals]
        stacked = [concatenate(list(column), 0) for column in zip(empty, *rows, strict=True)]
        return [np.int32(len(rows)), *carry, *(lengthened(y, length) for y in stacked)]

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        params = eqn.params
        cond_nconsts, body_nconsts, num_carry = (
            params[name] for name in ("cond_nconsts", "body_nconsts", "num_carry")
        )
        cond, read = dce_jaxpr(params["cond_jaxpr"], (True,))
        needed = (*union(used[1 : 1 + num_carry], read[cond_nconsts:]), *used[1 + num_carry :])
        body, used_in, used_out = dce_body(params["body_jaxpr"], body_nconsts, num_carry, needed)
        cond_consts, consts, carry = _parts(eqn.invars[1:], params)
        kept = used_in[body_nconsts:]
        cond_invars = marked(params["cond_jaxpr"].invars, (*read[:cond_nconsts], *kept))
        return eqn.replace(
            invars=[
                eqn.invars[0],
                *marked(cond_consts, read[:cond_nconsts]),
                *marked([*consts, *carry], used_in),
            ],
            outvars=[eqn.outvars[0], *marked(eqn.outvars[1:], used_out)],
            params={
                "cond_jaxpr": with_invars(cond, cond_invars),
                "body_jaxpr": body,
                "cond_nconsts": sum(read[:cond_nconsts]),
                "body_nconsts": sum(used_in[:body_nconsts]),
                "num_carry": sum(kept),
                "length": params["length"],
            },
        )


bounded_p = Bounded("bounded_while")


def _parts(values: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The constants of the condition, those of the body, and the carry."""
    return split_at(values, params["cond_nconsts"], params["body_nconsts"])


@cached_on_jaxpr
def with_unread(cond: Jaxpr, avals: tuple[ShapedArray, ...]) -> Jaxpr:
    """The condition with more inputs, which it does not read."""
    return with_invars(cond, [*cond.invars, *map(Var, avals)])


# --- Two halves -----------------------------------------------------------------------------------


def _split(params: dict[str, Any], unknown: Marks) -> tuple[Halves, Jaxpr] | None:
    """The halves of the body and the condition on what is known; None if it is not known when to stop."""
    cond_unknown, consts_unknown, carry_unknown = _parts(unknown[1:], params)
    num_consts = params["body_nconsts"]
    halves = partial_eval_body(
        params["body_jaxpr"], num_consts, params["num_carry"], (*consts_unknown, *carry_unknown)
    )
    cond = partial_eval_jaxpr(params["cond_jaxpr"], (*cond_unknown, *halves.unknown_in[num_consts:]))
    return None if unknown[0] or cond.unknown_out[0] else (halves, cond.known)


def _known_and_unknown(
    halves: Halves, args: Sequence[Any], unknown: Sequence[bool], params: dict[str, Any]
) -> tuple[list[Any], tuple[Any, ...], list[Any]]:
    """Known constants and carry of the body, the unknown ones (in parts), known constants of the condition."""
    cond_consts, consts, carry = _parts(args[1:], params)
    now, later = parts_by(halves.unknown_in, [*consts, *carry], len(consts), len(carry))
    return (
        [x for part in now for x in part],
        later,
        unmarked(cond_consts, unknown[1 : 1 + len(cond_consts)]),
    )


def _run_unknown(
    halves: Halves,
    n: Any,
    saved_consts: list[Any],
    saved_xs: list[Any],
    consts: Sequence[Any],
    carry: Sequence[Any],
    length: int,
) -> list[Any]:
    """The other half, on as many steps as the known half took."""
    if not halves.unknown.outvars:
        return []
    params = _as_scan(halves, len(saved_consts) + len(consts), len(carry), length)
    return counted_p.bind(n, *saved_consts, *consts, *carry, *saved_xs, **params)


def _as_scan(halves: Halves, num_consts: int, num_carry: int, length: int) -> dict[str, Any]:
    how = {"length": length, "reverse": False, "unroll": 1}
    return {"jaxpr": halves.unknown, "num_consts": num_consts, "num_carry": num_carry, **how}


# --- Batches --------------------------------------------------------------------------------------


def along_carry(consts: Sequence[int | None], carry: Sequence[bool]) -> tuple[int | None, ...]:
    return (*consts, *(0 if b else None for b in carry))


@cached_on_jaxpr
def masked_loop(
    body: Jaxpr,
    pred_jaxpr: Jaxpr,
    axis: AxisData,
    const_dims: tuple[int | None, ...],
    cond_nconsts: int,
    num_carry: int,
) -> tuple[Jaxpr, Jaxpr]:
    """Condition and body of a loop that also carries which elements continue, and how many steps each took.

    See Note [Elements that are through]. They see copies of an element that continues, whatever the body is: from where
    they stopped there might be no finite derivative.
    """
    dims = (*const_dims, *(0,) * num_carry)
    new, _ = batch_jaxpr(body, axis, dims, (True,) * len(body.outvars))
    num_consts = len(const_dims)

    def step(*args: Any) -> list[Any]:
        (limits,), cond_consts, consts, (pred, counts), carry = split_at(args, 1, cond_nconsts, num_consts, 2)
        entering = [
            x if dim is None or not axis.size else stand_in_along(pred, x, dim)
            for x, dim in zip((*consts, *carry), dims, strict=True)
        ]
        after, ys = split_at(eval_jaxpr(new, entering), num_carry)
        carry = [select_n(along_first(pred, x), x, y) for x, y in zip(carry, after, strict=True)]
        counts = add(counts, convert_element_type(pred, INT32))
        still = and_(lt(counts, limits), eval_jaxpr(pred_jaxpr, [*cond_consts, *carry])[0])
        return [still, counts, *carry, *ys]

    counts = ShapedArray((axis.size,), INT32)
    carry_avals = [counts.update(dtype=_BOOL), counts, *new.in_avals[num_consts:]]
    const_avals = [counts, *pred_jaxpr.in_avals[:cond_nconsts], *new.in_avals[:num_consts]]
    cond = traced(lambda pred, *_: [reduce_or_p.bind(pred, axes=(0,))], carry_avals, what="vmap")
    return cond, traced(step, [*const_avals, *carry_avals], what="vmap")


def stand_in_along(taking: Any, x: Any, dim: int) -> Any:
    """`stand_in` for a batch of axis `dim`."""
    return array_ops.move_axis(stand_in(taking, array_ops.move_axis(x, dim, 0)), 0, dim)
