"""`Primitive` as JAX has it: an operation whose rules are registered one by one, each in a registry.

    p = Primitive("my_sin")
    p.def_impl(f)                       evaluation of concrete arrays
    p.def_abstract_eval(g)              types of the results
    ad.primitive_jvps[p] = h            and so on, for each interpreter

Behind each stands one of Didax's primitives, `p.rules`, whose rules a registry fills in when it is written to. So the
interpreters know nothing of all this, and a rule that nobody registered is absent there too. Read next: `builtin.py`
(Didax's own primitives under JAX's names), `interpreters/` (the registries).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import numpy as np

from didax.api.jit import jit
from didax.core import primitive_names
from didax.core.array_ops import Zero
from didax.core.avals import ShapedArray, aval_of
from didax.core.dtypes import narrowed
from didax.core.errors import message
from didax.core.primitive import Primitive as DidaxPrimitive
from didax.core.tracing import current_trace, set_current_trace
from didax.tree_util import register_pytree_node


class UndefinedPrimal:
    """A linear operand in a transpose rule: its type alone."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval})"


register_pytree_node(UndefinedPrimal, lambda x: ((), x.aval), lambda aval, _: UndefinedPrimal(aval))
register_pytree_node(Zero, lambda zero: ((), zero.aval), lambda aval, _: Zero(aval))


class ByIdentity:
    """A parameter that cannot be hashed: rules are given the value itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return ByIdentity(value)
    return value


class Primitive:
    """An operation with a name; rules are registered for it."""

    multiple_results: bool = False
    call_primitive: bool = False
    map_primitive: bool = False
    ref_primitive: bool = False
    skip_canonicalization: bool = False
    is_effectful: Callable[[dict[str, Any]], bool] | None = None

    def __init__(self, name: str):
        self.name = name
        self.rules: DidaxPrimitive = UserRules(self)
        self.impl: Callable[..., Any] = functools.partial(_no_impl, name)
        self.abstract_eval: Callable[..., Any] = functools.partial(_no_abstract_eval, name)

    def __repr__(self) -> str:
        return self.name

    def to_didax(self, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters as Didax has them: all can be hashed."""
        return {name: _hashable(value) for name, value in params.items()}

    def to_jax(self, params: dict[str, Any]) -> dict[str, Any]:
        """Didax's parameters as they were given."""
        return {name: x.value if type(x) is ByIdentity else x for name, x in params.items()}

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply it under the current trace."""
        return self.rules.bind(*args, **self.to_didax(params))

    def bind_with_trace(self, trace: Any, args: Any, avals: Any, params: dict[str, Any], /) -> Any:
        """Apply it under that trace."""
        with set_current_trace(trace):
            return self.bind(*args, **params)

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The keywords of `bind` for the parameters of an equation."""
        return params

    def def_impl(self, impl: Callable[..., Any]) -> Callable[..., Any]:
        """State how concrete arrays are evaluated."""
        self.impl = impl
        return impl

    def def_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """State the types of the results."""
        self.abstract_eval = lambda *avals, **params: (rule(*avals, **params), frozenset())
        self.rules.type = self.rules.infer_type  # type: ignore[attr-defined]
        return rule

    def def_effectful_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """State the types of the results, and the effects."""
        self.abstract_eval = rule
        self.rules.type = self.rules.infer_type  # type: ignore[attr-defined]
        return rule

    def_effectful_abstract_eval2 = def_effectful_abstract_eval

    def def_custom_bind(self, bind: Callable[..., Any]) -> Callable[..., Any]:
        """Replace `bind`."""
        self.bind = bind
        return bind


def _no_impl(name: str, *_: Any, **__: Any) -> Any:
    raise NotImplementedError(f"Evaluation rule for '{name}' not implemented")


def _no_abstract_eval(name: str, *_: Any, **__: Any) -> Any:
    raise NotImplementedError(f"Abstract evaluation for '{name}' not implemented")


