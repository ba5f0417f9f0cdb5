"""`Array`, the public type of every array value: concrete arrays and tracers alike are instances.

This class fixes what an array *is* here: a value with an `aval`. What one can *do* with it, the operators and methods
of ndarray, is declared in `array_methods.py`. The NumPy layer defines it: `didax/numpy/array_methods.py` attaches it
to this class, so that concrete arrays and tracers share one implementation.
Read next: `tracing.py` (tracers), `didax/runtime/array.py` (concrete arrays).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from didax.core.avals import ShapedArray

if TYPE_CHECKING:
    from didax.core.array_methods import ArrayMethods
else:
    ArrayMethods = object


class Array(ArrayMethods):
    """An immutable n-dimensional array of one dtype, either concrete or being traced."""

    __slots__ = ("aval",)
    aval: ShapedArray
    # NumPy leaves `ndarray + Array` to us: promotion follows our lattice. There is no `__array_ufunc__` on purpose:
    # a function of NumPy's, np.sin(x), works on the numbers of x (`__array__`) and returns what NumPy returns.
    __array_priority__ = 1000

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.aval.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        """True when the dtype was not stated by anyone, as for Python scalars."""
        return self.aval.weak_type

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.aval.size * self.aval.dtype.itemsize

    GIVEN_BY = "didax.numpy.array_methods"  # its operators and methods: the core knows no NumPy (`given.py`)
