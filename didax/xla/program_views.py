"""What XLA and MLIR make of a StableHLO text before it is compiled: objects, HLO, costs.

Read next: `didax/api/stages.py`, what users call.
"""

from __future__ import annotations

import importlib
from typing import Any

from didax.xla.artifacts import stablehlo_context


def module_of(text: str) -> Any:
    """The module as an MLIR object."""
    ir: Any = importlib.import_module("jaxlib.mlir.ir")
    with stablehlo_context():
        return ir.Module.parse(text)


def computation_of(text: str) -> Any:
    """The module as XLA's computation."""
    from didax.xla.client import xe  # pyright: ignore[reportAttributeAccessIssue]

    return xe.mlir.mlir_module_to_xla_computation(text, use_tuple_args=False, return_tuple=False)


def hlo_text(text: str) -> str:
    """The module as HLO text."""
    return computation_of(text).as_hlo_module().to_string()


def cost_of(text: str) -> dict[str, float]:
    """XLA's estimate of the work of the module as it is written."""
    from didax.xla.client import backend, calling_backend, xe  # pyright: ignore[reportAttributeAccessIssue]

    # Plugins for accelerators cannot estimate costs. Before it is optimised, the program is the same everywhere.
    started = backend() if backend().platform == "cpu" else calling_backend(0)
    return xe.hlo_module_cost_analysis(started.client, computation_of(text).as_hlo_module())
