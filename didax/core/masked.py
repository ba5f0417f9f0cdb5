"""Masked arrays of NumPy's, which no function of the library takes.

An array here has no mask, so that `numpy.asarray` of a masked array would silently show the elements that it hides.
Read next: `avals.py`, where values of other libraries are typed.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from didax.core import dtypes
from didax.core.errors import ArgumentError, message


def check_no_mask(x: Any, *where: str) -> None:
    """ArgumentError for a masked array of NumPy's, whose mask would be lost; `where` are facts about the argument."""
    if isinstance(x, np.ma.MaskedArray):
        masked = cast("np.ndarray[Any, Any]", x)
        found = f"{dtypes.dtype_name(masked.dtype)}{list(masked.shape)}"
        raise ArgumentError(
            message(
                "Arrays have no masks, so a masked array of NumPy's cannot become one.",
                *where,
                f"got: {found} with {int(np.ma.getmaskarray(masked).sum())} of {masked.size} elements masked",
                fix="Pass x.filled(value), or x.data and ~x.mask as two arrays and choose with didax.numpy.where.",
            )
        )
