"""`while_p`: run a body for as long as a condition on what it carries holds.

    while_p(c, b, x; cond, body):    while cond(c, x): x = body(b, x);    return x

The number of steps is known to nobody before the loop has run, so forward mode works and reverse mode, which
has to remember every step, does not: the error of `transpose` names the ways out. Where the
condition differs between the elements of a batch the loop goes on while any of them continues, and those
that are through keep what they have: Note [Elements that are through]. What the body hands on unchanged is a
constant of the loop (`bind`), what nobody needs is not computed (`dce`).
Read next: `scan.py`, the loop of a known number of steps; `didax/lax/loops.py`, what users call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from didax.core import config
from didax.core.array_ops import Zero, array_ops, instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import message
from didax.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from didax.core.primitive import Primitive
from didax.passes.checkify import CHECK, Kinds, Report, Site, checkify_jaxpr, nothing_failed, report_of
from didax.passes.key_reuse import loop_keys, summarise
from didax.passes.simplify import dce_jaxpr, simplify_jaxpr
from didax.primitives.call import check_jaxpr_operands, fill_zeros
from didax.primitives.control_flow.common import (
    Marks,
    along_first,
    batch_first,
    carry_types,
    fixpoint,
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
from didax.primitives.control_flow.effects import for_each, go_by_element, silent
from didax.primitives.control_flow.order import read_before_writing
from didax.primitives.reductions import reduce_or_p
from didax.primitives.select import select_n
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.jvp import jvp_jaxpr
from didax.transforms.partial_eval import partial_eval_jaxpr
from didax.transforms.staging import trace_to_jaxpr
from didax.xla.lowering import lower_jaxpr_body
from didax.xla.text import FunctionContext, Value

_BOOL = np.dtype(bool)


class Unbounded(Primitive):
    """A loop that may not end."""


class While(Unbounded):
    """`while_p.bind(*cond_consts, *body_consts, *carry, ...)`: the carry when `cond_jaxpr` no longer holds.

    `cond_jaxpr` maps its `cond_nconsts` constants and the carry to a bool, `body_jaxpr` its `body_nconsts`
    constants and the carry to the next carry.
    """

    multiple_results = True

    def bind(self, *args: Any, **params: Any) -> list[Any]:
        """As of every primitive, but what the loop does not change is a constant of it, and a result at once."""
        fixed = _unchanged(params["body_jaxpr"], params["body_nconsts"])
        if True not in fixed:
            return super().bind(*args, **params)
        cond_consts, body_consts, carry = _parts(args, params)
        invariant, varying = marked(carry, fixed), unmarked(carry, fixed)
        if not varying and not params["cond_jaxpr"].effects:  # else it is an effect that ends it
            return invariant
        outs = super().bind(
            *cond_consts,
            *invariant,
            *body_consts,
            *invariant,
            *varying,
            cond_jaxpr=_constants_first(params["cond_jaxpr"], params["cond_nconsts"], fixed),
            body_jaxpr=_constants_first(params["body_jaxpr"], params["body_nconsts"], fixed, outputs=True),
            cond_nconsts=len(cond_consts) + len(invariant),
            body_nconsts=len(body_consts) + len(invariant),
        )
        return merge(fixed, invariant, outs)

    def named_axes(self, params: dict[str, Any]) -> frozenset[str]:
        return params["cond_jaxpr"].axis_names | params["body_jaxpr"].axis_names

    def type(self, *avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        cond_jaxpr, body_jaxpr = params["cond_jaxpr"], params["body_jaxpr"]
        cond_consts, body_consts, carry = _parts(avals, params)
        check_jaxpr_operands("the condition of while", cond_jaxpr, [*cond_consts, *carry])
        check_jaxpr_operands("the body of while", body_jaxpr, [*body_consts, *carry])
        (pred,) = cond_jaxpr.out_avals
        if pred.shape != () or pred.dtype != _BOOL:
            raise TypeError(
                message("The condition of while is a bool scalar.", f"condition: {pred}", fix="Reduce it.")
            )
        return carry_types("while", body_jaxpr.in_avals[params["body_nconsts"] :], body_jaxpr.out_avals)

    def evaluate(self, *args: Any, **params: Any) -> list[Any]:
        return run_compiled(self, args, "body_jaxpr", params)

    def lower(self, ctx: FunctionContext, *args: Any, **params: Any) -> list[Value]:
        cond_jaxpr = simplify_jaxpr(params["cond_jaxpr"])
        body_jaxpr = read_before_writing(simplify_jaxpr(params["body_jaxpr"]))
        cond_consts, body_consts, carry = _parts(args, params)
        return lower_loop(
            ctx,
            carry,
            lambda region, xs: lower_jaxpr_body(region, cond_jaxpr, [*cond_consts, *xs])[0],
            lambda region, xs: lower_jaxpr_body(region, body_jaxpr, [*body_consts, *xs]),
        )

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        cond_consts, body_consts, carry = _parts(primals, params)
        _, body_dots, carry_dots = _parts(tangents, params)
        new = _jvp(
            params["body_jaxpr"],
            params["cond_jaxpr"],
            params["body_nconsts"],
            nonzero([*body_dots, *carry_dots]),
        )
        moving = [t for t in body_dots if type(t) is not Zero]
        outs = self.bind(
            *cond_consts,
            *body_consts,
            *moving,
            *carry,
            *map(instantiate, marked(carry_dots, new.carry)),
            cond_jaxpr=new.cond,
            body_jaxpr=new.body,
            cond_nconsts=len(cond_consts),
            body_nconsts=len(body_consts) + len(moving),
        )
        n = len(carry)
        return outs[:n], fill_zeros(outs[n:], new.carry, [aval_of(x) for x in carry])

    def linearize(
        self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        """The linear half is the whole loop in forward mode: it takes the primal steps again."""
        outs = self.bind(*primals, **params)
        if not any(nonzero(tangents[params["cond_nconsts"] :])):
            return outs, [Zero(aval_of(y).tangent()) for y in outs]
        again = {name: silent(value) if name.endswith("jaxpr") else value for name, value in params.items()}
        return outs, self.jvp(primals, tangents, **again)[1]

    def transpose(self, cts: Sequence[Any], *args: Any, **params: Any) -> NoReturn:
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

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        cond_dims, body_dims, carry_dims = _parts(dims, params)
        new = _batch(
            params["body_jaxpr"],
            params["cond_jaxpr"],
            axis,
            tuple(cond_dims),
            tuple(body_dims),
            tuple(dim is not None for dim in carry_dims),
        )
        cond_consts, body_consts, carry = _parts(args, params)
        carry = [
            batch_first(axis, x, dim) if b else x
            for x, dim, b in zip(carry, carry_dims, new.carry, strict=True)
        ]
        if not new.by_element:
            sizes = {"cond_nconsts": len(cond_consts), "body_nconsts": len(body_consts)}
            outs = self.bind(
                *cond_consts, *body_consts, *carry, cond_jaxpr=new.cond, body_jaxpr=new.body, **sizes
            )
            return outs, [0 if b else None for b in new.carry]
        check_collectives(axis, params["cond_jaxpr"], params["body_jaxpr"])
        if go_by_element(params["cond_jaxpr"], params["body_jaxpr"]):
            return for_each(self, axis, args, dims, params)
        return self._batch_by_element(axis, new, cond_consts, cond_dims, body_consts, body_dims, carry)

    def _batch_by_element(
        self,
        axis: AxisData,
        new: _Batched,
        cond_consts: Any,
        cond_dims: Any,
        body_consts: Any,
        body_dims: Any,
        carry: Any,
    ) -> tuple[list[Any], list[int]]:
        consts = [*cond_consts, *body_consts]
        dims = (*cond_dims, *body_dims)
        pred = eval_jaxpr(new.cond, [*cond_consts, *carry])[0]
        cond, body = _masked(new.body, new.cond, axis, dims, len(cond_consts))
        outs = self.bind(
            *consts, pred, *carry, cond_jaxpr=cond, body_jaxpr=body, cond_nconsts=0, body_nconsts=len(consts)
        )
        return outs[1:], [0] * len(carry)

    def partial_eval(self, unknown: Sequence[bool], *args: Any, **params: Any) -> list[Any]:
        """What is known is carried by a loop of its own, run now, if it is known when to stop."""
        cond_unknown, body_unknown, carry_unknown = _parts(unknown, params)
        known = known_body(params["body_jaxpr"], tuple(body_unknown), tuple(carry_unknown))
        (pred_unknown,) = partial_eval_jaxpr(
            params["cond_jaxpr"], (*cond_unknown, *known.carry_unknown)
        ).unknown_out
        effects = params["cond_jaxpr"].effects or params["body_jaxpr"].effects
        if pred_unknown or all(known.carry_unknown) or effects:  # effects are to happen once
            return self.bind(*args, **params)
        cond_consts, body_consts, carry = _parts(args, params)
        now = self.bind(
            *unmarked(cond_consts, cond_unknown),
            *unmarked(body_consts, body_unknown),
            *unmarked(carry, known.carry_unknown),
            cond_jaxpr=partial_eval_jaxpr(params["cond_jaxpr"], (*cond_unknown, *known.carry_unknown)).known,
            body_jaxpr=known.body,
            cond_nconsts=list(cond_unknown).count(False),
            body_nconsts=list(body_unknown).count(False),
        )
        later = self.bind(*args, **params) if any(known.carry_unknown) else carry
        return merge(known.carry_unknown, marked(later, known.carry_unknown), now)

    def keys(self, line: Any, operands: Sequence[Any], **params: Any) -> list[Any]:
        return carry_keys(_parts(operands, params), params)

    def checkify(self, kinds: Kinds, *args: Any, **params: Any) -> tuple[list[Any], Report | None]:
        """A check that fails ends the loop."""

        def run(consts: Sequence[Any], carry: Sequence[Any], **jaxprs: Jaxpr) -> list[Any]:
            return self.bind(*consts, *carry, cond_nconsts=0, body_nconsts=len(consts), **jaxprs)

        return run_checkified(run, kinds, _parts(args, params), params)

    def run_jaxprs(self, run: Any, *args: Any, **params: Any) -> list[Any]:
        cond_consts, body_consts, carry = _parts(args, params)
        step = 0
        while bool(run(params["cond_jaxpr"], [*cond_consts, *carry], f"condition {step} of while_loop")[0]):
            carry = run(params["body_jaxpr"], [*body_consts, *carry], f"step {step} of while_loop")
            step += 1
        return carry

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        params = eqn.params
        new = _dce(
            params["body_jaxpr"],
            params["cond_jaxpr"],
            params["cond_nconsts"],
            params["body_nconsts"],
            tuple(used),
        )
        cond_consts, body_consts, carry = _parts(eqn.invars, params)
        cond_consts, body_consts = marked(cond_consts, new.cond_consts), marked(body_consts, new.body_consts)
        return eqn.replace(
            invars=[*cond_consts, *body_consts, *marked(carry, new.carry)],
            outvars=marked(eqn.outvars, new.carry),
            params={
                "cond_jaxpr": new.cond,
                "body_jaxpr": new.body,
                "cond_nconsts": len(cond_consts),
                "body_nconsts": len(body_consts),
            },
        )


while_p = While("while")


def _parts(values: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The constants of the condition, those of the body, and the carry."""
    return split_at(values, params["cond_nconsts"], params["body_nconsts"])


