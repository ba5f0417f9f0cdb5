"""Linearisation: run a function now, and write down its derivative as a linear program for later.

    linearize(f, x) = f(x), (x_dot -> df(x) @ x_dot)

A `LinearizeTracer` pairs a known primal with an unknown tangent. Each operation asks its primitive for the jvp rule (or
the `linearize` rule of primitives that hold jaxprs) under a `PartialEvalTrace`: the primal part runs at once, under the
parent, and only operations on tangents are recorded. No jaxpr of the jvp is ever formed; run eagerly, the tape of
linear steps costs microseconds per operation. `transpose.backward` walks the tape from its end: that is reverse mode.
Read next: `transpose.py`; `partial_eval.py` for the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from didax.core import config, device_types, sharding
from didax.core.array_ops import Zero, instantiate
from didax.core.avals import aval_of
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var, eval_jaxpr
from didax.core.leaks import check_leaks
from didax.core.primitive import Primitive, Trace, current_trace_var, infer, require
from didax.core.results import check_against_type
from didax.core.rule_types import check_fit, check_known_tangent, check_pair, check_type
from didax.core.source import SourceLine
from didax.core.tracing import Tracer, current_trace, known_value, run_under, set_current_trace
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.partial_eval import PartialEvalTrace, UnknownTracer
from didax.transforms.split import Split, finish_split, prune
from didax.transforms.staging import StagingTrace
from didax.transforms.weak_types import fitted_tangent


class LinearizeTracer(Tracer):
    """A known primal with a tangent that is a variable of the tape."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Trace, primal: Any, tangent: UnknownTracer):
        self.owner = trace
        self.primal = primal
        self.tangent = tangent
        self.aval = aval_of(primal)

    def known(self) -> Any | None:
        return known_value(self.primal)

    def origin(self) -> SourceLine | str | None:
        trace = self.owner
        assert isinstance(trace, LinearizeTrace)
        var = self.tangent.variable
        return next((eqn.source for eqn in trace.tangents.eqns if var in eqn.outvars), None)


class LinearizeTrace(Trace):
    """Evaluates primals, records tangents on the tape of `self.tangents`."""

    __slots__ = ("tangents",)
    transformation = "linearize (grad, vjp)"

    def __init__(self, parent: Trace, function: Any = None):
        super().__init__(parent, function)
        self.tangents = PartialEvalTrace(parent, function)

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        primals: list[Any] = []
        tangents: list[Any] = []
        active = False
        for x in args:
            if type(x) is LinearizeTracer and x.owner is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                active = True
            else:
                primals.append(x)
                tangents.append(Zero(aval_of(x).tangent()))
        if not active:
            return self.parent.process(primitive, args, params)
        rule = primitive.linearize or primitive.jvp or require(primitive, "jvp")
        if sharding.in_types:
            rule = device_types.forward(primitive, rule, infer, primals)
        token = current_trace_var.set(self.tangents)
        try:
            found = rule(primals, tangents, **params)
        except TypeError as error:
            check_fit(primitive, _name(primitive), (primals, tangents), params, error)
            raise
        finally:
            current_trace_var.reset(token)
        if type(found) is not tuple or len(found) != 2 or primitive.multiple_results:
            check_pair(primitive, _name(primitive), found)
        out, out_dot = found
        if config.state().check:
            check_against_type(primitive, _name(primitive), primals, out, params)
        if primitive.multiple_results:
            return [self.join(y, y_dot, primitive) for y, y_dot in zip(out, out_dot, strict=True)]
        return self.join(out, out_dot, primitive)

    def join(self, primal: Any, tangent: Any, primitive: Primitive) -> Any:
        """A tracer; or just the primal, if the tangent depends on no tangent of an input, and so vanishes."""
        if type(tangent) is not UnknownTracer or tangent.owner is not self.tangents:
            if type(tangent) is not Zero:
                check_known_tangent(primitive, _name(primitive), primal, tangent)
            return primal
        tracer = LinearizeTracer(self, primal, tangent)
        if tangent.aval is not tracer.aval:
            check_type(
                primitive, _name(primitive), "The tangent of a result", tangent.aval, tracer.aval.tangent()
            )
            tracer.tangent = fitted_tangent(self.tangents, tangent, tracer.aval)
        return tracer

    def owns(self, x: Any) -> bool:
        """True for tracers of this trace."""
        return type(x) is LinearizeTracer and x.owner is self

    def new_arg(self, primal: Any) -> LinearizeTracer:
        """A tracer for an argument to differentiate with respect to."""
        return LinearizeTracer(self, primal, self.tangents.new_unknown(aval_of(primal).tangent()))


