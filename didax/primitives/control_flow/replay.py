"""`Replay`: a computation along the carries of a loop that has run and saved only some of them.

    replay_p(c, s; step):    for i in range(n): s = step(c, s, h[i]);    return s        (`reverse`: from the last)

The carries h[i] that were not saved are computed again, from the nearest saved one before them; others are saved on
the way where there is room (`saved_carries.py`). A replay is linear where its step is, and its transpose is the replay
of the transposed step in the other direction. For other derivatives it is written as the while loops that it consists
of (`_as_loops`). Reverse mode has to run through these loops, too: they are run by `checkpointed_p`, whose derivatives
are replays, so `checkpointed.py` makes `replay_p`.
Read next: `checkpointed.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import array_ops
from didax.core.avals import ShapedArray, aval_of
from didax.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from didax.core.jaxpr_check import check_jaxpr_operands
from didax.passes.checkify import Kinds, Report
from didax.primitives.call import fill_zeros, jit_p, scatter_cotangents
from didax.primitives.control_flow.batches import batch_carry, batch_first
from didax.primitives.control_flow.bodies import batch_body, batch_dims, dce_body, jvp_body
from didax.primitives.control_flow.common import COUNT, INT32, LoopPrimitive, carry_types, with_invars
from didax.primitives.control_flow.counted import check_count
from didax.primitives.control_flow.halves import partial_eval_body
from didax.primitives.control_flow.layout import (
    BodyLayout,
    Layout,
    Pair,
    Values,
    all_false,
    instantiated,
    nonzero,
    nonzero_only,
    split_at,
    where_true,
)
from didax.primitives.control_flow.masked import masked_loop_of_replay, masked_step_of_replay
from didax.primitives.control_flow.saved_carries import read_saved, save_carry
from didax.primitives.control_flow.transposition import transpose_body
from didax.primitives.control_flow.while_loop import while_of, while_p
from didax.primitives.elementwise import add, ge, gt, lt, sub
from didax.primitives.filled import full
from didax.primitives.reductions import argmax_p, reduce_max_p
from didax.primitives.select import select_n
from didax.primitives.slicing import concatenate
from didax.transforms.batching import AxisData
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.jvp import Forward, jvp_jaxpr
from didax.transforms.rewriting import trace_closed
from didax.transforms.transpose import is_undef
from didax.transforms.weak_types import strong_cotangents
from didax.xla.lowering import lower_jaxpr_body
from didax.xla.text import FunctionContext, Value

CheckpointedLoop = Callable[..., list[Any]]  # a `Loop` that also takes a number of `checkpoints`


class ReplayLayout(Layout):
    """Constants of the loop, constants of the step, the state: the operands of a replay after the saved carries."""

    __slots__ = ()
    parameters = ("body_nconsts", "num_consts")


class Replay(LoopPrimitive):
    """`replay_p.bind(n, steps, levels, *saved, *body_consts, *consts, *state, ...)`: the state after a step per carry.

    `steps`, `levels` and `saved` are the saved carries of a loop of `n` steps of `body_jaxpr` (`saved_carries.py`).
    `jaxpr` maps `num_consts` constants, the state and a carry to the next state. It meets the carries in order, with
    `reverse` from the last to the first. Carries that are computed again are saved in as many `checkpoints`.
    """

    def __init__(self, name: str, loop: CheckpointedLoop):
        super().__init__(name)
        self.loop = loop  # runs a while loop so that both modes can differentiate it

    def run(
        self, params: dict[str, Any], head: Values, saved: Values, *parts: Values, **changed: Any
    ) -> list[Any]:
        """A replay with these parameters, some of them `changed`, on operands in parts (`_split`)."""
        operands, sizes = ReplayLayout.join(*parts)
        return self.bind(*head, *saved, *operands, **{**params, **sizes, **changed})

    def type(self, *avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        head, saved, body_consts, consts, state = _split(avals, params)
        step = params["jaxpr"]
        check_count(head[0])
        rows = [x.without_axis() for x in saved]
        check_jaxpr_operands("the loop of a replay", params["body_jaxpr"], [*body_consts, *rows])
        check_jaxpr_operands("the step of a replay", step, [*consts, *state, *rows])
        _, before, _ = _step_layout(params).split(step.in_avals)
        return carry_types("a replay", before, step.out_avals)

    def lower(self, ctx: FunctionContext, *args: Value, **params: Any) -> list[Value]:
        return lower_jaxpr_body(ctx, self._loops(params, plain=True), args)

    def jvp(self, primals: Values, tangents: Values, *, forward: Forward = jvp_jaxpr, **params: Any) -> Pair:
        head, saved, body_consts, consts, state = _split(primals, params)
        _, saved_dots, body_dots, const_dots, state_dots = _split(tangents, params)
        dots = nonzero([*body_dots, *saved_dots])
        body, moving = jvp_body(params["body_jaxpr"], BodyLayout.of_while(params), dots, forward)
        dots = (*nonzero([*const_dots, *state_dots]), *moving)
        step, out = jvp_body(params["jaxpr"], _step_layout(params), dots, forward)
        outs = self.run(
            params,
            head,
            [*saved, *instantiated(saved_dots, moving)],
            [*body_consts, *nonzero_only(body_dots)],
            [*consts, *nonzero_only(const_dots)],
            [*state, *instantiated(state_dots, out)],
            body_jaxpr=body,
            jaxpr=step,
        )
        last, last_dots = split_at(outs, len(state))
        return last, fill_zeros(last_dots, out, [aval_of(y) for y in last])

    def linearize(self, primals: Values, tangents: Values, **params: Any) -> Pair:
        return jit_p.linearize(primals, tangents, jaxpr=self._loops(params))

    def transpose(self, cts: Values, *args: Any, **params: Any) -> list[Any]:
        """The replay of the transposed step, in the other direction."""
        head, saved, body_consts, consts, state = _split(args, params)
        step, layout = params["jaxpr"], _step_layout(params)
        linear = tuple(is_undef(x) for x in (*consts, *state))
        halves = partial_eval_body(step, layout, (*linear, *all_false(len(saved))))
        if halves.layout.num_carry:  # a part of the state is not linear
            return jit_p.transpose(cts, *args, jaxpr=self._loops(params))
        new = transpose_body(step, layout, halves.unknown_in, nonzero(cts), strong_cotangents(cts, step))
        (known, _, _), (linear_consts, _, _) = layout.split_by(
            (*linear, *all_false(len(saved))), [*consts, *state, *saved]
        )
        start = [array_ops.zeros(x.aval) for x in where_true(linear_consts, new.consts)]
        start += instantiated(cts, new.carry)
        parts = head, saved, body_consts, known, start
        outs = self.run(params, *parts, jaxpr=new.jaxpr, reverse=not params["reverse"])
        found = scatter_cotangents(outs, (*new.consts, *new.carry), halves.unknown_in[: len(linear)])
        found = [ct if lin else None for ct, lin in zip(found, linear, strict=True)]
        return [*[None] * (len(args) - len(found)), *found]

    def batch(self, axis: AxisData, args: Values, dims: Sequence[int | None], **params: Any) -> Any:
        if dims[1] is not None or dims[2] is not None:  # each element has saved other steps
            return jit_p.batch(axis, args, dims, jaxpr=self._loops(params))
        (n, steps, levels), saved, body_consts, consts, state = _split(args, params)
        (n_dim, _, _), saved_dims, body_dims, const_dims, state_dims = map(tuple, _split(dims, params))
        by_element = n_dim is not None
        start = tuple(by_element or dim is not None for dim in saved_dims)
        body, moving = batch_body(params["body_jaxpr"], axis, body_dims, start)
        row_dims = batch_dims(moving)
        start = tuple(by_element or dim is not None for dim in state_dims)
        step, out = batch_body(params["jaxpr"], axis, const_dims, start, row_dims)
        saved = [
            _batch_second(axis, x, dim) if b else x
            for x, dim, b in zip(saved, saved_dims, moving, strict=True)
        ]
        state = batch_carry(axis, state, state_dims, out)
        out_dims = batch_dims(out)
        if not by_element:
            parts = [n, steps, levels], saved, body_consts, consts, state
            return self.run(params, *parts, body_jaxpr=body, jaxpr=step), list(out_dims)
        counts = batch_first(axis, n, n_dim)
        outs = self.run(
            params,
            [reduce_max_p.bind(counts, axes=(0,)) if axis.size != 0 else np.int32(0), steps, levels],
            [concatenate([steps, full((1,), np.int32(-1), INT32)], 0), *saved],
            [counts, *body_consts],
            [counts, *consts],
            state,
            body_jaxpr=masked_loop_of_replay(body, axis, (*body_dims, *row_dims), len(body_consts)),
            jaxpr=masked_step_of_replay(step, axis, (*const_dims, *out_dims, *row_dims), len(consts)),
        )
        return outs, list(out_dims)

    def keys(self, line: Any, operands: Values, **params: Any) -> list[Any]:
        """Keys of carries that are computed again were used by the loop that computed them first."""
        return [None] * len(params["jaxpr"].outvars)

    def checkify(self, kinds: Kinds, *args: Any, **params: Any) -> tuple[list[Any], Report | None]:
        return jit_p.checkify(kinds, *args, jaxpr=self._loops(params, plain=True))

    def run_jaxprs(self, run: Any, *args: Any, **params: Any) -> list[Any]:
        return run(self._loops(params, plain=True), args, "the derivative of while_loop")

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        params = eqn.params
        head, saved, body_consts, consts, state = _split(eqn.invars, params)
        step_layout, loop_layout = _step_layout(params), BodyLayout.of_while(params)
        step, used_in, used_out = dce_body(params["jaxpr"], step_layout, tuple(used))
        consts_used, state_used, read = step_layout.split(used_in)
        body, used_in, kept = dce_body(params["body_jaxpr"], loop_layout, read)
        body_consts_used, _, _ = loop_layout.split(used_in)
        # The step is given the whole carry of the loop. So it also takes the parts that only the loop needs, to
        # compute the parts that the step reads.
        before, rows = split_at(step.invars, sum(consts_used) + sum(state_used))
        given = iter(rows)
        wide = [next(given) if r else Var(x.aval.without_axis()) for x, r in zip(saved, read, strict=True)]
        parts = (
            where_true(body_consts, body_consts_used),
            where_true(consts, consts_used),
            where_true(state, state_used),
        )
        operands, sizes = ReplayLayout.join(*parts)
        jaxprs = {"body_jaxpr": body, "jaxpr": with_invars(step, [*before, *where_true(wide, kept)])}
        return eqn.replace(
            invars=[*head, *where_true(saved, kept), *operands],
            outvars=where_true(eqn.outvars, used_out),
            params={**params, **jaxprs, **sizes},
        )

    def _loops(self, params: dict[str, Any], plain: bool = False) -> Jaxpr:
        """The replay as while loops, which can be differentiated unless `plain`."""
        others = {name: value for name, value in params.items() if name != "jaxpr"}
        return _as_loops(params["jaxpr"], **others, loop=None if plain else self.loop)


def _split(values: Values, params: dict[str, Any]) -> list[Any]:
    """Number of steps, steps and levels of saved carries; these carries; constants of loop and step; the state."""
    head, saved, others = split_at(values, 3, len(params["body_jaxpr"].outvars))
    return [head, saved, *ReplayLayout.of(params).split(others)]


def _step_layout(params: dict[str, Any]) -> BodyLayout:
    """The layout of the step, whose carry is the state, and whose rows are the carry of the loop."""
    return BodyLayout((params["num_consts"], len(params["jaxpr"].outvars)))


def _batch_second(axis: AxisData, x: Any, dim: int | None) -> Any:
    return array_ops.broadcast_axis(x, axis.size, 1) if dim is None else array_ops.move_axis(x, dim, 1)


# --- As loops -------------------------------------------------------------------------------------


@cached_on_jaxpr
def _as_loops(
    jaxpr: Jaxpr,
    *,
    body_jaxpr: Jaxpr,
    body_nconsts: int,
    num_consts: int,
    checkpoints: int,
    reverse: bool,
    loop: CheckpointedLoop | None,
) -> Jaxpr:
    """A program equal to `replay_p`, of while loops; `loop` runs them, or None for plain ones."""
    num_rows = len(body_jaxpr.outvars)
    run_loop = while_p.run if loop is None else functools.partial(loop, checkpoints=checkpoints)

    def run(n: Any, steps: Any, levels: Any, *args: Any) -> list[Any]:
        saved, body_consts, consts, state = split_at(args, num_rows, body_nconsts, num_consts)

        def advance(carry: Values) -> list[Any]:
            return eval_jaxpr(body_jaxpr, [*body_consts, *carry])

        def forward(i: Any, *rest: Any) -> list[Any]:
            carry, state = split_at(rest, num_rows)
            return [add(i, 1), *advance(carry), *eval_jaxpr(jaxpr, [*consts, *state, *carry])]

        def reload(i: Any, steps: Any, levels: Any, saved: Values) -> list[Any]:
            """The carry before step `i`, and what is saved after it was computed."""
            steps = select_n(gt(steps, i), steps, full((checkpoints,), np.int32(-1), INT32))
            place = argmax_p.bind(steps, axes=(0,), index_dtype=INT32)

            def towards(j: Any, *rest: Any) -> list[Any]:
                carry, (steps, levels), saved = split_at(rest, num_rows, 2)
                carry = advance(carry)
                j = add(j, 1)
                return [j, *carry, *save_carry(j, carry, steps, levels, saved, lt(j, i))]

            start = [reduce_max_p.bind(steps, axes=(0,)), *(read_saved(x, place) for x in saved)]
            return while_of(run_loop, lambda j, *_: lt(j, i), towards, [*start, steps, levels, *saved])[1:]

        def backward(i: Any, steps: Any, levels: Any, *rest: Any) -> list[Any]:
            saved, state = split_at(rest, num_rows)
            carry, places = split_at(reload(i, steps, levels, saved), num_rows)
            return [sub(i, 1), *places, *eval_jaxpr(jaxpr, [*consts, *state, *carry])]

        if reverse:
            init = [sub(n, 1), steps, levels, *saved, *state]
            return while_of(run_loop, lambda i, *_: ge(i, 0), backward, init)[3 + num_rows :]
        init = [np.int32(0), *(read_saved(x, np.int32(0)) for x in saved), *state]
        return while_of(run_loop, lambda i, *_: lt(i, n), forward, init)[1 + num_rows :]

    rows = [x.with_axis(0, checkpoints + 1) for x in body_jaxpr.out_avals]
    places = COUNT.update(shape=(checkpoints,))
    start = jaxpr.in_avals[: num_consts + len(jaxpr.outvars)]
    return trace_closed(run, [COUNT, places, places, *rows, *body_jaxpr.in_avals[:body_nconsts], *start])
