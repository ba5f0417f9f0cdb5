"""Objects that stand for the function they wrap: they have its name, its documentation and its signature."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, cast

from didax.core.source import describe_function, to_copy

_OWN = "__signature__"


class WrappedSignature:
    """The `__signature__` of a class whose instances have that of the function they wrap.

    `inspect` asks classes for it as well, and finds the class's own signature when there is none.
    """

    def __get__(self, instance: Any, owner: Any = None) -> inspect.Signature:
        if instance is None:
            raise AttributeError(_OWN)
        fun: Any = instance.__wrapped__
        while isinstance(fun, FunctionObject) and _OWN not in vars(fun):
            fun = cast(Any, fun).__wrapped__
        try:
            found = inspect.signature(cast(Any, fun))
        except (TypeError, ValueError):  # written in C
            raise AttributeError(_OWN) from None
        # `inspect` asks twice; wrappers of wrappers would ask each other 2**n times.
        vars(instance)[_OWN] = found
        return found


class FunctionObject:
    """An object that stands for the function `_fun`, from which its class makes it with `_settings`."""

    __slots__ = ()
    __signature__ = WrappedSignature()
    _fun: Any
    _settings: Any

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(cast(Any, self), instance)

    def __repr__(self) -> str:
        return f"<jit of {describe_function(self._fun)}>"

    def __reduce__(self) -> Any:
        """By name, where its module has it by that name; else the function and the options, without programs."""
        if (name := importable_name(self)) is not None:
            return name
        copied = {_OWN, *getattr(self._fun, "__dict__", {})}  # a new object copies them again
        attributes = {name: x for name, x in vars(self).items() if name not in copied}
        return type(self), (self._fun, self._settings), attributes


def update_wrapper(wrapper: Any, fun: Callable[..., Any]) -> None:
    """Give the object the name, the documentation and the attributes of `fun`; none hides a method of its class."""
    functools.update_wrapper(wrapper, fun, to_copy(fun), updated=())
    attributes: dict[str, Any] = getattr(fun, "__dict__", {})
    cls: type[Any] = wrapper.__class__
    wrapper.__dict__ |= {k: v for k, v in attributes.items() if not hasattr(cls, k) and k != "__wrapped__"}


def importable_name(x: Any) -> str | None:
    """The name by which the object's module holds it, as `pickle` asks for it; None where it holds something else."""
    name: str = getattr(x, "__qualname__", "")
    module = sys.modules.get(getattr(x, "__module__", ""))
    found = functools.reduce(lambda held, part: getattr(held, part, None), name.split("."), module)
    return name if found is x else None
