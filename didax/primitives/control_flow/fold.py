"""`Fold`: a computation on the carries of a loop that has run, of which few were saved.

    fold_p(c, s; step):    for i in range(n): s = step(c, s, h[i]);    return s        (`reverse`: from the last)

The carries h[i] that were not saved are computed again, from the nearest that was, and others are saved on
the way where there is room (`saved_carries.py`). A fold is linear where its step is; its transpose is the fold of the
transposed step, the other way. For other derivatives it is the loops that it is made of, run so that they can be
differentiated: by `checkpointed_p`, whose own derivatives are folds, so `checkpointed.py` makes `fold_p`.
Read next: `checkpointed.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core.array_ops import array_ops, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from didax.core.primitive import Primitive
from didax.passes.checkify import Kinds, Report
from didax.primitives.call import check_jaxpr_operands, fill_zeros, jit_p
from didax.primitives.control_flow.common import (
    INT32,
    along_first,
    batch_first,
    carry_types,
    marked,
    nonzero,
    run_compiled,
    split_at,
    traced,
    unmarked,
    with_invars,
)
from didax.primitives.control_flow.counted import COUNT, among_taking, check_count
from didax.primitives.control_flow.saved_carries import read_saved, save_carry
from didax.primitives.control_flow.scan import (
    batch_body,
    dce_body,
    jvp_body,
    live_tangents,
    partial_eval_body,
    transpose_body,
)
from didax.primitives.control_flow.while_loop import run_while, while_of
from didax.primitives.elementwise import add, ge, gt, lt, sub
from didax.primitives.reductions import argmax_p, reduce_max_p
from didax.primitives.select import select_n
from didax.primitives.shape import full
from didax.primitives.slicing import concatenate
from didax.transforms.batching import AxisData
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.transpose import is_undef, strong_cotangents
from didax.xla.lowering import lower_jaxpr_body
from didax.xla.text import FunctionContext, Value

CheckpointedLoop = Callable[..., list[Any]]  # a `Loop` that also takes a number of `checkpoints`


class Fold(Primitive):
    """`fold_p.bind(n, at, level, *saved, *body_consts, *consts, *state, ...)`: the state after a step for each carry.

    `at`, `level` and `saved` are those of a loop of `n` steps of `body_jaxpr`, with its constants. `jaxpr` maps
    `num_consts` constants, the state and a carry to the next state. It meets the carries in order, with `reverse` from
    the last. `loop` runs a while loop that can be differentiated in both modes, by so many `checkpoints`.
    """

    multiple_results = True

    def __init__(self, name: str, loop: CheckpointedLoop):
        super().__init__(name)
        self.loop = loop

    def named_axes(self, params: dict[str, Any]) -> frozenset[str]:
        return params["jaxpr"].axis_names | params["body_jaxpr"].axis_names

    def type(self, *avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        n, _, _, saved, body_consts, consts, state = _parts(avals, params)
        check_count(n)
        rows = [x.update(shape=x.shape[1:]) for x in saved]
        check_jaxpr_operands("the loop of a fold", params["body_jaxpr"], [*body_consts, *rows])
        check_jaxpr_operands("the step of a fold", params["jaxpr"], [*consts, *state, *rows])
        before = params["jaxpr"].in_avals[len(consts) : len(consts) + len(state)]
        return carry_types("a fold", before, params["jaxpr"].out_avals)

    def evaluate(self, *args: Any, **params: Any) -> list[Any]:
        return run_compiled(self, args, "jaxpr", params)

    def lower(self, ctx: FunctionContext, *args: Value, **params: Any) -> list[Value]:
        return lower_jaxpr_body(ctx, self._loops(params, plain=True), args)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        n, at, level, saved, body_consts, consts, state = _parts(primals, params)
        _, _, _, saved_dots, body_dots, const_dots, state_dots = _parts(tangents, params)
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
        loops = self._loops(params, plain=False)
        return jit_p.linearize(primals, tangents, jaxpr=loops)

    def transpose(self, cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        """The fold of the transposed step, the other way."""
        n, at, level, saved, body_consts, consts, state = _parts(args, params)
        linear = tuple(is_undef(x) for x in (*consts, *state))
        start = (*linear, *[False] * len(saved))
        halves = partial_eval_body(params["jaxpr"], len(consts), len(state), start)
        if halves.num_carry:
            loops = self._loops(params, plain=False)
            return jit_p.transpose(cts, *args, jaxpr=loops)
        step, strong = params["jaxpr"], strong_cotangents(cts, params["jaxpr"])
        new = transpose_body(step, len(consts), len(state), halves.unknown_in, nonzero(cts), strong)
        known, lin_avals = unmarked(consts, linear[: len(consts)]), marked(consts, linear[: len(consts)])
        const_bars = [array_ops.zeros(x.aval) for x in marked(lin_avals, new.consts)]
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
            loops = self._loops(params, plain=False)
            return jit_p.batch(axis, args, dims, jaxpr=loops)
        n, at, level, saved, body_consts, consts, state = _parts(args, params)
        n_dim, _, _, saved_dims, body_dims, const_dims, state_dims = _parts(dims, params)
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
        return jit_p.checkify(kinds, *args, jaxpr=self._loops(params, plain=True))

    def run_jaxprs(self, run: Any, *args: Any, **params: Any) -> list[Any]:
        return run(self._loops(params, plain=True), args, "the derivative of while_loop")

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        params = eqn.params
        n, at, level, saved, body_consts, consts, state = _parts(eqn.invars, params)
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

    def _loops(self, params: dict[str, Any], plain: bool) -> Jaxpr:
        rest = {name: value for name, value in params.items() if name != "jaxpr"}
        return _as_loops(params["jaxpr"], **rest, loop=None if plain else self.loop)


def _parts(values: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Number of steps, steps and levels of saved carries, these, constants of loop and step, the state."""
    rows = len(params["body_jaxpr"].outvars)
    head, saved, body_consts, consts, state = split_at(
        values, 3, rows, params["body_nconsts"], params["num_consts"]
    )
    return [*head, saved, body_consts, consts, state]


