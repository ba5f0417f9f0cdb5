"""Abstract values: what is known of an array before its numbers are.

`ShapedArray` is a shape, a dtype and a weak-type flag. Equal ones are the same object ("interned"), so comparing types,
hashing them in cache keys and looking up rules by them costs as much as comparing pointers.
`aval_of(x)` types any value a primitive accepts: arrays and tracers (which carry an `aval`), NumPy arrays and scalars,
Python scalars. Read next: `dtypes.py` (promotion), `tracing.py` (values in flight).
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from didax.core import config, dtypes
from didax.core.changed_types import ChangedTypes, dims_text, varying_text
from didax.core.dims import Dim, as_length
from didax.core.errors import message
from didax.core.given import given_by
from didax.core.masked import check_no_mask

_NOWHERE: frozenset[str] = frozenset()


class ShapedArray(ChangedTypes):
    """The type of an array: `shape`, `dtype`, `weak_type`, `vma` and `layout`. Compared by identity.

    Inside `shard_map` each device has a value of its own; `vma` names the manual mesh axes along which the devices'
    values may differ ("varying manual axes"). `layout` is how the array is split over explicit mesh axes, or None
    (`device_types.py`).

    >>> ShapedArray((2, 3), np.dtype("float32"))
    float32[2,3]
    """

    __slots__ = (
        "__weakref__", "_hlo", "dtype", "layout", "ndim", "physical", "shape", "size", "vma", "weak_type",
    )  # fmt: skip
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak_type: bool
    vma: frozenset[str]
    layout: Any
    ndim: int
    size: int
    physical: ShapedArray
    """The type of the array of numbers behind this one: itself, unless the dtype is an extended one."""

    def __new__(
        cls,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        weak_type: bool = False,
        vma: frozenset[str] = _NOWHERE,
        sharding: Any = None,
    ) -> ShapedArray:
        shape = shape if type(shape) is tuple else tuple(shape)
        layout = None if sharding is None else sharding.in_types(len(shape))
        key = (shape, dtype, weak_type, vma, layout)
        found = _interned.get(key)
        if found is not None:
            return found
        if isinstance(dtype, type | str):  # pyright: ignore[reportUnnecessaryIsInstance]
            return ShapedArray(shape, dtypes.dtype(dtype), weak_type, vma, layout)
        self = object.__new__(cls)
        self.shape, self.dtype, self.weak_type = tuple(map(as_length, shape)), dtype, weak_type
        self.ndim, self.size, self.vma, self.layout = len(shape), math.prod(shape), vma, layout
        self._hlo, self.physical = None, self  # the type's StableHLO text is filled in by the writer
        if (extended := dtypes.as_extended(dtype)) is not None:
            shape = (*self.shape, *extended.element_shape)
            self.physical = ShapedArray(shape, extended.element_dtype, vma=vma)
        return _interned.setdefault(key, self)

    def __reduce__(self) -> Any:
        return ShapedArray, (self.shape, self.dtype, self.weak_type, self.vma, self.layout)

    def __repr__(self) -> str:
        return f"{dtypes.dtype_name(self.dtype)}[{dims_text(self)}]{varying_text(self)}"

    @property
    def aval(self) -> ShapedArray:
        """Itself: a type stands for an array wherever only the type matters."""
        return self

    sharding = given_by("didax.core.sharding")


# Never emptied: types are compared by identity, so there may only ever be one object for equal types.
_interned: dict[tuple[Any, ...], ShapedArray] = {}
_numpy_scalars: dict[type, ShapedArray] = {}


def _python_scalar_avals(x64: bool) -> dict[type, ShapedArray]:
    with config.override(enable_x64=x64):
        weak = {kind: ShapedArray((), dtypes.default_dtype(kind), True) for kind in (int, float, complex)}
    return {bool: ShapedArray((), np.dtype(bool)), **weak}


_python_scalars = (_python_scalar_avals(False), _python_scalar_avals(True))


def aval_of(x: Any) -> ShapedArray:
    """The abstract value of anything a primitive accepts.

    A NumPy array of 64-bit numbers takes the default width: 64 bits are NumPy's default, and may not be meant.

    >>> aval_of(2.0)
    float32[]
    """
    aval = getattr(x, "aval", None)  # with a default: no exception is made for NumPy values
    # The arrays of other libraries may have an `aval`, too.
    return aval if type(aval) is ShapedArray else _aval_of_other(x)


def aval_of_scalar(kind: type) -> ShapedArray:
    """The abstract value of Python scalars of a type, which is one of `PYTHON_SCALARS`."""
    return _python_scalars[config.state().enable_x64][kind]


def _aval_of_other(x: Any) -> ShapedArray:
    kind: Any = type(x)  # pyright: ignore[reportUnknownVariableType]  # a cast would be a call
    found = _python_scalars[config.state().enable_x64].get(kind) or _numpy_scalars.get(kind)
    if found is not None:
        return found
    if isinstance(x, np.ndarray):
        array = cast("np.ndarray[Any, Any]", x)
        if kind is not np.ndarray:
            check_no_mask(array)
        return ShapedArray(array.shape, dtypes.narrowed(dtypes.exact_dtype(array.dtype)))
    if isinstance(x, np.generic):
        dtype = dtypes.exact_dtype(cast("np.generic[Any]", x).dtype)
        return _numpy_scalars.setdefault(kind, ShapedArray((), dtype))
    if isinstance(x, Dim):  # the program computes its number
        return ShapedArray((), dtypes.default_dtype(int), True)
    rule = "Only arrays and scalars can enter an array program."
    fix = getattr(x, "how_to_read", None)
    if fix is not None:  # a Ref, which does not stand for the array that it holds
        raise TypeError(message(rule, f"got: {kind.__name__} of {x.type}", fix=fix))
    fix = "Convert it with didax.numpy.asarray; what is no data can be a static argument (static_argnums of jit)."
    raise TypeError(message(rule, f"got: {x!r:.200} of type {kind.__module__}.{kind.__qualname__}", fix=fix))


def is_array_like(x: Any) -> bool:
    """True when `aval_of(x)` has an answer."""
    try:
        return aval_of(x) is not None  # pyright: ignore[reportUnnecessaryComparison]
    except TypeError:
        return False
