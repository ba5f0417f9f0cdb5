"""What functions of `didax.lax` do with NumPy's scalars: they have the dtype that NumPy's arrays have here.

    lax.mul(x, np.sqrt(2))      # of a float32 x, although np.sqrt(2) is an np.float64

Inside the library a NumPy scalar is a constant whose dtype is stated; what a user passes is not, so it is
narrowed here, at the door. Read next: `narrowed` in `core/dtypes.py`, `elementwise.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from didax.api.flat import narrowed_scalar
from didax.core.errors import api_boundary

P = ParamSpec("P")
R = TypeVar("R")


def operation(f: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function of arrays and scalars: `api_boundary`, and 64-bit NumPy scalars narrow."""

    @functools.wraps(f)
    def narrowing(*args: Any, **kwargs: Any) -> R:
        named = {name: narrowed_scalar(x) for name, x in kwargs.items()} if kwargs else kwargs
        return cast("Callable[..., R]", f)(*[narrowed_scalar(x) for x in args], **named)

    return api_boundary(cast("Callable[P, R]", narrowing))
