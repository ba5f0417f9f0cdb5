"""The few operations on arrays that interpreters need, whichever primitives implement them.

Tangent spaces have a zero and a sum; batching moves axes and makes new ones; checks are conditions on values.
Interpreters know no primitive by name, so the primitives floor gives these operations to `array_ops`
(`given.py`) when it is loaded (`didax/primitives/__init__.py`).
`Zero` is the symbolic zero: a tangent or cotangent that is known to vanish and is never allocated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from didax.core.avals import ShapedArray
from didax.core.given import given_by


class Zero:
    """A tangent or cotangent known to be zero; `aval` is its type.

    >>> from didax.core.avals import aval_of
    >>> Zero(aval_of(2.0).strip_weak_type())
    Zero(float32[])
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


class ArrayOps(Protocol):
    """The operations the primitives floor provides."""

    def zeros(self, aval: ShapedArray) -> Any:
        """An array of zeros of that type; for float0 a NumPy array of its one value."""
        ...

    def add(self, x: Any, y: Any) -> Any:
        """Sum of two tangents or cotangents of one type."""
        ...

    def scale(self, x: Any, number: float) -> Any:
        """`x` times a Python number, in the type of `x`."""
        ...

    def stack(self, xs: Sequence[Any]) -> Any:
        """Arrays of one type as one array, along a new last axis."""
        ...

    def unstack(self, x: Any) -> list[Any]:
        """The arrays along the last axis."""
        ...

    def move_axis(self, x: Any, source: int, destination: int) -> Any:
        """Move one axis."""
        ...

    def broadcast_axis(self, x: Any, size: int, axis: int) -> Any:
        """Insert an axis of that size, along which `x` is repeated."""
        ...

    def convert(self, x: Any, dtype: Any, weak_type: bool) -> Any:
        """`x` in another dtype, or of another weak type."""
        ...

    def match_devices(self, x: Any, aval: ShapedArray) -> Any:
        """The tangent or cotangent `x`, varying along and split over the mesh axes that the type `aval` names."""
        ...

    def with_layout(self, x: Any, layout: Any) -> Any:
        """`x` with a type that says how `x` is split over explicit mesh axes; for None, with a type that names none."""
        ...

    def in_memory(self, x: Any, kind: str) -> Any:
        """`x` in memory of that kind."""
        ...

    def select(self, condition: Any, on_true: Any, on_false: Any) -> Any:
        """`on_true` where the condition, a bool scalar, holds, and else `on_false`."""
        ...

    def check(self, condition: Any) -> None:
        """Raise unless a condition (`passes/checkify.py`) holds."""
        ...

    def no_nan(self, x: Any) -> Any:
        """For each element, whether it is a number, not a NaN."""
        ...


class _Given:
    zeros = add = scale = stack = unstack = given_by("didax.primitives")
    move_axis = broadcast_axis = convert = match_devices = with_layout = given_by("didax.primitives")
    select = check = no_nan = in_memory = given_by("didax.primitives")


array_ops: ArrayOps = _Given()


def instantiate(x: Any) -> Any:
    """An array for a symbolic zero; anything else as it is.

    >>> from didax.core.avals import aval_of
    >>> float(instantiate(Zero(aval_of(2.0).strip_weak_type())))
    0.0
    """
    if type(x) is not Zero:
        return x
    zeros = array_ops.zeros(x.aval)
    return array_ops.match_devices(zeros, x.aval) if x.aval.vma or x.aval.layout else zeros


def add_tangents(x: Any, y: Any) -> Any:
    """Sum of two tangents, either of which may be a symbolic zero.

    >>> from didax.core.avals import aval_of
    >>> add_tangents(Zero(aval_of(2.0)), 3.0)
    3.0
    """
    if type(x) is Zero:
        return y
    return x if type(y) is Zero else array_ops.add(x, y)
