"""Derivative rules of your own, beyond `custom_jvp`, `custom_vjp` and `custom_rules`, which are in `didax` itself.

`custom_gradient` defines a function together with its backward pass, `linear_call` a linear map together with
its transpose. `closure_convert` turns values over which a function closes into arguments, so that rules can
give derivatives with respect to them. `SymbolicZero` and `CustomVJPPrimal` are the arguments of rules with
`symbolic_zeros=True`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from didax.api.custom import custom_jvp, custom_vjp
from didax.api.custom_call import tracers_in
from didax.api.flat import as_array, check_callable, flatten_arguments, leaf_avals
from didax.api.symbolic_zeros import (
    CustomVJPPrimal,
    SymbolicZero,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)
from didax.api.traced import TracedFunction, trace_function
from didax.core import dtypes, pytree
from didax.core.array_ops import instantiate
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import api_boundary, message
from didax.core.jaxpr import eval_jaxpr
from didax.core.modules import on_access
from didax.core.source import describe_function
from didax.core.tracing import Tracer
from didax.primitives.custom.linear_map import LinearMap, linear_map_p

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "custom_vjp_primal_tree_values",
    "linear_call",
    "zero_from_primal",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Return `fun` with the values over which it closes as further arguments, and a list of these values.

    The values are those that may be differentiated: traced arrays of inexact dtype, wherever `fun` got them.
    The new function is specialised to the types of `example_args`.

    >>> import didax as dx
    >>> def derivative_of_square(a):
    ...     f, (hoisted,) = dx.closure_convert(lambda x: a * x * x, 1.0)
    ...     return f(3.0, hoisted)
    >>> float(dx.grad(derivative_of_square)(2.0))
    9.0
    """
    check_callable("closure_convert", fun)
    avals = tuple(leaf_avals("closure_convert", fun, example_args, {}))
    _, tree = flatten_arguments(example_args, {})
    traced = trace_function("closure_convert", fun, tree, avals)
    hoist = [isinstance(x, Tracer) and dtypes.is_inexact(x.aval.dtype) for x in traced.captured]

    @api_boundary
    def converted(*args: Any) -> Any:
        split = len(args) - sum(hoist)
        leaves, found_tree = flatten_arguments(args[:split], {})
        if found_tree != tree:
            rule = "A function from closure_convert takes arguments in the structure of its examples, then the values."
            (wanted, _), (given_args, _) = tree.children(), found_tree.children()
            facts = pytree.mismatch(
                wanted, given_args, "the examples", "the arguments", root="args"
            ).splitlines()
            fix = "Call it as converted(*args, *values)."
            raise TypeError(message(rule, f"function: {describe_function(fun)}", *facts, fix=fix))
        given = iter(args[split:])
        captured = [
            next(given) if is_hoisted else x for x, is_hoisted in zip(traced.captured, hoist, strict=True)
        ]
        outs = eval_jaxpr(traced.jaxpr, [*captured, *leaves])
        return pytree.unflatten(traced.out_tree, [as_array(y) for y in outs])

    return converted, [x for x, is_hoisted in zip(traced.captured, hoist, strict=True) if is_hoisted]


@api_boundary
def custom_gradient(fun: Callable[..., tuple[Any, Callable[..., Any]]]) -> custom_vjp[..., Any]:
    """Make a function with its own backward pass from a function that returns `(result, vjp)`.

    `vjp(ct)` returns the cotangents of the arguments for the cotangent `ct` of the result.

    `vjp` may use all values that were computed for the result. It returns a tuple with a cotangent for each
    argument, or the cotangent itself where there is one argument.

    >>> import didax as dx
    >>> @dx.custom_gradient
    ... def square(x):
    ...     return x * x, lambda ct: ct * 2 * x
    >>> float(square(3.0)), float(dx.grad(square)(3.0))
    (9.0, 6.0)
    """

    def pair(*args: Any) -> tuple[Any, Any]:
        found: Any = fun(*args)
        if isinstance(found, tuple | list) and len(found) == 2 and callable(found[1]):
            return found[0], found[1]
        rule = "The function given to custom_gradient returns its result and a function of the cotangent."
        facts = f"function: {describe_function(fun)}, returned: {found!r:.100}"
        raise TypeError(message(rule, facts, fix="Return (y, lambda ct: ...)."))

    @functools.wraps(fun)
    def function(*args: Any) -> Any:
        return pair(*args)[0]

    def fwd(*args: Any) -> tuple[Any, Any]:
        out, rule = pair(*args)
        if not any(isinstance(x, Tracer) for x in (*pytree.leaves((args, out)), *tracers_in(rule))):
            return out, (rule, None)  # plain Python: its captured values are known
        avals = tuple(aval_of(y).tangent() for y in pytree.leaves(out))
        traced = trace_function("custom_gradient", rule, pytree.structure(((out,), {})), avals)
        return out, (lambda ct: _evaluate(traced, ct), traced.captured)

    def bwd(residuals: Any, ct: Any) -> Any:
        rule, captured = residuals
        cts = rule(ct) if captured is None else rule((captured, ct))
        return cts if isinstance(cts, tuple | list) else (cts,)

    defined = custom_vjp(function)
    defined.defvjp(fwd, bwd)
    return defined