# --- Running loops --------------------------------------------------------------------------------

# condition, body, constants of each, carry -> carry
Loop = Callable[[Jaxpr, Jaxpr, Sequence[Any], Sequence[Any], Sequence[Any]], list[Any]]


def run_while(
    cond: Jaxpr, body: Jaxpr, cond_consts: Sequence[Any], consts: Sequence[Any], carry: Sequence[Any]
) -> list[Any]:
    """`while_p`, as a `Loop`."""
    sizes = {"cond_nconsts": len(cond_consts), "body_nconsts": len(consts)}
    return while_p.bind(*cond_consts, *consts, *carry, cond_jaxpr=cond, body_jaxpr=body, **sizes)


def while_of(
    loop: Loop, cond: Callable[..., Any], body: Callable[..., list[Any]], init: Sequence[Any]
) -> list[Any]:
    """A loop of functions, which may close over values."""
    avals = [aval_of(x).strip_weak_type() for x in init]
    cond_jaxpr, cond_consts = trace_to_jaxpr(lambda *xs: [cond(*xs)], avals, what="a loop")
    body_jaxpr, consts = trace_to_jaxpr(body, avals, what="a loop")
    return loop(cond_jaxpr, body_jaxpr, cond_consts, consts, init)


# --- What the loop does not change ----------------------------------------------------------------


