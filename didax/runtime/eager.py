"""Eager evaluation: what happens to an operation when nothing transforms it.

On the CPU, small arrays are evaluated with NumPy on the spot, about a microsecond over NumPy's own cost. Operations
without a NumPy rule, large arrays, and arrays on an accelerator run as a compiled program of one primitive. Which it is
follows from primitive, types and parameters alone, so it is decided once and remembered as a plan.
Read next: `runtime/array.py`; `xla/compile.py` for the compiled half.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from didax.core import config
from didax.core.avals import ShapedArray, aval_of
from didax.core.dtypes import PYTHON_SCALARS, numpy_scalar
from didax.core.jaxpr import Eqn, Jaxpr, Var
from didax.core.primitive import EagerTrace, Primitive, application_key, current_trace_var, eager_trace, infer
from didax.core.source import user_line
from didax.core.tracing import Tracer, leaked, set_current_trace
from didax.passes.checkify import check_operands
from didax.passes.key_reuse import flow, holds_keys, known_integer
from didax.passes.key_reuse import is_on as key_reuse_is_on
from didax.passes.nans import look_at_operation
from didax.passes.physical import is_physical, physical_jaxpr
from didax.passes.simplify import simplify_jaxpr
from didax.runtime.array import ConcreteArray, PlacedArray, as_concrete, keys_of, with_keys
from didax.runtime.compiled import Program

NUMPY_MAX_ELEMENTS = 1 << 16  # above this XLA's threads and fusion win over NumPy
_PLANS_MAX = 20_000
_plans: dict[Any, Callable[[tuple[Any, ...]], Any]] = {}
Plan = Callable[[tuple[Any, ...]], Any]
_INDICES = frozenset(["index"])


def process(self: EagerTrace, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Evaluate one operation."""
    if primitive.evaluate is not None:
        return _evaluate(primitive, args, params)
    try:
        avals = tuple([x.aval if type(x) is ConcreteArray else _aval_of_argument(x) for x in args])
    except _Placed:
        return _run_placed(primitive, args, params)
    if primitive.exact_params:
        key = application_key(primitive, avals, params)
    else:  # the same, written out: this is what an eager operation waits for
        key = (primitive, avals, *params.items()) if params else (primitive, avals)
    plan = _plans.get(key)
    if plan is None:
        plan = _make_plan(primitive, avals, params)
        _remember(application_key(primitive, avals, params), plan)
    if config.values_were_inspected and config.state().inspects_values:
        return _run_watched(plan, primitive, args, params)
    return plan(args)


EagerTrace.process = process


