"""Logic on bools, which are integers of one bit, and the bits of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core import dtypes
from didax.primitives import numpy_rules
from didax.primitives.families import binary, unary


def _popcnt_lower(ctx: Any, x: Any) -> Any:
    """Count bits; integers narrower than a byte count as unsigned: XLA would count copies of the sign bit in a byte."""
    dtype = x.aval.dtype
    unsigned = dtypes.dtype(f"u{dtype.name.removeprefix('u')}") if dtypes.is_packed(dtype) else dtype
    return ctx.convert(ctx.op("popcnt", [ctx.convert(x, unsigned)]), dtype)


and_ = binary("and", eager=np.bitwise_and, accepts="biu")
or_ = binary("or", eager=np.bitwise_or, accepts="biu")
xor = binary("xor", eager=np.bitwise_xor, accepts="biu")
not_ = unary("not", eager=np.invert, accepts="biu")
shift_left = binary("shift_left", eager=numpy_rules.shift_left, accepts="iu")
shift_right_arithmetic = binary(
    "shift_right_arithmetic", eager=numpy_rules.shift_right_arithmetic, accepts="iu"
)
shift_right_logical = binary("shift_right_logical", eager=numpy_rules.shift_right_logical, accepts="iu")
population_count = unary(
    "population_count", eager=numpy_rules.population_count, accepts="iu", lower=_popcnt_lower
)
clz = unary("clz", hlo="count_leading_zeros", eager=numpy_rules.count_leading_zeros, accepts="iu")
