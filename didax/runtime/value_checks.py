"""What is done where operations and programs run: checks of values that options ask for, marks for profiles.

    error_checking_behavior_oob = "raise"    an index out of range is an error
    debug_nans, debug_infs                   a NaN or an infinity made out of numbers is an error
    no_execution                             any operation or program is an error

Read next: `passes/checkify.py` (checks in programs), `passes/nans.py` (the search for NaNs).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from didax.core import config
from didax.core.errors import message
from didax.core.jaxpr import Jaxpr
from didax.core.primitive import Primitive, eager_trace
from didax.core.tracing import set_current_trace
from didax.passes.checkify import add_checks, check_operands
from didax.passes.nans import look_at_operation
from didax.runtime.array import ConcreteArray
from didax.runtime.numpy_plans import Plan

_INDICES = frozenset(["index"])


def run_watched(plan: Plan, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run a plan as the options ask for it; in the block of a profile, if one runs, until the results are there."""
    if config.state().inspects_values:
        return run_marked(primitive, lambda: run_checked(plan, primitive, args, params))
    return run_marked(primitive, lambda: plan(args))


def run_marked(primitive: Primitive, run: Callable[[], Any]) -> Any:
    """Run an operation; in the block of a profile, if one runs, until the results are there."""
    mark = config.operation_mark
    if mark is None:
        return run()
    with mark(primitive):
        outs = run()
        for y in outs if primitive.multiple_results else [outs]:
            if isinstance(y, ConcreteArray):
                y.block_until_ready()
        return outs


def run_checked(plan: Plan, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Run a plan; check its indices before, and its results afterwards, as far as the options ask for it."""
    check_may_run(primitive.name)
    if config.state().error_checking_behavior_oob == "raise" and primitive.conditions is not None:
        with config.override(error_checking_behavior_oob="ignore"), set_current_trace(eager_trace):
            check_operands(primitive, args, params, _INDICES)
    outs = plan(args)
    look_at_operation(primitive, args, outs if primitive.multiple_results else [outs], params)
    return outs


def check_may_run(name: str) -> None:
    """RuntimeError inside `no_execution`."""
    if config.state().no_execution:
        rule = "Inside of no_execution nothing is computed."
        raise RuntimeError(message(rule, f"about to run: {name}", fix="Compute it before the block."))


def with_index_checks(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr that is compiled in place of this one: with checks of indices, where the options ask for them."""
    return add_checks(jaxpr, _INDICES) if config.state().error_checking_behavior_oob == "raise" else jaxpr
