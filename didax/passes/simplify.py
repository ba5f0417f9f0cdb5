"""Simplification before lowering: drop equations nobody needs, compute equal ones once.

`dce_jaxpr` removes dead equations and, through the `dce` rule of primitives that hold jaxprs, dead parts inside them.
`merge_equal` gives equations with the same primitive, parameters and inputs one result. Both keep values bit for bit,
and every equation with effects (`core/effects.py`).
Read next: `didax/xla/lowering.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.exact import exact
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from didax.core.rule_types import check_kind, wrong
from didax.transforms.cache import cached_on_jaxpr


@cached_on_jaxpr
def dce_jaxpr(
    jaxpr: Jaxpr, used_out: tuple[bool, ...], keep_inputs: bool = False
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The jaxpr with only the marked outputs and what they need, and which inputs those are.

    With `keep_inputs` the inputs stay as they are.
    """
    outs = [x for x, used in zip(jaxpr.outvars, used_out, strict=True) if used]
    needed = {x for x in outs if type(x) is Var}
    kept: list[Eqn] = []
    for eqn in reversed(jaxpr.eqns):
        if needed.isdisjoint(eqn.outvars) and not eqn.effects:
            continue
        if eqn.primitive.dce is not None and not needed.issuperset(eqn.outvars):
            eqn = _without_dead_results(eqn, [v in needed for v in eqn.outvars])
        kept.append(eqn)
        for x in eqn.invars:
            if type(x) is Var:
                needed.add(x)
    used_in = tuple(keep_inputs or v in needed for v in jaxpr.invars)
    invars = [v for v, used in zip(jaxpr.invars, used_in, strict=True) if used]
    return Jaxpr(invars, kept[::-1], outs, jaxpr.name), used_in


def _without_dead_results(eqn: Eqn, used: Sequence[bool]) -> Eqn:
    primitive = eqn.primitive
    assert primitive.dce is not None
    wanted = [v for v, use in zip(eqn.outvars, used, strict=True) if use]
    found = check_kind(
        primitive, "dce", primitive.dce(eqn, used), Eqn, "an Eqn with the results that are used"
    )
    if not set(wanted) <= set(found.outvars):
        what = "A dce rule keeps the results that are used."
        facts = f"returned: {len(found.outvars)} results, wanted: {len(wanted)} of {len(eqn.outvars)}"
        raise wrong(primitive, "dce", what, facts)
    return found


def merge_equal(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with equal equations merged into the first of them; the same object if no two are equal."""
    pure = not jaxpr.effects  # asked once: most programs have no effects
    renamed: dict[Var, Var] = {}
    seen: dict[Any, Eqn] = {}
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        invars = [renamed.get(x, x) if type(x) is Var else x for x in eqn.invars] if renamed else eqn.invars
        params = tuple(eqn.params.items())
        if eqn.primitive.exact_params:
            params = exact(params)
        key = (eqn.primitive, tuple([x if type(x) is Var else _identity(x) for x in invars]), params)
        first = seen.setdefault(key, eqn) if pure or not eqn.effects else eqn
        if first is not eqn:
            renamed.update(zip(eqn.outvars, first.outvars, strict=True))
            continue
        eqns.append(eqn.replace(invars=invars) if renamed else eqn)
    if not renamed:
        return jaxpr
    outs = [renamed.get(x, x) if type(x) is Var else x for x in jaxpr.outvars]
    return Jaxpr(jaxpr.invars, eqns, outs, jaxpr.name)


def _identity(x: Atom) -> Any:
    """A key that equal atoms share; literals compare by type and exact bits (so 0.0 and -0.0 differ)."""
    return (x.aval, np.asarray(x.val, x.aval.dtype).tobytes()) if type(x) is Literal else x


@cached_on_jaxpr
def simplify_jaxpr(jaxpr: Jaxpr, merge: bool = True) -> Jaxpr:
    """`jaxpr` without dead equations, and unless `merge` is False without repeated ones; same inputs, same outputs."""
    live, _ = dce_jaxpr(jaxpr, (True,) * len(jaxpr.outvars), keep_inputs=True)
    return merge_equal(live) if merge else live
