"""`pjit`, the name that `jit` with shardings had in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from didax.api.jit import jit
from didax.core.errors import api_boundary
from didax.core.modules import on_access

__all__ = ["pjit"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


@api_boundary
def pjit(
    fun: Callable[..., Any], in_shardings: Any = None, out_shardings: Any = None, **options: Any
) -> Callable[..., Any]:
    """As `didax.jit`.

    >>> import didax.numpy as dnp
    >>> from didax.experimental.pjit import pjit
    >>> pjit(lambda x, n: x**n, static_argnums=1)(dnp.arange(3.0), 2)
    Array([0., 1., 4.], dtype=float32)
    """
    asked = {"in_shardings": in_shardings, "out_shardings": out_shardings}
    return jit(fun, **{name: x for name, x in asked.items() if x is not None}, **options)
