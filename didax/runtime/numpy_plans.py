"""Plans that evaluate an operation with NumPy: its primitive's `eager` rule, on the values of arrays.

Rules get NumPy arrays and scalars of the right dtype, and return the same. Division by zero, overflow and NaN are
values here, as XLA has them, so NumPy does not warn. Read next: `eager.py`, which decides what NumPy evaluates.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from didax.core import config
from didax.core.avals import ShapedArray, aval_of, aval_of_scalar
from didax.core.dtypes import PYTHON_SCALARS, numpy_scalar
from didax.core.primitive import Primitive, current_trace_var, eager_trace
from didax.core.rule_types import as_list, check_fit, check_numpy
from didax.runtime.array import ConcreteArray, as_concrete

# From the operands of an operation to its result, or the list of its results.
Plan = Callable[[tuple[Any, ...]], Any]
NUMPY_MAX_ELEMENTS = 1 << 16  # above this XLA's threads and fusion win over NumPy


def evaluates_with_numpy(x: Any) -> bool:
    """True where an operation that reads only this array, done now, is one for NumPy."""
    return (
        type(x) is ConcreteArray
        and x.aval.size <= NUMPY_MAX_ELEMENTS
        and x.aval.physical is x.aval
        and current_trace_var.get() is eager_trace
        and not (config.operations_were_watched and config.state().inspects_values)
        and on_cpu()
    )


def on_cpu() -> bool:
    """True when arrays live on the CPU; does not start XLA when the options already tell."""
    from didax.xla import client

    return config.state().platforms == "cpu" or client.backend().platform == "cpu"


def numpy_plans(
    primitive: Primitive,
    rule: Callable[..., Any],
    out_avals: tuple[ShapedArray, ...],
    params: dict[str, Any],
) -> tuple[Plan, Plan]:
    """The plan that calls a rule, and the same with a check of what the rule returns."""
    return _plain_plan(primitive, rule, out_avals, params), _checked_plan(primitive, rule, out_avals, params)


def _plain_plan(
    primitive: Primitive, rule: Callable[..., Any], out_avals: tuple[ShapedArray, ...], params: dict[str, Any]
) -> Plan:
    if primitive.multiple_results:

        def run_many(args: tuple[Any, ...]) -> list[ConcreteArray]:
            outs = run_quietly(rule, _host_values(args), params)
            return [ConcreteArray(aval, y) for aval, y in zip(out_avals, outs, strict=True)]

        return run_many
    out_aval = out_avals[0]

    def run(args: tuple[Any, ...]) -> ConcreteArray:
        return ConcreteArray(out_aval, run_quietly(rule, _host_values(args), params))

    return run


def _checked_plan(
    primitive: Primitive, rule: Any, out_avals: tuple[ShapedArray, ...], params: dict[str, Any]
) -> Plan:
    """The plan with a check that the NumPy rule keeps to the type rule."""

    def run(args: tuple[Any, ...]) -> Any:
        try:
            out = run_quietly(rule, _host_values(args), params)
        except TypeError as error:
            check_fit(primitive, "eager", args, params, error, depth=2)
            raise
        check_numpy(primitive, out, out_avals)
        outs = [ConcreteArray(aval, y) for aval, y in zip(out_avals, as_list(primitive, out), strict=True)]
        return outs if primitive.multiple_results else outs[0]

    return run


def _host_values(args: tuple[Any, ...]) -> list[Any]:
    """The operands as NumPy values of the right dtype: left to itself NumPy takes Python scalars for 64 bit."""
    return [
        (x._value if x._value is not None else x.host_value()) if type(x) is ConcreteArray else numpy_value(x)
        for x in args
    ]


def numpy_value(x: Any) -> Any:
    """A Python scalar or a NumPy value in the dtype that it has here."""
    if type(x) in PYTHON_SCALARS:
        return numpy_scalar(x, aval_of_scalar(type(x)).dtype)
    if isinstance(x, np.ndarray):  # a copy: the rule may return a view, and the owner may write to it
        return np.array(x, aval_of(x).dtype)
    return x if isinstance(x, (np.generic, ConcreteArray)) else as_concrete(x)  # which raises for a mere type


class _QuietContext(threading.local):
    """A context per thread in which NumPy does not warn; entering it is faster than `np.errstate`."""

    def __init__(self) -> None:
        context = contextvars.Context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


_quiet = _QuietContext()


def run_quietly(rule: Callable[..., Any], values: list[Any], params: dict[str, Any]) -> Any:
    """`rule(*values, **params)`, without NumPy's warnings."""
    try:
        return _quiet.run(rule, *values, **params)
    except RuntimeError as error:
        if "context" not in str(error) or "already entered" not in str(error):
            raise
        # A finaliser or a signal's handler evaluates an operation in the middle of another one.
        with np.errstate(all="ignore"):
            return rule(*values, **params)
