"""The operators and methods of arrays, attached to `Array`: concrete arrays and tracers share one
implementation.

Operators are made from the ufuncs; a method that means the same as a function *is* that function. The names
are declared for type checkers in `core/value.py`; a test holds both lists together.
Read next: `ufunc.py` (how an operator finds what to do), `indexing.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.errors import api_boundary, message, strip_internal_frames
from didax.core.value import Array
from didax.numpy import indexing, linear, manipulation, reductions, selection, ufuncs
from didax.numpy.promotion import DTypeLike, as_operand
from didax.numpy.ufunc import binary_operator, reflected_operator, unary_operator
from didax.primitives.convert import bitcast_convert_type_p
from didax.primitives.shape import reshape

BINARY = {
    "add": ufuncs.add,
    "sub": ufuncs.subtract,
    "mul": ufuncs.multiply,
    "truediv": ufuncs.divide,
    "floordiv": ufuncs.floor_divide,
    "mod": ufuncs.remainder,
    "and": ufuncs.bitwise_and,
    "or": ufuncs.bitwise_or,
    "xor": ufuncs.bitwise_xor,
    "lshift": ufuncs.left_shift,
    "rshift": ufuncs.right_shift,
}
COMPARISONS = {
    "eq": ufuncs.equal,
    "ne": ufuncs.not_equal,
    "lt": ufuncs.less,
    "le": ufuncs.less_equal,
    "gt": ufuncs.greater,
    "ge": ufuncs.greater_equal,
}
UNARY = {"neg": ufuncs.negative, "pos": ufuncs.positive, "abs": ufuncs.absolute, "invert": ufuncs.invert}
FUNCTIONS = {  # two-operand functions that are no ufuncs
    "pow": ufuncs.power, "matmul": linear.matmul, "divmod": ufuncs.divmod,
}  # fmt: skip
METHODS = {
    "all": reductions.all,
    "any": reductions.any,
    "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "argpartition": selection.argpartition,
    "argsort": selection.argsort,
    "astype": manipulation.astype,
    "clip": ufuncs.clip,
    "cumprod": reductions.cumprod,
    "cumsum": reductions.cumsum,
    "diagonal": manipulation.diagonal,
    "dot": linear.dot,
    "max": reductions.max,
    "mean": reductions.mean,
    "min": reductions.min,
    "nonzero": selection.nonzero,
    "prod": reductions.prod,
    "ptp": reductions.ptp,
    "ravel": manipulation.ravel,
    "flatten": manipulation.ravel,
    "repeat": manipulation.repeat,
    "round": ufuncs.round,
    "searchsorted": selection.searchsorted,
    "sort": selection.sort,
    "squeeze": manipulation.squeeze,
    "std": reductions.std,
    "sum": reductions.sum,
    "swapaxes": manipulation.swapaxes,
    "take": selection.take,
    "trace": linear.trace,
    "var": reductions.var,
}


def _operator_of(function: Any) -> Any:
    """A two-operand function as an operator: NotImplemented for what is no operand."""

    def operator(self: Any, other: Any) -> Any:
        try:
            return NotImplemented if as_operand(other) is None else function(self, other)
        except Exception as error:
            strip_internal_frames(error)
            raise

    return operator


def _reflected(function: Any) -> Any:
    return _operator_of(lambda self, other: function(other, self))


# --- methods that are not functions of the same name --------------------------------------------------------


@api_boundary
def _reshape(self: Array, *shape: Any, order: str = "C") -> Array:
    """`dnp.reshape`, the lengths also as separate arguments."""
    return manipulation.reshape(self, shape[0] if len(shape) == 1 else shape, order)


@api_boundary
def _transpose(self: Array, *axes: Any) -> Array:
    """`dnp.transpose`, the axes also as separate arguments."""
    if len(axes) == 1 and (axes[0] is None or hasattr(axes[0], "__len__")):
        return manipulation.transpose(self, axes[0])
    return manipulation.transpose(self, axes or None)


@api_boundary
def _view(self: Array, dtype: DTypeLike = None) -> Array:
    """The same bytes read as another dtype; the last axis grows or shrinks with the size of the elements."""
    if dtype is None:
        return self
    new, old = dtypes.dtype(dtype), self.dtype
    if np.bool_ in (new, old) or (not self.ndim and new.itemsize != old.itemsize):
        raise TypeError(
            message(
                "view reads bytes as another dtype; not as bool, and scalars only as one of the same size.",
                f"array: {self.aval}, dtype: {new.name}",
                fix="Convert the values with astype instead.",
            )
        )
    ratio = new.itemsize // old.itemsize
    x = reshape(self, (*self.shape[:-1], self.shape[-1] // ratio, ratio)) if ratio > 1 else self
    out = bitcast_convert_type_p.bind(x, new_dtype=new)
    return (
        reshape(out, (*self.shape[:-1], self.shape[-1] * old.itemsize // new.itemsize)) if self.ndim else out
    )


def _copy(self: Array) -> Array:
    """The array itself: nobody can write to it."""
    return self


@api_boundary
def _item(self: Array, *args: Any) -> Any:
    """The only element, or the one at an index, as a Python scalar."""
    return np.asarray(self).item(*args)


@api_boundary
def _tolist(self: Array) -> Any:
    """Nested lists of Python scalars."""
    return np.asarray(self).tolist()


@api_boundary
def _tobytes(self: Array, order: str = "C") -> bytes:
    """The elements' bytes in row-major order."""
    return np.asarray(self).tobytes(order)  # type: ignore[arg-type]


