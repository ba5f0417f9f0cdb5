"""`Space`: the kinds of memory that an array may be in, for programs that name them. Read next: `core/memory.py`."""

from didax.core.memory import Space

__all__ = ["Space"]
