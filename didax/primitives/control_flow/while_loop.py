"""`while_p`: run a body for as long as a condition on what it carries holds.

    while_p(c, b, x; cond, body):    while cond(c, x): x = body(b, x);    return x

Forward mode carries tangents beside the primals. Reverse mode has to remember every step, and nobody knows their
number before the loop has run: the error of `transpose` names the ways out. Where the condition differs between the
elements of a batch, the loop goes on while any of them continues (`masked.py`).
Read next: `scan.py`, the loop of a known number of steps; `bounded.py` and `checkpointed.py`, while loops that reverse
mode differentiates; `didax/lax/loops.py`, what users call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from didax.core.jaxpr_check import check_jaxpr_operands
from didax.passes.checkify import Kinds, Report
from didax.passes.key_reuse import loop_keys, summarise
from didax.passes.simplify import dce_jaxpr, simplify_jaxpr
from didax.passes.sparsity import Dependence, dependence, settled
from didax.primitives.call import fill_zeros
from didax.primitives.control_flow import padded
from didax.primitives.control_flow.agreement import condition_agreed, while_differs
from didax.primitives.control_flow.batches import batch_carry
from didax.primitives.control_flow.bodies import batch_dims, jvp_body
from didax.primitives.control_flow.checkified import run_checkified
from didax.primitives.control_flow.common import BOOL, Unbounded, carry_types, with_invars
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
    union,
    where_false,
    where_true,
)
from didax.primitives.control_flow.lowering import lower_loop
from didax.primitives.control_flow.masked import (
    check_collectives,
    costs_little,
    masked_while,
    masked_while_anew,
)
from didax.primitives.control_flow.order import read_before_writing
from didax.primitives.control_flow.unchanged import Loop, loop_over_changed
from didax.primitives.control_flow.varying import fit_while
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.jvp import Forward, jvp_jaxpr
from didax.transforms.partial_eval import partial_eval_jaxpr
from didax.transforms.staging import trace_to_jaxpr
from didax.xla.lowering import lower_jaxpr_body
from didax.xla.text import FunctionContext, Value


class While(Unbounded):
    """`while_p.bind(*cond_consts, *body_consts, *carry, ...)`: the carry when `cond_jaxpr` no longer holds.

    `cond_jaxpr` maps its `cond_nconsts` constants and the carry to a bool, `body_jaxpr` its `body_nconsts`
    constants and the carry to the next carry.
    """

    main = "body_jaxpr"
    holes = {"transpose": "it would save every step of an unknown number; see max_steps= and checkpoints="}
    padded = padded.while_loop
    differs, agree = while_differs, condition_agreed

    def bind(self, *args: Any, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, **sizes: int) -> list[Any]:
        """As for every primitive, except that what the body hands on unchanged becomes a result at once."""
        return self.run(cond_jaxpr, body_jaxpr, *WhileLayout.of(sizes).split(args))

    def run(self, cond: Jaxpr, body: Jaxpr, cond_consts: Values, consts: Values, carry: Values) -> list[Any]:
        """The loop, on operands in parts."""
        return loop_over_changed(self._apply, cond, body, cond_consts, consts, carry)

    def _apply(
        self, cond: Jaxpr, body: Jaxpr, cond_consts: Values, consts: Values, carry: Values
    ) -> list[Any]:
        cond, body, consts, carry = fit_while(cond, body, cond_consts, consts, carry)
        operands, sizes = WhileLayout.join(cond_consts, consts, carry)
        return super().bind(*operands, cond_jaxpr=cond, body_jaxpr=body, **sizes)

    def type(self, *avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        cond_jaxpr, body_jaxpr = params["cond_jaxpr"], params["body_jaxpr"]
        cond_consts, body_consts, carry = WhileLayout.of(params).split(avals)
        check_jaxpr_operands("the condition of while", cond_jaxpr, [*cond_consts, *carry])
        check_jaxpr_operands("the body of while", body_jaxpr, [*body_consts, *carry])
        (pred,) = cond_jaxpr.out_avals
        if pred.shape != () or pred.dtype != BOOL:
            raise TypeError(
                message("The condition of while is a bool scalar.", f"condition: {pred}", fix="Reduce it.")
            )
        return carry_types("while", body_jaxpr.in_avals[len(body_consts) :], body_jaxpr.out_avals)

    def lower(self, ctx: FunctionContext, *args: Any, **params: Any) -> list[Value]:
        cond_jaxpr = simplify_jaxpr(params["cond_jaxpr"])
        body_jaxpr = read_before_writing(simplify_jaxpr(params["body_jaxpr"]))
        cond_consts, body_consts, carry = WhileLayout.of(params).split(args)
        return lower_loop(
            ctx,
            carry,
            lambda region, xs: lower_jaxpr_body(region, cond_jaxpr, [*cond_consts, *xs])[0],
            lambda region, xs: lower_jaxpr_body(region, body_jaxpr, [*body_consts, *xs]),
        )

    def sparsity(self, operands: Sequence[Dependence], **params: Any) -> list[Dependence]:
        _, consts, carry = WhileLayout.of(params).split(operands)
        return settled(lambda carry: dependence(params["body_jaxpr"], [*consts, *carry]), carry)

    def jvp(self, primals: Values, tangents: Values, *, forward: Forward = jvp_jaxpr, **params: Any) -> Pair:
        layout = WhileLayout.of(params)
        cond_consts, consts, carry = layout.split(primals)
        _, const_dots, carry_dots = layout.split(tangents)
        body_layout = BodyLayout((len(consts), len(carry)))
        new, out = jvp_body(params["body_jaxpr"], body_layout, nonzero([*const_dots, *carry_dots]), forward)
        carry_dots = instantiated(carry_dots, out)
        cond = with_unread(params["cond_jaxpr"], tuple(aval_of(t) for t in carry_dots))
        consts = [*consts, *nonzero_only(const_dots)]
        outs = self.run(cond, new, cond_consts, consts, [*carry, *carry_dots])
        n = len(carry)
        return outs[:n], fill_zeros(outs[n:], out, [aval_of(x) for x in carry])

    def linearize(self, primals: Values, tangents: Values, **params: Any) -> Pair:
        """The linear half is the whole loop in forward mode: it takes the primal steps again.

        Arrays without elements have no tangents, so reverse mode need not remember the steps that they take.
        """
        outs = self.bind(*primals, **params)
        tangents = [Zero(t) if 0 in (t := aval_of(x_dot)).shape else x_dot for x_dot in tangents]
        still = all(0 in y.shape or y.tangent() is not y for y in map(aval_of, outs))
        if still or not any(nonzero(tangents[params["cond_nconsts"] :])):
            return outs, [Zero(aval_of(y).tangent()) for y in outs]
        again = {name: without_effects(params[name]) for name in ("cond_jaxpr", "body_jaxpr")}
        return outs, self.jvp(primals, tangents, **{**params, **again})[1]

    def transpose(self, cts: Values, *args: Any, **params: Any) -> NoReturn:
        raise ValueError(
            message(
                "Reverse mode does not run through a while_loop: it would have to remember every step, and "
                "their number is not known before the loop has run.",
                f"it carries: {', '.join(map(str, params['body_jaxpr'].out_avals))}",
                fix="Bound it with while_loop(..., max_steps=N) or limit what is saved with checkpoints=k (of "
                "fori_loop too); or use scan, fori_loop with bounds that are Python integers, or forward mode (jvp, "
                "jacfwd); stop_gradient keeps a loop out of the derivative.",
            )
        )

    def batch(self, axis: AxisData, args: Values, dims: Sequence[int | None], **params: Any) -> Any:
        layout, cond, body = WhileLayout.of(params), params["cond_jaxpr"], params["body_jaxpr"]
        cond_dims, const_dims, carry_dims = map(tuple, layout.split(dims))
        start = tuple(dim is not None for dim in carry_dims)
        new = _batch(body, cond, axis, cond_dims, const_dims, start)
        cond_consts, consts, carry = layout.split(args)
        carry = batch_carry(axis, carry, carry_dims, new.carry)
        if not new.by_element:
            return self.run(new.cond, new.body, cond_consts, consts, carry), list(batch_dims(new.carry))
        check_collectives(axis, cond, body)
        if runs_by_element(cond, body):
            return run_by_element(self, axis, args, dims, params)
        if costs_little(new.cond):
            again, step = masked_while_anew(new.body, new.cond, const_dims)
            outs = self.run(again, step, cond_consts, [*cond_consts, *consts], carry)
            return outs, [0] * len(carry)
        active = eval_jaxpr(new.cond, [*cond_consts, *carry])[0]
        masked = masked_while(new.body, new.cond, axis, const_dims)
        outs = self.run(*masked, [], [*cond_consts, *consts], [active, *carry])
        return outs[1:], [0] * len(carry)

    def partial_eval(self, unknown: Sequence[bool], *args: Any, **params: Any) -> list[Any]:
        """What is known is carried by a loop of its own, which runs now, if it is known when to stop."""
        layout, cond, body = WhileLayout.of(params), params["cond_jaxpr"], params["body_jaxpr"]
        cond_unknown, consts_unknown, carry_unknown = layout.split(tuple(unknown))
        known, carry_unknown = known_body(body, consts_unknown, carry_unknown)
        stop = partial_eval_jaxpr(cond, (*cond_unknown, *carry_unknown))
        has_effects = cond.effects or body.effects  # an effect must happen once, not in both loops
        if stop.unknown_out[0] or all(carry_unknown) or has_effects:
            return self.bind(*args, **params)
        cond_consts, consts, carry = layout.split(args)
        now = self.run(
            stop.known,
            known,
            where_false(cond_consts, cond_unknown),
            where_false(consts, consts_unknown),
            where_false(carry, carry_unknown),
        )
        later = self.bind(*args, **params) if any(carry_unknown) else carry
        return merge(carry_unknown, where_true(later, carry_unknown), now)

    def keys(self, line: Any, operands: Values, **params: Any) -> list[Any]:
        return carry_keys(operands, params)

    def checkify(self, kinds: Kinds, *args: Any, **params: Any) -> tuple[list[Any], Report | None]:
        """A check that fails ends the loop."""
        parts = WhileLayout.of(params).split(args)
        return run_checkified(self.run, kinds, parts, params["cond_jaxpr"], params["body_jaxpr"])

    def run_jaxprs(self, run: Any, *args: Any, **params: Any) -> list[Any]:
        cond_consts, body_consts, carry = WhileLayout.of(params).split(args)
        step = 0
        while bool(run(params["cond_jaxpr"], [*cond_consts, *carry], f"condition {step} of while_loop")[0]):
            carry = run(params["body_jaxpr"], [*body_consts, *carry], f"step {step} of while_loop")
            step += 1
        return carry

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        layout = WhileLayout.of(eqn.params)
        new = _dce(eqn.params["body_jaxpr"], eqn.params["cond_jaxpr"], layout, tuple(used))
        kept = (*new.cond_consts, *new.body_consts, *new.carry)
        invars, sizes = WhileLayout.join(*layout.split_by(kept, eqn.invars)[1])
        params = {**eqn.params, **sizes, "cond_jaxpr": new.cond, "body_jaxpr": new.body}
        return eqn.replace(invars=invars, outvars=where_true(eqn.outvars, new.carry), params=params)


while_p = While("while")


def while_of(loop: Loop, cond: Callable[..., Any], body: Callable[..., list[Any]], init: Values) -> list[Any]:
    """The loop of two functions, which may close over arrays; `loop` runs it."""
    avals = [aval_of(x).strip_weak_type() for x in init]
    cond_jaxpr, cond_consts = trace_to_jaxpr(lambda *xs: [cond(*xs)], avals, what="a loop")
    body_jaxpr, consts = trace_to_jaxpr(body, avals, what="a loop")
    return loop(cond_jaxpr, body_jaxpr, cond_consts, consts, init)


@cached_on_jaxpr
def with_unread(cond: Jaxpr, avals: tuple[ShapedArray, ...]) -> Jaxpr:
    """The condition of a loop that also carries values of these types, which the condition does not read."""
    return with_invars(cond, [*cond.invars, *map(Var, avals)])


# --- Batches --------------------------------------------------------------------------------------


class _Batched(NamedTuple):
    """A loop over batches: which parts of the carry have a batch axis, and whether elements stop one by one."""

    cond: Jaxpr
    body: Jaxpr
    carry: Mask
    by_element: bool


@cached_on_jaxpr
def _batch(
    body: Jaxpr,
    cond: Jaxpr,
    axis: AxisData,
    cond_dims: tuple[int | None, ...],
    const_dims: tuple[int | None, ...],
    start: Mask,
) -> _Batched:
    def step(carry: Mask) -> tuple[Jaxpr, Mask]:
        return batch_jaxpr(body, axis, (*const_dims, *batch_dims(carry)), carry)

    carry = fixpoint(start, lambda mask: step(mask)[1])
    new_cond, (by_element,) = batch_jaxpr(cond, axis, (*cond_dims, *batch_dims(carry)))
    if by_element:
        carry = (True,) * len(carry)
        new_cond, _ = batch_jaxpr(cond, axis, (*cond_dims, *batch_dims(carry)))
    return _Batched(new_cond, step(carry)[0], carry, by_element)


# --- Keys -----------------------------------------------------------------------------------------


def carry_keys(operands: Values, params: dict[str, Any], most_steps: int = 2) -> list[Any]:
    """The random keys that a loop of so many steps carries in the end; keys that it uses up are marked."""
    cond, body = summarise(params["cond_jaxpr"]), summarise(params["body_jaxpr"])
    cond_consts, consts, carry = WhileLayout.of(params).split(operands)

    def step(carry: Values) -> list[Any]:
        cond.apply([*cond_consts, *carry], None)
        return body.apply([*consts, *carry], None)[: len(carry)]

    return loop_keys(step, most_steps, carry)


# --- Known and needed parts -----------------------------------------------------------------------


@cached_on_jaxpr
def known_body(body: Jaxpr, consts_unknown: Mask, start: Mask) -> tuple[Jaxpr, Mask]:
    """The body on the known constants and the known carry, and which parts of the carry are unknown."""
    carry = fixpoint(start, lambda mask: partial_eval_jaxpr(body, (*consts_unknown, *mask), mask).unknown_out)
    split = partial_eval_jaxpr(body, (*consts_unknown, *carry), carry)
    wanted = (*[True] * carry.count(False), *[False] * split.num_residual_outputs)
    return dce_jaxpr(split.known, wanted, keep_inputs=True)[0], carry


class _Needed(NamedTuple):
    """A loop without what no used result depends on, and which constants and parts of the carry are left."""

    cond: Jaxpr
    body: Jaxpr
    cond_consts: Mask
    body_consts: Mask
    carry: Mask


@cached_on_jaxpr
def _dce(body: Jaxpr, cond: Jaxpr, layout: WhileLayout, used: Mask) -> _Needed:
    num_cond_consts, num_body_consts = layout
    small_cond, used_in = dce_jaxpr(cond, (True,))
    cond_consts, read = used_in[:num_cond_consts], used_in[num_cond_consts:]
    carry = fixpoint(union(used, read), lambda mask: dce_jaxpr(body, mask)[1][num_body_consts:])
    small_body, used_in = dce_jaxpr(body, carry)
    body_consts = used_in[:num_body_consts]
    return _Needed(
        with_invars(small_cond, where_true(cond.invars, (*cond_consts, *carry))),
        with_invars(small_body, where_true(body.invars, (*body_consts, *carry))),
        cond_consts,
        body_consts,
        carry,
    )
