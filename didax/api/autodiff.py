"""Differentiation for users: `jvp`, `linearize`, `vjp`, `grad` and the Jacobians built on them.

    jvp(f, (x,), (x_dot,)) = f(x), df(x) x_dot            forward mode
    linearize(f, x)        = f(x), x_dot -> df(x) x_dot    forward mode, the linear part saved for later
    vjp(f, x)              = f(x), y_bar -> df(x)^T y_bar  reverse mode: linearize, then transpose
    grad(f)(x)             = df(x)^T 1                     for scalar f

Python control flow on values works in all of them. Read next: `transforms/linearize.py`, `transforms/transpose.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from didax.api.flat import (
    FlatFunction,
    argument_names,
    as_array,
    check_callable,
    flatten_arguments,
    leaf_avals,
    positional_names,
    result_name,
)
from didax.api.linear_functions import LinearFunction
from didax.api.refs import RefArguments, leaf_types
from didax.api.vmap import vmap
from didax.core import dtypes, pytree
from didax.core.array_ops import Zero, instantiate
from didax.core.avals import ShapedArray, aval_of, is_array_like
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.ref import Ref
from didax.core.source import describe_function
from didax.primitives.convert import convert_element_type
from didax.primitives.shape import filled, reshape
from didax.runtime.array import Array, ConcreteArray
from didax.transforms.jvp import JVPTracer, jvp_flat
from didax.transforms.linearize import LinearizeTracer, LinearProgram, linearize_flat
from didax.transforms.staging import trace_to_jaxpr, values_of
from didax.transforms.transpose import backward, backward_jaxpr

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
        raise TypeError(
            message(
                "jvp takes the arguments and their tangents as tuples.",
                f"primals: {type(primals).__name__}, tangents: {type(tangents).__name__}",
                fix="Write jvp(f, (x,), (x_dot,)).",
            )
        )
    leaves, tree = flatten_arguments(tuple(primals), {})
    avals, refs = leaf_types("jvp", fun, tuple(primals), {})
    dots, dot_tree = flatten_arguments(tuple(tangents), {})
    if tree != dot_tree:
        raise TypeError(
            message(
                "jvp needs one tangent for each argument, in the same structure.",
                *pytree.mismatch(
                    tuple(primals), tuple(tangents), "primals", "tangents", root="args"
                ).splitlines(),
                fix="Give every argument a tangent of its own structure (zeros where it does not move).",
            )
        )
    values = [x.read() if i in refs and isinstance(x, Ref) else x for i, x in enumerate(dots)]
    values = _check_tangents("jvp", avals, values, lambda i: argument_names(fun, primals, {})[i])
    flat = FlatFunction(fun, tree, "jvp")
    aux = _SplitAux(flat, "jvp") if has_aux else flat
    if refs:
        outs, out_dots = _jvp_refs(RefArguments(aux, refs), leaves, dots, values, fun)
    else:
        outs, out_dots = jvp_flat(aux, leaves, values, function=fun)
    result = (
        _as_arrays(aux.out_tree, outs),
        pytree.unflatten(aux.out_tree, [_materialise(t) for t in out_dots]),
    )
    return (*result, aux.aux()) if isinstance(aux, _SplitAux) else result


def _jvp_refs(
    arguments: RefArguments, leaves: Sequence[Any], dots: Sequence[Any], tangents: Sequence[Any], fun: Any
) -> tuple[list[Any], list[Any]]:
    """`jvp_flat` where there are Refs: one of primals and one of tangents each (or fixed tangents) are one inside."""
    outs, out_dots = jvp_flat(arguments, values_of(leaves), tangents, function=fun)
    count = len(arguments.written)
    for i, y, y_dot in zip(arguments.written, outs, out_dots, strict=False):
        if not isinstance(dots[i], Ref):
            rule = "A Ref that the function given to jvp writes to needs a Ref for its tangent."
            fix = "Pass new_ref(tangent) as its tangent."
            raise TypeError(message(rule, *leaves[i].facts(), f"tangent: {dots[i]!r:.100}", fix=fix))
        leaves[i].write(as_array(y))
        dot = cast("Ref", dots[i])
        dot.write(as_array(convert_element_type(instantiate(y_dot), dot.dtype, dot.weak_type)))
    return outs[count:], out_dots[count:]


class _SplitAux:
    """A flat function whose result is a pair (result, aux): returns the result's leaves, keeps the aux."""

    def __init__(self, flat: FlatFunction, what: str):
        self.flat = flat
        self.what = what
        self.out_tree: Any = None
        self._aux_leaves: list[Any] = []
        self._aux_tree: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = pytree.unflatten(self.flat.in_tree, leaves)
        pair = self.flat.f(*args, **kwargs)
        if not isinstance(pair, tuple | list) or len(cast("Sequence[Any]", pair)) != 2:
            raise TypeError(
                message(
                    f"With has_aux=True the function given to {self.what} returns a pair (result, auxiliary data).",
                    f"function: {describe_function(self.flat.f)}",
                    f"returned: {type_text(pair)}",
                    fix="Return (result, aux), or drop has_aux=True.",
                )
            )
        out, self.out_tree = pytree.flatten(pair[0])
        self._aux_leaves, self._aux_tree = pytree.flatten(pair[1])
        return out

    def aux(self) -> Any:
        """The auxiliary data, with tracers of the finished transformation replaced by their primals."""
        return pytree.unflatten(self._aux_tree, [_primal_of_ended(x) for x in self._aux_leaves])


