"""`Space`: the kinds of memory that an array may be in, for programs that name them. Read next: `core/memory.py`."""

from typing import TYPE_CHECKING

from didax.core.memory import Space
from didax.core.modules import on_access

__all__ = ["Space"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)
