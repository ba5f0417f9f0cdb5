"""Layouts of arrays in the memory of a device, as `jax.experimental.layout` has them: stated, and chosen by XLA.

`x.format` and `compiled.output_formats` say how arrays lie. Read next: `core/layout.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from didax.core.errors import api_boundary
from didax.core.layout import Format, Layout, check_rank
from didax.core.modules import on_access

__all__ = ["Format", "Layout", "with_layout_constraint"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)

T = TypeVar("T")


@api_boundary
def with_layout_constraint(x: T, layouts: Layout) -> T:
    """The array itself, as XLA chooses the order of its elements in memory. ArgumentError for axes that it lacks.

    >>> import didax.numpy as dnp
    >>> float(with_layout_constraint(dnp.ones((2, 3)), Layout((1, 0))).sum())
    6.0
    """
    array: Any = x
    check_rank(layouts, array.shape)
    return x
