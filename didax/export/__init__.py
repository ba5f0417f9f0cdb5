"""Programs that outlive their Python: exported, written to a file, read and called in another process.

    data = export(jit(f))(x).serialize(vjp_order=1)        in one process, then, in another,
    y = deserialize(data).call(x)

A program is saved for the types of its arguments, whose shapes may have names in the place of numbers
(`symbolic_shape`), with its vjps up to an order; no pickle. Names and files follow `jax.export`.
Read next: `docs/export.md`; `_exported.py`, `_symbolic.py`, `_file.py`.
"""

from typing import TYPE_CHECKING

from didax.core.modules import on_access
from didax.export._exported import (
    DisabledSafetyCheck,
    Exported,
    default_export_platform,
    deserialize,
    export,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
    register_namedtuple_serialization,
    register_pytree_node_serialization,
)
from didax.export._symbolic import SymbolicScope, is_symbolic_dim, symbolic_args_specs, symbolic_shape

__all__ = [
    "DisabledSafetyCheck",
    "Exported",
    "SymbolicScope",
    "default_export_platform",
    "deserialize",
    "export",
    "is_symbolic_dim",
    "maximum_supported_calling_convention_version",
    "minimum_supported_calling_convention_version",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
    "symbolic_args_specs",
    "symbolic_shape",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)
