"""Partial evaluation: do now what is known, write down what must wait.

    (a_known, a_unknown) -> b
    becomes    a_known -> (b_known, residuals)    and    (residuals, a_unknown) -> b_unknown

`PartialEvalTrace` runs operations on known values under its parent, at once, so that Python control flow on known
values works; operations that touch an unknown value are recorded on a tape. Known values on the tape are literals.
`partial_eval_jaxpr` does the same to a jaxpr, and gives a `Split`: the one known/unknown split that linearize, vjp and
checkpoint share (`split.py`). Read next: `linearize.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core import config
from didax.core.avals import ShapedArray
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var, eval_jaxpr
from didax.core.primitive import Primitive, Trace, eager_trace, infer
from didax.core.results import check_against_type
from didax.core.rule_types import check_fit, check_list
from didax.core.source import user_line
from didax.core.tracing import Tracer, current_trace, set_current_trace
from didax.transforms.cache import cached_on_jaxpr
from didax.transforms.split import Split, finish_split
from didax.transforms.staging import StagingTrace


class UnknownTracer(Tracer):
    """A value that will be known later: a variable of the tape."""

    __slots__ = ("variable",)

    def __init__(self, trace: Trace, var: Var):
        self.owner = trace
        self.variable = var
        self.aval = var.aval


class PartialEvalTrace(Trace):
    """Evaluates what is known, records what is not.

    With `split`, primitives that hold jaxprs are taken apart into a known and an unknown call (`partial_eval` rule).
    Without it, an application that touches an unknown is recorded whole, which suits linear programs.
    """

    __slots__ = ("eqns", "keeps_lines", "rule", "split")
    transformation = "partial evaluation"

    def __init__(self, parent: Trace, function: Any = None, split: bool = False):
        super().__init__(parent, function)
        self.eqns: list[Eqn] = []
        self.split = split
        self.rule = ""  # the derivative rule of the user's that is running, for error messages
        # Finding the user's line for each equation takes time. A tape that runs eagerly, and only once, needs the lines
        # only in the search for a NaN or a leak.
        options = config.state()
        self.keeps_lines = parent is not eager_trace or options.inspects_values or options.check_tracer_leaks

    def describe(self) -> str:
        return f"{self.rule}, which must be linear in its tangents" if self.rule else super().describe()

    def new_unknown(self, aval: ShapedArray) -> UnknownTracer:
        """A fresh unknown input."""
        return UnknownTracer(self, Var(aval))

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        for x in args:
            if type(x) is UnknownTracer and x.owner is self:
                break
        else:
            return self.parent.process(primitive, args, params)
        if not self.split or primitive.partial_eval is None:
            return self.record(primitive, args, params)
        self.split = False  # the rule's own unknown call is recorded whole
        try:
            outs = primitive.partial_eval([self.owns(x) for x in args], *args, **params)
        except TypeError as error:
            check_fit(primitive, "partial_eval", ([], *args), params, error)
            raise
        finally:
            self.split = True
        check_against_type(primitive, "partial_eval", args, outs, params)
        return outs

    def owns(self, x: Any) -> bool:
        """True for unknowns of this trace."""
        return type(x) is UnknownTracer and x.owner is self

    def atom(self, x: Any) -> Atom:
        """The tape's variable for an unknown, a literal for a known value."""
        return x.variable if type(x) is UnknownTracer and x.owner is self else Literal(x)

    def record(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Write the operation on the tape."""
        if primitive.stage is not None:
            outs = primitive.stage(self, args, **params)
            check_list(primitive, "stage", outs)
            return outs
        invars = [self.atom(x) for x in args]
        out_avals = infer(primitive, tuple([x.aval for x in invars]), params)
        outs = [UnknownTracer(self, Var(aval)) for aval in out_avals]
        line = user_line() if self.keeps_lines or self.rule else None
        if self.rule and line is not None:
            line = line._replace(rule=line.rule or self.rule)
        self.eqns.append(Eqn(primitive, invars, params, [x.variable for x in outs], line))
        return outs if primitive.multiple_results else outs[0]


@cached_on_jaxpr
def partial_eval_jaxpr(
    jaxpr: Jaxpr, unknown_in: tuple[bool, ...], instantiate: tuple[bool, ...] | bool = False
) -> Split[Jaxpr]:
    """Split `jaxpr` by which inputs are unknown; outputs marked by `instantiate` always count as unknown."""
    staging = StagingTrace(current_trace(), what="partial evaluation")
    staging.function = None
    knowns = {i: staging.new_arg(v.aval) for i, v in enumerate(jaxpr.invars) if not unknown_in[i]}
    trace = PartialEvalTrace(staging, split=True)
    unknowns = {i: trace.new_unknown(v.aval) for i, v in enumerate(jaxpr.invars) if unknown_in[i]}
    with set_current_trace(trace):
        outs = eval_jaxpr(jaxpr, [unknowns[i] if unk else knowns[i] for i, unk in enumerate(unknown_in)])
    forced = (instantiate,) * len(outs) if isinstance(instantiate, bool) else instantiate
    unknown_out = tuple(trace.owns(y) or force for y, force in zip(outs, forced, strict=True))
    known, unknown, sources = finish_split(
        staging,
        trace.eqns,
        [y for y, unk in zip(outs, unknown_out, strict=True) if not unk],
        [t.variable for t in unknowns.values()],
        [trace.atom(y) for y, unk in zip(outs, unknown_out, strict=True) if unk],
    )
    trace.ended = True
    return Split(known, unknown, unknown_out, sources)
