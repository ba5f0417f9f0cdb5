"""`donate_argnums`, `donate_argnames`: arguments of a jitted function whose memory its results may take.

Read next: `jit.py`; `didax/runtime/donation.py`, what a donation does to the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from didax.api.flat import positional_names
from didax.core import pytree


class DonatedArguments:
    """The donated arguments of a function, by number or name."""

    __slots__ = ("_fun", "names", "numbers")

    def __init__(self, fun: Callable[..., Any], numbers: Iterable[int], names: Iterable[str]):
        self._fun = fun
        self.numbers = frozenset(numbers)
        self.names = frozenset(names)

    def of_leaves(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[bool]:
        """Which leaves of the arguments are donated; nothing where no argument is."""
        if not (self.numbers or self.names):
            return []
        count = len(args)
        names = positional_names(self._fun, count)
        numbers = {i + count if i < 0 else i for i in self.numbers}
        donated: list[bool] = []
        for i, arg in enumerate(args):
            donated += [i in numbers or names[i] in self.names] * len(pytree.leaves(arg))
        for name in sorted(kwargs):
            donated += [name in self.names] * len(pytree.leaves(kwargs[name]))
        return donated
