"""Modules of `jax.experimental`: `checkify`, `jet`, `ode`, `io_callback`, `compilation_cache`, `multihost_utils`,
`layout`, `rnn`, `serialize_executable`, `sparse`, and older homes of `pjit`, `shard_map` and `mesh_utils`. `random` is
imported by its own name, as in JAX: `from didax.experimental import random`.

Beyond JAX there are `implicit` and `sparse_derivatives`.

Each module is loaded when it is first used. Read next: `ode.py`, `implicit.py`.
"""

from typing import TYPE_CHECKING

from didax.api.callbacks import io_callback
from didax.core.modules import on_access

__all__ = [
    "checkify",
    "compilation_cache",
    "implicit",
    "io_callback",
    "jet",
    "layout",
    "mesh_utils",
    "multihost_utils",
    "ode",
    "pjit",
    "rnn",
    "serialize_executable",
    "shard_map",
    "sparse",
    "sparse_derivatives",
]

if TYPE_CHECKING:
    from didax.experimental import (
        checkify,
        compilation_cache,
        implicit,
        jet,
        layout,
        mesh_utils,
        multihost_utils,
        ode,
        pjit,
        rnn,
        serialize_executable,
        shard_map,
        sparse,
        sparse_derivatives,
    )
else:
    __getattr__, __dir__ = on_access(__name__, *(name for name in __all__ if name != "io_callback"))
