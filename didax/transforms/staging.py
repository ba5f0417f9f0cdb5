"""Staging: run a function on tracers that know only types, and write down every operation as a jaxpr.

    trace_to_jaxpr(f, in_avals) -> (jaxpr, captured values)
    stage_program(f, in_avals)  -> the same, where f may write to Refs

Staging is omnistaging: while a `StagingTrace` is current *every* operation becomes an equation, also those that depend
on no argument. Arrays that the function closes over become leading inputs of the jaxpr, and scalars become literals. A
Ref that the function closes over becomes an input with the Ref's value, when it is first used; if the function writes
to it, its last value becomes a leading output.
Read next: `core/jaxpr.py` (the result), `linearize.py` (which stages only what must wait).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core import config
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import Dim
from didax.core.dtypes import PYTHON_SCALARS
from didax.core.errors import message
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from didax.core.jaxpr_check import check_jaxpr
from didax.core.leaks import check_leaks
from didax.core.primitive import Primitive, Trace, infer
from didax.core.ref import Cell, Ref, RefScope
from didax.core.rule_types import check_list
from didax.core.source import SourceLine, name_of, stages_functions, user_line
from didax.core.tracing import Tracer, current_trace, leaked, run_under
from didax.core.value import Array


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


class StagingTrace(RefScope):
    """Writes every operation as an equation."""

    __slots__ = ("arg_names", "cells", "constants", "eqns", "invars", "transformation")

    def __init__(self, parent: Trace, function: Any = None, what: str = "jit", arg_names: Sequence[str] = ()):
        super().__init__(parent, function)
        self.transformation = what
        self.arg_names = arg_names
        self.eqns: list[Eqn] = []
        self.invars: list[Var] = []
        self.constants: dict[int, tuple[Var, Any]] = {}  # id of a captured value -> its variable, the value
        # A Ref from outside -> the input that has its value, its cell in this trace. None: Refs are not allowed here.
        self.cells: dict[Ref, tuple[Var, Cell]] | None = None

    def new_arg(self, aval: ShapedArray) -> StagingTracer:
        """A tracer for the next argument."""
        var = Var(aval)
        self.invars.append(var)
        return StagingTracer(self, var)

    def cell_of(self, ref: Ref) -> Cell:
        if self.cells is None:
            rule = "A Ref from outside was used where it can be neither read nor written: within another operation, or "
            rule += "by a rule of a program that was staged before."
            fix = "Read it before and pass the value; with derivative rules stage last, jit(grad(f)), not grad(jit(f))."
            raise ValueError(message(rule, *ref.facts(), f"within: {self.transformation}", fix=fix))
        found = self.cells.get(ref)
        if found is None:
            var = Var(ref.type)
            found = self.cells[ref] = var, Cell(StagingTracer(self, var))
        return found[1]

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if primitive.stage is not None:
            outs = primitive.stage(self, args, **params)
            check_list(primitive, "stage", outs)
            return outs
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
        """The atom for a value from outside: a literal for a scalar, else a captured variable, one for each object."""
        if type(x) in PYTHON_SCALARS or isinstance(x, np.generic):
            return Literal(x)
        if isinstance(x, Tracer):
            if x.owner.ended:
                now = self.parent.replacement(x)
                if now is None:
                    raise leaked(x)
                return self.atom(now)
        elif isinstance(x, (Array, np.ndarray)) and aval_of(x).physical.ndim == 0:
            # The owner of a NumPy array may write to it: a scalar is a copy.
            return Literal(x[()] if isinstance(x, np.ndarray) else x)
        elif isinstance(x, Dim):
            return self.atom(x.__jax_array__())
        found = self.constants.get(id(x)) or (Var(aval_of(x)), x)
        return self.constants.setdefault(id(x), found)[0]

    def finish(self, outs: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """End the trace: the jaxpr that computes `outs`, with captured values as leading inputs, and those values.

        Captured Refs come after the other captured values, Refs written to come last: their new values precede `outs`.
        """
        refs = [(var, ref, cell) for ref, (var, cell) in (self.cells or {}).items()]
        refs.sort(key=lambda entry: entry[2].written)
        outvars = [self.atom(cell.value) for _, _, cell in refs if cell.written]
        outvars += [self.atom(x) for x in outs]
        self.ended = True
        captured = [*self.constants.values(), *((var, ref) for var, ref, _ in refs)]
        jaxpr = Jaxpr([x[0] for x in captured] + self.invars, self.eqns, outvars, name_of(self.function))
        if config.state().check:
            check_jaxpr(jaxpr)
        return jaxpr, [value for _, value in captured]

    def origin_of(self, var: Var) -> SourceLine | str | None:
        """The user's line, or the argument, that a variable comes from."""
        if var in self.invars:
            i = self.invars.index(var)
            return f"argument {self.arg_names[i] if i < len(self.arg_names) else i}"
        return next((eqn.source for eqn in self.eqns if var in eqn.outvars), None)


class StagedProgram(NamedTuple):
    """A jaxpr whose leading inputs are the captured values. For a captured Ref the input is its value at each call.

    The last `num_written` captured values are Refs that the function writes to: the first outputs are their new values.
    """

    jaxpr: Jaxpr
    captured: list[Any]
    num_written: int


@stages_functions
def stage_program(
    fun: Callable[..., Sequence[Any]],
    in_avals: Sequence[ShapedArray],
    *,
    function: Any = None,
    what: str = "jit",
    arg_names: Sequence[str] = (),
    refs: bool = True,
    kind: type[StagingTrace] = StagingTrace,
) -> StagedProgram:
    """Stage `fun` (flat arguments to a flat sequence of results) for arguments of the given types.

    Errors name the user's `function` and the transformation `what`. Without `refs` it may use no Refs from outside.
    """
    trace = kind(current_trace(), fun if function is None else function, what, arg_names)
    cells = trace.cells = {} if refs else None
    args = [trace.new_arg(aval) for aval in in_avals]
    try:
        outs = run_under(trace, fun, args)
        jaxpr, captured = trace.finish(outs)
    finally:
        trace.ended = True
    num_written = sum(cell.written for _, cell in (cells or {}).values())
    args, outs, cells, trace.cells = [], [], None, None  # they hold tracers, which would count as leaked
    check_leaks(trace)
    return StagedProgram(jaxpr, captured, num_written)


def trace_to_jaxpr(
    fun: Callable[..., Sequence[Any]],
    in_avals: Sequence[ShapedArray],
    *,
    function: Any = None,
    what: str = "jit",
    arg_names: Sequence[str] = (),
) -> tuple[Jaxpr, list[Any]]:
    """Stage `fun`, which may read Refs but not write to them: the jaxpr, and the values of its captured inputs.

    Without a `function` of the user's, `fun` is a transformed program, which has no Refs.
    """
    of_user = function is not None
    staged = stage_program(fun, in_avals, function=function, what=what, arg_names=arg_names, refs=of_user)
    check_only_read(what, staged.captured, staged.num_written)
    return staged.jaxpr, values_of(staged.captured)


def check_only_read(what: str, captured: Sequence[Any], num_written: int) -> None:
    """ValueError where the last of the captured values are Refs written to."""
    if num_written:
        rule = f"A function given to {what} may read Refs from outside, but not write to them."
        refs = [fact for ref in captured[-num_written:] for fact in ref.facts()]
        raise ValueError(message(rule, *refs, fix="Return the value, and write it to the Ref outside."))


def values_of(operands: Sequence[Any]) -> list[Any]:
    """The operands, with the present values of Refs in their places."""
    return [x.read() if type(x) is Ref else x for x in operands]
