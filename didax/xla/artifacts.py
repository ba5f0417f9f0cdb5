"""StableHLO modules as bytes that later versions of XLA read: portable artifacts.

Read next: `didax/export/_exported.py`, what users call.
"""

from __future__ import annotations

import functools
import importlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from didax.core.avals import ShapedArray
from didax.core.errors import message
from didax.xla.lapack import register_lapack
from didax.xla.text import tensor_type


def serialize_module(text: str) -> bytes:
    """A module as a portable artifact, which jaxlibs of the last four weeks and of the next six months read."""
    from didax.xla.client import xe  # pyright: ignore[reportAttributeAccessIssue]

    stablehlo = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
    weeks = stablehlo.StablehloCompatibilityRequirement.WEEK_4
    version = stablehlo.get_version_from_compatibility_requirement(weeks)
    return xe.mlir.serialize_portable_artifact(text, version, True)  # meshes stay as Shardy writes them


def module_text(artifact: bytes) -> str:
    """The text of the module in an artifact."""
    from didax.xla.client import xe  # pyright: ignore[reportAttributeAccessIssue]

    ir: Any = importlib.import_module("jaxlib.mlir.ir")
    with ir.Context():
        try:
            module = xe.mlir.deserialize_portable_artifact(artifact)
        except Exception as error:
            rule = "The StableHLO module of an exported program cannot be read: it is damaged, or of a later version."
            facts = f"bytes: {len(artifact)}", str(error)[:200]
            raise ValueError(message(rule, *facts, fix="Export it again, or update jaxlib.")) from None
        return str(module if isinstance(module, ir.Module) else ir.Module.parse(module))


