"""`checkpointed_p`: a while loop without a bound that reverse mode differentiates, by a number of saved carries.

    checkpointed_p(p, c, h; k):   n = 0;  while p(h): h = body(c, h); n += 1;   return n, h, and k of the carries
    fold_p(c, s; step):           for i in reversed(range(n)): s = step(c, s, h[i]);   return s

Which carries are saved is decided as the loop goes (`_save`): steps are known only when it ends. The backward sweep is
a fold over the carries h[i], from the last, which computes those that were not saved again, from the
nearest that was, and saves others on the way where there is room: the schedule of fewest repetitions, binomial in the
number of steps and of checkpoints (Q. Wang, P. Moin, G. Iaccarino, Minimal repetition dynamic checkpointing algorithm
for unsteady adjoint calculation, SIAM J. Sci. Comput. 31(4), 2009). A fold is linear where its step is, forward mode is
a fold from the first carry, and each is the transpose of the other. Second derivatives differentiate
the loops that these primitives are made of, which are checkpointed themselves.
Read next: `segments.py`, faster where the number of steps has a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core.avals import ShapedArray, aval_of
from didax.core.basis import basis, instantiate
from didax.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from didax.core.primitive import Primitive
from didax.primitives.call import check_operands, fill_zeros, jit_p
from didax.primitives.control_flow.bounded import along_carry, masked_loop, with_unread
from didax.primitives.control_flow.common import (
    INT32,
    Marks,
    along_first,
    batch_first,
    carry_types,
    fixpoint,
    marked,
    merge,
    nonzero,
    run_compiled,
    split_at,
    unmarked,
    with_invars,
)
from didax.primitives.control_flow.counted import COUNT, among_taking, check_count
from didax.primitives.control_flow.effects import for_each, go_by_element, silent
from didax.primitives.control_flow.scan import (
    batch_body,
    dce_body,
    jvp_body,
    live_tangents,
    partial_eval_body,
    transpose_body,
)
from didax.primitives.control_flow.while_loop import (
    Unbounded,
    check_collectives,
    known_body,
    run_checkified,
    while_p,
)
from didax.primitives.convert import iota
from didax.primitives.elementwise import add, and_, eq, ge, gt, lt, or_, sub
from didax.primitives.reductions import argmax_p, reduce_max_p, reduce_or_p
from didax.primitives.select import select_n
from didax.primitives.shape import broadcast_in_dim, full, reshape
from didax.primitives.slicing import concatenate, dynamic_slice_p, dynamic_update_slice_p
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.checkify import Kinds, Report
from didax.transforms.key_reuse import loop_keys, summarise
from didax.transforms.linearize import linearize_jaxpr
from didax.transforms.partial_eval import Split, partial_eval_jaxpr
from didax.transforms.simplify import dce_jaxpr
from didax.transforms.staging import trace_to_jaxpr
from didax.transforms.transpose import is_undef
from didax.xla.lowering import lower_jaxpr_body
from didax.xla.text import FunctionContext, Value

_MOST = np.int32(np.iinfo(np.int32).max)


class Checkpointed(Unbounded):
    """`checkpointed_p.bind(*cond_consts, *body_consts, *carry, ...)`: as `while_p`, with the number of steps first.

    With `save` it also returns the steps and levels of `checkpoints` saved carries (step -1: none) and these, stacked,
    with a row more of no meaning.
    """

    multiple_results = True

    def named_axes(self, params: dict[str, Any]) -> frozenset[str]:
        return params["cond_jaxpr"].axis_names | params["body_jaxpr"].axis_names

    def type(self, *avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        cond_consts, consts, carry = _parts(avals, params)
        body, k = params["body_jaxpr"], params["checkpoints"]
        check_operands("the condition of a checkpointed loop", params["cond_jaxpr"], [*cond_consts, *carry])
        check_operands("the body of a checkpointed loop", body, [*consts, *carry])
        types = carry_types("a checkpointed loop", body.in_avals[len(consts) :], body.out_avals)
        if not params["save"]:
            return [COUNT, *types]
        marks = COUNT.update(shape=(k,))
        return [COUNT, *types, marks, marks, *(x.update(shape=(k + 1, *x.shape)) for x in types)]

    def evaluate(self, *args: Any, **params: Any) -> list[Any]:
        return run_compiled(self, args, "body_jaxpr", params)

    def lower(self, ctx: FunctionContext, *args: Value, **params: Any) -> list[Value]:
        return lower_jaxpr_body(ctx, _loops(params, plain=True), args)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        cond_consts, consts, carry = _parts(primals, params)
        _, const_dots, carry_dots = _parts(tangents, params)
        new, out = jvp_body(
            params["body_jaxpr"], len(consts), len(carry), nonzero([*const_dots, *carry_dots])
        )
        const_dots = live_tangents(const_dots)
        carry_dots = [instantiate(t) for t in marked(carry_dots, out)]
        params = {
            **params,
            "cond_jaxpr": with_unread(params["cond_jaxpr"], tuple(aval_of(t) for t in carry_dots)),
            "body_jaxpr": new,
            "body_nconsts": len(consts) + len(const_dots),
        }
        outs = self.bind(*cond_consts, *consts, *const_dots, *carry, *carry_dots, **params)
        save = params["save"]
        n, last, last_dots, marks, saved, saved_dots = split_at(
            outs, 1, len(carry), len(carry_dots), 2 * save, len(carry) * save
        )
        outs = [*n, *last, *marks, *saved]
        where = (False, *out, *([False, False, *out] if save else []))
        return outs, fill_zeros([*last_dots, *saved_dots], where, [aval_of(y) for y in outs])

    def linearize(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        """The linear half is a fold over the carries that the loop goes through, of which some are saved."""
        if params["save"]:
            return jit_p.linearize(primals, tangents, jaxpr=_loops(params, plain=False))
        _, consts, carry = _parts(primals, params)
        _, const_dots, carry_dots = _parts(tangents, params)
        again = silent(params["body_jaxpr"])
        step, out = _tangent_step(again, len(consts), nonzero([*const_dots, *carry_dots]))
        if not any(out):
            outs = self.bind(*primals, **params)
            return outs, fill_zeros([], (False, *out), [aval_of(y) for y in outs])
        outs = self.bind(*primals, **{**params, "save": True})
        n, last, (at, level), saved = split_at(outs, 1, len(carry), 2)
        live = live_tangents(const_dots)
        carry_dots = [instantiate(t) for t in marked(carry_dots, out)]
        dots = fold_p.bind(
            *n,
            at,
            level,
            *saved,
            *consts,
            *consts,
            *live,
            *carry_dots,
            body_jaxpr=again,
            jaxpr=step,
            body_nconsts=len(consts),
            num_consts=len(consts) + len(live),
            checkpoints=params["checkpoints"],
            reverse=False,
        )
        outs = [*n, *last]
        return outs, fill_zeros(dots, (False, *out), [aval_of(y) for y in outs])

    def transpose(self, cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        """What is not linear runs now; the rest is a fold over it, which is transposed."""
        if params["save"]:
            return jit_p.transpose(cts, *args, jaxpr=_loops(params, plain=False))
        cond_consts, consts, carry = _parts(args, params)
        linear = tuple(is_undef(x) for x in consts)
        unread = tuple(is_undef(x) for x in cond_consts)
        start = tuple(is_undef(x) for x in carry)
        new = _linear_parts(params["body_jaxpr"], params["cond_jaxpr"], unread, linear, start)
        known = unmarked(consts, linear)
        outs = self.bind(
            *unmarked(cond_consts, unread),
            *known,
            *unmarked(carry, new.linear),
            **{
                **params,
                "cond_jaxpr": new.cond,
                "body_jaxpr": new.known,
                "cond_nconsts": unread.count(False),
                "body_nconsts": len(known),
                "save": True,
            },
        )
        n, _, saved = split_at(outs, 1, new.linear.count(False))
        bars = fold_p.transpose(
            marked(cts[1:], new.linear),
            *n,
            *saved,
            *known,
            *consts,
            *marked(carry, new.linear),
            body_jaxpr=silent(new.known),
            jaxpr=silent(new.step),
            body_nconsts=len(known),
            num_consts=len(consts),
            checkpoints=params["checkpoints"],
            reverse=False,
        )[len(n) + len(saved) + len(known) :]
        const_bars, carry_bars = split_at(bars, len(consts))
        carry_bars = merge(new.linear, carry_bars, [None] * new.linear.count(False))
        return [*[None] * len(cond_consts), *const_bars, *carry_bars]

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        cond_dims, const_dims, carry_dims = _parts(dims, params)
        cond_consts, consts, carry = _parts(args, params)
        body, save = params["body_jaxpr"], params["save"]
        start = tuple(dim is not None for dim in carry_dims)
        new, marks = batch_body(body, axis, tuple(const_dims), start, ())
        cond, (by_element,) = batch_jaxpr(params["cond_jaxpr"], axis, along_carry(cond_dims, marks))
        if not by_element:
            carry = [
                batch_first(axis, x, dim) if b else x
                for x, dim, b in zip(carry, carry_dims, marks, strict=True)
            ]
            outs = self.bind(
                *cond_consts, *consts, *carry, **{**params, "cond_jaxpr": cond, "body_jaxpr": new}
            )
            along = [[dim if b else None for b in marks] for dim in (0, 1)]
            return outs, [None, *along[0], *([None, None, *along[1]] if save else [])]
        check_collectives(axis, params["cond_jaxpr"], body)
        if go_by_element(params["cond_jaxpr"], body):
            return for_each(self, axis, args, dims, params)
        carry = [batch_first(axis, x, dim) for x, dim in zip(carry, carry_dims, strict=True)]
        pred_jaxpr, _ = batch_jaxpr(params["cond_jaxpr"], axis, along_carry(cond_dims, (True,) * len(carry)))
        pred = eval_jaxpr(pred_jaxpr, [*cond_consts, *carry])[0]
        cond, new = masked_loop(body, pred_jaxpr, axis, tuple(const_dims), len(cond_consts), len(carry))
        params = {
            **params,
            "cond_jaxpr": cond,
            "body_jaxpr": new,
            "cond_nconsts": 0,
            "body_nconsts": 1 + len(cond_consts) + len(consts),
        }
        limits, counts = full((axis.size,), _MOST, INT32), full((axis.size,), np.int32(0), INT32)
        outs = self.bind(limits, *cond_consts, *consts, pred, counts, *carry, **params)
        _, (_, counts), last, marks, _, saved = split_at(outs, 1, 2, len(carry), 2 * save, 2 * save)
        along = [0] * (1 + len(carry)) + [None] * len(marks) + [1] * len(saved)
        return [counts, *last, *marks, *saved], along

    def keys(self, line: Any, operands: Sequence[Any], **params: Any) -> list[Any]:
        cond, body = summarise(params["cond_jaxpr"]), summarise(params["body_jaxpr"])
        cond_consts, consts, carry = _parts(operands, params)

        def step(carry: Sequence[Any]) -> list[Any]:
            cond.apply([*cond_consts, *carry], None)
            return body.apply([*consts, *carry], None)

        return [None, *loop_keys(step, 2, carry), *[None] * ((2 + len(carry)) * params["save"])]

    def checkify(self, kinds: Kinds, *args: Any, **params: Any) -> tuple[list[Any], Report | None]:
        if params["save"]:
            return jit_p.checkify(kinds, *args, jaxpr=_loops(params, plain=True))

        def run(consts: Sequence[Any], carry: Sequence[Any], **jaxprs: Jaxpr) -> list[Any]:
            return self.bind(
                *consts, *carry, **{**params, **jaxprs, "cond_nconsts": 0, "body_nconsts": len(consts)}
            )

        return run_checkified(run, kinds, _parts(args, params), params, num_before=1)

    def interpret(self, run: Any, *args: Any, **params: Any) -> list[Any]:
        return run(_loops(params, plain=True), args, "while_loop")

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        """Without the carries that are saved, if nobody needs these; else as it is."""
        params = eqn.params
        num_carry = len(params["body_jaxpr"].outvars)
        if not params["save"] or any(used[1 + num_carry :]):
            return eqn
        return eqn.replace(outvars=eqn.outvars[: 1 + num_carry], params={**params, "save": False})


checkpointed_p = Checkpointed("checkpointed_while")


def _parts(values: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The constants of the condition, those of the body, and the carry."""
    return split_at(values, params["cond_nconsts"], params["body_nconsts"])


