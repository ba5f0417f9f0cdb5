"""Checks of elementwise primitives: of their declarations, and of their operands.

The errors about operands name the function of `didax.numpy` that promotes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.errors import MissingRuleError, message
from didax.primitives.holes import NOT_DIFFERENTIABLE, NOT_LINEAR
from didax.transforms.transpose import is_undef

_KINDS = {"b": "bool", "i": "signed integer", "u": "unsigned integer", "f": "floating point", "c": "complex",
          "x": "extended"}  # fmt: skip
_NUMPY_NAMES = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "rem": "fmod", "pow": "power",
    "max": "maximum", "min": "minimum", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "atan2": "arctan2", "nextafter": "nextafter",
}  # fmt: skip
UNSTATED: Any = object()  # stands for the jvp rule of an operand where a declaration has none
NO_JVP = "it was declared without `jvp`; jvp=None says that the derivative is zero"


def declared(
    name: str, arity: int, accepts: str, jvp: Any, transpose: Any, out_dtype: Any
) -> tuple[tuple[Any, ...], dict[str, str]]:
    """The jvp rules of an elementwise primitive, one for each operand, and the reasons of rules that it lacks."""
    _check_kinds(name, accepts)
    _check_rules(name, arity, "jvp", jvp)
    jvps = tuple([None if rule is UNSTATED else rule for rule in jvp])
    holes: dict[str, str] = {}
    if transpose is None:
        holes["transpose"] = NOT_LINEAR if any(jvps) else NOT_DIFFERENTIABLE
    else:
        _check_rules(name, arity, "transpose", transpose)
    if UNSTATED in jvp and out_dtype is None and ("f" in accepts or "c" in accepts):
        holes["jvp"] = NO_JVP
    return jvps, holes


def _check_kinds(name: str, accepts: str) -> None:
    """ValueError for letters that name no kind of dtypes."""
    if unknown := sorted(set(accepts) - set(_KINDS)):
        raise ValueError(
            message(
                "`accepts` has a letter for each kind of dtypes that an operation takes.",
                f"accepts: {accepts!r} of {name!r}, letters of no kind: {', '.join(unknown)}",
                fix="Use b (bool), i and u (signed and unsigned integers), f (floats), c (complex numbers).",
            )
        )


def _check_rules(name: str, arity: int, rule: str, given: Any) -> None:
    """TypeError unless there is a function, or None, for each operand."""
    entries: Sequence[Any] = given if isinstance(given, (tuple, list)) else ()
    if len(entries) == arity and all(x is None or x is UNSTATED or callable(x) for x in entries):
        return
    shown: Any = next(iter(entries), given) if arity == 1 else given
    functions = "the function itself" if arity == 1 else f"a tuple of {arity} functions"
    raise TypeError(
        message(
            "An elementwise operation has one rule for each of its operands: a function, or None.",
            f"{rule} of {name!r}: {shown!r:.100}",
            f"operands: {arity}",
            fix=f"Pass {functions}, with None in place of the rule of an operand that has no share.",
        )
    )


def _promoting(name: str) -> str:
    """The function of `didax.numpy` that does what a primitive does, after promotion."""
    return f"didax.numpy.{_NUMPY_NAMES[name]}" if name in _NUMPY_NAMES else "didax.numpy"


def check_dtypes(name: str, accepts: str, avals: Sequence[ShapedArray]) -> None:
    """TypeError unless the operands have one dtype, of a kind that the primitive of this name accepts."""
    dtype = avals[0].dtype
    for aval in avals[1:]:
        if aval.dtype != dtype:
            fix = f"Cast one of them (x.astype), or use {_promoting(name)}, which promotes."
            raise operand_error(name, "takes operands of one dtype", avals, fix)
    if dtypes.kind_of(dtype) not in accepts:
        kinds = ", ".join(_KINDS[k] for k in accepts)
        raise operand_error(name, f"takes {kinds} operands", avals, "Cast the operands (x.astype).")


def operand_error(name: str, rule: str, avals: Sequence[ShapedArray], fix: str) -> TypeError:
    """The error for operands of these types."""
    return TypeError(message(f"{name} {rule}.", f"operands: {', '.join(map(str, avals))}", fix=fix))


def not_linear(name: str, ct: Any, *args: Any, **params: Any) -> NoReturn:
    """The transpose of an operand in which the primitive is not linear."""
    operands = [i for i, x in enumerate(args) if is_undef(x)]
    raise MissingRuleError(
        message(
            f"{name} cannot be transposed: it is not linear in each of its operands.",
            f"operands that are to be transposed: {', '.join(map(str, operands))}",
            fix="Keep it out of functions that are transposed.",
        )
    )
