"""What `with_refs` of a vjp is told of each cotangent, and what it returns in its place: as `jax.ad`.

Read next: `VJPFunction` in `api/linear_functions.py`.
"""

from typing import TYPE_CHECKING

from didax.api.linear_functions import DidntWant, DontWant, GradRef, GradValue
from didax.core.modules import on_access

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)
