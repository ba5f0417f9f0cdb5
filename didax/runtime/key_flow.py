"""`KeyFlow`: what each run of a compiled program does to random keys, where the option `debug_key_reuse` asks for it.

Read next: `passes/key_reuse.py`, which reads this off a jaxpr.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.jaxpr import Jaxpr
from didax.core.source import SourceLine
from didax.passes.key_reuse import Keys, Summary, summarise
from didax.runtime.array import keys_of


class KeyFlow:
    """What a program does to the random keys among its captured values and arguments: `note` records it for one run."""

    __slots__ = ("_constants", "_jaxpr", "_summary", "_used_up")

    def __init__(self, jaxpr: Jaxpr, constants: Sequence[Any]):
        # The jaxpr before dead code is removed, as a copy: a program is remembered with its jaxpr, by a weak reference,
        # so it must not keep the jaxpr itself alive.
        self._jaxpr = Jaxpr(jaxpr.invars, jaxpr.eqns, jaxpr.outvars, jaxpr.name)
        self._constants = [keys_of(x) for x in constants]
        self._summary: Summary | None = None
        self._used_up: list[tuple[int, list[str | int]]] | None = None

    def note(self, args: Sequence[Any], line: SourceLine | None) -> list[Keys | None] | None:
        """Mark the keys that a run uses; returns those of its results, None where all of them are new."""
        if self._summary is None:
            self._summary = summarise(self._jaxpr)
            self._used_up = None if any(self._constants) else self._summary.whole_uses()
        if self._used_up is None or line is None:
            return self._summary.apply([*self._constants, *map(keys_of, args)], line)
        for i, purposes in self._used_up:
            if (keys := keys_of(args[i - len(self._constants)])) is not None:
                for purpose in purposes:
                    keys.use(purpose, line)
        return None
