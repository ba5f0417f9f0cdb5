"""Derivatives of the user's own: `custom_jvp`, `custom_vjp`, and `custom_rules` for any set of rules together.

    f = custom_jvp(f);  f.defjvp(rule)        rule(primals, tangents) -> (f(x), df(x) x_dot)
    f = custom_vjp(f);  f.defvjp(fwd, bwd)    fwd(x) -> (f(x), residuals);  bwd(residuals, ct) -> (df(x)^T ct,)

The rules hold under every transformation, in any nesting: batched, staged, looped over, compiled, differentiated again.
Where values are known the function and its rules run as plain Python. A rule that is missing is derived from the
others. Sources: the JAX proposals 2026 and 4008. Read next: `custom_call.py`; `docs/custom-rules.md` teaches their use.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, cast

from didax.api.custom_call import CustomCall, Definition, call_rule
from didax.api.flat import as_array, check_callable, flatten_arguments, leaf_avals
from didax.api.refs import without_ref
from didax.core import pytree
from didax.core.array_ops import Zero, add_tangents, instantiate
from didax.core.avals import aval_of, is_array_like
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.ref import Ref
from didax.core.source import describe_function, function_name, to_copy, wraps
from didax.primitives.custom.call import python_call_p

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class FunctionWithRules(Generic[P, R]):
    """A function with rules of its own; the base class of the decorators in this module."""

    _what = "custom_rules"
    _missing = ""  # what to call where there is no rule

    def __init__(
        self, fun: Callable[P, R], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ):
        check_callable(self._what, fun)
        functools.update_wrapper(self, fun, to_copy(fun), updated=())
        self.fun = fun
        self._definition = Definition(fun)
        self._signature = _signature(fun)
        self._nondiff = _positions(self._what, fun, self._signature, nondiff_argnums, nondiff_argnames)

    @property
    def nondiff_argnums(self) -> tuple[int, ...]:
        """Positions of the arguments that are not differentiated."""
        return tuple(self._nondiff)

    def _define(self, **rules: Any) -> None:
        self._definition = dataclasses.replace(self._definition, **rules)

    @api_boundary
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's result; transformations find the rules."""
        if not self._definition.given:
            raise self._no_rule()
        every = self._resolved(args, kwargs)
        count = len(every)
        fixed_at = {i % count for i in self._nondiff if -count <= i < count}
        fixed = [(i, every[i]) for i in sorted(fixed_at)]
        dynamic = tuple([x for i, x in enumerate(every) if i not in fixed_at])
        leaves, both = flatten_arguments(dynamic, {})
        tree = both.children()[0]
        if not all(map(is_array_like, leaves)):
            if any(isinstance(x, Ref) for x in leaves):
                return self._closing_over_refs(every, fixed_at)
            self._refuse(every, fixed_at)
        leaves = [as_array(x) for x in leaves]
        call = CustomCall(self._definition, fixed, tree, [aval_of(x) for x in leaves])
        outs = python_call_p.bind(*leaves, rules=call)
        return pytree.unflatten(call.out_tree, outs)

    def _closing_over_refs(self, every: Sequence[Any], fixed_at: set[int]) -> R:
        """The result for arguments with Refs among them: the function and its rules close over the Refs."""

        def put_back(i: int, x: Any) -> Any:
            return x if i in fixed_at else pytree.map(_ref_or_new, every[i], x)

        def of_all(f: Callable[..., Any]) -> Callable[..., Any]:
            return wraps(f)(lambda *args: f(*map(put_back, range(len(args)), args)))

        def of_primals(rule: Callable[..., Any]) -> Callable[..., Any]:
            dynamic = [i for i in range(len(every)) if i not in fixed_at]
            return lambda *args: rule(*args[:-2], tuple(map(put_back, dynamic, args[-2])), args[-1])

        given, closed = self._definition, copy.copy(self)
        closed._definition = dataclasses.replace(
            given,
            fun=of_all(given.fun),
            jvp=given.jvp and of_primals(given.jvp),
            vjp=given.vjp and (of_all(given.vjp[0]), given.vjp[1]),
            linearize=given.linearize and of_all(given.linearize),
        )
        others = [x if i in fixed_at else pytree.map(without_ref, x) for i, x in enumerate(every)]
        return closed(*others)  # pyright: ignore[reportCallIssue]

    def _refuse(self, every: Sequence[Any], fixed_at: set[int]) -> None:
        """TypeError for an argument that is no array, and not among those that are not differentiated."""
        leaf_avals(self._what, self.fun, tuple(0.0 if i in fixed_at else x for i, x in enumerate(every)), {})

    def _resolved(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults included."""
        if self._signature is None:
            if kwargs:
                raise self._unresolved(kwargs)
            return args
        if not kwargs and len(args) == self._num_positional:
            return args
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function_name(self.fun)}(): {error}") from None
        bound.apply_defaults()  # those of keyword-only parameters the function applies itself
        if unresolved := {name: x for name, x in bound.kwargs.items() if name in kwargs}:
            raise self._unresolved(unresolved)
        return bound.args

    @functools.cached_property
    def _num_positional(self) -> int:
        """The number of parameters where all are plain positional ones, else -1."""
        assert self._signature is not None
        kinds = [p.kind for p in self._signature.parameters.values()]
        plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return len(kinds) if all(kind in plain for kind in kinds) else -1

    def _unresolved(self, kwargs: dict[str, Any]) -> TypeError:
        return TypeError(
            message(
                f"Rules get arguments by position: a function given to {self._what} takes no keyword-only arguments.",
                f"function: {describe_function(self.fun)}",
                f"keyword arguments without a position: {', '.join(sorted(kwargs))}",
                fix="Make them positional parameters, or fix them with functools.partial or a closure.",
            )
        )

    def _no_rule(self) -> AttributeError:
        return AttributeError(
            message(
                f"A function given to {self._what} is called after its rule is defined.",
                f"function: {describe_function(self.fun)}",
                fix=f"Define the rule first: {self._missing}",
            )
        )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "fun" or name.startswith("__"):
            raise AttributeError(name)
        if not hasattr(self.fun, name):
            rule = f"A {self._what} has no attribute {name!r}, and neither has its function."
            fix = f"Define its rule by {self._missing}" if name.startswith("def") else "Correct the name."
            raise AttributeError(
                message(rule, f"function: {describe_function(self.fun)}", fix=fix), name=name, obj=self
            )
        return getattr(self.fun, name)  # decorators stack: `def_vmap` of a function inside

    def __repr__(self) -> str:
        return f"<{self._what} of {describe_function(self.fun)}>"


def _ref_or_new(old: Any, new: Any) -> Any:
    return old if isinstance(old, Ref) else new


def _signature(fun: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


def _positions(
    what: str, fun: Any, signature: inspect.Signature | None, numbers: Sequence[int], names: Sequence[str]
) -> tuple[int, ...]:
    """Positions of the arguments named or numbered."""
    if isinstance(numbers, int):
        numbers = (numbers,)
    if isinstance(names, str):
        names = (names,)
    chosen: list[tuple[str, Any, type]] = [
        ("nondiff_argnums", numbers, int),
        ("nondiff_argnames", names, str),
    ]
    for option, given, kind in chosen:
        if not isinstance(given, Collection) or not all(
            [isinstance(x, kind) for x in cast("Collection[Any]", given)]
        ):
            raise ArgumentError(
                message(
                    f"{option} of {what} numbers or names arguments of the function.",
                    f"function: {describe_function(fun)}; {option}: {given!r:.100}",
                    fix="Pass a tuple of ints, counted from 0." if kind is int else "Pass a tuple of names.",
                )
            )
    known = list(signature.parameters) if signature is not None else []
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            message(
                f"nondiff_argnames of {what} are names of the function's parameters.",
                f"function: {describe_function(fun)}",
                f"names: {', '.join(map(repr, unknown))}; parameters: {', '.join(known) or 'unknown'}",
                fix="Use a parameter's name, or nondiff_argnums.",
            )
        )
    return (*numbers, *(known.index(name) for name in names))


class custom_jvp(FunctionWithRules[P, R]):
    """A function with a forward-mode derivative rule of its own; reverse mode follows from it.

    Args:
      nondiff_argnums, nondiff_argnames: arguments that are not differentiated. They may be anything, arrays too; rules
        get them first, before primals and tangents.

    >>> import didax as dx
    >>> import didax.numpy as dnp
    >>> @dx.custom_jvp
    ... def log1pexp(x):
    ...     return dnp.log(1 + dnp.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (x_dot,) = primals, tangents
    ...     return log1pexp(x), (1 - 1 / (1 + dnp.exp(x))) * x_dot
    >>> float(dx.grad(log1pexp)(100.0))
    1.0
    """

    _what = "custom_jvp"
    _missing = "f.defjvp(rule), with rule(primals, tangents) -> (result, tangent of the result)."

    @property
    def jvp(self) -> Callable[..., Any] | None:
        """The rule, once it is set."""
        return self._definition.jvp

    def defjvp(self, jvp: F, symbolic_zeros: bool = False) -> F:
        """Set the rule `jvp(*nondiff, primals, tangents) -> (result, tangent)`; usable as a decorator.

        Tangents come as arrays (of float0 for integers); with `symbolic_zeros` those known to vanish are
        `custom_derivatives.SymbolicZero`s.
        """
        check_callable("defjvp", jvp)
        self._define(jvp=jvp, symbolic_jvp=symbolic_zeros)
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set a rule for each argument: `jvp(tangent, result, *args) -> tangent of the result`; None where it is zero.

        >>> import didax as dx
        >>> @dx.custom_jvp
        ... def f(x, y):
        ...     return x * y
        >>> f.defjvps(lambda x_dot, ans, x, y: x_dot * y, None)
        >>> [float(g) for g in dx.grad(f, argnums=(0, 1))(2.0, 5.0)]
        [5.0, 0.0]
        """
        if self._nondiff:
            raise TypeError(
                message(
                    "defjvps gives a rule for each argument, so it does not go with nondiff_argnums.",
                    f"function: {describe_function(self.fun)}",
                    fix="Use defjvp.",
                )
            )

        def jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            if len(jvps) != len(primals):
                facts = f"rules: {len(jvps)}, arguments: {len(primals)}"
                rule, fix = "defjvps takes a rule for each argument.", "Pass None where the tangent is zero."
                raise TypeError(message(rule, f"function: {describe_function(self.fun)}", facts, fix=fix))
            out = self(*primals)  # pyright: ignore[reportCallIssue]
            terms = [
                call_rule("argument's", self.fun, rule, t, out, *primals)
                for rule, t in zip(jvps, tangents, strict=True)
                if rule is not None
            ]
            return out, _sum(out, terms)

        self.defjvp(jvp)


def _sum(out: Any, terms: Sequence[Any]) -> Any:
    """The sum of tangents of `out`; zeros where there are none."""
    leaves, tree = pytree.flatten(out)
    total: list[Any] = [Zero(aval_of(y).tangent()) for y in leaves]
    for term in terms:
        total = [add_tangents(a, b) for a, b in zip(total, tree.flatten_up_to(term), strict=True)]
    return pytree.unflatten(tree, [as_array(instantiate(t)) for t in total])


class custom_vjp(FunctionWithRules[P, R]):
    """A function with a reverse-mode derivative rule of its own.

    Forward mode works too: its linear map is the transpose of `bwd`, which has to be linear in the cotangent then.

    Args:
      nondiff_argnums, nondiff_argnames: arguments that are not differentiated. They may be anything, arrays too; `fwd`
        gets them in their places, `bwd` first.

    >>> import didax as dx
    >>> import didax.numpy as dnp
    >>> @dx.custom_vjp
    ... def clip_gradient(lo, hi, x):
    ...     return x
    >>> clip_gradient.defvjp(
    ...     lambda lo, hi, x: (x, (lo, hi)),
    ...     lambda res, ct: (None, None, dnp.clip(ct, *res)),
    ... )
    >>> float(dx.grad(lambda x: clip_gradient(-0.5, 0.5, x) * 3)(1.0))
    0.5
    """

    _what = "custom_vjp"
    _missing = (
        "f.defvjp(fwd, bwd), with fwd(*args) -> (result, residuals), bwd(residuals, cotangent) -> cotangents."
    )

    @property
    def fwd(self) -> Callable[..., Any] | None:
        """The rule of the forward pass, once it is set."""
        return self._definition.vjp and self._definition.vjp[0]

    @property
    def bwd(self) -> Callable[..., Any] | None:
        """The rule of the backward pass, once it is set."""
        return self._definition.vjp and self._definition.vjp[1]

    @property
    def symbolic_zeros(self) -> bool:
        """Whether the rules are told which tangents and cotangents vanish."""
        return self._definition.symbolic_vjp

    @property
    def optimize_remat(self) -> bool:
        """Whether the function runs in place of `fwd` where residuals are not needed."""
        return self._definition.optimize_remat

    def defvjp(
        self,
        fwd: Callable[..., tuple[Any, Any]],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rules `fwd(*args) -> (result, residuals)` and `bwd(*nondiff, residuals, cotangent) -> cotangents`.

        `bwd` returns a tuple with a cotangent for each argument that is differentiated, None where it is zero.

        Args:
          symbolic_zeros: `fwd` gets each array as a `custom_derivatives.CustomVJPPrimal(value, perturbed)`, and
            cotangents known to vanish come as `SymbolicZero`s.
          optimize_remat: where the residuals are not needed, the function runs in place of `fwd`.
        """
        check_callable("defvjp", fwd)
        check_callable("defvjp", bwd)
        self._define(vjp=(fwd, bwd), symbolic_vjp=symbolic_zeros, optimize_remat=optimize_remat)


class custom_vmap(FunctionWithRules[P, R]):
    """A function with a vmap rule of its own. Derivatives differentiate the rule as well as the function.

    >>> import didax as dx
    >>> import didax.numpy as dnp
    >>> @dx.custom_batching.custom_vmap
    ... def norm(x):
    ...     return dnp.sqrt((x * x).sum())
    >>> @norm.def_vmap
    ... def rule(axis_size, in_batched, xs):
    ...     return dnp.sqrt((xs * xs).sum(axis=1)), True
    >>> dx.vmap(norm)(dnp.ones((2, 4)))
    Array([2., 2.], dtype=float32)
    """

    _what = "custom_vmap"
    _missing = "f.def_vmap(rule), with rule(axis_size, in_batched, *args) -> (result, out_batched)."

    def __init__(self, fun: Callable[P, R]):
        super().__init__(fun)

    def def_vmap(self, vmap_rule: F) -> F:
        """Set the rule `vmap_rule(axis_size, in_batched, *args) -> (result, out_batched)`; usable as a decorator.

        Batched arguments have the batch axis first; `in_batched` is a list with a bool, or a pytree of bools, for each
        argument. `out_batched` says the same of the result, whose batched parts have `axis_size` as first length.
        """
        check_callable("def_vmap", vmap_rule)
        self._define(vmap=vmap_rule)
        return vmap_rule


class custom_rules(FunctionWithRules[P, R]):
    """A function that brings any set of rules along; those that are missing are derived.

    Args:
      jvp: `jvp(primals, tangents) -> (result, tangent)`, as of `custom_jvp`.
      vjp: `(fwd, bwd)`, as of `custom_vjp`.
      linearize: `linearize(*args) -> (result, f_lin)`, with `f_lin(*tangents) -> tangent` linear.
      transpose: `transpose(cotangent) -> cotangents`, of a function that is linear in its arguments.
      vmap: `vmap(axis_size, in_batched, *args) -> (result, out_batched)`, as of `custom_batching.custom_vmap`.
      nondiff_argnums, nondiff_argnames: as of `custom_jvp`.
      symbolic_zeros: the jvp and vjp rules get `SymbolicZero`s, as of `custom_jvp` and `custom_vjp`.

    Forward mode asks for jvp, linearize, transpose, vjp, in this order; reverse mode for linearize, vjp, jvp,
    transpose.

    >>> import didax as dx
    >>> import didax.numpy as dnp
    >>> def jvp(primals, tangents):
    ...     return dnp.sin(primals[0]), dnp.cos(primals[0]) * tangents[0]
    >>> def fwd(x):
    ...     return dnp.sin(x), dnp.cos(x)
    >>> def bwd(cos_x, ct):
    ...     return (ct * cos_x,)
    >>> sin = dx.custom_rules(dnp.sin, jvp=jvp, vjp=(fwd, bwd))
    >>> float(dx.grad(sin)(0.0)), float(dx.jvp(sin, (0.0,), (2.0,))[1])
    (1.0, 2.0)
    """

    _what = "custom_rules"
    _missing = (
        "custom_rules(f, jvp=..., vjp=(fwd, bwd), linearize=..., transpose=..., vmap=...), with one at least."
    )

    def __init__(
        self,
        fun: Callable[P, R],
        *,
        jvp: Callable[..., Any] | None = None,
        vjp: tuple[Callable[..., Any], Callable[..., Any]] | None = None,
        linearize: Callable[..., Any] | None = None,
        transpose: Callable[..., Any] | None = None,
        vmap: Callable[..., Any] | None = None,
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
        symbolic_zeros: bool = False,
    ):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        _check_rules(jvp=jvp, linearize=linearize, transpose=transpose, vmap=vmap, vjp=vjp)
        self._definition = Definition(
            fun, jvp, vjp, linearize, transpose, vmap, symbolic_zeros, symbolic_zeros
        )


def _check_rules(**rules: Any) -> None:
    """TypeError unless each rule that is given is a function, and that of vjp a pair of them."""
    for name, rule in rules.items():
        parts: list[Any] = [rule]
        if name == "vjp":
            parts = list(cast("Sequence[Any]", rule)) if isinstance(rule, tuple | list) else []
        if rule is not None and (len(parts) != (2 if name == "vjp" else 1) or not all(map(callable, parts))):
            fact = f"{name}: {rule!r:.100}"
            fix = "Pass vjp=(fwd, bwd), and one function as each other rule."
            raise TypeError(message("The rules of custom_rules are functions.", fact, fix=fix))
