"""The classes that `jit(f).trace(x)`, `.lower()` and `.compile()` return, for annotations and `isinstance`.

`Collective` is what `.compile().collectives()` lists. Read next: `api/stages.py`.
"""

from typing import TYPE_CHECKING

from didax.api.jit import JitFunction as Wrapped
from didax.api.stages import ArgInfo, Compiled, CompilerOptions, Lowered, Traced
from didax.core.modules import on_access
from didax.xla.device_text import Collective

__all__ = ["ArgInfo", "Collective", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)
