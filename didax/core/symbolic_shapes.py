"""Shapes with names in the place of lengths, as texts, and the sizes that the names have in a call.

    shape_of_text("b, 2*b + 1, _", scope, like=(4, 9, 3))    (b, 2*b + 1, 3)
    sizes_of("f", [f32[b, 3]], [f32[5, 3]], ...)             {"b": 5}

Read first: `dims.py`, the arithmetic. Read next: `didax/export/_symbolic.py` and `didax/api/buckets.py`, for users.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from didax.core import dims
from didax.core.avals import ShapedArray
from didax.core.dims import Scope, evaluate, is_symbolic, parse_expression, variables
from didax.core.errors import message


def shape_of_text(text: str, scope: Scope, like: Sequence[int | None] | None = None) -> tuple[Any, ...]:
    """A shape from its text; ValueError for a text that is none, or does not fit `like`."""
    text = text.strip()
    while text.startswith("(") and text.endswith(")") and _is_one_group(text):
        text = text[1:-1].strip()
    node = parse_expression(f"({text.rstrip(',')},)") if text else ast.Tuple([])
    nodes = node.elts if isinstance(node, ast.Tuple) else []
    if nodes and isinstance(nodes[-1], ast.Constant) and nodes[-1].value is ...:
        count = len(_like(like, text))
        nodes = [*nodes[:-1], *[ast.Name("_")] * (count - len(nodes) + 1)]
    if like is not None and len(nodes) != len(like):
        rule = "A symbolic shape has as many axes as the shape that it is for."
        facts = f"shape: {text!r}, for: {tuple(like)}"
        raise ValueError(message(rule, facts, fix="Name each axis, or end with '...'."))
    shape: list[Any] = []
    for i, item in enumerate(nodes):
        blank = isinstance(item, ast.Name) and item.id == "_"
        size = _like(like, text)[i] if blank else dims.compute(item, partial(dims.variable, scope=scope))
        if size is None:
            raise _no_size(text)
        if like is not None and not is_symbolic(size) and like[i] is not None and size != like[i]:
            rule = "A number in a symbolic shape is the length of the axis."
            facts = f"shape: {text!r}, axis {i}: {size}, for: {tuple(like)}"
            raise ValueError(message(rule, facts, fix="Correct it, or write '_'."))
        shape.append(size)
    return tuple(shape)


def _is_one_group(text: str) -> bool:
    """Whether the first parenthesis closes at the end, and holds a shape."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if not depth:
            return i == len(text) - 1
    return False


def _like(like: Sequence[Any] | None, text: str) -> Sequence[Any]:
    if like is None:
        raise _no_size(text)
    return like


def _no_size(text: str) -> ValueError:
    rule = "'_' and '...' in a symbolic shape take lengths from another shape."
    return ValueError(message(rule, f"shape: {text!r}", fix="Pass like=(...), or write names and numbers."))


def sizes_of(
    name: str,
    expected: Sequence[ShapedArray],
    found: Sequence[ShapedArray],
    asked: str,
    labels: Sequence[str] = (),
) -> dict[str, int]:
    """The sizes of the variables for arguments of these types; ValueError where there are none.

    `asked` says in errors what was called and what for; `labels` name the arguments there.
    """
    sizes: dict[str, int] = {}
    labels = labels or ["the argument"] * len(found)
    pairs = [
        (dim, n, label)
        for a, b, label in zip(expected, found, labels, strict=True)
        for dim, n in zip(a.shape, b.shape, strict=True)
    ]
    progress = True
    while progress:
        progress = False
        for dim, n, _ in pairs:
            left = evaluate(dim, sizes)
            unknown = variables([left])
            if len(unknown) != 1 or unknown[0] in sizes:
                continue
            root = _root(left, n)
            if root is None:
                continue
            sizes[unknown[0]] = root
            progress = True
    missing = [v for v in variables([dim for dim, _, _ in pairs]) if v not in sizes]
    if missing:
        rule = f"The sizes of {', '.join(missing)} do not follow from the shapes of the arguments of {name}."
        raise ValueError(message(rule, asked, fix="Name a length alone, or times a number, in some shape."))
    sized = ", ".join(f"{v} = {n}" for v, n in sizes.items())
    for dim, n, label in pairs:
        if evaluate(dim, sizes) != n:
            rule = f"The shapes of the arguments of {name} do not fit each other."
            facts = f"{dim} is {evaluate(dim, sizes)} with {sized or 'these numbers'}, and {n} in {label}"
            raise ValueError(message(rule, asked, facts, fix="Correct the shapes."))
    return sizes


def _root(left: Any, n: int) -> int | None:
    """The size at which the sum `left` is n, if the sum is linear in one variable; None for any other sum."""
    linear: Mapping[Any, int] = dict(left.terms)
    ((monomial, a),) = (
        [(m, a) for m, a in linear.items() if m] if len(linear) - (() in linear) == 1 else [((), 0)]
    )
    if not monomial or len(monomial) > 1 or monomial[0][1] != 1 or monomial[0][0].args:
        return None
    return (n - linear.get((), 0)) // a  # if this does not divide evenly, a later check says so
