"""Elements that are no numbers: a dtype of your own, each element of which stands on a small array of numbers.

Make an `ExtendedDtype` with a scalar type of your own (a class derived from `extended`), and make it known by its name
with `register_extended`. Arrays of it are indexed, reshaped, stacked, mapped, carried through loops and compiled like
any other; what an element means is said by primitives of yours, in their `physical` rule.
Read next: `docs/extending.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from didax.core.dtypes import ExtendedDtype, as_extended, extended, register_extended
from didax.core.modules import on_access

__all__ = ["ExtendedDtype", "as_extended", "extended", "register_extended"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)
