"""`transform`: rotations of space."""

from typing import TYPE_CHECKING

from didax.core.modules import on_access

__all__ = ["transform"]

if TYPE_CHECKING:
    from didax.scipy.spatial import transform
else:
    __getattr__, __dir__ = on_access(__name__, "transform")
