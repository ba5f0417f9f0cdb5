"""StableHLO modules as bytes that later versions of XLA read: portable artifacts.

Read next: `didax/export.py`, what users call.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from typing import Any

from didax.xla.lapack import register_lapack


def serialize_module(text: str) -> bytes:
    """A module as a portable artifact, which jaxlibs of the last weeks and all later ones of half a year read."""
    from didax.xla.client import xe  # pyright: ignore[reportAttributeAccessIssue]

    stablehlo = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
    weeks = stablehlo.StablehloCompatibilityRequirement.WEEK_4
    return xe.mlir.serialize_portable_artifact(
        text, stablehlo.get_version_from_compatibility_requirement(weeks)
    )


def module_text(artifact: bytes) -> str:
    """The text of the module in an artifact."""
    from didax.xla.client import xe  # pyright: ignore[reportAttributeAccessIssue]

    ir: Any = importlib.import_module("jaxlib.mlir.ir")
    with ir.Context():
        module = xe.mlir.deserialize_portable_artifact(artifact)
        return str(module if isinstance(module, ir.Module) else ir.Module.parse(module))


_DEFINITION = re.compile(r"func\.func (?:public |private )?@([\w.$-]+|\"[^\"]*\")")


class ArtifactFunctions:
    """The functions of an artifact under names of their own, all private: `main` is the name of its main function."""

    def __init__(self, artifact: bytes):
        text = module_text(artifact)
        body = text[text.index("{\n", text.index("module")) + 2 : text.rindex("}")]
        if "attributes {" in text[: text.index("\n")]:
            body = text[text.index("\n") + 1 : text.rindex("}")]
        prefix = f"exported_{hashlib.sha256(artifact).hexdigest()[:16]}"
        names = {name: f"@{prefix}_{i}" for i, name in enumerate(_DEFINITION.findall(body))}
        pattern = re.compile(
            "|".join(rf"@{re.escape(name)}(?![\w.$-])" for name in sorted(names, key=len, reverse=True))
        )
        body = pattern.sub(lambda found: names[found.group()[1:]], body)
        self.text = re.sub(r"func\.func (?:public |private )?@", "func.func private @", body).rstrip()
        self.main = names["main"][1:]
        if "@lapack_" in self.text:
            register_lapack()
