"""Calls of functions with rules of their own: `python_call_p` where Python runs, `rules_call_p` in programs.

A call of such a function binds `python_call_p`, which holds Python functions and no program. Interpreters that have
values run these Python functions: eager evaluation runs the function, differentiation runs its rule, and vmap binds
the primitive again, with the function and its rules over a batch. So Python control flow works in functions and rules,
and a debugger stops inside them. A trace that writes programs stages the function, and writes a `rules_call_p` that
holds its jaxpr and the same rules.

A rule that is missing is derived: forward mode from a vjp (the transpose of its backward rule), reverse mode from a
jvp.
Read next: `didax/api/custom.py`, what users call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import Any

from didax.core import dtypes
from didax.core.array_ops import Zero
from didax.core.avals import aval_of
from didax.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from didax.core.primitive import Primitive, Trace
from didax.core.tracing import current_trace, set_current_trace
from didax.passes.checkify import Kinds, Report, checkify_jaxpr
from didax.passes.simplify import dce_jaxpr
from didax.passes.sparsity import Dependence, dependence
from didax.primitives import padded
from didax.primitives.call import Call, jit_p, scatter_cotangents
from didax.primitives.convert import stop_gradient_p
from didax.primitives.custom.derived import Pushed, Transposed
from didax.primitives.custom.forward_pass import run_forward
from didax.primitives.custom.linear_map import LinearMap, linear_map_p
from didax.primitives.custom.rules import (
    BatchedRules,
    EnclosedRules,
    Rules,
    SelectedRules,
    StagedRules,
    by_vmap_rule,
    held_in_scope,
    with_held,
)
from didax.transforms.batching import AxisData, batch_jaxpr
from didax.transforms.closure import ClosureTrace
from didax.transforms.jvp import jvp_jaxpr
from didax.transforms.partial_eval import PartialEvalTrace
from didax.transforms.rewriting import trace_closed
from didax.transforms.staging import trace_to_jaxpr
from didax.transforms.transpose import is_undef


class _AnyAxes(frozenset[str]):
    """Names of mapped axes that Python code may refer to: all of them."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return True


_ANY_AXES = _AnyAxes()


class _CallWithRules(Primitive):
    """The derivatives of a call, by the first rule that the function has, in the order that suits the mode."""

    multiple_results = True

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, rules: Rules, **params: Any
    ) -> tuple[list[Any], list[Any]]:
        rule = _first(("jvp", "linearize", "transpose", "vjp"), rules)
        return _DERIVATIVES[rule](rules, primals, tangents)

    def linearize(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, rules: Rules, **params: Any
    ) -> tuple[list[Any], list[Any]]:
        rule = _first(("linearize", "vjp", "jvp", "transpose"), rules)
        with _transposable(f"{rules.given[rule]} of {rules.name}" if rule in ("jvp", "linearize") else ""):
            return _DERIVATIVES[rule](rules, primals, tangents)


Derivative = Callable[[Rules, Sequence[Any], Sequence[Any]], tuple[list[Any], list[Any]]]


def _first(order: Sequence[str], rules: Rules) -> str:
    """The first of these rules that the function has."""
    return next((rule for rule in order if rule in rules.given), "vmap")


@contextmanager
def _transposable(rule: str) -> Iterator[None]:
    """What the rule writes on the tape of linear steps is marked as its own, for the errors of its transposition.

    A rule may push primals and tangents through one call (`jvp` of a jitted function); the tape takes such calls apart,
    so that what is computed of primals alone is known when the tape is transposed.
    """
    tape = current_trace()
    assert isinstance(tape, PartialEvalTrace)
    outer, tape.rule, split, tape.split = tape.rule, rule, tape.split, True
    try:
        yield
    finally:
        tape.rule, tape.split = outer, split