def _primal_of_ended(x: Any) -> Any:
    """The primal of a tracer whose transformation has ended; tracers of enclosing transformations stay."""
    return as_array(x.primal) if isinstance(x, JVPTracer | LinearizeTracer) and x.owner.ended else x


def _check_tangents(
    what: str,
    avals: Sequence[ShapedArray],
    tangents: Sequence[Any],
    name: Callable[[int], str],
    of: str = "primal",
) -> list[Any]:
    """The tangents (cotangents, `of` results) in the dtypes they belong to, symbolic zeros for float0.

    TypeError for one that does not fit; `name(i)` is what the user knows the i-th leaf by.
    """
    return [
        check_tangent(what, aval, t, lambda i=i: name(i), of, "cotangent" if of == "result" else "tangent")
        for i, (aval, t) in enumerate(zip(avals, tangents, strict=True))
    ]


def check_tangent(what: str, aval: ShapedArray, t: Any, name: Callable[[], str], of: str, kind: str) -> Any:
    """`t` in the dtype of the tangent (`kind`) of a primal or result (`of`), a symbolic zero for float0.

    A cotangent of an integer or boolean result may have any dtype. TypeError where `t` does not fit; `name()` is what
    the user knows it by.
    """
    wanted = aval.tangent()
    if wanted.dtype == dtypes.float0:
        found = getattr(t, "dtype", None)
        if found == dtypes.float0 and t.shape == wanted.shape:
            return Zero(wanted)
        if kind == "cotangent" and is_array_like(t) and aval_of(t).shape == wanted.shape:
            return Zero(wanted)  # nothing depends on it, and the results themselves are handy cotangents
    elif is_array_like(t):
        found_aval = aval_of(t)
        if found_aval.shape == wanted.shape and (
            found_aval.dtype == wanted.dtype or _weakly_fits(found_aval, wanted)
        ):
            weak = found_aval.weak_type if kind == "cotangent" else wanted.weak_type
            return convert_element_type(t, wanted.dtype, weak)
    zero = wanted.dtype == dtypes.float0
    raise ArgumentError(
        message(
            f"In {what} a {kind} has the shape and dtype of its {of} (float0 where that is an integer or boolean).",
            f"{name()}: {of} {aval}, {kind} {type_text(t)}, expected {wanted}",
            fix=f"Pass np.zeros({wanted.shape}, didax.float0)."
            if zero
            else f"Cast or reshape the {kind}, or the {of}.",
        )
    )


def _weakly_fits(found: ShapedArray, wanted: ShapedArray) -> bool:
    """True for a Python number, or what came of one, of a kind that `wanted` includes."""
    kinds = "biufc"
    return found.weak_type and kinds.index(dtypes.kind_of(found.dtype)) <= kinds.index(
        dtypes.kind_of(wanted.dtype)
    )


