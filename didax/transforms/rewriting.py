"""Programs made of programs: what a pass shares with every other pass over equations.

    interpret(jaxpr, args, apply)        `eval_jaxpr`, where `apply(eqn, inputs)` says what an equation results in
    rewritten(jaxpr, apply, what=...)    the same program, with each equation replaced by what `apply` binds
    trace_closed(fun, in_avals)          the program of a function

Each pass chooses what its values are: arrays, tracers, or facts about values (`passes/sparsity.py`).
Read next: `didax/passes/physical.py`, a rewriting pass, and `didax/passes/uneven.py`, which has both kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.core.avals import ShapedArray
from didax.core.given import given_by
from didax.core.jaxpr import Eqn, Jaxpr, Literal, Var
from didax.core.source import follows_equations
from didax.core.tracing import Tracer, leaked
from didax.transforms.staging import trace_to_jaxpr

Apply = Callable[[Eqn, list[Any]], Sequence[Any]]  # the results of an equation, from what its inputs are


def _value(x: Literal) -> Any:
    return x.value()


@follows_equations()
def interpret(
    jaxpr: Jaxpr, args: Sequence[Any], apply: Apply, literal: Callable[[Literal], Any] = _value
) -> list[Any]:
    """Run a jaxpr in which `apply` gives the results of each equation, and `literal` the value of a literal."""
    env: dict[Var, Any] = dict(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        inputs = [env[x] if type(x) is Var else literal(x) for x in eqn.invars]  # type: ignore[arg-type]
        env.update(zip(eqn.outvars, apply(eqn, inputs), strict=True))
    return [env[x] if type(x) is Var else literal(x) for x in jaxpr.outvars]  # type: ignore[arg-type]


def rewritten(
    jaxpr: Jaxpr, apply: Apply, *, what: str, in_avals: Sequence[ShapedArray] | None = None
) -> Jaxpr:
    """The jaxpr of the operations that `apply` binds for each equation; `in_avals` where types of inputs change."""
    avals = jaxpr.in_avals if in_avals is None else in_avals
    return trace_closed(lambda *args: interpret(jaxpr, args, apply), avals, what=what, name=jaxpr.name)


class Constants:
    """Arrays as equations."""

    equation: Any = given_by("didax.primitives.custom.constant")


def with_constants(jaxpr: Jaxpr, captured: Sequence[Any]) -> Jaxpr:
    """The jaxpr with the values of its leading inputs written into it."""
    if not captured:
        return jaxpr
    for x in captured:
        if isinstance(x, Tracer):
            raise leaked(x)
    n = len(captured)
    eqns = [Constants.equation(var, x) for var, x in zip(jaxpr.invars, captured, strict=False)]
    return Jaxpr(jaxpr.invars[n:], [*eqns, *jaxpr.eqns], jaxpr.outvars, jaxpr.name)


def trace_closed(
    fun: Callable[..., Sequence[Any]],
    in_avals: Sequence[ShapedArray],
    *,
    what: str = "a loop",
    name: str | None = None,
) -> Jaxpr:
    """The jaxpr of a function; errors call it `what`. Its `name` is that of the function.

    Arrays that it captures, as rules of users' primitives may, are written into the jaxpr.
    """
    new = with_constants(*trace_to_jaxpr(fun, in_avals, what=what))
    return new if name is None else Jaxpr(new.invars, new.eqns, new.outvars, name)
