"""Functions that choose among arrays element by element, or limit values to an interval.

Read next: `primitives/select.py`; `clamp` is a row of `primitives/elementwise/`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from didax.core import dtypes
from didax.core.avals import aval_of
from didax.core.errors import message
from didax.lax.operands import operation
from didax.primitives import elementwise
from didax.primitives import select as ops
from didax.primitives.convert import convert_element_type
from didax.primitives.scalars import match_scalars

__all__ = ["clamp", "select", "select_n"]

_INT32 = np.dtype(np.int32)


@operation
def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """Return `on_true` where the boolean `pred` holds, `on_false` elsewhere; scalars stretch, dtypes must agree.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.select(np.array([True, False]), np.float32([1, 2]), 0.0)
    Array([1., 0.], dtype=float32)
    """
    aval = aval_of(pred)
    if aval.dtype.kind != "b":
        raise TypeError(
            message(
                "select chooses by booleans.",
                f"pred: {aval}",
                fix="Compare it with something (lax.ne(pred, 0)), or choose by integers with select_n.",
            )
        )
    return ops.where(pred, *match_scalars((on_true, on_false)))


@operation
def select_n(which: Any, *cases: Any) -> Any:
    """Return, element by element, the case that `which` numbers: 0 or False is the first case.

    `which` is boolean (for one or two cases) or integer, where an index out of range takes the nearest case.
    The cases have one dtype and the shape of `which`; scalars stretch.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.select_n(np.int32([2, 0, 1]), 10.0, 20.0, np.float32([30, 31, 32]))
    Array([30., 10., 20.], dtype=float32)
    """
    kind = aval_of(which).dtype
    if dtypes.is_integer(kind) and kind != _INT32 and cases:
        wide = kind.itemsize >= _INT32.itemsize  # may hold numbers that int32 does not
        nearest = clamp(0, which, len(cases) - 1) if wide else which
        which = convert_element_type(nearest, _INT32)
    return ops.select_n(which, *match_scalars(cases))


@operation
def clamp(min: Any, x: Any, max: Any) -> Any:
    """Return `x` limited to [min, max]; NaN stays. The derivative by `x` is zero at the limits and beyond.

    Complex numbers are limited in lexicographic order, and truth values too, by `max` and `min`.

    >>> import numpy as np
    >>> from didax import lax
    >>> lax.clamp(0.0, np.float32([-1, 0.5, 2]), 1.0)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    if dtypes.kind_of(aval_of(x).dtype) in "bc":
        return elementwise.min_(elementwise.max_(min, x), max)
    return elementwise.clamp(min, x, max)
