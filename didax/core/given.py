"""What a class of a lower floor needs and a module of a higher floor defines.

    class EagerTrace(Trace):                              # core/primitive.py knows no concrete arrays
        process = given_by("didax.runtime.eager")

    @give(EagerTrace, "process")                          # runtime/eager.py does
    def process(self, primitive, args, params): ...

So each place names the other, and a reader of one finds the other. Use before the module is loaded is an error that
names the module. No module assigns to an attribute of what it imported in any other way; a test checks that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from didax.core.errors import message

T = TypeVar("T")


class GivenLater:
    """Stands for an attribute until `module` gives it."""

    def __init__(self, module: str):
        self.module = module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise _not_loaded(self.module)


def _not_loaded(module: str) -> RuntimeError:
    rule = "A function is defined by a module that has not been loaded."
    return RuntimeError(message(rule, f"module: {module}", fix="Import didax first."))


def given_by(module: str) -> Any:
    """An attribute that `module` gives to the class, or to the object."""
    return GivenLater(module)


def give(owner: Any, name: str, module: str = "") -> Callable[[T], T]:
    """Decorate the definition of the attribute `name` of an owner on a lower floor, which declares it by `given_by`.

    An owner of very many such attributes names the module once, in `GIVEN_BY`. If the decorated function is defined in
    another module, `module` names the one that gives it.

    >>> class Shape:
    ...     area = given_by(__name__)
    >>> @give(Shape, "area")
    ... def area(self):
    ...     return 1
    >>> Shape().area()
    1
    """

    def attach(value: T) -> T:
        giver = module or getattr(value, "__module__", None)
        declared = getattr(owner, name, None)
        expected = declared.module if isinstance(declared, GivenLater) else getattr(owner, "GIVEN_BY", None)
        if expected != giver:
            rule = "A module gives what the owner declares as given by this module."
            facts = f"attribute: {name} of {owner!r:.100}, given by {expected}", f"module: {giver}"
            raise TypeError(message(rule, *facts, fix=f"Declare it: {name} = given_by({giver!r})."))
        setattr(owner, name, value)
        return value

    return attach
