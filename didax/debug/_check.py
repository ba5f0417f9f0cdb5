"""`debug.check`: a condition on the values of a program, checked under any transformation.

Read next: `didax/primitives/check.py` (the primitive and its rules), `didax/checkify.py` (failures as data).
"""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from didax.core.avals import aval_of, is_array_like
from didax.core.errors import api_boundary, message
from didax.core.source import user_line
from didax.primitives.check import check_p
from didax.primitives.reductions import reduce_and_p


@api_boundary
def check(pred: Any, msg: str, *values: Any, **named: Any) -> None:
    """Raise CheckError unless `pred` (bool, of any shape) holds everywhere; arrays and scalars fill the message.

    A check works eagerly and under jit, vmap (for every element; the message has the values of the first that
    fails), grad, scan, while_loop and cond, and is kept even where no result depends on it. A failure ends
    the program. Under `checkify` it becomes data.

    >>> import didax as dx
    >>> @dx.jit
    ... def root(x):
    ...     dx.debug.check(x >= 0, "no root of {x}", x=x)
    ...     return x**0.5
    >>> float(root(4.0))
    2.0
    >>> root(-1.0)
    Traceback (most recent call last):
    didax.core.errors.CheckError: no root of -1.0
      checked at ...
    """
    bind_check(pred, msg, values, named, debug=False)


def bind_check(pred: Any, msg: str, values: tuple[Any, ...], named: dict[str, Any], *, debug: bool) -> None:
    """Bind a check under the current trace; a `debug` check does nothing unless checkify turns checks into data."""
    _verify_condition(pred)
    shown = {**{str(i): x for i, x in enumerate(values)}, **named}
    _verify_message(msg, shown)
    if axes := tuple(range(aval_of(pred).ndim)):
        pred = reduce_and_p.bind(pred, axes=axes)
    line = str(user_line() or "")
    names = tuple(shown)
    check_p.bind(pred, *shown.values(), kind="check", message=msg, names=names, line=line, debug=debug)


def _verify_condition(pred: Any) -> None:
    if not is_array_like(pred) or aval_of(pred).dtype != np.bool_:
        got = str(aval_of(pred)) if is_array_like(pred) else f"{pred!r:.100} of type {type(pred).__name__}"
        rule = "The condition of a check is a bool, or an array of them."
        raise TypeError(message(rule, f"pred: {got}", fix="Compare: check(x > 0, ...)."))


def _verify_message(msg: Any, shown: dict[str, Any]) -> None:
    """Raise TypeError or ValueError unless every field of the message has a value, and every value is an array."""
    if not isinstance(msg, str):
        rule = "The message of a check is a string, with the values to show in braces."
        raise TypeError(message(rule, f"msg: {msg!r:.100}", fix='check(x > 0, "x is {x}", x=x)'))
    missing = [field for field in _fields(msg) if field not in shown]
    if missing:
        rule = "The message of a check names a value that was not given."
        facts = f"message: {msg!r}", f"missing: {', '.join(missing)}; given: {', '.join(shown) or 'nothing'}"
        raise ValueError(message(rule, *facts, fix="Pass it by name, or write {{ and }} for braces."))
    for name, value in shown.items():
        _verify_value(name, value)


def _verify_value(name: str, value: Any) -> None:
    if not is_array_like(value):
        rule = "The values that a check shows are arrays or scalars."
        fact = f"{name}: {value!r:.100} of type {type(value).__name__}"
        raise TypeError(message(rule, fact, fix="Write what is known now into the message (an f-string)."))


def _fields(template: str) -> list[str]:
    """Return the names of the values that a format string shows; positions are numbers."""
    fields: list[str] = []
    unnamed = 0
    for _, field, _, _ in string.Formatter().parse(template):
        if field is None:
            continue
        name = field.split(".")[0].split("[")[0]
        fields.append(name or str(unnamed))
        unnamed += not name
    return fields