def _loops(params: dict[str, Any], plain: bool) -> Jaxpr:
    rest = {name: value for name, value in params.items() if name != "body_jaxpr"}
    return _checkpointed_as_loops(params["body_jaxpr"], **rest, plain=plain)


@cached_on_jaxpr
def _tangent_step(body: Jaxpr, num_consts: int, nonzero_in: Marks) -> tuple[Jaxpr, Marks]:
    """`(consts, const_dots, carry_dots, carry) -> carry_dots`, and which parts of the carry have a tangent."""
    moving, start = nonzero_in[:num_consts], nonzero_in[num_consts:]

    def split_by(marks: Marks) -> Split[Jaxpr]:
        return linearize_jaxpr(body, (*moving, *marks), marks)

    marks = fixpoint(start, lambda marks: split_by(marks).unknown_out)
    split = split_by(marks)

    def step(*args: Any) -> list[Any]:
        consts, const_dots, carry_dots, carry = split_at(args, num_consts, sum(moving), sum(marks))
        primals = [*consts, *carry]
        residuals = eval_jaxpr(split.known, primals)[len(marks) :]
        return eval_jaxpr(
            split.unknown, [*split.residual_values(primals, residuals), *const_dots, *carry_dots]
        )

    consts, carry = split_at(body.in_avals, num_consts)
    dots = [aval.tangent() for aval in marked(body.in_avals, (*moving, *marks))]
    new = _traced(step, [*consts, *dots, *carry])
    return dce_jaxpr(new, (True,) * len(new.outvars), keep_inputs=True)[0], marks


