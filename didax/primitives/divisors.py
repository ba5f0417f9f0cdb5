"""The greatest common divisor of integers, element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.avals import aval_of
from didax.primitives.composed import composed
from didax.primitives.elementwise import abs_, eq, rem
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim


def _euclid(x: Any, y: Any) -> Any:
    """Euclid's algorithm, with as many steps as the width of the dtype can need."""
    x, y = abs_(x), abs_(y)
    dtype, shape = aval_of(x).dtype, aval_of(x).shape
    zero, one = [broadcast_in_dim(scalar_like(n, dtype), shape, ()) for n in (0, 1)]
    # Lamé: consecutive Fibonacci numbers need the most steps.
    for _ in range(math.ceil(1.45 * dtypes.iinfo(dtype).bits)):
        is_done = eq(y, zero)
        x, y = where(is_done, x, y), where(is_done, zero, rem(x, where(is_done, one, y)))
    return abs_(x)  # the smallest integer is its own absolute value


gcd = composed("gcd", _euclid, None, None, eager=np.gcd, accepts="iu")
