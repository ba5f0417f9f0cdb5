"""Didax's primitives under JAX's names and with JAX's parameters: `lax.add_p`, and what equations of jaxprs hold.

Most agree in name and parameters; the tables here have the others. A primitive of JAX that Didax composes of others
(`split_p`) is a `Composed`: binding it applies the function, so it never stands in a jaxpr. One that Didax cannot have
is absent. Read next: `programs.py`, which finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import didax.random
from didax import lax
from didax.as_jax.primitive import Primitive
from didax.core.errors import message
from didax.core.primitive import Primitive as DidaxPrimitive
from didax.primitives.collectives import axis_names

# Parameters that only JAX has, with the one value that they can have here.
_NOT_SHARDED = {"sharding": None}
_RESULT_NOT_SHARDED = {"out_sharding": None}
_XLAS_ACCURACY = {"accuracy": None}
_OPERATION_KNOWN = {"update_consts": (), "update_jaxpr": None}
_ROUNDED_BY_XLA = [
    "cbrt", "cos", "exp", "exp2", "expm1", "log", "log1p", "logistic", "rsqrt", "sin", "sqrt", "tan", "tanh",
]  # fmt: skip
FIXED: dict[str, dict[str, Any]] = {
    **dict.fromkeys(["broadcast_in_dim", "convert_element_type", "iota"], _NOT_SHARDED),
    **dict.fromkeys(
        ["dot_general", "conv_general_dilated", "reduce_sum", "rng_bit_generator"], _RESULT_NOT_SHARDED
    ),
    **dict.fromkeys(_ROUNDED_BY_XLA, _XLAS_ACCURACY),
    "eigh": {"algorithm": None, "sort_eigenvalues": True, "subset_by_index": None},
    "mul": {"out_dtype": None},
    "qr": {"pivoting": False, "use_magma": None},
    "reshape": {"dimensions": None, "sharding": None},
    **dict.fromkeys(
        ["scatter", "scatter_add", "scatter_max", "scatter_min", "scatter_mul"], _OPERATION_KNOWN
    ),
    "svd": {"algorithm": None, "compute_uv": True, "subset_by_index": None},
    "tridiagonal_solve": {"perturb_singular": False},
}
# What JAX calls Didax's primitives; others have one name in both.
NAMES = {
    "checkpoint": "remat2",
    "linear_solve": "custom_linear_solve",
    "scatter_add": "scatter-add",
    "scatter_max": "scatter-max",
    "scatter_min": "scatter-min",
    "scatter_mul": "scatter-mul",
}
# `lax.NAME_p` for primitives whose attribute has neither their name in JAX nor that in Didax.
ATTRIBUTES = {"remat": "checkpoint", "custom_jvp_call": "rules_call", "custom_vjp_call": "rules_call"}

# Primitives of JAX that are functions here.
COMPOSED: dict[str, tuple[Callable[..., Any], bool]] = {
    "add_jaxvals": (lax.add, False),
    "mulhi": (lax.mulhi, False),
    "random_seed": (lambda seeds, *, impl: didax.random.key(seeds, impl=impl), False),
    "squeeze": (lambda x, *, dimensions: lax.squeeze(x, dimensions), False),
    "stack": (lambda *xs, axis: lax.stack(xs, axis), False),
    "tile": (lambda x, *, reps: didax.numpy.tile(x, reps), False),
    "symmetric_product": (lambda a, c, *, alpha=1.0, beta=0.0: alpha * (a @ a.mT) + beta * c, False),
    "unstack": (lambda x, *, axis: lax.unstack(x, axis), True),
}


class Nowhere(Primitive):
    """One of JAX's primitives that is in no program here: rules for it are taken, and never used."""

    def __init__(self, name: str):
        super().__init__(name)
        self.rules: Any = None

    def bind(self, *args: Any, **params: Any) -> Any:
        rule = f"JAX's primitive {self.name!r} is in no program of Didax, and cannot be bound."
        raise NotImplementedError(message(rule, fix="Call the function of jax.lax that it stands for."))


