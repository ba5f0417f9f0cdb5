"""Jaxprs as text: one equation per line, every variable with its type where it is bound.

    { lambda a:f32[3] ; b:f32[]. let
        c:f32[3] = mul a b
        d:f32[] = reduce_sum[axes=(0,)] c
      in (d, 1.0:f32[]) }

Constants come before the `;`, inputs after it. `f32[]*` is a weak type, `_` a result nobody uses. Names
follow the order of binding, a to z, then ba, bb, and so on through nested jaxprs, so equal programs have
equal texts. Literals are exact. Only what has no text of its own stands in angle brackets: arrays as
`<f32[3]>`, foreign parameters as `<their repr>`; `register_param_type` gives a class of parameters a text.
Importing this module gives `Eqn`, `Jaxpr` and `ClosedJaxpr` their `__repr__`.
Read next: `jaxpr_parse.py`, which reads it all back.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, Final, TypeVar, cast

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.changed_types import dims_text, varying_text
from didax.core.dims import Dim
from didax.core.errors import message
from didax.core.given import give
from didax.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from didax.core.stack import on_new_stack, stack_is_low
from didax.core.tracing import known_value

C = TypeVar("C", bound=type[Any])

_SCALARS = frozenset({*dtypes.PYTHON_SCALARS, str, type(None)})

# Words of the grammar and numbers that are written as words: no variable is called so.
RESERVED: Final = frozenset({"lambda", "let", "in", "inf", "nan"})
DTYPES_BY_NAME: Final = {dtypes.dtype_name(d): d for d in (*dtypes.ALL_DTYPES, dtypes.float0)}


def jaxpr_text(jaxpr: Jaxpr, num_consts: int = 0, source_info: bool = False) -> str:
    """Text of a jaxpr whose first `num_consts` inputs are constants.

    With `source_info` each equation ends in a comment: the line of the user's program that made it.

    >>> x = Var(ShapedArray((3,), np.dtype("float32")))
    >>> print(jaxpr_text(Jaxpr([x], [], [x, Literal(2.0)])))
    { lambda ; a:f32[3]. let in (a, 2.0:f32[]*) }
    """
    return Printer(source_info=source_info).jaxpr(jaxpr, num_consts)


def eqn_text(eqn: Eqn) -> str:
    """Text of one equation, its inputs named first and shown with their types.

    >>> from didax.core.primitive import Primitive
    >>> from didax.core.primitive_names import by_name
    >>> x = Var(ShapedArray((3,), np.dtype("float32")))
    >>> eqn_text(Eqn(Primitive("twice"), [x], {"axis": 0}, [Var(x.aval)]))
    'b:f32[3] = twice[axis=0] a:f32[3]'
    >>> _ = by_name.pop("twice")
    """
    return Printer().eqn(eqn, Scope())


def type_text(aval: ShapedArray) -> str:
    """Text of a type: `f32[2,3]`, and `f32[2,3]*` where it is weak."""
    return f"{dtypes.short_name(aval.dtype)}[{dims_text(aval)}]{'*' if aval.weak_type else ''}{varying_text(aval)}"


# --- Classes of parameters ----------------------------------------------------------------------------------

param_types: Final[dict[str, type[Any]]] = {}
"""Registered classes by the name they are written with."""


def register_param_type(cls: C) -> C:
    """Let jaxprs write and read parameters of this class: a NamedTuple, a frozen dataclass or an Enum.

    Members of enums are written `Name.MEMBER`, the others `Name(field=value, ...)`. Usable as a decorator.
    TypeError for any other class, ValueError when the name is taken. The place that defines a class may define it anew,
    as when its module is reloaded, or its import was interrupted.

    >>> @register_param_type
    ... class Rounding(enum.Enum):
    ...     UP = 1
    >>> Printer().value(Rounding.UP)
    'Rounding.UP'
    """
    name = cls.__name__
    if not (issubclass(cls, enum.Enum) or _is_frozen_dataclass(cls) or hasattr(cls, "_fields")):
        rule = "A parameter type is a NamedTuple, a frozen dataclass or an Enum."
        fix = "Make it one of these, so that its fields are its constructor's arguments."
        raise TypeError(message(rule, f"class: {cls.__module__}.{cls.__qualname__}", fix=fix))
    owner: Any = DTYPES_BY_NAME.get(name) or param_types.get(name, cls)
    if _place(owner) != _place(cls):
        facts = f"name: {name}, of {cls!r} and of {owner!r}"
        raise ValueError(message("Parameter types need names of their own.", facts, fix="Rename the class."))
    param_types[name] = cls
    return cls


def _place(cls: Any) -> tuple[Any, Any]:
    return getattr(cls, "__module__", None), getattr(cls, "__qualname__", None)


def _is_frozen_dataclass(cls: type[Any]) -> bool:
    return dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]


def field_names(cls: type[Any]) -> tuple[str, ...]:
    """Names of the fields of a registered NamedTuple or dataclass, in the constructor's order."""
    if dataclasses.is_dataclass(cls):
        return tuple(f.name for f in dataclasses.fields(cls) if f.init)
    return cls._fields


