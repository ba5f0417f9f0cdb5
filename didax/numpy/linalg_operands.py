"""The operands of linear algebra: arrays of an inexact dtype that hold matrices in their last two axes.

Integers count as default floats. Read next: `linalg.py`, `didax/scipy/linalg/`.
"""

from __future__ import annotations

from typing import Any

from didax.core.value import Array
from didax.numpy.promotion import as_array, cast, inexact
from didax.primitives.linalg import matrix


def inexact_array(name: str, x: Any, argument: str = "a") -> Array:
    """Return `x` in an inexact dtype."""
    value = as_array(name, x, argument)
    return cast(value, inexact(value.dtype, value.weak_type)[0])


def matrices(name: str, x: Any, argument: str = "a") -> Array:
    """Return `x` in an inexact dtype; ArgumentError unless its last two axes are matrices that LAPACK takes."""
    value = inexact_array(name, x, argument)
    matrix.check_matrices(name, value.aval, argument)
    return value


def square_matrices(name: str, x: Any, argument: str = "a") -> Array:
    """Return `x` in an inexact dtype; ArgumentError unless it holds square matrices."""
    value = inexact_array(name, x, argument)
    matrix.check_square(name, value.aval, argument)
    return value
