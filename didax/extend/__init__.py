"""What programs that extend the library need: `didax.extend.random` defines random generators."""

from didax.extend import random

__all__ = ["random"]
