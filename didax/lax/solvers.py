"""Solutions of equations, differentiated as solutions: `custom_linear_solve` and `custom_root`.

    custom_linear_solve(matvec, b, solve)    = x with matvec(x) = b
    custom_root(f, x0, solve, ...)           = x with f(x) = 0

You write the solver; it may use any loop. Derivatives do not go through the solver: they follow from the
equation (the implicit function theorem), cost one more linear system, and need no memory of the steps of the
solver. Solutions are differentiated with respect to the arrays over which the functions close, traced or not.
Read next: `didax/primitives/control_flow/linear_solve.py`; `didax/scipy/sparse/linalg.py`, solvers built with
this module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from didax.api.autodiff import linearize
from didax.api.custom import custom_jvp
from didax.api.flat import as_array, check_callable, flatten_arguments, leaf_avals
from didax.api.symbolic_zeros import zero_from_primal
from didax.api.traced import (
    TracedFunction,
    captured_values,
    converted,
    join_types,
    trace_function,
    with_captured,
)
from didax.core import dtypes, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import ArgumentError, message
from didax.core.jaxpr import Jaxpr, eval_jaxpr
from didax.core.source import describe_function
from didax.lax.operands import operation
from didax.primitives.control_flow.layout import merge, where_false, where_true
from didax.primitives.control_flow.linear_solve import linear_solve_p
from didax.primitives.convert import convert_element_type
from didax.primitives.elementwise import neg
from didax.transforms.transpose import transpose_jaxpr

__all__ = ["custom_linear_solve", "custom_root"]

Solver = Callable[[Callable[[Any], Any], Any], Any]


@operation
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Solver,
    transpose_solve: Solver | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Return the x with `matvec(x) = b` that `solve(matvec, b)` finds; its derivatives follow from this equation.

    Args:
      matvec: a linear function from pytrees like `b` to pytrees like `b`.
      b: the right-hand side, a pytree of floating-point or complex arrays.
      solve: a function of `matvec` and a right-hand side. It is not differentiated, so it may hold a `while_loop`.
      transpose_solve: a function of the transpose of `matvec` and a right-hand side; reverse mode needs it.
      symmetric: `matvec` is its own transpose, so `solve` also solves the transposed system.
      has_aux: the solvers return pairs, the solution and auxiliary data, which has no derivatives.

    Raises TypeError when `matvec` or a solver returns a pytree that is not like `b`.

    >>> import didax as dx, didax.numpy as dnp
    >>> def divide(a, b):
    ...     return dx.lax.custom_linear_solve(lambda x: a * x, b, lambda matvec, b: b / a, symmetric=True)
    >>> dx.grad(divide)(2.0, 3.0)
    Array(-0.75, dtype=float32, weak_type=True)
    """
    system = _System("custom_linear_solve", "b", b, has_aux)
    operator = system.trace("matvec", matvec, matvec)
    solver = system.trace("solve", solve, functools.partial(solve, matvec), may_have_aux=True)
    functions = [operator, solver]
    if transpose_solve is not None or symmetric:
        transposed = system.as_function(operator) if symmetric else system.transposed(operator)
        transpose_solve = transpose_solve or solve
        functions.append(
            system.trace(
                "transpose_solve",
                transpose_solve,
                functools.partial(transpose_solve, transposed),
                may_have_aux=True,
            )
        )
    consts, places = captured_values(functions)
    const_avals = tuple(aval_of(x) for x in consts)
    jaxprs = [with_captured(t.jaxpr, own, const_avals) for t, own in zip(functions, places, strict=True)]
    if len(jaxprs) == 3:
        jaxprs.insert(2, jaxprs[0] if symmetric else _transpose(jaxprs[0], len(consts)))
    outs = linear_solve_p.bind(*consts, *system.leaves, jaxprs=tuple(jaxprs), num_consts=len(consts))
    return pytree.unflatten(solver.out_tree, map(as_array, outs))


