"""`jacfwd`, `jacrev` and `hessian`: matrices of derivatives, made of many jvps or vjps at once by `vmap`.

    jacfwd(f)(x)[..., j] = df(x) e_j      a column for each input: the jvp along each unit vector
    jacrev(f)(x)[i]      = df(x)^T e_i    a row for each output: the vjp of each unit vector

Several arguments and results count as one vector of inputs and one of outputs, which is cut into blocks afterwards.
Read next: `autodiff.py`, `vmap.py`.
"""

from __future__ import annotations

import functools
import itertools
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
from didax.api.chunks import checked_size, is_chunked
from didax.api.flat import check_callable, flatten_arguments, narrowed_scalar
from didax.api.static import as_numbers
from didax.api.vmap import vmap
from didax.core import dtypes, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.dims import is_symbolic
from didax.core.errors import api_boundary
from didax.core.source import wraps
from didax.primitives.convert import convert_element_type, iota
from didax.primitives.dimension import number
from didax.primitives.elementwise import eq, sub
from didax.primitives.shape import reshape
from didax.runtime.array import Array, ConcreteArray

P = ParamSpec("P")


@api_boundary
def jacfwd(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """The Jacobian, column by column in forward mode: best for few inputs and many outputs.

    Each leaf of the result has the axes of a result of `fun`, then those of an argument. `argnums`, `has_aux` and
    `holomorphic` are those of `grad`. With a `chunk_size`, so many columns are computed at a time: the result is the
    same, and needs less memory on the way. Raises TypeError for arguments or results that cannot be differentiated.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.jacfwd(lambda x: x * x)(dnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    return _jacfwd("jacfwd", fun, argnums, has_aux, holomorphic, chunk_size)


def _jacfwd(
    caller: str,
    fun: Callable[P, Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    chunk_size: int | None,
) -> Callable[P, Any]:
    """`jacfwd`; errors name the `caller`."""
    check_callable(caller, fun)
    numbers = (argnums,) if isinstance(argnums, int) else as_numbers(argnums, "argnums")

    @wraps(fun)
    def jacobian(*args: P.args, **kwargs: P.kwargs) -> Any:
        chosen = _checked_arguments(caller, fun, numbers, args, holomorphic, forward=True)
        x = pytree.map(narrowed_scalar, tuple(args[i] for i in chosen))
        aux_leaves, aux_tree = pytree.flatten(())

        def push(x_dot: Any) -> Any:
            nonlocal aux_leaves, aux_tree
            out, out_dot, *aux = jvp(as_function_of(chosen, fun, args, kwargs), x, x_dot, has_aux=has_aux)
            leaves, aux_tree = pytree.flatten(aux)
            arrays = [leaf if isinstance(leaf, Array) else None for leaf in leaves]
            aux_leaves = [leaf if array is None else None for array, leaf in zip(arrays, leaves, strict=True)]
            return out, out_dot, arrays

        out, columns, arrays = _mapped_basis(push, x, (None, -1, None), chunk_size)
        # Data that is no array goes around the map, which would make arrays of numbers, and refuse the rest.
        leaves = [leaf if array is None else array for array, leaf in zip(arrays, aux_leaves, strict=True)]
        aux = pytree.unflatten(aux_tree, leaves)
        if holomorphic:
            check_results_differentiable(caller, fun, out, holomorphic)
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
    *,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """The Jacobian, row by row in reverse mode: best for many inputs and few outputs.

    Each leaf of the result has the axes of a result of `fun`, then those of an argument. Complex arguments are taken as
    by `grad`; `jacfwd` takes them with `holomorphic` only. The other options are those of `grad`, too. With a
    `chunk_size`, so many rows are computed at a time: the result is the same, and needs less memory on the way. Raises
    TypeError for arguments or results that cannot be differentiated.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.jacrev(lambda x: x * x)(dnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    return _jacrev("jacrev", fun, argnums, has_aux, holomorphic, allow_int, chunk_size)


def _jacrev(
    caller: str,
    fun: Callable[P, Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    chunk_size: int | None,
) -> Callable[P, Any]:
    """`jacrev`; errors name the `caller`."""
    check_callable(caller, fun)
    numbers = (argnums,) if isinstance(argnums, int) else as_numbers(argnums, "argnums")

    @wraps(fun)
    def jacobian(*args: P.args, **kwargs: P.kwargs) -> Any:
        chosen = _checked_arguments(caller, fun, numbers, args, holomorphic, allow_int=allow_int)
        x = pytree.map(narrowed_scalar, tuple(args[i] for i in chosen))
        out, pull, *aux = vjp(as_function_of(chosen, fun, args, kwargs), *x, has_aux=has_aux)
        check_results_differentiable(caller, fun, out, holomorphic)
        rows = _mapped_basis(pull, out, 0, chunk_size)
        blocks = _split_outputs(pytree.map(_as_weak_as, x, rows), out)
        return _assembled(out, blocks, argnums, aux)

    return api_boundary(jacobian)


def _checked_arguments(
    name: str,
    fun: Callable[..., Any],
    numbers: Sequence[int],
    args: tuple[Any, ...],
    holomorphic: bool,
    *,
    allow_int: bool = False,
    forward: bool = False,
) -> list[int]:
    """The positions that `numbers` stand for, each of an argument that the derivative can be taken by."""
    chosen = chosen_arguments(name, fun, numbers, args)
    avals = chosen_avals(name, fun, args, chosen, flatten_arguments(tuple(args[i] for i in chosen), {})[0])
    check_arguments_differentiable(name, fun, args, chosen, avals, holomorphic, allow_int, forward=forward)
    return chosen


def _assembled(out: Any, blocks: Sequence[Any], argnums: int | Sequence[int], aux: Sequence[Any]) -> Any:
    """The Jacobian in the structure of the results, from a tuple of blocks for each result; `aux` beside it, if any."""
    jac = pytree.unflatten(pytree.structure(out), [b[0] if isinstance(argnums, int) else b for b in blocks])
    return (jac, *aux) if aux else jac


@api_boundary
def hessian(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[P, Any]:
    """The matrix of second derivatives: forward mode over reverse mode. With a `chunk_size`, so many columns at a time.

    >>> import didax as dx, didax.numpy as dnp
    >>> dx.hessian(lambda x: (x**3).sum())(dnp.array([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    gradient = _jacrev("hessian", fun, argnums, has_aux, holomorphic, False, chunk_size)
    return _jacfwd("hessian", gradient, argnums, has_aux, holomorphic, chunk_size)


def _as_weak_as(like: Any, x: Any) -> Any:
    """A block of a Jacobian, weakly typed where `like` is: the argument in reverse mode, the result in forward mode."""
    return convert_element_type(x, x.dtype, aval_of(like).weak_type) if isinstance(x, Array) else x


def _mapped_basis(f: Callable[[Any], Any], tree: Any, out_axes: Any, chunk_size: int | None) -> Any:
    """`f` of all unit vectors; in chunks, each is made when its turn comes."""
    total = sum(aval_of(x).size for x in pytree.leaves(tree))
    size = checked_size("jacfwd, jacrev and hessian", "chunk_size", chunk_size)
    if size is None or not is_chunked(size, total):
        return vmap(f, out_axes=out_axes)(_standard_basis(tree))
    numbers = np.arange(total, dtype=np.int32)

    def along(i: Any) -> Any:
        return f(_unit_vector(tree, i))

    return vmap(along, out_axes=out_axes, chunk_size=size)(numbers)


def _unit_vector(tree: Any, i: Any) -> Any:
    """The unit vector of that number."""
    leaves, structure = pytree.flatten(tree)
    units: list[Any] = []
    for x, start, stop in _ranges(leaves):
        aval = aval_of(x)
        places = reshape(iota(np.dtype(np.int32), (stop - start,), 0), aval.shape)
        is_one = eq(places, sub(i, np.int32(start)))
        tangent = aval.tangent()
        is_number = tangent.dtype != dtypes.float0
        units.append(
            convert_element_type(is_one, tangent.dtype, aval.weak_type)
            if is_number
            else np.zeros(aval.shape, dtypes.float0)
        )
    return pytree.unflatten(structure, units)


def _standard_basis(tree: Any) -> Any:
    """All unit vectors of the space that the leaves together are a vector of, along a new leading axis of each leaf."""
    leaves, structure = pytree.flatten(tree)
    total = sum(aval_of(x).size for x in leaves)
    units: list[Any] = []
    for x, start, stop in _ranges(leaves):
        aval = aval_of(x)
        if is_symbolic(total):
            units.append(_units(total, start, aval))
            continue
        unit = np.eye(total, stop - start, -start, dtype=aval.tangent().dtype).reshape(total, *aval.shape)
        units.append(ConcreteArray(ShapedArray(unit.shape, unit.dtype, aval.weak_type), unit))
    return pytree.unflatten(structure, units)


def _units(total: Any, start: Any, aval: ShapedArray) -> Any:
    """The unit vectors along one array, whose elements follow `start` others."""
    shape, counts = (total, aval.size), np.dtype(np.int32)
    rows, columns = iota(counts, shape, 0), iota(counts, shape, 1)
    own = eq(sub(rows, number(start, counts)), columns)
    return reshape(convert_element_type(own, aval.tangent().dtype, aval.weak_type), (total, *aval.shape))


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
    stops = list(itertools.accumulate([aval_of(x).size for x in leaves]))
    return list(zip(leaves, [0, *stops], stops, strict=False))
