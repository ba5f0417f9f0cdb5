"""Plans for operations on random keys, whose elements are not numbers that NumPy knows.

The operation runs on the words behind the keys, by the NumPy rules of what `passes/physical.py` makes of it. Where the
option `debug_key_reuse` asks for it, the keys that it uses are marked first. Read next: `eager.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from didax.core.avals import ShapedArray
from didax.core.jaxpr import Eqn, Jaxpr, Var
from didax.core.primitive import Primitive
from didax.core.source import user_line
from didax.passes.key_reuse import flow, holds_keys, known_integer
from didax.passes.key_reuse import is_on as key_reuse_is_on
from didax.passes.physical import physical_jaxpr
from didax.passes.simplify import simplify_jaxpr
from didax.runtime.array import keys_of, with_keys
from didax.runtime.compiled import application_jaxpr
from didax.runtime.numpy_plans import Plan, numpy_plans, numpy_value


def key_plans(
    primitive: Primitive,
    avals: tuple[ShapedArray, ...],
    out_avals: tuple[ShapedArray, ...],
    params: dict[str, Any],
) -> tuple[Plan, Plan] | None:
    """The plans of `numpy_plans` for an operation on keys; None where an operation on the words has no rule."""
    rule, rule_params = _rule_on_words(primitive, avals, out_avals, params)
    if rule is None:
        return None
    plan, checked = numpy_plans(primitive, rule, out_avals, rule_params)
    if (primitive.keys is None and not primitive.moves_elements) or not holds_keys(avals[0]):
        return plan, checked
    return (
        _marking_keys(primitive, params, out_avals, plan),
        _marking_keys(primitive, params, out_avals, checked),
    )


def _rule_on_words(
    primitive: Primitive,
    avals: tuple[ShapedArray, ...],
    out_avals: tuple[ShapedArray, ...],
    params: dict[str, Any],
) -> tuple[Callable[..., Any] | None, dict[str, Any]]:
    """A NumPy function from the operands' words to the results' words, and its parameters."""
    jaxpr = simplify_jaxpr(physical_jaxpr(application_jaxpr(primitive, avals, out_avals, params)))
    rules = [eqn.primitive.eager_for(tuple([x.aval for x in eqn.invars])) for eqn in jaxpr.eqns]
    if None in rules:
        return None, params
    if len(rules) == 1 and _is_whole(jaxpr.eqns[0], jaxpr):
        return rules[0], jaxpr.eqns[0].params

    def run(*values: Any) -> Any:
        env: dict[Any, Any] = dict(zip(jaxpr.invars, values, strict=True))
        for rule, eqn in zip(rules, jaxpr.eqns, strict=True):
            assert rule is not None
            inputs = [env[x] if type(x) is Var else numpy_value(x.val) for x in eqn.invars]
            out = rule(*inputs, **eqn.params)
            env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
        outs = [env[x] if type(x) is Var else numpy_value(x.val) for x in jaxpr.outvars]
        return outs if primitive.multiple_results else outs[0]

    return run, {}


def _is_whole(eqn: Eqn, jaxpr: Jaxpr) -> bool:
    """Whether the equation takes the inputs of the jaxpr as they are, and returns its outputs."""
    return tuple(eqn.invars) == jaxpr.invars and tuple(eqn.outvars) == jaxpr.outvars


def _marking_keys(
    primitive: Primitive, params: dict[str, Any], out_avals: tuple[ShapedArray, ...], plan: Plan
) -> Plan:
    """The plan, preceded by marking the random keys that the operation uses, where that is asked for."""

    def run(args: tuple[Any, ...]) -> Any:
        if not key_reuse_is_on():
            return plan(args)
        operands = [keys_of(x) or known_integer(x) for x in args]
        keys = flow(primitive, operands, out_avals, params, user_line())
        outs = plan(args)
        if primitive.multiple_results:
            return list(map(with_keys, outs, keys))
        return outs if keys[0] is None else with_keys(outs, keys[0])

    return run
