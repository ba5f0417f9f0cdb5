"""Checks of the operands of elementwise primitives; their errors name the function of `didax.numpy` that promotes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.errors import MissingRuleError, message
from didax.transforms.transpose import is_undef

_KINDS = {"b": "bool", "i": "signed integer", "u": "unsigned integer", "f": "floating point", "c": "complex",
          "x": "extended"}  # fmt: skip
_NUMPY_NAMES = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "rem": "fmod", "pow": "power",
    "max": "maximum", "min": "minimum", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "atan2": "arctan2", "nextafter": "nextafter",
}  # fmt: skip


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