# --- Scalars ------------------------------------------------------------------------------------------------


def _scalar_text(value: Any) -> str:
    """Text of None, a str or a Python number; complex ones show both parts, for the signs of zeros."""
    if type(value) is complex:
        sign = "" if math.copysign(1.0, value.imag) < 0 and not math.isnan(value.imag) else "+"
        return f"({value.real!r}{sign}{value.imag!r}j)"
    return repr(value)


def _shortest(x: Any) -> float:
    """A float64 that rounds to the scalar `x` of a narrower dtype, with few digits where NumPy knows some."""
    short = float(str(x))
    return short if type(x)(short) == x else float(x)


def _to_python(x: Any, kind: dtypes.Kind) -> Any:
    """The Python scalar whose text stands for the NumPy scalar `x`."""
    if kind == "c":
        return complex(_shortest(x.real), _shortest(x.imag))
    if kind == "0":
        return 0
    return _shortest(x) if kind == "f" else dtypes.PYTHON_TYPES[kind](x)


def _literal_text(literal: Literal) -> str:
    aval, value = literal.aval, known_value(literal.val)
    if aval.shape or value is None:
        return f"<{type_text(aval)}>"
    try:
        return f"{_scalar_text(_literal_number(value, aval))}:{type_text(aval)}"
    except (TypeError, ValueError, OverflowError):  # not of its type: check_jaxpr reports that, and prints it
        return f"<{type_text(aval)}>"


def _literal_number(value: Any, aval: ShapedArray) -> Any:
    kind = dtypes.kind_of(aval.dtype)
    if aval.weak_type and type(value) in dtypes.PYTHON_SCALARS:
        return dtypes.PYTHON_TYPES[kind](value)  # all of its digits, though its type may keep fewer
    return _to_python(np.asarray(value, aval.dtype).reshape(())[()], kind)


# --- Equations and jaxprs -----------------------------------------------------------------------------------


def variable_names() -> Iterator[str]:
    """`a` to `z`, `ba`, `bb`, and so on, without words of the grammar."""
    for i in count():
        digits = [i % 26]
        while i := i // 26:
            digits.append(i % 26)
        name = "".join(chr(ord("a") + d) for d in reversed(digits))
        if name not in RESERVED:
            yield name


class Scope:
    """Names of one jaxpr's variables, and which of them are used (None: take all as used)."""

    def __init__(self, jaxpr: Jaxpr | None = None):
        self.names: dict[Var, str] = {}
        self.used: set[Atom] | None = None
        if jaxpr is not None:
            self.used = set(jaxpr.outvars).union(*(e.invars for e in jaxpr.eqns))