class BuiltIn(Primitive):
    """One of Didax's primitives, as JAX has it."""

    def __init__(self, name: str, rules: DidaxPrimitive):
        self.name, self.rules = name, rules
        self.multiple_results = rules.multiple_results
        self.impl = self.bind
        self._fixed = FIXED.get(rules.name, {})

    def abstract_eval(self, *avals: Any, **params: Any) -> Any:
        """Types of the results, and the effects."""
        assert self.rules.type is not None
        own = self.to_didax(params)
        return self.rules.type(*avals, **own), self.rules.effects(own)

    def to_jax(self, params: dict[str, Any]) -> dict[str, Any]:
        return {**params, **self._fixed}

    def to_didax(self, params: dict[str, Any]) -> dict[str, Any]:
        """JAX's parameters as Didax has them; NotImplementedError where one asks for what is not there."""
        own = dict(params)
        for name, value in self._fixed.items():
            if name in own and (given := own.pop(name)) != value and given is not None:
                rule = f"The parameter {name} of {self.name!r} has one value in Didax."
                raise NotImplementedError(
                    message(rule, f"{name}: {given!r:.200}", fix=f"Pass {name}={value!r}, or leave it out.")
                )
        return own


# For each collective: JAX's names of parameters by Didax's, and what only JAX has.
COLLECTIVES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    **dict.fromkeys(["psum", "pmax", "pmin"], ({"axis_name": "axes"}, {"axis_index_groups": None})),
    "all_gather": ({"dimension": "all_gather_dimension"}, {"axis_index_groups": None, "tiled": True}),
    "all_to_all": ({"dimension": "split_axis"}, {"axis_index_groups": None, "tiled": True}),
    "axis_index": ({}, {}),
    "ppermute": ({}, {}),
    "reduce_scatter": ({"dimension": "scatter_dimension"}, {"axis_index_groups": None, "tiled": True}),
}
_WITH_SIZE = ("all_gather", "reduce_scatter")  # whose parameters in JAX have the size of the axis


class Collective(BuiltIn):
    """A collective, whose parameters have other names in JAX, and mostly the names of axes in a tuple."""

    def to_jax(self, params: dict[str, Any]) -> dict[str, Any]:
        own, (names, more) = dict(params), COLLECTIVES[self.rules.name]
        if self.rules.name not in ("all_to_all", "axis_index"):
            own["axis_name"] = axis_names(own["axis_name"])
        if self.rules.name not in _WITH_SIZE:
            del own["axis_size"]
        if self.rules.name == "all_to_all":
            own["concat_axis"] = own["dimension"]
        return {**more, **{names.get(name, name): value for name, value in own.items()}}

    def to_didax(self, params: dict[str, Any]) -> dict[str, Any]:
        names, _ = COLLECTIVES[self.rules.name]
        own = {own: params[theirs] for own, theirs in names.items() if theirs in params}
        rest = {name: value for name, value in params.items() if name not in names.values()}
        wanted = {"tiled": True, "concat_axis": params.get("split_axis")}
        for name in ("tiled", "concat_axis"):
            if rest.pop(name, wanted[name]) != wanted[name]:
                rule = f"The parameter {name} of {self.name!r} has one value in Didax."
                raise NotImplementedError(
                    message(rule, fix=f"Call jax.lax.{self.name}, which composes the others.")
                )
        if rest.get("axis_index_groups") is None:
            rest.pop("axis_index_groups", None)
        own = {**rest, **own}
        return {"axis_size": lax.axis_size(own["axis_name"]), **own}


class Composed(Primitive):
    """One of JAX's primitives that Didax composes of others: `bind` applies the function."""

    def __init__(self, name: str, function: Callable[..., Any], several: bool):
        self.name, self._function, self.multiple_results = name, function, several
        self.rules: Any = None
        self.impl = self.bind

    def bind(self, *args: Any, **params: Any) -> Any:
        outs = self._function(*args, **params)
        return list(outs) if self.multiple_results else outs