@cached_on_jaxpr
def _unchanged(body: Jaxpr, num_consts: int) -> Marks:
    """Which parts of the carry the body returns as it received them."""
    return tuple(x is y for x, y in zip(body.invars[num_consts:], body.outvars, strict=True))


def varying_only(
    loop: Loop,
    cond: Jaxpr,
    body: Jaxpr,
    cond_consts: Sequence[Any],
    consts: Sequence[Any],
    carry: Sequence[Any],
) -> list[Any]:
    """What `loop` makes of the parts of the carry that the body changes; the others are constants of it."""
    fixed = _unchanged(body, len(consts))
    if True not in fixed:
        return loop(cond, body, cond_consts, consts, carry)
    invariant, varying = marked(carry, fixed), unmarked(carry, fixed)
    if not varying and not cond.effects:
        return invariant
    cond = _constants_first(cond, len(cond_consts), fixed)
    body = _constants_first(body, len(consts), fixed, outputs=True)
    outs = loop(cond, body, [*cond_consts, *invariant], [*consts, *invariant], varying)
    return merge(fixed, invariant, outs)


@cached_on_jaxpr
def _constants_first(jaxpr: Jaxpr, num_consts: int, fixed: Marks, outputs: bool = False) -> Jaxpr:
    """The jaxpr with the fixed parts of the carry among its constants, and not among its outputs."""
    consts, carry = split_at(jaxpr.invars, num_consts)
    outs = unmarked(jaxpr.outvars, fixed) if outputs else jaxpr.outvars
    return Jaxpr([*consts, *marked(carry, fixed), *unmarked(carry, fixed)], jaxpr.eqns, outs, jaxpr.name)


