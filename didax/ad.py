"""What `with_refs` of a vjp is told of each cotangent, and what it returns in its place: as `jax.ad`.

Read next: `VJPFunction` in `api/linear_functions.py`.
"""

from didax.api.linear_functions import DidntWant, DontWant, GradRef, GradValue

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]