@operation
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Solver,
    tangent_solve: Solver,
    has_aux: bool = False,
) -> Any:
    """Return the x with `f(x) = 0` that `solve(f, initial_guess)` finds; its derivatives follow from this equation.

    Args:
      f: a function from pytrees like `initial_guess` to pytrees like it, differentiable at the root.
      initial_guess: where `solve` starts, a pytree of floating-point or complex arrays; it has no derivatives.
      solve: a function of `f` and a guess. It is not differentiated, so it may hold a `while_loop`.
      tangent_solve: `tangent_solve(g, y)` solves `g(x) = y` for a linear g, the derivative of f at the root. Reverse
        mode transposes it: use a `custom_linear_solve` in it, or operations that are linear in y.
      has_aux: `solve` returns a pair, the root and auxiliary data, which has no derivatives.

    Raises TypeError when `f`, `solve` or `tangent_solve` returns a pytree that is not like `initial_guess`.

    >>> import didax as dx, didax.numpy as dnp
    >>> def newton(f, x):
    ...     return dx.lax.fori_loop(0, 20, lambda _, x: x - f(x) / dx.grad(f)(x), x)
    >>> def cube_root(a):
    ...     return dx.lax.custom_root(lambda x: x**3 - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> float(cube_root(8.0)), round(float(dx.grad(cube_root)(8.0)), 5)
    (2.0, 0.08333)
    """
    system = _System("custom_root", "initial_guess", initial_guess, has_aux)
    function = system.trace("f", f, f)
    solver = system.trace("solve", solve, functools.partial(solve, f), may_have_aux=True)
    check_callable("custom_root", tangent_solve)

    def linearize_and_solve(x: Any, y: Any) -> Any:
        return tangent_solve(linearize(f, x)[1], y)

    functions = [function, solver, system.trace("tangent_solve", tangent_solve, linearize_and_solve, count=2)]
    consts, places = captured_values(functions)
    const_avals = tuple(aval_of(x) for x in consts)
    f_jaxpr, solve_jaxpr, tangent_jaxpr = [
        with_captured(t.jaxpr, own, const_avals) for t, own in zip(functions, places, strict=True)
    ]
    is_differentiable = [dtypes.is_inexact(aval.dtype) for aval in const_avals]
    n = len(system.leaves)

    @custom_jvp
    def root(consts: list[Any], guess: list[Any]) -> list[Any]:
        return eval_jaxpr(solve_jaxpr, [*consts, *guess])

    @root.defjvp
    def root_jvp(primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
        (consts, guess), (const_dots, _) = primals, tangents
        outs = root(consts, guess)
        x = outs[:n]

        def residual(differentiable: Sequence[Any]) -> list[Any]:
            others = where_false(consts, is_differentiable)
            return eval_jaxpr(f_jaxpr, [*merge(is_differentiable, differentiable, others), *x])

        _, of_constants = linearize(residual, where_true(consts, is_differentiable))
        y = [neg(t) for t in of_constants(where_true(const_dots, is_differentiable))]
        x_dots = eval_jaxpr(tangent_jaxpr, [*consts, *x, *y])
        return outs, [*x_dots, *map(zero_from_primal, outs[n:])]

    outs = root(consts, system.leaves)
    return pytree.unflatten(solver.out_tree, map(as_array, outs))


def _transpose(matvec: Jaxpr, num_consts: int) -> Jaxpr:
    n = len(matvec.outvars)
    linear = (False,) * num_consts + (True,) * n
    return transpose_jaxpr(matvec, linear, (True,) * n, instantiate_all=True)[0]


class _System:
    """The unknowns of an equation, pytrees like `given`, and functions of the unknowns as jaxprs."""

    def __init__(self, solver: str, argument: str, given: Any, has_aux: bool):
        self.solver, self.argument, self.given, self.has_aux = solver, argument, given, has_aux
        avals = leaf_avals(solver, lambda given: given, (given,), {})
        if not all(dtypes.is_inexact(aval.dtype) for aval in avals):
            raise TypeError(
                message(
                    f"{solver} solves for floating-point or complex numbers.",
                    *self._facts(avals),
                    fix=f"Cast {argument} first ({argument}.astype('float32')).",
                )
            )
        leaves, _ = flatten_arguments((given,), {})
        self.tree = pytree.structure(given)
        self.avals = tuple([aval.strip_weak_type() for aval in avals])
        self.leaves = [
            convert_element_type(x, aval.dtype, False) for x, aval in zip(leaves, self.avals, strict=True)
        ]

    def trace(
        self,
        name: str,
        f: Any,
        of_unknowns: Callable[..., Any],
        may_have_aux: bool = False,
        count: int = 1,
    ) -> TracedFunction:
        """Trace a function of `count` times the unknowns; TypeError if the results have other types."""
        check_callable(self.solver, f)
        tree = pytree.structure(((self.given,) * count, {}))
        traced = trace_function(self.solver, of_unknowns, tree, self.avals * count)
        has_aux = self.has_aux and may_have_aux
        out_tree = self._first_of_pair(name, f, traced.out_tree) if has_aux else traced.out_tree
        found = traced.out_avals
        n = len(self.avals)
        self._check(name, f, out_tree, found[:n])
        return traced._replace(jaxpr=converted(traced.jaxpr, [*self.avals, *found[n:]]))

    def as_function(self, traced: TracedFunction) -> Callable[[Any], Any]:
        """Return a traced function of the unknowns as a Python function."""
        return lambda v: self._call(traced.jaxpr, [*traced.captured, *pytree.leaves(v)])

    def transposed(self, traced: TracedFunction) -> Callable[[Any], Any]:
        """Return the transpose of a traced linear function of the unknowns."""
        jaxpr = _transpose(traced.jaxpr, len(traced.captured))
        return lambda v: self._call(jaxpr, [*traced.captured, *pytree.leaves(v)])

    def _call(self, jaxpr: Jaxpr, args: Sequence[Any]) -> Any:
        return pytree.unflatten(self.tree, map(as_array, eval_jaxpr(jaxpr, args)))

    def _first_of_pair(self, name: str, f: Any, out_tree: Any) -> Any:
        node = out_tree.node_data()
        if node is not None and node[0] is tuple and len(out_tree.children()) == 2:
            return out_tree.children()[0]
        raise TypeError(
            message(
                f"With has_aux=True the {name} of {self.solver} returns a pair (x, auxiliary data).",
                f"{name}: {describe_function(f)}",
                f"it returned: {out_tree}",
                fix="Return (x, aux), or drop has_aux=True.",
            )
        )

    def _check(self, name: str, f: Any, out_tree: Any, found: Sequence[ShapedArray]) -> None:
        if out_tree != self.tree:
            facts = pytree.mismatch(self.tree, out_tree, self.argument, f"the result of {name}").splitlines()
        else:
            pairs = zip(self._facts(self.avals), self.avals, found, strict=True)
            facts = [
                f"{fact}; {name} returned {aval}"
                for fact, wanted, aval in pairs
                if join_types((wanted, aval)) is not wanted
            ]
        if facts:
            raise ArgumentError(
                message(
                    f"The {name} of {self.solver} must return arrays of the structure, shapes and dtypes "
                    f"of {self.argument}.",
                    *facts,
                    f"{name}: {describe_function(f)}",
                    fix=f"Cast or reshape its result, or {self.argument}.",
                )
            )

    def _facts(self, avals: Sequence[ShapedArray]) -> list[str]:
        paths = [path for path, _ in pytree.flatten_with_path(self.given)[0]]
        return [
            f"{self.argument}{pytree.keystr(path)}: {aval}" for path, aval in zip(paths, avals, strict=True)
        ]
