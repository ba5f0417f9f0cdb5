"""`jax.experimental.hijax`: classes that libraries derive from when they are imported.

Didax has no types of values beside arrays and Refs, so what is derived can be declared and not used: making an instance
raises. Libraries that offer such types as an option (flax.nnx) work with the option off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from didax.as_jax.core_names import AbstractValue
from didax.as_jax.interpreters.ad import is_undefined_primal
from didax.core.array_ops import Zero, instantiate
from didax.core.avals import ShapedArray
from didax.core.errors import message

__all__ = [
    "AbstractValue", "AvalMutableQDD", "AvalQDD", "HiPrimitive", "HiType", "MutableHiType", "ShapedArray",
    "VJPHiPrimitive", "Zero", "aval_method", "aval_property", "control_flow_allowed_effects", "instantiate_zeros",
    "is_undefined_primal", "register_hitype",
]  # fmt: skip

instantiate_zeros = instantiate


def _refuse(kind: type) -> NotImplementedError:
    rule = f"{kind.__name__} is one of JAX's experimental types of values, which Didax has not."
    return NotImplementedError(
        message(rule, fix="Use arrays, pytrees of arrays, or a Ref; turn the library's option off.")
    )


class HiPrimitive:
    """An operation on values of other types."""

    multiple_results = False

    def __init__(self, name: str):
        self.name = name

    def bind(self, *_: Any, **__: Any) -> Any:
        """Not there."""
        raise _refuse(type(self))

    bind_with_trace = bind


class VJPHiPrimitive:
    """An operation with a rule for reverse mode."""

    def __init__(self, *_: Any, **__: Any):
        raise _refuse(type(self))


class HiType(AbstractValue):
    """A type of values."""

    def __init__(self, *_: Any, **__: Any):
        raise _refuse(type(self))


class MutableHiType(HiType):
    """A type of values that change."""


class AvalQDD(HiType):
    """A type together with what changes."""


class AvalMutableQDD(HiType):
    """As `AvalQDD`."""


class aval_method:
    """A method of values that their type defines."""

    def __init__(self, fun: Callable[..., Any]):
        self.fun = fun


class aval_property:
    """A property of values that their type defines."""

    def __init__(self, fget: Callable[..., Any]):
        self.fget = fget


class _AllowedEffects:
    """The effects that branches and loops may have."""

    def __init__(self) -> None:
        self.types: set[type] = set()

    def add_type(self, kind: type) -> None:
        """Allow a class of effects."""
        self.types.add(kind)

    def contains(self, effect: Any) -> bool:
        """Whether an effect is allowed."""
        return isinstance(effect, tuple(self.types))


control_flow_allowed_effects = _AllowedEffects()
_hitypes: dict[type, Any] = {}


def register_hitype(kind: type, typeof: Callable[[Any], Any]) -> None:
    """State the type of a class of values. No operation takes them."""
    _hitypes[kind] = typeof
