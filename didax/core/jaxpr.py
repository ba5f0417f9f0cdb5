"""Jaxprs: programs as data.

    jaxpr ::= { lambda invar* . let eqn* in ( atom* ) }
    eqn   ::= outvar* = primitive[params] atom*
    atom  ::= var | literal

A `Jaxpr` is immutable, typed and closed: captured arrays are leading inputs, and `ClosedJaxpr` pairs a jaxpr with their
values. Equality is identity. `eval_jaxpr` is the smallest interpreter: it binds each equation under the current trace,
so every transformation of functions is a transformation of jaxprs too.
`jaxpr_print.py` gives the three classes their `__repr__`.
Read next: `jaxpr_check.py`, `jaxpr_print.py`, `jaxpr_parse.py`; `didax/transforms/staging.py` (where jaxprs come from).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast, final

from didax.core.avals import ShapedArray, aval_of
from didax.core.effects import NO_EFFECTS, Effects
from didax.core.given import given_by
from didax.core.primitive import Primitive
from didax.core.rule_types import check_effects, check_kind
from didax.core.source import SourceLine, follows_equations
from didax.core.stack import on_new_stack, stack_is_low


@final
class Var:
    """A variable: bound once, by a jaxpr's inputs or by one equation."""

    __slots__ = ("__weakref__", "aval")

    def __init__(self, aval: ShapedArray):
        self.aval = aval


@final
class Literal:
    """A value written into the program: a scalar in finished jaxprs, any known value in the linear steps of `grad`."""

    __slots__ = ("aval", "val")
    value = given_by("didax.runtime.array")  # to compute with

    def __init__(self, val: Any, aval: ShapedArray | None = None):
        self.val = val
        self.aval = aval_of(val) if aval is None else aval


Atom = Var | Literal


class Eqn:
    """`outvars = primitive[params] invars`, with the user's line that made it."""

    __slots__ = ("invars", "outvars", "params", "primitive", "source")
    __repr__ = given_by("didax.core.jaxpr_print")

    def __init__(
        self,
        primitive: Primitive,
        invars: Sequence[Atom],
        params: dict[str, Any],
        outvars: Sequence[Var],
        source: SourceLine | None = None,
    ):
        self.primitive = primitive
        self.invars = invars
        self.params = params
        self.outvars = outvars
        self.source = source

    @property
    def effects(self) -> Effects:
        """What it does besides computing its results."""
        found = self.primitive.effects(self.params)
        if found is not NO_EFFECTS:
            check_effects(self.primitive, found)
        return found

    @property
    def jaxprs(self) -> list[Jaxpr]:
        """The jaxprs directly inside its parameters."""
        return [jaxpr for value in self.params.values() for jaxpr in nested_jaxprs(value)]

    def map_jaxprs(self, change: Callable[[Jaxpr], Jaxpr]) -> Eqn:
        """The same equation with the jaxprs in its parameters changed."""
        return self.replace(params={name: map_jaxprs(value, change) for name, value in self.params.items()})

    def replace(self, **changes: Any) -> Eqn:
        """The same equation with some fields replaced."""
        fields = {
            name: changes.get(name, getattr(self, name))
            for name in ("primitive", "invars", "params", "outvars")
        }
        return Eqn(**fields, source=self.source)


class Jaxpr:
    """A typed, closed program: inputs, equations in order, outputs."""

    __slots__ = ("__weakref__", "_axis_names", "_effects", "eqns", "invars", "name", "outvars", "seen")
    __repr__ = given_by("didax.core.jaxpr_print")

    def __init__(self, invars: Sequence[Var], eqns: Sequence[Eqn], outvars: Sequence[Atom], name: str = ""):
        self.invars = tuple(invars)
        self.eqns = tuple(eqns)
        self.outvars = tuple(outvars)
        self.name = name
        self._axis_names: frozenset[str] | None = None
        self._effects: Effects | None = None
        self.seen: Any = None  # the same program as JAX's classes show it (as_jax/programs.py)

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        """Types of the inputs."""
        return tuple(v.aval for v in self.invars)

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        """Types of the outputs."""
        return tuple(v.aval for v in self.outvars)

    @property
    def axis_names(self) -> frozenset[str]:
        """Names of the mapped axes that equations in here refer to."""
        if self._axis_names is None:
            if stack_is_low():
                return on_new_stack(getattr, self, "axis_names")
            self._axis_names = frozenset[str]().union(*[_named_axes(e) for e in self.eqns])
        return self._axis_names

    @property
    def effects(self) -> Effects:
        """What its equations do besides computing their results."""
        if self._effects is None:
            if stack_is_low():
                return on_new_stack(getattr, self, "effects")
            self._effects = NO_EFFECTS.union(*[e.effects for e in self.eqns])
        return self._effects


def _named_axes(eqn: Eqn) -> frozenset[str]:
    found: Any = eqn.primitive.named_axes(eqn.params)
    return check_kind(eqn.primitive, "named_axes", found, frozenset, "a frozenset of names")


def nested_jaxprs(value: Any) -> Iterator[Jaxpr]:
    """The jaxprs directly inside a parameter's value: itself, or in tuples and dataclasses."""
    if isinstance(value, Jaxpr):
        yield value
    elif isinstance(value, tuple):
        for item in cast("tuple[Any, ...]", value):
            yield from nested_jaxprs(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from nested_jaxprs(getattr(value, field.name))


def map_jaxprs(value: Any, change: Callable[[Jaxpr], Jaxpr]) -> Any:
    """A parameter's value with its `nested_jaxprs` changed; the value itself where it holds none."""
    if next(nested_jaxprs(value), None) is None:
        return value
    if isinstance(value, Jaxpr):
        return change(value)
    if isinstance(value, tuple):
        old = cast("tuple[Any, ...]", value)
        new = [map_jaxprs(item, change) for item in old]
        return type(old)(*new) if hasattr(old, "_fields") else tuple(new)
    fields = {f.name: map_jaxprs(getattr(value, f.name), change) for f in dataclasses.fields(value)}
    return dataclasses.replace(value, **fields)


class ClosedJaxpr(NamedTuple):
    """A jaxpr with the values of its leading inputs, the arrays its function captured."""

    jaxpr: Jaxpr
    consts: tuple[Any, ...]
    __repr__ = given_by("didax.core.jaxpr_print")
    eqns = property(lambda self: self.jaxpr.eqns, doc="The equations.")
    effects = property(lambda self: self.jaxpr.effects, doc="What running it does besides results.")

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        """Types of the inputs after the constants."""
        return self.jaxpr.in_avals[len(self.consts) :]

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        """Types of the outputs."""
        return self.jaxpr.out_avals


@follows_equations()
def eval_jaxpr(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a jaxpr on `args`, each equation bound under the current trace."""
    env: dict[Var, Any] = dict(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        inputs = [env[x] if type(x) is Var else x.value() for x in eqn.invars]
        out = eqn.primitive.bind(*inputs, **eqn.params)
        if eqn.primitive.multiple_results:
            env.update(zip(eqn.outvars, out, strict=True))
        else:
            env[eqn.outvars[0]] = out
    return [env[x] if type(x) is Var else x.value() for x in jaxpr.outvars]
