"""The operators and methods of arrays, attached to `Array` so that concrete arrays and tracers share them.

The operators are made from the ufuncs; a method that means the same as a function *is* this function.
`core/array_methods.py` declares the names for type checkers; a test compares both lists. An attribute of ndarray that
an immutable array on a device cannot have (`ABSENT`) raises an AttributeError that names the replacement.
Read next: `ufunc.py` (how an operator finds what to do), `indexing.py`.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from didax.api.devices import device_put
from didax.api.jit import jit
from didax.api.results import array_function
from didax.core import config, dtypes
from didax.core.errors import (
    ArgumentError,
    TracerArrayConversionError,
    api_boundary,
    message,
    strip_internal_frames,
)
from didax.core.given import give
from didax.core.missing_names import AdvisingAttributeError
from didax.core.primitive import eager_trace
from didax.core.tracing import Tracer, known_value, set_current_trace
from didax.core.value import Array
from didax.numpy import indexing, joining, linear, manipulation, positions, reductions, selection, ufuncs
from didax.numpy.promotion import DTypeLike, as_operand
from didax.numpy.ufunc import binary_operator, reflected_operator, to_other, unary_operator
from didax.primitives.convert import bitcast_convert_type_p, copy_p
from didax.primitives.elementwise.signs_and_parts import complex_
from didax.primitives.shape import reshape
from didax.primitives.slicing import rev, slice_axis
from didax.runtime.array import ConcreteArray

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
FUNCTIONS = {  # two-operand functions that are not ufuncs
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
    "choose": positions.choose,
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
    """Make an operator of a two-operand function: NotImplemented for a non-operand or a third argument of pow."""

    def operator(self: Any, other: Any, modulus: Any = None) -> Any:
        try:
            if modulus is not None or (as_operand(other) is None and to_other(self, other)):
                return NotImplemented
            return function(self, other)
        except Exception as error:
            strip_internal_frames(error)
            raise

    return operator


def _reflected(function: Any) -> Any:
    return _operator_of(lambda self, other: function(other, self))


# --- methods that are not functions of the same name --------------------------------------------------------


@api_boundary
def _reshape(self: Array, *shape: Any, order: str = "C", out_sharding: Any = None) -> Array:
    """Return the array in another shape; the lengths may be one tuple or separate arguments."""
    more = {} if out_sharding is None else {"out_sharding": out_sharding}
    return manipulation.reshape(self, shape[0] if len(shape) == 1 else shape, order, **more)


@api_boundary
def _compress(self: Array, condition: Any, axis: int | None = None, **options: Any) -> Array:
    """Return the slices where the condition holds: `dnp.compress` with the array as the first argument."""
    return positions.compress(condition, self, axis, **options)


@api_boundary
def _transpose(self: Array, *axes: Any) -> Array:
    """Return the array with its axes permuted; the axes may be one tuple or separate arguments."""
    if len(axes) == 1 and (axes[0] is None or hasattr(axes[0], "__len__")):
        return manipulation.transpose(self, axes[0])
    return manipulation.transpose(self, axes or None)


@array_function
def _view(self: Array, dtype: DTypeLike = None, type: None = None) -> Array:
    """Return the same bytes read as another dtype; the last axis grows or shrinks with the size of the elements.

    A byte that is not 0 is True. Derivatives go through where floats stay floats of one width. `type`, NumPy's class of
    the result, must be None.
    """
    if type is not None:
        rule = "A view of an array is an array, of no other class."
        fix = "Leave type out. Another shape is x.reshape(...)."
        raise NotImplementedError(message(rule, f"type: {type!r:.200}", fix=fix))
    if dtype is None:
        return self
    new, old = dtypes.dtype(dtype), self.dtype
    if new == old:
        return self
    if not self.ndim and new.itemsize != old.itemsize:
        raise ArgumentError(
            message(
                "view reads the bytes of a scalar only as another dtype of the same size.",
                f"array: {self.aval}, dtype: {new.name}",
                fix="Convert the values with astype instead.",
            )
        )
    if dtypes.is_complex(old) or dtypes.is_complex(new):
        return _view_of_parts(self, new)
    if np.bool_ in (new, old):  # XLA does not say which bytes its booleans have
        return self.astype(np.uint8).view(new) if old == np.bool_ else self.view(np.uint8) != 0
    ratio = new.itemsize // old.itemsize
    x = reshape(self, (*self.shape[:-1], self.shape[-1] // ratio, ratio)) if ratio > 1 else self
    out = bitcast_convert_type_p.bind(x, new_dtype=new)
    return (
        reshape(out, (*self.shape[:-1], self.shape[-1] * old.itemsize // new.itemsize)) if self.ndim else out
    )


def _view_of_parts(x: Array, new: np.dtype[Any]) -> Array:
    """The bytes of complex numbers, whose two parts lie side by side, or bytes as complex numbers."""
    if not x.ndim:
        return reshape(_view_of_parts(reshape(x, (1,)), new), ())
    *rows, n = x.shape
    if dtypes.is_complex(x.dtype):
        return reshape(joining.stack([x.real, x.imag], -1), (*rows, 2 * n)).view(new)
    parts = x.view(dtypes.real_dtype(new))
    pairs = reshape(parts, (*rows, parts.shape[-1] // 2, 2))
    return complex_(pairs[..., 0], pairs[..., 1])


@array_function
def _byteswap(self: Array) -> Array:
    """Return the elements with their bytes in the opposite order."""
    if dtypes.is_complex(self.dtype):
        return complex_(_byteswap(self.real), _byteswap(self.imag))
    if self.itemsize == 1:
        return self
    swapped = rev(bitcast_convert_type_p.bind(self, new_dtype=np.dtype(np.uint8)), (self.ndim,))
    return bitcast_convert_type_p.bind(swapped, new_dtype=self.dtype)


def _copy(self: Array) -> Array:
    """Return an array with the same contents, which stays valid when this array is donated or deleted."""
    return copy_p.bind(self)


@api_boundary
def _item(self: Array, *args: Any) -> Any:
    """Return the only element, or the element at an index, as a Python scalar.

    In an eager derivative a float raises ConcretizationTypeError; under the option `as_in_jax` its derivative is lost.
    """
    if not args and self.size != 1:
        fix = "Say which, as in x.item(0) or x.item(0, 1), or use x.tolist()."
        raise ValueError(
            message("item takes the element of an array of one.", f"array: {self.aval}", fix=fix)
        )
    value = known_value(self)
    if isinstance(self, Tracer) and value is not None and not config.state().as_in_jax:
        self.check_has_no_slope("The result of item", "lax.stop_gradient(x).item()")
    return _numbers(self if value is None else value).item(*args)


@api_boundary
def _tolist(self: Array) -> Any:
    """Return the elements as nested lists of Python scalars."""
    return _numbers(self).tolist()


@api_boundary
def _tobytes(self: Array, order: str = "C") -> bytes:
    """Return the bytes of the elements in row-major order."""
    return _numbers(self).tobytes(order)  # type: ignore[arg-type]


def _numbers(x: Array) -> np.ndarray[Any, Any]:
    """Return a NumPy array of the same elements, for the methods that return Python objects."""
    if isinstance(x, Tracer) and x.known() is None:
        rule = "A traced array has no numbers to take out: they are not known while tracing."
        fix = "Keep it an array, take them out of the function's result, or show them with didax.debug.print."
        raise TracerArrayConversionError(message(rule, *x.facts(), fix=fix))
    return np.asarray(x)


def _length(self: Array) -> int:
    if not self.aval.ndim:
        raise TypeError(
            message(
                "An array without axes has no length.", f"array: {self.aval}", fix="Use x.size, or x[None]."
            )
        )
    return self.aval.shape[0]


@api_boundary
def _iterate(self: Array) -> Iterator[Array]:
    if not self.aval.ndim:
        raise TypeError(
            message(
                "An array without axes has no elements to run over.",
                f"array: {self.aval}",
                fix="Use x.item().",
            )
        )
    if isinstance(self, ConcreteArray):
        return self.rows() or _rows_by_chunk(self)
    return iter(joining.unstack(self))


_CHUNK = 100  # number of rows that one compiled program splits off
_split = jit(lambda x: joining.unstack(x))


def _rows_by_chunk(x: ConcreteArray) -> Iterator[Array]:
    """Iterate over the rows of an array on an accelerator without moving them to the host."""
    for start in range(0, x.shape[0], _CHUNK):
        with set_current_trace(eager_trace):
            rows = _split(slice_axis(x, start, min(start + _CHUNK, x.shape[0]), 0))
        yield from rows


def _reversed(self: Array) -> Iterator[Array]:
    return iter(self[::-1]) if self.aval.ndim else iter(self)


def _contains(self: Array, element: Any) -> bool:
    return bool(reductions.any(ufuncs.equal(self, element)))


def _immutable(attempt: str, fix: str) -> Any:
    """Make an operation that would write to the array: it raises the TypeError that says what to do instead."""

    @api_boundary
    def refuse(self: Array, key: Any, value: Any = None, /) -> None:
        raise TypeError(message(f"Arrays are immutable: {attempt}.", f"array: {self.aval}", fix=fix))

    return refuse


class Absent:
    """An attribute of ndarray, or of the tensors of other libraries, that these arrays lack.

    Reading it raises an AttributeError that names the replacement, so `hasattr` is False, and `dir` leaves it out.
    """

    def __init__(self, name: str, fix: str, why: str = ""):
        self.name, self.fix, self.why = name, fix, why

    @api_boundary
    def __get__(self, x: Array | None, owner: type) -> Any:
        if x is None:
            return self
        raise AdvisingAttributeError(
            message(f"Arrays have no {self.name}{self.why}.", f"array: {x.aval}", fix=self.fix)
        )


_AS_NUMPY = "Use that of a NumPy array: np.asarray(x).{name}; np.array(x) is one to write to."
ABSENT = {
    "base": _AS_NUMPY,
    "ctypes": _AS_NUMPY,
    "data": "Use memoryview(np.asarray(x)), or x.unsafe_buffer_pointer() for the address.",
    "dump": "Use pickle.dump(x, file).",
    "dumps": "Use pickle.dumps(x).",
    "fill": "Write x = didax.numpy.full_like(x, value).",
    "flags": _AS_NUMPY,
    "flat": "Use x.ravel(), and x = x.at[i].set(v) to change elements.",
    "getfield": "Use x.view(dtype), which reads the bytes as another dtype.",
    "itemset": "Write x = x.at[i].set(v).",
    "newbyteorder": _AS_NUMPY,
    "partition": "Write x = didax.numpy.partition(x, kth).",
    "put": "Write x = x.at[i].set(v), with x.ravel() for a flat index.",
    "resize": "Write x = didax.numpy.resize(x, shape).",
    "setfield": "Write x = x.at[i].set(v).",
    "setflags": "Copy it to NumPy to write to it: np.array(x).",
    "strides": _AS_NUMPY,
    "tofile": _AS_NUMPY,
    "tostring": "Use x.tobytes().",
}
"""The attributes of ndarray that are left out, each with what to write instead."""
_WHY = ": they are immutable, and where they are in memory is XLA's"

_FUNCTION = "Write what is computed as a function f, and differentiate it: didax.grad(f)(x)."
_PLACE = "Use didax.device_put(x, device) for a device, x.astype(dtype) for a dtype."
OF_TENSORS = {
    "add_": "Write x = x + y: arrays do not change.",
    "append": "Write x = didax.numpy.append(x, values), or collect arrays in a list and stack them at the end.",
    "assign": "Write x = y, or x = x.at[i].set(v) for elements: arrays do not change.",
    "backward": _FUNCTION,
    "clone": "Use x.copy(), if at all: arrays do not change.",
    "contiguous": "Leave it out.",
    "cpu": _PLACE,
    "cuda": _PLACE,
    "detach": "Use didax.lax.stop_gradient(x).",
    "dim": "Use x.ndim.",
    "double": 'Use x.astype("float64").',
    "expand": "Use didax.numpy.broadcast_to(x, shape).",
    "float": 'Use x.astype("float32"), or float(x) for a number of Python.',
    "grad": _FUNCTION,
    "half": 'Use x.astype("float16").',
    "int": 'Use x.astype("int32"), or int(x) for a number of Python.',
    "long": 'Use x.astype("int64").',
    "matmul": "Write x @ y.",
    "norm": "Use didax.numpy.linalg.norm(x).",
    "numel": "Use x.size.",
    "numpy": "Use numpy.asarray(x).",
    "permute": "Use x.transpose(*axes).",
    "relu": "Use didax.nn.relu(x).",
    "requires_grad": _FUNCTION,
    "sigmoid": "Use didax.nn.sigmoid(x).",
    "softmax": "Use didax.nn.softmax(x, axis).",
    "to": _PLACE,
    "unsqueeze": "Use didax.numpy.expand_dims(x, axis), or x[None].",
    **{name: f"Use didax.numpy.{name}(x)." for name in ("abs", "cos", "exp", "log", "sin", "sqrt", "tanh")},
}
"""Attributes of the tensors of PyTorch and TensorFlow, each with what to write instead."""

# The versions of the array API standard that didax.numpy implements.
_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


@api_boundary
def _array_namespace(self: Array, /, *, api_version: str | None = None) -> Any:
    """Return `didax.numpy`, which has the functions of the array API standard."""
    if api_version not in (None, *_API_VERSIONS):
        fix = f"Ask for one of {', '.join(_API_VERSIONS)}, or for none."
        rule = "didax.numpy keeps to some versions of the array API standard."
        raise ValueError(message(rule, f"api_version: {api_version!r}", fix=fix))
    return sys.modules["didax.numpy"]  # not imported: didax.numpy imports this module


@api_boundary
def _to_device(self: Array, device: Any, *, stream: None = None) -> Array:
    """Return the array on a device; the arguments are the arguments of `device_put`."""
    if stream is not None:
        raise ValueError(message("to_device takes no stream.", f"stream: {stream!r}", fix="Leave it out."))
    return device_put(self, device)


def _dir(self: Array) -> list[str]:
    return [name for name in object.__dir__(self) if not isinstance(getattr(type(self), name, None), Absent)]


def _round_operator(self: Array, ndigits: int | None = None) -> Any:
    rounded = ufuncs.round(self, 0 if ndigits is None else operator.index(ndigits))
    return rounded.astype(dtypes.default_dtype("i")) if ndigits is None else rounded


OTHERS = {
    "compress": _compress,
    "reshape": _reshape,
    "transpose": _transpose,
    "byteswap": _byteswap,
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
    "__setitem__": _immutable(
        "elements cannot be assigned",
        "Write x = x.at[i].set(v), which gives a changed array (.add, .multiply, .max likewise).",
    ),
    "__delitem__": _immutable("elements cannot be deleted", "Write x = didax.numpy.delete(x, i)."),
    "__reversed__": _reversed,
    "__array_namespace__": _array_namespace,
    "to_device": _to_device,
    "__round__": _round_operator,
    "__dir__": _dir,
}
PROPERTIES = {
    "T": manipulation.transpose,
    "mT": manipulation.matrix_transpose,
    "at": indexing.at,
    "real": unary_operator(ufuncs.real, "real"),
    "imag": unary_operator(ufuncs.imag, "imag"),
}


def _be_named(method: Any, name: str) -> None:
    """Give a function and the functions that it wraps the name that users know: Python shows it in errors of calls."""
    while method is not None:
        method.__name__, method.__qualname__ = name, f"Array.{name}"
        method = getattr(method, "__wrapped__", None)


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
    attributes |= {name: Absent(name, fix.format(name=name), _WHY) for name, fix in ABSENT.items()}
    attributes |= {name: Absent(name, fix) for name, fix in OF_TENSORS.items()}
    for name, value in attributes.items():
        if getattr(value, "__name__", "") == f"_{name}":
            _be_named(value, name)
        give(Array, name, __name__)(value)


attach()
