"""The operators and methods of arrays, attached to `Array`: concrete arrays and tracers share one implementation.

Operators are made from the ufuncs. Methods with the meaning of a function call it. Names are declared for type checkers
in `core/value.py`; a test holds both lists together.
Read next: `ufunc.py` (how an operator finds what to do).
"""

from __future__ import annotations

from typing import Any

from didax.core.value import Array
from didax.numpy import ufuncs
from didax.numpy.ufunc import binary_operator, reflected_operator, unary_operator

BINARY = {
    "add": ufuncs.add, "sub": ufuncs.subtract, "mul": ufuncs.multiply, "truediv": ufuncs.divide,
    "floordiv": ufuncs.floor_divide, "mod": ufuncs.remainder, "and": ufuncs.bitwise_and, "or": ufuncs.bitwise_or,
    "xor": ufuncs.bitwise_xor, "lshift": ufuncs.left_shift, "rshift": ufuncs.right_shift,
}  # fmt: skip
COMPARISONS = {
    "eq": ufuncs.equal, "ne": ufuncs.not_equal, "lt": ufuncs.less, "le": ufuncs.less_equal, "gt": ufuncs.greater,
    "ge": ufuncs.greater_equal,
}  # fmt: skip
UNARY = {"neg": ufuncs.negative, "pos": ufuncs.positive, "abs": ufuncs.absolute, "invert": ufuncs.invert}


def attach(name: str, value: Any) -> None:
    """Give every array an attribute."""
    setattr(Array, name, value)


def attach_operators() -> None:
    """Arithmetic, comparison, logic: `x + y` and the others."""
    for name, function in (BINARY | COMPARISONS).items():
        attach(f"__{name}__", binary_operator(function, f"__{name}__"))
    for name, function in BINARY.items():
        attach(f"__r{name}__", reflected_operator(function, f"__r{name}__"))
    for name, function in UNARY.items():
        attach(f"__{name}__", unary_operator(function, f"__{name}__"))


attach_operators()