# --- Forward mode ---------------------------------------------------------------------------------


class _Tangents(NamedTuple):
    """A loop that carries tangents after the primal carry, and which parts of that have one."""

    cond: Jaxpr
    body: Jaxpr
    carry: Marks


@cached_on_jaxpr
def _jvp(body: Jaxpr, cond: Jaxpr, num_consts: int, nonzero_in: Marks) -> _Tangents:
    consts, start = nonzero_in[:num_consts], nonzero_in[num_consts:]
    carry = fixpoint(start, lambda marks: jvp_jaxpr(body, (*consts, *marks), marks)[1])
    new, _ = jvp_jaxpr(body, (*consts, *carry), carry)
    primals, tangents = split_at(new.invars, len(body.invars))
    const_dots, carry_dots = split_at(tangents, sum(consts))
    ordered = [*primals[:num_consts], *const_dots, *primals[num_consts:], *carry_dots]
    return _Tangents(
        with_invars(cond, [*cond.invars, *(Var(v.aval) for v in carry_dots)]),
        with_invars(new, ordered),
        carry,
    )


# --- Batches --------------------------------------------------------------------------------------
# Note [Elements that are through]
# With a batched condition the body runs on the whole batch while any element continues. Elements that are
# through go on in it from where they stopped, and what comes out is not used: they select what they had. A
# body that may not end (it holds a while itself), or that checks its values, sees copies of an element that
# continues in their place: it was never meant for theirs, and might not end, or fail. In a collective over the
# batched axis every element takes part, so a loop that some leave before others cannot hold one.


class _Batched(NamedTuple):
    """A loop over batches: which parts of the carry have a batch axis, and whether elements stop one by one."""

    cond: Jaxpr
    body: Jaxpr
    carry: Marks
    by_element: bool


@cached_on_jaxpr
def _batch(
    body: Jaxpr,
    cond: Jaxpr,
    axis: AxisData,
    cond_dims: tuple[int | None, ...],
    body_dims: tuple[int | None, ...],
    start: Marks,
) -> _Batched:
    def along(consts: Sequence[int | None], carry: Marks) -> tuple[int | None, ...]:
        return (*consts, *(0 if b else None for b in carry))

    carry = fixpoint(start, lambda marks: batch_jaxpr(body, axis, along(body_dims, marks), marks)[1])
    new_cond, (by_element,) = batch_jaxpr(cond, axis, along(cond_dims, carry))
    if by_element:
        carry = (True,) * len(carry)
        new_cond, _ = batch_jaxpr(cond, axis, along(cond_dims, carry))
    return _Batched(new_cond, batch_jaxpr(body, axis, along(body_dims, carry), carry)[0], carry, by_element)


