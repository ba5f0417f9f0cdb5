"""The classes that `jit(f).trace(x)`, `.lower()` and `.compile()` return, for annotations and `isinstance`.

`Collective` is what `.compile().collectives()` lists. Read next: `api/stages.py`.
"""

from didax.api.jit import JitFunction as Wrapped
from didax.api.stages import ArgInfo, Compiled, CompilerOptions, Lowered, Traced
from didax.xla.device_text import Collective

__all__ = ["ArgInfo", "Collective", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]
