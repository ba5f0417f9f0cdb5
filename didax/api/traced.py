"""Functions as jaxprs, traced once per signature, their captured values beside them: for control flow and checkpoint.

`trace_function` stages a function for arguments of given types. The jaxpr is `remembered` for as long as the function
lives, unless the function captured tracers, which belong to one run of an enclosing transformation. Where results of
several functions must have one type, weakly typed results take the type of the strongly typed ones (`join_types`,
`converted`). Read next: `checkpoint.py`;
`didax/lax/control_flow.py` (cond, switch) and `didax/lax/loops.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from didax.api.flat import FlatFunction, argument_names
from didax.core import config, dtypes, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.exact import exact_key
from didax.core.jaxpr import Jaxpr, Var, eval_jaxpr
from didax.core.ref import Ref
from didax.core.tracing import Tracer
from didax.primitives.convert import convert_element_type
from didax.primitives.varying import pvary
from didax.runtime.array import as_concrete
from didax.transforms.cache import new_memory
from didax.transforms.named_axes import axis_env
from didax.transforms.staging import check_only_read, stage_program, trace_to_jaxpr, values_of


class _Captures(Protocol):
    @property
    def captured(self) -> list[Any]: ...


T = TypeVar("T", bound=_Captures)
_memory = new_memory()


def remembered(f: Any, key: tuple[Any, ...], make: Callable[..., T], *args: Any) -> T:
    """`make(*args)`, computed once for each function, key and options in force, unless it captured tracers."""
    key = (*key, config.state(), tuple(axis_env.get().items()))
    try:
        known = _memory.setdefault(f, {})
    except TypeError:  # not hashable or not weakly referable: traced every time
        known = {}
    found = known.get(key)
    if found is None:
        found = make(*args)
        if not any(_is_of_one_run(x) for x in found.captured):
            known[exact_key(key)] = found
    return found


def _is_of_one_run(x: Any) -> bool:
    return not x.is_eager if isinstance(x, Ref) else isinstance(x, Tracer)


class TracedFunction(NamedTuple):
    """A function as a jaxpr whose leading inputs are the values it captured.

    `trace_with_refs` may capture Refs: such an input is the value that the Ref has at a call. The last `num_written`
    captured values are Refs that the function writes to: their new values are the leading outputs of the jaxpr, before
    the results of the function, which `out_tree` and `out_avals` describe.
    """

    jaxpr: Jaxpr
    captured: list[Any]
    out_tree: Any
    num_written: int = 0

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        """Types of the function's results."""
        return self.jaxpr.out_avals[self.num_written :]

    @property
    def read(self) -> list[Any]:
        """The present values of everything captured, except the Refs written to."""
        return values_of(self.captured[: len(self.captured) - self.num_written])

    @property
    def written(self) -> list[Ref]:
        """The Refs written to."""
        return self.captured[len(self.captured) - self.num_written :]


def trace_function(
    caller: str, f: Callable[..., Any], tree: Any, avals: tuple[ShapedArray, ...]
) -> TracedFunction:
    """Stage `f`, which writes to no Ref, for arguments of this structure, that of `(args, kwargs)`, and these types."""
    traced = trace_with_refs(caller, f, tree, avals)
    if not any(isinstance(x, Ref) for x in traced.captured):
        return traced
    check_only_read(caller, traced.captured, traced.num_written)
    return traced._replace(captured=traced.read)


def trace_with_refs(
    caller: str, f: Callable[..., Any], tree: Any, avals: tuple[ShapedArray, ...]
) -> TracedFunction:
    """As `trace_function`, for a function that may write to Refs: the captured values may include Refs then."""
    # No lambda in between: each level of nested control flow calls this function, and Python's stack is finite.
    return remembered(f, (caller, tree, avals), _trace, caller, f, tree, avals)


def _trace(caller: str, f: Callable[..., Any], tree: Any, avals: tuple[ShapedArray, ...]) -> TracedFunction:
    flat = FlatFunction(f, tree, caller)
    arg_names = argument_names(f, *pytree.unflatten(tree, avals))
    staged = stage_program(flat, avals, function=f, what=caller, arg_names=arg_names)
    captured = [x if isinstance(x, Tracer | Ref) else as_concrete(x) for x in staged.captured]
    return TracedFunction(staged.jaxpr, captured, flat.out_tree, staged.num_written)


def captured_values(traced: Sequence[TracedFunction]) -> tuple[list[Any], tuple[tuple[int, ...], ...]]:
    """The values captured by any branch, each once; and for each branch the positions of its own among them."""
    values: dict[int, Any] = {}
    for t in traced:
        values.update((id(x), x) for x in t.captured)
    place = {key: i for i, key in enumerate(values)}
    return list(values.values()), tuple(tuple(place[id(x)] for x in t.captured) for t in traced)


def join_types(avals: Sequence[ShapedArray]) -> ShapedArray | None:
    """The one type that values of these types are converted to: weakly typed ones give way. None if there is none."""
    varying = frozenset[str]().union(*[aval.vma for aval in avals])
    avals = [aval.update(vma=varying) for aval in avals] if varying else avals
    strong = {aval for aval in avals if not aval.weak_type}
    if len(strong or set(avals)) != 1:
        return None
    joined = next(iter(strong or avals))
    for aval in avals:
        dtype, _ = dtypes.join(aval.dtype, aval.weak_type, joined.dtype, joined.weak_type)
        if aval.shape != joined.shape or dtype != joined.dtype:
            return None
    return joined


def as_type(x: Any, aval: ShapedArray) -> Any:
    """The value with this type, which its own type gives way to (`join_types`)."""
    if aval_of(x) is aval:
        return x
    x = convert_element_type(x, aval.dtype, aval.weak_type)
    return pvary(x, sorted(aval.vma)) if aval.vma else x


def converted(jaxpr: Jaxpr, out_avals: Sequence[Any]) -> Jaxpr:
    """The jaxpr with results of these types."""
    if all(a is b for a, b in zip(jaxpr.out_avals, out_avals, strict=True)):
        return jaxpr

    def run(*args: Any) -> list[Any]:
        outs = list(zip(eval_jaxpr(jaxpr, args), out_avals, strict=True))
        once = {(id(y), aval): y for y, aval in outs}  # a value that is returned twice is converted once
        typed = {key: as_type(y, key[1]) for key, y in once.items()}
        return [typed[id(y), aval] for y, aval in outs]

    return trace_to_jaxpr(run, jaxpr.in_avals, what="control flow")[0]


def with_captured(jaxpr: Jaxpr, own: tuple[int, ...], captured: tuple[ShapedArray, ...]) -> Jaxpr:
    """The jaxpr with all captured values, of these types, as leading inputs; it has those at the positions `own`."""
    if len(own) == len(captured) and list(own) == sorted(own):
        return jaxpr
    mine = dict(zip(own, jaxpr.invars, strict=False))
    leading = [mine.get(i) or Var(aval) for i, aval in enumerate(captured)]
    return Jaxpr([*leading, *jaxpr.invars[len(own) :]], jaxpr.eqns, jaxpr.outvars, jaxpr.name)