def _evaluate(traced: Any, captured_and_ct: tuple[Any, Any]) -> Any:
    captured, ct = captured_and_ct
    return pytree.unflatten(traced.out_tree, eval_jaxpr(traced.jaxpr, [*captured, *pytree.leaves(ct)]))


@api_boundary
def linear_call(
    fun: Callable[..., Any], fun_transpose: Callable[..., Any], residual_args: Any, linear_args: Any
) -> Any:
    """Return `fun(residual_args, linear_args)`; reverse mode runs `fun_transpose(residual_args, ct)`.

    `fun` is linear in its second argument, and `fun_transpose` returns the cotangent of this argument. The
    transpose of the transpose is `fun` again.

    >>> import didax as dx
    >>> def halve(x):
    ...     return dx.custom_derivatives.linear_call(lambda r, x: x / r, lambda r, ct: ct / r, 2.0, x)
    >>> float(halve(6.0)), float(dx.grad(halve)(6.0))
    (3.0, 0.5)
    """
    residuals, linear = pytree.leaves(residual_args), pytree.leaves(linear_args)
    leaf_avals("linear_call", fun, (residual_args, linear_args), {})
    residuals, linear = [as_array(r) for r in residuals], [as_array(x) for x in linear]
    res_avals, in_avals = [aval_of(r) for r in residuals], [aval_of(x) for x in linear]
    res_tree, in_tree = pytree.structure(residual_args), pytree.structure(linear_args)
    forward = _traced(fun, res_tree, in_tree, res_avals, in_avals)
    out_tree, out_avals = forward.out_tree, forward.out_avals
    transposed = _traced(fun_transpose, res_tree, out_tree, res_avals, out_avals)
    _check_transpose(fun_transpose, transposed, in_tree, in_avals)
    captured = [*forward.captured, *transposed.captured]
    n, k = len(forward.captured), len(captured)

    def apply(res: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
        return eval_jaxpr(forward.jaxpr, [*res[:n], *res[k:], *xs])

    def transpose(res: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        return eval_jaxpr(transposed.jaxpr, [*res[n:], *map(instantiate, cts)])

    name = describe_function(fun)
    step = LinearMap(name, k + len(residuals), in_avals, out_avals, apply, transpose)
    return pytree.unflatten(out_tree, linear_map_p.bind(*captured, *residuals, *linear, map=step))


def _traced(
    f: Any, res_tree: Any, tree: Any, res_avals: Sequence[ShapedArray], avals: Sequence[ShapedArray]
) -> TracedFunction:
    args = pytree.unflatten(res_tree, res_avals), pytree.unflatten(tree, avals)
    return trace_function("linear_call", f, pytree.structure((args, {})), (*res_avals, *avals))


def _check_transpose(f: Any, traced: TracedFunction, tree: Any, avals: Sequence[ShapedArray]) -> None:
    """Raise TypeError unless the transpose returns arrays of the types of the linear arguments."""
    found = traced.out_tree
    facts = pytree.mismatch(found, tree, "its result", "linear_args", root="x").splitlines()
    if found == tree:
        facts = [
            f"leaf {i}: {y} in its result, {x} in linear_args"
            for i, (y, x) in enumerate(zip(traced.out_avals, avals, strict=True))
            if (y.shape, y.dtype) != (x.shape, x.dtype)
        ]
    if facts:
        rule = "The transpose given to linear_call returns a cotangent of the linear arguments."
        fix = "Return arrays of that structure, shape and dtype."
        raise TypeError(message(rule, f"function: {describe_function(f)}", *facts, fix=fix))
