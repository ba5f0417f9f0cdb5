"""A pytree of arrays as one vector, and back: `ravel_pytree`.

For what works on vectors and is used on parameters: norms, random directions, Hessians, solvers of other libraries.
Read next: `didax/tree/__init__.py`, for work on the leaves as they are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import didax.numpy as dnp
from didax import lax, tree
from didax.core.errors import api_boundary, message
from didax.core.value import Array

__all__ = ["ravel_pytree"]


@api_boundary
def ravel_pytree(pytree: Any) -> tuple[Array, Callable[[Any], Any]]:
    """The leaves of a pytree one after the other, in the dtype they promote to, and the function that puts them back.

    That function takes a vector of this length, ValueError otherwise, and returns the pytree, each leaf in its own
    shape. Leaves of one dtype take that of the vector, such as a complex one. Where they differ, each keeps its own,
    and a vector of another dtype than that of the first result raises TypeError.

    >>> flat, unravel = ravel_pytree({"w": dnp.ones((2, 2)), "b": 3.0})
    >>> flat
    Array([3., 1., 1., 1., 1.], dtype=float32)
    >>> unravel(flat * 2)["w"].shape
    (2, 2)
    """
    leaves, structure = tree.flatten(pytree)
    arrays = [dnp.asarray(leaf) for leaf in leaves]
    dtype = dnp.result_type(*(a.dtype for a in arrays)) if arrays else dnp.zeros(0).dtype
    types = [(a.shape, a.dtype) for a in arrays]
    is_mixed = len({dtype for _, dtype in types}) > 1
    flat = dnp.concatenate([dnp.ravel(a).astype(dtype) for a in arrays]) if arrays else dnp.zeros(0)
    ends = list(itertools.accumulate(math.prod(shape) for shape, _ in types))

    @api_boundary
    def unravel(flat: Any) -> Any:
        flat = _check_vector(flat, ends[-1] if ends else 0, dtype if is_mixed else None)
        starts = [0, *ends[:-1]]
        parts = [
            lax.convert_element_type(flat[start:end].reshape(shape), dtype if is_mixed else flat.dtype)
            for start, end, (shape, dtype) in zip(starts, ends, types, strict=False)
        ]
        return tree.unflatten(structure, parts)

    return flat, unravel


def _check_vector(flat: Any, size: int, dtype: Any) -> Array:
    """The vector; an error for another length, and for another dtype if one is wanted."""
    array = dnp.asarray(flat)
    wanted = array.dtype if dtype is None else dtype
    for holds, error in ((array.shape == (size,), ValueError), (array.dtype == wanted, TypeError)):
        if not holds:
            raise error(
                message(
                    "unravel takes a vector of the size and dtype that ravel_pytree returned.",
                    f"given: {array.dtype.name}{list(array.shape)}, wanted: {wanted.name}[{size}]",
                    fix="Ravel another pytree for another size; convert with .astype for another dtype.",
                )
            )
    return array
