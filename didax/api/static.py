"""Static arguments of a transformation, by number or name: arguments that are part of the program, and no data.

`StaticArguments.split` takes them out of a call, and returns the arguments that are data, and a key that is equal for
equal static values. `filled(key)` puts the values back: a function of the data. A new key means a new trace.
Read next: `jit.py` and `checkpoint.py`, which take such arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from didax.api.flat import positional_names
from didax.core.errors import ArgumentError, message
from didax.core.exact import exact, value_of
from didax.core.source import describe_function

Key = tuple[Any, ...]  # (where, type, exact(value)) of each static argument


class StaticArguments:
    """The static arguments of a function that is given to the transformation `caller`; false if there are none."""

    __slots__ = ("_caller", "_fun", "_hashable", "names", "numbers")

    def __init__(
        self,
        caller: str,
        fun: Callable[..., Any],
        numbers: Iterable[int],
        names: Iterable[str],
        hashable: bool = True,
    ):
        self._caller = caller
        self._hashable = hashable
        self._fun = fun
        self.numbers = tuple(numbers)
        self.names = frozenset(names)

    def __bool__(self) -> bool:
        return bool(self.numbers or self.names)

    def split(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any], Key]:
        """The positional and the keyword arguments that are data, and the key for the static arguments."""
        count = len(args)
        numbers = self.numbers if args else ()
        positions = {i % count if -count <= i < 0 else i for i in numbers}
        names = positional_names(self._fun, count)
        positions |= {i for i, name in enumerate(names) if name in self.names}
        static: list[tuple[int | str, Any]] = [(i, args[i]) for i in sorted(positions) if i < count]
        static += [
            (name, kwargs[name])
            for name in sorted(kwargs)
            if name in self.names or self._is_static_position(name)
        ]
        for where, value in static if self._hashable else ():
            self._check_hashable(names[where] if isinstance(where, int) else where, value)
        dynamic = tuple(x for i, x in enumerate(args) if i not in positions)
        taken = {where for where, _ in static}
        key: Key = tuple((where, type(value), exact(value)) for where, value in static)
        return dynamic, {k: v for k, v in kwargs.items() if k not in taken}, key

    def _is_static_position(self, name: str) -> bool:
        if not self.numbers:
            return False
        names = positional_names(self._fun, max(self.numbers) + 1)
        return any(0 <= i < len(names) and names[i] == name for i in self.numbers)

    def _check_hashable(self, name: str, value: Any) -> None:
        try:
            hash(value)
        except TypeError:
            fix = "Pass a hashable value (a tuple instead of a list), or do not mark the argument static."
            if hasattr(value, "dtype"):
                fix = "Arrays are data: do not mark the argument static."
            raise ArgumentError(
                message(
                    f"Static arguments of {self._caller} must be hashable: "
                    "they are part of the compilation cache's key.",
                    f"argument {name}: {value!r:.100} of type {type(value).__name__}",
                    fix=fix,
                )
            ) from None

    def filled(self, key: Key) -> Callable[..., Any]:
        """The function with its static arguments put back in their places."""
        if not key:
            return self._fun
        values = {where: value_of(stands) for where, _, stands in key}
        fixed = [(where, values[where]) for where in sorted(i for i in values if isinstance(i, int))]
        named = {where: value for where, value in values.items() if not isinstance(where, int)}

        fun = self._fun

        def with_static(*args: Any, **kwargs: Any) -> Any:
            full = list(args)
            for position, value in fixed:
                full.insert(position, value)
            return fun(*full, **kwargs, **named)

        return with_static


def with_gaps(args: Sequence[Any], key: Key) -> Sequence[Any]:
    """The positional arguments, with None, which has no leaves, in the places of static arguments."""
    if not key:
        return args
    full = list(args)
    for position in sorted(where for where, _, _ in key if isinstance(where, int)):
        full.insert(position, None)
    return full


def check_arguments_exist(
    caller: str, fun: Any, option: str, numbers: Sequence[int], names: Sequence[str]
) -> None:
    """ValueError for a number or a name that no argument of the function has."""
    try:
        parameters = inspect.signature(fun).parameters
    except (TypeError, ValueError):  # written in C: nothing is known
        return
    kinds = [p.kind for p in parameters.values()]
    count = sum(
        kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds
    )
    wrong: list[Any] = []
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        wrong += [i for i in numbers if not -count <= i < count]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        wrong += [name for name in names if name not in parameters]
    if wrong:
        raise ValueError(
            message(
                f"{option}_argnums and {option}_argnames of {caller} must name arguments of the function.",
                f"not arguments: {', '.join(map(repr, wrong))}",
                f"function: {describe_function(fun)}, arguments: {', '.join(parameters) or 'none'}",
                fix="Number positional arguments from 0, or use their names.",
            )
        )


def as_numbers(x: int | Sequence[int] | None) -> tuple[int, ...]:
    """An option that is one number, several or none."""
    return () if x is None else (x,) if isinstance(x, int) else tuple(x)


def as_names(x: str | Iterable[str] | None) -> tuple[str, ...]:
    """An option that is one name, several or none."""
    return () if x is None else (x,) if isinstance(x, str) else tuple(x)
