"""`linalg`: solvers that use a matrix only through its products with vectors."""

from typing import TYPE_CHECKING

from didax.core.modules import on_access

__all__ = ["linalg"]

if TYPE_CHECKING:
    from didax.scipy.sparse import linalg
else:
    __getattr__, __dir__ = on_access(__name__, "linalg")