class UserRules(DidaxPrimitive):
    """The rules of a primitive that a program written for JAX declares."""

    caches_types = False
    multiple_results = property(lambda self: self.owner.multiple_results)  # type: ignore[assignment]

    def __init__(self, owner: Primitive):
        self.owner = owner
        super().__init__(_free_name(owner.name))
        self.evaluate = self.run_impl

    def infer_type(self, *avals: ShapedArray, **params: Any) -> Any:
        """Didax's type rule, by the owner's abstract evaluation."""
        found, effects = self.owner.abstract_eval(*avals, **self.owner.to_jax(params))
        if effects:
            rule = f"The primitive {self.owner.name!r} states effects of its own, which Didax does not have."
            fix = "Use jax.experimental.io_callback or jax.debug.callback, whose effects Didax orders."
            raise NotImplementedError(message(rule, f"effects: {', '.join(map(repr, effects))}", fix=fix))
        return [as_type(aval) for aval in found] if self.multiple_results else as_type(found)

    def run_impl(self, *args: Any, **params: Any) -> Any:
        """Didax's evaluation, by the owner's."""
        outs = self.owner.impl(*args, **self.owner.to_jax(params))
        return [_narrowed(x) for x in outs] if self.multiple_results else _narrowed(outs)


def _narrowed(x: Any) -> Any:
    """A NumPy result in the default width: what NumPy computes from Python numbers has 64 bits."""
    return x.astype(narrowed(x.dtype), copy=False) if isinstance(x, (np.ndarray, np.generic)) else x


def as_type(aval: Any) -> ShapedArray:
    """The type that an abstract evaluation states: a ShapedArray, or anything with a shape and a dtype."""
    return aval if type(aval) is ShapedArray else aval_of(aval)


def _free_name(name: str) -> str:
    """Programs name primitives; two of JAX's may have the same name."""
    word = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "_"
    word = word if word[0].isalpha() or word[0] == "_" else f"_{word}"
    taken, number = primitive_names.by_name, 2
    if word not in taken:
        return word
    while f"{word}_{number}" in taken:
        number += 1
    return f"{word}_{number}"


class Registry(MutableMapping[Any, Callable[..., Any]]):
    """Rules by primitive, for one of the rules of Didax's primitives.

    `fill(p, rule)` is a user's rule as Didax calls it; `derive(p)` is the rule of one of Didax's primitives as JAX
    calls it. A program may also give one of Didax's primitives another rule, for the whole process.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        fill: Callable[[Primitive, Callable[..., Any]], Callable[..., Any]],
        derive: Callable[[Any], Callable[..., Any] | None],
    ):
        self._name, self._kind, self._fill, self._derive = name, kind, fill, derive
        self._rules: dict[Any, Callable[..., Any]] = {}

    def __getitem__(self, primitive: Any) -> Callable[..., Any]:
        found = self._rules.get(primitive)
        if found is None and isinstance(primitive, Primitive) and type(primitive.rules) is not UserRules:
            found = self._derive(primitive)
        if found is None:
            raise KeyError(primitive)
        return found

    def __setitem__(self, primitive: Any, rule: Callable[..., Any]) -> None:
        rules: Any = getattr(primitive, "rules", None)
        if rules is None or (self._kind == "jvp" and rules.linearize is not None):
            text = f"{self._name} takes rules for primitives that hold no programs."
            fix = "Make a primitive with jax.extend.core.Primitive, or wrap the function with custom_jvp or custom_vjp."
            raise TypeError(message(text, f"primitive: {primitive!r}", fix=fix))
        self._rules[primitive] = rule
        setattr(rules, self._kind, self._fill(primitive, rule))

    def __delitem__(self, primitive: Any) -> None:
        del self._rules[primitive]
        delattr(primitive.rules, self._kind)  # the rule of the class counts again

    def __contains__(self, primitive: object) -> bool:
        try:
            self[primitive]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def __repr__(self) -> str:
        return f"{self._name}({list(self._rules)})"


def apply_primitive(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """Evaluate one application as a compiled program."""
    return jit(lambda *xs: primitive.bind(*xs, **params))(*args)


class OpaqueTraceState:
    """Which trace is current; only good for comparisons."""

    def __init__(self, trace: Any):
        self._trace = trace

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace is other._trace

    def __hash__(self) -> int:
        return id(self._trace)


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """A value that is equal as long as the same trace is current."""
    return OpaqueTraceState(current_trace())
