"""Functions that control flow takes, as jaxprs: traced once per signature, their captured values beside them.

`trace_function` stages a function for arguments of given types. What follows from a function and a signature
is `remembered` for as long as the function lives, unless the function captured tracers, which belong to one
run of an enclosing transformation. Results that must agree in type take the type of the strongly typed ones
(`join_types`, `converted`). Read next: `control_flow.py` (cond, switch) and `loops.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from didax.api.flat import FlatFunction, argument_names
from didax.array import as_concrete
from didax.core import config, dtypes, pytree
from didax.core.avals import ShapedArray
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.core.tracing import Tracer
from didax.primitives.convert import convert_element_type
from didax.transforms.batching import axis_env
from didax.transforms.cache import new_memory
from didax.transforms.staging import trace_to_jaxpr


class _Captures(Protocol):
    @property
    def captured(self) -> list[Any]: ...


T = TypeVar("T", bound=_Captures)
_memory = new_memory()


def remembered(f: Any, key: Hashable, make: Callable[[], T]) -> T:
    """`make()`, which follows from function, key and options: computed once, unless it captured tracers."""
    key = (key, config.state(), tuple(axis_env.get().items()))
    try:
        known = _memory.setdefault(f, {})
    except TypeError:  # not hashable or not weakly referable: traced every time
        known = {}
    found = known.get(key)
    if found is None:
        found = make()
        if not any(isinstance(x, Tracer) for x in found.captured):
            known[key] = found
    return found


class TracedFunction(NamedTuple):
    """A function as a jaxpr whose leading inputs are the values it captured."""

    jaxpr: Jaxpr
    captured: list[Any]
    out_tree: Any


def trace_function(
    what: str, f: Callable[..., Any], tree: Any, avals: tuple[ShapedArray, ...]
) -> TracedFunction:
    """Stage `f` for arguments of this structure, that of `(args, kwargs)`, and these types."""
    return remembered(f, (what, tree, avals), lambda: _trace(what, f, tree, avals))


def _trace(what: str, f: Callable[..., Any], tree: Any, avals: tuple[ShapedArray, ...]) -> TracedFunction:
    flat = FlatFunction(f, tree, what)
    arg_names = argument_names(f, *pytree.unflatten(tree, avals))
    jaxpr, captured = trace_to_jaxpr(flat, avals, function=f, what=what, arg_names=arg_names)
    captured = [x if isinstance(x, Tracer) else as_concrete(x) for x in captured]
    return TracedFunction(jaxpr, captured, flat.out_tree)


def join_types(avals: Sequence[ShapedArray]) -> ShapedArray | None:
    """The one type that values of these types take: weakly typed ones give way. None where there is none."""
    strong = {aval for aval in avals if not aval.weak_type}
    if len(strong or set(avals)) != 1:
        return None
    joined = next(iter(strong or avals))
    for aval in avals:
        dtype, _ = dtypes.join(aval.dtype, aval.weak_type, joined.dtype, joined.weak_type)
        if aval.shape != joined.shape or dtype != joined.dtype:
            return None
    return joined


def converted(jaxpr: Jaxpr, out_avals: Sequence[Any]) -> Jaxpr:
    """The jaxpr with results of these types."""
    if all(a is b for a, b in zip(jaxpr.out_avals, out_avals, strict=True)):
        return jaxpr

    def run(*args: Any) -> list[Any]:
        outs = zip(eval_jaxpr(jaxpr, args), out_avals, strict=True)
        return [convert_element_type(y, aval.dtype, aval.weak_type) for y, aval in outs]

    return trace_to_jaxpr(run, jaxpr.in_avals, what="control flow")[0]