def _run_watched(plan: Plan, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run a plan, and look at indices and results as the options ask for."""
    if config.state().error_checking_behavior_oob == "raise" and primitive.conditions is not None:
        with config.override(error_checking_behavior_oob="ignore"), set_current_trace(eager_trace):
            check_operands(primitive, args, params, _INDICES)
    outs = plan(args)
    look_at_operation(primitive, args, outs if primitive.multiple_results else [outs], params)
    return outs


class _Placed(Exception):
    """An operand was put on devices by the user. An exception, because that costs other operations nothing."""


def _aval_of_argument(x: Any) -> ShapedArray:
    if isinstance(x, Tracer):
        raise leaked(x)
    if isinstance(x, PlacedArray):
        raise _Placed
    return aval_of(x)


_placed: dict[Any, Program] = {}


def _run_placed(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Evaluate an operation where its operands are: as a program, which XLA partitions for several devices."""
    args = tuple([x if isinstance(x, ConcreteArray) else as_concrete(x) for x in args])
    avals = tuple([x.aval for x in args])
    key = application_key(primitive, avals, params)
    program = _placed.get(key)
    if program is None:
        if len(_placed) > _PLANS_MAX:
            _placed.clear()
        out_avals = infer(primitive, avals, params)
        program = _placed[key] = Program(_single(primitive, avals, out_avals, params), keep_unused=True)
    outs = program.run(args)
    return outs if primitive.multiple_results else outs[0]


def _evaluate(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    for x in args:
        if isinstance(x, Tracer):
            raise leaked(x)
    token = current_trace_var.set(eager_trace)
    try:
        assert primitive.evaluate is not None
        return primitive.evaluate(*args, **params)
    finally:
        current_trace_var.reset(token)


def _remember(key: Any, plan: Plan) -> None:
    if len(_plans) > _PLANS_MAX:
        _plans.clear()
    _plans[key] = plan


def clear_plans() -> None:
    """Forget every plan."""
    _plans.clear()
    _placed.clear()


def _make_plan(primitive: Primitive, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> Plan:
    out_avals = infer(primitive, avals, params)
    small = sum(a.size for a in avals) + sum(a.size for a in out_avals) <= NUMPY_MAX_ELEMENTS
    rule, rule_params = _numpy_rule(primitive, avals, out_avals, params)
    if rule is not None and small and _on_cpu():
        plan = _numpy_plan(primitive, rule, out_avals, rule_params)
        handles_keys = primitive.keys is not None or primitive.moves_elements
        return (
            _noting_keys(primitive, params, out_avals, plan)
            if handles_keys and holds_keys(avals[0])
            else plan
        )
    return _compiled_plan(primitive, avals, out_avals, params, cheap=small)


def evaluates_with_numpy(x: Any) -> bool:
    """True where an operation that reads only this array, done now, is one for NumPy."""
    return (
        type(x) is ConcreteArray
        and x.aval.size <= NUMPY_MAX_ELEMENTS
        and x.aval.physical is x.aval
        and current_trace_var.get() is eager_trace
        and not (config.values_were_inspected and config.state().inspects_values)
        and _on_cpu()
    )


def _numpy_rule(
    primitive: Primitive,
    avals: tuple[ShapedArray, ...],
    out_avals: tuple[ShapedArray, ...],
    params: dict[str, Any],
) -> tuple[Callable[..., Any] | None, dict[str, Any]]:
    """The primitive's NumPy rule and its parameters; with random keys the rules of what it does to their words."""
    if is_physical((*avals, *out_avals)):
        return primitive.eager_for(avals), params
    jaxpr = simplify_jaxpr(physical_jaxpr(_single(primitive, avals, out_avals, params)))
    rules = [eqn.primitive.eager_for(tuple([x.aval for x in eqn.invars])) for eqn in jaxpr.eqns]
    if None in rules:
        return None, params
    if len(rules) == 1 and _runs_alone(jaxpr.eqns[0], jaxpr):
        return rules[0], jaxpr.eqns[0].params

    def run(*values: Any) -> Any:
        env: dict[Any, Any] = dict(zip(jaxpr.invars, values, strict=True))
        for rule, eqn in zip(rules, jaxpr.eqns, strict=True):
            assert rule is not None
            inputs = [env[x] if type(x) is Var else _numpy_value(x.val) for x in eqn.invars]
            out = rule(*inputs, **eqn.params)
            env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
        outs = [env[x] if type(x) is Var else _numpy_value(x.val) for x in jaxpr.outvars]
        return outs if primitive.multiple_results else outs[0]

    return run, {}


def _runs_alone(eqn: Eqn, jaxpr: Jaxpr) -> bool:
    """Whether the equation takes the inputs of the jaxpr, and its results are the outputs."""
    return tuple(eqn.invars) == jaxpr.invars and tuple(eqn.outvars) == jaxpr.outvars


def _single(
    primitive: Primitive,
    avals: tuple[ShapedArray, ...],
    out_avals: tuple[ShapedArray, ...],
    params: dict[str, Any],
) -> Jaxpr:
    """The jaxpr of one application of the primitive."""
    invars, outvars = [Var(aval) for aval in avals], [Var(aval) for aval in out_avals]
    return Jaxpr(invars, [Eqn(primitive, invars, params, outvars)], outvars, primitive.name)


def _on_cpu() -> bool:
    """True when arrays live on the CPU; does not start XLA when the options already tell."""
    from didax.xla import client

    return config.state().platforms == "cpu" or client.backend().platform == "cpu"


class _QuietContext(threading.local):
    """A context per thread in which NumPy does not warn: floating-point corners are values here, not warnings."""

    def __init__(self) -> None:
        context = contextvars.Context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


_quiet = _QuietContext()


def _run_quietly(rule: Callable[..., Any], values: list[Any], params: dict[str, Any]) -> Any:
    try:
        return _quiet.run(rule, *values, **params)
    except RuntimeError as error:
        if "context" not in str(error) or "already entered" not in str(error):
            raise
        with np.errstate(all="ignore"):  # reentered, by a finaliser or signal handler
            return rule(*values, **params)


def _host_values(args: tuple[Any, ...]) -> list[Any]:
    """NumPy values of the right dtype: left to itself NumPy takes Python scalars for 64 bit."""
    return [
        (x._value if x._value is not None else x.host_value())
        if type(x) is ConcreteArray
        else _numpy_value(x)
        for x in args
    ]


def _numpy_value(x: Any) -> Any:
    if type(x) in PYTHON_SCALARS:
        return numpy_scalar(x, aval_of(x).dtype)
    # A copy: the rule may return a view, and the owner of the argument may write to it.
    return np.array(x, aval_of(x).dtype) if isinstance(x, np.ndarray) else x


def _numpy_plan(
    primitive: Primitive,
    rule: Callable[..., Any],
    out_avals: tuple[ShapedArray, ...],
    params: dict[str, Any],
) -> Plan:
    if primitive.multiple_results:

        def run_many(args: tuple[Any, ...]) -> list[ConcreteArray]:
            outs = _run_quietly(rule, _host_values(args), params)
            return [ConcreteArray(aval, y) for aval, y in zip(out_avals, outs, strict=True)]

        return run_many
    out_aval = out_avals[0]
    if config.state().check:
        return _checked_plan(primitive, rule, out_aval, params)

    def run(args: tuple[Any, ...]) -> ConcreteArray:
        return ConcreteArray(out_aval, _run_quietly(rule, _host_values(args), params))

    return run


def _noting_keys(
    primitive: Primitive, params: dict[str, Any], out_avals: tuple[ShapedArray, ...], plan: Plan
) -> Plan:
    """The plan, which first marks the random keys that it uses. Compiled programs do so themselves."""

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


def _checked_plan(primitive: Primitive, rule: Any, out_aval: ShapedArray, params: dict[str, Any]) -> Plan:
    """As the plain plan, and verifies that the NumPy rule keeps to the type rule."""

    def run(args: tuple[Any, ...]) -> ConcreteArray:
        out = _run_quietly(rule, _host_values(args), params)
        found = (np.shape(out), getattr(out, "dtype", None))
        wanted = out_aval.physical
        assert found == (wanted.shape, wanted.dtype), f"eager {primitive}: {found}, not {wanted}"
        return ConcreteArray(out_aval, out)

    return run


def _compiled_plan(
    primitive: Primitive,
    avals: tuple[ShapedArray, ...],
    out_avals: tuple[ShapedArray, ...],
    params: dict[str, Any],
    cheap: bool,
) -> Plan:
    program = Program(_single(primitive, avals, out_avals, params), cheap=cheap)
    program.executable()

    def run(args: tuple[Any, ...]) -> Any:
        outs = program.run([as_concrete(x) for x in args])
        return outs if primitive.multiple_results else outs[0]

    return run