class Printer:
    """Writes jaxprs, drawing all names from one sequence.

    While `elide` is set, nested jaxprs are written `{...}`. Arguments `pad` are the current indentation.
    """

    def __init__(self, source_info: bool = False):
        self.source_info = source_info
        self.elide = False
        self._fresh = variable_names()

    def jaxpr(self, jaxpr: Jaxpr, num_consts: int = 0, pad: str = "", scope: Scope | None = None) -> str:
        """Text of a jaxpr."""
        if stack_is_low():
            return on_new_stack(self.jaxpr, jaxpr, num_consts, pad, scope)
        scope = scope or Scope(jaxpr)
        inputs = [self.binder(v, scope) for v in jaxpr.invars]
        head = " ".join(["{ lambda", *inputs[:num_consts], ";", *inputs[num_consts:]])
        dot = "." if inputs[num_consts:] else " ."
        eqns = [f"{pad}    {self.eqn(eqn, scope, pad + '    ')}" for eqn in jaxpr.eqns]
        tail = f"in {_tuple_text([self._operand(x, scope) for x in jaxpr.outvars])} }}"
        if not eqns:
            return f"{head}{dot} let {tail}"
        return "\n".join([f"{head}{dot} let", *eqns, f"{pad}  {tail}"])

    def eqn(self, eqn: Eqn, scope: Scope, pad: str = "") -> str:
        """Text of an equation, without indentation before its first line."""
        operands = [self._operand(x, scope) for x in eqn.invars]
        results = [self._result(v, scope) for v in eqn.outvars] or ["()"]
        words = [*results, "=", eqn.primitive.name + self._params(eqn.params, pad), *operands]
        if self.source_info and eqn.source is not None:
            words.append(f"  # {eqn.source}")
        return " ".join(words)

    def binder(self, var: Var, scope: Scope) -> str:
        """Name and type of a variable, as where it is bound."""
        name = scope.names.get(var)
        if name is None:
            name = scope.names[var] = next(self._fresh)
        return f"{name}:{type_text(var.aval)}"

    def _result(self, var: Var, scope: Scope) -> str:
        unused = scope.used is not None and var not in scope.used
        return f"_:{type_text(var.aval)}" if unused else self.binder(var, scope)

    def _operand(self, x: Atom, scope: Scope) -> str:
        if isinstance(x, Literal):
            return _literal_text(x)
        return scope.names.get(x) or self.binder(x, scope)  # a variable from nowhere shows its type

    def _params(self, params: dict[str, Any], pad: str) -> str:
        if not params:
            return ""
        texts = [f"{name}={self.value(params[name], pad + '  ')}" for name in sorted(params)]
        if any("\n" in text for text in texts):
            return "\n".join(["[", *(f"{pad}  {text}" for text in texts), f"{pad}]"])
        return f"[{' '.join(texts)}]"

    def value(self, value: Any, pad: str = "") -> str:
        """Text of a parameter's value."""
        kind = cast("type[Any]", type(value))
        if kind in _SCALARS:
            return _scalar_text(value)
        if kind is tuple:
            return _tuple_text([self.value(v, pad + "  ") for v in value], pad)
        if kind is Jaxpr:
            return "{...}" if self.elide else self.jaxpr(value, pad=pad)
        if kind is ShapedArray:
            return type_text(value)
        if kind is Dim:
            return f"|{value}|"
        if issubclass(kind, np.dtype) and dtypes.dtype_name(value) in DTYPES_BY_NAME:
            return dtypes.dtype_name(value)
        if issubclass(kind, dtypes.ExtendedDtype):
            return value.name
        if param_types.get(kind.__name__) is kind:
            return self._registered(value, cast("type[Any]", kind), pad)
        return f"<{' '.join(repr(value).split())}>"

    def _registered(self, value: Any, kind: type[Any], pad: str) -> str:
        if issubclass(kind, enum.Enum):
            return f"{kind.__name__}.{value.name}"
        fields = [f"{f}={self.value(getattr(value, f), pad + '  ')}" for f in field_names(kind)]
        return kind.__name__ + _group(fields, pad)


def _tuple_text(items: list[str], pad: str = "") -> str:
    return f"({items[0]},)" if len(items) == 1 and "\n" not in items[0] else _group(items, pad)


def _group(items: list[str], pad: str) -> str:
    """`(item, item)`, or an item per line when one of them has several lines."""
    if any("\n" in item for item in items):
        return "\n".join(["(", *(f"{pad}  {item}," for item in items), f"{pad})"])
    return f"({', '.join(items)})"


def texts_in(jaxpr: Jaxpr, eqn: Eqn | None, variables: Iterable[Var] = ()) -> tuple[str, list[str]]:
    """One equation of a jaxpr ('' for None) and some variables, named as in its text; nested ones elided."""
    printer, scope = Printer(), Scope(jaxpr)
    printer.jaxpr(jaxpr, scope=scope)
    printer.elide = True
    return printer.eqn(eqn, scope) if eqn is not None else "", [printer.binder(v, scope) for v in variables]


@give(Eqn, "__repr__")
def _eqn_repr(self: Eqn) -> str:
    return eqn_text(self)


@give(Jaxpr, "__repr__")
def _jaxpr_repr(self: Jaxpr) -> str:
    return jaxpr_text(self)


@give(ClosedJaxpr, "__repr__")
def _closed_repr(self: ClosedJaxpr) -> str:
    return jaxpr_text(self.jaxpr, len(self.consts))
