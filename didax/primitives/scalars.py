"""Python scalars beside arrays: they take the dtype of the arrays, and stay weakly typed where that is a default dtype.

    match_scalars([x, 2.0])    x, and 2.0 in the dtype of x

Read next: `families.py`; `core/dtypes.py` for promotion among arrays, which is another matter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from didax.core import config, dtypes
from didax.core.avals import aval_of
from didax.core.dtypes import PYTHON_SCALARS
from didax.core.errors import message


def match_scalars(args: Sequence[Any]) -> list[Any]:
    """Give Python scalars the dtype of the arrays beside them; they stay Python scalars where that is a default dtype.

    Without an array they all take the widest of their Python types, as in Python's arithmetic.
    """
    for x in args:
        if type(x) not in PYTHON_SCALARS:
            dtype = aval_of(x).dtype
            return [scalar_like(y, dtype) if type(y) in PYTHON_SCALARS else y for y in args]
    widest = max(map(type, args), key=lambda t: dtypes.KIND_RANKS[PYTHON_SCALARS[t]], default=bool)
    return [widest(x) for x in args]


def scalar_like(x: Any, dtype: np.dtype[Any]) -> Any:
    """A Python scalar as a scalar of `dtype`: still a Python scalar, hence weak, where that is a default dtype."""
    key = type(x), dtype, config.state().enable_x64
    make = _scalar_makers.get(key)
    if make is None:
        make = _scalar_makers[key] = _scalar_maker(x, dtype)
    return make(x)


# By type of the scalar, dtype of the array and enable_x64. The dtypes are few.
_scalar_makers: dict[tuple[type[Any], np.dtype[Any], bool], Callable[[Any], Any]] = {}


def _scalar_maker(x: Any, dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    kind = dtypes.kind_of(dtype)
    if type(x) not in PYTHON_SCALARS:
        fact = f"given: {x!r:.100} of type {type(x).__name__}"
        raise TypeError(
            message("A factor is a Python number here.", fact, fix="Pass float(x), or multiply the array.")
        )
    if kind == "x":
        return functools.partial(dtypes.numpy_scalar, dtype=dtype)  # which raises
    if dtypes.KIND_RANKS[PYTHON_SCALARS[type(x)]] > dtypes.KIND_RANKS[kind]:
        raise TypeError(
            message(
                f"A Python {type(x).__name__} does not fit an array of {dtypes.dtype_name(dtype)}.",
                f"scalar: {x!r}",
                fix="Cast the array first (x.astype), or use didax.numpy, which promotes.",
            )
        )
    if (python_type := dtypes.python_type(dtype)) is not None:
        return python_type
    return np.errstate(all="ignore")(lambda x: dtypes.numpy_scalar(x, dtype))
