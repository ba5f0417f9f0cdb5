"""`debug.check`: a condition on the values of a program, checked under any transformation.

Read next: `didax/primitives/check.py` (the primitive and its rules), `didax/checkify.py` (failures as data).
"""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from didax.core import pytree
from didax.core.avals import aval_of, is_array_like
from didax.core.dtypes import as_extended
from didax.core.errors import api_boundary, message
from didax.core.source import user_line
from didax.primitives.check import check_p
from didax.primitives.keys import random_unwrap_p
from didax.primitives.reductions import reduce_and_p


@api_boundary
def check(pred: Any, msg: str, *values: Any, **named: Any) -> None:
    """Raise CheckError unless `pred` (bool, of any shape) holds everywhere; arrays, or trees of them, fill the message.

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
    if not all(map(is_array_like, shown.values())):
        msg, shown = _by_leaves(msg, shown)
    shown = {name: _numbers(x) for name, x in shown.items()}
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
        for leaf in pytree.flatten(value)[0]:
            _verify_value(name, leaf)


class _Field:
    """What a message shows in the place of one leaf of a tree: its value, and the dtype of an array."""

    def __init__(self, name: str, leaf: Any):
        self.name, self.leaf = name, leaf

    def __repr__(self) -> str:
        shown = f"\0{self.name}\0"
        return f"Array({shown}, dtype={self.leaf.dtype})" if hasattr(self.leaf, "dtype") else shown


def _by_leaves(msg: str, shown: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The message with a field for each leaf of a tree, and the values of all fields. Positions become names."""
    values: dict[str, Any] = {}
    trees: dict[str, str] = {}
    for given, value in shown.items():
        name = _named(given)
        leaves, structure = pytree.flatten(value)
        if is_array_like(value):
            values[name] = value
            continue
        fields = [_Field(f"{name}_{i}", leaf) for i, leaf in enumerate(leaves)]
        values.update({field.name: field.leaf for field in fields})
        text = _escaped(repr(pytree.unflatten(structure, fields))).split("\0")
        trees[name] = "".join([f"{{{part}}}" if i % 2 else part for i, part in enumerate(text)])
    return _with_trees(msg, trees), values


def _named(field: str) -> str:
    return f"_{field}" if field[:1].isdigit() else field


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _with_trees(msg: str, trees: dict[str, str]) -> str:
    """The format string with the fields of trees replaced by their texts."""
    found: list[str] = []
    unnamed = 0
    for text, field, spec, conversion in string.Formatter().parse(msg):
        found.append(_escaped(text))
        if field is None:
            continue
        if not field or field[0] in ".[":
            field, unnamed = f"{unnamed}{field}", unnamed + 1
        how = f"!{conversion}" if conversion else ""
        found.append(trees.get(_named(field), f"{{{_named(field)}{how}{':' if spec else ''}{spec}}}"))
    return "".join(found)


def _numbers(x: Any) -> Any:
    """The words of keys; other arrays as they are."""
    return random_unwrap_p.bind(x) if as_extended(aval_of(x).dtype) is not None else x


def _verify_value(name: str, value: Any) -> None:
    if not is_array_like(value):
        rule = "The values that a check shows are arrays, scalars, or trees of them."
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
