"""`number`: the length of an axis as a number of a program, also where it is symbolic: x / x.shape[0] for x of f32[b].

Read next: `didax/core/dims.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.dims import Dim
from didax.core.given import give
from didax.core.primitive import Primitive
from didax.primitives import padded
from didax.primitives.convert import convert_element_type


class DimensionValue(Primitive):
    """`dimension_value_p.bind(size=b, dtype=int32)`: the size, as a weakly typed integer.

    Without a dtype, as exported programs were once written, it has the default width.
    """

    holes = dict.fromkeys(("jvp", "transpose", "batch"), "it has no operands")
    padded = padded.dimension

    def type(self, *, size: Any, dtype: np.dtype[Any] | None = None) -> ShapedArray:
        return ShapedArray((), dtypes.default_dtype(int) if dtype is None else dtype, True)

    def lower(self, ctx: Any, *, size: Any, dtype: np.dtype[Any] | None = None) -> Any:
        return ctx.constant(size, ctx.out_avals[0])


dimension_value_p = DimensionValue("dimension_value")


@give(Dim, "__jax_array__")
def _number(self: Dim) -> Any:
    return dimension_value_p.bind(size=self, dtype=dtypes.default_dtype(int))


def number(n: Any, dtype: np.dtype[Any]) -> Any:
    """A length as a scalar of a dtype; for a symbolic one, whose number the program computes, an array."""
    return convert_element_type(_number(n), dtype) if type(n) is Dim else dtype.type(n)
