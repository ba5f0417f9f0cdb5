"""`loaded_p`: the call of a compiled program that was read from bytes, and has neither a jaxpr nor a text.

Read next: `didax/runtime/loaded.py`, which runs it; `didax/experimental/serialize_executable.py`, for users.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from didax.core.avals import ShapedArray
from didax.core.primitive import Primitive
from didax.primitives.exported import drawn_from_all

_COMPILED = (
    "a program that was compiled elsewhere is only called; transform the function, and save what that gives"
)


class CallLoaded(Primitive):
    """`loaded_call[results=(f32[3],)] x y`: the results of the program, of these types."""

    multiple_results = True
    holes = dict.fromkeys(("eager", "lower", "jvp", "transpose", "batch"), _COMPILED)

    def type(self, *avals: ShapedArray, results: tuple[ShapedArray, ...]) -> Sequence[ShapedArray]:
        return results

    def keys(self, line: Any, operands: Sequence[Any], *, results: tuple[ShapedArray, ...]) -> list[None]:
        return drawn_from_all(line, operands, len(results))


loaded_p = CallLoaded("loaded_call")