def _elements(saved: Sequence[Any]) -> list[Any]:
    return [Var(x.aval.update(shape=x.aval.shape[1:])) for x in saved]


# --- Batches --------------------------------------------------------------------------------------


@cached_on_jaxpr
def _masked_body(body: Jaxpr, axis: AxisData, dims: tuple[int | None, ...], num_consts: int) -> Jaxpr:
    """`(counts, consts, i, carry) -> (i + 1, carry)`: the loop of a batch; some of its elements take fewer steps."""

    def step(counts: Any, *args: Any) -> list[Any]:
        consts, (i,), carry = split_at(args, num_consts, 1)
        return [add(i, 1), *eval_jaxpr(body, _entering(lt(i, counts), [*consts, *carry], dims))]

    consts, carry = split_at(body.in_avals, num_consts)
    return traced(step, [COUNT.update(shape=(axis.size,)), *consts, COUNT, *carry])


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
    return traced(masked, [COUNT.update(shape=(axis.size,)), *start, COUNT, *rows])


def _entering(taking: Any, values: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    """The values, with those of an element that takes part at each that does not."""
    size = aval_of(taking).shape[0]
    return [
        x if dim is None or not size else among_taking(taking, x, dim)
        for x, dim in zip(values, dims, strict=True)
    ]


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
    """A program equal to `fold_p`, of while loops: plain ones, or those of `loop`."""
    num_rows = len(body_jaxpr.outvars)
    run_loop = run_while if loop is None else functools.partial(loop, checkpoints=checkpoints)

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
                return [j, *carry, *save_carry(j, carry, at, level, saved, lt(j, i))]

            start = [reduce_max_p.bind(at, axes=(0,)), *(read_saved(x, place) for x in saved)]
            return while_of(run_loop, lambda j, *_: lt(j, i), towards, [*start, at, level, *saved])[1:]

        def backward(i: Any, at: Any, level: Any, *rest: Any) -> list[Any]:
            saved, state = split_at(rest, num_rows)
            carry, places = split_at(reload(i, at, level, saved), num_rows)
            return [sub(i, 1), *places, *eval_jaxpr(jaxpr, [*consts, *state, *carry])]

        if reverse:
            init = [sub(n, 1), at, level, *saved, *state]
            return while_of(run_loop, lambda i, *_: ge(i, 0), backward, init)[3 + num_rows :]
        init = [np.int32(0), *(read_saved(x, np.int32(0)) for x in saved), *state]
        return while_of(run_loop, lambda i, *_: lt(i, n), forward, init)[1 + num_rows :]

    rows = [x.update(shape=(checkpoints + 1, *x.shape)) for x in body_jaxpr.out_avals]
    marks = COUNT.update(shape=(checkpoints,))
    start = jaxpr.in_avals[: num_consts + len(jaxpr.outvars)]
    return traced(run, [COUNT, marks, marks, *rows, *body_jaxpr.in_avals[:body_nconsts], *start])
