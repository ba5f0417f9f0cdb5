"""Programs and libraries written for JAX, unchanged, on Didax.

    python -m didax.as_jax script.py arguments...        runs a program
    python -m didax.as_jax -m pytest ...                 runs a module
    python -m didax.as_jax --check path/                 lists the names of jax that sources use

    import didax.as_jax
    didax.as_jax.install()                               the same, as the first lines of a program or a conftest

After `install()` the statement `import jax` gives modules of this layer, one for each public module of jax. Their
contents come from Didax, by the table in `table.py`. A jax that is installed is neither imported nor needed. A name
that is missing raises an error that says so; `missing()` lists them all.
Read next: `hook.py` (how imports find the modules), `docs/from-jax.md`.
"""

from __future__ import annotations

from didax.as_jax.hook import JAX_VERSION, install, installed, missing

__all__ = ["JAX_VERSION", "install", "installed", "missing"]
