"""The greatest common divisor of integers, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core.avals import aval_of
from didax.primitives.composed import composed
from didax.primitives.control_flow.while_loop import while_of, while_p
from didax.primitives.elementwise import abs_, eq, ne, rem
from didax.primitives.reductions import reduce_or_p
from didax.primitives.scalars import scalar_like
from didax.primitives.select import where
from didax.primitives.shape import broadcast_in_dim


def _euclid(x: Any, y: Any) -> Any:
    """Euclid's algorithm, as many steps as one of the pairs needs; a pair that has arrived stays as it is."""
    shape, dtype = aval_of(x).shape, aval_of(x).dtype
    zero, one = [broadcast_in_dim(scalar_like(n, dtype), shape, ()) for n in (0, 1)]

    def goes_on(_: Any, y: Any) -> Any:
        return reduce_or_p.bind(ne(y, zero), axes=tuple(range(len(shape))))

    def step(x: Any, y: Any) -> list[Any]:
        is_done = eq(y, zero)
        return [where(is_done, x, y), where(is_done, zero, rem(x, where(is_done, one, y)))]

    found, _ = while_of(while_p.run, goes_on, step, [abs_(x), abs_(y)])
    return abs_(found)  # the smallest integer is its own absolute value


gcd = composed("gcd", _euclid, None, None, eager=np.gcd, accepts="iu")
