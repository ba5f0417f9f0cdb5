"""Effects: what an operation does besides computing its results.

An operation with effects is kept even if nothing uses its results. It is never merged with an equal operation, and
never moved out of a loop. Operations with *ordered* effects also keep their order: a token is threaded through them in
the compiled program. `Primitive.effects` says which effects an application has, `Jaxpr.effects` those of a
whole program. Read next: `didax/passes/simplify.py` (what keeps them), `didax/primitives/callback.py` (what has them).
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, cast


class Effect(NamedTuple):
    """A kind of effect; two of one name and order are the same."""

    name: str
    ordered: bool = False

    def __str__(self) -> str:
        return f"ordered {self.name}" if self.ordered else self.name


class DebugEffect(Effect):
    """The effect of what shows values: prints and debug callbacks. All of them keep the order of the program."""

    __slots__ = ()


class OrderedDebugEffect(DebugEffect):
    """What JAX calls the effect of debug callbacks with `ordered=True`: here that of all."""

    __slots__ = ()


# Always ordered: values that are shown out of order mislead.
DEBUG = OrderedDebugEffect("debug", ordered=True)
# Keeps an operation, and its copies, as they are; it does nothing that elements which take no part would notice.
KEPT = Effect("kept")
# Shows how far a program is. It may happen for elements of a batch that take no part, for which others must not.
REPORT = OrderedDebugEffect("report", ordered=True)

Effects = frozenset[Effect]
NO_EFFECTS: Effects = frozenset()


def effects_within(value: Any) -> Effects:
    """Effects of the jaxprs in a parameter's value: itself, or in tuples and dataclasses."""
    if isinstance(value, tuple):
        return NO_EFFECTS.union(*map(effects_within, cast("tuple[Any, ...]", value)))
    if isinstance(value, type):
        return NO_EFFECTS
    found = getattr(value, "effects", NO_EFFECTS)
    if not dataclasses.is_dataclass(value):
        return cast("Effects", found) if isinstance(found, frozenset) else NO_EFFECTS
    return NO_EFFECTS.union(*[effects_within(getattr(value, f.name)) for f in dataclasses.fields(value)])
