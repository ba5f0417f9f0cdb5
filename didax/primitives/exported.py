"""`exported_p`: the call of a program that was exported, of which there is a StableHLO module and no Python.

Read next: `didax/export.py`, what users call; `didax/xla/artifacts.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from didax.core.avals import ShapedArray
from didax.core.primitive import Primitive
from didax.xla.artifacts import ArtifactFunctions
from didax.xla.text import FunctionContext, Value, function_type, names

_NO_PYTHON = (
    "an exported program has no Python that could be transformed; export what vmap, or grad, of it returns"
)


class Artifact:
    """A module as bytes, and the types of its inputs and outputs. Compared by its bytes."""

    __slots__ = ("data", "in_avals", "name", "out_avals")

    def __init__(
        self, name: str, data: bytes, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
    ):
        self.name, self.data = name, data
        self.in_avals, self.out_avals = tuple(in_avals), tuple(out_avals)

    def __eq__(self, other: object) -> bool:
        return type(other) is Artifact and other.data == self.data and other.out_avals == self.out_avals

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return self.name


class CallExported(Primitive):
    """`exported_p.bind(*args, artifact=artifact)`: the outputs of the module."""

    multiple_results = True
    holes = dict.fromkeys(("jvp", "transpose", "batch"), _NO_PYTHON)

    def type(self, *avals: ShapedArray, artifact: Artifact) -> Sequence[ShapedArray]:
        return artifact.out_avals

    def lower(self, ctx: FunctionContext, *args: Value, artifact: Artifact) -> list[Value]:
        functions = _functions(artifact.data)
        if functions.text not in ctx.module.functions:
            ctx.module.functions.append(functions.text)
        outs = artifact.out_avals
        return ctx.emit_many(
            f"func.call @{functions.main}({names(args)}) : {function_type(args, outs)}", outs
        )


@functools.lru_cache(maxsize=64)
def _functions(data: bytes) -> ArtifactFunctions:
    return ArtifactFunctions(data)


exported_p = CallExported("exported_call")
