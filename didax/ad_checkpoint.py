"""The companions of `checkpoint`: names for values, policies, and reports of what the backward pass keeps.

Read next: `docs/checkpoint.md`; `didax/api/checkpoint.py`.
"""

from typing import TYPE_CHECKING

from didax import checkpoint_policies
from didax.api.checkpoint import Residual, checkpoint_name, print_saved_residuals, saved_residuals
from didax.checkpoint_policies import Offloadable, Recompute, Saveable
from didax.core.modules import on_access

__all__ = [
    "Offloadable",
    "Recompute",
    "Residual",
    "Saveable",
    "checkpoint_name",
    "checkpoint_policies",
    "print_saved_residuals",
    "saved_residuals",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)
