"""Jaxprs from text: reads what `jaxpr_print.py` writes, and what people write in the same grammar.

    jaxpr   ::= "{" "lambda" binder* ";" binder* "." "let" eqn* "in" "(" operands ")" "}"  (constants; inputs)
    eqn     ::= (binder* | "()") "=" PRIMITIVE ["[" (NAME "=" value)* "]"] operand*
    binder  ::= NAME ":" TYPE                       TYPE is f32[2,3], and f32[]* where it is weak
                                                    f32[2]{V:x} differs from device to device along x
                                                    f32[b,2*b] has symbolic dimensions
    operand ::= NAME | NUMBER ":" TYPE
    value   ::= NUMBER | True | False | None | STRING | DTYPE | TYPE | jaxpr | "(" values ")" | "|" SIZE "|"
              | CLASS "(" fields ")" | CLASS "." MEMBER            of a class given to `register_param_type`

The law: `jaxpr_text(parse_jaxpr(t), num_consts(t)) == t` for every printed `t` whose literals and parameters
have texts. Line breaks mean nothing, `#` starts a comment, and the time is linear in the length.
The parser checks scope but believes the types: call `check_jaxpr` on text from elsewhere.
"""

from __future__ import annotations

import ast
import enum
import functools
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.dims import Scope, parse_dims, variable
from didax.core.errors import api_boundary, message
from didax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from didax.core.jaxpr_check import check_jaxpr
from didax.core.jaxpr_print import DTYPES_BY_NAME, RESERVED, field_names, param_types
from didax.core.primitive import Primitive
from didax.core.primitive_names import by_name
from didax.core.stack import on_new_stack, stack_is_low

T = TypeVar("T")


@api_boundary
def parse_jaxpr(text: str, size: Callable[[str], Any] | None = None) -> Jaxpr:
    """The jaxpr that `text` writes; constants (before the `;`) become its leading inputs, see `num_consts`.

    Symbolic dimensions are computed from what `size` says of their variables; without it they stay symbolic.

    Raises a ValueError that shows line, column and what was expected there, and a JaxprTypeError that shows an equation
    whose results do not have the types that its primitive infers.

    >>> parse_jaxpr("{ lambda ; x:f32[3]. let in (x, 2:f32[]*) }")
    { lambda ; a:f32[3]. let in (a, 2.0:f32[]*) }
    """
    jaxpr = read_jaxpr(text, size)
    check_jaxpr(jaxpr)
    return jaxpr


def read_jaxpr(text: str, size: Callable[[str], Any] | None = None) -> Jaxpr:
    """The jaxpr that `text` writes, with types that nothing has checked."""
    parser = _Parser(text, size)
    jaxpr = parser.jaxpr()
    parser.expect("")
    return jaxpr


@api_boundary
def num_consts(text: str) -> int:
    """How many leading inputs of `parse_jaxpr(text)` are constants.

    A closed jaxpr is `ClosedJaxpr(parse_jaxpr(text), consts)` with as many values.

    >>> num_consts("{ lambda w:f32[3] ; x:f32[3]. let in (w, x) }")
    1
    """
    return len(_Parser(text).header()[0])


# --- Tokens -------------------------------------------------------------------------------------------------


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


_NUMBER = r"(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|inf|nan)"
_TOKEN: Final = re.compile(
    rf"""
      (?P<space>  (?:\s|\#[^\n]*)+ )
    | (?P<number> -?{_NUMBER}(?!\w) | \(-?{_NUMBER}[+-]{_NUMBER}j\) )
    | (?P<word>   (?:True|False|None)\b )
    | (?P<string> '(?:[^'\\\n]|\\.)*' | "(?:[^"\\\n]|\\.)*" )
    | (?P<type>   [a-z]\w*(?:<[^<>\s]+>)?\[[\w ,+*^()-]*\]\*?(?:\{{V:(?:\w+|\(\w+(?:,\w+)*\))\}})? )
    | (?P<size>   \|[^|]*\| )
    | (?P<dtype>  [a-z]\w*<[^<>\s]+> )
    | (?P<name>   [A-Za-z_]\w*(?:-[A-Za-z]\w*)* )
    | (?P<mark>   . )
    """,
    re.VERBOSE,
)
_WORDS: Final = {"True": True, "False": False, "None": None}
_GRAMMAR = "A jaxpr is written { lambda CONSTANTS ; INPUTS. let EQUATIONS in (OUTPUTS) }."


def _tokens(text: str) -> list[_Token]:
    found = (_Token(m.lastgroup or "", m.group(), m.start()) for m in _TOKEN.finditer(text))
    return [*(token for token in found if token.kind != "space"), _Token("end", "", len(text))]


