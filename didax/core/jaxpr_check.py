"""`check_jaxpr`: is this jaxpr well-formed and well-typed?

A legal jaxpr is closed and in single-assignment form: every variable is bound once, before its uses, by an
input or by an equation of this very jaxpr. Each equation's results have exactly the types that its
primitive's type rule infers from its inputs, parameters are hashable, and literals have the types of their
values. Nested jaxprs obey the same rules.

The check costs one look-up per operand and one remembered type inference per equation, and a jaxpr that
passed is not checked again, so it runs after every transformation under DIDAX_CHECK=1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, cast
from weakref import WeakSet

from didax.core.avals import ShapedArray, aval_of
from didax.core.dtypes import PYTHON_SCALARS, kind_of
from didax.core.errors import JaxprTypeError, MissingRuleError, message
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from didax.core.jaxpr_print import texts_in, type_text
from didax.core.primitive import infer
from didax.core.stack import on_new_stack, stack_is_low

_checked: WeakSet[Jaxpr] = WeakSet()


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Raise JaxprTypeError, showing the equation and its source line, unless `jaxpr` obeys the rules above.

    >>> x, y = (Var(aval_of(1.0)) for _ in range(2))
    >>> check_jaxpr(Jaxpr([x], [], [y]))
    Traceback (most recent call last):
    didax.core.errors.JaxprTypeError: A variable is used before it is bound.
      variable: b:f32[]*
    Bind it by an input or an earlier equation: jaxprs are closed and capture nothing.
    """
    if jaxpr not in _checked:
        if stack_is_low():
            return on_new_stack(check_jaxpr, jaxpr)
        _Check(jaxpr).run()
        _checked.add(jaxpr)


class _Check:
    """The check of one jaxpr: what is bound so far, and the equation being checked, if any."""

    def __init__(self, jaxpr: Jaxpr):
        self.jaxpr = jaxpr
        self.bound: set[Var] = set()
        self.eqn: Eqn | None = None

    def run(self) -> None:
        self.bind(self.jaxpr.invars)
        for eqn in self.jaxpr.eqns:
            self.eqn = eqn
            self.check_eqn(eqn)
        self.eqn = None
        for x in self.jaxpr.outvars:
            self.use(x)

    def check_eqn(self, eqn: Eqn) -> None:
        in_avals = tuple([self.use(x) for x in eqn.invars])
        for jaxpr in eqn.jaxprs:
            check_jaxpr(jaxpr)
        inferred = self.infer(eqn, in_avals)
        written = tuple([v.aval for v in eqn.outvars])
        if written != inferred:  # types are interned: this compares pointers
            self.fail(
                "An equation's results do not have the types that its primitive infers.",
                f"written:  {_types_text(written)}",
                f"inferred: {_types_text(inferred)}",
                fix="Give the results the types that infer(primitive, in_avals, params) returns.",
            )
        self.bind(eqn.outvars)

    def bind(self, variables: Sequence[Var]) -> None:
        for var in variables:
            if var in self.bound:
                fix = "Make a new Var for every input and every result."
                self.fail("A variable is bound twice.", fix=fix, variables=[var])
            self.bound.add(var)

    def use(self, x: Atom) -> ShapedArray:
        if isinstance(x, Literal):
            self.check_literal(x)
        elif x not in self.bound:
            fix = "Bind it by an input or an earlier equation: jaxprs are closed and capture nothing."
            self.fail("A variable is used before it is bound.", fix=fix, variables=[x])
        return x.aval

    def check_literal(self, literal: Literal) -> None:
        try:
            legal = _is_type_of(literal.aval, literal.val)
        except TypeError as error:
            fix = "Pass what is not data as a parameter of the equation."
            self.fail("A literal is not an array or a scalar.", str(error), fix=fix, cause=error)
        if not legal:
            self.fail(
                "A literal's type is not the type of its value.",
                f"value: {literal.val!r:.200}, which is {type_text(aval_of(literal.val))}",
                f"type:  {type_text(literal.aval)}",
                fix="Convert the value, or leave the type out: Literal(value).",
            )

    def infer(self, eqn: Eqn, in_avals: tuple[ShapedArray, ...]) -> tuple[ShapedArray, ...]:
        try:
            return infer(eqn.primitive, in_avals, eqn.params)
        except MissingRuleError:
            raise
        except Exception as error:
            self.check_hashable(eqn)
            facts = f"inputs: {_types_text(in_avals)}", f"{type(error).__name__}: {error}"
            fix = "Build the equation with inputs and parameters that the primitive accepts."
            self.fail("A primitive's type rule refuses an equation.", *facts, fix=fix, cause=error)

    def check_hashable(self, eqn: Eqn) -> None:
        for name, value in eqn.params.items():
            try:
                hash(value)
            except TypeError as error:
                fact = f"{name}: {value!r:.200} of type {type(value).__qualname__} ({error})"
                fix = "Pass tuples instead of lists, and arrays as operands."
                self.fail("An equation's parameters must be hashable.", fact, fix=fix, cause=error)

    def fail(
        self, rule: str, *facts: str, fix: str, variables: Sequence[Var] = (), cause: Exception | None = None
    ) -> NoReturn:
        """Raise, with the place first among the facts."""
        eqn, names = texts_in(self.jaxpr, self.eqn, variables)
        source = [f"from: {self.eqn.source}"] if self.eqn is not None and self.eqn.source is not None else []
        place = [f"equation: {eqn}", *source] if eqn else []
        raise JaxprTypeError(
            message(rule, *place, *(f"variable: {name}" for name in names), *facts, fix=fix)
        ) from cause


def _types_text(avals: tuple[ShapedArray, ...]) -> str:
    return f"({', '.join(map(type_text, avals))})"


def _is_type_of(aval: ShapedArray, value: Any) -> bool:
    kind = PYTHON_SCALARS.get(cast("type[Any]", type(value)))
    if kind in (None, "b"):
        return aval_of(value) is aval
    # The widths of Python's numbers depend on enable_x64, which may have changed since the jaxpr was made.
    return aval.shape == () and aval.weak_type and kind_of(aval.dtype) == kind


def check_jaxpr_operands(holder: str, jaxpr: Jaxpr, avals: Sequence[ShapedArray]) -> None:
    """TypeError unless the operands have the types that the jaxpr was staged for; weak types need not agree."""
    wanted = jaxpr.in_avals
    if len(wanted) != len(avals) or any(
        a is not b and (a.shape != b.shape or a.dtype != b.dtype) for a, b in zip(wanted, avals, strict=True)
    ):
        raise TypeError(
            message(
                f"The operands of {holder} must have the types its program was staged for.",
                f"staged for: {', '.join(map(str, wanted))}",
                f"operands: {', '.join(map(str, avals))}",
                fix="Cast or reshape the operands.",
            )
        )
