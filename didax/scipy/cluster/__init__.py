"""`vq`: vector quantisation."""

from typing import TYPE_CHECKING

from didax.core.modules import on_access

__all__ = ["vq"]

if TYPE_CHECKING:
    from didax.scipy.cluster import vq
else:
    __getattr__, __dir__ = on_access(__name__, "vq")
