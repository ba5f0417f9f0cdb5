"""Why a jitted function is traced again: what the option `explain_cache_misses` tells the logger 'didax'.

The option `no_tracing` makes it an error: `traced_before`.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from didax.api.flat import positional_names
from didax.core import config
from didax.core.avals import ShapedArray
from didax.core.errors import message
from didax.core.exact import value_of
from didax.core.ref import RefType
from didax.core.source import describe_function

Signature = tuple[Any, ...]  # structure, options, types, static arguments, named axes


_explained: weakref.WeakSet[Any] = weakref.WeakSet()  # the code of functions whose first call was explained


def tell(text: str, *parts: Any) -> None:
    """Give the logger 'didax' a line."""
    import logging  # here, so that `import didax` does not load it

    logging.getLogger("didax").warning(text, *parts, stacklevel=2)


def explain_miss(fun: Any, new: Signature, known: Iterable[Signature], names: Sequence[str]) -> str:
    """What differs between a signature and the known one that is most like it; `names` are those of the leaves."""
    head = f"{describe_function(fun)} is traced"
    earlier = list(known)  # at once: other threads add to it
    if not earlier:
        return f"{head}: this is its first call.{_made_again(fun)}"
    old = min(earlier, key=lambda signature: _distance(signature, new))
    if old[0] != new[0]:
        return f"{head}: the structure of its arguments changed.\n  before: {old[0]}\n  now: {new[0]}"
    return "\n  ".join([f"{head} again:", *_differences(fun, old, new, names)])


def _made_again(fun: Any) -> str:
    """A hint where another function of the same lines was jitted before: each has a cache of its own."""
    code = getattr(inspect.unwrap(fun), "__code__", None) if callable(fun) else None
    if code is None:
        return ""
    if code not in _explained:
        _explained.add(code)
        return ""
    hint = "Another function of the same lines was traced before: Python makes a new one each time it comes there, "
    return f"\n  {hint}and each is compiled by itself. Make it, and jit it, once, outside of the loop."


def _differences(fun: Any, old: Signature, new: Signature, names: Sequence[str]) -> list[str]:
    reasons = [
        f"{name} was {before}{_weak(before)}, now is {now}{_weak(now)}"
        for name, before, now in zip(names, old[2], new[2], strict=True)
        if before is not now
    ]
    if old[3] != new[3]:
        were, are = _static_values(fun, old[3]), _static_values(fun, new[3])
        reasons += [
            f"static argument {name} was {were.get(name, 'not given')}, now is {are.get(name, 'not given')}"
            for name in were | are
            if were.get(name) != are.get(name)
        ]
    if old[1] is not new[1]:
        reasons += config.changes(old[1], new[1])
    if old[4] != new[4]:
        were, are = ({name: axis.size for name, axis in found} for found in (old[4], new[4]))
        reasons.append(f"mapped axes were {were}, now are {are}")
    return reasons


def _static_values(fun: Any, static: Any) -> dict[str, str]:
    """The texts of static arguments, by their names."""
    found: dict[str, str] = {}
    for where, _, stands in static:
        name = positional_names(fun, where + 1)[where] if isinstance(where, int) else where
        found[name] = f"{value_of(stands)!r:.100}"
    return found


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
        found = known.get((tree, config.of_programs(config.state()), *rest))
    if found is None and state.no_tracing:
        facts = f"function: {describe_function(fun)}", f"arguments: {', '.join(map(str, rest[0]))}"
        rule = "Inside of no_tracing no function is traced anew."
        raise RuntimeError(
            message(rule, *facts, fix="Call it with arguments of these types before the block.")
        )
    return found