def _number(text: str) -> int | float | complex:
    if text.startswith("("):
        return complex(text)
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _scalar(value: Any, aval: ShapedArray) -> Any:
    """A literal's number as a primitive's operand, Python's where the type is weak; ValueError if unfit."""
    kind = dtypes.kind_of(aval.dtype)
    python_type = dtypes.PYTHON_TYPES[kind]
    if type(value) is not python_type and not (type(value) in (int, float) and kind in "fc"):
        raise ValueError(f"{value!r} is no {python_type.__name__}")
    exact = python_type(value)
    if kind == "0":
        return np.zeros((), aval.dtype)
    if aval.weak_type:
        return exact
    with np.errstate(over="ignore"):
        scalar = aval.dtype.type(exact)
    fits = np.isfinite(scalar) == np.isfinite(exact) if kind in "fc" else scalar == exact
    if not fits:
        raise ValueError(f"{value!r} is out of range")
    return scalar


# --- Recursive descent --------------------------------------------------------------------------------------

_Env = dict[str, Var]


class _Parser:
    """A cursor over the tokens. Each method reads one rule of the grammar and leaves the cursor behind it."""

    def __init__(self, text: str, size: Callable[[str], Any] | None = None):
        self.size = size or functools.partial(variable, scope=Scope())
        self.text = text
        self.tokens = _tokens(text)
        self.position = 0
        self.types: dict[str, ShapedArray] = {}

    @property
    def next(self) -> _Token:
        return self.tokens[self.position]

    def advance(self) -> _Token:
        token = self.tokens[self.position]
        self.position += 1
        return token

    def expect(self, *texts: str) -> None:
        """Step over exactly these tokens ('' is the end)."""
        for text in texts:
            if self.next.text != text:
                self.fail(f"expected {text!r}" if text else "expected the end of the text")
            self.position += 1

    def take(self, kind: str, what: str) -> str:
        if self.next.kind != kind:
            self.fail(f"expected {what}")
        return self.advance().text

    def fail(self, problem: str, fix: str = _GRAMMAR, token: _Token | None = None) -> NoReturn:
        token = token or self.next
        before = self.text[: token.start].split("\n")
        line, column, lines = len(before), len(before[-1]) + 1, self.text.split("\n")
        raise ValueError(
            message(
                f"The text of a jaxpr cannot be read: {problem}.",
                f"line {line}, column {column}: {lines[line - 1].strip()}",
                f"found: {token.text!r}" if token.text else "found: the end of the text",
                fix=fix,
            )
        ) from None

    def unknown(self, problem: str, token: _Token, known: Iterable[str], fix: str) -> NoReturn:
        matches = get_close_matches(token.text, list(known))
        self.fail(problem, f"Did you mean {' or '.join(matches)}? {fix}" if matches else fix, token)

    def group(self, item: Callable[[], T]) -> list[T]:
        """`( item, item, )`"""
        self.expect("(")
        items: list[T] = []
        while self.next.text != ")":
            items.append(item())
            if self.next.text != ")":
                self.expect(",")
        self.expect(")")
        return items

    def jaxpr(self) -> Jaxpr:
        if stack_is_low():
            return on_new_stack(self.jaxpr)
        consts, inputs, env = self.header()
        eqns: list[Eqn] = []
        while self.next.text != "in":
            eqns.append(self.eqn(env))
        self.expect("in")
        outputs = self.group(lambda: self.operand(env))
        self.expect("}")
        return Jaxpr([*consts, *inputs], eqns, outputs)

    def header(self) -> tuple[list[Var], list[Var], _Env]:
        """`{ lambda CONSTANTS ; INPUTS . let`"""
        env: _Env = {}
        self.expect("{", "lambda")
        consts = self.bind(self.binders(), env)
        self.expect(";")
        inputs = self.bind(self.binders(), env)
        self.expect(".", "let")
        return consts, inputs, env

    def binders(self) -> list[tuple[_Token, Var]]:
        found: list[tuple[_Token, Var]] = []
        while self.next.kind == "name" and self.next.text not in RESERVED:
            name = self.advance()
            self.expect(":")
            found.append((name, Var(self.type())))
        return found

    def bind(self, binders: list[tuple[_Token, Var]], env: _Env) -> list[Var]:
        for name, var in binders:
            if name.text in env:
                self.fail("a variable is bound twice", "Give the second one a name of its own.", name)
            if name.text != "_":
                env[name.text] = var
        return [var for _, var in binders]

    def eqn(self, env: _Env) -> Eqn:
        if self.next.text == "(":
            self.expect("(", ")")
            results = []
        elif not (results := self.binders()):
            self.fail("expected an equation or 'in'", "Write equations as RESULT:TYPE = PRIMITIVE OPERANDS.")
        self.expect("=")
        primitive = self.primitive()
        params = self.params() if self.next.text == "[" else {}
        operands: list[Atom] = []
        while self.at_operand():
            operands.append(self.operand(env))
        return Eqn(primitive, operands, params, self.bind(results, env))

    def primitive(self) -> Primitive:
        token = self.next
        found = by_name.get(self.take("name", "the name of a primitive"))
        fix = "Import the module that defines it."
        return found or self.unknown("no primitive has this name", token, by_name, fix)

    def params(self) -> dict[str, Any]:
        self.expect("[")
        params: dict[str, Any] = {}
        while self.next.text != "]":
            name = self.take("name", "a parameter or ']'")
            self.expect("=")
            params[name] = self.value()
        self.expect("]")
        return params

    def type(self) -> ShapedArray:
        token = self.next
        found = self.types.get(token.text)
        if found is not None and token.kind == "type":
            self.position += 1
            return found
        text, _, varying = self.take("type", "a type such as f32[2,3]").partition("{V:")
        name, dims = text.removesuffix("*")[:-1].split("[")
        try:
            shape = self.shape(dims) if dims else ()
            vma = frozenset(varying.strip("()}").split(",")) if varying else frozenset[str]()
            aval = ShapedArray(shape, dtypes.from_short_name(name), text.endswith("*"), vma)
        except ValueError:
            fix = "Write a short dtype and the lengths of the axes, as in f32[2,3]."
            self.fail("this is no type", fix, token)
        self.types[token.text] = aval
        return aval

    def shape(self, text: str) -> tuple[Any, ...]:
        if text.replace(",", "").isdigit():
            return tuple(map(int, text.split(",")))
        return parse_dims(text, self.size)

    # --- Operands and values of parameters

    def at_operand(self) -> bool:
        token = self.next
        if token.kind == "name":  # a name and a colon begin the next equation
            return token.text != "in" and self.tokens[self.position + 1].text != ":"
        return token.kind in ("number", "word") or token.text == "<"

    def operand(self, env: _Env) -> Atom:
        token = self.next
        if token.kind in ("number", "word"):
            return self.literal()
        if token.text == "<":
            fix = "Make the array an input of the jaxpr."
            self.fail("this literal is an array, whose numbers are not printed", fix)
        name = self.take("name", "a variable or a literal such as 2.0:f32[]")
        fix = "Bind it before its use; a jaxpr sees only its own inputs and results."
        return env.get(name) or self.unknown("this variable is not bound here", token, env, fix)

    def literal(self) -> Literal:
        token = self.next
        value = self.value()
        self.expect(":")
        aval = self.type()
        try:
            if aval.shape:
                raise ValueError("literals have shape ()")
            return Literal(_scalar(value, aval), aval)
        except (ValueError, OverflowError, TypeError) as error:
            fix = f"Write a scalar of its type ({error})."
            self.fail(f"no literal of type {self.tokens[self.position - 1].text} has this value", fix, token)

    def value(self) -> Any:
        token = self.next
        match token.kind, token.text:
            case "number", text:
                self.position += 1
                return _number(text)
            case "word", text:
                self.position += 1
                return _WORDS[text]
            case "string", text:
                self.position += 1
                return ast.literal_eval(text)
            case "type", _:
                return self.type()
            case "size", text:
                self.position += 1
                return parse_dims(text.strip("|"), self.size)[0]
            case "dtype", _:
                return self.extended_dtype()
            case "name", _:
                return self.named()
            case _, "(":
                return tuple(self.group(self.value))
            case _, "{":
                return self.jaxpr()
            case _, "<":
                fix = "Give its class to register_param_type before printing, or build the jaxpr in Python."
                self.fail("this parameter has no text, only a repr", fix)
            case _:
                fix = "Values are numbers, strings, dtypes, types, jaxprs, tuples and registered classes."
                self.fail("expected a parameter's value", fix)

    def extended_dtype(self) -> dtypes.DType:
        token = self.advance()
        try:
            return dtypes.from_short_name(token.text)
        except ValueError:
            self.fail("no dtype has this name", "Define it first: extended dtypes are known by name.", token)

    def named(self) -> Any:
        """A dtype, or an instance of a registered class."""
        token = self.advance()
        if token.text in DTYPES_BY_NAME:
            return DTYPES_BY_NAME[token.text]
        cls = param_types.get(token.text)
        if cls is None:
            fix, known = "Give its class to register_param_type.", [*DTYPES_BY_NAME, *param_types]
            self.unknown("no dtype or parameter type has this name", token, known, fix)
        if issubclass(cls, enum.Enum):
            return self.member(cls)
        fields = dict(self.group(self.field))
        if tuple(fields) != field_names(cls):
            fix = f"Its fields are {', '.join(field_names(cls))}."
            self.fail(f"{token.text} has other fields", fix, token)
        return cls(**fields)

    def field(self) -> tuple[str, Any]:
        name = self.take("name", "the name of a field")
        self.expect("=")
        return name, self.value()

    def member(self, cls: type[enum.Enum]) -> enum.Enum:
        self.expect(".")
        token, members = self.next, cls.__members__
        name = self.take("name", f"a member of {cls.__name__}")
        if name not in members:
            fix = f"Its members are {', '.join(members)}."
            self.unknown(f"{cls.__name__} has no such member", token, members, fix)
        return members[name]
