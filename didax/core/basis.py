"""What every interpreter needs of the primitives, by meaning instead of by name.

Tangent spaces have a zero and a sum; batching moves and makes axes; checks are conditions on values, and their failures
are chosen among. Interpreters know no primitive, so the primitives floor installs these few operations here when it is
loaded (`didax/primitives/__init__.py`).
Also here: `Zero`, the symbolic zero (a tangent or cotangent that is known to vanish and is never allocated).
"""

from __future__ import annotations

from typing import Any, Protocol

from didax.core.avals import ShapedArray


class Zero:
    """A tangent or cotangent known to be zero; `aval` is its type."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


class Basis(Protocol):
    """The operations the primitives floor provides."""

    def zeros(self, aval: ShapedArray) -> Any:
        """An array of zeros of that type (None-like float0 zeros for float0)."""
        ...

    def add(self, x: Any, y: Any) -> Any:
        """Sum of two tangents or cotangents of one type."""
        ...

    def move_axis(self, x: Any, source: int, destination: int) -> Any:
        """Move one axis."""
        ...

    def broadcast_axis(self, x: Any, size: int, axis: int) -> Any:
        """Insert an axis of that size, repeating `x` along it."""
        ...

    def convert(self, x: Any, dtype: Any, weak_type: bool) -> Any:
        """`x` in another dtype, or of another weak type."""
        ...

    def match_varying(self, x: Any, aval: ShapedArray) -> Any:
        """A tangent or cotangent that varies along the manual axes that its type says; see `primitives/varying.py`."""
        ...

    def select(self, condition: Any, on_true: Any, on_false: Any) -> Any:
        """One of two arrays, by a bool scalar."""
        ...

    def check(self, condition: Any) -> None:
        """Raise unless a condition (`passes/checkify.py`) holds."""
        ...

    def no_nan(self, x: Any) -> Any:
        """Whether each element is a number."""
        ...


class _Installed:
    """Holder of the installed `Basis`; attribute access fails with a hint before the primitives are loaded."""

    def install(self, implementation: Basis) -> None:
        self.zeros = implementation.zeros
        self.add = implementation.add
        self.move_axis = implementation.move_axis
        self.broadcast_axis = implementation.broadcast_axis
        self.convert = implementation.convert
        self.match_varying = implementation.match_varying
        self.select = implementation.select
        self.check = implementation.check
        self.no_nan = implementation.no_nan


basis = _Installed()


def instantiate(x: Any) -> Any:
    """An array for a symbolic zero; anything else as it is."""
    if type(x) is not Zero:
        return x
    zeros = basis.zeros(x.aval)
    return basis.match_varying(zeros, x.aval) if x.aval.vma else zeros


def add_tangents(x: Any, y: Any) -> Any:
    """Sum of two tangents, either of which may be a symbolic zero."""
    if type(x) is Zero:
        return y
    return x if type(y) is Zero else basis.add(x, y)
