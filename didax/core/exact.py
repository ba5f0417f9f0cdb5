"""Keys of caches that compare numbers by type and bits.

Python's `==` does not distinguish 0.0 from -0.0, nor 1 from 1.0 and True, and a NaN differs from itself. A program
depends on the static numbers in it bit for bit, so a cache of programs whose keys hold such numbers puts `exact(value)`
into the key. Objects of other classes are compared by their own `==`, except that dataclasses with the generated `==`
are compared field by field.
"""

from __future__ import annotations

import dataclasses
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from didax.core import pytree

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
        try:
            return hash(self._key)
        except TypeError:
            # A dataclass that holds lists has a hash of its own: equal values have equal ones.
            return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


def exact(value: Any) -> Any:
    """What a key holds for the value, beside its type: the value itself where `==` is exact for values of its type.

    >>> exact(0.0) == exact(-0.0), exact((1,)) == exact((True,)), exact(float("nan")) == exact(float("nan"))
    (False, False, True)
    """
    if isinstance(value, (*_FLOATS, tuple, frozenset)) or hasattr(
        cast(Any, type(value)), "__dataclass_fields__"
    ):
        return Exact(value)
    return value


def has_hashable_fields(value: Any) -> bool:
    """Whether the fields of a dataclass have hashes; a class that hashes itself may hold lists."""
    try:
        hash(_key(value))
    except TypeError:
        return False
    return True


def value_of(stands: Any) -> Any:
    """The value that was given to `exact`; the inverse of `exact`."""
    return stands.value if type(stands) is Exact else stands


def holds_floats(value: Any) -> bool:
    """Whether there are floating-point numbers in a value, or in a tuple of such."""
    if isinstance(value, tuple):
        return any(map(holds_floats, cast("tuple[Any, ...]", value)))
    return isinstance(value, _FLOATS)


class ExactMetadata(Exact):
    """Metadata of a pytree node in a key: equal to other metadata of the same types and bits, wrapped or not."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's scalars leave the comparison to this class

    def __eq__(self, other: object) -> bool:
        if other is self.value:
            return True
        return self._key == (other._key if isinstance(other, Exact) else _key(other))

    def __hash__(self) -> int:
        return hash(self.value)


def exact_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key under which a cache keeps something, where structures of pytrees may be parts of the key.

    The keys that are looked for stay as they are: `exact_structure` is needed on one side of a comparison.
    """
    return tuple([exact_structure(part) if hasattr(part, "node_data") else part for part in key])


def exact_structure(treedef: Any) -> Any:
    """An equal structure whose metadata, and whose keys of dicts, are compared by type and bits.

    >>> zero, minus = pytree.structure({0.0: 1}), pytree.structure({-0.0: 1})
    >>> zero == minus, exact_structure(zero) == minus, exact_structure(zero) == pytree.structure({0.0: 2})
    (True, False, True)
    """
    if (data := treedef.node_data()) is None:  # a leaf
        return treedef
    kind, metadata = cast(tuple[Any, Any], data)
    children = treedef.children()
    kept = [
        child if child.num_leaves == child.num_nodes == 1 else exact_structure(child) for child in children
    ]
    if kind is dict:
        named: Any = [ExactMetadata(name) if _holds_numbers(name) else name for name in metadata]
        wrapped = any(type(name) is ExactMetadata for name in named)
    else:
        wrapped = metadata is not None and _holds_numbers(metadata)
        named = ExactMetadata(metadata) if wrapped else metadata
    if not wrapped and all(a is b for a, b in zip(kept, children, strict=True)):
        return treedef
    return pytree.with_children(kind, named, kept)


def _holds_numbers(value: Any) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return any(map(_holds_numbers, cast("tuple[Any, ...]", value)))
    return isinstance(value, (int, *_FLOATS, np.generic)) or hasattr(
        cast(Any, type(value)), "__dataclass_fields__"
    )


def _key(value: Any) -> Any:
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]  # a cast would be a call
    if kind in _EQUAL_BY_BITS:  # first: the most frequent, and nothing else has to be asked
        return kind, value
    if kind is float and value == value and value != 0:
        return float, value
    if isinstance(value, tuple):
        return kind, *map(_key, cast("tuple[Any, ...]", value))
    if (names := _compared_fields.get(kind)) is not None:
        return kind, *[_key(getattr(value, name)) for name in names]
    if kind is list:
        return [_key(item) for item in cast("list[Any]", value)]
    if isinstance(value, frozenset):
        return kind, frozenset(map(_key, cast("frozenset[Any]", value)))
    if issubclass(kind, _FLOATS):  # `==` fails for NaN, and for zeros of different signs
        return kind, repr(value) if value != value or 0 in (value, value.real, value.imag) else value
    if is_compared_by_fields(kind):
        _compared_fields[kind] = tuple(
            [field.name for field in dataclasses.fields(cast(Any, value)) if field.compare]
        )
        return _key(value)
    return kind, value


# Values of these types that are equal, and of one type, are the same.
_EQUAL_BY_BITS = frozenset([bool, int, str, bytes, type(None)])
# The fields of dataclasses that `==` compares, looked up once.
_compared_fields: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()


def is_compared_by_fields(kind: Any) -> bool:
    """Whether `==` of a class is what `dataclasses.dataclass` made, which compares the fields."""
    if "__dataclass_params__" not in kind.__dict__:
        return False
    code = getattr(kind.__dict__.get("__eq__"), "__code__", None)
    return code is not None and code.co_filename == "<string>"  # not a line of the user's
