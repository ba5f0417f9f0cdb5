"""Tools that look into programs: prints, callbacks, checks, NaNs, progress, graphs; where arrays lie on devices.

Read next: `docs/debugging.md`, a page with examples.
"""

from typing import TYPE_CHECKING

from didax.api.callbacks import debug_callback as callback
from didax.core.effects import DebugEffect, OrderedDebugEffect
from didax.core.modules import on_access
from didax.debug._breakpoint import breakpoint
from didax.debug._check import check
from didax.debug._mode import debug_mode
from didax.debug._print import log, print
from didax.debug._sharding import (
    inspect_array_sharding,
    sharding_svg,
    visualize_array_sharding,
    visualize_sharding,
)

if TYPE_CHECKING:
    from didax.debug._graph import graph as graph
    from didax.debug._progress import progress as progress
else:
    __getattr__, __dir__ = on_access(__name__, graph="_graph", progress="_progress")

__all__ = [
    "DebugEffect",
    "OrderedDebugEffect",
    "breakpoint",
    "callback",
    "check",
    "debug_mode",
    "graph",
    "inspect_array_sharding",
    "log",
    "print",
    "progress",
    "sharding_svg",
    "visualize_array_sharding",
    "visualize_sharding",
]
