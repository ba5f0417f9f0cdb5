"""`ravel_pytree`: a pytree of arrays as one vector, and back.

This is for methods that work on vectors and are used on parameters: norms, random directions, Hessians,
solvers of other libraries. Read next: `didax/tree/__init__.py`, for work on the leaves themselves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import didax.numpy as dnp
from didax import lax, tree
from didax.core.errors import api_boundary, message
from didax.core.modules import on_access
from didax.core.value import Array

__all__ = ["ravel_pytree"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def ravel_pytree(pytree: Any) -> tuple[Array, Callable[[Any], Any]]:
    """Return the leaves of a pytree joined to one vector, and a function that makes such a pytree of a vector.

    The leaves are promoted to their common dtype.

    The function takes a vector of the same length (ValueError otherwise) and returns a pytree with leaves of
    the original shapes. Where all leaves have one dtype, the new leaves get the dtype of the vector, for
    example a complex dtype. Where the dtypes of the leaves differ, each leaf keeps its dtype, and a vector of
    any dtype other than the common dtype raises TypeError.

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
    """Return the vector; raise an error for another length, and for another dtype if one is required."""
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