def _by_jvp(rules: Rules, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    return rules.jvp(primals, tangents)


def _by_linearize(
    rules: Rules, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    outs, apply = rules.linearize(primals)
    return outs, apply(tangents)


def _by_vjp(rules: Rules, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """A linear step that keeps the residuals, with the backward rule as its transpose."""
    perturbed = tuple([type(t) is not Zero for t in tangents])
    outs, residuals, backward = run_forward(rules, primals, perturbed)
    held = held_in_scope(rules, current_trace())
    avals = [aval_of(y).tangent() for y in outs]
    moves = [a is aval_of(y) for a, y in zip(avals, outs, strict=True)]
    n, r = len(held), len(held) + len(residuals)

    def transpose(res: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        given = iter(cts)
        every = [next(given) if move else Zero(a) for a, move in zip(avals, moves, strict=True)]
        return list(compress(with_held(held, res, backward, res[n:r], every), perturbed))

    fixed = [None if p else t for t, p in zip(tangents, perturbed, strict=True)]

    def apply(res: Sequence[Any], dots: Sequence[Any]) -> list[Any]:
        given = iter(dots)
        every = [next(given) if t is None else t for t in fixed]
        return list(compress(with_held(held, res, lambda *args: rules.jvp(*args)[1], res[r:], every), moves))

    both = "jvp" in rules.given
    kept = [*held, *residuals, *(primals if both else ())]
    live = list(compress(tangents, perturbed))
    in_avals, out_avals = [aval_of(t) for t in live], list(compress(avals, moves))
    step = LinearMap(rules.name, len(kept), in_avals, out_avals, apply if both else None, transpose)
    dots = iter(linear_map_p.bind(*kept, *live, map=step))
    return outs, [next(dots) if move else Zero(a) for a, move in zip(avals, moves, strict=True)]


def _by_transpose(
    rules: Rules, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """A linear function is its own derivative."""
    outs = python_call_p.bind(*primals, rules=rules)
    return outs, python_call_p.bind(*rules.along(primals, tangents), rules=rules)


def _by_vmap(rules: Rules, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The function and its vmap rule are differentiated; the results come from a call of their own."""
    outs = python_call_p.bind(*primals, rules=rules)
    marks = [type(t) is not Zero for t in tangents]
    pushed = python_call_p.bind(*primals, *compress(tangents, marks), rules=Pushed(rules, marks))
    dots = iter(pushed[len(outs) :])
    avals = [aval_of(y) for y in outs]
    return outs, [next(dots) if dtypes.is_inexact(a.dtype) else Zero(a.tangent()) for a in avals]


_DERIVATIVES: dict[str, Derivative] = {
    "jvp": _by_jvp,
    "linearize": _by_linearize,
    "vjp": _by_vjp,
    "transpose": _by_transpose,
    "vmap": _by_vmap,
}


class PythonCall(_CallWithRules):
    """`python_call_p.bind(*args, rules=rules)`: a call whose function and rules are Python's; never in a jaxpr."""

    holes = dict.fromkeys(("type", "lower", "transpose"), "in programs it is a rules_call")

    def named_axes(self, params: dict[str, Any]) -> frozenset[str]:
        return _ANY_AXES

    def evaluate(self, *args: Any, rules: Rules) -> list[Any]:
        return rules.run(*args)

    def stage(self, trace: Trace, args: Sequence[Any], *, rules: Rules) -> list[Any]:
        with set_current_trace(trace):
            avals = [aval_of(x) for x in args]
            jaxpr, captured = trace_to_jaxpr(rules.run, avals, function=rules, what="call")
            known = {id(x) for x in captured}
            held = [x for x in held_in_scope(rules, trace) if id(x) not in known]
            if held:
                new = [*jaxpr.invars[: len(captured)], *(Var(x.aval) for x in held)]
                invars = [*new, *jaxpr.invars[len(captured) :]]
                jaxpr = Jaxpr(invars, jaxpr.eqns, jaxpr.outvars, jaxpr.name)
            staged = StagedRules(rules, jaxpr, captured, held)
            return rules_call_p.bind(*captured, *held, *args, jaxpr=jaxpr, rules=staged)

    def replace_captured(self, trace: ClosureTrace, *, rules: Rules) -> dict[str, Any]:
        return {"rules": EnclosedRules(rules, trace.replace, trace.constant)}

    def batch(self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, rules: Rules) -> Any:
        by_rule = "vmap" in rules.given and Rules.DERIVATIVES.isdisjoint(rules.given)
        if by_rule and any(dim is not None for dim in dims):
            outs, batched = by_vmap_rule(rules, axis, args, dims)
            return outs, [0 if b else None for b in batched]
        mapped = BatchedRules(rules, axis, dims)
        outs = self.bind(*args, rules=mapped)
        return outs, [0 if mapped.out_batched else None] * len(outs)


class RulesCall(_CallWithRules, Call):
    """`rules_call_p.bind(*args, jaxpr=jaxpr, rules=rules)`: a call of a jaxpr whose derivatives are the rules'."""

    kind = "function with rules of its own"
    pushes_programs = False  # derivatives are the rules'
    # checkpoint saves the results of the call, or runs the call again, as a whole.
    recompute = None  # pyright: ignore[reportAssignmentType]
    padded = padded.called_without_rules(jit_p)

    def evaluate(self, *args: Any, jaxpr: Jaxpr, rules: Rules) -> list[Any]:
        return eval_jaxpr(jaxpr, args)

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: Jaxpr, rules: Rules
    ) -> Any:
        everywhere = any(dim is not None for dim in dims)
        if "vmap" in rules.given and everywhere:
            return python_call_p.batch(axis, args, dims, rules=rules)
        new, batched = batch_jaxpr(jaxpr, axis, tuple(dims))
        if any(batched) or everywhere:
            new, batched = batch_jaxpr(jaxpr, axis, tuple(dims), (True,) * len(jaxpr.outvars))
        mapped = BatchedRules(rules, axis, dims, any(batched))
        return self.bind(*args, jaxpr=new, rules=mapped), [0 if b else None for b in batched]

    def transpose(self, cts: Sequence[Any], *args: Any, jaxpr: Jaxpr, rules: Rules) -> list[Any]:
        if "transpose" in rules.given:
            return rules.transpose(args, cts)
        if "vmap" not in rules.given:
            return jit_p.transpose(cts, *args, jaxpr=jaxpr)
        linear, nonzero = [is_undef(x) for x in args], [type(ct) is not Zero for ct in cts]
        known = [x for x in args if not is_undef(x)]
        ct_xs = python_call_p.bind(
            *known, *compress(cts, nonzero), rules=Transposed(rules, jaxpr.in_avals, linear, nonzero)
        )
        return scatter_cotangents(ct_xs, [True] * len(ct_xs), linear)

    def checkify(
        self, kinds: Kinds, *args: Any, jaxpr: Jaxpr, rules: Rules
    ) -> tuple[list[Any], Report | None]:
        """The report comes from a run of its own, because the rules of the function know only its results."""
        new = checkify_jaxpr(jaxpr, kinds)
        plain = checkify_jaxpr(jaxpr, frozenset()).jaxpr
        outs = self.bind(*args, jaxpr=plain, rules=rules)
        if not new.sites:
            return outs, None
        _, report = new.split(jit_p.bind(*[stop_gradient_p.bind(x) for x in args], jaxpr=new.jaxpr))
        return outs, report

    def sparsity(self, operands: Sequence[Dependence], *, jaxpr: Jaxpr, rules: Rules) -> list[Dependence]:
        """The pattern of the rules' tangents: a stated derivative may depend on more than the function does."""
        if Rules.DERIVATIVES.isdisjoint(rules.given):
            return dependence(jaxpr, operands)
        moves = tuple(x.rows is not None for x in operands)
        avals = [x.aval for x in operands]
        call = trace_closed(lambda *xs: self.bind(*xs, jaxpr=jaxpr, rules=rules), avals, what="derivative")
        pushed, moved = jvp_jaxpr(call, moves)
        primals = [Dependence(x.aval, x.value) for x in operands]
        tangents = [Dependence(x.aval.tangent(), rows=x.rows) for x in compress(operands, moves)]
        dots = iter(dependence(pushed, [*primals, *tangents])[len(moved) :])
        return [
            Dependence(aval, rows=next(dots).rows if moving else None)
            for aval, moving in zip(call.out_avals, moved, strict=True)
        ]

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        """Leave out the results that are not used; all operands stay, because the rules take them."""
        jaxpr, _ = dce_jaxpr(eqn.params["jaxpr"], tuple(used), keep_inputs=True)
        rules = SelectedRules(eqn.params["rules"], used, [v.aval for v in eqn.outvars])
        return eqn.replace(outvars=list(compress(eqn.outvars, used)), params={"jaxpr": jaxpr, "rules": rules})


python_call_p = PythonCall("python_call")
rules_call_p = RulesCall("rules_call")
