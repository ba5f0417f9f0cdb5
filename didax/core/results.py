"""A check for every rule that returns results: they must have the types that the type rule states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.avals import aval_of
from didax.core.primitive import Primitive, infer
from didax.core.rule_types import check_results


def check_against_type(
    primitive: Primitive, rule: str, args: Sequence[Any], outs: Any, params: dict[str, Any]
) -> None:
    """RuleTypeError unless a rule's results are those that the type rule tells for these operands."""
    if primitive.type is not None:  # functions of Python have none: their rules are checked where they run
        check_results(primitive, rule, outs, infer(primitive, tuple([aval_of(x) for x in args]), params))