def _name(primitive: Primitive) -> str:
    return "jvp" if primitive.linearize is None else "linearize"


class LinearProgram(NamedTuple):
    """The tape of one linearisation: linear equations from tangents of the inputs to tangents of the outputs.

    Variables are linear, literals are known values. An output whose tangent vanishes is a `Zero`.
    """

    invars: list[Var]
    eqns: list[Eqn]
    outs: list[Var | Zero]

    def apply(self, tangents: Sequence[Any]) -> list[Any]:
        """Tangents of the outputs, under the current trace."""
        live = [x for x in self.outs if type(x) is Var]
        results = iter(eval_jaxpr(Jaxpr(self.invars, prune(self.eqns, live), live), tangents))
        return [x if type(x) is Zero else next(results) for x in self.outs]


def linearize_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    differentiated: Sequence[bool] | None = None,
    function: Any = None,
) -> tuple[list[Any], LinearProgram]:
    """Results of `fun`, and the linear program from tangents of the differentiated arguments to tangents of results."""
    trace = LinearizeTrace(current_trace(), fun if function is None else function)
    wanted = [True] * len(primals) if differentiated is None else differentiated
    args = [trace.new_arg(x) if want else x for x, want in zip(primals, wanted, strict=True)]
    try:
        outs = run_under(trace, fun, args)
    finally:
        trace.ended = trace.tangents.ended = True
    results = [y.primal if trace.owns(y) else y for y in outs]
    out_tangents = [y.tangent.variable if trace.owns(y) else Zero(aval_of(y).tangent()) for y in outs]
    invars = [x.tangent.variable for x, want in zip(args, wanted, strict=True) if want]
    args, outs = [], []
    check_leaks(trace, trace.tangents)
    return results, LinearProgram(invars, trace.tangents.eqns, out_tangents)


@cached_on_jaxpr
def linearize_jaxpr(
    jaxpr: Jaxpr, nonzero_in: tuple[bool, ...], instantiate: tuple[bool, ...] | bool = False
) -> Split:
    """Split a jaxpr into its primal half and its linear half.

    The `known` half maps all inputs to all outputs and residuals; the `unknown` half maps residuals and the nonzero
    input tangents to the nonzero output tangents. Outputs marked by `instantiate` always get a tangent.
    """
    staging = StagingTrace(current_trace(), what="linearize")
    args = [staging.new_arg(v.aval) for v in jaxpr.invars]
    trace = LinearizeTrace(staging)
    tracers = [trace.new_arg(x) if nz else x for x, nz in zip(args, nonzero_in, strict=True)]
    with set_current_trace(trace):
        outs = eval_jaxpr(jaxpr, tracers)
    forced = (instantiate,) * len(outs) if isinstance(instantiate, bool) else instantiate
    nonzero_out = tuple(trace.owns(y) or force for y, force in zip(outs, forced, strict=True))
    with set_current_trace(staging):
        out_tangents = [_tangent_atom(trace, y) for y, nz in zip(outs, nonzero_out, strict=True) if nz]
    known, unknown, sources = finish_split(
        staging,
        trace.tangents.eqns,
        [y.primal if trace.owns(y) else y for y in outs],
        [t.tangent.variable for t in tracers if isinstance(t, LinearizeTracer)],
        out_tangents,
    )
    trace.ended = trace.tangents.ended = True
    return Split(known, unknown, nonzero_out, sources)


def _tangent_atom(trace: LinearizeTrace, y: Any) -> Atom:
    return y.tangent.variable if trace.owns(y) else Literal(instantiate(Zero(aval_of(y).tangent())))
