"""Differentiation for users: `jvp`, `linearize`, `vjp`, `grad`.

    jvp(f, (x,), (x_dot,)) = f(x), df(x) x_dot             forward mode
    linearize(f, x)        = f(x), x_dot -> df(x) x_dot    forward mode, the linear part saved for later
    vjp(f, x)              = f(x), ct -> df(x)^T ct        reverse mode: linearize, then transpose
    grad(f)(x)             = df(x)^T 1                     for scalar f

Python control flow on values works in all of them. Read next: `transforms/linearize.py`, `transforms/transpose.py`;
`jacobians.py` for whole matrices of derivatives; `argnums.py`, `tangents.py` and `auxiliary.py` for what is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from didax.api.argnums import (
    as_function_of,
    check_arguments_differentiable,
    check_scalar,
    chosen_arguments,
    chosen_avals,
)
from didax.api.auxiliary import AuxFunction
from didax.api.flat import (
    FlatFunction,
    argument_names,
    as_array,
    check_callable,
    flatten_arguments,
    leaf_avals,
)
from didax.api.linear_functions import LinearizedFunction, VJPFunction
from didax.api.refs import RefArguments, jvp_of_refs, leaf_types
from didax.api.static import as_numbers
from didax.api.tangents import check_tangents, materialise, mismatch
from didax.core import dtypes, pytree
from didax.core.avals import aval_of
from didax.core.errors import api_boundary, message
from didax.core.ref import Ref
from didax.core.source import wraps
from didax.primitives.filled import filled
from didax.transforms.jvp import jvp_flat
from didax.transforms.linearize import linearize_flat

P = ParamSpec("P")
R = TypeVar("R")


@api_boundary
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """Results of `fun` at `primals` and their directional derivatives along `tangents`.

    Args:
      primals, tangents: tuples (or lists) of arguments and of their tangents, of equal structure, shapes and dtypes;
        the tangent of an integer or boolean argument has dtype float0.
      has_aux: `fun` returns a pair (result, auxiliary data); the data is returned as a third result.

    Raises TypeError or ValueError when primals and tangents do not match.

    >>> import didax as dx
    >>> y, y_dot = dx.jvp(lambda x: x * x, (3.0,), (1.0,))
    >>> float(y), float(y_dot)
    (9.0, 6.0)
    """
    check_callable("jvp", fun)
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        kinds = f"primals: {type(primals).__name__}, tangents: {type(tangents).__name__}"
        rule = "jvp takes the arguments and their tangents as tuples."
        raise TypeError(message(rule, kinds, fix="Write jvp(f, (x,), (x_dot,))."))
    leaves, tree = flatten_arguments(tuple(primals), {})
    avals, refs = leaf_types("jvp", fun, tuple(primals), {})
    dots, dot_tree = flatten_arguments(tuple(tangents), {})
    if tree != dot_tree:
        rule = "jvp needs one tangent for each argument, in the same structure."
        fix = "Give every argument a tangent of its own structure (zeros where it does not move)."
        raise mismatch(rule, tuple(primals), tuple(tangents), fix)
    values = [x.read() if i in refs and isinstance(x, Ref) else x for i, x in enumerate(dots)]
    values = check_tangents("jvp", avals, values, lambda i: argument_names(fun, primals, {})[i])
    flat = (AuxFunction if has_aux else FlatFunction)(fun, tree, "jvp")
    if refs:
        outs, out_dots = jvp_of_refs(RefArguments(flat, refs), leaves, dots, fun, values)
    else:
        outs, out_dots = jvp_flat(flat, leaves, values, function=fun)
    out_dot = pytree.unflatten(flat.out_tree, [materialise(t) for t in out_dots])
    result = _as_arrays(flat.out_tree, outs), out_dot
    return (*result, flat.aux()) if isinstance(flat, AuxFunction) else result


def _as_arrays(tree: Any, leaves: Sequence[Any]) -> Any:
    return pytree.unflatten(tree, [as_array(x) for x in leaves])


@api_boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Results of `fun` at `primals`, and the linear function from tangents of the arguments to tangents of the results.

    The linear function repeats none of the work of `fun`. It raises TypeError for tangents that do not fit the
    arguments in structure, shape or dtype. With `has_aux` auxiliary data is the third result.

    >>> import didax as dx
    >>> y, f_lin = dx.linearize(lambda x: x * x, 3.0)
    >>> float(f_lin(1.0))
    6.0
    """
    leaves, tree, avals = _primals("linearize", fun, primals)
    flat = (AuxFunction if has_aux else FlatFunction)(fun, tree, "linearize")
    inexact = [dtypes.is_inexact(a.dtype) for a in avals]
    outs, program = linearize_flat(flat, leaves, inexact, function=fun)
    f_lin = LinearizedFunction(program, tree, avals, inexact, flat.out_tree, fun)
    result = _as_arrays(flat.out_tree, outs), f_lin
    return (*result, flat.aux()) if isinstance(flat, AuxFunction) else result


