"""Functions of SciPy on Didax arrays, with the names and arguments of `jax.scipy`.

    from didax.scipy import special
    from didax.scipy.sparse.linalg import cg

Each module is loaded when it is first used. Read next: `special.py`, `linalg/`, `stats/`, `signal.py`.
"""

from typing import TYPE_CHECKING

from didax.core.modules import on_access

__all__ = [
    "cluster",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
]

if TYPE_CHECKING:
    from didax.scipy import (
        cluster,
        fft,
        integrate,
        interpolate,
        linalg,
        ndimage,
        optimize,
        signal,
        sparse,
        spatial,
        special,
        stats,
    )
else:
    __getattr__, __dir__ = on_access(__name__, *__all__)
