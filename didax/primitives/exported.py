"""`exported_p`: the call of an exported program, which is a StableHLO module and no Python.

Read next: `didax/export/_exported.py`, what users call; `didax/xla/artifacts.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from didax.core.avals import ShapedArray
from didax.core.errors import message
from didax.core.mesh import Mesh
from didax.core.primitive import Primitive
from didax.passes.key_reuse import DRAWN, Keys
from didax.xla.artifacts import ArtifactFunctions, module_text, refined_text
from didax.xla.device_text import DeviceWriter
from didax.xla.text import FunctionContext, Value, function_type, names

_NO_PYTHON = (
    "an exported program has no Python that could be transformed; export what vmap, or grad, of it returns"
)
_INT32, _INT64 = [ShapedArray((), np.dtype(name)) for name in ("int32", "int64")]


class Artifact:
    """A module as bytes, and how it is called.

    Args:
      in_avals, out_avals: the types of a call.
      kept: the arguments that the module takes, by number.
      platform_index: what a module for several platforms takes first: the number of the platform.
      symbolic: whether types of the module have dimensions of any size.
      devices: how many the module is for; a module for one device computes on each device of a program.
    """

    __slots__ = ("data", "devices", "in_avals", "kept", "name", "out_avals", "platform_index", "symbolic")

    def __init__(
        self,
        name: str,
        data: bytes,
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        kept: Sequence[int],
        platform_index: int | None = None,
        symbolic: bool = False,
        devices: int = 1,
    ):
        self.name, self.data = name, data
        self.in_avals, self.out_avals = tuple(in_avals), tuple(out_avals)
        self.kept, self.platform_index, self.symbolic = tuple(kept), platform_index, symbolic
        self.devices = devices

    @property
    def physical(self) -> Artifact:
        """The same program, of the words of keys."""
        words, results = [[aval.physical for aval in avals] for avals in (self.in_avals, self.out_avals)]
        more = self.kept, self.platform_index, self.symbolic, self.devices
        return Artifact(self.name, self.data, words, results, *more)

    def _key(self) -> object:
        return self.data, self.in_avals, self.out_avals, self.kept, self.platform_index

    def __eq__(self, other: object) -> bool:
        return type(other) is Artifact and other._key() == self._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return self.name


def drawn_from_all(line: Any, operands: Sequence[Any], num_results: int) -> list[None]:
    """The `keys` rule of a program that does not say what it does with keys: it counts as drawing from all of them."""
    for x in operands:
        if isinstance(x, Keys):
            x.use(DRAWN, line)
    return [None] * num_results


class CallExported(Primitive):
    """`exported_p.bind(*args, artifact=artifact)`: the outputs of the module."""

    multiple_results = True
    holes = dict.fromkeys(("jvp", "transpose", "batch"), _NO_PYTHON)

    def type(self, *avals: ShapedArray, artifact: Artifact) -> Sequence[ShapedArray]:
        return artifact.out_avals

    def keys(self, line: Any, operands: Sequence[Any], *, artifact: Artifact) -> list[None]:
        return drawn_from_all(line, operands, len(artifact.out_avals))

    def physical(self, avals: Sequence[ShapedArray], *args: Any, artifact: Artifact) -> Any:
        return self.bind(*args, artifact=artifact.physical)

    def lower(self, ctx: FunctionContext, *args: Value, artifact: Artifact) -> list[Value]:
        functions = _functions(artifact)
        if not any(f"@{functions.main}(" in text for text in ctx.module.functions):
            ctx.module.functions.append(_placed(artifact, functions, ctx.module.devices))
        operands = [args[i] for i in artifact.kept]
        if artifact.platform_index is not None:
            index = _INT64 if functions.wide_index else _INT32
            operands.insert(0, ctx.constant(index.dtype.type(artifact.platform_index), index))
        outs = artifact.out_avals
        return ctx.emit_many(
            f"func.call @{functions.main}({names(operands)}) : {function_type(operands, outs)}", outs
        )


def _placed(artifact: Artifact, functions: ArtifactFunctions, devices: DeviceWriter | None) -> str:
    """The functions' text, for the devices of the program that is being written."""
    own = () if devices is None else devices.partition.devices
    inside = devices is not None and devices.manual is not None
    count = max(len(own), 1)
    if count == artifact.devices == 1 or (artifact.devices == 1 and not functions.counts_devices):
        return functions.on_one_device
    if devices is None or count != artifact.devices or inside:
        rule = f"The exported program {artifact.name} runs on as many devices as it was exported for."
        where = ", within a shard_map" if inside else ""
        facts = f"exported for: {artifact.devices}, called in a program of {count}{where}"
        raise ValueError(message(rule, facts, fix="Call it with arrays that lie on that many devices."))
    return functions.with_meshes(map(devices.mesh, meshes_of(artifact, own)), devices.channel)


def meshes_of(artifact: Artifact, devices: Sequence[Any]) -> list[Mesh]:
    """The meshes that the module names, of these devices."""
    return [
        Mesh(
            np.array([devices[i] for i in mesh.order]).reshape([size for _, size in mesh.axes]),
            tuple([axis for axis, _ in mesh.axes]),
        )
        for mesh in _functions(artifact).meshes.values()
    ]


@functools.lru_cache(maxsize=64)
def _functions(artifact: Artifact) -> ArtifactFunctions:
    text = module_text(artifact.data)
    if artifact.symbolic:
        operands = [artifact.in_avals[i] for i in artifact.kept]
        if artifact.platform_index is not None:
            operands.insert(0, _INT32)
        text = refined_text(text, operands, artifact.out_avals)
    return ArtifactFunctions(text)


exported_p = CallExported("exported_call")