def type_text(x: Any) -> str:
    """The type of an array, or what else `x` is."""
    return str(aval_of(x)) if is_array_like(x) else f"{x!r:.100} of type {type(x).__name__}"


def _materialise(t: Any) -> Any:
    """An array for a symbolic zero (a NumPy array of float0 for integers)."""
    return as_array(instantiate(t))


def _as_arrays(tree: Any, leaves: Sequence[Any]) -> Any:
    return pytree.unflatten(tree, [as_array(x) for x in leaves])


class _Linearized(LinearFunction):
    """The linear half of `linearize`: tangents of the arguments to tangents of the results."""

    __slots__ = ("_avals", "_fun", "_inexact", "_out_tree", "_tree")
    about = ("_avals", "_out_tree", "_tree")

    def __init__(self, program: LinearProgram, fun: Any, tree: Any, avals: Any, inexact: Any, out_tree: Any):
        super().__init__(program)
        self._tree = tree
        self._avals = avals
        self._inexact = inexact
        self._out_tree = out_tree
        self._fun = fun

    @api_boundary
    def __call__(self, *tangents: Any) -> Any:
        dots, dot_tree = flatten_arguments(tangents, {})
        if dot_tree != self._tree:
            raise TypeError(
                message(
                    "The linearized function takes one tangent for each argument, in the arguments' structure.",
                    *pytree.mismatch(self._args(), tangents, "primals", "tangents", root="args").splitlines(),
                    fix="Pass tangents in the structure of the primals.",
                )
            )
        checked = _check_tangents(
            "linearize", self._avals, dots, lambda i: argument_names(self._fun, self._args(), {})[i]
        )
        live = [instantiate(t) for t, inx in zip(checked, self._inexact, strict=True) if inx]
        return pytree.unflatten(self._out_tree, [_materialise(t) for t in self.program.apply(live)])

    def _args(self) -> Any:
        """Something in the structure of the arguments."""
        return pytree.unflatten(self._tree, range(len(self._avals)))[0]


@api_boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Results of `fun` at `primals`, and the linear function from tangents of the arguments to tangents of the results.

    The linear function repeats none of the work of `fun`. With `has_aux` auxiliary data is the third result.

    >>> import didax as dx
    >>> y, f_lin = dx.linearize(lambda x: x * x, 3.0)
    >>> float(f_lin(1.0))
    6.0
    """
    check_callable("linearize", fun)
    leaves, tree = flatten_arguments(primals, {})
    avals = leaf_avals("linearize", fun, primals, {})
    leaves = list(
        map(as_array, leaves)
    )  # the arrays in the program do not depend on whether these are traced
    flat = FlatFunction(fun, tree, "linearize")
    aux = _SplitAux(flat, "linearize") if has_aux else flat
    inexact = [dtypes.is_inexact(a.dtype) for a in avals]
    outs, program = linearize_flat(aux, leaves, inexact, function=fun)
    f_lin = _Linearized(program, fun, tree, avals, inexact, aux.out_tree)
    result = _as_arrays(aux.out_tree, outs), f_lin
    return (*result, aux.aux()) if isinstance(aux, _SplitAux) else result


class VJPFunction(LinearFunction):
    """The reverse-mode half of `vjp`: cotangents of the results to cotangents of the arguments."""

    __slots__ = ("_avals", "_inexact", "_out_avals", "_out_tree", "_tree")
    about = ("_avals", "_out_avals", "_out_tree", "_tree")

    def __init__(
        self, program: LinearProgram, tree: Any, avals: Any, inexact: Any, out_tree: Any, out_avals: Any
    ):
        super().__init__(program)
        self._tree = tree
        self._avals = avals
        self._inexact = inexact
        self._out_tree = out_tree
        self._out_avals = out_avals

    @api_boundary
    def __call__(self, cotangents: Any) -> Any:
        cts, ct_tree = pytree.flatten(cotangents)
        if ct_tree != self._out_tree:
            raise ArgumentError(
                message(
                    "The vjp takes cotangents in the structure of the function's result.",
                    *pytree.mismatch(self._out_tree, ct_tree, "the result", "the cotangent").splitlines(),
                    fix="Pass one cotangent for each result, in the same structure.",
                )
            )
        cts = _check_tangents(
            "vjp", self._out_avals, cts, lambda i: result_name(self._out_tree, i), of="result"
        )
        args, _ = pytree.unflatten(self._tree, self.flat(cts))
        return args

    def flat(self, cts: Sequence[Any]) -> list[Any]:
        """Cotangents of all argument leaves, as arrays of these types (float0 zeros for integers)."""
        program = self.program
        x_bars = iter(backward(program.invars, program.eqns, program.outs, cts))
        return [
            _materialise(next(x_bars) if inx else Zero(a.tangent()))
            for a, inx in zip(self._avals, self._inexact, strict=True)
        ]


@api_boundary
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Results of `fun` at `primals`, and the function from cotangents of the results to those of the arguments.

    The second result takes one cotangent, in the structure of the results, and returns a tuple with one cotangent for
    each argument. Of an integer or boolean result any array of its shape is a cotangent. With `has_aux` auxiliary data
    is the third result.

    >>> import didax as dx
    >>> y, f_vjp = dx.vjp(lambda x, y: x * y, 2.0, 5.0)
    >>> [float(x_bar) for x_bar in f_vjp(1.0)]
    [5.0, 2.0]
    """
    check_callable("vjp", fun)
    leaves, tree = flatten_arguments(primals, {})
    avals = leaf_avals("vjp", fun, primals, {})
    leaves = list(
        map(as_array, leaves)
    )  # the arrays in the program do not depend on whether these are traced
    out, out_tree, f_vjp, aux = _vjp(fun, "vjp", leaves, tree, avals, has_aux)
    result = _as_arrays(out_tree, out), f_vjp
    return (*result, aux) if has_aux else result


