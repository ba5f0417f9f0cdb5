"""Taylor mode: `jet`, derivatives of high order along a curve, at a cost that grows with the square of the order.

    jet(f, (x,), ([x1, x2, ...],))    derivatives of t -> f(x(t)) at 0, for a curve with derivatives x1, x2, ...

Nested `jvp`s give the same numbers and cost twice as much with each order. Read next: `didax/transforms/jet.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from didax.api.flat import (
    FlatFunction,
    argument_names,
    as_array,
    check_callable,
    flatten_arguments,
    leaf_avals,
)
from didax.api.tangents import check_tangents
from didax.core import pytree
from didax.core.array_ops import instantiate
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.modules import on_access
from didax.transforms.jet import jet_flat, scaled

__all__ = ["jet"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def jet(
    fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Any], factorial_scaled: bool = True
) -> tuple[Any, Any]:
    """The result of `fun` at `primals`, and the derivatives of the result along a curve through them.

    Args:
      primals: a tuple (or list) of arguments: arrays or pytrees of arrays.
      series: for each argument a list of as many terms as the order, each in the structure and types of the argument:
        the first, second, ... derivative of the curve that the argument moves along.
      factorial_scaled: with False all terms, given and returned, are coefficients of power series: term k is the k-th
        derivative over k!.

    Returns the result, and the result's structure with a list of terms in place of each array.

    Raises TypeError or ValueError where the series do not fit the primals or have different lengths. See Griewank,
    Walther: Evaluating Derivatives, chapter 13.

    >>> import didax.numpy as dnp
    >>> y, (y1, y2, y3) = jet(dnp.exp, (0.0,), ([1.0, 0.0, 0.0],))
    >>> float(y), float(y1), float(y2), float(y3)
    (1.0, 1.0, 1.0, 1.0)
    """
    check_callable("jet", fun)
    order = _order(primals, series)
    leaves, tree = flatten_arguments(tuple(primals), {})
    avals = leaf_avals("jet", fun, tuple(primals), {})
    columns = [_terms(fun, primals, series, k, tree, avals, factorial_scaled) for k in range(1, order + 1)]
    coefficients = [[column[i] for column in columns] for i in range(len(leaves))]
    flat = FlatFunction(fun, tree, "jet")
    outs, out_series = jet_flat(flat, [as_array(x) for x in leaves], coefficients, order, function=fun)
    terms = [
        [
            as_array(instantiate(scaled(c, math.factorial(k) if factorial_scaled else 1)))
            for k, c in enumerate(cs, 1)
        ]
        for cs in out_series
    ]
    out = pytree.unflatten(flat.out_tree, [as_array(y) for y in outs])
    return out, pytree.unflatten(flat.out_tree, terms)


def _order(primals: Any, series: Any) -> int:
    """The number of terms of each argument's series; an error unless it is the same for all."""
    if not isinstance(primals, tuple | list) or not isinstance(series, tuple | list):
        kinds = f"primals: {type(primals).__name__}, series: {type(series).__name__}"
        rule = "jet takes the arguments as a tuple, and their series as a tuple of lists of terms."
        raise TypeError(message(rule, kinds, fix="Write jet(f, (x,), ([x1, x2],))."))
    if wrong := [i for i, terms in enumerate(series) if not isinstance(terms, tuple | list)]:
        rule = "The series of an argument is a list of terms."
        facts = [f"series[{i}]: {type(series[i]).__name__}" for i in wrong]
        raise TypeError(message(rule, *facts, fix="Write jet(f, (x,), ([x1, x2],))."))
    lengths = [len(terms) for terms in series]
    if len(primals) != len(series) or len(set(lengths)) > 1:
        raise ArgumentError(
            message(
                "jet needs one series for each argument, and all series have as many terms as the order.",
                f"arguments: {len(primals)}, terms in their series: {lengths}",
                fix="Give every argument a series of the same length; zeros where a derivative of it vanishes.",
            )
        )
    return lengths[0] if lengths else 0


def _terms(
    fun: Any, primals: Any, series: Any, k: int, tree: Any, avals: Any, factorial_scaled: bool
) -> list[Any]:
    """The coefficients of t^k of all arguments' leaves."""
    terms = tuple([terms[k - 1] for terms in series])
    dots, dot_tree = flatten_arguments(terms, {})
    if dot_tree != tree:
        facts = pytree.mismatch(
            tuple(primals), terms, "primals", f"terms of order {k}", root="args"
        ).splitlines()
        rule = "Each term of a series of jet has the structure of its argument."
        raise TypeError(message(rule, *facts, fix="Give each term the containers of its argument."))
    name = f"jet, in the terms of order {k},"
    dots = check_tangents(name, avals, dots, lambda i: argument_names(fun, tuple(primals), {})[i])
    return [scaled(x, 1 / math.factorial(k) if factorial_scaled else 1) for x in dots]
