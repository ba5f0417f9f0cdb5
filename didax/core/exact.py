"""Keys of caches that compare numbers by type and bits.

Python's `==` does not distinguish 0.0 from -0.0, nor 1 from 1.0 and True, and a NaN differs from itself. A program
depends on the static numbers in it bit for bit, so a cache of programs whose keys hold such numbers puts `exact(value)`
into the key. Objects of other classes are compared by their own `==`.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

_FLOATS = (float, complex, np.inexact)


class Exact:
    """A value, compared by type and bits."""

    __slots__ = ("_key", "value")

    def __init__(self, value: Any):
        self.value = value
        self._key = _key(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is Exact and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value)


def exact(value: Any) -> Any:
    """What a key holds for the value, beside its type: the value itself where `==` is exact for values of its type.

    >>> exact(0.0) == exact(-0.0), exact((1,)) == exact((True,)), exact(float("nan")) == exact(float("nan"))
    (False, False, True)
    """
    return Exact(value) if isinstance(value, (*_FLOATS, tuple, frozenset)) else value


def value_of(stands: Any) -> Any:
    """The value that was given to `exact`; the inverse of `exact`."""
    return stands.value if type(stands) is Exact else stands


def holds_floats(value: Any) -> bool:
    """Whether there are floating-point numbers in a value, or in a tuple of such."""
    if isinstance(value, tuple):
        return any(map(holds_floats, cast("tuple[Any, ...]", value)))
    return isinstance(value, _FLOATS)


def _key(value: Any) -> Any:
    kind = cast("type[Any]", type(value))
    if isinstance(value, tuple):
        return kind, *map(_key, cast("tuple[Any, ...]", value))
    if isinstance(value, frozenset):
        return kind, frozenset(map(_key, cast("frozenset[Any]", value)))
    if issubclass(kind, _FLOATS):  # `==` fails for NaN, and for zeros of different signs
        return kind, repr(value) if value != value or 0 in (value, value.real, value.imag) else value
    return kind, value