def _vjp(
    fun: Any, what: str, leaves: Any, tree: Any, avals: Any, has_aux: bool
) -> tuple[Any, Any, VJPFunction, Any]:
    flat = FlatFunction(fun, tree, what)
    split = _SplitAux(flat, what) if has_aux else flat
    inexact = [dtypes.is_inexact(a.dtype) for a in avals]
    outs, program = linearize_flat(split, leaves, inexact, function=fun)
    f_vjp = VJPFunction(program, tree, avals, inexact, split.out_tree, [aval_of(y) for y in outs])
    return outs, split.out_tree, f_vjp, split.aux() if isinstance(split, _SplitAux) else None


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
    value_and_gradient = _gradient("grad", fun, argnums, has_aux, holomorphic, allow_int)

    @functools.wraps(fun)
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
        functools.wraps(fun)(_gradient("value_and_grad", fun, argnums, has_aux, holomorphic, allow_int))
    )


def _gradient(
    what: str,
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
) -> Callable[..., Any]:
    """The function behind `grad` and `value_and_grad`: (value or (value, aux), gradient)."""
    check_callable(what, fun)
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        chosen = _chosen_arguments(what, fun, numbers, args)
        leaves, tree = flatten_arguments(tuple(args[i] for i in chosen), {})
        avals = _chosen_avals(what, fun, args, chosen)
        _check_differentiable(what, fun, args, chosen, avals, holomorphic, allow_int)
        partial = _with_arguments(fun, args, kwargs, chosen)
        outs, out_tree, f_vjp, aux = _vjp(partial, what, leaves, tree, avals, has_aux)
        _check_scalar(what, fun, pytree.unflatten(out_tree, outs), holomorphic)
        aval = aval_of(outs[0])
        g, _ = pytree.unflatten(tree, f_vjp.flat([filled(aval, 1)]))
        value = as_array(outs[0])
        return (value, aux) if has_aux else value, g[0] if isinstance(argnums, int) else g

    return value_and_gradient


