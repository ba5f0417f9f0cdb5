"""Jacobians and Hessians that are mostly zeros, as SciPy's sparse matrices: `sparse_jacobian`, `sparse_hessian`.

Where elements can differ from zero is read off the program (`didax/passes/sparsity.py`). Columns without a common row
are computed by one jvp, along the sum of their unit vectors, or rows without a common column by one vjp: a tridiagonal
matrix of any size takes three passes. A few full rows (or columns) among the others are computed by themselves, and a
Hessian is taken to be symmetric where that saves passes. Which columns and rows go together is found by greedy
colouring: Curtis, Powell, Reid (1974), On the estimation of sparse Jacobian matrices.
Read next: `didax/passes/colouring.py`; `didax/api/jacobians.py`, for dense ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from didax.api.argnums import chosen_arguments
from didax.api.autodiff import grad, jvp, vjp
from didax.api.chunks import checked_size
from didax.api.flat import check_callable
from didax.api.jit import jit
from didax.api.vmap import vmap
from didax.core import dtypes, pytree
from didax.core.avals import aval_of
from didax.core.errors import api_boundary, message
from didax.core.modules import on_access
from didax.core.tracing import Tracer
from didax.flatten_util import ravel_pytree
from didax.passes.colouring import Colouring, cheapest
from didax.passes.sparsity import Dependence, dependence, independent

__all__ = ["SparseJacobian", "sparse_hessian", "sparse_jacobian"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def sparse_jacobian(
    fun: Callable[..., Any], argnums: int = 0, *, chunk_size: int | None = None
) -> SparseJacobian:
    """The Jacobian of `fun` as a SciPy `csr_array`, in as few passes as colouring its pattern finds.

    The argument and the result may be pytrees: a column is an element of the argument, a row one of the result, in the
    order of `flatten_util.ravel_pytree`. The pattern holds for all values of the arguments, and is found once for their
    types. Entries of 16 bits are given in float32, as SciPy has no such matrices. With a `chunk_size`, so many
    passes run at a time.

    Raises TypeError for an argument or result that is not a real floating-point array, and under other transformations:
    a SciPy matrix holds numbers.

    >>> import didax.numpy as dnp
    >>> jacobian = sparse_jacobian(lambda x: x[1:] * x[:-1])
    >>> jacobian(dnp.arange(4.0)).toarray()
    array([[1., 0., 0., 0.],
           [0., 2., 1., 0.],
           [0., 0., 3., 2.]], dtype=float32)
    >>> jacobian.passes(dnp.arange(4.0))
    2
    """
    check_callable("sparse_jacobian", fun)
    return SparseJacobian("sparse_jacobian", fun, argnums, chunk_size)


@api_boundary
def sparse_hessian(
    fun: Callable[..., Any], argnums: int = 0, *, chunk_size: int | None = None
) -> SparseJacobian:
    """The matrix of second derivatives of a scalar function, as `sparse_jacobian` of its gradient.

    An entry may be computed as its mirror image: the matrix is symmetric where second derivatives are continuous.

    >>> import didax.numpy as dnp
    >>> sparse_hessian(lambda x: (x[1:] * x[:-1] ** 2).sum())(dnp.arange(3.0)).toarray()
    array([[2., 0., 0.],
           [0., 4., 2.],
           [0., 2., 0.]], dtype=float32)
    """
    check_callable("sparse_hessian", fun)
    return SparseJacobian("sparse_hessian", grad(fun, argnums), argnums, chunk_size)


class SparseJacobian:
    """What `sparse_jacobian` returns: a function from the arguments of `fun` to the matrix; see there.

    >>> import didax.numpy as dnp
    >>> jacobian = sparse_jacobian(lambda x: x[1:] * x[:-1])
    >>> jacobian.sparsity(dnp.arange(3.0)).toarray()
    array([[ True,  True, False],
           [False,  True,  True]])
    >>> jacobian(dnp.arange(3.0)).toarray()
    array([[1., 0., 0.],
           [0., 2., 1.]], dtype=float32)
    """

    def __init__(self, caller: str, fun: Callable[..., Any], argnums: int, chunk_size: int | None):
        if not isinstance(argnums, (int, np.integer)):
            rule = f"{caller} differentiates by one positional argument, which may be a pytree."
            raise TypeError(message(rule, f"argnums: {argnums}", fix="Pass the number of an argument."))
        self._caller, self._fun, self._argnums = caller, fun, int(argnums)
        self._chunk_size = checked_size(caller, "chunk_size", chunk_size)
        self._plans: dict[Any, _Plan] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        plan = self._plan(args, kwargs)
        from scipy.sparse import csr_array

        x, rest = self._split(args)
        found = [np.asarray(run(x, seeds, rest, kwargs)).ravel() for run, seeds in plan.runs]
        values = np.concatenate(found)[plan.colouring.places] if found else np.zeros(0, plan.dtype)
        values = values.astype(plan.dtype if plan.dtype.itemsize >= 4 else np.float32)
        return csr_array((values, plan.pattern.indices, plan.pattern.indptr), plan.pattern.shape)

    def sparsity(self, *args: Any, **kwargs: Any) -> Any:
        """Where the matrix may differ from zero, as a `csr_array` of bools."""
        return self._plan(args, kwargs).pattern.copy()

    def passes(self, *args: Any, **kwargs: Any) -> int:
        """How many jvps or vjps give the matrix."""
        return self._plan(args, kwargs).colouring.passes

    def _split(self, args: Any) -> tuple[Any, tuple[Any, ...]]:
        """The argument to differentiate by, and the others."""
        (i,) = chosen_arguments(self._caller, self._fun, [self._argnums], args)
        return args[i], (*args[:i], *args[i + 1 :])

    def _plan(self, args: Any, kwargs: Any) -> _Plan:
        leaves, tree = pytree.flatten((args, kwargs))
        if any(isinstance(x, Tracer) for x in leaves):
            rule = f"{self._caller} returns a SciPy matrix, which holds numbers: no argument can be traced."
            traced = next(x for x in leaves if isinstance(x, Tracer))
            raise TypeError(message(rule, *traced.facts(), fix="Call it outside of jit, grad and vmap."))
        key = tree, tuple(map(aval_of, leaves))
        if key not in self._plans:
            self._plans[key] = self._planned(args, kwargs)
        return self._plans[key]

    def _planned(self, args: Any, kwargs: Any) -> _Plan:
        x, rest = self._split(args)
        flat_x, unravel = ravel_pytree(x)
        i = self._argnums % len(args)

        def flat(vector: Any, rest: Any, kwargs: Any) -> Any:
            arguments = [*rest[:i], unravel(vector), *rest[i:]]
            return ravel_pytree(self._fun(*arguments, **kwargs))[0]

        traced = jit(flat).trace(flat_x, rest, kwargs)
        *_, out = traced.jaxpr.jaxpr.outvars
        for what, aval in (("the argument", aval_of(flat_x)), ("the result", out.aval)):
            if not dtypes.is_float(aval.dtype):
                rule = f"{self._caller} takes real floating-point arguments to real floating-point results."
                raise TypeError(message(rule, f"{what}: {aval}", fix="Cast it, or use jacfwd or jacrev."))
        pattern = _pattern(traced, aval_of(flat_x).size, out.aval.size)
        found = cheapest(pattern, is_symmetric=self._caller == "sparse_hessian")
        runs = [
            (jit(functools.partial(run, flat, unravel, self._chunk_size)), _seeds(colours, aval.dtype))
            for run, colours, aval in (
                (_forward, found.columns, aval_of(flat_x)),
                (_reverse, found.rows, out.aval),
            )
            if (colours >= 0).any()
        ]
        return _Plan(pattern, found, runs, out.aval.dtype)


class _Plan(NamedTuple):
    """How the matrix is computed for arguments of given types."""

    pattern: Any
    colouring: Colouring
    runs: list[tuple[Any, Any]]  # functions that do jvps or vjps, each with the vectors to do them along
    dtype: np.dtype[Any]


def _pattern(traced: Any, n: int, m: int) -> Any:
    from scipy.sparse import csr_array, identity

    program, consts = traced.jaxpr.jaxpr, traced.jaxpr.consts
    refs, (x, *others) = traced.num_captured, program.invars[len(consts) :]
    inputs = [
        *map(independent, consts[: len(consts) - refs]),
        *(Dependence(v.aval) for v in program.invars[len(consts) - refs : len(consts)]),
        Dependence(x.aval, rows=csr_array(identity(n, dtype="bool"))),
        *(Dependence(v.aval) for v in others),
    ]
    *_, out = dependence(program, inputs)
    rows = csr_array((m, n), dtype=bool) if out.rows is None else csr_array(out.rows)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows.sort_indices()
    return rows


def _seeds(colours: Any, dtype: Any) -> Any:
    """For each colour the sum of the unit vectors of that colour."""
    return (colours == np.arange(colours.max(initial=-1) + 1)[:, None]).astype(dtype)


def _forward(flat: Any, unravel: Any, chunk_size: Any, x: Any, seeds: Any, rest: Any, kwargs: Any) -> Any:
    vector = ravel_pytree(x)[0]
    return vmap(lambda s: jvp(lambda v: flat(v, rest, kwargs), (vector,), (s,))[1], chunk_size=chunk_size)(
        seeds
    )


def _reverse(flat: Any, unravel: Any, chunk_size: Any, x: Any, seeds: Any, rest: Any, kwargs: Any) -> Any:
    pull = vjp(lambda v: flat(v, rest, kwargs), ravel_pytree(x)[0])[1]
    return vmap(lambda s: pull(s)[0], chunk_size=chunk_size)(seeds)
