"""`checkpointed_p`: a while loop without a bound that reverse mode differentiates, by a number of saved carries.

    checkpointed_p(p, c, h; k):   n = 0;  while p(h): h = body(c, h); n += 1;   return n, h, and k of the carries

Which carries are saved is decided as the loop goes, since nobody knows the number of steps before it ends
(`saved_carries.py`). The linear half of its linearisation is a replay (`replay.py`), which computes the other carries
again: forward mode is a replay from the first carry, reverse mode one from the last, and each is the transpose of the
other. Second derivatives differentiate the loops that these primitives consist of, which are checkpointed themselves.
Read next: `replay.py`; `segments.py`, which is faster where the number of steps has a bound.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core.avals import ShapedArray, aval_of
from didax.core.jaxpr import Eqn, Jaxpr, eval_jaxpr
from didax.core.jaxpr_check import check_jaxpr_operands
from didax.passes.checkify import Kinds, Report
from didax.passes.simplify import dce_jaxpr
from didax.primitives.call import fill_zeros, jit_p
from didax.primitives.control_flow.agreement import checkpointed_differs, condition_agreed
from didax.primitives.control_flow.batches import batch_carry, batch_first
from didax.primitives.control_flow.bodies import batch_body, batch_dims, jvp_body
from didax.primitives.control_flow.checkified import run_checkified
from didax.primitives.control_flow.common import COUNT, INT32, Unbounded, carry_types, with_invars
from didax.primitives.control_flow.effects import run_by_element, runs_by_element, without_effects
from didax.primitives.control_flow.layout import (
    BodyLayout,
    Mask,
    Pair,
    Values,
    WhileLayout,
    fixpoint,
    instantiated,
    merge,
    nonzero,
    nonzero_only,
    split_at,
    where_false,
    where_true,
)
from didax.primitives.control_flow.masked import check_collectives, masked_bounded
from didax.primitives.control_flow.replay import Replay
from didax.primitives.control_flow.saved_carries import first_saved, save_carry
from didax.primitives.control_flow.varying import fit_while
from didax.primitives.control_flow.while_loop import carry_keys, known_body, while_of, while_p, with_unread
from didax.primitives.elementwise import add, and_, lt
from didax.primitives.filled import full
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.jvp import Forward, jvp_jaxpr
from didax.transforms.linearize import linearize_jaxpr
from didax.transforms.partial_eval import partial_eval_jaxpr
from didax.transforms.rewriting import trace_closed
from didax.transforms.split import Split
from didax.transforms.transpose import is_undef
from didax.xla.lowering import lower_jaxpr_body
from didax.xla.text import FunctionContext, Value

_MOST = np.int32(np.iinfo(np.int32).max)


class Checkpointed(Unbounded):
    """`checkpointed_p.bind(*cond_consts, *body_consts, *carry, ...)`: as `while_p`, with the number of steps first.

    With `save` it also returns the places of `checkpoints` saved carries (`saved_carries.py`): steps, levels, and the
    carries, stacked, with one row more, which has no meaning.
    """

    main = "body_jaxpr"
    differs, agree = checkpointed_differs, condition_agreed

    def run(
        self, params: dict[str, Any], cond: Jaxpr, body: Jaxpr, *parts: Values, save: bool = False
    ) -> list[Any]:
        """A loop with as many checkpoints, on operands in parts: constants of condition and body, the carry."""
        operands, sizes = WhileLayout.join(*parts)
        more: dict[str, Any] = {**sizes, "save": save, "checkpoints": params["checkpoints"]}
        return self.bind(*operands, cond_jaxpr=cond, body_jaxpr=body, **more)

    def bind(self, *args: Any, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, **params: Any) -> list[Any]:
        """As for every primitive, but with jaxprs whose types say along which axes devices take different steps."""
        cond_consts, consts, carry = WhileLayout.of(params).split(args)
        cond, body, consts, carry = fit_while(cond_jaxpr, body_jaxpr, cond_consts, consts, carry)
        return super().bind(*cond_consts, *consts, *carry, cond_jaxpr=cond, body_jaxpr=body, **params)

    def type(self, *avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        cond_consts, consts, carry = WhileLayout.of(params).split(avals)
        body, k = params["body_jaxpr"], params["checkpoints"]
        check_jaxpr_operands(
            "the condition of a checkpointed loop", params["cond_jaxpr"], [*cond_consts, *carry]
        )
        check_jaxpr_operands("the body of a checkpointed loop", body, [*consts, *carry])
        types = carry_types("a checkpointed loop", body.in_avals[len(consts) :], body.out_avals)
        count = COUNT.update(vma=params["cond_jaxpr"].out_avals[0].vma)
        if not params["save"]:
            return [count, *types]
        places = count.update(shape=(k,))
        return [count, *types, places, places, *(x.with_axis(0, k + 1) for x in types)]

    def lower(self, ctx: FunctionContext, *args: Value, **params: Any) -> list[Value]:
        return lower_jaxpr_body(ctx, _loops(params, plain=True), args)

    def jvp(self, primals: Values, tangents: Values, *, forward: Forward = jvp_jaxpr, **params: Any) -> Pair:
        layout, save = WhileLayout.of(params), params["save"]
        cond_consts, consts, carry = layout.split(primals)
        _, const_dots, carry_dots = layout.split(tangents)
        dots = nonzero([*const_dots, *carry_dots])
        new, out = jvp_body(params["body_jaxpr"], BodyLayout.of_while(params), dots, forward)
        carry_dots = instantiated(carry_dots, out)
        cond = with_unread(params["cond_jaxpr"], tuple(aval_of(t) for t in carry_dots))
        parts = cond_consts, [*consts, *nonzero_only(const_dots)], [*carry, *carry_dots]
        outs = self.run(params, cond, new, *parts, save=save)
        n, last, last_dots, places, saved, saved_dots = split_at(
            outs, 1, len(carry), len(carry_dots), 2 * save, len(carry) * save
        )
        outs = [*n, *last, *places, *saved]
        where = (False, *out, *([False, False, *out] if save else []))
        return outs, fill_zeros([*last_dots, *saved_dots], where, [aval_of(y) for y in outs])

    def linearize(self, primals: Values, tangents: Values, **params: Any) -> Pair:
        """The linear half is a replay: it goes through the carries of the loop again. Some carries are saved."""
        if params["save"]:
            return jit_p.linearize(primals, tangents, jaxpr=_loops(params))
        layout = WhileLayout.of(params)
        _, consts, carry = layout.split(primals)
        _, const_dots, carry_dots = layout.split(tangents)
        again = without_effects(params["body_jaxpr"])
        step, out = _tangent_step(again, len(consts), nonzero([*const_dots, *carry_dots]))
        if not any(out):
            outs = self.bind(*primals, **params)
            return outs, fill_zeros([], (False, *out), [aval_of(y) for y in outs])
        outs = self.bind(*primals, **{**params, "save": True})
        n, last, places, saved = split_at(outs, 1, len(carry), 2)
        parts = consts, [*consts, *nonzero_only(const_dots)], instantiated(carry_dots, out)
        dots = replay_p.run(_replay_params(params, again, step), [*n, *places], saved, *parts)
        outs = [*n, *last]
        return outs, fill_zeros(dots, (False, *out), [aval_of(y) for y in outs])

    def transpose(self, cts: Values, *args: Any, **params: Any) -> list[Any]:
        """What is not linear runs now; the rest is a replay of its carries, which is transposed."""
        if params["save"]:
            return jit_p.transpose(cts, *args, jaxpr=_loops(params))
        cond_consts, consts, carry = WhileLayout.of(params).split(args)
        linear = tuple(is_undef(x) for x in consts)
        unread = tuple(is_undef(x) for x in cond_consts)
        start = tuple(is_undef(x) for x in carry)
        new = _linear_parts(params["body_jaxpr"], params["cond_jaxpr"], unread, linear, start)
        known = where_false(consts, linear)
        parts = where_false(cond_consts, unread), known, where_false(carry, new.linear)
        outs = self.run(params, new.cond, new.known, *parts, save=True)
        n, _, saved = split_at(outs, 1, new.linear.count(False))
        replay_params = _replay_params(params, without_effects(new.known), without_effects(new.step))
        cts = where_true(cts[1:], new.linear)
        sizes = {"body_nconsts": len(known), "num_consts": len(consts)}
        operands = *n, *saved, *known, *consts, *where_true(carry, new.linear)
        found = replay_p.transpose(cts, *operands, **replay_params, **sizes)
        _, ct_consts, ct_carry = split_at(found, len(n) + len(saved) + len(known), len(consts))
        ct_carry = merge(new.linear, ct_carry, [None] * new.linear.count(False))
        return [*[None] * len(cond_consts), *ct_consts, *ct_carry]

    def batch(self, axis: AxisData, args: Values, dims: Sequence[int | None], **params: Any) -> Any:
        layout, cond, body = WhileLayout.of(params), params["cond_jaxpr"], params["body_jaxpr"]
        cond_dims, const_dims, carry_dims = map(tuple, layout.split(dims))
        start = tuple(dim is not None for dim in carry_dims)
        new, batched = batch_body(body, axis, const_dims, start)
        new_cond, (by_element,) = batch_jaxpr(cond, axis, (*cond_dims, *batch_dims(batched)))
        if by_element:
            check_collectives(axis, cond, body)
            if runs_by_element(cond, body):
                return run_by_element(self, axis, args, dims, params)
            return self._batch_by_element(axis, args, dims, params)
        cond_consts, consts, carry = layout.split(args)
        carry = batch_carry(axis, carry, carry_dims, batched)
        outs = self.run(params, new_cond, new, cond_consts, consts, carry, save=params["save"])
        along = [[dim if b else None for b in batched] for dim in (0, 1)]
        return outs, [None, *along[0], *([None, None, *along[1]] if params["save"] else [])]

    def _batch_by_element(
        self, axis: AxisData, args: Values, dims: Sequence[int | None], params: dict[str, Any]
    ) -> Any:
        layout, save = WhileLayout.of(params), params["save"]
        cond_dims, const_dims, carry_dims = map(tuple, layout.split(dims))
        cond_consts, consts, carry = layout.split(args)
        carry = [batch_first(axis, x, dim) for x, dim in zip(carry, carry_dims, strict=True)]
        cond, _ = batch_jaxpr(params["cond_jaxpr"], axis, (*cond_dims, *(0,) * len(carry)))
        active = eval_jaxpr(cond, [*cond_consts, *carry])[0]
        masked = masked_bounded(params["body_jaxpr"], cond, axis, const_dims)
        limits, counts = full((axis.size,), _MOST, INT32), full((axis.size,), np.int32(0), INT32)
        parts = [], [limits, *cond_consts, *consts], [active, counts, *carry]
        outs = self.run(params, *masked, *parts, save=save)
        _, (_, counts), last, places, _, saved = split_at(outs, 1, 2, len(carry), 2 * save, 2 * save)
        along = [0] * (1 + len(carry)) + [None] * len(places) + [1] * len(saved)
        return [counts, *last, *places, *saved], along

    def keys(self, line: Any, operands: Values, **params: Any) -> list[Any]:
        carry = carry_keys(operands, params)
        return [None, *carry, *[None] * ((2 + len(carry)) * params["save"])]

    def checkify(self, kinds: Kinds, *args: Any, **params: Any) -> tuple[list[Any], Report | None]:
        if params["save"]:
            return jit_p.checkify(kinds, *args, jaxpr=_loops(params, plain=True))
        loop, parts = functools.partial(self.run, params), WhileLayout.of(params).split(args)
        return run_checkified(loop, kinds, parts, params["cond_jaxpr"], params["body_jaxpr"], num_before=1)

    def run_jaxprs(self, run: Any, *args: Any, **params: Any) -> list[Any]:
        return run(_loops(params, plain=True), args, "while_loop")

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        """The equation without the saved carries, if nobody needs them; otherwise as it is."""
        params = eqn.params
        num_carry = len(params["body_jaxpr"].outvars)
        if not params["save"] or any(used[1 + num_carry :]):
            return eqn
        return eqn.replace(outvars=eqn.outvars[: 1 + num_carry], params={**params, "save": False})


checkpointed_p = Checkpointed("checkpointed_while")


def _replay_params(params: dict[str, Any], body: Jaxpr, step: Jaxpr) -> dict[str, Any]:
    """Parameters of a forward replay of a loop of `body`, except for the sizes of its parts."""
    return {"body_jaxpr": body, "jaxpr": step, "checkpoints": params["checkpoints"], "reverse": False}


# --- Linear steps ---------------------------------------------------------------------------------


@cached_on_jaxpr
def _tangent_step(body: Jaxpr, num_consts: int, nonzero_in: Mask) -> tuple[Jaxpr, Mask]:
    """`(consts, const_dots, carry_dots, carry) -> carry_dots`, and which parts of the carry have a tangent."""
    consts_moving, start = nonzero_in[:num_consts], nonzero_in[num_consts:]

    def split_by(mask: Mask) -> Split[Jaxpr]:
        return linearize_jaxpr(body, (*consts_moving, *mask), mask)

    moving = fixpoint(start, lambda mask: split_by(mask).unknown_out)
    split = split_by(moving)

    def step(*args: Any) -> list[Any]:
        consts, const_dots, carry_dots, carry = split_at(args, num_consts, sum(consts_moving), sum(moving))
        primals = [*consts, *carry]
        residuals = eval_jaxpr(split.known, primals)[len(moving) :]
        return eval_jaxpr(
            split.unknown, [*split.residual_values(primals, residuals), *const_dots, *carry_dots]
        )

    consts, carry = split_at(body.in_avals, num_consts)
    dots = [aval.tangent() for aval in where_true(body.in_avals, (*consts_moving, *moving))]
    new = trace_closed(step, [*consts, *dots, *carry])
    return dce_jaxpr(new, (True,) * len(new.outvars), keep_inputs=True)[0], moving


class _LinearParts(NamedTuple):
    """A loop in two parts: the loop of the values that are not linear, and the step of those that are.

    The step maps `(consts, linear, others) -> linear`. `linear` marks the linear parts of the carry.
    """

    cond: Jaxpr
    known: Jaxpr
    step: Jaxpr
    linear: Mask


@cached_on_jaxpr
def _linear_parts(body: Jaxpr, cond: Jaxpr, cond_consts: Mask, consts: Mask, start: Mask) -> _LinearParts:
    known, linear = known_body(body, consts, start)
    stop = partial_eval_jaxpr(cond, (*cond_consts, *linear))
    assert not stop.unknown_out[0], "the condition of a loop is not linear in its carry"
    step, _ = dce_jaxpr(body, linear, keep_inputs=True)
    constants, carry = split_at(step.invars, len(consts))
    step = with_invars(step, [*constants, *where_true(carry, linear), *where_false(carry, linear)])
    return _LinearParts(stop.known, known, step, linear)


# --- As loops -------------------------------------------------------------------------------------


def _loops(params: dict[str, Any], plain: bool = False) -> Jaxpr:
    """The loop as while loops, which can be differentiated unless `plain`."""
    others = {name: value for name, value in params.items() if name != "body_jaxpr"}
    return _as_loops(params["body_jaxpr"], **others, plain=plain)


@cached_on_jaxpr
def _as_loops(
    jaxpr: Jaxpr,
    *,
    cond_jaxpr: Jaxpr,
    cond_nconsts: int,
    body_nconsts: int,
    checkpoints: int,
    save: bool,
    plain: bool,
) -> Jaxpr:
    """A program equal to `checkpointed_p`, of while loops; unless `plain`, of checkpointed ones that save nothing."""
    num_carry = len(jaxpr.outvars)

    def run(*args: Any) -> list[Any]:
        cond_consts, consts, carry = split_at(args, cond_nconsts, body_nconsts)

        def holds(_: Any, *rest: Any) -> Any:
            return eval_jaxpr(cond_jaxpr, [*cond_consts, *rest[:num_carry]])[0]

        def step(i: Any, *rest: Any) -> list[Any]:
            carry, places = rest[:num_carry], rest[num_carry:]
            places = save_carry(i, carry, places[0], places[1], places[2:]) if save else []
            return [add(i, 1), *eval_jaxpr(jaxpr, [*consts, *carry]), *places]

        init = [np.int32(0), *carry, *(first_saved(carry, checkpoints) if save else [])]
        loop = while_p.run if plain else functools.partial(while_checkpointed, checkpoints=checkpoints)
        return while_of(loop, holds, step, init)

    return trace_closed(run, [*cond_jaxpr.in_avals[:cond_nconsts], *jaxpr.in_avals])


# --- What users call ------------------------------------------------------------------------------


def while_checkpointed(
    cond: Jaxpr,
    body: Jaxpr,
    cond_consts: Values,
    consts: Values,
    carry: Values,
    checkpoints: int,
    steps: int | None = None,
) -> list[Any]:
    """`while_p` by so many checkpoints, that stops after at most `steps` steps."""
    params = {"checkpoints": checkpoints}
    if steps is None:
        return checkpointed_p.run(params, cond, body, cond_consts, consts, carry)[1:]
    cond, body = _with_counter(body, cond, len(cond_consts), len(consts), steps)
    return checkpointed_p.run(params, cond, body, cond_consts, consts, [np.int32(0), *carry])[2:]


@cached_on_jaxpr
def _with_counter(
    body: Jaxpr, cond: Jaxpr, num_cond_consts: int, num_body_consts: int, steps: int
) -> tuple[Jaxpr, Jaxpr]:
    """Condition and body of a loop that first carries how many steps it has taken, and stops after `steps`."""

    def goes_on(*args: Any) -> list[Any]:
        consts, (taken,), carry = split_at(args, num_cond_consts, 1)
        return [and_(lt(taken, np.int32(steps)), eval_jaxpr(cond, [*consts, *carry])[0])]

    def step(*args: Any) -> list[Any]:
        consts, (taken,), carry = split_at(args, num_body_consts, 1)
        return [add(taken, 1), *eval_jaxpr(body, [*consts, *carry])]

    def with_count(jaxpr: Jaxpr, num_consts: int) -> list[ShapedArray]:
        consts, carry = split_at(jaxpr.in_avals, num_consts)
        return [*consts, COUNT, *carry]

    counted = trace_closed(goes_on, with_count(cond, num_cond_consts))
    return counted, trace_closed(step, with_count(body, num_body_consts))


# Derivatives of a replay run its loops as checkpointed ones.
replay_p = Replay("replay", while_checkpointed)
