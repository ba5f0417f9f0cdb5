"""Jaxprs and primitives together: the home of their names.

The parameters of primitives that hold jaxprs, as JAX has them:

    jit             the jaxpr closed, the function's name, and what Didax lacks (shardings, donation), as not asked for
    remat2          the jaxpr open
    custom_jvp_call, custom_vjp_call    one primitive in Didax, `rules_call`; the rules are in a parameter
    all others      jaxprs closed, under Didax's names
"""

from __future__ import annotations

import copyreg
from typing import Any

from didax.api.custom import custom_jvp
from didax.as_jax import jaxprs
from didax.as_jax.builtin import (
    ATTRIBUTES,
    COLLECTIVES,
    COMPOSED,
    NAMES,
    BuiltIn,
    Collective,
    Composed,
    Nowhere,
)
from didax.as_jax.jaxprs import *  # noqa: F403
from didax.as_jax.jaxprs import ClosedJaxpr, Jaxpr, JaxprEqn, SourceInfo, closed_view, evaluate, view
from didax.as_jax.primitive import Primitive, UserRules
from didax.as_jax.table import NOWHERE
from didax.core import jaxpr as core
from didax.core.errors import message
from didax.core.given import give
from didax.core.primitive import Primitive as DidaxPrimitive
from didax.core.primitive_names import by_name

__all__ = ["closed_view", "primitive_named", "view", "view_of"]
__all__ += jaxprs.__all__


def _closed(value: Any) -> Any:
    """A parameter with the programs in it closed."""
    if isinstance(value, core.Jaxpr):
        # One object for each program: libraries remember by it what they have made of the program.
        if value.seen is None:
            value.seen = ClosedJaxpr(view(value))
        return value.seen
    if isinstance(value, tuple) and any(isinstance(item, core.Jaxpr) for item in value):
        return tuple([_closed(item) for item in value])
    return value


def _own(value: Any) -> Any:
    """The parameter as Didax has it."""
    if isinstance(value, (ClosedJaxpr, Jaxpr)):
        return value.didax()
    if isinstance(value, (tuple, list)) and any(isinstance(item, (ClosedJaxpr, Jaxpr)) for item in value):
        return tuple([_own(item) for item in value])
    return value


class Holder(BuiltIn):
    """A primitive whose parameters hold programs."""

    def to_jax(self, params: dict[str, Any]) -> dict[str, Any]:
        return {name: _closed(value) for name, value in super().to_jax(params).items()}

    def to_didax(self, params: dict[str, Any]) -> dict[str, Any]:
        return {name: _own(value) for name, value in super().to_didax(params).items()}


class Scan(Holder):
    """`scan`, whose linear operands are not marked here."""

    def to_didax(self, params: dict[str, Any]) -> dict[str, Any]:
        return super().to_didax({n: v for n, v in params.items() if n not in ("linear", "_split_transpose")})


class Jit(Holder):
    """`jit`: Didax's has its program alone."""

    def to_jax(self, params: dict[str, Any]) -> dict[str, Any]:
        own = super().to_jax(params)
        jaxpr = params["jaxpr"]
        nothing = {"in": (None,) * len(jaxpr.invars), "out": (None,) * len(jaxpr.outvars)}
        return {
            "name": jaxpr.name or "jit", "donated_invars": (False,) * len(jaxpr.invars), "inline": False,
            "keep_unused": False, "in_shardings": nothing["in"], "out_shardings": nothing["out"],
            "in_layouts": nothing["in"], "out_layouts": nothing["out"], "ctx_mesh": None, "compiler_options_kvs": (),
            **own,
        }  # fmt: skip

    def to_didax(self, params: dict[str, Any]) -> dict[str, Any]:
        return super().to_didax({"jaxpr": params["jaxpr"]})


class Remat(BuiltIn):
    """`remat2`, whose program is open."""

    def to_jax(self, params: dict[str, Any]) -> dict[str, Any]:
        return {**params, "jaxpr": view(params["jaxpr"])}

    def to_didax(self, params: dict[str, Any]) -> dict[str, Any]:
        return {**params, "jaxpr": _own(params["jaxpr"])}


class TheRules:
    """The rules of a function with rules of its own. Didax runs them; a jaxpr shows only that they are there."""

    def __init__(self, rules: Any, jaxpr: Any):
        self.rules, self.jaxpr = rules, jaxpr

    def __call__(self, *_: Any) -> Any:
        rule = "The rules of a function with derivative rules of its own are run by Didax alone."
        fix = "Bind the primitive with the parameters of its equation; jvp and vjp of the result apply the rules."
        raise NotImplementedError(message(rule, f"function: {self.rules.name}", fix=fix))

    call_wrapped = __call__

    def __repr__(self) -> str:
        return repr(self.rules)


