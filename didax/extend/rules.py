"""What the rules of a primitive are written with.

Families make elementwise primitives of two to four lines (`unary`, `binary`), `LinearUnary` the jvp of a linear one. A
jvp rule meets `Zero`s, tangents that are known to vanish; a transpose rule tells its linear operands with `is_undef`;
a batch rule is given an `AxisData`; a lowering rule writes StableHLO into a `FunctionContext`, from and to `Value`s, or
is written as a function of arrays: `lower_as`. Read next: `docs/extending.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from didax.core.array_ops import Zero, add_tangents, instantiate
from didax.core.modules import on_access
from didax.primitives.families import Elementwise, binary, unary
from didax.primitives.shape import LinearUnary
from didax.transforms.batching import AxisData, move_batch_axis
from didax.transforms.transpose import Undef, is_undef
from didax.xla.lowering import lower_as
from didax.xla.text import FunctionContext, Value

__all__ = [
    "AxisData", "Elementwise", "FunctionContext", "LinearUnary", "Undef", "Value", "Zero", "add_tangents", "binary",
    "instantiate", "is_undef", "lower_as", "move_batch_axis", "unary",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)
