"""Elementwise primitives: arithmetic, comparison, logic, elementary and special functions, as tables of operations.

A name that Python has taken ends in an underscore (`max_`, `and_`). An operation that NumPy lacks has no eager rule,
and runs compiled. Read in this order: `arithmetic.py`, `elementary.py`, then any other.
"""

from didax.primitives.elementwise.arithmetic import add, div, mul, neg, square, sub
from didax.primitives.elementwise.comparisons import comparison, eq, ge, gt, le, lt, ne
from didax.primitives.elementwise.elementary import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cbrt,
    cos,
    cosh,
    exp,
    exp2,
    expm1,
    log,
    log1p,
    logistic,
    rsqrt,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)
from didax.primitives.elementwise.error_functions import erf, erf_inv, erfc, no_derivative
from didax.primitives.elementwise.extrema import clamp, max_, min_
from didax.primitives.elementwise.logic_and_bits import (
    and_,
    clz,
    not_,
    or_,
    population_count,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
    xor,
)
from didax.primitives.elementwise.powers import integer_pow, pow_
from didax.primitives.elementwise.rounding import (
    RoundingMethod,
    ceil,
    floor,
    is_finite,
    nextafter,
    rem,
    round_,
)
from didax.primitives.elementwise.signs_and_parts import abs_, complex_, conj, imag, real, real_part, sign
