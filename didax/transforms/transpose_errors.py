"""Errors of transposition: which rule of the user's, or which function, is not linear, at which operation.

Read next: `transpose.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from didax.core.errors import NonlinearError, UnexpectedTracerError, message
from didax.core.jaxpr import Eqn


def explained(error: Exception, eqn: Eqn) -> Exception:
    """The error to raise for one that the transpose of an equation raised.

    It names the derivative rule of the user's that the equation is part of. An `UnexpectedTracerError` is one about a
    linear operand of the equation.
    """
    rule = eqn.source.rule if eqn.source is not None else ""
    if isinstance(error, NonlinearError):
        return error if error.rule or not rule else _nonlinear(rule, error.facts)
    if isinstance(error, UnexpectedTracerError):
        reason = "its result is not linear in the operands that are to be transposed"
    elif not rule:
        return error
    else:
        reason = str(error).splitlines()[0]
    facts = [f"operation: {eqn.primitive.name} of {', '.join(str(x.aval) for x in eqn.invars)}"]
    facts += [f"line: {eqn.source}"] if eqn.source is not None else []
    return _nonlinear(rule, [*facts, f"reason: {reason}"])


def _nonlinear(rule: str, facts: Sequence[str]) -> NonlinearError:
    if rule:
        says = "A derivative rule must be linear in the tangents: reverse mode transposes it."
        fix = "Compute what is not linear from the primals alone, or give a rule for reverse mode too: "
        error = NonlinearError(
            message(says, f"rule: {rule}", *facts, fix=f"{fix}custom_rules(f, jvp=..., vjp=(fwd, bwd)).")
        )
    else:
        says = "Only functions that are linear in their arguments can be transposed."
        error = NonlinearError(message(says, *facts, fix="Close over what the function is not linear in."))
    error.rule, error.facts = rule, tuple(facts)
    return error
