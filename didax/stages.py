"""The classes that `jit(f).trace(x)`, `.lower()` and `.compile()` return, for annotations and `isinstance`.

Read next: `api/stages.py`.
"""

from didax.api.jit import JitFunction as Wrapped
from didax.api.stages import ArgInfo, Compiled, Lowered, Traced

CompilerOptions = dict[str, bool | int | float | str]

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]
