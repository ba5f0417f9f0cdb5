"""Why a jitted function is traced again: what the option `explain_cache_misses` tells the logger 'didax'.

The option `no_tracing` makes it an error: `traced_before`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from didax.core import config
from didax.core.avals import ShapedArray
from didax.core.errors import message
from didax.core.ref import RefType
from didax.core.source import describe_function

Signature = tuple[Any, ...]  # structure, options, types, static arguments, named axes


def explain_miss(fun: Any, new: Signature, known: Iterable[Signature], names: Sequence[str]) -> str:
    """What differs between a signature and the known one that is most like it; `names` are those of the leaves."""
    head = f"{describe_function(fun)} is traced"
    earlier = list(known)  # at once: other threads add to it
    if not earlier:
        return f"{head}: this is its first call."
    old = min(earlier, key=lambda signature: _distance(signature, new))
    if old[0] != new[0]:
        return f"{head}: the structure of its arguments changed.\n  before: {old[0]}\n  now: {new[0]}"
    return "\n  ".join([f"{head} again:", *_differences(old, new, names)])


def _differences(old: Signature, new: Signature, names: Sequence[str]) -> list[str]:
    reasons = [
        f"{name} was {before}{_weak(before)}, now is {now}{_weak(now)}"
        for name, before, now in zip(names, old[2], new[2], strict=True)
        if before is not now
    ]
    if old[3] != new[3]:
        reasons.append(f"static arguments were {old[3]}, now are {new[3]}")
    if old[1] is not new[1]:
        reasons.append("options changed")
    if old[4] != new[4]:
        were, are = ({name: axis.size for name, axis in found} for found in (old[4], new[4]))
        reasons.append(f"mapped axes were {were}, now are {are}")
    return reasons


def _distance(old: Signature, new: Signature) -> int:
    """How many parts of two signatures differ."""
    if old[0] != new[0]:
        return 1_000_000
    changed = sum(a is not b for a, b in zip(old[2], new[2], strict=True))
    return changed + sum(a != b for a, b in zip(old[3], new[3], strict=False)) + (old[1] is not new[1])


def _weak(aval: ShapedArray | RefType) -> str:
    return " (weak type)" if isinstance(aval, ShapedArray) and aval.weak_type else ""


def traced_before(fun: Any, known: Mapping[Signature, Any], signature: Signature) -> Any:
    """What was staged for a signature outside of `no_tracing` and `no_execution`; None where nothing was.

    RuntimeError where nothing was and tracing is an error.
    """
    tree, state, *rest = signature
    if not (state.no_tracing or state.no_execution):
        return None
    with config.pinned(state), config.override(no_tracing=False, no_execution=False):
        found = known.get((tree, config.state(), *rest))
    if found is None and state.no_tracing:
        facts = f"function: {describe_function(fun)}", f"arguments: {', '.join(map(str, rest[0]))}"
        rule = "Inside of no_tracing no function is traced anew."
        raise RuntimeError(
            message(rule, *facts, fix="Call it with arguments of these types before the block.")
        )
    return found
