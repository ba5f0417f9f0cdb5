"""What a type says of an array inside `shard_map`: `ManualAxisType`, which few programs ask for.

Read next: `avals.py`, whose `vma` it shows.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Set
from typing import Any, cast

from didax.core.errors import message

_NONE: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ManualAxisType:
    """How the values that devices have of an array inside `shard_map` are related, by the names of manual mesh axes.

    Along `varying` axes they may differ. `unreduced` and `reduced` are further kinds of JAX's, which no type has here.

    >>> ManualAxisType(varying={"x"})
    ManualAxisType(varying=frozenset({'x'}), unreduced=frozenset(), reduced=frozenset())
    """

    varying: Set[str] = _NONE
    unreduced: Set[str] = _NONE
    reduced: Set[str] = _NONE

    def __post_init__(self) -> None:
        given: dict[str, Any] = {name: getattr(self, name) for name in ("varying", "unreduced", "reduced")}
        for name, axes in given.items():
            if not isinstance(axes, Iterable) or {type(axis) for axis in cast("Iterable[Any]", axes)} - {str}:
                rule, facts = "The mesh axes of each kind are a set of names.", f"{name}: {axes!r:.100}"
                raise TypeError(message(rule, facts, fix="Pass a set of strings."))
        kinds = {name: frozenset(axes) for name, axes in given.items()}
        for name, axes in kinds.items():
            object.__setattr__(self, name, axes)
        for one, other in itertools.combinations(kinds, 2):
            if kinds[one] & kinds[other]:
                facts = f"{one}: {set(kinds[one])}, {other}: {set(kinds[other])}"
                raise ValueError(message("A mesh axis is of one kind.", facts, fix="Name each axis once."))

    def update(self, **kinds: Set[str]) -> ManualAxisType:
        """The same with the axes of some kinds replaced."""
        return dataclasses.replace(self, **kinds)