class Custom(BuiltIn):
    """`custom_jvp_call` or `custom_vjp_call`."""

    def to_jax(self, params: dict[str, Any]) -> dict[str, Any]:
        rules, program = params["rules"], ClosedJaxpr(view(params["jaxpr"]))
        held = TheRules(rules, params["jaxpr"])
        own: dict[str, Any] = {"call_jaxpr": program, "num_consts": 0, "symbolic_zeros": False}
        if "jvp" in rules.given or "vjp" not in rules.given:
            return {"primitive": CUSTOM["custom_jvp_call"], **own, "jvp_jaxpr_fun": held}
        return {
            "primitive": CUSTOM["custom_vjp_call"],
            **own,
            "fwd_jaxpr_thunk": held,
            "bwd": held,
            "out_trees": None,
        }

    def bind(self, *args: Any, **params: Any) -> Any:
        if self.name == "custom_jvp_call" and "subfuns" in params:
            fun, jvp = params["subfuns"]
            return _call_with_jvp(fun, jvp, args)
        return super().bind(*args, **params)

    def to_didax(self, params: dict[str, Any]) -> dict[str, Any]:
        held = params.get("jvp_jaxpr_fun", params.get("fwd_jaxpr_thunk"))
        if not isinstance(held, TheRules):
            rule = f"{self.name} is bound with the parameters of an equation of a jaxpr."
            raise NotImplementedError(
                message(
                    rule,
                    f"given: {held!r:.200}",
                    fix="Call a function that jax.custom_jvp or jax.custom_vjp made.",
                )
            )
        return {"jaxpr": _own(params["call_jaxpr"]), "rules": held.rules}


def _call_with_jvp(fun: Any, jvp: Any, args: Any) -> list[Any]:
    """A call of a function of a flat list; `jvp` takes primals, then tangents, and returns results, then tangents."""
    function = custom_jvp(lambda *xs: list(fun.call_wrapped(*xs)))

    @function.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        outs = list(jvp.call_wrapped(*primals, *tangents))
        half = len(outs) // 2
        return outs[:half], outs[half:]

    return function(*args)


CUSTOM = {name: Custom(name, by_name["rules_call"]) for name in ("custom_jvp_call", "custom_vjp_call")}
HOLDERS: dict[str, type[BuiltIn]] = {
    **dict.fromkeys(COLLECTIVES, Collective),
    "checkpoint": Remat,
    "jit": Jit,
    "rules_call": Custom,
    "scan": Scan,
    **dict.fromkeys(
        ["bounded_while", "checkpointed_while", "cond", "counted_scan", "forward_pass", "linear_map", "linear_solve",
         "replay", "shard_map", "while"], Holder),
}  # fmt: skip


# --- Primitives by object and by name -----------------------------------------------------------------------

_views: dict[Any, Primitive] = {
    name: Composed(name, lambda *args, call_jaxpr: evaluate(call_jaxpr, args), True)
    for name in ("call", "closed_call")
}


def view_of(primitive: DidaxPrimitive) -> Primitive:
    """A primitive of Didax's as JAX has it."""
    if type(primitive) is UserRules:
        return primitive.owner
    found = _views.get(primitive)
    if found is None:
        kind = HOLDERS.get(primitive.name, BuiltIn)
        found = _views.setdefault(primitive, kind(NAMES.get(primitive.name, primitive.name), primitive))
    return found


_OWN_NAMES = {theirs: own for own, theirs in NAMES.items()}


def primitive_named(name: str) -> Primitive:
    """The primitive that JAX calls by this name, or by `name_p`; KeyError for one that is not there."""
    if name in CUSTOM:
        return CUSTOM[name]
    own = _OWN_NAMES.get(name, name)
    own = ATTRIBUTES.get(own, own)
    if own in COMPOSED and own not in _views:
        _views[own] = Composed(own, *COMPOSED[own])
    if own in NOWHERE and own not in _views:
        _views[own] = Nowhere(own)
    return _views[own] if own in _views else view_of(by_name[own])


def __getattr__(name: str) -> Primitive:
    if name.endswith("_p"):
        try:
            return primitive_named(name.removesuffix("_p"))
        except KeyError:
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


for _kind in (BuiltIn, Collective, Composed, Custom, Holder, Jit, Nowhere, Remat, Scan):
    _by_name: Any = lambda primitive: (primitive_named, (primitive.name,))
    copyreg.pickle(_kind, _by_name)


@give(Jaxpr, "view_eqn")
def view_eqn(eqn: core.Eqn) -> JaxprEqn:
    """An equation of Didax's as JAX has it."""
    view = view_of(eqn.primitive)
    params = view.to_jax(eqn.params)
    primitive = params.pop("primitive", view)
    return JaxprEqn(eqn.invars, eqn.outvars, primitive, params, eqn.effects, SourceInfo(eqn.source))
