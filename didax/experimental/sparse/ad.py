"""`grad`, `value_and_grad`, `jacfwd`, `jacrev` with respect to sparse arrays: by their entries.

    sparse.grad(lambda A, x: (A @ x).sum())(A, x)       a sparse array with the entries at the places of A

The indices are integers, with respect to which nothing is differentiated.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from didax.api import autodiff, jacobians
from didax.core import pytree
from didax.core.errors import api_boundary
from didax.experimental.sparse._base import JAXSparse


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


class _Entries:
    """Arguments with the entries of sparse arrays in place of the arrays, and the way back."""

    def __init__(self, args: Sequence[Any], argnums: int | Sequence[int]):
        self.args = list(args)
        one = not isinstance(argnums, Sequence)
        self.argnums = [operator.index(i) for i in ([argnums] if one else argnums)]  # type: ignore[list-item, union-attr]
        self.leaves = [x for i in self.argnums for x in pytree.leaves(args[i], is_leaf=_is_sparse)]

    def flat_args(self) -> list[Any]:
        """The arguments to differentiate at."""
        out = list(self.args)
        for i in self.argnums:
            out[i] = pytree.map(lambda x: x.data if _is_sparse(x) else x, out[i], is_leaf=_is_sparse)
        return out

    def whole_args(self, given: Sequence[Any]) -> list[Any]:
        """The arguments of the user's function."""
        out = list(given)
        for i in self.argnums:
            leaves, tree = pytree.flatten(self.args[i], is_leaf=_is_sparse)
            data = pytree.leaves(given[i])
            out[i] = pytree.unflatten(tree, [_placed(x, d) for x, d in zip(leaves, data, strict=True)])
        return out

    def placed(self, derivatives: Any) -> Any:
        """Derivatives, with sparse arrays where they are with respect to one."""
        leaves, tree = pytree.flatten(derivatives)
        count = len(self.leaves)
        return pytree.unflatten(tree, [_placed(self.leaves[k % count], d) for k, d in enumerate(leaves)])


def _placed(like: Any, data: Any) -> Any:
    return like._with_data(data) if _is_sparse(like) else data


def _sparse_aware(name: str, transform: Callable[..., Any], valued: bool = False) -> Callable[..., Any]:
    def derivative(
        fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **options: Any
    ) -> Callable[..., Any]:
        @functools.wraps(fun)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            entries = _Entries(args, argnums)

            def of_entries(*given: Any, **kwargs: Any) -> Any:
                return fun(*entries.whole_args(given), **kwargs)

            run = transform(of_entries, argnums=argnums, has_aux=has_aux, **options)
            out = run(*entries.flat_args(), **kwargs)
            if valued:
                return out[0], entries.placed(out[1])
            return (entries.placed(out[0]), out[1]) if has_aux else entries.placed(out)

        return api_boundary(wrapped)

    derivative.__name__ = derivative.__qualname__ = name
    derivative.__doc__ = f"""As `didax.{name}`; derivatives with respect to a sparse array are sparse, at its places.

    >>> import didax.numpy as dnp
    >>> from didax.experimental import sparse
    >>> a, x = sparse.BCOO.fromdense(dnp.array([[0.0, 2.0], [1.0, 0.0]])), dnp.array([1.0, 10.0])
    >>> sparse.grad(lambda a, x: (a @ x).sum())(a, x).data  # of the entries 2 and 1
    Array([10.,  1.], dtype=float32)
    >>> value, derivative = sparse.value_and_grad(lambda a, x: (a @ x).sum())(a, x)
    >>> value, derivative
    (Array(21., dtype=float32), BCOO(float32[2, 2], nse=2))
    >>> sparse.jacrev(lambda a, x: a @ x)(a, x).todense().shape
    (2, 2, 2)
    """
    return derivative


grad = _sparse_aware("grad", autodiff.grad)
value_and_grad = _sparse_aware("value_and_grad", autodiff.value_and_grad, valued=True)
jacfwd = _sparse_aware("jacfwd", jacobians.jacfwd)
jacrev = jacobian = _sparse_aware("jacrev", jacobians.jacrev)
