"""`VJPHiPrimitive`: an operation on arrays that a program declares as a class, with rules of its own.

    class Double(VJPHiPrimitive):
        def expand(self, x): ...                        what it computes
        def vjp_fwd(self, nonzero, x): ...              the result, and what the backward pass needs
        def vjp_bwd_retval(self, residuals, ct): ...    cotangents of the arguments

An instance is called like a function. Here a call is that of a function with rules (`custom_rules`): jvp, lin with
linearized, the two of reverse mode, and batch, as far as the class defines them. Where the class leaves a rule out,
Didax differentiates or batches `expand`, while JAX refuses. The rule `transpose` is not read: `expand` has a transpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from didax.api.custom import custom_rules
from didax.as_jax.core_names import get_aval
from didax.core import pytree
from didax.core.array_ops import Zero
from didax.core.errors import message
from didax.numpy.creation import zeros
from didax.numpy.manipulation import moveaxis
from didax.transforms.batching import AxisData


class GradAccum:
    """What `vjp_bwd` adds the cotangent of one argument to."""

    def __init__(self, aval: Any):
        self.aval = aval
        self.total: Any = None

    def accum(self, ct: Any) -> None:
        """Add a cotangent; None is zero, as a symbolic one is."""
        if ct is not None and not isinstance(ct, Zero):
            self.total = ct if self.total is None else self.total + ct

    def freeze(self) -> Any:
        """Return the sum."""
        return zeros(self.aval.shape, self.aval.dtype) if self.total is None else self.total


class VJPHiPrimitive:
    """An operation with rules; a subclass sets `in_avals`, `out_aval` and `params`, then calls this `__init__`."""

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Any]
    effects: frozenset[Any] = frozenset()

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                rule = (
                    f"The __init__ of a VJPHiPrimitive sets in_avals, out_aval and params: {name} is missing."
                )
                raise AttributeError(
                    message(rule, f"class: {type(self).__qualname__}", fix=f"Set self.{name}.")
                )
        if self._defines("vjp_bwd") and self._defines("vjp_bwd_retval"):
            rule = "A VJPHiPrimitive has one backward rule."
            facts = f"class: {type(self).__qualname__}, which has vjp_bwd and vjp_bwd_retval"
            raise AttributeError(message(rule, facts, fix="Leave one of them out."))
        if self.effects:
            rule = "A VJPHiPrimitive with effects is not one that Didax has."
            raise NotImplementedError(message(rule, f"effects: {self.effects}", fix="Use jax.custom_vjp."))
        self.in_avals_flat, self.in_tree = pytree.flatten(self.in_avals)
        self.out_avals_flat, self.out_tree = pytree.flatten(self.out_aval)
        self.__dict__.update(self.params)
        self.check(*self.in_avals)

    def expand(self, *args: Any) -> Any:
        """The result; a subclass defines it."""
        raise NotImplementedError(
            f"{type(self).__qualname__} needs a method expand, which computes its result."
        )

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        """The result and the residuals, and perhaps which results depend on the arguments."""
        raise NotImplementedError(f"{type(self).__qualname__} has no vjp_fwd.")

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        """Add the cotangents to the accumulators of the arguments."""
        pytree.map(lambda acc, ct: acc.accum(ct), arg_accums, tuple(self.vjp_bwd_retval(res, outgrad)))

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """The cotangents of the arguments."""
        raise NotImplementedError(f"{type(self).__qualname__} has neither vjp_bwd nor vjp_bwd_retval.")

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """The result and its tangent."""
        raise NotImplementedError(f"{type(self).__qualname__} has no jvp.")

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        """The result, and the residuals for `linearized`."""
        raise NotImplementedError(f"{type(self).__qualname__} has no lin.")

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """The tangent of the result, linear in the tangents."""
        raise NotImplementedError(f"{type(self).__qualname__} has no linearized.")

    def batch(self, axis_data: Any, args: Any, dims: Any) -> tuple[Any, Any]:
        """The results for arguments with one more axis, and where the results have it."""
        raise NotImplementedError(f"{type(self).__qualname__} has no batch.")

    def check(self, *arg_tys: Any) -> None:
        """Raise for types that the operation does not take; a subclass may define it."""

    def __call__(self, *args: Any) -> Any:
        tree = pytree.structure(args)
        if tree != self.in_tree:
            facts = pytree.mismatch(self.in_tree, tree, "in_avals", "arguments").splitlines()
            raise TypeError(
                message(f"{self!r} takes arguments of its in_avals.", *facts, fix="Pass such arguments.")
            )
        rules = self._rules()
        return custom_rules(self.expand, **rules)(*args) if rules else self.expand(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.params}]"

    def __hash__(self) -> int:
        return hash((type(self).__name__, tuple(self.params.items()), self.effects))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, VJPHiPrimitive)
            and type(self) is type(other)
            and (self.params, self.effects) == (other.params, other.effects)
        )

    def _defines(self, name: str) -> bool:
        return getattr(type(self), name) is not getattr(VJPHiPrimitive, name)

    def _rules(self) -> dict[str, Any]:
        """The rules of the class, as `custom_rules` takes them."""
        rules: dict[str, Any] = {}
        if self._defines("vjp_fwd"):
            rules["vjp"] = self._forward, self._backward
        elif self._defines("lin"):
            rules["linearize"] = self._linearize
        if self._defines("jvp"):
            rules["jvp"] = lambda primals, tangents: tuple(self.jvp(primals, tangents))
        if self._defines("batch"):
            rules["vmap"] = self._map
        return rules

    def _all_nonzero(self, args: Sequence[Any]) -> Any:
        return pytree.map(lambda _: True, tuple(args))

    def _forward(self, *args: Any) -> tuple[Any, Any]:
        out, residuals, *_ = self.vjp_fwd(self._all_nonzero(args), *args)
        return out, (residuals, args)

    def _backward(self, saved: Any, ct: Any) -> Any:
        residuals, args = saved
        accumulators = pytree.map(lambda x: GradAccum(get_aval(x).to_tangent_aval()), args)
        self.vjp_bwd(residuals, ct, *accumulators)
        return pytree.map(lambda accumulator: accumulator.freeze(), accumulators)

    def _linearize(self, *args: Any) -> tuple[Any, Callable[..., Any]]:
        out, residuals, *_ = self.lin(self._all_nonzero(args), *args)
        return out, lambda *tangents: self.linearized(residuals, *tangents)

    def _map(self, axis_size: int, in_batched: Any, *args: Any) -> tuple[Any, Any]:
        dims = pytree.map(lambda batched: 0 if batched else None, tuple(in_batched))
        out, out_dims = self.batch(AxisData(None, axis_size), args, dims)
        flat, tree = pytree.flatten(out)
        where = pytree.broadcast_prefix(out_dims, out, is_leaf=lambda dim: dim is None)
        moved = [x if dim is None else moveaxis(x, dim, 0) for x, dim in zip(flat, where, strict=True)]
        return pytree.unflatten(tree, moved), pytree.unflatten(tree, [dim is not None for dim in where])
