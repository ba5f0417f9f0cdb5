"""`forward_pass_p`: the forward pass of a vjp rule in a program, which becomes the plain function where it can.

    y, residuals = forward_pass(x; jaxpr=fwd, plain=f)      or, if no equation uses the residuals,      y = f(x)

A checkpointed function runs the forward pass twice, and throws away the residuals of the first run. With
`optimize_remat` of `custom_vjp.defvjp` the first run calls the function itself instead.
Read next: `call.py`, where it is bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.avals import aval_of
from didax.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from didax.core.tracing import known_value
from didax.passes.simplify import dce_jaxpr
from didax.primitives import padded
from didax.primitives.call import Call, jit_p
from didax.primitives.custom.rules import Forward, Rules
from didax.transforms.batching import AxisData
from didax.transforms.staging import trace_to_jaxpr


class ForwardPass(Call):
    """`forward_pass_p.bind(*args, jaxpr=jaxpr, plain=plain)` runs the jaxpr; `plain` returns no residuals.

    Every transformation treats it as a call of the jaxpr.
    """

    kind = "forward pass"
    # checkpoint saves the results of the call, or runs the call again, as a whole.
    recompute = None  # pyright: ignore[reportAssignmentType]
    padded = padded.called_without_rules(jit_p)

    def evaluate(self, *args: Any, jaxpr: Jaxpr, plain: Jaxpr) -> list[Any]:
        return eval_jaxpr(jaxpr, args)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, **params: Any) -> Any:
        params.pop("plain")
        return jit_p.jvp(primals, tangents, jaxpr=jaxpr, **params)

    def linearize(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, **params: Any
    ) -> Any:
        return jit_p.linearize(primals, tangents, jaxpr=jaxpr)

    def transpose(self, cts: Sequence[Any], *args: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
        return jit_p.transpose(cts, *args, jaxpr=jaxpr)

    def batch(
        self, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: Jaxpr, **params: Any
    ) -> Any:
        return jit_p.batch(axis, args, dims, jaxpr=jaxpr)

    def checkify(self, kinds: Any, *args: Any, jaxpr: Jaxpr, **params: Any) -> Any:
        return jit_p.checkify(kinds, *args, jaxpr=jaxpr)

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        plain: Jaxpr = eqn.params["plain"]
        n = len(plain.outvars)
        if not any(used[n:]):
            eqn = eqn.replace(primitive=jit_p, outvars=eqn.outvars[:n], params={"jaxpr": plain})
            return jit_p.dce(eqn, used[:n])
        small, _ = dce_jaxpr(plain, tuple(used[:n]), keep_inputs=True)
        jaxpr, _ = dce_jaxpr(eqn.params["jaxpr"], tuple(used), keep_inputs=True)
        outvars = [v for v, use in zip(eqn.outvars, used, strict=True) if use]
        return eqn.replace(outvars=outvars, params={"jaxpr": jaxpr, "plain": small})


forward_pass_p = ForwardPass("forward_pass")


def run_forward(rules: Rules, primals: Sequence[Any], perturbed: tuple[bool, ...]) -> Forward:
    """The forward pass of the rules; in a program, as one equation where the rules ask for it."""
    if not rules.optimize_remat or all(known_value(x) is not None for x in primals):
        return rules.forward(primals, perturbed)
    found: list[Forward] = []

    def forward(*xs: Any) -> list[Any]:
        found.append(rules.forward(xs, perturbed))
        return [*found[0].outs, *found[0].residuals]

    avals = [aval_of(x) for x in primals]
    plain, held = trace_to_jaxpr(rules.run, avals, function=rules, what="call")
    jaxpr, captured = trace_to_jaxpr(forward, avals, function=rules, what="forward pass")
    ys = forward_pass_p.bind(
        *held,
        *captured,
        *primals,
        jaxpr=_widened(jaxpr, 0, held),
        plain=_widened(plain, len(held), captured),
    )
    m = len(found[0].outs)
    return Forward(ys[:m], ys[m:], found[0].backward)


def _widened(jaxpr: Jaxpr, at: int, values: Sequence[Any]) -> Jaxpr:
    """The jaxpr with unused inputs for these values."""
    invars = [*jaxpr.invars[:at], *(Var(aval_of(x)) for x in values), *jaxpr.invars[at:]]
    return Jaxpr(invars, jaxpr.eqns, jaxpr.outvars, jaxpr.name)
