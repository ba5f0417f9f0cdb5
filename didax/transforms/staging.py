"""Staging: run a function on tracers that know only types, and write down every operation as a jaxpr.

    trace_to_jaxpr(f, in_avals) -> (jaxpr, captured values)

Staging is omnistaging: while a `StagingTrace` is current *every* operation becomes an equation, also those that depend
on no argument. Values from outside (closures) become leading inputs of the jaxpr, scalars become literals.
Read next: `core/jaxpr.py` (the result), `linearize.py` (which stages only what must wait).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import config
from didax.core.avals import ShapedArray, aval_of
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from didax.core.jaxpr_check import check_jaxpr
from didax.core.primitive import Primitive, infer
from didax.core.source import SourceLine, user_line
from didax.core.tracing import Trace, Tracer, current_trace, leaked, set_current_trace

_PYTHON_SCALARS = (float, int, bool, complex)


class StagingTracer(Tracer):
    """A variable of the jaxpr being written."""

    __slots__ = ("variable",)

    def __init__(self, trace: StagingTrace, var: Var):
        self.owner = trace
        self.variable = var
        self.aval = var.aval

    def origin(self) -> SourceLine | str | None:
        trace = self.owner
        assert isinstance(trace, StagingTrace)
        return trace.origin_of(self.variable)


class StagingTrace(Trace):
    """Writes every operation as an equation."""

    __slots__ = ("arg_names", "constants", "eqns", "invars", "what")

    def __init__(self, parent: Trace, function: Any = None, what: str = "jit", arg_names: Sequence[str] = ()):
        super().__init__(parent, function)
        self.what = what
        self.arg_names = arg_names
        self.eqns: list[Eqn] = []
        self.invars: list[Var] = []
        self.constants: dict[int, tuple[Var, Any]] = {}  # id of a captured value -> its variable, the value

    def new_arg(self, aval: ShapedArray) -> StagingTracer:
        """A tracer for the next argument."""
        var = Var(aval)
        self.invars.append(var)
        return StagingTracer(self, var)

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        invars = [
            x.variable if type(x) is StagingTracer and x.owner is self else self.constant(x)  # type: ignore[union-attr]
            for x in args
        ]
        out_avals = infer(primitive, tuple([x.aval for x in invars]), params)
        outvars = [Var(aval) for aval in out_avals]
        self.eqns.append(Eqn(primitive, invars, params, outvars, user_line()))
        if primitive.multiple_results:
            return [StagingTracer(self, var) for var in outvars]
        return StagingTracer(self, outvars[0])

    def atom(self, x: Any) -> Atom:
        """The variable or literal for a value used here."""
        return x.variable if type(x) is StagingTracer and x.owner is self else self.constant(x)

    def constant(self, x: Any) -> Atom:
        """The atom for a value from outside: a literal for scalars, else a captured variable (one per object)."""
        if type(x) in _PYTHON_SCALARS or isinstance(x, np.generic):
            return Literal(x)
        if isinstance(x, Tracer):
            if x.owner.ended:
                raise leaked(x)
        elif aval_of(x).physical.ndim == 0:
            return Literal(x[()] if isinstance(x, np.ndarray) else x)  # NumPy's owner may write to it
        found = self.constants.get(id(x))
        if found is None:
            found = self.constants[id(x)] = Var(aval_of(x)), x
        return found[0]

    def finish(self, outs: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """End the trace: the jaxpr that computes `outs`, with captured values as leading inputs, and those values."""
        outvars = [self.atom(x) for x in outs]
        self.ended = True
        captured = list(self.constants.values())
        name = getattr(self.function, "__name__", "") or ""
        jaxpr = Jaxpr([var for var, _ in captured] + self.invars, self.eqns, outvars, name)
        if config.state().check:
            check_jaxpr(jaxpr)
        return jaxpr, [value for _, value in captured]

    def origin_of(self, var: Var) -> SourceLine | str | None:
        """The user's line, or the argument, that a variable comes from."""
        if var in self.invars:
            position = self.invars.index(var)
            return (
                f"argument {self.arg_names[position]}"
                if position < len(self.arg_names)
                else f"argument {position}"
            )
        return next((eqn.source for eqn in self.eqns if var in eqn.outvars), None)


def trace_to_jaxpr(
    fun: Callable[..., Sequence[Any]],
    in_avals: Sequence[ShapedArray],
    *,
    function: Any = None,
    what: str = "jit",
    arg_names: Sequence[str] = (),
) -> tuple[Jaxpr, list[Any]]:
    """Stage `fun` (flat arguments to a flat sequence of results) for arguments of the given types.

    `function` is what error messages call it by. Returns the jaxpr, captured values as its leading inputs, and those
    values.
    """
    trace = StagingTrace(current_trace(), fun if function is None else function, what, arg_names)
    args = [trace.new_arg(aval) for aval in in_avals]
    try:
        with set_current_trace(trace):
            outs = fun(*args)
        return trace.finish(outs)
    finally:
        trace.ended = True