class _Parts(NamedTuple):
    """The loop of what is not linear; the step of what is, `(consts, linear, others) -> linear`; which parts are."""

    cond: Jaxpr
    known: Jaxpr
    step: Jaxpr
    linear: Marks


@cached_on_jaxpr
def _linear_parts(body: Jaxpr, cond: Jaxpr, cond_consts: Marks, consts: Marks, start: Marks) -> _Parts:
    known, carry = known_body(body, consts, start)
    stops = partial_eval_jaxpr(cond, (*cond_consts, *carry))
    assert not stops.unknown_out[0], "the condition of a loop is not linear in its carry"
    step, _ = dce_jaxpr(body, carry, keep_inputs=True)
    constants, parts = split_at(step.invars, len(consts))
    step = with_invars(step, [*constants, *marked(parts, carry), *unmarked(parts, carry)])
    return _Parts(stops.known, known, step, carry)


# --- Folds ----------------------------------------------------------------------------------------


class Fold(Primitive):
    """`fold_p.bind(n, at, level, *saved, *body_consts, *consts, *state, ...)`: the state after a step for each carry.

    `at`, `level` and `saved` are those of a loop of `n` steps of `body_jaxpr`, with its constants. `jaxpr` maps
    `num_consts` constants, the state and a carry to the next state. It meets the carries in order, with `reverse` from
    the last.
    """

    multiple_results = True

    def named_axes(self, params: dict[str, Any]) -> frozenset[str]:
        return params["jaxpr"].axis_names | params["body_jaxpr"].axis_names

    def type(self, *avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        n, _, _, saved, body_consts, consts, state = _fold_parts(avals, params)
        check_count(n)
        rows = [x.update(shape=x.shape[1:]) for x in saved]
        check_operands("the loop of a fold", params["body_jaxpr"], [*body_consts, *rows])
        check_operands("the step of a fold", params["jaxpr"], [*consts, *state, *rows])
        before = params["jaxpr"].in_avals[len(consts) : len(consts) + len(state)]
        return carry_types("a fold", before, params["jaxpr"].out_avals)

    def evaluate(self, *args: Any, **params: Any) -> list[Any]:
        return run_compiled(self, args, "jaxpr", params)

    def lower(self, ctx: FunctionContext, *args: Value, **params: Any) -> list[Value]:
        return lower_jaxpr_body(ctx, _fold_loops(params, plain=True), args)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        n, at, level, saved, body_consts, consts, state = _fold_parts(primals, params)
        _, _, _, saved_dots, body_dots, const_dots, state_dots = _fold_parts(tangents, params)
        body, row_marks = jvp_body(
            params["body_jaxpr"], len(body_consts), len(saved), nonzero([*body_dots, *saved_dots])
        )
        start = (*nonzero([*const_dots, *state_dots]), *row_marks)
        step, out = jvp_body(params["jaxpr"], len(consts), len(state), start)
        body_dots, const_dots = live_tangents(body_dots), live_tangents(const_dots)
        state_dots = [instantiate(t) for t in marked(state_dots, out)]
        outs = self.bind(
            n,
            at,
            level,
            *saved,
            *map(instantiate, marked(saved_dots, row_marks)),
            *body_consts,
            *body_dots,
            *consts,
            *const_dots,
            *state,
            *state_dots,
            body_jaxpr=body,
            jaxpr=step,
            body_nconsts=len(body_consts) + len(body_dots),
            num_consts=len(consts) + len(const_dots),
            checkpoints=params["checkpoints"],
            reverse=params["reverse"],
        )
        last, dots = split_at(outs, len(state))
        return last, fill_zeros(dots, out, [aval_of(y) for y in last])

    def linearize(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        loops = _fold_loops(params, plain=False)
        return jit_p.linearize(primals, tangents, jaxpr=loops)

    def transpose(self, cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        """The fold of the transposed step, the other way."""
        n, at, level, saved, body_consts, consts, state = _fold_parts(args, params)
        linear = tuple(is_undef(x) for x in (*consts, *state))
        start = (*linear, *[False] * len(saved))
        halves = partial_eval_body(params["jaxpr"], len(consts), len(state), start)
        if halves.num_carry:
            loops = _fold_loops(params, plain=False)
            return jit_p.transpose(cts, *args, jaxpr=loops)
        new = transpose_body(params["jaxpr"], len(consts), len(state), halves.unknown_in, nonzero(cts))
        known, lin_avals = unmarked(consts, linear[: len(consts)]), marked(consts, linear[: len(consts)])
        const_bars = [basis.zeros(x.aval) for x in marked(lin_avals, new.consts)]
        state_bars = [instantiate(ct) for ct in marked(cts, new.carry)]
        outs = iter(
            self.bind(
                n,
                at,
                level,
                *saved,
                *body_consts,
                *known,
                *const_bars,
                *state_bars,
                body_jaxpr=params["body_jaxpr"],
                jaxpr=new.jaxpr,
                body_nconsts=len(body_consts),
                num_consts=len(known),
                checkpoints=params["checkpoints"],
                reverse=not params["reverse"],
            )
        )
        bars = iter([next(outs) if sent else None for sent in (*new.consts, *new.carry)])
        found = [next(bars) if lin else None for lin in halves.unknown_in[: len(linear)]]
        found = [bar if lin else None for bar, lin in zip(found, linear, strict=True)]
        return [*[None] * (3 + len(saved) + len(body_consts)), *found]

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        if dims[1] is not None or dims[2] is not None:  # each element has saved other steps
            loops = _fold_loops(params, plain=False)
            return jit_p.batch(axis, args, dims, jaxpr=loops)
        n, at, level, saved, body_consts, consts, state = _fold_parts(args, params)
        n_dim, _, _, saved_dims, body_dims, const_dims, state_dims = _fold_parts(dims, params)
        by_element = n_dim is not None
        marks = tuple(by_element or dim is not None for dim in saved_dims)
        start = tuple(by_element or dim is not None for dim in state_dims)
        body, row_marks = batch_body(params["body_jaxpr"], axis, tuple(body_dims), marks, ())
        row_dims = tuple(0 if b else None for b in row_marks)
        step, state_marks = batch_body(params["jaxpr"], axis, tuple(const_dims), start, row_dims)
        saved = [
            _batch_second(axis, x, dim) if b else x
            for x, dim, b in zip(saved, saved_dims, row_marks, strict=True)
        ]
        state = [
            batch_first(axis, x, dim) if b else x
            for x, dim, b in zip(state, state_dims, state_marks, strict=True)
        ]
        along = [0 if b else None for b in state_marks]
        if not by_element:
            outs = self.bind(
                n,
                at,
                level,
                *saved,
                *body_consts,
                *consts,
                *state,
                **{**params, "body_jaxpr": body, "jaxpr": step},
            )
            return outs, along
        counts = batch_first(axis, n, n_dim)
        outs = self.bind(
            reduce_max_p.bind(counts, axes=(0,)) if axis.size else np.int32(0),
            at,
            level,
            concatenate([at, full((1,), np.int32(-1), INT32)], 0),
            *saved,
            counts,
            *body_consts,
            counts,
            *consts,
            *state,
            body_jaxpr=_masked_body(body, axis, (*body_dims, *row_dims), len(body_consts)),
            jaxpr=_masked_step(step, axis, (*const_dims, *along, *row_dims), len(consts)),
            body_nconsts=1 + len(body_consts),
            num_consts=1 + len(consts),
            checkpoints=params["checkpoints"],
            reverse=params["reverse"],
        )
        return outs, along

    def keys(self, line: Any, operands: Sequence[Any], **params: Any) -> list[Any]:
        """The keys of what is computed again were used by the first computation."""
        return [None] * len(params["jaxpr"].outvars)

    def checkify(self, kinds: Kinds, *args: Any, **params: Any) -> tuple[list[Any], Report | None]:
        return jit_p.checkify(kinds, *args, jaxpr=_fold_loops(params, plain=True))

    def interpret(self, run: Any, *args: Any, **params: Any) -> list[Any]:
        return run(_fold_loops(params, plain=True), args, "the derivative of while_loop")

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        params = eqn.params
        n, at, level, saved, body_consts, consts, state = _fold_parts(eqn.invars, params)
        step, used_in, used_out = dce_body(params["jaxpr"], len(consts), len(state), tuple(used))
        read = used_in[len(consts) + len(state) :]
        body, body_in, rows = dce_body(params["body_jaxpr"], len(body_consts), len(saved), read)
        # what the step does not read and the loop needs is a row of it all the same
        step_consts, step_state, _ = split_at(used_in, len(consts), len(state))
        given = iter(step.invars[sum(step_consts) + sum(step_state) :])
        wide = [next(given) if r else x for x, r in zip(_elements(saved), read, strict=True)]
        invars = [*step.invars[: sum(step_consts) + sum(step_state)], *marked(wide, rows)]
        return eqn.replace(
            invars=[
                n,
                at,
                level,
                *marked(saved, rows),
                *marked(body_consts, body_in[: len(body_consts)]),
                *marked(consts, step_consts),
                *marked(state, step_state),
            ],
            outvars=marked(eqn.outvars, used_out),
            params={
                **params,
                "body_jaxpr": body,
                "jaxpr": with_invars(step, invars),
                "body_nconsts": sum(body_in[: len(body_consts)]),
                "num_consts": sum(step_consts),
            },
        )


fold_p = Fold("fold")


def _fold_parts(values: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Number of steps, steps and levels of saved carries, these, constants of loop and step, the state."""
    rows = len(params["body_jaxpr"].outvars)
    head, saved, body_consts, consts, state = split_at(
        values, 3, rows, params["body_nconsts"], params["num_consts"]
    )
    return [*head, saved, body_consts, consts, state]


def _elements(saved: Sequence[Any]) -> list[Any]:
    return [Var(x.aval.update(shape=x.aval.shape[1:])) for x in saved]


def _fold_loops(params: dict[str, Any], plain: bool) -> Jaxpr:
    rest = {name: value for name, value in params.items() if name != "jaxpr"}
    return _fold_as_loops(params["jaxpr"], **rest, plain=plain)


@cached_on_jaxpr
def _masked_body(body: Jaxpr, axis: AxisData, dims: tuple[int | None, ...], num_consts: int) -> Jaxpr:
    """`(counts, consts, i, carry) -> (i + 1, carry)`: the loop of a batch; some of its elements take fewer steps."""

    def step(counts: Any, *args: Any) -> list[Any]:
        consts, (i,), carry = split_at(args, num_consts, 1)
        return [add(i, 1), *eval_jaxpr(body, _entering(lt(i, counts), [*consts, *carry], dims))]

    consts, carry = split_at(body.in_avals, num_consts)
    return _traced(step, [COUNT.update(shape=(axis.size,)), *consts, COUNT, *carry])


@cached_on_jaxpr
def _masked_step(step: Jaxpr, axis: AxisData, dims: tuple[int | None, ...], num_consts: int) -> Jaxpr:
    """`(counts, consts, state, i, carry) -> state`: a step that leaves the state of an element after its last carry."""
    num_state = len(step.outvars)

    def masked(counts: Any, *args: Any) -> list[Any]:
        start, (i,), rows = split_at(args, num_consts + num_state, 1)
        taking = lt(i, counts)
        state = eval_jaxpr(step, _entering(taking, [*start, *rows], dims))
        before = start[num_consts:]
        return [select_n(along_first(taking, x), x, y) for x, y in zip(before, state, strict=True)]

    start, rows = split_at(step.in_avals, num_consts + num_state)
    return _traced(masked, [COUNT.update(shape=(axis.size,)), *start, COUNT, *rows])


def _entering(taking: Any, values: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    """The values, with those of an element that takes part at each that does not."""
    size = aval_of(taking).shape[0]
    return [
        x if dim is None or not size else among_taking(taking, x, dim)
        for x, dim in zip(values, dims, strict=True)
    ]


def _batch_second(axis: AxisData, x: Any, dim: int | None) -> Any:
    return basis.broadcast_axis(x, axis.size, 1) if dim is None else basis.move_axis(x, dim, 1)


# --- As loops -------------------------------------------------------------------------------------
# Note [Which carries are saved]
# Each saved carry has a level. While there is room a carry is saved before every step, with level 0. Then one that
# has a later one of a higher level gives its place to the next. If there is none, the last one gives its place to the
# next, which gets its level and one more. The first carry stays. Backwards, those after the current step are given
# up, and the loop runs from the last that is left to the current step, saving by the same rule.


@cached_on_jaxpr
def _checkpointed_as_loops(
    jaxpr: Jaxpr,
    *,
    cond_jaxpr: Jaxpr,
    cond_nconsts: int,
    body_nconsts: int,
    checkpoints: int,
    save: bool,
    plain: bool,
) -> Jaxpr:
    """A program equal to `checkpointed_p`, of while loops; unless `plain`, checkpointed ones that save nothing."""
    num_carry = len(jaxpr.outvars)

    def run(*args: Any) -> list[Any]:
        cond_consts, consts, carry = split_at(args, cond_nconsts, body_nconsts)

        def holds(_: Any, *rest: Any) -> Any:
            return eval_jaxpr(cond_jaxpr, [*cond_consts, *rest[:num_carry]])[0]

        def step(i: Any, *rest: Any) -> list[Any]:
            carry, places = rest[:num_carry], rest[num_carry:]
            places = _save(i, carry, places[0], places[1], places[2:]) if save else []
            return [add(i, 1), *eval_jaxpr(jaxpr, [*consts, *carry]), *places]

        init = [np.int32(0), *carry, *(_first_saved(carry, checkpoints) if save else [])]
        return _loop(holds, step, init, None if plain else checkpoints)

    return _traced(run, [*cond_jaxpr.in_avals[:cond_nconsts], *jaxpr.in_avals])


@cached_on_jaxpr
def _fold_as_loops(
    jaxpr: Jaxpr,
    *,
    body_jaxpr: Jaxpr,
    body_nconsts: int,
    num_consts: int,
    checkpoints: int,
    reverse: bool,
    plain: bool,
) -> Jaxpr:
    """A program equal to `fold_p`, of while loops; unless `plain`, checkpointed ones that save nothing."""
    num_rows = len(body_jaxpr.outvars)
    how = None if plain else checkpoints

    def run(n: Any, at: Any, level: Any, *args: Any) -> list[Any]:
        saved, body_consts, consts, state = split_at(args, num_rows, body_nconsts, num_consts)

        def advance(carry: Sequence[Any]) -> list[Any]:
            return eval_jaxpr(body_jaxpr, [*body_consts, *carry])

        def forward(i: Any, *rest: Any) -> list[Any]:
            carry, state = split_at(rest, num_rows)
            return [add(i, 1), *advance(carry), *eval_jaxpr(jaxpr, [*consts, *state, *carry])]

        def reload(i: Any, at: Any, level: Any, saved: Sequence[Any]) -> list[Any]:
            """The carry before step `i`, and what is saved after it was computed."""
            at = select_n(gt(at, i), at, full((checkpoints,), np.int32(-1), INT32))
            place = argmax_p.bind(at, axes=(0,), index_dtype=INT32)

            def towards(j: Any, *rest: Any) -> list[Any]:
                carry, (at, level), saved = split_at(rest, num_rows, 2)
                carry = advance(carry)
                j = add(j, 1)
                return [j, *carry, *_save(j, carry, at, level, saved, lt(j, i))]

            start = [reduce_max_p.bind(at, axes=(0,)), *(_read(x, place) for x in saved)]
            return _loop(lambda j, *_: lt(j, i), towards, [*start, at, level, *saved], how)[1:]

        def backward(i: Any, at: Any, level: Any, *rest: Any) -> list[Any]:
            saved, state = split_at(rest, num_rows)
            carry, places = split_at(reload(i, at, level, saved), num_rows)
            return [sub(i, 1), *places, *eval_jaxpr(jaxpr, [*consts, *state, *carry])]

        if reverse:
            init = [sub(n, 1), at, level, *saved, *state]
            return _loop(lambda i, *_: ge(i, 0), backward, init, how)[3 + num_rows :]
        init = [np.int32(0), *(_read(x, np.int32(0)) for x in saved), *state]
        return _loop(lambda i, *_: lt(i, n), forward, init, how)[1 + num_rows :]

    rows = [x.update(shape=(checkpoints + 1, *x.shape)) for x in body_jaxpr.out_avals]
    marks = COUNT.update(shape=(checkpoints,))
    start = jaxpr.in_avals[: num_consts + len(jaxpr.outvars)]
    return _traced(run, [COUNT, marks, marks, *rows, *body_jaxpr.in_avals[:body_nconsts], *start])


def _loop(
    cond: Callable[..., Any], body: Callable[..., list[Any]], init: Sequence[Any], checkpoints: int | None
) -> list[Any]:
    """A while loop of functions, which may close over values; with `checkpoints` a checkpointed one."""
    avals = [aval_of(x).strip_weak_type() for x in init]
    cond_jaxpr, cond_consts = trace_to_jaxpr(lambda *xs: [cond(*xs)], avals, what="a loop")
    body_jaxpr, body_consts = trace_to_jaxpr(body, avals, what="a loop")
    params = {"cond_jaxpr": cond_jaxpr, "body_jaxpr": body_jaxpr}
    sizes = {"cond_nconsts": len(cond_consts), "body_nconsts": len(body_consts)}
    operands = [*cond_consts, *body_consts, *init]
    if checkpoints is None:
        return while_p.bind(*operands, **params, **sizes)
    return checkpointed_p.bind(*operands, **params, **sizes, checkpoints=checkpoints, save=False)[1:]


def _traced(f: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray]) -> Jaxpr:
    jaxpr, captured = trace_to_jaxpr(f, avals, what="a loop")
    assert not captured, "jaxprs are closed"
    return jaxpr


def _first_saved(carry: Sequence[Any], checkpoints: int) -> list[Any]:
    """Steps, levels and values of what is saved at the start: the first carry."""
    first = eq(iota(INT32, (checkpoints,), 0), 0)
    at = select_n(first, np.int32(-1), np.int32(0))
    level = select_n(first, np.int32(0), _MOST)
    return [at, level, *(basis.broadcast_axis(x, checkpoints + 1, 0) for x in carry)]


def _save(
    i: Any, carry: Sequence[Any], at: Any, level: Any, saved: Sequence[Any], wanted: Any = True
) -> list[Any]:
    """Save the carry before step `i`, or not. See Note [Which carries are saved]."""
    k = aval_of(at).shape[0]
    places = iota(INT32, (k,), 0)
    later = and_(gt(_along_axis(at, 1), _along_axis(at, 0)), gt(_along_axis(level, 1), _along_axis(level, 0)))
    needless = reduce_or_p.bind(later, axes=(1,))
    room = select_n(lt(at, 0), select_n(needless, np.int32(0), np.int32(1)), np.int32(2))
    has_room = gt(reduce_max_p.bind(room, axes=(0,)), 0)
    last = argmax_p.bind(at, axes=(0,), index_dtype=INT32)
    place = select_n(has_room, last, argmax_p.bind(room, axes=(0,), index_dtype=INT32))
    above = add(reduce_max_p.bind(select_n(eq(places, last), np.int32(0), level), axes=(0,)), 1)
    save = and_(and_(gt(i, 0), wanted), or_(has_room, gt(reduce_max_p.bind(at, axes=(0,)), 0)))
    here = and_(eq(places, place), save)
    at = select_n(here, at, broadcast_in_dim(i, (k,), ()))
    level = select_n(here, level, broadcast_in_dim(select_n(has_room, above, np.int32(0)), (k,), ()))
    row = select_n(save, np.int32(k), place)
    return [at, level, *(_write(xs, x, row) for xs, x in zip(saved, carry, strict=True))]


def _along_axis(x: Any, axis: int) -> Any:
    """A square array of which `x` is each column (axis 0) or row (axis 1)."""
    k = aval_of(x).shape[0]
    return broadcast_in_dim(x, (k, k), (axis,))


def _read(xs: Any, row: Any) -> Any:
    shape = aval_of(xs).shape
    window = dynamic_slice_p.bind(xs, row, *[np.int32(0)] * (len(shape) - 1), slice_sizes=(1, *shape[1:]))
    return reshape(window, shape[1:])


def _write(xs: Any, x: Any, row: Any) -> Any:
    update = basis.broadcast_axis(x, 1, 0)
    return dynamic_update_slice_p.bind(xs, update, row, *[np.int32(0)] * aval_of(x).ndim)


# --- What users call ------------------------------------------------------------------------------


def while_checkpointed(
    cond: Jaxpr,
    body: Jaxpr,
    cond_consts: Sequence[Any],
    consts: Sequence[Any],
    carry: Sequence[Any],
    checkpoints: int,
    steps: int | None = None,
) -> list[Any]:
    """`while_p` by so many checkpoints, that stops after at most `steps` steps."""
    params = {"cond_nconsts": len(cond_consts), "body_nconsts": len(consts), "save": False}
    params["checkpoints"] = checkpoints
    if steps is None:
        jaxprs = {"cond_jaxpr": cond, "body_jaxpr": body}
        return checkpointed_p.bind(*cond_consts, *consts, *carry, **jaxprs, **params)[1:]
    jaxprs = _counting(body, cond, len(cond_consts), len(consts), steps)
    return checkpointed_p.bind(*cond_consts, *consts, np.int32(0), *carry, **jaxprs, **params)[2:]


def _counting(body: Jaxpr, cond: Jaxpr, cond_nconsts: int, body_nconsts: int, steps: int) -> dict[str, Jaxpr]:
    """Condition and body of a loop that first carries how many steps it took, and stops after `steps`."""

    def goes_on(*args: Any) -> list[Any]:
        consts, (taken,), carry = split_at(args, cond_nconsts, 1)
        return [and_(lt(taken, np.int32(steps)), eval_jaxpr(cond, [*consts, *carry])[0])]

    def step(*args: Any) -> list[Any]:
        consts, (taken,), carry = split_at(args, body_nconsts, 1)
        return [add(taken, 1), *eval_jaxpr(body, [*consts, *carry])]

    avals = [
        [*jaxpr.in_avals[:n], COUNT, *jaxpr.in_avals[n:]]
        for jaxpr, n in ((cond, cond_nconsts), (body, body_nconsts))
    ]
    return {"cond_jaxpr": _traced(goes_on, avals[0]), "body_jaxpr": _traced(step, avals[1])}