@cached_on_jaxpr
def _masked(
    body: Jaxpr, cond: Jaxpr, axis: AxisData, dims: tuple[int | None, ...], num_cond_consts: int
) -> tuple[Jaxpr, Jaxpr]:
    """Condition and body of a loop that also carries which elements continue. See Note [Elements that are through]."""
    checks = CHECK in body.effects or config.state().error_checking_behavior_oob == "raise"
    guard = axis.size > 0 and (checks or may_not_end(body))

    def step(*args: Any) -> list[Any]:
        consts, (pred,), carry = split_at(args, len(dims), 1)
        cond_consts, body_consts = split_at(consts, num_cond_consts)
        entering = [*body_consts, *carry]
        if guard:
            entering = [
                x
                if dim is None
                else array_ops.move_axis(stand_in(pred, array_ops.move_axis(x, dim, 0)), 0, dim)
                for x, dim in zip(entering, (*dims[num_cond_consts:], *[0] * len(carry)), strict=True)
            ]
        moved = eval_jaxpr(body, entering)
        carry = [select_n(along_first(pred, x), x, y) for x, y in zip(carry, moved, strict=True)]
        still = eval_jaxpr(cond, [*cond_consts, *carry])[0]
        return [still, *carry]

    num_body_consts = len(dims) - num_cond_consts
    const_avals = [*cond.in_avals[:num_cond_consts], *body.in_avals[:num_body_consts]]
    carry_avals = [ShapedArray((axis.size,), _BOOL), *body.in_avals[num_body_consts:]]
    new_cond = traced(lambda pred, *_: [reduce_or_p.bind(pred, axes=(0,))], carry_avals, what="vmap")
    return new_cond, traced(step, [*const_avals, *carry_avals], what="vmap")


def may_not_end(jaxpr: Jaxpr) -> bool:
    """True for a program with a while in it."""
    return any(
        isinstance(eqn.primitive, Unbounded) or any(map(may_not_end, eqn.jaxprs)) for eqn in jaxpr.eqns
    )


def check_collectives(axis: AxisData, *jaxprs: Jaxpr) -> None:
    """ValueError for a collective over the axis in a loop that some of its elements leave before others."""
    if any(axis.name in jaxpr.axis_names for jaxpr in jaxprs):
        raise ValueError(
            message(
                "A loop that some elements of a mapped axis leave before others cannot hold a collective over "
                "that axis.",
                f"axis {axis.name!r} of {axis.size} elements",
                fix=f"Stop by a condition all elements share (lax.pmax(pred, {axis.name!r})), or compute the "
                "collective outside of the loop.",
            )
        )


# --- Keys -----------------------------------------------------------------------------------------


def carry_keys(parts: Sequence[Sequence[Any]], params: dict[str, Any], most_steps: int = 2) -> list[Any]:
    """The random keys that a loop of so many steps carries in the end; those that it uses up are marked."""
    cond, body = summarise(params["cond_jaxpr"]), summarise(params["body_jaxpr"])
    cond_consts, consts, carry = parts

    def step(carry: Sequence[Any]) -> list[Any]:
        cond.apply([*cond_consts, *carry], None)
        return body.apply([*consts, *carry], None)[: len(carry)]

    return loop_keys(step, most_steps, carry)


# --- Checks as data -------------------------------------------------------------------------------


class _Checkified(NamedTuple):
    """A loop that carries whether it goes on, and a report on these checks; `start` gives the first of both."""

    start: Jaxpr
    cond: Jaxpr
    body: Jaxpr
    sites: tuple[Site, ...]


