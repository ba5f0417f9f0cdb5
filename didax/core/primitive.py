"""`Primitive`: an operation, declared once with all of its rules.

A primitive is one object. Its class holds, as methods, what every interpreter needs to know of it; nothing is
registered anywhere else. Arrays are positional arguments, static parameters are hashable keywords:

    class Cumsum(Primitive):
        def type(self, x, *, axis): ...                  # abstract values in, abstract value(s) out; raises on misuse
        def eager(self, x, *, axis): ...                 # NumPy values in, NumPy value(s) out
        def lower(self, ctx, x, *, axis): ...            # StableHLO operands in, results out
        def jvp(self, primals, tangents, *, axis): ...   # -> (outs, out tangents)
        def transpose(self, ct, x, *, axis): ...         # cotangent of the result -> one per argument
        def batch(self, axis_data, args, dims, *, axis): ...  # -> (outs, their batch dimensions)
        moves_elements = True                            # only moves them: it may move random keys too

    cumsum_p = Cumsum("cumsum")

An absent rule stays None, and the interpreter that needs it raises `MissingRuleError`. Rules that can be derived are:
the linearize rule from jvp, the eager rule from the lowering. Families of elementwise primitives, which need 2-4
lines each, are in `didax/primitives/families.py`. Read next: `tracing.py` (who calls the rules).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from didax.core.avals import ShapedArray
from didax.core.dtypes import as_extended, carrier, is_sub_byte
from didax.core.effects import NO_EFFECTS, Effects, effects_within
from didax.core.errors import MissingRuleError, message
from didax.core.exact import exact, holds_floats
from didax.core.tracing import current_trace_var

Rule = Callable[..., Any] | None
_get_current = current_trace_var.get
_type_cache: dict[Any, tuple[ShapedArray, ...]] = {}
_TYPE_CACHE_MAX = 100_000


class Primitive:
    """An operation with its rules; `bind` applies it under the current trace.

    Rules (None where absent): `type`, `eager`, `evaluate`, `lower`, `jvp`, `linearize`, `transpose`, `batch`,
    `partial_eval`, `dce`, `recompute`, `physical`, `keys`, `conditions`, `checkify`, `stage`, `enclose`, `interpret`.
    With `multiple_results` every rule returns lists instead of single values.
    """

    multiple_results: ClassVar[bool] = False
    contraction: ClassVar[bool] = (
        False  # its operands are not fused into it: a large program may be cut before it
    )
    strengthens: ClassVar[bool] = (
        True  # a weakly typed operand is cast beside strong ones: cotangents are cast back
    )
    sets_varying: ClassVar[bool] = False  # its type rule says along which manual axes the results vary
    remembers_types: ClassVar[bool] = True  # not where parameters hold what a memory must not keep alive
    moves_elements: bool = False  # whatever they are; see passes/physical.py
    exact_params: bool = False  # 0.0 and -0.0 are different parameters: set once one that is a float is met
    in_carrier: bool = False  # compiled in `dtypes.carrier`, as all that moves elements is

    type: Rule = None
    eager: Rule = None
    evaluate: Rule = None  # like eager, on Arrays: for primitives that run programs of their own (jit, cond)
    lower: Rule = None
    jvp: Rule = None
    linearize: Rule = None  # like jvp, but splits off the linear part: for primitives that hold jaxprs
    transpose: Rule = None
    batch: Rule = None
    partial_eval: Rule = None
    dce: Rule = None
    recompute: Rule = None  # what of an equation is saved, what runs again: for primitives that hold jaxprs
    physical: Rule = (
        None  # on the numbers behind extended dtypes; for primitives that only move them: moves_elements
    )
    keys: Rule = None  # which random keys it uses up or returns; see passes/key_reuse.py
    conditions: Rule = None  # what it needs of its operands' values; see passes/checkify.py
    checkify: Rule = None  # its application with failed checks as data: for primitives that hold jaxprs
    stage: Rule = None  # writes its application down as one of another primitive: for Python functions
    enclose: Rule = None  # its parameters in a closure: for Python functions; see transforms/closure.py
    interpret: Rule = None  # runs its jaxprs one at a time, on concrete arrays; see passes/nans.py
    holes: ClassVar[dict[str, str]] = {}  # rule name -> why it is absent on purpose

    def __init__(self, name: str):
        self.name = name
        _register(self)

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the primitive to arrays under the current trace."""
        return _get_current().process(self, args, params)

    def eager_for(self, avals: tuple[ShapedArray, ...]) -> Rule:
        """The eager rule, or None for operands on which it would differ from the compiled primitive."""
        if not self.moves_elements and any(
            [is_sub_byte(a.dtype) or carrier(a.dtype) != a.dtype for a in avals]
        ):
            return None
        return self.eager

    def named_axes(self, params: dict[str, Any]) -> frozenset[str]:
        """Names of the mapped axes this application refers to; collectives and holders of jaxprs override it."""
        return _NO_AXES

    def effects(self, params: dict[str, Any]) -> Effects:
        """What this application does besides computing results; of holders of jaxprs, what these do."""
        if self.dce is None:
            return NO_EFFECTS
        return NO_EFFECTS.union(*map(effects_within, params.values()))

    def __repr__(self) -> str:
        return self.name


