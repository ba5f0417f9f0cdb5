"""`jacfwd`, `jacrev` and `hessian`: matrices of derivatives, made of many jvps or vjps at once by `vmap`.

    jacfwd(f)(x)[..., j] = df(x) e_j      a column for each input: the jvp along each unit vector
    jacrev(f)(x)[i]      = df(x)^T e_i    a row for each output: the vjp of each unit vector

Several arguments and results count as one vector of inputs and one of outputs, which is cut into blocks afterwards.
Read next: `autodiff.py`, `vmap.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import numpy as np

from didax.api.argnums import (
    as_function_of,
    check_arguments_differentiable,
    check_results_differentiable,
    chosen_arguments,
    chosen_avals,
)
from didax.api.autodiff import jvp, vjp
from didax.api.flat import check_callable, flatten_arguments
from didax.api.vmap import vmap
from didax.core import pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import api_boundary
from didax.primitives.convert import convert_element_type
from didax.primitives.shape import reshape
from didax.runtime.array import Array, ConcreteArray

P = ParamSpec("P")


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
        chosen = chosen_arguments("jacfwd", fun, numbers, args)
        x = tuple(args[i] for i in chosen)
        avals = chosen_avals("jacfwd", fun, args, chosen, flatten_arguments(x, {})[0])
        check_arguments_differentiable("jacfwd", fun, args, chosen, avals, holomorphic, forward=True)
        push = functools.partial(jvp, as_function_of(chosen, fun, args, kwargs), x, has_aux=has_aux)
        out, columns, *aux = vmap(push, out_axes=(None, -1, None) if has_aux else (None, -1))(
            _standard_basis(x)
        )
        if holomorphic:
            check_results_differentiable("jacfwd", fun, out, holomorphic)
        blocks = [
            _split_inputs(_as_weak_as(y, c), x)
            for y, c in zip(pytree.leaves(out), pytree.leaves(columns), strict=True)
        ]
        return _assembled(out, blocks, argnums, aux)

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
        chosen = chosen_arguments("jacrev", fun, numbers, args)
        x = tuple(args[i] for i in chosen)
        avals = chosen_avals("jacrev", fun, args, chosen, flatten_arguments(x, {})[0])
        check_arguments_differentiable("jacrev", fun, args, chosen, avals, holomorphic, allow_int)
        out, pull, *aux = vjp(as_function_of(chosen, fun, args, kwargs), *x, has_aux=has_aux)
        check_results_differentiable("jacrev", fun, out, holomorphic)
        rows = vmap(pull)(_standard_basis(out))
        blocks = _split_outputs(pytree.map(_as_weak_as, x, rows), out)
        return _assembled(out, blocks, argnums, aux)

    return api_boundary(jacobian)


def _assembled(out: Any, blocks: Sequence[Any], argnums: int | Sequence[int], aux: Sequence[Any]) -> Any:
    """The Jacobian in the structure of the results, from a tuple of blocks for each result; `aux` beside it, if any."""
    jac = pytree.unflatten(pytree.structure(out), [b[0] if isinstance(argnums, int) else b for b in blocks])
    return (jac, *aux) if aux else jac


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
    """A block of a Jacobian, weakly typed where `like` is: the argument in reverse mode, the result in forward mode."""
    return convert_element_type(x, x.dtype, aval_of(like).weak_type) if isinstance(x, Array) else x


def _standard_basis(tree: Any) -> Any:
    """All unit vectors of the space that the leaves together are a vector of, along a new leading axis of each leaf."""
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
    """Cut the last axis, which runs over all inputs, into one block for each input, in the inputs' structure."""
    lead = aval_of(columns).shape[:-1]
    leaves, structure = pytree.flatten(x)
    return pytree.unflatten(
        structure, [reshape(columns[..., a:b], (*lead, *aval_of(y).shape)) for y, a, b in _ranges(leaves)]
    )


def _split_outputs(rows: Any, out: Any) -> list[Any]:
    """Cut the leading axis, which runs over all outputs, into blocks: for each output one in the inputs' structure."""
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