def run_checkified(
    run: Callable[..., list[Any]],
    kinds: Kinds,
    parts: Sequence[Sequence[Any]],
    params: dict[str, Any],
    num_before: int = 0,
) -> tuple[list[Any], Report | None]:
    """Results of a loop with failures as data, and the report; the condition is evaluated in the body, to report.

    `run(consts, carry, cond_jaxpr=, body_jaxpr=)` runs the loop; `num_before` of its results come before the carry.
    """
    cond_consts, consts, carry = parts
    new = _checkify(params["body_jaxpr"], params["cond_jaxpr"], kinds, len(cond_consts), len(consts))
    start = eval_jaxpr(new.start, [*cond_consts, *carry])
    outs = run([*cond_consts, *consts], [*start, *carry], cond_jaxpr=new.cond, body_jaxpr=new.body)
    before, (_, *arrays), rest = split_at(outs, num_before, len(start))
    return [*before, *rest], report_of(arrays, new.sites) if new.sites else None


@cached_on_jaxpr
def _checkify(body: Jaxpr, cond: Jaxpr, kinds: Kinds, cond_nconsts: int, body_nconsts: int) -> _Checkified:
    new_cond, new_body = checkify_jaxpr(cond, kinds), checkify_jaxpr(body, kinds)
    sites = new_body.sites + new_cond.sites

    def proceed(report: Report | None, *args: Any) -> list[Any]:
        """Whether the loop goes on, and the report."""
        (pred,), asked = new_cond.split(eval_jaxpr(new_cond.jaxpr, args))
        if asked is not None:
            report = asked if report is None else report.then(asked)
        if report is None:
            return [pred]
        return [select_n(report.failed, pred, np.bool_(False)), *report.arrays()]

    def begin(*args: Any) -> list[Any]:
        return proceed(nothing_failed(new_body.sites) if new_body.sites else None, *args)

    def step(*args: Any) -> list[Any]:
        cond_consts, body_consts, _, carry = split_at(args, cond_nconsts, body_nconsts, count)
        outs, report = new_body.split(eval_jaxpr(new_body.jaxpr, [*body_consts, *carry]))
        still = proceed(report, *cond_consts, *outs[: len(carry)])
        return [*still, *outs]

    start, _ = trace_to_jaxpr(begin, cond.in_avals, what="checkify")
    count = len(start.outvars)
    carry_avals = [*start.out_avals, *body.in_avals[body_nconsts:]]
    const_avals = [*cond.in_avals[:cond_nconsts], *body.in_avals[:body_nconsts]]
    loop, _ = trace_to_jaxpr(step, [*const_avals, *carry_avals], what="checkify")
    going, _ = trace_to_jaxpr(lambda pred, *_: [pred], carry_avals, what="checkify")
    return _Checkified(start, going, loop, sites)


# --- Partial evaluation and dead parts ------------------------------------------------------------


class _Known(NamedTuple):
    """The body on what is known of constants and carry, and which parts of the carry are not."""

    body: Jaxpr
    carry_unknown: Marks


@cached_on_jaxpr
def known_body(body: Jaxpr, consts_unknown: Marks, start: Marks) -> _Known:
    """What a loop computes of its carry without what is unknown."""
    carry = fixpoint(
        start, lambda marks: partial_eval_jaxpr(body, (*consts_unknown, *marks), marks).unknown_out
    )
    split = partial_eval_jaxpr(body, (*consts_unknown, *carry), carry)
    wanted = (*[True] * carry.count(False), *[False] * split.num_residual_outputs)
    return _Known(dce_jaxpr(split.known, wanted, keep_inputs=True)[0], carry)


class _Needed(NamedTuple):
    """A loop without what nobody needs, and what of the constants and the carry is left."""

    cond: Jaxpr
    body: Jaxpr
    cond_consts: Marks
    body_consts: Marks
    carry: Marks


@cached_on_jaxpr
def _dce(body: Jaxpr, cond: Jaxpr, cond_nconsts: int, body_nconsts: int, used: Marks) -> _Needed:
    small_cond, used_in = dce_jaxpr(cond, (True,))
    cond_consts, read = used_in[:cond_nconsts], used_in[cond_nconsts:]
    carry = fixpoint(union(used, read), lambda marks: dce_jaxpr(body, marks)[1][body_nconsts:])
    small_body, used_in = dce_jaxpr(body, carry)
    body_consts = used_in[:body_nconsts]
    return _Needed(
        with_invars(small_cond, marked(cond.invars, (*cond_consts, *carry))),
        with_invars(small_body, marked(body.invars, (*body_consts, *carry))),
        cond_consts,
        body_consts,
        carry,
    )