def _length(self: Array) -> int:
    if not self.aval.ndim:
        raise TypeError(
            message(
                "An array without axes has no length.", f"array: {self.aval}", fix="Use x.size, or x[None]."
            )
        )
    return self.aval.shape[0]


def _iterate(self: Array) -> Iterator[Array]:
    if not self.aval.ndim:
        raise TypeError(
            message(
                "An array without axes has no elements to run over.",
                f"array: {self.aval}",
                fix="Use x.item().",
            )
        )
    return iter(manipulation.unstack(self))


def _contains(self: Array, element: Any) -> bool:
    return bool(reductions.any(ufuncs.equal(self, element)))


def _set_item(self: Array, index: Any, value: Any) -> None:
    raise TypeError(
        message(
            "Arrays are immutable: elements cannot be assigned.",
            f"array: {self.aval}",
            fix="Write x = x.at[i].set(v), which gives a changed array (.add, .multiply, .max likewise).",
        )
    )


def _round_operator(self: Array, ndigits: int | None = None) -> Any:
    return (
        int(ufuncs.round(self))
        if ndigits is None and not self.aval.ndim
        else ufuncs.round(self, ndigits or 0)
    )


OTHERS = {
    "reshape": _reshape,
    "transpose": _transpose,
    "view": _view,
    "copy": _copy,
    "item": _item,
    "tolist": _tolist,
    "tobytes": _tobytes,
    "conj": unary_operator(ufuncs.conj, "conj"),
    "conjugate": unary_operator(ufuncs.conj, "conjugate"),
    "__len__": _length,
    "__iter__": _iterate,
    "__contains__": _contains,
    "__getitem__": indexing.getitem,
    "__setitem__": _set_item,
    "__round__": _round_operator,
}
PROPERTIES = {
    "T": manipulation.transpose,
    "mT": manipulation.matrix_transpose,
    "at": indexing.at,
    "real": unary_operator(ufuncs.real, "real"),
    "imag": unary_operator(ufuncs.imag, "imag"),
}


def attach() -> None:
    """Give arrays their operators, methods and properties."""
    attributes: dict[str, Any] = {**METHODS, **OTHERS}
    attributes |= {
        f"__{name}__": binary_operator(f, f"__{name}__") for name, f in (BINARY | COMPARISONS).items()
    }
    attributes |= {f"__r{name}__": reflected_operator(f, f"__r{name}__") for name, f in BINARY.items()}
    attributes |= {f"__{name}__": unary_operator(f, f"__{name}__") for name, f in UNARY.items()}
    attributes |= {f"__{name}__": _operator_of(f) for name, f in FUNCTIONS.items()}
    attributes |= {f"__r{name}__": _reflected(f) for name, f in FUNCTIONS.items()}
    attributes |= {name: property(f) for name, f in PROPERTIES.items()}
    for name, value in attributes.items():
        setattr(Array, name, value)


attach()
