"""`didax.checkify` under its name in JAX: `from didax.experimental import checkify`."""

from didax.checkify import *  # noqa: F403  (the public names of the module)