def _chosen_arguments(what: str, fun: Any, numbers: tuple[int, ...], args: tuple[Any, ...]) -> list[int]:
    chosen = [i + len(args) if i < 0 else i for i in numbers]
    if any(not 0 <= i < len(args) for i in chosen):
        raise ArgumentError(
            message(
                f"argnums of {what} must number positional arguments of the call.",
                f"argnums: {numbers}, positional arguments: {len(args)}",
                f"function: {describe_function(fun)}",
                fix="Pass the arguments to differentiate by position, and number them from 0.",
            )
        )
    return chosen


def _chosen_avals(what: str, fun: Any, args: tuple[Any, ...], chosen: Sequence[int]) -> list[ShapedArray]:
    """Types of the leaves of the chosen arguments, in the order of `chosen`."""
    try:
        return [aval_of(x) for x in flatten_arguments([args[i] for i in chosen], {})[0]]
    except TypeError:
        for i in chosen:
            alone = [x if i == j else None for j, x in enumerate(args)]
            leaf_avals(what, fun, alone, {})  # raises, naming the argument
        raise


def _with_arguments(
    fun: Any, args: tuple[Any, ...], kwargs: Any, chosen: Sequence[int]
) -> Callable[..., Any]:
    """`fun` as a function of the chosen positional arguments only."""

    def partial(*values: Any) -> Any:
        filled = list(args)
        for i, x in zip(chosen, values, strict=True):
            filled[i] = x
        return fun(*filled, **kwargs)

    # For error messages; functools.wraps costs 4 us a call.
    partial.__wrapped__ = fun  # pyright: ignore[reportFunctionMemberAccess]
    return partial


def _check_differentiable(
    what: str,
    fun: Any,
    args: Any,
    chosen: Sequence[int],
    avals: Sequence[ShapedArray],
    holomorphic: bool,
    allow_int: bool,
    forward: bool = False,
) -> None:
    """TypeError for a leaf whose dtype cannot be differentiated; a complex one gives two columns in forward mode."""
    for i, aval in enumerate(avals):
        if holomorphic:
            if dtypes.is_complex(aval.dtype):
                continue
            rule, fix = f"{what} with holomorphic=True takes complex arguments", "Cast it to complex."
        elif dtypes.is_complex(aval.dtype) and forward:
            rule = f"{what} takes real arguments: by a complex one there are two derivatives"
            fix = "Pass holomorphic=True, differentiate by real and imaginary parts, or use jacrev of a real result."
        elif allow_int or dtypes.is_inexact(aval.dtype):
            continue
        else:
            rule = f"{what} takes floating-point arguments"
            fix = "Cast it to a floating-point type, choose other argnums, or pass allow_int=True."
        names = positional_names(fun, len(args))
        paths = [
            names[j] + pytree.keystr(path) for j in chosen for path, _ in pytree.flatten_with_path(args[j])[0]
        ]
        raise TypeError(message(f"{rule}.", f"argument {paths[i]}: {aval}", fix=fix))


def _check_scalar(what: str, fun: Any, out: Any, holomorphic: bool) -> None:
    """TypeError unless the result is one scalar of a dtype with a gradient."""
    leaves = pytree.leaves(out)
    aval = aval_of(leaves[0]) if len(leaves) == 1 else None
    if aval is None or (not hasattr(out, "dtype") and not isinstance(out, int | float | complex)):
        shown = pytree.map(aval_of, out)
        rule, facts, fix = (
            "a single scalar",
            f"result: {shown}",
            "Return one scalar; use has_aux=True for other data.",
        )
    elif aval.shape != ():
        rule, facts, fix = (
            "a scalar",
            f"result: {aval}",
            "Sum or average it, or use jacrev or jacfwd for the Jacobian.",
        )
    elif holomorphic and not dtypes.is_complex(aval.dtype):
        rule, facts, fix = "a complex scalar (holomorphic=True)", f"result: {aval}", "Drop holomorphic=True."
    elif not holomorphic and not dtypes.is_float(aval.dtype):
        rule, facts = "a real floating-point scalar", f"result: {aval}"
        fix = "Cast it to a floating-point type, or take its real part (holomorphic=True for holomorphic functions)."
    else:
        return
    raise TypeError(
        message(
            f"The function given to {what} must return {rule}.",
            f"function: {describe_function(fun)}",
            facts,
            fix=fix,
        )
    )


