"""Tools that look into running programs: prints, callbacks, checks, NaNs, breakpoints; where arrays lie on devices.

Read next: `docs/debugging.md`, a page with examples.
"""

from didax.api.callbacks import debug_callback as callback
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

__all__ = [
    "breakpoint",
    "callback",
    "check",
    "debug_mode",
    "inspect_array_sharding",
    "log",
    "print",
    "sharding_svg",
    "visualize_array_sharding",
    "visualize_sharding",
]