def refined_text(text: str, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> str:
    """A module whose types leave dimensions open (`tensor<?x3xf32>`), refined for arguments of these types.

    Raises what XLA raises where the module asserts other shapes.
    """
    from didax.xla.client import xe  # pyright: ignore[reportAttributeAccessIssue]

    functions = ArtifactFunctions(text)
    signature = re.search(rf"func\.func private @{functions.main}\((.*)\) -> (.*) {{", functions.text)
    assert signature is not None
    found, results = [re.findall(r"tensor<[^<>]*(?:<[^<>]*>)?[^<>]*>", part) for part in signature.groups()]
    types, outs = [[tensor_type(aval) for aval in avals] for avals in (in_avals, out_avals)]
    lines = [
        f"    %c{i} = stablehlo.convert %a{i} : ({own}) -> {open_}"
        for i, (own, open_) in enumerate(zip(types, found, strict=True))
    ]
    operands = ", ".join(f"%c{i}" for i in range(len(found)))
    called = f"func.call @{functions.main}({operands}) : ({', '.join(found)}) -> ({', '.join(results)})"
    bound = f"%r:{len(outs)} = {called}" if outs else called
    given = [f"%r#{i}" for i in range(len(outs))]
    lines += [
        f"    %o{i} = stablehlo.convert {x} : ({open_}) -> {own}"
        for i, (x, open_, own) in enumerate(zip(given, results, outs, strict=True))
    ]
    parameters = ", ".join(f"%a{i}: {own}" for i, own in enumerate(types))
    returned = ", ".join(f"%o{i}" for i in range(len(outs)))
    main = "\n".join(
        [
            f"  func.func public @main({parameters}) -> ({', '.join(outs)}) {{",
            *lines[: len(found)],
            f"    {bound}",
            *lines[len(found) :],
            f"    return {returned} : {', '.join(outs)}" if outs else "    return",
            "  }",
        ]
    )
    meshes = "\n".join(functions.declared_meshes(functions.meshes))
    module = f"module @refined {{\n{meshes}\n{main}\n{functions.text}\n}}\n"
    return _text(xe.mlir.refine_polymorphic_shapes(mlir_module=module.encode()))


def stablehlo_context() -> Any:
    """A context of MLIR that knows the dialects of programs."""
    ir: Any = importlib.import_module("jaxlib.mlir.ir")
    dialects: Any = importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext")
    stablehlo: Any = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
    others: list[Any] = [importlib.import_module(f"jaxlib.mlir.dialects.{name}") for name in ("chlo", "sdy")]
    registry = ir.DialectRegistry()
    dialects.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (stablehlo, *others):
        dialect.register_dialect(context)
    return context


def _text(bytecode: bytes) -> str:
    """The text of a module."""
    ir: Any = importlib.import_module("jaxlib.mlir.ir")
    with stablehlo_context():
        return str(ir.Module.parse(bytecode))


_MESH = re.compile(r"^ *sdy\.mesh @([\w.$-]+) = (<\[(.*?)\](?:, device_ids=\[(.*?)\])?>).*\n", re.MULTILINE)
_ANNOTATION = r"sdy\.sharding = #sdy\.sharding(?:<[^<>]*>|_per_value<\[(?:<[^<>]*>(?:, )?)*\]>)"
_ANNOTATIONS = re.compile(f"{_ANNOTATION}, |, {_ANNOTATION}|{_ANNOTATION}")
_CONSTRAINT = re.compile(r"sdy\.sharding_constraint (%[\w#]+) <[^<>]*> :")
_CHANNEL = re.compile(r"channel_handle = #stablehlo\.channel_handle<[^<>]*>")


class DeclaredMesh(NamedTuple):
    """A mesh that a module names: its text, the names and lengths of its axes, the numbers of its devices."""

    text: str
    axes: tuple[tuple[str, int], ...]
    order: tuple[int, ...]


_DEFINITION = re.compile(r"func\.func (?:public |private )?@([\w.$-]+|\"[^\"]*\")")


class ArtifactFunctions:
    """The functions of a module under names of their own, all private: `main` is the name of its main function.

    `wide_index` is for modules of several platforms, which take the number of the platform first: as int64 where JAX
    wrote them with 64-bit numbers. `meshes` are those that the text names; it does not declare them.
    """

    def __init__(self, text: str):
        body = text[text.index("{\n", text.index("module")) + 2 : text.rindex("}")]
        if "attributes {" in text[: text.index("\n")]:
            body = text[text.index("\n") + 1 : text.rindex("}")]
        self.meshes: dict[str, DeclaredMesh] = {}
        for name, text_of_mesh, axes, order in _MESH.findall(body):
            lengths = tuple([(axis, int(size)) for axis, size in re.findall(r'"([^"]*)"=(\d+)', axes)])
            numbers = (
                tuple(map(int, order.split(",")))
                if order
                else tuple(range(math.prod(dict(lengths).values())))
            )
            self.meshes[name] = DeclaredMesh(text_of_mesh, lengths, numbers)
        body = _MESH.sub("", body)
        import hashlib  # on first need

        prefix = f"exported_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        names = {name: f"@{prefix}_{i}" for i, name in enumerate(_DEFINITION.findall(body))}
        pattern = re.compile(
            "|".join(rf"@{re.escape(name)}(?![\w.$-])" for name in sorted(names, key=len, reverse=True))
        )
        body = pattern.sub(lambda found: names[found.group()[1:]], body)
        self.text = re.sub(r"func\.func (?:public |private )?@", "func.func private @", body).rstrip()
        self.main = names["main"][1:]
        self.wide_index = re.search(rf"@{self.main}\(%\w+: tensor<i64>", self.text) is not None
        if "@lapack_" in self.text:
            register_lapack()

    def declared_meshes(self, names: Iterable[str]) -> list[str]:
        """The lines that declare the meshes under these names."""
        return [
            f"sdy.mesh @{name} = {mesh.text}" for name, mesh in zip(names, self.meshes.values(), strict=True)
        ]

    def with_meshes(self, names: Iterable[str], channel: Callable[[], str]) -> str:
        """The text with these names for its meshes, and with channels of communication of its own."""
        return _CHANNEL.sub(lambda _: channel(), self._renamed(self.text, names))

    def _renamed(self, text: str, names: Iterable[str]) -> str:
        new = dict(zip(self.meshes, names, strict=True))
        return re.sub(r"<@([\w.$-]+)(?=[,>])", lambda found: f"<@{new[found[1]]}", text)

    @functools.cached_property
    def on_one_device(self) -> str:
        """The text for one device, without shardings, as everything lies there anyway; a `shard_map` keeps its mesh."""
        text = _CONSTRAINT.sub(r"stablehlo.convert \1 :", _ANNOTATIONS.sub("", self.text))
        if "sdy." not in text:
            return text
        names = [f"{self.main}_mesh{i}" for i, _ in enumerate(self.meshes)]
        return "\n".join([*self.declared_meshes(names), self._renamed(text, names)])

    @property
    def counts_devices(self) -> bool:
        """Whether parts of it are written for each device of a mesh, as in `shard_map`."""
        return "sdy.manual_computation" in self.text or _CHANNEL.search(self.text) is not None
