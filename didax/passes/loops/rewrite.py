"""What the passes share: other equations in the place of one, and how often variables are used.

Read next: `driver.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from didax.core.avals import ShapedArray
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Var
from didax.core.source import SourceLine
from didax.transforms.staging import trace_to_jaxpr

LONG = 128  # equations


def is_long(jaxpr: Jaxpr) -> bool:
    """Whether the program, with the functions that it calls, has `LONG` equations."""
    count = len(jaxpr.eqns)
    for eqn in () if count >= LONG else jaxpr.eqns:
        inner = eqn.params.get("jaxpr") if eqn.params else None
        count += len(inner.eqns) if type(inner) is Jaxpr else 0
    return count >= LONG


def uses(jaxpr: Jaxpr) -> Counter[Any]:
    """How often each variable is read, by equations and as an output."""
    return Counter([x for eqn in jaxpr.eqns for x in eqn.invars] + list(jaxpr.outvars))


def definitions(jaxpr: Jaxpr) -> dict[Any, Eqn]:
    """The equation that binds each variable."""
    return {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}


def num_bytes(aval: ShapedArray) -> int:
    """Bytes of an array of this type."""
    return aval.physical.size * aval.physical.dtype.itemsize


def equations_of(
    fun: Callable[..., Sequence[Any]], atoms: Sequence[Atom], source: SourceLine | None
) -> tuple[list[Eqn], list[Atom]]:
    """The equations of `fun(*atoms)`, with the user's line `source`, and its results."""
    jaxpr, captured = trace_to_jaxpr(fun, [x.aval for x in atoms], what="optimisation of a loop")
    assert not captured, "a pass makes its arrays of the program's"
    return inlined(jaxpr, atoms, source)


def inlined(jaxpr: Jaxpr, atoms: Sequence[Atom], source: SourceLine | None) -> tuple[list[Eqn], list[Atom]]:
    """The equations of a jaxpr on `atoms` as its inputs, and its outputs."""
    env: dict[Any, Atom] = dict(zip(jaxpr.invars, atoms, strict=True))
    eqns = [
        Eqn(eqn.primitive, [env.get(x, x) for x in eqn.invars], eqn.params, eqn.outvars, source)
        for eqn in jaxpr.eqns
    ]
    return eqns, [env.get(x, x) for x in jaxpr.outvars]


def substitute(eqn: Eqn, env: dict[Any, Atom]) -> Eqn:
    """The equation with variables replaced."""
    if env and any(x in env for x in eqn.invars):
        return eqn.replace(invars=[env.get(x, x) for x in eqn.invars])
    return eqn


def copied(jaxpr: Jaxpr) -> Jaxpr:
    """The same program as another object with variables of its own."""
    env: dict[Any, Any] = {v: Var(v.aval) for v in jaxpr.invars}
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        invars = [env.get(x, x) for x in eqn.invars]
        env.update({v: Var(v.aval) for v in eqn.outvars})
        eqns.append(eqn.replace(invars=invars, outvars=[env[v] for v in eqn.outvars]))
    return Jaxpr([env[v] for v in jaxpr.invars], eqns, [env.get(x, x) for x in jaxpr.outvars], jaxpr.name)