@api_boundary
def jacfwd(
    fun: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[P, Any]:
    """The Jacobian, column by column in forward mode: best for few inputs and many outputs.

    Each leaf of the result has the axes of a result of `fun`, then those of an argument.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.jacfwd(lambda x: x * x)(dnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_callable("jacfwd", fun)
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(fun)
    def jacobian(*args: P.args, **kwargs: P.kwargs) -> Any:
        chosen = _chosen_arguments("jacfwd", fun, numbers, args)
        x = tuple(args[i] for i in chosen)
        _check_differentiable(
            "jacfwd", fun, args, chosen, _chosen_avals("jacfwd", fun, args, chosen), holomorphic, False, True
        )
        push = functools.partial(jvp, _with_arguments(fun, args, kwargs, chosen), x, has_aux=has_aux)
        out, columns, *aux = vmap(push, out_axes=(None, -1, None) if has_aux else (None, -1))(
            _standard_basis(x)
        )
        if holomorphic:
            _check_results_differentiable("jacfwd", fun, out, holomorphic)
        blocks = [
            _split_inputs(_as_weak_as(y, c), x)
            for y, c in zip(pytree.leaves(out), pytree.leaves(columns), strict=True)
        ]
        jac = pytree.unflatten(
            pytree.structure(out), [b[0] if isinstance(argnums, int) else b for b in blocks]
        )
        return (jac, aux[0]) if has_aux else jac

    return api_boundary(jacobian)


@api_boundary
def jacrev(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, Any]:
    """The Jacobian, row by row in reverse mode: best for many inputs and few outputs.

    Each leaf of the result has the axes of a result of `fun`, then those of an argument. Complex arguments are taken as
    by `grad`; `jacfwd` takes them with `holomorphic` only.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.jacrev(lambda x: x * x)(dnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_callable("jacrev", fun)
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(fun)
    def jacobian(*args: P.args, **kwargs: P.kwargs) -> Any:
        chosen = _chosen_arguments("jacrev", fun, numbers, args)
        x = tuple(args[i] for i in chosen)
        _check_differentiable(
            "jacrev", fun, args, chosen, _chosen_avals("jacrev", fun, args, chosen), holomorphic, allow_int
        )
        out, pull, *aux = vjp(_with_arguments(fun, args, kwargs, chosen), *x, has_aux=has_aux)
        _check_results_differentiable("jacrev", fun, out, holomorphic)
        rows = vmap(pull)(_standard_basis(out))
        blocks = _split_outputs(pytree.map(_as_weak_as, x, rows), out)
        jac = pytree.unflatten(
            pytree.structure(out), [b[0] if isinstance(argnums, int) else b for b in blocks]
        )
        return (jac, aux[0]) if has_aux else jac

    return api_boundary(jacobian)


@api_boundary
def hessian(
    fun: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[P, Any]:
    """The matrix of second derivatives: forward mode over reverse mode.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.hessian(lambda x: (x**3).sum())(dnp.array([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


def _as_weak_as(like: Any, x: Any) -> Any:
    """A block of a Jacobian as weak as `like`: as an argument in reverse mode, as a result in forward mode."""
    return convert_element_type(x, x.dtype, aval_of(like).weak_type) if isinstance(x, Array) else x


def _standard_basis(tree: Any) -> Any:
    """For each leaf, all unit vectors of the whole tree's space along a new leading axis."""
    leaves, structure = pytree.flatten(tree)
    avals = [aval_of(x) for x in leaves]
    total = sum(a.size for a in avals)
    starts = np.cumsum([0, *(a.size for a in avals)])
    units = [
        np.eye(total, a.size, -int(start), dtype=a.tangent().dtype).reshape(total, *a.shape)
        for a, start in zip(avals, starts[:-1], strict=True)
    ]
    types = [ShapedArray(u.shape, u.dtype, a.weak_type) for a, u in zip(avals, units, strict=True)]
    return pytree.unflatten(structure, list(map(ConcreteArray, types, units)))


def _split_inputs(columns: Any, x: Any) -> Any:
    """Cut the last axis, which runs over all inputs, into blocks in the structure of the inputs."""
    lead = aval_of(columns).shape[:-1]
    leaves, structure = pytree.flatten(x)
    return pytree.unflatten(
        structure, [reshape(columns[..., a:b], (*lead, *aval_of(y).shape)) for y, a, b in _ranges(leaves)]
    )


def _split_outputs(rows: Any, out: Any) -> list[Any]:
    """Cut the leading axis, which runs over all outputs, into blocks: for each output, the inputs' structure."""
    return [
        pytree.map(functools.partial(_block, aval_of(y).shape, a, b), rows)
        for y, a, b in _ranges(pytree.leaves(out))
    ]


def _block(shape: tuple[int, ...], start: int, stop: int, rows: Any) -> Any:
    return reshape(rows[start:stop], (*shape, *aval_of(rows).shape[1:]))


def _ranges(leaves: Sequence[Any]) -> list[tuple[Any, int, int]]:
    """Each leaf with the range of its elements among those of all leaves."""
    stops = np.cumsum([aval_of(x).size for x in leaves]).tolist()
    return list(zip(leaves, [0, *stops], stops, strict=False))


def _check_results_differentiable(what: str, fun: Any, out: Any, holomorphic: bool) -> None:
    """TypeError for a result whose dtype has no cotangents of its own (complex ones need `holomorphic`)."""
    accepted = dtypes.is_complex if holomorphic else dtypes.is_float
    for i, y in enumerate(pytree.leaves(out)):
        if not accepted(aval_of(y).dtype):
            kind = "complex arrays (holomorphic=True)" if holomorphic else "real floating-point arrays"
            part = ", take its real part (holomorphic=True for holomorphic functions)"
            other = part if dtypes.is_complex(aval_of(y).dtype) else ""
            raise TypeError(
                message(
                    f"The function given to {what} must return {kind}.",
                    f"function: {describe_function(fun)}",
                    f"{result_name(pytree.structure(out), i)}: {aval_of(y)}",
                    fix=f"Cast it{other}, or return it by has_aux=True.",
                )
            )


@api_boundary
def linear_transpose(
    fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[str] = ()
) -> Callable[..., Any]:
    """The transpose of a function that is linear in all of its arguments.

    `primals` give shapes and dtypes only (arrays or `ShapeDtypeStruct`s). The result maps cotangents, in the structure
    of the function's result, to a tuple of cotangents of the arguments.

    >>> import didax as dx
    >>> f_t = dx.linear_transpose(lambda x: 3.0 * x, 1.0)
    >>> float(f_t(2.0)[0])
    6.0
    """
    check_callable("linear_transpose", fun)
    _, tree = flatten_arguments(primals, {})
    avals = leaf_avals("linear_transpose", fun, primals, {})
    if not all(dtypes.is_inexact(a.dtype) for a in avals):
        raise TypeError(
            message(
                "linear_transpose takes floating-point or complex arguments.",
                f"arguments: {', '.join(map(str, avals))}",
                fix="Close over integer arguments.",
            )
        )
    flat = FlatFunction(fun, tree, "linear_transpose")
    jaxpr, consts = trace_to_jaxpr(flat, avals, function=fun, what="linear_transpose")
    out_tree = flat.out_tree
    linear = [False] * len(consts) + [True] * len(avals)

    @api_boundary
    def transposed(cotangents: Any) -> Any:
        cts, ct_tree = pytree.flatten(cotangents)
        if ct_tree != out_tree:
            raise ArgumentError(
                message(
                    "The transposed function takes cotangents in the structure of the function's result.",
                    *pytree.mismatch(out_tree, ct_tree, "the result", "the cotangent").splitlines(),
                    fix="Pass one cotangent for each result, in the same structure.",
                )
            )
        cts = _check_tangents(
            "linear_transpose", jaxpr.out_avals, cts, lambda i: result_name(out_tree, i), of="result"
        )
        x_bars = backward_jaxpr(jaxpr, linear, consts, cts)
        return pytree.unflatten(tree, [_materialise(x) for x in x_bars])[0]

    return transposed
