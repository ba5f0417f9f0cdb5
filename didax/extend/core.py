"""Programs as data: jaxprs, the types of their variables, and `Primitive`, what their equations apply.

`Primitive` is the class that a new operation derives from; `didax/extend/rules.py` holds what its rules are written
with. An interpreter reads `ClosedJaxpr`s, which `didax.make_jaxpr` and `.trace(...)` of jitted functions give. Read
next: `docs/extending.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from didax.core.avals import ShapedArray, aval_of
from didax.core.effects import Effect
from didax.core.errors import JaxprTypeError, MissingRuleError, RuleError, RuleTypeError
from didax.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, eval_jaxpr, nested_jaxprs
from didax.core.jaxpr_check import check_jaxpr
from didax.core.jaxpr_parse import num_consts, parse_jaxpr
from didax.core.jaxpr_print import register_param_type
from didax.core.primitive import Primitive, Trace
from didax.core.tracing import Tracer, current_trace, run_under

__all__ = [
    "Atom", "ClosedJaxpr", "Effect", "Eqn", "Jaxpr", "JaxprEqn", "JaxprTypeError", "Literal", "MissingRuleError",
    "Primitive", "RuleError", "RuleTypeError", "ShapedArray", "Trace", "Tracer", "Var", "aval_of", "check_jaxpr",
    "current_trace", "eval_jaxpr", "jaxpr_as_fun", "nested_jaxprs", "num_consts", "parse_jaxpr",
    "register_param_type", "run_under",
]  # fmt: skip

JaxprEqn = Eqn


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The program as a function of flat arguments that returns the list of its results.

    >>> import didax as dx
    >>> closed = dx.make_jaxpr(lambda x, y: x * y)(2.0, 3.0)
    >>> [float(z) for z in jaxpr_as_fun(closed)(4.0, 5.0)]
    [20.0]
    """
    return lambda *args: eval_jaxpr(closed.jaxpr, [*closed.consts, *args])
