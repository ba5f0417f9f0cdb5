"""Programs as data: jaxprs, the types of their variables, and `Primitive`, what their equations apply.

`Primitive` is the class that a new operation derives from; `didax/extend/rules.py` holds what its rules are written
with. An interpreter reads `ClosedJaxpr`s, which `didax.make_jaxpr` and `.trace(...)` of jitted functions give. Read
next: `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from didax.core.avals import ShapedArray, aval_of
from didax.core.effects import Effect
from didax.core.errors import (
    ArgumentError,
    JaxprTypeError,
    MissingRuleError,
    RuleError,
    RuleTypeError,
    api_boundary,
    message,
)
from didax.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, nested_jaxprs
from didax.core.jaxpr import eval_jaxpr as _eval_jaxpr
from didax.core.jaxpr_check import check_jaxpr as _check_jaxpr
from didax.core.jaxpr_parse import num_consts, parse_jaxpr
from didax.core.jaxpr_print import register_param_type
from didax.core.modules import on_access
from didax.core.primitive import Primitive, Trace
from didax.core.tracing import Tracer, current_trace
from didax.core.tracing import run_under as _run_under

__all__ = [
    "Atom", "ClosedJaxpr", "Effect", "Eqn", "Jaxpr", "JaxprEqn", "JaxprTypeError", "Literal", "MissingRuleError",
    "Primitive", "RuleError", "RuleTypeError", "ShapedArray", "Trace", "Tracer", "Var", "aval_of", "check_jaxpr",
    "current_trace", "eval_jaxpr", "jaxpr_as_fun", "nested_jaxprs", "num_consts", "parse_jaxpr",
    "register_param_type", "run_under",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

JaxprEqn = Eqn
T = TypeVar("T")


@api_boundary
def eval_jaxpr(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a jaxpr on the list of its arguments, each equation bound under the current trace.

    >>> import didax as dx
    >>> closed = dx.make_jaxpr(lambda x, y: x * y)(2.0, 3.0)
    >>> eval_jaxpr(closed.jaxpr, [*closed.consts, 4.0, 5.0])
    [Array(20., dtype=float32, weak_type=True)]
    """
    _be_jaxpr(
        "eval_jaxpr", jaxpr, "closed.jaxpr, with [*closed.consts, *args], or call jaxpr_as_fun(closed)(*args)"
    )
    _be_list("eval_jaxpr", args)
    if len(args) != len(jaxpr.invars):
        rule = "eval_jaxpr takes an argument for each input of the jaxpr."
        inputs = ", ".join(str(v.aval) for v in jaxpr.invars)
        fix = "Pass one list of them all; values of captured arrays (`closed.consts`) come first."
        raise ArgumentError(message(rule, f"inputs: {inputs or 'none'}", f"arguments: {len(args)}", fix=fix))
    return _eval_jaxpr(jaxpr, args)


@api_boundary
def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Raise JaxprTypeError, showing the equation and its line, unless the jaxpr is well-formed and well-typed.

    >>> import didax as dx
    >>> check_jaxpr(dx.make_jaxpr(lambda x: x + 1.0)(2.0).jaxpr)
    """
    _be_jaxpr("check_jaxpr", jaxpr, "closed.jaxpr")
    _check_jaxpr(jaxpr)


def _be_jaxpr(caller: str, jaxpr: Any, fix: str) -> None:
    if not isinstance(jaxpr, Jaxpr):
        rule = f"{caller} takes a Jaxpr."
        raise TypeError(message(rule, f"given: {type(jaxpr).__name__}", fix=f"Of a ClosedJaxpr, pass {fix}."))


@api_boundary
def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The program as a function of flat arguments that returns the list of its results.

    >>> import didax as dx
    >>> closed = dx.make_jaxpr(lambda x, y: x * y)(2.0, 3.0)
    >>> [float(z) for z in jaxpr_as_fun(closed)(4.0, 5.0)]
    [20.0]
    """
    return lambda *args: _eval_jaxpr(closed_jaxpr.jaxpr, [*closed_jaxpr.consts, *args])


@api_boundary
def run_under(trace: Trace, fun: Callable[..., T], args: Sequence[Any]) -> T:
    """`fun(*args)` with `trace` current: how a transformation begins.

    Raises TypeError unless `args` is a list or tuple.

    >>> import didax.numpy as dnp
    >>> run_under(current_trace(), dnp.add, (1, 2))
    Array(3, dtype=int32, weak_type=True)
    """
    if not isinstance(trace, Trace):
        rule, given = "run_under takes an instance of a Trace.", f"trace: {trace!r:.100}"
        raise TypeError(
            message(rule, given, fix="Make one, whose parent is the current trace: T(current_trace()).")
        )
    _be_list("run_under", args)
    return _run_under(trace, fun, args)


def _be_list(caller: str, args: Any) -> None:
    if not isinstance(args, (tuple, list)):
        rule, given = f"{caller} takes the list of the arguments.", f"given: {type(args).__name__}"
        raise TypeError(message(rule, given, fix="Pass [x], for a single argument x."))
