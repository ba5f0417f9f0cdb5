"""Eager evaluation: what happens to an operation when nothing transforms it.

On the CPU, small arrays are evaluated with NumPy on the spot, about a microsecond over NumPy's own cost. Operations
without a NumPy rule, large arrays, and arrays on an accelerator run as a compiled program of one primitive. Which of
the two it is follows from the primitive, types and parameters alone, so it is decided once and remembered as a plan.
Read next: `numpy_plans.py`; `program_plans.py` for compiled programs; `placed.py` for arrays that the user placed.
"""

from __future__ import annotations

from typing import Any

from didax.core import config
from didax.core.avals import ShapedArray, aval_of, aval_of_scalar
from didax.core.dtypes import PYTHON_SCALARS
from didax.core.given import give
from didax.core.primitive import EagerTrace, Primitive, application_key, current_trace_var, eager_trace, infer
from didax.core.results import check_against_type
from didax.core.rule_types import unhashable
from didax.core.tracing import Tracer, leaked
from didax.passes.physical import is_physical
from didax.runtime.array import ConcreteArray, PlacedArray
from didax.runtime.key_plans import key_plans
from didax.runtime.numpy_plans import NUMPY_MAX_ELEMENTS, Plan, numpy_plans, on_cpu
from didax.runtime.placed import Placed, clear_placed, run_placed
from didax.runtime.value_checks import run_watched

_PLANS_MAX = 20_000
_plans: dict[Any, Plan] = {}  # by `application_key`


@give(EagerTrace, "process")
def process(self: EagerTrace, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Evaluate one operation."""
    if primitive.evaluate is not None:
        return _evaluate(primitive, args, params)
    try:
        avals = tuple([x.aval if type(x) is ConcreteArray else _aval_of_argument(x) for x in args])
    except Placed:
        return run_placed(primitive, args, params)
    try:
        if primitive.exact_params:
            key = application_key(primitive, avals, params)
        else:  # `application_key` written out: a call of it would be a tenth of an eager operation
            key = (primitive, avals, *params.items()) if params else (primitive, avals)
        plan = _plans.get(key)
    except TypeError as error:
        raise unhashable(primitive, params) or error from None
    if plan is None:
        plan, _ = plan_of(primitive, avals, params)
    if config.operations_were_watched and config.watches_operations():
        return run_watched(plan, primitive, args, params)
    return plan(args)


def _aval_of_argument(x: Any) -> ShapedArray:
    if type(x) in PYTHON_SCALARS:
        return aval_of_scalar(type(x))
    if isinstance(x, Tracer):
        raise leaked(x)
    if isinstance(x, PlacedArray):
        raise Placed
    return aval_of(x)


def _evaluate(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    for x in args:
        if isinstance(x, Tracer):
            raise leaked(x)
    token = current_trace_var.set(eager_trace)
    try:
        assert primitive.evaluate is not None
        outs = primitive.evaluate(*args, **params)
    finally:
        current_trace_var.reset(token)
    if config.state().check:
        check_against_type(primitive, "evaluate", args, outs, params)
    return outs


def has_plan(key: Any) -> bool:
    """Whether operations with this `application_key` have been evaluated."""
    return key in _plans


def plan_of(primitive: Primitive, avals: tuple[ShapedArray, ...], params: Any) -> tuple[Plan, Plan]:
    """How such an operation is evaluated now, and how from then on: the first time, its rule's results are checked."""
    key = application_key(primitive, avals, params)
    if (plan := _plans.get(key)) is not None:
        return plan, plan
    plan, checked = _make_plan(primitive, avals, params)
    if len(_plans) > _PLANS_MAX:
        _plans.clear()
    # The types of a rule's results follow from those of the operands: one check is enough.
    _plans[key] = checked if config.state().check else plan
    return checked, _plans[key]


def clear_plans() -> None:
    """Forget every plan."""
    _plans.clear()
    clear_placed()


def _make_plan(
    primitive: Primitive, avals: tuple[ShapedArray, ...], params: dict[str, Any]
) -> tuple[Plan, Plan]:
    """How such operations are evaluated, and the same with a check of what the primitive's rule returns."""
    out_avals = infer(primitive, avals, params)
    small = sum(a.size for a in avals) + sum(a.size for a in out_avals) <= NUMPY_MAX_ELEMENTS
    if small and on_cpu():
        if not is_physical((*avals, *out_avals)):
            plans = key_plans(primitive, avals, out_avals, params)
        else:
            rule = primitive.eager_for(avals)
            plans = None if rule is None else numpy_plans(primitive, rule, out_avals, params)
        if plans is not None:
            return plans
    cheap = small and not (config.state().as_in_jax and primitive.eager)  # as_in_jax asks for JAX's digits
    from didax.runtime.program_plans import program_plan  # on first need

    plan = program_plan(primitive, avals, out_avals, params, cheap)
    return plan, plan
