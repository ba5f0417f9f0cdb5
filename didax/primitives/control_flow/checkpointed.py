"""`checkpointed_p`: a while loop without a bound that reverse mode differentiates, by a number of saved carries.

    checkpointed_p(p, c, h; k):   n = 0;  while p(h): h = body(c, h); n += 1;   return n, h, and k of the carries

Which carries are saved is decided as the loop goes (`saved_carries.py`): steps are known only when it ends. The linear
half of its linearization is a fold over the carries h[i] (`fold.py`), which computes those that were not saved again:
forward mode is a fold from the first carry, reverse mode one from the last, and each is the transpose of the other.
Second derivatives differentiate the loops that these primitives are made of, which are checkpointed themselves.
Read next: `fold.py`; `segments.py`, faster where the number of steps has a bound.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core.array_ops import instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.jaxpr import Eqn, Jaxpr, eval_jaxpr
from didax.passes.checkify import Kinds, Report
from didax.passes.simplify import dce_jaxpr
from didax.primitives.call import check_jaxpr_operands, fill_zeros, jit_p
from didax.primitives.control_flow.bounded import along_carry, masked_loop, with_unread
from didax.primitives.control_flow.common import (
    INT32,
    Marks,
    batch_first,
    carry_types,
    fixpoint,
    marked,
    merge,
    nonzero,
    run_compiled,
    split_at,
    traced,
    unmarked,
    with_invars,
)
from didax.primitives.control_flow.counted import COUNT
from didax.primitives.control_flow.effects import for_each, go_by_element, silent
from didax.primitives.control_flow.fold import Fold
from didax.primitives.control_flow.saved_carries import first_saved, save_carry
from didax.primitives.control_flow.scan import (
    batch_body,
    jvp_body,
    live_tangents,
)
from didax.primitives.control_flow.while_loop import (
    Unbounded,
    carry_keys,
    check_collectives,
    known_body,
    run_checkified,
    run_while,
    while_of,
)
from didax.primitives.elementwise import add, and_, lt
from didax.primitives.shape import full
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.linearize import linearize_jaxpr
from didax.transforms.partial_eval import Split, partial_eval_jaxpr
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
        check_jaxpr_operands(
            "the condition of a checkpointed loop", params["cond_jaxpr"], [*cond_consts, *carry]
        )
        check_jaxpr_operands("the body of a checkpointed loop", body, [*consts, *carry])
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
        carry = carry_keys(_parts(operands, params), params)
        return [None, *carry, *[None] * ((2 + len(carry)) * params["save"])]

    def checkify(self, kinds: Kinds, *args: Any, **params: Any) -> tuple[list[Any], Report | None]:
        if params["save"]:
            return jit_p.checkify(kinds, *args, jaxpr=_loops(params, plain=True))

        def run(consts: Sequence[Any], carry: Sequence[Any], **jaxprs: Jaxpr) -> list[Any]:
            return self.bind(
                *consts, *carry, **{**params, **jaxprs, "cond_nconsts": 0, "body_nconsts": len(consts)}
            )

        return run_checkified(run, kinds, _parts(args, params), params, num_before=1)

    def run_jaxprs(self, run: Any, *args: Any, **params: Any) -> list[Any]:
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
    return _as_loops(params["body_jaxpr"], **rest, plain=plain)


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
    new = traced(step, [*consts, *dots, *carry])
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


# --- As loops -------------------------------------------------------------------------------------


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
    """A program equal to `checkpointed_p`, of while loops; unless `plain`, checkpointed ones that save nothing."""
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
        loop = run_while if plain else functools.partial(while_checkpointed, checkpoints=checkpoints)
        return while_of(loop, holds, step, init)

    return traced(run, [*cond_jaxpr.in_avals[:cond_nconsts], *jaxpr.in_avals])


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
    return {"cond_jaxpr": traced(goes_on, avals[0]), "body_jaxpr": traced(step, avals[1])}


# It is differentiated by loops that are checkpointed themselves.
fold_p = Fold("fold", while_checkpointed)
