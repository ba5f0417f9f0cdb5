"""Who used which random key: finds keys that are used twice, in jaxprs and, with the same rules, eagerly.

    key = random.key(0)
    random.normal(key)          # uses the key
    random.uniform(key)         # KeyReuseWarning: names both lines

A value of a key dtype has `Keys`: which keys it holds, and the record of what they were used for. A slice, or a
reshaped array, shares the record of the array it comes from, and knows the positions of its keys in that record.
Because two slices `keys[0]` share a record, drawing from both of them is noticed. Keys are told apart by where they
come from, never by value. A primitive says in its `keys` rule what it does: `keys(line, operands, **params)` gets, for
each operand, its `Keys`, the integer where one is known, or None; it marks what it uses and returns the `Keys` of its
results. A primitive without this rule that only moves elements is run on the positions, by its eager rule: its result
says where each key went. A jaxpr is read once: its `Summary` says what a call uses, and applies to concrete keys as it
does to those of an outer jaxpr. The option `debug_key_reuse` says what is done with what is found.
Read next: `primitives/random_bits.py` (rules), `runtime/compiled.py` and `runtime/eager.py` (who applies them).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core import config
from didax.core.avals import ShapedArray
from didax.core.dims import is_symbolic
from didax.core.errors import KeyReuseError, KeyReuseWarning, message
from didax.core.jaxpr import Eqn, Jaxpr, Literal, Var
from didax.core.primitive import Primitive
from didax.core.rule_types import wrong
from didax.core.source import SourceLine
from didax.transforms.cache import cached_on_jaxpr

# What a key was used for: an integer that was folded in, or one of these. Different integers give different keys.
DRAWN = "drawn"  # numbers, or by split other keys
UNKNOWN = "folded in"  # an integer that is not known here

_WHOLE = -1  # the position that stands for all keys of a record
_POSITIONS_MAX = 1 << 16  # larger arrays are not followed through slices
_FOLDED_MAX = 10_000  # integers remembered for each key: a loop of any length takes bounded memory

Uses = dict[str | int, SourceLine | None]
Record = dict[int, Uses]  # position -> what the key there was used for


class Keys:
    """The keys that a value holds: a record of uses, and the positions in it (None: all of it, in order)."""

    __slots__ = ("_positions", "aval", "record")

    def __init__(self, aval: ShapedArray, record: Record | None = None, positions: Any = None):
        self.aval = aval
        self.record: Record = {} if record is None else record
        self._positions = positions

    @property
    def positions(self) -> np.ndarray[Any, Any]:
        """The position of each key in the record."""
        if self._positions is None:
            return np.arange(math.prod(self.aval.shape)).reshape(self.aval.shape)
        return self._positions

    def is_whole(self) -> bool:
        """Whether these are all keys of the record."""
        return self._positions is None

    def at(self, positions: Any) -> list[int]:
        """The positions in the record of the keys at `positions` of this value."""
        if self._positions is None:
            return np.asarray(positions).reshape(-1).tolist()
        return self.positions.reshape(-1)[positions].reshape(-1).tolist()

    def everywhere(self) -> list[int]:
        """The positions of all keys."""
        return [_WHOLE] if self._positions is None else self._positions.reshape(-1).tolist()

    def use(self, purpose: str | int, line: SourceLine | None, positions: list[int] | None = None) -> None:
        """Note that the keys (those at `positions` of the record) are used, and report the first used before."""
        if not self.record and self._positions is None and positions is None:
            self.record[_WHOLE] = {purpose: line}
            return
        for position in self.everywhere() if positions is None else positions:
            first = _used_before(self.record, position, purpose)
            if first is not None:
                _report(first[0], line, self.aval)
                return
            uses = self.record.setdefault(position, {})
            if len(uses) < _FOLDED_MAX:
                uses[purpose] = line

    def row(self, i: int, aval: ShapedArray) -> Keys:
        """The keys of row `i`, which is of that type."""
        return Keys(aval, self.record, self.positions[i])


def _used_before(record: Record, position: int, purpose: str | int) -> tuple[SourceLine | None] | None:
    """The line of an earlier use that excludes this one."""
    if not record:
        return None
    places = record if position == _WHOLE else (position, _WHOLE)
    for place in places:
        uses = record.get(place)
        if not uses:
            continue
        if purpose == DRAWN:
            return (next(iter(uses.values())),)
        for earlier in (DRAWN, purpose):
            if earlier != UNKNOWN and earlier in uses:
                return (uses[earlier],)
    return None


def holds_keys(aval: ShapedArray) -> bool:
    """Whether arrays of this type hold keys."""
    return aval.physical is not aval


def is_on() -> bool:
    """Whether uses of keys are to be noted."""
    return config.state().debug_key_reuse != "off"


# --- Programs ---------------------------------------------------------------------------------------------


class Summary(NamedTuple):
    """What a call of a jaxpr does to keys: the records of its inputs, and what its results share with them."""

    inputs: tuple[Keys | None, ...]
    outs: tuple[Keys | None, ...]

    def apply(self, args: Sequence[Any], line: SourceLine | None) -> list[Keys | None]:
        """Mark the keys of the operands, at `line` or at the lines inside; returns the keys of the results."""
        given: dict[int, Keys] = {}
        for inside, outside in zip(self.inputs, args, strict=True):
            if inside is not None and isinstance(outside, Keys):
                given[id(inside.record)] = outside
                _copy_uses(inside.record, outside, line)
        return [None if out is None else _outside(out, given) for out in self.outs]

    def whole_uses(self) -> list[tuple[int, list[str | int]]] | None:
        """What whole inputs are used for, by position; None where there is more to `apply` than to note that."""
        used = [(i, keys) for i, keys in enumerate(self.inputs) if keys is not None and keys.record]
        if any(self.outs) or any(set(keys.record) != {_WHOLE} for _, keys in used):
            return None
        return [(i, list(keys.record[_WHOLE])) for i, keys in used]


def _copy_uses(record: Record, target: Keys, line: SourceLine | None) -> None:
    for position, uses in list(record.items()):
        positions = None if position == _WHOLE else target.at([position])
        for purpose, inner in list(uses.items()):
            target.use(purpose, line or inner, positions)


def _outside(out: Keys, given: dict[int, Keys]) -> Keys:
    """The keys of a result: those of an argument, or others, used as far as the program did."""
    source = given.get(id(out.record))
    if source is None:
        return Keys(out.aval, {position: dict(uses) for position, uses in out.record.items()}, _of(out))
    if out.is_whole() and source.is_whole():
        return Keys(out.aval, source.record)
    return Keys(out.aval, source.record, source.positions.reshape(-1)[out.positions])


def _of(keys: Keys) -> Any:
    return None if keys.is_whole() else keys.positions


@cached_on_jaxpr
def summarise(jaxpr: Jaxpr) -> Summary:
    """Read a jaxpr: reports the keys it uses twice itself, and returns what it does to those of its arguments."""
    env: dict[Var, Keys] = {v: Keys(v.aval) for v in jaxpr.invars if holds_keys(v.aval)}
    inputs = tuple([env.get(v) for v in jaxpr.invars])
    for eqn in jaxpr.eqns:
        if eqn.primitive.keys is not None or eqn.primitive.moves_elements:
            operands = [_operand(x, env) for x in eqn.invars]
            for v, found in zip(eqn.outvars, _flow_of(eqn, operands), strict=True):
                if found is not None:
                    env[v] = found
    return Summary(inputs, tuple([env.get(x) if isinstance(x, Var) else None for x in jaxpr.outvars]))


def _operand(x: Any, env: dict[Var, Keys]) -> Any:
    if isinstance(x, Literal):
        return known_integer(x.val)
    if x not in env and holds_keys(x.aval):
        env[x] = Keys(x.aval)
    return env.get(x)


def known_integer(x: Any) -> int | None:
    """A Python or NumPy integer as an int; None for anything else."""
    return int(x) if isinstance(x, (int, np.integer)) else None


def _flow_of(eqn: Eqn, operands: Sequence[Any]) -> Sequence[Keys | None]:
    return flow(eqn.primitive, operands, [v.aval for v in eqn.outvars], eqn.params, eqn.source)


def flow(
    primitive: Primitive,
    operands: Sequence[Any],
    out_avals: Sequence[ShapedArray],
    params: dict[str, Any],
    line: SourceLine | None,
) -> Sequence[Keys | None]:
    """Mark what one application uses; the keys of its results, None where they are new or not followed."""
    if primitive.keys is not None:
        found = primitive.keys(line, operands, **params)
        if type(found) not in (list, tuple) or len(found) != len(out_avals):
            wanted = f"a list of {len(out_avals)}: the Keys of each result, or None"
            raise wrong(
                primitive,
                "keys",
                "A keys rule returns one entry for each result.",
                f"returned: {found!r:.100}, wanted: {wanted}",
            )
        return found
    keys = operands[0] if len(operands) == 1 and primitive.eager is not None else None
    lengths = [n for aval in (keys.aval, *out_avals) for n in aval.shape] if isinstance(keys, Keys) else []
    if not isinstance(keys, Keys) or any(map(is_symbolic, lengths)) or keys.aval.size > _POSITIONS_MAX:
        return [None] * len(out_avals)
    assert primitive.eager is not None
    moved = primitive.eager(keys.positions, **params)
    parts = moved if primitive.multiple_results else [moved]
    return [Keys(aval, keys.record, np.asarray(part)) for aval, part in zip(out_avals, parts, strict=True)]


# --- Rules for primitives that hold jaxprs ----------------------------------------------------------------


def call_keys(
    self: Primitive, line: SourceLine | None, operands: Sequence[Any], *, jaxpr: Jaxpr, **how: Any
) -> Sequence[Keys | None]:
    """The `keys` rule of a primitive that runs a jaxpr once on its operands."""
    return summarise(jaxpr).apply(operands, line)


def branch_keys(branches: Sequence[Jaxpr], operands: Sequence[Any]) -> list[Keys | None]:
    """Marks what any of the branches uses: only one of them runs."""
    originals = {id(x.record): x.record for x in operands if isinstance(x, Keys)}
    runs: list[dict[int, Record]] = []
    for branch in branches:
        copies = {i: {p: dict(uses) for p, uses in record.items()} for i, record in originals.items()}
        inside = [Keys(x.aval, copies[id(x.record)], _of(x)) if isinstance(x, Keys) else x for x in operands]
        summarise(branch).apply(inside, None)
        runs.append(copies)
    for i, record in originals.items():
        for copies in runs:
            for position, uses in copies[i].items():
                record[position] = {**uses, **record.get(position, {})}
    return [None] * len(branches[0].outvars)


def loop_keys(step: Any, count: int, carry: Sequence[Any]) -> list[Any]:
    """The carry after `count` steps (carry -> carry). The second step stands for all that follow."""
    for _ in range(2 if is_symbolic(count) else min(count, 2)):
        carry = [
            after or (Keys(before.aval) if isinstance(before, Keys) else None)
            for before, after in zip(carry, step(carry), strict=True)
        ]
    return list(carry)


def row_of(keys: Any) -> Keys | None:
    """Stands for any one row of an array of keys, in a body that runs over all."""
    return Keys(keys.aval.update(shape=keys.aval.shape[1:])) if isinstance(keys, Keys) else None


def use_rows(keys: Keys, row: Keys) -> None:
    """Mark every row of an array of keys with what was done to the one row."""
    length = keys.aval.shape[0]
    for position, uses in row.record.items():
        positions = None
        if position != _WHOLE:
            positions = keys.positions.reshape(length, -1)[:, position].tolist()
        for purpose, line in uses.items():
            keys.use(purpose, line, positions)


# --- Reports ----------------------------------------------------------------------------------------------

_reported: dict[tuple[int, int, int, int], tuple[SourceLine, SourceLine]] = {}


def forget_reports() -> None:
    """Warn of every pair of lines once more."""
    _reported.clear()


def _report(first: SourceLine | None, second: SourceLine | None, aval: ShapedArray) -> None:
    """Raise, or warn once for each pair of lines."""
    mode = config.state().debug_key_reuse
    if mode == "off":
        return
    if mode == "error":
        raise KeyReuseError(_text(first, second, aval))
    if first is None or second is None:
        return
    pair = (id(first.code), first.instruction, id(second.code), second.instruction)
    if pair not in _reported:
        _reported[pair] = first, second  # which keeps the code objects, so that no others get their ids
        warnings.warn_explicit(_text(first, second, aval), KeyReuseWarning, second.file, second.line)


def _text(first: SourceLine | None, second: SourceLine | None, aval: ShapedArray) -> str:
    return message(
        "A random key is to be used once: what is drawn from it a second time is not independent.",
        f"first use: {first}",
        f"second use: {second}",
        f"key: {aval}",
        fix="Make a key for each use with random.split or random.fold_in; random.clone(key) says that it is meant. "
        "The option debug_key_reuse ('off', 'warn', 'error') decides what happens.",
    )