_NO_AXES: frozenset[str] = frozenset()
# Every primitive by name: the jaxpr parser and the generated rule table read it.
by_name: dict[str, Primitive] = {}
_defined_in: dict[str, str] = {}  # name of a primitive -> the module that made it


def _register(primitive: Primitive) -> None:
    """Note the name; ValueError where another module has a primitive of this name.

    The module that made a primitive may make it anew, as when it is reloaded, or a cell of a notebook runs again.
    """
    name, module = primitive.name, _defining_module()
    if name in by_name and _defined_in[name] != module:
        raise ValueError(
            message(
                "A primitive needs a name of its own: programs are written, and read again, by these names.",
                f"name: {name!r}",
                f"taken by: {type(by_name[name]).__name__} of module {_defined_in[name]}",
                f"module: {module}",
                fix=f"Choose another name, such as {module.rpartition('.')[2].strip('_') + '_' + name!r}.",
            )
        )
    by_name[name], _defined_in[name] = primitive, module


def _defining_module() -> str:
    """The module that calls for a new primitive, past the constructors of this package."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_globals.get("__name__") in _CONSTRUCTORS:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


_CONSTRUCTORS = {__name__, "didax.primitives.families"}


def infer(
    primitive: Primitive, avals: tuple[ShapedArray, ...], params: dict[str, Any]
) -> tuple[ShapedArray, ...]:
    """Types of the results, by the primitive's type rule; remembered, since types are interned and params hashable."""
    key = application_key(primitive, avals, params)
    found = _type_cache.get(key)
    if found is None:
        check_extended(primitive, avals)
        varying = _varying(primitive, avals)
        operands = [a.update(vma=()) for a in avals] if varying else avals
        out = require(primitive, "type")(*operands, **params)
        found = tuple(out) if primitive.multiple_results else (out,)
        if varying:
            found = tuple([a.update(vma=varying) for a in found])
        if primitive.dce is not None or not primitive.remembers_types:  # its parameters may hold jaxprs
            return found
        if len(_type_cache) > _TYPE_CACHE_MAX:
            _type_cache.clear()
        if not primitive.exact_params and any(map(holds_floats, params.values())):
            primitive.exact_params = True
            key = application_key(primitive, avals, params)
        _type_cache[key] = found
    return found


def _varying(primitive: Primitive, avals: tuple[ShapedArray, ...]) -> frozenset[str]:
    """The manual axes along which the results vary because an operand does; none where the type rule says so itself."""
    if primitive.sets_varying or primitive.dce is not None:  # jaxprs know it of their outputs
        return _NO_AXES
    return _NO_AXES.union(*[a.vma for a in avals])


def application_key(
    primitive: Primitive, avals: tuple[ShapedArray, ...], params: dict[str, Any]
) -> tuple[Any, ...]:
    """A key that only equal applications of a primitive share."""
    if primitive.exact_params:
        return (primitive, avals, exact(tuple(params.items())))
    return (primitive, avals, *params.items()) if params else (primitive, avals)


def clear_types() -> None:
    """Forget the types of results."""
    _type_cache.clear()


def check_extended(primitive: Primitive, avals: tuple[ShapedArray, ...]) -> None:
    """TypeError where an operand's elements are no numbers (random keys) and the primitive does more than move them."""
    if primitive.moves_elements or primitive.physical is not None or primitive.dce is not None:
        return
    if (error := no_numbers(primitive.name, avals)) is not None:
        raise error


def no_numbers(name: str, avals: Sequence[ShapedArray]) -> TypeError | None:
    """The error of a function `name` that met elements that are no numbers; None where all operands are numbers."""
    for aval in avals:
        if (dtype := as_extended(aval.dtype)) is not None:
            rule = f"{name} takes numbers, and {dtype.noun} are none."
            return TypeError(message(rule, f"operands: {', '.join(map(str, avals))}", fix=dtype.advice))
    return None


_WORDS = {
    "type": "staged",
    "eager": "evaluated",
    "lower": "compiled",
    "jvp": "differentiated",
    "transpose": "transposed (reverse-mode differentiated)",
    "batch": "batched by vmap",
    "checkify": "checkified",
}


def require(primitive: Primitive, rule: str) -> Callable[..., Any]:
    """The primitive's rule of that name; MissingRuleError when it has none."""
    found = getattr(primitive, rule)
    if found is None:
        why = primitive.holes.get(rule)
        raise MissingRuleError(
            message(
                f"Primitive {primitive.name!r} cannot be {_WORDS.get(rule, rule)}: it has no {rule} rule.",
                *([f"reason: {why}"] if why else []),
                fix=f"Give {type(primitive).__name__} a `{rule}` method, or keep the operation out of that "
                "transformation.",
            )
        )
    return found
