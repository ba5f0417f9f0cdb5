"""`jax.interpreters.partial_eval`: what libraries use of it.

`trace_to_jaxpr_nounits(f, pvals)` runs `f` on values of which some are known and some have only a type, and tells which
results are known. `trace_to_jaxpr_dynamic(f, avals)` stages `f`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from didax.as_jax.programs import Jaxpr, view
from didax.core.avals import ShapedArray, aval_of
from didax.core.dtypes import PYTHON_SCALARS
from didax.core.jaxpr import Jaxpr as DidaxJaxpr
from didax.core.jaxpr import Var
from didax.core.tracing import current_trace, run_under
from didax.passes.simplify import dce_jaxpr as prune_jaxpr
from didax.transforms.partial_eval import PartialEvalTrace, UnknownTracer
from didax.transforms.split import prune
from didax.transforms.staging import StagingTracer, trace_to_jaxpr

__all__ = [
    "DynamicJaxprTracer", "JaxprTracer", "PartialVal", "dce_jaxpr", "trace_to_jaxpr_dynamic", "trace_to_jaxpr_nounits",
]  # fmt: skip

DynamicJaxprTracer = StagingTracer
JaxprTracer = UnknownTracer


class PartialVal(NamedTuple):
    """A known value (`aval` is None), or a type whose value is unknown (`const` is None)."""

    aval: ShapedArray | None
    const: Any

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        """A value."""
        return cls(None, const)

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        """A type."""
        return cls(aval, None)

    def is_known(self) -> bool:
        """Whether the value is known."""
        return self.aval is None

    def get_known(self) -> Any:
        """The value, or None."""
        return self.const if self.aval is None else None

    def get_aval(self) -> ShapedArray:
        """The type."""
        return aval_of(self.const) if self.aval is None else self.aval


def trace_to_jaxpr_nounits(
    fun: Any, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Run what depends on known values now: a program for the rest, the results, and the program's constants."""
    trace = PartialEvalTrace(current_trace())
    unknowns = [None if p.is_known() else trace.new_unknown(p.get_aval()) for p in pvals]
    args = [p.const if u is None else u for p, u in zip(pvals, unknowns, strict=True)]
    run = getattr(fun, "call_wrapped", fun)
    try:
        outs = list(run_under(trace, run, args))
    finally:
        trace.ended = True
    forced = [instantiate] * len(outs) if isinstance(instantiate, bool) else list(instantiate)
    later = [trace.owns(y) or force for y, force in zip(outs, forced, strict=True)]
    results = [
        PartialVal.unknown(aval_of(y)) if wait else PartialVal.known(y)
        for y, wait in zip(outs, later, strict=True)
    ]
    wanted = [trace.atom(y) for y, wait in zip(outs, later, strict=True) if wait]
    constants: dict[int, tuple[Var, Any]] = {}

    def close(x: Any) -> Any:
        if type(x) is Var or type(x.val) in PYTHON_SCALARS:
            return x
        return constants.setdefault(id(x.val), (Var(x.aval), x.val))[0]

    eqns = [eqn.replace(invars=[close(x) for x in eqn.invars]) for eqn in prune(trace.eqns, wanted)]
    wanted = [close(x) for x in wanted]
    invars = [var for var, _ in constants.values()] + [u.variable for u in unknowns if u is not None]
    program = view(DidaxJaxpr(invars, eqns, wanted), len(constants))
    return program, results, [value for _, value in constants.values()]


def trace_to_jaxpr_dynamic(
    fun: Any, avals: Sequence[ShapedArray], *_: Any, **__: Any
) -> tuple[Jaxpr, list[Any], list[Any]]:
    """The program of a function for these types, the types of its results, and its constants."""
    run = getattr(fun, "call_wrapped", fun)
    jaxpr, consts = trace_to_jaxpr(lambda *xs: list(run(*xs)), list(avals), function=run)
    return view(jaxpr, len(consts)), list(jaxpr.out_avals), list(consts)


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """The program without what only unused results need, and which of its inputs are left."""
    own: DidaxJaxpr = jaxpr.didax()
    keep = instantiate is True
    new, used = prune_jaxpr(own, tuple(used_outputs), keep_inputs=keep)
    return view(new), [True] * len(own.invars) if keep else list(used)
