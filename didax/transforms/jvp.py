"""Forward-mode differentiation: each value travels with its tangent.

    jvp(f, x, x_dot) = f(x), df(x) @ x_dot

A `JVPTracer` pairs a primal with a tangent; each operation asks its primitive for the jvp rule, which runs under the
parent trace. Tangents known to vanish are `Zero`s and are never computed.
Read next: `linearize.py`, which runs the same rules and writes the tangent part down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core import config, device_types, sharding
from didax.core.array_ops import Zero, instantiate
from didax.core.avals import aval_of
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.core.leaks import check_leaks
from didax.core.primitive import Primitive, Trace, current_trace_var, infer, require
from didax.core.results import check_against_type
from didax.core.rule_types import check_arrays, check_fit, check_pair, check_type
from didax.core.tracing import Tracer, current_trace, known_value, run_under
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.rewriting import trace_closed
from didax.transforms.weak_types import fitted_tangent


class JVPTracer(Tracer):
    """A primal with its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Trace, primal: Any, tangent: Any):
        self.owner = trace
        self.primal = primal
        self.tangent = tangent
        self.aval = aval_of(primal)

    def known(self) -> Any | None:
        return known_value(self.primal)


class JVPTrace(Trace):
    """Carries tangents along."""

    __slots__ = ()
    transformation = "jvp"

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        mine = [type(x) is JVPTracer and x.owner is self for x in args]
        if True not in mine:
            return self.parent.process(primitive, args, params)
        primals = [x.primal if own else x for x, own in zip(args, mine, strict=True)]
        tangents = [
            x.tangent if own else Zero(aval_of(x).tangent()) for x, own in zip(args, mine, strict=True)
        ]
        token = current_trace_var.set(self.parent)
        try:
            rule = primitive.jvp or require(primitive, "jvp")
            rule = device_types.forward(primitive, rule, infer, primals) if sharding.in_types else rule
            found = rule(primals, tangents, **params)
        except TypeError as error:
            check_fit(primitive, "jvp", (primals, tangents), params, error)
            raise
        finally:
            current_trace_var.reset(token)
        if type(found) is not tuple or len(found) != 2 or primitive.multiple_results:
            check_pair(primitive, "jvp", found)
        out, out_dot = found
        if config.state().check:
            check_against_type(primitive, "jvp", primals, out, params)
        if primitive.multiple_results:
            return [self.join(y, y_dot, primitive) for y, y_dot in zip(out, out_dot, strict=True)]
        return self.join(out, out_dot, primitive)

    def join(self, primal: Any, tangent: Any, primitive: Primitive | None = None) -> Any:
        """A tracer, or just the primal where the tangent vanishes. A `primitive` has the tangent checked."""
        if type(tangent) is Zero:
            return primal
        try:
            tracer, found = JVPTracer(self, primal, tangent), aval_of(tangent)
        except TypeError:
            if primitive is not None:
                check_arrays(primitive, "jvp", primal, tangent)
            raise
        if found is not tracer.aval:
            if primitive is not None:
                check_type(primitive, "jvp", "The tangent of a result", found, tracer.aval.tangent())
            tracer.tangent = fitted_tangent(self.parent, tangent, tracer.aval)
        return tracer

    def split(self, x: Any) -> tuple[Any, Any]:
        """Primal and tangent of a result."""
        if type(x) is JVPTracer and x.owner is self:
            return x.primal, x.tangent
        return x, Zero(aval_of(x).tangent())


def jvp_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any], function: Any = None
) -> tuple[list[Any], list[Any]]:
    """Results and result tangents of `fun`; tangents may be `Zero`s on both sides."""
    trace = JVPTrace(current_trace(), fun if function is None else function)
    try:
        args = [trace.join(x, x_dot) for x, x_dot in zip(primals, tangents, strict=True)]
        outs = run_under(trace, fun, args)
        pairs = [trace.split(y) for y in outs]
    finally:
        trace.ended = True
    args, outs = [], []
    check_leaks(trace)
    return [y for y, _ in pairs], [y_dot for _, y_dot in pairs]


# `jvp_jaxpr`, or what takes its place: a rule that pushes programs forward takes it (`Primitive.pushes_programs`).
Forward = Callable[..., tuple[Jaxpr, tuple[bool, ...]]]


@cached_on_jaxpr
def jvp_jaxpr(
    jaxpr: Jaxpr, nonzero_in: tuple[bool, ...], nonzero_out: tuple[bool, ...] | None = None
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The jvp of a jaxpr, as a jaxpr: inputs and nonzero input tangents to outputs and nonzero output tangents.

    Also returns which output tangents are nonzero; `nonzero_out` asks for at least these.
    """
    found: list[bool] = []

    def jvp_of_jaxpr(*args: Any) -> list[Any]:
        given = iter(args[len(jaxpr.invars) :])
        tangents = [
            next(given) if nz else Zero(v.aval.tangent())
            for v, nz in zip(jaxpr.invars, nonzero_in, strict=True)
        ]
        outs, out_dots = jvp_flat(lambda *xs: eval_jaxpr(jaxpr, xs), args[: len(jaxpr.invars)], tangents)
        wanted = nonzero_out or (False,) * len(outs)
        found.extend(type(t) is not Zero or want for t, want in zip(out_dots, wanted, strict=True))
        return [*outs, *(instantiate(t) for t, nz in zip(out_dots, found, strict=True) if nz)]

    in_tangents = [v.aval.tangent() for v, nz in zip(jaxpr.invars, nonzero_in, strict=True) if nz]
    return trace_closed(jvp_of_jaxpr, [*jaxpr.in_avals, *in_tangents], what="jvp"), tuple(found)
