"""Types for annotations: `ArrayLike` for arguments that functions take as arrays, `DTypeLike` for dtypes.

def normalise(x: didax.typing.ArrayLike) -> didax.Array: ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from didax.core.dtypes import DTypeLike
from didax.core.modules import on_access
from didax.core.value import Array

__all__ = ["ArrayLike", "DTypeLike"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
