"""Shapes with names in the place of lengths: `symbolic_shape("b, 2*b")`, and what sizes the names have in a call.

Read next: `didax/core/dims.py`, the arithmetic; `docs/export.md`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial
from typing import Any

from didax.api.stages import ShapeDtypeStruct
from didax.core import dims, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import (
    LONGEST,
    Constraint,
    Dim,
    Scope,
    common_scope,
    evaluate,
    is_symbolic,
    parse_expression,
    variables,
)
from didax.core.errors import api_boundary, message
from didax.core.symbolic_shapes import shape_of_text, sizes_of

__all__ = ["SymbolicScope", "is_symbolic_dim", "symbolic_args_specs", "symbolic_shape"]


class SymbolicScope(Scope):
    """The names of shapes that are used together, and what is promised of their sizes.

    Args:
      constraints_str: texts such as "b >= 3", "n <= 2*b" and "n == 2*b"; with `==` the left side, a name or a
        product of names, is replaced by the right one. Each call of an exported program checks them.

    >>> import didax as dx
    >>> scope = dx.export.SymbolicScope(["b >= 3"])
    >>> b, = dx.export.symbolic_shape("b", scope=scope)
    >>> b > 2
    True
    """

    @api_boundary
    def __init__(self, constraints_str: Sequence[str] = ()):
        super().__init__()
        given: Sequence[Any] = constraints_str
        nodes = [(text, parse_expression(text) if isinstance(text, str) else None) for text in given]
        for of_name in (True, False):  # names that are equal to something vanish from the other constraints
            for text, node in nodes:
                if of_name == (isinstance(node, ast.Compare) and _is_name(node)):
                    self._add(text, node)

    def _add(self, text: str, node: Any) -> None:
        operators = {ast.GtE: ">=", ast.LtE: "<=", ast.Eq: "=="}
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or type(node.ops[0]) not in operators:
            rule = "A constraint of symbolic dimensions compares two of them by >=, <= or ==."
            raise ValueError(message(rule, f"constraint: {text!r}", fix='Write it like "b >= 3".'))
        left, right = [
            dims.compute(side, partial(dims.variable, scope=self))
            for side in (node.left, node.comparators[0])
        ]
        relation = operators[type(node.ops[0])]  # type: ignore[index]
        if relation == "==":
            plain = isinstance(left, Dim) and len(left.terms) == 1 and left.terms[0][1] == 1
            if left == right and not _is_name(node):
                self.constraints += (Constraint(0, True, text),)
                return
            if not plain or set(variables([left])) & set(variables([right])):
                rule = "The left side of == in a constraint is a name or a product of names that the right side lacks."
                raise ValueError(message(rule, f"constraint: {text!r}", fix='Write it like "n == 2*b".'))
        size = right - left if relation == "<=" else left - right
        if relation == "==":
            (factor, power), *others = left.terms[0][0]
            if factor.args and power == 1 and not others:
                self.implied += tuple(dims.meaning(factor, right))
        if relation == "==":  # from here on the left side is the right one, so the difference is taken before
            self.same[left.terms[0][0]] = right
            if _is_name(node):
                size = 0  # no shape has the name any more: the right side stands there, and is checked there
        self.constraints += (Constraint(size, relation == "==", text),)

    def __str__(self) -> str:
        return f"SymbolicScope({', '.join(c.text for c in self.constraints)})"


@api_boundary
def is_symbolic_dim(p: Any) -> bool:
    """Whether an element of a shape is symbolic.

    >>> import didax as dx
    >>> [dx.export.is_symbolic_dim(n) for n in dx.export.symbolic_shape("b, 3")]
    [True, False]
    """
    return is_symbolic(p)


@api_boundary
def symbolic_shape(
    shape_spec: Any,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple[Any, ...]:
    """A shape from its text: names, ints and arithmetic, `_` and a last `...` for what `like` has there.

    Names of one scope are the same sizes. Without `scope` the shape has a scope of its own, with the constraints.

    Raises ValueError for a text that is no shape, or does not fit `like`.

    >>> import didax as dx
    >>> dx.export.symbolic_shape("b, 2*b + 1, 3")
    (b, 2*b + 1, 3)
    """
    if scope is not None and constraints:
        rule = "A scope has its constraints already."
        fix = "Pass scope=SymbolicScope(constraints), or only constraints."
        raise ValueError(message(rule, f"constraints: {list(constraints)}", fix=fix))
    scope = scope or SymbolicScope(constraints)
    if not isinstance(shape_spec, str):
        shape_spec = "..." if shape_spec is None else ", ".join(map(str, shape_spec))
    return shape_of_text(shape_spec, scope, like)


@api_boundary
def symbolic_args_specs(
    args: Any, shapes_specs: Any, constraints: Sequence[str] = (), scope: SymbolicScope | None = None
) -> Any:
    """`ShapeDtypeStruct`s with symbolic shapes in the places of arrays.

    Args:
      args: a pytree of what has a shape and a dtype.
      shapes_specs: a text for `symbolic_shape`, or None, for all arrays below it: a pytree prefix of `args`.

    >>> import didax as dx, numpy as np
    >>> dx.export.symbolic_args_specs((np.ones((3, 2)), np.ones(3)), ("b, _", "b"))
    (ShapeDtypeStruct(shape=(b, 2), dtype=float32), ShapeDtypeStruct(shape=(b,), dtype=float32))
    """
    scope = scope or SymbolicScope(constraints)
    leaves, tree = pytree.flatten(args)
    is_spec = lambda x: x is None or isinstance(x, str)
    specs = _broadcast(shapes_specs, args, is_spec)
    found: list[ShapeDtypeStruct] = []
    for x, spec in zip(leaves, specs, strict=True):
        aval = aval_of(x)
        shape = symbolic_shape(spec, scope=scope, like=aval.shape)
        found.append(
            ShapeDtypeStruct(
                shape,
                aval.dtype,
                sharding=getattr(x, "sharding", None) if isinstance(x, ShapeDtypeStruct) else None,
            )
        )
    return pytree.unflatten(tree, found)


def _broadcast(prefix: Any, tree: Any, is_leaf: Any) -> list[Any]:
    found: list[Any] = []
    pytree.map(
        lambda spec, part: found.extend([spec] * len(pytree.leaves(part))), prefix, tree, is_leaf=is_leaf
    )
    return found


def _is_name(node: ast.Compare) -> bool:
    """True for `name == ...`."""
    return isinstance(node.left, ast.Name) and isinstance(node.ops[0], ast.Eq)


def solve(name: str, expected: Sequence[ShapedArray], found: Sequence[ShapedArray]) -> dict[str, int]:
    """The sizes of the variables for arguments of these types; ValueError where there are none."""
    asked = f"arguments: {', '.join(map(str, found))}, exported for: {', '.join(map(str, expected))}"
    sizes = sizes_of(name, expected, found, asked)
    sized = ", ".join(f"{v} = {n}" for v, n in sizes.items())
    for v, n in sizes.items():
        if n < 1 or (not is_symbolic(n) and n > LONGEST):
            rule = f"The dimensions of {name} are from 1 to {LONGEST}."
            raise ValueError(message(rule, asked, f"{v} = {n}", fix="Treat empty arrays apart."))
    for constraint in scope_of(expected).constraints:
        n = evaluate(constraint.size, sizes)
        if n < 0 or (constraint.equal and n):
            rule = f"The shapes of the arguments of {name} break a constraint that it was exported with."
            raise ValueError(
                message(rule, asked, f"{constraint.text}, with {sized}", fix="Correct the shapes.")
            )
    return sizes


def scope_of(avals: Sequence[ShapedArray]) -> Scope:
    """The scope of the symbolic dimensions of types."""
    found = [dim for aval in avals for dim in aval.shape if isinstance(dim, Dim)]
    for dim in found[1:]:
        common_scope(found[0], dim)
    return found[0].scope if found else Scope()
