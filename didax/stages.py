"""The classes that `jit(f).trace(x)`, `.lower()` and `.compile()` return, for annotations and `isinstance`.

Read next: `api/stages.py`.
"""

from didax.api.jit import JitFunction as Wrapped
from didax.api.stages import ArgInfo, Compiled, Lowered, Traced

__all__ = ["ArgInfo", "Compiled", "Lowered", "Traced", "Wrapped"]