def _primals(caller: str, fun: Callable[..., Any], primals: Any) -> tuple[list[Any], Any, Any]:
    """The leaves of the arguments, their structure, and their types."""
    check_callable(caller, fun)
    leaves, tree = flatten_arguments(primals, {})
    avals = leaf_avals(caller, fun, primals, {})
    # As arrays, so that the program holds the same arrays whether these are traced or not.
    return [as_array(x) for x in leaves], tree, avals


@api_boundary
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Results of `fun` at `primals`, and the function from cotangents of the results to those of the arguments.

    The second result takes one cotangent, in the structure of the results, and returns a tuple with one cotangent for
    each argument. It raises TypeError for a cotangent of another structure, shape or dtype; for an integer or boolean
    result it takes any array of the result's shape. With `has_aux` auxiliary data is the third result.

    >>> import didax as dx
    >>> y, f_vjp = dx.vjp(lambda x, y: x * y, 2.0, 5.0)
    >>> [float(ct) for ct in f_vjp(1.0)]
    [5.0, 2.0]
    """
    leaves, tree, avals = _primals("vjp", fun, primals)
    flat = (AuxFunction if has_aux else FlatFunction)(fun, tree, "vjp")
    outs, f_vjp = _vjp(fun, flat, leaves, avals)
    result = _as_arrays(flat.out_tree, outs), f_vjp
    return (*result, flat.aux()) if isinstance(flat, AuxFunction) else result


def _vjp(fun: Any, flat: FlatFunction, leaves: Any, avals: Any) -> tuple[list[Any], VJPFunction]:
    inexact = [dtypes.is_inexact(a.dtype) for a in avals]
    outs, program = linearize_flat(flat, leaves, inexact, function=fun)
    out_avals = [aval_of(y) for y in outs]
    return outs, VJPFunction(program, flat.in_tree, avals, inexact, flat.out_tree, out_avals)


@api_boundary
def grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, Any]:
    """The gradient of a scalar function with respect to one or several of its positional arguments.

    Args:
      argnums: which arguments: an integer, or a sequence of them (then the gradient is a tuple).
      has_aux: `fun` returns (scalar, auxiliary data) and the gradient function returns (gradient, data).
      holomorphic: `fun` is a holomorphic complex function; its complex derivative is returned.
      allow_int: permit integer arguments, whose gradients are zeros of dtype float0.

    The gradient for a complex argument z = x + iy is df/dx - i df/dy: its conjugate is the direction of ascent.

    Raises TypeError when the result is not a real floating-point scalar (complex with `holomorphic`), or an argument
    cannot be differentiated.

    >>> import didax as dx
    >>> float(dx.grad(lambda x: x**3)(2.0))
    12.0
    """
    value_and_gradient = _value_and_grad("grad", fun, argnums, has_aux, holomorphic, allow_int)

    @wraps(fun)
    def gradient(*args: P.args, **kwargs: P.kwargs) -> Any:
        value, g = value_and_gradient(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return api_boundary(gradient)


@api_boundary
def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, tuple[R, Any]]:
    """Like `grad`, returning the pair of the function's result and its gradient.

    >>> import didax as dx
    >>> value, g = dx.value_and_grad(lambda x: x**3)(2.0)
    >>> float(value), float(g)
    (8.0, 12.0)
    """
    return api_boundary(
        wraps(fun)(_value_and_grad("value_and_grad", fun, argnums, has_aux, holomorphic, allow_int))
    )


def _value_and_grad(
    caller: str,
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
) -> Callable[..., Any]:
    """The function behind `grad` and `value_and_grad`: (value or (value, aux), gradient)."""
    check_callable(caller, fun)
    numbers = (argnums,) if isinstance(argnums, int) else as_numbers(argnums, "argnums")

    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        chosen = chosen_arguments(caller, fun, numbers, args)
        leaves, tree = flatten_arguments(tuple([args[i] for i in chosen]), {})
        avals = chosen_avals(caller, fun, args, chosen, leaves)
        check_arguments_differentiable(caller, fun, args, chosen, avals, holomorphic, allow_int)
        flat = (AuxFunction if has_aux else FlatFunction)(
            as_function_of(chosen, fun, args, kwargs), tree, caller
        )
        outs, f_vjp = _vjp(flat.f, flat, leaves, avals)
        check_scalar(caller, fun, pytree.unflatten(flat.out_tree, outs), holomorphic)
        g, _ = pytree.unflatten(tree, f_vjp.flat([filled(aval_of(outs[0]), 1)]))
        value = as_array(outs[0])
        value = (value, flat.aux()) if isinstance(flat, AuxFunction) else value
        return value, g[0] if isinstance(argnums, int) else g

    return value_and_gradient
