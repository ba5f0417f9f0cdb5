"""Static arguments of a transformation, by number or name: arguments that are part of the program, and no data.

`StaticArguments.split` takes them out of a call, and returns the arguments that are data, and a key that is equal for
equal static values. `filled(key)` puts the values back: a function of the data. A new key means a new trace.
Read next: `jit.py` and `checkpoint.py`, which take such arguments.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from didax.api.flat import argument_names, positional_names
from didax.core.errors import ArgumentError, message
from didax.core.exact import exact, value_of
from didax.core.source import describe_function

Key = tuple[Any, ...]  # (where, type, exact(value)) of each static argument
Marked = tuple[Sequence[int], Sequence[str]]
"""Arguments that an option of `jit` names: by number, and by name."""


_PLACES_MAX = 256  # kinds of calls that are remembered of a function


class _Places(NamedTuple):
    """The positions and the keywords of arguments that are data, and of static ones."""

    numbers: list[int]
    static_numbers: list[int]
    names: list[str]
    static_names: list[str]


class StaticArguments:
    """The static arguments of a function that is given to the transformation `caller`; false if there are none.

    If only numbers or only names are given, the function's signature supplies the others. If both are given, they are
    all that is static.
    """

    __slots__ = ("_caller", "_fun", "_hashable", "_places", "names", "numbers")

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
        # By the number of positional arguments, and the keywords.
        self._places: dict[tuple[Any, ...], _Places] = {}

    def __bool__(self) -> bool:
        return bool(self.numbers or self.names)

    def split(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any], Key]:
        """The positional and the keyword arguments that are data, and the key for the static arguments."""
        places = self._places.get((len(args), *kwargs)) or self._find_places(len(args), kwargs)
        numbers, static_numbers, names, static_names = places
        static: list[tuple[int | str, Any]] = [(i, args[i]) for i in static_numbers]
        if static_names:
            static += [(name, kwargs[name]) for name in static_names]
        key: Key = tuple([(where, type(value), exact(value)) for where, value in static])
        if self._hashable:
            try:
                hash(key)
            except TypeError:
                self._check_hashable(key, len(args))
        named: dict[str, Any] = (
            kwargs if len(names) == len(kwargs) else {name: kwargs[name] for name in names}
        )
        return tuple([args[i] for i in numbers]), named, key

    def _find_places(self, count: int, kwargs: dict[str, Any]) -> _Places:
        """Where arguments that are data and static ones stand in calls with these keywords."""
        numbers = self.numbers if count else ()
        positions = {i % count if -count <= i < 0 else i for i in numbers}
        if not self.numbers:
            parameters = positional_names(self._fun, count)
            positions |= {i for i, name in enumerate(parameters) if name in self.names}
        static_names = [
            name for name in sorted(kwargs) if name in self.names or self._is_static_position(name)
        ]
        found = _Places(
            [i for i in range(count) if i not in positions],
            [i for i in sorted(positions) if i < count],
            [name for name in kwargs if name not in static_names],
            static_names,
        )
        if len(self._places) >= _PLACES_MAX:
            self._places.clear()
        self._places[count, *kwargs] = found
        return found

    def _is_static_position(self, name: str) -> bool:
        if not self.numbers or self.names:
            return False
        names = positional_names(self._fun, max(self.numbers) + 1)
        return any(0 <= i < len(names) and names[i] == name for i in self.numbers)

    def _check_hashable(self, key: Key, count: int) -> None:
        """ArgumentError for the first static value that is not hashable."""
        parameters = positional_names(self._fun, count)
        for where, _, stands in key:
            value = value_of(stands)
            try:
                hash(value)
            except TypeError:
                fix = "Pass a hashable value (a tuple instead of a list), or do not mark the argument static."
                if hasattr(value, "dtype"):
                    fix = "Arrays are data: do not mark the argument static."
                name = parameters[where] if isinstance(where, int) else where
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

    def of_data(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any], list[str]]:
        """The function of those arguments alone that are data, these, and the names of the arrays in them."""
        data, named, static = self.split(args, kwargs)
        return self.filled(static), data, named, argument_names(self._fun, with_gaps(data, static), named)


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
        shown = [
            f"{name} (by keyword only)" if p.kind is inspect.Parameter.KEYWORD_ONLY else name
            for name, p in parameters.items()
        ]
        raise ValueError(
            message(
                f"{option}_argnums and {option}_argnames of {caller} must name arguments of the function.",
                f"not arguments: {', '.join(map(repr, wrong))}",
                f"function: {describe_function(fun)}, arguments: {', '.join(shown) or 'none'}",
                fix=f"Number positional arguments from 0, or give names in {option}_argnames.",
            )
        )


def check_no_argument_is_both(fun: Any, static: Marked, donated: Marked) -> None:
    """ValueError for an argument that `jit` is told both to make part of the program and to take the memory of."""
    if not any(donated) or not any(static):
        return
    try:
        parameters = list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):  # written in C: nothing is known
        parameters = []

    def names(marked: Marked) -> set[int | str]:
        return {
            *(parameters[i] if -len(parameters) <= i < len(parameters) else i for i in marked[0]),
            *marked[1],
        }

    if both := names(static) & names(donated):
        rule = "A static argument is part of the program, so it has no memory to donate."
        facts = f"static and donated: {', '.join(sorted(map(str, both)))}; function: {describe_function(fun)}"
        raise ValueError(message(rule, facts, fix="Leave it out of donate_argnums and donate_argnames."))


def as_numbers(x: int | Sequence[int] | None, option: str) -> tuple[int, ...]:
    """The positions that an option names: one, several or none; TypeError for other than integers."""
    if isinstance(x, int):
        return (x,)
    try:
        return () if x is None else tuple([operator.index(i) for i in x])
    except TypeError:
        fact = f"{option}: {x!r:.100} of type {type(x).__name__}"
        fix = "Pass an int, or a tuple of ints, counted from 0."
        raise TypeError(message(f"{option} numbers positional arguments.", fact, fix=fix)) from None


def as_names(x: str | Iterable[str] | None) -> tuple[str, ...]:
    """An option that is one name, several or none."""
    return () if x is None else (x,) if isinstance(x, str) else tuple(x)
