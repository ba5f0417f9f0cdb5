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
    """A kind of effect; two of one name and order are the same.

    >>> str(Effect("log", ordered=True))
    'ordered log'
    """

    name: str
    ordered: bool = False

    def __str__(self) -> str:
        return f"ordered {self.name}" if self.ordered else self.name


class DebugEffect(Effect):
    """The effect of operations that show values: prints and debug callbacks. They keep the order of the program.

    >>> import didax as dx
    >>> jaxpr = dx.make_jaxpr(lambda x: dx.debug.print("{}", x))(1.0)
    >>> any(isinstance(effect, dx.debug.DebugEffect) for effect in jaxpr.jaxpr.effects)
    True
    """

    __slots__ = ()


class OrderedDebugEffect(DebugEffect):
    """What JAX calls the effect of debug callbacks with `ordered=True`: here that of all.

    >>> import didax as dx
    >>> jaxpr = dx.make_jaxpr(lambda x: dx.debug.print("{}", x))(1.0)
    >>> any(isinstance(effect, dx.debug.OrderedDebugEffect) for effect in jaxpr.jaxpr.effects)
    True
    """

    __slots__ = ()


# Always ordered: values that are shown out of order mislead.
DEBUG = OrderedDebugEffect("debug", ordered=True)
# Keeps an operation, and its copies, as they are; it does nothing that elements which take no part would notice.
KEPT = Effect("kept")
# Shows how far a program is. It may happen for elements of a batch that take no part, for which others must not.
REPORT = OrderedDebugEffect("report", ordered=True)

Effects = frozenset[Effect]
NO_EFFECTS: Effects = frozenset()


def union_within(value: Any, name: str) -> frozenset[Any]:
    """What jaxprs have under this name, such as their `effects`: those that a parameter's value is or holds.

    A value holds jaxprs in tuples and dataclasses.
    """
    if isinstance(value, tuple):
        inner: list[Any] = list(cast("tuple[Any, ...]", value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = [getattr(value, field.name) for field in dataclasses.fields(value)]
    else:
        found = None if isinstance(value, type) else getattr(value, name, None)
        return cast("frozenset[Any]", found) if isinstance(found, frozenset) else NO_EFFECTS
    return frozenset[Any]().union(*[union_within(item, name) for item in inner])
